//! Takes the arguments of a function apart into the leaves of a recording; a function without arguments has the
//! arrays that it captures as leaves.

use std::cell::RefCell;

use cotan::{Array, Recording};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyTuple};

use crate::array::cell::PyArray;
use crate::ndarray::memory::{Borrow, fingerprint};
use crate::runtime::error::{NotDifferentiableError, step};
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::runtime::text;
use crate::transforms::argument_names::{Names, argument_names};
use crate::transforms::selection::selected;
use crate::tree::flatten::{Argument, Flattener, Position};
use crate::tree::treedef::{Kind, Leaf, Tree};

/// Arguments taken apart, with a leaf of the recording in place of each active one.
pub struct Inputs {
    pub trees: Vec<Tree>,
    pub leaves: Vec<Leaf>,
    /// For each active leaf its number among all, and the recording's leaf.
    pub active: Vec<(usize, Array)>,
    /// Whether what is recorded will be differentiated.
    pub is_derived: bool,
    /// Whether what runs counts as being differentiated.
    pub counts: bool,
    /// Fingerprints of the leaves whose memory is borrowed.
    pub borrowed: Vec<(usize, u64)>,
    /// Where the names of the arguments come from.
    pub names: Names,
    /// The arrays of `wrt`, where there are no arguments.
    pub arrays: Option<Vec<Py<PyArray>>>,
    /// The leaves that the function wrote to when it was called.
    pub written: RefCell<Vec<usize>>,
}

/// What is asked of the arguments of a function.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // each is a choice of its own
pub struct Request<'a, 'py> {
    /// The function of cotan that was called, for errors.
    pub operation: &'a str,
    /// The leaves that are asked for; all of them without it.
    pub wrt: Option<&'a Bound<'py, PyAny>>,
    /// Whether integers and booleans may be asked for, and have no gradient.
    pub allow_int: bool,
    /// Whether derivatives are asked for: then some integers of Python count as floats.
    pub differentiates: bool,
    /// Whether what is asked for and can have no gradient is refused.
    pub refuses: bool,
    /// Whether arrays of all dtypes are recorded, and what the arguments hold is kept, not borrowed.
    pub traced: bool,
    /// Whether numbers that are held constant are leaves, as they are with a mask.
    pub numbers: bool,
}

impl<'a, 'py> Request<'a, 'py> {
    /// Derivatives with respect to `wrt`.
    pub fn gradient(operation: &'a str, wrt: Option<&'a Bound<'py, PyAny>>) -> Self {
        Request {
            operation,
            wrt,
            allow_int: false,
            differentiates: true,
            refuses: true,
            traced: false,
            numbers: false,
        }
    }

    /// Derivatives along tangents that are checked against the arguments.
    pub fn along(operation: &'a str) -> Self {
        Request {
            refuses: false,
            ..Request::gradient(operation, None)
        }
    }

    /// No derivatives.
    pub fn trace() -> Self {
        Request {
            operation: "trace",
            wrt: None,
            allow_int: false,
            differentiates: false,
            refuses: false,
            traced: true,
            numbers: false,
        }
    }
}

impl Inputs {
    /// Takes the arguments apart.
    pub fn new(
        recording: &Recording,
        f: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        request: Request<'_, '_>,
    ) -> PyResult<Inputs> {
        let traced = request.traced;
        if !f.is_callable() {
            return Err(PyTypeError::new_err(format!(
                "the first argument must be callable, the function to differentiate, not {}",
                text::class_of(f)
            )));
        }
        let wrt = request.wrt.filter(|w| !w.is_none());
        if let Some(wrt) = wrt
            && args.is_empty()
        {
            return Inputs::implicit(recording, wrt, request);
        }
        let names = if traced || wrt.is_some() {
            Some(argument_names(f, args.len())?)
        } else {
            None
        };
        let borrow = if traced { Borrow::Copy } else { Borrow::Call };
        let mut flattener = Flattener::new(borrow, names.is_some(), names.is_none());
        if request.differentiates {
            flattener.count_integers();
        }
        if request.numbers {
            flattener.keep_numbers();
        }
        let mut arguments = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            let path = names.as_ref().map_or("", |n| n[i].as_str());
            let argument = flattener.argument(&arg, Position::Direct, path);
            arguments.push(argument.or_else(|fault| match &names {
                Some(names) => Err(fault.raise(f.py(), &names[i])),
                // The names are looked up for the message only.
                None => Err(fault.raise(f.py(), &argument_names(f, args.len())?[i])),
            })?);
        }
        let losses: Vec<Loss> = (arguments.iter().enumerate())
            .filter_map(|(i, argument)| {
                Loss::of(i, argument, &flattener.foreign, f.py()).transpose()
            })
            .collect::<PyResult<_>>()?;
        let trees: Vec<Tree> = arguments.into_iter().map(|a| a.tree).collect();
        let mut leaves = flattener.leaves;
        let mut asked = vec![wrt.is_none(); trees.len()];
        if let (Some(wrt), Some(names)) = (wrt, &names) {
            let able: Vec<bool> = leaves.iter().map(|l| l.active).collect();
            let paths: Vec<&str> = leaves.iter().map(|l| l.path.as_str()).collect();
            let objects: Vec<&Py<PyAny>> = leaves.iter().map(|l| &l.object).collect();
            let selection = selected(wrt, names, &trees, &paths, &objects, &able)?;
            for (leaf, wanted) in leaves.iter_mut().zip(selection.mask) {
                leaf.active &= wanted;
            }
            for argument in selection.arguments {
                asked[argument] = true;
            }
        }
        if request.refuses {
            refuse_losses(f, args, &losses, &asked, request)?;
        }
        if traced {
            for leaf in &mut leaves {
                leaf.active = !leaf.held;
            }
        }
        let active = (leaves.iter().enumerate())
            .filter(|(_, l)| l.active)
            .map(|(i, l)| step(f.py()).map(|()| (i, recording.leaf(&l.array))))
            .collect::<PyResult<_>>()?;
        let borrowed = (leaves.iter().enumerate())
            .filter_map(|(i, l)| Some((i, fingerprint(l.array.value()?)?)))
            .collect();
        let names = match names {
            Some(names) => Names::Known(names),
            None => Names::Known(Vec::new()),
        };
        Ok(Inputs {
            trees,
            leaves,
            active,
            is_derived: !traced,
            counts: !traced,
            borrowed,
            names,
            arrays: None,
            written: RefCell::default(),
        })
    }

    /// Another reference to the same.
    pub fn clone_ref(&self, py: Python<'_>) -> Inputs {
        let arrays = self.arrays.as_ref();
        Inputs {
            trees: self.trees.iter().map(|t| t.clone_ref(py)).collect(),
            leaves: self.leaves.iter().map(|l| l.clone_ref(py)).collect(),
            active: self.active.clone(),
            is_derived: self.is_derived,
            counts: self.counts,
            borrowed: self.borrowed.clone(),
            names: self.names.clone_ref(py),
            arrays: arrays.map(|all| all.iter().map(|a| a.clone_ref(py)).collect()),
            written: RefCell::default(),
        }
    }

    /// Arrays that a function without arguments uses.
    fn implicit(
        recording: &Recording,
        wrt: &Bound<'_, PyAny>,
        request: Request<'_, '_>,
    ) -> PyResult<Inputs> {
        let listed = hooks::LISTED_ARRAYS.get(wrt.py())?.call1((wrt,))?;
        let arrays: Vec<Bound<'_, PyArray>> = listed.extract()?;
        let mut leaves = Vec::with_capacity(arrays.len());
        for cell in &arrays {
            if cell.get().is_view() {
                return Err(PyTypeError::new_err(
                    "wrt: one of the arrays is a view; list the array that it is a view of, or use a copy \
                     of it in its place (x.copy())",
                ));
            }
            let array = cell.get().read()?;
            if !array.dtype().is_inexact() {
                let path = format!("wrt[{}]", leaves.len());
                refuse(cell.as_any(), &path, true, request)?;
            }
            leaves.push(Leaf {
                active: array.dtype().is_inexact(),
                held: false,
                array,
                kind: Kind::Array(cell.get().scalar_kind()),
                path: String::new(),
                object: cell.clone().into_any().unbind(),
            });
        }
        let active = (leaves.iter().enumerate())
            .filter(|(_, l)| l.active)
            .map(|(i, l)| (i, recording.leaf(&l.array)))
            .collect();
        Ok(Inputs {
            trees: (0..leaves.len()).map(Tree::Leaf).collect(),
            leaves,
            active,
            is_derived: true,
            counts: true,
            borrowed: Vec::new(),
            names: Names::Known(Vec::new()),
            arrays: Some(arrays.into_iter().map(Bound::unbind).collect()),
            written: RefCell::default(),
        })
    }

    /// Puts a leaf of an outer recording below each leaf but for numbers that are held constant and do not vary;
    /// gives these leaves. Without an inner recording nothing is differentiated.
    pub fn hold(
        &mut self,
        outer: &Recording,
        inner: Option<&Recording>,
        varying: &[usize],
    ) -> Vec<Option<Array>> {
        let mut held = Vec::with_capacity(self.leaves.len());
        for (i, leaf) in self.leaves.iter_mut().enumerate() {
            let is_number = matches!(leaf.kind, Kind::Number | Kind::Scalar);
            let is_fixed = is_number && !leaf.active && !varying.contains(&i);
            held.push((!is_fixed).then(|| outer.leaf(&leaf.array)));
            if let Some(Some(array)) = held.last() {
                leaf.array = array.clone();
            }
        }
        for (i, array) in &mut self.active {
            let source = &self.leaves[*i].array;
            *array = inner.map_or_else(|| source.clone(), |inner| inner.leaf(source));
        }
        self.is_derived = inner.is_some();
        self.counts = inner.is_some();
        held
    }

    /// The leaves of the recording.
    pub fn recorded(&self) -> Vec<Array> {
        self.active.iter().map(|(_, a)| a.clone()).collect()
    }

    /// Whether results are to be `Array`s because arguments were.
    pub fn returns_arrays(&self) -> bool {
        self.leaves.iter().any(|l| matches!(l.kind, Kind::Array(_)))
    }

    /// Remembers where the names of the arguments of `f` can be found later, without keeping alive
    /// what it closes over.
    pub fn remember_names(&mut self, f: &Bound<'_, PyAny>) -> PyResult<()> {
        if !matches!(&self.names, Names::Known(names) if names.is_empty()) {
            return Ok(());
        }
        let plain = f.is_exact_instance_of::<PyFunction>()
            && crate::runtime::slots::instance_dict(f)?.is_empty();
        self.names = if plain {
            Names::Code(f.getattr(intern!(f.py(), "__code__"))?.unbind())
        } else {
            Names::Known(argument_names(f, self.trees.len())?)
        };
        Ok(())
    }
}

/// Something in an argument that can carry no derivative although one may be asked for.
struct Loss {
    argument: usize,
    /// Whether nothing in the argument can.
    is_whole: bool,
    /// Arrays of other libraries in it, and what a path has to them behind the name of the argument.
    foreign: Vec<(Py<PyAny>, String)>,
}

impl Loss {
    fn of(
        i: usize,
        argument: &Argument,
        foreign: &[Py<PyAny>],
        py: Python<'_>,
    ) -> PyResult<Option<Loss>> {
        let foreign = foreign[argument.foreign.clone()].iter();
        let foreign: Vec<_> = foreign
            .filter_map(|o| {
                let path = argument.tree.path_of(o, "", py).transpose()?;
                Some(path.map(|path| (o.clone_ref(py), path)))
            })
            .collect::<PyResult<_>>()?;
        Ok((argument.is_lost || !foreign.is_empty()).then_some(Loss {
            argument: i,
            is_whole: argument.is_lost,
            foreign,
        }))
    }
}

/// Refuses arguments that are asked for and can have no gradient: None never says that.
fn refuse_losses(
    f: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    losses: &[Loss],
    asked: &[bool],
    request: Request<'_, '_>,
) -> PyResult<()> {
    let mut names = None;
    for loss in losses.iter().filter(|l| asked[l.argument]) {
        let names = match &names {
            Some(names) => names,
            None => names.insert(argument_names(f, args.len())?),
        };
        let name = &names[loss.argument];
        for (object, path) in &loss.foreign {
            let is_argument = path.is_empty();
            let path = format!("{name}{path}");
            refuse(object.bind(f.py()), &path, is_argument, request)?;
        }
        if loss.is_whole {
            refuse(&args.get_item(loss.argument)?, name, true, request)?;
        }
    }
    Ok(())
}

/// The error for one of them, unless it is allowed.
fn refuse(
    object: &Bound<'_, PyAny>,
    path: &str,
    is_argument: bool,
    request: Request<'_, '_>,
) -> PyResult<()> {
    let told = hooks::ARGUMENT_REFUSAL.get(object.py())?.call1((
        request.operation,
        path,
        object,
        is_argument,
        request.allow_int,
    ))?;
    if told.is_none() {
        return Ok(());
    }
    let message: String = told.extract()?;
    Err(NotDifferentiableError::new_err(message))
}
