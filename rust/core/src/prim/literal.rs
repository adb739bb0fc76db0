//! The primitive that programs themselves know: numbers that stand in a program.

use super::{Batching, Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, Sample, Samples, Wgsl};
use crate::aval::{Aval, DType};
use crate::error::{Error, Result};
use crate::kernels::Value;

/// A known number.
pub const LITERAL: Prim = {
    static DEF: PrimDef = PrimDef {
        name: "literal",
        args: &[],
        doc: " A known number.\n",
        class: Class::Linear {
            infer: |_, params, _| match params {
                Params::Literal { dtype, .. } => Ok(Aval::scalar(*dtype)),
                _ => no_value(),
            },
            kernel: Kernel::Call(|params, _, aval, _| match params {
                Params::Literal { value, .. } => Value::number(aval.dtype, *value),
                _ => no_value(),
            }),
            transpose: |_, ct, _| ct,
            batching: Batching::Leading,
        },
        cost: Cost::Free,
        onnx: Onnx::Op("Constant", 13),
        wgsl: Wgsl::None("written as a number"),
        numpy: "np.array({value})",
        samples: Samples::List(|| {
            vec![Sample {
                inputs: vec![],
                params: Params::literal(DType::F64, 0.5),
            }]
        }),
    };
    Prim(&DEF)
};

fn no_value<T>() -> Result<T> {
    Err(Error::Program("literal: no parameter value".into()))
}
