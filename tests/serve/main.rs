//! `kiln serve` as a client meets it: sockets on loopback, the command as a process, models that the tests write.

#[allow(dead_code, reason = "of what starts the command, one is needed here")]
#[path = "../cli/command.rs"]
mod command;
mod infer;
mod life;
#[allow(dead_code, reason = "of the files that it makes, some are needed here")]
#[path = "../cli/onnx_file.rs"]
mod onnx_file;
mod refusals;
mod running;
