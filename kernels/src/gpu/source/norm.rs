//! Normalisation of rows: layer, RMS, instance and group normalisation.
//!
//! Each row is brought to mean zero (where it is centred) and deviation one, then scaled and shifted by elements that
//! [`Scaling`] finds. The variance is the mean of squared deviations from the mean, in a pass of its own: the mean of
//! squares less the square of the mean would lose its digits.

use serde::{Deserialize, Serialize};

use super::fold::Team;
use super::space::{divide, divisor};
use super::{
    Kernel, KernelCode, THREADS, index_type, is_wide, launch_blocks, operand, parameters, product, refuse, source,
};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device norm";

/// Which element of the scale (and of the bias) belongs to element `e` of row `r`: `(r % period) * (length / step) + e
/// / step`.
///
/// Layer normalisation has period 1 and step 1; instance normalisation `channels` and `length`; group normalisation
/// `groups` and the pixels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Rows after which scales repeat.
    pub period: u64,
    /// Neighbours that share a scale.
    pub step: u64,
}

/// What shapes the instructions of a normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowNormCode {
    /// The threads that reduce a row.
    pub team: Team,
    /// Whether the mean is subtracted.
    pub centred: bool,
    /// Whether there is a scale.
    pub scaled: bool,
    /// Whether there is a bias.
    pub biased: bool,
    /// Whether neighbours share a scale.
    pub shared: bool,
    /// Whether indices have 64 bits.
    pub wide: bool,
}

/// A normalisation at its sizes.
#[derive(Debug)]
pub struct RowNormKernel {
    code: RowNormCode,
    rows: u64,
    length: u64,
    epsilon: f32,
    scaling: Scaling,
    elements: u64,
    /// Elements of scale and bias.
    scales: u64,
}

impl RowNormKernel {
    /// Normalises rows of that length. Inputs: the tensor, the scale, the bias.
    ///
    /// # Errors
    ///
    /// Unsupported for a bias without a scaling, steps that do not divide a row, and sizes beyond any memory.
    pub fn new(
        rows: u64,
        length: u64,
        epsilon: f32,
        centred: bool,
        scaling: Option<Scaling>,
        bias: bool,
    ) -> Result<RowNormKernel> {
        let elements = product(FAMILY, &[rows, length])?;
        if bias && scaling.is_none() {
            return Err(refuse(FAMILY, "a bias without a scale"));
        }
        let scaled = scaling.is_some();
        let scaling = scaling.unwrap_or(Scaling { period: 1, step: 1 });
        if scaling.period == 0 || scaling.step == 0 || !length.is_multiple_of(scaling.step) {
            return Err(refuse(FAMILY, format!("{scaling:?} of rows of {length}")));
        }
        let scales = product(FAMILY, &[scaling.period, length / scaling.step])?;
        let wide = is_wide(elements.max(scales));
        let code =
            RowNormCode { team: Team::of(length), centred, scaled, biased: bias, shared: scaling.step > 1, wide };
        Ok(RowNormKernel { code, rows, length, epsilon, scaling, elements, scales })
    }
}

impl RowNormCode {
    pub(super) fn source(self) -> Source {
        let mut list = vec![("const float*", "in")];
        list.extend(self.scaled.then_some(("const float*", "scale")));
        list.extend(self.biased.then_some(("const float*", "bias")));
        list.extend([("float*", "out"), ("long long", "rows"), ("long long", "length"), ("float", "epsilon")]);
        list.extend([("long long", "period"), ("long long", "step"), ("int", "magic"), ("int", "shift")]);
        let mean = "        for (Index at = TEAM_PLACE; at < (Index)length; at += TEAM_SIZE) mean += x_of[at];
        mean = fold_add(mean) / (float)length;
";
        let mean = if self.centred { mean } else { "" };
        let index = if self.shared { "KILN_DIVIDE(at, (Index)step, (u32)magic, shift)" } else { "at" };
        let (by, plus) = (if self.scaled { " * scale[first + of]" } else { "" }, self.biased);
        let plus = if plus { " + bias[first + of]" } else { "" };
        let first = if self.scaled {
            format!(
                "        Index first = row % (Index)period * ({});\n",
                if self.shared { "(Index)length / (Index)step" } else { "(Index)length" }
            )
        } else {
            String::new()
        };
        let of = if self.scaled { format!("            Index of = {index};\n") } else { String::new() };
        let body = format!(
            "    for (Index row = TEAM_ROW; row < (Index)rows; row += TEAM_ROWS) {{
        const float* x_of = in + row * (Index)length;
        float* y_of = out + row * (Index)length;
        float mean = 0.0f, squares = 0.0f;
{mean}        for (Index at = TEAM_PLACE; at < (Index)length; at += TEAM_SIZE) {{
            float x = x_of[at] - mean;
            squares += x * x;
        }}
        float factor = 1.0f / sqrtf(fold_add(squares) / (float)length + epsilon);
{first}        for (Index at = TEAM_PLACE; at < (Index)length; at += TEAM_SIZE) {{
{of}            y_of[at] = (x_of[at] - mean) * factor{by}{plus};
        }}
    }}
"
        );
        let helpers =
            format!("{}{}{}", index_type(self.wide), divide(self.wide), self.team.text(&[("add", "value + other")]));
        source("kiln_norm", &helpers, &parameters(&list), &body)
    }
}

impl Kernel for RowNormKernel {
    fn code(&self) -> KernelCode {
        KernelCode::RowNorm(self.code)
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let mut args = vec![Arg::Memory(Some(operand(FAMILY, inputs, 0, self.elements, 4)?))];
        for (index, _) in [(1, self.code.scaled), (2, self.code.biased)].into_iter().filter(|&(_, there)| there) {
            args.push(Arg::Memory(Some(operand(FAMILY, inputs, index, self.scales, 4)?)));
        }
        output.holds(FAMILY, "output", self.elements, 4)?;
        if self.elements == 0 {
            return Ok(());
        }
        let (magic, shift) = divisor(self.scaling.step);
        let [rows, length, period, step] =
            [self.rows, self.length, self.scaling.period, self.scaling.step].map(|size| Arg::I64(size as i64));
        args.extend([Arg::Memory(Some(output)), rows, length, Arg::F32(self.epsilon)]);
        args.extend([period, step, Arg::I32(magic as i32), Arg::I32(shift as i32)]);
        launch_blocks(module, self.code.team.blocks(self.rows), [THREADS, 1, 1], &args)
    }
}
