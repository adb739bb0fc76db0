//! When to take steps again and which states to keep, for the reversal of a number of steps with room for a
//! few states: binomial checkpointing.
//!
//! Source: Griewank and Walther, Algorithm 799: revolve, ACM Transactions on Mathematical Software 26 (2000),
//! 19-45. The number of steps that are taken again is the least possible.

/// How many steps can be reversed with room for `slots` states, that before the first step being one of them, when no
/// step is taken more than `times` times again: a binomial coefficient.
fn reach(slots: usize, times: usize) -> usize {
    let mut found: u128 = 1;
    let (few, many) = (slots.min(times) as u128, slots.max(times) as u128);
    for k in 1..=few {
        found = found * (many + k) / k;
        if found > usize::MAX as u128 {
            return usize::MAX;
        }
    }
    found as usize
}

/// How often a step is taken again at most.
fn times(steps: usize, slots: usize) -> usize {
    if slots == 1 {
        return steps.saturating_sub(1);
    }
    (0..=steps).find(|&r| reach(slots, r) >= steps).unwrap_or(0)
}

/// After how many steps the next state is kept, of `steps` that are to be reversed with room for `slots` states.
/// There are two of both at least.
pub(super) fn distance(steps: usize, slots: usize) -> usize {
    let r = times(steps, slots);
    let least = if r < 2 { 0 } else { reach(slots, r - 2) };
    least.max(steps.saturating_sub(reach(slots - 1, r))).max(1)
}

/// How many steps are taken again in all.
pub(super) fn repeated(steps: usize, slots: usize) -> usize {
    if steps == 0 {
        return 0;
    }
    let r = times(steps, slots);
    if r == 0 {
        return 0;
    }
    r.saturating_mul(steps) - reach(slots + 1, r - 1)
}

/// Something that takes steps and reverses them.
pub(super) trait Steps {
    type State;
    type Error;
    /// Goes to a state that was kept.
    fn restore(&mut self, state: &Self::State) -> Result<(), Self::Error>;
    /// The state as it is now, to be kept.
    fn keep(&mut self) -> Result<Self::State, Self::Error>;
    /// Takes step `n`.
    fn advance(&mut self, n: usize) -> Result<(), Self::Error>;
    /// Takes step `n` of the reverse pass, with the state before step `n`.
    fn reverse(&mut self, n: usize) -> Result<(), Self::Error>;
}

/// Reverses so many steps, from the last one to the first, with room for `slots` states, the first one among them.
pub(super) fn revolve<S: Steps>(
    of: &mut S,
    steps: usize,
    slots: usize,
    first: S::State,
) -> Result<(), S::Error> {
    let slots = slots.max(1);
    let mut kept = vec![(0, first)];
    let mut end = steps;
    while end > 0 {
        let Some((start, state)) = kept.last() else {
            return Ok(());
        };
        of.restore(state)?;
        let mut at = *start;
        while at + 1 < end {
            let free = slots - kept.len() + 1;
            let target = if free > 1 {
                at + distance(end - at, free)
            } else {
                end - 1
            };
            for n in at..target {
                of.advance(n)?;
            }
            at = target;
            if free > 1 && at + 1 < end {
                kept.push((at, of.keep()?));
            }
        }
        end -= 1;
        of.reverse(end)?;
        if kept.last().is_some_and(|(at, _)| *at == end) {
            kept.pop();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what is done, and checks that it can be.
    #[derive(Default)]
    struct Counted {
        at: usize,
        advanced: usize,
        reversed: Vec<usize>,
        kept: std::rc::Rc<std::cell::Cell<usize>>,
        most: usize,
    }

    struct Kept(usize, std::rc::Rc<std::cell::Cell<usize>>);

    impl Drop for Kept {
        fn drop(&mut self) {
            self.1.set(self.1.get() - 1);
        }
    }

    impl Steps for Counted {
        type State = Kept;
        type Error = ();

        fn restore(&mut self, state: &Kept) -> Result<(), ()> {
            self.at = state.0;
            Ok(())
        }

        fn keep(&mut self) -> Result<Kept, ()> {
            self.kept.set(self.kept.get() + 1);
            self.most = self.most.max(self.kept.get());
            Ok(Kept(self.at, std::rc::Rc::clone(&self.kept)))
        }

        fn advance(&mut self, n: usize) -> Result<(), ()> {
            assert_eq!(self.at, n);
            self.at += 1;
            self.advanced += 1;
            Ok(())
        }

        fn reverse(&mut self, n: usize) -> Result<(), ()> {
            assert_eq!(self.at, n);
            self.reversed.push(n);
            Ok(())
        }
    }

    fn counted(steps: usize, slots: usize) -> usize {
        let mut of = Counted::default();
        let first = of.keep().unwrap();
        revolve(&mut of, steps, slots, first).unwrap();
        let backwards: Vec<usize> = (0..steps).rev().collect();
        assert_eq!(of.reversed, backwards);
        assert!(of.most <= slots, "{} of {slots}", of.most);
        of.advanced
    }

    #[test]
    fn no_schedule_takes_fewer_steps() {
        const N: usize = 70;
        // The least number of steps by trying all places for the next state.
        let mut best = vec![vec![0usize; N + 1]; 9];
        best[1] = (0..=N).map(|l| l * l.saturating_sub(1) / 2).collect();
        for c in 2..9 {
            for l in 2..=N {
                let tried = (1..l).map(|m| m + best[c - 1][l - m] + best[c][m]);
                best[c][l] = tried.min().unwrap();
            }
        }
        for (c, row) in best.iter().enumerate().skip(1) {
            for (l, &least) in row.iter().enumerate().skip(1) {
                assert_eq!(counted(l, c), least, "{l} steps, {c} states");
                assert_eq!(repeated(l, c), least, "{l} steps, {c} states");
            }
        }
    }

    #[test]
    fn many_steps_and_many_states() {
        assert_eq!(counted(1000, 1000), 999);
        assert_eq!(repeated(1000, 5000), 999);
        assert_eq!(counted(10_000, 10), repeated(10_000, 10));
        assert_eq!(counted(5, 1), 10);
        assert_eq!(counted(0, 3), 0);
        // 184,756 steps with 10 states: each one ten times at most.
        assert_eq!(reach(10, 10), 184_756);
        assert_eq!(times(184_756, 10), 10);
    }
}
