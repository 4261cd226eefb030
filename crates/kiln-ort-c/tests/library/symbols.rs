//! The exported symbols: their versions, and the name under which programs look for the library.

use std::collections::BTreeMap;

/// A number of the file, little-endian, of that many bytes.
fn number(file: &[u8], at: usize, bytes: usize) -> usize {
    file[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// A text of the file, up to its zero.
fn text(file: &[u8], at: usize) -> String {
    file[at..].iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
}

/// Parts of a shared library for 64-bit machines (System V ABI, ELF): the type, place and size of each section.
struct Sections<'f> {
    file: &'f [u8],
    sections: Vec<[usize; 3]>,
}

const DYNAMIC: usize = 6;
const DYNSYM: usize = 11;
const VERDEF: usize = 0x6fff_fffd;
const VERSYM: usize = 0x6fff_ffff;

impl<'f> Sections<'f> {
    fn of(file: &'f [u8]) -> Sections<'f> {
        assert_eq!(&file[..5], b"\x7fELF\x02");
        let (start, size, count) = (number(file, 0x28, 8), number(file, 0x3a, 2), number(file, 0x3c, 2));
        let section = |at: usize| {
            let header = start + at * size;
            [number(file, header + 4, 4), number(file, header + 0x18, 8), number(file, header + 0x20, 8)]
        };
        Sections { file, sections: (0..count).map(section).collect() }
    }

    /// Where the section of a type begins and ends.
    fn find(&self, kind: usize) -> std::ops::Range<usize> {
        let found = self.sections.iter().find(|[other, ..]| *other == kind);
        let [_, start, size] = found.unwrap_or_else(|| panic!("no section of type {kind:#x}"));
        *start..start + size
    }

    /// The entry of a tag in the dynamic section.
    fn dynamic(&self, tag: usize) -> usize {
        let mut entries = self.find(DYNAMIC).step_by(16);
        let entry = entries.find(|at| number(self.file, *at, 8) == tag);
        number(self.file, entry.unwrap_or_else(|| panic!("no dynamic entry {tag}")) + 8, 8)
    }

    /// Where the texts of the dynamic section are; their address is their place in the file.
    fn texts(&self) -> usize {
        self.dynamic(5)
    }
}

#[test]
fn both_exports_have_the_version_of_each_release_and_the_newest_is_the_default() {
    let file = std::fs::read(crate::kiln()).unwrap();
    let sections = Sections::of(&file);
    assert_eq!(text(&file, sections.texts() + sections.dynamic(14)), "libonnxruntime.so.1");
    // Versions by their numbers.
    let mut versions = BTreeMap::new();
    let mut at = sections.find(VERDEF).start;
    loop {
        let name = number(&file, at + number(&file, at + 12, 4), 4);
        versions.insert(number(&file, at + 4, 2), text(&file, sections.texts() + name));
        match number(&file, at + 16, 4) {
            0 => break,
            next => at += next,
        }
    }
    let mut found: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
    for (symbol, version) in sections.find(DYNSYM).step_by(24).zip(sections.find(VERSYM).step_by(2)) {
        let (name, place) = (text(&file, sections.texts() + number(&file, symbol, 4)), number(&file, symbol + 6, 2));
        let version = number(&file, version, 2);
        if place == 0 || place >= 0xff00 {
            continue;
        }
        let is_default = version & 0x8000 == 0;
        found.entry(name).or_default().push((versions[&(version & 0x7fff)].clone(), is_default));
    }
    let expected: Vec<String> =
        (1..=31).flat_map(|minor| (0..10).map(move |patch| format!("VERS_1.{minor}.{patch}"))).collect();
    // Built with all features, the library also has the C functions of a client of stores (crc_fast).
    let own = |name: &&String| name.starts_with("Ort") || name.contains("kiln");
    assert_eq!(found.keys().filter(own).count(), 2, "{:?}", found.keys());
    for name in ["OrtGetApiBase", "OrtSessionOptionsAppendExecutionProvider_CPU"] {
        let has = &found[name];
        let has_version = |version: &&String| has.iter().any(|(other, _)| other == *version);
        assert_eq!(expected.iter().filter(has_version).count(), 310, "{name}");
        assert_eq!(has.len(), 310, "{name}");
        let defaults: Vec<&String> = has.iter().filter(|(_, is_default)| *is_default).map(|(name, _)| name).collect();
        assert_eq!(defaults, ["VERS_1.31.0"], "{name}");
    }
}
