//! Makes the cotangent of an object: a `Tangent`, or what its class makes of it.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::runtime::hooks;
use crate::runtime::once_cell::{Once, intern};
use crate::runtime::slots::{instance_dict, set_slot, slot_value};
use crate::tree::class_layout::known;

/// Why a field has no cotangent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Nothing depends on it: zero.
    NoInfluence,
    /// It was not asked for, or is a structure without any.
    NotAsked,
    /// It is no leaf: data, or a number that is held constant.
    Data,
}

/// The cotangent of an object, as its class wants it. `absent` is asked about fields without one.
pub fn tangent<'py>(
    object: &Bound<'py, PyAny>,
    fields: &Bound<'py, PyDict>,
    absent: impl Fn(&Bound<'py, PyString>) -> Absent,
) -> PyResult<Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    if crate::tree::natural_cotangent::is_natural(&object.get_type()) {
        return instance(object, fields, absent);
    }
    let make = MAKE.made(py, || {
        let object = py.import("builtins")?.getattr("object")?;
        Ok::<_, PyErr>(object.getattr("__new__")?.unbind())
    })?;
    let new = make.bind(py).call1((hooks::TANGENT_CLASS.get(py)?,))?;
    set_slot(&new, intern!(py, "_type"), object.get_type().as_any())?;
    set_slot(&new, intern!(py, "_fields"), fields.as_any())?;
    match &known(object)?.project {
        Some(project) => project.bind(py).call1((object, new)),
        None => Ok(new),
    }
}

/// The cotangent of an object as another object of its class: zero where nothing depends on a field, None
/// where it was not asked for, and data as it is.
fn instance<'py>(
    original: &Bound<'py, PyAny>,
    fields: &Bound<'py, PyDict>,
    absent: impl Fn(&Bound<'py, PyString>) -> Absent,
) -> PyResult<Bound<'py, PyAny>> {
    let py = original.py();
    let layout = known(original)?;
    let new = layout.empty(&original.get_type())?;
    let dict = layout.has_dict.then(|| instance_dict(&new)).transpose()?;
    let zero = hooks::ZERO.get(py)?;
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
        let none = || py.None().into_bound(py);
        let own = own.unwrap_or_else(none);
        let value = match absent(name) {
            _ if !ct.is_none() => ct,
            Absent::NoInfluence => zero.call1((own,))?,
            Absent::NotAsked => none(),
            // What has a zero of its own is a number.
            Absent::Data if zero.call1((&own,))?.is(&own) => own,
            Absent::Data => none(),
        };
        match &dict {
            Some(dict) if !is_slot => dict.set_item(name, value)?,
            _ => set_slot(&new, name, &value)?,
        }
    }
    Ok(new)
}
