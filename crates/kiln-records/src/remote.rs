//! Records that a fleet shares: a store elsewhere, behind the local file and never in front of it.
//!
//! A [`Remote`] keeps bytes under names: Redis, object storage, a shared folder, or a caller's own store. No
//! computation waits for it: `worker`, a thread of the store's own, fetches records, merges them into memory (and the
//! writer brings them into the local file), and puts back better records of this machine. The bytes are those of a
//! record file and are trusted no more than a file. A store that is down, slow or wrong is counted and logged, and
//! costs no more than that: every wait has an end, and a call that does not return is abandoned.
//!
//! Records that several machines put at once are not lost. Where the remote store can put on a condition, a put that
//! would write over unseen bytes is refused, and the writer merges those bytes and puts again. Where it cannot, the
//! writer reads the stored bytes back after a pause and puts again if its own are missing: of two writers that wrote
//! over each other, at least the loser sees it.
//!
//! `address` gives URLs their meaning, `network` is a client for them, which exists only with the feature `remote`, and
//! `bounds` limits what servers may send.

mod address;
#[cfg(feature = "remote")]
mod bounds;
#[cfg(feature = "remote")]
mod network;
pub(super) mod worker;

use std::fmt::{self, Debug};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arena::Arena;
use super::entry::State;
use super::folder;
use super::frame::{self, ReadError, Rejected};
use super::shared::{BATCH, Core, Place, accepting};
use crate::warning::warning;

/// Why a remote store cannot be used, or why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The URL names no store. It is shown without a part that may be a password.
    #[error("'{url}' names no remote store: {why}")]
    Address {
        /// The URL.
        url: String,
        /// The defect of the URL.
        why: &'static str,
    },
    /// This build has no client.
    #[error("this build has no client for remote stores: build it with --features remote")]
    NotBuilt,
    /// Nothing is put: there is no remote store, it is only read, or its thread is another process's.
    #[error("there is no remote store that this process may write to")]
    ReadOnly,
    /// The store, or the way to it, failed.
    #[error("{0}")]
    Failed(String),
    /// No answer came, or not all of it.
    #[error("no whole answer within {0:?}")]
    TimedOut(Duration),
    /// The bytes stored there cannot be records.
    #[error("what lies there is longer than the {most} bytes that a record file may have")]
    TooLong {
        /// The bound.
        most: usize,
    },
    /// At every attempt to put, another writer had been faster.
    #[error("others were writing all the time; what is new here is put later")]
    Contended,
}

/// The object stored under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The version of this state, where the store can put on the condition that it still holds this state.
    pub version: Option<String>,
}

/// The state that a put may write over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over<'a> {
    /// No object.
    Nothing,
    /// That state.
    Version(&'a str),
    /// Some object whose state has no version.
    Something,
}

/// The result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is stored, and has replaced only the given state.
    Certain,
    /// It was written over any object: the store knows no conditions.
    Unsure,
    /// It was not written, because another object is stored there by now.
    Changed,
}

/// A remote store. Its methods may block for a while; no computation waits for the threads that call them.
pub trait Remote: Send + Sync + Debug + 'static {
    /// The object stored under that name, if there is one. More than `most` bytes are an error, and must not be kept in
    /// memory.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]: the store tries again later.
    fn get(&self, name: &str, most: usize) -> Result<Option<Object>, RemoteError>;

    /// Puts bytes under that name in place of the state `over`, on that condition if the store can.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]: the store tries again later.
    fn put(&self, name: &str, bytes: &[u8], over: Over<'_>) -> Result<Put, RemoteError>;
}

/// A text that must not be shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// A user's name and password, for stores that need these and where the environment does not give them in the store's
/// own way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
}

/// The store at a URL: `redis://HOST[:PORT][/PREFIX][?db=N]`, `rediss://` for the same through TLS, or
/// `s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME]`, whose keys come from the environment, as for Amazon's own tools.
///
/// # Errors
///
/// [`RemoteError::Address`] for any other URL and for a URL with a password; [`RemoteError::NotBuilt`] without the
/// feature `remote`. Whether the store answers shows later, in the background.
pub fn connect(url: &str, credentials: &Credentials) -> Result<Arc<dyn Remote>, RemoteError> {
    let address = address::parse(url)?;
    #[cfg(feature = "remote")]
    return Ok(Arc::new(network::Network::new(address, credentials)?));
    #[cfg(not(feature = "remote"))]
    {
        let _ = (address, credentials);
        Err(RemoteError::NotBuilt)
    }
}

/// How a store uses a remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePolicy {
    /// Whether nothing is ever put: for machines that only use records of others.
    pub read_only: bool,
    /// How long making a session waits for the first answer. Only a session whose local file is empty waits at all.
    pub patience: Duration,
    /// How long new results settle before they are put.
    pub settle: Duration,
    /// How long the end of a store waits for results that are still to be put.
    pub linger: Duration,
    /// How long a store is left alone after a failure.
    pub rest: Duration,
    /// Where a store knows no conditions: how long after a put its writer checks that the put is still there.
    pub look_back: Duration,
}

impl Default for RemotePolicy {
    /// Half a second of patience is fifty times the answer time of a store in the same building. Puts wait for five
    /// seconds of results, because each writes the whole file. The check after a tenth of a second is far longer than
    /// others take from their read to their put; they begin anew if they took longer than half of it.
    fn default() -> RemotePolicy {
        RemotePolicy {
            read_only: false,
            patience: Duration::from_millis(500),
            settle: Duration::from_secs(5),
            linger: Duration::from_secs(2),
            rest: Duration::from_secs(30),
            look_back: Duration::from_millis(100),
        }
    }
}

/// The longest object. Less than a file may have, because the client holds it whole: 262,144 records of the usual size,
/// the most that a file holds.
pub(super) const MOST_BYTES: usize = 24 << 20;
/// How often a put is tried while other writers are faster.
const ATTEMPTS: u32 = 8;
/// A random time between `time` and twice `time`, so that writers that met once do not meet again.
fn around(time: Duration) -> Duration {
    let part = RandomState::new().hash_one(Instant::now()) % 1024;
    time + time * part as u32 / 1024
}

/// Takes over better records from there, and puts better records from here. Returns the number of records taken over.
fn exchange(core: &Core, remote: &dyn Remote, policy: &RemotePolicy) -> Result<u64, RemoteError> {
    let Some(place) = &core.place else { return Ok(0) };
    let name = format!("{}{}", place.stem, folder::SUFFIX);
    let (mut taken, mut unconditional) = (0, false);
    for _ in 0..ATTEMPTS {
        let started = Instant::now();
        let there = remote.get(&name, MOST_BYTES);
        core.lock().stats.remote_gets += 1;
        let there = there?;
        let Some(seen) = there.as_ref().map_or(Some(Seen::default()), |object| take_over(core, place, &object.bytes))
        else {
            // It has a schema that a newer build knows: this build must not replace it.
            return Ok(taken);
        };
        taken += seen.taken;
        core.lock().stats.remote_taken += seen.taken;
        if policy.read_only || seen.as_good >= core.lock().len() {
            return Ok(taken);
        }
        let bytes = core.image(place, MOST_BYTES);
        if unconditional && started.elapsed() > policy.look_back / 2 {
            // Too long since the read: other writers could no longer detect a lost update.
            continue;
        }
        let over = match &there {
            None => Over::Nothing,
            Some(Object { version: Some(version), .. }) => Over::Version(version),
            Some(Object { version: None, .. }) => Over::Something,
        };
        let put = remote.put(&name, &bytes, over)?;
        core.lock().stats.remote_puts += u64::from(put != Put::Changed);
        match put {
            Put::Certain => return Ok(taken),
            Put::Unsure => {
                unconditional = true;
                std::thread::sleep(around(policy.look_back));
            }
            Put::Changed => std::thread::sleep(around(policy.look_back / 8)),
        }
    }
    Err(RemoteError::Contended)
}

/// The result of reading an object.
#[derive(Default)]
struct Seen {
    /// Records better than those here.
    taken: u64,
    /// Records of this store that are equally good there.
    as_good: usize,
}

/// Merges an object as a file is merged. `None` if it should be left alone.
fn take_over(core: &Core, place: &Place, bytes: &[u8]) -> Option<Seen> {
    let (mut seen, mut batch) = (Seen::default(), Arena::default());
    let mut merge = |batch: Arena| {
        let mut contents = core.lock();
        for kept in batch.iter() {
            let better_here = contents.find(kept.name()).is_some_and(|known| known.beats(&kept));
            seen.taken += u64::from(contents.merge(kept));
            // A record that was refused here is in neither count.
            seen.as_good += usize::from(!better_here && contents.find(kept.name()).is_some());
        }
    };
    let read = frame::read(bytes, State::New, accepting(place.header.fingerprint), |kept| {
        batch.push(kept);
        if batch.held() >= BATCH {
            merge(std::mem::take(&mut batch));
        }
    });
    merge(batch);
    let mut contents = core.lock();
    match read {
        Ok((_, frames)) => contents.stats.rejected_checksum += frames.damaged,
        Err(ReadError::Rejected(rejected)) => {
            warning!(why = rejected.why(), "what lies in the remote store is not used");
            contents.count(rejected);
            if rejected == Rejected::Version {
                return None;
            }
        }
        Err(ReadError::Io(_)) => contents.stats.rejected_io += 1,
    }
    Some(seen)
}
