//! Whole records of real models (keys, choices and requests), changed in every way that a file can hold. Whatever they
//! say, a model loads within its time and within little memory, and computes the same results as without them.
//!
//! The work is done in a process of its own with 2 GB of addresses and a time limit: an allocation for a forged size
//! ends it, as it would end a server. This does it for 100,000 records: `cargo test --release --test record --
//! --ignored a_hundred_thousand_mutated`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln::session::{CacheKind, Session, SessionOptions};
use kiln_model::ir::Dim;
use kiln_model::{Attr, Graph, GraphBuilder};
use kiln_run::exec::Verifier;
use kiln_run::exec::footprint::FootprintKey;
use kiln_run::exec::request::RequestKey;
use kiln_run::record::{CacheMode, Evidence, Record, Store, merge_into, write_blob};
use kiln_tensor::{DType, Tensor};

use crate::folder;

/// The file, in the folder that the process is started in, with the seed and the number of records to change.
const JOB: &str = "job";
/// The file that it writes its findings to.
const FOUND: &str = "found";
/// Addresses that the process may have, in kibibytes as a shell says it.
const KIBIBYTES: u64 = 2 << 20;
/// Records that are changed for one session.
const EACH: usize = 4;
/// Time that a session is given to load.
const LIMIT: Duration = Duration::from_secs(2);
/// How much longer loading may take: its steps are not interrupted, and the machine may be busy.
const SLACK: Duration = Duration::from_secs(3);

/// Numbers that look random and are the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

/// A model, and the shapes of a request.
struct Case {
    name: &'static str,
    graph: Graph,
    dtype: DType,
    shapes: Vec<Vec<usize>>,
    honest: Vec<Record>,
    expected: Vec<f32>,
}

fn floats(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 31) % 23) as f32 / 16.0 - 0.7;
    Tensor::from_vec(shape.iter().copied(), (0..count).map(value).collect()).unwrap()
}

fn bytes(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from_vec(shape.iter().copied(), (0..count).map(|index| (index * 7 % 251) as u8).collect()).unwrap()
}

fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

/// A model with one input of that type and rank, and the outputs that `make` makes from it.
fn model(
    dtype: DType,
    rank: usize,
    make: impl FnOnce(&mut GraphBuilder, kiln_model::ValueId) -> kiln_model::ValueId,
) -> Graph {
    let mut builder = GraphBuilder::new("mutated", 18);
    let x = builder.input("x0", dtype, vec![Dim::Any; rank]);
    let y = make(&mut builder, x);
    builder.output("y", y);
    builder.finish()
}

fn image_network() -> Graph {
    model(DType::F32, 4, |b, x| {
        let first = b.constant(floats(&[16, 8, 3, 3]));
        let conv = b.op("Conv", &[x, first], &[("pads", ints(&[1, 1, 1, 1]))]);
        let conv = b.op("Relu", &[conv], &[]);
        let deep = b.constant(floats(&[16, 1, 3, 3]));
        let deep = b.op("Conv", &[conv, deep], &[("pads", ints(&[1, 1, 1, 1])), ("group", Attr::Int(16))]);
        let sum = b.op("Add", &[deep, conv], &[]);
        let back = b.constant(floats(&[16, 4, 2, 2]));
        let up = b.op("ConvTranspose", &[sum, back], &[("strides", ints(&[2, 2]))]);
        let kernel = [("kernel_shape", ints(&[3, 3])), ("strides", ints(&[2, 2]))];
        let pooled = b.op("MaxPool", &[up], &kernel);
        let mean = b.op("GlobalAveragePool", &[pooled], &[]);
        b.op("Sigmoid", &[mean], &[])
    })
}

fn resizing(mode: &str) -> Graph {
    model(DType::F32, 4, |b, x| {
        let none = b.constant(floats(&[0]));
        let scales = b.constant(Tensor::from_slice([4], &[1f32, 1.0, 2.0, 1.5]).unwrap());
        b.op("Resize", &[x, none, scales], &[("mode", mode.into())])
    })
}

fn language_network() -> Graph {
    model(DType::F32, 3, |b, x| {
        let [scale, shift] = [0, 1].map(|_| b.constant(floats(&[32])));
        let norm = b.op("LayerNormalization", &[x, scale, shift], &[]);
        let weights = b.constant(floats(&[32, 48]));
        let wide = b.op("MatMul", &[norm, weights], &[]);
        let wide = b.op("Tanh", &[wide], &[]);
        let transposed = b.op("Transpose", &[wide], &[("perm", ints(&[0, 2, 1]))]);
        let scores = b.op("MatMul", &[wide, transposed], &[]);
        let weighed = b.op("Softmax", &[scores], &[]);
        let mixed = b.op("MatMul", &[weighed, wide], &[]);
        let axes = b.constant(Tensor::from_slice([1], &[1i64]).unwrap());
        b.op("ReduceMean", &[mixed, axes], &[])
    })
}

fn cases() -> Vec<Case> {
    let f32 = DType::F32;
    let attention = || {
        let mut builder = GraphBuilder::new("mutated", 23);
        let inputs: Vec<_> = (0..3).map(|n| builder.input(&format!("x{n}"), f32, vec![Dim::Any; 4])).collect();
        let y = builder.op("Attention", &inputs, &[]);
        builder.output("y", y);
        builder.finish()
    };
    let recurrent = |cell: &str, gates: usize| {
        model(f32, 3, |b, x| {
            let [w, r] = [0, 1].map(|_| b.constant(floats(&[1, gates * 8, 8])));
            b.op(cell, &[x, w, r], &[("hidden_size", Attr::Int(8))])
        })
    };
    let channel_norm = model(f32, 4, |b, x| {
        let [scale, shift] = [0, 1].map(|_| b.constant(floats(&[8])));
        let norm = b.op("InstanceNormalization", &[x, scale, shift], &[]);
        b.op("LRN", &[norm], &[("size", Attr::Int(3))])
    });
    let of_bytes = model(DType::U8, 4, |b, x| {
        let weights = b.constant(bytes(&[16, 16, 3, 3]));
        let sums = b.op("ConvInteger", &[x, weights], &[("pads", ints(&[1, 1, 1, 1]))]);
        b.op("Cast", &[sums], &[("to", Attr::Int(1))])
    });
    let rows = [
        ("images", image_network(), f32, vec![vec![1, 8, 14, 18]]),
        ("cubic", resizing("cubic"), f32, vec![vec![1, 3, 12, 10]]),
        ("linear", resizing("linear"), f32, vec![vec![2, 3, 6, 8]]),
        ("nearest", resizing("nearest"), f32, vec![vec![1, 3, 9, 10]]),
        ("language", language_network(), f32, vec![vec![2, 9, 32]]),
        ("attention", attention(), f32, vec![vec![1, 2, 9, 16], vec![1, 2, 21, 16], vec![1, 2, 21, 16]]),
        ("lstm", recurrent("LSTM", 4), f32, vec![vec![5, 2, 8]]),
        ("gru", recurrent("GRU", 3), f32, vec![vec![5, 2, 8]]),
        ("channels", channel_norm, f32, vec![vec![1, 8, 6, 7]]),
        ("softmax", model(f32, 2, |b, x| b.op("Softmax", &[x], &[])), f32, vec![vec![7, 30]]),
        ("bytes", of_bytes, DType::U8, vec![vec![1, 16, 8, 9]]),
    ];
    let made = rows.map(|(name, graph, dtype, shapes)| {
        let mut case = Case { name, graph, dtype, shapes, honest: Vec::new(), expected: Vec::new() };
        let session = Session::from_graph(case.graph.clone(), &options(None)).unwrap();
        case.expected = case.serve(&session).unwrap_or_else(|error| panic!("{name}: {error}"));
        let records = &session.build_cx().records;
        let request = records.keys::<RequestKey>().remove(0);
        let footprint = FootprintKey { model: request.model, threads: request.threads };
        footprint.note(3 << 20, records);
        case.honest = records.list();
        case
    });
    made.into()
}

fn options(records: Option<Arc<Store>>) -> SessionOptions {
    SessionOptions {
        threads: 1,
        cache_mode: CacheMode::Memory,
        records,
        load_time_limit: Some(LIMIT),
        // This bounds the memory that a footprint has present at load, which takes time.
        buffer_bytes: 32 << 20,
        ..SessionOptions::default()
    }
}

impl Case {
    fn serve(&self, session: &Session) -> Result<Vec<f32>, kiln::session::SessionError> {
        let names: Vec<String> = (0..self.shapes.len()).map(|number| format!("x{number}")).collect();
        let fill = if self.dtype == DType::F32 { floats } else { bytes };
        let inputs: Vec<(&str, Tensor)> =
            names.iter().map(String::as_str).zip(self.shapes.iter().map(|shape| fill(shape))).collect();
        let outputs = session.run(&inputs)?;
        Ok(outputs[0].1.as_slice::<f32>().map(<[f32]>::to_vec).unwrap_or_default())
    }

    fn is_right(&self, found: &[f32]) -> bool {
        let close = |(have, want): (&f32, &f32)| (have - want).abs() <= 1e-3 * want.abs().max(1.0);
        found.len() == self.expected.len() && found.iter().zip(&self.expected).all(close)
    }
}

/// Sizes that no honest key has, and sizes near the limits of counting.
const EXTREMES: [u64; 24] = [
    0,
    1,
    2,
    3,
    5,
    7,
    64,
    255,
    256,
    4097,
    65_535,
    1 << 20,
    1 << 24,
    1 << 29,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
    1 << 33,
    1 << 40,
    1 << 46,
    1 << 52,
    1 << 61,
    1 << 63,
    u64::MAX,
];

/// Changes bytes as an encoder would have written other numbers in their place, or in any way at all.
fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let value = match numbers.below(3) {
        0 => numbers.next(),
        _ => EXTREMES[numbers.below(EXTREMES.len())],
    };
    // More often than not, at a byte that is not zero, since numbers begin there.
    let full: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    let at = if full.is_empty() || numbers.below(4) == 0 {
        numbers.below(bytes.len())
    } else {
        full[numbers.below(full.len())]
    };
    let width = [8, 8, 8, 4, 4, 1][numbers.below(6)];
    match numbers.below(24) {
        0 => bytes.truncate(at),
        1 => bytes.extend((0..1 + numbers.below(9)).map(|place| value.to_le_bytes()[place % 8])),
        _ => {
            for (byte, new) in bytes.iter_mut().skip(at).zip(value.to_le_bytes()).take(width) {
                *byte = new;
            }
        }
    }
}

/// A record of one of those models, changed in one to three places.
fn mutant(honest: &[Record], numbers: &mut Numbers) -> Record {
    let mut record = honest[numbers.below(honest.len())].clone();
    for _ in 0..1 + numbers.below(3) {
        let in_key = record.choice.is_empty() || numbers.below(3) > 0;
        mutate(if in_key { &mut record.key } else { &mut record.choice }, numbers);
    }
    // Better proven than the honest records.
    Record { evidence: Evidence::measured(1, u32::MAX), ..record }
}

/// Not a test: the work of the process that the tests start. Without a job it does nothing.
#[test]
#[ignore = "the body of the process that other tests here start"]
fn child() {
    let Ok(job) = std::fs::read_to_string(JOB) else { return };
    let (seed, count) = job.split_once(' ').expect("a job has two numbers");
    let (mut numbers, count) = (Numbers(seed.parse().unwrap()), count.parse::<usize>().unwrap());
    let cases = cases();
    let verifier = Verifier::default();
    let (mut refused, mut rejected, mut warmed, mut longest) = (0, 0, 0, Duration::ZERO);
    for round in 0..count.div_ceil(EACH) {
        let case = &cases[numbers.below(cases.len())];
        let records = Arc::new(Store::in_memory());
        case.honest.iter().for_each(|record| assert!(records.insert_record(record)));
        // Mostly from the model itself, whose keys the session asks for.
        let mutants: Vec<Record> = (0..EACH)
            .map(|_| {
                let of = if numbers.below(4) == 0 { &cases[numbers.below(cases.len())] } else { case };
                mutant(&of.honest, &mut numbers)
            })
            .collect();
        for record in &mutants {
            records.insert_record(record);
            refused += u64::from(verifier.verify(record).is_err());
        }
        let started = Instant::now();
        let session = Session::from_graph(case.graph.clone(), &options(Some(records))).unwrap();
        longest = longest.max(started.elapsed());
        warmed += session.warmed();
        if round % 16 == 0 {
            let folder = folder();
            let path = folder.path().join("hostile.kiln");
            merge_into(&path, session.engine().fingerprint().digest(), &mutants).unwrap();
            session.load_cache(&path, CacheKind::All).unwrap();
            if let Ok(blob) = write_blob(&mutants[..1], session.engine().fingerprint()) {
                session.load_blob(&blob).unwrap();
            }
        }
        let found = case.serve(&session).unwrap_or_else(|error| panic!("{}: {error}: {mutants:?}", case.name));
        assert!(case.is_right(&found), "{}: {mutants:?}", case.name);
        rejected += session.record_stats().rejected_semantic;
    }
    assert!(longest <= LIMIT + SLACK, "loading took {longest:?}");
    // Some mutants change the requests, some are refused when they are looked up, and honest records beside them are
    // still rebuilt.
    assert!(refused > 0 && rejected > 0 && warmed > 0, "{refused} {rejected} {warmed}");
    let count = count.div_ceil(EACH) * EACH;
    let report = format!(
        "{count} records changed: {refused} would be refused as they are, {rejected} were asked for and refused, {warmed} \
         executors rebuilt at load, the longest load {longest:?}"
    );
    std::fs::write(FOUND, report).expect("the folder is the test's");
}

/// Runs a child for `count` records and for `most` at most.
fn survive(seed: u64, count: usize, most: Duration) {
    let home = folder();
    std::fs::write(home.path().join(JOB), format!("{seed} {count}")).unwrap();
    let script = format!(r#"ulimit -v {KIBIBYTES}; exec "$0" --ignored --exact mutated::child --nocapture"#);
    let log = home.path().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut child = Command::new("bash")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .current_dir(home.path())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > most {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("still at it after {most:?}: {}", tail(&log));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let found = std::fs::read_to_string(home.path().join(FOUND)).unwrap_or_default();
    assert!(status.success() && !found.is_empty(), "{status}: {}", tail(&log));
    println!("{found}; {:.1?} in all", started.elapsed());
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.chars().rev().take(4000).collect::<Vec<_>>().into_iter().rev().collect()
}

#[test]
fn four_thousand_mutated_records_end_no_process_and_change_no_result() {
    survive(1, 4000, Duration::from_secs(600));
}

#[test]
#[ignore = "takes some minutes; run by name, in release"]
fn a_hundred_thousand_mutated_records_end_no_process_and_change_no_result() {
    for seed in 0..10 {
        survive(100 + seed, 10_000, Duration::from_secs(600));
    }
}

#[test]
fn numbers_reach_every_kind_of_key() {
    let cases = cases();
    let mut families: Vec<&str> =
        cases.iter().flat_map(|case| &case.honest).map(|record| record.family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    for family in [
        "attention",
        "chain",
        "channel-norm",
        "conv",
        "footprint",
        "matmul",
        "pool",
        "quantized",
        "recurrent",
        "reduce",
        "request",
        "resize",
        "row-norm",
        "softmax",
        "transpose",
    ] {
        assert!(families.contains(&family), "{family} is not among {families:?}");
    }
}
