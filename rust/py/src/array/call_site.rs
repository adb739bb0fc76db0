//! Refuses two functions, known by the frame that runs, that would take the memory of an array or its rows for
//! NumPy's: `as_strided`, and the `shuffle` of a compiled generator.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::runtime::frame::{code_of, frame};
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::runtime::recording_state::is_lifting;

/// Whether a function of this name runs, in a file whose path has such a part.
pub fn is_asked_by(py: Python<'_>, name: &str, file: &str) -> PyResult<bool> {
    let code = code_of(&frame(py)?);
    let is_it = code.getattr(intern!(py, "co_name"))?.eq(name)?;
    Ok(is_it && code.getattr(intern!(py, "co_filename"))?.contains(file)?)
}

/// Refuses the `shuffle` of a generator whose class is compiled: it asks for the length first, and would
/// take the rows of an `Array` for copies. Only code that names it is looked at.
pub fn expect_no_shuffle(py: Python<'_>) -> PyResult<()> {
    if !is_lifting() {
        return Ok(());
    }
    let frame = frame(py)?;
    let names = code_of(&frame).getattr(intern!(py, "co_names"))?;
    if !names.contains(intern!(py, "shuffle"))? {
        return Ok(());
    }
    let shuffles = hooks::IS_SHUFFLING.get(py)?;
    if shuffles.call1((frame,))?.is_truthy()? {
        return Err(PyTypeError::new_err(
            "shuffle: a generator that was made before the recording takes the rows of an array for copies, \
             so that some would come out twice; write x = x[rng.permutation(len(x))], or make the generator \
             in the function",
        ));
    }
    Ok(())
}
