//! Executors of normalisations: of rows, by channel, and across channels. The computing is done by
//! [`kiln_kernels::cpu::norm`], and the graph is not known here.

use kiln_kernels::cpu::Stored;
use kiln_kernels::cpu::norm::{Affine, Channels, Groups, Local, LocalNorm, RowForm, RowNorm};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::{Family, tasks_for};
use crate::cache::{F32Bits, Key, Mutate};
use crate::record::Recorded;

/// Everything that determines the executor of a layer or RMS normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "row-norm", value = RowNorm, laws = crate::record::laws::check)]
pub struct RowNormKey {
    /// Rows, each normalised by itself.
    pub rows: u64,
    /// Elements of a row.
    pub length: u64,
    /// Whether the mean is subtracted.
    pub centred: bool,
    /// Whether there are factors.
    pub scale: bool,
    /// Whether there are summands.
    pub bias: bool,
    /// Whether the rows' moments are wanted.
    pub moments: bool,
    /// What the result consists of.
    pub output: Stored,
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
}

/// Images with channels, as keys hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ChannelsKey {
    /// Images.
    pub batch: u64,
    /// Channels.
    pub channels: u64,
    /// Places of an image.
    pub spatial: u64,
    /// Whether a place's channels lie side by side.
    pub last: bool,
}

impl ChannelsKey {
    fn shape(&self) -> Channels {
        Channels {
            batch: self.batch as usize,
            channels: self.channels as usize,
            spatial: self.spatial as usize,
            last: self.last,
        }
    }

    fn elements(&self) -> u64 {
        self.batch.saturating_mul(self.channels).saturating_mul(self.spatial)
    }
}

/// What is done by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum ByChannel {
    /// Scaled and shifted: batch normalisation with known moments.
    Affine,
    /// Normalised by the moments of that many groups of channels.
    Groups(u64),
    /// Divided by a power of the mean square of the channels around.
    Local {
        /// Channels.
        size: u64,
        /// Factor of the mean square.
        alpha: F32Bits,
        /// Exponent.
        beta: F32Bits,
        /// What is added to the mean square.
        bias: F32Bits,
    },
}

/// Everything that determines the executor of a normalisation by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "channel-norm", value = ChannelNorm, laws = crate::record::laws::check)]
pub struct ChannelNormKey {
    /// What is done.
    pub form: ByChannel,
    /// The images.
    pub images: ChannelsKey,
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
}

/// What a builder of normalisations decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NormChoice {
    /// Tasks that the work is split into.
    pub tasks: u32,
}

/// The product of those sizes, where tensors may have so many elements; one that is zero hides none of the others.
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

impl Recorded for RowNormKey {
    const REVISION: u32 = 2;
    type Choice = NormChoice;
}

impl Family for RowNormKey {
    fn choose(&self, _: &BuildCx) -> NormChoice {
        NormChoice { tasks: tasks_for(self.rows.saturating_mul(self.length), self.threads) }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        let possible = self.output == Stored::F32 || self.isa == Isa::Avx512;
        possible && self.isa == cx.isa && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        elements(&[self.rows, self.length]).map(|_| 0)
    }

    fn accepts(&self, choice: &NormChoice, _: &BuildCx) -> bool {
        (1..=self.threads.max(1)).contains(&choice.tasks)
    }

    fn build(&self, choice: &NormChoice, cx: &BuildCx) -> KernelResult<RowNorm> {
        let form = RowForm {
            rows: self.rows as usize,
            length: self.length as usize,
            centred: self.centred,
            scale: self.scale,
            bias: self.bias,
            moments: self.moments,
            output: self.output,
        };
        RowNorm::new(form, self.isa, choice.tasks as usize, cx)
    }
}

impl Recorded for ChannelNormKey {
    const REVISION: u32 = 1;
    type Choice = NormChoice;
}

impl Family for ChannelNormKey {
    fn choose(&self, _: &BuildCx) -> NormChoice {
        NormChoice { tasks: tasks_for(self.images.elements(), self.threads) }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        self.isa == cx.isa && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        elements(&[self.images.batch, self.images.channels, self.images.spatial]).map(|_| 0)
    }

    fn accepts(&self, choice: &NormChoice, _: &BuildCx) -> bool {
        (1..=self.threads.max(1)).contains(&choice.tasks)
    }

    fn build(&self, choice: &NormChoice, cx: &BuildCx) -> KernelResult<ChannelNorm> {
        let (shape, tasks) = (self.images.shape(), choice.tasks as usize);
        Ok(match self.form {
            ByChannel::Affine => ChannelNorm::Affine(Affine::new(shape, self.isa, tasks, cx)?),
            ByChannel::Groups(groups) => ChannelNorm::Groups(Groups::new(shape, groups as usize, self.isa, tasks, cx)?),
            ByChannel::Local { size, alpha, beta, bias } => {
                let local = Local { size: size as usize, alpha: alpha.get(), beta: beta.get(), bias: bias.get() };
                ChannelNorm::Local(LocalNorm::new(shape, local, tasks)?)
            }
        })
    }
}
