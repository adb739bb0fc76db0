//! Where a plan runs: on the device that its inputs lie on.

use std::sync::Arc;

use super::device::{Device, PROCESSOR, numbered};
use super::plan::Plan;
use super::profile::{Phase, note, timed};
use super::run::run_to as run_here;
use crate::error::{Error, Result};
use crate::kernels::Value;
use crate::program::Program;

/// Where an array lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the processor, and nobody asked for that: it goes where others are.
    Anywhere,
    /// On the processor, because somebody asked for it.
    Processor,
    /// On the device with this number.
    Device(u32),
}

impl Place {
    /// That of a value.
    #[inline]
    pub fn of(value: &Value) -> Place {
        let storage = value.storage();
        match storage.as_remote() {
            Some(memory) => Place::Device(memory.device()),
            None if storage.is_placed() => Place::Processor,
            None => Place::Anywhere,
        }
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Place::Anywhere | Place::Processor => PROCESSOR.into(),
            Place::Device(id) => numbered(id).map_or_else(
                |_| format!("device number {id}"),
                |device| device.name().to_owned(),
            ),
        }
    }

    /// That of something made of two; `None` where these are on two devices.
    fn with(self, other: Place) -> Option<Place> {
        match (self, other) {
            (Place::Anywhere, place) | (place, Place::Anywhere) => Some(place),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// Runs a plan where its inputs lie. `interrupted` is asked now and then, on the calling thread, whether to stop.
pub fn run(
    plan: &Plan,
    inputs: Vec<Value>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    run_to(plan, inputs, &[], interrupted)
}

/// The same with memory for the first results, of which only the processor makes use.
pub(super) fn run_to(
    plan: &Plan,
    inputs: Vec<Value>,
    targets: &[Option<Value>],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    if inputs.iter().all(|v| Place::of(v) == Place::Anywhere) {
        return run_here(plan, inputs, targets, interrupted);
    }
    match common(plan, &inputs)? {
        Place::Device(id) => run_there(plan, &*numbered(id)?, inputs, interrupted),
        place => {
            let results = run_here(plan, inputs, targets, interrupted)?;
            if place == Place::Processor {
                for value in &results {
                    value.storage().set_placed();
                }
            }
            Ok(results)
        }
    }
}

fn run_there(
    plan: &Plan,
    device: &dyn Device,
    inputs: Vec<Value>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    let own = {
        let _timed = timed(Phase::Plan);
        plan.for_devices()?
    };
    note(|counts| {
        counts.runs += 1;
        counts.add_equations(own.counts());
    });
    let _timed = timed(Phase::Run);
    device.run(&own, inputs, interrupted)
}

/// The place of all inputs.
fn common(plan: &Plan, inputs: &[Value]) -> Result<Place> {
    let mut place = Place::Anywhere;
    for input in inputs {
        place = match place.with(Place::of(input)) {
            Some(place) => place,
            None => return Err(Error::Device(meeting(plan.source.as_ref(), inputs))),
        };
    }
    Ok(place)
}

/// The message for arrays of two devices: it names the operation that they meet in.
fn meeting(program: Option<&Program>, inputs: &[Value]) -> String {
    let say = |operation: &str, a: Place, b: Place| {
        format!(
            "{operation}: its arguments are on two devices, {} and {}; copy one of them with to_device",
            a.name(),
            b.name()
        )
    };
    let mut places: Vec<Place> = inputs.iter().map(Place::of).collect();
    if let Some(program) = program.filter(|p| p.num_inputs() == inputs.len()) {
        for eqn in program.eqns() {
            let mut own = Place::Anywhere;
            for &arg in program.args(eqn) {
                let place = places[arg as usize];
                match own.with(place) {
                    Some(both) => own = both,
                    None => return say(eqn.prim.name(), own, place),
                }
            }
            places.push(own);
        }
    }
    // They meet nowhere: what is asked for at once is computed at once, and on one device.
    let mut placed = places.into_iter().filter(|p| *p != Place::Anywhere);
    let first = placed.next().unwrap_or(Place::Anywhere);
    let other = placed.find(|p| *p != first).unwrap_or(first);
    say("a program", first, other)
}

/// The device that a value lies on; `None` for the processor.
///
/// # Errors
/// When it is not there any more.
pub fn device_of(value: &Value) -> Result<Option<Arc<dyn Device>>> {
    match Place::of(value) {
        Place::Device(id) => numbered(id).map(Some),
        _ => Ok(None),
    }
}
