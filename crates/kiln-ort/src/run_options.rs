//! Options of a run.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use kiln_fork::Mutex;

use crate::adapter::Lora;
use crate::error::{Error, Result, invalid};
use crate::log::SEVERITIES;
use crate::options::config_entry;
use crate::seam::c_text;
use crate::seam::handle::kind;
use crate::seam::{Handle, Out, Text, entry};

/// `OrtRunOptions`, which several runs may use at once.
pub(crate) struct RunSettings {
    says: Mutex<Says>,
    /// Whether its runs should end, now and later, until the caller resets it.
    terminated: Arc<AtomicBool>,
}

kind!(RunSettings = "OrtRunOptions");

struct Says {
    /// In the order in which they were added.
    adapters: Vec<Arc<Lora>>,
    verbosity: c_int,
    severity: c_int,
    tag: CString,
    entries: BTreeMap<CString, CString>,
}

/// The key that asks for memory to be freed after a run.
const SHRINK: &std::ffi::CStr = c"memory.enable_memory_arena_shrinkage";

impl RunSettings {
    fn with<T>(&self, what: impl FnOnce(&mut Says) -> T) -> T {
        what(&mut self.says.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Kiln's options.
    pub(crate) fn kiln(&self) -> kiln::RunOptions {
        let flag = self.terminated.clone();
        let cancel = kiln::Cancel::asking(move || flag.load(Ordering::Relaxed));
        kiln::RunOptions { cancel: Some(cancel), ..kiln::RunOptions::default() }
    }

    /// Has later runs take the adapter's tensors in place of their inputs.
    pub(crate) fn activate(&self, adapter: Arc<Lora>) {
        self.with(|says| says.adapters.push(adapter));
    }

    /// The adapters of a run. Tensors of later ones take the place of earlier ones of the same name.
    pub(crate) fn adapters(&self) -> Vec<Arc<Lora>> {
        self.with(|says| says.adapters.clone())
    }

    /// Whether memory should be freed after the run.
    pub(crate) fn shrinks(&self) -> bool {
        self.with(|says| says.entries.get(SHRINK).is_some_and(|value| !value.is_empty()))
    }
}

fn get(options: Handle<RunSettings>) -> Result<Arc<RunSettings>> {
    options.get("options")
}

entry! {
    fn CreateRunOptions(out: Out<Handle<RunSettings>>) {
        let out = out.place("out")?;
        let (adapters, entries) = (Vec::new(), BTreeMap::new());
        let says = Says { adapters, verbosity: 0, severity: 2, tag: CString::default(), entries };
        out.put(Handle::new(RunSettings { says: Mutex::new(says), terminated: Arc::default() })?);
        Ok(())
    }

    fn RunOptionsSetRunLogVerbosityLevel(options: Handle<RunSettings>, level: c_int) {
        get(options)?.with(|says| says.verbosity = level);
        Ok(())
    }

    fn RunOptionsSetRunLogSeverityLevel(options: Handle<RunSettings>, severity: c_int) {
        let options = get(options)?;
        if severity != -1 && !SEVERITIES.contains(&severity) {
            return Err(invalid!("log severity {severity} is not known"));
        }
        options.with(|says| says.severity = severity);
        Ok(())
    }

    fn RunOptionsSetRunTag(options: Handle<RunSettings>, tag: Text) {
        let options = get(options)?;
        let tag = if tag.is_null() { CString::default() } else { c_text(&tag.read("run_tag")?) };
        options.with(|says| says.tag = tag);
        Ok(())
    }

    fn RunOptionsGetRunLogVerbosityLevel(options: Handle<RunSettings>, out: Out<c_int>) {
        let out = out.place("log_verbosity_level")?;
        out.put(get(options)?.with(|says| says.verbosity));
        Ok(())
    }

    fn RunOptionsGetRunLogSeverityLevel(options: Handle<RunSettings>, out: Out<c_int>) {
        let out = out.place("log_severity_level")?;
        out.put(get(options)?.with(|says| says.severity));
        Ok(())
    }

    fn RunOptionsGetRunTag(options: Handle<RunSettings>, out: Out<Text>) {
        let out = out.place("run_tag")?;
        // The text lives until the tag is set anew or the options are released.
        get(options)?.with(|says| out.put(Text::within(&says.tag)));
        Ok(())
    }

    fn RunOptionsSetTerminate(options: Handle<RunSettings>) {
        get(options)?.terminated.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn RunOptionsUnsetTerminate(options: Handle<RunSettings>) {
        get(options)?.terminated.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn AddRunConfigEntry(options: Handle<RunSettings>, key: Text, value: Text) {
        let options = get(options)?;
        let (key, value) = config_entry(key, value)?;
        options.with(|says| says.entries.insert(c_text(&key), c_text(&value)));
        Ok(())
    }

    fn GetRunConfigEntry(options: Handle<RunSettings>, key: Text) -> Text, else Text::NULL => {
        let Some(options) = options.live() else { return Text::NULL };
        let key = c_text(&key.lossy());
        // The text lives until the entry is set anew or the options are released.
        options.with(|says| says.entries.get(&key).map_or(Text::NULL, |value| Text::within(value)))
    }

    fn RunOptionsEnableProfiling(options: Handle<RunSettings>, prefix: Text) {
        let _: (_, PathBuf) = (get(options)?, prefix.path("profile_file_prefix")?);
        Err(Error::not_implemented("RunOptionsEnableProfiling"))
    }

    fn RunOptionsDisableProfiling(options: Handle<RunSettings>) {
        get(options).map(drop)
    }

    /// The options keep the tensors, also after the adapter's release.
    fn RunOptionsAddActiveLoraAdapter(options: Handle<RunSettings>, adapter: Handle<Lora>) {
        get(options)?.activate(adapter.get("adapter")?);
        Ok(())
    }

    fn ReleaseRunOptions(options: Handle<RunSettings>) -> (), else () => {
        drop(options.release());
    }
}
