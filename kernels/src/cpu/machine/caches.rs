//! Sizes of the first core's caches, as Linux reports them.

use std::fs::read_to_string;
use std::path::Path;
use std::sync::OnceLock;

/// Bytes of data caches; 0 for a level that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// A core's L1.
    pub l1: usize,
    /// A core's L2.
    pub l2: usize,
    /// The L3 that the core shares.
    pub l3: usize,
}

/// Where the system reports none: the smallest caches of processors with AVX2.
const UNKNOWN: Caches = Caches { l1: 32 << 10, l2: 256 << 10, l3: 4 << 20 };

/// No cache is larger: a file that says more is wrong.
const MOST: usize = 4 << 30;

impl Caches {
    /// The caches of this machine, read once a process.
    #[must_use]
    pub fn of_machine() -> Caches {
        static READ: OnceLock<Caches> = OnceLock::new();
        *READ.get_or_init(Caches::of_system)
    }

    /// Bytes that a thread may prefetch before its work begins: half of L2, which also holds what runs until then.
    #[must_use]
    pub fn room_ahead(&self) -> usize {
        self.l2 / 2
    }

    /// The caches of this machine, as the system reports them now.
    fn of_system() -> Caches {
        Caches::told(|file| read_to_string(Path::new("/sys/devices/system/cpu/cpu0/cache").join(file)).ok())
    }

    /// The caches that the files of a folder report.
    fn told(read: impl Fn(&str) -> Option<String>) -> Caches {
        let mut told = Caches { l1: 0, l2: 0, l3: 0 };
        for index in 0..16 {
            let of = |name: &str| read(&format!("index{index}/{name}"));
            let Some(level) = of("level") else { break };
            let to = match level.trim() {
                "1" => &mut told.l1,
                "2" => &mut told.l2,
                "3" => &mut told.l3,
                _ => continue,
            };
            if of("type").is_some_and(|kind| kind.trim() != "Instruction") {
                *to = of("size").and_then(|size| bytes(&size)).unwrap_or(*to);
            }
        }
        // Without L3, a processor's L1 and L2 must still be known.
        if told.l1 == 0 || told.l2 == 0 { UNKNOWN } else { told }
    }
}

/// Bytes of `48K` or `32M`.
fn bytes(size: &str) -> Option<usize> {
    let size = size.trim();
    let (digits, unit) = match size.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => (size.strip_suffix('M')?, 1 << 20),
    };
    digits.parse::<usize>().ok()?.checked_mul(unit).filter(|bytes| (1..=MOST).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_linux_writes_them() {
        assert_eq!(["48K\n", "2048K", "32M"].map(bytes), [Some(48 << 10), Some(2 << 20), Some(32 << 20)]);
        for hostile in ["", "K", "0K", "-1K", "7", "5G", "18446744073709551615M", "99999999K"] {
            assert_eq!(bytes(hostile), None, "{hostile}");
        }
    }

    #[test]
    fn each_level_has_its_data_cache_and_unknown_ones_a_guess() {
        let all = [
            ("index0", "1", "Data", "48K"),
            ("index1", "1", "Instruction", "64K"),
            ("index2", "2", "Unified", "2048K"),
            ("index3", "3", "Unified", "32M"),
        ];
        let told = |caches: &[(&str, &str, &str, &str)]| {
            Caches::told(|file| {
                let (index, name) = file.split_once('/')?;
                let &(_, level, kind, size) = caches.iter().find(|cache| cache.0 == index)?;
                Some(format!(
                    "{}\n",
                    [("level", level), ("type", kind), ("size", size)].iter().find(|f| f.0 == name)?.1
                ))
            })
        };
        assert_eq!(told(&[]), UNKNOWN);
        assert_eq!(told(&all[..2]), UNKNOWN, "L2 is not known");
        assert_eq!(told(&all[..3]), Caches { l1: 48 << 10, l2: 2 << 20, l3: 0 });
        assert_eq!(told(&all), Caches { l1: 48 << 10, l2: 2 << 20, l3: 32 << 20 });
        assert!(Caches::of_system().l2 >= Caches::of_system().l1);
    }
}
