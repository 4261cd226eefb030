//! `kiln pack`: writes a model with its graph after fusion and its weights packed, as every session maps it.

use std::io::Write;
use std::path::PathBuf;

use crate::failure::Outcome;
use crate::setup::{self, DefaultCacheMode, SessionArgs};

/// What was typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ONNX file
    model: PathBuf,
    /// The packed model, which takes the place of the ONNX file in every command
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let options = args.session.options(DefaultCacheMode::Records)?;
    let report = setup::pack(&args.model, &args.output, &options)?;
    writeln!(
        screen,
        "{}: {} bytes; {} packed weights, {} constants as the model has them, {} packed alone",
        args.output.display(),
        report.bytes,
        report.panels,
        report.constants,
        report.packed_only
    )?;
    Ok(())
}
