//! A node of any operator that has a rule for its dimensions, at random shapes and attributes.

mod contrib;
mod layers;

use kiln_model::Attr;
use kiln_model::NodeDesc;
use kiln_model::operators::attributes::Default as Otherwise;
use kiln_model::operators::row::{Broadcast, ElementWise, Operands, Operator, Takes};
use kiln_tensor::{DType, Tensor, TensorSpec};

use crate::trial::{onnx_code, strings};

/// The newest operator set that the table knows.
pub(super) const NEWEST: i64 = 28;

/// Numbers that are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: &str) -> Random {
        Random(seed.bytes().fold(0x9e37_79b9, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count.max(1)
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Sizes from 1 to 4.
    fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| 1 + self.below(4)).collect()
    }

    /// A shape of some rank.
    fn any_shape(&mut self, ranks: std::ops::Range<usize>) -> Vec<usize> {
        let rank = ranks.start + self.below(ranks.len());
        self.shape(rank)
    }

    /// An axis, from either end.
    fn axis(&mut self, rank: usize) -> i64 {
        let axis = self.below(rank) as i64;
        if self.flag() { axis - rank as i64 } else { axis }
    }

    /// Some of the axes, each once.
    fn axes(&mut self, rank: usize) -> Vec<i64> {
        let axes: Vec<i64> = (0..rank as i64).filter(|_| self.flag()).collect();
        axes.into_iter().map(|axis| if self.flag() { axis - rank as i64 } else { axis }).collect()
    }

    /// A single number, known when the model is loaded or when it runs.
    fn length(&mut self, value: usize) -> Value {
        let number = if self.flag() { Tensor::scalar(value as i64) } else { Tensor::scalar(value as i32) };
        if self.flag() { Value::Known(number) } else { Value::Given(number) }
    }

    /// Numbers between -2 and 2.
    pub(crate) fn floats(&mut self, shape: &[usize]) -> Tensor {
        let count = shape.iter().product();
        let values = (0..count).map(|_| self.below(4001) as f32 / 1000.0 - 2.0).collect();
        Tensor::from_vec(shape.iter().copied(), values).expect("as many as the shape says")
    }

    /// A shape that broadcasts to `whole`.
    fn part_of(&mut self, whole: &[usize]) -> Vec<usize> {
        let first = self.below(whole.len() + 1);
        whole[first..].iter().map(|&size| if self.below(3) == 0 { 1 } else { size }).collect()
    }
}

/// An input of a sample.
pub(super) enum Value {
    /// Left out.
    Absent,
    /// Known when the model is loaded.
    Known(Tensor),
    /// Known when it runs.
    Given(Tensor),
}

impl Value {
    pub(super) fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Absent => None,
            Value::Known(tensor) | Value::Given(tensor) => Some(tensor),
        }
    }
}

/// A node with its inputs.
pub(super) struct Sample {
    pub(super) version: i64,
    pub(super) inputs: Vec<Value>,
    pub(super) attrs: Vec<(&'static str, Attr)>,
    pub(super) outputs: usize,
}

impl Sample {
    fn new(inputs: Vec<Value>, attrs: Vec<(&'static str, Attr)>) -> Sample {
        Sample { version: NEWEST, inputs, attrs, outputs: 1 }
    }

    /// Its tensors, with numbers where floats are zeros.
    pub(super) fn filled(&self, random: &mut Random) -> Vec<Option<Tensor>> {
        let mut fill = |tensor: &Tensor| match tensor.as_slice::<f32>() {
            Ok(values) if values.iter().all(|&value| value == 0.0) => random.floats(tensor.shape()),
            _ => tensor.clone(),
        };
        self.inputs.iter().map(Value::tensor).map(|tensor| tensor.map(&mut fill)).collect()
    }

    fn with_outputs(self, outputs: usize) -> Sample {
        Sample { outputs, ..self }
    }

    fn of_version(self, version: i64) -> Sample {
        Sample { version, ..self }
    }
}

/// A default as an attribute of a node; `None` where there is no default.
pub(super) fn written(default: Otherwise, version: i64) -> Option<Attr> {
    Some(match default {
        Otherwise::Int(value) => Attr::Int(value),
        Otherwise::IntSince { version: since, before, now } => Attr::Int(if version < since { before } else { now }),
        Otherwise::Number(value) => Attr::Float(value),
        Otherwise::Text(text) => text.into(),
        Otherwise::TextSince { version: since, before, now } => if version < since { before } else { now }.into(),
        Otherwise::Choice(words) => words[0].into(),
        Otherwise::Required | Otherwise::RequiredBefore(_) | Otherwise::Absent | Otherwise::Word(_) => return None,
    })
}

fn ints(values: &[i64]) -> Value {
    Value::Known(Tensor::from_vec([values.len()], values.to_vec()).expect("a list"))
}

fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
    match dtype {
        DType::String => strings(shape, &vec!["a"; shape.iter().product()]),
        _ => Tensor::zeros(TensorSpec::new(dtype, shape.iter().copied())).expect("a small tensor"),
    }
}

fn given(dtype: DType, shape: &[usize]) -> Value {
    Value::Given(zeros(dtype, shape))
}

fn floats(shape: &[usize]) -> Value {
    given(DType::F32, shape)
}

fn known(shape: &[usize]) -> Value {
    Value::Known(zeros(DType::F32, shape))
}

/// The attributes that a node of that operator has to have.
pub(super) fn required(row: &Operator, node: &mut NodeDesc) {
    for attribute in row.attributes {
        if let Otherwise::Word(words) = attribute.default {
            node.attrs.insert(attribute.name.to_owned(), words[0].into());
        }
    }
}

/// A sample of that operator; `None` where there is no sample for it.
pub(super) fn of(row: &Operator, r: &mut Random) -> Option<Sample> {
    if let Some(own) = &row.element_wise {
        return Some(element_wise(row, own, r));
    }
    match row.domain {
        "" => moves(row.name, r)
            .or_else(|| along_axes(row.name, r))
            .or_else(|| products(row.name, r))
            .or_else(|| spatial(row.name, r))
            .or_else(|| layers::of(row.name, r)),
        "ai.onnx.ml" => tables(row.name, r).or_else(|| contrib::of(row.name, r)).or_else(|| layers::of(row.name, r)),
        "com.microsoft" => contrib::of(row.name, r).or_else(|| layers::of(row.name, r)),
        _ => None,
    }
}

fn element_wise(row: &Operator, own: &ElementWise, r: &mut Random) -> Sample {
    let dtypes: &[DType] = match own.takes {
        Takes::Any => &[DType::F32, DType::Bool, DType::I64, DType::String],
        Takes::Numbers => &[DType::F32, DType::F64, DType::I32, DType::U8, DType::F16],
        Takes::Integers => &[DType::U8, DType::U32, DType::U64],
        Takes::Floats => &[DType::F32, DType::F16, DType::BF16, DType::F64],
        Takes::Booleans => &[DType::Bool],
        Takes::Texts => &[DType::String],
        Takes::Comparable => &[DType::F32, DType::Bool, DType::I64, DType::String],
    };
    let dtype = if row.name == "Cast" { DType::F32 } else { r.pick(dtypes) };
    let whole = r.any_shape(0..5);
    let count = usize::from(row.inputs.most.unwrap_or(1 + r.below(4) as u8));
    // One operand has the whole shape, mostly.
    let longest = if own.broadcast == Broadcast::ToFirst { 0 } else { r.below(count) };
    let inputs = (0..count).map(|index| {
        let shape = match own.broadcast {
            Broadcast::Scalars if index > 0 => vec![],
            Broadcast::Scalars => whole.clone(),
            _ if index == longest => whole.clone(),
            _ => r.part_of(&whole),
        };
        let dtype = match own.operands {
            Operands::Condition if index == 0 => DType::Bool,
            Operands::Exponent if index == 1 => r.pick(&[dtype, DType::F32, DType::I64]),
            _ => dtype,
        };
        given(dtype, &shape)
    });
    let inputs = inputs.collect();
    let mut node = NodeDesc::default();
    required(row, &mut node);
    let mut attrs: Vec<(&'static str, Attr)> = Vec::new();
    for attribute in row.attributes {
        if let Otherwise::Word(words) | Otherwise::Choice(words) = attribute.default {
            attrs.push((attribute.name, r.pick(words).into()));
        }
    }
    if row.name == "Cast" {
        let to = r.pick(&[DType::F32, DType::Bool, DType::I64, DType::F16]);
        attrs.push(("to", onnx_code(to).into()));
    }
    Sample::new(inputs, attrs)
}

/// A list of small numbers that a graph computes shapes by, or any tensor.
fn data(r: &mut Random, ranks: std::ops::Range<usize>) -> (Value, Vec<usize>) {
    let shape = r.any_shape(ranks);
    if shape.len() == 1 && r.flag() {
        let values = (0..shape[0]).map(|_| r.below(9) as i64).collect::<Vec<_>>();
        return (ints(&values), shape);
    }
    (floats(&shape), shape)
}

fn moves(op: &str, r: &mut Random) -> Option<Sample> {
    Some(match op {
        "Identity" => Sample::new(vec![data(r, 0..4).0], vec![]),
        "Dropout" => Sample::new(vec![floats(&r.any_shape(0..4))], vec![]).with_outputs(1 + r.below(2)),
        "CastLike" => Sample::new(vec![floats(&r.any_shape(0..4)), given(DType::I32, &[1])], vec![]),
        "Shape" => {
            let (value, shape) = data(r, 0..5);
            let bound = |r: &mut Random| Attr::Int(r.below(2 * shape.len() + 2) as i64 - shape.len() as i64);
            let (start, end) = (bound(r), bound(r));
            let mut attrs = vec![("start", start)];
            if r.flag() {
                attrs.push(("end", end));
            }
            Sample::new(vec![value], attrs)
        }
        "Size" => Sample::new(vec![floats(&r.any_shape(0..5))], vec![]),
        "Reshape" => {
            let shape = r.shape(3);
            let flat = (shape[1] * shape[2]) as i64;
            let target =
                r.pick(&[vec![0, flat], vec![0, -1], vec![-1], vec![shape[0] as i64, 1, flat], vec![0, 0, 0, 1]]);
            Sample::new(vec![floats(&shape), ints(&target)], vec![])
        }
        "Flatten" => {
            let shape = r.any_shape(1..5);
            Sample::new(vec![floats(&shape)], vec![("axis", Attr::Int(r.below(shape.len() + 1) as i64))])
        }
        "Squeeze" => {
            let mut shape = r.any_shape(1..5);
            let axes = r.axes(shape.len());
            for &axis in &axes {
                let rank = shape.len() as i64;
                shape[axis.rem_euclid(rank) as usize] = 1;
            }
            if axes.is_empty() {
                return Some(Sample::new(vec![floats(&shape)], vec![]).of_version(11));
            }
            match r.flag() {
                true => Sample::new(vec![floats(&shape)], vec![("axes", Attr::Ints(axes))]).of_version(11),
                false => Sample::new(vec![floats(&shape), ints(&axes)], vec![]),
            }
        }
        "Unsqueeze" => {
            let (value, shape) = data(r, 0..3);
            let axes = if r.flag() { vec![0] } else { vec![-1, shape.len() as i64] };
            Sample::new(vec![value, ints(&axes)], vec![])
        }
        "Transpose" => {
            let shape = r.any_shape(1..5);
            let by = r.below(shape.len());
            let perm: Vec<i64> = (0..shape.len()).map(|axis| ((axis + by) % shape.len()) as i64).collect();
            let attrs = if r.flag() { vec![("perm", Attr::Ints(perm))] } else { vec![] };
            Sample::new(vec![floats(&shape)], attrs)
        }
        "Concat" => {
            if r.flag() {
                let lists = (0..1 + r.below(3)).map(|n| ints(&vec![n as i64; 1 + n])).collect();
                return Some(Sample::new(lists, vec![("axis", Attr::Int(0))]));
            }
            let shape = r.any_shape(1..5);
            let axis = r.axis(shape.len());
            let parts = (0..1 + r.below(3)).map(|_| {
                let mut part = shape.clone();
                part[axis.rem_euclid(shape.len() as i64) as usize] = 1 + r.below(3);
                floats(&part)
            });
            Sample::new(parts.collect(), vec![("axis", Attr::Int(axis))])
        }
        "Split" => {
            let mut shape = r.any_shape(1..4);
            let (axis, count) = (r.axis(shape.len()), 1 + r.below(3));
            let at = axis.rem_euclid(shape.len() as i64) as usize;
            shape[at] *= count;
            let size = (shape[at] / count) as i64;
            let mut inputs = vec![floats(&shape)];
            let mut attrs = vec![("axis", Attr::Int(axis))];
            match r.flag() {
                true => inputs.push(ints(&vec![size; count])),
                false => attrs.push(("num_outputs", Attr::Int(count as i64))),
            }
            Sample::new(inputs, attrs).with_outputs(count)
        }
        "Slice" => {
            let shape = r.any_shape(1..4);
            let axis = r.axis(shape.len());
            let bound = |r: &mut Random| r.below(11) as i64 - 5;
            let (start, end) = (bound(r), if r.flag() { i64::MAX } else { bound(r) });
            let mut inputs = vec![floats(&shape), ints(&[start]), ints(&[end]), ints(&[axis])];
            if r.flag() {
                inputs.push(ints(&[1]));
            }
            Sample::new(inputs, vec![])
        }
        "Pad" => {
            let shape = r.any_shape(1..4);
            let pads: Vec<i64> = (0..2 * shape.len()).map(|_| r.below(3) as i64).collect();
            Sample::new(vec![floats(&shape), ints(&pads)], vec![])
        }
        "Tile" => {
            let shape = r.any_shape(1..4);
            let repeats: Vec<i64> = shape.iter().map(|_| r.below(3) as i64).collect();
            Sample::new(vec![floats(&shape), ints(&repeats)], vec![])
        }
        "Expand" => {
            let whole = r.any_shape(0..4);
            let part = r.part_of(&whole);
            let target: Vec<i64> = whole.iter().map(|&size| size as i64).collect();
            Sample::new(vec![floats(&part), ints(&target)], vec![])
        }
        "Gather" => {
            let (value, shape) = data(r, 1..4);
            let axis = r.axis(shape.len());
            let indices = r.any_shape(0..3);
            let indices = if indices.len() < 2 && r.flag() { ints(&[0]) } else { given(DType::I64, &indices) };
            Sample::new(vec![value, indices], vec![("axis", Attr::Int(axis))])
        }
        "GatherElements" => {
            let shape = r.any_shape(1..4);
            let axis = r.axis(shape.len());
            Sample::new(vec![floats(&shape), given(DType::I64, &shape)], vec![("axis", Attr::Int(axis))])
        }
        "Scatter" | "ScatterElements" => {
            let shape = r.any_shape(1..4);
            let axis = r.axis(shape.len());
            let part: Vec<usize> = shape.iter().map(|_| 1).collect();
            let inputs = vec![floats(&shape), given(DType::I64, &part), floats(&part)];
            let version = if op == "Scatter" { 10 } else { NEWEST };
            Sample::new(inputs, vec![("axis", Attr::Int(axis))]).of_version(version)
        }
        "ScatterND" => {
            let shape = r.any_shape(1..4);
            Sample::new(vec![floats(&shape), given(DType::I64, &[1, 1]), floats(&[&[1], &shape[1..]].concat())], vec![])
        }
        "TensorScatter" => {
            let shape = r.shape(4);
            Sample::new(vec![floats(&shape), floats(&[shape[0], shape[1], 1, shape[3]])], vec![])
        }
        "Trilu" => Sample::new(vec![floats(&r.any_shape(2..5))], vec![("upper", Attr::Int(r.below(2) as i64))]),
        "EyeLike" => {
            let attrs = if r.flag() { vec![("dtype", onnx_code(DType::F64).into())] } else { vec![] };
            Sample::new(vec![floats(&r.shape(2))], attrs)
        }
        "ReverseSequence" => {
            let shape = r.any_shape(2..4);
            let lengths = Tensor::from_vec([shape[1]], vec![1i64; shape[1]]).expect("a list");
            Sample::new(vec![floats(&shape), Value::Given(lengths)], vec![])
        }
        "ConstantOfShape" => {
            let target: Vec<i64> = r.any_shape(0..4).iter().map(|&size| size as i64).collect();
            let value =
                if r.flag() { vec![("value", Attr::Tensor(Tensor::from_vec([1], vec![3i64]).ok()?))] } else { vec![] };
            Sample::new(vec![ints(&target)], value)
        }
        "Range" => {
            let (limit, is_known) = (r.below(5), r.flag());
            let number = |value: usize| match (limit % 2 == 0, is_known) {
                (true, true) => Value::Known(Tensor::scalar(value as i16)),
                (true, false) => Value::Given(Tensor::scalar(value as i64)),
                (false, true) => Value::Known(Tensor::scalar(half::f16::from_f64(value as f64))),
                (false, false) => Value::Given(Tensor::scalar(value as f32)),
            };
            Sample::new(vec![number(0), number(limit), number(1)], vec![])
        }
        "OneHot" => {
            let shape = r.any_shape(1..4);
            let axis = r.axis(shape.len() + 1);
            let depth = r.pick(&[Tensor::scalar(3i64), Tensor::scalar(3f32), Tensor::scalar(3u8)]);
            let depth = if r.flag() { Value::Known(depth) } else { Value::Given(depth) };
            Sample::new(vec![given(DType::I64, &shape), depth, floats(&[2])], vec![("axis", Attr::Int(axis))])
        }
        "Bernoulli" | "RandomUniformLike" | "RandomNormalLike" => {
            let attrs = if r.flag() { vec![("dtype", onnx_code(DType::F64).into())] } else { vec![] };
            Sample::new(vec![floats(&r.any_shape(0..4))], attrs)
        }
        "Multinomial" => {
            let shape = [1 + r.below(3), 1 + r.below(4)];
            Sample::new(vec![floats(&shape)], vec![("sample_size", Attr::Int(r.below(5) as i64))])
        }
        "DFT" => {
            let (mut shape, one_sided, inverse) = (r.any_shape(2..4), r.flag(), r.flag());
            // A half spectrum of one value stands for an empty signal.
            shape.iter_mut().for_each(|size| *size += 1);
            let axis = r.below(shape.len() - 1) as i64;
            *shape.last_mut()? = 1 + r.below(2);
            let mut inputs = vec![floats(&shape), r.length(3), Value::Known(Tensor::scalar(axis))];
            let flag = |on: bool| Attr::Int(i64::from(on));
            let mut attrs = vec![("onesided", flag(one_sided)), ("inverse", flag(inverse))];
            if r.flag() {
                inputs[1] = Value::Absent;
            }
            match r.flag() {
                true => Sample::new(inputs, attrs),
                false => {
                    attrs.push(("axis", Attr::Int(axis)));
                    inputs.truncate(2);
                    Sample::new(inputs, attrs).of_version(17)
                }
            }
        }
        "STFT" => {
            let samples = 4 + r.below(5);
            let mut shape = vec![1 + r.below(3), samples];
            if r.flag() {
                shape.push(1 + r.below(2));
            }
            let (step, length) = (r.length(2), 1 + r.below(4));
            let window = if r.flag() { floats(&[length]) } else { Value::Absent };
            let mut inputs = vec![floats(&shape), step, window];
            if r.flag() {
                inputs.push(r.length(length));
            }
            Sample::new(inputs, vec![("onesided", Attr::Int(r.below(2) as i64))])
        }
        "MelWeightMatrix" => {
            let number = |value: f32| Value::Known(Tensor::scalar(value));
            let (bands, rate) = (1 + r.below(8), Value::Known(Tensor::scalar(8192i64)));
            let bands = r.length(bands);
            Sample::new(vec![bands, r.length(16), rate, number(10.0), number(4000.0)], vec![])
        }
        "RegexFullMatch" => Sample::new(vec![given(DType::String, &r.any_shape(0..3))], vec![("pattern", "a+".into())]),
        _ => return None,
    })
}

fn along_axes(op: &str, r: &mut Random) -> Option<Sample> {
    let shape = r.any_shape(1..5);
    let axis = ("axis", Attr::Int(r.axis(shape.len())));
    Some(match op {
        "Softmax" | "LogSoftmax" | "Hardmax" => {
            Sample::new(vec![floats(&shape)], vec![axis]).of_version(if r.flag() { 11 } else { NEWEST })
        }
        "LpNormalization" => Sample::new(vec![floats(&shape)], vec![axis]),
        "LayerNormalization" | "RMSNormalization" => {
            let scale = [*shape.last()?];
            Sample::new(vec![floats(&shape), known(&scale)], vec![])
        }
        "MeanVarianceNormalization" => Sample::new(vec![floats(&r.shape(4))], vec![]),
        "CumSum" | "CumProd" => Sample::new(vec![floats(&shape), Value::Known(Tensor::scalar(0i64))], vec![]),
        "ArgMax" | "ArgMin" => {
            Sample::new(vec![floats(&shape)], vec![axis, ("keepdims", Attr::Int(r.below(2) as i64))])
        }
        "TopK" => {
            let k = Value::Given(Tensor::from_vec([1], vec![1i64]).ok()?);
            Sample::new(vec![floats(&shape), k], vec![axis]).with_outputs(2)
        }
        "DynamicQuantizeLinear" => Sample::new(vec![floats(&shape)], vec![]).with_outputs(3),
        "QuantizeLinear" => {
            let scale = Tensor::scalar(0.5f32);
            let mut inputs = vec![floats(&shape), Value::Known(scale)];
            if r.flag() {
                inputs.push(Value::Known(Tensor::scalar(0i8)));
            }
            Sample::new(inputs, vec![])
        }
        "DequantizeLinear" => {
            let scale = Value::Known(Tensor::scalar(0.5f32));
            Sample::new(vec![given(DType::U8, &shape), scale], vec![])
        }
        op if op.starts_with("Reduce") => {
            let axes = r.axes(shape.len());
            let mut attrs = vec![("keepdims", Attr::Int(r.below(2) as i64))];
            let mut inputs = vec![floats(&shape)];
            match r.below(3) {
                0 if !axes.is_empty() => attrs.push(("axes", Attr::Ints(axes))),
                1 => inputs.push(ints(&axes)),
                _ => attrs.push(("noop_with_empty_axes", Attr::Int(r.below(2) as i64))),
            }
            let version = if attrs.iter().any(|(name, _)| *name == "axes") { 11 } else { NEWEST };
            Sample::new(inputs, attrs).of_version(version)
        }
        _ => return None,
    })
}

fn products(op: &str, r: &mut Random) -> Option<Sample> {
    let (rows, inner, columns) = (1 + r.below(4), 1 + r.below(4), 1 + r.below(4));
    Some(match op {
        "MatMul" | "MatMulInteger" => {
            let dtype = if op == "MatMul" { DType::F32 } else { DType::U8 };
            let lead = r.any_shape(0..3);
            let (left, right) = if r.flag() { (lead.clone(), r.part_of(&lead)) } else { (r.part_of(&lead), lead) };
            let (mut a, mut b) = ([left, vec![rows, inner]].concat(), [right, vec![inner, columns]].concat());
            // Vectors on either side.
            match r.below(5) {
                0 => a = vec![inner],
                1 => b = vec![inner],
                _ => {}
            }
            Sample::new(vec![given(dtype, &a), given(dtype, &b)], vec![])
        }
        "Gemm" => {
            let (trans_a, trans_b) = (r.flag(), r.flag());
            let stored = |transposed: bool, a: usize, b: usize| if transposed { [b, a] } else { [a, b] };
            let inputs = vec![floats(&stored(trans_a, rows, inner)), floats(&stored(trans_b, inner, columns))];
            let flag = |on: bool| Attr::Int(i64::from(on));
            Sample::new(inputs, vec![("transA", flag(trans_a)), ("transB", flag(trans_b))])
        }
        "RotaryEmbedding" => {
            let shape = [rows, inner, columns, 4];
            let angles = [rows, columns, 2];
            Sample::new(vec![floats(&shape), floats(&angles), floats(&angles)], vec![])
        }
        "LSTM" | "GRU" | "RNN" => {
            let (steps, batch, size, hidden) = (1 + r.below(3), rows, inner, columns);
            let gates = match op {
                "LSTM" => 4,
                "GRU" => 3,
                _ => 1,
            };
            let (direction, directions) = r.pick(&[("forward", 1), ("reverse", 1), ("bidirectional", 2)]);
            let inputs = vec![
                floats(&[steps, batch, size]),
                known(&[directions, gates * hidden, size]),
                known(&[directions, gates * hidden, hidden]),
            ];
            let attrs = vec![("hidden_size", Attr::Int(hidden as i64)), ("direction", direction.into())];
            Sample::new(inputs, attrs).with_outputs(if op == "LSTM" { 3 } else { 2 })
        }
        _ => return None,
    })
}

fn spatial(op: &str, r: &mut Random) -> Option<Sample> {
    let space = 1 + r.below(2);
    let (batch, group, channels) = (1 + r.below(3), 1 + r.below(2), 1 + r.below(3));
    let sizes: Vec<usize> = (0..space).map(|_| 5 + r.below(5)).collect();
    let kernel: Vec<usize> = (0..space).map(|_| 1 + r.below(3)).collect();
    let x = [vec![batch, group * channels], sizes].concat();
    let numbers =
        |r: &mut Random, from: i64, count: usize| Attr::Ints((0..count).map(|_| from + r.below(2) as i64).collect());
    let kernel_shape = ("kernel_shape", Attr::Ints(kernel.iter().map(|&size| size as i64).collect()));
    let (strides, dilations) = (("strides", numbers(r, 1, space)), ("dilations", numbers(r, 1, space)));
    let mut padding = match r.below(4) {
        0 => vec![("auto_pad", "SAME_UPPER".into())],
        1 => vec![("auto_pad", "VALID".into())],
        // Less than the kernel's size, or a pool would have a window of nothing but padding.
        _ => {
            vec![("pads", Attr::Ints([&kernel[..], &kernel[..]].concat().iter().map(|&k| r.below(k) as i64).collect()))]
        }
    };
    let per_channel = [group * channels];
    Some(match op {
        "Conv" => {
            let weights = [vec![2 * group, channels], kernel].concat();
            padding.extend([strides, dilations, ("group", Attr::Int(group as i64))]);
            Sample::new(vec![floats(&x), known(&weights)], padding)
        }
        "ConvTranspose" => {
            let weights = [vec![group * channels, 2], kernel].concat();
            padding.extend([strides, dilations, ("group", Attr::Int(group as i64))]);
            Sample::new(vec![floats(&x), known(&weights)], padding)
        }
        "MaxPool" | "AveragePool" | "LpPool" => {
            padding.extend([kernel_shape, strides, ("ceil_mode", Attr::Int(r.below(2) as i64))]);
            let outputs = if op == "MaxPool" { 1 + r.below(2) } else { 1 };
            Sample::new(vec![floats(&x)], padding).with_outputs(outputs)
        }
        "GlobalMaxPool" | "GlobalAveragePool" | "GlobalLpPool" => Sample::new(vec![floats(&x)], vec![]),
        "BatchNormalization" => {
            let inputs = std::iter::once(floats(&x)).chain((0..4).map(|_| known(&per_channel)));
            Sample::new(inputs.collect(), vec![])
        }
        "InstanceNormalization" => Sample::new(vec![floats(&x), known(&per_channel), known(&per_channel)], vec![]),
        "GroupNormalization" => {
            let groups = ("num_groups", Attr::Int(group as i64));
            Sample::new(vec![floats(&x), known(&per_channel), known(&per_channel)], vec![groups])
        }
        "LRN" => Sample::new(vec![floats(&x)], vec![("size", Attr::Int(3))]),
        "Resize" | "Upsample" => {
            let factors: Vec<f32> = [1.0, 1.0].into_iter().chain((0..space).map(|_| 1.0 + r.below(3) as f32)).collect();
            let scales = Value::Known(Tensor::from_vec([factors.len()], factors.clone()).ok()?);
            if op == "Upsample" {
                return Some(Sample::new(vec![floats(&x), scales], vec![]).of_version(9));
            }
            if r.flag() {
                return Some(Sample::new(vec![floats(&x), Value::Absent, scales], vec![]));
            }
            let target: Vec<i64> =
                x.iter().zip(factors).map(|(&size, factor)| (size as f32 * factor) as i64 + 1).collect();
            let target = [&[x[0] as i64, x[1] as i64], &target[2..]].concat();
            Sample::new(vec![floats(&x), Value::Absent, Value::Absent, ints(&target)], vec![])
        }
        "DepthToSpace" => Sample::new(vec![floats(&[batch, 4 * channels, 2, 3])], vec![("blocksize", Attr::Int(2))]),
        "SpaceToDepth" => Sample::new(vec![floats(&[batch, channels, 4, 6])], vec![("blocksize", Attr::Int(2))]),
        _ => return None,
    })
}

fn tables(op: &str, r: &mut Random) -> Option<Sample> {
    let shape = r.any_shape(1..3);
    Some(match op {
        "Binarizer" => Sample::new(vec![floats(&shape)], vec![]).of_version(1),
        "CategoryMapper" => {
            let texts = Attr::Strs(vec!["zero".to_owned()]);
            let attrs = vec![("cats_int64s", Attr::Ints(vec![0])), ("cats_strings", texts)];
            Sample::new(vec![given(DType::I64, &shape)], attrs).of_version(1)
        }
        "LabelEncoder" => {
            let attrs = vec![("keys_int64s", Attr::Ints(vec![0])), ("values_int64s", Attr::Ints(vec![7]))];
            Sample::new(vec![given(DType::I64, &shape)], attrs).of_version(4)
        }
        _ => return None,
    })
}
