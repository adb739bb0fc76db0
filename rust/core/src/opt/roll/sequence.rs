//! What is read one by one, as the pieces of one array.

use num_complex::Complex;

use crate::aval::{DType, Shape};
use crate::ops;
use crate::prim::{Params, V, Var};
use crate::program::Builder;

/// Where an element of a stack lies: which stretch and place made it, and its place among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub stretch: usize,
    pub place: usize,
    pub index: usize,
}

/// Elements one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// One variable so many times.
    Same(Var, usize),
    /// Rows of a stack, `step` apart.
    Rows { from: Row, len: usize, step: isize },
    /// The same of what a carry was before each step.
    Before { from: Row, len: usize, step: isize },
    /// Known numbers.
    Numbers(DType, Vec<Complex<f64>>),
}

/// What a variable is.
pub(super) enum Element {
    Row(Row),
    Number(DType, Complex<f64>),
    Var,
}

/// The pieces of a sequence.
pub(super) fn pieces(vars: &[Var], element: impl Fn(Var) -> Element) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for &v in vars {
        let last = pieces.last_mut();
        if let Some(Piece::Same(same, count)) = last
            && *same == v
        {
            *count += 1;
            continue;
        }
        match (element(v), last) {
            (Element::Row(row), Some(Piece::Rows { from, len, step }))
                if (from.stretch, from.place) == (row.stretch, row.place)
                    && row.index != from.index
                    && (*len == 1
                        || row.index as isize == from.index as isize + *step * *len as isize) =>
            {
                if *len == 1 {
                    *step = row.index as isize - from.index as isize;
                }
                *len += 1;
            }
            (Element::Row(from), _) => pieces.push(Piece::Rows {
                from,
                len: 1,
                step: 1,
            }),
            (Element::Number(_, z), Some(Piece::Numbers(_, all))) => all.push(z),
            (Element::Number(dtype, z), _) => pieces.push(Piece::Numbers(dtype, vec![z])),
            (Element::Var, _) => pieces.push(Piece::Same(v, 1)),
        }
    }
    pieces
}

/// Known numbers as an array.
pub(super) fn numbers<'e>(builder: &'e Builder, dtype: DType, all: &[Complex<f64>]) -> V<'e> {
    let bits = |z: &Complex<f64>| (z.re.to_bits(), z.im.to_bits());
    let literal = |z: Complex<f64>| builder.value(builder.complex_literal(dtype, z));
    if all.iter().all(|z| bits(z) == bits(&all[0])) {
        return literal(all[0]).broadcast_to(&[all.len()]);
    }
    if let Some(found) = progression(builder, dtype, all) {
        return found;
    }
    if let Some(found) = reciprocals(builder, dtype, all) {
        return found;
    }
    let vars: Vec<V<'e>> = all.iter().map(|&z| literal(z)).collect();
    stack(&vars)
}

/// One by numbers at equal distances, if the bits come out.
fn reciprocals<'e>(builder: &'e Builder, dtype: DType, all: &[Complex<f64>]) -> Option<V<'e>> {
    if !matches!(dtype, DType::F64 | DType::F32) {
        return None;
    }
    let below: Vec<Complex<f64>> = all.iter().map(|z| (1.0 / z.re).round().into()).collect();
    let mut both = all.iter().zip(&below);
    if !both.all(|(z, n)| z.im == 0.0 && rounded(dtype, 1.0 / n.re).to_bits() == z.re.to_bits()) {
        return None;
    }
    let below = progression(builder, dtype, &below)?;
    Some(below.number(1.0).combine(ops::DIV, below))
}

/// A number of this dtype.
fn rounded(dtype: DType, x: f64) -> f64 {
    if dtype == DType::F32 {
        f64::from(x as f32)
    } else {
        x
    }
}

/// Numbers at equal distances, if their bits come out.
fn progression<'e>(builder: &'e Builder, dtype: DType, all: &[Complex<f64>]) -> Option<V<'e>> {
    if !matches!(dtype, DType::F64 | DType::F32 | DType::I64) || all.len() < 3 {
        return None;
    }
    let rounded = |x: f64| rounded(dtype, x);
    let (first, by) = (all[0].re, rounded(all[1].re - all[0].re));
    let exact = 2f64.powi(53);
    if all
        .iter()
        .any(|z| z.im != 0.0 || (dtype == DType::I64 && z.re.abs() > exact))
    {
        return None;
    }
    let fits = |at: &dyn Fn(f64) -> f64| {
        (all.iter().enumerate()).all(|(i, z)| at(i as f64).to_bits() == z.re.to_bits())
    };
    let count = |start: f64| {
        let count = builder.emit(ops::IOTA, Params::Size(all.len()), &[]);
        let count = builder.value(count);
        let count = if start == 0.0 {
            count
        } else {
            count.combine(ops::ADD, count.number(start))
        };
        if dtype == DType::I64 {
            count
        } else {
            count.cast(dtype)
        }
    };
    // The last number says most about the distance.
    let far = (all[all.len() - 1].re - first) / (all.len() - 1) as f64;
    for by in [by, rounded(far)] {
        let start = (first / by).round();
        if start.abs() < exact && fits(&|i| rounded(rounded(i + start) * by)) {
            let numbers = count(start);
            return Some(numbers.combine(ops::MUL, numbers.number(by)));
        }
        if fits(&|i| rounded(rounded(i * by) + first)) {
            let numbers = count(0.0);
            let moved = numbers.combine(ops::MUL, numbers.number(by));
            return Some(moved.combine(ops::ADD, moved.number(first)));
        }
    }
    None
}

/// Arrays of one shape along a new first axis.
pub(super) fn stack<'e>(all: &[V<'e>]) -> V<'e> {
    all[0].apply(ops::STACK, Params::None, &all[1..])
}

/// Stacks one after the other.
pub(super) fn joined<'e>(all: &[V<'e>]) -> V<'e> {
    match all {
        [one] => *one,
        _ => all[0].apply(ops::CONCATENATE, Params::Axis(0), &all[1..]),
    }
}

/// One array so many times.
pub(super) fn repeated(x: V<'_>, count: usize) -> V<'_> {
    let mut shape: Shape = x.shape();
    if count == 1 {
        shape.insert(0, 1);
        return x.reshape(&shape);
    }
    shape.insert(0, count);
    x.broadcast_to(&shape)
}
