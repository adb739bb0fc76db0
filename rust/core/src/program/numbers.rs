//! Numbers that a program knows beforehand: as literals, and as values of inputs in its text.

use num_complex::Complex;
use smallvec::SmallVec;

use super::{Builder, Program};
use crate::aval::{Aval, DType};
use crate::error::Result;
use crate::interrupt::Steps;
use crate::kernels::Value;
use crate::prim::{Site, Var};

/// The number of a value without axes, where a literal can hold it exactly.
pub fn literal_of(value: &Value) -> Option<Complex<f64>> {
    const EXACT: f64 = (1u64 << 53) as f64;
    let number = value.item().filter(|_| value.shape().is_empty())?;
    let is_exact = value.dtype() != DType::I64 || number.re.abs() < EXACT;
    is_exact.then_some(number)
}

/// A value without axes as text, which [`parse_number`] reads back.
pub fn number_text(value: &Value) -> Option<String> {
    let z = value.item().filter(|_| value.shape().is_empty())?;
    Some(match value.dtype() {
        DType::Bool => (z.re != 0.0).to_string(),
        DType::I64 => value.as_slice::<i64>()?.first()?.to_string(),
        DType::U8 | DType::I32 => z.re.to_string(),
        // As short as it can be told from its neighbours.
        DType::F32 => format!("{:?}", z.re as f32),
        DType::C64 => format!("({:?}, {:?})", z.re as f32, z.im as f32),
        DType::C128 => format!("({:?}, {:?})", z.re, z.im),
        DType::F16 | DType::Bf16 | DType::F64 => format!("{:?}", z.re),
    })
}

/// The value of this dtype that a text says.
pub fn parse_number(dtype: DType, text: &str) -> Option<Value> {
    let value = match dtype {
        DType::Bool => Value::scalar(text.parse::<bool>().ok()?),
        DType::U8 => Value::scalar(text.parse::<u8>().ok()?),
        DType::I32 => Value::scalar(text.parse::<i32>().ok()?),
        DType::I64 => Value::scalar(text.parse::<i64>().ok()?),
        DType::C64 | DType::C128 => {
            let inner = text.strip_prefix('(')?.strip_suffix(')')?;
            let (re, im) = inner.split_once(',')?;
            let z = Complex::new(re.trim().parse().ok()?, im.trim().parse().ok()?);
            Value::number(dtype, z)
        }
        _ => Value::number(dtype, Complex::new(text.parse().ok()?, 0.0)),
    };
    value.ok()
}

impl Program {
    /// The program with literals in place of the inputs whose numbers are given. Each literal stands just
    /// before the first equation that reads it, so that the same function gives the same program, whichever
    /// of its numbers were met before.
    pub fn with_literals(&self, numbers: &[Option<Complex<f64>>]) -> Result<Program> {
        let aval = |v: Var| -> &Aval { self.aval(v) };
        let number = |v: Var| match numbers.get(v as usize) {
            Some(&Some(z)) => Some((aval(v).dtype, z)),
            _ => self.literal(v),
        };
        let builder = Builder::new();
        let mut map = vec![Var::MAX; self.num_vars()];
        for v in 0..self.num_inputs() as Var {
            if number(v).is_none() {
                map[v as usize] = builder.input(&self.inputs[v as usize], aval(v));
            }
        }
        let read = |v: Var, map: &mut [Var]| {
            if let Some((dtype, z)) = number(v) {
                map[v as usize] = builder.complex_literal(dtype, z);
            }
            map[v as usize]
        };
        let mut steps = Steps::default();
        let mut args: SmallVec<[Var; 4]> = SmallVec::new();
        for (k, eqn) in self.eqns.iter().enumerate() {
            steps.count()?;
            let var = self.result(k);
            if number(var).is_some() {
                continue;
            }
            args.clear();
            builder.at(Site::NONE);
            args.extend(self.args(eqn).iter().map(|&a| read(a, &mut map)));
            builder.at(self.site(k));
            let params = self.params(eqn).clone();
            map[var as usize] = builder.push_inferred(eqn.prim, params, &args, aval(var));
        }
        builder.at(Site::NONE);
        let outs = self.outs.iter().map(|&v| read(v, &mut map)).collect();
        let mut program = builder.finish(outs)?;
        program.outputs.clone_from(&self.outputs);
        program.debug_verify();
        Ok(program)
    }
}
