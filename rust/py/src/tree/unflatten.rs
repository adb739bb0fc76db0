//! Puts structures together again, with values in the places of their leaves.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::runtime::error::step;
use crate::runtime::hooks;
use crate::runtime::once_cell::{Once, intern};
use crate::runtime::slots::{instance_dict, set_slot, slot_value};
use crate::tree::class_layout::{Layout, Sort, known};
use crate::tree::treedef::{Const, Form, Other, Tree};

impl Tree {
    /// The structure with these leaves in it.
    pub fn build<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let open = Vec::new();
        Builder { py, leaves, open }.build(self)
    }
}

/// Puts a structure together.
struct Builder<'a, 'py> {
    py: Python<'py>,
    leaves: &'a [Bound<'py, PyAny>],
    /// The structures around the one that is being built, from the root; those that close a cycle are
    /// objects that exist before they are complete.
    open: Vec<Bound<'py, PyAny>>,
}

impl<'py> Builder<'_, 'py> {
    fn all(
        &mut self,
        shell: Bound<'py, PyAny>,
        items: &[Tree],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.open.push(shell);
        let built = items.iter().map(|t| self.build(t)).collect();
        self.open.pop();
        built
    }

    fn build(&mut self, tree: &Tree) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        step(py)?;
        let none = || py.None().into_bound(py);
        Ok(match tree {
            Tree::Leaf(i) => self.leaves[*i].clone(),
            Tree::Static(object) => object.bind(py).clone(),
            Tree::Back(level) => self.open[*level].clone(),
            Tree::Tuple(None, items) => PyTuple::new(py, self.all(none(), items)?)?.into_any(),
            Tree::Tuple(Some(class), items) => {
                let entries = PyTuple::new(py, self.all(none(), items)?)?;
                named_tuple(class.bind(py), &entries)?
            }
            Tree::List(items) => {
                let list = PyList::empty(py);
                for item in self.all(list.clone().into_any(), items)? {
                    list.append(item)?;
                }
                list.into_any()
            }
            Tree::Dict(items) => {
                let dict = PyDict::new(py);
                self.open.push(dict.clone().into_any());
                for (key, item) in items {
                    dict.set_item(key, self.build(item)?)?;
                }
                self.open.pop();
                dict.into_any()
            }
            Tree::Object(object, items) => self.object(object.bind(py), items)?,
            Tree::Other(other) => {
                let shell = match other.form {
                    Form::List | Form::Dict => other.shell(py)?,
                    _ => none(),
                };
                let items = self.all(shell.clone(), &other.items)?;
                other.fill(py, shell, items)?
            }
        })
    }

    /// An object with other values in its fields. No code of its class runs: initialisers may check or
    /// convert what they are given, setters may refuse.
    fn object(
        &mut self,
        original: &Bound<'py, PyAny>,
        items: &[(Py<PyString>, Tree)],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let layout = known(original)?;
        let new = layout.empty(&original.get_type())?;
        let dict = layout.has_dict.then(|| instance_dict(&new)).transpose()?;
        self.open.push(new.clone());
        for (name, item) in items {
            let value = self.build(item)?;
            match &dict {
                Some(dict) if !layout.slots.iter().any(|s| s.is(name)) => {
                    dict.set_item(name, value)?;
                }
                _ => set_slot(&new, name.bind(py), &value)?,
            }
        }
        self.open.pop();
        if layout.hidden {
            hooks::COPY_HIDDEN.get(py)?.call1((original, &new))?;
        }
        Ok(new)
    }
}

impl Other {
    /// A list or dictionary of the same class without items, with the same attributes.
    pub fn shell<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let original = self.original.bind(py);
        if matches!(self.form, Form::List | Form::Dict) {
            let layout = known(original)?;
            let new = layout.empty(&original.get_type())?;
            copy_attributes(&layout, original, &new)?;
            return Ok(new);
        }
        Ok(py.None().into_bound(py))
    }

    /// Puts items into a shell, or makes what has none.
    pub fn fill<'py>(
        &self,
        py: Python<'py>,
        shell: Bound<'py, PyAny>,
        items: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let original = self.original.bind(py);
        if let Form::Const = self.form {
            let value = items.into_iter().next().map(Bound::unbind);
            let value = value.unwrap_or_else(|| py.None());
            return Ok(Bound::new(py, Const { value })?.into_any());
        }
        let layout = known(original)?;
        let put = layout.put.as_ref();
        match &self.form {
            Form::Tuple => {
                let new = layout.tuple(&original.get_type(), &PyTuple::new(py, items)?)?;
                copy_attributes(&layout, original, &new)?;
                return Ok(new);
            }
            Form::Registered(aux) => {
                let Some(unflatten) = &layout.unflatten else {
                    return Ok(original.clone());
                };
                return unflatten.bind(py).call1((aux, PyTuple::new(py, items)?));
            }
            Form::List => {
                for item in items {
                    put.map(|p| p.bind(py).call1((&shell, item))).transpose()?;
                }
            }
            Form::Dict | Form::Const => {
                for (key, item) in self.keys.iter().zip(items) {
                    put.map(|p| p.bind(py).call1((&shell, key, item)))
                        .transpose()?;
                }
            }
        }
        Ok(shell)
    }
}

/// Attributes of a container of a class of its own are not parts of it; the new one gets them as they are.
fn copy_attributes<'py>(
    layout: &Layout,
    original: &Bound<'py, PyAny>,
    new: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let py = original.py();
    for name in &layout.slots {
        if let Some(value) = slot_value(original, name.bind(py))? {
            set_slot(new, name.bind(py), &value)?;
        }
    }
    if layout.has_dict && layout.sort != Sort::Object {
        let attributes = instance_dict(original)?;
        if !attributes.is_empty() {
            instance_dict(new)?.update(attributes.as_mapping())?;
        }
    }
    if layout.hidden {
        hooks::COPY_HIDDEN.get(py)?.call1((original, new))?;
    }
    Ok(())
}

/// A tuple of a class with these entries.
pub fn named_tuple<'py>(
    class: &Bound<'py, PyAny>,
    entries: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    // What `_make` of a named tuple does; a `__new__` of the class may want something else.
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = class.py();
    let make = MAKE.made(py, || {
        let make = py.get_type::<PyTuple>().getattr(intern!(py, "__new__"))?;
        Ok::<_, PyErr>(make.unbind())
    })?;
    make.bind(py).call1((class, entries))
}
