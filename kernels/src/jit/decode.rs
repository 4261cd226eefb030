//! Disassembles finished kernels, for the emulator and the verifier.
//!
//! A kernel is code up to its constant table, and the table starts at the lowest address that the code reads
//! rip-relative: see [`asm`](super::asm).

use iced_x86::{Decoder, DecoderOptions, Instruction};

/// The instructions of a kernel in order, and the offset at which its constant table starts.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) instructions: Vec<Instruction>,
    pub(super) table: usize,
}

/// Decodes a kernel as if it were at `address`. The text of an error has the offset of bytes that are no instruction.
pub(super) fn decode(bytes: &[u8], address: u64) -> Result<Decoded, String> {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut decoded = Decoded { instructions: Vec::new(), table: bytes.len() };
    while decoder.position() < decoded.table {
        let offset = decoder.position();
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(format!(
                "offset {offset:#x} holds no instruction: {:02x?}",
                &bytes[offset..][..8.min(bytes.len() - offset)]
            ));
        }
        if instruction.is_ip_rel_memory_operand() {
            let target = instruction.ip_rel_memory_address().wrapping_sub(address);
            let target = usize::try_from(target).ok().filter(|target| *target + 4 <= bytes.len());
            let target = target.ok_or_else(|| format!("offset {offset:#x} reads outside the kernel: {instruction}"))?;
            decoded.table = decoded.table.min(target);
        }
        decoded.instructions.push(instruction);
    }
    if decoder.position() != decoded.table {
        return Err(format!("the code runs into its constants at {:#x}", decoded.table));
    }
    Ok(decoded)
}
