//! Transpose, DepthToSpace and SpaceToDepth: all are a permutation of the axes of some view of the input.
//!
//! Elements of any type are moved as plain bytes by [`exec::transpose`](kiln_run::exec::transpose); strings one by one.

use kiln_kernels::cpu::transpose::Transpose as Executor;
use kiln_kernels::gpu::source::transpose::TransposeKernel;
use kiln_kernels::reference;
use kiln_run::DeviceCx;
use kiln_run::device::Operand;
use kiln_run::exec::transpose::TransposeProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Shape, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::{LoadCx, Movement, OpError, Operator, rearrange, required, size_attribute};

/// This group's operators.
pub(super) const OPERATORS: &[Operator] =
    &[("", "Transpose", make_transpose), ("", "DepthToSpace", make_depth), ("", "SpaceToDepth", make_depth)];

/// Where a block of an image has its place among the channels.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// Depth, column, row: the place in the block is the slower part of the channel's number.
    BlockFirst,
    /// Column, row, depth: it is the faster part.
    ChannelFirst,
}

enum Permute {
    /// As the model gives it; absent means all axes in reverse.
    Axes(Option<SmallVec<[usize; 8]>>),
    DepthToSpace(usize, Order),
    SpaceToDepth(usize, Order),
}

/// A permutation of a view.
struct Move {
    view: Shape,
    perm: SmallVec<[usize; 8]>,
}

fn make_transpose(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let Some(axes) = cx.node.ints("perm") else { return Ok(Box::new(Permute::Axes(None))) };
    let rank = axes.len();
    let mut perm = SmallVec::new();
    for &axis in axes {
        let axis = usize::try_from(if axis < 0 { axis.saturating_add(rank as i64) } else { axis });
        match axis {
            Ok(axis) if axis < rank && !perm.contains(&axis) => perm.push(axis),
            _ => return Err(OpError::invalid(cx.node, format!("perm {axes:?} is not a permutation"))),
        }
    }
    Ok(Box::new(Permute::Axes(Some(perm))))
}

fn make_depth(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let block = size_attribute(cx.node, "blocksize", 1)?;
    // The square of a block is a factor of the channels, so it has to be countable.
    if block > 1 << 16 {
        return Err(OpError::invalid(cx.node, format!("blocksize = {block}")));
    }
    let order = match cx.node.attributes().text("mode") {
        "DCR" => Order::BlockFirst,
        "CRD" => Order::ChannelFirst,
        other => return Err(OpError::invalid(cx.node, format!("mode '{other}'"))),
    };
    Ok(Box::new(match cx.node.op.as_str() {
        "DepthToSpace" => Permute::DepthToSpace(block, order),
        _ => Permute::SpaceToDepth(block, order),
    }))
}

impl Permute {
    fn of(&self, input: &Tensor) -> Result<Move, NodeError> {
        let shape = input.shape();
        let image = || match *shape {
            [n, c, h, w] => Ok((n, c, h, w)),
            _ => Err(NodeError::Input(format!("shape {shape:?} is not that of images [N, C, H, W]"))),
        };
        match *self {
            Permute::Axes(ref perm) => {
                let perm: SmallVec<[usize; 8]> = match perm {
                    None => (0..shape.len()).rev().collect(),
                    Some(perm) if perm.len() == shape.len() => perm.clone(),
                    Some(perm) => {
                        return Err(NodeError::Input(format!("perm {perm:?} does not fit the shape {shape:?}")));
                    }
                };
                Ok(Move { view: shape.into(), perm })
            }
            Permute::DepthToSpace(block, order) => {
                let (n, c, h, w) = image()?;
                let inner = c / (block * block);
                let (view, perm) = match order {
                    Order::BlockFirst => ([n, block, block, inner, h, w], [0, 3, 4, 1, 5, 2]),
                    Order::ChannelFirst => ([n, inner, block, block, h, w], [0, 1, 4, 2, 5, 3]),
                };
                Ok(Move { view: view.into_iter().collect(), perm: perm.into_iter().collect() })
            }
            Permute::SpaceToDepth(block, order) => {
                let (n, c, h, w) = image()?;
                let (rows, columns) = (h / block, w / block);
                let perm = match order {
                    Order::BlockFirst => [0, 3, 5, 1, 2, 4],
                    Order::ChannelFirst => [0, 1, 3, 5, 2, 4],
                };
                Ok(Move {
                    view: [n, c, rows, block, columns, block].into_iter().collect(),
                    perm: perm.into_iter().collect(),
                })
            }
        }
    }
}

impl Node for Permute {
    fn family(&self) -> &'static str {
        "transpose"
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let input = required(inputs, 0)?;
        if input.dtype() == DType::String {
            return Ok(Prepared::NONE);
        }
        let Move { view, perm, .. } = self.of(input)?;
        let problem = TransposeProblem::new(&view, &perm, input.dtype().size());
        if !problem.has_kernel() {
            return Ok(Prepared::NONE);
        }
        Ok(Prepared::new(cx.executor(&cx.key(problem))?))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        let Move { view, perm, .. } = self.of(input)?;
        let view: SmallVec<[u64; 6]> = view.iter().map(|&size| size as u64).collect();
        let perm: SmallVec<[u32; 8]> = perm.iter().map(|&axis| axis as u32).collect();
        let kernel = TransposeKernel::new(input.dtype().size() as u8, &view, &perm)?;
        cx.kernel(kernel, &[Some(Operand::Input(0))], Operand::Output(0))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let mut output = io.alloc(0)?;
        match prepared.get::<Executor>() {
            Ok(executor) => executor.run(input.bytes(), output.bytes_mut(), cx.parallel)?,
            Err(_) => output = rearrange(&self.of(input)?, &[input], output)?,
        }
        io.push(output);
        Ok(())
    }
}

/// One element after the other: strings, and more axes than kernels take.
impl Movement for Move {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        reference::transpose::transpose(from[0], &self.view, &self.perm, to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn more_axes_than_kernels_take_are_transposed_one_element_at_a_time() {
        // Ten axes of two in reverse: the bits of an index in reverse.
        let values: Vec<u16> = (0..1024).collect();
        let reversed: Vec<u16> = values.iter().map(|value| value.reverse_bits() >> 6).collect();
        Trial::new("Transpose").input(&[2; 10], &values).gives(&[2; 10], &reversed);
        Trial::new("Transpose")
            .input(&[0, 2, 2, 2, 2, 2, 2, 2, 2, 3], &[0f32; 0])
            .gives(&[3, 2, 2, 2, 2, 2, 2, 2, 2, 0], &[0f32; 0]);
    }
}
