//! `kiln cache`: shows, checks and changes the records of a folder. Reads records as sessions do: any bytes are safe to
//! read.
//!
//! [`shown`] prints, [`upkeep`] changes files, [`exchange`] converts to and from JSON.

mod exchange;
mod shown;
mod upkeep;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use kiln_run::record::{FileSummary, RecordError, inspect_file, inspect_folder};

use crate::failure::{Failure, Outcome, WithCode};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Shows files, fingerprints, and the number of records of each family
    Stats {
        /// Folder of records, as given to --cache-dir, or one record file
        place: PathBuf,
    },
    /// Lists every record with its choice
    List {
        /// Folder of records, as given to --cache-dir, or one record file
        place: PathBuf,
    },
    /// Shows everything about one record
    Show {
        /// Folder of records, as given to --cache-dir, or one record file
        place: PathBuf,
        /// The record's id, or its first digits, as `kiln cache list` prints it
        id: String,
    },
    /// Checks every file and record, with keys and choices; exit code 1 if anything is damaged or would be refused
    Verify {
        /// Folder of records, as given to --cache-dir, or one record file
        place: PathBuf,
    },
    /// Adds the records of files to one file; of two records for one key, the better proven one stays
    Merge {
        /// The file to add to; created if it does not exist
        into: PathBuf,
        /// The files whose records are added, for the same machine and build
        #[arg(required = true)]
        from: Vec<PathBuf>,
    },
    /// Writes a record file as JSON
    Export {
        /// The record file
        file: PathBuf,
        /// The JSON file; standard output if left out
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Adds the records of a JSON file to a record file
    Import {
        /// The JSON file, as `kiln cache export` writes it
        json: PathBuf,
        /// The record file, or a folder, in which the file's name is the fingerprint
        into: PathBuf,
    },
    /// Drops the records of a file that meet all given conditions; without a condition, those that this build cannot
    /// use
    Prune(upkeep::Prune),
    /// Removes all record files of a folder, with their locks and shards, and nothing else
    Clear {
        /// Folder of records, as given to --cache-dir
        folder: PathBuf,
    },
    /// Shows which records only one of two files has, and where their choices differ
    Diff {
        /// A record file
        old: PathBuf,
        /// Another record file
        new: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    match &args.command {
        Action::Stats { place } => shown::stats(&files(place, screen)?, screen),
        Action::List { place } => shown::list(&files(place, screen)?, screen),
        Action::Show { place, id } => shown::show(&files(place, screen)?, id, screen),
        Action::Verify { place } => shown::verify(place, screen),
        Action::Merge { into, from } => upkeep::merge(into, from, screen),
        Action::Export { file, json } => exchange::export(file, json.as_deref(), screen),
        Action::Import { json, into } => exchange::import(json, into, screen),
        Action::Prune(prune) => upkeep::prune(prune, screen),
        Action::Clear { folder } => upkeep::clear(folder, screen),
        Action::Diff { old, new } => shown::diff(&file(old)?, &file(new)?, screen),
    }
}

/// One file, which must exist and be readable.
fn file(path: &Path) -> Outcome<FileSummary> {
    inspect_file(path).usage(|| "cannot read records")
}

/// The summary of each file of a folder, or of one file. A folder that does not exist is an error here; for a session
/// it is an empty one.
fn all(place: &Path) -> Outcome<Vec<Result<FileSummary, RecordError>>> {
    if place.is_file() {
        return Ok(vec![inspect_file(place)]);
    }
    if !place.is_dir() {
        return Err(Failure::usage(format!("{} is no folder", place.display())));
    }
    inspect_folder(place).usage(|| "cannot list records")
}

/// The files that can be read; for the others, the reason is printed.
fn files(place: &Path, screen: &mut dyn Write) -> Outcome<Vec<FileSummary>> {
    let mut files = Vec::new();
    for file in all(place)? {
        match file {
            Ok(file) => files.push(file),
            Err(error @ RecordError::Unreadable { .. }) => writeln!(screen, "unreadable: {error}")?,
            Err(error) => writeln!(screen, "skipped: {error}")?,
        }
    }
    if files.is_empty() {
        writeln!(screen, "{} holds no records", place.display())?;
    }
    Ok(files)
}
