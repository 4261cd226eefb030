//! The cost model's pick of [`QuantizedBlocks`].

use super::amx;
use super::blocks::QuantizedBlocks;
use super::tile::{Form, most_rows, panel_vectors};
use super::weights::{Layout, Panelling, Steps};
use crate::cpu::amx::{PANEL, TALLEST, TILE_ROWS};
use crate::cpu::conv::ConvShape;
use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::machine::Speeds;
use crate::isa::Isa;
use crate::problem::description::count;

impl QuantizedBlocks {
    /// Blocks for `shape` and a form on that many threads.
    #[must_use]
    pub fn pick(isa: Isa, shape: &ConvShape, form: Form, threads: usize) -> QuantizedBlocks {
        let threads = threads.min(shape.work() / Speeds::of_process(isa).worth_a_thread).max(1);
        if shape.weights().is_depthwise() {
            // A few tasks for each thread, so that others take over from a delayed thread.
            let lines = shape.batch() * shape.output()[0] * shape.output()[1];
            let row_tasks = if threads > 1 { (threads * 4).min(lines).max(1) } else { 1 };
            return QuantizedBlocks { row_block: 1, row_tasks: count(row_tasks), unit_tasks: 1 };
        }
        if form == Form::Tiles {
            return QuantizedBlocks::on_amx(isa, shape, threads);
        }
        let vectors = match form {
            Form::Few => PANEL / isa.lanes(),
            _ => panel_vectors(isa, shape.group_filters()),
        };
        let most = most_rows(isa, vectors).max(1);
        let tiles = (shape.output_len() / shape.filters().max(1)).div_ceil(most).max(1);
        let units = shape.groups() * shape.group_filters().div_ceil(vectors * isa.lanes()).max(1);
        // Rows of a block are read again for every panel: they should stay in half of L2, next to the panel that is
        // streamed. Their pointers take eight bytes for each tap.
        let spread = shape.strides().iter().product::<usize>().min(shape.taps());
        let row_bytes = shape.channels() * spread * 2 + shape.taps() * 8;
        let rows = (l2_bytes() / 2 / row_bytes.max(1)).clamp(8 * most, 64 * most);
        let row_block = rows.div_ceil(most).min(tiles);
        let (mut row_tasks, mut unit_tasks) = (1, 1);
        if threads > 1 {
            // Rows first: each thread then reads its own part of the input. Columns where there are not enough rows.
            let spare = (tiles / row_block / threads).clamp(1, 4);
            row_tasks = (threads * spare).min(tiles);
            if tiles < 2 * threads {
                (row_tasks, unit_tasks) = (1, threads.min(units));
            }
        }
        QuantizedBlocks { row_block: count(row_block), row_tasks: count(row_tasks), unit_tasks: count(unit_tasks) }
    }

    /// Blocks on AMX, where a block of rows is a band.
    fn on_amx(isa: Isa, shape: &ConvShape, threads: usize) -> QuantizedBlocks {
        let steps = Steps { strides: shape.strides(), dilations: shape.dilations() };
        let sizes = shape.weights();
        let lines = matches!(Layout::of(isa, &sizes, steps, Form::Tiles), Layout::Panels { lines: true, .. });
        let panelling = Panelling::of(isa, &sizes, Form::Tiles, lines);
        let row_block = amx::band(shape, &panelling, lines, threads);
        let tiles = (shape.output_len() / shape.filters().max(1)).div_ceil(TILE_ROWS).max(1);
        let units = panelling.groups * panelling.panels;
        let (mut row_tasks, mut unit_tasks) = (1, 1);
        if threads > 1 {
            // Columns where there are not enough rows: each thread then reads its own part of the weights.
            if tiles < 2 * TALLEST * threads {
                unit_tasks = threads.min(units.max(1));
            } else {
                row_tasks = threads;
            }
        }
        QuantizedBlocks { row_block: count(row_block), row_tasks: count(row_tasks), unit_tasks: count(unit_tasks) }
    }
}
