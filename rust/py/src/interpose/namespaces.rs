//! Remembers which callables reach no namespace outside of `sys.modules`, so that they are not searched before
//! every gradient.

use std::sync::{Mutex, PoisonError};

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{
    PyDict, PyFloat, PyFunction, PyList, PyModule, PyTuple, PyType, PyWeakrefMethods,
    PyWeakrefReference,
};

use crate::runtime::hooks;
use crate::runtime::once_cell::{OnceImported, intern};

/// What leads to no namespace that has to be looked for, so that it is not asked again.
///
/// A function is known by its code and its globals where what it closes over and its defaults are known, too. So a lambda
/// that is made anew in each step is known, and a wrapper of another function is not. Other objects are known
/// themselves, for as long as they live.
///
/// All are short lists, where to look through one is faster than to hash.
#[derive(Default)]
struct Near {
    code: Vec<((usize, usize), Code)>,
    objects: Vec<(usize, Py<PyWeakrefReference>)>,
    /// Classes of C, whose objects lead to no function: arrays, numbers.
    classes: Vec<usize>,
}

impl Near {
    /// Whether functions of known code close over something, and have parameters that are given by name only.
    fn known(&self, key: (usize, usize)) -> Option<(bool, bool)> {
        let found = self.code.iter().find(|(k, _)| *k == key);
        found.map(|(_, code)| (code.is_closed, code.has_keywords))
    }
}

/// The code of functions that are known.
struct Code {
    /// So that another one does not come to its place.
    _held: Py<PyAny>,
    is_closed: bool,
    has_keywords: bool,
}

static NEAR: Mutex<Option<Near>> = Mutex::new(None);

/// So much code and so many objects are remembered; with one more all are forgotten.
const MOST: usize = 64;

/// Of long collections the first items are looked at, as the search in Python does.
const MANY: usize = 16;

/// So many objects are looked at.
const FAR: usize = 100;

/// The flag of classes that were made while the program runs.
const MADE: u64 = 1 << 9;

/// Lets names take part in namespaces that a function reaches and that are no modules: files that were run,
/// modules that were made by hand.
pub fn reach(f: &Bound<'_, PyAny>) -> PyResult<()> {
    if is_near(f, &mut Walk::default())? || !runs_python(f)? {
        return Ok(());
    }
    let is_far = hooks::SCAN_NAMESPACES.get(f.py())?.call1((f,))?;
    if !is_far.is_truthy()? {
        remember(f, &mut Walk::default())?;
    }
    Ok(())
}

/// What has been looked at on the way.
#[derive(Default)]
struct Walk {
    steps: usize,
    functions: Vec<usize>,
}

impl Walk {
    /// Whether there is nothing more to look at here: a function that refers to itself comes again.
    fn ends(&mut self, object: &Bound<'_, PyAny>) -> bool {
        self.steps += 1;
        if object.is_exact_instance_of::<PyFunction>() {
            let at = object.as_ptr() as usize;
            if self.functions.contains(&at) {
                return true;
            }
            self.functions.push(at);
        }
        self.steps > FAR
    }
}

/// Whether an object, and what it leads to, is known to be near.
fn is_near(object: &Bound<'_, PyAny>, walk: &mut Walk) -> PyResult<bool> {
    let py = object.py();
    if walk.ends(object) {
        return Ok(true);
    }
    let parts = if let Ok(function) = object.cast_exact::<PyFunction>() {
        let key = key(function)?;
        let known = with(py, |near| near.known(key));
        let Some((is_closed, has_keywords)) = known else {
            return Ok(false);
        };
        parts_of_a_function(function, is_closed, has_keywords)?
    } else if let Some(parts) = parts(object)? {
        parts
    } else {
        return Ok(is_known(object));
    };
    for part in parts {
        if !is_near(&part, walk)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Remembers an object, and what it leads to, as near.
fn remember(object: &Bound<'_, PyAny>, walk: &mut Walk) -> PyResult<()> {
    let py = object.py();
    if walk.ends(object) {
        return Ok(());
    }
    let parts = if let Ok(function) = object.cast_exact::<PyFunction>() {
        let code = function.getattr(intern!(py, "__code__"))?;
        let code = Code {
            is_closed: !function.getattr(intern!(py, "__closure__"))?.is_none(),
            has_keywords: code.getattr("co_kwonlyargcount")?.is_truthy()?,
            _held: code.unbind(),
        };
        let parts = parts_of_a_function(function, code.is_closed, code.has_keywords)?;
        let key = key(function)?;
        with(py, |near| {
            let is_new = near.known(key).is_none();
            // What is not kept is dropped outside.
            if is_new {
                near.code.push((key, code));
                None
            } else {
                Some(code)
            }
        });
        parts
    } else if let Some(parts) = parts(object)? {
        parts
    } else if is_known(object) {
        Vec::new()
    } else {
        let class = object.get_type();
        let flags: u64 = class.getattr("__flags__")?.extract()?;
        if flags & MADE == 0 && !is_namespace(object) {
            with(py, |near| near.classes.push(class.as_ptr() as usize));
        } else if let Ok(weak) = PyWeakrefReference::new(object) {
            let (at, weak) = (object.as_ptr() as usize, weak.unbind());
            with(py, |near| near.objects.push((at, weak)));
        }
        Vec::new()
    };
    for part in parts {
        remember(&part, walk)?;
    }
    Ok(())
}

/// Whether a callable runs code of Python's.
fn runs_python(f: &Bound<'_, PyAny>) -> PyResult<bool> {
    if f.is_exact_instance_of::<PyFunction>() || parts(f)?.is_some() {
        return Ok(true);
    }
    let call = f.get_type().getattr_opt(intern!(f.py(), "__call__"))?;
    Ok(call.is_some_and(|call| call.is_exact_instance_of::<PyFunction>()))
}

/// What tells functions of other code or of another program from each other.
fn key(function: &Bound<'_, PyFunction>) -> PyResult<(usize, usize)> {
    let py = function.py();
    let code = function.getattr(intern!(py, "__code__"))?;
    let names = function.getattr(intern!(py, "__globals__"))?;
    Ok((code.as_ptr() as usize, names.as_ptr() as usize))
}

fn parts_of_a_function<'py>(
    function: &Bound<'py, PyFunction>,
    is_closed: bool,
    has_keywords: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = function.py();
    let mut parts = Vec::new();
    if is_closed {
        for cell in function.getattr(intern!(py, "__closure__"))?.try_iter()? {
            // A cell may be empty yet.
            parts.extend(cell?.getattr(intern!(py, "cell_contents")).ok());
        }
    }
    let defaults = function.getattr(intern!(py, "__defaults__"))?;
    parts.extend(Some(defaults).filter(|d| !d.is_none()));
    if has_keywords {
        parts.push(function.getattr(intern!(py, "__kwdefaults__"))?);
    }
    Ok(parts)
}

/// What leads on, of objects that are looked at each time.
fn parts<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    static METHOD: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static PARTIAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    if let Ok(items) = object.cast::<PyTuple>() {
        return Ok(Some(items.iter().take(MANY).collect()));
    }
    if let Ok(items) = object.cast::<PyList>() {
        return Ok(Some(items.iter().take(MANY).collect()));
    }
    if let Ok(items) = object.cast_exact::<PyDict>() {
        return Ok(Some(items.iter().take(MANY).map(|(_, v)| v).collect()));
    }
    let names = if object.is_exact_instance(METHOD.found(py, "types", "MethodType")?) {
        [intern!(py, "__func__"), intern!(py, "__self__")]
    } else if object.is_exact_instance(PARTIAL.found(py, "functools", "partial")?) {
        [intern!(py, "func"), intern!(py, "args")]
    } else {
        return Ok(None);
    };
    let parts = names.into_iter().map(|name| object.getattr(name));
    parts.collect::<PyResult<_>>().map(Some)
}

/// Whether an object of a class of C is one of a kind: what it leads to is its own.
fn is_namespace(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyModule>() || object.is_instance_of::<PyType>()
}

/// Whether an object that is looked at once has been.
fn is_known(object: &Bound<'_, PyAny>) -> bool {
    let (py, at) = (object.py(), object.as_ptr() as usize);
    if object.is_exact_instance_of::<PyFloat>() || object.is_exact_instance_of::<PyUntypedArray>() {
        return true;
    }
    let class = object.get_type().as_ptr() as usize;
    let known = with(py, |near| {
        if near.classes.contains(&class) {
            return Some(None);
        }
        let found = near.objects.iter().rfind(|(o, _)| *o == at);
        found.map(|(_, weak)| Some(weak.clone_ref(py)))
    });
    match known {
        None => false,
        Some(None) => true,
        Some(Some(weak)) => (weak.bind(py).upgrade()).is_some_and(|kept| kept.is(object)),
    }
}

/// Looks at what is remembered. What is freed may run code of its own, so nothing is in here.
fn with<R>(py: Python<'_>, look: impl FnOnce(&mut Near) -> R) -> R {
    let mut guard = NEAR
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner);
    let near = guard.get_or_insert_default();
    let full = [near.code.len(), near.objects.len(), near.classes.len()];
    let full = full.iter().any(|&n| n >= MOST);
    let old = full.then(|| std::mem::take(near));
    let result = look(near);
    drop(guard);
    drop(old);
    result
}
