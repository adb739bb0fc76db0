//! Devices that run plans besides the processor, and where they come from.
//!
//! A backend is a crate that depends on this one: it implements [`Backend`] and [`Device`], and is registered when the
//! process starts. Nothing else asks which device it is.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::device_plan::DevicePlan;
use crate::aval::DType;
use crate::error::{Error, Result};
use crate::kernels::Value;

/// The name of the processor, which is no [`Device`].
pub const PROCESSOR: &str = "cpu";

/// A device.
pub trait Device: Send + Sync + fmt::Debug {
    /// Its number, which no other device of the process has.
    fn id(&self) -> u32;
    /// Its name: the kind, a colon, and which of that kind it is.
    fn name(&self) -> &str;
    /// What it is, for people: the hardware and its driver.
    fn description(&self) -> String;
    /// Whether it computes with a dtype.
    fn has(&self, dtype: DType) -> bool;
    /// Copies a value to it.
    ///
    /// # Errors
    /// When it does not have the dtype or the memory, or was lost.
    fn put(&self, value: &Value) -> Result<Value>;
    /// Runs a plan. Inputs that lie on the processor are copied to the device; results lie there.
    ///
    /// # Errors
    /// Those of the steps, [`Error::Device`], [`Error::Memory`] and [`Error::Interrupted`].
    fn run(
        &self,
        plan: &DevicePlan,
        inputs: Vec<Value>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Value>>;
    /// Waits until all that was begun has ended.
    ///
    /// # Errors
    /// When the device was lost.
    fn synchronize(&self) -> Result<()>;
    /// Bytes that arrays on it take, and bytes that are kept for later ones.
    fn memory(&self) -> (usize, usize);
    /// Limits the bytes that arrays on it may take, with those that are kept; `None` leaves it to the driver.
    fn set_memory_limit(&self, bytes: Option<usize>);
    /// Gives memory that is kept back to the driver.
    fn release(&self);
    /// Loses the device, as when its driver fails: for tests.
    fn lose(&self);
}

/// Where devices of a kind come from.
pub trait Backend: Send + Sync {
    /// The kind: the first part of their names.
    fn kind(&self) -> &'static str;
    /// The devices, always in the same order; the error says why there is none.
    ///
    /// # Errors
    /// When the driver fails.
    fn devices(&self) -> Result<Vec<Arc<dyn Device>>>;
}

static BACKENDS: Mutex<Vec<Arc<dyn Backend>>> = Mutex::new(Vec::new());

fn backends() -> MutexGuard<'static, Vec<Arc<dyn Backend>>> {
    BACKENDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the devices of a backend known, in place of an earlier one of its kind.
pub fn register_backend(backend: Arc<dyn Backend>) {
    let mut backends = backends();
    backends.retain(|b| b.kind() != backend.kind());
    backends.push(backend);
}

/// Holds the list of backends still while a `fork` copies it.
pub(super) fn lock_backends() -> impl Sized {
    backends()
}

/// All devices but the processor. A backend that fails has none.
pub fn devices() -> Vec<Arc<dyn Device>> {
    let all: Vec<Arc<dyn Backend>> = backends().clone();
    let found = all.iter().filter_map(|b| b.devices().ok());
    found.flatten().collect()
}

/// The device of this name, or the first of this kind; `None` for the processor.
///
/// # Errors
/// [`Error::DeviceName`] for another text, [`Error::Device`], which says why there is none.
pub fn device(name: &str) -> Result<Option<Arc<dyn Device>>> {
    let (kind, number) = match name.split_once(':') {
        Some((kind, number)) => (kind, number.parse::<usize>().ok()),
        None => (name, Some(0)),
    };
    let say = |why: &str| format!("device {name:?}: {why}");
    let missing = |why: String| Err(Error::Device(say(&why)));
    let Some(number) = number else {
        return Err(Error::DeviceName(say(
            "behind the colon there is the number of a device, as in \"gpu:0\"",
        )));
    };
    if kind == PROCESSOR {
        return match number {
            0 => Ok(None),
            _ => missing("there is one processor, \"cpu\"".into()),
        };
    }
    let backend = backends().iter().find(|b| b.kind() == kind).cloned();
    let Some(backend) = backend else {
        if kind != "gpu" {
            return Err(Error::DeviceName(say(
                "there is no such kind of device; there are \"cpu\" and \"gpu\"",
            )));
        }
        return missing("cotan was built without support for GPUs (the feature wgpu)".into());
    };
    let found = match backend.devices() {
        Ok(found) => found,
        Err(error) => return missing(error.to_string()),
    };
    let count = found.len();
    match found.into_iter().nth(number) {
        Some(device) => Ok(Some(device)),
        None if count == 0 => missing("no driver of this machine offers one".into()),
        None => missing(format!("there are {count} of that kind")),
    }
}

/// The device with this number.
pub(super) fn numbered(id: u32) -> Result<Arc<dyn Device>> {
    (devices().into_iter().find(|d| d.id() == id))
        .ok_or_else(|| Error::Device(format!("device number {id} is not there any more")))
}
