//! What the equations of a body are and read, compared turn by turn.

use std::ops::Range;

use smallvec::SmallVec;

use super::regions::Moves;
use super::stream::Stream;
use crate::error::Result;
use crate::interrupt::Steps;
use crate::ops;
use crate::prim::{Params, Var};

/// Fewer turns are left as they are.
pub(super) const TURNS: usize = 16;
/// From how many turns before a value may come.
const BACK: usize = 8;
/// How often the turns that are alike are looked for.
const ROUNDS: usize = 16;
/// Other values of up to so many elements are stacked to be read one by one.
const SMALL: usize = 16;

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// The same in all turns.
    Shared(Var),
    /// What the same turn made at this place of the body.
    Same(usize),
    /// What an earlier turn made there.
    Carried { place: usize, back: usize },
    /// In each turn something that is there before all of them.
    Scanned,
}

/// What becomes of an equation of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is one of the loop's.
    Body,
    /// A slice that moves: of all turns at once, before them.
    Moving(Moves),
    /// The same for another shape of something like that.
    Reshaped,
    /// A region that moves is written: for all turns at once, after them.
    Written(Moves),
}

/// An equation of a body.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub kind: Kind,
    pub reads: SmallVec<[Read; 2]>,
}

/// The same body again and again.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    /// Where the first turn starts.
    pub first: usize,
    pub count: usize,
    pub places: Vec<Place>,
}

impl Stretch {
    pub fn period(&self) -> usize {
        self.places.len()
    }

    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.period() * self.count
    }

    /// Where the equation of a turn stands.
    pub fn at(&self, turn: usize, place: usize) -> usize {
        self.first + turn * self.period() + place
    }

    /// The argument that a turn reads.
    pub fn arg(&self, stream: &Stream<'_>, turn: usize, (place, i): (usize, usize)) -> Var {
        stream.args(self.at(turn, place))[i]
    }
}

/// The turns among so many that are like those in the middle, and what they are.
pub(super) fn classify(
    stream: &Stream<'_>,
    start: usize,
    period: usize,
    count: usize,
    steps: &mut Steps,
) -> Result<Option<(Range<usize>, Stretch)>> {
    for middle in [count / 2, count / 4, count - count / 4 - 2] {
        if middle + 1 >= count {
            continue;
        }
        let turns = Turns {
            stream,
            start,
            period,
            middle,
            lower: 0,
            upper: count,
        };
        if let Some(found) = turns.found(steps)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

struct Turns<'s, 'p> {
    stream: &'s Stream<'p>,
    start: usize,
    period: usize,
    /// The turn that others are compared with.
    middle: usize,
    lower: usize,
    upper: usize,
}

impl Turns<'_, '_> {
    fn at(&self, turn: usize, place: usize) -> usize {
        self.start + turn * self.period + place
    }

    fn params(&self, turn: usize, place: usize) -> &Params {
        let program = self.stream.program;
        program.params(self.stream.eqn(self.at(turn, place)))
    }

    fn found(mut self, steps: &mut Steps) -> Result<Option<(Range<usize>, Stretch)>> {
        let mut places: Vec<Place> = Vec::with_capacity(self.period);
        for j in 0..self.period {
            match self.guess(j, &places) {
                Some(place) => places.push(place),
                None => return Ok(None),
            }
        }
        if !settled(&places) {
            return Ok(None);
        }
        for _ in 0..ROUNDS {
            let range = self.lower..self.upper;
            let mut same = true;
            for (j, place) in places.iter_mut().enumerate() {
                for _ in 0..self.upper.saturating_sub(self.lower) {
                    steps.count()?;
                }
                same &= self.narrow(j, place);
            }
            let is_inside = (self.lower..self.upper).contains(&self.middle);
            if !is_inside || self.upper - self.lower < TURNS {
                return Ok(None);
            }
            if same && range == (self.lower..self.upper) {
                let found = Stretch {
                    first: self.at(self.lower, 0),
                    count: self.upper - self.lower,
                    places,
                };
                return Ok(found.pays(self.stream).then_some((range, found)));
            }
        }
        Ok(None)
    }

    /// What an equation is, judging by two turns.
    fn guess(&self, j: usize, before: &[Place]) -> Option<Place> {
        let (now, next) = (self.at(self.middle, j), self.at(self.middle + 1, j));
        let prim = self.stream.eqn(now).prim;
        let args = (self.stream.args(now).iter()).zip(self.stream.args(next));
        let reads: SmallVec<[Read; 2]> = args.map(|(&a, &b)| self.read(a, b)).collect();
        let (params, then) = (self.params(self.middle, j), self.params(self.middle + 1, j));
        let kind = if params == then {
            let is_stacked = |read: &Read| match *read {
                Read::Scanned => true,
                Read::Same(i) => matches!(before[i].kind, Kind::Moving(_) | Kind::Reshaped),
                _ => false,
            };
            if prim == ops::RESHAPE && is_stacked(&reads[0]) {
                Kind::Reshaped
            } else {
                Kind::Body
            }
        } else {
            let moves = Moves::between(params, then)?;
            let goes_on = reads.first() == Some(&Read::Carried { place: j, back: 1 });
            if prim == ops::SLICE && matches!(reads[0], Read::Shared(_)) {
                Kind::Moving(moves)
            } else if (prim == ops::UPDATE || prim == ops::UPDATE_ADD) && goes_on {
                let shape = &self.stream.program.aval(self.stream.result(now)).shape;
                let fits = moves.is_apart(params) || moves.is_alone(params, shape);
                fits.then_some(Kind::Written(moves))?
            } else {
                return None;
            }
        };
        Some(Place { kind, reads })
    }

    /// What an argument is that is `a` in the turn in the middle, and then `b`.
    fn read(&self, a: Var, b: Var) -> Read {
        if a == b {
            return Read::Shared(a);
        }
        let turn_and_place = || {
            let (a, b) = (self.stream.place(a)?, self.stream.place(b)?);
            let inside = a.checked_sub(self.start)?;
            let turn = inside / self.period;
            let goes_on = b == a + self.period && turn <= self.middle && turn + BACK >= self.middle;
            goes_on.then_some((self.middle - turn, inside % self.period))
        };
        match turn_and_place() {
            Some((0, place)) => Read::Same(place),
            Some((back, place)) => Read::Carried { place, back },
            None => Read::Scanned,
        }
    }

    /// Whether a variable is there before the first turn.
    fn is_before(&self, v: Var) -> bool {
        let first = self.at(self.lower, 0);
        self.stream.place(v).is_none_or(|place| place < first)
    }

    /// Leaves the turns in which an equation is what it is in the middle, as far as they are known. Whether nothing
    /// about the equation had to be changed.
    fn narrow(&mut self, j: usize, place: &mut Place) -> bool {
        let mut same = true;
        for turn in self.middle..self.upper {
            if !self.is_like(j, place, turn, &mut same) {
                self.upper = turn;
                break;
            }
        }
        for turn in (self.lower..self.middle).rev() {
            if turn < self.lower {
                break;
            }
            if !self.is_like(j, place, turn, &mut same) {
                self.lower = turn + 1;
                break;
            }
        }
        same
    }

    fn is_like(&mut self, j: usize, place: &mut Place, turn: usize, same: &mut bool) -> bool {
        let (here, middle) = (self.at(turn, j), self.at(self.middle, j));
        let (stream, mid) = (self.stream, self.middle);
        let alike = |a: Var, b: Var| stream.alike(a, b);
        if stream.eqn(here).prim != stream.eqn(middle).prim
            || !alike(stream.result(here), stream.result(middle))
            || stream.args(here).len() != place.reads.len()
        {
            return false;
        }
        let (params, of_middle) = (self.params(turn, j), self.params(mid, j));
        let fits = match place.kind {
            Kind::Body | Kind::Reshaped => params == of_middle,
            Kind::Moving(moves) | Kind::Written(moves) => {
                moves.leads(of_middle, params, turn as isize - mid as isize)
            }
        };
        if !fits {
            return false;
        }
        for (i, &v) in stream.args(here).iter().enumerate() {
            let of_middle = stream.args(middle)[i];
            let fits = match place.reads[i] {
                Read::Same(p) => v == stream.result(self.at(turn, p)),
                Read::Carried { place: p, back } => self.goes_on(v, turn, (p, back)),
                Read::Scanned => alike(v, of_middle) && self.is_before(v),
                Read::Shared(shared) if v == shared => {
                    // One that an early turn made is there before the turns behind it.
                    if !self.is_before(v) {
                        let made = stream
                            .place(v)
                            .map_or(0, |at| (at - self.start) / self.period);
                        if made >= mid {
                            return false;
                        }
                        self.lower = made + 1;
                    }
                    true
                }
                Read::Shared(_) => {
                    let is_small = stream.program.aval(v).size() <= SMALL;
                    let fits = matches!(place.kind, Kind::Body | Kind::Written(_))
                        && is_small
                        && alike(v, of_middle)
                        && self.is_before(v);
                    if fits {
                        place.reads[i] = Read::Scanned;
                        *same = false;
                    }
                    fits
                }
            };
            if !fits {
                return false;
            }
        }
        true
    }

    /// Whether a turn reads what an earlier one made, or as one of the first turns what is there before them. Turns
    /// that read something else are left out.
    fn goes_on(&mut self, v: Var, turn: usize, (place, back): (usize, usize)) -> bool {
        let made = (turn.checked_sub(back)).map(|t| self.stream.result(self.at(t, place)));
        if made == Some(v) {
            return true;
        }
        if turn >= self.middle
            || !self
                .stream
                .alike(v, self.stream.result(self.at(turn, place)))
        {
            return false;
        }
        self.lower = self.lower.max((turn + 1).saturating_sub(back));
        turn >= self.lower && self.is_before(v)
    }
}

/// Whether what is written after all turns is read by none of them, and what is made before them needs none.
fn settled(places: &[Place]) -> bool {
    let is_written = |i: usize| matches!(places[i].kind, Kind::Written(_));
    places.iter().enumerate().all(|(j, place)| {
        place.reads.iter().enumerate().all(|(n, read)| match *read {
            Read::Same(i) => !is_written(i),
            Read::Carried { place: i, .. } => !is_written(i) || (i == j && n == 0),
            _ => true,
        })
    })
}

impl Stretch {
    /// Whether there are fewer equations when it is a loop, which reads something.
    fn pays(&self, stream: &Stream<'_>) -> bool {
        let mut reads = self.places.iter().flat_map(|place| &place.reads);
        let reads_something = reads.any(|read| match *read {
            Read::Same(_) => false,
            Read::Shared(v) => stream.program.literal(v).is_none(),
            Read::Carried { .. } | Read::Scanned => true,
        });
        if !reads_something {
            return false;
        }
        let scanned = |j: usize| {
            let reads = self.places[j].reads.iter().enumerate();
            reads.filter(|(_, read)| **read == Read::Scanned)
        };
        let pieces: usize = (0..self.period())
            .flat_map(|j| scanned(j).map(move |(i, _)| (j, i)))
            .map(|read| self.pieces(stream, read))
            .sum();
        2 * (self.period() + pieces) < self.period() * self.count
    }

    /// In how many pieces lies what is scanned.
    fn pieces(&self, stream: &Stream<'_>, read: (usize, usize)) -> usize {
        let place = |turn: usize| stream.place(self.arg(stream, turn, read));
        let step = |turn: usize| Some(place(turn)? as isize - place(turn - 1)? as isize);
        let ends = |turn: &usize| {
            let (now, before) = (step(*turn), step(turn - 1));
            now != before
        };
        1 + (2..self.count).filter(ends).count()
    }
}
