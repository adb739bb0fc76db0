//! Records loops as equations: a step is traced, and repeated as a program.

use cotan::Array;
use cotan::autodiff::{Step, TracedStep};
use cotan::aval::Aval;
use cotan::program::End;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::array::cell::{ScalarKind, wrap, wrap_result};
use crate::array::escapes::Attempt;
use crate::ndarray::memory::Borrow;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;
use crate::runtime::recording_state::{Mapping, Tracing};
use crate::transforms::checkpoint::Frame;
use crate::transforms::run::Nested;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::Kind;

exports!(record_loop);

/// After so many steps more, numbers of Python have become those of NumPy or never do.
const MOST_TRIES: usize = 4;

type Recorded<'py> = (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>);

/// What a step takes or gives: arrays, and what they were.
struct Values {
    arrays: Vec<Array>,
    kinds: Vec<Kind>,
}

impl Values {
    /// A list of arrays and numbers; `None` if there is something else in it.
    fn new(list: &Bound<'_, PyAny>) -> PyResult<Option<Values>> {
        let list = list.cast::<PyList>()?;
        let (mut arrays, mut kinds) = (Vec::new(), Vec::new());
        for item in list {
            let mut flattener = Flattener::new(Borrow::Copy, true, false);
            flattener.flatten(&item, Position::Direct, true, "")?;
            let Ok([leaf]) = <[_; 1]>::try_from(flattener.leaves) else {
                return Ok(None);
            };
            arrays.push(leaf.array);
            kinds.push(leaf.kind);
        }
        Ok(Some(Values { arrays, kinds }))
    }
}

/// Records a loop as one equation for each result, if its step can be traced: it looks at no value, does the
/// same each time, calls nothing back, and carries on what it is given. Gives the last carries and the
/// stacked results; `None` if it cannot.
///
/// `step` takes two lists, of what is carried and of slices, and gives two: what is carried on, and what is
/// stacked. An error that it raises is raised. With `counts` the first slice is a Python number. With
/// `conditional` the first carry, a bool, says before each step whether it is taken, and `length` is the most
/// steps that there may be, or 0. Of `budget` bytes are the carries that the reverse pass keeps.
#[allow(clippy::too_many_arguments)]
#[pyfunction]
#[pyo3(signature = (
    step: "Function",
    carried: "list[Any]",
    scanned: "list[Any]",
    length: "int",
    reverse: "bool",
    counts: "bool",
    conditional: "bool",
    budget: "int | None"
) -> "tuple[list[Any], list[Any]] | None")]
pub fn record_loop<'py>(
    py: Python<'py>,
    step: &Bound<'py, PyAny>,
    carried: &Bound<'py, PyAny>,
    scanned: &Bound<'py, PyAny>,
    length: usize,
    reverse: bool,
    counts: bool,
    conditional: bool,
    budget: Option<usize>,
) -> PyResult<Option<Recorded<'py>>> {
    let (Some(mut carried), Some(mut scanned)) = (Values::new(carried)?, Values::new(scanned)?)
    else {
        return Ok(None);
    };
    scanned.kinds.fill(Kind::Scalar);
    if counts && let Some(number) = scanned.kinds.first_mut() {
        *number = Kind::Number;
    }
    let Some((first, kinds)) = traced(py, step, &carried, &scanned)? else {
        return Ok(None);
    };
    // The second step gets what the first one carried on, which may be of another kind, and so on.
    carried.kinds = kinds;
    let mut tries = 0;
    loop {
        let Some((later, kinds)) = traced(py, step, &carried, &scanned)? else {
            return Ok(None);
        };
        if first.calls_back() || !first.does_the_same(&later) || tries == MOST_TRIES {
            return Ok(None);
        }
        if kinds == carried.kinds {
            break;
        }
        carried.kinds = kinds;
        tries += 1;
    }
    let end = if conditional { End::False } else { End::Length };
    let repeated = first.repeat(
        &carried.arrays,
        &scanned.arrays,
        length,
        reverse,
        end,
        budget,
    );
    let Some((last, stacked)) = repeated.or_raise()? else {
        return Ok(None);
    };
    let last = (last.into_iter().zip(&carried.kinds))
        .map(|(array, kind)| wrap(py, array, kind.scalar_kind()))
        .collect::<PyResult<_>>()?;
    let stacked = (stacked.into_iter())
        .map(|array| wrap(py, array, ScalarKind::Array))
        .collect::<PyResult<_>>()?;
    Ok(Some((last, stacked)))
}

/// Calls a step on what nobody knows the values of. The kinds of what it carries on come with it.
fn traced<'py>(
    py: Python<'py>,
    step: &Bound<'py, PyAny>,
    carried: &Values,
    scanned: &Values,
) -> PyResult<Option<(TracedStep, Vec<Kind>)>> {
    let slices = (scanned.arrays.iter()).map(|x| Aval::new(x.dtype(), &x.shape()[1..]));
    let avals = carried.arrays.iter().map(|x| x.aval().clone());
    let tracing = Step::new(&avals.chain(slices).collect::<Vec<_>>());
    let (first, behind) = tracing.args().split_at(carried.arrays.len());
    let given = PyList::new(
        py,
        (first.iter().zip(&carried.kinds))
            .map(|(array, kind)| wrap(py, array.clone(), kind.scalar_kind()))
            .collect::<PyResult<Vec<_>>>()?,
    )?;
    let slices = PyList::new(
        py,
        (behind.iter().zip(&scanned.kinds))
            .map(|(array, kind)| match kind {
                Kind::Number => wrap(py, array.clone(), ScalarKind::PythonNumber),
                _ => wrap_result(py, array.clone()),
            })
            .collect::<PyResult<Vec<_>>>()?,
    )?;
    let results = {
        let _recording = Nested::enter(py, false)?;
        // Checkpoints in a step are computed again as equations; their functions do not run once more.
        let _frame = Frame::enter();
        // Indices are variables too.
        let _marks = (Tracing::enter(), Mapping::enter());
        let attempt = Attempt::begin();
        let results = step.call1((given, slices));
        if attempt.end() || Mapping::take_looked().is_some() {
            return Ok(None);
        }
        results?
    };
    let pair = results.cast::<PyTuple>()?;
    let on = Values::new(&pair.get_item(0)?)?;
    let ys = Values::new(&pair.get_item(1)?)?;
    let (Some(on), Some(ys)) = (on, ys) else {
        return Ok(None);
    };
    if on.arrays.len() != carried.arrays.len() {
        return Ok(None);
    }
    let outs: Vec<Array> = on.arrays.into_iter().chain(ys.arrays).collect();
    let traced = tracing.finish(&outs).or_raise()?;
    Ok(Some((traced, on.kinds)))
}
