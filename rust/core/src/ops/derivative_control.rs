//! Primitives that say how something is differentiated, or what is repeated, and compute nothing of their own.

use crate::error::Error;
use crate::prim::{
    Batching, Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, Sample, Samples, Wgsl,
};

primitives! {
    /// The same values, held constant: no derivative of any order passes.
    DROPGRAD dropgrad("x") {
        class: Class::General {
            infer: |_, _, x| Ok(x[0].clone()),
            kernel: Kernel::Lower(|x, _| x[0]),
            jvp: None,
            vjp: None,
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: Onnx::Op("Identity", 13),
        wgsl: Wgsl::Expr("{0}"),
        numpy: "np.asarray({0})",
        samples: Samples::List(|| vec![Sample { inputs: vec![(vec![3, 4], -2.0, 2.0)], params: Params::None }]),
    }

    /// The same values as the first argument, not before the others are known. What is made of them is
    /// not merged with what is made of the argument itself: so it is computed again, when it is needed.
    BARRIER barrier("x...") {
        class: Class::Linear {
            infer: |_, _, x| Ok(x[0].clone()),
            kernel: Kernel::View(|_, x, _| Some(x.clone())),
            transpose: |r, ct, i| if i == 0 { ct } else { r.x[i].full_like(0.0) },
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: Onnx::Op("Identity", 13),
        wgsl: Wgsl::None("a layout"),
        numpy: "np.asarray({0})",
        samples: Samples::List(|| vec![Sample {
            inputs: vec![(vec![3, 4], -2.0, 2.0), (vec![2], -2.0, 2.0)],
            params: Params::None,
        }]),
    }

    /// A function with a derivative rule of its own. Both are programs of primitives, so it is fused,
    /// optimised and differentiated again like what it consists of.
    CUSTOM custom("x...") {
        class: Class::General {
            infer: |name, params, x| match params {
                Params::Custom { rule, output } => rule.infer(x, *output),
                _ => Err(Error::Program(format!("{name}: the parameter name is missing"))),
            },
            // Outputs of one call are lowered together (`opt::lower`) and differentiated together
            // (`transform::calls`), so there are no rules for a single one.
            kernel: Kernel::Lower(|x, params| match params {
                Params::Custom { rule, output } => {
                    let mut wanted = vec![false; rule.num_outputs()];
                    wanted[*output] = true;
                    rule.lower(x, &wanted).swap_remove(*output).unwrap_or(x[0])
                }
                _ => x[0],
            }),
            jvp: None,
            vjp: None,
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::None("written out before it is exported"),
        wgsl: Wgsl::None("lowered before it is computed"),
        numpy: "",
        samples: Samples::None("what it computes is a program of its own"),
    }

    /// A function that is called back with values while a program runs: a hook, or the pullback of an
    /// opaque rule. A program with one cannot leave its process.
    HOST host("x...") {
        class: Class::General {
            infer: |name, params, _| match params {
                Params::Host { call, output } => {
                    call.outputs().get(*output).cloned().ok_or_else(|| {
                        Error::Program(format!("{name}: {} has no output {output}", call.name()))
                    })
                }
                _ => Err(Error::Program(format!("{name}: the parameter name is missing"))),
            },
            // The executor calls back between its steps, where it holds nothing.
            kernel: Kernel::Call(|_, _, _, _| {
                Err(Error::Program("host: called inside a step".into()))
            }),
            jvp: None,
            vjp: None,
            batching: Batching::None("calls are mapped together with their other outputs"),
        },
        cost: Heavy,
        onnx: Onnx::None("it calls code of this process"),
        wgsl: Wgsl::None("it calls code of this process"),
        numpy: "",
        samples: Samples::None("what it computes is code of this process"),
    }

    /// A program that is repeated. It carries values from step to step, reads slices of arrays, and stacks
    /// results; an equation is one of its outputs, and those on the same arguments are computed together.
    LOOP loop("x...") {
        class: Class::General {
            infer: |name, params, x| match params {
                Params::Loop { of, output } => of.infer(x, *output),
                _ => Err(Error::Program(format!("{name}: the parameter length is missing"))),
            },
            // All outputs of a loop are computed together (`sched::looped`), and differentiated and mapped
            // together (`transform::looped`), so there are no rules for a single one.
            kernel: Kernel::Call(|_, _, _, _| {
                Err(Error::Program("loop: an output was computed by itself".into()))
            }),
            jvp: None,
            vjp: None,
            batching: Batching::None("outputs of loops are mapped together"),
        },
        cost: Heavy,
        onnx: Onnx::Recipe("loop"),
        wgsl: Wgsl::None("it has a program of its own"),
        numpy: "",
        samples: Samples::None("what it computes is a program of its own"),
    }
}
