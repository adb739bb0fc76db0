//! Reads the cotangents and tangents that rules give beside the structure that they belong to.

use cotan::Array;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::operand::Operand;
use crate::runtime::hooks;
use crate::runtime::text;
use crate::tree::natural_cotangent::remember;
use crate::tree::treedef::{Form, Tree};

/// Takes cotangents or tangents apart like what they belong to.
pub struct Fill {
    /// Who gave them.
    pub rule: String,
    /// What they are.
    pub what: &'static str,
    /// Whether an instance of an object's own class makes that the natural form of its cotangents.
    pub natural: bool,
}

impl Fill {
    /// Fills in the leaves of `tree` from `given`.
    pub fn fill(
        &self,
        tree: &Tree,
        given: &Bound<'_, PyAny>,
        path: &str,
        out: &mut [Option<Array>],
    ) -> PyResult<()> {
        let py = given.py();
        if given.is_none() {
            return Ok(());
        }
        let wrong = |wanted: &str| self.wrong(given, path, wanted);
        match tree {
            Tree::Leaf(i) => {
                let operand = Operand::of(given)?.ok_or_else(|| wrong("an array or a number"))?;
                out[*i] = Some(operand.array()?);
            }
            // It is data, or the object itself once more; whatever is said of it does not matter.
            Tree::Static(_) | Tree::Back(_) => {}
            Tree::Other(other) => match other.form {
                Form::Const => {}
                Form::Tuple | Form::List => self.row(&other.items, given, path, out)?,
                Form::Dict => {
                    let keys: Vec<_> = other.keys.iter().map(|k| k.bind(py).clone()).collect();
                    self.keyed(&keys, &other.items, given, path, out)?;
                }
                Form::Registered(_) => {
                    let tangent = hooks::TANGENT_CLASS.get(py)?;
                    let fields = if given.is_instance(tangent)? {
                        given.getattr("_fields")?
                    } else {
                        given.clone()
                    };
                    let keys: Vec<_> = other.keys.iter().map(|k| k.bind(py).clone()).collect();
                    self.keyed(&keys, &other.items, &fields, path, out)?;
                }
            },
            Tree::Tuple(_, items) | Tree::List(items) => self.row(items, given, path, out)?,
            Tree::Dict(items) => {
                let keys: Vec<_> = items.iter().map(|(k, _)| k.bind(py).clone()).collect();
                let items = items.iter().map(|(_, item)| item);
                self.keyed(&keys, items, given, path, out)?;
            }
            Tree::Object(object, items) => {
                let class = object.bind(py).get_type();
                let tangent = hooks::TANGENT_CLASS.get(py)?;
                let own = given.get_type().is(&class);
                let dict = given.cast::<PyDict>();
                if dict.is_err() && !own && !given.is_instance(tangent)? {
                    let class = class.name()?;
                    return Err(wrong(&format!(
                        "a ct.Tangent, a dict of fields or a {}",
                        class.to_string_lossy()
                    )));
                }
                // Fields of a `Tangent` by their names: an attribute may be one of its methods.
                let dict = match dict {
                    Ok(dict) => Some(dict.clone()),
                    Err(_) if own => None,
                    Err(_) => Some(given.getattr("_fields")?.cast_into::<PyDict>()?),
                };
                if let Some(fields) = &dict {
                    let names = items.iter().map(|(k, _)| k.bind(py).clone().into_any());
                    self.known(fields, &names.collect::<Vec<_>>(), path)?;
                }
                if own && self.natural {
                    remember(&class);
                }
                for (name, item) in items {
                    let name = name.bind(py);
                    let entry = match &dict {
                        Some(dict) => dict.get_item(name)?,
                        None => given.getattr_opt(name)?,
                    };
                    if let Some(entry) = entry {
                        self.fill(item, &entry, &format!("{path}.{}", text::owned(name)), out)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn wrong(&self, given: &Bound<'_, PyAny>, path: &str, wanted: &str) -> PyErr {
        PyTypeError::new_err(format!(
            "{}: the {} of {path} must be {wanted}, or None, not {}",
            self.rule,
            self.what,
            text::class_of(given)
        ))
    }

    /// The entries of a tuple or list.
    fn row(
        &self,
        items: &[Tree],
        given: &Bound<'_, PyAny>,
        path: &str,
        out: &mut [Option<Array>],
    ) -> PyResult<()> {
        let wanted = || {
            let wanted = format!("a tuple or list of {} entries", items.len());
            self.wrong(given, path, &wanted)
        };
        if Operand::of(given).is_ok_and(|o| o.is_some()) && given.len().is_err() {
            return Err(wanted());
        }
        let entries = given.try_iter().map_err(|_| wanted())?;
        let entries: Vec<Bound<'_, PyAny>> = entries.collect::<PyResult<_>>()?;
        if entries.len() != items.len() {
            return Err(PyValueError::new_err(format!(
                "{}: the {} of {path} has {} entries, but {path} has {}",
                self.rule,
                self.what,
                entries.len(),
                items.len()
            )));
        }
        for (i, (item, entry)) in items.iter().zip(&entries).enumerate() {
            self.fill(item, entry, &format!("{path}[{i}]"), out)?;
        }
        Ok(())
    }

    /// The values of a dictionary.
    fn keyed<'a>(
        &self,
        keys: &[Bound<'_, PyAny>],
        items: impl IntoIterator<Item = &'a Tree>,
        given: &Bound<'_, PyAny>,
        path: &str,
        out: &mut [Option<Array>],
    ) -> PyResult<()> {
        let dict = given
            .cast::<PyDict>()
            .map_err(|_| self.wrong(given, path, "a dict"))?;
        self.known(dict, keys, path)?;
        for (key, item) in keys.iter().zip(items) {
            if let Some(entry) = dict.get_item(key)? {
                self.fill(
                    item,
                    &entry,
                    &format!("{path}[{}]", key.repr()?.to_string_lossy()),
                    out,
                )?;
            }
        }
        Ok(())
    }

    /// Refuses keys that the original does not have.
    fn known(
        &self,
        dict: &Bound<'_, PyDict>,
        names: &[Bound<'_, PyAny>],
        path: &str,
    ) -> PyResult<()> {
        for key in dict.keys() {
            let mut found = false;
            for name in names {
                found |= name.eq(&key)?;
            }
            if !found {
                let names = names.iter().map(text::text).collect::<PyResult<Vec<_>>>()?;
                return Err(PyValueError::new_err(format!(
                    "{}: the {} of {path} has an entry {}, but {path} has only: {}",
                    self.rule,
                    self.what,
                    key.repr()?.to_string_lossy(),
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }
}
