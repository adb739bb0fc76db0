//! Which elements of the outputs of a program depend on which elements of its inputs.

use std::sync::atomic::AtomicBool;

use super::Pattern;
use super::flow::{Flow, Walk};
use super::sets::{MOST_ENTRIES, Sets, numbers, too_many};
use crate::aval::DType;
use crate::error::Result;
use crate::interrupt::Steps;
use crate::kernels::{Ctx, Value};
use crate::opt;
use crate::prim::Var;
use crate::program::Program;
use crate::sched;

/// The pattern of a program: a row for each element of its outputs, one output after the other, a column
/// for each element of the marked inputs. No dependence is missing; there may be more than there are.
///
/// Sets of columns are passed from the arguments of each equation to its result. `known` are values of
/// inputs, where there are any: indices that follow from them select, other indices may select
/// everything. No other value matters, so the pattern holds for all points at which the function takes
/// the same way through its branches.
pub fn dependence(program: &Program, marked: &[bool], known: &[Option<Value>]) -> Result<Pattern> {
    let program = opt::lower(program.pruned())?.pruned();
    let depends = program.depends_on(marked);
    let mut columns = 0;
    let mut sets: Vec<Option<Value>> = vec![None; program.num_vars()];
    for (i, _) in marked.iter().enumerate().filter(|(_, marked)| **marked) {
        let aval = program.aval(i as Var);
        let first = columns as i64 + 1;
        columns += aval.size();
        let singletons: Vec<i64> = (first..=columns as i64).collect();
        sets[i] = Some(Value::from_slice(&aval.shape, &singletons)?);
    }
    let cancel = AtomicBool::new(false);
    let mut walk = Walk {
        program: &program,
        indices: indices(&program, &depends, known)?,
        sets: Sets::new(columns)?,
        ctx: Ctx::new(&cancel, 1),
    };
    let last = last_uses(&program);
    let mut steps = Steps::default();
    for (k, eqn) in program.eqns().iter().enumerate() {
        steps.count()?;
        let out = program.result(k) as usize;
        if !depends[out] {
            continue;
        }
        let args = program.args(eqn);
        let x: Vec<Option<Value>> = args.iter().map(|&a| sets[a as usize].clone()).collect();
        sets[out] = walk.through(k, &x)?;
        for &a in args.iter().filter(|&&a| last[a as usize] == k) {
            sets[a as usize] = None;
        }
        if walk.sets.is_crowded() {
            walk.sets.keep(sets.iter_mut().flatten())?;
        }
    }
    collected(&program, &walk, &sets)
}

/// For each variable the last equation that reads it; none for those that are outputs.
fn last_uses(program: &Program) -> Vec<usize> {
    let mut last = vec![usize::MAX; program.num_vars()];
    for (k, eqn) in program.eqns().iter().enumerate() {
        for &a in program.args(eqn) {
            last[a as usize] = k;
        }
    }
    for &out in program.outs() {
        last[out as usize] = usize::MAX;
    }
    last
}

/// The values of indices that follow from what is known, by variable.
fn indices(
    program: &Program,
    depends: &[bool],
    known: &[Option<Value>],
) -> Result<Vec<Option<Value>>> {
    let mut found = vec![None; program.num_vars()];
    let is_open: Vec<bool> = (0..program.num_inputs())
        .map(|i| known.get(i).is_none_or(Option::is_none))
        .collect();
    let open = program.depends_on(&is_open);
    let mut wanted: Vec<Var> = (program.eqns().iter().enumerate())
        .filter(|(k, _)| depends[program.result(*k) as usize])
        .filter_map(|(_, eqn)| Some(program.args(eqn)[Flow::index(eqn.prim)?]))
        .filter(|&index| !open[index as usize])
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(found);
    }
    let inputs: Vec<Var> = (0..program.num_inputs() as Var)
        .filter(|&i| !is_open[i as usize])
        .collect();
    let values = inputs.iter().filter_map(|&i| known[i as usize].clone());
    let plan = sched::plan(&program.extract(&inputs, &wanted))?;
    let values = sched::run(&plan, values.collect(), &mut || false)?;
    for (index, value) in wanted.into_iter().zip(values) {
        debug_assert_eq!(value.dtype(), DType::I64, "an index");
        found[index as usize] = Some(value);
    }
    Ok(found)
}

/// The sets of the outputs as a pattern.
fn collected(program: &Program, walk: &Walk<'_>, sets: &[Option<Value>]) -> Result<Pattern> {
    let mut starts = vec![0];
    let mut indices = Vec::new();
    for &out in program.outs() {
        let Some(array) = &sets[out as usize] else {
            starts.resize(starts.len() + program.aval(out).size(), indices.len());
            continue;
        };
        let rows = numbers(array)?;
        let entries: usize = rows.iter().map(|&set| walk.sets.get(set).len()).sum();
        if entries + indices.len() > MOST_ENTRIES {
            return Err(too_many());
        }
        indices.reserve(entries);
        for &set in rows {
            indices.extend_from_slice(walk.sets.get(set));
            starts.push(indices.len());
        }
    }
    Pattern::new(walk.sets.num_columns(), starts, indices)
}
