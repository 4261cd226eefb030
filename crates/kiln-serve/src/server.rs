//! Connections and signals: from the first byte to the last answer.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::model::Loader;
use crate::queue::Queue;
use crate::registry::{Changes, Registry};
use crate::repository::Source;
use crate::routes;
use crate::service::Service;

/// Most connections at a time; others wait to be taken.
const CONNECTIONS: u32 = 1024;

/// The longest time between two requests of a connection, and of their headers.
const HEADERS: Duration = Duration::from_secs(60);

/// The pause after a connection could not be taken, as where the process has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// What a server is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name or address to listen at.
    pub host: String,
    /// The port; 0 picks one.
    pub port: u16,
    /// Requests that run at a time.
    pub lanes: usize,
    /// Requests that may wait beside them.
    pub queue: usize,
    /// Most bytes of a body.
    pub max_body: usize,
    /// Time of a request that asks for none, and the most that one may ask for.
    pub time_limit: Option<Duration>,
    /// How long requests in hand are waited for at the end.
    pub drain_limit: Duration,
    /// Where models come from.
    pub sources: Vec<Source>,
}

/// What happens to a server, for who runs it.
#[derive(Clone, Debug)]
pub enum Event {
    /// All models are loaded, as `NAME version V`.
    Ready(Vec<String>),
    /// The folders have been looked through: what was loaded, what was not, what is gone.
    Refreshed {
        /// Models that were loaded.
        loaded: Vec<String>,
        /// Models that were not, with the reason.
        failed: Vec<String>,
        /// Models that are gone.
        removed: Vec<String>,
    },
    /// A signal has asked for the end.
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
        /// What for.
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

/// A server that listens, and answers once it runs.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    settings: Settings,
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
        let listen = |error| ServeError::Listen { host: settings.host.clone(), port: settings.port, error };
        let listener = TcpListener::bind((settings.host.as_str(), settings.port)).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Server { listener, address, settings })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Loads the models and answers until SIGTERM or SIGINT; then answers what is in hand, keeps what models have
    /// learnt, and returns.
    ///
    /// # Errors
    ///
    /// Where models cannot be loaded at the start, or the system refuses what a server needs.
    pub fn run(self, loader: Arc<dyn Loader>, on: &mut dyn FnMut(Event)) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(system("start the thread of connections"))?;
        let Settings { lanes, queue, max_body, time_limit, drain_limit, ref sources, .. } = self.settings;
        let service = Arc::new(Service {
            registry: Registry::new(sources.clone(), Arc::clone(&loader)),
            loader,
            queue: Queue::new(lanes.max(1), queue).map_err(system("start threads"))?,
            readers: Semaphore::new(lanes.max(1)),
            max_body,
            time_limit,
            is_ready: AtomicBool::new(false),
        });
        let ended = runtime.block_on(serve(self.listener, &service, drain_limit, on));
        // Connections that are left are dropped, and what they wait for is cancelled.
        drop(runtime);
        service.queue.close();
        service.registry.ready().iter().for_each(|loaded| loaded.model.save());
        ended
    }
}

/// Looks through the folders on a thread of its own.
fn refresh(service: &Arc<Service>, done: &mpsc::UnboundedSender<io::Result<Changes>>) -> Result<(), ServeError> {
    let (service, done) = (Arc::clone(service), done.clone());
    let thread = std::thread::Builder::new().name("kiln-load".to_owned());
    // The receiver is gone once the server has ended.
    let work = move || drop(done.send(service.registry.refresh()));
    thread.spawn(work).map(drop).map_err(system("start a thread"))
}

async fn serve(
    listener: TcpListener,
    service: &Arc<Service>,
    drain_limit: Duration,
    on: &mut dyn FnMut(Event),
) -> Result<(), ServeError> {
    let caught = |kind| signal(kind).map_err(system("watch signals"));
    let mut terminate = caught(SignalKind::terminate())?;
    let mut interrupt = caught(SignalKind::interrupt())?;
    let mut hang_up = caught(SignalKind::hangup())?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(system("listen"))?;
    let (ending, is_ending) = watch::channel(false);
    let places = Arc::new(Semaphore::new(CONNECTIONS as usize));
    let (done, mut refreshed) = mpsc::unbounded_channel();
    refresh(service, &done)?;
    let ended = loop {
        tokio::select! {
            taken = accept(&listener, &places) => {
                if let Some((stream, place)) = taken {
                    drop(tokio::spawn(connection(Arc::clone(service), stream, place, is_ending.clone())));
                }
            }
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
    drop(listener);
    if ended.is_ok() {
        on(Event::Draining);
        // Fails only where no connection is left.
        let _ = ending.send(true);
        // All places are free when the last connection has ended; what takes longer is dropped.
        let _ = tokio::time::timeout(drain_limit, places.acquire_many(CONNECTIONS)).await;
    }
    ended
}

/// Takes over what a look through the folders has found. The first one must load every model.
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

/// The next connection, once there is a place for it. `None` where it could not be taken.
async fn accept(
    listener: &tokio::net::TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(_) => {
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

/// Answers a connection's requests until it or the server ends. Its future is dropped with the connection, which gives
/// up the request that it waits for.
async fn connection(
    service: Arc<Service>,
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    mut is_ending: watch::Receiver<bool>,
) {
    let _place = place;
    // Answers are small and come whole.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request| routes::answer(Arc::clone(&service), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        // What breaks a connection concerns its client alone.
        _ = connection.as_mut() => return,
        _ = is_ending.wait_for(|ending| *ending) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
