//! Decides which subclasses of ndarray are read as arrays: those that only add attributes. What changes the
//! operators, or hides elements, is refused or computes itself.

use numpy::PyUntypedArray;
use pyo3::prelude::*;

use crate::runtime::hooks;

/// Whether an ndarray means what its memory says. An error for masked arrays and `np.matrix`, which
/// would be misread in silence; false for a class that answers ufuncs or operators itself.
pub fn is_plain(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    if array.is_exact_instance_of::<PyUntypedArray>() {
        return Ok(true);
    }
    is_plain_class(array.get_type().as_any())
}

/// [`is_plain`], by class.
pub fn is_plain_class(class: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_plain = hooks::IS_PLAIN_SUBCLASS.get(class.py())?;
    is_plain.call1((class,))?.extract()
}

/// [`is_plain`], or an error where nobody else can answer.
pub fn expect_plain(array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    if is_plain(array)? {
        return Ok(());
    }
    let refusal = hooks::SUBCLASS_REFUSAL
        .get(array.py())?
        .call1((array.get_type(),))?;
    Err(PyErr::from_value(refusal))
}
