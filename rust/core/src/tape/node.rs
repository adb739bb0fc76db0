//! Nodes of the tape.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use num_complex::Complex;
use smallvec::SmallVec;
use triomphe::UniqueArc;

use super::application::Application;
pub(crate) use super::application::{Applied, Output};
use crate::aval::{Aval, DType, Shape};
use crate::kernels::Value;
use crate::ops;
use crate::prim::{Params, Prim, Site, here};
use crate::program::Program;

/// A number from outside, not yet in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer or a bool.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number.
    Complex(Complex<f64>),
}

impl Number {
    /// As a float, when that loses nothing.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Number::Int(n) => (n.unsigned_abs() <= 1 << 53).then_some(n as f64),
            Number::Float(x) => Some(x),
            Number::Complex(z) => (z.im == 0.0).then_some(z.re),
        }
    }

    /// As a complex number.
    pub fn as_complex(self) -> Complex<f64> {
        match self {
            Number::Int(n) => Complex::new(n as f64, 0.0),
            Number::Float(x) => Complex::new(x, 0.0),
            Number::Complex(z) => z,
        }
    }

    fn value(self, dtype: DType) -> crate::error::Result<Value> {
        match self {
            Number::Int(n) if dtype == DType::I64 => Value::scalar(n),
            Number::Int(n) if dtype == DType::U64 => Value::scalar(n as u64),
            _ => Value::number(dtype, self.as_complex()),
        }
    }
}

/// What a node is.
pub(crate) enum Op {
    /// A value from outside.
    Known,
    /// A number from outside.
    Number(Number),
    /// A primitive.
    Prim(Prim),
    /// A leaf of a recording (which its tag names): a copy of its input, or of a value from outside.
    Leaf,
    /// One output of a program that was applied.
    Output(Output),
    /// What several outputs of an application have in common: its inputs, kept once for all of them. It has
    /// no value.
    Call(Arc<Application>),
}

/// A node: immutable but for two things, each of which happens once and changes nothing that can be
/// observed: the value arrives, and then an inactive node forgets its inputs.
pub(crate) struct Node {
    pub id: u64,
    pub op: Op,
    /// Boxed, because most nodes have none and every node is moved once.
    pub params: Option<Box<Params>>,
    pub aval: Aval,
    /// The newest recording that it may depend on; 0 for none.
    pub tag: u64,
    /// Length of the longest chain of pending nodes that ends here.
    pub depth: u32,
    /// Whether no derivative passes: what it depends on was detached, or is constant anyway.
    pub cut: bool,
    /// The line that recorded it, where lines are recorded.
    pub site: Site,
    edges: Edges,
    value: OnceLock<Box<Value>>,
}

/// A node that several refer to: without weak references, which nobody has, and whose count would be one more to keep.
pub(crate) type Shared = triomphe::Arc<Node>;

/// A lazily computed array. Cheap to clone; a clone is the same array.
#[derive(Clone)]
pub struct Array(pub(crate) Shared);

impl Array {
    /// Dtype and shape.
    pub fn aval(&self) -> &Aval {
        &self.0.aval
    }

    /// Dtype.
    pub fn dtype(&self) -> DType {
        self.0.aval.dtype
    }

    /// Length of every axis.
    pub fn shape(&self) -> &[usize] {
        &self.0.aval.shape
    }

    /// The value, if it has been computed.
    pub fn value(&self) -> Option<&Value> {
        self.0.value()
    }

    /// The value, if it has been computed. When nobody else has the array, it is given up, so that its
    /// memory may be free to be taken over.
    pub fn into_value(mut self) -> Option<Value> {
        match Shared::get_mut(&mut self.0) {
            Some(node) => node.take_value(),
            None => self.value().cloned(),
        }
    }

    /// Whether it has been computed. Numbers always are.
    pub fn is_forced(&self) -> bool {
        self.value().is_some() || matches!(self.0.op, Op::Number(_))
    }

    /// Whether no derivative passes through it: all that it depends on is constant or was detached, although
    /// its history may be kept (see [`KeepHistory`]).
    pub fn is_detached(&self) -> bool {
        self.0.cut
    }

    /// The newest recording it may depend on; 0 for none.
    pub fn tag(&self) -> u64 {
        self.0.tag
    }

    /// The line that recorded it, where lines were recorded (see [`crate::prim::Lines`]).
    pub fn site(&self) -> Site {
        self.0.site
    }

    /// The name of the output that it is, of a program that was applied.
    pub(crate) fn output_name(&self) -> Arc<str> {
        match &self.0.op {
            Op::Output(output) => {
                Arc::clone(&output.of.program.output_names()[output.index as usize])
            }
            _ => "".into(),
        }
    }

    /// Identity: equal for clones of one array.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The primitive that makes it, when one does.
    pub fn primitive(&self) -> Option<Prim> {
        if let Op::Prim(prim) = self.0.op {
            Some(prim)
        } else {
            None
        }
    }

    /// The real number that it stands for, if it is a literal.
    pub(crate) fn literal(&self) -> Option<f64> {
        match self.0.params.as_deref() {
            Some(Params::Literal { value, .. }) if value.im == 0.0 => Some(value.re),
            _ => None,
        }
    }

    /// Bytes that its value needs.
    pub fn nbytes(&self) -> usize {
        self.0.aval.nbytes()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_forced() {
            "forced"
        } else {
            "pending"
        };
        write!(f, "Array({}, {state})", self.aval())
    }
}

pub(crate) type Inputs = SmallVec<[Array; 2]>;

/// The inputs of a node.
enum Edges {
    /// Those of an active node, which stay.
    Kept(Inputs),
    /// Those of an inactive one, until it is computed.
    Until(Mutex<Inputs>),
}

impl Edges {
    fn get_mut(&mut self) -> &mut Inputs {
        match self {
            Edges::Kept(inputs) => inputs,
            Edges::Until(inputs) => inputs.get_mut().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Ids grow, so they order nodes by creation: inputs come before what is made of them.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// How many arrays have been made so far.
pub fn arrays_made() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// Counts what is as much work as making so many arrays.
pub fn count_arrays(number: u64) {
    NEXT.fetch_add(number, Ordering::Relaxed);
}

fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Node {
    pub fn new(
        op: Op,
        params: Option<Box<Params>>,
        aval: Aval,
        inputs: Inputs,
        site: Site,
    ) -> Shared {
        let (marks, depth) = Node::after(&inputs);
        Node::make(op, params, aval, marks, depth, || inputs, site)
    }

    /// A primitive on two arrays, whose result is like the first or, `like_second`, the other: what loops record most.
    pub fn of_two(prim: Prim, x: Array, y: Array, like_second: bool) -> Shared {
        let (marks, depth) = Node::after([&x, &y]);
        let like = if like_second { &y } else { &x };
        let aval = like.0.aval.clone();
        let inputs = || Inputs::from_buf([x, y]);
        Node::make(Op::Prim(prim), None, aval, marks, depth, inputs, here())
    }

    /// A primitive on one array, whose result is like it.
    pub fn of_one(prim: Prim, x: Array) -> Shared {
        let (marks, depth) = Node::after([&x]);
        let aval = x.0.aval.clone();
        let inputs = || SmallVec::from_iter([x]);
        Node::make(Op::Prim(prim), None, aval, marks, depth, inputs, here())
    }

    /// The tag of what is made of arrays, whether it is cut off, and its depth.
    #[inline(always)]
    fn after<'a>(inputs: impl IntoIterator<Item = &'a Array>) -> ((u64, bool), u32) {
        let mut tag = 0;
        let mut depth = 0;
        let mut cut = true;
        for input in inputs {
            tag = tag.max(input.0.tag);
            cut &= input.0.cut;
            if input.0.value.get().is_none() {
                depth = depth.max(input.0.depth);
            }
        }
        ((tag, cut), depth + 1)
    }

    /// All parts are written where they stay: what is written in pieces and then moved as a whole is waited for.
    #[inline(always)]
    fn make(
        op: Op,
        params: Option<Box<Params>>,
        aval: Aval,
        (tag, cut): (u64, bool),
        depth: u32,
        inputs: impl FnOnce() -> Inputs,
        site: Site,
    ) -> Shared {
        let mut node = UniqueArc::new(const { Node::blank() });
        node.id = next_id();
        node.op = op;
        node.params = params;
        node.aval = aval;
        node.tag = tag;
        node.depth = depth;
        node.cut = cut;
        node.site = site;
        if tag == 0 {
            node.edges = Edges::Until(Mutex::new(inputs()));
        } else {
            node.edges = Edges::Kept(inputs());
        }
        node.shareable()
    }

    /// A node before anything is known of it.
    const fn blank() -> Node {
        Node {
            id: 0,
            op: Op::Known,
            params: None,
            aval: Aval {
                dtype: DType::Bool,
                shape: Shape::new_const(),
            },
            tag: 0,
            depth: 0,
            cut: false,
            site: Site::NONE,
            edges: Edges::Kept(Inputs::new_const()),
            value: OnceLock::new(),
        }
    }

    pub fn known(value: Value) -> Shared {
        Node::known_at(value, Site::NONE)
    }

    /// A value that equations of this site gave.
    pub fn known_at(value: Value, site: Site) -> Shared {
        let aval = value.aval().clone();
        let node = Node::make(Op::Known, None, aval, (0, true), 0, Inputs::new, site);
        node.set_value(value);
        node
    }

    /// A fresh leaf of a recording. It has the value of what it copies, if that is known.
    pub fn leaf(source: &Array, tag: u64) -> Shared {
        let aval = source.0.aval.clone();
        let node = Node::make(
            Op::Leaf,
            None,
            aval,
            (tag, false),
            0,
            || SmallVec::from_iter([source.clone()]),
            Site::NONE,
        );
        if let Some(value) = source.value() {
            node.set_value(value.clone());
        }
        node
    }

    /// A leaf that stands for a value which is not there: a cotangent while a rule is traced.
    pub fn placeholder(aval: Aval, tag: u64) -> Shared {
        Node::make(
            Op::Leaf,
            None,
            aval,
            (tag, false),
            0,
            Inputs::new,
            Site::NONE,
        )
    }

    /// A primitive whose result counts as inactive for recordings newer than a tag.
    pub fn detached(prim: Prim, input: &Array, tag: u64) -> Shared {
        let aval = input.0.aval.clone();
        let depth = if input.0.value.get().is_some() {
            0
        } else {
            input.0.depth
        };
        let node = Node::make(
            Op::Prim(prim),
            None,
            aval,
            (tag, true),
            depth + 1,
            || SmallVec::from_iter([input.clone()]),
            here(),
        );
        if let Some(value) = input.value() {
            node.set_value(value.clone());
        }
        node
    }

    pub fn call(
        program: &Arc<Program>,
        inputs: &[Array],
        applied: Option<&Arc<Applied>>,
    ) -> Vec<Shared> {
        let tag = inputs.iter().map(|a| a.0.tag).max().unwrap_or(0);
        let cut = inputs.iter().all(|a| a.0.cut);
        let pending = inputs.iter().filter(|a| a.value().is_none());
        let depth = pending.map(|a| a.0.depth).max().unwrap_or(0) + 1;
        let application = Application::new(Arc::clone(program), next_id(), applied.cloned());
        let mut shared: Inputs = inputs.iter().cloned().collect();
        let site = here();
        if program.outs().len() > 1 {
            let op = Op::Call(Arc::clone(&application));
            let aval = Aval::scalar(DType::F64);
            let common = Node::make(op, None, aval, (tag, cut), depth, || shared, site);
            shared = SmallVec::from_iter([Array(common)]);
        }
        (program.outs().iter().enumerate())
            .map(|(i, &out)| {
                let op = Op::Output(Output {
                    of: Arc::clone(&application),
                    index: i as u32,
                });
                Node::make(
                    op,
                    None,
                    program.aval(out).clone(),
                    (tag, cut),
                    depth,
                    || shared.clone(),
                    site,
                )
            })
            .collect()
    }

    pub fn value(&self) -> Option<&Value> {
        self.value.get().map(|v| &**v)
    }

    /// The value, given up by a node that nobody reads any more.
    pub fn take_value(&mut self) -> Option<Value> {
        self.value.take().map(|v| *v)
    }

    /// Its inputs, as long as they are needed.
    pub fn inputs(&self) -> Inputs {
        match &self.edges {
            Edges::Kept(inputs) => inputs.clone(),
            Edges::Until(inputs) => inputs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }

    /// The inputs of an active node, which are as old as it is and stay as long.
    pub fn kept_inputs(&self) -> Option<&[Array]> {
        match &self.edges {
            Edges::Kept(inputs) => Some(inputs),
            Edges::Until(_) => None,
        }
    }

    /// The value arrives. Somebody else may have been faster; both values are the same.
    pub fn set_value(&self, value: Value) {
        let _ = self.value.set(Box::new(value));
        if let Op::Output(output) = &self.op {
            output.done();
        }
        if let Edges::Until(inputs) = &self.edges {
            let inputs = mem::take(&mut *inputs.lock().unwrap_or_else(PoisonError::into_inner));
            drop(inputs);
        }
    }

    /// Writes one element of a value from outside in place; false when it is no such value, or somebody
    /// else refers to its memory. It is another value then, so it counts as another node.
    pub fn write_number(&mut self, at: usize, number: Complex<f64>) -> crate::error::Result<bool> {
        if !matches!(self.op, Op::Known) {
            return Ok(false);
        }
        let Some(value) = self.value.get_mut() else {
            return Ok(false);
        };
        let is_written = value.set_element(at, number)?;
        self.id = next_id();
        Ok(is_written)
    }

    /// Makes the value of a number or a literal; says whether it was one.
    pub fn force_number(&self) -> bool {
        let value = match (&self.op, self.params.as_deref()) {
            (Op::Number(number), _) => number.value(self.aval.dtype),
            (Op::Prim(prim), Some(Params::Literal { value, .. })) if *prim == ops::LITERAL => {
                Value::number(self.aval.dtype, *value)
            }
            _ => return false,
        };
        match value {
            Ok(value) => self.set_value(value),
            Err(_) => return false,
        }
        true
    }
}

impl Drop for Node {
    /// A long chain must not be dropped by recursion: each drop would be a frame of the stack.
    fn drop(&mut self) {
        let inputs = self.edges.get_mut();
        // Most inputs have other owners, too, and then there is nothing to walk along.
        while let Some(Array(input)) = inputs.pop() {
            if let Some(mut last) = Shared::into_unique(input) {
                let mut work = mem::take(inputs);
                work.append(last.edges.get_mut());
                return drop_chain(work);
            }
        }
    }
}

/// Drops arrays, with all that only they hold.
#[inline(never)]
fn drop_chain(mut work: Inputs) {
    while let Some(Array(input)) = work.pop() {
        // Moved once only: there may be a million of them.
        if let Some(mut last) = Shared::into_unique(input) {
            while let Some(more) = last.edges.get_mut().pop() {
                work.push(more);
            }
        }
    }
}
