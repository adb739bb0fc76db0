//! Where a long program repeats itself: the bodies of the loops that were run to record it.
//!
//! A body comes again after a constant number of equations, its period. Equations at the same place of it
//! are alike in everything but what they read, and some, like reading element `i`, in their parameters
//! too; those are computed before all bodies, or after them.

use std::hash::{Hash, Hasher};

use super::fuse::{Role, role};
use super::matrix_passes::MatrixPass;
use crate::error::Result;
use crate::interrupt::Steps;
use crate::opt::runs;
use crate::prim::Var;
use crate::program::{Eqn, Program};
use crate::util::{FastHasher, MAX_KEPT};

/// Shorter programs are planned as a whole,
const LONG: usize = 2048;
/// and so are shorter ones in which nothing has a kernel of its own: one pass over all bodies is the fastest
/// way there is to run them. Longer ones had plans that are not kept, and to plan takes longer than to run.
const LONG_PASS: usize = MAX_KEPT;
/// What is repeated less often than that is planned as a whole, too.
const OFTEN: usize = 16;
/// So many equations are planned together at least: they can be in one pass, and a step has its price;
const TOGETHER: usize = 256;
/// so many where bodies are nothing but passes.
const TOGETHER_IN_PASS: usize = 2048;
/// so many where they become machine code, whose functions should be neither short nor long.
const TOGETHER_IN_CODE: usize = 96;
/// Bodies that are nothing but passes are planned one by one where their arrays are not longer than that, the shortest
/// tile. Longer ones had to be in memory as a whole between the bodies, of which a single pass keeps a tile.
const ONE_TILE: usize = 64;
/// Two places are compared by so many equations that come before them. More of them tell a body from the
/// parts of it that are alike.
const WINDOWS: [usize; 2] = [32, 512];
/// How often a body is looked through.
const ROUNDS: usize = 8;
/// What is there for all bodies at once may need so much memory.
const WAITING: usize = 16 << 20;

/// Some equations of a program, in its order.
pub(super) struct Piece {
    pub eqns: Vec<usize>,
    /// Whether they are what varies between the bodies of a loop.
    pub varies: bool,
    /// The pass over a matrix that they are.
    pub pass: Option<MatrixPass>,
}

impl Piece {
    /// Equations that are run once.
    pub fn once(eqns: Vec<usize>) -> Piece {
        Piece {
            eqns,
            varies: false,
            pass: None,
        }
    }
}

/// A program in pieces, to be run one after the other, many of which are alike; `None` for one that is best
/// planned as a whole.
pub(super) fn pieces(program: &Program) -> Result<Option<Vec<Piece>>> {
    let alone = |eqn: &&Eqn| matches!(role(eqn.prim), Role::Alone);
    let has_kernels = program.eqns().iter().filter(alone).nth(OFTEN).is_some();
    let long = if has_kernels { LONG } else { LONG_PASS };
    if program.eqns().len() < long || program.has_calls() {
        return Ok(None);
    }
    let found = longest(program, &|program, l| together(program, l))?;
    if found.iter().map(Loop::len).sum::<usize>() < program.eqns().len() / 2 {
        return Ok(None);
    }
    Ok(Some(cut(program, found)))
}

/// The pieces of a program that becomes machine code: bodies of loops by themselves.
pub(super) fn pieces_of_code(program: &Program) -> Result<Vec<Piece>> {
    let found = longest(program, &|_, _| Some(TOGETHER_IN_CODE))?;
    Ok(cut(program, found))
}

/// The loops of a program, where they are found to be longest.
fn longest(program: &Program, together: &Together<'_>) -> Result<Vec<Loop>> {
    let kinds = kinds(program)?;
    let all = |loops: &Vec<Loop>| loops.iter().map(Loop::len).sum::<usize>();
    let mut found: Vec<Loop> = Vec::new();
    for window in WINDOWS {
        let loops = loops(program, &kinds, window, together)?;
        if all(&loops) > all(&found) {
            found = loops;
        }
    }
    Ok(found)
}

/// A program in loops and what lies between them.
fn cut(program: &Program, found: Vec<Loop>) -> Vec<Piece> {
    let once = |eqns: std::ops::Range<usize>| Piece::once(eqns.collect());
    let mut pieces: Vec<Piece> = Vec::new();
    let mut next = 0;
    for found in found {
        pieces.push(once(next..found.first));
        next = found.first + found.len();
        found.cut(&mut pieces);
    }
    pieces.push(once(next..program.eqns().len()));
    pieces.retain(|piece| !piece.eqns.is_empty());
    pieces
}

/// For every equation a number that those share which are alike but for parameters and what they read.
fn kinds(program: &Program) -> Result<Vec<u64>> {
    let mut steps = Steps::default();
    (program.eqns().iter().enumerate())
        .map(|(k, eqn)| {
            steps.count()?;
            let mut hasher = FastHasher::default();
            eqn.prim.hash(&mut hasher);
            for &arg in program.args(eqn) {
                hasher.write_u32(program.var_avals[arg as usize]);
            }
            hasher.write_u32(program.var_avals[program.result(k) as usize]);
            Ok(hasher.finish())
        })
        .collect()
}

/// A stretch of a program that is the same body again and again.
struct Loop {
    first: usize,
    period: usize,
    count: usize,
    /// What is done with each equation of the body.
    places: Vec<Place>,
    /// How many equations of bodies are planned together at least.
    together: usize,
}

/// When an equation of a body is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before all bodies: it varies, and needs nothing of them.
    Before,
    /// With its body.
    Body,
    /// After all bodies: it varies, and no body needs it.
    After,
}

impl Loop {
    fn len(&self) -> usize {
        self.period * self.count
    }

    fn cut(&self, pieces: &mut Vec<Piece>) {
        let all = |place: Place| {
            let is_it = move |k: &usize| self.places[(k - self.first) % self.period] == place;
            let all = self.first..self.first + self.len();
            all.filter(is_it).collect::<Vec<usize>>()
        };
        let varying = |place: Place| Piece {
            varies: true,
            ..Piece::once(all(place))
        };
        let bodies = all(Place::Body);
        let body = bodies.len() / self.count;
        let together = self.together.div_ceil(body) * body;
        pieces.push(varying(Place::Before));
        pieces.extend(
            bodies
                .chunks(together)
                .map(|eqns| Piece::once(eqns.to_vec())),
        );
        pieces.push(varying(Place::After));
    }
}

/// How many equations of a loop are planned together at least; `None` where it is best not cut.
type Together<'a> = dyn Fn(&Program, &Body<'_>) -> Option<usize> + 'a;

/// All loops of a program, in order.
fn loops(
    program: &Program,
    kinds: &[u64],
    window: usize,
    together: &Together<'_>,
) -> Result<Vec<Loop>> {
    let mut found: Vec<Loop> = Vec::new();
    let mut end = 0;
    for (start, stop, period) in runs(kinds, window)? {
        // Two runs may overlap where a loop is followed by another one.
        let start = start.max(end);
        let count = stop.saturating_sub(start) / period;
        if count < OFTEN || count * period < TOGETHER {
            continue;
        }
        if let Some((places, together)) = places(program, start, period, count, together) {
            end = start + period * count;
            found.push(Loop {
                first: start,
                period,
                count,
                places,
                together,
            });
        }
    }
    Ok(found)
}

/// A body of a loop.
struct Body<'a> {
    /// The first equation of the first one.
    first: usize,
    places: &'a [Place],
}

/// How many equations of bodies the processor's kernels take together.
fn together(program: &Program, body: &Body<'_>) -> Option<usize> {
    let first = body.first;
    let mut bodies = (0..body.places.len()).filter(|&j| body.places[j] == Place::Body);
    let alone = |j: usize| matches!(role(program.eqns()[first + j].prim), Role::Alone);
    let short = |j: usize| program.aval(program.result(first + j)).size() <= ONE_TILE;
    if bodies.clone().any(alone) {
        return Some(TOGETHER);
    }
    (program.eqns().len() >= LONG_PASS && bodies.all(short)).then_some(TOGETHER_IN_PASS)
}

/// What is done with each equation of a body, and how many equations are planned together; `None` where its
/// parts hang together too much, or one pass over all bodies is better.
fn places(
    program: &Program,
    first: usize,
    period: usize,
    count: usize,
    together: &Together<'_>,
) -> Option<(Vec<Place>, usize)> {
    let len = period * count;
    let params = |k: usize| program.params(&program.eqns()[k]);
    let varies: Vec<bool> = (first..first + period)
        .map(|k| (1..count).any(|t| params(k + t * period) != params(k)))
        .collect();
    // The equation of the loop that defines a variable.
    let inside = |v: Var| {
        let k = (v as usize).checked_sub(program.num_inputs() + first)?;
        (k < len).then_some(k % period)
    };
    let reads = |j: usize, which: &dyn Fn(usize) -> bool| {
        (0..count).any(|t| {
            let args = program.args(&program.eqns()[first + j + t * period]);
            args.iter().filter_map(|&a| inside(a)).any(which)
        })
    };
    // What hangs on what goes through the body from iteration to iteration, so that a few rounds do.
    let mut before = varies.clone();
    settle(&mut before, |j, before| {
        before[j] && !reads(j, &|i| !before[i])
    })?;
    let mut after: Vec<bool> = (0..period).map(|j| varies[j] && !before[j]).collect();
    settle(&mut after, |j, after| after[j] || reads(j, &|i| after[i]))?;
    if (0..period).any(|j| before[j] && after[j]) {
        return None;
    }
    let places: Vec<Place> = (0..period)
        .map(|j| match (before[j], after[j]) {
            (true, _) => Place::Before,
            (_, true) => Place::After,
            _ => Place::Body,
        })
        .collect();
    // What is nothing but parts that vary, as reading one element after the other, is no loop.
    if !places.contains(&Place::Body) {
        return None;
    }
    let together = together(
        program,
        &Body {
            first,
            places: &places,
        },
    )?;
    // What is made before or after all bodies is there for all of them at once, and so is what is read for it.
    let bytes = |v: Var| program.aval(v).nbytes();
    let waiting = |j: usize| {
        // Of the second turn: what the first one reads may come from before.
        let eqn = &program.eqns()[first + period + j];
        let out = program.result(first + period + j);
        let of_bodies = |a: &&Var| inside(**a).is_some_and(|i| places[i] == Place::Body);
        // A result that takes the place of another one needs no memory: sums of elements.
        let in_place =
            |a: &Var| program.aval(*a) == program.aval(out) && inside(*a).is_some_and(|i| after[i]);
        let made = if eqn.prim.is_view() || program.args(eqn).iter().any(in_place) {
            0
        } else {
            bytes(out)
        };
        let read = program.args(eqn).iter().filter(of_bodies);
        made.saturating_add(read.map(|&a| bytes(a)).fold(0, usize::saturating_add))
    };
    let waiting = (0..period)
        .filter(|&j| before[j] || after[j])
        .map(|j| waiting(j).saturating_mul(count))
        .fold(0, usize::saturating_add);
    (waiting <= WAITING).then_some((places, together))
}

/// Applies a rule to all marks of a body until none changes; `None` if that takes long.
fn settle(marks: &mut [bool], rule: impl Fn(usize, &[bool]) -> bool) -> Option<()> {
    for _ in 0..ROUNDS {
        let mut changed = false;
        for j in 0..marks.len() {
            let new = rule(j, marks);
            changed |= std::mem::replace(&mut marks[j], new) != new;
        }
        if !changed {
            return Some(());
        }
    }
    None
}
