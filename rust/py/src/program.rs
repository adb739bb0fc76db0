//! Programs as Python objects.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cotan::kernels::{self, Ctx};
use cotan::opt::{self, Passes};
use cotan::prim::Var;
use cotan::program::number_text;
use cotan::{Array, Program, sched, transform};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

use crate::array::{Rank, force, wrap};
use crate::equation::{PyEquation, PyVariable};
use crate::error::OrRaise;
use crate::given::{Given, root};
use crate::tree::{Kind, present};

/// A closed list of equations over primitives: what `trace` records, and what a pullback applies.
///
/// `print(program)` shows it and `Program.parse` reads that back. `program(*arrays)` runs it: its inputs
/// are arrays, named by the paths that they had as arguments, given in order or by name (a structure
/// stands for all inputs whose paths lie in it); it gives an array for one output and a tuple for
/// several, in the order of `outputs`.
///
/// Programs are equal when they have the same equations and the same values bound to their inputs;
/// names do not count.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> program = ct.trace(lambda x, w: np.sum(np.tanh(w * x)), np.ones(3), 2.0)
/// >>> len(program), [v.name for v in program.inputs]
/// (3, ['x', 'w'])
/// >>> program(w=0.5, x=np.zeros(3))
/// np.float64(0.0)
#[pyclass(frozen, name = "Program", module = "cotan")]
pub struct PyProgram {
    program: Arc<Program>,
    /// Values of the last inputs, which a call need not give.
    constants: Vec<Array>,
}

impl PyProgram {
    /// A program, with values for its last inputs.
    pub fn new(program: Program, constants: Vec<Array>) -> PyProgram {
        PyProgram {
            program: Arc::new(program.compacted()),
            constants,
        }
    }

    /// The program itself.
    pub fn core(&self) -> &Program {
        &self.program
    }

    /// Values of its last inputs.
    pub fn constants(&self) -> &[Array] {
        &self.constants
    }

    /// How many inputs have no value.
    fn free(&self) -> usize {
        self.program.num_inputs() - self.constants.len()
    }

    fn variable_at(&self, at: usize) -> PyVariable {
        let name = self.program.input_names().get(at).map_or("", AsRef::as_ref);
        let bound = at
            .checked_sub(self.free())
            .and_then(|i| self.constants.get(i))
            .cloned();
        PyVariable::new(&self.program, at as Var, name, bound)
    }

    /// The program with its inputs in this order; constants come last.
    fn reordered(&self, inputs: &[Var], constants: Vec<Array>) -> PyProgram {
        PyProgram::new(self.program.with_inputs(inputs), constants)
    }

    /// Which output is meant by a position or a name.
    fn output(&self, which: &Bound<'_, PyAny>) -> PyResult<usize> {
        let names = self.program.output_names();
        if let Ok(name) = which.cast::<PyString>() {
            let name = name.to_string();
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
                which.get_type()
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
}

#[pymethods]
impl PyProgram {
    /// The names of the passes that `optimize` knows.
    #[classattr]
    const PASSES: (&'static str, &'static str, &'static str, &'static str) =
        ("rewrite", "cse", "dce", "lower");

    /// Reads the textual form, with its comments.
    ///
    /// Numbers that are bound to inputs are in the text (`%x: f64[] = 0.5`); arrays are not, and the inputs
    /// that they are bound to are read without values.
    ///
    /// Raises `ValueError` with line, column and the line itself when it does not parse, and when it uses
    /// a rule or a hook of Python code, of which the text has the name only.
    ///
    /// >>> import cotan as ct
    /// >>> ct.Program.parse("program(%x: f64[]) { return %x }")(2.0)
    /// np.float64(2.0)
    #[staticmethod]
    fn parse(text: &str) -> PyResult<PyProgram> {
        let (program, numbers) = Program::parse_bound(text).or_raise()?;
        if numbers.is_empty() {
            return Ok(PyProgram::new(program, Vec::new()));
        }
        let is_bound = |v: Var| numbers.iter().any(|(n, _)| *n == v);
        let inputs = 0..program.num_inputs() as Var;
        let free = inputs.clone().filter(|&v| !is_bound(v));
        let order: Vec<Var> = free.chain(inputs.filter(|&v| is_bound(v))).collect();
        let values = numbers
            .iter()
            .map(|(_, value)| Array::constant(value.clone()));
        Ok(PyProgram::new(
            program.with_inputs(&order),
            values.collect(),
        ))
    }

    /// Its equations, in order.
    #[getter]
    fn equations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let count = self.program.eqns().len();
        let all: Vec<PyEquation> = (0..count)
            .map(|k| PyEquation::new(&self.program, k))
            .collect();
        PyTuple::new(py, all)
    }

    /// Its inputs, in order; those with a value bound to them come last.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let count = self.program.num_inputs() as u32;
        let all: Vec<PyVariable> = (0..count).map(|i| self.variable_at(i as usize)).collect();
        PyTuple::new(py, all)
    }

    /// Its outputs, in order.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let named = self.program.outs().iter().zip(self.program.output_names());
        let all: Vec<PyVariable> = named
            .map(|(&out, name)| PyVariable::new(&self.program, out, name, None))
            .collect();
        PyTuple::new(py, all)
    }

    /// The variable of this number: inputs come first, then what the equations define, in order.
    ///
    /// Raises `IndexError` when there is none.
    fn variable(&self, index: &Bound<'_, PyAny>) -> PyResult<PyVariable> {
        let number = index.call_method0("__index__").map_err(|_| {
            PyTypeError::new_err(format!(
                "variable: a variable is given by its number, not {}",
                index.get_type()
            ))
        })?;
        let count = self.program.num_vars();
        match number.extract::<usize>() {
            Ok(at) if at < count => Ok(self.variable_at(at)),
            _ => {
                let range = match count.checked_sub(1) {
                    Some(last) => format!("{count} variables, %0 to %{last}"),
                    None => "no variables".into(),
                };
                Err(PyIndexError::new_err(format!(
                    "the program has {range}, no %{number}"
                )))
            }
        }
    }

    /// A program is one, also without equations.
    #[allow(clippy::unused_self)]
    fn __bool__(&self) -> bool {
        true
    }

    /// For each equation the number of the fused group that it would be computed in as the program stands:
    /// one pass over memory, without arrays in between. None for layouts, literals, and what has a kernel of
    /// its own.
    ///
    /// >>> import cotan as ct
    /// >>> import numpy as np
    /// >>> ct.trace(lambda x: np.sum(np.sin(x) * 2 + x), np.ones(5)).fusion_groups()
    /// [0, None, 0, 0, 0]
    fn fusion_groups(&self) -> Vec<Option<usize>> {
        sched::groups(&self.program)
    }

    /// The program after these passes, one after the other; by default after the first three at once, which
    /// is what is done to a program before it runs. Inputs and outputs stay, and so do results, to the bit.
    ///
    /// passes: `"rewrite"` (equations become simpler ones that are equal in the last bit), `"cse"` (equal
    /// equations are computed once), `"dce"` (equations that no output needs are dropped), `"lower"` (mean,
    /// logsumexp and functions with a rule of their own become what they consist of).
    ///
    /// Raises `ValueError` for an unknown pass.
    ///
    /// >>> import cotan as ct
    /// >>> program = ct.trace(lambda x: ct.exp(x) * ct.exp(x), 1.0)
    /// >>> len(program), len(program.optimize()), len(program.optimize(passes=["dce"]))
    /// (3, 2, 3)
    #[pyo3(signature = (passes=None))]
    fn optimize(&self, passes: Option<&Bound<'_, PyAny>>) -> PyResult<PyProgram> {
        let Some(passes) = passes else {
            let program = opt::optimize(&self.program, Passes::ALL).or_raise()?;
            return Ok(PyProgram::new(program, self.constants.clone()));
        };
        let names: Vec<String> = if passes.is_instance_of::<PyString>() {
            vec![passes.extract()?]
        } else {
            passes.extract().map_err(|_| {
                PyTypeError::new_err(format!(
                    "optimize: passes is a list of names ({}), not {}",
                    pass_names(),
                    passes.get_type()
                ))
            })?
        };
        let mut program = (*self.program).clone();
        for name in &names {
            program = match Passes::by_name(name) {
                Some(pass) => opt::optimize(&program, pass).or_raise()?,
                None if name == "lower" => opt::lower(program).or_raise()?,
                None => {
                    return Err(PyValueError::new_err(format!(
                        "optimize: there is no pass {name:?}; there are {}",
                        pass_names()
                    )));
                }
            };
        }
        Ok(PyProgram::new(program, self.constants.clone()))
    }

    /// Writes it to an ONNX file: inputs and outputs under their names (`x0`, ... and `y`, or `y[0]`, ..., where
    /// they have none), the values that are bound to it as initializers.
    ///
    /// Raises `ValueError` for what ONNX cannot express, with the reason, and `ImportError` without the
    /// package onnx (`pip install 'cotan[onnx]'`).
    fn to_onnx(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let exporter = slf.py().import("cotan._onnx")?;
        exporter.call_method1("export_program", (slf, path))?;
        Ok(())
    }

    /// The program of some of its outputs, given by positions and names, one or a list of them. Equations and
    /// inputs that only the others need are gone.
    ///
    /// Raises `ValueError` for an unknown name, `IndexError` for a position that there is not.
    ///
    /// >>> import cotan as ct
    /// >>> program = ct.trace(lambda x, y: {"sum": x + y, "square": x * x}, 2.0, 3.0)
    /// >>> print(program.prune("square"))
    /// program(%x: f64[]) {
    ///   %1: f64[] = mul(%x, %x)
    ///   return %1 "square"
    /// }
    /// <BLANKLINE>
    fn prune(&self, outputs: &Bound<'_, PyAny>) -> PyResult<PyProgram> {
        let several =
            outputs.is_instance_of::<pyo3::types::PyList>() || outputs.is_instance_of::<PyTuple>();
        let kept: Vec<usize> = if several {
            let all = outputs.try_iter()?;
            all.map(|which| self.output(&which?))
                .collect::<PyResult<_>>()?
        } else {
            vec![self.output(outputs)?]
        };
        let p = &self.program;
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
        let constants = self.constants.iter().enumerate();
        let constants = constants
            .filter(|(i, _)| needed[self.free() + i])
            .map(|(_, value)| value.clone());
        Ok(PyProgram::new(program, constants.collect()))
    }

    /// The program with values for some of its inputs, given by their names; a dictionary gives those whose
    /// names are no identifiers, and a structure all that lie in it. A call gives the other inputs only.
    ///
    /// Raises `TypeError` when no input has such a name, `ValueError` when dtype or shape differ.
    ///
    /// >>> import cotan as ct
    /// >>> ct.trace(lambda x, w: x * w, 2.0, 3.0).bind(w=10.0)(4.0)
    /// np.float64(40.0)
    #[pyo3(signature = (values=None, /, **named))]
    fn bind(
        &self,
        values: Option<&Bound<'_, PyDict>>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyProgram> {
        let mut given = Given::new(&self.program, "bind", self.free());
        for values in [values, named].into_iter().flatten() {
            given.named(values)?;
        }
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
        inputs.extend(self.free() as Var..self.program.num_inputs() as Var);
        constants.extend_from_slice(&self.constants);
        Ok(self.reordered(&inputs, constants))
    }

    /// This program, then another one: the outputs of this one are the first inputs of the other, in order.
    /// Inputs that the other has besides come behind those of this one.
    ///
    /// Raises `ValueError` when there are more outputs than inputs, or dtype or shape of a pair differ.
    fn __rshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<PyProgram>() else {
            return Ok(py.NotImplemented());
        };
        let other = other.get();
        let (taken, count) = (other.free(), self.program.outs().len());
        if count > taken {
            return Err(PyValueError::new_err(format!(
                "compose: the first program has {count} outputs, the second takes {taken} inputs"
            )));
        }
        let program = Program::compose(&self.program, &other.program).or_raise()?;
        // Of the first its free and bound inputs, then of the second the rest and the bound ones.
        let (first, bound) = (self.free(), self.constants.len());
        let second = first + bound..first + bound + taken - count;
        let third = second.end..program.num_inputs();
        let order = (0..first)
            .chain(second)
            .chain(first..first + bound)
            .chain(third)
            .map(|v| v as Var);
        let order: Vec<Var> = order.collect();
        let constants = [&self.constants[..], &other.constants[..]].concat();
        let program = PyProgram::new(program.with_inputs(&order), constants);
        Ok(Py::new(py, program)?.into_any())
    }

    /// The program of the pullback with respect to the marked inputs.
    fn _pullback(&self, wrt: Vec<bool>) -> PyResult<PyProgram> {
        let p = &self.program;
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
        Ok(PyProgram::new(program, self.constants.clone()))
    }

    /// Names for so many positional arguments: of the inputs, or of what their paths start with.
    fn _argument_names(&self, count: usize) -> Vec<&str> {
        let names = self.program.input_names()[..self.free()].iter();
        let names: Vec<&str> = names.map(AsRef::as_ref).collect();
        if count == names.len() {
            return names;
        }
        let mut roots: Vec<&str> = names.into_iter().map(root).collect();
        roots.dedup();
        roots
    }

    /// Runs it: an ndarray or a NumPy scalar for one output, a tuple for several; lazy `Array`s when one of
    /// the arguments is an `Array`.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let p = &self.program;
        let mut given = Given::new(p, "program", self.free());
        given.positional(args)?;
        if let Some(kwargs) = kwargs {
            given.named(kwargs)?;
        }
        let handles = given.handles;
        let mut inputs = given.all()?;
        inputs.extend_from_slice(&self.constants);
        let outs = Array::call(p, &inputs);
        if !handles {
            crate::error::enter(py, |interrupted| {
                Array::force_all(&outs.iter().collect::<Vec<_>>(), interrupted)
            })?;
        }
        let mut objects = Vec::with_capacity(outs.len());
        for out in &outs {
            let scalar = out.shape().is_empty();
            objects.push(if handles {
                let rank = if scalar { Rank::Scalar } else { Rank::Array };
                wrap(py, out.clone(), rank)?
            } else {
                force(py, out)?;
                let kind = if scalar { Kind::Scalar } else { Kind::NdArray };
                present(py, out, kind)?
            });
        }
        if objects.len() == 1 {
            Ok(objects.swap_remove(0))
        } else {
            Ok(PyTuple::new(py, objects)?.into_any())
        }
    }

    /// Saves it to a file, which `ct.load` reads: the program, and the values that it remembers.
    ///
    /// The file appears whole or not at all: an older one stays as it is when something fails.
    ///
    /// Raises `pickle.PicklingError` when the program calls Python code (a hook, an opaque rule) or has a
    /// function with a derivative rule of its own, which the file would forget; `OSError` when the file
    /// cannot be written, `ValueError` when the path is not that of a regular file.
    ///
    /// >>> import cotan as ct, os, tempfile
    /// >>> program = ct.trace(lambda x: x**2 + 1, 3.0)
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     program.save(os.path.join(folder, "square.cotan"))
    /// ...     again = ct.load(os.path.join(folder, "square.cotan"))
    /// >>> float(again(4.0))
    /// 17.0
    fn save(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        crate::saved::save_program(slf, path)
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> PyResult<Bound<'py, PyAny>> {
        crate::saved::reduce_program(slf, protocol)
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// It never changes, so a copy is the same object.
    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    /// The textual form, as `print` shows it: one equation a line, with shapes and dtypes. A number that is
    /// bound to an input stands behind it, an array is told by a comment.
    ///
    /// lines: whether to write behind each equation the file and the line that it comes from, where they were
    /// recorded (`ct.trace(..., lines=True)`).
    #[pyo3(signature = (*, lines=false))]
    fn text(&self, lines: bool) -> PyResult<String> {
        let mut out = String::new();
        let first = self.program.num_inputs();
        let comment = |v: Var| {
            let v = v as usize;
            if v >= first {
                let place = lines.then(|| self.program.site(v - first).place())??;
                let file = place.file.rsplit(['/', '\\']).next().unwrap_or("");
                return Some(format!("{file}:{}", place.line));
            }
            let value = self.constants.get(v.checked_sub(self.free())?)?;
            (!value.shape().is_empty()).then(|| format!("bound, {} bytes", value.nbytes()))
        };
        let number = |v: Var| {
            let value = self.constants.get((v as usize).checked_sub(self.free())?)?;
            let value = value.shape().is_empty().then(|| value.force(&mut || false));
            number_text(value?.ok()?)
        };
        (self.program.listing(&mut out, number, comment))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(out)
    }

    fn __str__(&self) -> PyResult<String> {
        self.text(false)
    }

    fn __repr__(&self) -> String {
        let bound = match self.constants.len() {
            0 => String::new(),
            n => format!(" ({n} bound)"),
        };
        format!(
            "<Program: {} inputs{bound}, {} equations, {} outputs>",
            self.program.num_inputs(),
            self.program.eqns().len(),
            self.program.outs().len()
        )
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<PyProgram>() else {
            return Ok(false);
        };
        let other = other.get();
        if self.constants.len() != other.constants.len()
            || !self.program.same_structure(&other.program)
        {
            return Ok(false);
        }
        for (a, b) in self.constants.iter().zip(&other.constants) {
            if a.id() == b.id() {
                continue;
            }
            let cancel = AtomicBool::new(false);
            let ctx = Ctx::new(&cancel, 1);
            let a = kernels::copy(&force(py, a)?, &ctx).or_raise()?;
            let b = kernels::copy(&force(py, b)?, &ctx).or_raise()?;
            if !a.same_bits(&b) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn __hash__(&self) -> u64 {
        self.program.structural_hash()
    }

    fn __len__(&self) -> usize {
        self.program.eqns().len()
    }
}

fn pass_names() -> String {
    let (a, b, c, d) = PyProgram::PASSES;
    [a, b, c, d].join(", ")
}

/// The cotangent of a result of this name or path.
pub fn cotangent_name(path: &str) -> String {
    let named = path.starts_with(|c: char| c.is_alphabetic() || c == '_');
    format!("{}{path}", if named { "d" } else { "dy" })
}
