//! `kiln bench`: a model over requests of changing shapes: the cost of loading, of a new shape, of the same shape
//! again, and of requests when nothing is new.

mod measure;
mod report;

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use kiln::session::Session;

use crate::arrays;
use crate::bench::measure::{Bounds, Passes};
use crate::bench::report::{Memory, Report};
use crate::failure::{Failure, Outcome, WithCode};
use crate::feed::FeedArgs;
use crate::memory;
use crate::profile;
use crate::setup::{self, DefaultCacheMode, SessionArgs};
use crate::trace::Trace;
use crate::trace_out::TraceOut;
use crate::tuning;
use crate::workload::{self, Workload};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ONNX file
    model: PathBuf,
    /// Requests from this trace file, by the model's file name without its extension
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shapes", "dims", "seed"], help_heading = "Inputs")]
    trace: Option<PathBuf>,
    /// Requests from the data sets of this case: a folder with folders test_data_set_K that hold input_I.pb
    #[arg(long, value_name = "DIR", conflicts_with_all = ["trace", "shapes", "dims", "seed"], help_heading = "Inputs")]
    data: Option<PathBuf>,
    #[command(flatten)]
    feed: FeedArgs,
    /// Rounds over the steady shapes, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = clap::value_parser!(u32).range(1..))]
    iters: Option<u32>,
    /// Seconds for each steady shape
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<f64>,
    /// Show what each node costs; taking the times slows requests a little
    #[arg(long)]
    profile: bool,
    /// Write all measurements to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the outputs of the steady shapes to this file, as arrays 'INDEX:OUTPUT'
    #[arg(long, value_name = "FILE.npz")]
    save_outputs: Option<PathBuf>,
    #[command(flatten)]
    trace_out: TraceOut,
    #[command(flatten)]
    session: SessionArgs,
}

/// More than a day counts as a typing error.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.0..86_400.0).contains(seconds))
        .ok_or_else(|| "not a number of seconds up to a day".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let mut options = args.session.options(DefaultCacheMode::Memory)?;
    options.profile |= args.profile;
    args.trace_out.watch(&mut options);
    let model = args.model.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let trace = args.trace.as_deref().map(|path| Trace::load(path, &model)).transpose()?;
    let shown = args.model.display().to_string();

    let base = memory::resident_mb();
    let start = Instant::now();
    let session = Session::load(&args.model, &options).map_err(|error| Failure::from(error).context(shown.clone()))?;
    let load_ms = measure::since(start);
    let loaded = memory::resident_mb();

    let workload = match (trace, &args.data) {
        (Some(trace), _) => Workload::from_trace(&trace)?,
        (None, Some(case)) => Workload::from_data(session.inputs(), case)?,
        (None, None) => Workload::from_shapes(session.inputs(), &args.feed)?,
    };
    workload.notices.iter().try_for_each(|notice| writeln!(screen, "notice: {notice}"))?;
    let bounds = match (args.iters, args.time) {
        (Some(rounds), _) => Bounds::Rounds(rounds as usize),
        (None, Some(seconds)) => Bounds::Time(seconds),
        (None, None) => Bounds::default(),
    };
    let named = |failure: Failure| failure.context(shown.clone());
    let mut passes = Passes::first(&session, &workload.requests).map_err(named)?;
    tuning::settle(&session, screen)?;
    passes.second(&session, &workload.requests).map_err(named)?;
    let traced = memory::resident_mb();
    let inputs = workload.steady.iter().map(workload::Request::make).collect::<Outcome<Vec<_>>>()?;
    let steady = measure::steady(&session, &inputs, bounds).map_err(named)?;
    if let Some(path) = &args.save_outputs {
        save_outputs(path, &session, &inputs).map_err(named)?;
    }
    // Other sessions' memory does not count.
    let peak_mb = memory::peak_mb();
    let from_records = measure::from_records(&session, &args.model, &options, &inputs).map_err(named)?;
    let report = Report::new(&report::Sources {
        model: &model,
        options: &options,
        session: &session,
        workload: &workload,
        load_ms,
        passes: &passes,
        steady: &steady,
        from_records: &from_records,
        peak_mb,
        memory: Memory { base, loaded, traced },
    });
    args.trace_out.write(&options)?;
    setup::save(&session, screen)?;
    if let Some(path) = &args.json {
        let json = serde_json::to_string(&report).failed(|| "cannot write JSON")?;
        std::fs::write(path, json).usage(|| format!("--json: cannot write {}", path.display()))?;
    }
    write!(screen, "{}", report.text())?;
    if let Some(profile) = session.profile() {
        write!(screen, "\n{}", profile::text(&profile))?;
    }
    Ok(())
}

fn save_outputs(path: &std::path::Path, session: &Session, inputs: &[Vec<workload::Feed>]) -> Outcome {
    let mut arrays = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        for (name, value) in session.run_values(&workload::borrowed(input))? {
            let tensor = value.into_tensor().usage(|| format!("--save-outputs: output '{name}'"))?;
            arrays.push((format!("{index}:{name}"), tensor));
        }
    }
    arrays::write_npz(path, &arrays)
}
