//! Records shared through real stores, and clients at the mercy of servers that are not real stores.
//!
//! `shared` starts a Redis server and an S3 server on this machine and lets processes tune through them. `fleet` does
//! so with workers of `kiln serve`. `hostile` tests servers that are down, silent or lying. The real servers are
//! started only where `KILN_REMOTE_TESTS=1` says that `redis-server` and `moto_server` are installed; without it those
//! tests say that they were skipped.
//!
//! `cargo test --release --features remote,serve --test remote`

#![allow(clippy::print_stdout, reason = "what was skipped or measured is for a reader of the log")]

#[path = "../../../kiln-records/tests/records/allocations.rs"]
mod allocations;
#[cfg(feature = "serve")]
#[allow(dead_code, reason = "of what starts the command, one is needed here")]
#[path = "../cli/command.rs"]
mod command;
#[cfg(feature = "serve")]
mod fleet;
mod hostile;
#[allow(dead_code, reason = "of the files that it makes, some are needed here")]
#[path = "../cli/onnx_file.rs"]
mod onnx_file;
#[cfg(feature = "serve")]
#[allow(dead_code, reason = "of what asks a server, some is needed here")]
#[path = "../serve/running.rs"]
mod running;
mod servers;
mod shared;
