//! Memory that is written once and executed then.

/// Machine code that can run.
#[cfg_attr(not(feature = "machine-code"), allow(dead_code))]
#[derive(Debug)]
pub(super) struct Executable {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: nobody writes the memory.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    feature = "machine-code"
))]
impl Executable {
    /// Whether there may be any.
    pub(super) const POSSIBLE: bool = true;

    /// This code; `None` where the system does not allow it.
    pub(super) fn new(code: &[u8]) -> Option<Executable> {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new pages, which nobody else knows of.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), code.len(), access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let executable = Executable {
            at: at.cast(),
            bytes: code.len(),
        };
        // SAFETY: the pages are as long as the code, and it is complete before it can run.
        let is_allowed = unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), executable.at, code.len());
            libc::mprotect(at, code.len(), libc::PROT_READ | libc::PROT_EXEC) == 0
        };
        is_allowed.then_some(executable)
    }

    /// Calls the function at this place.
    ///
    /// # Safety
    /// A function of this signature begins there, and its own contract is kept.
    pub(super) unsafe fn call(
        &self,
        entry: usize,
        table: *const *mut u8,
        locals: *mut u8,
        bytes: usize,
    ) {
        type Function = unsafe extern "sysv64" fn(*const *mut u8, *mut u8, usize);
        // SAFETY: the caller's contract.
        unsafe {
            let function: Function = std::mem::transmute(self.at.add(entry));
            function(table, locals, bytes);
        }
    }
}

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    feature = "machine-code"
))]
impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the pages were mapped in `new`.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    feature = "machine-code"
)))]
impl Executable {
    pub(super) const POSSIBLE: bool = false;

    pub(super) fn new(_code: &[u8]) -> Option<Executable> {
        None
    }

    // As the one that calls.
    #[allow(clippy::unused_self)]
    pub(super) unsafe fn call(
        &self,
        _entry: usize,
        _table: *const *mut u8,
        _locals: *mut u8,
        _bytes: usize,
    ) {
        unreachable!("there is no code")
    }
}
