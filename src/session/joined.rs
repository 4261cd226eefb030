//! Several short requests at once: row-wise nodes run once over the rows of all requests, other nodes run for each
//! request.
//!
//! [`rows`](kiln_model::rows) cuts the graph into stages, and each stage is an executable of its own that shares nodes
//! and packed weights with the session's. Requests are not padded: a stage over rows has the requests' rows end to end,
//! in an operand whose other leading dimensions are 1, followed by rows of zeros up to a multiple of [`ROUND`], so that
//! stages meet few sizes and their executors are built once. A stage that runs for each request reads the request's
//! part of that memory.
//!
//! A request's results have the same bits as alone. Functions of elements, norms and tables compute a row in one way,
//! whatever other rows there are. Products of few rows may add in another order than products of many rows, so requests
//! are joined only if all products by weights add in the same order for the request's rows and for the group's; under
//! [`Numerics::Invariant`] they always do. If anything fails in a group, each of its requests runs alone.
//!
//! Records that only groups leave would lack the executors of single requests, and a session that takes records as
//! complete joins no requests. So the first request of each shape runs alone where records are kept.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError};

use kiln_fork::Mutex;
use kiln_kernels::cpu::{Elements, Numerics};
use kiln_model::Value;
use kiln_model::facts::Facts;
use kiln_model::ir::{Graph, ValueId};
use kiln_model::rows::{self, Rows, Stages};
use kiln_run::record::CacheMode;
use kiln_run::run::part::Part;
use kiln_run::{Executable, NodeError, Resources, RunError, RunState};
use kiln_tensor::{DType, Shape, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::idle::Idle;
use super::serve::Terms;
use super::{Session, SessionError};

/// Rows of a group are a multiple of this.
const ROUND: usize = 8;

/// All stages together may have at most this many times the nodes of the graph: each stage has copies of nodes that it
/// folds.
const MOST_COPIES: usize = 8;

/// More rows than these are not joined.
pub(super) const MOST: usize = 512;

/// The most shapes whose first request runs alone. Requests of later shapes are joined at once.
const MOST_SHAPES: usize = 4096;

/// The part of a model's graph that is computed together for short requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinReport {
    /// Nodes that run once over the rows of many requests.
    pub nodes: usize,
    /// Stages with these nodes.
    pub stages: usize,
    /// The numbers of rows of requests that are joined, in ascending order: products of that many rows add in the same
    /// order as products of many rows.
    pub rows: Vec<usize>,
    /// Most rows of requests that run together.
    pub group: usize,
}

/// The graph of a session in stages.
pub(super) struct Joined {
    stages: Vec<Stage>,
    rows: Vec<Rows>,
    /// The rows whose number counts as the length of a request.
    most: usize,
    /// By rows, and by their number: whether products add in the order that does not depend on the number.
    ordered: Vec<Vec<bool>>,
    /// How many values go from stage to stage.
    slots: usize,
    /// Where the inputs of a request go, and where its outputs are in the end.
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    idle: Arc<Mutex<Idle>>,
    /// Hashes of the shapes of requests so far, where records are kept.
    shapes: Option<Mutex<HashSet<u64>>>,
}

/// The number of a value that goes from stage to stage.
type Slot = usize;

/// A stage, ready to run.
struct Stage {
    executable: Executable,
    /// The index of its rows, if it runs over the rows of all requests.
    rows: Option<usize>,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    /// Values that no later stage reads.
    dead: Vec<Slot>,
}

/// A value of all requests of a group.
enum Held {
    Nothing,
    /// One for each request.
    Each(Vec<Option<Value>>),
    /// The rows of all requests end to end, and the index of their kind.
    Rows(Tensor, usize),
}

/// Where the rows of each request lie.
struct Layout {
    /// The leading dimensions of each request.
    leading: Vec<Shape>,
    /// The first row of each request.
    first: Vec<usize>,
    /// The number of rows of all requests, with the rows of zeros after them.
    total: usize,
}

impl Layout {
    /// The layout of requests whose rows have these sizes. `rounded` gives the total, with rows of zeros, for the
    /// number of their rows.
    fn of(leading: Vec<Shape>, rounded: impl FnOnce(usize) -> Option<usize>) -> Option<Layout> {
        let mut rows = 0usize;
        let mut first = Vec::with_capacity(leading.len());
        for sizes in &leading {
            first.push(rows);
            rows = rows.checked_add(sizes.iter().try_fold(1usize, |rows, &size| rows.checked_mul(size))?)?;
        }
        Some(Layout { leading, first, total: rounded(rows)? })
    }
}

impl Joined {
    /// The stages of a session's graph; `None` where they gain nothing, or bits could differ.
    pub(super) fn of(session: &Session) -> Option<Joined> {
        let build = &session.build;
        let is_exact = build.elements() == Elements::F32 || build.numerics == Numerics::Invariant;
        if !is_exact || build.gpu.is_some() {
            return None;
        }
        let (executable, graph) = (&session.executable, session.executable.whole(&session.description.graph));
        let folded = |value: ValueId| executable.is_folded(value) || graph.constants.contains_key(&value);
        if graph.outputs.iter().any(|&output| folded(output)) {
            return None;
        }
        let is_ordered = |products: &[usize], rows: usize| {
            let one = |&product: &usize| executable.adds_in_order(product, build.isa, rows);
            build.numerics == Numerics::Invariant || products.iter().all(one)
        };
        // Most requests have one item.
        let may_join = |products: &[usize]| is_ordered(products, 1);
        let stages = rows::stages(&graph, &Facts::of(&graph, true), &folded, &may_join)?;
        let limit = session.kept.idle.lock().unwrap_or_else(PoisonError::into_inner).limit;
        let idle = session.kept.join(limit);
        let ordered = |products: &Vec<usize>| (0..=MOST).map(|rows| is_ordered(products, rows)).collect();
        let ordered = stages.products.iter().map(ordered).collect();
        let joined = Cutter { executable, graph: &graph, folded: &folded }.cut(stages, ordered, idle)?;
        let keeps_records = build.records.mode() != CacheMode::Off;
        Some(Joined { shapes: keeps_records.then(Mutex::default), ..joined })
    }

    /// The number of nodes that run over rows, and of their stages.
    pub(super) fn report(&self) -> JoinReport {
        let over_rows = self.stages.iter().filter(|stage| stage.rows.is_some());
        let nodes = over_rows.clone().map(|stage| stage.executable.steps().len()).sum();
        JoinReport { nodes, stages: over_rows.count(), ..JoinReport::default() }
    }

    /// The numbers of rows up to `most` with which a request may be joined.
    pub(super) fn counts(&self, most: usize) -> Vec<usize> {
        (1..=most).filter(|&count| self.is_ordered(self.most, count)).collect()
    }

    /// The number of rows of a request whose inputs have these shapes; `None` if it cannot be joined with others.
    /// `shape` gives the shape of the input at a place.
    pub(super) fn rows_of<'a>(&self, shape: &dyn Fn(usize) -> Option<&'a [usize]>) -> Option<usize> {
        let leading = self.rows.iter().map(|rows| leading(shape(rows.input), *rows)).collect::<Option<Vec<Shape>>>()?;
        let counts = leading.iter().map(|sizes| sizes.iter().try_fold(1usize, |rows, &size| rows.checked_mul(size)));
        let counts = counts.collect::<Option<Vec<usize>>>()?;
        let can_join = (0..counts.len()).all(|rows| counts[rows] > 0 && self.is_ordered(rows, counts[rows]));
        can_join.then(|| counts[self.most])
    }

    /// Notes a request whose inputs have these shapes. Returns whether it is the first one and runs alone, because
    /// records are kept.
    pub(super) fn note_first<'a>(&self, shape: &dyn Fn(usize) -> Option<&'a [usize]>) -> bool {
        let Some(shapes) = &self.shapes else { return false };
        let mut hasher = DefaultHasher::new();
        (0..self.inputs.len()).for_each(|place| shape(place).hash(&mut hasher));
        let mut shapes = shapes.lock().unwrap_or_else(PoisonError::into_inner);
        shapes.len() < MOST_SHAPES && shapes.insert(hasher.finish())
    }

    /// Whether products of `count` of these rows add in an order that does not depend on their number.
    fn is_ordered(&self, rows: usize, count: usize) -> bool {
        self.ordered[rows].get(count) == Some(&true)
    }
}

/// The shape of the input at a place.
pub(super) fn shape(inputs: &[Option<Value>], place: usize) -> Option<&[usize]> {
    Some(inputs.get(place)?.as_ref()?.as_tensor()?.shape())
}

/// The sizes of the axes that are rows, from the shape of the input that defines them.
fn leading(shape: Option<&[usize]>, rows: Rows) -> Option<Shape> {
    Some(shape?.get(..rows.axes)?.iter().copied().collect())
}

/// Makes stages ready to run.
struct Cutter<'a> {
    executable: &'a Executable,
    graph: &'a Graph,
    folded: &'a dyn Fn(ValueId) -> bool,
}

impl Cutter<'_> {
    fn cut(&self, stages: Stages, ordered: Vec<Vec<bool>>, idle: Arc<Mutex<Idle>>) -> Option<Joined> {
        let Stages { stages, rows, most, .. } = stages;
        let producers = self.graph.producers();
        let mut left = MOST_COPIES * self.graph.nodes.len();
        let nodes: Vec<Vec<usize>> =
            stages.iter().map(|stage| self.with_folded(&stage.nodes, &producers, &mut left)).collect::<Option<_>>()?;
        // The last stage that reads each value; outputs are read after all stages.
        let mut last = vec![None; self.graph.values.len()];
        for (stage, nodes) in nodes.iter().enumerate() {
            for value in nodes.iter().flat_map(|&node| self.graph.nodes[node].inputs.iter().flatten()) {
                last[value.index()] = Some(stage);
            }
        }
        self.graph.outputs.iter().for_each(|output| last[output.index()] = Some(stages.len()));
        let mut numbers = hashbrown::HashMap::new();
        let mut slot = |value: &ValueId| {
            let next = numbers.len();
            *numbers.entry(*value).or_insert(next)
        };
        let inputs = self.graph.inputs.iter().map(&mut slot).collect();
        let mut ready = Vec::with_capacity(stages.len());
        for (number, (stage, nodes)) in stages.iter().zip(&nodes).enumerate() {
            let wanted = |value: ValueId| last[value.index()] > Some(number) && !(self.folded)(value);
            let Part { executable, inputs, outputs } = self.executable.part(self.graph, nodes, &wanted);
            let dead = inputs.iter().filter(|value| last[value.index()] == Some(number)).map(&mut slot).collect();
            let inputs = inputs.iter().map(&mut slot).collect();
            let outputs = outputs.iter().map(&mut slot).collect();
            ready.push(Stage { executable, rows: stage.rows, inputs, outputs, dead });
        }
        let outputs = self.graph.outputs.iter().map(&mut slot).collect();
        Some(Joined { stages: ready, rows, most, ordered, slots: numbers.len(), inputs, outputs, idle, shapes: None })
    }

    /// These nodes and the nodes that make the folded values that they read, in the graph's order; `None` where there
    /// would be more than `left`.
    fn with_folded(&self, nodes: &[usize], producers: &[Option<usize>], left: &mut usize) -> Option<Vec<usize>> {
        let mut found = BTreeSet::new();
        let mut open = nodes.to_vec();
        while let Some(node) = open.pop() {
            if found.insert(node) {
                *left = left.checked_sub(1)?;
                let read = self.graph.nodes[node].inputs.iter().flatten().filter(|&&value| (self.folded)(value));
                open.extend(read.filter_map(|value| producers[value.index()]));
            }
        }
        Some(found.into_iter().collect())
    }
}

impl Session {
    /// The stages of the graph, if requests can be joined.
    pub(super) fn joined(&self) -> Option<&Joined> {
        let _whole = kiln_fork::stay();
        self.joined.get_or_init(|| Joined::of(self)).as_ref()
    }

    /// Runs requests with bound inputs as one group. Returns the outputs of each; `None` for a request that `leaves`
    /// has dropped between two stages.
    ///
    /// # Errors
    ///
    /// Where any request would fail, or a value contradicts the graph's description: then each request has to run
    /// alone.
    pub(super) fn run_joined(
        &self,
        joined: &Joined,
        requests: Vec<Vec<Option<Value>>>,
        leaves: &dyn Fn(usize) -> bool,
        terms: &Terms,
    ) -> Result<Vec<Option<Vec<Value>>>, SessionError> {
        let count = requests.len();
        let outputs = self.in_state(&joined.idle, terms, None, false, |state, resources| {
            Group::of(joined, requests)?.run(leaves, state.parts(joined.stages.len()), resources)
        })?;
        self.share.count_joined(count);
        Ok(outputs)
    }
}

/// Requests that run together.
struct Group<'a> {
    joined: &'a Joined,
    /// The places in the caller's list of the requests that have not left.
    members: Vec<usize>,
    layouts: Vec<Layout>,
    values: Vec<Held>,
}

/// The error of a group whose values contradict its graph.
fn apart(what: &str) -> RunError {
    RunError { node: String::new(), op: "graph".to_owned(), error: NodeError::Input(what.to_owned()) }
}

fn failed(error: impl Into<NodeError>) -> RunError {
    RunError { node: String::new(), op: "graph".to_owned(), error: error.into() }
}

impl Group<'_> {
    fn of(joined: &Joined, requests: Vec<Vec<Option<Value>>>) -> Result<Group<'_>, RunError> {
        let layout = |rows: &Rows| -> Option<Layout> {
            let leading = requests.iter().map(|inputs| leading(shape(inputs, rows.input), *rows));
            Layout::of(leading.collect::<Option<_>>()?, |rows| rows.checked_next_multiple_of(ROUND))
        };
        let layouts = joined.rows.iter().map(layout).collect::<Option<Vec<Layout>>>();
        let layouts = layouts.ok_or_else(|| apart("an input has no rows"))?;
        if layouts.iter().enumerate().any(|(rows, layout)| !joined.is_ordered(rows, layout.total)) {
            return Err(apart("products of the rows of the group add in another order"));
        }
        let mut values: Vec<Held> = (0..joined.slots).map(|_| Held::Nothing).collect();
        let members = (0..requests.len()).collect();
        let mut each: Vec<_> = requests.into_iter().map(Vec::into_iter).collect();
        for &slot in &joined.inputs {
            values[slot] = Held::Each(each.iter_mut().map(|inputs| inputs.next().flatten()).collect());
        }
        Ok(Group { joined, members, layouts, values })
    }

    fn run(
        mut self,
        leaves: &dyn Fn(usize) -> bool,
        states: &mut [RunState],
        resources: &Resources<'_>,
    ) -> Result<Vec<Option<Vec<Value>>>, RunError> {
        let mut outputs: Vec<Option<Vec<Value>>> = self.members.iter().map(|_| None).collect();
        for (stage, state) in self.joined.stages.iter().zip(states) {
            self.part_with(leaves, resources)?;
            match stage.rows {
                Some(rows) => self.run_rows(stage, rows, state, resources)?,
                None => self.run_each(stage, state, resources)?,
            }
            stage.dead.iter().for_each(|&slot| self.values[slot] = Held::Nothing);
        }
        for (request, &member) in self.members.iter().enumerate() {
            outputs[member] = Some(self.outputs(request, resources)?);
        }
        Ok(outputs)
    }

    /// Removes unwanted requests, and their rows, from the group.
    fn part_with(&mut self, leaves: &dyn Fn(usize) -> bool, resources: &Resources<'_>) -> Result<(), RunError> {
        let stays: Vec<usize> = (0..self.members.len()).filter(|&at| !leaves(self.members[at])).collect();
        if stays.len() == self.members.len() {
            return Ok(());
        }
        if stays.is_empty() {
            return Err(apart("all requests have left the group"));
        }
        for slot in 0..self.values.len() {
            // The next stage over rows puts the parts end to end again. An output keeps no rows of others.
            self.values[slot] = match &self.values[slot] {
                Held::Nothing => continue,
                Held::Rows(..) if self.joined.outputs.contains(&slot) => {
                    let own = stays.iter().map(|&request| self.output(slot, request, resources).map(Some));
                    Held::Each(own.collect::<Result<_, _>>()?)
                }
                Held::Each(_) | Held::Rows(..) => {
                    let parts = stays.iter().map(|&request| self.value(slot, request));
                    Held::Each(parts.collect::<Result<_, _>>()?)
                }
            };
        }
        for (rows, layout) in self.layouts.iter_mut().enumerate() {
            let leading = stays.iter().map(|&request| layout.leading[request].clone()).collect();
            // Products of fewer rows may add in another order; as many rows as before are always possible.
            let is_ordered = |&total: &usize| self.joined.is_ordered(rows, total);
            let rounded = |rows: usize| (rows..=layout.total).filter(|total| total % ROUND == 0).find(is_ordered);
            *layout = Layout::of(leading, rounded).ok_or_else(|| apart("rows of the group add in another order"))?;
        }
        self.members = stays.into_iter().map(|at| self.members[at]).collect();
        Ok(())
    }

    /// Runs a stage for each request.
    fn run_each(&mut self, stage: &Stage, state: &mut RunState, resources: &Resources<'_>) -> Result<(), RunError> {
        let count = self.members.len();
        let mut made: Vec<Vec<Option<Value>>> = stage.outputs.iter().map(|_| Vec::with_capacity(count)).collect();
        for request in 0..count {
            let inputs = stage.inputs.iter().map(|&slot| self.value(slot, request)).collect::<Result<_, _>>()?;
            let outputs = stage.executable.run(inputs, state, resources)?;
            made.iter_mut().zip(outputs).for_each(|(made, output)| made.push(Some(output)));
        }
        for (&slot, made) in stage.outputs.iter().zip(made) {
            self.values[slot] = Held::Each(made);
        }
        Ok(())
    }

    /// Runs a stage over the rows of all requests.
    fn run_rows(
        &mut self,
        stage: &Stage,
        rows: usize,
        state: &mut RunState,
        resources: &Resources<'_>,
    ) -> Result<(), RunError> {
        for &slot in &stage.inputs {
            if !matches!(&self.values[slot], Held::Rows(_, of) if *of == rows) {
                self.values[slot] = Held::Rows(self.gathered(slot, rows, resources)?, rows);
            }
        }
        let inputs = stage.inputs.iter().map(|&slot| match &self.values[slot] {
            Held::Rows(tensor, _) => Some(Value::Tensor(tensor.clone())),
            _ => None,
        });
        let outputs = stage.executable.run(inputs.collect(), state, resources)?;
        let (axes, total) = (self.joined.rows[rows].axes, self.layouts[rows].total);
        for (&slot, output) in stage.outputs.iter().zip(outputs) {
            let Value::Tensor(tensor) = output else { return Err(apart("rows are no tensor")) };
            let leading = tensor.shape().get(..axes);
            if leading.is_none_or(|sizes| sizes[axes - 1] != total || sizes[..axes - 1].iter().any(|&size| size != 1)) {
                return Err(apart("a stage has other rows than its inputs"));
            }
            self.values[slot] = Held::Rows(tensor, rows);
        }
        Ok(())
    }

    /// The rows of all requests end to end, and zeros behind them.
    fn gathered(&self, slot: Slot, rows: usize, resources: &Resources<'_>) -> Result<Tensor, RunError> {
        let (layout, axes) = (&self.layouts[rows], self.joined.rows[rows].axes);
        let mut whole: Option<Tensor> = None;
        let mut filled = 0;
        for (request, leading) in layout.leading.iter().enumerate() {
            let value = self.value(slot, request)?;
            let Some(Value::Tensor(tensor)) = value else { return Err(apart("a value with rows is no tensor")) };
            let Some((sizes, width)) = tensor.shape().split_at_checked(axes) else {
                return Err(apart("a value has fewer axes than rows"));
            };
            if *sizes != leading[..] || tensor.dtype() == DType::String {
                return Err(apart("requests have rows of other numbers than their inputs"));
            }
            let whole = match &mut whole {
                Some(whole) if whole.dtype() == tensor.dtype() && whole.shape()[axes..] == *width => whole,
                Some(_) => return Err(apart("rows of two requests differ in width or type")),
                none => {
                    let shape = std::iter::repeat_n(1, axes - 1).chain([layout.total]).chain(width.iter().copied());
                    let spec = TensorSpec::new(tensor.dtype(), shape);
                    none.insert(Tensor::from_pool(resources.buffers, spec).map_err(failed)?)
                }
            };
            let bytes = tensor.bytes();
            whole.bytes_mut()[filled..][..bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        }
        let mut whole = whole.ok_or_else(|| apart("a group has no requests"))?;
        whole.bytes_mut()[filled..].fill(0);
        Ok(whole)
    }

    /// A value of one request: its own, or its part of the rows of all.
    fn value(&self, slot: Slot, request: usize) -> Result<Option<Value>, RunError> {
        match &self.values[slot] {
            Held::Nothing => Ok(None),
            Held::Each(values) => Ok(values[request].clone()),
            Held::Rows(tensor, rows) => {
                let (layout, axes) = (&self.layouts[*rows], self.joined.rows[*rows].axes);
                let width = &tensor.shape()[axes..];
                let first = layout.first[request] * width.iter().product::<usize>();
                let shape: SmallVec<[usize; 6]> = layout.leading[request].iter().chain(width).copied().collect();
                let part = tensor.part(first, shape).map_err(failed)?;
                part.map(|part| Some(Value::Tensor(part))).ok_or_else(|| apart("rows have no bytes"))
            }
        }
    }

    /// The outputs of one request, in memory of their own.
    fn outputs(&self, request: usize, resources: &Resources<'_>) -> Result<Vec<Value>, RunError> {
        self.joined.outputs.iter().map(|&slot| self.output(slot, request, resources)).collect()
    }

    fn output(&self, slot: Slot, request: usize, resources: &Resources<'_>) -> Result<Value, RunError> {
        match (&self.values[slot], self.value(slot, request)?) {
            (Held::Rows(..), Some(Value::Tensor(part))) => {
                let mut own = Tensor::from_pool(resources.buffers, part.spec().clone()).map_err(failed)?;
                own.bytes_mut().copy_from_slice(part.bytes());
                Ok(Value::Tensor(own))
            }
            (_, Some(value)) => Ok(value),
            (_, None) => Err(apart("an output of the graph was never made")),
        }
    }
}
