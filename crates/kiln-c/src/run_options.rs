//! Options of runs: a time limit, and cancelling from another thread.

use std::sync::PoisonError;

use kiln::{Cancel, RunOptions};
use kiln_fork::Mutex;

use crate::error::{Result, invalid};
use crate::handle::{self, kind};
use crate::options::seconds;
use crate::seam;
use crate::status::{KilnStatus, guard, guard_or};

/// Settings of runs. Several runs may share them at the same time.
pub struct KilnRunOptions {
    said: Mutex<RunOptions>,
}

kind!(KilnRunOptions = "KilnRunOptions");

impl KilnRunOptions {
    fn with<T>(&self, what: impl FnOnce(&mut RunOptions) -> T) -> T {
        what(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Kiln's options of a caller that may have none.
pub(crate) fn of_caller(options: *const KilnRunOptions) -> Result<RunOptions> {
    let options = handle::optional(options, "options")?;
    Ok(options.map(|options| options.with(|said| said.clone())).unwrap_or_default())
}

/// Makes options in which nothing is set: the session's time limit applies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_run_options_new(options: *mut *mut KilnRunOptions) -> *mut KilnStatus {
    guard("kiln_run_options_new", || {
        seam::put(options, std::ptr::null_mut(), "options")?;
        let said = RunOptions { cancel: Some(Cancel::new()), ..RunOptions::default() };
        seam::put(options, handle::give(KilnRunOptions { said: Mutex::new(said) }), "options")
    })
}

/// Sets the time limit of a run, in seconds above 0. It is checked before each node and within long kernels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_run_options_set_time_limit(options: *mut KilnRunOptions, limit: f64) -> *mut KilnStatus {
    guard("kiln_run_options_set_time_limit", || {
        let options = handle::get(options, "options")?;
        let limit = seconds(limit).ok_or_else(|| invalid!("limit is {limit}: expected a number of seconds above 0"))?;
        options.with(|said| said.time_limit = Some(limit));
        Ok(())
    })
}

/// Cancels every run that has these options. Later runs with them are also cancelled, until kiln_run_options_reset. A
/// cancelled run returns KILN_CODE_CANCELLED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_run_options_cancel(options: *mut KilnRunOptions) -> *mut KilnStatus {
    guard("kiln_run_options_cancel", || {
        handle::get(options, "options")?.with(|said| said.cancel.iter().for_each(Cancel::cancel));
        Ok(())
    })
}

/// Ends the effect of kiln_run_options_cancel for runs that begin later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_run_options_reset(options: *mut KilnRunOptions) -> *mut KilnStatus {
    guard("kiln_run_options_reset", || {
        handle::get(options, "options")?.with(|said| said.cancel = Some(Cancel::new()));
        Ok(())
    })
}

/// Releases options. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_run_options_release(options: *mut KilnRunOptions) {
    guard_or((), || handle::release(options));
}
