//! The cost of a hit: `cargo bench --bench cache [-- ROW...]`.
//!
//! 512 keys of 100 bytes are looked up in a fixed random order, by one thread and by two that contend. Beside that
//! stand the cost of a key that is the same as at its user's last look-up, the cost of the parts alone (hashing the
//! key), and the cost of the plainest cache (one mutex around one `lru`). Rounds are about a millisecond, and each
//! figure is their first decile, so that a busy machine spoils rounds and not the figure. Threads that take turns on
//! one processor do not contend: with two threads, only rounds that ran side by side count.

#![allow(clippy::print_stdout, reason = "a bench prints")]

use std::hash::BuildHasher;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hashbrown::DefaultHashBuilder;
use kiln_cache::{Built, Cache, Key, Limits, Memo};

const KEYS: usize = 512;
const LOOKUPS: usize = 1 << 15;
const ROUNDS: usize = 200;
/// With fewer rounds than this, over all threads, there is no figure.
const FEWEST: usize = 20;

/// A key of 100 bytes, written as keys of executors are: a field for each size.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "problem", value = u64)]
struct Problem {
    batch: u32,
    channels: u32,
    outputs: u32,
    height: u32,
    width: u32,
    kernel: (u32, u32),
    stride: (u32, u32),
    dilation: (u32, u32),
    pads: (u64, u64),
    row_stride: u64,
    image_stride: u64,
    groups: u32,
    slope: kiln_key::F32Bits,
    residual: Option<u32>,
    threads: u32,
    layout: u8,
    element: u8,
    bias: bool,
    strict: bool,
}

fn problem(number: u32) -> Problem {
    Problem {
        batch: 1,
        channels: 64,
        outputs: 128,
        height: number,
        width: 56,
        kernel: (3, 3),
        stride: (1, 1),
        dilation: (1, 1),
        pads: (1, 1),
        row_stride: 3584,
        image_stride: 200_704,
        groups: 1,
        slope: kiln_key::F32Bits::new(0.01),
        residual: None,
        threads: 2,
        layout: 1,
        element: 4,
        bias: true,
        strict: false,
    }
}

fn build(key: &Problem, (): &()) -> Result<Built<u64>, std::convert::Infallible> {
    Ok(Built { value: u64::from(key.height), bytes: 1000, from_record: false })
}

/// Keys to look up, in a random order that is the same each time; each thread starts at another place.
fn order(thread: usize) -> Vec<Problem> {
    let mut random = 0x9E37_79B9_u32 ^ (thread as u32) << 7;
    let next = |_| {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        problem(random % KEYS as u32)
    };
    (0..4 * KEYS).map(next).collect()
}

/// A round of one thread: its start and end, in nanoseconds.
type Span = (f64, f64);

/// Whether all spans overlap for the most part.
fn side_by_side(spans: &[Span]) -> bool {
    let bounds = |pick: fn(&Span) -> f64| {
        spans.iter().map(pick).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)))
    };
    let (begin, end) = (bounds(|span| span.0), bounds(|span| span.1));
    end.0 - begin.1 > 0.8 * (end.1 - begin.0)
}

/// Nanoseconds of a look-up: the first decile over the rounds that ran side by side. `None` if hardly any did.
fn measure(threads: usize, look_up: impl Fn(&Problem) -> u64 + Sync) -> Option<f64> {
    measure_with(threads, |(), key| look_up(key))
}

/// As [`measure`], for look-ups that change state of their thread.
fn measure_with<T: Default>(threads: usize, look_up: impl Fn(&mut T, &Problem) -> u64 + Sync) -> Option<f64> {
    let base = Instant::now();
    // Threads that sleep at a barrier wake one after the other and would not overlap; these wait awake.
    let arrived = AtomicUsize::new(0);
    let spans: Vec<Vec<Span>> = std::thread::scope(|scope| {
        let run = |thread| {
            let (arrived, look_up) = (&arrived, &look_up);
            scope.spawn(move || {
                let (order, mut own) = (order(thread), T::default());
                let mut spans = Vec::new();
                for round in 1..=ROUNDS {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    while arrived.load(Ordering::SeqCst) < round * threads {
                        std::hint::spin_loop();
                    }
                    let begin = base.elapsed().as_nanos() as f64;
                    let mut sum = 0;
                    for key in order.iter().cycle().take(LOOKUPS) {
                        sum += look_up(&mut own, black_box(key));
                    }
                    black_box(sum);
                    spans.push((begin, base.elapsed().as_nanos() as f64));
                }
                spans
            })
        };
        let threads: Vec<_> = (0..threads).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let rounds = (0..ROUNDS).map(|round| spans.iter().filter_map(|spans| spans.get(round).copied()).collect());
    let together = rounds.filter(|spans: &Vec<Span>| spans.len() == threads && side_by_side(spans));
    let mut costs: Vec<f64> = together.flatten().map(|(begin, end)| (end - begin) / LOOKUPS as f64).collect();
    costs.sort_by(f64::total_cmp);
    (costs.len() >= FEWEST).then(|| costs[costs.len() / 10])
}

fn main() {
    let limits = Limits { entries: 16_384, bytes: 256 << 20 };
    let cache = Cache::new(limits);
    let plain = Mutex::new(lru::LruCache::new(NonZeroUsize::new(limits.entries).unwrap_or(NonZeroUsize::MIN)));
    for number in 0..KEYS as u32 {
        let key = problem(number);
        if let (Ok((value, _)), Ok(mut plain)) = (cache.get_or_create(&key, &(), build), plain.lock()) {
            plain.put(key, value);
        }
    }
    let hasher = DefaultHashBuilder::default();
    let hash = |key: &Problem| hasher.hash_one(key);
    let kiln = |key: &Problem| cache.get_or_create(key, &(), build).map_or(0, |(value, _)| *value);
    let held = |key: &Problem| cache.hold(key, &(), build).map_or(0, |(value, _)| *value);
    let same = problem(7);
    let unchanged = |memo: &mut Memo<Problem>, _: &Problem| {
        memo.get_or_create(&cache, black_box(&same), &(), build).map_or(0, |(value, _)| **value)
    };
    // The least cost of any cache that hands out shared values: the count of each value's owners goes up and down.
    let values: Vec<Arc<u64>> = (0..KEYS as u32).filter_map(|number| cache.get(&problem(number))).collect();
    let counted = |key: &Problem| values.get(key.height as usize).map_or(0, |value| *Arc::clone(value));
    let mutex = |key: &Problem| {
        let found: Option<Arc<u64>> = plain.lock().ok().and_then(|mut plain| plain.get(key).cloned());
        found.map_or(0, |value| *value)
    };
    println!("a hit among {KEYS} keys of {} bytes, ns a look-up", std::mem::size_of::<Problem>());
    println!("{:34} {:>9} {:>9} {:>10}", "", "1 thread", "2 threads", "throughput");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let row = |name: &str, one: &dyn Fn(usize) -> Option<f64>| {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            match (one(1), one(2)) {
                (Some(one), Some(two)) => println!("{name:34} {one:9.1} {two:9.1} {:>9.2}x", 2.0 * one / two),
                (Some(one), None) => println!("{name:34} {one:9.1} the threads did not run side by side"),
                _ => println!("{name:34} nothing measured"),
            }
        }
    };
    row("hashing the key alone", &|threads| measure(threads, hash));
    row("counting owners alone", &|threads| measure(threads, counted));
    row("cache", &|threads| measure(threads, kiln));
    row("cache, values held", &|threads| measure(threads, held));
    row("memo, an unchanged key", &|threads| measure_with(threads, unchanged));
    row("one mutex around one lru", &|threads| measure(threads, mutex));
}
