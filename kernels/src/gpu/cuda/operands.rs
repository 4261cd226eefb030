//! Addresses of a problem's operands, after a check that their regions hold all elements that a library reads and
//! writes.

use crate::error::{KernelError, Result};
use crate::gpu::{Operands, Problem, Region};

/// Addresses of a problem's operands; 0 where there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) left: u64,
    pub(super) right: u64,
    pub(super) bias: u64,
    pub(super) residual: u64,
    pub(super) output: u64,
    pub(super) workspace: u64,
}

/// The addresses of operands that hold a problem, and of the scratch memory that is needed.
///
/// # Errors
///
/// [`KernelError::Bounds`] for regions that are too small, [`KernelError::Unsupported`] for operands that the problem
/// does not have.
pub(super) fn addresses(
    family: &'static str,
    problem: &Problem,
    operands: &Operands<'_>,
    workspace: Option<&Region>,
    need: u64,
) -> Result<Addresses> {
    let unsupported = |reason: &str| KernelError::Unsupported { family, reason: reason.to_owned() };
    let [left, right, output] = problem.extents().ok_or_else(|| unsupported("more elements than there are numbers"))?;
    let epilogue = problem.epilogue();
    if epilogue.bias != operands.bias.is_some() || epilogue.residual != operands.residual.is_some() {
        return Err(unsupported("operands that are not those of the problem"));
    }
    let floats = |operand, region: &Region, count| region.holds(family, operand, count, 4).map(|()| region.address());
    let optional =
        |operand, region: Option<&Region>, count| region.map_or(Ok(0), |region| floats(operand, region, count));
    let workspace = match workspace {
        Some(region) => region.holds(family, "workspace", need, 1).map(|()| region.address())?,
        None if need == 0 => 0,
        None => {
            let need = usize::try_from(need).unwrap_or(usize::MAX);
            return Err(KernelError::Bounds { family, operand: "workspace", have: 0, need });
        }
    };
    Ok(Addresses {
        left: floats("left", operands.left, left)?,
        right: floats("right", operands.right, right)?,
        bias: optional("bias", operands.bias, problem.columns())?,
        residual: optional("residual", operands.residual, output)?,
        output: floats("output", operands.output, output)?,
        workspace,
    })
}
