//! Reads plain arrays and numbers for a replay without taking structures apart.

use cotan::Aval;
use cotan::kernels::Value;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple};
use smallvec::SmallVec;

use crate::ndarray::dtype::descr;
use crate::ndarray::memory::{
    Borrow, copy_elements, exactly, from_ndarray, is_constant, set_number,
};
use crate::prepare::guards::{Spec, same_object};
use crate::runtime::error::OrRaise;
use crate::tree::treedef::{Const, Kind, Tree};

/// What an argument has to be.
enum Wanted {
    Array(Py<PyArrayDescr>, Aval),
    Number,
    /// The same object.
    Same(Py<PyAny>),
}

/// One argument.
struct Slot {
    wanted: Wanted,
    /// Whether it stands in a `const`, where that makes a difference.
    is_constant: Option<bool>,
    /// Its position among what is held constant.
    held: Option<usize>,
}

/// All arguments.
pub struct Quick {
    slots: Vec<Slot>,
}

/// An argument that is an input of the program.
pub enum Input<'py> {
    Array(Bound<'py, PyUntypedArray>),
    Number(f64),
}

impl Quick {
    /// For arguments like these; none if one is of another kind.
    pub fn new(
        py: Python<'_>,
        trees: &[Tree],
        specs: &[Spec],
        is_held: &[bool],
    ) -> PyResult<Option<Quick>> {
        let mut slots = Vec::with_capacity(trees.len());
        let (mut position, mut held) = (0, 0);
        for tree in trees {
            let leaf = match tree {
                Tree::Leaf(i) => *i,
                Tree::Static(object) => {
                    slots.push(Slot {
                        wanted: Wanted::Same(object.clone_ref(py)),
                        is_constant: None,
                        held: None,
                    });
                    continue;
                }
                _ => return Ok(None),
            };
            let spec = &specs[leaf];
            let is_constant = Some(spec.held);
            if let Some(fixed) = &spec.fixed {
                slots.push(Slot {
                    wanted: Wanted::Same(fixed.clone_ref(py)),
                    is_constant,
                    held: None,
                });
                continue;
            }
            let wanted = match spec.kind {
                Kind::NdArray => {
                    Wanted::Array(descr(py, spec.aval.dtype)?.unbind(), spec.aval.clone())
                }
                Kind::Number if spec.aval.dtype == cotan::DType::F64 => Wanted::Number,
                _ => return Ok(None),
            };
            let place = is_held[position].then_some(held);
            held += usize::from(is_held[position]);
            position += 1;
            slots.push(Slot {
                wanted,
                is_constant,
                held: place,
            });
        }
        // What is around the function is constant.
        Ok(is_held[position..]
            .iter()
            .all(|&h| h)
            .then_some(Quick { slots }))
    }

    /// The inputs that are not held constant; none if an argument is not as it has to be, or a constant not
    /// the same. Arguments that are `marked` are constant in every call.
    pub fn read<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        marked: &[bool],
        known: &[Value],
    ) -> PyResult<Option<SmallVec<[Input<'py>; 4]>>> {
        let mut inputs = SmallVec::new();
        if args.len() != self.slots.len() {
            return Ok(None);
        }
        for (i, (slot, arg)) in self.slots.iter().zip(args.iter_borrowed()).enumerate() {
            let inner = (arg.cast_exact::<Const>().ok()).map(|c| c.get().value.bind(py));
            let is_held = inner.is_some() || marked.get(i).is_some_and(|m| *m);
            if slot.is_constant.is_some_and(|wanted| wanted != is_held) {
                return Ok(None);
            }
            let arg = inner.unwrap_or(&arg);
            match &slot.wanted {
                Wanted::Array(descr, aval) => {
                    let Some(array) = exactly(arg, descr, &aval.shape) else {
                        return Ok(None);
                    };
                    if let Some(held) = slot.held {
                        if !is_constant(array, &known[held])? {
                            return Ok(None);
                        }
                        continue;
                    }
                    inputs.push(Input::Array(array.clone()));
                }
                Wanted::Number => match arg.cast_exact::<PyFloat>() {
                    Ok(number) => inputs.push(Input::Number(number.value())),
                    Err(_) => return Ok(None),
                },
                Wanted::Same(object) => {
                    if !same_object(arg, object.bind(py))? {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(inputs))
    }

    /// Writes inputs to where a run reads them; false where one does not lie in row-major order.
    pub fn write(inputs: &[Input<'_>], to: &[Value]) -> bool {
        inputs.len() == to.len()
            && inputs.iter().zip(to).all(|(input, to)| match input {
                Input::Number(number) => set_number(to, *number),
                Input::Array(array) => copy_elements(array, to),
            })
    }

    /// Inputs as values.
    pub fn values(inputs: &[Input<'_>]) -> PyResult<Vec<Value>> {
        let value = |input: &Input<'_>| match input {
            Input::Number(number) => Value::scalar(*number).or_raise(),
            Input::Array(array) => from_ndarray(array, Borrow::Call),
        };
        inputs.iter().map(value).collect()
    }
}
