//! Arrays that are computed when somebody reads them.
//!
//! An [`Array`] refers to an immutable node of the tape: a primitive and its inputs, a
//! dtype and a shape, and, once it has been forced, a value. The tape exists so that ordinary control
//! flow works on values; transforms only see the programs that `close` cuts out of it.

mod application_fast_path;
mod elementwise;
pub(crate) mod force;
#[cfg(feature = "linalg")]
mod linalg;
mod methods;
mod ndarray;
mod place;
mod scalar_fast_path;
mod update;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use elementwise::Operand;
pub use methods::Over;
use num_complex::Complex;

use crate::aval::{Aval, DType, Shape};
use crate::error::Result;
use crate::interrupt::{enough, is_short};
use crate::kernels::{self, Ctx, Value};
use crate::ops;
use crate::prim::{Params, Prim, Site, here};
use crate::program::Program;
use crate::tape::node::{Applied, Inputs, Node, Op, Shared};
pub use crate::tape::{Array, Number};
use crate::tape::{call_once, is_live, keeps_history, recording};
use crate::transform::passes;
use crate::util::FastMap;

/// A chain of this many pending operations outside any recording is computed by itself, so that
/// `x = x + 1` in a long loop needs constant memory.
const MAX_DEPTH: u32 = 4096;

/// How many floats a thread remembers.
const RECENT: usize = 16;

thread_local! {
    static FLOATS: RefCell<[Option<(u64, Array)>; RECENT]> = const { RefCell::new([const { None }; RECENT]) };
}

impl Array {
    /// A constant.
    pub fn constant(value: Value) -> Array {
        Array(Node::known(value))
    }

    /// A number as a zero-dimensional constant.
    pub fn number(dtype: DType, number: Number) -> Array {
        // Rewriting rules know these; any other number is an input of the programs it takes part
        // in, so that a changing step size does not make a new program each time.
        if let Some(n) = number.as_f64()
            && (n == 0.0 && n.is_sign_positive() || n == 1.0 || n == -1.0 || n == 2.0 || n == 0.5)
        {
            let params = Box::new(Params::literal(dtype, n));
            return Array(Node::new(
                Op::Prim(ops::LITERAL),
                Some(params),
                Aval::scalar(dtype),
                Inputs::new(),
                Site::NONE,
            ));
        }
        Array(Node::new(
            Op::Number(number),
            None,
            Aval::scalar(dtype),
            Inputs::new(),
            Site::NONE,
        ))
    }

    /// [`Array::number`] of a float. The same few floats are met over and over in a loop, so each
    /// thread remembers the arrays that it made of the last ones.
    pub fn float(dtype: DType, number: f64) -> Array {
        let bits = number.to_bits();
        // The upper bits tell apart the numbers that people write.
        let slot = (bits >> 45 ^ bits >> 52 ^ dtype as u64) as usize % RECENT;
        FLOATS.with_borrow_mut(|recent| {
            if let Some((known, array)) = &recent[slot]
                && *known == bits
                && array.dtype() == dtype
            {
                return array.clone();
            }
            let array = Array::number(dtype, Number::Float(number));
            recent[slot] = Some((bits, array.clone()));
            array
        })
    }

    /// Records a primitive: checks dtypes and shapes now, computes later.
    pub fn apply(prim: Prim, params: Params, inputs: &[&Array]) -> Result<Array> {
        let aval = match inputs {
            [x] if same_aval(prim, x, 1) => x.0.aval.clone(),
            [x, y] if same_aval(prim, x, 2) && x.0.aval == y.0.aval => x.0.aval.clone(),
            _ => {
                let avals: smallvec::SmallVec<[&Aval; 4]> =
                    inputs.iter().map(|x| x.aval()).collect();
                prim.infer(&params, &avals)?
            }
        };
        let params = if matches!(params, Params::None) {
            None
        } else {
            Some(Box::new(params))
        };
        let mut kept = Inputs::new();
        for &input in inputs {
            kept.push(input.clone());
        }
        Array(Node::new(Op::Prim(prim), params, aval, kept, here())).recorded()
    }

    /// [`Array::apply`] for two arguments that are given up: the commonest operation there is.
    pub fn apply2(prim: Prim, x: Array, y: Array) -> Result<Array> {
        let (a, b) = (&x.0.aval, &y.0.aval);
        // Of one dtype, and of one shape or with a scalar among them: the result is like the larger.
        let fits = a.dtype == b.dtype && same_aval(prim, &x, 2);
        let like_first = a.shape.iter().eq(b.shape.iter()) || b.shape.is_empty();
        if !fits || !(like_first || a.shape.is_empty()) {
            return Array::apply(prim, Params::None, &[&x, &y]);
        }
        Array(Node::of_two(prim, x, y, !like_first)).recorded()
    }

    /// [`Array::apply`] for one argument that is given up.
    pub fn apply1(prim: Prim, x: Array) -> Result<Array> {
        if !same_aval(prim, &x, 1) {
            return Array::apply(prim, Params::None, &[&x]);
        }
        Array(Node::of_one(prim, x)).recorded()
    }

    /// Computes what too much waits behind, and nothing follows; fails when memory has ended.
    #[inline]
    fn recorded(self) -> Result<Array> {
        if is_short() || (self.0.depth > MAX_DEPTH && self.0.tag == 0) {
            return self.looked_after();
        }
        Ok(self)
    }

    /// Apart, since this is rare and every operation goes past it.
    #[cold]
    #[inline(never)]
    fn looked_after(self) -> Result<Array> {
        enough()?;
        if self.0.tag == 0 {
            self.force(&mut || false)?;
        }
        Ok(self)
    }

    /// A program applied to arrays: one array for each of its outputs, each computed only when it is
    /// read, and then without what only the others need.
    ///
    /// A function that the program calls back is called once for all of them, however many runs read them.
    pub fn call(program: &Arc<Program>, inputs: &[Array]) -> Vec<Array> {
        Array::call_applied(program, inputs, None)
    }

    /// The same for a program that is applied more often; `applied` says which outputs have been computed.
    pub(crate) fn call_applied(
        program: &Arc<Program>,
        inputs: &[Array],
        applied: Option<&Arc<Applied>>,
    ) -> Vec<Array> {
        if program.has_calls() {
            let program = Arc::new(call_once::application(program));
            return Node::call(&program, inputs, applied)
                .into_iter()
                .map(Array)
                .collect();
        }
        Node::call(program, inputs, applied)
            .into_iter()
            .map(Array)
            .collect()
    }

    /// What a program that calls back gives, where that is known already: the call is not made again.
    ///
    /// # Panics
    /// When the value has another dtype or shape.
    #[must_use]
    pub fn known_as(self, value: Value) -> Array {
        assert_eq!(
            value.aval(),
            self.aval(),
            "a value of another dtype or shape"
        );
        self.0.set_value(value);
        self
    }

    /// Writes a number into a constant whose value is known, in its own memory when nobody else refers
    /// to it, in a copy otherwise; false for any other array.
    pub fn write_number(&mut self, at: usize, number: Complex<f64>) -> Result<bool> {
        if self.0.tag != 0 || self.value().is_none() {
            return Ok(false);
        }
        if let Some(node) = Shared::get_mut(&mut self.0)
            && node.write_number(at, number)?
        {
            return Ok(true);
        }
        let Some(value) = self.value() else {
            return Ok(false);
        };
        let cancel = AtomicBool::new(false);
        let mut value = kernels::copy(value, &Ctx::new(&cancel, 1))?;
        let is_written = value.set_element(at, number)?;
        *self = Array::constant(value);
        Ok(is_written)
    }

    /// The same values, held constant for every derivative.
    pub fn dropgrad(&self) -> Array {
        if self.0.tag == 0 {
            return self.clone();
        }
        // Nothing passes the primitive itself, where its history has to be kept.
        let tag = if keeps_history(self) { self.tag() } else { 0 };
        Array(Node::detached(ops::DROPGRAD, self, tag))
    }

    /// Whether a recording that is still going on may differentiate it. Booleans and integers
    /// are piecewise constant, so nothing does.
    pub fn is_active(&self) -> bool {
        self.dtype().is_inexact() && self.is_recorded()
    }

    /// Whether it depends on a leaf of a recording that is still going on, whatever its dtype.
    pub fn is_recorded(&self) -> bool {
        self.0.tag != 0 && recording::depends_on_live(self)
    }

    /// Whether a recording that is still going on may find a derivative of it that is not zero: it depends on a
    /// leaf by more than jumps, as those of `floor`.
    pub fn carries_derivative(&self) -> bool {
        if !self.is_active() {
            return false;
        }
        let mut seen: FastMap<u64, ()> = FastMap::default();
        let mut work = vec![self.clone()];
        while let Some(array) = work.pop() {
            let passes_none = array.tag() == 0 || array.is_detached();
            let skipped = passes_none || !array.dtype().is_inexact();
            if skipped || seen.insert(array.id(), ()).is_some() {
                continue;
            }
            let inputs = array.0.inputs();
            match &array.0.op {
                Op::Leaf if is_live(array.tag()) => return true,
                Op::Prim(prim) => {
                    let params = array.0.params.as_deref().unwrap_or(&Params::None);
                    let avals: Vec<&Aval> = inputs.iter().map(Array::aval).collect();
                    let through = (0..inputs.len()).filter(|&i| passes(*prim, params, &avals, i));
                    work.extend(through.map(|i| inputs[i].clone()));
                }
                _ => work.extend(inputs),
            }
        }
        false
    }

    /// In another dtype; itself when it has that dtype.
    pub fn cast(&self, dtype: DType) -> Result<Array> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        if let Op::Number(number) = &self.0.op {
            return Ok(Array::number(dtype, *number));
        }
        if let (Op::Prim(prim), Some(Params::Literal { value, .. })) =
            (&self.0.op, self.0.params.as_deref())
            && *prim == ops::LITERAL
            && value.im == 0.0
            && (dtype.is_inexact() || value.re.fract() == 0.0)
        {
            return Ok(Array::number(dtype, Number::Float(value.re)));
        }
        Array::apply(ops::CAST, Params::DType(dtype), &[self])
    }

    /// In another shape; itself when it has that shape.
    pub fn reshape(&self, shape: &[usize]) -> Result<Array> {
        if self.shape() == shape {
            return Ok(self.clone());
        }
        Array::apply(
            ops::RESHAPE,
            Params::Shape(Shape::from_slice(shape)),
            &[self],
        )
    }

    /// Repeated to a shape; itself when it has that shape.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Array> {
        if self.shape() == shape {
            return Ok(self.clone());
        }
        Array::apply(
            ops::BROADCAST,
            Params::Shape(Shape::from_slice(shape)),
            &[self],
        )
    }
}

/// Whether the result of an elementwise primitive of so many arguments on arrays like this one is like
/// it: the common case, which needs no inference.
fn same_aval(prim: Prim, x: &Array, arguments: usize) -> bool {
    prim.keeps(x.dtype()) && prim.0.args.len() == arguments
}
