//! Memory from the system: reserved address space, present pages, and the limits of both.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use kiln_fork::stay;
use kiln_kernels::extent::{Extent, leaving};
use kiln_kernels::memory::{Refused, ceiling, is_over, unclaimed_bytes};

/// From this many bytes on, memory is compared with the machine's free memory before its pages are made present: the
/// check takes a thousandth of that time.
const HELD_AGAINST_MACHINE: usize = 64 << 20;

/// New memory and memory on its way back may together be this part of [`installed_bytes`]; otherwise some is given back
/// first.
const SHARE: usize = 2;

/// Reserves address space; some is always left for uses other than tensors.
///
/// # Errors
///
/// Where there is too little.
pub(super) fn reserve(bytes: usize) -> Result<Extent, Refused> {
    loop {
        let fits = bytes <= unclaimed_bytes();
        match fits.then(|| Extent::reserve(bytes)) {
            Some(Ok(extent)) => return Ok(extent),
            // Mappings on their way back to the system still take addresses.
            _ if leaving::unmap() => {}
            _ => return Err(Refused::System { bytes }),
        }
    }
}

/// Pages that were to be present and are not.
#[derive(Debug)]
pub(super) struct Missing {
    /// Bytes from the first on whose pages are present.
    pub(super) present: usize,
    /// Why the others are not.
    pub(super) refused: Refused,
}

/// Makes all pages of an extent present.
///
/// # Errors
///
/// Where the machine has too little memory left, or this thread's work is ended before all pages are present.
pub(super) fn make_present(extent: &mut Extent) -> Result<(), Missing> {
    let bytes = extent.len();
    if bytes >= HELD_AGAINST_MACHINE {
        check_machine(bytes).map_err(|refused| Missing { present: 0, refused })?;
    }
    // Memory that dropped pools have left on its way back is no longer counted, but still there.
    while ceiling::limit().is_some_and(|limit| ceiling::bytes() + leaving::bytes() > limit) && leaving::give_piece() {
        if is_over() {
            return Err(Missing { present: 0, refused: Refused::Over { bytes } });
        }
    }
    match extent.populate_wanted() {
        present if present < bytes => Err(Missing { present, refused: Refused::Over { bytes } }),
        _ => Ok(()),
    }
}

/// Compares much memory with the memory that the machine has left. Memory on its way back counts as taken; this thread
/// gives back as much of it as is needed.
fn check_machine(bytes: usize) -> Result<(), Refused> {
    let is_early = || {
        let leaving = leaving::bytes();
        leaving > 0 && (bytes + leaving > installed_bytes() / SHARE || bytes > available_bytes())
    };
    while is_early() && leaving::give_piece() {
        if is_over() {
            return Err(Refused::Over { bytes });
        }
    }
    if bytes > available_bytes() { Err(Refused::System { bytes }) } else { Ok(()) }
}

/// Bytes that the machine can give without taking them from other programs; `usize::MAX` if it does not say.
fn available_bytes() -> usize {
    meminfo("MemAvailable:").unwrap_or(usize::MAX)
}

/// A field of the system's account of its memory, in bytes.
fn meminfo(field: &str) -> Option<usize> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let rest = told.lines().find_map(|line| line.strip_prefix(field))?;
    Some(rest.split_whitespace().next()?.parse::<usize>().ok()?.saturating_mul(1024))
}

/// Bytes of memory that tensors of this process may take: the machine's, its control group's limit where that is less,
/// or the rest under the process's limits on address space and data (`ulimit -v`, `ulimit -d`); `usize::MAX` if the
/// system tells none of these.
#[must_use]
pub fn installed_bytes() -> usize {
    physical_bytes().min(unclaimed_bytes())
}

/// The machine's memory, or its control group's limit where that is less.
fn physical_bytes() -> usize {
    static INSTALLED: LazyLock<usize> = LazyLock::new(|| {
        let machine = meminfo("MemTotal:").unwrap_or(usize::MAX);
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        machine.min(group_limit(&groups, |path| std::fs::read_to_string(path).ok()).unwrap_or(usize::MAX))
    });
    let _stay = stay();
    *INSTALLED
}

/// The least memory limit of a process in these control groups (the text of `/proc/self/cgroup`) and their parents, in
/// either version of cgroups. In a container, paths may begin at the container's own group, which is then where the
/// groups are mounted.
fn group_limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let limit = |file: PathBuf| read(&file)?.trim().parse::<usize>().ok();
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let around = Path::new(path.trim_start_matches('/')).ancestors();
        around.filter_map(|group| limit(Path::new(mount).join(group).join(file))).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_limit_memory_together_with_those_around_them() {
        let files = |path: &Path| {
            let text = match path.to_str().unwrap() {
                "/sys/fs/cgroup/pod/memory.max" => "3000\n",
                "/sys/fs/cgroup/pod/box/memory.max" => "max\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "5000\n",
                "/sys/fs/cgroup/memory/old/memory.limit_in_bytes" => "9223372036854771712\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        assert_eq!(group_limit("0::/pod/box\n", files), Some(3000));
        assert_eq!(group_limit("5:cpu,memory:/old\n4:cpu:/pod\n", files), Some(5000));
        assert_eq!(group_limit("0::/pod\n5:memory:/unseen\n", files), Some(3000));
        assert_eq!(group_limit("0::/other/../..\n4:cpu:/pod\nnonsense\n", files), None);
        assert_eq!(group_limit("", files), None);
    }
}
