//! Decides what happens when a callable of another library is called while something is recorded.
//!
//! Each kind of callable has a field by which the interpreter calls it, and the files `slot_*.rs` lead that field here,
//! once and for all. A call asks one flag first, whether anything is recorded in this process, and goes on to the
//! library's own entry where nothing is. In a context that records, an override may compute it.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use numpy::PyUntypedArray;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyFloat, PyInt, PyString, PyTuple, PyType};

use crate::array::escapes;
use crate::interpose::caller::{Package, calling_package, is_called_by_user_code};
use crate::interpose::contains_array::contains_active;
use crate::interpose::install::install_overrides;
use crate::interpose::replayable;
use crate::interpose::slot::{Arguments, Override, Vectorcall, When, guarded};
use crate::runtime::recording_state::{InScope, State, is_anything_recorded, state};

/// What is known of one callable.
pub struct Entry {
    /// The callable, which is kept alive.
    pub callable: Py<PyAny>,
    /// What the interpreter called before; 0 where it takes the slow way, by a tuple.
    pub own: usize,
    /// That way, past the entry.
    slow: SlowCall,
    /// The overrides; another list takes the place of this one, which is never freed.
    cases: AtomicPtr<Vec<&'static Case>>,
    /// Whether a call without an array, a list or an object of another library may be overridden.
    looks_further: AtomicBool,
    /// Whether arguments alone may lead to an override, in contexts that record nothing, too.
    looks_at_arguments: AtomicBool,
}

/// Calls a callable with a tuple and keywords, past its entry.
///
/// # Safety
///
/// The object is a callable of the kind that the function is for.
pub type SlowCall = for<'py> unsafe fn(
    Python<'py>,
    *mut PyObject,
    &Bound<'py, PyTuple>,
    Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>>;

/// One override of a callable. Methods have several, for different classes.
pub struct Case {
    pub receiver: Option<Receiver>,
    pub policy: Policy,
}

/// Whose method is overridden, where the callable is shared by others.
pub enum Receiver {
    /// This object's: the override is called without it.
    Object(Py<PyAny>),
    /// That of the instances of a class.
    Class(Py<PyType>),
}

/// When an override computes a call.
pub enum Policy {
    /// By the arguments alone.
    Arguments(Override),
    /// By the arguments and by the caller.
    Caller {
        user: Py<PyAny>,
        library: ForLibraries,
        /// Where it matters whether user code calls it itself: what libraries make is memory that they write to.
        is_creator: bool,
        package: String,
    },
    /// Of a function that NumPy dispatches by its arguments: where one is no plain array or number.
    Dispatched(Py<PyAny>),
    /// Nothing is recorded while a module is imported.
    Import,
}

/// What libraries get.
pub enum ForLibraries {
    /// The same as user code.
    Same,
    /// The original.
    Original,
    /// A rule for active arguments; the original where compiled code asks for memory.
    Rule {
        function: Py<PyAny>,
        for_memory: bool,
    },
}

// --------------------------------------------------------------------------------------------------
// The table of entries

const SLOTS: usize = 1 << 14;

/// Entries by the address of their callable: read without a lock, since every call of a class reads it.
static KEYS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
static VALUES: [AtomicPtr<Entry>; SLOTS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS];
static COUNT: Mutex<usize> = Mutex::new(0);

fn first_slot(address: usize) -> usize {
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS as usize - 14)
}

/// The entry of a callable.
#[inline]
pub fn find(callable: *mut PyObject) -> Option<&'static Entry> {
    find_at(callable as usize)
}

/// The entry of the objects of a class, which are called through it.
pub fn find_for_objects(class: *mut ffi::PyTypeObject) -> Option<&'static Entry> {
    find_at(key_for_objects(class))
}

/// No callable has an odd address.
pub fn key_for_objects(class: *mut ffi::PyTypeObject) -> usize {
    class as usize | 1
}

#[inline]
fn find_at(address: usize) -> Option<&'static Entry> {
    let mut at = first_slot(address);
    loop {
        match KEYS[at].load(Ordering::Acquire) {
            0 => return None,
            key if key == address => {
                // SAFETY: entries are never freed, and are written before their keys.
                return unsafe { VALUES[at].load(Ordering::Acquire).as_ref() };
            }
            _ => at = (at + 1) % SLOTS,
        }
    }
}

/// The entry of a callable, which is made with what `own` finds where there is none.
pub fn find_or_add(
    address: usize,
    callable: &Bound<'_, PyAny>,
    slow: SlowCall,
    own: impl FnOnce() -> PyResult<usize>,
) -> PyResult<(&'static Entry, bool)> {
    if let Some(entry) = find_at(address) {
        return Ok((entry, false));
    }
    let own = own()?;
    let mut count = (COUNT.lock_py_attached(callable.py())).unwrap_or_else(PoisonError::into_inner);
    if *count >= SLOTS / 2 {
        return Err(PyMemoryError::new_err("too many functions are overridden"));
    }
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        callable: callable.clone().unbind(),
        own,
        slow,
        cases: AtomicPtr::new(Box::leak(Box::default())),
        looks_further: AtomicBool::new(false),
        looks_at_arguments: AtomicBool::new(false),
    }));
    let mut at = first_slot(address);
    while KEYS[at].load(Ordering::Relaxed) != 0 {
        at = (at + 1) % SLOTS;
    }
    VALUES[at].store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
    KEYS[at].store(address, Ordering::Release);
    *count += 1;
    Ok((entry, true))
}

// --------------------------------------------------------------------------------------------------
// Calls

thread_local! {
    /// The entries whose overrides run in this thread: what cotan's own code calls again is the original.
    static RUNNING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

struct Running;

impl Running {
    fn of(entry: &Entry) -> Running {
        RUNNING.with_borrow_mut(|all| all.push(std::ptr::from_ref(entry) as usize));
        Running
    }

    fn contains(entry: &Entry) -> bool {
        RUNNING.with_borrow(|all| all.contains(&(std::ptr::from_ref(entry) as usize)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}

impl Entry {
    /// What an override computes, as the interpreter expects it: a new reference, or null with an error. `None` where
    /// the call is the library's own.
    #[inline]
    pub fn answer(&self, args: Arguments<'_>) -> Option<*mut PyObject> {
        if !is_anything_recorded() || self.is_beside(args) {
            return None;
        }
        // Beside a context that records, a call is the library's own again after this look.
        let state = state(args.py());
        (self.may_answer_in(state)).then(|| self.answer_recorded(args, state))?
    }

    /// Whether an override may compute a call in the running context, whatever its arguments are.
    #[inline]
    pub fn may_answer(&self, py: Python<'_>) -> bool {
        is_anything_recorded() && self.may_answer_in(state(py))
    }

    fn may_answer_in(&self, state: State) -> bool {
        state.is_lifting() || (self.looks_at_arguments.load(Ordering::Relaxed) && state.may_lift())
    }

    /// Whether the arguments alone say that no override computes the call.
    #[inline]
    fn is_beside(&self, args: Arguments<'_>) -> bool {
        // SAFETY: the arguments are alive while the call goes on.
        let mut plain = args
            .pointers()
            .iter()
            .map(|&x| unsafe { is_number_or_text(x) });
        !self.looks_further.load(Ordering::Relaxed) && plain.all(|is_one| is_one)
    }

    /// The same question as that of `may_answer`, with a look at the arguments, in a tuple and a dictionary or null.
    ///
    /// # Safety
    ///
    /// They are alive, and the thread attached.
    pub unsafe fn may_answer_tuple(
        &self,
        py: Python<'_>,
        args: *mut PyObject,
        named: *mut PyObject,
    ) -> bool {
        if !is_anything_recorded() {
            return false;
        }
        let looks_further = if state(py).is_lifting() {
            self.looks_further.load(Ordering::Relaxed)
        } else if self.looks_at_arguments.load(Ordering::Relaxed) {
            // Rules that always apply look for active arguments there.
            false
        } else {
            return false;
        };
        let is_plain = |item: *mut PyObject| unsafe {
            // SAFETY: says the caller.
            is_number_or_text(item)
                || Bound::from_borrowed_ptr(py, item).is_exact_instance_of::<PyUntypedArray>()
        };
        // SAFETY: says the caller; a tuple has so many items.
        let is_beside = named.is_null()
            && unsafe {
                (0..ffi::PyTuple_Size(args)).all(|i| is_plain(ffi::PyTuple_GetItem(args, i)))
            };
        looks_further || !is_beside
    }

    fn cases(&self) -> &'static [&'static Case] {
        // SAFETY: it is one that was leaked.
        unsafe { &*self.cases.load(Ordering::Acquire) }
    }

    #[inline(never)]
    fn answer_recorded(&self, args: Arguments<'_>, state: State) -> Option<*mut PyObject> {
        match guarded(args.py(), || self.computed(args, state)) {
            None => Some(std::ptr::null_mut()),
            Some(Some(result)) => Some(result.into_ptr()),
            Some(None) => None,
        }
    }

    fn computed(&self, args: Arguments<'_>, state: State) -> PyResult<Option<Py<PyAny>>> {
        let lifting = state.is_lifting();
        for case in self.cases() {
            let Some(args) = case.receives(args)? else {
                continue;
            };
            return match &case.policy {
                Policy::Arguments(rule) => by_arguments(rule, args, state),
                _ if !lifting => Ok(None),
                Policy::Caller {
                    user,
                    library,
                    is_creator,
                    package,
                } => {
                    let receiver = case.receiver.as_ref();
                    self.by_caller(receiver, user, library, *is_creator, package, args)
                }
                Policy::Dispatched(function) => self.dispatched(function, args),
                Policy::Import => self.import(args),
            };
        }
        Ok(None)
    }

    fn by_caller(
        &self,
        receiver: Option<&Receiver>,
        user: &Py<PyAny>,
        library: &ForLibraries,
        is_creator: bool,
        package: &str,
        args: Arguments<'_>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = args.py();
        let caller = calling_package(py)?;
        let is_user = match &caller {
            Package::Cotan => {
                if Running::contains(self) {
                    return Ok(None);
                }
                false
            }
            Package::User => {
                let receiver = match receiver {
                    Some(Receiver::Object(object)) => Some(object.bind(py)),
                    _ => None,
                };
                !is_creator || is_called_by_user_code(py, self.callable.bind(py), receiver)?
            }
            Package::Library(_) => false,
        };
        let is_native = !is_user && matches!(caller, Package::User);
        let function = if is_user {
            user
        } else {
            match library {
                ForLibraries::Same => {
                    let is_own = matches!(&caller, Package::Library(name) if **name == *package);
                    // Its own code computes with ndarrays, unless it was handed something else.
                    if is_own && !contains_any_active(args)? {
                        return Ok(None);
                    }
                    user
                }
                ForLibraries::Original => return Ok(None),
                ForLibraries::Rule {
                    for_memory: true, ..
                } if is_native => return Ok(None),
                ForLibraries::Rule { function, .. } => {
                    if !contains_any_active(args)? {
                        return Ok(None);
                    }
                    function
                }
            }
        };
        self.call_override(function, args)
    }

    fn dispatched(&self, function: &Py<PyAny>, args: Arguments<'_>) -> PyResult<Option<Py<PyAny>>> {
        let may_answer = args.all().any(|argument| {
            !(argument.is_exact_instance_of::<PyUntypedArray>()
                || argument.is_none()
                || argument.is_exact_instance_of::<PyFloat>()
                || argument.is_exact_instance_of::<PyInt>()
                || argument.is_exact_instance_of::<PyString>())
        });
        if !may_answer || Running::contains(self) {
            return Ok(None);
        }
        self.call_override(function, args)
    }

    fn call_override(
        &self,
        function: &Py<PyAny>,
        args: Arguments<'_>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = args.py();
        let _running = Running::of(self);
        let given = PyTuple::new(py, args.by_position())?;
        let result = replayable::call(function.bind(py), &given, args.by_keyword()?.as_ref())?;
        let declined = result.is(py.NotImplemented().bind(py));
        Ok((!declined).then(|| result.unbind()))
    }

    /// Imports a module as if nothing were recorded, and installs the overrides of what has been imported.
    fn import(&self, args: Arguments<'_>) -> PyResult<Option<Py<PyAny>>> {
        let py = args.py();
        let _suspended = InScope::enter(py, |state| state.recordings = 0)?;
        let given = PyTuple::new(py, args.by_position())?;
        let kwargs = args.by_keyword()?;
        let import = || self.call_original(&given, kwargs.as_ref());
        let result = escapes::while_importing(py, import)?;
        install_overrides(py)?;
        Ok(Some(result.unbind()))
    }

    /// The same for an entry that gets its arguments side by side, of a callable that the interpreter calls by a tuple.
    pub fn call_by_tuple(&self, given: Arguments<'_>) -> *mut PyObject {
        let py = given.py();
        let args = PyTuple::new(py, given.by_position());
        let called = args.and_then(|args| self.call_original(&args, given.by_keyword()?.as_ref()));
        match called {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    }

    /// Calls the library's own function.
    pub fn call_original<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let callable = self.callable.as_ptr();
        if self.own == 0 {
            // SAFETY: it is of the kind that the entry was made for.
            return unsafe { (self.slow)(py, callable, args, kwargs) };
        }
        // SAFETY: the interpreter keeps a function of this signature there.
        let own = unsafe { std::mem::transmute::<usize, Vectorcall>(self.own) };
        let mut values: Vec<Bound<'py, PyAny>> = args.iter().collect();
        let positional = values.len();
        let names = match kwargs {
            Some(kwargs) if !kwargs.is_empty() => {
                values.extend(kwargs.values());
                Some(kwargs.keys().to_tuple())
            }
            _ => None,
        };
        let pointers: Vec<*mut PyObject> = values.iter().map(Bound::as_ptr).collect();
        let names = names.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
        // SAFETY: as many arguments as are said, alive until the call is over.
        unsafe {
            Bound::from_owned_ptr_or_err(py, own(callable, pointers.as_ptr(), positional, names))
        }
    }
}

/// Whether an object is a float, an integer or a text of Python's, of no class derived from these.
///
/// # Safety
///
/// It is alive.
#[inline]
unsafe fn is_number_or_text(object: *mut PyObject) -> bool {
    // SAFETY: says the caller.
    let class = unsafe { ffi::Py_TYPE(object) };
    class == &raw mut ffi::PyFloat_Type
        || class == &raw mut ffi::PyLong_Type
        || class == &raw mut ffi::PyUnicode_Type
}

/// Whether an argument is active, or something in a list among them.
fn contains_any_active(args: Arguments<'_>) -> PyResult<bool> {
    for argument in args.all() {
        if contains_active(&argument)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Case {
    /// The arguments of the override, where the method is one that it overrides.
    fn receives<'py>(&self, args: Arguments<'py>) -> PyResult<Option<Arguments<'py>>> {
        let Some(receiver) = &self.receiver else {
            return Ok(Some(args));
        };
        let Some(first) = args.by_position().next() else {
            return Ok(None);
        };
        Ok(match receiver {
            Receiver::Object(object) => first.is(object).then(|| args.without_first()),
            Receiver::Class(class) => first.is_instance(class.bind(args.py()))?.then_some(args),
        })
    }

    pub fn is_for(&self, py: Python<'_>, other: Option<&Bound<'_, PyAny>>) -> bool {
        match (&self.receiver, other) {
            (None, None) => true,
            (Some(Receiver::Object(own)), Some(other)) => other.is(own),
            (Some(Receiver::Class(own)), Some(other)) => other.is(own.bind(py)),
            _ => false,
        }
    }
}

/// The result of an override that looks at the arguments alone.
fn by_arguments(
    rule: &Override,
    given: Arguments<'_>,
    state: State,
) -> PyResult<Option<Py<PyAny>>> {
    let lifting = state.is_lifting();
    // A thread that does not record may help one that does, and meets what a gradient depends on.
    let when = match rule.when {
        when if lifting => when,
        When::Active | When::Always => When::Active,
        _ => When::ActiveNumbers,
    };
    if rule.when == When::UserNumbers && (state.is_strict || !lifting) {
        return Ok(None);
    }
    if !when.for_any(given.all())? {
        return Ok(None);
    }
    if rule.when == When::UserNumbers && !is_number_of_user_code(given)? {
        return Ok(None);
    }
    rule.call(
        given.py(),
        given.by_position(),
        given.by_keyword()?.as_ref(),
    )
}

fn is_number_of_user_code(given: Arguments<'_>) -> PyResult<bool> {
    Ok(matches!(calling_package(given.py())?, Package::User))
}

/// Enters an override of an entry, in the place of one for the same receiver.
pub fn add_case(
    py: Python<'_>,
    entry: &Entry,
    receiver: Option<&Bound<'_, PyAny>>,
    policy: Policy,
) {
    let known = receiver.map(|r| match r.cast::<PyType>() {
        Ok(class) => Receiver::Class(class.clone().unbind()),
        Err(_) => Receiver::Object(r.clone().unbind()),
    });
    let case: &'static Case = Box::leak(Box::new(Case {
        receiver: known,
        policy,
    }));
    let _one = COUNT
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner);
    let mut cases = entry.cases().to_vec();
    cases.retain(|other| !other.is_for(py, receiver));
    // Those for one object or class come before those for all.
    let at = if case.receiver.is_some() {
        0
    } else {
        cases.len()
    };
    cases.insert(at, case);
    let looks_further = cases.iter().any(|case| match &case.policy {
        Policy::Arguments(rule) => rule.when == When::Always,
        _ => true,
    });
    let by_arguments = |case: &&Case| matches!(case.policy, Policy::Arguments(_));
    let looks_at_arguments = cases.iter().any(by_arguments);
    entry.looks_further.store(looks_further, Ordering::Relaxed);
    (entry.looks_at_arguments).store(looks_at_arguments, Ordering::Relaxed);
    entry
        .cases
        .store(Box::leak(Box::new(cases)), Ordering::Release);
}

/// The callables that have an entry.
pub fn callables(py: Python<'_>) -> Vec<Py<PyAny>> {
    let all = VALUES.iter().map(|value| value.load(Ordering::Acquire));
    // SAFETY: entries are never freed.
    all.filter_map(|entry| unsafe { entry.as_ref() })
        .map(|entry| entry.callable.clone_ref(py))
        .collect()
}
