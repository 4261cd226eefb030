//! Outputs that a request has bound to its caller's memory.

use std::sync::Arc;

use kiln_model::{Map, Value};
use kiln_run::{Mismatch, NodeError, RunError};
use kiln_tensor::destination::Destination;
use kiln_tensor::{Tensor, TensorError};

use super::{Observer, Port, RunOptions, Session, SessionError, Watch};

/// The memory that each output of a model is bound to. Empty where none is bound.
pub(super) type Destinations = Vec<Option<Arc<Destination>>>;

impl Session {
    /// Runs one request as [`Session::run_values_with`], and makes the named outputs in the memory of these tensors,
    /// whose contents do not matter. Each tensor comes back as that output, at the same address.
    ///
    /// The node that computes an output writes there without a copy, also if the output is reshaped before it is
    /// returned. An output is copied if it is not a node's own memory: a part of another value, an input or a constant
    /// that the model returns, the result of a branch or a loop, or a value that is an output twice.
    ///
    /// # Errors
    ///
    /// As [`Session::run_values_with`]; [`SessionError::Output`] for a name that is no output or is given twice, and
    /// for a tensor whose memory has other owners (such as an input of the request) or may not be written;
    /// [`SessionError::Bound`] where the output has another type or shape than its tensor, which is found before
    /// anything runs unless shapes depend on computed data. A failed request drops the tensors, and memory that
    /// outlives them ([`Tensor::from_foreign_mut`]) may then hold anything.
    pub fn run_into(
        &self,
        inputs: &[(&str, Value)],
        outputs: Vec<(&str, Tensor)>,
        options: &RunOptions,
    ) -> Result<Vec<(String, Value)>, SessionError> {
        self.run_over(inputs, outputs, &[], options)
    }

    /// As [`Session::run_into`], for outputs that replace inputs: for each pair of an input and an output, the tensor
    /// that the output is bound to is also the input. So a cache that a step appends to is updated in place.
    ///
    /// The node that makes such an output writes over the input where it can, and nothing is copied:
    /// GroupQueryAttention and element-wise nodes do so. No other node writes there. If the node cannot, because the
    /// input is read later or has another shape, the output is made elsewhere and copied when the request has
    /// succeeded.
    ///
    /// # Errors
    ///
    /// As [`Session::run_into`]; [`SessionError::Input`] for an input that is no tensor without a default, or is given
    /// twice, and [`SessionError::Output`] for an output that is not bound or has several inputs.
    pub fn run_over(
        &self,
        inputs: &[(&str, Value)],
        outputs: Vec<(&str, Tensor)>,
        over: &[(&str, &str)],
        options: &RunOptions,
    ) -> Result<Vec<(String, Value)>, SessionError> {
        let placed = inputs.iter().map(|(name, value)| Ok((self.input_place(name)?, value.clone())));
        let placed = placed.collect::<Result<Vec<_>, SessionError>>()?;
        let outputs = outputs.into_iter().map(|(name, tensor)| Ok((self.output_place(name)?, tensor)));
        let outputs = outputs.collect::<Result<Vec<_>, SessionError>>()?;
        let mut pairs: Vec<Over> = Vec::with_capacity(over.len());
        for (input, output) in over {
            let place = self.output_place(output)?;
            if pairs.iter().any(|pair| pair.output == place) {
                return Err(self.not_lent(place, input));
            }
            pairs.push(Over { input: self.input_place(input)?, output: place });
        }
        let values = self.run_placed(placed, outputs, &pairs, options)?;
        Ok(self.outputs.iter().map(|port| port.name.clone()).zip(values).collect())
    }

    /// An output whose memory is its own: a copy in the session's memory where the output is also another value (an
    /// input or a constant that the model returns, or a part of another output). For callers that hand out memory to be
    /// written.
    ///
    /// # Errors
    ///
    /// [`TensorError::Memory`] where there is no memory for a copy.
    pub fn owned(&self, output: Tensor) -> Result<Tensor, TensorError> {
        output.owned_in(&self.kept.buffers)
    }

    /// As [`Session::run_over`], by places among [`Session::inputs`] and [`Session::outputs`], for callers that know
    /// them: no name is looked up or copied. Returns the values of all outputs, in the model's order.
    ///
    /// # Errors
    ///
    /// As [`Session::run_over`]; a place that the model does not have is an error with its number.
    pub fn run_placed(
        &self,
        inputs: Vec<(usize, Value)>,
        outputs: Vec<(usize, Tensor)>,
        over: &[Over],
        options: &RunOptions,
    ) -> Result<Vec<Value>, SessionError> {
        let watch = Watch { session: self };
        let observer = self.is_watched().then_some(&watch as &dyn Observer);
        let named = |place: usize| self.inputs.get(place).map_or("", |port| port.name.as_str());
        let shapes = inputs.iter().filter_map(|(place, value)| Some((named(*place), value.as_tensor()?.shape())));
        let _request = self.trace.as_ref().map(|trace| trace.request(shapes));
        let destinations = bind(&self.outputs, outputs)?;
        let lent = over
            .iter()
            .map(|over| self.lend(over, &inputs, &destinations))
            .collect::<Result<Vec<_>, SessionError>>()?;
        let bound = self.bind_placed(inputs.into_iter().chain(lent).map(Ok))?;
        let mut values = self.serve(bound, &destinations, &self.terms(options), observer)?;
        settle(&self.outputs, &destinations, &mut values)?;
        Ok(values)
    }

    /// The place of an output among the model's.
    fn output_place(&self, name: &str) -> Result<usize, SessionError> {
        self.outputs.iter().position(|port| port.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.outputs.iter().map(|port| port.name.as_str()).collect();
            let reason = format!("the model has no such output; it has {}", known.join(", "));
            SessionError::Output { name: name.to_owned(), reason }
        })
    }

    /// The input in the memory that an output is bound to.
    fn lend(
        &self,
        over: &Over,
        given: &[(usize, Value)],
        destinations: &[Option<Arc<Destination>>],
    ) -> Result<(usize, Value), SessionError> {
        let Over { input, output } = *over;
        let name = self.inputs.get(input).map_or_else(|| format!("number {input}"), |port| port.name.clone());
        let refused = |reason: &str| SessionError::Input { name: name.clone(), reason: reason.to_owned() };
        if given.iter().any(|(place, _)| *place == input) {
            return Err(refused("given twice"));
        }
        if self.inputs.get(input).is_some_and(|port| port.has_default) {
            return Err(refused("an input with a default is not written over"));
        }
        let destination = destinations.get(output).and_then(Option::as_ref);
        let lent = destination.and_then(|destination| destination.lend(destination.spec()));
        let lent = lent.ok_or_else(|| self.not_lent(output, &name))?;
        Ok((input, Value::Tensor(lent)))
    }

    /// The error of an output whose memory an input cannot have.
    fn not_lent(&self, output: usize, input: &str) -> SessionError {
        SessionError::Output {
            name: self.outputs.get(output).map_or_else(|| format!("number {output}"), |port| port.name.clone()),
            reason: format!("no memory is bound to it that may be input '{input}' too"),
        }
    }
}

/// An output that replaces an input, by their places among the model's.
#[derive(Clone, Copy, Debug)]
pub struct Over {
    /// The input.
    pub input: usize,
    /// The output, which is bound to memory.
    pub output: usize,
}

impl Session {
    /// The error of a request that a run ended with.
    pub(super) fn refused(&self, error: RunError) -> SessionError {
        match error.error {
            NodeError::Bound(mismatch) => {
                let Mismatch { output, bound, made } = *mismatch;
                SessionError::Bound { name: self.outputs[output].name.clone(), bound, made }
            }
            _ => SessionError::Run(error),
        }
    }
}

/// The destination of each output.
fn bind(ports: &[Port], given: Vec<(usize, Tensor)>) -> Result<Destinations, SessionError> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let mut destinations = vec![None; ports.len()];
    for (place, tensor) in given {
        let name = ports.get(place).map_or_else(|| format!("number {place}"), |port| port.name.clone());
        let refused = |reason: String| SessionError::Output { name: name.clone(), reason };
        if place >= ports.len() {
            return Err(refused(format!("the model has {} outputs", ports.len())));
        }
        let destination = Destination::of(tensor).map_err(|error| refused(error.to_string()))?;
        if destinations[place].replace(destination).is_some() {
            return Err(refused("bound twice".to_owned()));
        }
    }
    Ok(destinations)
}

/// Puts every bound output into its memory, and nothing else.
fn settle(ports: &[Port], destinations: &[Option<Arc<Destination>>], values: &mut [Value]) -> Result<(), SessionError> {
    for (at, value) in values.iter_mut().enumerate() {
        let others =
            destinations.iter().enumerate().filter(|(other, _)| *other != at).filter_map(|(_, of)| of.as_deref());
        for other in others {
            let left = leave(other, value);
            left.map_err(|error| SessionError::Output { name: ports[at].name.clone(), reason: error.to_string() })?;
        }
    }
    for ((port, destination), value) in ports.iter().zip(destinations).zip(values) {
        let Some(destination) = destination else { continue };
        let refused = |reason: String| SessionError::Output { name: port.name.clone(), reason };
        let made = std::mem::replace(value, Value::Nothing).into_tensor();
        let made = made.map_err(|error| refused(error.to_string()))?;
        if made.spec() != destination.spec() {
            let (made, bound) = (made.spec().clone(), destination.spec().clone());
            return Err(SessionError::Bound { name: port.name.clone(), bound, made });
        }
        // Dropped as the last owner of the memory, unless it lies elsewhere.
        let elsewhere = (!destination.holds(&made)).then_some(made);
        let Some(mut own) = destination.reclaim() else { return Err(refused("its memory is in use".to_owned())) };
        if let Some(made) = elsewhere {
            own.bytes_mut().copy_from_slice(made.bytes());
        }
        *value = Value::Tensor(own);
    }
    Ok(())
}

/// Copies tensors that lie in another output's memory into memory of their own.
fn leave(destination: &Destination, value: &mut Value) -> Result<(), TensorError> {
    let holds = |tensor: &Tensor| destination.holds(tensor);
    let holds_map = |map: &Map| holds(map.keys()) || holds(map.values());
    let own = |tensor: &mut Tensor| {
        if holds(tensor) {
            *tensor = Tensor::from_bytes(tensor.spec().clone(), tensor.bytes())?;
        }
        Ok(())
    };
    match value {
        Value::Tensor(tensor) => own(tensor),
        Value::Sequence(tensors) if tensors.iter().any(holds) => Arc::make_mut(tensors).iter_mut().try_for_each(own),
        Value::Map(map) if holds_map(map) => Arc::make_mut(map).lists_mut().into_iter().try_for_each(own),
        Value::Maps(maps) if maps.iter().any(holds_map) => {
            Arc::make_mut(maps).iter_mut().flat_map(Map::lists_mut).try_for_each(own)
        }
        Value::Sequence(_) | Value::Map(_) | Value::Maps(_) | Value::Nothing => Ok(()),
    }
}
