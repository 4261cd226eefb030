//! Real models: a row of a batch has the same bits as alone. `tests/zoo/run` runs this, with the folders of its cases
//! in `KILN_ZOO_CASES`, separated as paths are.
//!
//! A model takes batches if the first dimension of an input has no fixed size and every output grows with it along one
//! axis. Other inputs have their rows along their first dimension without a fixed size: for a recurrent state it is the
//! second.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kiln::session::{Numerics, Port, Session, SessionOptions};
use kiln_model::Graph;
use kiln_model::ir::{Attr, Dim};
use kiln_model::onnx::{self, Limits};
use kiln_run::record::CacheMode;
use kiln_tensor::{DType, Tensor, TensorSpec};

/// Operators whose results depend on the whole batch by definition, or on chance.
const MIXING: &[&str] = &["DynamicQuantize", "Random", "Multinomial", "Bernoulli"];

/// Models whose first dimension is no batch: rows follow each other, and each row changes the results after it.
const SEQUENCES: &[&str] = &["silero_seq"];

const ROWS: usize = 5;
const BATCHES: [usize; 2] = [2, ROWS];

fn mixes(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| {
        let within = |attr: &Attr| matches!(attr, Attr::Graph(body) if mixes(body));
        MIXING.iter().any(|op| node.op.starts_with(op)) || node.attrs.iter().any(|(_, attr)| within(attr))
    })
}

/// Where a tensor is cut into rows.
struct Cut {
    outer: usize,
    /// Bytes of a row within each of the outer ones.
    inner: usize,
    rows: usize,
}

impl Cut {
    fn of(tensor: &Tensor, axis: usize) -> Cut {
        let (outer, rows) = (tensor.shape()[..axis].iter().product(), tensor.shape()[axis]);
        Cut { outer, inner: tensor.byte_len() / (outer * rows).max(1), rows }
    }

    fn row(&self, bytes: &[u8], row: usize) -> Vec<u8> {
        let from = |outer: usize| (outer * self.rows + row) * self.inner;
        (0..self.outer).flat_map(|outer| &bytes[from(outer)..][..self.inner]).copied().collect()
    }
}

/// A tensor with these rows along an axis. Its other dimensions are those of `like`.
fn joined(like: &Tensor, axis: usize, rows: &[Vec<u8>]) -> Tensor {
    let Cut { outer, inner, .. } = Cut::of(like, axis);
    let bytes: Vec<u8> =
        (0..outer).flat_map(|at| rows.iter().flat_map(move |row| &row[at * inner..][..inner])).copied().collect();
    let mut shape = like.shape().to_vec();
    shape[axis] = rows.len();
    Tensor::from_bytes(TensorSpec::new(like.dtype(), shape), &bytes).unwrap()
}

/// Row `number`, made from the first one: floats are scaled, whole numbers are rotated.
fn varied(first: &[u8], dtype: DType, row: usize) -> Vec<u8> {
    if dtype == DType::F32 {
        let factor = 1.0 - row as f32 / 16.0;
        let scaled = |value: &[u8]| f32::from_le_bytes(value.try_into().unwrap()) * factor;
        return first.chunks_exact(4).flat_map(|value| scaled(value).to_le_bytes()).collect();
    }
    let mut turned = first.to_vec();
    let by = (row * dtype.size()) % turned.len().max(1);
    turned.rotate_left(by);
    turned
}

/// An input of a model: its value in a request, and the axis of its rows where it has one.
struct Input {
    name: String,
    value: Tensor,
    axis: Option<usize>,
}

impl Input {
    /// The input with these rows.
    fn of(&self, rows: std::ops::Range<usize>) -> Tensor {
        let Some(axis) = self.axis else { return self.value.clone() };
        let first = Cut::of(&self.value, axis).row(self.value.bytes(), 0);
        let rows: Vec<Vec<u8>> = rows.map(|row| varied(&first, self.value.dtype(), row)).collect();
        joined(&self.value, axis, &rows)
    }
}

/// The first request of a case; `None` where an input is no tensor of numbers or no input has a row.
fn request(case: &Path, ports: &[Port]) -> Option<Vec<Input>> {
    let demanded = ports.iter().filter(|port| !port.has_default).enumerate();
    let mut inputs = Vec::new();
    for (index, port) in demanded {
        let file = std::fs::read(case.join(format!("test_data_set_0/input_{index}.pb"))).ok()?;
        let value = onnx::read_tensor(file).ok().filter(|value| value.dtype() != DType::String)?;
        let dims = port.dims.as_deref().unwrap_or_default();
        let axis = dims.iter().position(|dim| !matches!(dim, Dim::Fixed(_)));
        let axis = axis.filter(|&axis| value.shape().get(axis).is_some_and(|&size| size > 0));
        inputs.push(Input { name: port.name.clone(), value, axis });
    }
    inputs.iter().any(|input| input.axis == Some(0)).then_some(inputs)
}

fn run(session: &Session, inputs: &[Input], rows: std::ops::Range<usize>) -> Option<Vec<Tensor>> {
    let values: Vec<(&str, Tensor)> =
        inputs.iter().map(|input| (input.name.as_str(), input.of(rows.clone()))).collect();
    let outputs = session.run(&values).ok()?;
    Some(outputs.into_iter().map(|(_, output)| output).collect())
}

/// The axis along which `many` has `rows` rows where `one` has a single one.
fn axis(one: &Tensor, many: &Tensor, rows: usize) -> Option<usize> {
    let (one, many) = (one.shape(), many.shape());
    let mut grown = (0..one.len()).filter(|&axis| one[axis] != many[axis]);
    let axis = grown.next().filter(|_| one.len() == many.len() && grown.next().is_none())?;
    (one[axis] == 1 && many[axis] == rows).then_some(axis)
}

/// How a model was compared.
enum Ending {
    /// It has no batch, or its rows depend on each other by definition.
    NotCompared(&'static str),
    Same,
    Differs(String),
}

fn compare(case: &Path, numerics: Numerics) -> Ending {
    if SEQUENCES.iter().any(|name| case.ends_with(name)) {
        return Ending::NotCompared("a sequence");
    }
    let Ok(graph) = onnx::load(&case.join("model.onnx"), &Limits::default()) else {
        return Ending::NotCompared("refused");
    };
    if mixes(&graph) {
        return Ending::NotCompared("its rows depend on the batch by definition");
    }
    let options =
        |threads| SessionOptions { threads, numerics, cache_mode: CacheMode::Memory, ..SessionOptions::default() };
    let Ok(alone) = Session::from_graph(graph.clone(), &options(1)) else { return Ending::NotCompared("refused") };
    let Some(inputs) = request(case, alone.inputs()) else { return Ending::NotCompared("no batch") };
    let together = Session::from_graph(graph, &options(2)).unwrap();
    let singles: Option<Vec<Vec<Tensor>>> = (0..ROWS).map(|row| run(&alone, &inputs, row..row + 1)).collect();
    let Some(singles) = singles else { return Ending::NotCompared("one row does not run") };
    for rows in BATCHES {
        let Some(all) = run(&together, &inputs, 0..rows) else { return Ending::NotCompared("no batch runs") };
        for (output, all) in all.iter().enumerate() {
            let Some(axis) = axis(&singles[0][output], all, rows) else {
                return Ending::NotCompared("an output has no row");
            };
            let cut = Cut::of(all, axis);
            let other = |&row: &usize| {
                let single: &Tensor = &singles[row][output];
                cut.row(all.bytes(), row) != single.bytes()
            };
            if let Some(row) = (0..rows).find(other) {
                return Ending::Differs(format!("output {output}, row {row} of {rows}"));
            }
        }
    }
    Ending::Same
}

#[test]
#[ignore = "needs models, which tests/zoo/run fetches"]
fn a_row_of_a_real_model_has_the_same_bits_in_any_batch() {
    #[allow(clippy::disallowed_methods, reason = "it is the setting of a test, not of Kiln")]
    let cases = std::env::var_os("KILN_ZOO_CASES").expect("KILN_ZOO_CASES has the folders of cases");
    let cases: Vec<PathBuf> = std::env::split_paths(&cases).collect();
    let (mut same, mut differ, mut told) = (0, Vec::new(), String::new());
    for case in &cases {
        let name = case.file_name().unwrap().to_string_lossy();
        let start = Instant::now();
        let ending = match compare(case, Numerics::Invariant) {
            Ending::NotCompared(why) => format!("not compared: {why}"),
            Ending::Same => {
                same += 1;
                "the same bits".to_owned()
            }
            Ending::Differs(what) => {
                differ.push(format!("{name}: {what}"));
                format!("differs: {what}")
            }
        };
        let _ = writeln!(told, "{name}: {ending} ({:.1} s)", start.elapsed().as_secs_f32());
    }
    println!("{told}{same} of {} models compared, with the same bits", cases.len());
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    let mut by_default = cases.iter().map(|case| compare(case, Numerics::Default));
    assert!(by_default.any(|ending| matches!(ending, Ending::Differs(_))), "this shows nothing: all do so by default");
    assert!(same >= 10, "only {same} of {} models have a batch that runs", cases.len());
}
