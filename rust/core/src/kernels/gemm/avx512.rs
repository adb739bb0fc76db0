//! The AVX-512 register tile: up to 12 rows by two registers of columns, the sums in 24 registers.
//!
//! A tile reads its rows of `a` one element at a time (broadcast), so they may lie anywhere; rows of
//! `b` must be dense, and may be packed or not. Every element of the result is one chain of fused
//! multiplications in the order of the summed axis, whatever the size of its tile.

use std::arch::x86_64::*;

use super::real::Real;

/// Rows of a full tile.
pub(super) const MR: usize = 12;

/// What one tile is made of; `rows` and `cols` say how much of it is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile<T> {
    pub k: usize,
    pub a: *const T,
    pub a_row: isize,
    pub a_step: isize,
    pub b: *const T,
    pub b_step: isize,
    pub c: *mut T,
    pub c_row: isize,
    /// Whether to add to what is in `c`.
    pub add: bool,
}

/// A type with a register tile.
pub(super) trait Vector: Real {
    /// Elements of a register.
    const LANES: usize;
    /// Columns of a full tile.
    const NR: usize = 2 * Self::LANES;
    /// # Safety
    /// AVX-512F must be there; the tile must lie in memory of the caller; `1 <= rows <= MR`,
    /// `1 <= cols <= NR`.
    unsafe fn tile(t: Tile<Self>, rows: usize, cols: usize);
}

macro_rules! vector {
    ($t:ident, $module:ident, $lanes:literal, $reg:ident, $mask:ident, $zero:ident, $set:ident,
     $load:ident, $mload:ident, $store:ident, $mstore:ident, $fma:ident, $add:ident) => {
        mod $module {
            use super::*;

            #[target_feature(enable = "avx512f")]
            pub(super) unsafe fn tile<const M: usize, const V: usize, const MASKED: bool>(
                t: Tile<$t>,
                cols: usize,
            ) {
                // Which lanes of the last register count.
                let mask = $mask::MAX >> (V * $lanes - cols);
                let mut sums = [[$zero(); V]; M];
                let (mut a, mut b) = (t.a, t.b);
                // SAFETY (all blocks): the caller vouches for `M` rows and `cols` columns.
                for _ in 0..t.k {
                    unsafe {
                        let mut row = [$zero(); V];
                        for (v, x) in row.iter_mut().enumerate() {
                            *x = if MASKED && v + 1 == V {
                                $mload(mask, b.add(v * $lanes))
                            } else {
                                $load(b.add(v * $lanes))
                            };
                        }
                        for (i, sum) in sums.iter_mut().enumerate() {
                            let x = $set(*a.offset(i as isize * t.a_row));
                            for (s, y) in sum.iter_mut().zip(row) {
                                *s = $fma(x, y, *s);
                            }
                        }
                        a = a.offset(t.a_step);
                        b = b.offset(t.b_step);
                    }
                }
                for (i, sum) in sums.iter().enumerate() {
                    for (v, &x) in sum.iter().enumerate() {
                        unsafe {
                            let c = t.c.offset(i as isize * t.c_row).add(v * $lanes);
                            if MASKED && v + 1 == V {
                                let old = if t.add { $mload(mask, c) } else { $zero() };
                                let x = if t.add { $add(old, x) } else { x };
                                $mstore(c, mask, x);
                            } else {
                                let x = if t.add { $add($load(c), x) } else { x };
                                $store(c, x);
                            }
                        }
                    }
                }
            }
        }

        impl Vector for $t {
            const LANES: usize = $lanes;

            #[inline]
            unsafe fn tile(t: Tile<$t>, rows: usize, cols: usize) {
                macro_rules! rows {
                    ($v:literal: $m:literal) => {
                        // SAFETY: the caller's promise.
                        unsafe { $module::tile::<$m, $v, true>(t, cols) }
                    };
                }
                macro_rules! by_rows {
                    ($v:literal) => {
                        match rows {
                            1 => rows!($v: 1),
                            2 => rows!($v: 2),
                            3 => rows!($v: 3),
                            4 => rows!($v: 4),
                            5 => rows!($v: 5),
                            6 => rows!($v: 6),
                            7 => rows!($v: 7),
                            8 => rows!($v: 8),
                            9 => rows!($v: 9),
                            10 => rows!($v: 10),
                            11 => rows!($v: 11),
                            _ => rows!($v: 12),
                        }
                    };
                }
                if rows == MR && cols == 2 * $lanes {
                    // SAFETY: the caller's promise.
                    unsafe { $module::tile::<MR, 2, false>(t, cols) }
                } else if cols > $lanes {
                    by_rows!(2)
                } else {
                    by_rows!(1)
                }
            }
        }
    };
}
vector!(
    f32, single, 16, __m512, __mmask16, _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps,
    _mm512_maskz_loadu_ps, _mm512_storeu_ps, _mm512_mask_storeu_ps, _mm512_fmadd_ps, _mm512_add_ps
);
vector!(
    f64, double, 8, __m512d, __mmask8, _mm512_setzero_pd, _mm512_set1_pd, _mm512_loadu_pd,
    _mm512_maskz_loadu_pd, _mm512_storeu_pd, _mm512_mask_storeu_pd, _mm512_fmadd_pd, _mm512_add_pd
);
