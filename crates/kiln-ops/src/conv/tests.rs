//! Conv and ConvTranspose as ONNX has them: attributes, padding, both layouts.

use std::sync::Arc;

use kiln_kernels::cpu::chain::{Program, Step, Storage};
use kiln_kernels::cpu::conv::Strategy;
use kiln_kernels::{Serial, reference};
use kiln_model::{Attr, Graph, NodeDesc};
use kiln_run::inference::Inference;
use kiln_tensor::BufferPool;
use smallvec::smallvec;

use super::super::trial::{Trial, build_cx};
use super::*;

fn count(shape: &[usize]) -> Vec<f32> {
    (0..shape.iter().product::<usize>()).map(|i| (i % 11) as f32 - 5.0).collect()
}

fn conv(op: &str, input: &[usize], weights: &[usize]) -> Trial {
    Trial::new(op).input(input, &count(input)).input(weights, &count(weights))
}

/// Attributes by name.
fn with(trial: Trial, attributes: &[(&str, &[i64])]) -> Trial {
    attributes.iter().fold(trial, |trial, (name, values)| trial.ints(name, values))
}

#[test]
fn a_known_convolution_with_and_without_padding() {
    let x: Vec<f32> = (0..25).map(|i| i as f32).collect();
    let trial = || Trial::new("Conv").input(&[1, 1, 5, 5], &x).input(&[1, 1, 3, 3], &[1.0f32; 9]);
    trial().gives(&[1, 1, 3, 3], &[54.0f32, 63., 72., 99., 108., 117., 144., 153., 162.]);
    let padded = with(trial(), &[("pads", &[1, 1, 1, 1]), ("kernel_shape", &[3, 3])]);
    #[rustfmt::skip]
    padded.gives(&[1, 1, 5, 5], &[
        12.0f32, 21., 27., 33., 24., 33., 54., 63., 72., 51., 63., 99., 108., 117., 81.,
        93., 144., 153., 162., 111., 72., 111., 117., 123., 84.,
    ]);
    let strided = with(trial(), &[("strides", &[2, 2])]).text("auto_pad", "SAME_LOWER");
    strided.gives(&[1, 1, 3, 3], &[12.0f32, 27., 24., 63., 108., 81., 72., 117., 84.]);
}

#[test]
fn output_sizes_follow_from_the_attributes() {
    type Row = (
        &'static str,
        &'static [usize],
        &'static [usize],
        &'static [(&'static str, &'static [i64])],
        &'static str,
        &'static [usize],
    );
    let rows: [Row; 14] = [
        ("Conv", &[2, 3, 7], &[4, 3, 3], &[], "NOTSET", &[2, 4, 5]),
        ("Conv", &[2, 3, 7, 8], &[4, 3, 3, 2], &[("strides", &[2, 3])], "NOTSET", &[2, 4, 3, 3]),
        ("Conv", &[1, 3, 7, 8], &[4, 3, 3, 3], &[("strides", &[2, 2])], "SAME_UPPER", &[1, 4, 4, 4]),
        ("Conv", &[1, 3, 7, 8], &[4, 3, 3, 3], &[("pads", &[1, 1, 1, 1])], "VALID", &[1, 4, 5, 6]),
        ("Conv", &[1, 3, 9, 9], &[4, 3, 3, 3], &[("dilations", &[2, 3])], "NOTSET", &[1, 4, 5, 3]),
        ("Conv", &[1, 3, 9, 9], &[4, 3, 3, 3], &[("pads", &[0, 1, 2, 3])], "NOTSET", &[1, 4, 9, 11]),
        ("Conv", &[1, 3, 4, 5, 6], &[4, 3, 2, 2, 2], &[], "NOTSET", &[1, 4, 3, 4, 5]),
        ("Conv", &[0, 3, 7, 8], &[4, 3, 3, 3], &[], "NOTSET", &[0, 4, 5, 6]),
        ("ConvTranspose", &[1, 3, 4, 5], &[3, 2, 3, 3], &[], "NOTSET", &[1, 2, 6, 7]),
        (
            "ConvTranspose",
            &[1, 3, 4, 5],
            &[3, 2, 3, 3],
            &[("strides", &[3, 2]), ("output_padding", &[1, 1])],
            "NOTSET",
            &[1, 2, 13, 12],
        ),
        (
            "ConvTranspose",
            &[1, 3, 4, 5],
            &[3, 2, 3, 3],
            &[("strides", &[3, 2]), ("output_shape", &[10, 8])],
            "NOTSET",
            &[1, 2, 10, 8],
        ),
        ("ConvTranspose", &[1, 3, 4, 5], &[3, 2, 3, 3], &[("strides", &[2, 2])], "SAME_UPPER", &[1, 2, 8, 10]),
        (
            "ConvTranspose",
            &[1, 3, 4, 5],
            &[3, 2, 3, 3],
            &[("strides", &[2, 2]), ("pads", &[1, 2, 1, 2])],
            "NOTSET",
            &[1, 2, 7, 7],
        ),
        ("ConvTranspose", &[1, 3, 6], &[3, 2, 3], &[("dilations", &[2])], "NOTSET", &[1, 2, 10]),
    ];
    for (op, input, weights, attributes, auto_pad, output) in rows {
        let trial = with(conv(op, input, weights), attributes).text("auto_pad", auto_pad);
        let found = trial.run().unwrap_or_else(|error| panic!("{op} {input:?} {attributes:?}: {error}"));
        assert_eq!(found[0].shape(), output, "{op} {input:?} {attributes:?} {auto_pad}");
    }
}

#[test]
fn a_known_transposed_convolution() {
    let x: Vec<f32> = (0..9).map(|i| i as f32).collect();
    let trial = Trial::new("ConvTranspose").input(&[1, 1, 3, 3], &x).input(&[1, 2, 3, 3], &[1.0f32; 18]);
    #[rustfmt::skip]
    let plane = [
        0.0f32, 1., 3., 3., 2., 3., 8., 15., 12., 7., 9., 21., 36., 27., 15.,
        9., 20., 33., 24., 13., 6., 13., 21., 15., 8.,
    ];
    trial.gives(&[1, 2, 5, 5], &[plane, plane].concat());
}

/// Moves the channels of each image last.
fn transposed(values: &[f32], [batch, channels, positions]: [usize; 3]) -> Vec<f32> {
    let mut to = Vec::with_capacity(values.len());
    for image in 0..batch {
        for position in 0..positions {
            to.extend((0..channels).map(|channel| values[(image * channels + channel) * positions + position]));
        }
    }
    to
}

#[test]
fn channels_last_is_the_same_convolution_in_another_order() {
    let relu =
        Program { inputs: smallvec![Storage::F32], steps: vec![Step::Unary(UnaryOp::Relu, 0)], output: Storage::F32 };
    let relu = Arc::new(relu);
    let (x, w, bias, residual) = (count(&[2, 6, 5, 4]), count(&[4, 3, 3, 3]), count(&[4]), count(&[2, 4, 5, 4]));
    let run = |last: bool| {
        let mut trial = Trial::new("FusedConv").made_by(make).int("group", 2).ints("pads", &[1, 1, 1, 1]);
        trial = trial.attr("activation", Attr::Chain(relu.clone()));
        trial = if last {
            trial.int("channels_last", 1).input(&[2, 5, 4, 6], &transposed(&x, [2, 6, 20]))
        } else {
            trial.input(&[2, 6, 5, 4], &x)
        };
        trial = trial.input(&[4, 3, 3, 3], &w).input(&[4], &bias);
        trial = if last {
            trial.input(&[2, 5, 4, 4], &transposed(&residual, [2, 4, 20]))
        } else {
            trial.input(&[2, 4, 5, 4], &residual)
        };
        trial.run().unwrap().remove(0)
    };
    let (first, last) = (run(false), run(true));
    assert_eq!(first.shape(), [2, 4, 5, 4]);
    assert_eq!(last.shape(), [2, 5, 4, 4]);
    assert_eq!(transposed(first.as_slice().unwrap(), [2, 4, 20]), last.as_slice::<f32>().unwrap());
    assert!(first.as_slice::<f32>().unwrap().iter().any(|&value| value > 0.0));
}

#[test]
fn a_node_that_let_go_of_its_weights_convolves_directly_and_on_tiles() {
    let (channels, filters) = (16, 24);
    let weights = count(&[filters, channels, 3, 3]);
    let mut graph = Graph::default();
    let constant = Tensor::from_slice([filters, channels, 3, 3], &weights).unwrap();
    let inputs = vec![Some(graph.fresh("x")), Some(graph.add_constant("w", constant))];
    let mut desc = NodeDesc { op: "Conv".to_owned(), version: 26, inputs, ..NodeDesc::default() };
    desc.outputs = [graph.fresh("y")].into_iter().map(Some).collect();
    desc.attrs.insert("pads".to_owned(), Attr::Ints(vec![1; 4]));
    let build = build_cx();
    let node = make(&LoadCx { node: &desc, graph: &graph, build: &build, packing: &build.isa.into() }).unwrap();
    drop(graph);
    let mut strategies = Vec::new();
    let mut packed: Option<Arc<Packed>> = None;
    for size in [1, 28, 2, 13, 28] {
        let x = count(&[1, channels, size, size]);
        let tensor = Tensor::from_slice([1, channels, size, size], &x).unwrap();
        let hollow = Tensor::hollow(TensorSpec::new(DType::F32, [filters, channels, 3, 3]));
        let specs = Inference::of(&desc).specs(node.as_ref(), &[Some(&tensor), Some(&hollow)]).unwrap();
        let prepared = node.prepare_params(&PrepareCx::new(&build), &[Some(&tensor), None], &specs).unwrap();
        let ready: &Ready = prepared.get().unwrap();
        strategies.push(ready.conv.blocks().strategy);
        let same = ready.weights.clone().unwrap();
        assert!(packed.replace(same.clone()).is_none_or(|packed| Arc::ptr_eq(&packed, &same)), "packed again");
        let expected = reference::conv::conv(&ready.shape, &transposed(&x, [1, channels, size * size]), &weights);
        let buffers = BufferPool::new(1 << 20);
        let mut io = Io::new([Some(tensor), None].into_iter().collect(), &specs, &buffers);
        node.execute(&prepared, &mut io, &RunCx { parallel: &Serial, buffers: &buffers, steps: 0, stop: None })
            .unwrap();
        let found = io.into_outputs().remove(0);
        let found = transposed(found.as_slice().unwrap(), [1, filters, size * size]);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 0.02, "{size}: {found} for {expected} at {index}");
        }
    }
    let on_tiles = |strategy: &Strategy| matches!(strategy, Strategy::Winograd(_));
    assert!(strategies.iter().any(on_tiles) && !strategies.iter().all(on_tiles), "{strategies:?}");
}

#[test]
fn the_output_takes_the_place_of_a_residual_that_nobody_else_holds() {
    let shapes: [&[usize]; 4] = [&[2, 5, 4, 6], &[7, 6, 1, 1], &[7], &[2, 5, 4, 7]];
    let [x, weights, bias, residual] =
        shapes.map(|shape| Tensor::from_slice(shape.iter().copied(), &count(shape)).unwrap());
    let mut graph = Graph::default();
    let constant = graph.add_constant("w", weights);
    let inputs = [graph.fresh("x"), constant, graph.fresh("bias"), graph.fresh("residual")];
    let mut desc = NodeDesc { op: "FusedConv".to_owned(), inputs: inputs.map(Some).to_vec(), ..NodeDesc::default() };
    desc.domain = "kiln".to_owned();
    desc.outputs = vec![Some(graph.fresh("y"))];
    desc.attrs.insert("channels_last".to_owned(), Attr::Int(1));
    let build = build_cx();
    let node = make(&LoadCx { node: &desc, graph: &graph, build: &build, packing: &build.isa.into() }).unwrap();
    let run = |residual: Tensor| {
        let hollow = Tensor::hollow(TensorSpec::new(DType::F32, shapes[1].iter().copied()));
        let specs = Inference::of(&desc)
            .specs(node.as_ref(), &[Some(&x), Some(&hollow), Some(&bias), Some(&residual)])
            .unwrap();
        let inputs = [Some(&x), None, Some(&bias), Some(&residual)];
        let prepared = node.prepare_params(&PrepareCx::new(&build), &inputs, &specs).unwrap();
        let buffers = BufferPool::new(1 << 20);
        let inputs = [Some(x.clone()), None, Some(bias.clone()), Some(residual)];
        let mut io = Io::new(inputs.into_iter().collect(), &specs, &buffers);
        node.execute(&prepared, &mut io, &RunCx { parallel: &Serial, buffers: &buffers, steps: 0, stop: None })
            .unwrap();
        io.into_outputs().remove(0)
    };
    let before = residual.bytes().to_vec();
    let apart = run(residual.clone());
    assert_eq!(residual.bytes(), before, "somebody else holds it");
    let place = residual.bytes().as_ptr();
    let over = run(residual);
    assert_eq!(over.bytes(), apart.bytes());
    assert_eq!(over.bytes().as_ptr(), place);
    assert_ne!(apart.bytes().as_ptr(), place);
}

#[test]
fn an_input_in_parts_is_read_as_if_it_were_joined() {
    let weights = count(&[8, 40, 3, 3]);
    let conv = |parts: &[(usize, Vec<f32>)], size: usize| {
        let mut trial = Trial::new("FusedConv").made_by(make).int("channels_last", 1).ints("pads", &[1; 4]);
        let part =
            |(channels, values): &(usize, Vec<f32>)| Tensor::from_slice([1, size, size, *channels], values).unwrap();
        trial = trial.tensor(part(&parts[0])).input(&[8, 40, 3, 3], &weights).absent().absent();
        parts[1..].iter().fold(trial, |trial, next| trial.tensor(part(next)))
    };
    // Small ones are convolved directly, which reads the input where it is.
    for size in [2, 28] {
        let x = count(&[1, size, size, 40]);
        let cut = |from: usize, to: usize| (to - from, x.chunks(40).flat_map(|at| at[from..to].to_vec()).collect());
        let whole = conv(&[(40, x.clone())], size).run().unwrap().remove(0);
        for parts in
            [vec![cut(0, 16), cut(16, 40)], vec![cut(0, 3), cut(3, 40)], vec![cut(0, 16), cut(16, 32), cut(32, 40)]]
        {
            let found = conv(&parts, size).run().unwrap().remove(0);
            let (found, expected) = (found.as_slice::<f32>().unwrap(), whole.as_slice::<f32>().unwrap());
            assert_eq!(found, expected, "{size}");
        }
        conv(&[cut(0, 16), cut(16, 39)], size).is_refused("channels");
    }
    let (x, other) = (count(&[1, 2, 2, 16]), count(&[1, 2, 3, 24]));
    let trial = Trial::new("FusedConv").made_by(make).int("channels_last", 1).input(&[1, 2, 2, 16], &x);
    trial.input(&[8, 40, 1, 1], &count(&[8, 40])).absent().absent().input(&[1, 2, 3, 24], &other).is_refused("join");
}

#[test]
fn what_breaks_the_rules_is_refused() {
    conv("Conv", &[1, 3, 7, 8], &[4, 2, 3, 3]).is_refused("channels");
    conv("Conv", &[1, 3, 7], &[4, 3, 3, 3]).is_refused("input of shape");
    conv("Conv", &[1, 3, 2, 2], &[4, 3, 3, 3]).is_refused("does not fit");
    conv("Conv", &[1, 4, 7, 8], &[3, 2, 3, 3]).int("group", 2).is_refused("groups");
    conv("Conv", &[1, 3, 7, 8], &[4, 3, 3, 3]).int("group", 0).is_refused("group 0");
    conv("Conv", &[1, 3, 7, 8], &[4, 3, 3, 3]).text("auto_pad", "MAYBE").is_refused("auto_pad");
    for (name, values) in [
        ("strides", &[0i64, 1][..]),
        ("dilations", &[1, -1]),
        ("kernel_shape", &[3, 2]),
        ("pads", &[1, 1, 1]),
        ("pads", &[1, 1]),
        ("pads", &[1, 1, -1, 1]),
        ("strides", &[1]),
        ("strides", &[i64::MAX, i64::MAX]),
        ("dilations", &[i64::MAX, i64::MAX]),
        ("pads", &[i64::MAX, i64::MAX, i64::MAX, i64::MAX]),
    ] {
        let shape = ("strides", i64::MAX);
        let trial = conv("Conv", &[1, 3, 7, 8], &[4, 3, 3, 3]).ints(name, values);
        trial.is_refused(if (name, values[0]) == shape { "large" } else { "" });
    }
    let bias = conv("Conv", &[1, 3, 7, 8], &[4, 3, 3, 3]).input(&[3], &[0.0f32; 3]);
    bias.is_refused("bias");
    conv("ConvTranspose", &[1, 3, 4, 5], &[3, 2, 3, 3]).ints("strides", &[1 << 40, 1 << 40]).is_refused("");
    conv("Conv", &[1, 3, 2, 2, 2, 2], &[4, 3, 1, 1, 1, 1]).is_refused("spatial dimensions");
}
