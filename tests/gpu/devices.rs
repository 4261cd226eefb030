//! The devices that a test runs on, and how a graph is compared between one and the processor.

use std::sync::Arc;

use kiln::session::{Session, SessionOptions};
use kiln_kernels::gpu::emulated::{Emulated, Script};
use kiln_kernels::gpu::{ArenaStats, Device};
use kiln_model::Graph;
use kiln_run::record::CacheMode;
use kiln_tensor::Tensor;

/// A request: inputs by name.
pub(crate) type Request = Vec<(String, Tensor)>;

/// The available devices, by name.
pub(crate) fn devices() -> Vec<(&'static str, Arc<dyn Device>)> {
    let mut devices: Vec<(&'static str, Arc<dyn Device>)> = vec![("emulated", emulated())];
    match real() {
        Ok(device) => devices.push(("cuda", device)),
        Err(why) => eprintln!("skipped on a GPU: {why}"),
    }
    devices
}

/// The emulated device with its usual libraries.
pub(crate) fn emulated() -> Arc<Emulated> {
    Emulated::open(Script::default())
}

#[cfg(feature = "cuda")]
fn real() -> Result<Arc<dyn Device>, String> {
    let knobs = kiln_knobs::Knobs::from_env().map_err(|error| error.to_string())?;
    kiln_kernels::gpu::cuda::open(0, &knobs.cuda_options()).map_err(|error| error.to_string())
}

#[cfg(not(feature = "cuda"))]
fn real() -> Result<Arc<dyn Device>, String> {
    Err("this build has not the feature cuda".to_owned())
}

/// Options of a session on that device, or on the processor.
pub(crate) fn options(device: Option<Arc<dyn Device>>) -> SessionOptions {
    SessionOptions { threads: 1, cache_mode: CacheMode::Memory, device, ..SessionOptions::default() }
}

/// A session on that device.
pub(crate) fn session(graph: &Graph, device: Option<Arc<dyn Device>>) -> Result<Session, String> {
    Session::from_graph(graph.clone(), &options(device)).map_err(|error| error.to_string())
}

/// The outputs of a request.
pub(crate) fn run(session: &Session, request: &Request) -> Result<Vec<Tensor>, String> {
    let inputs: Vec<(&str, Tensor)> = request.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
    Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
}

/// How far `found` is from `expected`, relative to the largest expected element.
pub(crate) fn distance(expected: &Tensor, found: &Tensor) -> f32 {
    assert_eq!(expected.spec(), found.spec());
    let (Ok(a), Ok(b)) = (expected.as_slice::<f32>(), found.as_slice::<f32>()) else {
        return if expected.same(found) { 0.0 } else { f32::INFINITY };
    };
    let scale = a.iter().filter(|value| value.is_finite()).fold(1e-3f32, |scale, value| scale.max(value.abs()));
    let far =
        a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).map(|(a, b)| match (a.is_nan(), b.is_nan()) {
            (true, true) => 0.0,
            (false, false) => (a - b).abs() / scale,
            _ => f32::INFINITY,
        });
    far.fold(0.0, f32::max)
}

/// Runs the requests on the processor and on every device, twice each (the second time by plans), and demands equal
/// results. Returns the sessions on devices for further checks.
pub(crate) fn same_everywhere(what: &str, graph: &Graph, requests: &[Request], tolerance: f32) -> Vec<Session> {
    let plain = session(graph, None).unwrap_or_else(|error| panic!("{what}: {error}"));
    let expected: Vec<Vec<Tensor>> =
        requests.iter().map(|request| run(&plain, request).unwrap_or_else(|error| panic!("{what}: {error}"))).collect();
    let mut sessions = Vec::new();
    for (name, device) in devices() {
        let there = session(graph, Some(device)).unwrap_or_else(|error| panic!("{what} on {name}: {error}"));
        for round in 0..2 {
            for (place, (request, expected)) in requests.iter().zip(&expected).enumerate() {
                let found = run(&there, request).unwrap_or_else(|error| panic!("{what} on {name}: {error}"));
                for (output, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    let distance = distance(expected, found);
                    assert!(
                        distance <= tolerance,
                        "{what} on {name}: round {round}, request {place}, output {output}: {distance:e}"
                    );
                }
            }
        }
        sessions.push(there);
    }
    sessions
}

/// What the session's arena holds.
pub(crate) fn arena(session: &Session) -> ArenaStats {
    session.device_stats().expect("the session runs on a device").arena
}
