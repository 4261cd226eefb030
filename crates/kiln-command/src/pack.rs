//! `kiln pack`: writes a model with its fused graph and its packed weights, as every session maps it; or the models of
//! a folder as `kiln generate` runs them.

use std::io::Write;
use std::path::{Path, PathBuf};

use kiln::session::PackReport;
use kiln::{Decoder, DecoderError, EncoderDecoder, EncoderDecoderFiles, SessionOptions};

use crate::failure::{Failure, Outcome, WithCode};
use crate::packable::{self, FolderModels};
use crate::progress::Progress;
use crate::setup::{self, DefaultCacheMode, SessionArgs};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ONNX file, or a folder that `kiln generate` takes
    model: PathBuf,
    /// The packed model to write, which every command takes in place of the ONNX file; for an encoder and a decoder,
    /// the folder of their three packed models
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The ONNX file of a folder with config.json in another precision, such as onnx/model_q4.onnx; of an encoder and a
    /// decoder that of the encoder, such as onnx/encoder_model_q4.onnx
    #[arg(long, value_name = "FILE")]
    model_file: Option<PathBuf>,
    /// Do not copy weights that nodes read in the layout of the model's files; these files must be below the folder of
    /// the packed model and must stay there
    #[arg(long)]
    weightless: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let options =
        SessionOptions { pack_weightless: args.weightless, ..args.session.options(DefaultCacheMode::Records)? };
    if args.model.is_dir() {
        return folder(args, &options, screen);
    }
    if args.model_file.is_some() {
        return Err(Failure::usage("--model-file is for folders"));
    }
    let report = setup::pack(&args.model, &args.output, &options)?;
    tell(&args.output, &report, screen)
}

/// Packs what a folder has: a decoder, or an encoder and a decoder.
fn folder(args: &Args, options: &SessionOptions, screen: &mut dyn Write) -> Outcome {
    let (model, to) = (&args.model, &args.output);
    let failed = |error: DecoderError| Failure::from(error).context(model.display().to_string());
    let found = match &args.model_file {
        Some(_) if packable::config_of(model).exists() => {
            return Err(Failure::usage("--model-file: genai_config.json names the ONNX file"));
        }
        Some(file) => {
            let file = model.join(file);
            match EncoderDecoderFiles::beside(&file).map_err(failed)? {
                Some(files) => FolderModels::EncoderDecoder(files),
                None => FolderModels::Decoder(file),
            }
        }
        None => packable::models_of(model)?,
    };
    let spinner = Progress::spinner(format!("packing {}", model.display()));
    let files = match found {
        FolderModels::Decoder(file) => {
            let report = Decoder::pack(&file, to, options).map_err(failed)?;
            drop(spinner);
            return tell(to, &report, screen);
        }
        FolderModels::EncoderDecoder(files) => files,
    };
    std::fs::create_dir_all(to).usage(|| format!("cannot make {}", to.display()))?;
    let reports = EncoderDecoder::pack(&files, to, options).map_err(failed)?;
    drop(spinner);
    let EncoderDecoderFiles { encoder, decoder, with_past } = EncoderDecoderFiles::packed(to);
    let written = [encoder, decoder].into_iter().chain(with_past).zip(&reports);
    written.into_iter().try_for_each(|(file, report)| tell(&file, report, screen))
}

fn tell(file: &Path, report: &PackReport, screen: &mut dyn Write) -> Outcome {
    writeln!(
        screen,
        "{}: {} bytes; {} packed weights, {} constants as the model has them, {} packed alone",
        file.display(),
        report.bytes,
        report.panels,
        report.constants,
        report.packed_only
    )?;
    if report.referred > 0 {
        writeln!(screen, "{} bytes stay in the model's files", report.referred)?;
    }
    Ok(())
}
