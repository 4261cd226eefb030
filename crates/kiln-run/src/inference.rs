//! Types and shapes of a node's outputs when it runs.
//!
//! They follow from the rule that passes use at load ([`operators`]): there it is evaluated on symbols, and here on the
//! numbers of a request. Only operators whose shapes depend on the contents of their inputs have no rule; their nodes
//! find the shapes themselves ([`InferByValue`](super::node::InferByValue)). In [`Node::check`], a node refuses inputs
//! that its rule lets through and it cannot use.

use kiln_model::ir::NodeDesc;
#[cfg(doc)]
use kiln_model::operators;
use kiln_model::operators::Rule;
use kiln_tensor::{Tensor, TensorSpec};

use super::node::{Node, NodeError, Specs};

/// How the outputs of one node of a graph are inferred.
pub struct Inference(Option<Rule>);

impl Inference {
    /// The inference of a node as the graph describes it.
    #[must_use]
    pub fn of(desc: &NodeDesc) -> Inference {
        Inference(Rule::of(desc))
    }

    /// Types and shapes of the outputs of that node on these inputs.
    ///
    /// # Errors
    ///
    /// Inputs that the operator, or its node, does not take, and outputs whose elements cannot be counted.
    pub fn specs(&self, node: &dyn Node, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let specs = match (node.by_value(), &self.0) {
            (Some(own), _) => own.infer(inputs)?,
            (None, Some(rule)) => rule.specs(inputs).map_err(Box::new)?,
            (None, None) => return Err(NodeError::Unsupported(format!("{} without a rule", node.family()))),
        };
        specs.iter().try_for_each(|spec: &TensorSpec| spec.elements().map(drop))?;
        node.check(inputs, &specs)?;
        Ok(specs)
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::ir::Attr;
    use kiln_tensor::DType;

    use super::*;

    /// The rule's outputs of a node on inputs of these shapes, or on lists of integers.
    fn specs(op: &str, attrs: &[(&str, Attr)], inputs: &[Option<Tensor>]) -> Result<Vec<Vec<usize>>, String> {
        let attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        let desc = NodeDesc { op: op.to_owned(), version: 21, attrs, outputs: vec![None], ..NodeDesc::default() };
        let tensors: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        let specs = Rule::of(&desc).expect("a rule").specs(&tensors).map_err(|error| error.to_string())?;
        Ok(specs.iter().map(|spec| spec.shape.to_vec()).collect())
    }

    fn of(shape: &[usize]) -> Option<Tensor> {
        Some(Tensor::hollow(TensorSpec::new(DType::F32, shape.iter().copied())))
    }

    fn list(values: &[i64]) -> Option<Tensor> {
        Some(Tensor::from_slice([values.len()], values).expect("a list"))
    }

    #[test]
    fn outputs_follow_from_types_shapes_and_lists() {
        assert_eq!(specs("Add", &[], &[of(&[2, 1]), of(&[3])]), Ok(vec![vec![2, 3]]));
        assert_eq!(specs("Reshape", &[], &[of(&[2, 6]), list(&[0, -1, 3])]), Ok(vec![vec![2, 2, 3]]));
        assert_eq!(specs("Concat", &[("axis", Attr::Int(-1))], &[of(&[2, 1]), of(&[2, 3])]), Ok(vec![vec![2, 4]]));
        assert_eq!(specs("Tile", &[], &[of(&[2, 3]), list(&[2, 0])]), Ok(vec![vec![4, 0]]));
    }

    #[test]
    fn refusals_name_the_input_and_its_dimensions() {
        let cases: &[(&str, &[Option<Tensor>], &str)] = &[
            ("Add", &[of(&[2]), of(&[3])], "shape [3] does not broadcast with [2]"),
            ("Concat", &[of(&[2, 2]), of(&[3])], "input 1 of shape [3]: it does not join [2, 2] along axis 1"),
            ("Expand", &[of(&[2]), None], "input 1 is missing"),
            (
                "Expand",
                &[of(&[2]), of(&[2, 2])],
                "expected a list of integers, found a tensor of shape [2, 2] in input 1",
            ),
            ("Expand", &[of(&[2]), of(&[2])], "input 1 is of type float32, expected int64"),
            ("Reshape", &[of(&[2, 3]), list(&[4, -1])], "a tensor of shape [2, 3] cannot become [4, -1]"),
            ("Tile", &[of(&[4]), list(&[i64::MAX])], "output 0 would be of shape [?]"),
            ("Squeeze", &[of(&[2, 3]), list(&[1])], "input 0 of shape [2, 3]: axis 1 is not 1"),
            ("Gather", &[of(&[]), of(&[1])], "axis 0 does not exist in a tensor of rank 0"),
        ];
        for (op, inputs, expected) in cases {
            assert_eq!(specs(op, &[], inputs), Err((*expected).to_owned()), "{op}");
        }
    }

    #[test]
    fn contents_that_are_not_there_yet_are_not_guessed() {
        let target = Tensor::hollow(TensorSpec::new(DType::I64, [1]));
        let refusal = specs("Reshape", &[], &[of(&[2]), Some(target)]).expect_err("no target");
        assert!(refusal.contains("contents"), "{refusal}");
    }
}
