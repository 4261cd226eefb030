//! `kiln cache`, `kiln warm` and `kiln tune` end to end: records are filled, looked at, moved and cleaned up.

use std::path::{Path, PathBuf};

use kiln_run::record::{Record, inspect_file, merge_into};

use crate::command::{arg, kiln};
use crate::onnx_file;

/// A folder with a model, and a folder with its records.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        std::fs::write(place.path("dense.onnx"), onnx_file::dense()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn arg(&self, name: &str) -> String {
        arg(&self.path(name))
    }

    /// Fills the records of that name with requests of those shapes, and returns their file.
    fn warm(&self, records: &str, shapes: &str) -> PathBuf {
        let [model, records_arg] = [self.arg("dense.onnx"), self.arg(records)];
        let printed = kiln(["warm", &model, "--shapes", shapes, "--cache-dir", &records_arg, "--threads", "2"]).ok();
        assert!(printed.contains("records"), "{printed}");
        only_file(&self.path(records))
    }
}

/// The one record file of a folder.
fn only_file(folder: &Path) -> PathBuf {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "kiln")).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[test]
fn warm_fills_the_records_and_the_next_process_chooses_nothing() {
    let place = Place::new();
    place.warm("records", "x[1,2][5,2]");
    let [model, records] = [place.arg("dense.onnx"), place.arg("records")];
    let again = kiln(["warm", &model, "--shapes", "x[1,2][5,2]", "--cache-dir", &records, "--threads", "2"]).ok();
    assert!(again.contains("2 shapes") && again.contains(" 0 anew"), "{again}");
    // Where it is asked for, a miss of the records is an error, and only a miss is.
    let strict = ["--cache-dir", &records, "--threads", "2", "--error-on-cache-miss", "--shape"];
    kiln(["run", &model].iter().chain(&strict).chain(&["x[5,2]"])).ok();
    kiln(["run", &model].iter().chain(&strict).chain(&["x[6,2]"])).fails(1, &["no record", "choosing is not allowed"]);
}

#[test]
fn a_model_may_have_a_file_of_its_own() {
    let place = Place::new();
    let [model, records] = [place.arg("dense.onnx"), place.arg("records")];
    kiln(["warm", &model, "--shape", "x[3,2]", "--cache-dir", &records, "--cache-per-model"]).ok();
    let file = only_file(&place.path("records"));
    let stem = file.file_stem().unwrap().to_str().unwrap().to_owned();
    assert!(stem.len() == 33 && stem.as_bytes()[16] == b'-', "{stem}");
    let again = kiln(["warm", &model, "--shape", "x[3,2]", "--cache-dir", &records, "--cache-per-model"]).ok();
    assert!(again.contains(" 0 anew"), "{again}");
}

#[test]
fn tune_measures_once_and_tells_what_it_did() {
    let place = Place::new();
    let [model, records, trace] = [place.arg("dense.onnx"), place.arg("records"), place.arg("trace.json")];
    let text = r#"{"dense": {"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 2], "fill": "unit"}],
                             "requests": [{"N": 40}, {"N": 7}, {"N": 40}]}}"#;
    std::fs::write(&trace, text).unwrap();
    let printed = kiln(["tune", &model, "--trace", &trace, "--cache-dir", &records, "--threads", "2"]).ok();
    assert!(printed.contains("2 shapes"), "{printed}");
    let listed = kiln(["cache", "list", &records]).ok();
    assert!(listed.contains("matmul"), "{listed}");
    let again = kiln(["tune", &model, "--shapes", "x[40,2][7,2]", "--cache-dir", &records, "--threads", "2"]).ok();
    assert!(again.contains("2 shapes"), "{again}");
    kiln(["tune", &model, "--shape", "x[1,2]", "--cache-mode", "off"]).fails(2, &["nothing to tune"]);
}

#[test]
fn stats_list_and_show_say_what_there_is() {
    let place = Place::new();
    let file = place.warm("records", "x[1,2][5,2]");
    for target in [place.arg("records"), arg(&file)] {
        let stats = kiln(["cache", "stats", &target]).ok();
        assert!(stats.contains("schema 3") && stats.contains("matmul") && stats.contains("bytes each"), "{stats}");
        let list = kiln(["cache", "list", &target]).ok();
        let line = list.lines().find(|line| line.contains("matmul")).unwrap();
        let id = line.split_whitespace().next().unwrap();
        let shown = kiln(["cache", "show", &target, id]).ok();
        assert!(shown.contains("MatMulProblem") && shown.contains("MatmulBlocks") && shown.contains(id), "{shown}");
    }
    kiln(["cache", "show", &arg(&file), "zzzz"]).fails(2, &["no record 'zzzz'"]);
    kiln(["cache", "stats", &place.arg("nowhere")]).fails(2, &["nowhere", "is no folder"]);
}

#[test]
fn verify_finds_a_flipped_bit() {
    let place = Place::new();
    let file = place.warm("records", "x[1,2]");
    assert!(kiln(["cache", "verify", &place.arg("records")]).ok().contains("0 damaged"));
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let finished = kiln(["cache", "verify", &place.arg("records")]);
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(finished.stdout.contains("BAD"), "{finished:?}");
    std::fs::write(&file, b"no records").unwrap();
    assert_eq!(kiln(["cache", "verify", &place.arg("records")]).code, 1);
}

#[test]
fn verify_names_what_builders_would_refuse_and_prune_drops_it() {
    let place = Place::new();
    let file = place.warm("records", "x[1,2]");
    let summary = inspect_file(&file).unwrap();
    let honest = summary.records.iter().find(|record| record.family == "matmul").unwrap();
    // After the level and the threads: a product with more rows than can be counted.
    let mut sizes = honest.clone();
    sizes.key[8..16].copy_from_slice(&(1u64 << 62).to_le_bytes());
    // The first number of a choice: the width of tiles, in vectors. The sizes differ, so that it does not replace the
    // honest record.
    let mut unfit = honest.clone();
    unfit.key[8] += 1;
    unfit.choice[0] = 200;
    let later = Record { revision: honest.revision + 1, key: sizes.key[..30].to_vec(), ..honest.clone() };
    merge_into(&file, summary.digest, &[sizes, unfit, later]).unwrap();
    let finished = kiln(["cache", "verify", &place.arg("records")]);
    assert_eq!(finished.code, 1, "{finished:?}");
    for what in ["sizes that no tensors have", "choice does not fit its key", "1 for another, 2 refused, 0 damaged"] {
        assert!(finished.stdout.contains(what), "{what}: {finished:?}");
    }
    assert!(kiln(["cache", "prune", &arg(&file)]).ok().contains(": 3 records dropped"));
    assert!(kiln(["cache", "verify", &place.arg("records")]).ok().contains("0 refused"));
}

#[test]
fn records_go_to_json_and_back_without_loss() {
    let place = Place::new();
    let file = arg(&place.warm("records", "x[1,2][5,2]"));
    let [json, folder] = [place.arg("out.json"), place.arg("imported")];
    assert!(kiln(["cache", "export", &file, "--json", &json]).ok().contains("records"));
    assert_eq!(kiln(["cache", "export", &file]).ok(), std::fs::read_to_string(&json).unwrap());
    std::fs::create_dir(&folder).unwrap();
    kiln(["cache", "import", &json, &folder]).ok();
    let imported = only_file(Path::new(&folder));
    assert_eq!(imported.file_name(), Path::new(&file).file_name());
    assert_eq!(std::fs::read(&imported).unwrap(), std::fs::read(&file).unwrap());
    assert!(kiln(["cache", "import", &json, &arg(&imported)]).ok().contains("nothing new"));

    let text = std::fs::read_to_string(&json).unwrap();
    for (from, to, message) in [
        ("kiln-records", "records", "not of the format"),
        ("\"version\": 1", "\"version\": 2", "not of the format"),
        ("\"how\": \"model\"", "\"how\": \"guessed\"", "malformed"),
        ("\"fingerprint\": \"", "\"fingerprint\": \"x", "no fingerprint"),
        ("{", "[", "holds no records"),
    ] {
        std::fs::write(&json, text.replacen(from, to, 1)).unwrap();
        kiln(["cache", "import", &json, &folder]).fails(2, &[message]);
    }
}

#[test]
fn files_are_merged_compared_pruned_and_cleared() {
    let place = Place::new();
    let [one, two] = [arg(&place.warm("one", "x[1,2]")), arg(&place.warm("two", "x[5,2]"))];
    let differences = kiln(["cache", "diff", &one, &two]).ok();
    assert!(differences.contains("1 gone, 1 new") || differences.contains("gone"), "{differences}");
    let both = place.arg("both.kiln");
    let merged = kiln(["cache", "merge", &both, &one, &two]).ok();
    assert!(merged.contains("0 records before"), "{merged}");
    let differences = kiln(["cache", "diff", &one, &both]).ok();
    assert!(differences.contains(" 0 gone"), "{differences}");
    assert!(kiln(["cache", "diff", &both, &both]).ok().contains("0 with another choice, 0 gone, 0 new"));
    // Again: nothing is better than the records that are there.
    assert!(kiln(["cache", "merge", &both, &one]).ok().contains("now"));

    assert!(kiln(["cache", "prune", &both]).ok().contains(": 0 records dropped"));
    assert!(kiln(["cache", "prune", &both, "--older-than-days", "1"]).ok().contains(": 0 records dropped"));
    assert!(kiln(["cache", "prune", &both, "--unmeasured", "--family", "matmul"]).ok().contains(": 2 records dropped"));
    assert!(!kiln(["cache", "list", &both]).ok().contains("matmul"));

    std::fs::write(place.path("one/notes.txt"), "mine").unwrap();
    kiln(["cache", "clear", &place.arg("one")]).ok();
    let left: Vec<_> = std::fs::read_dir(place.path("one")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
    kiln(["cache", "clear", &place.arg("nowhere")]).fails(2, &["nowhere"]);
}

#[test]
fn files_for_different_machines_are_not_merged() {
    let place = Place::new();
    let file = place.warm("records", "x[1,2]");
    let json = place.arg("out.json");
    kiln(["cache", "export", &arg(&file), "--json", &json]).ok();
    let text = std::fs::read_to_string(&json).unwrap();
    let at = text.find("\"fingerprint\": \"").unwrap() + "\"fingerprint\": \"".len();
    let other = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
    std::fs::write(&json, format!("{}{other}{}", &text[..at], &text[at + 1..])).unwrap();
    let elsewhere = place.arg("elsewhere.kiln");
    kiln(["cache", "import", &json, &elsewhere]).ok();
    kiln(["cache", "merge", &arg(&file), &elsewhere]).fails(2, &["another machine"]);
}
