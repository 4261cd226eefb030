//! The work of a node on a device: kernels and solvers one after the other, over the node's inputs, outputs and scratch
//! memory.
//!
//! A node's sequence is made once for its shapes ([`DeviceCx`]) and runs in every request. Outputs and scratch memory
//! come from the device's arena in every run, because earlier work may still use the memory of the run before; the
//! arena lends the same memory for the same requests.

use std::sync::Arc;

use kiln_kernels::gpu::source::Kernel;
use kiln_kernels::gpu::{Module, Operands, Problem, Region};
use kiln_tensor::{Elsewhere, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::super::error::NodeError;
use super::super::io::Io;
use super::super::prepare::PrepareCx;
use super::copy;
use crate::exec::gpu::{GpuCx, Solution};

/// Memory that a step reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// An input of the node.
    Input(usize),
    /// An output of the node.
    Output(usize),
    /// Scratch memory, by [`DeviceCx::scratch`].
    Scratch(usize),
    /// Memory that the sequence keeps, by [`DeviceCx::table`].
    Table(usize),
}

enum Work {
    Kernel(Box<dyn Kernel>, Arc<dyn Module>),
    Solve(Arc<Solution>),
}

struct Step {
    work: Work,
    inputs: SmallVec<[Option<Operand>; 4]>,
    output: Operand,
}

/// The memory of an output.
#[derive(Clone, Copy)]
enum Made {
    /// In memory of its own.
    Memory,
    /// In the memory of an input, under another shape.
    View(usize),
}

/// The work of a node on a device at its shapes.
pub struct Sequence {
    steps: Vec<Step>,
    /// Bytes of each scratch memory.
    scratch: SmallVec<[u64; 2]>,
    outputs: SmallVec<[Made; 1]>,
    /// What kernels read besides operands, the same in every run.
    tables: Vec<Region>,
    /// Inputs with indices along an axis, and its size.
    indices: SmallVec<[(usize, usize); 1]>,
}

/// Collects a node's sequence.
pub struct DeviceCx<'a> {
    cx: &'a PrepareCx<'a>,
    sequence: Sequence,
}

impl<'a> DeviceCx<'a> {
    pub(super) fn new(cx: &'a PrepareCx<'a>, outputs: &[TensorSpec]) -> DeviceCx<'a> {
        let outputs = outputs.iter().map(|_| Made::Memory).collect();
        let (steps, scratch, indices) = (Vec::new(), SmallVec::new(), SmallVec::new());
        DeviceCx { cx, sequence: Sequence { steps, scratch, outputs, tables: Vec::new(), indices } }
    }

    pub(super) fn finish(self) -> Sequence {
        self.sequence
    }

    /// Scratch memory of `bytes` bytes, for this sequence.
    pub fn scratch(&mut self, bytes: u64) -> Operand {
        self.sequence.scratch.push(bytes);
        Operand::Scratch(self.sequence.scratch.len() - 1)
    }

    /// Memory with these bytes, sent to the device now, which kernels of the sequence read.
    ///
    /// # Errors
    ///
    /// If the device has no room.
    pub fn table(&mut self, bytes: &[u8]) -> Result<Operand, NodeError> {
        let gpu = self.cx.gpu().ok_or_else(|| NodeError::Unsupported("a device that is not there".to_owned()))?;
        let region = gpu.arena.take(bytes.len() as u64)?;
        gpu.device.upload(bytes, &region)?;
        gpu.traffic.count_to_device(region.bytes());
        self.sequence.tables.push(region);
        Ok(Operand::Table(self.sequence.tables.len() - 1))
    }

    /// Output `output` is input `input` with the output's shape; nothing runs for it.
    pub fn view(&mut self, output: usize, input: usize) {
        self.sequence.outputs[output] = Made::View(input);
    }

    /// Input `input`, which is on the processor, has indices along an axis of `size` elements: each run refuses indices
    /// outside of it.
    pub fn indices(&mut self, input: usize, size: usize) {
        self.sequence.indices.push((input, size));
    }

    /// The solver of a problem; `None` if the device's libraries have none that is allowed.
    ///
    /// # Errors
    ///
    /// Any other error.
    pub fn solution(&self, problem: &Problem) -> Result<Option<Arc<Solution>>, NodeError> {
        let solution = self.cx.solver(problem)?;
        Ok(solution.solver.is_some().then_some(solution))
    }

    /// Adds a solver: left, right, bias, residual.
    pub fn solve(&mut self, solution: Arc<Solution>, operands: [Option<Operand>; 4], output: Operand) {
        self.sequence.steps.push(Step { work: Work::Solve(solution), inputs: SmallVec::from(operands), output });
    }

    /// Adds a kernel.
    ///
    /// # Errors
    ///
    /// If it does not compile.
    pub fn kernel(
        &mut self,
        kernel: impl Kernel + 'static,
        inputs: &[Option<Operand>],
        output: Operand,
    ) -> Result<(), NodeError> {
        let module = self.cx.module(&kernel.code())?;
        let work = Work::Kernel(Box::new(kernel), module);
        self.sequence.steps.push(Step { work, inputs: SmallVec::from_slice(inputs), output });
        Ok(())
    }
}

/// The region of a tensor on a device.
pub(super) fn region(tensor: &Tensor) -> Option<&Region> {
    tensor.away()
}

/// Checks that all indices are within an axis of that size, from either end.
fn check_indices(indices: &Tensor, size: usize) -> Result<(), NodeError> {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    match indices.to_i64_vec()?.into_iter().find(|&index| !(-size..size).contains(&index)) {
        None => Ok(()),
        Some(index) => Err(NodeError::Input(format!("index {index} is outside of 0..{size}"))),
    }
}

impl Sequence {
    /// Starts all steps.
    pub(super) fn run(&self, gpu: &Arc<GpuCx>, io: &mut Io<'_>) -> Result<(), NodeError> {
        let taken = |bytes: u64| gpu.arena.take(bytes);
        let scratch = self.scratch.iter().map(|&bytes| taken(bytes)).collect::<Result<SmallVec<[Region; 2]>, _>>()?;
        for &(input, size) in &self.indices {
            check_indices(io.input(input)?, size)?;
        }
        // Inputs that are on the processor (a single element of a chain, indices) are sent now.
        let inputs = io.inputs();
        let mut sent: SmallVec<[Option<Tensor>; 4]> = SmallVec::from_elem(None, inputs.len());
        let read = self.steps.iter().flat_map(|step| step.inputs.iter().flatten());
        let viewed =
            self.outputs.iter().filter_map(|made| if let Made::View(input) = made { Some(*input) } else { None });
        let named = read.filter_map(|operand| if let Operand::Input(input) = operand { Some(*input) } else { None });
        for input in named.chain(viewed) {
            if let Some(tensor) = inputs.get(input).copied().flatten()
                && !tensor.is_elsewhere()
                && sent[input].is_none()
            {
                sent[input] = Some(copy::to_device(gpu, tensor)?);
            }
        }
        let input = |index: usize| sent.get(index)?.as_ref().or(inputs.get(index).copied().flatten());
        let missing = |index: usize| NodeError::Input(format!("input {index} is missing on the device"));
        let mut outputs: SmallVec<[Option<Region>; 1]> = SmallVec::new();
        for (made, spec) in self.outputs.iter().zip(io.specs()) {
            outputs.push(match made {
                Made::Memory => Some(taken(copy::bytes_of(spec)?)?),
                Made::View(_) => None,
            });
        }
        let find = |operand: Operand| match operand {
            Operand::Input(index) => input(index).and_then(region).ok_or_else(|| missing(index)),
            Operand::Output(index) => outputs[index].as_ref().ok_or_else(|| missing(index)),
            Operand::Scratch(index) => Ok(&scratch[index]),
            Operand::Table(index) => Ok(&self.tables[index]),
        };
        for step in &self.steps {
            let operands = step.inputs.iter().map(|operand| operand.map(find).transpose());
            let operands = operands.collect::<Result<SmallVec<[Option<&Region>; 4]>, _>>()?;
            let output = find(step.output)?;
            match &step.work {
                Work::Kernel(kernel, module) => kernel.launch(&**module, &operands, output)?,
                Work::Solve(solution) => {
                    let solver = solution.solver.as_ref().ok_or_else(|| missing(0))?;
                    let needed = |index: usize| operands[index].ok_or_else(|| missing(index));
                    let operands = Operands {
                        left: needed(0)?,
                        right: needed(1)?,
                        bias: operands[2],
                        residual: operands[3],
                        output,
                    };
                    // Lent for this step: later work on the device runs after it, and may have the same memory.
                    let workspace = match solver.workspace() {
                        0 => None,
                        bytes => Some(taken(bytes)?),
                    };
                    solver.run(&operands, workspace.as_ref())?;
                }
            }
        }
        let mut made: SmallVec<[Tensor; 1]> = SmallVec::new();
        for ((kind, spec), region) in self.outputs.iter().zip(io.specs()).zip(outputs) {
            made.push(match (kind, region) {
                (Made::View(index), _) => {
                    input(*index).ok_or_else(|| missing(*index))?.reshaped(spec.shape.iter().copied())?
                }
                (Made::Memory, region) => {
                    let region = region.ok_or_else(|| missing(0))?;
                    Tensor::elsewhere(spec.clone(), Arc::new(Elsewhere::new(region)))
                }
            });
        }
        drop(inputs);
        made.into_iter().for_each(|tensor| io.push(tensor));
        Ok(())
    }
}
