//! Transpositions, tile by tile: each line of memory is fetched once.
// Elements may be foreign memory, at any address.
#![allow(clippy::cast_ptr_alignment)]

use std::mem::MaybeUninit;

use super::super::cache::fetch;

/// One loop of a nest; steps are in elements.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct Loop {
    pub len: usize,
    pub dst: isize,
    pub src: isize,
}

/// Side of the tiles that transpositions are cut into.
pub(super) const TILE: usize = 32;

/// Two loops of which the source is dense along `rows` and the destination along `cols`.
///
/// A tile is turned in a buffer, so that each line of memory is touched once on either side even
/// where the steps are powers of two and all lines compete for the same places in the cache.
pub(in crate::kernels) unsafe fn transpose<T: Copy>(
    rows: Loop,
    cols: Loop,
    dst: *mut T,
    src: *const T,
) {
    let dense = rows.src == 1 && cols.dst == 1;
    let mut room = [const { MaybeUninit::<T>::uninit() }; TILE * TILE];
    let buffer = room.as_mut_ptr().cast::<T>();
    for i0 in (0..rows.len).step_by(TILE) {
        let i1 = rows.len.min(i0 + TILE);
        for j0 in (0..cols.len).step_by(TILE) {
            let j1 = cols.len.min(j0 + TILE);
            // SAFETY (all blocks): i and j stay below the lengths of the loops, and inside the tile.
            if !dense || i1 - i0 < 8 || j1 - j0 < 8 {
                for i in i0..i1 {
                    for j in j0..j1 {
                        unsafe { element(rows, cols, i, j, dst, src) };
                    }
                }
                continue;
            }
            // Steps this long are beyond what the processor fetches ahead by itself.
            for j in j1..cols.len.min(j1 + TILE) {
                let s = src.wrapping_offset(i0 as isize + j as isize * cols.src);
                fetch(s, (i1 - i0) * size_of::<T>());
            }
            for i in i0..i1 {
                fetch(
                    dst.wrapping_offset(i as isize * rows.dst + j1 as isize),
                    TILE * size_of::<T>(),
                );
            }
            // The last squares of an edge tile overlap those before them.
            let place = |x: usize, n: usize| x.min(n - 8);
            for j in (0..j1 - j0).step_by(8).map(|j| place(j, j1 - j0)) {
                for i in (0..i1 - i0).step_by(8).map(|i| place(i, i1 - i0)) {
                    unsafe {
                        let s = src.offset((i0 + i) as isize + (j0 + j) as isize * cols.src);
                        square(buffer.add(i * TILE + j), TILE as isize, s, cols.src);
                    }
                }
            }
            for i in i0..i1 {
                unsafe {
                    let line = buffer.add((i - i0) * TILE).cast::<u8>();
                    let to = dst.offset(i as isize * rows.dst).add(j0).cast::<u8>();
                    std::ptr::copy_nonoverlapping(line, to, (j1 - j0) * size_of::<T>());
                }
            }
        }
    }
}

/// How far ahead rows that are far apart are asked for.
#[cfg(feature = "fft")]
const AHEAD: usize = 4;

/// The same of a few lines, `inner`, one side of which is known to compete for no place in the cache: its lines stay
/// there until they are full, or all of them is read. The other side is visited row by row.
#[cfg(feature = "fft")]
pub(in crate::kernels) unsafe fn turn<T: Copy>(
    outer: Loop,
    inner: Loop,
    dst: *mut T,
    src: *const T,
) {
    // Many small elements go through registers, though it takes a buffer.
    if size_of::<T>() < 8 {
        let (rows, cols) = if inner.src == 1 {
            (inner, outer)
        } else {
            (outer, inner)
        };
        // SAFETY: the caller's contract.
        return unsafe { transpose(rows, cols, dst, src) };
    }
    let bytes = inner.len * size_of::<T>();
    for i in 0..outer.len {
        let ahead = (i + AHEAD).min(outer.len) as isize;
        if inner.src == 1 {
            fetch(src.wrapping_offset(ahead * outer.src), bytes);
        } else if inner.dst == 1 {
            fetch(dst.wrapping_offset(ahead * outer.dst), bytes);
        }
        for j in 0..inner.len {
            // SAFETY: i and j stay below the lengths of the loops.
            unsafe { element(outer, inner, i, j, dst, src) };
        }
    }
}

#[inline(always)]
unsafe fn element<T: Copy>(rows: Loop, cols: Loop, i: usize, j: usize, d: *mut T, s: *const T) {
    let (i, j) = (i as isize, j as isize);
    // SAFETY: the caller keeps both indices below the lengths of their loops.
    unsafe {
        let x = s.offset(i * rows.src + j * cols.src).read_unaligned();
        d.offset(i * rows.dst + j * cols.dst).write_unaligned(x);
    }
}

/// Eight by eight elements through registers: eight dense reads, eight dense writes.
#[inline(always)]
unsafe fn square<T: Copy>(dst: *mut T, to: isize, src: *const T, from: isize) {
    // SAFETY: the caller vouches for the 64 elements on both sides.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if size_of::<T>() == 4 {
            // Left to itself the compiler moves elements of this size one by one.
            for (i, j) in [(0, 0), (4, 0), (0, 4), (4, 4)] {
                let s = src.offset(i + j * from).cast::<f32>();
                quarter(dst.offset(i * to + j).cast(), to, s, from);
            }
            return;
        }
        let mut lines = [src.cast::<[T; 8]>().read_unaligned(); 8];
        for (j, line) in lines.iter_mut().enumerate().skip(1) {
            *line = src
                .offset(j as isize * from)
                .cast::<[T; 8]>()
                .read_unaligned();
        }
        for i in 0..8 {
            let out = lines.map(|line| line[i]);
            dst.offset(i as isize * to)
                .cast::<[T; 8]>()
                .write_unaligned(out);
        }
    }
}

/// Four by four elements of four bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn quarter(dst: *mut f32, to: isize, src: *const f32, from: isize) {
    use std::arch::x86_64::*;
    // SAFETY: the caller vouches for the 16 elements on both sides; SSE2 is part of x86-64, and
    // moves bits without looking at them.
    unsafe {
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| _mm_loadu_ps(src.offset(j * from)));
        let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
        let (ef, gh) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(dst, _mm_movelh_ps(ab, cd));
        _mm_storeu_ps(dst.offset(to), _mm_movehl_ps(cd, ab));
        _mm_storeu_ps(dst.offset(2 * to), _mm_movelh_ps(ef, gh));
        _mm_storeu_ps(dst.offset(3 * to), _mm_movehl_ps(gh, ef));
    }
}
