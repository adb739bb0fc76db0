//! Tiles of whole rows: a reduction over the last axes whose result is read again in the same pass, as
//! in a softmax or a normalisation.
#![allow(clippy::cast_ptr_alignment)]

use std::mem::MaybeUninit;

use super::reduce::kernels;
use super::{FusedBuilder, NONE, Node, ReduceOp, Reg, Split, Work, unit_cost};
use crate::aval::{DType, Shape};
use crate::error::{Error, Result};
use crate::kernels::lane::LaneOp;
use crate::kernels::simd_level::{Level, leveled};

/// `(x, rows, length, out)`: folds each of `rows` rows of `length` elements.
pub(super) type Fold = unsafe fn(*const u8, usize, usize, *mut u8);
/// `(x, rows, length, out)`: repeats each of `rows` elements `length` times.
pub(super) type Expand = unsafe fn(*const u8, usize, usize, *mut u8);
/// `(out, [x, y, z], rows, length)`: an operation on each of `length` elements of a row with the one element
/// that an operand has for it. `out` may be an operand whose elements have the size of the result's.
pub(super) type Along = unsafe fn(*mut u8, &[*const u8; 3], usize, usize);
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
        let mask = self.mask_of(x).filter(|_| op == ReduceOp::Sum);
        let (fold, x) = match mask {
            Some(mask) if kernels.acc == DType::F64 => (count(Level::best()), mask),
            _ => (kernels.rows, x.0),
        };
        Ok(self.push(Node {
            code: super::scalar::Code::Lane,
            work: Some(Work::Fold(fold, kernels.narrow)),
            op: None,
            args: [x, NONE, NONE],
            dtype,
            long: false,
            row: true,
            number: false,
        }))
    }

    /// The mask that a register is, as numbers.
    fn mask_of(&self, x: Reg) -> Option<u32> {
        let node = &self.nodes[x.0 as usize];
        let [mask, NONE, NONE] = node.args else {
            return None;
        };
        let is_cast = node.op.is_none() && matches!(node.work, Some(Work::Tile(_)));
        (is_cast && self.nodes[mask as usize].dtype == DType::Bool).then_some(mask)
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
    let repeated = |nodes: &[Node], x: u32| match nodes.get(x as usize)?.work {
        Some(Work::Expand(_)) => Some(nodes[x as usize].args[0]),
        _ => None,
    };
    for j in 0..nodes.len() {
        let args = nodes[j].args;
        let found = if let Some((op, [x, y])) = nodes[j].two() {
            [(x, y, false), (y, x, true)]
                .into_iter()
                .find_map(|(tile, y, turned)| {
                    let row = repeated(nodes, y).filter(|_| tile != y)?;
                    let along = along(op, turned, nodes[tile as usize].dtype)?;
                    Some((along, [tile, row, NONE]))
                })
        } else if nodes[j].op == Some(LaneOp::Where) && !nodes[j].row {
            let [mask, x, y] = args;
            [(x, y, false), (y, x, true)]
                .into_iter()
                .find_map(|(x, tile, turned)| {
                    let row = repeated(nodes, x).filter(|_| tile != x)?;
                    let choice = choice(turned, nodes[j].dtype)?;
                    Some((choice, [mask, row, tile]))
                })
        } else {
            None
        };
        if let Some((along, args)) = found {
            nodes[j].work = Some(Work::Along(along));
            nodes[j].code = super::scalar::Code::Lane;
            nodes[j].op = None;
            nodes[j].args = args;
        }
    }
}

/// An operation on two elements of a type.
trait Two {
    type T: Copy;
    type R: Copy;
    fn call(x: Self::T, y: Self::T) -> Self::R;
}

/// `two!(T => R, |x, y| body)`: the kernel of an operation.
macro_rules! two {
    ($t:ty => $r:ty, |$x:ident, $y:ident| $body:expr) => {{
        struct K;
        impl Two for K {
            type T = $t;
            type R = $r;
            #[inline(always)]
            fn call($x: $t, $y: $t) -> $r {
                $body
            }
        }
        along_rows::<K>(Level::best())
    }};
}

macro_rules! twos {
    ($t:ty, $op:expr, $turned:expr) => {
        match ($op, $turned) {
            (LaneOp::Add, _) => two!($t => $t, |x, y| x + y),
            (LaneOp::Mul, _) => two!($t => $t, |x, y| x * y),
            (LaneOp::Sub, false) => two!($t => $t, |x, y| x - y),
            (LaneOp::Sub, true) => two!($t => $t, |x, y| y - x),
            (LaneOp::Div, false) => two!($t => $t, |x, y| x / y),
            (LaneOp::Div, true) => two!($t => $t, |x, y| y / x),
            (LaneOp::Eq, _) => two!($t => u8, |x, y| u8::from(x == y)),
            (LaneOp::Ne, _) => two!($t => u8, |x, y| u8::from(x != y)),
            (LaneOp::Lt, false) | (LaneOp::Gt, true) => two!($t => u8, |x, y| u8::from(x < y)),
            (LaneOp::Le, false) | (LaneOp::Ge, true) => two!($t => u8, |x, y| u8::from(x <= y)),
            (LaneOp::Gt, false) | (LaneOp::Lt, true) => two!($t => u8, |x, y| u8::from(x > y)),
            (LaneOp::Ge, false) | (LaneOp::Le, true) => two!($t => u8, |x, y| u8::from(x >= y)),
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
    fn along_rows[K: Two](out: *mut u8, operands: &[*const u8; 3], rows: usize, length: usize) {
        let [x, y, _] = *operands;
        let in_place = size_of::<K::T>() == size_of::<K::R>() && out.cast_const() == x;
        let (out, x, y) = (out.cast::<MaybeUninit<K::R>>(), x.cast::<K::T>(), y.cast::<K::T>());
        for row in 0..rows {
            // SAFETY: the caller passes `rows * length` elements, `rows` others, and room for the results,
            // which lie where the first operand lies or apart from both.
            unsafe {
                let y = y.add(row).read();
                let out = std::slice::from_raw_parts_mut(out.add(row * length), length);
                if in_place {
                    for out in out {
                        let x = std::mem::transmute_copy(out);
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

/// What a number for each row is: chosen where the mask is true, or where it is false.
trait Choice {
    type T: Copy;
    const WHERE: bool;
}

macro_rules! choice {
    ($name:ident, $t:ty, $where:literal) => {
        struct $name;
        impl Choice for $name {
            type T = $t;
            const WHERE: bool = $where;
        }
    };
}
choice!(Where32, u32, true);
choice!(Else32, u32, false);
choice!(Where64, u64, true);
choice!(Else64, u64, false);

/// The kernel of `where(mask, y, z)`, or `where(mask, z, y)` when `turned`, where `y` has one element for each row.
fn choice(turned: bool, dtype: DType) -> Option<Along> {
    let level = Level::best();
    Some(match (dtype, turned) {
        (DType::F32, false) => choose_rows::<Where32>(level),
        (DType::F32, true) => choose_rows::<Else32>(level),
        (DType::F64, false) => choose_rows::<Where64>(level),
        (DType::F64, true) => choose_rows::<Else64>(level),
        _ => return None,
    })
}

leveled! {
    fn choose_rows[K: Choice](out: *mut u8, operands: &[*const u8; 3], rows: usize, length: usize) {
        let [mask, y, z] = *operands;
        let in_place = out.cast_const() == z;
        let (out, y, z) = (out.cast::<MaybeUninit<K::T>>(), y.cast::<K::T>(), z.cast::<K::T>());
        for row in 0..rows {
            // SAFETY: as in `along_rows`, where the results may lie in the place of the last operand; a mask has
            // elements of one byte.
            unsafe {
                let y = y.add(row).read();
                let mask = std::slice::from_raw_parts(mask.add(row * length), length);
                let out = std::slice::from_raw_parts_mut(out.add(row * length), length);
                if in_place {
                    for (out, &m) in out.iter_mut().zip(mask) {
                        let z = out.assume_init();
                        out.write(if (m != 0) == K::WHERE { y } else { z });
                    }
                } else {
                    let z = std::slice::from_raw_parts(z.add(row * length), length);
                    for ((out, &m), &z) in out.iter_mut().zip(mask).zip(z) {
                        out.write(if (m != 0) == K::WHERE { y } else { z });
                    }
                }
            }
        }
    }
}

leveled! {
    fn count[](mask: *const u8, rows: usize, length: usize, out: *mut u8) {
        for row in 0..rows {
            // SAFETY: the caller passes `rows * length` bytes, and room for `rows` numbers.
            unsafe {
                let mask = std::slice::from_raw_parts(mask.add(row * length), length);
                // So many that a byte can count them.
                let blocks = mask.chunks(128).map(|c| u64::from(c.iter().map(|&m| u8::from(m != 0)).sum::<u8>()));
                out.cast::<f64>().add(row).write(blocks.sum::<u64>() as f64);
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
