//! Options of sessions: settings by key and value.

use std::collections::BTreeMap;
use std::ffi::{OsString, c_char};
use std::sync::PoisonError;
use std::time::Duration;

use kiln::session::taps::nearest;
use kiln::{Knobs, SessionOptions};
use kiln_fork::Mutex;
use kiln_knobs::{ByteSize, KNOBS};

use crate::error::{Result, invalid};
use crate::handle::{self, kind};
use crate::seam;
use crate::status::{KilnStatus, guard, guard_or};

/// Settings of sessions. A session copies them when it is loaded.
pub struct KilnOptions {
    /// Values by key, in lower case and without `kiln_`.
    said: Mutex<BTreeMap<&'static str, String>>,
}

kind!(KilnOptions = "KilnOptions");

/// Variables that are settings of a process, or of features that builds of this library lack.
const NOT_OF_SESSIONS: [&str; 4] = ["KILN_GUARD", "KILN_REMOTE_USER", "KILN_REMOTE_PASSWORD", "KILN_CUDA_LIB_DIRS"];

/// A setting that is a field of [`SessionOptions`] but no variable.
struct Field {
    key: &'static str,
    allowed: &'static str,
    /// Sets it; `None` where the value is not allowed.
    set: fn(&str, &mut SessionOptions) -> Option<()>,
}

const FLAG: &str = "0 or 1";
const SECONDS: &str = "a number of seconds above 0, as in 0.5";
const BYTES: &str = "a number of bytes, KiB, MiB or GiB, as in 256MiB";

const FIELDS: &[Field] = &[
    Field { key: "buffer_bytes", allowed: BYTES, set: |text, to| bytes(text).map(|it| to.buffer_bytes = it) },
    Field { key: "cache_per_model", allowed: FLAG, set: |text, to| flag(text).map(|it| to.cache_per_model = it) },
    Field {
        key: "error_on_cache_miss",
        allowed: FLAG,
        set: |text, to| flag(text).map(|it| to.error_on_cache_miss = it),
    },
    Field {
        key: "load_time_limit",
        allowed: SECONDS,
        set: |text, to| parsed(text).map(|it| to.load_time_limit = Some(it)),
    },
    Field { key: "memory_bytes", allowed: BYTES, set: |text, to| bytes(text).map(|it| to.memory_bytes = it) },
    Field { key: "optimize", allowed: FLAG, set: |text, to| flag(text).map(|it| to.optimize = it) },
    Field { key: "pack_bytes", allowed: BYTES, set: |text, to| bytes(text).map(|it| to.pack_bytes = it as u64) },
    Field { key: "plan_bytes", allowed: BYTES, set: |text, to| bytes(text).map(|it| to.plan_limits.bytes = it) },
    Field { key: "prepare_memory", allowed: FLAG, set: |text, to| flag(text).map(|it| to.prepare_memory = it) },
    Field { key: "rehearse", allowed: FLAG, set: |text, to| flag(text).map(|it| to.rehearse = it) },
    Field { key: "time_limit", allowed: SECONDS, set: |text, to| parsed(text).map(|it| to.time_limit = Some(it)) },
    Field { key: "tune_budget", allowed: SECONDS, set: |text, to| parsed(text).map(|it| to.tune_budget = Some(it)) },
];

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn bytes(text: &str) -> Option<usize> {
    text.parse::<ByteSize>().ok().map(|size| size.0)
}

fn parsed(text: &str) -> Option<Duration> {
    text.parse().ok().and_then(seconds)
}

/// A time above zero.
pub(crate) fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok().filter(|time| !time.is_zero())
}

/// The variable of a key, with or without its `KILN_`, in upper or lower case.
fn variable(key: &str) -> Option<&'static str> {
    let name = key.to_ascii_uppercase();
    let name = name.strip_prefix("KILN_").unwrap_or(&name);
    let name = if name == "THREADS" { "NUM_THREADS" } else { name };
    let known = KNOBS.iter().find(|knob| knob.variable.strip_prefix("KILN_") == Some(name))?.variable;
    (!NOT_OF_SESSIONS.contains(&known)).then_some(known)
}

impl KilnOptions {
    /// Notes a setting; an empty value takes it back.
    ///
    /// # Errors
    ///
    /// For an unknown key, with the nearest known ones, and for an invalid value.
    fn set(&self, key: &str, value: &str) -> Result<()> {
        let known = if let Some(variable) = variable(key) {
            let given = |name: &str| (name == variable).then(|| OsString::from(value));
            Knobs::read(given).map_err(|error| invalid!("{key}={value}: expected {}", error.allowed))?;
            variable
        } else {
            let field = FIELDS.iter().find(|field| field.key == key).ok_or_else(|| {
                let variables = KNOBS.iter().filter_map(|knob| variable(knob.variable));
                let variables: Vec<String> = variables.map(|name| name["KILN_".len()..].to_ascii_lowercase()).collect();
                let known = variables.iter().map(String::as_str).chain(FIELDS.iter().map(|field| field.key));
                invalid!("there is no setting '{key}'; the nearest are {}", nearest(key, known).join(", "))
            })?;
            if !value.is_empty() {
                let set = (field.set)(value, &mut SessionOptions::default());
                set.ok_or_else(|| invalid!("{key}={value}: expected {}", field.allowed))?;
            }
            field.key
        };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if value.is_empty() {
            said.remove(known);
        } else {
            said.insert(known, value.to_owned());
        }
        Ok(())
    }

    /// Kiln's options: these settings, which win over the environment's variables.
    ///
    /// # Errors
    ///
    /// For an invalid value of an environment variable.
    pub(crate) fn kiln(&self) -> Result<SessionOptions> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let knobs = Knobs::from_env_after(|variable| said.get(variable).map(OsString::from));
        let mut options = SessionOptions::from_knobs(&knobs.map_err(|error| invalid!("{error}"))?);
        for field in FIELDS {
            let value = said.get(field.key);
            value.and_then(|value| (field.set)(value, &mut options));
        }
        Ok(options)
    }
}

/// Kiln's options of a caller that may have none: the environment's then.
pub(crate) fn of_caller(options: *const KilnOptions) -> Result<SessionOptions> {
    match handle::optional(options, "options")? {
        Some(options) => options.kiln(),
        None => KilnOptions { said: Mutex::default() }.kiln(),
    }
}

/// Makes options in which nothing is set: the KILN_* environment variables and the defaults apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_options_new(options: *mut *mut KilnOptions) -> *mut KilnStatus {
    guard("kiln_options_new", || {
        seam::put(options, std::ptr::null_mut(), "options")?;
        seam::put(options, handle::give(KilnOptions { said: Mutex::default() }), "options")
    })
}

/// Sets one option. A key is the name of an environment variable, as in "cache_dir" for KILN_CACHE_DIR ("threads" for
/// KILN_NUM_THREADS), or one of these: buffer_bytes, cache_per_model, error_on_cache_miss, load_time_limit,
/// memory_bytes, optimize, pack_bytes, plan_bytes, prepare_memory, rehearse, time_limit, tune_budget. Times are in
/// seconds. An empty value resets the option. An unknown key or an invalid value is KILN_CODE_INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_options_set(
    options: *mut KilnOptions,
    key: *const c_char,
    value: *const c_char,
) -> *mut KilnStatus {
    guard("kiln_options_set", || {
        let options = handle::get(options, "options")?;
        options.set(&seam::text(key, "key")?, &seam::text(value, "value")?)
    })
}

/// Releases options. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_options_release(options: *mut KilnOptions) {
    guard_or((), || handle::release(options));
}
