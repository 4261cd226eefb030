//! The instruction-set levels that Kiln emits code for, and the levels of this machine.
//!
//! A level is a closed set of CPU features, not a list of flags: a kernel is emitted for one level, some kernels for an
//! [`Extension`] of it too, and a [`Code`](crate::jit::Code) that exists proves that both may run here. Depends on no
//! operator and no environment variable; a cap is passed in as a value.

mod amx;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// An instruction-set level, in rising order of capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Mutate)]
pub enum Isa {
    /// Plain Rust references, no emitted code.
    Portable,
    /// AVX2, FMA and F16C: 16 registers of 8 `f32`.
    Avx2,
    /// AVX-512 F, BW, DQ and VL: 32 registers of 16 `f32`, 7 usable mask registers.
    Avx512,
}

impl Isa {
    /// Every level, lowest first.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// The highest level that this processor and its operating system offer.
    #[must_use]
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl")
                && Isa::has_avx2()
            {
                return Isa::Avx512;
            }
            if Isa::has_avx2() {
                return Isa::Avx2;
            }
        }
        Isa::Portable
    }

    #[cfg(target_arch = "x86_64")]
    fn has_avx2() -> bool {
        std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c")
    }

    /// Whether kernels of this level can be called here: the processor has it, or it is emulated.
    #[must_use]
    pub fn usable(self) -> bool {
        cfg!(feature = "emulator") || self <= Isa::detect()
    }

    /// `f32` lanes of one vector register; 8 for [`Isa::Portable`], which packs weights as AVX2 does.
    #[must_use]
    pub const fn lanes(self) -> usize {
        match self {
            Isa::Portable | Isa::Avx2 => 8,
            Isa::Avx512 => 16,
        }
    }

    /// Vector registers that an emitter may name.
    #[must_use]
    pub const fn registers(self) -> u8 {
        match self {
            Isa::Portable | Isa::Avx2 => 16,
            Isa::Avx512 => 32,
        }
    }

    /// Whether kernels of this level are emitted machine code.
    #[must_use]
    pub const fn is_jit(self) -> bool {
        !matches!(self, Isa::Portable)
    }

    /// The name used by `KILN_MAX_ISA`, verbose lines and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// The level with that name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.name().eq_ignore_ascii_case(name))
    }
}

/// Instructions beyond a level that a kernel may use where the processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extension {
    /// AVX512_BF16: sums of products of `bf16` pairs, and rounding to `bf16`. Needs [`Isa::Avx512`].
    Bf16,
    /// AVX512_VNNI: sums of products of bytes. Needs [`Isa::Avx512`].
    Vnni,
    /// AMX-TILE, AMX-BF16 and AMX-INT8: tiles of 16 rows of 64 bytes and sums of their products. Needs [`Isa::Avx512`].
    Amx,
    /// AVX-VNNI: sums of products of bytes on registers of [`Isa::Avx2`], which it needs.
    AvxVnni,
    /// AVX512_VBMI: permutations of bytes. Needs [`Isa::Avx512`].
    Vbmi,
}

impl Extension {
    /// Every extension, in the order of its bit in [`Extensions`], which records keep.
    pub const ALL: [Extension; 5] =
        [Extension::Bf16, Extension::Vnni, Extension::Amx, Extension::AvxVnni, Extension::Vbmi];

    /// The level whose code may use it: no other has it.
    #[must_use]
    pub const fn level(self) -> Isa {
        match self {
            Extension::Bf16 | Extension::Vnni | Extension::Amx | Extension::Vbmi => Isa::Avx512,
            Extension::AvxVnni => Isa::Avx2,
        }
    }

    /// Whether the processor has it and the operating system, which must save its registers, permits it.
    #[must_use]
    pub fn present(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            Isa::detect() >= self.level()
                && match self {
                    Extension::Bf16 => std::is_x86_feature_detected!("avx512bf16"),
                    Extension::Vnni => std::is_x86_feature_detected!("avx512vnni"),
                    Extension::Amx => amx::permitted(),
                    Extension::AvxVnni => std::is_x86_feature_detected!("avxvnni"),
                    Extension::Vbmi => std::is_x86_feature_detected!("avx512vbmi"),
                }
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Whether kernels that need it can be called here: it is present, or emulated.
    #[must_use]
    pub fn usable(self) -> bool {
        cfg!(feature = "emulator") || self.present()
    }

    /// The processor's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Extension::Bf16 => "avx512bf16",
            Extension::Vnni => "avx512vnni",
            Extension::Amx => "amx",
            Extension::AvxVnni => "avxvnni",
            Extension::Vbmi => "avx512vbmi",
        }
    }
}

/// Extensions that code may use beside its level: plain data, as keys hold it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extensions(u8);

// By hand, because not every number is a set.
impl Mutate for Extensions {
    fn sample() -> Extensions {
        Extensions::default().with(Extension::Bf16)
    }

    /// The sets with one more or one less.
    fn mutants(&self) -> Vec<(String, Extensions)> {
        Extension::ALL.map(|extension| (String::new(), Extensions(self.0 ^ 1 << extension as u8))).into()
    }
}

impl Extensions {
    /// The extensions of a level that this machine has. An emulated level has none of the machine's.
    #[must_use]
    pub fn beside(isa: Isa) -> Extensions {
        let present = |extension: &Extension| isa == extension.level() && extension.present();
        Extension::ALL.into_iter().filter(present).fold(Extensions(0), Extensions::with)
    }

    /// These and one more.
    #[must_use]
    pub const fn with(self, extension: Extension) -> Extensions {
        Extensions(self.0 | 1 << extension as u8)
    }

    /// The set without an extension.
    #[must_use]
    pub const fn without(self, extension: Extension) -> Extensions {
        Extensions(self.0 & !(1 << extension as u8))
    }

    /// The set of these bits, as [`Extensions::bits`] gives them.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Extensions {
        Extensions(bits)
    }

    /// A bit for each, in the order of [`Extension::ALL`].
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether `extension` is in the set.
    #[must_use]
    pub const fn contains(self, extension: Extension) -> bool {
        self.0 & 1 << extension as u8 != 0
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(Extension::ALL.into_iter().filter(|extension| self.contains(*extension))).finish()
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_extensions_has_what_the_machine_has_beside_their_level() {
        for isa in Isa::ALL {
            let beside = Extensions::beside(isa);
            for extension in Extension::ALL {
                let expected = isa == extension.level() && extension.present();
                assert_eq!(beside.contains(extension), expected, "{isa} {extension:?}");
                assert!(beside.with(extension).contains(extension));
            }
        }
        let all = Extension::ALL.into_iter().fold(Extensions::default(), Extensions::with);
        assert_eq!(format!("{all:?}"), "{Bf16, Vnni, Amx, AvxVnni, Vbmi}");
    }
}
