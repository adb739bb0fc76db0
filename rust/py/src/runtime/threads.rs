//! Raises exceptions in other threads, which Python knows by a number.
#![allow(unsafe_code)]

use std::ffi::{c_long, c_ulong};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The number by which Python knows a thread.
#[derive(Clone, Copy, PartialEq)]
pub struct ThreadNumber(c_ulong);

unsafe extern "C" {
    /// Part of the stable ABI, which the bindings leave out.
    fn PyThread_get_thread_ident() -> c_ulong;
}

impl ThreadNumber {
    /// That of the calling thread.
    pub fn here() -> ThreadNumber {
        // SAFETY: any thread may ask.
        ThreadNumber(unsafe { PyThread_get_thread_ident() })
    }

    /// Raises an exception of a class in a thread, at the next instruction of Python code that it comes to. A thread that
    /// has ended is passed over.
    pub fn raise(self, class: &Bound<'_, PyType>) {
        // SAFETY: the thread is attached, and this is a class.
        unsafe { ffi::PyThreadState_SetAsyncExc(self.0 as c_long, class.as_ptr()) };
    }
}
