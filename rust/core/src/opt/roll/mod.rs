//! Loops that were written out become loops again.
//!
//! A stretch of a program in which the same equations come again and again is a body and what its turns read: the
//! same in all of them, what an earlier turn made, or one of many after the other. Turns are compared one by one; those
//! that differ are left as they are, and those around them are loops by themselves. Results have the same bits.

mod body;
mod find;
mod layouts;
mod owners;
mod regions;
mod sequence;
mod slim;
mod stream;
mod stretch;
mod write;

use crate::error::Result;
use crate::program::Program;

/// Shorter programs are shown, saved and exported as they are.
pub const LONG: usize = 512;
/// How often a program is looked through: each time loops around those that were found are.
const ROUNDS: usize = 8;

/// The program with loops where it repeats itself.
///
/// # Errors
/// When the user stops it, or memory ends.
pub fn roll(program: &Program) -> Result<Program> {
    let mut program = program.clone();
    for _ in 0..ROUNDS {
        match round(&program)? {
            Some(next) => program = next,
            None => break,
        }
    }
    Ok(program)
}

/// The same for long programs; others stay as they are.
///
/// # Errors
/// When the user stops it, or memory ends.
pub fn roll_long(program: Program) -> Result<Program> {
    if program.eqns().len() < LONG {
        return Ok(program);
    }
    roll(&program)
}

/// One look through a program; `None` where it does not repeat itself.
fn round(program: &Program) -> Result<Option<Program>> {
    let stream = stream::Stream::new(program);
    let found = find::stretches(&stream)?;
    let layouts = layouts::Layouts::new(program)?;
    let found = owners::Stretches::new(&stream, found, &layouts);
    if found.all.is_empty() {
        return Ok(None);
    }
    let new = slim::slim(&write::write(&stream, &found, &layouts, roll)?)?;
    if new.eqns().len() >= program.eqns().len() {
        return Ok(None);
    }
    new.debug_verify();
    Ok(Some(new))
}
