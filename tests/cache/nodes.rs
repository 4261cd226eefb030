//! One node of each kind that has kernels, at random shapes: a handful of code serves all shapes, and another session
//! rebuilds the same code from the records, byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use kiln::session::{Session, SessionOptions};
use kiln_cache::{Cache, Limits};
use kiln_kernels::CodeKey;
use kiln_model::ir::Dim;
use kiln_model::{Attr, Graph, GraphBuilder};
use kiln_run::record::CacheMode;
use kiln_tensor::{DType, Tensor};

/// Numbers from 1 on that look random and are the same each time.
struct Sizes(u64);

impl Sizes {
    fn below(&mut self, most: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1 + (self.0 % most) as usize
    }
}

/// A node in a graph of its own, and shapes of its inputs.
struct Case {
    name: &'static str,
    graph: Graph,
    dtype: DType,
    shapes: fn(&mut Sizes) -> Vec<Vec<usize>>,
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

fn filters(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from_vec(shape.iter().copied(), (0..count).map(|index| (index * 5 % 127) as i8 - 63).collect()).unwrap()
}

/// A graph of one node. Its first inputs are the request's, of these ranks; its other inputs are constants.
fn node(op: &str, ranks: &[usize], dtype: DType, constants: &[Tensor], attrs: &[(&str, Attr)]) -> Graph {
    let mut builder = GraphBuilder::new(op, 23);
    let mut inputs = Vec::new();
    for (number, &rank) in ranks.iter().enumerate() {
        inputs.push(builder.input(&format!("x{number}"), dtype, vec![Dim::Any; rank]));
    }
    for constant in constants {
        inputs.push(builder.constant(constant.clone()));
    }
    let made = builder.op(op, &inputs, attrs);
    builder.output("y", made);
    builder.finish()
}

fn cases() -> Vec<Case> {
    let f32 = DType::F32;
    let ints = |values: &[i64]| Attr::Ints(values.to_vec());
    vec![
        Case {
            name: "softmax",
            graph: node("Softmax", &[2], f32, &[], &[]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(20), sizes.below(90)]],
        },
        Case {
            name: "layer normalisation",
            graph: node("LayerNormalization", &[2], f32, &[floats(&[48])], &[]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(100), 48]],
        },
        Case {
            name: "instance normalisation",
            graph: node("InstanceNormalization", &[4], f32, &[floats(&[8]), floats(&[8])], &[]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(2), 8, sizes.below(12), sizes.below(12)]],
        },
        Case {
            name: "max pool",
            graph: node("MaxPool", &[4], f32, &[], &[("kernel_shape", ints(&[3, 3])), ("strides", ints(&[2, 2]))]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(2), sizes.below(20), 3 + sizes.below(12), 3 + sizes.below(12)]],
        },
        Case {
            name: "global average",
            graph: node("GlobalAveragePool", &[4], f32, &[], &[]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(2), sizes.below(20), sizes.below(12), sizes.below(12)]],
        },
        Case {
            name: "transposition",
            graph: node("Transpose", &[4], f32, &[], &[("perm", ints(&[0, 2, 1, 3]))]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(3), sizes.below(20), sizes.below(5), sizes.below(40)]],
        },
        Case {
            name: "transposition of the last two",
            graph: node("Transpose", &[2], f32, &[], &[("perm", ints(&[1, 0]))]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(60), sizes.below(60)]],
        },
        Case {
            name: "mean",
            graph: node("ReduceMean", &[3], f32, &[Tensor::from_slice([1], &[1i64]).unwrap()], &[]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(8), sizes.below(20), sizes.below(40)]],
        },
        Case {
            name: "element-wise",
            graph: node("Gelu", &[2], f32, &[], &[]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(40), sizes.below(60)]],
        },
        Case {
            name: "product",
            graph: node("MatMul", &[2], f32, &[floats(&[48, 40])], &[]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(200), 48]],
        },
        Case {
            name: "convolution",
            graph: node("Conv", &[4], f32, &[floats(&[16, 16, 3, 3])], &[("pads", ints(&[1, 1, 1, 1]))]),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(2), 16, sizes.below(20), sizes.below(20)]],
        },
        Case {
            name: "depthwise convolution",
            graph: node(
                "Conv",
                &[4],
                f32,
                &[floats(&[24, 1, 3, 3])],
                &[("pads", ints(&[1, 1, 1, 1])), ("group", Attr::Int(24))],
            ),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(2), 24, sizes.below(20), sizes.below(20)]],
        },
        Case {
            name: "quantised convolution",
            graph: node("ConvInteger", &[4], DType::U8, &[filters(&[16, 16, 3, 3])], &[("pads", ints(&[1, 1, 1, 1]))]),
            dtype: DType::U8,
            shapes: |sizes| vec![vec![sizes.below(2), 16, sizes.below(12), sizes.below(12)]],
        },
        Case {
            name: "attention",
            graph: node("Attention", &[4, 4, 4], f32, &[], &[]),
            dtype: f32,
            shapes: |sizes| {
                let (batch, queries, keys) = (sizes.below(2), sizes.below(20), sizes.below(60));
                [queries, keys, keys].map(|rows| vec![batch, 2, rows, 16]).to_vec()
            },
        },
        Case {
            name: "lstm",
            graph: node(
                "LSTM",
                &[3],
                f32,
                &[floats(&[1, 32, 8]), floats(&[1, 32, 8])],
                &[("hidden_size", Attr::Int(8))],
            ),
            dtype: f32,
            shapes: |sizes| vec![vec![sizes.below(8), sizes.below(6), 8]],
        },
    ]
}

fn session(case: &Case, folder: Option<&std::path::Path>) -> Session {
    let options = SessionOptions {
        threads: 1,
        cache_mode: if folder.is_some() { CacheMode::ReadWrite } else { CacheMode::Memory },
        cache_dir: folder.map(Into::into),
        ..SessionOptions::default()
    };
    Session::from_graph(case.graph.clone(), &options).unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// Runs `requests` requests of random shapes.
fn serve(case: &Case, session: &Session, requests: usize) {
    let mut sizes = Sizes(0x9E37_79B9_7F4A_7C15);
    for _ in 0..requests {
        let shapes = (case.shapes)(&mut sizes);
        let names: Vec<String> = (0..shapes.len()).map(|number| format!("x{number}")).collect();
        let fill = if case.dtype == DType::F32 { floats } else { bytes };
        let inputs: Vec<(&str, Tensor)> =
            names.iter().map(String::as_str).zip(shapes.iter().map(|shape| fill(shape))).collect();
        session.run(&inputs).unwrap_or_else(|error| panic!("{} of {shapes:?}: {error}", case.name));
    }
}

#[test]
fn ten_thousand_shapes_of_any_node_share_a_handful_of_code() {
    let blobs = cases().into_iter().map(|case| {
        let session = session(&case, None);
        serve(&case, &session, 10_000);
        let families = session.family_stats();
        let builds = families.iter().find(|(name, _)| *name == "code").map_or(0, |(_, stats)| stats.builds);
        // Moving operands into another layout is done by a node of its own.
        let keys = session.build_cx().cache.keys::<CodeKey>();
        let moves = keys.iter().filter(|key| matches!(key, CodeKey::Transpose(_))).count() as u64;
        (case.name, if case.graph.nodes[0].op == "Transpose" { builds } else { builds - moves })
    });
    // Attention has kernels of its own between its products. Their width depends on their keys: one of four widths with
    // AVX-512, one of three with AVX2. Transposition has a kernel for each width from 2 to 7 in each direction.
    let most = |name: &str| match name {
        "attention" => 9,
        "transposition of the last two" => 12 + 4,
        _ => 8,
    };
    let many: Vec<(&str, u64)> = blobs.filter(|(name, blobs)| *blobs > most(name)).collect();
    assert_eq!(many, []);
}

/// All code that a session holds.
fn code(session: &Session) -> BTreeMap<String, Vec<u8>> {
    let cache = &session.build_cx().cache;
    let bytes = |key: &CodeKey| cache.get(key).map(|parts| parts.bytes()).unwrap();
    cache.keys::<CodeKey>().iter().map(|key| (format!("{key:?}"), bytes(key))).collect()
}

#[test]
fn sessions_that_share_a_cache_know_their_own_part() {
    let case = cases().swap_remove(0);
    let cache = Arc::new(Cache::new(Limits { entries: 1024, bytes: 16 << 20 }));
    let [first, second] = [0, 1].map(|_| {
        let cache = Some(Arc::clone(&cache));
        let options = SessionOptions { threads: 1, cache_mode: CacheMode::Memory, cache, ..SessionOptions::default() };
        Session::from_graph(case.graph.clone(), &options).unwrap()
    });
    let request = |session: &Session, rows: usize| drop(session.run(&[("x0", floats(&[rows, 5]))]).unwrap());
    [3, 4, 3].iter().for_each(|&rows| request(&first, rows));
    [4, 9].iter().for_each(|&rows| request(&second, rows));
    let (first, second) = (first.share_stats(), second.share_stats());
    assert_eq!(
        (first.misses, first.hits, first.waits, first.record_hits),
        (2, 0, 0, 0),
        "a known shape asks for nothing"
    );
    assert_eq!((second.misses, second.hits), (1, 1), "one was there, built by the other");
    assert_eq!(first.built_bytes, 2 * second.built_bytes);
    assert!(second.built_bytes > 0);
}

#[test]
fn what_records_rebuild_is_what_was_built() {
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        let first = session(&case, Some(folder.path()));
        serve(&case, &first, 40);
        let built = code(&first);
        drop(first);
        let second = session(&case, Some(folder.path()));
        serve(&case, &second, 40);
        // What loading had no time to rebuild is rebuilt now from the same records.
        assert_eq!(second.share_stats().misses, 0, "{}: something was chosen", case.name);
        assert_eq!(built, code(&second), "{}", case.name);
    }
}
