//! Dtypes on the device: how elements lie in its memory, and what shaders call them.

use cotan::DType;
use wgpu::Features;

/// A dtype that shaders compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type {
    pub dtype: DType,
    /// The type of an element in memory.
    pub stored: &'static str,
    /// The type of a value in a shader.
    pub name: &'static str,
    /// Bytes of an element in memory.
    pub size: usize,
}

impl Type {
    /// What every device has.
    pub const WORD: Type = Type {
        dtype: DType::U32,
        stored: "u32",
        name: "u32",
        size: 4,
    };

    /// The type of a dtype, if a device with these features has it.
    pub fn of(dtype: DType, features: Features) -> Option<Type> {
        let (stored, name, size) = match dtype {
            DType::Bool => ("u32", "bool", 4),
            DType::I8 | DType::I16 | DType::I32 => ("i32", "i32", 4),
            DType::U8 | DType::U16 | DType::U32 => ("u32", "u32", 4),
            DType::I64 if features.contains(Features::SHADER_INT64) => ("i64", "i64", 8),
            DType::U64 if features.contains(Features::SHADER_INT64) => ("u64", "u64", 8),
            // Computed as float32 and rounded after each operation, as on the processor.
            DType::F16 if features.contains(Features::SHADER_F16) => ("f16", "f32", 2),
            DType::F32 => ("f32", "f32", 4),
            // Bits of numbers come as 64-bit integers.
            DType::F64 if features.contains(Features::SHADER_F64 | Features::SHADER_INT64) => {
                ("f64", "f64", 8)
            }
            _ => return None,
        };
        Some(Type {
            dtype,
            stored,
            name,
            size,
        })
    }

    /// The type of partial results: memory that keeps values as they are computed.
    pub fn plain(self) -> Type {
        let (stored, size) = match self.name {
            "bool" => ("u32", 4),
            "i64" | "u64" | "f64" => (self.name, 8),
            _ => (self.name, 4),
        };
        let dtype = match self.name {
            "bool" => DType::Bool,
            "f32" => DType::F32,
            "f64" => DType::F64,
            "i32" => DType::I32,
            "u32" => DType::U32,
            "i64" => DType::I64,
            _ => DType::U64,
        };
        Type {
            dtype,
            stored,
            name: self.name,
            size,
        }
    }

    /// An element of memory as a value.
    pub fn load(&self, element: &str) -> String {
        match self.dtype {
            DType::Bool => format!("({element} != 0u)"),
            DType::F16 => format!("f32({element})"),
            _ => element.to_owned(),
        }
    }

    /// A value as an element of memory.
    pub fn store(&self, value: &str) -> String {
        match self.dtype {
            DType::Bool => format!("select(0u, 1u, {value})"),
            DType::F16 => format!("f16({value})"),
            _ => value.to_owned(),
        }
    }

    /// The result of an operation as a value of the dtype: short integers wrap, float16 is rounded.
    pub fn narrowed(&self, value: &str) -> String {
        match self.dtype {
            DType::I8 => format!("(({value} << 24u) >> 24u)"),
            DType::I16 => format!("(({value} << 16u) >> 16u)"),
            DType::U8 => format!("({value} & 0xffu)"),
            DType::U16 => format!("({value} & 0xffffu)"),
            DType::F16 => format!("f32(f16({value}))"),
            _ => value.to_owned(),
        }
    }

    /// Bytes of the processor's memory as those of the device.
    pub fn widened(&self, bytes: &[u8]) -> Vec<u8> {
        let wide = |of: &dyn Fn(&[u8]) -> u32, size: usize| {
            bytes
                .chunks_exact(size)
                .flat_map(|b| of(b).to_le_bytes())
                .collect()
        };
        match self.dtype {
            DType::Bool | DType::U8 => wide(&|b| u32::from(b[0]), 1),
            DType::I8 => wide(&|b| i32::from(b[0].cast_signed()).cast_unsigned(), 1),
            DType::U16 => wide(&|b| u32::from(u16::from_ne_bytes([b[0], b[1]])), 2),
            DType::I16 => wide(
                &|b| i32::from(i16::from_ne_bytes([b[0], b[1]])).cast_unsigned(),
                2,
            ),
            _ => bytes.to_vec(),
        }
    }

    /// Whether elements lie in the memory of the device as in that of the processor.
    pub fn is_alike(&self) -> bool {
        self.size == self.dtype.size()
    }

    /// The bytes of so many elements of the device's memory as those of the processor's.
    pub fn shortened(&self, bytes: &[u8], elements: usize) -> Vec<u8> {
        let size = self.dtype.size();
        if self.is_alike() {
            return bytes[..elements * size].to_vec();
        }
        let short = bytes.chunks_exact(self.size).take(elements);
        short.flat_map(|b| b[..size].iter().copied()).collect()
    }

    /// The bits of an element of the processor's memory as words of parameters.
    pub fn words(&self, bytes: &[u8]) -> Vec<u32> {
        let bytes = match self.dtype {
            DType::F16 => half_bits(bytes).to_le_bytes().to_vec(),
            _ => self.widened(bytes),
        };
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        bytes.chunks_exact(4).map(word).collect()
    }

    /// The value that these words of parameters, from number `at` on, are the bits of.
    pub fn number_at(&self, at: usize) -> String {
        match self.name {
            "bool" => format!("({} != 0u)", word(at)),
            "u32" => word(at),
            "i32" | "f32" => format!("bitcast<{}>({})", self.name, word(at)),
            name => {
                // The lower word first.
                let bits = format!("(u64({}) | (u64({}) << 32u))", word(at), word(at + 1));
                if name == "u64" {
                    bits
                } else {
                    format!("bitcast<{name}>({bits})")
                }
            }
        }
    }
}

/// The word of the parameters with this number: they come in vectors, as uniform memory has it.
pub fn word(number: usize) -> String {
    format!("P[{}].{}", number / 4, ["x", "y", "z", "w"][number % 4])
}

/// The bits of a float16 as those of a float32.
fn half_bits(bytes: &[u8]) -> u32 {
    let bits = u32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let (sign, exponent, fraction) = (bits >> 15, (bits >> 10) & 31, bits & 1023);
    let magnitude = match exponent {
        0 => (fraction as f32 * 2f32.powi(-24)).to_bits(),
        31 => 0x7f80_0000 | (fraction << 13),
        _ => ((exponent + 112) << 23) | (fraction << 13),
    };
    (sign << 31) | magnitude
}
