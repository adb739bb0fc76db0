//! Pieces of work that may run beside each other.

use std::sync::{Mutex, PoisonError};

/// Calls a function with each number below the first one, perhaps on several threads, and returns when all calls have.
/// It may leave calls out, but then has to know that the result is not wanted any more: it is of no use.
pub type Spread<'a> = &'a (dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync);

/// Calls `f` with each item, by way of `spread` if it is worth it.
pub fn each<T: Send>(spread: Option<Spread>, items: impl Iterator<Item = T>, f: impl Fn(T) + Sync) {
    let Some(spread) = spread else {
        items.for_each(f);
        return;
    };
    let items: Vec<_> = items.map(|item| Mutex::new(Some(item))).collect();
    spread(items.len(), &|i| {
        let item = items[i]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        item.into_iter().for_each(&f);
    });
}
