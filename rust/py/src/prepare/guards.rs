//! States what a recording is valid for, the structure of the arguments and the state that the function captured,
//! and checks it before each replay.

use cotan::Aval;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyAttributeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyString, PyTuple,
    PyType,
};

use crate::array::cell::PyArray;
use crate::ndarray::content::Content;
use crate::ndarray::memory::is_numpy_scalar;
use crate::runtime::error::raise_interrupt;
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::tree::treedef::{Form, Kind, Tree};

/// What a leaf was.
pub struct Spec {
    pub kind: Kind,
    pub aval: Aval,
    /// Whether it was held constant by `const`.
    pub held: bool,
    /// A number that the function gets as it is.
    pub fixed: Option<Py<PyAny>>,
}

/// Whether two structures are the same but for the values of their leaves.
pub fn same_structure(py: Python<'_>, a: &Tree, b: &Tree) -> PyResult<bool> {
    crate::runtime::error::step(py)?;
    let all = |a: &[Tree], b: &[Tree]| -> PyResult<bool> {
        for (a, b) in a.iter().zip(b) {
            if !same_structure(py, a, b)? {
                return Ok(false);
            }
        }
        Ok(a.len() == b.len())
    };
    let class = |o: &Py<PyAny>| o.bind(py).get_type();
    Ok(match (a, b) {
        (Tree::Leaf(i), Tree::Leaf(j)) | (Tree::Back(i), Tree::Back(j)) => i == j,
        (Tree::Static(a), Tree::Static(b)) => same_object(a.bind(py), b.bind(py))?,
        (Tree::Tuple(c, a), Tree::Tuple(d, b)) => {
            let same = match (c, d) {
                (None, None) => true,
                (Some(c), Some(d)) => c.is(d),
                _ => false,
            };
            same && all(a, b)?
        }
        (Tree::List(a), Tree::List(b)) => all(a, b)?,
        (Tree::Dict(a), Tree::Dict(b)) => {
            a.len() == b.len() && {
                for ((k, a), (l, b)) in a.iter().zip(b) {
                    if !same_object(k.bind(py), l.bind(py))? || !same_structure(py, a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
        }
        (Tree::Object(x, a), Tree::Object(y, b)) => {
            class(x).is(class(y)) && a.len() == b.len() && {
                for ((k, a), (l, b)) in a.iter().zip(b) {
                    if !same_object(k.bind(py), l.bind(py))? || !same_structure(py, a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
        }
        (Tree::Other(x), Tree::Other(y)) => {
            let form = match (&x.form, &y.form) {
                (Form::Tuple, Form::Tuple)
                | (Form::List, Form::List)
                | (Form::Dict, Form::Dict)
                | (Form::Const, Form::Const) => true,
                (Form::Registered(a), Form::Registered(b)) => same_object(a.bind(py), b.bind(py))?,
                _ => false,
            };
            let mut same =
                form && class(&x.original).is(class(&y.original)) && x.keys.len() == y.keys.len();
            for (k, l) in x.keys.iter().zip(&y.keys) {
                same = same && same_object(k.bind(py), l.bind(py))?;
            }
            same && all(&x.items, &y.items)?
        }
        _ => false,
    })
}

/// Whether two objects are one, or equal and of a class whose instances never change.
pub fn same_object(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let (Ok(a), Ok(b)) = (a.cast_exact::<PyFloat>(), b.cast_exact::<PyFloat>()) {
        return Ok(a.value().to_bits() == b.value().to_bits());
    }
    if a.is(b) {
        // An array of strings can be written to.
        return Ok(!a.is_instance_of::<PyUntypedArray>());
    }
    if !a.get_type().is(b.get_type()) {
        return Ok(false);
    }
    let is_plain = a.is_exact_instance_of::<PyString>()
        || a.is_exact_instance_of::<PyInt>()
        || a.is_exact_instance_of::<PyBool>()
        || a.is_exact_instance_of::<PyBytes>();
    if is_plain {
        return a.eq(b);
    }
    // Zeros have signs.
    if a.is_exact_instance_of::<PyComplex>() {
        return a.repr()?.as_any().eq(b.repr()?);
    }
    if is_numpy_scalar(a)? {
        let name = intern!(a.py(), "tobytes");
        return a.call_method0(name)?.eq(b.call_method0(name)?);
    }
    if let (Ok(a), Ok(b)) = (a.cast_exact::<PyTuple>(), b.cast_exact::<PyTuple>()) {
        if a.len() != b.len() {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(b) {
            if !same_object(&a, &b)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if let (Ok(a), Ok(b)) = (a.cast_exact::<PyFrozenSet>(), b.cast_exact::<PyFrozenSet>()) {
        // In the order in which a loop over them runs.
        for (a, b) in a.iter().zip(b) {
            if !same_object(&a, &b)? {
                return Ok(false);
            }
        }
        return Ok(a.len() == b.len());
    }
    Ok(false)
}

/// A short text for a value.
pub fn described(value: &Bound<'_, PyAny>) -> String {
    let py = value.py();
    (hooks::DESCRIBED.get(py))
        .and_then(|describe| describe.call1((value,)))
        .and_then(|text| text.extract())
        .unwrap_or_else(|_| "an object".into())
}

/// A guard, and where the value that it is on comes from.
pub struct Watched {
    pub guard: Guard,
    /// The source: a global, a closure variable, an attribute of one.
    pub source: String,
}

/// Something around a function that its recording relies on.
pub enum Guard {
    /// A name of a module, or an attribute of an object: a key of its dictionary.
    Name(Py<PyDict>, Py<PyString>, Py<PyAny>),
    /// A variable of a function around it.
    Cell(Py<PyAny>, Py<PyAny>),
    /// An attribute that is not there.
    Absent(Py<PyDict>, Py<PyString>),
    /// An attribute of a class, or one with a place of its own in an object.
    Attribute(Py<PyAny>, Py<PyString>, Py<PyAny>),
    /// The items of a list, a set or another container, or the keys of a dictionary.
    Items(Py<PyAny>, Vec<Py<PyAny>>),
    /// The elements of a plain array that can be written to.
    Elements(Py<PyUntypedArray>, Content),
    /// Which value an `Array` is.
    Array(Py<PyArray>, u64),
}

/// A member of a class or of one that it derives from, as it stands there: a class method that is asked
/// for is another object each time.
fn member<'py>(
    class: &Bound<'py, PyType>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    for class in class.mro() {
        let members = class.getattr(intern!(class.py(), "__dict__"))?;
        if members.contains(name)? {
            return members.get_item(name);
        }
    }
    Err(PyAttributeError::new_err(name.clone().unbind()))
}

/// An attribute as a guard compares it; `None` where there is none, or it cannot be read.
fn attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = match object.cast::<PyType>() {
        Ok(class) => member(class, name),
        Err(_) => object.getattr(name),
    };
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => raise_interrupt(object.py(), &error).map(|()| None),
    }
}

/// Whether it holds a variable of an enclosing function.
fn is_cell(object: &Bound<'_, PyAny>) -> bool {
    let class = object.get_type();
    class.name().is_ok_and(|name| name == "cell")
}

impl Guard {
    /// From an entry of what Python code found: `(owner, name, value)`.
    pub fn new(
        owner: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Guard> {
        if let Ok(array) = owner.cast::<PyUntypedArray>() {
            return Ok(Guard::Elements(array.clone().unbind(), Content::of(array)?));
        }
        if let Ok(cell) = owner.cast::<PyArray>() {
            return Ok(Guard::Array(cell.clone().unbind(), cell.get().read()?.id()));
        }
        let name = name.cast::<PyString>()?;
        if name.is_empty()? && value.is_exact_instance_of::<PyList>() && !is_cell(owner) {
            return Ok(Guard::Items(owner.clone().unbind(), value.extract()?));
        }
        let name = name.clone().unbind();
        if let Ok(dict) = owner.cast::<PyDict>() {
            if value.is_none() && !dict.contains(&name)? {
                return Ok(Guard::Absent(dict.clone().unbind(), name));
            }
            return Ok(Guard::Name(
                dict.clone().unbind(),
                name,
                value.clone().unbind(),
            ));
        }
        let (object, value) = (owner.clone().unbind(), value.clone().unbind());
        Ok(if is_cell(owner) {
            Guard::Cell(object, value)
        } else {
            Guard::Attribute(object, name, value)
        })
    }

    /// Whether nothing has changed.
    pub fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        match self {
            Guard::Name(names, name, value) => match names.bind(py).get_item(name)? {
                Some(now) => Ok(now.is(value) || same_object(&now, value.bind(py))?),
                None => Ok(false),
            },
            Guard::Cell(cell, value) => match cell.bind(py).getattr(intern!(py, "cell_contents")) {
                Ok(now) => Ok(now.is(value) || same_object(&now, value.bind(py))?),
                Err(_) => Ok(false),
            },
            Guard::Absent(names, name) => Ok(!names.bind(py).contains(name)?),
            Guard::Attribute(object, name, value) => {
                match attribute(object.bind(py), name.bind(py))? {
                    Some(now) => Ok(now.is(value) || same_object(&now, value.bind(py))?),
                    None => Ok(false),
                }
            }
            Guard::Items(container, items) => {
                let container = container.bind(py);
                if container.len()? != items.len() {
                    return Ok(false);
                }
                for (now, item) in container.try_iter()?.zip(items) {
                    let now = now?;
                    if !now.is(item) && !same_object(&now, item.bind(py))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Guard::Elements(array, content) => content.is_in(array.bind(py)),
            Guard::Array(cell, id) => Ok(cell.bind(py).get().read()?.id() == *id),
        }
    }

    /// Shows the garbage collector the objects that it holds.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Guard::Name(names, _, value) => {
                visit.call(names)?;
                visit.call(value)
            }
            Guard::Cell(object, value) | Guard::Attribute(object, _, value) => {
                visit.call(object)?;
                visit.call(value)
            }
            Guard::Absent(names, _) => visit.call(names),
            Guard::Items(container, items) => {
                visit.call(container)?;
                items.iter().try_for_each(|item| visit.call(item))
            }
            Guard::Elements(array, _) => visit.call(array),
            Guard::Array(cell, _) => visit.call(cell),
        }
    }

    /// What has to hold.
    pub fn condition(&self, py: Python<'_>) -> String {
        match self {
            Guard::Name(_, _, value) | Guard::Cell(_, value) | Guard::Attribute(_, _, value) => {
                format!("is {}", described(value.bind(py)))
            }
            Guard::Absent(..) => "is not defined".into(),
            Guard::Items(_, items) => format!("has the same {} items", items.len()),
            Guard::Elements(_, content) => format!(
                "has the same elements (shape {})",
                cotan::aval::tuple(content.shape())
            ),
            Guard::Array(..) => "has not been written to".into(),
        }
    }

    /// What is there instead, once it does not hold.
    pub fn found(&self, py: Python<'_>) -> PyResult<String> {
        let now = match self {
            Guard::Name(names, name, _) | Guard::Absent(names, name) => {
                names.bind(py).get_item(name)?
            }
            Guard::Cell(cell, _) => cell.bind(py).getattr(intern!(py, "cell_contents")).ok(),
            Guard::Attribute(object, name, _) => attribute(object.bind(py), name.bind(py))?,
            Guard::Items(..) => return Ok("other items".into()),
            Guard::Elements(..) => return Ok("other elements".into()),
            Guard::Array(..) => return Ok("another value".into()),
        };
        Ok(now.map_or_else(|| "nothing".into(), |now| described(&now)))
    }

    /// The code of a function, if it guards that.
    pub fn code<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Guard::Attribute(_, name, value) if name.bind(py) == "__code__" => {
                Some(value.bind(py).clone())
            }
            _ => None,
        }
    }

    /// The address of what it guards the content of, to guard it once.
    pub fn address(&self) -> Option<usize> {
        match self {
            Guard::Elements(array, _) => Some(array.as_ptr() as usize),
            Guard::Array(cell, _) => Some(cell.as_ptr() as usize),
            _ => None,
        }
    }
}
