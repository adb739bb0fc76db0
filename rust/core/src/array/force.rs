//! Forcing: pending arrays are closed into a program, planned and run, and each gets its value.

use std::sync::Arc;

use super::{application_fast_path, scalar_fast_path};
use crate::error::{Error, Result};
use crate::inspect::nonfinite::{self, Reached};
use crate::kernels::Value;
use crate::prim::Place;
use crate::sched;
use crate::tape::Array;
use crate::tape::close::{self, ClosedProgram};

impl Array {
    /// Computes it, if that has not been done yet.
    pub fn force(&self, interrupted: &mut dyn FnMut() -> bool) -> Result<&Value> {
        if self.value().is_none() {
            Array::force_all(&[self], interrupted)?;
        }
        self.value()
            .ok_or_else(|| Error::Program("a run left no value".into()))
    }

    /// Computes a number behind which a few operations on numbers wait, if it is one: this takes no longer than to ask
    /// whether somebody wants to interrupt it. Says whether it has its value.
    pub fn force_at_once(&self) -> Result<bool> {
        if self.value().is_some() || self.0.force_number() {
            return Ok(true);
        }
        Ok(nonfinite::looks().is_none() && scalar_fast_path::evaluate(self)?)
    }

    /// Computes several arrays in one run.
    pub fn force_all(arrays: &[&Array], interrupted: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut pending: Vec<&Array> = arrays
            .iter()
            .copied()
            .filter(|a| a.value().is_none())
            .collect();
        pending.sort_by_key(|a| a.0.id);
        pending.dedup_by_key(|a| a.0.id);
        if let [number] = pending.as_slice()
            && number.force_at_once()?
        {
            return Ok(());
        }
        pending.retain(|a| !a.0.force_number());
        if pending.is_empty() {
            return Ok(());
        }
        let is_watched = nonfinite::looks().is_some();
        if !is_watched && application_fast_path::evaluate(&pending, interrupted)? {
            return Ok(());
        }
        let mut closed = close::close(&pending, None)?;
        if is_watched && closed.program.has_host_calls() {
            closed.program = nonfinite::logged(&closed.program);
        }
        let values = closed.values(interrupted)?;
        let plan = sched::plan(&closed.program)?;
        let mut results = sched::run(&plan, values, interrupted)?;
        closed.note_computed();
        if let Some((look, out)) = nonfinite::found(&results[..pending.len()])? {
            let name = pending[out].output_name();
            let inputs = closed.described(interrupted)?;
            let (found, reached) = ((look, &results[out]), (Reached::Read, name));
            return Err(nonfinite::explain(
                &closed.program,
                &inputs,
                out,
                found,
                reached,
                interrupted,
            ));
        }
        let count = pending.len();
        let shared: Vec<Value> = results.drain(count + closed.kept.len()..).collect();
        let arrays = pending.into_iter().chain(&closed.kept);
        for (i, (array, value)) in arrays.zip(results).enumerate() {
            // What nobody has asked for yet is computed again when somebody does, and looked at then.
            if i >= count && is_watched && nonfinite::found(std::slice::from_ref(&value))?.is_some()
            {
                continue;
            }
            array.0.set_value(value);
        }
        // What is looked at is computed again, where it is read.
        if !is_watched {
            closed.keep_shared(shared);
        }
        Ok(())
    }
}

impl ClosedProgram {
    /// The values of the inputs, computed where they are not known.
    pub fn values(&self, interrupted: &mut dyn FnMut() -> bool) -> Result<Vec<Value>> {
        values(&self.inputs, interrupted)
    }

    /// Gives applications of programs what they keep for their other outputs.
    fn keep_shared(&self, values: Vec<Value>) {
        let mut values = values.into_iter().zip(&self.shared).peekable();
        while let Some((value, (application, var))) = values.next() {
            let mut all = vec![(*var, value)];
            while let Some((value, (_, var))) =
                values.next_if(|(_, (next, _))| Arc::ptr_eq(next, application))
            {
                all.push((*var, value));
            }
            application.keep(all.into_iter());
        }
    }

    /// The values of the inputs with what is known of these: identity and site.
    pub(crate) fn described(
        &self,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<(u64, Option<Place>, Value)>> {
        described(&self.inputs, interrupted)
    }
}

/// The values of arrays with what is known of these.
pub(crate) fn described(
    arrays: &[Array],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<(u64, Option<Place>, Value)>> {
    let values = values(arrays, interrupted)?;
    Ok((arrays.iter().zip(values))
        .map(|(a, value)| (a.id(), a.site().place(), value))
        .collect())
}

/// The values of arrays, computed in one run where they are not known.
pub(crate) fn values(
    arrays: &[Array],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    let pending: Vec<&Array> = arrays.iter().filter(|a| a.value().is_none()).collect();
    if !pending.is_empty() {
        Array::force_all(&pending, interrupted)?;
    }
    arrays
        .iter()
        .map(|a| a.force(interrupted).cloned())
        .collect()
}
