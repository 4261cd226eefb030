//! Rounds left-hand rows, and what convolutions read, to pairs of `bf16` for kernels that multiply pairs.
//!
//! The processor rounds to nearest even and takes denormals for zeros; only AVX-512 kernels multiply pairs, so there is
//! no other form.

use std::mem::offset_of;
use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Code, Cond, Extents, Given, Gpr, Mem, Vreg, counted_down};

/// What shapes the instructions: nothing but the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct HalveCode {
    /// Level: AVX-512.
    pub isa: Isa,
}

/// The name of the code.
pub(crate) const FAMILY: &str = "halve";

/// Bytes that are asked for ahead: rows of large inputs come from far away, 5 to 7 % faster so.
const AHEAD: i32 = 2048;

/// The arguments of one call.
#[repr(C)]
struct HalveArgs {
    from: *const f32,
    to: *mut f32,
    /// Rows, and bytes from one to the next on both sides.
    rows: usize,
    from_step: usize,
    to_step: usize,
    /// Bytes between the words of a group and of the next.
    step: usize,
    /// Whole groups of two vectors of elements.
    groups: usize,
    /// Elements of the first and the second vector after them, and words that they become.
    rest: [usize; 3],
}

impl Arguments for HalveArgs {
    const FAMILY: &'static str = FAMILY;
    /// Lanes of a vector.
    type Kernel = usize;

    fn extents(&self, &lanes: &usize, extents: &mut Extents<'_>) {
        let (rows, [first, second, words]) = (counted_down(self.rows), self.rest);
        let elements = self.groups.saturating_mul(2 * lanes).saturating_add(first + second);
        extents.read("rows", self.from).over(rows, self.from_step).bytes(elements.saturating_mul(4));
        let groups = extents.write("words", self.to).over(rows, self.to_step);
        groups.over(self.groups, self.step).bytes(lanes * 4);
        if first > 0 {
            let last = extents.write("words", self.to).from((self.groups * self.step) as isize);
            last.over(rows, self.to_step).bytes(words * 4);
        }
    }
}

/// What rounds a row.
#[derive(Clone, Debug)]
pub(crate) struct Halve {
    code: Arc<Code>,
    lanes: usize,
}

impl Halve {
    pub(crate) fn new(isa: Isa, source: &dyn CodeSource) -> Result<Halve> {
        Ok(Halve { code: source.code(&CodeKey::Halve(HalveCode { isa }))?, lanes: isa.lanes() })
    }

    /// Rounds a row to half as many words, the last of an odd row with a zero.
    pub(super) fn row(&self, row: &[f32], words: &mut [f32]) {
        assert_eq!(words.len(), row.len().div_ceil(2), "half as many words as elements");
        let last = (row.len() % (2 * self.lanes)).div_ceil(2);
        // SAFETY: groups of as many words as lanes and what is left are all words.
        unsafe { self.call(row, words, &HalveRows::one(row.len()), self.lanes, last) };
    }

    /// Rounds a row to groups of as many words as a vector has lanes, `step` words from one to the next; the last is filled up
    /// with zeros.
    ///
    /// # Panics
    ///
    /// Where the words end before the last group does.
    pub(crate) fn spread(&self, row: &[f32], to: &mut [f32], step: usize) {
        let Some(last) = row.len().div_ceil(2 * self.lanes).checked_sub(1) else { return };
        assert!(last * step + self.lanes <= to.len(), "a row of {} elements beyond the end", row.len());
        // SAFETY: all groups lie in the words.
        unsafe { self.call(row, to, &HalveRows::one(row.len()), step, self.lanes) };
    }

    /// Rounds rows to groups of as many words as a vector has lanes, one behind the other; the last of each is filled up with
    /// zeros.
    ///
    /// # Panics
    ///
    /// Where a buffer ends before the last row does.
    pub(crate) fn rows(&self, from: &[f32], to: &mut [f32], rows: &HalveRows) {
        let Some(last) = rows.count.checked_sub(1) else { return };
        let words = rows.length.div_ceil(2 * self.lanes) * self.lanes;
        assert!(
            last * rows.from + rows.length <= from.len() && last * rows.to + words <= to.len(),
            "{rows:?} beyond the end"
        );
        let mut rows = *rows;
        if rows.from == rows.length && rows.to == words && rows.length.is_multiple_of(2 * self.lanes) {
            // Without gaps they are one.
            rows = HalveRows::one(rows.count * rows.length);
        }
        // SAFETY: all rows and what they become lie in the buffers.
        unsafe { self.call(from, to, &rows, self.lanes, self.lanes) };
    }

    /// # Safety
    ///
    /// All rows lie in `from` and all their groups in `to`: of the last, if it is not whole, `last` words.
    unsafe fn call(&self, from: &[f32], to: &mut [f32], rows: &HalveRows, step: usize, last: usize) {
        let given = Given::new().read("rows", from).write("words", to);
        let rest = rows.length % (2 * self.lanes);
        let args = HalveArgs {
            from: from.as_ptr(),
            to: to.as_mut_ptr(),
            rows: rows.count,
            from_step: rows.from * 4,
            to_step: rows.to * 4,
            step: step * 4,
            groups: rows.length / (2 * self.lanes),
            rest: [rest.min(self.lanes), rest.saturating_sub(self.lanes), last],
        };
        // SAFETY: the caller's contract.
        unsafe { self.code.call(&args, &self.lanes, &given) };
    }
}

/// Rows of equal length, and how far they are apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalveRows {
    /// Rows.
    pub(crate) count: usize,
    /// Elements of each.
    pub(crate) length: usize,
    /// Elements from one to the next.
    pub(crate) from: usize,
    /// Words from what one becomes to what the next becomes.
    pub(crate) to: usize,
}

impl HalveRows {
    fn one(length: usize) -> HalveRows {
        HalveRows { count: 1, length, from: 0, to: 0 }
    }
}

impl HalveCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) {
        let bytes = asm.vector_bytes();
        let (from, to, count, step, t0, t1) = (Gpr::RSI, Gpr::RDX, Gpr::R8, Gpr::R9, Gpr::RAX, Gpr::RCX);
        let (row_from, row_to, rows) = (Gpr::R10, Gpr::R11, Gpr::RBX);
        let arg = |offset: usize| Mem::at(Gpr::RDI, offset as i32);
        let (low, high) = (Vreg(0), Vreg(1));
        let (row, next, rest, done) = (asm.label(), asm.label(), asm.label(), asm.label());
        asm.prologue();
        asm.load(row_from, arg(offset_of!(HalveArgs, from)));
        asm.load(row_to, arg(offset_of!(HalveArgs, to)));
        asm.load(rows, arg(offset_of!(HalveArgs, rows)));
        asm.load(step, arg(offset_of!(HalveArgs, step)));
        let masks = [0, 1, 2].map(|index: usize| {
            asm.load(t0, arg(offset_of!(HalveArgs, rest) + 8 * index));
            let mask = asm.mask(index as u8, Vreg(asm.registers() - 1));
            asm.mask_first(mask, t0, t1);
            mask
        });
        asm.bind(row);
        asm.mov(from, row_from);
        asm.mov(to, row_to);
        asm.load(count, arg(offset_of!(HalveArgs, groups)));
        asm.test(count);
        asm.jump_if(Cond::Equal, rest);
        asm.bind(next);
        for line in 0..2 {
            asm.prefetch(Mem::at(from, AHEAD + line * bytes));
        }
        asm.vload(high, Mem::at(from, bytes));
        asm.vround_bf16(low, high, Mem::at(from, 0));
        asm.vstore(Mem::at(to, 0), low);
        asm.add_imm(from, 2 * bytes);
        asm.add(to, step);
        asm.sub_imm(count, 1);
        asm.test(count);
        asm.jump_if(Cond::NotEqual, next);
        asm.bind(rest);
        asm.load(t0, arg(offset_of!(HalveArgs, rest)));
        asm.test(t0);
        asm.jump_if(Cond::Equal, done);
        // Masked lanes are zero, so that an odd row ends in a pair with zero.
        asm.vload_masked(low, masks[0], Mem::at(from, 0));
        asm.vload_masked(high, masks[1], Mem::at(from, bytes));
        asm.vround_bf16(low, high, low);
        asm.vstore_masked(Mem::at(to, 0), masks[2], low);
        asm.bind(done);
        asm.load(t0, arg(offset_of!(HalveArgs, from_step)));
        asm.add(row_from, t0);
        asm.load(t0, arg(offset_of!(HalveArgs, to_step)));
        asm.add(row_to, t0);
        asm.sub_imm(rows, 1);
        asm.test(rows);
        asm.jump_if(Cond::NotEqual, row);
        asm.epilogue();
    }
}
