//! Damaged, truncated and forged files give an error with its reason, never wrong numbers and never a crash.

use std::path::Path;

use kiln::packed::index::{AttrRow, DataRow, ElementsRow, Index, SpanRow};
use kiln::packed::{PackedError, Verify};
use kiln::session::{Session, SessionError, SessionOptions};
use kiln_run::record::{decode_long, encode_long};

use crate::{expect_same, models, options, packed};

pub(crate) fn strict() -> SessionOptions {
    SessionOptions { pack_verify: Verify::Each, ..options() }
}

/// The file's index, and where it begins.
pub(crate) fn index(bytes: &[u8]) -> (Index, usize) {
    let at = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
    (decode_long(&bytes[at..]).unwrap(), at)
}

/// The file with other bytes as its index, and with digests that match them.
pub(crate) fn signed(bytes: &[u8], index: &[u8]) -> Vec<u8> {
    let at = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
    let mut file = [&bytes[..at], index].concat();
    let end = file.len() as u64;
    file[24..32].copy_from_slice(&(index.len() as u64).to_le_bytes());
    file[32..40].copy_from_slice(&end.to_le_bytes());
    file[40..72].copy_from_slice(blake3::hash(index).as_bytes());
    let digest = blake3::hash(&file[..72]);
    file[72..104].copy_from_slice(digest.as_bytes());
    file
}

fn refusal(path: &Path, bytes: &[u8]) -> SessionError {
    std::fs::write(path, bytes).unwrap();
    Session::load(path, &strict()).err().expect("it is refused")
}

#[test]
fn each_damaged_byte_is_found() {
    let (_folder, path) = packed(&models::products().graph, &options());
    let bytes = std::fs::read(&path).unwrap();
    // Every byte of the header and of the index, and some bytes of each line of the weights.
    let (_, start) = index(&bytes);
    let places = (0..4096).step_by(3).chain((4096..start).step_by(61)).chain((start..bytes.len()).step_by(7));
    for at in places {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let error = refusal(&path, &damaged);
        let is_named = matches!(error, SessionError::Packed(PackedError::Damaged { .. } | PackedError::Other { .. }));
        // A file that does not begin as packed models do is read as ONNX.
        assert!(is_named || at < 8 && matches!(error, SessionError::Model(_)), "byte {at}: {error}");
    }
}

#[test]
fn a_file_that_ends_early_is_refused_wherever_it_ends() {
    let (_folder, path) = packed(&models::products().graph, &options());
    let bytes = std::fs::read(&path).unwrap();
    let (index, start) = index(&bytes);
    let ends = index.spans.iter().map(|span| (span.data.offset + span.data.len) as usize);
    for end in ends.chain([8, 100, 4095, 4096, start, start + 1, bytes.len() - 1]) {
        let error = refusal(&path, &bytes[..end]);
        assert!(matches!(error, SessionError::Packed(PackedError::Damaged { .. })), "{end}: {error}");
    }
    let error = refusal(&path, &[&bytes[..], &[0]].concat());
    assert!(matches!(error, SessionError::Packed(PackedError::Damaged { .. })), "a byte more: {error}");
}

#[test]
fn files_of_schemas_3_to_5_which_end_sooner_are_read() {
    let model = models::products();
    let (_folder, path) = packed(&model.graph, &options());
    let mut bytes = std::fs::read(&path).unwrap();
    let (whole, start) = index(&bytes);
    let plain = Session::from_graph(model.graph, &options()).unwrap();
    let unsaid = [
        encode_long(&(&whole.sources, &whole.states)).unwrap(),
        encode_long(&(&whole.sources.panels, &whole.states)).unwrap(),
        encode_long(&whole.states).unwrap(),
    ];
    for (schema, unsaid) in [3u32, 4, 5].into_iter().zip(unsaid) {
        bytes[8..12].copy_from_slice(&schema.to_le_bytes());
        std::fs::write(&path, signed(&bytes, &bytes[start..bytes.len() - unsaid.len()])).unwrap();
        let read = Session::load(&path, &strict()).unwrap_or_else(|error| panic!("schema {schema}: {error}"));
        expect_same(&plain, &read, &model.requests, &format!("schema {schema}"));
        // Only schema 6 has the whole index.
        let file = signed(&bytes, &bytes[start..]);
        assert!(matches!(refusal(&path, &file), SessionError::Packed(PackedError::Damaged { .. })));
    }
    // Other schemas belong to other builds.
    for schema in [0u32, 2, 7, u32::MAX] {
        bytes[8..12].copy_from_slice(&schema.to_le_bytes());
        let error = refusal(&path, &signed(&bytes, &bytes[start..]));
        assert!(matches!(&error, SessionError::Packed(PackedError::Other { fact, .. }) if fact == "schema"), "{error}");
    }
}

#[test]
fn rows_that_lie_about_the_data_are_refused() {
    let (_folder, path) = packed(&models::halves().graph, &options());
    let bytes = std::fs::read(&path).unwrap();
    let change = |change: &dyn Fn(&mut Index)| {
        let (mut changed, _) = index(&bytes);
        change(&mut changed);
        signed(&bytes, &encode_long(&changed).unwrap())
    };
    let far = DataRow { offset: u64::MAX - 63, len: 128 };
    let cases: [(&str, Vec<u8>); 8] = [
        ("spans beyond", change(&|index| index.spans[0].data.len = u64::MAX)),
        ("a span more", change(&|index| index.spans.push(SpanRow { data: far, digest: [0; 32] }))),
        ("no graph", change(&|index| index.graphs.clear())),
        ("a value that is not there", change(&|index| index.graphs[0].outputs[0] = 9_000)),
        (
            "a body that is not there",
            change(&|index| {
                index.graphs[0].nodes[0].attrs.push(("body".to_owned(), AttrRow::Graph(7)));
            }),
        ),
        (
            "elements beyond",
            change(&|index| {
                index.graphs[0].constants.iter_mut().for_each(|(_, row)| row.elements = ElementsRow::Data(far));
            }),
        ),
        (
            "more elements than bytes",
            change(&|index| {
                index.graphs[0].constants.iter_mut().for_each(|(_, row)| row.shape = vec![1 << 40, 1 << 30]);
            }),
        ),
        (
            "elements that are nowhere",
            change(&|index| {
                index.panels.clear();
            }),
        ),
    ];
    for (case, file) in cases {
        let error = refusal(&path, &file);
        let is_named = match &error {
            SessionError::Packed(PackedError::Damaged { .. }) => true,
            // Elements without a place have no packed weights.
            SessionError::InvalidNode { reason, .. } => reason.contains("the packed model has no weights"),
            _ => false,
        };
        assert!(is_named, "{case}: {error}");
    }
}

#[test]
fn forged_files_are_refused_or_run_and_never_a_fault() {
    for model in models::all() {
        let (_folder, path) = packed(&model.graph, &options());
        let bytes = std::fs::read(&path).unwrap();
        let (_, start) = index(&bytes);
        let careless = SessionOptions { pack_verify: Verify::Never, ..options() };
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..80 {
            let mut forged = bytes[start..].to_vec();
            for _ in 0..1 + next(3) {
                let at = next(forged.len());
                forged[at] = match next(3) {
                    0 => next(256) as u8,
                    1 => forged[at].wrapping_add(1),
                    _ => forged[at] ^ 1 << next(8),
                };
            }
            std::fs::write(&path, signed(&bytes, &forged)).unwrap();
            let request: Vec<_> =
                model.requests[0].iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            let ran = Session::load(&path, &careless).and_then(|session| session.run(&request));
            assert!(ran.as_ref().err().is_none_or(|error| !error.is_fault()), "{}: {:?}", model.name, ran.err());
        }
    }
}

#[test]
fn wrong_weights_are_found_where_each_load_verifies_and_are_numbers_where_none_does() {
    let model = models::products();
    let (_folder, path) = packed(&model.graph, &options());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096 + 40] ^= 0x40;
    let error = refusal(&path, &bytes);
    assert!(matches!(error, SessionError::Packed(PackedError::Damaged { .. })), "{error}");
    let once = Session::load(&path, &options()).err().expect("it is refused");
    assert!(matches!(once, SessionError::Packed(PackedError::Damaged { .. })), "{once}");
    let careless = SessionOptions { pack_verify: Verify::Never, ..options() };
    let load = || Session::load(&path, &careless).unwrap();
    expect_same(&load(), &load(), &model.requests, "any bits are some numbers");
}
