//! Parameters of an equation: what it needs to know besides its arguments. Plain data, so that
//! programs can be compared, hashed, printed and read back.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use num_complex::Complex;

use super::V;
use crate::aval::{Aval, Axes, DType, Shape, SliceDim, WindowDim, tuple};
use crate::error::Result;
use crate::kernels::Value;
use crate::program::{End, Loop};

/// One call of a function with a derivative rule of its own, given as the equations that it and its rule
/// write. It is lowered before a program is planned, so it is fused and differentiated again like any
/// other.
///
/// A call with several outputs is one object, which an equation for each output refers to. These are
/// differentiated together: what a pullback does may depend on all cotangents at once, as clipping by
/// their joint norm does.
pub trait Custom: Any + Send + Sync {
    /// The name to show.
    fn name(&self) -> &str;
    /// How many outputs it has.
    fn num_outputs(&self) -> usize;
    /// What an output looks like.
    fn infer(&self, x: &[&Aval], output: usize) -> Result<Aval>;
    /// Writes the function: its wanted outputs.
    fn lower<'e>(&self, x: &[V<'e>], wanted: &[bool]) -> Vec<Option<V<'e>>>;
    /// Writes the cotangents of the wanted arguments, given the outputs that are there and their
    /// cotangents (`None` where none arrives); `None` for arguments without influence.
    fn vjp<'e>(
        &self,
        x: &[V<'e>],
        y: &[Option<V<'e>>],
        cts: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>>;
    /// Writes the tangents of the wanted outputs, given those of the arguments (`None` for zero).
    fn jvp<'e>(
        &self,
        x: &[V<'e>],
        t: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>>;
    /// Another call of the same function.
    fn again(&self) -> Arc<dyn Custom>;
    /// The names of what its equations call back.
    fn host_calls(&self) -> Vec<String> {
        Vec::new()
    }
    /// Whether it is done element by element, its arguments being broadcast: so it takes many examples at once.
    fn is_elementwise(&self) -> bool {
        false
    }
    /// A number that is the same for equal functions.
    fn key(&self) -> u64 {
        std::ptr::from_ref(self).cast::<()>() as u64
    }
    /// Whether both write the same equations. By default only when they are one object.
    fn same(&self, other: &dyn Custom) -> bool {
        std::ptr::addr_eq(std::ptr::from_ref(self), std::ptr::from_ref(other))
    }
}

/// A function of another language that a program calls back while it runs, with values.
///
/// It is called on the thread that runs the program, once in a run, in the order of the program among
/// other such calls; not at all when nobody needs what it gives. An object stands for one call, with an
/// equation for each output that is used, and is compared by identity.
pub trait Host: Send + Sync {
    /// The name to show.
    fn name(&self) -> &str;
    /// What the outputs look like.
    fn outputs(&self) -> &[Aval];
    /// Calls it with contiguous values; gives one for each output.
    fn call(&self, x: &[Value]) -> Result<Vec<Value>>;
    /// Its pullback: from the arguments, then a cotangent for each inexact output, to a cotangent for each
    /// inexact argument. The error says why there is none.
    fn derivative(&self, x: &[Aval]) -> Result<Arc<dyn Host>>;
    /// Whether two calls with the same values may be one: it is called for its outputs alone.
    fn is_pure(&self) -> bool {
        false
    }
    /// Whether a call gives what the code that it stands for would give, bit by bit, and the derivatives of that, so that
    /// nothing else has to be called for these.
    fn is_exact(&self) -> bool {
        false
    }
    /// What is called, when this only remembers what it gave.
    fn bare(&self) -> Option<Arc<dyn Host>> {
        None
    }
}

/// Parameters of an equation.
#[derive(Clone)]
pub enum Params {
    /// It has none.
    None,
    /// Axes to reduce over or to flip, or a permutation of them.
    Axes(Axes),
    /// One axis.
    Axis(usize),
    /// An axis to accumulate along, perhaps from its end.
    Scan {
        /// The axis.
        axis: usize,
        /// Whether to start at the end.
        reverse: bool,
    },
    /// Fourier transforms along axes, one after the other.
    Fourier {
        /// The axes.
        axes: Axes,
        /// Whether the exponent is positive.
        inverse: bool,
        /// What everything is multiplied by.
        scale: f64,
    },
    /// A Fourier transform between real numbers and the half of their spectrum that says all.
    RealFourier {
        /// The axis.
        axis: usize,
        /// How many real numbers there are along it.
        length: usize,
        /// Whether frequencies which stand for two count in the other way: see the primitives.
        folded: bool,
        /// What everything is multiplied by.
        scale: f64,
    },
    /// The shape of the result.
    Shape(Shape),
    /// The dtype of the result.
    DType(DType),
    /// A strided region to read.
    Slice(Box<[SliceDim]>),
    /// A strided region of a larger shape to write into.
    Region {
        /// The larger shape.
        shape: Shape,
        /// The region.
        dims: Box<[SliceDim]>,
    },
    /// How a window moves along the last axes.
    Windows(Box<[WindowDim]>),
    /// A known number.
    Literal {
        /// Its dtype.
        dtype: DType,
        /// Its value.
        value: Complex<f64>,
    },
    /// A length.
    Size(usize),
    /// Which side of equal elements a place is on.
    Side {
        /// Behind them, not before.
        right: bool,
    },
    /// How a system of equations is solved.
    System {
        /// With the lower triangle (of the matrix as it is given), not the upper one.
        lower: bool,
        /// With the transposed matrix.
        transposed: bool,
        /// With a diagonal of ones, whatever stands there.
        unit: bool,
    },
    /// An output of a function with a rule of its own.
    Custom {
        /// The call: one object for all of its outputs.
        rule: Arc<dyn Custom>,
        /// Which output this is.
        output: usize,
    },
    /// An output of a function that is called back.
    Host {
        /// The call: one object for all of its outputs.
        call: Arc<dyn Host>,
        /// Which output this is.
        output: usize,
    },
    /// An output of a loop.
    Loop {
        /// What is repeated: equal for all of its outputs.
        of: Arc<Loop>,
        /// Which output this is.
        output: usize,
    },
}

impl Params {
    /// The axes of a reduction, a flip or a permutation.
    pub fn axes(&self) -> &[usize] {
        if let Params::Axes(axes) = self {
            axes
        } else {
            &[]
        }
    }

    /// A literal of this dtype.
    pub fn literal(dtype: DType, value: f64) -> Params {
        Params::Literal {
            dtype,
            value: Complex::new(value, 0.0),
        }
    }

    /// Whether one equation may take the place of two that are equal. Two calls are two, until they are lowered: a rule
    /// may treat each one's cotangent by itself.
    pub(crate) fn may_be_shared(&self) -> bool {
        match self {
            Params::Custom { .. } => false,
            Params::Host { call, .. } => call.is_pure(),
            _ => true,
        }
    }

    /// Which call an equation is an output of, by the address of what is called, and which output.
    pub fn call(&self) -> Option<(usize, usize)> {
        match self {
            Params::Custom { rule, output } => {
                Some((Arc::as_ptr(rule).cast::<()>() as usize, *output))
            }
            Params::Host { call, output } => {
                Some((Arc::as_ptr(call).cast::<()>() as usize, *output))
            }
            Params::Loop { of, output } => Some((Arc::as_ptr(of) as usize, *output)),
            _ => None,
        }
    }

    /// The parameters as they are printed: names and texts.
    pub fn attributes(&self) -> Vec<(&'static str, String)> {
        let dims = |dims: &[SliceDim]| {
            vec![
                ("start", list(dims.iter().map(|d| d.start))),
                ("len", list(dims.iter().map(|d| d.len))),
                ("step", list(dims.iter().map(|d| d.step))),
            ]
        };
        match self {
            Params::None => vec![],
            Params::Axes(axes) => vec![("axes", tuple(axes))],
            Params::Axis(axis) => vec![("axis", axis.to_string())],
            Params::Scan { axis, reverse } => {
                vec![("axis", axis.to_string()), ("reverse", reverse.to_string())]
            }
            Params::Fourier {
                axes,
                inverse,
                scale,
            } => vec![
                ("axes", tuple(axes)),
                ("inverse", inverse.to_string()),
                ("scale", format!("{scale:?}")),
            ],
            Params::RealFourier {
                axis,
                length,
                folded,
                scale,
            } => vec![
                ("axis", axis.to_string()),
                ("length", length.to_string()),
                ("folded", folded.to_string()),
                ("scale", format!("{scale:?}")),
            ],
            Params::Shape(shape) => vec![("shape", tuple(shape))],
            Params::DType(dtype) => vec![("dtype", dtype.to_string())],
            Params::Slice(d) => dims(d),
            Params::Region { shape, dims: d } => {
                let mut out = vec![("shape", tuple(shape))];
                out.extend(dims(d));
                out
            }
            Params::Windows(d) => vec![
                ("size", list(d.iter().map(|d| d.size))),
                ("len", list(d.iter().map(|d| d.len))),
                ("pad", list(d.iter().map(|d| d.pad))),
                ("stride", list(d.iter().map(|d| d.stride))),
                ("dilation", list(d.iter().map(|d| d.dilation))),
                ("expansion", list(d.iter().map(|d| d.expansion))),
            ],
            Params::Literal { dtype, value } => {
                let mut out = vec![
                    ("dtype", dtype.to_string()),
                    ("value", format!("{:?}", value.re)),
                ];
                if dtype.is_complex() {
                    out.push(("imag", format!("{:?}", value.im)));
                }
                out
            }
            Params::Size(n) => vec![("size", n.to_string())],
            Params::Side { right } => vec![("right", right.to_string())],
            Params::System {
                lower,
                transposed,
                unit,
            } => vec![
                ("lower", lower.to_string()),
                ("transposed", transposed.to_string()),
                ("unit", unit.to_string()),
            ],
            Params::Host { call, output } => named(call.name(), *output, call.outputs().len()),
            Params::Custom { rule, output } => named(rule.name(), *output, rule.num_outputs()),
            Params::Loop { of, output } => {
                let mut found = vec![
                    ("length", of.length.to_string()),
                    ("carries", of.carries.to_string()),
                    ("scanned", of.scanned.to_string()),
                    ("reverse", of.reverse.to_string()),
                ];
                match of.end {
                    End::Length => {}
                    End::Count => found.push(("end", "count".into())),
                    End::False => found.push(("end", "false".into())),
                }
                if let Some(budget) = of.budget {
                    found.push(("budget", budget.to_string()));
                }
                found.push(("output", output.to_string()));
                found
            }
        }
    }
}

/// How a call is printed: the output is named when there are several.
fn named(name: &str, output: usize, outputs: usize) -> Vec<(&'static str, String)> {
    // One equation is one line, whatever somebody calls a function.
    let shown = if name.contains(char::is_control) {
        name.escape_debug().to_string()
    } else {
        name.to_string()
    };
    let mut out = vec![("name", shown)];
    if outputs > 1 {
        out.push(("output", output.to_string()));
    }
    out
}

fn list(items: impl Iterator<Item = impl ToString>) -> String {
    let items: Vec<_> = items.map(|i| i.to_string()).collect();
    if items.len() == 1 {
        format!("({},)", items[0])
    } else {
        format!("({})", items.join(", "))
    }
}

impl PartialEq for Params {
    fn eq(&self, other: &Params) -> bool {
        use Params::*;
        match (self, other) {
            (None, None) => true,
            (Axes(a), Axes(b)) => a == b,
            (Axis(a), Axis(b)) | (Size(a), Size(b)) => a == b,
            (
                Scan {
                    axis: a,
                    reverse: r,
                },
                Scan {
                    axis: b,
                    reverse: s,
                },
            ) => a == b && r == s,
            (
                Fourier {
                    axes: a,
                    inverse: i,
                    scale: s,
                },
                Fourier {
                    axes: b,
                    inverse: j,
                    scale: t,
                },
            ) => a == b && i == j && s.to_bits() == t.to_bits(),
            (
                RealFourier {
                    axis: a,
                    length: m,
                    folded: f,
                    scale: s,
                },
                RealFourier {
                    axis: b,
                    length: n,
                    folded: g,
                    scale: t,
                },
            ) => a == b && m == n && f == g && s.to_bits() == t.to_bits(),
            (Shape(a), Shape(b)) => a == b,
            (
                System {
                    lower: a,
                    transposed: b,
                    unit: c,
                },
                System {
                    lower: d,
                    transposed: e,
                    unit: f,
                },
            ) => (a, b, c) == (d, e, f),
            (DType(a), DType(b)) => a == b,
            (Slice(a), Slice(b)) => a == b,
            (Windows(a), Windows(b)) => a == b,
            (Region { shape: a, dims: d }, Region { shape: b, dims: e }) => a == b && d == e,
            // By bits: 0.0 and -0.0 are two literals, and a NaN equals itself.
            (Literal { dtype: a, value: v }, Literal { dtype: b, value: w }) => {
                a == b && v.re.to_bits() == w.re.to_bits() && v.im.to_bits() == w.im.to_bits()
            }
            (Custom { rule: a, output: i }, Custom { rule: b, output: j }) => {
                i == j && (Arc::ptr_eq(a, b) || a.same(&**b))
            }
            (Host { call: a, output: i }, Host { call: b, output: j }) => {
                i == j && Arc::ptr_eq(a, b)
            }
            (Loop { of: a, output: i }, Loop { of: b, output: j }) => {
                i == j && (Arc::ptr_eq(a, b) || a == b)
            }
            _ => false,
        }
    }
}

impl Eq for Params {}

impl Hash for Params {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Params::None => {}
            Params::Axes(a) => a.hash(state),
            Params::Axis(n) | Params::Size(n) => n.hash(state),
            Params::Side { right } => right.hash(state),
            Params::Scan { axis, reverse } => (axis, reverse).hash(state),
            Params::Fourier {
                axes,
                inverse,
                scale,
            } => (axes, inverse, scale.to_bits()).hash(state),
            Params::RealFourier {
                axis,
                length,
                folded,
                scale,
            } => (axis, length, folded, scale.to_bits()).hash(state),
            Params::Shape(s) => s.hash(state),
            Params::System {
                lower,
                transposed,
                unit,
            } => (lower, transposed, unit).hash(state),
            Params::DType(d) => d.hash(state),
            Params::Slice(d) => d.hash(state),
            Params::Windows(d) => d.hash(state),
            Params::Region { shape, dims } => (shape, dims).hash(state),
            Params::Literal { dtype, value } => {
                (dtype, value.re.to_bits(), value.im.to_bits()).hash(state);
            }
            Params::Host { .. } => self.call().hash(state),
            Params::Custom { rule, output } => (rule.key(), output).hash(state),
            Params::Loop { of, output } => (of, output).hash(state),
        }
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes = self.attributes();
        if attributes.is_empty() {
            return Ok(());
        }
        f.write_str("[")?;
        for (i, (key, value)) in attributes.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{key}={value}")?;
        }
        f.write_str("]")
    }
}
