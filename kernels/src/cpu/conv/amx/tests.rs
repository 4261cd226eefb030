//! Grids beside plain arithmetic.

use super::grid::Stretch;
use super::*;

fn shape(input: [u64; 3], kernel: [u64; 3], strides: [u64; 3], pads: [u64; 3]) -> ConvShape {
    let output = [0, 1, 2].map(|dim| (input[dim] + 2 * pads[dim] - kernel[dim]) / strides[dim] + 1);
    let dilations = [1; 3];
    ConvShape {
        batch: 2,
        channels: 32,
        filters: 32,
        groups: 1,
        input,
        output,
        kernel,
        strides,
        dilations,
        pads,
        transposed: false,
    }
}

#[test]
fn lines_share_the_padding_between_them() {
    let padded = shape([1, 7, 7], [1, 3, 3], [1; 3], [0, 1, 1]);
    let grid = Grid::new(&padded, &padded.phases(), false);
    // A line of padding between images, a place of padding between lines, and one behind the last line.
    assert_eq!((grid.line(), grid.lines(), grid.halo(), grid.overhang(), grid.regions()), (8, 16, 2, 1, 1));
    let strided = shape([1, 8, 8], [1, 3, 3], [1, 2, 2], [0, 1, 1]);
    let grid = Grid::new(&strided, &strided.phases(), false);
    // Even and odd lines, even and odd places.
    assert_eq!((grid.line(), grid.lines(), grid.halo(), grid.overhang(), grid.regions()), (5, 10, 1, 0, 4));
    let sparse = shape([1, 8, 8], [1, 1, 1], [1, 2, 2], [0; 3]);
    let grid = Grid::new(&sparse, &sparse.phases(), false);
    assert_eq!((grid.line(), grid.lines(), grid.regions()), (4, 8, 1), "nothing but what is read");
    assert!(grid.is_dense(&sparse.phases()[0]));
}

#[test]
fn every_tap_of_every_output_reads_its_position() {
    for (input, kernel, strides, pads) in [
        ([1, 7, 7], [1, 3, 3], [1, 1, 1], [0, 1, 1]),
        ([1, 6, 9], [1, 3, 5], [1, 2, 3], [0, 1, 2]),
        ([4, 3, 5], [2, 3, 1], [2, 1, 2], [1, 0, 0]),
        ([1, 2, 2], [1, 5, 5], [1, 1, 1], [0, 4, 4]),
    ] {
        let shape = shape(input, kernel, strides, pads);
        let (input, strides) = (shape.input(), shape.strides());
        let (phase, lines) = (&shape.phases()[0], 0..shape.batch() * input.iter().product::<usize>() * 40);
        let grid = Grid::new(&shape, std::slice::from_ref(phase), false);
        let region = grid.region(grid.lines());
        // The input position at each place, by the stretches of all lines.
        let mut places = vec![None; grid.regions() * region];
        for (index, place) in
            (0..grid.regions()).flat_map(|index| (0..grid.lines() + grid.halo()).map(move |l| (index, l)))
        {
            if let Some(Stretch { places: own, from }) = grid.stretch(index, place) {
                for (number, at) in own.enumerate() {
                    places[index * region + place * grid.line() + at] = Some(from + number * strides[2]);
                }
            }
        }
        let mut seen = 0;
        for line in lines.take(grid.lines()) {
            let Some(output) = grid.output(phase, line, shape.output()) else { continue };
            for w in 0..shape.output()[2] {
                seen += 1;
                let (h, rest) =
                    (output / shape.output()[2] % shape.output()[1], output / shape.output()[2] / shape.output()[1]);
                let at = [rest % shape.output()[0], h, w];
                for tap in &phase.taps {
                    let position = [0, 1, 2].map(|dim| (at[dim] * strides[dim]) as isize + tap.at[dim]);
                    let inside = (0..3).all(|dim| (0..input[dim] as isize).contains(&position[dim]));
                    let [d, h, w_in] = position.map(|position| position as usize);
                    let image = rest / shape.output()[0];
                    let expected = inside.then(|| ((image * input[0] + d) * input[1] + h) * input[2] + w_in);
                    assert_eq!(places[grid.tap(tap.at, region) + line * grid.line() + w], expected, "{shape:?}");
                }
            }
        }
        assert_eq!(seen, shape.batch() * shape.output().iter().product::<usize>());
    }
}

#[test]
fn tile_rows_cover_every_output_once() {
    let shape = shape([1, 5, 5], [1, 3, 3], [1; 3], [0, 1, 1]);
    let phase = &shape.phases()[0];
    let grid = Grid::new(&shape, std::slice::from_ref(phase), false);
    let mut starts = Vec::new();
    grid.cover(phase, 0..grid.lines(), shape.output(), &mut starts);
    // Five lines of six places are two tile rows; the second image begins a line further.
    assert_eq!(starts, [0, 16, 36, 52]);
}

#[test]
fn every_output_is_in_one_run_of_the_band_that_covers_it() {
    for (input, kernel, strides, pads) in [
        ([1, 7, 7], [1, 3, 3], [1, 1, 1], [0, 1, 1]),
        ([1, 6, 9], [1, 3, 5], [1, 2, 3], [0, 1, 2]),
        ([4, 3, 5], [2, 3, 1], [2, 1, 2], [1, 0, 0]),
        ([1, 9, 40], [1, 1, 1], [1, 1, 1], [0, 0, 0]),
    ] {
        let shape = shape(input, kernel, strides, pads);
        let phase = &shape.phases()[0];
        let grid = Grid::new(&shape, std::slice::from_ref(phase), false);
        for band in [1, 2, 7, grid.lines()] {
            let mut seen = vec![0; shape.batch() * shape.output().iter().product::<usize>()];
            for first in (0..grid.lines()).step_by(band) {
                let lines = first..grid.lines().min(first + band);
                let mut starts = Vec::new();
                grid.cover(phase, lines.clone(), shape.output(), &mut starts);
                grid.outputs(phase, &lines, &starts, shape.output(), |row, position, rows| {
                    for index in 0..rows {
                        let at = starts[(row + index) / TILE_ROWS] + (row + index) % TILE_ROWS;
                        let of_line = grid.output(phase, first + at / grid.line(), shape.output());
                        assert_eq!(of_line.map(|output| output + at % grid.line()), Some(position + index));
                        seen[position + index] += 1;
                    }
                });
            }
            assert!(seen.iter().all(|&times| times == 1), "{shape:?} in bands of {band} lines: {seen:?}");
        }
    }
}
