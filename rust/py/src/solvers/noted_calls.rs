//! Calls a right side for a solver, and notes when that was, the states, and the slopes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cotan::DType;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyBaseException, PyException};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyList, PyTuple};

use crate::ndarray::dtype::{dtype_of, dtype_of_scalar};
use crate::ndarray::vectors::{Row, row as row_of};
use crate::runtime::error::raise_interrupt;
use crate::runtime::once_cell::{OnceImported, intern};

/// Times, states as rows, and slopes.
type Noted<'py> = (
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray2<f64>>,
);

/// Of a run whose states are not needed so many calls are noted, and then ever fewer.
const SAMPLES: usize = 8;

/// A right side as a solver calls it.
///
/// Of each call it notes time, state and slope, until `most` numbers are noted, and then of ever fewer calls. It raises
/// `refusal` where the function raises an exception, writes to its argument, or gives what `is_plain` says is no number;
/// where compiled code does not stop at exceptions, without `raises`, it is kept, and all slopes are zero after that.
#[pyclass(frozen, name = "NotedCalls", module = "cotan._core")]
pub struct PyNotedCalls {
    function: Py<PyAny>,
    refusal: Py<PyAny>,
    is_plain: Option<Py<PyAny>>,
    state_first: bool,
    most: Option<usize>,
    raises: bool,
    notes: Mutex<Notes>,
    refused: OnceLock<Py<PyBaseException>>,
}

#[derive(Default)]
struct Notes {
    /// The times of all calls.
    called: Vec<f64>,
    /// What is noted of them.
    times: Vec<f64>,
    states: Vec<f64>,
    slopes: Vec<f64>,
    /// How many numbers a state has, once one is known.
    size: Option<usize>,
    /// How many calls are noted without one missing in between.
    num_first: usize,
    /// Whether something was no vector of numbers, so that this is not all.
    is_irregular: bool,
}

/// What a call gave.
pub struct Slope<'py> {
    /// As the solver gets it.
    pub object: Bound<'py, PyAny>,
    /// Its numbers, as many as the state has.
    pub row: Option<Row>,
}

impl PyNotedCalls {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exception that leads to another way.
    pub fn refuse(&self, py: Python<'_>, cause: Option<PyErr>) -> PyErr {
        let made = self.refusal.bind(py).call0();
        made.map_or_else(
            |failed| failed,
            |made| {
                let error = PyErr::from_value(made);
                error.set_cause(py, cause);
                error
            },
        )
    }

    /// Calls the function, and notes the call.
    pub fn call<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Slope<'py>> {
        let py = args.py();
        let (at, of) = if self.state_first { (1, 0) } else { (0, 1) };
        let (time, state) = (args.get_item(at)?, args.get_item(of)?);
        let before = row_of(&state);
        let called = self.function.bind(py).call1(args.clone());
        let object = match called {
            Ok(object) => object,
            Err(error) if error.is_instance_of::<PyException>(py) => {
                // What is the user's is raised by the other way.
                return Err(self.refuse(py, Some(error)));
            }
            Err(error) => return Err(error),
        };
        let after = row_of(&state);
        if !is_same(before.as_deref(), after.as_deref()) {
            return Err(self.refuse(py, None));
        }
        let object = match object.cast_exact::<PyTuple>() {
            // Compiled solvers may take its items for several results.
            Ok(items) => items.to_list().into_any(),
            Err(_) => object,
        };
        let mut row = quick_row(&object);
        if row.is_none() {
            if !self.is_plain(&object)? {
                return Err(self.refuse(py, None));
            }
            row = converted(&object)?;
        }
        let row = before.as_deref().and_then(|state| {
            let row = row?;
            match row.len() {
                // A number for all states.
                1 => Some(Row::from_elem(row[0], state.len())),
                n => (n == state.len()).then_some(row),
            }
        });
        self.note(time.extract().ok(), before, row.as_ref());
        Ok(Slope { object, row })
    }

    fn is_plain(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match &self.is_plain {
            Some(_) if PyUntypedArray::is_exact_type_of(object) => Ok(true),
            Some(is_plain) => is_plain.bind(object.py()).call1((object,))?.is_truthy(),
            None => Ok(true),
        }
    }

    fn note(&self, time: Option<f64>, state: Option<Row>, slope: Option<&Row>) {
        let notes = &mut *self.notes();
        notes.called.extend(time);
        let (Some(time), Some(state), Some(slope)) = (time, state, slope) else {
            notes.is_irregular = true;
            return;
        };
        let (count, numbers) = (notes.called.len(), 2 * notes.states.len());
        let is_full = self.most.is_some_and(|most| numbers >= most);
        if is_full && count > SAMPLES && !count.is_power_of_two() {
            return;
        }
        if *notes.size.get_or_insert(state.len()) != state.len() {
            notes.is_irregular = true;
            return;
        }
        if notes.num_first == notes.times.len() && count == notes.num_first + 1 {
            notes.num_first = count;
        }
        notes.times.push(time);
        notes.states.extend_from_slice(&state);
        notes.slopes.extend_from_slice(slope);
    }
}

/// Whether a state holds what it held, bit by bit.
fn is_same(before: Option<&[f64]>, after: Option<&[f64]>) -> bool {
    match (before, after) {
        (Some(a), Some(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
        }
        (None, None) => true,
        _ => false,
    }
}

/// The numbers of what right sides commonly give.
fn quick_row(object: &Bound<'_, PyAny>) -> Option<Row> {
    if let Some(row) = row_of(object) {
        return PyUntypedArray::is_exact_type_of(object).then_some(row);
    }
    if let Ok(items) = object.cast_exact::<PyList>() {
        return items.iter().map(|item| number(&item)).collect();
    }
    number(object).map(|number| Row::from_elem(number, 1))
}

/// The value of a number, of Python or of NumPy.
fn number(object: &Bound<'_, PyAny>) -> Option<f64> {
    let is_number = object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyInt>()
        || dtype_of_scalar(object).ok()? == Some(DType::F64);
    is_number.then(|| object.extract().ok()).flatten()
}

/// The numbers of anything else that NumPy makes an array of.
fn converted(object: &Bound<'_, PyAny>) -> PyResult<Option<Row>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let asarray = ASARRAY.found(py, "numpy", "asarray")?;
    let array = match asarray.call1((object,)) {
        Ok(array) => array,
        Err(error) => {
            raise_interrupt(py, &error)?;
            return Ok(None);
        }
    };
    let Ok(array) = array.cast::<PyUntypedArray>() else {
        return Ok(None);
    };
    if !dtype_of(&array.dtype()).is_ok_and(|dtype| !dtype.is_complex()) {
        return Ok(None);
    }
    let float64 = asarray.call1((array, intern!(py, "float64")))?;
    Ok(row_of(
        &float64.call_method1(intern!(py, "reshape"), (-1,))?,
    ))
}

#[pymethods]
impl PyNotedCalls {
    #[new]
    #[pyo3(signature = (function, refusal, is_plain, state_first, most, raises))]
    fn new(
        function: Py<PyAny>,
        refusal: Py<PyAny>,
        is_plain: Option<Py<PyAny>>,
        state_first: bool,
        most: Option<usize>,
        raises: bool,
    ) -> PyNotedCalls {
        PyNotedCalls {
            function,
            refusal,
            is_plain,
            state_first,
            most,
            raises,
            notes: Mutex::default(),
            refused: OnceLock::new(),
        }
    }

    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        if self.raises {
            return Ok(self.call(args)?.object);
        }
        if self.refused.get().is_none() {
            match self.call(args) {
                Ok(slope) => return Ok(slope.object),
                Err(error) if error.matches(py, self.refusal.bind(py))? => {
                    self.refused.get_or_init(|| error.into_value(py));
                }
                Err(error) => return Err(error),
            }
        }
        let state = args.get_item(usize::from(!self.state_first))?;
        Ok(PyArray1::<f64>::zeros(py, state.len()?, false).into_any())
    }

    /// How often the function was called.
    #[getter]
    fn calls(&self) -> usize {
        self.notes().called.len()
    }

    /// How many calls are noted.
    #[getter]
    pub fn count(&self) -> usize {
        self.notes().times.len()
    }

    /// The exception that compiled code did not stop at, if there was one.
    #[getter]
    fn refused<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyBaseException>> {
        self.refused.get().map(|error| error.bind(py))
    }

    /// The times of all calls.
    fn called<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.notes().called)
    }

    /// Times, states and slopes of the noted calls, states and slopes as rows.
    ///
    /// Raises `refusal` where a state or a slope was no vector of numbers.
    fn noted<'py>(&self, py: Python<'py>) -> PyResult<Noted<'py>> {
        let notes = self.notes();
        if notes.is_irregular {
            drop(notes);
            return Err(self.refuse(py, None));
        }
        let shape = [notes.times.len(), notes.size.unwrap_or(0)];
        Ok((
            PyArray1::from_slice(py, &notes.times),
            PyArray1::from_slice(py, &notes.states).reshape(shape)?,
            PyArray1::from_slice(py, &notes.slopes).reshape(shape)?,
        ))
    }

    /// The right side for a solver that makes the same calls again: slopes are those that are noted, until a call differs.
    fn again(slf: Py<PyNotedCalls>) -> PyRepeatedCalls {
        PyRepeatedCalls {
            calls: slf,
            next: AtomicUsize::new(0),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.refusal)?;
        visit.call(self.refused.get())?;
        self.is_plain.as_ref().map_or(Ok(()), |f| visit.call(f))
    }
}

/// A right side as a solver calls it for the second time.
#[pyclass(frozen, name = "RepeatedCalls", module = "cotan._core")]
pub struct PyRepeatedCalls {
    calls: Py<PyNotedCalls>,
    /// Which call comes next.
    next: AtomicUsize,
}

impl PyRepeatedCalls {
    /// The noted slope, if the call is the next one that is noted.
    fn noted<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = args.py();
        let calls = self.calls.get();
        let (at, of) = if calls.state_first { (1, 0) } else { (0, 1) };
        let (time, state) = (args.get_item(at)?, args.get_item(of)?);
        let (Ok(time), Some(state)) = (time.extract::<f64>(), row_of(&state)) else {
            return Ok(None);
        };
        let i = self.next.load(Ordering::Relaxed);
        let notes = calls.notes();
        if notes.is_irregular || i >= notes.num_first || notes.size != Some(state.len()) {
            return Ok(None);
        }
        let here = i * state.len()..(i + 1) * state.len();
        if notes.times[i].to_bits() != time.to_bits()
            || !is_same(Some(&notes.states[here.clone()]), Some(&state))
        {
            return Ok(None);
        }
        self.next.store(i + 1, Ordering::Relaxed);
        Ok(Some(
            PyArray1::from_slice(py, &notes.slopes[here]).into_any(),
        ))
    }
}

#[pymethods]
impl PyRepeatedCalls {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(slope) = self.noted(args)? {
            return Ok(slope);
        }
        // From here on it goes another way.
        self.next.store(usize::MAX, Ordering::Relaxed);
        self.calls.get().function.bind(args.py()).call1(args)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.calls)
    }
}
