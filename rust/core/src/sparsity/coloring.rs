//! Which columns of a Jacobian may be computed in one product: those that share no row.

use super::Pattern;
use crate::error::Result;
use crate::interrupt::Steps;

/// Rows with more entries keep a list of their colors, so that no column has to look at all others.
const FULL: usize = 256;
/// The color of columns and rows without one.
pub(super) const NONE: u32 = u32::MAX;

/// A color for each column: two columns with entries in one row have different ones. The product of the
/// Jacobian with the sum of the unit vectors of a color then has each entry of these columns at a place
/// of its own.
///
/// The greedy partial distance-2 coloring of Gebremedhin, Manne and Pothen, What Color Is Your Jacobian?
/// (SIAM Review 47, 2005, algorithm 3.2): once in the order of the columns, which is best for bands, and
/// once with the fullest columns first; the better of the two. As many colors as the fullest row has
/// entries are needed in any case.
pub fn color_columns(pattern: &Pattern) -> Result<Vec<u32>> {
    color_columns_where(pattern, &|_| true)
}

/// The same when only the rows for which `counted` holds are to be recovered.
pub(super) fn color_columns_where(
    pattern: &Pattern,
    counted: &dyn Fn(usize) -> bool,
) -> Result<Vec<u32>> {
    let rows_of = pattern.transposed_where(counted);
    let least = (0..pattern.num_rows()).filter(|&i| counted(i));
    let least = least.map(|i| pattern.row(i).len()).max().unwrap_or(0);
    let natural: Vec<u32> = (0..pattern.num_columns() as u32).collect();
    let first = greedy(pattern, &rows_of, &natural)?;
    if num_colors(&first) <= least {
        return Ok(first);
    }
    let second = greedy(pattern, &rows_of, &fullest_first(&rows_of))?;
    Ok(fewer(first, second))
}

/// How many colors there are.
pub(super) fn num_colors(colors: &[u32]) -> usize {
    colors
        .iter()
        .filter(|&&c| c != NONE)
        .max()
        .map_or(0, |&c| c as usize + 1)
}

/// The coloring with fewer colors; the first of equal ones.
pub(super) fn fewer(a: Vec<u32>, b: Vec<u32>) -> Vec<u32> {
    if num_colors(&b) < num_colors(&a) {
        b
    } else {
        a
    }
}

/// The numbers of the rows, those with most entries first.
pub(super) fn fullest_first(pattern: &Pattern) -> Vec<u32> {
    let mut order: Vec<u32> = (0..pattern.num_rows() as u32).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(pattern.row(i as usize).len()));
    order
}

/// One column after the other takes the least color that no column has with which it shares a row.
fn greedy(pattern: &Pattern, rows_of: &Pattern, order: &[u32]) -> Result<Vec<u32>> {
    let mut colors = vec![NONE; pattern.num_columns()];
    let mut forbidden = vec![NONE; pattern.num_columns() + 1];
    let mut lists: Vec<Option<Box<Bits>>> = (0..pattern.num_rows())
        .map(|i| (pattern.row(i).len() > FULL).then(Box::default))
        .collect();
    let mut steps = Steps::default();
    for &v in order {
        let rows = rows_of.row(v as usize);
        let mut full: Vec<u32> = Vec::new();
        for &row in rows {
            steps.count()?;
            if lists[row as usize].is_some() {
                full.push(row);
                continue;
            }
            for &other in pattern.row(row as usize) {
                let color = colors[other as usize];
                if color != NONE {
                    forbidden[color as usize] = v;
                }
            }
        }
        let color = (0..).find_map(|word| {
            let lists = full.iter().filter_map(|&row| lists[row as usize].as_ref());
            let mut free = !lists.fold(0, |used, list| used | list.word(word));
            while free != 0 {
                let color = word * 64 + free.trailing_zeros() as usize;
                if forbidden[color] != v {
                    return Some(color as u32);
                }
                free &= free - 1;
            }
            None
        });
        let color = color.unwrap_or(NONE);
        colors[v as usize] = color;
        for row in full {
            if let Some(list) = &mut lists[row as usize] {
                list.insert(color as usize);
            }
        }
    }
    Ok(colors)
}

/// A set of colors.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn word(&self, i: usize) -> u64 {
        self.0.get(i).copied().unwrap_or(0)
    }

    fn insert(&mut self, color: usize) {
        if self.0.len() <= color / 64 {
            self.0.resize(color / 64 + 1, 0);
        }
        self.0[color / 64] |= 1 << (color % 64);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::random::Random;

    /// A pattern with entries at random, and some full rows and columns.
    pub fn random(
        rng: &mut Random,
        rows: usize,
        columns: usize,
        density: f64,
        full: usize,
    ) -> Pattern {
        let rows: Vec<Vec<u32>> = (0..rows)
            .map(|i| {
                let taken =
                    |j: usize, rng: &mut Random| i < full || j < full || rng.unit() < density;
                (0..columns)
                    .filter(|&j| taken(j, rng))
                    .map(|j| j as u32)
                    .collect()
            })
            .collect();
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        Pattern::from_rows(columns, &rows).unwrap()
    }

    #[test]
    fn columns_that_share_a_row_have_different_colors() {
        let mut rng = Random::new(5);
        for (rows, columns, density, full) in [
            (0, 3, 0.0, 0),
            (30, 20, 0.1, 0),
            (20, 40, 0.3, 1),
            (400, 600, 0.01, 2),
            (20, 600, 0.6, 0),
        ] {
            let pattern = random(&mut rng, rows, columns, density, full);
            let colors = color_columns(&pattern).unwrap();
            assert!(colors.iter().all(|&c| c != NONE));
            for i in 0..pattern.num_rows() {
                let mut seen: Vec<u32> =
                    pattern.row(i).iter().map(|&j| colors[j as usize]).collect();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen.len(), pattern.row(i).len());
            }
        }
    }

    #[test]
    fn a_band_has_as_many_colors_as_it_is_wide() {
        let rows: Vec<Vec<u32>> = (0..50u32)
            .map(|i| (i.saturating_sub(2)..=(i + 2).min(49)).collect())
            .collect();
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let pattern = Pattern::from_rows(50, &rows).unwrap();
        assert_eq!(num_colors(&color_columns(&pattern).unwrap()), 5);
    }
}
