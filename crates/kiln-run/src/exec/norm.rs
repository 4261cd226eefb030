//! Executors of normalisations: of rows, by channel, and across channels. The computing is done by
//! [`kiln_kernels::cpu::norm`], and the graph is not known here.

use kiln_kernels::cpu::Stored;
use kiln_kernels::cpu::norm::{Affine, Channels, Groups, Local, LocalNorm, RowForm, RowNorm};
use kiln_kernels::{CodeSource, Isa, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// Everything that determines the executor of a layer or RMS normalisation.
pub type RowNormKey = ExecutorKey<RowForm>;

/// Everything that determines the executor of a normalisation by channel.
pub type ChannelNormKey = ExecutorKey<ChannelNormProblem>;

/// A normalisation by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ChannelNormProblem {
    /// The kind of normalisation.
    pub form: ByChannel,
    /// The images.
    pub images: Channels,
}

/// Kinds of normalisation by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum ByChannel {
    /// Scaled and shifted: batch normalisation with known moments.
    Affine,
    /// Normalised by the moments of that many groups of channels.
    Groups(u64),
    /// Divided by a power of the mean square of the channels around.
    Local(Local),
}

/// The product of those sizes, with each 0 counted as 1; `None` where tensors cannot have that many elements.
fn elements(sizes: &[u64]) -> Option<u64> {
    let product = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size.max(1)));
    product.filter(|&product| product < 1 << 60)
}

/// An executor of a normalisation by channel.
#[derive(Debug)]
pub enum ChannelNorm {
    /// [`ByChannel::Affine`]
    Affine(Affine),
    /// [`ByChannel::Groups`]
    Groups(Groups),
    /// [`ByChannel::Local`]
    Local(LocalNorm),
}

impl Problem for RowForm {
    const FAMILY: &'static str = "row-norm";
    const REVISION: u32 = 3;
    type Value = RowNorm;
    type Choice = Tasks;

    fn choose(&self, target: &Target) -> Tasks {
        Tasks { tasks: tasks_for(self.rows.saturating_mul(self.length), target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, source: &dyn CodeSource) -> KernelResult<RowNorm> {
        RowNorm::new(*self, target.isa, choice.tasks as usize, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        elements(&[self.rows, self.length]).map(|_| 0)
    }

    fn suits(&self, cx: &BuildCx) -> bool {
        self.output == Stored::F32 || cx.isa == Isa::Avx512
    }
}

impl Problem for ChannelNormProblem {
    const FAMILY: &'static str = "channel-norm";
    const REVISION: u32 = 2;
    type Value = ChannelNorm;
    type Choice = Tasks;

    fn choose(&self, target: &Target) -> Tasks {
        let Channels { batch, channels, spatial, .. } = self.images;
        Tasks { tasks: tasks_for(batch.saturating_mul(channels).saturating_mul(spatial), target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, source: &dyn CodeSource) -> KernelResult<ChannelNorm> {
        let (images, isa, tasks) = (self.images, target.isa, choice.tasks as usize);
        Ok(match self.form {
            ByChannel::Affine => ChannelNorm::Affine(Affine::new(images, isa, tasks, source)?),
            ByChannel::Groups(groups) => ChannelNorm::Groups(Groups::new(images, groups as usize, isa, tasks, source)?),
            ByChannel::Local(local) => ChannelNorm::Local(LocalNorm::new(images, local, tasks)?),
        })
    }

    fn table_bytes(&self) -> Option<u64> {
        elements(&[self.images.batch, self.images.channels, self.images.spatial]).map(|_| 0)
    }
}
