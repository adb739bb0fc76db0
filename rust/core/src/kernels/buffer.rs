//! Memory: aligned storage, and `Value`, a strided view of it.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::buffer_pool;
use crate::aval::{Aval, DType, Shape, Strides, row_major};
use crate::error::{Error, Result};

/// A block of memory, freed or returned to the pool when dropped.
pub struct Storage {
    ptr: *mut u8,
    bytes: usize,
    owner: Owner,
    copies: OnceLock<Box<Copies>>,
    /// Whether somebody asked for it to be in the memory of the processor.
    placed: AtomicBool,
}

enum Owner {
    /// Allocated here, with this capacity.
    Pool { capacity: usize },
    /// Somebody else's memory, kept alive by this value and never written to.
    Foreign {
        _keep: Box<dyn Any + Send + Sync>,
        borrowed: bool,
    },
    /// Memory of a device, and what it holds, once somebody has read it here.
    Remote {
        memory: Arc<dyn Remote>,
        here: OnceLock<Box<Storage>>,
    },
}

/// Memory of a device: never written to once a value refers to it.
pub trait Remote: Any + Send + Sync + fmt::Debug {
    /// The number of the device.
    fn device(&self) -> u32;
    /// Copies all of it to the memory of the processor, when what writes to it has ended.
    ///
    /// # Errors
    /// When the device is lost, or there is no memory here.
    fn fetch(&self) -> Result<Storage>;
}

/// What a device keeps of memory of the processor, so that it is sent once.
#[derive(Default)]
struct Copies(Mutex<Vec<Arc<dyn Remote>>>);

// SAFETY: a `Storage` is written only through `unsafe` calls whose contract is exclusive access
// (`Value::as_mut_ptr`); shared access is read-only. Foreign owners are `Send + Sync` themselves.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Uninitialised memory of this size.
    pub fn allocate(bytes: usize) -> Result<Storage> {
        let (ptr, capacity) = buffer_pool::take(bytes)?;
        Ok(Storage {
            ptr,
            bytes,
            owner: Owner::Pool { capacity },
            copies: OnceLock::new(),
            placed: AtomicBool::new(false),
        })
    }

    /// Uses memory that `keep` keeps alive. `borrowed` says that its owner may write to it once the
    /// call that lent it has returned, so that whoever keeps a value must copy it.
    ///
    /// # Safety
    /// `ptr` must be valid for reads of `bytes` bytes as long as `keep` lives, and not be written to
    /// in that time, or, if borrowed, until the call that lent it returns.
    pub unsafe fn foreign(
        ptr: *const u8,
        bytes: usize,
        keep: Box<dyn Any + Send + Sync>,
        borrowed: bool,
    ) -> Storage {
        Storage {
            ptr: ptr.cast_mut(),
            bytes,
            owner: Owner::Foreign {
                _keep: keep,
                borrowed,
            },
            copies: OnceLock::new(),
            placed: AtomicBool::new(false),
        }
    }

    /// Memory of a device, of which elements of a dtype take so many bytes here.
    pub fn remote(memory: Arc<dyn Remote>, bytes: usize) -> Storage {
        Storage {
            ptr: std::ptr::null_mut(),
            bytes,
            owner: Owner::Remote {
                memory,
                here: OnceLock::new(),
            },
            copies: OnceLock::new(),
            placed: AtomicBool::new(false),
        }
    }

    /// Start of the block. What lies on a device is fetched.
    ///
    /// # Panics
    /// When that fails: [`Value::bring_here`] gives the error.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        if self.ptr.is_null() {
            return self.fetched();
        }
        self.ptr
    }

    #[cold]
    fn fetched(&self) -> *mut u8 {
        match self.bring_here() {
            Ok(here) => here,
            Err(error) => panic!("{error}"),
        }
    }

    /// Start of the block, once what lies on a device has been fetched.
    fn bring_here(&self) -> Result<*mut u8> {
        let Owner::Remote { memory, here } = &self.owner else {
            return Ok(self.ptr);
        };
        if let Some(here) = here.get() {
            return Ok(here.ptr);
        }
        let fetched = memory.fetch()?;
        if fetched.bytes < self.bytes {
            return Err(Error::Program(format!(
                "a device gave {} bytes of {}",
                fetched.bytes, self.bytes
            )));
        }
        Ok(here.get_or_init(|| Box::new(fetched)).ptr)
    }

    /// The memory of the device that it is.
    pub fn as_remote(&self) -> Option<&Arc<dyn Remote>> {
        match &self.owner {
            Owner::Remote { memory, .. } => Some(memory),
            _ => None,
        }
    }

    /// Whether somebody asked for it to be in the memory of the processor.
    pub fn is_placed(&self) -> bool {
        self.placed.load(Ordering::Relaxed)
    }

    /// Notes that somebody did.
    pub fn set_placed(&self) {
        self.placed.store(true, Ordering::Relaxed);
    }

    /// What a device has of it, if it was sent there before.
    pub fn copy_on(&self, device: u32) -> Option<Arc<dyn Remote>> {
        let copies = self.copies.get()?.0.lock();
        let copies = copies.unwrap_or_else(PoisonError::into_inner);
        copies.iter().find(|c| c.device() == device).cloned()
    }

    /// Keeps what a device has of it, in place of what it had.
    pub fn keep_copy(&self, copy: Arc<dyn Remote>) {
        let copies = self.copies.get_or_init(Box::default).0.lock();
        let mut copies = copies.unwrap_or_else(PoisonError::into_inner);
        copies.retain(|c| c.device() != copy.device());
        copies.push(copy);
    }

    /// Usable bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether the memory is only lent, see [`Storage::foreign`].
    pub fn is_borrowed(&self) -> bool {
        matches!(self.owner, Owner::Foreign { borrowed: true, .. })
    }

    /// Whether the memory belongs to somebody else.
    pub fn is_foreign(&self) -> bool {
        matches!(self.owner, Owner::Foreign { .. })
    }

    /// Whether it is memory of cotan's on the processor: somebody who has the last reference may write to it.
    fn is_ours(&self) -> bool {
        matches!(self.owner, Owner::Pool { .. })
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let Owner::Pool { capacity } = self.owner else {
            return;
        };
        // SAFETY: it was taken with this capacity, and nobody has it any more.
        unsafe { buffer_pool::give(self.ptr, capacity) };
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({} bytes)", self.bytes)
    }
}

/// A Rust type that is the element of some dtype.
pub trait Element: Copy + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),*) => { $(impl Element for $ty { const DTYPE: DType = DType::$dtype; })* };
}
elements!(
    bool => Bool, i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64, u64 => U64,
    half::f16 => F16, half::bf16 => Bf16,
    f32 => F32, f64 => F64, num_complex::Complex<f32> => C64, num_complex::Complex<f64> => C128
);

/// A computed array: dtype, shape, strides and the storage they lie in. Cheap to clone; views of
/// one storage share it. Never changed once it is shared.
#[derive(Debug)]
pub struct Value {
    aval: Aval,
    strides: Strides,
    /// Bytes from the start of the storage to element `[0, 0, ...]`.
    offset: usize,
    storage: Arc<Storage>,
}

impl Clone for Value {
    /// As for an [`Aval`]: plain memory is copied faster than a list is cloned.
    #[inline]
    fn clone(&self) -> Value {
        Value {
            aval: self.aval.clone(),
            strides: Strides::from_slice(&self.strides),
            offset: self.offset,
            storage: Arc::clone(&self.storage),
        }
    }
}

impl Value {
    /// A fresh row-major array with undefined contents.
    pub fn empty(aval: Aval) -> Result<Value> {
        let storage = Storage::allocate(aval.nbytes())?;
        let strides = row_major(&aval.shape);
        Ok(Value {
            aval,
            strides,
            offset: 0,
            storage: Arc::new(storage),
        })
    }

    /// A row-major array with these elements.
    ///
    /// # Panics
    /// When the number of elements is not that of the shape.
    pub fn from_slice<T: Element>(shape: &[usize], elements: &[T]) -> Result<Value> {
        let value = Value::empty(Aval::new(T::DTYPE, shape))?;
        assert_eq!(
            value.aval.size(),
            elements.len(),
            "elements do not fit the shape"
        );
        // SAFETY: the storage is fresh and holds exactly this many elements of this type.
        unsafe {
            std::ptr::copy_nonoverlapping(
                elements.as_ptr(),
                value.as_mut_ptr().cast(),
                elements.len(),
            );
        }
        Ok(value)
    }

    /// A zero-dimensional array.
    pub fn scalar<T: Element>(element: T) -> Result<Value> {
        Value::from_slice(&[], &[element])
    }

    /// A zero-dimensional array of this dtype, with a number converted to it.
    pub fn number(dtype: DType, z: num_complex::Complex<f64>) -> Result<Value> {
        match dtype {
            DType::Bool => Value::scalar(z.re != 0.0 || z.im != 0.0),
            DType::I8 => Value::scalar(z.re as i8),
            DType::U8 => Value::scalar(z.re as u8),
            DType::I16 => Value::scalar(z.re as i16),
            DType::U16 => Value::scalar(z.re as u16),
            DType::I32 => Value::scalar(z.re as i32),
            DType::U32 => Value::scalar(z.re as u32),
            DType::I64 => Value::scalar(z.re as i64),
            DType::U64 => Value::scalar(z.re as u64),
            DType::F16 => Value::scalar(half::f16::from_f64(z.re)),
            DType::Bf16 => Value::scalar(half::bf16::from_f64(z.re)),
            DType::F32 => Value::scalar(z.re as f32),
            DType::F64 => Value::scalar(z.re),
            DType::C64 => Value::scalar(num_complex::Complex::new(z.re as f32, z.im as f32)),
            DType::C128 => Value::scalar(z),
        }
    }

    /// A view of a storage.
    ///
    /// # Safety
    /// Every element that shape and strides (in elements) reach from `offset` (in bytes) must lie
    /// inside the storage, initialised and valid for the dtype (a bool is 0 or 1).
    pub unsafe fn from_parts(
        aval: Aval,
        strides: Strides,
        offset: usize,
        storage: Arc<Storage>,
    ) -> Value {
        Value {
            aval,
            strides,
            offset,
            storage,
        }
    }

    /// The same storage seen with another layout.
    ///
    /// # Safety
    /// As for [`Value::from_parts`]; `byte_shift` is relative to this value's first element.
    #[must_use]
    pub unsafe fn view(&self, shape: Shape, strides: Strides, byte_shift: isize) -> Value {
        Value {
            aval: Aval {
                dtype: self.aval.dtype,
                shape,
            },
            strides,
            offset: self.offset.wrapping_add_signed(byte_shift),
            storage: Arc::clone(&self.storage),
        }
    }

    /// The same memory under another dtype of equal size, to be written anew.
    ///
    /// # Panics
    /// When the sizes differ.
    #[must_use]
    pub fn reinterpreted(&self, dtype: DType) -> Value {
        assert_eq!(
            dtype.size(),
            self.dtype().size(),
            "elements of different sizes"
        );
        Value {
            aval: self.aval.with_dtype(dtype),
            ..self.clone()
        }
    }

    /// Elements of a device's memory, which has `elements` of them, from number `first` on.
    ///
    /// # Errors
    /// When shape and strides reach beyond it.
    pub fn on_device(
        aval: Aval,
        strides: Strides,
        first: usize,
        elements: usize,
        memory: Arc<dyn Remote>,
    ) -> Result<Value> {
        let (mut low, mut high) = (first as i128, first as i128);
        for (&s, &n) in strides.iter().zip(&aval.shape) {
            let reach = s as i128 * (n as i128 - 1);
            low += reach.min(0);
            high += reach.max(0);
        }
        if aval.size() > 0 && (low < 0 || high >= elements as i128) {
            return Err(Error::Program(format!(
                "{aval}: its elements lie outside of the memory of {elements}"
            )));
        }
        let size = aval.dtype.size();
        Ok(Value {
            aval,
            strides,
            offset: first * size,
            storage: Arc::new(Storage::remote(memory, elements * size)),
        })
    }

    /// The stretch of memory from the lowest element to the highest, with whatever lies between them, and the position
    /// of the first element in it, counted in elements; `None` where the stretch is longer than `most` elements.
    pub fn stretch(&self, most: usize) -> Option<(&[u8], usize)> {
        let size = self.dtype().size();
        if self.aval.size() == 0 {
            return Some((&[], 0));
        }
        let (mut low, mut high) = (0isize, 0isize);
        for (&s, &n) in self.strides.iter().zip(&self.aval.shape) {
            let reach = s * (n as isize - 1);
            low += reach.min(0);
            high += reach.max(0);
        }
        let elements = (high - low) as usize + 1;
        if elements > most {
            return None;
        }
        // SAFETY: both ends are elements, which lie inside of the storage; what lies between them does, too. Memory of
        // the pool that was never written to holds arbitrary bytes, which any `u8` may be.
        let bytes = unsafe {
            let start = self.as_ptr().offset(low * size as isize);
            std::slice::from_raw_parts(start, elements * size)
        };
        Some((bytes, low.unsigned_abs()))
    }

    /// Whether the elements lie on a device.
    pub fn is_remote(&self) -> bool {
        self.storage.as_remote().is_some()
    }

    /// The position of the first element in the storage, counted in elements.
    pub fn first(&self) -> usize {
        self.offset / self.dtype().size()
    }

    /// Fetches elements that lie on a device, so that they can be read.
    ///
    /// # Errors
    /// When the device is lost, or there is no memory here.
    pub fn bring_here(&self) -> Result<()> {
        self.storage.bring_here().map(drop)
    }

    /// A number that two values have in common which begin at the same element of the same memory. Nothing is fetched.
    pub fn address(&self) -> usize {
        match self.storage.as_remote() {
            Some(memory) => Arc::as_ptr(memory).cast::<()>() as usize + self.offset,
            None => self.as_ptr() as usize,
        }
    }

    /// Dtype and shape.
    pub fn aval(&self) -> &Aval {
        &self.aval
    }

    /// Dtype.
    pub fn dtype(&self) -> DType {
        self.aval.dtype
    }

    /// Length of every axis.
    pub fn shape(&self) -> &[usize] {
        &self.aval.shape
    }

    /// Strides in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The storage that the elements lie in.
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Address of the first element.
    pub fn as_ptr(&self) -> *const u8 {
        self.storage.as_ptr().wrapping_add(self.offset)
    }

    /// Address of the first element, for writing.
    ///
    /// Writing through it is only allowed while nobody else reads the storage: on a value that
    /// [`Value::empty`] has just made, or on one whose storage is not shared.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.storage.as_ptr().wrapping_add(self.offset)
    }

    /// Whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (&d, &s) in self.aval.shape.iter().zip(&self.strides).rev() {
            if d == 0 {
                return true;
            }
            if d != 1 && s != step {
                return false;
            }
            step *= d as isize;
        }
        true
    }

    /// Whether nothing but this value refers to the storage, so that it may be reused.
    pub fn is_unique(&mut self) -> bool {
        if !self.storage.is_ours() {
            return false;
        }
        match Arc::get_mut(&mut self.storage) {
            Some(storage) => {
                // It may be written to now.
                storage.copies.take();
                true
            }
            None => false,
        }
    }

    /// The element at a position in row-major order, as a view without axes. Both have to be inside,
    /// and the elements contiguous.
    ///
    /// # Panics
    /// When they are not.
    #[must_use]
    pub fn element(&self, at: usize) -> Value {
        assert!(
            self.is_contiguous() && at < self.aval.size(),
            "no element {at} in {}",
            self.aval
        );
        // SAFETY: the element lies inside, as just checked.
        unsafe {
            self.view(
                Shape::new(),
                Strides::new(),
                (at * self.dtype().size()) as isize,
            )
        }
    }

    /// Writes one element in place; false when somebody else refers to the memory, or the elements do
    /// not lie in row-major order.
    pub fn set_element(&mut self, at: usize, z: num_complex::Complex<f64>) -> Result<bool> {
        if !self.is_unique() || !self.is_contiguous() || at >= self.aval.size() {
            return Ok(false);
        }
        let element = Value::number(self.dtype(), z)?;
        let size = self.dtype().size();
        // SAFETY: the element lies inside a storage that nobody else refers to.
        unsafe {
            std::ptr::copy_nonoverlapping(element.as_ptr(), self.as_mut_ptr().add(at * size), size);
        }
        Ok(true)
    }

    /// The elements in row-major order, when they lie so.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if T::DTYPE != self.aval.dtype || !self.is_contiguous() {
            return None;
        }
        // SAFETY: the dtype is that of T, the elements are contiguous and initialised, and nobody
        // writes to a shared storage.
        Some(unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.aval.size()) })
    }

    /// Whether both have the same dtype, shape and elements, bit by bit.
    pub fn same_bits(&self, other: &Value) -> bool {
        self.aval == other.aval && self.bytes_in_order() == other.bytes_in_order()
    }

    /// The bytes of the elements in row-major order, copied where they do not lie so.
    pub fn bytes_in_order(&self) -> Cow<'_, [u8]> {
        if self.is_contiguous() {
            // SAFETY: a contiguous value has this many initialised bytes from its first element on.
            let bytes = unsafe { std::slice::from_raw_parts(self.as_ptr(), self.aval.nbytes()) };
            return Cow::Borrowed(bytes);
        }
        let (shape, size) = (&self.aval.shape, self.aval.dtype.size());
        let mut bytes = Vec::with_capacity(self.aval.nbytes());
        for at in 0..self.aval.size() {
            let (mut rest, mut offset) = (at, 0);
            for (&n, &stride) in shape.iter().zip(self.strides()).rev() {
                offset += (rest % n) as isize * stride;
                rest /= n;
            }
            // SAFETY: this is where the element lies, counted in elements from the first one.
            let element = unsafe {
                std::slice::from_raw_parts(self.as_ptr().offset(offset * size as isize), size)
            };
            bytes.extend_from_slice(element);
        }
        Cow::Owned(bytes)
    }

    /// The only element, as a number; `None` when there are more or none.
    pub fn item(&self) -> Option<num_complex::Complex<f64>> {
        if self.aval.size() != 1 {
            return None;
        }
        let p = self.as_ptr();
        let real = |re: f64| Some(num_complex::Complex::new(re, 0.0));
        // SAFETY: there is one element of the dtype at `p`; foreign memory may be unaligned.
        unsafe {
            match self.aval.dtype {
                DType::Bool | DType::U8 => real(f64::from(p.read())),
                DType::I8 => real(f64::from(p.cast::<i8>().read())),
                DType::I16 => real(f64::from(p.cast::<i16>().read_unaligned())),
                DType::U16 => real(f64::from(p.cast::<u16>().read_unaligned())),
                DType::I32 => real(f64::from(p.cast::<i32>().read_unaligned())),
                DType::U32 => real(f64::from(p.cast::<u32>().read_unaligned())),
                DType::I64 => real(p.cast::<i64>().read_unaligned() as f64),
                DType::U64 => real(p.cast::<u64>().read_unaligned() as f64),
                DType::F16 => real(p.cast::<half::f16>().read_unaligned().to_f64()),
                DType::Bf16 => real(p.cast::<half::bf16>().read_unaligned().to_f64()),
                DType::F32 => real(f64::from(p.cast::<f32>().read_unaligned())),
                DType::F64 => real(p.cast::<f64>().read_unaligned()),
                DType::C64 => {
                    let z = p.cast::<num_complex::Complex<f32>>().read_unaligned();
                    Some(num_complex::Complex::new(f64::from(z.re), f64::from(z.im)))
                }
                DType::C128 => Some(p.cast::<num_complex::Complex<f64>>().read_unaligned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_layout() {
        let v = Value::from_slice(&[2, 3], &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert!(v.is_contiguous());
        // SAFETY: the transposed layout reaches the same six elements.
        let t = unsafe { v.view(Shape::from_slice(&[3, 2]), Strides::from_slice(&[1, 3]), 0) };
        assert!(!t.is_contiguous() && t.as_slice::<f64>().is_none());
        assert_eq!(v.as_slice::<f64>().unwrap()[5], 6.0);
        assert!(v.as_slice::<f32>().is_none());
        assert_eq!(Value::scalar(3i32).unwrap().item().unwrap().re, 3.0);
    }
}
