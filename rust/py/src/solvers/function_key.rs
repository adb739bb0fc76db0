//! Looks through functions that a solver calls: what they depend on, and copies of them with plain values.
//!
//! Problem: a fit calls a solver a hundred times, each time with a new function of the same code, and each time its
//! derivatives are recorded anew. A formula of numbers and arrays that it captures needs that once. Its key has all that
//! such a function depends on: the code, and what it captures, but for the values of active arrays, which are inputs of the
//! program. Functions that may do anything else (keep state, read objects of user code, draw numbers, print) have no key.

use std::collections::HashMap;

use cotan::DType;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFunction, PyInt, PyList, PyString, PyTuple, PyType,
};

use crate::array::cell::{PyArray, ScalarKind};
use crate::array::escapes::{force, loses_derivative};
use crate::array::traced::expect_no_variable;
use crate::ndarray::dtype::dtype_of_scalar;
use crate::ndarray::export::{to_ndarray, to_numpy_scalar};
use crate::ndarray::memory::is_writeable;
use crate::runtime::hooks;
use crate::runtime::once_cell::{OnceImported, intern};
use crate::solvers::names_read::{PyNamesRead, names_of};
use crate::solvers::written::Written;

/// Arrays of more bytes together are not compared.
const MAX_BYTES: usize = 1 << 16;
/// Collections of more items are not compared.
const MAX_ITEMS: usize = 64;
/// Functions with more objects behind them have no key.
const MAX_PARTS: usize = 1_000;

/// What functions depend on, but for the values of `leaves`.
#[pyclass(frozen, name = "FunctionKey", module = "cotan._core")]
pub struct PyFunctionKey {
    #[pyo3(get)]
    key: Py<PyBytes>,
    /// The identity of the code of the first function.
    #[pyo3(get)]
    code: usize,
    /// The active arrays that they reach, each once.
    #[pyo3(get)]
    leaves: Py<PyList>,
    /// The values of these, as ndarrays.
    #[pyo3(get)]
    values: Py<PyList>,
    /// What `key` names by identity; it holds as long as these are kept alive.
    #[pyo3(get)]
    kept: Py<PyList>,
    /// Copies with plain values in the place of the arrays that they capture.
    #[pyo3(get)]
    plain: Py<PyTuple>,
    /// Whether they capture any.
    #[pyo3(get)]
    captures: bool,
    /// Arrays, lists and dictionaries that they and their copies reach and could write to.
    written: Written,
}

#[pymethods]
impl PyFunctionKey {
    /// The key of functions and their arguments; None where they may depend on more.
    #[staticmethod]
    #[pyo3(signature = (*given))]
    fn of(given: &Bound<'_, PyTuple>) -> PyResult<Option<PyFunctionKey>> {
        let py = given.py();
        let mut walk = Walk {
            py,
            key: Vec::with_capacity(256),
            seen: HashMap::new(),
            leaves: PyList::empty(py),
            values: PyList::empty(py),
            kept: PyList::empty(py),
            written: Written::default(),
            code: 0,
            captures: false,
            is_shared: false,
            num_bytes: 0,
            num_parts: 0,
        };
        let plain: Found<Vec<_>> = (given.iter())
            .map(|value| Ok(walk.of(&value)?.unwrap_or(value)))
            .collect();
        let plain = match plain {
            Ok(plain) => PyTuple::new(py, plain)?,
            Err(Stop::NoKey) => return Ok(None),
            Err(Stop::Error(error)) => return Err(error),
        };
        Ok(Some(PyFunctionKey {
            key: PyBytes::new(py, &walk.key).unbind(),
            code: walk.code,
            leaves: walk.leaves.unbind(),
            values: walk.values.unbind(),
            kept: walk.kept.unbind(),
            written: walk.written,
            plain: plain.unbind(),
            captures: walk.captures,
        }))
    }

    /// Whether anything that they could write to differs from when the key was made.
    fn has_changed(&self, py: Python<'_>) -> PyResult<bool> {
        self.written.has_changed(py)
    }

    /// Puts back what has changed, and touches nothing else; says whether anything had.
    fn restore(&self, py: Python<'_>) -> PyResult<bool> {
        self.written.restore(py)
    }
}

/// Why there is no key.
enum Stop {
    NoKey,
    Error(PyErr),
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Stop {
        Stop::Error(error)
    }
}

type Found<T> = Result<T, Stop>;
/// What stands for an object in a copy; nothing where that is the object itself.
type Copied<'py> = Option<Bound<'py, PyAny>>;

/// What is known of an object that was met.
struct Seen<'py> {
    number: usize,
    /// Whether copies of the function share it.
    is_shared: bool,
    copy: Copied<'py>,
}

struct Walk<'py> {
    py: Python<'py>,
    key: Vec<u8>,
    seen: HashMap<usize, Seen<'py>>,
    leaves: Bound<'py, PyList>,
    values: Bound<'py, PyList>,
    kept: Bound<'py, PyList>,
    written: Written,
    code: usize,
    captures: bool,
    /// Whether copies of the function share what is looked at: global variables. It cannot have leaves.
    is_shared: bool,
    num_bytes: usize,
    num_parts: usize,
}

impl<'py> Walk<'py> {
    fn tag(&mut self, tag: u8) {
        self.key.push(tag);
    }

    fn number(&mut self, number: usize) {
        self.key.extend(number.to_ne_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.key.extend(bytes);
    }

    fn of(&mut self, value: &Bound<'py, PyAny>) -> Found<Copied<'py>> {
        self.num_parts += 1;
        if self.num_parts > MAX_PARTS {
            return Err(Stop::NoKey);
        }
        if self.atom(value)? || self.float(value)? {
            return Ok(None);
        }
        let identity = value.as_ptr() as usize;
        if let Some(seen) = self.seen.get(&identity) {
            if self.is_shared && !seen.is_shared {
                // A copy would have two of it.
                return Err(Stop::NoKey);
            }
            let (number, copy) = (seen.number, seen.copy.clone());
            self.tag(b'&');
            self.number(number);
            return Ok(copy);
        }
        let seen = Seen {
            number: self.seen.len(),
            is_shared: self.is_shared,
            copy: None,
        };
        self.seen.insert(identity, seen);
        let copy = self.object(value)?;
        if let Some(copy) = &copy {
            self.note(identity, copy);
        }
        Ok(copy)
    }

    fn note(&mut self, identity: usize, copy: &Bound<'py, PyAny>) {
        if let Some(seen) = self.seen.get_mut(&identity) {
            seen.copy = Some(copy.clone());
        }
    }

    /// Takes a float bit by bit: zeros with different signs are not the same.
    fn float(&mut self, value: &Bound<'py, PyAny>) -> Found<bool> {
        let tag = if value.is_exact_instance_of::<PyFloat>() {
            b'f'
        } else if dtype_of_scalar(value)? == Some(DType::F64) {
            b'F'
        } else {
            return Ok(false);
        };
        self.tag(tag);
        self.key
            .extend(value.extract::<f64>()?.to_bits().to_ne_bytes());
        Ok(true)
    }

    /// Takes what else is no more than its value, and may be a key of a dictionary.
    fn atom(&mut self, value: &Bound<'py, PyAny>) -> Found<bool> {
        if value.is_none() {
            self.tag(b'n');
        } else if let Ok(text) = value.cast_exact::<PyString>() {
            self.tag(b's');
            self.text(text.to_str().map_err(|_| Stop::NoKey)?.as_bytes());
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            self.tag(b'y');
            self.text(bytes.as_bytes());
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            self.tag(b'b');
            self.tag(truth.is_true().into());
        } else if value.is_exact_instance_of::<PyInt>() {
            self.integer(b'i', value)?;
        } else if dtype_of_scalar(value)? == Some(DType::I64) {
            self.integer(b'I', value)?;
        } else if is_bool_of_numpy(value)? {
            self.tag(b'B');
            self.tag(value.is_truthy()?.into());
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn integer(&mut self, tag: u8, value: &Bound<'py, PyAny>) -> Found<()> {
        self.tag(tag);
        if let Ok(small) = value.extract::<i64>() {
            self.key.extend(small.to_ne_bytes());
            return Ok(());
        }
        self.tag(b'.');
        let digits = value.call_method0(intern!(self.py, "__repr__"))?;
        let digits = digits.cast::<PyString>().map_err(PyErr::from)?;
        self.text(digits.to_str()?.as_bytes());
        Ok(())
    }

    fn object(&mut self, value: &Bound<'py, PyAny>) -> Found<Copied<'py>> {
        if let Ok(function) = value.cast_exact::<PyFunction>() {
            return self.function(function);
        }
        // Proxies are not asked for their class.
        if let Ok(array) = value.cast::<PyArray>() {
            return self.array(array);
        }
        if let Ok(array) = value.cast_exact::<PyUntypedArray>() {
            self.ndarray(array)?;
            return Ok(None);
        }
        if let Ok(items) = value.cast_exact::<PyTuple>() {
            self.tag(b'(');
            let copies = self.items(&items.iter().collect::<Vec<_>>())?;
            return Ok(match copies {
                Some(copies) => Some(PyTuple::new(self.py, copies)?.into_any()),
                None => None,
            });
        }
        if let Ok(items) = value.cast_exact::<PyList>() {
            self.written.note_list(items);
            self.tag(b'[');
            let copies = self.items(&items.iter().collect::<Vec<_>>())?;
            let Some(copies) = copies else {
                return Ok(None);
            };
            let copy = PyList::new(self.py, copies)?;
            self.written.note_list(&copy);
            return Ok(Some(copy.into_any()));
        }
        if let Ok(items) = value.cast_exact::<PyDict>() {
            return self.dictionary(items);
        }
        // What `frompyfunc` made of a function may do anything.
        if is_ufunc(value)? && self.library_part(value, None)?.is_some() {
            self.tag(b'u');
            self.number(value.as_ptr() as usize);
            return Ok(None);
        }
        Err(Stop::NoKey)
    }

    /// Takes items one after the other; gives copies of all where one has one.
    fn items(&mut self, items: &[Bound<'py, PyAny>]) -> Found<Option<Vec<Bound<'py, PyAny>>>> {
        if items.len() > MAX_ITEMS {
            return Err(Stop::NoKey);
        }
        self.number(items.len());
        let mut copies = Vec::with_capacity(items.len());
        let mut is_same = true;
        for item in items {
            let copy = self.of(item)?;
            is_same &= copy.is_none();
            copies.push(copy.unwrap_or_else(|| item.clone()));
        }
        Ok((!is_same).then_some(copies))
    }

    fn dictionary(&mut self, value: &Bound<'py, PyDict>) -> Found<Copied<'py>> {
        self.written.note_dict(value);
        self.tag(b'{');
        let (names, items): (Vec<_>, Vec<_>) = value.iter().unzip();
        for name in &names {
            // 1 and True are one key of a dictionary, and not the same.
            if !self.atom(name)? {
                return Err(Stop::NoKey);
            }
        }
        let Some(copies) = self.items(&items)? else {
            return Ok(None);
        };
        let copy = PyDict::new(self.py);
        for (name, item) in names.iter().zip(copies) {
            copy.set_item(name, item)?;
        }
        self.written.note_dict(&copy);
        Ok(Some(copy.into_any()))
    }

    fn array(&mut self, object: &Bound<'py, PyArray>) -> Found<Copied<'py>> {
        let array = object.get();
        if array.own_dtype() != DType::F64 {
            return Err(Stop::NoKey);
        }
        self.captures |= !self.is_shared;
        let read = array.read()?;
        if array.is_writeable() {
            self.written.note_array(object, read.clone());
        }
        expect_no_variable(&read)?;
        let is_active = loses_derivative(&read);
        if is_active && self.is_shared {
            return Err(Stop::NoKey);
        }
        let value = force(self.py, &read)?;
        let kind = array.scalar_kind();
        self.tag(if is_active { b'L' } else { b'C' });
        self.tag(match kind {
            ScalarKind::Array => b'a',
            ScalarKind::NumpyScalar => b's',
            ScalarKind::PythonNumber => b'n',
        });
        let whole = to_ndarray(self.py, value.clone())?;
        let copy = match kind {
            ScalarKind::Array => {
                self.written
                    .note_memory(whole.cast().map_err(PyErr::from)?)?;
                whole.clone()
            }
            ScalarKind::NumpyScalar => to_numpy_scalar(self.py, &value)?,
            ScalarKind::PythonNumber => whole.call_method0(intern!(self.py, "item"))?,
        };
        if is_active {
            self.leaves.append(object)?;
            self.number(read.shape().len());
            for &length in read.shape() {
                self.number(length);
            }
            self.values.append(whole)?;
        } else {
            self.elements(whole.cast().map_err(PyErr::from)?)?;
        }
        Ok(Some(copy))
    }

    fn ndarray(&mut self, array: &Bound<'py, PyUntypedArray>) -> Found<()> {
        if is_writeable(array) {
            let base = array.getattr(intern!(self.py, "base"))?;
            if !base.is_none() && !base.is_exact_instance_of::<PyUntypedArray>() {
                // Memory of a compiled solver may be gone when it is compared.
                return Err(Stop::NoKey);
            }
            self.written.note_memory(array)?;
        }
        self.tag(b'@');
        self.elements(array)
    }

    fn elements(&mut self, array: &Bound<'py, PyUntypedArray>) -> Found<()> {
        let dtype = array.dtype();
        self.num_bytes += array.len() * dtype.itemsize();
        if !b"biufc".contains(&dtype.kind()) || self.num_bytes > MAX_BYTES {
            return Err(Stop::NoKey);
        }
        let name = dtype.getattr(intern!(self.py, "str"))?;
        self.text(
            name.cast::<PyString>()
                .map_err(PyErr::from)?
                .to_str()?
                .as_bytes(),
        );
        self.number(array.ndim());
        for &length in array.shape() {
            self.number(length);
        }
        for &step in array.strides() {
            self.number(step.cast_unsigned());
        }
        let bytes = array.call_method0(intern!(self.py, "tobytes"))?;
        self.text(bytes.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes());
        Ok(())
    }

    fn function(&mut self, function: &Bound<'py, PyFunction>) -> Found<Copied<'py>> {
        let py = self.py;
        let own = function.getattr(intern!(py, "__dict__"))?;
        let code = function.getattr(intern!(py, "__code__"))?;
        let variables = function.getattr(intern!(py, "__globals__"))?;
        let variables = variables.cast::<PyDict>().map_err(PyErr::from)?;
        let read = names_of(function, &code, variables)?;
        let Some(read) =
            read.filter(|read| read.get().is_computing() && own.is_truthy().is_ok_and(|has| !has))
        else {
            return Err(Stop::NoKey);
        };
        if self.code == 0 {
            self.code = code.as_ptr() as usize;
        }
        self.tag(b'>');
        self.number(code.as_ptr() as usize);
        self.kept.append(&read)?;
        let defaults = function.getattr(intern!(py, "__defaults__"))?;
        let named = function.getattr(intern!(py, "__kwdefaults__"))?;
        let of_defaults = self.of(&defaults)?.unwrap_or(defaults);
        let of_named = self.of(&named)?.unwrap_or(named);
        let closure = function.getattr(intern!(py, "__closure__"))?;
        let cells: Vec<_> = match closure.cast::<PyTuple>() {
            Ok(cells) => cells.iter().collect(),
            Err(_) => Vec::new(),
        };
        // What copies of a function share is not copied.
        let copy = if self.is_shared {
            None
        } else {
            let name = function.getattr(intern!(py, "__name__"))?;
            let given = (&code, variables, name, of_defaults);
            Some(self.copied(function, given, &of_named, cells.len())?)
        };
        self.number(cells.len());
        for (i, cell) in cells.iter().enumerate() {
            let content = match cell.getattr(intern!(py, "cell_contents")) {
                Ok(content) => content,
                // A variable without a value yet.
                Err(error) if error.is_instance_of::<PyValueError>(py) => return Err(Stop::NoKey),
                Err(error) => return Err(error.into()),
            };
            let content = self.of(&content)?.unwrap_or(content);
            if let Some((_, cells)) = &copy {
                cells[i].setattr(intern!(py, "cell_contents"), content)?;
            }
        }
        self.globals(&read, variables)?;
        Ok(copy.map(|(copy, _)| copy))
    }

    /// A copy of a function with empty cells; one that calls itself finds it.
    fn copied(
        &mut self,
        function: &Bound<'py, PyFunction>,
        (code, variables, name, defaults): (
            &Bound<'py, PyAny>,
            &Bound<'py, PyDict>,
            Bound<'py, PyAny>,
            Bound<'py, PyAny>,
        ),
        named: &Bound<'py, PyAny>,
        num_cells: usize,
    ) -> Found<(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>)> {
        static CELL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let py = self.py;
        let cell = CELL.found(py, "types", "CellType")?;
        let cells = (0..num_cells)
            .map(|_| cell.call0())
            .collect::<PyResult<Vec<_>>>()?;
        let closure = PyTuple::new(py, &cells)?;
        let copy = (function.get_type()).call1((code, variables, name, defaults, closure))?;
        if !named.is_none() {
            copy.setattr(intern!(py, "__kwdefaults__"), named)?;
        }
        self.note(function.as_ptr() as usize, &copy);
        Ok((copy, cells))
    }

    /// Takes the names that code reads, and the global variables among them that are of no library.
    fn globals(
        &mut self,
        read: &Bound<'py, PyNamesRead>,
        variables: &Bound<'py, PyDict>,
    ) -> Found<()> {
        let before = std::mem::replace(&mut self.is_shared, true);
        self.text(read.get().key(self.py));
        for name in read.get().others(self.py).iter() {
            self.atom(&name)?;
            let value = variables.get_item(&name)?.ok_or(Stop::NoKey)?;
            let Some(parts) = self.library_part(&value, Some(read))? else {
                self.of(&value)?;
                continue;
            };
            self.tag(b'~');
            self.number(value.as_ptr() as usize);
            for part in parts {
                let (name, put): (Bound<'py, PyAny>, Bound<'py, PyAny>) = part.extract()?;
                self.atom(&name)?;
                self.of(&put)?;
            }
        }
        self.is_shared = before;
        Ok(())
    }

    /// What a program has put on a part of a library, under the names that code reads; nothing for what is no such part.
    ///
    /// There is no key where it may do anything.
    fn library_part(
        &mut self,
        value: &Bound<'py, PyAny>,
        read: Option<&Bound<'py, PyNamesRead>>,
    ) -> Found<Option<Bound<'py, PyList>>> {
        let py = self.py;
        let is_data = value.is_exact_instance_of::<PyFloat>()
            || value.is_exact_instance_of::<PyInt>()
            || value.is_exact_instance_of::<PyList>()
            || value.is_exact_instance_of::<PyTuple>()
            || value.is_exact_instance_of::<PyDict>()
            || value.is_exact_instance_of::<PyUntypedArray>()
            || value.is_instance_of::<PyArray>();
        if is_data {
            return Ok(None);
        }
        let names = match read {
            Some(read) => read.get().names(py)?,
            None => PyTuple::empty(py),
        };
        let found = hooks::LIBRARY_PART.get(py)?.call1((value, names))?;
        if found.is_none() {
            return Ok(None);
        }
        let Ok(parts) = found.cast_into::<PyList>() else {
            return Err(Stop::NoKey);
        };
        self.kept.append(value)?;
        Ok(Some(parts))
    }
}

fn is_bool_of_numpy(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(value.is_exact_instance(CLASS.found(value.py(), "numpy", "bool_")?))
}

fn is_ufunc(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(value.is_exact_instance(CLASS.found(value.py(), "numpy", "ufunc")?))
}
