//! The gathers, by table: forms, negative indices, strings, and refusals.

use kiln_tensor::{DType, Expansion, Tensor, TensorSpec};

use crate::trial::{Trial, strings};

fn ramp(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from_vec(shape.iter().copied(), (0..count as i16).collect()).unwrap()
}

#[test]
fn gather_takes_blocks_along_an_axis() {
    let gather = |axis, shape: &[usize]| Trial::new("Gather").int("axis", axis).tensor(ramp(shape));
    gather(0, &[3, 2]).input(&[2], &[2i64, -3]).gives(&[2, 2], &[4i16, 5, 0, 1]);
    gather(1, &[2, 3]).input(&[1, 2], &[-1i32, 0]).gives(&[2, 1, 2], &[2i16, 0, 5, 3]);
    gather(-2, &[2, 2, 2]).input(&[], &[1i64]).gives(&[2, 2], &[2i16, 3, 6, 7]);
    gather(0, &[3, 2]).input::<i64>(&[0], &[]).gives::<i16>(&[0, 2], &[]);
    gather(0, &[3, 0]).input(&[2], &[0i64, 1]).gives::<i16>(&[2, 0], &[]);
    let words = Trial::new("Gather").tensor(strings(&[3], &["a", "b", "c"]));
    words.input(&[2], &[-1i64, 0]).gives_strings(&[2], &["c", "a"]);
}

#[test]
fn a_compact_table_is_gathered_from_where_it_is() {
    let table = || Tensor::compact(Tensor::from_vec([3, 2], vec![1u8, 2, 3, 4, 5, 6]).unwrap(), Expansion::default());
    let gather = |axis, table: &Tensor| Trial::new("Gather").int("axis", axis).tensor(table.clone());
    let rows = table().unwrap();
    gather(0, &rows).input(&[3], &[-1i64, 0, 1]).gives(&[3, 2], &[5f32, 6.0, 1.0, 2.0, 3.0, 4.0]);
    gather(0, &rows).input(&[], &[1i32]).gives(&[2], &[3f32, 4.0]);
    gather(0, &rows).input::<i64>(&[0], &[]).gives::<f32>(&[0, 2], &[]);
    gather(0, &rows).input(&[1], &[3i64]).is_refused("outside of 0..3");
    assert!(rows.compact_form().is_some(), "only the rows were made");
    gather(1, &rows).input(&[1], &[1i64]).gives(&[3, 1], &[2f32, 4.0, 6.0]);
    // Long rows, and more rows than one task takes.
    let bytes: Vec<u8> = (0..40 * 3000).map(|at| (at % 251) as u8).collect();
    let long = Tensor::compact(Tensor::from_vec([40, 3000], bytes.clone()).unwrap(), Expansion::default()).unwrap();
    let places: Vec<i64> = (0..100).map(|at| at * 7 % 40).collect();
    let row = |&place: &i64| bytes[place as usize * 3000..][..3000].iter().map(|&byte| f32::from(byte));
    let expected: Vec<f32> = places.iter().flat_map(row).collect();
    gather(0, &long).input(&[100], &places).gives(&[100, 3000], &expected);
}

#[test]
fn gather_refuses_indices_outside() {
    for index in [3, -4, i64::MIN, i64::MAX] {
        Trial::new("Gather").tensor(ramp(&[3, 2])).input(&[1], &[index]).is_refused("outside of 0..3");
    }
    Trial::new("Gather").tensor(ramp(&[0, 2])).input(&[1], &[0i64]).is_refused("outside of 0..0");
    Trial::new("Gather").tensor(ramp(&[])).input(&[1], &[0i64]).is_refused("axis 0");
    Trial::new("Gather").tensor(ramp(&[2])).input(&[1], &[0f32]).is_refused("type");
}

#[test]
fn gather_elements_takes_one_element_an_index() {
    let gather = |axis, shape: &[usize]| Trial::new("GatherElements").int("axis", axis).tensor(ramp(shape));
    gather(1, &[2, 2]).input(&[2, 2], &[0i64, 0, 1, 0]).gives(&[2, 2], &[0i16, 0, 3, 2]);
    gather(0, &[3, 3]).input(&[2, 3], &[1i64, 2, 0, 2, 0, 0]).gives(&[2, 3], &[3i16, 7, 2, 6, 1, 2]);
    gather(0, &[3, 3]).input(&[2, 2], &[-1i64, -2, 0, 0]).gives(&[2, 2], &[6i16, 4, 0, 1]);
    gather(0, &[3, 3]).input(&[2, 4], &[0i64; 8]).is_refused("do not fit data");
    gather(0, &[3, 3]).input(&[2], &[0i64; 2]).is_refused("do not fit data");
    gather(0, &[3, 3]).input(&[1, 1], &[3i64]).is_refused("outside of 0..3");
}

#[test]
fn gather_nd_takes_the_parts_that_tuples_name() {
    let gather = |batch, shape: &[usize]| Trial::new("GatherND").int("batch_dims", batch).tensor(ramp(shape));
    gather(0, &[2, 2]).input(&[2, 2], &[0i64, 0, 1, -1]).gives(&[2], &[0i16, 3]);
    gather(0, &[2, 2]).input(&[2, 1], &[1i64, 0]).gives(&[2, 2], &[2i16, 3, 0, 1]);
    gather(0, &[2, 2, 2]).input(&[2, 1, 2], &[0i64, 1, 1, 0]).gives(&[2, 1, 2], &[2i16, 3, 4, 5]);
    gather(1, &[2, 2, 2]).input(&[2, 1], &[1i64, 0]).gives(&[2, 2], &[2i16, 3, 4, 5]);
    gather(0, &[2, 2]).input::<i64>(&[0, 2], &[]).gives::<i16>(&[0], &[]);
    gather(0, &[2, 2]).input(&[1, 3], &[0i64; 3]).is_refused("name no parts");
    gather(1, &[2, 2]).input(&[3, 1], &[0i64; 3]).is_refused("name no parts");
    gather(2, &[2, 2]).input(&[2, 1], &[0i64; 2]).is_refused("name no parts");
    gather(-1, &[2, 2]).input(&[2, 1], &[0i64; 2]).is_refused("batch_dims");
    gather(0, &[2, 2]).input(&[1, 2], &[0i64, 2]).is_refused("outside of 0..2");
}

/// Three rows of 32 codes of four bits, each a 5 but for its first, which is the row's number, and two scales a row.
fn nibbles() -> Trial {
    let rows = (0..3u8).flat_map(|row| (0..16).map(move |pair| if pair == 0 { 0x50 | row } else { 0x55 }));
    let trial = Trial::new("GatherBlockQuantized").version(1).int("block_size", 16);
    trial.input(&[3, 16], &rows.collect::<Vec<u8>>())
}

/// A row of 32 numbers in two halves, with another first number.
fn row(first: f32, halves: [f32; 2]) -> Vec<f32> {
    std::iter::once(first).chain((1..32).map(|at| halves[at / 16])).collect()
}

#[test]
fn rows_of_codes_are_dequantised_where_they_are_picked() {
    let scales = [1f32, 2.0, 10.0, 20.0, 100.0, 200.0];
    let of = |indices: &[i64]| nibbles().input(&[indices.len()], indices).input(&[3, 2], &scales);
    // Without zero points, a code stands for its difference from 8.
    of(&[2, -3]).gives(&[2, 32], &[row(-600.0, [-300.0, -600.0]), row(-8.0, [-3.0, -6.0])].concat());
    // One byte holds both zero points of a row.
    let zeros = of(&[1]).input(&[3, 1], &[0u8, 0x15, 0]);
    zeros.gives(&[1, 32], &row(-40.0, [0.0, 80.0]));
    // As in ONNX Runtime, an index outside picks zeros.
    for outside in [3, -4, i64::MIN, i64::MAX] {
        of(&[outside, 0]).gives(&[2, 32], &[vec![0.0; 32], row(-8.0, [-3.0, -6.0])].concat());
    }
    of(&[]).gives::<f32>(&[0, 32], &[]);
    let narrow = nibbles().input(&[], &[1i32]).input(&[3, 2], &scales.map(half::f16::from_f32));
    narrow.gives(&[32], &row(-70.0, [-30.0, -60.0]).into_iter().map(half::f16::from_f32).collect::<Vec<_>>());
}

#[test]
fn codes_of_two_and_eight_bits_are_stored_in_bytes_too() {
    let trial = |bits: i64| Trial::new("GatherBlockQuantized").version(1).int("bits", bits).int("block_size", 16);
    let crumbs = trial(2).input(&[2, 1, 4], &[0b11_10_01_00u8; 8]).input(&[1], &[1i64]).input(&[2, 1, 1], &[1f32, 2.0]);
    crumbs.int("quantize_axis", 2).gives(&[1, 1, 16], &[-4f32, -2.0, 0.0, 2.0].repeat(4));
    // The second block is shorter.
    let bytes = trial(8).input(&[1, 17], &(120..137).collect::<Vec<u8>>()).input(&[1], &[0i64]);
    let expected: Vec<f32> = (0..17).map(|at| (at - 8) as f32 * if at < 16 { 1.0 } else { 0.5 }).collect();
    bytes.input(&[1, 2], &[1f32, 0.5]).gives(&[1, 17], &expected);
}

#[test]
fn integers_of_four_bits_are_picked_along_any_axis() {
    let mut data = Tensor::zeros(TensorSpec::new(DType::I4, [16, 3])).unwrap();
    data.bytes_mut().iter_mut().enumerate().for_each(|(at, code)| *code = (at % 3) as u8);
    let trial = Trial::new("GatherBlockQuantized").version(1).int("block_size", 16).int("gather_axis", 1);
    let trial = trial.int("quantize_axis", 0).tensor(data).input(&[2], &[2i64, 0]);
    let trial = trial.input(&[1, 3], &[1f32, 10.0, 100.0]);
    trial.gives(&[16, 2], &[200f32, 0.0].repeat(16));
}

#[test]
fn tables_that_do_not_fit_their_scales_are_refused() {
    let of = |scales: &[usize]| nibbles().input(&[1], &[0i64]).input(scales, &vec![1f32; scales.iter().product()]);
    of(&[3, 1]).is_refused("expected [3, 2]");
    of(&[3, 2, 1]).is_refused("expected [3, 2]");
    of(&[3, 2]).input(&[3, 2], &[0u8; 6]).is_refused("zero points of");
    of(&[3, 2]).int("gather_axis", 1).is_refused("gather_axis = 1");
    of(&[3, 2]).int("quantize_axis", 0).is_refused("quantize_axis = 0");
    of(&[3, 2]).int("bits", 3).is_refused("bits = 3");
    of(&[3, 2]).int("block_size", 8).is_refused("block_size = 8");
    of(&[3, 2]).int("block_size", 0).is_refused("block_size = 0");
    nibbles().input(&[1], &[0.0f32]).input(&[3, 2], &[1f32; 6]).is_refused("indices of");
}
