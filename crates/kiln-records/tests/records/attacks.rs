//! Traps that another user of the machine may have prepared: files and folders of other users, and false times.
//!
//! Only the superuser can give a file to another user; without it, the tests about owners print that they are skipped.

use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use kiln_records::RecordError;

use crate::fixture::{fingerprint, folder, known, measured, open, problem, saved, tile};

/// The user `nobody` on many systems; only the number matters.
const OTHER: u32 = 65_534;

/// Whether files can be given away here.
fn may_give_away() -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    let given = chown(file.path(), Some(OTHER), None).is_ok();
    if !given {
        println!("skipped: only the superuser may give files to others");
    }
    given
}

/// Checks that nothing is read, nothing is written, records work in memory and nothing waits.
fn refused(what: &str, place: &Path) {
    let started = Instant::now();
    let store = open(place);
    assert_eq!((known(&store, 3), store.stats().rejected_io), (0, 1), "{what}");
    store.insert(&problem(9), &tile(9), measured(1));
    assert!(matches!(store.save(), Err(RecordError::Refused { .. })), "{what}");
    assert_eq!(store.lookup(&problem(9)), Some(tile(9)), "{what}: memory goes on");
    assert!(started.elapsed() < Duration::from_secs(5), "{what} does not block");
}

#[test]
fn a_file_of_another_user_is_refused_and_left_alone() {
    if may_give_away() {
        let (folder, path, bytes) = saved(3);
        // As private as possible: only the owner matters.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        chown(&path, Some(OTHER), None).unwrap();
        refused("a file of another user", folder.path());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(std::fs::metadata(&path).unwrap().uid(), OTHER);
    }
}

#[test]
fn a_folder_of_another_user_is_refused_and_left_alone() {
    if may_give_away() {
        let (folder, path, bytes) = saved(3);
        chown(folder.path(), Some(OTHER), None).unwrap();
        refused("a folder of another user", folder.path());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        // The file and its lock, which are ours from before.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is written into it");
    }
}

#[test]
fn a_device_in_the_files_place_is_refused_without_reading_it() {
    let (folder, path, _) = saved(3);
    std::fs::remove_file(&path).unwrap();
    // The device that gives endless zeros.
    let zeros = rustix::fs::makedev(1, 5);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::CharacterDevice;
    match rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, zeros) {
        Ok(()) => refused("a device", folder.path()),
        Err(error) => println!("skipped: devices cannot be made here: {error}"),
    }
}

#[test]
fn a_shard_and_a_lock_of_another_user_are_refused() {
    if may_give_away() {
        let (folder, path, bytes) = saved(3);
        let shard = folder.path().join(format!("{}.1.00ff.shard", fingerprint().digits()));
        std::fs::write(&shard, &bytes).unwrap();
        chown(&shard, Some(OTHER), None).unwrap();
        let store = open(folder.path());
        assert_eq!((known(&store, 3), store.stats().rejected_io), (3, 1), "the file is ours, the shard is not");
        store.insert(&problem(9), &tile(9), measured(1));
        store.save().unwrap();
        assert!(shard.exists(), "what is refused is left alone");
        let lock = path.with_extension("lock");
        chown(&lock, Some(OTHER), None).unwrap();
        store.insert(&problem(8), &tile(8), measured(1));
        assert!(matches!(store.save(), Err(RecordError::Refused { .. })));
    }
}

#[test]
fn a_folder_that_its_group_may_write_is_refused_whatever_lies_in_it() {
    for mode in [0o720, 0o702, 0o777, 0o1777] {
        let (folder, path, bytes) = saved(3);
        std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        refused(&format!("a folder of mode {mode:o}"), folder.path());
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{mode:o}");
    }
}

#[test]
fn a_file_that_becomes_writable_for_others_after_it_was_loaded_is_not_merged() {
    let (folder, path, _) = saved(3);
    let store = open(folder.path());
    assert_eq!(known(&store, 3), 3);
    std::fs::set_permissions(&path, Permissions::from_mode(0o606)).unwrap();
    store.insert(&problem(9), &tile(9), measured(1));
    assert!(matches!(store.save(), Err(RecordError::Refused { .. })));
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(store.save().unwrap().written, 4, "nothing was lost meanwhile");
}

/// Records go by their evidence, never by the times of files, which every user with write access may set.
#[test]
fn times_of_files_decide_nothing() {
    let times = [
        SystemTime::UNIX_EPOCH,
        SystemTime::now() + Duration::from_secs(400 * 365 * 86_400),
        SystemTime::UNIX_EPOCH - Duration::from_secs(86_400),
    ];
    for time in times {
        let (folder, path, bytes) = saved(3);
        let stale = open(folder.path());
        // Another process proves one record better. Its file then claims another time, and its change of mode has moved
        // the time that no user can set.
        let other = open(folder.path());
        other.insert(&problem(0), &tile(50), measured(99));
        other.save().unwrap();
        assert_ne!(std::fs::read(&path).unwrap(), bytes);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let set = File::options().write(true).open(&path).unwrap();
        set.set_times(FileTimes::new().set_modified(time).set_accessed(time)).unwrap();
        drop(set);
        assert_eq!(open(folder.path()).lookup(&problem(0)), Some(tile(50)), "{time:?}: a reader sees it");
        stale.insert(&problem(9), &tile(9), measured(1));
        assert_eq!(stale.save().unwrap().merged, 1, "{time:?}: and a writer takes it over");
        let last = open(folder.path());
        assert_eq!((last.lookup(&problem(0)), last.lookup(&problem(9))), (Some(tile(50)), Some(tile(9))), "{time:?}");
    }
}

#[test]
fn a_temporary_file_of_another_user_is_in_nobodys_way() {
    if may_give_away() {
        let place = folder();
        let strange = place.path().join(format!(".{}.00.tmp", fingerprint().digits()));
        std::fs::write(&strange, b"anything").unwrap();
        chown(&strange, Some(OTHER), None).unwrap();
        let store = open(place.path());
        store.insert(&problem(0), &tile(0), measured(1));
        store.save().unwrap();
        assert_eq!(known(&open(place.path()), 1), 1);
    }
}
