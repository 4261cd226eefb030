//! Every convolution of ResNet-50, every kind of layer of MobileNet v2 and a list of matrix products, one by one,
//! beside oneDNN: the lists of its own bench, `f32`, with bias, one and two threads, weights and inputs in the caches
//! as the layer before left them. Also the products of libxsmm's bench beside libxsmm.
//!
//! `cargo bench --bench layers -- --onednn FILE` prints the ratio to the figures in a file that oneDNN's bench wrote.
//! `--against PROGRAM` runs that bench in turn with Kiln, `--rounds N` times, and compares the least of each: on a
//! shared machine only the minimum repeats. `--bf16` measures convolutions under that precision, between layers that
//! pass on `bf16`; oneDNN's figures are for `f32`. `--matmul` measures products in place of convolutions, `--libxsmm
//! PROGRAM` the products that libxsmm's bench prints, on one thread as it does. Other words choose rows whose name
//! contains one of the words. They are given to oneDNN's bench too: a build that reads them measures these rows only,
//! any other build ignores them.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

#[path = "measure/floats.rs"]
mod floats;
#[path = "measure/limit.rs"]
mod limit;
#[path = "layers/peers.rs"]
mod peers;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use floats::Floats;
use kiln_kernels::cpu::conv::{Conv, ConvBlocks, ConvExtras, ConvShape, ConvStored, Strategy};
use kiln_kernels::cpu::gemm::{Epilogue, Extras, Left, Matmul, MatmulShape, Panels, Right, Source, panel_vectors};
use kiln_kernels::cpu::{
    Activations, ActivationsMut, Elements, Numerics, PackedWeights, PackedWeightsMut, Precision, Stored,
};
use kiln_kernels::{EmitEach, Isa, Parallel};
use kiln_tensor::threads::Threads;
use peers::Times;

/// Channels, filters, size, kernel, stride, groups.
type Layer = [usize; 6];
/// Rows, reduction, columns.
type Product = [usize; 3];

/// The convolutions of ResNet-50, and of MobileNet v2 one of each kind, in the order of oneDNN's bench.
fn layers() -> Vec<Layer> {
    let mut layers = vec![[3, 64, 224, 7, 2, 1]];
    let (mut channels, mut size) = (64, 56);
    for filters in [64, 128, 256, 512] {
        let stride = if filters == 64 { 1 } else { 2 };
        layers.push([channels, filters, size, 1, 1, 1]);
        layers.push([filters, filters, size, 3, stride, 1]);
        layers.push([channels, filters * 4, size, 1, stride, 1]);
        size /= stride;
        layers.push([filters, filters * 4, size, 1, 1, 1]);
        layers.push([filters * 4, filters, size, 1, 1, 1]);
        if stride == 2 {
            layers.push([filters, filters, size, 3, 1, 1]);
        }
        channels = filters * 4;
    }
    layers.push([3, 32, 224, 3, 2, 1]);
    let depthwise = [
        [32, 112, 1],
        [96, 112, 2],
        [144, 56, 1],
        [144, 56, 2],
        [192, 28, 1],
        [192, 28, 2],
        [384, 14, 1],
        [576, 14, 1],
        [576, 14, 2],
        [960, 7, 1],
    ];
    layers.extend(depthwise.map(|[channels, size, stride]| [channels, channels, size, 3, stride, channels]));
    let pointwise = [
        [32, 16, 112],
        [16, 96, 112],
        [96, 24, 56],
        [24, 144, 56],
        [144, 24, 56],
        [144, 32, 28],
        [32, 192, 28],
        [192, 32, 28],
        [192, 64, 14],
        [64, 384, 14],
        [384, 64, 14],
        [384, 96, 14],
        [96, 576, 14],
        [576, 96, 14],
        [576, 160, 7],
        [160, 960, 7],
        [960, 160, 7],
        [960, 320, 7],
        [320, 1280, 7],
    ];
    layers.extend(pointwise.map(|[channels, filters, size]| [channels, filters, size, 1, 1, 1]));
    layers
}

/// The products of oneDNN's bench: squares, and the products of transformers.
fn products() -> Vec<Product> {
    let mut products: Vec<Product> = [128, 256, 384, 512, 768, 1024, 1536, 2048].map(|n| [n, n, n]).to_vec();
    products.extend([1, 2, 4, 8, 16, 32, 64, 100, 128, 256, 384, 512].map(|m| [m, 768, 768]));
    products.extend([1, 16, 37, 128, 512].iter().flat_map(|&m| [[m, 768, 3072], [m, 3072, 768]]));
    products.extend([16, 128, 512].map(|m| [m, 384, 1536]));
    products.extend([[1, 512, 512], [1, 512, 1536], [1, 512, 2048], [1, 2048, 512], [1, 512, 32000], [1, 2048, 1000]]);
    products.extend([[1, 4096, 4096], [128, 64, 128], [128, 128, 64], [512, 64, 512], [512, 512, 64]]);
    products
}

/// Per cent of the multiply-add limit that large products should reach.
const NEAR: f64 = 92.0;

/// A measured layer or product.
enum Row {
    Layer(Layer),
    Product(Product),
}

impl Row {
    fn name(&self) -> String {
        match self {
            Row::Layer([channels, filters, size, kernel, stride, groups]) => {
                let kind = if *groups > 1 { " depthwise" } else { "" };
                format!("{channels}->{filters} {size}x{size} k{kernel} s{stride}{kind}")
            }
            Row::Product([m, k, n]) => format!("{m}x{k}x{n}"),
        }
    }

    /// Multiply-adds times two, and bytes that are read or written at least once.
    fn cost(&self) -> (f64, f64) {
        let (flop, elements) = match *self {
            Row::Layer(layer) => {
                let shape = shape(layer);
                (2 * shape.work(), shape.input_len() + shape.output_len() + shape.weights().len())
            }
            Row::Product([m, k, n]) => (2 * m * k * n, m * k + k * n + m * n),
        };
        (flop as f64, (elements * 4) as f64)
    }

    /// Seconds of a call, and the way that computes it.
    fn measure(&self, isa: Isa, precision: Precision, pool: &Threads) -> (f64, String) {
        match *self {
            Row::Layer(layer) => convolution(isa, &shape(layer), precision, pool),
            Row::Product(product) => (matmul(isa, product, pool), String::new()),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let (mut words, mut theirs, mut against, mut rounds, mut matmul) = (vec![], Times::new(), None, 1, false);
    let (mut libxsmm, mut precision) = (None, Precision::F32);
    let mut next = arguments.iter();
    while let Some(word) = next.next() {
        let mut value = || next.next().expect("an option's value").clone();
        match word.as_str() {
            "--onednn" => drop(peers::read(&std::fs::read_to_string(value()).expect("a file"), &mut theirs)),
            "--against" => against = Some(value()),
            "--libxsmm" => libxsmm = Some(value()),
            "--rounds" => rounds = value().parse().expect("a number of rounds"),
            "--matmul" => matmul = true,
            "--bf16" => precision = Precision::Bf16,
            _ => words.push(word.clone()),
        }
    }
    let isa = Isa::detect();
    if !isa.is_jit() {
        println!("no code can be emitted on this machine");
        return;
    }
    let peer = if libxsmm.is_some() { "libxsmm" } else { "oneDNN" };
    let rows: Vec<Row> = match (&libxsmm, matmul) {
        (Some(program), _) => peers::read(&peers::run(program, &[]), &mut theirs),
        (None, true) => products().into_iter().map(Row::Product).collect(),
        (None, false) => layers().into_iter().map(Row::Layer).collect(),
    };
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let rows: Vec<Row> = rows.into_iter().filter(|row| wanted(&row.name())).collect();
    let threads: &[usize] = if libxsmm.is_some() { &[1] } else { &[1, 2] };
    let what = [if matmul { "matmul" } else { "conv" }, "f32"].map(String::from);
    let (mut ours, mut ways, mut peak) = (Times::new(), HashMap::new(), [0f64; 2]);
    for round in 0..rounds {
        if let Some(program) = &against {
            peers::read(&peers::run(program, &[&what, words.as_slice()].concat()), &mut theirs);
        }
        if let Some(program) = libxsmm.as_ref().filter(|_| round > 0) {
            peers::read(&peers::run(program, &[]), &mut theirs);
        }
        for &threads in threads {
            let pool = Threads::new(threads).expect("threads");
            let limit = &mut peak[threads - 1];
            *limit = limit.max(limit::multiply_adds(isa, threads, Duration::from_millis(20)));
            for row in &rows {
                let (seconds, way) = row.measure(isa, precision, &pool);
                peers::keep(&mut ours, row.name(), threads, seconds);
                ways.insert((row.name(), threads), way);
            }
        }
    }
    for &threads in threads {
        print(&rows, threads, peak[threads - 1], &ours, peer, &theirs, &ways);
    }
}

/// The table of that many threads.
fn print(
    rows: &[Row],
    threads: usize,
    peak: f64,
    ours: &Times,
    peer: &str,
    theirs: &Times,
    ways: &HashMap<(String, usize), String>,
) {
    println!("{threads} thread(s), limit {peak:.0} GFLOP/s");
    let (mut ratios, mut near) = (vec![], 0);
    for row in rows {
        let key = (row.name(), threads);
        let (flop, bytes) = row.cost();
        let seconds = ours[&key];
        let rate = flop / seconds / 1e9;
        let (us, share) = (seconds * 1e6, 100.0 * rate / peak);
        near += usize::from(share >= NEAR);
        let mut line = format!(
            "{:32} {:18} {us:9.1} us {rate:7.1} GFLOP/s {share:4.0} % {:6.1} GB/s",
            key.0,
            ways[&key],
            bytes / seconds / 1e9
        );
        if let Some(&their) = theirs.get(&key) {
            ratios.push(their / seconds);
            let mark = if their < seconds { " <" } else { "" };
            let their_share = 100.0 * flop / their / 1e9 / peak;
            line += &format!("   {peer} {:9.1} us {their_share:4.0} % {:5.2}{mark}", their * 1e6, their / seconds);
        }
        println!("{line}");
    }
    println!("at {NEAR} % of the limit or more: {near} of {}", rows.len());
    if !ratios.is_empty() {
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let behind = ratios.iter().filter(|&&ratio| ratio < 1.0).count();
        println!("over {peer}: geometric mean {mean:.3}, least {least:.2}, behind in {behind} of {}", ratios.len());
    }
}

/// Seconds of a call as oneDNN's bench takes them: warm, the median of 9 samples of at least 4 ms.
fn per_call(mut call: impl FnMut()) -> f64 {
    (0..3).for_each(|_| call());
    let begin = Instant::now();
    call();
    let count = (0.004 / begin.elapsed().as_secs_f64().max(1e-9)).max(1.0) as usize;
    let mut samples: Vec<f64> = (0..9)
        .map(|_| {
            let begin = Instant::now();
            (0..count).for_each(|_| call());
            begin.elapsed().as_secs_f64() / count as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn shape([channels, filters, size, kernel, stride, groups]: Layer) -> ConvShape {
    let pad = kernel / 2;
    let out = (size + 2 * pad - kernel) / stride + 1;
    let wide = |sizes: [usize; 3]| sizes.map(|size| size as u64);
    ConvShape {
        batch: 1,
        channels: channels as u64,
        filters: filters as u64,
        groups: groups as u64,
        input: wide([1, size, size]),
        output: wide([1, out, out]),
        kernel: wide([1, kernel, kernel]),
        strides: wide([1, stride, stride]),
        dilations: [1; 3],
        pads: wide([0, pad, pad]),
        transposed: false,
    }
}

/// The convolution as the cost model picks it; in lower precision, between layers that pass on the type that it takes.
fn convolution(isa: Isa, shape: &ConvShape, precision: Precision, pool: &Threads) -> (f64, String) {
    let weights = shape.weights();
    let elements = weights.elements(precision.elements(isa));
    let picked = ConvBlocks::pick(isa, shape, elements, Numerics::Default, pool.threads());
    let plain = ConvBlocks::untransformed(isa, shape, elements, pool.threads());
    let (f32, residual) = (Stored::F32, Stored::F32);
    let wanted = match precision {
        Precision::F32 | Precision::Int8 | Precision::Int4 => vec![],
        Precision::Bf16 => [(Stored::Bf16, picked), (f32, plain)]
            .map(|(input, blocks)| (ConvStored { input, residual, output: Stored::Bf16 }, blocks))
            .to_vec(),
    };
    let takes = |(stored, blocks): &(ConvStored, ConvBlocks)| stored.suits(blocks.strategy, blocks.elements, isa);
    let (stored, blocks) = wanted.into_iter().find(takes).unwrap_or((ConvStored::default(), picked));
    let layout = blocks.layout();
    let mut packed = Floats::zeros(weights.packed_len(isa, layout));
    let room = PackedWeightsMut::new(layout.elements(), bytemuck::cast_slice_mut(&mut packed));
    weights.pack(isa, layout, &Floats::numbers(weights.len()), room).expect("sizes agree");
    let conv = Conv::stored(isa, *shape, blocks, stored, None, &EmitEach).expect("a good shape");
    let (x, bias) = (Floats::numbers(shape.input_len()), Floats::numbers(shape.filters()));
    let halves: Vec<u16> = x.iter().map(|value| (value.to_bits() >> 16) as u16).collect();
    let x = if stored.input == f32 { Activations::F32(&x) } else { Activations::Bf16(&halves) };
    let mut scratch = Floats::zeros(conv.scratch_len());
    let mut y = Floats::zeros(shape.output_len());
    let extras = ConvExtras { bias: Some(&bias[..]), residual: None };
    let packed = PackedWeights::new(layout.elements(), bytemuck::cast_slice(&packed));
    let seconds = per_call(|| {
        let y = match stored.output {
            Stored::F32 => ActivationsMut::F32(&mut y),
            Stored::Bf16 => ActivationsMut::Bf16(&mut bytemuck::cast_slice_mut(&mut y)[..shape.output_len()]),
        };
        conv.run_stored(x.into(), packed, y, extras, &mut scratch, pool).expect("buffers fit");
    });
    let way = match blocks.strategy {
        Strategy::Winograd(tile) => format!("Winograd {tile:?}"),
        other => format!("{other:?}"),
    };
    (seconds, way)
}

/// The product as the cost model picks it, its right-hand side packed beforehand.
fn matmul(isa: Isa, [m, k, n]: Product, pool: &Threads) -> f64 {
    let (a, b) = (Floats::numbers(m * k), Floats::numbers(k * n));
    let vectors = panel_vectors(isa, n);
    let panels = Panels { rows: k, columns: n, width: vectors * isa.lanes() };
    let mut right = Floats::zeros(panels.len());
    panels.pack(&Source::row_major(&b, k, n), 1.0, &mut right).expect("sizes agree");
    let (left, stored) = (Left::Rows { stride: k }, Right::Packed { vectors, elements: Elements::F32 });
    let shape = MatmulShape { m, n, k, batch: Default::default(), left, right: stored };
    let matmul = Matmul::picked(isa, shape, Epilogue::default(), pool.threads(), &EmitEach).expect("a good shape");
    let mut scratch = Floats::zeros(matmul.scratch_len());
    let mut c = Floats::zeros(m * n);
    let right = PackedWeights::F32(&right);
    per_call(|| matmul.run(&a, right, &mut c, Extras::default(), &mut scratch, pool).expect("buffers fit"))
}
