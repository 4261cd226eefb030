//! What records cost: `cargo bench --bench records`.
//!
//! Loading 100,000, saving 10,000, looking one up, and inserting one; with keys as large as a convolution's. Each figure
//! is the least of several rounds. The targets are 100 ms for loading and 50 ms for saving.

#![allow(clippy::print_stdout, reason = "a bench prints")]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use kiln::cache::Key;
use kiln::record::{CacheMode, Evidence, Fingerprint, Recorded, Store};

const ROUNDS: usize = 5;

kiln::key! {
    /// A key with as many fields of such kinds as a convolution's.
    struct Problem {
        level: u32,
        threads: u32,
        batch: u64,
        channels: u64,
        filters: u64,
        groups: u64,
        input: [u64; 3],
        output: [u64; 3],
        kernel: [u64; 3],
        strides: [u64; 3],
        dilations: [u64; 3],
        pads: [u64; 3],
        activation: Option<u32>,
    }
}

impl Key for Problem {
    type Value = ();
    const FAMILY: &'static str = "problem";
}

impl Recorded for Problem {
    const REVISION: u32 = 1;
    type Choice = (u32, u8, u32, u32, u32);
}

fn problem(number: u64) -> Problem {
    let size = 7 + number % 251;
    Problem {
        level: 1,
        threads: 2,
        batch: 1 + number / 63_001,
        channels: 64,
        filters: 128 + number / 251 % 251,
        groups: 1,
        input: [1, size, 56],
        output: [1, size, 56],
        kernel: [1, 3, 3],
        strides: [1, 1, 1],
        dilations: [1, 1, 1],
        pads: [0, 1, 1],
        activation: Some(3),
    }
}

fn fill(store: &Store, numbers: std::ops::Range<u64>) {
    for number in numbers {
        store.insert(&problem(number), &(2, 2, number as u32 % 97, 3, 1), Evidence::measured(91_000 + number, 25));
    }
}

fn least(mut round: impl FnMut() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}

fn open(folder: &Path) -> Store {
    Store::open(folder, &Fingerprint::from_facts([("machine", "of the bench")]), CacheMode::ReadWrite)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = open(folder.path());
    fill(&store, 0..100_000);
    let report = store.save()?;
    let each = report.bytes / report.written;
    let load = least(|| {
        let started = Instant::now();
        let store = open(folder.path());
        let took = started.elapsed();
        assert_eq!(store.stats().records, 100_000);
        took
    });
    println!("load 100,000 records of {each} bytes: {:.1} ms (target 100)", load.as_secs_f64() * 1e3);

    let save = least(|| {
        let Ok(folder) = tempfile::tempdir() else { return Duration::MAX };
        let store = open(folder.path());
        fill(&store, 0..10_000);
        let started = Instant::now();
        let saved = store.save();
        let took = started.elapsed();
        if saved.is_ok_and(|report| report.written == 10_000) { took } else { Duration::MAX }
    });
    println!("save 10,000 records: {:.1} ms (target 50)", save.as_secs_f64() * 1e3);

    let again = least(|| {
        let Ok(folder) = tempfile::tempdir() else { return Duration::MAX };
        let store = open(folder.path());
        fill(&store, 0..10_000);
        if store.save().is_err() {
            return Duration::MAX;
        }
        fill(&store, 10_000..10_001);
        let started = Instant::now();
        let saved = store.save();
        let took = started.elapsed();
        if saved.is_ok_and(|report| report.written == 10_001) { took } else { Duration::MAX }
    });
    println!("add one record to 10,000 in the file: {:.1} ms", again.as_secs_f64() * 1e3);

    let known: Vec<Problem> = (0..1000).map(|number| problem(number * 97)).collect();
    let lookup = least(|| {
        let started = Instant::now();
        for key in &known {
            black_box(store.lookup(key));
        }
        started.elapsed()
    });
    println!("look a record up among 100,000: {} ns", lookup.as_nanos() / known.len() as u128);
    let mut number = 200_000;
    let insert = least(|| {
        let started = Instant::now();
        fill(&store, number..number + 1000);
        number += 1000;
        started.elapsed()
    });
    println!("insert a record: {} ns", insert.as_nanos() / 1000);
    Ok(())
}
