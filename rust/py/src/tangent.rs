//! Cotangents of objects: a `Tangent`, or what their class makes of it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use crate::convert::{instance_dict, set_slot, slot_value};
use crate::tree::known;

/// The cotangent of an object, as its class wants it.
pub fn tangent<'py>(
    object: &Bound<'py, PyAny>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<(Py<PyType>, Py<PyAny>)> = PyOnceLock::new();
    let py = object.py();
    if crate::natural::is_natural(&object.get_type()) {
        return instance(object, fields);
    }
    let (class, make) = CLASS.get_or_try_init(py, || {
        let class = py.import("cotan._structures")?.getattr("Tangent")?;
        let make = py
            .import("builtins")?
            .getattr("object")?
            .getattr("__new__")?;
        Ok::<_, PyErr>((class.cast_into::<PyType>()?.unbind(), make.unbind()))
    })?;
    let new = make.bind(py).call1((class,))?;
    set_slot(&new, intern!(py, "_type"), object.get_type().as_any())?;
    set_slot(&new, intern!(py, "_fields"), fields.as_any())?;
    match &known(object)?.project {
        Some(project) => project.bind(py).call1((object, new)),
        None => Ok(new),
    }
}

/// The cotangent of an object as another object of its class, with zeros where there is none.
fn instance<'py>(
    original: &Bound<'py, PyAny>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = original.py();
    let layout = known(original)?;
    let new = layout.empty(&original.get_type())?;
    let dict = layout.has_dict.then(|| instance_dict(&new)).transpose()?;
    let zero = py.import("cotan._rules")?.getattr("zero")?;
    for (name, ct) in fields {
        let name = name.cast::<PyString>()?;
        let is_slot = layout
            .slots
            .iter()
            .any(|s| s.bind(py).as_any().eq(name).unwrap_or(false));
        let own = if is_slot {
            slot_value(original, name)?
        } else {
            instance_dict(original)?.get_item(name)?
        };
        let value = if ct.is_none() {
            zero.call1((own,))?
        } else {
            ct
        };
        match &dict {
            Some(dict) if !is_slot => dict.set_item(name, value)?,
            _ => set_slot(&new, name, &value)?,
        }
    }
    Ok(new)
}
