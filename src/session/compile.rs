//! From a graph as the model says it to one that runs: passes, then nodes; everything unsupported said at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_kernels::Parallel;
use kiln_kernels::cpu::chain::{Program, Step};
use kiln_kernels::parallel::for_each_chunk;

use super::evaluate::evaluate;
use super::options::SessionOptions;
#[cfg(feature = "device")]
use super::placement::place;
use super::{Port, SessionError};
use crate::exec::BuildCx;
#[cfg(feature = "device")]
use crate::graph::device::transfer::{ToDevice, ToHost, to_device};
#[cfg(feature = "device")]
use crate::graph::device::{ON_DEVICE, OnDevice, TO_DEVICE, TO_HOST};
use crate::graph::facts::{self, Fact, Facts, Size};
use crate::graph::ir::{Attr, CAPTURES, Dim, Graph, NodeDesc, ValueInfo, ValueKind};
use crate::graph::passes::{self, PassReport};
use crate::graph::{Body, Executable, Flow, Node, Stop, ValueId, Work, operators};
use crate::onnx;
use crate::ops::{self, FlowLoad, LoadCx, OpError};
use crate::tensor::Tensor;

/// A graph after all passes, for people and tools.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The graph; constants are left out.
    pub graph: Graph,
    /// What each pass did.
    pub passes: PassReport,
}

/// Ports of the inputs that a request gives: constants that the model also lists as inputs have defaults.
pub(super) fn input_ports(graph: &Graph) -> Vec<Port> {
    graph.inputs.iter().map(|&value| port(graph, value, graph.constants.contains_key(&value))).collect()
}

/// Ports of the outputs.
pub(super) fn output_ports(graph: &Graph) -> Vec<Port> {
    graph.outputs.iter().map(|&value| port(graph, value, false)).collect()
}

fn port(graph: &Graph, value: ValueId, has_default: bool) -> Port {
    let info = graph.value(value);
    Port { name: info.name.clone(), kind: info.kind, dtype: info.dtype, dims: info.dims.clone(), has_default }
}

/// Nodes that are made at once, by all threads: enough for several of them to have weights to pack, few enough that the
/// weights of a large model are not all in memory twice.
const WAVE: usize = 32;

/// Constants that a device needs: as the graph has them, and as the device's nodes read them.
pub(super) type Uploads = Vec<(ValueId, ValueId)>;

/// Passes that prepare for kernels of the processor's: its layout, its fused attention, its products of bytes, what it stores in `bf16`,
/// inputs in parts.
const NOT_ON_DEVICES: [&str; 5] = ["layout", "attention", "quantized", "bf16", "concat"];

/// Rewrites the graph and makes its nodes.
pub(super) fn compile(
    mut graph: Graph,
    options: &SessionOptions,
    build: &BuildCx,
    parallel: &dyn Parallel,
    stop: Option<&Stop>,
) -> Result<(Executable, Description), SessionError> {
    let evaluate =
        |graph: &Graph, node: &NodeDesc, inputs: &[Option<Tensor>]| evaluate(graph, node, inputs, build, stop);
    let wanted = match build.gpu {
        None => options.passes.clone(),
        Some(_) => NOT_ON_DEVICES.iter().fold(options.passes.clone(), |passes, name| passes.without(name)),
    };
    let wanted = wanted.with_elements(build.elements());
    let passes = passes::optimise_until(stop, &mut graph, &wanted, &evaluate);
    #[cfg(feature = "device")]
    let uploads = if build.gpu.is_some() { place(&mut graph) } else { Uploads::new() };
    #[cfg(not(feature = "device"))]
    let uploads = Uploads::new();
    let mut maker = Maker { build, parallel, stop, problems: BTreeSet::new(), held: Vec::new(), depth: 0 };
    let Some(executable) = maker.executable(&mut graph, &uploads)?.filter(|_| maker.problems.is_empty()) else {
        return Err(SessionError::Unsupported(maker.problems.into_iter().collect()));
    };
    read_kept(&graph, &maker.held, parallel)?;
    graph.backings.clear();
    Ok((executable, Description { graph, passes }))
}

/// Makes the nodes of a graph and of the bodies in it, and gathers what is not supported in any of them.
struct Maker<'a> {
    build: &'a BuildCx,
    parallel: &'a dyn Parallel,
    /// What may end the loading, if anything.
    stop: Option<&'a Stop>,
    problems: BTreeSet<String>,
    /// Constants that nodes and graphs read as the model has them.
    held: Vec<Tensor>,
    /// Bodies around the graph that is being made.
    depth: usize,
}

impl Maker<'_> {
    /// The running form of a graph; `None` where something is not supported. The graph's constants are let go.
    fn executable(&mut self, graph: &mut Graph, uploads: &Uploads) -> Result<Option<Executable>, SessionError> {
        let mut works: Vec<Option<Work>> = Vec::with_capacity(graph.nodes.len());
        let mut wanted = graph.use_counts();
        while works.len() < graph.nodes.len() {
            let first = works.len();
            if let Some(Err(why)) = self.stop.map(Stop::check) {
                return Err(SessionError::LoadStopped { node: graph.nodes[first].name.clone(), why });
            }
            let mut wave: Vec<Option<Result<Box<dyn Node>, OpError>>> = Vec::new();
            wave.resize_with(WAVE.min(graph.nodes.len() - first), || None);
            let (whole, build) = (&*graph, self.build);
            for_each_chunk(self.parallel, &mut wave, 1, &|index, made| {
                let node = &whole.nodes[first + index];
                if ops::lookup_flow(&node.domain, &node.op).is_none() {
                    made.fill_with(|| Some(make(whole, node, build)));
                }
            });
            for (index, made) in (first..).zip(wave) {
                let made = match made {
                    Some(made) => made.map(Work::Node),
                    None => match self.flow(graph, index)? {
                        Some(made) => made.map(Work::Flow),
                        None => {
                            works.push(None);
                            continue;
                        }
                    },
                };
                let work = self.checked(&graph.nodes[index], made)?;
                if let Some(Work::Node(node)) = &work {
                    release(graph, index, node.kept_inputs(), &mut wanted, &mut self.held);
                }
                works.push(work);
            }
        }
        let Some(works) = works.into_iter().collect::<Option<Vec<Work>>>() else { return Ok(None) };
        self.upload(graph, uploads)?;
        let fused = graph.nodes.iter().map(fusions);
        let executable = Executable::new(graph, works.into_iter().zip(fused));
        self.held.extend(graph.constants.drain().map(|(_, tensor)| tensor));
        Ok(Some(executable))
    }

    /// Sends the constants that the device's nodes read; what nobody else reads is let go here.
    #[cfg(feature = "device")]
    fn upload(&self, graph: &mut Graph, uploads: &Uploads) -> Result<(), SessionError> {
        let Some(gpu) = &self.build.gpu else { return Ok(()) };
        let readers = graph.use_counts();
        for &(host, there) in uploads {
            let Some(tensor) = graph.constants.get(&host) else { continue };
            graph.constants.insert(there, to_device(gpu, tensor)?);
            if readers[host.index()] == 0 {
                graph.constants.remove(&host);
            }
        }
        Ok(())
    }

    /// There is no device to send them to.
    #[cfg(not(feature = "device"))]
    fn upload(&self, _: &mut Graph, _: &Uploads) -> Result<(), SessionError> {
        Ok(())
    }

    /// A step that sees more than tensors, with its bodies; `None` where something in those is not supported.
    fn flow(
        &mut self,
        graph: &mut Graph,
        index: usize,
    ) -> Result<Option<Result<Box<dyn Flow>, OpError>>, SessionError> {
        let mut bodies = Some(BTreeMap::new());
        // What a loop of no turns gathers has the shape that a turn would have given it.
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
            let made = self.executable(body, &Uploads::new());
            self.depth -= 1;
            match made? {
                Some(made) => {
                    bodies.as_mut().and_then(|bodies| bodies.insert(name.clone(), Body::new(made, inputs, outputs)))
                }
                None => bodies.take().and(None),
            };
        }
        let node = &graph.nodes[index];
        let Some((bodies, make)) = bodies.zip(ops::lookup_flow(&node.domain, &node.op)) else { return Ok(None) };
        Ok(Some(make(FlowLoad { node, graph, bodies })))
    }

    /// What was made of a node, or a note of why nothing was.
    ///
    /// # Errors
    ///
    /// A node that breaks its operator's rules.
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

/// Whether a body leaves open of what type or shape an output is.
fn is_undeclared(output: &ValueInfo) -> bool {
    let is_open = |dims: &Vec<Dim>| dims.iter().any(|dim| !matches!(dim, Dim::Fixed(_)));
    output.kind == ValueKind::Tensor && (output.dtype.is_none() || output.dims.as_ref().is_none_or(is_open))
}

/// What is known of the inputs of a loop's body: captured values, which come last, and before them the slices of a Scan. What is
/// carried may change its shape from turn to turn.
fn known_inside(node: &NodeDesc, around: &Facts) -> Vec<Option<Fact>> {
    let mut known: Vec<Option<Fact>> = vec![None; node.inputs.len()];
    let count = |name: &str| usize::try_from(node.int(name, 0)).unwrap_or(0);
    let captured = known.len().saturating_sub(count(CAPTURES));
    let fact = |place: usize| node.input(place).map(|value| around.get(value).clone());
    for (place, known) in known.iter_mut().enumerate().skip(captured) {
        *known = fact(place);
    }
    // Up to version 8 everything had a batch axis.
    if node.is("Scan") && node.version >= 9 {
        let first = captured.saturating_sub(count("num_scan_inputs"));
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

/// Fills in what a body's outputs do not declare and its nodes say.
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

/// Lets go of constants that a node has kept in its own way and nobody else wants; `wanted` counts who still does. Done
/// while nodes are made, so that a model's weights are never all in memory twice. Those that are still held as they
/// are go to `held`.
fn release(graph: &mut Graph, node: usize, kept: u64, wanted: &mut [u32], held: &mut Vec<Tensor>) {
    let inputs = graph.nodes[node].inputs.iter().enumerate();
    let kept = inputs.filter(|(input, _)| *input < 64 && kept >> input & 1 == 1).filter_map(|(_, value)| *value);
    for value in kept {
        let readers = &mut wanted[value.index()];
        *readers -= 1;
        if *readers == 0
            && let Some(tensor) = graph.constants.get_mut(&value)
        {
            let mut whole = std::mem::replace(tensor, Tensor::hollow(tensor.spec().clone()));
            // A node may need the elements in other layouts later on.
            if !whole.is_unique() {
                held.push(whole);
            }
        }
    }
}

/// Reads what nodes keep as the model has it, while reading errors can still be told; nothing is left to a request.
fn read_kept(graph: &Graph, held: &[Tensor], parallel: &dyn Parallel) -> Result<(), SessionError> {
    graph.backings.iter().for_each(|backing| backing.retire());
    let mut tensors: Vec<&Tensor> = held.iter().collect();
    collect_tensors(graph, &mut tensors);
    for_each_chunk(parallel, &mut tensors, 1, &|_, tensors| {
        tensors.iter().for_each(|tensor| tensor.fetch());
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

/// The running form of one node.
pub(super) fn make(graph: &Graph, node: &NodeDesc, build: &BuildCx) -> Result<Box<dyn Node>, OpError> {
    #[cfg(feature = "device")]
    if let Some(gpu) = &build.gpu {
        if node.is_fused(TO_DEVICE) {
            return Ok(Box::new(ToDevice(gpu.clone())));
        }
        if node.is_fused(TO_HOST) {
            return Ok(Box::new(ToHost(gpu.clone())));
        }
    }
    // What passes make has as many as they give it.
    if let Some(row) = operators::find(&node.domain, &node.op).filter(|row| row.domain != "kiln") {
        let given = node.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if !row.inputs.allows(given) {
            return Err(OpError::invalid(node, format!("{given} inputs where it takes {}", row.inputs)));
        }
    }
    let make = ops::lookup(&node.domain, &node.op).ok_or_else(|| OpError::Unknown(node.op.clone()))?;
    let made = make(&LoadCx { node, graph, build })?;
    #[cfg(feature = "device")]
    if let Some(gpu) = build.gpu.as_ref().filter(|_| node.int(ON_DEVICE, 0) != 0) {
        let form = ops::device::form(node).ok_or_else(|| OpError::unsupported(node, "no form on a device"))?;
        return Ok(Box::new(OnDevice::new(made, gpu.clone(), ops::device::carried(&form))));
    }
    Ok(made)
}

/// What was fused into a node, in the words of verbose lines.
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
    use super::*;
    use crate::graph::GraphBuilder;
    use crate::tensor::{DType, TensorSpec};

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
        let mut held = Vec::new();
        release(&mut graph, 0, 0b10, &mut wanted, &mut held);
        assert_eq!(bytes(&graph), 64, "the second product has not packed it yet");
        release(&mut graph, 1, 0, &mut wanted, &mut held);
        assert_eq!(bytes(&graph), 64, "the second product reads it as it is");
        release(&mut graph, 1, 0b10, &mut wanted, &mut held);
        assert!(held.is_empty(), "nobody reads it as it is");
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
