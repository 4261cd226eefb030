//! The step between an expert's products: a function of each element, or a gate and the elements that it lets through.

use kiln_kernels::Parallel;
use kiln_kernels::parallel::for_each_chunk;
use kiln_model::NodeDesc;

use super::super::OpError;
use super::super::tasks;

/// The function, and where its operands are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Activation {
    function: Function,
    layout: Layout,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Relu,
    /// By the hyperbolic tangent.
    Gelu,
    Silu,
    Identity,
    /// G sigmoid(alpha G) (L + beta), where G and L are the gate and the other operand, cut off at the limit.
    Swiglu {
        alpha: f32,
        beta: f32,
        limit: f32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One operand.
    Alone,
    /// In a row, gates and others in turns.
    InTurns,
    /// In a row, first all gates.
    InHalves,
    /// The gate is the first product, the other the one beside it.
    Beside,
}

impl Activation {
    /// The activation that the attributes state; `beside` says whether there is a product beside the first.
    pub(super) fn of(node: &NodeDesc, beside: bool) -> Result<Activation, OpError> {
        let attributes = node.attributes();
        let function = match attributes.text("activation_type") {
            "relu" => Function::Relu,
            "gelu" => Function::Gelu,
            "silu" => Function::Silu,
            "identity" => Function::Identity,
            "swiglu" => Function::Swiglu {
                alpha: attributes.float("activation_alpha"),
                beta: attributes.float("activation_beta"),
                limit: attributes.float("swiglu_limit"),
            },
            other => return Err(OpError::unsupported(node, format!("attribute activation_type = {other}"))),
        };
        let fusion = attributes.int("swiglu_fusion");
        let layout = match (function, fusion, beside) {
            (Function::Swiglu { .. }, 0, true) => Layout::Beside,
            (Function::Swiglu { .. }, 1, false) => Layout::InTurns,
            (Function::Swiglu { .. }, 2, false) => Layout::InHalves,
            (Function::Swiglu { .. }, ..) => {
                let third = if beside { "with" } else { "without" };
                return Err(OpError::invalid(node, format!("swiglu_fusion = {fusion} {third} a third product")));
            }
            (_, _, true) => Layout::Beside,
            (_, _, false) => Layout::Alone,
        };
        Ok(Activation { function, layout })
    }

    /// Elements of the first product for one element after the function.
    pub(super) fn width(self) -> usize {
        if matches!(self.layout, Layout::InTurns | Layout::InHalves) { 2 } else { 1 }
    }

    /// Writes rows of `inner` elements.
    pub(super) fn run(
        self,
        up: &[f32],
        beside: Option<&[f32]>,
        out: &mut [f32],
        inner: usize,
        parallel: &dyn Parallel,
    ) {
        // An element takes as long as moving this many bytes.
        const BYTES: usize = 64;
        if inner == 0 {
            return;
        }
        let rows = tasks::share(out.len(), BYTES, parallel).div_ceil(inner);
        for_each_chunk(parallel, out, rows * inner, &|index, out| {
            let first = index * rows;
            for (row, out) in out.chunks_exact_mut(inner).enumerate() {
                let up = &up[(first + row) * inner * self.width()..][..inner * self.width()];
                self.row(up, beside.map(|beside| &beside[(first + row) * inner..][..inner]), out);
            }
        });
    }

    fn row(self, up: &[f32], beside: Option<&[f32]>, out: &mut [f32]) {
        match (self.layout, beside) {
            (Layout::InTurns, _) => {
                out.iter_mut()
                    .zip(up.chunks_exact(2))
                    .for_each(|(out, pair)| *out = self.function.gated(pair[0], pair[1]));
            }
            (Layout::InHalves, _) => {
                let (gates, others) = up.split_at(out.len());
                self.row_of(gates, others, out);
            }
            (Layout::Beside, Some(others)) => self.row_of(up, others, out),
            (Layout::Beside | Layout::Alone, _) => {
                out.iter_mut().zip(up).for_each(|(out, &x)| *out = self.function.of(x));
            }
        }
    }

    fn row_of(self, gates: &[f32], others: &[f32], out: &mut [f32]) {
        let operands = gates.iter().zip(others);
        out.iter_mut().zip(operands).for_each(|(out, (&gate, &other))| *out = self.function.gated(gate, other));
    }
}

impl Function {
    fn of(self, x: f32) -> f32 {
        match self {
            Function::Relu if x < 0.0 => 0.0,
            Function::Relu | Function::Identity | Function::Swiglu { .. } => x,
            // x / 2 (1 + tanh y) is x sigmoid(2 y).
            Function::Gelu => x * sigmoid(2.0 * 0.797_884_6 * (x + 0.044_715 * x * x * x)),
            Function::Silu => x * sigmoid(x),
        }
    }

    fn gated(self, gate: f32, other: f32) -> f32 {
        match self {
            Function::Swiglu { alpha, beta, limit } => {
                // NaN stays NaN.
                let gate = if gate > limit { limit } else { gate };
                let other = if other > limit { limit } else { other };
                let other = if other < -limit { -limit } else { other };
                gate * sigmoid(alpha * gate) * (other + beta)
            }
            function => function.of(gate) * other,
        }
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
