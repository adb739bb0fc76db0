//! Jacobian matrices of Python functions: the pushforward or the pullback, applied to all unit vectors at once.

use std::ops::Range;

use cotan::autodiff::{Pullback, Pushforward, on_basis};
use cotan::{Array, Aval, Recording};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::cell::ScalarKind;
use crate::runtime::error::enter;
use crate::runtime::exports::exports;
use crate::transforms::keywords::asked;
use crate::transforms::leaves::{Inputs, Request};
use crate::transforms::nonfinite::named;
use crate::transforms::present::{assembled, handed_out};
use crate::transforms::recorded_results::RecordedResults;
use crate::tree::natural_cotangent::Scope;
use crate::tree::treedef::{Kind, present};

exports!(jacobian_of);

/// The direction in which a Jacobian is computed.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Forward,
    Reverse,
    /// Whichever takes fewer passes.
    Auto,
}

/// What the parts of a Jacobian look like: the differentiated leaves and the results, one behind the other.
struct Sides {
    /// Dtypes and shapes of the leaves.
    inputs: Vec<Aval>,
    /// Those of the results; those that have no derivative are integers.
    outputs: Vec<Aval>,
}

impl Sides {
    /// Where each of a list begins and ends.
    fn ranges(avals: &[Aval]) -> Vec<Range<usize>> {
        let mut next = 0;
        (avals.iter())
            .map(|aval| {
                next += aval.size();
                next - aval.size()..next
            })
            .collect()
    }

    fn size(avals: &[Aval]) -> usize {
        let inexact = avals.iter().filter(|aval| aval.dtype.is_inexact());
        inexact.map(Aval::size).sum()
    }

    /// The part of the Jacobian for a result and a leaf.
    fn part(&self, output: usize, input: usize) -> Aval {
        let (y, x) = (&self.outputs[output], &self.inputs[input]);
        let shape: Vec<usize> = y.shape.iter().chain(&x.shape).copied().collect();
        let dtype = if y.dtype.is_complex() {
            y.dtype
        } else {
            x.dtype
        };
        Aval::new(dtype, &shape)
    }
}

/// For each result and each leaf a part of the matrix; `None` where it is zero.
type Parts = Vec<Vec<Option<Array>>>;

/// Rows `range` of an array.
fn rows(array: &Array, range: &Range<usize>) -> cotan::Result<Array> {
    let mut ranges: Vec<Range<usize>> = array.shape().iter().map(|&n| 0..n).collect();
    ranges[0] = range.clone();
    array.slice(&ranges)
}

/// From the tangents of the results along all unit vectors.
fn from_columns(push: &Pushforward, columns: &[Array], sides: &Sides) -> cotan::Result<Parts> {
    let ranges = Sides::ranges(&sides.inputs);
    let part = |j: usize, k: usize, column: &Array| {
        let aval = sides.part(j, k);
        let part = rows(column, &ranges[k])?;
        let last = part.shape().len() as isize;
        let axes: Vec<isize> = (1..last).chain([0]).collect();
        part.transpose(&axes)?
            .reshape(&aval.shape)?
            .cast(aval.dtype)
    };
    (push.results().iter().enumerate())
        .map(|(j, slot)| {
            (0..sides.inputs.len())
                .map(|k| slot.map(|slot| part(j, k, &columns[slot])).transpose())
                .collect()
        })
        .collect()
}

/// From the cotangents of the leaves for all unit vectors.
fn from_rows(back: &Pullback, found: &[Array], sides: &Sides) -> cotan::Result<Parts> {
    let asked: Vec<Aval> = (back.cotangents().iter().zip(&sides.outputs))
        .filter_map(|(slot, aval)| slot.map(|_| aval.clone()))
        .collect();
    let mut ranges = Sides::ranges(&asked).into_iter();
    (back.cotangents().iter().enumerate())
        .map(|(j, slot)| {
            let range = slot.and_then(|_| ranges.next());
            (back.gradients().iter().enumerate())
                .map(|(k, slot)| {
                    let (Some(range), Some(slot)) = (&range, *slot) else {
                        return Ok(None);
                    };
                    let aval = sides.part(j, k);
                    let part = rows(&found[slot], range)?.reshape(&aval.shape)?;
                    // The pullback applies the conjugate transpose.
                    let part = if part.dtype().is_complex() {
                        part.conj()?
                    } else {
                        part
                    };
                    Ok(Some(part.cast(aval.dtype)?))
                })
                .collect()
        })
        .collect()
}

/// Values, and the parts of the Jacobian, in this mode.
fn computed(
    recording: &Recording,
    (outputs, aux): (&[&Array], usize),
    leaves: &[Array],
    sides: &Sides,
    mode: Mode,
    interrupted: &mut dyn FnMut() -> bool,
) -> cotan::Result<(Vec<Array>, Parts)> {
    if mode != Mode::Reverse {
        match Pushforward::new(recording, outputs, aux, leaves, interrupted) {
            Ok((outs, push)) => {
                let linear = push.tangents().iter().flatten().count();
                let columns = on_basis(push.program(), linear, push.residuals(), interrupted)?;
                return Ok((outs, from_columns(&push, &columns, sides)?));
            }
            // There is a reverse rule only.
            Err(cotan::Error::NotDifferentiable(_)) if mode == Mode::Auto => {}
            Err(error) => return Err(error),
        }
    }
    let (outs, back) = Pullback::with_aux(recording, outputs, aux, leaves, interrupted)?;
    let linear = back.cotangents().iter().flatten().count();
    let program = back.shared_program();
    let found = on_basis(program, linear, back.residuals(), interrupted)?;
    Ok((outs, from_rows(&back, &found, sides)?))
}

/// Refuses complex numbers where a complex matrix does not say how the function changes.
fn expect_real(
    name: &str,
    inputs: &Inputs,
    sides: &Sides,
    holomorphic: bool,
    mode: Mode,
) -> PyResult<()> {
    let first = |complex: bool, avals: &[Aval]| {
        let mut found = avals.iter().filter(|aval| aval.dtype.is_inexact());
        found.position(|aval| aval.dtype.is_complex() == complex)
    };
    let path = |k: usize| {
        let path = &inputs.leaves[inputs.active[k].0].path;
        if path.is_empty() {
            "an argument".to_string()
        } else {
            path.clone()
        }
    };
    let message = match (first(true, &sides.inputs), first(false, &sides.inputs)) {
        (Some(k), _) if !holomorphic => format!(
            "{name}: {} is complex; a complex matrix is the derivative of holomorphic functions only: pass \
             holomorphic=True if it is one, or differentiate with respect to real and imaginary parts",
            path(k)
        ),
        (_, Some(k)) if holomorphic => format!(
            "{name}: holomorphic=True is for complex arguments, and {} is real",
            path(k)
        ),
        (None, _) if mode == Mode::Reverse && first(true, &sides.outputs).is_some() => format!(
            "{name}: the result is complex and the arguments are real, which takes forward mode; use ct.jacfwd"
        ),
        (Some(_), _) if first(false, &sides.outputs).is_some() => format!(
            "{name}: holomorphic=True is for functions with complex results, and this one is real; use ct.gradient"
        ),
        _ => return Ok(()),
    };
    Err(PyTypeError::new_err(message))
}

/// The Jacobian of a function: for each array of its result a structure like the arguments, whose parts have the shape
/// of the result and then that of the leaf. `chosen` says which arguments are in it: one position for that alone, several
/// for a tuple of these, None for a tuple of all. With `has_aux` also what the function returned besides.
#[pyfunction]
#[pyo3(signature = (
    name: "str",
    f: "Function",
    args: "Args",
    wrt: "_Wrt",
    chosen: "int | list[int] | None",
    mode: "str",
    has_aux: "bool",
    holomorphic: "bool"
) -> "tuple[Any, Any]")]
#[allow(clippy::too_many_arguments)]
pub fn jacobian_of<'py>(
    py: Python<'py>,
    name: &str,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    chosen: Option<&Bound<'py, PyAny>>,
    mode: &str,
    has_aux: bool,
    holomorphic: bool,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let mut mode = match mode {
        "forward" => Mode::Forward,
        "reverse" => Mode::Reverse,
        _ => Mode::Auto,
    };
    let _scope = Scope::enter();
    let (f, wrt) = asked(name, f, args, wrt, None, None)?;
    let chosen = Chosen::of(chosen)?;
    let recording = Recording::new();
    let request = Request::gradient(name, wrt.as_ref());
    let mut inputs = Inputs::new(&recording, &f, args, request)?;
    inputs.is_derived = mode != Mode::Forward;
    let y = named(&f, &inputs, inputs.call(&f))?;
    let recorded = RecordedResults::of(name, y, has_aux)?;
    let leaves = inputs.recorded();
    let sides = Sides {
        inputs: leaves.iter().map(|leaf| leaf.aval().clone()).collect(),
        outputs: recorded.avals(),
    };
    expect_real(name, &inputs, &sides, holomorphic, mode)?;
    let is_wide = Sides::size(&sides.inputs) > Sides::size(&sides.outputs);
    let is_complex = |avals: &[Aval]| avals.iter().any(|aval| aval.dtype.is_complex());
    if mode == Mode::Auto && is_complex(&sides.outputs) && !is_complex(&sides.inputs) {
        mode = Mode::Forward;
    } else if mode == Mode::Auto && is_wide {
        mode = Mode::Reverse;
    }
    let (outputs, behind) = (recorded.outputs(), recorded.behind);
    let as_arrays = inputs.returns_arrays();
    let made = enter(py, |interrupted| {
        let outs: Vec<&Array> = outputs.iter().collect();
        let made = computed(
            &recording,
            (&outs, behind),
            &leaves,
            &sides,
            mode,
            interrupted,
        );
        drop((outputs, leaves, recording));
        let (outs, parts) = made?;
        let parts = filled(parts, &sides)?;
        let waiting: Vec<&Array> = parts.iter().flatten().flatten().collect();
        if !waiting.iter().any(|part| part.is_active()) && !as_arrays {
            Array::force_all(&waiting, interrupted)?;
        }
        Ok((outs, parts))
    });
    let (outs, parts) = named(&f, &inputs, made)?;
    let (_, aux) = recorded.present(py, &inputs, &outs)?;
    let mut blocks = Vec::with_capacity(parts.len());
    for row in &parts {
        blocks.push(match row {
            Some(row) => Some(block(py, &inputs, row, &chosen)?),
            None => None,
        });
    }
    let whole = recorded.tree.tangents(py, &blocks)?;
    let none = || py.None().into_bound(py);
    Ok((whole.unwrap_or_else(none), aux.unwrap_or_else(none)))
}

/// Zeros in place of parts that are not there; nothing for results that have no derivative.
fn filled(parts: Parts, sides: &Sides) -> cotan::Result<Vec<Option<Vec<Array>>>> {
    (parts.into_iter().enumerate())
        .map(|(j, row)| {
            if !sides.outputs[j].dtype.is_inexact() {
                return Ok(None);
            }
            let fill = |(k, part): (usize, Option<Array>)| {
                let aval = sides.part(j, k);
                part.map_or_else(|| Array::zeros(aval.dtype, &aval.shape), Ok)
            };
            let row = row.into_iter().enumerate().map(fill);
            row.collect::<cotan::Result<_>>().map(Some)
        })
        .collect()
}

/// Which arguments are in the result.
enum Chosen {
    All,
    One(usize),
    These(Vec<usize>),
}

impl Chosen {
    fn of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Chosen> {
        let Some(given) = given.filter(|given| !given.is_none()) else {
            return Ok(Chosen::All);
        };
        match given.extract() {
            Ok(position) => Ok(Chosen::One(position)),
            Err(_) => Ok(Chosen::These(given.extract()?)),
        }
    }
}

/// The parts for one result, as a structure like the arguments.
fn block<'py>(
    py: Python<'py>,
    inputs: &Inputs,
    parts: &[Array],
    chosen: &Chosen,
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = vec![None; inputs.leaves.len()];
    let mut asked = vec![false; inputs.leaves.len()];
    for ((i, _), part) in inputs.active.iter().zip(parts) {
        let kind = match inputs.leaves[*i].kind {
            kind if part.shape().is_empty() => kind,
            Kind::NdArray | Kind::Number | Kind::Scalar => Kind::NdArray,
            Kind::Array(_) => Kind::Array(ScalarKind::Array),
        };
        asked[*i] = true;
        objects[*i] = Some(present(py, part, kind)?);
    }
    let entries = assembled(py, &inputs.trees, &objects, &asked)?;
    let entry = |i: usize| {
        let missing = || PyValueError::new_err(format!("there is no argument {i}"));
        entries.get(i).cloned().ok_or_else(missing)
    };
    match chosen {
        Chosen::All => handed_out(py, entries, inputs.arrays.as_deref()),
        Chosen::One(i) => entry(*i),
        Chosen::These(list) => {
            let list: Vec<Bound<'py, PyAny>> =
                list.iter().map(|&i| entry(i)).collect::<PyResult<_>>()?;
            Ok(PyTuple::new(py, list)?.into_any())
        }
    }
}
