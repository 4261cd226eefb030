//! Element-wise operators as ONNX means them: types, broadcasting, attributes, refusals.

use std::sync::Arc;

use half::f16;
use kiln_kernels::cpu::chain::{BinaryOp, Builder, Storage};
use kiln_model::Attr;
use kiln_tensor::BoolByte;

use crate::trial::{Trial, bools};

#[test]
fn floats_and_booleans_are_computed_by_chains_and_other_types_as_well() {
    Trial::new("Add").input(&[2], &[1.5f32, 2.0]).input(&[2], &[1.0f32, -2.0]).gives(&[2], &[2.5f32, 0.0]);
    Trial::new("Add").input(&[2], &[1i64, 2]).input(&[1], &[40i64]).gives(&[2], &[41i64, 42]);
    let (half, two) = (f16::from_f32(0.5), f16::from_f32(2.0));
    Trial::new("Mul").input(&[2], &[half, two]).input(&[], &[two]).gives(&[2], &[f16::from_f32(1.0), two + two]);
    let (yes, no) = (BoolByte(1), BoolByte(0));
    Trial::new("And").input(&[2], &[yes, no]).input(&[1], &[yes]).gives(&[2], &[yes, no]);
    Trial::new("Not").input(&[2], &[yes, no]).gives(&[2], &[no, yes]);
    Trial::new("Equal").input(&[2], &[yes, no]).input(&[2], &[no, no]).gives(&[2], &bools([false, true]));
    Trial::new("Equal").input(&[2], &[7i32, 8]).input(&[], &[8i32]).gives(&[2], &bools([false, true]));
}

#[test]
fn where_takes_numbers_and_booleans() {
    let condition = bools([true, false]);
    Trial::new("Where")
        .input(&[2], &condition)
        .input(&[2], &[1.0f32, 2.0])
        .input(&[], &[9.0f32])
        .gives(&[2], &[1.0f32, 9.0]);
    Trial::new("Where")
        .input(&[2], &condition)
        .input(&[2], &bools([false, false]))
        .input(&[2], &bools([true, true]))
        .gives(&[2], &bools([false, true]));
    Trial::new("Where")
        .input(&[2, 1], &condition)
        .input(&[2], &[1i64, 2])
        .input(&[], &[9i64])
        .gives(&[2, 2], &[1i64, 2, 9, 9]);
    Trial::new("Where").input(&[1], &[1.0f32]).input(&[1], &[1.0f32]).input(&[1], &[1.0f32]).is_refused("bool");
}

#[test]
fn constants_take_part_in_the_shape() {
    Trial::new("Add").input(&[3], &[1.0f32, 2.0, 3.0]).input(&[1, 1], &[1.0f32]).gives(&[1, 3], &[2.0f32, 3.0, 4.0]);
    Trial::new("Mul").input(&[1, 1], &[3.0f32]).input(&[1], &[2.0f32]).gives(&[1, 1], &[6.0f32]);
    Trial::new("Sub").input(&[], &[3.0f32]).input(&[], &[2.0f32]).gives(&[], &[1.0f32]);
}

#[test]
fn powers_take_exponents_of_other_types() {
    Trial::new("Pow").input(&[3], &[1.0f32, 2.0, 3.0]).input(&[], &[2i64]).gives_about(&[3], &[1.0, 4.0, 9.0]);
    Trial::new("Pow").input(&[2], &[2.0f32, 3.0]).input(&[2], &[3i32, 1]).gives_about(&[2], &[8.0, 3.0]);
    Trial::new("Pow").input(&[2], &[2i64, 3]).input(&[], &[2.0f32]).gives(&[2], &[4i64, 9]);
}

#[test]
fn clips_take_bounds_in_every_form() {
    let x = [-2.0f32, 0.5, 3.0];
    let clip = || Trial::new("Clip").input(&[3], &x);
    clip().gives(&[3], &x);
    clip().input(&[], &[0.0f32]).gives(&[3], &[0.0f32, 0.5, 3.0]);
    clip().absent().input(&[1], &[1.0f32]).gives(&[3], &[-2.0f32, 0.5, 1.0]);
    clip().input(&[], &[2.0f32]).input(&[], &[1.0f32]).gives(&[3], &[1.0f32; 3]);
    Trial::new("Clip").version(6).input(&[3], &x).attr("max", Attr::Float(1.0)).gives(&[3], &[-2.0f32, 0.5, 1.0]);
    clip().input(&[2], &[0.0f32, 1.0]).is_refused("bound");
    Trial::new("Clip").input(&[2], &[-5i8, 5]).input(&[], &[0i8]).gives(&[2], &[0i8, 5]);
}

#[test]
fn sums_take_any_number_of_operands() {
    let mut sum = Trial::new("Sum");
    for _ in 0..9 {
        sum = sum.input(&[2], &[1.0f32, 2.0]);
    }
    sum.gives(&[2], &[9.0f32, 18.0]);
    Trial::new("Max").input(&[2], &[1.0f32, f32::NEG_INFINITY]).gives(&[2], &[1.0f32, f32::NEG_INFINITY]);
    Trial::new("Mean")
        .input(&[2], &[1.0f32, 2.0])
        .input(&[1], &[3.0f32])
        .input(&[1], &[5.0f32])
        .gives_about(&[2], &[3.0, 10.0 / 3.0]);
}

#[test]
fn empty_tensors_stay_empty() {
    Trial::new("Relu").input::<f32>(&[0, 3], &[]).gives::<f32>(&[0, 3], &[]);
    Trial::new("Add").input::<f32>(&[2, 0], &[]).input(&[2, 1], &[1.0f32, 2.0]).gives::<f32>(&[2, 0], &[]);
    Trial::new("Add").input::<f32>(&[0], &[]).input(&[1], &[1.0f32]).gives::<f32>(&[0], &[]);
}

#[test]
fn shapes_and_types_that_do_not_fit_are_refused() {
    Trial::new("Add").input(&[2], &[1.0f32, 2.0]).input(&[3], &[1.0f32; 3]).is_refused("broadcast");
    Trial::new("Add").input(&[2], &[1.0f32, 2.0]).input(&[2], &[1i64; 2]).is_refused("float32");
    Trial::new("PRelu").input(&[2], &[1.0f32, 2.0]).input(&[2, 2], &[1.0f32; 4]).is_refused("stretch");
    Trial::new("Add").input(&[2], &[1.0f32, 2.0]).is_refused("missing");
    Trial::new("Gelu").text("approximate", "guess").input(&[1], &[1.0f32]).is_refused("guess");
}

#[test]
fn fused_chains_run_their_program() {
    let mut builder = Builder::new(&[Storage::F32, Storage::Bool]);
    let zero = builder.constant(0.0);
    let kept = builder.select(1, 0, zero);
    builder.binary(BinaryOp::Add, kept, 0);
    let program = builder.finish(Storage::F32).expect("a valid program");
    let chain =
        |program| Trial::new("Chain").made_by(super::make_chain).attr("program", Attr::Chain(Arc::new(program)));
    chain(program.clone())
        .input(&[2, 1], &[1.0f32, 2.0])
        .input(&[2], &bools([true, false]))
        .gives(&[2, 2], &[2.0f32, 1.0, 4.0, 2.0]);
    chain(program.clone()).input(&[2], &[1.0f32, 2.0]).is_refused("fit together");
    chain(program).input(&[1], &[1i64]).input(&[1], &bools([true])).is_refused("types");
}

#[test]
fn operands_of_more_dimensions_than_a_kernel_walks_over_are_repeated_first() {
    // Ten dimensions in which the two shapes take turns at being 1, so that none collapses.
    let (a, b) = ([2, 1, 2, 1, 2, 1, 2, 1, 2, 1], [1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
    let bits =
        |index: usize, odd: usize| (0..5).map(|bit| (index >> (2 * bit + 1 - odd) & 1) << bit).sum::<usize>() as f32;
    let values: Vec<f32> = (0..32u8).map(f32::from).collect();
    let sum: Vec<f32> = (0..1024).map(|index| bits(index, 0) + 100.0 * bits(index, 1)).collect();
    let hundreds: Vec<f32> = values.iter().map(|value| 100.0 * value).collect();
    Trial::new("Add").input(&a, &values).input(&b, &hundreds).gives(&[2; 10], &sum);
    let less = Trial::new("Less").input(&a, &values).input(&b, &hundreds).run().unwrap();
    let expected = (0..1024).map(|index| bits(index, 0) < 100.0 * bits(index, 1));
    assert!(less[0].bytes().iter().map(|&byte| byte != 0).eq(expected));
}
