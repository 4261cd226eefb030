//! `kiln demo` end to end.

use crate::command::kiln;

#[test]
fn the_demo_builds_nothing_twice_and_starts_its_second_process_from_records() {
    let printed = kiln(["demo"]).ok();
    let rows: Vec<&str> = printed.lines().filter(|line| line.trim_start().starts_with('[')).collect();
    assert_eq!(rows.len(), 10, "{printed}");
    assert!(rows[0].contains("built"), "{printed}");
    assert!(printed.contains("nothing was built a second time"), "{printed}");
    assert!(printed.contains("decided nothing anew"), "{printed}");
}
