//! Calls overrides so that a prepared function can replay what they compute: an override that reads values is repeated
//! as a whole in each replay, and only what cannot be repeated is refused.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::escapes;
use crate::runtime::error::raise_interrupt;
use crate::runtime::hooks;

/// What an override gives.
///
/// While a function is prepared, an override that is refused the value of an array is called once more, in a way that
/// a replay can repeat.
pub fn call<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(mark) = escapes::mark() else {
        return function.call(args, kwargs);
    };
    let py = function.py();
    let state = hooks::STATE_OF_CALLBACKS.get(py)?.call1((args, kwargs))?;
    let result = function.call(args, kwargs);
    let Some(refusal) = escapes::take_refusal(&mark) else {
        return result;
    };
    if let Err(error) = &result {
        raise_interrupt(py, error)?;
    }
    let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
    let repeat = hooks::REPEATED_CALL.get(py)?;
    let repeated = match repeat.call1((function, args, &kwargs, state)) {
        Ok(repeated) => repeated,
        Err(error) => {
            // Code that catches the error takes a way that nothing guards.
            escapes::refuse_again(py, &refusal);
            return Err(error);
        }
    };
    if repeated.is(py.Ellipsis()) {
        escapes::refuse_again(py, &refusal);
        return match result {
            Err(error) => Err(error),
            Ok(_) => Err(refusal),
        };
    }
    Ok(repeated)
}
