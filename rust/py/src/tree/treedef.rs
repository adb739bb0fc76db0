//! Describes structures without their leaves. [`crate::tree::flatten`] makes them, [`crate::tree::unflatten`] puts
//! values in the places of the leaves.

use cotan::Array;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::array::cell::{ScalarKind, wrap};
use crate::array::escapes::force;
use crate::array::to_host::item;
use crate::ndarray::export::{to_ndarray, to_numpy_scalar};
use crate::runtime::error::raise_interrupt;
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::runtime::text;
use crate::tree::class_layout::known;

/// A value to hold constant: made by `ct.const`.
#[pyclass(frozen, name = "Const", module = "cotan")]
pub struct Const {
    #[pyo3(get)]
    pub value: Py<PyAny>,
}

#[pymethods]
impl Const {
    #[new]
    fn new(value: Py<PyAny>) -> Const {
        Const { value }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("const({})", text::repr(self.value.bind(py))?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Py<PyAny>,))> {
        let make = hooks::CONST.get(py)?.clone();
        Ok((make, (self.value.clone_ref(py),)))
    }
}

/// What a leaf was, so that its cotangent can become the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A plain ndarray.
    NdArray,
    /// A NumPy scalar.
    Scalar,
    /// A Python number.
    Number,
    /// An `Array`, of this `scalar_kind`.
    Array(ScalarKind),
}

impl Kind {
    /// What NumPy would have handed out for it.
    pub fn scalar_kind(self) -> ScalarKind {
        match self {
            Kind::NdArray => ScalarKind::Array,
            Kind::Scalar => ScalarKind::NumpyScalar,
            Kind::Number => ScalarKind::PythonNumber,
            Kind::Array(scalar_kind) => scalar_kind,
        }
    }
}

/// A leaf.
pub struct Leaf {
    /// Its value.
    pub array: Array,
    /// What it was.
    pub kind: Kind,
    /// Whether it can have a cotangent and none of the structures around it is held constant.
    pub active: bool,
    /// Whether it is held constant by `const`.
    pub held: bool,
    /// Where it is; empty unless paths were asked for.
    pub path: String,
    /// The object itself.
    pub object: Py<PyAny>,
}

impl Leaf {
    /// Another reference to the same.
    pub fn clone_ref(&self, py: Python<'_>) -> Leaf {
        Leaf {
            array: self.array.clone(),
            kind: self.kind,
            active: self.active,
            held: self.held,
            path: self.path.clone(),
            object: self.object.clone_ref(py),
        }
    }
}

/// A structure without its leaves.
pub enum Tree {
    /// The leaf of this number.
    Leaf(usize),
    /// Something without leaves.
    Static(Py<PyAny>),
    /// A tuple; of a class of its own, if there is one.
    Tuple(Option<Py<PyAny>>, Vec<Tree>),
    /// A list.
    List(Vec<Tree>),
    /// A dictionary.
    Dict(Vec<(Py<PyAny>, Tree)>),
    /// An object: its fields, by name.
    Object(Py<PyAny>, Vec<(Py<PyString>, Tree)>),
    /// Anything else.
    Other(Box<Other>),
    /// The structure so many levels below the root, in which this one is: it closes a cycle.
    Back(usize),
}

/// A structure of a rarer kind.
pub struct Other {
    /// What was taken apart.
    pub original: Py<PyAny>,
    /// What it is.
    pub form: Form,
    /// Keys of a dictionary, names or indices of the children of a registered class.
    pub keys: Vec<Py<PyAny>>,
    /// Its parts.
    pub items: Vec<Tree>,
}

/// Kinds of rarer structures.
pub enum Form {
    /// A tuple with attributes.
    Tuple,
    /// A subclass of list.
    List,
    /// A subclass of dict.
    Dict,
    /// Of a registered class, with what its `flatten` gave besides.
    Registered(Py<PyAny>),
    /// A `const(...)` that is to stay one.
    Const,
}

impl Tree {
    /// Its parts, in order.
    pub fn children(&self) -> Box<dyn Iterator<Item = &Tree> + '_> {
        match self {
            Tree::Leaf(_) | Tree::Static(_) | Tree::Back(_) => Box::new(std::iter::empty()),
            Tree::Tuple(_, items) | Tree::List(items) => Box::new(items.iter()),
            Tree::Dict(items) => Box::new(items.iter().map(|(_, t)| t)),
            Tree::Object(_, items) => Box::new(items.iter().map(|(_, t)| t)),
            Tree::Other(other) => Box::new(other.items.iter()),
        }
    }

    /// Shows the garbage collector the objects that it holds.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut work = vec![self];
        while let Some(tree) = work.pop() {
            match tree {
                Tree::Static(object) | Tree::Object(object, _) => visit.call(object)?,
                Tree::Tuple(class, _) => visit.call(class)?,
                Tree::Other(other) => {
                    visit.call(&other.original)?;
                    if let Form::Registered(rest) = &other.form {
                        visit.call(rest)?;
                    }
                }
                Tree::Leaf(_) | Tree::List(_) | Tree::Dict(_) | Tree::Back(_) => {}
            }
            work.extend(tree.children());
        }
        Ok(())
    }

    /// Marks the leaves of it.
    pub fn mark(&self, marked: &mut [bool]) {
        if let Tree::Leaf(i) = self {
            marked[*i] = true;
        }
        self.children().for_each(|t| t.mark(marked));
    }

    /// Whether any leaf of it is marked.
    pub fn any(&self, marked: &[bool]) -> bool {
        match self {
            Tree::Leaf(i) => marked[*i],
            Tree::Tuple(_, items) | Tree::List(items) => items.iter().any(|t| t.any(marked)),
            _ => self.children().any(|t| t.any(marked)),
        }
    }

    /// The paths of its leaves, in their order, given its own.
    pub fn paths(&self, path: &str, out: &mut Vec<String>, py: Python<'_>) -> PyResult<()> {
        if let Tree::Leaf(_) = self {
            out.push(path.to_string());
            return Ok(());
        }
        for (i, child) in self.children().enumerate() {
            match child {
                Tree::Static(_) | Tree::Back(_) => {}
                _ => child.paths(&format!("{path}{}", self.step(py, i)?), out, py)?,
            }
        }
        Ok(())
    }

    /// The path of an object that is no leaf, given its own.
    pub fn path_of(
        &self,
        object: &Py<PyAny>,
        path: &str,
        py: Python<'_>,
    ) -> PyResult<Option<String>> {
        if let Tree::Static(own) = self {
            return Ok(own.is(object).then(|| path.to_string()));
        }
        for (i, part) in self.children().enumerate() {
            let found = part.path_of(object, &format!("{path}{}", self.step(py, i)?), py)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// How a path goes on to its part of this number.
    pub fn step(&self, py: Python<'_>, i: usize) -> PyResult<String> {
        Ok(match self {
            Tree::Dict(items) => key_step(items[i].0.bind(py))?,
            Tree::Object(_, items) => format!(".{}", text::owned(items[i].0.bind(py))),
            Tree::Tuple(Some(class), _) => match tuple_names(class.bind(py)) {
                Some(names) if i < names.len() => format!(".{}", names[i]),
                _ => format!("[{i}]"),
            },
            Tree::Other(other) => match other.form {
                Form::Dict | Form::Registered(_) => key_step(other.keys[i].bind(py))?,
                Form::Const => String::new(),
                Form::Tuple => match tuple_names(&other.original.bind(py).get_type()) {
                    Some(names) if i < names.len() => format!(".{}", names[i]),
                    _ => format!("[{i}]"),
                },
                Form::List => format!("[{i}]"),
            },
            _ => format!("[{i}]"),
        })
    }

    /// Another reference to the same structure.
    pub fn clone_ref(&self, py: Python<'_>) -> Tree {
        let all = |items: &[Tree]| items.iter().map(|t| t.clone_ref(py)).collect();
        match self {
            Tree::Leaf(i) => Tree::Leaf(*i),
            Tree::Back(level) => Tree::Back(*level),
            Tree::Static(object) => Tree::Static(object.clone_ref(py)),
            Tree::Tuple(class, items) => {
                Tree::Tuple(class.as_ref().map(|c| c.clone_ref(py)), all(items))
            }
            Tree::List(items) => Tree::List(all(items)),
            Tree::Dict(items) => Tree::Dict(
                items
                    .iter()
                    .map(|(k, t)| (k.clone_ref(py), t.clone_ref(py)))
                    .collect(),
            ),
            Tree::Object(object, items) => Tree::Object(
                object.clone_ref(py),
                items
                    .iter()
                    .map(|(n, t)| (n.clone_ref(py), t.clone_ref(py)))
                    .collect(),
            ),
            Tree::Other(other) => Tree::Other(Box::new(Other {
                original: other.original.clone_ref(py),
                form: match &other.form {
                    Form::Tuple => Form::Tuple,
                    Form::List => Form::List,
                    Form::Dict => Form::Dict,
                    Form::Registered(aux) => Form::Registered(aux.clone_ref(py)),
                    Form::Const => Form::Const,
                },
                keys: other.keys.iter().map(|k| k.clone_ref(py)).collect(),
                items: all(&other.items),
            })),
        }
    }
}

impl Tree {
    /// The shape of it, without keeping what it was made of alive: enough for cotangents, not for
    /// building. Where a projection wants to see the object itself, that is kept.
    pub fn shape_only(self, py: Python<'_>) -> PyResult<Tree> {
        let all = |items: Vec<Tree>| -> PyResult<Vec<Tree>> {
            items.into_iter().map(|t| t.shape_only(py)).collect()
        };
        Ok(match self {
            Tree::Leaf(_) | Tree::Back(_) => self,
            Tree::Static(_) => Tree::Static(py.None()),
            Tree::Tuple(class, items) => Tree::Tuple(class, all(items)?),
            Tree::List(items) => Tree::List(all(items)?),
            Tree::Dict(items) => {
                let (keys, items): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                Tree::Dict(keys.into_iter().zip(all(items)?).collect())
            }
            Tree::Object(object, items) => {
                let (names, items): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                let class = object.bind(py).get_type();
                let layout = known(object.bind(py))?;
                // A finaliser may not expect an object without attributes.
                let finaliser = class.hasattr(intern!(py, "__del__"))?;
                let object = if layout.project.is_some() || finaliser {
                    object
                } else {
                    layout.empty(&class)?.unbind()
                };
                Tree::Object(object, names.into_iter().zip(all(items)?).collect())
            }
            Tree::Other(mut other) => {
                if matches!(other.form, Form::List | Form::Dict) {
                    other.original = other.shell(py)?.unbind();
                }
                other.items = all(other.items)?;
                Tree::Other(other)
            }
        })
    }
}

/// The names of the entries of a named tuple.
fn tuple_names(class: &Bound<'_, PyAny>) -> Option<Vec<String>> {
    class.getattr("_fields").ok()?.extract().ok()
}

/// How a path goes on at a key of a dictionary: like an attribute when the key could be one.
pub fn key_step(key: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(name) = key.cast::<PyString>()
        && (name.call_method0("isidentifier")).is_ok_and(|is| is.is_truthy().unwrap_or(false))
    {
        return Ok(format!(".{}", text::owned(name)));
    }
    match text::repr(key) {
        Ok(shown) => Ok(format!("[{shown}]")),
        // A path is for people: that a key cannot be shown is no reason to fail.
        Err(error) => raise_interrupt(key.py(), &error).map(|()| "[?]".to_string()),
    }
}

/// A result as an object of its kind. What is active in an outer gradient stays an `Array`.
pub fn present<'py>(py: Python<'py>, array: &Array, kind: Kind) -> PyResult<Bound<'py, PyAny>> {
    if array.is_active() {
        let scalar_kind = match kind {
            Kind::NdArray => ScalarKind::Array,
            Kind::Scalar => ScalarKind::NumpyScalar,
            Kind::Number => ScalarKind::PythonNumber,
            Kind::Array(scalar_kind) => scalar_kind,
        };
        return wrap(py, array.clone(), scalar_kind);
    }
    match kind {
        Kind::Array(scalar_kind) => wrap(py, array.clone(), scalar_kind),
        Kind::NdArray => to_ndarray(py, force(py, array)?),
        Kind::Scalar => to_numpy_scalar(py, &force(py, array)?),
        Kind::Number => item(py, array),
    }
}

/// The same for an array that is given up: a computed one hands its memory over.
pub fn hand_over(py: Python<'_>, array: Array, kind: Kind) -> PyResult<Bound<'_, PyAny>> {
    if array.is_active() || !matches!(kind, Kind::NdArray) || array.value().is_none() {
        return present(py, &array, kind);
    }
    match array.into_value() {
        Some(value) => to_ndarray(py, value),
        None => unreachable!("the value was there"),
    }
}

/// An object that is made anew from its parts in another way than by its class.
pub fn other(
    object: &Bound<'_, PyAny>,
    form: Form,
    keys: Vec<Bound<'_, PyAny>>,
    items: Vec<Tree>,
) -> Tree {
    Tree::Other(Box::new(Other {
        original: object.clone().unbind(),
        form,
        keys: keys.into_iter().map(Bound::unbind).collect(),
        items,
    }))
}
