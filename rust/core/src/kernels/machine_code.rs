//! Asks the environment whether machine code is made.

use std::sync::OnceLock;

/// When machine code is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The environment variable `COTAN_MACHINE_CODE` is 0.
    Never,
    /// Where it gains something, when the runs before have taken long enough.
    Paid,
    /// Before the first run, even where it gains nothing, for tests: `COTAN_MACHINE_CODE=always`.
    Always,
}

/// What the environment asks for.
pub fn when() -> When {
    static WHEN: OnceLock<When> = OnceLock::new();
    *WHEN.get_or_init(|| match std::env::var("COTAN_MACHINE_CODE").as_deref() {
        Ok("0") => When::Never,
        Ok("always") => When::Always,
        _ => When::Paid,
    })
}
