//! The example of a foreign graph executor does what it says.

#[path = "../../examples/foreign_executor.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example, with a main function of its own")]
mod example;

use kiln::cache::{Cache, Limits, Outcome};
use kiln::record::Store;

#[test]
fn a_foreign_executor_hits_on_repeats_and_starts_warm() {
    let folder = tempfile::tempdir().unwrap();
    let lengths = [8, 8, 5, 8];
    let first = example::process(folder.path(), &lengths).unwrap();
    assert_eq!(first, [Some(Outcome::Miss), None, Some(Outcome::Miss), Some(Outcome::Hit)]);
    let second = example::process(folder.path(), &lengths).unwrap();
    assert_eq!(second, [Some(Outcome::RecordHit), None, Some(Outcome::RecordHit), Some(Outcome::Hit)]);
}

#[test]
fn a_foreign_executor_computes_and_reports_errors() {
    let (cache, records) = (Cache::new(Limits { entries: 4, bytes: 1000 }), Store::in_memory());
    let mut node = example::Node { window: 2, prepared: None };
    for (input, expected) in [(&[1.0, 3.0, 5.0][..], &[2.0, 4.0][..]), (&[4.0, 2.0], &[3.0])] {
        node.prepare(input.len(), &cache, &records).unwrap();
        assert_eq!(node.execute(input).unwrap(), expected);
    }
    let error = node.prepare(1, &cache, &records).unwrap_err();
    assert_eq!(error, "a window of 2 does not fit 1 samples");
}
