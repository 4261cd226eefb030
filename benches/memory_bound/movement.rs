//! What only moves: transposition of elements of every width.

use std::hint::black_box;

use kiln_kernels::cpu::transpose::{Collapsed, Method, Transpose};
use kiln_kernels::{EmitEach, Isa, Parallel, Result};

use crate::table::Table;

fn transpose(table: &Table<'_>, (shape, perm, element): (&[usize], &[usize], usize)) -> Result<()> {
    let bytes = shape.iter().product::<usize>() * element;
    table.row(&format!("transpose {shape:?} by {perm:?}, {element} B"), bytes / 2, || {
        let collapsed = Collapsed::new(shape, perm);
        let isa = Isa::detect();
        let method = Method::pick(&collapsed, element, isa);
        let transpose = Transpose::new(collapsed, element, isa, method, table.threads.threads(), &EmitEach)?;
        let (input, mut output) = (vec![1u8; bytes], vec![0u8; bytes]);
        Ok(move || {
            let done = transpose.run(&input, &mut output, table.threads);
            black_box(&mut output);
            done
        })
    })
}

/// All rows of these families.
pub(crate) fn measure(table: &Table<'_>) -> Result<()> {
    let cases: [(&[usize], &[usize], usize); 18] = [
        (&[1, 64, 56, 56], &[0, 2, 3, 1], 4),
        (&[1, 56, 56, 64], &[0, 3, 1, 2], 4),
        (&[1, 64, 112, 112], &[0, 2, 3, 1], 4),
        (&[1, 112, 112, 64], &[0, 3, 1, 2], 4),
        (&[1, 3, 224, 224], &[0, 2, 3, 1], 4),
        (&[1, 224, 224, 3], &[0, 3, 1, 2], 4),
        (&[8, 256, 56, 56], &[0, 2, 3, 1], 4),
        (&[1, 128, 12, 64], &[0, 2, 1, 3], 4),
        (&[1, 128, 12, 64], &[0, 2, 3, 1], 4),
        (&[8, 512, 12, 64], &[0, 2, 1, 3], 4),
        (&[768, 3072], &[1, 0], 4),
        (&[4096, 4096], &[1, 0], 4),
        (&[1, 64, 112, 112], &[0, 2, 3, 1], 1),
        (&[1, 64, 112, 112], &[0, 2, 3, 1], 2),
        (&[1, 64, 112, 112], &[0, 2, 3, 1], 8),
        (&[2048, 2048], &[1, 0], 8),
        (&[1, 64, 56, 56], &[0, 1, 2, 3], 4),
        (&[8, 12, 512, 64], &[1, 0, 2, 3], 4),
    ];
    table.shapes(&cases).iter().try_for_each(|&case| transpose(table, case))
}
