//! Shifts without influence. Programs subtract the greatest element of a row before they take exponentials, so that
//! these stay in range; what comes out is the same for every shift, as `exp(x - m) / sum(exp(x - m))` is, or
//! `m + log(sum(exp(x - m)))`. Its derivative by `m` is zero, and what would be computed is the rounding of zero.
//!
//! Whether it is so is seen from how values change when `m` becomes `m + t`: they have some multiple of `t` added, or
//! are multiplied by a power of `exp(t)`, until nothing depends on `t` any more.

use crate::aval::Shape;
use crate::ops;
use crate::prim::{Prim, Var};
use crate::program::Program;
use crate::util::FastMap;

/// So many equations behind a shift are looked at.
const FAR: usize = 256;

/// How a value changes with the shift; by nothing when the number is zero.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    /// `v + k t`
    Adds(f64),
    /// `v exp(k t)`
    Scales(f64),
}

impl Change {
    fn is_none(self) -> bool {
        matches!(self, Change::Adds(0.0) | Change::Scales(0.0))
    }
}

/// Which elements of a value belong to which shift.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    /// The shape of what is shifted.
    Full,
    /// The axes of it, some of which have length one: there is one shift for all elements along them.
    Kept,
    /// The shifts without these axes.
    Row,
}

/// A shift and what is shifted.
struct Shift {
    full: Shape,
    kept: Shape,
}

impl Shift {
    fn of(full: &[usize], shift: &[usize]) -> Option<Shift> {
        let missing = full.len().checked_sub(shift.len())?;
        let ones = std::iter::repeat_n(1, missing);
        let shift = Shift {
            full: full.into(),
            kept: ones.chain(shift.iter().copied()).collect(),
        };
        let fits = (shift.full.iter().zip(&shift.kept)).all(|(&d, &s)| d == s || s == 1);
        (fits && shift.full != shift.kept).then_some(shift)
    }

    fn layout(&self, shape: &[usize]) -> Option<Layout> {
        if *shape == *self.full {
            return Some(Layout::Full);
        }
        let missing = self.full.len().checked_sub(shape.len())?;
        if self.kept[..missing].iter().all(|&d| d == 1) && *shape == self.kept[missing..] {
            return Some(Layout::Kept);
        }
        let long = |d: &&usize| **d != 1;
        (shape.iter().filter(long).eq(self.kept.iter().filter(long))).then_some(Layout::Row)
    }

    /// Whether all that is reduced has one shift, and all that has one shift is reduced.
    fn reduces(&self, axes: &[usize]) -> bool {
        let mut all = self.full.iter().zip(&self.kept).enumerate();
        all.all(
            |(i, (&d, &s))| {
                if axes.contains(&i) { s == 1 } else { s == d }
            },
        )
    }
}

/// The greatest (or smallest) elements that are active, and subtracted from what they were taken of, without any
/// influence on the outputs.
pub(super) fn without_influence(program: &Program, active: &[bool]) -> Vec<Var> {
    let is_exponential = |prim: Prim| prim == ops::EXP || prim == ops::LOGSUMEXP;
    if !program.eqns.iter().any(|e| is_exponential(e.prim)) {
        return Vec::new();
    }
    let mut found: Vec<Var> = Vec::new();
    let mut last_read: Option<Vec<usize>> = None;
    for (k, eqn) in program.eqns.iter().enumerate() {
        if eqn.prim != ops::SUB {
            continue;
        }
        let &[x, y] = program.args(eqn) else {
            continue;
        };
        if !active[x as usize] || !active[y as usize] {
            continue;
        }
        let y = behind(program, y, &[ops::BROADCAST]);
        let m = behind(program, y, &[ops::RESHAPE]);
        let of_x = || extremum_of(program, m).is_some_and(|of| are_alike(program, of, x));
        // Real parts do not scale with a complex shift.
        let is_complex = program.aval(m).dtype.is_complex();
        if !active[m as usize] || is_complex || found.contains(&m) || !of_x() {
            continue;
        }
        let full = &program.aval(program.result(k)).shape;
        let Some(shift) = Shift::of(full, &program.aval(y).shape) else {
            continue;
        };
        let last_read = last_read.get_or_insert_with(|| last_reads(program));
        if vanishes(program, m, &shift, last_read) {
            found.push(m);
        }
    }
    found
}

/// What a variable is, before it was laid out otherwise.
fn behind(program: &Program, mut v: Var, layouts: &[Prim]) -> Var {
    while let Some(eqn) = program.definition(v)
        && layouts.contains(&eqn.prim)
    {
        v = program.args(eqn)[0];
    }
    v
}

/// Whether two variables are the same view of one, such as `x[0]`, read twice.
fn are_alike(program: &Program, mut a: Var, mut b: Var) -> bool {
    while a != b {
        let (Some(x), Some(y)) = (program.definition(a), program.definition(b)) else {
            return false;
        };
        if !x.prim.is_view() || x.prim != y.prim || program.params(x) != program.params(y) {
            return false;
        }
        (a, b) = (program.args(x)[0], program.args(y)[0]);
    }
    true
}

/// What a variable has the extrema of; a number may stand for some of them, as zero for those that are infinite.
fn extremum_of(program: &Program, v: Var) -> Option<Var> {
    let eqn = program.definition(v)?;
    let args = program.args(eqn);
    if eqn.prim != ops::WHERE {
        let is_extremum = eqn.prim == ops::MAX || eqn.prim == ops::MIN;
        return is_extremum.then(|| args[0]);
    }
    let chosen = match (number(program, args[1]), number(program, args[2])) {
        (_, Some(_)) => args[1],
        (Some(_), _) => args[2],
        _ => return None,
    };
    let chosen = behind(program, chosen, &[ops::RESHAPE]);
    let is_choice = program.definition(chosen)?.prim == ops::WHERE;
    (!is_choice).then(|| extremum_of(program, chosen)).flatten()
}

/// For every variable, the last equation that reads it; behind all of them for outputs.
fn last_reads(program: &Program) -> Vec<usize> {
    let mut last = vec![0; program.num_vars()];
    for (k, eqn) in program.eqns.iter().enumerate() {
        for &a in program.args(eqn) {
            last[a as usize] = k;
        }
    }
    for &out in &program.outs {
        last[out as usize] = usize::MAX;
    }
    last
}

/// Whether nothing that the outputs depend on changes with `m`.
fn vanishes(program: &Program, m: Var, shift: &Shift, last_read: &[usize]) -> bool {
    let Some(layout) = shift.layout(&program.aval(m).shape) else {
        return false;
    };
    let mut changes: FastMap<Var, (Change, Layout)> = FastMap::default();
    changes.insert(m, (Change::Adds(1.0), layout));
    let first = m as usize - program.num_inputs() + 1;
    let mut last = last_read[m as usize];
    let mut k = first;
    while k <= last {
        if last == usize::MAX || k >= first + FAR {
            return false;
        }
        let (args, out) = (program.args(&program.eqns[k]), program.result(k));
        let is_constant = program.eqns[k].prim == ops::DROPGRAD
            || !program.aval(out).dtype.is_inexact()
            || !args.iter().any(|a| changes.contains_key(a));
        if !is_constant {
            let Some(change) = change(program, k, shift, &changes) else {
                return false;
            };
            if !change.0.is_none() {
                changes.insert(out, change);
                last = last.max(last_read[out as usize]);
            }
        }
        k += 1;
    }
    true
}

/// How the result of an equation changes, which has an argument that does; `None` where that cannot be said.
fn change(
    program: &Program,
    k: usize,
    shift: &Shift,
    changes: &FastMap<Var, (Change, Layout)>,
) -> Option<(Change, Layout)> {
    use Change::{Adds, Scales};
    use Layout::{Full, Row};
    let eqn = &program.eqns[k];
    let args = program.args(eqn);
    let changing = args.iter().filter_map(|a| changes.get(a));
    let (mut is_row, mut is_wide) = (false, false);
    for &(_, layout) in changing {
        is_row |= layout == Row;
        is_wide |= layout != Row;
    }
    let result = shift.layout(&program.aval(program.result(k)).shape)?;
    let of = |i: usize| changes.get(&args[i]).map_or(Adds(0.0), |c| c.0);
    let reduces_all = || {
        let is_full = changes.get(&args[0]).is_some_and(|c| c.1 == Full);
        is_full && shift.reduces(program.params(eqn).axes())
    };

    let is = |prims: &[Prim]| prims.contains(&eqn.prim);
    let change = match (of(0), of(args.len() - 1)) {
        (change, _) if is(&[ops::RESHAPE]) && (!is_wide || result != Full) => {
            return Some((change, result));
        }
        (change, _) if is(&[ops::MAX, ops::MIN, ops::MEAN]) && reduces_all() => {
            return Some((change, result));
        }
        (change @ Scales(_), _) if is(&[ops::SUM]) && reduces_all() => {
            return Some((change, result));
        }
        (change @ Adds(_), _) if is(&[ops::LOGSUMEXP]) && reduces_all() => {
            return Some((change, result));
        }
        (change, _) if is(&[ops::BROADCAST, ops::CAST]) => change,
        (Adds(k), _) if is(&[ops::NEG]) => Adds(-k),
        (change, _) if is(&[ops::NEG]) => change,
        (Adds(k), _) if is(&[ops::EXP]) => Scales(k),
        (Scales(k), _) if is(&[ops::LOG]) => Adds(k),
        (Scales(k), _) if is(&[ops::SQRT]) => Scales(0.5 * k),
        (Scales(k), _) if is(&[ops::SQUARE]) => Scales(2.0 * k),
        (Scales(k), _) if is(&[ops::RECIPROCAL]) => Scales(-k),
        (Scales(k), _) if is(&[ops::MINIMUM]) && is_greatest(program, args[1]) => Scales(k),
        (Adds(j), Adds(k)) if is(&[ops::ADD]) => Adds(j + k),
        (Adds(j), Adds(k)) if is(&[ops::SUB]) => Adds(j - k),
        (x @ Scales(_), y) if is(&[ops::ADD, ops::SUB]) && x == y => x,
        (Scales(j), Scales(k)) if is(&[ops::MUL]) => Scales(j + k),
        (Scales(k), Adds(0.0)) | (Adds(0.0), Scales(k)) if is(&[ops::MUL]) => Scales(k),
        (Adds(k), Adds(0.0)) if is(&[ops::MUL]) => Adds(k * number(program, args[1])?),
        (Adds(0.0), Adds(k)) if is(&[ops::MUL]) => Adds(k * number(program, args[0])?),
        (Scales(j), Scales(k)) if is(&[ops::DIV]) => Scales(j - k),
        (Scales(k), Adds(0.0)) if is(&[ops::DIV]) => Scales(k),
        (Adds(0.0), Scales(k)) if is(&[ops::DIV]) => Scales(-k),
        (Adds(k), Adds(0.0)) if is(&[ops::DIV]) => Adds(k / number(program, args[1])?),
        (Adds(0.0), y) if is(&[ops::WHERE]) => match of(1) {
            x if x == y => x,
            Scales(k) if number(program, args[2]) == Some(0.0) => Scales(k),
            _ if number(program, args[1]) == Some(0.0) && matches!(y, Scales(_)) => y,
            _ => return None,
        },
        _ => return None,
    };
    // Element by element: rows lie beside rows only.
    let fits = if result == Row { !is_wide } else { !is_row };
    fits.then_some((change, result))
}

/// The number that a variable is, perhaps repeated.
fn number(program: &Program, v: Var) -> Option<f64> {
    let (_, value) = program.literal(behind(program, v, &[ops::BROADCAST]))?;
    (value.im == 0.0).then_some(value.re)
}

/// Whether a variable is the greatest number of its dtype, which bounds nothing but what is too large for it.
fn is_greatest(program: &Program, v: Var) -> bool {
    let greatest = program.aval(v).dtype.greatest();
    greatest.is_some() && number(program, v) == greatest
}

/// Makes inactive what has influence only through shifts that change no output, such as the greatest element in a
/// softmax: its derivative is zero, and what would be computed is the rounding of zero. Every demanded input that had
/// influence keeps some path, or nothing is dropped: its gradient is an array of zeros, not `None`.
pub fn drop_paths(primal: &Program, active: &mut [bool]) {
    let shifts = without_influence(primal, active);
    let Some(&first) = shifts.iter().min() else {
        return;
    };
    let mut left = active.to_vec();
    for k in first as usize - primal.num_inputs()..primal.eqns.len() {
        let (out, args) = (primal.result(k), primal.args(&primal.eqns[k]));
        let varies = !shifts.contains(&out) && args.iter().any(|&a| left[a as usize]);
        left[out as usize] &= varies;
    }
    if with_influence(primal, active) == with_influence(primal, &left) {
        active.copy_from_slice(&left);
    }
}

/// Which inputs the outputs depend on by way of active variables.
fn with_influence(primal: &Program, active: &[bool]) -> Vec<bool> {
    let mut reached = vec![false; primal.num_vars()];
    for &out in &primal.outs {
        reached[out as usize] = active[out as usize];
    }
    for k in (0..primal.eqns.len()).rev() {
        if reached[primal.result(k) as usize] {
            for &a in primal.args(&primal.eqns[k]) {
                reached[a as usize] |= active[a as usize];
            }
        }
    }
    reached.truncate(primal.num_inputs());
    reached
}
