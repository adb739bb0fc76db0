//! In which order the rows and columns of a matrix have their entries near the diagonal.

use super::Pattern;

/// The place of each index of a square pattern, by the algorithm of Cuthill and McKee: from an index at the rim on, those next
/// to what has a place come next, the ones with fewest neighbours first. (Cuthill and McKee, *Reducing the bandwidth of sparse
/// symmetric matrices*, 1969; George and Liu, *An implementation of a pseudoperipheral node finder*, 1979.)
pub fn narrow_order(pattern: &Pattern) -> Vec<u32> {
    let order = pattern.num_rows();
    let transposed = pattern.transposed();
    let neighbours = |i: usize| pattern.row(i).iter().chain(transposed.row(i)).copied();
    let degree: Vec<usize> = (0..order).map(|i| neighbours(i).count()).collect();
    let mut places = vec![u32::MAX; order];
    let mut next = 0;
    let mut seen = vec![0_u32; order];
    let mut round = 0;
    // All that is connected with an index, in the order of the algorithm; and how many steps away the last one is.
    let mut reached = |from: usize| {
        round += 1;
        seen[from] = round;
        let (mut found, mut steps, mut begin) = (vec![from as u32], 0, 0);
        while begin < found.len() {
            let end = found.len();
            for at in begin..end {
                let first = found.len();
                for other in neighbours(found[at] as usize) {
                    if seen[other as usize] != round {
                        seen[other as usize] = round;
                        found.push(other);
                    }
                }
                found[first..].sort_by_key(|&i| degree[i as usize]);
            }
            begin = end;
            steps += 1;
        }
        (found, steps)
    };
    for start in 0..order {
        if places[start] != u32::MAX {
            continue;
        }
        let (mut found, mut steps) = reached(start);
        // The farthest index, as long as others are farther from it.
        while let Some(&last) = found.last() {
            let (others, farther) = reached(last as usize);
            if farther <= steps {
                break;
            }
            (found, steps) = (others, farther);
        }
        for i in found {
            places[i as usize] = next;
            next += 1;
        }
    }
    places
}

/// How far entries are left and right of the diagonal, where indices have these places.
pub fn bandwidths(pattern: &Pattern, places: &[u32]) -> (usize, usize) {
    let (mut left, mut right) = (0, 0);
    for i in 0..pattern.num_rows() {
        for &j in pattern.row(i) {
            let (row, column) = (places[i] as usize, places[j as usize] as usize);
            left = left.max(row.saturating_sub(column));
            right = right.max(column.saturating_sub(row));
        }
    }
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::{bandwidths, narrow_order};

    fn pattern(order: usize, edges: &[(usize, usize)]) -> Pattern {
        let mut rows: Vec<Vec<u32>> = (0..order).map(|i| vec![i as u32]).collect();
        for &(i, j) in edges {
            rows[i].push(j as u32);
        }
        for row in &mut rows {
            row.sort_unstable();
            row.dedup();
        }
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        Pattern::from_rows(order, &rows).unwrap()
    }

    #[test]
    fn chains_are_found_in_any_order() {
        // The chain 0, 7, 14, … modulo 40.
        let at = |i: usize| (7 * i) % 40;
        let edges: Vec<_> = (0..39)
            .flat_map(|i| [(at(i), at(i + 1)), (at(i + 1), at(i))])
            .collect();
        let chain = pattern(40, &edges);
        let places = narrow_order(&chain);
        assert_eq!(bandwidths(&chain, &places), (1, 1));
        let mut sorted = places;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..40));
    }

    #[test]
    fn rings_and_pairs_of_chains_are_narrow() {
        let ring: Vec<_> = (0..30).map(|i| (i, (i + 1) % 30)).collect();
        let ring = pattern(30, &ring);
        let (left, right) = bandwidths(&ring, &narrow_order(&ring));
        assert!(left.max(right) <= 2, "{left} {right}");
        // Two chains of cells one behind the other, coupled cell by cell.
        let mut edges: Vec<_> = (0..19)
            .flat_map(|i| [(i, i + 1), (20 + i, 21 + i)])
            .collect();
        edges.extend((0..20).map(|i| (i, 20 + i)));
        let pair = pattern(40, &edges);
        let (left, right) = bandwidths(&pair, &narrow_order(&pair));
        assert!(left.max(right) <= 3, "{left} {right}");
    }

    #[test]
    fn parts_that_are_not_connected_follow_each_other() {
        let parts = pattern(5, &[(0, 4), (1, 3)]);
        let (left, right) = bandwidths(&parts, &narrow_order(&parts));
        assert_eq!(left.max(right), 1);
        assert!(narrow_order(&pattern(0, &[])).is_empty());
    }
}
