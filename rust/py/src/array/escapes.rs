//! Keeps a prepared function correct when values escape from its recording: branches become guards, captured arrays
//! are escapes, and what a replay could not repeat is refused.

use std::cell::RefCell;
use std::collections::HashSet;

use cotan::aval::Kind;
use cotan::kernels::Value;
use cotan::prim::Params;
use cotan::tape;
use cotan::{Array, Recording, ops};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::cell::PyArray;
use crate::ndarray::dtype::dtype_of;
use crate::ndarray::memory::{Borrow, from_ndarray, references, same_elements};
use crate::runtime::error::{NotDifferentiableError, OrRaise, briefly, enter};
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::swallowed_errors;

exports!(
    failed_at,
    differentiated_once,
    is_differentiated,
    is_preparing,
    num_captures,
    capture,
    force_all,
    check_at_end,
    guard_computed,
    is_replayed,
    keep_computed
);

/// An array that decided which way the code took.
pub struct Decision {
    pub array: Array,
    pub value: Value,
    /// The line of the code that read it.
    pub place: String,
}

/// For whom a recording is made that is differentiated once.
#[derive(Clone, Copy, PartialEq)]
pub enum Once {
    /// Who has prepared the function.
    Asked,
    /// Nobody has asked for it, so what takes long to record is left alone.
    Unasked,
}

/// What leaves a recording.
#[derive(Default)]
pub struct Escapes {
    /// Arrays that decided which way the code took.
    pub value_guards: Vec<Decision>,
    /// Which ones these are.
    decided: HashSet<u64>,
    /// What else has to stay as it is: objects with an attribute that is computed when it is read, its name, and its
    /// value.
    pub computed: Vec<(Py<PyAny>, String, Py<PyAny>)>,
    /// The states of the generators of random numbers around each import.
    pub imports: Vec<(Py<PyAny>, Py<PyAny>)>,
    /// Arrays whose computation may fail, which the code wants to know.
    pub roots: Vec<Array>,
    /// Captured ndarrays, and what was in them.
    pub captured_ndarrays: Vec<(Py<PyUntypedArray>, Value)>,
    /// Captured `Array`s that are constant, and which value each was.
    pub captured_arrays: Vec<(Py<PyArray>, u64)>,
    /// Functions that the recorded program calls back.
    pub callbacks: Vec<Py<PyAny>>,
    /// What has to hold when the function has run, or the recording is refused.
    checks: Vec<Py<PyAny>>,
    /// Whether arrays stand for Python numbers that are held constant.
    numbers_vary: bool,
    /// Whether what is recorded is differentiated once.
    once: Option<Once>,
    /// What the code was refused, whether or not it took note.
    failure: Option<PyErr>,
    /// The tag of the recording.
    tag: u64,
}

thread_local! {
    static ESCAPES: RefCell<Option<Escapes>> = const { RefCell::new(None) };
}

/// Notes what happens in this thread, until it is dropped.
pub struct EscapeLog {
    before: Option<Escapes>,
    _history: tape::KeepHistory,
}

impl EscapeLog {
    /// Begins, for what depends on the leaves of a recording; whether some of them stand for Python numbers that are
    /// held constant, and whether it is differentiated once.
    pub fn begin(recording: &Recording, numbers_vary: bool, once: Option<Once>) -> EscapeLog {
        EscapeLog {
            before: ESCAPES.replace(Some(Escapes {
                tag: recording.tag(),
                numbers_vary,
                once,
                ..Escapes::default()
            })),
            _history: tape::KeepHistory::new(recording),
        }
    }

    /// What has left, once the code has run; the error that it was refused something with.
    // It ends here, whatever is returned.
    #[allow(clippy::unused_self)]
    pub fn finish(self, py: Python<'_>) -> PyResult<Escapes> {
        let mut escapes = ESCAPES.replace(None).unwrap_or_default();
        if let Some(error) = escapes.failure.take() {
            return Err(error);
        }
        for check in std::mem::take(&mut escapes.checks) {
            check.call0(py)?;
        }
        for (object, seen) in &escapes.captured_ndarrays {
            if !same_elements(object.bind(py), seen)? {
                return Err(refusal(
                    py,
                    &format!(
                        "the function writes to a plain array of shape {} that it has read before, which a \
                         replay would not repeat; make the array inside the function with zeros_like or ct.array, or \
                         write to a copy",
                        cotan::aval::tuple(seen.shape())
                    ),
                ));
            }
        }
        // What the code made for itself, nobody can write to any more.
        let ndarrays = &mut escapes.captured_ndarrays;
        ndarrays.sort_by_key(|(o, _)| o.as_ptr() as usize);
        ndarrays.dedup_by_key(|(o, _)| o.as_ptr() as usize);
        let arrays = &mut escapes.captured_arrays;
        arrays.sort_by_key(|(o, _)| o.as_ptr() as usize);
        arrays.dedup_by_key(|(o, _)| o.as_ptr() as usize);
        let is_view =
            |object: &Bound<'_, PyUntypedArray>| object.getattr("base").is_ok_and(|b| !b.is_none());
        (escapes.captured_ndarrays)
            .retain(|(o, _)| references(o.bind(py)) > 1 || is_view(o.bind(py)));
        // A view keeps what it is a view of; once it has gone, that may go.
        let mut count = usize::MAX;
        while escapes.captured_arrays.len() < count {
            count = escapes.captured_arrays.len();
            escapes
                .captured_arrays
                .retain(|(o, _)| references(o.bind(py)) > 1);
        }
        Ok(escapes)
    }
}

impl Drop for EscapeLog {
    fn drop(&mut self) {
        let escapes = ESCAPES.replace(self.before.take());
        drop(escapes);
    }
}

/// How much had left at some moment.
pub struct Mark {
    value_guards: usize,
    roots: usize,
    captured_ndarrays: usize,
    captured_arrays: usize,
    callbacks: usize,
    checks: usize,
}

/// Begins to watch a call that may be refused; none where nothing is prepared, or all is refused already.
pub fn mark() -> Option<Mark> {
    ESCAPES.with_borrow(|escapes| {
        let escapes = escapes.as_ref().filter(|e| e.failure.is_none())?;
        Some(Mark {
            value_guards: escapes.value_guards.len(),
            roots: escapes.roots.len(),
            captured_ndarrays: escapes.captured_ndarrays.len(),
            captured_arrays: escapes.captured_arrays.len(),
            callbacks: escapes.callbacks.len(),
            checks: escapes.checks.len(),
        })
    })
}

/// If something was refused since, forgets it and all else that has left since; gives the error.
pub fn take_refusal(mark: &Mark) -> Option<PyErr> {
    let mut dropped = None;
    let error = ESCAPES.with_borrow_mut(|escapes| {
        let escapes = escapes.as_mut()?;
        let error = escapes.failure.take()?;
        for decision in &escapes.value_guards[mark.value_guards..] {
            escapes.decided.remove(&decision.array.id());
        }
        dropped = Some((
            escapes.value_guards.split_off(mark.value_guards),
            escapes.roots.split_off(mark.roots),
            escapes.captured_ndarrays.split_off(mark.captured_ndarrays),
            escapes.captured_arrays.split_off(mark.captured_arrays),
            escapes.callbacks.split_off(mark.callbacks),
            escapes.checks.split_off(mark.checks),
        ));
        Some(error)
    });
    // What goes may run code.
    drop(dropped);
    error
}

/// Refuses again what was taken back.
pub fn refuse_again(py: Python<'_>, error: &PyErr) {
    note(|escapes| {
        escapes.failure.get_or_insert_with(|| error.clone_ref(py));
    });
}

/// Code that runs as if nothing were prepared, until this is dropped: a replay runs it again.
pub struct Suspended(Option<Escapes>);

impl Suspended {
    /// Begins; gives the tag of the recording that is prepared, if there is one.
    pub fn begin() -> (Suspended, Option<u64>) {
        let escapes = ESCAPES.replace(None);
        let tag = escapes.as_ref().map(|e| e.tag);
        (Suspended(escapes), tag)
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        let inner = ESCAPES.replace(self.0.take());
        drop(inner);
    }
}

fn note(write: impl FnOnce(&mut Escapes)) {
    ESCAPES.with_borrow_mut(|escapes| {
        if let Some(escapes) = escapes {
            write(escapes);
        }
    });
}

/// Whether a function is being prepared in this thread.
pub fn is_on() -> bool {
    ESCAPES.with_borrow(Option::is_some)
}

/// The error for what a replay cannot do, which names the line; it is raised at the end too, should
/// the code go on.
pub fn refusal(py: Python<'_>, what: &str) -> PyErr {
    let (place, interrupt) = match place(py) {
        Ok(place) => (place, None),
        Err(error) => (String::new(), Some(error)),
    };
    let error = PyTypeError::new_err(format!("prepare: {place}{what}"));
    note(|escapes| {
        escapes.failure.get_or_insert_with(|| error.clone_ref(py));
    });
    interrupt.unwrap_or(error)
}

/// The error for a value that leaves as a plain number.
pub fn left(py: Python<'_>, what: &str) -> PyErr {
    refusal(
        py,
        &format!(
            "{what} takes the value of an argument out of what is recorded, where a replay cannot follow it; \
             compute with the array itself, branch on it with if or while, look at it with ct.hook or \
             ct.showgrad, make it part of the result, or leave the function unprepared"
        ),
    )
}

/// Whether an array depends on arguments of the function that is being prepared, and no gradient inside it
/// differentiates the array: a replay has to compute it, and that is all.
pub fn is_replayed_only(array: &Array) -> bool {
    keeps_history(array) && !tape::is_differentiated_inside(array)
}

/// Whether an array depends on the arguments of the function that is being prepared.
pub fn keeps_history(array: &Array) -> bool {
    is_on() && tape::keeps_history(array)
}

/// Whether reading an array would lose something: a derivative, or what a replay has to compute. What was
/// detached may be read while a program is traced, although its history is kept there.
pub fn loses_derivative(array: &Array) -> bool {
    array.is_active() && (is_on() || !array.is_detached())
}

/// The value of an array, for code that looks at it.
pub fn force(py: Python<'_>, array: &Array) -> PyResult<Value> {
    if is_on() {
        return leave(py, array);
    }
    compute(py, array)
}

/// The value of an array, computed with the interpreter lock released; a number, that is there sooner than the lock is given
/// away and taken again, with the lock.
pub fn compute(py: Python<'_>, array: &Array) -> PyResult<Value> {
    if array.value().is_none() && array.shape().is_empty() {
        briefly(|_| array.force_at_once())?;
    }
    if let Some(value) = array.value() {
        return Ok(value.clone());
    }
    let value = enter(py, |interrupted| array.force(interrupted).cloned());
    value.inspect_err(|error| failed(error, py, array))
}

/// Computes arrays in one run, those that wait. While a function is prepared nothing is computed, and nothing needs it.
#[pyfunction]
#[pyo3(signature = (arrays: "list[Array]") -> "None")]
pub fn force_all(py: Python<'_>, arrays: Vec<Bound<'_, PyArray>>) -> PyResult<()> {
    if is_on() {
        return Ok(());
    }
    let arrays: Vec<Array> = (arrays.iter())
        .map(|array| array.get().read())
        .collect::<PyResult<_>>()?;
    let waiting: Vec<&Array> = arrays.iter().filter(|a| a.value().is_none()).collect();
    enter(py, |interrupted| Array::force_all(&waiting, interrupted))
}

/// Refuses to lose a derivative in silence.
pub fn refuse_active(py: Python<'_>, array: &Array, what: &str, instead: &str) -> PyResult<()> {
    if is_replayed_only(array) {
        return Err(left(py, what));
    }
    if loses_derivative(array) {
        if hooks::VALUE_IS_DISCARDED.get(py)?.call0()?.is_truthy()? {
            return Ok(());
        }
        let hint: String = hooks::ERROR_HINT.get(py)?.call0()?.extract()?;
        let message = format!(
            "{what} would drop the gradient; {instead}, or ct.dropgrad(x) to drop it on purpose{hint}"
        );
        swallowed_errors::refused(py, &message)?;
        return Err(NotDifferentiableError::new_err(message));
    }
    Ok(())
}

/// The value of an array decides which way the code takes.
pub fn guard(py: Python<'_>, array: &Array) -> PyResult<Value> {
    let value = compute(py, array)?;
    if value.is_remote() {
        enter(py, |_| value.bring_here())?;
    }
    if keeps_history(array) {
        let is_new = ESCAPES.with_borrow_mut(|escapes| {
            let escapes = escapes.as_mut();
            escapes.is_some_and(|escapes| escapes.decided.insert(array.id()))
        });
        if is_new {
            let decision = Decision {
                array: array.clone(),
                value: value.clone(),
                place: place(py)?,
            };
            note(|escapes| escapes.value_guards.push(decision));
        }
    }
    Ok(value)
}

/// A quotient or a power of Python numbers, some of which vary: where it is not finite, Python raises an error or has a
/// complex number instead.
pub fn guard_finite(py: Python<'_>, array: &Array) -> PyResult<()> {
    if !ESCAPES.with_borrow(|escapes| escapes.as_ref().is_some_and(|e| e.numbers_vary)) {
        return Ok(());
    }
    let is_finite = Array::apply(ops::ISFINITE, Params::None, &[array]).or_raise()?;
    if (guard(py, &is_finite)?.item()).is_some_and(|z| z.re == 0.0) {
        return Err(refusal(py, "a quotient or power of numbers is not finite"));
    }
    Ok(())
}

/// The line of the user's code that runs, as the head of a message.
fn place(py: Python<'_>) -> PyResult<String> {
    hooks::PLACE.get(py)?.call0()?.extract()
}

/// The value of an array becomes text. That is refused, unless nobody will read the text: a message that is not logged,
/// or of an error that is not raised.
pub fn shown(py: Python<'_>, array: &Array, what: &str) -> PyResult<()> {
    if !keeps_history(array) {
        return Ok(());
    }
    let found = hooks::CHECK_OF_TEXT.get(py)?.call0()?;
    if found.is_none() {
        return Err(left(py, what));
    }
    note(|escapes| escapes.checks.push(found.unbind()));
    Ok(())
}

/// Runs an import; random numbers that a module draws while it is imported are not the function's.
pub fn while_importing<T>(py: Python<'_>, import: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    if !is_on() {
        return import();
    }
    let states = hooks::GLOBAL_RANDOM_STATES.get(py)?;
    let before = states.call0()?.unbind();
    let result = import();
    let after = states.call0()?.unbind();
    note(|escapes| escapes.imports.push((before, after)));
    result
}

/// The value of an array leaves for Python: integers and booleans as a decision, others not
/// at all.
pub fn leave(py: Python<'_>, array: &Array) -> PyResult<Value> {
    if !keeps_history(array) {
        return compute(py, array);
    }
    if matches!(array.dtype().kind(), Kind::Bool | Kind::Integer) {
        return guard(py, array);
    }
    Err(left(
        py,
        &format!("reading the value of an array ({})", array.aval()),
    ))
}

/// An array is computed for the errors that this may lead to.
pub fn root(array: &Array) {
    if keeps_history(array) {
        note(|escapes| escapes.roots.push(array.clone()));
    }
}

/// An error that depends on values; code that catches it takes a way that nothing guards.
pub fn failed(error: &PyErr, py: Python<'_>, array: &Array) {
    if keeps_history(array) {
        let _ = refusal(
            py,
            &format!(
                "an error that depends on values was raised and caught ({error}), and a replay could not tell \
                 whether it would be raised again; leave the function unprepared"
            ),
        );
    }
}

/// What had been noted before code ran whose arrays end with it: a step of a loop that is traced.
pub struct Attempt {
    had_failed: bool,
    roots: usize,
}

impl Attempt {
    /// Begins one.
    pub fn begin() -> Attempt {
        ESCAPES.with_borrow(|log| Attempt {
            had_failed: log.as_ref().is_some_and(|log| log.failure.is_some()),
            roots: log.as_ref().map_or(0, |log| log.roots.len()),
        })
    }

    /// Forgets what was refused meanwhile, and what was to be computed for its errors; whether something was
    /// refused.
    pub fn end(self) -> bool {
        ESCAPES.with_borrow_mut(|log| {
            let Some(log) = log else { return false };
            log.roots.truncate(self.roots);
            let has_failed = !self.had_failed && log.failure.is_some();
            if has_failed {
                log.failure = None;
            }
            has_failed
        })
    }
}

/// [`failed`] of code outside of this module.
#[pyfunction]
#[pyo3(name = "failed", signature = (error: "BaseException", x: "Array") -> "None")]
pub fn failed_at(error: &Bound<'_, PyAny>, x: &Bound<'_, PyArray>) -> PyResult<()> {
    failed(&PyErr::from_value(error.clone()), x.py(), &x.get().read()?);
    Ok(())
}

/// A function that will be called in each run: what it does to the outside is its own affair.
pub fn called(function: &Bound<'_, PyAny>) {
    note(|escapes| escapes.callbacks.push(function.clone().unbind()));
}

/// An ndarray was read, from wherever the function has it; gives the value to compute with.
pub fn capture_ndarray(object: &Bound<'_, PyUntypedArray>, value: Value) -> PyResult<Value> {
    if !is_on() {
        return Ok(value);
    }
    // What is read-only now may be made writable again.
    let value = crate::ndarray::memory::kept(object.py(), &value)?;
    let captured = (object.clone().unbind(), value.clone());
    note(|escapes| escapes.captured_ndarrays.push(captured));
    Ok(value)
}

/// The same for an `Array`.
pub fn capture_array(object: &Bound<'_, PyArray>, array: &Array) {
    if is_on() && array.tag() == 0 {
        let captured = (object.clone().unbind(), array.id());
        note(|escapes| escapes.captured_arrays.push(captured));
    }
}

/// Lets a function check, once what is prepared has run, that a replay will be right: it raises where that is not so.
#[pyfunction]
#[pyo3(signature = (check: "Callable[[], object]") -> "None")]
pub fn check_at_end(check: Py<PyAny>) {
    note(|escapes| escapes.checks.push(check));
}

/// Guards an attribute of an object that is computed when it is read; its name is the source.
#[pyfunction]
#[pyo3(signature = (owner: "object", source: "str") -> "None")]
pub fn guard_computed(owner: &Bound<'_, PyAny>, source: String) -> PyResult<()> {
    let value = owner.getattr(&*source)?.unbind();
    let owner = owner.clone().unbind();
    note(|escapes| escapes.computed.push((owner, source, value)));
    Ok(())
}

/// Whether a function is being prepared and an array depends on its arguments, so that replays compute it.
#[pyfunction]
#[pyo3(signature = (x: "object") -> "bool")]
pub fn is_replayed(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    match x.cast::<PyArray>() {
        Ok(array) if is_on() => Ok(keeps_history(&array.get().read()?)),
        _ => Ok(false),
    }
}

/// Whether the function that is being prepared is differentiated with respect to an array.
#[pyfunction]
#[pyo3(signature = (x: "Array") -> "bool")]
pub fn is_differentiated(x: &Bound<'_, PyArray>) -> PyResult<bool> {
    Ok(is_on() && tape::is_differentiated_inside(&x.get().read()?))
}

/// Whether replays of the function that is being prepared are asked for, where they give first derivatives of what is
/// recorded; None where they give anything else, or may be differentiated themselves.
#[pyfunction]
#[pyo3(signature = () -> "bool | None")]
pub fn differentiated_once() -> Option<bool> {
    let once = ESCAPES.with_borrow(|escapes| escapes.as_ref().and_then(|e| e.once));
    once.map(|once| once == Once::Asked)
}

/// Lets each replay compute an array for the errors that this may lead to, whether or not a result depends on it.
#[pyfunction]
#[pyo3(signature = (x: "Array") -> "None")]
pub fn keep_computed(x: &Bound<'_, PyArray>) -> PyResult<()> {
    x.get().read().map(|x| root(&x))
}

/// Whether a function is being prepared in this thread.
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn is_preparing() -> bool {
    is_on()
}

/// How often an ndarray was captured: so many references to it are the log's.
#[pyfunction]
#[pyo3(name = "num_met", signature = (x: "object") -> "int")]
pub fn num_captures(x: &Bound<'_, PyAny>) -> usize {
    ESCAPES.with_borrow(|escapes| {
        let arrays = escapes.iter().flat_map(|n| &n.captured_ndarrays);
        arrays.filter(|(object, _)| object.is(x)).count()
    })
}

/// Notes an ndarray that code outside of this module has read as captured.
#[pyfunction]
#[pyo3(name = "meet", signature = (x: "object") -> "None")]
pub fn capture(x: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(array) = x.cast::<PyUntypedArray>()
        && is_on()
        && dtype_of(&array.dtype()).is_ok()
    {
        capture_ndarray(array, from_ndarray(array, Borrow::Copy)?)?;
    }
    Ok(())
}
