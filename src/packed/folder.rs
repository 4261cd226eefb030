//! Packed models that are kept beside the records: found by the file that a model is in, and bounded in bytes.
//!
//! A *note* maps a model's files, identified by device, inode, length and times of change, to their packed model. So a
//! look-up reads no weights, and a changed file counts as another model. Packed models are named by a digest of the
//! model's bytes: copies of a model share one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kiln_kernels::extent::FileId;
use kiln_run::record::{decode_long, encode_long};
use serde::{Deserialize, Serialize};

use super::{MadeFor, PackedError};

/// The suffix of packed models.
const SUFFIX: &str = ".kpk";

/// The suffix of notes.
const NOTE: &str = ".note";

/// The suffix of marks of verified files.
const SEEN: &str = ".seen";

/// An older mark is renewed when its file is used.
const REMEMBERED: Duration = Duration::from_secs(90 * 86_400);

/// Unfinished files that are older belong to no process any more.
const STALE: Duration = Duration::from_secs(3600);

/// Bytes that are digested at a time.
const PIECE: usize = 1 << 20;

/// Most bytes of a note.
const NOTE_BYTES: u64 = 1 << 20;

/// A folder of packed models.
#[derive(Clone, Debug)]
pub struct PackFolder {
    path: PathBuf,
    /// Most bytes of packed models in it.
    most: u64,
}

/// The files of a model, as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files(Vec<(PathBuf, FileId)>);

/// Which packed model belongs to a model's files.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    files: Files,
    /// The packed model's name in the folder.
    name: String,
    /// The identity of that file when its data was last verified.
    verified: FileId,
}

/// A packed model that was found.
#[derive(Debug)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Whether its data has been verified since the file was last changed.
    pub verified: bool,
    /// The model's files as they are.
    pub files: Files,
    note: PathBuf,
}

impl Files {
    /// A model's file and those that it names.
    ///
    /// # Errors
    ///
    /// The system's, for a file that cannot be inspected.
    pub fn of<'a>(model: &Path, others: impl IntoIterator<Item = &'a Path>) -> Result<Files, PackedError> {
        let model = fs::canonicalize(model).map_err(PackedError::io("find", model))?;
        let mut paths = vec![model];
        for other in others {
            let other = fs::canonicalize(other).map_err(PackedError::io("find", other))?;
            if !paths.contains(&other) {
                paths.push(other);
            }
        }
        let id = |path: PathBuf| {
            let metadata = fs::metadata(&path).map_err(PackedError::io("look at", &path))?;
            Ok((path, FileId::of(&metadata)))
        };
        paths.into_iter().map(id).collect::<Result<_, _>>().map(Files)
    }

    /// The model's main file.
    #[must_use]
    pub fn model(&self) -> &Path {
        self.0.first().map_or(Path::new(""), |(path, _)| path)
    }

    /// Whether they have not changed.
    #[must_use]
    pub fn are_unchanged(&self) -> bool {
        self.0.iter().all(|(path, id)| fs::metadata(path).is_ok_and(|metadata| FileId::of(&metadata) == *id))
    }

    /// A digest of all their bytes.
    ///
    /// # Errors
    ///
    /// The system's, for a file that cannot be read.
    pub fn digest(&self) -> Result<blake3::Hash, PackedError> {
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE];
        for (at, (path, id)) in self.0.iter().enumerate() {
            // The paths of the other files are a part of the model's own bytes.
            hasher.update(&(at as u64).to_le_bytes()).update(&id.len.to_le_bytes());
            let io = PackedError::io("read", path);
            let mut file = File::open(path).map_err(&io)?;
            loop {
                match file.read(&mut piece).map_err(&io)? {
                    0 => break,
                    read => hasher.update(&piece[..read]),
                };
            }
        }
        Ok(hasher.finalize())
    }
}

impl PackFolder {
    /// The folder beside those records, for at most `most` bytes of packed models.
    #[must_use]
    pub fn beside(records: &Path, most: u64) -> PackFolder {
        PackFolder { path: records.join("packed"), most }
    }

    /// The note of a model's main file.
    fn note(&self, model: &Path, id: &FileId, made_for: &MadeFor) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(model.as_os_str().as_encoded_bytes()).update(format!("{id:?} {made_for:?}").as_bytes());
        self.path.join(format!("{}{NOTE}", &hasher.finalize().to_hex()[..32]))
    }

    /// The packed model of the model at that path, if its files are as they were when it was made.
    #[must_use]
    pub fn find(&self, model: &Path, made_for: &MadeFor) -> Option<Found> {
        let files = Files::of(model, []).ok()?;
        let (path, id) = files.0.first()?;
        let place = self.note(path, id, made_for);
        let note = read(&place)?;
        let packed = self.path.join(&note.name);
        let metadata = fs::metadata(&packed).ok()?;
        let is_plain = Path::new(&note.name).file_name().is_some_and(|name| name == note.name.as_str());
        if !is_plain || note.files.0.first() != Some(&(path.clone(), *id)) || !note.files.are_unchanged() {
            return None;
        }
        // Notes the last use. A user without write permission can still read.
        let _ = File::open(&place).and_then(|note| note.set_modified(SystemTime::now()));
        Some(Found { path: packed, verified: FileId::of(&metadata) == note.verified, files: note.files, note: place })
    }

    /// Notes that the data of a packed model has been verified.
    pub fn verified(&self, found: &Found) {
        let renewed = read(&found.note).zip(fs::metadata(&found.path).ok());
        if let Some((note, metadata)) = renewed {
            let _ = self.write(&found.note, &Note { verified: FileId::of(&metadata), ..note });
        }
    }

    /// Whether the data of a file and of the files that it refers to has been verified since they last changed.
    #[must_use]
    pub fn has_seen(&self, ids: &[FileId]) -> bool {
        let (place, contents) = self.mark(ids);
        fs::read(place).is_ok_and(|found| found == contents.as_bytes())
    }

    /// Notes that the data of a file and of the files that it refers to has been verified.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn see(&self, ids: &[FileId]) -> Result<(), PackedError> {
        self.make()?;
        let (place, contents) = self.mark(ids);
        fs::write(&place, contents.as_bytes()).map_err(PackedError::io("write", &place))
    }

    /// The path of a verified file's mark, and its contents.
    fn mark(&self, ids: &[FileId]) -> (PathBuf, blake3::Hash) {
        let digest = blake3::hash(format!("{ids:?}").as_bytes());
        (self.path.join(format!("{}{SEEN}", &digest.to_hex()[..32])), digest)
    }

    /// Makes the folder, which other users cannot write.
    fn make(&self) -> Result<(), PackedError> {
        let io = PackedError::io("make", &self.path);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(&io)?;
        let owned = fs::metadata(&self.path).map_err(&io)?;
        if owned.uid() != rustix::process::geteuid().as_raw() || owned.mode() & 0o022 != 0 {
            return Err(PackedError::Unsupported(format!("others may write in {}", self.path.display())));
        }
        Ok(())
    }

    /// Forgets a packed model that cannot be used.
    pub fn forget(&self, found: &Found) {
        for path in [&found.note, &found.path] {
            let _ = fs::remove_file(path);
        }
    }

    /// Keeps the packed model of these files, unless there is one already. `write` writes it to a given path. Returns
    /// whether it was written: it is not if another process is writing it, or if it is larger than the folder's limit.
    ///
    /// # Errors
    ///
    /// The system's; those of `write`. The folder is then unchanged.
    pub fn keep<E: From<PackedError>>(
        &self,
        files: &Files,
        made_for: &MadeFor,
        write: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.make()?;
        let (Some((model, id)), true) = (files.0.first(), files.are_unchanged()) else { return Ok(false) };
        let place = self.note(model, id, made_for);
        let digits = blake3::hash(format!("{made_for:?}").as_bytes()).to_hex();
        let name = format!("{}-{}{SUFFIX}", &files.digest()?.to_hex()[..32], &digits[..16]);
        let packed = self.path.join(&name);
        let lock = self.path.join(format!("{name}.lock"));
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let lock = opened.map_err(PackedError::io("lock", &lock))?;
        if lock.try_lock().is_err() {
            return Ok(false);
        }
        let is_new = !packed.exists();
        if is_new {
            write(&packed)?;
        }
        let metadata = fs::metadata(&packed).map_err(PackedError::io("look at", &packed))?;
        if !files.are_unchanged() || metadata.len() > self.most {
            let _ = fs::remove_file(&packed);
            return Ok(false);
        }
        // Data that another process has written has not been verified here.
        let verified = if is_new { FileId::of(&metadata) } else { FileId { inode: 0, ..FileId::of(&metadata) } };
        self.write(&place, &Note { files: files.clone(), name: name.clone(), verified })?;
        self.make_room(&name);
        Ok(is_new)
    }

    fn write(&self, path: &Path, note: &Note) -> Result<(), PackedError> {
        let bytes = encode_long(note).map_err(|error| PackedError::Unsupported(error.to_string()))?;
        let io = PackedError::io("write", path);
        let mut aside = tempfile::NamedTempFile::new_in(&self.path).map_err(&io)?;
        aside.write_all(blake3::hash(&bytes).as_bytes()).map_err(&io)?;
        aside.write_all(&bytes).map_err(&io)?;
        aside.persist(path).map_err(|error| io(error.error))?;
        Ok(())
    }

    /// Removes the least recently used packed models until the rest fits, files that ended processes have left, and
    /// notes of packed models that are gone.
    fn make_room(&self, newest: &str) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let (mut packed, mut notes) = (Vec::new(), Vec::new());
        for entry in entries.flatten() {
            let (name, Ok(metadata)) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata()) else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if name.ends_with(SUFFIX) {
                packed.push((used, name, metadata.len()));
            } else if name.ends_with(NOTE) {
                notes.push((used, read(&entry.path()).map(|note| note.name), entry.path()));
            } else if used.elapsed().is_ok_and(|age| age > if name.ends_with(SEEN) { REMEMBERED } else { STALE }) {
                let _ = fs::remove_file(entry.path());
            }
        }
        for (used, name, _) in &mut packed {
            let of_it = notes.iter().filter(|(_, of, _)| of.as_ref() == Some(name)).map(|(used, ..)| *used);
            *used = of_it.max().unwrap_or(*used);
        }
        packed.sort_unstable();
        let mut bytes: u64 = packed.iter().map(|(.., len)| len).sum();
        packed.retain(|(_, name, len)| {
            let goes = bytes > self.most && name != newest;
            if goes {
                bytes -= len;
                let _ = fs::remove_file(self.path.join(name));
            }
            !goes
        });
        for (_, of, path) in &notes {
            if !of.as_ref().is_some_and(|of| packed.iter().any(|(_, name, _)| name == of)) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Reads a note; `None` where it is not whole.
fn read(path: &Path) -> Option<Note> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(NOTE_BYTES).read_to_end(&mut bytes).ok()?;
    let (digest, note) = bytes.split_at_checked(32)?;
    (blake3::hash(note) == *digest).then(|| decode_long(note).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_for(level: &str) -> MadeFor {
        MadeFor(vec![("isa".to_owned(), level.to_owned())])
    }

    struct Kept {
        folder: tempfile::TempDir,
        packed: PackFolder,
    }

    impl Kept {
        fn new(most: u64) -> Kept {
            let folder = tempfile::tempdir().unwrap();
            let packed = PackFolder::beside(folder.path(), most);
            Kept { folder, packed }
        }

        fn model(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        }

        fn keep(&self, model: &Path, level: &str, bytes: usize) -> bool {
            let files = Files::of(model, []).unwrap();
            let write = |path: &Path| fs::write(path, vec![7; bytes]).map_err(PackedError::io("write", path));
            self.packed.keep(&files, &made_for(level), write).unwrap()
        }

        fn find(&self, model: &Path, level: &str) -> Option<Found> {
            self.packed.find(model, &made_for(level))
        }
    }

    #[test]
    fn a_packed_model_is_found_while_its_files_are_as_they_were() {
        let kept = Kept::new(1 << 20);
        let model = kept.model("model.onnx", b"one");
        assert!(kept.find(&model, "avx2").is_none());
        assert!(kept.keep(&model, "avx2", 100));
        let found = kept.find(&model, "avx2").unwrap();
        assert!(found.verified && fs::metadata(&found.path).unwrap().len() == 100);
        assert!(kept.find(&model, "avx512").is_none(), "for another level");
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&model, b"two").unwrap();
        assert!(kept.find(&model, "avx2").is_none(), "other bytes of the same length");
    }

    #[test]
    fn copies_of_a_model_share_one_which_each_verifies() {
        let kept = Kept::new(1 << 20);
        let (model, copy) = (kept.model("model.onnx", b"same"), kept.model("copy.onnx", b"same"));
        assert!(kept.keep(&model, "avx2", 100));
        assert!(!kept.keep(&copy, "avx2", 1), "it is there");
        let found = kept.find(&copy, "avx2").unwrap();
        assert_eq!(found.path, kept.find(&model, "avx2").unwrap().path);
        assert!(!found.verified);
        kept.packed.verified(&found);
        assert!(kept.find(&copy, "avx2").unwrap().verified);
    }

    #[test]
    fn other_files_of_a_model_count_too() {
        let kept = Kept::new(1 << 20);
        let (model, weights) = (kept.model("model.onnx", b"graph"), kept.model("weights.bin", b"numbers"));
        let files = Files::of(&model, [weights.as_path(), model.as_path()]).unwrap();
        let write = |path: &Path| fs::write(path, b"packed").map_err(PackedError::io("write", path));
        assert!(kept.packed.keep(&files, &made_for("avx2"), write).unwrap());
        assert!(kept.find(&model, "avx2").is_some());
        fs::remove_file(&weights).unwrap();
        assert!(kept.find(&model, "avx2").is_none());
        assert!(Files::of(&model, [weights.as_path()]).is_err());
    }

    #[test]
    fn what_was_used_least_recently_goes_first() {
        let kept = Kept::new(250);
        let models = ["a", "b", "c"].map(|name| kept.model(name, name.as_bytes()));
        assert!(kept.keep(&models[0], "avx2", 100));
        std::thread::sleep(Duration::from_millis(20));
        assert!(kept.keep(&models[1], "avx2", 100));
        std::thread::sleep(Duration::from_millis(20));
        assert!(kept.find(&models[0], "avx2").is_some());
        assert!(kept.keep(&models[2], "avx2", 100));
        assert!(kept.find(&models[0], "avx2").is_some() && kept.find(&models[2], "avx2").is_some());
        assert!(kept.find(&models[1], "avx2").is_none());
        let large = kept.model("d", b"d");
        assert!(!kept.keep(&large, "avx2", 251), "larger than all that may be kept");
        assert!(kept.find(&models[0], "avx2").is_some());
    }

    #[test]
    fn a_damaged_note_and_a_folder_of_others_are_not_trusted() {
        let kept = Kept::new(1 << 20);
        let model = kept.model("model.onnx", b"one");
        assert!(kept.keep(&model, "avx2", 100));
        let note = kept.find(&model, "avx2").unwrap().note;
        let mut bytes = fs::read(&note).unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 4;
            fs::write(&note, &bytes).unwrap();
            assert!(kept.find(&model, "avx2").is_none(), "byte {at}");
            bytes[at] ^= 4;
        }
        fs::write(&note, &bytes).unwrap();
        let found = kept.find(&model, "avx2").unwrap();
        kept.packed.forget(&found);
        assert!(kept.find(&model, "avx2").is_none());
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&kept.packed.path, fs::Permissions::from_mode(0o777)).unwrap();
        let files = Files::of(&model, []).unwrap();
        let refused = kept.packed.keep(&files, &made_for("avx2"), |_| Ok::<(), PackedError>(()));
        assert!(refused.unwrap_err().to_string().contains("others may write"));
    }
}
