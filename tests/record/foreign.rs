//! Records that do not concern a session: from other models in the same file, from other builds, from sessions that
//! were allowed to choose.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln::session::{Session, SessionOptions};
use kiln_cache::{Cache, Limits};
use kiln_kernels::Isa;
use kiln_kernels::cpu::softmax::Around;
use kiln_key::F32Bits;
use kiln_model::{Graph, GraphBuilder};
use kiln_run::exec::request::{InputShape, MOST_REQUESTS, RequestKey};
use kiln_run::exec::resize::{Mode, ResizeAxis, ResizeKey, ResizeProblem, Transform};
use kiln_run::exec::softmax::{SoftmaxKey, SoftmaxProblem};
use kiln_run::exec::{Family, Target, Tasks};
use kiln_run::record::{
    Evidence, Fingerprint, Record, Recorded, SOURCES, Store, encode, host_fingerprint, inspect_file,
};
use kiln_tensor::{DType, Tensor};

use crate::folder;

fn softmax() -> Graph {
    let mut builder = GraphBuilder::new("softmax", 17);
    let x = builder.input("x", DType::F32, ["n".into(), "m".into()]);
    let y = builder.op("Softmax", &[x], &[]);
    builder.output("y", y);
    builder.finish()
}

fn relu() -> Graph {
    let mut builder = GraphBuilder::new("relu", 17);
    let x = builder.input("x", DType::F32, ["n".into()]);
    let y = builder.op("Relu", &[x], &[]);
    builder.output("y", y);
    builder.finish()
}

fn options() -> SessionOptions {
    SessionOptions { threads: 1, ..SessionOptions::default() }
}

fn run(session: &Session, rows: usize) -> Result<Vec<f32>, kiln::session::SessionError> {
    let values: Vec<f32> = (0..rows * 5).map(|index| (index % 7) as f32).collect();
    let outputs = session.run(&[("x", Tensor::from_slice([rows, 5], &values).unwrap())])?;
    Ok(outputs[0].1.as_slice::<f32>().unwrap().to_vec())
}

/// An honest record of a resize that takes its time: its tables have `places` places.
fn slow(places: u64, number: u64) -> Record {
    let axis = ResizeAxis { output: places, scale: 2f64.to_bits(), ..ResizeAxis::keep(places / 2) };
    let problem = ResizeProblem {
        mode: Mode::Cubic { a: F32Bits::new(-0.75 - number as f32) },
        transform: Transform::HalfPixel,
        exclude_outside: true,
        antialias: false,
        axes: [axis].into_iter().collect(),
        width: 4,
    };
    let key = ResizeKey::new(Target::new(Isa::detect(), 1), problem);
    let choice = Tasks { tasks: 1 };
    let evidence = Evidence::measured(1, 1);
    let (key, choice) = (encode(&key).unwrap(), encode(&choice).unwrap());
    Record { family: "resize".to_owned(), revision: ResizeKey::REVISION, key, choice, evidence }
}

#[test]
fn what_other_models_left_in_the_file_is_not_built() {
    let folder = folder();
    let with_folder = || SessionOptions { cache_dir: Some(folder.path().into()), ..options() };
    let first = Session::from_graph(softmax(), &with_folder()).unwrap();
    run(&first, 3).unwrap();
    // Each takes some milliseconds to build; all together take many seconds.
    for number in 0..2000 {
        assert!(first.build_cx().records.insert_record(&slow(100_000, number)));
    }
    drop(first);
    let started = Instant::now();
    let other =
        Session::from_graph(relu(), &SessionOptions { load_time_limit: Some(Duration::from_secs(1)), ..with_folder() });
    let (other, took) = (other.unwrap(), started.elapsed());
    assert!(other.record_stats().loaded > 2000);
    assert_eq!((other.warmed(), other.cache_stats().record_hits), (0, 0));
    assert!(took < Duration::from_secs(5), "{took:?}");
    let own = Session::from_graph(softmax(), &with_folder()).unwrap();
    assert!(own.cache_stats().record_hits <= 1, "the one that its request asks for");
    assert!(run(&own, 3).is_ok());
    assert_eq!(own.share_stats().misses, 0, "nothing is chosen");
}

/// What the file has beside a model's own records.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    Executors,
    Requests,
    OwnRequests,
}

/// A folder with the records of the softmax model's request of 3 rows, and 100,000 records of kind `beside`.
fn folder_beside(beside: Beside) -> tempfile::TempDir {
    let folder = folder();
    let with_folder = SessionOptions { cache_dir: Some(folder.path().into()), ..options() };
    let first = Session::from_graph(softmax(), &with_folder).unwrap();
    run(&first, 3).unwrap();
    let records = first.build_cx().records.clone();
    let own = records.keys::<RequestKey>()[0].clone();
    for number in 0..100_000_u64 {
        // As digests look: no small numbers.
        let other = (1 + number / 64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let request = |model, dims| {
            let inputs = vec![Some(InputShape { dtype: DType::F32, dims })];
            RequestKey { model, inputs, ..own.clone() }.note(1000, 2, &records);
        };
        match beside {
            Beside::Nothing => break,
            Beside::Executors => {
                let around = Around { outer: 1000 + number, length: 5, inner: 1 };
                let key = SoftmaxKey::new(Target::new(Isa::detect(), 1), SoftmaxProblem { around, logarithm: false });
                records.insert(&key, &Tasks { tasks: 1 }, Evidence::measured(1000, 5));
            }
            Beside::Requests => request(other, vec![1 + number % 64, 3]),
            Beside::OwnRequests => request(own.model, vec![4 + number % 1000, 1 + number / 1000]),
        }
    }
    first.save_records().unwrap();
    folder
}

/// A change to a file of records before it is loaded. All checksums are right.
#[derive(Clone, Copy, Debug)]
enum Layout {
    AsWritten,
    /// The records are in reverse order.
    TurnedRound,
    /// The file is split into three shards, each as long as a shard may be, and there is no other file.
    Shards,
    /// The file has schema 2.
    Older,
}

/// A file with that header and those payloads.
fn laid_out<'a>(header: &[u8], payloads: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut file, mut count) = (header.to_vec(), 0_u32);
    for payload in payloads {
        let length = (payload.len() as u32).to_le_bytes();
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&length);
        checksum.update(payload);
        file.extend([length, checksum.finalize().to_le_bytes()].concat());
        file.extend(payload);
        count += 1;
    }
    file.extend([u32::MAX.to_le_bytes(), count.to_le_bytes()].concat());
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file
}

fn lay_out(folder: &Path, layout: Layout) {
    let ours = |path: &PathBuf| path.extension().is_some_and(|end| end == "kiln");
    let path = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(ours).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut rest = &bytes[64..bytes.len() - 12];
    let mut payloads: Vec<&[u8]> = Vec::new();
    while let Some(&length) = rest.first_chunk() {
        let (frame, after) = rest.split_at(8 + u32::from_le_bytes(length) as usize);
        payloads.push(&frame[8..]);
        rest = after;
    }
    match layout {
        Layout::AsWritten => {}
        Layout::TurnedRound => std::fs::write(path, laid_out(&bytes[..64], payloads.into_iter().rev())).unwrap(),
        Layout::Shards => {
            for (number, payloads) in payloads.chunks(40_000).enumerate() {
                let shard = path.with_extension(format!("{number}.00ff.shard"));
                std::fs::write(shard, laid_out(&bytes[..64], payloads.iter().copied())).unwrap();
            }
            std::fs::remove_file(path).unwrap();
        }
        Layout::Older => {
            let mut header = bytes[..60].to_vec();
            header[8] = 2;
            header.extend(crc32fast::hash(&header).to_le_bytes());
            let payload = |Record { family, revision, key, choice, evidence }: Record| {
                let Evidence { kind, nanos, samples, created, against, .. } = evidence;
                encode(&(family, revision, key, choice, (kind as u32, nanos, samples, created, against))).unwrap()
            };
            let records = inspect_file(&path).unwrap().records;
            let payloads: Vec<Vec<u8>> = records.into_iter().map(payload).collect();
            std::fs::write(path, laid_out(&header, payloads.iter().map(Vec::as_slice))).unwrap();
        }
    }
}

/// Once, a load read all requests of a file to find its own, and read all records if they were in no order, in a shard
/// or of an older schema. Records that are found out of order are put in order when the session ends.
#[test]
fn a_load_decodes_what_its_model_can_ask_for_whatever_lies_beside_it() {
    let load = |folder: &Path| {
        Session::from_graph(softmax(), &SessionOptions { cache_dir: Some(folder.into()), ..options() }).unwrap()
    };
    let alone = load(folder_beside(Beside::Nothing).path()).record_stats().decoded;
    assert!((1..20).contains(&alone), "{alone}");
    for beside in [Beside::Executors, Beside::Requests, Beside::OwnRequests] {
        let folder = folder_beside(beside);
        for layout in [Layout::AsWritten, Layout::TurnedRound, Layout::Shards, Layout::Older] {
            lay_out(folder.path(), layout);
            let session = load(folder.path());
            let stats = session.record_stats();
            let what = format!("{beside:?}, {layout:?}; {stats:?}");
            assert!(stats.loaded > 100_000 && stats.records == stats.loaded && stats.rejected_checksum == 0, "{what}");
            // A session that has worked for long has measured the machine: one thread's figure is looked up twice, all
            // threads' once.
            let figures = 3;
            let most = match beside {
                // Sixteen times as many as it takes, and what 256 requests ask for.
                Beside::OwnRequests => 17 * MOST_REQUESTS as u64 + alone + figures,
                _ => alone + figures,
            };
            assert!((1..=most).contains(&stats.decoded), "{what}");
            run(&session, 3).unwrap();
            assert_eq!(session.share_stats().misses, 0, "its own are found: {what}");
        }
    }
}

#[test]
fn a_key_whose_tables_no_memory_holds_is_an_error_and_no_allocation() {
    let cx = Session::from_graph(softmax(), &options()).unwrap().build_cx().clone();
    let axis = ResizeAxis { output: (1 << 31) - 1, scale: 1f64.to_bits(), ..ResizeAxis::keep((1 << 31) - 2) };
    let problem = ResizeProblem {
        mode: Mode::Cubic { a: F32Bits::new(-0.75) },
        transform: Transform::HalfPixel,
        exclude_outside: false,
        antialias: false,
        axes: [axis].into_iter().collect(),
        width: 4,
    };
    let key = ResizeKey::new(Target::new(cx.isa, 1), problem);
    assert!(key.table_bytes().is_some_and(|bytes| bytes > 64 << 30));
    let ahead = kiln_run::exec::BuildCx { records: cx.records.ahead_of_need(), ..cx };
    let refused = ahead.executor(&key).err().map(|error| error.to_string());
    assert!(refused.as_ref().is_some_and(|text| text.contains("bytes of tables")), "{refused:?}");
}

#[test]
fn a_strict_session_takes_nothing_that_was_chosen_without_a_record() {
    let cache = Arc::new(Cache::new(Limits { entries: 64, bytes: 1 << 20 }));
    let shared = || SessionOptions { cache: Some(cache.clone()), ..options() };
    let lax = Session::from_graph(softmax(), &shared()).unwrap();
    let expected = run(&lax, 3).unwrap();
    let strict = |records: Option<Arc<Store>>| {
        Session::from_graph(softmax(), &SessionOptions { error_on_cache_miss: true, records, ..shared() }).unwrap()
    };
    let error = run(&strict(None), 3).unwrap_err().to_string();
    assert!(error.contains("choosing is not allowed"), "{error}");
    // The lax session's records know what it chose: with them, nothing is missing.
    let recorded = strict(Some(lax.build_cx().records.clone()));
    assert_eq!(run(&recorded, 3).unwrap(), expected);
    assert!(run(&recorded, 4).is_err(), "nothing is chosen with shared records either");
    run(&lax, 4).unwrap();
    assert!(run(&recorded, 4).is_ok(), "what they have learned meanwhile is known");
    assert!(run(&strict(None), 5).is_err());
}

/// A choice that fits its key but that no kernel can be built with, if there were one, costs the record and not the
/// request.
#[test]
fn a_choice_that_does_not_build_is_chosen_again() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use kiln_cache::Outcome;
    use kiln_kernels::{KernelError, Result as KernelResult};
    use kiln_key::Key;
    use kiln_run::exec::BuildCx;
    use serde::{Deserialize, Serialize};

    static BROKEN: AtomicBool = AtomicBool::new(true);

    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    struct Brittle(u32);
    impl Key for Brittle {
        type Value = u32;
        const FAMILY: &'static str = "brittle";
    }
    impl Recorded for Brittle {
        const REVISION: u32 = 1;
        type Choice = u32;
    }
    impl Family for Brittle {
        fn choose(&self, _: &BuildCx) -> u32 {
            7
        }
        fn accepts(&self, _: &u32, _: &BuildCx) -> bool {
            true
        }
        fn build(&self, choice: &u32, _: &BuildCx) -> KernelResult<u32> {
            let fails = *choice == 9 || (*choice == 7 && self.0 == 2 && BROKEN.load(Ordering::Relaxed));
            let reason = format!("no kernel for {choice}");
            if fails { Err(KernelError::Unsupported { family: "brittle", reason }) } else { Ok(*choice) }
        }
        fn fits(&self, _: &BuildCx) -> bool {
            true
        }
        fn table_bytes(&self) -> Option<u64> {
            Some(0)
        }
    }

    let cx = Session::from_graph(softmax(), &options()).unwrap().build_cx().clone();
    for number in [1, 2] {
        cx.records.insert(&Brittle(number), &9, Evidence::measured(1, 1000));
    }
    let (value, outcome) = cx.executor(&Brittle(1)).unwrap();
    assert_eq!((*value, outcome), (7, Outcome::Miss));
    assert_eq!(cx.records.lookup(&Brittle(1)), Some(7), "the record is replaced");
    assert_eq!(cx.records.stats().rejected_semantic, 1);
    // Where nothing can be built, the record is not to blame: it stays until something can be built.
    assert!(cx.executor(&Brittle(2)).is_err());
    assert_eq!((cx.records.lookup(&Brittle(2)), cx.records.stats().rejected_semantic), (Some(9), 1));
    // And where nothing may be chosen, the error stays as it is.
    let strict = BuildCx { records: cx.records.taken_as_complete(), ..cx.clone() };
    let error = strict.executor(&Brittle(2)).unwrap_err().to_string();
    assert!(error.contains("no kernel for 9"), "{error}");
    BROKEN.store(false, Ordering::Relaxed);
    assert_eq!(*cx.executor(&Brittle(2)).unwrap().0, 7);
}

#[test]
fn a_build_of_other_sources_is_another_machine_to_records() {
    let host = host_fingerprint("avx2", 1);
    let fact = |name: &str| host.facts().iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    assert_eq!(fact("sources").as_deref(), Some(SOURCES));
    assert_eq!(fact("kernels").as_deref(), Some(kiln_kernels::SOURCES));
    let hexadecimal = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(hexadecimal(SOURCES) && hexadecimal(kiln_kernels::SOURCES) && SOURCES != kiln_kernels::SOURCES);
    assert_eq!(fact("records").as_deref(), Some(kiln_records::SOURCES));
    assert_eq!(fact("keys").as_deref(), Some(kiln_key::SOURCES));
    assert!(hexadecimal(kiln_records::SOURCES) && hexadecimal(kiln_key::SOURCES));
    for changed in ["sources", "kernels", "records", "keys"] {
        let facts = host.facts().iter().map(|(name, value)| {
            (name.clone(), if name == changed { "another tree".to_owned() } else { value.clone() })
        });
        assert_ne!(Fingerprint::from_facts(facts).digest(), host.digest());
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let script = |path: &str| std::fs::read_to_string(format!("{root}{path}")).unwrap();
    for other in ["kernels/build.rs", "crates/kiln-key/build.rs", "crates/kiln-records/build.rs"] {
        assert_eq!(script("build.rs"), script(other), "one script, for each package's own sources");
    }
}

#[test]
fn an_executor_in_memory_is_taken_before_a_blob() {
    let cx = Session::from_graph(softmax(), &options()).unwrap().build_cx().clone();
    let around = Around { outer: 4000, length: 500, inner: 1 };
    let key = SoftmaxKey::new(Target::new(cx.isa, 1), SoftmaxProblem { around, logarithm: false });
    let made = cx.make(&key).unwrap();
    let again = cx.make_from_blob(&key, &made.cache_blob().unwrap()).unwrap();
    assert_eq!(again.outcome(), kiln_cache::Outcome::Hit);
    assert!(Arc::ptr_eq(made.value(), again.value()), "nothing is built or replaced");
    assert_eq!(key.choose(&cx), Tasks { tasks: 1 });
}
