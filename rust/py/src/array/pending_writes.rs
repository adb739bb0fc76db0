//! Makes `out[i] = x` in a loop cheap: elements and rows that are written one at a time wait here.
//!
//! They wait side by side until somebody reads the whole, and are put together then in one step. So
//! n writes cost n small steps, forward and in reverse, and what was written is read again without
//! asking the whole array.

use std::collections::BTreeMap;

use cotan::aval::{Shape, SliceDim};
use cotan::kernels::Value;
use cotan::prim::Params;
use cotan::{Array, Result, ops};

use crate::array::view_op::ViewOp;

/// More separate stretches of rows than this are written by their numbers.
const STRETCHES: usize = 4;

/// What waits to be written into an array.
pub struct Pieces {
    /// How many leading axes the pieces are numbered along, as one: all of them for elements.
    depth: usize,
    waiting: BTreeMap<usize, Array>,
}

/// Where a part of an array is to be found.
pub enum Found {
    /// It waits.
    Piece(Array),
    /// Nothing that waits belongs to it.
    Below,
    /// Some of what waits does.
    Mixed,
}

impl Pieces {
    /// Nothing yet, for pieces that are numbered along so many axes.
    pub fn new(depth: usize) -> Pieces {
        Pieces {
            depth,
            waiting: BTreeMap::new(),
        }
    }

    /// How many leading axes the pieces are numbered along.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Lets a piece wait, of the shape of the axes that it is not numbered along.
    pub fn insert(&mut self, at: usize, piece: Array) {
        self.waiting.insert(at, piece);
    }

    /// Forgets a piece.
    pub fn remove(&mut self, at: usize) {
        self.waiting.remove(&at);
    }

    /// Where an element is to be found, by its position in an array of this shape.
    pub fn element(&self, shape: &[usize], at: usize) -> Found {
        let inner: usize = shape[self.depth..].iter().product();
        match self.waiting.get(&(at / inner.max(1))) {
            None => Found::Below,
            Some(piece) if inner == 1 => Found::Piece(piece.clone()),
            Some(_) => Found::Mixed,
        }
    }

    /// Where what a view shows of an array of this shape is to be found.
    pub fn part(&self, shape: &[usize], op: &ViewOp) -> Found {
        let Some((depth, at)) = row(shape, op) else {
            return Found::Mixed;
        };
        if depth < self.depth {
            return Found::Mixed;
        }
        let inner: usize = shape[self.depth..depth].iter().product();
        match self.waiting.get(&(at / inner.max(1))) {
            None => Found::Below,
            Some(piece) if depth == self.depth => Found::Piece(piece.clone()),
            Some(_) => Found::Mixed,
        }
    }

    /// The array with everything written.
    pub fn settle(self, base: &Array) -> Result<Array> {
        let shape = base.shape();
        let (outer, inner) = shape.split_at(self.depth);
        let count: usize = outer.iter().product();
        if self.waiting.is_empty() {
            return Ok(base.clone());
        }
        if self.waiting.len() == count {
            let pieces: Vec<&Array> = self.waiting.values().collect();
            return Array::apply(ops::STACK, Params::None, &pieces)?.reshape(shape);
        }
        let mut flat = base.reshape(&with_rows(count, inner))?;
        let stretches = stretches(&self.waiting);
        if stretches.len() > STRETCHES {
            let at: Vec<i64> = self.waiting.keys().map(|&at| at as i64).collect();
            let index = Array::constant(Value::from_slice(&[at.len()], &at)?);
            let pieces: Vec<&Array> = self.waiting.values().collect();
            let rows = Array::apply(ops::STACK, Params::None, &pieces)?;
            let written = Array::apply(ops::SCATTER, Params::None, &[&flat, &index, &rows])?;
            return written.reshape(shape);
        }
        for (start, len) in stretches {
            let pieces: Vec<&Array> = (self
                .waiting
                .range(start..start + len)
                .map(|(_, piece)| piece))
            .collect();
            let rows = match pieces[..] {
                [piece] => piece.reshape(&with_rows(1, inner))?,
                _ => Array::apply(ops::STACK, Params::None, &pieces)?,
            };
            let whole = inner.iter().map(|&len| dim(0, len));
            let dims = std::iter::once(dim(start, len)).chain(whole).collect();
            flat = Array::apply(ops::UPDATE, Params::Slice(dims), &[&flat, &rows])?;
        }
        flat.reshape(shape)
    }
}

/// Numbers that follow each other, as first ones and counts.
fn stretches(waiting: &BTreeMap<usize, Array>) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for &at in waiting.keys() {
        match found.last_mut() {
            Some((start, len)) if *start + *len == at => *len += 1,
            _ => found.push((at, 1)),
        }
    }
    found
}

fn dim(start: usize, len: usize) -> SliceDim {
    SliceDim {
        start,
        len,
        step: 1,
    }
}

fn with_rows(count: usize, inner: &[usize]) -> Shape {
    std::iter::once(count)
        .chain(inner.iter().copied())
        .collect()
}

/// For a view of one row: along how many leading axes it is numbered, and its number along these.
pub fn row(shape: &[usize], op: &ViewOp) -> Option<(usize, usize)> {
    let ViewOp::Index(dims, _) = op else {
        return None;
    };
    let is_whole = |(d, n): (&SliceDim, &usize)| d.start == 0 && d.step == 1 && d.len == *n;
    let depth = (0..=shape.len())
        .find(|&k| dims[k..].iter().zip(&shape[k..]).all(is_whole))
        .unwrap_or(shape.len());
    if depth == 0 || dims[..depth].iter().any(|d| d.len != 1) {
        return None;
    }
    let outer = dims.iter().zip(shape).take(depth);
    Some((depth, outer.fold(0, |at, (d, n)| at * n + d.start)))
}
