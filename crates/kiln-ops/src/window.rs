//! Windows of signals by their cosine series: HannWindow, HammingWindow, BlackmanWindow. And MelWeightMatrix, which
//! gathers the bins of a spectrum into bands.

use std::f64::consts::PI;

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::wide::{Width, narrow, widened};
use super::{LoadCx, OpError, Operator, named_type, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "HannWindow", |cx| make(cx, [0.5, 0.5, 0.0])),
    // ONNX takes the fractions that cancel the first side lobe, 25/46 and 21/46.
    ("", "HammingWindow", |cx| make(cx, [25.0 / 46.0, 21.0 / 46.0, 0.0])),
    ("", "BlackmanWindow", |cx| make(cx, [0.42, 0.5, 0.08])),
    ("", "MelWeightMatrix", |cx| {
        output(cx)?;
        Ok(Box::new(Mel))
    }),
];

fn output(cx: &LoadCx<'_>) -> Result<DType, OpError> {
    named_type(cx.node, "output_datatype")
}

struct Window {
    series: [f64; 3],
    periodic: bool,
}

fn make(cx: &LoadCx<'_>, series: [f64; 3]) -> Result<Box<dyn Node>, OpError> {
    output(cx)?;
    Ok(Box::new(Window { series, periodic: cx.node.attributes().int("periodic") != 0 }))
}

impl Node for Window {
    fn family(&self) -> &'static str {
        "Window"
    }

    fn value_inputs(&self) -> u64 {
        1
    }

    fn check(&self, _: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(outputs[0].dtype).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let to = io.alloc(0)?;
        let count = to.len();
        // A symmetric window of one element has no period. By ONNX's function body, and by ONNX Runtime, it is NaN.
        let period = if self.periodic { count } else { count.saturating_sub(1) } as f64;
        let [constant, first, second] = self.series;
        let value = |index: usize| {
            let angle = 2.0 * PI * index as f64 / period;
            constant - first * angle.cos() + second * (2.0 * angle).cos()
        };
        let output = narrow(&(0..count).map(value).collected(), to)?;
        io.push(output);
        Ok(())
    }
}

struct Mel;

/// Units of a loop's pace that the first access to a page takes.
const FAULT: usize = 128;

impl Mel {
    /// The bins at which the bands begin, peak and end: evenly spaced in mel, band `i` peaking where band `i + 1`
    /// begins.
    fn edges(inputs: &[Option<&Tensor>], bins: usize, bands: usize) -> Result<Vec<usize>, NodeError> {
        let number = |index| match widened::<f64>(required(inputs, index)?)?.as_slice() {
            &[value] => Ok(value),
            _ => Err(refused(format!("input {index} must be one number"))),
        };
        let (rate, low, high) = (number(2)?, number(3)?, number(4)?);
        let mel = |frequency: f64| 2595.0 * (1.0 + frequency / 700.0).log10();
        let step = (mel(high) - mel(low)) / (bands + 2) as f64;
        let length = number(1)?;
        let edge = |index: usize| {
            let frequency = 700.0 * (10f64.powf((mel(low) + step * index as f64) / 2595.0) - 1.0);
            let bin = ((length + 1.0) * frequency / rate).floor();
            // Also refuses NaN, from a rate of zero or an impossible frequency.
            if (0.0..bins as f64).contains(&bin) {
                Ok(bin as usize)
            } else {
                Err(refused(format!("an edge at bin {bin} of {bins}")))
            }
        };
        (0..bands + 2).map(edge).try_collected()
    }
}

impl Node for Mel {
    fn family(&self) -> &'static str {
        "MelWeightMatrix"
    }

    fn value_inputs(&self) -> u64 {
        0b11111
    }

    fn check(&self, _: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(outputs[0].dtype).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let to = io.alloc(0)?;
        let (bins, bands) = (to.shape()[0], to.shape()[1]);
        let edges = Mel::edges(&io.inputs(), bins, bands)?;
        let mut weights = memory::zeroed::<f64>(to.len());
        let mut pace = Pace::default();
        for (band, edge) in edges.windows(3).enumerate() {
            let &[begin, peak, end] = edge else { continue };
            // A band whose rising side has no width still has its peak.
            weights[peak * bands + band] = 1.0;
            pace.step(1);
            for bin in begin..peak {
                pace.step(FAULT);
                weights[bin * bands + band] = (bin - begin) as f64 / (peak - begin) as f64;
            }
            for bin in peak..end {
                pace.step(FAULT);
                weights[bin * bands + band] = (end - bin) as f64 / (end - peak) as f64;
            }
        }
        let output = narrow(&weights, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, onnx_code};

    #[test]
    fn windows_follow_their_series() {
        let hann = || Trial::new("HannWindow").input(&[], &[4i64]);
        hann().gives_about(&[4], &[0.0, 0.5, 1.0, 0.5]);
        hann().int("periodic", 0).gives_about(&[4], &[0.0, 0.75, 0.75, 0.0]);
        let one = Trial::new("HannWindow").int("periodic", 0).input(&[], &[1i64]).run().unwrap();
        assert!(one[0].as_slice::<f32>().unwrap()[0].is_nan(), "as the cosine series of ONNX's function body is");
        Trial::new("HammingWindow").input(&[], &[2i64]).gives_about(&[2], &[0.086_956_52, 1.0]);
        Trial::new("BlackmanWindow").input(&[], &[2i32]).gives_about(&[2], &[0.0, 1.0]);
        let doubles = hann().int("output_datatype", onnx_code(DType::F64)).run().unwrap();
        assert_eq!(doubles[0].dtype(), DType::F64);
        Trial::new("HannWindow").input(&[], &[0i64]).gives::<f32>(&[0], &[]);
        Trial::new("HannWindow").input(&[], &[-1i64]).is_refused("a size of -1");
        Trial::new("HannWindow").input(&[], &[i64::MAX]).is_refused("too large");
    }

    #[test]
    fn bands_rise_to_a_peak_and_fall() {
        let row = |bands: i64, low: f32, high: f32| {
            let sizes = Trial::new("MelWeightMatrix").input(&[], &[bands]).input(&[], &[16i64]).input(&[], &[8192i64]);
            sizes.input(&[], &[low]).input(&[], &[high])
        };
        let output = row(8, 0.0, 4096.0).run().unwrap();
        assert_eq!(output[0].shape(), [9, 8]);
        let weights = output[0].as_slice::<f32>().unwrap();
        assert!(weights.iter().all(|weight| (0.0..=1.0).contains(weight)));
        assert!((0..8).all(|band| (0..9).any(|bin| weights[bin * 8 + band] == 1.0)), "every band has a peak");
        row(2, 0.0, 1e9).is_refused("an edge");
        row(2, f32::NAN, 1.0).is_refused("an edge");
    }
}
