//! The gathers, by table: forms, negative indices, strings, and what is refused.

use crate::ops::trial::{Trial, strings};
use crate::tensor::{Expansion, Tensor};

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
    // Long rows, and more of them than one task takes.
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
