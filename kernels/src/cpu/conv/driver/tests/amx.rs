//! Paths that only convolutions on AMX have: activations read in place, lines copied task by task.

use super::*;

#[test]
fn positions_that_are_whole_steps_are_read_where_they_are() {
    let isa = Isa::Avx512;
    if !isa.usable() {
        return;
    }
    let all = ConvStored { input: Stored::Bf16, residual: Stored::Bf16, output: Stored::Bf16 };
    let pointwise = Plane { kernel: (1, 1), pad: 0, filters: 40, ..PLANE };
    let sizes = [(1, (1, 1), 1), (1, (3, 5), 1), (2, (4, 4), 1), (3, (7, 9), 2), (1, (5, 16), 1)];
    let shorter = [(8, 40), (10, 33), (16, 96), (24, 16), (30, 64), (40, 24), (48, 16), (56, 70), (144, 24)];
    let shorter = shorter.map(|sizes| (sizes, (2, (5, 7), 1)));
    for ((channels, filters), (batch, input, groups)) in sizes.map(|size| ((64, 40), size)).into_iter().chain(shorter) {
        let shape = Plane { channels, filters, batch, input, groups, ..pointwise }.shape();
        check_stored(isa, Elements::Bf16Tiles, all, shape, |_| ());
        check_stored(isa, Elements::Bf16Tiles, all, shape, |blocks| blocks.row_block = 1);
        check_stored(isa, Elements::Bf16Tiles, all, shape, |blocks| (blocks.row_tasks, blocks.unit_tasks) = (3, 2));
        let blocks = ConvBlocks::pick(isa, &shape, Elements::Bf16Tiles, Numerics::Strict, 1);
        let conv = Conv::stored(isa, shape, blocks, all, None, &EmitEach).unwrap();
        let steps = shape.channels().next_multiple_of(32).max(64) / 2;
        assert!(conv.scratch_len() <= 2 * 16 * steps + 16, "no copy of the input");
    }
}

#[test]
fn what_is_no_number_stays_in_its_position() {
    let isa = Isa::Avx512;
    if !isa.usable() {
        return;
    }
    let stored = ConvStored { input: Stored::Bf16, residual: Stored::F32, output: Stored::F32 };
    for channels in [24usize, 32, 40, 42, 144] {
        let shape =
            Plane { kernel: (1, 1), pad: 0, channels: channels as u64, filters: 48, input: (5, 9), ..PLANE }.shape();
        let blocks = ConvBlocks::pick(isa, &shape, Elements::Bf16Tiles, Numerics::Strict, 1);
        let conv = Conv::stored(isa, shape, blocks, stored, None, &EmitEach).unwrap();
        let layout = blocks.layout();
        let mut panels = vec![f32::NAN; shape.weights().packed_len(isa, layout)];
        let room = packed_mut(layout.elements(), &mut panels);
        shape.weights().pack(isa, layout, &integers(shape.weights().len(), 2), room).unwrap();
        let mut x: Vec<u16> = integers(shape.input_len(), 1).into_iter().map(to_bf16).collect();
        x[20 * channels..21 * channels].fill(to_bf16(f32::NAN));
        let (mut y, mut scratch) = (vec![0.0; shape.output_len()], vec![f32::NAN; conv.scratch_len()]);
        let (x, to) = (Activations::Bf16(&x), ActivationsMut::F32(&mut y));
        let weights = packed(layout.elements(), &panels);
        conv.run_stored(x.into(), weights, to, ConvExtras::default(), &mut scratch, &Scoped).unwrap();
        for (position, outputs) in y.chunks(48).enumerate() {
            assert!(outputs.iter().all(|value| value.is_nan() == (position == 20)), "{channels} channels: {position}");
        }
    }
}

#[test]
fn tasks_of_many_lines_copy_their_own() {
    let isa = Isa::Avx512;
    if !isa.usable() {
        return;
    }
    let cuts: [fn(&mut ConvBlocks); 3] = [
        |blocks| (blocks.row_block, blocks.row_tasks) = (1, 1),
        |blocks| (blocks.row_block, blocks.row_tasks) = (20, 2),
        |blocks| (blocks.row_block, blocks.row_tasks) = (70, 3),
    ];
    let tall = Plane { batch: 2, channels: 20, filters: 40, input: (37, 6), ..PLANE };
    let planes = [tall, Plane { stride: 2, ..tall }, Plane { transposed: true, stride: 2, batch: 1, ..tall }];
    for shape in planes.iter().map(|plane| plane.shape()) {
        cuts.into_iter().for_each(|change| check_in(isa, Elements::Bf16Tiles, shape, change));
        let scratch = |row_block, row_tasks| {
            let blocks = ConvBlocks::pick(isa, &shape, Elements::Bf16Tiles, Numerics::Strict, 1);
            let blocks = ConvBlocks { row_block, row_tasks, ..blocks };
            Conv::new(isa, shape, blocks, None, &EmitEach).unwrap().scratch_len()
        };
        assert!(scratch(12, 2) > scratch(12, 1), "each has a place of its own");
        assert!(scratch(1 << 16, 3) < 2 * scratch(1 << 16, 1), "and no more than its share");
    }
}
