//! Packed models: a file with a graph after its passes and with packed weights gives the same bits as the model. It is
//! refused, with the reason, if it is damaged or meant for something else.

mod auto;
mod damaged;
mod decoders;
#[path = "../passes/draw.rs"]
mod draw;
mod given;
mod models;
mod mutated;
mod once;
mod same;
mod uses;
mod weightless;

use std::path::{Path, PathBuf};

use kiln::session::{Session, SessionOptions};
use kiln_model::Graph;
use kiln_run::record::CacheMode;
use kiln_tensor::Tensor;

/// A request: inputs by name.
type Request = Vec<(String, Tensor)>;

fn options() -> SessionOptions {
    SessionOptions { threads: 1, cache_mode: CacheMode::Memory, ..SessionOptions::default() }
}

/// A folder, and the path of a packed model of that graph in it.
fn packed(graph: &Graph, options: &SessionOptions) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.kpk");
    Session::pack_graph(graph.clone(), &path, options).unwrap_or_else(|error| panic!("{error}"));
    (folder, path)
}

fn load(path: &Path) -> Session {
    Session::load(path, &options()).unwrap_or_else(|error| panic!("{error}"))
}

/// The outputs of each request: names, types, shapes and bytes.
fn outputs(session: &Session, requests: &[Request]) -> Vec<Vec<(String, Tensor)>> {
    let run = |request: &Request| {
        let inputs: Vec<(&str, Tensor)> = request.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        session.run(&inputs).unwrap_or_else(|error| panic!("{error}"))
    };
    requests.iter().map(run).collect()
}

/// Asserts that both sessions give the same bits.
fn expect_same(expected: &Session, found: &Session, requests: &[Request], what: &str) {
    for (expected, found) in outputs(expected, requests).iter().flatten().zip(outputs(found, requests).iter().flatten())
    {
        assert_eq!(expected.0, found.0, "{what}");
        assert!(expected.1.same(&found.1), "{what}: output {}", expected.0);
    }
}
