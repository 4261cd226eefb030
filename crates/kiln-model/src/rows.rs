//! Which nodes treat the rows of their operands one by one, so that they can run once over the rows of many requests.
//!
//! A value's *rows* are its leading axes; the other axes have one known width: `[batch, sequence, 384]` has `batch *
//! sequence` rows of 384 elements. A node is *row-wise* if
//!
//! - each row of its result depends on the same row of its operands and on constants alone, in ONNX's semantics, and
//! - its operands provably have the same leading dimensions, whatever the request.
//!
//! The rows of several requests, laid end to end, are then an operand of the same node, and its result has their
//! results end to end. All other nodes run for each request. A node that is not recognised as row-wise costs speed but
//! never a wrong result. Masks, positions and heads need no patterns.
//!
//! [`stages`] cuts a graph into successive stages, alternately of nodes that run for each request and of row-wise ones.
//! It takes a graph after its passes, and ignores names of values.

use std::collections::BTreeMap;

use kiln_tensor::DType;

use super::facts::{Facts, Size};
use super::ir::{Graph, NodeDesc, ValueId};
use super::operators::{self, RowWise};

/// Nodes that run after those of the stage before.
#[derive(Debug, PartialEq, Eq)]
pub struct Stage {
    /// Their places in the graph, in its order.
    pub nodes: Vec<usize>,
    /// Their rows, as an index in [`Stages::rows`], if they are row-wise.
    pub rows: Option<usize>,
}

/// A kind of rows: their number is the product of the first axes of an input of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The input, by its place among the graph's.
    pub input: usize,
    /// The number of axes, at least 1.
    pub axes: usize,
}

/// A graph in stages.
#[derive(Debug)]
pub struct Stages {
    /// In the order in which they run.
    pub stages: Vec<Stage>,
    /// Every kind of rows that a stage has.
    pub rows: Vec<Rows>,
    /// The rows that most products have, as an index in `rows`.
    pub most: usize,
    /// By rows, the products by constant weights.
    pub products: Vec<Vec<usize>>,
}

/// The most inputs of a graph that are searched for rows, and the most kinds of rows.
const MOST_ROWS: usize = 64;

/// After this many passes over a graph no part of it is joined; each pass takes out parts without products.
const PASSES: usize = 8;

/// Row-wise nodes of a graph.
struct Found {
    rows: Vec<Rows>,
    /// By node, the index of its rows where it is row-wise.
    nodes: Vec<Option<usize>>,
    /// By node, whether it is a product by constant weights.
    products: Vec<bool>,
}

/// The stages of a graph in which row-wise nodes run once for many requests; `None` if there is no row-wise product by
/// constant weights, because nothing else gains by that.
///
/// The rows that most products have are joined. Other rows (those of a network's head, one for each item of a request)
/// are joined where `may_join` allows it for their products. `folded` tells whether a value follows from the shapes of
/// a request and constants: nodes that make such a value belong to no stage, and each stage that reads it has copies of
/// these nodes.
pub fn stages(
    graph: &Graph,
    facts: &Facts,
    folded: &dyn Fn(ValueId) -> bool,
    may_join: &dyn Fn(&[usize]) -> bool,
) -> Option<Stages> {
    let mut found = Found::of(graph, facts, folded);
    let products: Vec<Vec<usize>> = (0..found.rows.len()).map(|rows| found.products_of(rows)).collect();
    let most = (0..products.len()).max_by_key(|&rows| products[rows].len())?;
    let others = (0..products.len()).filter(|&rows| rows != most && !may_join(&products[rows]));
    others.for_each(|rows| found.leave(|_, of| of == Some(rows)));
    for _ in 0..PASSES {
        if found.products_of(most).is_empty() {
            return None;
        }
        let stages = found.scheduled(graph, folded);
        let is_idle = |stage: &&Stage| stage.rows.is_some() && !stage.nodes.iter().any(|&node| found.products[node]);
        let mut idle: Vec<usize> =
            stages.iter().filter(is_idle).flat_map(|stage| stage.nodes.iter().copied()).collect();
        idle.sort_unstable();
        if idle.is_empty() {
            let products = (0..found.rows.len()).map(|rows| found.products_of(rows)).collect();
            return Some(Stages { stages, rows: found.rows, most, products });
        }
        found.leave(|node, _| idle.binary_search(&node).is_ok());
    }
    None
}

impl Found {
    fn of(graph: &Graph, facts: &Facts, folded: &dyn Fn(ValueId) -> bool) -> Found {
        let look = Look { graph, facts, folded };
        let mut found = Found { rows: Vec::new(), nodes: Vec::new(), products: Vec::new() };
        for node in &graph.nodes {
            let treats = look.treatment(node);
            let axes = treats.and_then(|treats| look.row_axes(node, treats));
            let rows = axes.and_then(|axes| found.rows_of(&look, node, axes));
            found.products.push(rows.is_some() && matches!(treats, Some(Treatment::Rows(RowWise::Product(_)))));
            found.nodes.push(rows);
        }
        found
    }

    /// The index of the rows of a node's result, which are its first axes: those of an input with the same sizes.
    fn rows_of(&mut self, look: &Look<'_>, node: &NodeDesc, axes: usize) -> Option<usize> {
        let leading = look.facts.dims(node.output(0)?)?.get(..axes)?;
        let has = |&input: &ValueId| look.facts.dims(input).is_some_and(|dims| dims.get(..axes) == Some(leading));
        let input = look.graph.inputs.iter().take(MOST_ROWS).position(has)?;
        let rows = Rows { input, axes };
        if let Some(known) = self.rows.iter().position(|known| *known == rows) {
            return Some(known);
        }
        if self.rows.len() == MOST_ROWS {
            return None;
        }
        self.rows.push(rows);
        Some(self.rows.len() - 1)
    }

    /// The products of these rows.
    fn products_of(&self, rows: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| self.products[node] && self.nodes[node] == Some(rows)).collect()
    }

    /// Makes nodes run for each request, chosen by their places and rows.
    fn leave(&mut self, leaves: impl Fn(usize, Option<usize>) -> bool) {
        for (node, rows) in self.nodes.iter_mut().enumerate() {
            if leaves(node, *rows) {
                *rows = None;
            }
        }
    }

    /// The nodes in stages: each as early as its operands allow.
    fn scheduled(&self, graph: &Graph, folded: &dyn Fn(ValueId) -> bool) -> Vec<Stage> {
        let mut ready = vec![Ready::default(); graph.values.len()];
        let mut stages: BTreeMap<(usize, Option<usize>), Vec<usize>> = BTreeMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            let inputs = node.inputs.iter().flatten().filter(|value| !graph.constants.contains_key(*value));
            let is_folded = node.outputs.iter().flatten().all(|&value| folded(value));
            let rows = self.nodes[index].filter(|_| !is_folded);
            let step = inputs.map(|value| ready[value.index()].before(rows)).max();
            let step = step.unwrap_or_default().max(usize::from(rows.is_some()));
            for value in node.outputs.iter().flatten() {
                ready[value.index()] = Ready { step, rows };
            }
            if !is_folded {
                stages.entry((step, rows)).or_default().push(index);
            }
        }
        stages.into_iter().map(|((_, rows), nodes)| Stage { nodes, rows }).collect()
    }
}

/// When a value is there. Even steps run for each request, odd ones over rows.
#[derive(Clone, Copy, Default)]
struct Ready {
    step: usize,
    rows: Option<usize>,
}

impl Ready {
    /// The first step in which a node of these rows, or a node that runs for each request, can read it.
    fn before(self, rows: Option<usize>) -> usize {
        match (self.rows, rows) {
            (own, wanted) if own == wanted => self.step,
            (Some(_), Some(_)) => self.step + 2,
            _ => self.step + 1,
        }
    }
}

/// How a row-wise node treats its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// Computes each element from those in its place.
    Elements,
    /// Treats rows as the table says.
    Rows(RowWise),
}

/// The context for examining nodes.
struct Look<'a> {
    graph: &'a Graph,
    facts: &'a Facts,
    folded: &'a dyn Fn(ValueId) -> bool,
}

impl Look<'_> {
    /// How a node treats its operands, if its operator and attributes allow joined rows.
    fn treatment(&self, node: &NodeDesc) -> Option<Treatment> {
        let row = operators::of(node)?;
        let is_single = node.outputs.iter().skip(1).all(Option::is_none);
        let is_plain = is_single && !node.is_channels_last() && !node.attrs.contains_key("to");
        if !is_plain || !self.facts.is(node.output(0)?, DType::F32) {
            return None;
        }
        if row.is_element_wise() || node.is_fused("Chain") {
            return Some(Treatment::Elements);
        }
        let rank = self.facts.rank(node.output(0)?)? as i64;
        let int = |name: &str| row.attributes_of(node).int(name);
        let treats = row.row_wise?;
        let is_row_wise = match treats {
            RowWise::Product(transposes) => transposes.is_none_or(|name| int(name) == 0),
            RowWise::LastAxis { since } => node.version >= since && [-1, rank - 1].contains(&int("axis")),
            RowWise::Table => int("axis") == 0,
        };
        is_row_wise.then_some(Treatment::Rows(treats))
    }

    /// How many leading axes of a node's result are rows, where its operands have them too.
    fn row_axes(&self, node: &NodeDesc, treats: Treatment) -> Option<usize> {
        let output = self.facts.dims(node.output(0)?)?;
        let axes = output.len().checked_sub(1).filter(|&axes| axes > 0)?;
        output[axes].known()?;
        let is_row_wise = match treats {
            Treatment::Rows(RowWise::Product(_)) => {
                self.has_rows(node.input(0)?, output, axes)
                    && self.constant_rank(node.input(1)?) == Some(2)
                    && node.inputs.iter().skip(2).flatten().all(|&value| self.belongs(value, output, axes))
            }
            Treatment::Elements => node.inputs.iter().flatten().all(|&value| self.belongs(value, output, axes)),
            Treatment::Rows(RowWise::LastAxis { .. }) => {
                let parameters = node.inputs.iter().skip(1).flatten();
                self.has_rows(node.input(0)?, output, axes)
                    && parameters.clone().all(|&value| self.constant_rank(value).is_some_and(|rank| rank <= 1))
            }
            Treatment::Rows(RowWise::Table) => {
                let indices = self.facts.dims(node.input(1)?)?;
                self.constant_rank(node.input(0)?) == Some(2)
                    && self.joins(node.input(1)?)
                    && indices == &output[..axes]
            }
        };
        is_row_wise.then_some(axes)
    }

    /// Whether a value differs between requests of one shape, and so can be joined.
    fn joins(&self, value: ValueId) -> bool {
        !self.graph.constants.contains_key(&value) && !(self.folded)(value)
    }

    /// The rank of a constant.
    fn constant_rank(&self, value: ValueId) -> Option<usize> {
        self.graph.constant(value).map(|tensor| tensor.shape().len())
    }

    /// Whether a value has the rows of a result, and a known width.
    fn has_rows(&self, value: ValueId, output: &[Size], axes: usize) -> bool {
        let leading = &output[..axes];
        self.joins(value)
            && self
                .facts
                .dims(value)
                .is_some_and(|dims| dims.len() == axes + 1 && dims[..axes] == *leading && dims[axes].known().is_some())
    }

    /// Whether an operand broadcasts to a result of these dimensions with the same elements for each row, or with those
    /// of the row.
    fn belongs(&self, value: ValueId, output: &[Size], axes: usize) -> bool {
        match self.graph.constant(value) {
            Some(tensor) => {
                let shape = tensor.shape();
                shape.len() <= output.len() && shape.iter().rev().skip(1).all(|&size| size == 1)
            }
            None => self.has_rows(value, output, axes),
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_tensor::Tensor;

    use super::*;
    use crate::GraphBuilder;
    use crate::ir::{Attr, Dim};

    /// The operators of each stage; those over rows come with the input and the axes that count the rows.
    fn told(graph: &Graph) -> Vec<String> {
        let Some(stages) =
            stages(graph, &Facts::of(graph, true), &|value| graph.constants.contains_key(&value), &|_| true)
        else {
            return Vec::new();
        };
        let told = |stage: &Stage| {
            let ops: Vec<&str> = stage.nodes.iter().map(|&node| graph.nodes[node].op.as_str()).collect();
            let rows = stage.rows.map(|rows| format!("{}:{} ", stages.rows[rows].input, stages.rows[rows].axes));
            format!("{}{}", rows.unwrap_or_default(), ops.join(" "))
        };
        stages.stages.iter().map(told).collect()
    }

    fn weights(build: &mut GraphBuilder, shape: &[usize]) -> ValueId {
        let elements = shape.iter().product();
        build.constant(Tensor::from_vec(shape.iter().copied(), vec![1f32; elements]).unwrap())
    }

    fn sequence(build: &mut GraphBuilder) -> ValueId {
        build.input("x", DType::F32, ["n".into(), "s".into(), 8.into()])
    }

    #[test]
    fn products_functions_and_norms_are_joined_and_what_looks_along_the_sequence_is_not() {
        let mut build = GraphBuilder::new("layer", 20);
        let x = sequence(&mut build);
        let [w, bias, scale] = [&[8, 8][..], &[8], &[8]].map(|shape| weights(&mut build, shape));
        let product = build.op("MatMul", &[x, w], &[]);
        let biased = build.op("Add", &[product, bias], &[]);
        let scores = build.op("Softmax", &[biased], &[("axis", Attr::Int(1))]);
        let turned = build.op("Add", &[scores, x], &[]);
        let product = build.op("MatMul", &[turned, w], &[]);
        let norm = build.op("LayerNormalization", &[product, scale], &[]);
        build.output("y", norm);
        assert_eq!(told(&build.finish()), ["0:2 MatMul Add", "Softmax", "0:2 Add MatMul LayerNormalization"]);
    }

    #[test]
    fn a_table_is_read_by_the_rows_of_many_requests_where_a_product_follows() {
        let mut build = GraphBuilder::new("words", 20);
        let ids = build.input("ids", DType::I64, ["n".into(), Dim::Any]);
        let [table, w] = [[100, 8], [8, 4]].map(|shape| weights(&mut build, &shape));
        let words = build.op("Gather", &[table, ids], &[]);
        let y = build.op("MatMul", &[words, w], &[]);
        build.output("y", y);
        let mut graph = build.finish();
        assert_eq!(told(&graph), ["0:2 Gather MatMul"]);
        graph.nodes.pop();
        assert_eq!(told(&graph), [""; 0], "a table alone gains nothing");
    }

    #[test]
    fn operands_whose_leading_dimensions_may_differ_are_not_joined() {
        let cases: [(&str, &[Dim]); 4] = [
            ("of one sequence for all", &[1.into(), "s".into(), 8.into()]),
            ("of another length", &["n".into(), "t".into(), 8.into()]),
            ("of another rank", &["s".into(), 8.into()]),
            ("of unknown width", &["n".into(), "s".into(), Dim::Any]),
        ];
        for (what, dims) in cases {
            let mut build = GraphBuilder::new("sum", 20);
            let x = sequence(&mut build);
            let other = build.input("other", DType::F32, dims.to_vec());
            let w = weights(&mut build, &[8, 8]);
            let sum = build.op("Add", &[x, other], &[]);
            let y = build.op("MatMul", &[sum, w], &[]);
            build.output("y", y);
            let told = told(&build.finish());
            assert!(told.iter().all(|stage| stage.starts_with("Add") || !stage.contains("Add")), "{what}: {told:?}");
        }
    }

    #[test]
    fn products_of_two_computed_values_and_transposed_rows_are_not_joined() {
        let mut build = GraphBuilder::new("products", 20);
        let x = build.input("x", DType::F32, ["n".into(), 8.into()]);
        let w = weights(&mut build, &[8, 8]);
        let square = build.op("Gemm", &[x, x], &[("transA", Attr::Int(1))]);
        build.output("square", square);
        let gram = build.op("MatMul", &[square, x], &[]);
        build.output("gram", gram);
        let turned = build.op("Gemm", &[x, w], &[("transA", Attr::Int(1))]);
        build.output("turned", turned);
        assert_eq!(told(&build.finish()), [""; 0]);
    }

    #[test]
    fn values_that_each_request_has_of_its_shape_are_read_where_they_are_wanted() {
        let mut build = GraphBuilder::new("folded", 20);
        let x = sequence(&mut build);
        let w = weights(&mut build, &[8, 8]);
        let product = build.op("MatMul", &[x, w], &[]);
        let shape = build.op("Shape", &[product], &[]);
        let flat = build.constant(Tensor::from_vec([1], vec![-1i64]).unwrap());
        let folded = build.op("Reshape", &[shape, flat], &[]);
        let y = build.op("Expand", &[product, folded], &[]);
        build.output("y", y);
        let graph = build.finish();
        let is_folded = |value: ValueId| value == shape || value == folded || graph.constants.contains_key(&value);
        let stages = stages(&graph, &Facts::of(&graph, true), &is_folded, &|_| true).unwrap();
        let nodes: Vec<_> = stages.stages.into_iter().map(|stage| stage.nodes).collect();
        assert_eq!(nodes, [vec![0], vec![3]], "the target is made where it is read");
    }
}
