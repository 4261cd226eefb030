//! Listeners and signals: from the first connection to the last answer.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::connection::{self, Connection};
use crate::journal::Journal;
use crate::model::Loader;
use crate::queue::Queue;
use crate::registry::{Changes, Registry};
use crate::repository::Source;
use crate::service::Service;

/// Most connections at a time; others wait to be taken.
const CONNECTIONS: u32 = 1024;

/// Most gRPC calls under way at a time, over all connections.
const CALLS: usize = 1024;

/// The pause after a connection could not be accepted, for instance without a free file descriptor.
const PAUSE: Duration = Duration::from_millis(50);

/// A server's settings.
#[derive(Clone)]
pub struct Settings {
    /// The name or address to listen at.
    pub host: String,
    /// The port of REST; 0 picks one.
    pub port: u16,
    /// The port of gRPC; 0 picks one. `None` serves only REST.
    pub grpc_port: Option<u16>,
    /// Requests that run at a time.
    pub lanes: usize,
    /// Requests that may wait beside them.
    pub queue: usize,
    /// How long after a request's arrival a lane waits for others that can run together with it.
    pub batch_window: Duration,
    /// Most bytes of a body.
    pub max_body: usize,
    /// The time limit of a request that asks for none, and the longest that a request may ask for.
    pub time_limit: Option<Duration>,
    /// How long the end waits for requests under way.
    pub drain_limit: Duration,
    /// The sources of models.
    pub sources: Vec<Source>,
    /// The receivers of reports of ended requests.
    pub journals: Vec<Arc<dyn Journal>>,
}

impl Settings {
    /// Settings for a server of these models at a free port of this machine: only REST, one lane, a queue of 128 and
    /// bodies of 64 MiB, without time limits. The server waits for nothing at its end.
    #[must_use]
    pub fn local(sources: Vec<Source>) -> Settings {
        Settings {
            host: "127.0.0.1".to_owned(),
            port: 0,
            grpc_port: None,
            lanes: 1,
            queue: 128,
            batch_window: Duration::ZERO,
            max_body: 64 << 20,
            time_limit: None,
            drain_limit: Duration::ZERO,
            sources,
            journals: Vec::new(),
        }
    }
}

/// An event of a server, for its operator.
#[derive(Clone, Debug)]
pub enum Event {
    /// All models are loaded, as `NAME version V`.
    Ready(Vec<String>),
    /// The folders have been searched: models that were loaded, that failed, and that are gone.
    Refreshed {
        /// Models that were loaded.
        loaded: Vec<String>,
        /// Models that were not loaded, with the reason.
        failed: Vec<String>,
        /// Models that are gone.
        removed: Vec<String>,
    },
    /// A signal has asked the server to end.
    Draining,
}

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It cannot listen there.
    #[error("cannot listen at {host}:{port}: {error}")]
    Listen {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Why.
        error: io::Error,
    },
    /// The system refused threads, signals or the like.
    #[error("cannot {what}: {error}")]
    System {
        /// The purpose.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The folders of models cannot be read.
    #[error("cannot look through the models: {0}")]
    Models(io::Error),
    /// Some models cannot be loaded.
    #[error("models were not loaded: {}", .0.join("; "))]
    Load(Vec<String>),
    /// There is no model.
    #[error("there is no model to serve")]
    Nothing,
}

/// A server that listens, and answers requests once it runs.
pub struct Server {
    rest: Listener,
    grpc: Option<Listener>,
    settings: Settings,
}

/// A listening socket and its address.
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    fn bind(host: &str, port: u16) -> Result<Listener, ServeError> {
        let listen = |error| ServeError::Listen { host: host.to_owned(), port, error };
        let socket = TcpListener::bind((host, port)).map_err(listen)?;
        socket.set_nonblocking(true).map_err(listen)?;
        let address = socket.local_addr().map_err(listen)?;
        Ok(Listener { socket, address })
    }

    fn into_async(self) -> Result<tokio::net::TcpListener, ServeError> {
        tokio::net::TcpListener::from_std(self.socket).map_err(system("listen"))
    }
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |error| ServeError::System { what, error }
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    ///
    /// [`ServeError::Listen`].
    pub fn bind(settings: Settings) -> Result<Server, ServeError> {
        let rest = Listener::bind(&settings.host, settings.port)?;
        let grpc = settings.grpc_port.map(|port| Listener::bind(&settings.host, port)).transpose()?;
        Ok(Server { rest, grpc, settings })
    }

    /// Its address for REST.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.rest.address
    }

    /// Its address for gRPC.
    #[must_use]
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(|grpc| grpc.address)
    }

    /// Loads the models and answers until SIGTERM or SIGINT. Then it answers the requests under way, saves what models
    /// have learnt, and returns.
    ///
    /// # Errors
    ///
    /// Where models cannot be loaded at the start, or the system refuses a resource that a server needs.
    pub fn run(self, loader: Arc<dyn Loader>, on: &mut dyn FnMut(Event)) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(system("start the thread of connections"))?;
        let Settings { lanes, queue, batch_window, max_body, time_limit, drain_limit, ref sources, .. } = self.settings;
        let service = Arc::new(Service {
            registry: Registry::new(sources.clone(), Arc::clone(&loader)),
            loader,
            queue: Queue::new(lanes.max(1), queue, batch_window).map_err(system("start threads"))?,
            readers: Semaphore::new(lanes.max(1)),
            max_body,
            time_limit,
            is_ready: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            calls: Semaphore::new(CALLS),
            journals: self.settings.journals.clone().into(),
        });
        let ended = runtime.block_on(serve(self.rest, self.grpc, &service, drain_limit, on));
        // Remaining connections are dropped, which cancels the requests that they wait for.
        drop(runtime);
        service.queue.close();
        service.registry.ready().iter().for_each(|loaded| loaded.model.save());
        ended
    }
}

/// Searches the folders on a thread of its own.
fn refresh(service: &Arc<Service>, done: &mpsc::UnboundedSender<io::Result<Changes>>) -> Result<(), ServeError> {
    let (service, done) = (Arc::clone(service), done.clone());
    let thread = std::thread::Builder::new().name("kiln-load".to_owned());
    // The receiver is gone once the server has ended.
    let work = move || drop(done.send(service.registry.refresh()));
    thread.spawn(work).map(drop).map_err(system("start a thread"))
}

async fn serve(
    rest: Listener,
    grpc: Option<Listener>,
    service: &Arc<Service>,
    drain_limit: Duration,
    on: &mut dyn FnMut(Event),
) -> Result<(), ServeError> {
    let caught = |kind| signal(kind).map_err(system("watch signals"));
    let mut terminate = caught(SignalKind::terminate())?;
    let mut interrupt = caught(SignalKind::interrupt())?;
    let mut hang_up = caught(SignalKind::hangup())?;
    let rest = rest.into_async()?;
    let grpc = grpc.map(Listener::into_async).transpose()?;
    let (ending, is_ending) = watch::channel(false);
    let places = Arc::new(Semaphore::new(CONNECTIONS as usize));
    let connected =
        |stream, place| Connection { service: Arc::clone(service), stream, place, is_ending: is_ending.clone() };
    let (done, mut refreshed) = mpsc::unbounded_channel();
    refresh(service, &done)?;
    let ended = loop {
        tokio::select! {
            taken = accept(Some(&rest), &places) => if let Some((stream, place)) = taken {
                drop(tokio::spawn(connection::rest(connected(stream, place))));
            },
            taken = accept(grpc.as_ref(), &places) => if let Some((stream, place)) = taken {
                drop(tokio::spawn(connection::grpc(connected(stream, place))));
            },
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            _ = hang_up.recv() => refresh(service, &done)?,
            Some(changes) = refreshed.recv() => {
                if let Err(error) = note(service, changes, on) {
                    break Err(error);
                }
            }
        }
    };
    service.is_ready.store(false, Ordering::Relaxed);
    service.is_ending.store(true, Ordering::Relaxed);
    for (stream, place) in waiting(rest, &places) {
        drop(tokio::spawn(connection::rest(connected(stream, place))));
    }
    for (stream, place) in grpc.into_iter().flat_map(|grpc| waiting(grpc, &places)) {
        drop(tokio::spawn(connection::grpc(connected(stream, place))));
    }
    if ended.is_ok() {
        on(Event::Draining);
        // Fails only when no connection is left.
        let _ = ending.send(true);
        // All places are free when the last connection has ended; connections that take longer are dropped.
        let _ = tokio::time::timeout(drain_limit, places.acquire_many(CONNECTIONS)).await;
    }
    ended
}

/// Takes over the result of a search through the folders. The first search must load every model.
fn note(service: &Service, changes: io::Result<Changes>, on: &mut dyn FnMut(Event)) -> Result<(), ServeError> {
    let is_first = !service.is_ready();
    let Changes { loaded, failed, removed } = match changes {
        Ok(changes) => changes,
        Err(error) if is_first => return Err(ServeError::Models(error)),
        Err(error) => Changes { failed: vec![format!("the folders: {error}")], ..Changes::default() },
    };
    if !is_first {
        on(Event::Refreshed { loaded, failed, removed });
        return Ok(());
    }
    if !failed.is_empty() {
        return Err(ServeError::Load(failed));
    }
    if service.registry.ready().is_empty() {
        return Err(ServeError::Nothing);
    }
    service.is_ready.store(true, Ordering::Relaxed);
    on(Event::Ready(loaded));
    Ok(())
}

/// The next connection, once there is a place for it. `None` where it could not be accepted. Without a listener this
/// waits for ever.
async fn accept(
    listener: Option<&tokio::net::TcpListener>,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let Some(listener) = listener else { return std::future::pending().await };
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(_) => {
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

/// The connections that clients have made and the server has not yet accepted, as far as there are places. The listener
/// is closed: from here on the system refuses clients.
fn waiting(listener: tokio::net::TcpListener, places: &Arc<Semaphore>) -> Vec<(TcpStream, OwnedSemaphorePermit)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let next = || {
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        let (stream, _) = listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, place))
    };
    std::iter::from_fn(next).collect()
}
