//! The library on one page: a model is loaded once and serves requests of any shape.
//!
//! `cargo run --release --example changing_shapes [MODEL.onnx]`: the model takes one input `x` of `f32` whose shape is
//! `[1, length, 8]`; without an argument a small one is written for the occasion.

#![allow(missing_docs, clippy::print_stdout, reason = "an example")]

use std::path::{Path, PathBuf};

use kiln::session::{Session, SessionOptions};
use kiln_model::GraphBuilder;
use kiln_model::onnx;
use kiln_tensor::{DType, Tensor};

/// A model file with one product and a softmax, of any length.
fn small_model(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut graph = GraphBuilder::new("scores", 17);
    let x = graph.input("x", DType::F32, [1.into(), "length".into(), 8.into()]);
    let weights = graph.constant(Tensor::from_vec([8, 16], (0..128).map(|i| (i as f32).sin()).collect())?);
    let product = graph.op("MatMul", &[x, weights], &[]);
    let scores = graph.op("Softmax", &[product], &[("axis", (-1).into())]);
    graph.output("scores", scores);
    let path = folder.join("model.onnx");
    std::fs::write(&path, onnx::write(&graph.finish())?)?;
    Ok(path)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let model = match std::env::args_os().nth(1) {
        Some(argument) => PathBuf::from(argument),
        None => small_model(folder.path())?,
    };

    let session = Session::load(&model, &SessionOptions::default())?;
    for length in [5, 9, 5] {
        let x = Tensor::from_vec([1, length, 8], vec![0.5_f32; length * 8])?;
        let outputs = session.run(&[("x", x)])?;
        let (name, scores) = &outputs[0];
        println!("{name}: {:?}, executors built so far: {}", scores.shape(), session.cache_stats().builds);
    }
    Ok(())
}
