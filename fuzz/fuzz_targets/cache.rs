//! Operations drawn from bytes give the same cache as a textbook LRU, with honest hashes and with colliding ones.

#![no_main]

#[path = "../../crates/kiln-cache/tests/cache/fixture.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "shared with the tests of the cache, which use all of it")]
mod fixture;
#[path = "../../crates/kiln-cache/tests/cache/lru.rs"]
mod lru;

use std::hash::RandomState;

use kiln_cache::Limits;
use libfuzzer_sys::fuzz_target;

use fixture::Collide;
use lru::{Op, follows_the_model};

/// Most bounds are small, so that entries are evicted; the greatest byte stands for no bound.
fn bound(byte: u8, times: usize) -> usize {
    if byte == u8::MAX { usize::MAX } else { usize::from(byte) * times }
}

fuzz_target!(|bytes: &[u8]| {
    let [entries, weight, ops @ ..] = bytes else { return };
    let limits = Limits { entries: usize::from(*entries), bytes: bound(*weight, 8) };
    let op = |byte: &u8| match byte {
        0 => Op::Clear,
        192.. => Op::Get(u32::from(byte % 64)),
        _ => Op::Create(u32::from(byte % 64)),
    };
    let ops: Vec<Op> = ops.iter().map(op).collect();
    follows_the_model::<RandomState>(limits, &ops);
    follows_the_model::<Collide<0>>(limits, &ops);
    follows_the_model::<Collide<1>>(limits, &ops);
});
