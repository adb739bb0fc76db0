//! Records a prepared function: one more recording around it, whose leaves are all of its arguments, so that a replay
//! computes from those of each call.
//!
//! The steps are those of a gradient, with what makes a replay safe between them: [`flatten`] the arguments, [`run`]
//! the function, [`differentiate`] what it recorded, check that what it read stays the same, and [`plan`] the program.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use cotan::autodiff::{self, Pullback};
use cotan::kernels::Value;
use cotan::prim::Lines;
use cotan::{Array, Prepared, Recording};
use numpy::PyUntypedArray;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::array::cell::ScalarKind;
use crate::array::escapes::{EscapeLog, Escapes, Once};
use crate::ndarray::content::Content;
use crate::ndarray::memory::{Borrow, references, same_bits, to_owned};
use crate::ndarray::placement::is_used;
use crate::prepare::decisions::Decisions;
use crate::prepare::fast_args::Quick;
use crate::prepare::guards::{Guard, Spec, Watched};
use crate::prepare::specialization::{Around, Outputs, Specialization, Taken, plain};
use crate::runtime::error::{enter, to_py};
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::transforms::gradient::scalar_output;
use crate::transforms::leaves::{Inputs, Request};
use crate::transforms::pullback::PyPullback;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::natural_cotangent::Scope;
use crate::tree::treedef::{Kind, Tree};

/// Constant plain arrays of up to so many bytes are compared with those of the last call, others are
/// computed with again.
const COMPARED: usize = 64 << 10;

/// What a prepared function gives.
#[derive(Clone, Copy, PartialEq)]
pub enum Transform {
    Gradient,
    ValueAndGradient,
    Value,
    Pullback,
}

impl Transform {
    pub fn name(self) -> &'static str {
        match self {
            Transform::Gradient => "gradient",
            Transform::ValueAndGradient => "value_and_gradient",
            Transform::Value => "value",
            Transform::Pullback => "pullback",
        }
    }

    /// Whether replays give first derivatives of what is recorded, and nobody differentiates what they give; and for whom.
    fn once(self, is_automatic: bool) -> Option<Once> {
        match self {
            Transform::Gradient | Transform::ValueAndGradient if is_automatic => {
                Some(Once::Unasked)
            }
            Transform::Gradient | Transform::ValueAndGradient => Some(Once::Asked),
            Transform::Value | Transform::Pullback => None,
        }
    }
}

/// Records a function for arguments like these, which are `taken` apart already. Its guards are
/// collected here, unless they are given.
pub fn record(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    (transform, allow_int): (Transform, bool),
    wrt: Option<&Bound<'_, PyAny>>,
    (args, taken): (&Bound<'_, PyTuple>, &Taken),
    varying: &[usize],
    guards: Option<&Bound<'_, PyAny>>,
) -> PyResult<Specialization> {
    let state = match guards {
        Some(found) => CapturedState::of(found.clone())?,
        None => CapturedState::of(hooks::GUARDS.get(py)?.call1((f, args))?)?,
    };
    let _scope = Scope::enter();
    let mut flat = flatten(f, (transform, allow_int), wrt, args, varying)?;
    let mut results = Results::default();
    // Profiles name the lines of what is replayed. Pullbacks can be pickled, and file names do not belong there.
    let lines = (transform != Transform::Pullback).then(Lines::new);
    let numbers_vary = !varying.is_empty();
    let log = EscapeLog::begin(&flat.outer, numbers_vary, transform.once(guards.is_some()));
    let outputs = run(py, f, transform, &mut flat, &mut results)?;
    let mut escapes = log.finish(py)?;
    drop(lines);
    let mut guards = state.unchanged(py, &escapes, taken)?;
    guard_captured(&mut guards, &escapes, py)?;
    let specs = specs(py, &flat);
    let slots: Vec<usize> = flat.inputs.active.iter().map(|(i, _)| *i).collect();
    let held = held_constant(&specs, &slots, taken, varying);
    let written = flat.inputs.written.take();
    let value_guards = std::mem::take(&mut escapes.value_guards);
    let (decisions, decided) = Decisions::of(py, value_guards)?;
    let count = results.arrays.len();
    // What a pullback holds outlives the call, and what is on a device stays there.
    let captured = match outputs {
        Outputs::Pullback(..) => Vec::new(),
        _ if is_used() => Vec::new(),
        _ => std::mem::take(&mut escapes.captured_ndarrays),
    };
    let (program, others) = plan(py, flat, results.arrays, (decided, escapes.roots), &held)?;
    let others = around(py, others, &guards, &captured);
    let is_plain = taken.arrays.is_none()
        && !taken.by_keyword
        && written.is_empty()
        && calls_no_other_way(&program, &decisions)
        && !matches!(outputs, Outputs::Pullback(..));
    let quick = if is_plain {
        Quick::new(py, &taken.trees, &specs, program.is_held())?
    } else {
        None
    };
    Ok(Specialization {
        trees: taken.trees.iter().map(|t| t.clone_ref(py)).collect(),
        by_keyword: taken.by_keyword,
        owners: owners(&taken.trees, specs.len()),
        specs,
        slots,
        guards,
        written,
        program,
        others,
        results: count,
        decisions,
        mismatch: Mutex::default(),
        num_replays: AtomicU64::new(0),
        choice: OnceLock::new(),
        outputs,
        kinds: results.kinds,
        natural: Scope::natural(py),
        current: Mutex::default(),
        quick,
        buffers: Mutex::default(),
        nothing: Value::scalar(false).map_err(to_py)?,
    })
}

/// Whether a run may begin before it is known which way the code takes: it calls nothing on another way.
fn calls_no_other_way(program: &Prepared, decisions: &Decisions) -> bool {
    !program.calls_back() || program.calls_exactly() && decisions.num_outputs() == 0
}

/// What a function can read besides its arguments, found by its names before it runs.
struct CapturedState<'py> {
    found: Bound<'py, PyAny>,
    /// What has to stay as it is, with the number of the function that reads it.
    guards: Vec<(Watched, usize)>,
}

impl<'py> CapturedState<'py> {
    fn of(found: Bound<'py, PyAny>) -> PyResult<CapturedState<'py>> {
        type Entry<'py> = (
            Bound<'py, PyAny>,
            Bound<'py, PyAny>,
            Bound<'py, PyAny>,
            usize,
            String,
        );
        let mut guards = Vec::new();
        for entry in found.getattr("found")?.try_iter()? {
            let (owner, name, value, of, source): Entry<'_> = entry?.extract()?;
            let guard = Guard::new(&owner, &name, &value)?;
            guards.push((Watched { guard, source }, of));
        }
        Ok(CapturedState { found, guards })
    }

    /// What a replay has to compare, once the function has run: it must not have changed any of it.
    fn unchanged(
        self,
        py: Python<'py>,
        escapes: &Escapes,
        taken: &Taken,
    ) -> PyResult<Vec<Watched>> {
        let imports: Vec<_> = (escapes.imports.iter())
            .map(|(before, after)| (before.bind(py), after.bind(py)))
            .collect();
        self.found.call_method1("expect_same_random", (imports,))?;
        // What functions that are called back refer to is their own affair.
        let apart: Vec<usize> = hooks::FUNCTIONS_IN
            .get(py)?
            .call1((&escapes.callbacks,))?
            .extract()?;
        let is_argument = |guard: &Guard| {
            let arrays = taken.arrays.iter().flatten();
            (guard.address()).is_some_and(|a| arrays.map(|h| h.as_ptr() as usize).any(|h| h == a))
        };
        let mut guards: Vec<Watched> = (self.guards.into_iter())
            .filter(|(watched, of)| !apart.contains(of) && !is_argument(&watched.guard))
            .map(|(watched, _)| watched)
            .collect();
        for (owner, source, value) in &escapes.computed {
            guards.push(Watched {
                guard: Guard::Attribute(
                    owner.clone_ref(py),
                    PyString::new(py, source).unbind(),
                    value.clone_ref(py),
                ),
                source: source.clone(),
            });
        }
        for Watched { guard, source } in &guards {
            if !guard.holds(py)? {
                return Err(PyTypeError::new_err(format!(
                    "prepare: the function changes {source} while it runs, which a replay would not repeat; make it \
                     part of the result, or leave the function unprepared"
                )));
            }
        }
        Ok(guards)
    }
}

/// Watches the arrays that the function read and its names did not lead to. What they led to, and is held as a copy, is
/// compared with the copy that the program computes with, so that there is one.
fn guard_captured(guards: &mut Vec<Watched>, escapes: &Escapes, py: Python<'_>) -> PyResult<()> {
    let address = |(at, watched): (usize, &Watched)| Some((watched.guard.address()?, at));
    let mut known: HashMap<usize, usize> = guards.iter().enumerate().filter_map(address).collect();
    let of_shape = |kind: &str, shape: &[usize]| {
        format!("captured {kind} of shape {}", cotan::aval::tuple(shape))
    };
    for (object, value) in &escapes.captured_ndarrays {
        if is_part_of_known(object.bind(py), &known)? {
            continue;
        }
        match known.entry(object.as_ptr() as usize) {
            Entry::Occupied(at) => {
                let watched = &mut guards[*at.get()];
                if let Guard::Elements(_, content) = &mut watched.guard
                    && let Content::Copy(copy) = content
                    && same_bits(py, copy, value)?
                {
                    *copy = value.clone();
                }
            }
            Entry::Vacant(at) => {
                at.insert(guards.len());
                let source = of_shape("array", value.shape());
                let content = Content::read(object.bind(py), value)?;
                let guard = Guard::Elements(object.clone_ref(py), content);
                guards.push(Watched { guard, source });
            }
        }
    }
    for (object, id) in &escapes.captured_arrays {
        if let Entry::Vacant(at) = known.entry(object.as_ptr() as usize) {
            at.insert(guards.len());
            guards.push(Watched {
                guard: Guard::Array(object.clone_ref(py), *id),
                source: of_shape("Array", &object.get().own_shape()),
            });
        }
    }
    Ok(())
}

/// Whether an array is a view, that nobody else has, of one whose elements are compared: of a matrix that is transposed in
/// each turn of a loop there would be a guard for each turn.
fn is_part_of_known(
    object: &Bound<'_, PyUntypedArray>,
    known: &HashMap<usize, usize>,
) -> PyResult<bool> {
    if references(object) > 1 || known.contains_key(&(object.as_ptr() as usize)) {
        return Ok(false);
    }
    let base = object.getattr(intern!(object.py(), "base"))?;
    Ok(known.contains_key(&(base.as_ptr() as usize)))
}

/// What the program reads besides the leaves. Replays read large captured arrays where they are, as the guards have found
/// in them what was recorded.
fn around(
    py: Python<'_>,
    values: Vec<Value>,
    guards: &[Watched],
    captured: &[(Py<PyUntypedArray>, Value)],
) -> Vec<Around> {
    let is_watched = |array: &Py<PyUntypedArray>, value: &Value| {
        guards.iter().any(|watched| {
            matches!(&watched.guard, Guard::Elements(own, content)
                if own.is(array) && content.is_like(value))
        })
    };
    // Places among elements are checked before they are used, and have to be the same then.
    let may_be_lent: Vec<_> = (captured.iter())
        .filter(|(array, read)| read.dtype().is_inexact() && is_watched(array, read))
        .collect();
    let lent = |value: &Value| {
        (may_be_lent.iter())
            .find(|(_, read)| value.address() == read.address() && value.aval() == read.aval())
    };
    let each = |value: Value| match lent(&value) {
        Some((array, _)) => Around::Lent(array.clone_ref(py)),
        None => Around::Value(value),
    };
    values.into_iter().map(each).collect()
}

/// The arguments as leaves of two recordings.
struct Flat {
    /// The recording that a replay repeats.
    outer: Recording,
    /// The one that is differentiated, if any is.
    inner: Option<Recording>,
    inputs: Inputs,
    /// The leaves of the outer recording; None for numbers that the function gets as they are.
    leaves: Vec<Option<Array>>,
}

fn flatten(
    f: &Bound<'_, PyAny>,
    (transform, allow_int): (Transform, bool),
    wrt: Option<&Bound<'_, PyAny>>,
    args: &Bound<'_, PyTuple>,
    varying: &[usize],
) -> PyResult<Flat> {
    let outer = Recording::new();
    let inner = (transform != Transform::Value).then(Recording::new);
    let request = Request {
        differentiates: transform != Transform::Value,
        refuses: transform != Transform::Value,
        allow_int,
        numbers: true,
        ..Request::gradient("prepare", wrt)
    };
    let mut inputs = Inputs::new(inner.as_ref().unwrap_or(&outer), f, args, request)?;
    let leaves = inputs.hold(&outer, inner.as_ref(), varying);
    Ok(Flat {
        outer,
        inner,
        inputs,
        leaves,
    })
}

/// What the program gives: arrays, and what each becomes.
#[derive(Default)]
struct Results {
    arrays: Vec<Array>,
    kinds: Vec<Kind>,
}

impl Results {
    fn push(&mut self, array: Array, kind: Kind) {
        self.arrays.push(array);
        self.kinds.push(kind);
    }

    /// Adds the leaves of what a function returned; gives its structure.
    fn add_structure(&mut self, y: &Bound<'_, PyAny>, as_arrays: bool) -> PyResult<Tree> {
        let mut flattener = Flattener::new(Borrow::Copy, false, false);
        let tree = flattener.flatten(y, Position::Direct, true, "")?;
        for leaf in flattener.leaves {
            let kind = match leaf.kind {
                Kind::Array(scalar_kind) => plain(scalar_kind, as_arrays),
                other => other,
            };
            self.push(leaf.array, kind);
        }
        Ok(tree)
    }
}

/// Runs the function, and differentiates what it recorded.
fn run(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    transform: Transform,
    flat: &mut Flat,
    results: &mut Results,
) -> PyResult<Outputs> {
    let y = flat.inputs.call(f)?;
    differentiate(py, f, transform, flat, y, results)
}

/// Adds what the transform gives for what the function returned.
fn differentiate(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    transform: Transform,
    flat: &mut Flat,
    y: Bound<'_, PyAny>,
    results: &mut Results,
) -> PyResult<Outputs> {
    let as_arrays = flat.inputs.returns_arrays();
    let Some(recording) = &flat.inner else {
        return Ok(Outputs::Structure(results.add_structure(&y, as_arrays)?));
    };
    if transform == Transform::Pullback {
        let tree = results.add_structure(&y, as_arrays)?;
        drop(y);
        flat.inputs.remember_names(f)?;
        return pullback(py, recording, &flat.inputs, tree, results);
    }
    let output = scalar_output(transform.name(), &y).inspect_err(|error| {
        // `ct.grad(f)` and the like are prepared as they are.
        let note = "to replay the function itself, such as one that ct.grad, ct.vmap or ct.hessian has made, use \
                    prepare(..., transform=\"value\")";
        let _ = error.value(py).call_method1("add_note", (note,));
    })?;
    drop(y);
    gradients(py, transform, recording, &flat.inputs, output, results)
}

/// Adds the gradients of a scalar output, behind its value if that is asked for.
fn gradients(
    py: Python<'_>,
    transform: Transform,
    recording: &Recording,
    inputs: &Inputs,
    (output, scalar_kind): (Array, ScalarKind),
    results: &mut Results,
) -> PyResult<Outputs> {
    let with_value = transform == Transform::ValueAndGradient;
    let leaves = inputs.recorded();
    let (value, cts) = enter(py, |interrupted| {
        if with_value {
            let (value, cts) =
                autodiff::value_and_gradient(recording, &output, &leaves, interrupted)?;
            return Ok((Some(value), cts));
        }
        let cts = autodiff::gradient(recording, &output, &leaves, interrupted)?;
        Ok((None, cts))
    })?;
    if let Some(value) = value {
        // As an unprepared call gives it.
        let kind = match plain(scalar_kind, inputs.returns_arrays()) {
            Kind::NdArray => Kind::Scalar,
            kind => kind,
        };
        results.push(value, kind);
    }
    let slots = (inputs.active.iter().zip(cts))
        .map(|((slot, _), ct)| {
            ct.map(|ct| {
                results.push(ct, inputs.leaves[*slot].kind);
                results.arrays.len() - 1
            })
        })
        .collect();
    Ok(Outputs::Gradients(with_value, slots))
}

/// Adds what a pullback keeps behind the results, of which this is the structure.
fn pullback(
    py: Python<'_>,
    recording: &Recording,
    inputs: &Inputs,
    tree: Tree,
    results: &mut Results,
) -> PyResult<Outputs> {
    let leaves = inputs.recorded();
    let returned = std::mem::take(&mut results.arrays);
    let (outs, back) = enter(py, |interrupted| {
        let outs: Vec<&Array> = returned.iter().collect();
        Pullback::new(recording, &outs, &leaves, interrupted)
    })?;
    let count = outs.len();
    let avals = outs.iter().map(|o| o.aval().clone()).collect();
    results.arrays = outs;
    for residual in back.residuals() {
        results.push(residual.clone(), Kind::Array(ScalarKind::Array));
    }
    let template = PyPullback::of(py, back, &tree, avals, inputs, Scope::natural(py))?;
    Ok(Outputs::Pullback(tree, count, Box::new(template)))
}

/// What the leaves of the arguments have to be for a replay.
fn specs(py: Python<'_>, flat: &Flat) -> Vec<Spec> {
    (flat.inputs.leaves.iter().zip(&flat.leaves))
        .map(|(leaf, held)| Spec {
            kind: leaf.kind,
            aval: leaf.array.aval().clone(),
            held: leaf.held,
            fixed: held.is_none().then(|| leaf.object.clone_ref(py)),
        })
        .collect()
}

/// For each input of the program that is an argument, whether it counts as constant: what follows from constants is
/// computed again only when they change. Large plain arrays are read anew each time: somebody may have written to them.
fn held_constant(specs: &[Spec], slots: &[usize], taken: &Taken, varying: &[usize]) -> Vec<bool> {
    let is_ours = |array: &Array| array.value().is_some_and(|v| !v.storage().is_foreign());
    (specs.iter().zip(&taken.leaves).enumerate())
        .filter(|(_, (spec, _))| spec.fixed.is_none())
        .map(|(i, (_, leaf))| {
            let is_kept = leaf.array.nbytes() <= COMPARED || is_ours(&leaf.array);
            is_kept && !slots.contains(&i) && !varying.contains(&i)
        })
        .collect()
}

/// Plans the program of the results, then of the decisions that the function took: it, and its inputs behind the leaves.
fn plan(
    py: Python<'_>,
    flat: Flat,
    results: Vec<Array>,
    (decided, roots): (Vec<Array>, Vec<Array>),
    held: &[bool],
) -> PyResult<(Prepared, Vec<Value>)> {
    let Flat {
        outer,
        inner,
        inputs,
        leaves,
    } = flat;
    drop(inputs);
    let leaves: Vec<Array> = leaves.into_iter().flatten().collect();
    let (program, others) = enter(py, |interrupted| {
        let mut outs: Vec<&Array> = results.iter().collect();
        outs.extend(&decided);
        let read = outs.len();
        outs.extend(&roots);
        let prepared = Prepared::of(&outer, &outs, &leaves, held, read, interrupted);
        drop(outs);
        drop((results, decided, roots, leaves, inner, outer));
        prepared
    })?;
    let others = others.into_iter().map(to_owned).collect::<PyResult<_>>()?;
    Ok((program, others))
}

/// The argument that each leaf is, where it is one as a whole.
fn owners(trees: &[Tree], count: usize) -> Vec<usize> {
    let mut owners = vec![0; count];
    for (i, tree) in trees.iter().enumerate() {
        if let Tree::Leaf(leaf) = tree {
            owners[*leaf] = i;
        }
    }
    owners
}
