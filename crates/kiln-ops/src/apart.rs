//! A product with a fused activation, which is split into two steps where the kernel refuses that activation.
//!
//! Passes fuse what [`is_fusible`](kiln_kernels::cpu::activation::is_fusible) allows, and kernels ask the same, so no
//! model should come here. A product that does is computed right, as it was before the fusion; it is logged as a
//! warning and counted ([`ShareStats::fell_apart`](kiln_run::exec::ShareStats::fell_apart)).

use std::sync::Arc;

use half::bf16;
use half::slice::HalfFloatSliceExt;
use kiln_kernels::KernelError;
use kiln_kernels::cpu::chain::{Chain, Geometry, Operand, Program, Target, UnaryOp};
use kiln_run::exec::chain::ChainProblem;
use kiln_run::exec::{BuildError, Family};
use kiln_run::{NodeError, PrepareCx, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

/// The activation after an executor that does not apply it.
pub(super) struct After(Arc<Chain>);

/// The executor of `key` that applies `activation`, or one that applies none and the step that follows it.
///
/// # Errors
///
/// Where neither can be had.
pub(super) fn executor<K: Family>(
    cx: &PrepareCx<'_>,
    activation: Option<UnaryOp>,
    output: &TensorSpec,
    key: impl Fn(Option<UnaryOp>) -> K,
) -> Result<(Arc<K::Value>, Option<After>), NodeError> {
    let refusal = match cx.executor(&key(activation)) {
        Err(NodeError::Build(BuildError::Kernel(refusal @ KernelError::Unsupported { .. }))) => refusal,
        other => return Ok((other?, None)),
    };
    let Some(function) = activation else { return Err(BuildError::from(refusal).into()) };
    let executor = cx.executor(&key(None))?;
    let elements = output.elements()?;
    let geometry = Geometry::new(&[elements], &[&[elements]])?;
    let chain = cx.key(ChainProblem::new(&Program::unary(function), geometry));
    let after = After(cx.executor(&chain)?);
    tracing::warn!(%refusal, ?function, "a fused node falls apart");
    cx.count_apart();
    Ok((executor, Some(after)))
}

impl After {
    /// Computes the function of every element in place.
    pub(super) fn run(&self, output: &mut Tensor, cx: &RunCx<'_>) -> Result<(), NodeError> {
        if output.dtype() != DType::BF16 {
            return Ok(self.0.run(&[Operand::Output], &mut Target::F32(output.as_mut_slice()?), cx.parallel)?);
        }
        let mut wide = cx.scratch::<f32>(output.len())?;
        let elements = wide.as_mut_slice::<f32>()?;
        output.as_slice::<bf16>()?.convert_to_f32_slice(elements);
        self.0.run(&[Operand::Output], &mut Target::F32(elements), cx.parallel)?;
        output.as_mut_slice::<bf16>()?.convert_from_f32_slice(elements);
        Ok(())
    }
}
