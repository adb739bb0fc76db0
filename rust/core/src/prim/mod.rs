//! What a primitive is: one entry of a table, with every field mandatory.
//!
//! A primitive belongs to one of three classes, and its class says what follows by itself:
//! an *elementwise* one states its partial derivatives (shape rule, jvp, vjp and fusion follow), a
//! *linear* one states its transpose (jvp and vjp follow), a *general* one states both rules.
//! Rules emit primitives through [`V`]; they never accumulate, un-broadcast, cast or look at values:
//! the drivers in `transform` do.

mod attributes;
mod batch;
mod infer;
mod literal;
mod params;
mod rule_value;
mod source_location;
mod var;

use std::cell::OnceCell;
use std::fmt;

pub use batch::{Batch, BatchFn, Batching};
pub use literal::LITERAL;
pub use params::{Custom, Host, Params};
pub use rule_value::V;
pub use source_location::{Lines, Place, Site, here, lock_sites, records_lines, set_site_hook};
pub use var::Var;

use crate::aval::{Aval, DType};
use crate::error::{Error, Result};
use crate::kernels::{Ctx, LaidOut, LaneOp, ReduceOp, Value, copy};
pub(crate) use infer::kept;
use infer::{check_arity, infer_elementwise};

/// Computes a primitive. The arguments may be taken out of the slice: one that nobody else refers
/// to may then be written to in place.
pub type CallFn = fn(&Params, &mut [Value], &Aval, &Ctx) -> Result<Value>;
/// Writes the result into memory that is there, row-major and the caller's alone.
pub type WriteFn = fn(&Params, &[Value], &Value, &Ctx) -> Result<()>;
/// Writes the other arguments into the first one, which is contiguous and the caller's alone.
pub type UpdateFn = fn(&Params, &Value, &[Value], &Ctx) -> Result<()>;
/// Works out for short operands of known layout what the kernel does: for what it reads (of an update, all but the array
/// that is changed) and what it writes. `None` where that is not known, or long.
pub type LayOutFn = fn(&Params, &[Value], &Value) -> Option<LaidOut>;
/// The dtype and shape of the result.
pub type InferFn = fn(&str, &Params, &[&Aval]) -> Result<Aval>;
/// The derivative with respect to argument `i`.
///
/// The reverse pass has just written the rule values in `x`, each in two stores. A rule that copies one whole loads both at
/// once, which processors do not forward from stores: it waits until they are in the cache. Products and quotients,
/// of which chains are made, so make the value anew, of its variable.
pub type PartialFn = for<'a, 'e> fn(x: &'a [V<'e>], out: V<'e>, i: usize) -> Partial<'e>;
/// The cotangent of argument `i`, given the cotangent `ct` of the result.
pub type VjpFn = for<'a, 'e> fn(&Rule<'a, 'e>, ct: V<'e>, i: usize) -> V<'e>;
/// The tangent of the result, given the tangents of the arguments (absent where they are zero).
pub type JvpFn = for<'a, 'e> fn(&Rule<'a, 'e>, t: &[Option<V<'e>>]) -> V<'e>;
/// Writes a primitive in terms of others.
pub type LowerFn = for<'a, 'e> fn(x: &'a [V<'e>], params: &Params) -> V<'e>;

/// What a rule sees of the equation it differentiates.
#[derive(Debug)]
pub struct Rule<'a, 'e> {
    /// The arguments.
    pub x: &'a [V<'e>],
    /// The result.
    pub out: V<'e>,
    /// The parameters.
    pub params: &'a Params,
    /// Where arguments begin, for rules that need it of each: found once for all of them.
    pub starts: &'a OnceCell<Vec<usize>>,
}

/// A partial derivative of an elementwise primitive.
#[derive(Debug)]
pub enum Partial<'e> {
    /// Piecewise constant.
    Zero,
    /// The identity.
    One,
    /// The identity with the sign changed.
    MinusOne,
    /// Multiplication by this (its conjugate in the reverse direction).
    Times(V<'e>),
    /// Division by this (its conjugate in the reverse direction).
    Over(V<'e>),
    /// Division by the second and multiplication by minus the first (their conjugates in the reverse
    /// direction). The division comes first: the numerator's cotangent has the same one.
    MinusRatio(V<'e>, V<'e>),
    /// Division by this, which is zero where the function is infinitely steep: a result that has no
    /// influence (its cotangent is 0) passes 0 on there, and not 0 divided by 0.
    Steep(V<'e>),
    /// The identity where the condition equals the flag, zero elsewhere: a mask.
    Where(V<'e>, bool),
    /// Multiplication by the first (its conjugate in the reverse direction) where the second, a condition, holds, zero
    /// elsewhere: a mask.
    TimesWhere(V<'e>, V<'e>),
}

/// A kernel, and how it is run again and again where layouts are known.
#[derive(Debug)]
pub struct Own<F> {
    /// The kernel.
    pub run: F,
    /// The same for memory of known layout; `None` where it takes so long that nothing is saved.
    pub lay_out: Option<LayOutFn>,
}

/// How a primitive is computed.
#[derive(Debug)]
pub enum Kernel {
    /// Elementwise, by a lane function; fused with its neighbours.
    Lane(LaneOp),
    /// Elementwise change of dtype; fused with its neighbours.
    Cast,
    /// A reduction over `Params::Axes`; fused with what produces its input.
    Reduce(ReduceOp),
    /// Another layout of the same memory; `None` when the layout of this input does not allow it
    /// and it must be copied first.
    View(fn(&Params, &Value, &Aval) -> Option<Value>),
    /// Its own loop.
    Call(CallFn),
    /// Its own loop, which writes to memory that is there.
    Write(Own<WriteFn>),
    /// Changes its first argument, or a copy of it.
    Update(Own<UpdateFn>),
    /// A composite, rewritten before it is planned.
    Lower(LowerFn),
}

/// The class of a primitive, with what only this class has to state.
#[derive(Debug)]
pub enum Class {
    /// Acts on each element; arguments broadcast and have one dtype.
    Elementwise {
        /// Dtypes that it takes.
        types: Types,
        /// Its lane function.
        lane: LaneOp,
        /// The inexact dtypes that it takes and gives back, as bits; see [`Prim::keeps`].
        keeps: u16,
        /// Its derivative; `None` when the result is not differentiable (comparisons).
        partials: Option<PartialFn>,
    },
    /// Linear in its inexact arguments.
    Linear {
        /// The result's dtype and shape.
        infer: InferFn,
        /// How it is computed.
        kernel: Kernel,
        /// The transposed map.
        transpose: VjpFn,
        /// How it acts on many examples at once.
        batching: Batching,
    },
    /// Anything else.
    General {
        /// The result's dtype and shape.
        infer: InferFn,
        /// How it is computed.
        kernel: Kernel,
        /// The forward rule; `None` when the result is not differentiable.
        jvp: Option<JvpFn>,
        /// The reverse rule; `None` when the result is not differentiable.
        vjp: Option<VjpFn>,
        /// How it acts on many examples at once.
        batching: Batching,
    },
}

/// The dtypes that an elementwise primitive takes. Where a front end meets others it promotes them
/// first, as NumPy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// Every dtype.
    Any,
    /// Everything but bool.
    Number,
    /// Everything but bool, which becomes int8.
    Power,
    /// Everything but complex numbers.
    Real,
    /// Integers and floats; bool becomes int8.
    RealNumber,
    /// Floats and complex numbers; integers become float64, however short they are.
    Quotient,
    /// Floats and complex numbers; integers become floats.
    Inexact,
    /// Floats; integers become floats.
    Float,
    /// Booleans; everything else is compared with zero.
    Logical,
    /// Bools and integers.
    Integer,
    /// Integers; bool becomes int8.
    IntegerNumber,
    /// Complex numbers (floats are taken as they are and mean no imaginary part).
    Complex,
}

/// What an equation costs to compute again, per element; decides what a pullback keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// A change of layout.
    Free,
    /// An instruction or two.
    Cheap,
    /// A transcendental function or a reduction: tens of instructions.
    Dear,
    /// A matrix product, a sort: more than one pass.
    Heavy,
}

impl Cost {
    /// That of an elementwise operation.
    pub(crate) const fn of(op: LaneOp) -> Cost {
        if op.is_long() {
            Cost::Dear
        } else {
            Cost::Cheap
        }
    }
}

/// The ONNX form of a primitive.
#[derive(Debug, Clone, Copy)]
pub enum Onnx {
    /// This operator, since this opset version.
    Op(&'static str, u32),
    /// A few operators; the exporter knows the recipe of this name.
    Recipe(&'static str),
    /// None, for this reason.
    None(&'static str),
}

/// The WGSL form of an elementwise primitive.
#[derive(Debug, Clone, Copy)]
pub enum Wgsl {
    /// An expression over `{0}`, `{1}`, `{2}`. `{type}` is the type of the arguments: `sin_{type}` is a function that
    /// the backend defines for each type that it has it for.
    Expr(&'static str),
    /// No expression of its own, for this reason.
    None(&'static str),
}

/// Inputs and parameters to test a primitive with.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Shape of each argument and the interval its elements are drawn from.
    pub inputs: Vec<(Vec<usize>, f64, f64)>,
    /// The parameters.
    pub params: Params,
}

/// Where the samples of an entry come from.
#[derive(Debug, Clone, Copy)]
pub enum Samples {
    /// An interval for each argument of an elementwise primitive; shapes follow from its class.
    Intervals(&'static [(f64, f64)]),
    /// Spelled out.
    List(fn() -> Vec<Sample>),
    /// Random arguments do not fit together; the reason.
    None(&'static str),
}

/// One entry of the table.
pub struct PrimDef {
    /// Its name, in programs and in Python.
    pub name: &'static str,
    /// Names of its arguments; the last one ends in `...` when there may be any number of them.
    pub args: &'static [&'static str],
    /// First line: what it computes. The rest: formula, conventions, sources.
    pub doc: &'static str,
    /// Class and rules.
    pub class: Class,
    /// Cost of computing it again.
    pub cost: Cost,
    /// ONNX form.
    pub onnx: Onnx,
    /// WGSL form.
    pub wgsl: Wgsl,
    /// The same in NumPy or `scipy.special`: an expression over `{0}`, `{1}`, ... and the names of parameters; `""`
    /// when they have no such function. A ufunc that is called with the arguments and nothing else is this primitive.
    pub numpy: &'static str,
    /// Test inputs.
    pub samples: Samples,
}

impl fmt::Debug for PrimDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A primitive: a reference to its entry. Compared by identity.
#[derive(Clone, Copy)]
pub struct Prim(pub &'static PrimDef);

impl PartialEq for Prim {
    fn eq(&self, other: &Prim) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Prim {}

impl std::hash::Hash for Prim {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

impl fmt::Debug for Prim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Prim {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The lane function, when the primitive acts elementwise (casts excluded).
    pub fn lane(self) -> Option<LaneOp> {
        match &self.0.class {
            Class::Elementwise { lane, .. } => Some(*lane),
            Class::Linear {
                kernel: Kernel::Lane(lane),
                ..
            }
            | Class::General {
                kernel: Kernel::Lane(lane),
                ..
            } => Some(*lane),
            _ => None,
        }
    }

    /// The ufunc that it is: the module, `np` or `scipy.special`, and the name.
    pub fn ufunc(self) -> Option<(&'static str, &'static str)> {
        if !matches!(self.0.class, Class::Elementwise { .. }) {
            return None;
        }
        let (function, arguments) = self.0.numpy.split_once('(')?;
        let own: Vec<String> = (0..self.0.args.len()).map(|i| format!("{{{i}}}")).collect();
        let with_own = arguments.strip_suffix(')') == Some(&own.join(", "));
        function.rsplit_once('.').filter(|_| with_own)
    }

    /// Whether the result acts element by element, so that it can be fused.
    pub fn is_elementwise(self) -> bool {
        self.lane().is_some() || matches!(self.kernel_ref(), Some(Kernel::Cast))
    }

    /// Whether it acts elementwise on arrays of this inexact dtype, all of them, and has a result of it: most
    /// equations need no other inference.
    #[inline]
    pub fn keeps(self, dtype: DType) -> bool {
        matches!(&self.0.class, Class::Elementwise { keeps, .. } if (*keeps >> dtype as u16) & 1 == 1)
    }

    /// Whether the result is another layout of its input.
    pub fn is_view(self) -> bool {
        matches!(self.kernel_ref(), Some(Kernel::View(_)))
    }

    /// The kernel of a linear or general primitive.
    pub fn kernel_ref(self) -> Option<&'static Kernel> {
        match &self.0.class {
            Class::Elementwise { .. } => None,
            Class::Linear { kernel, .. } | Class::General { kernel, .. } => Some(kernel),
        }
    }

    /// The result of a kernel of its own; `None` for a primitive that has none.
    pub(crate) fn call(
        self,
        params: &Params,
        x: &mut [Value],
        aval: &Aval,
        ctx: &Ctx<'_>,
    ) -> Option<Result<Value>> {
        match self.kernel_ref()? {
            Kernel::Call(call) => Some(call(params, x, aval, ctx)),
            Kernel::Write(write) => Some(written(write.run, params, x, aval, ctx)),
            Kernel::Update(write) => Some(updated(write.run, params, x, ctx)),
            _ => None,
        }
    }

    /// The dtype and shape of the result, or why the arguments do not fit.
    pub fn infer(self, params: &Params, x: &[&Aval]) -> Result<Aval> {
        // Its parameters are what a number is known by, so nothing else may have them.
        if matches!(params, Params::Literal { .. }) && self.name() != "literal" {
            return Err(Error::Program(format!(
                "{}: the parameter value is that of a literal",
                self.name()
            )));
        }
        match &self.0.class {
            Class::Elementwise { types, lane, .. } => infer_elementwise(self.0, *types, *lane, x),
            Class::Linear { infer, .. } | Class::General { infer, .. } => {
                check_arity(self.0, x.len())?;
                infer(self.0.name, params, x)
            }
        }
    }
}

/// The result in fresh memory.
fn written(
    write: WriteFn,
    params: &Params,
    x: &[Value],
    aval: &Aval,
    ctx: &Ctx<'_>,
) -> Result<Value> {
    let out = Value::empty(aval.clone())?;
    write(params, x, &out, ctx)?;
    Ok(out)
}

/// The first argument with the others written into it: itself if nobody else refers to it, else a copy.
fn updated(write: UpdateFn, params: &Params, x: &mut [Value], ctx: &Ctx<'_>) -> Result<Value> {
    let [first, .., last] = x else {
        return Err(Error::Program("an update without an argument".into()));
    };
    let mut base = std::mem::replace(first, last.clone());
    if !(base.is_contiguous() && base.is_unique()) {
        base = copy(&base, ctx)?;
    }
    write(params, &base, &x[1..], ctx)?;
    Ok(base)
}
