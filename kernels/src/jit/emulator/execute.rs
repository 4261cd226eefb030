//! The interpreter: one loop over the operations of a kernel.

use super::lanes::{self, Vector};
use super::lower::{Condition, Kind, Operation, Source};
use super::machine::{Flags, Machine, RSP};
use super::memory::Memory;

/// Runs a kernel from its first operation to its return and counts the operations.
pub(super) fn run(operations: &[Operation], machine: &mut Machine, memory: &Memory<'_>) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if crate::isa::Isa::detect() >= crate::isa::Isa::Avx2 {
        // SAFETY: the level has just been detected.
        return unsafe { run_with_avx2(operations, machine, memory) };
    }
    interpret(operations, machine, memory)
}

/// The same loop compiled with AVX2 and FMA, several times as fast: without FMA, `mul_add` is a library call for each
/// lane.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_with_avx2(operations: &[Operation], machine: &mut Machine, memory: &Memory<'_>) -> u64 {
    interpret(operations, machine, memory)
}

#[inline(always)]
fn interpret(operations: &[Operation], m: &mut Machine, memory: &Memory<'_>) -> u64 {
    let mut at = 0;
    let mut executed = 0;
    /// Lane by lane on bits: dst = f(a, source).
    macro_rules! bits {
        ($op:expr, $f:expr) => {{
            let (a, b) = (m.vectors[usize::from($op.a)], m.source($op, memory));
            let mut out = [0; 16];
            for lane in 0..16 {
                out[lane] = $f(a[lane], b[lane]);
            }
            m.put($op, &out);
        }};
    }
    /// Lane by lane on f32: dst = f(a, source).
    macro_rules! floats {
        ($op:expr, $f:expr) => {
            bits!($op, |a, b| $f(f32::from_bits(a), f32::from_bits(b)).to_bits())
        };
    }
    /// Lane by lane on f32: dst = f(dst, a, source).
    macro_rules! fused {
        ($op:expr, $f:expr) => {{
            let (d, a) = (m.vectors[usize::from($op.dst)], m.vectors[usize::from($op.a)]);
            let b = m.source($op, memory);
            let mut out = [0; 16];
            for lane in 0..16 {
                let [d, a, b] = [d[lane], a[lane], b[lane]].map(f32::from_bits);
                out[lane] = $f(d, a, b).to_bits();
            }
            m.put($op, &out);
        }};
    }
    /// Between lanes: dst = f(&a, &source).
    macro_rules! shuffle {
        ($op:expr, $f:expr) => {{
            let (a, b) = (m.vectors[usize::from($op.a)], m.source($op, memory));
            let out = $f(&a, &b);
            m.put($op, &out);
        }};
    }
    loop {
        let op: &Operation = &operations[at];
        at += 1;
        executed += 1;
        match op.kind {
            Kind::Nop => {}
            Kind::Return => {
                m.gpr[RSP] += 8;
                return executed;
            }
            Kind::Jump => at = op.imm as usize,
            Kind::JumpIf => {
                if m.flags.holds(op.condition) {
                    at = op.imm as usize;
                }
            }
            Kind::ZeroUpper => m.vectors[..16].iter_mut().for_each(|vector| vector[4..].fill(0)),

            Kind::Vadd => floats!(op, |a: f32, b: f32| a + b),
            Kind::Vsub => floats!(op, |a: f32, b: f32| a - b),
            Kind::Vmul => floats!(op, |a: f32, b: f32| a * b),
            Kind::Vdiv => floats!(op, |a: f32, b: f32| a / b),
            Kind::Vmax => floats!(op, lanes::max),
            Kind::Vmin => floats!(op, lanes::min),
            Kind::Vscale => floats!(op, lanes::scale),
            Kind::Vsqrt => floats!(op, |_: f32, b: f32| b.sqrt()),
            Kind::Vround => floats!(op, |_: f32, b: f32| lanes::round(b, op.imm)),
            Kind::Vfma231 => fused!(op, |d: f32, a: f32, b: f32| a.mul_add(b, d)),
            Kind::Vfma213 => fused!(op, |d: f32, a: f32, b: f32| d.mul_add(a, b)),
            Kind::Vfnma231 => fused!(op, |d: f32, a: f32, b: f32| (-a).mul_add(b, d)),
            Kind::VdotBf16 => {
                let (d, a) = (m.vectors[usize::from(op.dst)], m.vectors[usize::from(op.a)]);
                let b = m.source(op, memory);
                let out: Vector = std::array::from_fn(|lane| lanes::dot_bf16(d[lane], a[lane], b[lane]));
                m.put(op, &out);
            }
            Kind::VroundBf16 => shuffle!(op, lanes::round_bf16_pairs),

            Kind::Vand => bits!(op, |a: u32, b: u32| a & b),
            Kind::Vandn => bits!(op, |a: u32, b: u32| !a & b),
            Kind::Vor => bits!(op, |a: u32, b: u32| a | b),
            Kind::Vxor => bits!(op, |a: u32, b: u32| a ^ b),
            Kind::Viadd => bits!(op, u32::wrapping_add),
            Kind::Visub => bits!(op, u32::wrapping_sub),
            Kind::Vimin => bits!(op, |a: u32, b: u32| (a as i32).min(b as i32) as u32),
            Kind::Vimax => bits!(op, |a: u32, b: u32| (a as i32).max(b as i32) as u32),
            Kind::Vshl => bits!(op, |_, b| lanes::shift_left(b, op.imm)),
            Kind::Vshr => bits!(op, |_, b| lanes::shift_right(b, op.imm)),
            Kind::Vsar => bits!(op, |_, b| lanes::shift_right_signed(b, op.imm)),
            Kind::VtoI32 => bits!(op, |_, b| lanes::to_i32(f32::from_bits(b))),
            Kind::VtoF32 => bits!(op, |_, b| (b as i32 as f32).to_bits()),
            Kind::VisGreater => bits!(op, |a, b| if a as i32 > b as i32 { u32::MAX } else { 0 }),
            Kind::Vcompare => {
                bits!(op, |a, b| {
                    if lanes::compare(f32::from_bits(a), f32::from_bits(b), op.imm) { u32::MAX } else { 0 }
                });
            }
            Kind::VmulPairs => bits!(op, lanes::mul_pairs),
            Kind::VmulBytes => bits!(op, lanes::mul_bytes),
            Kind::VdotBytes => {
                let (d, a) = (m.vectors[usize::from(op.dst)], m.vectors[usize::from(op.a)]);
                let b = m.source(op, memory);
                let out: Vector = std::array::from_fn(|lane| lanes::dot_bytes(d[lane], a[lane], b[lane]));
                m.put(op, &out);
            }
            Kind::Vmove => bits!(op, |_, b| b),
            Kind::Vselect => {
                // A VEX blend has its mask in a fourth register: the sign of each lane selects.
                let mask = m.vectors[op.imm as usize & 15];
                let (off, on) = (m.vectors[usize::from(op.a)], m.vectors[usize::from(op.b)]);
                let out: Vector = std::array::from_fn(|lane| if mask[lane] >> 31 == 1 { on[lane] } else { off[lane] });
                m.put(op, &out);
            }
            Kind::VselectMask => {
                let (off, on) = (m.vectors[usize::from(op.a)], m.source(op, memory));
                let mask = m.mask_of(op);
                let out: Vector = std::array::from_fn(|lane| if mask >> lane & 1 == 1 { on[lane] } else { off[lane] });
                m.vectors[usize::from(op.dst)] = out;
            }

            Kind::VunpackLo32 => shuffle!(op, |a, b| lanes::within_groups(a, b, |lane| [0, 4, 1, 5][lane])),
            Kind::VunpackHi32 => shuffle!(op, |a, b| lanes::within_groups(a, b, |lane| [2, 6, 3, 7][lane])),
            Kind::VunpackLo64 => shuffle!(op, |a, b| lanes::within_groups(a, b, |lane| [0, 1, 4, 5][lane])),
            Kind::VunpackHi64 => shuffle!(op, |a, b| lanes::within_groups(a, b, |lane| [2, 3, 6, 7][lane])),
            Kind::Vpermute => shuffle!(op, |_, b| lanes::permute(b, op.imm)),
            Kind::Vpermute2 => shuffle!(op, |a, b| lanes::permute_halves(a, b, op.imm)),
            Kind::VpermuteWords => shuffle!(op, lanes::permute_words),
            Kind::VpermuteBytes => {
                let (at, a) = (m.vectors[usize::from(op.dst)], m.vectors[usize::from(op.a)]);
                let out = lanes::permute_bytes(&at, &a, &m.source(op, memory));
                m.put(op, &out);
            }
            Kind::VpermuteLanes => shuffle!(op, |a, b| lanes::permute_lanes(a, b, usize::from(op.width))),
            Kind::VpackWords => shuffle!(op, lanes::pack_words),
            Kind::VpackBytes => shuffle!(op, lanes::pack_bytes),
            Kind::VpackSigned => shuffle!(op, lanes::pack_signed_bytes),
            Kind::VaddWords => bits!(op, lanes::add_words),
            Kind::VaddSaturated => bits!(op, lanes::add_words_saturated),
            Kind::VaddBytes => bits!(op, lanes::add_bytes_saturated),
            Kind::VshuffleBytes => shuffle!(op, lanes::shuffle_bytes),
            Kind::VmaxBytes => bits!(op, |a, b| lanes::larger_bytes(a, b, 0)),
            Kind::VmaxSigned => bits!(op, |a, b| lanes::larger_bytes(a, b, 0x80)),
            Kind::Vshuffle4 => shuffle!(op, |a, b| lanes::shuffle_groups(a, b, op.imm)),

            Kind::TileConfig
            | Kind::TileRelease
            | Kind::TileZero
            | Kind::TileLoad
            | Kind::TileStore
            | Kind::TileDotBf16
            | Kind::TileDotBytes
            | Kind::TileDotSigned => m.tile(op, memory),
            Kind::Push
            | Kind::Pop
            | Kind::Move
            | Kind::Store
            | Kind::Lea
            | Kind::Add
            | Kind::Sub
            | Kind::Multiply
            | Kind::And
            | Kind::Xor
            | Kind::ShiftLeft
            | Kind::ShiftRight
            | Kind::Compare
            | Kind::Test
            | Kind::SetBit => m.integer(op, memory),
            Kind::VcompareMask
            | Kind::MaskFromGpr
            | Kind::MaskTest
            | Kind::Vtest
            | Kind::Vstore
            | Kind::VloadMasked
            | Kind::VstoreMasked
            | Kind::Vbroadcast
            | Kind::VloadOne
            | Kind::VstoreOne
            | Kind::VloadTwo
            | Kind::VloadGroup
            | Kind::VinsertGroup
            | Kind::VstoreGroup
            | Kind::VfromGpr
            | Kind::VwidenU8
            | Kind::VwidenI8
            | Kind::VwidenU16
            | Kind::VwidenF16
            | Kind::VstoreBytes
            | Kind::VstoreWords => m.transfer(op, memory),
        }
    }
}

impl Flags {
    #[inline(always)]
    fn holds(self, condition: Condition) -> bool {
        assert!(self.defined, "emulator: a jump on flags that are undefined");
        match condition {
            Condition::Equal => self.zero,
            Condition::NotEqual => !self.zero,
            Condition::Less => self.less,
            Condition::LessEqual => self.less || self.zero,
            Condition::Greater => !(self.less || self.zero),
            Condition::GreaterEqual => !self.less,
        }
    }
}

impl Machine {
    #[inline(always)]
    pub(super) fn address(&self, op: &Operation) -> u64 {
        let (base, index) = (self.gpr[usize::from(op.base)], self.gpr[usize::from(op.index)]);
        base.wrapping_add(index << op.shift).wrapping_add(op.disp as u64)
    }

    /// The last source as a vector.
    #[inline(always)]
    fn source(&self, op: &Operation, memory: &Memory<'_>) -> Vector {
        match op.source {
            Source::Register | Source::Immediate => self.vectors[usize::from(op.b)],
            Source::Memory => self.load(op, memory),
            Source::Broadcast => [memory.read(self.address(op)); 16],
        }
    }

    /// Instructions on tiles. Their memory operands have a base, and an index with the bytes from row to row.
    fn tile(&mut self, op: &Operation, memory: &Memory<'_>) {
        let first = match op.kind {
            Kind::TileConfig => self.address(op),
            _ => self.gpr[usize::from(op.base)].wrapping_add(op.disp as u64),
        };
        let stride = self.gpr[usize::from(op.index)];
        self.tiles.run(op, memory, first, stride);
    }

    /// A vector of the operation's width from memory.
    #[inline(always)]
    fn load(&self, op: &Operation, memory: &Memory<'_>) -> Vector {
        let address = self.address(op);
        if op.width == 16 {
            return memory.read(address);
        }
        let mut out = [0; 16];
        if op.width == 8 {
            out[..8].copy_from_slice(&memory.read::<[u32; 8]>(address));
        } else {
            out[..4].copy_from_slice(&memory.read::<[u32; 4]>(address));
        }
        out
    }

    /// The lanes that a mask register lets through.
    #[inline(always)]
    fn mask_of(&self, op: &Operation) -> u16 {
        if op.mask == 0 { u16::MAX } else { self.masks[usize::from(op.mask & 7)] }
    }

    /// Writes a vector result: under the mask, and with zeros above the width, as VEX and EVEX do.
    #[inline(always)]
    fn put(&mut self, op: &Operation, value: &Vector) {
        let mask = self.mask_of(op);
        let dst = &mut self.vectors[usize::from(op.dst)];
        if op.mask == 0 {
            *dst = *value;
        } else {
            for lane in 0..16 {
                if mask >> lane & 1 == 1 {
                    dst[lane] = value[lane];
                } else if op.zeroing {
                    dst[lane] = 0;
                }
            }
        }
        if op.width < 16 {
            dst[usize::from(op.width)..].fill(0);
        }
    }

    /// Instructions on general-purpose registers.
    fn integer(&mut self, op: &Operation, memory: &Memory<'_>) {
        let dst = usize::from(op.dst);
        let x = self.gpr[dst] as i64;
        let y = match op.source {
            Source::Register => self.gpr[usize::from(op.b)] as i64,
            Source::Immediate => op.imm,
            Source::Memory | Source::Broadcast if op.kind == Kind::Lea => self.address(op) as i64,
            Source::Memory | Source::Broadcast if op.kind == Kind::Store => self.gpr[usize::from(op.b)] as i64,
            Source::Memory | Source::Broadcast => memory.read(self.address(op)),
        };
        let (result, flags) = match op.kind {
            Kind::Push => {
                self.gpr[RSP] -= 8;
                memory.write(self.gpr[RSP], x);
                return;
            }
            Kind::Pop => {
                let value = memory.read(self.gpr[RSP]);
                self.gpr[RSP] += 8;
                (value, self.flags)
            }
            Kind::Store => {
                memory.write(self.address(op), y);
                return;
            }
            Kind::Move | Kind::Lea => (y, self.flags),
            Kind::Add => {
                let (sum, overflow) = x.overflowing_add(y);
                (sum, Flags::of_overflowing(sum, overflow))
            }
            Kind::Sub if op.width == 4 => {
                let result = (x as i32).wrapping_sub(y as i32);
                (i64::from(result as u32), Flags::UNDEFINED)
            }
            Kind::Sub => {
                let (difference, overflow) = x.overflowing_sub(y);
                (difference, Flags::of_overflowing(difference, overflow))
            }
            Kind::Compare => {
                let (difference, overflow) = x.overflowing_sub(y);
                self.flags = Flags::of_overflowing(difference, overflow);
                return;
            }
            Kind::Test => {
                self.flags = Flags::of(x & y);
                return;
            }
            Kind::And => (x & y, Flags::of(x & y)),
            Kind::Xor => (x ^ y, Flags::of(x ^ y)),
            Kind::Multiply => (x.wrapping_mul(y), Flags::UNDEFINED),
            Kind::SetBit => (x | 1 << (y & 63), Flags::UNDEFINED),
            Kind::ShiftLeft => shifted(x, (x as u64) << (y & 63), y, self.flags),
            Kind::ShiftRight => shifted(x, x as u64 >> (y & 63), y, self.flags),
            _ => unreachable!("only integer kinds come here"),
        };
        // Writing 32 bits clears the upper half.
        self.gpr[dst] = if op.width == 4 { u64::from(result as u32) } else { result as u64 };
        self.flags = flags;
    }

    /// Moves between vectors, masks, general-purpose registers and memory.
    fn transfer(&mut self, op: &Operation, memory: &Memory<'_>) {
        let dst = usize::from(op.dst);
        match op.kind {
            Kind::VcompareMask => {
                let (a, b) = (self.vectors[usize::from(op.a)], self.source(op, memory));
                let hit = |lane: &usize| lanes::compare(f32::from_bits(a[*lane]), f32::from_bits(b[*lane]), op.imm);
                let mask = (0..16).filter(hit).fold(0, |mask, lane| mask | 1 << lane);
                self.masks[dst] = mask & self.mask_of(op);
            }
            Kind::MaskFromGpr => self.masks[dst] = self.gpr[usize::from(op.b)] as u16,
            Kind::MaskTest => self.flags = Flags::of(i64::from(self.masks[dst] | self.masks[usize::from(op.b)])),
            Kind::Vtest => {
                let (a, b) = (self.vectors[dst], self.vectors[usize::from(op.b)]);
                let signs = a.iter().zip(&b).take(usize::from(op.width)).any(|(a, b)| (a & b) >> 31 == 1);
                self.flags = Flags::of(i64::from(signs));
            }
            Kind::Vstore if op.mask == 0 => {
                let value = self.vectors[dst];
                match op.width {
                    16 => memory.write(self.address(op), value),
                    4 => memory.write::<[u32; 4]>(self.address(op), std::array::from_fn(|lane| value[lane])),
                    _ => memory.write::<[u32; 8]>(self.address(op), std::array::from_fn(|lane| value[lane])),
                }
            }
            Kind::Vstore | Kind::VstoreMasked => {
                let (value, address) = (self.vectors[dst], self.address(op));
                for lane in (0..usize::from(op.width)).filter(|lane| self.lane_is_on(op, *lane)) {
                    memory.write(address + 4 * lane as u64, value[lane]);
                }
            }
            Kind::VloadMasked => {
                let address = self.address(op);
                let mut out = if op.mask == 0 || op.zeroing { [0; 16] } else { self.vectors[dst] };
                for lane in (0..usize::from(op.width)).filter(|lane| self.lane_is_on(op, *lane)) {
                    out[lane] = memory.read(address + 4 * lane as u64);
                }
                self.vectors[dst] = out;
            }
            Kind::Vbroadcast => {
                let lane = match op.source {
                    Source::Register | Source::Immediate => self.vectors[usize::from(op.b)][0],
                    Source::Memory | Source::Broadcast => memory.read(self.address(op)),
                };
                self.put(op, &[lane; 16]);
            }
            Kind::VloadOne => {
                self.vectors[dst] = [0; 16];
                self.vectors[dst][0] = memory.read(self.address(op));
            }
            Kind::VloadTwo => {
                let [low, high] = memory.read(self.address(op));
                self.vectors[dst] = [0; 16];
                self.vectors[dst][..2].copy_from_slice(&[low, high]);
            }
            Kind::VloadGroup => {
                let group: [u32; 4] = memory.read(self.address(op));
                self.put(op, &std::array::from_fn(|lane| group[lane % 4]));
            }
            Kind::VinsertGroup => {
                let mut out = self.vectors[usize::from(op.a)];
                out[4 * op.imm as usize..][..4].copy_from_slice(&memory.read::<[u32; 4]>(self.address(op)));
                self.put(op, &out);
            }
            Kind::VstoreGroup => {
                let group: [u32; 4] =
                    std::array::from_fn(|at| self.vectors[usize::from(op.b)][4 * op.imm as usize + at]);
                memory.write(self.address(op), group);
            }
            Kind::VstoreOne => memory.write(self.address(op), self.vectors[usize::from(op.b)][0]),
            Kind::VfromGpr => {
                self.vectors[dst] = [0; 16];
                self.vectors[dst][0] = self.gpr[usize::from(op.b)] as u32;
            }
            Kind::VwidenI8 => {
                let address = self.address(op);
                let mut out = [0; 16];
                for (lane, out) in out.iter_mut().enumerate().take(usize::from(op.width)) {
                    let [low, high]: [i8; 2] = memory.read(address + 2 * lane as u64);
                    *out = lanes::words(i16::from(low), i16::from(high));
                }
                self.put(op, &out);
            }
            Kind::VwidenF16 => {
                let address = self.address(op);
                let mut out = [0; 16];
                for (lane, out) in out.iter_mut().enumerate().take(usize::from(op.width)) {
                    *out = lanes::widened_f16(memory.read(address + 2 * lane as u64));
                }
                self.put(op, &out);
            }
            Kind::VstoreBytes => {
                let (value, address) = (self.vectors[dst], self.address(op));
                for lane in (0..16).filter(|lane| op.mask == 0 || self.lane_is_on(op, *lane)) {
                    memory.write(address + lane as u64, value[lane] as u8);
                }
            }
            Kind::VwidenU16 => {
                let address = self.address(op);
                let word = |lane: usize| match op.source {
                    Source::Register | Source::Immediate => {
                        self.vectors[usize::from(op.b)][lane / 2] >> (16 * (lane % 2)) & 0xFFFF
                    }
                    // Memory of inactive lanes is not touched.
                    _ if op.mask != 0 && !self.lane_is_on(op, lane) => 0,
                    Source::Memory | Source::Broadcast => u32::from(memory.read::<u16>(address + 2 * lane as u64)),
                };
                let out: Vector = std::array::from_fn(word);
                self.put(op, &out);
            }
            Kind::VstoreWords => {
                let (value, address) = (self.vectors[dst], self.address(op));
                for lane in (0..16).filter(|lane| op.mask == 0 || self.lane_is_on(op, *lane)) {
                    memory.write(address + 2 * lane as u64, value[lane] as u16);
                }
            }
            Kind::VwidenU8 => {
                let bytes: [u8; 16] = match op.source {
                    Source::Register | Source::Immediate => {
                        let lanes = &self.vectors[usize::from(op.b)];
                        std::array::from_fn(|byte| (lanes[byte / 4] >> (8 * (byte % 4))) as u8)
                    }
                    Source::Memory | Source::Broadcast if op.mask == 0 => memory.read(self.address(op)),
                    // Memory of inactive lanes is not touched.
                    Source::Memory | Source::Broadcast => std::array::from_fn(|lane| match self.lane_is_on(op, lane) {
                        true => memory.read(self.address(op) + lane as u64),
                        false => 0,
                    }),
                };
                self.put(op, &bytes.map(u32::from));
            }
            _ => unreachable!("only transfers come here"),
        }
    }

    /// Whether a masked move touches the lane: by a mask register, or by the sign of a vector's lane.
    fn lane_is_on(&self, op: &Operation, lane: usize) -> bool {
        if op.mask != 0 { self.mask_of(op) >> lane & 1 == 1 } else { self.vectors[usize::from(op.a)][lane] >> 31 == 1 }
    }
}

/// A shift: by 0 it leaves the flags; by more than one bit the overflow flag is undefined, which kernels never test
/// after a shift; zero and sign are as usual.
fn shifted(before: i64, after: u64, bits: i64, flags: Flags) -> (i64, Flags) {
    if bits & 63 == 0 { (before, flags) } else { (after as i64, Flags { defined: false, ..Flags::of(after as i64) }) }
}
