//! The lines of source that equations come from, as bytes.

use super::damaged;
use super::fields::{Fields, put_count, put_text};
use crate::error::Result;
use crate::ops;
use crate::prim::{Place, Site};
use crate::program::Program;
use crate::util::FastMap;

/// The lines of a program, if there are any: places, then for each equation up to the last that has one the
/// number of its place, counted from 1, or 0.
pub fn encode(program: &Program) -> Option<Vec<u8>> {
    if !program.has_sites() {
        return None;
    }
    let mut places: Vec<Place> = Vec::new();
    let mut numbers: FastMap<Site, u32> = FastMap::default();
    let mut number = |site: Site| {
        if let Some(&known) = numbers.get(&site) {
            return known;
        }
        let new = site.place().map_or(0, |place| {
            places.push(place);
            places.len() as u32
        });
        numbers.insert(site, new);
        new
    };
    let equations: Vec<u32> = program.sites().iter().map(|&site| number(site)).collect();
    let mut out = Vec::new();
    put_count(&mut out, places.len());
    for place in &places {
        let (rule, argument) = place.rule.unwrap_or(("", 0));
        put_text(&mut out, &place.file);
        out.extend_from_slice(&place.line.to_le_bytes());
        put_text(&mut out, &place.function);
        put_text(&mut out, rule);
        out.extend_from_slice(&(argument as u32).to_le_bytes());
    }
    put_count(&mut out, equations.len());
    for number in equations {
        out.extend_from_slice(&number.to_le_bytes());
    }
    Some(out)
}

/// Gives the equations of a program their lines.
pub fn decode(bytes: &[u8], program: &mut Program) -> Result<()> {
    let mut fields = Fields::new("the list of lines", bytes);
    let mut sites = vec![Site::NONE];
    for _ in 0..fields.count(20)? {
        let (file, line, function) = (fields.text()?, fields.u32()?, fields.text()?);
        let (rule, argument) = (fields.text()?, fields.u32()? as usize);
        sites.push(Site::of(Place {
            file: file.into(),
            line,
            function: function.into(),
            // A later version may have rules of primitives that are not there in this one.
            rule: ops::by_name(rule).map(|prim| (prim.name(), argument)),
        }));
    }
    let count = fields.count(4)?;
    if count > program.eqns().len() {
        return Err(damaged("there are lines of more equations than it has"));
    }
    for k in 0..count {
        let site = sites.get(fields.u32()? as usize);
        let site = site.ok_or_else(|| damaged("an equation has a line that is not there"))?;
        program.set_site(k, *site);
    }
    fields.end()
}
