//! The equations of a program without its literals, which stand wherever they are first read.

use crate::prim::Var;
use crate::program::{Eqn, Program};

/// What has no place.
const NONE: u32 = u32::MAX;

/// Equations in order, and the place of each variable among them.
pub(super) struct Stream<'p> {
    pub program: &'p Program,
    eqns: Vec<u32>,
    places: Vec<u32>,
}

impl<'p> Stream<'p> {
    pub fn new(program: &'p Program) -> Stream<'p> {
        let mut eqns = Vec::with_capacity(program.eqns().len());
        let mut places = vec![NONE; program.num_vars()];
        for k in 0..program.eqns().len() {
            let var = program.result(k);
            if program.literal(var).is_none() {
                places[var as usize] = eqns.len() as u32;
                eqns.push(k as u32);
            }
        }
        Stream {
            program,
            eqns,
            places,
        }
    }

    pub fn len(&self) -> usize {
        self.eqns.len()
    }

    /// The place of the equation that defines a variable; none of inputs and literals.
    pub fn place(&self, var: Var) -> Option<usize> {
        match self.places[var as usize] {
            NONE => None,
            place => Some(place as usize),
        }
    }

    /// Which equation of the program this is.
    pub fn number(&self, place: usize) -> usize {
        self.eqns[place] as usize
    }

    pub fn eqn(&self, place: usize) -> &'p Eqn {
        &self.program.eqns()[self.eqns[place] as usize]
    }

    pub fn result(&self, place: usize) -> Var {
        self.program.result(self.eqns[place] as usize)
    }

    pub fn args(&self, place: usize) -> &'p [Var] {
        self.program.args(self.eqn(place))
    }

    /// Whether two variables look the same.
    pub fn alike(&self, a: Var, b: Var) -> bool {
        let avals = &self.program.var_avals;
        avals[a as usize] == avals[b as usize] || self.program.aval(a) == self.program.aval(b)
    }
}
