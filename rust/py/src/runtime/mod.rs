//! What every other folder needs of the interpreter: errors, signals, fork, exit, and values made once.
//!
//! Nothing here knows of arrays.

// Errors and signals.
pub mod error;
pub mod nonfinite_error;
pub mod swallowed_errors;

// Life of the process.
pub mod fork;
pub mod interpreter_exit;

// Values made once and object identity.
pub mod hooks;
pub mod identity;
pub mod once_cell;

// What user code is doing.
pub mod profile;
pub mod recording_state;
pub mod source_line;
