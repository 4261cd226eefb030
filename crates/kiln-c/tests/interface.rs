//! Every function of `kiln.h`, with valid and with invalid arguments.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{null, null_mut};

use kiln::{DType, Dim, Graph, GraphBuilder, Tensor};
use kiln_c::*;

/// The code and the text of a status, which is released.
fn told(status: *mut KilnStatus) -> (KilnCode, String) {
    // SAFETY: the status is one that a function has just returned.
    let (code, text) = unsafe { (kiln_status_code(status), CStr::from_ptr(kiln_status_message(status))) };
    let told = (code, text.to_str().unwrap().to_owned());
    // SAFETY: as above.
    unsafe { kiln_status_release(status) };
    told
}

fn expect(status: *mut KilnStatus) {
    assert_eq!(told(status), (KilnCode::Ok, String::new()));
}

fn refused(status: *mut KilnStatus, code: KilnCode, text: &str) {
    let (found, message) = told(status);
    assert!(found == code && message.contains(text), "expected {code:?} with '{text}', found {found:?}: {message}");
}

fn invalid(status: *mut KilnStatus, text: &str) {
    refused(status, KilnCode::InvalidArgument, text);
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn c_path(path: &Path) -> CString {
    c(path.to_str().unwrap())
}

/// Options with settings; released at the end of a test's scope.
struct Options(*mut KilnOptions);

impl Options {
    fn new(settings: &[(&str, &str)]) -> Options {
        let mut options = null_mut();
        // SAFETY: there is room for one handle.
        expect(unsafe { kiln_options_new(&raw mut options) });
        let options = Options(options);
        // Tests do not use the user's records.
        if !settings.iter().any(|(key, _)| *key == "cache_dir") {
            expect(options.set("optimize", "0"));
        }
        settings.iter().for_each(|(key, value)| expect(options.set(key, value)));
        options
    }

    fn set(&self, key: &str, value: &str) -> *mut KilnStatus {
        // SAFETY: both texts live during the call.
        unsafe { kiln_options_set(self.0, c(key).as_ptr(), c(value).as_ptr()) }
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: releasing is allowed for any handle.
        unsafe { kiln_options_release(self.0) };
    }
}

struct Session(*mut KilnSession);

impl Session {
    fn try_of(graph: &Graph, options: &Options) -> Result<Session, *mut KilnStatus> {
        let bytes = kiln_model::onnx::write(graph).unwrap();
        let mut session = null_mut();
        // SAFETY: the bytes live during the call, and there is room for one handle.
        let status =
            unsafe { kiln_session_load_bytes(bytes.as_ptr().cast(), bytes.len(), options.0, &raw mut session) };
        if status.is_null() { Ok(Session(session)) } else { Err(status) }
    }

    fn of(graph: &Graph, settings: &[(&str, &str)]) -> Session {
        Session::try_of(graph, &Options::new(settings)).map_err(told).unwrap_or_else(|told| panic!("{told:?}"))
    }

    fn run(&self, options: *const KilnRunOptions, inputs: &[KilnInput], outputs: &mut [KilnOutput]) -> *mut KilnStatus {
        // SAFETY: both lists, and what they point to, live during the call.
        unsafe { kiln_session_run(self.0, options, inputs.as_ptr(), inputs.len(), outputs.as_mut_ptr(), outputs.len()) }
    }

    fn statistics(&self) -> KilnStatistics {
        let mut counts = KilnStatistics::default();
        // SAFETY: there is room for a struct of that size.
        expect(unsafe { kiln_session_statistics(self.0, &raw mut counts, size_of::<KilnStatistics>()) });
        counts
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: releasing is allowed for any handle.
        unsafe { kiln_session_release(self.0) };
    }
}

/// An input of `f32`.
fn floats(name: &CStr, dims: &[i64], data: &[f32]) -> KilnInput {
    KilnInput {
        name: name.as_ptr(),
        dtype: KILN_FLOAT32,
        rank: dims.len(),
        dims: dims.as_ptr(),
        data: data.as_ptr().cast(),
        bytes: size_of_val(data),
    }
}

/// Room for an output.
fn room<T>(name: &CStr, data: &mut [T], dims: &mut [i64]) -> KilnOutput {
    KilnOutput {
        name: name.as_ptr(),
        data: data.as_mut_ptr().cast(),
        room: size_of_val(data),
        dims: dims.as_mut_ptr(),
        dims_room: dims.len(),
        is_fixed: 0,
        dtype: 0,
        rank: 0,
        bytes: 0,
    }
}

/// `y = x + x` over `[rows, 2]`.
fn twice() -> Graph {
    let mut build = GraphBuilder::new("twice", 17);
    let dims = || [Dim::from("rows"), Dim::from(2)];
    let x = build.input("x", DType::F32, dims());
    let y = build.op("Add", &[x, x], &[]);
    build.output_of("y", y, DType::F32, dims());
    build.finish()
}

/// `y = x @ weights` over `[rows, 8]`: a model whose executors are recorded.
fn product() -> Graph {
    let mut build = GraphBuilder::new("product", 17);
    let x = build.input("x", DType::F32, [Dim::from("rows"), 8.into()]);
    let weights = build.constant(Tensor::from_vec([8, 16], (0..128).map(|i| i as f32).collect()).unwrap());
    let y = build.op("MatMul", &[x, weights], &[]);
    build.output_of("y", y, DType::F32, [Dim::from("rows"), 16.into()]);
    build.finish()
}

/// `y` is `x`, of any type.
fn identity(dtype: DType) -> Graph {
    let mut build = GraphBuilder::new("identity", 25);
    let x = build.input("x", dtype, [Dim::Any]);
    let y = build.op("Identity", &[x], &[]);
    build.output_of("y", y, dtype, [Dim::Any]);
    build.finish()
}

/// Runs [`product`] with `rows` rows.
fn multiply(session: &Session, rows: usize) -> *mut KilnStatus {
    let (x, mut y, mut dims) = (vec![1.0f32; rows * 8], vec![0.0f32; rows * 16], [0i64; 2]);
    let status = session.run(null(), &[floats(c"x", &[rows as i64, 8], &x)], &mut [room(c"y", &mut y, &mut dims)]);
    if status.is_null() {
        assert_eq!(y[..2], [(0..8).map(|i| (i * 16) as f32).sum::<f32>(), (0..8).map(|i| (i * 16 + 1) as f32).sum()]);
    }
    status
}

#[test]
fn the_version_is_that_of_the_package() {
    // SAFETY: the text lives as long as the process.
    assert_eq!(unsafe { CStr::from_ptr(kiln_version()) }.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_setting_is_a_variable_or_a_field_and_a_wrong_one_is_named_with_what_is_allowed() {
    let options =
        Options::new(&[("threads", "1"), ("KILN_TUNE", "fast"), ("cache_bytes", "1MiB"), ("time_limit", "2.5")]);
    invalid(options.set("tunes", "fast"), "there is no setting 'tunes'; the nearest are tune");
    invalid(options.set("guard", "1"), "there is no setting 'guard'");
    invalid(options.set("tune", "often"), "tune=often: expected off, fast or full");
    invalid(options.set("threads", "0"), "threads=0: expected a number from 1 to 1024");
    invalid(options.set("error_on_cache_miss", "yes"), "error_on_cache_miss=yes: expected 0 or 1");
    for wrong in ["0", "-1", "nan", "inf", "1e300", "soon"] {
        invalid(options.set("load_time_limit", wrong), "expected a number of seconds above 0");
    }
    invalid(options.set("memory_bytes", "99999999999999999999GiB"), "expected a number of bytes");
    // An empty value takes a setting back.
    expect(options.set("tune", ""));
    expect(options.set("time_limit", ""));
    assert!(Session::try_of(&twice(), &options).is_ok());
}

#[test]
fn a_model_says_what_it_takes_and_gives() {
    let session = Session::of(&twice(), &[]);
    let (mut inputs, mut outputs) = (0usize, 0usize);
    // SAFETY: there is room for each number.
    unsafe {
        expect(kiln_session_input_count(session.0, &raw mut inputs));
        expect(kiln_session_output_count(session.0, &raw mut outputs));
    }
    assert_eq!((inputs, outputs), (1, 1));
    let mut port = std::mem::MaybeUninit::<KilnPort>::uninit();
    // SAFETY: there is room for the struct, which is written when the call succeeds; its texts live with the session.
    let port = unsafe {
        expect(kiln_session_input(session.0, 0, port.as_mut_ptr()));
        port.assume_init()
    };
    // SAFETY: as above.
    let (name, shape, dims) = unsafe {
        (CStr::from_ptr(port.name), CStr::from_ptr(port.shape), std::slice::from_raw_parts(port.dims, port.rank))
    };
    assert_eq!((name, shape, dims), (c"x", c"[rows, 2]", &[-1, 2][..]));
    assert_eq!(
        (port.dtype, port.kind, port.has_shape, port.has_default),
        (KILN_FLOAT32, KilnKind::Tensor, true, false)
    );
    let mut port = port;
    // SAFETY: there is room for the struct.
    unsafe {
        invalid(kiln_session_input(session.0, 1, &raw mut port), "index 1: the model has 1 inputs");
        invalid(kiln_session_output(session.0, usize::MAX, &raw mut port), "the model has 1 outputs");
    }
}

#[test]
fn a_run_writes_outputs_of_any_shape_where_there_is_room() {
    let session = Session::of(&twice(), &[]);
    let mut y = [0.0f32; 6];
    for rows in [1, 3, 1] {
        let (x, mut dims) = (vec![1.5f32; rows * 2], [0i64; 2]);
        let mut outputs = [room(c"y", &mut y, &mut dims)];
        expect(session.run(null(), &[floats(c"x", &[rows as i64, 2], &x)], &mut outputs));
        let [output] = outputs;
        assert_eq!((output.dtype, output.rank, output.bytes), (KILN_FLOAT32, 2, rows * 8));
        assert_eq!(dims, [rows as i64, 2]);
        assert!(y[..rows * 2].iter().all(|value| *value == 3.0));
    }
}

#[test]
fn an_output_that_does_not_fit_says_what_it_needs() {
    let session = Session::of(&twice(), &[]);
    let (x, mut y, mut dims) = ([1.0f32; 6], [7.0f32; 2], [0i64; 2]);
    let mut outputs = [room(c"y", &mut y, &mut dims)];
    let input = [floats(c"x", &[3, 2], &x)];
    refused(session.run(null(), &input, &mut outputs), KilnCode::NoRoom, "output 'y' has 24 bytes and 2 axes");
    let [output] = outputs;
    assert_eq!((output.rank, output.bytes, dims, y), (2, 24, [3, 2], [7.0; 2]));
    // Room for sizes counts too.
    let (mut y, mut one) = ([0.0f32; 6], [0i64; 1]);
    let mut outputs = [room(c"y", &mut y, &mut one)];
    refused(session.run(null(), &input, &mut outputs), KilnCode::NoRoom, "room for 24 and 1");
}

#[test]
fn a_fixed_output_is_computed_where_it_is_and_is_of_no_other_shape() {
    let session = Session::of(&twice(), &[]);
    let x = [1.0f32, 2.0, 3.0, 4.0];
    let (mut y, mut dims) = ([0.0f32; 4], [2i64, 2]);
    let fixed = |y: &mut [f32], dims: &mut [i64]| KilnOutput {
        is_fixed: 1,
        dtype: KILN_FLOAT32,
        rank: dims.len(),
        ..room(c"y", y, dims)
    };
    let mut outputs = [fixed(&mut y, &mut dims)];
    expect(session.run(null(), &[floats(c"x", &[2, 2], &x)], &mut outputs));
    assert_eq!((y, outputs[0].bytes), ([2.0, 4.0, 6.0, 8.0], 16));
    invalid(session.run(null(), &[floats(c"x", &[1, 2], &x[..2])], &mut [fixed(&mut y, &mut dims)]), "output 'y'");
    // An output without elements is checked against the run's result, too.
    let (mut none, mut empty) = ([0.0f32; 0], [0i64, 2]);
    let x_of_none = floats(c"x", &[0, 2], &[]);
    expect(session.run(null(), &[x_of_none], &mut [fixed(&mut none, &mut empty)]));
    let status = session.run(null(), &[floats(c"x", &[1, 2], &x[..2])], &mut [fixed(&mut none, &mut empty)]);
    invalid(status, "output 'y' is float32 [1, 2], and not float32 [0, 2]");
    let mut large = [9i64, 2];
    let status = session.run(null(), &[floats(c"x", &[2, 2], &x)], &mut [fixed(&mut y, &mut large)]);
    refused(status, KilnCode::NoRoom, "output 'y': room is 16, and float32 [9, 2] has 72 bytes");
}

#[test]
fn what_is_wrong_with_a_run_is_named() {
    let session = Session::of(&twice(), &[]);
    let x = [1.0f32; 4];
    let (mut y, mut dims) = ([0.0f32; 4], [0i64; 2]);
    let two_by_two = [2i64, 2];
    let good = floats(c"x", &two_by_two, &x);
    let negative = [-2i64, 2];
    let huge = [i64::MAX, i64::MAX];
    let wrong = [
        (KilnInput { name: c"z".as_ptr(), ..good }, "the model has no input 'z'; it has x"),
        (KilnInput { name: c"\xff".as_ptr(), ..good }, "name of an input is not UTF-8"),
        (KilnInput { name: null(), ..good }, "name of an input is null"),
        (KilnInput { dtype: 99, ..good }, "input 'x': there is no element type 99"),
        (KilnInput { dtype: KILN_INT32, ..good }, "input 'x'"),
        (KilnInput { bytes: 15, ..good }, "input 'x': bytes is 15, and float32 [2, 2] has 16"),
        (KilnInput { dims: null(), ..good }, "input 'x': dims is null"),
        (KilnInput { data: null(), ..good }, "input 'x': data is null"),
        (KilnInput { rank: usize::MAX, ..good }, "elements, and 256 are the most"),
        (KilnInput { dims: negative.as_ptr(), ..good }, "input 'x': size -2 of axis 0 is negative"),
        (KilnInput { dims: huge.as_ptr(), ..good }, "input 'x'"),
    ];
    for (input, text) in wrong {
        invalid(session.run(null(), &[input], &mut [room(c"y", &mut y, &mut dims)]), text);
    }
    invalid(session.run(null(), &[], &mut [room(c"y", &mut y, &mut dims)]), "input 'x': not given");
    invalid(session.run(null(), &[good, good], &mut []), "inputs: 2 elements, and 1 are the most");
    invalid(session.run(null(), &[good], &mut [room(c"q", &mut y, &mut dims)]), "no output 'q'; it has y");
    let nowhere = KilnOutput { data: null_mut(), ..room(c"y", &mut y, &mut dims) };
    invalid(session.run(null(), &[good], &mut [nowhere]), "output 'y': data is null");
    // The memory of an output may not overlap other memory.
    let over = KilnOutput { data: x.as_ptr().cast_mut().cast(), ..room(c"y", &mut y, &mut dims) };
    invalid(session.run(null(), &[good], &mut [over]), "the memory of output 'y' overlaps that of input 'x'");
    // SAFETY: null with elements is refused before it is read.
    unsafe {
        invalid(kiln_session_run(session.0, null(), null(), 1, null_mut(), 0), "inputs is null");
        invalid(kiln_session_run(session.0, null(), &raw const good, 1, null_mut(), 1), "outputs is null");
    }
    // The session serves the next run.
    expect(session.run(null(), &[good], &mut [room(c"y", &mut y, &mut dims)]));
    assert_eq!(y, [2.0; 4]);
}

#[test]
fn numbers_of_whole_bytes_are_taken_wherever_they_lie_and_texts_are_not() {
    let session = Session::of(&identity(DType::Bool), &[]);
    let (x, mut y, mut dims) = ([0u8, 1, 7], [9u8; 3], [0i64; 1]);
    let input = KilnInput {
        name: c"x".as_ptr(),
        dtype: KILN_BOOL,
        rank: 1,
        dims: &raw const DIM_3,
        data: x.as_ptr().cast(),
        bytes: 3,
    };
    expect(session.run(null(), &[input], &mut [room(c"y", &mut y, &mut dims)]));
    assert_eq!(y, [0, 1, 1]);
    // Elements that begin at no multiple of their size.
    let session = Session::of(&identity(DType::I64), &[]);
    let mut bytes = [0u8; 32];
    let offset = 1 + bytes.as_ptr().align_offset(8);
    bytes[offset..offset + 8].copy_from_slice(&(-5i64).to_le_bytes());
    let input = KilnInput {
        name: c"x".as_ptr(),
        dtype: KILN_INT64,
        rank: 1,
        dims: &raw const DIM_1,
        data: bytes[offset..].as_ptr().cast(),
        bytes: 8,
    };
    let (mut y, mut dims) = ([0i64; 1], [0i64; 1]);
    expect(session.run(null(), &[input], &mut [room(c"y", &mut y, &mut dims)]));
    assert_eq!(y, [-5]);
    for dtype in [DType::String, DType::I4] {
        let session = Session::of(&identity(dtype), &[]);
        let status = session.run(null(), &[], &mut [room(c"y", &mut y, &mut dims)]);
        refused(status, KilnCode::Unsupported, "output 'y' is of ");
    }
}

static DIM_3: i64 = 3;
static DIM_1: i64 = 1;

#[test]
fn a_run_ends_when_it_is_cancelled_and_when_its_time_is_over() {
    let session = Session::of(&product(), &[]);
    let mut options = null_mut();
    // SAFETY: there is room for one handle.
    expect(unsafe { kiln_run_options_new(&raw mut options) });
    let run = || {
        let (x, mut y, mut dims) = ([1.0f32; 8], [0.0f32; 16], [0i64; 2]);
        session.run(options, &[floats(c"x", &[1, 8], &x)], &mut [room(c"y", &mut y, &mut dims)])
    };
    expect(run());
    // SAFETY: functions of options take any handle.
    unsafe {
        expect(kiln_run_options_cancel(options));
        refused(run(), KilnCode::Cancelled, "cancelled");
        refused(run(), KilnCode::Cancelled, "cancelled");
        expect(kiln_run_options_reset(options));
        expect(run());
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            invalid(kiln_run_options_set_time_limit(options, wrong), "expected a number of seconds above 0");
        }
        expect(kiln_run_options_set_time_limit(options, 1e-9));
        refused(run(), KilnCode::TimeLimit, "time limit");
        kiln_run_options_release(options);
        refused(run(), KilnCode::NotLive, "options is no live KilnRunOptions");
    }
}

#[test]
fn records_are_saved_and_loaded_from_a_folder_and_a_miss_is_an_error_where_one_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let first = Session::of(&product(), &[("cache_dir", place)]);
    expect(multiply(&first, 5));
    let (mut records, mut is_warm) = (0, false);
    // SAFETY: there is room for each value.
    unsafe {
        expect(kiln_session_warm(first.0, 30.0, &raw mut is_warm));
        expect(kiln_session_save_records(first.0, &raw mut records));
        invalid(kiln_session_warm(first.0, f64::NAN, null_mut()), "timeout is NaN");
    }
    assert!(is_warm);
    assert!(first.statistics().builds > 0 && first.statistics().builds_from_records == 0);
    drop(first);

    // Another folder has none: nothing may be built until the records are loaded.
    let empty = tempfile::tempdir().unwrap();
    let elsewhere = empty.path().to_str().unwrap();
    let strict = [("cache_dir", elsewhere), ("error_on_cache_miss", "1")];
    let second = Session::of(&product(), &strict);
    refused(multiply(&second, 5), KilnCode::CacheMiss, "no record says how to build this");
    std::fs::write(folder.path().join("other.kiln"), b"no records at all").unwrap();
    let (mut taken, mut passed) = (0, 0);
    let load = |path: &Path, taken: &mut u64, passed: &mut u64| {
        // SAFETY: the path lives during the call, and there is room for each number.
        unsafe { kiln_session_load_records(second.0, c_path(path).as_ptr(), taken, passed) }
    };
    expect(load(folder.path(), &mut taken, &mut passed));
    assert!(taken > 0 && passed == 1, "{taken} taken, {passed} passed over");
    expect(multiply(&second, 5));
    assert!(second.statistics().builds_from_records > 0);
    refused(load(&folder.path().join("other.kiln"), &mut taken, &mut passed), KilnCode::File, "other.kiln");
    refused(load(&folder.path().join("missing"), &mut taken, &mut passed), KilnCode::File, "there is no such file");
}

#[test]
fn a_packed_model_is_written_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let (model, packed) = (folder.path().join("model.onnx"), folder.path().join("model.kpack"));
    std::fs::write(&model, kiln_model::onnx::write(&product()).unwrap()).unwrap();
    let options = Options::new(&[("cache_dir", folder.path().to_str().unwrap())]);
    let (mut bytes, mut session) = (0u64, null_mut());
    // SAFETY: the paths live during the calls, and there is room for each result.
    unsafe {
        expect(kiln_pack(c_path(&model).as_ptr(), c_path(&packed).as_ptr(), options.0, &raw mut bytes));
        expect(kiln_session_load(c_path(&packed).as_ptr(), options.0, &raw mut session));
        refused(
            kiln_pack(c_path(&folder.path().join("none")).as_ptr(), c_path(&packed).as_ptr(), options.0, null_mut()),
            KilnCode::File,
            "none",
        );
    }
    assert_eq!(bytes, std::fs::metadata(&packed).unwrap().len());
    expect(multiply(&Session(session), 3));
}

#[test]
fn limits_of_memory_are_errors_of_their_own() {
    let session = Session::of(&product(), &[("memory_bytes", "64KiB")]);
    refused(multiply(&session, 20_000), KilnCode::NoMemory, "shape [20000, 16] takes 1280000 bytes");
    expect(multiply(&session, 3));
}

#[test]
fn statistics_count_what_runs_have_looked_up_and_fit_programs_of_earlier_versions() {
    let session = Session::of(&product(), &[]);
    for rows in [2, 3, 2, 2] {
        expect(multiply(&session, rows));
    }
    let counts = session.statistics();
    assert!(counts.builds > 0 && counts.lookups >= counts.hits + counts.builds, "{counts:?}");
    assert_eq!((counts.plan_lookups, counts.plan_hits, counts.plans), (4, 2, 2), "{counts:?}");
    let mut beginning = KilnStatistics { misses: 77, ..KilnStatistics::default() };
    // SAFETY: there is room for more than two numbers.
    expect(unsafe { kiln_session_statistics(session.0, &raw mut beginning, 16) });
    assert_eq!((beginning.lookups, beginning.misses), (counts.lookups, 77));
    let mut memory = KilnMemory::default();
    // SAFETY: there is room for a struct of that size.
    unsafe {
        expect(kiln_process_memory(&raw mut memory, size_of::<KilnMemory>()));
        expect(kiln_session_trim(session.0));
        invalid(kiln_process_memory(null_mut(), size_of::<KilnMemory>()), "memory is null");
    }
    let KilnMemory { executors, plans, weights, tensors, records, total, most, .. } = memory;
    assert_eq!(executors + plans + weights + tensors + records, total);
    assert!(total > 0 && most >= total, "{memory:?}");
}

#[test]
fn what_is_no_model_is_refused() {
    let mut session = null_mut();
    let bytes = b"what is no model";
    // SAFETY: the bytes and texts live during the calls, and there is room for one handle.
    unsafe {
        let status = kiln_session_load_bytes(bytes.as_ptr().cast(), bytes.len(), null(), &raw mut session);
        refused(status, KilnCode::InvalidModel, "");
        assert!(session.is_null());
        invalid(kiln_session_load_bytes(null(), 5, null(), &raw mut session), "bytes is null");
        let status = kiln_session_load_bytes(bytes.as_ptr().cast(), usize::MAX, null(), &raw mut session);
        invalid(status, "are more than any memory has");
        refused(
            kiln_session_load(c"/no/such/model".as_ptr(), null(), &raw mut session),
            KilnCode::File,
            "/no/such/model",
        );
        invalid(kiln_session_load(c"".as_ptr(), null(), &raw mut session), "path is empty");
    }
}

/// Calls every function that takes a handle with `session`, `options` and `limits`, and valid other arguments.
fn with_handles(
    session: *mut KilnSession,
    options: *mut KilnOptions,
    limits: *mut KilnRunOptions,
) -> Vec<(&'static str, KilnCode)> {
    let (mut count, mut number, mut made) = (0usize, 0u64, null_mut());
    let mut counts = KilnStatistics::default();
    let mut port = std::mem::MaybeUninit::<KilnPort>::uninit();
    let text: *const c_char = c"tune".as_ptr();
    // SAFETY: all pointers but the handles point to live values here.
    let statuses = unsafe {
        [
            ("kiln_options_set", kiln_options_set(options, text, c"off".as_ptr())),
            ("kiln_run_options_cancel", kiln_run_options_cancel(limits)),
            ("kiln_run_options_reset", kiln_run_options_reset(limits)),
            ("kiln_run_options_set_time_limit", kiln_run_options_set_time_limit(limits, 1.0)),
            ("kiln_session_input", kiln_session_input(session, 0, port.as_mut_ptr())),
            ("kiln_session_output", kiln_session_output(session, 0, port.as_mut_ptr())),
            ("kiln_session_input_count", kiln_session_input_count(session, &raw mut count)),
            ("kiln_session_output_count", kiln_session_output_count(session, &raw mut count)),
            ("kiln_session_load_records", kiln_session_load_records(session, text, &raw mut number, &raw mut number)),
            ("kiln_session_run", kiln_session_run(session, null(), null(), 0, null_mut(), 0)),
            ("kiln_session_save_records", kiln_session_save_records(session, &raw mut number)),
            ("kiln_session_statistics", kiln_session_statistics(session, &raw mut counts, size_of_val(&counts))),
            ("kiln_session_trim", kiln_session_trim(session)),
            ("kiln_session_warm", kiln_session_warm(session, 1.0, null_mut())),
            // Null options are the environment's.
            (
                "kiln_session_load",
                if options.is_null() {
                    kiln_options_new(null_mut())
                } else {
                    kiln_session_load(text, options, &raw mut made)
                },
            ),
        ]
    };
    statuses.map(|(name, status)| (name, told(status).0)).to_vec()
}

#[test]
fn null_released_and_foreign_handles_are_errors_and_never_crashes() {
    for (name, code) in with_handles(null_mut(), null_mut(), null_mut()) {
        assert_eq!(code, KilnCode::InvalidArgument, "{name} of null");
    }
    let (session, options) = (Session::of(&twice(), &[]), Options::new(&[]));
    let mut limits = null_mut();
    // SAFETY: there is room for one handle; releasing twice is allowed.
    unsafe {
        expect(kiln_run_options_new(&raw mut limits));
        for _ in 0..2 {
            kiln_session_release(session.0);
            kiln_options_release(options.0);
            kiln_run_options_release(limits);
        }
        kiln_session_release(null_mut());
        kiln_options_release(null_mut());
        kiln_run_options_release(null_mut());
        kiln_status_release(null_mut());
    }
    for (name, code) in with_handles(session.0, options.0, limits) {
        assert_eq!(code, KilnCode::NotLive, "{name} of a released handle");
    }
    let alive = Options::new(&[]);
    for (name, code) in with_handles(alive.0.cast(), 4096 as *mut KilnOptions, alive.0.cast()) {
        assert_eq!(code, KilnCode::NotLive, "{name} of another kind's handle");
    }
    // SAFETY: a status may be asked after its release.
    unsafe {
        let status = kiln_options_set(null_mut(), null(), null());
        kiln_status_release(status);
        kiln_status_release(status);
        assert_eq!(kiln_status_code(status), KilnCode::NotLive);
        assert_eq!(
            CStr::from_ptr(kiln_status_message(status)),
            c"status is no live KilnStatus: it was released, or never was one"
        );
    }
}

#[test]
fn a_session_that_is_released_while_threads_run_it_serves_them_to_the_end() {
    let session = Session::of(&product(), &[]);
    let address = session.0.addr();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let own = std::mem::ManuallyDrop::new(Session(std::ptr::without_provenance_mut(address)));
                loop {
                    let (code, text) = told(multiply(&own, 4));
                    match code {
                        KilnCode::Ok => {}
                        KilnCode::NotLive => break,
                        _ => panic!("{text}"),
                    }
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(session);
    });
}
