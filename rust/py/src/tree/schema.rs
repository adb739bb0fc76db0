//! Writes the structures of arguments and results as nested lists of plain objects, and reads them. Where they come
//! from a file, anything may stand in them.

use cotan::aval::checked_size;
use cotan::{Aval, DType};
use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use crate::array::cell::ScalarKind;
use crate::runtime::error::{OrRaise, step};
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::tree::class_layout::known;
use crate::tree::treedef::{Form, Other, Tree};

/// As deep as structures may be nested that are taken apart.
const MAX_DEPTH: usize = 1000;

/// The error about something that is not as it should be.
pub fn invalid(what: &str) -> PyErr {
    PyValueError::new_err(format!("not a valid pullback: {what}"))
}

pub fn scalar_kind_from(name: &str) -> PyResult<ScalarKind> {
    ScalarKind::named(name).ok_or_else(|| invalid("a leaf is no array, scalar or number"))
}

/// A dtype and a shape.
pub fn aval<'py>(py: Python<'py>, aval: &Aval) -> PyResult<Bound<'py, PyAny>> {
    let made = (aval.dtype.name(), aval.shape.to_vec());
    Ok(made.into_pyobject(py)?.into_any())
}

/// The dtype and shape that were written.
pub fn aval_from(object: &Bound<'_, PyAny>) -> PyResult<Aval> {
    let dtype: String = object.get_item(0)?.extract()?;
    let dtype = DType::from_name(&dtype).ok_or_else(|| invalid("there is no such dtype"))?;
    let shape: Vec<usize> = object.get_item(1)?.extract()?;
    checked_size("pullback", &shape).or_raise()?;
    Ok(Aval::new(dtype, &shape))
}

/// The outline of a structure. Of an object its class is enough, unless it is seen by a projection, or
/// makes cotangents of its own class: `natural`.
pub fn outline<'py>(
    py: Python<'py>,
    tree: &Tree,
    natural: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    step(py)?;
    let all = |items: &mut dyn Iterator<Item = &Tree>| -> PyResult<Vec<Bound<'py, PyAny>>> {
        items.map(|t| outline(py, t, natural)).collect()
    };
    let items = all(&mut tree.children())?;
    Ok(match tree {
        Tree::Leaf(i) => i.into_pyobject(py)?.into_any(),
        Tree::Static(_) => py.None().into_bound(py),
        Tree::Back(level) => ("back", *level).into_pyobject(py)?.into_any(),
        Tree::Tuple(class, _) => {
            let class = class.as_ref().map(|c| c.bind(py));
            ("tuple", class, items).into_pyobject(py)?.into_any()
        }
        Tree::List(_) => ("list", items).into_pyobject(py)?.into_any(),
        Tree::Dict(entries) => {
            let keys: Vec<_> = entries.iter().map(|(k, _)| k.bind(py)).collect();
            ("dict", keys, items).into_pyobject(py)?.into_any()
        }
        Tree::Object(object, fields) => {
            let object = object.bind(py);
            let class = object.get_type();
            let whole = known(object)?.project.is_some()
                || class.hasattr(intern!(py, "__del__"))?
                || natural.is_some_and(|n| n.iter().any(|c| c.is(&class)));
            let what = if whole {
                object.clone()
            } else {
                class.into_any()
            };
            let names: Vec<_> = fields.iter().map(|(n, _)| n.bind(py)).collect();
            ("object", what, names, items).into_pyobject(py)?.into_any()
        }
        Tree::Other(other) => {
            let form = match other.form {
                Form::Tuple => "tuple",
                Form::List => "list",
                Form::Dict => "dict",
                Form::Registered(_) => "registered",
                Form::Const => "const",
            };
            let original = other.original.bind(py);
            let original = match other.form {
                Form::Const => None,
                _ => Some(original),
            };
            let keys: Vec<_> = other.keys.iter().map(|k| k.bind(py)).collect();
            ("other", form, original, keys, items)
                .into_pyobject(py)?
                .into_any()
        }
    })
}

/// Structures whose leaves are, in order, so many.
pub fn trees(outlines: &[Bound<'_, PyAny>], leaves: usize) -> PyResult<Vec<Tree>> {
    let mut reader = Reader { next: 0, depth: 0 };
    let trees = (outlines.iter())
        .map(|o| reader.tree(o))
        .collect::<PyResult<_>>()?;
    if reader.next != leaves {
        return Err(invalid("its leaves are not as many as it says"));
    }
    Ok(trees)
}

/// One structure with so many leaves.
pub fn tree(outline: &Bound<'_, PyAny>, leaves: usize) -> PyResult<Tree> {
    Ok(trees(std::slice::from_ref(outline), leaves)?.swap_remove(0))
}

/// Reads outlines.
struct Reader {
    /// The number of the next leaf.
    next: usize,
    depth: usize,
}

impl Reader {
    fn tree(&mut self, outline: &Bound<'_, PyAny>) -> PyResult<Tree> {
        let py = outline.py();
        step(py)?;
        if outline.is_none() {
            return Ok(Tree::Static(py.None()));
        }
        if let Ok(leaf) = outline.extract::<usize>() {
            if leaf != self.next {
                return Err(invalid("its leaves are out of order"));
            }
            self.next += 1;
            return Ok(Tree::Leaf(leaf));
        }
        if self.depth >= MAX_DEPTH {
            return Err(PyRecursionError::new_err(format!(
                "not a valid pullback: it is nested more than {MAX_DEPTH} levels deep"
            )));
        }
        self.depth += 1;
        let tree = self.node(outline);
        self.depth -= 1;
        tree
    }

    fn node(&mut self, outline: &Bound<'_, PyAny>) -> PyResult<Tree> {
        let py = outline.py();
        let part = |i: usize| outline.get_item(i);
        let list = |i: usize| part(i)?.extract::<Vec<Bound<'_, PyAny>>>();
        let tag: String = part(0)?.extract()?;
        let count = match tag.as_str() {
            "back" | "list" => 2,
            "tuple" | "dict" => 3,
            "object" => 4,
            "other" => 5,
            _ => return Err(invalid("there is no structure of this kind")),
        };
        if outline.len()? != count {
            return Err(invalid("a structure has other parts than it should"));
        }
        if tag == "back" {
            let level: usize = part(1)?.extract()?;
            // Of those that are open, this one is the last, and is none.
            return if level + 1 < self.depth {
                Ok(Tree::Back(level))
            } else {
                Err(invalid("a cycle that leads nowhere"))
            };
        }
        let items = list(count - 1)?;
        let items = (items.iter().map(|o| self.tree(o))).collect::<PyResult<Vec<Tree>>>()?;
        let keyed = |i: usize| -> PyResult<Vec<Bound<'_, PyAny>>> {
            let keys = list(i)?;
            if keys.len() != items.len() {
                return Err(invalid("names and parts of a structure are not as many"));
            }
            keys.iter().try_for_each(|k| k.hash().map(drop))?;
            Ok(keys)
        };
        Ok(match tag.as_str() {
            "tuple" => {
                let class = part(1)?;
                if class.is_none() {
                    return Ok(Tree::Tuple(None, items));
                }
                if !class.cast::<PyType>()?.is_subclass_of::<PyTuple>()? {
                    return Err(invalid("the class of a tuple is none"));
                }
                Tree::Tuple(Some(class.unbind()), items)
            }
            "list" => Tree::List(items),
            "dict" => {
                let keys = keyed(1)?.into_iter().map(Bound::unbind);
                Tree::Dict(keys.zip(items).collect())
            }
            "object" => {
                let names = keyed(2)?;
                let names = names
                    .iter()
                    .map(|n| Ok(n.cast::<PyString>()?.clone().unbind()));
                let names = names.collect::<PyResult<Vec<_>>>()?;
                let what = part(1)?;
                let object = if what.is_instance_of::<PyType>() {
                    hooks::EMPTY_OBJECT.get(py)?.call1((what,))?
                } else {
                    what
                };
                // An object whose class is not taken apart has no cotangent.
                known(&object)?;
                Tree::Object(object.unbind(), names.into_iter().zip(items).collect())
            }
            _ => {
                let form: String = part(1)?.extract()?;
                let form = match form.as_str() {
                    "tuple" => Form::Tuple,
                    "list" => Form::List,
                    "dict" => Form::Dict,
                    "registered" => Form::Registered(py.None()),
                    "const" => Form::Const,
                    _ => return Err(invalid("there is no structure of this kind")),
                };
                let named = matches!(form, Form::Dict | Form::Registered(_));
                let keys = if named { keyed(3)? } else { list(3)? };
                if matches!(form, Form::Const) && items.len() != 1 {
                    return Err(invalid("a constant has not one part"));
                }
                let original = part(2)?;
                if !matches!(form, Form::Const) {
                    known(&original)?;
                }
                Tree::Other(Box::new(Other {
                    original: original.unbind(),
                    form,
                    keys: keys.into_iter().map(Bound::unbind).collect(),
                    items,
                }))
            }
        })
    }
}
