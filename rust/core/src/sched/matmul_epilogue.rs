//! Matrix products whose result is read by one fused group only, in strips of rows: the group runs over a
//! strip while it is in the cache, and the whole product is never in memory.
//!
//! A strip is a program of its own: the product and the group with fewer rows. What a group sums over the
//! rows is summed strip by strip, and then over the strips; these depend on shapes only, so that any number
//! of threads gives the same bits.

use smallvec::SmallVec;

use super::fuse::{Fusion, Place};
use super::plan::{Over, Plan, StripOutput, Strips};
use crate::aval::{Aval, Shape};
use crate::error::Result;
use crate::kernels::ReduceOp;
use crate::ops;
use crate::prim::{Kernel, Params, Var};
use crate::program::{Builder, Program};
use crate::util::FastMap;

/// A smaller product stays in the caches anyway.
pub(super) const LARGE: usize = 4 << 20;
/// So much of it is computed at a time: about half of a second-level cache.
const STRIP: usize = 1 << 20;
/// A strip has so many rows at least, or the other operand is packed too often.
const ROWS: usize = 16;
/// Behind a longer inner dimension a pass over the result costs next to nothing, beside packing.
const INNER: usize = 128;

/// What a group takes part in: the variables that a step reads and gives.
pub(super) struct Found {
    pub product: usize,
    pub inputs: Vec<Var>,
    pub outputs: Vec<Var>,
    pub strips: Strips,
}

/// For every group the product that it is computed behind, if there is one; nothing where no group has one. `read_outside` says which
/// variables others than their group read, `plan` plans the program of a strip.
pub(super) fn find(
    program: &Program,
    fusion: &Fusion<'_>,
    read_outside: &[bool],
    plan: fn(&Program) -> Result<Plan>,
) -> Result<Vec<Option<Found>>> {
    let mut found: Vec<Option<Found>> = Vec::new();
    let large = |k: usize| {
        program.eqns()[k].prim == ops::MATMUL && program.aval(program.result(k)).nbytes() >= LARGE
    };
    let products: Vec<usize> = (0..program.eqns().len()).filter(|&k| large(k)).collect();
    if products.is_empty() {
        return Ok(found);
    }
    found.resize_with(fusion.groups.len(), || None);
    let readers = Readers::of(program, fusion);
    for product in products {
        if let Some(group) = readers.only_group(program, program.result(product))
            && found[group].is_none()
            && let Some(strip) = Strip::new(program, fusion, product, group, read_outside)
        {
            found[group] = Some(strip.planned(product, plan)?);
        }
    }
    Ok(found)
}

/// Which group reads a variable, if it is one alone.
struct Readers(Vec<Option<Place>>);

impl Readers {
    fn of(program: &Program, fusion: &Fusion<'_>) -> Readers {
        let mut readers: Vec<Option<Place>> = vec![None; program.num_vars()];
        for (k, eqn) in program.eqns().iter().enumerate() {
            // Any place that is no group stands for several.
            let place = if eqn.prim.is_elementwise() || is_reduction(program, k) {
                fusion.places[k]
            } else {
                Place::Literal
            };
            for &arg in program.args(eqn) {
                let reader = &mut readers[arg as usize];
                *reader = Some(match *reader {
                    Some(other) if other != place => Place::Literal,
                    _ => place,
                });
            }
        }
        for &out in program.outs() {
            readers[out as usize] = Some(Place::Literal);
        }
        Readers(readers)
    }

    fn only_group(&self, program: &Program, var: Var) -> Option<usize> {
        let dtype = program.aval(var).dtype;
        match self.0[var as usize] {
            Some(Place::Group(g)) if dtype.is_inexact() => Some(g as usize),
            _ => None,
        }
    }
}

fn is_reduction(program: &Program, k: usize) -> bool {
    matches!(program.eqns()[k].prim.kernel_ref(), Some(Kernel::Reduce(_)))
}

/// A product and a group that can be computed in strips.
struct Strip<'p> {
    program: &'p Program,
    /// Rows of the product, and of a strip.
    rows: usize,
    height: usize,
    /// The product, the equations of the group, and layouts in between, in order.
    eqns: Vec<usize>,
    /// For each variable that an equation makes whether a strip makes some rows of it, or a part of each
    /// element.
    made: FastMap<Var, bool>,
    /// What is read, whether by rows.
    inputs: Vec<(Var, bool)>,
    is_read: FastMap<(Var, bool), ()>,
    outputs: Vec<Var>,
}

impl<'p> Strip<'p> {
    fn new(
        program: &'p Program,
        fusion: &Fusion<'_>,
        product: usize,
        group: usize,
        read_outside: &[bool],
    ) -> Option<Strip<'p>> {
        let out = program.aval(program.result(product));
        let group_of = &fusion.groups[group];
        let [a, _] = program.args(&program.eqns()[product]) else {
            return None;
        };
        let (rows, inner) = (*out.shape.first()?, *program.aval(*a).shape.last()?);
        let height = STRIP / (out.nbytes() / rows).max(1);
        let enough = if out.shape.len() == 2 { ROWS } else { 1 };
        let fits = group_of.shape == out.shape
            && out.shape.len() >= 2
            && (1..=INNER).contains(&inner)
            && height >= enough
            && height < rows;
        if !fits {
            return None;
        }
        let mut this = Strip {
            program,
            rows,
            height,
            eqns: Vec::new(),
            made: FastMap::default(),
            inputs: Vec::new(),
            is_read: FastMap::default(),
            outputs: Vec::new(),
        };
        this.equation(product)?;
        for &k in &group_of.eqns {
            for &arg in program.args(&program.eqns()[k]) {
                this.layouts(fusion, group, arg)?;
            }
            this.equation(k)?;
            let var = program.result(k);
            if read_outside[var as usize] {
                this.outputs.push(var);
            }
        }
        Some(this)
    }

    /// Layouts of what the group makes, which it reads itself.
    fn layouts(&mut self, fusion: &Fusion<'_>, group: usize, arg: Var) -> Option<()> {
        let mut chain: Vec<usize> = Vec::new();
        let mut var = arg;
        while !self.made.contains_key(&var)
            && fusion.row_inside(self.program, group as u32, var).is_some()
        {
            let k = var as usize - self.program.num_inputs();
            chain.push(k);
            var = *self.program.args(&self.program.eqns()[k]).first()?;
        }
        chain.into_iter().rev().try_for_each(|k| self.equation(k))
    }

    /// Whether a strip reads its own rows only of an argument of an equation.
    fn reads_rows(&self, k: usize, i: usize) -> bool {
        let (program, eqn) = (self.program, &self.program.eqns()[k]);
        let shape = &program.aval(program.args(eqn)[i]).shape;
        let rank = program.aval(program.result(k)).shape.len();
        let alike = match eqn.prim {
            // The other operand is needed as a whole, but for a batch of them.
            prim if prim == ops::MATMUL => shape.len() == rank && (i == 0 || rank > 2),
            // Layouts are of one element for each row.
            prim if prim.is_elementwise() => shape.len() == rank,
            _ => true,
        };
        alike && shape.first() == Some(&self.rows)
    }

    /// Adds an equation; `None` if it cannot be computed strip by strip.
    fn equation(&mut self, k: usize) -> Option<()> {
        let program = self.program;
        let eqn = &program.eqns()[k];
        let out = program.result(k);
        let aval = program.aval(out);
        let mut by_rows = aval.shape.first() == Some(&self.rows);
        let reduces_rows = is_reduction(program, k) && program.params(eqn).axes().contains(&0);
        for (i, &arg) in program.args(eqn).iter().enumerate() {
            let rows = self.reads_rows(k, i);
            match self.made.get(&arg) {
                Some(&made) if made != rows => return None,
                Some(_) => {}
                None if self.is_read.insert((arg, rows), ()).is_none() => {
                    self.inputs.push((arg, rows));
                }
                None => {}
            }
            if is_reduction(program, k) && !rows {
                return None;
            }
        }
        if reduces_rows {
            by_rows = false;
        } else if !by_rows {
            return None;
        }
        self.eqns.push(k);
        self.made.insert(out, by_rows);
        Some(())
    }

    /// With the plans of its strips.
    fn planned(self, product: usize, plan: fn(&Program) -> Result<Plan>) -> Result<Found> {
        let last = self.rows % self.height;
        let outputs = self.outputs.iter().map(|&v| StripOutput {
            aval: self.program.aval(v).clone(),
            over: if self.made[&v] {
                Over::Rows
            } else {
                Over::Reduction(self.reduction(v))
            },
        });
        let strips = Strips {
            main: plan(&self.written(self.height)?)?,
            last: match last {
                0 => None,
                last => Some(plan(&self.written(last)?)?),
            },
            rows: self.rows,
            height: self.height,
            by_rows: self.inputs.iter().map(|(_, rows)| *rows).collect(),
            outputs: outputs.collect(),
            otherwise: None,
        };
        Ok(Found {
            product,
            inputs: self.inputs.iter().map(|(v, _)| *v).collect(),
            outputs: self.outputs,
            strips,
        })
    }

    fn reduction(&self, var: Var) -> ReduceOp {
        match self
            .program
            .definition(var)
            .and_then(|e| e.prim.kernel_ref())
        {
            Some(Kernel::Reduce(op)) => *op,
            _ => unreachable!("only a reduction leaves no rows"),
        }
    }

    /// The program of a strip with so many rows.
    fn written(&self, rows: usize) -> Result<Program> {
        let program = self.program;
        let cut = |aval: &Aval, by_rows: bool| {
            let mut aval = aval.clone();
            if by_rows {
                aval.shape[0] = rows;
            }
            aval
        };
        let builder = Builder::new();
        let mut vars: FastMap<(Var, bool), Var> = FastMap::default();
        for &(var, by_rows) in &self.inputs {
            let new = builder.input("", &cut(program.aval(var), by_rows));
            vars.insert((var, by_rows), new);
        }
        for &k in &self.eqns {
            let eqn = &program.eqns()[k];
            let out = program.result(k);
            let args = program.args(eqn).iter().enumerate().map(|(i, &arg)| {
                let by_rows =
                    (self.made.get(&arg).copied()).unwrap_or_else(|| self.reads_rows(k, i));
                vars[&(arg, by_rows)]
            });
            let args: SmallVec<[Var; 4]> = args.collect();
            let by_rows = self.made[&out];
            let params = match program.params(eqn) {
                Params::Shape(shape) => {
                    let mut shape: Shape = shape.clone();
                    shape[0] = rows;
                    Params::Shape(shape)
                }
                other => other.clone(),
            };
            let aval = cut(program.aval(out), by_rows);
            let new = builder.push_inferred(eqn.prim, params, &args, &aval);
            vars.insert((out, by_rows), new);
        }
        let outs = self.outputs.iter().map(|v| vars[&(*v, self.made[v])]);
        builder.finish(outs.collect())
    }
}
