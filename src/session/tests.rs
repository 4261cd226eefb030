//! A panic in a node ends only its request.

mod contrib;
mod maps;
mod nchwc;
mod sequences;

use kiln_model::GraphBuilder;
use kiln_model::Stopped;
use kiln_run::NodeError;
use kiln_run::node::{Node, Prepared, RunCx};
use kiln_run::run::Work;
use kiln_run::{Io, StepEvent};
use kiln_tensor::{TensorError, TensorSpec};

use super::*;

/// Returns its input; panics at negative numbers, in one of the tasks of a kernel.
struct Fragile;

impl Node for Fragile {
    fn family(&self) -> &'static str {
        "fragile"
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.take(0)?;
        let values = input.as_slice::<f32>()?;
        cx.parallel.run(values.len(), &|task| assert!(values[task] >= 0.0, "element {task} is negative"));
        io.push(input);
        Ok(())
    }
}

fn fragile(threads: usize) -> Session {
    let mut graph = GraphBuilder::new("fragile", 17);
    let x = graph.input("x", DType::F32, ["n".into()]);
    let y = graph.op("Neg", &[x], &[]);
    graph.output_of("y", y, DType::F32, ["n".into()]);
    let graph = graph.finish();
    let options = SessionOptions { threads, rehearse: false, ..SessionOptions::default() };
    let mut session = Session::from_graph(graph.clone(), &options).expect("it loads");
    session.executable = Executable::new(&graph, [(Work::Node(Arc::new(Fragile)), String::new())]);
    session
}

#[test]
fn a_panic_in_a_request_is_an_error_that_names_the_node() {
    for threads in [1, 2] {
        let session = fragile(threads);
        let request = |last: f32| session.run(&[("x", Tensor::from_vec([3], vec![1.0, 2.0, last]).expect("three"))]);
        // Node by node, at the first repeat, by the plan, and after each panic once more.
        for round in 0..4 {
            let outputs = request(3.0).expect("nothing is negative");
            assert_eq!(outputs[0].1.as_slice::<f32>().expect("floats"), [1.0, 2.0, 3.0], "round {round}");
            let error = request(-1.0).expect_err("element 2 is negative");
            assert!(error.is_fault(), "{error}");
            let text = error.to_string();
            assert!(text.contains("(Neg)") && text.contains("element 2 is negative"), "{text}");
        }
    }
}

#[test]
fn a_panic_outside_of_nodes_is_an_error_too() {
    struct Clumsy;
    impl Observer for Clumsy {
        fn step(&self, _: &StepEvent<'_>) {
            panic!("the observer stumbled");
        }
    }
    let session = fragile(1);
    let x = Tensor::from_vec([1], vec![1.0f32]).expect("one");
    let error = session.run_observed(&[("x", x.clone())], Some(&Clumsy)).expect_err("its observer panics");
    assert!(error.is_fault() && error.to_string().contains("stumbled"), "{error}");
    session.run(&[("x", x)]).expect("the next request is served");
}

fn network() -> Graph {
    let mut graph = GraphBuilder::new("network", 17);
    let x = graph.input("x", DType::F32, ["n".into()]);
    let middle = graph.op("Relu", &[x], &[]);
    let y = graph.op("Neg", &[middle], &[]);
    graph.output_of("y", y, DType::F32, ["n".into()]);
    graph.finish()
}

#[test]
fn sessions_compute_with_the_pool_that_they_are_given() {
    let pool = Threads::new(2).unwrap();
    let options = SessionOptions { pool: Some(pool.clone()), threads: 7, ..SessionOptions::default() };
    let sessions: Vec<Session> = (0..3).map(|_| Session::from_graph(network(), &options).unwrap()).collect();
    assert_eq!(sessions[0].build_cx().threads, 2);
    let input: Vec<f32> = (0..60_000u16).map(|at| f32::from(at) - 30_000.0).collect();
    std::thread::scope(|scope| {
        for session in &sessions {
            scope.spawn(|| {
                for _ in 0..5 {
                    let tensor = Tensor::from_slice([input.len()], &input).unwrap();
                    let outputs = session.run(&[("x", tensor)]).unwrap();
                    let expected = input.iter().map(|&value| -value.max(0.0));
                    assert!(outputs[0].1.as_slice::<f32>().unwrap().iter().copied().eq(expected));
                }
            });
        }
    });
}

#[test]
fn a_callers_memory_is_read_where_it_is_and_never_written() {
    use kiln_kernels::extent::Foreign;

    struct Floats(Arc<Vec<f32>>);
    impl AsRef<[u8]> for Floats {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }
    let session = Session::from_graph(network(), &SessionOptions::default()).unwrap();
    let values: Arc<Vec<f32>> = Arc::new((0..40_000u16).map(|at| f32::from(at) - 20_000.0).collect());
    let spec = || TensorSpec::new(DType::F32, [values.len()]);
    for _ in 0..3 {
        let input = Tensor::from_foreign(spec(), Foreign::of(Floats(values.clone()))).unwrap();
        assert_eq!(input.bytes().as_ptr().cast(), values.as_ptr(), "nothing is copied");
        let output = session.run(&[("x", input)]).unwrap().remove(0).1;
        assert!(output.as_slice::<f32>().unwrap().iter().zip(&*values).all(|(out, value)| *out == -value.max(0.0)));
        assert!(values.iter().enumerate().all(|(at, value)| *value == at as f32 - 20_000.0));
    }
    let mut own = Tensor::from_foreign(spec(), Foreign::of(Floats(values.clone()))).unwrap();
    own.as_mut_slice::<f32>().unwrap()[0] = 7.0;
    assert_eq!((own.as_slice::<f32>().unwrap()[..2].to_vec(), values[0]), (vec![7.0, -19_999.0], -20_000.0));
    assert_eq!(Arc::strong_count(&values), 1, "the copy lets its owner go");

    let bytes: Arc<Vec<f32>> = Arc::new(vec![0.0; 3]);
    struct Shifted(Floats);
    impl AsRef<[u8]> for Shifted {
        fn as_ref(&self) -> &[u8] {
            &self.0.as_ref()[1..9]
        }
    }
    let error = Tensor::from_foreign(TensorSpec::new(DType::F32, [2]), Foreign::of(Shifted(Floats(bytes))));
    assert!(matches!(error, Err(TensorError::Misaligned { dtype: DType::F32, .. })));
    let short = Foreign::of(Floats(values.clone()));
    assert!(matches!(Tensor::from_foreign(TensorSpec::new(DType::F32, [3]), short), Err(TensorError::Count { .. })));
}

#[test]
fn a_trimmed_session_keeps_nothing_free_and_serves_as_before() {
    let session = Session::from_graph(network(), &SessionOptions::default()).unwrap();
    let request = || {
        let input = Tensor::from_vec([300_000], vec![-1.0f32; 300_000]).unwrap();
        session.run(&[("x", input)]).unwrap()
    };
    let first = request();
    drop(request());
    assert!(session.kept.buffers.free_bytes() > 0);
    session.trim();
    assert_eq!(session.kept.buffers.free_bytes(), 0);
    assert!(request()[0].1.same(&first[0].1));
}

#[test]
fn loading_ends_when_it_is_called_off() {
    let cancel = Cancel::new();
    cancel.cancel();
    let options = SessionOptions { load_cancel: Some(cancel), ..SessionOptions::default() };
    let error = Session::from_graph(network(), &options).err();
    assert!(matches!(error, Some(SessionError::LoadStopped { why: Stopped::Cancelled, .. })), "{error:?}");
}

#[test]
fn requests_of_values_are_profiled_as_those_of_tensors_are() {
    let options = SessionOptions { profile: true, rehearse: false, ..SessionOptions::default() };
    let session = Session::from_graph(network(), &options).unwrap();
    let input = || Tensor::from_vec([2], vec![-1.0f32, 1.0]).unwrap();
    let calls = || session.profile().unwrap().nodes.iter().map(|node| node.calls).sum::<u64>();
    session.run(&[("x", input())]).unwrap();
    let once = calls();
    session.run_values(&[("x", Value::Tensor(input()))]).unwrap();
    assert!(once > 0 && calls() == 2 * once, "{once} and {}", calls());
}

#[test]
fn one_element_with_axes_is_taken_where_a_scalar_is_declared() {
    let mut build = GraphBuilder::new("scalar", 17);
    let x = build.input("x", DType::F32, []);
    let y = build.op("Neg", &[x], &[]);
    build.output("y", y);
    let session = Session::from_graph(build.finish(), &SessionOptions::default()).unwrap();
    for shape in [&[][..], &[1], &[1, 1, 1]] {
        let input = Tensor::from_vec(shape.iter().copied(), vec![3.0f32]).unwrap();
        let outputs = session.run(&[("x", input)]).unwrap();
        assert_eq!((outputs[0].1.shape(), outputs[0].1.as_slice::<f32>().unwrap()), (&[][..], &[-3.0f32][..]));
    }
    let two = Tensor::from_vec([2], vec![1.0f32, 2.0]).unwrap();
    assert!(matches!(session.run(&[("x", two)]), Err(SessionError::Input { .. })));
}
