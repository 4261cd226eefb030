//! Softmax, layer normalisation and reductions, beside what a plain copy of the same bytes reaches:
//! `cargo bench --bench rows`.
//!
//! Figures are the best of many repeats. "moved" counts the input once and the output once; operands of a row, and what a
//! store fetches before it overwrites, are not counted, neither here nor in the copy.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use kiln::threads::Threads;
use kiln_kernels::cpu::norm::{RowForm, RowNorm, RowOperands, RowResults};
use kiln_kernels::cpu::reduce::{Collapsed, Reduce, Reduction};
use kiln_kernels::cpu::softmax::{Around, Softmax};
use kiln_kernels::{EmitEach, Isa, Parallel, Result};

/// How long one figure may take.
const BUDGET: Duration = Duration::from_millis(60);

/// Seconds of the fastest repeat.
fn best(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    let mut best = f64::MAX;
    while started.elapsed() < BUDGET {
        let repeat = Instant::now();
        work()?;
        best = best.min(repeat.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Numbers of both signs, none of them special.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at * 37 % 101) as f32 / 16.0 - 3.0).collect()
}

fn report(name: &str, elements: usize, results: usize, seconds: f64) {
    let moved = ((elements + results) * 4) as f64 / seconds / 1e9;
    println!("  {name:<32} {:9.2} us  {moved:6.1} GB/s", seconds * 1e6);
}

fn copy(elements: usize, threads: &Threads) -> Result<()> {
    let (from, mut to) = (values(elements), vec![0.0f32; elements]);
    let part = elements.div_ceil(threads.threads());
    let seconds = best(|| {
        kiln_kernels::parallel::for_each_chunk(threads, &mut to, part, &|index, chunk| {
            let start = index * part;
            chunk.copy_from_slice(&from[start..start + chunk.len()]);
        });
        black_box(&mut to);
        Ok(())
    })?;
    report("copy", elements, elements, seconds);
    Ok(())
}

fn softmax(around: Around, logarithm: bool, threads: &Threads) -> Result<()> {
    let elements = around.elements().unwrap_or(0);
    let softmax = Softmax::new(around, logarithm, Isa::detect(), threads.threads(), &EmitEach)?;
    let (input, mut output) = (values(elements), vec![0.0; elements]);
    let seconds = best(|| {
        let done = softmax.run(&input, &mut output, threads);
        black_box(&mut output);
        done
    })?;
    let name = if logarithm { "log-softmax" } else { "softmax" };
    report(&format!("{name} {}x{}x{}", around.outer, around.length, around.inner), elements, elements, seconds);
    Ok(())
}

fn layer(rows: usize, length: usize, centred: bool, threads: &Threads) -> Result<()> {
    let form = RowForm { rows, length, centred, scale: true, bias: centred, moments: false };
    let norm = RowNorm::new(form, Isa::detect(), threads.threads(), &EmitEach)?;
    let (input, mut output, numbers) = (values(rows * length), vec![0.0; rows * length], values(length));
    let operands = RowOperands { scale: Some(&numbers), bias: centred.then_some(numbers.as_slice()), epsilon: 1e-5 };
    let seconds = best(|| {
        let done = norm.run(&input, operands, RowResults { output: &mut output, moments: None }, threads);
        black_box(&mut output);
        done
    })?;
    let name = if centred { "layer norm" } else { "RMS norm" };
    report(&format!("{name} {rows}x{length}"), rows * length, rows * length, seconds);
    Ok(())
}

fn reduction(reduction: Reduction, shape: &[usize], axes: &[usize], threads: &Threads) -> Result<()> {
    let collapsed = Collapsed::new(shape, |axis| axes.contains(&axis));
    let reduce = Reduce::new(reduction, &collapsed, Isa::detect(), threads.threads(), &EmitEach)?;
    let input = values(collapsed.input_len());
    let (mut output, mut scratch) = (vec![0.0; collapsed.output_len()], vec![0.0; reduce.scratch_len()]);
    let seconds = best(|| {
        let done = reduce.run(&input, &mut output, &mut scratch, threads);
        black_box(&mut output);
        done
    })?;
    report(&format!("{reduction:?} of {shape:?} over {axes:?}"), input.len(), output.len(), seconds);
    Ok(())
}

fn main() -> Result<()> {
    // `cargo test --benches` passes arguments of its own; a quick look is enough for it then.
    let quick = std::env::args().any(|argument| argument == "--test");
    for count in if quick { vec![1] } else { vec![1, 2] } {
        let Ok(threads) = Threads::new(count) else { continue };
        println!("{count} threads, {}", Isa::detect());
        let row = |outer, length| Around { outer, length, inner: 1 };
        softmax(row(1536, 128), false, &threads)?;
        layer(128, 768, true, &threads)?;
        if quick {
            continue;
        }
        for elements in [1536 * 128, 6144 * 512] {
            copy(elements, &threads)?;
        }
        softmax(row(6144, 512), false, &threads)?;
        softmax(row(1536, 21), false, &threads)?;
        softmax(row(1536, 128), true, &threads)?;
        softmax(Around { outer: 8, length: 64, inner: 1024 }, false, &threads)?;
        layer(512, 768, true, &threads)?;
        layer(4096, 1024, true, &threads)?;
        layer(128, 768, false, &threads)?;
        for kind in [Reduction::Sum, Reduction::Max, Reduction::L2, Reduction::LogSumExp] {
            reduction(kind, &[512, 768], &[1], &threads)?;
        }
        reduction(Reduction::Mean, &[1, 49, 2048], &[1], &threads)?;
        reduction(Reduction::Mean, &[1, 2048, 49], &[2], &threads)?;
        reduction(Reduction::Max, &[8, 128, 512], &[1], &threads)?;
        reduction(Reduction::Sum, &[4096, 1024], &[0, 1], &threads)?;
        reduction(Reduction::Sum, &[4096, 1024], &[0], &threads)?;
    }
    Ok(())
}
