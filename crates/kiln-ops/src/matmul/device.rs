//! Matrix products on a device: by a library, with the following steps fused into it where the library can, else as a
//! chain behind it.

use kiln_kernels::gpu::source::copy::{CopyKernel, Strided};
use kiln_kernels::gpu::source::fill::FillKernel;
use kiln_kernels::gpu::{Epilogue, MatMulProblem, Problem};
use kiln_run::device::{Addend, Operand};
use kiln_run::exec::matmul::Stored;
use kiln_run::{DeviceCx, NodeError};
use kiln_tensor::{Tensor, TensorSpec};
use smallvec::SmallVec;

use super::dims::Problem as Product;
use super::{MatMul, Third};
use crate::{optional, refused};

const F32: u64 = size_of::<f32>() as u64;

impl MatMul {
    pub(super) fn on_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let product = self.problem(inputs)?;
        let (output, to) = (&outputs[0].shape, Operand::Output(0));
        if output.contains(&0) {
            return Ok(());
        }
        let third = optional(inputs, 2).filter(|_| self.third == Third::Bias || self.beta != 0.0);
        let residual = optional(inputs, 3).is_some();
        let mut addends: SmallVec<[Addend; 2]> = SmallVec::new();
        if let Some(third) = third {
            let factor = if self.third == Third::Bias { 1.0 } else { self.beta };
            addends.push(Addend { operand: Operand::Input(2), shape: third.shape().into(), factor });
        }
        if residual {
            addends.push(Addend { operand: Operand::Input(3), shape: output.clone(), factor: 1.0 });
        }
        if product.k == 0 {
            let elements = output.iter().product::<usize>() as u64;
            cx.kernel(FillKernel::new(&0f32.to_le_bytes(), elements)?, &[], to)?;
            return cx.finish_in_place(to, output, &addends, self.activation);
        }
        let (plain, left, right) = self.operands(cx, &product)?;
        // A row for all rows is a library's bias; any other summand is added behind the product.
        let row = third.is_some_and(|third| {
            third.len() == product.n && third.shape().last() == Some(&product.n) && addends[0].factor == 1.0
        });
        let fusable = third.is_none() || row;
        let epilogue = Epilogue { bias: row, residual, activation: self.activation };
        if fusable
            && !epilogue.is_none()
            && let Some(fused) = cx.solution(&Problem::MatMul(MatMulProblem { epilogue, ..plain }))?
        {
            let extra = |wanted: bool, index: usize| wanted.then_some(Operand::Input(index));
            cx.solve(fused, [Some(left), Some(right), extra(row, 2), extra(residual, 3)], to);
            return Ok(());
        }
        let solver = cx.solution(&Problem::MatMul(plain))?;
        let solver = solver
            .ok_or_else(|| NodeError::Unsupported(format!("the device has no way to compute the product {plain:?}")))?;
        cx.solve(solver, [Some(left), Some(right), None, None], to);
        cx.finish_in_place(to, output, &addends, self.activation)
    }

    /// The product in the one batch dimension that libraries have, and where its sides are: stretched first, where they
    /// broadcast in more than one way.
    fn operands(
        &self,
        cx: &mut DeviceCx<'_>,
        product: &Product,
    ) -> Result<(MatMulProblem, Operand, Operand), NodeError> {
        let small = |size: usize| {
            u32::try_from(size)
                .ok()
                .filter(|&size| size <= i32::MAX as u32)
                .ok_or_else(|| refused(format!("a size of {size} on a device")))
        };
        let mut problem = MatMulProblem {
            batch: small(product.batches())?,
            m: small(product.m)?,
            n: small(product.n)?,
            k: small(product.k)?,
            trans_left: product.left == Stored::Columns,
            trans_right: product.right == Stored::Columns,
            one_left: false,
            one_right: false,
            scale: self.scale.to_bits(),
            epilogue: Epilogue::NONE,
        };
        let (mut left, mut right) = (Operand::Input(0), Operand::Input(1));
        match *product.batch.as_slice() {
            [] => {}
            [dim] => (problem.one_left, problem.one_right) = (!dim.left, !dim.right),
            ref dims => {
                let steps = product.steps(product.n * product.k);
                let mut stretch = |operand: Operand, elements: usize, strides: SmallVec<[i64; 4]>| {
                    let sizes: SmallVec<[usize; 4]> = dims.iter().map(|dim| dim.size).chain([elements]).collect();
                    let counts: SmallVec<[u64; 4]> = sizes.iter().map(|&size| size as u64).collect();
                    let dense: SmallVec<[i64; 4]> = crate::strides(&sizes).iter().map(|&step| step as i64).collect();
                    let whole = cx.scratch(counts.iter().product::<u64>() * F32);
                    let copy = CopyKernel::new(F32 as u8, &counts, Strided::new(0, &strides), Strided::new(0, &dense))?;
                    cx.kernel(copy, &[Some(operand)], whole).map(|()| whole)
                };
                let own = |step: u64| step as i64;
                if dims.iter().any(|dim| !dim.left) {
                    let strides = steps.iter().map(|step| own(step.left)).chain([1]).collect();
                    left = stretch(left, product.m * product.k, strides)?;
                }
                if dims.iter().any(|dim| !dim.right) {
                    let strides = steps.iter().map(|step| own(step.right)).chain([1]).collect();
                    right = stretch(right, product.n * product.k, strides)?;
                }
            }
        }
        Ok((problem, left, right))
    }
}
