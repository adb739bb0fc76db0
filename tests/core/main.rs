//! Tests of the core: one binary, because linking is what takes long.

mod api;
mod binding_layers;
mod checkpoint;
mod columns;
mod common;
mod custom;
mod detect;
mod faults;
mod frames;
mod host;
mod io;
mod layers;
#[cfg(feature = "linalg")]
mod linalg;
#[cfg(feature = "machine-code")]
mod machine_code;
mod matmul_epilogue;
mod matrix_passes;
mod nested;
mod ops;
mod opt;
mod pairs;
mod prepared;
mod program;
mod roll;
mod sched;
mod sites;
mod source_tree;
mod sparsity;
mod vjp;
mod vmap;
