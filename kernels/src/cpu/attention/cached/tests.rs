//! Attention over a cache against the reference, which is given each batch by itself and a condition for its window.

use half::f16;

use super::super::held::{Scales, quantize};
use super::super::shape::{AttentionBlocks, PAGE};
use super::super::tests::forms;
use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};
use crate::cpu::{Elements, EmitEach, Stored};
use crate::isa::Isa;
use crate::parallel::Serial;
use crate::problem::attention::{Held, Strides};
use crate::reference::attention as reference;

const HEADS: usize = 4;
const SHARED: usize = 2;
const SIZE: usize = 20;
/// Rows that a head of the cache has room for.
const ROOM: usize = 450;

/// How far results of bf16 pairs may be off: queries, keys, weights and values by 2^-9 each.
const PAIRED: f32 = 1e-2;

/// Every level with every operand type of products over a cache that is held so.
fn forms_of(held: Held) -> impl Iterator<Item = (Isa, Elements)> {
    forms().filter(move |&(_, elements)| held == Held::F32 || elements == Elements::F32)
}

fn floats(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

/// Steps of batches with these keys. Where a step is a single position that sees all keys, the heads that share keys
/// are queries.
fn shape(keys: &[usize], queries: usize, range: KeyRange, cap: Option<f32>) -> AttentionShape {
    let step = queries == 1;
    let (heads, shared, rows) = if step { (HEADS / SHARED, 1, SHARED) } else { (HEADS, SHARED, queries) };
    let width = (HEADS * SIZE) as u64;
    let (head, row) = if step { ((SHARED * SIZE) as u64, SIZE as u64) } else { (SIZE as u64, width) };
    let own = Strides { batch: queries as u64 * width, head, row };
    let cache = Strides { batch: 0, head: 0, row: SIZE as u64 };
    AttentionShape {
        batch: keys.len() as u64,
        heads: heads as u64,
        shared: shared as u64,
        queries: rows as u64,
        keys: ROOM as u64,
        size: SIZE as u64,
        value_size: SIZE as u64,
        query: own,
        key: cache,
        key_columns: false,
        value: cache,
        output: own,
        mask: None,
        keep: None,
        inverted: false,
        fill: f32::NEG_INFINITY.into(),
        scale: 0.25.into(),
        cap: cap.map(Into::into),
        causal: (!step).then_some(0),
        range,
        held: Held::F32,
        blind_is_zero: true,
        stored: Stored::F32,
        written: Stored::F32,
        elements: Elements::F32,
    }
}

/// The result of one batch, by the reference over the rows that it has.
fn expected(batch: usize, queries: usize, keys: usize, window: usize, cap: Option<f32>, all: [&[f32]; 3]) -> Vec<f32> {
    let [query, key, value] = all;
    let per_batch = HEADS / SHARED * ROOM * SIZE;
    let shape = AttentionShape {
        batch: 1,
        heads: HEADS as u64,
        shared: SHARED as u64,
        queries: queries as u64,
        keys: keys as u64,
        query: Strides { batch: 0, head: SIZE as u64, row: (HEADS * SIZE) as u64 },
        key: Strides { batch: 0, head: (ROOM * SIZE) as u64, row: SIZE as u64 },
        value: Strides { batch: 0, head: (ROOM * SIZE) as u64, row: SIZE as u64 },
        output: Strides { batch: 0, head: SIZE as u64, row: (HEADS * SIZE) as u64 },
        keep: Some(Strides { batch: 0, head: 0, row: keys as u64 }),
        causal: None,
        range: KeyRange::Shape,
        ..self::shape(&[keys], queries, KeyRange::Shape, cap)
    };
    let sees = |query: usize, key: usize| {
        let own = keys - queries + query;
        key <= own && own - key < window
    };
    let keep: Vec<u8> = (0..queries * keys).map(|at| u8::from(sees(at / keys, at % keys))).collect();
    let operands = Operands {
        query: &query[batch * queries * HEADS * SIZE..],
        key: &key[batch * per_batch..],
        value: &value[batch * per_batch..],
        mask: None,
        keep: Some(&keep[..]),
    };
    let mut output = vec![0.0; queries * HEADS * SIZE];
    reference::attention(&shape, &operands, &mut output);
    output
}

/// A cache with room for [`ROOM`] rows of each head.
fn plain<'a>(keys: &'a [usize], [key, value]: [Cells<'a>; 2]) -> Cache<'a> {
    let pages = Pages { table: &[], of_batch: 1, keys: ROOM, page: HEADS / SHARED * ROOM, head: ROOM };
    Cache { key, value, keys, before: keys, pages, window: 0, sink: None, bias: None }
}

#[test]
fn batches_read_the_pages_of_the_cache_that_the_run_says() {
    let (places, keys) = ([2, 0, 2, 2], [40, 9, 70, 1]);
    let per_batch = HEADS / SHARED * ROOM * SIZE;
    let (key, value) = (floats(3 * per_batch, 1), floats(3 * per_batch, 2));
    let shape = shape(&keys, 1, KeyRange::Cache, None);
    let query = floats(keys.len() * HEADS * SIZE, 3);
    // The same rows with a copy of a page for each batch.
    let copied = |rows: &[f32]| -> Vec<f32> {
        places.iter().flat_map(|place| rows[place * per_batch..][..per_batch].to_vec()).collect()
    };
    let copies = [copied(&key), copied(&value)];
    for isa in levels() {
        let attention =
            Attention::new(isa, shape, AttentionBlocks::pick(isa, &shape, 2), &EmitEach).expect("it is supported");
        let run = |cache: &Cache<'_>| {
            let (mut scratch, mut output) = (vec![0.0; attention.scratch_len()], vec![0.0; query.len()]);
            attention.run_cached(&query, cache, &mut output, &mut scratch, &Scoped).map(|()| output)
        };
        let before: Vec<usize> = keys.iter().map(|keys| keys - 1).collect();
        let given = Cache { before: &before, ..plain(&keys, [Cells::F32(&key), Cells::F32(&value)]) };
        let shared = Cache { pages: Pages { table: &places, ..given.pages }, ..given };
        let [key_copies, value_copies] = &copies;
        let alone = Cache { before: &before, ..plain(&keys, [Cells::F32(key_copies), Cells::F32(value_copies)]) };
        assert_eq!(run(&shared).unwrap(), run(&alone).unwrap(), "{isa}");
        let over = |pages: Pages<'_>| run(&Cache { pages, ..shared });
        let pages = shared.pages;
        let beyond = over(Pages { table: &[2, 0, 3, 2], ..pages });
        assert!(matches!(beyond, Err(KernelError::Bounds { .. })), "a page that the cache does not have");
        let huge = over(Pages { table: &[usize::MAX; 4], ..pages });
        assert!(matches!(huge, Err(KernelError::Bounds { .. })), "a page that no cache has");
        let few = over(Pages { table: &[2, 0], ..pages });
        assert!(matches!(few, Err(KernelError::Unsupported { .. })), "pages for each batch, or none");
        let small = over(Pages { keys: 69, ..pages });
        assert!(matches!(small, Err(KernelError::Unsupported { .. })), "pages with room for all keys");
        let cut = over(Pages { table: &[2; 8], of_batch: 2, keys: 37, ..pages });
        assert!(matches!(cut, Err(KernelError::Unsupported { .. })), "a block in two pages");
    }
}

#[test]
fn rows_in_pages_give_the_bits_of_rows_that_follow_each_other() {
    let (keys, of_batch) = ([450, 193, 7, 384], 3);
    let heads = HEADS / SHARED;
    // The first two batches share their first page.
    let table = [4, 0, 7, 4, 2, 9, 1, 9, 9, 3, 6, 9];
    let page = heads * PAGE;
    let paged = [1, 2].map(|seed| floats(8 * page * SIZE, seed));
    let followed = [0, 1].map(|side| {
        let mut made = vec![f32::NAN; keys.len() * heads * ROOM * SIZE];
        for (line, to) in made.chunks_exact_mut(ROOM * SIZE).enumerate() {
            let (batch, head) = (line / heads, line % heads);
            for (key, to) in to.chunks_exact_mut(SIZE).enumerate().take(keys[batch]) {
                let from = table[batch * of_batch + key / PAGE] * page + head * PAGE + key % PAGE;
                to.copy_from_slice(&paged[side][from * SIZE..][..SIZE]);
            }
        }
        made
    });
    let halves = [&paged, &followed]
        .map(|rows| [0, 1].map(|side| rows[side].iter().map(|&number| f16::from_f32(number)).collect::<Vec<f16>>()));
    let pages = Pages { table: &table, of_batch, keys: PAGE, page, head: PAGE };
    let steps = [(1, None), (1, Some(200)), (2, None), (7, None), (7, Some(200)), (16, Some(200))];
    for ((queries, window), held) in steps.into_iter().flat_map(|step| [(step, Held::F32), (step, Held::F16)]) {
        let range = if window.is_some() { KeyRange::Window } else { KeyRange::Cache };
        let query = floats(keys.len() * queries * HEADS * SIZE, 3);
        let before: Vec<usize> = keys.iter().map(|keys| keys.saturating_sub(queries)).collect();
        for (isa, elements) in forms_of(held) {
            let shape = AttentionShape { held, elements, ..shape(&keys, queries, range, None) };
            for blocks in [AttentionBlocks::pick(isa, &shape, 3), AttentionBlocks::in_order(isa, &shape, 3)] {
                let attention = Attention::new(isa, shape, blocks, &EmitEach).unwrap();
                let run = |is_paged: bool| {
                    let (rows, halves) = if is_paged { (&paged, &halves[0]) } else { (&followed, &halves[1]) };
                    let cells = [0, 1].map(|side| match held {
                        Held::F16 => Cells::F16(&halves[side]),
                        _ => Cells::F32(&rows[side]),
                    });
                    let given = Cache { before: &before, window: window.unwrap_or(0), ..plain(&keys, cells) };
                    let cache = Cache { pages: if is_paged { pages } else { given.pages }, ..given };
                    let mut scratch = Canaried::new(attention.scratch_len());
                    let mut output = Canaried::new(query.len());
                    attention.run_cached(&query, &cache, output.inside(), scratch.inside(), &Scoped).unwrap();
                    scratch.open();
                    output.open()
                };
                let same = run(true).iter().zip(run(false)).all(|(one, other)| one.to_bits() == other.to_bits());
                assert!(same, "{isa}, {elements:?}, {blocks:?}, {queries} queries, {window:?}, {held:?}");
            }
        }
    }
}

#[test]
fn every_batch_sees_its_own_keys_and_its_window() {
    let lengths: [&[usize]; 4] = [&[19], &[70, 13, 31], &[450, 19], &[388, 449]];
    let mut checked = 0;
    for keys in lengths {
        let per_batch = HEADS / SHARED * ROOM * SIZE;
        let cache = [1, 2].map(|seed| Poisoned::new(&floats(keys.len() * per_batch, seed)));
        for (queries, window, cap) in [1usize, 2, 9, 13].into_iter().flat_map(|queries| {
            [None, Some(1), Some(7), Some(400)]
                .into_iter()
                .flat_map(move |window| [None, Some(0.5)].into_iter().map(move |cap| (queries, window, cap)))
        }) {
            let range = if window.is_some() { KeyRange::Window } else { KeyRange::Cache };
            let query = Poisoned::new(&floats(keys.len() * queries * HEADS * SIZE, 3));
            let all = [query.inside(), cache[0].inside(), cache[1].inside()];
            let own = |(batch, &keys): (usize, &usize)| {
                expected(batch, queries, keys, window.unwrap_or(usize::MAX), cap, all)
            };
            let expected: Vec<f32> = keys.iter().enumerate().flat_map(own).collect();
            let before: Vec<usize> = keys.iter().map(|keys| keys.saturating_sub(queries)).collect();
            let window = window.unwrap_or(0);
            let cache = Cache { window, before: &before, ..plain(keys, [all[1], all[2]].map(Cells::F32)) };
            for (isa, elements) in forms_of(Held::F32) {
                let shape = AttentionShape { elements, ..shape(keys, queries, range, cap) };
                let allowed = if shape.is_paired() { PAIRED } else { 1e-5 };
                for blocks in [AttentionBlocks::pick(isa, &shape, 2), AttentionBlocks::in_order(isa, &shape, 2)] {
                    let attention = Attention::new(isa, shape, blocks, &EmitEach).unwrap();
                    let mut scratch = Canaried::new(attention.scratch_len());
                    let mut output = Canaried::new(expected.len());
                    attention.run_cached(all[0], &cache, output.inside(), scratch.inside(), &Scoped).unwrap();
                    scratch.open();
                    for (at, (found, expected)) in output.open().into_iter().zip(&expected).enumerate() {
                        let form = format!("{isa}, {elements:?}, {blocks:?}");
                        let what = format!("{form}, keys {keys:?}, {queries} queries, {window:?}, {cap:?}");
                        assert!((found - expected).abs() <= allowed, "{what}: {found} at {at}, expected {expected}");
                    }
                    checked += 1;
                }
            }
        }
    }
    assert!(checked >= 4 * 32 * 2, "{checked}");
}

#[test]
fn heads_of_any_size_have_blocks() {
    for size in [1, 64, 4096, 4097, 100_000] {
        let size = AttentionShape { size, value_size: size, ..shape(&[9], 1, KeyRange::Cache, None) };
        for isa in levels() {
            assert!(AttentionBlocks::pick(isa, &size, 2).fits(&size, isa), "{isa} {size:?}");
        }
    }
}

#[test]
fn caches_that_do_not_fit_are_refused() {
    let shape = shape(&[9, 9], 3, KeyRange::Cache, None);
    let isa = crate::isa::Isa::detect();
    let attention = Attention::new(isa, shape, AttentionBlocks::pick(isa, &shape, 1), &EmitEach).unwrap();
    let per_batch = HEADS / SHARED * ROOM * SIZE;
    let (query, rows) = (floats(2 * 3 * HEADS * SIZE, 1), floats(2 * per_batch, 2));
    let run = |keys: &[usize], batch: usize, rows: &[f32]| {
        let given = plain(keys, [Cells::F32(rows); 2]);
        let cache = Cache { pages: Pages { page: batch, ..given.pages }, ..given };
        let (mut output, mut scratch) = (vec![0.0; query.len()], vec![0.0; attention.scratch_len()]);
        attention.run_cached(&query, &cache, &mut output, &mut scratch, &Serial)
    };
    let rows_of_batch = per_batch / SIZE;
    run(&[9, 450], rows_of_batch, &rows).unwrap();
    for keys in [&[9][..], &[9, 451], &[9, usize::MAX]] {
        assert!(matches!(run(keys, rows_of_batch, &rows), Err(KernelError::Unsupported { .. })), "{keys:?}");
    }
    let bounds = |result: Result<()>| matches!(result, Err(KernelError::Bounds { operand: "keys", .. }));
    assert!(bounds(run(&[9, 450], rows_of_batch, &rows[1..])));
    assert!(bounds(run(&[9, 9], usize::MAX / 2, &rows)));
    let operands = Operands { query: &query[..], key: &rows[..], value: &rows, mask: None, keep: None };
    let (mut output, mut scratch) = (vec![0.0; query.len()], vec![0.0; attention.scratch_len()]);
    let plain = attention.run(&operands, &mut output, &mut scratch, &Serial);
    assert!(matches!(plain, Err(KernelError::Unsupported { .. })), "a shape for a cache needs one");
}

#[test]
fn what_is_beside_a_cache_and_does_not_fit_is_refused() {
    let masked = AttentionShape { mask: Some(Strides::default()), ..shape(&[9, 9], 3, KeyRange::Cache, None) };
    let isa = crate::isa::Isa::detect();
    let blocks = AttentionBlocks::pick(isa, &masked, 1);
    let attention = Attention::new(isa, masked, blocks, &EmitEach).unwrap();
    let (query, rows) = (floats(2 * 3 * HEADS * SIZE, 1), floats(2 * HEADS / SHARED * ROOM * SIZE, 2));
    let refused = |sink: usize, before: usize, first: &[usize], elements: usize| {
        let (scores, elements) = (vec![0.0; sink], vec![0.0; elements]);
        let cache = Cache {
            before: &[6; 2][..before],
            sink: Some(Sink { scores: &scores, head: 1, row: 0 }),
            bias: Some(Bias { elements: &elements, batch: 0, head: 0, row: 9, first }),
            ..plain(&[9, 9], [Cells::F32(&rows); 2])
        };
        let (mut output, mut scratch) = (vec![0.0; query.len()], vec![0.0; attention.scratch_len()]);
        attention.run_cached(&query, &cache, &mut output, &mut scratch, &Serial).is_err()
    };
    assert!(!refused(HEADS, 2, &[0, 0], 27));
    assert!(refused(HEADS - 1, 2, &[0, 0], 27), "a score for each head");
    assert!(refused(HEADS, 1, &[0, 0], 27), "a length for each batch");
    assert!(refused(HEADS, 2, &[0, 0], 26), "an element for each key");
    assert!(refused(HEADS, 2, &[0, 1], 27) && refused(HEADS, 2, &[0], 27) && refused(HEADS, 2, &[0, usize::MAX], 27));
}

#[test]
fn codes_give_what_their_numbers_give_with_sinks_and_biases_and_padded_queries() {
    const BATCH: usize = 2;
    const KV: usize = HEADS / SHARED;
    let (numbers, scales) = (floats(2 * BATCH * KV * ROOM * SIZE, 5), floats(KV * SIZE, 6));
    let scales: Vec<f32> = scales.iter().map(|scale| 0.01 + scale.abs() / 20.0).collect();
    let biases = floats(BATCH * HEADS * 12 * ROOM, 7);
    let sinks = floats(HEADS, 8);
    let mut checked = 0;
    for (held, is_one, queries) in [Held::F32, Held::Bytes, Held::Nibbles, Held::F16].into_iter().flat_map(|held| {
        [true, false]
            .into_iter()
            .flat_map(move |one| [1usize, 9, 12].into_iter().map(move |queries| (held, one, queries)))
    }) {
        let scales = if is_one { &scales[..1] } else { &scales[..] };
        // The bytes that the cache holds, and the numbers that they stand for.
        let row = held.row_bytes(SIZE);
        let mut bytes = vec![0u8; numbers.len() / SIZE * row];
        for (at, (to, from)) in bytes.chunks_exact_mut(row).zip(numbers.chunks_exact(SIZE)).enumerate() {
            quantize(crate::isa::Isa::Portable, held, from, Scales(scales), at / ROOM % KV, to);
        }
        let signed: Vec<i8> = bytes.iter().map(|&byte| byte as i8).collect();
        let halves: Vec<f16> = bytes.chunks_exact(2).map(|half| f16::from_ne_bytes([half[0], half[1]])).collect();
        let half = bytes.len() / 2;
        let cells = |of: usize| match held {
            Held::F32 => Cells::F32(&numbers[of * numbers.len() / 2..][..numbers.len() / 2]),
            Held::Bytes => Cells::Bytes(&signed[of * half..][..half], Scales(scales)),
            Held::Nibbles => Cells::Nibbles(&bytes[of * half..][..half], Scales(scales)),
            Held::F16 => Cells::F16(&halves[of * numbers.len() / 2..][..numbers.len() / 2]),
        };
        let widened = [0, 1].map(|of| {
            let mut all = vec![0.0; numbers.len() / 2];
            for (line, to) in all.chunks_exact_mut(ROOM * SIZE).enumerate() {
                cells(of).widen(crate::isa::Isa::Portable, line * ROOM..(line + 1) * ROOM, line % KV, SIZE, to);
            }
            all
        });
        // The second batch has four valid queries, and its padding sees what they see.
        let (keys, before) = ([410, 37], [410 - queries, 37 - queries.min(4)]);
        let query = floats(BATCH * queries * HEADS * SIZE, 3);
        let mut expected = vec![0.0; query.len()];
        for (line, to) in expected.chunks_exact_mut(SIZE).enumerate() {
            let (batch, at, head) = (line / HEADS / queries, line / HEADS % queries, line % HEADS);
            let first = (batch * KV + head / SHARED) * ROOM * SIZE;
            let seen = keys[batch].min(before[batch] + at + 1);
            let score = |key: usize| {
                let pairs = query[line * SIZE..][..SIZE].iter().zip(&widened[0][first + key * SIZE..]);
                let product: f64 = pairs.map(|(query, key)| f64::from(*query) * f64::from(*key)).sum();
                product * 0.25 + f64::from(biases[((batch * HEADS + head) * queries + at) * ROOM + batch + key])
            };
            let weights: Vec<f64> = (0..seen).map(|key| score(key).exp()).collect();
            let sum = weights.iter().sum::<f64>() + f64::from(sinks[head]).exp();
            for (feature, to) in to.iter_mut().enumerate() {
                let value = |key: usize| f64::from(widened[1][first + key * SIZE + feature]);
                *to = weights.iter().enumerate().map(|(key, weight)| weight / sum * value(key)).sum::<f64>() as f32;
            }
        }
        let masked =
            AttentionShape { held, mask: Some(Strides::default()), ..shape(&keys, queries, KeyRange::Cache, None) };
        // Over single positions, heads that share keys are queries.
        let (head, row) = if queries == 1 { (SHARED, 1) } else { (1, 0) };
        let [bias_head, bias_row] = if queries == 1 { [SHARED * ROOM, ROOM] } else { [queries * ROOM, ROOM] };
        let (batch, first) = (HEADS * queries * ROOM, [0, 1]);
        let cache = Cache {
            before: &before,
            sink: Some(Sink { scores: &sinks, head, row }),
            bias: Some(Bias { elements: &biases, batch, head: bias_head, row: bias_row, first: &first }),
            ..plain(&keys, [cells(0), cells(1)])
        };
        for (isa, elements) in forms_of(held) {
            let masked = AttentionShape { elements, ..masked };
            let allowed = if masked.is_paired() { PAIRED } else { 2e-5 };
            for blocks in [AttentionBlocks::pick(isa, &masked, 2), AttentionBlocks::in_order(isa, &masked, 2)] {
                let attention = Attention::new(isa, masked, blocks, &EmitEach).unwrap();
                let mut scratch = Canaried::new(attention.scratch_len());
                let mut output = Canaried::new(expected.len());
                attention.run_cached(&query, &cache, output.inside(), scratch.inside(), &Scoped).unwrap();
                scratch.open();
                for (at, (found, expected)) in output.open().into_iter().zip(&expected).enumerate() {
                    let what = format!("{isa}, {elements:?}, {held:?}, {blocks:?}, {queries} queries");
                    assert!((found - expected).abs() <= allowed, "{what}: {found} at {at}, expected {expected}");
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 12 * 2, "{checked}");
}

#[test]
fn scratch_over_codes_is_that_of_a_block() {
    let isa = crate::isa::Isa::detect();
    let len = |queries: usize, room: u64| {
        let shape = AttentionShape { keys: room, held: Held::Bytes, ..shape(&[9], queries, KeyRange::Cache, None) };
        let blocks = AttentionBlocks::pick(isa, &shape, 1);
        Attention::new(isa, shape, blocks, &EmitEach).unwrap().scratch_len()
    };
    for queries in [1, 9, 300] {
        assert_eq!(len(queries, 1 << 12), len(queries, 1 << 20), "{queries} queries");
    }
}
