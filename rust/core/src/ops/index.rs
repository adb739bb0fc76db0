//! Reading and writing at indices. Rows are counted along the first axis; front ends bring other
//! axes there.

use super::movement::{check_region, same_dtype};
use super::*;
use crate::aval::{Aval, DType, Shape, SliceDim, tuple};
use crate::error::{Error, Result};
use crate::kernels::{
    Moved, Value, add_into, copy_into, gather_into, gather_laid_out, iota, laid_out, scatter,
    scatter_add, scatter_add_laid_out, scatter_laid_out, searchsorted_into,
};
use crate::prim::{
    Batch, Batching, Class, Cost, Kernel, Onnx, Own, Params, Prim, PrimDef, Sample, Samples, V,
    Wgsl,
};

primitives! {
    /// The numbers 0, 1, ..., size - 1 as int64.
    IOTA iota() {
        class: Class::General {
            infer: |name, params, _| match params {
                Params::Size(n) => Ok(Aval::new(DType::I64, &[*n])),
                _ => Err(Error::Program(format!("{name}: the parameter size is missing"))),
            },
            kernel: Kernel::Call(|_, _, aval, _| iota(aval.size())),
            jvp: None,
            vjp: None,
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::Op("Range", 11),
        wgsl: Wgsl::None("an index"),
        numpy: "np.arange({size})",
        samples: Samples::List(|| vec![Sample { inputs: vec![], params: Params::Size(5) }]),
    }

    /// For each element of `x` how many elements of the sorted array come before it, and on the right side those equal to
    /// it, too. NaN comes last.
    SEARCHSORTED searchsorted("sorted", "x") {
        class: Class::General {
            infer: infer_search,
            kernel: Kernel::Write(Own {
                run: |params, x, out, ctx| {
                    let Params::Side { right } = params else { return Err(no_side()) };
                    searchsorted_into(out, &x[0], &x[1], *right, ctx)
                },
                lay_out: None,
            }),
            jvp: None,
            vjp: None,
            batching: Batching::Leading,
        },
        cost: Heavy,
        onnx: Onnx::Recipe("searchsorted"),
        wgsl: Wgsl::None("a search"),
        numpy: "",
        samples: Samples::None("a random array is not sorted"),
    }

    /// The rows of `x` at these indices: `x[index]`.
    GATHER gather("x", "index") {
        class: Class::Linear {
            infer: |name, _, x| {
                check_rows(name, x[0], x[1])?;
                let shape = x[1].shape.iter().chain(&x[0].shape[1..]).copied().collect();
                Ok(Aval { dtype: x[0].dtype, shape })
            },
            kernel: Kernel::Write(Own {
                run: |_, x, out, ctx| gather_into(out, &x[0], &x[1], ctx),
                lay_out: Some(|_, x, out| gather_laid_out(x, out)),
            }),
            transpose: |r, ct, _| {
                let zeros = ct.number(0.0).broadcast_to(&r.x[0].shape());
                zeros.apply(SCATTER_ADD, Params::None, &[r.x[1], ct])
            },
            batching: Batching::Rule(gather_batch),
        },
        cost: Dear,
        onnx: Onnx::Op("Gather", 13),
        wgsl: Wgsl::None("an indexed read"),
        numpy: "",
        samples: Samples::List(|| vec![indexed(&[])]),
    }

    /// `x` with updates added to its rows at these indices; an index may occur several times.
    SCATTER_ADD scatter_add("x", "index", "updates") {
        class: Class::Linear {
            infer: infer_scatter,
            kernel: Kernel::Update(Own {
                run: |_, x, rest, ctx| scatter_add(x, &rest[0], &rest[1], ctx),
                lay_out: Some(|_, rest, x| scatter_add_laid_out(rest, x)),
            }),
            transpose: |r, ct, i| if i == 0 { ct } else { ct.apply(GATHER, Params::None, &[r.x[1]]) },
            batching: Batching::Rule(scatter_batch),
        },
        cost: Dear,
        onnx: Onnx::Recipe("scatter_add"),
        wgsl: Wgsl::None("an indexed write"),
        numpy: "",
        samples: Samples::List(|| vec![indexed(&[4])]),
    }

    /// `x` with its rows at these indices replaced by updates; of several with one index the last.
    SCATTER scatter("x", "index", "updates") {
        class: Class::Linear {
            infer: infer_scatter,
            kernel: Kernel::Update(Own {
                run: |_, x, rest, ctx| scatter(x, &rest[0], &rest[1], ctx),
                lay_out: Some(|_, rest, x| scatter_laid_out(rest, x)),
            }),
            transpose: |r, ct, i| {
                let index = r.x[1];
                let updates = r.x[2].shape();
                if i == 0 {
                    let zeros = ct.number(0.0).broadcast_to(&updates);
                    return ct.apply(SCATTER, Params::None, &[index, zeros]);
                }
                // Only the update that was written last for its row has an influence: number the
                // updates, write the numbers, and see whose number is still there.
                let count = index.aval().size();
                let shape = index.shape();
                let numbers = index.with(index.to.emit(IOTA, Params::Size(count), &[])).reshape(&shape);
                let rows = numbers.number(0.0).broadcast_to(&[r.x[0].shape()[0]]);
                let last = rows
                    .apply(SCATTER, Params::None, &[index, numbers])
                    .apply(GATHER, Params::None, &[index])
                    .combine(EQ, numbers);
                let mut wide: Vec<usize> = shape.to_vec();
                wide.resize(updates.len(), 1);
                let taken = ct.apply(GATHER, Params::None, &[index]);
                last.reshape(&wide).select(taken, taken.number(0.0))
            },
            batching: Batching::Rule(scatter_batch),
        },
        cost: Dear,
        onnx: Onnx::Recipe("scatter"),
        wgsl: Wgsl::None("an indexed write"),
        numpy: "",
        samples: Samples::List(|| vec![indexed(&[4])]),
    }

    /// `x` with a strided region replaced by `y`.
    UPDATE update("x", "y") {
        class: Class::Linear {
            infer: with_region,
            kernel: Kernel::Update(Own {
                run: |params, x, rest, ctx| copy_into(&region_of(x, params)?, &rest[0], ctx),
                lay_out: Some(|params, rest, x| {
                    laid_out(rest, x, &[region_of(x, params).ok()?], Moved::Copied)
                }),
            }),
            transpose: |r, ct, i| {
                let Params::Slice(dims) = r.params else { return ct };
                if i == 1 {
                    return ct.slice(dims);
                }
                let zeros = ct.number(0.0).broadcast_to(&r.x[1].shape());
                ct.apply(UPDATE, r.params.clone(), &[zeros])
            },
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::Recipe("update"),
        wgsl: Wgsl::None("an indexed write"),
        numpy: "",
        samples: Samples::List(|| vec![region()]),
    }

    /// `x` with `y` added to a strided region of it.
    UPDATE_ADD update_add("x", "y") {
        class: Class::Linear {
            infer: with_region,
            kernel: Kernel::Update(Own {
                run: |params, x, rest, ctx| add_into(&region_of(x, params)?, &rest[0], ctx),
                lay_out: Some(|params, rest, x| {
                    laid_out(rest, x, &[region_of(x, params).ok()?], Moved::Added)
                }),
            }),
            transpose: |r, ct, i| match r.params {
                Params::Slice(dims) if i == 1 => ct.slice(dims),
                _ => ct,
            },
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::Recipe("update_add"),
        wgsl: Wgsl::None("an indexed write"),
        numpy: "",
        samples: Samples::List(|| vec![region()]),
    }
}

fn region() -> Sample {
    Sample {
        inputs: vec![(vec![5, 4], -2.0, 2.0), (vec![2, 3], -2.0, 2.0)],
        params: Params::Slice(Box::new([
            SliceDim {
                start: 1,
                len: 2,
                step: 2,
            },
            SliceDim {
                start: 3,
                len: 3,
                step: -1,
            },
        ])),
    }
}

/// Dtype and shape of an array of which a strided region is written.
fn with_region(name: &str, params: &Params, x: &[&Aval]) -> Result<Aval> {
    let Params::Slice(dims) = params else {
        return Err(Error::Program(format!(
            "{name}: the parameter start is missing"
        )));
    };
    check_region(name, dims, &x[0].shape)?;
    let region: Shape = dims.iter().map(|d| d.len).collect();
    if region != x[1].shape {
        return Err(Error::Shape(format!(
            "{name}: shape {} does not fit the region {}",
            tuple(&x[1].shape),
            tuple(&region)
        )));
    }
    same_dtype(name, x[0], x[1])?;
    Ok(x[0].clone())
}

/// The region of an array that the parameters name.
fn region_of(x: &Value, params: &Params) -> Result<Value> {
    match params {
        Params::Slice(dims) => Ok(x.sliced(dims)),
        _ => Err(Error::Program("the parameter start is missing".into())),
    }
}

/// One place for each element that is looked for. Leading axes are those of examples, each with an array of its own.
fn infer_search(name: &str, params: &Params, x: &[&Aval]) -> Result<Aval> {
    if !matches!(params, Params::Side { .. }) {
        return Err(no_side());
    }
    same_dtype(name, x[0], x[1])?;
    match (x[0].shape.split_last(), x[1].shape.split_last()) {
        (Some((_, batch)), Some((_, others))) if batch == others => Ok(x[1].with_dtype(DType::I64)),
        _ => Err(Error::Shape(format!(
            "{name}: an array of shape {} cannot be searched for elements of shape {}",
            tuple(&x[0].shape),
            tuple(&x[1].shape)
        ))),
    }
}

fn no_side() -> Error {
    Error::Program("searchsorted: the parameter right is missing".into())
}

fn indexed(updates: &[usize]) -> Sample {
    let mut inputs = vec![(vec![5, 3], -2.0, 2.0), (vec![4], 0.0, 4.99)];
    if !updates.is_empty() {
        inputs.push((vec![4, 3], -2.0, 2.0));
    }
    Sample {
        inputs,
        params: Params::None,
    }
}

/// Of examples that share an array, rows of it; else rows of all examples' arrays one below the other.
fn gather_batch<'e>(b: &Batch<'_, 'e>) -> V<'e> {
    if !b.batched[0] {
        return b.x[0].apply(GATHER, Params::None, &[b.x[1]]);
    }
    stacked(b.x[0]).apply(GATHER, Params::None, &[rows_of_all(b)])
}

/// Writes to the rows of all examples' arrays one below the other. Those of one example keep their order.
fn scatter_batch<'e>(b: &Batch<'_, 'e>) -> V<'e> {
    let x = b.full(0);
    let written = stacked(x).apply(b.prim, Params::None, &[rows_of_all(b), b.full(2)]);
    written.reshape(&x.shape())
}

/// The arrays of a batch, one below the other.
fn stacked(x: V<'_>) -> V<'_> {
    let shape = x.shape();
    let rows = std::iter::once(shape[0] * shape[1]);
    x.reshape(&rows.chain(shape[2..].iter().copied()).collect::<Shape>())
}

/// The indices of a batch as rows of its arrays one below the other. One that is out of bounds stays so.
fn rows_of_all<'e>(b: &Batch<'_, 'e>) -> V<'e> {
    let skipped = usize::from(b.batched[0]);
    let rows = b.x[0].shape()[skipped];
    let index = b.full(1);
    let below = index.combine(LT, index.number(0.0));
    let above = index.combine(GE, index.number(rows as f64));
    let mut shape = Shape::from_elem(1, index.shape().len());
    shape[0] = b.size;
    let example = index.with(index.to.emit(IOTA, Params::Size(b.size), &[]));
    let moved = index + example.reshape(&shape) * rows as f64;
    let outside = index.number((b.size * rows) as f64);
    below.select(outside, above.select(outside, moved))
}

fn check_rows(name: &str, x: &Aval, index: &Aval) -> Result<()> {
    if x.rank() == 0 {
        return Err(Error::Shape(format!(
            "{name}: a scalar has no rows to index"
        )));
    }
    if index.dtype != DType::I64 {
        return Err(Error::DType(format!(
            "{name}: the index must be int64, not {}",
            index.dtype
        )));
    }
    Ok(())
}

fn infer_scatter(name: &str, _: &Params, x: &[&Aval]) -> Result<Aval> {
    check_rows(name, x[0], x[1])?;
    same_dtype(name, x[0], x[2])?;
    let wanted: Shape = x[1].shape.iter().chain(&x[0].shape[1..]).copied().collect();
    if wanted != x[2].shape {
        return Err(Error::Shape(format!(
            "{name}: updates of shape {} where {} fits the index",
            tuple(&x[2].shape),
            tuple(&wanted)
        )));
    }
    Ok(x[0].clone())
}
