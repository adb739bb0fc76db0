//! Matrices whose squares overflow, or vanish, are brought near 1 first, as LAPACK does.

use faer::traits::ComplexField;
use faer::traits::math_utils::{
    abs1, from_f64, max_positive, mul_real, one, recip, sqrt_max_positive, sqrt_min_positive, zero,
};

/// The power of two that brings the largest of some numbers near 1, if their squares would overflow or be lost.
pub fn scale<'a, T: ComplexField + 'a>(a: impl Iterator<Item = &'a T>) -> Option<T::Real> {
    let mut top = zero::<T::Real>();
    for x in a {
        let size = abs1(x);
        if size > top {
            top = size;
        }
    }
    let step: T::Real = from_f64((1u32 << 20).into());
    let small = recip(&step);
    let low = sqrt_min_positive::<T::Real>() * step.clone();
    let high = sqrt_max_positive::<T::Real>() * small.clone();
    if top == zero() || (top >= low && top <= high) {
        return None;
    }
    let mut factor = one::<T::Real>();
    if top > high {
        // The sum of two parts may be infinite.
        let limit = max_positive::<T::Real>() * small.clone();
        top = if top > limit { limit } else { top };
        while top > step {
            top *= small.clone();
            factor *= small.clone();
        }
        factor *= small;
    } else {
        let limit = max_positive::<T::Real>() * small.clone() * small;
        while top < one() && factor < limit {
            top *= step.clone();
            factor *= step.clone();
        }
    }
    Some(factor)
}

/// Numbers times a factor.
pub fn times<T: ComplexField>(a: &[T], factor: &T::Real) -> Vec<T> {
    a.iter().map(|x| mul_real(x, factor)).collect()
}
