//! The class `kiln.Session`. Everything that takes long runs without the interpreter's lock.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kiln::{DType, RunOptions, Tensor, TensorSpec, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple, PyType};

use crate::errors;
use crate::interrupt::{Cancel, Watch};
use crate::options;
use crate::ports::{Metadata, Port};
use crate::values;

/// One ONNX model, ready to run at any shape, from any number of threads.
///
/// `model` is a path or the bytes of a model. All options are keywords; None means the default, which the environment's
/// `KILN_*` variables may set:
///
/// - `threads`: threads of one request, in a pool that sessions of the same number share; `pool`: a `kiln.Pool`
///   instead.
/// - `cache_dir`: the folder of records; `cache_mode`: "read-write", "read", "memory" or "off"; `cache_per_model`:
///   whether the model has a file of records of its own; `error_on_cache_miss`: whether needing what no record knows is
///   an error.
/// - `precision`: "f32" or "bf16"; `numerics`: "default", "precise" or "strict"; `max_isa`: "portable", "avx2" or
///   "avx512".
/// - `tune`: "off", "fast" or "full"; `rehearse`: whether plans of known shapes are made while the model loads.
/// - `profile`: whether times by node are kept; `taps`: names of values on the way that are returned as outputs too.
/// - `memory_bytes`: most bytes of tensors at once; `buffer_bytes`: most free bytes kept between requests.
/// - `time_limit`, `load_time_limit`: seconds that a request and the loading may take.
#[pyclass(frozen, subclass, weakref, module = "kiln")]
pub(crate) struct Session {
    /// None once it was closed.
    session: Mutex<Option<Arc<kiln::Session>>>,
    /// How often its requests were called off.
    calls: Arc<AtomicU64>,
    /// The path or the bytes that it was made of, and the options: what a pickle of it holds.
    model: Py<PyAny>,
    options: Py<PyDict>,
}

impl Session {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<kiln::Session>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone().ok_or_else(|| errors::error(py, "ClosedError", "the session was closed"))
    }

    /// The outputs that a request asks for, by place; none means all.
    fn wanted(py: Python<'_>, session: &kiln::Session, names: &Bound<'_, PyAny>) -> PyResult<Option<Vec<usize>>> {
        if names.is_none() {
            return Ok(None);
        }
        let ports = session.outputs();
        let place = |name: PyResult<Bound<'_, PyAny>>| {
            let name: String = name?.extract()?;
            ports.iter().position(|port| port.name == name).ok_or_else(|| {
                let known: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
                let text = format!("output '{name}': the model has no such output; it has {}", known.join(", "));
                errors::error(py, "OutputError", text)
            })
        };
        let wanted: Vec<usize> = names.try_iter()?.map(place).collect::<PyResult<_>>()?;
        Ok((!wanted.is_empty()).then_some(wanted))
    }

    fn serve(
        &self,
        py: Python<'_>,
        session: &kiln::Session,
        inputs: &[(String, Value)],
        limit: &RunLimit<'_>,
    ) -> PyResult<Vec<(String, Value)>> {
        let watch = Watch::new(&self.calls, limit.cancel);
        let time_limit = limit.seconds.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
        let options = RunOptions { time_limit, cancel: Some(watch.cancel()) };
        let inputs: Vec<(&str, Value)> = inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let result = py.detach(|| session.run_values_with(&inputs, &options));
        result.map_err(|error| watch.raised().unwrap_or_else(|| errors::session(py, &error)))
    }
}

/// What may end one request.
struct RunLimit<'a> {
    seconds: Option<f64>,
    cancel: Option<&'a Cancel>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // Records are saved here, and memory is given back.
        let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if session.is_some() {
            Python::attach(|py| py.detach(|| drop(session)));
        }
    }
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(
        signature = (model, **options),
        text_signature = "(model, *, threads=None, pool=None, cache_dir=None, cache_mode=None, cache_per_model=None, \
            precision=None, numerics=None, max_isa=None, tune=None, rehearse=None, profile=None, \
            error_on_cache_miss=None, memory_bytes=None, buffer_bytes=None, time_limit=None, \
            load_time_limit=None, taps=None)"
    )]
    fn new(py: Python<'_>, model: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Session> {
        let kept = PyDict::new(py);
        for (name, value) in options.into_iter().flatten() {
            if !value.is_none() && name.str()? != "pool" {
                kept.set_item(name, value)?;
            }
        }
        let calls = Arc::default();
        let watch = Watch::new(&calls, None);
        let mut options = options::parse(py, options)?;
        options.load_cancel = Some(watch.cancel());
        let (loaded, model) = if let Ok(bytes) = model.cast::<PyBytes>() {
            let data = bytes.as_bytes();
            (py.detach(|| kiln::Session::load_bytes(data.to_vec(), &options)), bytes.clone().into_any())
        } else {
            let path: PathBuf = model.extract().map_err(|cause: PyErr| {
                let kind = model.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
                let error = errors::error(py, "ModelError", format!("a model is a path or bytes, not {kind}"));
                error.set_cause(py, Some(cause));
                error
            })?;
            (py.detach(|| kiln::Session::load(&path, &options)), path.into_pyobject(py)?.into_any())
        };
        let session = loaded.map_err(|error| watch.raised().unwrap_or_else(|| errors::session(py, &error)))?;
        Ok(Session {
            session: Mutex::new(Some(Arc::new(session))),
            calls,
            model: model.unbind(),
            options: kept.unbind(),
        })
    }

    /// Serves one request: the outputs of these names, or all for None, as a list of arrays.
    ///
    /// An input is anything that becomes an array. One in C order is read where it is and never written, and must not
    /// be written by others meanwhile. Outputs are writable and outlive the session. A sequence is a list, and an
    /// optional value that is none is None. `time_limit` is in seconds, and `cancel` a `kiln.Cancel`.
    #[pyo3(signature = (output_names, inputs, *, time_limit=None, cancel=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        output_names: &Bound<'py, PyAny>,
        inputs: &Bound<'py, PyDict>,
        time_limit: Option<f64>,
        cancel: Option<&Bound<'py, Cancel>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let session = self.open(py)?;
        let wanted = Session::wanted(py, &session, output_names)?;
        let mut given = Vec::with_capacity(inputs.len());
        for (name, value) in inputs {
            let name: String = name.extract()?;
            let Some(port) = session.inputs().iter().find(|port| port.name == name) else {
                let known: Vec<&str> = session.inputs().iter().map(|port| port.name.as_str()).collect();
                let reason = format!("the model has no such input; it has {}", known.join(", "));
                return Err(errors::input(py, &name, reason, None));
            };
            let value = values::take(py, port, &value)?;
            given.push((name, value));
        }
        let limit = RunLimit { seconds: time_limit, cancel: cancel.map(|cancel| cancel.get()) };
        let served = self.serve(py, &session, &given, &limit)?;
        // An output that is one of these would be taken for shared otherwise.
        drop(given);
        let outputs = PyList::empty(py);
        match wanted {
            None => served.into_iter().try_for_each(|(_, value)| outputs.append(values::give(py, value)?))?,
            Some(wanted) => {
                let mut served: Vec<Option<Value>> = served.into_iter().map(|(_, value)| Some(value)).collect();
                let mut first: Vec<Option<usize>> = vec![None; served.len()];
                for (at, place) in wanted.into_iter().enumerate() {
                    // A name that is asked for twice is one array.
                    let array = match (served[place].take(), first[place]) {
                        (Some(value), _) => values::give(py, value)?,
                        (None, before) => outputs.get_item(before.unwrap_or(at))?,
                    };
                    first[place].get_or_insert(at);
                    outputs.append(array)?;
                }
            }
        }
        Ok(outputs)
    }

    /// The inputs that a request gives, in the model's order.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<Port>> {
        Ok(self.open(py)?.inputs().iter().map(Port::new).collect())
    }

    /// The outputs that a request gets, in the model's order.
    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<Port>> {
        Ok(self.open(py)?.outputs().iter().map(Port::new).collect())
    }

    /// What the model says of itself.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<Metadata> {
        Metadata::new(py, self.open(py)?.metadata())
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Executors that were rebuilt from records before the first request.
    #[getter]
    fn warmed(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open(py)?.warmed())
    }

    /// Counters of the cache, the plans, the records, and of what this session has had of the cache.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let session = self.open(py)?;
        let stats = PyDict::new(py);
        for (name, of) in [("cache", session.cache_stats()), ("plans", session.plan_stats())] {
            let counters = [
                ("lookups", of.lookups),
                ("hits", of.hits),
                ("misses", of.misses),
                ("waits", of.waits),
                ("record_hits", of.record_hits),
                ("builds", of.builds),
                ("build_nanos", of.build_nanos),
                ("failures", of.failures),
                ("evictions", of.evictions),
                ("entries", of.entries),
                ("bytes", of.bytes),
            ];
            stats.set_item(name, counted(py, &counters)?)?;
        }
        let of = session.record_stats();
        let counters = [
            ("records", of.records),
            ("lookups", of.lookups),
            ("hits", of.hits),
            ("loaded", of.loaded),
            ("merged", of.merged),
            ("saved", of.saved),
            ("failed_saves", of.failed_saves),
        ];
        stats.set_item("records", counted(py, &counters)?)?;
        let of = session.share_stats();
        let counters = [
            ("hits", of.hits),
            ("waits", of.waits),
            ("record_hits", of.record_hits),
            ("misses", of.misses),
            ("built_bytes", of.built_bytes),
            ("fell_apart", of.fell_apart),
        ];
        stats.set_item("session", counted(py, &counters)?)?;
        Ok(stats)
    }

    /// Times by node, where the session was made with `profile=True`.
    fn profile<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for node in self.open(py)?.profile().unwrap_or_default().nodes.into_iter().filter(|node| node.calls > 0) {
            let row = PyDict::new(py);
            row.set_item("name", node.name)?;
            row.set_item("op", node.op)?;
            row.set_item("family", node.family)?;
            row.set_item("calls", node.calls)?;
            row.set_item("prepare_seconds", node.prepare.as_secs_f64())?;
            row.set_item("execute_seconds", node.execute.as_secs_f64())?;
            rows.append(row)?;
        }
        Ok(rows)
    }

    /// Writes what was chosen: into the session's own file, or into that one; how many records are in it then.
    #[pyo3(signature = (path=None))]
    fn save_records(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<u64> {
        let session = self.open(py)?;
        let save = |path: Option<&Path>| match path {
            None => session.save_records(),
            Some(path) => session.save_cache(path, kiln::session::CacheKind::All),
        };
        let report = py.detach(|| save(path.as_deref()));
        report.map(|report| report.written).map_err(|error| errors::error(py, "RecordsError", error.to_string()))
    }

    /// Takes over the better records of a file; how many those were.
    fn load_records(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let session = self.open(py)?;
        let report = py.detach(|| session.load_cache(&path, kiln::session::CacheKind::All));
        report.map(|report| report.taken).map_err(|error| errors::error(py, "RecordsError", error.to_string()))
    }

    /// Serves a request of zeros for each mapping of inputs to shapes, so that requests of those shapes build nothing.
    fn warm(&self, py: Python<'_>, shapes: &Bound<'_, PyAny>) -> PyResult<usize> {
        let session = self.open(py)?;
        let each: Vec<Bound<'_, PyAny>> = match shapes.cast::<PyDict>() {
            Ok(one) => vec![one.clone().into_any()],
            Err(_) => shapes.try_iter()?.collect::<PyResult<_>>()?,
        };
        for shapes in &each {
            let mut inputs = Vec::new();
            for (name, shape) in shapes.cast::<PyDict>()? {
                let (name, shape): (String, Vec<usize>) = (name.extract()?, shape.extract()?);
                let port = session.inputs().iter().find(|port| port.name == name);
                let dtype = port.and_then(|port| port.dtype).unwrap_or(DType::F32);
                let zeros = Tensor::zeros(TensorSpec::new(dtype, shape));
                let zeros = zeros.map_err(|error| errors::input(py, &name, error, None))?;
                inputs.push((name, Value::Tensor(zeros)));
            }
            self.serve(py, &session, &inputs, &RunLimit { seconds: None, cancel: None })?;
        }
        Ok(each.len())
    }

    /// Ends every request of this session that runs now; later ones are served as ever.
    fn cancel(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives memory that no request uses now back to the system.
    fn trim(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.open(py)?;
        py.detach(|| session.trim());
        Ok(())
    }

    /// Lets the model go and saves records. Outputs stay what they are; requests that still run end first.
    fn close(&self, py: Python<'_>) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(session));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, ReopenArgs<'py>)> {
        let py = slf.py();
        let this = slf.get();
        let reopen = py.import("kiln._kiln")?.getattr("reopen")?;
        Ok((reopen, (slf.get_type(), this.model.bind(py).clone(), this.options.bind(py).clone())))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.open(py) {
            Ok(session) => {
                let names =
                    |ports: &[kiln::Port]| ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
                format!("<kiln.Session ({}) -> ({})>", names(session.inputs()), names(session.outputs()))
            }
            Err(_) => "<kiln.Session, closed>".to_owned(),
        }
    }
}

type ReopenArgs<'py> = (Bound<'py, PyType>, Bound<'py, PyAny>, Bound<'py, PyDict>);

/// A session of that class, as a pickle says: of a model and options.
#[pyfunction]
pub(crate) fn reopen<'py>(
    kind: &Bound<'py, PyType>,
    model: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    kind.call((model,), Some(options))
}

/// Counters by name.
fn counted<'py>(py: Python<'py>, counters: &[(&str, u64)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    counters.iter().try_for_each(|(name, count)| dict.set_item(name, count))?;
    Ok(dict)
}
