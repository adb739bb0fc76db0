//! Python bindings of cotan: conversions and calls, no mathematics.
//!
//! Eleven layers, of which each imports those below it alone:
//!
//! - this file registers classes and functions as the module `cotan._core`,
//! - [`prepare`] records a function once and replays it without Python,
//! - [`transforms`] differentiates and batches Python functions,
//! - [`program`] shows, combines, runs and saves what was recorded,
//! - [`interpose`] overrides functions of NumPy and other libraries where they are called with an `Array`,
//! - [`functions`] are the primitives of the core as Python functions,
//! - [`tree`] takes structures apart into arrays and puts them together again,
//! - [`solvers`] is what solvers of SciPy need: keys of functions, calls and steps,
//! - [`array`] is the class `Array`: views, indexing, operators, conversions,
//! - [`ndarray`] reads and makes NumPy's arrays, dtypes and memory,
//! - [`runtime`] is what all need of the interpreter: errors, signals, fork and exit.
// Python classes show themselves by `__repr__`, what a function takes by value it takes from Python, and
// docstrings show what Python prints.
#![allow(
    missing_debug_implementations,
    clippy::needless_pass_by_value,
    clippy::doc_link_with_quotes
)]

mod array;
mod functions;
mod interpose;
mod ndarray;
mod prepare;
mod program;
mod runtime;
mod solvers;
mod transforms;
mod tree;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[global_allocator]
static ALLOCATOR: cotan::kernels::Allocator = cotan::kernels::Allocator;

/// The compiled part of cotan. A free-threaded interpreter switches its lock on when it imports this: entries of functions
/// are exchanged in place, and no test has shown that other threads may call them meanwhile.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__features__", features(module.py())?)?;
    module.add(
        "NotDifferentiableError",
        module
            .py()
            .get_type::<runtime::error::NotDifferentiableError>(),
    )?;
    module.add(
        "UnknownValueError",
        module.py().get_type::<runtime::error::UnknownValueError>(),
    )?;
    module.add(
        "ReplayMismatch",
        module.py().get_type::<runtime::error::ReplayMismatch>(),
    )?;
    // NumPy's own functions are found here, where no interrupt of a later computation can meet them.
    module.py().import("numpy")?;
    runtime::once_cell::warm_up(module.py());
    ndarray::dtype::warm_up(module.py())?;
    #[cfg(unix)]
    runtime::fork::watch();
    cotan::kernels::set_aside();
    cotan::interrupt::set_hook(runtime::error::interrupted);
    cotan::prim::set_site_hook(runtime::source_line::running);
    #[cfg(feature = "wgpu")]
    cotan_wgpu::register();
    array::pyclass::register(array::pyclass::Registered {
        array_ufunc: interpose::protocols::array_ufunc,
        array_function: interpose::protocols::array_function,
        reduce: program::serialize::reduce_array,
    });
    module.add_class::<array::cell::PyArray>()?;
    module.add_class::<tree::treedef::Const>()?;
    module.add_class::<transforms::pullback::PyPullback>()?;
    module.add_class::<transforms::pushforward::PyPushforward>()?;
    module.add_class::<prepare::pyclass::PyPrepared>()?;
    module.add_class::<tree::pyclass::PyStructure>()?;
    module.add_class::<program::pyclass::PyProgram>()?;
    module.add_class::<program::equation::PyEquation>()?;
    module.add_class::<program::equation::PyVariable>()?;
    module.add_class::<runtime::profile::PyProfile>()?;
    module.add_class::<solvers::collocation::PyCollocation>()?;
    module.add_class::<solvers::runge_kutta::PyRungeKutta>()?;
    module.add_class::<solvers::function_key::PyFunctionKey>()?;
    module.add_class::<solvers::names_read::PyNamesRead>()?;
    module.add_class::<solvers::noted_calls::PyNotedCalls>()?;
    module.add_class::<solvers::noted_calls::PyRepeatedCalls>()?;
    module.add_class::<solvers::steps::PySteps>()?;
    module.add_class::<ndarray::export::Memory>()?;
    module.add_class::<interpose::override_function::OverrideFunction>()?;
    module.add_class::<runtime::recording_state::Scope>()?;
    module.add_class::<array::device::PyDevice>()?;
    runtime::register(module)?;
    array::register(module)?;
    tree::register(module)?;
    solvers::solutions::register(module)?;
    solvers::names_read::register(module)?;
    functions::register(module)?;
    interpose::register(module)?;
    program::register(module)?;
    transforms::register(module)?;
    prepare::register(module)
}

/// The features that the module was built with.
fn features(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    let all = [
        ("fft", cfg!(feature = "fft")),
        ("linalg", cfg!(feature = "linalg")),
        ("machine-code", cfg!(feature = "machine-code")),
        ("wgpu", cfg!(feature = "wgpu")),
    ];
    PyTuple::new(
        py,
        all.into_iter()
            .filter(|x| x.1)
            .map(|x| x.0)
            .collect::<Vec<_>>(),
    )
}
