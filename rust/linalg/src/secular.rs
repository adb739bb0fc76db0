//! Roots of `1 / rho + Σ z²ᵢ / (dᵢ - x)`, and the eigenvectors of `diag(d) + rho z zᵀ`.
//!
//! Each root lies between two neighbouring poles `d`, the last one beyond all. It is found as a distance from the nearer of
//! the two, by a rational function that has both poles and meets value and slope (R.-C. Li: Solving secular equations
//! stably and efficiently, 1993, "fixed weight"; LAPACK's dlaed4 too), for several roots at once.

use pulp::Arch;

use crate::parallel::{Spread, each};

/// Roots that are sought at once.
const LANES: usize = 8;

/// Roots, or poles, that one thread takes at a time.
const TOGETHER: usize = 64;

/// Steps until a root is taken as it is. Most need four to seven.
const STEPS: usize = 60;

/// What the function is made of. All `z` differ from zero, and `rho` is positive.
pub struct Poles<'a> {
    /// The poles, all different.
    pub d: &'a [f64],
    /// The roots of their weights; the sum of all squares is 1.
    pub z: &'a [f64],
    /// Which pole is the first, the second, ...
    pub ascending: &'a [usize],
    /// The factor of the matrix of rank one.
    pub rho: f64,
}

/// One root: as a distance from a pole, between bounds.
#[derive(Clone, Copy, Default)]
struct Root {
    /// The poles between which the rational function is taken, and that from which the distance counts.
    poles: [usize; 2],
    from: usize,
    /// Whether the root lies beyond both poles.
    last: bool,
    low: f64,
    high: f64,
    distance: f64,
    done: bool,
}

/// The function at some points: its value, the sum of the absolute values of its terms, and its slope.
#[derive(Clone, Copy)]
struct Sums {
    value: [f64; LANES],
    size: [f64; LANES],
    slope: [f64; LANES],
}

/// The roots, ascending, and the eigenvectors, of length 1, as the columns of a matrix in column-major order.
pub fn solve(poles: &Poles, roots: &mut [f64], vectors: &mut [f64], spread: Option<Spread>) {
    let k = poles.d.len();
    if k == 0 {
        return;
    }
    let arch = Arch::new();
    let together = (roots.chunks_mut(TOGETHER)).zip(vectors.chunks_mut(TOGETHER * k));
    each(
        spread,
        (0..).step_by(TOGETHER).zip(together),
        |(at, (roots, vectors))| {
            arch.dispatch(|| differences(poles, at, roots, vectors));
        },
    );
    let mut z = vec![0.0; k];
    each(
        spread,
        (0..).step_by(TOGETHER).zip(z.chunks_mut(TOGETHER)),
        |(at, z)| {
            arch.dispatch(|| weights(poles, at, vectors, z));
        },
    );
    each(spread, vectors.chunks_mut(TOGETHER * k), |vectors| {
        arch.dispatch(|| {
            vectors
                .chunks_exact_mut(k)
                .for_each(|vector| over(&z, vector));
        });
    });
}

/// The roots from this one on, and the differences between the poles and each.
#[inline(always)]
fn differences(poles: &Poles, at: usize, roots: &mut [f64], differences: &mut [f64]) {
    let k = poles.d.len();
    let lanes = roots
        .chunks_mut(LANES)
        .zip(differences.chunks_mut(LANES * k));
    for (at, (roots, differences)) in (at..).step_by(LANES).zip(lanes) {
        let mut found = [Root::default(); LANES];
        find(poles, at, &mut found[..roots.len()]);
        for ((root, column), found) in roots
            .iter_mut()
            .zip(differences.chunks_exact_mut(k))
            .zip(&found)
        {
            let from = poles.d[found.from];
            *root = from + found.distance;
            for (difference, &d) in column.iter_mut().zip(poles.d) {
                *difference = (d - from) - found.distance;
            }
        }
    }
}

/// The `z`, from this one on, for which the roots that were found are exact, from the differences between poles and
/// roots.
#[inline(always)]
fn weights(poles: &Poles, at: usize, differences: &[f64], z: &mut [f64]) {
    let k = poles.d.len();
    let range = at..at + z.len();
    z.fill(1.0);
    for (column, &own) in differences.chunks_exact(k).zip(poles.ascending) {
        let pole = poles.d[own];
        for ((z, difference), d) in z
            .iter_mut()
            .zip(&column[range.clone()])
            .zip(&poles.d[range.clone()])
        {
            let gap = d - pole;
            *z *= difference / if gap == 0.0 { 1.0 } else { gap };
        }
    }
    for (z, given) in z.iter_mut().zip(&poles.z[range]) {
        *z = z.abs().sqrt().copysign(*given);
    }
}

/// An eigenvector from the differences between the poles and its root.
#[inline(always)]
fn over(z: &[f64], vector: &mut [f64]) {
    let mut sums = [0.0; LANES];
    let mut parts = vector.chunks_exact_mut(LANES);
    let mut weights = z.chunks_exact(LANES);
    for (v, z) in parts.by_ref().zip(weights.by_ref()) {
        for i in 0..LANES {
            v[i] = z[i] / v[i];
            sums[i] += v[i] * v[i];
        }
    }
    for (v, z) in parts.into_remainder().iter_mut().zip(weights.remainder()) {
        *v = z / *v;
        sums[0] += *v * *v;
    }
    let unit = sums.iter().sum::<f64>().sqrt().recip();
    for v in vector {
        *v *= unit;
    }
}

/// The function at these distances from poles.
#[inline(always)]
fn sums(poles: &Poles, from: &[f64; LANES], distance: &[f64; LANES]) -> Sums {
    let mut sums = Sums {
        value: [poles.rho.recip(); LANES],
        size: [poles.rho.recip(); LANES],
        slope: [0.0; LANES],
    };
    for (&d, &z) in poles.d.iter().zip(poles.z) {
        for i in 0..LANES {
            let part = z / ((d - from[i]) - distance[i]);
            sums.value[i] += z * part;
            sums.size[i] += (z * part).abs();
            sums.slope[i] += part * part;
        }
    }
    sums
}

/// The roots from this one on.
#[inline(always)]
fn find(poles: &Poles, at: usize, roots: &mut [Root]) {
    let k = poles.d.len();
    let pole = |i: usize| poles.d[poles.ascending[i]];
    let (mut from, mut distance) = ([0.0; LANES], [1.0; LANES]);
    // From the middle between two poles it is seen which is nearer.
    for (i, root) in roots.iter_mut().enumerate() {
        let nth = at + i;
        root.last = nth + 1 == k;
        let pair = if root.last {
            [nth.saturating_sub(1), nth]
        } else {
            [nth, nth + 1]
        };
        root.poles = pair.map(|i| poles.ascending[i]);
        from[i] = pole(nth);
        distance[i] = if root.last {
            poles.rho
        } else {
            pole(nth + 1) - pole(nth)
        } / 2.0;
    }
    let middle = sums(poles, &from, &distance);
    for (i, root) in roots.iter_mut().enumerate() {
        let half = distance[i];
        let above = middle.value[i] <= 0.0;
        root.from = poles.ascending[at + i];
        (root.low, root.high) = if above {
            (half, 2.0 * half)
        } else {
            (0.0, half)
        };
        if above && !root.last {
            root.from = poles.ascending[at + i + 1];
            (root.low, root.high) = (-half, 0.0);
        }
        root.distance = first_guess(poles, root, middle.value[i], half);
        from[i] = poles.d[root.from];
        distance[i] = root.distance;
    }
    for _ in 0..STEPS {
        let sums = sums(poles, &from, &distance);
        let mut left = false;
        for (i, root) in roots.iter_mut().enumerate() {
            if !root.done {
                step(poles, root, (sums.value[i], sums.size[i], sums.slope[i]));
                distance[i] = root.distance;
                left |= !root.done;
            }
        }
        if !left {
            break;
        }
    }
}

/// The root of the function with two poles and a constant that meets the value in the middle.
#[inline]
fn first_guess(poles: &Poles, root: &Root, middle: f64, half: f64) -> f64 {
    let within = |x: f64| {
        if x > root.low && x < root.high {
            x
        } else {
            f64::midpoint(root.low, root.high)
        }
    };
    let [p, q] = root.poles;
    if p == q {
        return poles.rho * poles.z[p] * poles.z[p];
    }
    let square = |i: usize| poles.z[i] * poles.z[i];
    // Distances of the poles from the one that counts, and of the middle.
    let [a, b] = [p, q].map(|i| poles.d[i] - poles.d[root.from]);
    let x = if root.from == q && !root.last {
        -half
    } else {
        half
    };
    let constant = middle - square(p) / (a - x) - square(q) / (b - x);
    // constant (a - x) (b - x) + zp² (b - x) + zq² (a - x) = 0, where a or b is 0.
    let linear = constant * (a + b) + square(p) + square(q);
    let absolute = constant * a * b + square(p) * b + square(q) * a;
    within(nearest_root(constant, linear, absolute, root.last))
}

/// A root of `a x² - b x + c`: the smaller one in size, or the one beyond the poles.
#[inline]
fn nearest_root(a: f64, b: f64, c: f64, last: bool) -> f64 {
    let root = (b * b - 4.0 * a * c).abs().sqrt();
    if last {
        if b >= 0.0 {
            (b + root) / (2.0 * a)
        } else {
            2.0 * c / (b - root)
        }
    } else if b <= 0.0 {
        (b - root) / (2.0 * a)
    } else {
        2.0 * c / (b + root)
    }
}

/// One step towards a root, from the value of the function, the size of its terms and its slope.
#[inline]
fn step(poles: &Poles, root: &mut Root, (value, size, slope): (f64, f64, f64)) {
    let x = root.distance;
    // No value is known better than this.
    if value.abs() <= f64::EPSILON * (4.0 * size + x.abs() * slope) {
        root.done = true;
        return;
    }
    if value < 0.0 {
        root.low = root.low.max(x);
    } else {
        root.high = root.high.min(x);
    }
    let [p, q] = root.poles;
    let [a, b] = [p, q].map(|i| (poles.d[i] - poles.d[root.from]) - x);
    // The pole that counts has its own weight, the other one what is left of the slope.
    let (other, gap, own) = if root.from == p && !root.last {
        (b, a - b, poles.z[p] / a)
    } else {
        (a, b - a, poles.z[q] / b)
    };
    let mut by = if p == q {
        f64::NAN
    } else {
        let constant = value - other * slope - gap * own * own;
        nearest_root(
            constant,
            (a + b) * value - a * b * slope,
            a * b * value,
            root.last,
        )
    };
    if by.is_nan() || value * by >= 0.0 {
        by = -value / slope;
    }
    let mut next = x + by;
    if !(next > root.low && next < root.high) {
        next = f64::midpoint(root.low, root.high);
    }
    root.done = next == x || (next - x).abs() <= f64::EPSILON / 2.0 * x.abs();
    root.distance = next;
}
