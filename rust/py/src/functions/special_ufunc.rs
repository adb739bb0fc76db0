//! Makes elementwise functions of values that another library computes and derivatives that are written with such
//! functions again.
//!
//! A call is an equation `custom`. Before it runs it becomes one that calls back, with values. When it is
//! differentiated, its rule is traced, then and not before: a derivative may lead to the function itself,
//! so that tracing it ahead would not end.

use std::sync::Arc;

use cotan::autodiff::write_traced;
use cotan::aval::{Shape, broadcast, tuple};
use cotan::kernels::Value;
use cotan::ops;
use cotan::prim::{Custom, Host, Params, V};
use cotan::{Array, Aval, DType, Error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};

use crate::array::cell::{ScalarKind, wrap, wrap_result};
use crate::array::escapes::force;
use crate::array::operand::Operand;
use crate::ndarray::dtype::dtype_from;
use crate::runtime::error::OrRaise;
use crate::runtime::error::attached;
use crate::runtime::exports::exports;

exports!(call_special);

/// A function, the same for all of its calls.
struct Function {
    name: String,
    /// From arrays that have values to a tuple of results.
    compute: Py<PyAny>,
    /// From whether it is the reverse rule, the arguments, their tangents or the cotangents of the
    /// results (None for zero), and what is wanted, to a tuple with an array or None for each.
    rule: Py<PyAny>,
    outputs: Vec<DType>,
}

/// What broadcasting makes of the arguments.
fn common_shape<'a>(name: &str, avals: impl Iterator<Item = &'a Aval>) -> cotan::Result<Shape> {
    let mut shape = Shape::new();
    for aval in avals {
        shape = broadcast(&shape, &aval.shape).ok_or_else(|| {
            Error::Shape(format!(
                "{name}: shapes {} and {} do not broadcast together",
                tuple(&shape),
                tuple(&aval.shape)
            ))
        })?;
    }
    Ok(shape)
}

/// A call with values.
struct Evaluation {
    function: Arc<Function>,
    outputs: Vec<Aval>,
}

impl Host for Evaluation {
    fn name(&self) -> &str {
        &self.function.name
    }

    fn outputs(&self) -> &[Aval] {
        &self.outputs
    }

    fn call(&self, x: &[Value]) -> cotan::Result<Vec<Value>> {
        attached(|py| {
            let mut args = Vec::with_capacity(x.len());
            for value in x {
                args.push(wrap(py, Array::constant(value.clone()), ScalarKind::Array)?);
            }
            let results = self
                .function
                .compute
                .bind(py)
                .call1(PyTuple::new(py, args)?)?;
            results
                .try_iter()?
                .map(|y| force(py, &Operand::expect(&self.function.name, &y?)?.array()?))
                .collect()
        })
    }

    fn derivative(&self, _: &[Aval]) -> cotan::Result<Arc<dyn Host>> {
        Err(Error::NotDifferentiable(format!(
            "{}: it was lowered before it was differentiated",
            self.function.name
        )))
    }
}

/// One call.
struct Special(Arc<Function>);

impl Special {
    /// Writes one direction of the rule.
    fn write<'e>(
        &self,
        reverse: bool,
        x: &[V<'e>],
        linear: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> cotan::Result<Vec<Option<V<'e>>>> {
        let function = &self.0;
        let mut all = x.to_vec();
        all.extend(linear.iter().flatten());
        write_traced(&function.name, &all, |arrays| {
            attached(|py| {
                let object = |array: &Array| wrap(py, array.clone(), ScalarKind::Array);
                let (args, mut rest) = {
                    let (args, rest) = arrays.split_at(x.len());
                    (args, rest.iter())
                };
                let args: Vec<_> = args.iter().map(object).collect::<PyResult<_>>()?;
                let mut tangents = Vec::with_capacity(linear.len());
                for slot in linear {
                    tangents.push(match slot.and_then(|_| rest.next()) {
                        Some(array) => object(array)?,
                        None => py.None().into_bound(py),
                    });
                }
                let wanted: Vec<_> = wanted.iter().map(|&w| PyBool::new(py, w)).collect();
                let found = function.rule.bind(py).call1((
                    reverse,
                    PyTuple::new(py, args)?,
                    PyTuple::new(py, tangents)?,
                    PyTuple::new(py, wanted)?,
                ))?;
                found
                    .try_iter()?
                    .map(|found| {
                        let found = found?;
                        if found.is_none() {
                            return Ok(None);
                        }
                        Operand::expect(&function.name, &found)?.array().map(Some)
                    })
                    .collect()
            })
        })
    }
}

impl Custom for Special {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn num_outputs(&self) -> usize {
        self.0.outputs.len()
    }

    fn infer(&self, x: &[&Aval], output: usize) -> cotan::Result<Aval> {
        let dtype =
            self.0.outputs.get(output).ok_or_else(|| {
                Error::Program(format!("{}: it has no result {output}", self.0.name))
            })?;
        let shape = common_shape(&self.0.name, x.iter().copied())?;
        Ok(Aval {
            dtype: *dtype,
            shape,
        })
    }

    fn lower<'e>(&self, x: &[V<'e>], wanted: &[bool]) -> Vec<Option<V<'e>>> {
        let avals: Vec<Aval> = x.iter().map(|v| v.aval()).collect();
        // The shapes fitted when the call was made.
        let shape = common_shape(&self.0.name, avals.iter()).unwrap_or_default();
        let outputs = self.0.outputs.iter().map(|&dtype| Aval {
            dtype,
            shape: shape.clone(),
        });
        let call: Arc<dyn Host> = Arc::new(Evaluation {
            function: Arc::clone(&self.0),
            outputs: outputs.collect(),
        });
        (wanted.iter().enumerate())
            .map(|(output, &wanted)| {
                let call = Arc::clone(&call);
                wanted.then(|| x[0].apply(ops::HOST, Params::Host { call, output }, &x[1..]))
            })
            .collect()
    }

    fn vjp<'e>(
        &self,
        x: &[V<'e>],
        _y: &[Option<V<'e>>],
        cts: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> cotan::Result<Vec<Option<V<'e>>>> {
        self.write(true, x, cts, wanted)
    }

    fn jvp<'e>(
        &self,
        x: &[V<'e>],
        t: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> cotan::Result<Vec<Option<V<'e>>>> {
        self.write(false, x, t, wanted)
    }

    fn again(&self) -> Arc<dyn Custom> {
        Arc::new(Special(Arc::clone(&self.0)))
    }

    fn host_calls(&self) -> Vec<String> {
        vec![self.0.name.clone()]
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}

/// Calls an elementwise function that is computed with values, with arrays of the dtypes that it takes;
/// gives a tuple of its results, of the dtypes that are said.
#[pyfunction]
#[pyo3(signature = (
    name: "str",
    compute: "Function",
    rule: "Function",
    args: "Args",
    dtypes: "tuple[_DTypeLike, ...]"
) -> "tuple[Array, ...]")]
pub fn call_special<'py>(
    name: &str,
    compute: &Bound<'py, PyAny>,
    rule: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    dtypes: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = args.py();
    let arrays: Vec<Array> = (args.iter())
        .map(|x| Operand::expect(name, &x)?.array())
        .collect::<PyResult<_>>()?;
    let inputs: Vec<&Array> = arrays.iter().collect();
    let outputs: Vec<DType> = (dtypes.iter())
        .map(|dtype| dtype_from(py, &dtype))
        .collect::<PyResult<_>>()?;
    if inputs.is_empty() || outputs.is_empty() {
        let message = format!("{name}: takes at least one argument and gives at least one result");
        return Err(PyValueError::new_err(message));
    }
    let count = outputs.len();
    let call: Arc<dyn Custom> = Arc::new(Special(Arc::new(Function {
        name: name.into(),
        compute: compute.clone().unbind(),
        rule: rule.clone().unbind(),
        outputs,
    })));
    let results = (0..count).map(|output| {
        let rule = Arc::clone(&call);
        let params = Params::Custom { rule, output };
        wrap_result(py, Array::apply(ops::CUSTOM, params, &inputs).or_raise()?)
    });
    PyTuple::new(py, results.collect::<PyResult<Vec<_>>>()?)
}
