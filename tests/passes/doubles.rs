//! Networks of `f64` keep the digits that `f32` has no room for, whatever passes do to them.

use kiln_model::ir::Dim;
use kiln_model::passes::{self, PassOptions};
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};

use super::outputs;

/// The error that remains for sums of some hundred products with every digit; `f32` gives 1e-7.
const TOLERANCE: f64 = 1e-12;

/// Numbers between -1 and 1 with digits in every place.
fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let number = |at: usize| ((at * 37 + seed * 11) as f64 * 0.734_651_983_273).sin();
    Tensor::from_vec(shape.iter().copied(), (0..shape.iter().product()).map(number).collect()).unwrap()
}

struct Network {
    build: GraphBuilder,
    /// Spatial dimensions.
    axes: usize,
}

impl Network {
    fn every(&self, value: i64) -> Vec<i64> {
        vec![value; self.axes]
    }

    fn conv(&mut self, op: &str, x: ValueId, weights: [usize; 2], group: i64) -> ValueId {
        let shape: Vec<usize> = weights.into_iter().chain(std::iter::repeat_n(3, self.axes)).collect();
        let weights = self.build.constant(numbers(&shape, weights[1]));
        let pads = vec![1i64; 2 * self.axes];
        self.build.op(op, &[x, weights], &[("pads", pads.into()), ("group", group.into())])
    }

    fn pool(&mut self, op: &str, x: ValueId) -> ValueId {
        let (kernel, strides) = (self.every(2), self.every(2));
        self.build.op(op, &[x], &[("kernel_shape", kernel.into()), ("strides", strides.into())])
    }

    fn row(&mut self, seed: usize) -> ValueId {
        let row: Vec<f64> = numbers(&[6], seed).as_slice::<f64>().unwrap().iter().map(|x| x + 1.5).collect();
        self.build.constant(Tensor::from_vec([6], row).unwrap())
    }
}

/// Layers of `f64`. In `f32`, passes would fuse them, fold them into one another and lay them out anew.
fn network(axes: usize) -> Graph {
    let mut net = Network { build: GraphBuilder::new("doubles", 17), axes };
    let sizes = ["H", "W", "D"].map(Dim::from).into_iter().take(axes);
    let dims: Vec<Dim> = ["N".into(), 4.into()].into_iter().chain(sizes).collect();
    let x = net.build.input("x", DType::F64, dims);
    let first = net.conv("Conv", x, [6, 4], 1);
    let [scale, shift, mean, variance] = [1, 2, 3, 4].map(|seed| net.row(seed));
    let normal = net.build.op("BatchNormalization", &[first, scale, shift, mean, variance], &[]);
    let first = net.build.op("Relu", &[normal], &[]);
    let each = net.conv("Conv", first, [6, 1], 6);
    let added = net.build.op("Add", &[each, first], &[]);
    let half = net.pool("MaxPool", added);
    let back = net.conv("ConvTranspose", half, [6, 6], 1);
    let mixed = net.pool("AveragePool", back);
    let joined = net.build.op("Concat", &[mixed, mixed], &[("axis", 1i64.into())]);
    let last = net.conv("Conv", joined, [5, 12], 1);
    let clipped = net.build.op("Sigmoid", &[last], &[]);
    let whole = net.build.op("GlobalAveragePool", &[clipped], &[]);
    for (name, value) in [("last", last), ("whole", whole)] {
        net.build.output(name, value);
    }
    net.build.finish()
}

fn distance(expected: &Tensor, found: &Tensor) -> f64 {
    assert_eq!(expected.spec(), found.spec());
    let (a, b) = (expected.as_slice::<f64>().unwrap(), found.as_slice::<f64>().unwrap());
    let scale = a.iter().fold(0f64, |scale, value| scale.max(value.abs()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs() / scale).fold(0.0, f64::max)
}

#[test]
fn networks_of_doubles_are_computed_in_doubles() {
    for (axes, sizes) in [(1, [[12, 0, 0], [9, 0, 0]]), (2, [[8, 10, 0], [4, 5, 0]]), (3, [[4, 6, 5], [8, 4, 4]])] {
        let graph = network(axes);
        let requests: Vec<Vec<(String, Tensor)>> = [1, 2]
            .into_iter()
            .zip(sizes)
            .map(|(batch, sizes)| {
                let shape: Vec<usize> = [batch, 4].into_iter().chain(sizes.into_iter().take(axes)).collect();
                vec![("x".to_owned(), numbers(&shape, 5))]
            })
            .collect();
        let expected = outputs(&graph, PassOptions::none(), &requests).unwrap();
        let alone = passes::names().into_iter().map(|name| (name, PassOptions::none().with(name)));
        for (name, options) in [("all", PassOptions::default())].into_iter().chain(alone) {
            let found = outputs(&graph, options, &requests).unwrap();
            for (request, (expected, found)) in expected.iter().zip(&found).enumerate() {
                for (output, (expected, found)) in expected.iter().zip(found).enumerate() {
                    let distance = distance(expected, found);
                    assert!(distance < TOLERANCE, "{axes}, {name}, request {request}, output {output}: {distance}");
                }
            }
        }
    }
}
