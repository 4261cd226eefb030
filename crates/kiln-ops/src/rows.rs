//! Tests of the table of operators: every operator has a row and a maker, and results have the types, dimensions and
//! elements that the row's rules state, at random shapes. Programs must agree with their rows for other types, and
//! defaults of attributes with what makers do where an attribute is left out.

pub(super) mod samples;

use std::collections::BTreeSet;

use kiln_kernels::Serial;
use kiln_model::facts::Facts;
use kiln_model::ir::{Attrs, Dim, Graph, NodeDesc};
use kiln_model::operators::attributes::Default as Otherwise;
use kiln_model::operators::row::{Operator, Takes, Types};
use kiln_model::operators::{self, Layout, Operands, Refusal, Shapes, Wide, Work};
use kiln_model::{Attr, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};
use samples::{Random, Sample, Value};

use super::trial::{bools, run_node, run_node_on};
use super::{elementwise, generic, lookup, lookup_flow};

/// Shapes that every rule is tried at.
const ROUNDS: u32 = 24;

#[test]
fn every_operator_has_a_row_and_a_maker() {
    let rows: Vec<(&str, &str)> = operators::all().map(|row| (row.domain, row.name)).collect();
    let known: BTreeSet<(&str, &str)> = rows.iter().copied().collect();
    assert_eq!(known.len(), rows.len(), "an operator has one row");
    let makers = super::GROUPS.iter().copied().flatten().map(|&(domain, op, _)| (domain, op));
    let flows = super::FLOWS.iter().copied().flatten().map(|&(domain, op, _)| (domain, op));
    for (domain, op) in makers.chain(flows) {
        assert!(known.contains(&(domain, op)), "{domain}.{op} has no row in the table of operators");
    }
    for (domain, op) in rows {
        let made = lookup(domain, op).is_some() || lookup_flow(domain, op).is_some();
        assert!(made, "{domain}.{op} has a row and nothing that makes it");
    }
}

#[test]
fn rows_are_whole() {
    for row in operators::all() {
        let name = row.name;
        assert!(!row.since.is_empty() && row.since.windows(2).all(|pair| pair[0] < pair[1]), "{name}: versions");
        assert!(row.inputs.most.is_none_or(|most| row.inputs.least <= most), "{name}: inputs");
        let names: BTreeSet<&str> = row.attribute_names().collect();
        assert_eq!(names.len(), row.attribute_names().count(), "{name}: an attribute twice");
        for attribute in row.attributes {
            let changed = match attribute.default {
                Otherwise::RequiredBefore(version) => version,
                Otherwise::IntSince { version, .. } | Otherwise::TextSince { version, .. } => version,
                _ => continue,
            };
            let known = row.since.iter().any(|&since| i64::from(since) == changed);
            assert!(known, "{name}: {} changes in version {changed}", attribute.name);
        }
        if row.is_element_wise() {
            assert_eq!(row.layout, Layout::ElementWise, "{name}");
            assert!(!matches!(row.types, Types::Unknown) && !matches!(row.shapes, Shapes::Unknown), "{name}");
        }
    }
}

#[test]
fn nodes_without_an_attribute_that_their_version_demands_are_refused() {
    let mut without = 0;
    for row in operators::all().filter(|row| row.domain != "kiln") {
        let (domain, op) = (row.domain.to_owned(), row.name.to_owned());
        let attrs = row.attributes.iter().map(|attribute| (attribute.name.to_owned(), Attr::Int(0))).collect();
        let first = i64::from(row.since[0]);
        let node = |version| NodeDesc { domain: domain.clone(), op: op.clone(), version, ..NodeDesc::default() };
        let whole = |version| NodeDesc { attrs: Attrs::clone(&attrs), ..node(version) };
        assert_eq!(row.refusal(&whole(first)), None, "{op}");
        for attribute in row.attributes {
            let needed_at = |version: i64| {
                let mut node = whole(version);
                node.attrs.remove(attribute.name);
                row.refusal(&node) == Some(Refusal::Attribute(attribute.name))
            };
            let needed = match attribute.default {
                Otherwise::Required => [true, true],
                Otherwise::RequiredBefore(version) => {
                    assert!(needed_at(version - 1) && !needed_at(version), "{op}: {}", attribute.name);
                    [first < version, false]
                }
                _ => [false, false],
            };
            assert_eq!([first, samples::NEWEST].map(needed_at), needed, "{op}: {}", attribute.name);
            without += usize::from(needed[0]);
        }
    }
    assert!(without > 30, "{without} attributes are demanded");
}

#[test]
fn nodes_older_than_their_operator_are_refused() {
    let mut ahead = BTreeSet::new();
    for row in operators::all().filter(|row| row.domain != "kiln") {
        let (domain, op) = (row.domain.to_owned(), row.name.to_owned());
        let first = i64::from(row.first);
        let node = |version| NodeDesc { domain: domain.clone(), op: op.clone(), version, ..NodeDesc::default() };
        let is_defined = |version| !matches!(row.refusal(&node(version)), Some(Refusal::NotYetDefined { .. }));
        assert!(is_defined(first) && is_defined(samples::NEWEST), "{op}");
        assert_eq!(row.refusal(&node(first - 1)), Some(Refusal::NotYetDefined { first: row.first }), "{op}");
        if row.first != row.since[0] {
            ahead.insert(row.name);
        }
    }
    assert_eq!(ahead, BTreeSet::from(["LayerNormalization"]), "what others defined before the standard did");
}

/// Compares the rules' answers with results, with the sizes of `sample` under names or as numbers. Returns how many
/// dimensions the rules left open.
fn hold(row: &Operator, sample: &Sample, named: impl Fn(usize, usize) -> bool) -> usize {
    let (mut build, mut sizes) = (GraphBuilder::new("row", sample.version), Vec::new());
    let (mut inputs, mut tensors) = (Vec::new(), Vec::new());
    for (index, value) in sample.inputs.iter().enumerate() {
        inputs.push(match value {
            Value::Absent => None,
            Value::Known(tensor) => Some(build.constant(tensor.clone())),
            Value::Given(tensor) => {
                let dims = tensor.shape().iter().enumerate().map(|(axis, &size)| {
                    if !named(index, axis) {
                        return Dim::Fixed(size);
                    }
                    sizes.push((format!("d{index}_{axis}"), size as i64));
                    Dim::Named(format!("d{index}_{axis}"))
                });
                let dims: Vec<Dim> = dims.collect();
                Some(build.input(&format!("x{index}"), tensor.dtype(), dims))
            }
        });
        tensors.push(value.tensor().cloned());
    }
    let mut graph = build.finish();
    let outputs: Vec<Option<ValueId>> = (0..sample.outputs).map(|_| Some(graph.fresh("y"))).collect();
    let attrs = sample.attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
    let (domain, op, version) = (row.domain.to_owned(), row.name.to_owned(), sample.version);
    graph.nodes.push(NodeDesc { name: op.clone(), domain, op, version, attrs, inputs, outputs });
    let facts = Facts::of(&graph, true);
    let node = &graph.nodes[0];
    let made = run_node(&graph, node, &tensors, None)
        .unwrap_or_else(|error| panic!("{}: {error}: {:?} {:?}", row.name, sample.attrs, shapes_of(&tensors)));
    let number = |name: &str| sizes.iter().find(|(other, _)| other == name).map(|(_, size)| *size);
    let mut open = 0;
    for (output, tensor) in made.iter().enumerate() {
        let about = || format!("{} {:?} {:?}, output {output}, {facts:?}", row.name, sample.attrs, shapes_of(&tensors));
        let fact = facts.get(node.output(output).expect("an output"));
        assert!(fact.dtype.is_none_or(|dtype| dtype == tensor.dtype()), "{}", about());
        if output == 0 && !matches!(row.types, Types::Unknown) {
            assert_eq!(fact.dtype, Some(tensor.dtype()), "{}", about());
        }
        if let Some(elements) = &fact.elements {
            let elements: Vec<Option<i64>> = elements.iter().map(|&size| facts.value(size, &number)).collect();
            let found = tensor.to_i64_vec().expect("integers");
            assert_eq!(elements.len(), found.len(), "{}", about());
            assert!(
                elements.iter().zip(found).all(|(said, found)| said.is_none_or(|said| said == found)),
                "{}",
                about()
            );
        }
        let Some(dims) = &fact.dims else {
            open += usize::from(output == 0) * tensor.shape().len().max(1);
            continue;
        };
        assert_eq!(dims.len(), tensor.shape().len(), "{}", about());
        for (&dim, &size) in dims.iter().zip(tensor.shape()) {
            match facts.value(dim, &number) {
                Some(said) => assert_eq!(said, size as i64, "{}", about()),
                None => open += 1,
            }
        }
    }
    open
}

fn shapes_of(tensors: &[Option<Tensor>]) -> Vec<Option<&[usize]>> {
    tensors.iter().map(|tensor| tensor.as_ref().map(Tensor::shape)).collect()
}

/// Operators with a dimension that depends on the contents of a tensor that is not known at load.
const OPEN: &[&str] = &["DFT", "MelWeightMatrix", "OneHot", "Range", "STFT", "TopK"];

/// Operators without a rule for dimensions, by the reason.
const WITHOUT_RULE: &[(&str, &[&str])] = &[
    ("as many as are found", &["Compress", "NonMaxSuppression", "NonZero", "Unique"]),
    ("as many as the cheapest way has steps", &["DynamicTimeWarping"]),
    ("as many as texts have parts", &["StringNormalizer", "StringSplit", "Tokenizer"]),
    ("the node has the value", &["Constant"]),
    ("bodies say what they make", &["If", "Loop", "Scan", "SequenceMap"]),
    (
        "sequences, maps and optional values have no dimensions, and give what is in them",
        &[
            "CastMap",
            "ConcatFromSequence",
            "DictVectorizer",
            "Optional",
            "OptionalGetElement",
            "OptionalHasElement",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SplitToSequence",
            "ZipMap",
        ],
    ),
];

#[test]
fn operators_without_a_rule_are_listed_with_the_reason() {
    let without = operators::all().filter(|row| matches!(row.shapes, Shapes::Unknown)).map(|row| row.name);
    let listed = WITHOUT_RULE.iter().flat_map(|(_, names)| *names).copied();
    assert_eq!(without.collect::<BTreeSet<_>>(), listed.collect::<BTreeSet<_>>());
}

#[test]
fn nodes_infer_by_value_where_no_rule_does() {
    let build = super::trial::build_cx();
    for row in operators::all().filter(|row| !matches!(row.shapes, Shapes::Unknown)) {
        let mut random = Random::new(row.name);
        for _ in 0..ROUNDS / 4 {
            let Some(sample) = samples::of(row, &mut random) else { break };
            let (graph, node) = of_sample(row, &sample, &sample.filled(&mut random));
            let make = lookup(row.domain, row.name).expect("a maker");
            let made = make(&super::LoadCx { node: &node, graph: &graph, build: &build, packing: &build.isa.into() });
            let made = made.unwrap_or_else(|error| panic!("{}: {error}", row.name));
            assert!(made.by_value().is_none(), "{} has a rule", row.name);
        }
    }
}

#[test]
fn what_the_rules_say_is_what_runs() {
    let mut without = Vec::new();
    for row in operators::all().filter(|row| !matches!(row.shapes, Shapes::Unknown)) {
        let mut random = Random::new(row.name);
        for round in 0..ROUNDS {
            let Some(sample) = samples::of(row, &mut random) else {
                without.push(row.name);
                break;
            };
            // All numbers, all names, and some of both: names are open where a rule needs numbers.
            let open = hold(row, &sample, |_, _| false);
            assert!(open == 0 || OPEN.contains(&row.name), "{}: {open} dimensions are not known", row.name);
            hold(row, &sample, |_, _| true);
            hold(row, &sample, |index, axis| (index + axis + round as usize).is_multiple_of(2));
        }
    }
    // Fused nodes: tests/passes compares them with the operators that they replace.
    let fused = operators::all().filter(|row| row.domain == "kiln").map(|row| row.name).collect::<Vec<_>>();
    let without: Vec<&str> = without.into_iter().filter(|name| !fused.contains(name)).collect();
    assert!(without.is_empty(), "operators with a rule and no sample: {without:?}");
}

#[test]
fn programs_compute_what_their_rows_say_for_other_types() {
    let mut programs = 0;
    for row in operators::all() {
        let Some(own) = row.element_wise.filter(|own| own.wide.is_some() && own.takes.takes(DType::F32)) else {
            continue;
        };
        if matches!(own.wide, Some(Wide::Where | Wide::Clip(_))) {
            // These take operands of more than one kind, and have tests of their own.
            continue;
        }
        let mut random = Random::new(row.name);
        let count = row.inputs.most.map_or(3, usize::from);
        let inputs: Vec<Option<Tensor>> = (0..count).map(|_| Some(random.floats(&[64]))).collect();
        let (graph, node) = plain(row, &inputs);
        let run =
            |make| run_node(&graph, &node, &inputs, Some(make)).unwrap_or_else(|error| panic!("{}: {error}", row.name));
        let (program, plain) = (run(elementwise::make), run(generic::make_elementwise));
        assert_eq!(program[0].spec(), plain[0].spec(), "{}", row.name);
        programs += 1;
        if program[0].dtype() == DType::Bool {
            assert_eq!(program[0].bytes(), plain[0].bytes(), "{}", row.name);
            continue;
        }
        let (program, plain) = (program[0].as_slice::<f32>().unwrap(), plain[0].as_slice::<f32>().unwrap());
        for (found, expected) in program.iter().zip(plain) {
            let close = (found - expected).abs() <= 2e-6 + 2e-6 * expected.abs();
            assert!(close || found.is_nan() && expected.is_nan(), "{}: {found} for {expected}", row.name);
        }
    }
    assert!(programs > 50, "only {programs} were tried");
}

/// A node of that operator with no attributes, over inputs that are known when it runs.
fn plain(row: &Operator, inputs: &[Option<Tensor>]) -> (Graph, NodeDesc) {
    let mut graph = Graph::default();
    let given = inputs.iter().map(|_| Some(graph.fresh("x"))).collect();
    let outputs = vec![Some(graph.fresh("y"))];
    let (domain, op) = (row.domain.to_owned(), row.name.to_owned());
    (graph, NodeDesc { domain, op, version: samples::NEWEST, inputs: given, outputs, ..NodeDesc::default() })
}

#[test]
fn element_wise_operators_take_the_types_that_they_say() {
    for row in operators::all() {
        let Some(own) = row.element_wise.filter(|own| own.wide.is_some()) else { continue };
        for (dtype, tensor) in [
            (DType::Bool, Tensor::from_vec([2], bools([true, false]).to_vec()).unwrap()),
            (DType::I32, Tensor::from_vec([2], vec![1i32, 2]).unwrap()),
            (DType::F64, Tensor::from_vec([2], vec![0.5f64, 2.0]).unwrap()),
            (DType::String, super::trial::strings(&[2], &["a", "b"])),
        ] {
            let count = row.inputs.most.map_or(2, usize::from);
            let mut inputs = vec![Some(tensor); count];
            if own.operands == Operands::Condition {
                inputs[0] = Some(Tensor::from_vec([2], bools([true, false]).to_vec()).unwrap());
            }
            if matches!(own.wide, Some(Wide::Clip(_))) {
                inputs.truncate(1);
            }
            let (graph, mut node) = plain(row, &inputs);
            samples::required(row, &mut node);
            let made = run_node(&graph, &node, &inputs, None);
            assert_eq!(made.is_ok(), own.takes.takes(dtype), "{} of {dtype}: {made:?}", row.name);
            assert!(own.takes != Takes::Any || made.is_ok());
        }
    }
}

#[test]
fn makers_and_rules_have_the_defaults_of_the_table() {
    let mut stated = 0;
    for row in operators::all().filter(|row| !row.draws) {
        let mut random = Random::new(row.name);
        for _ in 0..ROUNDS / 4 {
            let Some(sample) = samples::of(row, &mut random) else { break };
            let tensors = sample.filled(&mut random);
            let left_out: Vec<(String, Attr)> = row
                .attributes
                .iter()
                .filter(|attribute| sample.attrs.iter().all(|(name, _)| *name != attribute.name))
                .filter_map(|attribute| {
                    Some((attribute.name.to_owned(), samples::written(attribute.default, sample.version)?))
                })
                .collect();
            let (graph, mut node) = of_sample(row, &sample, &tensors);
            let run = |node: &NodeDesc| {
                run_node(&graph, node, &tensors, None).unwrap_or_else(|error| panic!("{}: {error}: {node:?}", row.name))
            };
            let without = run(&node);
            stated += left_out.len();
            node.attrs.extend(left_out);
            let with = run(&node);
            for (with, without) in with.iter().zip(&without) {
                assert_eq!(with.spec(), without.spec(), "{}: {node:?}", row.name);
                assert_eq!(with.bytes(), without.bytes(), "{}: {node:?}", row.name);
            }
        }
    }
    assert!(stated > 300, "only {stated} defaults were written out");
}

#[test]
fn operators_with_a_key_ask_for_executors_and_no_others_do() {
    // Operators with a key that have kernels only with attributes that samples leave out.
    const OTHER_FORMS: &[&str] = &["Mod"];
    let (mut tried, mut wrong) = (0, Vec::new());
    for row in operators::all().filter(|row| !OTHER_FORMS.contains(&row.name)) {
        let (mut random, mut asked, mut samples) = (Random::new(row.name), 0, 0);
        for _ in 0..ROUNDS {
            let Some(sample) = samples::of(row, &mut random) else { break };
            let tensors = sample.filled(&mut random);
            let (graph, node) = of_sample(row, &sample, &tensors);
            let ran = run_node_on(&Serial, &graph, &node, &tensors, None);
            asked += ran.unwrap_or_else(|error| panic!("{}: {error}: {node:?}", row.name)).lookups;
            samples += 1;
        }
        if samples > 0 {
            tried += 1;
            let key = row.work == Work::Key;
            if key != (asked > 0) {
                wrong.push((row.domain, row.name, row.work, asked));
            }
        }
    }
    assert!(wrong.is_empty(), "what the table says, and how often they asked: {wrong:?}");
    assert!(tried > 50, "only {tried} operators were tried");
}

/// That node over these tensors; those that a sample knows are constants.
fn of_sample(row: &Operator, sample: &Sample, tensors: &[Option<Tensor>]) -> (Graph, NodeDesc) {
    let mut graph = Graph::default();
    let inputs = sample.inputs.iter().zip(tensors).map(|(value, tensor)| match (value, tensor) {
        (Value::Known(_), Some(tensor)) => Some(graph.add_constant("known", tensor.clone())),
        (Value::Given(_), Some(_)) => Some(graph.fresh("given")),
        _ => None,
    });
    let inputs = inputs.collect();
    let outputs = (0..sample.outputs).map(|_| Some(graph.fresh("y"))).collect();
    let attrs = sample.attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
    let (domain, op, version) = (row.domain.to_owned(), row.name.to_owned(), sample.version);
    (graph, NodeDesc { name: op.clone(), domain, op, version, attrs, inputs, outputs })
}
