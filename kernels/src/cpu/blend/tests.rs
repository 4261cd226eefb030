//! Sums at every level and by both methods against the definition, to the bit, with canaries around the output and NaN
//! around the input.

use super::*;
use crate::cpu::EmitEach;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};

fn blend([images, channels, area, places, taps]: [u64; 5]) -> Blend {
    Blend { images, channels, area, places, taps }
}

/// Numbers whose products are rounded.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5).collect()
}

/// The element that a place reads, one in five outside, and its weight.
fn tap(form: Blend, image: usize, place: usize, tap: usize) -> (Option<usize>, f32) {
    let number = (image * form.places() + place) * form.taps() + tap;
    let element = (!number.is_multiple_of(5)).then_some(number * 7919 % form.area());
    (element, (number * 31 % 17) as f32 / 17.0 - 0.3)
}

/// The definition, element by element.
fn wanted(form: Blend, values: &[f32]) -> Vec<f32> {
    let mut output = Vec::new();
    for plane in 0..form.images() * form.channels() {
        let elements = &values[plane * form.area()..][..form.area()];
        for place in 0..form.places() {
            let mut sum = 0.0f32;
            for number in 0..form.taps() {
                let (element, weight) = tap(form, plane / form.channels(), place, number);
                sum += element.map_or(0.0, |element| elements[element]) * weight;
            }
            output.push(sum);
        }
    }
    output
}

fn look(form: Blend, image: usize, places: Range<usize>, read: &mut Taps<'_>) {
    for (at, place) in places.enumerate() {
        for number in 0..form.taps() {
            let (element, weight) = tap(form, image, place, number);
            read.set(at, number, element, weight);
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn check(form: Blend, isa: Isa, method: Method, tasks: usize) {
    let [count, results] = form.elements().unwrap();
    let input = values(count, 1);
    let blender = Blender::new(form, isa, method, tasks, &EmitEach).unwrap();
    let (mut scratch, mut output) = (Canaried::new(blender.scratch()), Canaried::new(results));
    let look = |image, places, read: &mut Taps<'_>| look(form, image, places, read);
    blender.run(Poisoned::new(&input).inside(), &look, scratch.inside(), output.inside(), &Scoped).unwrap();
    assert_eq!(bits(&output.open()), bits(&wanted(form, &input)), "{form:?} at {isa} by {method:?}");
    scratch.open();
}

fn methods(isa: Isa) -> impl Iterator<Item = Method> {
    [Method::Planes, Method::Rows].into_iter().filter(move |method| method.fits(isa))
}

#[test]
fn both_methods_give_the_same_bits_for_any_number_of_channels() {
    for isa in levels() {
        for method in methods(isa) {
            for channels in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 130] {
                for (images, area, places, taps) in [(1, 12, 5, 4), (2, 30, 9, 1), (3, 7, 20, 2), (1, 9, 3, 16)] {
                    let form = blend([images, channels, area, places, taps]);
                    check(form, isa, method, 1 + channels as usize % 4);
                }
            }
            check(blend([2, 3, 5, 4, 3]), isa, method, 2);
            check(blend([1, 2, 50, KEPT as u64 / 8 + 3, 8]), isa, method, 1);
        }
    }
}

#[test]
fn an_element_outside_is_zero_whatever_the_image_holds() {
    for isa in levels() {
        for method in methods(isa) {
            let form = blend([2, 3, 2, 1, 2]);
            let blender = Blender::new(form, isa, method, 1, &EmitEach).unwrap();
            let (mut scratch, mut output) = (vec![f32::NAN; blender.scratch()], vec![f32::NAN; 6]);
            let look = |_, _, read: &mut Taps<'_>| {
                read.set(0, 1, None, 1.0);
            };
            blender.run(&[f32::NAN; 12], &look, &mut scratch, &mut output, &Scoped).unwrap();
            assert_eq!(output, [0.0; 6], "{isa} by {method:?}");
        }
    }
}

#[test]
fn many_channels_and_near_places_are_summed_by_rows() {
    let picked = |sizes| Method::pick(&blend(sizes), Isa::Avx2);
    assert_eq!(picked([1, 64, 4096, 4096, 4]), Method::Rows);
    assert_eq!(picked([1, 3, 65_536, 65_536, 4]), Method::Rows);
    // One channel is a plane already, and few places read a small part of a large image.
    assert_eq!(picked([1, 1, 4096, 4096, 4]), Method::Planes);
    assert_eq!(picked([1, 64, 1 << 20, 100, 4]), Method::Planes);
    assert_eq!(Method::pick(&blend([1, 64, 4096, 4096, 4]), Isa::Portable), Method::Planes);
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_done_of_nothing() {
    for isa in levels() {
        for method in methods(isa) {
            let form = blend([2, 3, 4, 5, 1]);
            let blender = Blender::new(form, isa, method, 1, &EmitEach).unwrap();
            let all = blender.scratch();
            let run = |input: usize, output: usize, scratch: usize| {
                let look = |image, places, read: &mut Taps<'_>| look(form, image, places, read);
                let (mut scratch, mut output) = (vec![0.0; scratch], vec![0.0; output]);
                match blender.run(&vec![1.0; input], &look, &mut scratch, &mut output, &Scoped) {
                    Ok(()) => "",
                    Err(KernelError::Bounds { operand, .. }) => operand,
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(run(24, 30, all), "");
            assert_eq!(run(23, 30, all), "values");
            assert_eq!(run(24, 29, all), "output");
            if let Some(less) = all.checked_sub(1) {
                assert_eq!(run(24, 30, less), "scratch");
            }
            for sizes in [[0, 3, 4, 5, 1], [2, 0, 4, 5, 1], [2, 3, 4, 0, 1]] {
                let empty = Blender::new(blend(sizes), isa, method, 1, &EmitEach).unwrap();
                let look = |_, _, _: &mut Taps<'_>| panic!("nothing is looked up");
                empty.run(&[0.0; 24], &look, &mut vec![0.0; empty.scratch()], &mut [], &Scoped).unwrap();
            }
            for sizes in [[u64::MAX, 2, 1, 1, 1], [1, 2, 1, u64::MAX, 1], [1, 1, 1, 1, 0], [1, 1, 1, 1, MOST_TAPS + 1]]
            {
                let refused = Blender::new(blend(sizes), isa, method, 1, &EmitEach);
                assert!(matches!(refused, Err(KernelError::Unsupported { .. })), "{sizes:?}");
            }
        }
    }
    let by_rows = Blender::new(blend([1, 1, 1, 1, 1]), Isa::Portable, Method::Rows, 1, &EmitEach);
    assert!(matches!(by_rows, Err(KernelError::Unsupported { .. })));
}

#[test]
#[should_panic(expected = "an element outside of all images")]
fn an_element_that_no_image_has_is_found() {
    let isa = levels().into_iter().find(|isa| Method::Rows.fits(*isa)).unwrap();
    let blender = Blender::new(blend([1, 1, 1, 1, 1]), isa, Method::Rows, 1, &EmitEach).unwrap();
    let look = |_, _, read: &mut Taps<'_>| read.set(0, 0, Some(2), 1.0);
    let (mut scratch, mut output) = (vec![0.0; blender.scratch()], [0.0]);
    blender.run(&[1.0], &look, &mut scratch, &mut output, &crate::parallel::Serial).unwrap();
}
