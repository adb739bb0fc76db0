//! Values with one element for each row of a space, and where they can be read in the pass over the
//! space that makes them.
//!
//! A space is a shape whose last axes are reduced, as by a softmax. A tile of whole rows has the result of
//! such a reduction before the next instruction, so that what is made of it (row by row, or repeated along
//! the rows) need not wait for the pass to end.

use crate::aval::{Shape, size_of};
use crate::kernels::FusedBuilder;
use crate::ops::{BROADCAST, RESHAPE};
use crate::prim::{Kernel, Var};
use crate::program::Program;
use crate::util::FastMap;

/// The longest row, in bytes: a few of them have to stay in the second-level cache.
const LONGEST: usize = 64 << 10;

/// A row value: the reduction or elementwise equation that makes it, and its space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub root: Var,
    pub space: u32,
}

/// All row values of a program, and layouts of them, as far as they were met.
#[derive(Debug)]
pub(super) struct Rows<'p> {
    program: &'p Program,
    /// The shape of every space and where its kept axes end.
    spaces: Vec<(Shape, usize)>,
    /// A shape is divided in one way only, that of the first reduction met.
    by_shape: FastMap<Shape, u32>,
    of: Vec<Option<Row>>,
}

impl<'p> Rows<'p> {
    pub fn new(program: &'p Program) -> Rows<'p> {
        Rows {
            program,
            spaces: Vec::new(),
            by_shape: FastMap::default(),
            of: vec![None; program.num_vars()],
        }
    }

    /// The row value that a variable is, or is a layout of.
    pub fn of(&self, var: Var) -> Option<Row> {
        self.of[var as usize]
    }

    /// The shape of a space and where its kept axes end.
    pub fn space(&self, row: Row) -> &(Shape, usize) {
        &self.spaces[row.space as usize]
    }

    /// Whether a shape lists the elements of rows: the kept axes, then perhaps axes of length one.
    fn lists(&self, space: u32, shape: &[usize]) -> bool {
        let (full, kept) = &self.spaces[space as usize];
        shape.len() >= *kept
            && shape.len() <= full.len()
            && shape[..*kept] == full[..*kept]
            && shape[*kept..].iter().all(|&d| d == 1)
    }

    /// Whether a shape broadcasts to the space by repeating elements along their rows, or is the space.
    fn spreads(&self, space: u32, shape: &[usize]) -> bool {
        let (full, _) = &self.spaces[space as usize];
        shape == full.as_slice() || (shape.len() == full.len() && self.lists(space, shape))
    }

    /// The row value behind an argument of an elementwise equation over a whole space of this shape.
    pub fn along(&self, arg: Var, shape: &[usize]) -> Option<Row> {
        let row = self.of(arg)?;
        let joins = self.spaces[row.space as usize].0.as_slice() == shape
            && self.spreads(row.space, &self.program.aval(arg).shape);
        joins.then_some(row)
    }

    /// Notes a reduction, if it makes a row value.
    pub fn reduction(&mut self, k: usize) {
        let eqn = &self.program.eqns()[k];
        let source = self.program.aval(self.program.args(eqn)[0]);
        let axes = self.program.params(eqn).axes();
        let Some(Kernel::Reduce(op)) = eqn.prim.kernel_ref() else {
            return;
        };
        let rank = source.shape.len();
        let Some(kept) = rank.checked_sub(axes.len()).filter(|&kept| kept > 0) else {
            return;
        };
        let length = size_of(&source.shape[kept..]);
        let fits = axes.iter().all(|&a| a >= kept)
            && length >= 2
            && length * source.dtype.size() <= LONGEST
            && FusedBuilder::folds(*op, source.dtype);
        if !fits {
            return;
        }
        let next = self.spaces.len() as u32;
        let space = *self.by_shape.entry(source.shape.clone()).or_insert(next);
        if space == next {
            self.spaces.push((source.shape.clone(), kept));
        }
        if self.spaces[space as usize].1 == kept {
            let root = self.program.result(k);
            self.of[root as usize] = Some(Row { root, space });
        }
    }

    /// Notes a layout, if it is one of a row value.
    pub fn view(&mut self, k: usize) {
        let eqn = &self.program.eqns()[k];
        if eqn.prim != RESHAPE && eqn.prim != BROADCAST {
            return;
        }
        let (arg, out) = (self.program.args(eqn)[0], self.program.result(k));
        let Some(row) = self.of(arg) else { return };
        let (from, to) = (&self.program.aval(arg).shape, &self.program.aval(out).shape);
        // With as many elements as there are rows it is the same list; else it repeats them.
        let same = self.lists(row.space, from)
            && self.lists(row.space, to)
            && size_of(from) == size_of(to);
        let repeats = eqn.prim == BROADCAST
            && self.spreads(row.space, from)
            && to.as_slice() == self.spaces[row.space as usize].0.as_slice();
        if same || repeats {
            self.of[out as usize] = Some(row);
        }
    }

    /// The space and level at which an elementwise equation can be computed row by row, together with row
    /// values that it reads: `start` says when an equation runs, `ready` when a variable is in memory.
    pub fn member(&self, k: usize, start: &[u32], ready: &[u32]) -> Option<(Row, u32)> {
        let (program, eqn) = (self.program, &self.program.eqns()[k]);
        let out = program.result(k);
        let shape = &program.aval(out).shape;
        let level_of = |row: Row| start[row.root as usize - program.num_inputs()];
        let read = |a: Var| {
            let row = self.of(a)?;
            let alike = self.lists(row.space, shape) && program.aval(a).shape == *shape;
            alike.then_some(row)
        };
        let args = program.args(eqn);
        let latest = args
            .iter()
            .filter_map(|&a| read(a))
            .max_by_key(|&row| level_of(row))?;
        let level = (args.iter())
            .map(|&a| match read(a) {
                Some(row) if row.space == latest.space => level_of(row),
                _ => ready[a as usize],
            })
            .max()?;
        let row = Row {
            root: out,
            space: latest.space,
        };
        (level == level_of(latest)).then_some((row, level))
    }

    /// The row value that a reduction reads and can reduce in the pass that makes it: over axes in front of others.
    pub fn reduced(&self, k: usize) -> Option<Row> {
        let eqn = &self.program.eqns()[k];
        let &[arg] = self.program.args(eqn) else {
            return None;
        };
        let row = self.of(arg).filter(|row| row.root == arg)?;
        let shape = &self.program.aval(arg).shape;
        let axes = self.program.params(eqn).axes();
        let all = axes.len() == shape.len();
        let last = shape.iter().rposition(|&d| d != 1)?;
        (all || !axes.contains(&last)).then_some(row)
    }

    /// Notes an elementwise equation that is computed row by row.
    pub fn add(&mut self, row: Row) {
        self.of[row.root as usize] = Some(row);
    }
}
