//! Files that are cut, flipped, hostile, or not files at all.
//!
//! The rule is the same for all files: no panic, no wait, no wrong record. Sound records before the damage are used,
//! defects are counted, and the process goes on with records in memory.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_records::{RecordError, Store, inspect_file};

use crate::fixture::{fingerprint, folder, known, measured, open, problem, saved, tile};

/// Lengths of the parts of a file.
const HEADER: usize = 64;
const FOOTER: usize = 12;

/// The starts of the frames of a sound file, and the end of the last frame.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut at = HEADER;
    let mut starts = vec![at];
    while at < bytes.len() - FOOTER {
        at += 8 + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        starts.push(at);
    }
    starts
}

/// Checks cuts or flips one by one, the work split between two threads with a folder each.
fn in_halves(count: usize, check: impl Fn(&Path, usize) + Sync) {
    std::thread::scope(|scope| {
        for half in 0..2 {
            let check = &check;
            scope.spawn(move || {
                let folder = folder();
                (half..count).step_by(2).for_each(|number| check(folder.path(), number));
            });
        }
    });
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join(format!("{}.kiln", fingerprint().digits()))
}

/// Makes these bytes the folder's file, as a new file: ext4 flushes a file that is emptied and rewritten when it is
/// closed, and waiting for the disk takes longer than the rest of these tests.
fn put(folder: &Path, bytes: &[u8]) {
    let file = file_in(folder);
    if file.exists() {
        std::fs::remove_file(&file).unwrap();
    }
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_file_cut_anywhere_gives_the_records_before_the_cut() {
    for (count, least) in [(3, 0), (1350, 65_536)] {
        let (_folder, _, bytes) = saved(count);
        assert!(bytes.len() >= least, "{} bytes", bytes.len());
        let ends: Vec<usize> = frames(&bytes)[1..].to_vec();
        let whole_file: BTreeSet<(Vec<u8>, Vec<u8>)> = contents(&open_bytes(&bytes));
        in_halves(bytes.len(), |folder, cut| {
            put(folder, &bytes[..cut]);
            let store = open(folder);
            let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
            let stats = store.stats();
            assert_eq!((stats.records, stats.rejected_checksum, stats.rejected_magic), (whole, 1, 0), "cut at {cut}");
            if cut % 97 == 0 || least == 0 {
                assert!(contents(&store).is_subset(&whole_file), "cut at {cut}");
            }
        });
    }
}

/// A store of those bytes.
fn open_bytes(bytes: &[u8]) -> Store {
    let folder = folder();
    std::fs::write(file_in(folder.path()), bytes).unwrap();
    open(folder.path())
}

/// The keys and choices in a store.
fn contents(store: &Store) -> BTreeSet<(Vec<u8>, Vec<u8>)> {
    store.list().into_iter().map(|record| (record.key, record.choice)).collect()
}

#[test]
fn a_file_of_16_kib_with_any_bit_flipped_never_gives_a_wrong_record() {
    let (_folder, _, bytes) = saved(340);
    assert!(bytes.len() >= 16_384, "{} bytes", bytes.len());
    let starts = frames(&bytes);
    let last = starts.len() - 1;
    let sound: BTreeSet<(Vec<u8>, Vec<u8>)> = contents(&open_bytes(&bytes));
    in_halves(bytes.len() * 8, |folder, bit| {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        put(folder, &flipped);
        let store = open(folder);
        let stats = store.stats();
        let rejected =
            stats.rejected_checksum + stats.rejected_magic + stats.rejected_version + stats.rejected_fingerprint;
        assert!(rejected >= 1, "bit {bit} is noticed");
        let place = starts.iter().rposition(|start| *start <= bit / 8);
        match place {
            None => assert_eq!(stats.records, 0, "bit {bit}: the header is not trusted any more"),
            Some(place) if place == last => {
                assert_eq!(stats.records, last as u64, "bit {bit}: the footer costs nothing")
            }
            Some(place) if bit / 8 - starts[place] >= 4 => {
                assert_eq!(stats.records, last as u64 - 1, "bit {bit}: the damaged record alone is lost");
            }
            Some(place) => assert!(stats.records >= place as u64, "bit {bit}: those before a lost length are found"),
        }
        // Each bit of records, and some bits elsewhere: comparing all contents takes longer than loading them.
        if bit % 61 == 0 {
            assert!(contents(&store).is_subset(&sound), "bit {bit}");
        }
    });
}

#[test]
fn the_next_save_heals_a_damaged_file() {
    let (folder, path, mut bytes) = saved(4);
    bytes[HEADER + 20] ^= 0xFF;
    std::fs::write(&path, &bytes).unwrap();
    let store = open(folder.path());
    assert_eq!(known(&store, 4), 3);
    assert_eq!(store.save().unwrap().written, 3);
    assert_eq!(inspect_file(&path).unwrap().damaged, 0);
    assert_eq!(open(folder.path()).stats().rejected_checksum, 0);
}

#[test]
fn files_of_other_kinds_are_counted_by_what_is_wrong() {
    let (folder, path, bytes) = saved(1);
    let with = |at: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[at] = value;
        changed
    };
    let table: [(&str, Vec<u8>, [u64; 4]); 6] = [
        ("text", b"hello".to_vec(), [1, 0, 0, 0]),
        ("empty", Vec::new(), [0, 0, 0, 1]),
        ("a later schema", with(8, 4), [0, 1, 0, 0]),
        ("another codec", with(10, 9), [0, 1, 0, 0]),
        ("a damaged fingerprint", with(20, !bytes[20]), [0, 0, 0, 1]),
        ("reserved bytes in use", with(12, 1), [0, 0, 0, 1]),
    ];
    for (what, content, expected) in table {
        std::fs::write(&path, content).unwrap();
        let stats = open(folder.path()).stats();
        let counted =
            [stats.rejected_magic, stats.rejected_version, stats.rejected_fingerprint, stats.rejected_checksum];
        assert_eq!(counted, expected, "{what}");
        assert!(inspect_file(&path).is_err(), "{what}");
    }
}

/// A frame with a right checksum around any payload.
fn frame(length: u32, payload: &[u8]) -> Vec<u8> {
    let checksum = crc32fast::hash(&[&length.to_le_bytes()[..], payload].concat());
    [&length.to_le_bytes()[..], &checksum.to_le_bytes(), payload].concat()
}

/// The memory that a hostile file may cost beyond twice its length.
const SLACK: usize = 1 << 20;

/// Opens hostile bytes: nothing is found, and neither memory nor time is wasted.
fn costs_nothing(what: &str, bytes: &[u8]) {
    let folder = folder();
    std::fs::write(file_in(folder.path()), bytes).unwrap();
    let started = Instant::now();
    let (store, peak) = crate::allocations::peak(|| open(folder.path()));
    assert!(started.elapsed() < Duration::from_secs(2), "{what} took {:?}", started.elapsed());
    assert!(peak <= 2 * bytes.len() + SLACK, "{what} took {peak} bytes of memory for {}", bytes.len());
    assert!(store.stats().records == 0 && store.stats().rejected_checksum >= 1, "{what}");
}

#[test]
fn hostile_lengths_cost_neither_memory_nor_time() {
    let (_folder, _, bytes) = saved(1);
    let lengths = [0, 1, 4095, 4096, 4097, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX];
    for length in lengths {
        let hostile = [&bytes[..HEADER], &frame(length, &[0; 100])[..]].concat();
        costs_nothing(&format!("a frame of {length} bytes"), &hostile);
    }
    // The lengths in a record of schemas 1 and 2, 8 bytes each: of the family, the key and the choice.
    for header in [&include_bytes!("schema1.kiln")[..HEADER], &include_bytes!("schema2.kiln")[..HEADER]] {
        for length in [0, 1, 100, 4095, 4096, 4097, 1 << 31, u64::from(u32::MAX), 1 << 63, u64::MAX] {
            let length = length.to_le_bytes();
            let fields: [&[u8]; 3] = [&[], &[1, 0, 0, 0, 0, 0, 0, 0, b'x', 1, 0, 0, 0], &[0; 20]];
            for field in 0..3 {
                let payload = [fields[..=field].concat(), length.to_vec(), vec![b'x'; 60]].concat();
                let hostile = [header, &frame(payload.len() as u32, &payload)].concat();
                costs_nothing(&format!("field {field} of {length:?}"), &hostile);
            }
        }
    }
    // The lengths in schema 3: one byte, then two twice; and packed bytes that stand for far more bytes than they are.
    for payload in [
        vec![255; 60],
        vec![0, 255, 255, 1, 2, 3],
        [&[1, b'x', 3, 0][..], &[0xF0; 3], &[255, 255], &[0xF0; 40]].concat(),
        [&[1, b'x', 0x40, 1][..], &[0xF0; 0x140], &[0, 0, 0xF0, 0xF0, 0x60]].concat(),
        [&[1, b'x', 0, 0, 0x40, 1][..], &[0xF0; 0x140], &[0xF0, 0xF0, 0x60]].concat(),
        [&[1, b'x', 0, 0, 0, 0][..], &[0xF0; 4000]].concat(),
    ] {
        let hostile = [&bytes[..HEADER], &frame(payload.len() as u32, &payload)].concat();
        costs_nothing(&format!("{payload:?}"), &hostile);
    }
}

#[test]
fn a_count_or_a_checksum_of_the_footer_that_lies_costs_no_record() {
    let (_folder, _, bytes) = saved(2);
    for count in [0, 1, 3, (1 << 31) - 1, u32::MAX] {
        let mut lying = bytes.clone();
        let at = bytes.len() - 8;
        lying[at..at + 4].copy_from_slice(&u32::to_le_bytes(count));
        let checksum = crc32fast::hash(&lying[..at + 4]);
        lying[at + 4..].copy_from_slice(&checksum.to_le_bytes());
        let store = open_bytes(&lying);
        assert_eq!((known(&store, 2), store.stats().rejected_checksum), (2, 1), "{count}");
    }
}

#[test]
fn the_largest_file_loads_quickly_and_takes_little_more_than_itself() {
    let (_folder, _, bytes) = saved(1);
    // The most records of a file, each of 240 bytes that do not pack, then a footer.
    let mut file = bytes[..HEADER].to_vec();
    let numbers = [0x01, 1, 0x31, 1, 0xF0, 0xF0, 0x10];
    for number in 0_u32..(1 << 18) {
        let literal: Vec<u8> = (0..220).map(|at| (at as u8).wrapping_mul(31) | 1).collect();
        let chunks = literal.chunks(15).flat_map(|chunk| [&[chunk.len() as u8], chunk].concat()).collect::<Vec<_>>();
        let key = [&[4][..], &(number + 0x0100_0000).to_le_bytes()].concat();
        let choice = [&(chunks.len() as u16).to_le_bytes()[..], &chunks].concat();
        let payload = [&[1, b'x', 5, 0][..], &key, &choice, &numbers].concat();
        let whole = frame(payload.len() as u32, &payload);
        if file.len() + whole.len() + FOOTER > 64 << 20 {
            break;
        }
        file.extend(whole);
    }
    let folder = folder();
    std::fs::write(file_in(folder.path()), &file).unwrap();
    let started = Instant::now();
    let (store, peak) = crate::allocations::peak(|| open(folder.path()));
    let peak = peak + in_pages(file.len());
    let took = started.elapsed();
    let records = store.stats().records;
    println!("{records} records, {} bytes: {took:?}, {peak} bytes of memory", file.len());
    assert!(records > 250_000 && file.len() > 60 << 20, "{records} records of {} bytes", file.len());
    assert!(peak <= file.len() + (24 << 20), "{peak} bytes of memory");
    // 0.5 s is the target; the rest is for a machine with other work.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// The memory for reading a file of that length, where the counting allocator does not see it.
fn in_pages(length: usize) -> usize {
    if length < 4 << 20 { 0 } else { length.next_multiple_of(2 << 20) }
}

/// A file of the shortest possible records with that many different names: no family, a key of three bytes, no choice,
/// and evidence with as many samples as the second number says.
fn tiny(keys: impl Iterator<Item = (u32, u8)>) -> Vec<u8> {
    let (_folder, _, bytes) = saved(1);
    let mut file = bytes[..HEADER].to_vec();
    for (key, samples) in keys {
        let [a, b, c, _] = key.to_le_bytes();
        // Revision, how, nanoseconds and samples: 16 zeros before the samples, 19 behind them.
        let payload = [&[0, 4, 0, 3, a, b, c, 0, 0][..], &[0xF0, 0x11, samples, 0xF0, 0x40]].concat();
        file.extend(frame(payload.len() as u32, &payload));
    }
    file
}

/// Opens those bytes within the memory that hostile bytes may cost; returns the number of records.
fn opened_in_bounds(what: &str, bytes: &[u8]) -> u64 {
    let folder = folder();
    std::fs::write(file_in(folder.path()), bytes).unwrap();
    let (store, peak) = crate::allocations::peak(|| open(folder.path()));
    let peak = peak + in_pages(bytes.len());
    println!("{what}: {} records, {peak} bytes of memory for {}", store.stats().records, bytes.len());
    assert!(peak <= 2 * bytes.len() + SLACK, "{what} took {peak} bytes of memory for {}", bytes.len());
    store.stats().records
}

#[test]
fn tiny_records_take_no_more_than_twice_their_file() {
    for count in [0, 1, 100, 1000, 14_337, 28_673, 57_345, 114_689, 229_377, 1 << 18] {
        let file = tiny((0..count).map(|key| (key, 1)));
        assert_eq!(opened_in_bounds("distinct records", &file), u64::from(count));
    }
    let file = tiny((0..1 << 19).map(|key| (key, 1)));
    assert_eq!(opened_in_bounds("more than a file may hold", &file), 1 << 18);
}

#[test]
fn records_that_replace_each_other_take_no_more_than_twice_their_file() {
    let better = tiny((1..=200).flat_map(|samples| (0..1000).map(move |key| (key, samples))));
    assert_eq!(opened_in_bounds("each better than the last", &better), 1000);
    let twice = tiny([1, 2].into_iter().flat_map(|samples| (0..100_000).map(move |key| (key, samples))));
    assert_eq!(opened_in_bounds("all of them twice", &twice), 100_000);
    let worse = tiny((1..=200).rev().flat_map(|samples| (0..1000).map(move |key| (key, samples))));
    assert_eq!(opened_in_bounds("each worse than the last", &worse), 1000);
}

/// Runs a check on a folder that `prepare` has changed, and checks that the process survives it.
fn refused(what: &str, saves: bool, prepare: impl FnOnce(&Path, &PathBuf)) {
    let (folder, path, bytes) = saved(2);
    let outside = crate::fixture::folder();
    let bystander = outside.path().join("bystander");
    std::fs::write(&bystander, &bytes).unwrap();
    std::fs::remove_file(&path).unwrap();
    prepare(&path, &bystander);
    let started = Instant::now();
    let store = open(folder.path());
    assert_eq!((known(&store, 2), store.stats().rejected_io), (0, 1), "{what}");
    store.insert(&problem(9), &tile(9), measured(1));
    assert_eq!(store.lookup(&problem(9)), Some(tile(9)), "{what}: memory goes on");
    let saved = store.save();
    assert_eq!(saved.is_ok(), saves, "{what}: {saved:?}");
    assert!(matches!(saved, Ok(_) | Err(RecordError::Refused { .. })), "{what}: {saved:?}");
    assert!(started.elapsed() < Duration::from_secs(1), "{what} does not block");
    assert_eq!(std::fs::read(&bystander).unwrap(), bytes, "{what}: nothing outside is written");
}

#[test]
fn what_stands_in_the_files_place_is_refused_without_blocking() {
    refused("a symbolic link", false, |path, target| std::os::unix::fs::symlink(target, path).unwrap());
    refused("a dangling link", false, |path, _| std::os::unix::fs::symlink("/nonexistent/x", path).unwrap());
    refused("a hard link", false, |path, target| {
        // Links do not cross file systems; both folders are in the same temporary folder.
        std::fs::hard_link(target, path).unwrap();
    });
    refused("a folder", false, |path, _| std::fs::create_dir(path).unwrap());
    refused("a FIFO", false, |path, _| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    });
    refused("a socket", false, |path, _| drop(std::os::unix::net::UnixListener::bind(path).unwrap()));
    refused("a file that others may write", false, |path, target| {
        std::fs::copy(target, path).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
    });
    refused("a file of a tebibyte", false, |path, _| File::create(path).unwrap().set_len(1 << 40).unwrap());
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let (folder, _, _) = saved(2);
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let store = open(folder.path());
    assert_eq!((known(&store, 2), store.stats().rejected_io), (0, 1));
    store.insert(&problem(9), &tile(9), measured(1));
    let error = store.save().unwrap_err();
    assert!(error.to_string().contains("chmod"), "{error}");
}

#[test]
fn a_folder_that_is_a_link_or_a_file_is_refused() {
    let (folder, _, _) = saved(2);
    let outer = crate::fixture::folder();
    let (link, file) = (outer.path().join("link"), outer.path().join("file"));
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    std::fs::write(&file, b"").unwrap();
    for path in [link, file] {
        let store = open(&path);
        assert_eq!((known(&store, 2), store.stats().rejected_io), (0, 1), "{}", path.display());
        store.insert(&problem(9), &tile(9), measured(1));
        assert!(matches!(store.save(), Err(RecordError::Refused { .. })), "{}", path.display());
    }
}

#[test]
fn a_lock_that_is_a_link_is_refused() {
    let folder = folder();
    let outside = folder.path().join("victim");
    std::os::unix::fs::symlink(&outside, folder.path().join(format!("{}.lock", fingerprint().digits()))).unwrap();
    let store = open(folder.path());
    store.insert(&problem(1), &tile(1), measured(1));
    assert!(matches!(store.save(), Err(RecordError::Refused { .. })));
    assert!(!outside.exists(), "nothing is created through it");
}

#[test]
fn a_folder_removed_meanwhile_is_made_again() {
    let (folder, path, _) = saved(2);
    let store = open(folder.path());
    std::fs::remove_dir_all(folder.path()).unwrap();
    store.insert(&problem(2), &tile(2), measured(1));
    assert_eq!(store.save().unwrap().written, 3);
    assert!(path.exists());
}
