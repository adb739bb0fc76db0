//! Minimum cuts of small networks, by blocking flows (Dinic 1970).

/// More than any sum of capacities that are meant to be cut.
pub(super) const NEVER: u64 = 1 << 60;

/// A network of edges with capacities between numbered nodes.
pub(super) struct Network {
    /// For each node its last edge.
    last: Vec<u32>,
    /// In pairs: an edge, and the way back.
    edges: Vec<Edge>,
}

struct Edge {
    to: u32,
    /// The edge of the same node before it.
    before: u32,
    /// What can still flow.
    room: u64,
}

const NONE: u32 = u32::MAX;

impl Network {
    /// So many nodes without edges.
    pub fn new(nodes: usize) -> Network {
        Network {
            last: vec![NONE; nodes],
            edges: Vec::with_capacity(8 * nodes),
        }
    }

    /// Adds an edge.
    pub fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        for (from, to, room) in [(from, to, capacity), (to, from, 0)] {
            let before = std::mem::replace(&mut self.last[from], self.edges.len() as u32);
            self.edges.push(Edge {
                to: to as u32,
                before,
                room,
            });
        }
    }

    /// For each node whether it is on the source's side of the minimum cut; of several cuts it is the one
    /// nearest to the source.
    pub fn cut(mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let levels = self.levels(source);
            if levels[sink] == NONE {
                return levels.into_iter().map(|level| level != NONE).collect();
            }
            self.fill(source, sink, &levels);
        }
    }

    /// How many edges with room lead from the source to each node.
    fn levels(&self, source: usize) -> Vec<u32> {
        let mut levels = vec![NONE; self.last.len()];
        levels[source] = 0;
        let mut queue = vec![source];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            let mut e = self.last[node];
            while e != NONE {
                let edge = &self.edges[e as usize];
                if edge.room > 0 && levels[edge.to as usize] == NONE {
                    levels[edge.to as usize] = levels[node] + 1;
                    queue.push(edge.to as usize);
                }
                e = edge.before;
            }
        }
        levels
    }

    /// Lets flow what can along shortest paths.
    fn fill(&mut self, source: usize, sink: usize, levels: &[u32]) {
        // The edge of each node that is tried next: what led nowhere once does so until the levels change.
        let mut current = self.last.clone();
        let mut path: Vec<u32> = Vec::new();
        let mut node = source;
        loop {
            if node == sink {
                let flow = path.iter().map(|&e| self.edges[e as usize].room).min();
                let flow = flow.unwrap_or(0);
                let mut full = path.len();
                for (i, &e) in path.iter().enumerate().rev() {
                    self.edges[e as usize].room -= flow;
                    self.edges[e as usize ^ 1].room += flow;
                    if self.edges[e as usize].room == 0 {
                        full = i;
                    }
                }
                // On from before the first edge that is full now.
                node = self.edges[path[full] as usize ^ 1].to as usize;
                path.truncate(full);
                continue;
            }
            let e = current[node];
            if e != NONE {
                let edge = &self.edges[e as usize];
                if edge.room > 0 && levels[edge.to as usize] == levels[node] + 1 {
                    path.push(e);
                    node = edge.to as usize;
                } else {
                    current[node] = edge.before;
                }
            } else if let Some(e) = path.pop() {
                node = self.edges[e as usize ^ 1].to as usize;
                current[node] = self.edges[e as usize].before;
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random::Random;

    /// Against every way to divide the nodes.
    #[test]
    fn no_cut_is_smaller() {
        let mut random = Random::new(1);
        let mut random = |below: u64| random.below(below as usize) as u64;
        for _ in 0..300 {
            let nodes = 2 + random(6) as usize;
            let edges: Vec<(usize, usize, u64)> = (0..random(20))
                .map(|_| {
                    let from = random(nodes as u64) as usize;
                    (from, random(nodes as u64) as usize, random(9))
                })
                .collect();
            let mut network = Network::new(nodes);
            for &(from, to, capacity) in &edges {
                network.edge(from, to, capacity);
            }
            let size = |side: &dyn Fn(usize) -> bool| -> u64 {
                let crossing = edges.iter().filter(|e| side(e.0) && !side(e.1));
                crossing.map(|e| e.2).sum()
            };
            let found = network.cut(0, 1);
            assert!(found[0] && !found[1]);
            let least = (0..1u32 << nodes)
                .filter(|set| set & 3 == 1)
                .map(|set| size(&|node| set >> node & 1 == 1))
                .min();
            assert_eq!(Some(size(&|node| found[node])), least, "{edges:?}");
        }
    }
}
