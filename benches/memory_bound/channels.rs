//! Operators by channel: batch, instance and group normalisation, LRN, pooling.

use std::hint::black_box;

use kiln_kernels::cpu::norm::{Affine, Channels, GroupOperands, Groups, Local, LocalNorm};
use kiln_kernels::cpu::pool::{Path, Pool, PoolKind, PoolShape, Window};
use kiln_kernels::{EmitEach, Isa, Parallel, Result};

use crate::table::{Table, values};

fn layout(last: bool) -> &'static str {
    if last { "nhwc" } else { "nchw" }
}

fn norms(table: &Table<'_>, shape: Channels) -> Result<()> {
    let ([batch, channels, spatial], last) = (shape.sizes(), shape.last);
    let elements = batch * channels * spatial;
    let place = format!("{batch}x{channels}x{spatial} {}", layout(last));
    let tasks = table.threads.threads();
    table.row(&format!("batch norm {place}"), 2 * elements, || {
        let norm = Affine::new(shape, Isa::detect(), tasks, &EmitEach)?;
        let (input, numbers, mut output) = (values(elements), values(channels), vec![0.0; elements]);
        Ok(move || {
            let done = norm.run(&input, &numbers, &numbers, &mut output, table.threads);
            black_box(&mut output);
            done
        })
    })?;
    for (name, groups) in [("instance norm", channels), ("group norm", 32)] {
        table.row(&format!("{name} {place}"), 2 * elements, || {
            let norm = Groups::new(shape, groups, Isa::detect(), tasks, &EmitEach)?;
            let (input, numbers, mut output) = (values(elements), values(channels), vec![0.0; elements]);
            let mut scratch = vec![0.0; norm.scratch_len()];
            Ok(move || {
                let operands = GroupOperands { scale: &numbers, bias: &numbers, epsilon: 1e-5 };
                let done = norm.run(&input, operands, &mut output, &mut scratch, table.threads);
                black_box(&mut output);
                done
            })
        })?;
    }
    table.row(&format!("LRN {place}"), 2 * elements, || {
        let local = Local { size: 5, alpha: 1e-4.into(), beta: 0.75.into(), bias: 1.0.into() };
        let norm = LocalNorm::new(shape, local, tasks)?;
        let (input, mut output) = (values(elements), vec![0.0; elements]);
        Ok(move || {
            let done = norm.run(&input, &mut output, table.threads);
            black_box(&mut output);
            done
        })
    })
}

/// Pooling of one square image: channels, side, then window, stride and padding.
type Square = (&'static str, PoolKind, u64, [u64; 4]);

fn pool(table: &Table<'_>, square: Square, last: bool) -> Result<()> {
    let (name, kind, channels, [side, kernel, stride, pad]) = square;
    let output = (side + 2 * pad - kernel) / stride + 1;
    let axis = Window { input: side, output, kernel, stride, dilation: 1, before: pad, after: pad };
    let shape = PoolShape { batch: 1, channels, axes: [Window::NONE, axis, axis], channels_last: last };
    let moved = shape.inputs() + shape.outputs();
    table.row(&format!("{name} {channels}@{side} {}", layout(last)), moved, || {
        let isa = Isa::detect();
        let path = Path::pick(kind, &shape, isa);
        let pool = Pool::new(kind, shape, isa, path, table.threads.threads(), &EmitEach)?;
        let (input, mut output) = (values(shape.inputs()), vec![0.0; shape.outputs()]);
        Ok(move || {
            let done = pool.run(&input, &mut output, table.threads);
            black_box(&mut output);
            done
        })
    })
}

/// All rows of these families.
pub(crate) fn measure(table: &Table<'_>) -> Result<()> {
    for &[batch, channels, spatial] in table.shapes(&[[1, 64, 784], [1, 64, 12544], [8, 256, 12544]]) {
        for last in [false, true] {
            norms(table, Channels { batch, channels, spatial, last })?;
        }
    }
    let average = PoolKind::Average { include_pad: false };
    let pools: [Square; 6] = [
        ("maxpool 3x3/2", PoolKind::Max, 64, [112, 3, 2, 1]),
        ("maxpool 2x2/2", PoolKind::Max, 64, [256, 2, 2, 0]),
        ("maxpool 3x3/1", PoolKind::Max, 192, [28, 3, 1, 1]),
        ("avgpool 2x2/2", average, 128, [56, 2, 2, 0]),
        ("avgpool 3x3/1", average, 192, [28, 3, 1, 1]),
        ("global avgpool", average, 2048, [7, 7, 1, 0]),
    ];
    for &square in table.shapes(&pools) {
        for last in [false, true] {
            pool(table, square, last)?;
        }
    }
    Ok(())
}
