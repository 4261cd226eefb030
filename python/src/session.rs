//! The class `kiln.Session`. Everything that takes long runs without the interpreter's lock.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kiln::session::{CacheError, CacheKind};
use kiln::{DType, RunOptions, Tensor, TensorSpec, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::errors;
use crate::interrupt::{Cancel, Watch};
use crate::models::{self, Model};
use crate::options;
use crate::outputs;
use crate::ports::{Metadata, Port};
use crate::values;

/// One ONNX model, ready to run at any shape, from any number of threads.
///
/// `model` is a path, a `file://` URL, a member of an archive (`zipfile.Path`, `importlib.resources.files`), the bytes
/// of a model (bytes, a bytearray or a memoryview) or a file that is open for reading bytes. For a model of bytes,
/// `external_data` may have the files that the model names: a dictionary from their locations in the model to buffers
/// (bytes, mmap, arrays). The buffers are read in place and must not change while the session lives.
///
/// `initializers` maps names of the model's initializers to arrays that replace them. Types and shapes must be the
/// same. The arrays are read in place.
///
/// All options are keywords. None means the default, which a `KILN_*` environment variable may set:
///
/// - `threads`: threads of one request, in a pool that sessions of the same number share; `pool`: a `kiln.Pool`
///   instead.
/// - `cache_dir`: the folder of records; `cache_mode`: "read-write", "read", "memory" or "off"; `cache_per_model`:
///   whether the model has a file of records of its own; `error_on_cache_miss`: whether it is an error to need an
///   executor without a record.
/// - `precision`: "f32", "bf16", "int8" or "int4"; `numerics`: "default", "precise", "strict" or "invariant";
///   `max_isa`: "portable", "avx2" or "avx512".
/// - `pack`: "off" or "auto". With "auto", a packed model is written beside the records after the load, and the next
///   load maps it; `pack_bytes`: most bytes of packed models there; `pack_verify`: when their data is compared with its
///   digests: "once", at "each" load, or "never". If `model` is the path of a packed model, that file is loaded.
/// - `tune`: "off", "fast" or "full"; `rehearse`: whether plans of known shapes are made while the model loads.
/// - `profile`: whether times by node are kept; `taps`: names of inner values that are also returned as outputs.
/// - `memory_bytes`: most bytes of tensors at once; `buffer_bytes`: most free bytes kept between requests.
/// - `process_bytes`: most bytes that all sessions of the process may hold together, including weights and executors;
///   the lowest value of the live sessions and `KILN_PROCESS_BYTES` applies.
/// - `time_limit`, `load_time_limit`: most seconds of a request and of the loading.
/// - `remote`: a store of records that machines share, as a URL or an object with `get(name)`, which returns bytes or
///   None, and `put(name, bytes)`; `remote_read_only`: whether the session only reads from it.
///
/// In the examples `model` is y = relu(x), for x of n by 3.
///
/// >>> session = kiln.Session(model, threads=2)
/// >>> session
/// <kiln.Session (x) -> (y)>
/// >>> [y] = session.run(None, {"x": np.float32([[1, -2, 3]])})
/// >>> y
/// array([[1., 0., 3.]], dtype=float32)
#[pyclass(frozen, subclass, weakref, module = "kiln")]
pub(crate) struct Session {
    /// `None` once it was closed.
    session: Mutex<Option<Arc<kiln::Session>>>,
    /// How often its requests were called off.
    calls: Arc<AtomicU64>,
    /// The model and the options, which a pickle holds.
    model: Model,
    options: Py<PyDict>,
}

impl Session {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<kiln::Session>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone().ok_or_else(|| errors::error(py, "ClosedError", "the session was closed"))
    }

    /// The outputs that a request asks for, by place; `None` means all.
    fn wanted(py: Python<'_>, session: &kiln::Session, names: &Bound<'_, PyAny>) -> PyResult<Option<Vec<usize>>> {
        if names.is_none() {
            return Ok(None);
        }
        let ports = session.outputs();
        let place = |name: PyResult<Bound<'_, PyAny>>| {
            let name: String = name?.extract()?;
            let found = ports.iter().position(|port| port.name == name);
            found.ok_or_else(|| errors::no_output(py, session, &name))
        };
        let wanted: Vec<usize> = names.try_iter()?.map(place).collect::<PyResult<_>>()?;
        Ok((!wanted.is_empty()).then_some(wanted))
    }

    /// The inputs that a request gives, by name.
    fn given(py: Python<'_>, session: &kiln::Session, inputs: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Value)>> {
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
        Ok(given)
    }

    fn serve(
        &self,
        py: Python<'_>,
        session: &kiln::Session,
        inputs: &[(String, Value)],
        lent: outputs::Lent<'_>,
        limit: &RunLimit<'_>,
    ) -> PyResult<Vec<(String, Value)>> {
        let watch = Watch::new(&self.calls, limit.cancel);
        let time_limit = limit.seconds.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
        let options = RunOptions { time_limit, cancel: Some(watch.cancel()), ..RunOptions::default() };
        let inputs: Vec<(&str, Value)> = inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let over: Vec<(&str, &str)> = lent.over.iter().map(|(input, output)| (input.as_str(), *output)).collect();
        let result = py.detach(|| session.run_over(&inputs, lent.memory, &over, &options));
        result.map_err(|error| watch.raised().unwrap_or_else(|| errors::session(py, &error)))
    }

    /// The outputs or the error of each request.
    ///
    /// # Errors
    ///
    /// The exception of a signal's handler, which ends all requests.
    fn serve_many(
        &self,
        py: Python<'_>,
        session: &kiln::Session,
        requests: &[Vec<(String, Value)>],
        limit: &RunLimit<'_>,
    ) -> PyResult<Vec<PyResult<Vec<Value>>>> {
        let watch = Watch::new(&self.calls, limit.cancel);
        let time_limit = limit.seconds.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
        let options = RunOptions { time_limit, cancel: Some(watch.cancel()), ..RunOptions::default() };
        let requests: Vec<Vec<(&str, Value)>> = requests
            .iter()
            .map(|inputs| inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect())
            .collect();
        let results = py.detach(|| session.run_many_values(&requests, &options));
        if let Some(raised) = watch.raised() {
            return Err(raised);
        }
        let values = |outputs: Vec<(String, Value)>| outputs.into_iter().map(|(_, value)| value).collect();
        let made =
            |result: Result<_, kiln::SessionError>| result.map(values).map_err(|error| errors::session(py, &error));
        Ok(results.into_iter().map(made).collect())
    }
}

/// The wanted outputs of a request as arrays: existing arrays, and others made from values.
fn give<'py>(
    py: Python<'py>,
    session: &kiln::Session,
    mut made: Vec<Option<Value>>,
    mut arrays: Vec<Option<Bound<'py, PyAny>>>,
    wanted: Option<Vec<usize>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for place in wanted.unwrap_or_else(|| (0..made.len()).collect()) {
        // A name that is asked for twice is one array.
        if let Some(value) = made[place].take() {
            let owned = match value {
                Value::Tensor(tensor) => session.owned(tensor).map(Value::Tensor),
                other => Ok(other),
            };
            let owned = owned.map_err(|error| errors::output(py, &session.outputs()[place].name, error))?;
            arrays[place] = Some(values::give(py, owned)?);
        }
        list.append(&arrays[place])?;
    }
    Ok(list)
}

/// The time limit and the cancel of one request.
struct RunLimit<'a> {
    seconds: Option<f64>,
    cancel: Option<&'a Cancel>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // Dropping it saves records and gives memory back.
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
        signature = (model, *, external_data=None, initializers=None, **options),
        text_signature = "(model, *, external_data=None, initializers=None, threads=None, pool=None, cache_dir=None, \
            cache_mode=None, cache_per_model=None, precision=None, numerics=None, max_isa=None, tune=None, \
            pack=None, pack_verify=None, pack_bytes=None, rehearse=None, profile=None, error_on_cache_miss=None, \
            memory_bytes=None, process_bytes=None, buffer_bytes=None, time_limit=None, load_time_limit=None, \
            taps=None, remote=None, remote_read_only=None)"
    )]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        external_data: Option<&Bound<'_, PyDict>>,
        initializers: Option<&Bound<'_, PyDict>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Session> {
        let kept = PyDict::new(py);
        for (name, value) in options.into_iter().flatten() {
            if !value.is_none() && name.str()? != "pool" {
                kept.set_item(name, value)?;
            }
        }
        let model = Model::of(model)?;
        let mut external = external_data.map(models::external).transpose()?;
        if let Some(initializers) = initializers {
            models::replace(initializers, external.get_or_insert_default())?;
            kept.set_item("initializers", initializers.copy()?)?;
        }
        if let Some(files) = external_data {
            // A copy, because the caller may add to the dictionary later.
            kept.set_item("external_data", files.copy()?)?;
        }
        if options.is_some_and(|options| options.get_item("alias").is_ok_and(|alias| alias.is_some())) {
            return Err(errors::option(py, "alias", "it is for kiln.Decoder: a session gives all outputs back"));
        }
        let calls = Arc::default();
        let watch = Watch::new(&calls, None);
        let mut options = options::parse(py, options)?;
        options.load_cancel = Some(watch.cancel());
        let loaded = match (&model, external) {
            (Model::Path(_), Some(_)) if external_data.is_some() => {
                return Err(errors::option(py, "external_data", "a model that is a path has its files beside it"));
            }
            (Model::Path(path), Some(external)) => py.detach(|| kiln::Session::load_with(path, external, &options)),
            (Model::Path(path), None) => py.detach(|| kiln::Session::load(path, &options)),
            (Model::Bytes(bytes), external) => {
                let bytes = models::shared(bytes.bind(py));
                match external {
                    Some(external) => py.detach(|| kiln::Session::load_bytes_with(bytes, external, &options)),
                    None => py.detach(|| kiln::Session::load_bytes(bytes.into(), &options)),
                }
            }
            (Model::Member(member), external) => {
                let mut external = external.unwrap_or_default();
                member.lend_files(py, &mut external);
                let bytes = member.model(py)?;
                py.detach(|| kiln::Session::load_bytes_with(bytes, external, &options))
            }
        };
        let session = loaded.map_err(|error| watch.raised().unwrap_or_else(|| errors::session(py, &error)))?;
        Ok(Session { session: Mutex::new(Some(Arc::new(session))), calls, model, options: kept.unbind() })
    }

    /// Serves one request. Returns the outputs of these names, or all outputs for None, as a list of arrays.
    ///
    /// An input is anything that numpy can turn into an array. An array in C order is read in place and never written;
    /// no other code may write to it during the request. Outputs are writable and outlive the session. A sequence is a
    /// list, and an empty optional value is None. `time_limit` is in seconds, and `cancel` is a `kiln.Cancel`.
    ///
    /// `out` maps names of outputs to arrays that receive these outputs; `run` returns these arrays. The model computes
    /// directly in an array in C order. An output is copied to its array at the end if the array has another layout, if
    /// the request reads or writes the array's memory elsewhere, or if the model returns a value without computing it.
    /// An array that is also an input, whole and of the same shape, is updated in place by the node that makes the
    /// output, and by no other node; GroupQueryAttention updates its cache so. After a failed request, outputs may hold
    /// anything.
    ///
    /// >>> session = kiln.Session(model)
    /// >>> session.run(["y"], {"x": [[1, -2, 3], [-4, 5, -6]]})
    /// [array([[1., 0., 3.],
    ///        [0., 5., 0.]], dtype=float32)]
    /// >>> session.run(None, {"x": np.zeros((2, 4), np.float32)})
    /// Traceback (most recent call last):
    /// kiln._errors.InputError: input 'x': expected shape [n, 3], got [2, 4]
    /// >>> y = np.empty((1, 3), np.float32)
    /// >>> session.run(None, {"x": [[1, -2, 3]]}, out={"y": y})[0] is y
    /// True
    #[pyo3(signature = (output_names, inputs, *, out=None, time_limit=None, cancel=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        output_names: &Bound<'py, PyAny>,
        inputs: &Bound<'py, PyDict>,
        out: Option<&Bound<'py, PyDict>>,
        time_limit: Option<f64>,
        cancel: Option<&Bound<'py, Cancel>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let session = self.open(py)?;
        let wanted = Session::wanted(py, &session, output_names)?;
        let mut given = Session::given(py, &session, inputs)?;
        let limit = RunLimit { seconds: time_limit, cancel: cancel.map(|cancel| cancel.get()) };
        let mut lent = outputs::Lent::default();
        let bound = out.map(|out| outputs::bind(&session, out, &mut given, &mut lent)).transpose()?;
        let served = self.serve(py, &session, &given, lent, &limit)?;
        // Dropped, so that an output that is one of the inputs does not count as shared.
        drop(given);
        let mut made: Vec<Option<Value>> = served.into_iter().map(|(_, value)| Some(value)).collect();
        let mut arrays: Vec<Option<Bound<'py, PyAny>>> = vec![None; made.len()];
        for binding in bound.into_iter().flatten() {
            let place = binding.place;
            arrays[place] = made[place].take().map(|value| binding.fill(&session, value)).transpose()?;
        }
        give(py, &session, made, arrays, wanted)
    }

    /// Serves requests of any shapes side by side, each on one of the session's threads, longest first. Returns a list
    /// with the result of `run` for each dictionary in `requests`, in their order. Nothing is padded, and outputs have
    /// the same bits as those of `run`.
    ///
    /// The error of the first request that fails is raised when all requests have ended. With `return_exceptions`, the
    /// list has each error in place of the request's outputs. `time_limit`, in seconds, and `cancel` apply to all
    /// requests together.
    ///
    /// >>> session = kiln.Session(model)
    /// >>> requests = [{"x": np.ones((rows, 3), np.float32)} for rows in (2, 1, 5)]
    /// >>> [y.shape for [y] in session.run_many(None, requests)]
    /// [(2, 3), (1, 3), (5, 3)]
    /// >>> session.run_many(["y"], [{"x": [[-1, 0, 1]]}, {"z": [[1, 2, 3]]}], return_exceptions=True)
    /// [[array([[0., 0., 1.]], dtype=float32)], InputError("input 'z': the model has no such input; it has x")]
    #[pyo3(signature = (output_names, requests, *, return_exceptions=false, time_limit=None, cancel=None))]
    fn run_many<'py>(
        &self,
        py: Python<'py>,
        output_names: &Bound<'py, PyAny>,
        requests: &Bound<'py, PyAny>,
        return_exceptions: bool,
        time_limit: Option<f64>,
        cancel: Option<&Bound<'py, Cancel>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let session = self.open(py)?;
        let wanted = Session::wanted(py, &session, output_names)?;
        let mut refused = Vec::new();
        let mut given: Vec<Vec<(String, Value)>> = Vec::new();
        for inputs in requests.try_iter()? {
            let taken = inputs?.cast::<PyDict>().map_err(PyErr::from).and_then(|it| Session::given(py, &session, it));
            match taken {
                Ok(inputs) => given.push(inputs),
                Err(error) if return_exceptions && errors::is_ordinary(py, &error) => {
                    refused.push(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            }
            refused.push(None);
        }
        let limit = RunLimit { seconds: time_limit, cancel: cancel.map(|cancel| cancel.get()) };
        let mut served = self.serve_many(py, &session, &given, &limit)?.into_iter();
        drop(given);
        let list = PyList::empty(py);
        for refused in refused {
            // A refused request was not served.
            let made = match refused {
                Some(error) => Err(error),
                None => served.next().unwrap_or_else(|| Ok(Vec::new())),
            };
            let arrays = made.and_then(|values| {
                let made: Vec<Option<Value>> = values.into_iter().map(Some).collect();
                let arrays = vec![None; made.len()];
                give(py, &session, made, arrays, wanted.clone())
            });
            match arrays {
                Ok(arrays) => list.append(arrays)?,
                Err(error) if return_exceptions && errors::is_ordinary(py, &error) => list.append(error.value(py))?,
                Err(error) => return Err(error),
            }
        }
        Ok(list)
    }

    /// The seconds that `requests` requests of these inputs take without Python, for benches to compare `run` with.
    fn _seconds_in_rust(&self, py: Python<'_>, inputs: &Bound<'_, PyDict>, requests: u32) -> PyResult<f64> {
        let session = self.open(py)?;
        let given = Session::given(py, &session, inputs)?;
        let inputs: Vec<(&str, Value)> = given.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let options = RunOptions::default();
        let took = py.detach(|| {
            let begun = Instant::now();
            (0..requests).try_for_each(|_| session.run_values_with(&inputs, &options).map(drop))?;
            Ok(begun.elapsed())
        });
        took.map(|took| took.as_secs_f64()).map_err(|error: kiln::SessionError| errors::session(py, &error))
    }

    /// The inputs that a request gives, in the model's order.
    ///
    /// >>> [(port.name, port.dtype, port.shape) for port in kiln.Session(model).inputs]
    /// [('x', 'float32', ('n', 3))]
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<Port>> {
        Ok(self.open(py)?.inputs().iter().map(Port::new).collect())
    }

    /// The outputs that a request gets, in the model's order.
    ///
    /// >>> [port.name for port in kiln.Session(model).outputs]
    /// ['y']
    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<Port>> {
        Ok(self.open(py)?.outputs().iter().map(Port::new).collect())
    }

    /// The model's metadata.
    ///
    /// >>> kiln.Session(model).metadata.graph_name
    /// 'graph'
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<Metadata> {
        Metadata::new(py, self.open(py)?.metadata())
    }

    /// Whether the session was closed.
    ///
    /// >>> session = kiln.Session(model)
    /// >>> session.close()
    /// >>> session.closed
    /// True
    #[getter]
    fn closed(&self) -> bool {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Executors that were rebuilt from records before the first request.
    ///
    /// >>> kiln.Session(model, cache_mode="memory").warmed
    /// 0
    #[getter]
    fn warmed(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open(py)?.warmed())
    }

    /// Whether the weights are those of a packed model, mapped and shared with other processes.
    ///
    /// >>> kiln.Session(model, cache_mode="memory").packed
    /// False
    #[getter]
    fn packed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.open(py)?.is_packed())
    }

    /// Counters of the cache, the plans, the records, and this session's use of the cache.
    ///
    /// >>> session = kiln.Session(model, cache_mode="memory")
    /// >>> session.warm({"x": (8, 3)})
    /// 1
    /// >>> session.stats()["session"]["misses"]
    /// 1
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let session = self.open(py)?;
        stats(py, &session)
    }

    /// Times by node, if the session was made with `profile=True`.
    ///
    /// >>> session = kiln.Session(model, profile=True)
    /// >>> session.warm({"x": (8, 3)})
    /// 1
    /// >>> [(row["op"], row["calls"]) for row in session.profile()]
    /// [('Relu', 1)]
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

    /// Writes the records of the choices so far to the session's own file, or to `path`. Returns how many records the
    /// file then has.
    ///
    /// >>> session = kiln.Session(model)
    /// >>> session.warm([{"x": (8, 3)}, {"x": (9, 3)}])
    /// 2
    /// >>> session.save_records("records.kiln") > 0
    /// True
    #[pyo3(signature = (path=None))]
    fn save_records(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<u64> {
        let session = self.open(py)?;
        let save = |path: Option<&Path>| match path {
            None => session.save_records().map_err(CacheError::from),
            Some(path) => session.save_cache(path, CacheKind::All),
        };
        let report = py.detach(|| save(path.as_deref()));
        report.map(|report| report.written).map_err(|error| errors::cache(py, &error))
    }

    /// Takes over the records of a file that are new or better than the session's. Returns their number.
    ///
    /// >>> first = kiln.Session(model, cache_mode="memory")
    /// >>> first.warm({"x": (8, 3)})
    /// 1
    /// >>> _ = first.save_records("records.kiln")
    /// >>> second = kiln.Session(model, cache_mode="memory")
    /// >>> second.load_records("records.kiln") > 0
    /// True
    fn load_records(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let session = self.open(py)?;
        let report = py.detach(|| session.load_cache(&path, CacheKind::All));
        report.map(|report| report.taken).map_err(|error| errors::cache(py, &error))
    }

    /// Writes records of one kind, or the packed model, to that file. The kind is "cpu", "cudnn", "cublaslt" or
    /// "chains" for records, "all" for all records, and "fusion" for the packed model of the file that the session was
    /// loaded from. Returns how many records the file then has, or 1 for a packed model.
    ///
    /// >>> session = kiln.Session(model, cache_mode="memory")
    /// >>> session.warm({"x": (8, 3)})
    /// 1
    /// >>> session.save_cache("cpu.kiln", "cpu") > 0
    /// True
    #[pyo3(signature = (path, kind="all"))]
    fn save_cache(&self, py: Python<'_>, path: PathBuf, kind: &str) -> PyResult<u64> {
        let (session, kind) = (self.open(py)?, kind_of(py, kind)?);
        let report = py.detach(|| session.save_cache(&path, kind));
        report.map(|report| report.written).map_err(|error| errors::cache(py, &error))
    }

    /// Takes over the records of one kind from a file that are new or better than the session's. Returns their number.
    /// With the kind "fusion", the file is a packed model of the session's model, and later sessions of that model with
    /// the same options are loaded from it.
    ///
    /// >>> first = kiln.Session(model, cache_mode="memory")
    /// >>> first.warm({"x": (8, 3)})
    /// 1
    /// >>> _ = first.save_cache("all.kiln")
    /// >>> second = kiln.Session(model, cache_mode="memory")
    /// >>> second.load_cache("all.kiln", "cpu") > 0
    /// True
    #[pyo3(signature = (path, kind="all"))]
    fn load_cache(&self, py: Python<'_>, path: PathBuf, kind: &str) -> PyResult<u64> {
        let (session, kind) = (self.open(py)?, kind_of(py, kind)?);
        let report = py.detach(|| session.load_cache(&path, kind));
        report.map(|report| report.taken).map_err(|error| errors::cache(py, &error))
    }

    /// Puts the records of the choices so far into the store of the option `remote` now, and waits until that is done.
    /// Without this call, they are put there after some seconds, and when the session is closed. `timeout` is in
    /// seconds.
    ///
    /// >>> class Shared(dict):
    /// ...     def put(self, name, data):
    /// ...         self[name] = data
    /// >>> store = Shared()                      # a dictionary's get is what it takes
    /// >>> session = kiln.Session(model, remote=store)
    /// >>> session.warm({"x": (8, 3)})
    /// 1
    /// >>> session.publish()
    /// >>> len(store)
    /// 1
    #[pyo3(signature = (timeout=10.0))]
    fn publish(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let session = self.open(py)?;
        let patience = options::seconds(py, "timeout", timeout)?;
        let published = py.detach(|| session.publish(patience));
        published.map_err(|error| errors::error(py, "RecordsError", error.to_string()))
    }

    /// Serves a request of zeros for each mapping of inputs to shapes. Later requests of those shapes build nothing.
    ///
    /// >>> kiln.Session(model).warm([{"x": (1, 3)}, {"x": (64, 3)}])
    /// 2
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
            self.serve(py, &session, &inputs, outputs::Lent::default(), &RunLimit { seconds: None, cancel: None })?;
        }
        Ok(each.len())
    }

    /// Ends every running request of this session. Later requests are not affected.
    ///
    /// >>> kiln.Session(model).cancel()          # usually from another thread
    fn cancel(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives memory that no request uses back to the system.
    ///
    /// >>> kiln.Session(model).trim()
    fn trim(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.open(py)?;
        py.detach(|| session.trim());
        Ok(())
    }

    /// Closes the session. Running requests continue; after the last one the records are saved and the model is freed.
    /// Outputs stay valid.
    ///
    /// >>> with kiln.Session(model) as session:  # closes it at the end
    /// ...     [y] = session.run(None, {"x": np.ones((1, 3), np.float32)})
    /// >>> y.sum()
    /// np.float32(3.0)
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
        let (model, options) = this.model.picklable(py, this.options.bind(py))?;
        Ok((reopen, (slf.get_type(), model, options)))
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

/// A session of that class from a pickle's model and options.
#[pyfunction]
pub(crate) fn reopen<'py>(
    kind: &Bound<'py, PyType>,
    model: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    kind.call((model,), Some(options))
}

/// The kind of that name.
fn kind_of(py: Python<'_>, name: &str) -> PyResult<CacheKind> {
    name.parse().map_err(|error: kiln::session::UnknownKind| errors::option(py, "kind", error))
}

/// The counters of `Session.stats`.
pub(crate) fn stats<'py>(py: Python<'py>, session: &kiln::Session) -> PyResult<Bound<'py, PyDict>> {
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
        ("remote_gets", of.remote_gets),
        ("remote_puts", of.remote_puts),
        ("remote_taken", of.remote_taken),
        ("remote_failures", of.remote_failures),
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
        ("joined", of.joined),
    ];
    stats.set_item("session", counted(py, &counters)?)?;
    Ok(stats)
}

/// Counters by name.
fn counted<'py>(py: Python<'py>, counters: &[(&str, u64)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    counters.iter().try_for_each(|(name, count)| dict.set_item(name, count))?;
    Ok(dict)
}
