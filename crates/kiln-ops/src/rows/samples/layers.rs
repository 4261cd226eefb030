//! Samples of operators with several inputs that belong together: attention, states, quantised products, places in
//! images, tables.

use kiln_model::Attr;
use kiln_tensor::{DType, Tensor};

use super::{Random, Sample, Value, floats, given, ints, known};
use crate::trial::onnx_code;

fn scale() -> Value {
    Value::Known(Tensor::scalar(0.5f32))
}

fn zero() -> Value {
    Value::Known(Tensor::scalar(1u8))
}

fn number(value: i64) -> Value {
    Value::Known(Tensor::scalar(value))
}

fn bytes(shape: &[usize]) -> Value {
    given(DType::U8, shape)
}

fn int(value: usize) -> Attr {
    Attr::Int(value as i64)
}

/// Sizes as a list that is known.
fn sizes(shape: &[usize]) -> Value {
    ints(&shape.iter().map(|&size| size as i64).collect::<Vec<_>>())
}

/// A sample of that operator of any domain; `None` where there is no sample for it.
pub(super) fn of(op: &str, r: &mut Random) -> Option<Sample> {
    sequences(op, r).or_else(|| quantized(op, r)).or_else(|| images(op, r)).or_else(|| others(op, r))
}

fn sequences(op: &str, r: &mut Random) -> Option<Sample> {
    let (batch, steps, size, width) = (1 + r.below(3), 1 + r.below(4), 1 + r.below(3), 1 + r.below(3));
    let heads = 1 + r.below(2);
    let queries = heads * (1 + r.below(2));
    Some(match op {
        "Attention" => {
            let keys = 1 + r.below(4);
            let mut attrs = Vec::new();
            let mut inputs = match r.flag() {
                true => vec![
                    floats(&[batch, queries, steps, size]),
                    floats(&[batch, heads, keys, size]),
                    floats(&[batch, heads, keys, width]),
                ],
                false => {
                    attrs.extend([("q_num_heads", int(queries)), ("kv_num_heads", int(heads))]);
                    vec![
                        floats(&[batch, steps, queries * size]),
                        floats(&[batch, keys, heads * size]),
                        floats(&[batch, keys, heads * width]),
                    ]
                }
            };
            if r.flag() {
                let past = 1 + r.below(3);
                inputs.push(Value::Absent);
                inputs.extend([floats(&[batch, heads, past, size]), floats(&[batch, heads, past, width])]);
            }
            Sample::new(inputs, attrs).with_outputs(1 + r.below(4))
        }
        "LinearAttention" => {
            let shape = |size: usize| floats(&[batch, steps, size]);
            let attrs =
                vec![("q_num_heads", int(queries)), ("kv_num_heads", int(heads)), ("update_rule", "linear".into())];
            let inputs = vec![shape(queries * size), shape(heads * size), shape(heads * width)];
            Sample::new(inputs, attrs).with_outputs(2)
        }
        "CausalConvWithState" => {
            Sample::new(vec![floats(&[batch, size, steps]), floats(&[size, 1, width])], vec![]).with_outputs(2)
        }
        "Einsum" => {
            let [i, j, k] = [batch, steps, size];
            let (equation, shapes): (&str, Vec<Vec<usize>>) = r.pick(&[
                ("ij,jk->ik", vec![vec![i, j], vec![j, k]]),
                ("bij,bkj->bik", vec![vec![width, i, j], vec![width, k, j]]),
                ("...ij->...ji", vec![vec![k, i, j]]),
                ("ii->i", vec![vec![i, i]]),
                ("i,j", vec![vec![i], vec![j]]),
                ("ij->", vec![vec![i, j]]),
            ]);
            Sample::new(shapes.iter().map(|shape| floats(shape)).collect(), vec![("equation", equation.into())])
        }
        "Det" => Sample::new(vec![floats(&[batch, size, size])], vec![]),
        "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss" => {
            let reduction = r.pick(&["none", "sum", "mean"]);
            let outputs = if op == "SoftmaxCrossEntropyLoss" { 1 + r.below(2) } else { 1 };
            let inputs = vec![floats(&[batch, size, steps]), given(DType::I64, &[batch, steps])];
            Sample::new(inputs, vec![("reduction", reduction.into())]).with_outputs(outputs)
        }
        _ => return None,
    })
}

fn quantized(op: &str, r: &mut Random) -> Option<Sample> {
    let (batch, channels, filters, side) = (1 + r.below(3), 1 + r.below(3), 1 + r.below(3), 3 + r.below(4));
    let (x, weights) = ([batch, channels, side, side], [filters, channels, 2, 2]);
    let steps = ("strides", Attr::Ints(vec![1 + r.below(2) as i64; 2]));
    Some(match op {
        "ConvInteger" => {
            let weights = Value::Known(Tensor::zeros(kiln_tensor::TensorSpec::new(DType::U8, weights)).ok()?);
            Sample::new(vec![bytes(&x), weights], vec![steps])
        }
        "QLinearConv" => {
            let inputs = vec![bytes(&x), scale(), zero(), bytes(&weights), scale(), zero(), scale(), zero()];
            Sample::new(inputs, vec![steps])
        }
        "QLinearMatMul" => {
            let (a, b) = ([batch, channels, side], [side, filters]);
            Sample::new(vec![bytes(&a), scale(), zero(), bytes(&b), scale(), zero(), scale(), zero()], vec![])
        }
        "QGemm" => {
            let transposed = r.flag();
            let b = if transposed { [filters, side] } else { [side, filters] };
            let mut inputs = vec![bytes(&[batch, side]), scale(), zero(), bytes(&b), scale(), zero()];
            if r.flag() {
                inputs.extend([Value::Absent, scale(), zero()]);
            }
            Sample::new(inputs, vec![("transB", Attr::Int(i64::from(transposed)))]).of_version(1)
        }
        "QLinearAdd" => {
            let part = r.part_of(&x);
            let mut inputs = vec![bytes(&x), scale(), zero(), bytes(&part), scale(), zero(), scale()];
            if r.flag() {
                inputs.push(zero());
            }
            Sample::new(inputs, vec![]).of_version(1)
        }
        "QLinearGlobalAveragePool" => {
            let last = ("channels_last", Attr::Int(i64::from(r.flag())));
            Sample::new(vec![bytes(&x), scale(), zero(), scale(), zero()], vec![last]).of_version(1)
        }
        _ => return None,
    })
}

fn images(op: &str, r: &mut Random) -> Option<Sample> {
    let (batch, channels, count) = (1 + r.below(3), 1 + r.below(3), 1 + r.below(3));
    let (height, width) = (2 + r.below(4), 2 + r.below(4));
    let image = [batch, channels, height, width];
    Some(match op {
        "DeformConv" => {
            let offsets = [batch, 8, height - 1, width - 1];
            Sample::new(vec![floats(&image), known(&[count, channels, 2, 2]), floats(&offsets)], vec![])
        }
        "GridSample" => Sample::new(vec![floats(&image), floats(&[batch, count, 3, 2])], vec![]),
        "AffineGrid" => Sample::new(vec![floats(&[batch, 2, 3]), sizes(&image)], vec![]),
        "RoiAlign" => {
            let bins = vec![("output_height", int(count)), ("output_width", int(2))];
            Sample::new(vec![floats(&image), floats(&[count, 4]), given(DType::I64, &[count])], bins)
        }
        "MaxRoiPool" => {
            let bins = vec![("pooled_shape", [count as i64, 2].into())];
            // Regions of the first image.
            let regions = Tensor::from_vec([count, 5], [0f32, 0.0, 0.0, 1.0, 1.0].repeat(count)).expect("five each");
            Sample::new(vec![floats(&image), Value::Given(regions)], bins)
        }
        "MaxUnpool" => {
            let attrs = vec![("kernel_shape", [2, 2].into()), ("strides", [2, 2].into())];
            let mut inputs = vec![floats(&image), given(DType::I64, &image)];
            if r.flag() {
                inputs.push(sizes(&[batch, channels, 2 * height + 1, 2 * width]));
            }
            Sample::new(inputs, attrs)
        }
        "CenterCropPad" => match r.flag() {
            true => Sample::new(vec![floats(&image), sizes(&r.shape(4))], vec![]),
            false => Sample::new(vec![floats(&image), sizes(&r.shape(2))], vec![("axes", [3, -2].into())]),
        },
        "Col2Im" => {
            let columns = [batch, channels * 4, (height - 1) * (width - 1)];
            Sample::new(vec![floats(&columns), sizes(&[height, width]), sizes(&[2, 2])], vec![])
        }
        _ => return None,
    })
}

fn others(op: &str, r: &mut Random) -> Option<Sample> {
    let shape = r.any_shape(1..4);
    let list = |values: &[i64]| Attr::Ints(values.to_vec());
    Some(match op {
        "BitCast" => Sample::new(vec![floats(&shape)], vec![("to", onnx_code(DType::I32).into())]),
        "GatherND" => Sample::new(vec![floats(&shape), given(DType::I64, &[1 + r.below(3), 1])], vec![]),
        "RandomUniform" | "RandomNormal" => {
            let sizes = shape.iter().map(|&size| size as i64).collect();
            Sample::new(vec![], vec![("shape", Attr::Ints(sizes)), ("dtype", onnx_code(DType::F64).into())])
        }
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => Sample::new(vec![number(1 + r.below(9) as i64)], vec![]),
        "ArrayFeatureExtractor" => {
            Sample::new(vec![floats(&shape), given(DType::I64, &[1, 1 + r.below(3)])], vec![]).of_version(1)
        }
        "TfIdfVectorizer" => {
            let attrs = vec![
                ("mode", "TF".into()),
                ("min_gram_length", Attr::Int(1)),
                ("max_gram_length", Attr::Int(1)),
                ("max_skip_count", Attr::Int(0)),
                ("ngram_counts", list(&[0])),
                ("ngram_indexes", list(&[0, 2, 1])),
                ("pool_int64s", list(&[2, 3, 5])),
            ];
            Sample::new(vec![given(DType::I64, &r.any_shape(1..3))], attrs)
        }
        "TreeEnsemble" => {
            let tensor = |values: &[f32]| Tensor::from_slice([values.len()], values).map(Attr::Tensor).ok();
            let attrs = vec![
                ("nodes_modes", Attr::Tensor(Tensor::from_slice([1], &[0u8]).ok()?)),
                ("nodes_splits", tensor(&[2.0])?),
                ("leaf_weights", tensor(&[10.0, 20.0])?),
                ("leaf_targetids", list(&[0, 0])),
                ("nodes_featureids", list(&[0])),
                ("nodes_trueleafs", list(&[1])),
                ("nodes_truenodeids", list(&[0])),
                ("nodes_falseleafs", list(&[1])),
                ("nodes_falsenodeids", list(&[1])),
                ("tree_roots", list(&[0])),
                ("n_targets", int(1 + r.below(3))),
            ];
            Sample::new(vec![floats(&r.shape(2))], attrs).of_version(5)
        }
        _ => return None,
    })
}
