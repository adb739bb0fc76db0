//! Systems of equations, and the factors that solve them.

use super::{Field, Items, System, each, failed, matrix, reals, sign, swapped, swapped_aval};
use crate::error::Result;
use crate::kernels::{Ctx, Value};

/// The lower Cholesky factors.
pub fn cholesky(a: &Value, ctx: &Ctx) -> Result<Value> {
    with_field!(a.dtype(), cholesky_of(a, ctx))
}

fn cholesky_of<T: Field>(a: &Value, ctx: &Ctx) -> Result<Value> {
    let n = matrix(a).0;
    let out = Value::empty(a.aval().clone())?;
    let a = Items::columns::<T>(a, ctx)?;
    each::<T>(&out, 2, ctx, |i, out| {
        out.copy_from_slice(a.item(i));
        T::cholesky(n, out).map_err(|f| failed("Cholesky", f))
    })?;
    Ok(swapped(&out))
}

/// The solutions of triangular systems.
pub fn solve_triangular(a: &Value, b: &Value, how: System, ctx: &Ctx) -> Result<Value> {
    with_field!(a.dtype(), solve_triangular_of(a, b, how, ctx))
}

fn solve_triangular_of<T: Field>(a: &Value, b: &Value, how: System, ctx: &Ctx) -> Result<Value> {
    let (n, k) = matrix(b);
    let out = Value::empty(swapped_aval(b.aval()))?;
    // Row-major is the transposed matrix, column-major.
    let rank = a.shape().len();
    let flipped = a.strides()[rank - 1] == 1 || n <= 1;
    let items = if flipped {
        Items::new::<T>(a, 2, ctx)?
    } else {
        Items::columns::<T>(a, ctx)?
    };
    let b = Items::columns::<T>(b, ctx)?;
    each::<T>(&out, 2, ctx, |i, out| {
        out.copy_from_slice(b.item(i));
        let (lower, transposed) = (how.lower != flipped, how.transposed != flipped);
        T::solve_triangular(n, k, items.item(i), out, lower, transposed, how.unit);
        Ok(())
    })?;
    Ok(swapped(&out))
}

/// The factors, the permutation and its sign.
fn unpacked<T: Field>(packed: &[T], n: usize) -> (&[T], Vec<usize>, T) {
    let (factors, rest) = packed.split_at(n * n);
    let perm = rest[..n].iter().map(|p| p.real_part() as usize).collect();
    (factors, perm, rest[n])
}

/// The solutions of systems whose LU factors are known.
pub fn lu_solve(packed: &Value, b: &Value, transposed: bool, ctx: &Ctx) -> Result<Value> {
    with_field!(b.dtype(), lu_solve_of(packed, b, transposed, ctx))
}

fn lu_solve_of<T: Field>(packed: &Value, b: &Value, transposed: bool, ctx: &Ctx) -> Result<Value> {
    let (n, k) = matrix(b);
    let out = Value::empty(swapped_aval(b.aval()))?;
    let packed = Items::new::<T>(packed, 1, ctx)?;
    let b = Items::columns::<T>(b, ctx)?;
    each::<T>(&out, 2, ctx, |i, out| {
        let (factors, perm, _) = unpacked(packed.item::<T>(i), n);
        out.copy_from_slice(b.item(i));
        T::lu_solve(n, k, factors, &perm, out, transposed);
        Ok(())
    })?;
    Ok(swapped(&out))
}

/// Adjugates: determinant times inverse, for singular matrices too.
pub fn adjugate(a: &Value, packed: &Value, ctx: &Ctx) -> Result<Value> {
    with_field!(a.dtype(), adjugate_of(a, packed, ctx))
}

fn adjugate_of<T: Field>(a: &Value, packed: &Value, ctx: &Ctx) -> Result<Value> {
    let n = matrix(a).0;
    let out = Value::empty(a.aval().clone())?;
    let a = Items::columns::<T>(a, ctx)?;
    let packed = Items::new::<T>(packed, 1, ctx)?;
    each::<T>(&out, 2, ctx, |i, out| {
        let (factors, perm, sign) = unpacked(packed.item::<T>(i), n);
        let pivots = || (0..n).map(|j| factors[j * n + j]);
        let sizes = || pivots().map(Field::magnitude);
        let largest = sizes().fold(0.0, f64::max);
        let smallest = sizes().fold(f64::INFINITY, f64::min);
        if n == 0 {
            return Ok(());
        }
        for (j, column) in out.chunks_exact_mut(n).enumerate() {
            column[j] = T::number(1.0);
        }
        if smallest > 1e-6 * largest {
            let det = pivots().fold(sign, |product, pivot| product * pivot);
            T::lu_solve(n, n, factors, &perm, out, false);
            for x in out {
                *x = *x * det;
            }
            return Ok(());
        }
        // Nearly singular: the inverse has nothing to say, products of singular values do.
        let mut s = reals::<T>(n);
        let (mut u, mut v) = (vec![T::number(0.0); n * n], vec![T::number(0.0); n * n]);
        T::svd(n, n, a.item(i), &mut s, Some((&mut u, &mut v))).map_err(|f| failed("SVD", f))?;
        let s: Vec<T> = s.into_iter().map(T::from_real).collect();
        let phase = determinant(n, &u) * determinant(n, &v).conjugate();
        // U holds U D now, with D the products of all other singular values.
        for (j, column) in u.chunks_exact_mut(n).enumerate() {
            let others = (0..n)
                .filter(|&l| l != j)
                .fold(phase, |product, l| product * s[l]);
            for x in column {
                *x = x.conjugate() * others;
            }
        }
        // V (U D)ᴴ, column by column.
        for (j, column) in out.chunks_exact_mut(n).enumerate() {
            column.fill(T::number(0.0));
            for l in 0..n {
                let factor = u[l * n + j];
                for (x, &v) in column.iter_mut().zip(&v[l * n..(l + 1) * n]) {
                    *x = *x + v * factor;
                }
            }
        }
        Ok(())
    })?;
    Ok(swapped(&out))
}

fn determinant<T: Field>(n: usize, a: &[T]) -> T {
    let mut a = a.to_vec();
    let mut perm = vec![0; n];
    T::lu(n, n, &mut a, &mut perm);
    (0..n).fold(T::number(sign(&perm)), |product, j| product * a[j * n + j])
}

/// The solutions of `a x + x b = c`.
pub fn sylvester(a: &Value, b: &Value, c: &Value, ctx: &Ctx) -> Result<Value> {
    with_field!(c.dtype(), sylvester_of(a, b, c, ctx))
}

fn sylvester_of<T: Field>(a: &Value, b: &Value, c: &Value, ctx: &Ctx) -> Result<Value> {
    let (m, n) = matrix(c);
    let out = Value::empty(swapped_aval(c.aval()))?;
    let [a, b, c] = [a, b, c].map(|x| Items::columns::<T>(x, ctx));
    let (a, b, c) = (a?, b?, c?);
    each::<T>(&out, 2, ctx, |i, out| {
        out.copy_from_slice(c.item(i));
        T::sylvester(m, n, a.item(i), b.item(i), out).map_err(|f| failed("Schur form", f))
    })?;
    Ok(swapped(&out))
}
