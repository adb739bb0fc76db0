//! Several operations in one instruction: sums, differences and products, one after the other. What is made in
//! between stays in a vector register, so that a tile is neither written nor read again for it.
//!
//! A chain starts with an element of one tile, and each *link* of it takes an element of another tile. A *turn* takes
//! a number that is the same for the whole space, or for a row of it. Every operation is rounded, as if it stood
//! alone: the bits are the same.

use std::mem::MaybeUninit;

use super::node::{NONE, Node, Request, Work};
use crate::aval::DType;
use crate::kernels::lane::LaneOp;
use crate::kernels::simd_level::{Level, leveled};

/// Where rows are at least so long, a number for each of them can be that of a turn.
const LONG_ROW: usize = 256;

/// What is read once may have been made so many places before it is read. What it is made of waits instead of it.
const NEAR: usize = 32;

/// What is done with the value so far, `v`, and another operand, `x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing; there is no `x`.
    Stay,
    /// `v + x`
    Add,
    /// `v - x`
    Sub,
    /// `x - v`
    From,
    /// `v * x`
    Mul,
}

impl Act {
    /// An operation as what is done with its left operand, or its right one, and the other.
    fn of(op: LaneOp, left: bool) -> Option<Act> {
        Some(match (op, left) {
            (LaneOp::Add, _) => Act::Add,
            (LaneOp::Sub, true) => Act::Sub,
            (LaneOp::Sub, false) => Act::From,
            (LaneOp::Mul, _) => Act::Mul,
            _ => return None,
        })
    }
}

/// `(out, operands, turns, n)`: the operands are the first tile and those of the links.
type Run = unsafe fn(*mut u8, &[*const u8; 3], &[(Act, *const u8); 2], usize);

/// `((first, turn), link, turn), link`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    run: Run,
    /// The first tile, those of the links, and the numbers of the turns: nodes, or addresses in a finished program.
    pub reads: [u32; 5],
    links: [Act; 2],
    turns: [Act; 2],
    /// Whether the number of a turn is that of a row.
    of_row: [bool; 2],
    /// Bytes of an element.
    size: usize,
}

/// What an operation of a chain reads.
#[derive(Clone, Copy)]
enum Other {
    Tile(u32),
    Number(u32),
    OfRow(u32),
}

impl Chain {
    fn new(first: u32, dtype: DType) -> Chain {
        Chain {
            run: run_of(dtype, [Act::Stay; 2], [Act::Stay; 2]),
            reads: [first, NONE, NONE, NONE, NONE],
            links: [Act::Stay; 2],
            turns: [Act::Stay; 2],
            of_row: [false; 2],
            size: dtype.size(),
        }
    }

    fn num_links(&self) -> usize {
        self.links.iter().filter(|&&l| l != Act::Stay).count()
    }

    /// With one more operation, if there is room for it.
    fn and(mut self, act: Act, other: Other, dtype: DType) -> Option<Chain> {
        let links = self.num_links();
        match other {
            Other::Tile(x) => {
                *self.links.get_mut(links)? = act;
                self.reads[1 + links] = x;
            }
            Other::Number(x) | Other::OfRow(x) => {
                let turn = self.turns.get_mut(links)?;
                if *turn != Act::Stay {
                    return None;
                }
                *turn = act;
                self.reads[3 + links] = x;
                self.of_row[links] = matches!(other, Other::OfRow(_));
            }
        }
        self.run = run_of(dtype, self.links, self.turns);
        Some(self)
    }

    /// Runs it on the first `n` elements of tiles, in a table of addresses; the tiles are made of rows of so many.
    ///
    /// # Safety
    /// The addresses are those of `n` elements of the dtype that the chain is for; the result's lie apart.
    #[inline(always)]
    pub(super) unsafe fn run(&self, table: &[*mut u8], out: *mut u8, n: usize, row: usize) {
        let at = |i: usize| table[self.reads[i] as usize].cast_const();
        let mut operands = [at(0), at(1), at(2)];
        let mut turns = [(self.turns[0], at(3)), (self.turns[1], at(4))];
        if self.of_row == [false; 2] {
            // SAFETY: the caller's contract.
            return unsafe { (self.run)(out, &operands, &turns, n) };
        }
        for k in 0..n / row {
            let out = out.wrapping_add(k * row * self.size);
            // SAFETY: the caller's contract.
            unsafe { (self.run)(out, &operands, &turns, row) };
            operands = operands.map(|x| x.wrapping_add(row * self.size));
            for (turn, _) in turns
                .iter_mut()
                .zip(self.of_row)
                .filter(|(_, of_row)| *of_row)
            {
                turn.1 = turn.1.wrapping_add(self.size);
            }
        }
    }
}

/// A number of one of the types that chains are for.
trait Number: Copy {
    const ONE: Self;
    const MINUS_ZERO: Self;
    fn add(self, x: Self) -> Self;
    fn sub(self, x: Self) -> Self;
    fn mul(self, x: Self) -> Self;
    fn mul_add(self, x: Self, y: Self) -> Self;
    fn neg(self) -> Self;
}

macro_rules! number {
    ($t:ty) => {
        impl Number for $t {
            const ONE: $t = 1.0;
            const MINUS_ZERO: $t = -0.0;
            #[inline(always)]
            fn add(self, x: $t) -> $t {
                self + x
            }
            #[inline(always)]
            fn sub(self, x: $t) -> $t {
                self - x
            }
            #[inline(always)]
            fn mul(self, x: $t) -> $t {
                self * x
            }
            #[inline(always)]
            fn mul_add(self, x: $t, y: $t) -> $t {
                self.mul_add(x, y)
            }
            #[inline(always)]
            fn neg(self) -> $t {
                -self
            }
        }
    };
}
number!(f32);
number!(f64);

/// An [`Act`] that a loop is compiled for.
trait Link {
    const READS: bool = true;
    fn call<T: Number>(v: T, x: T) -> T;
}

macro_rules! link {
    ($name:ident, |$v:ident, $x:ident| $body:expr) => {
        struct $name;
        impl Link for $name {
            #[inline(always)]
            fn call<T: Number>($v: T, $x: T) -> T {
                $body
            }
        }
    };
}
link!(Add, |v, x| v.add(x));
link!(Sub, |v, x| v.sub(x));
link!(From, |v, x| x.sub(v));
link!(Mul, |v, x| v.mul(x));

struct Stay;
impl Link for Stay {
    const READS: bool = false;
    #[inline(always)]
    fn call<T: Number>(v: T, _: T) -> T {
        v
    }
}

/// Whether a loop has a turn.
trait Switch {
    const ON: bool;
}
struct On;
impl Switch for On {
    const ON: bool = true;
}
struct Off;
impl Switch for Off {
    const ON: bool = false;
}

/// A turn as `v * factor + summand`, rounded once: a factor of 1 or -1 and a summand of -0 change nothing else, not
/// even the sign of a zero. So one loop does for all of them.
///
/// # Safety
/// The address is that of an element.
#[inline(always)]
unsafe fn coefficients<T: Number>((act, x): (Act, *const u8)) -> (T, T) {
    // SAFETY: the caller's contract.
    let x = || unsafe { x.cast::<T>().read() };
    match act {
        Act::Stay => (T::ONE, T::MINUS_ZERO),
        Act::Add => (T::ONE, x()),
        Act::Sub => (T::ONE, x().neg()),
        Act::From => (T::ONE.neg(), x()),
        Act::Mul => (x(), T::MINUS_ZERO),
    }
}

leveled! {
    fn links[T: Number, A: Link, B: Link, F: Switch, G: Switch](
        out: *mut u8, operands: &[*const u8; 3], turns: &[(Act, *const u8); 2], n: usize,
    ) {
        let [a, mut b, mut c] = *operands;
        // What is not read is some memory that may be.
        if !A::READS {
            b = a;
        }
        if !B::READS {
            c = a;
        }
        // SAFETY: the caller's contract; the result lies in a register of its own, because its operands die
        // after it.
        unsafe {
            let out = std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<T>>(), n);
            let a = std::slice::from_raw_parts(a.cast::<T>(), n);
            let b = std::slice::from_raw_parts(b.cast::<T>(), n);
            let c = std::slice::from_raw_parts(c.cast::<T>(), n);
            let first = if F::ON { coefficients(turns[0]) } else { (T::ONE, T::ONE) };
            let second = if G::ON { coefficients(turns[1]) } else { (T::ONE, T::ONE) };
            for_each::<T, A, B, F, G>(out, a, b, c, first, second);
        }
    }
}

/// A function of its own, so that the compiler knows the result to lie apart from the operands.
#[inline(always)]
fn for_each<T: Number, A: Link, B: Link, F: Switch, G: Switch>(
    out: &mut [MaybeUninit<T>],
    a: &[T],
    b: &[T],
    c: &[T],
    first: (T, T),
    second: (T, T),
) {
    for (((out, &a), &b), &c) in out.iter_mut().zip(a).zip(b).zip(c) {
        let mut v = a;
        if F::ON {
            v = v.mul_add(first.0, first.1);
        }
        v = A::call(v, b);
        if G::ON {
            v = v.mul_add(second.0, second.1);
        }
        out.write(B::call(v, c));
    }
}

/// The loop for these operations.
fn run_of(dtype: DType, links: [Act; 2], turns: [Act; 2]) -> Run {
    match dtype {
        DType::F32 => with_turns::<f32>(links, turns),
        _ => with_turns::<f64>(links, turns),
    }
}

fn with_turns<T: Number>(links: [Act; 2], turns: [Act; 2]) -> Run {
    match turns.map(|t| t != Act::Stay) {
        [false, false] => with_link::<T, Off, Off>(links),
        [true, false] => with_link::<T, On, Off>(links),
        [false, true] => with_link::<T, Off, On>(links),
        [true, true] => with_link::<T, On, On>(links),
    }
}

fn with_link<T: Number, F: Switch, G: Switch>(acts: [Act; 2]) -> Run {
    match acts[0] {
        Act::Stay => links::<T, Stay, Stay, F, Off>(Level::best()),
        Act::Add => with_both::<T, Add, F, G>(acts[1]),
        Act::Sub => with_both::<T, Sub, F, G>(acts[1]),
        Act::From => with_both::<T, From, F, G>(acts[1]),
        Act::Mul => with_both::<T, Mul, F, G>(acts[1]),
    }
}

fn with_both<T: Number, A: Link, F: Switch, G: Switch>(second: Act) -> Run {
    let level = Level::best();
    match second {
        Act::Stay => links::<T, A, Stay, F, G>(level),
        Act::Add => links::<T, A, Add, F, G>(level),
        Act::Sub => links::<T, A, Sub, F, G>(level),
        Act::From => links::<T, A, From, F, G>(level),
        Act::Mul => links::<T, A, Mul, F, G>(level),
    }
}

/// Whether the machine multiplies and adds in one instruction, as turns do.
pub(super) fn has_turns() -> bool {
    cfg!(target_arch = "aarch64") || Level::best() != Level::Baseline
}

/// Replaces operations by chains of them; what went into one is read by nobody afterwards. Where tiles are made of
/// rows, these have so many elements. Values that are `kept` are read by other instructions, too.
pub(super) fn combine(
    nodes: &mut [Node],
    requests: &[Request],
    kept: &[u32],
    row: Option<usize>,
) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    // A result that leaves the tile may lie in the place of an operand: it is not combined.
    let mut reads = vec![0u32; nodes.len()];
    for request in requests {
        reads[request.reg as usize] += 2;
    }
    for &x in kept {
        reads[x as usize] += 2;
    }
    let mut stored = vec![false; nodes.len()];
    for request in requests.iter().filter(|r| r.reduce.is_none()) {
        stored[request.reg as usize] = true;
    }
    for node in nodes.iter() {
        for &a in node.args.iter().filter(|&&a| a != NONE) {
            reads[a as usize] += 1;
        }
    }
    let has_turns = has_turns();
    for j in 0..nodes.len() {
        let Some((op, [x, y])) = nodes[j].two() else {
            continue;
        };
        let dtype = nodes[j].dtype;
        if stored[j] || !matches!(dtype, DType::F32 | DType::F64) {
            continue;
        }
        let long_rows = row.is_some_and(|row| row >= LONG_ROW);
        let kind = |a: u32| match &nodes[a as usize] {
            node if has_turns && node.number => Other::Number(a),
            Node {
                work: Some(Work::Expand(_)),
                args: [x, ..],
                ..
            } if has_turns && long_rows => Other::OfRow(*x),
            _ => Other::Tile(a),
        };
        // The chain so far, and how much is gained: what is read once is not written at all.
        let mut best: Option<(usize, Chain, u32)> = None;
        for (v, other, left) in [(x, y, true), (y, x, false)] {
            let Some(act) = Act::of(op, left) else {
                continue;
            };
            if !matches!(kind(v), Other::Tile(_)) {
                continue;
            }
            let inner = &nodes[v as usize];
            let once = reads[v as usize] == 1 && j - (v as usize) <= NEAR;
            let begun = match inner.work {
                Some(Work::Chain(i)) => Some(chains[i as usize]),
                _ => inner.two().and_then(|(op, [a, b])| {
                    let act = Act::of(op, true)?;
                    Chain::new(a, dtype).and(act, Other::Tile(b), dtype)
                }),
            };
            // A number and an element of a tile that is there anyway cost less than reading what they made.
            let begun = begun.filter(|c| once || c.num_links() == 0);
            let other = kind(other);
            let (gain, chain) = match begun.and_then(|c| c.and(act, other, dtype)) {
                Some(chain) => (1 + usize::from(once) * (1 + chain.num_links()), chain),
                None if matches!(other, Other::Tile(_)) => continue,
                None => (
                    0,
                    Chain::new(v, dtype).and(act, other, dtype).expect("room"),
                ),
            };
            if best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                best = Some((gain, chain, v));
            }
        }
        let Some((_, chain, v)) = best else {
            continue;
        };
        if chain.reads[0] != v && reads[v as usize] != 1 {
            // What began the other chain begins this one too.
            reads[v as usize] -= 1;
            reads[chain.reads[0] as usize] += 1;
        }
        let node = &mut nodes[j];
        node.work = Some(Work::Chain(chains.len() as u32));
        node.code = super::scalar::Code::Lane;
        node.op = None;
        node.args = [NONE; 3];
        node.long = true;
        chains.push(chain);
    }
    chains
}
