//! Saves programs and arrays, in pickles and in files. Both carry the head of a container (`cotan::io`) and the
//! memory of arrays.

use std::path::{Path, PathBuf};

use cotan::Array;
use cotan::io::{Kind as SavedKind, Saved, replace};
use cotan::kernels::{Lane, Value};
use cotan::{DType, Error, Foreign, Program};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::escapes::force;
use crate::array::escapes::refuse_active;
use crate::ndarray::export::{lent_bytes, to_ndarray, to_numpy_scalar};
use crate::ndarray::memory::storage_of;
use crate::runtime::error::{OrRaise, enter, to_py};
use crate::runtime::exports::exports;
use crate::runtime::once_cell::intern;
use crate::runtime::text;
use crate::tree::schema::{self, invalid};

exports!(restore_array, write_file);

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
pub fn refused(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyValueError>(py) {
        return text::message(py, &error)
            .map_or_else(|failed| failed, |message| pickling_error(py, message));
    }
    error
}

/// Refuses what calls Python code of this process.
pub fn refuse_calls(py: Python<'_>, what: &str, program: &Program) -> PyResult<()> {
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
pub fn as_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |target| {
        target.copy_from_slice(bytes);
        Ok(())
    })
}

/// The memory of a value that is dense, for a pickle: a buffer that is not copied, or bytes.
fn blob<'py>(py: Python<'py>, value: &Value, protocol: i32) -> PyResult<Bound<'py, PyAny>> {
    value.bring_here().or_raise()?;
    let bytes = value.stored().unwrap_or_default();
    if protocol < 5 || bytes.len() < SMALL {
        return Ok(as_bytes(py, bytes)?.into_any());
    }
    let lent = lent_bytes(py, value)?;
    py.import("pickle")?.getattr("PickleBuffer")?.call1((lent,))
}

/// A saved thing as arguments of the function that restores it: its head and its memory.
pub fn parts<'py>(
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

pub fn joined(head: &[u8], blobs: Vec<Bound<'_, PyAny>>) -> PyResult<Saved> {
    let storages = blobs.iter().map(storage_of).collect::<PyResult<Vec<_>>>()?;
    Saved::join(head, &storages).or_raise()
}

pub fn function<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
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
    if slf.is_recorded() && array.dtype() != DType::Bf16 {
        // Without cotan it would be NumPy's or Python's: whoever loads it need not have cotan.
        let plain = plain(py, slf, &array)?;
        if slf.scalar_kind() == ScalarKind::PythonNumber {
            return Ok((plain.get_type(), (plain,)).into_pyobject(py)?.into_any());
        }
        return plain.call_method1(intern!(py, "__reduce_ex__"), (protocol,));
    }
    let (value, lanes) = force(py, &array)?.dense().or_raise()?;
    let lanes: Vec<(usize, usize, bool)> =
        lanes.iter().map(|l| (l.axis, l.len, l.repeated)).collect();
    let scalar_kind = slf.scalar_kind().name();
    let made_of = (
        value.dtype().name(),
        lanes,
        scalar_kind,
        blob(py, &value, protocol)?,
    );
    Ok((function(py, "restore_array")?, made_of)
        .into_pyobject(py)?
        .into_any())
}

/// What there would be without cotan.
fn plain<'py>(py: Python<'py>, slf: &PyArray, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    let value = force(py, array)?;
    match slf.scalar_kind() {
        ScalarKind::Array => to_ndarray(py, value),
        ScalarKind::NumpyScalar => to_numpy_scalar(py, &value),
        ScalarKind::PythonNumber => to_numpy_scalar(py, &value)?.call_method0("item"),
    }
}

/// The array that was pickled.
#[pyfunction]
#[pyo3(signature = (
    dtype: "str",
    lanes: "Sequence[tuple[int, int, bool]]",
    scalar_kind: "str",
    blob: "object"
) -> "Array")]
pub fn restore_array<'py>(
    dtype: &str,
    lanes: Vec<(usize, usize, bool)>,
    scalar_kind: &str,
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
    wrap(
        blob.py(),
        Array::constant(value),
        schema::scalar_kind_from(scalar_kind)?,
    )
}

// --------------------------------------------------------------------------------------------------
// Programs

fn saved_program(py: Python<'_>, program: &Program, constants: &[Array]) -> PyResult<Saved> {
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

/// A program as `pickle` takes it apart, with the values of its last inputs.
pub fn reduce_program<'py>(
    py: Python<'py>,
    program: &Program,
    constants: &[Array],
    protocol: i32,
) -> PyResult<Bound<'py, PyAny>> {
    let (head, blobs) = parts(py, &saved_program(py, program, constants)?, protocol)?;
    Ok((function(py, "restore_program")?, (head, blobs))
        .into_pyobject(py)?
        .into_any())
}

/// Saves a program, with the values of its last inputs.
pub fn save_program(
    py: Python<'_>,
    program: &Program,
    constants: &[Array],
    path: &Bound<'_, PyAny>,
) -> PyResult<()> {
    save(py, &saved_program(py, program, constants)?, path)
}

// --------------------------------------------------------------------------------------------------
// Files

/// What names a file: a string, bytes, or an object with one.
pub fn path_of(path: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    (path.py().import("os")?.call_method1("fsdecode", (path,))?).extract()
}

pub fn save(py: Python<'_>, saved: &Saved, path: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = &path_of(path)?;
    // What cannot be saved is refused before there is a file.
    saved.apart().or_raise().map_err(|e| refused(py, e))?;
    let result = enter(py, |_| Ok(saved.save(path)))?;
    result.map_err(|error| at(error, path))
}

/// Writes a file that is whole or, when something fails, not there; an old one stays whole then.
#[pyfunction]
#[pyo3(signature = (path: "_File", data: "bytes") -> "None")]
pub fn write_file(py: Python<'_>, path: &Bound<'_, PyAny>, data: &[u8]) -> PyResult<()> {
    let path = &path_of(path)?;
    let result = enter(py, |_| {
        Ok(replace(path, |to| to.write_all(data).map_err(Error::from)))
    })?;
    result.map_err(|error| at(error, path))
}

/// An error of the system with the path in it.
pub fn at(error: Error, path: &Path) -> PyErr {
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
