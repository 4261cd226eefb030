//! Descriptions that are refused, and descriptions that are too short, which the emulator finds.

use super::*;
use crate::isa::Isa;
use crate::jit::{Asm, Code, Gpr, Mem, Vreg};

/// A kernel that copies one vector.
fn copy() -> Code {
    let mut asm = Asm::new(Isa::Avx2).unwrap();
    asm.prologue();
    asm.load(Gpr::RAX, Mem::at(Gpr::RDI, 0));
    asm.load(Gpr::RCX, Mem::at(Gpr::RDI, 8));
    asm.vload(Vreg(0), Mem::at(Gpr::RAX, 0));
    asm.vstore(Mem::at(Gpr::RCX, 0), Vreg(0));
    asm.epilogue();
    Code::seal(Isa::Avx2, "copy", &asm.finish("copy").unwrap()).unwrap()
}

#[repr(C)]
struct CopyArgs {
    from: *const f32,
    to: *mut f32,
}

/// `Kernel` is the number of elements that a description declares.
impl Arguments for CopyArgs {
    const FAMILY: &'static str = "copy";
    type Kernel = usize;

    fn extents(&self, elements: &usize, extents: &mut Extents<'_>) {
        extents.read("source", self.from).bytes(elements * 4);
        extents.write("destination", self.to).bytes(elements * 4);
    }
}

/// Copies eight elements between arrays of these lengths in the emulator, with a description of `elements` elements.
fn run(source: usize, destination: usize, elements: usize) {
    let (from, mut to) = (vec![1.0f32; source.max(8)], vec![0.0f32; destination.max(8)]);
    let given = Given::new().read("source", &from[..source]).write("destination", &mut to[..destination]);
    let args = CopyArgs { from: from.as_ptr(), to: to.as_mut_ptr() };
    // SAFETY: there are eight elements on both sides, whatever the lists say.
    crate::jit::interpreted(|| unsafe { copy().call(&args, &elements, &given) });
    assert_eq!(to[..8], [1.0; 8]);
}

#[test]
fn a_call_inside_of_its_operands_runs() {
    run(8, 8, 8);
    run(9, 20, 8);
}

#[test]
#[should_panic(expected = "copy: reads 32 bytes of source")]
fn a_read_beyond_an_operand_is_refused() {
    run(7, 8, 8);
}

#[test]
#[should_panic(expected = "copy: writes 32 bytes of destination")]
fn a_write_beyond_an_operand_is_refused() {
    run(8, 7, 8);
}

#[test]
#[should_panic(expected = "which the extents of its call do not say")]
fn a_description_that_says_too_little_is_found_by_the_emulator() {
    run(8, 8, 7);
}

#[test]
#[should_panic(expected = "writes 4 bytes of destination")]
fn what_is_only_read_cannot_be_written() {
    let operand = [0.0f32];
    let given = Given::new().read("source", &operand);
    let mut extents = Extents::new("copy", &given, false);
    extents.read("source", operand.as_ptr()).bytes(4);
    extents.write("destination", operand.as_ptr().cast_mut()).bytes(4);
}

#[test]
#[should_panic(expected = "copy: reads source -3 times")]
fn a_count_that_wrapped_is_refused() {
    let operand = [0.0f32; 64];
    let given = Given::new().read("source", &operand);
    let steady = 2usize.wrapping_sub(5);
    Extents::new("copy", &given, false).read("source", operand.as_ptr()).over(steady, 4).bytes(4);
}

#[test]
fn loops_reach_from_their_first_turn_to_their_last_in_both_directions() {
    let operand = [0.0f32; 64];
    let given = Given::new().read("source", &operand);
    let mut extents = Extents::new("copy", &given, true);
    let at = operand.as_ptr().addr();
    extents.read("source", operand[32..].as_ptr()).over(3, 16).over(5, 20usize.wrapping_neg()).bytes(4);
    extents.read("source", operand.as_ptr()).over(0, 1000).bytes(4);
    extents.read("source", std::ptr::null::<f32>()).bytes(0);
    let ranges: Vec<[usize; 2]> = extents.touched.iter().map(|range| [range.start - at, range.end - at]).collect();
    assert_eq!(ranges, [[128 - 80, 128 + 32 + 4]]);
}
