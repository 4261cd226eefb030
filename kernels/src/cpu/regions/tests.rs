//! Bins of both methods beside the definition; operands that do not fit.

use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped};
use crate::reference;

/// Regions that reach beyond the image on each side, one without elements and one without samples.
fn drawn(form: &Regions) -> Vec<Region> {
    let edges = [[-3.0, -4.0, 6.0, 3.0], [1.5, 2.25, 9.0, 20.0], [4.0, 4.0, 4.0, 4.0], [-9.0, -9.0, -5.0, -5.0]];
    let extent = |from: f64, to: f64, bins: u64| {
        let bin = (to - from) / bins as f64;
        Extent { start: from, bin, samples: if form.samples > 0 { form.samples as f64 } else { bin.ceil() } }
    };
    let region = |at: usize| {
        let [y, x, height, width] = edges[at % 4].map(|edge| edge + at as f64 / 16.0);
        let [rows, columns] = [extent(y, height, form.bins[0]), extent(x, width, form.bins[1])];
        Region { image: at % form.images(), rows, columns }
    };
    (0..form.regions()).map(region).collect()
}

fn form(channels: u64, samples: u64, max: bool) -> Regions {
    Regions { images: 2, channels, size: [7, 9], regions: 9, bins: [3, 2], samples, max }
}

#[test]
fn bins_are_what_the_definition_says_and_have_the_same_bits_by_both_methods() {
    for (channels, samples, max) in [1, 8, 16, 21].into_iter().flat_map(|channels| {
        [0, 1, 3].into_iter().flat_map(move |samples| [false, true].map(|max| (channels, samples, max)))
    }) {
        let form = form(channels, samples, max);
        let [read, written] = form.elements().unwrap();
        let values: Vec<f32> = (0..read).map(|at| ((at * 37) % 101) as f32 - 50.0).collect();
        let regions = drawn(&form);
        let mut want = vec![f32::NAN; written];
        for (plane, want) in want.chunks_exact_mut(6).enumerate() {
            let region = &regions[plane / form.channels()];
            let from = &values[(region.image * form.channels() + plane % form.channels()) * 63..][..63];
            reference::regions::pool(from, form.size(), region, form.bins(), max, want);
        }
        let mut first: Option<Vec<f32>> = None;
        for (isa, method, tasks) in [
            (Isa::Portable, Method::Planes, 1),
            (Isa::Portable, Method::Blocks, 3),
            (Isa::Avx2, Method::Blocks, 1),
            (Isa::Avx512, Method::Planes, 5),
            (Isa::Avx512, Method::Blocks, 2),
        ] {
            let pooler = Pooler::new(form, isa, method, tasks).unwrap();
            let (mut output, mut scratch) = (Canaried::new(written), Canaried::new(pooler.scratch()));
            let values = Poisoned::new(&values);
            pooler.run(values.inside(), &regions, scratch.inside(), output.inside(), &Scoped).unwrap();
            scratch.open();
            let output = output.open();
            for (at, (output, want)) in output.iter().zip(&want).enumerate() {
                assert!((output - want).abs() < 1e-3, "{form:?} {method:?}, bin {at}: {output} for {want}");
            }
            assert_eq!(*first.get_or_insert_with(|| output.clone()), output, "{form:?} {isa} {method:?}");
        }
        let wide: Vec<f64> = values.iter().map(|&value| value.into()).collect();
        let mut double = vec![f64::NAN; written];
        let pooler = Pooler::new(form, Isa::Portable, Method::Blocks, 2).unwrap();
        pooler.run_double(&wide, &regions, &mut double, &Scoped).unwrap();
        assert!(double.iter().zip(&want).all(|(double, &want)| (double - f64::from(want)).abs() < 1e-4), "{form:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_done_of_nothing() {
    let form = form(21, 2, false);
    let ([read, written], regions) = (form.elements().unwrap(), drawn(&form));
    let pooler = Pooler::new(form, Isa::Portable, Method::Blocks, 1).unwrap();
    let operand = |short: usize| {
        let lengths = [read, pooler.scratch(), written].into_iter().enumerate();
        let lengths: Vec<usize> = lengths.map(|(at, length)| length - usize::from(at == short)).collect();
        let regions = &regions[usize::from(short == 3)..];
        let (mut scratch, mut output) = (vec![0.0; lengths[1]], vec![0.0; lengths[2]]);
        match pooler.run(&vec![0.0; lengths[0]], regions, &mut scratch, &mut output, &Scoped) {
            Err(KernelError::Bounds { operand, .. }) => operand,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([0, 1, 2, 3].map(operand), ["values", "scratch", "output", "regions"]);
    let mut beyond = regions.clone();
    beyond[3].image = 2;
    let (mut scratch, mut output) = (vec![0.0; pooler.scratch()], vec![0.0; written]);
    let refused = pooler.run(&vec![0.0; read], &beyond, &mut scratch, &mut output, &Scoped);
    assert!(matches!(refused, Err(KernelError::Unsupported { .. })));
    for empty in [Regions { regions: 0, ..form }, Regions { channels: 0, ..form }, Regions { bins: [0, 2], ..form }] {
        let pooler = Pooler::new(empty, Isa::Portable, Method::Blocks, 2).unwrap();
        let mut scratch = vec![0.0; pooler.scratch()];
        pooler.run(&vec![0.0; read], &regions, &mut scratch, &mut [], &Scoped).unwrap();
    }
    let large = Regions { images: u64::MAX, ..form };
    assert!(matches!(Pooler::new(large, Isa::Portable, Method::Planes, 1), Err(KernelError::Unsupported { .. })));
}
