//! The example of a foreign graph executor does what it says.

#[path = "../src/main.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example, with a main function of its own")]
mod example;

use kiln_cache::{Cache, Limits, Memo, Outcome};
use kiln_records::Store;

#[test]
fn a_foreign_executor_hits_on_repeats_and_starts_warm() {
    let folder = std::env::temp_dir().join(format!("foreign-executor-test-{}", std::process::id()));
    let lengths = [8, 8, 5, 8];
    let first = example::process(&folder, &lengths).unwrap();
    assert_eq!(first, [Some(Outcome::Miss), None, Some(Outcome::Miss), None]);
    let second = example::process(&folder, &lengths).unwrap();
    assert_eq!(second, [Some(Outcome::RecordHit), None, Some(Outcome::RecordHit), None]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_foreign_executor_computes_and_reports_errors() {
    let (cache, records) = (Cache::new(Limits { entries: 4, bytes: 1000 }), Store::in_memory());
    let mut node = example::Node { window: 2, memo: Memo::default() };
    for (input, expected) in [(&[1.0, 3.0, 5.0][..], &[2.0, 4.0][..]), (&[4.0, 2.0], &[3.0])] {
        assert_eq!(node.run(input, &cache, &records).unwrap().0, expected);
    }
    let error = node.run(&[1.0], &cache, &records).unwrap_err();
    assert_eq!(error, "a window of 2 does not fit 1 samples");
}
