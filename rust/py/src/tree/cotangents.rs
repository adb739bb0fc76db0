//! Puts together the structure of cotangents: containers like those of the values, a `Tangent` in place of an
//! object.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::runtime::error::step;
use crate::tree::tangent::{Absent, tangent};
use crate::tree::treedef::{Form, Tree};
use crate::tree::unflatten::named_tuple;

impl Tree {
    /// The structure of cotangents: `None` where there is none, a `Tangent` in place of an object.
    pub fn tangents<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Option<Bound<'py, PyAny>>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.tangents_of(py, leaves, &[])?.0)
    }

    /// The same for gradients that are handed out; `asked` says for each leaf whether its gradient was
    /// asked for.
    pub fn gradients<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Option<Bound<'py, PyAny>>],
        asked: &[bool],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.tangents_of(py, leaves, asked)?.0)
    }

    /// The same, and whether there is any cotangent in it: containers keep their shape without one.
    fn tangents_of<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Option<Bound<'py, PyAny>>],
        asked: &[bool],
    ) -> PyResult<(Option<Bound<'py, PyAny>>, bool)> {
        step(py)?;
        let mut any = false;
        let mut part = |tree: &Tree| -> PyResult<Bound<'py, PyAny>> {
            let (tangent, found) = tree.tangents_of(py, leaves, asked)?;
            any |= found;
            Ok(tangent.unwrap_or_else(|| py.None().into_bound(py)))
        };
        let whole = match self {
            Tree::Leaf(i) => return Ok((leaves[*i].clone(), leaves[*i].is_some())),
            Tree::Static(_) | Tree::Back(_) => return Ok((None, false)),
            Tree::Tuple(class, items) => {
                let items: Vec<_> = items.iter().map(part).collect::<PyResult<_>>()?;
                let entries = PyTuple::new(py, items)?;
                match class {
                    Some(class) => named_tuple(class.bind(py), &entries)?,
                    None => entries.into_any(),
                }
            }
            Tree::List(items) => {
                let items: Vec<_> = items.iter().map(part).collect::<PyResult<_>>()?;
                PyList::new(py, items)?.into_any()
            }
            Tree::Dict(items) => {
                let dict = PyDict::new(py);
                for (key, item) in items {
                    dict.set_item(key, part(item)?)?;
                }
                dict.into_any()
            }
            Tree::Object(object, items) => {
                let fields = PyDict::new(py);
                for (name, item) in items {
                    fields.set_item(name, part(item)?)?;
                }
                if !any {
                    return Ok((None, false));
                }
                let absent = |name: &Bound<'py, PyString>| {
                    let field = items.iter().find(|(n, _)| n.is(name));
                    field.map_or(Absent::Data, |(_, item)| item.absent(asked))
                };
                tangent(object.bind(py), &fields, absent)?
            }
            Tree::Other(other) => {
                let items: Vec<_> = other.items.iter().map(part).collect::<PyResult<_>>()?;
                if let Form::Registered(_) = other.form {
                    if !any {
                        return Ok((None, false));
                    }
                    let fields = PyDict::new(py);
                    for (name, item) in other.keys.iter().zip(items) {
                        fields.set_item(name, item)?;
                    }
                    tangent(other.original.bind(py), &fields, |_| Absent::Data)?
                } else {
                    let shell = other.shell(py)?;
                    other.fill(py, shell, items)?
                }
            }
        };
        Ok((Some(whole), any))
    }

    /// Why it has no cotangent, if it has none.
    fn absent(&self, asked: &[bool]) -> Absent {
        match self {
            Tree::Leaf(i) if asked.get(*i).copied().unwrap_or(true) => Absent::NoInfluence,
            Tree::Static(_) => Absent::Data,
            _ => Absent::NotAsked,
        }
    }
}
