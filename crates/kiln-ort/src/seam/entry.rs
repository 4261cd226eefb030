//! The code around each entry: errors become statuses, and a panic never leaves the crate.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Code, Error, Result};
use crate::seam::{Failure, Status};

/// Runs an entry.
pub(crate) fn guard(name: &str, entry: impl FnOnce() -> Result<()>) -> Status {
    let result = catch_unwind(AssertUnwindSafe(entry)).unwrap_or_else(|panic| Err(fault(name, &*panic)));
    match result {
        Ok(()) => Status::NULL,
        Err(error) => Failure::status(error),
    }
}

/// Runs an entry that has no status to return.
pub(crate) fn guard_or<T>(nothing: T, entry: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(entry)).unwrap_or(nothing)
}

/// The error of a panic.
pub(crate) fn fault(name: &str, panic: &(dyn std::any::Any + Send)) -> Error {
    let what = panic.downcast_ref::<String>().map(String::as_str);
    let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Error::new(Code::Fail, format!("{name} met a fault of Kiln's own, please report it: {what}"))
}

/// Defines entries: functions with C's names and arguments, whose bodies return a [`Result`]. For an entry without a
/// status, its return type stands after `->`, and the value for a fault after `else`.
macro_rules! entry {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $gives:ty, else $nothing:expr =>)? $body:block)+) => {
        $($crate::seam::entry! { @one $(#[$doc])* $name ($($argument: $kind),*) $([$gives, $nothing])? $body })+
    };
    (@one $(#[$doc:meta])* $name:ident ($($argument:ident: $kind:ty),*) $body:block) => {
        $(#[$doc])*
        pub(crate) extern "C" fn $name($($argument: $kind),*) -> $crate::seam::Status {
            $crate::seam::guard(stringify!($name), move || $body)
        }
    };
    (@one $(#[$doc:meta])* $name:ident ($($argument:ident: $kind:ty),*) [$gives:ty, $nothing:expr] $body:block) => {
        $(#[$doc])*
        pub(crate) extern "C" fn $name($($argument: $kind),*) -> $gives {
            $crate::seam::entry::guard_or($nothing, move || $body)
        }
    };
}
pub(crate) use entry;
