//! Names of sealed code for profilers: `/tmp/perf-PID.map`, and `jit-PID.dump` for `perf inject --jit`.
//!
//! Both are formats of Linux's `perf`. The map has names of addresses. The dump also has the bytes, so that perf can
//! show instructions, and times, so that it can tell apart reuses of memory. Off until [`name_code_for`] turns it on;
//! then sealing writes one line or one record more. An error of a file turns naming off: it never fails a build.
//!
//! Handles bytes, addresses and names only.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use crate::fork::{Mutex, Origin};
use crate::isa::Isa;

/// Which files are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfilerFiles {
    /// `/tmp/perf-PID.map`: the one path that perf looks at.
    pub map: bool,
    /// `/tmp/jit-PID.dump`.
    pub dump: bool,
}

/// The files of this process.
struct Open {
    map: Option<File>,
    dump: Option<Dump>,
    /// Kernels so far.
    count: u64,
    /// The process that owns the files: a forked child names nothing there.
    origin: Origin,
}

struct Dump {
    file: File,
    /// An executable mapping of the dump, by which perf finds the file.
    _marker: memmap2::Mmap,
}

static OPEN: OnceLock<Mutex<Option<Open>>> = OnceLock::new();
/// Held while the files are created: a second call would remove the first one's.
static OPENING: Mutex<()> = Mutex::new(());

/// Whether code is named, which also determines how it is mapped: see [`Schemes`](super::arena).
pub(super) fn on() -> bool {
    OPEN.get().is_some()
}

/// Names every kernel that is sealed from now on. Only the first call of a process counts, because code that was sealed
/// before has no name.
///
/// # Errors
///
/// If a file cannot be created; then no code is named.
pub fn name_code_for(files: ProfilerFiles) -> io::Result<()> {
    if !files.map && !files.dump {
        return Ok(());
    }
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if on() {
        return Ok(());
    }
    let process = std::process::id();
    let map = files.map.then(|| create(Path::new(&format!("/tmp/perf-{process}.map")))).transpose()?;
    let dump = files.dump.then(|| Dump::create(&PathBuf::from(format!("/tmp/jit-{process}.dump")))).transpose()?;
    // The cell is still empty: setting it takes the lock.
    let _ = OPEN.set(Mutex::new(Some(Open { map, dump, count: 0, origin: Origin::here() })));
    Ok(())
}

/// Records that these bytes are at this address from now on.
pub(super) fn note(isa: Isa, family: &str, address: u64, bytes: &[u8]) {
    let Some(open) = OPEN.get() else { return };
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(files) = open.as_mut().filter(|files| files.origin.is_here()) else { return };
    let name = format!("kiln.{family}.{isa}.{}", files.count);
    if files.write(&name, address, bytes).is_err() {
        *open = None;
    }
}

/// Creates a file of this process. A file that a dead process with the same number left is removed; another user's file
/// stays and is an error.
fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // `create_new` follows no symbolic link.
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

impl Open {
    fn write(&mut self, name: &str, address: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(map) = &mut self.map {
            map.write_all(format!("{address:x} {:x} {name}\n", bytes.len()).as_bytes())?;
        }
        if let Some(dump) = &mut self.dump {
            dump.file.write_all(&load_record(name, address, bytes, self.count))?;
        }
        self.count += 1;
        Ok(())
    }
}

impl Dump {
    fn create(path: &Path) -> io::Result<Dump> {
        let mut file = create(path)?;
        file.write_all(&header())?;
        // SAFETY: the file is this process's own and only grows; the mapping is not read.
        let marker = unsafe { memmap2::MmapOptions::new().len(4096).map_exec(&file)? };
        Ok(Dump { file, _marker: marker })
    }
}

/// Nanoseconds of the clock that `perf record -k mono` stamps its events with.
fn timestamp() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The file's first 40 bytes, as in tools/perf/Documentation/jitdump-specification.txt of Linux.
fn header() -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    // "JiTD", version 1, length, EM_X86_64, padding, process.
    for number in [0x4A69_5444, 1, 40, 62, 0, std::process::id()] {
        out.extend(u32::to_ne_bytes(number));
    }
    out.extend(timestamp().to_ne_bytes());
    out.extend(0_u64.to_ne_bytes());
    out
}

/// A record of the kind JIT_CODE_LOAD.
fn load_record(name: &str, address: u64, bytes: &[u8], index: u64) -> Vec<u8> {
    let length = 56 + name.len() + 1 + bytes.len();
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let mut out = Vec::with_capacity(length);
    out.extend(0_u32.to_ne_bytes());
    out.extend((length as u32).to_ne_bytes());
    out.extend(timestamp().to_ne_bytes());
    out.extend(std::process::id().to_ne_bytes());
    out.extend(thread.to_ne_bytes());
    for number in [address, address, bytes.len() as u64, index] {
        out.extend(number.to_ne_bytes());
    }
    out.extend(name.as_bytes());
    out.push(0);
    out.extend(bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_long_as_they_say() {
        assert_eq!(header().len(), 40);
        let record = load_record("kiln.test", 0x1234, &[0xC3, 0x90], 7);
        let length = u32::from_ne_bytes(record[4..8].try_into().unwrap());
        assert_eq!((record.len(), length as usize), (68, 68));
        assert_eq!(record[24..32], 0x1234_u64.to_ne_bytes());
        assert_eq!(record[56..], *b"kiln.test\0\xC3\x90");
    }

    #[test]
    fn a_file_is_made_anew_and_no_link_is_followed() {
        let folder = std::env::temp_dir().join(format!("kiln-symbols-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (target, link) = (folder.join("target"), folder.join("link"));
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        create(&link).unwrap().write_all(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "new");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
