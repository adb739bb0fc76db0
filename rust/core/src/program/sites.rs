//! Where the equations of a program come from, beside the equations and no part of what they are.

use super::{Builder, Program};
use crate::prim::Site;

/// The sites of equations, and the one that new equations get. Equal to any other: what a program
/// computes does not depend on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sites {
    /// Shorter than the list of equations where the last ones have none; mostly empty.
    list: Vec<Site>,
    current: Site,
}

impl PartialEq for Sites {
    fn eq(&self, _other: &Sites) -> bool {
        true
    }
}

impl Eq for Sites {}

impl Sites {
    /// Notes the site of the last `n` of `count` equations, which are being added.
    #[inline]
    pub fn note(&mut self, n: usize, count: usize) {
        if !self.current.is_none() {
            self.note_current(n, count);
        }
    }

    // Lines are recorded on request only; what is written without them shall not save registers for it.
    #[cold]
    fn note_current(&mut self, n: usize, count: usize) {
        self.list.resize(count - n, Site::NONE);
        self.list.resize(count, self.current);
    }

    /// The site of equation `k`.
    pub fn get(&self, k: usize) -> Site {
        self.list.get(k).copied().unwrap_or_default()
    }

    /// Sites for the equations at hand.
    pub fn set(&mut self, k: usize, site: Site) {
        if site.is_none() && k >= self.list.len() {
            return;
        }
        if k >= self.list.len() {
            self.list.resize(k + 1, Site::NONE);
        }
        self.list[k] = site;
    }
}

impl Program {
    /// Where equation `k` comes from, if lines were recorded.
    pub fn site(&self, k: usize) -> Site {
        self.sites.get(k)
    }

    /// Whether it is known of any equation where it comes from.
    pub fn has_sites(&self) -> bool {
        self.sites.list.iter().any(|s| !s.is_none())
    }

    /// Says where equation `k` comes from.
    pub fn set_site(&mut self, k: usize, site: Site) {
        self.sites.set(k, site);
    }

    /// Gives equations without a site that of the call which applies the program.
    pub(crate) fn complete_sites(&mut self, call: Site) {
        if !call.is_none() {
            for k in 0..self.eqns.len() {
                self.sites.set(k, self.site(k).or(call));
            }
        }
    }

    /// The program without sites.
    #[must_use]
    pub fn without_sites(mut self) -> Program {
        self.sites = Sites::default();
        self
    }

    /// The sites of its equations, for those up to the last that has one.
    pub fn sites(&self) -> &[Site] {
        &self.sites.list
    }
}

impl Builder {
    /// The site of what is written from now on; gives the one until now.
    #[inline]
    pub fn at(&self, site: Site) -> Site {
        std::mem::replace(&mut self.program.borrow_mut().sites.current, site)
    }

    /// Ends the sites, too, when the program is finished.
    pub(super) fn end_sites(program: &mut Program) {
        program.sites.current = Site::NONE;
    }
}
