//! Selections, by table.

use crate::trial::{Trial, bools, strings};

#[test]
fn non_zero_lists_coordinates_axis_by_axis() {
    let row = |values: &[f32; 4]| Trial::new("NonZero").input(&[2, 2], values);
    row(&[1.0, 0.0, 1.0, 1.0]).gives(&[2, 3], &[0i64, 1, 1, 0, 0, 1]);
    row(&[-0.0, 0.0, 0.0, f32::NAN]).gives(&[2, 1], &[1i64, 1]);
    row(&[0.0; 4]).gives::<i64>(&[2, 0], &[]);
    Trial::new("NonZero").input(&[3], &[i8::MIN, 0, 1]).gives(&[1, 2], &[0i64, 2]);
    Trial::new("NonZero").input(&[], &[5i32]).gives::<i64>(&[0, 1], &[]);
    Trial::new("NonZero").input(&[2], &bools([false, true])).gives(&[1, 1], &[1i64]);
}

#[test]
fn compress_keeps_what_the_condition_names() {
    let row = || Trial::new("Compress").input(&[3, 2], &[1i32, 2, 3, 4, 5, 6]);
    row().int("axis", 0).input(&[3], &bools([false, true, true])).gives(&[2, 2], &[3, 4, 5, 6]);
    row().int("axis", -1).input(&[2], &bools([false, true])).gives(&[3, 1], &[2, 4, 6]);
    row().input(&[5], &bools([false, true, false, false, true])).gives(&[2], &[2, 5]);
    row().int("axis", 1).input(&[1], &bools([false])).gives::<i32>(&[3, 0], &[]);
    row().int("axis", 1).input(&[3], &bools([false, true, true])).gives(&[3, 1], &[2, 4, 6]);
    let words = Trial::new("Compress").tensor(strings(&[2], &["a", "b"]));
    words.input(&[2], &bools([false, true])).gives_strings(&[1], &["b"]);
}

#[test]
fn unique_tells_values_places_kinds_and_counts() {
    let lists = |trial: Trial| -> Vec<Vec<i64>> {
        let outputs = trial.outputs(4).run().unwrap();
        outputs.iter().skip(1).map(|output| output.as_slice::<i64>().unwrap().to_vec()).collect()
    };
    let row = || Trial::new("Unique").input(&[6], &[2f32, 1.0, 1.0, 3.0, 4.0, 3.0]);
    row().gives(&[4], &[1f32, 2.0, 3.0, 4.0]);
    assert_eq!(lists(row()), [vec![1, 0, 3, 4], vec![1, 0, 0, 2, 3, 2], vec![2, 1, 2, 1]]);
    row().int("sorted", 0).gives(&[4], &[2f32, 1.0, 3.0, 4.0]);
    assert_eq!(lists(row().int("sorted", 0)), [vec![0, 1, 3, 4], vec![0, 1, 1, 2, 3, 2], vec![1, 2, 2, 1]]);
    let slices = || Trial::new("Unique").input(&[3, 2], &[1i8, 0, 0, 5, 1, 0]);
    slices().int("axis", 0).gives(&[2, 2], &[0i8, 5, 1, 0]);
    assert_eq!(lists(slices().int("axis", 0)), [vec![1, 0], vec![1, 0, 1], vec![1, 2]]);
    slices().int("axis", -1).gives(&[3, 2], &[0i8, 1, 5, 0, 0, 1]);
    slices().gives(&[3], &[0i8, 1, 5]);
    Trial::new("Unique").tensor(strings(&[3], &["b", "a", "b"])).gives_strings(&[2], &["a", "b"]);
    Trial::new("Unique").input(&[3], &[f32::NAN, 1.0, f32::NAN]).run().unwrap();
    Trial::new("Unique").input::<i64>(&[0], &[]).gives::<i64>(&[0], &[]);
    slices().int("axis", 2).is_refused("axis 2");
}
