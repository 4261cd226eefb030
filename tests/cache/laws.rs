//! The key of every family with records, tested against the laws of keys.

#[test]
fn every_family_with_records_states_the_laws_of_its_key() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/kiln-run/src/exec");
    let mut families = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if text.contains("impl Recorded for") {
            families += 1;
            assert!(
                text.contains("laws = crate::record::laws::check"),
                "{} needs `laws = crate::record::laws::check` in `#[key(...)]`",
                path.display()
            );
        }
    }
    assert!(families > 0, "families live in {folder}");
}
