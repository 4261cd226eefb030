//! Operators on values whose channels are in blocks, with weights that the tests put in blocks of 8 and of 16, against
//! numbers computed from the definition of a convolution.

use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, Dim, ValueId};
use kiln_model::onnx::{Limits, load_bytes, write};
use kiln_tensor::{DType, Tensor};

use crate::session::{Session, SessionOptions};

const DOMAIN: &str = "com.microsoft.nchwc";

/// Numbers without a pattern; those of one output channel have one scale.
fn drawn(outputs: usize, each: usize, seed: usize) -> Vec<f32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64.wrapping_mul(2 * seed as u64 + 1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let scales: Vec<f32> = (0..outputs).map(|_| (1.5 * next()).exp()).collect();
    scales.into_iter().flat_map(|scale| (0..each).map(|_| scale * next()).collect::<Vec<_>>()).collect()
}

fn tensor(shape: &[usize], values: Vec<f32>) -> Tensor {
    Tensor::from_vec(shape.iter().copied(), values).expect("as many as the shape says")
}

/// Weights [outputs, inputs, kernel, kernel] of a convolution.
#[derive(Clone)]
struct Weights {
    outputs: usize,
    inputs: usize,
    kernel: usize,
    values: Vec<f32>,
    bias: Vec<f32>,
}

impl Weights {
    fn new(outputs: usize, inputs: usize, kernel: usize, seed: usize) -> Weights {
        let values = drawn(outputs, inputs * kernel * kernel, seed);
        Weights { outputs, inputs, kernel, values, bias: drawn(outputs, 1, seed + 100) }
    }

    fn at(&self, output: usize, input: usize, place: usize) -> f32 {
        let area = self.kernel * self.kernel;
        if output < self.outputs && input < self.inputs {
            self.values[(output * self.inputs + input) * area + place]
        } else {
            0.0
        }
    }

    /// As ONNX Runtime stores them: blocks of output channels, and of input channels where `both`.
    fn in_blocks(&self, width: usize, both: bool) -> [Tensor; 2] {
        let outputs = self.outputs.next_multiple_of(width);
        let (inputs, within) = if both { (self.inputs.next_multiple_of(width), width) } else { (self.inputs, 1) };
        let mut made = Vec::new();
        for first in (0..outputs).step_by(width) {
            for block in (0..inputs).step_by(within) {
                for place in 0..self.kernel * self.kernel {
                    for input in block..block + within {
                        made.extend((first..first + width).map(|output| self.at(output, input, place)));
                    }
                }
            }
        }
        let mut bias = self.bias.clone();
        bias.resize(outputs, 0.0);
        [tensor(&[outputs, inputs, self.kernel, self.kernel], made), tensor(&[outputs], bias)]
    }

    /// The convolution without padding of an image of `size` rows and columns, in groups of this many input channels.
    fn of(&self, image: &[f32], size: usize) -> Vec<f32> {
        let (groups, made) = (image.len() / (size * size) / self.inputs, size + 1 - self.kernel);
        let mut result = Vec::new();
        for output in 0..self.outputs {
            let group = output / (self.outputs / groups);
            for at in 0..made * made {
                let mut sum = self.bias[output];
                for input in 0..self.inputs {
                    for place in 0..self.kernel * self.kernel {
                        let (row, column) = (at / made + place / self.kernel, at % made + place % self.kernel);
                        let pixel = ((group * self.inputs + input) * size + row) * size + column;
                        sum += self.at(output, input, place) * image[pixel];
                    }
                }
                result.push(sum);
            }
        }
        result
    }
}

struct Model {
    build: GraphBuilder,
}

impl Model {
    fn new() -> Model {
        Model { build: GraphBuilder::new("nchwc", 17) }
    }

    /// An image of named sizes.
    fn image(&mut self, channels: Option<usize>) -> ValueId {
        let channels = channels.map_or(Dim::Any, Dim::Fixed);
        self.build.input("x", DType::F32, ["n".into(), channels, "h".into(), "w".into()])
    }

    fn op(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.build.op_of(DOMAIN, op, &inputs, attrs)
    }

    fn conv(&mut self, x: ValueId, weights: [Tensor; 2], attrs: &[(&str, Attr)]) -> ValueId {
        let [weights, bias] = weights.map(|tensor| self.build.constant(tensor));
        self.op("Conv", &[x, weights, bias], attrs)
    }

    fn output(&mut self, value: ValueId, channels: usize) {
        let made = self.op("ReorderOutput", &[value], &[("channels", (channels as i64).into())]);
        self.build.output("y", made);
    }

    /// Writes the model, reads it, and runs it on an image; a refusal of any step as text.
    fn run(self, channels: usize, size: usize, image: &[f32]) -> Result<Tensor, String> {
        let bytes = write(&self.build.finish()).expect("the graph can be written");
        let graph = load_bytes(bytes.into(), None, &Limits::default()).map_err(|error| error.to_string())?;
        let options = SessionOptions { threads: 1, rehearse: false, ..SessionOptions::default() };
        let session = Session::from_graph(graph, &options).map_err(|error| error.to_string())?;
        let outputs = session.run(&[("x", tensor(&[1, channels, size, size], image.to_vec()))]);
        Ok(outputs.map_err(|error| error.to_string())?.first().expect("one output").1.clone())
    }

    #[track_caller]
    fn refuses(self, part: &str) {
        let reason = self.run(3, 4, &drawn(1, 48, 9)).expect_err("it is refused");
        assert!(reason.contains(part), "expected a refusal about {part:?}, found {reason:?}");
    }
}

#[track_caller]
fn close(found: &Tensor, expected: &[f32]) {
    let found = found.as_slice::<f32>().expect("floats");
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-3 + 1e-4 * expected.abs(), "{index}: {found} for {expected}");
    }
}

fn relu(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|value| value.max(0.0)).collect()
}

#[test]
fn channels_that_fill_a_block_up_tell_its_width() {
    let image = drawn(1, 3 * 36, 1);
    let (first, second) = (Weights::new(20, 3, 3, 2), Weights::new(18, 20, 2, 3));
    let middle = relu(first.of(&image, 6));
    let expected = second.of(&middle, 4);
    for width in [8, 16] {
        let mut model = Model::new();
        let x = model.image(Some(3));
        let x = model.conv(x, first.in_blocks(width, false), &[("activation", "Relu".into())]);
        let y = model.conv(x, second.in_blocks(width, true), &[]);
        model.output(y, 18);
        let found = model.run(3, 6, &image).expect("it runs");
        assert_eq!(found.shape(), [1, 18, 3, 3]);
        close(&found, &expected);
    }
}

#[test]
fn whole_blocks_tell_their_width_by_the_scales_of_channels() {
    let image = drawn(1, 3 * 36, 1);
    let (first, each) = (Weights::new(32, 3, 3, 4), Weights::new(32, 1, 1, 5));
    let (grouped, last) = (Weights::new(64, 16, 2, 6), Weights::new(32, 64, 1, 7));
    let whole = first.of(&image, 6);
    let expected = last.of(&grouped.of(&each.of(&whole, 4), 4), 3);
    for width in [8, 16] {
        let mut model = Model::new();
        let x = model.image(Some(3));
        let x = model.conv(x, first.in_blocks(width, false), &[]);
        let x = model.conv(x, each.in_blocks(width, false), &[("group", 32.into())]);
        let x = model.conv(x, grouped.in_blocks(width, true), &[("group", 2.into())]);
        let y = model.conv(x, last.in_blocks(width, true), &[]);
        model.output(y, 32);
        close(&model.run(3, 6, &image).expect("it runs"), &expected);
    }
}

#[test]
fn a_sum_is_added_before_the_activation() {
    let image = drawn(1, 3 * 16, 1);
    let (first, second) = (Weights::new(12, 3, 2, 2), Weights::new(12, 12, 1, 3));
    let whole = first.of(&image, 4);
    let sums: Vec<f32> = second.of(&whole, 3).iter().zip(&whole).map(|(conv, sum)| conv + sum).collect();
    let clipped: Vec<f32> = sums.iter().map(|value| value.clamp(-0.5, 1.5)).collect();
    let leaky: Vec<f32> = sums.iter().map(|value| if *value < 0.0 { 0.25 * value } else { *value }).collect();
    let expected = [("", vec![], sums), ("Clip", vec![-0.5, 1.5], clipped), ("LeakyRelu", vec![0.25], leaky)];
    for (function, parameters, expected) in expected {
        let mut model = Model::new();
        let x = model.image(Some(3));
        let x = model.conv(x, first.in_blocks(16, false), &[]);
        let [weights, bias] = second.in_blocks(16, true).map(|tensor| model.build.constant(tensor));
        let attrs = [("activation", function.into()), ("activation_params", parameters.into())];
        let y = model.op("Conv", &[x, weights, bias, x], &attrs);
        model.output(y, 12);
        close(&model.run(3, 4, &image).expect("it runs"), &expected);
    }
}

#[test]
fn an_image_of_unknown_channels_is_filled_up_to_the_weights() {
    let weights = Weights::new(24, 20, 2, 2);
    let image = drawn(1, 20 * 16, 1);
    for channels in [None, Some(20)] {
        let mut model = Model::new();
        let x = model.image(channels);
        let x = model.op("ReorderInput", &[x], &[]);
        let y = model.conv(x, weights.in_blocks(16, true), &[]);
        model.output(y, 24);
        close(&model.run(20, 4, &image).expect("it runs"), &weights.of(&image, 4));
    }
}

#[test]
fn blocks_as_a_fifth_axis_and_elements_repeated() {
    let weights = Weights::new(20, 3, 1, 2);
    let image = drawn(1, 3 * 4, 1);
    let mut model = Model::new();
    let x = model.image(Some(3));
    let x = model.conv(x, weights.in_blocks(8, false), &[]);
    let lists = [&[0i64, 3, 0, 0, 8][..], &[0, 24, 0, 0]];
    let [split, joined] =
        lists.map(|list| model.build.constant(Tensor::from_slice([list.len()], list).expect("a list")));
    let apart = model.build.op("Reshape", &[x, split], &[]);
    let twice = model.build.op("Add", &[apart, apart], &[]);
    let x = model.build.op("Reshape", &[twice, joined], &[]);
    let y = model.op("Upsample", &[x], &[("scales", [1, 1, 1, 2].into())]);
    model.output(y, 20);
    let expected: Vec<f32> = weights.of(&image, 2).into_iter().flat_map(|value| [2.0 * value; 2]).collect();
    close(&model.run(3, 2, &image).expect("it runs"), &expected);
}

/// A model of one convolution of an image with attributes; `then` adds nodes after it.
fn one(weights: &[usize], attrs: &[(&str, Attr)], then: impl FnOnce(&mut Model, ValueId)) -> Model {
    let mut model = Model::new();
    let x = model.image(Some(3));
    let count = weights.iter().product();
    let weights = model.build.constant(tensor(weights, drawn(1, count, 2)));
    let y = model.op("Conv", &[x, weights], attrs);
    then(&mut model, y);
    model
}

#[test]
fn what_no_blocks_can_be_is_refused() {
    let is_output = |model: &mut Model, y| model.output(y, 16);
    one(&[12, 3, 1, 1], &[], |model, y| model.output(y, 12)).refuses("no width of blocks fits");
    one(&[16, 17, 1, 1], &[], is_output).refuses("no width of blocks fits");
    one(&[16, 0, 1, 1], &[], is_output).refuses("weights of dimensions [16, 0, 1, 1]");
    one(&[16, 3, 1], &[], is_output).refuses("weights of dimensions [16, 3, 1]");
    one(&[16, 3, 1, 1], &[("group", 0.into())], is_output).refuses("it has no groups");
    one(&[16, 3, 1, 1], &[("group", 2.into())], is_output).refuses("2 groups of an image");
    one(&[16, 3, 1, 1], &[("group", "2".into())], is_output).refuses("of another kind");
    one(&[16, 3, 1, 1], &[("activation", "Mish".into())], is_output).refuses("\"Mish\"");
    one(&[16, 3, 1, 1], &[("activation", "Clip".into())], is_output).refuses("with 0 parameters");
    one(&[16, 3, 1, 1], &[("blocks", 16.into())], is_output).refuses("attribute \"blocks\"");
    one(&[16, 3, 1, 1], &[], |model, y| model.output(y, 17)).refuses("no width of blocks fits");
    one(&[16, 3, 1, 1], &[], |model, y| model.output(y, 0)).refuses("it has no channels");
    one(&[16, 3, 1, 1], &[], |model, y| model.output(y, usize::MAX >> 1)).refuses("no width of blocks fits");
    one(&[16, 3, 1, 1], &[], |model, y| model.build.output("y", y)).refuses("an output whose channels are in blocks");
    one(&[16, 3, 1, 1], &[], |model, y| {
        let y = model.op("MaxPool", &[y], &[]);
        model.output(y, 16);
    })
    .refuses("attribute kernel_shape is missing");
    for (attrs, part) in [
        (vec![], "attribute scales = []"),
        (vec![("scales", [1, 2, 2, 2].into())], "attribute scales = [1, 2, 2, 2]"),
        (vec![("scales", [1, 1, 2, 2].into()), ("mode", "cubic".into())], "attribute \"mode\" = \"cubic\""),
    ] {
        one(&[16, 3, 1, 1], &[], |model, y| {
            let y = model.op("Upsample", &[y], &attrs);
            model.output(y, 16);
        })
        .refuses(part);
    }
    one(&[32, 3, 1, 1], &[], |model, y| {
        model.output(y, 20);
        let other = model.op("ReorderOutput", &[y], &[("channels", 21.into())]);
        model.build.output("z", other);
    })
    .refuses("21 channels of a value that has 20");
}

#[test]
fn operators_that_know_no_blocks_are_refused_with_the_value() {
    let with = |then: &dyn Fn(&mut Model, ValueId) -> ValueId, part| {
        one(&[16, 3, 1, 1], &[], |model, y| {
            let y = then(model, y);
            model.build.output("y", y);
        })
        .refuses(part);
    };
    let softmax = |model: &mut Model, y| model.build.op("Softmax", &[y], &[("axis", 1.into())]);
    with(&softmax, "an operator beside com.microsoft.nchwc that reads");
    let reshape = |model: &mut Model, y| {
        let shape = model.build.constant(Tensor::from_slice([2], &[0i64, -1]).expect("a list"));
        model.build.op("Reshape", &[y, shape], &[])
    };
    with(&reshape, "whose channels are in blocks");
    let plain = |model: &mut Model, y| {
        let bias = model.build.constant(tensor(&[1, 16, 1, 1], vec![1.0; 16]));
        model.build.op("Add", &[y, bias], &[])
    };
    with(&plain, "whose channels are in blocks");
    with(&|model, y| model.op("ReorderInput", &[y], &[]), "the channels of its input are in blocks");
    with(&|model, y| model.op("Softmax", &[y], &[]), "operator \"Softmax\" of com.microsoft.nchwc");
    let image = |model: &mut Model, _| {
        let x = model.build.constant(tensor(&[1, 16, 1, 1], vec![1.0; 16]));
        model.op("GlobalMaxPool", &[x], &[])
    };
    with(&image, "the channels of its input 0 are not in blocks");
}

#[test]
fn weights_that_a_request_gives_are_refused() {
    let mut model = Model::new();
    let x = model.image(Some(3));
    let weights = model.build.input("w", DType::F32, [16, 3, 1, 1].map(Dim::Fixed));
    let y = model.op("Conv", &[x, weights], &[]);
    model.output(y, 16);
    model.refuses("its input 1 is no constant of floats");
}
