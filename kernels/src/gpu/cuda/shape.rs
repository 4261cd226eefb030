//! A convolution's sizes as cuDNN takes them: four dimensions, or five where there is a depth.
//!
//! Inconsistent sizes are refused here, before a library reads beyond an operand.

use crate::error::{KernelError, Result};
use crate::gpu::ConvProblem;

/// Sizes of a convolution, as `i64`, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The problem's input.
    pub(super) input: Vec<i64>,
    /// The weights.
    pub(super) filter: Vec<i64>,
    /// The problem's output.
    pub(super) output: Vec<i64>,
    /// An element for each channel of the output.
    pub(super) bias: Vec<i64>,
    /// One for each spatial dimension, as in the next two.
    pub(super) pads: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) groups: i64,
}

fn refused(reason: &str) -> KernelError {
    KernelError::Unsupported { family: "cuDNN", reason: reason.to_owned() }
}

impl Shape {
    /// The sizes of a problem.
    ///
    /// # Errors
    ///
    /// [`KernelError::Unsupported`] for sizes of zero, groups that do not divide the channels, and an output that does
    /// not follow from the input.
    pub(super) fn of(conv: &ConvProblem) -> Result<Shape> {
        let (outer, inner) =
            if conv.transposed { (conv.channels, conv.filters) } else { (conv.filters, conv.channels) };
        if conv.groups == 0 || !conv.channels.is_multiple_of(conv.groups) || !conv.filters.is_multiple_of(conv.groups) {
            return Err(refused("groups that do not divide the channels"));
        }
        let counts = [conv.batch, conv.channels, conv.filters];
        let spatial = [conv.input, conv.kernel, conv.strides, conv.dilations, conv.output];
        if counts.contains(&0) || spatial.iter().flatten().any(|&size| size == 0) {
            return Err(refused("a size of zero"));
        }
        for axis in 0..3 {
            // A transposed convolution is the gradient of the convolution from its output to its input.
            let (large, small) = if conv.transposed { (conv.output, conv.input) } else { (conv.input, conv.output) };
            let [large, small, kernel, stride, dilation, pad] =
                [large, small, conv.kernel, conv.strides, conv.dilations, conv.pads]
                    .map(|sizes| i64::from(sizes[axis]));
            let room = large + 2 * pad - ((kernel - 1) * dilation + 1);
            if room < 0 || room / stride + 1 != small {
                return Err(refused("an output that is not what comes of the input"));
            }
        }
        // The bound keeps the number of bytes within 63 bits.
        if conv.extents().is_none_or(|extents| extents.iter().any(|&count| count > 1 << 60)) {
            return Err(refused("more elements than any device holds"));
        }
        // One-dimensional convolutions have a height of 1: cuDNN has no convolutions in one dimension.
        let flat = [conv.input[0], conv.kernel[0], conv.output[0]] == [1; 3] && conv.pads[0] == 0;
        let own =
            |sizes: [u32; 3]| sizes[usize::from(flat)..].iter().map(|&size| i64::from(size)).collect::<Vec<i64>>();
        let with = |first: [u32; 2], rest: Vec<i64>| first.map(i64::from).into_iter().chain(rest).collect::<Vec<i64>>();
        let ones = vec![1; if flat { 2 } else { 3 }];
        Ok(Shape {
            input: with([conv.batch, conv.channels], own(conv.input)),
            filter: with([outer, inner / conv.groups], own(conv.kernel)),
            output: with([conv.batch, conv.filters], own(conv.output)),
            bias: with([1, conv.filters], ones),
            pads: own(conv.pads),
            strides: own(conv.strides),
            dilations: own(conv.dilations),
            groups: i64::from(conv.groups),
        })
    }
}

/// Strides of a dense tensor, outermost first.
pub(super) fn dense(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(sizes[axis]);
    }
    strides
}

/// The sizes in the width that cuDNN's older calls take.
pub(super) fn narrow(sizes: &[i64]) -> Result<Vec<i32>> {
    sizes.iter().map(|&size| i32::try_from(size).map_err(|_| refused("a size of more than 31 bits"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Epilogue;

    fn conv() -> ConvProblem {
        ConvProblem {
            batch: 2,
            channels: 4,
            filters: 6,
            groups: 2,
            input: [1, 9, 11],
            kernel: [1, 3, 3],
            strides: [1, 2, 1],
            dilations: [1, 1, 2],
            pads: [0, 1, 2],
            output: [1, 5, 11],
            transposed: false,
            epilogue: Epilogue::NONE,
        }
    }

    #[test]
    fn sizes_are_those_of_the_library() {
        let shape = Shape::of(&conv()).unwrap();
        assert_eq!(shape.input, [2, 4, 9, 11]);
        assert_eq!(shape.filter, [6, 2, 3, 3]);
        assert_eq!(shape.output, [2, 6, 5, 11]);
        assert_eq!((shape.pads, shape.strides, shape.dilations), (vec![1, 2], vec![2, 1], vec![1, 2]));
        let back =
            ConvProblem { transposed: true, channels: 6, filters: 4, input: [1, 5, 11], output: [1, 9, 11], ..conv() };
        assert_eq!(Shape::of(&back).unwrap().filter, [6, 2, 3, 3]);
        let deep = ConvProblem { input: [3, 9, 11], output: [3, 5, 11], ..conv() };
        assert_eq!(Shape::of(&deep).unwrap().input, [2, 4, 3, 9, 11]);
        assert_eq!(dense(&[2, 4, 9, 11]), [396, 99, 11, 1]);
        assert!(narrow(&[1 << 31]).is_err());
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let wrong = [
            ConvProblem { groups: 0, ..conv() },
            ConvProblem { groups: 3, ..conv() },
            ConvProblem { batch: 0, ..conv() },
            ConvProblem { strides: [1, 0, 1], ..conv() },
            ConvProblem { output: [1, 6, 11], ..conv() },
            ConvProblem { kernel: [1, 30, 3], ..conv() },
            ConvProblem { transposed: true, ..conv() },
            ConvProblem { batch: u32::MAX, input: [1, u32::MAX, 11], output: [1, 1 << 31, 11], ..conv() },
        ];
        for conv in wrong {
            assert!(matches!(Shape::of(&conv), Err(KernelError::Unsupported { .. })), "{conv:?}");
        }
    }
}
