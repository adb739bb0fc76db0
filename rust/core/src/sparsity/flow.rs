//! How each primitive passes sets of columns on, read off its entry where that says it.
//!
//! A primitive that moves elements moves sets: its kernel does it. Elementwise ones unite what meets,
//! reductions what they reduce. Where nothing is known, everything depends on everything.

use super::sets::{Sets, numbers};
use crate::aval::{Aval, Axes, DType, Shape, SliceDim, WindowDim, inverse, size_of};
use crate::error::{Error, Result};
use crate::kernels::{Ctx, Value, copy, gather, iota, pad_into};
use crate::ops;
use crate::prim::{Class, Kernel, Params, Prim};
use crate::program::Program;

/// How sets pass through a primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// To the elements at the same place; arguments broadcast.
    Elementwise,
    /// With the elements, which the kernel moves.
    Moves,
    /// To the element that the axes of the parameters are reduced to.
    Reduces,
    /// To the elements at these indices, and to those that were there.
    AddsAtIndex,
    /// To the elements of a region, and to those that were there.
    AddsInRegion,
    /// From a row of the first argument and a column of the second one.
    Product,
    /// From all channels of a window, and from kernels.
    Convolves,
    /// From each window to its place.
    Windows,
    /// From each place to its window.
    Unpicks,
    /// Along the axes that the parameters name, or everywhere.
    Spreads,
}

impl Flow {
    /// That of a primitive.
    pub fn of(prim: Prim) -> Flow {
        let moves = [
            ops::PAD,
            ops::CONCATENATE,
            ops::STACK,
            ops::GATHER,
            ops::SCATTER,
            ops::UPDATE,
        ];
        let named = [
            (ops::SCATTER_ADD, Flow::AddsAtIndex),
            (ops::UPDATE_ADD, Flow::AddsInRegion),
            (ops::MATMUL, Flow::Product),
            (ops::CONV, Flow::Convolves),
            (ops::WINDOW_SUM, Flow::Windows),
            (ops::WINDOW_MAX, Flow::Windows),
            (ops::WINDOW_PICK, Flow::Windows),
            (ops::WINDOW_UNPICK, Flow::Unpicks),
        ];
        match (&prim.0.class, prim.kernel_ref()) {
            (Class::Elementwise { .. }, _) | (_, Some(Kernel::Lane(_) | Kernel::Cast)) => {
                Flow::Elementwise
            }
            (_, Some(Kernel::View(_))) => Flow::Moves,
            (_, Some(Kernel::Reduce(_))) => Flow::Reduces,
            _ if moves.contains(&prim) => Flow::Moves,
            _ => (named.iter().find(|(named, _)| *named == prim))
                .map_or(Flow::Spreads, |&(_, flow)| flow),
        }
    }

    /// Which argument is an index of rows.
    pub fn index(prim: Prim) -> Option<usize> {
        [ops::GATHER, ops::SCATTER, ops::SCATTER_ADD]
            .contains(&prim)
            .then_some(1)
    }
}

/// A walk through a program: what equations need to pass sets on.
pub(super) struct Walk<'p> {
    pub program: &'p Program,
    /// For each variable that is an index its value, where that is known.
    pub indices: Vec<Option<Value>>,
    pub sets: Sets,
    pub ctx: Ctx<'p>,
}

impl Walk<'_> {
    /// The sets of the result of an equation, given those of its arguments; `None` where all are empty.
    pub fn through(&mut self, k: usize, x: &[Option<Value>]) -> Result<Option<Value>> {
        let eqn = &self.program.eqns()[k];
        let (params, args) = (self.program.params(eqn), self.program.args(eqn));
        let out = self.program.aval(self.program.result(k));
        if x.iter().all(Option::is_none) {
            return Ok(None);
        }
        let windows = || match params {
            Params::Windows(dims) => Ok(&**dims),
            _ => Err(missing("size")),
        };
        let found = match Flow::of(eqn.prim) {
            Flow::Elementwise => self.joined(x.iter().flatten().cloned(), &out.shape)?,
            Flow::Moves => {
                let avals: Vec<&Aval> = args.iter().map(|&a| self.program.aval(a)).collect();
                if let Some(i) = Flow::index(eqn.prim) {
                    match (self.indices[args[i] as usize].clone(), &x[i]) {
                        (Some(index), None) => {
                            let arrays = with_index(x, &avals, i, index)?;
                            self.moved(eqn.prim, params, arrays, out)?
                        }
                        (_, index) => self.anywhere(eqn.prim, x, avals[i], index.is_some(), out)?,
                    }
                } else {
                    let arrays = (x.iter().zip(&avals))
                        .map(|(x, aval)| x.clone().map_or_else(|| empty(&aval.shape), Ok));
                    let arrays = arrays.collect::<Result<_>>()?;
                    self.moved(eqn.prim, params, arrays, out)?
                }
            }
            Flow::AddsAtIndex => {
                let index = self.program.aval(args[1]);
                match (self.indices[args[1] as usize].clone(), &x[1]) {
                    (Some(at), None) => self.added(x, &at, out)?,
                    (_, varying) => self.anywhere(eqn.prim, x, index, varying.is_some(), out)?,
                }
            }
            Flow::AddsInRegion => {
                let Params::Slice(dims) = params else {
                    return Err(missing("start"));
                };
                let region = (x[1].as_ref()).map(|y| self.in_region(y, dims, &out.shape));
                self.joined(
                    [x[0].clone(), region.transpose()?].into_iter().flatten(),
                    &out.shape,
                )?
            }
            Flow::Reduces => {
                let x = x[0].as_ref().ok_or_else(|| missing("x"))?;
                self.united(x, params.axes())?
            }
            Flow::Product => {
                let rank = out.shape.len();
                let mut parts = Vec::new();
                for (x, axis) in [(&x[0], rank - 1), (&x[1], rank - 2)] {
                    let Some(x) = x else { continue };
                    let axis = axis + x.shape().len() - rank;
                    parts.push(self.along(x, &[axis])?);
                }
                self.joined(parts.into_iter(), &out.shape)?
            }
            Flow::Convolves => {
                let dims = windows()?;
                let mut parts = Vec::new();
                if let Some(images) = &x[0] {
                    let channels = self.along(images, &[2])?;
                    parts.push(self.windows(&channels, dims)?);
                }
                if let Some(kernels) = &x[1] {
                    let rest: Vec<usize> = (2..kernels.shape().len()).collect();
                    let results = self.united(kernels, &rest)?;
                    let mut shape = Shape::from_elem(1, out.shape.len());
                    shape[1..3].copy_from_slice(results.shape());
                    parts.push(reshaped(&results, &shape)?);
                }
                self.joined(parts.into_iter(), &out.shape)?
            }
            Flow::Windows => {
                let dims = windows()?;
                let seen = (x.iter().flatten()).map(|x| self.windows(x, dims));
                let seen = seen.collect::<Result<Vec<_>>>()?;
                self.joined(seen.into_iter(), &out.shape)?
            }
            Flow::Unpicks => {
                let dims = windows()?;
                let lead = out.shape.len() - dims.len();
                let back: Vec<WindowDim> = (dims.iter().zip(&out.shape[lead..]))
                    .map(|(d, &n)| d.transposed(n))
                    .collect();
                match (&x[0], &x[1]) {
                    (None, Some(y)) => self.windows(y, &back)?,
                    _ => self.everywhere(x, out)?,
                }
            }
            Flow::Spreads => self.spread(params, x, out)?,
        };
        if found.shape() != &*out.shape {
            return Err(Error::Program(format!(
                "sparsity: {}: sets of shape {:?} for a result of shape {:?}; please report this",
                eqn.prim.name(),
                found.shape(),
                out.shape
            )));
        }
        Ok(Some(found))
    }

    /// Along the axes of the parameters; where there are none, from all elements to all.
    fn spread(&mut self, params: &Params, x: &[Option<Value>], out: &Aval) -> Result<Value> {
        if let (Params::Scan { axis, reverse }, [Some(x)]) = (params, x) {
            return self.scanned(x, *axis, *reverse);
        }
        let last = x.len() - 1;
        let axes: Axes = match (params, x) {
            (Params::Fourier { axes, .. }, [Some(_)]) => axes.clone(),
            (Params::RealFourier { axis, .. }, [Some(_)]) => Axes::from_slice(&[*axis]),
            // The columns of a system do not know each other.
            (Params::System { .. }, [matrices @ .., Some(_)])
                if matrices.iter().all(Option::is_none) =>
            {
                Axes::from_slice(&[out.shape.len() - 2])
            }
            _ => return self.everywhere(x, out),
        };
        let united = x[last].as_ref().map(|x| self.along(x, &axes)).transpose()?;
        self.joined(united.into_iter(), &out.shape)
    }

    /// Row-major, as all arrays of sets are between equations.
    fn contiguous(&self, array: Value) -> Result<Value> {
        if array.is_contiguous() {
            return Ok(array);
        }
        copy(&array, &self.ctx)
    }

    /// The unions of what meets in arrays that broadcast to a shape.
    fn joined(&mut self, arrays: impl Iterator<Item = Value>, shape: &[usize]) -> Result<Value> {
        let mut joined: Option<Value> = None;
        for array in arrays {
            let array = self.contiguous(array.broadcast_to(shape))?;
            joined = Some(match joined {
                None => array,
                Some(joined) => {
                    let (a, b) = (numbers(&joined)?, numbers(&array)?);
                    let mut unions = Vec::with_capacity(a.len());
                    let mut last = (0, 0, 0);
                    for (&a, &b) in a.iter().zip(b) {
                        if (a, b) != (last.0, last.1) {
                            last = (a, b, self.sets.union(a, b)?);
                        }
                        unions.push(last.2);
                    }
                    Value::from_slice(shape, &unions)?
                }
            });
        }
        joined.map_or_else(|| empty(shape), Ok)
    }

    /// What the kernel of a primitive that moves elements makes of these.
    fn moved(&self, prim: Prim, params: &Params, mut x: Vec<Value>, out: &Aval) -> Result<Value> {
        let aval = out.with_dtype(DType::I64);
        let array = match prim.kernel_ref() {
            Some(Kernel::View(view)) => match view(params, &x[0], &aval) {
                Some(array) => array,
                None => view(params, &copy(&x[0], &self.ctx)?, &aval)
                    .ok_or_else(|| missing("a contiguous argument"))?,
            },
            _ => (prim.call(params, &mut x, &aval, &self.ctx))
                .unwrap_or_else(|| Err(missing("a kernel that moves elements")))?,
        };
        self.contiguous(array)
    }

    /// The unions over axes, which vanish.
    fn united(&mut self, x: &Value, axes: &[usize]) -> Result<Value> {
        let kept: Axes = (0..x.shape().len()).filter(|a| !axes.contains(a)).collect();
        let order: Axes = kept.iter().chain(axes).copied().collect();
        let shape: Shape = kept.iter().map(|&a| x.shape()[a]).collect();
        let x = self.contiguous(x.transposed(&order))?;
        let (count, size) = (size_of(&shape), x.aval().size());
        if size == 0 {
            return empty(&shape);
        }
        let chunks = numbers(&x)?.chunks(size / count);
        let unions = chunks.map(|chunk| self.sets.union_all(chunk.iter().copied()));
        Value::from_slice(&shape, &unions.collect::<Result<Vec<_>>>()?)
    }

    /// The unions over axes, which stay with length one.
    fn along(&mut self, x: &Value, axes: &[usize]) -> Result<Value> {
        let shape: Shape = (x.shape().iter().enumerate())
            .map(|(i, &n)| if axes.contains(&i) { 1 } else { n })
            .collect();
        let united = self.united(x, axes)?;
        reshaped(&united, &shape)
    }

    /// Of each element the union with those before it, or behind it.
    fn scanned(&mut self, x: &Value, axis: usize, reverse: bool) -> Result<Value> {
        let mut order: Axes = (0..x.shape().len()).collect();
        order.remove(axis);
        order.push(axis);
        let along = self.contiguous(x.transposed(&order))?;
        let mut unions = numbers(&along)?.to_vec();
        for chunk in unions.chunks_mut(x.shape()[axis].max(1)) {
            if reverse {
                chunk.reverse();
            }
            for i in 1..chunk.len() {
                chunk[i] = self.sets.union(chunk[i - 1], chunk[i])?;
            }
            if reverse {
                chunk.reverse();
            }
        }
        let along = Value::from_slice(along.shape(), &unions)?;
        self.contiguous(along.transposed(&inverse(&order)))
    }

    /// The unions over windows along the last axes.
    fn windows(&mut self, x: &Value, dims: &[WindowDim]) -> Result<Value> {
        let lead = x.shape().len() - dims.len();
        // For each place of the windows the elements that they see, axis by axis.
        let mut seen: Vec<Vec<usize>> = vec![vec![0]];
        for (d, &n) in dims.iter().zip(&x.shape()[lead..]) {
            let along: Vec<Vec<usize>> = (0..d.size).map(|p| taps(d, p, n).collect()).collect();
            seen = (seen.iter())
                .flat_map(|before| {
                    along.iter().map(move |taps| {
                        let places = before
                            .iter()
                            .flat_map(|b| taps.iter().map(move |t| b * n + t));
                        places.collect()
                    })
                })
                .collect();
        }
        let shape: Shape = (x.shape()[..lead].iter().copied())
            .chain(dims.iter().map(|d| d.size))
            .collect();
        let plane = size_of(&x.shape()[lead..]);
        if plane == 0 {
            return empty(&shape);
        }
        let x = self.contiguous(x.clone())?;
        let mut unions = Vec::with_capacity(size_of(&shape));
        for plane in numbers(&x)?.chunks(plane) {
            for taps in &seen {
                unions.push(self.sets.union_all(taps.iter().map(|&t| plane[t]))?);
            }
        }
        Value::from_slice(&shape, &unions)
    }

    /// An array to which updates are added at these rows.
    fn added(&mut self, x: &[Option<Value>], index: &Value, out: &Aval) -> Result<Value> {
        let base = x[0].clone().map_or_else(|| empty(&out.shape), Ok)?;
        let Some(updates) = &x[2] else {
            return Ok(base);
        };
        let size = size_of(&out.shape);
        let places = reshaped(&iota(size)?, &out.shape)?;
        let places = self.contiguous(gather(&places, index, &self.ctx)?)?;
        let mut unions = numbers(&base)?.to_vec();
        let updates = numbers(updates)?;
        // Updates by the element that they are added to.
        let mut starts = vec![0u32; size + 1];
        for &place in numbers(&places)? {
            starts[place as usize + 1] += 1;
        }
        for i in 0..size {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut sorted = vec![0; updates.len()];
        for (&place, &update) in numbers(&places)?.iter().zip(updates) {
            let at = &mut next[place as usize];
            sorted[*at as usize] = update;
            *at += 1;
        }
        for (i, union) in unions.iter_mut().enumerate() {
            let updates = &sorted[starts[i] as usize..starts[i + 1] as usize];
            let all = std::iter::once(*union).chain(updates.iter().copied());
            *union = self.sets.union_all(all)?;
        }
        Value::from_slice(&out.shape, &unions)
    }

    fn in_region(&self, y: &Value, dims: &[SliceDim], shape: &[usize]) -> Result<Value> {
        let start: Vec<usize> = dims.iter().map(|d| d.start).collect();
        let step: Vec<isize> = dims.iter().map(|d| d.step).collect();
        let out = Value::empty(Aval::new(y.dtype(), shape))?;
        pad_into(&out, y, &start, &step, &self.ctx)?;
        Ok(out)
    }

    /// Rows that are read or written at an index that nobody knows: it may be any.
    fn anywhere(
        &mut self,
        prim: Prim,
        x: &[Option<Value>],
        index: &Aval,
        varies: bool,
        out: &Aval,
    ) -> Result<Value> {
        if varies {
            return self.everywhere(x, out);
        }
        let mut parts = Vec::new();
        if prim == ops::GATHER {
            let rows = x[0].as_ref().map(|x| self.united(x, &[0]));
            parts.extend(rows.transpose()?);
        } else {
            let axes: Axes = (0..index.rank()).collect();
            let rows = x[2].as_ref().map(|x| self.united(x, &axes));
            parts.extend(x[0].clone());
            parts.extend(rows.transpose()?);
        }
        self.joined(parts.into_iter(), &out.shape)
    }

    /// From all elements to all.
    fn everywhere(&mut self, x: &[Option<Value>], out: &Aval) -> Result<Value> {
        let mut all = Vec::new();
        for x in x.iter().flatten() {
            all.extend_from_slice(numbers(x)?);
        }
        let union = Value::scalar(self.sets.union_all(all.into_iter())?)?;
        self.contiguous(union.broadcast_to(&out.shape))
    }
}

/// The elements of an axis of length `n` that the window at a place sees.
fn taps(d: &WindowDim, place: usize, n: usize) -> impl Iterator<Item = usize> {
    let (first, expansion) = ((place * d.stride) as isize - d.pad, d.expansion as isize);
    let dilation = d.dilation;
    (0..d.len).filter_map(move |tap| {
        let at = first + (tap * dilation) as isize;
        let index = at.div_euclid(expansion);
        (at.rem_euclid(expansion) == 0 && (0..n as isize).contains(&index))
            .then_some(index as usize)
    })
}

/// Arguments with the value of the index in its place.
fn with_index(x: &[Option<Value>], avals: &[&Aval], at: usize, index: Value) -> Result<Vec<Value>> {
    let mut arrays = (x.iter().zip(avals))
        .map(|(x, aval)| x.clone().map_or_else(|| empty(&aval.shape), Ok))
        .collect::<Result<Vec<_>>>()?;
    arrays[at] = index;
    Ok(arrays)
}

/// An array of empty sets.
fn empty(shape: &[usize]) -> Result<Value> {
    Value::from_slice(shape, &vec![0i64; size_of(shape)])
}

fn missing(what: &str) -> Error {
    Error::Program(format!("sparsity: {what} is missing"))
}

fn reshaped(x: &Value, shape: &[usize]) -> Result<Value> {
    x.reshaped(shape)
        .ok_or_else(|| missing("a contiguous argument"))
}
