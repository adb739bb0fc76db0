//! Sets of columns by number, so that elements which depend on the same columns share one set.
//!
//! A broadcast sum of a hundred thousand elements has one set of that size and not as many. Arrays hold
//! the numbers of sets as int64, so whatever moves elements moves sets: number 0 is the empty set, and
//! what a padding fills in.

use crate::error::{Error, Result};
use crate::kernels::Value;

/// Most elements of all sets together, and most entries of a pattern: 1 GiB of column numbers.
pub(super) const MOST_ENTRIES: usize = 1 << 28;
/// Elements of sets that may have gone out of use before they are looked for.
const SLACK: usize = 1 << 24;
/// How many times larger a set has to be for the elements of the other to be looked up in it.
const MUCH_LARGER: usize = 16;

/// Sets by number, each in ascending order.
pub(super) struct Sets {
    columns: usize,
    starts: Vec<usize>,
    items: Vec<u32>,
    /// How many items there were when unused sets were last removed.
    kept: usize,
    /// For each column the last union that had it.
    stamps: Vec<u32>,
    stamp: u32,
}

impl Sets {
    /// The empty set, and for each column `c` the set number `c + 1` that has it alone.
    pub fn new(columns: usize) -> Result<Sets> {
        if columns > MOST_ENTRIES {
            return Err(too_many());
        }
        Ok(Sets {
            columns,
            starts: std::iter::once(0).chain(0..=columns).collect(),
            items: (0..columns as u32).collect(),
            kept: columns,
            stamps: vec![0; columns],
            stamp: 0,
        })
    }

    /// How many columns there are.
    pub fn num_columns(&self) -> usize {
        self.columns
    }

    /// The columns of a set.
    #[inline]
    pub fn get(&self, set: i64) -> &[u32] {
        &self.items[self.starts[set as usize]..self.starts[set as usize + 1]]
    }

    /// The number of the union of two sets.
    pub fn union(&mut self, a: i64, b: i64) -> Result<i64> {
        if a == b || b == 0 {
            return Ok(a);
        }
        if a == 0 {
            return Ok(b);
        }
        let (large, small) = if self.get(a).len() >= self.get(b).len() {
            (a, b)
        } else {
            (b, a)
        };
        let (x, y) = (self.get(large), self.get(small));
        if x.len() == self.columns {
            return Ok(large);
        }
        if x.len() / MUCH_LARGER > y.len() && y.iter().all(|c| x.binary_search(c).is_ok()) {
            return Ok(large);
        }
        let (count, mut i, mut j) = (
            x.len(),
            self.starts[large as usize],
            self.starts[small as usize],
        );
        let (i_end, j_end) = (i + count, j + y.len());
        let from = self.items.len();
        self.items.reserve(count + j_end - j);
        while i < i_end && j < j_end {
            let (p, q) = (self.items[i], self.items[j]);
            self.items.push(p.min(q));
            i += usize::from(p <= q);
            j += usize::from(q <= p);
        }
        self.items.extend_from_within(i..i_end);
        self.items.extend_from_within(j..j_end);
        self.closed(from, large, count)
    }

    /// The number of the union of many sets.
    pub fn union_all(&mut self, sets: impl Iterator<Item = i64>) -> Result<i64> {
        let mut sets = sets.filter(|&s| s != 0);
        let Some(first) = sets.next() else {
            return Ok(0);
        };
        let mut sets = sets.skip_while(|&s| s == first);
        let Some(second) = sets.next() else {
            return Ok(first);
        };
        let Some(third) = sets.next() else {
            return self.union(first, second);
        };
        self.stamp = self.stamp.checked_add(1).unwrap_or_else(|| {
            self.stamps.fill(0);
            1
        });
        let from = self.items.len();
        let (mut largest, mut count, mut last) = (0, 0, 0);
        for set in [first, second, third].into_iter().chain(sets) {
            if set == last {
                continue;
            }
            last = set;
            let range = self.starts[set as usize]..self.starts[set as usize + 1];
            if range.len() > count {
                (largest, count) = (set, range.len());
            }
            for k in range {
                let c = self.items[k];
                let stamp = &mut self.stamps[c as usize];
                if *stamp != self.stamp {
                    *stamp = self.stamp;
                    self.items.push(c);
                }
            }
            if self.items.len() - from == self.columns {
                break;
            }
        }
        self.items[from..].sort_unstable();
        self.closed(from, largest, count)
    }

    /// The set of the items that were pushed last, unless it is a set of this size that it contains.
    fn closed(&mut self, from: usize, largest: i64, count: usize) -> Result<i64> {
        if self.items.len() - from == count {
            self.items.truncate(from);
            return Ok(largest);
        }
        self.starts.push(self.items.len());
        if self.items.len() - self.kept > MOST_ENTRIES + SLACK {
            return Err(too_many());
        }
        Ok(self.starts.len() as i64 - 2)
    }

    /// Whether it may be worth while to remove sets that are out of use.
    pub fn is_crowded(&self) -> bool {
        self.items.len() > 2 * self.kept + SLACK
    }

    /// Removes the sets that no array has, and numbers the others anew.
    pub fn keep<'a>(&mut self, arrays: impl Iterator<Item = &'a mut Value>) -> Result<()> {
        let fresh = Sets::new(self.columns)?;
        let old = std::mem::replace(self, fresh);
        let mut new: Vec<i64> = vec![-1; old.starts.len() - 1];
        for (set, number) in new[..=self.columns].iter_mut().enumerate() {
            *number = set as i64;
        }
        for array in arrays {
            let mut sets = numbers(array)?.to_vec();
            for set in &mut sets {
                let number = &mut new[*set as usize];
                if *number < 0 {
                    self.items.extend_from_slice(old.get(*set));
                    self.starts.push(self.items.len());
                    *number = self.starts.len() as i64 - 2;
                }
                *set = *number;
            }
            *array = Value::from_slice(array.shape(), &sets)?;
        }
        self.kept = self.items.len();
        if self.kept > MOST_ENTRIES {
            return Err(too_many());
        }
        Ok(())
    }
}

/// The numbers of an array of sets, which has to be contiguous.
pub(super) fn numbers(array: &Value) -> Result<&[i64]> {
    let numbers = array.as_slice();
    numbers.ok_or_else(|| Error::Program("sparsity: an array of sets is not contiguous".into()))
}

pub(super) fn too_many() -> Error {
    Error::Program(format!(
        "sparsity: the pattern has more than {MOST_ENTRIES} entries; compute the derivative as a dense \
         array, or products with it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_reuse_the_sets_that_they_equal() {
        let mut sets = Sets::new(100).unwrap();
        let two = sets.union(3, 1).unwrap();
        assert_eq!(sets.get(two), [0, 2]);
        assert_eq!(sets.union(two, 1).unwrap(), two);
        assert_eq!(sets.union(0, two).unwrap(), two);
        let many = sets.union_all(1..=50).unwrap();
        assert_eq!(sets.get(many).len(), 50);
        assert_eq!(sets.union(two, many).unwrap(), many);
        assert_eq!(
            sets.union_all([two, 2, many, two].into_iter()).unwrap(),
            many
        );
        assert_eq!(sets.union_all([two, two, 0].into_iter()).unwrap(), two);
        let all = sets.union_all(1..=100).unwrap();
        assert_eq!(sets.union(many, all).unwrap(), all);
    }

    #[test]
    fn sets_out_of_use_are_removed() {
        let mut sets = Sets::new(4).unwrap();
        let gone = sets.union(1, 2).unwrap();
        let kept = sets.union(gone, 4).unwrap();
        let mut array = Value::from_slice(&[3], &[kept, 2, 0]).unwrap();
        sets.keep(std::iter::once(&mut array)).unwrap();
        let numbers = numbers(&array).unwrap();
        assert_eq!(sets.get(numbers[0]), [0, 1, 3]);
        assert_eq!(numbers[1..], [2, 0]);
        assert_eq!(sets.items.len(), 4 + 3);
    }
}
