//! Primitives that say how something is differentiated, and compute nothing of their own.

use crate::error::Error;
use crate::prim::{Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, Sample, Samples, Wgsl};

primitives! {
    /// The same values, held constant: no derivative of any order passes.
    DROPGRAD dropgrad("x") {
        class: Class::General {
            infer: |_, _, x| Ok(x[0].clone()),
            kernel: Kernel::Lower(|x, _| x[0]),
            jvp: None,
            vjp: None,
        },
        cost: Free,
        onnx: Onnx::Op("Identity", 13),
        wgsl: Wgsl::Expr("{0}"),
        numpy: "np.asarray({0})",
        samples: || vec![Sample { inputs: vec![(vec![3, 4], -2.0, 2.0)], params: Params::None }],
    }

    /// A function with a derivative rule of its own. Both are programs of primitives, so it is fused,
    /// optimised and differentiated again like what it consists of.
    CUSTOM custom("x...") {
        class: Class::General {
            infer: |name, params, x| match params {
                Params::Custom(f) => f.infer(x),
                _ => Err(Error::Program(format!("{name}: the parameter name is missing"))),
            },
            kernel: Kernel::Lower(|x, params| match params {
                Params::Custom(f) => f.lower(x),
                _ => x[0],
            }),
            // The forward direction would need the transposed rule.
            jvp: None,
            vjp: Some(|r, ct, i| match r.params {
                Params::Custom(f) => {
                    f.vjp(r.x, r.out, ct, i).unwrap_or_else(|| r.x[i].full_like(0.0))
                }
                _ => ct,
            }),
        },
        cost: Dear,
        onnx: Onnx::Recipe("custom"),
        wgsl: Wgsl::None("lowered before it is computed"),
        numpy: "",
        samples: Vec::new,
    }
}
