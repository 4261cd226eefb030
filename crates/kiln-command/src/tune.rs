//! `kiln tune`: measures a model's kernels ahead of time and keeps the fastest choices as records.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use kiln::session::Tune;

use crate::failure::{Failure, Outcome};
use crate::feed::FeedArgs;
use crate::setup::{self, DefaultCacheMode, SessionArgs};
use crate::trace::Trace;
use crate::tuning::{self, Tuning};
use crate::workload::{self, Workload};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ONNX file
    model: PathBuf,
    /// Shapes from this trace file, by the model's file name without its extension
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shapes", "dims", "seed"], help_heading = "Inputs")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    feed: FeedArgs,
    /// Seconds for all measurements, instead of the effort's own bound
    #[arg(long, value_name = "SECONDS", value_parser = crate::bench::seconds)]
    budget: Option<f64>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let mut options = args.session.options(DefaultCacheMode::Records)?;
    if options.tune == Tune::Off {
        options.tune = Tune::Fast;
    }
    options.tune_budget = args.budget.map(Duration::from_secs_f64);
    let model = args.model.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let trace = args.trace.as_deref().map(|path| Trace::load(path, &model)).transpose()?;
    let session = setup::load(&args.model, &options)?;
    if session.tune_report().is_none() {
        return Err(Failure::usage("without a cache (--cache-mode off) there is nothing to tune for"));
    }
    let workload = match trace {
        Some(trace) => Workload::from_trace(&trace)?,
        None => Workload::from_shapes(session.inputs(), &args.feed)?,
    };
    workload.notices.iter().try_for_each(|notice| writeln!(screen, "notice: {notice}"))?;
    // One request of each shape looks up its keys.
    let requests = workload.different();
    workload::send_each(&session, &args.model, &requests)?;
    tuning::settle(&session, screen)?;
    setup::save(&session, screen)?;
    if let Some(report) = session.tune_report() {
        write!(screen, "{}", tuning::changes(&report))?;
    }
    if let Some(tuning) = Tuning::of(&session, options.tune) {
        writeln!(screen, "{}: {} shapes; {}", args.model.display(), requests.len(), tuning.text())?;
    }
    Ok(())
}
