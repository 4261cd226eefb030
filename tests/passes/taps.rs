//! Taps: any value of a graph can be an output, and is the result of a graph that ends there.

use kiln::session::{Session, SessionError, SessionOptions, taps};
use kiln_model::passes::PassOptions;
use kiln_model::{Graph, ValueId};
use kiln_run::record::CacheMode;
use kiln_tensor::Tensor;

use crate::draw::{Form, draw};
use crate::{TOLERANCE, distance};

type Request = Vec<(String, Tensor)>;

fn session(graph: &Graph, passes: &PassOptions, taps: &[String]) -> Session {
    let options = SessionOptions {
        threads: 1,
        cache_mode: CacheMode::Memory,
        passes: passes.clone(),
        taps: taps.to_vec(),
        ..SessionOptions::default()
    };
    Session::from_graph(graph.clone(), &options).unwrap()
}

fn run(session: &Session, request: &Request) -> Vec<(String, Tensor)> {
    let inputs: Vec<(&str, Tensor)> = request.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    session.run(&inputs).unwrap()
}

/// The values that nodes make, in order.
fn made(graph: &Graph) -> Vec<ValueId> {
    graph.nodes.iter().flat_map(|node| node.outputs.iter().copied().flatten()).collect()
}

fn names(graph: &Graph) -> Vec<String> {
    made(graph).into_iter().map(|id| graph.value(id).name.clone()).collect()
}

/// The graph that ends at that value.
fn cut(graph: &Graph, value: ValueId) -> Graph {
    let mut graph = graph.clone();
    graph.outputs = vec![value];
    graph
}

/// Choices that draw graphs of some twenty nodes: convolutions, products, element-wise functions, moves.
fn choices(seed: u32) -> Vec<u16> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 12) as u16
    };
    (0..70).map(|_| next(&mut state)).collect()
}

#[test]
fn any_value_is_what_a_graph_computes_that_ends_there() {
    let mut values = 0;
    for seed in 0..12 {
        let drawn = draw(&choices(seed), Form::default());
        let (graph, all) = (&drawn.graph, names(&drawn.graph));
        for passes in [PassOptions::none(), PassOptions::default()] {
            let exact = passes == PassOptions::none();
            let tapped = session(graph, &passes, &all);
            let cuts: Vec<Session> = made(graph).into_iter().map(|id| session(&cut(graph, id), &passes, &[])).collect();
            for request in &drawn.requests {
                let found = run(&tapped, request);
                let value = |name: &String| &found.iter().find(|(other, _)| other == name).unwrap().1;
                for (name, cut) in all.iter().zip(&cuts) {
                    let expected = &run(cut, request)[0].1;
                    let context = || format!("seed {seed}, value {name}\n{}", drawn.told());
                    if exact {
                        assert!(expected.same(value(name)), "{}", context());
                    } else {
                        let far = distance(expected, value(name)).unwrap();
                        assert!(far <= TOLERANCE, "off by {far}: {}", context());
                    }
                    values += 1;
                }
            }
        }
    }
    assert!(values > 500, "only {values} values were compared");
}

#[test]
fn what_passes_leave_is_tapped_without_another_node_but_transposes() {
    let mut fused = 0;
    for seed in 0..24 {
        let drawn = draw(&choices(seed), Form::default());
        let plain = session(&drawn.graph, &PassOptions::default(), &[]);
        let left = taps::left_by_passes(&drawn.graph, plain.describe());
        fused += names(&drawn.graph).len() - left.len();
        let tapped = session(&drawn.graph, &PassOptions::default(), &left);
        let operators = |session: &Session| {
            let nodes = session.describe().graph.nodes.iter().map(|node| node.op.clone());
            let mut operators: Vec<String> = nodes.filter(|op| op != "Transpose" && op != "Reshape").collect();
            operators.sort();
            operators
        };
        assert_eq!(operators(&plain), operators(&tapped), "seed {seed}\n{}", drawn.told());
        for request in &drawn.requests {
            let (expected, found) = (run(&plain, request), run(&tapped, request));
            for ((name, expected), (_, found)) in expected.iter().zip(&found) {
                assert!(distance(expected, found).unwrap() <= TOLERANCE, "seed {seed}, output {name}");
            }
            for name in &left {
                assert!(found.iter().any(|(other, _)| other == name), "seed {seed}: {name} is not returned");
            }
        }
    }
    assert!(fused > 20, "only {fused} values were fused away");
}

#[test]
fn a_value_that_does_not_exist_is_refused_whatever_the_passes() {
    let drawn = draw(&choices(1), Form::default());
    for passes in [PassOptions::none(), PassOptions::default()] {
        let options = SessionOptions { passes, taps: vec!["last one".to_owned()], ..SessionOptions::default() };
        let error = Session::from_graph(drawn.graph.clone(), &options).err().unwrap();
        assert!(matches!(&error, SessionError::UnknownValue { near, .. } if near[0] == "last"), "{error}");
    }
}
