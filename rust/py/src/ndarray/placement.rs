//! Which device new arrays are copied to: that which the running context uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cotan::kernels::Value;
use cotan::sched::{self, Device};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::runtime::context_variable::ContextVariable;
use crate::runtime::error::{OrRaise, enter};

/// The name of the device that is used.
static USED: ContextVariable = ContextVariable::new("cotan_device");
/// Whether one has ever been used: otherwise nobody looks.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Whether some context has ever used a device.
#[inline]
pub fn is_used() -> bool {
    IS_SET.load(Ordering::Relaxed)
}

/// The name of the device that the running context uses, if it uses one.
pub fn used(py: Python<'_>) -> PyResult<Option<String>> {
    if !is_used() {
        return Ok(None);
    }
    USED.get(py)?.map(|name| name.extract()).transpose()
}

/// Makes the running context use a device.
pub fn set_used(py: Python<'_>, name: Option<&str>) -> PyResult<()> {
    IS_SET.store(true, Ordering::Relaxed);
    match name {
        Some(name) => USED.set(py, PyString::new(py, name).as_any()),
        None => USED.set(py, py.None().bind(py)),
    }
}

/// A value on a device, or on the processor.
pub fn placed(py: Python<'_>, value: Value, device: Option<&Arc<dyn Device>>) -> PyResult<Value> {
    match device {
        Some(device) => {
            let on = sched::device_of(&value).or_raise()?;
            if on.is_some_and(|on| on.id() == device.id()) {
                return Ok(value);
            }
            enter(py, |_| device.put(&value))
        }
        None => enter(py, |_| {
            let here = sched::copied(&value)?;
            here.storage().set_placed();
            Ok(here)
        }),
    }
}

/// A value on the device that the running context uses, if it uses one and the value lies nowhere else.
#[inline]
pub fn taken_along(py: Python<'_>, value: Value) -> PyResult<Value> {
    if !is_used() || value.is_remote() {
        return Ok(value);
    }
    let Some(name) = used(py)? else {
        return Ok(value);
    };
    match sched::device(&name).or_raise()? {
        Some(device) => placed(py, value, Some(&device)),
        None => Ok(value),
    }
}
