//! Recording a prepared function: one more recording around it, whose leaves are all of its arguments.

use std::sync::{Mutex, OnceLock};

use cotan::autodiff::{self, Pullback};
use cotan::kernels::Value;
use cotan::{Array, Prepared, Recording};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::cell::Rank;
use crate::array::escapes::{Noted, Session};
use crate::ndarray::memory::Borrow;
use crate::ndarray::memory::own;
use crate::prepare::fast_args::Quick;
use crate::prepare::guards::{Spec, Watch};
use crate::prepare::pyclass::{PyPrepared, Transform};
use crate::prepare::specialization::{Outputs, Taken, Variant, plain};
use crate::runtime::error::{enter, to_py};
use crate::runtime::hooks;
use crate::transforms::gradient::scalar_output;
use crate::transforms::leaves::Inputs;
use crate::transforms::pullback::PyPullback;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::natural_cotangent::Scope;
use crate::tree::treedef::{Kind, Tree};

/// Constant plain arrays of up to so many bytes are compared with those of the last call, others are
/// computed with again.
const COMPARED: usize = 64 << 10;

impl PyPrepared {
    pub fn record_for(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        taken: &Taken,
    ) -> PyResult<Variant> {
        let f = self.function.bind(py);
        let wrt = self.wrt.as_ref().map(|w| w.bind(py));
        let found = hooks::GUARDS.get(py)?.call1((f, args))?;
        let mut around = Vec::new();
        for entry in found.getattr("found")?.try_iter()? {
            let (owner, name, value, of): (
                Bound<'_, PyAny>,
                Bound<'_, PyAny>,
                Bound<'_, PyAny>,
                usize,
            ) = entry?.extract()?;
            around.push((Watch::new(&owner, &name, &value)?, of));
        }
        let _scope = Scope::enter();
        let outer = Recording::new();
        let inner = (self.transform != Transform::Value).then(Recording::new);
        let mut inputs = Inputs::new(inner.as_ref().unwrap_or(&outer), f, args, wrt, false)?;
        let leaves = inputs.hold(&outer, inner.as_ref());
        let (mut results, mut kinds): (Vec<Array>, Vec<Kind>) = (Vec::new(), Vec::new());
        let (outputs, noted) = {
            let session = Session::begin(&outer);
            let outputs =
                self.outputs(py, f, &mut inputs, inner.as_ref(), &mut results, &mut kinds)?;
            (outputs, session.finish(py)?)
        };
        found.call_method0("expect_same_random")?;
        // What functions that are called back refer to is their own affair.
        let apart: Vec<usize> =
            (hooks::FUNCTIONS_IN.get(py)?.call1((&noted.callbacks,))?).extract()?;
        let is_argument = |watch: &Watch| {
            let arrays = taken.arrays.iter().flatten();
            (watch.address()).is_some_and(|a| arrays.map(|h| h.as_ptr() as usize).any(|h| h == a))
        };
        let mut watches: Vec<Watch> = (around.into_iter())
            .filter(|(watch, of)| !apart.contains(of) && !is_argument(watch))
            .map(|(watch, _)| watch)
            .collect();
        for watch in &watches {
            if !watch.holds(py)? {
                return Err(PyTypeError::new_err(format!(
                    "prepare: the function changes {} while it runs, which a replay would not repeat; make it \
                     part of the result, or leave the function unprepared",
                    watch.what(py)
                )));
            }
        }
        let Noted {
            guards,
            roots,
            arrays,
            handles,
            ..
        } = noted;
        let mut known: Vec<usize> = watches.iter().filter_map(Watch::address).collect();
        for (object, value) in arrays {
            if !known.contains(&(object.as_ptr() as usize)) {
                known.push(object.as_ptr() as usize);
                watches.push(Watch::Elements(object, value));
            }
        }
        for (object, id) in handles {
            if !known.contains(&(object.as_ptr() as usize)) {
                known.push(object.as_ptr() as usize);
                watches.push(Watch::Handle(object, id));
            }
        }
        let specs: Vec<Spec> = (inputs.leaves.iter().zip(&leaves))
            .map(|(leaf, held)| Spec {
                kind: leaf.kind,
                aval: leaf.array.aval().clone(),
                fixed: held.is_none().then(|| leaf.object.clone_ref(py)),
            })
            .collect();
        let slots: Vec<usize> = inputs.active.iter().map(|(i, _)| *i).collect();
        // Large plain arrays are read anew each time: somebody may have written to them.
        let stays = |i: usize| {
            let leaf = &taken.leaves[i];
            !slots.contains(&i)
                && (leaf.array.nbytes() <= COMPARED
                    || leaf
                        .array
                        .value()
                        .is_some_and(|v| !v.storage().is_foreign()))
        };
        let held: Vec<bool> = (0..specs.len())
            .filter(|&i| specs[i].fixed.is_none())
            .map(stays)
            .collect();
        let leaves: Vec<Array> = leaves.into_iter().flatten().collect();
        let trees = taken.trees.iter().map(|t| t.clone_ref(py)).collect();
        let count = results.len();
        let decisions: Vec<Value> = (guards.iter())
            .map(|(_, value)| own(value.clone()))
            .collect::<PyResult<_>>()?;
        let written = inputs.written.take();
        drop(inputs);
        let (program, others) = enter(py, |interrupted| {
            let mut outs: Vec<&Array> = results.iter().collect();
            outs.extend(guards.iter().map(|(a, _)| a));
            outs.extend(&roots);
            let prepared = Prepared::of(&outer, &outs, &leaves, &held, interrupted);
            drop(outs);
            drop((results, guards, roots, leaves, inner, outer));
            prepared
        })?;
        let others = others.into_iter().map(own).collect::<PyResult<_>>()?;
        let mut owners = vec![0; specs.len()];
        for (i, tree) in taken.trees.iter().enumerate() {
            if let Tree::Leaf(leaf) = tree {
                owners[*leaf] = i;
            }
        }
        let is_plain = taken.arrays.is_none()
            && written.is_empty()
            && !program.calls_back()
            && !matches!(outputs, Outputs::Pullback(..));
        let quick = if is_plain {
            Quick::new(py, &taken.trees, &specs, &slots, program.is_held())?
        } else {
            None
        };
        Ok(Variant {
            trees,
            specs,
            slots,
            watches,
            written,
            program,
            others,
            results: count,
            guards: decisions,
            choice: OnceLock::new(),
            outputs,
            kinds,
            natural: Scope::natural(py),
            current: Mutex::default(),
            quick,
            owners,
            buffers: Mutex::default(),
            nothing: Value::scalar(false).map_err(to_py)?,
        })
    }

    /// Runs the function; gives what the results are made of, and how.
    fn outputs(
        &self,
        py: Python<'_>,
        f: &Bound<'_, PyAny>,
        inputs: &mut Inputs,
        inner: Option<&Recording>,
        results: &mut Vec<Array>,
        kinds: &mut Vec<Kind>,
    ) -> PyResult<Outputs> {
        let y = inputs.call(f)?;
        let with_value = self.transform == Transform::ValueAndGradient;
        let handles = inputs.handles();
        let Some(recording) = inner else {
            let (tree, arrays) = structure_of(&y, handles, kinds)?;
            results.extend(arrays);
            return Ok(Outputs::Structure(tree));
        };
        let leaves = inputs.recorded();
        if self.transform == Transform::Pullback {
            let (tree, arrays) = structure_of(&y, handles, kinds)?;
            drop(y);
            let (outs, back) = enter(py, |interrupted| {
                let outs: Vec<&Array> = arrays.iter().collect();
                Pullback::new(recording, &outs, &leaves, interrupted)
            })?;
            let count = outs.len();
            let avals = outs.iter().map(|o| o.aval().clone()).collect();
            results.extend(outs);
            for residual in back.residuals() {
                results.push(residual.clone());
                kinds.push(Kind::Handle(Rank::Array));
            }
            inputs.remember_names(f)?;
            let natural = Scope::natural(py);
            let template = PyPullback::of(py, back, &tree, avals, inputs, natural)?;
            return Ok(Outputs::Pullback(tree, count, Box::new(template)));
        }
        let (output, rank) = scalar_output(self.transform.name(), &y)?;
        drop(y);
        let (value, cts) = enter(py, |interrupted| {
            if with_value {
                let (value, cts) =
                    autodiff::value_and_gradient(recording, &output, &leaves, interrupted)?;
                return Ok((Some(value), cts));
            }
            Ok((
                None,
                autodiff::gradient(recording, &output, &leaves, interrupted)?,
            ))
        })?;
        if let Some(value) = value {
            results.push(value);
            kinds.push(plain(rank, handles));
        }
        let slots = inputs.active.iter().zip(cts).map(|((slot, _), ct)| {
            ct.map(|ct| {
                results.push(ct);
                kinds.push(inputs.leaves[*slot].kind);
                results.len() - 1
            })
        });
        let slots = slots.collect();
        Ok(Outputs::Gradients(with_value, slots))
    }
}

/// A result taken apart.
fn structure_of(
    y: &Bound<'_, PyAny>,
    handles: bool,
    kinds: &mut Vec<Kind>,
) -> PyResult<(Tree, Vec<Array>)> {
    let mut flattener = Flattener::new(Borrow::Copy, false, false);
    let tree = flattener.flatten(y, Position::Direct, true, "")?;
    kinds.extend(flattener.leaves.iter().map(|l| match l.kind {
        Kind::Handle(rank) => plain(rank, handles),
        other => other,
    }));
    Ok((
        tree,
        flattener.leaves.into_iter().map(|l| l.array).collect(),
    ))
}
