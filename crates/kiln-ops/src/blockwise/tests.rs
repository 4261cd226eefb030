//! The operators against numbers from their definitions, and refusals.

use kiln_model::Attr;
use kiln_tensor::{DType, Tensor, TensorSpec};

use crate::trial::Trial;

/// A row of ones by one column of 32 codes of four bits: the codes 0 to 15 twice.
fn codes() -> Vec<u8> {
    (0..16u8).map(|pair| (2 * pair % 16) | (((2 * pair + 1) % 16) << 4)).collect()
}

fn nbits(bits: i64, k: i64) -> Trial {
    let trial = Trial::new("MatMulNBits").version(1).int("K", k).int("N", 1).int("bits", bits).int("block_size", 16);
    trial.input(&[2, k as usize], &vec![1f32; 2 * k as usize])
}

#[test]
fn sums_of_codes_less_their_zero_points() {
    // Both blocks hold 0 to 15: 120 less 16 times the zero point.
    let row = || nbits(4, 32).input(&[1, 2, 8], &codes()).input(&[2], &[0.5f32, 2.0]);
    row().gives(&[2, 1], &[-8.0f32 * 0.5 - 8.0 * 2.0; 2]);
    row().input(&[1], &[0x31u8]).gives(&[2, 1], &[104.0f32 * 0.5 + 72.0 * 2.0; 2]);
    row().input(&[2], &[1f32, 3.5]).gives(&[2, 1], &[104.0f32 * 0.5 + 64.0 * 2.0; 2]);
    row().absent().absent().input(&[1], &[100f32]).gives(&[2, 1], &[80.0f32; 2]);
    nbits(8, 16)
        .input(&[1, 1, 16], &(120..136).collect::<Vec<u8>>())
        .input(&[1], &[2f32])
        .gives(&[2, 1], &[-8.0f32 * 2.0; 2]);
    nbits(2, 16).input(&[1, 1, 4], &[0b11_10_01_00u8; 4]).input(&[1], &[3f32]).gives(&[2, 1], &[-24.0f32; 2]);
}

#[test]
fn a_last_block_may_be_shorter() {
    // The second block has 5 of its 16 codes: 0 to 4.
    nbits(4, 21).input(&[1, 2, 8], &codes()).input(&[2], &[1f32, 1.0]).gives(&[2, 1], &[-8.0f32 + 10.0 - 40.0; 2]);
}

#[test]
fn half_precision_is_widened_and_rounded() {
    let half = |values: &[f32]| values.iter().map(|&value| half::f16::from_f32(value)).collect::<Vec<_>>();
    let trial = Trial::new("MatMulNBits").version(1).int("K", 32).int("N", 1).int("bits", 4).int("block_size", 16);
    let trial = trial.input(&[1, 32], &half(&[1.0; 32])).input(&[1, 2, 8], &codes());
    trial.input(&[2], &half(&[0.5, 2.0])).gives(&[1, 1], &half(&[-20.0]));
}

#[test]
fn floats_of_four_bits_are_looked_up() {
    let row = |kind: i64| {
        let trial = Trial::new("MatMulBnb4").version(1).int("K", 16).int("N", 2).int("block_size", 16);
        trial.int("quant_type", kind).input(&[1, 16], &[1f32; 16])
    };
    // The first column has code 15 first, then 0; the second code 3 alone.
    let mut bytes = [0u8; 16];
    bytes[0] = 0xF0;
    bytes[8..].fill(0x33);
    let scales = [2f32, 1.0];
    row(1).input(&[16], &bytes).input(&[2], &scales).gives_about(&[1, 2], &[2.0 - 30.0, -0.394_917_5 * 16.0]);
    row(0).input(&[16], &bytes).input(&[2], &scales).gives_about(&[1, 2], &[-0.5, 16.0]);
    row(2).input(&[16], &bytes).input(&[2], &scales).is_refused("quant_type = 2");
    row(0).int("transB", 0).input(&[16], &bytes).input(&[2], &scales).is_refused("transB = 0");
}

#[test]
fn blocks_of_floats_of_four_bits_run_over_the_ends_of_columns() {
    // Code 3 of FP4 is 1. Columns of 24 numbers in blocks of 16: the second block has the end of one column and the
    // beginning of the other.
    let trial = || {
        let trial = Trial::new("MatMulBnb4").version(1).int("K", 24).int("N", 2).int("block_size", 16);
        trial.int("quant_type", 0).input(&[1, 24], &[1f32; 24]).input(&[24], &[0x33u8; 24])
    };
    trial().input(&[3], &[1f32, 10.0, 100.0]).gives(&[1, 2], &[16f32 + 80.0, 80.0 + 1600.0]);
    trial().input(&[2], &[1f32, 10.0]).is_refused("input 2");
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let bytes = codes();
    nbits(3, 32).input(&[1, 2, 8], &bytes).input(&[2], &[1f32; 2]).is_refused("bits = 3");
    nbits(4, 32).int("block_size", 8).input(&[1, 2, 8], &bytes).input(&[2], &[1f32; 2]).is_refused("block_size = 8");
    nbits(4, 32)
        .int("block_size", -16)
        .input(&[1, 2, 8], &bytes)
        .input(&[2], &[1f32; 2])
        .is_refused("block_size = -16");
    nbits(4, 32).int("N", i64::MAX).input(&[1, 2, 8], &bytes).input(&[2], &[1f32; 2]).is_refused("input 2 is");
    nbits(4, 32).int("K", 0).input(&[1, 2, 8], &bytes).input(&[2], &[1f32; 2]).is_refused("K = 0");
    nbits(4, 32).input(&[1, 2, 8], &bytes).input(&[3], &[1f32; 3]).is_refused("input 2 is");
    nbits(4, 32).input(&[1, 2, 8], &bytes).input(&[2], &[1f32; 2]).input(&[3], &[1u8; 3]).is_refused("input 3 is");
    let order = nbits(4, 32).input(&[1, 2, 8], &bytes).input(&[2], &[1f32; 2]).absent();
    order.input(&[32], &[0i32; 32]).is_refused("g_idx");
    let prepacked = nbits(4, 32).int("weight_prepacked", 1).input(&[1, 2, 8], &bytes).input(&[2], &[1f32; 2]);
    prepacked.is_refused("weight_prepacked = 1");
    let bias = nbits(4, 32).input(&[1, 2, 8], &bytes).input(&[2], &[1f32; 2]).absent().absent();
    bias.input(&[2], &[1f32; 2]).is_refused("a bias");
}

#[test]
fn weights_as_dequantize_linear_reads_them() {
    let small = |dtype: DType, shape: [usize; 2], bytes: &[u8]| {
        let mut tensor = Tensor::zeros(TensorSpec::new(dtype, shape)).unwrap();
        tensor.bytes_mut().copy_from_slice(bytes);
        tensor
    };
    let row = |trans_b: i64| {
        let trial = Trial::new("BlockwiseMatMul").version(1).int("block_size", 16).int("trans_b", trans_b);
        trial.attr("block_size", Attr::Int(16)).input(&[1, 32], &[1f32; 32])
    };
    // Two columns of 32: all 7 and all -8.
    let columns: Vec<u8> = (0..64).map(|at| if at % 2 == 0 { 7 } else { -8i8 as u8 }).collect();
    let rows: Vec<u8> = (0..64).map(|at| if at < 32 { 7 } else { -8i8 as u8 }).collect();
    let scales = [1f32, 10.0, 2.0, 20.0];
    let by_rows = row(0).tensor(small(DType::I4, [32, 2], &columns)).input(&[2, 2], &scales);
    by_rows.gives(&[1, 2], &[7.0f32 * 16.0 * 3.0, -8.0 * 16.0 * 30.0]);
    let by_columns = row(1).tensor(small(DType::I4, [2, 32], &rows)).input(&[2, 2], &[1f32, 2.0, 10.0, 20.0]);
    by_columns.gives(&[1, 2], &[7.0f32 * 16.0 * 3.0, -8.0 * 16.0 * 30.0]);
    let unsigned: Vec<u8> = (0..64).map(|at| 200 + at % 2).collect();
    let bytes = row(0).tensor(small(DType::U8, [32, 2], &unsigned)).input(&[2, 2], &[1f32; 4]);
    bytes.gives(&[1, 2], &[200.0f32 * 32.0, 201.0 * 32.0]);
    let zeros = row(0).tensor(small(DType::I4, [32, 2], &columns)).input(&[2, 2], &scales);
    let zeros = zeros.tensor(small(DType::I4, [2, 2], &[7, 0, 6, -8i8 as u8]));
    zeros.gives(&[1, 2], &[2.0f32 * 16.0, -8.0 * 16.0 * 10.0]);
}
