//! Values as bytes that leave the process, and bytes from outside as values.

use std::io::Read;
use std::ptr;
use std::sync::Arc;

use super::{Ctx, Storage, Value, copy};
use crate::aval::{Aval, Axes, DType, Shape, Strides, checked_size};
use crate::error::{Error, Result};

/// An axis of a value, as it lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Which axis of the value this is.
    pub axis: usize,
    /// Its length.
    pub len: usize,
    /// Whether one stretch of memory stands for all of its entries.
    pub repeated: bool,
}

impl Lane {
    /// How many times the memory is as long for it.
    fn stored(&self) -> usize {
        if self.repeated { 1 } else { self.len }
    }
}

/// Bytes that a value needs whose axes lie like this, from the outermost; checked for overflow.
pub fn stored_bytes(dtype: DType, lanes: &[Lane]) -> Result<usize> {
    let stored: Shape = lanes.iter().map(Lane::stored).collect();
    Ok(checked_size("array", &stored)? * dtype.size())
}

impl Value {
    /// The same elements without gaps between them, and how their axes lie, from the outermost. What is
    /// dense already, in whatever order of axes, is not copied; repeated entries stay one.
    pub fn dense(&self) -> Result<(Value, Vec<Lane>)> {
        if let Some(lanes) = self.lanes() {
            return Ok((self.clone(), lanes));
        }
        let cancel = std::sync::atomic::AtomicBool::new(false);
        let value = copy(self, &Ctx::new(&cancel, 1))?;
        let row_major = |(axis, &len)| Lane {
            axis,
            len,
            repeated: false,
        };
        let lanes = value.shape().iter().enumerate().map(row_major).collect();
        Ok((value, lanes))
    }

    /// How the axes lie, when they lie without gaps.
    fn lanes(&self) -> Option<Vec<Lane>> {
        let mut order: Axes = (0..self.shape().len()).collect();
        if !self.is_contiguous() {
            order.sort_by_key(|&axis| std::cmp::Reverse(self.strides()[axis].unsigned_abs()));
        }
        let lane = |&axis: &usize| Lane {
            axis,
            len: self.shape()[axis],
            repeated: self.shape()[axis] > 1 && self.strides()[axis] == 0,
        };
        let lanes: Vec<Lane> = order.iter().map(lane).collect();
        if self.aval().size() == 0 {
            return (lanes.iter().all(|l| !l.repeated)).then_some(lanes);
        }
        let mut step = 1isize;
        for lane in lanes.iter().rev().filter(|l| l.stored() > 1) {
            if self.strides()[lane.axis] != step {
                return None;
            }
            step *= lane.len as isize;
        }
        Some(lanes)
    }

    /// The bytes of a dense value, as they lie in memory.
    pub fn stored(&self) -> Option<&[u8]> {
        let bytes = stored_bytes(self.dtype(), &self.lanes()?).ok()?;
        if bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: the elements lie without gaps from the first one on, strides being positive or zero,
        // and are initialised; nobody writes to a shared storage.
        Some(unsafe { std::slice::from_raw_parts(self.as_ptr(), bytes) })
    }

    /// The value whose elements lie densely in a storage, from a byte on. The storage is used as it is,
    /// unless it is not aligned or of booleans, which are copied.
    pub fn from_stored(
        dtype: DType,
        lanes: &[Lane],
        storage: &Arc<Storage>,
        offset: usize,
    ) -> Result<Value> {
        let wrong = |what: &str| Error::Saved(format!("an array {what}"));
        let bytes = stored_bytes(dtype, lanes)?;
        if offset
            .checked_add(bytes)
            .is_none_or(|end| end > storage.len())
        {
            return Err(wrong("ends behind its memory"));
        }
        let mut shape = Shape::from_elem(0, lanes.len());
        let mut strides = Strides::from_elem(0, lanes.len());
        let mut seen = Axes::new();
        let mut step = 1isize;
        for lane in lanes.iter().rev() {
            if lane.axis >= lanes.len() || seen.contains(&lane.axis) {
                return Err(wrong("has no such axes"));
            }
            seen.push(lane.axis);
            shape[lane.axis] = lane.len;
            if !lane.repeated {
                strides[lane.axis] = step;
                step = step.saturating_mul(lane.len.max(1) as isize);
            }
        }
        checked_size("array", &shape)?;
        let aval = Aval { dtype, shape };
        let address = storage.as_ptr() as usize + offset;
        let unit = dtype.size().min(8);
        if dtype != DType::Bool && address.is_multiple_of(unit) {
            // SAFETY: the elements lie inside the storage, as just checked, whose bytes are all
            // initialised: it is foreign memory, or was filled by `Storage::read`. Any bytes are a
            // number of the dtype.
            return Ok(unsafe { Value::from_parts(aval, strides, offset, Arc::clone(storage)) });
        }
        let own = Storage::allocate(bytes)?;
        // SAFETY: both stretches are of this many bytes, checked above for the one, allocated just now
        // for the other.
        let copied = unsafe {
            ptr::copy_nonoverlapping(storage.as_ptr().add(offset), own.as_ptr(), bytes);
            std::slice::from_raw_parts(own.as_ptr(), bytes)
        };
        if dtype == DType::Bool && copied.iter().any(|&b| b > 1) {
            return Err(wrong("of bools has one that is neither 0 nor 1"));
        }
        // SAFETY: the copy holds the elements from its first byte on, and booleans were checked.
        Ok(unsafe { Value::from_parts(aval, strides, 0, Arc::new(own)) })
    }
}

impl Storage {
    /// Memory filled with the next bytes of a reader.
    pub fn read(bytes: usize, from: &mut dyn Read) -> Result<Storage> {
        let storage = Storage::allocate(bytes)?;
        // SAFETY: the storage is fresh, so nobody else refers to it, and is of this many bytes, which
        // are initialised before a reader sees them.
        let slice = unsafe {
            ptr::write_bytes(storage.as_ptr(), 0, bytes);
            std::slice::from_raw_parts_mut(storage.as_ptr(), bytes)
        };
        from.read_exact(slice)?;
        Ok(storage)
    }

    /// Memory with these bytes.
    pub fn copied(mut bytes: &[u8]) -> Result<Storage> {
        Storage::read(bytes.len(), &mut bytes)
    }

    /// The bytes of memory that belongs to somebody else.
    pub fn foreign_bytes(&self) -> Option<&[u8]> {
        // SAFETY: foreign memory is valid for reads as long as the storage lives, and not written to.
        (self.is_foreign())
            .then(|| unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: &Value) -> Value {
        let (dense, lanes) = value.dense().unwrap();
        let storage = Storage::copied(dense.stored().unwrap()).unwrap();
        Value::from_stored(value.dtype(), &lanes, &Arc::new(storage), 0).unwrap()
    }

    #[test]
    fn dense_layouts_are_kept() {
        let v = Value::from_slice(&[2, 3], &[0i64, 1, 2, 3, 4, 5]).unwrap();
        for view in [
            v.clone(),
            v.transposed(&[1, 0]),
            v.broadcast_to(&[4, 2, 3]),
            v.transposed(&[1, 0]).broadcast_to(&[2, 3, 2]),
        ] {
            let (dense, _) = view.dense().unwrap();
            assert_eq!(dense.as_ptr(), view.as_ptr());
            let again = round_trip(&view);
            assert_eq!(
                (again.aval(), again.strides()),
                (view.aval(), view.strides())
            );
            assert_eq!(again.stored(), view.stored());
        }
        let backwards = v.sliced(&[
            crate::aval::SliceDim {
                start: 1,
                len: 2,
                step: -1,
            },
            crate::aval::SliceDim {
                start: 2,
                len: 2,
                step: -2,
            },
        ]);
        assert!(backwards.stored().is_none());
        assert_eq!(
            round_trip(&backwards).as_slice::<i64>().unwrap(),
            [5, 3, 2, 0]
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let lane = |axis, len, repeated| Lane {
            axis,
            len,
            repeated,
        };
        let storage = Arc::new(Storage::copied(&[0, 1, 2, 0, 0, 0, 0, 0]).unwrap());
        let make = |dtype, lanes: &[Lane], at| Value::from_stored(dtype, lanes, &storage, at);
        assert!(make(DType::F64, &[], 0).is_ok());
        assert!(make(DType::F64, &[lane(0, 5, true)], 0).is_ok());
        assert!(make(DType::F64, &[lane(0, 0, false)], 0).is_ok());
        assert!(make(DType::F32, &[], 4).is_ok());
        // Not aligned: a copy.
        assert!(make(DType::F32, &[], 3).is_ok());
        assert!(make(DType::F64, &[], 1).is_err());
        assert!(make(DType::F64, &[], usize::MAX).is_err());
        assert!(make(DType::F64, &[lane(0, 2, false)], 0).is_err());
        assert!(make(DType::F64, &[lane(1, 1, false)], 0).is_err());
        assert!(make(DType::F32, &[lane(0, 2, false), lane(0, 1, false)], 0).is_err());
        assert!(
            make(
                DType::F64,
                &[lane(0, usize::MAX, false), lane(1, 8, false)],
                0
            )
            .is_err()
        );
        assert!(
            make(
                DType::F64,
                &[lane(0, usize::MAX, true), lane(1, 8, true)],
                0
            )
            .is_err()
        );
        assert!(make(DType::Bool, &[lane(0, 2, false)], 0).is_ok());
        assert!(make(DType::Bool, &[lane(0, 3, false)], 0).is_err());
    }
}
