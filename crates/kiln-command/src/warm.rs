//! `kiln warm`: sends a model one request of each shape, so that the records hold every choice before the first process
//! needs it. Measures nothing.

use std::io::Write;
use std::path::PathBuf;

use kiln::session::Tune;

use crate::failure::Outcome;
use crate::feed::FeedArgs;
use crate::setup::{self, DefaultCacheMode, SessionArgs};
use crate::trace::Trace;
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
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let mut options = args.session.options(DefaultCacheMode::Records)?;
    options.tune = Tune::Off;
    let model = args.model.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let trace = args.trace.as_deref().map(|path| Trace::load(path, &model)).transpose()?;
    let session = setup::load(&args.model, &options)?;
    let workload = match trace {
        Some(trace) => Workload::from_trace(&trace)?,
        None => Workload::from_shapes(session.inputs(), &args.feed)?,
    };
    workload.notices.iter().try_for_each(|notice| writeln!(screen, "notice: {notice}"))?;
    let requests = workload.different();
    workload::send_each(&session, &args.model, &requests)?;
    setup::save(&session, screen)?;
    let stats = session.record_stats();
    let (mut known, mut anew) = (0, 0);
    // Code is emitted again in every process; it has no choices.
    for (_, family) in session.family_stats().into_iter().filter(|(name, _)| *name != "code") {
        known += family.record_hits;
        anew += family.builds.saturating_sub(family.record_hits);
    }
    writeln!(
        screen,
        "{}: {} shapes; {} records, {} of them were known before; {known} executors built from records, {anew} anew",
        args.model.display(),
        requests.len(),
        stats.records,
        stats.loaded
    )?;
    Ok(())
}
