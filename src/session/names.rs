//! Dimensions that a model calls by one name. Passes prove by names which shapes are equal, so a request in which two of
//! one name differ is not given to what was proved: an executable of the graph without its names serves it
//! ([`overrides`](super::overrides)), as other runtimes do, or it is refused by name and number where there is none.

use super::{Port, SessionError};
use crate::graph::Value;
use crate::graph::ir::{Dim, Graph};

/// The names that occur more than once among the dimensions of a model's inputs.
pub(super) struct Names(Vec<Name>);

struct Name {
    name: String,
    /// Inputs and axes.
    places: Vec<(usize, usize)>,
}

/// Two dimensions of one name that differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disagreement<'a> {
    name: &'a str,
    /// Input, axis and size of each.
    sides: [(usize, usize, usize); 2],
}

impl Names {
    /// Those of the inputs that a request gives.
    pub(super) fn of(ports: &[Port]) -> Names {
        let mut names: Vec<Name> = Vec::new();
        for (input, port) in ports.iter().enumerate() {
            for (axis, dim) in port.dims.iter().flatten().enumerate() {
                let Dim::Named(name) = dim else { continue };
                match names.iter_mut().find(|known| known.name == *name) {
                    Some(known) => known.places.push((input, axis)),
                    None => names.push(Name { name: name.clone(), places: vec![(input, axis)] }),
                }
            }
        }
        names.retain(|name| name.places.len() > 1);
        Names(names)
    }

    /// Whether a request could break any.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The first two dimensions of one name that differ, if any do; `size` is that of an axis of an input, of inputs that are
    /// tensors and given.
    pub(super) fn disagreement(&self, size: impl Fn(usize, usize) -> Option<usize>) -> Option<Disagreement<'_>> {
        self.0.iter().find_map(|Name { name, places }| {
            let mut sides = places.iter().filter_map(|&(input, axis)| Some((input, axis, size(input, axis)?)));
            let first = sides.next()?;
            let other = sides.find(|other| other.2 != first.2)?;
            Some(Disagreement { name, sides: [first, other] })
        })
    }

    /// The same of a request's values, in the model's order.
    pub(super) fn disagreement_of(&self, values: &[Option<Value>]) -> Option<Disagreement<'_>> {
        self.disagreement(|input, axis| values[input].as_ref()?.as_tensor()?.shape().get(axis).copied())
    }
}

impl Disagreement<'_> {
    /// The refusal of a request.
    pub(super) fn error(&self, ports: &[Port]) -> SessionError {
        let [first, second] = self.sides.map(|(input, axis, size)| (ports[input].name.clone(), axis, size));
        SessionError::Dimension { name: self.name.to_owned(), first, second }
    }
}

/// Lets go of the names of a graph's dimensions.
pub(super) fn forget(graph: &mut Graph) {
    for input in graph.inputs.clone() {
        let dims = graph.values[input.index()].dims.iter_mut().flatten();
        dims.filter(|dim| matches!(dim, Dim::Named(_))).for_each(|dim| *dim = Dim::Any);
    }
}
