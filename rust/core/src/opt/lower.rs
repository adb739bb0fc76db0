//! Writes composite primitives (mean, logsumexp) in terms of others, before a program is planned, and reductions in
//! parts that groups can do.

use smallvec::SmallVec;

use crate::aval::{Aval, DType};
use crate::error::{Error, Result};
use crate::interrupt::Steps;
use crate::kernels::Split;
use crate::prim::{Kernel, Params, Prim, V, Var};
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
        program = written(&program, Written::Composites)?;
    }
    Ok(program)
}

/// The program with what functions with rules of their own consist of in place of their calls.
pub fn inline_rules(mut program: Program) -> Result<Program> {
    let is_rule = |eqn: &Eqn, p: &Program| matches!(p.params(eqn), Params::Custom { .. });
    while program.eqns.iter().any(|eqn| is_rule(eqn, &program)) {
        program = written(&program, Written::Rules)?;
    }
    Ok(program)
}

/// Whether a reduction has axes that are kept between its own. Those of halves, whose partial results are wider, stay
/// as they are.
fn is_scattered(program: &Program, eqn: &Eqn) -> bool {
    if !matches!(eqn.prim.kernel_ref(), Some(Kernel::Reduce(_))) {
        return false;
    }
    let Aval { dtype, shape } = program.aval(program.args(eqn)[0]);
    let half = matches!(dtype, DType::F16 | DType::Bf16);
    !half && !shape.contains(&0) && Split::of(shape, program.params(eqn).axes()).is_none()
}

/// The program with reductions over neighbouring axes only; `None` when it has no others.
///
/// The last axes are reduced first: their results are few, and need not be in memory.
pub fn in_neighbouring_axes(program: &Program) -> Result<Option<Program>> {
    if !program.eqns.iter().any(|eqn| is_scattered(program, eqn)) {
        return Ok(None);
    }
    written(program, Written::Reductions).map(Some)
}

/// The reduction of `x` over axes that may be scattered: the last ones that are neighbours first.
fn reduced<'e>(mut x: V<'e>, prim: Prim, axes: &[usize]) -> V<'e> {
    let mut left: SmallVec<[usize; 4]> = axes.iter().copied().collect();
    left.sort_unstable();
    while let Some(&last) = left.last() {
        // Axes of length one lie between neighbours, too.
        let shape = x.shape();
        let mut first = last;
        let mut count = 0;
        for &axis in left.iter().rev() {
            if shape[axis..first].iter().skip(1).any(|&d| d != 1) {
                break;
            }
            first = axis;
            count += 1;
        }
        x = x.reduce(prim, &left[left.len() - count..]);
        left.truncate(left.len() - count);
    }
    x
}

/// What is written in terms of others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// Calls of rules and other composites.
    Composites,
    /// Calls of rules.
    Rules,
    /// Reductions over scattered axes.
    Reductions,
}

/// With some equations taken apart.
fn written(program: &Program, what: Written) -> Result<Program> {
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
            (_, Params::Custom { rule, .. }) if what != Written::Reductions => {
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
            (Some(Kernel::Lower(write)), _) if what == Written::Composites => {
                write(&x(), params).var()
            }
            (Some(Kernel::Reduce(_)), _)
                if what == Written::Reductions && is_scattered(program, eqn) =>
            {
                reduced(x()[0], eqn.prim, params.axes()).var()
            }
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
