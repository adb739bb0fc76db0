//! The instructions of AVX-512 that code for tiles is made of, as bytes.

use crate::aval::DType;

/// Vectors that one operation takes together: enough independent ones to wait for none.
pub(super) const VECTORS: usize = 4;
/// Bytes of a vector.
const VECTOR: usize = 64;
/// Bytes of an operand that one operation takes.
pub(super) const BLOCK: usize = VECTORS * VECTOR;
/// Values that are in registers at a time.
pub(super) const REGISTERS: usize = 32 / VECTORS;

/// An operation of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Two {
    Add,
    Sub,
    Mul,
    Div,
    /// Of bits.
    And,
    /// Of bits.
    Xor,
}

/// Numbers that stand before the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Constant {
    /// The sign bit.
    Sign,
    /// All bits but the sign.
    Rest,
    One,
}

/// Where an operand is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Register(u8),
    /// The tile at this position in the table of addresses.
    Tile(u32),
    /// The first element of that tile, for all elements.
    Number(u32),
    /// A block of the local memory.
    Local(u32),
    Constant(Constant),
}

/// How an instruction names its last operand.
#[derive(Clone, Copy)]
enum Operand {
    Register(u8),
    /// A base register, whether the offset of the block is added, and a displacement.
    Memory(u8, bool, i32),
    /// A place in the code.
    Code(i32),
}

const RAX: u8 = 0;
const RSI: u8 = 6;

/// Code under construction. Its functions have a table of addresses in `rdi`, local memory in `rsi` and a number of
/// bytes in `rdx`; `rcx` counts these.
#[derive(Debug)]
pub(super) struct Assembler {
    pub(super) bytes: Vec<u8>,
    is_wide: bool,
    /// The table's address that `rax` has.
    loaded: Option<u32>,
}

impl Default for Assembler {
    /// Nothing but the constants.
    fn default() -> Assembler {
        let mut bytes = Vec::new();
        for number in [1u32 << 31, !(1 << 31), 1f32.to_bits()] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([0; 4]);
        for number in [1u64 << 63, !(1 << 63), 1f64.to_bits()] {
            bytes.extend(number.to_le_bytes());
        }
        Assembler {
            bytes,
            is_wide: false,
            loaded: None,
        }
    }
}

impl Assembler {
    /// Begins a function for elements of a dtype; returns the place of its loop.
    pub(super) fn begin(&mut self, dtype: DType) -> (usize, usize) {
        self.is_wide = dtype == DType::F64;
        self.loaded = None;
        self.bytes
            .resize(self.bytes.len().next_multiple_of(64), 0xcc);
        let entry = self.bytes.len();
        // xor ecx, ecx
        self.bytes.extend([0x31, 0xc9]);
        (entry, self.bytes.len())
    }

    /// Ends a function: the next block, if there is one, or the return.
    pub(super) fn end(&mut self, start: usize) {
        // add rcx, BLOCK; cmp rcx, rdx; jb start
        self.bytes.extend([0x48, 0x81, 0xc1]);
        self.bytes.extend((BLOCK as u32).to_le_bytes());
        self.bytes.extend([0x48, 0x39, 0xd1, 0x0f, 0x82]);
        let distance = start as i64 - (self.bytes.len() as i64 + 4);
        self.bytes.extend((distance as i32).to_le_bytes());
        // vzeroupper; ret
        self.bytes.extend([0xc5, 0xf8, 0x77, 0xc3]);
    }

    /// `to = first op second`, all vectors of a block; `first` is a register.
    pub(super) fn two(&mut self, op: Two, to: u8, first: u8, second: Source) {
        let code = match op {
            Two::Add => 0x58,
            Two::Mul => 0x59,
            Two::Sub => 0x5c,
            Two::Div => 0x5e,
            Two::And => 0x54,
            Two::Xor => 0x57,
        };
        let (pp, is_wide) = (u8::from(self.is_wide), self.is_wide);
        self.each(second, |code_of, k, operand, everywhere| {
            code_of.evex(
                (1, pp, is_wide, code),
                vector(to, k),
                vector(first, k),
                operand,
                everywhere,
            );
        });
    }

    /// `to = sqrt(from)`.
    pub(super) fn sqrt(&mut self, to: u8, from: Source) {
        let (pp, is_wide) = (u8::from(self.is_wide), self.is_wide);
        self.each(from, |code_of, k, operand, everywhere| {
            code_of.evex(
                (1, pp, is_wide, 0x51),
                vector(to, k),
                0,
                operand,
                everywhere,
            );
        });
    }

    /// Takes a value into a register.
    pub(super) fn load(&mut self, to: u8, from: Source) {
        let is_wide = self.is_wide;
        self.each(from, |code_of, k, operand, everywhere| {
            // vbroadcastss, vbroadcastsd, or vmovups
            let instruction = match (everywhere, is_wide) {
                (true, false) => (2, 1, false, 0x18),
                (true, true) => (2, 1, true, 0x19),
                (false, _) => (1, 0, false, 0x10),
            };
            code_of.evex(instruction, vector(to, k), 0, operand, false);
        });
    }

    /// Writes a register into a tile or the local memory.
    pub(super) fn store(&mut self, from: u8, to: Source) {
        self.each(to, |code_of, k, operand, _| {
            code_of.evex((1, 0, false, 0x11), vector(from, k), 0, operand, false);
        });
    }

    /// An instruction for every vector of a block: its number, the last operand, and whether that is one element for all.
    fn each(&mut self, source: Source, mut one: impl FnMut(&mut Assembler, u8, Operand, bool)) {
        if let Source::Tile(address) | Source::Number(address) = source
            && self.loaded != Some(address)
        {
            // mov rax, [rdi + 8 * address]
            self.bytes.extend([0x48, 0x8b, 0x87]);
            self.bytes.extend((8 * address).to_le_bytes());
            self.loaded = Some(address);
        }
        for k in 0..VECTORS as u8 {
            let shift = i32::from(k) * VECTOR as i32;
            let (operand, everywhere) = match source {
                Source::Register(r) => (Operand::Register(vector(r, k)), false),
                Source::Tile(_) => (Operand::Memory(RAX, true, shift), false),
                Source::Number(_) => (Operand::Memory(RAX, false, 0), true),
                Source::Local(slot) => {
                    let at = slot as i32 * BLOCK as i32 + shift;
                    (Operand::Memory(RSI, false, at), false)
                }
                Source::Constant(constant) => {
                    let at = if self.is_wide {
                        16 + constant as i32 * 8
                    } else {
                        constant as i32 * 4
                    };
                    (Operand::Code(at), true)
                }
            };
            one(self, k, operand, everywhere);
        }
    }

    /// An instruction of 512 bits, given by its map, prefix, width and code.
    fn evex(
        &mut self,
        (map, prefix, is_wide, code): (u8, u8, bool, u8),
        reg: u8,
        first: u8,
        last: Operand,
        everywhere: bool,
    ) {
        // Bits of register numbers are inverted in the prefix.
        let not = |register: u8, bit: u8, at: u8| ((!register >> bit) & 1) << at;
        let (x, b) = match last {
            Operand::Register(r) => (not(r, 4, 6), not(r, 3, 5)),
            _ => (1 << 6, 1 << 5),
        };
        self.bytes.extend([
            0x62,
            not(reg, 3, 7) | x | b | not(reg, 4, 4) | map,
            (u8::from(is_wide) << 7) | ((!first & 15) << 3) | (1 << 2) | prefix,
            (0b10 << 5) | (u8::from(everywhere) << 4) | not(first, 4, 3),
            code,
        ]);
        let reg = (reg & 7) << 3;
        match last {
            Operand::Register(r) => self.bytes.push(0xc0 | reg | (r & 7)),
            Operand::Memory(base, moves, shift) => {
                // The index is rcx, or none.
                let index = if moves { 1 } else { 4 };
                self.bytes.extend([0x84 | reg, (index << 3) | base]);
                self.bytes.extend(shift.to_le_bytes());
            }
            Operand::Code(at) => {
                self.bytes.push(0x05 | reg);
                let distance = i64::from(at) - (self.bytes.len() as i64 + 4);
                self.bytes.extend((distance as i32).to_le_bytes());
            }
        }
    }
}

/// The machine's register that has this vector of a value.
fn vector(register: u8, k: u8) -> u8 {
    register * VECTORS as u8 + k
}
