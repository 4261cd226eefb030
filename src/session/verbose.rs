//! One self-describing line for each executor creation and execution, after oneDNN's verbose mode.
//!
//! `kiln_verbose,v1,<what>,<family>,<implementation>,<node>,<inputs>:<outputs>,<fusions>,<milliseconds>` where `<what>`
//! is `create:cache_hit`, `create:cache_miss`, `create:record_hit`, `create:wait` or `exec`. Lines go to standard
//! error, so they never mix with a program's output.

use std::io::Write;
use std::time::Duration;

use kiln_cache::Outcome;
use kiln_kernels::Isa;
use kiln_run::StepEvent;
use kiln_tensor::TensorSpec;

/// Which lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbose {
    /// A line for each look-up.
    pub create: bool,
    /// A line for each execution of a node.
    pub exec: bool,
}

impl Verbose {
    /// Whether any line is written.
    #[must_use]
    pub fn any(self) -> bool {
        self.create || self.exec
    }

    pub(super) fn step(self, event: &StepEvent<'_>, isa: Isa) {
        let mut lines = String::new();
        if let Some(outcome) = event.outcome.filter(|_| self.create) {
            let what = match outcome {
                Outcome::Hit => "create:cache_hit",
                Outcome::Miss => "create:cache_miss",
                Outcome::RecordHit => "create:record_hit",
                Outcome::Waited => "create:wait",
            };
            lines.push_str(&line(what, event, isa, event.prepare));
        }
        if self.exec {
            lines.push_str(&line("exec", event, isa, event.execute));
        }
        // A closed standard error does not fail a request.
        let _ = std::io::stderr().write_all(lines.as_bytes());
    }
}

fn line(what: &str, event: &StepEvent<'_>, isa: Isa, time: Duration) -> String {
    let inputs: Vec<String> = event.inputs.iter().map(|spec| spec.as_ref().map_or("-".to_owned(), brief)).collect();
    let outputs: Vec<String> = event.outputs.iter().map(brief).collect();
    format!(
        "kiln_verbose,v1,{what},{},{}:{isa},{},{}:{},{},{:.6}\n",
        event.step.family(),
        if isa.is_jit() { "jit" } else { "ref" },
        event.step.name,
        inputs.join(" "),
        outputs.join(" "),
        event.step.fused,
        time.as_secs_f64() * 1e3,
    )
}

/// `float32[1x3x224x224]`
pub(super) fn brief(spec: &TensorSpec) -> String {
    let dims: Vec<String> = spec.shape.iter().map(usize::to_string).collect();
    format!("{}[{}]", spec.dtype, dims.join("x"))
}
