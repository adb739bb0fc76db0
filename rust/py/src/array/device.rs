//! Devices for Python: which there are, which is used, and arrays on them.

use std::sync::Arc;

use cotan::Array;
use cotan::aval::DType;
use cotan::sched::{self, Device, PROCESSOR};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::array::cell::{PyArray, wrap};
use crate::array::escapes::{compute, force, is_on};
use crate::ndarray::dtype::descr;
use crate::ndarray::placement::{placed, set_used, used};
use crate::runtime::error::{OrRaise, enter};
use crate::runtime::exports::exports;
use crate::runtime::text;

exports!(devices, device, used_device, use_device);

/// A device that arrays lie on and programs run on: the processor, or a GPU.
///
/// Two are equal when they are one device; a device is equal to its name, too.
///
/// >>> import cotan as ct
/// >>> ct.device("cpu")
/// Device('cpu')
#[pyclass(frozen, module = "cotan", name = "Device")]
pub struct PyDevice(Option<Arc<dyn Device>>);

impl PyDevice {
    fn known(&self) -> &str {
        self.0.as_ref().map_or(PROCESSOR, |d| d.name())
    }
}

#[pymethods]
impl PyDevice {
    /// Its name: the kind, and for all but the processor a colon and a number.
    #[getter]
    fn name(&self) -> &str {
        self.known()
    }

    /// What it is: the first part of its name.
    #[getter]
    fn kind(&self) -> &str {
        self.known().split(':').next().unwrap_or_default()
    }

    /// The hardware and its driver.
    #[getter]
    fn description(&self) -> String {
        match &self.0 {
            Some(device) => device.description(),
            None => format!(
                "{} threads, {}",
                sched::num_threads(),
                cotan::kernels::level_name()
            ),
        }
    }

    /// The NumPy dtypes that it computes with.
    #[getter]
    fn dtypes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let has = |d: &&DType| self.0.as_ref().is_none_or(|device| device.has(**d));
        let numpy = |d: &&DType| **d != DType::Bf16;
        (DType::ALL.iter().filter(has).filter(numpy))
            .map(|&d| Ok(descr(py, d)?.into_any()))
            .collect()
    }

    /// Bytes that arrays on it take, and bytes of memory that it keeps for later ones; (0, 0) for the processor.
    #[getter]
    fn memory(&self) -> (usize, usize) {
        self.0.as_ref().map_or((0, 0), |device| device.memory())
    }

    /// Limits the bytes that arrays on it may take together with those that it keeps; None leaves it to the driver.
    ///
    /// What does not fit raises `MemoryError`. Raises `ValueError` for the processor.
    #[pyo3(signature = (bytes: "int | None") -> "None")]
    fn set_memory_limit(&self, bytes: Option<usize>) -> PyResult<()> {
        let Some(device) = &self.0 else {
            return Err(PyValueError::new_err(
                "set_memory_limit: the processor has none",
            ));
        };
        device.set_memory_limit(bytes);
        Ok(())
    }

    /// Gives memory that it keeps back to the driver.
    #[pyo3(signature = () -> "None")]
    fn release(&self) {
        if let Some(device) = &self.0 {
            device.release();
        }
    }

    /// Waits until all that was begun on it has ended: for measuring times.
    #[pyo3(signature = () -> "None")]
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        match &self.0 {
            Some(device) => enter(py, |_| device.synchronize()),
            None => Ok(()),
        }
    }

    /// Loses it, as when its driver fails: for tests.
    #[pyo3(signature = () -> "None")]
    fn _lose(&self, py: Python<'_>) {
        if let Some(device) = &self.0 {
            py.detach(|| device.lose());
        }
    }

    fn __repr__(&self) -> String {
        format!("Device({:?})", self.known()).replace('"', "'")
    }

    fn __str__(&self) -> &str {
        self.known()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        if let Ok(other) = other.cast::<PyDevice>() {
            return self.known() == other.get().known();
        }
        other
            .extract::<String>()
            .is_ok_and(|name| name == self.known())
    }

    /// That of its name, which it is equal to.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, self.known()).hash()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let made = py.import("cotan")?.getattr("device")?;
        Ok((made, (self.known().to_owned(),)))
    }
}

/// A device by its name, or the device itself.
pub fn device_from(object: &Bound<'_, PyAny>) -> PyResult<Option<Arc<dyn Device>>> {
    if let Ok(device) = object.cast::<PyDevice>() {
        return Ok(device.get().0.clone());
    }
    let Ok(name) = object.extract::<String>() else {
        return Err(PyTypeError::new_err(format!(
            "a device is its name, such as \"gpu\", or what ct.device gives, not {}",
            text::class_of(object)
        )));
    };
    object.py().detach(|| sched::device(&name)).or_raise()
}

/// The devices of this machine: the processor first, then GPUs.
///
/// >>> import cotan as ct
/// >>> ct.devices()[0]
/// Device('cpu')
#[pyfunction]
#[pyo3(signature = () -> "list[Device]")]
pub fn devices(py: Python<'_>) -> Vec<PyDevice> {
    let others = py.detach(sched::devices);
    let all = others.into_iter().map(|d| PyDevice(Some(d)));
    std::iter::once(PyDevice(None)).chain(all).collect()
}

/// The device of this name: `"cpu"`, `"gpu"` for the first GPU, `"gpu:1"` for the second.
///
/// Raises `ValueError` for another text, `RuntimeError` when there is none, which says why: cotan was built without support,
/// the machine has no driver.
///
/// >>> import cotan as ct
/// >>> ct.device("cpu").kind
/// 'cpu'
#[pyfunction]
#[pyo3(signature = (name: "str | Device") -> "Device")]
pub fn device(name: &Bound<'_, PyAny>) -> PyResult<PyDevice> {
    device_from(name).map(PyDevice)
}

/// The name of the device that the running context uses, if it uses one.
#[pyfunction]
#[pyo3(signature = () -> "str | None")]
pub fn used_device(py: Python<'_>) -> PyResult<Option<String>> {
    used(py)
}

/// Makes the running context use a device.
#[pyfunction]
#[pyo3(signature = (name: "str | None") -> "None")]
pub fn use_device(py: Python<'_>, name: Option<&str>) -> PyResult<()> {
    set_used(py, name)
}

/// The device that an array lies on, or will when it has been computed.
pub fn device_of(cell: &PyArray) -> PyResult<PyDevice> {
    let place = cell.read()?.place();
    let name = place.name();
    Ok(PyDevice(sched::device(&name).or_raise()?))
}

/// A copy of an array on a device; the array itself where it lies there already.
pub fn to_device<'py>(
    slf: &Bound<'py, PyArray>,
    device: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let device = device_from(device)?;
    let name = device.as_ref().map_or(PROCESSOR, |d| d.name());
    let cell = slf.get();
    let array = cell.read()?;
    let place = array.place();
    if place.name() == name && (device.is_some() || array.is_active()) {
        return Ok(slf.clone().into_any());
    }
    if array.is_active() || is_on() {
        return Err(PyTypeError::new_err(format!(
            "to_device: the array depends on an argument that is recorded, on {}, and what is recorded runs on one device; \
             copy the arguments to {name} before the call",
            place.name(),
        )));
    }
    let value = placed(py, compute(py, &array)?, device.as_ref())?;
    wrap(py, Array::constant(value), cell.scalar_kind())
}

/// An array copied to a device, for functions that make arrays.
pub fn made_on(py: Python<'_>, array: Array, device: &Bound<'_, PyAny>) -> PyResult<Array> {
    let device = device_from(device)?;
    if array.is_active() {
        return Err(PyTypeError::new_err(
            "device: some of the values depend on an argument that is recorded; what is recorded runs where its \
             arguments lie",
        ));
    }
    let value = placed(py, force(py, &array)?, device.as_ref())?;
    Ok(Array::constant(value))
}
