//! Operators on rows or columns: softmax, layer and RMS normalisation, reductions, rotations of heads.

use std::hint::black_box;

use kiln_kernels::cpu::norm::{RowForm, RowNorm, RowOperands, RowResults};
use kiln_kernels::cpu::reduce::{Collapsed, Reduce, Reduction};
use kiln_kernels::cpu::rotary::{Angles, Rotary, Rotation};
use kiln_kernels::cpu::softmax::{Around, Softmax};
use kiln_kernels::{EmitEach, Isa, Parallel, Result};

use crate::table::{Table, values};

fn softmax(table: &Table<'_>, [outer, length, inner]: [usize; 3], logarithm: bool) -> Result<()> {
    let elements = outer * length * inner;
    let name = if logarithm { "log-softmax" } else { "softmax" };
    table.row(&format!("{name} {outer}x{length}x{inner}"), 2 * elements, || {
        let around = Around { outer: outer as u64, length: length as u64, inner: inner as u64 };
        let softmax = Softmax::new(around, logarithm, Isa::detect(), table.threads.threads(), &EmitEach)?;
        let (input, mut output) = (values(elements), vec![0.0; elements]);
        Ok(move || {
            let done = softmax.run(&input, &mut output, table.threads);
            black_box(&mut output);
            done
        })
    })
}

fn row_norm(table: &Table<'_>, [rows, length]: [usize; 2], centred: bool) -> Result<()> {
    let name = if centred { "layernorm" } else { "RMS norm" };
    table.row(&format!("{name} {rows}x{length}"), 2 * rows * length, || {
        let form = RowForm {
            rows: rows as u64,
            length: length as u64,
            centred,
            scale: true,
            bias: centred,
            moments: false,
            output: Default::default(),
        };
        let norm = RowNorm::new(form, Isa::detect(), table.threads.threads(), &EmitEach)?;
        let (input, mut output, numbers) = (values(rows * length), vec![0.0; rows * length], values(length));
        Ok(move || {
            let bias = centred.then_some(numbers.as_slice());
            let operands = RowOperands { scale: Some(&numbers), bias, epsilon: 1e-5 };
            let done = norm.run(
                &input,
                operands,
                RowResults { output: (&mut output[..]).into(), moments: None },
                table.threads,
            );
            black_box(&mut output);
            done
        })
    })
}

fn reduction(table: &Table<'_>, reduction: Reduction, shape: &[usize], axes: &[usize]) -> Result<()> {
    let collapsed = Collapsed::new(shape, |axis| axes.contains(&axis));
    let moved = collapsed.input_len() + collapsed.output_len();
    table.row(&format!("reduce {reduction:?} {shape:?} over {axes:?}"), moved, || {
        let reduce = Reduce::new(reduction, &collapsed, Isa::detect(), table.threads.threads(), &EmitEach)?;
        let input = values(collapsed.input_len());
        let (mut output, mut scratch) = (vec![0.0; collapsed.output_len()], vec![0.0; reduce.scratch_len()]);
        Ok(move || {
            let done = reduce.run(&input, &mut output, &mut scratch, table.threads);
            black_box(&mut output);
            done
        })
    })
}

fn rotation(table: &Table<'_>, [positions, heads, size]: [usize; 3], interleaved: bool) -> Result<()> {
    let elements = positions * heads * size;
    let name = if interleaved { "rotated neighbours" } else { "rotated halves" };
    table.row(&format!("{name} {positions}x{heads}x{size}"), 2 * elements + positions * size, || {
        let [positions, heads] = [positions, heads].map(|count| count as u64);
        let (size, rotated) = (size as u64, size as u64);
        let form = Rotation { batch: 1, positions, heads, size, rotated, interleaved, heads_first: true };
        let rotary = Rotary::new(form, Isa::detect(), table.threads.threads(), &EmitEach)?;
        let (input, mut output, lines) = (values(elements), vec![0.0; elements], (0..form.lines()).collect::<Vec<_>>());
        let angles = values(form.lines() * form.pairs());
        Ok(move || {
            let angles = Angles { cosines: &angles, sines: &angles, lines: &lines };
            let done = rotary.run(&input, angles, &mut output, table.threads);
            black_box(&mut output);
            done
        })
    })
}

/// All rows of these families.
pub(crate) fn measure(table: &Table<'_>) -> Result<()> {
    let softmaxes =
        [[192, 16, 1], [1536, 21, 1], [1536, 128, 1], [6144, 512, 1], [1, 32000, 1], [49152, 512, 1], [8, 64, 1024]];
    for &shape in table.shapes(&softmaxes) {
        softmax(table, shape, false)?;
    }
    softmax(table, [1536, 128, 1], true)?;
    for &shape in table.shapes(&[[1, 768], [128, 384], [128, 768], [512, 768], [4096, 1024], [16384, 2048]]) {
        row_norm(table, shape, true)?;
        row_norm(table, shape, false)?;
    }
    for &shape in table.shapes(&[[1, 32, 128], [512, 32, 128], [2048, 32, 128]]) {
        rotation(table, shape, false)?;
        rotation(table, shape, true)?;
    }
    type Case = (Reduction, &'static [usize], &'static [usize]);
    let cases: [Case; 14] = [
        (Reduction::Sum, &[512, 768], &[1]),
        (Reduction::Max, &[512, 768], &[1]),
        (Reduction::L2, &[512, 768], &[1]),
        (Reduction::LogSumExp, &[512, 768], &[1]),
        (Reduction::Mean, &[1, 49, 2048], &[1]),
        (Reduction::Mean, &[1, 2048, 49], &[2]),
        (Reduction::Max, &[8, 128, 512], &[1]),
        (Reduction::Sum, &[4096, 1024], &[0]),
        (Reduction::Sum, &[4096, 1024], &[1]),
        (Reduction::Sum, &[4096, 1024], &[0, 1]),
        (Reduction::Max, &[4096, 1024], &[0]),
        (Reduction::Sum, &[16384, 2048], &[1]),
        (Reduction::Max, &[16384, 2048], &[1]),
        (Reduction::Sum, &[16384, 2048], &[0]),
    ];
    for &(kind, shape, axes) in table.shapes(&cases) {
        reduction(table, kind, shape, axes)?;
    }
    Ok(())
}
