//! Which vector instructions the machine has, and how one source is compiled for each of them.
//!
//! Wheels are portable: everything is compiled for the oldest machine, and the loops that matter a
//! second and a third time for newer ones. [`leveled!`] writes those copies and hands out the
//! function for a level; tables of such functions are filled once, for [`Level::best`].

use std::sync::OnceLock;

/// A set of vector instructions, from least to most capable. On machines that are not x86-64 there
/// is only the baseline (on aarch64 it includes NEON).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// What every machine of the architecture has.
    Baseline,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and CD.
    Avx512,
}

impl Level {
    /// Every level, least capable first.
    pub const ALL: [Level; 3] = [Level::Baseline, Level::Avx2, Level::Avx512];

    /// Whether this machine can run code of this level.
    pub fn is_supported(self) -> bool {
        self <= Level::detected()
    }

    /// The level that kernels run at: the most capable that the machine has, or less when the
    /// environment variable `COTAN_SIMD` says `baseline` or `avx2`. Decided once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            let limit = match std::env::var("COTAN_SIMD").as_deref() {
                Ok("baseline") => Level::Baseline,
                Ok("avx2") => Level::Avx2,
                _ => Level::Avx512,
            };
            Level::detected().min(limit)
        })
    }

    #[cfg(target_arch = "x86_64")]
    fn detected() -> Level {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512cd");
        match (avx2, avx512) {
            (true, true) => Level::Avx512,
            (true, false) => Level::Avx2,
            (false, _) => Level::Baseline,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detected() -> Level {
        Level::Baseline
    }
}

/// Leaves the upper halves of vector registers as the compiler's own code does: empty.
///
/// Some kernels of other crates do not. On Intel's processors each instruction of older code, of ours, of Python or of the C
/// library, waits for them from then on, some hundred cycles, until somebody empties them.
#[inline]
pub(crate) fn empty_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx") {
        // SAFETY: the processor has the instruction, and no value is in these halves between functions.
        unsafe { std::arch::x86_64::_mm256_zeroupper() };
    }
}

/// Compiles a function once for every level.
///
/// `leveled! { fn name[K: Bound](x: T, y: U) -> R { body } }` defines
/// `fn name<K: Bound>(level: Level) -> unsafe fn(T, U) -> R`. The brackets hold the generic
/// parameters and may be empty. The body must inline what it calls, or that is compiled for the
/// baseline only. Calling the function is sound when the machine supports the level and the body's
/// own contract is kept.
macro_rules! leveled {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident [$($gen:ident : $bound:path),*]
        ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name<$($gen: $bound),*>(
            level: $crate::kernels::simd_level::Level,
        ) -> unsafe fn($($ty),*) $(-> $ret)? {
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            unsafe fn body<$($gen: $bound),*>($($arg: $ty),*) $(-> $ret)? $body

            #[allow(clippy::too_many_arguments)]
            unsafe fn baseline<$($gen: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract is the body's.
                unsafe { body::<$($gen),*>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments)]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            unsafe fn avx2<$($gen: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract is the body's.
                unsafe { body::<$($gen),*>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments)]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            unsafe fn avx512<$($gen: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract is the body's.
                unsafe { body::<$($gen),*>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            return match level {
                $crate::kernels::simd_level::Level::Baseline => baseline::<$($gen),*>,
                $crate::kernels::simd_level::Level::Avx2 => avx2::<$($gen),*>,
                $crate::kernels::simd_level::Level::Avx512 => avx512::<$($gen),*>,
            };
            #[cfg(not(target_arch = "x86_64"))]
            {
                let _ = level;
                baseline::<$($gen),*>
            }
        }
    };
}
pub(crate) use leveled;

/// Whether something leaves upper halves of vector registers empty; true where the processor does not tell.
#[cfg(test)]
pub(crate) fn leaves_upper_halves_empty(run: impl FnOnce()) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "xsave")]
        unsafe fn are_in_use() -> bool {
            // SAFETY: says the caller. The third bit is that of upper halves.
            unsafe { std::arch::x86_64::_xgetbv(1) & 4 != 0 }
        }
        if is_x86_feature_detected!("avx") && is_x86_feature_detected!("xsavec") {
            empty_upper_halves();
            // SAFETY: processors with `xsavec` have this register.
            let tells = unsafe { !are_in_use() };
            run();
            // SAFETY: as above.
            return !tells || unsafe { !are_in_use() };
        }
    }
    run();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    leveled! {
        fn total[](x: &[f32]) -> f32 { x.iter().sum() }
    }

    #[test]
    fn every_supported_level_runs() {
        for level in Level::ALL.into_iter().filter(|l| l.is_supported()) {
            // SAFETY: the machine supports the level.
            assert_eq!(unsafe { total(level)(&[1.0, 2.0, 3.5]) }, 6.5);
        }
        assert!(Level::best().is_supported());
        assert!(Level::Baseline.is_supported());
    }
}
