//! The cost of a new shape below a node: emission, executors on known and on new code, executors from records. `cargo
//! bench --bench emission`. Figures are medians and 99th percentiles over thousands of single operations. The targets
//! are 3 us (10 at the 99th) for emission and sealing, 3 us for a new shape on known code and 15 us on new code.

#![allow(clippy::print_stdout, reason = "a bench prints")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use kiln_cache::{Cache, Limits};
use kiln_kernels::cpu::conv::ConvShape;
use kiln_kernels::cpu::{Elements, Numerics};
use kiln_kernels::{CodeKey, Isa};
use kiln_run::exec::conv::{ConvKey, ConvProblem};
use kiln_run::exec::matmul::{MatMulKey, MatMulProblem, Stored};
use kiln_run::exec::{BuildCx, Family, Target};
use kiln_run::record::{CacheMode, Fingerprint, Store};

const THREADS: usize = 1;
const SHAPES: u64 = 10_000;

fn context(records: Arc<Store>) -> BuildCx {
    BuildCx {
        isa: Isa::detect(),
        threads: THREADS,
        numerics: Numerics::Default,
        precision: Default::default(),
        cache: Arc::new(Cache::new(Limits { entries: 1 << 16, bytes: 1 << 30 })),
        records,
        check: false,
        gpu: None,
    }
}

fn product(m: u64) -> MatMulKey {
    let problem = MatMulProblem {
        m,
        n: 768,
        k: 768,
        batch: Default::default(),
        left: Stored::Rows,
        right: Stored::Packed(2),
        elements: Elements::F32,
        scale: 1.0.into(),
        bias: true,
        activation: None,
        stored: Default::default(),
    };
    MatMulKey::new(Target::new(Isa::detect(), THREADS), problem)
}

/// Images of `number` pixels a line.
fn convolution(number: u64) -> ConvKey {
    let (height, width) = (8 + number / 100, 8 + number % 100);
    let shape = ConvShape {
        batch: 1,
        channels: 64,
        filters: 64,
        groups: 1,
        input: [1, height, width],
        output: [1, height, width],
        kernel: [1, 3, 3],
        strides: [1; 3],
        dilations: [1; 3],
        pads: [0, 1, 1],
        transposed: false,
    };
    let (elements, stored) = (Elements::F32, Default::default());
    let problem = ConvProblem { shape, elements, stored, numerics: Numerics::Default, activation: None };
    ConvKey::new(Target::new(Isa::detect(), THREADS), problem)
}

/// Prints the median and the 99th percentile of nanoseconds, in microseconds.
fn row(name: &str, mut nanos: Vec<u128>) {
    nanos.sort_unstable();
    let at = |share: usize| nanos.get(nanos.len() * share / 100).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3);
    println!("{name:52} {:9.2} {:9.2}", at(50), at(99));
}

fn timed<T>(operation: impl FnOnce() -> T) -> u128 {
    let started = Instant::now();
    let made = operation();
    let nanos = started.elapsed().as_nanos();
    drop(black_box(made));
    nanos
}

/// Emits the code that an executor requests, part by part.
fn emission<K: Family>(name: &str, key: &K) {
    let cx = context(Arc::new(Store::off()));
    let _ = cx.executor(key);
    for key in cx.cache.keys::<CodeKey>() {
        let parts = cx.cache.get(&key);
        for (part, code) in parts.iter().flat_map(|parts| parts.iter()) {
            let what = format!("{name}: {} {part} ({} bytes)", key.family(), code.bytes().len());
            row(&format!("{what}, emission"), (0..SHAPES).map(|_| timed(|| key.assemble(part))).collect());
            row(&format!("{what}, and sealing"), (0..SHAPES).map(|_| timed(|| key.emit(part))).collect());
        }
    }
}

fn new_shapes<K: Family>(name: &str, key: fn(u64) -> K) {
    let cx = context(Arc::new(Store::in_memory()));
    (0..100).for_each(|number| drop(cx.executor(&key(number + 1))));
    let hits = (100..SHAPES).map(|number| timed(|| cx.executor(&key(number + 1)).is_ok())).collect();
    row(&format!("{name}: new shape, known code"), hits);
    let misses = (0..2000).map(|number| {
        let cx = context(Arc::new(Store::in_memory()));
        timed(|| cx.executor(&key(number + 100)).is_ok())
    });
    row(&format!("{name}: new shape, new code"), misses.collect());
    let fresh = BuildCx { cache: Arc::new(Cache::new(cx.cache.limits())), ..cx };
    (0..100).for_each(|number| drop(fresh.executor(&key(number + 1))));
    let started = Instant::now();
    let rebuilt = (100..SHAPES).filter(|number| fresh.executor(&key(number + 1)).is_ok()).count();
    let rate = rebuilt as f64 / started.elapsed().as_secs_f64();
    println!("{:52} {rate:9.0} a second", format!("{name}: executors from records, known code"));
}

/// From a thousand records in a file to executors.
fn start(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let fingerprint = Fingerprint::from_facts([("bench", "emission")]);
    let open = || Arc::new(Store::open(folder, &fingerprint, CacheMode::ReadWrite));
    let cx = context(open());
    for number in 0..500 {
        cx.executor(&product(number + 1))?;
        cx.executor(&convolution(number))?;
    }
    cx.records.save()?;
    drop(cx);
    fn rebuild<K: Family>(cx: &BuildCx) -> usize {
        cx.records.keys::<K>().iter().filter(|key| cx.executor(*key).is_ok()).count()
    }
    let all = |cx: &BuildCx| rebuild::<MatMulKey>(cx) + rebuild::<ConvKey>(cx);
    let times = (0..20).map(|_| timed(|| all(&context(open())))).collect();
    row("1,000 records to executors, from the file on", times);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:52} {:>9} {:>9}", "us", "median", "99 %");
    emission("product", &product(64));
    emission("convolution", &convolution(4800));
    new_shapes("product", product);
    new_shapes("convolution", convolution);
    start(tempfile::tempdir()?.path())
}
