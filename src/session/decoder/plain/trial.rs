//! Values of a graph that depend on lengths alone (masks, positions, shapes), computed for a few lengths.
//!
//! The nodes that exporters write between `attention_mask` and a mask compare positions with each other and with
//! numbers of the graph. Lengths beyond all these numbers therefore lie on both sides of every comparison. Operators
//! that could tell other lengths apart (division, remainders) are not followed.

use std::collections::BTreeSet;

use half::f16;
use hashbrown::{HashMap, HashSet};
use kiln_model::facts::{Facts, Size};
use kiln_model::ir::{Attr, Graph, NodeDesc, ValueId};
use kiln_model::stop::Stop;
use kiln_run::exec::BuildCx;
use kiln_tensor::{DType, Tensor};

use super::table::Table;
use crate::session::decoder::rewrite::{OF_PAST, OF_TOTAL};
use crate::session::evaluate::evaluate;

/// Names of the dimensions of a decoder's inputs.
pub(super) const BATCH: &str = "kiln.sequences";
pub(super) const NEW: &str = "kiln.new";
pub(super) const PAST: &str = OF_PAST;
pub(super) const TOTAL: &str = OF_TOTAL;

/// Most bytes of all values that are computed.
const MOST_BYTES: usize = 256 << 20;

/// Numbers up to this one are tried; larger ones up to the largest 32-bit integer are refused, and still larger ones
/// mean no length.
const MOST_LENGTH: i64 = 1 << 16;

/// Operators that are followed.
const FOLLOWED: &[&str] = &[
    "Add",
    "And",
    "Cast",
    "CastLike",
    "Concat",
    "ConstantOfShape",
    "CumSum",
    "Equal",
    "Expand",
    "Flatten",
    "Gather",
    "GatherND",
    "Greater",
    "GreaterOrEqual",
    "Identity",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Range",
    "ReduceSum",
    "Reshape",
    "ScatterElements",
    "ScatterND",
    "Shape",
    "Slice",
    "Squeeze",
    "Sub",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Where",
];

/// Further operators that are followed for numbers that are the same at all lengths.
const OF_NUMBERS: &[&str] = &["Div", "Pow", "Reciprocal", "Sqrt"];

/// Lengths of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lengths {
    pub(super) batch: usize,
    pub(super) new: usize,
    pub(super) past: usize,
}

impl Lengths {
    /// Whether a mask of every query and key fits into the bytes that are computed. A model may declare sizes that no
    /// request has.
    pub(super) fn can_be_tried(self) -> bool {
        let keys = self.past.checked_add(self.new);
        let pairs = keys.and_then(|keys| keys.checked_mul(self.new)?.checked_mul(self.batch));
        pairs.is_some_and(|pairs| pairs <= MOST_BYTES / size_of::<i64>())
    }
}

/// The operators through which a value may depend on lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Comparisons,
    Numbers,
}

/// Inputs whose contents depend on lengths alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    /// The mask: 1 for each filled position.
    pub(super) mask: Option<ValueId>,
    /// The number of each new position.
    pub(super) positions: Option<ValueId>,
}

/// A graph whose values are computed for some lengths.
pub(super) struct Trial<'a> {
    pub(super) graph: &'a Graph,
    pub(super) facts: &'a Facts,
    given: Given,
    producers: Vec<Option<usize>>,
    build: BuildCx,
    stop: Option<&'a Stop>,
    known: HashMap<Lengths, HashMap<ValueId, Tensor>>,
    /// Lengths that the graph has no result for.
    contradicted: HashSet<Lengths>,
    bytes: usize,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        facts: &'a Facts,
        given: Given,
        build: BuildCx,
        stop: Option<&'a Stop>,
    ) -> Trial<'a> {
        let (known, contradicted) = (HashMap::new(), HashSet::new());
        Trial { graph, facts, given, producers: graph.producers(), build, stop, known, contradicted, bytes: 0 }
    }

    /// The node that makes a value.
    pub(super) fn maker(&self, value: ValueId) -> Option<&'a NodeDesc> {
        self.place(value).map(|place| &self.graph.nodes[place])
    }

    /// The place of the node that makes a value.
    pub(super) fn place(&self, value: ValueId) -> Option<usize> {
        self.producers[value.index()]
    }

    /// The nodes that a value depends on, in order. `None` where it depends on more than lengths.
    fn nodes_of(&self, value: ValueId, follows: Follows) -> Option<BTreeSet<usize>> {
        let (mut found, mut open) = (BTreeSet::new(), vec![value]);
        while let Some(value) = open.pop() {
            if self.graph.constants.contains_key(&value) || self.is_given(value) {
                continue;
            }
            let place = self.producers[value.index()]?;
            let node = &self.graph.nodes[place];
            let is_followed = |ops: &[&str]| node.domain.is_empty() && ops.contains(&node.op.as_str());
            let is_number = follows == Follows::Numbers && is_followed(OF_NUMBERS);
            if !is_followed(FOLLOWED) && !is_number {
                return None;
            }
            if found.insert(place) && !self.is_known_shape(node) {
                open.extend(node.inputs.iter().flatten());
            }
        }
        Some(found)
    }

    /// A size in a request of these lengths.
    fn size(&self, size: Size, lengths: Lengths) -> Option<i64> {
        let named = |name: &str| {
            let size = match name {
                BATCH => lengths.batch,
                NEW => lengths.new,
                PAST => lengths.past,
                TOTAL => lengths.past + lengths.new,
                _ => return None,
            };
            i64::try_from(size).ok()
        };
        self.facts.value(size, &named)
    }

    /// Whether a node makes a shape that follows from the model's declarations. Other shapes are those of values that
    /// are computed.
    fn is_known_shape(&self, node: &NodeDesc) -> bool {
        node.is("Shape") && self.shape(node, Lengths { batch: 1, new: 1, past: 1 }).is_some()
    }

    /// The elements of a shape.
    fn shape(&self, node: &NodeDesc, lengths: Lengths) -> Option<Tensor> {
        let elements = self.facts.get(node.output(0)?).elements.as_ref()?;
        let sizes: Option<Vec<i64>> = elements.iter().map(|&size| self.size(size, lengths)).collect();
        let sizes = sizes?;
        Tensor::from_vec([sizes.len()], sizes).ok()
    }

    /// The dimensions of a value in a request of these lengths, where they depend on lengths alone.
    pub(super) fn dims(&self, value: ValueId, lengths: Lengths) -> Option<Vec<usize>> {
        let size = |&size: &Size| usize::try_from(self.size(size, lengths)?).ok();
        self.facts.dims(value)?.iter().map(size).collect()
    }

    /// The value in a request of these lengths without padding. `None` where it depends on more than lengths or cannot
    /// be computed.
    pub(super) fn compute(&mut self, value: ValueId, follows: Follows, lengths: Lengths) -> Option<Tensor> {
        if let Some(constant) = self.graph.constant(value) {
            return Some(constant.clone());
        }
        for place in self.nodes_of(value, follows)? {
            let node = &self.graph.nodes[place];
            let known = self.known.entry(lengths).or_default();
            if node.outputs.iter().flatten().all(|output| known.contains_key(output)) {
                continue;
            }
            let made = if self.is_known_shape(node) {
                vec![self.shape(node, lengths)?]
            } else {
                let input = |value: &Option<ValueId>| -> Option<Option<Tensor>> {
                    let Some(value) = value else { return Some(None) };
                    let tensor = match self.graph.constant(*value) {
                        Some(constant) => constant.clone(),
                        None if self.is_given(*value) => self.input(*value, lengths)?,
                        None => self.known.get(&lengths)?.get(value)?.clone(),
                    };
                    Some(Some(tensor))
                };
                let inputs: Option<Vec<Option<Tensor>>> = node.inputs.iter().map(input).collect();
                let inputs = inputs?;
                let made = evaluate(self.graph, node, &inputs, &self.build, self.stop);
                if made.is_none() && node.is("Expand") && !expands(&inputs) {
                    self.contradicted.insert(lengths);
                }
                made?
            };
            self.bytes = self.bytes.saturating_add(made.iter().map(Tensor::byte_len).sum());
            if self.bytes > MOST_BYTES {
                return None;
            }
            let outputs = node.outputs.iter().zip(made);
            let known = self.known.entry(lengths).or_default();
            known.extend(outputs.filter_map(|(output, tensor)| Some(((*output)?, tensor))));
        }
        match self.is_given(value) {
            true => self.input(value, lengths),
            false => self.known.get(&lengths)?.get(&value).cloned(),
        }
    }

    /// The last sizes of the constants that a value depends on, up to `most`: the keys of tables.
    pub(super) fn sizes_of(&self, value: ValueId, most: usize) -> BTreeSet<usize> {
        let nodes = self.nodes_of(value, Follows::Comparisons).unwrap_or_default();
        let inputs = nodes.into_iter().flat_map(|place| self.graph.nodes[place].inputs.iter().flatten());
        let sizes = inputs.filter_map(|input| self.graph.constant(*input)?.shape().last().copied());
        sizes.filter(|&size| size <= most).collect()
    }

    /// Whether the graph was found to fail in requests of these lengths, because an Expand has sizes that do not fit.
    pub(super) fn is_contradicted(&self, lengths: Lengths) -> bool {
        self.contradicted.contains(&lengths)
    }

    /// Whether the time of loading is over.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.check().is_err())
    }

    fn is_given(&self, value: ValueId) -> bool {
        [self.given.mask, self.given.positions].contains(&Some(value))
    }

    /// An input whose contents depend on lengths alone.
    fn input(&self, value: ValueId, lengths: Lengths) -> Option<Tensor> {
        let Lengths { batch, new, past } = lengths;
        let is_mask = Some(value) == self.given.mask;
        let row = if is_mask { past + new } else { new };
        let number = |at: usize| if is_mask { 1 } else { (past + at) as i64 };
        let numbers: Vec<i64> = (0..batch).flat_map(|_| (0..row).map(number)).collect();
        Tensor::from_vec([batch, row], numbers).ok()
    }

    /// The only element that a value has at all these lengths.
    pub(super) fn number(&mut self, value: ValueId, all: &[Lengths]) -> Option<f32> {
        let mut found = None;
        for &lengths in all {
            let tensor = self.compute(value, Follows::Numbers, lengths)?;
            let number = match tensor.dtype() {
                DType::F32 => tensor.as_slice::<f32>().ok().filter(|elements| elements.len() == 1)?[0],
                DType::F16 => tensor.as_slice::<f16>().ok().filter(|elements| elements.len() == 1)?[0].to_f32(),
                _ => return None,
            };
            if found.is_some_and(|found: f32| found.to_bits() != number.to_bits()) {
                return None;
            }
            found = Some(number);
        }
        found
    }

    /// A length beyond all numbers that a value depends on; `None` where one is too large to be tried. A table of
    /// masks looks the same at all lengths that it has rows for, but for its window.
    pub(super) fn beyond(&self, value: ValueId) -> Option<usize> {
        let (mut most, mut rows) = (4i64, usize::MAX);
        let mut count = |number: i64| match number.saturating_abs() {
            number if number <= MOST_LENGTH => {
                most = most.max(number);
                true
            }
            number => number >= i64::from(i32::MAX),
        };
        for place in self.nodes_of(value, Follows::Comparisons)? {
            let node = &self.graph.nodes[place];
            let is_tried = node.attrs.values().all(|attr| match attr {
                Attr::Int(number) => count(*number),
                Attr::Ints(numbers) => numbers.iter().all(|&number| count(number)),
                _ => true,
            });
            let mut constants = node.inputs.iter().flatten().filter_map(|input| self.graph.constant(*input));
            let is_tried_of = |constant: &Tensor| match Table::of(constant) {
                Some(table) => {
                    rows = rows.min(table.rows);
                    table.window.is_none_or(|window| i64::try_from(window).is_ok_and(&mut count))
                }
                None => is_tried_of(constant, &mut count),
            };
            if !is_tried || !constants.all(is_tried_of) {
                return None;
            }
        }
        // Some more positions are tried behind such a length.
        usize::try_from(most + 2).ok().filter(|most| most + 3 <= rows)
    }
}

/// Whether all numbers of a constant, and its sizes, are tried.
fn is_tried_of(constant: &Tensor, count: &mut impl FnMut(i64) -> bool) -> bool {
    let sizes = constant.shape().iter().all(|&size| i64::try_from(size).is_ok_and(&mut *count));
    if !sizes || constant.len() > 64 {
        return sizes;
    }
    // Numbers that hide a key are far below all scores.
    let mut is_tried = |element: f32| element <= super::HIDDEN || element.is_nan() || count(element as i64);
    match constant.dtype() {
        DType::F32 => constant.as_slice::<f32>().is_ok_and(|elements| elements.iter().all(|&number| is_tried(number))),
        DType::F16 => {
            constant.as_slice::<f16>().is_ok_and(|elements| elements.iter().all(|number| is_tried(number.to_f32())))
        }
        DType::Bool => true,
        _ => constant.to_i64_vec().is_ok_and(|elements| elements.into_iter().all(count)),
    }
}

/// Whether Expand has a result for these inputs: sizes, counted from the last axis, are equal unless one of them is 1.
fn expands(inputs: &[Option<Tensor>]) -> bool {
    let [Some(from), Some(to)] = inputs else { return true };
    let Ok(to) = to.to_i64_vec() else { return true };
    let fits = |(&from, &to): (&usize, &i64)| from == 1 || to == 1 || usize::try_from(to) == Ok(from);
    from.shape().iter().rev().zip(to.iter().rev()).all(fits)
}
