//! A connection from its first byte to its last answer: of HTTP/1 for REST, of HTTP/2 for gRPC.

use std::io;
use std::net::Shutdown;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::service::Service;
use crate::{grpc, routes};

/// The longest time between two requests of a connection, and of their headers.
const IDLE: Duration = Duration::from_secs(60);

/// The longest time that the end of an idle connection takes.
const GOODBYE: Duration = Duration::from_secs(5);

/// How long a REST connection still takes a request after the server's end has begun: its client may be sending one.
const LAST_CALL: Duration = Duration::from_secs(1);

/// How long a client may take to read its last answers after they were sent.
const LINGER: Duration = Duration::from_secs(2);

/// Most calls of a connection of gRPC at a time; its client holds back the others.
const STREAMS: u32 = 256;

/// How often a gRPC client is pinged, and how long it may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// An accepted connection.
pub(crate) struct Connection {
    pub(crate) service: Arc<Service>,
    pub(crate) stream: TcpStream,
    /// Released when the connection has ended.
    pub(crate) place: OwnedSemaphorePermit,
    /// Whether the server is ending.
    pub(crate) is_ending: watch::Receiver<bool>,
}

/// Answers REST requests until the connection or the server ends. The future is dropped with the connection, which
/// cancels the pending request. An answer after the server's end has begun closes its connection.
pub(crate) async fn rest(connection: Connection) {
    let Connection { service, stream, place, mut is_ending } = connection;
    let _place = place;
    // Answers are small and are written whole.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request| routes::answer(Arc::clone(&service), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        // An error of a connection concerns only its client.
        _ = connection.as_mut() => return,
        _ = is_ending.wait_for(|ending| *ending) => {}
    }
    if tokio::time::timeout(LAST_CALL, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// The calls of a connection: those under way, and the number that have begun.
#[derive(Default)]
struct Calls {
    in_hand: AtomicUsize,
    begun: AtomicUsize,
}

/// A call that is under way until this is dropped.
struct Call(Arc<Calls>);

impl Call {
    fn begin(calls: &Arc<Calls>) -> Call {
        calls.in_hand.fetch_add(1, Ordering::Relaxed);
        calls.begun.fetch_add(1, Ordering::Relaxed);
        Call(Arc::clone(calls))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.in_hand.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers gRPC calls until the connection or the server ends. A call whose client has gone is dropped, and all calls
/// are dropped with the connection; this cancels their requests.
pub(crate) async fn grpc(connection: Connection) {
    let Connection { service, stream, place, mut is_ending } = connection;
    let _place = place;
    let _ = stream.set_nodelay(true);
    // A socket that is closed with unread bytes from its client, such as window updates, is reset, and the client loses
    // the part of the answer that it has not read. So this socket stays until the client has closed its side.
    let Some((stream, rest)) = twice(stream) else { return };
    let calls = Arc::new(Calls::default());
    let (counted, is_ending_for_calls) = (Arc::clone(&calls), is_ending.clone());
    let answer = service_fn(move |request| {
        let (call, service, is_ending) = (Call::begin(&counted), Arc::clone(&service), is_ending_for_calls.clone());
        async move {
            let mut answer = grpc::answer(service, request, is_ending).await?;
            // A stream is under way until its last answer.
            answer.body_mut().hold(call);
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    http.keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let mut begun = 0;
    let is_idle = loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = is_ending.wait_for(|ending| *ending) => break false,
            () = tokio::time::sleep(IDLE) => {}
        }
        let so_far = calls.begun.load(Ordering::Relaxed);
        if calls.in_hand.load(Ordering::Relaxed) == 0 && so_far == begun {
            break true;
        }
        begun = so_far;
    };
    connection.as_mut().graceful_shutdown();
    if is_idle {
        let _ = tokio::time::timeout(GOODBYE, connection).await;
    } else {
        let _ = connection.await;
        let _ = tokio::time::timeout(LINGER, end_of(rest)).await;
    }
}

/// The same socket by two handles. `None` where the system refuses the second.
fn twice(stream: TcpStream) -> Option<(TcpStream, std::net::TcpStream)> {
    let stream = stream.into_std().ok()?;
    let second = stream.try_clone().ok()?;
    Some((TcpStream::from_std(stream).ok()?, second))
}

/// Closes the sending side, and waits until the client does the same.
async fn end_of(stream: std::net::TcpStream) {
    // Fails where the client has gone.
    let _ = stream.shutdown(Shutdown::Write);
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let mut unread = [0; 4096];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut unread) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
