//! `kiln inspect`: the graph after fusion, node by node. With shapes given, one request is run and each node also shows
//! its shapes, its kernel and its keys.

use std::io::Write;
use std::path::PathBuf;

use kiln::session::{JoinReport, Session};
use kiln_model::passes::{PassCount, PassReport};
use kiln_tensor::Tensor;
use serde::Serialize;

use crate::failure::{Failure, Outcome, WithCode};
use crate::feed::{self, FeedArgs};
use crate::nodes::{self, NodeView, RunView};
use crate::setup::{self, DefaultCacheMode, SessionArgs};
use crate::table::Table;

/// The command's arguments.
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
    /// The part of the graph that short requests compute together, if any.
    joined: Option<JoinedView>,
}

#[derive(Debug, Serialize)]
struct JoinedView {
    nodes: usize,
    stages: usize,
    /// The numbers of rows with which requests are joined.
    rows: Vec<usize>,
}

#[derive(Debug, Serialize)]
struct PassView {
    name: &'static str,
    changes: usize,
    ms: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let options = args.session.options(DefaultCacheMode::Memory)?;
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
        nodes: nodes::views(&description.graph, runs),
        joined: session.join_report().map(|JoinReport { nodes, stages, rows, .. }| JoinedView { nodes, stages, rows }),
    };
    if args.json {
        let json = serde_json::to_string_pretty(&view).failed(|| "cannot write JSON")?;
        writeln!(screen, "{json}")?;
        return Ok(());
    }
    notices.iter().try_for_each(|notice| writeln!(screen, "notice: {notice}"))?;
    print(&view, screen)
}

/// Runs one request and observes its nodes.
fn observe(session: &Session, args: &Args) -> Outcome<(Vec<RunView>, Vec<String>)> {
    let plan = feed::plan(session.inputs(), &[], &args.feed)?;
    let [recipes] = plan.requests.as_slice() else {
        return Err(Failure::usage("inspect takes one shape for each input"));
    };
    let mut inputs: Vec<(&str, Tensor)> = Vec::new();
    for recipe in recipes {
        inputs.push((&recipe.name, recipe.make().usage(|| "cannot make inputs")?));
    }
    let watch = nodes::Watch::default();
    session
        .run_observed(&inputs, Some(&watch))
        .map_err(|error| Failure::from(error).context(args.model.display().to_string()))?;
    Ok((watch.into_runs(), plan.notices))
}

fn passes(report: &PassReport) -> Vec<PassView> {
    let view =
        |count: &PassCount| PassView { name: count.name, changes: count.changes, ms: count.time.as_secs_f64() * 1e3 };
    report.passes.iter().map(view).collect()
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
    match &view.joined {
        Some(JoinedView { nodes, stages, rows }) => {
            let rows = ranges(rows);
            writeln!(screen, "computed together for requests of {rows} rows: nodes {nodes}, stages {stages}")?;
        }
        None => writeln!(screen, "computed together for short requests: nothing")?,
    }
    Ok(())
}

/// Ascending numbers, with neighbours as a range: `1, 4-6, 8-32`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|before, after| before + 1 == *after);
    let told = |run: &[usize]| match run {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
    };
    runs.map(told).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_as_a_range() {
        assert_eq!(ranges(&[1, 4, 5, 6, 8, 9]), "1, 4-6, 8-9");
        assert_eq!(ranges(&[]), "");
    }
}
