//! Takes structures apart into leaves.
//!
//! Tuples, lists, dictionaries, named tuples, dataclasses and plain objects are walked into without
//! registration; everything that has no leaf inside stays the object that it is. Nothing of a class
//! is called on the way: no property, no `__getattr__`, no iterator.

use std::ops::Range;

use cotan::aval::DType;
use cotan::{Array, Number};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::array::cell::PyArray;
use crate::array::escapes;
use crate::ndarray::dtype::dtype_of;
use crate::ndarray::memory::{Borrow, from_ndarray, is_numpy_scalar, original};
use crate::ndarray::placement::taken_along;
use crate::runtime::error::step;
use crate::tree::class_layout::{self, Layout, Sort, check_declared};
use crate::tree::fault::{Fault, MAX_DEPTH, Parts};
use crate::tree::integers::{Integers, beside_floats, is_plain_sequence};
use crate::tree::treedef::{Const, Form, Kind, Leaf, Other, Tree, other};

/// Objects that refer to each other in many ways are met once for each way; this many are too many.
const MAX_PARTS: usize = 5_000_000;

/// Takes structures apart.
#[allow(clippy::struct_excessive_bools)] // each is a choice of its own
pub struct Flattener {
    /// The leaves found so far.
    pub leaves: Vec<Leaf>,
    pub(super) borrow: Borrow,
    pub(super) with_paths: bool,
    /// Whether numbers that are held constant are leaves.
    pub(super) with_numbers: bool,
    /// Whether what has no leaves is taken apart, too.
    pub(super) apart: bool,
    /// Whether `__trainable__` counts: not when a mask is given at the call.
    pub(super) declared: bool,
    /// Whether leaves are wanted as objects only: then any ndarray is one, and `const` stays.
    pub(super) objects: bool,
    /// Structures on the way from the root, by address, and whether they can be made before their
    /// parts are: one of them again closes a cycle.
    pub(super) open: Vec<(usize, bool)>,
    /// The outermost structure that a cycle led back to since this was last reset.
    pub(super) back: usize,
    /// How many `const` were unwrapped.
    pub(super) unwrapped: usize,
    /// How many parts are constants by what stands around them: left out of `__trainable__`, or in a
    /// dictionary with strings, which is a configuration.
    pub(super) settled: usize,
    /// What integers are in a field that says nothing of them.
    pub(super) unmarked: Integers,
    /// What they are in the field that is taken apart: as its annotation says.
    pub(super) field: Integers,
    /// What they are here: in a sequence with a float, numbers.
    pub(super) integers: Integers,
    /// How many integers were taken for data that may be numbers.
    pub(super) unclear: usize,
    /// Whether the sequence that is met next was searched for numbers with the one that it is in.
    searched: bool,
    /// Arrays of other libraries and of dtypes without leaves, which hold numbers that nobody
    /// would differentiate.
    pub foreign: Vec<Py<PyAny>>,
    pub(super) parts: usize,
    pub(super) refreshed: bool,
    /// What the classes met so far declare as trainable, by address.
    pub(super) trainable: Vec<(usize, Option<Py<PyAny>>)>,
}

/// Numbers that stand directly as arguments are leaves whatever their type; inside structures it depends.
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
            settled: 0,
            unmarked: Integers::Data,
            field: Integers::Data,
            integers: Integers::Data,
            unclear: 0,
            searched: false,
            foreign: Vec::new(),
            parts: 0,
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

    /// Takes integers of Python for numbers where a gradient may be asked for them: in fields annotated
    /// so, beside floats in a sequence, and where an argument has no other numbers.
    pub fn count_integers(&mut self) {
        self.integers_from(Integers::Unclear);
    }

    fn integers_from(&mut self, unmarked: Integers) {
        (self.unmarked, self.field, self.integers) = (unmarked, unmarked, unmarked);
    }

    /// Takes what has no leaves apart, too: for comparing structures, not for building them.
    pub fn take_everything_apart(&mut self) {
        self.apart = true;
    }

    /// Makes leaves of numbers that are held constant, too.
    pub fn keep_numbers(&mut self) {
        self.with_numbers = true;
    }

    /// Takes one argument apart. When it has no leaves but integers of Python that are not declared as
    /// such, these are its numbers.
    pub fn argument(
        &mut self,
        object: &Bound<'_, PyAny>,
        position: Position,
        path: &str,
    ) -> Parts<Argument> {
        let (first, foreign) = (self.leaves.len(), self.foreign.len());
        let excluded = self.unwrapped + self.settled;
        self.unclear = 0;
        let mut tree = if self.is_foreign(object) {
            // Text and dates are constants; asking for their derivative is an error, which is raised later.
            self.note_foreign(object, true);
            Tree::Static(object.clone().unbind())
        } else {
            self.taken_apart(object, position, true, path)?
        };
        if self.unclear > 0
            && self.leaves.len() == first
            && self.foreign.len() == foreign
            && self.unwrapped + self.settled == excluded
        {
            self.integers_from(Integers::Numbers);
            let again = self.taken_apart(object, position, true, path);
            self.integers_from(Integers::Unclear);
            tree = again?;
        }
        let carries = self.leaves[first..]
            .iter()
            .any(|l| l.array.dtype().is_inexact());
        Ok(Argument {
            is_lost: !carries
                && self.unwrapped + self.settled == excluded
                && !is_empty(object.py(), &tree),
            tree,
            foreign: foreign..self.foreign.len(),
        })
    }

    /// Takes one object apart.
    pub fn flatten(
        &mut self,
        object: &Bound<'_, PyAny>,
        position: Position,
        active: bool,
        path: &str,
    ) -> PyResult<Tree> {
        let tree = self.taken_apart(object, position, active, path);
        tree.map_err(|fault| fault.raise(object.py(), path))
    }

    fn taken_apart(
        &mut self,
        object: &Bound<'_, PyAny>,
        position: Position,
        active: bool,
        path: &str,
    ) -> Parts<Tree> {
        let py = object.py();
        let first = self.leaves.len();
        let tree = self.part(object, position, active).inspect_err(|_| {
            self.open.clear();
            self.integers_from(self.unmarked);
        })?;
        if self.with_paths {
            let mut paths = Vec::new();
            tree.paths(path, &mut paths, py)?;
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

    pub(super) fn part(
        &mut self,
        object: &Bound<'_, PyAny>,
        position: Position,
        active: bool,
    ) -> Parts<Tree> {
        step(object.py())?;
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
            // Inside a structure, and held constant, an array of strings is data like a string.
            if (position == Position::Nested || !active) && self.is_foreign(object) {
                self.note_foreign(object, active);
                return Ok(Tree::Static(object.clone().unbind()));
            }
            let value = from_ndarray(array, self.borrow)?;
            escapes::capture_ndarray(array, value.clone())?;
            let value = taken_along(object.py(), value)?;
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
            let counts = match position {
                Position::Direct => !self.objects,
                Position::Nested => false,
            };
            let is_plain = object.is_exact_instance_of::<PyInt>();
            if active && is_plain && !counts && self.integers == Integers::Unclear {
                self.unclear += 1;
            }
            if active && (counts || is_plain && self.integers == Integers::Numbers) {
                if self.objects {
                    return Ok(self.leaf(object, placeholder(), Kind::Number, active));
                }
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
            Some(layout) if layout.sort == Sort::Foreign => {
                self.note_foreign(object, active);
                fixed()
            }
            Some(layout) => self.container(object, Some(&layout), active),
            None => fixed(),
        }
    }

    /// Whether it is an array of elements that cotan cannot compute with.
    fn is_foreign(&self, object: &Bound<'_, PyAny>) -> bool {
        let array = object.cast::<PyUntypedArray>();
        !self.objects && array.is_ok_and(|array| dtype_of(&array.dtype()).is_err())
    }

    fn note_foreign(&mut self, object: &Bound<'_, PyAny>, active: bool) {
        if active {
            self.foreign.push(object.clone().unbind());
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
        if dtype_of(&array.dtype()).is_err() {
            self.note_foreign(object, active);
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
                    object.get_type().name()?.to_string_lossy()
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
            Some(Sort::Tuple | Sort::Registered | Sort::Foreign) => false,
        };
        let (first, unwrapped) = (self.leaves.len(), self.unwrapped);
        let foreign = self.foreign.len();
        let outer = std::mem::replace(&mut self.back, usize::MAX);
        self.open.push((address, early));
        let around = (self.field, self.integers);
        let tree = self.parts_of(object, layout, active)?;
        (self.field, self.integers) = around;
        self.open.pop();
        let leads_out = self.back < depth;
        if !leads_out {
            self.back = usize::MAX;
        }
        self.back = self.back.min(outer);
        // Without a leaf (and without a `const` to unwrap) it stays the object that it is, unless it
        // refers to something around it, which will be another object.
        let keeps_shape = self.apart || layout.is_none() || matches!(sort, Some(Sort::Tuple));
        if self.leaves.len() == first && layout.is_some_and(|l| l.is_foreign) {
            // What it is made of is its own affair.
            self.foreign.truncate(foreign);
            self.note_foreign(object, active);
            return Ok(Tree::Static(object.clone().unbind()));
        }
        let has_none = self.leaves.len() == first && self.foreign.len() == foreign;
        if has_none && self.unwrapped == unwrapped && !leads_out && !keeps_shape {
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
                return Ok(Tree::Tuple(
                    None,
                    self.entries(tuple.iter().collect(), active)?,
                ));
            }
            if let Ok(list) = object.cast_exact::<PyList>() {
                return Ok(Tree::List(self.entries(list.iter().collect(), active)?));
            }
            let dict = object.cast_exact::<PyDict>().map_err(PyErr::from)?;
            // Taken out first: what comes next may run code that changes it.
            let pairs: Vec<_> = dict.iter().collect();
            let unclear = self.unclear;
            let is_configuration = self.enter_dictionary(pairs.iter().map(|(_, item)| item));
            let mut items = Vec::with_capacity(pairs.len());
            for (key, item) in pairs {
                let tree = self
                    .part(&item, Position::Nested, active)
                    .map_err(|f| f.at(|| crate::tree::treedef::key_step(&key)))?;
                items.push((key.unbind(), tree));
            }
            if is_configuration {
                self.unclear = unclear;
            }
            return Ok(Tree::Dict(items));
        };
        match layout.sort {
            Sort::Object => self.fields(object, layout, active),
            Sort::Tuple => self.subtuple(object, layout, active),
            Sort::List => {
                let list = object.cast::<PyList>().map_err(PyErr::from)?;
                let items = self.entries(list.iter().collect(), active)?;
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
                let unclear = self.unclear;
                let is_configuration = self.enter_dictionary(items.iter());
                let items = self.named(&keys, &items, None, None, active)?;
                if is_configuration {
                    self.unclear = unclear;
                }
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
                let items =
                    self.named(&keys, &children, trainable.as_ref(), Some(layout), active)?;
                Ok(other(object, Form::Registered(aux), keys, items))
            }
            Sort::Foreign => Ok(Tree::Static(object.clone().unbind())),
        }
    }

    /// The parts of a sequence, which are taken out first: what comes next may run code that changes it.
    pub(super) fn entries(
        &mut self,
        entries: Vec<Bound<'_, PyAny>>,
        active: bool,
    ) -> Parts<Vec<Tree>> {
        let searched = self.searched;
        let looks = self.integers == Integers::Unclear && active;
        if looks && !searched && beside_floats(&entries)? {
            self.integers = Integers::Numbers;
        }
        let mut items = Vec::with_capacity(entries.len());
        for (i, item) in entries.iter().enumerate() {
            self.searched = looks && is_plain_sequence(item);
            let tree = self.part(item, Position::Nested, active);
            items.push(tree.map_err(|f| f.at(|| Ok(format!("[{i}]"))))?);
        }
        self.searched = searched;
        Ok(items)
    }

    /// Parts with keys; they are fields where a layout says what is in them.
    pub(super) fn named(
        &mut self,
        keys: &[Bound<'_, PyAny>],
        items: &[Bound<'_, PyAny>],
        trainable: Option<&Bound<'_, PyAny>>,
        fields: Option<&Layout>,
        active: bool,
    ) -> Parts<Vec<Tree>> {
        let mut trees = Vec::with_capacity(items.len());
        for (key, item) in keys.iter().zip(items) {
            let asked = match fields {
                Some(layout) => self.enter_field(layout, key, item, trainable, active)?,
                None => true,
            };
            let tree = self
                .part(item, Position::Nested, active && asked)
                .map_err(|f| f.at(|| crate::tree::treedef::key_step(key)))?;
            trees.push(tree);
        }
        Ok(trees)
    }
}

/// An argument that was taken apart.
pub struct Argument {
    pub tree: Tree,
    /// Whether it has no leaf that can carry a derivative, and nothing in it says that this is meant.
    pub is_lost: bool,
    /// Which of the foreign arrays are in it.
    pub foreign: Range<usize>,
}

/// Whether there is nothing in a structure that a derivative could be asked for.
fn is_empty(py: Python<'_>, tree: &Tree) -> bool {
    match tree {
        Tree::Static(object) => object.is_none(py),
        Tree::Leaf(_) | Tree::Object(..) | Tree::Other(_) | Tree::Back(_) => false,
        _ => tree.children().all(|t| is_empty(py, t)),
    }
}

/// A placeholder for the value of a leaf that is wanted as an object only.
fn placeholder() -> Array {
    Array::number(DType::F64, Number::Float(0.0))
}
