//! Containers that know nothing of arrays or programs: fast hash tables and a bounded cache.

mod fast_map;
mod lru;

pub use fast_map::{FastHasher, FastMap};
pub use lru::{Lru, MAX_KEPT};
