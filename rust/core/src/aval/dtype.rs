//! Element types, their names, and NumPy 2's promotion between them.

use std::fmt;

/// The type of an array's elements. `f16` and `bf16` are storage types: arithmetic on them is
/// done in `f32` and rounded after each operation, as NumPy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
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
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
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
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::Bf16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The short name that programs are printed with: `f64`, `i32`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
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
            DType::I8 => "int8",
            DType::U8 => "uint8",
            DType::I16 => "int16",
            DType::U16 => "uint16",
            DType::I32 => "int32",
            DType::U32 => "uint32",
            DType::I64 => "int64",
            DType::U64 => "uint64",
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
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => Kind::Float,
            DType::C64 | DType::C128 => Kind::Complex,
            _ => Kind::Integer,
        }
    }

    /// Whether this is an integer type without negative numbers.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// The least and the greatest number of an integer type; `None` for the others.
    pub const fn bounds(self) -> Option<(i128, i128)> {
        match self.kind() {
            Kind::Integer => {
                let bits = 8 * self.size() as u32;
                Some(if self.is_unsigned() {
                    (0, (1 << bits) - 1)
                } else {
                    (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
                })
            }
            _ => None,
        }
    }

    /// The type that NumPy sums bools and integers in: the widest of their sign.
    pub const fn widest(self) -> DType {
        if self.is_unsigned() {
            DType::U64
        } else {
            DType::I64
        }
    }

    /// Whether values of this type have cotangents: floats and complex numbers do.
    pub const fn is_inexact(self) -> bool {
        matches!(self.kind(), Kind::Float | Kind::Complex)
    }

    /// The greatest number of `f32` or `f64`.
    pub const fn greatest(self) -> Option<f64> {
        match self {
            DType::F32 => Some(f32::MAX as f64),
            DType::F64 => Some(f64::MAX),
            _ => None,
        }
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
            DType::Bool | DType::I8 | DType::U8 => DType::F16,
            DType::I16 | DType::U16 => DType::F32,
            DType::I32 | DType::U32 | DType::I64 | DType::U64 => DType::F64,
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
            // Both signs meet in the next wider signed type, which 64 bits have not got.
            (I8, U8) => I16,
            (I8 | I16, U16) => I32,
            (I8 | I16 | I32, U32) => I64,
            (I8 | I16 | I32 | I64, U64) => F64,
            (I16 | U16, F16 | Bf16) => F32,
            (I32 | U32 | I64 | U64, F16 | Bf16 | F32) => F64,
            (I32 | U32 | I64 | U64 | F64, C64) => C128,
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
        assert_eq!(Bool.promote(I8), I8);
        assert_eq!(U8.promote(I8), I16);
        assert_eq!(U8.promote(I16), I16);
        assert_eq!(I16.promote(U16), I32);
        assert_eq!(U32.promote(I8), I64);
        assert_eq!(U16.promote(I64), I64);
        assert_eq!(U64.promote(I64), F64);
        assert_eq!(U64.promote(U8), U64);
        assert_eq!(I8.promote(F16), F16);
        assert_eq!(I16.promote(F16), F32);
        assert_eq!(U16.promote(F32), F32);
        assert_eq!(U32.promote(F32), F64);
        assert_eq!(U16.promote(C64), C64);
    }

    #[test]
    fn bounds_of_integers() {
        assert_eq!(I8.bounds(), Some((-128, 127)));
        assert_eq!(U16.bounds(), Some((0, 65_535)));
        assert_eq!(I64.bounds(), Some((i64::MIN.into(), i64::MAX.into())));
        assert_eq!(U64.bounds(), Some((0, u64::MAX.into())));
        assert_eq!(F32.bounds(), None);
    }
}
