//! Saves pullbacks, in pickles and in files, and loads whatever a file holds.
//!
//! What a pullback knows of the structure of arguments and results is an *outline*: nested lists of plain objects,
//! in which a pickle has classes, and a file their names.

use std::sync::Arc;

use cotan::autodiff::Pullback;
use cotan::io::{Kind as SavedKind, Saved};
use cotan::{Aval, DType};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::array::cell::{PyArray, ScalarKind};
use crate::ndarray::memory::storage_of;
use crate::program::pyclass::program_of;
use crate::program::serialize::{
    as_bytes, at, function, joined, parts, path_of, refuse_calls, refused, save,
};
use crate::runtime::error::{OrRaise, enter};
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::transforms::argument_names::Names;
use crate::transforms::pullback::PyPullback;
use crate::tree::schema::{self, invalid};
use crate::tree::treedef::{Kind, Tree};

exports!(restore_pullback, load_file, load_memory);

/// The section with the structure of arguments and results, as JSON.
const TREE: [u8; 4] = *b"tree";

/// The section of pullbacks of Rust functions that says which arguments are leaves.
const ARGS: [u8; 4] = *b"args";

fn saved_pullback(py: Python<'_>, back: &PyPullback) -> PyResult<Saved> {
    refuse_calls(py, "pullback", back.back.program())?;
    enter(py, |interrupted| back.back.to_saved(interrupted)).map_err(|e| refused(py, e))
}

/// What is known of arguments and results.
fn outline_of<'py>(py: Python<'py>, back: &PyPullback) -> PyResult<Bound<'py, PyDict>> {
    let natural = back.natural.as_ref().map(|n| n.bind(py).clone());
    let tree = |t: &Tree| schema::outline(py, t, natural.as_ref());
    let out = PyDict::new(py);
    out.set_item("results", tree(&back.results)?)?;
    let avals = back.avals.iter().map(|a| schema::aval(py, a));
    out.set_item("avals", avals.collect::<PyResult<Vec<_>>>()?)?;
    let trees = back.trees.iter().map(tree).collect::<PyResult<Vec<_>>>()?;
    out.set_item("arguments", trees)?;
    let kinds = back.kinds.iter().map(|(kind, aval)| {
        let scalar_kind = kind.scalar_kind().name();
        Ok((scalar_kind, schema::aval(py, aval)?))
    });
    out.set_item("leaves", kinds.collect::<PyResult<Vec<_>>>()?)?;
    out.set_item("active", back.slots.to_vec())?;
    out.set_item("asked", back.kept.clone())?;
    out.set_item("names", back.names.get(py, back.trees.len())?)?;
    let arrays = back.arrays.as_ref();
    out.set_item("arrays", arrays.map(|all| all.iter().collect::<Vec<_>>()))?;
    out.set_item("bare", back.bare)?;
    out.set_item("held", back.held.to_vec())?;
    out.set_item("natural", natural)?;
    Ok(out)
}

/// A pullback as `pickle` takes it apart.
pub fn reduce_pullback<'py>(
    slf: &Bound<'py, PyPullback>,
    protocol: i32,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let (head, blobs) = parts(py, &saved_pullback(py, slf.get())?, protocol)?;
    let made_of = (head, blobs, outline_of(py, slf.get())?);
    Ok((function(py, "restore_pullback")?, made_of)
        .into_pyobject(py)?
        .into_any())
}

/// The pullback that was pickled.
#[pyfunction]
#[pyo3(signature = (head: "bytes", blobs: "Sequence[object]", outline: "dict[str, Any]") -> "Pullback")]
pub fn restore_pullback(
    head: &[u8],
    blobs: Vec<Bound<'_, PyAny>>,
    outline: &Bound<'_, PyDict>,
) -> PyResult<PyPullback> {
    pullback_of(&joined(head, blobs)?, outline)
}

fn pullback_of(saved: &Saved, outline: &Bound<'_, PyDict>) -> PyResult<PyPullback> {
    let back = Pullback::from_saved(saved).or_raise()?;
    outlined(back, outline).map_err(|error| {
        let py = outline.py();
        if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyOSError>(py) {
            return error;
        }
        // Whatever is not what it should be: of another type, missing, too large.
        let wrong = invalid(&format!(
            "what it says of arguments and results cannot be read ({error})"
        ));
        wrong.set_cause(py, Some(error));
        wrong
    })
}

fn outlined(back: Pullback, outline: &Bound<'_, PyDict>) -> PyResult<PyPullback> {
    let get = |key: &str| {
        let found = outline.get_item(key)?;
        found.ok_or_else(|| invalid(&format!("it says nothing of {key}")))
    };
    let optional = |key: &str| get(key).map(|o| (!o.is_none()).then_some(o));
    let avals = get("avals")?.extract::<Vec<Bound<'_, PyAny>>>()?;
    let avals = avals
        .iter()
        .map(schema::aval_from)
        .collect::<PyResult<Vec<_>>>()?;
    let results = schema::tree(&get("results")?, avals.len())?;
    let mut kinds = Vec::new();
    for leaf in get("leaves")?.extract::<Vec<Bound<'_, PyAny>>>()? {
        let scalar_kind: String = leaf.get_item(0)?.extract()?;
        let scalar_kind = schema::scalar_kind_from(&scalar_kind)?;
        kinds.push((
            Kind::Array(scalar_kind),
            schema::aval_from(&leaf.get_item(1)?)?,
        ));
    }
    let arguments = get("arguments")?.extract::<Vec<Bound<'_, PyAny>>>()?;
    let trees = schema::trees(&arguments, kinds.len())?;
    let slots: Vec<usize> = get("active")?.extract()?;
    let kept: Vec<bool> = get("asked")?.extract()?;
    let names: Vec<String> = get("names")?.extract()?;
    let bare: Option<usize> = get("bare")?.extract()?;
    let held: Vec<Option<usize>> = get("held")?.extract()?;
    let arrays: Option<Vec<Py<PyArray>>> = optional("arrays")?.map(|a| a.extract()).transpose()?;
    let natural = optional("natural")?
        .map(Bound::cast_into::<PyTuple>)
        .transpose()?;
    for class in natural.iter().flatten() {
        class.cast::<PyType>()?;
    }

    if avals.len() != back.cotangent_avals().count()
        || !(back.cotangent_avals().zip(&avals)).all(|(c, a)| c.is_none_or(|c| c == a))
    {
        return Err(invalid("its results are not those of its program"));
    }
    let ascending = slots.windows(2).all(|w| w[0] < w[1]);
    if !ascending || slots.last().is_some_and(|&s| s >= kinds.len()) || kept.len() != slots.len() {
        return Err(invalid("its leaves are not those of its arguments"));
    }
    if slots.len() != back.gradient_avals().count()
        || !(back.gradient_avals().zip(&slots)).all(|(g, &s)| g.is_none_or(|g| *g == kinds[s].1))
    {
        return Err(invalid("its cotangents are not those of its program"));
    }
    let fits = |a: &Vec<Py<PyArray>>| a.len() == trees.len() && a.len() == kinds.len();
    if names.len() != trees.len() && arrays.is_none()
        || arrays.as_ref().is_some_and(|a| !fits(a))
        || bare.is_some_and(|b| b >= trees.len())
        || held.iter().flatten().any(|&h| h >= kinds.len())
    {
        return Err(invalid("its arguments are not as many as it says"));
    }
    Ok(PyPullback {
        back,
        results: Arc::new(results),
        avals: avals.into(),
        trees: trees.into(),
        kinds: kinds.into(),
        slots: slots.into(),
        kept,
        names: Names::Known(names),
        arrays,
        bare,
        natural: natural.map(Bound::unbind),
        held: held.into(),
    })
}

/// Saves a pullback.
pub fn save_pullback(slf: &Bound<'_, PyPullback>, path: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = slf.py();
    let mut saved = saved_pullback(py, slf.get())?;
    let outline = outline_of(py, slf.get())?;
    let json = hooks::OUTLINE_TO_JSON.get(py)?.call1((outline,))?;
    saved.sections.push((TREE, json.extract()?));
    save(py, &saved, path)
}

/// What a file holds: a pullback or a program.
#[pyfunction]
#[pyo3(signature = (path: "_File") -> "Any")]
pub fn load_file(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let path = path_of(path)?;
    let result = enter(py, |_| Ok(Saved::load(&path)))?;
    loaded(py, result.map_err(|error| at(error, &path))?)
}

/// What the memory of a file holds. It is used as it is.
#[pyfunction]
#[pyo3(signature = (memory: "object") -> "Any")]
pub fn load_memory(py: Python<'_>, memory: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let storage = storage_of(memory)?;
    let saved = enter(py, |_| Saved::mapped(&storage))?;
    loaded(py, saved)
}

fn loaded(py: Python<'_>, saved: Saved) -> PyResult<Py<PyAny>> {
    if saved.kind == SavedKind::Program {
        return Ok(Bound::new(py, program_of(saved)?)?.into_any().unbind());
    }
    let back = match saved.section(&TREE) {
        Some(json) => {
            let outline = hooks::OUTLINE_FROM_JSON.get(py)?;
            let outline = outline.call1((as_bytes(py, json)?,))?;
            pullback_of(&saved, outline.cast::<PyDict>()?)?
        }
        None => of_arrays(py, &saved)?,
    };
    Ok(Bound::new(py, back)?.into_any().unbind())
}

/// A pullback of a function of arrays that was not saved from Python.
fn of_arrays(py: Python<'_>, saved: &Saved) -> PyResult<PyPullback> {
    let back = Pullback::from_saved(saved).or_raise()?;
    let unknown = || Aval::scalar(DType::F64);
    let all = |a: Option<&Aval>| a.cloned().unwrap_or_else(unknown);
    let avals: Vec<Aval> = back.cotangent_avals().map(all).collect();
    let kinds: Vec<_> = (back.gradient_avals())
        .map(|a| (Kind::Array(ScalarKind::Array), all(a)))
        .collect();
    let mut trees: Vec<Tree> = Vec::new();
    match saved.section(&ARGS) {
        Some(words) => {
            let mut next = 0;
            for word in words.chunks(4) {
                trees.push(if word == [0xff; 4] {
                    Tree::Static(py.None())
                } else {
                    next += 1;
                    Tree::Leaf(next - 1)
                });
            }
            if next != kinds.len() {
                return Err(invalid("its arguments are not its leaves"));
            }
        }
        None => trees.extend((0..kinds.len()).map(Tree::Leaf)),
    }
    let results = if avals.len() == 1 {
        Tree::Leaf(0)
    } else {
        Tree::Tuple(None, (0..avals.len()).map(Tree::Leaf).collect())
    };
    Ok(PyPullback {
        back,
        results: Arc::new(results),
        avals: avals.into(),
        names: Names::Known((0..trees.len()).map(|i| format!("x{i}")).collect()),
        trees: trees.into(),
        kept: vec![true; kinds.len()],
        slots: (0..kinds.len()).collect(),
        kinds: kinds.into(),
        arrays: None,
        bare: None,
        natural: None,
        held: Arc::new([]),
    })
}
