//! Prints record files: counts, tables, one record, damage, differences. Writes no file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use kiln_run::exec::{Refusal, Verifier};
use kiln_run::record::{EvidenceKind, FileSummary, Record, RecordId};

use crate::failure::{Code, Failure, Outcome};
use crate::table::{Table, bytes};

/// Files, fingerprints, and counts by family.
pub(super) fn stats(files: &[FileSummary], screen: &mut dyn Write) -> Outcome {
    for file in files {
        let each = file.bytes.checked_div(file.records.len() as u64).unwrap_or(0);
        writeln!(
            screen,
            "{}: {}, schema {}, codec {}, for {}, {} records ({each} bytes each), {} damaged",
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
        self.measured += u64::from(record.evidence.kind == EvidenceKind::Measured);
        self.bytes += (record.key.len() + record.choice.len()) as u64;
    }
}

/// A key and its choice as text, or a note if this build does not have the family.
fn words(record: &Record) -> (String, String) {
    kiln_run::exec::describe(record)
        .unwrap_or_else(|| (format!("{} bytes, not known here", record.key.len()), "-".to_owned()))
}

/// Every record in a line.
pub(super) fn list(files: &[FileSummary], screen: &mut dyn Write) -> Outcome {
    for file in files {
        writeln!(screen, "{}", file.path.display())?;
        let mut table = Table::new(&["id", "family", "why", ">us", "key", "choice"]);
        for record in &file.records {
            let time = match record.evidence.nanos {
                0 => "-".to_owned(),
                nanos => format!("{:.1}", nanos as f64 / 1e3),
            };
            let (key, choice) = words(record);
            let id = RecordId::of(record).to_string()[..12].to_owned();
            table.row([id, record.family.clone(), record.evidence.kind.name().to_owned(), time, key, choice]);
        }
        write!(screen, "{}", table.text())?;
    }
    Ok(())
}

/// One record in full.
pub(super) fn show(files: &[FileSummary], id: &str, screen: &mut dyn Write) -> Outcome {
    let mut found = 0;
    for file in files {
        for record in file.records.iter().filter(|record| RecordId::of(record).to_string().starts_with(id)) {
            found += 1;
            let (key, choice) = words(record);
            let evidence = &record.evidence;
            writeln!(screen, "{}", file.path.display())?;
            writeln!(screen, " id       {}", RecordId::of(record))?;
            writeln!(screen, " family   {} revision {}", record.family, record.revision)?;
            writeln!(screen, " key      {key}")?;
            writeln!(screen, " choice   {choice}")?;
            writeln!(screen, " why      {}, {} samples", evidence.kind.name(), evidence.samples)?;
            writeln!(screen, " time     {} ns, the next best {} ns", evidence.nanos, evidence.against)?;
            writeln!(screen, " created  {} s after 1970", evidence.created)?;
        }
    }
    if found == 0 { Err(Failure::usage(format!("there is no record '{id}'"))) } else { Ok(()) }
}

/// Prints whether everything is sound, and the records that builders would refuse, with the reason.
pub(super) fn verify(place: &Path, screen: &mut dyn Write) -> Outcome {
    let verifier = Verifier::default();
    let mut bad = 0;
    for file in super::all(place)? {
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                bad += 1;
                writeln!(screen, "BAD  {error}")?;
                continue;
            }
        };
        let here = verifier.is_here(file.digest);
        let (mut usable, mut other, mut refused) = (0, 0, 0);
        for record in &file.records {
            match verifier.verify(record) {
                Ok(()) => usable += 1,
                Err(why) if why.is_of_another_build() || (why == Refusal::Unfit && !here) => other += 1,
                Err(why) => {
                    refused += 1;
                    let id = &RecordId::of(record).to_string()[..12];
                    writeln!(screen, "BAD  {}: {id} {}: {why}", file.path.display(), record.family)?;
                }
            }
        }
        bad += file.damaged + refused;
        writeln!(
            screen,
            "{}  {}: {} records, {usable} that this build can use, {other} for another, {refused} refused, {} damaged parts",
            if file.damaged + refused == 0 { "ok " } else { "BAD" },
            file.path.display(),
            file.records.len(),
            file.damaged
        )?;
    }
    if bad == 0 { Ok(()) } else { Err(Failure::reported(Code::Failed)) }
}

/// Prints the differences of two files.
pub(super) fn diff(old: &FileSummary, new: &FileSummary, screen: &mut dyn Write) -> Outcome {
    let by_id = |file: &FileSummary| -> BTreeMap<RecordId, Record> {
        file.records.iter().map(|record| (RecordId::of(record), record.clone())).collect()
    };
    let (old_records, new_records) = (by_id(old), by_id(new));
    if old.fingerprint != new.fingerprint {
        writeln!(screen, "fingerprints: {} and {}", old.fingerprint, new.fingerprint)?;
    }
    let (mut gone, mut added, mut changed, mut same) = (0, 0, 0, 0);
    for (id, record) in &old_records {
        match new_records.get(id) {
            None => {
                gone += 1;
                writeln!(screen, "- {} {}", record.family, words(record).0)?;
            }
            Some(other) if other.choice != record.choice => {
                changed += 1;
                let ((key, from), (_, to)) = (words(record), words(other));
                writeln!(screen, "~ {} {key}: {from} became {to}", record.family)?;
            }
            Some(_) => same += 1,
        }
    }
    for (_, record) in new_records.iter().filter(|(id, _)| !old_records.contains_key(*id)) {
        added += 1;
        writeln!(screen, "+ {} {}", record.family, words(record).0)?;
    }
    writeln!(screen, "{same} the same, {changed} with another choice, {gone} gone, {added} new")?;
    Ok(())
}
