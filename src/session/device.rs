//! A session's device, for its caller: copies to it and back, and the memory that is in use on it.

use kiln_kernels::gpu::ArenaStats;
use kiln_run::exec::gpu::Copies;
use kiln_run::record::Engine;

use super::Session;

/// Counters of a session's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStats {
    /// The device's name.
    pub name: String,
    /// Copies to the device: constants when the model was loaded, then inputs of requests.
    pub to_device: Copies,
    /// Copies from the device.
    pub to_host: Copies,
    /// Memory of the device that this session holds.
    pub arena: ArenaStats,
}

impl Session {
    /// The counters of its device; `None` if the session runs on the processor alone.
    #[must_use]
    pub fn device_stats(&self) -> Option<DeviceStats> {
        self.build.gpu.as_ref().map(|gpu| DeviceStats {
            name: gpu.device.facts().name.clone(),
            to_device: gpu.traffic.to_device(),
            to_host: gpu.traffic.to_host(),
            arena: gpu.arena.stats(),
        })
    }

    /// The device, if there is one, for callers that keep its choices themselves.
    #[must_use]
    pub fn device_engine(&self) -> Option<Engine> {
        self.build.gpu.as_ref().map(|gpu| gpu.engine())
    }
}
