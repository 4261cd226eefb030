//! Pooling executors. The key is the form of the windows; the moving is done by [`kiln_kernels::cpu::pool`], and the
//! graph is not known here.

use kiln_kernels::cpu::Stored;
use kiln_kernels::cpu::pool::{Path, Pool, PoolKind, PoolShape, Window};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::{Family, tasks_for};
use crate::cache::Key;
use crate::record::Recorded;

/// Everything that determines a pooling executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "pool", value = Pool, laws = crate::record::laws::check)]
pub struct PoolKey {
    /// What is collected.
    pub kind: PoolKind,
    /// Pictures.
    pub batch: u64,
    /// Channels of a picture.
    pub channels: u64,
    /// Depth, height, width.
    pub axes: [Window; 3],
    /// Whether the channels of a pixel lie together.
    pub channels_last: bool,
    /// What elements lie in memory as.
    pub stored: Stored,
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
}

impl PoolKey {
    fn shape(&self) -> PoolShape {
        PoolShape {
            batch: self.batch as usize,
            channels: self.channels as usize,
            axes: self.axes,
            channels_last: self.channels_last,
        }
    }
}

/// What a builder of poolings decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolChoice {
    /// The way that the windows are collected.
    pub path: Path,
    /// Tasks that the work is split into.
    pub tasks: u32,
}

impl Recorded for PoolKey {
    const REVISION: u32 = 3;
    type Choice = PoolChoice;
}

impl Family for PoolKey {
    /// The fastest way that fits. Reading an element from memory costs about as much as collecting eight taps from the
    /// cache.
    fn choose(&self, _: &BuildCx) -> PoolChoice {
        let shape = self.shape();
        let taps = self.axes.iter().fold(1, |taps: u64, axis| taps.saturating_mul(axis.kernel.min(axis.input)));
        let work = (shape.inputs() as u64).max((shape.outputs() as u64).saturating_mul(taps) / 8);
        let path = match self.stored {
            Stored::F32 => Path::pick(self.kind, &shape, self.isa),
            Stored::Bf16 => Path::Code,
        };
        PoolChoice { path, tasks: tasks_for(work, self.threads) }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        self.isa == cx.isa && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        self.shape().is_valid().then_some(0)
    }

    fn accepts(&self, choice: &PoolChoice, _: &BuildCx) -> bool {
        (1..=self.threads.max(1)).contains(&choice.tasks)
            && choice.path.fits(self.kind, &self.shape(), self.isa)
            && choice.path.takes(self.stored, self.isa)
    }

    fn build(&self, choice: &PoolChoice, cx: &BuildCx) -> KernelResult<Pool> {
        let PoolChoice { path, tasks, .. } = *choice;
        Pool::stored(self.kind, self.shape(), self.isa, path, self.stored, tasks as usize, cx)
    }
}
