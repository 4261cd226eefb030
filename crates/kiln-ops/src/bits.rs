//! BitCast: the same bits under another element type of the same width.

use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::{LoadCx, OpError, Operator, named_type, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "BitCast", make)];

struct BitCast(DType);

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(BitCast(named_type(cx.node, "to")?)))
}

impl Node for BitCast {
    fn family(&self) -> &'static str {
        "BitCast"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let from = required(inputs, 0)?.dtype();
        if from.packed_bits() != self.0.packed_bits() || from == DType::String || self.0 == DType::String {
            return Err(refused(format!("the bits of {from} are no {}", self.0)));
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        let bytes = input.bytes().iter().zip(output.bytes_mut());
        match self.0 {
            // Signs of small integers reach through the whole byte, and the bits of others do not.
            DType::I4 => bytes.for_each(|(from, to)| *to = ((*from as i8) << 4 >> 4) as u8),
            DType::U4 | DType::F4E2M1 => bytes.for_each(|(from, to)| *to = from & 15),
            DType::I2 => bytes.for_each(|(from, to)| *to = ((*from as i8) << 6 >> 6) as u8),
            DType::U2 => bytes.for_each(|(from, to)| *to = from & 3),
            _ => bytes.for_each(|(from, to)| *to = *from),
        }
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_tensor::TensorSpec;

    use super::*;
    use crate::trial::{Trial, onnx_code};

    #[test]
    fn bits_stay_and_meaning_changes() {
        let cast = |to| Trial::new("BitCast").int("to", onnx_code(to));
        cast(DType::I32).input(&[1], &[1f32]).gives(&[1], &[0x3f80_0000i32]);
        cast(DType::F64).input(&[], &[0i64]).gives(&[], &[0f64]);
        let nibbles = Tensor::from_bytes(TensorSpec::new(DType::U4, [2]), &[15, 7]).unwrap();
        assert_eq!(cast(DType::I4).tensor(nibbles).run().unwrap()[0].bytes(), [0xff, 7]);
        cast(DType::I64).input(&[1], &[1f32]).is_refused("no int64");
        cast(DType::String).input(&[1], &[1f32]).is_refused("no string");
    }
}
