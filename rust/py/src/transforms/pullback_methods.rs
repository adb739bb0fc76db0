//! Defines the methods of the Python class `Pullback`.

use std::sync::Arc;

use cotan::Program;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::program::pyclass::{PyProgram, long_text};
use crate::program::report::Facts;
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;
use crate::transforms::present::{gradients, handed_out};
use crate::transforms::pullback::PyPullback;
use crate::transforms::saved_pullback::{reduce_pullback, save_pullback};
use crate::tree::natural_cotangent::HandOut;
use crate::tree::treedef::Kind;

#[pymethods]
impl PyPullback {
    /// Cotangents of the arguments, given that of the value (None for zero).
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        dy: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cts = self.back.apply(&self.cotangents(dy)?).or_raise()?;
        let kinds: Vec<Kind> = self.kinds.iter().map(|(k, _)| *k).collect();
        let _natural = HandOut::new(self.natural.as_ref().map(|n| n.clone_ref(py)));
        let mut entries = gradients(py, &self.trees, &kinds, &self.slots, &self.kept, cts)?;
        match self.bare {
            Some(i) => Ok(entries.swap_remove(i)),
            None => handed_out(py, entries, self.arrays.as_deref()),
        }
    }

    /// The pullback with respect to some arguments or parts of them only; what only the others need is
    /// let go.
    ///
    /// Takes whatever `wrt=` of `gradient` takes. A predicate gets shape and dtype of a leaf, not its
    /// value. For one position or one name of an argument the result gives its bare cotangent, else a
    /// tuple with None for what was not asked for.
    fn wrt(&self, py: Python<'_>, arguments: &Bound<'_, PyAny>) -> PyResult<PyPullback> {
        let wanted = self.selected(arguments)?;
        let kept: Vec<bool> = (self.slots.iter().zip(&self.kept))
            .map(|(&s, &k)| k && wanted[s])
            .collect();
        let bare = match self.arrays {
            None => self.single(arguments)?,
            Some(_) => None,
        };
        Ok(PyPullback {
            back: self.back.wrt(&kept),
            results: Arc::clone(&self.results),
            avals: Arc::clone(&self.avals),
            trees: Arc::clone(&self.trees),
            kinds: Arc::clone(&self.kinds),
            slots: Arc::clone(&self.slots),
            kept,
            names: self.names.clone_ref(py),
            arrays: self
                .arrays
                .as_ref()
                .map(|all| all.iter().map(|a| a.clone_ref(py)).collect()),
            bare,
            natural: self.natural.as_ref().map(|n| n.clone_ref(py)),
            held: Arc::clone(&self.held),
        })
    }

    /// Bytes of the values that it keeps.
    ///
    /// >>> import cotan as ct
    /// >>> import numpy as np
    /// >>> ct.pullback(lambda x: np.sum(np.sin(x)), np.ones(1000))[1].nbytes
    /// 8000
    #[getter]
    fn nbytes(&self) -> usize {
        self.back.nbytes()
    }

    /// The program that it applies: from cotangents of the results (`dy`, with the path of a part behind it)
    /// and the values that it keeps (with the paths of the arguments that they are) to cotangents of the
    /// arguments (`dx` for `x`).
    ///
    /// >>> import cotan as ct
    /// >>> print(ct.pullback(lambda x: 3 * x, 2.0)[1].program)
    /// program(%dy: f64[], %1: f64[]) {
    ///   %2: f64[] = mul(%dy, %1)
    ///   return %2 "dx"
    /// }
    /// <BLANKLINE>
    #[getter]
    fn program(&self, py: Python<'_>) -> PyResult<PyProgram> {
        let mut program = self.back.program().clone();
        let paths = self.argument_paths(py)?;
        let mut names: Vec<Arc<str>> = Vec::with_capacity(program.num_inputs());
        let mut places = Vec::new();
        self.results.paths("dy", &mut places, py)?;
        let asked = self.back.cotangents().iter().zip(places);
        names.extend(asked.filter_map(|(slot, place)| slot.map(|_| place.into())));
        if let Some(forward) = self.back.forward() {
            let residuals = &forward.outs()[self.avals.len()..];
            names.extend(
                residuals
                    .iter()
                    .map(|&v| self.input_path(&paths, v as usize)),
            );
        }
        program.name_inputs(names);
        let mut outputs: Vec<Arc<str>> = vec!["".into(); program.outs().len()];
        for (&slot, out) in self.slots.iter().zip(self.back.gradients()) {
            if let Some(out) = *out {
                outputs[out] = format!("d{}", paths[slot]).into();
            }
        }
        program.set_output_names(outputs);
        PyProgram::recorded(program, Vec::new())
    }

    /// The program that gave the results and the values that it keeps, in this order; None when it is not
    /// known any more.
    ///
    /// >>> import cotan as ct
    /// >>> forward = ct.pullback(lambda x: x * x, 2.0)[1].forward
    /// >>> [v.name for v in forward.inputs]
    /// ['x']
    #[getter]
    fn forward(&self, py: Python<'_>) -> PyResult<Option<PyProgram>> {
        let Some(forward) = self.back.forward() else {
            return Ok(None);
        };
        let mut forward = (**forward).clone();
        let paths = self.argument_paths(py)?;
        forward.name_inputs((0..forward.num_inputs()).map(|i| self.input_path(&paths, i)));
        let mut places = Vec::new();
        self.results.paths("y", &mut places, py)?;
        forward.set_output_names(places.into_iter().map(Into::into));
        PyProgram::recorded(forward, Vec::new()).map(Some)
    }

    /// What it holds and why, which cotangents have been computed, and what was avoided: a `Report`.
    ///
    /// >>> import cotan as ct
    /// >>> import numpy as np
    /// >>> _, back = ct.pullback(lambda x, c: np.sum(x * c), np.ones(3), np.ones(3))
    /// >>> dx, dc = back(1.0)
    /// >>> _ = np.asarray(dx)
    /// >>> back.report().never_computed
    /// ['c']
    fn report<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, back) = (slf.py(), slf.get());
        let paths = back.argument_paths(py)?;
        let leaf = |slot: usize| paths[slot].as_str();
        let mut states = vec!["held constant"; paths.len()];
        for (&slot, &kept) in back.slots.iter().zip(&back.kept) {
            states[slot] = if kept {
                "no influence"
            } else {
                "not asked for"
            };
        }
        let avals: Vec<&cotan::Aval> = back.kinds.iter().map(|(_, aval)| aval).collect();
        let facts = Facts {
            slots: &back.slots,
            input: &|i| back.input_path(&paths, i).to_string(),
            leaf: &leaf,
            states,
            avals,
        };
        facts.report(slf.as_any(), &back.back)
    }

    /// Writes it to an ONNX file. The input is the cotangent, `dy` (`dy[0]`, `dy.loss`, ... when the function
    /// has several results); the outputs are the cotangents of the arguments that have one, `dx` for `x`, in
    /// their order. What it keeps is in the file, as initializers.
    ///
    /// Raises `ValueError` for what ONNX cannot express, with the reason, and for a file of more than 2 GB;
    /// `ImportError` without the package onnx (`pip install 'cotan[onnx]'`).
    fn to_onnx(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let program = Program::clone(self.program(py)?.core());
        let program = PyProgram::new(program, self.back.residuals().to_vec());
        hooks::EXPORT_ONNX.get(py)?.call1((program, path))?;
        Ok(())
    }

    /// Saves it to a file, which `ct.load` reads.
    ///
    /// The file holds the program and the values that it keeps, under checksums; `docs/how_to/saving.md` says more.
    /// It appears whole or not at all: an older one stays as it is when something fails. Objects among
    /// the arguments are known by the names of their classes: their cotangents are `Tangent`s.
    ///
    /// Raises `pickle.PicklingError` when the pullback calls Python code (a hook, an opaque rule), `OSError`
    /// when the file cannot be written, `ValueError` when the path is not that of a regular file.
    ///
    /// >>> import cotan as ct, os, tempfile
    /// >>> _, back = ct.pullback(lambda x: x**2, 3.0)
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     back.save(os.path.join(folder, "square.cotan"))
    /// ...     again = ct.load(os.path.join(folder, "square.cotan"))
    /// >>> float(again(1.0)[0])
    /// 6.0
    fn save(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        save_pullback(slf, path)
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> PyResult<Bound<'py, PyAny>> {
        reduce_pullback(slf, protocol)
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// It never changes, so a copy is the same object.
    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    /// The equations that it applies.
    fn __str__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        long_text(py, &self.program(py)?.core().to_string())
    }

    fn __repr__(&self) -> String {
        format!(
            "<Pullback: {} equations, keeps {} bytes>",
            self.back.program().eqns().len(),
            self.back.nbytes()
        )
    }
}
