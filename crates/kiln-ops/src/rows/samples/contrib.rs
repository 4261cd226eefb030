//! Samples of ONNX Runtime's own operators and of classical models.

use kiln_model::Attr;
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::{Random, Sample, Value, floats, given};

/// A tensor of zeros that is known.
fn zeros(dtype: DType, shape: &[usize]) -> Option<Value> {
    Some(Value::Known(Tensor::zeros(TensorSpec::new(dtype, shape.iter().copied())).ok()?))
}

/// A sample of that operator; `None` where there is no sample for it.
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
        "MRotaryEmbedding" => {
            let heads = 1 + r.below(2);
            let shape = if r.flag() { vec![rows, heads, steps, 6] } else { vec![rows, steps, heads * 6] };
            let ids = zeros(DType::I64, &[3, rows, steps])?;
            let angles = || floats(&[8, 3]);
            let attrs = vec![("num_heads", Attr::Int(heads as i64)), ("mrope_section", Attr::Ints(vec![1; 3]))];
            Sample::new(vec![floats(&shape), ids, angles(), angles()], attrs).of_version(1)
        }
        "CausalConvWithState" => {
            let (last, window, apart) = (r.flag(), r.below(3), 1 + r.below(2));
            let (taps, tail) = (1 + r.below(3), [size, 2]);
            let ints = [("channels_last", usize::from(last)), ("state_window", window), ("dilation", apart)];
            let attrs = ints.map(|(name, value)| (name, Attr::Int(value as i64))).to_vec();
            let input = if last { vec![rows, steps, tail[0], tail[1]] } else { vec![rows, size, steps] };
            let channels = if last { 2 * size } else { size };
            let weights = floats(&[channels, 1, taps]);
            Sample::new(vec![floats(&input), weights], attrs).with_outputs(2).of_version(1)
        }
        "VarlenCausalConvWithState" => {
            let (taps, apart, wanted) = (1 + r.below(3), 1 + r.below(2), 2 + r.below(2));
            let ends = Value::Known(Tensor::from_vec([3], vec![0, steps as i32 - 1, steps as i32]).ok()?);
            let state = floats(&[2, size, (taps - 1) * apart]);
            let inputs = vec![floats(&[steps, size]), floats(&[size, 1, taps]), ends, Value::Absent, state];
            let attrs = vec![("dilation", Attr::Int(apart as i64))];
            Sample::new(inputs, attrs).with_outputs(wanted).of_version(1)
        }
        "GatedDeltaNet" => {
            let (keys, key, value, wanted) = (1 + r.below(2), 1 + r.below(9), 1 + r.below(3), 1 + r.below(3));
            let heads = keys * (1 + r.below(2));
            let state = floats(&[rows, heads, value, key]);
            let mut inputs = match r.below(3) {
                0 => vec![floats(&[rows * steps, 2 * keys * key + heads * value]), Value::Absent, Value::Absent],
                1 => {
                    let lead = |heads: usize, size: usize| floats(&[rows * steps, heads, size]);
                    vec![lead(keys, key), lead(keys, key), lead(heads, value)]
                }
                _ => {
                    let lead = |heads: usize, size: usize| floats(&[rows, steps, heads, size]);
                    vec![lead(keys, key), lead(keys, key), lead(heads, value)]
                }
            };
            inputs.extend([Value::Absent, Value::Absent, Value::Absent, state]);
            let mut attrs = vec![("update_rule", "linear".into())];
            if wanted > 2 {
                attrs.push(("state_update_capacity", Attr::Int(2)));
                inputs.extend([Value::Absent, Value::Absent, zeros(DType::I32, &[rows])?]);
            }
            Sample::new(inputs, attrs).with_outputs(wanted).of_version(1)
        }
        "BranchwiseRMSNorm" | "HyperConnectionPreMix" | "HyperConnectionPostMix" => {
            let (branches, is_flat) = (1 + r.below(3), r.flag());
            let shape = |last: &[usize]| floats(&[&[rows, steps], last].concat());
            let last = if is_flat { vec![branches * size] } else { vec![branches, size] };
            let attrs = vec![("num_branches", Attr::Int(if is_flat { branches as i64 } else { 0 }))];
            let gates = shape(&r.pick(&[vec![branches], vec![branches, 1], vec![branches, size]]));
            let inputs = match op {
                "BranchwiseRMSNorm" => vec![shape(&last), floats(&[size])],
                "HyperConnectionPreMix" => vec![shape(&last), gates],
                _ => vec![shape(&last), shape(&[size]), gates, shape(&[branches, branches])],
            };
            Sample::new(inputs, attrs).of_version(1)
        }
        "SparseAttention" => {
            let (kv_heads, pairs, room) = (1 + r.below(2), 1 + r.below(2), 32);
            let heads = kv_heads * (1 + r.below(2));
            let hidden = |heads: usize| floats(&[rows, steps, heads * 2 * pairs]);
            let mut inputs = match r.flag() {
                true => vec![hidden(heads + 2 * kv_heads), Value::Absent, Value::Absent],
                false => vec![hidden(heads), hidden(kv_heads), hidden(kv_heads)],
            };
            inputs.extend((0..2).map(|_| floats(&[rows, kv_heads, room, 2 * pairs])));
            let list = |shape: &[usize], values: &[i32]| {
                Some(Value::Known(Tensor::from_slice(shape.iter().copied(), values).ok()?))
            };
            inputs.extend([list(&[1, 3], &[0, 1, 3])?, list(&[1, 3], &[0, 0, 1])?]);
            inputs.extend([list(&[1], &[20])?, list(&[rows], &vec![20; rows])?]);
            let ints = [("num_heads", heads), ("kv_num_heads", kv_heads), ("sparse_block_size", 16)];
            let attrs = ints.map(|(name, value)| (name, Attr::Int(value as i64))).to_vec();
            Sample::new(inputs, attrs).with_outputs(3).of_version(1)
        }
        "EngramGate" => {
            let branches = 1 + r.below(3);
            let streams = || floats(&[rows, steps, branches, size]);
            let mut inputs = vec![streams(), streams(), floats(&[rows, steps, size])];
            inputs.extend((0..3).map(|_| floats(&[branches, size])));
            Sample::new(inputs, vec![]).with_outputs(1 + r.below(2)).of_version(1)
        }
        "MoEGroupRouter" => {
            let (groups, each) = (1 + r.below(3), 1 + r.below(3));
            let experts = groups * each;
            let attrs = vec![("top_k", Attr::Int(1)), ("n_group", Attr::Int(groups as i64))];
            Sample::new(vec![floats(&[rows, steps, experts]), floats(&[experts])], attrs).of_version(1)
        }
        "NGramRepeatBlock" => {
            let inputs = vec![given(DType::I64, &[rows, steps]), floats(&[rows, 1 + size])];
            Sample::new(inputs, vec![("ngram_size", Attr::Int(size as i64))]).of_version(1)
        }
        "MurmurHash3" => {
            let attrs = vec![("positive", Attr::Int(i64::from(r.flag())))];
            Sample::new(vec![given(r.pick(&[DType::I32, DType::F64]), &[rows, steps])], attrs).of_version(1)
        }
        "UnfoldTensor" => {
            let axis = r.below(3);
            let attrs = [("dim", axis as i64), ("size", 1 + r.below(2) as i64), ("step", 1 + r.below(2) as i64)];
            let attrs = attrs.into_iter().map(|(name, value)| (name, Attr::Int(value))).collect();
            let mut shape = [rows, steps, size];
            shape[axis] += 2;
            Sample::new(vec![floats(&shape)], attrs).of_version(1)
        }
        "CropAndResize" => {
            let crop = Value::Known(Tensor::from_vec([2], vec![size as i32, 1 + r.below(3) as i32]).ok()?);
            let boxes = vec![floats(&[rows, 2, 3, steps]), floats(&[size, 4]), given(DType::I32, &[size]), crop];
            Sample::new(boxes, vec![]).of_version(1)
        }
        "Inverse" => {
            let own = (0..rows * size * size).map(|at| f32::from(at % (size * size) % (size + 1) == 0));
            let stack = Tensor::from_vec([rows, size, size], own.collect::<Vec<f32>>()).ok()?;
            Sample::new(vec![Value::Given(stack)], vec![]).of_version(1)
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
        "GroupQueryAttention" => {
            let (kv_heads, past, pairs) = (1 + r.below(2), r.below(4), 1 + r.below(2));
            let heads = kv_heads * (1 + r.below(2));
            let attrs = ["num_heads", "kv_num_heads"].into_iter().zip([heads, kv_heads]);
            let attrs = attrs.map(|(name, count)| (name, Attr::Int(count as i64))).collect();
            let (size, total) = (2 * pairs, past + steps);
            let hidden = |heads: usize| floats(&[rows, steps, heads * size]);
            let mut inputs = match r.flag() {
                true => vec![hidden(heads + 2 * kv_heads), Value::Absent, Value::Absent],
                false => vec![hidden(heads), hidden(kv_heads), hidden(kv_heads)],
            };
            let cache = || if past > 0 { floats(&[rows, kv_heads, past, size]) } else { Value::Absent };
            inputs.extend([cache(), cache()]);
            inputs.push(Value::Known(Tensor::from_vec([rows], vec![total as i32 - 1; rows]).ok()?));
            inputs.push(Value::Known(Tensor::scalar(total as i32)));
            Sample::new(inputs, attrs).with_outputs(3).of_version(1)
        }
        "SVMRegressor" => {
            let attrs = vec![("coefficients", Attr::Floats(vec![0.5; size])), ("rho", Attr::Floats(vec![0.25]))];
            Sample::new(vec![floats(&[rows, size])], attrs).of_version(1)
        }
        "SVMClassifier" => {
            let (classes, numbers) = (2 + r.below(3), |count: usize| Attr::Floats(vec![0.5; count]));
            let pairs = classes * (classes - 1) / 2;
            let mut attrs = vec![
                ("classlabels_ints", Attr::Ints((0..classes as i64).collect())),
                ("vectors_per_class", Attr::Ints(vec![1; classes])),
                ("support_vectors", numbers(classes * size)),
                ("coefficients", numbers(classes * (classes - 1))),
                ("rho", numbers(pairs)),
            ];
            if r.flag() {
                attrs.extend([("prob_a", numbers(pairs)), ("prob_b", numbers(pairs))]);
            }
            Sample::new(vec![floats(&[rows, size])], attrs).with_outputs(2).of_version(1)
        }
        "MatMulNBits" => {
            let (k, bits, block) = (1 + r.below(40), r.pick(&[2usize, 4, 8]), r.pick(&[16usize, 32]));
            let (n, blocks) = (1 + r.below(9), k.div_ceil(block));
            let ints = [("K", k), ("N", n), ("bits", bits), ("block_size", block)];
            let attrs = ints.map(|(name, value)| (name, Attr::Int(value as i64))).to_vec();
            let weights = zeros(DType::U8, &[n, blocks, block * bits / 8])?;
            let mut inputs = vec![floats(&[rows, steps, k]), weights, zeros(DType::F32, &[n * blocks])?];
            if r.flag() {
                inputs.push(zeros(DType::U8, &[n * (blocks * bits).div_ceil(8)])?);
            }
            Sample::new(inputs, attrs).of_version(1)
        }
        "MoE" => {
            let (experts, inner) = (1 + r.below(4), 1 + r.below(9));
            let shape = if r.flag() { vec![rows, size] } else { vec![rows, steps, size] };
            let router = [shape[..shape.len() - 1].iter().product(), experts];
            let mut inputs = vec![floats(&shape), floats(&router), floats(&[experts, inner, size]), Value::Absent];
            inputs.push(floats(&[experts, size, inner]));
            Sample::new(inputs, vec![("k", Attr::Int(1 + r.below(experts) as i64))]).of_version(1)
        }
        "QMoE" => {
            let (experts, bits, size, inner) = (1 + r.below(4), r.pick(&[2usize, 4, 8]), 8 * (1 + r.below(5)), 16);
            let shape = if r.flag() { vec![rows, size] } else { vec![rows, steps, size] };
            let router = [shape[..shape.len() - 1].iter().product(), experts];
            let mut inputs = vec![floats(&shape), floats(&router)];
            for [n, k] in [[inner, size], [size, inner]] {
                inputs.extend([zeros(DType::U8, &[experts, n, k * bits / 8])?, zeros(DType::F32, &[experts, n])?]);
                inputs.push(Value::Absent);
            }
            Sample::new(inputs, vec![("expert_weight_bits", Attr::Int(bits as i64))]).of_version(1)
        }
        "GatherBlockQuantized" => {
            let (bits, block) = (r.pick(&[2usize, 4, 8]), 16 << r.below(2));
            let (count, per_byte) = (8 * (1 + r.below(6)), 8 / bits);
            let lead = if r.flag() { vec![size] } else { vec![size, steps] };
            let shape = |last: usize| [&lead[..], &[last]].concat();
            let blocks = count.div_ceil(block);
            let indices = if r.flag() { vec![rows] } else { vec![rows, steps] };
            let ints = [("bits", bits), ("block_size", block), ("quantize_axis", lead.len())];
            let attrs = ints.map(|(name, value)| (name, Attr::Int(value as i64))).to_vec();
            let data = zeros(DType::U8, &shape(count / per_byte))?;
            let mut inputs = vec![data, given(DType::I64, &indices), zeros(DType::F32, &shape(blocks))?];
            if r.flag() {
                inputs.push(zeros(DType::U8, &shape(blocks.div_ceil(per_byte)))?);
            }
            Sample::new(inputs, attrs).of_version(1)
        }
        "MatMulBnb4" => {
            let (k, n) = (16 * (1 + r.below(4)), 1 + r.below(9));
            let ints = [("K", k), ("N", n), ("quant_type", r.below(2)), ("block_size", 16)];
            let attrs = ints.map(|(name, value)| (name, Attr::Int(value as i64))).to_vec();
            let (weights, scales) = (zeros(DType::U8, &[n * k / 2])?, zeros(DType::F32, &[n * k / 16])?);
            Sample::new(vec![floats(&[rows, k]), weights, scales], attrs).of_version(1)
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
