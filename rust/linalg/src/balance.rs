//! Balancing of a matrix before its eigenvalues are found.

use faer::traits::math_utils::{abs1, from_f64, is_finite, mul_real, one, zero};
use faer::traits::{ComplexField, RealField};

/// More sweeps than these are of no use.
const SWEEPS: usize = 64;
/// Norms that are further apart than two to the power of this are left as they are.
const STEPS: usize = 900;

/// Makes rows and columns of a column-major matrix alike in size, `D⁻¹ A D` with powers of two, and
/// gives the diagonal of `D`; nothing if the matrix is fine as it is.
///
/// Eigenvalues of a badly scaled matrix, such as that of a polynomial with large roots, would be found with an
/// error as large as the norm says. (Parlett and Reinsch, "Balancing a matrix", 1969.)
pub fn balance<T: ComplexField>(n: usize, a: &mut [T]) -> Option<Vec<T::Real>> {
    let two: T::Real = from_f64(2.0);
    let half: T::Real = from_f64(0.5);
    let gain: T::Real = from_f64(0.95);
    let mut scales = vec![one::<T::Real>(); n];
    let mut is_scaled = false;
    for _ in 0..SWEEPS {
        let mut is_done = true;
        for i in 0..n {
            let (mut column, mut row) = (zero::<T::Real>(), zero::<T::Real>());
            for k in (0..n).filter(|&k| k != i) {
                column += abs1(&a[i * n + k]);
                row += abs1(&a[k * n + i]);
            }
            let total = column.clone() + row.clone();
            if column == zero() || row == zero() || !is_finite(&total) {
                continue;
            }
            let mut factor = one::<T::Real>();
            for _ in 0..STEPS {
                if column.clone() * two.clone() < row {
                    factor *= two.clone();
                    column *= two.clone();
                    row *= half.clone();
                } else if row.clone() * two.clone() < column {
                    factor *= half.clone();
                    column *= half.clone();
                    row *= two.clone();
                } else {
                    break;
                }
            }
            if column + row >= gain.clone() * total || !is_normal(&factor) {
                continue;
            }
            is_done = false;
            is_scaled = true;
            scales[i] *= factor.clone();
            let inverse = one::<T::Real>() / factor.clone();
            for k in 0..n {
                a[i * n + k] = mul_real(&a[i * n + k], &factor);
                a[k * n + i] = mul_real(&a[k * n + i], &inverse);
            }
        }
        if is_done {
            break;
        }
    }
    is_scaled.then_some(scales)
}

fn is_normal<R: RealField>(x: &R) -> bool {
    let inverse = one::<R>() / x.clone();
    is_finite(x) && is_finite(&inverse) && *x > zero() && inverse > zero()
}

#[cfg(test)]
mod tests {
    use super::balance;

    #[test]
    fn a_badly_scaled_matrix_is_balanced() {
        // Columns (1, 1e-8) and (1e8, 2).
        let mut a = [1.0, 1e-8, 1e8, 2.0];
        let scales = balance(2, &mut a).expect("this one is scaled");
        assert!(a[1] / a[2] > 0.2 && a[1] / a[2] < 5.0);
        assert_eq!(a[1] * scales[1] / scales[0], 1e-8);
        assert_eq!(balance(2, &mut [1.0, 2.0, 3.0, 4.0]), None);
    }
}
