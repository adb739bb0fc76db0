//! Python bindings of cotan: conversions and calls, no mathematics.
// Python classes show themselves by `__repr__`, what a function takes by value it takes from Python, and
// docstrings show what Python prints.
#![allow(
    missing_debug_implementations,
    clippy::needless_pass_by_value,
    clippy::doc_link_with_quotes
)]

mod advanced;
mod align;
mod array;
mod asking;
mod axes;
mod batch;
mod bound;
mod buffers;
mod caught;
mod checkpoint;
mod convert;
mod derived;
mod detect;
mod dispatcher_call;
mod dtype;
mod equation;
mod error;
mod exit;
mod export;
mod fill;
mod flatten;
mod fork;
#[cfg(feature = "fft")]
mod fourier;
mod function_call;
mod given;
mod handle;
mod hook;
mod identity;
mod index;
mod inputs;
mod involved;
mod layout;
mod lift;
mod make;
mod method_call;
mod module_class;
mod natural;
mod once;
mod opaque;
mod operators;
mod ops;
mod outline;
mod overlap;
mod pieces;
mod plain;
mod prepared;
mod profile;
mod program;
mod pullback;
mod quick;
mod reach;
mod rebuild;
mod recorded;
mod report;
mod rules;
mod saved;
mod scalar;
mod session;
mod shown;
mod signature;
mod site;
mod special;
mod stand_in;
mod structure;
mod subclass;
mod table;
mod tangent;
mod transforms;
mod tree;
mod ufunc;
mod ufunc_call;
mod variant;
mod vectorcall;
mod view;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: cotan::kernels::Allocator = cotan::kernels::Allocator;

/// The compiled part of cotan.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // NumPy's own functions are found here, where no interrupt of a later computation can meet them.
    module.py().import("numpy")?;
    once::warm_up(module.py())?;
    #[cfg(unix)]
    fork::watch();
    cotan::kernels::set_aside();
    cotan::interrupt::set_hook(error::interrupted);
    cotan::prim::set_site_hook(site::running);
    module.add_class::<array::PyArray>()?;
    module.add_class::<tree::Const>()?;
    module.add_class::<pullback::PyPullback>()?;
    module.add_class::<prepared::PyPrepared>()?;
    module.add_class::<structure::PyStructure>()?;
    module.add_class::<program::PyProgram>()?;
    module.add_class::<equation::PyEquation>()?;
    module.add_class::<equation::PyVariable>()?;
    module.add_class::<profile::PyProfile>()?;
    module.add_class::<convert::Memory>()?;
    module.add_class::<stand_in::LiftedName>()?;
    module.add_class::<stand_in::StandIn>()?;
    ops::stamped::register(module)?;
    macro_rules! functions {
        ($($path:path),* $(,)?) => { $( module.add_function(wrap_pyfunction!($path, module)?)?; )* };
    }
    functions!(
        ops::sum,
        ops::prod,
        ops::max,
        ops::min,
        ops::mean,
        ops::logsumexp,
        ops::argmax,
        ops::argmin,
        ops::argsort,
        ops::cumsum,
        ops::reshape,
        ops::transpose,
        ops::broadcast_to,
        ops::concatenate,
        ops::stack,
        ops::flip,
        ops::pad,
        ops::matmul,
        ops::cast,
        ops::gather,
        ops::scatter_add,
        ops::scatter,
        ops::dropgrad,
        index::is_elementwise,
        ops::is_active,
        ops::value,
        ops::peek,
        session::is_preparing,
        session::failed_at,
        caught::refused,
        caught::granted,
        session::meet,
        session::num_met,
        index::index_update,
        index::index_add,
        index::fitted,
        table::ufuncs,
        table::table,
        table::apply,
        make::array,
        make::buffer,
        make::number,
        make::asarray,
        structure::structure,
        layout::forget_layouts,
        make::from_dlpack,
        transforms::gradient,
        transforms::value_and_gradient,
        transforms::pullback,
        transforms::trace,
        batch::call_vmap,
        batch::is_mapped,
        export::record,
        export::with_gradient,
        export::plain,
        transforms::isderiving,
        transforms::is_traced,
        transforms::is_tracing,
        transforms::nestlevel,
        checkpoint::call_checkpoint,
        checkpoint::name_value,
        rules::call_adjoint,
        rules::call_jvp,
        hook::call_back,
        special::call_special,
        hook::hooked,
        exit::before_exit,
        fork::after_fork_in_child,
        dispatcher_call::add_dispatcher,
        lift::add_lifted,
        lift::add_method,
        lift::add_ufuncs,
        asking::forget_places,
        lift::set_imported,
        lift::switch_lifting,
        lift::is_lifting,
        involved::involves,
        identity::same_items,
        saved::load_file,
        saved::write_file,
        saved::load_memory,
        saved::restore_array,
        saved::restore_program,
        saved::restore_pullback,
        make::num_threads,
        make::set_num_threads,
        make::simd_level,
        make::clear_caches,
        detect::begin_detection,
        detect::begin_lines,
        detect::end_detection,
    );
    #[cfg(feature = "fft")]
    functions!(
        fourier::usual_fourier,
        fourier::fourier,
        fourier::real_fourier,
        fourier::fourier_real,
    );
    Ok(())
}
