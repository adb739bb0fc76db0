//! Python bindings of cotan: conversions and calls, no mathematics.
//!
//! Ten layers, of which each imports those below it alone:
//!
//! - this file registers classes and functions as the module `cotan._core`,
//! - [`prepare`] records a function once and replays it without Python,
//! - [`transforms`] differentiates and batches Python functions,
//! - [`program`] shows, combines, runs and saves what was recorded,
//! - [`interpose`] leads functions of NumPy and other libraries that meet an `Array` to rules of ours,
//! - [`functions`] are the primitives of the core as Python functions,
//! - [`tree`] takes structures apart into arrays and puts them together again,
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
mod transforms;
mod tree;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: cotan::kernels::Allocator = cotan::kernels::Allocator;

/// The compiled part of cotan.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add(
        "NotDifferentiableError",
        module
            .py()
            .get_type::<runtime::error::NotDifferentiableError>(),
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
    array::pyclass::register(array::pyclass::Registered {
        array_ufunc: interpose::protocols::array_ufunc,
        array_function: interpose::protocols::array_function,
        reduce: program::serialize::reduce_array,
    });
    module.add_class::<array::cell::PyArray>()?;
    module.add_class::<tree::treedef::Const>()?;
    module.add_class::<transforms::pullback::PyPullback>()?;
    module.add_class::<prepare::pyclass::PyPrepared>()?;
    module.add_class::<tree::pyclass::PyStructure>()?;
    module.add_class::<program::pyclass::PyProgram>()?;
    module.add_class::<program::equation::PyEquation>()?;
    module.add_class::<program::equation::PyVariable>()?;
    module.add_class::<runtime::profile::PyProfile>()?;
    module.add_class::<ndarray::memory::Memory>()?;
    module.add_class::<interpose::module_attribute::LiftedName>()?;
    module.add_class::<interpose::module_attribute::StandIn>()?;
    functions::primitives::stamped::register(module)?;
    macro_rules! functions {
        ($($path:path),* $(,)?) => { $( module.add_function(wrap_pyfunction!($path, module)?)?; )* };
    }
    functions!(
        functions::primitives::sum,
        functions::primitives::prod,
        functions::primitives::max,
        functions::primitives::min,
        functions::primitives::mean,
        functions::primitives::logsumexp,
        functions::primitives::argmax,
        functions::primitives::argmin,
        functions::primitives::argsort,
        functions::primitives::cumsum,
        functions::primitives::reshape,
        functions::primitives::transpose,
        functions::primitives::broadcast_to,
        functions::primitives::concatenate,
        functions::primitives::stack,
        functions::primitives::flip,
        functions::primitives::pad,
        array::matmul::matmul,
        functions::primitives::cast,
        functions::primitives::gather,
        functions::primitives::scatter_add,
        functions::primitives::scatter,
        functions::primitives::dropgrad,
        array::fancy_index::is_elementwise,
        functions::primitives::is_active,
        functions::primitives::value,
        functions::primitives::peek,
        array::escapes::is_preparing,
        array::escapes::failed_at,
        runtime::hooks::set_hooks,
        runtime::swallowed_errors::refused,
        runtime::swallowed_errors::granted,
        array::escapes::meet,
        array::escapes::num_met,
        array::index::index_update,
        array::index::index_add,
        array::index::fitted,
        functions::table::ufuncs,
        functions::table::table,
        functions::table::apply,
        functions::creation::array,
        functions::creation::buffer,
        functions::creation::number,
        functions::creation::asarray,
        tree::pyclass::structure,
        tree::class_layout::forget_layouts,
        functions::creation::from_dlpack,
        transforms::gradient::gradient,
        transforms::gradient::value_and_gradient,
        transforms::gradient::pullback,
        transforms::trace::trace,
        transforms::vmap::call_vmap,
        array::traced::is_mapped,
        transforms::trace::record,
        program::export::with_gradient,
        program::export::plain,
        runtime::recording_state::isderiving,
        array::traced::is_traced,
        runtime::recording_state::is_tracing,
        runtime::recording_state::nestlevel,
        transforms::checkpoint::call_checkpoint,
        transforms::checkpoint::name_value,
        transforms::custom_rule::call_adjoint,
        transforms::custom_rule::call_jvp,
        transforms::host_callback::call_back,
        functions::special_ufunc::call_special,
        transforms::host_callback::hooked,
        runtime::interpreter_exit::before_exit,
        interpose::install::after_fork_in_child,
        interpose::slot_dispatcher::add_dispatcher,
        interpose::install::add_lifted,
        interpose::install::add_method,
        interpose::install::add_ufuncs,
        interpose::caller::forget_places,
        interpose::install::set_imported,
        runtime::recording_state::switch_lifting,
        runtime::recording_state::is_lifting,
        interpose::contains_array::contains_array,
        runtime::identity::same_items,
        transforms::saved_pullback::load_file,
        program::serialize::write_file,
        transforms::saved_pullback::load_memory,
        program::serialize::restore_array,
        program::pyclass::restore_program,
        transforms::saved_pullback::restore_pullback,
        functions::creation::num_threads,
        functions::creation::set_num_threads,
        functions::creation::simd_level,
        functions::creation::clear_caches,
        transforms::nonfinite::begin_detection,
        transforms::nonfinite::begin_lines,
        transforms::nonfinite::end_detection,
    );
    #[cfg(feature = "fft")]
    functions!(
        functions::fft::usual_fourier,
        functions::fft::fourier,
        functions::fft::real_fourier,
        functions::fft::fourier_real,
    );
    Ok(())
}
