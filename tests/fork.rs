//! Children of `fork`, which have their parent's memory and one of its threads, while eight threads of the parent load
//! models, build executors, emit and evict code, run, save records and tune. Whatever a child does with its
//! inheritance, it ends, and its results are right.
//!
//! `cargo test --release --test fork -- --ignored` makes a thousand children instead of a few dozen.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kiln::session::{Session, SessionOptions, Tune};
use kiln_cache::{Cache, Limits};
use kiln_model::{Graph, GraphBuilder};
use kiln_tensor::{DType, Tensor};

/// Held by each test, because a child inherits the state of its parent's other threads.
static ALONE: Mutex<()> = Mutex::new(());

/// A convolution, some element-wise operators that depend on `form`, so that each form has its own code, and a softmax.
fn graph(form: usize) -> Graph {
    let mut graph = GraphBuilder::new("forked", 17);
    let x = graph.input("x", DType::F32, ["n".into(), 3.into(), "h".into(), "w".into()]);
    let weights: Vec<f32> = (0..8 * 3 * 9).map(|index| (index * 31 % 23) as f32 / 11.0 - 1.0).collect();
    let weights = graph.constant(Tensor::from_vec([8, 3, 3, 3], weights).expect("as many as the shape"));
    let mut last = graph.op("Conv", &[x, weights], &[]);
    for bit in 0..5 {
        let bounded = graph.op(if form >> bit & 1 == 1 { "Tanh" } else { "Sigmoid" }, &[last], &[]);
        last = graph.op("Add", &[last, bounded], &[]);
    }
    let y = graph.op("Softmax", &[last], &[("axis", (-1).into())]);
    graph.output("y", y);
    graph.finish()
}

fn request(size: usize) -> [(&'static str, Tensor); 1] {
    let shape = [1 + size % 3, 3, 5 + size % 29, 6 + size / 29 % 31];
    let count: usize = shape.iter().product();
    let values = (0..count).map(|index| (index * 7 % 13) as f32 / 6.0 - 1.0).collect();
    [("x", Tensor::from_vec(shape, values).expect("as many as the shape"))]
}

fn run(session: &Session, size: usize) -> Result<Tensor, String> {
    let outputs = session.run(&request(size)).map_err(|error| error.to_string())?;
    outputs.into_iter().next().map(|(_, tensor)| tensor).ok_or_else(|| "no output".to_owned())
}

/// Whether two results are the same but for their last bits: the tuner may have chosen another way meanwhile, which adds
/// in another order. Results of a softmax are at most 1.
fn agree(found: &Tensor, expected: &Tensor) -> bool {
    let values = |tensor: &Tensor| tensor.as_slice::<f32>().expect("the graph's output").to_vec();
    let close = |(a, b): (f32, f32)| (a - b).abs() <= 1e-5;
    found.shape() == expected.shape() && values(found).into_iter().zip(values(expected)).all(close)
}

/// How a child ended.
#[derive(Debug, PartialEq)]
enum End {
    Good,
    Wrong(i32),
    Hung,
}

/// Forks; the child does that and ends.
#[allow(unsafe_code, reason = "the library never forks")]
fn forked(child: impl FnOnce() -> Result<(), String>) -> End {
    // SAFETY: this tests that what the child does is safe. The child ends without the code that its parent runs at its
    // end.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "the system makes no more processes");
    if process == 0 {
        // The panic's message would need a lock that another thread of the parent may have held.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        let code = match done {
            Ok(Ok(())) => 0,
            Ok(Err(_)) => 1,
            Err(_) => 2,
        };
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(code) };
    }
    let (begun, mut status) = (Instant::now(), 0);
    loop {
        // SAFETY: waits for the child made above.
        if unsafe { libc::waitpid(process, &mut status, libc::WNOHANG) } == process {
            return if status == 0 { End::Good } else { End::Wrong(status) };
        }
        if begun.elapsed() > Duration::from_secs(60) {
            // SAFETY: the child is this function's own.
            unsafe {
                libc::kill(process, libc::SIGKILL);
                libc::waitpid(process, &mut status, 0);
            }
            return End::Hung;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn children_end(count: usize) {
    let folder = tempfile::tempdir().unwrap();
    // So small that code and executors are evicted all the time.
    let cache = Arc::new(Cache::new(Limits { entries: 300, bytes: 300 << 10 }));
    let options = SessionOptions {
        threads: 2,
        cache: Some(Arc::clone(&cache)),
        cache_dir: Some(folder.path().to_owned()),
        ..SessionOptions::default()
    };
    let tuned = SessionOptions { tune: Tune::Fast, ..options.clone() };
    let sessions: Vec<Session> = (0..4)
        .map(|form| Session::from_graph(graph(form), if form == 0 { &tuned } else { &options }).unwrap())
        .collect();
    let mut spare: Vec<Session> = (0..2).map(|form| Session::from_graph(graph(form), &options).unwrap()).collect();
    spare.iter().for_each(|session| drop(run(session, 3)));
    let expected: Vec<Tensor> = sessions.iter().map(|session| run(session, 11).unwrap()).collect();
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut ends = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (sessions, options, stop, served) = (&sessions, &options, &stop, &served);
            scope.spawn(move || {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let form = (round * 5 + thread) % 32;
                    if round % 8 == thread {
                        let fresh = Session::from_graph(graph(form), options).unwrap();
                        run(&fresh, round).unwrap();
                    } else {
                        run(&sessions[form % sessions.len()], round * 8 + thread).unwrap();
                    }
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for child in 0..count {
            // The children start at different moments of the threads' work.
            let before = served.load(Ordering::Relaxed);
            let begun = Instant::now();
            while served.load(Ordering::Relaxed) < before + child % 4 && begun.elapsed() < Duration::from_secs(5) {
                std::thread::yield_now();
            }
            let form = child % sessions.len();
            let is_right = |session: &Session| {
                for _ in 0..3 {
                    if !agree(&run(session, 11)?, &expected[form]) {
                        return Err("another result".to_owned());
                    }
                }
                Ok(())
            };
            let made = |options: &SessionOptions| Session::from_graph(graph(form), options).map_err(|e| e.to_string());
            let end = forked(|| match child % 5 {
                // A session that is in use at this moment.
                0 => is_right(&sessions[form]),
                // A session that is not in use.
                1 => {
                    run(&spare[0], 5 + child)?;
                    spare.clear();
                    Ok(())
                }
                // A new session beside the others.
                2 => is_right(&made(&options)?),
                // A new session alone, with threads.
                3 => is_right(&made(&SessionOptions { threads: 2, ..SessionOptions::default() })?),
                // Shapes that nothing has been built for, in the old sessions.
                _ => (0..20).try_for_each(|size| run(&sessions[form], size * 37 + child).map(drop)),
            });
            ends.push((child, end));
        }
        stop.store(true, Ordering::Relaxed);
    });
    ends.retain(|(_, end)| *end != End::Good);
    assert!(ends.is_empty(), "of {count} children: {ends:?}");
    for (form, session) in sessions.iter().enumerate() {
        assert!(agree(&run(session, 11).unwrap(), &expected[form]), "the parent goes on");
    }
}

/// Bytes of this process that are in memory and belong to no file.
fn in_memory() -> Result<usize, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next());
    kilobytes.and_then(|number| number.parse::<usize>().ok()).map(|number| number << 10).ok_or("no number".to_owned())
}

/// Waits until this process has no more than `most` bytes in memory.
fn await_bytes(most: usize) -> Result<(), String> {
    let begun = Instant::now();
    while in_memory()? > most {
        if begun.elapsed() > Duration::from_secs(30) {
            return Err(format!("{} bytes stay", in_memory()?));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[test]
fn memory_on_its_way_back_to_the_system_gets_there_in_children_too() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let large = || {
        let mut graph = GraphBuilder::new("large", 17);
        let shape = graph.input("x", DType::I64, [1.into()]);
        let made = graph.op("ConstantOfShape", &[shape], &[]);
        let bounded = graph.op("Exp", &[made], &[]);
        let y = graph.op("ReduceMax", &[bounded], &[("keepdims", 0.into())]);
        graph.output("y", y);
        let options = SessionOptions { threads: 2, buffer_bytes: 1 << 20, ..SessionOptions::default() };
        Session::from_graph(graph.finish(), &options).unwrap()
    };
    let floats = |count: i64| [("x", Tensor::from_slice([1], &[count]).expect("one number"))];
    let serve = |session: &Session| session.run(&floats(64 << 20)).map(drop).map_err(|error| error.to_string());
    let session = large();
    serve(&session).unwrap();
    let (piece, before) = (96 << 20, in_memory().unwrap());
    await_bytes(piece).unwrap_or_else(|error| panic!("of {before}: {error}"));
    for round in 0..10 {
        serve(&session).unwrap();
        if round % 2 == 1 {
            // A whole mapping is being given back.
            let other = large();
            serve(&other).unwrap();
            drop(other);
        }
        let end = forked(|| match round % 5 {
            // The child's own requests make the work go on that its parent left.
            0 | 1 => {
                serve(&session)?;
                await_bytes(piece)
            }
            2 => {
                session.trim();
                await_bytes(piece)
            }
            // A child that gives nothing back itself keeps its memory as it was.
            _ => session.run(&floats(3)).map(drop).map_err(|error| error.to_string()),
        });
        assert_eq!(end, End::Good, "child {round}");
    }
    await_bytes(piece).unwrap();
}

#[test]
fn children_of_a_busy_process_end_with_right_results() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    children_end(40);
}

#[test]
#[ignore = "a minute"]
fn a_thousand_children_of_a_busy_process_end() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    children_end(1000);
}

/// Whether this process has the thread that gives memory back.
fn has_janitor() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux tells");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim() == "kiln-janitor")
}

/// Whether there is one soon: a thread gets its name when it first runs.
fn gets_janitor() -> bool {
    let since = Instant::now();
    while !has_janitor() && since.elapsed() < Duration::from_secs(1) {
        std::thread::yield_now();
    }
    has_janitor()
}

#[test]
fn no_thread_of_a_child_gives_back_what_it_inherited_and_one_does_what_it_loaded() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let options = SessionOptions { threads: 1, trim_after: Some(Duration::from_secs(2)), ..SessionOptions::default() };
    let inherited = Session::from_graph(graph(3), &options).unwrap();
    let expected = run(&inherited, 40).unwrap();
    assert!(gets_janitor(), "it looks at a session with a new shape");
    let end = forked(|| {
        for size in 41..50 {
            run(&inherited, size)?;
        }
        if has_janitor() {
            return Err("the child has a thread for what it inherited".to_owned());
        }
        let own = Session::from_graph(graph(3), &options).map_err(|error| error.to_string())?;
        let same = run(&own, 40)?.same(&expected) && run(&inherited, 40)?.same(&expected);
        let begun = gets_janitor();
        let since = Instant::now();
        while has_janitor() && since.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if same && begun && !has_janitor() { Ok(()) } else { Err("the child's own is not looked at".to_owned()) }
    });
    assert_eq!(end, End::Good);
}
