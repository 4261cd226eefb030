//! Warnings on standard error, if `KILN_VERBOSE` includes errors: errors that fail no request, such as records that
//! could not be read or saved. The library reports them through `tracing`; this is the whole subscriber.

use std::fmt::{Debug, Write as _};
use std::io::Write as _;

use kiln_knobs::Knobs;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Starts printing, if the environment asks for it. A malformed environment is reported by the code that uses it.
pub(crate) fn print_if_wanted() {
    if Knobs::from_env().is_ok_and(|knobs| knobs.verbose.error) {
        // Fails only if there is a subscriber already.
        let _ = tracing::subscriber::set_global_default(Printer);
    }
}

struct Printer;

impl Subscriber for Printer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        // A closed standard error does not matter here.
        let _ = writeln!(std::io::stderr(), "kiln: warning: {}{}", line.message, line.fields);
    }

    // Spans are not shown, so they need no identity.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event in words: its message, then its other fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "; {name}: {value:?}"),
        };
    }
}
