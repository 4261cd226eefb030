//! `kiln run`: one request, on files or on generated values.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kiln::session::{Session, SessionOptions};
use kiln_model::{Graph, Map, Value};
use kiln_tensor::{BoolByte, DType, Tensor, TensorError, minifloat};

use crate::arrays;
use crate::dump;
use crate::failure::{Failure, Outcome, WithCode};
use crate::feed::{self, FeedArgs, InputFile};
use crate::profile;
use crate::selection::{self, SelectionArgs};
use crate::setup::{self, DefaultCacheMode, SessionArgs};
use crate::shape;
use crate::table::{Table, milliseconds};
use crate::trace_out::TraceOut;
use crate::tuning;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ONNX file
    model: PathBuf,
    /// Values of an input: FILE or NAME=FILE, as .npy, .npz (by array name) or .pb; inputs without a file are generated
    #[arg(long = "input", value_name = "[NAME=]FILE", help_heading = "Inputs")]
    inputs: Vec<InputFile>,
    #[command(flatten)]
    feed: FeedArgs,
    /// Folder to write each output to, as NAME.npy; sequences as NAME.npz, maps as NAME.json
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Folder to write inner values of the model to, one .npy each, with an index.json; without --node and
    /// --all-values, the values that are still computed after the passes
    #[arg(long, value_name = "DIR", help_heading = "Values")]
    dump: Option<PathBuf>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    trace_out: TraceOut,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let mut options = args.session.options(DefaultCacheMode::Records)?;
    args.trace_out.watch(&mut options);
    let start = Instant::now();
    let model = tapped(args, &mut options)?;
    let session = setup::load(&args.model, &options)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;

    let mut inputs = feed::read_files(session.inputs(), &args.inputs)?;
    let files = inputs.len();
    let plan = feed::plan(session.inputs(), &inputs, &args.feed)?;
    let [recipes] = plan.requests.as_slice() else {
        return Err(Failure::usage("one run takes one shape for each input; `kiln bench` takes sequences"));
    };
    for recipe in recipes {
        inputs.push((recipe.name.clone(), recipe.make().usage(|| "cannot make inputs")?));
    }
    writeln!(screen, "{}: loaded in {} ms", args.model.display(), milliseconds(load_ms))?;
    for notice in &plan.notices {
        writeln!(screen, "notice: {notice}")?;
    }
    for (index, (name, tensor)) in inputs.iter().enumerate() {
        let source = if index < files { "from a file".to_owned() } else { format!("random, seed {}", args.feed.seed) };
        writeln!(screen, "input {name}: {} {}, {source}", tensor.dtype(), shape::text(tensor.shape()))?;
    }

    let start = Instant::now();
    let (outputs, inside) = request(args, &session, model.as_ref(), &inputs)?;
    let run_ms = start.elapsed().as_secs_f64() * 1e3;

    writeln!(screen, "ran in {} ms", milliseconds(run_ms))?;
    let mut table = Table::new(&["output", "type", "shape", ">min", ">max", ">mean"]);
    for (name, value) in &outputs {
        let (dtype, size, [min, max, mean]) = match value {
            Value::Tensor(tensor) => {
                let summary = summary(tensor).failed(|| format!("output '{name}'"))?;
                (tensor.dtype().to_string(), shape::text(tensor.shape()), summary)
            }
            other => (other.kind().to_owned(), count(other), ["-", "-", "-"].map(str::to_owned)),
        };
        table.row([name.clone(), dtype, size, min, max, mean]);
    }
    write!(screen, "{}", table.text())?;
    args.trace_out.write(&options)?;
    if let Some(folder) = &args.output_dir {
        write_outputs(folder, &outputs, screen)?;
    }
    if let (Some(folder), Some(model)) = (&args.dump, &model) {
        let given = inputs.into_iter().map(|(name, tensor)| (name, Value::Tensor(tensor)));
        let values: Vec<(String, Value)> = given.chain(inside).collect();
        let files = dump::write(folder, &args.model, options.isa().name(), model, &values)?;
        writeln!(screen, "wrote {files} values to {}", folder.display())?;
    }
    if let Some(profile) = session.profile() {
        write!(screen, "\n{}", profile::text(&profile))?;
    }
    tuning::settle(&session, screen)?;
    setup::save(&session, screen)
}

/// The model's graph if values from inside it are to be dumped, which become taps.
fn tapped(args: &Args, options: &mut SessionOptions) -> Outcome<Option<Graph>> {
    if args.dump.is_none() {
        if args.selection.any() {
            return Err(Failure::usage("--node and --all-values say what --dump writes, which is not given"));
        }
        return Ok(None);
    }
    let model = selection::model(&args.model, options)?;
    options.taps = args.selection.values(&model, || Ok(setup::load(&args.model, options)?.describe().clone()))?;
    Ok(Some(model))
}

/// Serves the request: returns the model's outputs and, if values are dumped, all values in the order of the graph.
fn request(args: &Args, session: &Session, model: Option<&Graph>, inputs: &[(String, Tensor)]) -> Outcome<Served> {
    let failed = |error| Failure::from(error).context(args.model.display().to_string());
    let feeds: Vec<(&str, Value)> =
        inputs.iter().map(|(name, tensor)| (name.as_str(), Value::Tensor(tensor.clone()))).collect();
    let values = session.run_values(&feeds).map_err(failed)?;
    let Some(model) = model else { return Ok((values, Vec::new())) };
    let outputs = values.iter().take(model.outputs.len()).cloned().collect();
    let mut inside: BTreeMap<String, Value> = values.into_iter().collect();
    let made = model.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    let order: Vec<&String> = made.map(|&id| &model.value(id).name).collect();
    let inside = order.into_iter().filter_map(|name| Some((name.clone(), inside.remove(name)?))).collect();
    Ok((outputs, inside))
}

/// Outputs, and values from inside a model.
type Served = (Vec<(String, Value)>, Vec<(String, Value)>);

/// How many tensors, maps or entries a value has.
fn count(value: &Value) -> String {
    match value {
        Value::Sequence(tensors) => tensors.len().to_string(),
        Value::Maps(maps) => maps.len().to_string(),
        Value::Map(map) => map.keys().len().to_string(),
        Value::Tensor(_) | Value::Nothing => "-".to_owned(),
    }
}

/// Minimum, maximum and mean of the elements as texts; dashes if there are none.
fn summary(tensor: &Tensor) -> Result<[String; 3], TensorError> {
    fn of(values: impl Iterator<Item = f64>) -> [String; 3] {
        let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0u64);
        for value in values {
            // `f64::min` would drop NaN, which is what the summary is for.
            min = if value.is_nan() || min.is_nan() { f64::NAN } else { min.min(value) };
            max = if value.is_nan() || max.is_nan() { f64::NAN } else { max.max(value) };
            sum += value;
            count += 1;
        }
        if count == 0 {
            return ["-", "-", "-"].map(str::to_owned);
        }
        [min, max, sum / count as f64].map(number)
    }
    macro_rules! over {
        ($element:ty, $to:expr) => {
            of(tensor.as_slice::<$element>()?.iter().map(|&v| $to(v)))
        };
    }
    Ok(match tensor.dtype() {
        DType::F32 => over!(f32, f64::from),
        DType::F64 => over!(f64, |v: f64| v),
        DType::F16 => over!(half::f16, f64::from),
        DType::BF16 => over!(half::bf16, f64::from),
        DType::I8 => over!(i8, f64::from),
        DType::I16 => over!(i16, f64::from),
        DType::I32 => over!(i32, f64::from),
        DType::I64 => over!(i64, |v: i64| v as f64),
        DType::U8 => over!(u8, f64::from),
        DType::U16 => over!(u16, f64::from),
        DType::U32 => over!(u32, f64::from),
        DType::U64 => over!(u64, |v: u64| v as f64),
        DType::Bool => over!(BoolByte, |v: BoolByte| f64::from(u8::from(v.get()))),
        DType::String => of(std::iter::empty()),
        small if small.is_minifloat() => of(tensor.bytes().iter().map(|&v| f64::from(minifloat::decode(small, v)))),
        DType::U4 | DType::U2 => of(tensor.bytes().iter().map(|&v| f64::from(v))),
        // I4 and I2, whose bytes are sign-extended.
        _ => of(tensor.bytes().iter().map(|&v| f64::from(v as i8))),
    })
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && !(1e-3..1e6).contains(&size) => format!("{value:.4e}"),
        _ => format!("{value:.4}"),
    }
}

fn write_outputs(folder: &Path, outputs: &[(String, Value)], screen: &mut dyn Write) -> Outcome {
    std::fs::create_dir_all(folder).usage(|| format!("--output-dir: cannot create {}", folder.display()))?;
    let mut taken = BTreeSet::new();
    for (name, value) in outputs {
        let mut file = file_name(name);
        while !taken.insert(file.clone()) {
            file.push('_');
        }
        let path = |ending: &str| folder.join(format!("{file}.{ending}"));
        let path = match value {
            Value::Tensor(tensor) => {
                let path = path("npy");
                arrays::write_npy(&path, tensor)?;
                path
            }
            Value::Sequence(tensors) => {
                let (path, tensors) = (path("npz"), tensors.iter().cloned().enumerate());
                let named: Vec<(String, Tensor)> = tensors.map(|(place, tensor)| (place.to_string(), tensor)).collect();
                arrays::write_npz(&path, &named)?;
                path
            }
            Value::Map(map) => write_json(path("json"), &object(map).failed(|| format!("output '{name}'"))?)?,
            Value::Maps(maps) => {
                let objects = maps.iter().map(object).collect::<Result<_, _>>();
                let objects = objects.failed(|| format!("output '{name}'"))?;
                write_json(path("json"), &serde_json::Value::Array(objects))?
            }
            Value::Nothing => continue,
        };
        writeln!(screen, "wrote {}", path.display())?;
    }
    Ok(())
}

fn write_json(path: PathBuf, value: &serde_json::Value) -> Outcome<PathBuf> {
    std::fs::write(&path, value.to_string()).failed(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// A map as JSON, with keys as texts. Values that are not finite become null.
fn object(map: &Map) -> Result<serde_json::Value, TensorError> {
    let keys: Vec<String> = match map.keys().dtype() {
        DType::String => map.keys().as_strings()?.to_vec(),
        _ => map.keys().as_slice::<i64>()?.iter().map(ToString::to_string).collect(),
    };
    let values: Vec<serde_json::Value> = match map.values().dtype() {
        DType::String => map.values().as_strings()?.iter().cloned().map(Into::into).collect(),
        DType::F32 => map.values().as_slice::<f32>()?.iter().copied().map(Into::into).collect(),
        DType::F64 => map.values().as_slice::<f64>()?.iter().copied().map(Into::into).collect(),
        _ => map.values().as_slice::<i64>()?.iter().copied().map(Into::into).collect(),
    };
    Ok(keys.into_iter().zip(values).collect())
}

/// An output's name without characters that file names must not have: names in models have slashes and colons.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if text.trim_matches('.').is_empty() { "output".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_show_range_and_mean_of_any_type() {
        let text = |tensor: &Tensor| summary(tensor).unwrap().join(" ");
        assert_eq!(text(&Tensor::from_slice([3], &[-1f32, 0.0, 4.0]).unwrap()), "-1.0000 4.0000 1.0000");
        assert_eq!(text(&Tensor::from_slice([2], &[3i64, 4]).unwrap()), "3.0000 4.0000 3.5000");
        assert_eq!(text(&Tensor::from_slice([2], &[f32::NAN, 1.0]).unwrap()), "NaN NaN NaN");
        assert_eq!(text(&Tensor::from_slice([1], &[1e-9f32]).unwrap()), "1.0000e-9 1.0000e-9 1.0000e-9");
        assert_eq!(text(&Tensor::from_slice::<f32>([0], &[]).unwrap()), "- - -");
    }

    #[test]
    fn maps_are_objects() {
        let keys = Tensor::from_slice([2], &[3i64, -1]).unwrap();
        let map = Map::new(keys, Tensor::from_slice([2], &[0.5f32, f32::NAN]).unwrap()).unwrap();
        assert_eq!(object(&map).unwrap().to_string(), r#"{"-1":null,"3":0.5}"#);
    }

    #[test]
    fn outputs_never_leave_their_folder() {
        for (name, file) in [("a/b:0", "a_b_0"), ("../../etc", ".._.._etc"), ("", "output"), ("..", "output")] {
            assert_eq!(file_name(name), file);
        }
    }
}
