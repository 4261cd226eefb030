//! The scatters, by table: forms, reductions, strings, and refusals.

use crate::trial::{Trial, strings};

fn elements(axis: i64) -> Trial {
    Trial::new("ScatterElements").int("axis", axis)
}

#[test]
fn scatter_elements_writes_one_element_an_index() {
    let row = |axis| elements(axis).input(&[2, 3], &[0i8; 6]);
    row(0).input(&[1, 3], &[1i64, 0, -1]).input(&[1, 3], &[1i8, 2, 3]).gives(&[2, 3], &[0i8, 2, 0, 1, 0, 3]);
    row(1).input(&[2, 1], &[2i64, 0]).input(&[2, 1], &[1i8, 2]).gives(&[2, 3], &[0i8, 0, 1, 2, 0, 0]);
    let words = elements(0).tensor(strings(&[2], &["a", "b"])).input(&[1], &[1i64]);
    words.tensor(strings(&[1], &["z"])).gives_strings(&[2], &["a", "z"]);
    row(0).input::<i64>(&[0, 3], &[]).input::<i8>(&[0, 3], &[]).gives(&[2, 3], &[0i8; 6]);
}

#[test]
fn rows_of_one_index_are_written_as_rows() {
    // Along the first and the middle axis: the last update of a row stays, negative indices count from the end.
    let data: Vec<f32> = (0..24u8).map(f32::from).collect();
    let updates: Vec<f32> = (100..118u8).map(f32::from).collect();
    for (axis, shape, rows) in [(0, [3, 2, 3], vec![2, -4, 2]), (1, [4, 1, 3], vec![1, 0, -1, -2])] {
        let indices: Vec<i64> = rows.iter().flat_map(|&row| vec![row; shape[1..].iter().product()]).collect();
        let updates = &updates[..indices.len()];
        let scatter = |indices: &[i64]| {
            let trial = elements(axis).input(&[4, 2, 3], &data).input(&shape, indices).input(&shape, updates);
            trial.run().unwrap().remove(0)
        };
        let mut want = data.clone();
        let inner = indices.len() / rows.len();
        for (row, (&index, update)) in rows.iter().zip(updates.chunks_exact(inner)).enumerate() {
            let size = [4, 2][axis as usize];
            let block = if axis == 0 { 0 } else { row };
            let at = (block * size + index.rem_euclid(size as i64) as usize) * inner;
            want[at..at + inner].copy_from_slice(update);
        }
        assert_eq!(scatter(&indices).as_slice::<f32>().unwrap(), want, "axis {axis}");
        // The same elements one by one: another index in the last row, which is put back by hand.
        let mut other = indices.clone();
        let last = other.len() - 1;
        other[last] = (other[last] + 1).rem_euclid([4, 2][axis as usize]);
        assert!(!scatter(&other).same(&scatter(&indices)), "axis {axis}");
        other[0] = 9;
        let outside = elements(axis).input(&[4, 2, 3], &data).input(&shape, &other).input(&shape, updates);
        outside.is_refused("9");
        let outside = elements(axis).input(&[4, 2, 3], &data).input(&shape, &vec![9i64; indices.len()]);
        outside.input(&shape, updates).is_refused("9");
    }
}

#[test]
fn updates_of_one_element_combine() {
    let row = |reduction| {
        let trial = elements(0).text("reduction", reduction).input(&[2], &[3i32, 5]);
        trial.input(&[3], &[1i64, 1, 0]).input(&[3], &[2i32, 4, 9])
    };
    row("none").gives(&[2], &[9, 4]);
    row("add").gives(&[2], &[12, 11]);
    row("mul").gives(&[2], &[27, 40]);
    row("max").gives(&[2], &[9, 5]);
    row("min").gives(&[2], &[3, 2]);
    row("median").is_refused("reduction");
    let words = |reduction| {
        let trial = elements(0).text("reduction", reduction).tensor(strings(&[2], &["b", "c"]));
        trial.input(&[3], &[1i64, 1, 0]).tensor(strings(&[3], &["a", "d", "a"]))
    };
    words("add").gives_strings(&[2], &["ba", "cad"]);
    words("max").gives_strings(&[2], &["b", "d"]);
    words("min").gives_strings(&[2], &["a", "a"]);
    words("mul").is_refused("products of strings");
    let parts = Trial::new("ScatterND").text("reduction", "add").tensor(strings(&[2, 1], &["a", "b"]));
    parts.input(&[1, 1], &[1i64]).tensor(strings(&[1, 1], &["c"])).gives_strings(&[2, 1], &["a", "bc"]);
}

#[test]
fn lines_are_combined_on_every_thread_as_one_by_one() {
    let value = |at: usize| ((at * 7919) % 10_007) as f32 / 3000.0 - 1.5;
    for (axis, [blocks, size, inner]) in [(1, [3usize, 50, 40]), (0, [1, 50, 120]), (1, [120, 50, 1])] {
        let (count, lines) = (300, blocks * inner);
        let data: Vec<f32> = (0..size * lines).map(value).collect();
        let updates: Vec<f32> = (0..count * lines).map(|at| value(at + 17)).collect();
        // Every other row of indices is one index throughout.
        let row = |at: usize| at / inner % count;
        let index = |at: usize| (row(at) * 37 + if row(at) % 2 == 0 { 0 } else { at % inner }) % size;
        let indices: Vec<i64> = (0..updates.len()).map(|at| index(at) as i64 - (at % 2 * size) as i64).collect();
        let mut sums: Vec<f64> = data.iter().copied().map(f64::from).collect();
        for (at, update) in updates.iter().enumerate() {
            sums[(at / (count * inner) * size + index(at)) * inner + at % inner] += f64::from(*update);
        }
        let want: Vec<f32> = sums.iter().map(|&sum| sum as f32).collect();
        let shape = |along: usize| if axis == 0 { vec![along, inner] } else { vec![blocks, along, inner] };
        let trial = elements(axis).text("reduction", "add").input(&shape(size), &data);
        let trial = trial.input(&shape(count), &indices).input(&shape(count), &updates);
        trial.gives(&shape(size), &want);
        trial.threads(3).gives(&shape(size), &want);
    }
    let outside = elements(0).text("reduction", "add").input(&[2, 2], &[0f32; 4]).input(&[1, 2], &[1i64, 2]);
    outside.input(&[1, 2], &[0f32; 2]).is_refused("outside of 0..2");
    let nowhere = elements(1).text("reduction", "add").input::<f32>(&[2, 0], &[]).input(&[2, 1], &[0i64; 2]);
    nowhere.input(&[2, 1], &[0f32; 2]).is_refused("outside of 0..0");
}

#[test]
fn the_input_of_others_is_left_alone() {
    let data = kiln_tensor::Tensor::from_slice([2], &[1f32, 2.0]).unwrap();
    let trial = elements(0).tensor(data.clone()).input(&[1], &[0i64]).input(&[1], &[7f32]);
    trial.gives(&[2], &[7f32, 2.0]);
    assert_eq!(data.as_slice::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn scatter_nd_writes_parts() {
    let row = || Trial::new("ScatterND").input(&[3, 2], &[0i32; 6]);
    row().input(&[2, 1], &[2i64, 0]).input(&[2, 2], &[1, 2, 3, 4]).gives(&[3, 2], &[3, 4, 0, 0, 1, 2]);
    row().input(&[2, 2], &[2i64, 0, 0, -1]).input(&[2], &[1, 2]).gives(&[3, 2], &[0, 2, 0, 0, 1, 0]);
    row()
        .text("reduction", "add")
        .input(&[2, 1], &[1i64, 1])
        .input(&[2, 2], &[1, 2, 3, 4])
        .gives(&[3, 2], &[0, 0, 4, 6, 0, 0]);
    row().input(&[1, 1], &[3i64]).input(&[1, 2], &[1, 2]).is_refused("outside of 0..3");
    row().input(&[1, 3], &[0i64; 3]).input(&[1], &[1]).is_refused("do not fit");
    row().input(&[1, 1], &[0i64]).input(&[2], &[1, 2]).is_refused("do not fit");
    row().input(&[1, 0], &[0i64; 0]).input(&[1, 3, 2], &[0; 6]).is_refused("do not fit");
}

#[test]
fn caches_are_written_at_each_batchs_own_place() {
    let row = |mode| Trial::new("TensorScatter").text("mode", mode).input(&[2, 3, 1], &[0u8; 6]);
    row("linear").input(&[2, 1, 1], &[7u8, 8]).input(&[2], &[1i64, 2]).gives(&[2, 3, 1], &[0u8, 7, 0, 0, 0, 8]);
    row("linear").input(&[2, 2, 1], &[1u8, 2, 3, 4]).gives(&[2, 3, 1], &[1u8, 2, 0, 3, 4, 0]);
    row("circular").input(&[2, 2, 1], &[1u8, 2, 3, 4]).input(&[2], &[2i64, 1]).gives(&[2, 3, 1], &[2u8, 0, 1, 0, 3, 4]);
    row("linear").input(&[2, 2, 1], &[1u8, 2, 3, 4]).input(&[2], &[2i64, 1]).is_refused("do not fit");
    row("linear").input(&[2, 1, 1], &[1u8, 2]).input(&[2], &[-1i64, 0]).is_refused("outside");
    row("linear").input(&[2, 4, 1], &[0u8; 8]).is_refused("does not fit");
    row("linear").input(&[2, 1, 1], &[1u8, 2]).input(&[1], &[0i64]).is_refused("1 write indices");
}

#[test]
fn what_does_not_fit_is_refused() {
    elements(0).input(&[2], &[1f32, 2.0]).input(&[1], &[2i64]).input(&[1], &[1f32]).is_refused("outside of 0..2");
    elements(0).input(&[2], &[1f32, 2.0]).input(&[1], &[0i64]).input(&[2], &[1f32; 2]).is_refused("do not fit");
    elements(0).input(&[2], &[1f32, 2.0]).input(&[1], &[0i64]).input(&[1], &[1f64]).is_refused("float64");
    elements(1).input(&[2], &[1f32, 2.0]).input(&[1], &[0i64]).input(&[1], &[1f32]).is_refused("axis 1");
}

#[test]
fn blocks_of_f32_are_rounded_once_however_many_updates_they_get() {
    let (rows, width) = (9, 5);
    let number = |at: usize, seed: usize| ((at * 7919 + seed * 31) % 1009) as f32 / 311.0 - 1.5;
    let data: Vec<f32> = (0..rows * width).map(|at| number(at, 1)).collect();
    // One row gets no update, some get one, one gets five.
    let indices = [3i64, 8, 3, -6, 0, 3, 5, 3, 1];
    let mut updates: Vec<f32> = (0..indices.len() * width).map(|at| number(at, 2)).collect();
    updates[width + 1] = f32::NAN;
    let table: [(&str, fn(f64, f64) -> f64); 4] = [
        ("add", |a, b| a + b),
        ("mul", |a, b| a * b),
        ("max", |a, b| if b.is_nan() || b > a { b } else { a }),
        ("min", |a, b| if b.is_nan() || b < a { b } else { a }),
    ];
    for (reduction, combine) in table {
        let mut wide: Vec<f64> = data.iter().map(|&value| f64::from(value)).collect();
        for (&index, update) in indices.iter().zip(updates.chunks_exact(width)) {
            let row = &mut wide[index.rem_euclid(rows as i64) as usize * width..][..width];
            row.iter_mut().zip(update).for_each(|(value, &update)| *value = combine(*value, update.into()));
        }
        let parts = Trial::new("ScatterND").text("reduction", reduction).input(&[rows, width], &data);
        let parts = parts.input(&[indices.len(), 1], &indices).input(&[indices.len(), width], &updates);
        let found = parts.run().unwrap().remove(0);
        for (found, wide) in found.as_slice::<f32>().unwrap().iter().zip(wide) {
            assert!(*found == wide as f32 || found.is_nan() && wide.is_nan(), "{reduction}: {found} for {wide}");
        }
    }
}
