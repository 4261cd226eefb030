//! Sessions as models of the server: types and shapes of the protocol, tensors over the bytes of requests, and the
//! errors of sessions for clients.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kiln::session::Port as SessionPort;
use kiln::{Cancel, DType, Dim, RunOptions, Session, SessionError, Stopped};
use kiln::{Tensor, TensorError, TensorSpec, Value, ValueKind, Width};
use kiln_kernels::KernelError;
use kiln_run::NodeError;
use kiln_run::exec::BuildError;
use kiln_serve::{Datatype, Failure, Load, Lookups, Model, Port, Request, Tensor as WireTensor, Ticket, Values};

/// The most bytes of a generated request that warms a model.
const WARM_BYTES: usize = 64 << 20;

/// The longest time of such a request.
const WARM_TIME: Duration = Duration::from_secs(10);

/// A session with its ports as the protocol has them.
pub(super) struct Served {
    session: Session,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// The most rows of requests that run together; `None` where requests cannot.
    group: Option<usize>,
}

/// The type that the protocol has a name for.
fn datatype(dtype: DType) -> Option<Datatype> {
    Some(match dtype {
        DType::Bool => Datatype::Bool,
        DType::U8 => Datatype::Uint8,
        DType::U16 => Datatype::Uint16,
        DType::U32 => Datatype::Uint32,
        DType::U64 => Datatype::Uint64,
        DType::I8 => Datatype::Int8,
        DType::I16 => Datatype::Int16,
        DType::I32 => Datatype::Int32,
        DType::I64 => Datatype::Int64,
        DType::F16 => Datatype::Fp16,
        DType::BF16 => Datatype::Bf16,
        DType::F32 => Datatype::Fp32,
        DType::F64 => Datatype::Fp64,
        DType::String => Datatype::Bytes,
        _ => return None,
    })
}

/// Kiln's name of a type of the protocol.
fn dtype(datatype: Datatype) -> DType {
    match datatype {
        Datatype::Bool => DType::Bool,
        Datatype::Uint8 => DType::U8,
        Datatype::Uint16 => DType::U16,
        Datatype::Uint32 => DType::U32,
        Datatype::Uint64 => DType::U64,
        Datatype::Int8 => DType::I8,
        Datatype::Int16 => DType::I16,
        Datatype::Int32 => DType::I32,
        Datatype::Int64 => DType::I64,
        Datatype::Fp16 => DType::F16,
        Datatype::Bf16 => DType::BF16,
        Datatype::Fp32 => DType::F32,
        Datatype::Fp64 => DType::F64,
        Datatype::Bytes => DType::String,
    }
}

fn port(port: &SessionPort) -> Port {
    let is_tensor = port.kind == ValueKind::Tensor;
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Some(*size),
        _ => None,
    };
    let declared = port.dtype.map_or_else(|| "unknown".to_owned(), |dtype| dtype.to_string().to_uppercase());
    Port {
        name: port.name.clone(),
        datatype: port.dtype.filter(|_| is_tensor).and_then(datatype),
        declared: if is_tensor { declared } else { format!("{:?} of {declared}", port.kind) },
        shape: port.dims.as_ref().map(|dims| dims.iter().map(size).collect()),
        is_optional: port.has_default,
    }
}

impl Served {
    pub(super) fn new(session: Session) -> Served {
        let inputs = session.inputs().iter().map(port).collect();
        let outputs = session.outputs().iter().map(port).collect();
        // The stages of rows are made here, so that no request waits for them.
        let group = session.join_report().map(|report| report.group);
        Served { session, inputs, outputs, group }
    }

    /// Runs one request on zeros: a recorded one, or one of the declared shapes. If it fails on zeros, that means
    /// nothing for other requests.
    pub(super) fn warm(&self) {
        let remembered = self.session.remembered().into_iter().next();
        let Some(specs) = remembered.or_else(|| self.declared()) else { return };
        let sizes =
            specs.iter().flatten().map(|spec| spec.elements().map(|count| count.saturating_mul(spec.dtype.size())));
        let bytes = sizes.map(|size| size.unwrap_or(usize::MAX)).fold(0, usize::saturating_add);
        if bytes > WARM_BYTES {
            return;
        }
        let mut inputs = Vec::new();
        for (port, spec) in self.inputs.iter().zip(specs) {
            let Some(spec) = spec else { continue };
            let Ok(tensor) = Tensor::zeros(spec) else { return };
            inputs.push((port.name.as_str(), Value::Tensor(tensor)));
        }
        let options = RunOptions { time_limit: Some(WARM_TIME), ..RunOptions::default() };
        drop(self.session.run_values_with(&inputs, &options));
    }

    /// The types and shapes of all inputs, if the model declares all sizes.
    fn declared(&self) -> Option<Vec<Option<TensorSpec>>> {
        let spec = |port: &Port| {
            if port.is_optional {
                return Some(None);
            }
            let shape: Vec<usize> = port.shape.as_ref()?.iter().copied().collect::<Option<_>>()?;
            Some(Some(TensorSpec::new(dtype(port.datatype?), shape)))
        };
        self.inputs.iter().map(spec).collect()
    }
}

/// The bytes of an output, which the answer keeps alive.
struct OutputBytes(Tensor);

impl AsRef<[u8]> for OutputBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// An input as a session takes it, with elements of its own.
fn value(input: WireTensor) -> Result<Value, Failure> {
    let WireTensor { name, datatype, shape, values } = input;
    let tensor = match values {
        Values::Bytes(bytes) => Tensor::from_bytes(TensorSpec::new(dtype(datatype), shape), &bytes),
        Values::Texts(texts) => Tensor::from_strings(shape, texts),
    };
    tensor.map(Value::Tensor).map_err(|error| match error {
        TensorError::Refused(_) | TensorError::Memory { .. } => Failure::NoMemory(format!("input '{name}': {error}")),
        error => Failure::Refused(format!("input '{name}': {error}")),
    })
}

/// The inputs of a request of a group, by their names; `None` where one cannot be taken.
fn named<'a>(request: &Request<'a>) -> Option<Vec<(&'a str, Value)>> {
    request.inputs.iter().map(|input| Some((input.name.as_str(), value(input.clone()).ok()?))).collect()
}

/// Outputs in the protocol's form, without those of types that it has no name for.
fn made(outputs: Vec<(String, Value)>) -> Result<Vec<WireTensor>, Failure> {
    let mut made = Vec::with_capacity(outputs.len());
    for (name, value) in outputs {
        let Value::Tensor(tensor) = value else { continue };
        let Some(datatype) = datatype(tensor.dtype()) else { continue };
        let shape = tensor.shape().to_vec();
        let values = match datatype {
            Datatype::Bytes => {
                let texts = tensor.as_strings().map_err(|error| Failure::Failed(error.to_string()))?;
                Values::Texts(texts.to_vec())
            }
            _ => Values::Bytes(Bytes::from_owner(OutputBytes(tensor))),
        };
        made.push(WireTensor { name, datatype, shape, values });
    }
    Ok(made)
}

/// The threads for a request that begins at that load.
fn width(load: Load) -> Width {
    match load {
        Load::Light => Width::Wide,
        Load::Full => Width::Narrow,
    }
}

impl Model for Served {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, inputs: Vec<WireTensor>, ticket: &Arc<Ticket>, load: Load) -> Result<Vec<WireTensor>, Failure> {
        let named = inputs.into_iter().map(|input| Ok((input.name.clone(), value(input)?)));
        let named = named.collect::<Result<Vec<(String, Value)>, Failure>>()?;
        let given: Vec<(&str, Value)> = named.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let wanted = Arc::clone(ticket);
        let cancel = Cancel::asking(move || wanted.is_cancelled());
        let time_limit = ticket.left();
        let options = RunOptions { time_limit, cancel: Some(cancel), width: width(load), ..RunOptions::default() };
        made(self.session.run_values_with(&given, &options).map_err(failure)?)
    }

    fn rows(&self, inputs: &[(&str, &[usize])]) -> Option<usize> {
        self.group.and_then(|_| self.session.rows_to_join(inputs))
    }

    fn most_rows(&self) -> usize {
        self.group.unwrap_or_default()
    }

    fn run_group(&self, requests: &[Request<'_>], load: Load) -> Option<Vec<Option<Vec<WireTensor>>>> {
        let inputs = requests.iter().map(named).collect::<Option<Vec<_>>>()?;
        let tickets: Vec<Arc<Ticket>> = requests.iter().map(|request| Arc::clone(request.ticket)).collect();
        let cancel = Cancel::asking(move || tickets.iter().all(|ticket| ticket.check().is_err()));
        let options = RunOptions { cancel: Some(cancel), width: width(load), ..RunOptions::default() };
        let leaves = |request: usize| requests[request].ticket.check().is_err();
        let outputs = self.session.run_together(&inputs, &options, &leaves)?;
        outputs.into_iter().map(|outputs| outputs.map(made).transpose().ok()).collect()
    }

    fn lookups(&self) -> Lookups {
        let stats = self.session.share_stats();
        Lookups { hit: stats.hits + stats.waits, record: stats.record_hits, miss: stats.misses }
    }

    fn save(&self) {
        // Choices that cannot be saved are made again by the next process; the library warns of it.
        drop(self.session.save_records());
    }
}

/// A session's error for a client.
pub(super) fn failure(error: SessionError) -> Failure {
    let text = error.to_string();
    match error {
        SessionError::Input { .. } | SessionError::Dimension { .. } => Failure::Refused(text),
        SessionError::Memory { .. } => Failure::NoMemory(text),
        SessionError::Run(error) => match error.stopped() {
            Some(Stopped::Cancelled) => Failure::Cancelled,
            Some(_) => Failure::TimedOut,
            None => of_node(&error.error, text),
        },
        _ => Failure::Failed(text),
    }
}

/// A node's error for a client: an error caused by its inputs is the request's fault.
fn of_node(error: &NodeError, text: String) -> Failure {
    match error {
        NodeError::Body(inner) => of_node(&inner.error, text),
        NodeError::Input(_) | NodeError::Shape(_) => Failure::Refused(text),
        NodeError::Tensor(TensorError::Refused(_) | TensorError::Memory { .. })
        | NodeError::Kernel(KernelError::Memory(_))
        | NodeError::Build(BuildError::Kernel(KernelError::Memory(_))) => Failure::NoMemory(text),
        _ => Failure::Failed(text),
    }
}
