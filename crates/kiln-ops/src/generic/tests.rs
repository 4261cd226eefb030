//! Element-wise operators by table: every kind of operation on the types that emitted kernels do not cover.

use half::{bf16, f16};
use kiln_model::Attr;
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::make_elementwise;
use crate::trial::{Trial, bools, strings};

fn op(name: &str) -> Trial {
    Trial::new(name).made_by(make_elementwise)
}

#[test]
fn integers_wrap_and_divisions_by_zero_give_zero() {
    op("Add").input(&[2], &[i8::MAX, 1]).input(&[2], &[1i8, 1]).gives(&[2], &[i8::MIN, 2]);
    op("Sub").input(&[1], &[0u16]).input(&[1], &[1u16]).gives(&[1], &[u16::MAX]);
    op("Mul").input(&[1], &[u64::MAX]).input(&[1], &[3u64]).gives(&[1], &[u64::MAX - 2]);
    op("Div").input(&[4], &[7i64, -7, 5, i64::MIN]).input(&[4], &[2i64, 2, 0, -1]).gives(&[4], &[3, -3, 0, i64::MIN]);
    op("Div").input(&[1], &[i8::MIN]).input(&[1], &[-1i8]).gives(&[1], &[i8::MIN]);
    op("Neg").input(&[2], &[i32::MIN, 5]).gives(&[2], &[i32::MIN, -5]);
    op("Abs").input(&[2], &[i64::MIN, -5]).gives(&[2], &[i64::MIN, 5]);
    op("Sign").input(&[3], &[-9i16, 0, 9]).gives(&[3], &[-1i16, 0, 1]);
    op("Sign").input(&[2], &[u64::MAX, 0]).gives(&[2], &[1u64, 0]);
    op("Relu").input(&[2], &[-9i32, 9]).gives(&[2], &[0, 9]);
}

#[test]
fn the_rest_of_a_division_takes_the_sign_that_the_attribute_says() {
    let (a, b) = ([-4i32, 7, 5, 4, -7, 8], [2i32, -3, 8, -2, 3, 5]);
    op("Mod").input(&[6], &a).input(&[6], &b).gives(&[6], &[0, -2, 5, 0, 2, 3]);
    op("Mod").int("fmod", 1).input(&[6], &a).input(&[6], &b).gives(&[6], &[0, 1, 5, 0, -1, 3]);
    op("Mod").int("fmod", 1).input(&[2], &[-4.5f64, 7.5]).input(&[1], &[2.0f64]).gives(&[2], &[-0.5, 1.5]);
    op("Mod").input(&[1], &[-4.5f64]).input(&[1], &[2.0f64]).gives(&[1], &[1.5]);
    op("Mod").input(&[2], &[3u8, 9]).input(&[2], &[0u8, 4]).gives(&[2], &[0u8, 1]);
}

#[test]
fn powers_take_an_exponent_of_another_type() {
    op("Pow").input(&[3], &[2i64, -1, -1]).input(&[3], &[10i64, 3, -2]).gives(&[3], &[1024i64, -1, 1]);
    op("Pow").input(&[1], &[2i64]).input(&[1], &[-1i64]).gives(&[1], &[0i64]);
    op("Pow").input(&[1], &[2i32]).input(&[1], &[0.5f32]).gives(&[1], &[1i32]);
    op("Pow").input(&[1], &[1.5f32]).input(&[1], &[2i64]).gives(&[1], &[2.25f32]);
    op("Pow").input(&[1], &[3i8]).input(&[1], &[5u64]).gives(&[1], &[-13i8]);
}

#[test]
fn operands_broadcast_over_long_tensors() {
    let long: Vec<i64> = (0..3000).collect();
    let expected: Vec<i64> = long.iter().map(|v| v + (v / 100) % 3 * 10).collect();
    op("Add").input(&[10, 3, 100], &long).input(&[3, 1], &[0i64, 10, 20]).gives(&[10, 3, 100], &expected);
    op("Sub").input(&[2, 1], &[1i32, 2]).input(&[3], &[1i32, 2, 3]).gives(&[2, 3], &[0, -1, -2, 1, 0, -1]);
    op("Add").input(&[], &[1i32]).input(&[0, 2], &[0i32; 0]).gives::<i32>(&[0, 2], &[]);
    op("Add").input(&[2], &[1i32, 2]).input(&[3], &[1i32, 2, 3]).is_refused("broadcast");
}

#[test]
fn narrow_floats_are_rounded_once() {
    let halves = |values: [f32; 2]| values.map(f16::from_f32);
    op("Add")
        .input(&[2], &halves([2048.0, 0.25]))
        .input(&[2], &halves([1.0, 0.5]))
        .gives(&[2], &halves([2048.0, 0.75]));
    let brains = |values: [f32; 2]| values.map(bf16::from_f32);
    op("Mul").input(&[2], &brains([1.5, 3.0])).input(&[], &[bf16::from_f32(0.5)]).gives(&[2], &brains([0.75, 1.5]));
    op("Sqrt").input(&[2], &halves([4.0, 2.0])).gives(&[2], &halves([2.0, std::f32::consts::SQRT_2]));
}

#[test]
fn comparisons_and_logic_give_booleans() {
    op("Less").input(&[3], &[1u64, u64::MAX, 2]).input(&[1], &[2u64]).gives(&[3], &bools([true, false, false]));
    op("GreaterOrEqual").input(&[2], &[f64::NAN, 1.0]).input(&[1], &[1f64]).gives(&[2], &bools([false, true]));
    op("Equal").input(&[2], &bools([true, false])).input(&[1], &bools([true])).gives(&[2], &bools([true, false]));
    op("Equal").tensor(strings(&[2], &["a", "b"])).tensor(strings(&[], &["b"])).gives(&[2], &bools([false, true]));
    op("Xor").input(&[2], &bools([true, false])).input(&[1], &bools([true])).gives(&[2], &bools([false, true]));
    op("Not").input(&[2], &bools([true, false])).gives(&[2], &bools([false, true]));
    op("IsNaN").input(&[2], &[f16::NAN, f16::ONE]).gives(&[2], &bools([true, false]));
    let infinite = [f64::INFINITY, f64::NEG_INFINITY];
    op("IsInf").int("detect_negative", 0).input(&[2], &infinite).gives(&[2], &bools([true, false]));
}

#[test]
fn bits_shift_and_mix_in_their_own_width() {
    let shift = |direction| op("BitShift").text("direction", direction);
    shift("LEFT").input(&[3], &[16u8, 255, 1]).input(&[3], &[1u8, 4, 8]).gives(&[3], &[32u8, 240, 0]);
    shift("RIGHT").input(&[2], &[u64::MAX, 8]).input(&[2], &[64u64, 2]).gives(&[2], &[0u64, 2]);
    shift("UP").input(&[1], &[1u8]).input(&[1], &[1u8]).is_refused("direction");
    op("BitwiseNot").input(&[2], &[0u8, 1]).gives(&[2], &[255u8, 254]);
    op("BitwiseXor").input(&[1], &[-1i16]).input(&[1], &[1i16]).gives(&[1], &[-2i16]);
    op("BitwiseAnd").input(&[1], &[1f32]).input(&[1], &[1f32]).is_refused("type float32");
}

#[test]
fn any_number_of_operands_fold() {
    let three = |name| op(name).input(&[3], &[3f64, 2.0, f64::NAN]).input(&[3], &[1f64, 4.0, 1.0]).input(&[1], &[2f64]);
    let max = three("Max").run().unwrap();
    let max = max[0].as_slice::<f64>().unwrap();
    assert!(max[..2] == [3.0, 4.0] && max[2].is_nan());
    op("Min").input(&[2], &[3i8, -2]).gives(&[2], &[3i8, -2]);
    op("Sum").input(&[2], &[3i32, 2]).input(&[], &[1i32]).gives(&[2], &[4, 3]);
    op("Mean").input(&[2], &[3f32, 2.0]).input(&[2], &[1f32, 1.0]).gives(&[2], &[2f32, 1.5]);
    op("Max").is_refused("input 0 is missing");
    op("Max").input(&[1], &[1i32]).input(&[1], &[1i64]).is_refused("expected elements of type int32");
}

#[test]
fn clip_takes_bounds_as_attributes_or_inputs() {
    let bounds = |low, high| op("Clip").version(6).attr("min", Attr::Float(low)).attr("max", Attr::Float(high));
    bounds(-1.0, 1.0).input(&[3], &[-2f64, 0.5, 2.0]).gives(&[3], &[-1f64, 0.5, 1.0]);
    op("Clip").input(&[3], &[-2i8, 0, 2]).input(&[], &[-1i8]).input(&[], &[1i8]).gives(&[3], &[-1i8, 0, 1]);
    op("Clip").input(&[2], &[-2i8, 2]).absent().input(&[], &[1i8]).gives(&[2], &[-2i8, 1]);
    op("Clip").input(&[2], &[-2i8, 2]).input(&[], &[3i8]).input(&[], &[1i8]).gives(&[2], &[1i8, 1]);
    op("Clip").input(&[2], &[-2i8, 2]).input(&[2], &[3i8, 3]).is_refused("a bound");
}

#[test]
fn where_picks_elements_of_any_type() {
    let pick = || op("Where").input(&[2, 1], &bools([true, false]));
    pick().input(&[2], &[1i64, 2]).input(&[], &[9i64]).gives(&[2, 2], &[1i64, 2, 9, 9]);
    pick()
        .tensor(strings(&[], &["x"]))
        .tensor(strings(&[2], &["y", "z"]))
        .gives_strings(&[2, 2], &["x", "x", "y", "z"]);
    op("Where").input(&[1], &[1u8]).input(&[1], &[1f32]).input(&[1], &[1f32]).is_refused("bool");
    pick().input(&[1], &[1f32]).input(&[1], &[1f64]).is_refused("float32");
}

#[test]
fn strings_are_joined() {
    let joined = op("StringConcat").tensor(strings(&[2, 1], &["a", "b"])).tensor(strings(&[2], &["x", "y"]));
    joined.gives_strings(&[2, 2], &["ax", "ay", "bx", "by"]);
    op("StringConcat").input(&[1], &[1i32]).input(&[1], &[1i32]).is_refused("type int32");
}

#[test]
fn activations_follow_their_attributes() {
    let at = |trial: Trial| {
        let outputs = trial.input(&[3], &[-1.0f32, 0.0, 2.0]).run().unwrap();
        <[f32; 3]>::try_from(outputs[0].as_slice::<f32>().unwrap()).unwrap()
    };
    let with = |name: &str, attributes: &[(&str, f32)]| {
        attributes.iter().fold(op(name), |trial, (name, value)| trial.attr(name, Attr::Float(*value)))
    };
    let table: [(Trial, [f32; 3]); 14] = [
        (op("LeakyRelu"), [-0.01, 0.0, 2.0]),
        (with("LeakyRelu", &[("alpha", 0.5)]), [-0.5, 0.0, 2.0]),
        (op("Elu"), [-0.632_120_55, 0.0, 2.0]),
        (op("Selu"), [-1.111_330_7, 0.0, 2.101_402]),
        (with("Celu", &[("alpha", 2.0)]), [-0.786_938_7, 0.0, 2.0]),
        (op("ThresholdedRelu"), [0.0, 0.0, 2.0]),
        (op("HardSigmoid"), [0.3, 0.5, 0.9]),
        (op("HardSwish"), [-0.333_333_34, 0.0, 1.666_666_6]),
        (op("Softplus"), [0.313_261_7, std::f32::consts::LN_2, 2.126_928]),
        (op("Mish"), [-0.303_401_46, 0.0, 1.943_959]),
        (op("Gelu"), [-0.158_655_26, 0.0, 1.954_499_7]),
        (op("Gelu").text("approximate", "tanh"), [-0.158_808, 0.0, 1.954_597_7]),
        (with("Swish", &[("alpha", 2.0)]), [-0.119_202_92, 0.0, 1.964_027_6]),
        (with("Shrink", &[("lambd", 0.5), ("bias", 1.5)]), [0.5, 0.0, 0.5]),
    ];
    for (row, (trial, expected)) in table.into_iter().enumerate() {
        let found = at(trial);
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close, "row {row}: {found:?} for {expected:?}");
    }
}

#[test]
fn gates_multiply() {
    let row = op("SwiGLU").attr("alpha", Attr::Float(2.0)).input(&[2], &[0f32, 2.0]).input(&[2], &[5f32, 0.5]);
    row.gives_about(&[2], &[0.0, 0.982_013_8]);
}

#[test]
fn a_slope_never_stretches_its_input() {
    op("PRelu")
        .input(&[2, 2], &[-1f64, 1.0, -2.0, 2.0])
        .input(&[2, 1], &[0.5f64, 2.0])
        .gives(&[2, 2], &[-0.5f64, 1.0, -4.0, 2.0]);
    op("PRelu").input(&[1], &[-1f64]).input(&[2], &[0.5f64, 2.0]).is_refused("a slope");
}

#[test]
fn types_that_an_operator_does_not_take_are_refused() {
    let zeros = |dtype| Tensor::zeros(TensorSpec::new(dtype, [1])).unwrap();
    for (name, dtype) in [("Sin", DType::I32), ("Add", DType::Bool), ("Not", DType::U8), ("Neg", DType::String)] {
        op(name).tensor(zeros(dtype)).tensor(zeros(dtype)).is_refused("elements of type");
    }
}
