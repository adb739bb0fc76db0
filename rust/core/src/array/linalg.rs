//! Decompositions of matrices and systems of equations as methods. What can fail on values is computed
//! when it is called; while a program is traced, when that runs.

use super::Array;
use crate::aval::{Shape, broadcast, tuple};
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Params, Prim};
use crate::tape::keeps_history;

impl Array {
    /// A result whose errors are said now.
    fn known(self) -> Result<Array> {
        if !keeps_history(&self) {
            self.evaluate()?;
        }
        Ok(self)
    }

    /// A decomposition, packed and computed.
    fn packed(&self, prim: Prim) -> Result<Array> {
        Array::apply(prim, Params::None, &[&self.dropgrad()])?.known()
    }

    fn part(&self, prim: Prim, packed: &Array) -> Result<Array> {
        Array::apply(prim, Params::None, &[self, packed])
    }

    /// The lower Cholesky factor of Hermitian matrices, from their lower triangles; an error when one is
    /// not positive definite.
    pub fn cholesky(&self) -> Result<Array> {
        Array::apply(ops::CHOLESKY, Params::None, &[self])?.known()
    }

    /// The solution of `self x = b` for matrices of right-hand sides; an error when a matrix is singular.
    ///
    /// ```
    /// # use cotan::Array;
    /// # use ndarray::array;
    /// # fn main() -> cotan::Result<()> {
    /// let a = Array::from_ndarray(&array![[2.0, 1.0], [1.0, 3.0]])?;
    /// let b = Array::from_ndarray(&array![[3.0], [4.0]])?;
    /// assert_eq!(a.solve(&b)?.to_vec::<f64>()?, [1.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn solve(&self, b: &Array) -> Result<Array> {
        let misfit = || {
            Error::Shape(format!(
                "solve: shapes {} and {} do not fit",
                tuple(self.shape()),
                tuple(b.shape())
            ))
        };
        let lu = self.packed(ops::NONSINGULAR_LU)?;
        let ([batch_a @ .., m, n], [batch_b @ .., rows, k]) = (self.shape(), b.shape()) else {
            return Err(misfit());
        };
        let batch = broadcast(batch_a, batch_b).ok_or_else(misfit)?;
        let over = |core: &[usize]| -> Shape { batch.iter().chain(core).copied().collect() };
        let a = self.broadcast_to(&over(&[*m, *n]))?;
        let lu = lu.broadcast_to(&over(&[n * n + n + 1]))?;
        let b = b.broadcast_to(&over(&[*rows, *k]))?;
        let params = Params::System {
            lower: false,
            transposed: false,
            unit: false,
        };
        Array::apply(ops::LU_SOLVE, params, &[&a, &lu, &b])
    }

    /// Determinants of square matrices.
    pub fn det(&self) -> Result<Array> {
        self.part(ops::DET, &self.packed(ops::LU)?)
    }

    /// Eigenvalues (ascending) and eigenvectors (as columns) of Hermitian matrices, from their lower
    /// triangles.
    pub fn eigh(&self) -> Result<(Array, Array)> {
        let packed = self.packed(ops::EIGH)?;
        Ok((
            self.part(ops::EIGH_VALUES, &packed)?,
            self.part(ops::EIGH_VECTORS, &packed)?,
        ))
    }

    /// Left singular vectors (as columns), singular values (descending), and right singular vectors (as
    /// conjugated rows).
    pub fn svd(&self) -> Result<(Array, Array, Array)> {
        let packed = self.packed(ops::SVD)?;
        Ok((
            self.part(ops::SVD_LEFT, &packed)?,
            self.part(ops::SVD_VALUES, &packed)?,
            self.part(ops::SVD_RIGHT, &packed)?,
        ))
    }
}
