//! Scaler of the domain `ai.onnx.ml`: every feature less its offset, times its scale.

use kiln_kernels::memory::Collect;
use kiln_model::NodeDesc;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("ai.onnx.ml", "Scaler", make)];

/// One number for all features, or one for each.
struct Scaler {
    offset: Vec<f32>,
    scale: Vec<f32>,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node: &NodeDesc = cx.node;
    let list = |name: &str, default: f32| match node.floats(name) {
        Some(values) if !values.is_empty() => values.to_vec(),
        _ => vec![default],
    };
    let (offset, scale) = (list("offset", 0.0), list("scale", 1.0));
    if offset.len() != scale.len() && offset.len() != 1 && scale.len() != 1 {
        return Err(OpError::invalid(node, format!("{} offsets for {} scales", offset.len(), scale.len())));
    }
    Ok(Box::new(Scaler { offset, scale }))
}

impl Node for Scaler {
    fn family(&self) -> &'static str {
        "Scaler"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let x = required(inputs, 0)?;
        let features = x.shape().last().copied().unwrap_or(1);
        let fits = |list: &[f32]| list.len() == 1 || list.len() == features;
        match x.dtype() {
            _ if !fits(&self.offset) || !fits(&self.scale) => {
                let (offsets, scales) = (self.offset.len(), self.scale.len());
                Err(refused(format!("{offsets} offsets and {scales} scales for {features} features")))
            }
            DType::F32 | DType::F64 | DType::I32 | DType::I64 => Ok(()),
            other => Err(NodeError::Unsupported(format!("features of type {other}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (x, mut to) = (io.input(0)?, io.alloc(0)?);
        let features = x.shape().last().copied().unwrap_or(1).max(1);
        let of = |list: &[f32]| -> Vec<f32> { list.iter().copied().cycle().take(features).collected() };
        let (offset, scale) = (of(&self.offset), of(&self.scale));
        let parameters = || offset.iter().zip(&scale);
        if let Ok(values) = x.as_slice::<f32>() {
            let rows = values.chunks_exact(features).zip(to.as_mut_slice::<f32>()?.chunks_exact_mut(features));
            for (row, to) in rows {
                let pairs = to.iter_mut().zip(row).zip(parameters());
                pairs.for_each(|((to, value), (offset, scale))| *to = (value - offset) * scale);
            }
            io.push(to);
            return Ok(());
        }
        // Numbers of other types may be larger than their differences from the offsets by more than `f32` can tell.
        let mut values = widened::<f64>(x)?;
        for row in values.chunks_exact_mut(features) {
            let pairs = row.iter_mut().zip(parameters());
            pairs.for_each(|(value, (offset, scale))| *value = (*value - f64::from(*offset)) * f64::from(*scale));
        }
        let output = narrow(&values, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::Attr;

    use crate::trial::Trial;

    fn scaler(offset: &[f32], scale: &[f32]) -> Trial {
        let trial = Trial::new("Scaler").attr("offset", Attr::Floats(offset.to_vec()));
        trial.attr("scale", Attr::Floats(scale.to_vec()))
    }

    #[test]
    fn features_are_moved_and_scaled_each_or_all_alike() {
        let row = |trial: Trial| trial.input(&[2, 2], &[1f32, 2.0, 3.0, 4.0]);
        row(scaler(&[1.0, 2.0], &[2.0, 0.5])).gives(&[2, 2], &[0f32, 0.0, 4.0, 1.0]);
        row(scaler(&[1.0], &[2.0, 0.5])).gives(&[2, 2], &[0f32, 0.5, 4.0, 1.5]);
        row(scaler(&[], &[2.0])).gives(&[2, 2], &[2f32, 4.0, 6.0, 8.0]);
        row(scaler(&[1.0; 3], &[2.0])).is_refused("3 offsets and 1 scales for 2 features");
        row(scaler(&[1.0; 3], &[2.0; 2])).is_refused("3 offsets for 2 scales");
    }

    #[test]
    fn large_numbers_keep_their_differences() {
        scaler(&[1e9], &[1.0]).input(&[2], &[1e9 + 1.0, 1e9 - 2.0]).gives(&[2], &[1f32, -2.0]);
        scaler(&[1e9], &[0.5]).input(&[2], &[1_000_000_001i64, 0]).gives(&[2], &[0.5f32, -5e8]);
    }
}
