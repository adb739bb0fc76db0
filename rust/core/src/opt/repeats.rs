//! Where a list repeats itself.

use crate::error::Result;
use crate::interrupt::Steps;
use crate::util::FastMap;

/// What hashes of windows are powers of.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Stretches in which everything is like what comes a period before it: where they start and end, and the period. Two
/// places are compared by so many kinds up to them.
pub(crate) fn runs(kinds: &[u64], window: usize) -> Result<Vec<(usize, usize, usize)>> {
    let mut steps = Steps::default();
    let far = (0..window).fold(1u64, |p, _| p.wrapping_mul(BASE));
    let mut last: FastMap<u64, usize> = FastMap::default();
    let mut hash = 0u64;
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    // The last run of each period: parts of a body that are alike make periods take turns.
    let mut latest: FastMap<usize, usize> = FastMap::default();
    for (k, &kind) in kinds.iter().enumerate() {
        steps.count()?;
        hash = hash.wrapping_mul(BASE).wrapping_add(kind);
        if let Some(old) = k.checked_sub(window) {
            hash = hash.wrapping_sub(far.wrapping_mul(kinds[old]));
        }
        if k + 1 < window {
            continue;
        }
        let Some(period) = last.insert(hash, k).map(|before| k - before) else {
            continue;
        };
        // The windows that end here and a period before are alike.
        let first = k + 1 - window;
        match latest.get(&period) {
            Some(&i) if runs[i].1 >= first => runs[i].1 = k + 1,
            _ => {
                latest.insert(period, runs.len());
                runs.push((first - period, k + 1, period));
            }
        }
    }
    // Hashes may collide: what is alike is looked at.
    for (start, stop, period) in &mut runs {
        for k in *start + *period..*stop {
            steps.count()?;
            if kinds[k] != kinds[k - *period] {
                *stop = k;
                break;
            }
        }
    }
    Ok(runs)
}
