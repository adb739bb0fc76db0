//! Makes programs of programs: some of the outputs, values for inputs, one behind the other, pullbacks.

use std::sync::Arc;

use cotan::opt::{self, Passes};
use cotan::prim::Var;
use cotan::{Array, Program, transform};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString, PyTuple};

use crate::program::bind_inputs::Given;
use crate::program::pyclass::PyProgram;
use crate::runtime::error::OrRaise;
use crate::runtime::text;

impl PyProgram {
    /// The program with its inputs in this order; constants come last.
    fn reordered(&self, inputs: &[Var], constants: Vec<Array>) -> PyProgram {
        PyProgram::new(self.core().with_inputs(inputs), constants)
    }

    /// Which output is meant by a position or a name.
    fn output(&self, which: &Bound<'_, PyAny>) -> PyResult<usize> {
        let names = self.core().output_names();
        if let Ok(name) = which.cast::<PyString>() {
            let name = text::owned(name);
            let mut found = (0..names.len()).filter(|&i| *names[i] == *name && !name.is_empty());
            return match (found.next(), found.next()) {
                (Some(i), None) => Ok(i),
                (Some(_), Some(_)) => Err(PyValueError::new_err(format!(
                    "prune: two outputs are called {name}; give their positions"
                ))),
                _ => {
                    let known: Vec<&str> = names.iter().map(AsRef::as_ref).take(20).collect();
                    Err(PyValueError::new_err(format!(
                        "prune: no output is called {name:?}; there are {} outputs, called {known:?}",
                        names.len()
                    )))
                }
            };
        }
        let wrong = || {
            PyTypeError::new_err(format!(
                "prune: outputs are given by positions and names, not {}",
                text::class_of(which)
            ))
        };
        if which.is_instance_of::<PyBool>() {
            return Err(wrong());
        }
        let position: isize = which.extract().map_err(|_| wrong())?;
        let count = names.len() as isize;
        if !(-count..count).contains(&position) {
            return Err(PyIndexError::new_err(format!(
                "prune: output {position} of a program with {count} outputs"
            )));
        }
        Ok(position.rem_euclid(count) as usize)
    }

    /// The program of some of its outputs, given as `prune` is given them.
    pub fn pruned(&self, outputs: &Bound<'_, PyAny>) -> PyResult<PyProgram> {
        let several =
            outputs.is_instance_of::<pyo3::types::PyList>() || outputs.is_instance_of::<PyTuple>();
        let kept: Vec<usize> = if several {
            let all = outputs.try_iter()?;
            all.map(|which| self.output(&which?))
                .collect::<PyResult<_>>()?
        } else {
            vec![self.output(outputs)?]
        };
        let p = self.core();
        let mut wanted = vec![false; p.outs().len()];
        for &i in &kept {
            wanted[i] = true;
        }
        let needed = p.needed(&wanted);
        let inputs: Vec<Var> = (0..p.num_inputs() as Var)
            .filter(|&v| needed[v as usize])
            .collect();
        let outs: Vec<Var> = kept.iter().map(|&i| p.outs()[i]).collect();
        let mut program = p.extract(&inputs, &outs);
        program.set_output_names(kept.iter().map(|&i| Arc::clone(&p.output_names()[i])));
        let constants = self.constants().iter().enumerate();
        let constants = constants
            .filter(|(i, _)| needed[self.free() + i])
            .map(|(_, value)| value.clone());
        Ok(PyProgram::new(program, constants.collect()))
    }

    /// The program with these values for inputs.
    pub fn bound(&self, given: Given) -> PyResult<PyProgram> {
        let (mut inputs, mut bound) = (Vec::new(), Vec::new());
        let mut constants = Vec::new();
        for (i, value) in given.values.into_iter().enumerate() {
            match value {
                Some(value) => {
                    if value.is_active() {
                        return Err(PyTypeError::new_err(
                            "bind: a value that is being differentiated cannot be bound to an input; call \
                             the program with it",
                        ));
                    }
                    bound.push(i as Var);
                    constants.push(value);
                }
                None => inputs.push(i as Var),
            }
        }
        inputs.extend(bound);
        inputs.extend(self.free() as Var..self.core().num_inputs() as Var);
        constants.extend_from_slice(self.constants());
        Ok(self.reordered(&inputs, constants))
    }

    /// This program, then another one, which takes the outputs of this one first.
    pub fn followed_by(&self, other: &PyProgram) -> PyResult<PyProgram> {
        let (taken, count) = (other.free(), self.core().outs().len());
        if count > taken {
            return Err(PyValueError::new_err(format!(
                "compose: the first program has {count} outputs, the second takes {taken} inputs"
            )));
        }
        let program = Program::compose(self.core(), other.core()).or_raise()?;
        // Of the first its free and bound inputs, then of the second the rest and the bound ones.
        let (first, bound) = (self.free(), self.constants().len());
        let second = first + bound..first + bound + taken - count;
        let third = second.end..program.num_inputs();
        let order = (0..first)
            .chain(second)
            .chain(first..first + bound)
            .chain(third)
            .map(|v| v as Var);
        let order: Vec<Var> = order.collect();
        let constants = [self.constants(), other.constants()].concat();
        Ok(PyProgram::new(program.with_inputs(&order), constants))
    }

    /// The program of the pullback with respect to the marked inputs.
    pub fn pulled_back(&self, wrt: Vec<bool>) -> PyResult<PyProgram> {
        let p = self.core();
        let mut wrt = wrt;
        wrt.resize(p.num_inputs(), false);
        let derived = transform::vjp(p, &wrt).or_raise()?;
        let mut joint = derived.program;
        let mut names: Vec<String> = p.input_names().iter().map(ToString::to_string).collect();
        for (slot, name) in derived.cotangents.iter().zip(p.output_names()) {
            if slot.is_some() {
                names.push(cotangent_name(name));
            }
        }
        joint.name_inputs(names);
        let gradients: Vec<(usize, usize)> = (derived.gradients.iter().enumerate())
            .filter_map(|(i, slot)| Some((i, (*slot)?)))
            .collect();
        let outs: Vec<Var> = gradients
            .iter()
            .map(|&(_, out)| joint.outs()[out])
            .collect();
        let inputs: Vec<Var> = (0..self.free())
            .chain(p.num_inputs()..joint.num_inputs())
            .chain(self.free()..p.num_inputs())
            .map(|v| v as Var)
            .collect();
        let mut program = joint.extract(&inputs, &outs);
        let called = |i: usize| match p.input_names()[i].as_ref() {
            "" => Arc::from(""),
            name => Arc::from(format!("d{name}")),
        };
        program.set_output_names(gradients.iter().map(|&(i, _)| called(i)));
        let program = opt::optimize(&program, Passes::ALL).or_raise()?;
        Ok(PyProgram::new(program, self.constants().to_vec()))
    }

    /// The program for as many examples, of which the marked inputs have a new first axis; what is bound
    /// to it is the same for all of them.
    pub fn mapped(&self, mut batched: Vec<bool>, size: usize) -> PyResult<PyProgram> {
        batched.resize(self.core().num_inputs(), false);
        let program = transform::vmap(self.core(), &batched, size).or_raise()?;
        Ok(PyProgram::new(program, self.constants().to_vec()))
    }
}

/// The cotangent of a result of this name or path.
fn cotangent_name(path: &str) -> String {
    let named = path.starts_with(|c: char| c.is_alphabetic() || c == '_');
    format!("{}{path}", if named { "d" } else { "dy" })
}
