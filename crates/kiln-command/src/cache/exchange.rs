//! Record files as JSON and back, for other programs and for inspection.
//!
//! ```text
//! {"format": "kiln-records", "version": 1, "fingerprint": "<64 hexadecimal digits>",
//!  "records": [{"family": "matmul", "revision": 2, "key": "<hexadecimal>", "choice": "<hexadecimal>",
//!               "how": "measured", "nanos": 1000, "samples": 3, "created": 1700000000, "against": 1250,
//!               "key_text": "...", "choice_text": "..."}]}
//! ```
//!
//! The texts are not read back. The other fields are as untrusted as any record file.

use std::io::Write;
use std::path::Path;

use kiln_run::record::{Evidence, EvidenceKind, Record, merge_into};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome, WithCode};

/// The most bytes of a JSON file: more than a record file can hold.
const MOST_JSON: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Document {
    format: String,
    version: u32,
    fingerprint: String,
    records: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    family: String,
    revision: u32,
    key: String,
    choice: String,
    how: String,
    nanos: u64,
    samples: u32,
    created: u64,
    against: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    choice_text: Option<String>,
}

const FORMAT: &str = "kiln-records";
const VERSION: u32 = 1;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

impl Entry {
    fn of(record: &Record) -> Entry {
        let (key_text, choice_text) = kiln_run::exec::describe(record).unzip();
        let Evidence { kind: how, nanos, samples, created, against } = record.evidence;
        Entry {
            family: record.family.clone(),
            revision: record.revision,
            key: hex(&record.key),
            choice: hex(&record.choice),
            how: how.name().to_owned(),
            nanos,
            samples,
            created,
            against,
            key_text,
            choice_text,
        }
    }

    fn record(self) -> Option<Record> {
        let how = [EvidenceKind::Model, EvidenceKind::Measured].into_iter().find(|how| how.name() == self.how)?;
        let Entry { family, revision, nanos, samples, created, against, .. } = self;
        let evidence = Evidence { kind: how, nanos, samples, created, against };
        Some(Record { family, revision, key: unhex(&self.key)?, choice: unhex(&self.choice)?, evidence })
    }
}

/// Writes a record file as JSON.
pub(super) fn export(path: &Path, json: Option<&Path>, screen: &mut dyn Write) -> Outcome {
    let file = super::file(path)?;
    let document = Document {
        format: FORMAT.to_owned(),
        version: VERSION,
        fingerprint: hex(&file.digest),
        records: file.records.iter().map(Entry::of).collect(),
    };
    let text = serde_json::to_string_pretty(&document).failed(|| "cannot write JSON")?;
    match json {
        None => writeln!(screen, "{text}")?,
        Some(json) => {
            std::fs::write(json, text + "\n").usage(|| format!("cannot write {}", json.display()))?;
            writeln!(screen, "{}: {} records", json.display(), file.records.len())?;
        }
    }
    Ok(())
}

/// Adds the records of a JSON file to a record file.
pub(super) fn import(json: &Path, into: &Path, screen: &mut dyn Write) -> Outcome {
    let name = json.display();
    let length = std::fs::metadata(json).usage(|| format!("cannot read {name}"))?.len();
    if length > MOST_JSON {
        return Err(Failure::usage(format!("{name} is too long")));
    }
    let text = std::fs::read_to_string(json).usage(|| format!("cannot read {name}"))?;
    let document: Document = serde_json::from_str(&text).usage(|| format!("{name} holds no records"))?;
    if (document.format.as_str(), document.version) != (FORMAT, VERSION) {
        return Err(Failure::usage(format!("{name} is not of the format {FORMAT} {VERSION}")));
    }
    let digest: Option<[u8; 32]> = unhex(&document.fingerprint).and_then(|bytes| bytes.try_into().ok());
    let digest = digest.ok_or_else(|| Failure::usage(format!("{name} has no fingerprint")))?;
    let mut records = Vec::with_capacity(document.records.len());
    for (place, entry) in document.records.into_iter().enumerate() {
        let record = entry.record();
        records.push(record.ok_or_else(|| Failure::usage(format!("{name}: record {place} is malformed")))?);
    }
    let into = if into.is_dir() { into.join(format!("{}.kiln", hex(&digest[..16]))) } else { into.to_owned() };
    let report = merge_into(&into, digest, &records).failed(|| "cannot write records")?;
    let now = if report.path.is_some() { format!("{} now", report.written) } else { "nothing new".to_owned() };
    writeln!(screen, "{}: {} records read, {now}", into.display(), records.len())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_digits_and_read_back() {
        assert_eq!(unhex(&hex(&[0, 15, 255])), Some(vec![0, 15, 255]));
        for text in ["0", "0g", "+1", "\u{e9}\u{e9}"] {
            assert_eq!(unhex(text).filter(|_| text != "+1"), None, "{text}");
        }
    }
}
