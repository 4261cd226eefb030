//! What a session on a device holds, remembers and refuses.

use std::sync::Arc;

use kiln::session::{Session, SessionOptions};
use kiln_kernels::gpu::Device;
use kiln_model::{Graph, GraphBuilder};
use kiln_run::record::{CacheMode, Store};
use kiln_tensor::{DType, Tensor};

use super::devices::{arena, devices, emulated, options, run, session};
use super::graphs::floats;

/// A convolution, its function, and a picking of rows.
fn network() -> Graph {
    let mut net = GraphBuilder::new("network", 17);
    let x = net.input("x", DType::F32, ["N".into(), 3.into(), "H".into(), "W".into()]);
    let ids = net.input("ids", DType::I64, ["K".into()]);
    let weights = net.constant(floats(&[8, 3, 3, 3], 1));
    let conv = net.op("Conv", &[x, weights], &[]);
    let mean = net.op("GlobalAveragePool", &[conv], &[]);
    let flat = net.op("Flatten", &[mean], &[]);
    let picked = net.op("Gather", &[flat, ids], &[("axis", 1.into())]);
    net.output("y", picked);
    net.finish()
}

fn request(height: usize, width: usize, ids: &[i64]) -> Vec<(String, Tensor)> {
    let ids = Tensor::from_vec([ids.len()], ids.to_vec()).unwrap();
    vec![("x".to_owned(), floats(&[1, 3, height, width], 2)), ("ids".to_owned(), ids)]
}

#[test]
fn memory_is_flat_over_shapes_that_never_return() {
    for (name, device) in devices() {
        let session = session(&network(), Some(device)).unwrap();
        run(&session, &request(80, 80, &[0])).unwrap();
        let first = arena(&session);
        for shape in 0..200 {
            run(&session, &request(5 + shape % 70, 5 + shape * 7 % 75, &[0, 1])).unwrap();
        }
        let last = arena(&session);
        assert_eq!(last.taken, first.taken, "{name}: {last:?}");
        assert_eq!(last.lent, first.lent, "{name}: what requests took came back");
    }
}

#[test]
fn an_index_outside_is_refused_and_the_next_request_is_served() {
    for (name, device) in devices() {
        let session = session(&network(), Some(device)).unwrap();
        let good = run(&session, &request(6, 6, &[0, 7, -8])).unwrap();
        for bad in [8, -9, i64::MAX, i64::MIN] {
            let error = run(&session, &request(6, 6, &[0, bad, 1])).unwrap_err();
            assert!(error.contains("outside of 0..8"), "{name}: {error}");
        }
        let again = run(&session, &request(6, 6, &[0, 7, -8])).unwrap();
        assert!(good[0].same(&again[0]), "{name}");
    }
}

#[test]
fn constant_indices_are_sent_once_for_a_shape_and_refused_where_they_are_outside() {
    let mut net = GraphBuilder::new("picks", 17);
    let x = net.input("x", DType::F32, ["N".into(), 4.into()]);
    let weights = net.constant(floats(&[4, 4], 1));
    let product = net.op("MatMul", &[x, weights], &[]);
    let ids = net.constant(Tensor::from_vec([3], vec![2i64, 0, -1]).unwrap());
    let picked = net.op("Gather", &[product, ids], &[]);
    net.output("y", picked);
    let graph = net.finish();
    let request = |rows: usize| vec![("x".to_owned(), floats(&[rows, 4], 3))];
    for (name, device) in devices() {
        let session = session(&graph, Some(device)).unwrap();
        let first = run(&session, &request(5)).unwrap();
        let sent = session.device_stats().unwrap().to_device.copies;
        for _ in 0..5 {
            assert!(run(&session, &request(5)).unwrap()[0].same(&first[0]), "{name}");
        }
        let more = session.device_stats().unwrap().to_device.copies - sent;
        assert_eq!(more, 5, "{name}: the input, once a request");
        let error = run(&session, &request(2)).unwrap_err();
        assert!(error.contains("index 2"), "{name}: {error}");
        assert!(run(&session, &request(5)).unwrap()[0].same(&first[0]), "{name}");
    }
}

#[test]
fn weights_of_one_element_are_sent_once() {
    let mut net = GraphBuilder::new("scale", 17);
    let x = net.input("x", DType::F32, ["N".into(), 1.into()]);
    let weights = net.constant(floats(&[1, 1], 1));
    let product = net.op("MatMul", &[x, weights], &[]);
    net.output("y", product);
    let graph = net.finish();
    let request = || vec![("x".to_owned(), floats(&[5, 1], 3))];
    let plain = run(&session(&graph, None).unwrap(), &request()).unwrap();
    for (name, device) in devices() {
        let session = session(&graph, Some(device)).unwrap();
        for served in 1..4 {
            assert!(super::devices::distance(&plain[0], &run(&session, &request()).unwrap()[0]) < 1e-5, "{name}");
            assert_eq!(session.device_stats().unwrap().to_device.copies, 1 + served, "{name}");
        }
    }
}

#[test]
fn a_device_without_room_is_an_error_at_load_or_in_the_request_and_nothing_is_lost() {
    for (name, device) in devices() {
        let bounded = |bytes: u64| SessionOptions { device_bytes: bytes, ..options(Some(device.clone())) };
        let error = Session::from_graph(network(), &bounded(100)).err().expect("the weights do not fit").to_string();
        assert!(error.contains("device memory"), "{name}: {error}");
        let session = Session::from_graph(network(), &bounded(8 << 20)).unwrap();
        let error = run(&session, &request(900, 900, &[0])).unwrap_err();
        assert!(error.contains("device memory"), "{name}: {error}");
        run(&session, &request(20, 20, &[0])).unwrap();
    }
}

#[test]
fn the_next_process_asks_the_libraries_nothing() {
    let records = Arc::new(Store::in_memory());
    let device = emulated();
    let start = |device: Arc<dyn Device>| {
        let options = SessionOptions { records: Some(records.clone()), ..options(Some(device)) };
        Session::from_graph(network(), &options).unwrap()
    };
    let first = start(device.clone());
    let expected = run(&first, &request(12, 12, &[0])).unwrap();
    let asked = device.counts().heuristics;
    assert!(asked > 0);
    drop(first);
    let second = start(device.clone());
    assert!(second.warmed() > 0, "solvers are ready before the first request");
    let found = run(&second, &request(12, 12, &[0])).unwrap();
    assert_eq!(device.counts().heuristics, asked);
    assert!(expected[0].same(&found[0]));
}

#[test]
fn many_threads_share_a_session() {
    for (name, device) in devices() {
        let session = session(&network(), Some(device)).unwrap();
        let expected: Vec<Tensor> =
            (0..4).map(|n| run(&session, &request(6 + n, 9, &[1])).unwrap().remove(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (session, expected) = (&session, &expected);
                scope.spawn(move || {
                    for round in 0..20 {
                        let shape = (thread + round) % 4;
                        let found = run(session, &request(6 + shape, 9, &[1])).unwrap();
                        assert!(found[0].same(&expected[shape]), "{name}: thread {thread}, round {round}");
                    }
                });
            }
        });
    }
}

#[test]
fn without_a_cache_everything_still_runs() {
    let options = SessionOptions { cache_mode: CacheMode::Off, ..options(Some(emulated())) };
    let session = Session::from_graph(network(), &options).unwrap();
    let found = run(&session, &request(6, 6, &[2])).unwrap();
    let plain = run(&super::devices::session(&network(), None).unwrap(), &request(6, 6, &[2])).unwrap();
    assert!(super::devices::distance(&plain[0], &found[0]) < 1e-4);
}

#[test]
fn doubles_stay_with_the_processor() {
    let mut net = GraphBuilder::new("doubles", 17);
    let x = net.input("x", DType::F64, ["N".into(), 2.into()]);
    let weights = net.constant(Tensor::from_vec([2, 2], vec![1f64, 2.0, 3.0, 4.0]).unwrap());
    let scale = net.constant(Tensor::scalar(0.5f64));
    let product = net.op("MatMul", &[x, weights], &[]);
    let scaled = net.op("Mul", &[product, scale], &[]);
    let again = net.op("MatMul", &[scaled, weights], &[]);
    net.output("y", again);
    let session = session(&net.finish(), Some(emulated())).unwrap();
    let request = vec![("x".to_owned(), Tensor::from_vec([1, 2], vec![1f64, 1.0]).unwrap())];
    let found = run(&session, &request).unwrap();
    assert_eq!(found[0].as_slice::<f64>().unwrap(), [11.0, 16.0]);
}
