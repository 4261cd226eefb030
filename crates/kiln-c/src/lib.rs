//! Kiln's own C interface: records, warming, cancelling, limits and statistics, which onnxruntime's interface lacks.
//!
#![doc = include_str!("../README.md")]
//!
//! # How it is made
//!
//! Each function of `include/kiln.h` is one here. Handles are numbers that are looked up, never pointers to
//! [`KilnSession`] and the other types, so pointers lead only to the caller's memory. It is read and written in `seam`,
//! which has all unsafe operations of the crate. Functions are `unsafe` for their callers, who must fulfil the header's
//! requirements.

#![allow(clippy::missing_safety_doc, reason = "what callers promise of pointers stands once, at the head of kiln.h")]

mod dtype;
mod error;
mod handle;
mod options;
mod port;
mod records;
mod run;
mod run_options;
mod seam;
mod session;
mod statistics;
mod status;

pub use dtype::*;
pub use error::KilnCode;
pub use options::{KilnOptions, kiln_options_new, kiln_options_release, kiln_options_set};
pub use port::{KilnKind, KilnPort};
pub use records::{
    kiln_pack, kiln_session_load_records, kiln_session_save_records, kiln_session_trim, kiln_session_warm,
};
pub use run::{KilnInput, KilnOutput, kiln_session_run};
pub use run_options::{
    KilnRunOptions, kiln_run_options_cancel, kiln_run_options_new, kiln_run_options_release, kiln_run_options_reset,
    kiln_run_options_set_time_limit,
};
pub use session::{
    KilnSession, kiln_session_input, kiln_session_input_count, kiln_session_load, kiln_session_load_bytes,
    kiln_session_output, kiln_session_output_count, kiln_session_release,
};
pub use statistics::{KilnMemory, KilnStatistics, kiln_process_memory, kiln_session_statistics};
pub use status::{KilnStatus, kiln_status_code, kiln_status_message, kiln_status_release, kiln_version};
