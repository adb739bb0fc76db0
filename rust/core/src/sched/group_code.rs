//! The kernels of groups: which inputs they read, what they compute, and which results they write to memory.

use smallvec::SmallVec;

use super::fuse::{Fusion, Place};
use super::spreads::Spreads;
use crate::error::Result;
use crate::kernels::{FusedBuilder, Reg};
use crate::prim::{Kernel, Var};
use crate::program::Program;

/// The kernel of a group.
pub(super) struct GroupCode {
    /// Which group.
    g: usize,
    /// Whether its tiles are whole rows.
    has_rows: bool,
    pub fused: FusedBuilder,
    pub inputs: SmallVec<[Var; 4]>,
    pub outputs: SmallVec<[Var; 2]>,
    /// Reductions that it cannot do.
    pub refused: Vec<usize>,
}

/// Writes the kernels of the groups of a program, one after the other.
pub(super) struct GroupCodes<'p> {
    program: &'p Program,
    fusion: &'p Fusion<'p>,
    /// For each variable whether anything but groups that compute it reads it.
    read_outside: Vec<bool>,
    spreads: Spreads,
    /// For each variable the last group that has it, and its register there; a row value's is that of its
    /// elements repeated.
    regs: Vec<Option<(usize, Reg)>>,
    /// The same for registers with one element for each row.
    row_regs: Vec<Option<(usize, Reg)>>,
}

impl<'p> GroupCodes<'p> {
    pub fn new(program: &'p Program, fusion: &'p Fusion<'p>) -> GroupCodes<'p> {
        let spreads = Spreads::of(program, fusion);
        GroupCodes {
            program,
            fusion,
            read_outside: read_outside(program, fusion, &spreads),
            spreads,
            regs: vec![None; program.num_vars()],
            row_regs: vec![None; program.num_vars()],
        }
    }

    /// For every variable, whether anything but groups that compute it reads it.
    pub fn read_outside(&self) -> &[bool] {
        &self.read_outside
    }

    /// The kernel of a group. `count` is called for each equation.
    pub fn write(&mut self, g: usize, count: &mut impl FnMut() -> Result<()>) -> Result<GroupCode> {
        let mut code = self.begin(g);
        for &k in &self.fusion.groups[g].eqns {
            count()?;
            self.equation(&mut code, k)?;
        }
        self.sources_of_refused(&mut code);
        Ok(code)
    }

    /// The kernel of a group without equations: over tiles of whole rows only where the result of a reduction
    /// is read again.
    fn begin(&self, g: usize) -> GroupCode {
        let (program, fusion) = (self.program, self.fusion);
        let group = &fusion.groups[g];
        let again = (group.eqns.iter()).find_map(|&k| {
            let eqn = &program.eqns()[k];
            let mut args = program.args(eqn).iter();
            let read = args.find_map(|&a| {
                let row = fusion.row_inside(program, g as u32, a);
                row.filter(|_| eqn.prim.is_elementwise())
            });
            read.or_else(|| fusion.reduced_inside(program, g as u32, k))
        });
        let row = again.and_then(|v| fusion.rows.of(v));
        GroupCode {
            g,
            has_rows: row.is_some(),
            fused: match row {
                Some(row) => FusedBuilder::with_rows(&group.shape, fusion.rows.space(row).1),
                None => FusedBuilder::new(&group.shape),
            },
            inputs: SmallVec::new(),
            outputs: SmallVec::new(),
            refused: Vec::new(),
        }
    }

    /// Adds an equation to the kernel of its group.
    fn equation(&mut self, code: &mut GroupCode, k: usize) -> Result<()> {
        let program = self.program;
        let eqn = &program.eqns()[k];
        let out = program.result(k);
        let is_row = code.has_rows && self.fusion.rows.of(out).is_some();
        let mut args: SmallVec<[Reg; 4]> = SmallVec::new();
        for &a in program.args(eqn) {
            args.push(self.operand(code, k, a, is_row)?);
        }
        let reg = match (eqn.prim.lane(), eqn.prim.kernel_ref()) {
            (Some(lane), _) => code.fused.op(lane, &args)?,
            (None, Some(Kernel::Cast)) => code.fused.cast(args[0], program.aval(out).dtype),
            (None, Some(Kernel::Reduce(op))) if is_row => code.fused.fold_rows(*op, args[0])?,
            (None, Some(Kernel::Reduce(op))) => {
                if (code.fused).reduce(*op, args[0], program.params(eqn).axes()) {
                    code.outputs.push(out);
                } else {
                    code.refused.push(k);
                }
                return Ok(());
            }
            _ => unreachable!("only elementwise equations and reductions form groups"),
        };
        self.registers(is_row)[out as usize] = Some((code.g, reg));
        if self.read_outside[out as usize] {
            code.fused.output(reg);
            code.outputs.push(out);
        }
        Ok(())
    }

    /// The register of an argument of an equation: one that the group has already, or that of a new input.
    fn operand(&mut self, code: &mut GroupCode, k: usize, arg: Var, is_row: bool) -> Result<Reg> {
        let (program, g) = (self.program, code.g);
        let is_elementwise = program.eqns()[k].prim.is_elementwise();
        let inside = self.fusion.row_inside(program, g as u32, arg);
        let reduced = self.fusion.reduced_inside(program, g as u32, k);
        if let Some((_, reg)) = reduced.and_then(|root| self.row_regs[root as usize]) {
            return Ok(reg);
        }
        let inside = inside.filter(|_| is_elementwise);
        // The operand of a reduction is the space; what is elementwise is like its operands.
        let by_row = is_row && is_elementwise;
        let var = inside.unwrap_or(arg) as usize;
        if let Some((_, reg)) = self.registers(by_row)[var].filter(|(of, _)| *of == g) {
            return Ok(reg);
        }
        let repeated = inside
            .and_then(|root| self.row_regs[root as usize])
            .filter(|(of, _)| *of == g);
        let reg = if let Some((_, reg)) = repeated {
            code.fused.expand(reg)
        } else if !by_row && self.spreads.again[arg as usize] {
            self.computed_again(code, arg)?
        } else {
            let aval = program.aval(arg);
            code.inputs.push(arg);
            if by_row {
                let shape = &program.aval(program.result(k)).shape;
                code.fused.row_input(aval.dtype, shape)
            } else if aval.size() == 1 {
                code.fused.number(aval.dtype)
            } else {
                code.fused.input(aval.dtype)
            }
        };
        self.registers(by_row)[var] = Some((g, reg));
        Ok(reg)
    }

    /// The register of a variable that each group computes which reads it.
    fn computed_again(&mut self, code: &mut GroupCode, var: Var) -> Result<Reg> {
        if let Some((_, reg)) = self.regs[var as usize].filter(|(of, _)| *of == code.g) {
            return Ok(reg);
        }
        let program = self.program;
        let k = var as usize - program.num_inputs();
        let eqn = &program.eqns()[k];
        let same = |arg: Var| program.aval(arg).shape == program.aval(var).shape;
        let mut args: SmallVec<[Reg; 4]> = SmallVec::new();
        for &arg in program.args(eqn) {
            args.push(if self.spreads.is_made[arg as usize] && same(arg) {
                self.computed_again(code, arg)?
            } else {
                self.operand(code, k, arg, false)?
            });
        }
        let lane = eqn.prim.lane().expect("it is an operation of lanes");
        let reg = code.fused.op(lane, &args)?;
        self.regs[var as usize] = Some((code.g, reg));
        Ok(reg)
    }

    /// Registers with one element for each row, or those with all elements.
    fn registers(&mut self, by_row: bool) -> &mut Vec<Option<(usize, Reg)>> {
        if by_row {
            &mut self.row_regs
        } else {
            &mut self.regs
        }
    }

    /// What a refused reduction reads must be in memory: one more output, if it is made here.
    fn sources_of_refused(&mut self, code: &mut GroupCode) {
        let program = self.program;
        for &k in &code.refused {
            let source = program.args(&program.eqns()[k])[0];
            let made_here = program
                .definition(source)
                .is_some_and(|e| e.prim.is_elementwise())
                && !code.inputs.contains(&source);
            let row = self
                .fusion
                .reduced_inside(program, code.g as u32, k)
                .and_then(|root| self.row_regs[root as usize]);
            let made_here = made_here || row.is_some();
            if let Some((_, reg)) = row.or(self.regs[source as usize])
                && made_here
                && !code.outputs.contains(&source)
            {
                code.fused.output(reg);
                code.outputs.push(source);
            }
        }
    }
}

/// For every variable, whether anything but groups that compute it reads it.
fn read_outside(program: &Program, fusion: &Fusion<'_>, spreads: &Spreads) -> Vec<bool> {
    let mut outside = vec![false; program.num_vars()];
    for &out in program.outs() {
        outside[out as usize] = true;
    }
    // Backwards, because a layout of a row value reads it only if it is read itself.
    for (k, eqn) in program.eqns().iter().enumerate().rev() {
        let out = program.result(k);
        if eqn.prim.is_view() && fusion.rows.of(out).is_some() && !outside[out as usize] {
            continue;
        }
        for &a in program.args(eqn) {
            // What is computed again from what is read in its pass needs that in memory.
            if spreads.is_made[out as usize] && fusion.rows.of(a).is_some() {
                outside[a as usize] = true;
                continue;
            }
            let Some(source) = (a as usize).checked_sub(program.num_inputs()) else {
                continue;
            };
            let inside = |g| fusion.row_inside(program, g, a).is_some();
            let here = match (fusion.places[k], fusion.places[source]) {
                (Place::Group(g), _) if eqn.prim.is_elementwise() && inside(g) => true,
                (Place::Group(g), _) if fusion.reduced_inside(program, g, k).is_some() => true,
                // A reduction's result is complete only after its group has run.
                (Place::Group(g), Place::Group(of)) => {
                    (g == of && program.eqns()[source].prim.is_elementwise())
                        || spreads.again[a as usize]
                }
                _ => false,
            };
            outside[a as usize] |= !here;
        }
    }
    outside
}
