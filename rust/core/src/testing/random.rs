//! Random numbers for tests: the same in every run.

/// A linear congruential generator, of which the upper bits are used (Knuth, MMIX).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Seeds that lie close together begin far apart.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// An integer of 31 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// An integer below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.bits() as usize % n
    }

    /// A number from 0 to 1, with 31 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        self.bits() as f64 / f64::from(1u32 << 31)
    }

    /// A number from -0.5 to 0.5.
    pub(crate) fn centred(&mut self) -> f64 {
        self.unit() - 0.5
    }
}
