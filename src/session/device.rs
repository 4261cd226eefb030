//! A session's device, as its caller sees it: what was copied to it and back, and how much of its memory is held.

use kiln_kernels::gpu::ArenaStats;

use super::Session;
use crate::exec::gpu::Copies;
use crate::record::Engine;

/// What a session does with its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStats {
    /// The device's name.
    pub name: String,
    /// Copies to it: constants when the model was loaded, then what requests sent.
    pub to_device: Copies,
    /// Copies from it.
    pub to_host: Copies,
    /// Its memory that this session holds.
    pub arena: ArenaStats,
}

impl Session {
    /// What this session has done with its device; nothing where it runs on the processor alone.
    #[must_use]
    pub fn device_stats(&self) -> Option<DeviceStats> {
        self.build.gpu.as_ref().map(|gpu| DeviceStats {
            name: gpu.device.facts().name.clone(),
            to_device: gpu.traffic.to_device(),
            to_host: gpu.traffic.to_host(),
            arena: gpu.arena.stats(),
        })
    }

    /// The device beside the processor, if there is one, as callers name it who keep its choices themselves.
    #[must_use]
    pub fn device_engine(&self) -> Option<Engine> {
        self.build.gpu.as_ref().map(|gpu| gpu.engine())
    }
}
