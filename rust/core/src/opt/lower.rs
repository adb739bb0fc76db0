//! Writes composite primitives (mean, logsumexp) in terms of others, before a program is planned.

use smallvec::SmallVec;

use crate::error::Result;
use crate::interrupt::Steps;
use crate::prim::{Kernel, Params, V, Var};
use crate::program::{Builder, Program};

/// The program without composites; the same program when it has none.
pub fn lower(program: Program) -> Result<Program> {
    let composite = |k: usize| matches!(program.eqns[k].prim.kernel_ref(), Some(Kernel::Lower(_)));
    if !(0..program.eqns.len()).any(composite) {
        return Ok(program);
    }
    let builder = Builder::new();
    let mut map: Vec<Var> = Vec::with_capacity(program.num_vars());
    for (i, name) in program.inputs.iter().enumerate() {
        map.push(builder.input(name, program.aval(i as Var)));
    }
    let mut steps = Steps::default();
    for (k, eqn) in program.eqns.iter().enumerate() {
        steps.count()?;
        let args: SmallVec<[Var; 4]> = program.args(eqn).iter().map(|&a| map[a as usize]).collect();
        let params = program.params(eqn);
        let var = match (eqn.prim.kernel_ref(), params) {
            (Some(Kernel::Lower(write)), _) => {
                let x: SmallVec<[V<'_>; 4]> = args.iter().map(|&a| builder.handle(a)).collect();
                write(&x, params).var
            }
            (_, Params::Literal { dtype, value }) => builder.complex_literal(*dtype, *value),
            _ => builder.push_inferred(
                eqn.prim,
                params.clone(),
                &args,
                program.aval(program.result(k)),
            ),
        };
        map.push(var);
    }
    let outs = program.outs.iter().map(|&v| map[v as usize]).collect();
    let mut lowered = builder.finish(outs)?;
    lowered.outputs = program.outputs;
    lowered.debug_verify();
    // A composite may consist of composites.
    lower(lowered)
}
