//! Suballocation of a device's memory: few large pieces of the driver, cut into regions.
//!
//! An allocation by a driver takes longer than most kernels, and freeing waits for all kernels. An [`Arena`] allocates
//! pieces that grow with the demand, allocates [`Region`]s in them (best fit), and joins neighbours that are freed. A
//! device's work runs in the order of its calls, so a region may be allocated again as soon as it is freed: the next
//! writer runs after the last reader. Requests of known shapes allocate in the same order each time, and get the same
//! addresses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{ALIGNMENT, Device};
use crate::error::{KernelError, Result};

/// Bytes of the first piece.
const FIRST: u64 = 32 << 20;

/// The contents of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaStats {
    /// Bytes of pieces.
    pub taken: u64,
    /// Bytes of regions now.
    pub lent: u64,
    /// The most bytes of regions at once.
    pub most_lent: u64,
    /// Pieces allocated on the device.
    pub pieces: u64,
}

/// The memory of one device, with a bound.
#[derive(Debug)]
pub struct Arena {
    device: Arc<dyn Device>,
    /// Most bytes of pieces.
    most: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Pieces: address, bytes.
    pieces: BTreeMap<u64, u64>,
    /// Free ranges: address, bytes. Ranges of two pieces are never joined.
    free: BTreeMap<u64, u64>,
    stats: ArenaStats,
}

/// Allocated memory, freed when it is dropped.
#[derive(Debug)]
pub struct Region {
    arena: Arc<Arena>,
    address: u64,
    /// Requested bytes.
    bytes: u64,
}

impl Region {
    /// Its address on the device.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks that it holds that many elements of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`KernelError::Bounds`], which names the operand.
    pub fn holds(&self, family: &'static str, operand: &'static str, elements: u64, size: u64) -> Result<()> {
        if elements.checked_mul(size).is_some_and(|need| need <= self.bytes) {
            return Ok(());
        }
        let [have, need] =
            [self.bytes / size.max(1), elements].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Err(KernelError::Bounds { family, operand, have, need })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.arena.give_back(self.address, rounded(self.bytes));
    }
}

fn rounded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(ALIGNMENT)
}

impl Arena {
    /// An arena of at most `most` bytes of a device's memory.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, most: u64) -> Arc<Arena> {
        Arc::new(Arena { device, most, state: Mutex::default() })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Its pieces and regions.
    #[must_use]
    pub fn stats(&self) -> ArenaStats {
        self.state().stats
    }

    /// Allocates memory, whose contents are arbitrary.
    ///
    /// # Errors
    ///
    /// [`KernelError::DeviceMemory`] where the bound or the device's memory is reached.
    pub fn take(self: &Arc<Arena>, bytes: u64) -> Result<Region> {
        // Sizes beyond any device's memory would overflow when they are rounded.
        if bytes > self.most {
            return Err(KernelError::DeviceMemory { need: bytes, room: self.most });
        }
        let need = rounded(bytes);
        let mut state = self.state();
        let address = match state.lend(need) {
            Some(address) => address,
            None => {
                self.grow(&mut state, need)?;
                state.lend(need).ok_or(KernelError::DeviceMemory { need, room: 0 })?
            }
        };
        state.stats.lent += need;
        state.stats.most_lent = state.stats.most_lent.max(state.stats.lent);
        drop(state);
        Ok(Region { arena: self.clone(), address, bytes })
    }

    /// Allocates another piece, half as large as all before it where the bound allows: pieces are few, and no more than
    /// half of what was taken is taken in advance.
    fn grow(&self, state: &mut State, need: u64) -> Result<()> {
        let room = self.most - state.stats.taken;
        if need > room {
            return Err(KernelError::DeviceMemory { need, room });
        }
        let wanted = need.max(state.stats.taken / 2).max(FIRST).min(room);
        let (bytes, address) = match self.device.reserve(wanted) {
            Ok(address) => (wanted, address),
            Err(_) if wanted > need => (need, self.device.reserve(need)?),
            Err(error) => return Err(error),
        };
        state.pieces.insert(address, bytes);
        state.free.insert(address, bytes);
        state.stats.taken += bytes;
        state.stats.pieces += 1;
        Ok(())
    }

    fn give_back(&self, address: u64, bytes: u64) {
        let mut state = self.state();
        state.stats.lent -= bytes;
        state.join(address, bytes);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for address in self.state().pieces.keys() {
            self.device.release(*address);
        }
    }
}

impl State {
    /// Takes the start of the smallest free range that is large enough; the rest of it stays free.
    fn lend(&mut self, need: u64) -> Option<u64> {
        let fits = self.free.iter().filter(|&(_, &bytes)| bytes >= need);
        let (&address, &bytes) = fits.min_by_key(|&(&address, &bytes)| (bytes, address))?;
        self.free.remove(&address);
        if bytes > need {
            self.free.insert(address + need, bytes - need);
        }
        Some(address)
    }

    /// Frees a range, joined with free neighbours in its piece.
    fn join(&mut self, mut address: u64, mut bytes: u64) {
        if let Some(next) =
            self.free.get(&(address + bytes)).copied().filter(|_| !self.pieces.contains_key(&(address + bytes)))
        {
            self.free.remove(&(address + bytes));
            bytes += next;
        }
        let before = self.free.range(..address).next_back().map(|(&start, &length)| (start, length));
        if let Some((start, length)) =
            before.filter(|&(start, length)| start + length == address && !self.pieces.contains_key(&address))
        {
            (address, bytes) = (start, bytes + length);
        }
        self.free.insert(address, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Blank;
    use super::*;

    fn arena(most: u64) -> Arc<Arena> {
        Arena::new(Arc::new(Blank::new(1 << 30)), most)
    }

    #[test]
    fn what_comes_back_is_joined_and_lent_again() {
        let arena = arena(1 << 30);
        let regions: Vec<Region> = (0..8).map(|_| arena.take(1000).unwrap()).collect();
        let first = regions[0].address();
        assert_eq!(arena.stats().lent, 8 * 1024);
        // Freed in random order.
        let mut regions: Vec<Option<Region>> = regions.into_iter().map(Some).collect();
        for index in [3, 0, 7, 1, 5, 2, 6, 4] {
            regions[index] = None;
        }
        assert_eq!(arena.stats(), ArenaStats { taken: FIRST, lent: 0, most_lent: 8 * 1024, pieces: 1 });
        assert_eq!(arena.take(FIRST).unwrap().address(), first, "all of it is one stretch again");
    }

    #[test]
    fn requests_of_the_same_shapes_find_the_same_places() {
        let arena = arena(1 << 30);
        let request = || {
            let one = arena.take(5 << 20).unwrap();
            let two = arena.take(3 << 20).unwrap();
            let first = one.address();
            drop(one);
            let three = arena.take(4 << 20).unwrap();
            [first, two.address(), three.address()]
        };
        let places = request();
        for _ in 0..100 {
            assert_eq!(request(), places);
        }
        assert_eq!(arena.stats().pieces, 1);
    }

    #[test]
    fn two_pieces_are_never_one_stretch_and_the_bound_holds() {
        let arena = arena(3 * FIRST);
        let one = arena.take(FIRST).unwrap();
        let two = arena.take(FIRST).unwrap();
        drop((one, two));
        let error = arena.take(2 * FIRST).unwrap_err();
        assert!(matches!(error, KernelError::DeviceMemory { room, .. } if room == FIRST), "{error}");
        assert!(arena.take(u64::MAX).is_err());
        assert!(arena.take(FIRST).is_ok());
    }

    #[test]
    fn a_device_with_less_than_the_bound_says_so_and_serves_what_fits() {
        let device = Arc::new(Blank::new(FIRST + (1 << 20)));
        let arena = Arena::new(device.clone(), 1 << 40);
        let held = arena.take(20 << 20).unwrap();
        let small = arena.take(1 << 20).unwrap();
        assert!(matches!(arena.take(30 << 20), Err(KernelError::DeviceMemory { .. })));
        drop((held, small, arena));
        assert_eq!(device.free_bytes().unwrap(), FIRST + (1 << 20), "an arena gives everything back");
    }

    #[test]
    fn regions_know_what_they_hold() {
        let arena = arena(1 << 30);
        let region = arena.take(100).unwrap();
        region.holds("test", "input", 25, 4).unwrap();
        assert!(matches!(region.holds("test", "input", 26, 4), Err(KernelError::Bounds { have: 25, need: 26, .. })));
        assert!(region.holds("test", "input", u64::MAX, 4).is_err());
    }
}
