//! `kiln diff`: one request through two configurations, compared value by value in the order of the graph, to find the
//! first node whose result departs.
//!
//! The compared values are those that are still computed after the passes, so that the suspect runs as without taps: a
//! fused node is compared by its result. Taps still have effects (no value is overwritten, channels-last values are
//! transposed), so the model's own outputs are also compared from a session without taps.

mod comparison;
mod found;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use kiln::session::{Numerics, Precision, Session, SessionOptions};
use kiln_kernels::Isa;
use kiln_model::passes::PassOptions;
use kiln_model::{Graph, Value};

use crate::closeness::Tolerance;
use crate::diff::comparison::Allowed;
use crate::diff::found::{Findings, Source};
use crate::dump;
use crate::failure::{Code, Failure, Outcome, WithCode};
use crate::feed::{self, FeedArgs, InputFile};
use crate::nodes::Watch;
use crate::selection::{self, SelectionArgs};
use crate::setup::{self, DefaultCacheMode, SessionArgs};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ONNX file
    model: PathBuf,
    /// What the values are compared with: `reference` (plain Rust, no passes), `portable` (plain Rust, the same
    /// passes), `without-passes` (the same kernels, no passes), a folder that `kiln run --dump` wrote, or FILE.npz with
    /// values by name
    #[arg(long, value_name = "WHAT", default_value = "reference")]
    against: Against,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Values of an input: FILE or NAME=FILE, as .npy, .npz (by array name) or .pb; inputs without a file are generated
    #[arg(long = "input", value_name = "[NAME=]FILE", help_heading = "Inputs")]
    inputs: Vec<InputFile>,
    #[command(flatten)]
    feed: FeedArgs,
    /// Largest error of an element, relative to the element
    #[arg(long, value_name = "SHARE", default_value_t = Tolerance::default().rtol, help_heading = "Tolerance")]
    rtol: f64,
    /// Largest error of an element that is always allowed
    #[arg(long, value_name = "SIZE", default_value_t = Tolerance::default().atol, help_heading = "Tolerance")]
    atol: f64,
    /// Largest error of an element, relative to the largest element of its tensor: sums are rounded by their terms
    #[arg(long, value_name = "SHARE", default_value_t = 1e-5, help_heading = "Tolerance")]
    scale: f64,
    /// Largest error of an integer
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Tolerance")]
    units: u64,
    /// How many times the request is served: the second time uses the plan that the first one made
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// The values to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Against {
    /// The references of the kernel families, on the model's own graph.
    Reference,
    /// The references, on the graph after the same passes.
    Portable,
    /// The same kernels, on the model's own graph.
    WithoutPasses,
    /// Values from files.
    Values(PathBuf),
}

impl FromStr for Against {
    type Err = String;

    fn from_str(text: &str) -> Result<Against, String> {
        Ok(match text {
            "reference" => Against::Reference,
            "portable" => Against::Portable,
            "without-passes" => Against::WithoutPasses,
            "" => return Err("reference, portable, without-passes, a folder or a file".to_owned()),
            path => Against::Values(PathBuf::from(path)),
        })
    }
}

impl Against {
    /// The options of the other session; `None` if the values are read.
    fn options(&self, subject: &SessionOptions) -> Option<SessionOptions> {
        let plain = SessionOptions {
            max_isa: Some(Isa::Portable),
            numerics: Numerics::Strict,
            precision: Precision::F32,
            device: None,
            // A wrong choice in the records must not be used by both.
            cache_dir: None,
            remote: None,
            tune: kiln::session::Tune::Off,
            ..subject.clone()
        };
        match self {
            Against::Reference => Some(SessionOptions { passes: as_written(&subject.passes), ..plain }),
            Against::Portable => Some(plain),
            Against::WithoutPasses => Some(SessionOptions { passes: as_written(&subject.passes), ..subject.clone() }),
            Against::Values(_) => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Against::Reference => "reference".to_owned(),
            Against::Portable => "portable".to_owned(),
            Against::WithoutPasses => "without-passes".to_owned(),
            Against::Values(path) => path.display().to_string(),
        }
    }
}

/// No passes but one: whether values between nodes of 16 bits are rounded is as in the other session, because that is
/// no fault of either.
fn as_written(subject: &PassOptions) -> PassOptions {
    const PRECISION: &str = "widen";
    let none = PassOptions::none();
    if subject.is_on(PRECISION) { none.with(PRECISION) } else { none }
}

/// Values by name.
type Values = BTreeMap<String, Value>;

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let numbers = [("--rtol", args.rtol), ("--atol", args.atol), ("--scale", args.scale)];
    if let Some((flag, _)) = numbers.into_iter().find(|(_, number)| number.is_nan() || *number < 0.0) {
        return Err(Failure::usage(format!("{flag} must not be less than 0")));
    }
    let options = args.session.options(DefaultCacheMode::Memory)?;
    let model = selection::model(&args.model, &options)?;
    let known = match &args.against {
        Against::Values(path) => Some(dump::read(path)?),
        _ => None,
    };
    let untapped = setup::load(&args.model, &options)?;
    let inputs = inputs(args, &untapped, screen)?;
    let inputs: Vec<(&str, Value)> = inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let mut wanted = args.selection.values(&model, || Ok(untapped.describe().clone()))?;
    if let Some(known) = &known {
        wanted.retain(|name| known.contains_key(name));
    }
    let outputs: Vec<Values> =
        (0..args.requests).map(|_| values(args, untapped.run_values(&inputs))).collect::<Outcome<_>>()?;
    drop(untapped);

    let expected = match (known, args.against.options(&options)) {
        (Some(known), _) => known,
        (None, Some(other)) => {
            let session = setup::load(&args.model, &SessionOptions { taps: wanted.clone(), ..other })?;
            values(args, session.run_values(&inputs))?
        }
        (None, None) => Values::new(),
    };

    let tapped = SessionOptions { taps: wanted.clone(), ..options.clone() };
    let session = setup::load(&args.model, &tapped)?;
    let compared = compared(&model, &wanted, &expected);
    if compared.is_empty() {
        let text = args.against.text();
        return Err(Failure::usage(format!("--against: no value of the model is in {text}, so nothing is compared")));
    }
    let tolerance = Tolerance { rtol: args.rtol, atol: args.atol, units: args.units };
    let allowed = Allowed { tolerance, scale: args.scale, precision: options.precision };
    let watch = Watch::default();
    let mut findings = Findings::new(&args.model, options.isa().name(), &args.against.text(), &compared);
    for (request, plain) in (1..).zip(&outputs) {
        let actual = values(args, session.run_values_observed(&inputs, &watch))?;
        findings.compare(&model, Source::Tapped { request }, &actual, &expected, allowed)?;
        findings.compare(&model, Source::Untapped { request }, plain, &expected, allowed)?;
        if findings.any() {
            break;
        }
    }
    if options.precision != Precision::F32
        && let Some(outputs) = outputs.last()
    {
        findings.measure(outputs, &expected);
    }
    findings.explain(session.describe(), watch.into_runs());
    if args.json {
        let json = serde_json::to_string_pretty(&findings).failed(|| "cannot write JSON")?;
        writeln!(screen, "{json}")?;
    } else {
        findings.print(screen)?;
    }
    if findings.any() { Err(Failure::reported(Code::Failed)) } else { Ok(()) }
}

/// The request, which is the same for all sessions.
fn inputs(args: &Args, session: &Session, screen: &mut dyn Write) -> Outcome<Vec<(String, Value)>> {
    let mut given = feed::read_files(session.inputs(), &args.inputs)?;
    let plan = feed::plan(session.inputs(), &given, &args.feed)?;
    let [recipes] = plan.requests.as_slice() else {
        return Err(Failure::usage("diff takes one shape for each input"));
    };
    for recipe in recipes {
        given.push((recipe.name.clone(), recipe.make().usage(|| "cannot make inputs")?));
    }
    if !args.json {
        plan.notices.iter().try_for_each(|notice| writeln!(screen, "notice: {notice}"))?;
    }
    Ok(given.into_iter().map(|(name, tensor)| (name, Value::Tensor(tensor))).collect())
}

/// The values that a request returned, by name.
fn values(args: &Args, run: Result<Vec<(String, Value)>, kiln::session::SessionError>) -> Outcome<Values> {
    let values = run.map_err(|error| Failure::from(error).context(args.model.display().to_string()))?;
    Ok(values.into_iter().collect())
}

/// The names of the values that are compared, in the order of the model's nodes: the selected ones and the outputs, if
/// the other side has them and they do not depend on random values.
fn compared(model: &Graph, wanted: &[String], expected: &Values) -> Vec<String> {
    let random = selection::random(model);
    let outputs: Vec<&str> = model.outputs.iter().map(|&id| model.value(id).name.as_str()).collect();
    let made = model.nodes.iter().flat_map(|node| node.outputs.iter().flatten()).map(|&id| &model.value(id).name);
    let is_compared = |name: &&String| {
        let asked = wanted.contains(name) || outputs.contains(&name.as_str());
        asked && expected.contains_key(*name) && !random.contains(*name)
    };
    made.filter(is_compared).cloned().collect()
}
