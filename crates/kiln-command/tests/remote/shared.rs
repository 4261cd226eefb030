//! Processes that share nothing but a store: the second has what the first found.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_knobs::Secret;
use kiln_run::record::{Credentials, Evidence, Fingerprint, Over, Put, Record, Remote, RemotePolicy, Store, connect};

use crate::servers::{self, bench};

/// Credentials that moto accepts.
pub(crate) const KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "anybody"), ("AWS_SECRET_ACCESS_KEY", "anything"), ("AWS_EC2_METADATA_DISABLED", "true")];

/// Two processes with empty folders, then one that only reads.
fn processes_share(url: &str, settings: &[(&str, &str)]) {
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let first = bench(folders[0].path(), url, settings, &[]);
    assert_eq!(first["cache"]["record_hits"], 0, "{first}");
    assert_eq!(first["records"]["remote_failures"], 0, "{first}");
    let second = bench(folders[1].path(), url, settings, &[]);
    let count = |report: &serde_json::Value, field: &str| report["records"][field].as_u64().unwrap();
    assert!(count(&second, "remote_taken") > 0, "{second}");
    assert_eq!(count(&second, "loaded"), 0, "its own folder was empty: {second}");
    assert!(second["cache"]["record_hits"].as_u64().unwrap() > 0, "{second}");
    assert!(count(&second, "warmed") > 0, "{second}");
    assert_eq!((count(&second, "remote_failures"), count(&second, "rejected")), (0, 0), "{second}");
    let local = kiln_run::record::inspect_folder(folders[1].path()).unwrap();
    assert!(!local.is_empty(), "what was fetched lies in the local file too");
    let third = bench(folders[2].path(), url, settings, &["--remote-read-only"]);
    assert!(count(&third, "remote_taken") > 0 && count(&third, "remote_puts") == 0, "{third}");
}

#[test]
fn two_processes_share_their_tuning_through_redis() {
    if servers::wanted() {
        let server = servers::redis(Some("opensesame"));
        let url = format!("redis://127.0.0.1:{}/fleet?db=2", server.port);
        processes_share(&url, &[("KILN_REMOTE_PASSWORD", "opensesame")]);
    }
}

#[test]
fn two_processes_share_their_tuning_through_s3() {
    if servers::wanted() {
        let server = servers::s3();
        let url = format!("s3://records/fleet?endpoint=http://127.0.0.1:{}&region=us-east-1", server.port);
        processes_share(&url, &KEYS);
    }
}

#[test]
fn a_wrong_password_is_told_and_costs_the_sharing_alone() {
    if servers::wanted() {
        let server = servers::redis(Some("opensesame"));
        let folder = tempfile::tempdir().unwrap();
        let url = format!("redis://127.0.0.1:{}", server.port);
        let report = bench(folder.path(), &url, &[("KILN_REMOTE_PASSWORD", "sesame")], &[]);
        assert_eq!(report["records"]["remote_taken"], 0, "{report}");
        assert!(report["records"]["records"].as_u64().unwrap() > 0, "{report}");
        // The client tries for a while, longer than that process lived.
        let password = Some(Secret("sesame".to_owned()));
        let error = connect(&url, &Credentials { user: None, password }).unwrap().get("file", 1 << 20).unwrap_err();
        println!("{error}");
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    }
}

fn remote(port: u16) -> Arc<dyn Remote> {
    connect(&format!("redis://127.0.0.1:{port}/fleet"), &Credentials::default()).unwrap()
}

fn record(number: u8) -> Record {
    let (family, evidence) = ("problem".to_owned(), Evidence::measured(1000, 3));
    Record { family, revision: 1, key: vec![number, 1, 2, 3], choice: vec![number], evidence }
}

#[test]
fn writers_to_redis_that_meet_lose_nothing() {
    if !servers::wanted() {
        return;
    }
    const WRITERS: u8 = 6;
    let server = servers::redis(None);
    let fingerprint = Fingerprint::from_facts([("machine", "of the tests")]);
    let open = |folder: &std::path::Path| {
        let policy = RemotePolicy { settle: Duration::from_millis(1), ..RemotePolicy::default() };
        Store::open(folder, &fingerprint, kiln_run::record::CacheMode::ReadWrite)
            .with_remote(remote(server.port), policy)
    };
    let barrier = std::sync::Barrier::new(usize::from(WRITERS));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (open, barrier) = (&open, &barrier);
            scope.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                let store = open(folder.path());
                store.await_remote();
                barrier.wait();
                assert!((0..10).all(|number| store.insert_record(&record(writer * 10 + number))));
            });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.await_remote();
    assert_eq!(store.stats().records, u64::from(WRITERS) * 10);
}

#[test]
fn a_large_object_comes_back_as_it_was_and_one_that_is_too_large_does_not() {
    if !servers::wanted() {
        return;
    }
    let server = servers::redis(None);
    let remote = remote(server.port);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let started = Instant::now();
    assert_eq!(remote.get("large", 24 << 20).unwrap(), None);
    assert_eq!(remote.put("large", &bytes, Over::Nothing).unwrap(), Put::Unsure);
    assert_eq!(remote.get("large", 24 << 20).unwrap().unwrap().bytes, bytes);
    println!("3 MB there and back in {:?}", started.elapsed());
    assert!(remote.get("large", 1 << 20).is_err());
    assert_eq!(remote.get("large", 24 << 20).unwrap().unwrap().bytes, bytes, "and goes on");
}
