//! Maps a function of one example over many.

use cotan::autodiff;
use cotan::transform::{varying, vmap};
use cotan::{Array, Aval, Error, Program, Recording};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::cell::wrap_result;
use crate::array::cell::{ScalarKind, wrap};
use crate::ndarray::memory::Borrow;
use crate::runtime::error::{OrRaise, UnknownValueError, enter, to_py};
use crate::runtime::exports::exports;
use crate::runtime::recording_state::Mapping;
use crate::runtime::recording_state::Tracing;
use crate::runtime::text;
use crate::transforms::run::Nested;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::{Kind, Leaf, Tree, present};

exports!(call_vmap, varying_results);

/// An argument, taken apart if it is a batch.
enum Given<'py> {
    Shared(Bound<'py, PyAny>),
    Batch(Tree),
}

/// Calls a function of one example with arguments of which those marked hold many along their first axes;
/// its results have a first axis of examples. `names` are what errors call the arguments.
#[pyfunction]
#[pyo3(signature = (
    f: "Function",
    args: "Args",
    batched: "list[bool]",
    names: "list[str]"
) -> "Any")]
pub fn call_vmap<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    batched: Vec<bool>,
    names: Vec<String>,
) -> PyResult<Bound<'py, PyAny>> {
    let traced = Traced::new(py, f, args, &batched, &names)?;
    let mapped = vmap(&traced.program, &traced.marks, traced.size).or_raise()?;
    let outs = Array::call(&mapped.into(), &traced.inputs);
    let objects = handed_out(py, &outs, traced.lazy)?;
    traced.tree.build(py, &objects)
}

/// For each array in the results of a function of one example whether it differs between examples.
#[pyfunction]
#[pyo3(signature = (
    f: "Function",
    args: "Args",
    batched: "list[bool]",
    names: "list[str]"
) -> "list[bool]")]
pub fn varying_results(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    batched: Vec<bool>,
    names: Vec<String>,
) -> PyResult<Vec<bool>> {
    let traced = Traced::new(py, f, args, &batched, &names)?;
    Ok(varying(&traced.program, &traced.marks))
}

/// A function of one example, recorded.
struct Traced {
    program: Program,
    /// Which inputs of the program differ between examples.
    marks: Vec<bool>,
    size: usize,
    /// The arguments that are batches, then what the program reads besides.
    inputs: Vec<Array>,
    /// Its results.
    tree: Tree,
    /// Whether an argument holds an `Array`.
    lazy: bool,
}

impl Traced {
    fn new<'py>(
        py: Python<'py>,
        f: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        batched: &[bool],
        names: &[String],
    ) -> PyResult<Traced> {
        let mut flattener = Flattener::new(Borrow::Copy, true, false);
        let mut given = Vec::with_capacity(args.len());
        for ((arg, &batched), name) in args.iter().zip(batched).zip(names) {
            given.push(if batched {
                Given::Batch(flattener.flatten(&arg, Position::Nested, true, name)?)
            } else {
                Given::Shared(arg)
            });
        }
        let leaves = flattener.leaves;
        let size = num_examples(&leaves)?;
        let recording = Recording::new();
        let examples: Vec<Array> = (leaves.iter())
            .map(|leaf| {
                let aval = leaf.array.aval();
                recording.placeholder(&Aval::new(aval.dtype, &aval.shape[1..]))
            })
            .collect();
        let (tree, results) = call_on_example(py, f, given, &examples)?;
        let results: Vec<&Array> = results.iter().collect();
        let (program, shared) = autodiff::trace(&recording, &results, &examples).or_raise()?;
        let mut marks = vec![true; examples.len()];
        marks.resize(program.num_inputs(), false);
        Ok(Traced {
            program,
            marks,
            size,
            lazy: (leaves.iter()).any(|leaf| matches!(leaf.kind, Kind::Array(_))),
            inputs: (leaves.into_iter().map(|leaf| leaf.array))
                .chain(shared)
                .collect(),
            tree,
        })
    }
}

/// How many examples there are: as many along the first axis of each leaf.
fn num_examples(leaves: &[Leaf]) -> PyResult<usize> {
    let mut size: Option<(usize, &str)> = None;
    for leaf in leaves {
        let Some(&length) = leaf.array.shape().first() else {
            return Err(PyValueError::new_err(format!(
                "vmap: {} is a number and has no axis of examples; hold it out of the batch with \
                 in_axes, or repeat it with np.full",
                leaf.path
            )));
        };
        match size {
            Some((other, path)) if other != length => {
                return Err(PyValueError::new_err(format!(
                    "vmap: {path} has {other} examples, {} has {length}",
                    leaf.path
                )));
            }
            _ => size = Some((length, &leaf.path)),
        }
    }
    let size = size.map(|(size, _)| size);
    size.ok_or_else(|| {
        PyValueError::new_err(
            "vmap: no argument is an array with an axis of examples; call the function without vmap, or \
             change in_axes",
        )
    })
}

/// Calls the function on one example, which nobody knows the values of; gives its results, taken apart.
fn call_on_example(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    given: Vec<Given<'_>>,
    examples: &[Array],
) -> PyResult<(Tree, Vec<Array>)> {
    let objects: Vec<Bound<'_, PyAny>> = (examples.iter())
        .map(|example| wrap_result(py, example.clone()))
        .collect::<PyResult<_>>()?;
    let args: Vec<Bound<'_, PyAny>> = (given.into_iter())
        .map(|given| match given {
            Given::Shared(object) => Ok(object),
            Given::Batch(tree) => tree.build(py, &objects),
        })
        .collect::<PyResult<_>>()?;
    let _recording = Nested::enter(py, false)?;
    // Indices are variables too.
    let _marks = (Tracing::enter(), Mapping::enter());
    let y = f
        .call1(PyTuple::new(py, args)?)
        .map_err(|error| looked_at(py, error))?;
    if let Some(aval) = Mapping::take_looked() {
        return Err(looked_at(py, to_py(Error::UnknownValue(aval))));
    }
    let mut results = Flattener::new(Borrow::Copy, false, false);
    let tree = results.flatten(&y, Position::Direct, true, "")?;
    let arrays = results.leaves.into_iter().map(|leaf| leaf.array).collect();
    Ok((tree, arrays))
}

/// Results as objects: `Array`s where arguments were, `lazy`, or else computed where that ends no gradient.
fn handed_out<'py>(
    py: Python<'py>,
    outs: &[Array],
    lazy: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if lazy {
        let array = |out: &Array| wrap(py, out.clone(), ScalarKind::Array);
        return outs.iter().map(array).collect();
    }
    let waiting: Vec<&Array> = outs.iter().filter(|out| !out.is_active()).collect();
    enter(py, |interrupted| Array::force_all(&waiting, interrupted))?;
    (outs.iter())
        .map(|out| present(py, out, Kind::NdArray))
        .collect()
}

/// That the value of an example is not known is told in the words of examples.
fn looked_at(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<UnknownValueError>(py) {
        return error;
    }
    let Ok(aval) = error.value(py).getattr("aval") else {
        return error;
    };
    let aval = match text::text(&aval) {
        Ok(aval) => aval,
        Err(failed) => return failed,
    };
    let told = PyValueError::new_err(format!(
        "vmap: the function looks at a value ({aval}) that differs between examples: it cannot be printed, \
         branched on or handed to other libraries; choose with where(), or map with a loop"
    ));
    told.set_cause(py, Some(error));
    told
}
