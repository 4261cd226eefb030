//! Resize and its older form Upsample: sizes, scales, regions and policies after ONNX; the rest is
//! [`exec::resize`](kiln_run::exec::resize).

mod device;

use kiln_kernels::Parallel;
use kiln_kernels::memory::Pace;
use kiln_key::F32Bits;
use kiln_model::NodeDesc;
use kiln_model::operators::spatial::{rounded_size, scaled_size};
use kiln_run::DeviceCx;
use kiln_run::exec::resize::{Mode, Resize as Executor, ResizeAxis, ResizeProblem, Rounding, Transform};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::convert::through_f32;
use super::wide::{Wide, filled, widened};
use super::{
    LoadCx, Movement, OpError, Operator, axes_of, dimensions, integers, optional, rearrange, refused, required,
};

/// This group's operators.
pub(super) const OPERATORS: &[Operator] = &[("", "Resize", adapted), ("", "Upsample", adapted)];

/// How `sizes` applies to axes that shall keep their ratio.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Stretch,
    NotLarger,
    NotSmaller,
}

struct Resize {
    mode: Mode,
    transform: Transform,
    exclude_outside: bool,
    antialias: bool,
    extrapolation: f32,
    policy: Policy,
    /// The axes that the inputs describe; absent means all.
    axes: Option<Vec<i64>>,
    /// Scales as an attribute, before version 9.
    scales: Option<Vec<f32>>,
    /// The places of the inputs with region, scales and sizes; scales alone before version 11.
    inputs: [Option<usize>; 3],
    channels_last: bool,
    /// Whether places between elements are rounded up where the result is smaller, and down where it is larger: version
    /// 10, whose examples say so.
    rounds_by_direction: bool,
}

/// Picking moves elements of any type; mixing computes in `f32`.
fn adapted(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    if cx.node.attributes().text("mode") == "nearest" { make(cx) } else { through_f32(cx, make) }
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let attributes = node.attributes();
    let is_resize = node.op == "Resize";
    // Upsample has none of these attributes: it is what Resize was before version 11.
    let text = |name: &str, of_upsample| if is_resize { attributes.text(name) } else { of_upsample };
    let flag = |name: &str| is_resize && attributes.flag(name);
    let rounding = match text("nearest_mode", "floor") {
        "round_prefer_floor" => Rounding::PreferFloor,
        "round_prefer_ceil" => Rounding::PreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => return Err(OpError::invalid(node, format!("nearest_mode '{other}'"))),
    };
    let mode = match node.attributes().text("mode") {
        "nearest" => Mode::Nearest(rounding),
        // Upsample's older name of the same.
        "linear" | "bilinear" => Mode::Linear,
        "cubic" if is_resize => Mode::Cubic { a: F32Bits::new(attributes.float("cubic_coeff_a")) },
        other => return Err(OpError::invalid(node, format!("mode '{other}'"))),
    };
    let policy = match text("keep_aspect_ratio_policy", "stretch") {
        "stretch" => Policy::Stretch,
        "not_larger" => Policy::NotLarger,
        "not_smaller" => Policy::NotSmaller,
        other => return Err(OpError::invalid(node, format!("keep_aspect_ratio_policy '{other}'"))),
    };
    Ok(Box::new(Resize {
        mode,
        transform: transform(node, text("coordinate_transformation_mode", "asymmetric"))?,
        exclude_outside: flag("exclude_outside"),
        antialias: flag("antialias") && !matches!(mode, Mode::Nearest(_)),
        extrapolation: if is_resize { attributes.float("extrapolation_value") } else { 0.0 },
        policy,
        axes: node.ints("axes").map(<[i64]>::to_vec),
        scales: node.floats("scales").map(<[f32]>::to_vec),
        inputs: if !is_resize || node.version < 11 { [None, Some(1), None] } else { [Some(1), Some(2), Some(3)] },
        channels_last: node.is_channels_last(),
        rounds_by_direction: is_resize && node.version == 10,
    }))
}

fn transform(node: &NodeDesc, word: &str) -> Result<Transform, OpError> {
    Ok(match word {
        "half_pixel" => Transform::HalfPixel,
        "half_pixel_symmetric" => Transform::HalfPixelSymmetric,
        "pytorch_half_pixel" => Transform::PytorchHalfPixel,
        "align_corners" => Transform::AlignCorners,
        "asymmetric" => Transform::Asymmetric,
        "tf_half_pixel_for_nn" => Transform::TfHalfPixelForNn,
        "tf_crop_and_resize" => Transform::TfCropAndResize,
        other => return Err(OpError::invalid(node, format!("coordinate_transformation_mode '{other}'"))),
    })
}

impl Resize {
    /// Input `which` of region, scales and sizes, unless it is absent or empty, which is how models leave it out.
    fn given<'t>(&self, inputs: &[Option<&'t Tensor>], which: usize) -> Option<&'t Tensor> {
        self.inputs[which].and_then(|index| optional(inputs, index)).filter(|tensor| !tensor.is_empty())
    }

    /// Every axis, in the order of memory.
    fn resized(&self, inputs: &[Option<&Tensor>]) -> Result<SmallVec<[ResizeAxis; 5]>, NodeError> {
        let input = required(inputs, 0)?;
        let rank = input.shape().len();
        let place = |axis: usize| match axis {
            _ if !self.channels_last || rank < 3 || axis == 0 => axis,
            1 => rank - 1,
            axis => axis - 1,
        };
        let named = match &self.axes {
            Some(axes) => axes_of(axes, rank)?,
            None => (0..rank).collect(),
        };
        let fits = |length: usize, what: &str| match length == named.len() {
            true => Ok(()),
            false => Err(refused(format!("{length} {what} for {} axes", named.len()))),
        };
        let mut axes: SmallVec<[ResizeAxis; 5]> =
            input.shape().iter().map(|&size| ResizeAxis::keep(size as u64)).collect();
        let size = |index: usize| input.shape()[place(named[index])];
        let mut set = |index: usize, output: Option<u64>, scale: f64| {
            let why = || refused(format!("a scale of {scale} for {} elements", size(index)));
            let axis = &mut axes[place(named[index])];
            (axis.output, axis.scale) = (output.ok_or_else(why)?, scale.to_bits());
            Ok::<(), NodeError>(())
        };
        let fixed = self.scales.clone();
        let scales = match (self.given(inputs, 1), fixed) {
            (Some(scales), _) => Some(scales.as_slice::<f32>()?.to_vec()),
            (None, fixed) => fixed,
        };
        if let Some(scales) = scales {
            fits(scales.len(), "scales")?;
            for (index, &scale) in scales.iter().enumerate() {
                set(index, scaled_size(size(index) as u64, scale), f64::from(scale))?;
            }
        } else if let Some(sizes) = self.given(inputs, 2) {
            let sizes = dimensions(&integers(sizes)?)?;
            fits(sizes.len(), "sizes")?;
            let ratio = |index: usize| match (size(index), sizes[index]) {
                // Also where both are zero.
                (from, to) if from == to => 1.0,
                (from, to) => to as f64 / from.max(1) as f64,
            };
            let ratios = (0..sizes.len()).map(ratio);
            let common = match self.policy {
                Policy::Stretch => None,
                Policy::NotLarger => ratios.reduce(f64::min),
                Policy::NotSmaller => ratios.reduce(f64::max),
            };
            for index in 0..sizes.len() {
                match common {
                    None => set(index, Some(sizes[index] as u64), ratio(index))?,
                    Some(scale) => set(index, rounded_size(size(index) as u64, scale), scale)?,
                }
            }
        } else {
            return Err(refused("neither scales nor sizes"));
        }
        if self.transform == Transform::TfCropAndResize {
            // Without a region, all of the input.
            if let Some(region) = self.given(inputs, 0) {
                let region = widened::<f32>(region)?;
                fits(region.len() / 2, "bounds of a region")?;
                for (index, &axis) in named.iter().enumerate() {
                    let axis = &mut axes[place(axis)];
                    axis.start = F32Bits::new(region[index]);
                    axis.end = F32Bits::new(region[named.len() + index]);
                }
            }
            // As in TensorFlow, elements of the output are apart by its length in whole elements, not by the scaled one.
            for &axis in &named {
                let axis = &mut axes[place(axis)];
                axis.scale = (axis.output as f64 / axis.input.max(1) as f64).to_bits();
            }
        }
        Ok(axes)
    }

    fn problem(&self, inputs: &[Option<&Tensor>]) -> Result<ResizeProblem, NodeError> {
        let axes = self.resized(inputs)?;
        let mode = match self.mode {
            Mode::Nearest(_) if self.rounds_by_direction && axes.iter().any(|axis| axis.output < axis.input) => {
                Mode::Nearest(Rounding::Ceil)
            }
            mode => mode,
        };
        let problem = ResizeProblem {
            mode,
            transform: self.transform,
            exclude_outside: self.exclude_outside,
            antialias: self.antialias,
            axes,
            // Strings have no fixed width.
            width: required(inputs, 0)?.dtype().size().max(1) as u8,
        };
        Ok(problem.merged())
    }

    /// The element that crops have where they reach beyond the input; for strings, an empty one.
    fn outside(&self, dtype: DType) -> Result<Tensor, NodeError> {
        let mut value = Tensor::zeros(TensorSpec::new(dtype, []))?;
        if dtype != DType::String {
            f32::store(&[self.extrapolation], dtype, value.bytes_mut())?;
        }
        Ok(value)
    }
}

impl Node for Resize {
    fn family(&self) -> &'static str {
        "resize"
    }

    fn value_inputs(&self) -> u64 {
        self.inputs.iter().flatten().fold(0, |bits, index| bits | 1 << index)
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        if input.dtype() == DType::String && !matches!(self.mode, Mode::Nearest(_)) {
            return Err(NodeError::Unsupported("strings between other strings".to_owned()));
        }
        let shape = &outputs[0].shape;
        if input.is_empty() && !shape.contains(&0) {
            return Err(refused(format!("nothing of shape {:?} to resize to {shape:?}", input.shape())));
        }
        Ok(())
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        Ok(Prepared::new(cx.executor(&cx.key(self.problem(inputs)?))?))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        self.on_device(cx, inputs, outputs)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let executor = prepared.get::<Executor>()?;
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        let dtype = input.dtype();
        if matches!(self.mode, Mode::Nearest(_)) {
            let outside = self.outside(dtype)?;
            let picked = Picked { executor, parallel: cx.parallel };
            output = rearrange(&picked, &[input, &outside], output)?;
        } else if dtype == DType::F32 {
            executor.blend(input.as_slice()?, output.as_mut_slice()?, self.extrapolation, cx.parallel)?;
        } else {
            let wide = widened::<f32>(input)?;
            output = filled::<f32>(output, |mixed| {
                executor.blend(&wide, mixed, self.extrapolation, cx.parallel)?;
                let mut pace = Pace::default();
                for value in mixed {
                    pace.step(1);
                    // ONNX's reference and ONNX Runtime cut off; what is filtered on the way down ONNX Runtime rounds.
                    *value = if self.antialias { value.round_ties_even() } else { value.trunc() };
                }
                Ok(())
            })?;
        }
        io.push(output);
        Ok(())
    }
}

struct Picked<'a> {
    executor: &'a Executor,
    parallel: &'a dyn Parallel,
}

impl Movement for Picked<'_> {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let [input, [outside, ..]] = from else { return Err(refused("picking takes a tensor and a value")) };
        Ok(self.executor.pick(input, to, outside, self.parallel)?)
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::Attr;

    use crate::trial::{Trial, strings};

    fn square() -> Trial {
        Trial::new("Resize").input(&[1, 1, 2, 2], &[1f32, 2., 3., 4.]).absent()
    }

    fn twice(trial: Trial) -> Trial {
        trial.input(&[4], &[1f32, 1., 2., 2.])
    }

    #[test]
    fn rows_and_columns_double() {
        let nearest = [1f32, 1., 2., 2., 1., 1., 2., 2., 3., 3., 4., 4., 3., 3., 4., 4.];
        twice(square()).gives(&[1, 1, 4, 4], &nearest);
        let sizes = square().absent().input(&[4], &[1i64, 1, 4, 4]);
        sizes.gives(&[1, 1, 4, 4], &nearest);
        let linear = [1f32, 1.25, 1.75, 2., 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3., 3.25, 3.75, 4.];
        twice(square().text("mode", "linear")).gives(&[1, 1, 4, 4], &linear);
        let old = Trial::new("Upsample").version(9).text("mode", "linear").input(&[1, 1, 1, 2], &[1f32, 3.]);
        old.input(&[4], &[1f32, 1., 1., 2.]).gives(&[1, 1, 1, 4], &[1f32, 2., 3., 3.]);
        let older = Trial::new("Upsample").version(7).attr("scales", Attr::Floats(vec![1.0, 2.0]));
        older.input(&[1, 2], &[1f32, 3.]).gives(&[1, 4], &[1f32, 1., 3., 3.]);
    }

    #[test]
    fn a_size_is_scaled_in_f32() {
        // The last one is a place short, because the product is not rounded up to 31.
        for (from, to, output) in [(12u8, 7u8, 7), (10, 9, 9), (12, 17, 17), (10, 23, 23), (3, 1, 1), (7, 31, 30)] {
            for mode in ["nearest", "linear", "cubic"] {
                let resize = Trial::new("Resize").text("mode", mode);
                let resize = resize.input(&[from.into()], &vec![1f32; from.into()]).absent();
                let scale = f32::from(to) / f32::from(from);
                let resized = resize.input(&[1], &[scale]).run().expect("the scale is positive");
                assert_eq!(resized[0].shape(), [output], "{from} to {to}, {mode}");
            }
        }
        let places = Trial::new("Resize").text("mode", "nearest").text("nearest_mode", "floor");
        let places = places.text("coordinate_transformation_mode", "asymmetric");
        let places = places.input(&[12], &(0..12u8).map(f32::from).collect::<Vec<_>>()).absent();
        places.input(&[1], &[7f32 / 12.0]).gives(&[7], &[0f32, 1., 3., 5., 6., 8., 10.]);
    }

    #[test]
    fn channels_last_resizes_the_same_places() {
        let last = Trial::new("Resize").int("channels_last", 1).text("mode", "linear");
        let pairs = [1f32, 10., 2., 20., 3., 30., 4., 40.];
        let doubled = twice(last.input(&[1, 2, 2, 2], &pairs).absent()).run().unwrap();
        assert_eq!(doubled[0].shape(), [1, 4, 4, 2]);
        let linear = [1f32, 1.25, 1.75, 2., 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3., 3.25, 3.75, 4.];
        let want: Vec<f32> = linear.iter().flat_map(|&value| [value, 10.0 * value]).collect();
        assert_eq!(doubled[0].as_slice::<f32>().unwrap(), want);
    }

    #[test]
    fn three_axes_are_resized_one_after_the_other() {
        let cube: Vec<f32> = (0..8u8).map(f32::from).collect();
        let trial = Trial::new("Resize").text("mode", "linear").text("coordinate_transformation_mode", "align_corners");
        let trial = trial.input(&[2, 2, 2], &cube).absent().absent().input(&[3], &[3i64, 3, 3]);
        let at = |i: usize| [i / 9, i / 3 % 3, i % 3].iter().zip([2.0, 1.0, 0.5]).map(|(&p, w)| p as f32 * w).sum();
        trial.gives(&[3, 3, 3], &(0..27).map(at).collect::<Vec<f32>>());
    }

    #[test]
    fn any_elements_are_picked_and_integers_are_mixed_and_cut_off_or_filtered_and_rounded() {
        let words = Trial::new("Resize").input(&[2], &[7i64, -9]).absent().input(&[1], &[1.5f32]);
        // The middle is between both, and a half prefers the lower.
        words.gives(&[3], &[7i64, 7, -9]);
        let mixed = Trial::new("Resize").text("mode", "linear").input(&[2], &[0u8, 10]).absent().input(&[1], &[2f32]);
        mixed.gives(&[4], &[0u8, 2, 7, 10]);
        let filtered =
            Trial::new("Resize").text("mode", "linear").int("antialias", 1).input(&[6], &[0u8, 0, 0, 6, 4, 4]);
        // The middle is (0 + 3 * 0 + 3 * 6 + 4) / 8, which is 2.75.
        filtered.absent().input(&[1], &[0.5f32]).gives(&[3], &[0u8, 3, 4]);
        let words = |mode| Trial::new("Resize").text("mode", mode).tensor(strings(&[2], &["a", "b"])).absent();
        words("nearest").input(&[1], &[2f32]).gives_strings(&[4], &["a", "a", "b", "b"]);
        words("linear").input(&[1], &[2f32]).is_refused("strings between other strings");
        let crop = Trial::new("Resize").text("coordinate_transformation_mode", "tf_crop_and_resize");
        let crop = crop.text("mode", "nearest").tensor(strings(&[3], &["a", "b", "c"]));
        crop.input(&[2], &[0.5f32, 1.5]).absent().input(&[1], &[3i64]).gives_strings(&[3], &["b", "c", ""]);
    }

    #[test]
    fn crops_fill_what_lies_outside() {
        let crop = |mode: &str| {
            let trial = Trial::new("Resize").text("coordinate_transformation_mode", "tf_crop_and_resize");
            let trial = trial.text("mode", mode).attr("extrapolation_value", Attr::Float(9.0));
            trial.input(&[3], &[1f32, 2., 3.]).input(&[2], &[0.5f32, 1.5]).absent().input(&[1], &[3i64])
        };
        crop("linear").gives(&[3], &[2f32, 3., 9.]);
        crop("nearest").gives(&[3], &[2f32, 3., 9.]);
    }

    #[test]
    fn crops_by_scales_take_whole_lengths_and_without_a_region_all() {
        // Three elements for 3.2: they are half of the region apart.
        let crop = |mode: &str| {
            let trial = Trial::new("Resize").text("coordinate_transformation_mode", "tf_crop_and_resize");
            trial.text("mode", mode).input(&[4], &[0f32, 1., 2., 3.])
        };
        let region = crop("linear").input(&[2], &[0.25f32, 0.75]).input(&[1], &[0.8f32]);
        region.gives(&[3], &[0.75f32, 1.5, 2.25]);
        crop("linear").absent().absent().input(&[1], &[7i64]).gives(&[7], &[0f32, 0.5, 1., 1.5, 2., 2.5, 3.]);
    }

    #[test]
    fn version_10_rounds_up_where_the_result_is_smaller() {
        let row = |scale: f32| Trial::new("Resize").version(10).input(&[4], &[1f32, 2., 3., 4.]).input(&[1], &[scale]);
        row(0.6).gives(&[2], &[1f32, 3.]);
        row(1.5).gives(&[6], &[1f32, 1., 2., 3., 3., 4.]);
    }

    #[test]
    fn policies_keep_the_ratio() {
        let sized = |policy: &str| {
            let trial = Trial::new("Resize").text("keep_aspect_ratio_policy", policy).ints("axes", &[1, 0]);
            let trial = trial.input(&[2, 4], &[1f32; 8]).absent().absent().input(&[2], &[8i64, 3]);
            trial.run().unwrap()[0].shape().to_vec()
        };
        assert_eq!(sized("stretch"), [3, 8]);
        assert_eq!(sized("not_larger"), [3, 6]);
        assert_eq!(sized("not_smaller"), [4, 8]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        square().is_refused("neither");
        square().input(&[3], &[1f32; 3]).is_refused("scales");
        square().input(&[4], &[1f32, 1., -1., 1.]).is_refused("scale of -1");
        square().input(&[4], &[1f32, 1., f32::NAN, 1.]).is_refused("scale of NaN");
        square().input(&[4], &[1f32, 1., 1e30, 1.]).is_refused("scale of");
        square().text("mode", "area").is_refused("mode 'area'");
        square().ints("axes", &[4]).input(&[1], &[1f32]).is_refused("axis 4");
        Trial::new("Resize").input(&[0], &[0f32; 0]).absent().absent().input(&[1], &[3i64]).is_refused("nothing of");
        Trial::new("Resize").input(&[0], &[0f32; 0]).absent().input(&[1], &[2f32]).gives(&[0], &[0f32; 0]);
        Trial::new("Resize").input(&[3], &[0f32; 3]).absent().input(&[1], &[0.1f32]).gives(&[0], &[0f32; 0]);
    }
}
