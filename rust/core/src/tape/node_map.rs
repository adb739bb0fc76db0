//! Notes something of each node of the tape that a walk comes to, without hashing most of them.

use crate::util::FastMap;

/// Room for the nodes of a short recording.
const FEW: usize = 128;
/// The list has at most so many places for each node.
const SPREAD: usize = 8;

/// One value for each node that a walk has come to. Most of them were recorded shortly before the newest one: their
/// values are a list, by age.
pub struct NodeMap<T> {
    newest: u64,
    near: Vec<T>,
    far: FastMap<u64, T>,
    len: usize,
    none: T,
}

impl<T: Copy + PartialEq> NodeMap<T> {
    /// For nodes that are no newer than one; `none` is no value.
    pub fn up_to(newest: u64, none: T) -> NodeMap<T> {
        NodeMap {
            newest,
            near: vec![none; FEW.min(newest as usize + 1)],
            far: FastMap::default(),
            len: 0,
            none,
        }
    }

    fn age(&self, id: u64) -> usize {
        self.newest.wrapping_sub(id) as usize
    }

    /// The value of a node, or none.
    pub fn get(&self, id: u64) -> T {
        match self.near.get(self.age(id)) {
            Some(value) => *value,
            None => self.far.get(&id).copied().unwrap_or(self.none),
        }
    }

    /// The place of the value of a node; one more that has some, if that is none.
    pub fn place(&mut self, id: u64) -> &mut T {
        let age = self.age(id);
        if age >= self.near.len() && age < SPREAD * self.len {
            self.grow(age);
        }
        let place = match self.near.get_mut(age) {
            Some(place) => place,
            None => self.far.entry(id).or_insert(self.none),
        };
        self.len += usize::from(*place == self.none);
        place
    }

    /// Makes the list so long that it has a place for an age.
    #[cold]
    fn grow(&mut self, age: usize) {
        let len = (age + 1).max(2 * self.near.len());
        self.near.resize(len, self.none);
        let (newest, near) = (self.newest, &mut self.near);
        self.far.retain(
            |&id, value| match near.get_mut(newest.wrapping_sub(id) as usize) {
                Some(place) => {
                    *place = *value;
                    false
                }
                None => true,
            },
        );
    }

    /// The values in the order in which their nodes were recorded.
    pub fn in_order(&self) -> impl Iterator<Item = T> {
        let mut far: Vec<(u64, T)> = self.far.iter().map(|(&id, &value)| (id, value)).collect();
        far.sort_unstable_by_key(|&(id, _)| id);
        let near = self.near.iter().rev().copied();
        let none = self.none;
        (far.into_iter().map(|(_, value)| value).chain(near)).filter(move |&value| value != none)
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.near.fill(self.none);
        self.far.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Ids near each other and far apart, in any order, as in a map that is sorted.
        #[test]
        fn what_is_noted_is_found(
            base in 0u64..1 << 40,
            ids in proptest::collection::vec((0u64..40, 0u64..3000), 1..200),
        ) {
            let ids: Vec<u64> = (ids.iter()).map(|(block, id)| base + (block << 14) + id).collect();
            let mut map = NodeMap::up_to(*ids.iter().max().unwrap(), u32::MAX);
            let mut expected = std::collections::BTreeMap::new();
            for (n, &id) in ids.iter().enumerate() {
                prop_assert_eq!(map.get(id), expected.get(&id).copied().unwrap_or(u32::MAX));
                *map.place(id) = n as u32;
                expected.insert(id, n as u32);
            }
            for (&id, &n) in &expected {
                prop_assert_eq!(map.get(id), n);
            }
            prop_assert!(map.in_order().eq(expected.into_values()));
            map.clear();
            prop_assert!(map.in_order().next().is_none());
        }
    }
}
