//! Keeps a prepared function from being recorded once for each value of a number that is held constant: a step size, a
//! point in time. The function gets such a number as it is when it is recorded first. Where it has another value in a
//! later call, the function gets an array in its place, and replays read each call's value.
//!
//! Python code can tell an array from a number, so not every function gets one: not where code looks at classes or
//! identities, and not where it needs the number itself. What Python computes with numbers alone has to be what the
//! array's operations compute: quotients and powers are guarded to be finite, since Python raises errors or gives
//! complex numbers where they are not. Last, the new recording has to give with the earlier number what the earlier
//! recording gives. Otherwise each value has a recording of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cotan::aval::DType;
use cotan::kernels::Value;
use cotan::{Array, Number};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple};

use crate::prepare::recordings::PyPrepared;
use crate::prepare::specialization::{Failure, Outputs, Specialization, Taken};
use crate::runtime::error::raise_interrupt;
use crate::runtime::hooks;
use crate::tree::treedef::Kind;

/// After so many attempts that came to nothing there are no more: each calls the function once.
const ATTEMPTS: u32 = 3;

impl PyPrepared {
    /// A recording for arguments like these, in which numbers vary that differ from those of an earlier one.
    pub(super) fn recording(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        taken: &Taken,
    ) -> PyResult<Arc<Specialization>> {
        if let Some((earlier, numbers)) = self.earlier(py, taken)? {
            let varying: Vec<usize> = (0..taken.leaves.len())
                .filter(|i| earlier.varies(*i) || numbers.contains(i))
                .collect();
            match self.recorded(py, args, taken, &varying) {
                Ok(new) => {
                    if agree(py, &earlier, &new, taken, &numbers)? {
                        return Ok(Arc::new(new));
                    }
                }
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    raise_interrupt(py, &error)?;
                }
                Err(error) => return Err(error),
            }
            self.vain_attempts.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Arc::new(self.recorded(py, args, taken, &[])?))
    }

    /// A recording that only numbers held constant keep from being replayed, and these numbers.
    fn earlier(
        &self,
        py: Python<'_>,
        taken: &Taken,
    ) -> PyResult<Option<(Arc<Specialization>, Vec<usize>)>> {
        if taken.arrays.is_some() || self.vain_attempts.load(Ordering::Relaxed) >= ATTEMPTS {
            return Ok(None);
        }
        let kept = self.lock().clone();
        for earlier in kept {
            let Some(numbers) = earlier.other_numbers(py, taken)? else {
                continue;
            };
            let is_float = |o: &Py<PyAny>| o.bind(py).is_instance_of::<PyFloat>();
            let can_vary = |&i: &usize| {
                let was = earlier.specs[i].fixed.as_ref();
                is_float(&taken.leaves[i].object) && was.is_some_and(is_float)
            };
            let vary = !numbers.is_empty() && numbers.iter().all(can_vary);
            if vary && !earlier.program.calls_back() {
                let codes = earlier.guards.iter().filter_map(|w| w.guard.code(py));
                let codes = PyTuple::new(py, codes.collect::<Vec<_>>())?;
                let tells_apart = hooks::TELLS_NUMBERS_APART.get(py)?.call1((codes,))?;
                return Ok((!tells_apart.is_truthy()?).then_some((earlier, numbers)));
            }
        }
        Ok(None)
    }
}

impl Specialization {
    /// Whether a leaf is a number, held constant, of any value.
    pub(super) fn varies(&self, leaf: usize) -> bool {
        let spec = &self.specs[leaf];
        let is_number = matches!(spec.kind, Kind::Number | Kind::Scalar);
        is_number && spec.fixed.is_none() && !self.slots.contains(&leaf)
    }
}

/// Whether two recordings give the same, to rounding, for these arguments with the numbers of the earlier one.
fn agree(
    py: Python<'_>,
    earlier: &Specialization,
    new: &Specialization,
    taken: &Taken,
    numbers: &[usize],
) -> PyResult<bool> {
    if new.program.calls_back() || new.kinds != earlier.kinds {
        return Ok(false);
    }
    let mut leaves: Vec<_> = taken.leaves.iter().map(|leaf| leaf.clone_ref(py)).collect();
    for &i in numbers {
        let Some(number) = &earlier.specs[i].fixed else {
            return Ok(false);
        };
        leaves[i].object = number.clone_ref(py);
        let value = number.bind(py).cast::<PyFloat>()?.value();
        leaves[i].array = Array::number(DType::F64, Number::Float(value));
    }
    let taken = Taken {
        trees: taken.trees.iter().map(|tree| tree.clone_ref(py)).collect(),
        leaves,
        arrays: None,
        by_keyword: taken.by_keyword,
    };
    let (Some(a), Some(b)) = (results(py, earlier, &taken)?, results(py, new, &taken)?) else {
        return Ok(false);
    };
    Ok(a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| are_close(a, b)))
}

/// What a recording gives for arguments; nothing where it does not hold for them.
fn results(
    py: Python<'_>,
    recording: &Specialization,
    taken: &Taken,
) -> PyResult<Option<Vec<Value>>> {
    match recording.run(py, taken) {
        Ok(Some(mut outs)) => {
            // What a pullback keeps is its own affair.
            outs.truncate(match &recording.outputs {
                Outputs::Pullback(_, count, _) => *count,
                _ => recording.results,
            });
            Ok(Some(outs))
        }
        Ok(None) | Err(Failure::Value | Failure::Changed(_)) => Ok(None),
        Err(Failure::Raised(error)) => Err(error),
    }
}

/// Whether two results are the same number for number, but for rounding.
fn are_close(a: &Value, b: &Value) -> bool {
    if a.aval() != b.aval() || a.bring_here().is_err() || b.bring_here().is_err() {
        return false;
    }
    let (Some(x), Some(y)) = (numbers_of(a), numbers_of(b)) else {
        return a.same_bits(b);
    };
    let is_wide = a.dtype().size().is_multiple_of(8);
    let finite = x.iter().map(|x| x.abs()).filter(|x| x.is_finite());
    let tolerance = finite.fold(0.0, f64::max) * if is_wide { 1e-9 } else { 1e-4 };
    (x.iter().zip(&y))
        .all(|(x, y)| x == y || (x - y).abs() <= tolerance || x.is_nan() && y.is_nan())
}

/// The real numbers that a value consists of, if it is of floats.
fn numbers_of(value: &Value) -> Option<Vec<f64>> {
    let bytes = value.bytes_in_order();
    match value.dtype() {
        DType::F64 | DType::C128 => {
            let number = |b: &[u8]| Some(f64::from_ne_bytes(b.try_into().ok()?));
            bytes.chunks_exact(8).map(number).collect()
        }
        DType::F32 | DType::C64 => {
            let number = |b: &[u8]| Some(f64::from(f32::from_ne_bytes(b.try_into().ok()?)));
            bytes.chunks_exact(4).map(number).collect()
        }
        _ => None,
    }
}
