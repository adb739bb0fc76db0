//! Factors and systems of a few equations as straight-line code: the operations of `cotan-linalg`'s plain loops in their
//! order, so that the bits are the same. Where those branch, both ways are computed and one is selected.

use crate::aval::{Aval, DType};
use crate::kernels::{Breakdown, LaneOp, Line, ScalarCode};
use crate::ops;
use crate::prim::{Params, Prim};
use crate::program::{Eqn, Program};

/// Larger matrices are left to their kernels: unrolled loops grow with the cube of the order.
const ORDER: usize = 6;
/// And so are more lines than that.
const LINES: usize = 1200;

/// Whether code has a primitive.
fn is_system(prim: Prim) -> bool {
    let all = [
        ops::LU,
        ops::NONSINGULAR_LU,
        ops::LU_SOLVE,
        ops::CHOLESKY,
        ops::SOLVE_TRIANGULAR,
    ];
    all.contains(&prim)
}

/// Roughly how many lines an equation is, if it is a small system or the factors of one.
pub(super) fn lines(program: &Program, k: usize) -> Option<usize> {
    let eqn = &program.eqns()[k];
    if !is_system(eqn.prim) {
        return None;
    }
    let a = program.aval(program.args(eqn)[0]);
    let (batch, m, n) = sizes(a);
    if !matches!(a.dtype, DType::F64 | DType::F32) || batch * m * n == 0 || m.max(n) > ORDER {
        return None;
    }
    let each = if [ops::LU, ops::NONSINGULAR_LU].contains(&eqn.prim) {
        2 * m * m * n
    } else if eqn.prim == ops::CHOLESKY {
        n * n * n / 3 + 3 * n
    } else {
        let columns = sizes(program.aval(program.result(k))).2;
        3 * n * n * columns
    };
    Some(batch * each).filter(|&lines| lines <= LINES)
}

/// How many matrices there are, and their rows and columns.
fn sizes(aval: &Aval) -> (usize, usize, usize) {
    let (rest, matrix) = aval.shape.split_at(aval.shape.len().saturating_sub(2));
    match *matrix {
        [m, n] => (rest.iter().product(), m, n),
        _ => (0, 0, 0),
    }
}

/// The elements of a matrix, row by row.
type Rows = Vec<Vec<Line>>;

/// A triangle and how it is solved with.
#[derive(Clone, Copy)]
struct Triangle {
    lower: bool,
    unit: bool,
}

/// Writes the code of an equation that is a small system, or the factors of one: the elements of the result, in row-major
/// order.
pub(super) fn system(
    code: &mut ScalarCode,
    program: &Program,
    eqn: &Eqn,
    args: &[Vec<Line>],
    out: &Aval,
) -> Option<Vec<Line>> {
    SystemWriter { code }.system(program, eqn, args, out)
}

struct SystemWriter<'c> {
    code: &'c mut ScalarCode,
}

impl SystemWriter<'_> {
    fn system(
        &mut self,
        program: &Program,
        eqn: &Eqn,
        args: &[Vec<Line>],
        out: &Aval,
    ) -> Option<Vec<Line>> {
        let a = program.aval(program.args(eqn)[0]);
        let (batch, m, n) = sizes(a);
        let part = |list: &[Line], i: usize| {
            let size = list.len() / batch;
            list[i * size..(i + 1) * size].to_vec()
        };
        let (lower, transposed, unit) = match *program.params(eqn) {
            Params::System {
                lower,
                transposed,
                unit,
            } => (lower, transposed, unit),
            _ => (false, false, false),
        };
        let mut lines = Vec::with_capacity(out.size());
        for i in 0..batch {
            let first = part(&args[0], i);
            let a: Rows = first.chunks(n).map(<[Line]>::to_vec).collect();
            if eqn.prim == ops::CHOLESKY {
                lines.extend(self.cholesky(a)?.concat());
            } else if eqn.prim == ops::SOLVE_TRIANGULAR {
                let mut b = in_rows(&part(&args[1], i), n);
                let a = if transposed { turned(&a) } else { a };
                let lower = lower != transposed;
                self.solve_triangular(&a, &mut b, Triangle { lower, unit })?;
                lines.extend(b.concat());
            } else if eqn.prim == ops::LU_SOLVE {
                let b = in_rows(&part(&args[2], i), n);
                lines.extend(self.lu_solve(&part(&args[1], i), b, transposed)?.concat());
            } else {
                let nonsingular = eqn.prim == ops::NONSINGULAR_LU;
                lines.extend(self.lu(a, (m, n), nonsingular)?);
            }
        }
        Some(lines)
    }

    fn of_one(&mut self, op: LaneOp, x: Line) -> Option<Line> {
        Some(self.code.lanes(op, &[vec![x]])?[0])
    }

    fn select(&mut self, condition: Line, x: Line, y: Line) -> Option<Line> {
        let lists = [vec![condition], vec![x], vec![y]];
        Some(self.code.lanes(LaneOp::Where, &lists)?[0])
    }

    /// A number of a float type.
    fn float(&mut self, dtype: DType, x: f64) -> Line {
        let bits = match dtype {
            DType::F32 => u64::from((x as f32).to_bits()),
            _ => x.to_bits(),
        };
        self.code.number(dtype, bits)
    }

    /// `x - l * y`, each rounded.
    fn without(&mut self, x: Line, l: Line, y: Line) -> Option<Line> {
        let product = self.code.combine(LaneOp::Mul, l, y)?;
        self.code.combine(LaneOp::Sub, x, product)
    }

    /// The packed LU decomposition by partial pivoting.
    fn lu(&mut self, mut a: Rows, (m, n): (usize, usize), nonsingular: bool) -> Option<Vec<Line>> {
        let dtype = self.code.dtype(a[0][0]);
        let zero = self.float(dtype, 0.0);
        let mut sign = self.float(dtype, 1.0);
        let mut perm: Vec<Line> = (0..m).map(|i| self.float(dtype, i as f64)).collect();
        for j in 0..m.min(n) {
            let taken = self.pivot(&a, j)?;
            for c in 0..n {
                let column: Vec<Line> = a[j..].iter().map(|row| row[c]).collect();
                for (row, x) in a[j..].iter_mut().zip(self.exchanged(&column, &taken)?) {
                    row[c] = x;
                }
            }
            let exchanged = self.exchanged(&perm[j..], &taken)?;
            perm.splice(j.., exchanged);
            for &is_taken in &taken {
                let other = self.of_one(LaneOp::Neg, sign)?;
                sign = self.select(is_taken, other, sign)?;
            }
            let pivot = a[j][j];
            let singular = self.code.combine(LaneOp::Eq, pivot, zero)?;
            if nonsingular {
                self.code.breaks_down(singular, Breakdown::Singular)?;
            }
            if j + 1 == m {
                continue;
            }
            let inverse = self.of_one(LaneOp::Reciprocal, pivot)?;
            for row in &mut a[j + 1..] {
                let scaled = self.code.combine(LaneOp::Mul, row[j], inverse)?;
                row[j] = self.select(singular, row[j], scaled)?;
            }
            for c in j + 1..n {
                let factor = a[j][c];
                let nothing = self.code.combine(LaneOp::Eq, factor, zero)?;
                let stays = self.code.combine(LaneOp::Or, singular, nothing)?;
                for row in &mut a[j + 1..] {
                    let less = self.without(row[c], row[j], factor)?;
                    row[c] = self.select(stays, row[c], less)?;
                }
            }
        }
        let mut packed = turned(&a).concat();
        packed.extend(perm);
        packed.push(sign);
        Some(packed)
    }

    /// For each row below row `j` whether it is the pivot's: the first of those whose element is largest.
    fn pivot(&mut self, a: &Rows, j: usize) -> Option<Vec<Line>> {
        let mut largest = self.of_one(LaneOp::Abs, a[j][j])?;
        let mut larger = Vec::new();
        for row in &a[j + 1..] {
            let size = self.of_one(LaneOp::Abs, row[j])?;
            let is_larger = self.code.combine(LaneOp::Gt, size, largest)?;
            largest = self.select(is_larger, size, largest)?;
            larger.push(is_larger);
        }
        // The last one that was larger than all before.
        let mut later: Option<Line> = None;
        for is_larger in larger.iter_mut().rev() {
            let own = *is_larger;
            if let Some(later) = later {
                let none = self.of_one(LaneOp::Not, later)?;
                *is_larger = self.code.combine(LaneOp::And, own, none)?;
            }
            later = Some(match later {
                Some(later) => self.code.combine(LaneOp::Or, later, own)?,
                None => own,
            });
        }
        Some(larger)
    }

    /// A list whose first element has changed places with the one that is taken, if one is.
    fn exchanged(&mut self, list: &[Line], taken: &[Line]) -> Option<Vec<Line>> {
        let mut exchanged = list.to_vec();
        for (i, &is_taken) in taken.iter().enumerate() {
            exchanged[0] = self.select(is_taken, list[i + 1], exchanged[0])?;
            exchanged[i + 1] = self.select(is_taken, list[0], list[i + 1])?;
        }
        Some(exchanged)
    }

    /// Solves with a triangle of a matrix in place.
    fn solve_triangular(&mut self, a: &Rows, b: &mut Rows, how: Triangle) -> Option<()> {
        let n = a.len();
        for step in 0..n {
            let j = if how.lower { step } else { n - 1 - step };
            if !how.unit {
                let inverse = self.of_one(LaneOp::Reciprocal, a[j][j])?;
                let factors = [b[j].clone(), vec![inverse; b[j].len()]];
                b[j] = self.code.lanes(LaneOp::Mul, &factors)?;
            }
            let known = b[j].clone();
            for i in if how.lower { j + 1..n } else { 0..j } {
                let factors = [vec![a[i][j]; known.len()], known.clone()];
                let products = self.code.lanes(LaneOp::Mul, &factors)?;
                b[i] = self.code.lanes(LaneOp::Sub, &[b[i].clone(), products])?;
            }
        }
        Some(())
    }

    /// Solves with a packed LU decomposition.
    fn lu_solve(&mut self, packed: &[Line], b: Rows, transposed: bool) -> Option<Rows> {
        let n = b.len();
        let dtype = self.code.dtype(packed[0]);
        // Packed columns are the rows of the transposed matrix.
        let columns = in_rows(&packed[..n * n], n);
        // Whether row `i` of the factors is row `p` of the matrix.
        let mut is: Vec<Vec<Line>> = Vec::with_capacity(n);
        for &row in &packed[n * n..n * n + n] {
            let mut list = Vec::with_capacity(n);
            for p in 0..n {
                let p = self.float(dtype, p as f64);
                list.push(self.code.combine(LaneOp::Eq, row, p)?);
            }
            is.push(list);
        }
        let (unit, plain) = (true, false);
        let how = |lower, unit| Triangle { lower, unit };
        if transposed {
            let mut x = b;
            self.solve_triangular(&columns, &mut x, how(true, plain))?;
            self.solve_triangular(&columns, &mut x, how(false, unit))?;
            return self.chosen(&x, &turned(&is));
        }
        let mut x = self.chosen(&b, &is)?;
        let rows = turned(&columns);
        self.solve_triangular(&rows, &mut x, how(true, unit))?;
        self.solve_triangular(&rows, &mut x, how(false, plain))?;
        Some(x)
    }

    /// The rows in another order: `is[i][p]` says whether row `i` is row `p` of these.
    fn chosen(&mut self, rows: &Rows, is: &Rows) -> Option<Rows> {
        let mut chosen = Vec::with_capacity(rows.len());
        for is in is {
            let mut row = rows[0].clone();
            for (p, other) in rows.iter().enumerate().skip(1) {
                for (x, &y) in row.iter_mut().zip(other) {
                    *x = self.select(is[p], y, *x)?;
                }
            }
            chosen.push(row);
        }
        Some(chosen)
    }

    /// The lower Cholesky factor.
    fn cholesky(&mut self, mut a: Rows) -> Option<Rows> {
        let dtype = self.code.dtype(a[0][0]);
        let zero = self.float(dtype, 0.0);
        for j in 0..a.len() {
            let mut square = a[j][j];
            for &x in &a[j].clone()[..j] {
                square = self.without(square, x, x)?;
            }
            let positive = self.code.combine(LaneOp::Gt, square, zero)?;
            let fails = self.of_one(LaneOp::Not, positive)?;
            self.code.breaks_down(fails, Breakdown::NotPositive)?;
            let root = self.of_one(LaneOp::Sqrt, square)?;
            let inverse = self.of_one(LaneOp::Reciprocal, root)?;
            a[j][j] = root;
            a[j][j + 1..].fill(zero);
            for i in j + 1..a.len() {
                let mut x = a[i][j];
                for (&l, &y) in a[i][..j].iter().zip(&a[j][..j]) {
                    x = self.without(x, l, y)?;
                }
                a[i][j] = self.code.combine(LaneOp::Mul, x, inverse)?;
            }
        }
        Some(a)
    }
}

/// A list as rows, so many of them.
fn in_rows(list: &[Line], rows: usize) -> Rows {
    let size = list.len() / rows;
    (0..rows)
        .map(|i| list[i * size..(i + 1) * size].to_vec())
        .collect()
}

/// The transposed matrix.
fn turned(rows: &Rows) -> Rows {
    (0..rows[0].len())
        .map(|c| rows.iter().map(|row| row[c]).collect())
        .collect()
}
