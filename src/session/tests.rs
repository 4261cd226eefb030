//! A panic in a node ends its request, and nothing else.

use super::*;
use crate::graph::node::{Node, Prepared, RunCx, Specs};
use crate::graph::run::Work;
use crate::graph::{GraphBuilder, Io};

/// Returns its input; panics at negative numbers, in one of the tasks of a kernel.
struct Fragile;

impl Node for Fragile {
    fn family(&self) -> &'static str {
        "fragile"
    }

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        Ok(inputs.iter().flatten().map(|input| input.spec().clone()).collect())
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
    session.executable = Executable::new(&graph, [(Work::Node(Box::new(Fragile)), String::new())]);
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
