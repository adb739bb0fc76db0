//! Saves a pullback with its residuals to a file, and loads it in another process.

use std::sync::Arc;

use super::Pullback;
use crate::array::Array;
use crate::error::{Error, Result};
use crate::io::{
    Fields, Kind, Saved, line_bytes, lines_from, program_bytes, program_from, put_text,
};
use crate::ops;
use crate::opt;
use crate::prim::Params;
use crate::program::Program;
use crate::tape::node::Applied;

/// The section that says which inputs are cotangents, and which outputs belong to which leaf.
pub(crate) const LINK: [u8; 4] = *b"LINK";
/// The section with the program that gave the residuals.
const FORWARD: [u8; 4] = *b"fwrd";
/// The section with the lines of that program.
const LINES: [u8; 4] = *b"fwln";
/// Stands for no input or output.
const NONE: u32 = u32::MAX;

fn put_slots(out: &mut Vec<u8>, slots: &[Option<usize>]) {
    out.extend_from_slice(&(slots.len() as u32).to_le_bytes());
    for slot in slots {
        out.extend_from_slice(&slot.map_or(NONE, |s| s as u32).to_le_bytes());
    }
}

fn slots(fields: &mut Fields<'_>) -> Result<Vec<Option<usize>>> {
    let count = fields.count(4)?;
    (0..count)
        .map(|_| fields.u32().map(|s| (s != NONE).then_some(s as usize)))
        .collect()
}

fn damaged(what: &str) -> Error {
    Error::Saved(format!("not a valid pullback: {what}"))
}

/// The program with functions that have rules of their own written out.
fn without_rules(program: &Program) -> Result<Program> {
    let is_rule = |p: &Params| matches!(p, Params::Custom { .. });
    if program.params.iter().any(is_rule) {
        return opt::lower(program.clone());
    }
    Ok(program.clone())
}

impl Pullback {
    /// What a file holds of it. Values that are not computed yet are computed.
    ///
    /// Functions with derivative rules of their own become the primitives that they consist of. Fails for
    /// a program that calls back (hooks, opaque rules), and where residuals are active in an outer gradient
    /// that is still going on.
    pub fn to_saved(&self, interrupted: &mut dyn FnMut() -> bool) -> Result<Saved> {
        if self.residuals.iter().any(Array::is_active) {
            return Err(Error::Saved(
                "the pullback belongs to a gradient that is still being computed, which may differentiate \
                 it; save it when that is done"
                    .into(),
            ));
        }
        let program = without_rules(&self.program)?;
        let pending: Vec<&Array> = self.residuals.iter().collect();
        Array::force_all(&pending, interrupted)?;
        let residuals = self.residuals.iter().map(|r| r.force(interrupted).cloned());
        let mut saved = Saved::new(Kind::Pullback, program, residuals.collect::<Result<_>>()?);
        let mut link = Vec::new();
        put_slots(&mut link, &self.cotangents);
        put_slots(&mut link, &self.gradients);
        link.extend_from_slice(&(self.skipped.len() as u32).to_le_bytes());
        for (prim, count) in &self.skipped {
            put_text(&mut link, prim.name());
            link.extend_from_slice(&count.to_le_bytes());
        }
        saved.sections.push((LINK, link));
        // Only to be looked at: where it cannot leave, the pullback can.
        let forward = self.forward.as_ref().filter(|f| !f.has_host_calls());
        if let Some(forward) = forward {
            let forward = without_rules(forward)?;
            saved.sections.push((FORWARD, program_bytes(&forward)?));
            (saved.sections).extend(line_bytes(&forward).map(|bytes| (LINES, bytes)));
        }
        Ok(saved)
    }

    /// The pullback that was saved.
    pub fn from_saved(saved: &Saved) -> Result<Pullback> {
        if saved.kind != Kind::Pullback {
            return Err(Error::Saved(
                "this is a saved program, not a pullback".into(),
            ));
        }
        saved.expect_sections(&[LINK, FORWARD, LINES])?;
        let link = saved.section(&LINK);
        let mut fields = Fields::new("the links", link.ok_or_else(|| damaged("it has no links"))?);
        let (cotangents, gradients) = (slots(&mut fields)?, slots(&mut fields)?);
        let mut skipped = Vec::new();
        for _ in 0..fields.count(12)? {
            let (name, count) = (fields.text()?, fields.u64()?);
            // A later version may have skipped what is not there in this one.
            skipped.extend(ops::by_name(name).map(|prim| (prim, count)));
        }
        fields.end()?;
        let program = &saved.program;
        let count = cotangents.iter().flatten().count();
        if !cotangents.iter().flatten().copied().eq(0..count)
            || program.num_inputs() != count + saved.arrays.len()
        {
            return Err(damaged("its inputs are not cotangents and residuals"));
        }
        let outs = program.outs().len();
        if gradients.iter().flatten().any(|&g| g >= outs) {
            return Err(damaged("there are more cotangents than outputs"));
        }
        let mut forward = (saved.section(&FORWARD))
            .map(|bytes| program_from(bytes, &saved.writer))
            .transpose()?;
        if let (Some(forward), Some(bytes)) = (&mut forward, saved.section(&LINES)) {
            lines_from(bytes, forward)?;
        }
        let expected = cotangents.len() + saved.arrays.len();
        if forward.as_ref().is_some_and(|f| f.outs().len() != expected) {
            return Err(damaged("its values are not what its first half gives"));
        }
        let residuals = saved.arrays.iter().cloned().map(Array::constant).collect();
        Ok(Pullback {
            program: Arc::new(program.clone()),
            // Nothing in this process has such an id.
            sources: vec![u64::MAX; forward.as_ref().map_or(0, Program::num_inputs)].into(),
            forward: forward.map(Arc::new),
            residuals,
            cotangents,
            gradients,
            skipped,
            applied: Applied::new(outs),
        })
    }

    /// Dtype and shape of the cotangent of each output of the function; `None` for one without influence.
    pub fn cotangent_avals(&self) -> impl Iterator<Item = Option<&crate::aval::Aval>> {
        let aval = |slot: &Option<usize>| slot.map(|s| self.program.aval(s as u32));
        self.cotangents.iter().map(aval)
    }

    /// Dtype and shape of the cotangent of each leaf; `None` for leaves without influence.
    pub fn gradient_avals(&self) -> impl Iterator<Item = Option<&crate::aval::Aval>> {
        let aval = |slot: &Option<usize>| slot.map(|s| self.program.aval(self.program.outs()[s]));
        self.gradients.iter().map(aval)
    }
}
