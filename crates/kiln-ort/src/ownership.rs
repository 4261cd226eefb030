//! Objects that callers hand over, and objects that are lent to callers.
//!
//! A caller owns an object that it makes until it hands it over: then the caller's handle is dead, and releasing it
//! does nothing. An object that a caller reads out of a graph is lent: its handle lives as long as the graph, and
//! releasing it does nothing either.

use std::sync::Arc;

use crate::error::{Result, invalid};
use crate::seam::{Handle, Kind, Out};

/// A kind of value that graphs and nodes have.
pub(crate) trait Part: Kind {
    /// Whether a graph or a node has it.
    fn is_lent(&self) -> bool;
}

/// Takes over the values of handles, all or none.
///
/// # Errors
///
/// For handles that are not live, for lent values, and for a value that is listed twice.
pub(crate) fn take<T: Part>(handles: &[Handle<T>], what: &str) -> Result<Vec<Arc<T>>> {
    let mut seen = std::collections::HashSet::new();
    for handle in handles {
        if handle.get(what)?.is_lent() {
            return Err(invalid!("{what} has an {} that belongs to a graph already", T::NAME));
        }
        if !seen.insert(handle.address()) {
            return Err(invalid!("{what} has one {} twice", T::NAME));
        }
    }
    let taken = handles.iter().map(|handle| handle.release().ok_or_else(|| invalid!("{what} was released meanwhile")));
    taken.collect()
}

/// Takes over the values of a list, and writes null in its place.
pub(crate) fn take_list<T: Part>(list: Out<Handle<T>>, len: usize, what: &str) -> Result<Vec<Arc<T>>> {
    let handles = list.read(len, what)?;
    let taken = take(&handles, what)?;
    list.fill(len, &vec![Handle::NULL; taken.len()], what)?;
    Ok(taken)
}

/// Ends the handle of a value that the caller owns; other handles stay as they are.
pub(crate) fn release<T: Part>(handle: Handle<T>) {
    if handle.live().is_some_and(|value| !value.is_lent()) {
        drop(handle.release());
    }
}

/// Writes lent handles into a buffer with room for `len` handles.
///
/// # Errors
///
/// Where the handles do not fit.
pub(crate) fn lend<T>(handles: &[Handle<T>], room: Out<Handle<T>>, len: usize, what: &str) -> Result<()> {
    if len < handles.len() {
        return Err(invalid!("Not enough space: {what} has room for {len}, and there are {}", handles.len()));
    }
    room.fill(len, handles, what)
}
