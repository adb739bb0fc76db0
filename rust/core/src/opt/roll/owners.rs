//! Which variables are made in stretches, and who reads them.

use super::layouts::Layouts;
use super::sequence::Row;
use super::stream::Stream;
use super::stretch::{Kind, Read, Stretch};
use crate::prim::Var;

const NONE: u32 = u32::MAX;

/// A variable of a stretch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub stretch: usize,
    pub turn: usize,
    pub place: usize,
}

/// How a place of a stretch is read from outside.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Uses {
    /// Of the last turn.
    pub last: bool,
    /// Of others.
    pub rows: bool,
}

/// The stretches of a program.
pub(super) struct Stretches {
    pub all: Vec<Stretch>,
    /// By place of the stream.
    of: Vec<u32>,
    pub uses: Vec<Vec<Uses>>,
    /// Whether the slice of the last turn comes first.
    pub reverse: Vec<bool>,
}

impl Stretches {
    /// Those that can be written as loops.
    pub fn new(stream: &Stream<'_>, all: Vec<Stretch>, layouts: &Layouts) -> Stretches {
        let mut found = Stretches {
            all,
            of: Vec::new(),
            uses: Vec::new(),
            reverse: Vec::new(),
        };
        loop {
            found.look(stream);
            let count = found.all.len();
            let mut n = 0;
            let uses = std::mem::take(&mut found.uses);
            // What is written after all turns is not there between them.
            found.all.retain(|stretch| {
                let uses = &uses[n];
                n += 1;
                let mut places = stretch.places.iter().zip(uses);
                !places.any(|(place, uses)| matches!(place.kind, Kind::Written(_)) && uses.rows)
                    && may_be_copied(stream, stretch, uses, layouts)
            });
            found.uses = uses;
            if found.all.len() == count {
                break;
            }
        }
        for n in 0..found.all.len() {
            let is_reverse = found.goes_backwards(stream, n);
            found.reverse.push(is_reverse);
        }
        found
    }

    fn look(&mut self, stream: &Stream<'_>) {
        self.of = vec![NONE; stream.len()];
        for (n, stretch) in self.all.iter().enumerate() {
            self.of[stretch.range()].fill(n as u32);
        }
        let mut uses: Vec<Vec<Uses>> = self
            .all
            .iter()
            .map(|s| vec![Uses::default(); s.period()])
            .collect();
        let mut note = |v: Var, reader: Option<usize>| {
            let Some(made) = self.made(stream, v) else {
                return;
            };
            if reader != Some(made.stretch) {
                let uses = &mut uses[made.stretch][made.place];
                if made.turn + 1 == self.all[made.stretch].count {
                    uses.last = true;
                } else {
                    uses.rows = true;
                }
            }
        };
        for at in 0..stream.len() {
            let reader = self.stretch_at(at);
            for &v in stream.args(at) {
                note(v, reader);
            }
        }
        for &out in stream.program.outs() {
            note(out, None);
        }
        self.uses = uses;
    }

    /// The stretch to which an equation belongs.
    pub fn stretch_at(&self, at: usize) -> Option<usize> {
        match self.of[at] {
            NONE => None,
            n => Some(n as usize),
        }
    }

    pub fn made(&self, stream: &Stream<'_>, v: Var) -> Option<Made> {
        let at = stream.place(v)?;
        let n = self.stretch_at(at)?;
        let stretch = &self.all[n];
        let inside = at - stretch.first;
        Some(Made {
            stretch: n,
            turn: inside / stretch.period(),
            place: inside % stretch.period(),
        })
    }

    /// Where a result lies among those of its place.
    pub fn row(&self, made: Made) -> Row {
        Row {
            stretch: made.stretch,
            place: made.place,
            index: self.row_of_turn(made.stretch, made.turn),
        }
    }

    pub fn row_of_turn(&self, n: usize, turn: usize) -> usize {
        if self.reverse[n] {
            self.all[n].count - 1 - turn
        } else {
            turn
        }
    }

    /// Whether most of what a stretch scans is read from the end: by bytes.
    fn goes_backwards(&self, stream: &Stream<'_>, n: usize) -> bool {
        let stretch = &self.all[n];
        let (mut forward, mut backward) = (0usize, 0usize);
        let mut vote = |is_backward: bool, v: Var| {
            let votes = if is_backward {
                &mut backward
            } else {
                &mut forward
            };
            *votes = votes.saturating_add(stream.program.aval(v).nbytes().max(1));
        };
        let middle = stretch.count / 2;
        for (j, place) in stretch.places.iter().enumerate() {
            if let Kind::Moving(moves) | Kind::Written(moves) = place.kind {
                vote(moves.by < 0, stream.result(stretch.at(0, j)));
            }
            for (i, read) in place.reads.iter().enumerate() {
                let row = |turn: usize| {
                    let v = stretch.arg(stream, turn, (j, i));
                    let made = self.made(stream, v).filter(|made| made.stretch < n)?;
                    Some((v, self.row(made)))
                };
                if *read == Read::Scanned
                    && let (Some((v, a)), Some((_, b))) = (row(middle), row(middle + 1))
                    && (a.stretch, a.place) == (b.stretch, b.place)
                    && a.index != b.index
                {
                    vote(b.index < a.index, v);
                }
            }
        }
        backward > forward
    }
}

/// Whether what goes into turns, from one to the next, and out of them may lie in its own order.
fn may_be_copied(stream: &Stream<'_>, stretch: &Stretch, uses: &[Uses], layouts: &Layouts) -> bool {
    let middle = stretch.count / 2;
    let made = |j: usize| layouts.may_be_copied(stream.result(stretch.at(middle, j)));
    let arg = |turn: usize, read| layouts.may_be_copied(stretch.arg(stream, turn, read));
    stretch.places.iter().enumerate().all(|(j, place)| {
        let is_made_before = matches!(place.kind, Kind::Moving(_) | Kind::Reshaped);
        let leaves = is_made_before || uses[j].last || uses[j].rows;
        (!leaves || made(j))
            && place.reads.iter().enumerate().all(|(i, read)| match *read {
                Read::Same(_) => true,
                Read::Shared(v) => {
                    is_made_before
                        || layouts.may_be_copied(v)
                        || layouts.root(stream.program, v).is_some()
                }
                Read::Carried { place, back } => {
                    made(place) && (0..back).all(|turn| arg(turn, (j, i)))
                }
                Read::Scanned => (0..stretch.count).all(|turn| arg(turn, (j, i))),
            })
    })
}
