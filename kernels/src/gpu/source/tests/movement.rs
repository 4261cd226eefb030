//! Copies, fills and transpositions against plain loops.

use super::super::testing::{bytes, run};
use super::*;
use crate::gpu::emulated::{Emulated, Script};
use crate::gpu::{Arena, Device};
use crate::reference;

const fn steps(start: i64, strides: &[i64]) -> Strided<'_> {
    Strided::new(start, strides)
}

/// The copy that the arguments describe, one element at a time, over bytes that were never written.
fn plainly(width: usize, counts: &[u64], from: Strided<'_>, to: Strided<'_>, input: &[u8], output: &mut [u8]) {
    for index in 0..counts.iter().product() {
        let (mut rest, mut ends) = (index, [from.start, to.start]);
        for (axis, &count) in counts.iter().enumerate().rev() {
            let place = (rest % count) as i64;
            rest /= count;
            ends[0] += place * from.strides[axis];
            ends[1] += place * to.strides[axis];
        }
        let [from, to] = ends.map(|end| end as usize * width);
        output[to..to + width].copy_from_slice(&input[from..from + width]);
    }
}

#[test]
fn copies_follow_their_strides() {
    let cases: &[(&[u64], Strided<'_>, Strided<'_>)] = &[
        // One element, and none.
        (&[], steps(3, &[]), steps(0, &[])),
        (&[4, 0, 2], steps(0, &[8, 2, 1]), steps(0, &[8, 2, 1])),
        // All of it; with a tail.
        (&[3, 5, 7], steps(0, &[35, 7, 1]), steps(0, &[35, 7, 1])),
        (&[64, 64], steps(0, &[64, 1]), steps(0, &[64, 1])),
        // A slice, by steps, backwards.
        (&[3, 5], steps(2, &[14, 1]), steps(0, &[5, 1])),
        (&[3, 4], steps(1, &[20, 3]), steps(0, &[4, 1])),
        (&[6, 7], steps(41, &[-7, -1]), steps(0, &[7, 1])),
        // A part of a concatenation, at a place that is no multiple of four elements and at one that is.
        (&[5, 3], steps(0, &[3, 1]), steps(7, &[11, 1])),
        (&[5, 8], steps(0, &[8, 1]), steps(16, &[32, 1])),
        // Repetition, of rows and of elements.
        (&[7, 6], steps(0, &[0, 1]), steps(0, &[6, 1])),
        (&[7, 6], steps(0, &[1, 0]), steps(0, &[6, 1])),
        (&[2, 3, 2, 3, 2], steps(1, &[100, 30, 9, 3, 1]), steps(2, &[90, 29, 9, 3, 1])),
    ];
    for &(counts, from, to) in cases {
        for width in [1usize, 2, 4, 8] {
            let kernel = CopyKernel::new(width as u8, counts, from, to).unwrap();
            let extent = |Strided { start, strides }: Strided<'_>| {
                let steps = counts.iter().zip(strides).map(|(&count, &stride)| (count as i64 - 1) * stride.max(0));
                if counts.contains(&0) { 0 } else { (start + steps.sum::<i64>() + 1) as usize * width }
            };
            let input = bytes(extent(from));
            let mut wanted = vec![0xff; extent(to)];
            plainly(width, counts, from, to, &input, &mut wanted);
            let given = run(&kernel, &[Some(&input)], wanted.len()).unwrap();
            assert_eq!(given, wanted, "{counts:?} {from:?} {to:?} of {width} bytes");
        }
    }
}

#[test]
fn neighbours_that_move_together_are_moved_at_once() {
    let width =
        |counts: &[u64], from: Strided<'_>, to: Strided<'_>| match CopyKernel::new(4, counts, from, to).unwrap().code()
        {
            KernelCode::Copy(code) => code.width,
            other => panic!("{other:?}"),
        };
    assert_eq!(width(&[5, 8], steps(0, &[8, 1]), steps(16, &[32, 1])), 16);
    assert_eq!(width(&[5, 6], steps(0, &[6, 1]), steps(16, &[32, 1])), 8);
    assert_eq!(width(&[5, 8], steps(1, &[16, 1]), steps(0, &[8, 1])), 4);
    assert_eq!(width(&[5, 8], steps(0, &[16, 2]), steps(0, &[8, 1])), 4);
}

#[test]
fn places_beyond_31_bits_are_reached() {
    let mut script = Script::default();
    script.facts.memory_bytes = 1 << 33;
    let device = Emulated::open(script);
    let arena = Arena::new(device.clone(), 1 << 33);
    // The emulated device backs only the part of this memory that is written.
    let far = arena.take((1 << 32) + 8).unwrap();
    let [near, back, picked] = [(); 3].map(|()| arena.take(4).unwrap());
    device.upload(&[7, 8, 9, 10], &near).unwrap();
    let launch = |kernel: &dyn Kernel, inputs: &[Option<&Region>], output: &Region| {
        kernel.launch(&*device.compile(&kernel.code().source().unwrap()).unwrap(), inputs, output).unwrap();
    };
    let far_apart = steps(5, &[1 << 30]);
    launch(&CopyKernel::new(1, &[4], steps(0, &[1]), far_apart).unwrap(), &[Some(&near)], &far);
    launch(&CopyKernel::new(1, &[4], far_apart, steps(0, &[1])).unwrap(), &[Some(&far)], &back);
    let indices = arena.take(16).unwrap();
    device.upload(bytemuck::cast_slice(&[5 + (3i64 << 30), 5 + (2 << 30) - far.bytes() as i64]), &indices).unwrap();
    let fault = arena.take(4).unwrap();
    device.upload(&[0; 4], &fault).unwrap();
    let gather = GatherKernel::new(1, 1, far.bytes(), 1, 2, 8).unwrap();
    launch(&gather, &[Some(&far), Some(&indices), Some(&fault)], &picked);
    let read = |region: &Region| {
        let mut bytes = [0; 4];
        device.download(region, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(read(&back), [7, 8, 9, 10]);
    assert_eq!((read(&picked)[..2].to_vec(), read(&fault)), (vec![10, 9], [0; 4]));
}

#[test]
fn more_elements_than_a_launch_has_threads_are_moved_in_rounds() {
    let count = BLOCKS * u64::from(THREADS) / 64 + 3;
    // A few blocks stand for all: a kernel works the same way for every grid.
    let kernel = CopyKernel::new(1, &[count], steps(0, &[1]), steps(0, &[1])).unwrap();
    let input = bytes(count as usize);
    assert_eq!(run(&kernel, &[Some(&input)], input.len()).unwrap(), input);
}

#[test]
fn fills_write_every_element_and_nothing_else() {
    for value in [&[7u8][..], &[1, 2], &1.5f32.to_ne_bytes(), &(-3i64).to_ne_bytes()] {
        for count in [0, 1, 3, 7, 8, 1021] {
            let kernel = FillKernel::new(value, count as u64).unwrap();
            assert_eq!(run(&kernel, &[], value.len() * count).unwrap(), value.repeat(count), "{count} of {value:?}");
        }
    }
    assert!(FillKernel::new(&[1, 2, 3], 4).is_err());
}

#[test]
fn transpositions_are_those_of_the_reference() {
    let cases: &[(&[u64], &[u32])] = &[
        (&[], &[]),
        (&[5], &[0]),
        (&[3, 0, 2], &[2, 0, 1]),
        (&[1, 1], &[1, 0]),
        (&[2, 3], &[1, 0]),
        (&[31, 33], &[1, 0]),
        (&[64, 32], &[1, 0]),
        (&[101, 8], &[1, 0]),
        (&[3, 40, 50], &[0, 2, 1]),
        (&[3, 40, 50], &[1, 0, 2]),
        (&[40, 3, 50], &[2, 1, 0]),
        (&[2, 17, 3, 5, 9], &[0, 3, 2, 4, 1]),
        (&[2, 56, 3, 40], &[0, 3, 1, 2]),
        (&[1, 9, 1, 11], &[2, 3, 0, 1]),
    ];
    for &(shape, perm) in cases {
        let elements = shape.iter().product::<u64>() as usize;
        for width in [1usize, 2, 4, 8] {
            let input = bytes(elements * width);
            let transposed: Vec<Vec<u8>> = input.chunks_exact(width).map(<[u8]>::to_vec).collect();
            let mut wanted = transposed.clone();
            let sizes: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
            let order: Vec<usize> = perm.iter().map(|&axis| axis as usize).collect();
            reference::transpose::transpose(&transposed, &sizes, &order, &mut wanted);
            let kernel = TransposeKernel::new(width as u8, shape, perm).unwrap();
            let given = run(&kernel, &[Some(&input)], input.len()).unwrap();
            assert_eq!(given, wanted.concat(), "{shape:?} by {perm:?}, {width} bytes: {:?}", kernel.code());
        }
    }
}

#[test]
fn the_way_of_a_transposition_is_that_of_its_innermost_axis() {
    let way = |shape: &[u64], perm: &[u32]| TransposeKernel::new(4, shape, perm).unwrap().code().family();
    assert_eq!(way(&[64, 32], &[1, 0]), "device transpose");
    assert_eq!(way(&[3, 40, 50], &[1, 0, 2]), "device copy");
    // Three channels would leave most of a square empty.
    assert_eq!(way(&[3, 4000], &[1, 0]), "device copy");
    assert_eq!(way(&[2, 56, 1, 40], &[2, 0, 1, 3]), "device copy");
    for perm in [&[0, 0][..], &[1, 2], &[0], &[0, 1, 2]] {
        assert!(TransposeKernel::new(4, &[2, 3], perm).is_err(), "{perm:?}");
    }
}
