//! The executor cache and its keys, which are libraries of their own: [`kiln_cache`] and [`kiln_key`].

pub use kiln_cache::*;
pub use kiln_key::{F32Bits, Key, Mutate};
