//! Takes structures apart into leaves.
//!
//! Tuples, lists, dictionaries, named tuples, dataclasses and plain objects are walked into without
//! registration; everything that has no leaf inside stays the object that it is. Nothing of a class
//! is called on the way: no property, no `__getattr__`, no iterator.

use cotan::aval::DType;
use cotan::{Array, Number};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::array::cell::PyArray;
use crate::array::escapes;
use crate::ndarray::dtype::dtype_of;
use crate::ndarray::memory::{
    Borrow, from_ndarray, instance_dict, is_numpy_scalar, original, slot_value,
};
use crate::runtime::error::step;
use crate::tree::class_layout::{self, Layout, Sort};
use crate::tree::fault::{Fault, MAX_DEPTH, Parts};
use crate::tree::treedef::{Const, Form, Kind, Leaf, Other, Tree};

/// Objects that refer to each other in many ways are met once for each way; this many are too many.
const MAX_PARTS: usize = 5_000_000;

/// Takes structures apart.
#[allow(clippy::struct_excessive_bools)] // each is a choice of its own
pub struct Flattener {
    /// The leaves found so far.
    pub leaves: Vec<Leaf>,
    borrow: Borrow,
    with_paths: bool,
    /// Whether numbers that are held constant are leaves.
    with_numbers: bool,
    /// Whether what has no leaves is taken apart, too.
    apart: bool,
    /// Whether `__trainable__` counts: not when a mask is given at the call.
    declared: bool,
    /// Whether leaves are wanted as objects only: then any ndarray is one, and `const` stays.
    objects: bool,
    /// Structures on the way from the root, by address, and whether they can be made before their
    /// parts are: one of them again closes a cycle.
    open: Vec<(usize, bool)>,
    /// The outermost structure that a cycle led back to since this was last reset.
    back: usize,
    /// How many `const` were unwrapped.
    unwrapped: usize,
    parts: usize,
    /// Whether a signal handler has put an end to it.
    pub stopped: bool,
    refreshed: bool,
    /// What the classes met so far declare as trainable, by address.
    trainable: Vec<(usize, Option<Py<PyAny>>)>,
}

/// Numbers that stand directly as arguments are leaves whatever their type; inside structures an
/// integer is data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// An argument, or a result.
    Direct,
    /// Inside something.
    Nested,
}

impl Flattener {
    /// For arguments of a call (`Borrow::Call`), or for values that are kept (`Borrow::Copy`).
    pub fn new(borrow: Borrow, with_paths: bool, declared: bool) -> Flattener {
        Flattener {
            leaves: Vec::new(),
            borrow,
            with_paths,
            with_numbers: with_paths,
            apart: false,
            declared,
            objects: false,
            open: Vec::new(),
            back: usize::MAX,
            unwrapped: 0,
            parts: 0,
            stopped: false,
            refreshed: false,
            trainable: Vec::new(),
        }
    }

    /// For leaves as they are: any ndarray, `Array` and float is one.
    pub fn of_objects(declared: bool) -> Flattener {
        let mut flattener = Flattener::new(Borrow::Call, true, declared);
        flattener.objects = true;
        flattener
    }

    /// Takes what has no leaves apart, too: for comparing structures, not for building them.
    pub fn take_everything_apart(&mut self, with_numbers: bool) {
        self.with_numbers = with_numbers;
        self.apart = true;
    }

    /// Takes one object apart.
    pub fn flatten(
        &mut self,
        object: &Bound<'_, PyAny>,
        position: Position,
        active: bool,
        path: &str,
    ) -> PyResult<Tree> {
        let py = object.py();
        let first = self.leaves.len();
        let tree = match self.part(object, position, active) {
            Ok(tree) => tree,
            Err(fault) => {
                self.open.clear();
                return Err(fault.raise(py, path));
            }
        };
        if self.with_paths {
            let mut paths = Vec::new();
            tree.paths(path, &mut paths, py);
            for (leaf, path) in self.leaves[first..].iter_mut().zip(paths) {
                leaf.path = path;
            }
        }
        Ok(tree)
    }

    fn leaf(&mut self, object: &Bound<'_, PyAny>, array: Array, kind: Kind, active: bool) -> Tree {
        self.leaves.push(Leaf {
            active: active && array.dtype().is_inexact(),
            held: !active,
            array,
            kind,
            path: String::new(),
            object: object.clone().unbind(),
        });
        Tree::Leaf(self.leaves.len() - 1)
    }

    fn part(&mut self, object: &Bound<'_, PyAny>, position: Position, active: bool) -> Parts<Tree> {
        if let Err(error) = step(object.py()) {
            self.stopped = true;
            return Err(error.into());
        }
        if let Ok(array) = object.cast::<PyArray>() {
            let kind = Kind::Array(array.get().scalar_kind());
            let value = array.get().read()?;
            escapes::capture_array(array, &value);
            return Ok(self.leaf(object, value, kind, active));
        }
        if let Ok(array) = object.cast::<PyUntypedArray>() {
            if self.objects {
                let active = active && dtype_of(&array.dtype()).is_ok_and(DType::is_inexact);
                return Ok(self.leaf(object, placeholder(), Kind::NdArray, active));
            }
            // Inside a structure an array of strings is data like a string.
            if position == Position::Nested && dtype_of(&array.dtype()).is_err() {
                return Ok(Tree::Static(object.clone().unbind()));
            }
            let value = from_ndarray(array, self.borrow)?;
            escapes::capture_ndarray(array, &value)?;
            return Ok(self.leaf(object, Array::constant(value), Kind::NdArray, active));
        }
        if object.is_exact_instance_of::<PyFloat>() {
            return self.number(object, active);
        }
        let fixed = || Ok(Tree::Static(object.clone().unbind()));
        if object.is_exact_instance_of::<PyString>()
            || object.is_none()
            || object.is_exact_instance_of::<PyBool>()
        {
            return fixed();
        }
        if object.is_exact_instance_of::<PyTuple>()
            || object.is_exact_instance_of::<PyList>()
            || object.is_exact_instance_of::<PyDict>()
        {
            return self.container(object, None, active);
        }
        if let Ok(constant) = object.cast_exact::<Const>() {
            let value = constant.get().value.bind(object.py());
            if self.objects {
                let items = vec![self.part(value, position, false)?];
                return Ok(Tree::Other(Box::new(Other {
                    original: object.clone().unbind(),
                    form: Form::Const,
                    keys: Vec::new(),
                    items,
                })));
            }
            self.unwrapped += 1;
            return self.part(value, position, false);
        }
        if is_numpy_scalar(object)? {
            return self.scalar(object, active);
        }
        if object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyComplex>() {
            return self.number(object, active);
        }
        if object.is_instance_of::<PyInt>() {
            if position == Position::Direct && active && !self.objects {
                let number = Array::number(DType::F64, Number::Float(object.extract()?));
                return Ok(self.leaf(object, number, Kind::Number, active));
            }
            return fixed();
        }
        if object.is_instance_of::<PyString>() || object.is_instance_of::<PyType>() {
            return fixed();
        }
        if !self.refreshed {
            class_layout::refresh(object.py())?;
            self.refreshed = true;
        }
        match class_layout::of(object)? {
            Some(layout) => self.container(object, Some(&layout), active),
            None => fixed(),
        }
    }

    /// A Python number. One that is held constant is handed to `f` as it is.
    fn number(&mut self, object: &Bound<'_, PyAny>, active: bool) -> Parts<Tree> {
        if self.objects {
            return Ok(self.leaf(object, placeholder(), Kind::Number, active));
        }
        // With paths it is a leaf nevertheless: a mask that asks for it is told that it is constant.
        if !active && !self.with_numbers {
            return Ok(Tree::Static(object.clone().unbind()));
        }
        let number = if object.is_instance_of::<PyComplex>() {
            Array::number(DType::C128, Number::Complex(object.extract()?))
        } else {
            Array::number(DType::F64, Number::Float(object.extract()?))
        };
        Ok(self.leaf(object, number, Kind::Number, active))
    }

    fn scalar(&mut self, object: &Bound<'_, PyAny>, active: bool) -> Parts<Tree> {
        let array = original(object.py(), "numpy", "asarray")?.call1((object,))?;
        let array = array.cast::<PyUntypedArray>().map_err(PyErr::from)?;
        if dtype_of(&array.dtype()).is_ok_and(DType::is_inexact) {
            if self.objects {
                return Ok(self.leaf(object, placeholder(), Kind::Scalar, active));
            }
            let value = from_ndarray(array, Borrow::Call)?;
            return Ok(self.leaf(object, Array::constant(value), Kind::Scalar, active));
        }
        Ok(Tree::Static(object.clone().unbind()))
    }

    /// Something that has parts. Without a layout it is exactly a tuple, a list or a dictionary.
    fn container(
        &mut self,
        object: &Bound<'_, PyAny>,
        layout: Option<&Layout>,
        active: bool,
    ) -> Parts<Tree> {
        let address = object.as_ptr() as usize;
        if let Some(level) = self.open.iter().position(|(a, _)| *a == address) {
            if !self.open[level].1 {
                return Err(Fault::value(format!(
                    "leads back to the {} that it is a part of, which cannot be made before its parts; \
                     put a list or an object in its place",
                    object.get_type().name()?
                )));
            }
            self.back = self.back.min(level);
            return Ok(Tree::Back(level));
        }
        let depth = self.open.len();
        if depth >= MAX_DEPTH {
            return Err(Fault::depth());
        }
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(Fault::value(format!(
                "has more than {MAX_PARTS} parts when everything is counted as often as there are ways \
                 to it; leave references between its parts out, or hold them as indices"
            )));
        }
        let sort = layout.map(|l| l.sort);
        let early = match sort {
            None => !object.is_exact_instance_of::<PyTuple>(),
            Some(Sort::List | Sort::Dict | Sort::Object) => true,
            Some(Sort::Tuple | Sort::Registered) => false,
        };
        let (first, unwrapped) = (self.leaves.len(), self.unwrapped);
        let outer = std::mem::replace(&mut self.back, usize::MAX);
        self.open.push((address, early));
        let tree = self.parts_of(object, layout, active)?;
        self.open.pop();
        let leads_out = self.back < depth;
        if !leads_out {
            self.back = usize::MAX;
        }
        self.back = self.back.min(outer);
        // Without a leaf (and without a `const` to unwrap) it stays the object that it is, unless it
        // refers to something around it, which will be another object.
        let keeps_shape = self.apart || layout.is_none() || matches!(sort, Some(Sort::Tuple));
        if self.leaves.len() == first && self.unwrapped == unwrapped && !leads_out && !keeps_shape {
            return Ok(Tree::Static(object.clone().unbind()));
        }
        Ok(tree)
    }

    fn parts_of(
        &mut self,
        object: &Bound<'_, PyAny>,
        layout: Option<&Layout>,
        active: bool,
    ) -> Parts<Tree> {
        let Some(layout) = layout else {
            if let Ok(tuple) = object.cast_exact::<PyTuple>() {
                return Ok(Tree::Tuple(None, self.entries(tuple.iter(), active)?));
            }
            if let Ok(list) = object.cast_exact::<PyList>() {
                return Ok(Tree::List(self.entries(list.iter(), active)?));
            }
            let dict = object.cast_exact::<PyDict>().map_err(PyErr::from)?;
            // Taken out first: what comes next may run code that changes it.
            let pairs: Vec<_> = dict.iter().collect();
            let mut items = Vec::with_capacity(pairs.len());
            for (key, item) in pairs {
                let tree = self
                    .part(&item, Position::Nested, active)
                    .map_err(|f| f.at(|| crate::tree::treedef::key_step(&key)))?;
                items.push((key.unbind(), tree));
            }
            return Ok(Tree::Dict(items));
        };
        match layout.sort {
            Sort::Object => self.fields(object, layout, active),
            Sort::Tuple => self.subtuple(object, layout, active),
            Sort::List => {
                let list = object.cast::<PyList>().map_err(PyErr::from)?;
                let items = self.entries(list.iter(), active)?;
                Ok(other(object, Form::List, Vec::new(), items))
            }
            Sort::Dict => {
                let py = object.py();
                let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = match &layout.items {
                    Some(items) => {
                        let items = items.bind(py).call1((object,))?;
                        let items = items.try_iter()?.map(|pair| pair?.extract());
                        items.collect::<PyResult<_>>()?
                    }
                    None => Vec::new(),
                };
                let (keys, items): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
                let items = self.named(&keys, &items, None, active)?;
                Ok(other(object, Form::Dict, keys, items))
            }
            Sort::Registered => {
                let py = object.py();
                let Some(flatten) = &layout.flatten else {
                    return Ok(Tree::Static(object.clone().unbind()));
                };
                let told = flatten.bind(py).call1((object,))?;
                let (children, keys, aux): (
                    Vec<Bound<'_, PyAny>>,
                    Vec<Bound<'_, PyAny>>,
                    Py<PyAny>,
                ) = told.extract()?;
                let trainable = self.declared_by(object)?;
                check_declared(object, trainable.as_ref(), &keys)?;
                let items = self.named(&keys, &children, trainable.as_ref(), active)?;
                Ok(other(object, Form::Registered(aux), keys, items))
            }
        }
    }

    fn entries<'py>(
        &mut self,
        entries: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
        active: bool,
    ) -> Parts<Vec<Tree>> {
        let mut items = Vec::with_capacity(entries.len());
        for (i, item) in entries.enumerate() {
            let tree = self.part(&item, Position::Nested, active);
            items.push(tree.map_err(|f| f.at(|| format!("[{i}]")))?);
        }
        Ok(items)
    }

    fn named(
        &mut self,
        keys: &[Bound<'_, PyAny>],
        items: &[Bound<'_, PyAny>],
        trainable: Option<&Bound<'_, PyAny>>,
        active: bool,
    ) -> Parts<Vec<Tree>> {
        let mut trees = Vec::with_capacity(items.len());
        for (key, item) in keys.iter().zip(items) {
            let asked = trainable.map_or(Ok(true), |names| names.contains(key))?;
            let tree = self
                .part(item, Position::Nested, active && asked)
                .map_err(|f| f.at(|| crate::tree::treedef::key_step(key)))?;
            trees.push(tree);
        }
        Ok(trees)
    }

    fn subtuple(
        &mut self,
        object: &Bound<'_, PyAny>,
        layout: &Layout,
        active: bool,
    ) -> Parts<Tree> {
        let py = object.py();
        let tuple = object.cast::<PyTuple>().map_err(PyErr::from)?;
        let items = match &layout.names {
            Some(names) if names.len() == tuple.len() => {
                let keys: Vec<_> = names
                    .iter()
                    .map(|n| n.bind(py).clone().into_any())
                    .collect();
                let trainable = self.declared_by(object)?;
                check_declared(object, trainable.as_ref(), &keys)?;
                let entries: Vec<_> = tuple.iter().collect();
                self.named(&keys, &entries, trainable.as_ref(), active)?
            }
            _ => self.entries(tuple.iter(), active)?,
        };
        if layout.has_fields() {
            return Ok(other(object, Form::Tuple, Vec::new(), items));
        }
        let class = object.get_type().into_any().unbind();
        Ok(Tree::Tuple(Some(class), items))
    }

    fn fields(&mut self, object: &Bound<'_, PyAny>, layout: &Layout, active: bool) -> Parts<Tree> {
        let py = object.py();
        let trainable = self.declared_by(object)?;
        let mut fields: Vec<(Bound<'_, PyString>, Bound<'_, PyAny>)> = Vec::new();
        for name in &layout.slots {
            let name = name.bind(py);
            if let Some(value) = slot_value(object, name)? {
                fields.push((name.clone(), value));
            }
        }
        if layout.has_dict {
            let dict = instance_dict(object)?;
            fields.reserve(dict.len());
            for (name, value) in dict.iter() {
                if let Ok(name) = name.cast_into::<PyString>() {
                    fields.push((name, value));
                }
            }
        }
        if let Some(skipped) = &layout.skipped {
            let skipped = skipped.bind(py);
            fields.retain(|(name, _)| !skipped.contains(name).unwrap_or(false));
        }
        if trainable.is_some() {
            let names: Vec<_> = fields.iter().map(|(n, _)| n.clone().into_any()).collect();
            check_declared(object, trainable.as_ref(), &names)?;
        }
        let mut items = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let asked = match &trainable {
                Some(names) => names.contains(&name)?,
                None => true,
            };
            let tree = self
                .part(&value, Position::Nested, active && asked)
                .map_err(|f| f.at(|| format!(".{name}")))?;
            items.push((name.unbind(), tree));
        }
        Ok(Tree::Object(object.clone().unbind(), items))
    }

    /// What the class of an object declares as trainable, if that counts.
    fn declared_by<'py>(
        &mut self,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.declared {
            return Ok(None);
        }
        let py = object.py();
        let address = object.get_type_ptr() as usize;
        if let Some((_, known)) = self.trainable.iter().find(|(a, _)| *a == address) {
            return Ok(known.as_ref().map(|k| k.bind(py).clone()));
        }
        let declared = class_layout::trainable(&object.get_type())?;
        let kept = declared.as_ref().map(|d| d.clone().unbind());
        self.trainable.push((address, kept));
        Ok(declared)
    }
}

/// A declared name that no part has is a mistake that would show as a missing gradient only.
fn check_declared(
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
            let listed: Vec<String> = names.iter().map(ToString::to_string).collect();
            return Err(Fault::value(format!(
                "has no {}, which {}.__trainable__ names; it has: {}",
                name.repr()?,
                object.get_type().name()?,
                listed.join(", ")
            )));
        }
    }
    Ok(())
}

/// A placeholder for the value of a leaf that is wanted as an object only.
fn placeholder() -> Array {
    Array::number(DType::F64, Number::Float(0.0))
}

fn other(
    object: &Bound<'_, PyAny>,
    form: Form,
    keys: Vec<Bound<'_, PyAny>>,
    items: Vec<Tree>,
) -> Tree {
    Tree::Other(Box::new(Other {
        original: object.clone().unbind(),
        form,
        keys: keys.into_iter().map(Bound::unbind).collect(),
        items,
    }))
}
