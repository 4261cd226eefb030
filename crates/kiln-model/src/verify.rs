//! Invariants of every graph: a value is made once and before it is read, and every output is made.
//!
//! A loader checks them, and debug builds and tests verify them after every pass.

use super::ir::{Attr, Graph, ValueId};

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// A value id beyond the graph's values.
    #[error("{place} names value {id}, and there are {values}")]
    NoSuchValue {
        /// What names it.
        place: String,
        /// The id.
        id: u32,
        /// Values of the graph.
        values: usize,
    },
    /// A value is made twice: by two nodes, or by a node and an input or constant.
    #[error("{value} is made twice, the second time by {place}")]
    MadeTwice {
        /// The value.
        value: String,
        /// The second maker.
        place: String,
    },
    /// A value is read before it is made, or never made.
    #[error("{place} reads {value}, which nothing has made")]
    NotMade {
        /// The value.
        value: String,
        /// The reader.
        place: String,
    },
    /// A body has fewer inputs than its node captures.
    #[error("{place} hands {captures} values into a body of {inputs} inputs")]
    Captures {
        /// The node.
        place: String,
        /// Captured values.
        captures: usize,
        /// Inputs of the body.
        inputs: usize,
    },
}

/// Checks a graph and the bodies in it.
pub fn verify(graph: &Graph) -> Result<(), Broken> {
    let mut made = vec![false; graph.values.len()];
    let known = |id: ValueId, place: &str| match graph.values.get(id.index()) {
        Some(value) => Ok(value.name.clone()),
        None => Err(Broken::NoSuchValue { place: place.to_owned(), id: id.0, values: graph.values.len() }),
    };
    for &id in graph.constants.keys() {
        known(id, "a constant")?;
        made[id.index()] = true;
    }
    for &id in &graph.inputs {
        known(id, "the inputs")?;
        made[id.index()] = true;
    }
    for node in &graph.nodes {
        let place = format!("node '{}' ({})", node.name, node.op);
        for &id in node.inputs.iter().flatten() {
            let value = known(id, &place)?;
            if !made[id.index()] {
                return Err(Broken::NotMade { value, place });
            }
        }
        for &id in node.outputs.iter().flatten() {
            let value = known(id, &place)?;
            if std::mem::replace(&mut made[id.index()], true) {
                return Err(Broken::MadeTwice { value, place });
            }
        }
        for attr in node.attrs.values() {
            if let Attr::Graph(body) = attr {
                let (captures, inputs) = (node.captures(), body.inputs.len());
                if captures > inputs || captures > node.inputs.len() {
                    return Err(Broken::Captures { place, captures, inputs });
                }
                verify(body)?;
            }
        }
    }
    for &id in &graph.outputs {
        let value = known(id, "the outputs")?;
        if !made[id.index()] {
            return Err(Broken::NotMade { value, place: "the outputs".to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kiln_tensor::{DType, Tensor};

    use super::*;
    use crate::GraphBuilder;

    fn relu() -> Graph {
        let mut build = GraphBuilder::new("g", 17);
        let x = build.input("x", DType::F32, [2.into()]);
        let y = build.op("Relu", &[x], &[]);
        build.output("y", y);
        build.finish()
    }

    #[test]
    fn a_built_graph_keeps_its_promise() {
        assert_eq!(verify(&relu()), Ok(()));
    }

    #[test]
    fn every_way_of_breaking_it_is_found() {
        type Case = (&'static str, fn(&mut Graph), fn(&Broken) -> bool);
        let cases: [Case; 5] = [
            (
                "a reader before the maker",
                |g| g.nodes.insert(0, g.nodes[0].clone()),
                |b| matches!(b, Broken::MadeTwice { .. }),
            ),
            (
                "a value that is a constant too",
                |g| g.set_constant(ValueId(1), Tensor::scalar(0.0f32)),
                |b| matches!(b, Broken::MadeTwice { .. }),
            ),
            ("an output without a maker", |g| g.nodes.clear(), |b| matches!(b, Broken::NotMade { .. })),
            (
                "an input without a maker",
                |g| g.inputs.clear(),
                |b| matches!(b, Broken::NotMade { place, .. } if place.contains("Relu")),
            ),
            (
                "an id of another graph",
                |g| g.outputs[0] = ValueId(9),
                |b| matches!(b, Broken::NoSuchValue { id: 9, .. }),
            ),
        ];
        for (case, change, expected) in cases {
            let mut graph = relu();
            change(&mut graph);
            let broken = verify(&graph).expect_err(case);
            assert!(expected(&broken), "{case}: {broken}");
        }
    }
}
