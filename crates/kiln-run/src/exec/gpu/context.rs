//! All that builders see of a device: its memory, the caller's policy, and the facts that choices depend on.

use std::sync::Arc;

use kiln_kernels::gpu::{Arena, Device, Policy, Scope};

use super::kin::Kinship;
use super::traffic::Traffic;
use crate::record::{BUILD, Engine, Fingerprint};

/// A device as builders see it.
#[derive(Debug)]
pub struct GpuCx {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its memory.
    pub arena: Arc<Arena>,
    /// Which algorithms may be used.
    pub policy: Policy,
    /// Counts of the copies to the device and back.
    pub traffic: Traffic,
    /// The rankings of problems that were solved, for problems that differ in their images' sizes.
    pub(in crate::exec) kin: Kinship,
    /// Digests of what the choices of each scope depend on, in the order of [`SCOPES`].
    scopes: [u64; SCOPES.len()],
}

const SCOPES: [Scope; 3] = [Scope::Cudnn, Scope::CublasLt, Scope::Nvrtc];

impl GpuCx {
    /// A device whose memory is lent by that arena.
    #[must_use]
    pub fn new(arena: Arc<Arena>, policy: Policy) -> GpuCx {
        let device = arena.device().clone();
        let scopes = SCOPES.map(|scope| {
            let digest = Fingerprint::from_facts(device.facts().of_scope(scope)).digest();
            u64::from_le_bytes(std::array::from_fn(|place| digest[place]))
        });
        GpuCx { device, arena, policy, traffic: Traffic::default(), kin: Kinship::default(), scopes }
    }

    /// A short form of the facts that choices of that scope depend on: the first bytes of their digest.
    #[must_use]
    pub fn scope(&self, scope: Scope) -> u64 {
        let [cudnn, cublaslt, nvrtc] = self.scopes;
        match scope {
            Scope::Cudnn => cudnn,
            Scope::CublasLt => cublaslt,
            Scope::Nvrtc => nvrtc,
        }
    }

    /// The device as callers that keep choices themselves name it: this build of Kiln and all facts of the device that
    /// choices depend on.
    #[must_use]
    pub fn engine(&self) -> Engine {
        let mut facts = BUILD.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        for fact in SCOPES.iter().flat_map(|&scope| self.device.facts().of_scope(scope)) {
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
        Engine::new(Fingerprint::from_facts(facts))
    }
}
