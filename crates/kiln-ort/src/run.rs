//! Running: names and values in, values out.

use std::sync::Arc;

use kiln::{Dim, Port, SessionError, Tensor, ValueKind};

use crate::dtype;
use crate::error::{Code, Error, Result, failed, invalid};
use crate::log::Severity;
use crate::run_options::RunSettings;
use crate::seam::{Block, Handle, List, Out, Text, entry};
use crate::session::Model;
use crate::type_info::Shape;
use crate::value::{Elements, Value};

/// A named value.
pub(crate) struct Given {
    pub(crate) name: String,
    pub(crate) value: Arc<Value>,
}

/// An output that is asked for.
pub(crate) struct Asked {
    pub(crate) name: String,
    /// The value to write it into, if there is one.
    pub(crate) into: Option<Arc<Value>>,
}

/// What a call of `Run` says.
pub(crate) struct Call {
    pub(crate) inputs: Vec<Given>,
    pub(crate) outputs: Vec<Asked>,
    pub(crate) options: Option<Arc<RunSettings>>,
}

/// How outputs were written.
enum Filled {
    /// The run wrote to the value's own memory.
    InPlace,
    /// It is copied there.
    Copied,
}

impl Call {
    /// Reads the names and handles of a call.
    pub(crate) fn read(
        options: Handle<RunSettings>,
        input_names: List<Text>,
        inputs: List<Handle<Value>>,
        count: usize,
        output_names: List<Text>,
        slots: &[Handle<Value>],
    ) -> Result<Call> {
        let options = options.optional("run_options")?;
        let names = input_names.read(count, "input_names")?;
        let values = inputs.read(count, "input")?;
        let mut given = Vec::with_capacity(count);
        for (name, value) in names.into_iter().zip(values) {
            let name = if name.is_null() { String::new() } else { name.read("input_names")? };
            if name.is_empty() {
                return Err(invalid!("input name cannot be empty"));
            }
            if value.is_null() {
                return Err(invalid!("NULL input supplied for input {name}"));
            }
            let value = value.get(&format!("input '{name}'"))?;
            given.push(Given { name, value });
        }
        let names = output_names.read(slots.len(), "output_names")?;
        let mut outputs = Vec::with_capacity(slots.len());
        for (name, slot) in names.into_iter().zip(slots) {
            let name = if name.is_null() { String::new() } else { name.read("output_names")? };
            if name.is_empty() {
                return Err(invalid!("output name cannot be empty"));
            }
            let into = slot.optional(&format!("output '{name}'"))?;
            outputs.push(Asked { name, into });
        }
        Ok(Call { inputs: given, outputs, options })
    }

    /// Runs the model; the value of each output that was asked for. An error is a line of the log as well.
    pub(crate) fn run(&self, model: &Model) -> Result<Vec<Arc<Value>>> {
        self.compute(model).inspect_err(|error| model.log.line(Severity::Error, "run", &error.message))
    }

    fn compute(&self, model: &Model) -> Result<Vec<Arc<Value>>> {
        if self.outputs.is_empty() {
            return Err(invalid!("At least one output should be requested."));
        }
        for Given { name, value } in &self.inputs {
            let port = model.input(name).ok_or_else(|| invalid!("Invalid input name: {name}"))?;
            check(port, value, "input")?;
        }
        for Asked { name, into } in &self.outputs {
            let place = model.output(name).ok_or_else(|| invalid!("Invalid output name: {name}"))?;
            if let Some(into) = into {
                check(&model.outputs[place], into, "output")?;
            }
        }
        let mut blocks = Vec::with_capacity(self.inputs.len());
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for Given { name, value } in &self.inputs {
            inputs.push((name.as_str(), value.to_kiln(&mut blocks)?));
        }
        let mut over = Vec::new();
        let (bound, how) = self.bind(&blocks, &mut inputs, &mut over)?;
        let options = self.options.as_ref().map(|options| options.kiln()).unwrap_or_default();
        let made = model.session.run_over(&inputs, bound, &over, &options);
        drop(inputs);
        if self.options.as_ref().is_some_and(|options| options.shrinks()) {
            model.session.trim();
        }
        let mut made: Vec<Option<kiln::Value>> =
            made.map_err(of_run)?.into_iter().map(|(_, value)| Some(value)).collect();
        self.give(model, &mut made, &blocks, &how)
    }

    /// The outputs that the run can write where they are wanted, and how each output reaches its value. An input that
    /// lies where an output is wanted, under the same type and shape, is written over.
    fn bind<'n>(
        &'n self,
        blocks: &[Block],
        inputs: &mut Vec<(&'n str, kiln::Value)>,
        over: &mut Vec<(&'n str, &'n str)>,
    ) -> Result<(Vec<(&'n str, Tensor)>, Vec<Filled>)> {
        let mut bound: Vec<(&str, Tensor)> = Vec::new();
        let mut taken: Vec<&Block> = Vec::new();
        let mut how = Vec::with_capacity(self.outputs.len());
        for Asked { name, into } in &self.outputs {
            let Some(Value::Tensor(elements)) =
                into.as_deref().filter(|_| bound.iter().all(|(other, _)| other != name))
            else {
                how.push(Filled::Copied);
                continue;
            };
            let block = elements.block();
            let meets = |blocks: &[&Block]| blocks.iter().filter(|other| other.overlaps(block)).count();
            let of_inputs = meets(&blocks.iter().collect::<Vec<_>>());
            let same = self.same_input(elements, inputs);
            let is_free = of_inputs == usize::from(same.is_some()) && meets(&taken) == 0;
            if !elements.is_plain() || elements.count() == 0 || !is_free {
                how.push(Filled::Copied);
                continue;
            }
            if let Some(place) = same {
                let (input, _) = inputs.remove(place);
                over.push((input, name.as_str()));
            }
            taken.push(block);
            bound.push((name.as_str(), elements.write()?));
            how.push(Filled::InPlace);
        }
        Ok((bound, how))
    }

    /// The input whose elements are the output's own memory.
    fn same_input(&self, elements: &Elements, inputs: &[(&str, kiln::Value)]) -> Option<usize> {
        let spec = elements.spec();
        let address = elements.block().memory().raw().addr();
        inputs.iter().position(|(_, value)| {
            value.as_tensor().is_some_and(|tensor| *tensor.spec() == spec && tensor.bytes().as_ptr().addr() == address)
        })
    }

    /// The values of outputs, from what the run has made.
    fn give(
        &self,
        model: &Model,
        made: &mut [Option<kiln::Value>],
        blocks: &[Block],
        how: &[Filled],
    ) -> Result<Vec<Arc<Value>>> {
        let mut given: Vec<Arc<Value>> = Vec::with_capacity(self.outputs.len());
        for (number, (Asked { name, into }, how)) in self.outputs.iter().zip(how).enumerate() {
            let earlier = self.outputs[..number].iter().position(|other| other.name == *name);
            let place = model.output(name).ok_or_else(|| invalid!("Invalid output name: {name}"))?;
            let value = match (into, how, earlier) {
                (Some(into), Filled::InPlace, _) => into.clone(),
                (None, _, Some(earlier)) => given[earlier].clone(),
                (Some(into), Filled::Copied, Some(earlier)) => {
                    let again = given[earlier].to_kiln(&mut Vec::new())?;
                    fill(name, into, &again)?;
                    into.clone()
                }
                (Some(into), Filled::Copied, None) => {
                    let value = made[place].take().ok_or_else(|| failed!("output '{name}' was lost"))?;
                    fill(name, into, &value)?;
                    into.clone()
                }
                (None, _, None) => {
                    let value = made[place].take().ok_or_else(|| failed!("output '{name}' was lost"))?;
                    Arc::new(Value::of_kiln(value, blocks)?)
                }
            };
            given.push(value);
        }
        Ok(given)
    }
}

/// Copies an output into the value that a caller gave for it.
fn fill(name: &str, into: &Value, made: &kiln::Value) -> Result<()> {
    let tensor = made.as_tensor();
    match (into, tensor) {
        (Value::Tensor(elements), Some(tensor)) if *tensor.spec() == elements.spec() => elements.fill(tensor),
        (Value::Strings(strings), Some(tensor)) if same_dims(strings.dims(), tensor.shape()) => {
            let texts = tensor.as_strings().map_err(|_| invalid!("output '{name}' is not a tensor(string)"))?;
            let texts = texts.iter().map(|text| text.clone().into_bytes()).collect();
            strings.with(|own| *own = texts);
            Ok(())
        }
        (into, Some(tensor)) => {
            let found = into.tensor_type().and_then(|tensor| tensor.dims).unwrap_or_default();
            Err(invalid!(
                "OrtValue shape verification failed. Current shape:{found:?} Requested shape:{:?} of output '{name}', \
                 which is {}",
                tensor.shape(),
                dtype::text(tensor.dtype())
            ))
        }
        (into, None) => Err(invalid!("output '{name}' is {}, and {} was given for it", made.kind(), into.name())),
    }
}

/// Copies a tensor into another of the same type and shape.
pub(crate) fn copy(from: &Value, to: &Value) -> Result<()> {
    fill("destination", to, &from.to_kiln(&mut Vec::new())?)
}

fn same_dims(dims: &[i64], shape: &[usize]) -> bool {
    dims.len() == shape.len() && dims.iter().zip(shape).all(|(dim, size)| usize::try_from(*dim) == Ok(*size))
}

/// Fails where a value is not what a model declares, in onnxruntime's words.
fn check(port: &Port, value: &Value, role: &str) -> Result<()> {
    let name = &port.name;
    let is_tensor = value.tensor_type().is_some();
    match (port.kind, value) {
        (ValueKind::Tensor, value) if !is_tensor => {
            return Err(invalid!("{role} '{name}' expects a tensor and got {}", value.name()));
        }
        // What is inside of others is checked by the session.
        (ValueKind::Tensor | ValueKind::Optional, _) if is_tensor => {}
        _ => return Ok(()),
    }
    let Shape::Tensor(given) = value.shape() else { return Ok(()) };
    if let Some(dtype) = port.dtype
        && dtype::number(Some(dtype)) != given.element
    {
        let actual = dtype::of_number(given.element).map_or_else(|_| "undefined".to_owned(), dtype::text);
        let expected = dtype::text(dtype);
        return Err(invalid!(
            "Unexpected {role} data type. Actual: ({actual}) , expected: ({expected}) for {role} '{name}'"
        ));
    }
    let (Some(dims), Some(given)) = (&port.dims, &given.dims) else { return Ok(()) };
    // One element may have any shape where a scalar is declared.
    if dims.is_empty() && given.iter().all(|size| *size == 1) {
        return Ok(());
    }
    if dims.len() != given.len() {
        return Err(invalid!(
            "Invalid rank for {role}: {name} Got: {} Expected: {} Please fix either the inputs/outputs or the model.",
            given.len(),
            dims.len()
        ));
    }
    let wrong: Vec<String> = dims
        .iter()
        .zip(given)
        .enumerate()
        .filter_map(|(axis, (dim, size))| match dim {
            Dim::Fixed(fixed) if *fixed as i64 != *size => Some(format!("index: {axis} Got: {size} Expected: {fixed}")),
            _ => None,
        })
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(invalid!(
        "Got invalid dimensions for {role}: {name} for the following indices {} Please fix either the inputs/outputs or \
         the model.",
        wrong.join(" ")
    ))
}

/// onnxruntime's code and first words for Kiln's error.
pub(crate) fn of_run(error: SessionError) -> Error {
    match &error {
        SessionError::Run(run) if run.stopped().is_some() => {
            failed!("Exiting due to terminate flag being set to true. {error}")
        }
        SessionError::Input { name, reason } if reason == "not given" => invalid!("Missing Input: {name}"),
        SessionError::Input { .. } | SessionError::Output { .. } | SessionError::Bound { .. } => invalid!("{error}"),
        SessionError::Dimension { .. } => invalid!("{error}"),
        _ => Error::new(Code::Fail, format!("Non-zero status code returned while running: {error}")),
    }
}

/// Writes the handles of new values into the slots that were null.
pub(crate) fn put(values: &[Arc<Value>], slots: &mut [Handle<Value>]) -> Result<()> {
    let mut made = Vec::new();
    for (value, slot) in values.iter().zip(slots.iter_mut()) {
        if slot.is_null() {
            match Handle::of(value.clone()) {
                Ok(handle) => made.push((slot, handle)),
                Err(error) => {
                    made.iter().for_each(|(_, handle)| drop(handle.release()));
                    return Err(error);
                }
            }
        }
    }
    made.into_iter().for_each(|(slot, handle)| *slot = handle);
    Ok(())
}

entry! {
    fn Run(
        session: Handle<Model>,
        options: Handle<RunSettings>,
        input_names: List<Text>,
        inputs: List<Handle<Value>>,
        input_count: usize,
        output_names: List<Text>,
        output_count: usize,
        outputs: Out<Handle<Value>>,
    ) {
        let model = session.get("session")?;
        if output_count == 0 {
            return Err(invalid!("At least one output should be requested."));
        }
        let mut slots = outputs.read(output_count, "outputs")?;
        let call = Call::read(options, input_names, inputs, input_count, output_names, &slots)?;
        let values = call.run(&model)?;
        put(&values, &mut slots)?;
        outputs.fill(output_count, &slots, "outputs")
    }
}
