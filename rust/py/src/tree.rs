//! Structures of arrays: taking them apart into leaves with paths, and putting them together again.
//!
//! Tuples, lists, dictionaries, named tuples, dataclasses and plain objects are walked into without
//! registration; everything that has no leaf inside stays the object that it is.

use cotan::{Array, DType, Number};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyComplex, PyDict, PyFloat, PyFunction, PyInt, PyList, PyModule, PyString, PyTuple,
    PyType,
};

use crate::array::{PyArray, Rank, force, item, wrap};
use crate::convert::{
    Borrow, dtype_of, from_ndarray, is_numpy_scalar, to_ndarray, to_numpy_scalar,
};

/// A value to hold constant: made by `ct.const`.
#[pyclass(frozen, name = "Const", module = "cotan")]
pub struct Const {
    #[pyo3(get)]
    value: Py<PyAny>,
}

#[pymethods]
impl Const {
    #[new]
    fn new(value: Py<PyAny>) -> Const {
        Const { value }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("const({})", self.value.bind(py).repr()?))
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
    /// One of our arrays, of this rank.
    Handle(Rank),
}

/// A leaf.
pub struct Leaf {
    /// Its value.
    pub array: Array,
    /// What it was.
    pub kind: Kind,
    /// Whether it can have a cotangent and none of the structures around it is held constant.
    pub active: bool,
    /// Where it is; empty unless paths were asked for.
    pub path: String,
}

/// A structure without its leaves.
pub enum Tree {
    /// The leaf of this number.
    Leaf(usize),
    /// Something without leaves.
    Static(Py<PyAny>),
    /// A tuple; of a named class, if there is one.
    Tuple(Option<Py<PyAny>>, Vec<Tree>),
    /// A list.
    List(Vec<Tree>),
    /// A dictionary.
    Dict(Vec<(Py<PyAny>, Tree)>),
    /// An object: its fields, by name.
    Object(Py<PyAny>, Vec<(Py<PyString>, Tree)>),
}

/// Takes structures apart.
pub struct Flattener {
    /// The leaves found so far.
    pub leaves: Vec<Leaf>,
    borrow: Borrow,
    with_paths: bool,
    /// Whether `__trainable__` counts: not when a mask is given at the call.
    declared: bool,
    /// Objects on the way from the root, by address: one of them again closes a cycle.
    open: Vec<usize>,
}

/// Numbers that stand directly as arguments are leaves whatever their type; inside structures an
/// integer is data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// An argument, or a result.
    Direct,
    /// Inside something.
    Nested,
}

impl Flattener {
    /// For arguments of a call (`Borrow::Call`), or for values that are kept (`Borrow::Copy`).
    pub fn new(borrow: Borrow, with_paths: bool, declared: bool) -> Flattener {
        Flattener {
            leaves: Vec::new(),
            borrow,
            with_paths,
            declared,
            open: Vec::new(),
        }
    }

    fn leaf(&mut self, array: Array, kind: Kind, active: bool, path: &str) -> Tree {
        let active = active && array.dtype().is_inexact();
        let path = if self.with_paths {
            path.to_string()
        } else {
            String::new()
        };
        self.leaves.push(Leaf {
            array,
            kind,
            active,
            path,
        });
        Tree::Leaf(self.leaves.len() - 1)
    }

    /// Takes one object apart.
    pub fn flatten(
        &mut self,
        object: &Bound<'_, PyAny>,
        position: Position,
        active: bool,
        path: &str,
    ) -> PyResult<Tree> {
        let py = object.py();
        if let Ok(array) = object.cast::<PyArray>() {
            let kind = Kind::Handle(array.get().rank());
            return Ok(self.leaf(array.get().read()?, kind, active, path));
        }
        if let Ok(array) = object.cast::<PyUntypedArray>() {
            // Inside a structure an array of strings is data like a string.
            if position == Position::Nested && dtype_of(&array.dtype()).is_err() {
                return Ok(Tree::Static(object.clone().unbind()));
            }
            let value = from_ndarray(array, self.borrow)?;
            return Ok(self.leaf(Array::constant(value), Kind::NdArray, active, path));
        }
        if let Ok(constant) = object.cast::<Const>() {
            return self.flatten(constant.get().value.bind(py), position, false, path);
        }
        if object.is_instance_of::<PyBool>()
            || object.is_none()
            || object.is_instance_of::<PyString>()
        {
            return Ok(Tree::Static(object.clone().unbind()));
        }
        if is_numpy_scalar(object)? {
            let array = py.import("numpy")?.call_method1("asarray", (object,))?;
            let array = array.cast::<PyUntypedArray>()?;
            if dtype_of(&array.dtype()).is_ok_and(DType::is_inexact) {
                let value = from_ndarray(array, Borrow::Call)?;
                return Ok(self.leaf(Array::constant(value), Kind::Scalar, active, path));
            }
            return Ok(Tree::Static(object.clone().unbind()));
        }
        // A number that is held constant is handed to `f` as it is.
        if active && object.is_instance_of::<PyFloat>() {
            let number = Array::number(DType::F64, Number::Float(object.extract()?));
            return Ok(self.leaf(number, Kind::Number, active, path));
        }
        if active && object.is_instance_of::<PyComplex>() {
            let number = Array::number(DType::C128, Number::Complex(object.extract()?));
            return Ok(self.leaf(number, Kind::Number, active, path));
        }
        if object.is_instance_of::<PyInt>() {
            if position == Position::Direct && active {
                let number = Array::number(DType::F64, Number::Float(object.extract()?));
                return Ok(self.leaf(number, Kind::Number, active, path));
            }
            return Ok(Tree::Static(object.clone().unbind()));
        }
        let address = object.as_ptr() as usize;
        if self.open.contains(&address) {
            return Ok(Tree::Static(object.clone().unbind()));
        }
        self.open.push(address);
        let tree = self.container(object, active, path);
        self.open.pop();
        tree
    }

    fn container(&mut self, object: &Bound<'_, PyAny>, active: bool, path: &str) -> PyResult<Tree> {
        let py = object.py();
        let first = self.leaves.len();
        let tree = if let Ok(tuple) = object.cast::<PyTuple>() {
            let class = object
                .getattr_opt("_fields")?
                .map(|_| object.get_type().into_any().unbind());
            let names = match &class {
                Some(_) => Some(object.getattr("_fields")?.extract::<Vec<String>>()?),
                None => None,
            };
            let mut items = Vec::with_capacity(tuple.len());
            for (i, item) in tuple.iter().enumerate() {
                let path = self.child(path, || match &names {
                    Some(names) => format!(".{}", names[i]),
                    None => format!("[{i}]"),
                });
                items.push(self.flatten(&item, Position::Nested, active, &path)?);
            }
            Tree::Tuple(class, items)
        } else if let Ok(list) = object.cast_exact::<PyList>() {
            let mut items = Vec::with_capacity(list.len());
            for (i, item) in list.iter().enumerate() {
                let path = self.child(path, || format!("[{i}]"));
                items.push(self.flatten(&item, Position::Nested, active, &path)?);
            }
            Tree::List(items)
        } else if let Ok(dict) = object.cast_exact::<PyDict>() {
            let mut items = Vec::with_capacity(dict.len());
            for (key, item) in dict.iter() {
                let path = self.child(path, || key_step(&key));
                items.push((
                    key.unbind(),
                    self.flatten(&item, Position::Nested, active, &path)?,
                ));
            }
            Tree::Dict(items)
        } else if let Some(fields) = fields(object)? {
            let trainable = if self.declared {
                object.getattr_opt("__trainable__")?
            } else {
                None
            };
            let mut items = Vec::with_capacity(fields.len());
            for (name, item) in fields {
                let asked = match &trainable {
                    Some(names) => names.contains(&name)?,
                    None => true,
                };
                let path = self.child(path, || format!(".{name}"));
                items.push((
                    name.unbind(),
                    self.flatten(&item, Position::Nested, active && asked, &path)?,
                ));
            }
            Tree::Object(object.clone().unbind(), items)
        } else {
            Tree::Static(object.clone().unbind())
        };
        // Without a leaf (and without a `const` to unwrap) it stays the object that it is.
        if self.leaves.len() == first
            && !has_const(py, &tree)
            && !matches!(tree, Tree::Tuple(..) | Tree::List(_) | Tree::Dict(_))
        {
            return Ok(Tree::Static(object.clone().unbind()));
        }
        Ok(tree)
    }

    fn child(&self, path: &str, step: impl FnOnce() -> String) -> String {
        if self.with_paths {
            format!("{path}{}", step())
        } else {
            String::new()
        }
    }
}

/// How a path goes on at a key of a dictionary: like an attribute when the key could be one.
fn key_step(key: &Bound<'_, PyAny>) -> String {
    match key
        .cast::<PyString>()
        .map(|k| (k.call_method0("isidentifier"), k.to_string()))
    {
        Ok((Ok(is), name)) if is.is_truthy().unwrap_or(false) => format!(".{name}"),
        _ => key
            .repr()
            .map_or_else(|_| "[?]".to_string(), |r| format!("[{r}]")),
    }
}

/// Whether putting the structure together changes it although it has no leaves: a constant number was
/// unwrapped somewhere.
fn has_const(py: Python<'_>, tree: &Tree) -> bool {
    let Tree::Object(object, items) = tree else {
        return false;
    };
    items.iter().any(|(name, item)| match item {
        Tree::Static(value) => object
            .bind(py)
            .getattr(name.bind(py))
            .is_ok_and(|now| !now.is(value.bind(py))),
        _ => true,
    })
}

type Fields<'py> = Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>;

/// The fields of an object that is a container of them: what is in its `__dict__` and its slots.
fn fields<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Fields<'py>>> {
    static SLOTS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    if object.is_instance_of::<PyType>()
        || object.is_instance_of::<PyModule>()
        || object.is_instance_of::<PyFunction>()
        || object.is_instance_of::<PyDict>()
        || object.is_instance_of::<PyList>()
    {
        return Ok(None);
    }
    let class = object.get_type();
    let mut out: Fields<'py> = Vec::new();
    let mut found = false;
    let slots = SLOTS.get_or_try_init(py, || {
        py.import("cotan._structures")?
            .getattr("slot_names")
            .map(Bound::unbind)
    })?;
    let slots = slots.bind(py).call1((&class,))?;
    if !slots.is_none() {
        found = true;
        for name in slots.try_iter()? {
            let name = name?.cast_into::<PyString>()?;
            if let Some(value) = object.getattr_opt(&name)? {
                out.push((name, value));
            }
        }
    }
    if let Some(dict) = object.getattr_opt("__dict__")?
        && let Ok(dict) = dict.cast_into_exact::<PyDict>()
    {
        found = true;
        for (name, value) in dict.iter() {
            if let Ok(name) = name.cast_into::<PyString>() {
                out.push((name, value));
            }
        }
    }
    Ok(found.then_some(out))
}

impl Tree {
    /// The structure with these leaves in it.
    pub fn build<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let all = |items: &[Tree]| -> PyResult<Vec<Bound<'py, PyAny>>> {
            items.iter().map(|t| t.build(py, leaves)).collect()
        };
        Ok(match self {
            Tree::Leaf(i) => leaves[*i].clone(),
            Tree::Static(object) => object.bind(py).clone(),
            Tree::Tuple(None, items) => PyTuple::new(py, all(items)?)?.into_any(),
            Tree::Tuple(Some(class), items) => {
                class.bind(py).call1(PyTuple::new(py, all(items)?)?)?
            }
            Tree::List(items) => PyList::new(py, all(items)?)?.into_any(),
            Tree::Dict(items) => {
                let dict = PyDict::new(py);
                for (key, item) in items {
                    dict.set_item(key, item.build(py, leaves)?)?;
                }
                dict.into_any()
            }
            Tree::Object(object, items) => {
                let new = PyDict::new(py);
                for (name, item) in items {
                    new.set_item(name, item.build(py, leaves)?)?;
                }
                py.import("cotan._structures")?
                    .call_method1("rebuilt", (object, new))?
            }
        })
    }

    /// The structure of cotangents: `None` where there is none, a `Tangent` in place of an object.
    pub fn tangents<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Option<Bound<'py, PyAny>>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let or_none = |t: Option<Bound<'py, PyAny>>| t.unwrap_or_else(|| py.None().into_bound(py));
        let all = |items: &[Tree]| -> PyResult<Vec<Bound<'py, PyAny>>> {
            items
                .iter()
                .map(|t| Ok(or_none(t.tangents(py, leaves)?)))
                .collect()
        };
        Ok(match self {
            Tree::Leaf(i) => leaves[*i].clone(),
            Tree::Static(_) => None,
            Tree::Tuple(None, items) => Some(PyTuple::new(py, all(items)?)?.into_any()),
            Tree::Tuple(Some(class), items) => {
                Some(class.bind(py).call1(PyTuple::new(py, all(items)?)?)?)
            }
            Tree::List(items) => Some(PyList::new(py, all(items)?)?.into_any()),
            Tree::Dict(items) => {
                let dict = PyDict::new(py);
                for (key, item) in items {
                    dict.set_item(key, or_none(item.tangents(py, leaves)?))?;
                }
                Some(dict.into_any())
            }
            Tree::Object(object, items) => {
                let fields = PyDict::new(py);
                let mut any = false;
                for (name, item) in items {
                    let tangent = item.tangents(py, leaves)?;
                    any |= tangent.is_some();
                    fields.set_item(name, or_none(tangent))?;
                }
                if !any {
                    return Ok(None);
                }
                let class = object.bind(py).get_type();
                Some(
                    py.import("cotan._structures")?
                        .call_method1("Tangent", (class, fields))?,
                )
            }
        })
    }

    /// Marks the leaves of it.
    pub fn mark(&self, marked: &mut [bool]) {
        match self {
            Tree::Leaf(i) => marked[*i] = true,
            Tree::Static(_) => {}
            Tree::Tuple(_, items) | Tree::List(items) => items.iter().for_each(|t| t.mark(marked)),
            Tree::Dict(items) => items.iter().for_each(|(_, t)| t.mark(marked)),
            Tree::Object(_, items) => items.iter().for_each(|(_, t)| t.mark(marked)),
        }
    }

    /// Another reference to the same structure.
    pub fn clone_ref(&self, py: Python<'_>) -> Tree {
        let all = |items: &[Tree]| items.iter().map(|t| t.clone_ref(py)).collect();
        match self {
            Tree::Leaf(i) => Tree::Leaf(*i),
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
        }
    }

    /// Whether any leaf of it is marked.
    pub fn any(&self, marked: &[bool]) -> bool {
        match self {
            Tree::Leaf(i) => marked[*i],
            Tree::Static(_) => false,
            Tree::Tuple(_, items) | Tree::List(items) => items.iter().any(|t| t.any(marked)),
            Tree::Dict(items) => items.iter().any(|(_, t)| t.any(marked)),
            Tree::Object(_, items) => items.iter().any(|(_, t)| t.any(marked)),
        }
    }
}

/// A result as the kind of thing that it stands for. What an outer gradient follows stays an `Array`.
pub fn present<'py>(py: Python<'py>, array: &Array, kind: Kind) -> PyResult<Bound<'py, PyAny>> {
    if array.is_active() {
        let rank = match kind {
            Kind::NdArray => Rank::Array,
            Kind::Scalar => Rank::Scalar,
            Kind::Number => Rank::Number,
            Kind::Handle(rank) => rank,
        };
        return wrap(py, array.clone(), rank);
    }
    match kind {
        Kind::Handle(rank) => wrap(py, array.clone(), rank),
        Kind::NdArray => to_ndarray(py, force(py, array)?),
        Kind::Scalar => to_numpy_scalar(py, &force(py, array)?),
        Kind::Number => item(py, array),
    }
}
