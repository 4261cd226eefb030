//! Executors of pooled regions of images. The problem is how many images, channels, regions and bins there are; where
//! regions lie is an argument of a run. The graph is not known here; bins are pooled by
//! [`kiln_kernels::cpu::regions`].

use kiln_kernels::cpu::regions::{MOST_LANES, Method, Pooler, Regions};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines an executor of pooled regions.
pub type RegionsKey = ExecutorKey<RegionsProblem>;

/// Pooled regions of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RegionsProblem {
    /// Images, channels, regions, bins, and how bins are pooled.
    pub regions: Regions,
}

/// What a builder of pooled regions decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionsChoice {
    /// How images are read.
    pub method: Method,
    /// Tasks that the work is split into.
    pub tasks: u32,
}

/// A sample of a block of channels takes as long as moving this many `f32`.
const SAMPLING: u64 = 8;

impl Problem for RegionsProblem {
    const FAMILY: &'static str = "regions";
    const REVISION: u32 = 1;
    type Value = Pooler;
    type Choice = RegionsChoice;

    fn choose(&self, target: &Target) -> RegionsChoice {
        let method = Method::pick(&self.regions);
        let lanes = if method == Method::Blocks { MOST_LANES as u64 } else { 1 };
        let blocks = self.regions.channels.div_ceil(lanes);
        let work = self.regions.sampled().saturating_mul(blocks).saturating_mul(SAMPLING);
        RegionsChoice { method, tasks: tasks_for(work, target.threads) }
    }

    fn accepts(&self, choice: &RegionsChoice, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &RegionsChoice, target: &Target, _: &dyn CodeSource) -> KernelResult<Pooler> {
        Pooler::new(self.regions, target.isa, choice.method, choice.tasks as usize)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.regions.elements().map(|_| 0)
    }
}
