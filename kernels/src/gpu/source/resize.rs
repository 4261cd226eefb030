//! Resizing by tables: for each position along an axis of the output, the indices of its neighbours in the input, and
//! their weights.
//!
//! Tables are inputs like any other, made once by the caller from its coordinates, so that one kernel serves every
//! mode: nearest is one neighbour without weights, linear two, cubic four. Axes that keep their size are parts of
//! `outer` and `inner`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::copy::moved;
use super::space::{IterationSpace, SpaceCode};
use super::{Kernel, KernelCode, is_wide, launch_each, operand, product, refuse, source};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device resize";

/// How neighbours become an element of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mix {
    /// The first neighbour along each axis, whose elements have that many bytes.
    Pick {
        /// 1, 2, 4 or 8.
        width: u8,
    },
    /// The weighted sum of all neighbours, which are `f32`. Neighbours of weight zero are not read.
    Blend,
}

/// An axis that is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resized {
    /// Elements of the input.
    pub input: u64,
    /// Elements of the output.
    pub output: u64,
    /// Neighbours of a position.
    pub taps: u64,
}

/// What shapes the instructions of a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResizeCode {
    /// The result.
    pub mix: Mix,
    /// Dimensions of the output: outer, 1 to 3 axes, inner.
    pub space: SpaceCode,
}

/// A resize at its sizes.
#[derive(Debug)]
pub struct ResizeKernel {
    code: ResizeCode,
    axes: Vec<Resized>,
    inputs: u64,
    outputs: u64,
    space: Vec<u8>,
}

impl ResizeKernel {
    /// Resizes one to three neighbouring axes of `[outer, axes, inner]`.
    ///
    /// Inputs: the tensor, then for each axis its neighbours, `u32 [output, taps]`, which must all be below `input`,
    /// and, where neighbours are blended, their weights, `f32 [output, taps]`.
    ///
    /// # Errors
    ///
    /// Unsupported for another number of axes, axes without neighbours, and sizes beyond any memory.
    pub fn new(mix: Mix, outer: u64, axes: &[Resized], inner: u64) -> Result<ResizeKernel> {
        element(mix)?;
        let outputs = product(FAMILY, &sizes(outer, axes, inner, |axis| axis.output))?;
        let inputs = product(FAMILY, &sizes(outer, axes, inner, |axis| axis.input))?;
        if !(1..=3).contains(&axes.len()) || axes.iter().any(|axis| axis.taps == 0) || inputs == 0 && outputs > 0 {
            return Err(refuse(FAMILY, format!("{axes:?}")));
        }
        for axis in axes {
            product(FAMILY, &[axis.output, axis.taps, 4])?;
        }
        let counts = sizes(outer, axes, inner, |axis| axis.output);
        let mut code = IterationSpace { counts: counts.clone(), operands: vec![], tail: 0 }.code(FAMILY)?;
        let most = axes.iter().map(|axis| axis.output * axis.taps).max().unwrap_or(0);
        code.wide |= is_wide(inputs.max(most));
        let space = IterationSpace { counts, operands: vec![], tail: 0 }.bytes(code);
        Ok(ResizeKernel { code: ResizeCode { mix, space: code }, axes: axes.to_vec(), inputs, outputs, space })
    }
}

fn sizes(outer: u64, axes: &[Resized], inner: u64, size: impl Fn(&Resized) -> u64) -> Vec<u64> {
    [outer].into_iter().chain(axes.iter().map(size)).chain([inner]).collect()
}

fn element(mix: Mix) -> Result<&'static str> {
    match mix {
        Mix::Pick { width } if width <= 8 => moved(FAMILY, width),
        Mix::Pick { width } => Err(refuse(FAMILY, format!("elements of {width} bytes"))),
        Mix::Blend => Ok("float"),
    }
}

impl ResizeCode {
    pub(super) fn source(self) -> Result<Source> {
        let axes = usize::from(self.space.rank).saturating_sub(2);
        if !(1..=3).contains(&axes) || self.space.operands != 0 {
            return Err(refuse(FAMILY, "one to three axes are resized"));
        }
        let kind = element(self.mix)?;
        let blend = self.mix == Mix::Blend;
        let mut body = format!(
            "    for (Index at = KILN_START; at < space.total; at += KILN_STEP) {{\n{}",
            self.space.offsets("at", |_, _| false)
        );
        if blend {
            body += "        float value = 0.0f;\n";
        }
        let mut line = "rest1".to_owned();
        for axis in 0..axes {
            let row = format!("place{} * (Index)taps{axis}", axis + 1);
            if blend {
                let before = if axis == 0 { String::new() } else { format!("weight{} * ", axis - 1) };
                let _ = writeln!(
                    body,
                    "        for (Index tap{axis} = 0; tap{axis} < (Index)taps{axis}; ++tap{axis}) {{
        float weight{axis} = {before}weights{axis}[{row} + tap{axis}];
        if (weight{axis} == 0.0f) continue;
        Index line{axis} = {line} * (Index)input{axis} + places{axis}[{row} + tap{axis}];"
                );
            } else {
                let _ = writeln!(body, "        Index line{axis} = {line} * (Index)input{axis} + places{axis}[{row}];");
            }
            line = format!("line{axis}");
        }
        let from = format!("in[{line} * space.count[{0}] + place{0}]", axes + 1);
        if blend {
            let _ = writeln!(body, "        value += weight{} * {from};\n        {}", axes - 1, "}".repeat(axes));
            body += "        out[at] = value;\n    }\n";
        } else {
            let _ = writeln!(body, "        out[at] = {from};\n    }}");
        }
        let mut list = vec![(format!("const {kind}*"), "in".to_owned())];
        for axis in 0..axes {
            list.push(("const u32*".to_owned(), format!("places{axis}")));
            list.extend(blend.then(|| ("const float*".to_owned(), format!("weights{axis}"))));
        }
        list.extend([(format!("{kind}*"), "out".to_owned()), ("Space".to_owned(), "space".to_owned())]);
        for axis in 0..axes {
            list.push(("long long".to_owned(), format!("input{axis}")));
            list.push(("long long".to_owned(), format!("taps{axis}")));
        }
        Ok(source("kiln_resize", &self.space.structure(), &list, &body))
    }
}

impl Kernel for ResizeKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Resize(self.code)
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let width = match self.code.mix {
            Mix::Pick { width } => u64::from(width),
            Mix::Blend => 4,
        };
        let mut args = vec![Arg::Memory(Some(operand(FAMILY, inputs, 0, self.inputs, width)?))];
        let tables = if self.code.mix == Mix::Blend { 2 } else { 1 };
        for (index, axis) in self.axes.iter().enumerate() {
            for table in 1 + index * tables..1 + (index + 1) * tables {
                args.push(Arg::Memory(Some(operand(FAMILY, inputs, table, axis.output * axis.taps, 4)?)));
            }
        }
        output.holds(FAMILY, "output", self.outputs, width)?;
        if self.outputs == 0 {
            return Ok(());
        }
        args.extend([Arg::Memory(Some(output)), Arg::Bytes(&self.space)]);
        args.extend(self.axes.iter().flat_map(|axis| [axis.input, axis.taps]).map(|size| Arg::I64(size as i64)));
        launch_each(module, self.outputs, &args)
    }
}
