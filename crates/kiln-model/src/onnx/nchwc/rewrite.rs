//! ONNX's own operators in the place of those on values in blocks.

use hashbrown::{HashMap, HashSet};
use kiln_tensor::{Tensor, TensorError};

use super::survey::{Convolution, Form, Survey, floats};
use super::weights::read_back;
use super::{DOMAIN, int, malformed, place, text, unsupported};
use crate::Graph;
use crate::ir::{Attr, Attrs, Dim, NodeDesc, ValueId};
use crate::onnx::ModelError;
use crate::onnx::claims::Claims;
use crate::onnx::standard::WRITTEN_FOR;
use crate::operators::{self, Refusal};

/// A graph while it is rewritten.
struct Writer<'a> {
    graph: &'a mut Graph,
    survey: Survey,
    width: usize,
    claims: &'a mut Claims,
    nodes: Vec<NodeDesc>,
    /// Constants that were read back, by what they were read from.
    read: HashMap<Source, ValueId>,
    /// Constants that were read from.
    used: HashSet<ValueId>,
}

/// The source of a constant that was read back.
#[derive(PartialEq, Eq, Hash)]
struct Source {
    id: ValueId,
    /// How weights are in blocks; a bias is not.
    form: Option<Form>,
    outputs: usize,
    inputs: usize,
}

/// Rewrites one graph, without its bodies.
pub(super) fn rewrite(graph: &mut Graph, survey: Survey, width: usize, claims: &mut Claims) -> Result<(), ModelError> {
    let nodes = std::mem::take(&mut graph.nodes);
    let count = nodes.len();
    let (read, used) = (HashMap::new(), HashSet::new());
    let mut writer = Writer { graph, survey, width, claims, nodes: Vec::with_capacity(count), read, used };
    for node in nodes {
        writer.node(node)?;
    }
    writer.finish();
    Ok(())
}

fn attributes<const N: usize>(pairs: [(&str, Attr); N]) -> Attrs {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Writer<'_> {
    /// Adds a node of ONNX's own.
    fn push(
        &mut self,
        of: &NodeDesc,
        op: &str,
        inputs: &[Option<ValueId>],
        output: ValueId,
        attrs: Attrs,
    ) -> Result<(), ModelError> {
        let node = NodeDesc {
            name: of.name.clone(),
            domain: String::new(),
            op: op.to_owned(),
            version: WRITTEN_FOR,
            attrs,
            inputs: inputs.to_vec(),
            outputs: vec![Some(output)],
        };
        if let Some(Refusal::Attribute(name)) = operators::find("", op).and_then(|row| row.refusal(&node)) {
            return Err(malformed(of, format!("attribute {name} is missing")));
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a node whose value only nodes of this one read.
    fn part(&mut self, of: &NodeDesc, op: &str, inputs: &[ValueId], attrs: Attrs) -> Result<ValueId, ModelError> {
        let output = self.graph.fresh(&of.name);
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.push(of, op, &inputs, output, attrs)?;
        Ok(output)
    }

    fn constant(&mut self, of: &NodeDesc, tensor: Result<Tensor, TensorError>) -> Result<ValueId, ModelError> {
        let tensor = tensor.map_err(|error| malformed(of, error.to_string()))?;
        Ok(self.graph.add_constant(&of.name, tensor))
    }

    fn node(&mut self, mut node: NodeDesc) -> Result<(), ModelError> {
        let (Some(output), input) = (node.output(0), node.input(0)) else {
            self.nodes.push(node);
            return Ok(());
        };
        if node.domain != DOMAIN {
            if node.is("Reshape") && self.survey.is_blocked(output) {
                return self.push(&node, "Identity", &[input], output, Attrs::new());
            }
            self.nodes.push(node);
            return Ok(());
        }
        match node.op.as_str() {
            "Conv" => self.conv(&node, output),
            "ReorderInput" => self.reorder_input(&node, output),
            "ReorderOutput" if int(&node, "channels_last", 0)? != 0 => {
                self.push(&node, "Transpose", &[input], output, attributes([("perm", [0, 2, 3, 1].into())]))
            }
            "ReorderOutput" => self.push(&node, "Identity", &[input], output, Attrs::new()),
            "Upsample" => self.upsample(&node, output),
            op => {
                let (op, attrs) = (op.to_owned(), std::mem::take(&mut node.attrs));
                self.push(&node, &op, &[input], output, attrs)
            }
        }
    }

    /// Where the true count of an image's channels is not known, the channels that fill up the last block are added at
    /// run time: readers have weights for them.
    fn reorder_input(&mut self, node: &NodeDesc, output: ValueId) -> Result<(), ModelError> {
        let is_last = int(node, "channels_last", 0)? != 0;
        let filled = self.survey.channels(output).filter(|_| !self.survey.is_known(output));
        let first = || attributes([("perm", [0, 3, 1, 2].into())]);
        let Some(filled) = filled else {
            let (op, attrs) = if is_last { ("Transpose", first()) } else { ("Identity", Attrs::new()) };
            return self.push(node, op, &[node.input(0)], output, attrs);
        };
        let Some(mut x) = node.input(0) else { return Ok(()) };
        if is_last {
            x = self.part(node, "Transpose", &[x], first())?;
        }
        let list = |values: &[i64]| Tensor::from_slice([values.len()], values);
        let (filled, none) = (self.constant(node, list(&[filled as i64]))?, self.constant(node, list(&[0]))?);
        let [before, after] = [self.constant(node, list(&[0; 5]))?, self.constant(node, list(&[0; 2]))?];
        let own = self.part(node, "Shape", &[x], attributes([("start", 1.into()), ("end", 2.into())]))?;
        let more = self.part(node, "Sub", &[filled, own], Attrs::new())?;
        // Surplus channels are kept: their reader, which has no weights for them, refuses them.
        let more = self.part(node, "Max", &[more, none], Attrs::new())?;
        let pads = self.part(node, "Concat", &[before, more, after], attributes([("axis", 0.into())]))?;
        self.push(node, "Pad", &[Some(x), Some(pads)], output, Attrs::new())
    }

    /// Scales are whole numbers, and the first two are 1. Nearest elements are repeated, whatever the mode of
    /// coordinates.
    fn upsample(&mut self, node: &NodeDesc, output: ValueId) -> Result<(), ModelError> {
        let scales = node.ints("scales").unwrap_or_default();
        if !matches!(scales, [1, 1, height, width] if [height, width].iter().all(|scale| (1..1 << 24).contains(*scale)))
        {
            return Err(malformed(node, format!("attribute scales = {:?}", &scales[..scales.len().min(8)])));
        }
        let scales: Vec<f32> = scales.iter().map(|&scale| scale as f32).collect();
        let scales = self.constant(node, Tensor::from_vec([4], scales))?;
        let coordinates = text(node, "coordinate_transformation_mode", "asymmetric")?;
        let (mode, coordinates) = match (text(node, "mode", "nearest")?, coordinates) {
            ("nearest", _) => ("nearest", "asymmetric"),
            ("linear", "asymmetric" | "align_corners" | "half_pixel") => ("linear", coordinates),
            ("linear", other) => {
                return Err(unsupported(node, format!("attribute \"coordinate_transformation_mode\" = {other:?}")));
            }
            (other, _) => return Err(unsupported(node, format!("attribute \"mode\" = {other:?}"))),
        };
        let attrs = attributes([
            ("mode", mode.into()),
            ("coordinate_transformation_mode", coordinates.into()),
            ("nearest_mode", "floor".into()),
        ]);
        self.push(node, "Resize", &[node.input(0), None, Some(scales)], output, attrs)
    }

    /// activation(conv(X, W, B) + Z)
    fn conv(&mut self, node: &NodeDesc, output: ValueId) -> Result<(), ModelError> {
        let own = self.survey.convolution(self.graph, node)?;
        let [mut outputs, mut inputs, ..] = own.dims;
        // A width that fits ensures that there are at most as many as the weights have.
        outputs = self.survey.channels(output).map_or(outputs, |known| known.min(outputs));
        let mut group = own.group;
        match own.form {
            Form::Image => {}
            Form::Depthwise => group = outputs,
            Form::Whole if group > 1 => {}
            Form::Whole => inputs = self.survey.channels(own.input).map_or(inputs, |known| known.min(inputs)),
        }
        let (x, form, id) = (own.input, own.form, own.id);
        let weights = self.weights(node, Source { id, form: Some(form), outputs, inputs })?;
        let bias = match node.input(2) {
            Some(id) => Some(self.bias(node, Source { id, form: None, outputs, inputs: 1 })?),
            None => None,
        };
        let mut attrs = node.attrs.clone();
        attrs.retain(|name, _| !name.starts_with("activation"));
        attrs.insert("group".to_owned(), Attr::Int(group as i64));
        let activation = text(node, "activation", "")?;
        let residual = node.input(3);
        if residual.is_none() && activation.is_empty() {
            return self.push(node, "Conv", &[Some(x), Some(weights), bias], output, attrs);
        }
        let sums = self.graph.fresh(&node.name);
        self.push(node, "Conv", &[Some(x), Some(weights), bias], sums, attrs)?;
        match residual {
            Some(residual) if activation.is_empty() => {
                self.push(node, "Add", &[Some(sums), Some(residual)], output, Attrs::new())
            }
            Some(residual) => {
                let sums = self.part(node, "Add", &[sums, residual], Attrs::new())?;
                self.activate(node, activation, sums, output)
            }
            None => self.activate(node, activation, sums, output),
        }
    }

    fn activate(&mut self, node: &NodeDesc, name: &str, x: ValueId, output: ValueId) -> Result<(), ModelError> {
        let parameters = node.floats("activation_params").unwrap_or_default();
        let takes: &[&str] = match name {
            "Relu" | "Sigmoid" | "Tanh" => &[],
            "LeakyRelu" => &["alpha"],
            "HardSigmoid" => &["alpha", "beta"],
            "Clip" => &["low", "high"],
            other => return Err(unsupported(node, format!("attribute \"activation\" = {other:?}"))),
        };
        if parameters.len() < takes.len() {
            return Err(malformed(node, format!("activation {name:?} with {} parameters", parameters.len())));
        }
        if name == "Clip" {
            let low = self.constant(node, Ok(Tensor::scalar(parameters[0])))?;
            let high = self.constant(node, Ok(Tensor::scalar(parameters[1])))?;
            return self.push(node, name, &[Some(x), Some(low), Some(high)], output, Attrs::new());
        }
        let pairs = takes.iter().zip(parameters).map(|(name, value)| ((*name).to_owned(), Attr::Float(*value)));
        self.push(node, name, &[Some(x)], output, pairs.collect())
    }

    /// Counts the memory of a constant's second and further copies: the first one replaces the constant.
    fn claim(&mut self, node: &NodeDesc, source: &Source, elements: usize) -> Result<(), ModelError> {
        if self.used.insert(source.id) {
            return Ok(());
        }
        let claimed = self.claims.add(4 * elements as u64);
        claimed.map_err(|problem| ModelError::Tensor { place: place(node), problem })
    }

    fn weights(&mut self, node: &NodeDesc, source: Source) -> Result<ValueId, ModelError> {
        if let Some(made) = self.read.get(&source) {
            return Ok(*made);
        }
        let Source { outputs, inputs, .. } = source;
        let elements = self.survey.convolution(self.graph, node)?.weights.len();
        self.claim(node, &source, elements)?;
        let own: Convolution<'_> = self.survey.convolution(self.graph, node)?;
        let made = read_back(&own, self.width, outputs, inputs);
        let made = self.constant(node, made)?;
        self.read.insert(source, made);
        Ok(made)
    }

    fn bias(&mut self, node: &NodeDesc, source: Source) -> Result<ValueId, ModelError> {
        if let Some(made) = self.read.get(&source) {
            return Ok(*made);
        }
        self.claim(node, &source, source.outputs)?;
        let own = floats(self.graph, node, 2)?.unread();
        let made = own.as_slice::<f32>().and_then(|all| Tensor::from_slice([source.outputs], &all[..source.outputs]));
        let made = self.constant(node, made)?;
        self.read.insert(source, made);
        Ok(made)
    }

    /// Corrects the declarations of values that were in blocks, and drops constants that are no longer read.
    fn finish(self) {
        let Writer { graph, survey, nodes, used, .. } = self;
        graph.nodes = nodes;
        for id in survey.blocked() {
            let dims = &mut graph.values[id.index()].dims;
            match dims.as_deref_mut() {
                Some([_, channels, _, _]) => *channels = survey.channels(id).map_or(Dim::Any, Dim::Fixed),
                Some(_) => *dims = None,
                None => {}
            }
        }
        let counts = graph.use_counts();
        for id in used.into_iter().filter(|id| counts[id.index()] == 0) {
            graph.constants.remove(&id);
        }
    }
}
