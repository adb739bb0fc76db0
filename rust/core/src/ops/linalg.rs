//! Products of matrices.

use crate::aval::{Aval, Shape, broadcast, tuple};
use crate::error::{Error, Result};
use crate::kernels::matmul;
use crate::prim::{
    Batching, Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, Rule, Sample, Samples, V, Wgsl,
};

primitives! {
    /// The matrix product of the last two axes; the axes before them broadcast.
    MATMUL matmul("x", "y") {
        class: Class::General {
            infer: infer_matmul,
            kernel: Kernel::Call(|_, x, _, ctx| matmul(&x[0], &x[1], ctx)),
            jvp: Some(|r, t| {
                let left = t[0].map(|t| t.matmul(r.x[1]));
                let right = t[1].map(|t| r.x[0].matmul(t));
                match (left, right) {
                    (Some(a), Some(b)) => a + b,
                    (Some(a), None) | (None, Some(a)) => a,
                    (None, None) => r.out.full_like(0.0),
                }
            }),
            vjp: Some(matmul_vjp),
            batching: Batching::Aligned,
        },
        cost: Heavy,
        onnx: Onnx::Op("MatMul", 13),
        wgsl: Wgsl::None("a product"),
        numpy: "np.matmul({0}, {1})",
        samples: Samples::List(|| vec![
            product(&[3, 4], &[4, 2]),
            product(&[2, 3, 4], &[4, 2]),
            product(&[5, 1, 3, 4], &[2, 4, 3]),
            product(&[3, 4], &[2, 4, 1]),
            product(&[5, 4], &[2, 3, 4, 2]),
            product(&[1, 3, 4], &[6, 4, 1]),
            product(&[2, 3, 4], &[1, 4, 2]),
            product(&[1, 4], &[4, 1]),
        ]),
    }
}

impl<'e> V<'e> {
    /// The matrix product of the last two axes.
    #[must_use]
    pub fn matmul(self, other: V<'e>) -> V<'e> {
        self.apply(MATMUL, Params::None, &[other])
    }
}

fn product(x: &[usize], y: &[usize]) -> Sample {
    Sample {
        inputs: vec![(x.to_vec(), -2.0, 2.0), (y.to_vec(), -2.0, 2.0)],
        params: Params::None,
    }
}

fn infer_matmul(name: &str, _: &Params, x: &[&Aval]) -> Result<Aval> {
    let (a, b) = (x[0], x[1]);
    let misfit = || {
        Error::Shape(format!(
            "{name}: shapes {} and {} do not fit: the last axis of the first must be as long as the \
             last but one of the second",
            tuple(&a.shape),
            tuple(&b.shape)
        ))
    };
    if a.rank() < 2 || b.rank() < 2 {
        return Err(misfit());
    }
    if a.dtype != b.dtype {
        return Err(Error::DType(format!(
            "{name}: arguments of different dtypes {} and {}",
            a.dtype, b.dtype
        )));
    }
    let (batch_a, batch_b) = (&a.shape[..a.rank() - 2], &b.shape[..b.rank() - 2]);
    if a.shape[a.rank() - 1] != b.shape[b.rank() - 2] {
        return Err(misfit());
    }
    let mut shape: Shape = broadcast(batch_a, batch_b).ok_or_else(|| {
        Error::Shape(format!(
            "{name}: shapes {} and {} do not fit: the axes before the last two do not broadcast",
            tuple(&a.shape),
            tuple(&b.shape)
        ))
    })?;
    shape.push(a.shape[a.rank() - 2]);
    shape.push(b.shape[b.rank() - 1]);
    Ok(Aval {
        dtype: a.dtype,
        shape,
    })
}

/// `ct @ yᴴ` and `xᴴ @ ct`, summed over the axes along which an argument was repeated.
fn matmul_vjp<'e>(r: &Rule<'_, 'e>, ct: V<'e>, i: usize) -> V<'e> {
    let (x, y) = (r.x[0], r.x[1]);
    let shape = r.x[i].shape();
    let batch: usize = ct.shape().iter().rev().skip(2).product();
    let is_one = batch > 1 && shape.iter().rev().skip(2).all(|&n| n == 1);
    if is_one && (i == 1 || is_worth_moving(ct, x)) {
        return over_batch(x, y, ct, i).reshape(&shape);
    }
    let full = if i == 0 {
        ct.matmul(y.swap_last().conj_if_complex())
    } else {
        x.swap_last().conj_if_complex().matmul(ct)
    };
    full.sum_to(&shape)
}

/// Whether the axes of the other factors are moved in less time than a matrix for each of the batch takes: columns are not
/// moved, but seen otherwise.
fn is_worth_moving(ct: V<'_>, x: V<'_>) -> bool {
    let last = |v: V<'_>| v.shape()[v.shape().len() - 1];
    let (m, n, k) = (ct.shape()[ct.shape().len() - 2], last(ct), last(x));
    n == 1 || m * k > n * (m + k)
}

/// The same for an argument that is one matrix for the whole batch: one product, whose sums go over the batch, too, in the
/// place of as many matrices as it has.
fn over_batch<'e>(x: V<'e>, y: V<'e>, ct: V<'e>, i: usize) -> V<'e> {
    let whole = ct.shape();
    let rank = whole.len();
    let (batch, m, n) = (&whole[..rank - 2], whole[rank - 2], whole[rank - 1]);
    let count: usize = batch.iter().product();
    let with = |a: usize, b: usize| -> Shape { batch.iter().copied().chain([a, b]).collect() };
    if i == 0 {
        // The batch between the last axes: (m, batch, n), and (k, batch, n) for the other argument.
        let behind = |v: V<'e>, rows: usize| {
            let perm: Vec<usize> = std::iter::once(rank - 2)
                .chain(0..rank - 2)
                .chain([rank - 1])
                .collect();
            v.transpose(&perm).reshape(&[rows, count * n])
        };
        let k = y.shape()[y.shape().len() - 2];
        let y = y.broadcast_to(&with(k, n)).conj_if_complex();
        return behind(ct, m).matmul(behind(y, k).swap_last());
    }
    let k = x.shape()[x.shape().len() - 1];
    let x = x.broadcast_to(&with(m, k)).conj_if_complex();
    let x = x.reshape(&[count * m, k]).swap_last();
    x.matmul(ct.reshape(&[count * m, n]))
}
