//! The epilogue of a library's result, if the library has none: bias, residual and activation as one chain, in place.

use kiln_kernels::cpu::chain::{BinaryOp, Builder, Geometry, Storage, UnaryOp};
use kiln_kernels::gpu::source::chain::ChainKernel;
use smallvec::SmallVec;

use super::super::node::NodeError;
use super::{DeviceCx, Operand};

/// A tensor that is added to a result, and the shape in which it broadcasts to it.
#[derive(Clone, Debug)]
pub struct Addend {
    /// Where it is.
    pub operand: Operand,
    /// Its shape, as numpy broadcasts it.
    pub shape: SmallVec<[usize; 6]>,
    /// What it is multiplied by first.
    pub factor: f32,
}

impl DeviceCx<'_> {
    /// `output = activation(output + addends)`; nothing if there are neither addends nor an activation.
    ///
    /// # Errors
    ///
    /// If an addend does not broadcast to `shape`, or a kernel does not compile.
    pub fn finish_in_place(
        &mut self,
        output: Operand,
        shape: &[usize],
        addends: &[Addend],
        activation: Option<UnaryOp>,
    ) -> Result<(), NodeError> {
        if addends.is_empty() && activation.is_none() {
            return Ok(());
        }
        let mut program = Builder::new(&vec![Storage::F32; 1 + addends.len()]);
        let mut sum = 0;
        for (index, addend) in addends.iter().enumerate() {
            let mut term = (index + 1) as u8;
            if addend.factor != 1.0 {
                let factor = program.constant(addend.factor);
                term = program.binary(BinaryOp::Mul, term, factor);
            }
            sum = program.binary(BinaryOp::Add, sum, term);
        }
        if let Some(activation) = activation {
            program.unary(activation, sum);
        }
        let program = program.finish(Storage::F32);
        let program = program.ok_or_else(|| NodeError::Unsupported("this end of a product on a device".to_owned()))?;
        let mut shapes: SmallVec<[&[usize]; 4]> = SmallVec::from_slice(&[shape]);
        shapes.extend(addends.iter().map(|addend| addend.shape.as_slice()));
        let geometry = Geometry::new(shape, &shapes)?;
        let mut operands: SmallVec<[Option<Operand>; 4]> = SmallVec::from_slice(&[Some(output)]);
        operands.extend(addends.iter().map(|addend| Some(addend.operand)));
        self.kernel(ChainKernel::new(&program, &geometry)?, &operands, output)
    }
}
