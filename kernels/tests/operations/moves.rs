//! Moving vectors: the memory that is read and written, and above all the memory that is not.

use kiln_kernels::Isa;
use kiln_kernels::jit::{Asm, Gpr, Mem, Vreg};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::harness::{INPUT, LEVELS, OUTPUT, Random, UNTOUCHED, Vector, WORDS, call, kernel, run, vector};

fn numbered() -> Vector {
    std::array::from_fn(|lane| (lane as f32 + 0.5).to_bits())
}

#[test]
fn storing_writes_one_vector_and_nothing_else() {
    let stores: [fn(&mut Asm, Mem, Vreg); 2] = [Asm::vstore, Asm::vstore_stream];
    for isa in LEVELS {
        for store in stores {
            for register in [0, 7, 8, isa.registers() - 1] {
                let output = run(isa, &[numbered()], 1, &[], |asm| {
                    asm.vload(Vreg(register), vector(INPUT, 0));
                    store(asm, vector(OUTPUT, 0), Vreg(register));
                });
                let lanes = isa.lanes();
                assert_eq!(output.vectors[0][..lanes], numbered()[..lanes]);
                assert_eq!(output.vectors[0][lanes..], [UNTOUCHED; 16][lanes..]);
            }
        }
    }
}

#[test]
fn broadcasting_from_memory_and_from_lane_0() {
    for isa in LEVELS {
        for register in [0, 5, 8, isa.registers() - 1] {
            let v = Vreg(register);
            let output = run(isa, &[numbered()], 3, &[], |asm| {
                asm.vbroadcast(v, Mem::at(INPUT, 12));
                asm.vstore(vector(OUTPUT, 0), v);
                asm.vload(v, vector(INPUT, 0));
                asm.vbroadcast_lane0(Vreg(3), v);
                asm.vstore(vector(OUTPUT, 1), Vreg(3));
                asm.vbroadcast_lane0(v, v);
                asm.vstore(vector(OUTPUT, 2), v);
            });
            let lanes = isa.lanes();
            assert_eq!(output.vectors[0][..lanes], [3.5f32.to_bits(); 16][..lanes]);
            assert_eq!(output.vectors[1][..lanes], [0.5f32.to_bits(); 16][..lanes]);
            assert_eq!(output.vectors[2][..lanes], [0.5f32.to_bits(); 16][..lanes]);
        }
    }
}

#[test]
fn single_lanes() {
    for isa in LEVELS {
        for register in [0, 5, 8, isa.registers() - 1] {
            let v = Vreg(register);
            let output = run(isa, &[numbered()], 2, &[], |asm| {
                asm.vload(v, -1.0);
                asm.vload_one(v, Mem::at(INPUT, 8));
                asm.vstore(vector(OUTPUT, 0), v);
                asm.vstore_one(Mem::at(OUTPUT, 64 + 4), v);
            });
            assert_eq!(output.vectors[0][0], 2.5f32.to_bits());
            assert_eq!(output.vectors[0][1..isa.lanes()], [0; 16][1..isa.lanes()]);
            assert_eq!(output.vectors[1][..3], [UNTOUCHED, 2.5f32.to_bits(), UNTOUCHED]);
        }
    }
}

#[test]
fn bytes_are_zero_extended() {
    let bytes: [u8; 64] = std::array::from_fn(|at| (at * 37 + 130) as u8);
    let input: Vector = std::array::from_fn(|lane| u32::from_le_bytes(bytes[4 * lane..][..4].try_into().unwrap()));
    for isa in LEVELS {
        for register in [0, 8, isa.registers() - 1] {
            let output = run(isa, &[input], 1, &[], |asm| {
                asm.vload_u8(Vreg(register), Mem::at(INPUT, 3));
                asm.vstore(vector(OUTPUT, 0), Vreg(register));
            });
            for lane in 0..isa.lanes() {
                assert_eq!(output.vectors[0][lane], u32::from(bytes[3 + lane]));
            }
        }
    }
}

/// Emits `mask_first` with the count in the first word.
fn mask_by_count(asm: &mut Asm, index: u8, vector: Vreg) -> kiln_kernels::jit::Mask {
    let mask = asm.mask(index, vector);
    asm.load(Gpr::R11, Mem::at(WORDS, 0));
    asm.mask_first(mask, Gpr::R11, Gpr::RAX);
    mask
}

#[test]
fn masked_moves_of_every_count() {
    for isa in LEVELS {
        for (index, mask_vector) in [(0, 2), (6, 15)] {
            let code = kernel(isa, |asm| {
                asm.vload(Vreg(1), 9.0);
                let mask = mask_by_count(asm, index, Vreg(mask_vector));
                asm.vload_masked(Vreg(1), mask, vector(INPUT, 0));
                asm.vstore(vector(OUTPUT, 0), Vreg(1));
                asm.vload(Vreg(1), vector(INPUT, 0));
                asm.vstore_masked(vector(OUTPUT, 1), mask, Vreg(1));
                asm.mask_to_f32(Vreg(3), mask);
                asm.vstore(vector(OUTPUT, 2), Vreg(3));
                // The count is still there.
                asm.store(Mem::at(WORDS, 8), Gpr::R11);
            });
            for count in 0..=isa.lanes() {
                let output = call(&code, &[numbered()], 3, &[count as u64, 0]);
                assert_eq!(output.words[1], count as u64);
                for lane in 0..isa.lanes() {
                    let (loaded, stored, one) =
                        if lane < count { (numbered()[lane], numbered()[lane], 1.0) } else { (0, UNTOUCHED, 0.0) };
                    assert_eq!(output.vectors[0][lane], loaded, "{isa} {count} of {lane}");
                    assert_eq!(output.vectors[1][lane], stored, "{isa} {count} of {lane}");
                    assert_eq!(f32::from_bits(output.vectors[2][lane]), one, "{isa} {count} of {lane}");
                }
            }
        }
    }
}

/// One readable page between two that fault.
struct Guarded(*mut u8);

const PAGE: usize = 4096;

impl Guarded {
    fn new() -> Guarded {
        // SAFETY: fresh memory of our own.
        unsafe {
            let start = mmap_anonymous(std::ptr::null_mut(), 3 * PAGE, ProtFlags::empty(), MapFlags::PRIVATE).unwrap();
            mprotect(start.byte_add(PAGE), PAGE, MprotectFlags::READ | MprotectFlags::WRITE).unwrap();
            Guarded(start.cast::<u8>().add(PAGE))
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the three pages of `new`.
        unsafe { munmap(self.0.sub(PAGE).cast(), 3 * PAGE).unwrap() };
    }
}

#[test]
fn masked_off_lanes_touch_no_memory() {
    let guarded = Guarded::new();
    for isa in LEVELS {
        let code = kernel(isa, |asm| {
            let mask = mask_by_count(asm, 1, Vreg(4));
            asm.load(Gpr::RCX, Mem::at(WORDS, 8));
            asm.vload_masked(Vreg(1), mask, Mem::at(Gpr::RCX, 0));
            asm.vadd(Vreg(1), Vreg(1), 1.0);
            asm.vstore_masked(Mem::at(Gpr::RCX, 0), mask, Vreg(1));
        });
        for count in 0..=isa.lanes() {
            // SAFETY: the last `count` floats of the page; only the kernel uses them besides.
            let last = unsafe { std::slice::from_raw_parts_mut(guarded.0.add(PAGE - 4 * count).cast::<f32>(), count) };
            last.iter_mut().enumerate().for_each(|(lane, value)| *value = lane as f32);
            let rounds = if isa <= Isa::detect() { 2.0 } else { 1.0 };
            call(&code, &[], 0, &[count as u64, last.as_mut_ptr() as u64]);
            // The harness calls once in the emulator, and once natively where it can.
            for (lane, value) in last.iter().enumerate() {
                assert_eq!(*value, lane as f32 + rounds);
            }
        }
    }
}

#[test]
fn spilled_vectors_come_back() {
    let mut random = Random(3);
    let input: Vec<Vector> = (0..8).map(|_| random.vector()).collect();
    for isa in LEVELS {
        for slots in [1u8, 2, 5, 8] {
            let used = usize::from(slots);
            let output = run(isa, &input, used, &[0], |asm| {
                asm.spill(slots);
                for slot in 0..slots {
                    asm.vload(Vreg(0), vector(INPUT, usize::from(slot)));
                    asm.vstore(asm.slot(slot), Vreg(0));
                }
                asm.lea(Gpr::RAX, asm.slot(slots - 1));
                asm.store(Mem::at(WORDS, 0), Gpr::RAX);
                for slot in 0..slots {
                    asm.vload(Vreg(1), asm.slot(slot));
                    asm.vstore(vector(OUTPUT, usize::from(slot)), Vreg(1));
                }
                asm.unspill();
                // The address of a slot differs between runs; its alignment does not.
                asm.load(Gpr::RAX, Mem::at(WORDS, 0));
                asm.and_imm(Gpr::RAX, asm.vector_bytes() - 1);
                asm.store(Mem::at(WORDS, 0), Gpr::RAX);
            });
            assert_eq!(output.words[0], 0);
            for (stored, loaded) in output.vectors.iter().zip(&input) {
                assert_eq!(stored[..isa.lanes()], loaded[..isa.lanes()]);
            }
        }
    }
}
