//! Finds the input of a program that each argument of a call is meant for.
//!
//! A program is flat: its inputs are arrays, named by the paths that they had as arguments of the
//! function. A call gives them in order, or by these names; a structure stands for all inputs whose paths
//! lie in it.

use std::collections::HashMap;

use cotan::{Array, DType, Program};
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyDict, PyFloat, PyInt, PyTuple};

use crate::array::cell::{PyArray, ScalarKind};
use crate::array::operand::Operand;
use crate::ndarray::memory::{Borrow, is_numpy_scalar};
use crate::runtime::error::OrRaise;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::Kind;

/// Values for the first inputs of a program.
pub struct Given<'p> {
    program: &'p Program,
    /// What asks, for errors.
    what: &'static str,
    pub values: Vec<Option<Array>>,
    /// Whether one of them was an `Array`.
    pub contains_array: bool,
}

/// Whether an object is an array or a number, not a structure of them.
fn is_one(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.is_instance_of::<PyArray>()
        || object.cast::<PyUntypedArray>().is_ok()
        || object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyInt>()
        || object.is_instance_of::<PyComplex>()
        || is_numpy_scalar(object)?)
}

/// What a path starts with: the name of the argument.
pub fn root(path: &str) -> &str {
    &path[..path.find(['.', '[']).unwrap_or(path.len())]
}

impl<'p> Given<'p> {
    /// Nothing yet, for so many inputs.
    pub fn new(program: &'p Program, what: &'static str, count: usize) -> Given<'p> {
        Given {
            program,
            what,
            values: vec![None; count],
            contains_array: false,
        }
    }

    fn name(&self, i: usize) -> &'p str {
        &self.program.input_names()[i]
    }

    /// How an input is called in an error.
    fn called(&self, i: usize) -> String {
        match self.name(i) {
            "" => format!("input {i}"),
            name => format!("input {i} ({name})"),
        }
    }

    /// The names of the inputs, for an error.
    fn listed(&self) -> String {
        const SHOWN: usize = 20;
        let count = self.values.len();
        let called = |i| match self.name(i) {
            "" => format!("%{i}"),
            name => name.to_string(),
        };
        let mut names: Vec<String> = (0..count.min(SHOWN)).map(called).collect();
        if count > SHOWN {
            names.push(format!("... ({count} in all)"));
        }
        names.join(", ")
    }

    /// Takes arguments in the order of the inputs.
    pub fn positional(&mut self, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        let count = self.values.len();
        let mut next = 0;
        for arg in args {
            if next == count {
                return Err(PyTypeError::new_err(format!(
                    "the program takes {count} arrays ({}), more were given",
                    self.listed()
                )));
            }
            let name = self.name(next);
            let above = root(name);
            let whole = name == above || is_one(&arg)?;
            if whole {
                self.set(next, &arg)?;
                next += 1;
                continue;
            }
            let mut end = next;
            while end < count && root(self.name(end)) == above {
                end += 1;
            }
            self.structure(&arg, above, next..end)?;
            next = end;
        }
        Ok(())
    }

    /// Takes arguments by name: of an input, or of what its path starts with.
    pub fn named(&mut self, kwargs: &Bound<'_, PyDict>) -> PyResult<()> {
        for (key, value) in kwargs {
            let key: String = key.extract()?;
            let inputs = 0..self.values.len();
            let mut exact = inputs.clone().filter(|&i| self.name(i) == key);
            if let Some(i) = exact.next() {
                if exact.next().is_some() {
                    return Err(PyValueError::new_err(format!(
                        "{}: two inputs are called {key}; give them by position",
                        self.what
                    )));
                }
                self.set(i, &value)?;
                continue;
            }
            let below: Vec<usize> = inputs.filter(|&i| root(self.name(i)) == key).collect();
            if below.is_empty() || key.is_empty() {
                return Err(PyTypeError::new_err(format!(
                    "{}: no input is called {key}; the inputs are {}",
                    self.what,
                    self.listed()
                )));
            }
            self.structure(&value, &key, below.into_iter())?;
        }
        Ok(())
    }

    /// Takes the inputs out of a structure that has this path.
    fn structure(
        &mut self,
        value: &Bound<'_, PyAny>,
        path: &str,
        inputs: impl Iterator<Item = usize>,
    ) -> PyResult<()> {
        let mut flattener = Flattener::new(Borrow::Copy, true, false);
        flattener.flatten(value, Position::Direct, true, path)?;
        let mut leaves: HashMap<&str, (&Array, Kind)> = HashMap::new();
        for leaf in &flattener.leaves {
            leaves.insert(&leaf.path, (&leaf.array, leaf.kind));
        }
        for i in inputs {
            let Some((array, kind)) = leaves.get(self.name(i)) else {
                let mut there: Vec<&str> = leaves.keys().copied().collect();
                there.sort_unstable();
                there.truncate(20);
                return Err(PyTypeError::new_err(format!(
                    "{}: {} is not in what was given for {path}; there {} {}",
                    self.what,
                    self.called(i),
                    if there.len() == 1 { "is" } else { "are" },
                    if there.is_empty() {
                        "no arrays".into()
                    } else {
                        there.join(", ")
                    },
                )));
            };
            self.contains_array |= matches!(kind, Kind::Array(_));
            let is_array = matches!(kind, Kind::NdArray | Kind::Array(ScalarKind::Array));
            self.fits(i, array.dtype(), is_array)?;
            let array = array.cast(self.program.aval(i as u32).dtype).or_raise()?;
            self.put(i, array)?;
        }
        Ok(())
    }

    /// Takes an array or a number for an input.
    fn set(&mut self, i: usize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.contains_array |= value.is_instance_of::<PyArray>();
        let operand = Operand::expect(self.what, value)?;
        let wanted = self.program.aval(i as u32).dtype;
        self.fits(
            i,
            operand.dtype(),
            operand.scalar_kind() == ScalarKind::Array,
        )?;
        self.put(i, operand.cast(wanted)?)
    }

    /// Refuses what an input could not hold: of arrays what its dtype does not contain, of numbers those of
    /// a more general kind.
    fn fits(&self, i: usize, given: DType, is_array: bool) -> PyResult<()> {
        let wanted = self.program.aval(i as u32).dtype;
        let loses = is_array && given.promote(wanted) != wanted;
        if !loses && given.kind() <= wanted.kind() {
            return Ok(());
        }
        let (wanted, given) = (wanted.numpy_name(), given.numpy_name());
        Err(PyTypeError::new_err(format!(
            "{}: {} is of dtype {wanted}, so it cannot take {given}; cast it on purpose \
             (x.astype(np.{wanted})), or trace the function anew",
            self.what,
            self.called(i),
        )))
    }

    fn put(&mut self, i: usize, array: Array) -> PyResult<()> {
        let aval = self.program.aval(i as u32);
        if array.aval() != aval {
            return Err(PyValueError::new_err(format!(
                "{}: {} must be {aval}, not {}",
                self.what,
                self.called(i),
                array.aval()
            )));
        }
        if self.values[i].is_some() {
            return Err(PyTypeError::new_err(format!(
                "{}: {} was given twice",
                self.what,
                self.called(i)
            )));
        }
        self.values[i] = Some(array);
        Ok(())
    }

    /// All values.
    pub fn all(self) -> PyResult<Vec<Array>> {
        let count = self.values.len();
        let missing: Vec<String> = (0..count)
            .filter(|&i| self.values[i].is_none())
            .map(|i| match self.name(i) {
                "" => format!("%{i}"),
                name => name.to_string(),
            })
            .take(20)
            .collect();
        if !missing.is_empty() {
            let given = self.values.iter().flatten().count();
            return Err(PyTypeError::new_err(format!(
                "the program takes {count} arrays, {given} given; missing: {}",
                missing.join(", ")
            )));
        }
        Ok(self.values.into_iter().flatten().collect())
    }
}
