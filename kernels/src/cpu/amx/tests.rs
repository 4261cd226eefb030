//! AMX against plain sums of small integers, which are exact in any order.

use super::prefetch::PrefetchLines;
use super::*;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::{Panels, Source};
use crate::cpu::precision::{from_bf16, to_bf16};
use crate::cpu::{CodeKey, EmitEach, Emitted, Stored};
use crate::isa::Isa;
use crate::jit::Given;

/// Small numbers that `bf16` holds exactly, so that sums are exact in any order.
fn small(index: usize) -> f32 {
    (index * 7 % 13) as f32 - 6.0
}

#[test]
fn blocks_are_as_tall_as_they_can_be_and_cover_all_tile_rows() {
    for tile_rows in 0..7 {
        let covered: Vec<usize> =
            Block::all(tile_rows).flat_map(|block| block.first..block.first + block.height * block.count).collect();
        assert_eq!(covered, (0..tile_rows).collect::<Vec<_>>());
        assert!(Block::all(tile_rows).all(|block| block.count > 0 && (block.height == TALLEST || block.count == 1)));
    }
}

/// `words` bf16 pairs of small numbers.
fn pairs(words: usize) -> Vec<u16> {
    (0..2 * words).map(|index| to_bf16(small(index))).collect()
}

/// Sums over taps of rows that lie in one line of words, beside plain sums.
#[test]
fn blocks_are_sums_over_taps_and_steps() {
    let multiply = Multiply::new(Isa::Avx512, [1, 2], &EmitEach).unwrap();
    for (height, blocks, taps, steps, resume) in
        [(1, 1, 1, 1, false), (2, 1, 1, 3, false), (2, 3, 2, 1, false), (1, 2, 3, 2, true), (2, 2, 1, 2, true)]
    {
        // The rows of a tile row are one row stride apart, and so are taps: they overlap, as in a convolution.
        let row_words = steps * STEP_WORDS;
        let tile_rows = blocks * height;
        let rows = tile_rows * TILE_ROWS + taps;
        let left = pairs(rows * row_words);
        let right: Vec<f32> = (0..taps * steps * STEP * PANEL).map(|at| small(at * 3 + 1)).collect();
        let panels = Panels { rows: taps * steps * STEP_WORDS, columns: PANEL, width: PANEL };
        let mut packed = vec![0; 2 * panels.len()];
        panels.pack_pairs(&Source::row_major(&right, taps * steps * STEP, PANEL), 1.0, &mut packed).unwrap();
        let starts: Vec<*const u8> =
            (0..tile_rows).map(|tile| left[2 * tile * TILE_ROWS * row_words..].as_ptr().cast()).collect();
        let offsets: Vec<isize> = (0..taps).map(|tap| (tap * row_words * 4) as isize).collect();
        let mut out: Vec<f32> = (0..tile_rows * TILE_ROWS * PANEL).map(small).collect();
        let before = out.clone();
        let mut args = MultiplyArgs::empty();
        args.blocks = blocks;
        args.rows = starts.as_ptr();
        (args.row_stride, args.left_stride) = (row_words * 4, 64);
        (args.taps, args.tap_count, args.steps) = (offsets.as_ptr(), taps, steps);
        (args.right, args.out) = (packed.as_ptr().cast(), out.as_mut_ptr());
        args.resume = usize::from(resume);
        // Prefetches change nothing.
        let lines = PrefetchLines::all(packed.as_ptr().cast(), 700);
        args.prefetch(&[Some(lines), None, (taps > 1).then_some(lines)], taps * steps * blocks);
        let given = Given::new().read("left", &left).read("right", &packed).write("sums", &mut out);
        let given = given.read("tile rows", &starts).read("taps", &offsets);
        // SAFETY: all rows of all taps lie in `left`, the panel and the sums are whole.
        unsafe { multiply.call(height, &args, &given) };
        for (at, &found) in out.iter().enumerate() {
            let (row, column) = (at / PANEL, at % PANEL);
            let sum: f32 = (0..taps * steps * STEP)
                .map(|k| {
                    let (tap, k) = (k / (steps * STEP), k % (steps * STEP));
                    small(2 * (row + tap) * row_words + k) * small(((tap * steps * STEP + k) * PANEL + column) * 3 + 1)
                })
                .sum();
            let start = if resume { before[at] } else { 0.0 };
            assert_eq!(found, start + sum, "{height} {blocks} {taps} {steps}: row {row}, column {column}");
        }
    }
}

#[test]
fn the_epilogue_touches_the_own_columns_alone() {
    let sums: Vec<f32> = (0..5 * PANEL).map(small).collect();
    let bias: Vec<f32> = (0..PANEL).map(|column| column as f32).collect();
    for activation in [None, Some(UnaryOp::Relu), Some(UnaryOp::Gelu)] {
        let kernel = Emitted::new(EpilogueCode::plain(Isa::Avx512, activation), CodeKey::Epilogue, &EmitEach).unwrap();
        for (columns, rows) in [(1, 1), (16, 2), (17, 5), (31, 3), (32, 5)] {
            let step = columns + 3;
            let residual: Vec<f32> = (0..5 * step).map(|at| at as f32 * 0.5 - 9.0).collect();
            let mut found = vec![77.0; 5 * step];
            let mut args = EpilogueArgs::of_columns(columns).biased(Some(&bias), 0);
            (args.area.from, args.area.to, args.area.to_stride, args.area.rows) =
                (sums.as_ptr(), found.as_mut_ptr().cast(), step * 4, rows);
            args.scale = 0.5;
            (args.residual, args.residual_stride) = (residual.as_ptr().cast(), step * 4);
            let given = Given::new().read("sums", &sums).read("bias", &bias).read("residual", &residual);
            // SAFETY: the buffers hold five rows.
            unsafe { kernel.call(&args, &given.write("result", &mut found)) };
            for (at, &found) in found.iter().enumerate() {
                let (row, column) = (at / step, at % step);
                let expected = match row < rows && column < columns {
                    true => {
                        let sum = sums[row * PANEL + column] * 0.5 + bias[column] + residual[at];
                        activation.map_or(sum, |op| crate::reference::chain::unary(op, sum))
                    }
                    false => 77.0,
                };
                assert!((found - expected).abs() <= 1e-5, "{columns} {rows}: {row} {column}: {found} {expected}");
            }
        }
    }
}

/// Every pair of types of residual and result; column counts that end in two whole vectors, in one, and in between.
#[test]
fn the_epilogue_reads_and_writes_bf16() {
    let sums: Vec<f32> = (0..5 * 3 * PANEL).map(|index| small(index) * 1.375).collect();
    let bias: Vec<f32> = (0..3 * PANEL).map(|column| column as f32 * 0.25).collect();
    for (residual, output) in [(Stored::Bf16, Stored::Bf16), (Stored::F32, Stored::Bf16), (Stored::Bf16, Stored::F32)] {
        let code = EpilogueCode { residual, output, ..EpilogueCode::plain(Isa::Avx512, Some(UnaryOp::Relu)) };
        let kernel = Emitted::new(code, CodeKey::Epilogue, &EmitEach).unwrap();
        for (columns, rows, with) in [(1, 1, true), (16, 2, true), (17, 5, false), (31, 3, true), (80, 5, true)] {
            let step = columns + 3;
            let other: Vec<f32> = (0..5 * step).map(|at| at as f32 * 0.5 - 9.0).collect();
            let halves: Vec<u16> = other.iter().copied().map(to_bf16).collect();
            let (mut found, mut found_halves) = (vec![77.0f32; 5 * step], vec![77u16; 5 * step]);
            let mut args = EpilogueArgs::of_columns(columns).biased(Some(&bias), 0);
            (args.area.from, args.area.from_stride, args.area.rows) = (sums.as_ptr(), 3 * PANEL * 4, rows);
            (args.area.to, args.area.to_stride) = match output {
                Stored::F32 => (found.as_mut_ptr().cast(), step * 4),
                Stored::Bf16 => (found_halves.as_mut_ptr().cast(), step * 2),
            };
            if with {
                (args.residual, args.residual_stride) = match residual {
                    Stored::F32 => (other.as_ptr().cast(), step * 4),
                    Stored::Bf16 => (halves.as_ptr().cast(), step * 2),
                };
            }
            let given = Given::new().read("sums", &sums).read("bias", &bias).read("residual", &other);
            let given = given.read("residual", &halves).write("result", &mut found).write("result", &mut found_halves);
            // SAFETY: the buffers hold five rows.
            unsafe { kernel.call(&args, &given) };
            for at in 0..5 * step {
                let (row, column) = (at / step, at % step);
                let own = row < rows && column < columns;
                let added = match (with, residual) {
                    (false, _) => 0.0,
                    (true, Stored::F32) => other[at],
                    (true, Stored::Bf16) => from_bf16(halves[at]),
                };
                let value = || (sums[row * 3 * PANEL + column] + bias[column] + added).max(0.0);
                assert_eq!(found[at], if own && output == Stored::F32 { value() } else { 77.0 });
                assert_eq!(found_halves[at], if own && output == Stored::Bf16 { to_bf16(value()) } else { 77 });
            }
        }
    }
}

#[test]
fn numbers_of_the_tests_are_exact_in_bf16() {
    assert!((0..13).all(|index| from_bf16(to_bf16(small(index))) == small(index)));
}

/// Multiplication with a fused epilogue: two groups of rows with one row between them that is not stored.
#[test]
fn sums_are_ended_panel_by_panel_in_the_results_own_columns() {
    const ROWS: [(usize, usize); 2] = [(0, 9), (10, 22)];
    for (columns, panels, words) in [(PANEL, 2, STEP_WORDS), (PANEL, 1, 5), (20, 1, STEP_WORDS), (16, 1, 12), (3, 1, 1)]
    {
        for (residual, output) in
            [(Stored::F32, Stored::F32), (Stored::Bf16, Stored::Bf16), (Stored::F32, Stored::Bf16)]
        {
            let with = residual == output;
            let epilogue =
                FusedEpilogue { columns: Columns::of(columns), activation: Some(UnaryOp::Relu), residual, output };
            let code = MultiplyCode { isa: Isa::Avx512, factors: Factors::Bf16, epilogue: Some(epilogue) };
            let multiply = Multiply::of(code, [2], &EmitEach).unwrap();
            let (depth, all) = (2 * words, columns * panels);
            // Nothing is readable behind the last row.
            let left = pairs(2 * TILE_ROWS * words);
            let right: Vec<f32> = (0..depth * all).map(|at| small(at * 3 + 1)).collect();
            let layout = Panels { rows: STEP_WORDS, columns: all, width: PANEL };
            let mut packed = vec![0; 2 * layout.len()];
            let filled: Vec<f32> = right.iter().copied().chain(std::iter::repeat(0.0)).take(STEP * all).collect();
            layout.pack_pairs(&Source::row_major(&filled, STEP, all), 1.0, &mut packed).unwrap();
            let bias: Vec<f32> = (0..all).map(|column| column as f32 * 0.25).collect();
            let step = all + 3;
            let added: Vec<f32> = (0..2 * TILE_ROWS * step).map(|at| at as f32 * 0.5 - 99.0).collect();
            let halves: Vec<u16> = added.iter().copied().map(to_bf16).collect();
            let (mut found, mut found_halves) = (vec![77.0f32; added.len()], vec![77u16; added.len()]);
            let (to, residual_at): (*mut u8, *const u8) = match output {
                Stored::F32 => (found.as_mut_ptr().cast(), added.as_ptr().cast()),
                Stored::Bf16 => (found_halves.as_mut_ptr().cast(), halves.as_ptr().cast()),
            };
            let mut sums = [f32::NAN; 2 * TILE_ROWS * PANEL];
            let mut stretches = ROWS.map(|(row, rows)| Stretch {
                from: sums[row * PANEL..].as_ptr(),
                to: to.wrapping_add(row * step * output.bytes()),
                residual: if with { residual_at.wrapping_add(row * step * residual.bytes()) } else { std::ptr::null() },
                rows,
            });
            let starts = [left.as_ptr(), left[2 * TILE_ROWS * words..].as_ptr()].map(|start| start.cast::<u8>());
            let tap = 0isize;
            let mut args = MultiplyArgs::empty();
            (args.blocks, args.panels, args.rows) = (1, panels, starts.as_ptr());
            (args.row_stride, args.left_stride, args.steps) = (words * 4, 64, 1);
            (args.taps, args.tap_count) = (&raw const tap, 1);
            (args.right, args.panel_stride) = (packed.as_ptr().cast(), layout.panel_len() * 4);
            args.out = sums.as_mut_ptr();
            (args.epilogue.to_stride, args.epilogue.residual_stride) = (step * output.bytes(), step * residual.bytes());
            args.epilogue.set(&mut stretches, Some(&bias), 0, columns);
            let given = Given::new().read("left", &left).read("right", &packed).write("sums", &mut sums);
            let given = given.read("tile rows", &starts).read("tap", std::slice::from_ref(&tap)).read("bias", &bias);
            let given = given.write("stretches", &mut stretches).read("residual", &added).read("residual", &halves);
            let given = given.write("result", &mut found).write("result", &mut found_halves);
            // SAFETY: all rows lie in `left`, panels and sums are whole, result and residual have as many rows.
            unsafe { multiply.hold_for(words).call(2, &mut args, &given) };
            for at in 0..added.len() {
                let (row, column) = (at / step, at % step);
                let own = column < all && ROWS.iter().any(|&(first, rows)| (first..first + rows).contains(&row));
                let value = || {
                    let product = |k: usize| small(2 * row * words + k) * small((k * all + column) * 3 + 1);
                    let sum = (0..depth).map(product).sum::<f32>() + bias[column];
                    (sum + if with {
                        if output == Stored::F32 { added[at] } else { from_bf16(halves[at]) }
                    } else {
                        0.0
                    })
                    .max(0.0)
                };
                assert_eq!(
                    found[at],
                    if own && output == Stored::F32 { value() } else { 77.0 },
                    "{columns} {row} {column}"
                );
                assert_eq!(found_halves[at], if own && output == Stored::Bf16 { to_bf16(value()) } else { 77 });
            }
        }
    }
}
