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
//!
//! Sources of the rules, which name them by author and year:
//!
//! - M. Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
//!   differentiation", Oxford 2008: inverses, solves, determinants, eigenvalues and eigenvectors, singular values.
//! - I. Murray, "Differentiation of the Cholesky decomposition", arXiv:1602.07527, 2016.
//! - S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions with application in
//!   optimum experimental design", arXiv:1001.1654, 2010: QR.
//! - J. Townsend, "Differentiating the singular value decomposition", 2016.
//! - S.-Q. Wan and S.-X. Zhang, "Automatic differentiation for complex valued SVD", arXiv:1909.02659, 2019.
//! - G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
//!   variables separate", SIAM J. Numer. Anal. 10, 1973.
//! - N. Higham, "Functions of Matrices", SIAM 2008: square roots.
//! - T.-C. Kao and G. Hennequin, "Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati
//!   equations", arXiv:2011.11430, 2020.
//!
//! Adjoints stand where real matrices have transposes.

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
