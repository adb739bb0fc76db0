//! Loops that were written out become loops again: the same bits, short programs, derivatives of both.

use cotan::aval::{Shape, SliceDim};
use cotan::kernels::Value;
use cotan::prim::{Params, Prim, Var};
use cotan::program::Builder;
use cotan::testing::{self, Rng};
use cotan::{Aval, DType, Program, ops, opt, transform};

use super::common::{close, compiled, same_bits};

fn loops(program: &Program) -> usize {
    program
        .eqns()
        .iter()
        .filter(|e| e.prim == ops::LOOP)
        .count()
}

/// Rolled: well-formed, of the same bits.
fn checked(program: &Program, inputs: &[Value]) -> Program {
    program.verify().unwrap();
    let rolled = opt::roll(program).unwrap();
    rolled
        .verify()
        .unwrap_or_else(|e| panic!("{e} in\n{rolled}"));
    let (a, b) = (
        testing::run(program, inputs).unwrap(),
        testing::run(&rolled, inputs).unwrap(),
    );
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        same_bits(a, b, &rolled);
    }
    for (a, b) in a
        .iter()
        .zip(&compiled(&rolled, inputs).unwrap().unwrap_or_default())
    {
        same_bits(a, b, &rolled);
    }
    let again = Program::parse(&rolled.to_string()).unwrap();
    assert_eq!(again.to_string(), rolled.to_string());
    rolled
}

/// The pullback, optimised, and values for its inputs.
fn pullback(program: &Program, inputs: &[Value], rng: &mut Rng) -> (Program, Vec<Value>) {
    let vjp = transform::vjp(program, &testing::inexact_inputs(program)).unwrap();
    let joint = opt::optimize(&vjp.program, opt::Passes::ALL).unwrap();
    let mut values = inputs.to_vec();
    for i in inputs.len()..joint.num_inputs() {
        let aval = joint.aval(i as Var);
        values.push(rng.array(aval.dtype, &aval.shape, -1.0, 1.0).unwrap());
    }
    (joint, values)
}

/// Both have the same gradients, up to the order of sums.
fn same_gradients(program: &Program, rolled: &Program, inputs: &[Value], rng: &mut Rng) {
    let cts: Vec<Value> = (program.outs().iter())
        .map(|&v| {
            rng.array(DType::F64, &program.aval(v).shape, -1.0, 1.0)
                .unwrap()
        })
        .collect();
    let wrt = testing::inexact_inputs(program);
    let gradients = |p: &Program| -> Vec<Value> {
        let vjp = transform::vjp(p, &wrt).unwrap();
        let mut values = inputs.to_vec();
        values.resize(vjp.program.num_inputs(), Value::scalar(0.0).unwrap());
        for (slot, ct) in vjp.cotangents.iter().zip(&cts) {
            if let Some(slot) = *slot {
                values[slot] = ct.clone();
            }
        }
        let outs = testing::run(&vjp.program, &values).unwrap();
        let zeros = |x: &Value| {
            let zeros = vec![0.0.into(); x.aval().size()];
            testing::value(x.dtype(), x.shape(), &zeros).unwrap()
        };
        (vjp.gradients.iter().zip(inputs))
            .map(|(slot, x)| slot.map_or_else(|| zeros(x), |slot| outs[slot].clone()))
            .collect()
    };
    for (a, b) in gradients(program).iter().zip(&gradients(rolled)) {
        close(a, b, rolled, 1e-9);
    }
}

/// A loop that is being written out.
struct Writing<'b> {
    b: &'b Builder,
    shape: Shape,
}

impl Writing<'_> {
    fn push(&self, prim: Prim, args: &[Var]) -> Var {
        self.b.push(prim, Params::None, args).unwrap()
    }

    fn reshaped(&self, x: Var, shape: &[usize]) -> Var {
        let params = Params::Shape(shape.into());
        self.b.push(ops::RESHAPE, params, &[x]).unwrap()
    }

    fn region(&self, i: usize) -> Params {
        let mut dims = vec![SliceDim {
            start: i,
            len: 1,
            step: 1,
        }];
        dims.extend(self.shape.iter().map(|&len| SliceDim {
            start: 0,
            len,
            step: 1,
        }));
        Params::Slice(dims.into())
    }

    /// `x[i]`.
    fn element(&self, x: Var, i: usize) -> Var {
        let row = self.b.push(ops::SLICE, self.region(i), &[x]).unwrap();
        self.reshaped(row, &self.shape)
    }

    /// `x` with `y` written to `x[i]` or added to it.
    fn write(&self, prim: Prim, x: Var, y: Var, i: usize) -> Var {
        let mut shape = self.shape.clone();
        shape.insert(0, 1);
        let row = self.reshaped(y, &shape);
        self.b.push(prim, self.region(i), &[x, row]).unwrap()
    }
}

/// What an operation of a random body reads.
#[derive(Clone, Copy)]
enum Operand {
    Carry(usize, usize),
    Element(usize, bool),
    Shared,
    Literal(usize),
    Made(usize),
    /// What an early turn made, once it is there.
    Early(usize, usize),
    /// What the forward loop made at this place in the turn that is gone through now.
    Kept(usize),
}

const BINARY: [Prim; 4] = [ops::ADD, ops::MUL, ops::SUB, ops::MAXIMUM];
const UNARY: [Prim; 4] = [ops::SIN, ops::TANH, ops::NEG, ops::SQUARE];

/// A body: operations, which of them are carried on, which are written to elements.
struct Recipe {
    operations: Vec<(Prim, Operand, Operand)>,
    carried: Vec<usize>,
    written: Option<(Prim, usize, bool)>,
    gaps: Vec<usize>,
}

const BACK: usize = 3;

fn recipe(rng: &mut Rng, turns: usize, kept: usize) -> Recipe {
    let pick = |n: usize, rng: &mut Rng| (rng.bits() % n as u64) as usize;
    let carries = 1 + pick(3, rng);
    let count = 2 + pick(6, rng);
    let mut operations = Vec::new();
    for k in 0..count {
        let operand = |rng: &mut Rng| match pick(if kept > 0 { 9 } else { 8 }, rng) {
            0 | 1 => Operand::Carry(
                pick(carries, rng),
                if pick(4, rng) == 0 {
                    1 + pick(BACK, rng)
                } else {
                    1
                },
            ),
            2 => Operand::Element(pick(3, rng), pick(2, rng) == 0),
            3 => Operand::Shared,
            4 => Operand::Literal(pick(5, rng)),
            5 if pick(3, rng) == 0 => Operand::Early(pick(count, rng), pick(4, rng)),
            8 => Operand::Kept(pick(kept, rng)),
            _ if k > 0 => Operand::Made(pick(k, rng)),
            _ => Operand::Carry(0, 1),
        };
        let (a, b) = (operand(rng), operand(rng));
        let prim = match pick(3, rng) {
            0 => UNARY[pick(4, rng)],
            _ => BINARY[pick(4, rng)],
        };
        operations.push((prim, a, b));
    }
    let carried = (0..carries).map(|_| pick(count, rng)).collect();
    let written = (pick(2, rng) == 0).then(|| {
        let prim = if pick(2, rng) == 0 {
            ops::UPDATE
        } else {
            ops::UPDATE_ADD
        };
        (prim, pick(count, rng), pick(2, rng) == 0)
    });
    let gaps = match pick(4, rng) {
        0 => vec![pick(turns, rng)],
        1 => vec![0, turns - 1],
        _ => vec![],
    };
    Recipe {
        operations,
        carried,
        written,
        gaps,
    }
}

/// Writes a loop out: what each turn made, and the array that it wrote to.
fn written_out(
    w: &Writing<'_>,
    recipe: &Recipe,
    turns: usize,
    (xs, shared, into): (&[Var], Var, Var),
    starts: &[Var],
    kept: &[Vec<Var>],
) -> (Vec<Vec<Var>>, Var) {
    let mut history: Vec<Vec<Var>> = recipe.carried.iter().map(|_| starts.to_vec()).collect();
    let mut into = into;
    let mut all: Vec<Vec<Var>> = Vec::new();
    for t in 0..turns {
        let mut made: Vec<Var> = Vec::new();
        for &(prim, a, b) in &recipe.operations {
            let get = |operand: Operand| match operand {
                Operand::Carry(c, back) => history[c][history[c].len() - back],
                Operand::Element(offset, true) => {
                    w.element(xs[offset % xs.len()], turns - 1 - t + offset)
                }
                Operand::Element(offset, false) => w.element(xs[offset % xs.len()], t + offset),
                Operand::Shared => shared,
                Operand::Literal(kind) => {
                    let t = t as f64;
                    let value = [0.5, 0.1 * t, 0.3 + 0.7 * t, (1.7 * t).sin(), t][kind];
                    w.b.number(DType::F64, value)
                }
                Operand::Made(i) => made[i],
                Operand::Early(i, turn) if turn < t => all[turn][i],
                Operand::Early(..) => shared,
                Operand::Kept(i) => kept[turns - 1 - t][i],
            };
            let a = get(a);
            let x = if UNARY.contains(&prim) {
                w.push(prim, &[a])
            } else {
                let b = get(b);
                w.push(prim, &[a, b])
            };
            // Literals have no axes.
            let x = if w.b.aval(x).shape == w.shape {
                x
            } else {
                w.b.push(ops::BROADCAST, Params::Shape(w.shape.clone()), &[x])
                    .unwrap()
            };
            made.push(x);
        }
        if recipe.gaps.contains(&t) {
            made[0] = w.push(ops::EXP, &[made[0]]);
        }
        if let Some((prim, i, backwards)) = recipe.written {
            let at = if backwards { turns - 1 - t } else { t };
            into = w.write(prim, into, made[i], at);
        }
        for (history, &i) in history.iter_mut().zip(&recipe.carried) {
            history.push(made[i]);
        }
        all.push(made);
    }
    (all, into)
}

/// A program with a loop, perhaps one that goes back through it, and some of what they made as outputs.
fn random_loops(seed: u64) -> (Program, Vec<Value>) {
    let mut rng = Rng::new(seed);
    let turns = 18 + (rng.bits() % 30) as usize;
    let shape = if rng.bits().is_multiple_of(2) {
        vec![]
    } else {
        vec![3]
    };
    let b = Builder::new();
    let mut long = vec![turns + 3];
    long.extend(&shape);
    let mut avals = vec![long.clone(), long.clone(), long, shape.clone()];
    avals.extend(std::iter::repeat_n(shape.clone(), BACK));
    let inputs: Vec<Var> = (avals.iter())
        .map(|s| b.input("", &Aval::new(DType::F64, s)))
        .collect();
    let w = Writing {
        b: &b,
        shape: shape.as_slice().into(),
    };
    let first = recipe(&mut rng, turns, 0);
    let given = (&inputs[..2], inputs[3], inputs[2]);
    let (made, into) = written_out(&w, &first, turns, given, &inputs[4..], &[]);
    let mut outs = vec![into, made[turns - 1][first.carried[0]]];
    if rng.bits().is_multiple_of(2) {
        let second = recipe(&mut rng, turns, first.operations.len());
        let (back, into) = written_out(&w, &second, turns, given, &inputs[4..], &made);
        outs.push(into);
        outs.push(back[turns - 1][0]);
        outs.push(back[turns / 2][second.operations.len() - 1]);
    }
    if rng.bits().is_multiple_of(2) {
        let i = (rng.bits() % first.operations.len() as u64) as usize;
        let column: Vec<Var> = made.iter().map(|turn| turn[i]).collect();
        outs.push(b.push(ops::STACK, Params::None, &column).unwrap());
    }
    if rng.bits().is_multiple_of(3) {
        outs.push(made[turns / 3][0]);
        outs.push(made[turns - 1][first.operations.len() - 1]);
    }
    let program = b.finish(outs).unwrap().pruned();
    let values = avals
        .iter()
        .map(|s| rng.array(DType::F64, s, -1.0, 1.0).unwrap());
    (program, values.collect())
}

#[test]
fn a_recursion_becomes_one_equation() {
    let b = Builder::new();
    let (x, a) = (
        b.input("x", &Aval::new(DType::F64, &[])),
        b.input("a", &Aval::new(DType::F64, &[])),
    );
    let mut y = x;
    for _ in 0..1000 {
        y = b.push(ops::SIN, Params::None, &[y]).unwrap();
        y = b.push(ops::MUL, Params::None, &[y, a]).unwrap();
        y = b
            .push(ops::ADD, Params::None, &[y, b.number(DType::F64, 0.1)])
            .unwrap();
    }
    let program = b.finish(vec![y]).unwrap();
    let inputs = [0.3, 0.9].map(|v| Value::scalar(v).unwrap());
    let rolled = checked(&program, &inputs);
    assert_eq!(rolled.eqns().len(), 1, "{rolled}");
    let (joint, values) = pullback(&program, &inputs, &mut Rng::new(1));
    let rolled = checked(&joint, &values);
    assert_eq!(loops(&rolled), 5, "{rolled}");
    assert!(rolled.eqns().len() <= 16, "{rolled}");
}

/// Random loops, what their reverse passes are, and the reverse passes of loops.
#[test]
fn rolled_programs_have_the_same_bits() {
    let mut rolled_at_all = 0;
    for seed in 0..300 {
        let (program, inputs) = random_loops(seed);
        let rolled = checked(&program, &inputs);
        rolled_at_all += usize::from(loops(&rolled) > 0);
        let (joint, values) = pullback(&program, &inputs, &mut Rng::new(seed));
        checked(&joint, &values);
        same_gradients(&program, &rolled, &inputs, &mut Rng::new(seed));
    }
    assert!(
        rolled_at_all > 220,
        "{rolled_at_all} of 300 programs have loops"
    );
}

/// Long sums and products add in an order that depends on how their arguments lie: with transposed matrices, columns
/// and rows from the end.
#[test]
fn layouts_keep_the_order_of_sums() {
    let n = 24;
    let mut rng = Rng::new(3);
    for backwards in [false, true] {
        for (transposes, columns, turned) in [
            (true, false, false),
            (false, true, false),
            (true, true, true),
            (false, false, true),
        ] {
            let b = Builder::new();
            let square = Aval::new(DType::F64, &[n, n]);
            let (w, xs, x) = (
                b.input("w", &square),
                b.input("xs", &square),
                b.input("x", &Aval::new(DType::F64, &[n, 1])),
            );
            let axes = Params::Axes([1, 0].into_iter().collect());
            let shaped = |x: Var, shape: &[usize]| {
                b.push(ops::RESHAPE, Params::Shape(shape.into()), &[x])
                    .unwrap()
            };
            let transposed = b.push(ops::TRANSPOSE, axes.clone(), &[w]).unwrap();
            let w = if transposes { transposed } else { w };
            let mut y = x;
            let mut total = b.number(DType::F64, 0.0);
            let mut all = Vec::new();
            for t in 0..n {
                let start = if backwards { n - 1 - t } else { t };
                let one = SliceDim {
                    start,
                    len: 1,
                    step: 1,
                };
                let whole = SliceDim {
                    start: if turned { n - 1 } else { 0 },
                    len: n,
                    step: if turned { -1 } else { 1 },
                };
                let dims = if columns { [whole, one] } else { [one, whole] };
                let slice = b
                    .push(ops::SLICE, Params::Slice(dims.into()), &[xs])
                    .unwrap();
                let row = shaped(slice, &[n]);
                let sum = b
                    .push(ops::SUM, Params::Axes([0].into_iter().collect()), &[row])
                    .unwrap();
                total = b.push(ops::ADD, Params::None, &[total, sum]).unwrap();
                y = b.push(ops::MATMUL, Params::None, &[w, y]).unwrap();
                y = b.push(ops::TANH, Params::None, &[y]).unwrap();
                y = b
                    .push(ops::ADD, Params::None, &[y, shaped(row, &[n, 1])])
                    .unwrap();
                all.push(b.push(ops::TRANSPOSE, axes.clone(), &[y]).unwrap());
            }
            all.reverse();
            let all = b.push(ops::CONCATENATE, Params::Axis(0), &all).unwrap();
            let product = b.push(ops::MATMUL, Params::None, &[all, w]).unwrap();
            let program = b.finish(vec![y, total, product]).unwrap();
            let inputs: Vec<Value> = (0..3)
                .map(|v| {
                    rng.array(DType::F64, &program.aval(v).shape, -1.0, 1.0)
                        .unwrap()
                })
                .collect();
            checked(&program, &inputs);
            let (joint, values) = pullback(&program, &inputs, &mut rng);
            checked(&joint, &values);
        }
    }
}

/// Loops in loops are loops in the bodies of loops.
#[test]
fn loops_in_loops_are_found() {
    let b = Builder::new();
    let scalar = Aval::new(DType::F64, &[]);
    let table = Aval::new(DType::F64, &[20, 18]);
    let (x, a, table) = (
        b.input("x", &scalar),
        b.input("a", &scalar),
        b.input("t", &table),
    );
    let w = Writing {
        b: &b,
        shape: Shape::new(),
    };
    let mut y = x;
    for i in 0..20 {
        for j in 0..18 {
            let one = |start| SliceDim {
                start,
                len: 1,
                step: 1,
            };
            let dims = Params::Slice([one(i), one(j)].into());
            let element = b.push(ops::SLICE, dims, &[table]).unwrap();
            let element = w.reshaped(element, &[]);
            y = w.push(ops::SIN, &[y]);
            y = w.push(ops::MUL, &[y, element]);
        }
        y = w.push(ops::ADD, &[y, a]);
    }
    let program = b.finish(vec![y]).unwrap();
    let mut rng = Rng::new(5);
    let inputs: Vec<Value> = (0..3)
        .map(|v| {
            rng.array(DType::F64, &program.aval(v).shape, 0.5, 1.5)
                .unwrap()
        })
        .collect();
    let rolled = checked(&program, &inputs);
    assert!(rolled.to_string().matches("loop[").count() <= 4, "{rolled}");
    let (joint, values) = pullback(&program, &inputs, &mut rng);
    let rolled = checked(&joint, &values);
    assert!(rolled.eqns().len() < 60, "{rolled}");
    same_gradients(&program, &opt::roll(&program).unwrap(), &inputs, &mut rng);
}
