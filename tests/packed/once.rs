//! Weights that nodes look at before they pack them are in a file once: where packed weights lie ready, no node looks
//! at the originals.

use kiln::session::Session;
use kiln_model::ir::{Attr, Dim};
use kiln_model::{Graph, GraphBuilder};
use kiln_tensor::{DType, Tensor};

use crate::models::tensor;
use crate::{expect_same, load, options};

/// A product by codes of `bits` bits.
fn of_codes(bits: usize, has_zeros: bool, [k, n]: [usize; 2]) -> Graph {
    let mut build = GraphBuilder::new("codes", 17);
    let x = build.input("x", DType::F32, [Dim::Any, k.into()]);
    let of = |shape: &[usize]| {
        let bytes = (0..shape.iter().product()).map(|at: usize| (at * 37 % 251) as u8).collect();
        Tensor::from_vec(shape.iter().copied(), bytes).unwrap()
    };
    let codes = build.constant(of(&[n, k / 32, 32 * bits / 8]));
    let scales = build.constant(tensor(&[n * k / 32], 3));
    let zeros = has_zeros.then(|| build.constant(of(&[n * k / 32 * bits / 8])));
    let attrs = [
        ("K", Attr::Int(k as i64)),
        ("N", Attr::Int(n as i64)),
        ("bits", Attr::Int(bits as i64)),
        ("block_size", Attr::Int(32)),
    ];
    let y = build.op_of("com.microsoft", "MatMulNBits", &[Some(x), Some(codes), Some(scales), zeros], &attrs);
    build.output("y", y);
    build.finish()
}

#[test]
fn codes_of_four_and_of_eight_bits_are_in_a_file_once() {
    let [k, n] = [512, 640];
    for (bits, has_zeros) in [(4, false), (4, true), (8, false), (8, true)] {
        let graph = || of_codes(bits, has_zeros, [k, n]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.kpk");
        let report = Session::pack_graph(graph(), &path, &options()).unwrap();
        let weights = 2 + usize::from(has_zeros);
        assert_eq!((report.constants, report.packed_only), (0, weights), "{bits} {has_zeros}: {report:?}");
        // Codes, and the kernels' data for each block of 32: a scale, a zero point or their product.
        let most = 4096 + n * k * bits / 8 + n * k / 32 * 12 + 16_384;
        assert!(report.bytes < most as u64, "{bits} {has_zeros}: {report:?}, {most}");
        let request = vec![("x".to_owned(), tensor(&[3, k], 8))];
        let plain = Session::from_graph(graph(), &options()).unwrap();
        expect_same(&plain, &load(&path), &[request], &format!("{bits} {has_zeros}"));
    }
}

/// Products by bytes. In one, the bytes less their zero point take nine bits.
fn of_bytes(size: usize) -> Graph {
    let mut build = GraphBuilder::new("bytes", 17);
    let x = build.input("x", DType::U8, [Dim::Any, size.into()]);
    for zero in [0u8, 128] {
        let codes = (0..size * size).map(|at| (at * 37 % 251) as u8).collect();
        let weights = build.constant(Tensor::from_vec([size, size], codes).unwrap());
        let zeros = [3u8, zero].map(|zero| build.constant(Tensor::scalar(zero)));
        let y = build.op("MatMulInteger", &[x, weights, zeros[0], zeros[1]], &[]);
        build.output(&format!("y{zero}"), y);
    }
    build.finish()
}

#[test]
fn quantised_weights_are_in_a_file_once() {
    let size = 320;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.kpk");
    let report = Session::pack_graph(of_bytes(size), &path, &options()).unwrap();
    assert_eq!((report.panels, report.packed_only), (2, 2), "{report:?}");
    let x: Vec<u8> = (0..2 * size).map(|at| (at % 255) as u8).collect();
    let request = vec![("x".to_owned(), Tensor::from_vec([2, size], x).unwrap())];
    let plain = Session::from_graph(of_bytes(size), &options()).unwrap();
    expect_same(&plain, &load(&path), &[request], "bytes");
}
