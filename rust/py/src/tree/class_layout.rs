//! Remembers how the instances of a class are taken apart. Python code finds it out, once for each class; it is
//! kept for as long as the class lives, without keeping that alive.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyMapping;
use pyo3::types::{
    PyDict, PyList, PyString, PyTuple, PyType, PyWeakrefMethods, PyWeakrefReference,
};

use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::once_cell::{Once, intern};
use crate::runtime::text;
use crate::tree::fault::{Fault, Parts};

exports!(forget_layouts);

/// What objects of a class are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// A subclass of tuple.
    Tuple,
    /// A subclass of list.
    List,
    /// A subclass of dict.
    Dict,
    /// Fields in `__dict__` and slots.
    Object,
    /// Of a class that was registered.
    Registered,
    /// Numbers of another library, which are not taken apart.
    Foreign,
}

/// What an annotation says of the numbers in a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Annotated {
    Float,
    Integer,
}

/// How objects of a class are taken apart and made again: see `Layout` in `cotan._src.tree.class_registry`.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Layout {
    pub sort: Sort,
    make: Option<Py<PyAny>>,
    pub slots: Vec<Py<PyString>>,
    pub has_dict: bool,
    pub hidden: bool,
    pub skipped: Option<Py<PyAny>>,
    pub names: Option<Vec<Py<PyString>>>,
    pub items: Option<Py<PyAny>>,
    pub put: Option<Py<PyAny>>,
    pub flatten: Option<Py<PyAny>>,
    pub unflatten: Option<Py<PyAny>>,
    pub project: Option<Py<PyAny>>,
    /// Whether these are arrays of another library.
    pub is_foreign: bool,
    /// Whether integers in fields without annotations are data, never numbers.
    pub is_data: bool,
    /// What the annotations of the class say: whether the numbers in a field are floats, by its name.
    numbers: Option<Py<PyDict>>,
}

struct Known {
    class: Py<PyWeakrefReference>,
    layout: Option<Arc<Layout>>,
}

#[derive(Default)]
struct Table {
    classes: HashMap<usize, Known>,
    /// At this size, entries of classes that are gone are swept out.
    sweep: usize,
    /// Which of the packages that register classes were there.
    packages: (bool, bool),
    /// Counts how often everything was forgotten.
    forgotten: u64,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// No Python code may run while this is held.
fn table() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets all layouts: a class was registered.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn forget_layouts() {
    // Dropped when the table is free again: it may run code.
    let mut old = HashMap::new();
    if let Some(table) = table().as_mut() {
        std::mem::swap(&mut old, &mut table.classes);
        table.forgotten += 1;
    }
    drop(old);
}

/// Looks whether a package that classes may be registered with has been imported meanwhile.
pub fn refresh(py: Python<'_>) -> PyResult<()> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.made(py, || {
        let modules = py.import("sys")?.getattr("modules")?;
        Ok::<_, PyErr>(modules.cast_into::<PyDict>()?.unbind())
    })?;
    let modules = modules.bind(py);
    let packages = (
        modules.contains(intern!(py, "optree"))?,
        modules.contains(intern!(py, "jax.tree_util"))?,
    );
    let changed = {
        let mut table = table();
        let table = table.get_or_insert_default();
        std::mem::replace(&mut table.packages, packages) != packages
    };
    if changed {
        forget_layouts();
    }
    Ok(())
}

/// How an object is taken apart; `None` when it is not.
pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Layout>>> {
    let py = object.py();
    let address = object.get_type_ptr() as usize;
    let (found, forgotten) = {
        let table = table();
        let known = table.as_ref().and_then(|t| t.classes.get(&address));
        let forgotten = table.as_ref().map_or(0, |t| t.forgotten);
        (
            known.map(|k| (k.class.clone_ref(py), k.layout.clone())),
            forgotten,
        )
    };
    if let Some((class, layout)) = found {
        // The address may have been that of a class which is gone.
        let alive = class.bind(py).upgrade();
        if alive.is_some_and(|c| c.as_ptr() as usize == address) {
            return Ok(layout);
        }
    }
    let class = object.get_type();
    let layout = hooks::CLASS_LAYOUT.get(py)?.call1((&class, object))?;
    let layout = Layout::read(&layout)?.map(Arc::new);
    let class = PyWeakrefReference::new(&class)?.unbind();
    let known = Known {
        class,
        layout: layout.clone(),
    };
    remember(py, address, known, forgotten);
    Ok(layout)
}

/// The layout of something that was taken apart. It can be missing only if the class was registered
/// anew in between.
pub fn known(object: &Bound<'_, PyAny>) -> PyResult<Arc<Layout>> {
    of(object)?.ok_or_else(|| {
        PyRuntimeError::new_err(format!(
            "{} is taken apart in another way than before",
            text::class_of(object)
        ))
    })
}

fn remember(py: Python<'_>, address: usize, known: Known, forgotten: u64) {
    let mut gone = Vec::new();
    {
        let mut table = table();
        let table = table.get_or_insert_default();
        if table.forgotten != forgotten {
            return;
        }
        gone.extend(table.classes.insert(address, known));
        if table.classes.len() > table.sweep.max(256) {
            let dead: Vec<usize> = (table.classes.iter())
                .filter(|(_, k)| k.class.bind(py).upgrade().is_none())
                .map(|(&a, _)| a)
                .collect();
            gone.extend(dead.iter().filter_map(|a| table.classes.remove(a)));
            table.sweep = 2 * table.classes.len();
        }
    }
    drop(gone);
}

impl Layout {
    fn read(told: &Bound<'_, PyAny>) -> PyResult<Option<Layout>> {
        if told.is_none() {
            return Ok(None);
        }
        let part = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let value = told.getattr(name)?;
            Ok((!value.is_none()).then(|| value.unbind()))
        };
        let kind: String = told.getattr("kind")?.extract()?;
        Ok(Some(Layout {
            sort: match kind.as_str() {
                "tuple" => Sort::Tuple,
                "list" => Sort::List,
                "dict" => Sort::Dict,
                "object" => Sort::Object,
                "foreign" => Sort::Foreign,
                _ => Sort::Registered,
            },
            make: part("make")?,
            slots: told.getattr("slots")?.extract()?,
            has_dict: told.getattr("has_dict")?.extract()?,
            hidden: told.getattr("hidden")?.extract()?,
            skipped: part("skipped")?,
            names: told.getattr("names")?.extract()?,
            items: part("items")?,
            put: part("put")?,
            flatten: part("flatten")?,
            unflatten: part("unflatten")?,
            project: part("project")?,
            is_foreign: told.getattr("is_foreign")?.extract()?,
            is_data: told.getattr("is_data")?.extract()?,
            numbers: told.getattr("numbers")?.extract()?,
        }))
    }

    /// What the annotation of a field says of the numbers in it, if anything.
    pub fn annotated(&self, name: &Bound<'_, PyAny>) -> PyResult<Option<Annotated>> {
        let Some(numbers) = &self.numbers else {
            return Ok(None);
        };
        Ok(match numbers.bind(name.py()).get_item(name)? {
            None => None,
            Some(is_float) if is_float.is_truthy()? => Some(Annotated::Float),
            Some(_) => Some(Annotated::Integer),
        })
    }

    /// An object of a class, without contents. No code of the class runs.
    pub fn empty<'py>(&self, class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
        match &self.make {
            Some(make) => make.bind(class.py()).call1((class,)),
            None => class.call0(),
        }
    }

    /// A tuple of a class with these entries.
    pub fn tuple<'py>(
        &self,
        class: &Bound<'py, PyType>,
        entries: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.make {
            Some(make) => make.bind(class.py()).call1((class, entries)),
            None => class.call1((entries,)),
        }
    }

    /// Whether objects have a dictionary or slots.
    pub fn has_fields(&self) -> bool {
        self.has_dict || !self.slots.is_empty() || self.hidden
    }
}

/// What a class declares as trainable: the names in the nearest `__trainable__`, if there is one that is
/// not None. Only classes are asked, never an object.
pub fn trainable<'py>(class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = class.py();
    let name = intern!(py, "__trainable__");
    for owner in class.mro().iter() {
        let dict = owner.getattr(intern!(py, "__dict__"))?;
        if dict.contains(name)? {
            let declared = dict.get_item(name)?;
            if declared.is_none() {
                return Ok(None);
            }
            if declared.is_instance_of::<PyString>() {
                return Ok(Some(PyTuple::new(py, [declared])?.into_any()));
            }
            let fine = declared.is_instance_of::<PyTuple>()
                || declared.is_instance_of::<PyList>()
                || declared.is_instance_of::<pyo3::types::PySet>()
                || declared.is_instance_of::<pyo3::types::PyFrozenSet>()
                || declared.is_instance_of::<PyMapping>();
            if fine {
                return Ok(Some(declared));
            }
            return Err(pyo3::exceptions::PyTypeError::new_err(format!(
                "{}.__trainable__ must be a tuple of names of fields, not {}",
                class.name()?.to_string_lossy(),
                text::class_of(&declared)
            )));
        }
    }
    Ok(None)
}

/// A declared name that no part has is a mistake that would show as a missing gradient only.
pub fn check_declared(
    object: &Bound<'_, PyAny>,
    declared: Option<&Bound<'_, PyAny>>,
    names: &[Bound<'_, PyAny>],
) -> Parts<()> {
    let Some(declared) = declared else {
        return Ok(());
    };
    for name in declared.try_iter()? {
        let name = name?;
        let mut found = false;
        for known in names {
            found |= known.eq(&name)?;
        }
        if !found {
            let listed = names.iter().map(text::text).collect::<PyResult<Vec<_>>>()?;
            return Err(Fault::value(format!(
                "has no {}, which {}.__trainable__ names; it has: {}",
                name.repr()?.to_string_lossy(),
                object.get_type().name()?.to_string_lossy(),
                listed.join(", ")
            )));
        }
    }
    Ok(())
}
