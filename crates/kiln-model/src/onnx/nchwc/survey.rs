//! Which values of a graph have their channels in blocks, and how many channels they have.
//!
//! Values that must have the same number of channels form a class: the inputs and the output of an addition, or the
//! input and the output of a pool. A class takes its count from any of its values that states one.

use hashbrown::{HashMap, HashSet};
use kiln_tensor::{DType, Tensor};

use super::{DOMAIN, check, int, malformed, unsupported};
use crate::Graph;
use crate::ir::{Dim, NodeDesc, ValueId};
use crate::onnx::ModelError;
use crate::onnx::error::shown;
use crate::operators;

/// The facts of a graph's values in blocks.
#[derive(Default)]
pub(super) struct Survey {
    /// The class of each value in blocks.
    classes_of: HashMap<ValueId, usize>,
    /// Values in blocks whose fifth axis is the elements of a block.
    split: HashSet<ValueId>,
    classes: Vec<Class>,
    /// What the file demands of the width of a block.
    pub(super) demands: Vec<Demand>,
    /// Weights in blocks.
    pub(super) weights: Vec<Stored>,
}

/// Values with the same channels.
struct Class {
    /// The class that it was merged into; itself, if none.
    part_of: usize,
    /// How many classes it is made of.
    parts: usize,
    /// Channels, including those that only fill up the last block.
    filled: Option<usize>,
    /// Channels without those that only fill up the last block.
    channels: Option<usize>,
}

/// A requirement on the width of a block, by a node.
pub(super) struct Demand {
    pub(super) node: String,
    pub(super) what: Required,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Required {
    /// This number of channels is in whole blocks.
    Multiple(usize),
    /// A block has more channels than this.
    Above(usize),
    /// A block has exactly this number of channels.
    Exactly(usize),
    /// Filling up the last block of `channels` channels gives `filled`.
    Fills { channels: usize, filled: usize },
}

impl Required {
    /// Whether a width of a block is as required.
    pub(super) fn holds(self, width: usize) -> bool {
        match self {
            Required::Multiple(channels) => channels.is_multiple_of(width),
            Required::Above(channels) => channels < width,
            Required::Exactly(channels) => channels == width,
            Required::Fills { channels, filled } => channels.checked_next_multiple_of(width) == Some(filled),
        }
    }
}

/// How a convolution's weights are in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// Blocks of output channels; the input is in ONNX's order.
    Image,
    /// Blocks of channels; each channel is a group.
    Depthwise,
    /// Blocks of input channels and of output channels.
    Whole,
}

/// Weights as they are in a file.
pub(super) struct Stored {
    pub(super) tensor: Tensor,
    pub(super) form: Form,
}

/// A convolution of values in blocks.
pub(super) struct Convolution<'a> {
    pub(super) input: ValueId,
    pub(super) id: ValueId,
    pub(super) weights: &'a Tensor,
    /// Output channels, input channels of a group, height and width of the kernel.
    pub(super) dims: [usize; 4],
    pub(super) group: usize,
    pub(super) form: Form,
}

/// A constant of floats, which no request may replace.
pub(super) fn floats<'a>(graph: &'a Graph, node: &NodeDesc, index: usize) -> Result<&'a Tensor, ModelError> {
    let own = node.input(index).filter(|id| !graph.inputs.contains(id)).and_then(|id| graph.constant(id));
    match own {
        Some(tensor) if tensor.dtype() == DType::F32 => Ok(tensor),
        _ => Err(malformed(node, format!("its input {index} is no constant of floats"))),
    }
}

impl Survey {
    /// The class of a value; `None` where the value is not in blocks.
    fn class(&self, id: ValueId) -> Option<usize> {
        self.classes_of.get(&id).map(|&class| self.root(class))
    }

    fn root(&self, mut class: usize) -> usize {
        while self.classes[class].part_of != class {
            class = self.classes[class].part_of;
        }
        class
    }

    /// Whether a value is in blocks.
    pub(super) fn is_blocked(&self, id: ValueId) -> bool {
        self.classes_of.contains_key(&id)
    }

    /// All values in blocks, including those whose fifth axis is the elements of a block.
    pub(super) fn blocked(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.classes_of.keys().copied()
    }

    /// The channels of a value in blocks, without those that fill the last block up where that is known.
    pub(super) fn channels(&self, id: ValueId) -> Option<usize> {
        self.class(id).and_then(|class| self.classes[class].channels.or(self.classes[class].filled))
    }

    /// Whether it is known which channels of a value only fill the last block up.
    pub(super) fn is_known(&self, id: ValueId) -> bool {
        self.class(id).is_some_and(|class| self.classes[class].channels.is_some())
    }

    fn add(&mut self, id: ValueId) -> usize {
        let class = self.classes.len();
        self.classes.push(Class { part_of: class, parts: 1, filled: None, channels: None });
        self.classes_of.insert(id, class);
        class
    }

    fn demand(&mut self, node: &NodeDesc, what: Required) {
        self.demands.push(Demand { node: super::place(node), what });
    }

    /// States the channels of a class with those that fill the last block up.
    fn fill(&mut self, node: &NodeDesc, class: usize, filled: usize) -> Result<(), ModelError> {
        let class = self.root(class);
        let other = *self.classes[class].filled.get_or_insert(filled);
        if other != filled {
            return Err(malformed(node, format!("{filled} channels of a value that has {other}")));
        }
        self.demand(node, Required::Multiple(filled));
        self.agree(node, class);
        Ok(())
    }

    /// States the channels of a class without those that fill the last block up.
    fn count(&mut self, node: &NodeDesc, class: usize, channels: usize) -> Result<(), ModelError> {
        let class = self.root(class);
        let other = *self.classes[class].channels.get_or_insert(channels);
        if other != channels {
            return Err(malformed(node, format!("{channels} channels of a value that has {other}")));
        }
        self.agree(node, class);
        Ok(())
    }

    fn agree(&mut self, node: &NodeDesc, class: usize) {
        if let (Some(channels), Some(filled)) = (self.classes[class].channels, self.classes[class].filled) {
            self.demand(node, Required::Fills { channels, filled });
        }
    }

    /// States that two classes have the same channels.
    fn join(&mut self, node: &NodeDesc, one: usize, other: usize) -> Result<(), ModelError> {
        let (one, other) = (self.root(one), self.root(other));
        if one == other {
            return Ok(());
        }
        // The smaller class becomes a part of the larger one, which keeps paths to the root short.
        let is_larger = self.classes[one].parts >= self.classes[other].parts;
        let (root, part) = if is_larger { (one, other) } else { (other, one) };
        self.classes[root].parts += self.classes[part].parts;
        let (filled, channels) = (self.classes[part].filled, self.classes[part].channels);
        self.classes[part].part_of = root;
        filled.map_or(Ok(()), |filled| self.fill(node, root, filled))?;
        channels.map_or(Ok(()), |channels| self.count(node, root, channels))
    }

    /// The class of an input that must be in blocks.
    fn input(&self, node: &NodeDesc, index: usize) -> Result<usize, ModelError> {
        let class = node.input(index).filter(|id| !self.split.contains(id)).and_then(|id| self.class(id));
        class.ok_or_else(|| malformed(node, format!("the channels of its input {index} are not in blocks")))
    }

    /// What a convolution of the domain is.
    pub(super) fn convolution<'a>(&self, graph: &'a Graph, node: &NodeDesc) -> Result<Convolution<'a>, ModelError> {
        let weights = floats(graph, node, 1)?;
        let (Some(input), Some(id), Ok(dims)) = (node.input(0), node.input(1), <[usize; 4]>::try_from(weights.shape()))
        else {
            return Err(malformed(node, format!("weights of dimensions {:?}", weights.shape())));
        };
        let group = int(node, "group", 1)?;
        let group = usize::try_from(group).ok().filter(|group| *group > 0);
        let group = group.ok_or_else(|| malformed(node, "it has no groups".to_owned()))?;
        let [outputs, inputs, ..] = dims;
        if dims.contains(&0) || !outputs.is_multiple_of(group) {
            return Err(malformed(node, format!("weights of dimensions {dims:?} in {group} groups")));
        }
        let form = match self.is_blocked(input) {
            false if group > 1 => return Err(malformed(node, format!("{group} groups of an image"))),
            false => Form::Image,
            true if inputs == 1 && outputs == group => Form::Depthwise,
            true => Form::Whole,
        };
        Ok(Convolution { input, id, weights, dims, group, form })
    }

    fn conv(&mut self, graph: &Graph, node: &NodeDesc, output: ValueId) -> Result<(), ModelError> {
        let Convolution { weights, dims: [outputs, inputs, ..], group, form, .. } = self.convolution(graph, node)?;
        self.weights.push(Stored { tensor: weights.clone(), form });
        let class = match form {
            Form::Image => {
                self.demand(node, Required::Above(inputs));
                self.add(output)
            }
            Form::Depthwise => {
                let class = self.input(node, 0)?;
                self.classes_of.insert(output, class);
                class
            }
            Form::Whole => {
                let of_input = self.input(node, 0)?;
                self.demand(node, Required::Multiple(inputs));
                self.demand(node, Required::Multiple(outputs / group));
                let all = inputs.checked_mul(group).ok_or_else(|| malformed(node, format!("{group} groups")))?;
                self.fill(node, of_input, all)?;
                let class = self.add(output);
                if group > 1 {
                    self.count(node, of_input, all)?;
                    self.count(node, class, outputs)?;
                }
                class
            }
        };
        self.fill(node, class, outputs)?;
        if node.input(2).is_some() && floats(graph, node, 2)?.shape() != [outputs] {
            return Err(malformed(node, format!("its bias has not {outputs} elements")));
        }
        match node.input(3) {
            Some(_) => {
                let sum = self.input(node, 3)?;
                self.join(node, class, sum)
            }
            None => Ok(()),
        }
    }

    /// A node of the domain.
    fn own(&mut self, graph: &Graph, node: &NodeDesc, plain: &mut HashMap<ValueId, usize>) -> Result<(), ModelError> {
        check(node)?;
        let Some(output) = node.output(0) else { return Ok(()) };
        let is_last = int(node, "channels_last", 0)? != 0;
        match node.op.as_str() {
            "Conv" => self.conv(graph, node, output),
            "ReorderInput" => {
                let Some(input) = node.input(0).filter(|id| !self.is_blocked(*id)) else {
                    return Err(malformed(node, "the channels of its input are in blocks, or it has none".to_owned()));
                };
                let class = self.add(output);
                let channels = if is_last { declared(graph, input, 3) } else { plain.get(&input).copied() };
                channels.map_or(Ok(()), |channels| self.count(node, class, channels))
            }
            "ReorderOutput" => {
                let channels = usize::try_from(int(node, "channels", 0)?).ok().filter(|channels| *channels > 0);
                let channels = channels.ok_or_else(|| malformed(node, "it has no channels".to_owned()))?;
                if !is_last {
                    plain.insert(output, channels);
                }
                let class = self.input(node, 0)?;
                self.count(node, class, channels)
            }
            _ => {
                let class = self.input(node, 0)?;
                self.classes_of.insert(output, class);
                Ok(())
            }
        }
    }

    /// A node of another domain that reads a value in blocks.
    fn reader(&mut self, graph: &Graph, node: &NodeDesc) -> Result<(), ModelError> {
        let Some(output) = node.output(0) else { return Ok(()) };
        if node.is("Reshape") {
            return self.reshape(graph, node, output);
        }
        if node.is("Concat") {
            return self.concat(node, output);
        }
        let is_element_wise = operators::find(&node.domain, &node.op).is_some_and(|row| row.is_element_wise());
        let mut class: Option<usize> = None;
        for id in node.inputs.iter().flatten().copied() {
            match self.class(id) {
                Some(other) => {
                    class.map_or(Ok(()), |class| self.join(node, class, other))?;
                    class = Some(other);
                }
                None if is_element_wise && graph.constant(id).is_some_and(|tensor| tensor.len() == 1) => {}
                None => return Err(self.not_in_blocks(graph, node)),
            }
        }
        let split = node.inputs.iter().flatten().filter(|id| self.split.contains(*id)).count();
        let blocked = node.inputs.iter().flatten().filter(|id| self.is_blocked(**id)).count();
        let is_plain = is_element_wise || node.is("Identity") || node.is("Sum");
        if !is_plain || node.outputs.len() != 1 || (split != 0 && split != blocked) {
            return Err(self.not_in_blocks(graph, node));
        }
        if split > 0 {
            self.split.insert(output);
        }
        if let Some(class) = class {
            self.classes_of.insert(output, class);
        }
        Ok(())
    }

    fn not_in_blocks(&self, graph: &Graph, node: &NodeDesc) -> ModelError {
        let value = node.inputs.iter().flatten().find(|id| self.is_blocked(**id));
        let name = value.map_or_else(String::new, |id| shown(&graph.value(*id).name));
        unsupported(node, format!("an operator beside {DOMAIN} that reads {name}, whose channels are in blocks"))
    }

    /// The elements of blocks as a fifth axis, and back.
    fn reshape(&mut self, graph: &Graph, node: &NodeDesc, output: ValueId) -> Result<(), ModelError> {
        let known = node.input(1).filter(|id| !graph.inputs.contains(id)).and_then(|id| graph.constant(id));
        let shape = known.and_then(|shape| shape.to_i64_vec().ok()).unwrap_or_default();
        let (Some(class), Some(input)) = (node.input(0).and_then(|id| self.class(id)), node.input(0)) else {
            return Err(self.not_in_blocks(graph, node));
        };
        let is_split = self.split.contains(&input);
        let (filled, is_split_after) = match shape[..] {
            [0, count, 0, 0, width] if !is_split => {
                let width = usize::try_from(width).unwrap_or_default();
                self.demand(node, Required::Exactly(width));
                (usize::try_from(count).ok().and_then(|count| count.checked_mul(width)), true)
            }
            [0, channels, 0, 0] if is_split => (usize::try_from(channels).ok(), false),
            _ => return Err(self.not_in_blocks(graph, node)),
        };
        let filled = filled.filter(|_| !node.is_marked("allowzero"));
        let filled = filled.ok_or_else(|| self.not_in_blocks(graph, node))?;
        self.fill(node, class, filled)?;
        if is_split_after {
            self.split.insert(output);
        }
        self.classes_of.insert(output, class);
        Ok(())
    }

    /// Joins blocks. All parts are in whole blocks.
    fn concat(&mut self, node: &NodeDesc, output: ValueId) -> Result<(), ModelError> {
        if !matches!(int(node, "axis", 0)?, 1 | -3) {
            return Err(malformed(
                node,
                "values in blocks are joined along another axis than that of blocks".to_owned(),
            ));
        }
        let mut total = 0usize;
        for index in 0..node.inputs.len() {
            let class = self.input(node, index)?;
            let Some(filled) = self.classes[class].filled.or(self.classes[class].channels) else {
                return Err(malformed(node, format!("how many channels its input {index} has is stated nowhere")));
            };
            self.fill(node, class, filled)?;
            self.count(node, class, filled)?;
            total = total.saturating_add(filled);
        }
        let class = self.add(output);
        self.fill(node, class, total)?;
        self.count(node, class, total)
    }
}

/// The declared size of an axis of an image.
fn declared(graph: &Graph, id: ValueId, axis: usize) -> Option<usize> {
    match graph.value(id).dims.as_deref() {
        Some(dims @ [_, _, _, _]) => match dims[axis] {
            Dim::Fixed(size) => Some(size),
            _ => None,
        },
        _ => None,
    }
}

/// The channels of a node's image, by those of its inputs.
fn plain_channels(graph: &Graph, node: &NodeDesc, plain: &HashMap<ValueId, usize>) -> Option<usize> {
    let of = |index: usize| node.input(index).and_then(|id| plain.get(&id).copied());
    match node.op.as_str() {
        "Conv" => graph.constant_input(node, 1).and_then(|weights| weights.shape().first().copied()),
        "AveragePool"
        | "BatchNormalization"
        | "GlobalAveragePool"
        | "GlobalMaxPool"
        | "Identity"
        | "InstanceNormalization"
        | "LRN"
        | "MaxPool" => of(0),
        "Concat" if matches!(int(node, "axis", 0), Ok(1)) => {
            (0..node.inputs.len()).map(of).try_fold(0usize, |sum, next| sum.checked_add(next?))
        }
        "Transpose" if node.ints("perm") == Some(&[0, 3, 1, 2]) => declared(graph, node.input(0)?, 3),
        _ if operators::find(&node.domain, &node.op).is_some_and(|row| row.is_element_wise()) => {
            // An operand with one channel is repeated for all channels of another.
            (0..node.inputs.len()).filter_map(of).find(|channels| *channels > 1)
        }
        _ => None,
    }
}

/// Finds the values in blocks. All demands on the width are kept, so that an error can name the node.
pub(super) fn survey(graph: &Graph) -> Result<Survey, ModelError> {
    let mut survey = Survey::default();
    let ids = (0..graph.values.len() as u32).map(ValueId);
    // Only declarations of inputs and constants are used: those of other values may describe blocks.
    let mut plain: HashMap<ValueId, usize> = graph
        .inputs
        .iter()
        .copied()
        .chain(ids.filter(|id| graph.constants.contains_key(id)))
        .filter_map(|id| Some((id, declared(graph, id, 1)?)))
        .collect();
    for node in &graph.nodes {
        if node.domain == DOMAIN {
            survey.own(graph, node, &mut plain)?;
        } else if node.inputs.iter().flatten().any(|id| survey.is_blocked(*id)) {
            survey.reader(graph, node)?;
        } else if let (Some(output), Some(channels)) = (node.output(0), plain_channels(graph, node, &plain)) {
            plain.insert(output, channels);
        }
    }
    if let Some(id) = graph.outputs.iter().find(|id| survey.is_blocked(**id)) {
        let place = format!("output {}", shown(&graph.value(*id).name));
        return Err(ModelError::Unsupported { what: "an output whose channels are in blocks".to_owned(), place });
    }
    Ok(survey)
}
