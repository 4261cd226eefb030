//! Throughput of matrix products and convolutions, beside the multiply-add limit of this machine.
//!
//! `cargo bench --bench gemm` takes a few seconds; `-- --long` measures ten times as long; other words choose rows
//! whose name contains one of the words. `--cold` takes, for each call, a copy of the weights that no cache holds, as
//! in a large network. Convolutions of three by three taps are done in every way, the cost model's pick marked. A row
//! is the best of its repetitions: on a shared machine only the minimum repeats.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

#[path = "measure/floats.rs"]
mod floats;
#[path = "measure/limit.rs"]
mod limit;

use std::time::{Duration, Instant};

use floats::Floats;
use kiln_kernels::cpu::conv::{Conv, ConvBlocks, ConvExtras, ConvShape, Strategy, WinogradTile};
use kiln_kernels::cpu::gemm::{Epilogue, Extras, Left, Matmul, MatmulShape, Panels, Right, Source, panel_vectors};
use kiln_kernels::cpu::{Elements, Numerics, PackedWeights, PackedWeightsMut, Precision};
use kiln_kernels::{EmitEach, Isa};
use kiln_tensor::threads::Threads;

/// Rows, reduction, columns; and whether the right-hand side is packed beforehand.
const PRODUCTS: [(usize, usize, usize, bool); 14] = [
    (128, 128, 128, true),
    (512, 512, 512, true),
    (1024, 1024, 1024, true),
    (1, 768, 3072, true),
    (4, 768, 3072, true),
    (16, 768, 768, true),
    (128, 768, 768, true),
    (512, 768, 3072, true),
    (512, 3072, 768, true),
    (37, 100, 1000, true),
    (128, 64, 128, false),
    (128, 128, 64, false),
    (1, 64, 256, false),
    (512, 512, 512, false),
];

/// Rows, and reductions by columns, of products with weights in lower precision, beside the same products in `f32`.
const HALVED_ROWS: [usize; 7] = [1, 2, 3, 16, 32, 128, 384];
const HALVED: [(usize, usize); 3] = [(768, 768), (768, 3072), (3072, 768)];

/// Channels, filters, size, kernel, stride, groups: the convolutions of ResNet-50 and the layers of MobileNet v2.
const CONVOLUTIONS: [[u64; 6]; 40] = [
    [3, 64, 224, 7, 2, 1],
    [64, 64, 56, 1, 1, 1],
    [64, 64, 56, 3, 1, 1],
    [64, 256, 56, 1, 1, 1],
    [256, 64, 56, 1, 1, 1],
    [256, 128, 56, 1, 1, 1],
    [128, 128, 56, 3, 2, 1],
    [256, 512, 56, 1, 2, 1],
    [128, 512, 28, 1, 1, 1],
    [512, 128, 28, 1, 1, 1],
    [128, 128, 28, 3, 1, 1],
    [512, 256, 28, 1, 1, 1],
    [256, 256, 28, 3, 2, 1],
    [512, 1024, 28, 1, 2, 1],
    [256, 1024, 14, 1, 1, 1],
    [1024, 256, 14, 1, 1, 1],
    [256, 256, 14, 3, 1, 1],
    [1024, 512, 14, 1, 1, 1],
    [512, 512, 14, 3, 2, 1],
    [1024, 2048, 14, 1, 2, 1],
    [512, 2048, 7, 1, 1, 1],
    [2048, 512, 7, 1, 1, 1],
    [512, 512, 7, 3, 1, 1],
    [3, 32, 224, 3, 2, 1],
    [32, 32, 112, 3, 1, 32],
    [96, 96, 112, 3, 2, 96],
    [144, 144, 56, 3, 1, 144],
    [144, 144, 56, 3, 2, 144],
    [192, 192, 28, 3, 1, 192],
    [384, 384, 14, 3, 1, 384],
    [576, 576, 14, 3, 1, 576],
    [576, 576, 14, 3, 2, 576],
    [960, 960, 7, 3, 1, 960],
    [240, 240, 28, 5, 1, 240],
    [672, 672, 14, 5, 1, 672],
    [240, 240, 28, 5, 2, 240],
    [16, 96, 112, 1, 1, 1],
    [24, 144, 56, 1, 1, 1],
    [96, 24, 56, 1, 1, 1],
    [320, 1280, 7, 1, 1, 1],
];

/// Batch, channels, filters, height, width: convolutions of three by three taps of other networks, some with odd sizes.
const THREE_BY_THREE: [[u64; 5]; 30] = [
    [4, 64, 64, 56, 56],
    [4, 128, 128, 28, 28],
    [4, 256, 256, 14, 14],
    [4, 512, 512, 7, 7],
    [1, 64, 64, 224, 224],
    [1, 64, 128, 112, 112],
    [1, 128, 128, 112, 112],
    [1, 128, 256, 56, 56],
    [1, 256, 256, 56, 56],
    [1, 256, 512, 28, 28],
    [1, 512, 512, 28, 28],
    [1, 512, 512, 14, 14],
    [1, 32, 32, 256, 256],
    [1, 32, 64, 128, 128],
    [1, 64, 64, 128, 128],
    [1, 64, 32, 256, 256],
    [1, 128, 64, 128, 128],
    [1, 256, 128, 64, 64],
    [1, 256, 256, 32, 32],
    [1, 512, 256, 32, 32],
    [1, 64, 128, 16, 50],
    [1, 128, 256, 8, 25],
    [1, 256, 512, 4, 25],
    [1, 512, 512, 4, 25],
    [1, 16, 16, 56, 56],
    [1, 24, 24, 37, 37],
    [1, 48, 80, 19, 23],
    [1, 96, 96, 10, 10],
    [1, 128, 128, 5, 5],
    [1, 8, 16, 64, 64],
];

/// More than the last cache of most processors.
const UNCACHED: usize = 96 << 20;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let budget = Duration::from_millis(if std::env::args().any(|word| word == "--long") { 500 } else { 50 });
    let isa = Isa::detect();
    if !isa.is_jit() {
        println!("no code can be emitted on this machine");
        return;
    }
    let cold = std::env::args().any(|word| word == "--cold");
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    for threads in [1, 2] {
        let pool = Threads::new(threads).expect("threads");
        let peak = limit::multiply_adds(isa, threads, budget);
        println!("{isa}, {threads} thread(s), limit {peak:.0} GFLOP/s");
        for (m, k, n, packed) in PRODUCTS {
            let name = format!("matmul {m}x{k}x{n}{}", if packed { "" } else { " dynamic" });
            if wanted(&name) {
                let right = packed.then_some(Elements::F32);
                report(&name, 2.0 * (m * k * n) as f64, product(isa, m, k, n, right, &pool, budget, cold), peak);
            }
        }
        for (m, (k, n)) in HALVED_ROWS.into_iter().flat_map(|m| HALVED.map(|size| (m, size))) {
            for elements in [Elements::F32, Precision::Bf16.elements(isa)] {
                let name = format!("weights {elements:?} {m}x{k}x{n}");
                if wanted(&name) {
                    let seconds = product(isa, m, k, n, Some(elements), &pool, budget, cold);
                    report(&name, 2.0 * (m * k * n) as f64, seconds, peak);
                }
            }
        }
        for [channels, filters, size, kernel, stride, groups] in CONVOLUTIONS {
            let name = format!("conv {channels}->{filters} {size}x{size} k{kernel} s{stride} g{groups}");
            if wanted(&name) {
                let shape = shape(channels, filters, size, kernel, stride, groups);
                convolutions(isa, &name, &shape, &pool, budget, cold, peak);
            }
        }
        for [batch, channels, filters, height, width] in THREE_BY_THREE {
            let name = format!("conv {batch}x {channels}->{filters} {height}x{width} k3 s1 g1");
            if wanted(&name) {
                let mut shape = shape(channels, filters, 3, 3, 1, 1);
                (shape.batch, shape.input, shape.output) = (batch, [1, height, width], [1, height, width]);
                convolutions(isa, &name, &shape, &pool, budget, cold, peak);
            }
        }
    }
}

fn report(name: &str, flop: f64, seconds: f64, peak: f64) {
    let rate = flop / seconds / 1e9;
    println!("{name:44} {:9.1} us {rate:7.1} GFLOP/s {:4.0} %", seconds * 1e6, 100.0 * rate / peak);
}

/// The shortest of many calls.
fn best(budget: Duration, mut call: impl FnMut()) -> f64 {
    call();
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    while start.elapsed() < budget {
        let begin = Instant::now();
        call();
        best = best.min(begin.elapsed().as_secs_f64());
    }
    best
}

/// The best time of a product, with its right-hand side packed in these elements or not packed.
#[allow(clippy::too_many_arguments, reason = "a row of the table and how it is measured")]
fn product(
    isa: Isa,
    m: usize,
    k: usize,
    n: usize,
    packed: Option<Elements>,
    pool: &Threads,
    budget: Duration,
    cold: bool,
) -> f64 {
    let (a, b) = (Floats::numbers(m * k), Floats::numbers(k * n));
    let vectors = packed.map_or_else(|| panel_vectors(isa, n), |elements| elements.panel_vectors(isa, n));
    let source = Source::row_major(&b, k, n);
    let (right, data) = match packed {
        Some(elements) => {
            let panels = Panels { rows: elements.words(k), columns: n, width: vectors * isa.lanes() };
            let mut data = Floats::zeros(panels.len());
            let room = PackedWeightsMut::new(elements, bytemuck::cast_slice_mut(&mut data));
            panels.pack_as(&source, 1.0, room).expect("sizes agree");
            (Right::Packed { vectors, elements }, data)
        }
        None => (Right::Rows { stride: n }, b),
    };
    let shape = MatmulShape { m, n, k, batch: Default::default(), left: Left::Rows { stride: k }, right };
    let threads = kiln_kernels::Parallel::threads(pool);
    let matmul = Matmul::picked(isa, shape, Epilogue::default(), threads, &EmitEach).expect("a good shape");
    let mut scratch = Floats::zeros(matmul.scratch_len());
    let mut c = Floats::zeros(m * n);
    let copies = data.copies(if cold { (UNCACHED / 4 / (k * n).max(1)).clamp(1, 64) } else { 1 });
    let mut next = copies.iter().cycle();
    best(budget, || {
        let data = next.next().expect("a cycle");
        let data = PackedWeights::new(packed.unwrap_or(Elements::F32), bytemuck::cast_slice(data));
        matmul.run(&a, data, &mut c, Extras::default(), &mut scratch, pool).expect("buffers fit");
    })
}

fn shape(channels: u64, filters: u64, size: u64, kernel: u64, stride: u64, groups: u64) -> ConvShape {
    let pad = kernel / 2;
    let out = (size + 2 * pad - kernel) / stride + 1;
    ConvShape {
        batch: 1,
        channels,
        filters,
        groups,
        input: [1, size, size],
        output: [1, out, out],
        kernel: [1, kernel, kernel],
        strides: [1, stride, stride],
        dilations: [1; 3],
        pads: [0, pad, pad],
        transposed: false,
    }
}

/// A convolution in every possible way, the cost model's pick marked.
fn convolutions(isa: Isa, name: &str, shape: &ConvShape, pool: &Threads, budget: Duration, cold: bool, peak: f64) {
    let threads = kiln_kernels::Parallel::threads(pool);
    let pick = ConvBlocks::pick(isa, shape, Elements::F32, Numerics::Default, threads);
    let mut ways = vec![ConvBlocks::untransformed(isa, shape, Elements::F32, threads)];
    ways.extend(
        WinogradTile::ALL.iter().filter_map(|&tile| ConvBlocks::winograd(isa, shape, Elements::F32, tile, threads)),
    );
    for blocks in &ways {
        let seconds = convolution(isa, shape, blocks, pool, budget, cold);
        let way = match blocks.strategy {
            Strategy::Winograd(tile) => format!("{tile:?}"),
            other => format!("{other:?}"),
        };
        let mark = if ways.len() > 1 && *blocks == pick { "*" } else { "" };
        report(&format!("{name} {way}{mark}"), 2.0 * shape.work() as f64, seconds, peak);
    }
}

fn convolution(isa: Isa, shape: &ConvShape, blocks: &ConvBlocks, pool: &Threads, budget: Duration, cold: bool) -> f64 {
    let (weights, layout) = (shape.weights(), blocks.layout());
    let mut packed = Floats::zeros(weights.packed_len(isa, layout));
    let room = PackedWeightsMut::new(layout.elements(), bytemuck::cast_slice_mut(&mut packed));
    weights.pack(isa, layout, &Floats::numbers(weights.len()), room).expect("sizes agree");
    let copies = if cold { (UNCACHED / 4 / packed.len().max(1)).clamp(1, 64) } else { 1 };
    let copies = packed.copies(copies);
    let conv = Conv::new(isa, *shape, *blocks, None, &EmitEach).expect("a good shape");
    let (x, bias) = (Floats::numbers(shape.input_len()), Floats::numbers(shape.filters()));
    let mut scratch = Floats::zeros(conv.scratch_len());
    let mut y = Floats::zeros(shape.output_len());
    let extras = ConvExtras { bias: Some(&bias), residual: None };
    let mut next = copies.iter().cycle();
    best(budget, || {
        let packed = next.next().expect("a cycle");
        let packed = PackedWeights::new(layout.elements(), bytemuck::cast_slice(packed));
        conv.run(&x, packed, &mut y, extras, &mut scratch, pool).expect("buffers fit");
    })
}
