//! Environments, loggers, pools, options, status.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::api::{Api, call, list, text};
use crate::entries::{ENTRIES, Entry};
use crate::models;
use crate::notes::Notes;

/// The lines of the logger, and the parameter of the last one.
static LOGGED: Mutex<Vec<i32>> = Mutex::new(Vec::new());
static PARAMETER: AtomicUsize = AtomicUsize::new(0);

unsafe extern "system" fn log(
    parameter: *mut c_void,
    severity: i32,
    _category: *const c_char,
    _id: *const c_char,
    _place: *const c_char,
    message: *const c_char,
) {
    assert!(!message.is_null());
    PARAMETER.store(parameter.addr(), Ordering::Relaxed);
    LOGGED.lock().unwrap().push(severity);
}

pub(crate) fn note(api: Api, notes: &mut Notes) {
    status(api, notes);
    environment(api, notes);
    pools(api, notes);
    // onnxruntime logs through the live environment, and ends the process if there is none.
    let environment = api.environment();
    options(api, notes);
    run_options(api, notes);
    arenas(api, notes);
    call!(api, ReleaseEnv, environment);
}

fn status(api: Api, notes: &mut Notes) {
    let made = call!(api, CreateStatus, 9, c"said");
    notes.note("a status made by the program", format!("{:?}", api.taken(made)));
    let made = call!(api, CreateStatus, 1, c"");
    notes.note("a status without words", format!("{:?}", api.taken(made)));
    let is_release = |entry: &&Entry| entry.name.starts_with("Release") && entry.arguments.len() == 1;
    let releases: Vec<&Entry> = ENTRIES.iter().filter(is_release).collect();
    for entry in &releases {
        api.call(entry.place, &[0]);
    }
    notes.note("releases of nothing", releases.len());
    notes.note("version", api.version.to_str().unwrap().starts_with("1.31."));
    let build = text(call!(api, GetBuildInfoString));
    notes.note("build information", build.starts_with("ORT Build Info: "));
    // SAFETY: it takes a number.
    let is_there = |version| !unsafe { (api.get)(version) }.is_null();
    notes.note(
        "versions of the table",
        [0, 1, 17, 31, 32, u32::MAX].map(is_there).map(u8::from).map(|v| v.to_string()).concat(),
    );
}

fn environment(api: Api, notes: &mut Notes) {
    let (mut first, mut second) = (0usize, 0usize);
    let logger = log as *const c_void;
    api.ok(call!(api, CreateEnvWithCustomLogger, logger, 77usize, 2, c"one", &mut first));
    api.ok(call!(api, CreateEnv, 0, c"two", &mut second));
    notes.note("a second environment is the first", first == second);
    notes.note("telemetry", api.says(call!(api, DisableTelemetryEvents, first), ""));
    notes.note("telemetry again", api.says(call!(api, EnableTelemetryEvents, first), ""));
    notes.note("language", api.says(call!(api, SetLanguageProjection, first, 1), ""));
    LOGGED.lock().unwrap().clear();
    let (mut session, options) = (0usize, api.options());
    let status = call!(api, CreateSessionFromArray, first, c"bad", 3usize, options, &mut session);
    notes.note("a model of three bytes", api.says(status, "protobuf parsing failed"));
    api.ok(call!(api, UpdateEnvWithCustomLogLevel, first, 0));
    LOGGED.lock().unwrap().clear();
    api.ok(call!(api, AddSessionConfigEntry, options, c"no.such.key", c"1"));
    let model = models::pair();
    api.ok(call!(api, CreateSessionFromArray, first, &model[..], model.len(), options, &mut session));
    let logged = LOGGED.lock().unwrap().clone();
    notes.note("a verbose logger gets lines", !logged.is_empty());
    notes.note("with its parameter", PARAMETER.load(Ordering::Relaxed));
    notes.note("severities are in range", logged.iter().all(|severity| (0..=4).contains(severity)));
    call!(api, ReleaseEnv, first);
    let mut inputs = 0usize;
    api.ok(call!(api, SessionGetInputCount, session, &mut inputs));
    notes.note("a session between two releases", format!("{inputs} inputs"));
    call!(api, ReleaseSession, session);
    call!(api, ReleaseSessionOptions, options);
    call!(api, ReleaseEnv, second);
    let third = api.environment();
    notes.note("an environment after the last release", third != 0);
    call!(api, ReleaseEnv, third);
    call!(api, ReleaseEnv, 0usize);
}

fn pools(api: Api, notes: &mut Notes) {
    let model = models::pair();
    let (mut threading, mut environment, mut session) = (0usize, 0usize, 0usize);
    let options = api.options();
    api.ok(call!(api, DisablePerSessionThreads, options));
    let plain = api.environment();
    let status = call!(api, CreateSessionFromArray, plain, &model[..], model.len(), options, &mut session);
    notes.note("shared threads without a pool", api.says(status, "not configured to use per session threadpools"));
    call!(api, ReleaseEnv, plain);
    api.ok(call!(api, CreateThreadingOptions, &mut threading));
    notes.note("pool threads", api.says(call!(api, SetGlobalIntraOpNumThreads, threading, 2), ""));
    notes.note("pool threads between", api.says(call!(api, SetGlobalInterOpNumThreads, threading, 1), ""));
    notes.note("pool spinning", api.says(call!(api, SetGlobalSpinControl, threading, 0), ""));
    notes.note("pool spinning 2", api.says(call!(api, SetGlobalSpinControl, threading, 2), ""));
    notes.note("pool denormals", api.says(call!(api, SetGlobalDenormalAsZero, threading), ""));
    api.ok(call!(api, CreateEnvWithGlobalThreadPools, 3, c"pool", threading, &mut environment));
    call!(api, ReleaseThreadingOptions, threading);
    let status = call!(api, CreateSessionFromArray, environment, &model[..], model.len(), options, &mut session);
    notes.note("shared threads of a pool", api.says(status, ""));
    let (mut a, mut b) = ([1f32, 2.0], [3f32, 4.0]);
    let inputs = [a.as_mut_slice(), b.as_mut_slice()].map(|data| api.tensor(data, &[1, 2], 1));
    let mut outputs = [0usize];
    api.ok(api.run(session, 0, &[(c"a", inputs[0]), (c"b", inputs[1])], &[c"sum"], &mut outputs));
    notes.note("a run on a pool", format!("{:?}", api.floats(outputs[0])));
    for value in [inputs[0], inputs[1], outputs[0]] {
        call!(api, ReleaseValue, value);
    }
    call!(api, ReleaseSession, session);
    call!(api, ReleaseSessionOptions, options);
    call!(api, ReleaseEnv, environment);
}

/// The value of a configuration by two calls.
fn config(api: Api, options: usize, key: &CStr) -> String {
    let mut size = 0usize;
    let status = call!(api, GetSessionConfigEntry, options, key, 0usize, &mut size);
    if status != 0 {
        return api.says(status, "was not found");
    }
    let mut room = vec![1u8; size];
    let status = call!(api, GetSessionConfigEntry, options, key, room.as_mut_ptr(), &mut size);
    format!("{}, {size}, {:?}", api.says(status, ""), String::from_utf8_lossy(&room))
}

fn options(api: Api, notes: &mut Notes) {
    let options = api.options();
    for level in [0, 1, 2, 3, 99, -1, 4, 98] {
        let status = call!(api, SetSessionGraphOptimizationLevel, options, level);
        notes.note(&format!("optimisation level {level}"), api.says(status, "is not valid"));
    }
    for mode in [0, 1, 7] {
        notes.note(
            &format!("execution mode {mode}"),
            api.says(call!(api, SetSessionExecutionMode, options, mode), "is not valid"),
        );
    }
    notes.note("negative threads", api.says(call!(api, SetIntraOpNumThreads, options, -3), ""));
    notes.note("inter-op threads", api.says(call!(api, SetInterOpNumThreads, options, 4), ""));
    notes.note("log identity", api.says(call!(api, SetSessionLogId, options, c"here"), ""));
    notes.note("log severity", api.says(call!(api, SetSessionLogSeverityLevel, options, 3), ""));
    notes.note("log verbosity", api.says(call!(api, SetSessionLogVerbosityLevel, options, 3), ""));
    notes.note("deterministic", api.says(call!(api, SetDeterministicCompute, options, 1), ""));
    for (what, status) in [
        ("memory pattern", call!(api, DisableMemPattern, options)),
        ("memory pattern on", call!(api, EnableMemPattern, options)),
        ("arena", call!(api, DisableCpuMemArena, options)),
        ("arena on", call!(api, EnableCpuMemArena, options)),
        ("profiling off", call!(api, DisableProfiling, options)),
        ("free dimension by name", call!(api, AddFreeDimensionOverrideByName, options, c"rows", 3i64)),
        ("free dimension by meaning", call!(api, AddFreeDimensionOverride, options, c"DATA_BATCH", 3i64)),
    ] {
        notes.note(what, api.says(status, ""));
    }
    notes.note("an absent key", config(api, options, c"none"));
    let set = |key: &CStr, value: &CStr| call!(api, AddSessionConfigEntry, options, key, value);
    notes.note("a key", api.says(set(c"k", c"one"), ""));
    notes.note("its value", config(api, options, c"k"));
    notes.note("a key again", api.says(set(c"k", c"two, longer"), ""));
    notes.note("its value again", config(api, options, c"k"));
    let mut size = 3usize;
    let mut room = [0u8; 3];
    let status = call!(api, GetSessionConfigEntry, options, c"k", room.as_mut_ptr(), &mut size);
    notes.note("a value in too little room", format!("{}, {size}", api.says(status, "not large enough")));
    let mut is_there = [9i32; 2];
    api.ok(call!(api, HasSessionConfigEntry, options, c"k", &mut is_there[0]));
    api.ok(call!(api, HasSessionConfigEntry, options, c"none", &mut is_there[1]));
    notes.note("keys that are there", format!("{is_there:?}"));
    notes.note("an empty key", api.says(set(c"", c"x"), "mpty"));
    let long = |length| std::ffi::CString::new(vec![b'x'; length]).unwrap();
    notes.note("a key of 1024 bytes", api.says(set(&long(1024), c"x"), "1024"));
    notes.note("a key of 1025 bytes", api.says(set(&long(1025), c"x"), "1024"));
    notes.note("a value of 8192 bytes", api.says(set(c"v", &long(8192)), "8192"));
    notes.note("a value of 8193 bytes", api.says(set(c"v", &long(8193)), "8192"));
    let mut copy = 0usize;
    api.ok(call!(api, CloneSessionOptions, options, &mut copy));
    api.ok(set(c"k", c"three"));
    notes.note("a copy keeps its own", config(api, copy, c"k"));
    let mut pairs = 0usize;
    api.ok(call!(api, GetSessionOptionsConfigEntries, copy, &mut pairs));
    notes.note("all entries hold a key", text(call!(api, GetKeyValue, pairs, c"k")));
    call!(api, ReleaseKeyValuePairs, pairs);
    call!(api, ReleaseSessionOptions, options);
    call!(api, ReleaseSessionOptions, copy);
    call!(api, ReleaseSessionOptions, 0usize);
}

fn run_options(api: Api, notes: &mut Notes) {
    let mut options = 0usize;
    api.ok(call!(api, CreateRunOptions, &mut options));
    let mut number = [9i32; 2];
    api.ok(call!(api, RunOptionsSetRunLogSeverityLevel, options, 3));
    api.ok(call!(api, RunOptionsGetRunLogSeverityLevel, options, &mut number[0]));
    api.ok(call!(api, RunOptionsSetRunLogVerbosityLevel, options, 5));
    api.ok(call!(api, RunOptionsGetRunLogVerbosityLevel, options, &mut number[1]));
    notes.note("log levels of a run", format!("{number:?}"));
    let mut tag = 0usize;
    api.ok(call!(api, RunOptionsGetRunTag, options, &mut tag));
    notes.note("no tag", format!("'{}'", text(tag)));
    api.ok(call!(api, RunOptionsSetRunTag, options, c"mine"));
    api.ok(call!(api, RunOptionsGetRunTag, options, &mut tag));
    notes.note("a tag", text(tag));
    notes.note("a run's key", api.says(call!(api, AddRunConfigEntry, options, c"r", c"1"), ""));
    notes.note("a run's value", text(call!(api, GetRunConfigEntry, options, c"r")));
    notes.note("a run's absent value", text(call!(api, GetRunConfigEntry, options, c"none")));
    call!(api, ReleaseRunOptions, options);
    let (mut pairs, mut keys, mut values, mut count) = (0usize, 0usize, 0usize, 0usize);
    call!(api, CreateKeyValuePairs, &mut pairs);
    for (key, value) in [(c"one", c"1"), (c"two", c"2"), (c"one", c"11"), (c"", c"no")] {
        call!(api, AddKeyValuePair, pairs, key, value);
    }
    call!(api, RemoveKeyValuePair, pairs, c"two");
    call!(api, GetKeyValuePairs, pairs, &mut keys, &mut values, &mut count);
    let texts = |address| list(address, count).into_iter().map(text).collect::<Vec<_>>();
    notes.note("pairs", format!("{:?} {:?}", texts(keys), texts(values)));
    notes.note("an absent pair", text(call!(api, GetKeyValue, pairs, c"three")));
    call!(api, ReleaseKeyValuePairs, pairs);
}

fn arenas(api: Api, notes: &mut Notes) {
    let (mut arena, mut info) = (0usize, 0usize);
    let environment = api.environment();
    api.ok(call!(api, CreateCpuMemoryInfo, 1, 0, &mut info));
    notes.note("an arena", api.says(call!(api, CreateArenaCfg, 0usize, -1, -1, -1, &mut arena), ""));
    notes.note("an allocator", api.says(call!(api, CreateAndRegisterAllocator, environment, info, arena), ""));
    notes.note("an allocator again", api.says(call!(api, CreateAndRegisterAllocator, environment, info, arena), ""));
    call!(api, ReleaseArenaCfg, arena);
    let (keys, sizes) = ([c"max_mem".as_ptr(), c"initial_chunk_size_bytes".as_ptr()], [1usize << 20, 4096]);
    let status = call!(api, CreateArenaCfgV2, &keys[..], &sizes[..], 2usize, &mut arena);
    notes.note("an arena by keys", api.says(status, ""));
    call!(api, ReleaseArenaCfg, arena);
    let keys = [c"no_such".as_ptr()];
    let status = call!(api, CreateArenaCfgV2, &keys[..], &sizes[..], 1usize, &mut arena);
    notes.note("an arena by a key that is not known", api.says(status, "Invalid key found: no_such"));
    notes.note("an allocator is taken back", api.says(call!(api, UnregisterAllocator, environment, info), ""));
    call!(api, ReleaseMemoryInfo, info);
    call!(api, ReleaseEnv, environment);
}
