//! A network in the form of a U. Its convolutions read the parts that its Concats would have joined: the bits are the
//! same at any size, whichever way they are computed.

use kiln::session::{Session, SessionOptions};
use kiln_kernels::cpu::{Numerics, Precision};
use kiln_model::passes::PassOptions;
use kiln_model::{Attr, Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};

/// Numbers between -1 and 1 that look random.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((((at + seed * 977) * 2_654_435_761) >> 7) % 2001) as f32 / 1000.0 - 1.0).collect()
}

fn conv(build: &mut GraphBuilder, x: ValueId, [channels, filters]: [usize; 2]) -> ValueId {
    let weights = numbers(filters * channels * 9, filters + channels).iter().map(|w| w / 12.0).collect();
    let weights = build.constant(Tensor::from_vec([filters, channels, 3, 3], weights).unwrap());
    let made = build.op("Conv", &[x, weights], &[("pads", [1i64; 4].into())]);
    build.op("Relu", &[made], &[])
}

/// Down and up again, joined with the values from the way down; the second Concat has three parts.
fn network() -> Graph {
    let mut build = GraphBuilder::new("u", 17);
    let x = build.input("x", DType::F32, ["N".into(), 3.into(), "H".into(), "W".into()]);
    let first = conv(&mut build, x, [3, 32]);
    let two: Attr = [2i64, 2].into();
    let half = build.op("MaxPool", &[first], &[("kernel_shape", two.clone()), ("strides", two.clone())]);
    let inner = conv(&mut build, half, [32, 64]);
    let side = conv(&mut build, half, [32, 40]);
    let inner = build.op("Concat", &[inner, side], &[("axis", 1i64.into())]);
    let inner = conv(&mut build, inner, [104, 64]);
    let weights = build.constant(Tensor::from_vec([64, 32, 2, 2], numbers(64 * 32 * 4, 3)).unwrap());
    let up = build.op("ConvTranspose", &[inner, weights], &[("strides", two)]);
    let again = conv(&mut build, up, [32, 32]);
    let all = build.op("Concat", &[first, up, again], &[("axis", (-3i64).into())]);
    let last = conv(&mut build, all, [96, 20]);
    build.output("y", last);
    build.finish()
}

#[test]
fn reading_parts_gives_the_bits_of_joining_them() {
    let graph = network();
    let requests: Vec<Tensor> = [[1, 3, 40, 24], [2, 3, 2, 4], [1, 3, 16, 16], [1, 3, 40, 24]]
        .iter()
        .map(|shape| Tensor::from_vec(shape.iter().copied(), numbers(shape.iter().product(), 7)).unwrap())
        .collect();
    for (precision, numerics, threads) in [
        (Precision::F32, Numerics::Default, 1),
        (Precision::F32, Numerics::Default, 2),
        (Precision::F32, Numerics::Strict, 1),
        (Precision::Bf16, Numerics::Default, 2),
    ] {
        let run = |passes: PassOptions| -> Vec<Tensor> {
            let options = SessionOptions { threads, precision, numerics, passes, ..SessionOptions::default() };
            let session = Session::from_graph(graph.clone(), &options).unwrap();
            let outputs = requests.iter().map(|x| session.run(&[("x", x.clone())]).unwrap().remove(0).1);
            outputs.collect()
        };
        let (joined, parts) = (run(PassOptions::default().without("concat")), run(PassOptions::default()));
        for (joined, parts) in joined.iter().zip(&parts) {
            assert!(joined.same(parts), "{precision} {numerics} on {threads} threads: {:?}", joined.shape());
        }
    }
}
