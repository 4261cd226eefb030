//! Any bytes are the choice of a record for a key of a real family: it is refused, or builds an executor that computes
//! the right result. The same bytes are also the inputs of a recorded request of a model, and numbers that are written
//! over keys and choices of a model's own records: the model still loads and computes the right result.

#![no_main]

use std::sync::{Arc, LazyLock};

use kiln::session::{Numerics, Precision, Session, SessionOptions};
use kiln_cache::{Cache, Limits};
use kiln_key::F32Bits;
use kiln_model::{Graph, GraphBuilder};
use kiln_run::exec::matmul::{MatMulKey, MatMulProblem, Stored};
use kiln_run::exec::request::RequestKey;
use kiln_run::exec::tune::Operands;
use kiln_run::exec::{BuildCx, Family, Target, Verifier};
use kiln_run::record::{Evidence, Record, Recorded, Store, encode};
use kiln_tensor::{DType, Tensor};
use libfuzzer_sys::fuzz_target;
use smallvec::SmallVec;

static CONTEXT: LazyLock<BuildCx> = LazyLock::new(|| BuildCx {
    isa: SessionOptions::default().isa(),
    threads: 2,
    numerics: Numerics::default(),
    precision: Precision::default(),
    cache: Arc::new(Cache::new(Limits { entries: 0, bytes: 0 })),
    records: Arc::new(Store::in_memory()),
    gpu: None,
    check: false,
});

fn key() -> MatMulKey {
    let problem = MatMulProblem {
        m: 13,
        n: 37,
        k: 29,
        batch: SmallVec::new(),
        left: Stored::Rows,
        right: Stored::Rows,
        elements: kiln_kernels::cpu::Elements::F32,
        scale: F32Bits::new(1.0),
        bias: false,
        activation: None,
        stored: Default::default(),
    };
    MatMulKey::new(Target::new(CONTEXT.isa, 2), problem)
}

fn run(cx: &BuildCx) -> Vec<f32> {
    let key = key();
    let (value, _) = cx.executor(&key).expect("a key of a real model builds whatever the records say");
    let demand = key.demand(&value);
    let fill = |count: usize| -> Vec<f32> { (0..count).map(|index| (index * 7 % 17) as f32 - 8.0).collect() };
    let (input, weights) = (fill(demand.input), fill(demand.weights));
    let (mut output, mut scratch) = (vec![f32::NAN; demand.output], vec![f32::NAN; demand.scratch]);
    let operands = Operands { input: &input, weights: &weights, output: &mut output, scratch: &mut scratch };
    key.trial(&value, operands, &kiln_kernels::Serial).expect("an executor that was built runs");
    output
}

static EXPECTED: LazyLock<Vec<f32>> = LazyLock::new(|| run(&CONTEXT));

/// A few layers; some depend on shapes alone.
fn layers() -> Graph {
    let mut build = GraphBuilder::new("layers", 17);
    let x = build.input("x", DType::F32, ["n".into(), "m".into()]);
    let shape = build.op("Shape", &[x], &[]);
    let filled = build.op("ConstantOfShape", &[shape], &[]);
    let soft = build.op("Softmax", &[x], &[]);
    let sum = build.op("Add", &[soft, filled], &[]);
    let transposed = build.op("Transpose", &[sum], &[("perm", [1i64, 0].into())]);
    build.output("y", transposed);
    build.finish()
}

fn load(records: &Arc<Store>) -> Session {
    let options = SessionOptions { threads: 1, records: Some(records.clone()), ..SessionOptions::default() };
    Session::from_graph(layers(), &options).expect("records fail no loading")
}

fn serve(session: &Session) -> Vec<f32> {
    let x = Tensor::from_slice([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("six elements");
    let mut outputs = session.run(&[("x", x)]).expect("nor any request");
    outputs.remove(0).1.as_slice().expect("floats").to_vec()
}

/// The records of an honest session, the first bytes of its requests' keys (model and threads), and its result.
static HONEST: LazyLock<(Vec<Record>, Vec<u8>, Vec<f32>)> = LazyLock::new(|| {
    let records = Arc::new(Store::in_memory());
    let result = serve(&load(&records));
    let request = records.keys::<RequestKey>().remove(0);
    let begin = encode(&request).expect("it was kept")[..12].to_vec();
    (records.list(), begin, result)
});

/// Loads a model with a record of a request of those inputs.
fn foresee(inputs: &[u8]) {
    let (honest, begin, expected) = &*HONEST;
    let records = Arc::new(Store::in_memory());
    honest.iter().for_each(|record| assert!(records.insert_record(record)));
    records.insert_record(&Record {
        family: <RequestKey as kiln_key::Key>::FAMILY.to_owned(),
        revision: RequestKey::REVISION,
        key: [begin, inputs].concat(),
        choice: Vec::new(),
        evidence: Evidence::measured(1, u32::MAX),
    });
    assert_eq!(serve(&load(&records)), *expected);
}

/// Loads a model whose records were changed: each eleven bytes select the record, its key or its choice, the place, and
/// the new value.
fn change(bytes: &[u8]) {
    let (honest, _, expected) = &*HONEST;
    let records = Arc::new(Store::in_memory());
    honest.iter().for_each(|record| assert!(records.insert_record(record)));
    let verifier = Verifier::default();
    for change in bytes.chunks_exact(11) {
        let mut record = honest[usize::from(change[0]) % honest.len()].clone();
        let text = if change[1] & 1 == 0 { &mut record.key } else { &mut record.choice };
        let at = usize::from(change[2]) % text.len().max(1);
        text.iter_mut().skip(at).zip(&change[3..]).for_each(|(byte, new)| *byte = *new);
        let record = Record { evidence: Evidence::measured(1, u32::MAX), ..record };
        // Any result is right, in bounded time and memory.
        let _ = verifier.verify(&record);
        records.insert_record(&record);
    }
    assert_eq!(serve(&load(&records)), *expected);
}

fuzz_target!(|choice: &[u8]| {
    foresee(choice);
    change(choice);
    let cx = BuildCx { records: Arc::new(Store::in_memory()), ..CONTEXT.clone() };
    let Ok(key) = encode(&key()) else { return };
    let evidence = Evidence::measured(1, u32::MAX);
    let record = Record {
        family: <MatMulKey as kiln_key::Key>::FAMILY.to_owned(),
        revision: MatMulKey::REVISION,
        key,
        choice: choice.to_vec(),
        evidence,
    };
    cx.records.insert_record(&record);
    // Small whole numbers: every sum is exact, whatever the order.
    assert_eq!(run(&cx), *EXPECTED);
});
