//! The loops of kernels that fold rows: over the vectors of a row, over neighbouring columns, and down a column.
//!
//! A body is emitted three times: for several vectors at once, so that folds have as many independent chains; for one
//! vector; and for the rest of less than a vector, under a mask. Lengths are run-time arguments. Reductions, softmax
//! and normalisations give the bodies.
//!
//! The loops use rax, r8, r9, r10 and r15; rdi holds the arguments.

use smallvec::SmallVec;

use crate::jit::{Asm, Gpr, Mask, Mem, Vreg};

/// Vectors of a row that are folded in independent chains: as many as the additions that a processor has in flight.
pub(crate) const UNROLL: u8 = 4;

/// Bytes of a cache line.
const LINE: i32 = 64;

/// Bytes from the start of the row; in columns, an address.
const AT: Gpr = Gpr::RAX;
/// Bytes of the row in whole groups of vectors, and in whole vectors.
const GROUPS: Gpr = Gpr::R8;
const VECTORS: Gpr = Gpr::R9;
/// Elements behind the whole vectors; in columns, the columns that are left.
const REST: Gpr = Gpr::R10;
/// Rows that are left in a column; for rows of `bf16`, bytes of the row in that type.
const DOWN: Gpr = Gpr::R15;

/// The vector register that holds the mask of the last elements on AVX2.
pub(crate) const TAIL: Vreg = Vreg(15);

fn tail(asm: &Asm) -> Mask {
    asm.mask(0, TAIL)
}

/// A position that a body reads or writes: a vector, or less than one under a mask.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The index of its chain among the vectors that are folded together.
    pub(crate) chain: u8,
    index: Option<Gpr>,
    disp: i32,
    /// The mask of the lanes in use, where not all are.
    pub(crate) tail: Option<Mask>,
}

impl Place {
    /// The element at the same index of another array, `distance` bytes from this one; for positions in columns.
    pub(crate) fn away(self, distance: Gpr) -> Place {
        Place { index: Some(distance), ..self }
    }

    /// The position `bytes` further on.
    pub(crate) fn further(self, bytes: i32) -> Place {
        Place { disp: self.disp + bytes, ..self }
    }

    /// Prefetches the cache line of a whole vector, once for all vectors in that line; emits nothing for less than a
    /// vector.
    pub(crate) fn prefetch(&self, asm: &mut Asm, base: Gpr) {
        let neighbours = (LINE / asm.vector_bytes()).max(1);
        if self.tail.is_none() && i32::from(self.chain) % neighbours == 0 {
            asm.prefetch(self.of(base));
        }
    }

    /// Its address in the row or column that starts at `base`.
    pub(crate) fn of(&self, base: Gpr) -> Mem {
        match self.index {
            Some(index) => Mem::indexed(base, index, 1, self.disp),
            None => Mem::at(base, self.disp),
        }
    }

    /// dst = the vector; lanes that are not in use are zero.
    pub(crate) fn load(&self, asm: &mut Asm, dst: Vreg, base: Gpr) {
        match self.tail {
            Some(mask) => asm.vload_masked(dst, mask, self.of(base)),
            None => asm.vload(dst, self.of(base)),
        }
    }

    /// The vector = src, in the lanes in use.
    pub(crate) fn store(&self, asm: &mut Asm, base: Gpr, src: Vreg) {
        match self.tail {
            Some(mask) => asm.vstore_masked(self.of(base), mask, src),
            None => asm.vstore(self.of(base), src),
        }
    }

    /// Stores src, rounded to `bf16`, at the same index of a row of `bf16`, in the lanes in use; for positions in rows.
    /// Destroys `src`.
    pub(crate) fn store_bf16(&self, asm: &mut Asm, base: Gpr, src: Vreg) {
        // An index takes half as many bytes there.
        asm.mov(DOWN, AT);
        asm.shr_imm(DOWN, 1);
        let to = Mem::indexed(base, DOWN, 1, self.disp / 2);
        match self.tail {
            Some(mask) => asm.vstore_bf16_masked(to, mask, src, src),
            None => asm.vstore_bf16(to, src, src),
        }
    }

    /// Clears the lanes that are not in use; `zero` is a register of zeros.
    pub(crate) fn only(&self, asm: &mut Asm, value: Vreg, zero: Vreg) {
        if let Some(mask) = self.tail {
            asm.vzero(zero);
            asm.select(value, mask, value, zero);
        }
    }

    /// Emits `fold`, which changes `accumulator` and may use `temp`, for the lanes in use.
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
    let lanes = asm.lanes() as i32;
    let mask = tail(asm);
    asm.load(REST, length);
    for (bytes, elements) in [(GROUPS, lanes * i32::from(UNROLL)), (VECTORS, lanes)] {
        asm.mov(bytes, REST);
        asm.and_imm(bytes, -elements);
        asm.shl_imm(bytes, 2);
    }
    asm.and_imm(REST, lanes - 1);
    asm.mask_first(mask, REST, AT);
}

/// Emits `body` over a row.
pub(crate) fn row(asm: &mut Asm, body: impl Fn(&mut Asm, Place)) {
    let bytes = asm.vector_bytes();
    let place = |chain: u8, tail| Place { chain, index: Some(AT), disp: i32::from(chain) * bytes, tail };
    asm.mov_imm(AT, 0);
    for (end, vectors) in [(GROUPS, UNROLL), (VECTORS, 1)] {
        asm.while_less(AT, end, 16, |asm| {
            (0..vectors).for_each(|chain| body(asm, place(chain, None)));
            asm.add_imm(AT, i32::from(vectors) * bytes);
        });
    }
    asm.unless_zero(REST, |asm| {
        let mask = tail(asm);
        body(asm, place(0, Some(mask)));
    });
}

/// Emits `body` over a row, as [`row`] does, once for all vectors of a group; what is left of the row goes by two
/// vectors and by one.
pub(crate) fn groups(asm: &mut Asm, body: impl Fn(&mut Asm, &[Place])) {
    let bytes = asm.vector_bytes();
    let places = |count: u8, tail| -> [Place; UNROLL as usize] {
        std::array::from_fn(|chain| {
            let chain = (chain as u8).min(count - 1);
            Place { chain, index: Some(AT), disp: i32::from(chain) * bytes, tail }
        })
    };
    asm.mov_imm(AT, 0);
    asm.while_less(AT, GROUPS, 16, |asm| {
        body(asm, &places(UNROLL, None));
        asm.add_imm(AT, i32::from(UNROLL) * bytes);
    });
    // Less than a group is left.
    for vectors in [2, 1] {
        asm.mov(DOWN, VECTORS);
        asm.sub(DOWN, AT);
        asm.if_at_least(DOWN, vectors * bytes, |asm| {
            body(asm, &places(vectors as u8, None)[..vectors as usize]);
            asm.add_imm(AT, vectors * bytes);
        });
    }
    asm.unless_zero(REST, |asm| {
        let mask = tail(asm);
        body(asm, &places(1, Some(mask))[..1]);
    });
}

/// Emits `body` over as many columns as the argument `columns` holds, `wide` vectors of them at a time while as many
/// are left; `bases` advance with them. The body is given the number of vectors.
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

/// Emits `body` for `vectors` neighbouring vectors in each of the rows below each other. The argument `rows` holds
/// their number (at least 1), `stride` the bytes from row to row. The body is given the address of the row in `base`'s
/// column.
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
    asm.load(DOWN, rows);
    asm.mov(AT, base);
    let place = |chain: u8| Place { chain, index: None, disp: i32::from(chain) * bytes, tail };
    let places: SmallVec<[Place; 8]> = (0..vectors).map(place).collect();
    asm.align(16);
    asm.repeat(DOWN, |asm| {
        body(asm, AT, &places);
        asm.add(AT, stride);
    });
}

/// The position of chain `chain` in a row of the output that starts at `base`.
pub(crate) fn across(asm: &Asm, chain: u8, tail: Option<Mask>) -> Place {
    Place { chain, index: None, disp: i32::from(chain) * asm.vector_bytes(), tail }
}
