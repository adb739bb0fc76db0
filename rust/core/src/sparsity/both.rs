//! Colors for some rows and for columns: a Jacobian with few full rows needs few products.

use super::Pattern;
use super::coloring::{NONE, color_columns_where, fullest_first, num_colors};
use crate::error::Result;

/// At most so many numbers of rows are tried.
const TRIALS: usize = 12;

/// Colors of rows, and of columns: `u32::MAX` where a row has none. Rows with a color are read off
/// products from the left, and those of one color share no column; the others are read off products from
/// the right with colors of columns.
///
/// A direct bicoloring in the sense of Coleman and Verma, The Efficient Computation of Sparse Jacobian
/// Matrices Using Automatic Differentiation (SIAM J. Sci. Comput. 19, 1998), of the special form that the
/// fullest rows are taken from the left, all of their entries: how many, is tried for several numbers. It
/// never needs more colors than the better of rows alone and columns alone.
pub fn color_both(pattern: &Pattern) -> Result<(Vec<u32>, Vec<u32>)> {
    let order = fullest_first(pattern);
    let size = |at: usize| order.get(at).map_or(0, |&i| pattern.row(i as usize).len());
    // The number of rows from the left, and how many colors are needed at least.
    let mut trials: Vec<(usize, usize)> = Vec::new();
    let mut per_column = vec![0usize; pattern.num_columns()];
    let mut most = 0;
    for taken in 0..=order.len() {
        if taken == 0 || taken == order.len() || size(taken) < size(taken - 1) {
            trials.push((most + size(taken), taken));
        }
        for &c in order
            .get(taken)
            .map_or(&[][..], |&i| pattern.row(i as usize))
        {
            per_column[c as usize] += 1;
            most = most.max(per_column[c as usize]);
        }
    }
    trials.sort_unstable();
    let transposed = pattern.transposed();
    let mut best: Option<(usize, Vec<u32>, Vec<u32>)> = None;
    let ends = [0, order.len()];
    let promising = trials
        .iter()
        .take(TRIALS)
        .chain(trials.iter().filter(|t| ends.contains(&t.1)));
    for &(least, taken) in promising {
        if best.as_ref().is_some_and(|(count, ..)| *count <= least) {
            continue;
        }
        let mut left = vec![false; pattern.num_rows()];
        for &i in &order[..taken] {
            left[i as usize] = true;
        }
        let columns = color_columns_where(pattern, &|i| !left[i])?;
        let columns = trimmed(pattern, columns, &left);
        let rows = rows_alone(&transposed, &left)?;
        let count = num_colors(&columns) + num_colors(&rows);
        if best.as_ref().is_none_or(|(best, ..)| count < *best) {
            best = Some((count, rows, columns));
        }
    }
    let (_, rows, columns) = best.unwrap_or_default();
    Ok((rows, columns))
}

/// Colors of columns without those that have no entry in a row that is read off products with them.
fn trimmed(pattern: &Pattern, mut colors: Vec<u32>, left: &[bool]) -> Vec<u32> {
    let mut used = vec![false; colors.len()];
    for i in (0..pattern.num_rows()).filter(|&i| !left[i]) {
        for &c in pattern.row(i) {
            used[c as usize] = true;
        }
    }
    for (color, used) in colors.iter_mut().zip(used) {
        if !used {
            *color = NONE;
        }
    }
    colors
}

/// Colors of the rows that are taken from the left: the columns of the transposed pattern, of which the
/// others are left out.
fn rows_alone(transposed: &Pattern, left: &[bool]) -> Result<Vec<u32>> {
    let rows: Vec<Vec<u32>> = (0..transposed.num_rows())
        .map(|c| {
            let taken = transposed.row(c).iter().copied();
            taken.filter(|&i| left[i as usize]).collect()
        })
        .collect();
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let part = Pattern::from_rows(transposed.num_columns(), &rows)?;
    let mut colors = color_columns_where(&part, &|_| true)?;
    for (color, left) in colors.iter_mut().zip(left) {
        if !left {
            *color = NONE;
        }
    }
    Ok(colors)
}

#[cfg(test)]
mod tests {
    use super::super::coloring::color_columns;
    use super::super::coloring::tests::random;
    use super::*;
    use crate::testing::random::Random;

    /// Whether each entry is alone in the product that it is read off.
    fn recovers(pattern: &Pattern, rows: &[u32], columns: &[u32]) -> bool {
        let transposed = pattern.transposed();
        (0..pattern.num_rows()).all(|i| {
            pattern.row(i).iter().all(|&j| {
                let (line, colors, color) = match rows[i] {
                    NONE => (pattern.row(i), columns, columns[j as usize]),
                    color => (transposed.row(j as usize), rows, color),
                };
                let same = line.iter().filter(|&&k| colors[k as usize] == color);
                color != NONE && same.count() == 1
            })
        })
    }

    #[test]
    fn every_entry_is_recovered_with_no_more_colors_than_columns_alone() {
        let mut rng = Random::new(3);
        for (m, n, density, full) in [
            (0, 4, 0.0, 0),
            (4, 0, 0.0, 0),
            (30, 40, 0.1, 0),
            (40, 30, 0.05, 2),
            (60, 60, 0.02, 1),
        ] {
            let pattern = random(&mut rng, m, n, density, full);
            let (rows, columns) = color_both(&pattern).unwrap();
            assert!(recovers(&pattern, &rows, &columns));
            let count = num_colors(&rows) + num_colors(&columns);
            assert!(count <= num_colors(&color_columns(&pattern).unwrap()));
            assert!(count <= num_colors(&color_columns(&pattern.transposed()).unwrap()));
        }
    }

    #[test]
    fn an_arrow_has_three_colors() {
        let n = 100_000;
        let rows: Vec<Vec<u32>> = (0..n)
            .map(|i| if i == 0 { (0..n).collect() } else { vec![0, i] })
            .collect();
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let pattern = Pattern::from_rows(n as usize, &rows).unwrap();
        let (rows, columns) = color_both(&pattern).unwrap();
        assert!(recovers(&pattern, &rows[..], &columns));
        assert_eq!(num_colors(&rows) + num_colors(&columns), 3);
    }
}
