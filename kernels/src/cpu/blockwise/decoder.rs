//! The instructions that turn the codes of block-quantised weights into numbers.

use crate::isa::Isa;
use crate::jit::{Asm, Gpr, Mask, Mem, Vreg};
use crate::problem::blockwise::{Codes, WORD};

/// How words become numbers in registers at one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoder {
    /// The code is shifted to the top, then down with its sign, and converted.
    Shifts(Codes),
    /// The lowest four bits pick one of sixteen numbers of a register.
    Table { codes: Codes, table: Vreg },
    /// The lowest three bits pick one of eight numbers in each of two registers, and the fourth bit picks the register.
    TwoTables { codes: Codes, low: Vreg, high: Vreg, other: Vreg, sign: Vreg },
}

impl Decoder {
    /// The decoder with its registers, from `first` on.
    pub(super) fn new(isa: Isa, codes: Codes, first: Vreg) -> Decoder {
        match (isa, codes) {
            (_, Codes::Int8) => Decoder::Shifts(codes),
            (Isa::Avx512, _) => Decoder::Table { codes, table: first },
            (_, Codes::Int2 | Codes::Int4) => Decoder::Shifts(codes),
            (_, Codes::Nf4 | Codes::Fp4) => {
                let [low, high, other, sign] = [0, 1, 2, 3].map(|index| Vreg(first.0 + index));
                Decoder::TwoTables { codes, low, high, other, sign }
            }
        }
    }

    /// Registers that the decoder holds.
    pub(super) fn registers(isa: Isa, codes: Codes) -> usize {
        match Decoder::new(isa, codes, Vreg(0)) {
            Decoder::Shifts(_) => 0,
            Decoder::Table { .. } => 1,
            Decoder::TwoTables { .. } => 4,
        }
    }

    /// Loads the tables, which are at `at`; `scratch` is overwritten.
    pub(super) fn begin(&self, asm: &mut Asm, at: Mem, scratch: Gpr) {
        let bytes = asm.vector_bytes();
        match *self {
            Decoder::Shifts(_) => {}
            Decoder::Table { table, .. } => {
                asm.load(scratch, at);
                asm.vload(table, Mem::at(scratch, 0));
            }
            Decoder::TwoTables { low, high, .. } => {
                asm.load(scratch, at);
                asm.vload(low, Mem::at(scratch, 0));
                asm.vload(high, Mem::at(scratch, bytes));
            }
        }
    }

    /// to = the numbers of code `index` of each of the words.
    pub(super) fn number(&self, asm: &mut Asm, index: usize, words: Vreg, to: Vreg) {
        // The lowest bits pick, whatever stands above them.
        let lowest = |asm: &mut Asm, codes: Codes| match index * codes.bits() {
            0 => words,
            bits => {
                asm.vishr(to, words, bits as u8);
                to
            }
        };
        match *self {
            Decoder::Shifts(codes) => {
                let top = WORD - (index + 1) * codes.bits();
                if top > 0 {
                    asm.vishl(to, words, top as u8);
                }
                asm.visar(to, if top > 0 { to } else { words }, (WORD - codes.bits()) as u8);
                asm.vcvt_f32(to, to);
            }
            Decoder::Table { codes, table } => {
                let picked = lowest(asm, codes);
                asm.vlookup(to, picked, table);
            }
            Decoder::TwoTables { codes, low, high, other, sign } => {
                let picked = lowest(asm, codes);
                asm.vlookup(other, picked, high);
                asm.vlookup(to, picked, low);
                // Lanes are selected by their highest bit: the fourth of the code.
                let top = WORD - (index + 1) * codes.bits();
                if top > 0 {
                    asm.vishl(sign, words, top as u8);
                }
                let selected = Mask::Vector(if top > 0 { sign } else { words });
                asm.select(to, selected, other, to);
            }
        }
    }
}
