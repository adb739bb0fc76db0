//! Defines the Python class `Program`: reading, calling, combining and saving what was recorded.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use cotan::kernels::{self, Ctx, Value};
use cotan::opt::{self, Passes};
use cotan::prim::Var;
use cotan::program::number_text;
use cotan::sched::{self, Replay};
use cotan::{Array, Program};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::array::cell::{ScalarKind, wrap};
use crate::array::escapes::force;
use crate::program::bind_inputs::{Given, root};
use crate::program::equation::{PyEquation, PyVariable};
use crate::program::serialize::{joined, reduce_program, save_program};
use crate::runtime::error::{OrRaise, enter};
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::text;
use crate::tree::schema::invalid;
use crate::tree::treedef::{Kind, hand_over, present};
use cotan::io::{Kind as SavedKind, Saved};

exports!(restore_program);

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
    /// How it is run, once it has been.
    replay: OnceLock<Arc<Replay>>,
}

impl PyProgram {
    /// A program, with values for its last inputs.
    pub fn new(program: Program, constants: Vec<Array>) -> PyProgram {
        PyProgram {
            program: Arc::new(program.compacted()),
            constants,
            replay: OnceLock::new(),
        }
    }

    /// One that was recorded: with loops where it is long and repeats itself.
    pub fn recorded(program: Program, constants: Vec<Array>) -> PyResult<PyProgram> {
        let program = opt::roll_long(program).or_raise()?;
        Ok(PyProgram::new(program, constants))
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
    pub fn free(&self) -> usize {
        self.program.num_inputs() - self.constants.len()
    }

    /// The outputs for inputs whose values are known, at once.
    fn run<'py>(&self, py: Python<'py>, inputs: &[Array]) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let values = enter(py, |interrupted| {
            Array::force_all(&inputs.iter().collect::<Vec<_>>(), interrupted)?;
            let values = inputs.iter().map(|x| x.evaluate().cloned());
            let values = values.collect::<Result<Vec<_>, _>>()?;
            let replay = if let Some(replay) = self.replay.get() {
                replay
            } else {
                // Outside of the cell, which the child of a fork must not meet half made.
                let replay = sched::replay(&self.program)?;
                self.replay.get_or_init(|| replay)
            };
            replay.run(&values, &Arc::default(), &[], interrupted)
        })?;
        let output = |value: Value| {
            let kind = if value.shape().is_empty() {
                Kind::Scalar
            } else {
                Kind::NdArray
            };
            hand_over(py, Array::constant(value), kind)
        };
        values.into_iter().map(output).collect()
    }

    fn variable_at(&self, at: usize) -> PyVariable {
        let name = self.program.input_names().get(at).map_or("", AsRef::as_ref);
        let bound = at
            .checked_sub(self.free())
            .and_then(|i| self.constants.get(i))
            .cloned();
        PyVariable::new(&self.program, at as Var, name, bound)
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
    ///
    /// >>> import cotan as ct
    /// >>> ct.trace(lambda x: ct.sin(x), 1.0).variable(0).name
    /// 'x'
    fn variable(&self, index: &Bound<'_, PyAny>) -> PyResult<PyVariable> {
        let number = index.call_method0("__index__").map_err(|_| {
            PyTypeError::new_err(format!(
                "variable: a variable is given by its number, not {}",
                text::class_of(index)
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
                    "the program has {range}, no %{}",
                    text::text(&number)?
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
                    text::class_of(passes)
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

    /// The program with loops where it repeats itself: the same body of equations, again and again, becomes one `loop`
    /// with a body. Results have the same bits.
    ///
    /// Turns of a loop are compared one by one; what differs stays as it is. The text, saved files and exports of such a
    /// program grow with the body, not with the number of turns.
    ///
    /// >>> import cotan as ct
    /// >>> def f(x):
    /// ...     for _ in range(100):
    /// ...         x = ct.sin(x) + 0.1
    /// ...     return x
    /// >>> program = ct.trace(f, 1.0)
    /// >>> len(program), len(program.rolled())
    /// (201, 1)
    fn rolled(&self) -> PyResult<PyProgram> {
        let program = opt::roll(&self.program).or_raise()?;
        Ok(PyProgram::new(program, self.constants.clone()))
    }

    /// Writes it to an ONNX file: inputs and outputs under their names (`x0`, ... and `y`, or `y[0]`, ..., where
    /// they have none), the values that are bound to it as initializers.
    ///
    /// Raises `ValueError` for what ONNX cannot express, with the reason, and `ImportError` without the
    /// package onnx (`pip install 'cotan[onnx]'`).
    fn to_onnx(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        hooks::EXPORT_ONNX.get(slf.py())?.call1((slf, path))?;
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
    fn prune(&self, outputs: &Bound<'_, PyAny>) -> PyResult<PyProgram> {
        self.pruned(outputs)
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
        self.bound(given)
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
        let program = self.followed_by(other.get())?;
        Ok(Py::new(py, program)?.into_any())
    }

    /// The program of the pullback with respect to the marked inputs.
    fn _pullback(&self, wrt: Vec<bool>) -> PyResult<PyProgram> {
        self.pulled_back(wrt)
    }

    /// The program for as many examples; the marked inputs have a new first axis.
    fn _vmap(&self, batched: Vec<bool>, size: usize) -> PyResult<PyProgram> {
        self.mapped(batched, size)
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
        let is_given_lazy = given.contains_array;
        let mut inputs = given.all()?;
        inputs.extend_from_slice(&self.constants);
        let lazy = is_given_lazy || inputs.iter().any(Array::is_active);
        // A profile attributes what is computed to the call.
        let is_watched = cotan::inspect::is_detecting() || sched::is_profiled();
        let is_plain = !lazy && !p.has_host_calls();
        if is_plain && !is_watched {
            return joined_outputs(py, self.run(py, &inputs)?);
        }
        let outs = Array::call(p, &inputs);
        if !lazy {
            enter(py, |interrupted| {
                Array::force_all(&outs.iter().collect::<Vec<_>>(), interrupted)
            })?;
        }
        let mut objects = Vec::with_capacity(outs.len());
        for out in &outs {
            let scalar = out.shape().is_empty();
            objects.push(if lazy {
                let scalar_kind = if scalar {
                    ScalarKind::NumpyScalar
                } else {
                    ScalarKind::Array
                };
                wrap(py, out.clone(), scalar_kind)?
            } else {
                force(py, out)?;
                let kind = if scalar { Kind::Scalar } else { Kind::NdArray };
                present(py, out, kind)?
            });
        }
        joined_outputs(py, objects)
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
        save_program(slf.py(), slf.get().core(), slf.get().constants(), path)
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> PyResult<Bound<'py, PyAny>> {
        reduce_program(slf.py(), slf.get().core(), slf.get().constants(), protocol)
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
    ///
    /// >>> import cotan as ct
    /// >>> print(ct.trace(lambda x: ct.sin(x), 1.0).text())
    /// program(%x: f64[]) {
    ///   %1: f64[] = sin(%x)
    ///   return %1
    /// }
    #[pyo3(signature = (*, lines=false))]
    fn text<'py>(&self, py: Python<'py>, lines: bool) -> PyResult<Bound<'py, PyString>> {
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
        long_text(py, &out)
    }

    fn __str__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.text(py, false)
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

/// A text that may be longer than there is memory for: a `MemoryError` then.
pub fn long_text<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyString>> {
    PyString::from_bytes(py, text.as_bytes())
}

fn pass_names() -> String {
    let (a, b, c, d) = PyProgram::PASSES;
    [a, b, c, d].join(", ")
}

/// The program that was pickled.
#[pyfunction]
#[pyo3(signature = (head: "bytes", blobs: "Sequence[object]") -> "Program")]
pub fn restore_program(head: &[u8], blobs: Vec<Bound<'_, PyAny>>) -> PyResult<PyProgram> {
    program_of(joined(head, blobs)?)
}

/// The program of a container.
pub fn program_of(saved: Saved) -> PyResult<PyProgram> {
    if saved.kind != SavedKind::Program {
        return Err(invalid("this is a saved pullback, not a program"));
    }
    saved.expect_sections(&[]).or_raise()?;
    let constants = saved.arrays.into_iter().map(Array::constant).collect();
    Ok(PyProgram::new(saved.program, constants))
}

/// What a call gives: its only output, or a tuple of them.
fn joined_outputs<'py>(
    py: Python<'py>,
    mut outputs: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if outputs.len() == 1 {
        Ok(outputs.swap_remove(0))
    } else {
        Ok(PyTuple::new(py, outputs)?.into_any())
    }
}
