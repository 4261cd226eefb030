//! `kiln serve` as a client meets it: sockets on loopback, the command as a process, models that the tests write.

#[cfg(feature = "generate")]
#[allow(dead_code, reason = "of the parts of the model, some are needed here")]
#[path = "../cli/alphabet.rs"]
mod alphabet;
mod client;
#[allow(dead_code, reason = "of what starts the command, one is needed here")]
#[path = "../cli/command.rs"]
mod command;
mod compressed;
mod grpc;
mod grpc_life;
mod grpc_refusals;
mod infer;
mod joined;
#[cfg(feature = "generate")]
mod language;
mod life;
mod log;
mod messages;
#[allow(dead_code, reason = "of the files that it makes, some are needed here")]
#[path = "../cli/onnx_file.rs"]
mod onnx_file;
#[allow(dead_code, unreachable_pub, missing_docs, reason = "as the generator writes it")]
#[path = "../../../kiln-serve/src/grpc/proto.rs"]
#[rustfmt::skip]
mod proto;
mod pages;
mod refusals;
mod running;
mod stream;
#[cfg(feature = "generate")]
mod stream_texts;
