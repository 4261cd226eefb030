//! Records, warming, packed models, and giving memory back.

use std::ffi::c_char;
use std::path::Path;

use kiln::session::{CacheError, CacheKind};
use kiln::{RecordError, Session};

use crate::error::{Error, KilnCode, Result, invalid};
use crate::handle;
use crate::options::{self, KilnOptions, seconds};
use crate::seam;
use crate::session::KilnSession;
use crate::status::{KilnStatus, guard};

/// How the names of record files end: those of a folder, and those written beside a locked one.
const ENDINGS: [&str; 2] = [".kiln", ".shard"];

/// The result of loading records.
#[derive(Default)]
struct Loaded {
    /// Records that were new or better than known ones.
    taken: u64,
    /// Files that are for another machine or build, or are no record files.
    refused: u64,
}

/// Loads every record file of a folder, or a file.
fn load_records(session: &Session, path: &Path) -> Result<Loaded> {
    if !path.is_dir() {
        return Ok(Loaded { taken: session.load_cache(path, CacheKind::All)?.taken, refused: 0 });
    }
    let unreadable =
        |error: std::io::Error| Error::new(KilnCode::File, format!("cannot list {}: {error}", path.display()));
    let mut loaded = Loaded::default();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        match session.load_cache(&file, CacheKind::All) {
            Ok(report) => loaded.taken += report.taken,
            Err(CacheError::Records(RecordError::Unreadable { .. })) => loaded.refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(loaded)
}

/// Waits for at most `timeout` seconds until everything that runs have needed so far is tuned, and then saves new
/// records. Writes to is_warm whether all of this was done in time; is_warm may be NULL. Without the setting tune, it
/// waits only for measurements of the machine and for a packed model that is being written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_warm(
    session: *const KilnSession,
    timeout: f64,
    is_warm: *mut bool,
) -> *mut KilnStatus {
    guard("kiln_session_warm", || {
        let model = handle::get(session, "session")?;
        let wait = seconds(timeout);
        let wait = wait.ok_or_else(|| invalid!("timeout is {timeout}: expected a number of seconds above 0"))?;
        seam::put_if_wanted(is_warm, model.session.settle(wait));
        model.session.save_records()?;
        Ok(())
    })
}

/// Saves new records to the session's own file now; releasing the session saves them too. Writes to records how many
/// records the file then has, or 0 without a file; records may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_save_records(session: *const KilnSession, records: *mut u64) -> *mut KilnStatus {
    guard("kiln_session_save_records", || {
        let report = handle::get(session, "session")?.session.save_records()?;
        seam::put_if_wanted(records, report.written);
        Ok(())
    })
}

/// Merges the records of a file, or of all record files of a folder. A file for another machine or build is an error if
/// it is named alone; in a folder it is skipped. Writes to taken how many records were new or better, and to refused
/// how many files were skipped; both may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_load_records(
    session: *const KilnSession,
    path: *const c_char,
    taken: *mut u64,
    refused: *mut u64,
) -> *mut KilnStatus {
    guard("kiln_session_load_records", || {
        let model = handle::get(session, "session")?;
        let loaded = load_records(&model.session, &seam::path(path, "path")?)?;
        seam::put_if_wanted(taken, loaded.taken);
        seam::put_if_wanted(refused, loaded.refused);
        Ok(())
    })
}

/// Writes the model at `path` as a packed model to the file `to`. kiln_session_load loads that file with the same
/// options on machines of the same kind. Writes the file's size to bytes; bytes may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_pack(
    path: *const c_char,
    to: *const c_char,
    options: *const KilnOptions,
    bytes: *mut u64,
) -> *mut KilnStatus {
    guard("kiln_pack", || {
        let (path, to) = (seam::path(path, "path")?, seam::path(to, "to")?);
        let report = Session::pack(&path, &to, &options::of_caller(options)?)?;
        seam::put_if_wanted(bytes, report.bytes);
        Ok(())
    })
}

/// Gives memory that no run uses back to the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_trim(session: *const KilnSession) -> *mut KilnStatus {
    guard("kiln_session_trim", || {
        handle::get(session, "session")?.session.trim();
        Ok(())
    })
}
