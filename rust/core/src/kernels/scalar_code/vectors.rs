//! Which lines are computed side by side, in vectors of 128 bits.
//!
//! Lines of one row of an array are one operation on neighbours. Where that takes fewer instructions, some of them are a
//! vector: what they read is neighbours, too, or the same for all, or is put together seldom enough. Each element is
//! rounded as it was, so no bit changes.

use super::{Line, Op, ScalarCode};
use crate::aval::DType;
use crate::kernels::lane::{LaneOp, pair};
use crate::util::FastMap;

/// No line.
pub(super) const NONE: Line = Line::MAX;

/// The lines of a vector, or a single one; others are [`NONE`].
pub(super) type Lines = [Line; 4];

/// Whether the code generator has vectors wherever it knows the processor.
pub(super) const VECTORS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// How many elements a vector has; 1 where there are no vectors.
pub(super) fn width(dtype: DType) -> usize {
    match dtype {
        DType::F64 => 2,
        DType::F32 => 4,
        _ => 1,
    }
}

/// What vectors save of the instructions of each element but the first; `None` where there is no such operation on them.
fn weight(op: Op) -> Option<f64> {
    match op {
        // Its result lies where an operand has been, which is copied first.
        Op::MultiplyAdd(_) => Some(3.0),
        Op::Lane { op, .. } => match op {
            LaneOp::Add
            | LaneOp::Sub
            | LaneOp::Mul
            | LaneOp::Square
            | LaneOp::Neg
            | LaneOp::Abs => Some(2.0),
            LaneOp::Div | LaneOp::Sqrt => Some(5.0),
            _ => None,
        },
        _ => None,
    }
}

impl ScalarCode {
    /// The same code, where of lines that compute the same only the first one is read.
    pub(super) fn merged(&self) -> ScalarCode {
        let mut code = self.clone();
        let mut firsts: Vec<Line> = Vec::with_capacity(code.lines.len());
        let mut known: FastMap<(Op, DType), Line> = FastMap::default();
        for (k, (op, dtype)) in code.lines.iter_mut().enumerate() {
            for arg in op.args_mut() {
                *arg = firsts[*arg as usize];
            }
            let own = k as Line;
            // Results are told apart by what lies before them.
            firsts.push(match op {
                Op::Lanes { .. } | Op::Result { .. } => own,
                _ => *known.entry((*op, *dtype)).or_insert(own),
            });
        }
        let first = |line: &mut Line| *line = firsts[*line as usize];
        code.operands.iter_mut().for_each(first);
        code.stores.iter_mut().for_each(|(_, _, line)| first(line));
        code.breakdowns.iter_mut().for_each(|(line, _)| first(line));
        code
    }

    /// For each line the first one of its vector; [`NONE`] for those that are in none.
    pub(super) fn vectors(&self, needed: &[bool]) -> Vec<Line> {
        let mut stores: FastMap<Line, Vec<(u32, u32)>> = FastMap::default();
        for &(output, index, line) in &self.stores {
            stores.entry(line).or_default().push((output, index));
        }
        let mut choice = Choice {
            code: self,
            vectors: vec![NONE; self.lines.len()],
            gathered: FastMap::default(),
            single: Vec::new(),
            stores,
        };
        let mut firsts = self.candidates(needed);
        loop {
            choice.count(&firsts, needed);
            let before = firsts.len();
            firsts.retain(|&first| choice.gain(first) > 0.0);
            if firsts.len() == before {
                return choice.vectors;
            }
        }
    }

    /// The first lines of all vectors that there could be.
    fn candidates(&self, needed: &[bool]) -> Vec<Line> {
        let mut firsts = Vec::new();
        for &(row, count) in &self.rows {
            let (op, dtype) = self.lines[row as usize];
            let width = width(dtype) as Line;
            if !VECTORS || width == 1 || weight(op).is_none() {
                continue;
            }
            firsts.extend((0..count / width).map(|i| row + i * width).filter(|&k| {
                (k..k + width).all(|line| {
                    let args = self.lines[line as usize].0.args();
                    needed[line as usize] && args.iter().all(|&arg| arg < k)
                })
            }));
        }
        firsts
    }

    /// Whether elements are neighbours in memory: those of an input, and results of one call.
    pub(super) fn lie_side_by_side(&self, lines: &[Line]) -> bool {
        let op = |line: Line| self.lines[line as usize].0;
        let follow = |first: u32, of: &dyn Fn(u32) -> Op| {
            (lines.iter().zip(first..)).all(|(&line, index)| op(line) == of(index))
        };
        match op(lines[0]) {
            Op::Element { input, index } => follow(index, &|index| Op::Element { input, index }),
            Op::Result { number } => {
                let in_order = lines.iter().zip(lines[0]..).all(|(&line, k)| line == k);
                in_order && follow(number, &|number| Op::Result { number })
            }
            _ => false,
        }
    }

    /// What a call reads, in vectors where that is what there is; `vectors` as of [`ScalarCode::vectors`].
    pub(super) fn in_vectors(&self, list: &[Line], vectors: &[Line]) -> Vec<Lines> {
        let width = list.first().map_or(1, |&x| width(self.lines[x as usize].1));
        let mut left = list;
        let mut all = Vec::new();
        while let Some(&first) = left.first() {
            let (lines, rest) = left.split_at(width.min(left.len()));
            let in_order = lines.iter().zip(first..).all(|(&line, k)| line == k);
            let is_vector = in_order && vectors[first as usize] == first;
            if width > 1 && lines.len() == width && (is_vector || self.lie_side_by_side(lines)) {
                let mut group = [NONE; 4];
                group[..width].copy_from_slice(lines);
                all.push(group);
                left = rest;
            } else {
                all.push([first, NONE, NONE, NONE]);
                left = &left[1..];
            }
        }
        all
    }

    /// The lines that a vector reads as one of its operands.
    pub(super) fn read_by(&self, first: Line, operand: usize) -> Lines {
        let width = width(self.lines[first as usize].1);
        let mut lines = [NONE; 4];
        for (i, line) in lines[..width].iter_mut().enumerate() {
            *line = self.lines[first as usize + i].0.args()[operand];
        }
        lines
    }
}

/// For each line that is the sine or the cosine of an angle whose other one is needed too, that one.
pub(super) fn pairs(code: &ScalarCode, needed: &[bool]) -> FastMap<u32, u32> {
    let mut met: FastMap<(u32, LaneOp), u32> = FastMap::default();
    let mut pairs = FastMap::default();
    for (k, &(op, dtype)) in code.lines.iter().enumerate().filter(|&(k, _)| needed[k]) {
        let Op::Lane { op, args } = op else { continue };
        let other = match op {
            LaneOp::Sin => LaneOp::Cos,
            LaneOp::Cos => LaneOp::Sin,
            _ => continue,
        };
        let k = k as u32;
        match met.get(&(args[0], other)) {
            Some(&first) if pair(other, op, dtype).is_some() && !pairs.contains_key(&first) => {
                pairs.insert(first, k);
                pairs.insert(k, first);
            }
            _ => {
                met.insert((args[0], op), k);
            }
        }
    }
    pairs
}

/// Vectors while they are chosen.
struct Choice<'c> {
    code: &'c ScalarCode,
    vectors: Vec<Line>,
    /// How often elements are put together.
    gathered: FastMap<Lines, u32>,
    /// Whether a line is read by itself.
    single: Vec<bool>,
    stores: FastMap<Line, Vec<(u32, u32)>>,
}

/// How a vector comes to an operand.
enum Source {
    /// As it is.
    Whole,
    /// One element for all.
    Same,
    /// From elements here and there.
    Gathered,
}

impl Choice<'_> {
    fn source(&self, lines: &Lines) -> Source {
        let first = lines[0];
        let lines = lines.split(|&line| line == NONE).next().unwrap_or(lines);
        let op = |line: Line| self.code.lines[line as usize].0;
        let is_number = |&line: &Line| matches!(op(line), Op::Number(_));
        if lines.iter().all(is_number) {
            return Source::Whole;
        }
        if lines.iter().all(|&line| line == first) {
            return Source::Same;
        }
        let in_order = lines.iter().zip(first..).all(|(&line, k)| line == k);
        if in_order && self.vectors[first as usize] == first {
            return Source::Whole;
        }
        if self.code.lie_side_by_side(lines) {
            return Source::Whole;
        }
        Source::Gathered
    }

    /// Looks at who reads what, if these are the vectors.
    fn count(&mut self, firsts: &[Line], needed: &[bool]) {
        let code = self.code;
        self.vectors.fill(NONE);
        for &first in firsts {
            let width = width(code.lines[first as usize].1);
            self.vectors[first as usize..first as usize + width].fill(first);
        }
        self.gathered.clear();
        self.single = vec![false; code.lines.len()];
        for k in (0..code.lines.len()).filter(|&k| needed[k]) {
            let op = &code.lines[k].0;
            if self.vectors[k] == NONE {
                op.args()
                    .iter()
                    .for_each(|&x| self.single[x as usize] = true);
                continue;
            }
            if self.vectors[k] != k as Line {
                continue;
            }
            for operand in 0..op.args().len() {
                let lines = code.read_by(k as Line, operand);
                match self.source(&lines) {
                    Source::Whole => continue,
                    Source::Same => {}
                    Source::Gathered => *self.gathered.entry(lines).or_default() += 1,
                }
                for &line in lines.iter().filter(|&&line| line != NONE) {
                    self.single[line as usize] = true;
                }
            }
        }
        code.operands
            .iter()
            .for_each(|&x| self.single[x as usize] = true);
    }

    /// How many instructions a vector saves, roughly.
    fn gain(&self, first: Line) -> f64 {
        let (op, dtype) = self.code.lines[first as usize];
        let width = width(dtype);
        let lines = first as usize..first as usize + width;
        let mut gain = weight(op).unwrap_or(0.0) * (width - 1) as f64;
        for operand in 0..op.args().len() {
            let lines = self.code.read_by(first, operand);
            gain -= match self.source(&lines) {
                Source::Whole => 0.0,
                Source::Same => 0.5,
                Source::Gathered => width as f64 / f64::from(self.gathered[&lines]),
            };
        }
        if self.single[lines.clone()].contains(&true) {
            gain -= 1.0;
        }
        for &(output, index) in self.stores.get(&first).into_iter().flatten() {
            let has = |(line, index)| {
                let stores = self.stores.get(&(line as Line));
                stores.is_some_and(|stores| stores.contains(&(output, index)))
            };
            gain += if lines.clone().zip(index..).all(has) {
                (width - 1) as f64
            } else {
                -1.0
            };
        }
        gain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A product of matrices of order four, whose second one is read by columns if it is `turned`.
    fn product(turned: bool) -> (ScalarCode, Vec<Line>) {
        let mut code = ScalarCode::new();
        let zero = code.number(DType::F64, 0);
        let [a, b] = [(); 2].map(|()| code.input(DType::F64, 16));
        let at = |i: usize, j: usize| if turned { b[4 * j + i] } else { b[4 * i + j] };
        let mut results = Vec::new();
        for row in a.chunks(4) {
            let mut sums = vec![zero; 4];
            for (l, &x) in row.iter().enumerate() {
                let y: Vec<Line> = (0..4).map(|j| at(l, j)).collect();
                sums = code.multiply_add(&[x; 4], &y, &sums).unwrap();
            }
            results.extend(sums);
        }
        (code, results)
    }

    #[test]
    fn products_are_vectors() {
        if !VECTORS {
            return;
        }
        for turned in [false, true] {
            let (mut code, results) = product(turned);
            code.output(DType::F64, &results).unwrap();
            let vectors = code.vectors(&code.needed());
            let of_products =
                (0..code.len()).filter(|&k| matches!(code.lines[k].0, Op::MultiplyAdd(_)));
            let of_products: Vec<usize> = of_products.collect();
            assert_eq!(of_products.len(), 64);
            assert!(of_products.iter().all(|&k| vectors[k] != NONE));
        }
    }

    #[test]
    fn a_sum_of_what_lies_here_and_there_is_none() {
        let mut code = ScalarCode::new();
        let x = code.input(DType::F64, 8);
        let lists = [vec![x[0], x[3]], vec![x[6], x[1]]];
        let sum = code.lanes(LaneOp::Add, &lists).unwrap();
        let out = code.combine(LaneOp::Mul, sum[0], sum[1]).unwrap();
        code.output(DType::F64, &[out]).unwrap();
        assert!(code.vectors(&code.needed()).iter().all(|&k| k == NONE));
    }

    #[test]
    fn lines_that_are_alike_are_one() {
        let mut code = ScalarCode::new();
        let x = code.input(DType::F64, 2);
        let sum = |code: &mut ScalarCode| code.combine(LaneOp::Add, x[0], x[1]).unwrap();
        let sums = [sum(&mut code), sum(&mut code)];
        let product = code.combine(LaneOp::Mul, sums[0], sums[1]).unwrap();
        code.output(DType::F64, &[product, sums[1]]).unwrap();
        let merged = code.merged();
        let needed = merged.needed();
        assert_eq!(sums.map(|k| needed[k as usize]), [true, false]);
        assert_eq!(merged.stores[1].2, sums[0]);
    }
}
