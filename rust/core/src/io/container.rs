//! Header, directory and sections, and the arrays behind them.

use std::io::{Read, Write};
use std::sync::Arc;

use super::arrays::{Entry, Table, aligned};
use super::fields::Fields;
use super::{Kind, Saved, VERSION, damaged, program, source_lines};
use crate::error::{Error, Result};
use crate::kernels::{ALIGN, Storage, Value};
use crate::program::Program;

/// A byte that is no text, the name, and a line's end that is damaged where files are taken for text.
const MAGIC: [u8; 8] = *b"\x89COTAN\r\n";
pub(super) const HEADER: usize = 64;
/// What the header's own checksum covers.
const CHECKED: usize = 60;
/// Bytes of a section's line in the directory.
const LINE: usize = 24;
/// Sections of the container itself.
const OWN: [[u8; 4]; 4] = [*b"INFO", *b"PROG", *b"ARRS", *b"line"];

/// Arrays are written as they lie in memory, so this machine's order of bytes has to be the file's.
fn check_machine() -> Result<()> {
    if cfg!(target_endian = "big") {
        let message =
            "cotan files are little-endian, and this machine is not: they are not supported here";
        return Err(Error::Saved(message.into()));
    }
    Ok(())
}

/// What the first bytes say.
#[derive(Debug)]
pub(super) struct Header {
    kind: Kind,
    /// Length of the file.
    pub file: u64,
    /// Length of everything in front of the arrays.
    pub head: u64,
    sections: usize,
    directory: u32,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.0.to_le_bytes());
        out.extend_from_slice(&VERSION.1.to_le_bytes());
        out.extend_from_slice(&self.kind.tag());
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.head.to_le_bytes());
        out.extend_from_slice(&(self.sections as u32).to_le_bytes());
        out.extend_from_slice(&self.directory.to_le_bytes());
        out.resize(CHECKED, 0);
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Header> {
        check_machine()?;
        if MAGIC.starts_with(bytes) || bytes.starts_with(&MAGIC) && bytes.len() < HEADER {
            return Err(damaged("it was cut short"));
        }
        if !bytes.starts_with(&MAGIC) {
            let message = if bytes.starts_with(b"\x89COTAN") {
                "its line ends were changed on the way; copy it as a binary file"
            } else {
                "it does not begin like one"
            };
            return Err(damaged(message));
        }
        let mut fields = Fields::new("the header", &bytes[MAGIC.len()..]);
        let (major, minor) = (fields.u16()?, fields.u16()?);
        let tag = fields.bytes(4)?;
        let (file, head) = (fields.u64()?, fields.u64()?);
        let (sections, directory) = (fields.u32()? as usize, fields.u32()?);
        let reserved = fields.bytes(CHECKED - 40)?;
        if fields.u32()? != crc32fast::hash(&bytes[..CHECKED]) {
            return Err(damaged("the header is not what was written"));
        }
        // Only now the numbers can be believed.
        if major != VERSION.0 {
            return Err(Error::Saved(format!(
                "the file has version {major}.{minor} of the format, and this version of cotan ({}) reads \
                 {}.x; load it with a version of cotan that knows it",
                env!("CARGO_PKG_VERSION"),
                VERSION.0
            )));
        }
        let kind = Kind::ALL.iter().find(|(_, t)| t == tag).map(|k| k.0);
        let kind = kind.ok_or_else(|| {
            Error::Saved(format!(
                "the file holds a {:?}, which this version of cotan ({}) does not know; load it with a later one",
                String::from_utf8_lossy(tag),
                env!("CARGO_PKG_VERSION")
            ))
        })?;
        let least = (HEADER as u64) + (LINE as u64) * (sections as u64);
        if reserved.iter().any(|&b| b != 0) || head < least || head > file {
            return Err(damaged("the header contradicts itself"));
        }
        Ok(Header {
            kind,
            file,
            head,
            sections,
            directory,
        })
    }
}

fn zeros(bytes: &[u8]) -> Result<()> {
    if bytes.iter().all(|&b| b == 0) {
        return Ok(());
    }
    Err(damaged("there is something between its parts"))
}

impl Saved {
    /// Header, directory and sections, given the table of arrays.
    fn head(&self, table: &mut Table) -> Result<Vec<u8>> {
        check_machine()?;
        let mut sections: Vec<([u8; 4], Vec<u8>)> = vec![
            (*b"INFO", self.writer.clone().into_bytes()),
            (*b"PROG", program::encode(&self.program)?),
        ];
        sections.extend(source_lines::encode(&self.program).map(|bytes| (OWN[3], bytes)));
        sections.extend(self.sections.iter().cloned());
        // Its length is known; what is in it says where the arrays are, which comes of all lengths.
        sections.push((*b"ARRS", vec![0; table.size()]));
        let mut at = (HEADER + LINE * sections.len()) as u64;
        let mut offsets = Vec::with_capacity(sections.len());
        for (_, bytes) in &sections {
            at = aligned(at).ok_or_else(|| damaged("it is too long"))?;
            offsets.push(at);
            at += bytes.len() as u64;
        }
        let head = at;
        let file = table.place(head)?;
        if let Some((_, bytes)) = sections.last_mut() {
            *bytes = table.encode();
        }
        let mut directory = Vec::new();
        for ((tag, bytes), offset) in sections.iter().zip(&offsets) {
            directory.extend_from_slice(tag);
            directory.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
            directory.extend_from_slice(&offset.to_le_bytes());
            directory.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        }
        let header = Header {
            kind: self.kind,
            file,
            head,
            sections: sections.len(),
            directory: crc32fast::hash(&directory),
        };
        let mut out = header.encode();
        out.append(&mut directory);
        for ((_, bytes), offset) in sections.iter().zip(offsets) {
            out.resize(offset as usize, 0);
            out.extend_from_slice(bytes);
        }
        Ok(out)
    }

    /// Everything but the arrays, and the arrays that are different memory, dense: for whoever carries
    /// them by other means, without a copy of those that are dense already. [`Saved::join`] puts them
    /// together again.
    pub fn apart(&self) -> Result<(Vec<u8>, Vec<Value>)> {
        let (mut table, arrays) = Table::of(&self.arrays)?;
        Ok((self.head(&mut table)?, arrays))
    }

    /// What was taken apart. The storages are used as they are; only their lengths are checked.
    pub fn join(head: &[u8], storages: &[Arc<Storage>]) -> Result<Saved> {
        let header = Header::decode(head)?;
        let mut next = storages.iter();
        let saved = Saved::decode(&header, head, |entry, _| {
            let storage = next.next().filter(|s| s.len() == entry.bytes);
            let storage = storage.ok_or_else(|| damaged("an array is missing"))?;
            Ok((Arc::clone(storage), 0))
        })?;
        if next.next().is_some() {
            return Err(damaged("there are more arrays than it uses"));
        }
        Ok(saved)
    }

    /// Writes it.
    pub fn write(&self, to: &mut dyn Write) -> Result<()> {
        let (mut table, arrays) = Table::of(&self.arrays)?;
        for (entry, value) in table.entries.iter_mut().zip(&arrays) {
            let bytes = value.stored().ok_or_else(|| damaged("an array has gaps"))?;
            entry.checksum = crc32fast::hash(bytes);
        }
        let head = self.head(&mut table)?;
        to.write_all(&head)?;
        let mut at = head.len() as u64;
        for (entry, value) in table.entries.iter().zip(&arrays) {
            to.write_all(&[0; ALIGN][..(entry.offset - at) as usize])?;
            to.write_all(value.stored().unwrap_or_default())?;
            at = entry.offset + entry.bytes as u64;
        }
        Ok(())
    }

    /// Reads it from a stream, to its end.
    pub fn read(from: &mut dyn Read) -> Result<Saved> {
        // The length that is announced is not believed: memory grows with what arrives.
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        Saved::read_sized(&mut &bytes[..], bytes.len() as u64)
    }

    /// Reads it from something that is so many bytes long.
    pub(super) fn read_sized(from: &mut dyn Read, length: u64) -> Result<Saved> {
        let mut head = Vec::new();
        from.take(HEADER as u64).read_to_end(&mut head)?;
        let header = Header::decode(&head)?;
        header.check_length(length)?;
        take(from, header.head - HEADER as u64, &mut head)?;
        Saved::decode(&header, &head, |entry, at| {
            let mut pad = Vec::new();
            take(from, entry.offset - at, &mut pad)?;
            zeros(&pad)?;
            let mut summed = Summed {
                from,
                sum: crc32fast::Hasher::new(),
            };
            let storage = Storage::read(entry.bytes, &mut summed)?;
            entry.check(summed.sum.finalize())?;
            Ok((Arc::new(storage), 0))
        })
    }

    /// What foreign memory holds, a file that is mapped into memory, say. Arrays stay there; they are
    /// checked now, and not again should somebody write to them later.
    pub fn mapped(storage: &Arc<Storage>) -> Result<Saved> {
        let bytes = (storage.foreign_bytes())
            .ok_or_else(|| Error::Saved("only foreign memory can be mapped".into()))?;
        let header = Header::decode(bytes)?;
        header.check_length(bytes.len() as u64)?;
        Saved::decode(&header, &bytes[..header.head as usize], |entry, at| {
            let (start, end) = (entry.offset as usize, entry.offset as usize + entry.bytes);
            zeros(&bytes[at as usize..start])?;
            entry.check(crc32fast::hash(&bytes[start..end]))?;
            Ok((Arc::clone(storage), start))
        })
    }

    /// Reads the head, and the arrays as they are supplied: given an entry, and where the part of the file
    /// in front of it ends.
    fn decode(
        header: &Header,
        head: &[u8],
        supply: impl FnMut(&Entry, u64) -> Result<(Arc<Storage>, usize)>,
    ) -> Result<Saved> {
        let sections = Sections::read(header, head)?;
        let writer = String::from_utf8_lossy(sections.get(OWN[0])?).into_owned();
        let mut program = program::decode(sections.get(OWN[1])?, &writer)?;
        if let Some(bytes) = sections.find(OWN[3]) {
            source_lines::decode(bytes, &mut program)?;
        }
        let mut table = Table::decode(sections.get(OWN[2])?)?;
        let offsets: Vec<u64> = table.entries.iter().map(|e| e.offset).collect();
        let file = table.place(header.head)?;
        if file != header.file || table.entries.iter().map(|e| e.offset).ne(offsets) {
            return Err(damaged("its arrays are not where they belong"));
        }
        expect_inputs(&table, &program)?;
        let values = supplied(&table, header.head, supply)?;
        let arrays = table.uses.iter().map(|&e| values[e as usize].clone());
        let others = sections.0.iter().filter(|(tag, _)| !OWN.contains(tag));
        Ok(Saved {
            kind: header.kind,
            writer,
            program,
            arrays: arrays.collect(),
            sections: others.map(|(tag, bytes)| (*tag, bytes.to_vec())).collect(),
        })
    }

    /// Refuses sections that must be understood and are not among these.
    pub fn expect_sections(&self, known: &[[u8; 4]]) -> Result<()> {
        for (tag, _) in &self.sections {
            if !known.contains(tag) && !tag[0].is_ascii_lowercase() {
                return Err(Error::Saved(format!(
                    "the file was saved by version {} of cotan and has a section {:?} that version {} does not \
                     know; load it with a later one",
                    self.writer,
                    String::from_utf8_lossy(tag),
                    env!("CARGO_PKG_VERSION")
                )));
            }
        }
        Ok(())
    }
}

impl Header {
    /// Whether the file is as long as it says.
    fn check_length(&self, length: u64) -> Result<()> {
        if self.file == length {
            return Ok(());
        }
        let how = if length < self.file {
            "cut short"
        } else {
            "continued"
        };
        Err(damaged(format_args!(
            "it was {how}: {length} bytes, where {} were written",
            self.file
        )))
    }
}

impl Entry {
    fn check(&self, checksum: u32) -> Result<()> {
        if checksum == self.checksum {
            return Ok(());
        }
        let shape: Vec<usize> = self.lanes.iter().map(|l| l.len).collect();
        Err(damaged(format_args!(
            "an array of {} {} is not what was written",
            crate::aval::tuple(&shape),
            self.dtype.numpy_name()
        )))
    }
}

/// The sections of a head, in its order.
struct Sections<'a>(Vec<([u8; 4], &'a [u8])>);

impl<'a> Sections<'a> {
    /// Reads the directory; each section is where it belongs, once, and what was written.
    fn read(header: &Header, head: &'a [u8]) -> Result<Sections<'a>> {
        if head.len() as u64 != header.head {
            return Err(damaged("its head is incomplete"));
        }
        let mut end = HEADER + LINE * header.sections;
        let directory = &head[HEADER..end];
        if crc32fast::hash(directory) != header.directory {
            return Err(damaged("the directory is not what was written"));
        }
        let mut fields = Fields::new("the directory", directory);
        let mut sections = Sections(Vec::new());
        for _ in 0..header.sections {
            let mut tag = [0; 4];
            tag.copy_from_slice(fields.bytes(4)?);
            let (checksum, offset, length) = (fields.u32()?, fields.size()?, fields.size()?);
            let section = offset.checked_add(length).and_then(|e| head.get(offset..e));
            let section = section.filter(|_| Some(offset as u64) == aligned(end as u64));
            let name = String::from_utf8_lossy(&tag);
            let section = section.ok_or_else(|| {
                damaged(format_args!("the section {name:?} is not where it belongs"))
            })?;
            zeros(&head[end..offset])?;
            if crc32fast::hash(section) != checksum {
                return Err(damaged(format_args!(
                    "the section {name:?} is not what was written"
                )));
            }
            if sections.find(tag).is_some() {
                return Err(damaged(format_args!("there are two sections {name:?}")));
            }
            sections.0.push((tag, section));
            end = offset + length;
        }
        if end != head.len() {
            return Err(damaged("something follows its sections"));
        }
        Ok(sections)
    }

    fn find(&self, tag: [u8; 4]) -> Option<&'a [u8]> {
        let found = self.0.iter().find(|(t, _)| *t == tag);
        found.map(|(_, bytes)| *bytes)
    }

    /// One that has to be there.
    fn get(&self, tag: [u8; 4]) -> Result<&'a [u8]> {
        let name = String::from_utf8_lossy(&tag);
        (self.find(tag)).ok_or_else(|| damaged(format_args!("the section {name:?} is missing")))
    }
}

/// Refuses arrays that are not what the last inputs of the program are.
fn expect_inputs(table: &Table, program: &Program) -> Result<()> {
    let first = program.num_inputs().checked_sub(table.uses.len());
    let first = first.ok_or_else(|| damaged("there are more values than inputs"))?;
    for (i, &entry) in table.uses.iter().enumerate() {
        let entry = &table.entries[entry as usize];
        let aval = program.aval((first + i) as u32);
        let mut shape = vec![0; entry.lanes.len()];
        for lane in &entry.lanes {
            // Which axes there are is checked when the array is made.
            if let Some(n) = shape.get_mut(lane.axis) {
                *n = lane.len;
            }
        }
        if entry.dtype != aval.dtype || shape != aval.shape.as_slice() {
            return Err(damaged(format_args!(
                "the value of input {} is not {aval}",
                first + i
            )));
        }
    }
    Ok(())
}

/// The arrays, as they are supplied, of a file whose head is so long.
fn supplied(
    table: &Table,
    head: u64,
    mut supply: impl FnMut(&Entry, u64) -> Result<(Arc<Storage>, usize)>,
) -> Result<Vec<Value>> {
    let mut values = Vec::with_capacity(table.entries.len());
    let mut at = head;
    for entry in &table.entries {
        let (storage, offset) = supply(entry, at)?;
        let (dtype, lanes) = (entry.dtype, &entry.lanes);
        values.push(Value::from_stored(dtype, lanes, &storage, offset)?);
        at = entry.offset + entry.bytes as u64;
    }
    Ok(values)
}

/// Appends the next so many bytes.
fn take(from: &mut dyn Read, count: u64, to: &mut Vec<u8>) -> Result<()> {
    if from.take(count).read_to_end(to)? as u64 == count {
        return Ok(());
    }
    Err(damaged("it was cut short"))
}

/// A reader that sums what passes.
struct Summed<'a> {
    from: &'a mut dyn Read,
    sum: crc32fast::Hasher,
}

impl Read for Summed<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        // As much as the cache holds, so that it is summed before it is gone from there.
        let length = to.len().min(256 << 10);
        let count = self.from.read(&mut to[..length])?;
        self.sum.update(&to[..count]);
        Ok(count)
    }
}
