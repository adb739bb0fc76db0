//! Colors for symmetric matrices, of which one of two equal entries is enough.

use super::Pattern;
use super::coloring::{NONE, fewer, fullest_first};
use crate::error::{Error, Result};
use crate::interrupt::Steps;

/// A star coloring of the graph of a symmetric pattern: neighbors have different colors, and no path of
/// four vertices has two colors only. Then an entry `(i, j)` can be read off the product with the color
/// of `j`, or, if row `i` has another entry of that color, off the product with the color of `i` in row
/// `j`. Entries on the diagonal are always read off the first.
///
/// Greedy, as in Gebremedhin, Tarafdar, Manne and Pothen, New Acyclic and Star Coloring Algorithms with
/// Application to Computing Hessians (SIAM J. Sci. Comput. 29, 2007, algorithm 4.1), in the order of the
/// columns and with the fullest first; the better of the two.
pub fn color_symmetric(pattern: &Pattern) -> Result<Vec<u32>> {
    if pattern.num_rows() != pattern.num_columns() || pattern.transposed() != *pattern {
        return Err(Error::Shape(format!(
            "sparsity: a star coloring needs a symmetric pattern; this one, of shape ({}, {}), is not",
            pattern.num_rows(),
            pattern.num_columns()
        )));
    }
    let natural: Vec<u32> = (0..pattern.num_columns() as u32).collect();
    let first = Star::new(pattern).run(&natural)?;
    let second = Star::new(pattern).run(&fullest_first(pattern))?;
    Ok(fewer(first, second))
}

/// How often a vertex has neighbors of a color.
struct Neighbors {
    color: u32,
    count: u32,
    /// The first of them that was colored.
    first: u32,
}

/// A coloring that is being made.
struct Star<'p> {
    pattern: &'p Pattern,
    colors: Vec<u32>,
    /// For each vertex the colors of its neighbors, in ascending order.
    around: Vec<Vec<Neighbors>>,
    /// For each vertex `w` the colors of neighbors `x` which have another neighbor of the color of `w`:
    /// a further neighbor of `w` with the color of `x` would make a path of two colors.
    hubs: Vec<Vec<u32>>,
    /// For each color the last vertex that may not have it.
    forbidden: Vec<u32>,
}

impl<'p> Star<'p> {
    fn new(pattern: &'p Pattern) -> Star<'p> {
        let n = pattern.num_columns();
        Star {
            pattern,
            colors: vec![NONE; n],
            around: (0..n).map(|_| Vec::new()).collect(),
            hubs: vec![Vec::new(); n],
            forbidden: vec![NONE; n + 1],
        }
    }

    fn run(mut self, order: &[u32]) -> Result<Vec<u32>> {
        let mut steps = Steps::default();
        for &v in order {
            self.forbid(v, &mut steps)?;
            let color = (0..NONE).find(|&c| self.forbidden[c as usize] != v);
            self.set(v, color.unwrap_or(NONE));
        }
        Ok(self.colors)
    }

    fn neighbors(&self, v: u32) -> impl Iterator<Item = u32> + use<'p> {
        let row = self.pattern.row(v as usize);
        row.iter().copied().filter(move |&w| w != v)
    }

    /// Marks the colors that a vertex may not have.
    fn forbid(&mut self, v: u32, steps: &mut Steps) -> Result<()> {
        for w in self.neighbors(v) {
            steps.count()?;
            let q = self.colors[w as usize];
            if q == NONE {
                continue;
            }
            self.forbidden[q as usize] = v;
            // v - w - x - y, where w and y have one color and v would have that of x.
            for &color in &self.hubs[w as usize] {
                self.forbidden[color as usize] = v;
            }
            // w - v - x - y, where w and x have one color and v would have that of y.
            if count(&self.around[v as usize], q) > 1 {
                for near in &self.around[w as usize] {
                    self.forbidden[near.color as usize] = v;
                }
            }
        }
        Ok(())
    }

    /// Gives a vertex its color.
    fn set(&mut self, v: u32, color: u32) {
        self.colors[v as usize] = color;
        for x in self.neighbors(v) {
            let around = &mut self.around[x as usize];
            let before = match around.binary_search_by_key(&color, |near| near.color) {
                Ok(at) => {
                    around[at].count += 1;
                    Some((around[at].count, around[at].first))
                }
                Err(at) => {
                    around.insert(
                        at,
                        Neighbors {
                            color,
                            count: 1,
                            first: v,
                        },
                    );
                    None
                }
            };
            let (Some((count, first)), hub) = (before, self.colors[x as usize]) else {
                continue;
            };
            if hub != NONE {
                // x is the middle of a star now, or has been before.
                self.add_hub(v, hub);
                if count == 2 {
                    self.add_hub(first, hub);
                }
            }
        }
        // v is the middle of the stars of neighbors of one color.
        for w in self.neighbors(v) {
            let q = self.colors[w as usize];
            if q != NONE && count(&self.around[v as usize], q) > 1 {
                self.add_hub(w, color);
            }
        }
    }

    fn add_hub(&mut self, w: u32, color: u32) {
        let hubs = &mut self.hubs[w as usize];
        if let Err(at) = hubs.binary_search(&color) {
            hubs.insert(at, color);
        }
    }
}

/// How many neighbors have a color.
fn count(around: &[Neighbors], color: u32) -> u32 {
    let found = around.binary_search_by_key(&color, |near| near.color);
    found.map_or(0, |at| around[at].count)
}

#[cfg(test)]
mod tests {
    use super::super::coloring::num_colors;
    use super::super::coloring::tests::random;
    use super::*;
    use crate::testing::random::Random;

    /// Whether each entry can be read off one of two products.
    fn recovers(pattern: &Pattern, colors: &[u32]) -> bool {
        let alone = |i: usize, j: u32| {
            let same = |&&k: &&u32| colors[k as usize] == colors[j as usize];
            pattern.row(i).iter().filter(same).count() == 1
        };
        (0..pattern.num_rows()).all(|i| {
            let entries = pattern.row(i).iter();
            entries
                .clone()
                .all(|&j| alone(i, j) || i != j as usize && alone(j as usize, i as u32))
        })
    }

    #[test]
    fn every_entry_is_recovered() {
        let mut rng = Random::new(9);
        for (n, density, full) in [
            (1, 1.0, 0),
            (40, 0.05, 0),
            (60, 0.1, 1),
            (50, 0.5, 0),
            (30, 0.0, 2),
        ] {
            let half = random(&mut rng, n, n, density, full);
            let back = half.transposed();
            let rows: Vec<Vec<u32>> = (0..n)
                .map(|i| {
                    let mut row = [half.row(i), back.row(i)].concat();
                    row.sort_unstable();
                    row.dedup();
                    row
                })
                .collect();
            let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            let pattern = Pattern::from_rows(n, &rows).unwrap();
            let colors = color_symmetric(&pattern).unwrap();
            assert!(recovers(&pattern, &colors));
        }
    }

    #[test]
    fn arrows_and_bands_have_few_colors() {
        let arrow: Vec<Vec<u32>> = (0..500u32)
            .map(|i| {
                if i == 0 {
                    (0..500).collect()
                } else {
                    vec![0, i]
                }
            })
            .collect();
        let band: Vec<Vec<u32>> = (0..500u32)
            .map(|i| (i.saturating_sub(1)..=(i + 1).min(499)).collect())
            .collect();
        for (rows, most) in [(arrow, 2), (band, 3)] {
            let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            let pattern = Pattern::from_rows(500, &rows).unwrap();
            let colors = color_symmetric(&pattern).unwrap();
            assert!(recovers(&pattern, &colors));
            assert_eq!(num_colors(&colors), most);
        }
    }

    #[test]
    fn a_pattern_that_is_not_symmetric_is_refused() {
        let pattern = Pattern::from_rows(2, &[&[0, 1], &[1]]).unwrap();
        assert!(color_symmetric(&pattern).is_err());
    }
}
