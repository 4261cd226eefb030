//! Runs over the caller's memory.

use std::ffi::{c_char, c_void};

use kiln::{DType, Tensor, TensorSpec, Value, ValueKind};

use crate::dtype;
use crate::error::{Error, KilnCode, Result, invalid};
use crate::handle;
use crate::port::Declared;
use crate::run_options::{self, KilnRunOptions};
use crate::seam;
use crate::session::KilnSession;
use crate::status::{KilnStatus, guard};

/// The most axes of a caller's tensor: far more than any model's.
const MOST_AXES: usize = 256;

/// An input of a run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KilnInput {
    /// The name of the model's input.
    pub name: *const c_char,
    /// The element type, as in KILN_FLOAT32.
    pub dtype: i32,
    /// The number of dimensions.
    pub rank: usize,
    /// The sizes.
    pub dims: *const i64,
    /// The elements, row by row. The run reads them in place.
    pub data: *const c_void,
    /// The size of the elements in bytes.
    pub bytes: usize,
}

/// An output of a run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KilnOutput {
    /// The name of the model's output.
    pub name: *const c_char,
    /// Memory for the elements, row by row. It overlaps no input and no other output.
    pub data: *mut c_void,
    /// The number of bytes that fit at `data`.
    pub room: usize,
    /// Memory for the sizes.
    pub dims: *mut i64,
    /// The number of sizes that fit at `dims`.
    pub dims_room: usize,
    /// If not 0, the caller sets dtype, rank and the sizes at `dims`. The run then writes the output straight to
    /// `data`, and an output of another type or shape is an error. If 0, the run writes dtype, rank and the sizes.
    pub is_fixed: i32,
    /// The element type.
    pub dtype: i32,
    /// The number of dimensions.
    pub rank: usize,
    /// The size of the elements in bytes, written by the run.
    pub bytes: usize,
}

/// Caller's memory that a run uses.
struct Span {
    what: String,
    start: usize,
    /// Bytes.
    len: usize,
}

impl Span {
    fn overlaps(&self, other: &Span) -> bool {
        let (end, other_end) = (self.start.saturating_add(self.len), other.start.saturating_add(other.len));
        self.len > 0 && other.len > 0 && self.start < other_end && other.start < end
    }
}

/// An output that is asked for.
struct Asked {
    /// Its place among the model's.
    place: usize,
    what: String,
    /// The type and shape of a fixed one.
    fixed: Option<TensorSpec>,
    to: KilnOutput,
}

/// The place of a name among ports.
fn place(ports: &[Declared], name: *const c_char, role: &str) -> Result<usize> {
    let name = seam::text(name, &format!("name of an {role}"))?;
    ports.iter().position(|declared| declared.port.name == name).ok_or_else(|| {
        let known: Vec<&str> = ports.iter().map(|declared| declared.port.name.as_str()).collect();
        invalid!("the model has no {role} '{name}'; it has {}", known.join(", "))
    })
}

/// The type and shape that the caller states.
fn spec(dtype: i32, dims: &[i64], what: &str) -> Result<TensorSpec> {
    let dtype = dtype::of_number(dtype, what)?;
    let sizes = dims.iter().zip(0..).map(|(&size, axis): (&i64, usize)| {
        usize::try_from(size).map_err(|_| invalid!("{what}: size {size} of axis {axis} is negative"))
    });
    Ok(TensorSpec::new(dtype, sizes.collect::<Result<Vec<usize>>>()?))
}

/// Bytes of a tensor.
fn bytes_of(spec: &TensorSpec, what: &str) -> Result<usize> {
    let elements = spec.elements().map_err(|error| invalid!("{what}: {error}"))?;
    Ok(elements.saturating_mul(spec.dtype.size()))
}

/// The tensor of an input.
fn input(from: &KilnInput, what: &str) -> Result<Tensor> {
    let dims = seam::list(from.dims, from.rank, MOST_AXES, &format!("{what}: dims"))?;
    let spec = spec(from.dtype, &dims, what)?;
    let need = bytes_of(&spec, what)?;
    if from.bytes != need {
        let (dtype, shape) = (spec.dtype.name(), &dims);
        return Err(invalid!("{what}: bytes is {}, and {dtype} {shape:?} has {need}", from.bytes));
    }
    let what = format!("{what}: data");
    // Truth values are read as bytes of 0 and 1, and elements at multiples of their size.
    if spec.dtype == DType::Bool || !from.data.addr().is_multiple_of(spec.dtype.size()) {
        let mut bytes = seam::copy(from.data, need, &what)?;
        if spec.dtype == DType::Bool {
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        return Ok(Tensor::from_bytes(spec, &bytes)?);
    }
    let tensor = Tensor::from_foreign(spec, seam::reading(from.data, need, &what)?);
    tensor.map_err(|error| invalid!("{what}: {error}"))
}

/// The type and shape of an output that is fixed, for which there is room.
fn fixed(to: &KilnOutput, what: &str) -> Result<Option<TensorSpec>> {
    if to.is_fixed == 0 {
        return Ok(None);
    }
    let dims = seam::list(to.dims.cast_const(), to.rank, MOST_AXES, &format!("{what}: dims"))?;
    let spec = spec(to.dtype, &dims, what)?;
    let need = bytes_of(&spec, what)?;
    if to.room < need {
        let reason = format!("{what}: room is {}, and {} {dims:?} has {need} bytes", to.room, spec.dtype.name());
        return Err(Error::new(KilnCode::NoRoom, reason));
    }
    Ok(Some(spec))
}

/// The memory that the run writes an output to, if it is fixed. Without elements there is nothing to write.
fn bound(asked: &Asked) -> Result<Option<(usize, Tensor)>> {
    let Asked { place, what, fixed: Some(spec), to } = asked else { return Ok(None) };
    let need = bytes_of(spec, what)?;
    if need == 0 {
        return Ok(None);
    }
    let memory = seam::writing(to.data, need, &format!("{what}: data"))?;
    let tensor = Tensor::from_foreign_mut(spec.clone(), memory).map_err(|error| invalid!("{what}: {error}"))?;
    Ok(Some((*place, tensor)))
}

/// Reads the outputs that are asked for, and checks their memory for overlaps with the inputs and each other.
fn asked(model: &KilnSession, outputs: &[KilnOutput], spans: &mut Vec<Span>) -> Result<Vec<Asked>> {
    let mut all: Vec<Asked> = Vec::with_capacity(outputs.len());
    for to in outputs {
        let place = place(&model.outputs, to.name, "output")?;
        let port = &model.outputs[place].port;
        let what = format!("output '{}'", port.name);
        if all.iter().any(|other| other.place == place) {
            return Err(invalid!("{what} is asked for twice"));
        }
        if !matches!(port.kind, ValueKind::Tensor | ValueKind::Optional) {
            return Err(Error::new(
                KilnCode::Unsupported,
                format!("{what} is {}: kiln.h gives tensors alone", port.kind),
            ));
        }
        port.dtype.map_or(Ok(()), |dtype| dtype::expect_numbers(dtype, &what))?;
        let span = Span { what: what.clone(), start: to.data.addr(), len: to.room };
        if let Some(other) = spans.iter().find(|other| other.overlaps(&span)) {
            return Err(invalid!("the memory of {what} overlaps that of {}", other.what));
        }
        spans.push(span);
        let fixed = fixed(to, &what)?;
        all.push(Asked { place, what, fixed, to: *to });
    }
    Ok(all)
}

/// Writes the type and shape of an output and, where there is room, its elements; returns whether there was room.
fn give(asked: &Asked, value: &Value, to: &mut KilnOutput) -> Result<bool> {
    let what = &asked.what;
    let tensor = value.as_tensor().ok_or_else(|| {
        Error::new(KilnCode::Unsupported, format!("{what} is {}: kiln.h gives tensors alone", value.kind()))
    })?;
    dtype::expect_numbers(tensor.dtype(), what)?;
    let bytes = tensor.bytes();
    to.dtype = dtype::number(Some(tensor.dtype()));
    to.rank = tensor.shape().len();
    to.bytes = bytes.len();
    if let Some(fixed) = &asked.fixed {
        if tensor.spec() != fixed {
            let (dtype, shape) = (tensor.dtype().name(), tensor.shape());
            return Err(invalid!("{what} is {dtype} {shape:?}, and not {} {:?}", fixed.dtype.name(), fixed.shape));
        }
        return Ok(true);
    }
    let dims: Vec<i64> = tensor.shape().iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
    if to.dims_room > 0 {
        seam::fill(to.dims, to.dims_room, &dims, &format!("{what}: dims"))?;
    }
    if to.dims_room < dims.len() || to.room < bytes.len() {
        return Ok(false);
    }
    seam::write(to.data, to.room, bytes, &format!("{what}: data")).map(|()| true)
}

fn run(
    model: &KilnSession,
    options: *const KilnRunOptions,
    inputs: &[KilnInput],
    outputs: &mut [KilnOutput],
) -> Result<()> {
    let options = run_options::of_caller(options)?;
    let mut spans = Vec::with_capacity(inputs.len());
    let mut given = Vec::with_capacity(inputs.len());
    for from in inputs {
        let place = place(&model.inputs, from.name, "input")?;
        let what = format!("input '{}'", model.inputs[place].port.name);
        if given.iter().any(|(other, _)| *other == place) {
            return Err(invalid!("{what} is given twice"));
        }
        given.push((place, Value::Tensor(input(from, &what)?)));
        spans.push(Span { what, start: from.data.addr(), len: from.bytes });
    }
    let asked = asked(model, outputs, &mut spans)?;
    let fixed = asked.iter().filter_map(|asked| bound(asked).transpose()).collect::<Result<Vec<_>>>()?;
    let values = model.session.run_placed(given, fixed, &[], &options)?;
    let mut lacking = Vec::new();
    for (asked, to) in asked.iter().zip(outputs.iter_mut()) {
        if !give(asked, &values[asked.place], to)? {
            let (bytes, rank) = (to.bytes, to.rank);
            lacking.push(format!(
                "{} has {bytes} bytes and {rank} axes, and room for {} and {}",
                asked.what, to.room, to.dims_room
            ));
        }
    }
    if lacking.is_empty() { Ok(()) } else { Err(Error::new(KilnCode::NoRoom, lacking.join("; "))) }
}

/// Runs the model: reads the inputs in place, and writes the requested outputs, which may be listed in any order. If an
/// output that is not fixed does not fit, the run returns KILN_CODE_NO_ROOM. The outputs that fit are then written;
/// dtype, rank, bytes and as many sizes as fit are written for every output. After any other failure, the outputs'
/// memory may hold anything. NULL options set nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_run(
    session: *const KilnSession,
    options: *const KilnRunOptions,
    inputs: *const KilnInput,
    input_count: usize,
    outputs: *mut KilnOutput,
    output_count: usize,
) -> *mut KilnStatus {
    guard("kiln_session_run", || {
        let model = handle::get(session, "session")?;
        let given = seam::list(inputs, input_count, model.inputs.len(), "inputs")?;
        let mut asked = seam::list(outputs.cast_const(), output_count, model.outputs.len(), "outputs")?;
        let result = run(&model, options, &given, &mut asked);
        asked.iter().enumerate().for_each(|(index, to)| seam::put_at(outputs, index, *to));
        result
    })
}
