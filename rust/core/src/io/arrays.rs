//! The table of arrays: how each one lies in the file, and which inputs of the program it is.

use super::damaged;
use super::fields::{Fields, put_count};
use super::program::{dtype_code, dtype_from};
use crate::aval::{Aval, DType};
use crate::error::Result;
use crate::kernels::{ALIGN, Lane, Value, stored_bytes};
use crate::util::FastMap;

/// An array of a file.
#[derive(Debug)]
pub(super) struct Entry {
    pub dtype: DType,
    pub lanes: Vec<Lane>,
    pub checksum: u32,
    pub offset: u64,
    pub bytes: usize,
}

/// All arrays of a file.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub entries: Vec<Entry>,
    /// For each of the program's last inputs, its entry.
    pub uses: Vec<u32>,
}

/// The next multiple of the alignment.
pub(super) fn aligned(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(ALIGN as u64)
}

impl Table {
    /// The table for values, and those among them that are different memory, dense. Offsets and checksums
    /// are open.
    pub fn of(values: &[Value]) -> Result<(Table, Vec<Value>)> {
        let mut table = Table::default();
        let mut dense = Vec::new();
        let mut known: FastMap<(usize, &Aval, &[isize]), u32> = FastMap::default();
        for value in values {
            let key = (value.as_ptr() as usize, value.aval(), value.strides());
            if let Some(&entry) = known.get(&key) {
                table.uses.push(entry);
                continue;
            }
            let (stored, lanes) = value.dense()?;
            let entry = table.entries.len() as u32;
            table.entries.push(Entry {
                dtype: value.dtype(),
                bytes: stored_bytes(value.dtype(), &lanes)?,
                lanes,
                checksum: 0,
                offset: 0,
            });
            dense.push(stored);
            table.uses.push(entry);
            known.insert(key, entry);
        }
        Ok((table, dense))
    }

    /// Bytes of the table.
    pub fn size(&self) -> usize {
        let entries = self.entries.iter().map(|e| 16 + 16 * e.lanes.len());
        8 + entries.sum::<usize>() + 4 * self.uses.len()
    }

    /// Gives every array its place behind the head; says where the file ends.
    pub fn place(&mut self, head: u64) -> Result<u64> {
        let too_long = || damaged("it is too long");
        let mut at = head;
        for entry in &mut self.entries {
            entry.offset = aligned(at).ok_or_else(too_long)?;
            at = (entry.offset.checked_add(entry.bytes as u64)).ok_or_else(too_long)?;
        }
        Ok(at)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        put_count(&mut out, self.entries.len());
        for entry in &self.entries {
            out.extend_from_slice(&[dtype_code(entry.dtype), entry.lanes.len() as u8, 0, 0]);
            out.extend_from_slice(&entry.checksum.to_le_bytes());
            out.extend_from_slice(&entry.offset.to_le_bytes());
            for lane in &entry.lanes {
                out.extend_from_slice(&(lane.axis as u32).to_le_bytes());
                out.extend_from_slice(&u32::from(lane.repeated).to_le_bytes());
                out.extend_from_slice(&(lane.len as u64).to_le_bytes());
            }
        }
        put_count(&mut out, self.uses.len());
        for entry in &self.uses {
            out.extend_from_slice(&entry.to_le_bytes());
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Table> {
        let mut fields = Fields::new("the table of arrays", bytes);
        let mut table = Table::default();
        for _ in 0..fields.count(16)? {
            let dtype = dtype_from(fields.u8()?)?;
            let rank = fields.u8()?;
            if fields.u16()? != 0 {
                return Err(damaged(
                    "the table of arrays has something where zeros belong",
                ));
            }
            let (checksum, offset) = (fields.u32()?, fields.u64()?);
            let mut lanes = Vec::new();
            for _ in 0..rank {
                let axis = fields.u32()? as usize;
                let repeated = match fields.u32()? {
                    0 => false,
                    1 => true,
                    _ => return Err(damaged("an axis is neither repeated nor not")),
                };
                let len = fields.size()?;
                lanes.push(Lane {
                    axis,
                    len,
                    repeated,
                });
            }
            table.entries.push(Entry {
                dtype,
                bytes: stored_bytes(dtype, &lanes).map_err(damaged)?,
                lanes,
                checksum,
                offset,
            });
        }
        for _ in 0..fields.count(4)? {
            let entry = fields.u32()?;
            if entry as usize >= table.entries.len() {
                return Err(damaged(format_args!("there is no array {entry}")));
            }
            table.uses.push(entry);
        }
        fields.end()?;
        Ok(table)
    }
}
