//! Running: names and values in, values out.

use std::sync::Arc;

use kiln::{DType, Dim, Over, Port, SessionError, Tensor, ValueKind};

use crate::dtype;
use crate::error::{Code, Error, Result, failed, invalid};
use crate::log::Severity;
use crate::run_options::RunSettings;
use crate::seam::{Handle, List, Out, Span, Text, entry};
use crate::session::Model;
use crate::value::{Elements, Value};

/// A given input.
#[derive(Clone)]
pub(crate) struct Given {
    /// Its place among the session's inputs.
    pub(crate) place: usize,
    pub(crate) value: Arc<Value>,
}

/// A requested output.
pub(crate) struct Asked {
    /// Its place among the session's outputs.
    pub(crate) place: usize,
    /// The value to write it into, if there is one.
    pub(crate) into: Option<Arc<Value>>,
}

/// The arguments of a call of `Run`.
pub(crate) struct Call {
    pub(crate) inputs: Vec<Given>,
    pub(crate) outputs: Vec<Asked>,
    pub(crate) options: Option<Arc<RunSettings>>,
}

/// How an output reaches its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// The run writes to the value's own memory.
    InPlace,
    /// The result is copied there, or becomes a value of its own.
    After,
}

/// The caller's memory that a run is given.
struct Lent {
    /// Memory in which outputs are made.
    bound: Vec<(usize, Tensor)>,
    /// The addresses of that memory.
    taken: Vec<Span>,
    /// Outputs that are written over inputs.
    over: Vec<Over>,
    /// One for each requested output.
    how: Vec<Filled>,
}

/// The arrays of a call, as C gives them.
pub(crate) struct Arrays<'a> {
    pub(crate) input_names: List<Text>,
    pub(crate) inputs: List<Handle<Value>>,
    pub(crate) input_count: usize,
    pub(crate) output_names: List<Text>,
    /// A value to write into, or null, for each output.
    pub(crate) slots: &'a [Handle<Value>],
}

impl Call {
    /// Reads the names and handles of a call.
    pub(crate) fn read(model: &Model, options: Handle<RunSettings>, arrays: &Arrays<'_>) -> Result<Call> {
        let Arrays { input_names, inputs, input_count, output_names, slots } = *arrays;
        let options = options.optional("run_options")?;
        let names = input_names.read(input_count, "input_names")?;
        let values = inputs.read(input_count, "input")?;
        let mut given = Vec::with_capacity(input_count);
        for (name, value) in names.into_iter().zip(values) {
            let place = name.look(|name| model.input_place(name)).unwrap_or(None);
            let place = place.ok_or_else(|| unknown("input", name))?;
            let value = value.live().ok_or_else(|| no_value(model, place, value))?;
            given.push(Given { place, value });
        }
        for adapter in options.iter().flat_map(|options| options.adapters()) {
            for (name, value) in &adapter.0 {
                let place = model.input_place(name).ok_or_else(|| invalid!("Invalid input name: {name}"))?;
                given.retain(|earlier| earlier.place != place);
                given.push(Given { place, value: value.clone() });
            }
        }
        let names = output_names.read(slots.len(), "output_names")?;
        let mut outputs = Vec::with_capacity(slots.len());
        for (name, slot) in names.into_iter().zip(slots) {
            let place = name.look(|name| model.output(name)).unwrap_or(None);
            let place = place.ok_or_else(|| unknown("output", name))?;
            outputs.push(Asked { place, into: slot.optional("an output")? });
        }
        Ok(Call { inputs: given, outputs, options })
    }

    /// Runs the model; returns the value of each requested output. An error is also a line of the log.
    pub(crate) fn run(&self, model: &Model) -> Result<Vec<Arc<Value>>> {
        self.compute(model).inspect_err(|error| model.log.line(Severity::Error, "run", &error.message))
    }

    fn compute(&self, model: &Model) -> Result<Vec<Arc<Value>>> {
        if self.outputs.is_empty() {
            return Err(invalid!("At least one output should be requested."));
        }
        for Given { place, value } in &self.inputs {
            check(&model.all_inputs[*place], value, "input")?;
        }
        for Asked { place, into } in &self.outputs {
            if let Some(into) = into {
                check(&model.outputs[*place], into, "output")?;
            }
        }
        let mut spans = Vec::with_capacity(self.inputs.len());
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for Given { place, value } in &self.inputs {
            inputs.push((*place, value.to_kiln(&mut spans)?));
        }
        let lent = self.lend(&spans, &mut inputs)?;
        let options = self.options.as_ref().map(|options| options.kiln()).unwrap_or_default();
        let made = model.session.run_placed(inputs, lent.bound, &lent.over, &options);
        if self.options.as_ref().is_some_and(|options| options.shrinks()) {
            model.session.trim();
        }
        self.give(model, made.map_err(of_run)?, &spans, &lent.how)
    }

    /// The outputs that the run can write directly to their destination. An input at the destination of an output, with
    /// the same type and shape, is written over.
    fn lend(&self, spans: &[Span], inputs: &mut Vec<(usize, kiln::Value)>) -> Result<Lent> {
        let mut lent = Lent {
            bound: Vec::new(),
            taken: Vec::new(),
            over: Vec::new(),
            how: vec![Filled::After; self.outputs.len()],
        };
        for (Asked { place, into }, number) in self.outputs.iter().zip(0..) {
            let Some(Value::Tensor(elements)) = into.as_deref() else { continue };
            let span = elements.block().span();
            let same = same_input(elements, inputs);
            let of_inputs = spans.iter().filter(|other| other.overlaps(span)).count();
            let is_free = of_inputs == usize::from(same.is_some())
                && !lent.taken.iter().any(|other| other.overlaps(span))
                && !lent.bound.iter().any(|(other, _)| other == place);
            if !elements.is_plain() || elements.count() == 0 || !is_free {
                continue;
            }
            if let Some(at) = same {
                let (input, _) = inputs.remove(at);
                lent.over.push(Over { input, output: *place });
            }
            lent.taken.push(span);
            lent.bound.push((*place, elements.write()?));
            lent.how[number] = Filled::InPlace;
        }
        Ok(lent)
    }

    /// The values of outputs, from the results of the run.
    fn give(&self, model: &Model, made: Vec<kiln::Value>, spans: &[Span], how: &[Filled]) -> Result<Vec<Arc<Value>>> {
        let mut made: Vec<Option<kiln::Value>> = made.into_iter().map(Some).collect();
        let mut given: Vec<Arc<Value>> = Vec::with_capacity(self.outputs.len());
        for (number, (Asked { place, into }, how)) in self.outputs.iter().zip(how).enumerate() {
            let name = &model.outputs[*place].name;
            let earlier = self.outputs[..number].iter().position(|other| other.place == *place);
            let mut take = || made[*place].take().ok_or_else(|| failed!("output '{name}' was lost"));
            let value = match (into, earlier) {
                (Some(into), _) if *how == Filled::InPlace => into.clone(),
                (Some(into), Some(earlier)) => {
                    fill(name, into, &given[earlier].to_kiln(&mut Vec::new())?)?;
                    into.clone()
                }
                (Some(into), None) => {
                    fill(name, into, &take()?)?;
                    into.clone()
                }
                (None, Some(earlier)) => given[earlier].clone(),
                (None, None) => Arc::new(Value::of_kiln(take()?, spans)?),
            };
            given.push(value);
        }
        Ok(given)
    }
}

/// The input whose elements are the output's own memory.
fn same_input(elements: &Elements, inputs: &[(usize, kiln::Value)]) -> Option<usize> {
    let spec = elements.spec();
    let address = elements.block().span().start;
    inputs.iter().position(|(_, value)| {
        value.as_tensor().is_some_and(|tensor| *tensor.spec() == spec && tensor.bytes().as_ptr().addr() == address)
    })
}

/// The error of a name that the model does not have.
fn unknown(role: &str, name: Text) -> Error {
    let name = name.lossy();
    if name.is_empty() { invalid!("{role} name cannot be empty") } else { invalid!("Invalid {role} name: {name}") }
}

/// The error of an input whose handle is null or not live.
fn no_value(model: &Model, place: usize, value: Handle<Value>) -> Error {
    let name = &model.all_inputs[place].name;
    if value.is_null() {
        return invalid!("NULL input supplied for input {name}");
    }
    value.get(&format!("input '{name}'")).err().unwrap_or_else(|| failed!("input '{name}' was released meanwhile"))
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

/// Fails where a value does not fit the model's declaration, in onnxruntime's words.
fn check(port: &Port, value: &Value, role: &str) -> Result<()> {
    let name = &port.name;
    let (dtype, given) = match value {
        Value::Tensor(elements) => (elements.dtype, elements.dims()),
        Value::Strings(strings) => (DType::String, strings.dims()),
        other if port.kind == ValueKind::Tensor => {
            return Err(invalid!("{role} '{name}' expects a tensor and got {}", other.name()));
        }
        // The session checks the elements of other values.
        _ => return Ok(()),
    };
    if !matches!(port.kind, ValueKind::Tensor | ValueKind::Optional) {
        return Ok(());
    }
    if let Some(declared) = port.dtype
        && declared != dtype
    {
        let (actual, expected) = (dtype::text(dtype), dtype::text(declared));
        return Err(invalid!(
            "Unexpected {role} data type. Actual: ({actual}) , expected: ({expected}) for {role} '{name}'"
        ));
    }
    let Some(dims) = &port.dims else { return Ok(()) };
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
    let differs = |(dim, size): (&Dim, &i64)| matches!(dim, Dim::Fixed(fixed) if *fixed as i64 != *size);
    if !dims.iter().zip(given).any(differs) {
        return Ok(());
    }
    let wrong: Vec<String> = dims
        .iter()
        .zip(given)
        .enumerate()
        .filter(|(_, pair)| differs(*pair))
        .map(|(axis, (dim, size))| format!("index: {axis} Got: {size} Expected: {dim}"))
        .collect();
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
        SessionError::Input { name, reason } if reason == "not given" => failed!("Missing Input: {name}"),
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
        let arrays = Arrays { input_names, inputs, input_count, output_names, slots: &slots };
        let call = Call::read(&model, options, &arrays)?;
        let values = call.run(&model)?;
        put(&values, &mut slots)?;
        outputs.fill(output_count, &slots, "outputs")
    }
}
