//! The example of docs/records.md is the golden file of the newest schema.

#[test]
fn the_document_shows_the_golden_file() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/records.md")).unwrap();
    // The lines of the dump: an offset, a colon, bytes in hexadecimal, then words.
    let shown: Vec<u8> = document
        .lines()
        .filter_map(|line| {
            line.split_once(": ").filter(|(offset, _)| offset.len() == 4 && u16::from_str_radix(offset, 16).is_ok())
        })
        .flat_map(|(_, rest)| rest.split("  ").next().unwrap_or_default().split(' ').collect::<Vec<_>>())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    assert_eq!(shown, include_bytes!("../../crates/kiln-records/tests/records/schema3.kiln"));
}
