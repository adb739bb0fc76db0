//! Powers that are multiplied out.

use super::*;

const SMALL: [f64; 16] = [
    0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -3.5, -4.0,
];

/// Numbers of very different sizes; every fifth is special.
fn bases(n: usize) -> Vec<f64> {
    let mut random = Random::new(11);
    let special = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-310,
        1e200,
        -3.0,
    ];
    (0..n)
        .map(|i| match i % 5 {
            0 => special[i / 5 % special.len()],
            1 => random.unit() + 0.5,
            2 => (random.unit() - 0.5) * 8.0,
            3 => (random.unit() * 60.0 - 30.0).exp2(),
            _ => (random.unit() * 198.0 - 99.0).exp2(),
        })
        .collect()
}

fn powers(level: Level, x: &[f64], y: &[f64]) -> Vec<f64> {
    let lane = lane_at(level, LaneOp::Pow, DType::F64).unwrap();
    let mut out = vec![0.0; x.len()];
    let (to, a, b) = (
        out.as_mut_ptr().cast(),
        x.as_ptr().cast(),
        y.as_ptr().cast(),
    );
    // SAFETY: as many elements and results.
    unsafe { lane(to, a, b, std::ptr::null(), x.len()) };
    out
}

fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|l| l.is_supported())
}

fn same(x: f64, y: f64) -> bool {
    x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
}

#[test]
fn small_powers_are_rounded_as_their_operations() {
    let x: Vec<f64> = bases(4000)
        .into_iter()
        .filter(|x| *x > 1e-30 && *x < 1e30)
        .collect();
    let exact: [(f64, fn(f64) -> f64); 5] = [
        (0.5, f64::sqrt),
        (1.0, |x| x),
        (2.0, |x| x * x),
        (-1.0, |x| 1.0 / x),
        // Exact as long as the square has few digits.
        (3.0, |x| {
            let short = f64::from(x as f32);
            if short == x {
                short * short * short
            } else {
                f64::NAN
            }
        }),
    ];
    for level in levels() {
        for (y, want) in exact {
            let got = powers(level, &x, &vec![y; x.len()]);
            for (&x, &got) in x.iter().zip(&got) {
                let want = want(x);
                assert!(
                    want.is_nan() || same(got, want),
                    "{level:?} {x:e}^{y} = {got:e}, not {want:e}"
                );
            }
        }
    }
}

/// Two to the error of a product is what its square root keeps: squares of results are compared in twice the precision.
#[test]
fn small_powers_are_within_a_little_more_than_half_a_unit() {
    // The product of two numbers and what rounding takes away.
    let product = |x: f64, y: f64| (x * y, x.mul_add(y, -(x * y)));
    let x: Vec<f64> = bases(4000)
        .into_iter()
        .filter(|x| *x > 1e-20 && *x < 1e20)
        .collect();
    for level in levels() {
        for y in [1.5, -1.5, -0.5] {
            let got = powers(level, &x, &vec![y; x.len()]);
            for (&x, &r) in x.iter().zip(&got) {
                // r^2 beside x^3, 1 beside r^2 x^3, 1 beside r^2 x: how far off, relative to them.
                let (square, square_low) = product(r, r);
                let (cube, cube_low) = {
                    let (xx, low) = product(x, x);
                    let (cube, rest) = product(xx, x);
                    (cube, rest + low * x)
                };
                let off = match y {
                    1.5 => ((square - cube) + (square_low - cube_low)) / cube,
                    -1.5 => {
                        let (one, low) = product(square, cube);
                        (one - 1.0) + low + square_low * cube + square * cube_low
                    }
                    _ => {
                        let (one, low) = product(square, x);
                        (one - 1.0) + low + square_low * x
                    }
                };
                // Relative errors of squares are twice those of the results.
                let unit = f64::from_bits((r.to_bits() >> 52) << 52) * f64::EPSILON / r;
                assert!(
                    off.abs() / 2.0 <= 0.501 * unit,
                    "{level:?} {x:e}^{y}: {:.3} units off",
                    off.abs() / 2.0 / unit
                );
            }
        }
    }
}

#[test]
fn small_powers_do_not_depend_on_their_neighbours() {
    let x = bases(700);
    for level in levels() {
        for y in SMALL {
            let alike = powers(level, &x, &vec![y; x.len()]);
            let mixed: Vec<f64> = (0..x.len())
                .map(|i| if i % 3 == 0 { 0.7 } else { y })
                .collect();
            let beside = powers(level, &x, &mixed);
            for i in 0..x.len() {
                let alone = powers(level, &x[i..=i], &[y])[0];
                let general = crate::kernels::math::f64::pow(x[i], y);
                assert!(same(alike[i], alone), "{level:?} {:e}^{y}", x[i]);
                assert!(
                    i % 3 == 0 || same(beside[i], alone),
                    "{level:?} {:e}^{y}",
                    x[i]
                );
                let close =
                    same(alone, general) || (alone - general).abs() <= 2.3e-16 * general.abs();
                assert!(
                    close,
                    "{level:?} {:e}^{y} = {alone:e}, not {general:e}",
                    x[i]
                );
            }
        }
    }
}

#[test]
fn powers_may_lie_where_an_operand_does() {
    let lane = lane(LaneOp::Pow, DType::F64).unwrap();
    let x = bases(300);
    for y in [1.5, 0.7] {
        let want = powers(Level::best(), &x, &vec![y; x.len()]);
        let (mut a, mut b) = (x.clone(), vec![y; x.len()]);
        let (first, second) = (a.as_mut_ptr().cast::<u8>(), b.as_mut_ptr().cast::<u8>());
        let null = std::ptr::null();
        // SAFETY: results may lie in the place of an operand.
        unsafe { lane(first, first, second, null, x.len()) };
        assert!(a.iter().zip(&want).all(|(&g, &w)| same(g, w)));
        // SAFETY: as above.
        unsafe { lane(second, x.as_ptr().cast(), second, null, x.len()) };
        assert!(b.iter().zip(&want).all(|(&g, &w)| same(g, w)));
    }
}
