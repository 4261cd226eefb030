//! Any bytes are the choice of a record for a key of a real family: it is refused, or what it builds computes the right
//! result.

#![no_main]

use std::sync::{Arc, LazyLock};

use kiln::cache::{Cache, F32Bits, Limits};
use kiln::exec::matmul::{MatMulKey, Stored};
use kiln::exec::tune::Operands;
use kiln::exec::{BuildCx, Family};
use kiln::record::{Evidence, Record, Recorded, Store, encode};
use kiln::session::{Numerics, Precision, SessionOptions};
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
    MatMulKey {
        isa: CONTEXT.isa,
        threads: 2,
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
    }
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

fuzz_target!(|choice: &[u8]| {
    let cx = BuildCx { records: Arc::new(Store::in_memory()), ..CONTEXT.clone() };
    let Ok(key) = encode(&key()) else { return };
    let evidence = Evidence::measured(1, u32::MAX);
    let record = Record {
        family: <MatMulKey as kiln::cache::Key>::FAMILY.to_owned(),
        revision: MatMulKey::REVISION,
        key,
        choice: choice.to_vec(),
        evidence,
    };
    cx.records.insert_record(&record);
    // Small whole numbers: every sum is exact, whatever the order.
    assert_eq!(run(&cx), *EXPECTED);
});
