//! Programs as Python objects.

use std::sync::Arc;

use cotan::opt::{self, Passes};
use cotan::{Array, Program};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::{Rank, force, wrap};
use crate::error::OrRaise;
use crate::scalar::Operand;
use crate::tree::{Kind, present};

/// A closed list of equations over primitives.
///
/// `print(program)` shows it, `Program.parse` reads that back, `program(*arrays)` runs it.
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
            program: Arc::new(program),
            constants,
        }
    }

    /// A program whose first inputs have these names.
    pub fn named(
        mut program: Program,
        constants: Vec<Array>,
        names: impl Iterator<Item = String>,
    ) -> PyProgram {
        program.name_inputs(names);
        PyProgram::new(program, constants)
    }
}

/// One equation of a program.
#[pyclass(frozen, name = "Equation", module = "cotan")]
pub struct PyEquation {
    /// The name of the primitive.
    #[pyo3(get)]
    primitive: &'static str,
    /// The variables that it reads.
    #[pyo3(get)]
    inputs: Vec<u32>,
    /// The variable that it defines.
    #[pyo3(get)]
    output: u32,
    /// Shape of the result.
    #[pyo3(get)]
    shape: Vec<usize>,
    /// NumPy's name of the result's dtype.
    #[pyo3(get)]
    dtype: &'static str,
    params: Vec<(&'static str, String)>,
}

#[pymethods]
impl PyEquation {
    /// The parameters, as they are printed.
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for (key, text) in &self.params {
            out.set_item(key, text)?;
        }
        Ok(out)
    }

    fn __repr__(&self) -> String {
        let args: Vec<String> = self.inputs.iter().map(|v| format!("%{v}")).collect();
        format!("%{} = {}({})", self.output, self.primitive, args.join(", "))
    }
}

#[pymethods]
impl PyProgram {
    /// Reads the textual form. Raises `ValueError` with line and column when it does not parse.
    #[staticmethod]
    fn parse(text: &str) -> PyResult<PyProgram> {
        Ok(PyProgram::new(Program::parse(text).or_raise()?, Vec::new()))
    }

    /// Its equations, in order.
    #[getter]
    fn equations(&self) -> Vec<PyEquation> {
        let p = &self.program;
        (p.eqns().iter().enumerate())
            .map(|(k, eqn)| {
                let output = p.result(k);
                PyEquation {
                    primitive: eqn.prim.name(),
                    inputs: p.args(eqn).to_vec(),
                    output,
                    shape: p.aval(output).shape.to_vec(),
                    dtype: p.aval(output).dtype.numpy_name(),
                    params: p.params(eqn).attributes(),
                }
            })
            .collect()
    }

    /// Names of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.program
            .input_names()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// The program after common subexpressions, rewriting and dead code elimination.
    fn optimize(&self) -> PyResult<PyProgram> {
        let program = opt::optimize(&self.program, Passes::ALL).or_raise()?;
        Ok(PyProgram::new(program, self.constants.clone()))
    }

    /// Runs it: an ndarray or a NumPy scalar for one output, a tuple for several.
    #[pyo3(signature = (*args))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let p = &self.program;
        let wanted = p.num_inputs() - self.constants.len();
        if args.len() != wanted {
            return Err(PyTypeError::new_err(format!(
                "the program takes {wanted} arrays, {} given",
                args.len()
            )));
        }
        let mut inputs = Vec::with_capacity(p.num_inputs());
        let mut handles = false;
        for (i, arg) in args.iter().enumerate() {
            let aval = p.aval(i as u32);
            let operand = Operand::expect("program", &arg)?;
            let array = operand.cast(aval.dtype)?;
            handles |= arg.is_instance_of::<crate::array::PyArray>();
            if array.aval() != aval {
                return Err(pyo3::exceptions::PyValueError::new_err(format!(
                    "program: input {i} must be {aval}, not {}",
                    array.aval()
                )));
            }
            inputs.push(array);
        }
        inputs.extend_from_slice(&self.constants);
        let outs = Array::call(&self.program, &inputs);
        let mut objects = Vec::with_capacity(outs.len());
        for out in &outs {
            let scalar = out.shape().is_empty();
            objects.push(if handles {
                wrap(
                    py,
                    out.clone(),
                    if scalar { Rank::Scalar } else { Rank::Array },
                )?
            } else {
                force(py, out)?;
                present(py, out, if scalar { Kind::Scalar } else { Kind::NdArray })?
            });
        }
        if objects.len() == 1 {
            Ok(objects.swap_remove(0))
        } else {
            Ok(PyTuple::new(py, objects)?.into_any())
        }
    }

    fn __str__(&self) -> String {
        self.program.to_string()
    }

    fn __repr__(&self) -> String {
        format!(
            "<Program: {} inputs, {} equations>",
            self.program.num_inputs(),
            self.program.eqns().len()
        )
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<PyProgram>()
            .is_ok_and(|o| o.get().program == self.program)
    }

    fn __hash__(&self) -> u64 {
        self.program.structural_hash()
    }

    fn __len__(&self) -> usize {
        self.program.eqns().len()
    }
}
