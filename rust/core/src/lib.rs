//! Reverse-mode automatic differentiation: cotangents are lazy, and they are data.
//!
//! A function of [`Array`]s is recorded while it runs; nothing is computed until somebody reads a
//! value. What was recorded is closed into a [`Program`], a flat list of equations, and transforms
//! turn programs into programs: the reverse pass, the optimiser, the division into what is computed
//! once and what waits for a cotangent.
//!
//! # A tour
//!
//! Arrays come from `ndarray` and go back; operations check dtypes and shapes at once and give
//! `Result`s. Numbers take the dtype of the array beside them.
//!
//! ```
//! use cotan::{Arg, Array, constant, gradient, ones_like, pullback, value_and_gradient};
//! use ndarray::array;
//!
//! # fn main() -> cotan::Result<()> {
//! let x = Array::from_ndarray(&array![[0.0, 1.0], [2.0, 3.0]])?;
//! let w = Array::from_ndarray(&array![0.5, -0.5])?;
//! let model = |v: &[Array]| v[0].matmul(&v[1])?.tanh();
//! let loss = |v: &[Array]| model(v)?.square()?.mean(..);
//!
//! // What is held constant costs nothing and has no gradient.
//! let (y, g) = value_and_gradient(loss, &[constant(&x), Arg::from(&w)])?;
//! assert!(y.item()? > 0.0);
//! assert!(g[0].is_none());
//! assert_eq!(g[1].as_ref().unwrap().to_ndarray::<f64>()?.shape(), [2]);
//!
//! // A pullback is a reusable linear map. Its results are thunks: reading one computes it, and
//! // nothing that only the others need.
//! let (out, back) = pullback(model, &[Arg::from(&x), Arg::from(&w)])?;
//! let cts = back.apply(&ones_like(&out)?)?;
//! let dw = cts[1].as_ref().unwrap();
//! assert!(!dw.is_forced());
//! dw.evaluate()?;
//! assert!(dw.is_forced() && !cts[0].as_ref().unwrap().is_forced());
//!
//! // It is a program, which can be printed, read back and run.
//! let text = back.program().to_string();
//! assert_eq!(&cotan::Program::parse(&text)?, back.program());
//!
//! // Gradients nest: the gradient of the sum of a gradient.
//! let slope = |v: &[Array]| gradient(loss, &[constant(&x), Arg::from(&v[0])])?[1].as_ref().unwrap().sum(..);
//! let second = gradient(slope, &[Arg::from(&w)])?;
//! assert!(second[0].is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Tape, pullback, fused program
//!
//! The same by hand, a layer at a time. A [`Recording`] is the tape: what is computed from its leaves is
//! noted, and [`autodiff::trace`] closes it into a program of the leaves.
//!
//! ```
//! use cotan::{Arg, Array, Recording, autodiff, ones_like, pullback, sched};
//!
//! # fn main() -> cotan::Result<()> {
//! let x = Array::from_slice(&[3], &[0.0, 0.5, 1.0])?;
//! let recording = Recording::new();
//! let leaf = recording.leaf(&x);
//! let y = leaf.sin()?.mul(&leaf.cos()?)?;
//! let (program, _) = autodiff::trace(&recording, &[&y], &[leaf])?;
//! assert_eq!(program.num_inputs(), 1);
//! assert_eq!(program.eqns().len(), 3);
//!
//! // All three are one group: they share a pass over memory, tile by tile.
//! let groups = sched::groups(&program);
//! assert!(groups[0].is_some() && groups.iter().all(|group| *group == groups[0]));
//!
//! // The pullback of the function is a program, too: of the cotangent, and of what it keeps.
//! let f = |v: &[Array]| v[0].sin()?.mul(&v[0].cos()?);
//! let (out, back) = pullback(f, &[Arg::from(&x)])?;
//! let dx = back.apply(&ones_like(&out)?)?[0].clone().unwrap();
//! // The derivative of sin(x) cos(x) is cos(2 x).
//! for (got, x) in dx.to_ndarray::<f64>()?.iter().zip([0.0_f64, 0.5, 1.0]) {
//!     assert!((got - (2.0 * x).cos()).abs() < 1e-15);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`custom`] and [`custom_jvp`] give a function a derivative rule of its own; [`trace`] shows what a function records;
//! [`Array::dropgrad`] holds a value constant from there on.
//!
//! # What is where
//!
//! [`aval`] (dtypes and shapes), [`prim`] and [`ops`] (the table of primitives), [`program`],
//! [`transform`], [`opt`], [`sched`] (fusion, memory, threads), [`sparsity`] (patterns and colorings of Jacobians), [`kernels`] (loops over memory, the
//! only unsafe code), [`tape`] (what is recorded), [`array`](mod@array) (operations, forcing), [`inspect`] (reports, origins of NaN),
//! [`autodiff`] (gradients, pullbacks, rules). [`testing`] holds the checks that
//! the primitives pass, for rules of your own.
#![deny(missing_docs)]

#[macro_use]
pub mod ops;

mod api;
pub mod array;
pub mod autodiff;
pub mod aval;
pub mod error;
pub mod inspect;
pub mod interrupt;
pub mod io;
pub mod kernels;
pub mod opt;
pub mod prim;
pub mod program;
pub mod sched;
pub mod sparsity;
pub mod tape;
pub mod testing;
pub mod transform;
pub mod util;

pub use api::{Arg, Pullback, constant, gradient, ones_like, pullback, trace, value_and_gradient};
pub use array::{Array, Number, Operand};
pub use autodiff::{Prepared, custom, custom_jvp, custom_many};
pub use aval::{Aval, DType};
pub use error::{Error, Foreign, Result};
pub use program::Program;
pub use tape::Recording;
