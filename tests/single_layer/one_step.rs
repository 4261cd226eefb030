//! Tables of DecoderMaskedMultiHeadAttention over one buffer of past and present: the filled length is not part of a
//! shape.

use std::sync::Mutex;

use kiln::session::{RunOptions, Session, SessionOptions};
use kiln_cache::Outcome;
use kiln_kernels::Isa;
use kiln_model::ir::{Attr, Graph, NodeDesc};
use kiln_model::onnx::{Limits, load_bytes, write};
use kiln_model::{GraphBuilder, Value};
use kiln_run::{Observer, StepEvent};
use kiln_tensor::{DType, Tensor};

use crate::attention::attention;
use crate::harness::{Fill, random};
use crate::reference::{Array, build};

const HEADS: usize = 2;
const SIZE: usize = 8;
const WIDTH: usize = HEADS * SIZE;

/// Sequences, positions that the buffer has room for, and positions before the new one.
#[derive(Clone, Copy)]
struct Step {
    batch: usize,
    room: usize,
    before: usize,
}

fn step(batch: usize, room: usize, before: usize) -> Step {
    Step { batch, room, before }
}

/// A form of the operator.
#[derive(Clone, Copy, Default)]
struct Form {
    masked: bool,
    biased: bool,
    packed: bool,
    /// Beams of a group, where they read each other's rows.
    beams: Option<usize>,
    /// Whether scores are an output.
    scores: bool,
}

/// The operator's inputs in order; `None` where one is left out.
fn inputs(form: Form, at: Step, seed: u64) -> Vec<Option<Tensor>> {
    let Step { batch, room, before } = at;
    let draw = |shape: &[usize], own: u64| Some(random(shape, DType::F32, Fill::Unit, seed * 64 + own));
    let whole = |shape: &[usize], values: Vec<i32>| Some(Tensor::from_vec(shape.iter().copied(), values).unwrap());
    let rows = |own: u64| draw(&[batch, 1, if form.packed { 3 * WIDTH } else { WIDTH }], own);
    // The new position is always shown.
    let shown = |at: usize| i32::from(at % (before + 1) == before || !(at + at / 3).is_multiple_of(3));
    let mask = || whole(&[batch, before + 1], (0..batch * (before + 1)).map(shown).collect());
    let beam = |beams: usize| (0..batch * room).map(|at| ((at * 7 + at / 5) % beams) as i32).collect();
    vec![
        rows(0),
        rows(1).filter(|_| !form.packed),
        rows(2).filter(|_| !form.packed),
        if form.masked { mask() } else { None },
        draw(&[1, HEADS, 1, before + 1], 3).filter(|_| form.biased),
        draw(&[batch, HEADS, room, SIZE], 4),
        draw(&[batch, HEADS, room, SIZE], 5),
        whole(&[1], vec![before as i32]),
        form.beams.and_then(|beams| whole(&[1], vec![beams as i32])),
        form.beams.and_then(|beams| whole(&[batch / beams, beams, room], beam(beams))),
        draw(&[3 * WIDTH], 6).filter(|_| form.biased),
    ]
}

fn model(form: Form, inputs: &[Option<Tensor>]) -> Graph {
    let mut made = GraphBuilder::new("one_step", 24);
    let values = inputs.iter().enumerate().map(|(index, input)| {
        let input = input.as_ref()?;
        let dims = (0..input.shape().len()).map(|axis| format!("d{index}_{axis}").as_str().into());
        Some(made.input(&format!("x{index}"), input.dtype(), dims.collect::<Vec<_>>()))
    });
    let values = values.collect();
    let mut graph = made.finish();
    let outputs: Vec<_> = (0..if form.scores { 4 } else { 3 }).map(|_| graph.fresh("y")).collect();
    let attrs = [("num_heads", HEADS as i64), ("past_present_share_buffer", 1), ("output_qk", form.scores.into())];
    graph.nodes.push(NodeDesc {
        name: "step".to_owned(),
        domain: "com.microsoft".to_owned(),
        op: "DecoderMaskedMultiHeadAttention".to_owned(),
        version: 1,
        attrs: attrs.into_iter().map(|(name, value)| (name.to_owned(), Attr::Int(value))).collect(),
        inputs: values,
        outputs: outputs.iter().copied().map(Some).collect(),
    });
    graph.outputs = outputs;
    load_bytes(write(&graph).unwrap().into(), None, &Limits::default()).unwrap()
}

/// The outputs by the definition of the operator, in `f64`.
fn expected(form: Form, at: Step, inputs: &[Option<Tensor>]) -> Vec<Array> {
    let Step { batch, room, before } = at;
    let array = |index: usize| inputs[index].as_ref().map(Array::of);
    let bias = array(10);
    // Queries (0), keys (1) or values (2) of the new position.
    let own = |part: usize| {
        let given = array(if form.packed { 0 } else { part }).unwrap();
        let first = if form.packed { part * WIDTH } else { 0 };
        build(&[batch, HEADS, 1, SIZE], |to| {
            let feature = to[1] * SIZE + to[3];
            let bias = bias.as_ref().map_or(0.0, |bias| bias.get(&[part * WIDTH + feature]));
            given.get(&[to[0], 0, first + feature]) + bias
        })
    };
    let present = |part: usize| {
        let (past, new) = (array(4 + part).unwrap(), own(part));
        build(&[batch, HEADS, room, SIZE], |to| match to[2] == before {
            true => new.get(&[to[0], to[1], 0, to[3]]),
            false => past.get(to),
        })
    };
    let indirection: Option<Vec<i64>> = inputs[9].as_ref().map(|given| given.to_i64_vec().unwrap());
    let read = |present: &Array| {
        build(&[batch, HEADS, before + 1, SIZE], |to| {
            let from = match (&indirection, form.beams) {
                (Some(beam), Some(beams)) if to[2] < before => {
                    to[0] / beams * beams + beam[to[0] * room + to[2]] as usize
                }
                _ => to[0],
            };
            present.get(&[from, to[1], to[2], to[3]])
        })
    };
    let mask: Option<Vec<i64>> = inputs[3].as_ref().map(|given| given.to_i64_vec().unwrap());
    let added = |sequence: usize, head: usize, key: usize| {
        let shown = mask.as_ref().is_none_or(|mask| mask[sequence * (before + 1) + key] > 0);
        let bias = array(4).map_or(0.0, |bias| bias.get(&[0, head, 0, key]));
        bias + if shown { 0.0 } else { -10000.0 }
    };
    let (query, keys, values) = (own(0), present(1), present(2));
    let (seen_keys, seen_values) = (read(&keys), read(&values));
    let scale = 1.0 / (SIZE as f64).sqrt();
    let y = attention(&query, &seen_keys, &seen_values, scale, |at| Some(added(at[0], at[1], at[3])));
    let y = build(&[batch, 1, WIDTH], |at| y.get(&[at[0], at[2] / SIZE, 0, at[2] % SIZE]));
    let mut outputs = vec![y, keys, values];
    if form.scores {
        outputs.push(build(&[batch, HEADS, 1, before + 1], |at| {
            let key = |feature| seen_keys.get(&[at[0], at[1], at[3], feature]);
            let product: f64 = (0..SIZE).map(|feature| query.get(&[at[0], at[1], 0, feature]) * key(feature)).sum();
            product * scale + added(at[0], at[1], at[3])
        }));
    }
    outputs
}

/// What the steps of a request asked the cache, and whether each step was prepared.
#[derive(Default)]
struct Asked(Mutex<Vec<(bool, Option<Outcome>)>>);

impl Observer for Asked {
    fn step(&self, event: &StepEvent<'_>) {
        self.0.lock().unwrap().push((event.prepared, event.outcome));
    }
}

/// Runs a table at every level. `is_known` tells whether a step finds everything prepared by the steps before it.
fn check(form: Form, steps: &[Step], is_known: impl Fn(&[Step], Step) -> bool) {
    for isa in Isa::ALL {
        let options = SessionOptions { threads: 2, max_isa: Some(isa), cache_check: true, ..SessionOptions::default() };
        let session = Session::from_graph(model(form, &inputs(form, steps[0], 0)), &options).unwrap();
        for (number, &step) in steps.iter().enumerate() {
            let Step { batch, room, before } = step;
            let place = format!("{isa}, step {number}: {batch} sequences, {before} of {room}");
            let inputs = inputs(form, step, number as u64);
            let names: Vec<String> = (0..inputs.len()).map(|index| format!("x{index}")).collect();
            let given = names.iter().zip(&inputs);
            let given: Vec<(&str, Tensor)> =
                given.filter_map(|(name, input)| Some((name.as_str(), input.clone()?))).collect();
            let asked = Asked::default();
            let outputs = session.run_observed(&given, Some(&asked)).unwrap_or_else(|error| panic!("{place}: {error}"));
            let expected = expected(form, step, &inputs);
            assert_eq!(outputs.len(), expected.len(), "{place}");
            for (index, ((_, found), expected)) in outputs.iter().zip(&expected).enumerate() {
                let expected = expected.tensor();
                assert_eq!(found.spec(), expected.spec(), "{place}: output {index}");
                let pairs = found.as_slice::<f32>().unwrap().iter().zip(expected.as_slice::<f32>().unwrap());
                for (found, expected) in pairs {
                    let off = (found - expected).abs();
                    assert!(off <= 2e-5 + 1e-6 * expected.abs(), "{place}: output {index}: {found} for {expected}");
                }
            }
            let asked = asked.0.into_inner().unwrap();
            if is_known(&steps[..number], step) {
                let idle = asked.iter().all(|(prepared, outcome)| !prepared && outcome.is_none());
                assert!(idle, "{place}: known shapes were prepared again: {asked:?}");
            } else if number == 0 {
                assert!(asked.iter().any(|(_, outcome)| *outcome == Some(Outcome::Miss)), "{place}: nothing was built");
            }
        }
    }
}

const STEPS: &[(usize, usize, usize)] = &[
    (2, 9, 0),
    (2, 9, 1),
    (2, 9, 8),
    (4, 9, 3),
    (4, 9, 3),
    (2, 9, 1),
    (2, 70, 69),
    (2, 1100, 1050),
    (2, 70, 11),
    (4, 9, 7),
];

fn steps() -> Vec<Step> {
    STEPS.iter().map(|&(batch, room, before)| step(batch, room, before)).collect()
}

/// The same sequences and room.
fn same_room(earlier: &[Step], own: Step) -> bool {
    earlier.iter().any(|step| (step.batch, step.room) == (own.batch, own.room))
}

/// The same length as well.
fn same(earlier: &[Step], own: Step) -> bool {
    earlier.iter().any(|step| (step.batch, step.room, step.before) == (own.batch, own.room, own.before))
}

#[test]
fn steps_of_any_length_over_one_buffer_prepare_nothing() {
    check(Form::default(), &steps(), same_room);
    check(Form { packed: true, ..Form::default() }, &steps(), same_room);
}

#[test]
fn beams_read_rows_of_each_other() {
    check(Form { beams: Some(2), ..Form::default() }, &steps(), same_room);
    check(Form { beams: Some(1), masked: true, ..Form::default() }, &steps(), same);
}

#[test]
fn masks_and_biases_are_added_to_scores() {
    check(Form { masked: true, ..Form::default() }, &steps(), same);
    check(Form { biased: true, ..Form::default() }, &steps(), same);
    check(Form { biased: true, packed: true, masked: true, beams: Some(2), ..Form::default() }, &steps(), same);
}

#[test]
fn scores_are_those_of_the_positions_that_there_are() {
    check(Form { scores: true, ..Form::default() }, &steps(), same);
    check(Form { scores: true, masked: true, biased: true, beams: Some(2), ..Form::default() }, &steps(), same);
}

#[test]
fn a_buffer_of_the_caller_is_written_where_it_is() {
    let form = Form::default();
    let (first, outputs) = (inputs(form, step(2, 9, 0), 0), ["keys", "values"]);
    let mut graph = model(form, &first);
    for (output, name) in graph.outputs.clone().into_iter().skip(1).zip(outputs) {
        graph.values[output.index()].name = name.to_owned();
    }
    let session = Session::from_graph(graph, &SessionOptions::default()).unwrap();
    let mut buffers = [5, 6].map(|seed| random(&[2, HEADS, 9, SIZE], DType::F32, Fill::Unit, seed));
    for before in 0..9 {
        let mut all = inputs(form, step(2, 9, before), before as u64);
        let had =
            buffers.clone().map(|buffer| Tensor::from_slice([2, HEADS, 9, SIZE], buffer.as_slice::<f32>().unwrap()));
        [all[5], all[6]] = had.map(|buffer| Some(buffer.unwrap()));
        let expected = expected(form, step(2, 9, before), &all);
        let names = ["x0", "x1", "x2", "x7"].into_iter().zip([0, 1, 2, 7]);
        let given: Vec<_> = names.map(|(name, index)| (name, Value::Tensor(all[index].clone().unwrap()))).collect();
        let [keys, values] = buffers;
        let places = [keys.bytes().as_ptr(), values.bytes().as_ptr()];
        let over = [("x5", "keys"), ("x6", "values")];
        let bound = vec![("keys", keys), ("values", values)];
        let mut made = session.run_over(&given, bound, &over, &RunOptions::default()).unwrap().into_iter();
        let mut next = || match made.next() {
            Some((_, Value::Tensor(tensor))) => tensor,
            other => panic!("no tensor: {other:?}"),
        };
        let y = next();
        buffers = [next(), next()];
        assert_eq!(places, buffers.each_ref().map(|buffer| buffer.bytes().as_ptr()), "step {before}");
        for (found, expected) in [&y, &buffers[0], &buffers[1]].into_iter().zip(&expected) {
            let pairs = found.as_slice::<f32>().unwrap().iter().zip(&expected.data);
            assert!(pairs.into_iter().all(|(found, expected)| (f64::from(*found) - expected).abs() < 2e-5), "{before}");
        }
    }
}
