//! `kiln inspect`: the graph after fusion, node by node. With shapes given, one request is run and each node also shows
//! its shapes, its kernel and the key that it asked the cache with.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use kiln::graph::device::ON_DEVICE;
use kiln::graph::passes::{PassCount, PassReport};
use kiln::graph::{Graph, NodeDesc, Observer, StepEvent};
use kiln::session::Session;
use kiln::tensor::Tensor;
use serde::Serialize;

use crate::failure::{Blame, Failure, Outcome};
use crate::feed::{self, FeedArgs};
use crate::setup::{self, Habit, SessionArgs};
use crate::shape;
use crate::table::Table;

/// What was typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ONNX file
    model: PathBuf,
    #[command(flatten)]
    feed: FeedArgs,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// All that is shown, and the JSON object.
#[derive(Debug, Serialize)]
struct View {
    model: String,
    isa: &'static str,
    inputs: Vec<String>,
    outputs: Vec<String>,
    nodes_in_file: usize,
    passes: Vec<PassView>,
    nodes: Vec<NodeView>,
}

#[derive(Debug, Serialize)]
struct PassView {
    name: &'static str,
    changes: usize,
    ms: f64,
}

#[derive(Debug, Serialize)]
struct NodeView {
    name: String,
    op: String,
    /// Where the operator has a choice: how its data lies in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<&'static str>,
    /// Activations, residuals, chains that became a part of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    fused: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Known after a request was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunView>,
}

/// What one request showed of a node.
#[derive(Clone, Debug, Default, Serialize)]
struct RunView {
    family: String,
    input_shapes: Vec<String>,
    output_shapes: Vec<String>,
    keys: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let options = args.session.options(Habit::Memory)?;
    let session = setup::load(&args.model, &options)?;
    let wants_run = !args.feed.shapes.is_empty() || !args.feed.dims.is_empty();
    let (runs, notices) = if wants_run { observe(&session, args)? } else { Default::default() };
    let description = session.describe();
    let view = View {
        model: args.model.display().to_string(),
        isa: options.isa().name(),
        inputs: session.inputs().iter().map(feed::port_text).collect(),
        outputs: session.outputs().iter().map(feed::port_text).collect(),
        nodes_in_file: description.passes.nodes_before,
        passes: passes(&description.passes),
        nodes: nodes(&description.graph, runs),
    };
    if args.json {
        let json = serde_json::to_string_pretty(&view).failed(|| "cannot write JSON")?;
        writeln!(screen, "{json}")?;
        return Ok(());
    }
    notices.iter().try_for_each(|notice| writeln!(screen, "notice: {notice}"))?;
    print(&view, screen)
}

/// Runs one request and watches its nodes.
fn observe(session: &Session, args: &Args) -> Outcome<(Vec<RunView>, Vec<String>)> {
    let plan = feed::plan(session.inputs(), &[], &args.feed)?;
    let [recipes] = plan.requests.as_slice() else {
        return Err(Failure::usage("inspect takes one shape for each input"));
    };
    let mut inputs: Vec<(&str, Tensor)> = Vec::new();
    for recipe in recipes {
        inputs.push((&recipe.name, recipe.make().usage(|| "cannot make inputs")?));
    }
    let watch = Watch::default();
    session
        .run_observed(&inputs, Some(&watch))
        .map_err(|error| Failure::from(error).context(args.model.display().to_string()))?;
    let runs = watch.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((runs, plan.notices))
}

/// Notes what each node did, by its place in the graph.
#[derive(Default)]
struct Watch(Mutex<Vec<RunView>>);

impl Observer for Watch {
    fn wants_keys(&self) -> bool {
        true
    }

    fn step(&self, event: &StepEvent<'_>) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() <= event.index {
            runs.resize_with(event.index + 1, RunView::default);
        }
        runs[event.index] = RunView {
            family: event.step.family().to_owned(),
            input_shapes: event
                .inputs
                .iter()
                .map(|spec| spec.as_ref().map_or("-".to_owned(), |spec| shape::text(&spec.shape)))
                .collect(),
            output_shapes: event.outputs.iter().map(|spec| shape::text(&spec.shape)).collect(),
            keys: event.keys.to_vec(),
        };
    }
}

fn passes(report: &PassReport) -> Vec<PassView> {
    let view =
        |count: &PassCount| PassView { name: count.name, changes: count.changes, ms: count.time.as_secs_f64() * 1e3 };
    report.passes.iter().map(view).collect()
}

fn nodes(graph: &Graph, runs: Vec<RunView>) -> Vec<NodeView> {
    let mut runs = runs.into_iter().map(Some);
    let view = |node: &NodeDesc| NodeView {
        name: node.name.clone(),
        op: if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) },
        layout: match node.int(ON_DEVICE, 0) {
            0 => (node.int("channels_last", 0) == 1).then_some("channels last"),
            _ => Some("on the device"),
        },
        fused: kiln::session::compile::fusions(node),
        inputs: names(graph, &node.inputs),
        outputs: names(graph, &node.outputs),
        run: runs.next().flatten(),
    };
    graph.nodes.iter().map(view).collect()
}

/// Values by name; those left out are dashes.
fn names(graph: &Graph, values: &[Option<kiln::graph::ValueId>]) -> Vec<String> {
    let name = |value: &Option<kiln::graph::ValueId>| value.map_or("-".to_owned(), |id| graph.value(id).name.clone());
    values.iter().map(name).collect()
}

fn print(view: &View, screen: &mut dyn Write) -> Outcome {
    writeln!(screen, "{} on {}", view.model, view.isa)?;
    for (what, ports) in [("input", &view.inputs), ("output", &view.outputs)] {
        ports.iter().try_for_each(|port| writeln!(screen, "{what} {port}"))?;
    }
    let changes = view.passes.iter().filter(|pass| pass.changes > 0);
    let changes: Vec<String> = changes.map(|pass| format!("{} {}", pass.name, pass.changes)).collect();
    writeln!(screen, "changes by passes: {}", if changes.is_empty() { "none".to_owned() } else { changes.join(", ") })?;
    let ran = view.nodes.iter().any(|node| node.run.is_some());
    let mut titles = vec![">", "node", "operator", "layout", "fused"];
    titles.extend(if ran { &["family", "shapes", "key"][..] } else { &["inputs", "outputs"] });
    let mut table = Table::new(&titles);
    for (index, node) in view.nodes.iter().enumerate() {
        let mut cells = vec![index.to_string(), node.name.clone(), node.op.clone()];
        cells.extend([node.layout.unwrap_or_default().to_owned(), node.fused.clone()]);
        match &node.run {
            Some(run) => {
                let shapes = format!("{} -> {}", run.input_shapes.join(" "), run.output_shapes.join(" "));
                cells.extend([run.family.clone(), shapes, run.keys.join(" ")]);
            }
            None => cells.extend([node.inputs.join(" "), node.outputs.join(" ")]),
        }
        table.row(cells);
    }
    write!(screen, "{}", table.text())?;
    writeln!(screen, "{} nodes, {} in the file", view.nodes.len(), view.nodes_in_file)?;
    Ok(())
}
