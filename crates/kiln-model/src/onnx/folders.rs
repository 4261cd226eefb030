//! Opening files in a model's folders by paths that the model names.
//!
//! A path is walked one component at a time, each relative to the folder before it, which is open. The system follows
//! no link: a link is read, and its target is walked in the same way. So the walk ends at an open folder and a single
//! name in it. Where links were passed, that folder must be one of the allowed ones, or below one. This is checked by
//! walking up from its descriptor, without looking up a name again. Folders on the way are opened as places only, never
//! for reading.

use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::ExternalProblem;
use super::error::shown;

/// Most symbolic links that one path may pass. The hub's layout has one.
const LINKS: usize = 8;

/// Most folders between a file and the root.
const DEPTH: usize = 4096;

/// A folder as a place: it can be walked through and is not read.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The folders that a model's files may be in.
#[derive(Debug)]
pub struct Folders {
    /// The folder of the model's path as it was named, where the paths in the model begin.
    named: PathBuf,
    model: Option<ModelFile>,
    opened: Option<Opened>,
}

/// The model's own file.
#[derive(Debug)]
struct ModelFile {
    path: PathBuf,
    identity: Identity,
}

/// The folders, open.
#[derive(Debug)]
struct Opened {
    start: OwnedFd,
    /// The first folder, and that of the model's real file if it is another. The descriptors are kept so that no other
    /// folder gets their numbers.
    allowed: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    _folder: OwnedFd,
    identity: Identity,
}

/// A regular file that has one name, open to be read.
#[derive(Debug)]
pub struct Single {
    /// The file.
    pub file: File,
    /// What the system says of it.
    pub info: Metadata,
}

/// The identity of a file or folder, whatever its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The identity of an open file or folder.
    pub(super) fn of(info: &std::fs::Metadata) -> Identity {
        Identity { device: info.dev(), inode: info.ino() }
    }

    fn of_place(folder: &OwnedFd) -> Result<Identity, Errno> {
        fstat(folder).map(|info| Identity { device: info.st_dev, inode: info.st_ino })
    }
}

impl Folders {
    /// A folder alone.
    pub(super) fn one(folder: &Path) -> Folders {
        Folders { named: folder.to_owned(), model: None, opened: None }
    }

    /// The folder of a model's path, and that of the real file where the path is a link. `file` is the file that was
    /// opened by this path.
    pub fn of_model(path: &Path, file: &File) -> Option<Folders> {
        let named = path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
        let identity = Identity::of(&file.metadata().ok()?);
        let model = Some(ModelFile { path: path.to_owned(), identity });
        Some(Folders { named: named.to_owned(), model, opened: None })
    }

    /// Opens the file of a location, which must be a regular file with one name.
    pub fn open_single(&mut self, location: &str) -> Result<Single, ExternalProblem> {
        let file = self.open(location)?;
        let info = file.metadata().map_err(|source| ExternalProblem::Io { location: shown(location), source })?;
        if !info.is_file() {
            return Err(ExternalProblem::NotAFile(shown(location)));
        }
        if info.nlink() != 1 {
            return Err(ExternalProblem::HardLink(shown(location)));
        }
        Ok(Single { file, info })
    }

    /// Opens the file of a location, without blocking as on a pipe. The caller checks what kind of file it is.
    fn open(&mut self, location: &str) -> Result<File, ExternalProblem> {
        let io = |errno: Errno| ExternalProblem::Io { location: shown(location), source: errno.into() };
        let refused = || ExternalProblem::Location(shown(location));
        if location.starts_with('/') || location.contains('\0') || location.split('/').any(|part| part == "..") {
            return Err(refused());
        }
        let mut ahead: Vec<Vec<u8>> = Vec::new();
        push(&mut ahead, location.as_bytes());
        if ahead.is_empty() {
            return Err(refused());
        }
        let opened = self.opened().map_err(io)?;
        let mut at = openat(&opened.start, c".", PLACE, Mode::empty()).map_err(io)?;
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            match readlinkat(&at, part.as_slice(), Vec::new()) {
                Ok(target) => {
                    links += 1;
                    if links > LINKS {
                        return Err(ExternalProblem::Links { location: shown(location), most: LINKS });
                    }
                    if target.as_bytes().starts_with(b"/") {
                        at = openat(CWD, c"/", PLACE, Mode::empty()).map_err(io)?;
                    }
                    push(&mut ahead, target.as_bytes());
                }
                // The last component is no link.
                Err(Errno::INVAL) if ahead.is_empty() && part != b".." => {
                    if links > 0 && !opened.holds(&at).map_err(io)? {
                        return Err(ExternalProblem::Outside(shown(location)));
                    }
                    // A link that has taken its place since is an error here.
                    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
                    return openat(&at, part.as_slice(), flags, Mode::empty()).map(File::from).map_err(io);
                }
                Err(Errno::INVAL) => {
                    at = openat(&at, part.as_slice(), PLACE | OFlags::NOFOLLOW, Mode::empty()).map_err(io)?;
                }
                Err(errno) => return Err(io(errno)),
            }
        }
        // The path ends in a folder, as a link to ".." does.
        Err(ExternalProblem::NotAFile(shown(location)))
    }

    fn opened(&mut self) -> Result<&Opened, Errno> {
        if self.opened.is_none() {
            let start = openat(CWD, &self.named, PLACE, Mode::empty())?;
            let folder = openat(&start, c".", PLACE, Mode::empty())?;
            let mut allowed = vec![Place { identity: Identity::of_place(&folder)?, _folder: folder }];
            allowed.extend(self.model.as_ref().and_then(ModelFile::folder));
            self.opened = Some(Opened { start, allowed });
        }
        self.opened.as_ref().ok_or(Errno::BADF)
    }
}

impl ModelFile {
    /// The folder of the real file. `None` if the path leads to another file by now.
    fn folder(&self) -> Option<Place> {
        let real = std::fs::canonicalize(&self.path).ok()?;
        let folder = openat(CWD, real.parent()?, PLACE, Mode::empty()).ok()?;
        let file = statat(&folder, real.file_name()?, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let found = Identity { device: file.st_dev, inode: file.st_ino };
        let identity = Identity::of_place(&folder).ok()?;
        (found == self.identity).then_some(Place { _folder: folder, identity })
    }
}

impl Opened {
    /// Whether an open folder is one of the allowed ones or below one.
    fn holds(&self, folder: &OwnedFd) -> Result<bool, Errno> {
        let mut at = openat(folder, c".", PLACE, Mode::empty())?;
        let mut own = Identity::of_place(&at)?;
        for _ in 0..DEPTH {
            if self.allowed.iter().any(|place| place.identity == own) {
                return Ok(true);
            }
            at = openat(&at, c"..", PLACE, Mode::empty())?;
            let above = Identity::of_place(&at)?;
            if above == own {
                break;
            }
            own = above;
        }
        Ok(false)
    }
}

/// Puts the components of a path on a stack, the first on top.
fn push(ahead: &mut Vec<Vec<u8>>, path: &[u8]) {
    let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    ahead.extend(parts.rev().map(<[u8]>::to_vec));
}
