//! Values at chosen places of one piece of memory, which a run divides among its buffers.

use std::sync::Arc;

use super::{Storage, Value};
use crate::aval::{Aval, Strides, row_major};
use crate::error::{Error, Result};

/// Dtype, shape and strides of a value, wherever it lies.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    aval: Aval,
    strides: Strides,
    reach: Reach,
}

/// How far a value reaches: bytes before its first element, and behind the start of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    pub before: usize,
    pub behind: usize,
}

impl Reach {
    /// That of a value.
    pub fn of(value: &Value) -> Reach {
        let size = value.dtype().size();
        let mut reach = Reach {
            before: 0,
            behind: size,
        };
        if value.aval().size() == 0 {
            return Reach {
                before: 0,
                behind: 0,
            };
        }
        for (&n, &stride) in value.shape().iter().zip(value.strides()) {
            let bytes = (n - 1) * stride.unsigned_abs() * size;
            if stride < 0 {
                reach.before += bytes;
            } else {
                reach.behind += bytes;
            }
        }
        reach
    }

    /// Whether a value whose first element is at this place lies inside of a memory.
    pub fn is_inside(self, memory: &Storage, place: usize) -> bool {
        let end = place.checked_add(self.behind);
        self.before <= place && end.is_some_and(|end| end <= memory.len())
    }
}

/// The error of a value that would not lie inside.
pub fn outside() -> Error {
    Error::Program("a place outside of the memory of a run".into())
}

impl Form {
    /// That of a row-major array.
    pub fn dense(aval: Aval) -> Form {
        let reach = Reach {
            before: 0,
            behind: aval.nbytes(),
        };
        Form {
            strides: row_major(&aval.shape),
            aval,
            reach,
        }
    }

    /// That of a value.
    pub fn of(value: &Value) -> Form {
        Form {
            aval: value.aval().clone(),
            strides: Strides::from_slice(value.strides()),
            reach: Reach::of(value),
        }
    }

    /// Its dtype and shape.
    pub fn aval(&self) -> &Aval {
        &self.aval
    }

    /// How far it reaches.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// The value of this form whose first element is at a place. Its contents are written before they are read, as
    /// with [`Value::empty`].
    ///
    /// # Errors
    /// When it does not lie inside of the memory.
    pub fn at(&self, memory: &Arc<Storage>, place: usize) -> Result<Value> {
        if memory.as_remote().is_some() || !self.reach.is_inside(memory, place) {
            return Err(outside());
        }
        // SAFETY: it lies inside.
        Ok(unsafe {
            Value::from_parts(
                self.aval.clone(),
                Strides::from_slice(&self.strides),
                place,
                Arc::clone(memory),
            )
        })
    }
}
