//! The loops of kernels that fold rows: over the vectors of a row, over neighbouring columns, and down a column.
//!
//! An emitter gives the body of a loop, which is emitted several times: for several vectors at once, where each vector
//! is folded into an accumulator of its own, so that folds do not wait for each other; for one vector; and under a mask
//! for the elements that are left. Lengths are run-time arguments. Reductions, softmax, normalisations and attention
//! use these loops.
//!
//! The loops use rax, r8, r9, r10 and r15; rdi holds the arguments.

use smallvec::SmallVec;

use crate::cpu::Stored;
use crate::jit::{Asm, Gpr, Mask, Mem, Vreg};

/// Vectors of a row that are folded at once, each into its own accumulator: the number of additions that a processor
/// has in flight.
pub(crate) const UNROLL: u8 = 4;

/// Bytes of a cache line.
const LINE: i32 = 64;

/// Bytes from the start of the row; in columns, an address.
const AT: Gpr = Gpr::RAX;
/// Bytes of the row in whole groups of vectors, and in whole vectors.
const GROUPS: Gpr = Gpr::R8;
const VECTORS: Gpr = Gpr::R9;
/// Elements of the row after its last whole vector; in columns, the columns that are left.
const REST: Gpr = Gpr::R10;
/// Rows that are left of a column; in rows, a temporary.
const COUNT: Gpr = Gpr::R15;

/// The vector register that holds the mask of the last elements on AVX2.
pub(crate) const TAIL: Vreg = Vreg(15);

fn tail(asm: &Asm) -> Mask {
    asm.mask(0, TAIL)
}

/// A position that a body reads or writes: a vector, or less than one under a mask.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Its index among the vectors that are folded at once, which is the number of its accumulator.
    pub(crate) vector: u8,
    index: Option<Gpr>,
    disp: i32,
    /// The mask of the lanes in use, where not all are.
    pub(crate) tail: Option<Mask>,
}

impl Place {
    /// The same position in another array, which is `offset` bytes from this one; for positions in columns.
    pub(crate) fn in_other_array(self, offset: Gpr) -> Place {
        Place { index: Some(offset), ..self }
    }

    /// The position `bytes` further on.
    pub(crate) fn plus(self, bytes: i32) -> Place {
        Place { disp: self.disp + bytes, ..self }
    }

    /// Prefetches the cache line of a whole vector, once for all vectors in that line; emits nothing for less than a
    /// vector.
    pub(crate) fn prefetch(&self, asm: &mut Asm, base: Gpr) {
        let vectors_in_line = (LINE / asm.vector_bytes()).max(1);
        if self.tail.is_none() && i32::from(self.vector) % vectors_in_line == 0 {
            asm.prefetch(self.address(base));
        }
    }

    /// Its address in the row or column that starts at `base`.
    pub(crate) fn address(&self, base: Gpr) -> Mem {
        match self.index {
            Some(index) => Mem::indexed(base, index, 1, self.disp),
            None => Mem::at(base, self.disp),
        }
    }

    /// dst = the vector; lanes that are not in use are zero.
    pub(crate) fn load(&self, asm: &mut Asm, dst: Vreg, base: Gpr) {
        asm.vload_lanes(dst, self.tail, self.address(base));
    }

    /// The vector = src, in the lanes in use.
    pub(crate) fn store(&self, asm: &mut Asm, base: Gpr, src: Vreg) {
        asm.vstore_lanes(self.address(base), self.tail, src);
    }

    /// Stores src at the same index of a row of that type, in the lanes in use; for positions in rows. Destroys `src`.
    pub(crate) fn store_as(&self, stored: Stored, asm: &mut Asm, base: Gpr, src: Vreg) {
        match stored {
            Stored::F32 => self.store(asm, base, src),
            Stored::Bf16 => {
                // An index takes half as many bytes there.
                let place = self.at_half(asm);
                stored.store(asm, place.address(base), self.tail, src, src);
            }
        }
    }

    /// The place at half as many bytes of a row: the same index where elements are half as large, half of it where they
    /// are of the same size. Valid until the next such place; for positions in rows.
    pub(crate) fn at_half(&self, asm: &mut Asm) -> Place {
        asm.mov(COUNT, AT);
        asm.shr_imm(COUNT, 1);
        Place { index: Some(COUNT), disp: self.disp / 2, ..*self }
    }

    /// Clears the lanes that are not in use. `zero` is a temporary.
    pub(crate) fn clear_unused(&self, asm: &mut Asm, value: Vreg, zero: Vreg) {
        if let Some(mask) = self.tail {
            asm.vzero(zero);
            asm.select(value, mask, value, zero);
        }
    }

    /// Emits `fold(dst, accumulator)` such that lanes of the accumulator that are not in use stay as they are. `temp`
    /// is a temporary.
    pub(crate) fn fold(&self, asm: &mut Asm, accumulator: Vreg, temp: Vreg, fold: impl Fn(&mut Asm, Vreg, Vreg)) {
        match self.tail {
            Some(mask) => {
                fold(asm, temp, accumulator);
                asm.select(accumulator, mask, temp, accumulator);
            }
            None => fold(asm, accumulator, accumulator),
        }
    }
}

/// Computes the loop bounds of rows whose length the argument `length` holds.
pub(crate) fn prepare_rows(asm: &mut Asm, length: Mem) {
    asm.load(REST, length);
    prepare_rest(asm);
}

/// As [`prepare_rows`], for rows with twice as many elements.
pub(crate) fn prepare_doubled(asm: &mut Asm, length: Mem) {
    asm.load(REST, length);
    asm.shl_imm(REST, 1);
    prepare_rest(asm);
}

/// The loop bounds for the number of elements in [`REST`].
fn prepare_rest(asm: &mut Asm) {
    let lanes = asm.lanes() as i32;
    let mask = tail(asm);
    for (bytes, elements) in [(GROUPS, lanes * i32::from(UNROLL)), (VECTORS, lanes)] {
        asm.mov(bytes, REST);
        asm.and_imm(bytes, -elements);
        asm.shl_imm(bytes, 2);
    }
    asm.and_imm(REST, lanes - 1);
    asm.mask_first(mask, REST, AT);
}

/// Emits `body` over the row whose bounds [`prepare_rows`] computed.
pub(crate) fn row(asm: &mut Asm, body: impl Fn(&mut Asm, Place)) {
    let bytes = asm.vector_bytes();
    let place = |vector: u8, tail| Place { vector, index: Some(AT), disp: i32::from(vector) * bytes, tail };
    asm.mov_imm(AT, 0);
    for (end, vectors) in [(GROUPS, UNROLL), (VECTORS, 1)] {
        asm.while_less(AT, end, 16, |asm| {
            (0..vectors).for_each(|vector| body(asm, place(vector, None)));
            asm.add_imm(AT, i32::from(vectors) * bytes);
        });
    }
    asm.unless_zero(REST, |asm| {
        let mask = tail(asm);
        body(asm, place(0, Some(mask)));
    });
}

/// Emits `body` over a row as [`row`] does, with one call for all vectors that are folded at once: [`UNROLL`] vectors,
/// then two, one, and the elements that are left.
pub(crate) fn groups(asm: &mut Asm, body: impl Fn(&mut Asm, &[Place])) {
    let bytes = asm.vector_bytes();
    let places = |count: u8, tail| -> [Place; UNROLL as usize] {
        std::array::from_fn(|vector| {
            let vector = (vector as u8).min(count - 1);
            Place { vector, index: Some(AT), disp: i32::from(vector) * bytes, tail }
        })
    };
    asm.mov_imm(AT, 0);
    asm.while_less(AT, GROUPS, 16, |asm| {
        body(asm, &places(UNROLL, None));
        asm.add_imm(AT, i32::from(UNROLL) * bytes);
    });
    // Less than a group is left.
    for vectors in [2, 1] {
        asm.mov(COUNT, VECTORS);
        asm.sub(COUNT, AT);
        asm.if_at_least(COUNT, vectors * bytes, |asm| {
            body(asm, &places(vectors as u8, None)[..vectors as usize]);
            asm.add_imm(AT, vectors * bytes);
        });
    }
    asm.unless_zero(REST, |asm| {
        let mask = tail(asm);
        body(asm, &places(1, Some(mask))[..1]);
    });
}

/// Emits `body` over the columns that the argument `columns` counts: `wide` vectors at a time while enough columns are
/// left, then one vector, then the remaining columns under a mask. `bases` advance by the finished columns. The body is
/// given the number of vectors, and the mask where there is one.
pub(crate) fn columns(asm: &mut Asm, columns: Mem, bases: &[Gpr], wide: u8, body: impl Fn(&mut Asm, u8, Option<Mask>)) {
    let lanes = asm.lanes() as i32;
    asm.load(REST, columns);
    for vectors in [wide, 1] {
        let count = i32::from(vectors) * lanes;
        asm.while_at_least(REST, count, |asm| {
            body(asm, vectors, None);
            bases.iter().for_each(|&base| asm.add_imm(base, count * 4));
        });
    }
    asm.unless_zero(REST, |asm| {
        let mask = tail(asm);
        asm.mask_first(mask, REST, AT);
        body(asm, 1, Some(mask));
    });
}

/// Emits `body` for each of `vectors` neighbouring vectors in each row of a column that starts at `base`. The argument
/// `rows` holds the number of rows (at least 1), `stride` the bytes from row to row. The body is given the register
/// that holds the row's address in this column.
pub(crate) fn down(
    asm: &mut Asm,
    rows: Mem,
    base: Gpr,
    stride: Gpr,
    vectors: u8,
    tail: Option<Mask>,
    body: impl Fn(&mut Asm, Gpr, Place),
) {
    down_together(asm, rows, base, stride, vectors, tail, |asm, at, places| {
        places.iter().for_each(|place| body(asm, at, *place));
    });
}

/// As [`down`], with one call of `body` for all vectors of a row.
pub(crate) fn down_together(
    asm: &mut Asm,
    rows: Mem,
    base: Gpr,
    stride: Gpr,
    vectors: u8,
    tail: Option<Mask>,
    body: impl Fn(&mut Asm, Gpr, &[Place]),
) {
    let bytes = asm.vector_bytes();
    asm.load(COUNT, rows);
    asm.mov(AT, base);
    let place = |vector: u8| Place { vector, index: None, disp: i32::from(vector) * bytes, tail };
    let places: SmallVec<[Place; 8]> = (0..vectors).map(place).collect();
    asm.align(16);
    asm.repeat(COUNT, |asm| {
        body(asm, AT, &places);
        asm.add(AT, stride);
    });
}

/// The position of accumulator `vector` in the row of results, which starts where the columns do.
pub(crate) fn across(asm: &Asm, vector: u8, tail: Option<Mask>) -> Place {
    Place { vector, index: None, disp: i32::from(vector) * asm.vector_bytes(), tail }
}
