#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! Lowest first:
//!
//! - `datatype`, `refusal`: the types of the protocol, and what a request is refused with;
//! - `model`: the two traits, and the ticket that says whether a request is still wanted;
//! - `head`, `values`, `answer`: what stands in a request, its elements, and the answer;
//! - `queue`: the bounded queue and its lanes; `tally`: what is counted;
//! - `repository`: files and their versions; `registry`: the models that are loaded;
//! - `service`, `routes`: from a request of HTTP to an answer; `pages`: the answers that are no inference;
//! - `server`: connections, signals, the end.

#![deny(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]

mod answer;
mod datatype;
mod head;
mod model;
mod pages;
mod queue;
mod refusal;
mod registry;
mod repository;
mod routes;
mod server;
mod service;
mod tally;
mod values;

pub use datatype::Datatype;
pub use model::{Failure, Loader, Lookups, Model, Port, Tensor, Ticket, Values};
pub use repository::Source;
pub use server::{Event, ServeError, Server, Settings};
