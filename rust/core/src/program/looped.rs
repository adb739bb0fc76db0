//! A program that is repeated: what an equation `loop` refers to.
//!
//! The inputs of the body are what it carries from step to step, a slice of each scanned array, and what
//! is the same in all steps. Its outputs are what it carries on, and what is stacked. An equation `loop`
//! takes the first carries, the scanned arrays with an axis of steps in front, and what is the same in all
//! steps. It is one of these outputs, numbered in this order: the last carries, what is stacked, and for
//! each carry the stack of what it was before each step.
//!
//! A loop may end before its length is reached: after a number of steps that is its last argument, or when its
//! first carry is false.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::Program;
use crate::aval::{Aval, DType};
use crate::error::{Error, Result};
use crate::prim::Var;

/// A body and how it is repeated.
#[derive(Debug, Clone)]
pub struct Loop {
    body: Program,
    /// How many steps there are.
    pub length: usize,
    /// How many inputs are carried from step to step.
    pub carries: usize,
    /// How many arrays are scanned.
    pub scanned: usize,
    /// Whether the last slice comes first.
    pub reverse: bool,
    /// When it ends.
    pub end: End,
    /// How many bytes the reverse pass may keep of what the carries were before each step; the others are
    /// computed again. `None`: all are kept.
    pub budget: Option<usize>,
    key: u64,
}

/// When a loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// After as many steps as it is long.
    Length,
    /// After as many steps as the last argument says, an int64 that is at most the length. What is stacked
    /// has zeros behind them.
    Count,
    /// Before a step where the first carry is false, a bool; its length is the most steps that it may take,
    /// or 0 for any number. It scans and stacks nothing.
    False,
}

/// What an output of a loop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopOutput {
    /// A carry after the last step.
    Last(usize),
    /// A stacked result: which one.
    Stacked(usize),
    /// What a carry was before each step.
    Before(usize),
}

/// The same with an axis of steps in front.
pub fn stacked(aval: &Aval, length: usize) -> Aval {
    let mut aval = aval.clone();
    aval.shape.insert(0, length);
    aval
}

impl Loop {
    /// A loop, if the body carries on what it gets.
    ///
    /// # Errors
    /// When a carry is another one after a step, or there are too few inputs or outputs.
    pub fn new(
        body: Program,
        length: usize,
        carries: usize,
        scanned: usize,
        reverse: bool,
    ) -> Result<Loop> {
        let (inputs, outs) = (body.num_inputs(), body.outs().len());
        if carries.saturating_add(scanned) > inputs || carries > outs {
            return Err(Error::Program(format!(
                "loop: a body with {inputs} inputs and {outs} outputs cannot carry {carries} and scan {scanned}"
            )));
        }
        for j in 0..carries {
            let (before, after) = (body.aval(j as Var), body.aval(body.outs()[j]));
            if before != after {
                return Err(Error::Program(format!(
                    "loop: carry {j} is {before} before a step and {after} after it"
                )));
            }
        }
        for v in body.var_avals.iter().map(|&a| &body.avals[a as usize]) {
            crate::aval::checked_size("loop", &stacked(v, length).shape)?;
        }
        let key = body.structural_hash();
        Ok(Loop {
            body,
            length,
            carries,
            scanned,
            reverse,
            end: End::Length,
            budget: None,
            key,
        })
    }

    /// The loop with another end.
    ///
    /// # Errors
    /// When it has no argument or carry that says when it ends.
    pub fn ending(self, end: End) -> Result<Loop> {
        let body = &self.body;
        let is_scalar = |v: usize, dtype: DType| *body.aval(v as Var) == Aval::new(dtype, &[]);
        let (last, own) = (
            body.num_inputs().wrapping_sub(1),
            self.carries + self.scanned,
        );
        let fits = match end {
            End::Length => true,
            End::Count => body.num_inputs() > own && is_scalar(last, DType::I64),
            End::False => {
                let nothing_else = self.scanned == 0 && self.num_stacked() == 0 && !self.reverse;
                self.carries > 0 && nothing_else && is_scalar(0, DType::Bool)
            }
        };
        if !fits {
            return Err(Error::Program(format!(
                "loop: there is nothing that says when it ends ({end:?})"
            )));
        }
        Ok(Loop { end, ..self })
    }

    /// The same with another body, which computes the same.
    ///
    /// # Errors
    /// When it has other inputs or outputs.
    pub fn with_body(&self, body: Program) -> Result<Loop> {
        let new = Loop::new(body, self.length, self.carries, self.scanned, self.reverse)?;
        Ok(new.ending(self.end)?.keeping(self.budget))
    }

    /// The loop with another budget.
    pub fn keeping(self, budget: Option<usize>) -> Loop {
        Loop { budget, ..self }
    }

    /// What is repeated.
    pub fn body(&self) -> &Program {
        &self.body
    }

    /// How many results of a step are stacked.
    pub fn num_stacked(&self) -> usize {
        self.body.outs().len() - self.carries
    }

    /// How many outputs it has.
    pub fn num_outputs(&self) -> usize {
        let before = if self.end == End::False {
            0
        } else {
            self.carries
        };
        self.body.outs().len() + before
    }

    /// What an output is.
    pub fn output(&self, output: usize) -> Option<LoopOutput> {
        let outs = self.body.outs().len();
        if output < self.carries {
            Some(LoopOutput::Last(output))
        } else if output < outs {
            Some(LoopOutput::Stacked(output - self.carries))
        } else if output < self.num_outputs() {
            Some(LoopOutput::Before(output - outs))
        } else {
            None
        }
    }

    /// What of each step is stacked for an output; `None` for a last carry.
    pub fn of_step(&self, output: LoopOutput) -> Option<Var> {
        match output {
            LoopOutput::Last(_) => None,
            LoopOutput::Before(j) => Some(self.body.outs()[j]),
            LoopOutput::Stacked(i) => Some(self.body.outs()[self.carries + i]),
        }
    }

    /// The number of an output.
    pub fn number(&self, output: LoopOutput) -> usize {
        match output {
            LoopOutput::Last(j) => j,
            LoopOutput::Stacked(i) => self.carries + i,
            LoopOutput::Before(j) => self.body.outs().len() + j,
        }
    }

    /// Dtype and shape of an input of the equation.
    pub fn input_aval(&self, i: usize) -> Aval {
        let aval = self.body.aval(i as Var);
        if (self.carries..self.carries + self.scanned).contains(&i) {
            stacked(aval, self.length)
        } else {
            aval.clone()
        }
    }

    /// Dtype and shape of an output, or why the arguments do not fit.
    pub fn infer(&self, x: &[&Aval], output: usize) -> Result<Aval> {
        let inputs = self.body.num_inputs();
        if x.len() != inputs {
            return Err(Error::Program(format!(
                "loop: its body has {inputs} inputs, but there are {} arguments",
                x.len()
            )));
        }
        for (i, given) in x.iter().enumerate() {
            let wanted = self.input_aval(i);
            if **given != wanted {
                return Err(Error::Shape(format!(
                    "loop: argument {i} has to be {wanted}, not {given}"
                )));
            }
        }
        let of_out = |o: usize| self.body.aval(self.body.outs()[o]);
        match self.output(output) {
            Some(LoopOutput::Last(j)) => Ok(of_out(j).clone()),
            Some(LoopOutput::Stacked(i)) => Ok(stacked(of_out(self.carries + i), self.length)),
            Some(LoopOutput::Before(j)) => Ok(stacked(of_out(j), self.length)),
            None => Err(Error::Program(format!(
                "loop: it has {} outputs and no output {output}",
                self.num_outputs()
            ))),
        }
    }

    /// Which carries differ from step to step in a way that depends on the marked inputs of the body:
    /// `depends` gives, for such marks, the variables that do. The marks with these carries added.
    pub fn spread(
        &self,
        mut marked: Vec<bool>,
        depends: impl Fn(&[bool]) -> Vec<bool>,
    ) -> Vec<bool> {
        loop {
            let found = depends(&marked);
            let mut grown = false;
            for j in 0..self.carries {
                if !marked[j] && found[self.body.outs()[j] as usize] {
                    marked[j] = true;
                    grown = true;
                }
            }
            if !grown {
                return marked;
            }
        }
    }

    /// The loop without what none of these outputs needs, the inputs that are left, and for each of these
    /// outputs which one of the new loop it is.
    pub fn slim(&self, outputs: &[usize]) -> Result<(Loop, Vec<usize>, Vec<usize>)> {
        let body = &self.body;
        let mut wanted = vec![false; body.outs().len()];
        for &output in outputs {
            match self.output(output) {
                Some(LoopOutput::Last(j) | LoopOutput::Before(j)) => wanted[j] = true,
                Some(LoopOutput::Stacked(i)) => wanted[self.carries + i] = true,
                None => {}
            }
        }
        if self.end == End::False {
            wanted[0] = true;
        }
        let needed = loop {
            let mut needed = body.needed(&wanted);
            if self.end == End::Count
                && let Some(count) = needed.get_mut(body.num_inputs() - 1)
            {
                *count = true;
            }
            let more: Vec<usize> = (0..self.carries)
                .filter(|&j| needed[j] && !wanted[j])
                .collect();
            if more.is_empty() {
                break needed;
            }
            for j in more {
                wanted[j] = true;
            }
        };
        let kept = |i: &usize| {
            if *i < self.carries {
                wanted[*i]
            } else {
                needed[*i]
            }
        };
        let inputs: Vec<usize> = (0..body.num_inputs()).filter(kept).collect();
        let of_body: Vec<usize> = (0..wanted.len()).filter(|&o| wanted[o]).collect();
        let vars: Vec<Var> = inputs.iter().map(|&i| i as Var).collect();
        let outs: Vec<Var> = of_body.iter().map(|&o| body.outs()[o]).collect();
        let carries = of_body.iter().filter(|&&o| o < self.carries).count();
        let first = self.carries;
        let scanned = (inputs.iter())
            .filter(|&&i| (first..first + self.scanned).contains(&i))
            .count();
        let new = Loop::new(
            body.extract(&vars, &outs),
            self.length,
            carries,
            scanned,
            self.reverse,
        )?
        .ending(self.end)?
        .keeping(self.budget);
        let place = |o: usize| of_body.binary_search(&o).unwrap_or(0);
        let numbers = (outputs.iter())
            .map(|&output| match self.output(output) {
                Some(LoopOutput::Before(j)) => new.number(LoopOutput::Before(place(j))),
                _ => place(output),
            })
            .collect();
        Ok((new, inputs, numbers))
    }
}

impl PartialEq for Loop {
    fn eq(&self, other: &Loop) -> bool {
        self.key == other.key
            && (self.length, self.carries, self.scanned)
                == (other.length, other.carries, other.scanned)
            && (self.reverse, self.end, self.budget) == (other.reverse, other.end, other.budget)
            && self.body.same_structure(&other.body)
    }
}

impl Eq for Loop {}

impl Hash for Loop {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        (self.length, self.carries, self.scanned).hash(state);
        (self.reverse, self.end, self.budget).hash(state);
    }
}

/// One object for all loops that are equal, so that their outputs are those of one.
#[derive(Debug, Default)]
pub(crate) struct SameLoops(Vec<Arc<Loop>>);

impl SameLoops {
    /// A loop that is equal to this one: the first that there was.
    pub fn of(&mut self, found: &Arc<Loop>) -> Arc<Loop> {
        let known = self.0.iter().find(|l| Arc::ptr_eq(l, found));
        if let Some(known) = known.or_else(|| self.0.iter().find(|l| *l == found)) {
            return Arc::clone(known);
        }
        self.0.push(Arc::clone(found));
        Arc::clone(found)
    }
}
