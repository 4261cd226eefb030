//! Inputs in parts give the same bits as their channels side by side, where a strategy takes parts.

use super::*;
use crate::cpu::conv::WinogradTile;

/// Each part's channels of every position.
fn cut<T: Copy>(x: &[T], channels: &[usize]) -> Vec<Vec<T>> {
    let all: usize = channels.iter().sum();
    let starts = channels.iter().scan(0, |next, &count| {
        *next += count;
        Some(*next - count..*next)
    });
    starts.map(|own| x.chunks(all).flat_map(|position| position[own.clone()].iter().copied()).collect()).collect()
}

/// Convolves whole and in parts.
fn check_parts(isa: Isa, shape: ConvShape, blocks: ConvBlocks, stored: ConvStored, channels: &[usize]) {
    let (x, weights) = (integers(shape.input_len(), 1), integers(shape.weights().len(), 2));
    let layout = blocks.layout();
    let mut panels = vec![f32::NAN; shape.weights().packed_len(isa, layout)];
    shape.weights().pack(isa, layout, &weights, packed_mut(layout.elements(), &mut panels)).unwrap();
    let conv = Conv::stored(isa, shape, blocks, stored, Some(UnaryOp::Relu), &EmitEach).unwrap();
    assert!(conv.takes_parts(channels), "{blocks:?} {shape:?} {channels:?}");
    let run = |x: ConvInput<'_>| {
        let (mut y, mut scratch) = (Canaried::new(shape.output_len()), Canaried::new(conv.scratch_len()));
        scratch.inside().fill(f32::NAN);
        let to = ActivationsMut::F32(y.inside());
        let weights = packed(layout.elements(), &panels);
        conv.run_stored(x, weights, to, ConvExtras::default(), scratch.inside(), &Scoped).unwrap();
        scratch.open();
        y.open()
    };
    let whole = Both::new(&x);
    let parts: Vec<Both> = cut(&x, channels).iter().map(|part| Both::new(part)).collect();
    let parts: Vec<ConvPart<'_>> =
        parts.iter().zip(channels).map(|(part, &channels)| ConvPart { x: part.get(stored.input), channels }).collect();
    let expected = run(whole.get(stored.input).into());
    assert_eq!(run(ConvInput::Parts(&parts)), expected, "{isa} {blocks:?} {stored:?} {shape:?} in {channels:?}");
    assert!(expected.iter().any(|&y| y > 0.0));
}

#[test]
fn tiles_are_transformed_part_by_part() {
    for isa in levels() {
        let lanes = isa.lanes().max(4);
        for channels in [vec![lanes, lanes], vec![2 * lanes, 3], vec![lanes, 3 * lanes, lanes + 1], vec![lanes; 5]] {
            let all = channels.iter().sum::<usize>() as u64;
            let shape = Plane { channels: all, filters: 70, batch: 2, input: (9, 7), ..PLANE }.shape();
            for tile in [WinogradTile::Two, WinogradTile::Four] {
                let blocks = ConvBlocks::winograd(isa, &shape, Elements::F32, tile, 2).unwrap();
                check_parts(isa, shape, blocks, ConvStored::default(), &channels);
                if !emulated(isa) {
                    let cut = ConvBlocks { row_block: 3, row_tasks: 2, unit_tasks: 2, ..blocks };
                    check_parts(isa, shape, cut, ConvStored::default(), &channels);
                }
            }
        }
    }
}

#[test]
fn amx_copies_part_by_part() {
    let isa = Isa::Avx512;
    if !isa.usable() {
        return;
    }
    let plane = Plane { filters: 40, batch: 2, input: (37, 6), ..PLANE };
    let planes = [plane, Plane { stride: 2, ..plane }, Plane { transposed: true, stride: 2, batch: 1, ..plane }];
    for (plane, channels) in
        planes.iter().flat_map(|plane| [vec![32, 32], vec![64, 24], vec![32, 96, 7]].map(|c| (plane, c)))
    {
        let shape = Plane { channels: channels.iter().sum::<usize>() as u64, ..*plane }.shape();
        let blocks = ConvBlocks::pick(isa, &shape, Elements::Bf16Tiles, Numerics::Strict, 1);
        assert_eq!(blocks.strategy, Strategy::Amx);
        for input in [Stored::F32, Stored::Bf16] {
            let stored = ConvStored { input, ..ConvStored::default() };
            check_parts(isa, shape, blocks, stored, &channels);
            check_parts(isa, shape, ConvBlocks { row_block: 2, row_tasks: 2, ..blocks }, stored, &channels);
            check_parts(isa, shape, ConvBlocks { row_block: 70, row_tasks: 3, ..blocks }, stored, &channels);
        }
    }
}

#[test]
fn parts_that_cannot_be_read_so_are_refused() {
    let isa = Isa::detect();
    let shape = Plane { channels: 48, filters: 16, ..PLANE }.shape();
    let (x, mut y) = (vec![1.0; shape.input_len()], vec![0.0; shape.output_len()]);
    let tiles = ConvBlocks::winograd(isa, &shape, Elements::F32, WinogradTile::Two, 1).unwrap();
    let mut refuses = |blocks: ConvBlocks, lengths: [usize; 2], channels: [usize; 2]| {
        let conv = Conv::new(isa, shape, blocks, None, &EmitEach).unwrap();
        let weights = vec![1.0; shape.weights().packed_len(isa, conv.layout())];
        let mut scratch = vec![0.0; conv.scratch_len()];
        let part = |index: usize| ConvPart { x: Activations::F32(&x[..lengths[index]]), channels: channels[index] };
        let (parts, to) = ([part(0), part(1)], y.as_mut_slice().into());
        let weights = PackedWeights::F32(&weights);
        conv.run_stored(ConvInput::Parts(&parts), weights, to, ConvExtras::default(), &mut scratch, &Scoped).is_err()
    };
    let positions = x.len() / 48;
    let lengths = |channels: [usize; 2]| channels.map(|channels| channels * positions);
    assert!(!refuses(tiles, lengths([32, 16]), [32, 16]));
    assert!(refuses(tiles, lengths([32, 15]), [32, 15]), "too few channels");
    assert!(refuses(tiles, lengths([16, 32]), [32, 16]), "lengths of others");
    assert_eq!(refuses(tiles, lengths([17, 31]), [17, 31]), isa.lanes() > 1, "in the midst of a vector");
    let direct = ConvBlocks::pick(isa, &shape, Elements::F32, Numerics::Strict, 1);
    assert!(refuses(direct, lengths([32, 16]), [32, 16]), "where the input is read as it is");
}
