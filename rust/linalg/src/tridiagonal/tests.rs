//! Eigenvalues and eigenvectors of tridiagonal matrices, with their pieces run in any order.

use super::{eigenvalues, eigenvectors};

fn alone(count: usize, f: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(f);
}

/// In another order, as on several threads.
fn backwards(count: usize, f: &(dyn Fn(usize) + Sync)) {
    (0..count).rev().for_each(f);
}

/// Numbers between -1 and 1.
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The eigenvalues, after it was seen that the vectors are orthogonal and belong to them, and that both ways agree.
fn checked(d: &[f64], e: &[f64]) -> Vec<f64> {
    let n = d.len();
    let size = d
        .iter()
        .chain(e)
        .fold(f64::MIN_POSITIVE, |top, x| x.abs().max(top));
    let close = 30.0 * f64::EPSILON * (n as f64).sqrt();
    let (mut w, mut beside, mut q) = (d.to_vec(), e.to_vec(), vec![0.0; n * n]);
    eigenvectors(&mut w, &mut beside, &mut q, &alone).expect("it converges");
    assert!(w.is_sorted(), "ascending");
    for j in 0..n {
        let v = &q[j * n..][..n];
        for i in 0..n {
            let above = if i > 0 { e[i - 1] * v[i - 1] } else { 0.0 };
            let below = if i + 1 < n { e[i] * v[i + 1] } else { 0.0 };
            let rest = above + d[i] * v[i] + below - w[j] * v[i];
            assert!(
                rest.abs() <= close * size,
                "{n}: row {i} of vector {j} is off by {rest:e}"
            );
        }
        for k in 0..=j {
            let product: f64 = v.iter().zip(&q[k * n..]).map(|(x, y)| x * y).sum();
            let wanted = f64::from(u8::from(j == k));
            assert!(
                (product - wanted).abs() <= close,
                "{n}: vectors {j}, {k}: {product:e}"
            );
        }
    }
    let (mut again, mut beside, mut turned) = (d.to_vec(), e.to_vec(), vec![0.0; n * n]);
    eigenvectors(&mut again, &mut beside, &mut turned, &backwards).expect("it converges");
    assert!(
        again == w && turned == q,
        "{n}: the order of pieces changes nothing"
    );
    let (mut values, mut beside) = (d.to_vec(), e.to_vec());
    eigenvalues(&mut values, &mut beside).expect("it converges");
    for (a, b) in values.iter().zip(&w) {
        assert!((a - b).abs() <= close * size, "{n}: {a} and {b}");
    }
    w
}

#[test]
fn random_matrices() {
    for n in [1, 2, 3, 31, 32, 33, 34, 63, 65, 100, 130, 200, 389] {
        let mut next = numbers(n as u64);
        let d: Vec<f64> = (0..n).map(|_| next()).collect();
        let e: Vec<f64> = (1..n).map(|_| next()).collect();
        checked(&d, &e);
        // Large and small.
        for factor in [1e150, 1e-150] {
            let times = |x: &[f64]| x.iter().map(|x| x * factor).collect::<Vec<_>>();
            checked(&times(&d), &times(&e));
        }
    }
}

#[test]
fn differences_have_known_values() {
    for n in [40, 100, 257] {
        let w = checked(&vec![2.0; n], &vec![-1.0; n - 1]);
        for (k, w) in w.iter().enumerate() {
            let half = std::f64::consts::FRAC_PI_2 * (k + 1) as f64 / (n + 1) as f64;
            let known = 4.0 * half.sin().powi(2);
            assert!((w - known).abs() <= 40.0 * f64::EPSILON, "{w} is {known}");
        }
    }
}

#[test]
fn values_that_are_equal_or_nearly() {
    let n = 150;
    // Nothing to do, all the same, and two blocks that are the same.
    checked(&vec![0.0; n], &vec![0.0; n - 1]);
    checked(&vec![3.0; n], &vec![0.0; n - 1]);
    let mut e = vec![1.0; n - 1];
    e[n / 2 - 1] = 0.0;
    checked(&vec![1.0; n], &e);
    // Wilkinson's, whose values come in pairs, one alone and several glued together.
    for (copies, glue) in [(1, 0.0), (7, 1e-14), (7, 1e-8), (7, 1e-3)] {
        let block: Vec<f64> = (-10..=10).map(|i: i32| f64::from(i.abs())).collect();
        let d: Vec<f64> = block.iter().copied().cycle().take(copies * 21).collect();
        let beside = |i: usize| if i.is_multiple_of(21) { glue } else { 1.0 };
        checked(&d, &(1..d.len()).map(beside).collect::<Vec<_>>());
    }
    // Groups, within which values differ by less and less.
    let d: Vec<f64> = (0..n)
        .map(|i| (i / 10) as f64 + f64::powi(0.1, (i % 10) as i32 * 2))
        .collect();
    for beside in [1e-3, 1e-8, 1e-15, 1e-30, 1e-200] {
        checked(&d, &vec![beside; n - 1]);
    }
}

#[test]
fn numbers_without_reciprocals() {
    let with = |small: f64| [1.0; 24].into_iter().chain([small; 25]).collect::<Vec<_>>();
    for small in [1e-290, 1e-300, 1e-310, 5e-324] {
        checked(&with(small), &[0.0; 48]);
        checked(&with(small), &with(small)[1..]);
    }
    let halves: Vec<f64> = (0..1070).map(|i| f64::powi(0.5, i)).collect();
    checked(&halves, &vec![0.0; 1069]);
}

/// What comes out is of no use then, but something comes.
#[test]
fn pieces_that_are_left_out() {
    let n = 400;
    let mut next = numbers(3);
    let given: Vec<f64> = (0..2 * n).map(|_| next()).collect();
    let nothing = |_: usize, _: &(dyn Fn(usize) + Sync)| {};
    let some = |count: usize, f: &(dyn Fn(usize) + Sync)| (0..count).step_by(2).for_each(f);
    let halves = |count: usize, f: &(dyn Fn(usize) + Sync)| (0..count.min(2)).for_each(f);
    for spread in [&nothing as crate::Spread, &some, &halves] {
        let (mut d, mut e) = (given[..n].to_vec(), given[n + 1..].to_vec());
        let _ = eigenvectors(&mut d, &mut e, &mut vec![0.0; n * n], spread);
    }
}

#[test]
fn graded_matrices() {
    let n = 120;
    let d: Vec<f64> = (0..n)
        .map(|i| f64::powf(10.0, -f64::from(i) / 8.0))
        .collect();
    let e: Vec<f64> = d.windows(2).map(|x| (x[0] * x[1]).sqrt() / 2.0).collect();
    checked(&d, &e);
    let turned = |x: &[f64]| x.iter().rev().copied().collect::<Vec<_>>();
    checked(&turned(&d), &turned(&e));
    // Signs of what is beside the diagonal.
    let mut next = numbers(7);
    let signs: Vec<f64> = e.iter().map(|e| e * next().signum()).collect();
    checked(&d, &signs);
}
