//! The findings of `kiln diff`: the values that depart, in the order of the graph, and the nodes that compute the first
//! departure.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use kiln::session::compile::Description;
use kiln::session::taps;
use kiln_model::{Graph, Value};
use serde::Serialize;

use super::comparison::{Allowed, Deviation, deviation};
use crate::closeness::{Difference, Distance, Element};
use crate::failure::{Outcome, WithCode};
use crate::nodes::{self, NodeView, RunView};
use crate::selection;
use crate::shape;
use crate::table::Table;

/// Most nodes that are shown for a departure.
const MOST_NODES: usize = 12;

/// Most departures that are listed after the first.
const MOST_LISTED: usize = 10;

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// The session with taps, in its request of that number.
    Tapped {
        /// From 1 on.
        request: u32,
    },
    /// The session without taps.
    Untapped {
        /// From 1 on.
        request: u32,
    },
}

/// One value that departs.
#[derive(Debug, Serialize)]
struct Departure {
    value: String,
    node: String,
    operator: String,
    #[serde(flatten)]
    from: Source,
    /// The place in a sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<usize>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<usize>>,
    /// The difference, if it is not in elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Element>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<Element>,
    wrong: usize,
    count: usize,
}

/// All that is shown, and the JSON object.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    model: String,
    isa: &'static str,
    against: String,
    compared: usize,
    /// How far outputs are off, if a lower precision was asked for; by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    distances: BTreeMap<String, Distance>,
    /// In the order of the graph.
    departures: Vec<Departure>,
    /// The nodes that compute the first departure from values that agree, after the passes.
    computed_by: Vec<NodeView>,
    /// Values that agree and that those nodes read.
    from: Vec<String>,
    #[serde(skip)]
    names: Vec<String>,
}

impl Findings {
    /// Findings before the comparison of these values, in the order of the graph.
    pub(super) fn new(model: &Path, isa: &'static str, against: &str, names: &[String]) -> Findings {
        Findings {
            model: model.display().to_string(),
            isa,
            against: against.to_owned(),
            compared: names.len(),
            distances: BTreeMap::new(),
            departures: Vec::new(),
            computed_by: Vec::new(),
            from: Vec::new(),
            names: names.to_owned(),
        }
    }

    /// Whether something departs.
    pub(super) fn any(&self) -> bool {
        !self.departures.is_empty()
    }

    /// Compares the values in `actual`. Values that departed before are not compared again.
    pub(super) fn compare(
        &mut self,
        model: &Graph,
        from: Source,
        actual: &BTreeMap<String, Value>,
        expected: &BTreeMap<String, Value>,
        allowed: Allowed,
    ) -> Outcome {
        for name in &self.names {
            let Some((expected, actual)) = expected.get(name).zip(actual.get(name)) else { continue };
            if self.departures.iter().any(|departure| departure.value == *name) {
                continue;
            }
            let found = deviation(expected, actual, allowed).failed(|| format!("value '{name}'"))?;
            if let Some(found) = found {
                self.departures.push(Departure::new(model, name, from, actual, found));
            }
        }
        Ok(())
    }

    /// Notes how far these outputs are off.
    pub(super) fn measure(&mut self, actual: &BTreeMap<String, Value>, expected: &BTreeMap<String, Value>) {
        for name in &self.names {
            let pair = actual.get(name).zip(expected.get(name));
            if let Some((Value::Tensor(actual), Value::Tensor(expected))) = pair
                && let Some(distance) = Distance::of(expected, actual)
            {
                self.distances.insert(name.clone(), distance);
            }
        }
    }

    /// Finds the nodes that compute the first departure, unless only the session without taps has it.
    pub(super) fn explain(&mut self, description: &Description, runs: Vec<RunView>) {
        let Some(first) = self.departures.first().filter(|first| matches!(first.from, Source::Tapped { .. })) else {
            return;
        };
        let graph = &description.graph;
        let departed: BTreeSet<&str> = self.departures.iter().map(|departure| departure.value.as_str()).collect();
        let agree: BTreeSet<&str> = self.names.iter().map(String::as_str).filter(|n| !departed.contains(n)).collect();
        let name = |value| graph.value(value).name.as_str();
        let made = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
        let Some(&value) = made.into_iter().find(|&&value| name(value) == first.value) else { return };
        let (places, read) = taps::computed_by(graph, value, |value| agree.contains(taps::model_name(name(value))));
        let views = nodes::views(graph, runs);
        self.computed_by = places.into_iter().map(|place| views[place].clone()).collect();
        let read: BTreeSet<&str> = read.into_iter().map(|value| taps::model_name(name(value))).collect();
        self.from = read.into_iter().map(str::to_owned).collect();
    }

    /// Prints them.
    pub(super) fn print(&self, screen: &mut dyn Write) -> Outcome {
        writeln!(screen, "{} on {} against {}: {} values compared", self.model, self.isa, self.against, self.compared)?;
        for (name, Distance { largest, mean }) in &self.distances {
            writeln!(screen, "output '{name}' is off by {largest:.2e} of its largest element, {mean:.2e} in the mean")?;
        }
        let Some(first) = self.departures.first() else {
            writeln!(screen, "all agree")?;
            return Ok(());
        };
        first.print(screen)?;
        match first.from {
            Source::Untapped { .. } => {
                writeln!(screen, "  All values agree where they are taken out of the graph, this output among them.")?;
                writeln!(
                    screen,
                    "  It departs where nothing else is taken out: memory that is used again, or a fusion."
                )?;
                writeln!(screen, "  Next: --node with few values at a time, and --without-pass.")?;
            }
            Source::Tapped { .. } => self.print_nodes(screen)?,
        }
        let rest = &self.departures[1..];
        if !rest.is_empty() {
            writeln!(screen, "then depart")?;
            let mut table = Table::new(&["  value", "node", "operator", ">wrong", ">of"]);
            for departure in rest.iter().take(MOST_LISTED) {
                let Departure { value, node, operator, wrong, count, .. } = departure;
                let numbers = [wrong.to_string(), count.to_string()];
                table.row([format!("  {value}"), node.clone(), operator.clone()].into_iter().chain(numbers));
            }
            write!(screen, "{}", table.text())?;
            if rest.len() > MOST_LISTED {
                writeln!(screen, "  and {} more", rest.len() - MOST_LISTED)?;
            }
        }
        let agree = self.compared - self.departures.len();
        writeln!(screen, "{} of {} values depart, {agree} agree", self.departures.len(), self.compared)?;
        Ok(())
    }

    fn print_nodes(&self, screen: &mut dyn Write) -> Outcome {
        let from = if self.from.is_empty() { "inputs and constants".to_owned() } else { self.from.join(", ") };
        writeln!(screen, "computed from {from} by")?;
        for node in self.computed_by.iter().rev().take(MOST_NODES).rev() {
            let details = [Some(node.op.as_str()), node.layout, Some(node.fused.as_str())];
            let details: Vec<&str> = details.into_iter().flatten().filter(|detail| !detail.is_empty()).collect();
            writeln!(screen, "  node '{}': {}", node.name, details.join(", "))?;
            let Some(run) = &node.run else { continue };
            let shapes = format!("{} -> {}", run.input_shapes.join(" "), run.output_shapes.join(" "));
            writeln!(screen, "    shapes {shapes}, family {}, instruction set {}", run.family, self.isa)?;
            run.keys.iter().try_for_each(|key| writeln!(screen, "    key {key}"))?;
        }
        if self.computed_by.len() > MOST_NODES {
            writeln!(screen, "  and {} before them", self.computed_by.len() - MOST_NODES)?;
        }
        Ok(())
    }
}

impl Departure {
    fn new(model: &Graph, name: &str, from: Source, actual: &Value, found: Deviation) -> Departure {
        let maker = selection::maker(model, name);
        let mut departure = Departure {
            value: name.to_owned(),
            node: maker.map_or_else(String::new, |node| node.name.clone()),
            operator: maker.map_or_else(String::new, selection::operator),
            from,
            place: None,
            dtype: None,
            shape: None,
            form: None,
            first: None,
            worst: None,
            wrong: 0,
            count: 0,
        };
        match found {
            Deviation::Kind { expected, actual } => {
                departure.form = Some(format!("expected {expected}, got {actual}"));
            }
            Deviation::Tensor { place, difference } => {
                departure.place = place;
                let tensors = actual.tensors();
                let tensor = tensors.get(place.unwrap_or(0));
                departure.dtype = tensor.map(|tensor| tensor.dtype().to_string());
                departure.shape = tensor.map(|tensor| tensor.shape().to_vec());
                match difference {
                    Difference::Elements { first, worst, wrong, count } => {
                        (departure.first, departure.worst) = (Some(first), Some(worst));
                        (departure.wrong, departure.count) = (wrong, count);
                    }
                    spec => departure.form = Some(spec.to_string()),
                }
            }
        }
        departure
    }

    fn print(&self, screen: &mut dyn Write) -> Outcome {
        let Departure { node, operator, value, .. } = self;
        write!(screen, "first departs: node '{node}' ({operator}), value '{value}'")?;
        if let Some(place) = self.place {
            write!(screen, " tensor {place}")?;
        }
        if let (Some(dtype), Some(dims)) = (&self.dtype, &self.shape) {
            write!(screen, ", {dtype} {}", shape::text(dims))?;
        }
        match self.from {
            Source::Tapped { request } if request > 1 => write!(screen, ", in request {request}")?,
            Source::Untapped { request } => write!(screen, ", without taps in request {request}")?,
            Source::Tapped { .. } => {}
        }
        writeln!(screen)?;
        if let Some(form) = &self.form {
            writeln!(screen, "  {form}")?;
        }
        for (which, element) in [("first", &self.first), ("worst", &self.worst)] {
            let Some(Element { index, expected, actual, ulps }) = element else { continue };
            let ulps = ulps.map_or(String::new(), |ulps| format!(" ({ulps} ulps)"));
            writeln!(screen, "  {which} element {}: {actual}, expected {expected}{ulps}", shape::text(index))?;
        }
        if self.count > 0 {
            writeln!(screen, "  {} of {} elements are off by more than is allowed", self.wrong, self.count)?;
        }
        Ok(())
    }
}
