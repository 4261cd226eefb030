//! Compiling a graph to a running one: passes, then nodes; unsupported operators are reported all at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kiln_kernels::Parallel;
use kiln_kernels::cpu::chain::{Program, Step};
use kiln_kernels::memory::{self, Refused};
use kiln_kernels::parallel::for_each_chunk;
use kiln_model::facts::{self, Fact, Facts, Size};
use kiln_model::ir::{Attr, Dim, Graph, NodeDesc, ValueInfo, ValueKind};
use kiln_model::onnx;
use kiln_model::passes::{self, PassReport};
use kiln_model::{Stop, ValueId};
use kiln_ops::{FlowLoad, OpError, lookup_flow};
use kiln_run::device::transfer::to_device;
use kiln_run::exec::BuildCx;
use kiln_run::exec::weights::{Packing, Shelf};
use kiln_run::{Body, Executable, Flow, Node, Work};
use kiln_tensor::{InFile, Tensor};

use super::evaluate::evaluate;
use super::node::make;
use super::options::SessionOptions;
use super::placement::place;
use super::{Port, SessionError, Upload};

/// A graph after all passes, for display.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The graph, without constants.
    pub graph: Graph,
    /// What each pass did.
    pub passes: PassReport,
}

/// Ports of the inputs of a request: constants that the model also lists as inputs have defaults.
pub(super) fn input_ports(graph: &Graph) -> Vec<Port> {
    graph.inputs.iter().map(|&value| port(graph, value, graph.constants.contains_key(&value))).collect()
}

/// Ports of the outputs.
pub(super) fn output_ports(graph: &Graph) -> Vec<Port> {
    graph.outputs.iter().map(|&value| port(graph, value, false)).collect()
}

fn port(graph: &Graph, value: ValueId, has_default: bool) -> Port {
    let info = graph.value(value);
    let dtype = info.dtype.or(info.elements);
    Port { name: info.name.clone(), kind: info.kind, dtype, dims: info.dims.clone(), has_default }
}

/// Nodes that are made at once, by all threads: enough that several have weights to pack, and few enough that not all
/// weights of a large model are in memory twice.
const WAVE: usize = 32;

/// Passes that prepare for kernels of the processor: layout, fused attention, quantised products, storage in `bf16`,
/// inputs in parts.
const NOT_ON_DEVICES: [&str; 6] = ["layout", "attention", "quantized", "byte_tables", "bf16", "concat"];

/// Rewrites the graph and makes its nodes.
pub(super) fn compile(
    mut graph: Graph,
    options: &SessionOptions,
    build: &BuildCx,
    parallel: &dyn Parallel,
    stop: Option<&Stop>,
) -> Result<(Executable, Description), SessionError> {
    let passes = optimise(&mut graph, options, build, stop);
    let uploads = if build.gpu.is_some() { place(&mut graph) } else { Vec::new() };
    let executable = Maker::new(build, parallel, stop).make(&mut graph, &uploads)?;
    Ok((executable, Description { graph, passes }))
}

/// Rewrites the graph.
pub(super) fn optimise(
    graph: &mut Graph,
    options: &SessionOptions,
    build: &BuildCx,
    stop: Option<&Stop>,
) -> PassReport {
    let evaluate =
        |graph: &Graph, node: &NodeDesc, inputs: &[Option<Tensor>]| evaluate(graph, node, inputs, build, stop);
    let wanted = match build.gpu {
        None => options.passes.clone(),
        Some(_) => NOT_ON_DEVICES.iter().fold(options.passes.clone(), |passes, name| passes.without(name)),
    };
    let wanted = wanted.with_elements(build.elements()).with_code_bits(build.precision.code_bits());
    passes::optimise_until(stop, graph, &wanted, &evaluate)
}

/// A node, unless its operator refuses it or it was refused memory.
type Made = Result<Result<Box<dyn Node>, OpError>, Refused>;

/// A constant of a graph whose nodes have all been made.
#[derive(Debug)]
pub(super) struct Left {
    /// Its graph, in the order in which graphs are made.
    pub(super) graph: u32,
    /// The value.
    pub(super) value: ValueId,
    /// Its elements.
    pub(super) tensor: Tensor,
    /// Where a file had them, or the stored elements of a compact constant, before nodes read them.
    pub(super) stored_in: Option<InFile>,
    /// Whether nodes keep packed copies of it and its elements are no longer read.
    pub(super) is_packed: bool,
}

/// Makes the nodes of a graph and its bodies, and collects everything that is not supported.
pub(super) struct Maker<'a> {
    build: &'a BuildCx,
    parallel: &'a dyn Parallel,
    /// The time limit of loading, if there is one.
    stop: Option<&'a Stop>,
    /// A shelf that may have packed weights ready.
    shelf: Option<&'a dyn Shelf>,
    problems: BTreeSet<String>,
    /// Constants that nodes and graphs read in the model's layout.
    held: Vec<Tensor>,
    /// The constants of all graphs that have been made, if they are wanted.
    left: Option<Vec<Left>>,
    /// Where files have constants, by the numbers of their graphs.
    stored_in: HashMap<(u32, ValueId), InFile>,
    /// Graphs that have been begun.
    graphs: u32,
    /// The number of bodies around the current graph.
    depth: usize,
}

impl<'a> Maker<'a> {
    /// Makes nodes that pack their weights.
    pub(super) fn new(build: &'a BuildCx, parallel: &'a dyn Parallel, stop: Option<&'a Stop>) -> Maker<'a> {
        let (problems, held, stored_in) = (BTreeSet::new(), Vec::new(), HashMap::new());
        Maker { build, parallel, stop, shelf: None, problems, held, left: None, stored_in, graphs: 0, depth: 0 }
    }

    /// Makes nodes whose packed weights a shelf may have ready.
    pub(super) fn with_shelf(self, shelf: &'a dyn Shelf) -> Maker<'a> {
        Maker { shelf: Some(shelf), ..self }
    }

    /// The running form of a graph, whose constants are freed, or read where nodes need them later.
    pub(super) fn make(&mut self, graph: &mut Graph, uploads: &[Upload]) -> Result<Executable, SessionError> {
        let Some(executable) = self.executable(graph, uploads)?.filter(|_| self.problems.is_empty()) else {
            return Err(SessionError::Unsupported(std::mem::take(&mut self.problems).into_iter().collect()));
        };
        Refused::catch(|| read_kept(graph, &self.held, self.parallel))
            .unwrap_or_else(|refused| Err(SessionError::of_refused(refused, "", self.stop)))?;
        graph.backings.clear();
        Ok(executable)
    }

    /// As [`Maker::make`], for a caller that wants the constants and not the running form; none is freed.
    pub(super) fn constants(mut self, graph: &mut Graph) -> Result<Vec<Left>, SessionError> {
        self.left = Some(Vec::new());
        self.make(graph, &[])?;
        Ok(self.left.take().unwrap_or_default())
    }

    /// The running form of a graph; `None` if something in it is not supported. The graph's constants are freed.
    fn executable(&mut self, graph: &mut Graph, uploads: &[Upload]) -> Result<Option<Executable>, SessionError> {
        let number = self.graphs;
        self.graphs += 1;
        if self.left.is_some() {
            let places = graph.constants.iter().filter_map(|(value, tensor)| Some((*value, tensor.stored_in()?)));
            self.stored_in.extend(places.map(|(value, place)| ((number, value), place)));
        }
        let mut works: Vec<Option<Work>> = Vec::with_capacity(graph.nodes.len());
        let mut wanted = graph.use_counts();
        while works.len() < graph.nodes.len() {
            let first = works.len();
            if let Some(Err(why)) = self.stop.map(Stop::check) {
                return Err(SessionError::LoadStopped { node: graph.nodes[first].name.clone(), why });
            }
            let mut wave: Vec<Option<Made>> = Vec::new();
            wave.resize_with(WAVE.min(graph.nodes.len() - first), || None);
            let (whole, build, shelf, asked) = (&*graph, self.build, self.shelf, memory::asked());
            for_each_chunk(self.parallel, &mut wave, 1, &|index, made| {
                let node = &whole.nodes[first + index];
                if lookup_flow(&node.domain, &node.op).is_none() {
                    let packing = Packing::of_node(build.isa, shelf, number, (first + index) as u32)
                        .with_numerics(build.numerics);
                    let attempt = || memory::until(asked.as_ref(), || make(whole, node, build, &packing));
                    made.fill_with(|| Some(Refused::catch(attempt)));
                }
            });
            for (index, made) in (first..).zip(wave) {
                let made = match made {
                    Some(Err(refused)) => {
                        return Err(SessionError::of_refused(refused, &graph.nodes[index].name, self.stop));
                    }
                    Some(Ok(made)) => made.map(|node| Work::Node(node.into())),
                    None => match self.flow(graph, index)? {
                        Some(made) => made.map(|flow| Work::Flow(flow.into())),
                        None => {
                            works.push(None);
                            continue;
                        }
                    },
                };
                let work = self.checked(&graph.nodes[index], made)?;
                if let Some(Work::Node(node)) = &work {
                    self.release(graph, number, index, node.kept_inputs(), &mut wanted);
                }
                works.push(work);
            }
        }
        let Some(works) = works.into_iter().collect::<Option<Vec<Work>>>() else { return Ok(None) };
        self.upload(graph, uploads)?;
        let fused = graph.nodes.iter().map(fusions);
        let executable = Executable::new(graph, works.into_iter().zip(fused));
        for (value, tensor) in graph.constants.drain() {
            if let Some(left) = self.left.as_mut().filter(|_| !tensor.is_hollow()) {
                let stored_in = self.stored_in.remove(&(number, value));
                left.push(Left { graph: number, value, tensor: tensor.clone(), stored_in, is_packed: false });
            }
            self.held.push(tensor);
        }
        Ok(Some(executable))
    }

    /// Frees constants that a node keeps as packed copies and that no other node reads; `wanted` counts the remaining
    /// readers. This happens while nodes are made, so that not all weights of a model are in memory twice. Constants
    /// with other owners are held.
    fn release(&mut self, graph: &mut Graph, number: u32, node: usize, kept: u64, wanted: &mut [u32]) {
        let inputs = graph.nodes[node].inputs.iter().enumerate();
        let kept = inputs.filter(|(input, _)| *input < 64 && kept >> input & 1 == 1).filter_map(|(_, value)| *value);
        for value in kept {
            let readers = &mut wanted[value.index()];
            *readers -= 1;
            if *readers == 0
                && let Some(tensor) = graph.constants.get_mut(&value)
            {
                let mut whole = std::mem::replace(tensor, Tensor::hollow(tensor.spec().clone()));
                // A node may still need the elements, for other layouts.
                let is_packed = whole.is_unique();
                if let Some(left) = &mut self.left {
                    let stored_in = self.stored_in.remove(&(number, value));
                    left.push(Left { graph: number, value, tensor: whole.clone(), stored_in, is_packed });
                }
                if !is_packed {
                    self.held.push(whole);
                }
            }
        }
    }

    /// Sends the constants that the device's nodes read; constants without another reader are freed here.
    fn upload(&self, graph: &mut Graph, uploads: &[Upload]) -> Result<(), SessionError> {
        let Some(gpu) = &self.build.gpu else { return Ok(()) };
        let readers = graph.use_counts();
        for &Upload { host, there } in uploads {
            let Some(tensor) = graph.constants.get(&host) else { continue };
            graph.constants.insert(there, to_device(gpu, tensor)?);
            if readers[host.index()] == 0 {
                graph.constants.remove(&host);
            }
        }
        Ok(())
    }

    /// A flow with its bodies; `None` if something in those is not supported.
    fn flow(
        &mut self,
        graph: &mut Graph,
        index: usize,
    ) -> Result<Option<Result<Box<dyn Flow>, OpError>>, SessionError> {
        let mut bodies = Some(BTreeMap::new());
        // Values gathered by a loop of no iterations have the shape that an iteration would give them.
        let node = &graph.nodes[index];
        let undeclared = |attr: &Attr| match attr {
            Attr::Graph(body) => body.outputs.iter().any(|&output| is_undeclared(body.value(output))),
            _ => false,
        };
        let around = match node.attrs.values().any(undeclared) {
            true => known_inside(node, &Facts::of(graph, self.depth == 0)),
            false => Vec::new(),
        };
        // The bodies stay in the description, without their constants.
        for (name, attr) in &mut graph.nodes[index].attrs {
            let Attr::Graph(body) = attr else { continue };
            let body = Arc::make_mut(body);
            let declared = |ids: &[ValueId]| ids.iter().map(|&id| body.value(id).clone()).collect::<Vec<_>>();
            let (inputs, mut outputs) = (declared(&body.inputs), declared(&body.outputs));
            if !around.is_empty() && outputs.iter().any(is_undeclared) {
                declare(&mut outputs, body, &Facts::of_body(body, &around));
            }
            self.depth += 1;
            let made = self.executable(body, &[]);
            self.depth -= 1;
            match made? {
                Some(made) => {
                    bodies.as_mut().and_then(|bodies| bodies.insert(name.clone(), Body::new(made, inputs, outputs)))
                }
                None => bodies.take().and(None),
            };
        }
        let node = &graph.nodes[index];
        let Some((bodies, make)) = bodies.zip(lookup_flow(&node.domain, &node.op)) else { return Ok(None) };
        Ok(Some(make(FlowLoad { node, graph, bodies })))
    }

    /// The step of a node; `None`, and an entry in the list of problems, if it is not supported.
    ///
    /// # Errors
    ///
    /// If the node breaks its operator's rules.
    fn checked(&mut self, node: &NodeDesc, made: Result<Work, OpError>) -> Result<Option<Work>, SessionError> {
        let problem = match made {
            Ok(work) => return Ok(Some(work)),
            Err(error @ OpError::Invalid { .. }) => {
                return Err(SessionError::InvalidNode { node: node.name.clone(), reason: error.to_string() });
            }
            Err(OpError::Unknown(_)) => {
                let domain = if node.domain.is_empty() { "ai.onnx" } else { &node.domain };
                format!("operator {}.{} (version {})", domain, node.op, node.version)
            }
            Err(error) => format!("node '{}': {error}", node.name),
        };
        self.problems.insert(problem);
        Ok(None)
    }
}

/// Whether a body does not declare the type or shape of an output.
fn is_undeclared(output: &ValueInfo) -> bool {
    let is_open = |dims: &Vec<Dim>| dims.iter().any(|dim| !matches!(dim, Dim::Fixed(_)));
    output.kind == ValueKind::Tensor && (output.dtype.is_none() || output.dims.as_ref().is_none_or(is_open))
}

/// Facts of the inputs of a loop's body: of captured values, which come last, and of the slices of a Scan, which come
/// before them. Carried values may change their shape from iteration to iteration.
fn known_inside(node: &NodeDesc, around: &Facts) -> Vec<Option<Fact>> {
    let mut known: Vec<Option<Fact>> = vec![None; node.inputs.len()];
    let captured = known.len().saturating_sub(node.captures());
    let fact = |place: usize| node.input(place).map(|value| around.get(value).clone());
    for (place, known) in known.iter_mut().enumerate().skip(captured) {
        *known = fact(place);
    }
    // Up to version 8, every input had a batch axis.
    if node.is("Scan") && node.version >= 9 {
        let scanned = node.attributes().integer("num_scan_inputs").and_then(|count| usize::try_from(count).ok());
        let first = scanned.map_or(captured, |count| captured.saturating_sub(count));
        let axes = node.ints("scan_input_axes").unwrap_or_default();
        for (place, known) in known.iter_mut().enumerate().take(captured).skip(first) {
            let Some(Fact { dtype, dims: Some(mut dims), .. }) = fact(place) else { continue };
            let along = axes.get(place - first).copied().unwrap_or(0);
            let Some(along) = facts::axis(along, dims.len()) else { continue };
            dims.remove(along);
            *known = Some(Fact { dtype, dims: Some(dims), elements: None });
        }
    }
    known
}

/// Completes the declarations of a body's outputs by the facts of its nodes.
fn declare(outputs: &mut [ValueInfo], body: &Graph, facts: &Facts) {
    let dim = |size: &Size| size.known().and_then(|size| usize::try_from(size).ok()).map_or(Dim::Any, Dim::Fixed);
    for (info, &output) in outputs.iter_mut().zip(&body.outputs) {
        let fact = facts.get(output);
        info.dtype = info.dtype.or(fact.dtype);
        let found = fact.dims.as_ref().map(|dims| dims.iter().map(dim).collect::<Vec<_>>());
        info.dims = match (info.dims.take(), found) {
            (Some(declared), Some(found)) if declared.len() == found.len() => {
                let both = declared.into_iter().zip(found);
                Some(both.map(|(own, found)| if matches!(own, Dim::Fixed(_)) { own } else { found }).collect())
            }
            (declared, found) => declared.or(found),
        };
    }
}

/// Reads the constants that are kept in the model's layout, while reading errors can still be reported: no request
/// reads files.
fn read_kept(graph: &Graph, held: &[Tensor], parallel: &dyn Parallel) -> Result<(), SessionError> {
    graph.backings.iter().for_each(|backing| backing.retire());
    let mut tensors: Vec<&Tensor> = held.iter().collect();
    collect_tensors(graph, &mut tensors);
    let asked = memory::asked();
    for_each_chunk(parallel, &mut tensors, 1, &|_, tensors| {
        memory::until(asked.as_ref(), || tensors.iter().for_each(|tensor| tensor.fetch()));
    });
    graph.backings.iter().try_for_each(onnx::read_whole)?;
    Ok(())
}

/// All tensors of a graph and the graphs in it.
fn collect_tensors<'a>(graph: &'a Graph, tensors: &mut Vec<&'a Tensor>) {
    tensors.extend(graph.constants.values());
    for attr in graph.nodes.iter().flat_map(|node| node.attrs.values()) {
        match attr {
            Attr::Tensor(tensor) => tensors.push(tensor),
            Attr::Graph(body) => collect_tensors(body, tensors),
            _ => {}
        }
    }
}

/// The operations that were fused into a node, for verbose lines.
#[must_use]
pub fn fusions(node: &NodeDesc) -> String {
    let mut parts = Vec::new();
    if node.input(3).is_some() && matches!(node.op.as_str(), "FusedConv" | "FusedMatMul") {
        parts.push("residual".to_owned());
    }
    if node.is_fused("FusedConv") && node.inputs.len() > 4 {
        parts.push(format!("concat of {}", node.inputs.len() - 3));
    }
    for (name, attr) in &node.attrs {
        if let Attr::Chain(program) = attr {
            parts.push(format!("{name}={}", brief(program)));
        }
    }
    parts.join("+")
}

/// The steps' operators, first to last: `Relu`, `Div-Erf-Add-Mul`.
fn brief(program: &Program) -> String {
    let step = |step: &Step| match step {
        Step::Const(_) => None,
        Step::Unary(op, _) => Some(name(op)),
        Step::Binary(op, _, _) => Some(name(op)),
        Step::Select { .. } => Some("Select".to_owned()),
    };
    program.steps.iter().filter_map(step).collect::<Vec<_>>().join("-")
}

/// The variant's name without its parameters.
fn name(op: &impl std::fmt::Debug) -> String {
    let text = format!("{op:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use kiln_model::GraphBuilder;
    use kiln_tensor::threads::Threads;
    use kiln_tensor::{DType, TensorSpec};

    use super::*;
    use crate::session::structure::digest;

    #[test]
    fn a_constant_goes_when_its_last_reader_has_kept_it() {
        let mut builder = GraphBuilder::new("tied", 17);
        let x = builder.input("x", DType::F32, [4.into(), 4.into()]);
        let weights = builder.constant(Tensor::zeros(TensorSpec::new(DType::F32, [4, 4])).unwrap());
        let first = builder.op("MatMul", &[x, weights], &[]);
        let second = builder.op("MatMul", &[first, weights], &[]);
        builder.output("y", second);
        let mut graph = builder.finish();
        let mut wanted = graph.use_counts();
        let bytes = |graph: &Graph| graph.constants[&weights].bytes().len();
        let threads = Threads::new(1).unwrap();
        let build = SessionOptions::default().build_cx(&threads, &digest(&graph));
        let mut maker = Maker::new(&build, &threads, None);
        maker.release(&mut graph, 0, 0, 0b10, &mut wanted);
        assert_eq!(bytes(&graph), 64, "the second product has not packed it yet");
        maker.release(&mut graph, 0, 1, 0, &mut wanted);
        assert_eq!(bytes(&graph), 64, "the second product reads it as it is");
        maker.release(&mut graph, 0, 1, 0b10, &mut wanted);
        assert!(maker.held.is_empty(), "it has no reader in its own layout");
        assert_eq!(bytes(&graph), 0);
        assert_eq!(graph.constants[&weights].shape(), [4, 4]);
    }

    #[test]
    fn a_file_that_shrinks_after_it_was_parsed_is_an_error_of_the_file() {
        let mut builder = GraphBuilder::new("large", 17);
        let x = builder.input("x", DType::F32, [1.into(), 256.into()]);
        let weights = builder.constant(Tensor::zeros(TensorSpec::new(DType::F32, [256, 256])).unwrap());
        let table = builder.constant(Tensor::zeros(TensorSpec::new(DType::F32, [1, 65536])).unwrap());
        let product = builder.op("MatMul", &[x, weights], &[]);
        let sum = builder.op("ReduceSum", &[product], &[]);
        let moved = builder.op("Add", &[sum, table], &[]);
        let image = builder.input("image", DType::F32, [1.into(), 64.into(), 8.into(), 8.into()]);
        let filters = builder.constant(Tensor::zeros(TensorSpec::new(DType::F32, [64, 64, 3, 3])).unwrap());
        let filtered = builder.op("Conv", &[image, filters], &[]);
        builder.output("y", moved);
        builder.output("z", filtered);
        let bytes = onnx::write(&builder.finish()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        for (cut, readable) in [(0, true), (1000, false), (200_000, false), (600_000, false)] {
            std::fs::write(file.path(), &bytes).unwrap();
            let options = SessionOptions::default();
            let graph = onnx::load(file.path(), &options.limits).unwrap();
            file.as_file().set_len((bytes.len() - cut) as u64).unwrap();
            let session = super::super::Session::from_graph(graph, &options);
            match session {
                Ok(_) => assert!(readable, "{cut} bytes are missing"),
                Err(error) => {
                    assert!(!readable, "{error}");
                    let SessionError::Model(onnx::ModelError::Io { path, .. }) = error else { panic!("{error}") };
                    assert_eq!(path, file.path());
                }
            }
        }
    }
}
