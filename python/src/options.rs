//! The options of a session, as Python gives them, and the pools of threads that sessions share.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kiln::{CacheMode, Isa, Pack, SessionOptions, Threads, Tune, Verify};
use kiln_run::record::RemotePolicy;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// Threads that sessions share: `kiln.Session(model, pool=kiln.Pool(4))`.
///
/// A request that finds the pool in use by another request computes on its caller's thread alone. Sessions without a
/// `pool` share pools of the process, one for each number of threads.
///
/// >>> pool = kiln.Pool(2)
/// >>> sessions = [kiln.Session(model, pool=pool) for _ in range(3)]
/// >>> pool
/// Pool(2)
#[pyclass(frozen, module = "kiln")]
pub(crate) struct Pool {
    pub(crate) threads: Threads,
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (threads=0))]
    fn new(py: Python<'_>, threads: usize) -> PyResult<Pool> {
        let made = py.detach(|| Threads::new(threads));
        made.map(|threads| Pool { threads }).map_err(|error| errors::option(py, "threads", error))
    }

    /// The number of threads, including the thread that calls a request.
    ///
    /// >>> kiln.Pool(2).threads
    /// 2
    #[getter]
    fn threads(&self) -> usize {
        kiln_kernels::Parallel::threads(&self.threads)
    }

    fn __repr__(&self) -> String {
        format!("Pool({})", self.threads())
    }
}

/// The process's pool of that many threads; 0 means one for each processor that it may use. A forked child has pools of
/// its own, because it has none of its parent's threads.
fn shared_pool(py: Python<'_>, count: usize) -> PyResult<Threads> {
    static POOLS: Mutex<Option<HashMap<(u32, usize), Threads>>> = Mutex::new(None);
    let count = if count == 0 { kiln_tensor::threads::available() } else { count };
    // Held together with the interpreter's lock, so that during a fork no other thread holds it.
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    let key = (std::process::id(), count);
    if let Some(pool) = pools.get(&key) {
        return Ok(pool.clone());
    }
    let pool = Threads::new(count).map_err(|error| errors::option(py, "threads", error))?;
    pools.insert(key, pool.clone());
    Ok(pool)
}

/// The options of a dictionary of keywords, which win over the environment's.
pub(crate) fn parse(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<SessionOptions> {
    let mut options =
        SessionOptions::from_env().map_err(|error| errors::error(py, "OptionError", error.to_string()))?;
    let (mut pool, mut remote, mut policy) = (None, None, RemotePolicy::default());
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if value.is_none() {
            continue;
        }
        let option = Given { py, name: &name, value: &value };
        match name.as_str() {
            "threads" => options.threads = option.read::<usize>()?,
            "pool" => pool = Some(option.cast::<Pool>()?.get().threads.clone()),
            "cache_dir" => options.cache_dir = Some(option.read::<PathBuf>()?),
            "cache_mode" => {
                let text: String = option.read()?;
                let names = || CacheMode::ALL.map(|(_, name)| name).join(", ");
                options.cache_mode = CacheMode::from_name(&text).ok_or_else(|| option.not_one_of(&text, &names()))?;
            }
            "remote" => remote = Some(crate::remote::open(py, &value)?),
            "remote_read_only" => policy.read_only = option.read()?,
            "cache_per_model" => options.cache_per_model = option.read()?,
            "precision" => options.precision = option.parse()?,
            "numerics" => options.numerics = option.parse()?,
            "max_isa" => {
                let text: String = option.read()?;
                let isa = Isa::from_name(&text);
                options.max_isa = Some(isa.ok_or_else(|| option.not_one_of(&text, "portable, avx2, avx512"))?);
            }
            "tune" => {
                let text: String = option.read()?;
                let found = Tune::ALL.into_iter().find(|tune| tune.name() == text);
                options.tune = found.ok_or_else(|| option.not_one_of(&text, "off, fast, full"))?;
            }
            "pack" => {
                let text: String = option.read()?;
                let found = Pack::ALL.into_iter().find(|pack| pack.name() == text);
                options.pack = found.ok_or_else(|| option.not_one_of(&text, "off, auto"))?;
            }
            "pack_verify" => {
                let text: String = option.read()?;
                let found = Verify::ALL.into_iter().find(|verify| verify.name() == text);
                options.pack_verify = found.ok_or_else(|| option.not_one_of(&text, "each, once, never"))?;
            }
            "pack_bytes" => options.pack_bytes = option.read()?,
            "rehearse" => options.rehearse = option.read()?,
            "profile" => options.profile = option.read()?,
            "error_on_cache_miss" => options.error_on_cache_miss = option.read()?,
            "memory_bytes" => options.memory_bytes = option.read()?,
            "process_bytes" => options.process_bytes = Some(option.read()?),
            "buffer_bytes" => options.buffer_bytes = option.read()?,
            "time_limit" => options.time_limit = Some(option.seconds()?),
            "load_time_limit" => options.load_time_limit = Some(option.seconds()?),
            "taps" => options.taps = option.read()?,
            "alias" => options.alias = option.read()?,
            _ => return Err(errors::option(py, &name, "there is no such option")),
        }
    }
    options.remote = remote.map(|remote| (remote, policy));
    options.pool = Some(match pool {
        Some(pool) => pool,
        None => shared_pool(py, options.threads)?,
    });
    Ok(options)
}

/// One option, with its name for errors.
struct Given<'a, 'py> {
    py: Python<'py>,
    name: &'a str,
    value: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> Given<'a, 'py> {
    fn read<T: for<'b> FromPyObject<'b, 'py>>(&self) -> PyResult<T> {
        let refused = |error: PyErr| errors::option(self.py, self.name, error);
        self.value.extract::<T>().map_err(|error| refused(error.into()))
    }

    fn cast<T: pyo3::PyTypeInfo>(&self) -> PyResult<&'a Bound<'py, T>> {
        self.value.cast::<T>().map_err(|error| errors::option(self.py, self.name, error))
    }

    fn parse<T: FromStr<Err: Display>>(&self) -> PyResult<T> {
        let text: String = self.read()?;
        text.parse().map_err(|error| errors::option(self.py, self.name, error))
    }

    fn seconds(&self) -> PyResult<Duration> {
        seconds(self.py, self.name, self.read()?)
    }

    fn not_one_of(&self, text: &str, names: &str) -> PyErr {
        errors::option(self.py, self.name, format!("'{text}' is none of {names}"))
    }
}

/// A time that is given in seconds.
pub(crate) fn seconds(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| errors::option(py, name, error))
}
