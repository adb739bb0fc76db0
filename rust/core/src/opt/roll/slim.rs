//! Loops without what nobody reads of them.

use std::sync::Arc;

use crate::error::Result;
use crate::prim::{Params, Var};
use crate::program::{Builder, Loop, Program};
use crate::util::FastMap;

/// A call of a loop: what is left of it, which arguments it reads, and which output each of its equations is.
struct Call {
    of: Arc<Loop>,
    inputs: Vec<usize>,
    outputs: FastMap<usize, usize>,
}

/// The program without equations and parts of loops that no output needs.
pub(super) fn slim(program: &Program) -> Result<Program> {
    let program = program.pruned();
    let calls = program.calls();
    let builder = Builder::alike(&program, program.eqns().len());
    for (i, name) in program.input_names().iter().enumerate() {
        builder.input(name, program.aval(i as Var));
    }
    let mut map: Vec<Var> = (0..program.num_inputs() as Var).collect();
    let mut known: FastMap<usize, Call> = FastMap::default();
    for (k, eqn) in program.eqns().iter().enumerate() {
        builder.at(program.site(k));
        let mut args: Vec<Var> = program.args(eqn).iter().map(|&a| map[a as usize]).collect();
        let mut params = program.params(eqn).clone();
        if let Params::Literal { dtype, value } = params {
            map.push(builder.complex_literal(dtype, value));
            continue;
        }
        if let Params::Loop { of, output } = &mut params
            && let [(first, _), ..] = *calls.members(k)
        {
            if first == k {
                let outputs: Vec<usize> = calls.members(k).iter().map(|&(_, o)| o).collect();
                let (slim, inputs, numbers) = of.slim(&outputs)?;
                // An equation needs an argument, and what reads none is nothing that a loop should do.
                if !inputs.is_empty() {
                    let call = Call {
                        of: Arc::new(slim),
                        inputs,
                        outputs: outputs.into_iter().zip(numbers).collect(),
                    };
                    known.insert(k, call);
                }
            }
            if let Some(call) = known.get(&first) {
                args = call.inputs.iter().map(|&i| args[i]).collect();
                *of = Arc::clone(&call.of);
                *output = call.outputs[output];
            }
        }
        let aval = program.aval(program.result(k));
        map.push(builder.push_inferred(eqn.prim, params, &args, aval));
    }
    let outs = program.outs().iter().map(|&v| map[v as usize]).collect();
    let mut new = builder.finish(outs)?;
    new.outputs.clone_from(&program.outputs);
    Ok(new.pruned())
}
