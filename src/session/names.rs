//! Dimensions that have one name in the model. Passes use names to prove that shapes are equal, so a request in which
//! two dimensions of one name differ cannot run on that executable. It runs on an executable of the graph without its
//! names ([`overrides`](super::overrides)), as in other runtimes, or is refused with the name and both sizes.

use kiln_model::Value;
use kiln_model::ir::{Dim, Graph};

use super::{Port, SessionError};

/// The names that several dimensions of a model's inputs share.
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
    /// Input, axis and size of each of the two.
    sides: [(usize, usize, usize); 2],
}

impl Names {
    /// The names of the dimensions of these inputs.
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

    /// Whether there are such names.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The first two dimensions of one name that differ, if any; `size` returns the size of an axis of an input, `None`
    /// if the input is absent or not a tensor.
    pub(super) fn disagreement(&self, size: impl Fn(usize, usize) -> Option<usize>) -> Option<Disagreement<'_>> {
        self.0.iter().find_map(|Name { name, places }| {
            let mut sides = places.iter().filter_map(|&(input, axis)| Some((input, axis, size(input, axis)?)));
            let first = sides.next()?;
            let other = sides.find(|other| other.2 != first.2)?;
            Some(Disagreement { name, sides: [first, other] })
        })
    }

    /// As `disagreement`, for a request's values in the model's order.
    pub(super) fn disagreement_of(&self, values: &[Option<Value>]) -> Option<Disagreement<'_>> {
        self.disagreement(|input, axis| values[input].as_ref()?.as_tensor()?.shape().get(axis).copied())
    }
}

impl Disagreement<'_> {
    /// The error that refuses a request.
    pub(super) fn error(&self, ports: &[Port]) -> SessionError {
        let [first, second] = self.sides.map(|(input, axis, size)| (ports[input].name.clone(), axis, size));
        SessionError::Dimension { name: self.name.to_owned(), first, second }
    }
}

/// Removes the names of a graph's dimensions.
pub(super) fn forget(graph: &mut Graph) {
    for input in graph.inputs.clone() {
        let dims = graph.values[input.index()].dims.iter_mut().flatten();
        dims.filter(|dim| matches!(dim, Dim::Named(_))).for_each(|dim| *dim = Dim::Any);
    }
}
