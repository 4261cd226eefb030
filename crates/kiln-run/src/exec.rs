//! Executors: each file has one kernel family, with its key, its builder and its cached value.
//!
//! [`key`] and [`target`] are the parts that all keys of executors share. [`family`] is the trait of recorded keys;
//! [`context`] is all that a builder sees besides its key. A builder never sees the graph. [`blob`] and [`layout`] are
//! for callers that keep choices or weights themselves. [`tune`] measures what cost models guess. [`gpu`] (feature
//! `device`) is the same for a device beside the processor, where a choice is an algorithm of a library's.

pub mod attention;
pub mod average;
pub mod blend;
pub mod blob;
pub mod blockwise;
pub mod chain;
pub mod context;
pub mod conv;
pub mod extreme;
pub mod family;
pub mod footprint;
pub mod gpu;
pub mod key;
pub mod layout;
pub mod linear_attention;
pub mod lookup;
pub mod machine;
pub mod matmul;
pub mod norm;
pub mod peak;
pub mod pool;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
mod refusal;
pub mod regions;
pub mod request;
pub mod resize;
pub mod rotary;
pub mod running;
mod share;
pub mod softmax;
pub mod target;
pub mod transpose;
pub mod tune;
mod verify;
pub mod weights;

pub use blob::Executor;
pub use context::{BuildCx, BuildError};
pub use family::tasks_for_bytes;
pub use family::{Family, FamilyEntry};
pub use gpu::GpuCx;
pub use key::{ExecutorKey, Problem};
pub use layout::{LayoutError, TensorLayout};
pub use refusal::Refusal;
pub use share::{Share, ShareStats};
pub use target::{Target, Tasks};
pub use verify::Verifier;

/// The table of all families: those of the processor, each with a test that its key obeys the laws, and those of
/// devices.
macro_rules! families {
    (processor { $($name:ident: $key:ty,)* } device { $($device:expr,)* }) => {
        /// Every family.
        pub const FAMILIES: &[FamilyEntry] = &[
            $(FamilyEntry::of::<$key>(),)*
            $($device,)*
        ];

        #[cfg(test)]
        mod laws {
            use super::*;

            $(
                #[test]
                fn $name() {
                    crate::record::laws::check::<$key>();
                }
            )*
        }
    };
}

families! {
    processor {
        attention_keys: attention::AttentionKey,
        average_keys: average::AverageKey,
        blend_keys: blend::BlendKey,
        blockwise_keys: blockwise::BlockwiseKey,
        chain_keys: chain::ChainKey,
        conv_keys: conv::ConvKey,
        extreme_keys: extreme::ExtremeKey,
        footprint_keys: footprint::FootprintKey,
        linear_attention_keys: linear_attention::LinearAttentionKey,
        lookup_keys: lookup::LookupKey,
        machine_keys: machine::MachineKey,
        matmul_keys: matmul::MatMulKey,
        peak_keys: peak::PeakKey,
        channel_norm_keys: norm::ChannelNormKey,
        row_norm_keys: norm::RowNormKey,
        pool_keys: pool::PoolKey,
        quantized_keys: quantized::QuantizedKey,
        recurrent_keys: recurrent::RecurrentKey,
        reduce_keys: reduce::ReduceKey,
        regions_keys: regions::RegionsKey,
        request_keys: request::RequestKey,
        resize_keys: resize::ResizeKey,
        rotary_keys: rotary::RotaryKey,
        running_keys: running::RunningKey,
        softmax_keys: softmax::SoftmaxKey,
        transpose_keys: transpose::TransposeKey,
    }
    device {
        gpu::problem::entry::<gpu::problem::CublasLtKey>(),
        gpu::problem::entry::<gpu::problem::CudnnConvKey>(),
        gpu::problem::entry::<gpu::problem::CudnnFusionKey>(),
        gpu::module::ENTRY,
    }
}

/// A record's key and choice in words, for tools. `None` for a family or a revision that this build does not know.
#[must_use]
pub fn describe(record: &crate::record::Record) -> Option<(String, String)> {
    FAMILIES.iter().find(|family| family.name == record.family).and_then(|family| (family.describe)(record))
}
