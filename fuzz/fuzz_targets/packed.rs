//! Forged packed models: a file with a changed header, index or data and matching digests, or a changed file with its
//! weights. Loading ends in a typed error or in a session, which answers a request or refuses it; neither panics, hangs
//! or takes memory beyond its limit.

#![no_main]

#[path = "../../tests/packed/models.rs"]
mod models;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use kiln::packed::{HEADER, Verify};
use kiln::session::{Session, SessionOptions};
use kiln_model::onnx;
use kiln_run::record::CacheMode;
use kiln_tensor::Tensor;
use libfuzzer_sys::fuzz_target;

/// A request: inputs by name.
type Request = Vec<(String, Tensor)>;

/// A packed model as it was written, and requests for it.
struct Packed {
    bytes: Vec<u8>,
    /// Where its index begins.
    index: usize,
    /// The model's file, which keeps some of its weights.
    model: Option<Vec<u8>>,
    requests: Vec<Request>,
}

fn options() -> SessionOptions {
    SessionOptions {
        threads: 1,
        cache_mode: CacheMode::Memory,
        memory_bytes: 256 << 20,
        time_limit: Some(Duration::from_secs(2)),
        load_time_limit: Some(Duration::from_secs(2)),
        ..SessionOptions::default()
    }
}

/// A place for the packed model, and one for the model that it refers to.
fn places() -> &'static [PathBuf; 2] {
    static FOLDER: OnceLock<(tempfile::TempDir, [PathBuf; 2])> = OnceLock::new();
    let (_, paths) = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["model.kpk", "model.onnx"].map(|name| folder.path().join(name));
        (folder, paths)
    });
    paths
}

fn packed() -> &'static [Packed] {
    static PACKED: OnceLock<Vec<Packed>> = OnceLock::new();
    PACKED.get_or_init(|| {
        let [place, beside] = places();
        let written = |model: Option<Vec<u8>>, requests: Vec<Request>| {
            let bytes = std::fs::read(place).expect("it was written");
            let index = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")) as usize;
            Packed { bytes, index, model, requests }
        };
        let whole = |model: models::Model| {
            Session::pack_graph(model.graph, place, &options()).expect(model.name);
            written(None, model.requests)
        };
        let weightless = |model: models::Model| {
            let bytes = onnx::write(&model.graph).expect(model.name);
            std::fs::write(beside, &bytes).expect("there is room");
            let options = SessionOptions { pack_weightless: true, ..options() };
            let report = Session::pack(beside, place, &options).expect(model.name);
            assert!(report.referred > 0, "{}: it has no weights that stay in its file", model.name);
            written(Some(bytes), model.requests)
        };
        models::all().into_iter().map(whole).chain([weightless(models::tables())]).collect()
    })
}

/// Writes the digests that match the file's contents now.
fn sign(file: &mut [u8], index: usize) {
    let digest = blake3::hash(&file[index..]);
    file[40..72].copy_from_slice(digest.as_bytes());
    let digest = blake3::hash(&file[..72]);
    file[72..104].copy_from_slice(digest.as_bytes());
}

fuzz_target!(|input: &[u8]| {
    let Some((&[which, how], changes)) = input.split_first_chunk::<2>() else { return };
    let Packed { bytes, index, model, requests } = &packed()[usize::from(which) % packed().len()];
    let (mut file, mut beside) = (bytes.clone(), model.clone());
    // Most changes are of the index; some of the header, of the data or of the model's file.
    let (changed, range) = match (how % 8, &mut beside) {
        (0, _) => (&mut file, 0..104),
        (1, _) => (&mut file, HEADER..*index),
        (2, Some(model)) => {
            let range = 0..model.len();
            (model, range)
        }
        _ => {
            let range = *index..file.len();
            (&mut file, range)
        }
    };
    for change in changes.as_chunks::<6>().0 {
        let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % range.len().max(1) + range.start;
        let value = change[4];
        match change[3] % 5 {
            0 => changed[at] = value,
            1 => changed[at] = changed[at].wrapping_add(1 + value % 3),
            2 => changed[at] = changed[at].wrapping_sub(1 + value % 3),
            3 => changed[at] ^= 1 << (value % 8),
            // A number of 64 bits.
            _ => {
                let end = changed.len().min(at + 8);
                changed[at..end].fill(value);
            }
        }
    }
    if how & 16 == 0 {
        sign(&mut file, *index);
    }
    let [place, model_place] = places();
    if how % 16 == 15
        && let Some(model) = &mut beside
    {
        // A file of another length.
        model.truncate(model.len() - usize::from(which));
    }
    std::fs::write(place, &file).expect("there is room");
    if let Some(model) = &beside {
        std::fs::write(model_place, model).expect("there is room");
    }
    let pack_verify = if how & 32 == 0 { Verify::Never } else { Verify::Each };
    match Session::load(place, &SessionOptions { pack_verify, ..options() }) {
        Err(error) => assert!(!error.is_fault(), "{error}"),
        Ok(session) => {
            let request = &requests[usize::from(how >> 6) % requests.len()];
            let inputs: Vec<(&str, Tensor)> =
                request.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            if let Err(error) = session.run(&inputs) {
                assert!(!error.is_fault(), "{error}");
            }
        }
    }
});
