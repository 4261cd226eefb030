//! Products by block-quantised weights: `cargo bench --bench blockwise [-- NAME...]`; `--threads N`, `--block N`,
//! `--bits N` and `--isa LEVEL`.
//!
//! For each matrix and number of rows: rows as `f32`, and rows as bytes in each way that the processor has. Weights are
//! copies that no cache holds, as for a language model. Bytes a second stand beside the speed of reading: the best of a
//! plain sum over memory, in the same run. A row is the best of its repetitions. One row prefetches as far ahead as is
//! measured first.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

#[path = "measure/floats.rs"]
mod floats;

use std::time::{Duration, Instant};

use floats::Floats;
use kiln_kernels::cpu::blockwise::{
    Ahead, BlockFormat, BlockProduct, BlockProductBlocks, BlockProductShape, BlockSource, CodeBytes, Codes,
    LeftElements, Offsets, Products, ZeroPoints,
};
use kiln_kernels::cpu::machine::{Caches, Figures, Speeds};
use kiln_kernels::parallel::{Parallel, Serial};
use kiln_kernels::{EmitEach, Extensions, Isa};
use kiln_tensor::threads::Threads;

/// Reduction and columns.
const MATRICES: [(usize, usize); 3] = [(896, 4864), (4864, 896), (4096, 11008)];
const ROWS: [usize; 6] = [1, 2, 4, 8, 128, 512];

/// Bytes of weights that no cache holds: copies of a matrix are taken in turns.
const COLD: usize = 1 << 29;

/// The fastest call, in seconds.
fn fastest(mut call: impl FnMut(usize)) -> f64 {
    let (start, mut best, mut turn) = (Instant::now(), f64::INFINITY, 0);
    while start.elapsed() < Duration::from_millis(400) || turn < 3 {
        let begin = Instant::now();
        call(turn);
        best = best.min(begin.elapsed().as_secs_f64());
        turn += 1;
    }
    best
}

/// Bytes a second that threads read; each reads its part of [`COLD`] bytes.
fn reading(threads: &Threads) -> f64 {
    let memory = Floats::numbers(COLD / 4);
    let count = threads.threads();
    let seconds = fastest(|_| {
        threads.run(count, &|task| {
            let part = &memory[task * memory.len() / count..(task + 1) * memory.len() / count];
            let mut sums = [0u64; 64];
            for line in bytemuck::cast_slice::<f32, u64>(&part[..part.len() / 128 * 128]).chunks_exact(64) {
                sums.iter_mut().zip(line).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
            }
            std::hint::black_box(sums);
        });
    });
    (memory.len() * 4) as f64 / seconds
}

fn main() {
    let mut given = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut names, mut threads, mut block, mut bits, mut isa) = (Vec::new(), 2, 32, 4, Isa::detect());
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--threads" => threads = given.next().and_then(|count| count.parse().ok()).unwrap_or(threads),
            "--block" => block = given.next().and_then(|count| count.parse().ok()).unwrap_or(block),
            "--bits" => bits = given.next().and_then(|count| count.parse().ok()).unwrap_or(bits),
            "--isa" => isa = given.next().and_then(|name| Isa::from_name(&name)).unwrap_or(isa).min(isa),
            _ => names.push(argument),
        }
    }
    let threads = Threads::new(threads).expect("threads start");
    let codes = match bits {
        2 => Codes::Int2,
        8 => Codes::Int8,
        _ => Codes::Int4,
    };
    let limit = reading(&threads);
    let figures = Figures::measure(isa, &Serial, &Caches::of_machine(), usize::MAX);
    let ahead = figures.map_or(Ahead::default(), |figures| Speeds::of(&figures).ahead);
    println!(
        "{isa}, {} threads, {codes:?}, blocks of {block}, {ahead:?} prefetching; memory is read at {:.1} GB/s",
        threads.threads(),
        limit / 1e9
    );
    for (k, n) in MATRICES {
        let wanted = |m: &&usize| {
            let name = format!("{m}x{k}x{n}");
            names.is_empty() || names.iter().any(|part| name.contains(part.as_str()))
        };
        let mut of_one = [0.0; WAYS.len()];
        for &m in ROWS.iter().filter(wanted) {
            let format = BlockFormat { codes, zeros: ZeroPoints::Middle, block };
            measure([m, k, n], format, isa, ahead, &threads, limit, &mut of_one);
        }
    }
}

/// The instructions that multiply rows as bytes, or as `bf16` on AMX; none where rows are `f32`.
const WAYS: [(&str, Option<Products>); 4] = [
    ("f32", None),
    ("fours", Some(Products::Fours)),
    ("pairs", Some(Products::Pairs)),
    ("tiles", Some(Products::Bf16Tiles)),
];

/// One line of the table. `of_one` has the times of one row, for each way.
fn measure(
    [m, k, n]: [usize; 3],
    format: BlockFormat,
    isa: Isa,
    ahead: Ahead,
    threads: &Threads,
    limit: f64,
    of_one: &mut [f64; WAYS.len()],
) {
    let (codes, block) = (format.codes, format.block());
    let mut line = format!("{m:>4} x {k} x {n}:");
    let mut packed: Option<(usize, Vec<Vec<u8>>)> = None;
    for (at, (name, dots)) in WAYS.into_iter().enumerate() {
        let needs = dots.and_then(|products| products.extension(isa));
        let has_level = needs.is_none_or(|extension| extension.present() && extension.level() <= isa);
        if !has_level || dots.is_some() && !isa.is_jit() {
            continue;
        }
        let left = if dots.is_some() { LeftElements::Bytes } else { LeftElements::Floats };
        let shape = BlockProductShape { m: m as u64, n: n as u64, k: k as u64, format, bias: false, left };
        let picked = BlockProductBlocks::pick(isa, Extensions::beside(isa), &shape, threads.threads());
        let blocks = BlockProductBlocks { dots, ..picked };
        let panels = shape.panels(isa);
        let (_, copies) = packed.get_or_insert_with(|| {
            let stride = k.next_multiple_of(block) * codes.bits() / 8;
            let codes: Vec<u8> = (0..n * stride).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
            let scales = vec![0.01; n * k.div_ceil(block)];
            let source = BlockSource {
                codes: CodeBytes::Packed { bytes: &codes, stride },
                signed: false,
                scales: &scales,
                zero_bytes: &[],
                zeros: &[],
                at: Offsets { inner: 1, column: k.div_ceil(block) },
            };
            let mut one = vec![0; panels.bytes()];
            panels.pack(&source, &mut one).expect("weights are packed");
            (one.len(), vec![one; (COLD / panels.bytes()).max(1)])
        });
        let product = BlockProduct::new(isa, shape, blocks, ahead, &EmitEach).expect("kernels");
        let (left, mut c) = (Floats::numbers(m * k), Floats::zeros(m * n));
        let mut scratch = Floats::zeros(product.scratch_len());
        let seconds = fastest(|turn| {
            let weights = &copies[turn % copies.len()];
            product.run(&left, weights, None, &mut c, &mut scratch, threads).expect("a product");
        });
        if m == 1 {
            of_one[at] = seconds;
        }
        let rate = panels.bytes() as f64 / seconds;
        line += &format!(" {name} {:.3} ms ({:.2} of reading", seconds * 1e3, rate / limit);
        if m > 1 && of_one[at] > 0.0 {
            line += &format!(", {:.2} of one row", seconds / of_one[at]);
        }
        line += &format!(", {:.0} G multiply-adds/s)", (m * n * k) as f64 / seconds / 1e9);
    }
    println!("{line}");
}
