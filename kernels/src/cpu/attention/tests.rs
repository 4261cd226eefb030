//! Attention against the reference: every layout, mask and choice of blocks, at every level that can run here.

use super::shape::LEAST_DOT_QUERIES;
use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};
use crate::cpu::precision::{from_bf16, to_bf16};
use crate::cpu::{Elements, EmitEach};
use crate::parallel::Serial;
use crate::problem::description::count;
use crate::reference::attention as reference;

/// Uniform in -1..1, the same for the same seed.
fn floats(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(99);
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Strides of heads that follow each other, without gaps.
fn apart(heads: u64, rows: u64, size: u64) -> Strides {
    Strides { batch: heads * rows * size, head: rows * size, row: size }
}

/// Strides of heads side by side within positions of `columns` elements.
fn joined(rows: u64, size: u64, columns: u64) -> Strides {
    Strides { batch: rows * columns, head: size, row: columns }
}

/// A head of keys for each head of queries, no mask, not causal.
fn plain(batch: u64, heads: u64, queries: u64, keys: u64, size: u64) -> AttentionShape {
    AttentionShape {
        batch,
        heads,
        shared: 1,
        queries,
        keys,
        size,
        value_size: size,
        query: apart(heads, queries, size),
        key: apart(heads, keys, size),
        key_columns: false,
        value: apart(heads, keys, size),
        output: apart(heads, queries, size),
        mask: None,
        keep: None,
        inverted: false,
        fill: 0.0.into(),
        scale: 0.125.into(),
        cap: None,
        causal: None,
        range: KeyRange::Shape,
        held: Held::F32,
        blind_is_zero: false,
        stored: Stored::F32,
        written: Stored::F32,
        elements: Elements::F32,
    }
}

fn blocks(isa: Isa, shape: &AttentionShape) -> Vec<AttentionBlocks> {
    let picked = AttentionBlocks::pick(isa, shape, 2);
    let width = shape.panel(isa);
    let mut all = vec![
        picked,
        AttentionBlocks { pack_values: !picked.pack_values, stream: false, ..picked },
        AttentionBlocks { keys: count(width), rows: 5, stream: false, head_tasks: 3, query_tasks: 2, ..picked },
        AttentionBlocks { keys: count(width), rows: 1, stream: true, pack_values: false, ..picked },
        AttentionBlocks { stream: true, pack_values: false, ..picked },
    ];
    all.retain(|blocks| blocks.fits(shape, isa));
    all
}

fn check(shape: &AttentionShape) {
    let mut mask = floats(shape.needs().unwrap()[4], 4);
    mask.iter_mut().step_by(7).for_each(|value| *value = f32::NEG_INFINITY);
    check_with(shape, &mask);
}

/// Every level with every operand type that its products have.
pub(super) fn forms() -> impl Iterator<Item = (Isa, Elements)> {
    let all = [Elements::F32, Elements::Bf16Dot, Elements::Bf16Tiles];
    levels().into_iter().flat_map(move |isa| all.into_iter().filter(move |it| it.suit(isa)).map(move |it| (isa, it)))
}

fn check_with(shape: &AttentionShape, mask: &[f32]) {
    let needs = shape.needs().unwrap();
    let [query, key, value] = [0, 1, 2].map(|operand| Poisoned::new(&floats(needs[operand], operand as u32)));
    let mask = Poisoned::new(mask);
    let keep: Vec<u8> = (0..needs[5]).map(|at| u8::from(at % 5 != 3)).collect();
    let operands = Operands {
        query: query.inside(),
        key: key.inside(),
        value: value.inside(),
        mask: shape.mask.map(|_| mask.inside()),
        keep: shape.keep.map(|_| keep.as_slice()),
    };
    let mut expected = vec![0.0; needs[3]];
    reference::attention(shape, &operands, &mut expected);
    for (isa, elements) in forms() {
        let shape = &AttentionShape { elements, ..*shape };
        for blocks in blocks(isa, shape) {
            let attention = Attention::new(isa, *shape, blocks, &EmitEach).unwrap();
            // Results are means of values below 1. Queries, keys, weights and values are off by 2^-9 each at most.
            let allowed = if !shape.is_paired() || blocks.stream { 1e-5 } else { 1e-2 };
            let mut scratch = Canaried::new(attention.scratch_len());
            let mut output = Canaried::new(needs[3]);
            output.inside().fill(0.0);
            attention.run(&operands, output.inside(), scratch.inside(), &Scoped).unwrap();
            scratch.open();
            for (at, (found, expected)) in output.open().into_iter().zip(&expected).enumerate() {
                let close = (found - expected).abs() <= allowed || found.is_nan() && expected.is_nan();
                assert!(close, "{isa}, {blocks:?}, {shape:?}: {found} at {at}, expected {expected}");
            }
        }
    }
}

#[test]
fn sizes_that_fill_no_vector_and_no_panel() {
    for (queries, keys, size) in
        [(1, 1, 1), (1, 17, 5), (2, 40, 64), (3, 33, 20), (7, 16, 32), (16, 16, 64), (17, 50, 70), (50, 9, 16)]
    {
        check(&plain(2, 3, queries, keys, size));
    }
}

#[test]
fn nothing_to_see_or_to_do() {
    for (queries, keys, size) in [(3, 0, 8), (0, 3, 8), (2, 3, 0), (1, 0, 8)] {
        check(&plain(1, 2, queries, keys, size));
    }
    check(&AttentionShape { value_size: 3, value: apart(2, 9, 3), output: apart(2, 4, 3), ..plain(1, 2, 4, 9, 8) });
}

#[test]
fn heads_lie_behind_their_positions() {
    let (queries, keys, size, columns) = (13, 30, 24, 100);
    let rows = |rows| joined(rows, size, columns);
    let shape = plain(2, 3, queries, keys, size);
    check(&AttentionShape { query: rows(queries), key: rows(keys), value: rows(keys), output: rows(queries), ..shape });
}

#[test]
fn keys_may_be_stored_by_columns_and_shared() {
    for queries in [1, 20] {
        let (heads, keys, size) = (6, 43, 12);
        let shape = plain(2, heads, queries, keys, size);
        let key = Strides { batch: heads * keys * size, head: keys * size, row: keys };
        check(&AttentionShape { key, key_columns: true, ..shape });
        check(&AttentionShape { shared: 3, key: apart(2, keys, size), value: apart(2, keys, size), ..shape });
        check(&AttentionShape {
            key: Strides { batch: 0, ..shape.key },
            value: Strides { head: 0, ..shape.value },
            ..shape
        });
    }
}

#[test]
fn masks_and_conditions_repeat_where_their_steps_are_zero() {
    let (heads, keys) = (3, 29);
    for queries in [1, 3, 18] {
        let shape = plain(2, heads, queries, keys, 16);
        let whole = Strides { batch: heads * queries * keys, head: queries * keys, row: keys };
        for mask in [whole, Strides { batch: keys, head: 0, row: 0 }, Strides { batch: 0, head: 0, row: keys }] {
            check(&AttentionShape { mask: Some(mask), ..shape });
            check(&AttentionShape { keep: Some(mask), fill: (-1e9).into(), ..shape });
            check(&AttentionShape { keep: Some(mask), inverted: true, fill: (-2.0).into(), ..shape });
            check(&AttentionShape {
                mask: Some(whole),
                keep: Some(mask),
                fill: (-3.0).into(),
                cap: Some(0.4.into()),
                ..shape
            });
        }
    }
}

#[test]
fn queries_see_up_to_the_frontier() {
    for (queries, keys, before) in [(20, 20, 0), (7, 40, 33), (1, 40, 39), (30, 9, 0), (5, 40, 1), (3, 60, 2)] {
        check(&AttentionShape { causal: Some(before), ..plain(1, 2, queries, keys, 16) });
    }
}

#[test]
fn the_greatest_score_may_come_late() {
    // Scores grow from block to block, so that earlier results are scaled down each time.
    let keys = 100;
    let shape = AttentionShape { mask: Some(Strides::default()), ..plain(1, 1, 6, keys, 8) };
    let rising: Vec<f32> = (0..keys).map(|key| key as f32 * 2.0 - 90.0).collect();
    check_with(&shape, &rising);
    let falling: Vec<f32> = rising.iter().rev().copied().collect();
    check_with(&shape, &falling);
}

#[test]
fn queries_that_see_nothing_give_nan_or_zeros() {
    let keys = 70;
    for queries in [1, 9] {
        let shape = AttentionShape { mask: Some(Strides::default()), ..plain(1, 2, queries, keys, 8) };
        let mut mask = vec![f32::NEG_INFINITY; shape.keys()];
        check_with(&shape, &mask);
        check_with(&AttentionShape { blind_is_zero: true, ..shape }, &mask);
        // All keys of the first blocks are masked; a later block has keys that are not.
        mask[60..].fill(0.5);
        check_with(&shape, &mask);
        mask[61] = f32::NAN;
        check_with(&shape, &mask);
        mask[61] = f32::INFINITY;
        check_with(&shape, &mask);
    }
}

#[test]
fn many_keys_take_several_blocks() {
    let shape = plain(1, 1, 5, 1000, 16);
    assert!(AttentionBlocks::pick(Isa::Avx2, &shape, 1).keys < 1000);
    check(&AttentionShape { causal: Some(995), ..shape });
    check(&plain(1, 1, 1, 1000, 16));
}

#[test]
fn pairs_take_heads_of_any_size_and_blocks_of_any_length() {
    // Multiples of an AMX step and others, one and two tile rows, tiles of vectors of every height, partial panels on
    // either side.
    for (queries, keys, size) in
        [(32, 32, 32), (33, 64, 64), (16, 31, 80), (48, 65, 16), (17, 40, 33), (70, 130, 64), (19, 32, 31)]
    {
        let shape = plain(1, 2, queries, keys, size);
        check(&shape);
        check(&AttentionShape { causal: Some(keys.saturating_sub(queries)), ..shape });
        check(&AttentionShape { value_size: 40, value: apart(2, keys, 40), output: apart(2, queries, 40), ..shape });
        let key = Strides { batch: 2 * keys * size, head: keys * size, row: keys };
        check(&AttentionShape { key, key_columns: true, mask: Some(Strides::default()), ..shape });
    }
}

#[test]
fn pairs_multiply_what_is_rounded_and_nothing_else() {
    // Scores are zero, so that weights are equal; values are exact in `bf16`, and so are means over a power of two. A
    // value that is not exact is rounded.
    let value: Vec<f32> = (0..64 * 16).map(|at| (at % 16) as f32 * 0.5 - 3.0).collect();
    let odd = [1.0 + 1.0 / 512.0; 64 * 16];
    let (query, key) = (floats(40 * 16, 1), vec![0.0; 64 * 16]);
    for elements in [Elements::Bf16Dot, Elements::Bf16Tiles] {
        let shape = AttentionShape { elements, ..plain(1, 1, 40, 64, 16) };
        let blocks = AttentionBlocks::pick(Isa::Avx512, &shape, 1);
        let attention = Attention::new(Isa::Avx512, shape, blocks, &EmitEach).unwrap();
        let mut scratch = vec![0.0; attention.scratch_len()];
        let mut output = vec![0.0; 40 * 16];
        let mut run = |value: &[f32]| {
            let operands = Operands { query: &query[..], key: &key[..], value, mask: None, keep: None };
            attention.run(&operands, &mut output, &mut scratch, &Serial).unwrap();
            output.clone()
        };
        assert_eq!(run(&value), value[..16].repeat(40), "{elements:?}");
        assert_eq!(run(&odd), vec![1.0; 40 * 16], "{elements:?}");
    }
}

#[test]
fn few_queries_are_not_rounded_where_pairs_would_not_pay() {
    // A mean of values that `bf16` does not hold.
    let odd = [1.0 + 1.0 / 512.0; 64 * 16];
    for (queries, expected) in [(LEAST_DOT_QUERIES - 1, odd[0]), (LEAST_DOT_QUERIES, 1.0)] {
        let shape = AttentionShape { elements: Elements::Bf16Dot, ..plain(1, 1, queries as u64, 64, 16) };
        let blocks = AttentionBlocks::pick(Isa::Avx512, &shape, 1);
        let attention = Attention::new(Isa::Avx512, shape, blocks, &EmitEach).unwrap();
        let (query, key) = (floats(queries * 16, 1), vec![0.0; 64 * 16]);
        let mut scratch = vec![0.0; attention.scratch_len()];
        let mut output = vec![0.0; queries * 16];
        let operands = Operands { query: &query[..], key: &key[..], value: &odd[..], mask: None, keep: None };
        attention.run(&operands, &mut output, &mut scratch, &Serial).unwrap();
        assert_eq!(output, vec![expected; queries * 16], "{queries} queries");
    }
}

#[test]
fn activations_of_either_type_give_the_same() {
    let halves = |values: &[f32]| -> Vec<u16> { values.iter().map(|&value| to_bf16(value)).collect() };
    let rows = |rows| joined(rows, 32, 100);
    let behind = plain(2, 3, 20, 70, 32);
    let shapes = [
        plain(1, 2, 1, 9, 8),
        plain(2, 3, 16, 64, 32),
        plain(1, 2, 33, 70, 21),
        AttentionShape { query: rows(20), key: rows(70), value: rows(70), output: rows(20), ..behind },
    ];
    for (shape, (isa, elements)) in shapes.iter().flat_map(|shape| forms().map(move |form| (shape, form))) {
        let (shape, needs) = (AttentionShape { elements, ..*shape }, shape.needs().unwrap());
        let [query, key, value] = [0, 1, 2].map(|operand| halves(&floats(needs[operand], operand as u32)));
        let wide = |halves: &[u16]| -> Vec<f32> { halves.iter().map(|&half| from_bf16(half)).collect() };
        let whole = [&query, &key, &value].map(|operand| wide(operand));
        let [query, key, value] = [query, key, value].map(|operand| Poisoned::new(&operand));
        for blocks in blocks(isa, &shape) {
            let mut expected = vec![0.0; needs[3]];
            for (stored, written) in [
                (Stored::F32, Stored::F32),
                (Stored::Bf16, Stored::F32),
                (Stored::F32, Stored::Bf16),
                (Stored::Bf16, Stored::Bf16),
            ] {
                let attention =
                    Attention::new(isa, AttentionShape { stored, written, ..shape }, blocks, &EmitEach).unwrap();
                let [query, key, value] = match stored {
                    Stored::F32 => [&whole[0], &whole[1], &whole[2]].map(|operand| Activations::F32(operand)),
                    Stored::Bf16 => [&query, &key, &value].map(|operand| Activations::Bf16(operand.inside())),
                };
                let operands = Operands { query, key, value, mask: None, keep: None };
                let mut scratch = Canaried::new(attention.scratch_len());
                let (mut floats, mut half) = (vec![0.0; needs[3]], Canaried::<u16>::new(needs[3]));
                half.inside().fill(0);
                let output = match written {
                    Stored::F32 => ActivationsMut::F32(&mut floats),
                    Stored::Bf16 => ActivationsMut::Bf16(half.inside()),
                };
                attention.run_stored(&operands, output, scratch.inside(), &Scoped).unwrap();
                scratch.open();
                let what = format!("{isa}, {blocks:?}, {stored:?} to {written:?}, {shape:?}");
                match (stored, written) {
                    (Stored::F32, Stored::F32) => expected = floats,
                    (_, Stored::F32) => assert!(floats == expected, "{what}"),
                    (_, Stored::Bf16) => assert!(half.open() == halves(&expected), "{what}"),
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let shape = plain(1, 2, 3, 4, 8);
    let blocks = AttentionBlocks::pick(Isa::Avx2, &shape, 1);
    let refuses = |shape: AttentionShape, blocks: AttentionBlocks| {
        assert!(Attention::new(Isa::Portable, shape, blocks, &EmitEach).is_err(), "{shape:?} {blocks:?}");
    };
    let portable = AttentionBlocks { stream: false, ..blocks };
    assert!(Attention::new(Isa::Portable, shape, portable, &EmitEach).is_ok());
    refuses(shape, AttentionBlocks { stream: true, ..blocks });
    refuses(shape, AttentionBlocks { rows: 0, ..portable });
    refuses(shape, AttentionBlocks { keys: 5, ..portable });
    refuses(shape, AttentionBlocks { head_tasks: 1 << 20, ..portable });
    refuses(AttentionShape { shared: 0, ..shape }, portable);
    refuses(AttentionShape { elements: Elements::Bf16Tiles, ..shape }, portable);
    refuses(AttentionShape { elements: Elements::Bf16Dot, ..shape }, portable);
    refuses(AttentionShape { elements: Elements::Bf16, ..shape }, portable);
    refuses(AttentionShape { keys: u64::MAX, ..shape }, portable);
    refuses(AttentionShape { query: Strides { batch: 0, head: u64::MAX, row: 8 }, ..shape }, portable);
    // The results of two tasks would overlap.
    refuses(AttentionShape { output: Strides { head: 8, ..shape.output }, ..shape }, portable);
    refuses(AttentionShape { output: Strides { row: 7, ..shape.output }, ..shape }, portable);
    let attention = Attention::new(Isa::Portable, shape, portable, &EmitEach).unwrap();
    let (data, mut scratch, mut output) = (vec![0.0; 64], vec![0.0; attention.scratch_len()], vec![0.0; 48]);
    let whole = Operands { query: &data[..48], key: &data[..], value: &data[..], mask: None, keep: None };
    assert!(attention.run(&whole, &mut output, &mut scratch, &Serial).is_ok());
    for operands in [
        Operands { query: &data[..47], ..whole },
        Operands { key: &data[..63], ..whole },
        Operands { value: &data[..63], ..whole },
    ] {
        assert!(attention.run(&operands, &mut output, &mut scratch, &Serial).is_err());
    }
    assert!(attention.run(&whole, &mut output[..47], &mut scratch, &Serial).is_err());
    assert!(attention.run(&whole, &mut output, &mut scratch[1..], &Serial).is_err());
}
