//! MurmurHash3: a hash of 32 bits of each text or number, by the bytes that it is stored in.

use kiln_kernels::memory::Pace;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::{LoadCx, OpError, Operator, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "MurmurHash3", make)];

struct Murmur {
    seed: u32,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    // Its low bits: seeds are numbers of 32 bits, which a model may write with a sign.
    Ok(Box::new(Murmur { seed: cx.node.attributes().int("seed") as u32 }))
}

/// MurmurHash3 for 32 bits of some bytes, whose number counts by its low bits.
fn hash(bytes: &[u8], seed: u32) -> u32 {
    let mixed = |block: u32| block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (blocks, rest) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for block in blocks {
        hash = (hash ^ mixed(u32::from_le_bytes(*block))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    // Zeros behind the last bytes fill a block; a block of zeros alone changes nothing.
    let last = rest.iter().rev().fold(0u32, |block, &byte| block << 8 | u32::from(byte));
    hash ^= mixed(last) ^ bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

impl Node for Murmur {
    fn family(&self) -> &'static str {
        "MurmurHash3"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            DType::String | DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::F32 | DType::F64 => Ok(()),
            dtype => Err(NodeError::Unsupported(format!("a hash of {dtype}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        let mut pace = Pace::default();
        let mut hashed = |bytes: &[u8]| {
            pace.step(8 + bytes.len() / 4);
            hash(bytes, self.seed).to_ne_bytes()
        };
        let to = output.bytes_mut().as_chunks_mut::<4>().0.iter_mut();
        match input.dtype() {
            DType::String => {
                input.as_strings()?.iter().zip(to).for_each(|(text, to)| *to = hashed(text.as_bytes()));
            }
            dtype => input.bytes().chunks_exact(dtype.size()).zip(to).for_each(|(bytes, to)| *to = hashed(bytes)),
        }
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, strings};

    /// Numbers of the reference implementation.
    #[test]
    fn hashes_are_those_of_the_reference_implementation() {
        assert_eq!([hash(b"", 0), hash(b"", 1), hash(b"\xff\xff\xff\xff", 0)], [0, 0x514e_28b7, 0x7629_3b50]);
        assert_eq!([hash(b"\x21\x43\x65\x87", 0x5082_edee), hash(b"\x21\x43\x65", 0)], [0x2362_f9de, 0x7e4a_8634]);
        assert_eq!([hash(b"\x21\x43", 0), hash(b"\x21", 0)], [0xa0f7_b07a, 0x7266_1cf4]);
        assert_eq!(hash(b"The quick brown fox jumps over the lazy dog", 0x9747_b28c), 0x2fa8_26cd);
    }

    #[test]
    fn texts_and_numbers_are_hashed_by_their_bytes() {
        let texts = || Trial::new("MurmurHash3").tensor(strings(&[1, 2], &["", "\u{e9}"]));
        texts().gives(&[1, 2], &[0u32, hash("\u{e9}".as_bytes(), 0)]);
        texts()
            .int("positive", 0)
            .int("seed", -3)
            .gives(&[1, 2], &[hash(b"", u32::MAX - 2) as i32, hash("\u{e9}".as_bytes(), u32::MAX - 2) as i32]);
        Trial::new("MurmurHash3").input(&[1], &[7i32]).gives(&[1], &[hash(&7i32.to_le_bytes(), 0)]);
        Trial::new("MurmurHash3").input(&[1], &[1.5f64]).gives(&[1], &[hash(&1.5f64.to_le_bytes(), 0)]);
        Trial::new("MurmurHash3").input::<i64>(&[0], &[]).gives::<u32>(&[0], &[]);
        Trial::new("MurmurHash3").input(&[1], &[1u8]).is_refused("a hash of uint8");
    }
}
