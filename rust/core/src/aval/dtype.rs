//! Element types, their names, and NumPy 2's promotion between them.

use std::fmt;

/// The type of an array's elements. `f16` and `bf16` are storage types: arithmetic on them is
/// done in `f32` and rounded after each operation, as NumPy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    U8,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    C64,
    C128,
}

/// What kind of number a dtype holds, from least to most general.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    Bool,
    Integer,
    Float,
    Complex,
}

impl DType {
    /// Every dtype, in the order of the discriminants.
    pub const ALL: [DType; 10] = [
        DType::Bool,
        DType::U8,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 => 1,
            DType::F16 | DType::Bf16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The short name that programs are printed with: `f64`, `i32`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "c64",
            DType::C128 => "c128",
        }
    }

    /// NumPy's name: `float64`, `int32`, `bool`.
    pub const fn numpy_name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "uint8",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::Bf16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }

    /// The inverse of [`DType::name`].
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// What kind of number this is.
    pub const fn kind(self) -> Kind {
        match self {
            DType::Bool => Kind::Bool,
            DType::U8 | DType::I32 | DType::I64 => Kind::Integer,
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => Kind::Float,
            DType::C64 | DType::C128 => Kind::Complex,
        }
    }

    /// Whether values of this type have cotangents: floats and complex numbers do.
    pub const fn is_inexact(self) -> bool {
        matches!(self.kind(), Kind::Float | Kind::Complex)
    }

    /// Whether this is `c64` or `c128`.
    pub const fn is_complex(self) -> bool {
        matches!(self.kind(), Kind::Complex)
    }

    /// The type of the real part.
    pub const fn real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The complex type whose parts are at least this precise.
    pub const fn complex(self) -> DType {
        match self {
            DType::F16 | DType::Bf16 | DType::F32 | DType::C64 => DType::C64,
            _ => DType::C128,
        }
    }

    /// The type that NumPy's float functions (`sin`, `sqrt`, true division) compute integers in.
    pub const fn inexact(self) -> DType {
        match self {
            DType::Bool | DType::U8 => DType::F16,
            DType::I32 | DType::I64 => DType::F64,
            other => other,
        }
    }

    /// The common type of two operands under NumPy 2's rules (no value-based casting).
    pub const fn promote(self, other: DType) -> DType {
        use DType::*;
        // Put the "smaller" discriminant first, so that each pair is written once.
        let (a, b) = if self as u8 <= other as u8 {
            (self, other)
        } else {
            (other, self)
        };
        match (a, b) {
            (I32 | I64, F16 | Bf16 | F32) => F64,
            (I32 | I64 | F64, C64) => C128,
            (F16, Bf16) => F32,
            // The order of discriminants is the order of generality for all other pairs.
            (_, b) => b,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::DType::*;

    #[test]
    fn promotion_follows_numpy() {
        assert_eq!(U8.promote(I32), I32);
        assert_eq!(I32.promote(F32), F64);
        assert_eq!(F32.promote(I64), F64);
        assert_eq!(U8.promote(F16), F16);
        assert_eq!(F16.promote(Bf16), F32);
        assert_eq!(F64.promote(C64), C128);
        assert_eq!(C64.promote(F32), C64);
        assert_eq!(Bool.promote(Bool), Bool);
    }
}
