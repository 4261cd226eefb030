//! Pooling of `[N, C, D, H, W]`, where up to two of the first spatial axes may be missing: the largest element or the
//! mean of windows.
//!
//! One thread computes one window, whose geometry is a [`Window`] for each axis. For a window as large as the image, a
//! reduction is faster.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::space::{IterationSpace, SpaceCode};
use super::{Kernel, KernelCode, is_wide, launch_each, operand, parameters, product, refuse, source};
use crate::cpu::pool::{PoolKind, PoolShape, Window};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device pool";

/// What shapes the instructions of a pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoolCode {
    /// The result of a window.
    pub kind: PoolKind,
    /// Dimensions of the output: images, then 1 to 3 axes.
    pub space: SpaceCode,
    /// Whether windows are dilated.
    pub dilated: bool,
}

/// A pooling at its sizes.
#[derive(Debug)]
pub struct PoolKernel {
    code: PoolCode,
    inputs: u64,
    outputs: u64,
    space: Vec<u8>,
    windows: Vec<Vec<u8>>,
}

impl PoolKernel {
    /// Pools images. Inputs: the images.
    ///
    /// # Errors
    ///
    /// Unsupported for norms, for channels that come last, and for sizes beyond any memory.
    pub fn new(kind: PoolKind, shape: &PoolShape) -> Result<PoolKernel> {
        if !shape.is_valid() || shape.channels_last || matches!(kind, PoolKind::Lp { .. }) {
            return Err(refuse(FAMILY, format!("{kind:?} of {shape:?}")));
        }
        let missing = shape.axes.iter().take(2).take_while(|&axis| *axis == Window::NONE).count();
        let axes = &shape.axes[missing..];
        let planes = product(FAMILY, &[shape.batch, shape.channels])?;
        let (inputs, outputs) = (shape.inputs() as u64, shape.outputs() as u64);
        let counts: Vec<u64> = [planes].into_iter().chain(axes.iter().map(|axis| axis.output)).collect();
        // The operand's offset counts lines along the first axis; offsets along further axes follow from it in the
        // kernel.
        let steps: Vec<i64> = [axes[0].input as i64].into_iter().chain(axes.iter().map(|_| 0)).collect();
        let space = IterationSpace { counts, operands: vec![(0, steps)], tail: 0 };
        let mut code = space.code(FAMILY)?;
        // Every sum that computes the start or the end of a window fits 31 bits.
        let reach = |axis: &Window| axis.output * axis.stride + axis.span() + axis.before + axis.input + axis.after;
        code.wide |= is_wide(inputs) || axes.iter().any(|axis| is_wide(reach(axis)));
        let window = |axis: &Window| {
            let sizes = [axis.input, axis.kernel, axis.stride, axis.dilation, axis.before, axis.after].into_iter();
            if code.wide {
                sizes.flat_map(u64::to_ne_bytes).collect()
            } else {
                sizes.flat_map(|size| (size as u32).to_ne_bytes()).collect::<Vec<u8>>()
            }
        };
        let windows = axes.iter().map(window).collect();
        let dilated = axes.iter().any(|axis| axis.dilation != 1);
        Ok(PoolKernel {
            code: PoolCode { kind, space: code, dilated },
            inputs,
            outputs,
            space: space.bytes(code),
            windows,
        })
    }
}

impl PoolCode {
    pub(super) fn source(self) -> Result<Source> {
        let axes = usize::from(self.space.rank).saturating_sub(1);
        if !(1..=3).contains(&axes) || self.space.operands != 1 {
            return Err(refuse(FAMILY, "images have one to three axes"));
        }
        let place = if self.space.wide { "i64" } else { "int" };
        let steps = if self.dilated { "(end - start + dilation - 1) / dilation" } else { "end - start" };
        let skipped = if self.dilated { "(dilation - 1 - start) / dilation" } else { "-start" };
        let helpers = format!(
            "{}typedef {place} Place;
typedef struct {{ Place input, kernel, stride, dilation, before, after; }} Window;
/* Taps of a window from start on that lie before end. */
KILN_DEVICE Place kiln_reach(Place start, Place end, Place dilation, Place kernel)
{{
    Place taps = {steps};
    return taps < kernel ? taps : kernel;
}}
/* Taps of a window that lie before the image. */
KILN_DEVICE Place kiln_skipped(Place start, Place dilation) {{ return start < 0 ? {skipped} : 0; }}
",
            self.space.structure()
        );
        let mut body = format!(
            "    for (Index at = KILN_START; at < space.total; at += KILN_STEP) {{\n{}",
            // Strides along the axes are the window's.
            self.space.offsets("at", |_, axis| axis > 0)
        );
        for axis in 0..axes {
            // For each axis: the start and the end of taps inside the image, and their number with padding.
            let _ = writeln!(
                body,
                "        Place start{axis} = (Place)place{0} * window{axis}.stride - window{axis}.before;
        Place first{axis} = kiln_skipped(start{axis}, window{axis}.dilation);
        Place end{axis} = kiln_reach(start{axis}, window{axis}.input, window{axis}.dilation, window{axis}.kernel);",
                axis + 1
            );
        }
        let count = |axis: usize| match self.kind {
            PoolKind::Average { include_pad: true } => format!(
                "fmaxf((float)kiln_reach(start{axis}, window{axis}.input + window{axis}.after, window{axis}.dilation, \
                 window{axis}.kernel), 0.0f)"
            ),
            _ => format!("fmaxf((float)(end{axis} - first{axis}), 0.0f)"),
        };
        let (nothing, collect, finish) = match self.kind {
            PoolKind::Max => ("KILN_BITS(0xff800000u)", "if (x > value) value = x;", "value".to_owned()),
            PoolKind::Average { .. } => {
                let counts: Vec<String> = (0..axes).map(count).collect();
                ("0.0f", "value += x;", format!("value / fmaxf({}, 1.0f)", counts.join(" * ")))
            }
            PoolKind::Lp { .. } => return Err(refuse(FAMILY, "norms of windows")),
        };
        let _ = writeln!(body, "        float value = {nothing};");
        let mut line = "offset0".to_owned();
        for axis in 0..axes {
            let _ = writeln!(
                body,
                "        for (Place tap{axis} = first{axis}; tap{axis} < end{axis}; ++tap{axis}) {{
        Index line{axis} = {line}{} + (Index)(start{axis} + tap{axis} * window{axis}.dilation);",
                if axis == 0 { String::new() } else { format!(" * (Index)window{axis}.input") }
            );
            line = format!("line{axis}");
        }
        let _ = writeln!(body, "        float x = in[{line}];\n        {collect}\n        {}", "}".repeat(axes));
        let _ = writeln!(body, "        out[at] = {finish};\n    }}");
        let names: Vec<String> = (0..axes).map(|axis| format!("window{axis}")).collect();
        let mut list = vec![("const float*", "in"), ("float*", "out"), ("Space", "space")];
        list.extend(names.iter().map(|name| ("Window", name.as_str())));
        Ok(source("kiln_pool", &helpers, &parameters(&list), &body))
    }
}

impl Kernel for PoolKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Pool(self.code)
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let input = operand(FAMILY, inputs, 0, self.inputs, 4)?;
        output.holds(FAMILY, "output", self.outputs, 4)?;
        if self.outputs == 0 {
            return Ok(());
        }
        let mut args = vec![Arg::Memory(Some(input)), Arg::Memory(Some(output)), Arg::Bytes(&self.space)];
        args.extend(self.windows.iter().map(|window| Arg::Bytes(window)));
        launch_each(module, self.outputs, &args)
    }
}
