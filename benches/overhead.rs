//! The cost of a request beyond its kernels: `cargo bench --bench overhead [-- NODES] [-- --write FILE]`.
//!
//! A graph of many tiny nodes, each read by two others so that no pass can fuse them into one, at known shapes. Beside
//! the request stands the time of the same executors, called one after the other with their operands at hand; the
//! difference is the cost of the graph. `--write` writes the model instead, for other programs.
//!
//! Then requests of two nodes to many sessions in turn, on one thread: the cost of a request to another session than
//! the request before.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::time::{Duration, Instant};

use kiln::session::{Session, SessionOptions};
use kiln_kernels::Serial;
use kiln_kernels::cpu::chain::{BinaryOp, Builder, Geometry, Operand, Storage, Target};
use kiln_model::onnx;
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_run::exec::chain::{ChainKey, ChainProblem};
use kiln_tensor::{DType, Tensor};

/// Elements of every value.
const WIDTH: usize = 8;

/// Nodes whose inputs are the two values before them. Mostly bounds, so that the numbers stay finite.
fn tiny(nodes: usize) -> Graph {
    let mut graph = GraphBuilder::new("tiny", 17);
    let mut last: [ValueId; 2] = ["x", "y"].map(|name| graph.input(name, DType::F32, ["rows".into(), WIDTH.into()]));
    for index in 0..nodes {
        let op = ["Max", "Add", "Min", "Sub"][index % 4];
        let made = graph.op(op, &last, &[]);
        last = [last[1], made];
    }
    graph.output_of("z", last[1], DType::F32, ["rows".into(), WIDTH.into()]);
    graph.finish()
}

/// The fastest of many repeats, in nanoseconds: a repeat is far shorter than any disturbance.
fn fastest(budget: Duration, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed() < budget {
        let begin = Instant::now();
        run();
        best = best.min(begin.elapsed().as_nanos() as f64);
    }
    best
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--test");
    let nodes = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(500);
    let graph = tiny(nodes);
    if let Some(place) = arguments.iter().position(|argument| argument == "--write") {
        let path = arguments.get(place + 1).ok_or("--write needs a path")?;
        std::fs::write(path, onnx::write(&graph)?)?;
        return Ok(());
    }
    let budget = Duration::from_millis(if quick { 10 } else { 1500 });
    for threads in [1, 2] {
        let session = Session::from_graph(graph.clone(), &SessionOptions { threads, ..SessionOptions::default() })?;
        let left = session.describe().graph.nodes.len();
        for rows in [1, 4] {
            let tensor = |value: f32| Tensor::from_vec([rows, WIDTH], vec![value; rows * WIDTH]);
            let inputs = [("x", tensor(1.0)?), ("y", tensor(2.0)?)];
            for _ in 0..3 {
                session.run(&inputs)?;
            }
            let mut failed = None;
            let request = fastest(budget, || failed = session.run(&inputs).err());
            if let Some(error) = failed {
                return Err(error.into());
            }
            let kernels = kernels(&session, rows, left, budget)?;
            println!(
                "{threads} threads, {rows}x{WIDTH}: {left} nodes, request {:.1} us, kernels {:.1} us, {:.0} ns a node beyond",
                request / 1e3,
                kernels / 1e3,
                (request - kernels) / left as f64
            );
        }
    }
    in_turn(budget)
}

/// Requests to each of many sessions in turn.
fn in_turn(budget: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let options = SessionOptions { threads: 1, ..SessionOptions::default() };
    let (graph, inputs) = (tiny(2), [2.0f32, 1.0].map(|value| Tensor::from_vec([1, WIDTH], vec![value; WIDTH])));
    let [x, y] = inputs;
    let inputs = [("x", x?), ("y", y?)];
    let mut alone = None;
    for count in [1, 4, 5, 16, 64] {
        let sessions: Vec<Session> =
            (0..count).map(|_| Session::from_graph(graph.clone(), &options)).collect::<Result<_, _>>()?;
        let mut failed = None;
        let mut all = || {
            for _ in 0..64 / count.min(64) {
                sessions.iter().for_each(|session| failed = failed.take().or(session.run(&inputs).err()));
            }
        };
        (0..3).for_each(|_| all());
        let time = fastest(budget, all) / (64 / count * count) as f64;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let first = *alone.get_or_insert(time);
        println!("{count} sessions in turn on a thread: {time:.0} ns a request, {:.2} of one", time / first);
    }
    Ok(())
}

/// The executors of such nodes, called with their operands at hand.
fn kernels(session: &Session, rows: usize, nodes: usize, budget: Duration) -> Result<f64, Box<dyn std::error::Error>> {
    let cx = session.build_cx();
    let shape = [rows, WIDTH];
    let geometry = Geometry::new(&shape, &[&shape, &shape])?;
    let mut executors = Vec::new();
    for op in [BinaryOp::Max, BinaryOp::Add, BinaryOp::Min, BinaryOp::Sub] {
        let mut program = Builder::new(&[Storage::F32; 2]);
        program.binary(op, 0, 1);
        let program = program.finish(Storage::F32).ok_or("a sound program")?;
        executors.push(cx.executor(&ChainKey::new(cx.target(), ChainProblem::new(&program, geometry.clone())))?.0);
    }
    let (a, b) = (vec![1f32; rows * WIDTH], vec![2f32; rows * WIDTH]);
    let mut output = vec![0f32; rows * WIDTH];
    let mut failed = false;
    let time = fastest(budget, || {
        for index in 0..nodes {
            let target = &mut Target::F32(&mut output);
            failed |= executors[index % 4].run(&[Operand::F32(&a), Operand::F32(&b)], target, &Serial).is_err();
        }
    });
    if failed { Err("a kernel refused".into()) } else { Ok(time) }
}
