//! Says why a function is recorded anew: the guard that failed, its source, the old and the new value. Reports and
//! warnings are made of this.

use std::sync::{Arc, PoisonError};

use cotan::kernels::Value;
use pyo3::prelude::*;

use crate::ndarray::export::to_numpy_scalar;
use crate::prepare::guards::{described, same_object, same_structure};
use crate::prepare::specialization::{Mismatch, Specialization, Taken};
use crate::runtime::hooks;
use crate::tree::treedef::{Kind, Tree};

/// So many recordings are remembered.
const REMEMBERED: usize = 1000;
/// So many recordings in a row, without a replay between them, are worth a warning.
const IN_A_ROW: usize = 8;

/// A guard that failed.
#[derive(Clone)]
pub struct Reason {
    /// Where the value comes from: an argument, a global, a line that decides.
    pub source: String,
    /// What had to hold.
    pub guard: String,
    pub old: String,
    pub new: String,
}

impl Reason {
    fn fields(self) -> Fields {
        (self.source, self.guard, self.old, self.new)
    }
}

/// A reason for Python: source, guard, old and new value.
type Fields = (String, String, String, String);

/// What a prepared function has done.
#[derive(Clone, Default)]
pub struct Log {
    /// How often the function was recorded.
    pub count: usize,
    /// Why, for the last recordings; nothing for the first one.
    reasons: Vec<(usize, Option<Reason>)>,
    /// Recordings since the last replay.
    in_a_row: usize,
    has_warned: bool,
    /// Why calls were made without preparation, and how many.
    pub unprepared: Vec<(&'static str, usize)>,
}

impl Log {
    /// Notes a recording, and whether there was a replay since the last one; the reason, if it is time to warn.
    pub fn add_recording(
        &mut self,
        reason: Option<Reason>,
        has_replayed: bool,
    ) -> Option<(usize, Reason)> {
        self.count += 1;
        if has_replayed {
            self.in_a_row = 0;
        }
        if reason.is_some() {
            self.in_a_row += 1;
        }
        if self.reasons.len() >= REMEMBERED {
            self.reasons.remove(1);
        }
        self.reasons.push((self.count, reason.clone()));
        if self.in_a_row <= IN_A_ROW || self.has_warned {
            return None;
        }
        self.has_warned = true;
        reason.map(|reason| (self.in_a_row, reason))
    }

    /// The numbers of recordings, with their reasons.
    pub fn recordings(&self) -> Vec<(usize, Option<Fields>)> {
        (self.reasons.iter().cloned())
            .map(|(number, reason)| (number, reason.map(Reason::fields)))
            .collect()
    }

    /// Notes a call without preparation.
    pub fn add_unprepared(&mut self, why: &'static str) {
        match self.unprepared.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => self.unprepared.push((why, 1)),
        }
    }
}

/// Warns that a function is recorded again and again.
pub fn warn(function: &Bound<'_, PyAny>, (count, reason): (usize, Reason)) -> PyResult<()> {
    let warn = hooks::WARN_RECORDING.get(function.py())?;
    warn.call1((function, count, reason.fields()))?;
    Ok(())
}

/// An argument by its name.
fn argument(i: usize, names: &[String]) -> String {
    (names.get(i)).map_or_else(
        || format!("argument {i}"),
        |name| format!("argument {name}"),
    )
}

/// The leaves of arguments by their paths.
fn paths(py: Python<'_>, trees: &[Tree], names: &[String]) -> PyResult<Vec<String>> {
    let mut all = Vec::new();
    for (i, tree) in trees.iter().enumerate() {
        tree.paths(&argument(i, names), &mut all, py)?;
    }
    Ok(all)
}

fn text(py: Python<'_>, value: &Value) -> String {
    if value.aval().size() != 1 {
        return format!("array of {}", value.aval());
    }
    (to_numpy_scalar(py, value))
        .and_then(|scalar| scalar.call_method0("item"))
        .map_or_else(|_| value.aval().to_string(), |item| described(&item))
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::NdArray => "an ndarray",
        Kind::Scalar => "a NumPy scalar",
        Kind::Number => "a Python number",
        Kind::Array(_) => "an Array",
    }
}

/// The guard of a recording that arguments like these, or what is around the function, do not fit.
pub fn misfit(
    py: Python<'_>,
    specialization: &Specialization,
    taken: &Taken,
    names: &[String],
) -> PyResult<Option<Reason>> {
    let reason = |source: &str, guard: String, old: String, new: String| {
        Ok(Some(Reason {
            source: source.into(),
            guard,
            old,
            new,
        }))
    };
    let (old, new) = (specialization.trees.len(), taken.trees.len());
    if old != new {
        let guard = format!("there are {old}");
        return reason("arguments", guard, old.to_string(), new.to_string());
    }
    for (i, (a, b)) in specialization.trees.iter().zip(&taken.trees).enumerate() {
        if same_structure(py, a, b)? {
            continue;
        }
        let source = argument(i, names);
        if let (Tree::Static(a), Tree::Static(b)) = (a, b) {
            let (old, new) = (described(a.bind(py)), described(b.bind(py)));
            return reason(&source, format!("is {old}"), old, new);
        }
        let guard = "has the recorded structure and constants".into();
        return reason(
            &source,
            guard,
            String::new(),
            "another structure or constant".into(),
        );
    }
    let paths = paths(py, &taken.trees, names)?;
    for (i, (leaf, spec)) in taken.leaves.iter().zip(&specialization.specs).enumerate() {
        let source = paths.get(i).map_or("argument", String::as_str);
        if leaf.array.aval() != &spec.aval {
            let (old, new) = (spec.aval.to_string(), leaf.array.aval().to_string());
            return reason(source, format!("is {old}"), old, new);
        }
        if leaf.kind != spec.kind {
            let (old, new) = (kind_name(spec.kind), kind_name(leaf.kind));
            return reason(source, format!("is {old}"), old.into(), new.into());
        }
        if leaf.held != spec.held {
            let [old, new] =
                [spec.held, leaf.held].map(|h| if h { "constant" } else { "not constant" });
            return reason(source, format!("is {old}"), old.into(), new.into());
        }
        if let Some(fixed) = &spec.fixed
            && !same_object(leaf.object.bind(py), fixed.bind(py))?
        {
            let old = described(fixed.bind(py));
            let new = described(leaf.object.bind(py));
            return reason(source, format!("is {old}"), old, new);
        }
    }
    for watched in &specialization.guards {
        if !watched.guard.holds(py)? {
            let condition = watched.guard.condition(py);
            let old = condition.strip_prefix("is ").unwrap_or_default().into();
            return reason(&watched.source, condition, old, watched.guard.found(py)?);
        }
    }
    Ok(None)
}

/// Why no recording was replayed, of those that have been tried.
pub fn reason(
    py: Python<'_>,
    tried: &[Arc<Specialization>],
    taken: &Taken,
    names: &[String],
) -> PyResult<Option<Reason>> {
    let mut first = None;
    for specialization in tried {
        let found = misfit(py, specialization, taken, names)?;
        if found.is_some() {
            first = first.or(found);
            continue;
        }
        // The arguments fit, and the values that were computed did not.
        let mismatch = (specialization.mismatch.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let found = match mismatch {
            Some(Mismatch::Decision(at, value)) => {
                let taken = &specialization.decisions.taken()[at];
                let old = text(py, &taken.value);
                Some(Reason {
                    source: decision(&taken.place),
                    guard: format!("the value is {old}"),
                    old,
                    new: text(py, &value),
                })
            }
            Some(Mismatch::Call(what)) => Some(Reason {
                source: "call of library code".into(),
                guard: "the result has the recorded structure".into(),
                old: String::new(),
                new: what,
            }),
            None => None,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(first)
}

fn decision(place: &str) -> String {
    format!("decision at {}", place.trim_end_matches([':', ' ']))
}

/// What a recording is for, as the report shows it: its arguments, and its guards.
pub fn outline(
    py: Python<'_>,
    specialization: &Specialization,
    names: &[String],
) -> PyResult<(Vec<(String, String)>, Vec<(String, String)>)> {
    let paths = paths(py, &specialization.trees, names)?;
    let arguments = (paths.into_iter().zip(&specialization.specs))
        .map(|(path, spec)| {
            let what = match &spec.fixed {
                Some(fixed) => described(fixed.bind(py)),
                None => spec.aval.to_string(),
            };
            (path, what)
        })
        .collect();
    let around = (specialization.guards.iter())
        .map(|watched| (watched.source.clone(), watched.guard.condition(py)));
    let decisions = (specialization.decisions.taken().iter()).map(|taken| {
        let value = format!("the value is {}", text(py, &taken.value));
        (decision(&taken.place), value)
    });
    Ok((arguments, around.chain(decisions).collect()))
}
