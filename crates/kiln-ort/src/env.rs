//! The environment: one for a process, counted.

use std::ffi::c_int;
use std::sync::{Arc, PoisonError};

use kiln::Threads;
use kiln_fork::Mutex;

use crate::error::{Error, Result, invalid};
use crate::keyvalue::Pairs;
use crate::log::{Log, SEVERITIES};
use crate::seam::callback::{Opaque, Sink};
use crate::seam::handle::kind;
use crate::seam::{Handle, LogFn, Memory, Out, Text, entry};
use crate::threading::Threading;

/// State that sessions of an environment share.
pub(crate) struct Env {
    pub(crate) log: Log,
    /// The pool that was requested when it was made.
    pub(crate) pool: Option<Threads>,
}

kind!(Env = "OrtEnv");

/// The environment of the process, with the number of callers that hold it.
static ENV: Mutex<Option<(Handle<Env>, usize)>> = Mutex::new(None);

/// The environment, for code that logs without a session.
static CURRENT: Mutex<Option<Arc<Env>>> = Mutex::new(None);

/// The environment of the process, if there is one.
pub(crate) fn current() -> Option<Arc<Env>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn set_current(env: Option<Arc<Env>>) {
    let before = std::mem::replace(&mut *CURRENT.lock().unwrap_or_else(PoisonError::into_inner), env);
    drop(before);
}

/// The arguments of a new environment.
struct Wish {
    sink: Option<Sink>,
    severity: c_int,
    id: Text,
    threading: Option<Arc<Threading>>,
}

impl Wish {
    /// The environment, made if there is none. If there is one, these arguments are ignored, as in onnxruntime.
    fn grant(self) -> Result<Handle<Env>> {
        let mut env = ENV.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((handle, count)) = env.as_mut() {
            *count += 1;
            return Ok(*handle);
        }
        if !SEVERITIES.contains(&self.severity) {
            return Err(invalid!("log severity {} is not known", self.severity));
        }
        let pool = self.threading.map(|threading| threading.pool()).transpose()?;
        let log = Log::new(self.sink, self.id.lossy(), self.severity);
        let made = Arc::new(Env { log, pool });
        let handle = Handle::of(made.clone())?;
        set_current(Some(made));
        *env = Some((handle, 1));
        Ok(handle)
    }
}

/// A caller's logger, which must be there.
fn sink(call: LogFn, parameter: Memory) -> Result<Option<Sink>> {
    Sink::of(call, Opaque(parameter.raw())).map(Some).ok_or_else(|| Error::null("logging_function"))
}

/// The fields of `OrtEnvCreationOptions` that version 24 has.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Wishes {
    version: u32,
    severity: i32,
    id: Text,
    logger: LogFn,
    parameter: Memory,
    threading: Handle<Threading>,
    entries: Handle<Pairs>,
}

entry! {
    fn CreateEnv(severity: c_int, id: Text, out: Out<Handle<Env>>) {
        let out = out.place("out")?;
        out.put(Wish { sink: None, severity, id, threading: None }.grant()?);
        Ok(())
    }

    fn CreateEnvWithCustomLogger(
        logger: LogFn,
        parameter: Memory,
        severity: c_int,
        id: Text,
        out: Out<Handle<Env>>,
    ) {
        let out = out.place("out")?;
        out.put(Wish { sink: sink(logger, parameter)?, severity, id, threading: None }.grant()?);
        Ok(())
    }

    fn CreateEnvWithGlobalThreadPools(
        severity: c_int,
        id: Text,
        threading: Handle<Threading>,
        out: Out<Handle<Env>>,
    ) {
        let out = out.place("out")?;
        let threading = Some(threading.get("tp_options")?);
        out.put(Wish { sink: None, severity, id, threading }.grant()?);
        Ok(())
    }

    fn CreateEnvWithCustomLoggerAndGlobalThreadPools(
        logger: LogFn,
        parameter: Memory,
        severity: c_int,
        id: Text,
        threading: Handle<Threading>,
        out: Out<Handle<Env>>,
    ) {
        let out = out.place("out")?;
        let threading = Some(threading.get("tp_options")?);
        out.put(Wish { sink: sink(logger, parameter)?, severity, id, threading }.grant()?);
        Ok(())
    }

    fn CreateEnvWithOptions(wishes: Out<Wishes>, out: Out<Handle<Env>>) {
        let out = out.place("out")?;
        let wishes = wishes.place("options")?.get();
        if wishes.version < 24 {
            return Err(invalid!("the options say version {}; they exist since version 24", wishes.version));
        }
        let sink = Sink::of(wishes.logger, Opaque(wishes.parameter.raw()));
        let threading = wishes.threading.optional("threading_options")?;
        let _ = wishes.entries.optional("config_entries")?;
        out.put(Wish { sink, severity: wishes.severity, id: wishes.id, threading }.grant()?);
        Ok(())
    }

    fn ReleaseEnv(env: Handle<Env>) -> (), else () => {
        let mut own = ENV.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((handle, count)) = own.as_mut()
            && handle.address() == env.address()
        {
            *count -= 1;
            if *count == 0 {
                *own = None;
                set_current(None);
                drop(env.release());
            }
        }
    }

    fn EnableTelemetryEvents(env: Handle<Env>) {
        env.get("env").map(drop)
    }

    fn DisableTelemetryEvents(env: Handle<Env>) {
        env.get("env").map(drop)
    }

    fn SetLanguageProjection(env: Handle<Env>, projection: c_int) {
        let _ = env.get("ort_env")?;
        if (0..=6).contains(&projection) { Ok(()) } else { Err(invalid!("language projection {projection} is not known")) }
    }

    fn UpdateEnvWithCustomLogLevel(env: Handle<Env>, severity: c_int) {
        let env = env.get("ort_env")?;
        if !SEVERITIES.contains(&severity) {
            return Err(invalid!("log severity {severity} is not known"));
        }
        env.log.set_least(severity);
        Ok(())
    }
}
