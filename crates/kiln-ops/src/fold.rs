//! Col2Im: blocks of an image added back at the places that they were taken from.

use kiln_kernels::memory::{self, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::sliding::{Slide, Sliding};
use super::wide::{Wide, Width, narrow, widened};
use super::{LoadCx, OpError, Operator, dimensions, integers, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Col2Im", make)];

struct Col2Im(Sliding);

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Col2Im(Sliding::read(cx.node, "kernel_shape")?)))
}

impl Col2Im {
    /// Batch, channels, and the window that the blocks were.
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<(usize, usize, Slide), NodeError> {
        let columns = required(inputs, 0)?.shape();
        let image = dimensions(&integers(required(inputs, 1)?)?)?;
        let block = dimensions(&integers(required(inputs, 2)?)?)?;
        let slide = self.0.over(&image, &block)?;
        let window: usize = block.iter().product();
        match *columns {
            [batch, rows, positions] if rows % window == 0 && positions == slide.positions() => {
                Ok((batch, rows / window, slide))
            }
            _ => Err(refused(format!("columns of {columns:?} for blocks of {block:?} in an image of {image:?}"))),
        }
    }
}

impl Node for Col2Im {
    fn family(&self) -> &'static str {
        "Col2Im"
    }

    fn value_inputs(&self) -> u64 {
        0b110
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(required(inputs, 0)?.dtype())?;
        self.sizes(inputs).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (batch, channels, slide) = self.sizes(&io.inputs())?;
        let (columns, to) = (io.input(0)?, io.alloc(0)?);
        let planes = batch * channels;
        let output = match Width::of(columns.dtype())? {
            Width::F32 | Width::F64 => added(columns, to, planes, &slide, |sum: f64, one| sum + one)?,
            // Sums that wrap have the same low bits, with a sign or without.
            Width::I64 | Width::U64 => added(columns, to, planes, &slide, i64::wrapping_add)?,
        };
        io.push(output);
        Ok(())
    }
}

/// The columns of `planes` images, added by `sum` at the places that they were taken from.
fn added<W: Wide>(
    columns: &Tensor,
    to: Tensor,
    planes: usize,
    slide: &Slide,
    sum: impl Fn(W, W) -> W,
) -> Result<Tensor, NodeError> {
    let columns = widened::<W>(columns)?;
    let (window, positions) = (slide.kernel.iter().product::<usize>(), slide.positions());
    let area: usize = slide.input.iter().product();
    let mut image = memory::zeroed::<W>(to.len());
    let mut pace = Pace::default();
    for element in 0..if to.is_empty() { 0 } else { window } {
        let taps = slide.taps(element);
        for plane in 0..planes {
            let row = &columns[(plane * window + element) * positions..][..positions];
            pace.step(1);
            for taps in taps.chunks(Pace::UNITS / 8) {
                pace.step(8 * taps.len());
                for &(from, place) in taps {
                    let at = plane * area + place;
                    image[at] = sum(image[at], row[from]);
                }
            }
        }
    }
    narrow(&image, to)
}

#[cfg(test)]
mod tests {
    use crate::trial::{Trial, bools, strings};

    #[test]
    fn overlapping_blocks_add_up() {
        let row = |columns: &[usize]| {
            let count = columns.iter().product();
            let ones = Trial::new("Col2Im").input(columns, &vec![1f32; count]);
            ones.input(&[2], &[2i64, 3]).input(&[2], &[1i64, 2])
        };
        row(&[1, 2, 4]).gives(&[1, 1, 2, 3], &[1f32, 2.0, 1.0, 1.0, 2.0, 1.0]);
        row(&[1, 4, 4]).gives(&[1, 2, 2, 3], &[1f32, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0]);
        row(&[1, 2, 5]).is_refused("columns");
        row(&[1, 3, 4]).is_refused("columns");
    }

    #[test]
    fn integers_wrap_and_truths_are_joined() {
        let blocks = |trial: Trial| trial.input(&[2], &[1i64, 3]).input(&[2], &[1i64, 2]);
        let row = |values: &[u8]| blocks(Trial::new("Col2Im").input(&[1, 2, 2], values));
        row(&[1, 200, 100, 3]).gives(&[1, 1, 1, 3], &[1u8, 44, 3]);
        let most = u64::MAX;
        let wide = blocks(Trial::new("Col2Im").input(&[1, 2, 2], &[most, most, 3, most]));
        wide.gives(&[1, 1, 1, 3], &[most, 2, most]);
        let truths = blocks(Trial::new("Col2Im").input(&[1, 2, 2], &bools([false, true, true, false])));
        truths.gives(&[1, 1, 1, 3], &bools([false, true, false]));
        let texts = strings(&[1, 2, 2], &["a", "b", "c", "d"]);
        blocks(Trial::new("Col2Im").tensor(texts)).is_refused("strings");
    }

    #[test]
    fn what_was_padding_is_dropped() {
        let row =
            Trial::new("Col2Im").ints("pads", &[1, 1]).ints("strides", &[2]).input(&[1, 2, 2], &[1f32, 2.0, 3.0, 4.0]);
        row.input(&[1], &[2i64]).input(&[1], &[2i64]).gives(&[1, 1, 2], &[3f32, 2.0]);
    }
}
