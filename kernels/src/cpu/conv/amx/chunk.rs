//! A chunk of a task: some tile rows by panels of one group, multiplied and written with their epilogue.

use std::ops::Range;

use super::prefetch::Next;
use super::{Buffers, OnAmx, Part, Sums};
use crate::cpu::amx::{Block, PANEL, STEP_WORDS, Stretch};
use crate::jit::Given;

/// Tile rows of a chunk: their addresses and their positions in the band.
pub(super) struct Chunk<'a> {
    pub(super) rows: &'a [*const u8],
    pub(super) starts: &'a [usize],
    /// The first output of the rows, if outputs follow each other.
    pub(super) output: Option<usize>,
}

/// The panels of one call.
pub(super) struct CallPanels {
    pub(super) group: usize,
    /// Column of the output that the first panel's first column is.
    pub(super) column: usize,
    pub(super) count: usize,
}

/// Blocks of one height, the first output column of their panels, and how many columns of the panels are outputs.
struct Rows<'a> {
    height: usize,
    starts: &'a [usize],
    column: usize,
    columns: usize,
}

impl OnAmx {
    /// Multiplies a chunk's tile rows with panels of one group, and applies the epilogue.
    pub(super) fn chunk(
        &self,
        buffers: &Buffers<'_>,
        part: &mut Part<'_>,
        chunk: &Chunk<'_>,
        next: &Next<'_>,
        group_panels: Range<usize>,
        sums: &mut Sums,
    ) {
        let (plan, filters) = (part.plan, self.shape.group_filters());
        let (group, first) = (group_panels.start / plan.panels.count(), group_panels.start % plan.panels.count());
        if part.group != group {
            let further = (group * self.im2col.steps() * STEP_WORDS * 4) as isize;
            part.taps.iter_mut().zip(&plan.taps).for_each(|(tap, plain)| *tap = plain + further);
            part.group = group;
        }
        let column = |panel: usize| group * filters + panel * PANEL;
        let right = |panel: usize| {
            let weights = group * self.group_len + plan.weights + panel * plan.panels.panel_len();
            buffers.weights.at(weights).cast()
        };
        let panels = CallPanels { group, column: column(first), count: group_panels.len() };
        self.prefetch(buffers, part, chunk, next, &panels);
        (part.args.out_stride, part.args.out) = (PANEL * 4, sums.first());
        let given = buffers.extras.given.clone().write("sums", std::slice::from_mut(sums));
        let given = given.read("taps", &part.taps).read("tile rows", chunk.rows);
        // Only a group's last panel may be partial.
        let whole = (filters / PANEL - first).min(group_panels.len());
        for Block { height, first: from, count } in Block::all(chunk.rows.len()) {
            (part.args.blocks, part.args.rows) = (count, chunk.rows[from..].as_ptr());
            let starts = &chunk.starts[from..from + count * height];
            for (panel, count, columns) in
                [(first, whole, PANEL), (first + whole, group_panels.len() - whole, filters % PANEL)]
            {
                if count > 0 {
                    (part.args.right, part.args.panels) = (right(panel), count);
                    self.panels(buffers, part, &Rows { height, starts, column: column(panel), columns }, &given);
                    part.args.prefetch_nothing();
                }
            }
        }
    }

    /// Multiplies with panels that are all whole, or with one partial panel.
    fn panels(&self, buffers: &Buffers<'_>, part: &mut Part<'_>, rows: &Rows<'_>, given: &Given) {
        let step = part.plan.phase.stride[2] * self.shape.filters();
        let sums = part.args.out.cast_const();
        let mut stretches = std::mem::take(&mut part.stretches);
        stretches.clear();
        let phase = &part.plan.phase;
        self.grid.outputs(phase, part.lines, rows.starts, self.shape.output(), |row, position, rows_here| {
            let element = position * self.shape.filters() + rows.column;
            let to = buffers.y.at(element * self.stored.output.bytes());
            let residual = self.residual(buffers, element);
            stretches.push(Stretch { from: sums.wrapping_add(row * PANEL), to, residual, rows: rows_here });
        });
        let epilogue = &mut part.args.epilogue;
        epilogue.to_stride = step * self.stored.output.bytes();
        epilogue.residual_stride = step * self.stored.residual.bytes();
        epilogue.set(&mut stretches, buffers.extras.bias, rows.column, rows.columns);
        let given = given.clone().write("stretches", &mut stretches);
        let held = if rows.columns == PANEL { &part.whole } else { &part.last };
        if let Some(held) = held {
            // SAFETY: all positions that tile rows of this band read were counted into scratch; there is room for the
            // sums of a chunk by a panel. The lists outlive the call. Tasks have disjoint rows or columns of the
            // result, phases have disjoint rows.
            unsafe { held.call(rows.height, &mut part.args, &given) };
        }
        part.stretches = stretches;
    }

    /// Address of the residual of an element of the output; null without one.
    fn residual(&self, buffers: &Buffers<'_>, element: usize) -> *const u8 {
        buffers.extras.residual.map_or(std::ptr::null(), |distance| {
            let residual = buffers.y.at(0).cast_const().wrapping_byte_offset(distance);
            residual.wrapping_add(element * self.stored.residual.bytes())
        })
    }
}
