//! Products with a matrix and with its transpose, where the second is computed from the first row by row: one pass over the
//! matrix makes both.
//!
//! The gradient of a linear model, and the product of its Hessian with a vector, read a matrix to multiply it with weights, and
//! once more for what each row adds. A large matrix has left the caches in between. In strips of rows, it is read from memory
//! once. A strip has the rows whose terms the kernel of the second product adds before the others, so the bits are the same.

use smallvec::SmallVec;

use super::plan::{Over, Plan, StripOutput, Strips};
use super::profile::Origin;
use crate::aval::{Aval, Axes, Shape};
use crate::error::Result;
use crate::kernels;
use crate::ops;
use crate::prim::{Params, Var};
use crate::program::{Builder, Program};
use crate::util::FastMap;

/// A strip of the matrix has at most so many bytes: it has to stay in a second-level cache.
const STRIP: usize = 3 << 19;

/// Equations that are computed in one pass over a matrix.
pub(super) struct MatrixPass {
    /// In their order; the last one is the product with the transpose, which strips transpose for themselves.
    pub eqns: Vec<usize>,
    matrix: Var,
    /// How many rows it has, and how many a strip.
    rows: usize,
    height: usize,
    /// What is read, and whether a strip reads its own rows of it.
    inputs: Vec<(Var, bool)>,
}

/// The passes of a program, of which no two have an equation in common.
pub(super) fn find(program: &Program) -> Vec<MatrixPass> {
    let mut passes: Vec<MatrixPass> = Vec::new();
    let calls = |k: usize| [ops::LOOP, ops::HOST].contains(&program.eqns()[k].prim);
    let products: Vec<usize> = (0..program.eqns().len())
        .filter(|&k| transposed_product(program, k).is_some())
        .collect();
    if products.is_empty() || (0..program.eqns().len()).any(calls) {
        return passes;
    }
    let mut taken = vec![false; program.eqns().len()];
    for last in products {
        if let Some(pass) = MatrixPass::of(program, last, &taken) {
            pass.eqns.iter().for_each(|&k| taken[k] = true);
            passes.push(pass);
        }
    }
    passes
}

/// For the product of a transposed matrix with a vector that matrix and the vector.
fn transposed_product(program: &Program, k: usize) -> Option<(Var, Var)> {
    let eqn = &program.eqns()[k];
    let &[a, b] = program.args(eqn) else {
        return None;
    };
    let out = &program.aval(program.result(k)).shape;
    if eqn.prim != ops::MATMUL || out.len() != 2 {
        return None;
    }
    if out[0] == 1 {
        return Some((b, a));
    }
    let turned = program.definition(a)?;
    let is_turned = turned.prim == ops::TRANSPOSE && program.params(turned).axes() == [1, 0];
    (out[1] == 1 && is_turned).then(|| (program.args(turned)[0], b))
}

impl MatrixPass {
    /// The pass that ends with the product of the transposed matrix.
    fn of(program: &Program, last: usize, taken: &[bool]) -> Option<MatrixPass> {
        let (matrix, vector) = transposed_product(program, last)?;
        let aval = program.aval(matrix);
        let &[rows, columns] = &aval.shape[..] else {
            return None;
        };
        let height = kernels::terms_together(columns, rows, aval.dtype)?;
        let is_worth_it = columns > 1 && height < rows;
        if !is_worth_it || height * columns * aval.dtype.size() > STRIP {
            return None;
        }
        let mut pass = MatrixPass {
            eqns: Vec::new(),
            matrix,
            rows,
            height,
            inputs: vec![(matrix, true)],
        };
        // What is computed from products with the matrix, up to the vector.
        let descends = pass.descendants(program, last, taken);
        let mut waiting = vec![vector];
        let mut is_member = vec![false; last];
        while let Some(var) = waiting.pop() {
            let Some(k) = (var as usize).checked_sub(program.num_inputs()) else {
                continue;
            };
            if descends[k] && !std::mem::replace(&mut is_member[k], true) {
                pass.eqns.push(k);
                waiting.extend(program.args(&program.eqns()[k]));
            }
        }
        pass.eqns.sort_unstable();
        for k in pass.eqns.clone() {
            pass.read_by(program, k, &is_member)?;
        }
        let is_empty = pass.eqns.is_empty();
        pass.eqns.push(last);
        (!is_empty && pass.gives_rows(program)).then_some(pass)
    }

    /// Which equations before the last one compute something from a product with the matrix.
    fn descendants(&self, program: &Program, last: usize, taken: &[bool]) -> Vec<bool> {
        let mut descends = vec![false; last];
        for k in 0..last {
            let args = program.args(&program.eqns()[k]);
            let from = |&arg: &Var| {
                let made = (arg as usize).checked_sub(program.num_inputs());
                made.is_some_and(|k| descends[k])
            };
            descends[k] = !taken[k] && (self.is_product(program, k) || args.iter().any(from));
        }
        descends
    }

    /// Whether an equation is a product of the matrix with a vector.
    fn is_product(&self, program: &Program, k: usize) -> bool {
        let eqn = &program.eqns()[k];
        let out = &program.aval(program.result(k)).shape;
        eqn.prim == ops::MATMUL && program.args(eqn)[0] == self.matrix && out[..] == [self.rows, 1]
    }

    /// Notes what an equation of the pass reads; `None` where it is not computed row by row.
    fn read_by(&mut self, program: &Program, k: usize, is_member: &[bool]) -> Option<()> {
        let eqn = &program.eqns()[k];
        let args = program.args(eqn);
        let is_made = |arg: Var| {
            let made = (arg as usize).checked_sub(program.num_inputs());
            made.is_some_and(|k| is_member.get(k) == Some(&true))
        };
        if self.is_product(program, k) {
            let weights = args[1];
            return (!is_made(weights)).then(|| self.read(weights, false))?;
        }
        let aval = program.aval(program.result(k));
        let goes_by_rows = eqn.prim.is_elementwise() || eqn.prim == ops::RESHAPE;
        if !goes_by_rows || !self.is_column(aval) {
            return None;
        }
        // Literals are written where they are read.
        let is_there = |arg: Var| is_made(arg) || program.literal(arg).is_some();
        for &arg in args.iter().filter(|&&arg| !is_there(arg)) {
            let other = program.aval(arg);
            if other.size() == 1 {
                self.read(arg, false)?;
            } else if self.is_column(other) && other.shape[0] == self.rows {
                self.read(arg, true)?;
            } else {
                return None;
            }
        }
        Some(())
    }

    /// Whether an array has one element for each row.
    fn is_column(&self, aval: &Aval) -> bool {
        aval.size() == self.rows && aval.shape.contains(&self.rows)
    }

    /// Notes an input; `None` where it is one in another way.
    fn read(&mut self, var: Var, by_rows: bool) -> Option<()> {
        if let Some(&(_, before)) = self.inputs.iter().find(|(v, _)| *v == var) {
            return (before == by_rows).then_some(());
        }
        self.inputs.push((var, by_rows));
        Some(())
    }

    /// Whether all that is read outside of the pass, but for its product, has rows in front.
    fn gives_rows(&self, program: &Program) -> bool {
        let last = self.last(program);
        let fits = |var: Var| {
            let made = (var as usize).checked_sub(program.num_inputs());
            let is_own = made.is_some_and(|k| self.eqns.binary_search(&k).is_ok());
            !is_own || var == last || program.aval(var).shape.first() == Some(&self.rows)
        };
        let outside = |k: &usize| self.eqns.binary_search(k).is_err();
        let mut others = (0..program.eqns().len()).filter(outside);
        program.outs().iter().all(|&out| fits(out))
            && others.all(|k| {
                program
                    .args(&program.eqns()[k])
                    .iter()
                    .all(|&arg| fits(arg))
            })
    }

    fn last(&self, program: &Program) -> Var {
        program.result(self.eqns[self.eqns.len() - 1])
    }

    /// Whether the pass reads the result of an equation only to multiply with the transpose.
    pub fn transposes(&self, program: &Program, k: usize) -> bool {
        let eqn = &program.eqns()[k];
        eqn.prim == ops::TRANSPOSE && program.args(eqn) == [self.matrix]
    }

    /// What is read, in the order in which the strips read it.
    pub fn inputs(&self) -> impl Iterator<Item = Var> {
        self.inputs.iter().map(|(var, _)| *var)
    }

    /// Which equations it stands for, for profiles.
    pub fn origins(&self, program: &Program) -> Box<[Origin]> {
        Origin::shares(self.eqns.iter().map(|&k| {
            let prim = program.eqns()[k].prim;
            let size = if prim == ops::MATMUL {
                program.aval(self.matrix).size()
            } else {
                self.rows
            };
            (prim, program.site(k), size as f64)
        }))
    }

    /// The plans of its strips, for what is read outside; `plan` plans the program of one.
    pub fn planned(
        &self,
        program: &Program,
        outs: &[Var],
        plan: fn(&Program) -> Result<Plan>,
    ) -> Result<Strips> {
        let outputs = outs.iter().map(|&out| StripOutput {
            aval: program.aval(out).clone(),
            over: if out == self.last(program) {
                Over::Terms
            } else {
                Over::Rows
            },
        });
        let strip = |rows: usize| plan(&self.strip(program, rows, outs)?);
        Ok(Strips {
            main: strip(self.height)?,
            last: match self.rows % self.height {
                0 => None,
                rest => Some(strip(rest)?),
            },
            rows: self.rows,
            height: self.height,
            by_rows: self.inputs.iter().map(|(_, by_rows)| *by_rows).collect(),
            outputs: outputs.collect(),
            otherwise: Some(strip(self.rows)?),
        })
    }

    /// The program of a strip with so many rows.
    fn strip(&self, program: &Program, rows: usize, outs: &[Var]) -> Result<Program> {
        let cut = |shape: &[usize]| -> Shape {
            let cut = |&n: &usize| if n == self.rows { rows } else { n };
            shape.iter().map(cut).collect()
        };
        let builder = Builder::new();
        let mut vars: FastMap<Var, Var> = FastMap::default();
        for &(var, by_rows) in &self.inputs {
            let Aval { dtype, shape } = program.aval(var);
            let mut shape = shape.clone();
            if by_rows {
                shape[0] = rows;
            }
            vars.insert(var, builder.input("", &Aval::new(*dtype, &shape)));
        }
        let last = self.last(program);
        for &k in &self.eqns {
            builder.at(program.site(k));
            let (eqn, out) = (&program.eqns()[k], program.result(k));
            let aval = program.aval(out);
            let args = program.args(eqn);
            let new = if out == last {
                self.transposed(program, k, &builder, &vars)
            } else {
                let value = |arg: &Var| match program.literal(*arg) {
                    Some((dtype, value)) => builder.complex_literal(dtype, value),
                    None => vars[arg],
                };
                let args: SmallVec<[Var; 4]> = args.iter().map(value).collect();
                let params = match program.params(eqn) {
                    Params::Shape(shape) => Params::Shape(cut(shape)),
                    other => other.clone(),
                };
                builder.emit(eqn.prim, params, &args)
            };
            debug_assert_eq!(builder.dtype(new), aval.dtype);
            vars.insert(out, new);
        }
        builder.finish(outs.iter().map(|out| vars[out]).collect())
    }

    /// The product of the transposed strip.
    fn transposed(
        &self,
        program: &Program,
        k: usize,
        builder: &Builder,
        vars: &FastMap<Var, Var>,
    ) -> Var {
        let matrix = vars[&self.matrix];
        let args = program.args(&program.eqns()[k]);
        if args[1] == self.matrix {
            return builder.emit(ops::MATMUL, Params::None, &[vars[&args[0]], matrix]);
        }
        let axes = Params::Axes(Axes::from_slice(&[1, 0]));
        let turned = builder.emit(ops::TRANSPOSE, axes, &[matrix]);
        builder.emit(ops::MATMUL, Params::None, &[turned, vars[&args[1]]])
    }
}
