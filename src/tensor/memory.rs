//! Aligned bytes from the system. Knows neither tensors nor pools.
//!
//! The smallest pieces come from the heap, small ones from slots of their size ([`super::slab`]). Large ones are pieces
//! of reserved address space, and present from the start: a page that a kernel touches first costs a fault, which would
//! be most of the time of a kernel that writes as fast as memory allows.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use kiln_kernels::extent::{Extent, Foreign, ForeignMut};
use kiln_kernels::memory::{Refused, try_with_capacity, unclaimed_bytes};

use super::slab::Slot;
use crate::fork::stay;
use crate::knobs;

/// One cache line, the unit and alignment of all tensor memory.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([u8; LINE]);

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Bytes from which on memory without a pool is mapped. Mapping smaller pieces would waste pages and calls; larger
/// pieces of always different sizes would leave gaps in the heap, which grew to 132 MB of which 21 were in use.
const MAPPED: usize = 1 << 16;

/// At least as many bytes as requested, rounded up to whole cache lines, and aligned to them.
#[derive(Debug)]
pub(super) enum Memory {
    /// From the heap.
    Heap(Vec<Line>),
    /// A slot for small tensors.
    Slot(Slot),
    /// A piece of reserved address space whose pages are present; or exactly the requested bytes, between pages that
    /// fault.
    Piece(Extent),
    /// A caller's, lent to be read and never written: who writes copies first ([`Memory::own`]).
    Foreign(Foreign),
    /// A caller's, lent to be written.
    ForeignMut(ForeignMut),
}

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

impl Default for Memory {
    fn default() -> Memory {
        Memory::Heap(Vec::new())
    }
}

impl Memory {
    /// That many bytes of zeros, rounded up to whole cache lines.
    ///
    /// # Errors
    ///
    /// Where the system has not as much, or the work of this thread is over before it is present.
    pub(super) fn zeroed(bytes: usize) -> Result<Memory, Refused> {
        if let Some(guarded) = Memory::guarded(bytes) {
            return Ok(guarded);
        }
        let lines = bytes.div_ceil(LINE);
        if lines * LINE >= MAPPED {
            return Memory::mapped(lines * LINE);
        }
        let mut memory = Memory::small(lines)?;
        memory.bytes_mut().fill(0);
        Ok(memory)
    }

    /// Exactly that many zeros between pages that fault; `None` if `KILN_GUARD` is off or the system gives no mapping.
    pub(super) fn guarded(bytes: usize) -> Option<Memory> {
        let flush = knobs::guard().filter(|_| bytes > 0)?;
        Extent::guarded(bytes, flush).ok().map(Memory::Piece)
    }

    /// That many lines and hardly more, with arbitrary contents; less than mapped memory.
    ///
    /// # Errors
    ///
    /// Where the system has not as much.
    pub(super) fn small(lines: usize) -> Result<Memory, Refused> {
        if let Some(slot) = Slot::take(lines * LINE) {
            return Ok(Memory::Slot(slot));
        }
        let mut heap = try_with_capacity(lines)?;
        heap.resize(lines, Line([0; LINE]));
        Ok(Memory::Heap(heap))
    }

    /// Mapped memory, whose pages are present.
    fn mapped(len: usize) -> Result<Memory, Refused> {
        let mut extent = reserve(len)?;
        // The rest of the last page is never touched, and is unmapped with the mapping.
        drop(extent.split_off(len));
        make_present(&mut extent)?;
        Ok(Memory::Piece(extent))
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Memory::Heap(lines) => bytemuck::cast_slice(lines),
            Memory::Slot(slot) => slot.bytes(),
            Memory::Piece(extent) => extent.bytes(),
            Memory::Foreign(foreign) => foreign.bytes(),
            Memory::ForeignMut(foreign) => foreign.bytes(),
        }
    }

    /// Makes a copy of memory that belongs to a caller, which may be written. Raises [`Refused`] where there is no
    /// memory for it.
    pub(super) fn own(&mut self) {
        if let Memory::Foreign(foreign) = self {
            let mut copy = Memory::zeroed(foreign.bytes().len()).unwrap_or_else(|refused| refused.raise());
            copy.bytes_mut()[..foreign.bytes().len()].copy_from_slice(foreign.bytes());
            *self = copy;
        }
    }

    /// All bytes, to be written; a caller's are copied first.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.own();
        match self {
            Memory::Heap(lines) => bytemuck::cast_slice_mut(lines),
            Memory::Slot(slot) => slot.bytes_mut(),
            Memory::Piece(extent) => extent.bytes_mut(),
            Memory::ForeignMut(foreign) => foreign.bytes_mut(),
            // A copy of its own was made above.
            Memory::Foreign(_) => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::extent::HUGE_PAGE;

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

    #[test]
    fn memory_of_any_size_is_aligned_whole_lines_of_zeros() {
        for bytes in [0, 1, 64, 65, 1023, 1024, 5000, MAPPED - 1, MAPPED, HUGE_PAGE - 1, 3 << 20, (3 << 20) + 1] {
            let mut memory = Memory::zeroed(bytes).unwrap();
            let lines = bytes.next_multiple_of(LINE);
            assert!((lines..=lines + lines / 8).contains(&memory.bytes().len()), "{bytes}");
            assert_eq!(memory.bytes().as_ptr().addr() % LINE, 0);
            assert!(memory.bytes().iter().all(|&byte| byte == 0));
            memory.bytes_mut().fill(1);
            assert!(memory.bytes().iter().all(|&byte| byte == 1));
        }
    }
}
