//! Asks the environment whether functions are replayed that nobody has prepared.

use std::sync::atomic::{AtomicU8, Ordering};

/// When functions are replayed.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Never,
    /// After some runs, where that pays.
    Auto,
    /// From the first call on, whatever it is: for tests.
    Always,
}

/// What the environment variable `COTAN_REPLAY` asks for.
pub fn mode() -> Mode {
    static MODE: AtomicU8 = AtomicU8::new(0);
    match MODE.load(Ordering::Relaxed) {
        1 => Mode::Never,
        2 => Mode::Auto,
        3 => Mode::Always,
        _ => {
            let told = std::env::var("COTAN_REPLAY");
            let (number, mode) = match told.as_deref() {
                Ok("0") => (1, Mode::Never),
                Ok("always") => (3, Mode::Always),
                _ => (2, Mode::Auto),
            };
            MODE.store(number, Ordering::Relaxed);
            mode
        }
    }
}
