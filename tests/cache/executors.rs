//! The cache with the values that it is made for: executors that share code, rebuilt from records, at thousands of
//! shapes.

use std::collections::BTreeMap;
use std::sync::Arc;

use kiln_cache::{Cache, Limits, Outcome};
use kiln_kernels::cpu::conv::ConvShape;
use kiln_kernels::cpu::norm::RowForm;
use kiln_kernels::cpu::softmax::Around;
use kiln_kernels::cpu::{Elements, Numerics};
use kiln_kernels::jit::code_memory;
use kiln_kernels::{CodeKey, Isa};
use kiln_key::Mutate;
use kiln_run::exec::conv::{ConvKey, ConvProblem};
use kiln_run::exec::matmul::{MatMulKey, MatMulProblem, Stored};
use kiln_run::exec::norm::RowNormKey;
use kiln_run::exec::reduce::{ReduceKey, ReduceProblem};
use kiln_run::exec::softmax::{SoftmaxKey, SoftmaxProblem};
use kiln_run::exec::transpose::{TransposeKey, TransposeProblem};
use kiln_run::exec::{BuildCx, Family, Target};
use kiln_run::record::Store;

#[test]
fn code_keys_obey_the_laws() {
    kiln_run::record::laws::check::<CodeKey>();
}

fn context(isa: Isa, entries: usize, records: Arc<Store>) -> BuildCx {
    BuildCx {
        isa,
        threads: 2,
        numerics: Numerics::Default,
        precision: Default::default(),
        cache: Arc::new(Cache::new(Limits { entries, bytes: 256 << 20 })),
        records,
        check: false,
        gpu: None,
    }
}

fn product(isa: Isa, m: u64) -> MatMulKey {
    let problem = MatMulProblem {
        m,
        n: 96,
        k: 64,
        batch: Default::default(),
        left: Stored::Rows,
        right: Stored::Packed(2),
        elements: Elements::F32,
        scale: 1.0.into(),
        bias: true,
        activation: None,
        stored: Default::default(),
    };
    MatMulKey::new(Target::new(isa, 2), problem)
}

/// A convolution of `filters` filters of 3x3 over images of that size, in `groups` groups.
fn convolution(isa: Isa, [batch, height, width]: [u64; 3], channels: u64, groups: u64) -> ConvKey {
    let shape = ConvShape {
        batch,
        channels,
        filters: channels,
        groups,
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
    ConvKey::new(Target::new(isa, 2), problem)
}

/// All code that a context holds.
fn code(cx: &BuildCx) -> BTreeMap<String, Vec<u8>> {
    let bytes = |key: &CodeKey| cx.cache.get(key).map(|parts| parts.bytes()).unwrap();
    cx.cache.keys::<CodeKey>().iter().map(|key| (format!("{key:?}"), bytes(key))).collect()
}

/// Builds a key in both contexts, the second from the first one's record.
fn twice<K: Family>(key: &K, first: &BuildCx, second: &BuildCx) {
    assert_eq!(first.executor(key).unwrap().1, Outcome::Miss, "{key:?}");
    assert_eq!(second.executor(key).unwrap().1, Outcome::RecordHit, "{key:?}");
}

#[test]
fn an_executor_rebuilt_from_its_record_has_the_same_code() {
    for isa in [Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| isa.usable()) {
        let records = Arc::new(Store::in_memory());
        let [first, second] = [0, 1].map(|_| context(isa, 4096, Arc::clone(&records)));
        let (a, b) = (&first, &second);
        for m in [1, 7, 64, 1000] {
            twice(&product(isa, m), a, b);
            let stored = |left: Stored, right: Stored| {
                let MatMulKey { target, problem } = product(isa, m);
                MatMulKey::new(target, MatMulProblem { left, right, ..problem })
            };
            twice(&stored(Stored::Rows, Stored::Rows), a, b);
            twice(&stored(Stored::Columns, Stored::Columns), a, b);
        }
        for (size, channels, groups) in
            [([1, 56, 56], 64, 1), ([2, 14, 14], 256, 1), ([1, 28, 30], 96, 96), ([1, 9, 9], 12, 3)]
        {
            twice(&convolution(isa, size, channels, groups), a, b);
        }
        let target = Target::new(isa, 2);
        for (outer, length, inner) in [(12, 128, 1), (3, 40, 50)] {
            let problem = SoftmaxProblem { around: Around { outer, length, inner }, logarithm: false };
            twice(&SoftmaxKey::new(target, problem), a, b);
        }
        for reduced_first in [false, true] {
            let problem = ReduceProblem::new(Mutate::sample(), &[64, 300], |axis| (axis == 0) == reduced_first);
            twice(&ReduceKey::new(target, problem), a, b);
        }
        twice(&TransposeKey::new(target, TransposeProblem::new(&[64, 96], &[1, 0], 4)), a, b);
        let norm = RowForm {
            rows: 9,
            length: 768,
            centred: true,
            scale: true,
            bias: true,
            moments: false,
            output: Default::default(),
        };
        twice(&RowNormKey::new(target, norm), a, b);
        let (first, second) = (code(&first), code(&second));
        assert!(first.len() > 10, "only {} kernels", first.len());
        assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
        for (key, bytes) in &first {
            assert_eq!(Some(bytes), second.get(key), "{key}");
        }
    }
}

/// Numbers from 1 on that look random and are the same each time.
fn sizes() -> impl FnMut(u64) -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move |most| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1 + state % most
    }
}

fn blobs(cx: &BuildCx) -> u64 {
    cx.cache.family_stats().iter().find(|(name, _)| *name == "code").map_or(0, |(_, stats)| stats.builds)
}

#[test]
fn ten_thousand_shapes_of_a_node_share_a_handful_of_code() {
    let isa = Isa::detect();
    let mut size = sizes();
    let cx = context(isa, 1 << 15, Arc::new(Store::off()));
    for _ in 0..10_000 {
        cx.executor(&product(isa, size(5000))).unwrap();
    }
    assert!(blobs(&cx) <= 8, "a product emitted {} kernels", blobs(&cx));
    let cx = context(isa, 1 << 15, Arc::new(Store::off()));
    for _ in 0..10_000 {
        let shape = [size(4), size(120), size(120)];
        cx.executor(&convolution(isa, shape, 64, 1)).unwrap();
    }
    assert!(blobs(&cx) <= 8, "a convolution emitted {} kernels", blobs(&cx));
}

#[test]
fn code_is_charged_part_by_part_as_executors_need_it() {
    let isa = Isa::detect();
    let cx = context(isa, 4096, Arc::new(Store::off()));
    let charged = |key: &MatMulKey| {
        cx.executor(key).unwrap();
        let families = cx.cache.family_stats();
        let (_, code) = families.iter().find(|(name, _)| *name == "code").unwrap();
        let held: usize = cx.cache.keys::<CodeKey>().iter().map(|key| cx.cache.get(key).unwrap().size()).sum();
        assert_eq!(code.bytes, held as u64);
        (code.entries, held)
    };
    let six = charged(&product(isa, 6));
    let three = charged(&product(isa, 3));
    let mut narrower = product(isa, 6);
    narrower.problem.n = 80;
    let again = charged(&narrower);
    assert!(six.0 == three.0 && six.1 < three.1, "{six:?}, then {three:?}");
    assert_eq!(three, again, "tiles of six rows are there");
}

/// Kilobytes of this process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn distinct_shapes(first: u64, last: u64, cx: &BuildCx) {
    for m in first..last {
        cx.executor(&product(cx.isa, m)).unwrap();
        assert!(cx.cache.len() <= 1024);
    }
}

#[test]
fn twenty_thousand_distinct_shapes_fill_the_cache_and_no_more() {
    let cx = context(Isa::detect(), 1024, Arc::new(Store::off()));
    distinct_shapes(1, 20_000, &cx);
    let stats = cx.cache.stats();
    assert_eq!((stats.entries, stats.bytes), (cx.cache.len() as u64, cx.cache.bytes() as u64));
    assert!(stats.evictions >= 20_000 - 1 - 1024 && blobs(&cx) <= 8, "{stats:?}");
}

/// Alone in its process: `cargo test --release --test cache -- --ignored --exact executors::a_million_distinct_shapes`.
#[test]
#[ignore = "a few seconds, and other tests' memory would count"]
#[allow(clippy::print_stdout, reason = "the figure is what it is run for")]
fn a_million_distinct_shapes() {
    let cx = context(Isa::detect(), 1024, Arc::new(Store::off()));
    distinct_shapes(1, 100_000, &cx);
    let (before, code) = (resident(), code_memory());
    distinct_shapes(100_000, 1_000_000, &cx);
    let grown = resident().saturating_sub(before);
    println!("from 1e5 to 1e6 distinct shapes: {grown} KiB");
    assert!(grown <= 1024);
    assert_eq!(code_memory(), code);
}

#[test]
fn code_that_is_running_outlives_its_eviction_and_then_goes() {
    let isa = Isa::detect();
    let cx = context(isa, 2, Arc::new(Store::off()));
    let (used, _) = cx.executor(&product(isa, 5)).unwrap();
    let weak = Arc::downgrade(&used);
    for m in 100..200 {
        cx.executor(&product(isa, m)).unwrap();
    }
    assert!(cx.cache.get(&product(isa, 5)).is_none(), "it was pushed out");
    assert!(weak.upgrade().is_some(), "and is in use");
    drop(used);
    assert!(weak.upgrade().is_none());
}
