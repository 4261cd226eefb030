//! Decoders as packed models: a decoder's data beside its session is in rows of the index, which are checked against
//! the session before use.

use std::path::Path;

use kiln_model::Graph;
use kiln_model::ir::{Dim, ValueKind};
use kiln_model::onnx;
use kiln_tensor::DType;

use super::bias::{Bias, Found};
use super::rewrite::{LAST, PAGES, Pair, ROWS, Roles, rows_of_positions};
use super::states::State;
use super::{Decoder, DecoderError, Rewritten};
use crate::packed::index::{CacheRow, StateRow, StepsRow};
use crate::packed::rows::whole_graph;
use crate::packed::{self, PackedError};
use crate::session::pack::{self, Packer, Steps, User, Waiting};
use crate::session::{LoadClock, PackReport, Port, Session, SessionError, SessionOptions, attempt};

/// Heads, and elements of one, that a part of a cache may have.
const MOST: u64 = 1 << 20;

/// Elements that a state may have for a sequence.
const MOST_OF_STATE: u64 = 1 << 30;

impl Decoder {
    /// Writes the model at `path`, with its graph rewritten for steps and its weights packed, to the file `to`, which
    /// [`Decoder::load`] takes. See [`Session::pack`]. [`Session::load`] refuses such a file, and [`Decoder::load`] one
    /// of a session.
    ///
    /// # Errors
    ///
    /// As [`Decoder::load`]; [`SessionError::Packed`] if the file cannot be written.
    pub fn pack(path: &Path, to: &Path, options: &SessionOptions) -> Result<PackReport, DecoderError> {
        let begun = LoadClock::now(options);
        let name = path.display().to_string();
        let graph = attempt(&name, &begun, || Ok(onnx::load(path, &options.onnx_limits())?))?;
        Decoder::write(graph, &[], &name, to, options, &begun)
    }

    /// As [`Decoder::pack`], of a graph in memory.
    ///
    /// # Errors
    ///
    /// As [`Decoder::pack`].
    pub fn pack_graph(graph: Graph, to: &Path, options: &SessionOptions) -> Result<PackReport, DecoderError> {
        let begun = LoadClock::now(options);
        let name = graph.name.clone();
        Decoder::write(graph, &[], &name, to, options, &begun)
    }

    /// Packs a graph whose inputs `beside` are the same in all steps of a text.
    pub(in crate::session) fn write(
        graph: Graph,
        beside: &[String],
        name: &str,
        to: &Path,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<PackReport, DecoderError> {
        let written = || -> Result<PackReport, DecoderError> {
            let Rewritten { graph, roles, biases: found } = Rewritten::of(graph, beside, options, begun)?;
            let mut biases = Vec::with_capacity(found.len());
            for found in found {
                biases.push(found.parts());
                Bias::new(found, options, begun)?;
            }
            let states = roles.states.iter().map(state_row).collect();
            let known = pack::Beside { steps: Some(Steps { row: row(&roles), biases, states }), ..Default::default() };
            Ok(pack::write(graph, &user(beside, options), known, to, options, begun)?)
        };
        attempt(name, begun, || Ok(written()))?
    }

    /// The decoder of the packed model at `path`, if it is one, or of the usable packed model that is kept for the
    /// model at `path`, if any.
    pub(super) fn ready(
        path: &Path,
        name: &str,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Option<Decoder>, SessionError> {
        if packed::is_packed(path) {
            return Decoder::load_packed(path, name, &user(&[], options), options, begun).map(Some);
        }
        Decoder::find_packed(path, name, &user(&[], options), options, begun, |graph| Ok((graph, Vec::new())))
    }

    /// The decoder that is kept for the model at `path`. `steps` makes from that model the graph to be rewritten, and
    /// the names of its inputs that are the same in all steps.
    pub(in crate::session) fn find_packed(
        path: &Path,
        name: &str,
        user: &User,
        options: &SessionOptions,
        begun: &LoadClock,
        steps: impl Fn(Graph) -> Result<(Graph, Vec<String>), DecoderError> + Send + Sync + 'static,
    ) -> Result<Option<Decoder>, SessionError> {
        pack::find(path, user, options, |found, own| {
            let Decoder { session, roles, biases } = Decoder::load_packed(&found.path, name, user, own, begun)?;
            let path = path.to_owned();
            let read = move |options: &SessionOptions| {
                let graph = onnx::load(&path, &options.onnx_limits())?;
                let rewritten = steps(graph)
                    .and_then(|(graph, beside)| Rewritten::of(graph, &beside, options, &LoadClock::now(options)));
                rewritten.map(|rewritten| rewritten.graph).map_err(of_session)
            };
            let session = session.with_source(found.files.clone(), options, Box::new(read));
            Ok(Decoder { session, roles, biases })
        })
    }

    /// Loads a packed model made for that user.
    pub(in crate::session) fn load_packed(
        path: &Path,
        name: &str,
        user: &User,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Decoder, SessionError> {
        let own = SessionOptions { prepare_memory: false, ..options.clone() };
        let session = Session::load_packed(path, name.to_owned(), user, &own, begun)?;
        let damaged = |reason: String| PackedError::damaged(path, reason);
        let Some((file, row)) = session.packed_file().and_then(|file| Some((file, file.index().steps.as_ref()?)))
        else {
            return Err(damaged("it says nothing of steps".to_owned()).into());
        };
        let states = &file.index().states;
        let roles = roles(row, states, session.inputs(), session.outputs()).map_err(damaged)?;
        let mut biases = Vec::with_capacity(row.biases.len());
        for bias in &row.biases {
            let one = || damaged(format!("what computes '{}' does not compute it alone", bias.input));
            let found = Found::of(bias.input.clone(), whole_graph(file, &bias.graphs)?).ok_or_else(one)?;
            // The bias is tested like that of an ONNX file.
            biases.push(Bias::new(found, options, begun).map_err(|error| match error {
                DecoderError::Session(error) => error,
                other => damaged(other.to_string()).into(),
            })?);
        }
        Ok(Decoder { session, roles, biases })
    }
}

/// The user of a decoder's packed model.
pub(in crate::session) fn user(beside: &[String], options: &SessionOptions) -> User {
    match beside.is_empty() {
        true => User::Decoder(options.alias.clone()),
        false => User::StepsBesideEncoder(options.alias.clone()),
    }
}

/// Packs the model at `path` in the background.
pub(super) fn start(packing: Waiting, path: &Path, options: &SessionOptions) -> Option<Packer> {
    let path = path.to_owned();
    let pack =
        move |to: &Path, options: &SessionOptions| Decoder::pack(&path, to, options).map(drop).map_err(of_session);
    packing.start(&user(&[], options), options, pack)
}

/// A decoder's error as a session's error.
pub(in crate::session) fn of_session(error: DecoderError) -> SessionError {
    match error {
        DecoderError::Session(error) => error,
        other => PackedError::Unsupported(other.to_string()).into(),
    }
}

/// The row of roles; biases are added with their elements.
fn row(roles: &Roles) -> StepsRow {
    let Roles { tokens, mask, positions, cache, logits, counts_one, takes_one, beside, .. } = roles.clone();
    let part =
        |pair: Pair| CacheRow { past: pair.past, heads: pair.heads as u64, size: pair.size as u64, dtype: pair.dtype };
    let cache = cache.into_iter().map(part).collect();
    StepsRow { tokens, mask, positions, cache, logits, counts_one, takes_one, beside, biases: Vec::new() }
}

fn state_row(state: &State) -> StateRow {
    let sizes = state.sizes.iter().map(|&size| size as u64).collect();
    StateRow { past: state.past.clone(), sizes, dtype: state.dtype }
}

/// The roles of a session's inputs and outputs; each has exactly one.
///
/// # Errors
///
/// What in the row is not true of the session.
fn roles(row: &StepsRow, states: &[StateRow], inputs: &[Port], outputs: &[Port]) -> Result<Roles, String> {
    let mut open: Vec<&Port> = inputs.iter().filter(|port| !port.has_default).collect();
    let mut take = |name: &str| {
        let place = open.iter().position(|port| port.name == name);
        let port = place.map(|place| open.swap_remove(place)).filter(|port| port.kind == ValueKind::Tensor);
        port.ok_or_else(|| format!("steps give '{name}', which is no input, or is given twice"))
    };
    let mut given = |name: &str, dtype: DType, rank: usize| match take(name)? {
        port if port.dtype.unwrap_or(DType::F32) == dtype
            && port.dims.as_ref().is_none_or(|dims| dims.len() == rank) =>
        {
            Ok(port)
        }
        port => Err(format!("steps give '{name}' as {dtype} of {rank} dimensions, and it is {port:?}")),
    };
    let of_cache = [(LAST, DType::I32, 1), (PAGES, DType::I32, 2)];
    for (name, dtype, rank) in of_cache.into_iter().take(if row.cache.is_empty() { 0 } else { 2 }) {
        given(name, dtype, rank)?;
    }
    given(ROWS, DType::I64, 1)?;
    let tokens = given(&row.tokens, DType::I64, 2)?;
    let takes_one = matches!(tokens.dims.as_deref(), Some([_, Dim::Fixed(1)]));
    if takes_one != row.takes_one {
        return Err(format!("steps are of one token: {}, which input '{}' denies", row.takes_one, row.tokens));
    }
    row.mask.iter().try_for_each(|name| given(name, DType::I64, 2).map(|_| ()))?;
    let mut position_rows = None;
    if let Some(name) = &row.positions {
        let declared = inputs.iter().find(|port| port.name == *name).and_then(|port| port.dims.as_deref());
        position_rows = rows_of_positions(declared);
        given(name, DType::I64, if position_rows.is_some() { 3 } else { 2 })?;
    }
    let mut cache = Vec::with_capacity(row.cache.len());
    for CacheRow { past, heads, size, dtype } in &row.cache {
        let port = given(past, *dtype, 4)?;
        let own = [(1, *heads), (3, *size)];
        let is_declared = |(axis, size): (usize, u64)| match port.dims.as_ref().map(|dims| &dims[axis]) {
            Some(Dim::Fixed(declared)) => *declared as u64 == size,
            _ => true,
        };
        let is_sized = own.iter().all(|(_, size)| (1..=MOST).contains(size)) && own.into_iter().all(is_declared);
        if !is_sized || *dtype == DType::String {
            return Err(format!("a cache '{past}' of {heads} heads of {size} {dtype}, which is {port:?}"));
        }
        // Both are small numbers.
        cache.push(Pair { past: past.clone(), heads: *heads as usize, size: *size as usize, dtype: *dtype });
    }
    let mut own = Vec::with_capacity(states.len());
    for StateRow { past, sizes, dtype } in states {
        let port = given(past, *dtype, 1 + sizes.len())?;
        let mut declared = sizes.iter().zip(port.dims.iter().flat_map(|dims| &dims[1..]));
        let is_declared = declared.all(|(size, dim)| !matches!(dim, Dim::Fixed(fixed) if *fixed as u64 != *size));
        let elements = sizes.iter().try_fold(1u64, |all, &size| all.checked_mul(size));
        if !is_declared || sizes.is_empty() || elements.is_none_or(|all| all > MOST_OF_STATE) || *dtype == DType::String
        {
            return Err(format!("a state '{past}' of {dtype} {sizes:?}, which is {port:?}"));
        }
        own.push(State { past: past.clone(), sizes: sizes.iter().map(|&size| size as usize).collect(), dtype: *dtype });
    }
    for bias in &row.biases {
        given(&bias.input, DType::F32, 4)?;
    }
    for name in &row.beside {
        take(name)?;
    }
    if let Some(port) = open.first() {
        return Err(format!("steps do not give input '{}'", port.name));
    }
    if outputs.first().is_none_or(|output| output.name != row.logits) || outputs.len() != 1 + cache.len() + own.len() {
        let all: Vec<&str> = outputs.iter().map(|port| port.name.as_str()).collect();
        let (parts, states) = (cache.len(), own.len());
        return Err(format!("outputs {all:?} are not '{}', {parts} parts of a cache and {states} states", row.logits));
    }
    let StepsRow { tokens, mask, positions, logits, counts_one, beside, .. } = row;
    Ok(Roles {
        tokens: tokens.clone(),
        mask: mask.clone(),
        positions: positions.clone(),
        position_rows,
        cache,
        states: own,
        logits: logits.clone(),
        counts_one: *counts_one,
        takes_one,
        beside: beside.clone(),
    })
}
