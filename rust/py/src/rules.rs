//! Functions with a derivative rule that is written in Python.

use std::cell::{Cell, RefCell};

use cotan::Array;
use cotan::array::{Tracer, UNKNOWN};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::array::{item, wrap};
use crate::convert::Borrow;
use crate::error::OrRaise;
use crate::inputs::rank_of;
use crate::opaque;
use crate::scalar::Operand;
use crate::transforms::isderiving;
use crate::tree::{Flattener, Form, Kind, Position, Tree};

/// Whether anything in a structure is being differentiated.
fn is_active(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut flattener = Flattener::new(Borrow::Call, false, false);
    flattener.flatten(object, Position::Nested, true, "")?;
    Ok(flattener.leaves.iter().any(|l| l.array.is_active()))
}

/// The result of a rule none of whose arguments is being differentiated.
fn constant<'py>(what: &str, name: &str, y: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if isderiving() && is_active(&y)? {
        return Err(PyTypeError::new_err(format!(
            "{what} {name}: the result depends on an array that is being differentiated but is not among \
             its arguments; pass it as one, or hold it constant with ct.dropgrad"
        )));
    }
    Ok(y)
}

/// Keyword arguments of a rule are constants.
fn constants(name: &str, kwargs: &Bound<'_, PyDict>) -> PyResult<()> {
    for (key, value) in kwargs {
        if is_active(&value)? {
            return Err(PyTypeError::new_err(format!(
                "{name}: the keyword argument {key} is being differentiated; keyword arguments of \
                 a rule are constants, so pass it by position, or hold it constant with ct.dropgrad"
            )));
        }
    }
    Ok(())
}

/// What a call looks like without its values.
pub struct Pull {
    pub name: String,
    /// Names of the positional arguments.
    names: Vec<String>,
    pub trees: Vec<Tree>,
    pub kinds: Vec<Kind>,
    pub paths: Vec<String>,
    /// The leaves that are being differentiated.
    pub active: Vec<usize>,
}

/// The arguments of a call, taken apart.
pub struct Call {
    objects: Vec<Py<PyAny>>,
    pub arrays: Vec<Array>,
    pub pull: Pull,
}

impl Call {
    /// Takes arguments apart. What is kept of them lives longer than the call.
    pub fn new(name: &str, args: &Bound<'_, PyTuple>, names: Vec<String>) -> PyResult<Call> {
        Call::borrowing(name, args, names, Borrow::Copy)
    }

    /// The same for a rule, which keeps nothing when nothing is being differentiated.
    fn of_rule(name: &str, args: &Bound<'_, PyTuple>, names: Vec<String>) -> PyResult<Call> {
        let any = is_active(args.as_any())?;
        let borrow = if any { Borrow::Copy } else { Borrow::Call };
        Call::borrowing(name, args, names, borrow)
    }

    fn borrowing(
        name: &str,
        args: &Bound<'_, PyTuple>,
        names: Vec<String>,
        borrow: Borrow,
    ) -> PyResult<Call> {
        let mut flattener = Flattener::new(borrow, true, false);
        let mut trees = Vec::with_capacity(args.len());
        for (arg, name) in args.iter().zip(&names) {
            // A whole number is data: an exponent, an axis.
            trees.push(flattener.flatten(&arg, Position::Nested, true, name)?);
        }
        let (mut arrays, mut kinds, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for leaf in flattener.leaves {
            arrays.push(leaf.array);
            kinds.push(leaf.kind);
            paths.push(leaf.path);
        }
        let active = (0..arrays.len()).filter(|&i| arrays[i].is_active());
        Ok(Call {
            objects: args.iter().map(Bound::unbind).collect(),
            pull: Pull {
                name: name.into(),
                names,
                trees,
                kinds,
                paths,
                active: active.collect(),
            },
            arrays,
        })
    }

    /// The arrays that are being differentiated.
    pub fn sources(&self) -> Vec<Array> {
        let active = self.pull.active.iter();
        active.map(|&i| self.arrays[i].clone()).collect()
    }

    /// Begins to trace it.
    pub fn tracer(&self) -> PyResult<Tracer> {
        let sources = self.sources();
        let labels = self.pull.active.iter().map(|&i| self.pull.paths[i].clone());
        let tracer = Tracer::new(&self.pull.name, &sources.iter().collect::<Vec<_>>());
        Ok(tracer.or_raise()?.labelled(labels.collect()))
    }

    /// The arguments, with these arrays in place of the active leaves. Those that are held constant are as
    /// they came, if `plain` says so; else their arrays are `Array`s too, copied once.
    pub fn arguments<'py>(
        &self,
        py: Python<'py>,
        active: &[Array],
        plain: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let pull = &self.pull;
        let mut objects = Vec::with_capacity(self.arrays.len());
        for (array, &kind) in self.arrays.iter().zip(&pull.kinds) {
            objects.push(match kind {
                Kind::Number => item(py, array)?,
                kind => wrap(py, array.clone(), rank_of(kind))?,
            });
        }
        for (&i, array) in pull.active.iter().zip(active) {
            objects[i] = wrap(py, array.clone(), rank_of(pull.kinds[i]))?;
        }
        let args: Vec<Bound<'py, PyAny>> = (pull.trees.iter().zip(pull.wanted()))
            .zip(&self.objects)
            .map(|((tree, wanted), object)| {
                if wanted || !plain {
                    tree.build(py, &objects)
                } else {
                    Ok(object.bind(py).clone())
                }
            })
            .collect::<PyResult<_>>()?;
        PyTuple::new(py, args)
    }
}

impl Pull {
    /// For each argument, whether a cotangent of it is wanted.
    fn wanted(&self) -> Vec<bool> {
        let mut is_active = vec![false; self.kinds.len()];
        for &i in &self.active {
            is_active[i] = true;
        }
        self.trees.iter().map(|t| t.any(&is_active)).collect()
    }

    /// Calls a pullback, and gives the cotangents of the active leaves.
    pub fn call<'py>(
        &self,
        back: &Bound<'py, PyAny>,
        dy: Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Array>>> {
        let py = back.py();
        let takes: bool = (py.import("cotan._rules")?)
            .call_method1("takes_wanted", (back,))?
            .extract()?;
        let result = if takes {
            let kwargs = PyDict::new(py);
            kwargs.set_item("wanted", PyTuple::new(py, self.wanted())?)?;
            back.call((dy,), Some(&kwargs))
        } else {
            back.call1((dy,))
        };
        let result = result.map_err(|error| unknown(py, "adjoint", &self.name, error))?;
        let count = self.trees.len();
        let entries: Vec<Bound<'py, PyAny>> = match result.cast_exact::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) if count == 1 => vec![result],
            Err(_) => {
                return Err(PyTypeError::new_err(format!(
                    "adjoint {}: its pullback must return a tuple with one cotangent for each of the {count} \
                     positional arguments ({}), not {}",
                    self.name,
                    self.names.join(", "),
                    result.get_type()
                )));
            }
        };
        if entries.len() != count {
            return Err(PyValueError::new_err(format!(
                "adjoint {}: its pullback gave {} cotangents for {count} positional arguments ({}); give one \
                 for each, None for those without one",
                self.name,
                entries.len(),
                self.names.join(", ")
            )));
        }
        let mut cts = vec![None; self.kinds.len()];
        let fill = Fill {
            rule: format!("adjoint {}", self.name),
            what: "cotangent",
            natural: true,
        };
        for ((tree, ct), name) in self.trees.iter().zip(&entries).zip(&self.names) {
            fill.fill(tree, ct, name, &mut cts)?;
        }
        Ok(self.active.iter().map(|&i| cts[i].take()).collect())
    }
}

/// An error that a rule led to: that a value is not known yet is told with the name of the rule.
fn unknown(py: Python<'_>, what: &str, name: &str, error: PyErr) -> PyErr {
    let message = error.value(py).to_string();
    if !message.starts_with(UNKNOWN) {
        return error;
    }
    let named = PyValueError::new_err(format!("{what} {name}: {message}"));
    named.set_cause(py, Some(error));
    named
}

/// Takes cotangents or tangents apart like what they belong to.
pub struct Fill {
    /// Who gave them.
    pub rule: String,
    /// What they are.
    pub what: &'static str,
    /// Whether an instance of an object's own class makes that the natural form of its cotangents.
    pub natural: bool,
}

impl Fill {
    /// Fills in the leaves of `tree` from `given`.
    pub fn fill(
        &self,
        tree: &Tree,
        given: &Bound<'_, PyAny>,
        path: &str,
        out: &mut [Option<Array>],
    ) -> PyResult<()> {
        let py = given.py();
        if given.is_none() {
            return Ok(());
        }
        let wrong = |wanted: &str| self.wrong(given, path, wanted);
        match tree {
            Tree::Leaf(i) => {
                let operand = Operand::of(given)?.ok_or_else(|| wrong("an array or a number"))?;
                out[*i] = Some(operand.array()?);
            }
            // It is data, or the object itself once more; whatever is said of it does not matter.
            Tree::Static(_) | Tree::Back(_) => {}
            Tree::Other(other) => match other.form {
                Form::Const => {}
                Form::Tuple | Form::List => self.row(&other.items, given, path, out)?,
                Form::Dict => {
                    let keys: Vec<_> = other.keys.iter().map(|k| k.bind(py).clone()).collect();
                    self.keyed(&keys, &other.items, given, path, out)?;
                }
                Form::Registered(_) => {
                    let tangent = py.import("cotan._structures")?.getattr("Tangent")?;
                    let fields = if given.is_instance(&tangent)? {
                        given.getattr("_fields")?
                    } else {
                        given.clone()
                    };
                    let keys: Vec<_> = other.keys.iter().map(|k| k.bind(py).clone()).collect();
                    self.keyed(&keys, &other.items, &fields, path, out)?;
                }
            },
            Tree::Tuple(_, items) | Tree::List(items) => self.row(items, given, path, out)?,
            Tree::Dict(items) => {
                let keys: Vec<_> = items.iter().map(|(k, _)| k.bind(py).clone()).collect();
                let items = items.iter().map(|(_, item)| item);
                self.keyed(&keys, items, given, path, out)?;
            }
            Tree::Object(object, items) => {
                let class = object.bind(py).get_type();
                let tangent = py.import("cotan._structures")?.getattr("Tangent")?;
                let own = given.get_type().is(&class);
                let dict = given.cast::<PyDict>();
                if let Ok(dict) = &dict {
                    let names = items.iter().map(|(k, _)| k.bind(py).clone().into_any());
                    self.known(dict, &names.collect::<Vec<_>>(), path)?;
                } else if !own && !given.is_instance(&tangent)? {
                    let class = class.name()?;
                    return Err(wrong(&format!(
                        "a ct.Tangent, a dict of fields or a {class}"
                    )));
                }
                if own && self.natural {
                    remember(&class);
                }
                for (name, item) in items {
                    let name = name.bind(py);
                    let entry = match &dict {
                        Ok(dict) => dict.get_item(name)?,
                        Err(_) => given.getattr_opt(name)?,
                    };
                    if let Some(entry) = entry {
                        self.fill(item, &entry, &format!("{path}.{name}"), out)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn wrong(&self, given: &Bound<'_, PyAny>, path: &str, wanted: &str) -> PyErr {
        PyTypeError::new_err(format!(
            "{}: the {} of {path} must be {wanted}, or None, not {}",
            self.rule,
            self.what,
            given.get_type()
        ))
    }

    /// The entries of a tuple or list.
    fn row(
        &self,
        items: &[Tree],
        given: &Bound<'_, PyAny>,
        path: &str,
        out: &mut [Option<Array>],
    ) -> PyResult<()> {
        let wanted = || {
            let wanted = format!("a tuple or list of {} entries", items.len());
            self.wrong(given, path, &wanted)
        };
        if Operand::of(given).is_ok_and(|o| o.is_some()) && given.len().is_err() {
            return Err(wanted());
        }
        let entries = given.try_iter().map_err(|_| wanted())?;
        let entries: Vec<Bound<'_, PyAny>> = entries.collect::<PyResult<_>>()?;
        if entries.len() != items.len() {
            return Err(PyValueError::new_err(format!(
                "{}: the {} of {path} has {} entries, but {path} has {}",
                self.rule,
                self.what,
                entries.len(),
                items.len()
            )));
        }
        for (i, (item, entry)) in items.iter().zip(&entries).enumerate() {
            self.fill(item, entry, &format!("{path}[{i}]"), out)?;
        }
        Ok(())
    }

    /// The values of a dictionary.
    fn keyed<'a>(
        &self,
        keys: &[Bound<'_, PyAny>],
        items: impl IntoIterator<Item = &'a Tree>,
        given: &Bound<'_, PyAny>,
        path: &str,
        out: &mut [Option<Array>],
    ) -> PyResult<()> {
        let dict = given
            .cast::<PyDict>()
            .map_err(|_| self.wrong(given, path, "a dict"))?;
        self.known(dict, keys, path)?;
        for (key, item) in keys.iter().zip(items) {
            if let Some(entry) = dict.get_item(key)? {
                self.fill(item, &entry, &format!("{path}[{}]", key.repr()?), out)?;
            }
        }
        Ok(())
    }

    /// Refuses keys that the original does not have.
    fn known(
        &self,
        dict: &Bound<'_, PyDict>,
        names: &[Bound<'_, PyAny>],
        path: &str,
    ) -> PyResult<()> {
        for key in dict.keys() {
            let mut found = false;
            for name in names {
                found |= name.eq(&key)?;
            }
            if !found {
                let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                return Err(PyValueError::new_err(format!(
                    "{}: the {} of {path} has an entry {}, but {path} has only: {}",
                    self.rule,
                    self.what,
                    key.repr()?,
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }
}

thread_local! {
    /// Gradient calls that are going on in this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Classes whose own instances a rule gave as cotangents, since the outermost of them began.
    static NATURAL: RefCell<Vec<Py<PyType>>> = const { RefCell::new(Vec::new()) };
}

/// A gradient call, until it is dropped: what classes are natural cotangents is forgotten with the
/// outermost.
pub struct Scope;

impl Scope {
    /// Begins one.
    pub fn enter() -> Scope {
        DEPTH.set(DEPTH.get() + 1);
        Scope
    }

    /// The classes found so far, if any.
    pub fn natural(py: Python<'_>) -> Option<Py<PyTuple>> {
        let classes: Vec<Py<PyType>> =
            NATURAL.with_borrow(|n| n.iter().map(|c| c.clone_ref(py)).collect());
        if classes.is_empty() {
            return None;
        }
        PyTuple::new(py, classes).ok().map(Bound::unbind)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            let classes = NATURAL.take();
            drop(classes);
        }
    }
}

/// A class is its own natural cotangent, in the gradient calls that are going on.
fn remember(class: &Bound<'_, PyType>) {
    if DEPTH.get() == 0 {
        return;
    }
    NATURAL.with_borrow_mut(|known| {
        if !known.iter().any(|c| c.is(class)) {
            known.push(class.clone().unbind());
        }
    });
}

thread_local! {
    /// Classes whose cotangents are being handed out as instances.
    static HANDED_OUT: RefCell<Option<Py<PyTuple>>> = const { RefCell::new(None) };
}

/// Hands cotangents out as instances of these classes, until it is dropped.
pub struct HandOut(Option<Py<PyTuple>>);

impl HandOut {
    /// Begins to.
    pub fn new(classes: Option<Py<PyTuple>>) -> HandOut {
        HandOut(HANDED_OUT.replace(classes))
    }
}

impl Drop for HandOut {
    fn drop(&mut self) {
        let classes = HANDED_OUT.replace(self.0.take());
        drop(classes);
    }
}

/// Whether the cotangent of an instance of this class is another instance.
pub fn is_natural(class: &Bound<'_, PyType>) -> bool {
    HANDED_OUT.with_borrow(|classes| {
        let classes = classes.as_ref().map(|c| c.bind(class.py()));
        classes.is_some_and(|c| c.iter().any(|c| c.is(class)))
    })
}

/// A result taken apart: its structure, the kinds of its leaves, and the leaves.
pub fn taken_apart(y: &Bound<'_, PyAny>) -> PyResult<(Tree, Vec<Kind>, Vec<Array>)> {
    let mut flattener = Flattener::new(Borrow::Copy, false, false);
    let tree = flattener.flatten(y, Position::Nested, true, "")?;
    let (kinds, arrays) = (flattener.leaves.into_iter())
        .map(|leaf| (leaf.kind, leaf.array))
        .unzip();
    Ok((tree, kinds, arrays))
}

/// The results of a call: a structure with the arrays in it.
pub fn results<'py>(
    py: Python<'py>,
    tree: &Tree,
    kinds: &[Kind],
    outs: Vec<Array>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = Vec::with_capacity(outs.len());
    for (out, &kind) in outs.into_iter().zip(kinds) {
        objects.push(wrap(py, out, rank_of(kind))?);
    }
    tree.build(py, &objects)
}

/// Cotangents (or tangents) as the structure that they belong to.
pub fn structured<'py>(
    py: Python<'py>,
    tree: &Tree,
    kinds: &[Kind],
    arrays: &[Option<Array>],
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = Vec::with_capacity(arrays.len());
    for (array, &kind) in arrays.iter().zip(kinds) {
        objects.push(match array {
            Some(array) => Some(wrap(py, array.clone(), rank_of(kind))?),
            None => None,
        });
    }
    let structure = tree.tangents(py, &objects)?;
    Ok(structure.unwrap_or_else(|| py.None().into_bound(py)))
}

/// What a rule returned: a result and what belongs to it.
pub fn pair<'py>(
    name: &str,
    result: &Bound<'py, PyAny>,
    second: &str,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    match result.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok((pair.get_item(0)?, pair.get_item(1)?)),
        other => {
            let got = other.map_or_else(
                |_| result.get_type().to_string(),
                |tuple| format!("a tuple of {}", tuple.len()),
            );
            Err(PyTypeError::new_err(format!(
                "{name}: the rule must return a pair, the result and {second}, not {got}"
            )))
        }
    }
}

/// Result and pullback of a rule.
pub fn with_pullback<'py>(
    name: &str,
    result: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let name = format!("adjoint {name}");
    let (y, back) = pair(&name, result, "its pullback")?;
    if !back.is_callable() {
        return Err(PyTypeError::new_err(format!(
            "{name}: the pullback, the second of what the rule returns, must be callable, not {}",
            back.get_type()
        )));
    }
    Ok((y, back))
}

/// Calls a function that returns its result and its pullback.
#[pyfunction]
pub fn call_adjoint<'py>(
    py: Python<'py>,
    rule: &Bound<'py, PyAny>,
    name: &str,
    names: Vec<String>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    is_opaque: bool,
) -> PyResult<Bound<'py, PyAny>> {
    constants(name, kwargs)?;
    let call = Call::of_rule(name, args, names)?;
    if is_opaque {
        return opaque::call(py, rule, call, kwargs);
    }
    if call.pull.active.is_empty() {
        let (y, _) = with_pullback(name, &rule.call(args, Some(kwargs))?)?;
        return constant("adjoint", name, y);
    }
    let mut tracer = call.tracer()?;
    let args = call.arguments(py, tracer.args(), true)?;
    let (y, back) = with_pullback(name, &rule.call(args, Some(kwargs))?)?;
    let (tree, kinds, outs) = taken_apart(&y)?;
    if outs.is_empty() {
        return Ok(y);
    }
    let cts = tracer.cotangents(outs);
    let dy = structured(py, &tree, &kinds, &cts)?;
    let cts = call.pull.call(&back, dy)?;
    let outs = tracer.reverse(&cts).or_raise()?;
    results(py, &tree, &kinds, outs)
}

/// Calls a function that has a forward rule.
#[pyfunction]
pub fn call_jvp<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rule: &Bound<'py, PyAny>,
    name: &str,
    names: Vec<String>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    constants(name, kwargs)?;
    let call = Call::of_rule(name, args, names)?;
    if call.pull.active.is_empty() {
        return constant("custom_jvp", name, function.call(args, Some(kwargs))?);
    }
    let mut tracer = call.tracer()?;
    let mut tangents: Vec<Option<Array>> = Vec::with_capacity(call.arrays.len());
    for array in &call.arrays {
        let zero = || -> PyResult<Array> {
            let zero = Array::number(array.dtype(), cotan::Number::Float(0.0));
            zero.broadcast_to(array.shape()).or_raise()
        };
        let has = array.dtype().is_inexact();
        tangents.push(if has { Some(zero()?) } else { None });
    }
    for (&i, t) in call.pull.active.iter().zip(tracer.tangents()) {
        tangents[i] = t;
    }
    let structures: Vec<Bound<'py, PyAny>> = (call.pull.trees.iter())
        .map(|tree| structured(py, tree, &call.pull.kinds, &tangents))
        .collect::<PyResult<_>>()?;
    let primals = call.arguments(py, tracer.args(), true)?;
    let result = (rule.call((primals, PyTuple::new(py, structures)?), Some(kwargs)))
        .map_err(|error| unknown(py, "custom_jvp", name, error))?;
    let name = format!("custom_jvp {name}");
    let (y, dy) = pair(&name, &result, "its tangent")?;
    let (tree, kinds, outs) = taken_apart(&y)?;
    let mut found = vec![None; outs.len()];
    let fill = Fill {
        rule: name,
        what: "tangent",
        natural: false,
    };
    fill.fill(&tree, &dy, "the result", &mut found)?;
    let outs = tracer.forward(outs, &found).or_raise()?;
    results(py, &tree, &kinds, outs)
}
