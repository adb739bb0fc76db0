//! Calls rules that cannot be traced, because they work on values.
//!
//! The function is called at once, with plain arrays. Its pullback is called back with values when a
//! cotangent is computed. Both are equations of the program too, so that a program which is run again
//! with other arguments calls the function again instead of repeating what it gave.

use std::sync::{Arc, Mutex, PoisonError};

use cotan::autodiff::{Tracer, project};
use cotan::kernels::Value;
use cotan::ops;
use cotan::prim::{Host, Params};
use cotan::{Array, Aval, Error};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::cell::{ScalarKind, wrap};
use crate::array::escapes::compute;
use crate::array::escapes::force;
use crate::ndarray::memory::Borrow;
use crate::ndarray::memory::to_owned;
use crate::runtime::error::OrRaise;
use crate::runtime::error::attached;
use crate::transforms::rule_call::Call;
use crate::transforms::rule_call::Pull;
use crate::transforms::rule_call::with_pullback;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::{Kind, Tree, present};

/// The kind of a plain value.
fn plain(kind: Kind) -> Kind {
    match kind.scalar_kind() {
        ScalarKind::Array => Kind::NdArray,
        ScalarKind::NumpyScalar => Kind::Scalar,
        ScalarKind::PythonNumber => Kind::Number,
    }
}

/// One result of the function, and the pullback that came with it.
struct Made {
    x: Vec<Value>,
    y: Vec<Value>,
    tree: Tree,
    kinds: Vec<Kind>,
    back: Py<PyAny>,
}

/// A call of an opaque rule.
struct Rule {
    function: Py<PyAny>,
    kwargs: Py<PyDict>,
    pull: Pull,
    /// What was passed for the leaves that are not differentiated.
    constants: Vec<Option<Py<PyAny>>>,
    /// What came of the last arguments.
    last: Mutex<Option<Arc<Made>>>,
}

impl Rule {
    /// The result for these values of the active leaves: the last one, or a new one.
    fn made(&self, py: Python<'_>, x: &[Value]) -> PyResult<Arc<Made>> {
        let last = self
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(last) = last
            && last.x.iter().zip(x).all(|(a, b)| a.same_bits(b))
        {
            return Ok(last);
        }
        let mut objects: Vec<Bound<'_, PyAny>> = Vec::with_capacity(self.constants.len());
        for constant in &self.constants {
            objects.push(match constant {
                Some(object) => object.bind(py).clone(),
                None => py.None().into_bound(py),
            });
        }
        for (&i, value) in self.pull.active.iter().zip(x) {
            let array = Array::constant(value.clone());
            objects[i] = present(py, &array, plain(self.pull.kinds[i]))?;
        }
        let args: Vec<Bound<'_, PyAny>> = (self.pull.trees.iter())
            .map(|tree| tree.build(py, &objects))
            .collect::<PyResult<_>>()?;
        let kwargs = self.kwargs.bind(py);
        let result = self
            .function
            .bind(py)
            .call(PyTuple::new(py, args)?, Some(kwargs))?;
        let (y, back) = with_pullback(&self.pull.name, &result)?;
        let mut flattener = Flattener::new(Borrow::Copy, false, false);
        let tree = flattener.flatten(&y, Position::Nested, true, "")?;
        let mut values = Vec::with_capacity(flattener.leaves.len());
        for leaf in &flattener.leaves {
            if leaf.array.is_active() {
                return Err(PyTypeError::new_err(format!(
                    "adjoint {}: the result of an opaque rule depends on an array that is being \
                     differentiated but is not among its arguments; pass it as one, or hold it constant \
                     with ct.dropgrad",
                    self.pull.name
                )));
            }
            values.push(force(py, &leaf.array)?);
        }
        let made = Arc::new(Made {
            x: x.to_vec(),
            y: values,
            tree,
            kinds: flattener.leaves.iter().map(|l| l.kind).collect(),
            back: back.unbind(),
        });
        let old =
            (self.last.lock().unwrap_or_else(PoisonError::into_inner)).replace(Arc::clone(&made));
        drop(old);
        Ok(made)
    }
}

/// One of the two directions.
struct Half {
    rule: Arc<Rule>,
    outputs: Vec<Aval>,
    /// Whether it calls the pullback: with the arguments, then the cotangents.
    reverse: bool,
}

impl Half {
    /// A function that is called again has to give arrays like those of the first time.
    fn fits(&self, made: &Made) -> PyResult<()> {
        let given: Vec<&Aval> = made.y.iter().map(Value::aval).collect();
        if given.iter().copied().eq(&self.outputs) {
            return Ok(());
        }
        let list = |avals: &[&Aval]| {
            let all: Vec<String> = avals.iter().map(ToString::to_string).collect();
            all.join(", ")
        };
        Err(PyValueError::new_err(format!(
            "adjoint {}: called again for other values, the opaque rule gave {}, but {} when it was traced; \
             trace it anew for arguments like these",
            self.rule.pull.name,
            list(&given),
            list(&self.outputs.iter().collect::<Vec<_>>())
        )))
    }

    fn pull(&self, py: Python<'_>, x: &[Value]) -> PyResult<Vec<Value>> {
        let pull = &self.rule.pull;
        let (x, cts) = x.split_at(pull.active.len());
        let made = self.rule.made(py, x)?;
        let mut cts = cts.iter();
        let mut objects = Vec::with_capacity(made.y.len());
        for (y, &kind) in made.y.iter().zip(&made.kinds) {
            let ct = if y.dtype().is_inexact() {
                cts.next()
            } else {
                None
            };
            objects.push(match ct {
                Some(ct) => Some(present(py, &Array::constant(ct.clone()), plain(kind))?),
                None => None,
            });
        }
        let dy = made.tree.tangents(py, &objects)?;
        let dy = dy.unwrap_or_else(|| py.None().into_bound(py));
        let found = pull.call(made.back.bind(py), dy)?;
        let who = format!("adjoint {}", pull.name);
        (found.iter().zip(&pull.active).zip(&self.outputs))
            .map(|((ct, &i), aval)| {
                let zero = || Array::number(aval.dtype, cotan::Number::Float(0.0));
                let ct = ct.clone().unwrap_or_else(zero);
                let ct = project(&who, "cotangent", &pull.paths[i], &ct, aval).or_raise()?;
                force(py, &ct)
            })
            .collect()
    }
}

impl Host for Half {
    fn name(&self) -> &str {
        &self.rule.pull.name
    }

    fn outputs(&self) -> &[Aval] {
        &self.outputs
    }

    fn call(&self, x: &[Value]) -> cotan::Result<Vec<Value>> {
        attached(|py| {
            if self.reverse {
                self.pull(py, x)
            } else {
                let made = self.rule.made(py, x)?;
                self.fits(&made)?;
                Ok(made.y.clone())
            }
        })
    }

    fn derivative(&self, _: &[Aval]) -> cotan::Result<Arc<dyn Host>> {
        Err(Error::NotDifferentiable(format!(
            "adjoint {}: an opaque rule has a first derivative only; write it without opaque=True, or hold \
             what it gives constant with ct.dropgrad",
            self.rule.pull.name
        )))
    }
}

/// Calls an opaque rule.
pub fn call<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    call: Call,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    crate::array::escapes::called(function);
    let mut constants = Vec::with_capacity(call.arrays.len());
    for (array, &kind) in call.arrays.iter().zip(&call.pull.kinds) {
        constants.push(if array.is_active() {
            None
        } else {
            Some(present(py, array, plain(kind))?.unbind())
        });
    }
    let sources = call.sources();
    let mut x = Vec::with_capacity(sources.len());
    for source in &sources {
        x.push(to_owned(compute(py, source)?)?);
    }
    let tracer = if sources.is_empty() {
        None
    } else {
        Some(call.tracer("adjoint")?)
    };
    let rule = Arc::new(Rule {
        function: function.clone().unbind(),
        kwargs: kwargs.copy()?.unbind(),
        pull: call.pull,
        constants,
        last: Mutex::new(None),
    });
    let made = rule.made(py, &x)?;
    let scalar_kinds = made.kinds.iter().map(|&k| k.scalar_kind());
    let Some(tracer) = tracer.filter(|_| !made.y.is_empty()) else {
        let mut objects = Vec::with_capacity(made.y.len());
        for (y, &kind) in made.y.iter().zip(&made.kinds) {
            objects.push(present(py, &Array::constant(y.clone()), plain(kind))?);
        }
        return made.tree.build(py, &objects);
    };
    let outs = traced(&rule, &made, tracer, &sources)?;
    let mut objects = Vec::with_capacity(outs.len());
    for (out, scalar_kind) in outs.into_iter().zip(scalar_kinds) {
        objects.push(wrap(py, out, scalar_kind)?);
    }
    made.tree.build(py, &objects)
}

/// The results of a call whose arguments are being differentiated.
fn traced(
    rule: &Arc<Rule>,
    made: &Made,
    mut tracer: Tracer,
    sources: &[Array],
) -> PyResult<Vec<Array>> {
    let forward: Arc<dyn Host> = Arc::new(Half {
        rule: Arc::clone(rule),
        outputs: made.y.iter().map(|y| y.aval().clone()).collect(),
        reverse: false,
    });
    let reverse: Arc<dyn Host> = Arc::new(Half {
        rule: Arc::clone(rule),
        outputs: sources.iter().map(|x| x.aval().clone()).collect(),
        reverse: true,
    });
    let mut inputs: Vec<Array> = tracer.args().to_vec();
    let apply = |call: &Arc<dyn Host>, output: usize, inputs: &[Array]| {
        let call = Arc::clone(call);
        let inputs: Vec<&Array> = inputs.iter().collect();
        Array::apply(ops::HOST, Params::Host { call, output }, &inputs).or_raise()
    };
    let outs = (made.y.iter().enumerate())
        .map(|(i, y)| Ok(apply(&forward, i, &inputs)?.known_as(y.clone())))
        .collect::<PyResult<_>>()?;
    inputs.extend(tracer.cotangents(outs).into_iter().flatten());
    let cts = (0..sources.len())
        .map(|i| Ok(Some(apply(&reverse, i, &inputs)?)))
        .collect::<PyResult<Vec<_>>>()?;
    tracer.reverse(&cts).or_raise()
}
