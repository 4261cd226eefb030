//! The product of many rows of bytes in pairs ([`Products::Pairs`](super::products::Products::Pairs)), where
//! multiply-adds are the limit.
//!
//! Unpacking codes and broadcasting elements of rows take units of the processor from multiplying. So a code is
//! unpacked once for up to six rows, and an element is broadcast once for all vectors of a panel. The sums that this
//! needs fill the registers of AVX2; the sums of the rows over earlier blocks stay in C, which is in L1.

use super::streams::{Ahead, STREAMS};
use super::words::{ByteWords, COUNT, GROUP, HEADS, ONES, OTHER};
use crate::jit::{Asm, Gpr, Mem, Vreg};
use crate::problem::blockwise::ZeroPoints;

/// Rows of C that are addressed from one register.
const ROWS_OF_A_BASE: u8 = 3;

/// C's first row, its fourth row, and bytes from row to row.
const C: Gpr = Gpr::R12;
const FOURTH: Gpr = Gpr::R13;
const STRIDE: Gpr = Gpr::R14;

/// The instructions of a kernel of many rows, by one panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct ManyPairs {
    pub(super) words: ByteWords,
    pub(super) ahead: Ahead,
    /// Whether a block has at most the words whose pairs of products fit 16 bits.
    pub(super) short: bool,
}

/// The arguments that name rows of C and the sums to begin with.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowsOfC {
    pub(super) c: Mem,
    /// Bytes from row to row.
    pub(super) ldc: Mem,
    /// May be null.
    pub(super) from: Mem,
    pub(super) from_stride: Mem,
}

impl ManyPairs {
    fn rows(self) -> u8 {
        self.words.rows
    }

    fn vectors(self) -> u8 {
        self.words.panels.all()
    }

    /// Whether sums of pairs are in other registers than sums over a block.
    fn has_sums_of_pairs(self) -> bool {
        !self.short && !self.words.widens()
    }

    /// Registers: integer sums over a block; sums of pairs in 16 bits; codes of each vector; an element; a product.
    pub(super) fn registers(self) -> usize {
        let sums = usize::from(self.rows()) * usize::from(self.vectors());
        sums * (1 + usize::from(self.has_sums_of_pairs())) + usize::from(self.vectors()) + 2
    }

    fn sum(self, row: u8, vector: u8) -> Vreg {
        Vreg(row * self.vectors() + vector)
    }

    fn pairs(self, row: u8, vector: u8) -> Vreg {
        let before = if self.has_sums_of_pairs() { self.rows() } else { 0 };
        self.sum(before + row, vector)
    }

    fn codes(self, vector: u8) -> Vreg {
        self.pairs(self.rows(), vector)
    }

    fn element(self) -> Vreg {
        self.codes(self.vectors())
    }

    fn product(self) -> Vreg {
        Vreg(self.element().0 + 1)
    }

    /// All rows by all vectors.
    fn all(self) -> impl Iterator<Item = (u8, u8)> {
        (0..self.rows()).flat_map(move |row| (0..self.vectors()).map(move |vector| (row, vector)))
    }

    /// Addresses of C, whose rows take the sums to begin with.
    pub(super) fn start(self, asm: &mut Asm, rows: RowsOfC) {
        asm.load(C, rows.c);
        asm.load(STRIDE, rows.ldc);
        asm.lea(FOURTH, Mem::indexed(C, STRIDE, 1, 0));
        asm.lea(FOURTH, Mem::indexed(FOURTH, STRIDE, 2, 0));
        asm.load(OTHER, rows.from);
        let bytes = asm.vector_bytes();
        asm.unless_zero_else(
            OTHER,
            |asm| {
                for row in 0..self.rows() {
                    for vector in 0..self.vectors() {
                        asm.vload(self.product(), Mem::at(OTHER, i32::from(vector) * bytes));
                        asm.vstore(ManyPairs::row_of_c(asm, row, vector), self.product());
                    }
                    asm.add_mem(OTHER, rows.from_stride);
                }
            },
            |asm| {
                asm.vzero(self.product());
                for (row, vector) in self.all() {
                    asm.vstore(ManyPairs::row_of_c(asm, row, vector), self.product());
                }
            },
        );
    }

    fn row_of_c(asm: &Asm, row: u8, vector: u8) -> Mem {
        let base = if row < ROWS_OF_A_BASE { C } else { FOURTH };
        let at = i32::from(vector) * asm.vector_bytes();
        match row % ROWS_OF_A_BASE {
            0 => Mem::at(base, at),
            row => Mem::indexed(base, STRIDE, row, at),
        }
    }

    /// A block with as many words as the register counts.
    pub(super) fn block(self, asm: &mut Asm) {
        self.words.panels.begin_block(asm);
        if self.short {
            // One group, or words one by one, whose sums of pairs begin with zeros.
            asm.while_at_least(COUNT, i32::from(GROUP), |asm| self.group(asm, GROUP, true));
            asm.unless_zero(COUNT, |asm| {
                self.all().for_each(|(row, vector)| asm.vzero(self.pairs(row, vector)));
                asm.repeat(COUNT, |asm| self.group(asm, 1, false));
            });
            asm.vload(self.product(), ONES);
            for (row, vector) in self.all() {
                let sum = self.sum(row, vector);
                asm.vmul_pairs(sum, sum, self.product());
            }
            self.add_starts(asm);
        } else {
            self.all().for_each(|(row, vector)| asm.vzero(self.sum(row, vector)));
            self.add_starts(asm);
            asm.align(32);
            asm.while_at_least(COUNT, i32::from(GROUP), |asm| self.group(asm, GROUP, true));
            asm.for_each(COUNT, 1, |asm| self.group(asm, 1, true));
        }
        self.add_to_rows(asm);
    }

    /// Adds the first values of integer sums.
    fn add_starts(self, asm: &mut Asm) {
        if self.words.panels.zeros != ZeroPoints::Middle {
            return;
        }
        for row in 0..self.rows() {
            asm.vbroadcast(self.element(), Mem::at(HEADS, 4 * i32::from(row)));
            for vector in 0..self.vectors() {
                let sum = self.sum(row, vector);
                asm.viadd(sum, sum, self.element());
            }
        }
    }

    /// `words` words of each column, whose pairs of products fit their sums; these are `fresh` or go on.
    fn group(self, asm: &mut Asm, words: u8, fresh: bool) {
        let (element, product) = (self.element(), self.product());
        for (word, part) in (0..words).flat_map(|word| (0..self.words.parts()).map(move |part| (word, part))) {
            for vector in 0..self.vectors() {
                let at = self.words.panels.words(asm, vector, word);
                if part == 0 {
                    self.ahead.prefetch(asm, at, STREAMS as u8);
                }
                self.unpack(asm, part, at, self.codes(vector));
            }
            for row in 0..self.rows() {
                asm.vbroadcast(element, self.words.bytes(word, part, row));
                for vector in 0..self.vectors() {
                    let (codes, pairs) = (self.codes(vector), self.pairs(row, vector));
                    if self.words.widens() {
                        asm.vmul_pairs(product, codes, element);
                        asm.viadd(pairs, pairs, product);
                    } else if fresh && (word, part) == (0, 0) {
                        asm.vmul_bytes(pairs, codes, element);
                    } else {
                        asm.vmul_bytes(product, codes, element);
                        asm.vadd_words(pairs, pairs, product);
                    }
                }
            }
        }
        if self.has_sums_of_pairs() {
            asm.vload(product, ONES);
            for (row, vector) in self.all() {
                let (sum, pairs) = (self.sum(row, vector), self.pairs(row, vector));
                asm.vmul_pairs(pairs, pairs, product);
                asm.viadd(sum, sum, pairs);
            }
        }
        self.words.advance(asm, words);
    }

    /// Code number `part` of each byte, or of each 16 bits, of a vector of words, unsigned.
    fn unpack(self, asm: &mut Asm, part: u8, words: Mem, to: Vreg) {
        asm.vload(to, words);
        asm.vxor(to, to, self.words.highest_bits());
        if part > 0 {
            asm.vishr(to, to, part * self.words.codes.bits() as u8);
        }
        asm.vand(to, to, self.words.lowest_bits());
    }

    /// Ends a block: takes its zero points off and adds its sums, times their scales, to the rows of C.
    fn add_to_rows(self, asm: &mut Asm) {
        let (element, product) = (self.element(), self.product());
        for (row, vector) in self.all() {
            asm.vcvt_f32(self.sum(row, vector), self.sum(row, vector));
        }
        if self.words.panels.zeros != ZeroPoints::Middle {
            (0..self.vectors()).for_each(|vector| self.words.panels.load_zero_points(asm, vector, self.codes(vector)));
            for row in 0..self.rows() {
                asm.vbroadcast(element, Mem::at(HEADS, 4 * i32::from(row)));
                for vector in 0..self.vectors() {
                    asm.vfnma231(self.sum(row, vector), self.codes(vector), element);
                }
            }
        }
        for row in 0..self.rows() {
            asm.vbroadcast(element, Mem::at(HEADS, 4 * i32::from(self.rows() + row)));
            for vector in 0..self.vectors() {
                let (sum, at) = (self.sum(row, vector), ManyPairs::row_of_c(asm, row, vector));
                let scales = self.words.panels.scales(asm, vector);
                asm.vmul(product, element, scales);
                asm.vfma213(sum, product, at);
                asm.vstore(at, sum);
            }
        }
        asm.add_imm(HEADS, 8 * i32::from(self.rows()));
    }
}
