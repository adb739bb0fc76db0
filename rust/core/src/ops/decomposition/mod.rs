//! Decompositions of matrices: LU, Cholesky, QR, eigenvalues, singular values, Sylvester's equation.
//!
//! A decomposition with several parts is one primitive, which packs them along one axis and has no
//! derivative; it is given its matrix without a gradient. Its parts, and what is made of them, are
//! primitives of the matrix *and* the packed decomposition: they read their value from the second
//! argument and are differentiated with respect to the first.
//!
//! Where a derivative does not exist - vectors that belong to eigenvalues or singular values which are
//! equal to rounding, vectors of a singular value that is zero - rules give NaN: what a finite number would
//! have to be depends on what the vectors are used for, which nobody knows here.

mod eigen;
mod factor;
mod matrix;
mod qr;
mod svd;
mod sylvester;

pub use eigen::*;
pub use factor::*;
pub use qr::*;
pub use svd::*;
pub use sylvester::*;

use crate::prim::Prim;

/// The primitives of these files.
pub(super) fn entries() -> Vec<Prim> {
    let tables = [
        factor::entries(),
        qr::entries(),
        eigen::entries(),
        svd::entries(),
        sylvester::entries(),
    ];
    tables.concat()
}
