//! Executors: one file a kernel family with its key, its builder and what is cached.
//!
//! [`family`] is the trait that a key implements; [`context`] is all that a builder sees besides its key. A builder
//! never sees the graph. [`blob`] and [`layout`] are for callers who keep choices or weights themselves. [`tune`] measures what cost models guess.
//! [`gpu`] (feature `device`) is the same for a device beside the processor, where a choice is an algorithm of a library's.

pub mod activation;
pub mod attention;
pub mod blob;
pub mod chain;
pub mod context;
pub mod conv;
pub mod family;
pub mod footprint;
#[cfg(feature = "device")]
pub mod gpu;
/// No device: this build was made without the feature `device`.
#[cfg(not(feature = "device"))]
pub mod gpu {
    /// A device as builders see it, of which there are none.
    #[derive(Debug)]
    pub enum GpuCx {}
}
pub mod layout;
pub mod matmul;
pub mod norm;
pub mod pool;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod request;
pub mod resize;
mod share;
pub mod softmax;
pub mod transpose;
pub mod tune;
mod verify;
pub mod weights;

pub use blob::Executor;
pub use context::{BuildCx, BuildError};
pub(crate) use family::tasks_for_bytes;
pub use family::{Family, FamilyEntry};
pub use gpu::GpuCx;
pub use layout::{LayoutError, TensorLayout};
pub use share::{Share, ShareStats};
pub use verify::{Refusal, Verifier};

/// Every family.
pub const FAMILIES: &[FamilyEntry] = &[
    FamilyEntry::of::<attention::AttentionKey>(),
    FamilyEntry::of::<chain::ChainKey>(),
    FamilyEntry::of::<conv::ConvKey>(),
    #[cfg(feature = "device")]
    gpu::problem::entry::<gpu::problem::CublasLtKey>(),
    #[cfg(feature = "device")]
    gpu::problem::entry::<gpu::problem::CudnnConvKey>(),
    #[cfg(feature = "device")]
    gpu::problem::entry::<gpu::problem::CudnnFusionKey>(),
    #[cfg(feature = "device")]
    gpu::module::ENTRY,
    FamilyEntry::of::<footprint::FootprintKey>(),
    FamilyEntry::of::<matmul::MatMulKey>(),
    FamilyEntry::of::<norm::ChannelNormKey>(),
    FamilyEntry::of::<norm::RowNormKey>(),
    FamilyEntry::of::<pool::PoolKey>(),
    FamilyEntry::of::<quantized::QuantizedKey>(),
    FamilyEntry::of::<recurrent::RecurrentKey>(),
    FamilyEntry::of::<reduce::ReduceKey>(),
    FamilyEntry::of::<request::RequestKey>(),
    FamilyEntry::of::<softmax::SoftmaxKey>(),
    FamilyEntry::of::<resize::ResizeKey>(),
    FamilyEntry::of::<transpose::TransposeKey>(),
];

/// A record's key and choice in words, for tools. `None` for a family or a revision that this build does not know.
#[must_use]
pub fn describe(record: &crate::record::Record) -> Option<(String, String)> {
    FAMILIES.iter().find(|family| family.name == record.family).and_then(|family| (family.describe)(record))
}
