//! `kiln cache`: what a folder of records holds. Reads records as the sessions do: any bytes are safe to read.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use kiln::record::{FileSummary, How, Record, RecordError, inspect_folder};

use crate::failure::{Blame, Failure, Outcome};
use crate::table::{Table, bytes};

/// What was typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Files, fingerprints, and how many records of each family
    Stats {
        /// Folder of records, as given to --cache-dir
        folder: PathBuf,
    },
    /// Every record, with the choice that it keeps
    List {
        /// Folder of records, as given to --cache-dir
        folder: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    match &args.command {
        What::Stats { folder } => stats(folder, screen),
        What::List { folder } => list(folder, screen),
    }
}

/// The folder's files. A folder that is not there is a typing error, though to a session it would only be empty.
fn files(folder: &Path, screen: &mut dyn Write) -> Outcome<Vec<FileSummary>> {
    if !folder.is_dir() {
        return Err(Failure::usage(format!("{} is no folder", folder.display())));
    }
    let mut files = Vec::new();
    for file in inspect_folder(folder).usage(|| "cannot list records")? {
        match file {
            Ok(file) => files.push(file),
            Err(error @ RecordError::Unreadable { .. }) => writeln!(screen, "unreadable: {error}")?,
            Err(error) => writeln!(screen, "skipped: {error}")?,
        }
    }
    if files.is_empty() {
        writeln!(screen, "{} holds no records", folder.display())?;
    }
    Ok(files)
}

fn stats(folder: &Path, screen: &mut dyn Write) -> Outcome {
    for file in files(folder, screen)? {
        writeln!(
            screen,
            "{}: {}, schema {}, codec {}, for {}, {} records, {} damaged",
            file.path.display(),
            bytes(file.bytes),
            file.schema,
            file.codec,
            file.fingerprint,
            file.records.len(),
            file.damaged
        )?;
        let mut families: BTreeMap<(&str, u32), Counts> = BTreeMap::new();
        for record in &file.records {
            families.entry((&record.family, record.revision)).or_default().add(record);
        }
        let mut table = Table::new(&["family", ">revision", ">records", ">measured", ">bytes"]);
        for ((family, revision), counts) in families {
            let figures = [u64::from(revision), counts.records, counts.measured, counts.bytes];
            table.row([family.to_owned()].into_iter().chain(figures.map(|figure| figure.to_string())));
        }
        write!(screen, "{}", table.text())?;
    }
    Ok(())
}

#[derive(Default)]
struct Counts {
    records: u64,
    measured: u64,
    bytes: u64,
}

impl Counts {
    fn add(&mut self, record: &Record) {
        self.records += 1;
        self.measured += u64::from(record.evidence.how == How::Measured);
        self.bytes += (record.key.len() + record.choice.len()) as u64;
    }
}

fn list(folder: &Path, screen: &mut dyn Write) -> Outcome {
    for file in files(folder, screen)? {
        writeln!(screen, "{}", file.path.display())?;
        let mut table = Table::new(&["family", "why", ">us", "key", "choice"]);
        for record in &file.records {
            let time = match record.evidence.nanos {
                0 => "-".to_owned(),
                nanos => format!("{:.1}", nanos as f64 / 1e3),
            };
            let (key, choice) = kiln::exec::describe(record)
                .unwrap_or_else(|| (format!("{} bytes, not known here", record.key.len()), "-".to_owned()));
            table.row([record.family.clone(), record.evidence.how.name().to_owned(), time, key, choice]);
        }
        write!(screen, "{}", table.text())?;
    }
    Ok(())
}
