//! The command `kiln`: arguments become validated objects, which run and return an exit code.
//!
//! Each subcommand is a file ([`demo`], [`run`], `generate`, `serve`, [`bench`], [`report`], [`tune`], [`warm`],
//! [`pack`], [`check`], [`diff`], [`inspect`], [`cache`], [`devices`], [`machine`], [`lists`]); shared code is in files
//! named after it. All printing of the whole project happens in this folder, through a `screen` that is passed down, so
//! that a closed pipe ends a command quietly.

#![allow(rustdoc::private_intra_doc_links, reason = "the header guides readers of the source to its files")]
#![deny(unsafe_code)]
#![allow(clippy::print_stderr, reason = "the command's one error line; everything else goes through the screen")]

mod arrays;
mod bench;
mod cache;
mod check;
mod closeness;
mod data_sets;
mod demo;
mod device;
mod devices;
mod diff;
mod dump;
mod failure;
mod feed;
#[cfg(feature = "generate")]
mod generate;
mod inspect;
mod invocation;
mod last_words;
mod lists;
mod machine;
mod memory;
mod nodes;
mod npy;
mod pack;
mod packable;
mod profile;
mod progress;
mod report;
mod run;
mod selection;
#[cfg(feature = "serve")]
mod serve;
mod setup;
mod shape;
mod statistics;
mod table;
mod trace;
mod trace_out;
mod tune;
mod tuning;
mod values;
mod warm;
mod warnings;
mod workload;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::failure::Outcome;
pub use crate::invocation::Invocation;
pub use crate::packable::{FolderError, FolderModels, models_of};

/// Printed under every `--help`.
const CONTRACT: &str = "\
Exit codes: 0 success, 1 wrong result or failed run, 2 unusable arguments or files, 3 model not supported.
Output for people may change at any time; --json output is stable.";

#[derive(Parser)]
#[command(name = "kiln", version, about = "Runs ONNX models on kernels that are never built twice", after_help = CONTRACT)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what Kiln does on a small network: changing shapes cold, again, and in a fresh process
    #[command(after_help = CONTRACT)]
    Demo(demo::Args),
    /// Runs a model once, on given or generated inputs
    #[command(after_help = CONTRACT)]
    Run(run::Args),
    /// Continues a text with a language model, or runs an encoder and a decoder on it
    #[cfg(feature = "generate")]
    #[command(after_help = CONTRACT)]
    Generate(generate::Args),
    /// Serves models by the Open Inference Protocol, over REST and gRPC, for clients of Triton and KServe
    #[cfg(feature = "serve")]
    #[command(after_help = CONTRACT)]
    Serve(serve::Args),
    /// Measures a model over requests of changing shapes
    #[command(after_help = CONTRACT)]
    Bench(bench::Args),
    /// Makes an HTML page of the measurements of `bench --json`
    #[command(after_help = CONTRACT)]
    Report(report::Args),
    /// Measures the candidates where there is a choice of kernels, and keeps the fastest as records
    #[command(after_help = CONTRACT)]
    Tune(tune::Args),
    /// Fills the records with a model's choices ahead of time, without measuring
    #[command(after_help = CONTRACT)]
    Warm(warm::Args),
    /// Writes a packed model: the graph after fusion and the weights as kernels read them, in a file that processes map
    #[command(after_help = CONTRACT)]
    Pack(pack::Args),
    /// Runs ONNX test cases and compares outputs with the expected ones
    #[command(after_help = CONTRACT)]
    Check(check::Args),
    /// Runs a request in two configurations and names the first node whose result differs
    #[command(after_help = CONTRACT)]
    Diff(diff::Args),
    /// Shows a model's graph after fusion, with layouts, kernels and keys
    #[command(after_help = CONTRACT)]
    Inspect(inspect::Args),
    /// Shows, checks, merges, exports and cleans up records
    #[command(after_help = CONTRACT)]
    Cache(cache::Args),
    /// Shows the GPUs and their libraries, and why one of these is not used
    #[command(after_help = CONTRACT)]
    Devices(devices::Args),
    /// Shows the peak rates at which this machine multiplies and reads, measured once and kept as a record
    #[command(after_help = CONTRACT)]
    Machine(machine::Args),
    /// Lists the environment variables that Kiln reads
    #[command(after_help = CONTRACT)]
    Knobs,
    /// Lists the operators that Kiln has
    #[command(after_help = CONTRACT)]
    Ops,
    /// Writes a script that completes this command's words in a shell
    #[command(after_help = CONTRACT)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// The command as a program.
pub fn main() -> ExitCode {
    ExitCode::from(run_as(Invocation { before: Vec::new(), arguments: std::env::args_os().skip(1).collect() }))
}

/// Runs the command as it was invoked; the exit code. For programs that are the command among other things, once a
/// process: unusable arguments end it.
pub fn run_as(invocation: Invocation) -> u8 {
    last_words::prepare();
    let name = OsString::from("kiln");
    let cli = Cli::parse_from([&name].into_iter().chain(&invocation.arguments));
    invocation.keep();
    warnings::print_if_wanted();
    let mut screen = std::io::stdout().lock();
    let ended = dispatch(cli.command, &mut screen).and_then(|()| Ok(screen.flush()?));
    let Err(failure) = ended else { return 0 };
    if let Some(line) = failure.line() {
        eprintln!("kiln: {line}");
    }
    failure.code() as u8
}

fn dispatch(command: Command, screen: &mut dyn Write) -> Outcome {
    match command {
        Command::Demo(args) => demo::run(&args, screen),
        Command::Run(args) => run::run(&args, screen),
        #[cfg(feature = "generate")]
        Command::Generate(args) => generate::run(&args, screen),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args, screen),
        Command::Bench(args) => bench::run(&args, screen),
        Command::Report(args) => report::run(&args, screen),
        Command::Tune(args) => tune::run(&args, screen),
        Command::Warm(args) => warm::run(&args, screen),
        Command::Pack(args) => pack::run(&args, screen),
        Command::Check(args) => check::run(&args, screen),
        Command::Diff(args) => diff::run(&args, screen),
        Command::Inspect(args) => inspect::run(&args, screen),
        Command::Cache(args) => cache::run(&args, screen),
        Command::Devices(args) => devices::run(&args, screen),
        Command::Machine(args) => machine::run(&args, screen),
        Command::Knobs => lists::knobs(screen),
        Command::Ops => lists::ops(screen),
        Command::Completions { shell } => Ok(screen.write_all(&completions(shell))?),
    }
}

/// The script of a shell.
fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kiln", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_shell_completes_every_subcommand() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(completions(*shell)).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
            assert!(script.contains("cache-dir"), "{shell}");
        }
    }

    #[test]
    fn every_argument_of_every_subcommand_has_a_help_text() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments().filter(|a| !a.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
