//! Packed models from load to end: `cargo bench --bench packed -- MODEL[:NAME=SIZE,...]... [--threads N] [--rounds N]
//! [--loads N] [--unprepared]`.
//!
//! A model is an ONNX file, which is packed first, or a packed file. Its named dimensions have the sizes behind the
//! colon; all others are 1. Each round gives each model a process of its own, in turn: the load of the packed model,
//! with records of an earlier process, its first request, the median of the repeats, that of cold repeats, for which
//! the processor's caches hold none of the weights, as for the first request, and a second session beside the first,
//! with the proportional memory (`Pss`, Linux only) that the second adds to the process when it is loaded and when it
//! has answered. Figures are medians of the rounds. With several models, one more process loads them in turn, runs each
//! once and drops it, 100 times in all, and prints the growth of its memory after a rest. With `--unprepared` nothing is
//! made ready for requests at load: neither plans nor memory.
//!
//! Files are in the page cache, because they have just been written or read. Without a model nothing is measured.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kiln::session::{Port, Session, SessionOptions};
use kiln_model::ir::Dim;
use kiln_tensor::{DType, Tensor};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Requests behind the first one, and as many with cold caches; the first is compared with the median of each.
const REPEATS: usize = 7;

/// Bytes that are written before a cold repeat: more than the last caches of most processors.
const SWEPT: usize = 256 << 20;

/// The first argument of a child; its task, the folder of records, the threads and the models follow.
const CHILD: &str = "--child";

/// Longer than the rest after which memory goes back to the system.
const REST: Duration = Duration::from_secs(7);

/// Figures of one process, in the order in which a child prints them.
const FIGURES: [&str; 7] = [
    "load ms",
    "first request ms",
    "repeat ms",
    "cold repeat ms",
    "second session ms",
    "its MiB",
    "its MiB after a request",
];

/// A model, and the sizes of its named dimensions.
#[derive(Clone, Debug)]
struct Model {
    path: PathBuf,
    sizes: Vec<(String, usize)>,
}

impl Model {
    /// `PATH` or `PATH:NAME=SIZE,...`.
    fn parse(text: &str) -> Outcome<Model> {
        let Some((path, sizes)) = text.rsplit_once(':').filter(|(_, sizes)| sizes.contains('=')) else {
            return Ok(Model { path: text.into(), sizes: Vec::new() });
        };
        let size = |part: &str| -> Outcome<(String, usize)> {
            let (name, size) = part.split_once('=').ok_or(format!("'{part}' in '{text}' is not NAME=SIZE"))?;
            Ok((name.to_owned(), size.parse().map_err(|error| format!("'{part}' in '{text}': {error}"))?))
        };
        Ok(Model { path: path.into(), sizes: sizes.split(',').map(size).collect::<Outcome<_>>()? })
    }

    fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        let path = self.path.display();
        if sizes.is_empty() { path.to_string() } else { format!("{path}:{}", sizes.join(",")) }
    }

    fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Values of that input: numbers between -1 and 1, and whole numbers of 1, which are valid tokens and masks.
    fn input(&self, port: &Port) -> Outcome<Tensor> {
        let dims = port.dims.as_ref().ok_or(format!("input '{}' has no declared rank", port.name))?;
        let size = |dim: &Dim| match dim {
            Dim::Fixed(size) => *size,
            Dim::Named(name) => self.sizes.iter().find(|(given, _)| given == name).map_or(1, |(_, size)| *size),
            Dim::Any => 1,
        };
        let shape: Vec<usize> = dims.iter().map(size).collect();
        let count: usize = shape.iter().product();
        Ok(match port.dtype {
            Some(DType::F32) => {
                let values: Vec<f32> = (0..count).map(|at| (at * 7919 % 2001) as f32 / 1000.0 - 1.0).collect();
                Tensor::from_vec(shape, values)?
            }
            Some(DType::I64) => Tensor::from_vec(shape, vec![1_i64; count])?,
            Some(DType::I32) => Tensor::from_vec(shape, vec![1_i32; count])?,
            other => return Err(format!("no values are made up for input '{}' of type {other:?}", port.name).into()),
        })
    }
}

/// Inputs of a request by their names.
type Request = Vec<(String, Tensor)>;

/// Loads the packed model; also returns the time of the load, in milliseconds.
fn load(model: &Model, options: &SessionOptions) -> Outcome<(Session, f64)> {
    let begun = Instant::now();
    let session = Session::load(&model.path, options)?;
    let took = milliseconds(begun);
    if !session.is_packed() {
        return Err(format!("{} is no packed model", model.path.display()).into());
    }
    Ok((session, took))
}

/// A request to sessions of the model.
fn request(model: &Model, session: &Session) -> Outcome<Request> {
    let required = session.inputs().iter().filter(|port| !port.has_default);
    required.map(|port| Ok((port.name.clone(), model.input(port)?))).collect()
}

/// Runs the request; returns its time, in milliseconds.
fn ask(session: &Session, request: &Request) -> Outcome<f64> {
    let inputs: Vec<(&str, Tensor)> = request.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let begun = Instant::now();
    session.run(&inputs)?;
    Ok(milliseconds(begun))
}

/// Runs the request some times after a write of more memory than the processor's caches hold; returns the median.
fn ask_cold(session: &Session, request: &Request) -> Outcome<f64> {
    let mut swept = vec![0_u64; SWEPT / size_of::<u64>()];
    let mut times = Vec::new();
    for number in 0..REPEATS {
        swept.fill(number as u64);
        std::hint::black_box(&mut swept);
        times.push(ask(session, request)?);
    }
    Ok(median(times))
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

/// The process' share of memory, in MiB: a page that several processes map counts in parts.
fn proportional() -> Outcome<f64> {
    let path = "/proc/self/smaps_rollup";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).ok_or(format!("{path} has no Pss"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().map_err(|error| format!("{path}: '{line}': {error}"))?;
    Ok(kib / 1024.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn options(folder: &Path, given: &Arguments) -> SessionOptions {
    SessionOptions {
        threads: given.threads,
        cache_dir: Some(folder.into()),
        rehearse: given.prepared,
        prepare_memory: given.prepared,
        ..SessionOptions::default()
    }
}

/// The measurements of a process with one model, as [`FIGURES`] names them.
fn start(model: &Model, options: &SessionOptions) -> Outcome<Vec<f64>> {
    let (first, took) = load(model, options)?;
    let request = request(model, &first)?;
    let answered = ask(&first, &request)?;
    let repeats = (0..REPEATS).map(|_| ask(&first, &request)).collect::<Outcome<Vec<f64>>>()?;
    let cold = ask_cold(&first, &request)?;
    let before = proportional()?;
    let (second, beside) = load(model, options)?;
    let loaded = proportional()?;
    ask(&second, &request)?;
    let asked = proportional()?;
    Ok(vec![took, answered, median(repeats), cold, beside, loaded - before, asked - before])
}

/// The growth of a process that loads, runs and drops the models in turn: since before the first load, and since each
/// model was loaded once, both after a rest.
fn churn(models: &[Model], options: &SessionOptions, loads: usize) -> Outcome<Vec<f64>> {
    let before = proportional()?;
    let mut turned = before;
    for (number, model) in models.iter().cycle().take(loads).enumerate() {
        if number == models.len() {
            std::thread::sleep(REST);
            turned = proportional()?;
        }
        let (session, _) = load(model, options)?;
        ask(&session, &request(model, &session)?)?;
    }
    std::thread::sleep(REST);
    let after = proportional()?;
    Ok(vec![after - before, after - turned])
}

/// The settings of a measurement, for the parent and its children.
struct Arguments {
    models: Vec<Model>,
    threads: usize,
    rounds: usize,
    loads: usize,
    /// Whether plans and memory are made ready for requests at load.
    prepared: bool,
    /// In a child: its task and the folder of records.
    child: Option<(String, PathBuf)>,
}

fn arguments() -> Outcome<Arguments> {
    let mut given = std::env::args().skip(1).filter(|argument| argument != "--bench" && argument != "--test");
    let mut read = Arguments { models: Vec::new(), threads: 0, rounds: 5, loads: 100, prepared: true, child: None };
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--threads" => read.threads = value()?.parse()?,
            "--rounds" => read.rounds = value()?.parse::<usize>()?.max(1),
            "--loads" => read.loads = value()?.parse()?,
            "--unprepared" => read.prepared = false,
            CHILD => read.child = Some((value()?, value()?.into())),
            option if option.starts_with("--") => return Err(format!("there is no option {option}").into()),
            model => read.models.push(Model::parse(model)?),
        }
    }
    Ok(read)
}

/// Runs this program again for a task, and reads the numbers that it prints.
fn child(task: &str, models: &[Model], folder: &Path, given: &Arguments) -> Outcome<Vec<f64>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).arg(task).arg(folder).args(models.iter().map(Model::text));
    command.args(["--threads", &given.threads.to_string(), "--loads", &given.loads.to_string()]);
    command.args((!given.prepared).then_some("--unprepared"));
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let names: Vec<String> = models.iter().map(Model::name).collect();
        return Err(format!("the process that measures '{task}' of {}: {}", names.join(", "), output.status).into());
    }
    Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

/// The model as a packed file: itself if it is one.
fn packed(model: &Model, folder: &Path, options: &SessionOptions) -> Outcome<Model> {
    let shown = model.path.display();
    let mut magic = [0; 8];
    std::fs::File::open(&model.path)
        .and_then(|mut file| file.read_exact(&mut magic))
        .map_err(|error| format!("{shown}: {error}"))?;
    if &magic == b"KILNPACK" {
        return Ok(model.clone());
    }
    let path = folder.join(format!("{}.kpk", model.name()));
    if path.exists() {
        return Err(format!("{shown}: another model has its name").into());
    }
    Session::pack(&model.path, &path, options)?;
    Ok(Model { path, sizes: model.sizes.clone() })
}

fn main() -> Outcome<()> {
    let given = arguments()?;
    if let Some((task, folder)) = &given.child {
        let options = options(folder, &given);
        let figures = match task.as_str() {
            "start" => start(given.models.first().ok_or("no model is named")?, &options)?,
            "churn" => churn(&given.models, &options, given.loads)?,
            other => return Err(format!("there is no task '{other}'").into()),
        };
        figures.iter().for_each(|figure| println!("{figure}"));
        return Ok(());
    }
    if given.models.is_empty() {
        println!("no model is named: nothing is measured");
        println!(
            "cargo bench --bench packed -- MODEL[:NAME=SIZE,...]... [--threads N] [--rounds N] [--loads N] [--unprepared]"
        );
        return Ok(());
    }
    if given.models.len() > 1 && given.loads <= given.models.len() {
        return Err(format!("--loads {} loads no model twice", given.loads).into());
    }
    let folder = tempfile::tempdir()?;
    let records = folder.path().join("records");
    let own = options(&records, &given);
    let models =
        given.models.iter().map(|model| packed(model, folder.path(), &own)).collect::<Outcome<Vec<Model>>>()?;
    for model in &models {
        // This run leaves records of its requests, and checks the file.
        child("start", std::slice::from_ref(model), &records, &given)?;
    }
    let mut measured: Vec<[Vec<f64>; FIGURES.len()]> = models.iter().map(|_| Default::default()).collect();
    for _ in 0..given.rounds {
        for (model, measured) in models.iter().zip(&mut measured) {
            let figures = child("start", std::slice::from_ref(model), &records, &given)?;
            if figures.len() != FIGURES.len() {
                return Err(format!("{}: {} figures of {}", model.name(), figures.len(), FIGURES.len()).into());
            }
            measured.iter_mut().zip(figures).for_each(|(values, figure)| values.push(figure));
        }
    }
    println!("medians of {} processes each", given.rounds);
    for (model, measured) in models.iter().zip(measured) {
        let answers = measured[0].iter().zip(&measured[1]).map(|(load, first)| load + first).collect();
        let over = |repeat: usize| {
            median(measured[1].iter().zip(&measured[repeat]).map(|(first, repeat)| first / repeat).collect())
        };
        let (warm, cold) = (over(2), over(3));
        print!("{}: answer {:.2} ms, first over repeat {warm:.2}, over cold {cold:.2}", model.name(), median(answers));
        for (name, values) in FIGURES.iter().zip(measured) {
            print!(", {name} {:.2}", median(values));
        }
        println!();
    }
    if let [_, _, ..] = models[..] {
        let figures = child("churn", &models, &records, &given)?;
        let [whole, later] = figures[..] else { return Err(format!("{} figures of 2", figures.len()).into()) };
        println!(
            "{} loads and drops of {} models in turn: {whole:.1} MiB more than before the first, {later:.1} more than \
             after each was loaded once",
            given.loads,
            models.len(),
        );
    }
    Ok(())
}
