//! Executors of weighted sums at places of images. The problem is how many images, channels, elements and places there
//! are; which elements a place reads is an argument of a run. The graph is not known here; sums are computed by
//! [`kiln_kernels::cpu::blend`].

use kiln_kernels::cpu::blend::{Blend, Blender, Method};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines an executor of sums at places.
pub type BlendKey = ExecutorKey<BlendProblem>;

/// Weighted sums at places of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlendProblem {
    /// Images, channels, elements, places, and how many elements a place reads.
    pub blend: Blend,
}

/// What a builder of sums at places decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlendChoice {
    /// How planes are read.
    pub method: Method,
    /// Tasks that the work is split into.
    pub tasks: u32,
}

/// Finding the elements of a place takes as long as moving this many `f32`.
const LOOKING: u64 = 16;

impl Problem for BlendProblem {
    const FAMILY: &'static str = "blend";
    const REVISION: u32 = 1;
    type Value = Blender;
    type Choice = BlendChoice;

    fn choose(&self, target: &Target) -> BlendChoice {
        let Blend { images, channels, places, taps, .. } = self.blend;
        let each = channels.saturating_mul(taps).saturating_add(LOOKING);
        let work = images.saturating_mul(places).saturating_mul(each);
        BlendChoice { method: Method::pick(&self.blend, target.isa), tasks: tasks_for(work, target.threads) }
    }

    fn accepts(&self, choice: &BlendChoice, target: &Target) -> bool {
        target.has_tasks(choice.tasks) && choice.method.fits(target.isa)
    }

    fn build(&self, choice: &BlendChoice, target: &Target, source: &dyn CodeSource) -> KernelResult<Blender> {
        Blender::new(self.blend, target.isa, choice.method, choice.tasks as usize, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.blend.elements().map(|_| 0)
    }
}
