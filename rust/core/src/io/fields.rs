//! Numbers and texts in a row of bytes that may be anything.

use super::damaged;
use crate::error::Result;

/// The bytes of a section that have not been read yet.
#[derive(Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    /// The bytes of a section of this name.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes, what }
    }

    /// The next so many bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(count) else {
            return Err(damaged(format_args!("{} ends too early", self.what)));
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    /// A number of one byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// A number of two bytes.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of eight bytes that is a length or an index here.
    pub fn size(&mut self) -> Result<usize> {
        let n = self.u64()?;
        usize::try_from(n).map_err(|_| damaged(format_args!("{} has the length {n}", self.what)))
    }

    /// How many things of at least so many bytes each follow: not more than there are bytes for.
    pub fn count(&mut self, bytes: usize) -> Result<usize> {
        let n = self.u32()? as usize;
        if n > self.rest.len() / bytes {
            return Err(damaged(format_args!(
                "{} ends before the {n} entries that it announces",
                self.what
            )));
        }
        Ok(n)
    }

    /// A text, behind its length.
    pub fn text(&mut self) -> Result<&'a str> {
        let count = self.count(1)?;
        std::str::from_utf8(self.bytes(count)?)
            .map_err(|_| damaged(format_args!("{} has a text that is not UTF-8", self.what)))
    }

    /// Nothing must follow.
    pub fn end(self) -> Result<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(damaged(format_args!(
                "{} goes on behind its end",
                self.what
            )))
        }
    }
}

/// Appends a text, behind its length.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a number of entries.
pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}
