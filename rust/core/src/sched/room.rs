//! Places in one piece of memory for arrays that are needed one after the other.

use crate::kernels::ALIGN;

/// Places in a memory that is as large as it has to be.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Free blocks by place: where they begin and how many bytes they have.
    free: Vec<(usize, usize)>,
    /// Nothing lies from here on.
    pub end: usize,
}

impl Room {
    /// A place for so many bytes.
    pub fn take(&mut self, bytes: usize) -> usize {
        let bytes = rounded(bytes);
        // The smallest block that is large enough.
        let fitting = (self.free.iter().enumerate()).filter(|(_, (_, size))| *size >= bytes);
        if let Some((i, _)) = fitting.min_by_key(|(_, (_, size))| *size) {
            let (place, size) = self.free[i];
            if size == bytes {
                self.free.remove(i);
            } else {
                self.free[i] = (place + bytes, size - bytes);
            }
            return place;
        }
        let place = self.end;
        self.end += bytes;
        place
    }

    /// Takes a place back.
    pub fn give(&mut self, place: usize, bytes: usize) {
        let (mut place, mut bytes) = (place, rounded(bytes));
        let i = self.free.partition_point(|&(p, _)| p < place);
        if self.free.get(i).is_some_and(|&(p, _)| p == place + bytes) {
            bytes += self.free.remove(i).1;
        }
        if let Some(&(before, size)) = i.checked_sub(1).and_then(|i| self.free.get(i))
            && before + size == place
        {
            self.free.remove(i - 1);
            (place, bytes) = (before, size + bytes);
        }
        let i = self.free.partition_point(|&(p, _)| p < place);
        self.free.insert(i, (place, bytes));
    }
}

fn rounded(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(ALIGN)
}
