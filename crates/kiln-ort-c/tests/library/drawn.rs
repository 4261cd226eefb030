//! Calls drawn at random: entries in any order, with handles that are live, released or of another kind, with nulls,
//! and with lengths that no memory has. Each call succeeds or reports an error, none finds a fault of Kiln's own, and
//! the process goes on.
//!
//! The header's requirements are met: pointers lead to memory, texts end with a zero, and memory of an allocator is
//! freed once. Everything else is drawn. Paths lead into a temporary folder.
//!
//! A seed draws the same calls again. Their results may differ if asynchronous runs end sooner or later. With
//! `--nocapture` the test prints each call before it is made. More calls:
//! `cargo test --profile quick -p kiln-ort-c --test library -- --ignored more_calls`

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::api::{Api, Word, call, list};
use crate::entries::{Argument, ENTRIES, Entry};
use crate::every_entry::{Fixture, Of, ROOM, kept, nothing};
use crate::models;

/// Handles of a kind that live at once: the oldest is released where there are more.
const MOST_LIVE: usize = 6;
/// Bytes behind a pointer to memory: more than texts and tensors that are drawn have.
const BYTES: usize = 4096;

/// Entries that are drawn more often, because other entries need their results.
const OFTEN: &[&str] = &[
    "CreateEnv",
    "CreateSession",
    "CreateSessionFromArray",
    "CreateSessionFromArrayWithPrepackedWeightsContainer",
    "Run",
    "RunAsync",
    "RunWithBinding",
    "CreateIoBinding",
    "BindInput",
    "BindInput",
    "BindOutput",
    "BindOutputToDevice",
    "BindOutputToDevice",
    "RunWithBinding",
    "GetBoundOutputValues",
    "CreateTensorAsOrtValue",
    "CreateTensorWithDataAsOrtValue",
    "CreateTensorWithDataAndDeleterAsOrtValue",
    "CreateValue",
    "GetValue",
    "FillStringTensor",
    "CopyTensors",
    "AddInitializer",
    "AddExternalInitializers",
    "AddFreeDimensionOverrideByName",
    "CreateAllocator",
    "CreateSessionOptions",
    "CreateRunOptions",
    "GetTensorMutableData",
];

/// Entries whose texts are paths.
const OF_PATHS: &[&str] = &[
    "CreateSession",
    "CreateSessionWithPrepackedWeightsContainer",
    "SetOptimizedModelFilePath",
    "EnableProfiling",
    "RunOptionsEnableProfiling",
    "RegisterCustomOpsLibrary",
    "RegisterCustomOpsLibrary_V2",
    "RegisterExecutionProviderLibrary",
    "CreateLoraAdapter",
    "CreateExternalInitializerInfo",
    "GetCompatibilityInfoFromModel",
];

/// Texts that are names of the models' values and dimensions, keys and values of settings, or nothing.
const TEXTS: &[&str] = &[
    "x",
    "y",
    "w",
    "a",
    "b",
    "sum",
    "product",
    "rows",
    "n",
    "",
    "0",
    "1",
    "Cpu",
    "Cuda",
    "CPU",
    "CPUExecutionProvider",
    "max_mem",
    "session.disable_prepacking",
    "session.intra_op.allow_spinning",
    "session.use_env_allocators",
    "memory.enable_memory_arena_shrinkage",
    "cpu:0",
    "a text of some length",
];

/// The kind of handle that an entry writes to its last place if it succeeds.
const MAKES: &[(&str, Argument)] = &[
    ("CreateSession", Argument::Session),
    ("CreateSessionFromArray", Argument::Session),
    ("CreateSessionWithPrepackedWeightsContainer", Argument::Session),
    ("CreateSessionFromArrayWithPrepackedWeightsContainer", Argument::Session),
    ("CreateSessionOptions", Argument::Options),
    ("CloneSessionOptions", Argument::Options),
    ("CreateRunOptions", Argument::RunOptions),
    ("CreateTensorAsOrtValue", Argument::Value),
    ("CreateTensorWithDataAsOrtValue", Argument::Value),
    ("CreateTensorWithDataAndDeleterAsOrtValue", Argument::Value),
    ("CreateValue", Argument::Value),
    ("GetValue", Argument::Value),
    ("CreateMemoryInfo", Argument::MemoryInfo),
    ("CreateMemoryInfo_V2", Argument::MemoryInfo),
    ("CreateCpuMemoryInfo", Argument::MemoryInfo),
    ("AllocatorGetInfo", Argument::MemoryInfo),
    ("GetTensorMemoryInfo", Argument::MemoryInfo),
    ("CreateTensorTypeAndShapeInfo", Argument::TensorInfo),
    ("GetTensorTypeAndShape", Argument::TensorInfo),
    ("CastTypeInfoToTensorInfo", Argument::TensorInfo),
    ("SessionGetInputTypeInfo", Argument::TypeInfo),
    ("SessionGetOutputTypeInfo", Argument::TypeInfo),
    ("SessionGetOverridableInitializerTypeInfo", Argument::TypeInfo),
    ("GetTypeInfo", Argument::TypeInfo),
    ("GetMapValueType", Argument::TypeInfo),
    ("GetSequenceElementType", Argument::TypeInfo),
    ("GetOptionalContainedTypeInfo", Argument::TypeInfo),
    ("CastTypeInfoToMapTypeInfo", Argument::MapInfo),
    ("CastTypeInfoToSequenceTypeInfo", Argument::SequenceInfo),
    ("CastTypeInfoToOptionalTypeInfo", Argument::OptionalInfo),
    ("CreateThreadingOptions", Argument::Threading),
    ("CreateIoBinding", Argument::Binding),
    ("SessionGetModelMetadata", Argument::Metadata),
    ("CreateKeyValuePairs", Argument::Pairs),
    ("GetSessionOptionsConfigEntries", Argument::Pairs),
    ("CreateArenaCfg", Argument::Arena),
    ("CreateArenaCfgV2", Argument::Arena),
    ("CreatePrepackedWeightsContainer", Argument::Prepacked),
    ("CreateAllocator", Argument::Allocator),
    ("CreateSharedAllocator", Argument::Allocator),
    ("GetSharedAllocator", Argument::Allocator),
    ("GetAllocatorWithDefaultOptions", Argument::Allocator),
];

/// The entry that releases a handle. Devices and parts of types end with their owners.
const RELEASES: &[(Argument, &str)] = &[
    (Argument::Binding, "ReleaseIoBinding"),
    (Argument::Session, "ReleaseSession"),
    (Argument::Value, "ReleaseValue"),
    (Argument::Status, "ReleaseStatus"),
    (Argument::Options, "ReleaseSessionOptions"),
    (Argument::RunOptions, "ReleaseRunOptions"),
    (Argument::MemoryInfo, "ReleaseMemoryInfo"),
    (Argument::TensorInfo, "ReleaseTensorTypeAndShapeInfo"),
    (Argument::TypeInfo, "ReleaseTypeInfo"),
    (Argument::MapInfo, "ReleaseMapTypeInfo"),
    (Argument::SequenceInfo, "ReleaseSequenceTypeInfo"),
    (Argument::Threading, "ReleaseThreadingOptions"),
    (Argument::Metadata, "ReleaseModelMetadata"),
    (Argument::Arena, "ReleaseArenaCfg"),
    (Argument::Prepacked, "ReleasePrepackedWeightsContainer"),
    (Argument::Pairs, "ReleaseKeyValuePairs"),
    (Argument::Allocator, "ReleaseAllocator"),
];

/// Asynchronous runs that have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn ended() {
    ENDED.fetch_add(1, Ordering::Relaxed);
}

/// A splitmix generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True in `cases` of a hundred cases.
    fn in_hundred(&mut self, cases: usize) -> bool {
        self.below(100) < cases
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Handles of a kind.
#[derive(Clone, Default)]
struct Pool {
    live: Vec<usize>,
    dead: Vec<usize>,
}

/// The state from which calls are drawn.
struct Draws {
    api: Api,
    random: Random,
    /// Whether the drawn call has only live handles, places that are not null, and small lengths.
    is_plausible: bool,
    /// By the number of the kind, allocators among them.
    pools: Vec<Pool>,
    texts: Vec<CString>,
    paths: Vec<CString>,
    models: Vec<Vec<u8>>,
    often: Vec<&'static Entry>,
    /// How often the environment is held.
    environments: usize,
    asynchronous: usize,
    /// Entries that have succeeded, and how often.
    succeeded: BTreeMap<&'static str, usize>,
}

fn entry(name: &str) -> &'static Entry {
    ENTRIES.iter().find(|entry| entry.name == name).unwrap_or_else(|| panic!("there is no entry {name}"))
}

/// A block that lives to the end of the process.
fn words(of: Vec<usize>) -> usize {
    kept(of.leak().as_mut_ptr().word())
}

impl Draws {
    fn new(api: Api, seed: u64, folder: &Path) -> Draws {
        let models = vec![
            models::weighted(),
            models::weighted(),
            models::weighted(),
            models::weighted(),
            models::pair(),
            models::overridable(),
            models::rankless(),
            models::sequence(),
            models::optional(),
            models::maps(),
            models::unknown_operator(),
        ];
        let text = |text: &str| CString::new(text).unwrap();
        let path = |name: &str| text(folder.join(name).to_str().unwrap());
        for (at, model) in models.iter().enumerate() {
            std::fs::write(folder.join(format!("{at}.onnx")), model).unwrap();
        }
        Draws {
            api,
            random: Random(seed),
            is_plausible: false,
            pools: vec![Pool::default(); Argument::Allocator as usize + 1],
            texts: TEXTS.iter().map(|of| text(of)).collect(),
            paths: ["0.onnx", "4.onnx", "5.onnx", "7.onnx", "none", "written"].map(path).to_vec(),
            models,
            often: OFTEN.iter().map(|name| entry(name)).collect(),
            environments: 0,
            asynchronous: 0,
            succeeded: BTreeMap::new(),
        }
    }

    fn pool(&mut self, kind: Argument) -> &mut Pool {
        &mut self.pools[kind as usize]
    }

    fn add(&mut self, kind: Argument, handle: usize) {
        if handle == 0 || self.pool(kind).live.contains(&handle) {
            return;
        }
        self.pool(kind).dead.retain(|dead| *dead != handle);
        self.pool(kind).live.push(handle);
        let release = RELEASES.iter().find(|(of, _)| *of == kind);
        if self.pool(kind).live.len() > MOST_LIVE
            && let Some((_, name)) = release
        {
            let oldest = self.pool(kind).live[0];
            self.api.call(entry(name).place, &[oldest]);
            self.end(kind, oldest);
        }
    }

    /// Notes that a handle was released.
    fn end(&mut self, kind: Argument, handle: usize) {
        let pool = self.pool(kind);
        let Some(at) = pool.live.iter().position(|live| *live == handle) else { return };
        pool.live.remove(at);
        pool.dead.push(handle);
    }

    fn handle(&mut self, kind: Argument) -> usize {
        let case = if self.is_plausible { 0 } else { self.random.below(100) };
        let is_allocator = kind == Argument::Allocator;
        let from = match case {
            // Most runs have no options.
            _ if kind == Argument::RunOptions && self.random.in_hundred(30) => Vec::new(),
            0..80 => self.pools[kind as usize].live.clone(),
            80..88 => self.pools[kind as usize].dead.clone(),
            // An allocator is a struct that is read, so it must be valid.
            88..96 if !is_allocator => {
                let other = self.random.below(Argument::Allocator as usize);
                self.pools[other].live.clone()
            }
            96..98 if !is_allocator => vec![8, words(vec![7; ROOM])],
            _ => Vec::new(),
        };
        if from.is_empty() { 0 } else { self.random.one(&from) }
    }

    fn handles(&mut self, kind: Argument) -> usize {
        let first = self.handle(kind);
        let drawn = (0..ROOM).map(|_| if self.random.in_hundred(70) { first } else { self.handle(kind) }).collect();
        words(drawn)
    }

    fn text(&mut self, entry: &Entry) -> usize {
        if !self.is_plausible && self.random.in_hundred(3) {
            return 0;
        }
        // Bindings are to the first two names, which most models have.
        if entry.name.starts_with("Bind") && self.random.in_hundred(95) {
            return self.texts[usize::from(entry.name != "BindInput")].word();
        }
        let of = if OF_PATHS.contains(&entry.name) { &self.paths } else { &self.texts };
        let at = self.random.below(of.len());
        of[at].word()
    }

    /// Names, often those that a run needs.
    fn names(&mut self, entry: &Entry, place: usize) -> usize {
        let is_run = matches!(entry.name, "Run" | "RunAsync");
        if is_run && self.random.in_hundred(80) {
            return words(vec![self.texts[usize::from(place == 5)].word(); ROOM]);
        }
        words((0..ROOM).map(|_| self.text(entry)).collect())
    }

    /// Sizes whose product is small; some are invalid.
    fn sizes(&mut self) -> usize {
        let mut sizes = vec![1usize; ROOM];
        if self.random.in_hundred(50) {
            sizes[0] = 2;
            return words(sizes);
        }
        for size in sizes.iter_mut().take(3) {
            *size = self.random.below(4);
        }
        if self.random.in_hundred(4) {
            let at = self.random.below(4);
            sizes[at] = self.random.one(&[-1i64, i64::MIN, -3]).word();
        }
        words(sizes)
    }

    fn number(&mut self, entry: &Entry) -> usize {
        // The types of floats, texts and truths.
        if entry.name.starts_with("CreateTensor") && self.random.in_hundred(80) {
            return self.random.one(&[1, 1, 1, 8, 8, 9]);
        }
        match self.random.below(10) {
            _ if entry.name == "CreateValue" => self.random.below(4),
            0 if !self.is_plausible => self.random.one(&[-1, 99, i32::MIN, i32::MAX, -2, 64]).word(),
            1..6 => self.random.below(2),
            _ => self.random.below(27),
        }
    }

    fn size(&mut self) -> usize {
        match self.random.below(20) {
            _ if self.is_plausible => self.random.one(&[1, 1, 1, 1, 1, 2]),
            0 => self.random.one(&[usize::MAX, usize::MAX / 2, 1 << 40]),
            1..4 => self.random.below(ROOM + 1),
            4..7 => 0,
            7..10 => 2,
            _ => 1,
        }
    }

    fn place(&mut self, entry: &Entry) -> usize {
        if !self.is_plausible && self.random.in_hundred(3) {
            return 0;
        }
        match entry.name {
            // The block's contents are read as a struct with pointers.
            "CreateEnvWithOptions" => words(vec![0; ROOM]),
            // A run writes to existing values.
            "Run" | "RunAsync" if self.random.in_hundred(30) => self.handles(Argument::Value),
            "Run" | "RunAsync" => words(vec![0; ROOM]),
            _ => {
                let word = self.random.one(&[0, 0, 8, ROOM]);
                words(vec![word; ROOM])
            }
        }
    }

    fn word(&mut self, entry: &Entry, place: usize) -> usize {
        match entry.arguments[place] {
            Argument::Text => self.text(entry),
            Argument::Number => self.number(entry),
            Argument::Size => self.size(),
            Argument::Out => self.place(entry),
            Argument::Numbers => self.sizes(),
            Argument::Texts => self.names(entry, place),
            Argument::Values => self.handles(Argument::Value),
            Argument::Devices => self.handles(Argument::Device),
            Argument::Memories => words((0..ROOM).map(|_| words(vec![0; BYTES / 8])).collect()),
            Argument::Memory if self.random.in_hundred(5) => 0,
            // An attribute of texts takes a list of texts, others take bytes of elements.
            Argument::Memory if entry.name == "CreateOpAttr" => {
                let text = self.random.below(self.texts.len());
                words(vec![self.texts[text].word(); BYTES / 8])
            }
            Argument::Memory => words(vec![self.random.next() as usize; BYTES / 8]),
            Argument::Owned => {
                let mut owned = 0usize;
                self.api.ok(call!(self.api, AllocatorAlloc, self.api.allocator(), ROOM * 8, &mut owned));
                kept(owned)
            }
            Argument::Function if entry.name == "RunAsync" => (ended as *const ()).word(),
            Argument::Function => (nothing as *const ()).word(),
            handle => self.handle(handle),
        }
    }

    /// Makes a call.
    fn call(&mut self, number: usize, entry: &'static Entry) {
        self.is_plausible = self.random.in_hundred(60);
        let mut arguments: Vec<usize> = (0..entry.arguments.len()).map(|place| self.word(entry, place)).collect();
        if entry.name.starts_with("CreateSessionFromArray") && self.random.in_hundred(80) {
            let at = self.random.below(self.models.len());
            let model = &self.models[at];
            arguments[1] = model.as_ptr().word();
            arguments[2] = if self.random.in_hundred(90) { model.len() } else { self.random.below(model.len()) };
        }
        eprintln!("{number} {} {arguments:x?}", entry.name);
        let result = self.api.call(entry.place, &arguments);
        if entry.says
            && let Some((code, message)) = self.api.taken(result)
        {
            eprintln!("    {code} {message}");
            let is_told = (1..=15).contains(&code) && !message.is_empty();
            assert!(is_told && !message.contains("fault of Kiln's own"), "{number} {}: {code} '{message}'", entry.name);
            return;
        }
        *self.succeeded.entry(entry.name).or_default() += usize::from(entry.says);
        self.note(entry, &arguments, result);
    }

    /// Notes the handles that a call has made or ended.
    fn note(&mut self, entry: &Entry, arguments: &[usize], result: usize) {
        let last = arguments.last().copied().unwrap_or_default();
        let first = |address: usize| if address == 0 { 0 } else { list(address, 1)[0] };
        if let Some((_, kind)) = MAKES.iter().find(|(name, _)| *name == entry.name) {
            self.add(*kind, first(last));
        } else if let Some((kind, _)) = RELEASES.iter().find(|(_, name)| *name == entry.name) {
            self.end(*kind, arguments[0]);
        } else if entry.name.starts_with("CreateEnv") {
            self.environments += 1;
            self.add(Argument::Env, first(last));
        }
        match entry.name {
            "CreateStatus" => self.add(Argument::Status, result),
            "Run" => list(last, arguments[6].min(ROOM)).into_iter().for_each(|value| self.add(Argument::Value, value)),
            "RunAsync" => self.asynchronous += 1,
            "GetBoundOutputValues" => {
                let values = list(first(arguments[2]), first(last));
                values.into_iter().for_each(|value| self.add(Argument::Value, value));
            }
            "ReleaseEnv" if self.pool(Argument::Env).live.contains(&arguments[0]) => {
                self.environments -= 1;
                if self.environments == 0 {
                    self.end(Argument::Env, arguments[0]);
                }
            }
            _ => {}
        }
    }

    fn draw(&mut self) -> &'static Entry {
        if self.random.in_hundred(50) {
            self.random.one(&self.often)
        } else {
            &ENTRIES[self.random.below(ENTRIES.len())]
        }
    }

    /// Releases all live handles.
    fn end_all(&mut self) {
        let started = Instant::now();
        while ENDED.load(Ordering::Relaxed) < self.asynchronous {
            assert!(started.elapsed() < Duration::from_secs(60), "an asynchronous run has not ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ENDED.load(Ordering::Relaxed), self.asynchronous, "asynchronous runs end once");
        for (kind, name) in RELEASES {
            for handle in std::mem::take(&mut self.pool(*kind).live) {
                self.api.call(entry(name).place, &[handle]);
            }
        }
        for environment in std::mem::take(&mut self.pool(Argument::Env).live) {
            for _ in 0..self.environments {
                self.api.ok(call!(self.api, EnableTelemetryEvents, environment));
                call!(self.api, ReleaseEnv, environment);
            }
            let said = self.api.says(call!(self.api, EnableTelemetryEvents, environment), "is not a live OrtEnv");
            assert_eq!(said, "2 says 'is not a live OrtEnv'");
        }
    }
}

/// Draws `calls` calls for each seed, on the handles of one fixture.
fn drawn(seeds: std::ops::Range<u64>, calls: usize) {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    let mut succeeded: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in seeds {
        let folder = tempfile::tempdir().unwrap();
        eprintln!("seed {seed}");
        ENDED.store(0, Ordering::Relaxed);
        let mut draws = Draws::new(api, seed, folder.path());
        for of in [Of::Numbers, Of::Texts, Of::Sequence] {
            for (kind, handle) in Fixture::new(api, of).into_handles() {
                draws.add(kind, handle);
            }
            draws.environments += 1;
        }
        draws.add(Argument::Allocator, api.allocator());
        for number in 0..calls {
            let entry = draws.draw();
            draws.call(number, entry);
        }
        let count: usize = draws.succeeded.values().sum();
        println!("seed {seed}: {count} of {calls} calls succeeded, {} runs beside", draws.asynchronous);
        draws.end_all();
        for (name, count) in draws.succeeded {
            *succeeded.entry(name).or_default() += count;
        }
    }
    // If calls were only refused, the test would show little.
    let never: Vec<&str> =
        OFTEN.iter().copied().filter(|name| succeeded.get(name).is_none_or(|count| *count == 0)).collect();
    assert_eq!(never, [""; 0], "these have never succeeded");
}

#[test]
fn calls_drawn_at_random_succeed_or_say_why_not() {
    drawn(0..4, 6000);
}

#[test]
#[ignore = "takes a minute"]
fn more_calls_drawn_at_random_succeed_or_say_why_not() {
    drawn(100..150, 10_000);
}
