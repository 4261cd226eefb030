//! Steps over caches of several chunks, against sums in `f64`; and the same bits for any number of threads, other
//! sequences and room.

use half::f16;

use super::super::held::{Cells, Scales, quantize};
use super::super::shape::AttentionBlocks;
use super::super::{Bias, Cache, Pages, Sink};
use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};
use crate::cpu::{Elements, EmitEach, Stored};
use crate::isa::Isa;
use crate::problem::attention::{AttentionShape, Held, KeyRange, Strides};

/// Rows that a head of the cache has room for, in the tests' memory.
const ROOM: usize = 1100;
/// Heads of queries for one of keys.
const SHARED: usize = 3;

fn floats(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

/// The parts of a step beside products.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    window: Option<usize>,
    cap: Option<f32>,
    sink: bool,
    bias: bool,
    held: Held,
}

/// A cache, the queries that read it, and the numbers that it stands for.
struct Given {
    own: usize,
    size: usize,
    beside: Beside,
    keys: Vec<usize>,
    query: Vec<f32>,
    bytes: [Vec<u8>; 2],
    plain: [Poisoned; 2],
    /// The same bytes as numbers of `f16`.
    halves: [Vec<f16>; 2],
    scales: Vec<f32>,
    sinks: Vec<f32>,
    bias: Vec<f32>,
}

impl Given {
    fn new(own: usize, size: usize, keys: &[usize], beside: Beside) -> Given {
        let rows = keys.len() * own * ROOM;
        let scales = vec![0.07];
        let held = |seed: usize| {
            let numbers = floats(rows * size, seed);
            let row = beside.held.row_bytes(size);
            let mut bytes = vec![0u8; rows * row];
            for (to, from) in bytes.chunks_exact_mut(row).zip(numbers.chunks_exact(size)) {
                quantize(Isa::Portable, beside.held, from, Scales(&scales), 0, to);
            }
            (bytes, Poisoned::new(&numbers))
        };
        let halves = |bytes: &[u8]| -> Vec<f16> {
            bytes.chunks_exact(2).map(|half| f16::from_ne_bytes([half[0], half[1]])).collect()
        };
        let ([keys_held, values_held], units) = ([held(1), held(2)], keys.len() * own * SHARED);
        Given {
            own,
            size,
            beside,
            keys: keys.to_vec(),
            query: floats(units * size, 3).iter().map(|number| number * 4.0).collect(),
            halves: [halves(&keys_held.0), halves(&values_held.0)],
            bytes: [keys_held.0, values_held.0],
            plain: [keys_held.1, values_held.1],
            scales,
            sinks: floats(own * SHARED, 4),
            bias: floats(units * ROOM, 5),
        }
    }

    fn shape(&self, batch: usize, room: usize) -> AttentionShape {
        let strides = |batch: usize, head: usize, row: usize| {
            let [batch, head, row] = [batch, head, row].map(|elements| elements as u64);
            Strides { batch, head, row }
        };
        let size = self.size as u64;
        let each = strides(self.own * SHARED * self.size, SHARED * self.size, self.size);
        AttentionShape {
            batch: batch as u64,
            heads: self.own as u64,
            shared: 1,
            queries: SHARED as u64,
            keys: room as u64,
            size,
            value_size: size,
            query: each,
            key: strides(0, 0, self.size),
            key_columns: false,
            value: strides(0, 0, self.size),
            output: each,
            mask: self.beside.bias.then(Strides::default),
            keep: None,
            inverted: false,
            fill: f32::NEG_INFINITY.into(),
            scale: 0.5.into(),
            cap: self.beside.cap.map(Into::into),
            causal: None,
            range: if self.beside.window.is_some() { KeyRange::Window } else { KeyRange::Cache },
            held: self.beside.held,
            blind_is_zero: true,
            stored: Stored::F32,
            written: Stored::F32,
            elements: Elements::F32,
        }
    }

    fn cells(&self, side: usize) -> Cells<'_> {
        let bytes = &self.bytes[side];
        match self.beside.held {
            Held::F32 => Cells::F32(self.plain[side].inside()),
            Held::Bytes => Cells::Bytes(bytemuck::cast_slice(bytes), Scales(&self.scales)),
            Held::Nibbles => Cells::Nibbles(bytes, Scales(&self.scales)),
            Held::F16 => Cells::F16(&self.halves[side]),
        }
    }

    /// The results of these sequences, in this order, by blocks for `threads` threads.
    fn run(&self, isa: Isa, places: &[usize], room: usize, threads: usize, parallel: &dyn Parallel) -> Vec<f32> {
        let shape = self.shape(places.len(), room);
        let blocks = AttentionBlocks::pick(isa, &shape, threads);
        let attention = Attention::new(isa, shape, blocks, &EmitEach).unwrap();
        let (units, keys) = (self.own * SHARED, places.iter().map(|&place| self.keys[place]).collect::<Vec<_>>());
        let of = |all: &[f32], each: usize| -> Vec<f32> {
            places.iter().flat_map(|&place| all[place * each..][..each].to_vec()).collect()
        };
        let (query, bias) = (of(&self.query, units * self.size), of(&self.bias, units * ROOM));
        let first = vec![0; places.len()];
        let cache = Cache {
            key: self.cells(0),
            value: self.cells(1),
            keys: &keys,
            before: &[],
            pages: Pages { table: places, of_batch: 1, keys: ROOM, page: self.own * ROOM, head: ROOM },
            window: self.beside.window.unwrap_or(0),
            sink: self.beside.sink.then_some(Sink { scores: &self.sinks, head: SHARED, row: 1 }),
            bias: self.beside.bias.then_some(Bias {
                elements: &bias,
                batch: units * ROOM,
                head: SHARED * ROOM,
                row: ROOM,
                first: &first,
            }),
        };
        let (mut output, mut scratch) = (Canaried::new(query.len()), Canaried::new(attention.scratch_len()));
        attention.run_cached(&query, &cache, output.inside(), scratch.inside(), parallel).unwrap();
        scratch.open();
        output.open()
    }

    /// The result of a query, by sums in `f64`.
    fn expected(&self, place: usize, head: usize) -> Vec<f32> {
        let (size, own) = (self.size, head / SHARED);
        let first = (place * self.own + own) * ROOM;
        let keys = self.keys[place];
        let seen = keys.saturating_sub(self.beside.window.unwrap_or(usize::MAX))..keys;
        let rows = |side: usize| {
            let mut numbers = vec![0.0; seen.len() * size];
            self.cells(side).widen(Isa::Portable, first + seen.start..first + seen.end, own, size, &mut numbers);
            numbers
        };
        let [key, value] = [rows(0), rows(1)];
        let unit = place * self.own * SHARED + head;
        let query = &self.query[unit * size..][..size];
        let score = |at: usize| {
            let pairs = query.iter().zip(&key[at * size..]);
            let product = 0.5 * pairs.map(|(query, key)| f64::from(*query) * f64::from(*key)).sum::<f64>();
            let capped = self.beside.cap.map_or(product, |cap| (product / f64::from(cap)).tanh() * f64::from(cap));
            let bias = if self.beside.bias { self.bias[unit * ROOM + seen.start + at] } else { 0.0 };
            capped + f64::from(bias)
        };
        let scores: Vec<f64> = (0..seen.len()).map(score).collect();
        let sink = self.beside.sink.then(|| f64::from(self.sinks[head]));
        let most = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - most).exp());
        let result = |feature: usize| {
            let values = weights.iter().enumerate().map(|(at, weight)| weight * f64::from(value[at * size + feature]));
            if keys == 0 { 0.0 } else { (values.sum::<f64>() / sum) as f32 }
        };
        (0..size).map(result).collect()
    }
}

/// All that a step may have beside products.
fn all_beside() -> Vec<Beside> {
    let windows = [None, Some(1), Some(100), Some(256), Some(300), Some(800)].map(|window| (window, None, false));
    let others = [(None, Some(0.7), false), (None, None, true), (Some(600), Some(0.7), true)];
    let plain =
        windows.into_iter().chain(others).map(|(window, cap, sink)| Beside { window, cap, sink, ..<_>::default() });
    let mut all: Vec<Beside> = plain.collect();
    for held in [Held::Bytes, Held::Nibbles, Held::F16] {
        all.push(Beside { held, ..<_>::default() });
        all.push(Beside { held, window: Some(300), sink: true, bias: true, cap: Some(0.7) });
    }
    all.push(Beside { bias: true, ..<_>::default() });
    all
}

#[test]
fn chunks_merged_in_order_are_the_softmax_of_all_keys_on_any_threads() {
    let keys = [513, 1, 1100, 256, 0, 257, 700];
    let places: Vec<usize> = (0..keys.len()).collect();
    for (own, size) in [(1, 20), (2, 64), (1, 96)] {
        for beside in all_beside() {
            let given = Given::new(own, size, &keys, beside);
            let heads = own * SHARED;
            let expected: Vec<Vec<f32>> =
                (0..keys.len() * heads).map(|at| given.expected(at / heads, at % heads)).collect();
            for isa in levels().into_iter().filter(|isa| isa.is_jit()) {
                let all = given.run(isa, &places, 2048, 1, &Scoped);
                for (at, (found, expected)) in all.chunks_exact(size).zip(&expected).enumerate() {
                    let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= 2e-5);
                    assert!(near, "{isa} {own} {size} {beside:?} {at}: {found:?}, not {expected:?}");
                }
                for threads in 2..=4 {
                    assert_eq!(given.run(isa, &places, 2048, threads, &Scoped), all, "{isa} {beside:?} on {threads}");
                }
                // Alone, with another room, on few threads and many.
                for &place in &places {
                    let own = &all[place * heads * size..][..heads * size];
                    for (room, threads) in [(ROOM, 1), (4096, 2), (ROOM, 3), (2048, 7)] {
                        let alone = given.run(isa, &[place], room, threads, &Scoped);
                        assert_eq!(alone, own, "{isa} {beside:?}, sequence {place} on {threads}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_head_of_keys_keeps_all_threads_busy() {
    let given = Given::new(1, 64, &[1100], Beside::default());
    let shape = given.shape(1, 2048);
    for isa in levels().into_iter().filter(|isa| isa.is_jit()) {
        let blocks = AttentionBlocks::pick(isa, &shape, 3);
        assert_eq!((blocks.head_tasks(), blocks.query_tasks()), (3, 1));
        let counted = Counted::default();
        given.run(isa, &[0], 2048, 3, &counted);
        assert_eq!(*counted.0.lock().unwrap(), [3, 1], "a wave of all chunks on three threads, and its merge");
        // A head of one chunk is one task.
        let short = Given::new(1, 64, &[200], Beside::default());
        let counted = Counted::default();
        short.run(isa, &[0], 2048, 3, &counted);
        assert_eq!(*counted.0.lock().unwrap(), [1]);
    }
}

#[test]
fn scratch_is_bounded_by_threads_and_not_by_the_room_of_the_cache() {
    let given = Given::new(1, 64, &[1], Beside::default());
    let isa = Isa::detect();
    if !isa.is_jit() {
        return;
    }
    let len = |room: usize, threads: usize| {
        let shape = given.shape(1, room);
        let blocks = AttentionBlocks::pick(isa, &shape, threads);
        Attention::new(isa, shape, blocks, &EmitEach).unwrap().scratch_len()
    };
    for threads in [1, 2, 4] {
        assert_eq!(len(1 << 12, threads), len(1 << 22, threads));
    }
}

#[test]
fn a_step_that_is_stopped_returns() {
    let given = Given::new(1, 20, &[1100, 900], Beside::default());
    for (isa, threads) in levels().into_iter().filter(|isa| isa.is_jit()).flat_map(|isa| [(isa, 1), (isa, 3)]) {
        given.run(isa, &[0, 1], 2048, threads, &Stopped);
    }
}

/// Counts the tasks of each fork.
#[derive(Default)]
struct Counted(std::sync::Mutex<Vec<usize>>);

impl Parallel for Counted {
    fn threads(&self) -> usize {
        3
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.0.lock().unwrap().push(tasks);
        (0..tasks).for_each(task);
    }
}

/// A request that has been cancelled.
struct Stopped;

impl Parallel for Stopped {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }

    fn is_stopped(&self) -> bool {
        true
    }
}
