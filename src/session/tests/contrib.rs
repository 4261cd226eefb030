//! Operators that are expanded when a model is read, against numbers computed from their definitions. All sizes are
//! named, so that only ranks and element types are known when the model is loaded. `tests/contrib/run` has the wide
//! grid.

use kiln_model::ir::{Attr, Dim, NodeDesc};
use kiln_model::onnx::{Limits, load_bytes, write};
use kiln_model::{GraphBuilder, ValueId};
use kiln_tensor::Tensor;

use crate::session::{Session, SessionOptions};

const MICROSOFT: &str = "com.microsoft";
const LEARN: &str = "ai.onnx.ml";

/// An input of the one node of a model.
enum Value {
    Absent,
    Given(Tensor),
    Known(Tensor),
}

/// A model of one node.
struct Model<'a> {
    domain: &'a str,
    op: &'a str,
    inputs: Vec<Value>,
    attrs: Vec<(&'a str, Attr)>,
    outputs: usize,
}

impl<'a> Model<'a> {
    fn new(domain: &'a str, op: &'a str, inputs: Vec<Value>) -> Model<'a> {
        Model { domain, op, inputs, attrs: Vec::new(), outputs: 1 }
    }

    fn with(mut self, name: &'a str, value: Attr) -> Self {
        self.attrs.push((name, value));
        self
    }

    fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = outputs;
        self
    }

    /// Writes the model, reads it, and runs it; a refusal of any step as text.
    fn run(self) -> Result<Vec<Tensor>, String> {
        let (mut build, mut given) = (GraphBuilder::new("contrib", 17), Vec::new());
        let inputs = self.inputs.into_iter().enumerate().map(|(index, value)| match value {
            Value::Absent => None,
            Value::Known(tensor) => Some(build.constant(tensor)),
            Value::Given(tensor) => {
                let dims: Vec<Dim> =
                    (0..tensor.shape().len()).map(|axis| format!("d{index}_{axis}").as_str().into()).collect();
                let id = build.input(&format!("x{index}"), tensor.dtype(), dims);
                given.push((format!("x{index}"), tensor));
                Some(id)
            }
        });
        let inputs: Vec<Option<ValueId>> = inputs.collect();
        let mut graph = build.finish();
        let outputs: Vec<ValueId> = (0..self.outputs).map(|_| graph.fresh("y")).collect();
        graph.nodes.push(NodeDesc {
            name: "node".to_owned(),
            domain: self.domain.to_owned(),
            op: self.op.to_owned(),
            version: 1,
            attrs: self.attrs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            inputs,
            outputs: outputs.iter().copied().map(Some).collect(),
        });
        graph.outputs = outputs;
        let bytes = write(&graph).expect("the graph can be written");
        let graph = load_bytes(bytes.into(), None, &Limits::default()).map_err(|error| error.to_string())?;
        let options = SessionOptions { threads: 1, rehearse: false, ..SessionOptions::default() };
        let session = Session::from_graph(graph, &options).map_err(|error| error.to_string())?;
        let inputs: Vec<(&str, Tensor)> = given.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
        Ok(outputs.iter().map(|(_, tensor)| tensor.clone()).collect())
    }

    #[track_caller]
    fn gives(self, expected: &[f32]) {
        let outputs = self.run().expect("it runs");
        close(&outputs[0], expected);
    }

    #[track_caller]
    fn refuses(self, part: &str) {
        let reason = self.run().expect_err("it is refused");
        assert!(reason.contains(part), "expected a refusal about {part:?}, found {reason:?}");
    }
}

#[track_caller]
fn close(found: &Tensor, expected: &[f32]) {
    let found = found.as_slice::<f32>().expect("floats");
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-5 + 1e-5 * expected.abs(), "{index}: {found} for {expected}");
    }
}

fn tensor(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_slice(shape.iter().copied(), values).expect("as many as the shape says")
}

fn given(shape: &[usize], values: &[f32]) -> Value {
    Value::Given(tensor(shape, values))
}

fn known(shape: &[usize], values: &[f32]) -> Value {
    Value::Known(tensor(shape, values))
}

fn bytes(shape: &[usize], values: &[u8]) -> Value {
    Value::Given(Tensor::from_slice(shape.iter().copied(), values).expect("as many as the shape says"))
}

fn byte(value: u8) -> Value {
    Value::Known(Tensor::scalar(value))
}

fn number(value: f32) -> Value {
    Value::Known(Tensor::scalar(value))
}

#[test]
fn a_residual_is_added_before_the_normalisation() {
    let inputs = || {
        let (x, skip) = (given(&[1, 2, 2], &[1.0, 2.0, 5.0, 1.0]), given(&[2, 2], &[0.0, 1.0, -1.0, 0.0]));
        vec![x, skip, known(&[2], &[1.0, 2.0])]
    };
    // Two numbers are one standard deviation below and above their mean.
    let mut own = inputs();
    own.extend([known(&[2], &[0.5, 0.0]), known(&[2], &[1.0, 0.0])]);
    Model::new(MICROSOFT, "SkipLayerNormalization", own).gives(&[-0.5, 2.0, 1.5, -2.0]);
    let simplified = Model::new(MICROSOFT, "SkipSimplifiedLayerNormalization", inputs()).outputs(1);
    let root = |a: f32, b: f32| ((a * a + b * b) / 2.0).sqrt();
    let (first, second) = (root(1.0, 3.0), root(4.0, 1.0));
    simplified.gives(&[1.0 / first, 6.0 / first, 4.0 / second, 2.0 / second]);
}

#[test]
fn masked_keys_are_not_seen_whatever_the_mask_is() {
    // Weights that pass one feature on as query, key and value: every score is q k, and values are the input.
    let input = [0.0f32, 0.0, 0.0, 3.0];
    let model = |mask: Tensor| {
        let x = given(&[2, 2, 1], &input);
        let inputs = vec![x, known(&[1, 3], &[1.0, 1.0, 1.0]), Value::Absent, Value::Given(mask)];
        Model::new(MICROSOFT, "Attention", inputs).with("num_heads", Attr::Int(1))
    };
    let whole = 3.0 / (1.0 + (-9f32).exp());
    let seen = [0.0, 0.0, 1.5, whole];
    let list = |shape: &[usize], values: &[i32]| Tensor::from_slice(shape.iter().copied(), values).expect("fits");
    model(list(&[2, 2], &[1, 1, 1, 1])).gives(&seen);
    model(list(&[2], &[2, 2])).gives(&seen);
    model(list(&[2], &[2, 1])).gives(&[0.0; 4]);
    model(list(&[2, 2], &[1, 0, 0, 1])).gives(&[0.0, 0.0, 3.0, 3.0]);
    model(list(&[2, 2, 2], &[1, 1, 1, 1, 0, 1, 1, 0])).gives(&[0.0, 0.0, 3.0, 0.0]);
    model(list(&[2, 3], &[1; 6])).refuses("a mask of shape [2, 3]");
    model(list(&[2, 2], &[1; 4])).with("do_rotary", Attr::Int(1)).refuses("\"do_rotary\" = 1");
}

#[test]
fn products_are_transposed_scaled_and_end_in_a_function() {
    let operands = || vec![given(&[2, 1], &[1.0, 2.0]), given(&[1, 2], &[3.0, -4.0])];
    let model = |name| Model::new(MICROSOFT, name, operands());
    let transposed = model("FusedMatMul").with("transA", Attr::Int(1)).with("transB", Attr::Int(1));
    transposed.with("alpha", Attr::Float(0.5)).gives(&[-2.5]);
    // Two columns, stored behind their rows: [1, 3] and [2, 4].
    let stored = vec![given(&[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]), given(&[2, 1, 1], &[10.0, 100.0])];
    let stacked = Model::new(MICROSOFT, "FusedMatMul", stored).with("transBatchA", Attr::Int(1));
    stacked.gives(&[10.0, 30.0, 200.0, 400.0]);
    model("FusedGemm").with("activation", "Relu".into()).gives(&[3.0, 0.0, 6.0, 0.0]);
    model("FusedGemm").with("activation", "Gelu".into()).refuses("\"Gelu\"");
    model("FusedGemm").with("gamma", Attr::Float(1.5)).refuses("attribute \"gamma\" = 1.5");
    let conv = |residual: Value| {
        let inputs = vec![given(&[1, 1, 2], &[1.0, -2.0]), known(&[1, 1, 1], &[2.0]), Value::Absent, residual];
        Model::new(MICROSOFT, "FusedConv", inputs)
            .with("activation", "Clip".into())
            .with("activation_params", Attr::Floats(vec![-1.0, 6.0]))
    };
    conv(given(&[1, 1, 2], &[5.0, 0.0])).gives(&[6.0, -1.0]);
    conv(Value::Absent).gives(&[2.0, -1.0]);
}

#[test]
fn quantised_operators_compute_on_the_numbers_that_bytes_stand_for() {
    let inputs = vec![
        bytes(&[2], &[3, 7]),
        number(0.5),
        byte(1),
        bytes(&[2], &[10, 20]),
        number(0.25),
        byte(2),
        number(0.5),
        byte(100),
    ];
    // (3 - 1) 0.5 (10 - 2) 0.25 / 0.5 = 4, and 3 times 4.5 over 0.5 is 27.
    let made = Model::new(MICROSOFT, "QLinearMul", inputs).run().expect("it runs");
    assert_eq!(made[0].as_slice::<u8>().expect("bytes"), [104, 127]);
    // Numbers from 0 to 255 are bytes without rounding: the product is exact.
    let inputs =
        vec![given(&[1, 2], &[255.0, 2.0]), bytes(&[2, 1], &[4, 6]), number(0.5), byte(5), known(&[1], &[0.25])];
    Model::new(MICROSOFT, "DynamicQuantizeMatMul", inputs).gives(&[(-255.0 + 2.0) * 0.5 + 0.25]);
}

#[test]
fn linear_models_name_the_class_of_the_greatest_score() {
    let floats = |values: &[f32]| Attr::Floats(values.to_vec());
    let texts = |values: &[&str]| Attr::Strs(values.iter().map(|&value| value.to_owned()).collect());
    let model = |rows: &[f32]| {
        let x = given(&[2, 2], &[1.0, 2.0, 3.0, -1.0]);
        Model::new(LEARN, "LinearClassifier", vec![x]).with("coefficients", floats(rows)).outputs(2)
    };
    let three = model(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]).with("intercepts", floats(&[0.0, 0.5, -2.0]));
    let made = three.with("classlabels_strings", texts(&["a", "b", "c"])).run().expect("it runs");
    assert_eq!(made[0].as_strings().expect("texts"), ["b", "a"]);
    close(&made[1], &[1.0, 2.5, 1.0, 3.0, -0.5, 0.0]);
    let two = model(&[1.0, -1.0]).with("intercepts", floats(&[0.0])).with("classlabels_ints", Attr::Ints(vec![4, 9]));
    let made = two.run().expect("it runs");
    assert_eq!(made[0].as_slice::<i64>().expect("numbers"), [4, 9]);
    close(&made[1], &[2.0, -1.0, -3.0, 4.0]);
    let probit = model(&[1.0; 4]).with("classlabels_ints", Attr::Ints(vec![1, 2]));
    probit.with("post_transform", "PROBIT".into()).refuses("\"post_transform\" = \"PROBIT\"");
}

#[test]
fn tables_are_normalised_imputed_and_encoded() {
    let row = |op, values: &[f32; 2]| Model::new(LEARN, op, vec![given(&[2, 2], &[values[0], values[1], 0.0, 0.0])]);
    row("Normalizer", &[3.0, -4.0]).with("norm", "L2".into()).gives(&[0.6, -0.8, 0.0, 0.0]);
    row("Normalizer", &[3.0, -4.0]).with("norm", "L1".into()).gives(&[3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0]);
    let imputer = row("Imputer", &[f32::NAN, 2.0]).with("replaced_value_float", Attr::Float(f32::NAN));
    imputer.with("imputed_value_floats", Attr::Floats(vec![7.0, 8.0])).gives(&[7.0, 2.0, 0.0, 0.0]);
    let encoder = |zeros| {
        let x = Value::Given(Tensor::from_slice([3], &[5i64, 6, 4]).expect("three"));
        let model = Model::new(LEARN, "OneHotEncoder", vec![x]).with("cats_int64s", Attr::Ints(vec![4, 5]));
        model.with("zeros", Attr::Int(zeros))
    };
    encoder(1).gives(&[0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    encoder(0).refuses("outside of 0..2");
    let parts =
        vec![given(&[2, 1], &[1.0, 2.0]), Value::Given(Tensor::from_slice([2, 2], &[3i64, 4, 5, 6]).expect("four"))];
    let joined = |widths: &[i64], parts| {
        Model::new(LEARN, "FeatureVectorizer", parts).with("inputdimensions", Attr::Ints(widths.to_vec()))
    };
    joined(&[1, 2], parts).gives(&[1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
    joined(&[3], vec![given(&[3, 2], &[0.0; 6])]).refuses("3");
}

/// 1 / (1 + exp(-x))
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn positions_far_apart_share_rows_of_a_table() {
    let length = |count: i64| Value::Given(Tensor::from_slice([1], &[count]).expect("one"));
    // Rows 0 to 7 of one head: four rows are for single distances, the others for 4 to 7, 8 to 15 and so on.
    let table = known(&[8, 1], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let behind = Model::new(MICROSOFT, "RelativePositionBias", vec![table, length(12), length(3)]);
    let rows: Vec<f32> = (0..12i32)
        .flat_map(|query| (0..3).map(move |key| query - key))
        .map(|distance| match distance {
            ..=0 => 0.0,
            1..4 => distance as f32,
            4..8 => 4.0,
            _ => 5.0,
        })
        .collect();
    behind.with("max_distance", Attr::Int(64)).gives(&rows);
    // In both directions the second half is for keys that follow.
    let table = known(&[8, 1], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let both = Model::new(MICROSOFT, "RelativePositionBias", vec![table, length(3), length(3)]);
    let both = both.with("max_distance", Attr::Int(64)).with("is_bidirectional", Attr::Int(1));
    both.gives(&[0.0, 5.0, 6.0, 1.0, 0.0, 5.0, 2.0, 1.0, 0.0]);
    // The table has all rows of the first head, then all rows of the second.
    let table = known(&[4, 2], &[0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]);
    let heads = Model::new(MICROSOFT, "RelativePositionBias", vec![table, length(3), length(2)]);
    let made = heads.with("max_distance", Attr::Int(8)).run().expect("it runs");
    assert_eq!(made[0].shape(), [1, 2, 3, 2]);
    close(&made[0], &[0.0, 0.0, 1.0, 0.0, 2.0, 1.0, 10.0, 10.0, 11.0, 10.0, 12.0, 11.0]);
    let table = known(&[8, 1], &[0.0; 8]);
    let without = Model::new(MICROSOFT, "RelativePositionBias", vec![table, length(1), length(1)]);
    without.with("max_distance", Attr::Int(0)).refuses("max_distance = 0");
}

#[test]
fn a_gate_of_the_query_scales_its_biases() {
    // One head of two elements, passed on as the sums of the two halves.
    let inputs = vec![
        given(&[1, 2, 2], &[1.0, 2.0, 0.5, -1.0]),
        known(&[2], &[0.0, 0.5]),
        given(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]),
        known(&[2, 2], &[1.0, 0.0, 0.0, 1.0]),
        known(&[2], &[0.0, 0.0]),
        known(&[1, 1, 1, 1], &[3.0]),
    ];
    let gate = |update: f32, reset: f32| sigmoid(update) * (sigmoid(reset) * 3.0 - 1.0) + 2.0;
    let (first, second) = (gate(1.0, 2.5), gate(0.5, -0.5));
    let model = Model::new(MICROSOFT, "GatedRelativePositionBias", inputs).with("num_heads", Attr::Int(1));
    model.gives(&[first, 2.0 * first, 3.0 * second, 4.0 * second]);
}

#[test]
fn a_gate_of_packed_tokens_has_the_bias_alone_where_there_is_no_token() {
    // Two sequences of two positions: the second of the first and the first of the second have tokens.
    let model = |places: &[i32]| {
        let places = Tensor::from_slice([2, 2], places).expect("four");
        let inputs = vec![
            given(&[2, 2], &[1.0, 2.0, 0.5, -1.0]),
            known(&[2], &[0.0, 0.5]),
            given(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]),
            known(&[2, 2], &[1.0, 0.0, 0.0, 1.0]),
            known(&[2], &[0.0, 0.0]),
            known(&[1, 1, 1, 1], &[3.0]),
            Value::Given(places),
        ];
        Model::new(MICROSOFT, "GatedRelativePositionBias", inputs).with("num_heads", Attr::Int(1))
    };
    let gate = |update: f32, reset: f32| sigmoid(update) * (sigmoid(reset) * 3.0 - 1.0) + 2.0;
    let (none, first, second) = (gate(0.0, 0.5), gate(1.0, 2.5), gate(0.5, -0.5));
    let expected = [none, 2.0 * none, 3.0 * first, 4.0 * first, second, 2.0 * second, 3.0 * none, 4.0 * none];
    model(&[1, 2, 0, 3]).gives(&expected);
    model(&[1, 4, 0, 3]).refuses("4");
}

#[test]
fn images_with_channels_last_are_normalised_and_convolved() {
    // Two channels in one group; each position has a and -a, so the mean is 0.
    let image = || given(&[1, 1, 2, 2], &[1.0, -1.0, 1.0, -1.0]);
    let scale = || vec![known(&[2], &[1.0, 2.0]), known(&[2], &[0.5, 0.0])];
    let group = |op: &'static str, inputs: Vec<Value>, active: i64| {
        let model = Model::new(MICROSOFT, op, inputs).with("groups", Attr::Int(1)).with("epsilon", Attr::Float(0.0));
        model.with("activation", Attr::Int(active))
    };
    let inputs = || [vec![image()], scale()].into_iter().flatten().collect::<Vec<_>>();
    group("GroupNorm", inputs(), 0).gives(&[1.5, -2.0, 1.5, -2.0]);
    let silu = |x: f32| x * sigmoid(x);
    group("GroupNorm", inputs(), 1).gives(&[silu(1.5), silu(-2.0), silu(1.5), silu(-2.0)]);
    group("GroupNorm", inputs(), 2).refuses("\"activation\" = 2");
    for skip in [given(&[1, 2], &[2.0, -2.0]), given(&[1, 1, 1, 2], &[2.0, -2.0])] {
        let mut inputs = inputs();
        inputs.extend([skip, known(&[2], &[1.0, -1.0])]);
        let made = group("SkipGroupNorm", inputs, 0).outputs(2).run().expect("it runs");
        close(&made[0], &[1.5, -2.0, 1.5, -2.0]);
        close(&made[1], &[4.0, -4.0, 4.0, -4.0]);
    }
    // Channels first: two positions of either channel.
    let image = || given(&[1, 2, 1, 2], &[1.0, 1.0, -1.0, -1.0]);
    let first = |op: &'static str, inputs: Vec<Value>| group(op, inputs, 0).with("channels_last", Attr::Int(0));
    let inputs = || [vec![image()], scale()].into_iter().flatten().collect::<Vec<_>>();
    first("GroupNorm", inputs()).gives(&[1.5, 1.5, -2.0, -2.0]);
    for skip in [given(&[1, 2], &[2.0, -2.0]), given(&[1, 2, 1, 2], &[2.0, 2.0, -2.0, -2.0])] {
        let mut inputs = inputs();
        inputs.extend([skip, known(&[2], &[1.0, -1.0])]);
        let made = first("SkipGroupNorm", inputs).outputs(2).run().expect("it runs");
        close(&made[0], &[1.5, 1.5, -2.0, -2.0]);
        close(&made[1], &[4.0, 4.0, -4.0, -4.0]);
    }
    let image = || given(&[1, 1, 2, 2], &[1.0, -1.0, 1.0, -1.0]);
    // Weights of one position: channels are added and taken from each other.
    let weights = || known(&[2, 2, 1, 1], &[1.0, 1.0, 1.0, -1.0]);
    Model::new(MICROSOFT, "NhwcConv", vec![image(), weights()]).gives(&[0.0, 2.0, 0.0, 2.0]);
    let residual = given(&[1, 1, 2, 2], &[1.0, -5.0, 0.0, 0.0]);
    let fused = Model::new(MICROSOFT, "NhwcFusedConv", vec![image(), weights(), Value::Absent, residual]);
    fused.with("activation", "Relu".into()).gives(&[1.0, 0.0, 0.0, 2.0]);
}

#[test]
fn softmax_after_a_bias_takes_all_axes_behind_as_one() {
    let model = |scores: &[f32; 4], axis: i64| {
        let inputs = vec![given(&[1, 2, 2], scores), given(&[1, 1, 2], &[0.0, -1.0])];
        let model = Model::new(MICROSOFT, "BiasSoftmax", inputs).with("is_inner_broadcast", Attr::Int(1));
        model.with("axis", Attr::Int(axis))
    };
    model(&[0.0, 1.0, 0.0, 1.0], 1).gives(&[0.25; 4]);
    let last = model(&[0.0, 1.0, 0.0, 0.0], 2);
    let small = (-1f32).exp();
    last.gives(&[0.5, 0.5, 1.0 / (1.0 + small), small / (1.0 + small)]);
}

#[test]
fn signals_are_transformed_there_and_back() {
    let signal = || given(&[1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let there = Model::new(MICROSOFT, "Rfft", vec![signal()]);
    there.gives(&[10.0, 0.0, -2.0, 2.0, -2.0, 0.0]);
    let half = given(&[1, 3, 2], &[10.0, 0.0, -2.0, 2.0, -2.0, 0.0]);
    Model::new(MICROSOFT, "Irfft", vec![half]).with("signal_ndim", Attr::Int(1)).gives(&[1.0, 2.0, 3.0, 4.0]);
    // Over two axes: the rows' transforms, and those of their columns.
    let image = given(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let there = Model::new(MICROSOFT, "Rfft", vec![image]).with("signal_ndim", Attr::Int(2));
    there.gives(&[10.0, 0.0, -2.0, 0.0, -4.0, 0.0, 0.0, 0.0]);
    let back = given(&[1, 2, 2, 2], &[10.0, 0.0, -2.0, 0.0, -4.0, 0.0, 0.0, 0.0]);
    Model::new(MICROSOFT, "Irfft", vec![back]).with("signal_ndim", Attr::Int(2)).gives(&[1.0, 2.0, 3.0, 4.0]);
    let scaled = Model::new(MICROSOFT, "Rfft", vec![signal()]).with("normalized", Attr::Int(1));
    scaled.refuses("\"normalized\" = 1");
    let whole = Model::new(MICROSOFT, "Rfft", vec![signal()]).with("onesided", Attr::Int(0));
    whole.refuses("\"onesided\" = 0");
    let numbers = || vec![given(&[1, 2], &[1.0, 2.0]), given(&[1, 2], &[3.0, -1.0])];
    Model::new(MICROSOFT, "ComplexMul", numbers()).gives(&[5.0, 5.0]);
    // (1 + 2i) (3 + i)
    Model::new(MICROSOFT, "ComplexMulConj", numbers()).gives(&[1.0, 7.0]);
}

#[test]
fn matrices_are_inverted() {
    let matrix = |values: &[f32; 4]| Model::new(MICROSOFT, "Inverse", vec![given(&[1, 2, 2], values)]);
    matrix(&[0.0, 2.0, 4.0, 0.0]).gives(&[0.0, 0.25, 0.5, 0.0]);
    matrix(&[1.0, 2.0, 2.0, 4.0]).refuses("matrix 0 of shape [1, 2, 2] has no inverse");
}

#[test]
fn distances_of_rows_and_single_values() {
    let rows = || vec![given(&[2, 2], &[0.0, 0.0, 3.0, 4.0]), given(&[1, 2], &[3.0, 0.0])];
    Model::new(MICROSOFT, "CDist", rows()).gives(&[9.0, 16.0]);
    Model::new(MICROSOFT, "CDist", rows()).with("metric", "euclidean".into()).gives(&[3.0, 4.0]);
    Model::new(MICROSOFT, "CDist", rows()).with("metric", "cosine".into()).refuses("\"metric\" = \"cosine\"");
    let list = given(&[5], &[3.0, 1.0, 3.0, 2.0, 1.0]);
    let made = Model::new(MICROSOFT, "Unique", vec![list]).outputs(3).run().expect("it runs");
    close(&made[0], &[3.0, 1.0, 2.0]);
    assert_eq!(made[1].as_slice::<i64>().expect("places"), [0, 1, 0, 2, 1]);
    assert_eq!(made[2].as_slice::<i64>().expect("counts"), [2, 2, 1]);
}

#[test]
fn one_step_of_a_decoder_sees_its_cache_or_another_sequence() {
    let state = |value: f32| given(&[1, 1, 1], &[value]);
    let model =
        |inputs| Model::new(MICROSOFT, "DecoderMaskedMultiHeadAttention", inputs).with("num_heads", Attr::Int(1));
    // The query is 0, so that all keys weigh the same.
    let cache = || given(&[1, 1, 1, 1], &[2.0]);
    let mut inputs = vec![state(0.0), state(7.0), state(4.0), Value::Absent, Value::Absent, cache(), cache()];
    inputs.extend([Value::Absent, Value::Absent, Value::Absent, known(&[3], &[0.0, 1.0, 2.0])]);
    let made = model(inputs).outputs(3).run().expect("it runs");
    close(&made[0], &[4.0]);
    close(&made[1], &[2.0, 8.0]);
    close(&made[2], &[2.0, 6.0]);
    let others = || given(&[1, 1, 3, 1], &[1.0, 2.0, 6.0]);
    model(vec![state(0.0), others(), others()]).gives(&[3.0]);
    // Keys and values of another sequence have been biased before; the query has not.
    let wide = || given(&[1, 1, 2, 1], &[1.0, 2.0]);
    let mut inputs = vec![state(0.0), wide(), wide()];
    inputs.extend([(); 7].map(|()| Value::Absent));
    inputs.push(known(&[3], &[1.0, 7.0, 7.0]));
    let made = model(inputs).with("output_qk", Attr::Int(1)).outputs(4).run().expect("it runs");
    let weights = [1f32.exp(), 2f32.exp()];
    close(&made[0], &[(weights[0] + 2.0 * weights[1]) / (weights[0] + weights[1])]);
    close(&made[3], &[1.0, 2.0]);
}

#[test]
fn one_step_over_a_shared_buffer_says_what_it_lacks() {
    let state = || given(&[1, 1, 1], &[1.0]);
    let cache = || given(&[1, 1, 2, 1], &[2.0, 3.0]);
    let whole = |value: i32| Value::Given(Tensor::from_slice([1], &[value]).expect("one"));
    let model = |length: Value, beams: Value| {
        let (none, shares) = (|| Value::Absent, ("past_present_share_buffer", Attr::Int(1)));
        let inputs = vec![state(), state(), state(), none(), none(), cache(), cache(), length, beams];
        let model = Model::new(MICROSOFT, "DecoderMaskedMultiHeadAttention", inputs).outputs(3);
        model.with("num_heads", Attr::Int(1)).with(shares.0, shares.1)
    };
    let made = model(whole(1), Value::Absent).run().expect("it runs");
    close(&made[1], &[2.0, 1.0]);
    close(&made[2], &[2.0, 1.0]);
    model(Value::Absent, Value::Absent).refuses("without input 7 (past_sequence_length)");
    model(whole(2), Value::Absent).refuses("past_sequence_length = 2, where past_key has room for 2 positions");
    model(whole(-1), Value::Absent).refuses("past_sequence_length = -1");
    model(whole(1), whole(2)).refuses("beam_width = 2 without cache_indirection");
    model(whole(1), Value::Absent).with("output_qk", Attr::Int(1)).refuses("output_qk = 1 without output 3 (qk)");
    model(whole(1), Value::Absent).outputs(4).refuses("output 3 (qk), where output_qk = 0");
}

#[test]
fn searches_are_refused_with_what_to_do_instead() {
    for op in ["BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"] {
        let search = Model::new(MICROSOFT, op, vec![given(&[1, 2], &[0.0, 1.0])]);
        search.with("decoder_start_token_id", Attr::Int(1)).refuses("`kiln generate` and `Decoder` run its steps");
    }
}

fn list_of<T: kiln_tensor::Element>(shape: &[usize], values: &[T]) -> Value {
    Value::Given(Tensor::from_slice(shape.iter().copied(), values).expect("as many as the shape says"))
}

#[test]
fn texts_are_cut_and_hashed() {
    let texts = |values: &[&str]| {
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        Value::Given(Tensor::from_strings([values.len()], values).expect("a list"))
    };
    let tokenizer = |given: &[&str]| {
        let model = Model::new(MICROSOFT, "Tokenizer", vec![texts(given)]).with("mark", Attr::Int(1));
        model.with("mincharnum", Attr::Int(1)).with("pad_value", "#".into())
    };
    let made = tokenizer(&["a bc", "d"]).with("tokenexp", r"\w+".into()).run().expect("it runs");
    assert_eq!(made[0].shape(), [2, 4]);
    let expected = ["\u{2}", "a", "bc", "\u{3}", "\u{2}", "d", "\u{3}", "#"];
    assert_eq!(made[0].as_strings().expect("texts"), expected);
    tokenizer(&["a"]).refuses("neither separators nor tokenexp");
    tokenizer(&["a"]).with("tokenexp", "(".into()).refuses("tokenexp \"(\": error: unclosed group");
    Model::new(MICROSOFT, "Tokenizer", vec![texts(&["a"])]).with("tokenexp", "a".into()).refuses("mark");
    let hashed = Model::new(MICROSOFT, "MurmurHash3", vec![texts(&["", "a"])]).run().expect("it runs");
    assert_eq!(hashed[0].as_slice::<u32>().expect("hashes"), [0, 1_009_084_850]);
}

#[test]
fn the_cheapest_way_through_costs_has_as_many_places_as_steps() {
    let warping =
        |shape: &[usize], costs: &[f32]| Model::new(MICROSOFT, "DynamicTimeWarping", vec![given(shape, costs)]);
    let made = warping(&[1, 3, 2], &[1.0, 2.0, 3.0, 4.0, 0.0, 1.0]).run().expect("it runs");
    assert_eq!((made[0].shape(), made[0].as_slice()), (&[2, 4][..], Ok(&[0, 1, 2, 2, 0, 0, 0, 1i32][..])));
    assert_eq!(warping(&[0, 3], &[]).run().expect("it runs")[0].shape(), [2, 0]);
    warping(&[2, 1, 1], &[0.0; 2]).refuses("costs of shape [2, 1, 1], where a matrix is needed");
    warping(&[3], &[0.0; 3]).refuses("costs of shape [3]");
}

#[test]
fn words_are_the_greatest_of_windows_over_their_characters() {
    // The embedding of character k is [k, 1], the filter 0.1 k1 + 0.2 k2, its bias -0.5.
    let table = || given(&[4, 2], &[0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0, 1.0]);
    let words = |width: usize, characters: &[i32]| {
        let sequence = list_of(&[characters.len() / width, width], characters);
        let inputs = vec![sequence, given(&[1, 1, 2, 2], &[0.1, 0.0, 0.2, 0.0]), given(&[1], &[-0.5]), table()];
        Model::new(MICROSOFT, "WordConvEmbedding", inputs)
    };
    // Words of three characters, of one character with others after its end, and of none.
    words(3, &[1, 3, 2, 3, 0, 0, 0, 3, 3]).gives(&[0.2f32.tanh(), (-0.2f32).tanh(), 0.0]);
    words(3, &[1, 2, 3]).with("conv_window_size", Attr::Int(2)).gives(&[0.3f32.tanh()]);
    words(3, &[1, 2, 3]).with("conv_window_size", Attr::Int(3)).refuses("[0, 0, 3, 0]");
    words(3, &[1, 2, 9]).refuses("9");
    words(1, &[1]).refuses("window");
}

#[test]
fn gates_scale_what_is_added_normalised_and_scaled() {
    let silu = |z: f32| z / (1.0 + (-z).exp());
    let scaled = Model::new(MICROSOFT, "ScaledSiLU", vec![given(&[2], &[1.0, -2.0])]);
    scaled.with("alpha", Attr::Float(0.5)).gives(&[silu(0.5), silu(-1.0)]);
    let scaled = Model::new(MICROSOFT, "ScaledSiLU", vec![given(&[2], &[1.0, -2.0]), given(&[], &[2.0])]);
    scaled.with("alpha", Attr::Float(0.5)).gives(&[silu(2.0), silu(-4.0)]);
    let added = |more: Vec<Value>| {
        let mut inputs =
            vec![given(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), given(&[2, 2], &[1.0; 4]), given(&[2, 1], &[0.5, -1.0])];
        inputs.extend(more);
        Model::new(MICROSOFT, "GatedAdd", inputs)
    };
    added(vec![]).gives(&[1.5, 2.5, 2.0, 3.0]);
    added(vec![given(&[1, 1], &[1.0])]).refuses("gate_weight");
    // Two rows of two elements in one.
    let norm = |activation: &str| {
        let inputs = vec![
            given(&[1, 4], &[3.0, 4.0, 0.0, 5.0]),
            given(&[2], &[1.0, 2.0]),
            given(&[1, 4], &[0.0, 1.0, 2.0, 3.0]),
        ];
        Model::new(MICROSOFT, "GatedRMSNorm", inputs)
            .with("activation", activation.into())
            .with("epsilon", Attr::Float(0.0))
    };
    let (sigmoid, root) = (|z: f32| 1.0 / (1.0 + (-z).exp()), 12.5f32.sqrt());
    norm("silu").gives(&[0.0, 8.0 / root * silu(1.0), 0.0, 10.0 / root * silu(3.0)]);
    norm("sigmoid").gives(&[1.5 / root, 8.0 / root * sigmoid(1.0), 0.0, 10.0 / root * sigmoid(3.0)]);
    norm("tanh").refuses("\"activation\" = \"tanh\"");
}

#[test]
fn gates_of_linear_attention_are_decays_and_rates() {
    let gate = |outputs: usize| {
        let mut inputs = vec![given(&[1, 2, 2], &[0.0, 1.0, -1.0, 2.0]), known(&[2], &[0.5, -0.5])];
        inputs.push(known(&[2], &[-1.0, -2.0]));
        if outputs > 1 {
            inputs.push(given(&[1, 2, 2], &[0.0, 1.0, -1.0, 2.0]));
        }
        Model::new(MICROSOFT, "LinearAttentionGate", inputs).outputs(outputs)
    };
    let (softplus, sigmoid) = (|z: f32| z.exp().ln_1p(), |z: f32| 1.0 / (1.0 + (-z).exp()));
    let decays = [-softplus(0.5), -2.0 * softplus(0.5), -softplus(-0.5), -2.0 * softplus(1.5)];
    gate(1).gives(&decays);
    let both = gate(2).run().expect("it runs");
    close(&both[0], &decays);
    close(&both[1], &[0.5, sigmoid(1.0), sigmoid(-1.0), sigmoid(2.0)]);
}

#[test]
fn transposed_convolutions_are_cut_by_an_input() {
    // One line of 1, 2, 3 with a filter of 1, 10 in steps of 2: 1 10 2 20 3 30, and a bias of a half.
    let conv = |pads: &[i64]| {
        let pads = Value::Given(Tensor::from_slice([pads.len()], pads).expect("a list"));
        let inputs =
            vec![given(&[1, 1, 3], &[1.0, 2.0, 3.0]), known(&[1, 1, 2], &[1.0, 10.0]), pads, known(&[1], &[0.5])];
        Model::new(MICROSOFT, "ConvTransposeWithDynamicPads", inputs).with("strides", Attr::Ints(vec![2]))
    };
    conv(&[0, 0]).gives(&[1.5, 10.5, 2.5, 20.5, 3.5, 30.5]);
    conv(&[1, 2]).gives(&[10.5, 2.5, 20.5]);
    conv(&[-1, 4]).gives(&[0.5, 1.5, 10.5]);
    conv(&[1, 2]).with("output_padding", Attr::Ints(vec![1])).gives(&[10.5, 2.5, 20.5, 3.5]);
    conv(&[1, 2]).with("auto_pad", "SAME_UPPER".into()).refuses("SAME_UPPER");
    assert!(conv(&[1]).run().is_err());
    assert!(conv(&[4, 4]).run().is_err());
}

#[test]
fn operators_that_onnx_has_too() {
    let range = |bounds: &[i32]| {
        let bounds = bounds.iter().map(|&bound| list_of(&[1], &[bound])).collect();
        Model::new(MICROSOFT, "Range", bounds).run().map(|made| made[0].to_i64_vec().expect("numbers"))
    };
    assert_eq!(range(&[1, 4]), Ok(vec![1, 2, 3]));
    assert_eq!(range(&[6, 0, -4]), Ok(vec![6, 2]));
    assert!(range(&[6, 0, 0]).is_err());
    let image = || vec![given(&[1, 1, 1, 2], &[1.0, 3.0]), given(&[1, 1, 1, 2], &[0.0, 0.0])];
    Model::new(MICROSOFT, "GridSample", image()).gives(&[2.0]);
    Model::new(MICROSOFT, "GridSample", image()).with("mode", "round".into()).refuses("mode = round");
    Model::new(MICROSOFT, "SampleOp", vec![given(&[2], &[1.0, 3.0])]).gives(&[1.0, 3.0]);
}
