//! Coefficients of linear models that their declared input leaves unread. ONNX Runtime multiplies by as many of the first
//! ones as the input has features; its example `logreg_iris.onnx` has twice as many.

use std::collections::HashMap;

use super::proto::{NodeProto, ValueInfoProto};
use super::{declared_dims, opsets};
use crate::ir::Dim;

/// Cuts off the coefficients of LinearClassifier and LinearRegressor beyond those that an input of the graph with
/// declared features reads.
pub(super) fn cut(nodes: &mut [NodeProto], inputs: &[ValueInfoProto]) {
    let is_linear = |node: &NodeProto| {
        opsets::normal(node.domain()) == "ai.onnx.ml"
            && ["LinearClassifier", "LinearRegressor"].contains(&node.op_type())
    };
    let mut widths: Option<HashMap<&str, usize>> = None;
    for node in nodes.iter_mut().filter(|node| is_linear(node)) {
        let widths = widths.get_or_insert_with(|| inputs.iter().filter_map(width).collect());
        let Some(&width) = node.input.first().and_then(|name| widths.get(name.as_str())) else { continue };
        let rows = rows(node);
        for attribute in node.attribute.iter_mut().filter(|attribute| attribute.name() == "coefficients") {
            if rows > 0 && attribute.floats.len().is_multiple_of(rows) {
                attribute.floats.truncate(rows.saturating_mul(width));
            }
        }
    }
}

/// An input whose last dimension is declared.
fn width(info: &ValueInfoProto) -> Option<(&str, usize)> {
    match declared_dims(info)?.last()? {
        Dim::Fixed(size) if *size > 0 => Some((info.name(), *size)),
        _ => None,
    }
}

/// The rows of coefficients: one for each intercept, class or target.
fn rows(node: &NodeProto) -> usize {
    let attribute = |name: &str| node.attribute.iter().find(|attribute| attribute.name() == name);
    let lists = ["intercepts", "classlabels_ints", "classlabels_strings"].into_iter().filter_map(attribute);
    let mut counts = lists.map(|list| list.floats.len().max(list.ints.len()).max(list.strings.len()));
    let targets = || attribute("targets").map_or(1, |targets| usize::try_from(targets.i()).unwrap_or(0));
    counts.find(|&count| count > 0).unwrap_or_else(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{ValueInfo, ValueKind};
    use crate::onnx::declare::declaration;
    use crate::onnx::draft::{floats, int, ints};

    /// The coefficients that are left of 0 to 11, of a node over an input of this many features.
    fn left(op: &str, features: Dim, attribute: Vec<super::super::proto::AttributeProto>) -> usize {
        let all: Vec<f32> = (0..12u8).map(f32::from).collect();
        let mut node = NodeProto {
            domain: Some("ai.onnx.ml".to_owned()),
            op_type: Some(op.to_owned()),
            input: vec!["x".to_owned()],
            attribute,
            ..NodeProto::default()
        };
        node.attribute.push(floats("coefficients", &all));
        let dims = Some(vec![Dim::Any, features]);
        let info = ValueInfo { name: "x".to_owned(), kind: ValueKind::Tensor, dims, ..ValueInfo::default() };
        cut(std::slice::from_mut(&mut node), &[declaration(&info)]);
        let found = &node.attribute.last().expect("the coefficients").floats;
        assert_eq!(*found, all[..found.len()]);
        found.len()
    }

    #[test]
    fn rows_of_a_declared_input_s_features_are_left() {
        let three = || vec![floats("intercepts", &[0.0; 3])];
        assert_eq!(left("LinearClassifier", Dim::Fixed(2), three()), 6);
        assert_eq!(left("LinearClassifier", Dim::Fixed(4), three()), 12);
        assert_eq!(left("LinearClassifier", Dim::Fixed(5), three()), 12);
        assert_eq!(left("LinearClassifier", Dim::Any, three()), 12);
        assert_eq!(left("LinearClassifier", Dim::Fixed(2), vec![ints("classlabels_ints", &[1, 2])]), 4);
        assert_eq!(left("LinearRegressor", Dim::Fixed(2), vec![int("targets", 2)]), 4);
        assert_eq!(left("LinearRegressor", Dim::Fixed(7), vec![]), 7);
        assert_eq!(left("LinearRegressor", Dim::Fixed(2), vec![int("targets", -1)]), 12);
        assert_eq!(left("Scaler", Dim::Fixed(2), three()), 12);
    }
}
