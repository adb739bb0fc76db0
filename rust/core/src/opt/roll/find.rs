//! Where a program repeats itself.

use std::hash::{Hash, Hasher};

use super::stream::Stream;
use super::stretch::{Stretch, TURNS, classify};
use crate::error::Result;
use crate::interrupt::Steps;
use crate::ops;
use crate::opt::repeats::runs;
use crate::prim::Params;
use crate::util::FastHasher;

/// Two places are compared by so many equations that come before them.
const WINDOWS: [usize; 3] = [8, 32, 512];

/// So many turns are one turn of an outer loop, at most, if they have no more equations together.
const TURNS_TOGETHER: usize = 64;
const LONGEST: usize = 4096;

/// All stretches, in order.
pub(super) fn stretches(stream: &Stream<'_>) -> Result<Vec<Stretch>> {
    let kinds = kinds(stream)?;
    let saved = |found: &[Stretch]| -> usize {
        let each = found.iter().map(|s| s.period() * (s.count - 1));
        each.sum()
    };
    let mut best: Vec<Stretch> = Vec::new();
    for window in WINDOWS {
        // Loops in the body of a loop come first: a longer window has to find much more.
        let found = by_window(stream, &kinds, window)?;
        if saved(&found) > 2 * saved(&best) {
            best = found;
        }
    }
    Ok(best)
}

/// For every equation a number that those share which are alike but for what they read and where regions start.
fn kinds(stream: &Stream<'_>) -> Result<Vec<u64>> {
    let program = stream.program;
    let mut steps = Steps::default();
    (0..stream.len())
        .map(|at| {
            steps.count()?;
            let eqn = stream.eqn(at);
            let mut hasher = FastHasher::default();
            eqn.prim.hash(&mut hasher);
            for &arg in stream.args(at) {
                hasher.write_u32(program.var_avals[arg as usize]);
            }
            hasher.write_u32(program.var_avals[stream.result(at) as usize]);
            match program.params(eqn) {
                Params::None => {}
                Params::Slice(dims) if moves(eqn.prim) => {
                    for d in dims {
                        (d.len, d.step).hash(&mut hasher);
                    }
                }
                // What is called is not looked into.
                Params::Host { .. } | Params::Custom { .. } => hasher.write_usize(at),
                params => params.hash(&mut hasher),
            }
            Ok(hasher.finish())
        })
        .collect()
}

fn moves(prim: crate::prim::Prim) -> bool {
    prim == ops::SLICE || prim == ops::UPDATE || prim == ops::UPDATE_ADD
}

fn by_window(stream: &Stream<'_>, kinds: &[u64], window: usize) -> Result<Vec<Stretch>> {
    let mut steps = Steps::default();
    let mut all: Vec<Stretch> = Vec::new();
    let mut end = 0;
    for (start, stop, period) in runs(kinds, window)? {
        // Runs may overlap where a loop is followed by another one.
        let start = start.max(end);
        if stop.saturating_sub(start) / period < TURNS {
            continue;
        }
        let mut found = Vec::new();
        // Turns of an inner loop that differ in what they read may be alike in all turns of the outer one.
        for turns in 1..=TURNS_TOGETHER {
            let period = turns * period;
            if (stop - start) / period < TURNS || (turns > 1 && period > LONGEST) {
                break;
            }
            found = of_period(stream, (start, stop), period, &mut steps)?;
            if !found.is_empty() {
                break;
            }
        }
        found.sort_by_key(|stretch| stretch.first);
        end = found.last().map_or(end, |last| last.range().end);
        all.extend(found);
    }
    Ok(all)
}

/// The stretches of this period in a part of a program.
fn of_period(
    stream: &Stream<'_>,
    (start, stop): (usize, usize),
    period: usize,
    steps: &mut Steps,
) -> Result<Vec<Stretch>> {
    let start = start + narrowest(stream, start, stop, period);
    let mut open = vec![(start, (stop - start) / period)];
    let mut found: Vec<Stretch> = Vec::new();
    while let Some((start, count)) = open.pop() {
        if count < TURNS {
            continue;
        }
        if let Some((turns, stretch)) = classify(stream, start, period, count, steps)? {
            open.push((start + turns.end * period, count - turns.end));
            open.push((start, turns.start));
            found.push(stretch);
        }
    }
    Ok(found)
}

/// Where to cut a body so that least goes from turn to turn: how many equations behind the start.
fn narrowest(stream: &Stream<'_>, start: usize, stop: usize, period: usize) -> usize {
    let middle = start + (stop - start) / period / 2 * period;
    // How far the last reader of each equation of a body is, in equations.
    let mut far = vec![0usize; period];
    for at in middle..(middle + period).min(stop) {
        for &v in stream.args(at) {
            if let Some(made) = stream.place(v).filter(|&made| made >= start) {
                let far = &mut far[(made - start) % period];
                *far = (*far).max(at - made);
            }
        }
    }
    // Bytes that are alive before each equation of a body; what is alive all the time does not matter.
    let mut change = vec![0isize; 2 * period + 1];
    for (made, &far) in far.iter().enumerate() {
        let bytes = stream.program.aval(stream.result(start + made)).nbytes();
        let bytes = isize::try_from(bytes).unwrap_or(isize::MAX / 4);
        let far = far % period;
        change[made + 1] = change[made + 1].saturating_add(bytes);
        change[made + 1 + far] = change[made + 1 + far].saturating_sub(bytes);
    }
    let mut alive = vec![0isize; period];
    let mut now = 0isize;
    for (at, by) in change.iter().enumerate() {
        now = now.saturating_add(*by);
        alive[at % period] = alive[at % period].saturating_add(now);
    }
    (0..period).min_by_key(|&at| alive[at]).unwrap_or(0)
}
