//! `kiln serve`: models behind the Open Inference Protocol. The server is the crate `kiln-serve`; here are its
//! arguments and the loading of models.

#[cfg(feature = "generate")]
mod language;
mod loader;
mod log;
mod model;
mod room;
#[cfg(feature = "generate")]
mod turns;

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use kiln::{Cache, Threads};
use kiln_kernels::Parallel;
#[cfg(feature = "traces")]
use kiln_serve::Traces;
use kiln_serve::{Event, Journal, Loader, ServeError, Server, Settings, Source};

use crate::failure::{Code, Failure, Outcome, WithCode};
use crate::serve::loader::Sessions;
use crate::serve::log::Log;
use crate::serve::room::Room;
use crate::setup::{DefaultCacheMode, SessionArgs};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of models: NAME/VERSION/model.onnx, NAME/model.onnx or NAME.onnx
    #[arg(required_unless_present = "models")]
    folder: Option<PathBuf>,
    /// A model and its file or folder; may be given several times
    #[arg(long = "model", value_name = "NAME=PATH", help_heading = "Server")]
    models: Vec<NamedModel>,
    /// The host name or address to listen on
    #[arg(long, default_value = "127.0.0.1", help_heading = "Server")]
    host: String,
    /// The port of REST; 0 picks one, which is printed
    #[arg(long, default_value_t = 8000, help_heading = "Server")]
    port: u16,
    /// The port of gRPC; 0 picks one, which is printed
    #[arg(long, value_name = "PORT", default_value_t = 8001, help_heading = "Server")]
    grpc_port: u16,
    /// Serve only REST
    #[arg(long, conflicts_with = "grpc_port", help_heading = "Server")]
    no_grpc: bool,
    /// Most requests that wait, besides one running request a thread; further requests are refused
    #[arg(long, value_name = "N", default_value_t = 128, help_heading = "Server")]
    queue: u16,
    /// How long a thread waits for other short requests to join a request, in microseconds from its arrival; it never
    /// waits while another thread is idle
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Server")]
    batch_window_us: u32,
    /// Most bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, help_heading = "Server")]
    max_body: u32,
    /// Texts that a language model continues at the same time; at most --queue others wait
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Server")]
    texts: u16,
    /// Most tokens of a text, prompt and answer together; a model's own limit may be less
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(2..))]
    #[arg(help_heading = "Server")]
    context: u32,
    /// How long the server waits for its requests after SIGTERM, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20_000, help_heading = "Server")]
    drain_limit: u64,
    /// Write a line of JSON to standard error for each request that has ended, and for events of the server
    #[arg(long, help_heading = "Server")]
    log_json: bool,
    /// Send a span for each request to this OpenTelemetry collector, by OTLP over gRPC: http://localhost:4317
    #[cfg(feature = "traces")]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    traces: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
}

/// `NAME=PATH`.
#[derive(Clone, Debug)]
struct NamedModel {
    name: String,
    path: PathBuf,
}

impl FromStr for NamedModel {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedModel, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(NamedModel { name: name.to_owned(), path: path.into() })
            }
            _ => Err("it is not NAME=PATH".to_owned()),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let mut options = args.session.options(DefaultCacheMode::Records)?;
    let threads = Threads::new(options.threads).failed(|| "--threads")?;
    options.pool = Some(threads.clone());
    let cache = Arc::new(Cache::new(options.cache_limits));
    options.cache = Some(Arc::clone(&cache));
    let named = args.models.iter().map(|model| Source::Named(model.name.clone(), model.path.clone()));
    let log = if args.log_json { Some(Arc::new(Log::begin(std::io::stderr()).failed(|| "--log-json")?)) } else { None };
    #[allow(unused_mut, reason = "without traces the log is the only one")]
    let mut journals: Vec<Arc<dyn Journal>> = log.iter().map(|log| Arc::clone(log) as Arc<dyn Journal>).collect();
    #[cfg(feature = "traces")]
    let traces = match &args.traces {
        Some(url) => Some(Arc::new(Traces::to(url).usage(|| "--traces")?)),
        None => None,
    };
    #[cfg(feature = "traces")]
    journals.extend(traces.iter().map(|traces| Arc::clone(traces) as Arc<dyn Journal>));
    let settings = Settings {
        host: args.host.clone(),
        port: args.port,
        grpc_port: (!args.no_grpc).then_some(args.grpc_port),
        lanes: threads.threads(),
        queue: usize::from(args.queue),
        batch_window: Duration::from_micros(u64::from(args.batch_window_us)),
        max_body: args.max_body as usize,
        time_limit: options.time_limit,
        drain_limit: Duration::from_millis(args.drain_limit),
        sources: named.chain(args.folder.clone().map(Source::Folder)).collect(),
        journals,
    };
    let server = Server::bind(settings)?;
    writeln!(screen, "listening on http://{}", server.address())?;
    if let Some(address) = server.grpc_address() {
        writeln!(screen, "listening on grpc://{address}")?;
    }
    screen.flush()?;
    let room = Room { texts: usize::from(args.texts), queue: usize::from(args.queue), context: args.context as usize };
    let loader: Arc<dyn Loader> = Arc::new(Sessions::new(options, cache, room));
    // A closed pipe does not end a server.
    let ended = server.run(loader, &mut |event| {
        drop(print(&event, screen));
        log.iter().for_each(|log| log.note(&event));
    });
    #[cfg(feature = "traces")]
    traces.iter().for_each(|traces| traces.end());
    log.iter().for_each(|log| log.end());
    ended?;
    writeln!(screen, "ended")?;
    Ok(())
}

fn print(event: &Event, screen: &mut dyn Write) -> std::io::Result<()> {
    match event {
        Event::Ready(models) => writeln!(screen, "ready: {}", models.join(", "))?,
        Event::Refreshed { loaded, failed, removed } => {
            for (what, models) in [("loaded", loaded), ("not loaded", failed), ("gone", removed)] {
                for model in models {
                    writeln!(screen, "{what}: {model}")?;
                }
            }
            writeln!(screen, "looked through the models")?;
        }
        Event::Draining => writeln!(screen, "ending: requests in hand are answered")?,
    }
    screen.flush()
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        let code = match &error {
            ServeError::System { .. } => Code::Failed,
            _ => Code::Usage,
        };
        Failure::new(code, error)
    }
}
