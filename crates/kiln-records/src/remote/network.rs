//! The clients for Redis and S3, through OpenDAL, on a runtime that runs only during a call.
//!
//! This is the only file that knows OpenDAL's operations. Each visit to the store makes a new connection: visits are
//! rare, and an idle connection is one more way to fail. Answers are bounded in time here and in length by `bounds`.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opendal::services::{Redis, S3};
use opendal::{ErrorKind, HttpTransporter, OperationContext, Operator};
use tokio::runtime::{Builder, Runtime};

use super::address::Address;
use super::bounds::{Bounded, Budget, Relay};
use super::{Credentials, Object, Over, Put, Remote, RemoteError};

/// The longest time of an operation: 24 MiB, more than any fleet's records, over a tenth of a gigabit a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often an object is tried that changes between the request for its length and the read.
const READ_ATTEMPTS: u32 = 4;
/// Bytes of answers besides objects: greetings and errors. A reader of its own bounds the headers of HTTP.
const MOST_PROTOCOL_BYTES: usize = 1 << 16;

/// A store behind a network.
pub(super) struct Network {
    address: Address,
    credentials: Credentials,
    budget: Budget,
    connection: Mutex<Connection>,
}

#[derive(Default)]
struct Connection {
    /// Dropped before the runtime, which would stop the relay's tasks.
    link: Option<Link>,
    runtime: Option<Runtime>,
}

/// A connection.
struct Link {
    operator: Operator,
    _relay: Option<Relay>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("address", &self.address).finish_non_exhaustive()
    }
}

fn failed(error: impl fmt::Display) -> RemoteError {
    RemoteError::Failed(error.to_string())
}

impl Network {
    /// The store at that address. Connects to nothing yet.
    pub(super) fn new(address: Address, credentials: &Credentials) -> Result<Network, RemoteError> {
        // Both clients take the process's provider and panic where several are compiled in and none is installed. A
        // program that has installed its own keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let network = Network {
            address,
            credentials: credentials.clone(),
            budget: Budget::default(),
            connection: Mutex::new(Connection::default()),
        };
        network.operator(None)?;
        Ok(network)
    }

    /// The operator, through a relay if there is one.
    fn operator(&self, relay: Option<&Relay>) -> Result<Operator, RemoteError> {
        match &self.address {
            Address::Redis { tls, host, port, db, prefix } => {
                let scheme = if *tls { "rediss" } else { "redis" };
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                let endpoint = relay.map_or_else(|| format!("{scheme}://{host}:{port}"), Relay::endpoint);
                let service = Redis::default()
                    .endpoint(&endpoint)
                    .root(&format!("/{prefix}"))
                    .db(i64::from(*db))
                    .username(self.credentials.user.as_deref().unwrap_or_default())
                    .password(self.credentials.password.as_ref().map_or("", |password| &password.0))
                    .connection_pool_max_size(1);
                Operator::new(service).map_err(failed)
            }
            Address::S3 { bucket, prefix, endpoint, region } => {
                let service = S3::default()
                    .bucket(bucket)
                    .root(&format!("/{prefix}"))
                    .endpoint(endpoint.as_deref().unwrap_or_default())
                    .region(region.as_deref().unwrap_or_default());
                let transport = HttpTransporter::new(Bounded::new(self.budget.clone()));
                let context = OperationContext::new().with_http_transport(transport);
                Ok(Operator::new(service).map_err(failed)?.with_context(context))
            }
        }
    }

    async fn open(&self) -> Result<Link, RemoteError> {
        let relay = match &self.address {
            Address::Redis { tls: false, host, port, .. } => {
                let refused = |error| failed(format_args!("cannot reach {host}:{port}: {error}"));
                Some(Relay::open(host.clone(), *port, self.budget.clone()).await.map_err(refused)?)
            }
            // With TLS, the server's certificate proves who it is.
            Address::Redis { tls: true, .. } | Address::S3 { .. } => None,
        };
        Ok(Link { operator: self.operator(relay.as_ref())?, _relay: relay })
    }

    /// Waits for an operation. Uses a new connection if asked to, or if there is none.
    fn perform<T>(
        &self,
        anew: bool,
        most: usize,
        operation: impl AsyncFnOnce(&Operator) -> Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let Connection { link, runtime } = &mut *connection;
        let runtime = match runtime {
            Some(runtime) => runtime,
            None => runtime.insert(Builder::new_current_thread().enable_all().build().map_err(failed)?),
        };
        self.budget.refill(most.saturating_add(MOST_PROTOCOL_BYTES));
        let done = runtime.block_on(async {
            if anew {
                *link = None;
            }
            let work = async {
                let link = match link {
                    Some(link) => link,
                    None => link.insert(self.open().await?),
                };
                operation(&link.operator).await
            };
            tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(RemoteError::TimedOut(PATIENCE)))
        });
        done.map_err(|error| {
            *link = None;
            if self.budget.is_used_up() { RemoteError::TooLong { most } } else { error }
        })
    }
}

impl Remote for Network {
    fn get(&self, name: &str, most: usize) -> Result<Option<Object>, RemoteError> {
        self.perform(true, most, async |operator| {
            for _ in 0..READ_ATTEMPTS {
                let about = match operator.stat(name).await {
                    Ok(about) => about,
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(failed(error)),
                };
                if about.content_length() > most as u64 {
                    return Err(RemoteError::TooLong { most });
                }
                let version = about.etag().map(str::to_owned);
                // Reads the version whose length was asked for.
                let read = match &version {
                    Some(version) => operator.read_with(name).if_match(version).await,
                    None => operator.read(name).await,
                };
                return match read {
                    Ok(buffer) if buffer.len() > most => Err(RemoteError::TooLong { most }),
                    Ok(buffer) => Ok(Some(Object { bytes: buffer.to_vec(), version })),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) if error.kind() == ErrorKind::ConditionNotMatch => continue,
                    Err(error) => Err(failed(error)),
                };
            }
            Err(RemoteError::Contended)
        })
    }

    fn put(&self, name: &str, bytes: &[u8], over: Over<'_>) -> Result<Put, RemoteError> {
        let conditional = matches!(self.address, Address::S3 { .. });
        self.perform(false, MOST_PROTOCOL_BYTES, async |operator| {
            let write = || operator.write_with(name, bytes.to_vec());
            let written = match over {
                Over::Nothing if conditional => write().if_not_exists(true).await,
                Over::Version(version) if conditional => write().if_match(version).await,
                _ => return write().await.map(|_| Put::Unsure).map_err(failed),
            };
            let Err(error) = written else { return Ok(Put::Certain) };
            let text = error.to_string();
            match error.kind() {
                ErrorKind::ConditionNotMatch | ErrorKind::AlreadyExists => Ok(Put::Changed),
                _ if text.contains("ConditionalRequestConflict") => Ok(Put::Changed),
                // Servers with S3's protocol do not always have all of it.
                _ if text.contains("NotImplemented") => write().await.map(|_| Put::Unsure).map_err(failed),
                _ => Err(failed(error)),
            }
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let connection = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
        connection.link = None;
        if let Some(runtime) = connection.runtime.take() {
            // A name look-up that is under way may take as long as it likes.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use opendal::{Buffer, HttpTransport as _};

    use super::*;
    use crate::remote::address;

    /// The first byte of the TLS record with which a client opens a connection.
    const HANDSHAKE: u8 = 22;

    /// A server without TLS: its port, and the first byte that a client sends.
    fn server() -> (u16, JoinHandle<u8>) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let first = std::thread::spawn(move || {
            let (mut client, _) = server.accept().unwrap();
            let mut first = [0];
            client.read_exact(&mut first).unwrap();
            client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            first[0]
        });
        (port, first)
    }

    #[test]
    fn clients_open_with_a_handshake_and_refuse_a_server_that_has_none() {
        let (port, first) = server();
        let address = address::parse(&format!("rediss://127.0.0.1:{port}/kiln")).unwrap();
        let network = Network::new(address, &Credentials::default()).unwrap();
        let answer = network.get("records", 1 << 20);
        assert!(matches!(answer, Err(RemoteError::Failed(_) | RemoteError::TimedOut(_))), "{answer:?}");
        assert_eq!(first.join().unwrap(), HANDSHAKE);

        let (port, first) = server();
        let request = http::Request::get(format!("https://127.0.0.1:{port}/")).body(Buffer::new()).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(Bounded::new(Budget::default()).fetch(request));
        assert!(answer.is_err());
        assert_eq!(first.join().unwrap(), HANDSHAKE);
    }
}
