//! The cost of records: `cargo bench --bench records`.
//!
//! A small model's load beside 100,000 records: executors of other models, their requests and its own. Each kind lies
//! in the order of writing, in no order, in shards and in schema 2 (`-- beside` measures this alone). Then loading
//! 100,000, saving 10,000, looking one up, and inserting one, with keys as large as a convolution's. Then executors of
//! products rebuilt from their records, by one thread as fast as it can, and the whole way of a process from a file of
//! 1,000 to executors that are ready. Each figure is the least of several rounds, except the first ones, which are
//! medians. The targets are 5 ms more for the model, 100 ms for loading, 50 ms for saving, 50,000 executors a second,
//! and 20 ms.

#![allow(clippy::print_stdout, reason = "a bench prints")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln::session::{Session, SessionError, SessionOptions};
use kiln_cache::{Cache, Limits};
use kiln_kernels::cpu::Elements;
use kiln_key::{F32Bits, Key};
use kiln_model::GraphBuilder;
use kiln_run::exec::matmul::{MatMulKey, MatMulProblem, Stored};
use kiln_run::exec::request::{InputShape, RequestKey};
use kiln_run::exec::{BuildCx, Family, Target};
use kiln_run::record::{CacheMode, Evidence, Fingerprint, Record, Recorded, Store, encode, inspect_file};
use kiln_tensor::{DType, Tensor};
use serde::{Deserialize, Serialize};

const ROUNDS: usize = 5;

/// A key with the same number and kinds of fields as a convolution's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "problem", value = ())]
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

/// The context of one thread's builders, with nothing built yet.
fn context(records: Store) -> BuildCx {
    let options = SessionOptions::default();
    BuildCx {
        isa: options.isa(),
        threads: 1,
        numerics: options.numerics,
        precision: options.precision,
        cache: Arc::new(Cache::new(Limits { entries: 1 << 20, bytes: 1 << 30 })),
        records: Arc::new(records),
        check: false,
        gpu: None,
    }
}

/// A product of weights with `columns` columns.
fn product(cx: &BuildCx, columns: u64) -> MatMulKey {
    let problem = MatMulProblem {
        m: 1 + columns,
        n: 256,
        k: 64,
        batch: smallvec::SmallVec::new(),
        left: Stored::Rows,
        right: Stored::Rows,
        elements: Elements::F32,
        scale: F32Bits::new(1.0),
        bias: true,
        activation: None,
        stored: Default::default(),
    };
    MatMulKey::new(Target::new(cx.isa, 1), problem)
}

/// Builds the executors of `count` products from a file of their records: the time of the whole, and of the building
/// alone.
fn rebuild(folder: &Path, count: u64) -> (Duration, Duration) {
    let prepared = open(folder);
    let cx = context(Store::in_memory());
    for number in 0..count {
        let key = product(&cx, number);
        prepared.insert(&key, &key.choose(&cx), Evidence::measured(1000 + number, 5));
    }
    drop(prepared.save());
    drop(cx);
    let (mut whole, mut building) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let cx = context(open(folder));
        let loaded = Instant::now();
        let built = cx.records.keys::<MatMulKey>().iter().filter(|key| cx.executor(*key).is_ok()).count();
        (whole, building) = (whole.min(started.elapsed()), building.min(loaded.elapsed()));
        assert_eq!(built as u64, count, "every record became an executor");
    }
    (whole, building)
}

/// The records in the file beside a small model's own.
#[derive(Clone, Copy, Debug)]
enum Beside {
    /// Executors of other models.
    Executors,
    /// Requests of other models, 64 of each.
    Requests,
    /// Requests of this model.
    Own,
}

/// A small model.
fn small(options: &SessionOptions) -> Result<Session, SessionError> {
    let mut builder = GraphBuilder::new("beside", 17);
    let x = builder.input("x", DType::F32, ["n".into(), "m".into()]);
    let soft = builder.op("Softmax", &[x], &[]);
    builder.output("y", soft);
    Session::from_graph(builder.finish(), options)
}

/// A folder with a small model's own records and `foreign` others.
fn folder_with(beside: Beside, foreign: u64) -> Result<tempfile::TempDir, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let options = SessionOptions { threads: 1, cache_dir: Some(folder.path().into()), ..SessionOptions::default() };
    let first = small(&options)?;
    first.run(&[("x", Tensor::from_slice([2, 3], &[0f32; 6])?)])?;
    let records = first.build_cx().records.clone();
    let own = records.keys::<RequestKey>().first().map(|key| key.model).ok_or("the request left no record")?;
    let request = |model, dims| {
        let inputs = vec![Some(InputShape { dtype: DType::F32, dims })];
        RequestKey { model, threads: 1, inputs }.note(1000, 2, &records);
    };
    for number in 0..foreign {
        match beside {
            Beside::Executors => fill(&records, number..number + 1),
            // Like digests: no small numbers.
            Beside::Requests => {
                let model = (1 + number / 64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                request(model, vec![1 + number % 64, 3, 224]);
            }
            Beside::Own => request(own, vec![3 + number % 1000, 1 + number / 1000]),
        }
    }
    first.save_records()?;
    Ok(folder)
}

/// How the records lie in the folder.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// In a file, in order.
    InOrder,
    /// In a file, in no order.
    InNoOrder,
    /// In three shards of the largest allowed size.
    InShards,
    /// In a file of schema 2.
    OfSchema2,
}

/// A file with that header and these payloads.
fn laid_out<'a>(header: &[u8], payloads: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut file, mut count) = (header.to_vec(), 0_u32);
    for payload in payloads {
        let length = (payload.len() as u32).to_le_bytes();
        file.extend([length, crc32fast::hash(&[&length, payload].concat()).to_le_bytes()].concat());
        file.extend(payload);
        count += 1;
    }
    file.extend([u32::MAX.to_le_bytes(), count.to_le_bytes()].concat());
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file
}

/// Rewrites the folder's file with its records in another layout; all checksums are right.
fn lay_out(folder: &Path, layout: Layout) -> Result<(), Box<dyn std::error::Error>> {
    const HEADER: usize = 64;
    const FOOTER: usize = 12;
    let ours = |path: &PathBuf| path.extension().is_some_and(|end| end == "kiln");
    let path = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).find(ours).ok_or("there is no file")?;
    let bytes = std::fs::read(&path)?;
    let mut payloads: Vec<&[u8]> = Vec::new();
    let mut rest = &bytes[HEADER..bytes.len() - FOOTER];
    while let Some(&length) = rest.first_chunk() {
        let (frame, after) = rest.split_at(8 + u32::from_le_bytes(length) as usize);
        payloads.push(&frame[8..]);
        rest = after;
    }
    match layout {
        Layout::InOrder => {}
        Layout::InShards => {
            for (number, payloads) in payloads.chunks(40_000).enumerate() {
                let shard = path.with_extension(format!("{number}.00ff.shard"));
                std::fs::write(shard, laid_out(&bytes[..HEADER], payloads.iter().copied()))?;
            }
            std::fs::remove_file(path)?;
        }
        Layout::InNoOrder => {
            let mut random = 1_u64;
            for place in (1..payloads.len()).rev() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                payloads.swap(place, (random >> 33) as usize % (place + 1));
            }
            std::fs::write(path, laid_out(&bytes[..HEADER], payloads.into_iter()))?;
        }
        Layout::OfSchema2 => {
            let mut header = bytes[..HEADER - 4].to_vec();
            header[8] = 2;
            header.extend(crc32fast::hash(&header).to_le_bytes());
            let mut payloads = Vec::new();
            for Record { family, revision, key, choice, evidence } in inspect_file(&path)?.records {
                let Evidence { kind, nanos, samples, created, against, .. } = evidence;
                payloads.push(encode(&(
                    family,
                    revision,
                    key,
                    choice,
                    (kind as u32, nanos, samples, created, against),
                ))?);
            }
            std::fs::write(path, laid_out(&header, payloads.iter().map(Vec::as_slice)))?;
        }
    }
    Ok(())
}

/// How much longer a small model loads beside that many records, in milliseconds: the difference of the least times and
/// of the medians, over loads in turn with and without these records. Other work on the machine shows in the medians.
fn beside(what: Beside, layout: Layout, foreign: u64) -> Result<[f64; 2], Box<dyn std::error::Error>> {
    let (alone, shared) = (folder_with(what, 0)?, folder_with(what, foreign)?);
    lay_out(shared.path(), layout)?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..101 {
        for (folder, times) in [&alone, &shared].into_iter().zip(&mut times) {
            // Nothing is written, so that records in no order stay so.
            let options = SessionOptions {
                threads: 1,
                cache_dir: Some(folder.path().into()),
                cache_mode: CacheMode::Read,
                ..SessionOptions::default()
            };
            let started = Instant::now();
            let session = small(&options)?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            let least = if std::ptr::eq(folder, &shared) { foreign } else { 1 };
            assert!(session.record_stats().loaded >= least);
        }
    }
    let [alone, shared] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [times[0], times[times.len() / 2]]
    });
    Ok([shared[0] - alone[0], shared[1] - alone[1]])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for what in [Beside::Executors, Beside::Requests, Beside::Own] {
        for layout in [Layout::InOrder, Layout::InNoOrder, Layout::InShards, Layout::OfSchema2] {
            let [least, median] = beside(what, layout, 100_000)?;
            println!(
                "load a small model beside 100,000 records ({what:?}, {layout:?}): \
                 {median:.2} ms more by the median, {least:.2} by the least (target 5)"
            );
        }
    }
    if std::env::args().any(|argument| argument == "beside") {
        return Ok(());
    }
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

    let few = tempfile::tempdir()?;
    let (whole, _) = rebuild(few.path(), 1000);
    println!("1,000 records from the file to executors: {:.2} ms (target 20)", whole.as_secs_f64() * 1e3);
    let many = tempfile::tempdir()?;
    let (_, building) = rebuild(many.path(), 10_000);
    println!("rebuild 10,000 executors: {:.0} a second and core (target 50000)", 1e4 / building.as_secs_f64());
    Ok(())
}
