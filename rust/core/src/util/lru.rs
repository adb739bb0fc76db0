//! A bounded table of things derived from programs, found by structural hash. Bounded in number and in
//! size, so that ever new shapes do not fill the memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::FastMap;

/// At most this many entries,
const MAX_ENTRIES: usize = 512;
/// with at most this much weight (equations) together.
const MAX_WEIGHT: usize = 1 << 20;
/// What weighs more could not share the table with others, and is not kept.
pub const MAX_KEPT: usize = MAX_WEIGHT / 4;

struct Entry<T> {
    item: Arc<T>,
    weight: usize,
    used: u64,
}

/// The table.
pub struct Lru<T> {
    by_hash: FastMap<u64, Vec<Entry<T>>>,
    /// Hashes in the order in which they were used, with stale entries among them.
    recent: VecDeque<(u64, u64)>,
    clock: u64,
    entries: usize,
    weight: usize,
}

impl<T> Default for Lru<T> {
    fn default() -> Lru<T> {
        Lru {
            by_hash: FastMap::default(),
            recent: VecDeque::new(),
            clock: 0,
            entries: 0,
            weight: 0,
        }
    }
}

impl<T> std::fmt::Debug for Lru<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lru({} entries, weight {})", self.entries, self.weight)
    }
}

impl<T> Lru<T> {
    /// The entry with this hash that is the right one.
    pub fn get(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.clock += 1;
        let clock = self.clock;
        let entry = self
            .by_hash
            .get_mut(&hash)?
            .iter_mut()
            .find(|e| is_it(&e.item))?;
        entry.used = clock;
        let item = Arc::clone(&entry.item);
        self.recent.push_back((hash, clock));
        if self.recent.len() > 8 * MAX_ENTRIES {
            let by_hash = &self.by_hash;
            self.recent.retain(|(hash, used)| {
                by_hash
                    .get(hash)
                    .is_some_and(|entries| entries.iter().any(|e| e.used == *used))
            });
        }
        Some(item)
    }

    /// Adds an entry, at the cost of those that were not used for the longest time, unless it weighs more
    /// than [`MAX_KEPT`].
    pub fn insert(&mut self, hash: u64, item: Arc<T>, weight: usize) {
        if weight > MAX_KEPT {
            return;
        }
        self.entries += 1;
        self.weight += weight;
        self.clock += 1;
        let used = self.clock;
        self.by_hash
            .entry(hash)
            .or_default()
            .push(Entry { item, weight, used });
        self.recent.push_back((hash, used));
        while self.entries > MAX_ENTRIES || self.weight > MAX_WEIGHT {
            let Some((hash, used)) = self.recent.pop_front() else {
                break;
            };
            let Some(entries) = self.by_hash.get_mut(&hash) else {
                continue;
            };
            if let Some(i) = entries.iter().position(|e| e.used == used) {
                self.entries -= 1;
                self.weight -= entries[i].weight;
                entries.swap_remove(i);
            }
            if entries.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first() {
        let mut table = Lru::default();
        for i in 0..2 * MAX_ENTRIES as u64 {
            table.insert(i, Arc::new(i), 1);
            assert!(table.get(0, |&n| n == 0).is_some(), "what is used stays");
        }
        assert_eq!(table.len(), MAX_ENTRIES);
        assert!(table.get(1, |_| true).is_none());
        table.insert(7, Arc::new(7), MAX_WEIGHT);
        assert_eq!(table.len(), MAX_ENTRIES);
    }
}
