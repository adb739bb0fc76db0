//! Writing a program, equation by equation.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use num_complex::Complex;
use smallvec::SmallVec;

use super::{Args, Eqn, Program};
use crate::aval::{Aval, DType};
use crate::error::{Error, Result};
use crate::prim::{LITERAL, Params, Prim, Site, V, Var};
use crate::util::FastMap;

/// So many avals are compared one by one, which is faster than a table for them.
const FEW: usize = 8;

/// A program under construction. Rules write to it through rule values ([`V`]), several of which are
/// alive at once; that is why it can be written to through a shared reference.
#[derive(Debug, Default)]
pub struct Builder {
    pub(super) program: RefCell<Program>,
    /// Which of the program's avals is which, once they are more than a few; the last one found answers most
    /// questions.
    avals: RefCell<FastMap<Aval, u32>>,
    last: Cell<u32>,
    literals: RefCell<FastMap<(DType, u64, u64), Var>>,
    error: RefCell<Option<Error>>,
}

impl Builder {
    /// An empty program.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// An empty program, with room for so many inputs and equations.
    pub fn with_capacity(inputs: usize, eqns: usize) -> Builder {
        let builder = Builder::default();
        {
            let mut program = builder.program.borrow_mut();
            program.inputs.reserve(inputs);
            program.eqns.reserve(eqns);
            program.var_avals.reserve(inputs + eqns);
        }
        builder
    }

    /// An empty program that numbers dtypes and shapes as another one does, with room for so many equations.
    pub(crate) fn alike(other: &Program, eqns: usize) -> Builder {
        let builder = Builder::with_capacity(other.num_inputs(), eqns);
        builder.program.borrow_mut().avals.clone_from(&other.avals);
        builder
    }

    /// Continues a program: its equations stay, its outputs are forgotten.
    pub fn extend(mut program: Program) -> Builder {
        program.outs.clear();
        program.outputs.clear();
        let mut literals = FastMap::default();
        for k in 0..program.eqns.len() {
            let var = program.result(k);
            if let Some((dtype, value)) = program.literal(var) {
                literals.insert((dtype, value.re.to_bits(), value.im.to_bits()), var);
            }
        }
        Builder {
            program: RefCell::new(program),
            avals: RefCell::default(),
            last: Cell::new(0),
            literals: RefCell::new(literals),
            error: RefCell::new(None),
        }
    }

    /// Adds an input. All inputs come before the first equation.
    ///
    /// # Panics
    /// When an equation is there already.
    pub fn input(&self, name: &str, aval: &Aval) -> Var {
        assert!(
            self.program.borrow().eqns.is_empty(),
            "inputs come before equations"
        );
        let aval = self.intern(aval);
        let mut program = self.program.borrow_mut();
        program.inputs.push(if name.is_empty() {
            empty_name()
        } else {
            name.into()
        });
        program.var_avals.push(aval);
        (program.var_avals.len() - 1) as Var
    }

    /// How many variables there are.
    pub fn num_vars(&self) -> usize {
        self.program.borrow().num_vars()
    }

    /// A variable as a rule value.
    pub fn value(&self, var: Var) -> V<'_> {
        V::new(var, self)
    }

    /// The parameters and arguments of the equation that makes a variable, if it is one of these
    /// primitives.
    pub fn made_by(&self, var: Var, prims: &[Prim]) -> Option<(Params, SmallVec<[Var; 4]>)> {
        let program = self.program.borrow();
        let eqn = program.definition(var)?;
        if !prims.contains(&eqn.prim) {
            return None;
        }
        let args = SmallVec::from_slice(program.args(eqn));
        Some((program.params(eqn).clone(), args))
    }

    /// Adds an equation, checking its arguments.
    pub fn push(&self, prim: Prim, params: Params, args: &[Var]) -> Result<Var> {
        // The usual numbers of arguments are known where the rest is compiled.
        let alike = match (&params, args) {
            (Params::None, &[x]) => self.push_alike(prim, [x]),
            (Params::None, &[x, y]) => self.push_alike(prim, [x, y]),
            _ => None,
        };
        if let Some(var) = alike {
            return Ok(var);
        }
        let aval = self.infer(prim, &params, args)?;
        Ok(self.push_numbered(prim, params, args, aval))
    }

    /// [`Builder::push`] for what most equations are: arrays of one dtype and shape, combined into another such by
    /// an elementwise primitive. `None` where it is not like that.
    #[inline]
    fn push_alike<const A: usize>(&self, prim: Prim, args: [Var; A]) -> Option<Var> {
        let mut guard = self.program.borrow_mut();
        let program = &mut *guard;
        let aval = program.var_avals[args[0] as usize];
        let same = args.iter().all(|&a| program.var_avals[a as usize] == aval);
        let keeps = || prim.keeps(program.avals[aval as usize].dtype);
        (same && prim.0.args.len() == A && keeps())
            .then(|| program.append_all([prim], [args], aval))
    }

    /// Adds an equation whose result is known to have this dtype and shape.
    pub fn push_inferred(&self, prim: Prim, params: Params, args: &[Var], aval: &Aval) -> Var {
        let aval = self.intern(aval);
        self.push_numbered(prim, params, args, aval)
    }

    /// A literal that may be complex.
    pub fn complex_literal(&self, dtype: DType, value: Complex<f64>) -> Var {
        let key = (dtype, value.re.to_bits(), value.im.to_bits());
        if let Some(&var) = self.literals.borrow().get(&key) {
            return var;
        }
        let aval = self.intern(&Aval::scalar(dtype));
        let var = self.push_numbered(LITERAL, Params::Literal { dtype, value }, &[], aval);
        self.literals.borrow_mut().insert(key, var);
        var
    }

    /// Copies another program's equations behind these, as far as they are needed for the wanted
    /// outputs; `inputs` stand for its inputs. Gives its outputs, the unwanted ones as `None`.
    pub fn inline(&self, other: &Program, inputs: &[Var], wanted: &[bool]) -> Vec<Option<Var>> {
        let map = self.inline_with(other, inputs, wanted, &[]);
        let outs = other.outs.iter().zip(wanted);
        outs.map(|(&out, &wanted)| wanted.then(|| map[out as usize]))
            .collect()
    }

    /// The same with variables of the other program that are there already, each with what it is here. Gives what
    /// every variable of the other program has become; `Var::MAX` for what no wanted output needs.
    pub(crate) fn inline_with(
        &self,
        other: &Program,
        inputs: &[Var],
        wanted: &[bool],
        known: &[(Var, Var)],
    ) -> Vec<Var> {
        let mut map: Vec<Var> = vec![Var::MAX; other.num_vars()];
        map[..inputs.len()].copy_from_slice(inputs);
        for &(var, here) in known {
            map[var as usize] = here;
        }
        let outs = other.outs.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let needed = other.needed_for(outs.map(|(&out, _)| out), |v| map[v as usize] != Var::MAX);
        let mut args: SmallVec<[Var; 4]> = SmallVec::new();
        // What has no site of its own is of the call.
        let call = self.at(Site::NONE);
        for (k, eqn) in other.eqns.iter().enumerate() {
            let var = other.result(k) as usize;
            if !needed[var] || map[var] != Var::MAX {
                continue;
            }
            args.clear();
            args.extend(other.args(eqn).iter().map(|&a| map[a as usize]));
            self.at(other.site(k).or(call));
            map[var] = if let Params::Literal { dtype, value } = other.params(eqn) {
                self.complex_literal(*dtype, *value)
            } else {
                let aval = other.aval(var as Var);
                self.push_inferred(eqn.prim, other.params(eqn).clone(), &args, aval)
            };
        }
        self.at(call);
        map
    }

    /// Copies all equations of the program that this one is [`alike`](Builder::alike), and whose inputs are the
    /// first of this one's; variables behind them move up by `shift`.
    pub(crate) fn copy_equations(&self, other: &Program, shift: Var) {
        let inputs = other.num_inputs() as Var;
        let mut program = self.program.borrow_mut();
        for (k, &site) in other.sites().iter().enumerate() {
            program.sites.set(k, site);
        }
        program.params.clone_from(&other.params);
        debug_assert!(program.args.is_empty(), "the list is copied as it is");
        (program.args).extend(
            other
                .args
                .iter()
                .map(|&v| if v < inputs { v } else { v + shift }),
        );
        program.eqns.extend_from_slice(&other.eqns);
        for eqn in &mut program.eqns {
            eqn.args.shift(inputs, shift);
        }
        let results = &other.var_avals[inputs as usize..];
        program.var_avals.extend_from_slice(results);
        // The first parameters are those of equations without any.
        let has_params = other.params.len() > 1;
        for (k, eqn) in other.eqns.iter().enumerate().filter(|_| has_params) {
            if eqn.params != 0
                && let Params::Literal { dtype, value } = other.params(eqn)
            {
                let key = (*dtype, value.re.to_bits(), value.im.to_bits());
                (self.literals.borrow_mut()).insert(key, other.result(k) + shift);
            }
        }
    }

    /// `sum + term`, `sum + term * factor`, or these without a sum (by these primitives), for real variables that all have
    /// this aval, as the sum and the term are known to; `None` when the factor has not. What a reverse pass writes
    /// most, in one step.
    #[inline(always)]
    pub(crate) fn add_product(
        &self,
        (mul, add): (Prim, Prim),
        sum: Option<Var>,
        term: Var,
        factor: Option<Var>,
        aval: u32,
    ) -> Option<Var> {
        let mut guard = self.program.borrow_mut();
        let program = &mut *guard;
        let has = |v: Var| program.var_avals[v as usize] == aval;
        debug_assert!(sum.is_none_or(has) && has(term));
        if !factor.is_none_or(has) {
            return None;
        }
        let next = program.var_avals.len() as Var;
        Some(match (sum, factor) {
            (None, None) => term,
            (Some(sum), None) => program.append_all([add], [[sum, term]], aval),
            (None, Some(factor)) => program.append_all([mul], [[term, factor]], aval),
            (Some(sum), Some(factor)) => {
                let args = [[term, factor], [sum, next]];
                program.append_all([mul, add], args, aval)
            }
        })
    }

    /// The program, with these outputs; or the error that a rule met.
    pub fn finish(self, outs: Vec<Var>) -> Result<Program> {
        if let Some(error) = self.error.into_inner() {
            return Err(error);
        }
        let mut program = self.program.into_inner();
        Builder::end_sites(&mut program);
        program.outputs = vec![empty_name(); outs.len()];
        program.outs = outs;
        Ok(program)
    }

    /// Reads the program as it is now.
    pub fn with<R>(&self, read: impl FnOnce(&Program) -> R) -> R {
        read(&self.program.borrow())
    }

    fn intern(&self, aval: &Aval) -> u32 {
        let mut program = self.program.borrow_mut();
        let last = self.last.get();
        if program.avals.get(last as usize) == Some(aval) {
            return last;
        }
        let mut avals = self.avals.borrow_mut();
        let found = if program.avals.len() <= FEW {
            program
                .avals
                .iter()
                .position(|a| a == aval)
                .map(|i| i as u32)
        } else {
            if avals.is_empty() {
                avals.extend(program.avals.iter().cloned().zip(0..));
            }
            avals.get(aval).copied()
        };
        let index = found.unwrap_or_else(|| {
            let new = program.avals.len() as u32;
            program.avals.push(aval.clone());
            if !avals.is_empty() {
                avals.insert(aval.clone(), new);
            }
            new
        });
        self.last.set(index);
        index
    }

    /// Which aval an equation's result has.
    fn infer(&self, prim: Prim, params: &Params, args: &[Var]) -> Result<u32> {
        let aval = {
            let program = self.program.borrow();
            let avals: SmallVec<[&Aval; 4]> = args.iter().map(|&a| program.aval(a)).collect();
            prim.infer(params, &avals)?
        };
        Ok(self.intern(&aval))
    }

    /// Adds an equation whose result is known to have the aval of this number.
    #[inline]
    pub(crate) fn push_numbered(&self, prim: Prim, params: Params, args: &[Var], aval: u32) -> Var {
        let mut program = self.program.borrow_mut();
        let params = if matches!(params, Params::None) {
            0
        } else {
            program.params.push(params);
            (program.params.len() - 1) as u32
        };
        program.append(prim, params, args, aval)
    }
}

impl Program {
    /// Adds an equation whose aval and parameters are there already.
    #[inline]
    fn append(&mut self, prim: Prim, params: u32, args: &[Var], aval: u32) -> Var {
        let args = Args::new(args, &mut self.args);
        self.eqns.push(Eqn { prim, params, args });
        self.sites.note(1, self.eqns.len());
        self.var_avals.push(aval);
        (self.var_avals.len() - 1) as Var
    }

    /// [`Program::append`] for equations without parameters, several at once, of one or two arguments each: room
    /// is made once, and what is copied has a known length. Gives the last one's variable.
    #[inline(always)]
    fn append_all<const N: usize, const A: usize>(
        &mut self,
        prims: [Prim; N],
        args: [[Var; A]; N],
        aval: u32,
    ) -> Var {
        let eqn = |i| Eqn {
            prim: prims[i],
            params: 0,
            args: Args::few(args[i]),
        };
        self.eqns
            .extend_from_slice(&std::array::from_fn::<_, N, _>(eqn));
        self.var_avals.extend_from_slice(&[aval; N]);
        self.sites.note(N, self.eqns.len());
        (self.var_avals.len() - 1) as Var
    }
}

/// The name of what has none, shared by all of them.
pub(super) fn empty_name() -> Arc<str> {
    static EMPTY: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "".into());
    Arc::clone(&EMPTY)
}

/// What rules write with, by way of [`V`].
impl Builder {
    /// Adds an equation and gives its result. A rule's arguments fit by construction; should they not, the error is
    /// kept for [`Builder::finish`].
    pub fn emit(&self, prim: Prim, params: Params, x: &[Var]) -> Var {
        self.push(prim, params, x).unwrap_or_else(|error| {
            self.error.borrow_mut().get_or_insert(error);
            // Any variable will do: the program is thrown away in `finish`.
            0
        })
    }

    /// The same for an elementwise function of one argument, without parameters.
    #[inline]
    pub fn map(&self, prim: Prim, x: Var) -> Var {
        match self.push_alike(prim, [x]) {
            Some(var) => var,
            None => self.emit(prim, Params::None, &[x]),
        }
    }

    /// The same for one of two arguments.
    #[inline]
    pub fn combine(&self, prim: Prim, x: Var, y: Var) -> Var {
        match self.push_alike(prim, [x, y]) {
            Some(var) => var,
            None => self.emit(prim, Params::None, &[x, y]),
        }
    }

    /// Dtype and shape of a variable.
    pub fn aval(&self, var: Var) -> Aval {
        self.program.borrow().aval(var).clone()
    }

    /// Dtype of a variable.
    pub fn dtype(&self, var: Var) -> DType {
        self.program.borrow().aval(var).dtype
    }

    /// The known value of a literal.
    pub fn literal(&self, var: Var) -> Option<f64> {
        let (_, value) = self.program.borrow().literal(var)?;
        (value.im == 0.0).then_some(value.re)
    }

    /// A number as a zero-dimensional literal.
    pub fn number(&self, dtype: DType, value: f64) -> Var {
        self.complex_literal(dtype, Complex::new(value, 0.0))
    }
}
