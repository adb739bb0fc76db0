//! The complex Schur form, and Sylvester's equation by it (Bartels and Stewart 1972).

use num_complex::Complex;

use crate::Failure;

type C = Complex<f64>;

/// `a = z t zᴴ` with `t` upper triangular, by Householder reduction and the QR iteration with Wilkinson's
/// shift (Golub and Van Loan, Matrix Computations, chapter 7). Column-major.
fn schur(n: usize, a: &[C]) -> Result<(Vec<C>, Vec<C>), Failure> {
    if !a.iter().all(|z| z.re.is_finite() && z.im.is_finite()) {
        return Err(Failure::NoConvergence);
    }
    let mut t = a.to_vec();
    let mut z = vec![C::new(0.0, 0.0); n * n];
    for i in 0..n {
        z[i * n + i] = C::new(1.0, 0.0);
    }
    hessenberg(n, &mut t, &mut z);
    let norm = t.iter().map(Complex::norm_sqr).sum::<f64>().sqrt();
    let mut end = n;
    let mut tries = 0;
    while end > 1 {
        // The last block that has not come apart: `start .. end`.
        let mut start = end - 1;
        while start > 0 {
            let (i, j) = (start, start - 1);
            let near = t[i * n + i].l1_norm() + t[j * n + j].l1_norm();
            let scale = if near == 0.0 { norm } else { near };
            if t[j * n + i].l1_norm() <= f64::EPSILON * scale {
                t[j * n + i] = C::new(0.0, 0.0);
                break;
            }
            start -= 1;
        }
        if start == end - 1 {
            end -= 1;
            tries = 0;
            continue;
        }
        tries += 1;
        if tries > 60 {
            return Err(Failure::NoConvergence);
        }
        let shift = if tries % 10 == 0 {
            // An exceptional one, should the others go in a circle.
            t[(end - 1) * n + end - 1] + t[(end - 2) * n + end - 1].norm()
        } else {
            wilkinson(n, &t, end)
        };
        sweep(n, &mut t, &mut z, start, end, shift);
    }
    // What rotations have left below the diagonal is their rounding.
    for j in 0..n {
        t[j * n + j + 1..(j + 1) * n].fill(C::new(0.0, 0.0));
    }
    Ok((t, z))
}

/// To zeros below the first subdiagonal, by reflections.
fn hessenberg(n: usize, t: &mut [C], z: &mut [C]) {
    for k in 0..n.saturating_sub(2) {
        let mut v: Vec<C> = (k + 1..n).map(|i| t[k * n + i]).collect();
        let length = v.iter().map(Complex::norm_sqr).sum::<f64>().sqrt();
        if length == 0.0 || v[1..].iter().all(|x| *x == C::new(0.0, 0.0)) {
            continue;
        }
        let size = v[0].norm();
        let phase = if size == 0.0 {
            C::new(1.0, 0.0)
        } else {
            v[0] / size
        };
        v[0] += phase * length;
        let square = v.iter().map(Complex::norm_sqr).sum::<f64>();
        for j in k..n {
            let dot: C = (0..v.len())
                .map(|i| v[i].conj() * t[j * n + k + 1 + i])
                .sum();
            for (i, x) in v.iter().enumerate() {
                t[j * n + k + 1 + i] -= x * dot * 2.0 / square;
            }
        }
        for m in [&mut *t, &mut *z] {
            for i in 0..n {
                let dot: C = (0..v.len()).map(|j| m[(k + 1 + j) * n + i] * v[j]).sum();
                for (j, x) in v.iter().enumerate() {
                    m[(k + 1 + j) * n + i] -= dot * x.conj() * 2.0 / square;
                }
            }
        }
        for i in k + 2..n {
            t[k * n + i] = C::new(0.0, 0.0);
        }
    }
}

/// The eigenvalue of the last 2 × 2 block that is nearer to its last element.
fn wilkinson(n: usize, t: &[C], end: usize) -> C {
    let (i, j) = (end - 2, end - 1);
    let (a, b, c, d) = (t[i * n + i], t[j * n + i], t[i * n + j], t[j * n + j]);
    let half = (a - d) * 0.5;
    let root = (half * half + b * c).sqrt();
    let (plus, minus) = (half + root, half - root);
    d + if plus.norm() < minus.norm() {
        plus
    } else {
        minus
    }
}

/// A step of the QR iteration on a block, by rotations.
fn sweep(n: usize, t: &mut [C], z: &mut [C], start: usize, end: usize, shift: C) {
    let mut x = t[start * n + start] - shift;
    let mut y = t[start * n + start + 1];
    for k in start..end - 1 {
        let length = x.norm().hypot(y.norm());
        if length > 0.0 {
            let (c, s) = (x / length, y / length);
            for j in k.saturating_sub(1).max(start)..n {
                let (p, q) = (t[j * n + k], t[j * n + k + 1]);
                t[j * n + k] = c.conj() * p + s.conj() * q;
                t[j * n + k + 1] = c * q - s * p;
            }
            let rows = (k + 3).min(end);
            for (m, rows) in [(&mut *t, rows), (&mut *z, n)] {
                for i in 0..rows {
                    let (p, q) = (m[k * n + i], m[(k + 1) * n + i]);
                    m[k * n + i] = p * c + q * s;
                    m[(k + 1) * n + i] = q * c.conj() - p * s.conj();
                }
            }
        }
        if k + 2 < end {
            x = t[k * n + k + 1];
            y = t[k * n + k + 2];
        }
    }
}

/// `c = op(a) b`, where `op` is the adjoint if asked for; `a` is `m × k` after that.
fn product(m: usize, k: usize, n: usize, a: &[C], b: &[C], adjoint: bool) -> Vec<C> {
    let mut c = vec![C::new(0.0, 0.0); m * n];
    for j in 0..n {
        for p in 0..k {
            let factor = b[j * k + p];
            for i in 0..m {
                let x = if adjoint {
                    a[i * k + p].conj()
                } else {
                    a[p * m + i]
                };
                c[j * m + i] += x * factor;
            }
        }
    }
    c
}

fn adjoint(m: usize, n: usize, a: &[C]) -> Vec<C> {
    let mut out = vec![C::new(0.0, 0.0); m * n];
    for j in 0..n {
        for i in 0..m {
            out[i * n + j] = a[j * m + i].conj();
        }
    }
    out
}

pub fn sylvester(m: usize, n: usize, a: &[C], b: &[C], c: &mut [C]) -> Result<(), Failure> {
    if m == 0 || n == 0 {
        return Ok(());
    }
    let (s, u) = schur(m, a)?;
    let (t, v) = schur(n, b)?;
    // s y + y t = uᴴ c v, column by column.
    let half = product(m, m, n, &u, c, true);
    let mut y = adjoint(n, m, &product(n, n, m, &v, &adjoint(m, n, &half), true));
    for j in 0..n {
        for l in 0..j {
            let factor = t[j * n + l];
            for i in 0..m {
                let known = y[l * m + i];
                y[j * m + i] -= known * factor;
            }
        }
        for i in (0..m).rev() {
            let x = y[j * m + i] / (s[i * m + i] + t[j * n + j]);
            y[j * m + i] = x;
            for k in 0..i {
                y[j * m + k] -= s[i * m + k] * x;
            }
        }
    }
    // c = u y vᴴ
    let left = product(m, m, n, &u, &y, false);
    c.copy_from_slice(&adjoint(
        n,
        m,
        &product(n, n, m, &v, &adjoint(m, n, &left), false),
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(m: usize, n: usize, seed: u32) -> Vec<C> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            f64::from(state >> 8) / f64::from(1 << 23) - 1.0
        };
        (0..m * n).map(|_| C::new(next(), next())).collect()
    }

    #[test]
    fn schur_form() {
        for n in [1, 2, 3, 6, 17] {
            let a = sample(n, n, 7);
            let (t, z) = schur(n, &a).unwrap();
            let back = product(
                n,
                n,
                n,
                &product(n, n, n, &z, &t, false),
                &adjoint(n, n, &z),
                false,
            );
            assert!(a.iter().zip(&back).all(|(x, y)| (x - y).norm() < 1e-12));
            for j in 0..n {
                assert!(
                    t[j * n + j + 1..(j + 1) * n]
                        .iter()
                        .all(|x| x.norm() == 0.0)
                );
            }
        }
    }

    #[test]
    fn sylvester_equation() {
        let (m, n) = (5, 3);
        let (a, b, c) = (sample(m, m, 1), sample(n, n, 2), sample(m, n, 3));
        let mut x = c.clone();
        sylvester(m, n, &a, &b, &mut x).unwrap();
        let (ax, xb) = (
            product(m, m, n, &a, &x, false),
            product(m, n, n, &x, &b, false),
        );
        assert!((0..m * n).all(|i| (ax[i] + xb[i] - c[i]).norm() < 1e-12));
    }
}
