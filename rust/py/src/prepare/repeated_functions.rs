//! Knows the functions that are called again and again: how often each has run, what is recorded of it, and which were met
//! least recently.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::prelude::*;

use crate::prepare::repeated::Repeated;
use crate::prepare::replay_mode::{Mode, mode};
use crate::runtime::exports::exports;
use crate::transforms::automatic_replay::{Call, Wanted};

exports!(forget_repeated_functions, num_automatic_replays);

/// A recording takes about four times as long as a run, and is made after so many.
const RUNS: u32 = 4;
/// After a recording that was not replayed the next one waits longer, up to so many runs.
const MOST_RUNS: u32 = 1 << 12;
/// After so many calls in a row that no recording fits, only some calls look whether one does.
const MISSES: u32 = 8;
/// How many codes are known at most.
const CODES: usize = 256;
/// For how many functions recordings are kept at most.
const FUNCTIONS: usize = 32;
/// The same for functions with one code.
const OF_ONE_CODE: usize = 4;
/// How often the end of a recording asks for the table.
const ATTEMPTS: usize = 1000;

/// What is known of functions with the same code.
struct Known {
    /// Keeps it alive, so that its address names it alone.
    _code: Py<PyAny>,
    /// When it was met last.
    stamp: u64,
    /// How often a function with it has run since the last recording.
    runs: u32,
    /// After how many runs the next recording is made.
    wanted: u32,
    /// How often recordings were replayed since the last one.
    replays: u32,
    /// How many calls there were since the last replay.
    misses: u32,
    /// Whether there was no recording yet.
    is_new: bool,
    /// Whether a thread records it.
    is_busy: bool,
    /// Whether it can be replayed at all.
    is_refused: bool,
    functions: Vec<Arc<Repeated>>,
}

#[derive(Default)]
struct Table {
    /// By the code, and what is asked for.
    by_code: HashMap<(usize, isize), Known>,
    clock: u64,
    num_replays: u64,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// The table; nothing where another thread has it, which may be one that a fork has left behind.
fn table() -> Option<MutexGuard<'static, Option<Table>>> {
    TABLE.try_lock().ok()
}

/// How often a derivative was replayed that nobody had prepared, in this process.
#[pyfunction]
#[pyo3(signature = () -> "int")]
pub fn num_automatic_replays() -> u64 {
    table().map_or(0, |t| t.as_ref().map_or(0, |t| t.num_replays))
}

/// The same, once another thread has done with it.
fn table_of_another() -> Option<MutexGuard<'static, Option<Table>>> {
    (0..ATTEMPTS).find_map(|_| {
        let locked = table();
        if locked.is_none() {
            std::thread::yield_now();
        }
        locked
    })
}

/// Forgets the functions that were run again and again, and their recordings: what they hold is free. What is being recorded
/// is not kept.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn forget_repeated_functions() {
    let all = table_of_another().and_then(|mut table| table.take());
    drop(all);
}

/// Counts one more run of functions with the code of a call.
pub fn count_run(call: &Call<'_, '_>) {
    let dropped = table().and_then(|mut table| {
        let table = table.get_or_insert_default();
        let known = table.known(call);
        known.runs = known.runs.saturating_add(1);
        (table.by_code.len() > CODES).then(|| table.drop_oldest())
    });
    // What goes may run code, which must not find the lock taken.
    drop(dropped);
}

impl Table {
    /// What is known of a code, from now on.
    fn known(&mut self, call: &Call<'_, '_>) -> &mut Known {
        self.clock += 1;
        let stamp = self.clock;
        let known = self.by_code.entry(call.id());
        let known = known.or_insert_with(|| Known {
            _code: call.code.clone().unbind(),
            stamp,
            runs: 0,
            wanted: if mode() == Mode::Always { 0 } else { RUNS },
            replays: 0,
            misses: 0,
            is_new: true,
            is_busy: false,
            is_refused: false,
            functions: Vec::new(),
        });
        known.stamp = stamp;
        known
    }

    /// Takes out the code that was not met for the longest time.
    fn drop_oldest(&mut self) -> Option<Known> {
        let (&id, _) = self.by_code.iter().min_by_key(|(_, known)| known.stamp)?;
        self.by_code.remove(&id)
    }

    /// Takes the functions of the code that was not met for the longest time, of those with some. Many functions may take
    /// turns, so the next recording waits for more runs.
    fn functions_of_oldest(&mut self) -> Vec<Arc<Repeated>> {
        let all = (self.by_code.values_mut()).filter(|known| !known.functions.is_empty());
        let Some(oldest) = all.min_by_key(|known| known.stamp) else {
            return Vec::new();
        };
        oldest.wanted = (2 * oldest.wanted).min(MOST_RUNS);
        oldest.runs = 0;
        std::mem::take(&mut oldest.functions)
    }

    fn num_functions(&self) -> usize {
        self.by_code.values().map(|k| k.functions.len()).sum()
    }
}

/// What is to be done for a call.
pub struct Found {
    /// The function, if it has been recorded.
    pub repeated: Option<Arc<Repeated>>,
    /// Whether it is time for a new recording.
    pub may_record: bool,
}

/// What is known of the function of a call; nothing of one that runs.
pub fn find(call: &Call<'_, '_>, wanted: Wanted) -> Option<Found> {
    let mut table = table()?;
    if mode() == Mode::Always {
        table.get_or_insert_default().known(call);
    }
    let table = table.as_mut()?;
    table.clock += 1;
    let stamp = table.clock;
    let known = table.by_code.get_mut(&call.id())?;
    known.stamp = stamp;
    if known.is_refused {
        return None;
    }
    known.misses = known.misses.saturating_add(1);
    let is_hopeless = known.misses > MISSES && !known.misses.is_power_of_two();
    let may_record = !known.is_busy && known.runs >= known.wanted;
    if is_hopeless && !may_record {
        return None;
    }
    let at = (known.functions.iter()).position(|repeated| repeated.is_of(call, wanted));
    Some(Found {
        repeated: at.map(|at| {
            known.functions[..=at].rotate_right(1);
            Arc::clone(&known.functions[0])
        }),
        may_record,
    })
}

/// Counts one more replay of functions with the code of a call.
pub fn count_replay(call: &Call<'_, '_>) {
    if let Some(mut table) = table()
        && let Some(table) = table.as_mut()
    {
        table.num_replays += 1;
        if let Some(known) = table.by_code.get_mut(&call.id()) {
            known.replays = known.replays.saturating_add(1);
            known.misses = 0;
        }
    }
}

/// What came of a recording.
pub enum Outcome {
    /// It is kept.
    Recorded(Arc<Repeated>),
    /// The function cannot be replayed, and is not tried again.
    Refused,
    /// It was broken off.
    Interrupted,
}

/// Lets this thread record, unless another one does.
pub fn begin(call: &Call<'_, '_>) -> bool {
    let Some(mut table) = table() else {
        return false;
    };
    let known = (table.as_mut()).and_then(|t| t.by_code.get_mut(&call.id()));
    known.is_some_and(|known| !std::mem::replace(&mut known.is_busy, true))
}

/// Ends what [`begin`] has begun.
pub fn end(call: &Call<'_, '_>, outcome: Outcome) {
    let mut functions = Vec::new();
    if let Some(mut table) = table_of_another()
        && let Some(table) = table.as_mut()
    {
        if let Some(known) = table.by_code.get_mut(&call.id()) {
            known.is_busy = false;
            known.begin_count();
            match outcome {
                Outcome::Recorded(made) => {
                    known.functions.retain(|other| !Arc::ptr_eq(other, &made));
                    known.functions.insert(0, made);
                    while known.functions.len() > OF_ONE_CODE {
                        functions.extend(known.functions.pop());
                    }
                }
                Outcome::Refused => {
                    known.is_refused = true;
                    functions.append(&mut known.functions);
                }
                Outcome::Interrupted => {}
            }
        }
        while table.num_functions() > FUNCTIONS {
            functions.append(&mut table.functions_of_oldest());
        }
    }
    // What goes may run code, which must not find the lock taken.
    drop(functions);
}

impl Known {
    /// Begins to count runs towards the next recording.
    fn begin_count(&mut self) {
        if mode() == Mode::Auto {
            let was_worth_it = self.is_new || self.replays >= self.wanted;
            self.wanted = if was_worth_it {
                RUNS
            } else {
                (2 * self.wanted).min(MOST_RUNS)
            };
        }
        self.is_new = false;
        (self.runs, self.replays, self.misses) = (0, 0, 0);
    }
}
