//! Runs kernels on the processor for tests: results lie between bytes that must not change, other memory is NaN.

use super::Kernel;
use crate::error::Result;
use crate::gpu::emulated::{Emulated, Script};
use crate::gpu::{ALIGNMENT, Arena, Device, Region};

/// Bytes that were not written: NaN as floats, and no value that a kernel writes by chance.
const POISON: u8 = 0xff;

/// Runs a kernel; returns its output.
pub(super) fn run(kernel: &dyn Kernel, inputs: &[Option<&[u8]>], output_bytes: usize) -> Result<Vec<u8>> {
    run_marking(kernel, inputs, output_bytes, usize::MAX).map(|(written, _)| written)
}

/// Runs a kernel that may write to one of its inputs too; returns its output, and that input afterwards.
pub(super) fn run_marking(
    kernel: &dyn Kernel,
    inputs: &[Option<&[u8]>],
    output_bytes: usize,
    marked: usize,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let device = Emulated::open(Script::default());
    let sizes = inputs.iter().flatten().map(|bytes| bytes.len()).chain([output_bytes, 0]);
    let most: u64 = sizes.map(|bytes| (bytes as u64 + 1).next_multiple_of(ALIGNMENT)).sum();
    let arena = Arena::new(device.clone(), most);
    let mut memory = vec![POISON; most as usize];
    let all = arena.take(most)?;
    let start = all.address();
    device.upload(&memory, &all)?;
    drop(all);

    let take = |bytes: &[u8]| {
        let region = arena.take(bytes.len() as u64)?;
        device.upload(bytes, &region).map(|()| region)
    };
    let regions: Vec<Option<Region>> = inputs.iter().map(|bytes| bytes.map(take).transpose()).collect::<Result<_>>()?;
    let output = arena.take(output_bytes as u64)?;
    let places: Vec<Option<usize>> =
        regions.iter().map(|region| Some((region.as_ref()?.address() - start) as usize)).collect();
    let place = (output.address() - start) as usize;
    let given: Vec<Option<&Region>> = regions.iter().map(Option::as_ref).collect();
    kernel.launch(&*device.compile(&kernel.code().source()?)?, &given, &output)?;

    // All memory must be free when all regions are freed.
    drop((regions, output));
    let all = arena.take(most)?;
    device.download(&all, &mut memory)?;
    let written = memory[place..place + output_bytes].to_vec();
    let (mut untouched, mut mark) = (vec![POISON; memory.len()], vec![]);
    for (index, (bytes, place)) in inputs.iter().zip(places).enumerate() {
        let (Some(bytes), Some(place)) = (bytes, place) else { continue };
        untouched[place..place + bytes.len()].copy_from_slice(bytes);
        if index == marked {
            mark = memory[place..place + bytes.len()].to_vec();
            untouched[place..place + bytes.len()].copy_from_slice(&mark);
        }
    }
    untouched[place..place + output_bytes].copy_from_slice(&written);
    assert!(memory == untouched, "{kernel:?} wrote beside its output");
    Ok((written, mark))
}

/// Runs a kernel over floats.
pub(super) fn run_f32(kernel: &dyn Kernel, inputs: &[Option<&[f32]>], outputs: usize) -> Vec<f32> {
    let inputs: Vec<Option<&[u8]>> = inputs.iter().map(|values| values.map(bytemuck::cast_slice)).collect();
    let bytes = run(kernel, &inputs, outputs * 4).unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
    bytes.chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

/// Numbers of both signs without overflow; some are equal.
pub(super) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 65536.0 * 8.0 - 4.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Bytes, each different from its neighbours.
pub(super) fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 37 % 251) as u8).collect()
}

/// Whether results are the wanted ones, within `units` units in the last place of the wanted number or of `of`,
/// whichever is more.
pub(super) fn near(given: &[f32], wanted: &[f32], units: f32, of: f32, what: &dyn std::fmt::Debug) {
    assert_eq!(given.len(), wanted.len(), "{what:?}");
    for (index, (&given, &wanted)) in given.iter().zip(wanted).enumerate() {
        let error = (given - wanted).abs();
        let same = given == wanted || given.is_nan() && wanted.is_nan();
        let near = error <= units * f32::EPSILON * wanted.abs().max(of);
        assert!(same || near, "{what:?}: {given:?} for {wanted:?} at {index}");
    }
}
