//! ByteTable: a function of single bytes, as the table of its values, which the pass `byte_tables` computes.

use kiln_kernels::cpu::quantized::lookup::{Lookup, VALUES};
use kiln_model::Attr;
use kiln_run::exec::lookup::LookupProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};

use crate::{LoadCx, OpError, required};

/// The result of each byte, by its pattern.
struct Table([u8; VALUES]);

pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let table = match cx.node.attrs.get("table") {
        Some(Attr::Tensor(table)) if matches!(table.dtype(), DType::U8 | DType::I8) => table.bytes().first_chunk(),
        _ => None,
    };
    let table = table.ok_or_else(|| OpError::invalid(cx.node, "table is not of 256 bytes"))?;
    Ok(Box::new(Table(*table)))
}

impl Node for Table {
    fn family(&self) -> &'static str {
        "lookup"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            DType::U8 | DType::I8 => Ok(()),
            found => Err(TensorError::Type { expected: DType::U8, found }.into()),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let problem = LookupProblem { bytes: required(inputs, 0)?.len() as u64 };
        Ok(Prepared::new(cx.executor(&cx.key(problem))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Table(table) = self;
        let (x, mut y) = (io.input(0)?, io.alloc(0)?);
        prepared.get::<Lookup>()?.run(table, x.bytes(), y.bytes_mut(), cx.parallel)?;
        io.push(y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_tensor::Tensor;

    use crate::trial::Trial;

    fn row(table: Tensor) -> Trial {
        Trial::new("ByteTable").made_by(super::make).attr("table", kiln_model::Attr::Tensor(table))
    }

    #[test]
    fn each_byte_is_looked_up_by_its_pattern() {
        let table: Vec<u8> = (0..=u8::MAX).map(|byte| byte.wrapping_mul(7).wrapping_add(3)).collect();
        let expected = |byte: u8| byte.wrapping_mul(7).wrapping_add(3);
        let table = Tensor::from_slice([256], &table).unwrap();
        for count in [0, 1, 15, 16, 17, 50_000] {
            let x: Vec<u8> = (0..count).map(|at| (at * 13 % 256) as u8).collect();
            let y: Vec<u8> = x.iter().map(|&byte| expected(byte)).collect();
            row(table.clone()).input(&[count], &x).gives(&[count], &y);
        }
        row(table.clone()).input(&[2], &[-1i8, -128]).gives(&[2], &[expected(255), expected(128)]);
        row(table).input(&[1], &[1f32]).is_refused("uint8");
        row(Tensor::from_slice([3], &[1u8, 2, 3]).unwrap()).input(&[1], &[1u8]).is_refused("table");
    }
}
