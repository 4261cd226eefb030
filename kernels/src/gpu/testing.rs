//! A device that has nothing but addresses, for tests that need no more.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{ALIGNMENT, Algorithm, Device, DeviceFacts, Heuristic, Module, Policy, Problem, Region, Solver, Source};
use crate::error::{KernelError, Result};

/// `room` bytes of memory, without contents.
#[derive(Debug)]
pub(super) struct Blank {
    facts: DeviceFacts,
    room: u64,
    taken: Mutex<BTreeMap<u64, u64>>,
}

impl Blank {
    pub(super) fn new(room: u64) -> Blank {
        Blank { facts: DeviceFacts::default(), room, taken: Mutex::default() }
    }
}

fn nothing<T>(call: &'static str) -> Result<T> {
    Err(KernelError::Device { call, reason: "there is nothing but addresses".to_owned() })
}

impl Device for Blank {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn reserve(&self, bytes: u64) -> Result<u64> {
        let room = self.free_bytes()?;
        if bytes > room {
            return Err(KernelError::DeviceMemory { need: bytes, room });
        }
        let mut taken = self.taken.lock().unwrap();
        // Neighbours, as a driver may well return.
        let address = taken.last_key_value().map_or(ALIGNMENT, |(address, bytes)| address + bytes);
        taken.insert(address, bytes);
        Ok(address)
    }

    fn release(&self, address: u64) {
        self.taken.lock().unwrap().remove(&address);
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.room - self.taken.lock().unwrap().values().sum::<u64>())
    }

    fn upload(&self, _: &[u8], _: &Region) -> Result<()> {
        nothing("upload")
    }

    fn download(&self, _: &Region, _: &mut [u8]) -> Result<()> {
        nothing("download")
    }

    fn synchronise(&self) -> Result<()> {
        Ok(())
    }

    fn time(&self, _: &mut dyn FnMut() -> Result<()>) -> Result<u64> {
        nothing("time")
    }

    fn compile(&self, _: &Source) -> Result<Arc<dyn Module>> {
        nothing("compile")
    }

    fn heuristics(&self, _: &Problem, _: &Policy, _: Heuristic) -> Result<Vec<Algorithm>> {
        nothing("heuristics")
    }

    fn solver(&self, _: &Problem, _: &Algorithm) -> Result<Arc<dyn Solver>> {
        nothing("solver")
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
