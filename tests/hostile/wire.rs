//! Files that the library's own writer does not write: tensors in other files, names with odd characters, many
//! repetitions. An encoder of a few protobuf fields, which shares nothing with the code under test.

/// Fields of varints and of bytes.
#[derive(Clone, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn varint(mut self, field: u64, value: u64) -> Message {
        self.number(field << 3);
        self.number(value);
        self
    }

    pub(crate) fn bytes(mut self, field: u64, value: &[u8]) -> Message {
        self.number(field << 3 | 2);
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(crate) fn text(self, field: u64, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    pub(crate) fn message(self, field: u64, value: &Message) -> Message {
        self.bytes(field, &value.0)
    }
}

/// An input or output without a type.
fn named(name: &str) -> Message {
    Message::default().text(1, name)
}

/// A node of ONNX's own domain.
pub(crate) fn node(op: &str, inputs: &[&str], output: &str) -> Message {
    let message = inputs.iter().fold(Message::default(), |message, input| message.text(1, input));
    message.text(2, output).text(4, op)
}

/// A graph `y = Add(x, w)` with that initialiser.
pub(crate) fn graph(initialiser: &Message) -> Message {
    let nodes = Message::default().message(1, &node("Add", &["x", "w"], "y")).text(2, "g");
    nodes.message(5, initialiser).message(11, &named("x")).message(12, &named("y"))
}

/// A model of operator set 17.
pub(crate) fn model(graph: &Message) -> Vec<u8> {
    Message::default().varint(1, 8).message(7, graph).message(8, &Message::default().text(1, "").varint(2, 17)).0
}

/// Four floats that lie in another file.
pub(crate) fn elsewhere(entries: &[(&str, &str)]) -> Message {
    let tensor = Message::default().varint(1, 4).varint(2, 1).text(8, "w");
    let entry = |(key, value): &(&str, &str)| Message::default().text(1, key).text(2, value);
    entries.iter().fold(tensor, |tensor, pair| tensor.message(13, &entry(pair))).varint(14, 1)
}
