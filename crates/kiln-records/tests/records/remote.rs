//! Records shared through a remote store, which may be down, slow or lying. The stores here are in this process;
//! `crates/kiln-command/tests/remote` has real ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kiln_records::{CacheMode, Object, Over, Put, Remote, RemoteError, RemotePolicy, Store, connect};

use crate::fixture::{fingerprint, folder, known, measured, open, problem, saved, tile};

/// The behaviour of a remote store.
#[derive(Clone, Debug, PartialEq)]
enum Mood {
    /// Puts on conditions.
    Well,
    /// Puts over any object.
    Simple,
    Down,
    Slow(Duration),
    Lying(Vec<u8>),
}

#[derive(Debug)]
struct Elsewhere {
    mood: Mutex<Mood>,
    /// The bytes under a name, and the number of writes.
    kept: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    /// How long reading takes, so that other writers come between.
    pause: Duration,
}

impl Elsewhere {
    fn new(mood: Mood) -> Arc<Elsewhere> {
        Arc::new(Elsewhere { mood: Mutex::new(mood), kept: Mutex::default(), pause: Duration::ZERO })
    }

    fn be(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn name() -> String {
        format!("{}.kiln", fingerprint().digits())
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        self.kept.lock().unwrap().get(&Self::name()).map(|(bytes, _)| bytes.clone())
    }
}

impl Remote for Elsewhere {
    fn get(&self, name: &str, most: usize) -> Result<Option<Object>, RemoteError> {
        let mood = self.mood.lock().unwrap().clone();
        let object = |(bytes, times): &(Vec<u8>, u64)| Object {
            bytes: bytes.clone(),
            version: (mood == Mood::Well).then(|| times.to_string()),
        };
        match &mood {
            Mood::Down => return Err(RemoteError::Failed("connection refused".to_owned())),
            Mood::Slow(time) => std::thread::sleep(*time),
            Mood::Lying(bytes) if bytes.len() > most => return Err(RemoteError::TooLong { most }),
            Mood::Lying(bytes) => return Ok(Some(Object { bytes: bytes.clone(), version: None })),
            Mood::Well | Mood::Simple => {}
        }
        let found = self.kept.lock().unwrap().get(name).map(object);
        std::thread::sleep(self.pause);
        Ok(found)
    }

    fn put(&self, name: &str, bytes: &[u8], over: Over<'_>) -> Result<Put, RemoteError> {
        let mood = self.mood.lock().unwrap().clone();
        match mood {
            Mood::Down => return Err(RemoteError::Failed("connection refused".to_owned())),
            Mood::Slow(time) => std::thread::sleep(time),
            _ => {}
        }
        let mut kept = self.kept.lock().unwrap();
        let times = kept.get(name).map_or(0, |(_, times)| *times);
        let unchanged = match over {
            Over::Nothing => times == 0,
            Over::Version(version) => version == times.to_string(),
            Over::Something => true,
        };
        if mood == Mood::Well && !unchanged {
            return Ok(Put::Changed);
        }
        kept.insert(name.to_owned(), (bytes.to_vec(), times + 1));
        Ok(if mood == Mood::Well { Put::Certain } else { Put::Unsure })
    }
}

/// Fast enough for tests.
fn soon() -> RemotePolicy {
    RemotePolicy {
        read_only: false,
        patience: Duration::from_secs(20),
        settle: Duration::from_millis(10),
        linger: Duration::from_secs(20),
        rest: Duration::from_millis(20),
        look_back: Duration::from_millis(40),
    }
}

fn shared(folder: &std::path::Path, elsewhere: &Arc<Elsewhere>) -> Store {
    open(folder).with_writer(kiln_records::Pace::default()).with_remote(elsewhere.clone(), soon())
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(30), "not in half a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn machines_that_share_nothing_but_the_store_share_their_records() {
    for mood in [Mood::Well, Mood::Simple] {
        let elsewhere = Elsewhere::new(mood);
        let (one, two) = (folder(), folder());
        let first = shared(one.path(), &elsewhere);
        first.insert(&problem(0), &tile(0), measured(1));
        first.insert(&problem(1), &tile(1), measured(1));
        drop(first);
        let second = shared(two.path(), &elsewhere);
        second.await_remote();
        assert_eq!((known(&second, 2), second.stats().remote_taken), (2, 2), "before the first request");
        second.insert(&problem(2), &tile(2), measured(1));
        drop(second);
        assert_eq!(known(&open(two.path()), 3), 3, "what was fetched lies in the local file too");
        let third = shared(one.path(), &elsewhere);
        until("the third takes over what the second found", || known(&third, 3) == 3);
        until("the look ends", || third.stats().remote_taken == 1);
        assert_eq!(third.stats().remote_puts, 0, "nothing is better here than there");
    }
}

#[test]
fn what_is_new_is_put_while_the_process_lives() {
    let elsewhere = Elsewhere::new(Mood::Well);
    let folder = folder();
    let store = shared(folder.path(), &elsewhere);
    store.insert(&problem(0), &tile(0), measured(1));
    until("something is put", || elsewhere.bytes().is_some());
}

#[test]
fn what_is_new_can_be_put_now() {
    for mood in [Mood::Well, Mood::Simple] {
        let elsewhere = Elsewhere::new(mood);
        let (one, two) = (folder(), folder());
        let patient = RemotePolicy { settle: Duration::from_secs(3600), ..soon() };
        let first = open(one.path()).with_remote(elsewhere.clone(), patient);
        first.insert(&problem(0), &tile(0), measured(1));
        assert_eq!(first.publish(Duration::from_secs(20)), Ok(()));
        first.insert(&problem(1), &tile(1), measured(1));
        assert_eq!(first.publish(Duration::from_secs(20)), Ok(()));
        let second = shared(two.path(), &elsewhere);
        second.await_remote();
        assert_eq!(known(&second, 2), 2);
    }
}

#[test]
fn what_cannot_be_put_now_is_an_error_and_is_put_later() {
    let elsewhere = Elsewhere::new(Mood::Down);
    let folder = folder();
    let store = shared(folder.path(), &elsewhere);
    store.insert(&problem(0), &tile(0), measured(1));
    let refused = store.publish(Duration::from_secs(20));
    assert_eq!(refused, Err(RemoteError::Failed("connection refused".to_owned())));
    elsewhere.be(Mood::Slow(Duration::from_secs(2)));
    assert!(matches!(store.publish(Duration::from_millis(50)), Err(RemoteError::TimedOut(_))));
    elsewhere.be(Mood::Well);
    until("it is put", || elsewhere.bytes().is_some());
    let alone = open(folder.path());
    assert_eq!(alone.publish(Duration::ZERO), Err(RemoteError::ReadOnly), "without a remote store");
    let reads = alone.with_remote(elsewhere.clone(), RemotePolicy { read_only: true, ..soon() });
    assert_eq!(reads.publish(Duration::ZERO), Err(RemoteError::ReadOnly));
}

#[test]
fn the_better_proven_record_wins_on_both_sides() {
    let elsewhere = Elsewhere::new(Mood::Well);
    let (one, two) = (folder(), folder());
    let first = shared(one.path(), &elsewhere);
    first.insert(&problem(1), &tile(1), measured(9));
    first.insert(&problem(2), &tile(99), measured(1));
    drop(first);
    let second = open(two.path());
    second.insert(&problem(1), &tile(77), measured(2));
    second.insert(&problem(2), &tile(2), measured(7));
    let second = second.with_remote(elsewhere.clone(), soon());
    until("the better one comes", || second.lookup(&problem(1)) == Some(tile(1)));
    drop(second);
    let third = folder();
    let third = shared(third.path(), &elsewhere);
    third.await_remote();
    assert_eq!((third.lookup(&problem(1)), third.lookup(&problem(2))), (Some(tile(1)), Some(tile(2))));
}

#[test]
fn a_machine_that_only_reads_puts_nothing() {
    for (mode, read_only) in [(CacheMode::ReadWrite, true), (CacheMode::Read, false)] {
        let elsewhere = Elsewhere::new(Mood::Well);
        let folder = folder();
        let store = Store::open(folder.path(), &fingerprint(), mode)
            .with_remote(elsewhere.clone(), RemotePolicy { read_only, ..soon() });
        store.insert(&problem(0), &tile(0), measured(1));
        until("it looks", || store.stats().remote_gets > 0);
        drop(store);
        assert_eq!(elsewhere.bytes(), None);
    }
}

#[test]
fn writers_that_come_between_each_other_lose_nothing() {
    const WRITERS: u32 = 6;
    const EACH: u32 = 5;
    for mood in [Mood::Well, Mood::Simple] {
        let elsewhere = Arc::new(Elsewhere {
            mood: Mutex::new(mood.clone()),
            kept: Mutex::default(),
            pause: Duration::from_millis(3),
        });
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let elsewhere = &elsewhere;
                scope.spawn(move || {
                    let folder = folder();
                    let store = shared(folder.path(), elsewhere);
                    for number in writer * EACH..(writer + 1) * EACH {
                        store.insert(&problem(number), &tile(number as u8), measured(1));
                        std::thread::sleep(Duration::from_millis(15));
                    }
                    // The loser tries again for as long as it lives.
                    until("its own lies there", || {
                        let probe = self::folder();
                        let probe = shared(probe.path(), elsewhere);
                        probe.await_remote();
                        (writer * EACH..(writer + 1) * EACH)
                            .all(|number| probe.lookup(&problem(number)) == Some(tile(number as u8)))
                    });
                });
            }
        });
        let last = folder();
        let last = shared(last.path(), &elsewhere);
        last.await_remote();
        assert_eq!(u32::from(known(&last, (WRITERS * EACH) as u8)), WRITERS * EACH, "{mood:?}");
    }
}

#[test]
fn a_store_that_is_down_costs_nothing_but_a_count_and_is_asked_again() {
    let elsewhere = Elsewhere::new(Mood::Down);
    let folder = folder();
    let store = shared(folder.path(), &elsewhere);
    store.insert(&problem(0), &tile(0), measured(1));
    store.save().unwrap();
    assert_eq!(known(&open(folder.path()), 1), 1, "the local file does not depend on it");
    until("it fails", || store.stats().remote_failures >= 2);
    elsewhere.be(Mood::Well);
    until("what could not be put is put", || elsewhere.bytes().is_some());
    assert_eq!(known(&store, 1), 1);
}

#[test]
fn a_store_that_does_not_answer_holds_nobody_up() {
    let elsewhere = Elsewhere::new(Mood::Slow(Duration::from_secs(60)));
    let folder = folder();
    let started = Instant::now();
    let impatient = RemotePolicy { patience: Duration::from_millis(30), linger: Duration::from_millis(30), ..soon() };
    let store = open(folder.path()).with_remote(elsewhere, impatient);
    store.await_remote();
    store.insert(&problem(0), &tile(0), measured(1));
    assert_eq!(store.lookup(&problem(0)), Some(tile(0)));
    store.save().unwrap();
    drop(store);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn who_has_records_waits_for_nobody() {
    let (folder, _, _) = saved(3);
    let elsewhere = Elsewhere::new(Mood::Slow(Duration::from_secs(60)));
    let store = open(folder.path())
        .with_remote(elsewhere, RemotePolicy { patience: Duration::from_secs(60), linger: Duration::ZERO, ..soon() });
    let started = Instant::now();
    store.await_remote();
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(known(&store, 3), 3);
}

#[test]
fn a_store_that_lies_is_believed_no_more_than_any_file() {
    let (_folder, _, bytes) = saved(3);
    let mut flipped = bytes.clone();
    flipped[80] ^= 1;
    let other = kiln_records::Fingerprint::from_facts([("machine", "another")]);
    let foreign = kiln_records::write_blob(&open(_folder.path()).list(), &other).unwrap();
    let mut newer = bytes.clone();
    newer[8] = 77;
    let table: [(&str, Vec<u8>, u8); 7] = [
        ("nothing", Vec::new(), 0),
        ("text", b"404 not found".to_vec(), 0),
        ("half a file", bytes[..bytes.len() / 2].to_vec(), 1),
        ("a flipped bit", flipped, 2),
        ("another machine's", foreign, 0),
        ("a schema of the future", newer, 0),
        ("far too much", vec![0x89; (24 << 20) + 1], 0),
    ];
    for (what, lie, found) in table {
        let here = folder();
        let store = open(here.path()).with_remote(Elsewhere::new(Mood::Lying(lie)), soon());
        store.await_remote();
        assert_eq!(known(&store, 3), found, "{what}");
        let stats = store.stats();
        let counted =
            stats.rejected_magic + stats.rejected_checksum + stats.rejected_fingerprint + stats.rejected_version;
        assert!(counted + stats.remote_failures > 0, "{what}: {stats:?}");
        store.insert(&problem(9), &tile(9), measured(1));
        assert_eq!(store.lookup(&problem(9)), Some(tile(9)), "{what}");
        store.save().unwrap();
    }
}

#[test]
fn what_cannot_be_records_is_replaced_and_what_a_newer_build_wrote_is_not() {
    let (_folder, _, bytes) = saved(3);
    let mut newer = bytes;
    newer[8] = 77;
    for (lies, replaced) in [(b"404 not found".to_vec(), true), (newer, false)] {
        let elsewhere = Elsewhere::new(Mood::Well);
        elsewhere.kept.lock().unwrap().insert(Elsewhere::name(), (lies.clone(), 1));
        let here = folder();
        let store = shared(here.path(), &elsewhere);
        store.insert(&problem(0), &tile(0), measured(1));
        drop(store);
        assert_eq!(elsewhere.bytes().unwrap() != lies, replaced);
    }
}

#[test]
#[cfg(not(feature = "remote"))]
fn a_build_without_clients_says_how_to_get_one() {
    let error = connect("redis://localhost", &kiln_records::Credentials::default()).unwrap_err();
    assert_eq!(error, RemoteError::NotBuilt);
    assert!(error.to_string().contains("--features remote"));
}

#[test]
fn a_url_that_names_no_store_is_an_error_at_once() {
    let error = connect("redis://me:opensesame@cache", &kiln_records::Credentials::default()).unwrap_err();
    assert!(matches!(error, RemoteError::Address { .. }));
    assert!(!error.to_string().contains("opensesame"));
}
