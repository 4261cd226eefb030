//! Keys of every family and of code, reached by walks drawn from bytes, obey the laws of keys; two keys are equal
//! exactly if their bytes are; and bytes that decode to a key are the bytes of that key.

#![no_main]

use std::fmt::Debug;

use kiln_key::laws::walk;
use kiln_key::{Key, Mutate};
use kiln_run::exec::{self, FAMILIES};
use kiln_run::record::laws::assert_key_laws;
use kiln_run::record::{decode, encode};
use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};

/// A walk is at most as long as those of the tests: keys of long walks are long, and have many neighbours.
const MOST_STEPS: usize = 48;

fn steps(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(2)
        .take(MOST_STEPS)
        .map(|pair| pair.iter().fold(0, |step, &byte| step << 8 | u32::from(byte)))
        .collect()
}

fn check<K: Key + Mutate + Debug + Serialize + DeserializeOwned>(bytes: &[u8]) {
    let (one, two) = bytes.split_at(bytes.len() / 2);
    let (one, two): (K, K) = (walk(&steps(one)), walk(&steps(two)));
    assert_key_laws(&one);
    if let (Ok(one_bytes), Ok(two_bytes)) = (encode(&one), encode(&two)) {
        assert_eq!(one == two, one_bytes == two_bytes, "{one:?} and {two:?}");
    }
    if let Ok(key) = decode::<K>(bytes) {
        assert_eq!(encode(&key).as_deref(), Ok(bytes), "{key:?} has other bytes than it came from");
    }
}

macro_rules! families {
    ($($key:ty),* $(,)?) => {
        /// The key of code, and the keys of all families but device kernels, whose programs have no neighbours to name.
        /// The length of the array is checked at compile time.
        const CHECKS: [fn(&[u8]); FAMILIES.len()] = [$(check::<$key>),*];
    };
}

families! {
    exec::attention::AttentionKey,
    exec::average::AverageKey,
    exec::blend::BlendKey,
    exec::chain::ChainKey,
    exec::conv::ConvKey,
    exec::extreme::ExtremeKey,
    exec::footprint::FootprintKey,
    exec::gpu::problem::CublasLtKey,
    exec::gpu::problem::CudnnConvKey,
    exec::gpu::problem::CudnnFusionKey,
    exec::linear_attention::LinearAttentionKey,
    exec::lookup::LookupKey,
    exec::machine::MachineKey,
    exec::matmul::MatMulKey,
    exec::norm::ChannelNormKey,
    exec::norm::RowNormKey,
    exec::blockwise::BlockwiseKey,
    exec::peak::PeakKey,
    exec::pool::PoolKey,
    exec::quantized::QuantizedKey,
    exec::recurrent::RecurrentKey,
    exec::reduce::ReduceKey,
    exec::regions::RegionsKey,
    exec::request::RequestKey,
    exec::rotary::RotaryKey,
    exec::running::RunningKey,
    exec::softmax::SoftmaxKey,
    exec::resize::ResizeKey,
    exec::transpose::TransposeKey,
    kiln_kernels::CodeKey,
}

fuzz_target!(|bytes: &[u8]| {
    let Some((family, rest)) = bytes.split_first() else { return };
    CHECKS[usize::from(*family) % CHECKS.len()](rest);
});
