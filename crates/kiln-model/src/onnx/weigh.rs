//! How much memory a model's messages take when they are decoded, found by walking over them first.
//!
//! Two bytes of a file are a message without fields, which takes hundreds in memory, and a list of them grows by
//! doubling. So a few megabytes could ask for a few gigabytes before anything counts nodes. The walk keeps nothing: it
//! reads tags and lengths, and skips fields that are no messages. Malformed bytes are left to the decoder, which
//! reports them.

use bytes::Bytes;
use kiln_tensor::Backing;

use super::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, StringStringEntryProto,
    TensorAnnotation, TensorProto, TrainingInfoProto, ValueInfoProto,
};
use super::source::WINDOW;

/// A list, which grows by doubling, may have room for this many times its elements.
const GROWTH: u64 = 2;

/// Bytes of memory for each byte of messages that are not walked: types, whose smallest parts are dimensions, and
/// configurations of devices.
const UNWALKED: u64 = 64;

/// Bytes of a text, a list or raw elements beyond their contents, in a list that has grown.
const HEADER: u64 = 64;

/// What a field of bytes is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Training,
    Graph,
    Node,
    Attribute,
    Tensor,
    Sparse,
    Value,
    Annotation,
    Function,
    Entry,
    /// A message that is not walked.
    Other,
    /// Texts and bytes.
    Text,
    /// Raw elements, which stay where they are if they are long.
    Raw,
    /// Elements of a list: each byte may be an element of eight bytes.
    Packed,
}

impl Kind {
    /// What that field of a message is.
    fn field(self, number: u64) -> Kind {
        use Kind::{
            Annotation, Attribute, Entry, Function, Graph, Model, Node, Other, Packed, Raw, Sparse, Tensor, Text,
            Training, Value,
        };
        match (self, number) {
            (Model, 7) | (Training, 1 | 2) | (Attribute, 6 | 11) => Graph,
            (Model, 20) => Training,
            (Model, 25) => Function,
            (Graph, 1) | (Function, 7) => Node,
            (Node, 5) | (Function, 11) => Attribute,
            (Graph, 5) | (Attribute, 5 | 10) | (Sparse, 1 | 2) => Tensor,
            (Graph, 15) | (Attribute, 22 | 23) => Sparse,
            (Graph, 11..=13) | (Function, 12) => Value,
            (Graph, 14) => Annotation,
            (Model, 8 | 14) | (Training, 3 | 4) | (Graph, 16) | (Node, 9) | (Value, 4) => Entry,
            (Annotation, 2) | (Tensor, 13 | 16) | (Function, 9 | 14) => Entry,
            (Model, 26) | (Node, 10) | (Value, 2) | (Attribute, 14 | 15) => Other,
            (Tensor, 4 | 9 | 10) => Raw,
            (Tensor, 1 | 5 | 7 | 11) | (Sparse, 3) | (Attribute, 7 | 8) => Packed,
            _ => Text,
        }
    }

    /// Bytes of memory of a message without its fields; `None` for a field that is not walked as a message.
    fn message(self) -> Option<u64> {
        Some(match self {
            Kind::Model => size_of::<ModelProto>() as u64,
            Kind::Training => size_of::<TrainingInfoProto>() as u64,
            Kind::Graph => size_of::<GraphProto>() as u64,
            Kind::Node => size_of::<NodeProto>() as u64,
            Kind::Attribute => size_of::<AttributeProto>() as u64,
            Kind::Tensor => size_of::<TensorProto>() as u64,
            Kind::Sparse => size_of::<SparseTensorProto>() as u64,
            Kind::Value => size_of::<ValueInfoProto>() as u64,
            Kind::Annotation => size_of::<TensorAnnotation>() as u64,
            Kind::Function => size_of::<FunctionProto>() as u64,
            Kind::Entry => size_of::<StringStringEntryProto>() as u64,
            Kind::Other | Kind::Text | Kind::Raw | Kind::Packed => return None,
        })
    }

    /// Bytes of memory of a field of that many bytes that is not walked.
    fn leaf(self, length: u64) -> u64 {
        match self {
            Kind::Other => HEADER.saturating_add(length.saturating_mul(UNWALKED)),
            Kind::Packed => HEADER.saturating_add(length.saturating_mul(8 * GROWTH)),
            // Long ones are parts of the model's own bytes, or stay in its file.
            Kind::Raw if length >= WINDOW as u64 => HEADER,
            _ => HEADER.saturating_add(length),
        }
    }
}

/// The bytes of a model, read through a window.
struct Wire<'a> {
    from: From<'a>,
    window: Vec<u8>,
    /// Where the window begins.
    start: u64,
}

/// Where a model's bytes are.
pub(super) enum From<'a> {
    Memory(&'a Bytes),
    File(&'a Backing, u64),
}

impl Wire<'_> {
    fn len(&self) -> u64 {
        match self.from {
            From::Memory(bytes) => bytes.len() as u64,
            From::File(_, size) => size,
        }
    }

    /// The byte at a place; `None` behind the end, or where it cannot be read.
    fn byte(&mut self, at: u64) -> Option<u8> {
        let (backing, size) = match &self.from {
            From::Memory(bytes) => return bytes.get(usize::try_from(at).ok()?).copied(),
            From::File(backing, size) => (*backing, *size),
        };
        let inside = |start: u64, window: &[u8]| at.checked_sub(start).and_then(|at| window.get(at as usize)).copied();
        if let Some(byte) = inside(self.start, &self.window) {
            return Some(byte);
        }
        self.window.resize(usize::try_from(size.checked_sub(at)?.min(WINDOW as u64)).ok()?, 0);
        self.start = at;
        backing.try_read(at, &mut self.window).ok()?;
        inside(self.start, &self.window)
    }

    /// A number of up to 64 bits, and where it ends.
    fn number(&mut self, at: u64) -> Option<[u64; 2]> {
        let mut value = 0;
        for place in 0..10 {
            let byte = self.byte(at + place)?;
            value |= u64::from(byte & 0x7f).checked_shl(7 * place as u32)?;
            if byte < 0x80 {
                return Some([value, at + place + 1]);
            }
        }
        None
    }
}

/// Bytes of memory that the messages of a model take at most when they are decoded; counting ends above `limit`.
pub(super) fn weigh(from: From<'_>, limit: u64) -> u64 {
    let mut wire = Wire { from, window: Vec::new(), start: 0 };
    let mut total = Kind::Model.message().unwrap_or(0);
    // Messages around the place, each with its end.
    let mut around = vec![(Kind::Model, wire.len())];
    let mut at = 0;
    while let Some(&(kind, end)) = around.last() {
        if at >= end {
            around.pop();
            continue;
        }
        if total > limit {
            return total;
        }
        let Some(next) = field(&mut wire, kind, at, end) else { return total };
        total = total.saturating_add(next.bytes);
        at = next.at;
        around.extend(next.inside);
    }
    total
}

/// A field that was walked over, or into.
struct Field {
    /// Where to go on.
    at: u64,
    /// Memory that it takes.
    bytes: u64,
    /// The message that it is, if that is walked, and its end.
    inside: Option<(Kind, u64)>,
}

/// The field of a message at a place; `None` where the bytes are no field.
fn field(wire: &mut Wire<'_>, kind: Kind, at: u64, end: u64) -> Option<Field> {
    let [tag, at] = wire.number(at)?;
    let fixed = |bytes: u64| Some(Field { at: at + bytes, bytes: 8 * GROWTH, inside: None });
    match tag & 7 {
        0 => {
            let [_, at] = wire.number(at)?;
            Some(Field { at, bytes: 8 * GROWTH, inside: None })
        }
        1 => fixed(8),
        5 => fixed(4),
        2 => {
            let [length, at] = wire.number(at)?;
            let behind = at.checked_add(length).filter(|&behind| behind <= end)?;
            let kind = kind.field(tag >> 3);
            Some(match kind.message() {
                Some(bytes) => Field { at, bytes: bytes * GROWTH, inside: Some((kind, behind)) },
                None => Field { at: behind, bytes: kind.leaf(length), inside: None },
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use prost::Message;

    use super::*;

    fn weighed(bytes: &[u8]) -> u64 {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let backing = Backing::new(file.path(), file.reopen().unwrap());
        let bytes = Bytes::copy_from_slice(bytes);
        let [memory, file] =
            [From::Memory(&bytes), From::File(&backing, bytes.len() as u64)].map(|from| weigh(from, u64::MAX));
        assert_eq!(memory, file, "a file weighs what its bytes do");
        memory
    }

    fn of_nodes(node: Vec<NodeProto>) -> Vec<u8> {
        let graph = GraphProto { node, ..GraphProto::default() };
        ModelProto { graph: Some(graph), ..ModelProto::default() }.encode_to_vec()
    }

    #[test]
    fn messages_of_two_bytes_weigh_what_they_take_in_memory() {
        let many = of_nodes(vec![NodeProto::default(); 100_000]);
        assert!(many.len() < 300_000, "{} bytes", many.len());
        assert!(weighed(&many) >= 100_000 * size_of::<NodeProto>() as u64);
        let nested = NodeProto { attribute: vec![AttributeProto::default(); 1000], ..NodeProto::default() };
        assert!(weighed(&of_nodes(vec![nested; 10])) >= 10_000 * size_of::<AttributeProto>() as u64);
        assert!(weigh(From::Memory(&many.into()), 1 << 20) < 2 << 20, "counting ends above the limit");
    }

    #[test]
    fn weights_weigh_little_and_lists_of_numbers_what_they_become() {
        let tensor = |tensor: TensorProto| {
            let graph = GraphProto { initializer: vec![tensor], ..GraphProto::default() };
            weighed(&ModelProto { graph: Some(graph), ..ModelProto::default() }.encode_to_vec())
        };
        let count = 1 << 20;
        let raw = TensorProto { raw_data: Some(vec![1; count].into()), ..TensorProto::default() };
        assert!(tensor(raw) < 1 << 16);
        let numbers = TensorProto { int64_data: vec![1; count], ..TensorProto::default() };
        assert!(tensor(numbers) >= 8 * count as u64);
    }

    #[test]
    fn what_is_malformed_ends_the_walk() {
        let whole = of_nodes(vec![NodeProto { name: Some("n".to_owned()), ..NodeProto::default() }; 3]);
        for cut in 0..whole.len() {
            weighed(&whole[..cut]);
        }
        for bytes in [&[0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0xff; 20], &[0x0b, 0x0c], &[0x3a, 0x02, 0x0a]] {
            weighed(bytes);
        }
    }
}
