//! One application of a program: its calls are its own, and what it calls back is called once,
//! although several runs, perhaps of several threads, need what that gives.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::kernels::Value;
use crate::prim::Host;
use crate::program::Program;

/// A program for one application of it.
pub(crate) fn application(program: &Program) -> Program {
    let mut program = program.clone();
    program.renew_calls(|call| {
        Arc::new(Once {
            call: call.bare().unwrap_or_else(|| Arc::clone(call)),
            state: Mutex::default(),
            done: Condvar::new(),
        })
    });
    program
}

/// How long a thread that waits for another one's call does not look whether it is to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Which thread waits for a call that which other one makes.
static WAITING: Mutex<Vec<(ThreadId, ThreadId)>> = Mutex::new(Vec::new());

/// No panic happens while one of these is held, so what is in it is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the list of those that wait still while a `fork` copies it.
pub(crate) fn lock_waiting() -> impl Sized {
    lock(&WAITING)
}

/// A thread that waits for another one, until it is dropped.
struct Waiting;

impl Waiting {
    /// Begins, unless the other one waits for this one, if only in a roundabout way.
    fn begin(other: ThreadId) -> Option<Waiting> {
        let own = thread::current().id();
        let mut waiting = lock(&WAITING);
        let mut last = other;
        while last != own {
            let Some(&(_, next)) = waiting.iter().find(|(a, _)| *a == last) else {
                waiting.push((own, other));
                return Some(Waiting);
            };
            last = next;
        }
        None
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let own = thread::current().id();
        lock(&WAITING).retain(|(a, _)| *a != own);
    }
}

/// A call that is not repeated for the same values.
struct Once {
    call: Arc<dyn Host>,
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// What it was given last, and what came of it.
    last: Option<(Vec<Value>, Vec<Value>)>,
    /// The thread that calls it.
    caller: Option<ThreadId>,
}

impl State {
    fn known(&self, x: &[Value]) -> Option<Vec<Value>> {
        let (known, outs) = self.last.as_ref()?;
        let same = known.len() == x.len() && known.iter().zip(x).all(|(a, b)| a.same_bits(b));
        same.then(|| outs.clone())
    }
}

/// A call that is being made: over when it is dropped, also by an error.
struct Turn<'a>(&'a Once);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).caller = None;
        self.0.done.notify_all();
    }
}

impl Once {
    /// What is known for these values, or the right to find out; neither where waiting would not end,
    /// because the caller is this thread or waits for it.
    fn turn(&self, x: &[Value]) -> Result<(Option<Vec<Value>>, Option<Turn<'_>>)> {
        let mut state = lock(&self.state);
        loop {
            if let Some(outs) = state.known(x) {
                return Ok((Some(outs), None));
            }
            let Some(caller) = state.caller else {
                state.caller = Some(thread::current().id());
                return Ok((None, Some(Turn(self))));
            };
            let Some(waiting) = Waiting::begin(caller) else {
                return Ok((None, None));
            };
            state = (self.done.wait_timeout(state, PATIENCE))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            drop(waiting);
            if state.caller.is_some() {
                drop(state);
                if interrupt::asked() {
                    return Err(Error::Interrupted);
                }
                state = lock(&self.state);
            }
        }
    }
}

impl Host for Once {
    fn name(&self) -> &str {
        self.call.name()
    }

    fn outputs(&self) -> &[Aval] {
        self.call.outputs()
    }

    fn call(&self, x: &[Value]) -> Result<Vec<Value>> {
        let (known, turn) = self.turn(x)?;
        if let Some(outs) = known {
            return Ok(outs);
        }
        let outs = self.call.call(x)?;
        if turn.is_some() {
            lock(&self.state).last = Some((x.to_vec(), outs.clone()));
        }
        Ok(outs)
    }

    fn derivative(&self, x: &[Aval]) -> Result<Arc<dyn Host>> {
        self.call.derivative(x)
    }

    fn bare(&self) -> Option<Arc<dyn Host>> {
        Some(Arc::clone(&self.call))
    }
}
