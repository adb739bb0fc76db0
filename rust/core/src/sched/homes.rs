//! Which place of memory each array of a plan that is laid out has: one after the other, arrays share them.

use super::room::Room;
use crate::aval::Aval;
use crate::kernels::Form;

/// How an output comes about.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// It is written, row-major, perhaps over an input that nothing else reads.
    Written { aval: Aval, over: Option<usize> },
    /// It is a part of an input.
    Seen {
        input: usize,
        shift: isize,
        form: Form,
    },
}

/// Where an array lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Home {
    Input(usize),
    Constant(usize),
    /// A place that one array after the other has.
    Shared(usize),
    Unknown,
}

/// A place of arrays that are each other's successors.
pub(super) struct Succession {
    pub bytes: usize,
    /// The output that it is in the end.
    pub output: Option<usize>,
    /// The input that its first array is a changed copy of.
    pub over: Option<usize>,
    pub first: usize,
    pub last: usize,
}

/// Where the roots of a plan lie.
pub(super) struct Homes {
    /// How many inputs and constants there are.
    pub inputs: usize,
    pub constants: usize,
    pub outcomes: Vec<Outcome>,
    pub successions: Vec<Succession>,
    /// The number of the place of each succession.
    pub numbers: Vec<usize>,
}

impl Homes {
    /// Numbers the places of outputs that are written, then those of constants, then those inside, and gives the latter
    /// room; where they lie in it, behind zeros for the constants, and how large it is.
    pub fn settle(&mut self, acts: usize) -> (Vec<usize>, usize) {
        let mut next = self.inputs;
        self.numbers = vec![0; self.successions.len()];
        let mut of_output = vec![0; self.outcomes.len()];
        for (number, outcome) in of_output.iter_mut().zip(&self.outcomes) {
            *number = next;
            next += usize::from(matches!(outcome, Outcome::Written { .. }));
        }
        next += self.constants;
        let mut fixed = vec![0; self.constants];
        let (mut begin, mut end) = (vec![Vec::new(); acts], vec![Vec::new(); acts]);
        for (s, succession) in self.successions.iter().enumerate() {
            if let Some(j) = succession.output {
                self.numbers[s] = of_output[j];
                continue;
            }
            self.numbers[s] = next;
            next += 1;
            fixed.push(0);
            begin[succession.first].push(s);
            if let Some(end) = end.get_mut(succession.last) {
                end.push(s);
            }
        }
        let inside = self.inputs + (next - self.inputs - fixed.len());
        let mut room = Room::default();
        for (begin, end) in begin.iter().zip(&end) {
            for &s in begin {
                fixed[self.numbers[s] - inside] = room.take(self.successions[s].bytes);
            }
            for &s in end {
                room.give(fixed[self.numbers[s] - inside], self.successions[s].bytes);
            }
        }
        (fixed, room.end)
    }

    /// The number of a place.
    pub fn number(&self, home: Home) -> u32 {
        let number = match home {
            Home::Input(i) => i,
            Home::Constant(c) => {
                let written = |o: &&Outcome| matches!(o, Outcome::Written { .. });
                self.inputs + self.outcomes.iter().filter(written).count() + c
            }
            Home::Shared(s) => self.numbers[s],
            Home::Unknown => unreachable!("all that is read has been written"),
        };
        number as u32
    }
}
