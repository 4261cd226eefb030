//! Changes record files: merging, pruning, clearing. Every change writes a whole new file under the file's lock.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use kiln_run::exec::Verifier;
use kiln_run::record::{EvidenceKind, Record, clear_folder, merge_into, replace_file};

use crate::failure::{Failure, Outcome, WithCode};

/// What `kiln cache prune` drops.
#[derive(Debug, clap::Args)]
pub(super) struct Prune {
    /// The record file
    file: PathBuf,
    /// Drop records of this family
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Drop records older than N days
    #[arg(long, value_name = "N")]
    older_than_days: Option<u64>,
    /// Drop records that were not measured
    #[arg(long)]
    unmeasured: bool,
}

const DAY: u64 = 24 * 60 * 60;

impl Prune {
    /// Whether a record meets every condition; without one, whether this build cannot use it.
    fn takes(&self, record: &Record, now: u64, verifier: &Verifier) -> bool {
        if self.family.is_none() && self.older_than_days.is_none() && !self.unmeasured {
            return verifier.verify(record).is_err();
        }
        // With a clock that was wrong, a record from the future is new.
        let age = now.saturating_sub(record.evidence.created) / DAY;
        self.family.as_ref().is_none_or(|family| *family == record.family)
            && self.older_than_days.is_none_or(|days| age > days)
            && (!self.unmeasured || record.evidence.kind != EvidenceKind::Measured)
    }
}

/// Drops records.
pub(super) fn prune(prune: &Prune, screen: &mut dyn Write) -> Outcome {
    let file = super::file(&prune.file)?;
    let verifier = Verifier::default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (dropped, kept): (Vec<Record>, Vec<Record>) =
        file.records.into_iter().partition(|record| prune.takes(record, now, &verifier));
    if !dropped.is_empty() || file.damaged > 0 {
        replace_file(&prune.file, file.digest, &kept).failed(|| "cannot write records")?;
    }
    writeln!(screen, "{}: {} records dropped, {} kept", prune.file.display(), dropped.len(), kept.len())?;
    Ok(())
}

/// Adds the records of files to one.
pub(super) fn merge(into: &Path, from: &[PathBuf], screen: &mut dyn Write) -> Outcome {
    let there = if into.exists() { Some(super::file(into)?) } else { None };
    let before = there.as_ref().map_or(0, |file| file.records.len());
    let mut digest = there.map(|file| file.digest);
    let mut records = Vec::new();
    for path in from {
        let file = super::file(path)?;
        match digest {
            Some(digest) if digest != file.digest => {
                return Err(Failure::usage(format!("{} is for another machine or build", path.display())));
            }
            _ => digest = Some(file.digest),
        }
        records.extend(file.records);
    }
    let Some(digest) = digest else { return Ok(()) };
    let report = merge_into(into, digest, &records).failed(|| "cannot write records")?;
    // Without better records nothing is written.
    let after = if report.path.is_some() { report.written } else { before as u64 };
    writeln!(screen, "{}: {before} records before, {after} now", into.display())?;
    Ok(())
}

/// Removes all record files of a folder.
pub(super) fn clear(folder: &Path, screen: &mut dyn Write) -> Outcome {
    if !folder.is_dir() {
        return Err(Failure::usage(format!("{} is no folder", folder.display())));
    }
    let removed = clear_folder(folder).failed(|| "cannot clear the folder")?;
    writeln!(screen, "{}: {removed} files removed", folder.display())?;
    Ok(())
}
