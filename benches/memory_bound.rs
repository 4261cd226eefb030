//! Kernels that memory bounds, beside what a plain copy of the same bytes reaches: `cargo bench --bench memory_bound`.
//!
//! Figures are the best of many repeats. "moved" counts every operand once and the result once; what a store fetches
//! before it overwrites is not counted, neither here nor in the copy.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use kiln::threads::Threads;
use kiln_kernels::cpu::chain::{
    BinaryOp, Builder, Chain, ChainPlan, Geometry, Operand, Program, Storage, Target, UnaryOp,
};
use kiln_kernels::{EmitEach, Isa, Parallel};

/// How long one figure may take.
const BUDGET: Duration = Duration::from_millis(60);

/// Seconds of the fastest repeat.
fn best(mut work: impl FnMut()) -> f64 {
    let started = Instant::now();
    let mut best = f64::MAX;
    while started.elapsed() < BUDGET {
        let repeat = Instant::now();
        work();
        best = best.min(repeat.elapsed().as_secs_f64());
    }
    best
}

/// Bytes a second of copying `elements` floats, as many tasks as threads.
fn copy(elements: usize, threads: &Threads) -> f64 {
    let (from, mut to) = (vec![1.0f32; elements], vec![0.0f32; elements]);
    let part = elements.div_ceil(threads.threads());
    let seconds = best(|| {
        kiln_kernels::parallel::for_each_chunk(threads, &mut to, part, &|index, chunk| {
            let start = index * part;
            chunk.copy_from_slice(&from[start..start + chunk.len()]);
        });
        black_box(&mut to);
    });
    (elements * 8) as f64 / seconds
}

fn unary(op: UnaryOp) -> Program {
    Program::unary(op)
}

fn binary(op: BinaryOp) -> Option<Program> {
    let mut builder = Builder::new(&[Storage::F32, Storage::F32]);
    builder.binary(op, 0, 1);
    builder.finish(Storage::F32)
}

/// Bytes a second of a chain over rows x columns; further operands are one row each.
fn chain(program: &Program, (rows, columns): (usize, usize), unroll: u8, threads: &Threads) -> f64 {
    let shapes: Vec<&[usize]> = vec![&[1]; program.inputs.len()];
    let (whole, row) = ([rows, columns], [columns]);
    let shapes: Vec<&[usize]> =
        shapes.iter().enumerate().map(|(index, _)| if index == 0 { &whole[..] } else { &row[..] }).collect();
    let Ok(geometry) = Geometry::new(&whole, &shapes) else { return 0.0 };
    let isa = Isa::detect();
    let unroll = Chain::unroll_for(isa, program, &geometry, unroll);
    let plan = ChainPlan { unroll, tasks: threads.threads() };
    let Ok(chain) = Chain::new(isa, program, &geometry, plan, &EmitEach) else { return 0.0 };
    let (first, others) = (vec![0.7f32; rows * columns], vec![0.3f32; columns]);
    let mut output = vec![0.0f32; rows * columns];
    let mut operands = vec![Operand::F32(&first)];
    operands.resize(program.inputs.len(), Operand::F32(&others));
    let seconds = best(|| {
        let done = chain.run(&operands, &mut Target::F32(&mut output), threads);
        black_box(&mut output);
        assert!(done.is_ok(), "{done:?}");
    });
    (rows * columns * 8) as f64 / seconds
}

fn main() {
    // `cargo test --benches` passes arguments of its own; a quick look is enough for it then.
    let quick = std::env::args().any(|argument| argument == "--test");
    let programs = [
        ("relu", Some(unary(UnaryOp::Relu))),
        ("add a row", binary(BinaryOp::Add)),
        ("sigmoid", Some(unary(UnaryOp::Sigmoid))),
        ("exp", Some(unary(UnaryOp::Exp))),
        ("tanh", Some(unary(UnaryOp::Tanh))),
        ("gelu", Some(unary(UnaryOp::Gelu))),
        ("silu", Some(unary(UnaryOp::Silu))),
    ];
    let shapes: &[(usize, usize)] = if quick { &[(128, 768)] } else { &[(128, 768), (512, 3072), (4096, 8192)] };
    for count in if quick { vec![1] } else { vec![1, 2] } {
        let Ok(threads) = Threads::new(count) else { continue };
        for &(rows, columns) in shapes {
            let copied = copy(rows * columns, &threads);
            println!("{rows} x {columns}, {count} threads, {}: copy {:.1} GB/s", Isa::detect(), copied / 1e9);
            for (name, program) in programs.iter().filter_map(|(name, program)| Some((name, program.as_ref()?))) {
                let row: Vec<String> = [1, 2, 4]
                    .into_iter()
                    .map(|unroll| chain(program, (rows, columns), unroll, &threads))
                    .map(|moved| format!("{:6.1} GB/s {:4.0} %", moved / 1e9, moved / copied * 100.0))
                    .collect();
                println!("  {name:<12} with 1, 2, 4 vectors in flight: {}", row.join(", "));
            }
        }
    }
}
