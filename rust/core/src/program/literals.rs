//! Numbers that a program knows beforehand: as literals, and as values of inputs in its text.

use num_complex::Complex;

use crate::aval::DType;
use crate::kernels::Value;

/// The number of a value without axes, where a literal can hold it exactly.
pub fn literal_of(value: &Value) -> Option<Complex<f64>> {
    const EXACT: f64 = (1u64 << 53) as f64;
    let number = value.item().filter(|_| value.shape().is_empty())?;
    let is_exact = !matches!(value.dtype(), DType::I64 | DType::U64) || number.re.abs() < EXACT;
    is_exact.then_some(number)
}

/// A value without axes as text, which `parse_number` reads back.
pub fn number_text(value: &Value) -> Option<String> {
    let z = value.item().filter(|_| value.shape().is_empty())?;
    Some(match value.dtype() {
        DType::Bool => (z.re != 0.0).to_string(),
        DType::I64 => value.as_slice::<i64>()?.first()?.to_string(),
        DType::U64 => value.as_slice::<u64>()?.first()?.to_string(),
        DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32 | DType::U32 => {
            z.re.to_string()
        }
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
        DType::I8 => Value::scalar(text.parse::<i8>().ok()?),
        DType::U8 => Value::scalar(text.parse::<u8>().ok()?),
        DType::I16 => Value::scalar(text.parse::<i16>().ok()?),
        DType::U16 => Value::scalar(text.parse::<u16>().ok()?),
        DType::I32 => Value::scalar(text.parse::<i32>().ok()?),
        DType::U32 => Value::scalar(text.parse::<u32>().ok()?),
        DType::I64 => Value::scalar(text.parse::<i64>().ok()?),
        DType::U64 => Value::scalar(text.parse::<u64>().ok()?),
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
