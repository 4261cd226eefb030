//! The bf16 conversion: rows of `f32` become rows of bf16 pairs, for kernels that multiply pairs.
//!
//! The processor rounds to nearest even and takes denormals for zeros. Only AVX-512 kernels multiply bf16 pairs, so
//! there is no other form.

use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Code, Extents, Given, Gpr, Mem, Vreg, arg, counted_down};

/// What shapes the instructions: the level alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Bf16ConvertCode {
    /// Level: AVX-512.
    pub isa: Isa,
}

/// The name of the code.
pub(crate) const FAMILY: &str = "bf16 conversion";

/// Bytes from a read to its prefetch: rows of large inputs come from memory, and prefetching converts them 5 to 7 %
/// faster.
const AHEAD: i32 = 2048;

/// The arguments of one call. Strides are in bytes. A *group* is the words of one vector, made of two vectors of
/// elements.
#[repr(C)]
struct Bf16ConvertArgs {
    from: *const f32,
    to: *mut f32,
    /// Rows, and the strides of rows on both sides.
    rows: usize,
    from_stride: usize,
    to_stride: usize,
    /// From a group of words to the next.
    group_stride: usize,
    /// Whole groups of a row.
    groups: usize,
    /// Elements of the first and the second vector behind the last whole group, and the words stored for them.
    rest: [usize; 3],
}

impl Arguments for Bf16ConvertArgs {
    const FAMILY: &'static str = FAMILY;
    /// Lanes of a vector.
    type Kernel = usize;

    fn extents(&self, &lanes: &usize, extents: &mut Extents<'_>) {
        let (rows, [first, second, words]) = (counted_down(self.rows), self.rest);
        let elements = self.groups.saturating_mul(2 * lanes).saturating_add(first + second);
        extents.read("rows", self.from).over(rows, self.from_stride).bytes(elements.saturating_mul(4));
        let groups = extents.write("words", self.to).over(rows, self.to_stride);
        groups.over(self.groups, self.group_stride).bytes(lanes * 4);
        if first > 0 {
            let last = extents.write("words", self.to).from((self.groups * self.group_stride) as isize);
            last.over(rows, self.to_stride).bytes(words * 4);
        }
    }
}

/// The kernel.
#[derive(Clone, Debug)]
pub(crate) struct Bf16Convert {
    code: Arc<Code>,
    lanes: usize,
}

impl Bf16Convert {
    pub(crate) fn new(isa: Isa, source: &dyn CodeSource) -> Result<Bf16Convert> {
        Ok(Bf16Convert { code: source.code(&CodeKey::Bf16Convert(Bf16ConvertCode { isa }))?, lanes: isa.lanes() })
    }

    /// Converts a row to half as many words; an odd row ends in a pair with zero.
    pub(crate) fn row(&self, row: &[f32], words: &mut [f32]) {
        assert_eq!(words.len(), row.len().div_ceil(2), "half as many words as elements");
        let last = (row.len() % (2 * self.lanes)).div_ceil(2);
        // SAFETY: the groups of a row without gaps are all its words; the last group is partial.
        unsafe { self.call(row, words, &Bf16ConvertRows::one(row.len()), self.lanes, last) };
    }

    /// Converts a row to groups with a vector's lanes of words, `group_stride` words apart; the last group is padded
    /// with zeros.
    ///
    /// # Panics
    ///
    /// Where `to` ends before the last group does.
    pub(crate) fn spread(&self, row: &[f32], to: &mut [f32], group_stride: usize) {
        let Some(last) = row.len().div_ceil(2 * self.lanes).checked_sub(1) else { return };
        assert!(last * group_stride + self.lanes <= to.len(), "a row of {} elements beyond the end", row.len());
        // SAFETY: all groups lie in `to`.
        unsafe { self.call(row, to, &Bf16ConvertRows::one(row.len()), group_stride, self.lanes) };
    }

    /// Converts rows to groups with a vector's lanes of words, without gaps; the last group of each row is padded with
    /// zeros.
    ///
    /// # Panics
    ///
    /// Where a buffer ends before the last row does.
    pub(crate) fn rows(&self, from: &[f32], to: &mut [f32], rows: &Bf16ConvertRows) {
        let Some(last) = rows.count.checked_sub(1) else { return };
        let words = rows.length.div_ceil(2 * self.lanes) * self.lanes;
        assert!(
            last * rows.from_stride + rows.length <= from.len() && last * rows.to_stride + words <= to.len(),
            "{rows:?} beyond the end"
        );
        let mut rows = *rows;
        if rows.from_stride == rows.length && rows.to_stride == words && rows.length.is_multiple_of(2 * self.lanes) {
            // Rows without gaps on either side are one long row.
            rows = Bf16ConvertRows::one(rows.count * rows.length);
        }
        // SAFETY: all rows and their words lie in the buffers.
        unsafe { self.call(from, to, &rows, self.lanes, self.lanes) };
    }

    /// # Safety
    ///
    /// All rows lie in `from` and all their groups in `to`; `last` words of a partial group are written.
    unsafe fn call(&self, from: &[f32], to: &mut [f32], rows: &Bf16ConvertRows, group_stride: usize, last: usize) {
        let given = Given::new().read("rows", from).write("words", to);
        let rest = rows.length % (2 * self.lanes);
        let args = Bf16ConvertArgs {
            from: from.as_ptr(),
            to: to.as_mut_ptr(),
            rows: rows.count,
            from_stride: rows.from_stride * 4,
            to_stride: rows.to_stride * 4,
            group_stride: group_stride * 4,
            groups: rows.length / (2 * self.lanes),
            rest: [rest.min(self.lanes), rest.saturating_sub(self.lanes), last],
        };
        // SAFETY: the caller's contract.
        unsafe { self.code.call(&args, &self.lanes, &given) };
    }
}

/// The layout of rows of equal length on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16ConvertRows {
    /// Number of rows.
    pub(crate) count: usize,
    /// Elements of each.
    pub(crate) length: usize,
    /// Stride of rows in elements.
    pub(crate) from_stride: usize,
    /// Stride of converted rows in words.
    pub(crate) to_stride: usize,
}

impl Bf16ConvertRows {
    fn one(length: usize) -> Bf16ConvertRows {
        Bf16ConvertRows { count: 1, length, from_stride: 0, to_stride: 0 }
    }
}

impl Bf16ConvertCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) {
        let bytes = asm.vector_bytes();
        let (from, to, count, group_stride, t0, t1) = (Gpr::RSI, Gpr::RDX, Gpr::R8, Gpr::R9, Gpr::RAX, Gpr::RCX);
        let (row_from, row_to, rows) = (Gpr::R10, Gpr::R11, Gpr::RBX);
        let (low, high) = (Vreg(0), Vreg(1));
        asm.prologue();
        asm.load(row_from, arg!(Bf16ConvertArgs.from));
        asm.load(row_to, arg!(Bf16ConvertArgs.to));
        asm.load(rows, arg!(Bf16ConvertArgs.rows));
        asm.load(group_stride, arg!(Bf16ConvertArgs.group_stride));
        let masks = [0, 1, 2].map(|index: i32| {
            asm.load(t0, arg!(Bf16ConvertArgs.rest).plus(8 * index));
            let mask = asm.mask(index as u8, Vreg(asm.registers() - 1));
            asm.mask_first(mask, t0, t1);
            mask
        });
        asm.repeat(rows, |asm| {
            asm.mov(from, row_from);
            asm.mov(to, row_to);
            asm.load(count, arg!(Bf16ConvertArgs.groups));
            asm.unless_zero(count, |asm| {
                asm.repeat(count, |asm| {
                    for line in 0..2 {
                        asm.prefetch(Mem::at(from, AHEAD + line * bytes));
                    }
                    asm.vload(high, Mem::at(from, bytes));
                    asm.vround_bf16(low, high, Mem::at(from, 0));
                    asm.vstore(Mem::at(to, 0), low);
                    asm.add_imm(from, 2 * bytes);
                    asm.add(to, group_stride);
                });
            });
            asm.load(t0, arg!(Bf16ConvertArgs.rest));
            asm.unless_zero(t0, |asm| {
                // Masked lanes are zero, so that an odd row ends in a pair with zero.
                asm.vload_masked(low, masks[0], Mem::at(from, 0));
                asm.vload_masked(high, masks[1], Mem::at(from, bytes));
                asm.vround_bf16(low, high, low);
                asm.vstore_masked(Mem::at(to, 0), masks[2], low);
            });
            asm.load(t0, arg!(Bf16ConvertArgs.from_stride));
            asm.add(row_from, t0);
            asm.load(t0, arg!(Bf16ConvertArgs.to_stride));
            asm.add(row_to, t0);
        });
        asm.epilogue();
    }
}
