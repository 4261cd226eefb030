//! Any bytes are a model, or a typed error: loading neither panics nor hangs nor takes unbounded memory.

#![no_main]

use kiln::session::{Session, SessionOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let options = SessionOptions { threads: 1, ..SessionOptions::default() };
    if let Err(error) = Session::load_bytes(bytes.to_vec(), &options) {
        assert!(!error.is_fault(), "{error}");
    }
});
