//! Subclasses of ndarray: those that only add attributes are arrays like others; what means something
//! else by its operators, or hides elements, is not taken for one.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::runtime::once_cell::Once;

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
    static IS_PLAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = class.py();
    let is_plain = IS_PLAIN.made(py, || {
        py.import("cotan._src.runtime.ndarray_subclasses")?
            .getattr("is_plain")
            .map(Bound::unbind)
    })?;
    is_plain.bind(py).call1((class,))?.extract()
}

/// [`is_plain`], or an error where nobody else can answer.
pub fn expect_plain(array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    if is_plain(array)? {
        return Ok(());
    }
    let refusal = array
        .py()
        .import("cotan._src.runtime.ndarray_subclasses")?
        .call_method1("refusal", (array.get_type(),))?;
    Err(PyErr::from_value(refusal))
}
