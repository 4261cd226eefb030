//! `--trace-out FILE` of the commands that run models: records a trace and writes it.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use kiln::session::{SessionOptions, Trace};

use crate::failure::{Outcome, WithCode};

/// The flag `--trace-out`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TraceOut {
    /// Write a time line to this file, as JSON for chrome://tracing or ui.perfetto.dev; slows requests a little
    #[arg(long = "trace-out", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl TraceOut {
    /// Records a trace in sessions with these options, if the flag is given.
    pub(crate) fn watch(&self, options: &mut SessionOptions) {
        options.trace = self.file.as_ref().map(|_| Arc::new(Trace::default()));
    }

    /// Writes the file, if the flag is given.
    pub(crate) fn write(&self, options: &SessionOptions) -> Outcome {
        let (Some(path), Some(trace)) = (&self.file, &options.trace) else { return Ok(()) };
        let write = || {
            let mut file = BufWriter::new(std::fs::File::create(path)?);
            trace.write(&mut file)?;
            file.flush()
        };
        write().usage(|| format!("--trace-out: cannot write {}", path.display()))
    }
}
