//! Programs, with the values of their last inputs, as files: a container that is read without running
//! anything that is in it.
//!
//! `docs/reference/file_format.md` gives the bytes. All numbers are little-endian. A header and a directory are
//! followed by sections, and these by arrays, each at a multiple of 64 bytes and each under a checksum;
//! what is between them is zero. So every bit of a file counts: one that is flipped is an error. What is
//! read is checked before it is used: nothing is allocated that the file does not hold, and a program is
//! verified like any other that comes from outside.
//!
//! [`Saved`] is what a file holds. [`Saved::save`] and [`Saved::load`] are for files,
//! [`Saved::write`] and [`Saved::read`] for streams, [`Saved::apart`] and [`Saved::join`] for whoever
//! carries the arrays by other means.
//!
//! ```
//! use cotan::io::{Kind, Saved};
//! use cotan::kernels::Value;
//! use cotan::Program;
//!
//! let program = Program::parse("program(%0: f64[2], %1: f64[2]) {\n  %2: f64[2] = mul(%0, %1)\n  return %2\n}\n")?;
//! let factor = Value::from_slice(&[2], &[3.0, 4.0])?;
//! let saved = Saved::new(Kind::Program, program, vec![factor]);
//!
//! let mut bytes = Vec::new();
//! saved.write(&mut bytes)?;
//! let again = Saved::read(&mut &bytes[..])?;
//! assert_eq!(again.program, saved.program);
//! assert_eq!(again.arrays[0].as_slice::<f64>(), Some(&[3.0, 4.0][..]));
//!
//! bytes[100] ^= 1;
//! assert!(Saved::read(&mut &bytes[..]).is_err());
//! # Ok::<(), cotan::Error>(())
//! ```

mod arrays;
mod container;
mod fields;
mod file;
mod program;
mod source_lines;

pub use fields::{Fields, put_text};
pub use file::replace;
pub use program::{decode as program_from, encode as program_bytes};
pub use source_lines::{decode as lines_from, encode as line_bytes};

use crate::error::Error;
use crate::kernels::Value;
use crate::program::Program;

/// The version of the format. A reader takes any file of its own major version: what is new in a minor
/// one, it can pass over, or refuses by name.
pub const VERSION: (u16, u16) = (1, 0);

/// What a container holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A program, with values for its last inputs.
    Program,
    /// A pullback: a program from cotangents and residuals to cotangents.
    Pullback,
}

impl Kind {
    /// The kinds, and how they are written.
    const ALL: [(Kind, [u8; 4]); 2] = [(Kind::Program, *b"PROG"), (Kind::Pullback, *b"PULL")];

    fn tag(self) -> [u8; 4] {
        Kind::ALL
            .iter()
            .find(|(k, _)| *k == self)
            .map_or([0; 4], |k| k.1)
    }
}

/// What a container holds: a program, values for its last inputs, and sections for whoever knows them.
#[derive(Debug, Clone)]
pub struct Saved {
    /// What it is.
    pub kind: Kind,
    /// The version of cotan that wrote it.
    pub writer: String,
    /// The program.
    pub program: Program,
    /// Values of its last inputs. Those that are one in memory are stored once.
    pub arrays: Vec<Value>,
    /// Further sections by tag. One whose tag begins with a lower-case letter may be passed over by a
    /// reader that does not know it; others may not.
    pub sections: Vec<([u8; 4], Vec<u8>)>,
}

impl Saved {
    /// A program with values for its last inputs, without further sections.
    pub fn new(kind: Kind, program: Program, arrays: Vec<Value>) -> Saved {
        Saved {
            kind,
            writer: env!("CARGO_PKG_VERSION").into(),
            program,
            arrays,
            sections: Vec::new(),
        }
    }

    /// A further section.
    pub fn section(&self, tag: &[u8; 4]) -> Option<&[u8]> {
        let found = self.sections.iter().find(|(t, _)| t == tag);
        found.map(|(_, bytes)| bytes.as_slice())
    }
}

/// The error about something that is not as it should be.
pub(crate) fn damaged(what: impl std::fmt::Display) -> Error {
    Error::Saved(format!("not a valid cotan file: {what}"))
}
