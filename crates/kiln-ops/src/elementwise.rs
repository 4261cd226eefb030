//! Element-wise operators: on `f32` and booleans a chain executor, on half precision that of `f32` between conversions,
//! on every other element type the generic node.
//!
//! An operator's row in the table of operators states its program, which of its inputs may be of another type and how
//! they broadcast; [`lower`] makes the program. This file has what depends on the node: which inputs are constants, and
//! element types, which may be known only when it runs. A node therefore holds a program for each type that has one,
//! and the generic node for the rest.

mod channel;
mod device;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kiln_kernels::cpu::chain::{Chain, Geometry, Operand, Program, Storage, Target};
use kiln_model::Attr;
use kiln_model::operators::lower::{Input, lower};
use kiln_model::operators::{self, Broadcast, Operands};
use kiln_run::DeviceCx;
use kiln_run::exec::chain::ChainProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::convert::{has_narrow_floats, narrow_through_f32};
use super::generic::make_elementwise;
use super::{LoadCx, OpError, Operator, View, Viewed, broadcast, rearrange, refused, required};

pub(super) const OPERATORS: &[Operator] =
    &[("kiln", "Chain", make_chain), ("kiln", "ChannelPRelu", channel::make_channel_prelu)];

/// A program with the inputs of the node that are its operands.
struct Lowered {
    program: Program,
    operands: SmallVec<[usize; 4]>,
}

struct Elementwise {
    /// Programs for the element types that have one.
    lowered: SmallVec<[Lowered; 2]>,
    broadcast: Broadcast,
    /// For all other types. A fused chain has none.
    generic: Option<Box<dyn Node>>,
}

/// Makes any operator whose row in the table says that it is element-wise. Where it has a program over `f32`, half
/// precision goes through that program.
pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let bare = Elementwise::new(cx)?;
    let computes_floats = bare.lowered.iter().any(|lowered| lowered.program.inputs.contains(&Storage::F32));
    match computes_floats && has_narrow_floats(cx) {
        true => narrow_through_f32(cx, |cx| Ok(Box::new(Elementwise::new(cx)?))),
        false => Ok(Box::new(bare)),
    }
}

/// The fused operator `Chain`: inputs broadcast together, attribute `program`.
fn make_chain(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let Some(Attr::Chain(program)) = cx.node.attrs.get("program") else {
        return Err(OpError::invalid(cx.node, "no program"));
    };
    if !program.is_valid() || program.inputs.len() != cx.node.inputs.len() {
        return Err(OpError::invalid(cx.node, "the program and the inputs do not fit together"));
    }
    let operands = (0..program.inputs.len()).collect();
    let lowered = Lowered { program: program.simplified(), operands };
    Ok(Box::new(Elementwise { lowered: SmallVec::from_iter([lowered]), broadcast: Broadcast::All, generic: None }))
}

/// The node as a program over operands of that storage.
fn lower_node(cx: &LoadCx<'_>, types: Operands, storage: Storage) -> Option<Lowered> {
    let node = cx.node;
    let mut operands = SmallVec::new();
    let mut inputs: Vec<Option<Input>> = Vec::with_capacity(node.inputs.len());
    for (index, value) in node.inputs.iter().enumerate() {
        let storage = if types == Operands::Condition && index == 0 { Storage::Bool } else { storage };
        // A program without operands would have no shape to work on, so the last one stays an operand.
        let last = index + 1 == node.inputs.len() && operands.is_empty();
        let constant = if last { None } else { known(cx, types, index, storage) };
        if value.is_some() && constant.is_none() {
            operands.push(index);
        }
        inputs.push(value.map(|_| Input { storage, constant }));
    }
    Some(Lowered { program: lower(node, &inputs)?, operands })
}

/// The value of an input that is one number known at load. A power's exponent may be of any type.
fn known(cx: &LoadCx<'_>, types: Operands, index: usize, storage: Storage) -> Option<f32> {
    let tensor = cx.graph.constant_input(cx.node, index).filter(|tensor| tensor.len() == 1)?;
    match (tensor.dtype(), storage) {
        (DType::F32, Storage::F32) => tensor.as_slice::<f32>().ok()?.first().copied(),
        (DType::I32 | DType::I64, Storage::F32) if types == Operands::Exponent && index == 1 => {
            let exponent = *tensor.to_i64_vec().ok()?.first()?;
            // Beyond 24 bits an `f32` would be another number.
            (exponent.abs() < 1 << 24).then_some(exponent as f32)
        }
        _ => None,
    }
}

fn stored_as(dtype: DType) -> Option<Storage> {
    match dtype {
        DType::F32 => Some(Storage::F32),
        DType::Bool => Some(Storage::Bool),
        _ => None,
    }
}

impl Elementwise {
    fn new(cx: &LoadCx<'_>) -> Result<Elementwise, OpError> {
        let generic = make_elementwise(cx)?;
        let row = operators::of(cx.node).and_then(|operator| operator.element_wise.as_ref());
        let row = row.ok_or_else(|| OpError::Unknown(cx.node.op.clone()))?;
        // Operators take floats, booleans, or (Where, Equal) either; a condition is always boolean.
        let storages = [Storage::F32, Storage::Bool];
        let lowered = storages.into_iter().filter_map(|storage| lower_node(cx, row.operands, storage)).collect();
        Ok(Elementwise { lowered, broadcast: row.broadcast, generic: Some(generic) })
    }

    /// The program for inputs of these types.
    #[inline]
    fn lowered<'t>(&self, input: impl Fn(usize) -> Option<&'t Tensor>) -> Option<&Lowered> {
        self.lowered.iter().find(|lowered| {
            let storages = lowered.operands.iter().zip(&lowered.program.inputs);
            storages
                .into_iter()
                .all(|(&index, storage)| input(index).is_some_and(|tensor| stored_as(tensor.dtype()) == Some(*storage)))
        })
    }

    fn generic(&self) -> Result<&dyn Node, NodeError> {
        let types = "a chain's inputs are not of the types that it was made for";
        self.generic.as_deref().ok_or_else(|| NodeError::Unsupported(types.to_owned()))
    }

    /// Refuses operands that do not stretch to the first, where they have to.
    fn check_shapes(&self, inputs: &[Option<&Tensor>]) -> Result<(), NodeError> {
        match self.broadcast {
            Broadcast::All => Ok(()),
            Broadcast::ToFirst => {
                let first = required(inputs, 0)?.shape();
                let whole = broadcast(inputs.iter().flatten().map(|input| input.shape()))?;
                match whole[..] == *first {
                    true => Ok(()),
                    false => Err(refused(format!("{whole:?} does not stretch to {first:?}"))),
                }
            }
            Broadcast::Scalars => match inputs[1..].iter().flatten().find(|bound| bound.len() != 1) {
                Some(bound) => Err(refused(format!("a bound of shape {:?}", bound.shape()))),
                None => Ok(()),
            },
        }
    }
}

/// A chain over operands that are repeated to the whole output first.
struct Spread {
    chain: Arc<Chain>,
}

impl Elementwise {
    fn execute_spread(
        &self,
        spread: &Spread,
        lowered: &Lowered,
        io: &mut Io<'_>,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let mut output = io.alloc(0)?;
        let mut whole: SmallVec<[Tensor; 4]> = SmallVec::new();
        for &index in &lowered.operands {
            let operand = io.input(index)?;
            let spec = TensorSpec { dtype: operand.dtype(), shape: output.spec().shape.clone() };
            let view = match self.broadcast {
                Broadcast::Scalars if index > 0 => View::broadcast(&[], &spec.shape)?,
                _ => View::broadcast(operand.shape(), &spec.shape)?,
            };
            let repeated = Viewed { view: &view, parallel: cx.parallel };
            whole.push(rearrange(&repeated, &[operand], Tensor::from_pool(cx.buffers, spec)?)?);
        }
        let mut operands: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
        for (tensor, storage) in whole.iter().zip(&lowered.program.inputs) {
            operands.push(match storage {
                Storage::F32 => Operand::F32(tensor.as_slice()?),
                Storage::Bool => Operand::Bool(tensor.bytes()),
            });
        }
        let mut target = match lowered.program.output {
            Storage::F32 => Target::F32(output.as_mut_slice()?),
            Storage::Bool => Target::Bool(output.bytes_mut()),
        };
        spread.chain.run(&operands, &mut target, cx.parallel)?;
        io.push(output);
        Ok(())
    }
}

impl Node for Elementwise {
    fn family(&self) -> &'static str {
        "chain"
    }

    fn value_inputs(&self) -> u64 {
        self.generic.as_ref().map_or(0, |generic| generic.value_inputs())
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        match self.lowered(|index| inputs.get(index).copied().flatten()) {
            Some(_) => self.check_shapes(inputs),
            None => self.generic()?.check(inputs, outputs),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let Some(lowered) = self.lowered(|index| inputs.get(index).copied().flatten()) else {
            return self.generic()?.prepare_params(cx, inputs, outputs);
        };
        let operands = lowered.operands.iter().map(|&index| {
            let shape = required(inputs, index)?.shape();
            // A bound of shape [1] does not make a scalar a vector.
            Ok(if self.broadcast == Broadcast::Scalars && index > 0 { &[][..] } else { shape })
        });
        let operands = operands.collect::<Result<SmallVec<[&[usize]; 4]>, NodeError>>()?;
        let output = &outputs[0].shape;
        let Ok(geometry) = Geometry::new(output, &operands) else {
            // Operands broadcast along too many different dimensions for a kernel: each is expanded to the output's
            // shape, for which one dimension is enough.
            let flat = &[outputs[0].elements()?][..];
            let geometry = Geometry::new(flat, &vec![flat; operands.len()])?;
            let key = cx.key(ChainProblem::new(&lowered.program, geometry));
            return Ok(Prepared::new(Arc::new(Spread { chain: cx.executor(&key)? })));
        };
        let key = cx.key(ChainProblem::new(&lowered.program, geometry));
        Ok(Prepared::new(cx.executor(&key)?))
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
        let Some(lowered) = self.lowered(|index| io.optional(index)) else {
            return self.generic()?.execute(prepared, io, cx);
        };
        let Ok(chain) = prepared.get::<Chain>() else {
            return self.execute_spread(prepared.get()?, lowered, io, cx);
        };
        let reused = lowered.operands.iter().copied().find(|&index| io.can_reuse(index, 0));
        let mut output = match reused {
            Some(index) => io.take(index)?,
            None => io.alloc(0)?,
        };
        // A loop and not a chain of iterators: collecting results costs as much as a small kernel.
        let mut operands: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
        for (&index, storage) in lowered.operands.iter().zip(&lowered.program.inputs) {
            operands.push(match storage {
                _ if reused == Some(index) => Operand::Output,
                Storage::F32 => Operand::F32(io.input(index)?.as_slice()?),
                Storage::Bool => Operand::Bool(io.input(index)?.bytes()),
            });
        }
        let mut target = match lowered.program.output {
            Storage::F32 => Target::F32(output.as_mut_slice()?),
            Storage::Bool => Target::Bool(output.bytes_mut()),
        };
        chain.run(&operands, &mut target, cx.parallel)?;
        drop(operands);
        io.push(output);
        Ok(())
    }
}
