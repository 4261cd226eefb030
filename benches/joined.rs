//! Short requests whose rows are computed together, over the same requests side by side and over one batch of all
//! requests: `cargo bench --bench joined -- MODEL.onnx [--threads N] [--requests N]`.
//!
//! The model is a text encoder: its integer inputs of two dimensions, batch and length, are given numbers; inputs whose
//! names have `mask` in them are ones, others with `type` zeros. Runs lists of requests, the three ways in turn: lists
//! of one length each, then of 4 to 16 words, and then of the lengths of sentences. The batch is padded to the longest
//! request. Prints the median times of a list and how many times as fast joined rows are, and fails where a joined
//! request has other bits than alone. Last, for how long rows are still computed after their request has left its
//! group: at most for a stage of the group. Without a model nothing is measured.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::cell::RefCell;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use kiln::session::{Join, Width};
use kiln::{RunOptions, Session, SessionOptions, Tensor, Value};

/// Turns of each list.
const TURNS: usize = 11;

/// Lengths of sentences: half have up to twelve words, one in sixteen more than sixty.
const SENTENCES: [usize; 32] = [
    4, 5, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 14, 15, 16, 17, 18, 19, 21, 23, 25, 28, 31, 35, 40, 48, 60,
    90,
];

type Request<'n> = Vec<(&'n str, Tensor)>;

/// A request of `texts` texts of `length` words each.
fn request(names: &[String], texts: usize, length: usize, seed: usize) -> Result<Request<'_>, Box<dyn Error>> {
    let word = |name: &str, at: usize| match () {
        () if name.contains("mask") => 1,
        () if name.contains("type") => 0,
        () => ((at * 7 + seed * 13) % 1000) as i64,
    };
    let words = |name: &String| -> Vec<i64> { (0..texts * length).map(|at| word(name, at)).collect() };
    Ok(names
        .iter()
        .map(|name| Ok((name.as_str(), Tensor::from_vec([texts, length], words(name))?)))
        .collect::<Result<_, kiln::TensorError>>()?)
}

/// Milliseconds of a list, and its answers.
fn timed(session: &Session, requests: &[Request<'_>], join: Join) -> Result<(f64, Vec<Tensor>), Box<dyn Error>> {
    let options = RunOptions { join, ..RunOptions::default() };
    let start = Instant::now();
    let answers = session.run_many(requests, &options);
    let time = start.elapsed().as_secs_f64() * 1e3;
    let outputs = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((time, outputs.into_iter().flatten().map(|(_, tensor)| tensor).collect()))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut model, mut threads, mut count) = (None, 2, 64);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--threads" => threads = value()?.parse()?,
            "--requests" => count = value()?.parse()?,
            _ => model = Some(PathBuf::from(argument)),
        }
    }
    let Some(model) = model else {
        println!("no model was named: nothing is measured");
        return Ok(());
    };
    let session = Session::load(&model, &SessionOptions { threads, ..SessionOptions::default() })?;
    let names: Vec<String> = session.inputs().iter().map(|port| port.name.clone()).collect();
    let mut lists: Vec<(String, Vec<usize>)> =
        [4, 8, 12, 16, 24, 32, 40].map(|length| (format!("{length} words"), vec![length; count])).into();
    lists.push(("4 to 16 words".to_owned(), (0..count).map(|at| 4 + at * 5 % 13).collect()));
    lists.push(("sentences".to_owned(), SENTENCES.into_iter().cycle().take(count).collect()));
    println!("{count} requests on {threads} threads, ms; in brackets, how many times as fast joined rows are");
    println!("{:>14} {:>8} {:>17} {:>17}", "", "joined", "side by side", "one padded batch");
    for (what, lengths) in lists {
        let requests = lengths.iter().enumerate().map(|(seed, &length)| request(&names, 1, length, seed));
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        // Each request's own bits, and executors and plans of both ways.
        let [alone, joined] = [Join::Never, Join::Auto].map(|join| timed(&session, &requests, join));
        if !alone?.1.iter().zip(&joined?.1).all(|(alone, joined)| alone.same(joined)) {
            return Err(format!("{what}: joined rows have other bits").into());
        }
        let longest = lengths.iter().copied().max().unwrap_or(1);
        let batch = [request(&names, count, longest, 0)?];
        timed(&session, &batch, Join::Never)?;
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            let ways = [(&requests[..], Join::Auto), (&requests, Join::Never), (&batch, Join::Never)];
            for (times, (requests, join)) in times.iter_mut().zip(ways) {
                times.push(timed(&session, requests, join)?.0);
            }
        }
        let [joined, alone, batch] = times.map(median);
        let share = |time: f64| format!("{time:.1} ({:.2})", time / joined);
        println!("{what:>14} {joined:8.1} {:>17} {:>17}", share(alone), share(batch));
    }
    println!("{} requests were joined", session.share_stats().joined);
    let (half, longest) = stages(&session, &names)?;
    println!("what has left a group of 128 rows is computed {half:.2} ms longer, {longest:.2} at the most");
    Ok(())
}

fn values<'n>(request: &Request<'n>) -> Vec<(&'n str, Value)> {
    request.iter().map(|(name, tensor)| (*name, tensor.clone().into())).collect()
}

/// Milliseconds of the stages of a group on one thread: the median, and the longest one of all turns.
fn stages(session: &Session, names: &[String]) -> Result<(f64, f64), Box<dyn Error>> {
    let requests = (0..8).map(|seed| request(names, 1, 16, seed)).collect::<Result<Vec<_>, _>>()?;
    let requests: Vec<Vec<(&str, Value)>> = requests.iter().map(|request| values(request)).collect();
    let options = RunOptions { width: Width::Narrow, ..RunOptions::default() };
    let begun = RefCell::new(Vec::new());
    // Called for each request before each stage.
    let note = |request: usize| {
        if request == 0 {
            begun.borrow_mut().push(Instant::now());
        }
        false
    };
    let mut times = Vec::new();
    // The first turn makes executors and plans.
    session.run_together(&requests, &options, &|_| false).ok_or("the group fell apart")?;
    for _ in 0..TURNS {
        begun.borrow_mut().clear();
        session.run_together(&requests, &options, &note).ok_or("the group fell apart")?;
        let end = Instant::now();
        let begun = begun.borrow();
        let ends = begun.iter().skip(1).chain([&end]);
        times.extend(begun.iter().zip(ends).map(|(begun, end)| (*end - *begun).as_secs_f64() * 1e3));
    }
    let longest = times.iter().copied().fold(0.0, f64::max);
    Ok((median(times), longest))
}
