//! Loops over memory: the only place with `unsafe` code in this crate.
//!
//! Kernels know slices, strides and lanes, never programs or graphs. Each block states why it is
//! sound. Instruction sets are chosen once, at run time (`level`); the same source is compiled for
//! each of them.
#![allow(unsafe_code)]

mod arithmetic;
pub mod band;
mod buffer;
mod buffer_pool;
mod cache;
pub mod collocation;
mod conv;
mod ctx;
pub mod dense;
mod fingerprint;
mod finite;
#[cfg(feature = "fft")]
mod fourier;
mod fused;
mod gemm;
mod gmres;
mod index;
pub mod jacobians;
mod laid_out;
mod lane;
#[cfg(feature = "linalg")]
pub mod linalg;
pub(crate) mod machine_code;
pub mod math;
mod memory_reserve;
mod placed;
mod reduce;
pub mod runge_kutta;
mod scalar_code;
mod shared_pointer;
mod simd_level;
mod strided;
mod value_bytes;
mod view;
mod window;

pub use buffer::{Element, Remote, Storage, Value};
pub use buffer_pool::{
    ALIGN, empty_list, kept_beside, lock_pool, pooled_bytes, release_pool, spare,
};
pub use conv::conv;
pub use ctx::{Ctx, share};
pub use fingerprint::{BLOCK, Sums, block_sums, have_sums};
pub use finite::{Look, contiguous, first_found, for_each};
#[cfg(feature = "fft")]
pub use fourier::{fourier, fourier_real, lock_plans, real_fourier, release_plans};
pub use fused::{
    Fused, FusedBuilder, FusedLayout, ROW_LANES, Recipe, RecipeNode, RecipeOutput, ReduceOp, Reg,
    SHORT_ROW, Split,
};
pub use gemm::{
    is_small_product, know_caches, lanes_of_dots, lock_products, matmul, sum_of_parts,
    terms_together,
};
pub use index::{
    gather, gather_into, gather_laid_out, iota, nonzero, scatter, scatter_add,
    scatter_add_laid_out, scatter_laid_out, searchsorted_into,
};
pub use laid_out::LaidOut;
pub use lane::{LaneOp, make_tables, number, result_dtype};
pub use memory_reserve::{Allocator, set_aside};
pub use placed::Form;
pub use reduce::*;
pub use scalar_code::{
    BoundCode, BoundTurns, Breakdown, Code, Line, ScalarCode, Surroundings, TurnsCode, carve,
    has_scalars, long_cost,
};
pub use simd_level::Level;
pub use strided::{
    Moved, add_into, concatenate_into, concatenate_laid_out, copy, copy_into, copy_whole, laid_out,
    pad_into, pad_laid_out, read_slice, stack_into, stack_laid_out, write_slice,
};
pub use value_bytes::{Lane, stored_bytes};
pub use view::reshape_strides;
pub use window::{window_max, window_pick, window_sum, window_unpick};

/// The name of the instruction set that kernels use here.
pub fn level_name() -> &'static str {
    match Level::best() {
        Level::Baseline => "baseline",
        Level::Avx2 => "avx2",
        Level::Avx512 => "avx512",
    }
}
