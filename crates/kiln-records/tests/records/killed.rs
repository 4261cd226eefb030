//! Processes that are killed while they save to one file.
//!
//! Eight processes save as fast as they can; one after the other is killed at a random moment and started again. After
//! each kill the file is complete and has every record whose save has reported success. `cargo test --release -p
//! kiln-records --test records -- --ignored ten_thousand_kills` does it for longer.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kiln_records::{RecordError, inspect_folder};

use crate::fixture::{fingerprint, folder, measured, open, problem, tile};

const SAVERS: u32 = 8;

/// The file with a saver's task, in the folder that it is started in: where to save, and its first number.
const JOB: &str = "job";
/// The file where it writes the numbers of the saved problems, four bytes each.
const DONE: &str = "done";

/// Not a test: the work of the child processes until they are killed. Without a task it does nothing.
#[test]
#[ignore = "the body of the processes that other tests here start"]
fn saver() {
    let Ok(job) = std::fs::read_to_string(JOB) else { return };
    let (first, place) = job.split_once('\n').expect("a job has two lines");
    let mut done = OpenOptions::new().append(true).create(true).open(DONE).expect("the folder is the test's");
    let store = open(Path::new(place));
    for number in first.parse::<u32>().expect("a job starts with a number").. {
        store.insert(&problem(number), &tile(number as u8), measured(1));
        match store.save() {
            Ok(report) => {
                assert!(report.path.is_some());
                done.write_all(&number.to_le_bytes()).expect("the folder is the test's");
            }
            // Sixty-four shards exist already: the number is saved with the next one, and not promised.
            Err(RecordError::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Starts a saver in its own folder.
fn start(home: &Path, place: &Path, first: u32) -> Child {
    std::fs::write(home.join(JOB), format!("{first}\n{}", place.display())).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "killed::saver"])
        .current_dir(home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill_savers(rounds: u32) {
    let place = folder();
    let seeds = RandomState::new();
    let homes: Vec<_> = (0..SAVERS).map(|_| folder()).collect();
    // Two savers never have the same number: no saver lives for 20,000 saves.
    let first = |life: u32| life * 20_000;
    let mut savers: Vec<Child> =
        (0..SAVERS).map(|saver| start(homes[saver as usize].path(), place.path(), first(saver))).collect();
    let mut promised = 0;
    for round in 0..rounds {
        std::thread::sleep(Duration::from_micros(seeds.hash_one((round, "pause")) % 30_000));
        let victim = (seeds.hash_one((round, "victim")) % u64::from(SAVERS)) as usize;
        savers[victim].kill().unwrap();
        let status = savers[victim].wait().unwrap();
        assert!(status.code().is_none(), "a saver ended by itself: {status}");
        promised = check(place.path(), homes.iter().map(|home| home.path()), round);
        savers[victim] = start(homes[victim].path(), place.path(), first(SAVERS + round));
    }
    for saver in &mut savers {
        saver.kill().unwrap();
        saver.wait().unwrap();
    }
    assert!(promised > u64::from(rounds) / 2, "only {promised} saves in {rounds} rounds");
    // A lock dies with its process, and the next save clears everything away.
    let lock = File::open(place.path().join(format!("{}.lock", fingerprint().digits()))).unwrap();
    let started = Instant::now();
    lock.lock().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "a lock outlived its process");
    drop(lock);
    let last = open(place.path());
    last.insert(&problem(u32::MAX), &tile(1), measured(1));
    last.save().unwrap();
    let names: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the file and its lock: {names:?}");
    println!("{rounds} kills, {promised} saves promised and kept");
}

/// Checks the folder as it is now; returns the number of promises.
fn check<'a>(place: &Path, homes: impl Iterator<Item = &'a Path>, round: u32) -> u64 {
    // The promises first: later saves do not matter.
    let mut promised: Vec<u32> = Vec::new();
    for home in homes {
        let bytes = std::fs::read(home.join(DONE)).unwrap_or_default();
        promised.extend(bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())));
    }
    let store = open(place);
    for number in &promised {
        assert_eq!(store.lookup(&problem(*number)), Some(tile(*number as u8)), "round {round}: {number} is lost");
    }
    let stats = store.stats();
    let rejected = [stats.rejected_checksum, stats.rejected_magic, stats.rejected_version, stats.rejected_io];
    assert_eq!(rejected, [0; 4], "round {round}: every file that is seen is whole");
    if round.is_multiple_of(16) {
        // Shards may disappear between listing and reading; those that exist are sound.
        for file in inspect_folder(place).unwrap().into_iter().flatten() {
            assert_eq!(file.damaged, 0, "round {round}: {}", file.path.display());
        }
    }
    promised.len() as u64
}

/// Not a test: a process that may not write files of more than a kibibyte.
#[test]
#[ignore = "the body of the process that another test here starts"]
fn saver_without_room() {
    let Ok(job) = std::fs::read_to_string(JOB) else { return };
    let store = open(Path::new(&job));
    assert!(store.stats().loaded > 0);
    for number in 0..100 {
        store.insert(&problem(number), &tile(number as u8), measured(9));
    }
    assert!(matches!(store.save(), Err(RecordError::Io { .. })));
    assert_eq!(store.lookup(&problem(99)), Some(tile(99)), "memory goes on");
    std::fs::write(DONE, b"yes").expect("three bytes are few enough");
}

#[test]
fn a_system_that_takes_no_more_bytes_leaves_the_file_as_it_was() {
    let (place, path, before) = crate::fixture::saved(5);
    let home = folder();
    std::fs::write(home.path().join(JOB), place.path().to_str().unwrap()).unwrap();
    // The limit would end the process by a signal. The signal is ignored here, and therefore also in the child.
    let script = r#"trap "" XFSZ; ulimit -f 1; exec "$0" --ignored --exact killed::saver_without_room"#;
    let exe = std::env::current_exe().unwrap();
    let output = Command::new("bash").args(["-c", script]).arg(exe).current_dir(home.path()).output().unwrap();
    assert!(home.path().join(DONE).exists(), "{output:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let names: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing is left over: {names:?}");
}

#[test]
fn three_hundred_kills_leave_every_file_whole_and_break_no_promise() {
    kill_savers(300);
}

/// In parts with a folder each: the promises are checked after each kill, and their number grows.
#[test]
#[ignore = "takes some minutes; run by name, with --nocapture to see it go on"]
fn ten_thousand_kills() {
    let started = Instant::now();
    for part in 1..=20 {
        kill_savers(500);
        println!("{} kills in {:.0} s", part * 500, started.elapsed().as_secs_f64());
    }
}
