//! A pointer into memory that the tasks of a kernel write disjoint parts of.

/// A pointer that several threads write disjoint elements through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared<T>(*mut T);

// SAFETY: whoever sends one promises, where it is used, that the threads touch disjoint elements.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Wraps a pointer.
    pub(crate) fn new(p: *mut T) -> Shared<T> {
        Shared(p)
    }

    /// The address `by` elements on.
    pub(crate) fn at(self, by: isize) -> *mut T {
        self.0.wrapping_offset(by)
    }
}
