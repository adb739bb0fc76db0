//! Reads one structure beside another: for every leaf, what is in its place. Masks, cotangents of results, and
//! gradients in an update are read so.

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

use crate::array::cell::PyArray;
use crate::runtime::error::step;
use crate::runtime::once_cell::intern;
use crate::runtime::slots::{instance_dict, slot_value};
use crate::runtime::text;
use crate::tree::class_layout::{self, Sort};
use crate::tree::treedef::{Form, Tree};

/// What the other structure is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A mask: a bool stands for everything below it.
    Mask,
    /// A cotangent: what has no leaves is not looked at.
    Cotangent,
    /// Values that belong to leaves, and to nothing else.
    Values,
}

/// The parts of a structure, as its own kind names them.
enum Parts<'py> {
    Entries(Vec<Bound<'py, PyAny>>),
    Named(Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>),
    None,
}

/// Finds the counterparts of leaves.
pub struct Align<'a, 'py> {
    py: Python<'py>,
    operation: &'a str,
    reading: Reading,
    out: Vec<Option<Bound<'py, PyAny>>>,
}

impl<'a, 'py> Align<'a, 'py> {
    /// For so many leaves. `operation` is what errors start with.
    pub fn new(py: Python<'py>, operation: &'a str, reading: Reading, leaves: usize) -> Self {
        let out = vec![None; leaves];
        Align {
            py,
            operation,
            reading,
            out,
        }
    }

    /// The counterparts that were found, by leaf.
    pub fn done(self) -> Vec<Option<Bound<'py, PyAny>>> {
        self.out
    }

    fn error<T>(&self, path: &str, message: &str) -> PyResult<T> {
        // Where the whole has no name, a path starts with a step.
        let nameless = path.is_empty() || path.starts_with(['.', '[']);
        let whole = if nameless { "the value" } else { "" };
        let operation = self.operation;
        Err(PyValueError::new_err(format!(
            "{operation}: {whole}{path} {message}"
        )))
    }

    /// Looks for the counterparts of the leaves of a tree.
    pub fn read(&mut self, tree: &Tree, other: &Bound<'py, PyAny>, path: &str) -> PyResult<()> {
        step(self.py)?;
        if other.is_none() {
            return Ok(());
        }
        if self.reading == Reading::Mask {
            if let Some(all) = truth(other)? {
                let mut below = vec![false; self.out.len()];
                tree.mark(&mut below);
                for (slot, _) in self.out.iter_mut().zip(below).filter(|(_, b)| *b) {
                    *slot = Some(PyBool::new(self.py, all).to_owned().into_any());
                }
                return Ok(());
            }
            if let Tree::Leaf(_) = tree {
                return Err(PyTypeError::new_err(format!(
                    "{}: {path} is a leaf, so the mask must say True, False or None there, not {}",
                    self.operation,
                    other.repr()?.to_string_lossy()
                )));
            }
        }
        match tree {
            Tree::Leaf(i) => {
                self.out[*i] = Some(other.clone());
                Ok(())
            }
            Tree::Static(own)
                if self.reading == Reading::Values && !own.bind(self.py).is(other) =>
            {
                self.error(
                    path,
                    "is no array or float, so nothing but None can belong to it",
                )
            }
            Tree::Static(_) | Tree::Back(_) => Ok(()),
            Tree::Tuple(class, items) => {
                let names = match class {
                    Some(class) => class
                        .bind(self.py)
                        .getattr_opt(intern!(self.py, "_fields"))?,
                    None => None,
                };
                match names {
                    Some(names) => {
                        let names: Vec<Bound<'_, PyAny>> = names.extract()?;
                        self.row_or_named(tree, items, &names, other, path)
                    }
                    None => self.row(tree, items, other, path),
                }
            }
            Tree::List(items) => self.row(tree, items, other, path),
            Tree::Dict(items) => {
                let (keys, items): (Vec<_>, Vec<_>) = items
                    .iter()
                    .map(|(k, t)| (k.bind(self.py).clone(), t))
                    .unzip();
                self.named(tree, &keys, &items, other, path)
            }
            Tree::Object(_, items) => {
                let (keys, items): (Vec<_>, Vec<_>) = items
                    .iter()
                    .map(|(k, t)| (k.bind(self.py).clone().into_any(), t))
                    .unzip();
                self.named(tree, &keys, &items, other, path)
            }
            Tree::Other(node) => match node.form {
                Form::Const => match other.cast::<crate::tree::treedef::Const>() {
                    Ok(constant) => {
                        let value = constant.get().value.bind(self.py).clone();
                        self.read(&node.items[0], &value, path)
                    }
                    Err(_) => self.read(&node.items[0], other, path),
                },
                Form::Tuple | Form::List => self.row(tree, &node.items, other, path),
                Form::Dict | Form::Registered(_) => {
                    let keys: Vec<_> = node.keys.iter().map(|k| k.bind(self.py).clone()).collect();
                    let items: Vec<&Tree> = node.items.iter().collect();
                    self.named(tree, &keys, &items, other, path)
                }
            },
        }
    }

    fn row_or_named(
        &mut self,
        tree: &Tree,
        items: &[Tree],
        names: &[Bound<'py, PyAny>],
        other: &Bound<'py, PyAny>,
        path: &str,
    ) -> PyResult<()> {
        if other.is_instance_of::<PyTuple>() || other.is_instance_of::<PyList>() {
            return self.row(tree, items, other, path);
        }
        let items: Vec<&Tree> = items.iter().collect();
        self.named(tree, names, &items, other, path)
    }

    fn row(
        &mut self,
        tree: &Tree,
        items: &[Tree],
        other: &Bound<'py, PyAny>,
        path: &str,
    ) -> PyResult<()> {
        let given = match parts(other)? {
            Parts::Entries(given) => given,
            Parts::Named(given) if other.is_instance_of::<PyTuple>() => {
                given.into_iter().map(|(_, value)| value).collect()
            }
            _ => {
                return self.error(
                    path,
                    &format!(
                        "has {} entries, so a list or tuple is needed there, not {}",
                        items.len(),
                        text::class_of(other)
                    ),
                );
            }
        };
        if given.len() != items.len() {
            return self.error(
                path,
                &format!("has {} entries, {} given", items.len(), given.len()),
            );
        }
        for (i, (item, other)) in items.iter().zip(&given).enumerate() {
            self.child(tree, i, item, other, path)?;
        }
        Ok(())
    }

    fn child(
        &mut self,
        tree: &Tree,
        i: usize,
        item: &Tree,
        other: &Bound<'py, PyAny>,
        path: &str,
    ) -> PyResult<()> {
        let path = format!("{path}{}", tree.step(self.py, i)?);
        self.read(item, other, &path)
    }

    fn named(
        &mut self,
        tree: &Tree,
        keys: &[Bound<'py, PyAny>],
        items: &[&Tree],
        other: &Bound<'py, PyAny>,
        path: &str,
    ) -> PyResult<()> {
        let Parts::Named(given) = parts(other)? else {
            return self.error(
                path,
                &format!(
                    "has parts with names, so a dict, a Tangent or an object like it is needed there, \
                     not {}",
                    text::class_of(other)
                ),
            );
        };
        for (hint, (key, value)) in given.into_iter().enumerate() {
            let mut at = None;
            // Mostly both have the same order.
            let order = std::iter::once(hint).filter(|&i| i < keys.len());
            for i in order.chain(0..keys.len()) {
                if keys[i].is(&key) || keys[i].eq(&key)? {
                    at = Some(i);
                    break;
                }
            }
            let Some(i) = at else {
                if value.is_none() {
                    continue;
                }
                let listed = keys.iter().map(text::text).collect::<PyResult<Vec<_>>>()?;
                return self.error(
                    path,
                    &format!(
                        "has no {}; it has: {}",
                        key.repr()?.to_string_lossy(),
                        listed.join(", ")
                    ),
                );
            };
            self.child(tree, i, items[i], &value, path)?;
        }
        Ok(())
    }
}

/// A bool, if it is one.
fn truth(object: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Some(truth.is_true()));
    }
    if object.get_type().name()?.to_cow()? == "bool"
        && crate::ndarray::memory::is_numpy_scalar(object)?
    {
        return object.is_truthy().map(Some);
    }
    Ok(None)
}

/// Takes one level of a structure apart.
fn parts<'py>(object: &Bound<'py, PyAny>) -> PyResult<Parts<'py>> {
    let py = object.py();
    if object.is_instance_of::<PyArray>() || object.is_instance_of::<PyUntypedArray>() {
        return Ok(Parts::None);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        let layout = if object.is_exact_instance_of::<PyTuple>() {
            None
        } else {
            class_layout::of(object)?
        };
        return Ok(match layout.as_deref().and_then(|l| l.names.as_ref()) {
            Some(names) if names.len() == tuple.len() => Parts::Named(
                (names.iter())
                    .map(|n| n.bind(py).clone().into_any())
                    .zip(tuple.iter())
                    .collect(),
            ),
            _ => Parts::Entries(tuple.iter().collect()),
        });
    }
    if let Ok(list) = object.cast::<PyList>() {
        return Ok(Parts::Entries(list.iter().collect()));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        return Ok(Parts::Named(dict.iter().collect()));
    }
    let Some(layout) = class_layout::of(object)? else {
        return Ok(Parts::None);
    };
    match layout.sort {
        Sort::Object => {
            let mut named = Vec::new();
            for name in &layout.slots {
                let name = name.bind(py);
                if let Some(value) = slot_value(object, name)? {
                    named.push((name.clone().into_any(), value));
                }
            }
            if layout.has_dict {
                named.extend(instance_dict(object)?.iter());
            }
            Ok(Parts::Named(named))
        }
        Sort::Registered => {
            let Some(flatten) = &layout.flatten else {
                return Ok(Parts::None);
            };
            let (children, keys, _): (Vec<_>, Vec<_>, Bound<'_, PyAny>) =
                flatten.bind(py).call1((object,))?.extract()?;
            Ok(Parts::Named(keys.into_iter().zip(children).collect()))
        }
        Sort::Tuple | Sort::List | Sort::Dict | Sort::Foreign => Ok(Parts::None),
    }
}
