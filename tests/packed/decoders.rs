//! Packed models of decoders: the same logits as from the ONNX file in every step, and a refusal if a packed model's
//! description of steps does not match its session.

use std::path::Path;
use std::time::Duration;

use kiln::packed::PackedError;
use kiln::packed::index::{BiasRow, Index, StepsRow};
use kiln::session::decoder::{Decoder, DecoderError};
use kiln::session::{Pack, RunOptions, Session, SessionError, SessionOptions};
use kiln_model::ir::{Attr, Dim};
use kiln_model::onnx;
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_run::record::encode_long;
use kiln_tensor::{DType, Tensor};

use crate::damaged::{index, signed, strict};
use crate::models::{numbers, tensor};
use crate::options;

const WORDS: usize = 40;
const HIDDEN: usize = 32;
const HEADS: usize = 2;
const SIZE: usize = 16;

/// Inputs of a decoder.
struct Given {
    build: GraphBuilder,
    tokens: ValueId,
    mask: Option<ValueId>,
    past: [ValueId; 2],
}

impl Given {
    fn new(name: &str, new: Dim, has_mask: bool) -> Given {
        let mut build = GraphBuilder::new(name, 21);
        let tokens = build.input("input_ids", DType::I64, ["batch".into(), new]);
        let mask = has_mask.then(|| build.input("attention_mask", DType::I64, ["batch", "total"].map(Dim::from)));
        let past = ["key", "value"].map(|part| {
            let dims = ["batch".into(), HEADS.into(), "past".into(), SIZE.into()];
            build.input(&format!("past_key_values.0.{part}"), DType::F32, dims)
        });
        Given { build, tokens, mask, past }
    }

    fn weights(&mut self, shape: &[usize], seed: usize) -> ValueId {
        self.build.constant(tensor(shape, seed))
    }

    fn times(&mut self, left: ValueId, seed: usize, columns: usize) -> ValueId {
        let right = self.weights(&[HIDDEN, columns], seed);
        self.build.op("MatMul", &[left, right], &[])
    }

    fn numbers(&mut self, values: &[i64]) -> ValueId {
        self.build.constant(Tensor::from_vec([values.len()], values.to_vec()).unwrap())
    }

    fn end(mut self, hidden: ValueId, presents: [ValueId; 2]) -> Graph {
        let logits = self.times(hidden, 9, WORDS);
        self.build.output("logits", logits);
        self.build.output("present.0.key", presents[0]);
        self.build.output("present.0.value", presents[1]);
        self.build.finish()
    }
}

/// As onnxruntime-genai's builder writes them, with a product by four bits.
fn grouped() -> Graph {
    grouped_behind(|_, hidden| hidden)
}

/// The same, behind a layer.
fn grouped_behind(layer: impl Fn(&mut Given, ValueId) -> ValueId) -> Graph {
    let mut given = Given::new("grouped", "new".into(), true);
    let mask = given.mask.unwrap();
    let to_i32 = [("to", Attr::Int(6))];
    let (one, axis) = (given.numbers(&[1]), given.numbers(&[1]));
    let sums = given.build.op("ReduceSum", &[mask, axis], &[("keepdims", 0i64.into())]);
    let last = given.build.op("Sub", &[sums, one], &[]);
    let shape = given.build.op("Shape", &[mask], &[]);
    let place = given.build.constant(Tensor::scalar(1i64));
    let total = given.build.op("Gather", &[shape, place], &[]);
    let [last, total] = [last, total].map(|value| given.build.op("Cast", &[value], &to_i32));
    let table = given.weights(&[WORDS, HIDDEN], 1);
    let hidden = given.build.op("Gather", &[table, given.tokens], &[]);
    let hidden = layer(&mut given, hidden);
    let [query, key, value] = [2, 3, 4].map(|seed| given.times(hidden, seed, HEADS * SIZE));
    let inputs = [query, key, value, given.past[0], given.past[1], last, total].map(Some);
    let attrs = [("num_heads", (HEADS as i64).into()), ("kv_num_heads", (HEADS as i64).into())];
    let made = given.build.op_many("GroupQueryAttention", &inputs, 3, &attrs);
    let codes: Vec<u8> = (0..HIDDEN * HIDDEN / 2).map(|at| (at * 37 % 251) as u8).collect();
    let codes = given.build.constant(Tensor::from_vec([HIDDEN, 1, HIDDEN / 2], codes).unwrap());
    let scales = given.weights(&[HIDDEN], 5);
    let attrs = [("K", 32i64.into()), ("N", 32i64.into()), ("bits", 4i64.into()), ("block_size", 32i64.into())];
    let inputs = [made[0], codes, scales].map(Some);
    let mixed = given.build.op_of("com.microsoft", "MatMulNBits", &inputs, &attrs);
    let sum = given.build.op("Add", &[hidden, mixed], &[]);
    let hidden = given.build.op("Tanh", &[sum], &[]);
    let mut graph = given.end(hidden, [made[1], made[2]]);
    for node in graph.nodes.iter_mut().filter(|node| node.op == "GroupQueryAttention") {
        (node.domain, node.version) = ("com.microsoft".to_owned(), 1);
    }
    graph
}

/// As exporters write them that know no cache, for steps of one token.
fn plain() -> Graph {
    plain_of(WORDS)
}

/// The same, with `rows` rows in the table of tokens.
fn plain_of(rows: usize) -> Graph {
    let mut given = Given::new("plain", 1usize.into(), false);
    let table = given.weights(&[rows, HIDDEN], 1);
    let hidden = given.build.op("Gather", &[table, given.tokens], &[]);
    let heads = given.numbers(&[0, 0, HEADS as i64, SIZE as i64]);
    let swap = [("perm", Attr::Ints(vec![0, 2, 1, 3]))];
    let [query, key, value] = [2, 3, 4].map(|seed| {
        let flat = given.times(hidden, seed, HEADS * SIZE);
        let split = given.build.op("Reshape", &[flat, heads], &[]);
        given.build.op("Transpose", &[split], &swap)
    });
    let along = [("axis", Attr::Int(2))];
    let keys = given.build.op("Concat", &[given.past[0], key], &along);
    let values = given.build.op("Concat", &[given.past[1], value], &along);
    let turned = given.build.op("Transpose", &[keys], &[("perm", Attr::Ints(vec![0, 1, 3, 2]))]);
    let scores = given.build.op("MatMul", &[query, turned], &[]);
    let scale = given.build.constant(Tensor::scalar(0.25f32));
    let scores = given.build.op("Mul", &[scores, scale], &[]);
    let scores = given.build.op("Softmax", &[scores], &[("axis", Attr::Int(-1))]);
    let mixed = given.build.op("MatMul", &[scores, values], &[]);
    let mixed = given.build.op("Transpose", &[mixed], &swap);
    let rows = given.numbers(&[0, 0, HIDDEN as i64]);
    let mixed = given.build.op("Reshape", &[mixed, rows], &[]);
    let back = given.times(mixed, 6, HIDDEN);
    let sum = given.build.op("Add", &[hidden, back], &[]);
    let hidden = given.build.op("Tanh", &[sum], &[]);
    given.end(hidden, [keys, values])
}

/// [`grouped`] behind a layer that mixes each position with the one before, whose last one is a state.
fn hybrid() -> Graph {
    grouped_behind(|given, hidden| {
        let past = given.build.input("past.1.conv", DType::F32, ["batch".into(), 1usize.into(), HIDDEN.into()]);
        let all = given.build.op("Concat", &[past, hidden], &[("axis", Attr::Int(1))]);
        let [first, last, end, axis] = [0, -1, i64::MAX, 1].map(|number| given.numbers(&[number]));
        let before = given.build.op("Slice", &[all, first, last, axis], &[]);
        let present = given.build.op("Slice", &[all, last, end, axis], &[]);
        given.build.output("present.1.conv", present);
        given.build.op("Sub", &[hidden, before], &[])
    })
}

fn all() -> [(&'static str, Graph); 3] {
    [("grouped", grouped()), ("plain", plain()), ("hybrid", hybrid())]
}

fn packed(graph: &Graph) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.kpk");
    Decoder::pack_graph(graph.clone(), &path, &options()).unwrap_or_else(|error| panic!("{error}"));
    (folder, path)
}

fn load(path: &Path, options: &SessionOptions) -> Decoder {
    Decoder::load(path, options).unwrap_or_else(|error| panic!("{error}"))
}

/// The logits of steps of two texts whose lengths come to differ.
fn logits(decoder: &Decoder) -> Vec<Tensor> {
    let mut cache = decoder.cache(2, 2, 32).unwrap();
    let run = RunOptions::default();
    let mut made = Vec::new();
    for token in 0..9i64 {
        made.push(decoder.step(&mut cache, &[&[token], &[token * 3 % 40]], &run).unwrap());
    }
    // Where there are states, a text cannot end sooner; it can begin anew.
    cache.rewind(1, 3).or_else(|_| cache.rewind(1, 0)).unwrap();
    made.push(decoder.step(&mut cache, &[&[5], &[7]], &run).unwrap());
    made
}

fn expect_same(expected: &Decoder, found: &Decoder, what: &str) {
    for (at, (expected, found)) in logits(expected).iter().zip(logits(found)).enumerate() {
        assert!(expected.same(&found), "{what}: step {at}");
    }
}

fn refusal(path: &Path, bytes: &[u8]) -> DecoderError {
    std::fs::write(path, bytes).unwrap();
    Decoder::load(path, &strict()).err().expect("it is refused")
}

fn is_damaged(error: &DecoderError) -> bool {
    matches!(error, DecoderError::Session(SessionError::Packed(PackedError::Damaged { .. })))
}

#[test]
fn every_step_gives_the_same_bits() {
    for (name, graph) in all() {
        let (_folder, path) = packed(&graph);
        let decoder = load(&path, &options());
        assert!(decoder.session().is_packed());
        expect_same(&Decoder::from_graph(graph, &options()).unwrap(), &decoder, name);
    }
}

#[test]
fn prompts_and_steps_of_some_sequences_give_the_same_bits() {
    let (_folder, path) = packed(&grouped());
    let [plain, mapped] =
        [Decoder::from_graph(grouped(), &options()).unwrap(), load(&path, &options())].map(|decoder| {
            let (mut cache, run) = (decoder.cache(2, 2, 32).unwrap(), RunOptions::default());
            let first = decoder.step_one(&mut cache, 1, &[3, 1, 4, 1, 5], &run).unwrap();
            let second = decoder.step_some(&mut cache, &[(0, &[9, 2]), (1, &[6])], &run).unwrap();
            [first, second, decoder.step_each(&mut cache, 0, &[8, 7, 6], &run).unwrap()]
        });
    assert!(plain.iter().zip(&mapped).all(|(plain, mapped)| plain.same(mapped)));
}

#[test]
fn a_table_of_a_decoder_may_stay_in_its_file() {
    let rows = 1200;
    let graph = plain_of(rows);
    let folder = tempfile::tempdir().unwrap();
    let [path, packed] = ["model.onnx", "model.kpk"].map(|name| folder.path().join(name));
    std::fs::write(&path, onnx::write(&graph).unwrap()).unwrap();
    let weightless = SessionOptions { pack_weightless: true, ..options() };
    let report = Decoder::pack(&path, &packed, &weightless).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.referred, (rows * HIDDEN * 4) as u64, "{report:?}");
    expect_same(&load(&path, &options()), &load(&packed, &strict()), "a table in its file");
}

#[test]
fn decoders_and_sessions_refuse_each_others_files() {
    let (_folder, path) = packed(&grouped());
    let error = Session::load(&path, &options()).err().expect("it is refused").to_string();
    assert!(error.contains("packed for another use: a decoder, and here it is a session"), "{error}");
    Session::pack_graph(grouped(), &path, &options()).unwrap();
    let error = Decoder::load(&path, &options()).err().expect("it is refused").to_string();
    assert!(error.contains("packed for another use: a session, and here it is a decoder"), "{error}");
}

#[test]
fn the_second_load_of_a_decoder_is_that_of_its_packed_form_which_no_session_takes() {
    for (name, graph) in all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        std::fs::write(&path, onnx::write(&graph).unwrap()).unwrap();
        let cache_dir = Some(folder.path().join("records"));
        let options = SessionOptions { threads: 1, cache_dir, pack: Pack::Auto, ..SessionOptions::default() };
        let load = |options: &SessionOptions| {
            let decoder = load(&path, options);
            assert!(decoder.session().settle(Duration::from_secs(60)));
            decoder
        };
        let first = load(&options);
        let session = Session::load(&path, &options).unwrap();
        assert!(session.settle(Duration::from_secs(60)));
        let second = load(&options);
        assert!(!first.session().is_packed() && !session.is_packed() && second.session().is_packed(), "{name}");
        assert!(Session::load(&path, &options).unwrap().is_packed());
        expect_same(&first, &second, name);
        // The pairs of outputs and inputs decide the rewriting: with other pairs the packed model is not used.
        let alias = vec!["present.* -> past_key_values.*".to_owned()];
        let other = load(&SessionOptions { alias, ..options.clone() });
        assert!(!other.session().is_packed(), "{name}");
        let entries = std::fs::read_dir(folder.path().join("records/packed")).unwrap().flatten();
        let packed = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "kpk"));
        for path in packed {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[4096 + 80] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
        let third = load(&options);
        assert!(!third.session().is_packed(), "{name}: its packed form was damaged");
        assert!(load(&options).session().is_packed(), "{name}: it was made anew");
    }
}

#[test]
fn what_a_file_says_of_steps_is_held_to_its_session() {
    for (name, graph) in all() {
        let (_folder, path) = packed(&graph);
        let bytes = std::fs::read(&path).unwrap();
        let refused = |what: &str, change: &dyn Fn(&mut Index)| {
            let (mut changed, _) = index(&bytes);
            change(&mut changed);
            let error = refusal(&path, &signed(&bytes, &encode_long(&changed).unwrap()));
            assert!(is_damaged(&error), "{name}: {what}: {error}");
        };
        let lied = |what: &str, lie: &dyn Fn(&mut StepsRow)| {
            refused(what, &|index| lie(index.steps.as_mut().unwrap()));
        };
        refused("no steps", &|index| index.steps = None);
        lied("other tokens", &|steps| steps.tokens = "words".to_owned());
        lied("tokens that are a cache", &|steps| steps.tokens.clone_from(&steps.cache[0].past));
        lied("a mask that is not there", &|steps| steps.mask = Some("mask".to_owned()));
        lied("positions that are tokens", &|steps| steps.positions = Some(steps.tokens.clone()));
        lied("other logits", &|steps| steps.logits = "present.0.key".to_owned());
        lied("a part of the cache less", &|steps| drop(steps.cache.pop()));
        lied("a part of the cache twice", &|steps| steps.cache[1].past = steps.cache[0].past.clone());
        lied("other heads", &|steps| steps.cache[0].heads = 3);
        lied("no elements", &|steps| steps.cache[0].size = 0);
        lied("elements beyond all memory", &|steps| steps.cache[0].size = u64::MAX);
        lied("elements of another type", &|steps| steps.cache[0].dtype = DType::F64);
        lied("texts as a cache", &|steps| steps.cache[0].dtype = DType::String);
        lied("an encoder's outputs", &|steps| steps.beside.push("states".to_owned()));
        lied("a step of another number of tokens", &|steps| steps.takes_one = !steps.takes_one);
        if name == "hybrid" {
            refused("no state", &|index| index.states.clear());
            refused("a state twice", &|index| index.states.push(index.states[0].clone()));
            refused("a state of other sizes", &|index| index.states[0].sizes[1] = 7);
            refused("a state beyond all memory", &|index| index.states[0].sizes = vec![u64::MAX, 2]);
            refused("a state of fewer dimensions", &|index| index.states[0].sizes.truncate(1));
            refused("a state of texts", &|index| index.states[0].dtype = DType::String);
            refused("a state that is a cache", &|index| {
                index.states[0].past = index.steps.as_ref().unwrap().cache[0].past.clone();
            });
        }
        let bias = |input: &str| BiasRow { input: input.to_owned(), graphs: Vec::new() };
        lied("a bias that is not there", &|steps| steps.biases.push(bias("kiln.bias.9")));
        lied("a bias without a graph", &|steps| {
            let past = steps.cache.pop().unwrap().past;
            steps.biases.push(bias(&past));
        });
        let (mut changed, _) = index(&bytes);
        changed.made_for[0].1 = "a session".to_owned();
        std::fs::write(&path, signed(&bytes, &encode_long(&changed).unwrap())).unwrap();
        let error = Session::load(&path, &strict()).err().expect("it is refused");
        assert!(error.to_string().contains("says otherwise of steps"), "{name}: {error}");
    }
}

#[test]
fn forged_decoders_are_refused_or_run_and_never_a_fault() {
    for (name, graph) in all() {
        let (_folder, path) = packed(&graph);
        let bytes = std::fs::read(&path).unwrap();
        let (whole, start) = index(&bytes);
        let steps = encode_long(whole.steps.as_ref().unwrap()).unwrap();
        let place = bytes[start..].windows(steps.len()).position(|window| window == steps).unwrap();
        let mut drawn = numbers(2_000, 17).into_iter().map(|number| ((number + 1.0) * 499.9) as usize);
        let mut next = |below: usize| drawn.next().unwrap() * 7919 % below;
        for _ in 0..300 {
            let mut forged = bytes[start..].to_vec();
            // Most changes are in the description of the steps.
            let at = if next(4) == 0 { next(forged.len()) } else { place + next(steps.len()) };
            forged[at] = if next(2) == 0 { next(256) as u8 } else { forged[at] ^ 1 << next(8) };
            std::fs::write(&path, signed(&bytes, &forged)).unwrap();
            let Err(DecoderError::Session(error)) = Decoder::load(&path, &strict()) else { continue };
            assert!(!error.is_fault(), "{name}, byte {at}: {error}");
        }
    }
}
