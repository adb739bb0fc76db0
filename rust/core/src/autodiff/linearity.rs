//! Whether a traced forward rule is linear in its tangents: only then does its transpose say anything.

use crate::error::Result;
use crate::kernels::Value;
use crate::ops;
use crate::opt;
use crate::prim::{Class, Prim, Var};
use crate::program::Program;

/// What is known of a variable.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// It does not depend on the tangents, and may be anything.
    Free,
    /// It is zero, whatever the tangents are.
    Zero,
    /// It is linear in the tangents.
    Linear,
}

/// Why the outputs behind the first `keep` are not linear in the marked inputs; `None` when they are, as
/// far as the equations show. Whether a primitive with rules of its own is linear shows in the transposed
/// program: it does not read the tangents then. `zeros` says which inputs are zero.
pub(super) fn fault(
    program: &Program,
    is_tangent: &[bool],
    zeros: &[bool],
    keep: usize,
) -> Result<Option<String>> {
    let program = opt::lower(program.clone())?;
    let mut kinds = vec![Kind::Free; program.num_vars()];
    for ((kind, &tangent), &zero) in kinds.iter_mut().zip(is_tangent).zip(zeros) {
        *kind = match (tangent, zero) {
            (true, _) => Kind::Linear,
            (false, true) => Kind::Zero,
            _ => Kind::Free,
        };
    }
    let mut faults: Vec<Option<String>> = vec![None; program.num_vars()];
    for (k, eqn) in program.eqns().iter().enumerate() {
        let var = program.result(k) as usize;
        let args = program.args(eqn);
        let inherited = args.iter().find_map(|&a| faults[a as usize].clone());
        let of: Vec<Kind> = (args.iter())
            .filter(|&&a| program.aval(a).dtype.is_inexact())
            .map(|&a| kinds[a as usize])
            .collect();
        let literal = program.literal(var as Var);
        let found = match literal {
            Some((_, value)) if value.re == 0.0 && value.im == 0.0 => Ok(Kind::Zero),
            Some(_) => Ok(Kind::Free),
            None => kind(eqn.prim, &of),
        };
        let is_inexact = program.aval(var as Var).dtype.is_inexact();
        match found {
            Ok(Kind::Linear) if !is_inexact => {
                faults[var] = Some(format!("{} of a tangent is no tangent", eqn.prim.name()));
            }
            Ok(kind) => kinds[var] = kind,
            Err(fault) => faults[var] = Some(fault),
        }
        if inherited.is_some() {
            faults[var] = inherited;
        }
    }
    for &out in &program.outs()[keep..] {
        if let Some(fault) = faults[out as usize].take() {
            return Ok(Some(fault));
        }
        if kinds[out as usize] == Kind::Free {
            return Ok(Some("it does not vanish where they are zero".into()));
        }
    }
    Ok(None)
}

/// What a primitive makes of its inexact arguments.
fn kind(prim: Prim, of: &[Kind]) -> std::result::Result<Kind, String> {
    let linear = of.iter().filter(|&&k| k == Kind::Linear).count();
    let none_free = !of.contains(&Kind::Free);
    let all_zero = !of.is_empty() && of.iter().all(|&k| k == Kind::Zero);
    let jointly = matches!(prim.0.class, Class::Linear { .. })
        || [ops::ADD, ops::SUB, ops::WHERE, ops::NEG].contains(&prim);
    if jointly && prim != ops::BARRIER {
        return match (linear > 0, none_free) {
            _ if all_zero => Ok(Kind::Zero),
            (false, _) => Ok(Kind::Free),
            (true, true) => Ok(Kind::Linear),
            (true, false) => Err(format!(
                "{} joins a tangent with what is none and not zero",
                prim.name()
            )),
        };
    }
    let factors = prim == ops::MUL || prim == ops::MATMUL;
    let quotient = prim == ops::DIV;
    let first = of.first().copied().unwrap_or(Kind::Free);
    let is_general = matches!(prim.0.class, Class::General { vjp: Some(_), .. });
    Ok(match linear {
        _ if prim == ops::BARRIER => first,
        0 if factors && of.contains(&Kind::Zero) || quotient && first == Kind::Zero => Kind::Zero,
        0 => Kind::Free,
        1 if factors || quotient && first == Kind::Linear => Kind::Linear,
        _ if factors => return Err(format!("{} multiplies tangents", prim.name())),
        _ if is_general => Kind::Linear,
        _ => return Err(format!("{} of a tangent is not linear", prim.name())),
    })
}

/// Whether a value is known to be zero everywhere.
pub(super) fn is_zero(value: &Value) -> bool {
    let zero = num_complex::Complex::new(0.0, 0.0);
    (value.as_slice::<f64>().map(|s| s.iter().all(|&x| x == 0.0)))
        .or_else(|| value.as_slice::<f32>().map(|s| s.iter().all(|&x| x == 0.0)))
        .or_else(|| {
            let slice = value.as_slice::<num_complex::Complex<f64>>();
            slice.map(|s| s.iter().all(|&z| z == zero))
        })
        .or_else(|| value.item().map(|z| z == zero))
        .unwrap_or(false)
}
