//! Functions that the texts of the table call and WGSL does not have, or not as NumPy has them. Their names end with
//! the type that they are for.
//!
//! WGSL says neither what becomes of NaN nor, for most functions, how large an error may be, so what the table relies
//! on is spelled out here: reductions of arguments after Cody and Waite, polynomials as in Cephes (S. Moshier,
//! netlib.org/cephes, the single precision ones).

use std::collections::HashMap;
use std::sync::OnceLock;

/// Everything for float32.
const SINGLE: &str = "
fn inf_f32() -> f32 { return bitcast<f32>(INFINITY); }
fn nan_f32() -> f32 { return bitcast<f32>(INFINITY | 0x400000u); }
fn isnan_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn isinf_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn isfinite_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u; }
fn sign_f32(x: f32) -> f32 { return select(select(select(0.0, -1.0, x < 0.0), 1.0, x > 0.0), x, isnan_f32(x)); }
fn copysign_f32(x: f32, y: f32) -> f32 { return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u)); }
fn maximum_f32(x: f32, y: f32) -> f32 { return select(select(select(y, x, x > y), y, isnan_f32(y)), x, isnan_f32(x)); }
fn minimum_f32(x: f32, y: f32) -> f32 { return select(select(select(y, x, x < y), y, isnan_f32(y)), x, isnan_f32(x)); }
fn fmax_f32(x: f32, y: f32) -> f32 { return select(select(select(y, x, x > y), x, isnan_f32(y)), y, isnan_f32(x)); }
fn fmin_f32(x: f32, y: f32) -> f32 { return select(select(select(y, x, x < y), x, isnan_f32(y)), y, isnan_f32(x)); }
fn relu_f32(x: f32) -> f32 { return select(select(0.0, x, x > 0.0), x, isnan_f32(x)); }
fn scale_f32(x: f32, n: i32) -> f32 {
  let a = n / 2;
  let b = n - a;
  return x * bitcast<f32>(u32(a + 127) << 23u) * bitcast<f32>(u32(b + 127) << 23u);
}
fn exp_f32(x: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  if (x > 88.8) { return inf_f32(); }
  if (x < -104.0) { return 0.0; }
  let n = floor(x * 1.44269504 + 0.5);
  var r = x - n * 0.693359375;
  r = r + n * 2.12194440e-4;
  let p = (((((1.9875691500e-4 * r + 1.3981999507e-3) * r + 8.3334519073e-3) * r + 4.1665795894e-2) * r
    + 1.6666665459e-1) * r + 5.0000001201e-1) * r * r + r + 1.0;
  return scale_f32(p, i32(n));
}
fn exp2_f32(x: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  if (x > 128.0) { return inf_f32(); }
  if (x < -150.0) { return 0.0; }
  let n = floor(x + 0.5);
  return scale_f32(exp_f32((x - n) * 0.69314718056), i32(n));
}
fn expm1_f32(x: f32) -> f32 {
  if (abs(x) < 0.5) {
    return x + x * x * (0.5 + x * (0.16666666667 + x * (4.1666666667e-2 + x * (8.3333333333e-3 + x * (1.3888888889e-3
      + x * (1.984126984e-4 + x * 2.48015873e-5))))));
  }
  return exp_f32(x) - 1.0;
}
fn log_f32(x: f32) -> f32 {
  if (isnan_f32(x) || x < 0.0) { return select(nan_f32(), x, isnan_f32(x)); }
  if (x == 0.0) { return -inf_f32(); }
  if (isinf_f32(x)) { return x; }
  var y = x;
  var e = 0.0;
  if (y < 1.1754944e-38) { y = y * 8388608.0; e = -23.0; }
  let bits = bitcast<u32>(y);
  e = e + f32(i32(bits >> 23u) - 126);
  var m = bitcast<f32>((bits & 0x7fffffu) | 0x3f000000u);
  if (m < 0.70710678) { e = e - 1.0; m = m + m - 1.0; } else { m = m - 1.0; }
  let z = m * m;
  var p = ((((((((7.0376836292e-2 * m - 1.1514610310e-1) * m + 1.1676998740e-1) * m - 1.2420140846e-1) * m
    + 1.4249322787e-1) * m - 1.6668057665e-1) * m + 2.0000714765e-1) * m - 2.4999993993e-1) * m + 3.3333331174e-1) * m * z;
  p = p - 2.12194440e-4 * e - 0.5 * z;
  return m + p + 0.693359375 * e;
}
fn log2_f32(x: f32) -> f32 {
  if (!(x > 0.0) || isinf_f32(x)) { return log_f32(x); }
  var e = 0.0;
  var y = x;
  if (y < 1.1754944e-38) { y = y * 8388608.0; e = -23.0; }
  let bits = bitcast<u32>(y);
  var m = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
  e = e + f32(i32(bits >> 23u) - 127);
  if (m > 1.41421356) { m = m * 0.5; e = e + 1.0; }
  return e + log_f32(m) * 1.44269504;
}
fn log10_f32(x: f32) -> f32 { return log_f32(x) * 0.4342944819; }
fn log1p_f32(x: f32) -> f32 {
  let u = 1.0 + x;
  if (u == 1.0) { return x; }
  if (isinf_f32(x)) { return select(nan_f32(), x, x > 0.0); }
  return log_f32(u) * (x / (u - 1.0));
}
fn mul_high(a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu; let a1 = a >> 16u;
  let b0 = b & 0xffffu; let b1 = b >> 16u;
  let t = a1 * b0 + ((a0 * b0) >> 16u);
  let u = a0 * b1 + (t & 0xffffu);
  return a1 * b1 + (t >> 16u) + (u >> 16u);
}
fn digit(i: u32) -> u32 {
  // Not an array: software drivers read that in memory, also for threads that do not come here.
  let first = select(0x28be60dbu, 0x9391054au, i == 1u);
  let second = select(0x7f09d5f4u, 0x7d4d3770u, i == 3u);
  let third = select(0x36d8a566u, 0x4f10e410u, i == 5u);
  return select(select(first, second, i >= 2u), third, i >= 4u);
}
fn reduced_far(x: f32) -> vec2<f32> {
  // The significand times those bits of 2 / pi that matter (M. H. Payne, R. N. Hanek, SIGNUM Newsletter 18, 1983):
  // two bits of the product are the quarter, the rest is the fraction.
  let bits = bitcast<u32>(x);
  let exponent = ((bits >> 23u) & 255u) - 126u;
  let a = (bits << 8u) | 0x80000000u;
  let i = exponent >> 5u;
  let e = exponent & 31u;
  var high = 0u;
  if (i > 0u) { high = digit(i - 1u); }
  var middle = digit(i);
  var low = digit(i + 1u);
  if (e > 0u) {
    high = (high << e) | (middle >> (32u - e));
    middle = (middle << e) | (low >> (32u - e));
    low = (low << e) | (digit(i + 2u) >> (32u - e));
  }
  let carry = mul_high(a, low);
  var p0 = a * middle + carry;
  var p1 = mul_high(a, middle) + select(0u, 1u, p0 < carry) + a * high;
  var n = f32(p1 >> 30u);
  p1 = p1 & 0x3fffffffu;
  var sign = 1.0;
  if (p1 >= 0x20000000u) {
    p1 = 0x40000000u - p1 - select(0u, 1u, p0 != 0u);
    p0 = 0u - p0;
    n = n + 1.0;
    sign = -1.0;
  }
  let r = sign * (f32(p1) * 1.4629180792671596e-9 + f32(p0) * 3.4061215800865545e-19);
  return select(vec2<f32>(r, n), vec2<f32>(-r, -n), x < 0.0);
}
fn reduced_f32(x: f32) -> vec2<f32> {
  if (abs(x) > 8192.0) { return reduced_far(x); }
  let n = floor(x * 0.636619772 + 0.5);
  var r = x - n * 1.5703125;
  r = r - n * 4.837512969970703e-4;
  r = r - n * 7.549789948768648e-8;
  return vec2<f32>(r, n);
}
fn sin_poly_f32(r: f32) -> f32 { let z = r * r; return r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4)); }
fn cos_poly_f32(r: f32) -> f32 { let z = r * r; return 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5)); }
fn quarter_f32(n: f32) -> u32 { return u32(i32(n - 4.0 * floor(n * 0.25))) & 3u; }
fn sin_f32(x: f32) -> f32 {
  if (!isfinite_f32(x)) { return nan_f32(); }
  if (x == 0.0) { return x; }
  let r = reduced_f32(x);
  let q = quarter_f32(r.y);
  let v = select(sin_poly_f32(r.x), cos_poly_f32(r.x), (q & 1u) == 1u);
  return select(v, -v, (q & 2u) == 2u);
}
fn cos_f32(x: f32) -> f32 {
  if (!isfinite_f32(x)) { return nan_f32(); }
  let r = reduced_f32(x);
  let q = quarter_f32(r.y) + 1u;
  let v = select(sin_poly_f32(r.x), cos_poly_f32(r.x), (q & 1u) == 1u);
  return select(v, -v, (q & 2u) == 2u);
}
fn tan_f32(x: f32) -> f32 { return sin_f32(x) / cos_f32(x); }
fn sinh_f32(x: f32) -> f32 {
  let a = abs(x);
  if (a < 0.5) { let z = x * x; return x + x * z * (0.16666666667 + z * (8.3333333333e-3 + z * (1.984126984e-4 + z * 2.75573e-6))); }
  let h = exp_f32(0.5 * a);
  return copysign_f32((0.5 * h) * h - 0.5 / (h * h), x);
}
fn cosh_f32(x: f32) -> f32 { let h = exp_f32(0.5 * abs(x)); return (0.5 * h) * h + 0.5 / (h * h); }
fn tanh_f32(x: f32) -> f32 {
  let a = abs(x);
  if (a < 0.625) { let z = x * x; return x + x * z * ((((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z - 3.33332819422e-1); }
  if (isnan_f32(x)) { return x; }
  return copysign_f32(1.0 - 2.0 / (exp_f32(2.0 * a) + 1.0), x);
}
fn atan_f32(x: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  let a = abs(x);
  var base = 0.0;
  var t = a;
  if (a > 2.414213562) { base = 1.5707963268; t = -1.0 / a; }
  else if (a > 0.4142135624) { base = 0.7853981634; t = (a - 1.0) / (a + 1.0); }
  let z = t * t;
  let v = base + (((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1) * z * t + t;
  return copysign_f32(v, x);
}
fn atan2_f32(y: f32, x: f32) -> f32 {
  if (isnan_f32(x) || isnan_f32(y)) { return nan_f32(); }
  let negative = (bitcast<u32>(x) & 0x80000000u) != 0u;
  var v = 0.0;
  if (isinf_f32(x) && isinf_f32(y)) { v = 0.7853981634; }
  else if (y == 0.0) { v = 0.0; }
  else if (x == 0.0) { v = 1.5707963268; }
  else { v = atan_f32(abs(y) / abs(x)); }
  return copysign_f32(select(v, 3.1415926536 - v, negative), y);
}
fn asin_f32(x: f32) -> f32 {
  let a = abs(x);
  if (!(a <= 1.0)) { return nan_f32(); }
  var z = a * a;
  var t = a;
  if (a > 0.5) { z = 0.5 * (1.0 - a); t = sqrt(z); }
  var v = ((((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2) * z + 1.6666752422e-1) * z * t + t;
  if (a > 0.5) { v = 1.5707963268 - 2.0 * v; }
  return copysign_f32(v, x);
}
fn acos_f32(x: f32) -> f32 {
  if (!(abs(x) <= 1.0)) { return nan_f32(); }
  if (x > 0.5) { return 2.0 * asin_f32(sqrt(0.5 * (1.0 - x))); }
  if (x < -0.5) { return 3.1415926536 - 2.0 * asin_f32(sqrt(0.5 * (1.0 + x))); }
  return 1.5707963268 - asin_f32(x);
}
fn asinh_f32(x: f32) -> f32 {
  let a = abs(x);
  if (a > 1e18) { return copysign_f32(log_f32(a) + 0.69314718, x); }
  return copysign_f32(log1p_f32(a + a * a / (1.0 + sqrt(a * a + 1.0))), x);
}
fn acosh_f32(x: f32) -> f32 {
  if (x > 1e18) { return log_f32(x) + 0.69314718; }
  let t = x - 1.0;
  if (t < 0.0) { return nan_f32(); }
  return log1p_f32(t + sqrt(2.0 * t + t * t));
}
fn atanh_f32(x: f32) -> f32 { return copysign_f32(0.5 * log1p_f32(2.0 * abs(x) / (1.0 - abs(x))), x); }
fn sigmoid_f32(x: f32) -> f32 { return 1.0 / (1.0 + exp_f32(-x)); }
fn softplus_f32(x: f32) -> f32 { return maximum_f32(x, 0.0) + log1p_f32(exp_f32(-abs(x))); }
fn erfc_tail_f32(a: f32) -> f32 {
  if (a > 10.5) { return 0.0; }
  let q = 1.0 / a;
  let y = q * q;
  var p = 0.0;
  if (a < 2.0) {
    p = (((((((2.326819970068386e-2 * y - 1.387039388740657e-1) * y + 3.687424674597105e-1) * y - 5.824733027278666e-1) * y
      + 6.210004621745983e-1) * y - 4.944515323274145e-1) * y + 3.404879937665872e-1) * y - 2.741127028184656e-1) * y + 5.638259427386472e-1;
  } else {
    p = ((((((-1.047766399936249e1 * y + 1.297719955372516e1) * y - 7.495518717768503e0) * y + 2.921019019210786e0) * y
      - 1.015265279202700e0) * y + 4.218463358204948e-1) * y - 2.820767439740514e-1) * y + 5.641895067754075e-1;
  }
  let s = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
  return exp_f32(-s * s) * exp_f32((s - a) * (s + a)) * q * p;
}
fn erf_f32(x: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  let a = abs(x);
  if (a < 1.0) {
    let z = x * x;
    return x * (((((((7.853861353153693e-5 * z - 8.010193625184903e-4) * z + 5.188327685732524e-3) * z
      - 2.685381193529856e-2) * z + 1.128358514861418e-1) * z - 3.761262582423300e-1) * z + 1.128379165726710));
  }
  return copysign_f32(1.0 - erfc_tail_f32(a), x);
}
fn erfc_f32(x: f32) -> f32 {
  if (isnan_f32(x)) { return x; }
  if (abs(x) < 1.0) { return 1.0 - erf_f32(x); }
  let t = erfc_tail_f32(abs(x));
  return select(t, 2.0 - t, x < 0.0);
}
fn cbrt_f32(x: f32) -> f32 {
  if (x == 0.0 || !isfinite_f32(x)) { return x; }
  let a = abs(x);
  var y = exp_f32(log_f32(a) * 0.33333333);
  y = y - (y - a / (y * y)) * 0.33333333;
  return copysign_f32(y, x);
}
fn pow_f32(x: f32, y: f32) -> f32 {
  if (y == 0.0 || x == 1.0) { return 1.0; }
  if (isnan_f32(x) || isnan_f32(y)) { return nan_f32(); }
  let whole = floor(y) == y;
  if (whole && abs(y) <= 64.0) {
    var n = u32(abs(y));
    var b = x;
    var v = 1.0;
    while (n > 0u) { if ((n & 1u) == 1u) { v = v * b; } b = b * b; n = n >> 1u; }
    return select(v, 1.0 / v, y < 0.0);
  }
  let odd = whole && abs(y) < 16777216.0 && (u32(abs(y)) & 1u) == 1u;
  let negative = (bitcast<u32>(x) & 0x80000000u) != 0u;
  let a = abs(x);
  var v = 0.0;
  if (a == 0.0) { v = select(0.0, inf_f32(), y < 0.0); }
  else if (isinf_f32(a)) { v = select(inf_f32(), 0.0, y < 0.0); }
  else if (isinf_f32(y)) { v = select(select(0.0, inf_f32(), (a > 1.0) == (y > 0.0)), 1.0, a == 1.0); }
  else {
    // The exponent of two is split off, so that its product with y stays exact.
    let bits = bitcast<u32>(select(a, a * 8388608.0, a < 1.1754944e-38));
    var e = f32(i32(bits >> 23u) - 127) - select(0.0, 23.0, a < 1.1754944e-38);
    var m = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
    if (m > 1.41421356) { m = m * 0.5; e = e + 1.0; }
    let l = log_f32(m) * 1.44269504;
    let whole_y = round(y);
    let h = whole_y * e;
    let rest = (y - whole_y) * e + y * l;
    let n = round(clamp(h, -2000.0, 2000.0));
    let t = clamp(n + rest, -300.0, 300.0);
    let k = round(t);
    v = select(scale_f32(exp_f32(((n - k) + rest) * 0.69314718056), i32(clamp(k, -252.0, 252.0))), select(0.0, inf_f32(), t > 0.0), abs(t) > 160.0);
  }
  if (!negative) { return v; }
  if (!whole && a != 0.0 && !isinf_f32(a)) { return nan_f32(); }
  return select(v, -v, odd);
}
fn hypot_f32(x: f32, y: f32) -> f32 {
  let a = abs(x);
  let b = abs(y);
  if (isinf_f32(a) || isinf_f32(b)) { return inf_f32(); }
  if (isnan_f32(a) || isnan_f32(b)) { return nan_f32(); }
  let h = max(a, b);
  if (h == 0.0) { return 0.0; }
  let r = min(a, b) / h;
  return h * sqrt(1.0 + r * r);
}
fn logaddexp_f32(x: f32, y: f32) -> f32 {
  if (x == y) { return x + 0.69314718056; }
  return maximum_f32(x, y) + log1p_f32(exp_f32(-abs(x - y)));
}
fn fmod_f32(x: f32, y: f32) -> f32 {
  if (y == 0.0 || !isfinite_f32(x) || isnan_f32(y)) { return nan_f32(); }
  if (isinf_f32(y)) { return x; }
  // By halving, so that no quotient is rounded.
  var r = abs(x);
  let b = abs(y);
  while (r >= b) {
    var t = b;
    while (t <= r * 0.5) { t = t * 2.0; }
    r = r - t;
  }
  return copysign_f32(r, x);
}
fn remainder_f32(x: f32, y: f32) -> f32 {
  let r = fmod_f32(x, y);
  if (r != 0.0 && ((r < 0.0) != (y < 0.0))) { return r + y; }
  return select(r, copysign_f32(0.0, y), r == 0.0);
}
fn floor_divide_f32(x: f32, y: f32) -> f32 {
  if (y == 0.0) { return x / y; }
  let r = fmod_f32(x, y);
  var d = (x - r) / y;
  if (r != 0.0 && ((r < 0.0) != (y < 0.0))) { d = d - 1.0; }
  if (d == 0.0) { return copysign_f32(0.0, x / y); }
  return floor(d + 0.5);
}
fn to_i32_f32(x: f32) -> i32 { if (isnan_f32(x)) { return 0; } if (x >= 2147483648.0) { return 2147483647; } if (x <= -2147483648.0) { return bitcast<i32>(0x80000000u); } return i32(x); }
fn to_u32_f32(x: f32) -> u32 { if (!(x > 0.0)) { return 0u; } if (x >= 4294967296.0) { return 0xffffffffu; } return u32(x); }
fn to_i64_f32(x: f32) -> i64 { if (isnan_f32(x)) { return i64(0); } if (x >= 9223372036854775808.0) { return 9223372036854775807li; } if (x <= -9223372036854775808.0) { return i64(-9223372036854775807li - 1li); } return i64(x); }
fn to_u64_f32(x: f32) -> u64 { if (!(x > 0.0)) { return u64(0); } if (x >= 18446744073709551616.0) { return 18446744073709551615lu; } return u64(x); }
";

/// What float64 has without a function of a power series.
const DOUBLE: &str = "
fn isnan_f64(x: f64) -> bool { return !(x == x); }
fn isfinite_f64(x: f64) -> bool { return abs(x) <= 1.7976931348623157e308lf; }
fn isinf_f64(x: f64) -> bool { return abs(x) > 1.7976931348623157e308lf; }
fn sign_f64(x: f64) -> f64 { if (x > 0.0lf) { return 1.0lf; } if (x < 0.0lf) { return -1.0lf; } return x + 0.0lf; }
fn copysign_f64(x: f64, y: f64) -> f64 { return select(abs(x), -abs(x), y < 0.0lf || (y == 0.0lf && 1.0lf / y < 0.0lf)); }
fn maximum_f64(x: f64, y: f64) -> f64 { if (!(x == x)) { return x; } if (!(y == y)) { return y; } return select(y, x, x > y); }
fn minimum_f64(x: f64, y: f64) -> f64 { if (!(x == x)) { return x; } if (!(y == y)) { return y; } return select(y, x, x < y); }
fn fmax_f64(x: f64, y: f64) -> f64 { if (!(x == x)) { return y; } if (!(y == y)) { return x; } return select(y, x, x > y); }
fn fmin_f64(x: f64, y: f64) -> f64 { if (!(x == x)) { return y; } if (!(y == y)) { return x; } return select(y, x, x < y); }
fn relu_f64(x: f64) -> f64 { if (!(x == x)) { return x; } return select(0.0lf, x, x > 0.0lf); }
fn to_i32_f64(x: f64) -> i32 { if (!(x == x)) { return 0; } if (x >= 2147483648.0lf) { return 2147483647; } if (x <= -2147483648.0lf) { return bitcast<i32>(0x80000000u); } return i32(x); }
fn to_u32_f64(x: f64) -> u32 { if (!(x > 0.0lf)) { return 0u; } if (x >= 4294967296.0lf) { return 0xffffffffu; } return u32(x); }
fn to_i64_f64(x: f64) -> i64 { if (!(x == x)) { return i64(0); } if (x >= 9223372036854775808.0lf) { return 9223372036854775807li; } if (x <= -9223372036854775808.0lf) { return i64(-9223372036854775807li - 1li); } return i64(x); }
";

/// Integers; `T` is the type, `U` the one without a sign.
const SIGNED: &str = "
fn floor_divide_T(x: T, y: T) -> T { if (y == T(0)) { return T(0); } if (y == T(-1)) { return T(0) - x; } let q = x / y; return select(q, q - T(1), x % y != T(0) && ((x < T(0)) != (y < T(0)))); }
fn fmod_T(x: T, y: T) -> T { if (y == T(0) || y == T(-1)) { return T(0); } return x % y; }
fn remainder_T(x: T, y: T) -> T { if (y == T(0) || y == T(-1)) { return T(0); } let r = x % y; return select(r, r + y, r != T(0) && ((r < T(0)) != (y < T(0)))); }
";
const UNSIGNED: &str = "
fn floor_divide_T(x: T, y: T) -> T { if (y == T(0)) { return T(0); } return x / y; }
fn fmod_T(x: T, y: T) -> T { if (y == T(0)) { return T(0); } return x % y; }
fn remainder_T(x: T, y: T) -> T { if (y == T(0)) { return T(0); } return x % y; }
";

/// The functions by their names.
pub fn functions() -> &'static HashMap<&'static str, &'static str> {
    static ALL: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = HashMap::new();
        for source in [SINGLE, DOUBLE] {
            add(&mut all, source);
        }
        for (source, kinds) in [(SIGNED, ["i32", "i64"]), (UNSIGNED, ["u32", "u64"])] {
            for kind in kinds {
                add(&mut all, source.replace('T', kind).leak());
            }
        }
        all
    })
}

fn add(all: &mut HashMap<&'static str, &'static str>, source: &'static str) {
    for function in source.split("\nfn ").skip(1) {
        if let Some((name, _)) = function.split_once('(') {
            // With the keyword in front of it, which lies in the same text.
            let start = function.as_ptr() as usize - source.as_ptr() as usize - "fn ".len();
            let end = start + "fn ".len() + function.len();
            all.insert(name, &source[start..end]);
        }
    }
}
