//! Collects the facts about a pullback, the values that it keeps and why, for `Pullback.report`.

use cotan::autodiff::Pullback;
use cotan::inspect::{Residual, Source, Stretch};
use cotan::prim::{Prim, Site, Var};
use cotan::program::FastMap;
use cotan::{Aval, Program};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::runtime::hooks;

/// What the bindings know besides.
pub struct Facts<'a> {
    /// For each leaf that was differentiated, which leaf of the arguments it is.
    pub slots: &'a [usize],
    /// The path of an input of the forward program; empty when it is no argument.
    pub input: &'a dyn Fn(usize) -> String,
    /// The path of a leaf of the arguments.
    pub leaf: &'a dyn Fn(usize) -> &'a str,
    /// What is to be said of leaves that have no cotangent.
    pub states: Vec<&'static str>,
    /// Dtypes and shapes of the leaves of the arguments.
    pub avals: Vec<&'a Aval>,
}

/// File, line and function, or None.
type PlaceTuple = Option<(String, u32, String)>;

/// Sites as Python sees them; each is looked up once.
#[derive(Default)]
struct Places(FastMap<Site, PlaceTuple>);

impl Places {
    fn of(&mut self, site: Site) -> PlaceTuple {
        if site.is_none() {
            return None;
        }
        let place = self.0.entry(site).or_insert_with(|| {
            let place = site.place()?;
            Some((
                place.file.to_string(),
                place.line,
                place.function.to_string(),
            ))
        });
        place.clone()
    }
}

impl Facts<'_> {
    /// The report.
    pub fn report<'py>(
        mut self,
        back: &Bound<'py, PyAny>,
        core: &Pullback,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = back.py();
        let report = core.report();
        let mut places = Places::default();
        for (&slot, computed) in self.slots.iter().zip(&report.computed) {
            if let Some(computed) = computed {
                self.states[slot] = if *computed {
                    "computed"
                } else {
                    "never computed"
                };
            }
        }
        let arguments: Vec<_> = (self.states.iter().zip(&self.avals).enumerate())
            .map(|(i, (state, aval))| {
                let shape = PyTuple::new(py, aval.shape.iter())?;
                Ok(((self.leaf)(i), aval.dtype.numpy_name(), shape, *state))
            })
            .collect::<PyResult<_>>()?;
        let residuals: Vec<_> = (report.residuals.iter())
            .map(|r| self.residual(py, r, &mut places))
            .collect::<PyResult<_>>()?;
        let checkpoints: Vec<_> = (report.checkpoints.iter())
            .map(|s| stretch(s, &mut places))
            .collect();
        let skipped: Vec<(&str, u64)> = (report.skipped.iter())
            .map(|(p, n)| (p.name(), *n))
            .collect();
        let facts = PyDict::new(py);
        facts.set_item("arguments", arguments)?;
        facts.set_item("held", residuals)?;
        facts.set_item("held_bytes", core.nbytes())?;
        facts.set_item("equations", report.equations)?;
        facts.set_item("equations_avoided", report.equations_avoided)?;
        facts.set_item("bytes_avoided", report.bytes_avoided)?;
        facts.set_item("skipped", skipped)?;
        facts.set_item("checkpoints", checkpoints)?;
        facts.set_item("program", back.getattr("program")?)?;
        facts.set_item("lines", lines(core.program(), &mut places))?;
        facts.set_item("forward", back.getattr("forward")?)?;
        let forward = core.forward().map(|f| lines(f, &mut places));
        facts.set_item("forward_lines", forward.unwrap_or_default())?;
        hooks::REPORT.get(py)?.call1((facts,))
    }

    fn residual<'py>(
        &self,
        py: Python<'py>,
        residual: &Residual,
        places: &mut Places,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (kind, name, place) = match residual.source {
            Source::Input(i) => match (self.input)(i) {
                path if path.is_empty() => ("constant", String::new(), None),
                path => ("argument", path, None),
            },
            Source::Equation(_, prim, site) => {
                ("computed", prim.name().to_string(), places.of(site))
            }
            Source::Unknown => ("unknown", String::new(), None),
        };
        let leaves: Vec<&str> = (residual.leaves.iter())
            .map(|&leaf| (self.leaf)(self.slots[leaf]))
            .collect();
        let reader = residual
            .reader
            .map(|(prim, site)| (prim.name(), places.of(site)));
        let shape = PyTuple::new(py, residual.aval.shape.iter())?;
        let dtype = residual.aval.dtype.numpy_name();
        let what = (kind, name, dtype, shape, residual.nbytes, place);
        let why = (reader, residual.readers, leaves);
        (residual.input, what, why).into_pyobject(py)
    }
}

type End = (Var, &'static str, PlaceTuple);

fn stretch(s: &Stretch, places: &mut Places) -> (End, End, usize, usize, f64) {
    let mut end = |(var, prim, site): (Var, Prim, Site)| (var, prim.name(), places.of(site));
    (
        end(s.ends[0]),
        end(s.ends[1]),
        s.equations,
        s.nbytes,
        s.work,
    )
}

/// The place of each equation.
fn lines(program: &Program, places: &mut Places) -> Vec<Option<(String, u32)>> {
    if !program.has_sites() {
        return Vec::new();
    }
    (0..program.eqns().len())
        .map(|k| {
            places
                .of(program.site(k))
                .map(|(file, line, _)| (file, line))
        })
        .collect()
}
