//! Small ONNX files, written field by field: an encoder that shares nothing with the code under test.

use std::path::Path;

/// Protobuf wire format: fields of varints and of bytes.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut self, field: u8, value: u64) -> Message {
        push_varint(&mut self.0, u64::from(field) << 3);
        push_varint(&mut self.0, value);
        self
    }

    fn bytes(mut self, field: u8, value: &[u8]) -> Message {
        self.0.push(field << 3 | 2);
        push_varint(&mut self.0, value.len() as u64);
        self.0.extend(value);
        self
    }

    fn each<T>(self, items: impl IntoIterator<Item = T>, add: impl Fn(Message, T) -> Message) -> Message {
        items.into_iter().fold(self, add)
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// ONNX's number of the 32-bit float type.
const FLOAT: u64 = 1;

/// A float tensor, as an initialiser or a file of test data.
pub(crate) fn tensor(name: &str, dims: &[u64], values: &[f32]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let message = Message::default().each(dims, |message, &dim| message.varint(1, dim));
    message.varint(2, FLOAT).bytes(8, name.as_bytes()).bytes(9, &raw).0
}

/// An input or output of floats; a dimension that is not a number is a name.
fn port(name: &str, dims: &[&str]) -> Vec<u8> {
    typed_port(name, FLOAT, dims)
}

/// An input or output of a type by ONNX's number.
fn typed_port(name: &str, dtype: u64, dims: &[&str]) -> Vec<u8> {
    let shape = Message::default().each(dims, |message, dim| {
        let dim = match dim.parse() {
            Ok(size) => Message::default().varint(1, size),
            Err(_) => Message::default().bytes(2, dim.as_bytes()),
        };
        message.bytes(1, &dim.0)
    });
    let tensor = Message::default().varint(1, dtype).bytes(2, &shape.0);
    Message::default().bytes(1, name.as_bytes()).bytes(2, &Message::default().bytes(1, &tensor.0).0).0
}

fn node(op: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let message = Message::default().each(inputs, |message, input| message.bytes(1, input.as_bytes()));
    let name = format!("node_{output}");
    message.bytes(2, output.as_bytes()).bytes(3, name.as_bytes()).bytes(4, op.as_bytes()).0
}

/// A node with a list of whole numbers as an attribute.
fn node_with(op: &str, inputs: &[&str], output: &str, attribute: &str, values: &[u64]) -> Vec<u8> {
    const INTS: u64 = 7;
    let attribute = Message::default().bytes(1, attribute.as_bytes()).each(values, |message, &v| message.varint(8, v));
    Message(node(op, inputs, output)).bytes(5, &attribute.varint(20, INTS).0).0
}

struct Graph {
    nodes: Vec<Vec<u8>>,
    constants: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    output: Vec<u8>,
}

impl Graph {
    fn model(self) -> Vec<u8> {
        let graph = Message::default()
            .each(self.nodes, |message, node| message.bytes(1, &node))
            .bytes(2, b"test")
            .each(self.constants, |message, constant| message.bytes(5, &constant))
            .each(self.inputs, |message, input| message.bytes(11, &input))
            .bytes(12, &self.output);
        let opset = Message::default().bytes(1, b"").varint(2, 17);
        Message::default().varint(1, 8).bytes(7, &graph.0).bytes(8, &opset.0).0
    }
}

/// `y = Relu(x W + b)` with `x: [N, 2]`, `W = [[1, 2, 3], [4, 5, 6]]` and `b = [-10, 0, 10]`.
pub(crate) fn dense() -> Vec<u8> {
    Graph {
        nodes: vec![
            node("MatMul", &["x", "w"], "product"),
            node("Add", &["product", "b"], "sum"),
            node("Relu", &["sum"], "y"),
        ],
        constants: vec![tensor("w", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), tensor("b", &[3], &[-10.0, 0.0, 10.0])],
        inputs: vec![port("x", &["N", "2"])],
        output: port("y", &["N", "3"]),
    }
    .model()
}

/// `y = x` with `x: [N]` of a type by ONNX's number.
pub(crate) fn identity(dtype: u64) -> Vec<u8> {
    Graph {
        nodes: vec![node("Identity", &["x"], "y")],
        constants: Vec::new(),
        inputs: vec![typed_port("x", dtype, &["N"])],
        output: typed_port("y", dtype, &["N"]),
    }
    .model()
}

/// `y = a + b` with two inputs of the same named dimension.
pub(crate) fn sum_of_two() -> Vec<u8> {
    Graph {
        nodes: vec![node("Add", &["a", "b"], "y")],
        constants: Vec::new(),
        inputs: vec![port("a", &["N"]), port("b", &["N"])],
        output: port("y", &["N"]),
    }
    .model()
}

/// `y = x x x ...` with `count` products of square matrices.
pub(crate) fn products(count: usize) -> Vec<u8> {
    let value = |step: usize| if step == 0 { "x".to_owned() } else { format!("y{step}") };
    let product = |step: usize| node("MatMul", &[&value(step), "x"], &value(step + 1));
    Graph {
        nodes: (0..count).map(product).collect(),
        constants: Vec::new(),
        inputs: vec![port("x", &["N", "N"])],
        output: port(&value(count), &["N", "N"]),
    }
    .model()
}

/// How many words [`encoder`] knows.
pub(crate) const WORDS: usize = 50;

/// A text encoder: words (`ids: [N, S]`), one layer of attention, then two products, and `y: [N, S, 32]`.
pub(crate) fn encoder() -> Vec<u8> {
    const INT64: u64 = 7;
    let weights = |name: &str, dims: &[u64], seed: u64| {
        let count = dims.iter().product();
        let value = |place: u64| ((place * 7919 + seed * 104_729) % 2003) as f32 / 2003.0 - 0.5;
        tensor(name, dims, &(0..count).map(value).collect::<Vec<_>>())
    };
    Graph {
        nodes: vec![
            node("Gather", &["words", "ids"], "x"),
            node("LayerNormalization", &["x", "scale"], "normed"),
            node("MatMul", &["normed", "wq"], "q"),
            node("MatMul", &["normed", "wk"], "k"),
            node("MatMul", &["normed", "wv"], "v"),
            node_with("Transpose", &["k"], "turned", "perm", &[0, 2, 1]),
            node("MatMul", &["q", "turned"], "scores"),
            node("Softmax", &["scores"], "shares"),
            node("MatMul", &["shares", "v"], "seen"),
            node("MatMul", &["seen", "wo"], "out"),
            node("Add", &["out", "x"], "state"),
            node("MatMul", &["state", "up"], "inner"),
            node("Relu", &["inner"], "active"),
            node("MatMul", &["active", "down"], "last"),
            node("Add", &["last", "state"], "y"),
        ],
        constants: vec![
            weights("words", &[WORDS as u64, 32], 1),
            weights("scale", &[32], 2),
            weights("wq", &[32, 32], 3),
            weights("wk", &[32, 32], 4),
            weights("wv", &[32, 32], 5),
            weights("wo", &[32, 32], 6),
            weights("up", &[32, 48], 7),
            weights("down", &[48, 32], 8),
        ],
        inputs: vec![typed_port("ids", INT64, &["N", "S"])],
        output: port("y", &["N", "S", "32"]),
    }
    .model()
}

/// A model of two operators that do not exist.
pub(crate) fn unknown_operators() -> Vec<u8> {
    Graph {
        nodes: vec![node("Frobnicate", &["x"], "t"), node("Discombobulate", &["t"], "y")],
        constants: Vec::new(),
        inputs: vec![port("x", &["N"])],
        output: port("y", &["N"]),
    }
    .model()
}

/// Writes a case folder: the model, one data set of one input and one output.
pub(crate) fn write_case(folder: &Path, model: &[u8], input: &[u8], output: &[u8]) {
    let set = folder.join("test_data_set_0");
    std::fs::create_dir_all(&set).expect("a folder");
    std::fs::write(folder.join("model.onnx"), model).expect("a model");
    std::fs::write(set.join("input_0.pb"), input).expect("an input");
    std::fs::write(set.join("output_0.pb"), output).expect("an output");
}
