//! Machine code of the turns of a loop, bound to the memory of the loop.
//!
//! Problem: a turn of a few operations takes less time than copying what it reads and writes. So it reads slices of
//! arrays, and writes those of stacks, where they lie, and what is carried goes from one of two places to the other.

use std::ops::Range;
use std::sync::Arc;

use super::{Code, carve};
use crate::aval::{Aval, DType};
use crate::error::{Error, Result};
use crate::kernels::{self, Ctx, Storage, Value};

/// Machine code for one turn, and for several, which read and write as many slices at once. Inputs are what is carried,
/// what is scanned, and what all turns read; outputs are what is carried on, and what is stacked.
#[derive(Debug, Clone)]
pub struct TurnsCode {
    /// Takes one turn.
    pub one: Arc<Code>,
    /// Takes so many turns.
    pub several: Option<(usize, Arc<Code>)>,
}

/// What the turns of a loop read and write besides what they carry.
#[derive(Debug)]
pub struct Surroundings<'v> {
    /// Arrays of which each turn reads a slice.
    pub scanned: &'v [Value],
    /// What all turns read.
    pub shared: &'v [Value],
    /// Arrays of which each turn writes a slice.
    pub stacks: &'v [&'v Value],
    /// How many slices there are.
    pub length: usize,
}

/// The code of a loop, and where its arrays lie.
#[derive(Debug)]
pub struct BoundTurns {
    code: TurnsCode,
    table: Box<[usize]>,
    /// Where carries lie: they are read in one of these places, and written to the other.
    carries: [Vec<Value>; 2],
    /// Which one is read next.
    current: usize,
    /// Entries of the table that move from slice to slice, where the first one lies, and the bytes of each.
    moving: Vec<(usize, usize, usize)>,
    length: usize,
    /// What the table points into.
    _memory: Vec<Arc<Storage>>,
}

/// Dtype and number of elements of an input or output.
type Size = (DType, usize);

impl BoundTurns {
    /// Binds code to contiguous values. What is carried is copied to memory of its own; nobody else uses the stacks
    /// while turns are taken, and they share no memory with each other or with anything that is read.
    ///
    /// # Errors
    /// When the values are others than the code was made for.
    pub fn new(
        code: &TurnsCode,
        carried: &[Value],
        around: &Surroundings<'_>,
        ctx: &Ctx<'_>,
    ) -> Result<BoundTurns> {
        let avals: Vec<Aval> = carried.iter().map(|x| x.aval().clone()).collect();
        let mut first = carve(&[&avals[..], &avals[..]].concat())?;
        let second = first.split_off(avals.len());
        for (to, from) in first.iter().zip(carried) {
            kernels::copy_into(to, from, ctx)?;
        }
        let Surroundings {
            scanned,
            shared,
            stacks,
            length,
        } = around;
        let reads = carried.len() + scanned.len();
        let inputs = reads + shared.len();
        let mut table = vec![0; inputs + carried.len() + stacks.len()];
        for (entry, value) in table[reads..].iter_mut().zip(*shared) {
            *entry = value.address();
        }
        let arrays = scanned.iter().enumerate();
        let arrays = arrays.map(|(i, value)| (carried.len() + i, value));
        let outputs = stacks.iter().enumerate();
        let outputs = outputs.map(|(i, &value)| (inputs + carried.len() + i, value));
        let moving = arrays.chain(outputs).map(|(entry, value)| {
            let bytes = value.aval().nbytes() / (*length).max(1);
            (entry, value.address(), bytes)
        });
        let all = scanned.iter().chain(*shared).chain(stacks.iter().copied());
        let bound = BoundTurns {
            code: code.clone(),
            table: table.into(),
            carries: [first, second],
            current: 0,
            moving: moving.collect(),
            length: *length,
            _memory: all.map(|value| Arc::clone(value.storage())).collect(),
        };
        bound.expect_to_fit(around)?;
        Ok(bound)
    }

    /// Compares the values with what the code was made for.
    fn expect_to_fit(&self, around: &Surroundings<'_>) -> Result<()> {
        let own = |values: &[Value]| -> Option<Vec<Size>> {
            values.iter().map(|x| elements(x, 1)).collect()
        };
        let (read, written) = (own(&self.carries[0]), own(&self.carries[1]));
        let shared = own(around.shared);
        let codes = std::iter::once((1, &self.code.one));
        let several = self.code.several.iter().map(|(turns, code)| (*turns, code));
        let fits = codes.chain(several).all(|(turns, code)| {
            let of_turns = |x: &Value| {
                let (dtype, size) = elements(x, around.length.max(1))?;
                Some((dtype, size * turns))
            };
            let scanned: Option<Vec<Size>> = around.scanned.iter().map(of_turns).collect();
            let stacks: Option<Vec<Size>> = around.stacks.iter().map(|x| of_turns(x)).collect();
            let all = |lists: &[&Option<Vec<Size>>]| -> Option<Vec<Size>> {
                let lists: Option<Vec<&[Size]>> = lists.iter().map(|l| l.as_deref()).collect();
                Some(lists?.concat())
            };
            all(&[&read, &scanned, &shared]).as_deref() == Some(code.inputs())
                && all(&[&written, &stacks]).as_deref() == Some(code.outputs())
        });
        if fits { Ok(()) } else { Err(unlike()) }
    }

    /// What is carried to the next turn.
    pub fn carried(&self) -> &[Value] {
        &self.carries[self.current]
    }

    /// Takes the turns of these slices, the first or the last one first.
    ///
    /// # Errors
    /// Those of a [`Breakdown`](super::Breakdown), and where there are no such slices.
    pub fn take(&mut self, slices: Range<usize>, reverse: bool) -> Result<()> {
        if slices.end > self.length && !self.moving.is_empty() {
            return Err(unlike());
        }
        let Range { mut start, mut end } = slices;
        while start < end {
            let several = self.code.several.as_ref();
            let several = several.filter(|(turns, _)| *turns <= end - start);
            let (turns, code) = several.map_or((1, &self.code.one), |(turns, code)| (*turns, code));
            let first = if reverse { end - turns } else { start };
            let (read, written) = (self.current, 1 - self.current);
            for (j, value) in self.carries[read].iter().enumerate() {
                self.table[j] = value.address();
            }
            let outputs = code.inputs().len();
            for (j, value) in self.carries[written].iter().enumerate() {
                self.table[outputs + j] = value.address();
            }
            for &(entry, address, bytes) in &self.moving {
                self.table[entry] = address + first * bytes;
            }
            // SAFETY: `new` has compared the values with the code, the slices are inside of them, and their memory is held.
            // What is written to is nobody else's: the caller's promise for stacks, memory of its own for carries.
            if let Some(why) = unsafe { code.run(self.table.as_ptr().cast()) } {
                return Err(why.error());
            }
            self.current = written;
            if reverse {
                end = first;
            } else {
                start = first + turns;
            }
        }
        Ok(())
    }
}

/// Dtype and number of elements of one of so many slices of a value that code can read and write.
fn elements(value: &Value, slices: usize) -> Option<Size> {
    let size = value.aval().size();
    let is_known = value.is_contiguous()
        && !value.is_remote()
        && value.address().is_multiple_of(value.dtype().size())
        && size.is_multiple_of(slices);
    is_known.then_some((value.dtype(), size / slices))
}

/// The values are others than the code was made for.
fn unlike() -> Error {
    Error::Program("machine code of a loop: other values than it was made for".into())
}
