//! Weights of products, rounded to integers when a session loads: the results are those of a network whose weights were
//! rounded so beforehand, and a caller who does not ask for it gets the model's own numbers.

use half::f16;
use kiln::session::{Precision, Session, SessionOptions};
use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, ValueId};
use kiln_run::record::CacheMode;
use kiln_tensor::{DType, Tensor};

use super::distance;

/// Sizes of the layers: reductions with a shorter last block, and columns that fill no vector.
const SIZES: [usize; 4] = [96, 50, 70, 33];

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).collect()
}

/// A matrix by its rows. Each column is rounded in blocks of 32 rows: the number farthest from zero becomes the least
/// integer of `bits` bits.
fn rounded(matrix: &[f32], columns: usize, bits: u32) -> Vec<f32> {
    let (mut to, most) = (matrix.to_vec(), f32::powi(2.0, bits as i32 - 1));
    let rows = matrix.len() / columns;
    for column in 0..columns {
        for first in (0..rows).step_by(32) {
            let places: Vec<usize> = (first..rows.min(first + 32)).map(|row| row * columns + column).collect();
            let far = places.iter().map(|&at| matrix[at]).fold(0.0, |a: f32, b| if b.abs() > a.abs() { b } else { a });
            let scale = far / -most;
            for at in places {
                to[at] = (matrix[at] / scale).round().clamp(-most, most - 1.0) * scale;
            }
        }
    }
    to
}

/// Three layers, each a product and a bias, with weights rounded to `bits` bits. One layer has a transposed matrix.
fn network(bits: Option<u32>, dtype: DType) -> kiln_model::Graph {
    let mut build = GraphBuilder::new("layers", 20);
    let mut value: ValueId = build.input("x", dtype, ["n".into(), SIZES[0].into()]);
    let constant = |build: &mut GraphBuilder, shape: &[usize], numbers: &[f32]| {
        let halves = || numbers.iter().map(|&number| f16::from_f32(number)).collect();
        build.constant(match dtype {
            DType::F16 => Tensor::from_vec(shape.iter().copied(), halves()).unwrap(),
            _ => Tensor::from_vec(shape.iter().copied(), numbers.to_vec()).unwrap(),
        })
    };
    for (layer, sizes) in SIZES.windows(2).enumerate() {
        let &[k, n] = sizes else { unreachable!("two sizes") };
        let matrix: Vec<f32> =
            numbers(k * n, layer).iter().map(|&number| f16::from_f32(number * 0.2).to_f32()).collect();
        let matrix = bits.map_or(matrix.clone(), |bits| rounded(&matrix, n, bits));
        let bias = constant(&mut build, &[n], &numbers(n, layer + 9));
        value = if layer == 1 {
            let turned: Vec<f32> = (0..k * n).map(|at| matrix[at % k * n + at / k]).collect();
            let weights = constant(&mut build, &[n, k], &turned);
            build.op("Gemm", &[value, weights, bias], &[("transB", Attr::Int(1))])
        } else {
            let weights = constant(&mut build, &[k, n], &matrix);
            let product = build.op("MatMul", &[value, weights], &[]);
            build.op("Add", &[product, bias], &[])
        };
        value = build.op("Tanh", &[value], &[]);
    }
    build.output("y", value);
    build.finish()
}

/// The output for `rows` rows.
fn output(graph: kiln_model::Graph, precision: Precision, rows: usize, dtype: DType) -> Tensor {
    let options = SessionOptions { threads: 2, precision, cache_mode: CacheMode::Memory, ..SessionOptions::default() };
    let session = Session::from_graph(graph, &options).unwrap();
    let x = numbers(rows * SIZES[0], 77);
    let x = match dtype {
        DType::F16 => Tensor::from_vec([rows, SIZES[0]], x.iter().map(|&x| f16::from_f32(x)).collect()).unwrap(),
        _ => Tensor::from_vec([rows, SIZES[0]], x).unwrap(),
    };
    let y = session.run(&[("x", x)]).unwrap().remove(0).1;
    match dtype {
        DType::F16 => {
            let wide = y.as_slice::<f16>().unwrap().iter().map(|y| y.to_f32()).collect();
            Tensor::from_vec(y.shape().iter().copied(), wide).unwrap()
        }
        _ => y,
    }
}

#[test]
fn sessions_round_weights_as_a_quantiser_does_beforehand() {
    for (precision, bits) in [(Precision::Int4, 4), (Precision::Int8, 8)] {
        for rows in [1, 3, 20] {
            let found = output(network(None, DType::F32), precision, rows, DType::F32);
            let expected = output(network(Some(bits), DType::F32), Precision::F32, rows, DType::F32);
            assert!(distance(&expected, &found).unwrap() < 1e-5, "{precision} {rows}");
            let exact = output(network(None, DType::F32), Precision::F32, rows, DType::F32);
            assert!(distance(&exact, &found).unwrap() > 1e-4, "nothing was rounded");
        }
    }
}

#[test]
fn weights_in_half_precision_are_rounded_too() {
    let found = output(network(None, DType::F16), Precision::Int8, 5, DType::F16);
    let exact = output(network(None, DType::F16), Precision::F32, 5, DType::F16);
    let distance = distance(&exact, &found).unwrap();
    assert!(distance > 0.0 && distance < 0.05, "{distance}");
}
