//! Packed models that refer to the model's files: the same bits, and an error that names the file if it is another one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kiln::packed::index::{DataRow, ElementsRow, FileRow, Index, PartRow};
use kiln::packed::{PackedError, PackedFile, Verify};
use kiln::session::{CacheKind, Pack, PackReport, Session, SessionError, SessionOptions};
use kiln_model::ir::Dim;
use kiln_model::onnx;
use kiln_model::{Graph, GraphBuilder};
use kiln_run::record::{CacheMode, encode_long};
use kiln_tensor::DType;

use crate::damaged::{index, signed, strict};
use crate::models::{self, Model, ROWS, WIDE, ids_of, numbers, tables, tensor};
use crate::{expect_same, options};

/// Bytes of the table of `f32`, and of the table of `f16`.
const BYTES: [u64; 2] = [(ROWS * WIDE * 4) as u64, (ROWS * WIDE * 2) as u64];

fn weightless() -> SessionOptions {
    SessionOptions { pack_weightless: true, ..options() }
}

/// A folder with a model, and with a packed model that refers to it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) model: PathBuf,
    pub(crate) packed: PathBuf,
    report: PackReport,
}

impl Place {
    pub(crate) fn of(graph: &Graph) -> Place {
        Place::of_bytes(&onnx::write(graph).unwrap(), |_| {})
    }

    fn of_bytes(model: &[u8], beside: impl FnOnce(&Path)) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let [path, packed] = ["model.onnx", "model.kpk"].map(|name| folder.path().join(name));
        std::fs::write(&path, model).unwrap();
        beside(folder.path());
        let report = Session::pack(&path, &packed, &weightless()).unwrap_or_else(|error| panic!("{error}"));
        Place { folder, model: path, packed, report }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn load(&self, options: &SessionOptions) -> Result<Session, SessionError> {
        Session::load(&self.packed, options)
    }

    /// Why the packed model is not loaded, if a file that it refers to is the reason.
    pub(crate) fn refusal(&self, options: &SessionOptions, what: &str) -> String {
        match self.load(options).err().unwrap_or_else(|| panic!("{what} is refused")) {
            SessionError::Packed(error @ PackedError::Source { .. }) => error.to_string(),
            other => panic!("{what}: {other}"),
        }
    }
}

/// A number as protobuf writes it.
fn varint(mut number: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while number > 127 {
        all.push(number as u8 | 128);
        number >>= 7;
    }
    all.push(number as u8);
    all
}

/// A field of a protobuf message that has a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2], &varint(bytes.len())[..], bytes].concat()
}

/// A model that looks up rows of a table. The table is in the file at `location`, from `offset` on.
fn beside(location: &str, offset: usize) -> Vec<u8> {
    let mut build = GraphBuilder::new("beside", 17);
    let ids = build.input("ids", DType::I64, [Dim::Any]);
    let table = build.input("w", DType::F32, [ROWS.into(), WIDE.into()]);
    let y = build.op("Gather", &[table, ids], &[]);
    build.output("y", y);
    with_file(&build.finish(), [ROWS, WIDE], location, offset)
}

/// The file of a graph whose input `w` has a default, in the file at `location` from `offset` on.
fn with_file(graph: &Graph, shape: [usize; 2], location: &str, offset: usize) -> Vec<u8> {
    let entry = |key: &str, value: &str| field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat());
    let dims = shape.map(|size| [vec![1 << 3], varint(size)].concat()).concat();
    let entries = [entry("location", location), entry("offset", &offset.to_string())].concat();
    // Numbers of type 1, stored elsewhere. Protobuf merges a message into an equal field before it.
    let tensor = [&dims[..], &[2 << 3, 1], &field(8, b"w"), &entries, &[14 << 3, 1]].concat();
    let whole = onnx::write(graph).unwrap();
    [whole, field(7, &field(5, &tensor))].concat()
}

fn table_bytes(offset: usize) -> Vec<u8> {
    file_of(offset, ROWS * WIDE)
}

/// The bytes of a file with that many numbers from `offset` on.
fn file_of(offset: usize, count: usize) -> Vec<u8> {
    let numbers = numbers(count, 5).into_iter().flat_map(f32::to_le_bytes);
    std::iter::repeat_n(1, offset).chain(numbers).collect()
}

/// Columns of a matrix that is one panel at every level.
const PANEL: usize = 16;

/// Rows of a matrix that is far larger than the packed model that refers to it.
const LONG: usize = 1 << 14;

/// A product by a matrix of that many columns, which a file beside the model has from `offset` on.
fn product(columns: usize, offset: usize) -> Place {
    let mut build = GraphBuilder::new("product", 17);
    let x = build.input("x", DType::F32, [Dim::Any, LONG.into()]);
    let w = build.input("w", DType::F32, [LONG.into(), columns.into()]);
    let y = build.op("MatMul", &[x, w], &[]);
    build.output("y", y);
    Place::of_bytes(&with_file(&build.finish(), [LONG, columns], "weights.bin", offset), |folder| {
        std::fs::write(folder.join("weights.bin"), file_of(offset, LONG * columns)).unwrap();
    })
}

#[test]
fn packed_weights_with_the_bytes_of_the_file_stay_in_it() {
    let requests = [1, 9, 1].map(|rows| vec![("x".to_owned(), tensor(&[rows, LONG], 3))]);
    // A narrower matrix is padded, a wider one is several panels, and a place at 4 bytes is none that kernels read.
    for (columns, offset, stays) in
        [(PANEL, 4096, true), (PANEL, 64, true), (PANEL, 4, false), (PANEL - 1, 4096, false), (200, 4096, false)]
    {
        let what = format!("{columns} columns from {offset} on");
        let place = product(columns, offset);
        let len = (LONG * columns * 4) as u64;
        let file = PackedFile::open(&place.packed).unwrap();
        let Index { panels, sources, .. } = file.index();
        assert_eq!((panels.len(), sources.panels.len()), if stays { (0, 1) } else { (1, 0) }, "{what}");
        assert_eq!((place.report.panels, place.report.referred), (1, if stays { len } else { 0 }), "{what}");
        assert_eq!(file.len() as u64 > len, !stays, "{what}: {} bytes", file.len());
        if stays {
            assert_eq!(sources.parts[0].data, DataRow { offset: offset as u64, len }, "{what}");
        }
        let plain = Session::load(&place.model, &options()).unwrap();
        expect_same(&plain, &place.load(&strict()).unwrap(), &requests, &what);
    }
}

#[test]
fn packed_weights_in_the_file_are_checked_like_others() {
    let place = product(PANEL, 4096);
    let bytes = std::fs::read(&place.packed).unwrap();
    let load = |change: &dyn Fn(&mut Index), verify: Verify| {
        std::fs::write(&place.packed, forged(&bytes, change)).unwrap();
        place.load(&SessionOptions { pack_verify: verify, ..options() })
    };
    let cases: [(&str, &dyn Fn(&mut Index)); 5] = [
        ("a part that is not there", &|index| index.sources.panels[0].part = 1),
        ("another layout", &|index| index.sources.panels[0].layout.push('0')),
        ("another place", &|index| index.sources.panels[0].place.node = 7),
        ("no weights", &|index| index.sources.panels.clear()),
        ("fewer bytes", &|index| index.sources.parts[0].data.len -= 64),
    ];
    for (case, change) in cases {
        for verify in [Verify::Each, Verify::Never] {
            let error = load(change, verify).err().unwrap_or_else(|| panic!("{case} is refused"));
            assert!(!error.is_fault(), "{case}: {error}");
        }
    }
    // Bytes that are not aligned are copied, and are other numbers.
    let shifted = |index: &mut Index| index.sources.parts[0].data.offset -= 4;
    load(&shifted, Verify::Never).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(load(&shifted, Verify::Each), Err(SessionError::Packed(PackedError::Source { .. }))));
    std::fs::write(&place.packed, &bytes).unwrap();
    let mut other = file_of(4096, LONG * PANEL);
    *other.last_mut().unwrap() ^= 1;
    std::fs::write(place.file("weights.bin"), other).unwrap();
    assert!(place.refusal(&strict(), "other bytes").contains("are others than when it was packed"));
}

#[test]
fn a_model_in_a_cache_of_links_is_packed_above_its_files() {
    let root = tempfile::tempdir().unwrap();
    let [blobs, snapshot] = ["blobs", "snapshots/revision"].map(|name| root.path().join(name));
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::create_dir_all(&snapshot).unwrap();
    let Model { graph, requests, .. } = tables();
    std::fs::write(blobs.join("digest"), onnx::write(&graph).unwrap()).unwrap();
    let model = snapshot.join("model.onnx");
    std::os::unix::fs::symlink("../../blobs/digest", &model).unwrap();
    let beside = snapshot.join("model.kpk");
    let error = Session::pack(&model, &beside, &weightless()).unwrap_err().to_string();
    assert!(error.contains("blobs/digest") && error.contains("write it to a folder above"), "{error}");
    let packed = root.path().join("model.kpk");
    assert_eq!(Session::pack(&model, &packed, &weightless()).unwrap().referred, BYTES[0] + BYTES[1]);
    assert_eq!(PackedFile::open(&packed).unwrap().index().sources.files[0].location, "blobs/digest");
    let plain = Session::load(&model, &options()).unwrap();
    expect_same(&plain, &Session::load(&packed, &strict()).unwrap(), &requests, "above");
    // Its files are looked for below the folder of the path that it is loaded by.
    std::os::unix::fs::symlink("../../model.kpk", &beside).unwrap();
    let error = Session::load(&beside, &strict()).err().unwrap();
    assert!(matches!(error, SessionError::Packed(PackedError::Source { .. })), "{error}");
}

#[test]
fn every_kind_of_weights_gives_the_bits_of_the_onnx_file() {
    for model in models::all().into_iter().chain([tables()]) {
        let place = Place::of(&model.graph);
        let plain = Session::load(&place.model, &options()).unwrap();
        let mapped = place.load(&strict()).unwrap_or_else(|error| panic!("{}: {error}", model.name));
        assert!(mapped.is_packed(), "{}", model.name);
        expect_same(&plain, &mapped, &model.requests, model.name);
    }
}

#[test]
fn the_file_is_smaller_by_the_bytes_that_stay_in_the_model() {
    let place = Place::of(&tables().graph);
    let whole = Session::pack(&place.model, &place.file("whole.kpk"), &options()).unwrap();
    assert_eq!((whole.referred, place.report.referred), (0, BYTES[0] + BYTES[1]));
    let saved = whole.bytes - place.report.bytes;
    // The description of the parts in the index takes some hundred bytes.
    assert!(saved.abs_diff(place.report.referred) < 8192, "{whole:?}, {:?}", place.report);
    let sources = &PackedFile::open(&place.packed).unwrap().index().sources.clone();
    let len = std::fs::metadata(&place.model).unwrap().len();
    assert_eq!(sources.files, [FileRow { location: "model.onnx".to_owned(), len }]);
    let mut lens: Vec<u64> = sources.parts.iter().map(|part| part.data.len).collect();
    lens.sort_unstable();
    assert_eq!(lens, [BYTES[1], BYTES[0]]);
}

#[test]
fn weights_in_a_file_beside_the_model_are_found_in_its_folder_wherever_they_begin() {
    // 4,096 and 4 are multiples of an element's bytes; 2 is not.
    for offset in [4096, 4, 2] {
        let place = Place::of_bytes(&beside("inner/weights.bin", offset), |folder| {
            std::fs::create_dir(folder.join("inner")).unwrap();
            std::fs::write(folder.join("inner/weights.bin"), table_bytes(offset)).unwrap();
        });
        let plain = Session::load(&place.model, &options()).unwrap();
        let mapped = place.load(&strict()).unwrap();
        expect_same(&plain, &mapped, &[ids_of(1), ids_of(50)], &format!("offset {offset}"));
        let sources = PackedFile::open(&place.packed).unwrap().index().sources.clone();
        assert_eq!(sources.files[0].location, "inner/weights.bin");
        assert_eq!(sources.parts[0].data, DataRow { offset: offset as u64, len: BYTES[0] });
        drop((plain, mapped));
        // The folder as a whole is found at its new place.
        let moved = tempfile::tempdir().unwrap();
        let to = moved.path().join("moved");
        std::fs::rename(place.folder.path(), &to).unwrap();
        Session::load(&to.join("model.kpk"), &strict()).unwrap_or_else(|error| panic!("{error}"));
        std::fs::rename(&to, place.folder.path()).unwrap();
    }
}

#[test]
fn a_file_that_has_gone_or_was_changed_is_named() {
    let place = Place::of_bytes(&beside("weights.bin", 64), |folder| {
        std::fs::write(folder.join("weights.bin"), table_bytes(64)).unwrap();
    });
    let weights = place.file("weights.bin");
    let whole = table_bytes(64);
    let mut other = whole.clone();
    *other.last_mut().unwrap() ^= 1;
    let cases: [(&str, &dyn Fn(), &str); 5] = [
        ("gone", &|| std::fs::remove_file(&weights).unwrap(), "No such file"),
        ("shorter", &|| std::fs::write(&weights, &whole[..whole.len() - 1]).unwrap(), "when it was packed"),
        ("empty", &|| std::fs::write(&weights, []).unwrap(), "it has 0 bytes"),
        ("longer", &|| std::fs::write(&weights, [&whole[..], &[0]].concat()).unwrap(), "when it was packed"),
        ("other bytes", &|| std::fs::write(&weights, &other).unwrap(), "are others than when it was packed"),
    ];
    for (case, change, reason) in cases {
        // `once`: the file was checked before it was changed.
        let records = tempfile::tempdir().unwrap();
        let cache_dir = Some(records.path().to_owned());
        let once = SessionOptions { threads: 1, cache_dir, ..SessionOptions::default() };
        std::fs::write(&weights, &whole).unwrap();
        drop(place.load(&once).unwrap_or_else(|error| panic!("{case}: {error}")));
        std::thread::sleep(Duration::from_millis(20));
        change();
        for (how, options) in [("each", &strict()), ("once", &once), ("once a process", &options())] {
            let error = place.refusal(options, case);
            assert!(error.contains("weights.bin") && error.contains(reason), "{case}, {how}: {error}");
        }
    }
    // Unchecked wrong bytes are wrong numbers.
    let careless = SessionOptions { pack_verify: Verify::Never, ..options() };
    place.load(&careless).unwrap_or_else(|error| panic!("{error}"));
    std::fs::write(&weights, &whole).unwrap();
    place.load(&strict()).unwrap_or_else(|error| panic!("whole again: {error}"));
}

#[test]
fn sessions_share_the_file_until_one_that_it_refers_to_is_another_one() {
    let place = Place::of(&tables().graph);
    let open = || PackedFile::open(&place.packed).unwrap();
    let first = open();
    assert!(Arc::ptr_eq(&first, &open()) && first.is_weightless());
    std::thread::sleep(Duration::from_millis(20));
    let bytes = std::fs::read(&place.model).unwrap();
    std::fs::write(&place.model, bytes).unwrap();
    let second = open();
    assert!(!Arc::ptr_eq(&first, &second) && first.ids() != second.ids());
    assert!(Arc::ptr_eq(&second, &open()));
}

#[test]
fn what_is_not_below_the_folder_and_what_is_in_no_file_is_refused_by_name() {
    let model = tables();
    let place = Place::of(&model.graph);
    let elsewhere = tempfile::tempdir().unwrap();
    let refusal = |report: Result<PackReport, SessionError>| match report {
        Err(SessionError::Packed(error @ PackedError::Unsupported(_))) => error.to_string(),
        other => panic!("it is refused: {other:?}"),
    };
    let error = refusal(Session::pack(&place.model, &elsewhere.path().join("model.kpk"), &weightless()));
    assert!(error.contains("model.onnx") && error.contains("which is not below"), "{error}");
    let error = refusal(Session::pack_graph(model.graph, &place.file("other.kpk"), &weightless()));
    assert!(error.contains("not loaded from a file"), "{error}");
    assert!(!place.file("other.kpk").exists());
}

/// A packed model with another index, and with digests that match it.
pub(crate) fn forged(bytes: &[u8], change: &dyn Fn(&mut Index)) -> Vec<u8> {
    let (mut changed, _) = index(bytes);
    change(&mut changed);
    signed(bytes, &encode_long(&changed).unwrap())
}

#[test]
fn references_that_leave_the_folder_or_lie_about_files_are_refused() {
    let place = Place::of(&tables().graph);
    let outside = tempfile::tempdir().unwrap();
    let model = std::fs::read(&place.model).unwrap();
    let away = outside.path().join("away.onnx");
    std::fs::write(&away, &model).unwrap();
    std::os::unix::fs::symlink(&away, place.file("link.onnx")).unwrap();
    std::os::unix::fs::symlink("model.onnx", place.file("inner.onnx")).unwrap();
    std::os::unix::fs::symlink("loop.onnx", place.file("loop.onnx")).unwrap();
    std::fs::write(place.file("hard.onnx"), &model).unwrap();
    std::fs::hard_link(place.file("hard.onnx"), outside.path().join("hard.onnx")).unwrap();
    std::fs::write(place.file("open.onnx"), &model).unwrap();
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(place.file("open.onnx"), everyone).unwrap();
    let bytes = std::fs::read(&place.packed).unwrap();
    let away = away.to_str().unwrap();
    for (location, reason) in [
        (away, "not a path below"),
        ("../model.onnx", "not a path below"),
        ("inner/../model.onnx", "not a path below"),
        ("", "not a path below"),
        ("model.onnx\0", "not a path below"),
        (".", "not a path below"),
        ("link.onnx", "leads out"),
        ("loop.onnx", "symbolic links"),
        ("hard.onnx", "hard-linked"),
        ("open.onnx", "may be allowed to write"),
        ("none.onnx", "No such file"),
    ] {
        let file = forged(&bytes, &|index| index.sources.files[0].location = location.to_owned());
        std::fs::write(&place.packed, file).unwrap();
        let error = place.refusal(&strict(), location);
        assert!(error.contains(reason), "{location:?}: {error}");
    }
    // A link to a file below the folder counts as external data too.
    std::fs::write(&place.packed, forged(&bytes, &|index| index.sources.files[0].location = "inner.onnx".to_owned()))
        .unwrap();
    place.load(&strict()).unwrap_or_else(|error| panic!("{error}"));
    // Two names for one file.
    let twice = |index: &mut Index| {
        let row = FileRow { location: "inner.onnx".to_owned(), ..index.sources.files[0].clone() };
        index.sources.files.push(row);
    };
    std::fs::write(&place.packed, forged(&bytes, &twice)).unwrap();
    assert!(place.refusal(&strict(), "two names").contains("names it twice"));
}

#[test]
fn parts_that_lie_about_bytes_are_refused() {
    let place = Place::of(&tables().graph);
    let bytes = std::fs::read(&place.packed).unwrap();
    let part = |index: &Index, at: usize| index.sources.parts[at].data;
    let elements = |index: &mut Index, elements: ElementsRow| {
        let rows = index.graphs[0].constants.iter_mut().map(|(_, row)| row);
        rows.filter(|row| matches!(row.elements, ElementsRow::Part(_))).for_each(|row| row.elements = elements.clone());
    };
    let cases: [(&str, &dyn Fn(&mut Index)); 14] = [
        ("a part that is not there", &|index| elements(index, ElementsRow::Part(2))),
        ("a part of another length", &|index| elements(index, ElementsRow::Part(u32::MAX))),
        ("more elements than bytes", &|index| {
            index.graphs[0].constants.iter_mut().for_each(|(_, row)| row.shape = vec![1 << 40, 1 << 30]);
        }),
        ("no parts", &|index| index.sources.parts.clear()),
        ("no files", &|index| index.sources.files.clear()),
        ("another file", &|index| index.sources.parts[1].file = 1),
        ("a part of no bytes", &|index| index.sources.parts[0].data.len = 0),
        ("a part beyond the file", &|index| index.sources.parts[0].data.offset = index.sources.files[0].len),
        ("a part without an end", &|index| index.sources.parts[0].data.offset = u64::MAX),
        ("a part of all there is", &|index| index.sources.parts[0].data.len = u64::MAX),
        ("parts that share a byte", &|index| {
            let before = part(index, 0);
            index.sources.parts[1].data.offset = before.offset + before.len - 1;
        }),
        ("one part twice", &|index| {
            let part: PartRow = index.sources.parts[0].clone();
            index.sources.parts.push(part);
        }),
        ("one file twice", &|index| {
            let file = index.sources.files[0].clone();
            index.sources.files.push(file);
        }),
        ("more files than there may be", &|index| {
            let of = |at: u64| FileRow { location: format!("{at}.onnx"), len: u64::MAX - at };
            index.sources.files.extend((0..1024).map(of));
        }),
    ];
    for (case, change) in cases {
        std::fs::write(&place.packed, forged(&bytes, change)).unwrap();
        for options in [strict(), SessionOptions { pack_verify: Verify::Never, ..options() }] {
            let error = place.load(&options).err().unwrap_or_else(|| panic!("{case} is refused"));
            assert!(matches!(error, SessionError::Packed(PackedError::Damaged { .. })), "{case}: {error}");
        }
    }
    // Another length of the file, and other bytes in a part.
    for change in [
        &(|index: &mut Index| index.sources.files[0].len += 1) as &dyn Fn(&mut Index),
        &|index| index.sources.parts[1].digest[7] ^= 1,
        &|index| index.sources.parts[0].data.offset -= 4,
    ] {
        std::fs::write(&place.packed, forged(&bytes, change)).unwrap();
        assert!(place.refusal(&strict(), "a lie").contains("model.onnx"));
    }
}

#[test]
fn each_damaged_byte_of_the_index_is_found_and_forged_ones_are_no_fault() {
    for place in [Place::of(&tables().graph), product(PANEL, 4096)] {
        damaged_bytes_are_found(&place);
    }
}

/// Damages each byte of the index, and cuts it off.
fn damaged_bytes_are_found(place: &Place) {
    let bytes = std::fs::read(&place.packed).unwrap();
    let (_, start) = index(&bytes);
    let careless = SessionOptions { pack_verify: Verify::Never, ..options() };
    for at in start..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&place.packed, &damaged).unwrap();
        let error = place.load(&strict()).err().unwrap_or_else(|| panic!("byte {at} is found"));
        assert!(matches!(error, SessionError::Packed(PackedError::Damaged { .. })), "byte {at}: {error}");
        // With digests that match it.
        std::fs::write(&place.packed, signed(&bytes, &damaged[start..])).unwrap();
        if let Err(error) = place.load(&careless) {
            assert!(!error.is_fault(), "byte {at}: {error}");
        }
    }
    for end in (start..bytes.len()).step_by(7) {
        std::fs::write(&place.packed, signed(&bytes, &bytes[start..end])).unwrap();
        let error = place.load(&strict()).err().unwrap_or_else(|| panic!("an index that ends at {end} is found"));
        assert!(matches!(error, SessionError::Packed(PackedError::Damaged { .. })), "{end}: {error}");
    }
}

#[test]
fn it_is_not_copied_to_where_its_files_are_not() {
    let model = tables();
    let place = Place::of(&model.graph);
    let elsewhere = tempfile::tempdir().unwrap();
    let away = elsewhere.path().join("saved.kpk");
    // Loaded by its path, it stands alone.
    let error = place.load(&options()).unwrap().save_cache(&away, CacheKind::Fusion).unwrap_err();
    assert!(error.to_string().contains("some of its weights are in other files"), "{error}");
    assert!(!away.exists());
    // Given for a model, it serves later sessions of this process, and its folder beside the records stays empty.
    let cache_dir = Some(elsewhere.path().join("records"));
    let own = SessionOptions { threads: 1, cache_dir, ..SessionOptions::default() };
    let plain = Session::load(&place.model, &own).unwrap();
    assert_eq!(plain.load_cache(&place.packed, CacheKind::Fusion).unwrap().taken, 1);
    let later = Session::load(&place.model, &own).unwrap();
    assert!(later.is_packed());
    expect_same(&plain, &later, &model.requests, "given");
    let entries = std::fs::read_dir(elsewhere.path().join("records/packed")).into_iter().flatten().flatten();
    let names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    assert!(!names.iter().any(|path| path.extension().is_some_and(|end| end == "kpk")), "{names:?}");
    // What the session saves is packed anew, and whole.
    later.save_cache(&away, CacheKind::Fusion).unwrap();
    assert!(!PackedFile::open(&away).unwrap().is_weightless());
}

#[test]
fn what_is_packed_by_itself_has_all_weights() {
    let model = tables();
    let place = Place::of(&model.graph);
    let cache_dir = Some(place.file("records"));
    let own = SessionOptions {
        threads: 1,
        cache_dir,
        cache_mode: CacheMode::ReadWrite,
        pack: Pack::Auto,
        pack_weightless: true,
        ..SessionOptions::default()
    };
    let first = Session::load(&place.model, &own).unwrap();
    assert!(first.settle(Duration::from_secs(60)));
    let second = Session::load(&place.model, &own).unwrap();
    assert!(second.is_packed());
    expect_same(&first, &second, &model.requests, "by itself");
    let entries = std::fs::read_dir(place.file("records/packed")).unwrap().flatten().map(|entry| entry.path());
    let packed: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "kpk")).collect();
    assert!(packed.len() == 1 && !PackedFile::open(&packed[0]).unwrap().is_weightless());
}
