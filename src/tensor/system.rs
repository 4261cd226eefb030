//! What the system has of memory and gives of it: reserved address space, pages that are present, and the limits that
//! hold for both.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use kiln_kernels::extent::Extent;
use kiln_kernels::memory::{Refused, unclaimed_bytes};

use crate::fork::stay;

/// Bytes from which on memory is held against what the machine has left before its pages are made present: asking takes
/// a thousandth of that time.
const HELD_AGAINST_MACHINE: usize = 64 << 20;

/// Reserves address space, of which some is always left for what is not a tensor.
///
/// # Errors
///
/// Where there is not as much.
pub(super) fn reserve(bytes: usize) -> Result<Extent, Refused> {
    let refused = Refused::System { bytes };
    if bytes > unclaimed_bytes() { Err(refused) } else { Extent::reserve(bytes).map_err(|_| refused) }
}

/// Makes all pages of an extent present.
///
/// # Errors
///
/// Where they are more than the machine has left, or the work of this thread is over before they are present.
pub(super) fn make_present(extent: &mut Extent) -> Result<(), Refused> {
    let bytes = extent.len();
    if bytes >= HELD_AGAINST_MACHINE && bytes > available_bytes() {
        return Err(Refused::System { bytes });
    }
    extent.populate()
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
/// or what limits of the process on address space and data (`ulimit -v`, `ulimit -d`) leave; `usize::MAX` if the system
/// says none of them.
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

/// The least limit of the memory of a process in these control groups (the text of `/proc/self/cgroup`) and those
/// around them, of either version of the system's interface. In a container, paths may begin at the container's own
/// group, which is then where the groups are mounted.
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
