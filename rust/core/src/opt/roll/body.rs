//! The body that the turns of a stretch have in common.

use std::cell::RefCell;

use super::layouts::Layouts;
use super::owners::Uses;
use super::stream::Stream;
use super::stretch::{Kind, Read, Stretch};
use crate::error::Result;
use crate::prim::{Params, Var};
use crate::program::{Builder, Program};
use crate::util::FastMap;

/// What a loop gets for an input of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A carry is this at first.
    Start(Var),
    /// A carry of which only what the last turn makes of it matters; it looks like this.
    Zeros(Var),
    /// What is stacked for a place before all turns.
    Stack(usize),
    /// What the turns read as an argument of a place.
    Scanned(usize, usize),
    /// The same for all turns.
    Shared(Var),
}

/// The body of a loop, and where its inputs and outputs come from and go to.
pub(super) struct Body {
    program: Program,
    sources: Vec<Source>,
    num_carries: usize,
    num_scanned: usize,
    /// The carry that is what each place made, by place.
    carry_of: FastMap<usize, usize>,
    stacked: FastMap<usize, usize>,
}

impl Body {
    pub fn program(&self) -> &Program {
        &self.program
    }

    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    pub fn num_carries(&self) -> usize {
        self.num_carries
    }

    pub fn num_scanned(&self) -> usize {
        self.num_scanned
    }

    /// Whether there is nothing to repeat.
    pub fn is_empty(&self) -> bool {
        self.program.outs().is_empty()
    }

    /// The carry that is what a place made in the turn before.
    pub fn carry_of(&self, place: usize) -> Option<usize> {
        self.carry_of.get(&place).copied()
    }

    /// What that carry is at first.
    pub fn start_of(&self, place: usize) -> Option<Var> {
        match self.sources[self.carry_of(place)?] {
            Source::Start(v) => Some(v),
            _ => None,
        }
    }

    /// Which stacked output a place is.
    pub fn stacked(&self, place: usize) -> Option<usize> {
        self.stacked.get(&place).copied()
    }
}

/// A carry: what a place made some turns ago, with what is there before the first turn for that turn and those after
/// it, the latest first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Carry {
    place: usize,
    starts: Vec<Source>,
}

struct Inputs<'s, 'p> {
    stream: &'s Stream<'p>,
    stretch: &'s Stretch,
    carries: Vec<Carry>,
    scanned: Vec<Source>,
    shared: Vec<Source>,
}

impl Inputs<'_, '_> {
    /// The carry that holds what a place made so many turns ago; those of fewer turns come before it.
    fn carry(&mut self, place: usize, starts: &[Source]) -> usize {
        let mut found = 0;
        for n in 1..=starts.len() {
            let wanted = Carry {
                place,
                starts: starts[..n].to_vec(),
            };
            let known = self.carries.iter().position(|c| *c == wanted);
            found = known.unwrap_or_else(|| {
                self.carries.push(wanted);
                self.carries.len() - 1
            });
        }
        found
    }

    /// What a carried argument is before the first turns, the latest first.
    fn starts(&self, read: (usize, usize), back: usize) -> Vec<Source> {
        let starts = (1..=back).map(|n| back - n);
        let arg = |turn| Source::Start(self.stretch.arg(self.stream, turn, read));
        starts.map(arg).collect()
    }

    fn scan(&mut self, source: Source) -> usize {
        let known = self.scanned.iter().position(|s| self.is_same(*s, source));
        known.unwrap_or_else(|| {
            self.scanned.push(source);
            self.scanned.len() - 1
        })
    }

    /// Whether two places read the same in all turns.
    fn is_same(&self, a: Source, b: Source) -> bool {
        match (a, b) {
            (Source::Scanned(p, i), Source::Scanned(q, j)) => (0..self.stretch.count).all(|turn| {
                let arg = |read| self.stretch.arg(self.stream, turn, read);
                arg((p, i)) == arg((q, j))
            }),
            _ => a == b,
        }
    }

    fn share(&mut self, v: Var) -> usize {
        let source = Source::Shared(v);
        let known = self.shared.iter().position(|s| *s == source);
        known.unwrap_or_else(|| {
            self.shared.push(source);
            self.shared.len() - 1
        })
    }
}

/// Where an argument of the body is.
#[derive(Clone, Copy)]
enum Arg {
    Place(usize),
    Carry(usize),
    Scanned(usize),
    Shared(usize),
    Literal(Var),
    /// A view of what is shared: this, of that.
    View(Var, usize),
}

/// Writes the body of a stretch.
pub(super) fn written(
    stream: &Stream<'_>,
    stretch: &Stretch,
    uses: &[Uses],
    layouts: &Layouts,
) -> Result<Body> {
    let program = stream.program;
    let mut inputs = Inputs {
        stream,
        stretch,
        carries: Vec::new(),
        scanned: Vec::new(),
        shared: Vec::new(),
    };
    let is_in_body = |j: usize| stretch.places[j].kind == Kind::Body;
    let is_before = |j: usize| matches!(stretch.places[j].kind, Kind::Moving(_) | Kind::Reshaped);
    let mut args: Vec<Vec<Arg>> = Vec::with_capacity(stretch.period());
    for (j, place) in stretch.places.iter().enumerate() {
        let mut own = Vec::new();
        // Of what is written after all turns the body makes what is written.
        let from = match place.kind {
            Kind::Body => 0,
            Kind::Written(_) => 1,
            _ => place.reads.len(),
        };
        for (i, read) in place.reads.iter().enumerate().skip(from) {
            own.push(match *read {
                Read::Same(p) if is_before(p) => Arg::Scanned(inputs.scan(Source::Stack(p))),
                Read::Same(p) => Arg::Place(p),
                Read::Carried { place, back } => {
                    let starts = inputs.starts((j, i), back);
                    Arg::Carry(inputs.carry(place, &starts))
                }
                Read::Shared(v) if program.literal(v).is_some() => Arg::Literal(v),
                Read::Shared(v) => match layouts.root(program, v) {
                    Some(root) if !layouts.may_be_copied(v) => Arg::View(v, inputs.share(root)),
                    _ => Arg::Shared(inputs.share(v)),
                },
                Read::Scanned => Arg::Scanned(inputs.scan(Source::Scanned(j, i))),
            });
        }
        args.push(own);
    }
    // What a carry is of that is made before all turns comes in as a slice.
    for n in 0..inputs.carries.len() {
        let place = inputs.carries[n].place;
        if is_before(place) {
            inputs.scan(Source::Stack(place));
        }
    }
    for (j, uses) in uses.iter().enumerate() {
        let is_carried = inputs
            .carries
            .iter()
            .any(|c| c.place == j && c.starts.len() == 1);
        if is_in_body(j) && uses.last && !uses.rows && !is_carried {
            let zeros = Source::Zeros(stream.result(stretch.at(0, j)));
            inputs.carry(j, &[zeros]);
        }
    }
    let builder = Builder::new();
    let aval = |source: Source| match source {
        Source::Start(v) | Source::Zeros(v) | Source::Shared(v) => program.aval(v),
        Source::Stack(j) => program.aval(stream.result(stretch.at(0, j))),
        Source::Scanned(j, i) => program.aval(stretch.arg(stream, 0, (j, i))),
    };
    let starts = inputs.carries.iter().map(|c| c.starts[c.starts.len() - 1]);
    let (carries, scanned) = (inputs.carries.len(), inputs.scanned.len());
    let sources: Vec<Source> = starts
        .chain(inputs.scanned.iter().copied())
        .chain(inputs.shared.iter().copied())
        .collect();
    for &source in &sources {
        builder.input("", aval(source));
    }
    let mut results: Vec<Var> = vec![Var::MAX; stretch.period()];
    for (n, source) in inputs.scanned.iter().enumerate() {
        if let Source::Stack(place) = source {
            results[*place] = (carries + n) as Var;
        }
    }
    let views: RefCell<FastMap<Var, Var>> = RefCell::default();
    let var = |arg: Arg, results: &[Var]| match arg {
        Arg::Place(p) => results[p],
        Arg::Carry(n) => n as Var,
        Arg::Scanned(n) => (carries + n) as Var,
        Arg::Shared(n) => (carries + scanned + n) as Var,
        Arg::Literal(v) => match program.literal(v) {
            Some((dtype, z)) => builder.complex_literal(dtype, z),
            None => Var::MAX,
        },
        Arg::View(v, n) => {
            let root = (carries + scanned + n) as Var;
            let of = inputs.shared[n];
            let mut chain = vec![v];
            while let Some(eqn) = program.definition(chain[chain.len() - 1]) {
                let x = program.args(eqn)[0];
                if Source::Shared(x) == of {
                    break;
                }
                chain.push(x);
            }
            chain.into_iter().rev().fold(root, |x, v| {
                let Some(eqn) = program.definition(v) else {
                    return x;
                };
                let known = views.borrow().get(&v).copied();
                known.unwrap_or_else(|| {
                    let params = program.params(eqn).clone();
                    let view = builder.push_inferred(eqn.prim, params, &[x], program.aval(v));
                    views.borrow_mut().insert(v, view);
                    view
                })
            })
        }
    };
    for j in (0..stretch.period()).filter(|&j| is_in_body(j)) {
        let at = stretch.at(0, j);
        let (eqn, result) = (stream.eqn(at), stream.result(at));
        builder.at(program.site(stream.number(at)));
        let own: Vec<Var> = args[j].iter().map(|&arg| var(arg, &results)).collect();
        let params: Params = program.params(eqn).clone();
        results[j] = builder.push_inferred(eqn.prim, params, &own, program.aval(result));
    }
    let mut outs: Vec<Var> = Vec::new();
    let mut carry_of: FastMap<usize, usize> = FastMap::default();
    for (n, carry) in inputs.carries.iter().enumerate() {
        // All turns of its history but the last, which the carry next to it has.
        let before = &carry.starts[..carry.starts.len().saturating_sub(1)];
        if before.is_empty() {
            carry_of.entry(carry.place).or_insert(n);
            outs.push(results[carry.place]);
        } else {
            let before = Carry {
                place: carry.place,
                starts: before.to_vec(),
            };
            let from = inputs.carries.iter().position(|c| *c == before);
            outs.push(from.map_or(Var::MAX, |n| n as Var));
        }
    }
    let mut stacked: FastMap<usize, usize> = FastMap::default();
    for (j, place) in stretch.places.iter().enumerate() {
        let out = match place.kind {
            Kind::Body if uses[j].rows => results[j],
            Kind::Written(_) if uses[j].last => match args[j][0] {
                Arg::Scanned(_) => continue,
                arg => var(arg, &results),
            },
            _ => continue,
        };
        stacked.insert(j, outs.len() - carries);
        outs.push(out);
    }
    Ok(Body {
        program: builder.finish(outs)?,
        sources,
        num_carries: carries,
        num_scanned: scanned,
        carry_of,
        stacked,
    })
}
