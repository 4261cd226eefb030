//! Bounds on the bytes that a remote server may send: both clients hold whole answers in memory, however long they are.
//!
//! An HTTP body is cut where it exceeds the [`Budget`]. The Redis client reads from its own socket, so it gets a socket
//! whose other end is here: a relay passes on the bytes of server and client, and hangs up when the budget is used. The
//! socket is in a folder that only this user may enter.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport};
use opendal_http_transport_reqwest::ReqwestTransport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// The bytes that one operation may still receive. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// Sets the budget to `bytes`.
    pub(super) fn refill(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Takes that many bytes out, if they are left; otherwise nothing is left.
    fn take(&self, bytes: usize) -> bool {
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(bytes)));
        before.is_ok_and(|left| left >= bytes)
    }

    /// Whether all of it was used.
    pub(super) fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// HTTP whose answers are bounded.
pub(super) struct Bounded {
    inner: ReqwestTransport,
    budget: Budget,
}

impl Bounded {
    pub(super) fn new(budget: Budget) -> Bounded {
        Bounded { inner: ReqwestTransport::default(), budget }
    }
}

impl HttpTransport for Bounded {
    async fn fetch(&self, request: http::Request<Buffer>) -> opendal::Result<http::Response<HttpBody>> {
        let response = self.inner.fetch(request).await?;
        let budget = self.budget.clone();
        Ok(response.map(|body| body.map_inner(|inner| Box::new(Body { inner, budget }))))
    }
}

struct Body<S> {
    inner: S,
    budget: Budget,
}

impl<S: Stream<Item = opendal::Result<Buffer>> + Unpin> Stream for Body<S> {
    type Item = opendal::Result<Buffer>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.inner).poll_next(cx);
        if let Poll::Ready(Some(Ok(buffer))) = &polled
            && !self.budget.take(buffer.len())
        {
            return Poll::Ready(Some(Err(Error::new(ErrorKind::Unexpected, "the answer is too long"))));
        }
        polled
    }
}

/// A relay, until dropped.
pub(super) struct Relay {
    folder: tempfile::TempDir,
    task: JoinHandle<()>,
}

impl Relay {
    /// Connects to a server and relays it.
    ///
    /// # Errors
    ///
    /// Those of the connection, and of making the socket.
    pub(super) async fn open(host: String, port: u16, budget: Budget) -> io::Result<Relay> {
        let first = TcpStream::connect((&*host, port)).await?;
        let folder = tempfile::Builder::new().prefix("kiln-").permissions(Permissions::from_mode(0o700)).tempdir()?;
        let listener = UnixListener::bind(folder.path().join("relay"))?;
        let task = tokio::spawn(async move {
            let mut ready = Some(first);
            while let Ok((client, _)) = listener.accept().await {
                let server = match ready.take() {
                    Some(server) => server,
                    // The client sees that its connection ends.
                    None => match TcpStream::connect((&*host, port)).await {
                        Ok(server) => server,
                        Err(_) => continue,
                    },
                };
                tokio::spawn(pass_on(client, server, budget.clone()));
            }
        });
        Ok(Relay { folder, task })
    }

    /// The address for the client.
    pub(super) fn endpoint(&self) -> String {
        // The host has no meaning, but a URL must have one.
        format!("unix://relay{}/relay", self.folder.path().display())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(client: UnixStream, server: TcpStream, budget: Budget) {
    let _ = server.set_nodelay(true);
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read) = from_server.read(&mut bytes).await {
        if read == 0 || !budget.take(read) || to_client.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
    up.abort();
}
