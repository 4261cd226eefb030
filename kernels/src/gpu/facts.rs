//! Facts about a device that decide whether a choice made on one device holds on another.

use serde::{Deserialize, Serialize};

/// A device, its driver and its libraries. Versions are the libraries' own numbers; 0 where a library is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// Its number among the devices of this machine; records do not depend on it.
    pub ordinal: u32,
    /// Compute capability: major, minor.
    pub compute: [u32; 2],
    /// Multiprocessors that this process may use.
    pub multiprocessors: u32,
    /// Bytes of its L2.
    pub l2_bytes: u64,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Clock of its memory in kHz.
    pub memory_clock: u32,
    /// Width of its memory's bus in bits.
    pub bus_width: u32,
    /// Newest CUDA version that the driver supports: 13000 is 13.0.
    pub driver: u32,
    /// NVRTC's version: 13000 is 13.0.
    pub nvrtc: u32,
    /// cuDNN's version with its patch level: 91900 is 9.19.0.
    pub cudnn: u64,
    /// The CUDA run time that cuDNN was built for.
    pub cudnn_cudart: u64,
    /// cuBLASLt's version.
    pub cublaslt: u64,
    /// Environment variables that change the behaviour of the libraries, with their values (for variables that name
    /// files, digests).
    pub environment: Vec<(String, String)>,
}

/// The library that a choice belongs to: the choice depends on that library's version only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// cuDNN.
    Cudnn,
    /// cuBLASLt.
    CublasLt,
    /// Kiln's own kernels, which NVRTC compiles.
    Nvrtc,
}

impl DeviceFacts {
    /// The facts that choices of this scope depend on, with names: device, driver, and the library's own version.
    #[must_use]
    pub fn of_scope(&self, scope: Scope) -> Vec<(String, String)> {
        let mut facts = vec![
            ("device", self.name.clone()),
            ("compute", format!("{}.{}", self.compute[0], self.compute[1])),
            ("multiprocessors", self.multiprocessors.to_string()),
            ("l2", self.l2_bytes.to_string()),
            ("memory_clock", self.memory_clock.to_string()),
            ("bus_width", self.bus_width.to_string()),
            ("driver", self.driver.to_string()),
        ];
        match scope {
            Scope::Cudnn => {
                facts.push(("cudnn", self.cudnn.to_string()));
                facts.push(("cudnn_cudart", self.cudnn_cudart.to_string()));
            }
            Scope::CublasLt => facts.push(("cublaslt", self.cublaslt.to_string())),
            Scope::Nvrtc => facts.push(("nvrtc", self.nvrtc.to_string())),
        }
        let mut facts: Vec<(String, String)> =
            facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        facts.extend(self.environment.iter().map(|(name, value)| (format!("env.{name}"), value.clone())));
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_librarys_version_concerns_its_own_choices_alone() {
        let old = DeviceFacts {
            name: "a".to_owned(),
            cudnn: 91900,
            cublaslt: 130_000,
            nvrtc: 13000,
            ..DeviceFacts::default()
        };
        let new = DeviceFacts { cudnn: 91901, ..old.clone() };
        assert_ne!(old.of_scope(Scope::Cudnn), new.of_scope(Scope::Cudnn));
        assert_eq!(old.of_scope(Scope::CublasLt), new.of_scope(Scope::CublasLt));
        assert_eq!(old.of_scope(Scope::Nvrtc), new.of_scope(Scope::Nvrtc));
        let driver = DeviceFacts { driver: 13010, ..old.clone() };
        for scope in [Scope::Cudnn, Scope::CublasLt, Scope::Nvrtc] {
            assert_ne!(old.of_scope(scope), driver.of_scope(scope));
        }
        assert_eq!(DeviceFacts { ordinal: 3, ..old.clone() }.of_scope(Scope::Cudnn), old.of_scope(Scope::Cudnn));
    }
}
