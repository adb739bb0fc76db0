//! Shows the variables and equations of a program as Python objects.

use std::sync::Arc;

use cotan::prim::Params;
use cotan::program::End;
use cotan::{Array, DType, Program};
use num_complex::Complex;
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::ndarray::dtype::descr;
use crate::tree::treedef::{Kind, present};

/// A variable of a program: an input, an output, or what an equation defines.
#[pyclass(frozen, name = "Variable", module = "cotan")]
pub struct PyVariable {
    program: Arc<Program>,
    /// Its number: inputs come first, equation `k` of a program with `n` inputs defines `n + k`.
    #[pyo3(get)]
    index: u32,
    /// The path of the argument or result that it is; empty where there is none.
    #[pyo3(get)]
    name: String,
    bound: Option<Array>,
}

impl PyVariable {
    /// A variable of this number and name, and what is bound to it.
    pub fn new(program: &Arc<Program>, index: u32, name: &str, bound: Option<Array>) -> Self {
        PyVariable {
            program: Arc::clone(program),
            index,
            name: name.into(),
            bound,
        }
    }
}

#[pymethods]
impl PyVariable {
    /// Its shape.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.program.aval(self.index).shape.iter())
    }

    /// Its dtype.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        descr(py, self.program.aval(self.index).dtype)
    }

    /// The value that is bound to it, or None.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.bound.as_ref();
        value.map(|a| present(py, a, Kind::NdArray)).transpose()
    }

    fn __repr__(&self) -> String {
        let aval = self.program.aval(self.index);
        let name = if self.name.is_empty() {
            String::new()
        } else {
            format!(" {:?}", self.name)
        };
        format!("<Variable %{}{name}: {aval}>", self.index)
    }
}

/// One equation of a program: a primitive applied to variables.
#[pyclass(frozen, name = "Equation", module = "cotan")]
pub struct PyEquation {
    program: Arc<Program>,
    at: usize,
}

impl PyEquation {
    /// The equation of this number.
    pub fn new(program: &Arc<Program>, at: usize) -> PyEquation {
        PyEquation {
            program: Arc::clone(program),
            at,
        }
    }

    fn eqn(&self) -> &cotan::program::Eqn {
        &self.program.eqns()[self.at]
    }
}

#[pymethods]
impl PyEquation {
    /// The name of the primitive.
    #[getter]
    fn primitive(&self) -> &'static str {
        self.eqn().prim.name()
    }

    /// The numbers of the variables that it reads.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.program.args(self.eqn()))
    }

    /// The number of the variable that it defines.
    #[getter]
    fn output(&self) -> u32 {
        self.program.result(self.at)
    }

    /// Shape of the result.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.program.aval(self.output()).shape.iter())
    }

    /// Dtype of the result.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        descr(py, self.program.aval(self.output()).dtype)
    }

    /// The parameters by name, as Python values.
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        params(py, self.program.params(self.eqn()))
    }

    /// The file and the line that it comes from, `"path/file.py:12"`; None when lines were not recorded.
    #[getter]
    fn line(&self) -> Option<String> {
        Some(self.program.site(self.at).place()?.to_string())
    }

    fn __repr__(&self) -> String {
        let args: Vec<String> = (self.program.args(self.eqn()).iter())
            .map(|v| format!("%{v}"))
            .collect();
        format!(
            "<Equation %{} = {}{:?}({})>",
            self.output(),
            self.primitive(),
            self.program.params(self.eqn()),
            args.join(", ")
        )
    }
}

/// Parameters of an equation as Python values.
pub fn params<'py>(py: Python<'py>, params: &Params) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let ints = |key: &str, items: &[usize]| out.set_item(key, PyTuple::new(py, items)?);
    let region = |dims: &[cotan::aval::SliceDim]| -> PyResult<()> {
        out.set_item("start", PyTuple::new(py, dims.iter().map(|d| d.start))?)?;
        out.set_item("len", PyTuple::new(py, dims.iter().map(|d| d.len))?)?;
        out.set_item("step", PyTuple::new(py, dims.iter().map(|d| d.step))?)
    };
    let call = |name: &str, output: usize, outputs: usize| -> PyResult<()> {
        out.set_item("name", name)?;
        if outputs > 1 {
            out.set_item("output", output)?;
        }
        Ok(())
    };
    match params {
        Params::None => {}
        Params::Axes(axes) => ints("axes", axes)?,
        Params::Axis(axis) => out.set_item("axis", axis)?,
        Params::Scan { axis, reverse } => {
            out.set_item("axis", axis)?;
            out.set_item("reverse", reverse)?;
        }
        Params::Fourier {
            axes,
            inverse,
            scale,
        } => {
            ints("axes", axes)?;
            out.set_item("inverse", inverse)?;
            out.set_item("scale", scale)?;
        }
        Params::RealFourier {
            axis,
            length,
            folded,
            scale,
        } => {
            out.set_item("axis", axis)?;
            out.set_item("length", length)?;
            out.set_item("folded", folded)?;
            out.set_item("scale", scale)?;
        }
        Params::Shape(shape) => ints("shape", shape)?,
        Params::DType(dtype) => out.set_item("dtype", descr(py, *dtype)?)?,
        Params::Slice(dims) => region(dims)?,
        Params::Region { shape, dims } => {
            ints("shape", shape)?;
            region(dims)?;
        }
        Params::Windows(dims) => {
            out.set_item("size", PyTuple::new(py, dims.iter().map(|d| d.size))?)?;
            out.set_item("len", PyTuple::new(py, dims.iter().map(|d| d.len))?)?;
            out.set_item("pad", PyTuple::new(py, dims.iter().map(|d| d.pad))?)?;
            out.set_item("stride", PyTuple::new(py, dims.iter().map(|d| d.stride))?)?;
            out.set_item(
                "dilation",
                PyTuple::new(py, dims.iter().map(|d| d.dilation))?,
            )?;
            out.set_item(
                "expansion",
                PyTuple::new(py, dims.iter().map(|d| d.expansion))?,
            )?;
        }
        Params::Literal { dtype, value } => {
            out.set_item("dtype", descr(py, *dtype)?)?;
            out.set_item("value", number(py, *dtype, *value)?)?;
        }
        Params::Size(size) => out.set_item("size", size)?,
        Params::Side { right } => out.set_item("right", right)?,
        Params::System {
            lower,
            transposed,
            unit,
        } => {
            out.set_item("lower", lower)?;
            out.set_item("transposed", transposed)?;
            out.set_item("unit", unit)?;
        }
        Params::Custom { rule, output } => call(rule.name(), *output, rule.num_outputs())?,
        Params::Host { call: host, output } => call(host.name(), *output, host.outputs().len())?,
        Params::Loop { of, output } => {
            out.set_item("body", of.body().to_string())?;
            out.set_item("length", of.length)?;
            out.set_item("carries", of.carries)?;
            out.set_item("scanned", of.scanned)?;
            out.set_item("reverse", of.reverse)?;
            match of.end {
                End::Length => {}
                End::Count => out.set_item("end", "count")?,
                End::False => out.set_item("end", "false")?,
            }
            if let Some(budget) = of.budget {
                out.set_item("budget", budget)?;
            }
            out.set_item("output", output)?;
        }
    }
    Ok(out)
}

/// A known number as the Python number of its kind.
fn number(py: Python<'_>, dtype: DType, value: Complex<f64>) -> PyResult<Bound<'_, PyAny>> {
    Ok(if dtype.is_complex() {
        value.into_pyobject(py)?.into_any()
    } else if dtype.is_inexact() {
        value.re.into_pyobject(py)?.into_any()
    } else if dtype == DType::Bool {
        let is = value.re != 0.0;
        is.into_pyobject(py)?.to_owned().into_any()
    } else {
        (value.re as i64).into_pyobject(py)?.into_any()
    })
}
