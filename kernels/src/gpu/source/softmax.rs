//! Softmax and its logarithm along one axis of `[outer, length, inner]`.
//!
//! Contiguous rows are reduced by a warp or a block each. Where `inner` is not 1, a thread computes a column, so that
//! loads of neighbouring threads coalesce. The largest element is subtracted first, so nothing overflows.

use serde::{Deserialize, Serialize};

use super::fold::Team;
use super::{
    Kernel, KernelCode, THREADS, index_type, is_wide, launch_blocks, launch_each, operand, parameters, product,
};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device softmax";

/// What shapes the instructions of a softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SoftmaxCode {
    /// The threads that reduce a row; `None` where a thread computes a column.
    pub team: Option<Team>,
    /// Whether the logarithm is computed.
    pub logarithm: bool,
    /// Whether indices have 64 bits.
    pub wide: bool,
}

/// A softmax at its sizes.
#[derive(Debug)]
pub struct SoftmaxKernel {
    code: SoftmaxCode,
    rows: u64,
    length: u64,
    inner: u64,
    elements: u64,
}

impl SoftmaxKernel {
    /// The softmax along the middle axis. Inputs: the tensor.
    ///
    /// # Errors
    ///
    /// Unsupported for sizes beyond any memory.
    pub fn new(outer: u64, length: u64, inner: u64, logarithm: bool) -> Result<SoftmaxKernel> {
        let elements = product(FAMILY, &[outer, length, inner])?;
        let team = (inner == 1).then(|| Team::of(length));
        let code = SoftmaxCode { team, logarithm, wide: is_wide(elements) };
        let rows = if elements == 0 { 0 } else { outer * inner };
        Ok(SoftmaxKernel { code, rows, length, inner, elements })
    }
}

impl SoftmaxCode {
    pub(super) fn source(self) -> Source {
        let finish = if self.logarithm { "x - sum" } else { "expf(x) * sum" };
        let last = if self.logarithm { "logf(sum)" } else { "1.0f / sum" };
        let (helpers, first, step, place, most, sum) = match self.team {
            Some(team) => (
                team.text(&[("max", "fmaxf(value, other)"), ("add", "value + other")]),
                "TEAM_ROW",
                "TEAM_ROWS",
                ("row * (Index)length", "TEAM_PLACE", "TEAM_SIZE", "1"),
                "fold_max(most)",
                "fold_add(sum)",
            ),
            None => (
                String::new(),
                "KILN_START",
                "KILN_STEP",
                ("row / (Index)inner * (Index)length * (Index)inner + row % (Index)inner", "0", "1", "(Index)inner"),
                "most",
                "sum",
            ),
        };
        let (start, from, by, stride) = place;
        let body = format!(
            "    for (Index row = {first}; row < (Index)rows; row += {step}) {{
        const float* x_of = in + ({start});
        float* y_of = out + ({start});
        float most = KILN_BITS(0xff800000u), sum = 0.0f;
        for (Index at = {from}; at < (Index)length; at += {by}) most = fmaxf(most, x_of[at * {stride}]);
        most = {most};
        for (Index at = {from}; at < (Index)length; at += {by}) sum += expf(x_of[at * {stride}] - most);
        sum = {sum};
        sum = {last};
        for (Index at = {from}; at < (Index)length; at += {by}) {{
            float x = x_of[at * {stride}] - most;
            y_of[at * {stride}] = {finish};
        }}
    }}
"
        );
        let parameters = parameters(&[
            ("const float*", "in"),
            ("float*", "out"),
            ("long long", "rows"),
            ("long long", "length"),
            ("long long", "inner"),
        ]);
        super::source("kiln_softmax", &format!("{}{helpers}", index_type(self.wide)), &parameters, &body)
    }
}

impl Kernel for SoftmaxKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Softmax(self.code)
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let input = operand(FAMILY, inputs, 0, self.elements, 4)?;
        output.holds(FAMILY, "output", self.elements, 4)?;
        if self.rows == 0 {
            return Ok(());
        }
        let [rows, length, inner] = [self.rows, self.length, self.inner].map(|size| Arg::I64(size as i64));
        let args = [Arg::Memory(Some(input)), Arg::Memory(Some(output)), rows, length, inner];
        match self.code.team {
            Some(team) => launch_blocks(module, team.blocks(self.rows), [THREADS, 1, 1], &args),
            None => launch_each(module, self.rows, &args),
        }
    }
}
