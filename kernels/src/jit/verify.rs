//! Checks a finished kernel by decoding it, for tests: which instructions and operands it may have.

use std::collections::HashSet;

use iced_x86::{CpuidFeature, FlowControl, Instruction, OpKind, Register};

use super::decode::decode;
use crate::isa::{Extension, Isa};

/// Features of every x86-64 processor, and of [`Isa::Avx2`].
const AVX2: &[CpuidFeature] = &[
    CpuidFeature::INTEL8086,
    CpuidFeature::INTEL186,
    CpuidFeature::INTEL386,
    CpuidFeature::INTEL486,
    CpuidFeature::X64,
    CpuidFeature::MULTIBYTENOP,
    CpuidFeature::SSE,
    CpuidFeature::AVX,
    CpuidFeature::AVX2,
    CpuidFeature::FMA,
    CpuidFeature::F16C,
];

/// The features that [`Isa::Avx512`] has on top.
const AVX512: &[CpuidFeature] =
    &[CpuidFeature::AVX512F, CpuidFeature::AVX512BW, CpuidFeature::AVX512DQ, CpuidFeature::AVX512VL];

/// Checks a kernel and counts its instructions. The text of an error names the instruction.
///
/// Every byte up to the constant table decodes; branches target instructions of the kernel; the only exit is `ret`; no
/// instruction needs a feature beyond the level; constants are read and never written.
pub fn verify(isa: Isa, bytes: &[u8]) -> Result<usize, String> {
    verify_extended(isa, None, bytes)
}

/// As [`verify`], for a kernel that may also use an extension of its level.
pub fn verify_extended(isa: Isa, extension: Option<Extension>, bytes: &[u8]) -> Result<usize, String> {
    let extended: &[CpuidFeature] = match extension {
        None => &[],
        Some(Extension::Bf16) => &[CpuidFeature::AVX512_BF16],
        Some(Extension::Vnni) => &[CpuidFeature::AVX512_VNNI],
        Some(Extension::Amx) => &[CpuidFeature::AMX_TILE, CpuidFeature::AMX_BF16, CpuidFeature::AMX_INT8],
        Some(Extension::AvxVnni) => &[CpuidFeature::AVX_VNNI],
        Some(Extension::Vbmi) => &[CpuidFeature::AVX512_VBMI],
    };
    let has = |feature: &CpuidFeature| {
        AVX2.contains(feature) || isa == Isa::Avx512 && AVX512.contains(feature) || extended.contains(feature)
    };
    let decoded = decode(bytes, 0)?;
    let starts: HashSet<u64> = decoded.instructions.iter().map(Instruction::ip).collect();
    let mut last = None;
    for instruction in &decoded.instructions {
        let fail = |what: &str| Err(format!("{what} at {:#x}: {instruction}", instruction.ip()));
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::Return => {}
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                if !starts.contains(&instruction.near_branch_target()) {
                    return fail("a branch into nowhere");
                }
            }
            _ => return fail("control leaves otherwise than by ret"),
        }
        let missing = instruction.cpuid_features().iter().find(|feature| !has(feature));
        if let Some(missing) = missing {
            return fail(&format!("{isa} lacks {missing:?}"));
        }
        if instruction.is_ip_rel_memory_operand() && instruction.op0_kind() == OpKind::Memory {
            return fail("a constant is written");
        }
        if let Some(register) = vector_beyond(isa, instruction) {
            return fail(&format!("{isa} code names {register:?}"));
        }
        if instruction.flow_control() != FlowControl::Next || instruction.mnemonic() != iced_x86::Mnemonic::Nop {
            last = Some(instruction.flow_control());
        }
    }
    match last {
        Some(FlowControl::Return | FlowControl::UnconditionalBranch) => Ok(decoded.instructions.len()),
        _ => Err("control runs past the end".to_owned()),
    }
}

/// A vector register that code of the level may not name. The upper sixteen have no VEX encoding, and 512-bit registers
/// need EVEX, so on AVX2 this cannot happen unless the features are wrong too.
fn vector_beyond(isa: Isa, instruction: &Instruction) -> Option<Register> {
    (0..instruction.op_count())
        .filter(|operand| instruction.op_kind(*operand) == OpKind::Register)
        .map(|operand| instruction.op_register(operand))
        .find(|register| register.is_vector_register() && register.number() >= usize::from(isa.registers()))
}
