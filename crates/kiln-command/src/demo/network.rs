//! The demo's network: a small image classifier with every kind of layer that matters here, built in memory with random
//! but fixed weights. Its classifications are meaningless.

use kiln_model::{Attr, Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, TensorSpec};

use crate::values::{Fill, Recipe, RecipeError};

/// The name of the only input, `[N, 3, H, W]`.
pub(super) const INPUT: &str = "image";

/// The operator set that the nodes are meant for.
const OPSET: i64 = 17;

/// The network.
pub(super) fn graph() -> Result<Graph, RecipeError> {
    let mut net = Network { graph: GraphBuilder::new("demo", OPSET), weights: 0 };
    let image = net.graph.input(INPUT, DType::F32, ["N".into(), 3.into(), "H".into(), "W".into()]);

    let stem = net.conv(image, [24, 3, 3, 3], 1, 2)?;
    let stem = net.graph.op("Relu", &[stem], &[]);
    // A residual block: reduce, filter by channel, expand, add.
    let reduced = net.conv(stem, [24, 24, 1, 1], 1, 1)?;
    let reduced = net.graph.op("Relu", &[reduced], &[]);
    let filtered = net.conv(reduced, [24, 1, 3, 3], 24, 1)?;
    let filtered = net.graph.op("Relu", &[filtered], &[]);
    let expanded = net.conv(filtered, [24, 24, 1, 1], 1, 1)?;
    let block = net.graph.op("Add", &[expanded, stem], &[]);
    let block = net.graph.op("Relu", &[block], &[]);
    let two_by_two = || Attr::Ints(vec![2, 2]);
    let pooled = net.graph.op("MaxPool", &[block], &[("kernel_shape", two_by_two()), ("strides", two_by_two())]);
    let wide = net.conv(pooled, [48, 24, 3, 3], 1, 1)?;
    let wide = net.graph.op("Relu", &[wide], &[]);
    // The classifier.
    let mean = net.graph.op("GlobalAveragePool", &[wide], &[]);
    let flat = net.graph.op("Flatten", &[mean], &[("axis", Attr::Int(1))]);
    let (weight, bias) = (net.weight(&[48, 10])?, net.weight(&[10])?);
    let scores = net.graph.op("Gemm", &[flat, weight, bias], &[]);
    let output = net.graph.op("Softmax", &[scores], &[("axis", Attr::Int(-1))]);
    net.graph.output("probabilities", output);
    Ok(net.graph.finish())
}

struct Network {
    graph: GraphBuilder,
    /// The number of weights so far: the seed of the next one, so that no two are equal.
    weights: u32,
}

impl Network {
    /// A convolution that keeps the size (divided by `stride`), with a bias.
    fn conv(&mut self, input: ValueId, kernel: [usize; 4], group: i64, stride: i64) -> Result<ValueId, RecipeError> {
        let weight = self.weight(&kernel)?;
        let bias = self.weight(&kernel[..1])?;
        let pad = (kernel[2] / 2) as i64;
        let attrs = [
            ("kernel_shape", Attr::Ints(vec![kernel[2] as i64, kernel[3] as i64])),
            ("pads", Attr::Ints(vec![pad; 4])),
            ("strides", Attr::Ints(vec![stride; 2])),
            ("group", Attr::Int(group)),
        ];
        Ok(self.graph.op("Conv", &[input, weight, bias], &attrs))
    }

    /// Random weights of a size that keeps values about as large from layer to layer.
    fn weight(&mut self, shape: &[usize]) -> Result<ValueId, RecipeError> {
        let spec = TensorSpec::new(DType::F32, shape.iter().copied());
        let recipe = Recipe { name: "weight".to_owned(), spec, fill: Fill::Random(7), place: self.weights };
        self.weights += 1;
        let mut tensor = recipe.make()?;
        // He's rule for ReLU: the variance of a uniform value from -1 to 1 is a third. Biases are small.
        let he = |inputs: usize| (6.0 / inputs as f32).sqrt();
        let scale = match shape {
            [_] => 0.1,
            [inputs, _] => he(*inputs),
            _ => he(shape[1..].iter().product()),
        };
        if let Ok(values) = tensor.as_mut_slice::<f32>() {
            values.iter_mut().for_each(|value| *value *= scale);
        }
        Ok(self.graph.constant(tensor))
    }
}
