//! Packed models that refer to the model's files, changed in every part: they give a typed error or the same bits.

use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use kiln::packed::index::{ElementsRow, Index, PartRow};
use kiln::packed::{PackedError, PackedFile, Verify};
use kiln::session::{Session, SessionError, SessionOptions};

use crate::damaged::{index, strict};
use crate::models::{ROWS, tables};
use crate::weightless::{Place, forged};
use crate::{expect_same, options, outputs};

fn is_damaged(loaded: Result<Session, SessionError>) -> bool {
    matches!(loaded.err(), Some(SessionError::Packed(PackedError::Damaged { .. })))
}

/// Numbers that look random.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 11
    }

    fn below(&mut self, count: usize) -> usize {
        self.next() as usize % count
    }

    /// A number other than this one: close to it, a limit, or any.
    fn instead_of(&mut self, number: u64) -> u64 {
        match self.below(6) {
            0 => number.wrapping_add(1 << self.below(12)),
            1 => number.wrapping_sub(1 << self.below(12)),
            2 => number ^ 1 << self.below(64),
            3 => 0,
            4 => u64::MAX - self.next() % 128,
            _ => self.next() % (4 * ROWS as u64 * 64),
        }
    }
}

#[test]
fn each_damaged_byte_of_header_and_data_is_found() {
    let place = Place::of(&tables().graph);
    let bytes = std::fs::read(&place.packed).unwrap();
    let (_, start) = index(&bytes);
    for at in (0..4096).chain((4096..start).step_by(61)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&place.packed, &damaged).unwrap();
        let error = place.load(&strict()).err().unwrap_or_else(|| panic!("byte {at} is found"));
        let is_named = matches!(error, SessionError::Packed(PackedError::Damaged { .. } | PackedError::Other { .. }));
        // A file that does not begin as packed models do is read as ONNX.
        assert!(is_named || at < 8 && matches!(error, SessionError::Model(_)), "byte {at}: {error}");
    }
}

#[test]
fn a_damaged_byte_of_the_model_is_found_where_it_is_referred_to_and_changes_nothing_elsewhere() {
    let model = tables();
    let place = Place::of(&model.graph);
    let plain = Session::load(&place.model, &options()).unwrap();
    let expected = outputs(&plain, &model.requests);
    let bytes = std::fs::read(&place.model).unwrap();
    let parts: Vec<Range<usize>> = {
        let file = PackedFile::open(&place.packed).unwrap();
        let row = |part: &PartRow| part.data.offset as usize..(part.data.offset + part.data.len) as usize;
        file.index().sources.parts.iter().map(row).collect()
    };
    let borders = parts.iter().flat_map(|part| [part.start, part.end]).flat_map(|border| border - 4..border + 4);
    let file = OpenOptions::new().write(true).open(&place.model).unwrap();
    let (mut found, mut same) = (0, 0);
    for at in (0..bytes.len()).step_by(37).chain(borders).chain(bytes.len() - 8..bytes.len()) {
        file.write_all_at(&[bytes[at] ^ 1 << (at % 8)], at as u64).unwrap();
        if parts.iter().any(|part| part.contains(&at)) {
            let error = place.refusal(&strict(), &format!("byte {at}"));
            assert!(error.contains("model.onnx") && error.contains("are others than when"), "byte {at}: {error}");
            found += 1;
        } else {
            let mapped = place.load(&strict()).unwrap_or_else(|error| panic!("byte {at}: {error}"));
            let outputs = outputs(&mapped, &model.requests);
            for (expected, found) in expected.iter().flatten().zip(outputs.iter().flatten()) {
                assert!(expected.0 == found.0 && expected.1.same(&found.1), "byte {at}: output {}", expected.0);
            }
            same += 1;
        }
        file.write_all_at(&bytes[at..=at], at as u64).unwrap();
    }
    assert!(found > 1000 && same > 1000, "{found} bytes are referred to, {same} are not");
}

#[test]
fn files_that_end_early_are_refused_wherever_they_end() {
    let model = tables();
    let place = Place::of(&model.graph);
    let [packed, whole] = [&place.packed, &place.model].map(|path| std::fs::read(path).unwrap());
    let (rows, start) = index(&packed);
    let spans = rows.spans.iter().map(|span| (span.data.offset + span.data.len) as usize);
    for end in spans.chain([0, 8, 100, 4095, 4096]).chain(start..packed.len()) {
        std::fs::write(&place.packed, &packed[..end]).unwrap();
        let error = place.load(&strict()).err().unwrap_or_else(|| panic!("it is refused where it ends at {end}"));
        let is_named = matches!(error, SessionError::Packed(PackedError::Damaged { .. }));
        assert!(is_named || end < 8 && matches!(error, SessionError::Model(_)), "{end}: {error}");
    }
    std::fs::write(&place.packed, &packed).unwrap();
    let borders = rows.sources.parts.iter().flat_map(|part| [part.data.offset, part.data.offset + part.data.len]);
    let ends = borders.flat_map(|border| border - 1..border + 2).map(|end| end as usize);
    let careless = SessionOptions { pack_verify: Verify::Never, ..options() };
    for end in ends.chain((0..whole.len()).step_by(997)).chain([whole.len() - 1]).filter(|&end| end < whole.len()) {
        std::fs::write(&place.model, &whole[..end]).unwrap();
        for options in [strict(), options(), careless.clone()] {
            let error = place.refusal(&options, &format!("a model of {end} bytes"));
            assert!(error.contains("model.onnx") && error.contains(&format!("it has {end} bytes")), "{end}: {error}");
        }
    }
    std::fs::write(&place.model, &whole).unwrap();
    let plain = Session::load(&place.model, &options()).unwrap();
    expect_same(&plain, &place.load(&strict()).unwrap(), &model.requests, "whole again");
}

#[test]
fn drawn_references_are_refused_or_give_the_same_bits() {
    let model = tables();
    let place = Place::of(&model.graph);
    let plain = Session::load(&place.model, &options()).unwrap();
    let bytes = std::fs::read(&place.packed).unwrap();
    let careless = SessionOptions { pack_verify: Verify::Never, ..options() };
    let (mut damaged, mut other, mut same) = (0, 0, 0);
    for seed in 0..1500 {
        let change = |index: &mut Index| {
            let mut draws = Draws(seed * 0x9E37_79B9 + 1);
            let count = index.sources.parts.len();
            for _ in 0..1 + draws.below(2) {
                let at = draws.below(count);
                let part = &mut index.sources.parts[at];
                match draws.below(6) {
                    0 => part.data.offset = draws.instead_of(part.data.offset),
                    1 => part.data.len = draws.instead_of(part.data.len),
                    2 => part.file = draws.instead_of(part.file.into()) as u32,
                    3 => part.digest[draws.below(32)] ^= 1 << draws.below(8),
                    4 => index.sources.files[0].len = draws.instead_of(index.sources.files[0].len),
                    _ => {
                        let rows = index.graphs[0].constants.iter_mut().map(|(_, row)| &mut row.elements);
                        for elements in rows {
                            match elements {
                                ElementsRow::Part(part) => *part = draws.instead_of((*part).into()) as u32,
                                ElementsRow::CompactPart(row) => row.part = draws.instead_of(row.part.into()) as u32,
                                _ => {}
                            }
                        }
                    }
                }
            }
        };
        std::fs::write(&place.packed, forged(&bytes, &change)).unwrap();
        match place.load(&strict()) {
            Ok(mapped) => {
                expect_same(&plain, &mapped, &model.requests, &format!("drawn references, seed {seed}"));
                same += 1;
            }
            Err(SessionError::Packed(PackedError::Damaged { .. })) => {
                assert!(is_damaged(place.load(&careless)), "seed {seed}: data that is not compared is no reason");
                damaged += 1;
            }
            Err(SessionError::Packed(PackedError::Source { .. })) => other += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
        // Unchecked bytes of a file are just some numbers.
        let request: Vec<_> = model.requests[1].iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let ran = place.load(&careless).and_then(|session| session.run(&request));
        assert!(ran.as_ref().err().is_none_or(|error| !error.is_fault()), "seed {seed}: {:?}", ran.err());
    }
    assert!(damaged > 100 && other > 100, "{damaged} are damaged, {other} other files, {same} the same");
}
