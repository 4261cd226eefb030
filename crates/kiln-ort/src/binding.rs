//! Values that are bound to a session's inputs and outputs, run after run.

use std::sync::{Arc, PoisonError};

use kiln_fork::Mutex;

use crate::error::{Code, Result, failed, invalid};
use crate::memory_info::MemoryInfo;
use crate::run::{Asked, Call, Given};
use crate::run_options::RunSettings;
use crate::seam::handle::kind;
use crate::seam::{Allocator, Chars, Handle, Out, Text, entry};
use crate::session::Model;
use crate::value::Value;

/// `OrtIoBinding`.
pub(crate) struct Binding {
    model: Arc<Model>,
    inputs: Mutex<Vec<Given>>,
    outputs: Mutex<Vec<Output>>,
}

kind!(Binding = "OrtIoBinding");

/// An output that is bound.
#[derive(Clone)]
struct Output {
    name: String,
    /// The value that it was bound to, or the value that the last run made.
    value: Option<Arc<Value>>,
    /// Whether only the place was bound: then a run may make another value.
    is_open: bool,
}

impl Binding {
    fn bind_output(&self, output: Output) {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        match outputs.iter_mut().find(|other| other.name == output.name) {
            Some(other) => *other = output,
            None => outputs.push(output),
        }
    }

    fn outputs(&self) -> Vec<Output> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bound inputs at their places in the model; the model may belong to another session than the binding.
    fn inputs_of(&self, model: &Model) -> Result<Vec<Given>> {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !std::ptr::eq(model, &raw const *self.model) {
            for input in &mut inputs {
                let name = &self.model.all_inputs[input.place].name;
                input.place = model.input_place(name).ok_or_else(|| invalid!("Invalid input name: {name}"))?;
            }
        }
        Ok(inputs)
    }

    /// Runs the model with the bound values.
    fn run(&self, model: &Model, options: Option<Arc<RunSettings>>) -> Result<()> {
        let inputs = self.inputs_of(model)?;
        let bound = self.outputs();
        let place = |output: &Output| {
            model.output(&output.name).ok_or_else(|| invalid!("Invalid output name: {}", output.name))
        };
        let places = bound.iter().map(place).collect::<Result<Vec<_>>>()?;
        let call = |reuse: bool| Call {
            inputs: inputs.clone(),
            outputs: bound
                .iter()
                .zip(&places)
                .map(|(output, place)| Asked {
                    place: *place,
                    into: output.value.clone().filter(|_| reuse || !output.is_open),
                })
                .collect(),
            options: options.clone(),
        };
        let is_open = bound.iter().any(|output| output.is_open && output.value.is_some());
        let made = match call(true).run(model) {
            // A result of another shape than the last run's gets a new value where only its place was bound.
            Err(error) if is_open && error.code == Code::InvalidArgument as i32 => call(false).run(model)?,
            made => made?,
        };
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        for (output, value) in bound.iter().zip(made) {
            if let Some(kept) = outputs.iter_mut().find(|kept| kept.name == output.name) {
                kept.value = Some(value);
            }
        }
        Ok(())
    }
}

entry! {
    fn CreateIoBinding(session: Handle<Model>, out: Out<Handle<Binding>>) {
        let out = out.place("out")?;
        let model = session.get("session")?;
        out.put(Handle::new(Binding { model, inputs: Mutex::default(), outputs: Mutex::default() })?);
        Ok(())
    }

    fn BindInput(binding: Handle<Binding>, name: Text, value: Handle<Value>) {
        let binding = binding.get("binding_ptr")?;
        let (name, value) = (name.read("name")?, value.get("val_ptr")?);
        let place = binding.model.input_place(&name);
        let place = place.ok_or_else(|| failed!("Failed to find input name in the mapping: {name}"))?;
        let mut inputs = binding.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        match inputs.iter_mut().find(|other| other.place == place) {
            Some(other) => other.value = value,
            None => inputs.push(Given { place, value }),
        }
        Ok(())
    }

    fn BindOutput(binding: Handle<Binding>, name: Text, value: Handle<Value>) {
        let binding = binding.get("binding_ptr")?;
        let (name, value) = (name.read("name")?, value.get("val_ptr")?);
        binding.bind_output(Output { name, value: Some(value), is_open: false });
        Ok(())
    }

    fn BindOutputToDevice(binding: Handle<Binding>, name: Text, info: Handle<MemoryInfo>) {
        let binding = binding.get("binding_ptr")?;
        let (name, info) = (name.read("name")?, info.get("mem_info_ptr")?);
        if !info.is_cpu() {
            return Err(invalid!("output '{name}' cannot be bound to another device: there is the processor alone"));
        }
        binding.bind_output(Output { name, value: None, is_open: true });
        Ok(())
    }

    fn RunWithBinding(session: Handle<Model>, options: Handle<RunSettings>, binding: Handle<Binding>) {
        let model = session.get("session")?;
        let options = options.optional("run_options")?;
        binding.get("binding_ptr")?.run(&model, options)
    }

    fn GetBoundOutputNames(
        binding: Handle<Binding>,
        allocator: Allocator,
        buffer: Out<Chars>,
        lengths: Out<Out<usize>>,
        count: Out<usize>,
    ) {
        let (buffer, lengths) = (buffer.place("buffer")?, lengths.place("lengths")?);
        let count = count.place("count")?;
        let outputs = binding.get("binding_ptr")?.outputs();
        let sizes: Vec<usize> = outputs.iter().map(|output| output.name.len()).collect();
        let text: String = outputs.iter().map(|output| output.name.as_str()).collect();
        let characters = allocator.list(text.as_bytes(), "allocator")?;
        let sizes = allocator.list(&sizes, "allocator").inspect_err(|_| allocator.free(characters.cast()))?;
        buffer.put(characters.cast());
        lengths.put(Out::from_raw(sizes));
        count.put(outputs.len());
        Ok(())
    }

    fn GetBoundOutputValues(
        binding: Handle<Binding>,
        allocator: Allocator,
        values: Out<Out<Handle<Value>>>,
        count: Out<usize>,
    ) {
        let (values, count) = (values.place("output")?, count.place("output_count")?);
        let outputs = binding.get("binding_ptr")?.outputs();
        let mut handles = Vec::with_capacity(outputs.len());
        for output in &outputs {
            let value = output.value.clone();
            let handle = value.map_or_else(|| Err(failed!("output '{}' has no value yet", output.name)), Handle::of);
            handles.push(handle.inspect_err(|_| release(&handles))?);
        }
        let list = allocator.list(&handles, "allocator").inspect_err(|_| release(&handles))?;
        values.put(Out::from_raw(list));
        count.put(handles.len());
        Ok(())
    }

    fn ClearBoundInputs(binding: Handle<Binding>) -> (), else () => {
        if let Some(binding) = binding.live() {
            binding.inputs.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    fn ClearBoundOutputs(binding: Handle<Binding>) -> (), else () => {
        if let Some(binding) = binding.live() {
            binding.outputs.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    fn SynchronizeBoundInputs(binding: Handle<Binding>) {
        binding.get("binding_ptr").map(drop)
    }

    fn SynchronizeBoundOutputs(binding: Handle<Binding>) {
        binding.get("binding_ptr").map(drop)
    }

    fn ReleaseIoBinding(binding: Handle<Binding>) -> (), else () => {
        drop(binding.release());
    }
}

fn release(handles: &[Handle<Value>]) {
    handles.iter().for_each(|handle| drop(handle.release()));
}
