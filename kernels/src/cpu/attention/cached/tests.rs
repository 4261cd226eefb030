//! Attention over a cache against the reference, which is given each batch by itself and a condition for its window.

use super::super::shape::{AttentionBlocks, Strides};
use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};
use crate::cpu::{Elements, EmitEach, Stored};
use crate::parallel::Serial;
use crate::reference::attention as reference;

const HEADS: usize = 4;
const SHARED: usize = 2;
const SIZE: usize = 20;
/// Rows that a head of the cache has room for.
const ROOM: usize = 450;

fn floats(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

/// Steps of batches with these keys. Where they are single and see all keys, the heads that share keys are queries.
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

#[test]
fn every_batch_sees_its_own_keys_and_its_window() {
    let lengths: [&[usize]; 4] = [&[9], &[70, 9, 31], &[450, 9], &[388, 449]];
    let mut checked = 0;
    for keys in lengths {
        let per_batch = HEADS / SHARED * ROOM * SIZE;
        let cache = [1, 2].map(|seed| Poisoned::new(&floats(keys.len() * per_batch, seed)));
        for (queries, window, cap) in [1usize, 2, 9].into_iter().flat_map(|queries| {
            [None, Some(1), Some(7), Some(400)]
                .into_iter()
                .flat_map(move |window| [None, Some(0.5)].into_iter().map(move |cap| (queries, window, cap)))
        }) {
            let range = if window.is_some() { KeyRange::Window } else { KeyRange::Cache };
            let shape = shape(keys, queries, range, cap);
            let query = Poisoned::new(&floats(keys.len() * queries * HEADS * SIZE, 3));
            let all = [query.inside(), cache[0].inside(), cache[1].inside()];
            let own = |(batch, &keys): (usize, &usize)| {
                expected(batch, queries, keys, window.unwrap_or(usize::MAX), cap, all)
            };
            let expected: Vec<f32> = keys.iter().enumerate().flat_map(own).collect();
            let operands = Operands { query: all[0], key: all[1], value: all[2], mask: None, keep: None };
            let cache = Cache { keys, batch: per_batch, head: ROOM * SIZE, window: window.unwrap_or(0) };
            for isa in levels() {
                for blocks in [AttentionBlocks::pick(isa, &shape, 2), AttentionBlocks::in_order(isa, &shape, 2)] {
                    let attention = Attention::new(isa, shape, blocks, &EmitEach).unwrap();
                    let mut scratch = Canaried::new(attention.scratch_len());
                    let mut output = Canaried::new(expected.len());
                    attention.run_cached(&operands, &cache, output.inside(), scratch.inside(), &Scoped).unwrap();
                    scratch.open();
                    for (at, (found, expected)) in output.open().into_iter().zip(&expected).enumerate() {
                        let what = format!("{isa}, {blocks:?}, keys {keys:?}, {queries} queries, {window:?}, {cap:?}");
                        assert!((found - expected).abs() <= 1e-5, "{what}: {found} at {at}, expected {expected}");
                    }
                    checked += 1;
                }
            }
        }
    }
    assert!(checked >= 4 * 24 * 2, "{checked}");
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
        let cache = Cache { keys, batch, head: ROOM * SIZE, window: 0 };
        let operands = Operands { query: &query[..], key: rows, value: rows, mask: None, keep: None };
        let (mut output, mut scratch) = (vec![0.0; query.len()], vec![0.0; attention.scratch_len()]);
        attention.run_cached(&operands, &cache, &mut output, &mut scratch, &Serial)
    };
    run(&[9, 450], per_batch, &rows).unwrap();
    for keys in [&[9][..], &[9, 2], &[9, 451], &[9, usize::MAX]] {
        assert!(matches!(run(keys, per_batch, &rows), Err(KernelError::Unsupported { .. })), "{keys:?}");
    }
    let bounds = |result: Result<()>| matches!(result, Err(KernelError::Bounds { operand: "keys", .. }));
    assert!(bounds(run(&[9, 450], per_batch, &rows[1..])));
    assert!(bounds(run(&[9, 9], usize::MAX / 2, &rows)));
    let operands = Operands { query: &query[..], key: &rows[..], value: &rows, mask: None, keep: None };
    let (mut output, mut scratch) = (vec![0.0; query.len()], vec![0.0; attention.scratch_len()]);
    let plain = attention.run(&operands, &mut output, &mut scratch, &Serial);
    assert!(matches!(plain, Err(KernelError::Unsupported { .. })), "a shape for a cache needs one");
}
