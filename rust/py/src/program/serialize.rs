//! Pullbacks, programs and arrays that leave the process: pickled, or saved to files.
//!
//! Both carry the head of a container (`cotan::io`) and the memory of arrays. What a pullback knows of the
//! structure of arguments and results is an *outline*: nested lists of plain objects, in which a pickle
//! has classes, and a file their names (`cotan._saved`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cotan::Array;
use cotan::array::Pullback;
use cotan::io::{Kind as SavedKind, Saved, replace};
use cotan::kernels::{Lane, Value};
use cotan::{Aval, DType, Error, Foreign, Program};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple, PyType};

use crate::array::cell::{PyArray, Rank, wrap};
use crate::array::escapes::force;
use crate::array::escapes::refuse_active;
use crate::ndarray::memory::{lent_bytes, storage_of};
use crate::program::pyclass::PyProgram;
use crate::runtime::error::{OrRaise, enter, to_py};
use crate::transforms::leaves::Names;
use crate::transforms::pullback::PyPullback;
use crate::tree::schema::{self, invalid};
use crate::tree::treedef::{Kind, Tree};

/// The section with the structure of arguments and results, as JSON.
const TREE: [u8; 4] = *b"tree";
/// The section of pullbacks of Rust functions that says which arguments are leaves.
const ARGS: [u8; 4] = *b"args";
/// Arrays of fewer bytes go with the head of a pickle.
const SMALL: usize = 4096;

fn pickling_error(py: Python<'_>, message: String) -> PyErr {
    let class = py.import("pickle").and_then(|m| m.getattr("PicklingError"));
    match class.and_then(|class| class.call1((message,))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Why something cannot leave the process is an error of pickling, for files too.
fn refused(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyValueError>(py) {
        return pickling_error(py, error.value(py).to_string());
    }
    error
}

/// Refuses what calls Python code of this process.
fn refuse_calls(py: Python<'_>, what: &str, program: &Program) -> PyResult<()> {
    let names = program.host_calls();
    if names.is_empty() {
        return Ok(());
    }
    Err(pickling_error(
        py,
        format!(
            "the {what} calls {}: a hook, an opaque rule or a SciPy function, which are code of this process \
             and cannot leave it. Call a hook on the cotangents that the pullback gives instead; write a rule \
             without opaque=True, so that it is traced into primitives; or leave out the arguments whose \
             cotangents need it: back.wrt(...)",
            names.join(", ")
        ),
    ))
}

// --------------------------------------------------------------------------------------------------
// Memory

/// A copy as an object of Python; there may be no memory for it.
fn as_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |target| {
        target.copy_from_slice(bytes);
        Ok(())
    })
}

/// The memory of a value that is dense, for a pickle: a buffer that is not copied, or bytes.
fn blob<'py>(py: Python<'py>, value: &Value, protocol: i32) -> PyResult<Bound<'py, PyAny>> {
    let bytes = value.stored().unwrap_or_default();
    if protocol < 5 || bytes.len() < SMALL {
        return Ok(as_bytes(py, bytes)?.into_any());
    }
    let lent = lent_bytes(py, value)?;
    py.import("pickle")?.getattr("PickleBuffer")?.call1((lent,))
}

/// A saved thing as arguments of the function that restores it: its head and its memory.
fn parts<'py>(
    py: Python<'py>,
    saved: &Saved,
    protocol: i32,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyList>)> {
    let (head, arrays) = saved.apart().or_raise().map_err(|e| refused(py, e))?;
    let blobs = PyList::empty(py);
    for array in &arrays {
        blobs.append(blob(py, array, protocol)?)?;
    }
    Ok((as_bytes(py, &head)?, blobs))
}

fn joined(head: &[u8], blobs: Vec<Bound<'_, PyAny>>) -> PyResult<Saved> {
    let storages = blobs.iter().map(storage_of).collect::<PyResult<Vec<_>>>()?;
    Saved::join(head, &storages).or_raise()
}

fn function<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("cotan._core")?.getattr(name)
}

// --------------------------------------------------------------------------------------------------
// Arrays

/// An array as `pickle` takes it apart.
pub fn reduce_array<'py>(
    slf: &PyArray,
    py: Python<'py>,
    protocol: i32,
) -> PyResult<Bound<'py, PyAny>> {
    let array = slf.read()?;
    refuse_active(py, &array, "pickling x", "pickle it after the gradient")?;
    let (value, lanes) = force(py, &array)?.dense().or_raise()?;
    let lanes: Vec<(usize, usize, bool)> =
        lanes.iter().map(|l| (l.axis, l.len, l.repeated)).collect();
    let rank = schema::rank_name(slf.rank());
    let made_of = (
        value.dtype().name(),
        lanes,
        rank,
        blob(py, &value, protocol)?,
    );
    Ok((function(py, "restore_array")?, made_of)
        .into_pyobject(py)?
        .into_any())
}

/// The array that was pickled.
#[pyfunction]
pub fn restore_array<'py>(
    dtype: &str,
    lanes: Vec<(usize, usize, bool)>,
    rank: &str,
    blob: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = DType::from_name(dtype).ok_or_else(|| invalid("there is no such dtype"))?;
    let lane = |&(axis, len, repeated): &_| Lane {
        axis,
        len,
        repeated,
    };
    let lanes: Vec<Lane> = lanes.iter().map(lane).collect();
    let value = Value::from_stored(dtype, &lanes, &storage_of(blob)?, 0).or_raise()?;
    wrap(blob.py(), Array::constant(value), schema::rank_from(rank)?)
}

// --------------------------------------------------------------------------------------------------
// Programs

fn saved_program(py: Python<'_>, program: &PyProgram) -> PyResult<Saved> {
    let (program, constants) = (program.core(), program.constants());
    refuse_calls(py, "program", program)?;
    let mut values = Vec::with_capacity(constants.len());
    for constant in constants {
        if constant.is_active() {
            let message = "the program holds values of a gradient that is still being computed; save it when \
                           that is done";
            return Err(pickling_error(py, message.into()));
        }
        values.push(force(py, constant)?);
    }
    Ok(Saved::new(SavedKind::Program, program.clone(), values))
}

/// A program as `pickle` takes it apart.
pub fn reduce_program<'py>(
    slf: &Bound<'py, PyProgram>,
    protocol: i32,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let (head, blobs) = parts(py, &saved_program(py, slf.get())?, protocol)?;
    Ok((function(py, "restore_program")?, (head, blobs))
        .into_pyobject(py)?
        .into_any())
}

/// The program that was pickled.
#[pyfunction]
pub fn restore_program(head: &[u8], blobs: Vec<Bound<'_, PyAny>>) -> PyResult<PyProgram> {
    program_of(joined(head, blobs)?)
}

fn program_of(saved: Saved) -> PyResult<PyProgram> {
    if saved.kind != SavedKind::Program {
        return Err(invalid("this is a saved pullback, not a program"));
    }
    saved.expect_sections(&[]).or_raise()?;
    let constants = saved.arrays.into_iter().map(Array::constant).collect();
    Ok(PyProgram::new(saved.program, constants))
}

/// Saves a program.
pub fn save_program(slf: &Bound<'_, PyProgram>, path: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = slf.py();
    save(py, &saved_program(py, slf.get())?, path)
}

// --------------------------------------------------------------------------------------------------
// Pullbacks

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
        let rank = schema::rank_name(crate::transforms::leaves::rank_of(*kind));
        Ok((rank, schema::aval(py, aval)?))
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
        let rank: String = leaf.get_item(0)?.extract()?;
        let rank = schema::rank_from(&rank)?;
        kinds.push((Kind::Handle(rank), schema::aval_from(&leaf.get_item(1)?)?));
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
    let json = py
        .import("cotan._src.program.serialization")?
        .call_method1("portable", (outline,))?;
    saved.sections.push((TREE, json.extract()?));
    save(py, &saved, path)
}

// --------------------------------------------------------------------------------------------------
// Files

/// What stands for a path: a string, bytes, or an object with one.
fn path_of(path: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    (path.py().import("os")?.call_method1("fsdecode", (path,))?).extract()
}

fn save(py: Python<'_>, saved: &Saved, path: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = &path_of(path)?;
    // What cannot be saved is refused before there is a file.
    saved.apart().or_raise().map_err(|e| refused(py, e))?;
    let result = enter(py, |_| Ok(saved.save(path)))?;
    result.map_err(|error| at(error, path))
}

/// Writes a file that is whole or, when something fails, not there; an old one stays whole then.
#[pyfunction]
pub fn write_file(py: Python<'_>, path: &Bound<'_, PyAny>, data: &[u8]) -> PyResult<()> {
    let path = &path_of(path)?;
    let result = enter(py, |_| {
        Ok(replace(path, |to| to.write_all(data).map_err(Error::from)))
    })?;
    result.map_err(|error| at(error, path))
}

/// An error of the system with the path in it.
fn at(error: Error, path: &Path) -> PyErr {
    if let Error::Foreign(Foreign(inner)) = &error
        && let Some(io) = inner.downcast_ref::<std::io::Error>()
    {
        return match io.raw_os_error() {
            Some(code) => {
                let text = io.to_string();
                let text = text
                    .split(" (os error")
                    .next()
                    .unwrap_or_default()
                    .to_string();
                PyOSError::new_err((code, text, path.as_os_str().to_owned()))
            }
            None if io.kind() == std::io::ErrorKind::InvalidInput => {
                PyValueError::new_err(format!("{}: {io}", path.display()))
            }
            None => PyOSError::new_err(format!("{}: {io}", path.display())),
        };
    }
    to_py(error)
}

/// What a file holds: a pullback or a program.
#[pyfunction]
pub fn load_file(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let path = path_of(path)?;
    let result = enter(py, |_| Ok(Saved::load(&path)))?;
    loaded(py, result.map_err(|error| at(error, &path))?)
}

/// What the memory of a file holds. It is used as it is.
#[pyfunction]
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
            let module = py.import("cotan._src.program.serialization")?;
            let outline = module.call_method1("outline", (as_bytes(py, json)?,))?;
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
        .map(|a| (Kind::Handle(Rank::Array), all(a)))
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
