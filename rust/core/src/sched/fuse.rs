//! Which equations are computed together.
//!
//! Every equation gets a *level*: the number of complete passes over memory that must have ended
//! before it can start. Elementwise equations of one shape and level form one group, reductions of
//! what such a group computes are folded into it, and what is made of reductions of its rows, row by row
//! or along the rows, belongs to it too (`rows`). Two equations of one level never wait for each
//! other outside their group, so groups can run level by level. Fusion is this assignment and nothing
//! else: the program stays as it is.

use super::row_values::Rows;
use crate::aval::Shape;
use crate::prim::{Kernel, Prim, Var};
use crate::program::Program;
use crate::util::FastMap;

/// Where an equation is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a fused group of this index.
    Group(u32),
    /// By itself, at this level.
    Alone(u32),
    /// A layout, made whenever its source is there; the level at which that is.
    View(u32),
    /// A literal.
    Literal,
}

/// A fused group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// When it runs.
    pub level: u32,
    /// The shape it iterates over.
    pub shape: Shape,
    /// Its equations, in order.
    pub eqns: Vec<usize>,
}

/// The place of every equation, and the groups.
#[derive(Debug)]
pub(super) struct Fusion<'p> {
    pub places: Vec<Place>,
    pub groups: Vec<Group>,
    pub rows: Rows<'p>,
}

impl Fusion<'_> {
    /// The row value that a reduction of a group reads, which the same group makes.
    pub fn reduced_inside(&self, program: &Program, group: u32, k: usize) -> Option<Var> {
        let is_reduction = matches!(role(program.eqns()[k].prim), Role::Reduction);
        let row = is_reduction.then(|| self.rows.reduced(k)).flatten()?;
        self.row_inside(program, group, row.root)
    }

    /// The equation of a group whose result an equation of the same group reads as a row value.
    pub fn row_inside(&self, program: &Program, group: u32, arg: Var) -> Option<Var> {
        let root = self.rows.of(arg)?.root;
        let place = self.places[root as usize - program.num_inputs()];
        (place == Place::Group(group)).then_some(root)
    }
}

/// How a primitive takes part in fusion.
pub(super) enum Role {
    Elementwise,
    Reduction,
    View,
    Literal,
    Alone,
}

pub(super) fn role(prim: Prim) -> Role {
    if prim.is_elementwise() {
        return Role::Elementwise;
    }
    match prim.kernel_ref() {
        Some(Kernel::Reduce(_)) => Role::Reduction,
        Some(Kernel::View(_)) => Role::View,
        _ if prim == crate::ops::LITERAL => Role::Literal,
        _ => Role::Alone,
    }
}

/// Assigns equations to groups. Without `rows` nothing reads a reduction in the pass that makes it.
pub(super) fn fuse(program: &Program, has_rows: bool) -> Fusion<'_> {
    let (mut levels, rows) = assign_levels(program, has_rows);
    sink(program, &mut levels, &rows);
    let mut groups: Vec<Group> = Vec::new();
    let mut index: FastMap<(u32, Shape), u32> = FastMap::default();
    let mut last = 0;
    let places = (program.eqns().iter().enumerate())
        .map(|(k, eqn)| {
            let level = levels.start[k];
            let shape = match role(eqn.prim) {
                Role::View => return Place::View(level),
                Role::Literal => return Place::Literal,
                Role::Alone => return Place::Alone(level),
                Role::Elementwise => match rows.of(program.result(k)) {
                    Some(row) => &rows.space(row).0,
                    None => &program.aval(program.result(k)).shape,
                },
                Role::Reduction => match rows.reduced(k) {
                    Some(row)
                        if levels.start[row.root as usize - program.num_inputs()] == level =>
                    {
                        &rows.space(row).0
                    }
                    _ => &program.aval(program.args(eqn)[0]).shape,
                },
            };
            // Neighbours mostly share their group.
            let same = |g: &Group| g.level == level && g.shape == *shape;
            if !groups.get(last as usize).is_some_and(same) {
                last = *index.entry((level, shape.clone())).or_insert_with(|| {
                    groups.push(Group {
                        level,
                        shape: shape.clone(),
                        eqns: Vec::new(),
                    });
                    (groups.len() - 1) as u32
                });
            }
            groups[last as usize].eqns.push(k);
            Place::Group(last)
        })
        .collect();
    Fusion {
        places,
        groups,
        rows,
    }
}

/// For every equation the fused group that it is computed in, if it is in one; layouts, literals and
/// what has a kernel of its own are in none.
pub fn groups(program: &Program) -> Vec<Option<usize>> {
    let in_group = |place: &Place| match place {
        Place::Group(g) => Some(*g as usize),
        _ => None,
    };
    let fusion = fuse(program, true);
    fusion.places.iter().map(in_group).collect()
}

struct Levels {
    /// At which level an equation runs.
    start: Vec<u32>,
}

/// As early as possible.
fn assign_levels(program: &Program, has_rows: bool) -> (Levels, Rows<'_>) {
    let mut rows = Rows::new(program);
    let mut start = vec![0; program.eqns().len()];
    // For each variable the level from which its memory can be read.
    let mut ready = vec![0u32; program.num_vars()];
    // What is called back is called in the order of the program, and all outputs of a call come at once.
    let calls = program.calls();
    let mut last_call = 0;
    for (k, eqn) in program.eqns().iter().enumerate() {
        let out = program.result(k);
        let (shape, same_pass): (&[usize], bool) = match role(eqn.prim) {
            Role::Elementwise => (&program.aval(out).shape, true),
            Role::Reduction => (&program.aval(program.args(eqn)[0]).shape, true),
            _ => (&[], false),
        };
        let elementwise = eqn.prim.is_elementwise();
        let member = if elementwise {
            rows.member(k, &start, &ready)
        } else {
            None
        };
        let whole = (program.args(eqn).iter()).map(|&a| {
            let joins = same_pass
                && is_elementwise(program, a)
                && program.aval(a).shape.as_slice() == shape
                && rows.of(a).is_none();
            let along = rows.along(a, shape).filter(|_| elementwise);
            match along {
                Some(row) => start[row.root as usize - program.num_inputs()],
                None if joins => start[a as usize - program.num_inputs()],
                None => ready[a as usize],
            }
        });
        let reduced = match role(eqn.prim) {
            Role::Reduction => rows.reduced(k),
            _ => None,
        };
        let level = match (member, reduced) {
            (Some((row, level)), _) => {
                rows.add(row);
                level
            }
            (None, Some(row)) => start[row.root as usize - program.num_inputs()],
            (None, None) => whole.max().unwrap_or(0),
        };
        let level = match calls.members(k).first() {
            Some(&(first, _)) if first < k => start[first],
            Some(_) => level.max(last_call),
            None => level,
        };
        if !calls.members(k).is_empty() {
            last_call = last_call.max(level);
        }
        start[k] = level;
        ready[out as usize] = match role(eqn.prim) {
            Role::View | Role::Literal => level,
            _ => level + 1,
        };
        match role(eqn.prim) {
            Role::Reduction if has_rows => rows.reduction(k),
            Role::View => rows.view(k),
            _ => {}
        }
    }
    (Levels { start }, rows)
}

fn is_elementwise(program: &Program, var: Var) -> bool {
    program
        .definition(var)
        .is_some_and(|e| e.prim.is_elementwise())
}

/// Moves elementwise equations to the group that reads them, when it is a single one that runs later
/// and the move lets nothing larger than the result live longer: then the result needs no memory.
fn sink(program: &Program, levels: &mut Levels, rows: &Rows) {
    const MANY: u32 = u32::MAX;
    const NONE: u32 = u32::MAX - 1;
    // The level of the only group of its shape that reads a variable.
    let mut reader = vec![NONE; program.num_vars()];
    for &out in program.outs() {
        reader[out as usize] = MANY;
    }
    for (k, eqn) in program.eqns().iter().enumerate().rev() {
        let out = program.result(k);
        if eqn.prim.is_elementwise()
            && rows.of(out).is_none()
            && reader[out as usize] < NONE
            && reader[out as usize] > levels.start[k]
        {
            let own = program.aval(out).nbytes();
            // Inputs and literals are there all the time.
            let made = |a: &&Var| {
                let eqn = program.definition(**a);
                eqn.is_some_and(|e| e.prim != crate::ops::LITERAL)
            };
            let external: usize = (program.args(eqn).iter())
                .filter(made)
                .map(|&a| program.aval(a).nbytes())
                .sum();
            if external <= own {
                levels.start[k] = reader[out as usize];
            }
        }
        let shape = match role(eqn.prim) {
            Role::Elementwise => Some(&program.aval(out).shape),
            Role::Reduction => Some(&program.aval(program.args(eqn)[0]).shape),
            _ => None,
        };
        // What is computed row by row has a group of another shape.
        let shape = shape.filter(|_| !eqn.prim.is_elementwise() || rows.of(out).is_none());
        for &a in program.args(eqn) {
            let joins = shape == Some(&program.aval(a).shape);
            let level = levels.start[k];
            let slot = &mut reader[a as usize];
            *slot = match *slot {
                NONE if joins => level,
                other if joins && other == level => level,
                _ => MANY,
            };
        }
    }
}
