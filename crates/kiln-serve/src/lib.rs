#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! Lowest first:
//!
//! - `datatype`, `refusal`: the types of the protocol, and refusals of requests;
//! - `ticket`: whether a request is still wanted, and why one has no answer;
//! - `language`, `model`: the traits of the runtime that runs models;
//! - `wire`: fields of protobuf, read in place;
//! - `head`, `values`, `contents`, `answer`: a request's head, its elements, and the answer;
//! - `queue`: the bounded queue and its lanes; `inference`: a lane's work on requests; `histogram`, `tally`: counters;
//! - `journal`: reports of requests; `traces`: OpenTelemetry;
//! - `repository`: files and their versions; `registry`: the models that are loaded; `ports`: their inputs and outputs;
//! - `coding`: gzip and deflate, bounded while they are decompressed;
//! - `body`, `service`: from the bytes of a request to an answer; `pages`, `metrics`: answers besides inference;
//! - `texts`: requests of language models, as OpenAI's interface and Triton's have them, whole or piece by piece;
//! - `reply`: bodies of answers; `routes`: REST; `grpc`: gRPC, over the same service;
//! - `connection`: HTTP/1 and HTTP/2; `server`: listeners, signals, the end.

#![deny(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]

mod answer;
mod body;
mod coding;
mod connection;
mod contents;
mod datatype;
mod grpc;
mod head;
mod histogram;
mod inference;
mod journal;
mod language;
mod metrics;
mod model;
mod pages;
mod ports;
mod queue;
mod refusal;
mod registry;
mod reply;
mod repository;
mod routes;
mod server;
mod service;
mod tally;
mod texts;
mod ticket;
#[cfg(feature = "traces")]
mod traces;
mod values;
mod wire;

pub use datatype::Datatype;
pub use journal::{Caller, Ended, Journal, Stage};
pub use language::{Choice, Ending, InHand, Language, Message, Prompt, Said, Say, Text, Why};
pub use model::{Load, Loader, Lookups, Model, Port, Request, Tensor, Values};
pub use repository::Source;
pub use server::{Event, ServeError, Server, Settings};
pub use ticket::{Failure, Ticket};
#[cfg(feature = "traces")]
pub use traces::{Traces, TracesError};
