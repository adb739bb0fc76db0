//! Writes composite primitives (mean, logsumexp) in terms of others, before a program is planned.

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::interrupt::Steps;
use crate::prim::{Kernel, Params, V, Var};
use crate::program::{Builder, Eqn, Program};

/// Whether there is something to lower.
pub fn has_composites(program: &Program) -> bool {
    let composite = |eqn: &Eqn| matches!(eqn.prim.kernel_ref(), Some(Kernel::Lower(_)));
    program.eqns.iter().any(composite)
}

/// The program without composites; the same program when it has none.
pub fn lower(mut program: Program) -> Result<Program> {
    // A composite may consist of composites.
    while has_composites(&program) {
        program = written(&program, true)?;
    }
    Ok(program)
}

/// The program with what functions with rules of their own consist of in place of their calls.
pub fn inline_rules(mut program: Program) -> Result<Program> {
    let is_rule = |eqn: &Eqn, p: &Program| matches!(p.params(eqn), Params::Custom { .. });
    while program.eqns.iter().any(|eqn| is_rule(eqn, &program)) {
        program = written(&program, false)?;
    }
    Ok(program)
}

/// With calls of rules taken apart, and other composites too if they are to be.
fn written(program: &Program, all: bool) -> Result<Program> {
    let builder = Builder::new();
    let mut map: Vec<Var> = vec![Var::MAX; program.num_vars()];
    for (i, name) in program.inputs.iter().enumerate() {
        map[i] = builder.input(name, program.aval(i as Var));
    }
    let calls = program.calls();
    let mut steps = Steps::default();
    for (k, eqn) in program.eqns.iter().enumerate() {
        steps.count()?;
        let var = program.result(k) as usize;
        if map[var] != Var::MAX {
            // Written together with an earlier output of its call.
            continue;
        }
        builder.at(program.site(k));
        let args: SmallVec<[Var; 4]> = program.args(eqn).iter().map(|&a| map[a as usize]).collect();
        let x = || -> SmallVec<[V<'_>; 4]> { args.iter().map(|&a| builder.value(a)).collect() };
        let params = program.params(eqn);
        map[var] = match (eqn.prim.kernel_ref(), params) {
            (_, Params::Custom { rule, .. }) => {
                let members = calls.members(k);
                let mut wanted = vec![false; rule.num_outputs()];
                for &(_, output) in members {
                    wanted[output] = true;
                }
                let outs = rule.lower(&x(), &wanted);
                for &(k, output) in members {
                    let out = outs[output].ok_or_else(|| {
                        let name = rule.name();
                        Error::Program(format!("custom rule {name}: output {output} is missing"))
                    })?;
                    map[program.result(k) as usize] = out.var();
                }
                continue;
            }
            (Some(Kernel::Lower(write)), _) if all => write(&x(), params).var(),
            (_, Params::Literal { dtype, value }) => builder.complex_literal(*dtype, *value),
            _ => builder.push_inferred(eqn.prim, params.clone(), &args, program.aval(var as Var)),
        };
    }
    let outs = program.outs.iter().map(|&v| map[v as usize]).collect();
    let mut lowered = builder.finish(outs)?;
    lowered.outputs.clone_from(&program.outputs);
    lowered.debug_verify();
    Ok(lowered)
}
