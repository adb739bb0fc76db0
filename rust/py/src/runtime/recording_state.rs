//! Knows what the running context is doing: recording, differentiating, tracing a program, mapping over examples.
//!
//! Layers from the arrays upwards ask this; none of them needs to know who does it.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::runtime::context_variable::ContextVariable;
use crate::runtime::exports::exports;
use pyo3::prelude::*;

exports!(
    call_outside,
    is_anything_recorded,
    is_lifting,
    is_strict,
    is_tracing,
    isderiving,
    may_install,
    nestlevel
);

/// What holds in a context while a block of code runs in it. Blocks nest.
#[pyclass(frozen, module = "cotan._core")]
#[derive(Default)]
pub struct Scope {
    outer: Option<Py<Scope>>,
    state: State,
    /// Whether the block has ended. A context that was copied meanwhile keeps the scope.
    has_ended: AtomicBool,
    /// What user code was refused first in it, if it is a recording.
    pub refusal: Mutex<Option<String>>,
}

/// What a scope says.
#[derive(Clone, Copy)]
pub struct State {
    /// How many recordings go on, whether they differentiate or not.
    pub recordings: usize,
    /// How many of them differentiate.
    pub level: usize,
    /// Whether functions are overridden.
    pub lifts: bool,
    /// Whether `float(x)` is refused for an active `x`.
    pub is_strict: bool,
}

impl State {
    const OUTSIDE: State = State {
        recordings: 0,
        level: 0,
        lifts: true,
        is_strict: false,
    };
}

impl State {
    /// Whether functions are overridden.
    pub fn is_lifting(self) -> bool {
        self.recordings > 0 && self.may_lift()
    }

    /// Whether they may be, in a context that meets what another one records.
    pub fn may_lift(self) -> bool {
        self.lifts && IS_ENABLED.load(Ordering::Relaxed)
    }
}

impl Default for State {
    fn default() -> State {
        State::OUTSIDE
    }
}

static SCOPE: ContextVariable = ContextVariable::new("cotan");

/// How many scopes there are in the process: while there is none, no context is asked.
static SCOPES: AtomicUsize = AtomicUsize::new(0);

/// Whether overrides are installed at all: not under `COTAN_LIFTING=0`.
static IS_ENABLED: AtomicBool = AtomicBool::new(true);

thread_local! {
    /// How many programs are being traced in this thread.
    static TRACING: Cell<usize> = const { Cell::new(0) };
    /// How many functions are being mapped in this thread.
    static MAPPING: Cell<usize> = const { Cell::new(0) };
    /// Dtype and shape of a value that differs between examples and that the innermost of them read.
    static LOOKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The scope that the running context is in.
fn current(py: Python<'_>) -> Option<Bound<'_, Scope>> {
    let found = SCOPE.get(py).ok().flatten()?.cast_into::<Scope>().ok()?;
    let mut scope = found;
    while scope.get().has_ended.load(Ordering::Acquire) {
        scope = scope.get().outer.as_ref()?.bind(py).clone();
    }
    Some(scope)
}

/// What the running context is doing.
#[inline]
pub fn state(py: Python<'_>) -> State {
    if SCOPES.load(Ordering::Relaxed) == 0 {
        return State::OUTSIDE;
    }
    current(py).map_or(State::OUTSIDE, |scope| scope.get().state)
}

/// The same, for code that has no token.
fn state_here() -> State {
    if SCOPES.load(Ordering::Relaxed) == 0 {
        return State::OUTSIDE;
    }
    Python::try_attach(state).unwrap_or_default()
}

/// The scope of the innermost recording that the running context is in.
pub fn innermost_recording(py: Python<'_>) -> Option<Bound<'_, Scope>> {
    recording_around(current(py)?)
}

/// The scope of the recording in which another one was begun.
pub fn outer_recording<'py>(recording: &Bound<'py, Scope>) -> Option<Bound<'py, Scope>> {
    let outer = recording.get().outer.as_ref()?;
    recording_around(outer.bind(recording.py()).clone())
}

/// The recording that a scope is in: blocks that only switch something lie within.
fn recording_around(mut scope: Bound<'_, Scope>) -> Option<Bound<'_, Scope>> {
    let recordings = scope.get().state.recordings;
    while let Some(outer) = &scope.get().outer
        && outer.get().state.recordings == recordings
    {
        scope = outer.bind(scope.py()).clone();
    }
    (recordings > 0).then_some(scope)
}

/// A scope that the running context is in, until this is dropped.
pub struct InScope<'py>(Bound<'py, Scope>);

impl<'py> InScope<'py> {
    /// Enters one, in which another state holds.
    pub fn enter(py: Python<'py>, change: impl FnOnce(&mut State)) -> PyResult<InScope<'py>> {
        let outer = if SCOPES.load(Ordering::Relaxed) == 0 {
            None
        } else {
            current(py)
        };
        let mut state = outer.as_ref().map_or(State::OUTSIDE, |o| o.get().state);
        change(&mut state);
        let scope = Scope {
            outer: outer.map(Bound::unbind),
            state,
            has_ended: AtomicBool::new(false),
            refusal: Mutex::default(),
        };
        let scope = Bound::new(py, scope)?;
        SCOPE.set(py, scope.as_any())?;
        SCOPES.fetch_add(1, Ordering::Relaxed);
        Ok(InScope(scope))
    }

    /// Leaves it to [`end`] to leave the scope.
    pub fn into_scope(self) -> Py<Scope> {
        let scope = self.0.clone().unbind();
        std::mem::forget(self);
        scope
    }
}

impl Drop for InScope<'_> {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Leaves a scope.
pub fn end(scope: &Bound<'_, Scope>) {
    if scope.get().has_ended.swap(true, Ordering::AcqRel) {
        return;
    }
    SCOPES.fetch_sub(1, Ordering::Relaxed);
    let py = scope.py();
    // Another context may run by now: a generator that was begun in one and ends in another. It is not touched.
    let Ok(Some(now)) = SCOPE.get(py) else { return };
    if now.is(scope) {
        let outer = scope.get().outer.as_ref();
        let outer = outer.map_or_else(|| py.None(), |o| o.clone_ref(py).into_any());
        if let Err(error) = SCOPE.set(py, outer.bind(py)) {
            error.write_unraisable(py, None);
        }
    }
}

#[pymethods]
impl Scope {
    /// Enters a scope in which functions are overridden or not, and `float(x)` is refused or not.
    #[staticmethod]
    fn enter(py: Python<'_>, lifts: Option<bool>, is_strict: Option<bool>) -> PyResult<Py<Scope>> {
        let change = |state: &mut State| {
            state.lifts = lifts.unwrap_or(state.lifts);
            state.is_strict = is_strict.unwrap_or(state.is_strict);
        };
        Ok(InScope::enter(py, change)?.into_scope())
    }

    /// Leaves it.
    fn leave(slf: &Bound<'_, Self>) {
        end(slf);
    }
}

/// Calls something as if nothing were recorded or switched.
#[pyfunction]
#[pyo3(signature = (call: "Callable[[], _R]") -> "_R")]
pub fn call_outside<'py>(call: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    outside(call.py(), || call.call0())
}

/// The same.
pub fn outside<T>(py: Python<'_>, call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let Some(scope) = SCOPE.get(py)? else {
        return call();
    };
    SCOPE.set(py, py.None().bind(py))?;
    let result = call();
    SCOPE.set(py, &scope)?;
    result
}

/// In the child of a `fork` there are the scopes of the running context only.
pub fn after_fork_in_child(py: Python<'_>) {
    let mut count = 0;
    let mut next = current(py);
    while let Some(scope) = next {
        count += 1;
        next = scope.get().outer.as_ref().map(|o| o.bind(py).clone());
    }
    SCOPES.store(count, Ordering::Relaxed);
}

/// Lets nothing be overridden in this process.
pub fn disable() {
    IS_ENABLED.store(false, Ordering::Relaxed);
}

/// Whether overrides may be installed for the running context.
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn may_install() -> bool {
    state_here().may_lift()
}

/// How many recordings are going on in this context.
pub fn recordings() -> usize {
    state_here().recordings
}

/// Whether anything is recorded or switched anywhere in the process: entries ask this first.
#[inline]
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn is_anything_recorded() -> bool {
    SCOPES.load(Ordering::Relaxed) > 0
}

/// Whether functions are overridden in this context.
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn is_lifting() -> bool {
    state_here().is_lifting()
}

/// Whether `float(x)` is refused for an active `x`: under `ct.strict()`.
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn is_strict() -> bool {
    state_here().is_strict
}

/// Counts a program that is being traced, until it is dropped.
pub struct Tracing;

impl Tracing {
    /// Counts one more.
    pub fn enter() -> Tracing {
        TRACING.set(TRACING.get() + 1);
        Tracing
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        TRACING.set(TRACING.get() - 1);
    }
}

/// Whether a program is being traced in this thread: what can fail on values fails when it runs.
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn is_tracing() -> bool {
    TRACING.get() > 0
}

/// Whether the running code is being differentiated.
///
/// >>> import cotan as ct
/// >>> ct.isderiving()
/// False
/// >>> ct.gradient(lambda x: x if ct.isderiving() else 0 * x, 2.0)
/// (1.0,)
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn isderiving() -> bool {
    state_here().level > 0
}

/// How deeply the running code is being differentiated: 0 outside any gradient.
#[pyfunction]
#[pyo3(signature = () -> "int")]
pub fn nestlevel() -> usize {
    state_here().level
}

/// Counts a function that is being mapped, until it is dropped.
pub struct Mapping {
    /// What was said to the function around it.
    before: Option<String>,
}

impl Mapping {
    /// Counts one more.
    pub fn enter() -> Mapping {
        MAPPING.set(MAPPING.get() + 1);
        Mapping {
            before: LOOKED.take(),
        }
    }

    /// Dtype and shape of a value that differs between examples, if the innermost one read one.
    pub fn take_looked() -> Option<String> {
        LOOKED.take()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        MAPPING.set(MAPPING.get() - 1);
        LOOKED.replace(self.before.take());
    }
}

/// Remembers that a value was read that is not known: code that catches the error would go on in a way that
/// is right for no example.
pub fn note_unknown(aval: &str) {
    if MAPPING.get() > 0 {
        LOOKED.with_borrow_mut(|looked| {
            looked.get_or_insert_with(|| aval.into());
        });
    }
}

/// Whether a function is being mapped in this thread.
pub fn is_mapping() -> bool {
    MAPPING.get() > 0
}
