//! Decompositions of one dense matrix, for the four inexact dtypes, through `faer`.
//!
//! A crate of its own because they are large when compiled: they are built once, not with each change
//! of the core. It knows slices in column-major order, and nothing of arrays or programs. It starts no
//! threads: whoever calls spreads batches over them, or, by way of a [`Spread`], pieces of one decomposition.
//! What the pieces are does not depend on the number of threads, so results do not either.
#![deny(missing_docs)]

mod balance;
mod factor;
mod hermitian;
mod lu;
mod parallel;
mod scale;
mod schur;
mod secular;
mod small;
mod spectral;
mod tridiagonal;

use num_complex::Complex;

pub use parallel::Spread;
/// Systems of up to so many equations are solved by plain loops.
pub use small::ORDER as SMALL_ORDER;

/// Why a decomposition failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The leading minor of this order is not positive.
    NotPositive(usize),
    /// An iteration came to no end, or the matrix holds infinities or NaN.
    NoConvergence,
}

/// The decompositions, for elements of this type. Matrices are column-major slices without gaps; a
/// slice of another length than the sizes say panics.
pub trait Linalg: Copy + Send + Sync + 'static {
    /// The type of absolute values.
    type Real: Copy;

    /// The Cholesky factor of an `n × n` matrix in place, from its lower triangle; the rest becomes 0.
    fn cholesky(n: usize, a: &mut [Self]) -> Result<(), Failure>;

    /// `L` (below the diagonal) and `U` of an `m × n` matrix in place, by partial pivoting. Row `i` of
    /// the product is row `perm[i]` of the matrix. A pivot that is zero stays one.
    fn lu(m: usize, n: usize, a: &mut [Self], perm: &mut [usize]);

    /// Solves with the factors of [`Linalg::lu`] in place, for the `n × k` matrix `b`; with the
    /// transposed matrix if asked for.
    fn lu_solve(n: usize, k: usize, lu: &[Self], perm: &[usize], b: &mut [Self], transposed: bool);

    /// Solves with a triangle of the `n × n` matrix `a`, which is transposed first if asked for; `lower`
    /// speaks of `a` as it is given.
    fn solve_triangular(
        n: usize,
        k: usize,
        a: &[Self],
        b: &mut [Self],
        lower: bool,
        transposed: bool,
        unit: bool,
    );

    /// `Q` (`m × q.len() / m`) and `R` (`k × n`, `k` columns of `Q` or fewer) of an `m × n` matrix, which
    /// is overwritten. `R` has a real diagonal.
    fn qr(m: usize, n: usize, a: &mut [Self], q: &mut [Self], r: &mut [Self]);

    /// Singular values, descending; and `U` and `V`, as many columns as there is room for.
    fn svd(
        m: usize,
        n: usize,
        a: &[Self],
        s: &mut [Self::Real],
        uv: Option<(&mut [Self], &mut [Self])>,
    ) -> Result<(), Failure>;

    /// Eigenvalues of a Hermitian matrix, ascending, and its eigenvectors, from the lower triangle.
    fn eigh(
        n: usize,
        a: &[Self],
        w: &mut [Self::Real],
        v: Option<&mut [Self]>,
        spread: Spread,
    ) -> Result<(), Failure>;

    /// Eigenvalues of a matrix and its eigenvectors, of length 1 and with a real largest component.
    fn eig(
        n: usize,
        a: &[Self],
        w: &mut [Complex<Self::Real>],
        v: Option<&mut [Complex<Self::Real>]>,
    ) -> Result<(), Failure>;

    /// The solution of `a x + x b = c` in place of the `m × n` matrix `c`.
    fn sylvester(m: usize, n: usize, a: &[Self], b: &[Self], c: &mut [Self])
    -> Result<(), Failure>;
}

macro_rules! linalg {
    ($($ty:ty, $real:ty, $eig:path, $to:expr, $from:expr;)*) => { $(
        impl Linalg for $ty {
            type Real = $real;

            fn cholesky(n: usize, a: &mut [Self]) -> Result<(), Failure> {
                factor::cholesky(n, a)
            }

            fn lu(m: usize, n: usize, a: &mut [Self], perm: &mut [usize]) {
                lu::factor(m, n, a, perm);
            }

            fn lu_solve(
                n: usize,
                k: usize,
                lu: &[Self],
                perm: &[usize],
                b: &mut [Self],
                transposed: bool,
            ) {
                lu::solve(n, k, lu, perm, b, transposed);
            }

            fn solve_triangular(
                n: usize,
                k: usize,
                a: &[Self],
                b: &mut [Self],
                lower: bool,
                transposed: bool,
                unit: bool,
            ) {
                factor::solve_triangular(n, k, a, b, (lower, transposed, unit));
            }

            fn qr(m: usize, n: usize, a: &mut [Self], q: &mut [Self], r: &mut [Self]) {
                factor::qr(m, n, a, q, r);
            }

            fn svd(
                m: usize,
                n: usize,
                a: &[Self],
                s: &mut [Self::Real],
                uv: Option<(&mut [Self], &mut [Self])>,
            ) -> Result<(), Failure> {
                spectral::svd(m, n, a, s, uv)
            }

            fn eigh(
                n: usize,
                a: &[Self],
                w: &mut [Self::Real],
                v: Option<&mut [Self]>,
                spread: Spread,
            ) -> Result<(), Failure> {
                hermitian::eigh(n, a, w, v, spread)
            }

            fn eig(
                n: usize,
                a: &[Self],
                w: &mut [Complex<Self::Real>],
                v: Option<&mut [Complex<Self::Real>]>,
            ) -> Result<(), Failure> {
                $eig(n, a, w, v)
            }

            fn sylvester(
                m: usize,
                n: usize,
                a: &[Self],
                b: &[Self],
                c: &mut [Self],
            ) -> Result<(), Failure> {
                let complex = |x: &[Self]| x.iter().map(|&x| $to(x)).collect::<Vec<_>>();
                let mut x = complex(c);
                schur::sylvester(m, n, &complex(a), &complex(b), &mut x)?;
                for (c, x) in c.iter_mut().zip(x) {
                    *c = $from(x);
                }
                Ok(())
            }
        }
    )* };
}

linalg! {
    f32, f32, spectral::eig_real, |x: f32| Complex::new(f64::from(x), 0.0), |x: Complex<f64>| x.re as f32;
    f64, f64, spectral::eig_real, |x: f64| Complex::new(x, 0.0), |x: Complex<f64>| x.re;
    Complex<f32>, f32, spectral::eig_complex,
        |x: Complex<f32>| Complex::new(f64::from(x.re), f64::from(x.im)),
        |x: Complex<f64>| Complex::new(x.re as f32, x.im as f32);
    Complex<f64>, f64, spectral::eig_complex, |x: Complex<f64>| x, |x: Complex<f64>| x;
}
