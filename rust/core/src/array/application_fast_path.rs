//! Outputs of one application of a program whose inputs are known, as those of a pullback mostly are. Closing them
//! would make the same program for each application, which takes longer than to run a small one.

use std::sync::Arc;

use super::Array;
use crate::error::Result;
use crate::kernels::Value;
use crate::sched;
use crate::tape::node::{Inputs, Op};

/// Computes arrays if they are such outputs; says whether they were.
pub(super) fn evaluate(pending: &[&Array], interrupted: &mut dyn FnMut() -> bool) -> Result<bool> {
    let Op::Output(first) = &pending[0].0.op else {
        return Ok(false);
    };
    let application = &first.of;
    let mut asked: Vec<u32> = Vec::with_capacity(pending.len());
    for array in pending {
        match &array.0.op {
            Op::Output(output) if Arc::ptr_eq(&output.of, application) => asked.push(output.index),
            _ => return Ok(false),
        }
    }
    let inputs = inputs(pending[0]);
    // Somebody else may have computed them in the meantime; then there are no inputs.
    let is_known = |a: &Array| a.value().is_some() || a.0.force_number();
    if inputs.len() != application.program.num_inputs() || !inputs.iter().all(is_known) {
        return Ok(false);
    }
    let Some(part) = application.part(&asked, pending[0].0.site) else {
        return Ok(false);
    };
    let values = part.inputs.iter().map(|&i| inputs[i].value().cloned());
    let Some(values) = values.collect::<Option<Vec<Value>>>() else {
        return Ok(false);
    };
    drop(inputs);
    let replay = sched::replay(&part.program)?;
    let results = replay.run(&values, &Arc::default(), &[], interrupted)?;
    let mut results = results.into_iter();
    for ((array, output), value) in pending.iter().zip(asked).zip(&mut results) {
        if let Some(applied) = &application.applied {
            applied.set(output as usize);
        }
        array.0.set_value(value);
    }
    if !part.kept.is_empty() {
        application.keep(part.kept.iter().copied().zip(results));
    }
    Ok(true)
}

/// What the program of an output was applied to.
fn inputs(output: &Array) -> Inputs {
    let inputs = output.0.inputs();
    match inputs.as_slice() {
        [call] if matches!(call.0.op, Op::Call(_)) => call.0.inputs(),
        _ => inputs,
    }
}
