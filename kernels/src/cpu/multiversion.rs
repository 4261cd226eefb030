//! A macro for loops that the compiler vectorises, compiled for every processor and once more for AVX2 and for AVX-512.

/// Defines a function that is compiled three times: for every processor, for AVX2 and for AVX-512. The one of the level
/// runs, where the processor has its features. With `fused NAME`, the body has a constant of that name: whether the
/// processor multiplies and adds in one instruction, which rounds once.
macro_rules! multiversion {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),*) $(fused $fused:ident)? $body:block) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::Isa, $($arg: $type),*) {
            #[inline(always)]
            fn everywhere<const FUSED: bool>($($arg: $type),*) {
                $(let $fused = FUSED;)?
                $body
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn with_avx512($($arg: $type),*) {
                    everywhere::<true>($($arg),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn with_avx2($($arg: $type),*) {
                    everywhere::<true>($($arg),*);
                }
                if isa >= $crate::Isa::Avx512 && $crate::Isa::detect() >= $crate::Isa::Avx512 {
                    // SAFETY: the processor has just been found to have the features.
                    return unsafe { with_avx512($($arg),*) };
                }
                if isa >= $crate::Isa::Avx2 && $crate::Isa::detect() >= $crate::Isa::Avx2 {
                    // SAFETY: the processor has just been found to have the features.
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            let _ = isa;
            everywhere::<false>($($arg),*);
        }
    };
}

pub(crate) use multiversion;
