//! The `kiln` binary as a person or a script meets it: help, exit codes, one clear line for each mistake, and every
//! subcommand end to end on models that the tests write themselves.

#[cfg(feature = "generate")]
mod alphabet;
mod bench;
mod check;
mod command;
mod crash;
mod demo;
mod diff;
#[cfg(feature = "generate")]
mod generate;
mod inspect;
mod machine;
mod mistakes;
mod observe;
#[allow(dead_code, reason = "of the files that it makes, one is for the server alone")]
mod onnx_file;
mod pack;
mod records;
mod run;
