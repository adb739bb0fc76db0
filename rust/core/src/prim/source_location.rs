//! Where in the user's source an equation comes from, recorded on request.
//!
//! A [`Site`] is a number: places are stored once for each distinct one, so that nodes and equations
//! carry four bytes. Nothing that is computed depends on them, and programs that differ in sites only are
//! equal. What a rule of the reverse pass writes has the place of the equation
//! that it is a rule of.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use super::Prim;

/// Where an equation comes from, or [`Site::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Site(u32);

/// What a [`Site`] stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The name of the source file.
    pub file: Arc<str>,
    /// The line in it, counted from 1.
    pub line: u32,
    /// The function that the line belongs to.
    pub function: Arc<str>,
    /// For what the reverse pass wrote: the primitive whose rule it was, and which of its arguments the
    /// cotangent is for. Of equations of higher derivatives, the last rule.
    pub rule: Option<(&'static str, usize)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Default)]
struct Table {
    places: Vec<Place>,
    found: HashMap<Place, Site>,
}

impl Table {
    fn site(&mut self, place: Place) -> Site {
        if let Some(&site) = self.found.get(&place) {
            return site;
        }
        // Four thousand million places are more than anybody has.
        let Ok(next) = u32::try_from(self.places.len() + 1) else {
            return Site::NONE;
        };
        self.places.push(place.clone());
        self.found.insert(place, Site(next));
        Site(next)
    }
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the table of places still while a `fork` copies it.
pub fn lock_sites() -> impl Sized {
    table()
}

impl Site {
    /// Nothing is known.
    pub const NONE: Site = Site(0);

    /// A line of a source file.
    pub fn new(file: &str, line: u32, function: &str) -> Site {
        table().site(Place {
            file: file.into(),
            line,
            function: function.into(),
            rule: None,
        })
    }

    /// A place that is known already.
    pub fn of(place: Place) -> Site {
        table().site(place)
    }

    /// Whether nothing is known.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// This one, or another where nothing is known.
    #[inline]
    #[must_use]
    pub fn or(self, other: Site) -> Site {
        if self.is_none() { other } else { self }
    }

    /// What it stands for.
    pub fn place(self) -> Option<Place> {
        let at = (self.0 as usize).checked_sub(1)?;
        table().places.get(at).cloned()
    }

    /// The site of what a primitive's rule writes for the cotangent of one of its arguments, in an
    /// equation of this site.
    #[must_use]
    pub fn pulled(self, prim: Prim, argument: usize) -> Site {
        let mut table = table();
        let at = (self.0 as usize).wrapping_sub(1);
        let Some(place) = table.places.get(at).cloned() else {
            return Site::NONE;
        };
        table.site(Place {
            rule: Some((prim.name(), argument)),
            ..place
        })
    }
}

/// How many threads record sites, so that all others need not look further.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Where the running code is; set once for the process.
static HOOK: OnceLock<fn() -> Site> = OnceLock::new();

/// Says how to find out which line is running. Until then, and without the hook, sites are unknown.
pub fn set_site_hook(hook: fn() -> Site) {
    let _ = HOOK.set(hook);
}

/// Records, until it is dropped, the line of each operation that this thread records.
#[derive(Debug)]
pub struct Lines(PhantomData<*const ()>);

impl Lines {
    /// Begins.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Lines {
        THREADS.fetch_add(1, Ordering::Relaxed);
        DEPTH.set(DEPTH.get() + 1);
        Lines(PhantomData)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether this thread records lines.
#[inline]
pub fn records_lines() -> bool {
    THREADS.load(Ordering::Relaxed) != 0 && DEPTH.get() != 0
}

/// The site of the running code, if this thread records lines.
#[inline]
pub fn here() -> Site {
    if THREADS.load(Ordering::Relaxed) == 0 {
        return Site::NONE;
    }
    found()
}

#[cold]
fn found() -> Site {
    if DEPTH.get() == 0 {
        return Site::NONE;
    }
    HOOK.get().map_or(Site::NONE, |hook| hook())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_nest_and_end() {
        assert!(!records_lines() && here().is_none());
        let outer = Lines::new();
        drop(Lines::new());
        assert!(records_lines());
        std::thread::spawn(|| assert!(!records_lines()))
            .join()
            .unwrap();
        drop(outer);
        assert!(!records_lines());
    }
}
