//! Instructions of linear attention: some columns of a head's state, along positions.
//!
//! The columns of a state do not depend on each other. A call takes two vectors of them and walks all of its positions,
//! so that these columns stay in L1. A position reads them twice: what they hold for the key, where the state is
//! corrected; then each row decays, takes in its part of the update, is stored, and is added to the answer. Sums are
//! kept in four parts, so that additions do not wait for each other.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::chain::UnaryOp;
use crate::cpu::{loops, vecmath};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mem, Vreg, arg, counted_down};
use crate::problem::linear_attention::Decay;

/// Vectors of columns that a call walks.
pub(super) const VECTORS: u8 = 2;

/// Rows of a round of the inner loops; each has sums of its own.
const ROUND: u8 = 4;

/// What determines the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct StateCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// How the state decays.
    pub decay: Decay,
    /// Whether the state is corrected by what it holds for a key.
    pub corrects: bool,
}

/// Arguments of a walk. Distances are in bytes, from position to position unless said otherwise.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StateArgs {
    /// The first of the columns in the first row of the state.
    pub state: *mut f32,
    /// Bytes from row to row.
    pub stride: usize,
    /// The first position's key.
    pub keys: *const f32,
    /// Distance of keys.
    pub key_step: usize,
    /// The first position's first query.
    pub queries: *const f32,
    /// Distance of queries.
    pub query_step: usize,
    /// These columns of the first position's value.
    pub values: *const f32,
    /// Distance of values.
    pub value_step: usize,
    /// The first position's logarithms of factors.
    pub decays: *const f32,
    /// Distance of these logarithms.
    pub decay_step: usize,
    /// The first position's rate.
    pub rates: *const f32,
    /// Distance of rates.
    pub rate_step: usize,
    /// These columns of the first position's first answer.
    pub out: *mut f32,
    /// Distance of answers.
    pub out_step: usize,
    /// Bytes from a position's answer to its next query's answer.
    pub out_next: usize,
    /// Room for the factors of a position's rows, where each row has its own.
    pub factors: *mut f32,
    /// Positions, at least 1.
    pub steps: usize,
    /// Rows of the state, at least 1.
    pub rows: usize,
    /// Queries of a position, at least 1.
    pub shared: usize,
    /// Factor of answers.
    pub scale: f32,
}

impl Arguments for StateArgs {
    const FAMILY: &'static str = super::FAMILY;
    type Kernel = StateCode;

    fn extents(&self, code: &StateCode, extents: &mut Extents<'_>) {
        let width = usize::from(VECTORS) * code.isa.lanes() * size_of::<f32>();
        let (steps, rows, shared) = (counted_down(self.steps), self.rows, counted_down(self.shared));
        let line = rows.saturating_mul(4);
        extents.write("state", self.state).over(rows, self.stride).bytes(width);
        extents.read("keys", self.keys).over(steps, self.key_step).bytes(line);
        extents.read("queries", self.queries).over(steps, self.query_step).over(shared, line).bytes(line);
        extents.read("values", self.values).over(steps, self.value_step).bytes(width);
        match code.decay {
            Decay::None => {}
            Decay::Head => extents.read("decays", self.decays).over(steps, self.decay_step).bytes(4),
            Decay::Row => {
                extents.read("decays", self.decays).over(steps, self.decay_step).bytes(line);
                extents.write("factors", self.factors).bytes(line);
            }
        }
        if code.corrects {
            extents.read("rates", self.rates).over(steps, self.rate_step).bytes(4);
        }
        extents.write("answers", self.out).over(steps, self.out_step).over(shared, self.out_next).bytes(width);
    }
}

/// The row that is read, and distances to the next row and to the third from there.
const ROW: Gpr = Gpr::RSI;
const STRIDE: Gpr = Gpr::RDX;
const STRIDES: Gpr = Gpr::RCX;
const KEYS: Gpr = Gpr::RBX;
const QUERIES: Gpr = Gpr::R12;
/// Factors of the rows.
const FACTORS: Gpr = Gpr::R11;
/// The number of the row.
const AT: Gpr = Gpr::RAX;
/// Rows that are left.
const COUNT: Gpr = Gpr::R13;
/// Queries that are left.
const LEFT: Gpr = Gpr::R15;
const TEMP: Gpr = Gpr::R14;
/// The next position's key and query, which are prefetched while rows take in this position's: positions lie as far
/// apart as all heads are long, too far for the processor's own prefetchers.
const NEXT_KEYS: Gpr = Gpr::R15;
const NEXT_QUERIES: Gpr = Gpr::R14;

/// What the state takes in.
const UPDATE: [Vreg; 2] = [Vreg(0), Vreg(1)];
/// The first of the sums: for each row of a round its vectors.
const SUMS: u8 = 2;
const ENTRY: [Vreg; 2] = [Vreg(10), Vreg(11)];
/// An element in all lanes.
const FACTOR: Vreg = Vreg(12);
/// The factor of the state.
const DECAY: Vreg = Vreg(13);

/// The places on the stack: positions that are left, and where the current one's operands are.
const STEPS: u8 = 0;
const KEYS_AT: u8 = 1;
const QUERIES_AT: u8 = 2;
const VALUES_AT: u8 = 3;
const DECAYS_AT: u8 = 4;
const RATES_AT: u8 = 5;
const OUT_AT: u8 = 6;
const PLACES: u8 = 7;

/// Emits the code of that key.
pub fn emit(code: &StateCode, asm: &mut Asm) {
    asm.prologue();
    asm.spill(PLACES);
    asm.load(STRIDE, arg!(StateArgs.stride));
    asm.lea(STRIDES, Mem::indexed(STRIDE, STRIDE, 2, 0));
    let starts = [
        (STEPS, arg!(StateArgs.steps)),
        (KEYS_AT, arg!(StateArgs.keys)),
        (QUERIES_AT, arg!(StateArgs.queries)),
        (VALUES_AT, arg!(StateArgs.values)),
        (DECAYS_AT, arg!(StateArgs.decays)),
        (RATES_AT, arg!(StateArgs.rates)),
        (OUT_AT, arg!(StateArgs.out)),
    ];
    for (slot, from) in starts {
        asm.load(TEMP, from);
        asm.store(asm.slot(slot), TEMP);
    }
    if code.decay == Decay::Row {
        asm.load(FACTORS, arg!(StateArgs.factors));
        loops::prepare_rows(asm, arg!(StateArgs.rows));
    }
    asm.repeat_in_memory(asm.slot(STEPS), TEMP, |asm| {
        step(code, asm);
        advance(asm);
    });
    asm.unspill();
    asm.epilogue();
}

/// The next position's operands.
fn advance(asm: &mut Asm) {
    let steps = [
        (KEYS_AT, arg!(StateArgs.key_step)),
        (QUERIES_AT, arg!(StateArgs.query_step)),
        (VALUES_AT, arg!(StateArgs.value_step)),
        (DECAYS_AT, arg!(StateArgs.decay_step)),
        (RATES_AT, arg!(StateArgs.rate_step)),
        (OUT_AT, arg!(StateArgs.out_step)),
    ];
    for (slot, step) in steps {
        asm.load(TEMP, asm.slot(slot));
        asm.add_mem(TEMP, step);
        asm.store(asm.slot(slot), TEMP);
    }
}

/// One position.
fn step(code: &StateCode, asm: &mut Asm) {
    factors(code, asm);
    asm.load(KEYS, asm.slot(KEYS_AT));
    if code.corrects {
        held(code, asm);
    }
    asm.load(TEMP, asm.slot(VALUES_AT));
    for vector in 0..VECTORS {
        let update = UPDATE[usize::from(vector)];
        asm.vload(update, columns(asm, Mem::at(TEMP, 0), vector));
        if code.corrects {
            asm.vsub(update, update, sum(0, vector));
        }
    }
    if code.corrects {
        asm.load(TEMP, asm.slot(RATES_AT));
        asm.vbroadcast(FACTOR, Mem::at(TEMP, 0));
        UPDATE.into_iter().for_each(|update| asm.vmul(update, update, FACTOR));
    }
    asm.load(QUERIES, asm.slot(QUERIES_AT));
    for (next, base, step) in
        [(NEXT_KEYS, KEYS, arg!(StateArgs.key_step)), (NEXT_QUERIES, QUERIES, arg!(StateArgs.query_step))]
    {
        asm.mov(next, base);
        asm.add_mem(next, step);
    }
    each_row(asm, |asm, row, address| {
        if row == 0 {
            [NEXT_KEYS, NEXT_QUERIES].into_iter().for_each(|next| asm.prefetch(Mem::indexed(next, AT, 4, 0)));
        }
        take_in(code, asm, row, address);
    });
    asm.load(TEMP, asm.slot(OUT_AT));
    answer(asm);
    asm.load(LEFT, arg!(StateArgs.shared));
    asm.sub_imm(LEFT, 1);
    asm.for_each(LEFT, 1, |asm| {
        asm.load(COUNT, arg!(StateArgs.rows));
        asm.lea(QUERIES, Mem::indexed(QUERIES, COUNT, 4, 0));
        each_row(asm, |asm, row, address| {
            asm.vbroadcast(FACTOR, Mem::indexed(QUERIES, AT, 4, 4 * i32::from(row)));
            for vector in 0..VECTORS {
                asm.vload(ENTRY[usize::from(vector)], columns(asm, address, vector));
                asm.vfma231(sum(row, vector), FACTOR, ENTRY[usize::from(vector)]);
            }
        });
        asm.add_mem(TEMP, arg!(StateArgs.out_next));
        answer(asm);
    });
}

/// Computes the factors of the state from their logarithms.
fn factors(code: &StateCode, asm: &mut Asm) {
    let temps: Vec<Vreg> = (SUMS..ENTRY[0].0).map(Vreg).collect();
    match code.decay {
        Decay::None => {}
        Decay::Head => {
            asm.load(TEMP, asm.slot(DECAYS_AT));
            asm.vbroadcast(DECAY, Mem::at(TEMP, 0));
            vecmath::emit_unary(asm, UnaryOp::Exp, DECAY, &temps);
        }
        Decay::Row => {
            asm.load(TEMP, asm.slot(DECAYS_AT));
            loops::row(asm, |asm, place| {
                place.load(asm, DECAY, TEMP);
                vecmath::emit_unary(asm, UnaryOp::Exp, DECAY, &temps);
                place.store(asm, FACTORS, DECAY);
            });
        }
    }
}

/// Leaves in the first sums what the decayed state holds for the key.
fn held(code: &StateCode, asm: &mut Asm) {
    each_row(asm, |asm, row, address| {
        if code.decay == Decay::Row {
            asm.vbroadcast(DECAY, Mem::indexed(FACTORS, AT, 4, 4 * i32::from(row)));
        }
        asm.vbroadcast(FACTOR, Mem::indexed(KEYS, AT, 4, 4 * i32::from(row)));
        if code.decay == Decay::Row {
            asm.vmul(FACTOR, FACTOR, DECAY);
        }
        for vector in 0..VECTORS {
            asm.vload(ENTRY[usize::from(vector)], columns(asm, address, vector));
            asm.vfma231(sum(row, vector), FACTOR, ENTRY[usize::from(vector)]);
        }
    });
    add_up(asm);
    if code.decay == Decay::Head {
        (0..VECTORS).for_each(|vector| asm.vmul(sum(0, vector), sum(0, vector), DECAY));
    }
}

/// A row decays, takes in its part of the update, and is added to the answer.
fn take_in(code: &StateCode, asm: &mut Asm, row: u8, address: Mem) {
    for vector in 0..VECTORS {
        asm.vload(ENTRY[usize::from(vector)], columns(asm, address, vector));
    }
    if code.decay == Decay::Row {
        asm.vbroadcast(DECAY, Mem::indexed(FACTORS, AT, 4, 4 * i32::from(row)));
    }
    if code.decay != Decay::None {
        ENTRY.into_iter().for_each(|entry| asm.vmul(entry, entry, DECAY));
    }
    asm.vbroadcast(FACTOR, Mem::indexed(KEYS, AT, 4, 4 * i32::from(row)));
    for vector in 0..VECTORS {
        let entry = ENTRY[usize::from(vector)];
        asm.vfma231(entry, FACTOR, UPDATE[usize::from(vector)]);
        asm.vstore(columns(asm, address, vector), entry);
    }
    asm.vbroadcast(FACTOR, Mem::indexed(QUERIES, AT, 4, 4 * i32::from(row)));
    for vector in 0..VECTORS {
        asm.vfma231(sum(row, vector), FACTOR, ENTRY[usize::from(vector)]);
    }
}

/// Adds up the sums, and stores them as the answer at [`TEMP`].
fn answer(asm: &mut Asm) {
    add_up(asm);
    asm.vbroadcast(FACTOR, arg!(StateArgs.scale));
    for vector in 0..VECTORS {
        asm.vmul(sum(0, vector), sum(0, vector), FACTOR);
        asm.vstore(columns(asm, Mem::at(TEMP, 0), vector), sum(0, vector));
    }
}

/// Runs a body for each row, with its number in the round and the address of its columns. Sums start at zero.
fn each_row(asm: &mut Asm, body: impl Fn(&mut Asm, u8, Mem)) {
    (SUMS..SUMS + ROUND * VECTORS).for_each(|sum| asm.vzero(Vreg(sum)));
    asm.load(ROW, arg!(StateArgs.state));
    asm.load(COUNT, arg!(StateArgs.rows));
    asm.mov_imm(AT, 0);
    asm.while_at_least(COUNT, i32::from(ROUND), |asm| {
        let rows = [
            Mem::at(ROW, 0),
            Mem::indexed(ROW, STRIDE, 1, 0),
            Mem::indexed(ROW, STRIDE, 2, 0),
            Mem::indexed(ROW, STRIDES, 1, 0),
        ];
        (0..ROUND).zip(rows).for_each(|(row, address)| body(asm, row, address));
        asm.lea(ROW, Mem::indexed(ROW, STRIDE, 4, 0));
        asm.add_imm(AT, i32::from(ROUND));
    });
    asm.for_each(COUNT, 1, |asm| {
        body(asm, 0, Mem::at(ROW, 0));
        asm.add(ROW, STRIDE);
        asm.add_imm(AT, 1);
    });
}

/// Adds the sums of a round's other rows to the first row's.
fn add_up(asm: &mut Asm) {
    for vector in 0..VECTORS {
        asm.vadd(sum(0, vector), sum(0, vector), sum(1, vector));
        asm.vadd(sum(2, vector), sum(2, vector), sum(3, vector));
        asm.vadd(sum(0, vector), sum(0, vector), sum(2, vector));
    }
}

fn sum(row: u8, vector: u8) -> Vreg {
    Vreg(SUMS + row * VECTORS + vector)
}

/// The address of a vector of the columns at `first`.
fn columns(asm: &Asm, first: Mem, vector: u8) -> Mem {
    first.plus(i32::from(vector) * asm.vector_bytes())
}
