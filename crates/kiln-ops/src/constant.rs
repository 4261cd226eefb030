//! Values that come from attributes: Constant and ConstantOfShape.

use kiln_kernels::memory;
use kiln_model::{Attr, NodeDesc};
use kiln_run::node::InferByValue;
use kiln_run::node::Specs;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorError};

use super::{LoadCx, Movement, OpError, Operator, rearrange};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Constant", make_constant), ("", "ConstantOfShape", make_filled)];

struct Constant(Tensor);

fn make_constant(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let tensor = attribute_value(cx.node)?.map_err(|error| OpError::invalid(cx.node, error.to_string()))?;
    Ok(Box::new(Constant(tensor)))
}

/// The tensor that the node's one value attribute describes.
fn attribute_value(node: &NodeDesc) -> Result<Result<Tensor, TensorError>, OpError> {
    let mut values = node.attrs.iter().filter(|(name, _)| name.contains("value"));
    let (Some((name, value)), None) = (values.next(), values.next()) else {
        return Err(OpError::invalid(node, "a constant needs exactly one value attribute"));
    };
    Ok(match (name.as_str(), value) {
        ("value", Attr::Tensor(tensor)) => Ok(tensor.clone()),
        ("value_int", Attr::Int(value)) => Ok(Tensor::scalar(*value)),
        ("value_ints", Attr::Ints(values)) => Tensor::from_slice([values.len()], values),
        ("value_float", Attr::Float(value)) => Ok(Tensor::scalar(*value)),
        ("value_floats", Attr::Floats(values)) => Tensor::from_slice([values.len()], values),
        ("value_string", Attr::Str(value)) => Tensor::from_strings([], vec![value.clone()]),
        ("value_strings", Attr::Strs(values)) => Tensor::from_strings([values.len()], values.clone()),
        _ => return Err(OpError::unsupported(node, format!("attribute {name}"))),
    })
}

impl InferByValue for Constant {
    fn infer(&self, _: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        Ok(Specs::from_elem(self.0.spec().clone(), 1))
    }
}

impl Node for Constant {
    fn family(&self) -> &'static str {
        "Constant"
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        Some(self)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        io.push(self.0.clone());
        Ok(())
    }
}

/// A tensor of the shape that the input names, one value everywhere.
struct Filled(Tensor);

fn make_filled(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let value = match cx.node.attrs.get("value") {
        None => Tensor::scalar(0f32),
        Some(Attr::Tensor(tensor)) if tensor.len() == 1 => tensor.clone(),
        Some(_) => return Err(OpError::invalid(cx.node, "value must be a tensor of one element")),
    };
    Ok(Box::new(Filled(value)))
}

/// Every element of the output is the one element of the source.
struct Fill;

impl Movement for Fill {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        if let Some(value) = from.first().and_then(|values| values.first()) {
            memory::fill(to, value);
        }
        Ok(())
    }
}

impl Node for Filled {
    fn family(&self) -> &'static str {
        "ConstantOfShape"
    }

    fn value_inputs(&self) -> u64 {
        1
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let output = rearrange(&Fill, &[&self.0], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, strings};

    #[test]
    fn a_constant_is_what_its_one_attribute_says() {
        Trial::new("Constant").int("value_int", 7).gives(&[], &[7i64]);
        Trial::new("Constant").ints("value_ints", &[1, 2]).gives(&[2], &[1i64, 2]);
        Trial::new("Constant").attr("value_float", Attr::Float(0.5)).gives(&[], &[0.5f32]);
        Trial::new("Constant").attr("value_floats", Attr::Floats(vec![0.5])).gives(&[1], &[0.5f32]);
        Trial::new("Constant").attr("value", Attr::Tensor(Tensor::scalar(3u8))).gives(&[], &[3u8]);
        Trial::new("Constant").text("value_string", "a").gives_strings(&[], &["a"]);
        Trial::new("Constant").is_refused("exactly one");
        Trial::new("Constant").int("value_int", 7).int("value_ints", 7).is_refused("exactly one");
        Trial::new("Constant").int("sparse_value", 7).is_refused("sparse_value");
    }

    #[test]
    fn shapes_are_filled_with_any_value() {
        Trial::new("ConstantOfShape").input(&[2], &[2i64, 1]).gives(&[2, 1], &[0f32, 0.0]);
        Trial::new("ConstantOfShape").input::<i64>(&[0], &[]).gives(&[], &[0f32]);
        let filled = |value| Trial::new("ConstantOfShape").attr("value", Attr::Tensor(value));
        filled(Tensor::from_slice([1], &[5i64]).unwrap()).input(&[1], &[3i64]).gives(&[3], &[5i64, 5, 5]);
        filled(strings(&[1], &["x"])).input(&[1], &[2i64]).gives_strings(&[2], &["x", "x"]);
        filled(Tensor::from_slice([2], &[5i64, 6]).unwrap()).input(&[1], &[3i64]).is_refused("one element");
    }

    #[test]
    fn impossible_shapes_are_refused_before_memory_is_asked_for() {
        Trial::new("ConstantOfShape").input(&[2], &[-1i64, 1]).is_refused("no dimension");
        Trial::new("ConstantOfShape").input(&[2], &[1i64 << 40, 1 << 40]).is_refused("too large");
        Trial::new("ConstantOfShape").input(&[1], &[i64::MAX]).is_refused("too large");
        Trial::new("ConstantOfShape").input(&[1, 1], &[1i64]).is_refused("list of integers");
    }
}
