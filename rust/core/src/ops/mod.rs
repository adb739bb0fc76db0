//! The primitives, one table entry each, and nothing else.
//!
//! An entry is the only place that knows a primitive: its kernel, its derivative, its ONNX and WGSL
//! forms, its NumPy name, what to test it with. Python functions, stubs, reference pages and the
//! generic tests are generated from it.

#[macro_use]
mod macros;
#[macro_use]
mod elementwise;
#[cfg(feature = "linalg")]
mod decomposition;
mod derivative_control;
#[cfg(feature = "fft")]
mod fourier;
mod index;
mod linalg;
mod long_partials;
mod movement;
mod reduce;
mod rule_methods;
mod window;

use std::sync::OnceLock;

#[cfg(feature = "linalg")]
pub use decomposition::*;
pub use derivative_control::*;
pub use elementwise::*;
#[cfg(feature = "fft")]
pub use fourier::*;
pub use index::*;
pub use linalg::*;
pub use movement::*;
pub use reduce::*;
pub use window::*;

pub use crate::prim::LITERAL;
use crate::prim::Prim;

/// Primitives with infinite derivatives somewhere, whose values programs overwrite or leave out there. Square roots
/// have a mask of their own ([`Partial::Steep`](crate::prim::Partial::Steep)).
pub const STEEP: [Prim; 12] = [
    DIV, RECIPROCAL, LOG, LOG2, LOG10, LOG1P, POW, CBRT, ASIN, ACOS, ACOSH, ATANH,
];

/// Every primitive, in the order of the files and entries.
pub fn table() -> &'static [Prim] {
    static ALL: OnceLock<Vec<Prim>> = OnceLock::new();
    #[allow(unused_qualifications)] // Every file has its own `entries`.
    ALL.get_or_init(|| {
        let tables = [
            elementwise::entries(),
            reduce::entries(),
            &[LITERAL],
            movement::entries(),
            index::entries(),
            linalg::entries(),
            window::entries(),
            #[cfg(feature = "fft")]
            fourier::entries(),
            #[cfg(feature = "linalg")]
            &decomposition::entries(),
            derivative_control::entries(),
        ];
        tables.concat()
    })
}

/// The primitive of this name.
pub fn by_name(name: &str) -> Option<Prim> {
    static SORTED: OnceLock<Vec<Prim>> = OnceLock::new();
    let sorted = SORTED.get_or_init(|| {
        let mut all = table().to_vec();
        all.sort_by_key(|p| p.name());
        all
    });
    sorted
        .binary_search_by_key(&name, |p| p.name())
        .ok()
        .map(|i| sorted[i])
}
