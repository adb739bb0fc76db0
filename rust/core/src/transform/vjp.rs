//! The reverse pass: from a program to the program that also gives its cotangents.
//!
//! From the outputs to the inputs, only through equations that lie between an input that was asked
//! for and an output, and only for the arguments on such a path. Rules emit primitives; the driver
//! accumulates and projects (`cotangent`).

use std::cell::OnceCell;

use smallvec::SmallVec;

use super::accumulate::{Cotangents, Slot};
use super::cotangent::Ct;
use super::looped::Derived;
use super::structural_zeros::{self, StructuralZeros};
use super::{custom_calls, shift_invariance, sparse_cotangent};
use crate::aval::Kind;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::ops;
use crate::prim::{Class, Params, Partial, PartialFn, Prim, Rule, Site, V, Var};
use crate::program::{Builder, Calls, Eqn, Program};
use crate::util::FastMap;

/// A program with its pullback behind it.
///
/// Its inputs are those of the original program, then one cotangent for each output that has one
/// (`cotangents` says which). Its outputs are those of the original program, then one cotangent for
/// each input that has influence.
#[derive(Debug, Clone)]
pub struct Vjp {
    /// Primal and pullback together; what is not needed of it is pruned by whoever takes a part.
    pub program: Program,
    /// For each output, which input of `program` is its cotangent.
    pub cotangents: Vec<Option<usize>>,
    /// For each input, which output of `program` is its cotangent; `None` where it was not asked
    /// for, has no influence or no tangents.
    pub gradients: Vec<Option<usize>>,
    /// Cotangents that were not asked for although their primal could have one, by the primitive
    /// that would have computed them.
    pub skipped: Vec<(Prim, u64)>,
}

/// [`vjp`] of the body of a loop.
pub(crate) fn derived(body: &Program, wrt: &[bool]) -> Result<Derived> {
    let found = vjp(body, wrt)?;
    Ok((found.program, found.cotangents, found.gradients))
}

/// Differentiates a program with respect to the marked inputs.
pub fn vjp(primal: &Program, wrt: &[bool]) -> Result<Vjp> {
    let demanded = differentiable(primal, wrt);
    let mut active = primal.varies_with(&demanded);
    let cotangents = cotangent_inputs(primal, &active);
    shift_invariance::drop_paths(primal, &mut active);
    let builder = start(primal, &cotangents);
    let shift = VarShift::new(primal, &cotangents);
    let mut pass = Pass {
        primal,
        builder: &builder,
        active: &active,
        shift,
        activity: activities(primal, &active),
        has_sites: primal.has_sites(),
        cts: Cotangents::new(&builder, primal.num_vars()),
        zeros: StructuralZeros::new(&builder),
        may_be_zero: false,
        steep: OnceCell::new(),
        skipped: Vec::new(),
    };
    for (&out, slot) in primal.outs.iter().zip(&cotangents) {
        if let Some(slot) = *slot
            && active[out as usize]
        {
            let given = builder.value(slot as Var);
            pass.cts.add(out, Ct::Dense(given), primal.aval(out));
        }
    }
    pass.run()?;
    builder.at(Site::NONE);
    let mut outs: Vec<Var> = primal.outs.iter().map(|&v| shift.of(v)).collect();
    let gradients = (0..primal.num_inputs())
        .map(|i| {
            if !demanded[i] {
                return None;
            }
            let ct = pass.cts.unpack(pass.cts.of(i as Var)).dense()?;
            outs.push(ct.var());
            Some(outs.len() - 1)
        })
        .collect();
    let skipped = pass.skipped;
    let program = builder.finish(outs)?;
    program.debug_verify();
    Ok(Vjp {
        program,
        cotangents,
        gradients,
        skipped,
    })
}

/// The same for the first `count` outputs. Those behind them have no cotangents, and are computed along with the rest.
pub fn vjp_of_first(primal: &Program, wrt: &[bool], count: usize) -> Result<Vjp> {
    let behind = primal.outs.get(count..).unwrap_or(&[]);
    if behind.is_empty() {
        return vjp(primal, wrt);
    }
    let mut first = primal.clone();
    first.outs.truncate(count);
    first.outputs.truncate(count);
    let mut joint = vjp(&first, wrt)?;
    let shift = VarShift::new(&first, &joint.cotangents);
    let outs = &mut joint.program.outs;
    outs.splice(count..count, behind.iter().map(|&v| shift.of(v)));
    joint.program.outputs.resize(outs.len(), "".into());
    joint.cotangents.resize(primal.outs.len(), None);
    for slot in joint.gradients.iter_mut().flatten() {
        *slot += behind.len();
    }
    Ok(joint)
}

/// Which of the marked inputs can have a cotangent.
pub(crate) fn differentiable(primal: &Program, wrt: &[bool]) -> Vec<bool> {
    let inexact = |v: Var| primal.aval(v).dtype.is_inexact();
    (0..).zip(wrt).map(|(v, &w)| w && inexact(v)).collect()
}

/// For each output that varies with a demanded input, which input of the joint program is its cotangent.
pub(crate) fn cotangent_inputs(primal: &Program, varies: &[bool]) -> Vec<Option<usize>> {
    (primal.outs.iter())
        .scan(primal.num_inputs(), |next, &out| {
            let slot = varies[out as usize].then_some(*next);
            *next += usize::from(slot.is_some());
            Some(slot)
        })
        .collect()
}

/// How variables of the primal program are numbered in the joint one: those behind the inputs make room for the
/// cotangents of outputs.
#[derive(Clone, Copy)]
pub(crate) struct VarShift {
    inputs: Var,
    by: Var,
}

impl VarShift {
    pub fn new(primal: &Program, cotangents: &[Option<usize>]) -> VarShift {
        VarShift {
            inputs: primal.num_inputs() as Var,
            by: cotangents.iter().flatten().count() as Var,
        }
    }

    /// The variable of the joint program that is `v` of the primal one.
    #[inline]
    pub fn of(self, v: Var) -> Var {
        if v < self.inputs { v } else { v + self.by }
    }
}

/// The partial derivatives of an elementwise equation.
struct Partials<'a, 'e> {
    of: PartialFn,
    x: &'a [V<'e>],
    y: V<'e>,
}

/// The way back through a program, and what has come together on it.
struct Pass<'p, 'e> {
    primal: &'p Program,
    builder: &'e Builder,
    /// Which variables lie between an input that was asked for and an output.
    active: &'p [bool],
    shift: VarShift,
    activity: Vec<Activity>,
    has_sites: bool,
    cts: Cotangents<'e>,
    zeros: StructuralZeros<'e>,
    /// Whether something on the way back makes zeros (a selection, a slice): else none are looked for.
    may_be_zero: bool,
    /// Which variables may have infinite derivatives in single elements, where it was asked.
    steep: OnceCell<Vec<bool>>,
    skipped: Vec<(Prim, u64)>,
}

impl<'e> Pass<'_, 'e> {
    #[inline]
    fn value(&self, v: Var) -> V<'e> {
        self.builder.value(self.shift.of(v))
    }

    fn run(&mut self) -> Result<()> {
        let primal = self.primal;
        let groups = Groups {
            calls: primal.has_calls().then(|| primal.calls()),
            duplicates: duplicate_views(primal, self.active),
        };
        let has_groups = groups.calls.is_some() || !groups.duplicates.is_empty();
        let first = primal.num_inputs();
        // They stay where they are, and get other variables.
        let mut x = [self.builder.value(0); 2];
        for k in (0..primal.eqns.len()).rev() {
            interrupt::at_step(k, || self.builder.num_vars())?;
            if has_groups && self.pull_in_group(k, &groups)? {
                continue;
            }
            let (eqn, out) = (&primal.eqns[k], (first + k) as Var);
            let ct = self.cts.of(out);
            if ct.is_zero() {
                continue;
            }
            let args = primal.args(eqn);
            let partials = match &eqn.prim.0.class {
                Class::Elementwise { partials, .. } if ct.is_plain() && args.len() <= 2 => {
                    *partials
                }
                _ => None,
            };
            if let Some(partials) = partials
                && let Some(aval) = self.activity[out as usize].real_aval()
                && let Some(&a) = args.first()
            {
                x[0].point_to(self.shift.of(a));
                if let Some(&b) = args.get(1) {
                    x[1].point_to(self.shift.of(b));
                }
                let rule = Partials {
                    of: partials,
                    x: &x[..args.len()],
                    y: self.value(out),
                };
                self.pull((k, eqn.prim, aval), ct, &rule, 0, a);
                if let Some(&b) = args.get(1) {
                    self.pull((k, eqn.prim, aval), ct, &rule, 1, b);
                }
            } else {
                self.pull_other(k, ct)?;
            }
        }
        Ok(())
    }

    /// Hands the plain cotangent of an elementwise equation, whose result has this dtype and shape, on to its argument
    /// `i`.
    #[inline(always)]
    fn pull(
        &mut self,
        (k, prim, aval): (usize, Prim, AvalId),
        ct: Slot,
        partials: &Partials<'_, 'e>,
        i: usize,
        a: Var,
    ) {
        let activity = self.activity[a as usize];
        if !activity.is_active() {
            return self.skip(prim, activity);
        }
        if self.has_sites {
            self.at(k, i);
        }
        let partial = (partials.of)(partials.x, partials.y, i);
        if self.may_be_zero
            && let Some(contribution) = self.through_zeros(self.cts.unpack(ct), &partial)
        {
            return self.cts.add(a, contribution, self.primal.aval(a));
        }
        if activity != Activity::real(aval) || !self.cts.add_alike(a, ct, &partial, aval) {
            self.may_be_zero |= matches!(partial, Partial::Where(..) | Partial::TimesWhere(..));
            let contribution = self.cts.unpack(ct).through(&partial);
            self.cts.add(a, contribution, self.primal.aval(a));
        }
    }

    /// What a cotangent that is zero somewhere by its making contributes through a partial derivative, which may be
    /// infinite there; `None` for any other.
    #[inline(never)]
    fn through_zeros(&mut self, ct: Ct<'e>, partial: &Partial<'e>) -> Option<Ct<'e>> {
        if !self.may_be_zero || !structural_zeros::multiplies(partial) {
            // From here on there are zeros.
            self.may_be_zero |= matches!(partial, Partial::Where(..) | Partial::TimesWhere(..));
            return None;
        }
        let (Ct::Dense(v) | Ct::Part(v) | Ct::Masked(v, _)) = ct else {
            return None;
        };
        let mask = self.zeros.of(v)?;
        Some(ct.through(partial).masked(mask))
    }

    /// Hands the cotangent of any equation on to its arguments. A function of its own, so that the loop holds little but
    /// the shortest way.
    #[inline(never)]
    fn pull_other(&mut self, k: usize, ct: Slot) -> Result<()> {
        let (primal, eqn) = (self.primal, &self.primal.eqns[k]);
        let args = primal.args(eqn);
        self.may_be_zero |= structural_zeros::leaves_out(eqn.prim);
        let x: SmallVec<[V<'e>; 4]> = args.iter().map(|&a| self.value(a)).collect();
        let out = self.value(primal.result(k));
        let starts = OnceCell::new();
        for (i, &a) in args.iter().enumerate() {
            let activity = self.activity[a as usize];
            if !activity.is_active() {
                self.skip(eqn.prim, activity);
                continue;
            }
            if self.has_sites {
                self.at(k, i);
            }
            let contribution = self.contribution(eqn, ct, (&x, out, &starts), i)?;
            self.cts.add(a, contribution, primal.aval(a));
        }
        Ok(())
    }

    /// What is written from now on belongs to argument `i` of equation `k`.
    #[cold]
    fn at(&self, k: usize, i: usize) {
        let prim = self.primal.eqns[k].prim;
        self.builder.at(self.primal.site(k).pulled(prim, i));
    }

    /// What the cotangent of an equation contributes to that of its argument `i`.
    fn contribution(
        &mut self,
        eqn: &Eqn,
        ct: Slot,
        (x, out, starts): (&[V<'e>], V<'e>, &OnceCell<Vec<usize>>),
        i: usize,
    ) -> Result<Ct<'e>> {
        let primal = self.primal;
        let params = primal.params(eqn);
        Ok(match &eqn.prim.0.class {
            Class::Elementwise {
                partials: Some(partials),
                ..
            } => {
                if let Some(part) = self.cts.part(ct) {
                    let of = (self.builder, part);
                    let mut through = |ct: Ct<'e>, partial: &Partial<'e>| {
                        self.through_zeros(ct, partial)
                            .unwrap_or_else(|| ct.through(partial))
                    };
                    sparse_cotangent::pull(of, *partials, (x, out), i, &mut through)
                } else {
                    let (ct, partial) = (self.cts.unpack(ct), partials(x, out, i));
                    self.through_zeros(ct, &partial)
                        .unwrap_or_else(|| ct.through(&partial))
                }
            }
            Class::Linear { transpose: vjp, .. } | Class::General { vjp: Some(vjp), .. } => {
                let rule = Rule {
                    x,
                    out,
                    params,
                    starts,
                };
                let (prim, ct, a) = (eqn.prim, self.cts.unpack(ct), primal.args(eqn)[i]);
                let is_steep =
                    || self.steep.get_or_init(|| sparse_cotangent::steep(primal))[a as usize];
                match ct {
                    // A mask stays outermost.
                    Ct::Masked(v, mask) if prim == ops::CAST => Ct::Masked(vjp(&rule, v, i), mask),
                    _ => ct.dense().map_or(Ct::Zero, |given| {
                        let pulled = vjp(&rule, given, i);
                        if sparse_cotangent::is_made_by(prim, &rule, ct, is_steep) {
                            Ct::Part(pulled)
                        } else {
                            Ct::Dense(pulled)
                        }
                    }),
                }
            }
            _ => return Err(no_derivative(eqn.prim.name())),
        })
    }

    /// Notes that an argument without demand has no cotangent, if it could have one.
    #[inline]
    fn skip(&mut self, prim: Prim, activity: Activity) {
        if activity == Activity::CONSTANT {
            return;
        }
        match self.skipped.last_mut() {
            Some((last, n)) if *last == prim => *n += 1,
            _ => self.skip_other(prim),
        }
    }

    #[inline(never)]
    fn skip_other(&mut self, prim: Prim) {
        match self.skipped.iter_mut().find(|(p, _)| *p == prim) {
            Some((_, n)) => *n += 1,
            None => self.skipped.push((prim, 1)),
        }
    }

    /// Equation `k`, if it is one of those that are taken together; false where it is not.
    #[inline(never)]
    fn pull_in_group(&mut self, k: usize, groups: &Groups) -> Result<bool> {
        let primal = self.primal;
        if let Some(calls) = &groups.calls
            && let Some(&(first, _)) = calls.members(k).first()
        {
            // All outputs of a call together, once the cotangents of all are there.
            if k == first {
                self.pull_call(k, calls.members(k))?;
            }
            return Ok(true);
        }
        let out = primal.result(k);
        let Some(&first) = groups.duplicates.get(&out) else {
            return Ok(false);
        };
        let ct = self.cts.unpack(self.cts.of(out));
        self.cts.add(first, ct, primal.aval(out));
        Ok(true)
    }

    /// A mask outside of which the cotangents of all outputs of an elementwise call are zero by their making.
    fn zeros_of_call(&mut self, members: &[(usize, usize)]) -> Option<V<'e>> {
        let primal = self.primal;
        let &(first, _) = members.first()?;
        match primal.params(&primal.eqns[first]) {
            Params::Custom { rule, .. } if rule.is_elementwise() => {}
            _ => return None,
        }
        let mut all: Option<V<'e>> = None;
        for &(k, _) in members {
            let mask = match self.cts.unpack(self.cts.of(primal.result(k))) {
                Ct::Zero => continue,
                Ct::Dense(v) | Ct::Part(v) => self.zeros.of(v)?,
                Ct::Masked(v, mask) => match self.zeros.of(v) {
                    Some(other) => other.and(mask),
                    None => mask,
                },
            };
            all = Some(all.map_or(mask, |other| other.or(mask)));
        }
        all
    }

    /// A call with a rule from outside, whose first equation is `k`.
    fn pull_call(&mut self, k: usize, members: &[(usize, usize)]) -> Result<()> {
        let (primal, eqn) = (self.primal, &self.primal.eqns[k]);
        self.builder.at(primal.site(k).pulled(eqn.prim, 0));
        let x: Vec<V<'e>> = primal.args(eqn).iter().map(|&a| self.value(a)).collect();
        let (cts, shift) = (&self.cts, self.shift);
        let ct = |v| cts.unpack(cts.of(v));
        let pulled = custom_calls::pull(
            primal,
            members,
            &x,
            |v| shift.of(v),
            self.active,
            ct,
            derived,
        )?;
        let mask = self.zeros_of_call(members);
        self.may_be_zero = true;
        for (a, ct) in pulled {
            let ct = match (ct, mask) {
                (Ct::Dense(v), Some(mask)) if v.shape() == mask.shape() => ct.masked(mask),
                _ => ct,
            };
            self.cts.add(a, ct, primal.aval(a));
        }
        Ok(())
    }
}

/// Equations whose cotangents are handed on together.
struct Groups {
    calls: Option<Calls>,
    /// For each duplicate view the first one like it.
    duplicates: FastMap<Var, Var>,
}

/// Which dtype and shape of the primal program a variable has.
type AvalId = u32;

/// Whether a variable gets a cotangent. An enum in one number: as large as an [`AvalId`], and one comparison says whether
/// an argument is like the result (an enum of eight bytes takes 2 % longer).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Activity(u32);

impl Activity {
    /// Between a demanded input and an output, of complex numbers: products need the conjugate.
    const COMPLEX: Activity = Activity(u32::MAX - 2);
    /// Not demanded, or without influence, although it could have a cotangent.
    const UNDEMANDED: Activity = Activity(u32::MAX - 1);
    /// Without a cotangent in any case: integers, bools and literals.
    const CONSTANT: Activity = Activity(u32::MAX);

    /// Between a demanded input and an output, of real numbers.
    #[inline]
    fn real(aval: AvalId) -> Activity {
        debug_assert!(aval < Activity::COMPLEX.0);
        Activity(aval)
    }

    /// Dtype and shape, if it is active and real.
    #[inline]
    fn real_aval(self) -> Option<AvalId> {
        (self.0 < Activity::COMPLEX.0).then_some(self.0)
    }

    #[inline]
    fn is_active(self) -> bool {
        self.0 <= Activity::COMPLEX.0
    }
}

fn activities(primal: &Program, active: &[bool]) -> Vec<Activity> {
    let of_aval: Vec<[Activity; 2]> = (0..)
        .zip(&primal.avals)
        .map(|(id, aval)| match aval.dtype.kind() {
            Kind::Float => [Activity::UNDEMANDED, Activity::real(id)],
            Kind::Complex => [Activity::UNDEMANDED, Activity::COMPLEX],
            _ => [Activity::CONSTANT; 2],
        })
        .collect();
    let mut activities: Vec<Activity> = (primal.var_avals.iter().zip(active))
        .map(|(&aval, &active)| of_aval[aval as usize][usize::from(active)])
        .collect();
    // The first parameters are those of equations without any.
    if primal.params.len() > 1 {
        for k in 0..primal.eqns.len() {
            let out = primal.result(k);
            if primal.literal(out).is_some() {
                activities[out as usize] = Activity::CONSTANT;
            }
        }
    }
    activities
}

/// For each view that an earlier equation has made already (`p[0]`, read in every step of a loop) that earlier one. Their
/// cotangents are added before they are transposed, so that the transpose does not go through the whole of `p` each
/// time.
fn duplicate_views(primal: &Program, active: &[bool]) -> FastMap<Var, Var> {
    let mut first: FastMap<(Prim, &Params, Var), Var> = FastMap::default();
    let mut duplicates: FastMap<Var, Var> = FastMap::default();
    // Two views have two parameters, behind that of equations without any.
    if primal.params.len() < 3 {
        return duplicates;
    }
    for (k, eqn) in primal.eqns.iter().enumerate() {
        if eqn.args.len() != 1 || !eqn.prim.is_view() || !active[primal.result(k) as usize] {
            continue;
        }
        let (arg, out) = (primal.args(eqn)[0], primal.result(k));
        let arg = *duplicates.get(&arg).unwrap_or(&arg);
        let like = *(first.entry((eqn.prim, primal.params(eqn), arg))).or_insert(out);
        if like != out {
            duplicates.insert(out, like);
        }
    }
    duplicates
}

fn no_derivative(name: &str) -> Error {
    Error::NotDifferentiable(format!(
        "{name}: has no derivative rule; hold its arguments constant with dropgrad"
    ))
}

/// A builder that holds the primal's equations behind its inputs and the cotangents of its outputs.
pub(crate) fn start(primal: &Program, cotangents: &[Option<usize>]) -> Builder {
    // The rules write two or three equations for each.
    let builder = Builder::alike(primal, 4 * primal.eqns.len());
    for (i, name) in primal.inputs.iter().enumerate() {
        builder.input(name, primal.aval(i as Var));
    }
    for (j, (&out, slot)) in primal.outs.iter().zip(cotangents).enumerate() {
        if slot.is_some() {
            let name = match &*primal.outputs[j] {
                "" if primal.outs.len() == 1 => "ct".to_string(),
                "" => format!("ct{j}"),
                name => format!("ct.{name}"),
            };
            builder.input(&name, primal.aval(out));
        }
    }
    builder.copy_equations(primal, cotangents.iter().flatten().count() as Var);
    builder
}
