//! The traversal of a transposition: the blocks of each task, which stay in L1.

use std::slice::{from_raw_parts, from_raw_parts_mut};

use smallvec::SmallVec;

use super::byte_tiles;
use super::emit::{Form, TransposeArgs, TransposeKernel};
use super::geometry::{Axis, Planes, offsets};
use super::narrow::{self, NarrowElement};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::parallel::{Disjoint, Parallel, copy_runs, for_each_chunk, part};

/// One copy in a piece for each task.
pub(super) fn copy(input: &[u8], output: &mut [u8], tasks: usize, parallel: &dyn Parallel) {
    // Whole cache lines, so that no two tasks write the same one.
    let length = input.len().div_ceil(tasks).next_multiple_of(64);
    for_each_chunk(parallel, output, length, &|index, chunk| {
        let start = index * length;
        crate::parallel::copy(&input[start..start + chunk.len()], chunk);
    });
}

/// Runs of bytes that stay contiguous. The last of `axes` is the run.
pub(super) fn runs(
    axes: &[Axis],
    element: usize,
    input: &[u8],
    output: &mut [u8],
    tasks: usize,
    parallel: &dyn Parallel,
) {
    let [outer @ .., step, run] = axes else { return copy(input, output, tasks, parallel) };
    let run = run.extent * element;
    let rows = (output.len() / run).div_ceil(tasks);
    for_each_chunk(parallel, output, rows * run, &|index, chunk| {
        let mut row = index * rows;
        let mut rest = chunk;
        while !rest.is_empty() {
            let place = row % step.extent;
            let count = (step.extent - place).min(rest.len() / run);
            let (group, after) = rest.split_at_mut(count * run);
            let start = (offsets(outer, row / step.extent).0 + place * step.input) * element;
            copy_runs(&input[start..], step.input * element, group, run);
            row += count;
            rest = after;
        }
    });
}

/// A part of one plane: half-open ranges of rows and columns, and the plane's offsets.
#[derive(Clone, Copy)]
struct Region {
    rows: (usize, usize),
    columns: (usize, usize),
    input: usize,
    output: usize,
}

/// Elements of a side of a block: two blocks of 64 x 64 floats fill an L1 of 32 KiB.
const BLOCK: usize = 64;

/// The least that a task takes of a plane's longer side, so that partial tiles at its ends do not outweigh it.
const GRANULE: usize = 32;

/// The two buffers: tasks read anywhere and write disjoint elements, as regions of planes do not overlap.
struct Buffers<'a> {
    input: &'a [u8],
    output: Disjoint<'a, u8>,
    given: Given,
}

/// How planes are transposed: by code, or by loops where there is no code.
pub(super) struct Transposer<'a> {
    pub(super) isa: Isa,
    pub(super) code: Option<(Form, &'a Code)>,
    /// For tiles of whole cache lines of the output, where stores bypass the caches.
    pub(super) stream: Option<&'a Code>,
}

/// Planes to be transposed.
pub(super) fn planes(
    planes: &Planes,
    transposer: &Transposer<'_>,
    element: usize,
    input: &[u8],
    output: &mut [u8],
    tasks: usize,
    parallel: &dyn Parallel,
) {
    let by_rows = planes.rows.extent > planes.columns.extent;
    let long = if by_rows { planes.rows.extent } else { planes.columns.extent };
    let granules = (long / GRANULE).max(1);
    let count = planes.count();
    let parts = tasks.div_ceil(count).min(granules);
    let tasks = tasks.min(count * parts);
    let given = Given::new().read("input", input).write("output", output);
    let buffers = &Buffers { input, output: Disjoint::new(output), given };
    parallel.run(tasks, &|task| {
        for unit in part(count * parts, tasks, task) {
            let (input, output) = offsets(&planes.outer, unit / parts);
            let range = part(granules, parts, unit % parts);
            let end = if range.end == granules { long } else { range.end * GRANULE };
            let mut region =
                Region { rows: (0, planes.rows.extent), columns: (0, planes.columns.extent), input, output };
            *(if by_rows { &mut region.rows } else { &mut region.columns }) = (range.start * GRANULE, end);
            // SAFETY: the regions of all units partition the planes, whose elements lie inside both buffers.
            unsafe {
                match transposer.code {
                    Some((form @ (Form::Tile(_) | Form::WideTile(_)), code)) => {
                        let kernel = TransposeKernel { isa: code.isa(), form };
                        let side = code.isa().lanes() * 4 / element;
                        let turn = |args: &TransposeArgs| match transposer.stream {
                            Some(stream) if (args.dst as usize | args.dst_stride).is_multiple_of(LINE) => {
                                stream.call(args, &kernel, &buffers.given)
                            }
                            _ => code.call(args, &kernel, &buffers.given),
                        };
                        tiles(planes, side, element, &region, buffers, &turn);
                    }
                    Some((form, code)) => narrow(planes, form, code, &region, buffers),
                    None => blocks(planes, transposer.isa, element, &region, buffers),
                }
            }
        }
        if transposer.stream.is_some() {
            fence();
        }
    });
}

/// Orders streaming stores before later stores: they are not ordered with the store that says that a task is done.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// The tiles along one side, in groups: the tiles before the position where alignment begins, `head` elements from the
/// start; groups of consecutive tiles up to a block long; and, where either part is no multiple of a tile, a tile that
/// overlaps its neighbour. Yields the first element and the number of tiles of each group.
fn segments(start: usize, end: usize, head: usize, tile: usize, block: usize) -> impl Iterator<Item = (usize, usize)> {
    // A short side has no room for a tile behind the head.
    let head = if end - start < head + tile { 0 } else { head };
    let (before, tiles) = (head / tile, (end - start - head) / tile);
    let group = (block / tile).max(1);
    let whole = (0..tiles).step_by(group).map(move |first| (start + head + first * tile, group.min(tiles - first)));
    let first = (before != 0).then_some((start, before));
    let odd = (head % tile != 0).then(|| (start + head.saturating_sub(tile), 1));
    let rest = (!(end - start - head).is_multiple_of(tile)).then(|| (end - tile, 1));
    first.into_iter().chain(odd).chain(whole).chain(rest)
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes from which on rows of the output count as far apart: few of their lines share a page, or the range that
/// hardware prefetchers look at.
const FAR: usize = 1024;
/// Columns that are written line by line before the next rows: rows of the output, each on its own pages. With fewer
/// columns, their lines stay in a cache.
const FAR_COLUMNS: usize = 256;
/// Bytes of far rows that are written together: a pair of lines, which processors prefetch together.
const FAR_BYTES: usize = 2 * LINE;
const _: () = assert!(FAR_BYTES <= byte_tiles::ROW);

/// Whether rows of the output are far apart. Far rows are written in whole lines, because a half-written line may be
/// evicted before its other half is written. They are also prefetched, because no hardware prefetcher follows that many
/// pages.
///
/// Measured for 768 x 3072 floats with AVX-512, as a share of the speed of a copy: 67 % in lines, 82 % in prefetched
/// pairs of lines. For 2048 x 2048, where all rows fall into the same sets of the caches, 54 and 80 %. Rows of 1 KiB
/// gain as much.
pub(super) fn is_far(planes: &Planes, element: usize) -> bool {
    planes.columns.output * element >= FAR && planes.columns.extent >= FAR_COLUMNS
}

/// # Safety
///
/// The region lies inside the planes, both its sides are at least a tile long, and no other task writes it. `turn`
/// transposes the tiles that its arguments describe, `tile` elements a side.
unsafe fn tiles(
    planes: &Planes,
    tile: usize,
    element: usize,
    region: &Region,
    buffers: &Buffers<'_>,
    turn: &dyn Fn(&TransposeArgs),
) {
    let (rows, columns) = (planes.rows, planes.columns);
    let far = is_far(planes, element);
    // The inner loop runs along the side whose other axis has the larger stride: it reads (or writes) whole cache lines
    // at once.
    let along_columns = !far && rows.input >= columns.output;
    let (row_block, column_block) = if far { (FAR_BYTES / element, FAR_COLUMNS) } else { (BLOCK, BLOCK) };
    // Tiles begin where cache lines of the output do, if these begin at the same position of every row.
    let first = buffers.output.at((region.output + region.columns.0 * columns.output + region.rows.0) * element);
    let misplaced = (first as usize).wrapping_neg() % LINE;
    let head = if (columns.output * element).is_multiple_of(LINE) { misplaced / element } else { 0 };
    for (column, column_tiles) in segments(region.columns.0, region.columns.1, 0, tile, column_block) {
        for (row, row_tiles) in segments(region.rows.0, region.rows.1, head, tile, row_block) {
            let src = region.input + row * rows.input + column;
            let dst = region.output + column * columns.output + row;
            let by_column = (tile * element, tile * columns.output * element, column_tiles);
            let by_row = (tile * rows.input * element, tile * element, row_tiles);
            let (inner, outer) = if along_columns { (by_column, by_row) } else { (by_row, by_column) };
            let args = TransposeArgs {
                src: buffers.input.as_ptr().wrapping_add(src * element),
                dst: buffers.output.at(dst * element),
                src_stride: rows.input * element,
                dst_stride: columns.output * element,
                inner: inner.2,
                inner_src: inner.0,
                inner_dst: inner.1,
                outer: outer.2,
                outer_src: outer.0.wrapping_sub(inner.0 * inner.2) as isize,
                outer_dst: outer.1.wrapping_sub(inner.1 * inner.2) as isize,
            };
            // Every tile lies inside the region, so both sides are valid.
            turn(&args);
        }
    }
}

/// # Safety
///
/// The region spans the narrow side of its plane, lies inside it, and no other task writes it.
unsafe fn narrow(planes: &Planes, form: Form, code: &Code, region: &Region, buffers: &Buffers<'_>) {
    let lanes = code.isa().lanes();
    let (rows, columns) = (planes.rows, planes.columns);
    let interleave = matches!(form, Form::Interleave(_));
    let width = if interleave { rows.extent } else { columns.extent };
    let (start, end) = if interleave { region.columns } else { region.rows };
    // Each narrow row moves as a whole vector: rows whose vector would go beyond the region are left to the loops
    // below.
    let reach = lanes - 1 + lanes.div_ceil(width);
    let vectors = if end - start < reach { 0 } else { (end - start - reach) / lanes + 1 };
    if vectors > 0 {
        let (src, dst) = if interleave {
            (region.input + start, region.output + start * width)
        } else {
            (region.input + start * width, region.output + start)
        };
        let args = TransposeArgs {
            src: buffers.input.as_ptr().wrapping_add(src * 4),
            dst: buffers.output.at(dst * 4),
            src_stride: rows.input * 4,
            dst_stride: columns.output * 4,
            inner: vectors,
            inner_src: 0,
            inner_dst: 0,
            outer: 1,
            outer_src: 0,
            outer_dst: 0,
        };
        // SAFETY: `reach` keeps the last vector of the last tile inside the region on its dense side, and on its other
        // side only elements of the region are moved; the code takes `TransposeArgs`.
        unsafe { code.call(&args, &TransposeKernel { isa: code.isa(), form }, &buffers.given) };
    }
    let mut left = *region;
    *(if interleave { &mut left.columns } else { &mut left.rows }) = (start + vectors * lanes, end);
    // SAFETY: the rest is a part of the region.
    unsafe { blocks(planes, code.isa(), 4, &left, buffers) }
}

/// # Safety
///
/// The region lies inside the planes, and no other task writes it.
unsafe fn blocks(planes: &Planes, isa: Isa, element: usize, region: &Region, buffers: &Buffers<'_>) {
    // SAFETY: passed on; plain bytes of these sizes have these types.
    let done = unsafe {
        match element {
            1 => narrow_side::<u8>(planes, isa, region, buffers),
            2 => narrow_side::<[u8; 2]>(planes, isa, region, buffers),
            _ => false,
        }
    };
    if done {
        return;
    }
    let extents = [region.rows, region.columns].map(|(start, end)| end - start);
    let tiled = byte_tiles::AVAILABLE && element <= 2 && extents.iter().all(|&it| it >= byte_tiles::side(element));
    // SAFETY: passed on; plain bytes of these sizes have these types, and offsets keep the buffers' alignment.
    unsafe {
        match element {
            _ if tiled => {
                let ahead = is_far(planes, element);
                let turn = |args: &TransposeArgs| byte_tiles::transpose(element, ahead, args);
                tiles(planes, byte_tiles::side(element), element, region, buffers, &turn);
            }
            1 => blocks_of::<u8>(planes, region, buffers),
            2 => blocks_of::<[u8; 2]>(planes, region, buffers),
            4 => blocks_of::<[u8; 4]>(planes, region, buffers),
            _ => blocks_of::<[u8; 8]>(planes, region, buffers),
        }
    }
}

/// Transposes a plane that has a narrow dense side; returns whether it has one.
///
/// # Safety
///
/// As [`blocks`], with elements of type `T`.
unsafe fn narrow_side<T: NarrowElement>(planes: &Planes, isa: Isa, region: &Region, buffers: &Buffers<'_>) -> bool {
    let (rows, columns) = (planes.rows, planes.columns);
    let input = buffers.input.as_ptr().cast::<T>().wrapping_add(region.input);
    let output = buffers.output.at(0).cast::<T>().wrapping_add(region.output);
    if narrow::WIDTHS.contains(&rows.extent) && region.rows == (0, rows.extent) && columns.output == rows.extent {
        let (start, width, length) = (region.columns.0, rows.extent, region.columns.1 - region.columns.0);
        // SAFETY: the region's part of each row, and of all output rows, which have no gaps.
        let (from, to) = unsafe {
            let row = |row: usize| from_raw_parts(input.wrapping_add(row * rows.input + start), length);
            let from: SmallVec<[&[T]; 4]> = (0..width).map(row).collect();
            (from, from_raw_parts_mut(output.wrapping_add(start * width), length * width))
        };
        T::interleave(isa, &from, to);
        return true;
    }
    if narrow::WIDTHS.contains(&columns.extent) && region.columns == (0, columns.extent) && rows.input == columns.extent
    {
        let (start, width, length) = (region.rows.0, columns.extent, region.rows.1 - region.rows.0);
        // SAFETY: as above, the other way around; the parts of output rows do not overlap.
        let (from, mut to) = unsafe {
            let row = |column: usize| from_raw_parts_mut(output.wrapping_add(column * columns.output + start), length);
            let to: SmallVec<[&mut [T]; 4]> = (0..width).map(row).collect();
            (from_raw_parts(input.wrapping_add(start * width), length * width), to)
        };
        T::deinterleave(isa, from, &mut to);
        return true;
    }
    false
}

/// # Safety
///
/// As [`blocks`], with elements of type `T`.
unsafe fn blocks_of<T: Copy>(planes: &Planes, region: &Region, buffers: &Buffers<'_>) {
    /// A block of this many rows and columns of bytes to words touches few enough lines to keep them all.
    const SIDE: usize = 16;
    let (rows, columns) = (planes.rows, planes.columns);
    let input = buffers.input.as_ptr().cast::<T>().wrapping_add(region.input);
    let output = buffers.output.at(0).cast::<T>().wrapping_add(region.output);
    for row_block in (region.rows.0..region.rows.1).step_by(SIDE) {
        for column_block in (region.columns.0..region.columns.1).step_by(SIDE) {
            for column in column_block..region.columns.1.min(column_block + SIDE) {
                for row in row_block..region.rows.1.min(row_block + SIDE) {
                    // SAFETY: row and column are inside the plane, so both offsets are inside the buffers. `T` is an
                    // array of bytes, so any address is aligned.
                    unsafe {
                        let value = input.wrapping_add(row * rows.input + column).read();
                        output.wrapping_add(column * columns.output + row).write(value);
                    }
                }
            }
        }
    }
}
