//! Every entry is called with plausible arguments, then with each argument wrong: it reports that, and the process goes
//! on.

use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use crate::api::{self, Api, Word, call};
use crate::entries::{Argument, ENTRIES, Entry};
use crate::models;

/// Words in each block that an entry may write.
pub(crate) const ROOM: usize = 64;

/// A live handle of every kind.
pub(crate) struct Fixture {
    api: Api,
    /// By the number of the kind.
    handles: Vec<usize>,
    /// Types that are to be released, too.
    types: Vec<usize>,
}

/// The contents of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    Numbers,
    Texts,
    Sequence,
}

pub(crate) extern "C" fn nothing() {}

/// A block that lives to the end of the process, because an entry may keep it.
fn block(word: usize) -> usize {
    kept(Box::leak(Box::new([word; ROOM])).as_mut_ptr().word())
}

/// The address, in a list that a search for leaked memory finds.
pub(crate) fn kept(address: usize) -> usize {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(address);
    address
}

impl Fixture {
    pub(crate) fn new(api: Api, of: Of) -> Fixture {
        let mut made = Fixture { api, handles: vec![0; Argument::Prepacked as usize + 1], types: Vec::new() };
        let environment = made.set(Argument::Env, api.environment());
        let session = made.set(Argument::Session, api.session(environment, &models::weighted()));
        let value = made.value(of);
        made.set(Argument::Value, value);
        let status = call!(api, CreateStatus, 1, c"said");
        made.set(Argument::Status, status);
        made.set(Argument::Options, api.options());
        macro_rules! create {
            ($kind:ident: $entry:ident($($argument:expr),*)) => {{
                let mut handle = 0usize;
                api.ok(call!(api, $entry, $($argument,)* &mut handle));
                made.set(Argument::$kind, handle)
            }};
        }
        create!(RunOptions: CreateRunOptions());
        create!(MemoryInfo: CreateCpuMemoryInfo(0, 0));
        create!(TensorInfo: CreateTensorTypeAndShapeInfo());
        create!(Threading: CreateThreadingOptions());
        create!(Binding: CreateIoBinding(session));
        create!(Metadata: SessionGetModelMetadata(session));
        create!(Arena: CreateArenaCfg(0usize, -1, -1, -1));
        create!(Prepacked: CreatePrepackedWeightsContainer());
        create!(TypeInfo: SessionGetInputTypeInfo(session, 0usize));
        let mut pairs = 0usize;
        call!(api, CreateKeyValuePairs, &mut pairs);
        made.set(Argument::Pairs, pairs);
        let (mut devices, mut count) = (0usize, 0usize);
        api.ok(call!(api, GetEpDevices, environment, &mut devices, &mut count));
        let device = made.set(Argument::Device, api::list(devices, count)[0]);
        made.set(Argument::Hardware, call!(api, EpDevice_Device, device));
        made.inner_types(environment);
        made
    }

    fn set(&mut self, kind: Argument, handle: usize) -> usize {
        assert_ne!(handle, 0, "{kind:?}");
        self.handles[kind as usize] = handle;
        handle
    }

    fn value(&self, of: Of) -> usize {
        let (api, mut value, dims) = (self.api, 0usize, [2i64]);
        let element = if matches!(of, Of::Texts) { 8 } else { 1 };
        api.ok(call!(api, CreateTensorAsOrtValue, api.allocator(), &dims[..], 1usize, element, &mut value));
        if matches!(of, Of::Sequence) {
            let part = value;
            api.ok(call!(api, CreateValue, &[part][..], 1usize, 2, &mut value));
            call!(api, ReleaseValue, part);
        }
        value
    }

    /// Types within types: of a sequence of maps, and of an optional value.
    fn inner_types(&mut self, environment: usize) {
        let api = self.api;
        let output = |model: &[u8]| {
            let (session, mut info) = (api.session(environment, model), 0usize);
            api.ok(call!(api, SessionGetOutputTypeInfo, session, 0usize, &mut info));
            call!(api, ReleaseSession, session);
            info
        };
        let (maps, optional) = (output(&models::maps()), output(&models::optional()));
        let (mut sequence, mut element, mut map, mut contained) = (0usize, 0usize, 0usize, 0usize);
        api.ok(call!(api, CastTypeInfoToSequenceTypeInfo, maps, &mut sequence));
        api.ok(call!(api, GetSequenceElementType, sequence, &mut element));
        api.ok(call!(api, CastTypeInfoToMapTypeInfo, element, &mut map));
        api.ok(call!(api, CastTypeInfoToOptionalTypeInfo, optional, &mut contained));
        self.set(Argument::SequenceInfo, sequence);
        self.set(Argument::MapInfo, map);
        self.set(Argument::OptionalInfo, contained);
        self.types = vec![maps, element, optional];
    }

    /// The handles with their kinds, which the caller releases.
    pub(crate) fn into_handles(mut self) -> Vec<(Argument, usize)> {
        let mut handles = Vec::new();
        for entry in ENTRIES {
            for kind in entry.arguments.iter().filter(|argument| **argument <= Argument::Prepacked) {
                let handle = std::mem::take(&mut self.handles[*kind as usize]);
                if handle != 0 {
                    handles.push((*kind, handle));
                }
            }
        }
        handles.extend(std::mem::take(&mut self.types).into_iter().map(|info| (Argument::TypeInfo, info)));
        handles
    }

    /// A plausible argument.
    fn word(&self, argument: Argument) -> usize {
        let text: &CStr = c"x";
        match argument {
            Argument::Text => text.word(),
            Argument::Number | Argument::Size => 1,
            Argument::Out | Argument::Memory => block(0),
            Argument::Numbers => block(1),
            Argument::Texts => block(text.word()),
            Argument::Values => block(self.word(Argument::Value)),
            Argument::Devices => block(self.word(Argument::Device)),
            Argument::Memories => block(block(0)),
            Argument::Owned => {
                let mut owned = 0usize;
                self.api.ok(call!(self.api, AllocatorAlloc, self.api.allocator(), ROOM * 8, &mut owned));
                kept(owned)
            }
            Argument::Allocator => self.api.allocator(),
            Argument::Function => (nothing as *const ()).word(),
            handle => self.handles[handle as usize],
        }
    }

    /// Calls an entry with plausible arguments, except for `wrong`; returns whether it succeeded.
    fn call(&self, entry: &Entry, wrong: Option<(usize, usize)>) -> bool {
        let mut words: Vec<usize> = entry.arguments.iter().map(|argument| self.word(*argument)).collect();
        if let Some((place, word)) = wrong {
            words[place] = word;
        }
        let result = self.api.call(entry.place, &words);
        if !entry.says {
            return true;
        }
        let Some((code, message)) = self.api.taken(result) else {
            // The process has one environment, which later tests make anew.
            if entry.name.starts_with("CreateEnv") {
                call!(self.api, ReleaseEnv, api::list(words[words.len() - 1], 1)[0]);
            }
            return true;
        };
        assert!((1..=15).contains(&code) && !message.is_empty(), "{} {wrong:?}: {code} '{message}'", entry.name);
        false
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let api = self.api;
        for info in &self.types {
            call!(api, ReleaseTypeInfo, *info);
        }
        macro_rules! release {
            ($($kind:ident: $entry:ident,)+) => {
                $(call!(api, $entry, self.handles[Argument::$kind as usize]);)+
            };
        }
        release! {
            Binding: ReleaseIoBinding,
            Session: ReleaseSession,
            Value: ReleaseValue,
            Status: ReleaseStatus,
            Options: ReleaseSessionOptions,
            RunOptions: ReleaseRunOptions,
            MemoryInfo: ReleaseMemoryInfo,
            TensorInfo: ReleaseTensorTypeAndShapeInfo,
            TypeInfo: ReleaseTypeInfo,
            Threading: ReleaseThreadingOptions,
            Metadata: ReleaseModelMetadata,
            Arena: ReleaseArenaCfg,
            Prepacked: ReleasePrepackedWeightsContainer,
            Pairs: ReleaseKeyValuePairs,
            Env: ReleaseEnv,
        }
    }
}

/// Arguments for which usually wrong words are valid: the entry, the argument's number, and the reason.
const MAY: &[(&str, usize, &str)] = &[
    ("CreateAndRegisterAllocator", 2, "a null arena is the default one"),
    ("CreateSharedAllocator", 4, "there may be no options"),
    ("CreateSharedAllocator", 5, "the caller may not want the allocator"),
    ("GetDimensions", 1, "a scalar has none to write"),
    ("GetSymbolicDimensions", 1, "a scalar has none to write"),
    ("RunAsync", 1, "the callback gets the error"),
];

/// Words that are wrong for an argument.
fn wrong_words(argument: Argument) -> Vec<usize> {
    match argument {
        Argument::Number => vec![(-1i32).word(), 99, i32::MIN.word(), i32::MAX.word()],
        Argument::Size => vec![0, usize::MAX, usize::MAX / 2, 1 << 40],
        // Null, an address below every page, and an address of memory that is no handle.
        handle if handle <= Argument::Prepacked => vec![0, 8, block(7)],
        _ => vec![0],
    }
}

impl PartialOrd for Argument {
    fn partial_cmp(&self, other: &Argument) -> Option<std::cmp::Ordering> {
        (*self as usize).partial_cmp(&(*other as usize))
    }
}

#[test]
fn no_entry_is_null_and_the_list_has_them_all_in_order() {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    assert_eq!(ENTRIES.len(), api::ENTRIES);
    for (place, entry) in ENTRIES.iter().enumerate() {
        assert_eq!(entry.place, place, "{}", entry.name);
        assert_ne!(api.entries()[place], 0, "{}", entry.name);
    }
}

#[test]
fn every_entry_takes_what_is_wrong_and_says_so() {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    let (mut calls, mut succeeded, mut silent) = (0, 0, Vec::new());
    for of in [Of::Numbers, Of::Texts, Of::Sequence] {
        for entry in ENTRIES {
            let fixture = Fixture::new(api, of);
            eprintln!("{} {of:?}", entry.name);
            succeeded += usize::from(fixture.call(entry, None));
            calls += 1;
            for (place, argument) in entry.arguments.iter().enumerate() {
                for word in wrong_words(*argument) {
                    let is_ok = fixture.call(entry, Some((place, word)));
                    calls += 1;
                    let may = MAY.iter().any(|(name, at, _)| (*name, *at) == (entry.name, place));
                    let needs = !may && (*argument <= Argument::Prepacked || *argument == Argument::Out);
                    if is_ok && needs && entry.says {
                        silent.push(format!("{} {place} {argument:?}", entry.name));
                    }
                }
            }
        }
    }
    println!("{calls} calls of {} entries, {succeeded} of them plausible and successful", ENTRIES.len());
    silent.sort();
    silent.dedup();
    assert_eq!(silent, [""; 0], "a null place or a handle that is none must be refused");
}
