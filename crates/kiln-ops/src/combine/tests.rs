//! The results of this group's operators, row by row; large tensors against plain loops.

use kiln_kernels::Serial;
use kiln_model::Attr;
use kiln_tensor::threads::Threads;

use super::*;
use crate::trial::{Trial, strings};

#[test]
fn concat_puts_parts_side_by_side() {
    Trial::new("Concat").int("axis", 0).input(&[2], &[1i64, 2]).input(&[1], &[3i64]).gives(&[3], &[1i64, 2, 3]);
    Trial::new("Concat")
        .int("axis", -1)
        .input(&[2, 1], &[1f32, 4.0])
        .input(&[2, 0], &[0f32; 0])
        .input(&[2, 2], &[2f32, 3.0, 5.0, 6.0])
        .gives(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    Trial::new("Concat")
        .int("axis", 0)
        .tensor(strings(&[1], &["a"]))
        .tensor(strings(&[2], &["b", "c"]))
        .gives_strings(&[3], &["a", "b", "c"]);
    Trial::new("Concat").int("axis", 1).input(&[2], &[1u8, 2]).is_refused("axis 1");
    Trial::new("Concat").int("axis", 0).input(&[1, 2], &[1u8, 2]).input(&[1, 3], &[1u8, 2, 3]).is_refused("join");
    Trial::new("Concat").int("axis", 0).input(&[1], &[1u8]).input(&[1], &[1i8]).is_refused("join");
    Trial::new("Concat").int("axis", 0).is_refused("no inputs");
}

#[test]
fn split_takes_them_apart() {
    let parts = Trial::new("Split").outputs(3).int("axis", 1).input(&[2, 3], &[1u8, 2, 3, 4, 5, 6]).run().unwrap();
    let columns: Vec<_> = parts.iter().map(|part| part.as_slice::<u8>().unwrap().to_vec()).collect();
    assert_eq!(columns, [[1, 4], [2, 5], [3, 6]]);
    let sizes = |trial: Trial| -> Vec<usize> { trial.run().unwrap().iter().map(|part| part.shape()[0]).collect() };
    let seven = || Trial::new("Split").outputs(4).input(&[7], &[0f32; 7]);
    assert_eq!(sizes(seven()), [2, 2, 2, 1]);
    assert_eq!(sizes(seven().int("num_outputs", 4)), [2, 2, 2, 1]);
    assert_eq!(sizes(Trial::new("Split").outputs(2).input(&[7], &[0f32; 7]).input(&[2], &[7i64, 0])), [7, 0]);
    assert_eq!(
        sizes(Trial::new("Split").version(11).ints("split", &[3, 4]).outputs(2).input(&[7], &[0f32; 7])),
        [3, 4]
    );
    seven().version(13).is_refused("equal parts");
    seven().int("num_outputs", 3).is_refused("num_outputs");
    Trial::new("Split").outputs(2).input(&[3], &[0f32; 3]).input(&[2], &[1i64, 1]).is_refused("does not split");
    Trial::new("Split").outputs(2).input(&[3], &[0f32; 3]).input(&[2], &[4i64, -1]).is_refused("-1");
}

#[test]
fn what_a_split_cuts_along_the_first_axis_stays_where_it_is() {
    let split = |shape: &[usize], axis: i64| {
        let input = Tensor::from_vec(shape.iter().copied(), (0..24).map(|i| i as f32).collect()).unwrap();
        let parts = Trial::new("Split").outputs(3).int("axis", axis).tensor(input.clone()).run().unwrap();
        let start = input.bytes().as_ptr() as usize;
        let places = parts.iter().map(|part| (part.bytes().as_ptr() as usize).wrapping_sub(start)).collect::<Vec<_>>();
        (input, parts, places)
    };
    for (shape, axis) in [([6, 4], 0), ([1, 24], 1), ([24, 1], 0)] {
        let (input, mut parts, places) = split(&shape, axis);
        assert_eq!(places, [0, 32, 64], "{shape:?}");
        assert!(parts[0].shares_bytes(&input) && !parts[1].shares_bytes(&input));
        // Writing to a part does not write to the whole.
        parts[1].as_mut_slice::<f32>().unwrap().fill(-1.0);
        assert!(input.as_slice::<f32>().unwrap().iter().all(|&value| value >= 0.0));
        assert_eq!(parts[2].as_slice::<f32>().unwrap()[0], 16.0);
        // The last holder may write in place.
        let (mut last, place) = (parts.pop().unwrap(), places[2]);
        let start = input.bytes().as_ptr() as usize;
        drop((input, parts));
        assert!(last.is_sole());
        assert_eq!(last.bytes_mut().as_ptr() as usize - start, place);
    }
    let (_, parts, places) = split(&[2, 12], 1);
    assert!(places.iter().all(|&place| place >= 96), "of two rows they are copies");
    assert_eq!(parts[1].as_slice::<f32>().unwrap(), [4.0, 5.0, 6.0, 7.0, 16.0, 17.0, 18.0, 19.0]);
    let strings = Trial::new("Split").outputs(2).tensor(strings(&[2], &["a", "b"])).run().unwrap();
    assert_eq!(strings[1].as_strings().unwrap(), ["b"]);
}

#[test]
fn tile_and_expand_repeat() {
    let two = || Trial::new("Tile").input(&[1, 2], &[1f32, 2.0]);
    two().input(&[2], &[2i64, 2]).gives(&[2, 4], &[1f32, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    two().input(&[2], &[0i64, 2]).gives(&[0, 4], &[0f32; 0]);
    two().input(&[2], &[1i64, 1]).gives(&[1, 2], &[1f32, 2.0]);
    two().input(&[1], &[1i64]).is_refused("repeats");
    two().input(&[2], &[i64::MAX, 4]).is_refused("");
    let column = || Trial::new("Expand").input(&[2, 1], &[1i32, 2]);
    column().input(&[3], &[2i64, 1, 2]).gives(&[2, 2, 2], &[1, 1, 2, 2, 1, 1, 2, 2]);
    column().input(&[1], &[3i64]).gives(&[2, 3], &[1, 1, 1, 2, 2, 2]);
    column().input(&[1], &[1i64]).gives(&[2, 1], &[1, 2]);
    column().input(&[2], &[3i64, 1]).is_refused("broadcast");
    Trial::new("Expand").tensor(strings(&[1], &["x"])).input(&[1], &[2i64]).gives_strings(&[2], &["x", "x"]);
}

/// Along the last axis of `[3]`, one before and two after.
fn padded(mode: &str) -> Trial {
    Trial::new("Pad").text("mode", mode).input(&[3], &[1f32, 2.0, 3.0]).input(&[2], &[4i64, 5])
}

#[test]
fn borders_follow_the_mode() {
    padded("constant").gives(&[12], &[0f32, 0., 0., 0., 1., 2., 3., 0., 0., 0., 0., 0.]);
    padded("constant").input(&[], &[9f32]).gives(&[12], &[9f32, 9., 9., 9., 1., 2., 3., 9., 9., 9., 9., 9.]);
    padded("edge").gives(&[12], &[1f32, 1., 1., 1., 1., 2., 3., 3., 3., 3., 3., 3.]);
    padded("reflect").gives(&[12], &[1f32, 2., 3., 2., 1., 2., 3., 2., 1., 2., 3., 2.]);
    padded("wrap").gives(&[12], &[3f32, 1., 2., 3., 1., 2., 3., 1., 2., 3., 1., 2.]);
    padded("mirror").is_refused("mirror");
    padded("constant").input(&[], &[9i64]).is_refused("constant");
}

#[test]
fn pads_reach_any_axes_and_cut_where_negative() {
    let square = || Trial::new("Pad").input(&[2, 2], &[1i64, 2, 3, 4]);
    square().input(&[4], &[1i64, 0, 0, 1]).gives(&[3, 3], &[0i64, 0, 0, 1, 2, 0, 3, 4, 0]);
    square().input(&[4], &[0i64, -1, 0, 0]).gives(&[2, 1], &[2i64, 4]);
    square().input(&[4], &[-1i64, 0, 1, 0]).gives(&[2, 2], &[3i64, 4, 0, 0]);
    let on_rows = square().input(&[2], &[1i64, 0]).absent().input(&[1], &[-2i64]);
    on_rows.gives(&[3, 2], &[0i64, 0, 1, 2, 3, 4]);
    square().input(&[4], &[0i64; 4]).gives(&[2, 2], &[1i64, 2, 3, 4]);
    square().input(&[4], &[-3i64, 0, 0, 0]).is_refused("leave nothing");
    square().input(&[3], &[0i64; 3]).is_refused("amounts");
    square().input(&[4], &[i64::MAX, 0, i64::MAX, 0]).is_refused("");
    let old = Trial::new("Pad").version(2).ints("pads", &[1, 0]).attr("value", Attr::Float(0.5));
    old.input(&[1], &[2f32]).gives(&[2], &[0.5f32, 2.0]);
    Trial::new("Pad").version(2).is_refused("pads");
    let empty = Trial::new("Pad").text("mode", "edge").input(&[0], &[0f32; 0]).input(&[2], &[1i64, 1]);
    empty.is_refused("nothing to repeat");
    Trial::new("Pad").input(&[0], &[0f32; 0]).input(&[2], &[1i64, 1]).gives(&[2], &[0f32, 0.0]);
    let words = Trial::new("Pad").tensor(strings(&[1], &["a"])).input(&[2], &[0i64, 1]);
    words.gives_strings(&[2], &["a", ""]);
}

#[test]
fn large_tensors_move_the_same_on_several_threads() {
    let threads = Threads::new(3).unwrap();
    let (rows, left, right) = (301, 1000, 777);
    let from: [Vec<u32>; 2] = [(0..rows * left).collect(), (0..rows * right).map(|i| !i).collect()];
    let (left, right) = (left as usize, right as usize);
    let row = |row: usize| [&from[0][row * left..][..left], &from[1][row * right..][..right]].concat();
    let want: Vec<u32> = (0..rows as usize).flat_map(row).collect();
    for parallel in [&Serial as &dyn Parallel, &threads] {
        let joined = Joined { runs: vec![left, right], parallel };
        let mut to = vec![0; want.len()];
        joined.run(&[&from[0], &from[1]], &mut to).unwrap();
        assert!(to == want, "joined");
        let part = Part { start: left, run: right, stride: left + right, width: 4, parallel };
        let mut back = vec![0; from[1].len()];
        part.run(&[&want], &mut back).unwrap();
        assert!(back == from[1], "taken apart");
    }
}
