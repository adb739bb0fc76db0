//! The arguments of an equation.

use crate::prim::Var;

/// How many are kept beside their equation.
const FEW: usize = 2;

/// Where the arguments of an equation are. Most have one or two: those are read with the equation, and nothing else is
/// visited or grows for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Args {
    len: u32,
    /// The arguments, or, of longer lists, where they start in the program's list.
    here: [Var; FEW],
}

impl Args {
    /// Arguments; many of them go to the end of `list`.
    #[inline]
    pub fn new(args: &[Var], list: &mut Vec<Var>) -> Args {
        match *args {
            [] => Args::few([]),
            [a] => Args::few([a]),
            [a, b] => Args::few([a, b]),
            _ => {
                let start = list.len() as u32;
                list.extend_from_slice(args);
                let len = args.len() as u32;
                Args {
                    len,
                    here: [start, 0],
                }
            }
        }
    }

    /// One or two arguments, or none.
    #[inline]
    pub fn few<const N: usize>(args: [Var; N]) -> Args {
        const { assert!(N <= FEW, "more go to a list") }
        let mut here = [0; FEW];
        here[..N].copy_from_slice(&args);
        Args {
            len: N as u32,
            here,
        }
    }

    /// The same with other variables, for another list.
    #[inline]
    pub fn mapped(&self, from: &[Var], to: &mut Vec<Var>, map: impl Fn(Var) -> Var) -> Args {
        let [a, b] = self.here;
        match self.len {
            0 => return *self,
            1 => return Args::few([map(a)]),
            2 => return Args::few([map(a), map(b)]),
            _ => {}
        }
        let start = to.len() as u32;
        to.extend(self.get(from).iter().map(|&a| map(a)));
        Args {
            here: [start, 0],
            ..*self
        }
    }

    /// Moves the variables from `first` on, where it is not the first of all, up. The list is not touched.
    #[inline]
    pub fn shift(&mut self, first: Var, by: Var) {
        debug_assert!(first > 0 || by == 0, "what is not there would move too");
        let by = if self.len() <= FEW { by } else { 0 };
        for a in &mut self.here {
            *a += if *a < first { 0 } else { by };
        }
    }

    /// The arguments, the list of whose program this is.
    #[inline]
    pub fn get<'a>(&'a self, list: &'a [Var]) -> &'a [Var] {
        let len = self.len as usize;
        if len <= FEW {
            &self.here[..len]
        } else {
            &list[self.here[0] as usize..][..len]
        }
    }

    /// Whether this holds of one of the arguments, all of which may be asked.
    #[inline]
    pub fn any(&self, list: &[Var], holds: impl Fn(Var) -> bool) -> bool {
        let [a, b] = self.here;
        match self.len {
            1 => holds(a),
            2 => holds(a) | holds(b),
            _ => self.get(list).iter().any(|&a| holds(a)),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The same for the same arguments, but for those in the list.
    pub fn key(&self) -> u64 {
        u64::from(self.here[0]) << 32 | u64::from(self.here[1])
    }

    /// Whether a list of so many has them.
    pub fn are_within(&self, count: usize) -> bool {
        self.len() <= FEW || self.here[0] as usize + self.len() <= count
    }
}
