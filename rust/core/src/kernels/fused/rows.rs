//! Tiles of whole rows: a reduction over the last axes whose result is read again in the same pass, as
//! in a softmax or a normalisation.

use std::mem::MaybeUninit;

use super::reduce::kernels;
use super::{FusedBuilder, NONE, Node, ReduceOp, Reg, Split, Work, unit_cost};
use crate::aval::{DType, Shape};
use crate::error::{Error, Result};
use crate::kernels::lane::LaneOp;
use crate::kernels::level::{Level, leveled};

/// `(x, rows, length, out)`: folds each of `rows` rows of `length` elements.
pub(super) type Fold = unsafe fn(*const u8, usize, usize, *mut u8);
/// `(x, rows, length, out)`: repeats each of `rows` elements `length` times.
pub(super) type Expand = unsafe fn(*const u8, usize, usize, *mut u8);
/// `(out, x, y, rows, length)`: an operation on each of `length` elements of a row of `x` with the one
/// element that `y` has for it. `out` may be `x`.
pub(super) type Along = unsafe fn(*mut u8, *const u8, *const u8, usize, usize);
/// Rows shorter than this are repeated instead.
const LONG_ROW: usize = 64;

impl FusedBuilder {
    /// A program over the row-major space of this shape whose tiles hold whole rows: elements that differ
    /// only in the axes from `kept` on.
    pub fn with_rows(shape: &[usize], kept: usize) -> FusedBuilder {
        let mut builder = FusedBuilder::new(shape);
        builder.rows = true;
        builder.split = Some(Split {
            outer: shape[..kept].iter().product(),
            reduced: shape[kept..].iter().product(),
            inner: 1,
        });
        builder
    }

    /// Whether rows of this dtype can be reduced so.
    pub fn folds(op: ReduceOp, dtype: DType) -> bool {
        kernels(op, dtype, true).is_some()
    }

    /// Whether a register has one element for each row.
    pub fn is_row(&self, x: Reg) -> bool {
        self.nodes[x.0 as usize].row
    }

    /// Whether a reduction runs over all rows and keeps the elements of one.
    pub(super) fn is_columns(&self, split: Split) -> bool {
        self.rows && split.outer == 1 && self.split.is_some_and(|s| split.inner == s.reduced)
    }

    /// The next input, with one element for each row: its value broadcasts to this shape, which has as
    /// many elements as there are rows.
    pub fn row_input(&mut self, dtype: DType, shape: &[usize]) -> Reg {
        let reg = self.input(dtype);
        self.nodes[reg.0 as usize].row = true;
        self.row_inputs.push((reg.0, Shape::from_slice(shape)));
        reg
    }

    /// The reduction of each row.
    pub fn fold_rows(&mut self, op: ReduceOp, x: Reg) -> Result<Reg> {
        let dtype = self.dtype(x);
        let found = kernels(op, dtype, true).filter(|_| self.rows && !self.is_row(x));
        let Some(kernels) = found else {
            let message = format!("fused {op:?} of rows: does not exist for {dtype} here");
            return Err(Error::DType(message));
        };
        self.cost += unit_cost(dtype);
        Ok(self.push(Node {
            code: super::scalar::Code::Lane,
            work: Some(Work::Fold(kernels.rows, kernels.narrow)),
            op: None,
            args: [x.0, NONE, NONE],
            dtype,
            long: false,
            row: true,
            number: false,
        }))
    }

    /// The element of each row, repeated along it.
    pub fn expand(&mut self, x: Reg) -> Reg {
        if !self.is_row(x) {
            return x;
        }
        let dtype = self.dtype(x);
        self.cost += 0.5 * unit_cost(dtype);
        self.push(Node {
            code: super::scalar::Code::Lane,
            work: Some(Work::Expand(expand(dtype.size()))),
            op: None,
            args: [x.0, NONE, NONE],
            dtype,
            long: false,
            row: false,
            number: false,
        })
    }
}

/// Lets operations read the elements of rows as they are, where one operand was repeated along its rows
/// and the operation is not part of a chain. What nobody else reads is then not repeated at all.
pub(super) fn read_rows(nodes: &mut [Node], length: usize) {
    if length < LONG_ROW {
        return;
    }
    for j in 0..nodes.len() {
        let Some((op, [x, y])) = nodes[j].two() else {
            continue;
        };
        let dtype = nodes[j].dtype;
        for (tile, repeated, turned) in [(x, y, false), (y, x, true)] {
            let Some(Work::Expand(_)) = nodes.get(repeated as usize).and_then(|n| n.work) else {
                continue;
            };
            if tile != repeated
                && let Some(along) = along(op, turned, dtype)
            {
                nodes[j].work = Some(Work::Along(along));
                nodes[j].code = super::scalar::Code::Lane;
                nodes[j].op = None;
                nodes[j].args = [tile, nodes[repeated as usize].args[0], NONE];
                break;
            }
        }
    }
}

/// An operation on two elements of a type.
trait Two {
    type T: Copy;
    fn call(x: Self::T, y: Self::T) -> Self::T;
}

/// `two!(T, |x, y| body)`: the kernel of an operation.
macro_rules! two {
    ($t:ty, |$x:ident, $y:ident| $body:expr) => {{
        struct K;
        impl Two for K {
            type T = $t;
            #[inline(always)]
            fn call($x: $t, $y: $t) -> $t {
                $body
            }
        }
        along_rows::<K>(Level::best())
    }};
}

macro_rules! twos {
    ($t:ty, $op:expr, $turned:expr) => {
        match ($op, $turned) {
            (LaneOp::Add, _) => two!($t, |x, y| x + y),
            (LaneOp::Mul, _) => two!($t, |x, y| x * y),
            (LaneOp::Sub, false) => two!($t, |x, y| x - y),
            (LaneOp::Sub, true) => two!($t, |x, y| y - x),
            (LaneOp::Div, false) => two!($t, |x, y| x / y),
            (LaneOp::Div, true) => two!($t, |x, y| y / x),
            _ => return None,
        }
    };
}

/// The kernel of `op(x, y)`, or `op(y, x)` when `turned`, where `y` has one element for each row.
fn along(op: LaneOp, turned: bool, dtype: DType) -> Option<Along> {
    Some(match dtype {
        DType::F32 => twos!(f32, op, turned),
        DType::F64 => twos!(f64, op, turned),
        _ => return None,
    })
}

leveled! {
    fn along_rows[K: Two](out: *mut u8, x: *const u8, y: *const u8, rows: usize, length: usize) {
        let in_place = out.cast_const() == x;
        let (out, x, y) = (out.cast::<MaybeUninit<K::T>>(), x.cast::<K::T>(), y.cast::<K::T>());
        for row in 0..rows {
            // SAFETY: the caller passes `rows * length` elements, `rows` others, and room for the results,
            // which lie where the first operand lies or apart from both.
            unsafe {
                let y = y.add(row).read();
                let out = std::slice::from_raw_parts_mut(out.add(row * length), length);
                if in_place {
                    for out in out {
                        let x = out.assume_init();
                        out.write(K::call(x, y));
                    }
                } else {
                    let x = std::slice::from_raw_parts(x.add(row * length), length);
                    for (out, &x) in out.iter_mut().zip(x) {
                        out.write(K::call(x, y));
                    }
                }
            }
        }
    }
}

fn expand(size: usize) -> Expand {
    let level = Level::best();
    match size {
        1 => repeat::<u8>(level),
        2 => repeat::<u16>(level),
        4 => repeat::<u32>(level),
        8 => repeat::<u64>(level),
        _ => repeat::<[u64; 2]>(level),
    }
}

leveled! {
    fn repeat[T: Copy](x: *const u8, rows: usize, length: usize, out: *mut u8) {
        let (x, out) = (x.cast::<T>(), out.cast::<MaybeUninit<T>>());
        for row in 0..rows {
            // SAFETY: the caller passes `rows` elements, and room for `rows * length` apart from them.
            unsafe {
                let element = MaybeUninit::new(x.add(row).read());
                std::slice::from_raw_parts_mut(out.add(row * length), length).fill(element);
            }
        }
    }
}
