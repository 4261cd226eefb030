//! Counts of what a session sends to its device and gets back.

use std::sync::atomic::{AtomicU64, Ordering};

/// Copies in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// How many.
    pub copies: u64,
    /// Bytes of all copies.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Counter {
    copies: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    fn count(&self, bytes: u64) {
        self.copies.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> Copies {
        Copies { copies: self.copies.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Copies in both directions. A read may see a copy that is counted meanwhile in part.
#[derive(Debug, Default)]
pub struct Traffic {
    to_device: Counter,
    to_host: Counter,
}

impl Traffic {
    /// Counts a copy to the device.
    pub fn count_to_device(&self, bytes: u64) {
        self.to_device.count(bytes);
    }

    /// Counts a copy from the device.
    pub fn count_to_host(&self, bytes: u64) {
        self.to_host.count(bytes);
    }

    /// Copies to the device until now.
    #[must_use]
    pub fn to_device(&self) -> Copies {
        self.to_device.read()
    }

    /// Copies from the device until now.
    #[must_use]
    pub fn to_host(&self) -> Copies {
        self.to_host.read()
    }
}
