//! Keeps a forked child from waiting for ever for a lock that another thread of the parent held.
//!
//! `fork` copies memory but only the calling thread, so everything global is held still while the copy is made.
#![allow(unsafe_code)]

/// Lets every fork hold still what is global.
///
/// The system calls these functions, not the interpreter: other functions that it calls before a fork may give its
/// lock away, to a thread that keeps it and waits for one of cotan's.
#[cfg(unix)]
pub fn watch() {
    use std::any::Any;
    use std::cell::RefCell;
    use std::sync::Once;

    thread_local! {
        static HELD: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }

    extern "C" fn hold() {
        // Where the thread is ending there is no such place any more, and the fork goes on as it is.
        let _ =
            HELD.try_with(|held| held.replace(Some(Box::new(cotan::autodiff::lock_for_fork()))));
    }

    extern "C" fn let_go() {
        let _ = HELD.try_with(RefCell::take);
    }

    static WATCHED: Once = Once::new();
    // SAFETY: the functions have the signature that is asked for, and stay: the interpreter never unloads modules.
    // They take no lock of the system's, and none of cotan's is held by a thread that forks.
    WATCHED.call_once(|| unsafe {
        libc::pthread_atfork(Some(hold), Some(let_go), Some(let_go));
    });
}
