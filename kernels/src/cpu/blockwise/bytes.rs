//! Left-hand rows as signed bytes: each block of a row is divided by a step of its own, as ONNX Runtime does at
//! `accuracy_level` 4.
//!
//! A step is the largest magnitude of a block over 127, and a byte the element over the step, rounded to even. Rows
//! that one call multiplies lie side by side, in the order in which the kernel reads them:
//!
//! ```text
//! heads  for each block: its start or its sum [rows] | its step  f32 [rows]
//! bytes  for each word: for each code of a byte: the elements of the word that are that code of their bytes, 4 [rows];
//!        for pairs of codes of eight bits: its elements 0 and 2, then 1 and 3, in 16 bits each, 2 [rows]
//! ```
//!
//! The start of a block is the first value of an integer sum where all zero points are the middle of the codes: minus
//! the sum of its bytes times the middle. Where there are zero points, the head has the sum of the bytes instead, as an
//! `f32`.

use super::layout::BlockPanels;
use super::products::Products;
use crate::cpu::multiversion::multiversion;
use crate::isa::Isa;
use crate::problem::blockwise::ZeroPoints;

/// The largest byte.
const MOST: f32 = 127.0;

/// Adding it to a number of at most 2^22 rounds to an integer, in the lowest bits: 1.5 times 2^23.
const ROUND: f32 = 12_582_912.0;

/// Where the parts of a group of rows are, in 32-bit words.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteRows {
    pub(super) panels: BlockPanels,
    /// Rows side by side.
    pub(super) rows: usize,
    /// The instructions that multiply them.
    pub(super) products: Products,
}

impl ByteRows {
    /// Words of the heads.
    pub(super) fn heads_len(&self) -> usize {
        2 * self.rows * self.panels.blocks()
    }

    /// Words of heads and bytes.
    pub(super) fn len(&self) -> usize {
        self.heads_len() + self.rows * self.panels.words() * self.parts()
    }

    /// Words of a row for each word of codes.
    pub(super) fn parts(&self) -> usize {
        self.products.parts(self.panels.format.codes)
    }

    /// Quantises rows of `k` elements each, at most as many as lie side by side. The places of missing rows stay as
    /// they are.
    pub(super) fn quantise(&self, isa: Isa, left: &[f32], to: &mut [u32]) {
        let (heads, words) = to.split_at_mut(self.heads_len());
        let (parts, widened) = (self.parts(), self.products.widens(self.panels.format.codes));
        let step = self.panels.block_words() * parts * self.rows;
        for (row, left) in left.chunks_exact(self.panels.k).take(self.rows).enumerate() {
            let side_by_side = SideBySide { row, rows: self.rows, parts, widened };
            quantise_row(isa, left, &self.panels, side_by_side, heads, words.chunks_mut(step.max(1)));
        }
    }
}

/// Elements of the longest block.
const LONGEST: usize = 256;

/// Lanes that are computed together.
const LANES: usize = 16;

/// A row among those that lie side by side, its words for each word of codes, and whether its elements have 16 bits.
#[derive(Clone, Copy)]
struct SideBySide {
    row: usize,
    rows: usize,
    parts: usize,
    widened: bool,
}

impl SideBySide {
    /// Writes the bytes of a block in the order in which the kernel reads them.
    #[inline(always)]
    fn write(self, bytes: &[i8], to: &mut [u32]) {
        let SideBySide { row, rows, parts, widened, .. } = self;
        match parts {
            _ if widened => {
                for (four, to) in bytes.as_chunks::<4>().0.iter().zip(to.chunks_exact_mut(2 * rows)) {
                    let [a, b, c, d] = four.map(|byte| u32::from(i16::from(byte).cast_unsigned()));
                    (to[row], to[rows + row]) = (a | c << 16, b | d << 16);
                }
            }
            1 => {
                let words = bytes.as_chunks::<4>().0.iter().zip(to.chunks_exact_mut(rows));
                words.for_each(|(four, to)| to[row] = u32::from_le_bytes(bytemuck::cast(*four)));
            }
            2 => {
                let mut fours = to.chunks_exact_mut(4 * rows);
                let mut sixteens = bytes.as_chunks::<16>().0.iter();
                for (to, sixteen) in fours.by_ref().zip(sixteens.by_ref()) {
                    let words = even_and_odd(sixteen);
                    (0..4).for_each(|word| to[word * rows + row] = words[word]);
                }
                let two = fours.into_remainder();
                if let Some(sixteen) = sixteens.next().filter(|_| !two.is_empty()) {
                    let words = even_and_odd(sixteen);
                    (two[row], two[rows + row]) = (words[0], words[1]);
                }
            }
            _ => {
                for (bytes, to) in bytes.chunks_exact(4 * parts).zip(to.chunks_exact_mut(parts * rows)) {
                    for (part, to) in to.chunks_exact_mut(rows).enumerate() {
                        let four = [0, 1, 2, 3].map(|byte| bytes[byte * parts + part].cast_unsigned());
                        to[row] = u32::from_le_bytes(four);
                    }
                }
            }
        }
    }
}

/// The even bytes and the odd bytes of each eight.
#[inline(always)]
fn even_and_odd(bytes: &[i8; 16]) -> [u32; 4] {
    // In words: LLVM moves bytes one by one where an array is written in another order.
    let [low, high]: [[u8; 8]; 2] = bytemuck::cast(*bytes);
    let evens = |eight: u64| {
        let pairs = eight & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
        (fours | fours >> 16) as u32
    };
    let [low, high] = [low, high].map(u64::from_le_bytes);
    [evens(low), evens(low >> 8), evens(high), evens(high >> 8)]
}

/// The bytes of a block that is padded with zeros, its step and the sum of its bytes.
#[inline(always)]
fn quantised(elements: &[[f32; LANES]], bytes: &mut [[i8; LANES]]) -> (f32, i32) {
    // Magnitudes are in the order of their bits. A NaN is larger than all numbers, so the step of its block is a NaN
    // too.
    let mut largest = [0u32; LANES];
    for elements in elements {
        let each = largest.iter_mut().zip(elements);
        for (largest, element) in each {
            *largest = (*largest).max(element.abs().to_bits());
        }
    }
    let most = f32::from_bits(largest.into_iter().fold(0, u32::max));
    let inverse = if most > 0.0 { MOST / most } else { 0.0 };
    let mut sums = [0i32; LANES];
    for (elements, bytes) in elements.iter().zip(bytes) {
        for ((byte, element), sum) in bytes.iter_mut().zip(elements).zip(&mut sums) {
            let rounded = (element * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
            // Where the quotient is not a number, the byte means nothing, but all forms compute the same byte.
            *byte = rounded as i8;
            *sum += i32::from(*byte);
        }
    }
    (most / MOST, sum(sums))
}

/// The sum of all lanes. In halves: LLVM takes lanes out one by one where they are added in order.
#[inline(always)]
fn sum(mut lanes: [i32; LANES]) -> i32 {
    for half in [8, 4, 2, 1] {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low += *high);
    }
    lanes[0]
}

/// Where a block of a row goes.
struct Place<'a> {
    /// The words of all rows.
    words: &'a mut [u32],
    /// The heads of all rows.
    head: &'a mut [u32],
}

/// Quantises a block of at most `N` times the lanes, whose elements are padded with zeros to whole lanes.
#[inline(always)]
fn quantise_block<const N: usize>(panels: &BlockPanels, at: SideBySide, padded: &[[f32; LANES]], place: Place<'_>) {
    let Place { words, head } = place;
    let mut bytes = [[0i8; LANES]; N];
    let bytes = &mut bytes[..padded.len()];
    let (step, sum) = quantised(padded, bytes);
    head[at.row] = match panels.format.zeros {
        ZeroPoints::Middle => (-i32::from(panels.format.codes.middle()) * sum).cast_unsigned(),
        ZeroPoints::Bytes | ZeroPoints::F32 => (sum as f32).to_bits(),
    };
    head[at.rows + at.row] = step.to_bits();
    at.write(bytes.as_flattened(), words);
}

/// Quantises blocks of `N` times the lanes, a number that the compiler knows.
#[inline(always)]
fn quantise_blocks<'a, const N: usize>(
    panels: &BlockPanels,
    at: SideBySide,
    blocks: &[f32],
    places: &mut impl Iterator<Item = Place<'a>>,
) {
    for (block, place) in blocks.as_chunks::<LANES>().0.as_chunks::<N>().0.iter().zip(places) {
        quantise_block::<N>(panels, at, block, place);
    }
}

multiversion! {
    /// Quantises one row: the blocks of all words are in `words`.
    fn quantise_row(
        left: &[f32],
        panels: &BlockPanels,
        at: SideBySide,
        heads: &mut [u32],
        words: std::slice::ChunksMut<'_, u32>
    ) {
        let block = panels.format.block();
        let places = words.zip(heads.chunks_exact_mut(2 * at.rows));
        let mut places = places.map(|(words, head)| Place { words, head });
        let (whole, rest) = left.split_at(left.len() / block * block);
        match block / LANES {
            1 => quantise_blocks::<1>(panels, at, whole, &mut places),
            2 => quantise_blocks::<2>(panels, at, whole, &mut places),
            4 => quantise_blocks::<4>(panels, at, whole, &mut places),
            8 => quantise_blocks::<8>(panels, at, whole, &mut places),
            lanes => {
                for (block, place) in whole.as_chunks::<LANES>().0.chunks_exact(lanes).zip(&mut places) {
                    quantise_block::<{ LONGEST / LANES }>(panels, at, block, place);
                }
            }
        }
        if let Some(place) = places.next().filter(|_| !rest.is_empty()) {
            let mut padded = [[0f32; LANES]; LONGEST / LANES];
            padded.as_flattened_mut()[..rest.len()].copy_from_slice(rest);
            quantise_block::<{ LONGEST / LANES }>(panels, at, &padded[..rest.len().div_ceil(LANES)], place);
        }
    }
}
