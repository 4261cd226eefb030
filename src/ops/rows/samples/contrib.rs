//! Samples of ONNX Runtime's own operators and of classical models.

use super::{Random, Sample, Value, floats, given};
use crate::graph::Attr;
use crate::tensor::{DType, Tensor, TensorSpec};

/// A tensor of zeros that is known.
fn zeros(dtype: DType, shape: &[usize]) -> Option<Value> {
    Some(Value::Known(Tensor::zeros(TensorSpec::new(dtype, shape.iter().copied())).ok()?))
}

/// A sample of that operator; none where there is none for it.
pub(super) fn of(op: &str, r: &mut Random) -> Option<Sample> {
    let (rows, steps, size) = (1 + r.below(3), 1 + r.below(4), 1 + r.below(3));
    Some(match op {
        "RotaryEmbedding" => {
            let heads = 1 + r.below(2);
            let shape = if r.flag() { vec![rows, heads, steps, 4] } else { vec![rows, steps, heads * 4] };
            let ids = zeros(DType::I64, &if r.flag() { vec![1] } else { vec![rows, steps] })?;
            let angles = || floats(&[8, 2]);
            let attrs = vec![("num_heads", Attr::Int(heads as i64))];
            Sample::new(vec![floats(&shape), ids, angles(), angles()], attrs).of_version(1)
        }
        "DynamicQuantizeLSTM" => {
            let (units, (direction, count)) =
                (1 + r.below(3), r.pick(&[("forward", 1), ("reverse", 1), ("bidirectional", 2)]));
            let bytes = |shape: &[usize]| zeros(DType::I8, shape);
            let mut inputs = vec![floats(&[steps, rows, size]), bytes(&[count, size, 4 * units])?];
            inputs.push(bytes(&[count, units, 4 * units])?);
            inputs.extend((0..5).map(|_| Value::Absent));
            for _ in 0..2 {
                inputs.extend([zeros(DType::F32, &[count])?, bytes(&[count])?]);
            }
            Sample::new(inputs, vec![("direction", direction.into())]).with_outputs(3).of_version(1)
        }
        "Scaler" => Sample::new(vec![given(DType::F32, &[rows, size])], vec![]).of_version(1),
        "TreeEnsembleRegressor" | "TreeEnsembleClassifier" => {
            let (of, classes) = if op == "TreeEnsembleRegressor" { ("target", 1) } else { ("class", 1 + r.below(3)) };
            let ints = |values: &[i64]| Attr::Ints(values.to_vec());
            let texts = |values: &[&str]| Attr::Strs(values.iter().map(|&value| value.to_owned()).collect());
            // One test of the last feature.
            let mut attrs = vec![
                ("nodes_treeids", ints(&[0; 3])),
                ("nodes_nodeids", ints(&[0, 1, 2])),
                ("nodes_featureids", ints(&[size as i64 - 1, 0, 0])),
                ("nodes_truenodeids", ints(&[1, 0, 0])),
                ("nodes_falsenodeids", ints(&[2, 0, 0])),
                ("nodes_values", Attr::Floats(vec![0.5, 0.0, 0.0])),
                ("nodes_modes", texts(&["BRANCH_LEQ", "LEAF", "LEAF"])),
            ];
            let names: [&str; 4] = match of {
                "target" => ["target_treeids", "target_nodeids", "target_ids", "target_weights"],
                _ => ["class_treeids", "class_nodeids", "class_ids", "class_weights"],
            };
            attrs.extend([(names[0], ints(&[0, 0])), (names[1], ints(&[1, 2])), (names[2], ints(&[0, 0]))]);
            attrs.push((names[3], Attr::Floats(vec![0.25, 0.75])));
            if of == "class" {
                attrs.push(match r.flag() {
                    true => ("classlabels_strings", texts(&["a", "b", "c"][..classes])),
                    false => ("classlabels_int64s", ints(&[5, 6, 7][..classes])),
                });
            }
            let outputs = if of == "class" { 2 } else { 1 };
            Sample::new(vec![floats(&[rows, size])], attrs).with_outputs(outputs).of_version(3)
        }
        _ => return None,
    })
}
