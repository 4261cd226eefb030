//! Gradient nodes, expanded into the ordinary nodes that compute what they ask for, by reverse-mode differentiation.
//!
//! A Gradient names values: `y`, and the `xs` that it is differentiated by. What its inputs hold takes the place of `xs`
//! and of the other independent values, `zs`; where an input is the value of that name itself, what the graph has computed
//! from it is used again, otherwise the nodes between are repeated on the inputs. From `y` backwards each node turns the
//! gradient of what it makes into those of what it reads (`rules`), and gradients that meet are added. Where `y` is not a
//! single number, its elements' sum is differentiated.
//!
//! Expansions go in the order of the file, and what one makes is there for the next, so that a Gradient of another's
//! output is a second derivative.

mod rules;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::function::Functions;
use super::import::{Opsets, Versioned};
use super::proto::NodeProto;
use super::standard::{Draft, WRITTEN_FOR};
use super::{Limits, ModelError, place_of, shown};

/// The nodes with every Gradient among them expanded.
pub(super) fn expand(
    nodes: Vec<Versioned>,
    functions: &mut Functions,
    limits: &Limits,
) -> Result<Vec<Versioned>, ModelError> {
    if !nodes.iter().any(|(node, _)| is_gradient(node)) {
        return Ok(nodes);
    }
    let opsets = Rc::new(Opsets::from([(String::new(), WRITTEN_FOR)]));
    let mut done: Vec<Versioned> = Vec::with_capacity(nodes.len());
    for (node, versions) in nodes {
        if !is_gradient(&node) {
            done.push((node, versions));
            continue;
        }
        let made = Request::read(&node)?.expand(&done, functions, limits, &opsets)?;
        done.extend(made);
    }
    Ok(done)
}

fn is_gradient(node: &NodeProto) -> bool {
    node.domain() == "ai.onnx.preview.training" && node.op_type() == "Gradient"
}

/// What a Gradient node asks for.
struct Request<'a> {
    node: &'a NodeProto,
    y: String,
    /// Names in the graph of the values that are independent, and what takes the place of each; the first ones, as many
    /// as the node has outputs, are what is differentiated by.
    independent: Vec<(String, &'a str)>,
    xs: usize,
}

impl<'a> Request<'a> {
    fn read(node: &'a NodeProto) -> Result<Request<'a>, ModelError> {
        let malformed = |reason: String| ModelError::Malformed { place: place_of(node), reason };
        let text = |bytes: &[u8]| match String::from_utf8(bytes.to_vec()) {
            Ok(text) if !text.is_empty() => Ok(text),
            _ => Err(malformed("its attributes must name values".to_owned())),
        };
        let attribute = |name: &str| node.attribute.iter().find(|attribute| attribute.name() == name);
        let names = |name: &str| {
            let given = attribute(name).map_or(&[][..], |attribute| &attribute.strings);
            given.iter().map(|bytes| text(bytes)).collect::<Result<Vec<_>, _>>()
        };
        let (xs, zs) = (names("xs")?, names("zs")?);
        let y = text(attribute("y").map_or(&[][..], |attribute| attribute.s()))?;
        let count = xs.len();
        if count == 0 || node.output.len() > count || node.input.len() != count + zs.len() {
            return Err(malformed(format!(
                "it has {} inputs and {} outputs for {count} xs and {} zs",
                node.input.len(),
                node.output.len(),
                zs.len()
            )));
        }
        if node.input.iter().any(String::is_empty) {
            return Err(malformed("all its inputs must be given".to_owned()));
        }
        let independent: Vec<(String, &str)> =
            xs.into_iter().chain(zs).zip(node.input.iter().map(String::as_str)).collect();
        if independent.iter().map(|(name, _)| name).collect::<HashSet<_>>().len() < independent.len() {
            return Err(malformed("its xs and zs must be different values".to_owned()));
        }
        Ok(Request { node, y, independent, xs: count })
    }

    fn expand(
        &self,
        before: &[Versioned],
        functions: &mut Functions,
        limits: &Limits,
        opsets: &Rc<Opsets>,
    ) -> Result<Vec<Versioned>, ModelError> {
        let path = self.path(before);
        if path.is_empty() && !self.independent.iter().any(|(name, _)| *name == self.y) {
            let reason = format!("no node before it makes {}, its y, of its xs and zs", shown(&self.y));
            return Err(ModelError::Malformed { place: place_of(self.node), reason });
        }
        let number = functions.count(path.len(), limits, self.node)?;
        let mut draft = Draft::new(format!("Gradient%{number}/"));
        let (forward, names) = self.forward(&path, &mut draft)?;
        let named = |name: &str| names.get(name).cloned().unwrap_or_else(|| name.to_owned());
        let wanted: Vec<String> = self.independent[..self.xs].iter().map(|(_, input)| (*input).to_owned()).collect();
        let y = named(&self.y);

        // Whether a value changes with what is differentiated by, so that nothing is computed for those that do not.
        let mut varies: HashSet<&str> = wanted.iter().map(String::as_str).collect();
        for (node, _) in &forward {
            if rules::read_by_value(node).any(|input| varies.contains(node.input[input].as_str())) {
                varies.extend(node.output.iter().map(String::as_str).filter(|name| !name.is_empty()));
            }
        }
        let mut gradients: HashMap<String, Vec<String>> = HashMap::new();
        if varies.contains(y.as_str()) {
            let seed = draft.ones_like(&y);
            gradients.entry(y).or_default().push(seed);
        }
        let independent: HashSet<&str> = self.independent.iter().map(|(_, input)| *input).collect();
        for (node, versions) in forward.iter().rev() {
            let made = |name: &String| !independent.contains(name.as_str()) && gradients.contains_key(name);
            let Some(place) = node.output.iter().position(made) else { continue };
            if place > 0 || node.output.iter().skip(1).any(made) {
                return Err(rules::refusal(node, self.node));
            }
            let parts = gradients.remove(&node.output[0]).unwrap_or_default();
            let whole = draft.total(&parts);
            for (input, part) in rules::backwards(node, versions, &whole, &varies, &mut draft, self.node)? {
                gradients.entry(input).or_default().push(part);
            }
        }
        for (x, output) in wanted.iter().zip(&self.node.output).filter(|(_, output)| !output.is_empty()) {
            let total = match gradients.get(x) {
                Some(parts) => draft.total(parts),
                None => draft.zeros_like(x),
            };
            draft.node("", "Identity", &[&total], output.clone(), Vec::new());
        }
        functions.charge(draft.nodes.len(), limits, self.node)?;
        let repeated = forward.into_iter().skip(if names.is_empty() { usize::MAX } else { 0 });
        Ok(repeated.chain(draft.nodes.into_iter().map(|node| (node, opsets.clone()))).collect())
    }

    /// The nodes that make `y` of the independent values, in the order in which they run.
    fn path<'n>(&self, before: &'n [Versioned]) -> Vec<&'n Versioned> {
        let mut maker: HashMap<&str, usize> = HashMap::new();
        for (index, (node, _)) in before.iter().enumerate() {
            maker.extend(node.output.iter().filter(|name| !name.is_empty()).map(|name| (name.as_str(), index)));
        }
        let independent: HashSet<&str> = self.independent.iter().map(|(name, _)| name.as_str()).collect();
        let makers = |name: &str| maker.get(name).copied().filter(|_| !independent.contains(name));
        // Depth first, without recursion, because the file says how deep. A cycle is told of when the graph is sorted.
        let (mut seen, mut order) = (HashSet::new(), Vec::new());
        let mut open: Vec<(usize, bool)> = makers(&self.y).map(|index| (index, false)).into_iter().collect();
        while let Some((index, is_done)) = open.pop() {
            if is_done {
                order.push(index);
            } else if seen.insert(index) {
                open.push((index, true));
                open.extend(before[index].0.input.iter().filter_map(|name| makers(name)).map(|index| (index, false)));
            }
        }
        order.into_iter().map(|index| &before[index]).collect()
    }

    /// The nodes of the path as they run on the node's inputs, and what values are called there that are others than in
    /// the graph; none are where the inputs are the graph's own values.
    fn forward(
        &self,
        path: &[&Versioned],
        draft: &mut Draft,
    ) -> Result<(Vec<Versioned>, HashMap<String, String>), ModelError> {
        let mut names: HashMap<String, String> = HashMap::new();
        if self.independent.iter().any(|(name, input)| name != input) {
            names.extend(self.independent.iter().map(|(name, input)| (name.clone(), (*input).to_owned())));
            for (node, _) in path {
                let made = node.output.iter().filter(|name| !name.is_empty());
                for name in made {
                    let at = draft.named(&format!("at/{name}"));
                    names.entry(name.clone()).or_insert(at);
                }
            }
        }
        let mut forward = Vec::with_capacity(path.len());
        for (node, versions) in path {
            let mut node = node.clone();
            if !names.is_empty() {
                if node.attribute.iter().any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty()) {
                    return Err(rules::refusal(&node, self.node));
                }
                let rename = |name: &mut String| {
                    if let Some(other) = names.get(name) {
                        name.clone_from(other);
                    }
                };
                node.input.iter_mut().for_each(rename);
                for name in &mut node.output {
                    // An independent value that is made beside others is not made again.
                    *name = match self.independent.iter().any(|(other, _)| other == name) {
                        true => String::new(),
                        false => names.get(name).cloned().unwrap_or_default(),
                    };
                }
                node.name = Some(draft.named(node.name()));
            }
            forward.push((node, versions.clone()));
        }
        Ok((forward, names))
    }
}
