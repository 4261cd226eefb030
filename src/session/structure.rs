//! The structure of a model, by which its own records are found. Weights are not in it, so that a retrained model finds
//! its records.

use kiln_model::ir::{Attr, Graph, ValueId};

/// A digest over operators, attributes, edges, and declared shapes and types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(u64);

/// The digest of a graph.
pub(super) fn digest(graph: &Graph) -> Digest {
    let mut text = Text(blake3::Hasher::new());
    text.graph(graph);
    let mut first = [0; 8];
    first.copy_from_slice(&text.0.finalize().as_bytes()[..8]);
    Digest(u64::from_be_bytes(first))
}

impl Digest {
    /// The digest of that number.
    pub(super) fn of_number(number: u64) -> Digest {
        Digest(number)
    }

    /// The digest as a number.
    pub(super) fn number(self) -> u64 {
        self.0
    }

    /// The digest in 16 hexadecimal digits, for the name of a file.
    pub(super) fn digits(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Bytes of a list that are hashed at a time.
const BLOCK: usize = 16 << 10;

struct Text(blake3::Hasher);

impl Text {
    /// Each word is preceded by its length, so that different lists of words are different strings of bytes.
    fn word(&mut self, word: &str) {
        self.0.update(&(word.len() as u64).to_le_bytes());
        self.0.update(word.as_bytes());
    }

    /// A list of numbers as their bytes.
    fn list<const N: usize>(&mut self, kind: &str, values: impl ExactSizeIterator<Item = [u8; N]>) {
        self.word(kind);
        self.0.update(&(values.len() as u64).to_le_bytes());
        let mut block = Vec::with_capacity(BLOCK);
        for value in values {
            block.extend(value);
            if block.len() >= BLOCK {
                self.0.update(&block);
                block.clear();
            }
        }
        self.0.update(&block);
    }

    fn edges<'a>(&mut self, edges: impl IntoIterator<Item = &'a Option<ValueId>>) {
        let numbers: Vec<String> =
            edges.into_iter().map(|edge| edge.map_or("-".to_owned(), |value| value.0.to_string())).collect();
        self.word(&numbers.join(" "));
    }

    fn graph(&mut self, graph: &Graph) {
        self.word("graph");
        for value in &graph.values {
            // Names are left out: two exports of one network may differ in them.
            self.word(&format!("{:?} {:?} {:?}", value.kind, value.dtype, value.dims));
        }
        // The iteration order of the map differs from process to process.
        let mut constants: Vec<_> = graph.constants.iter().collect();
        constants.sort_unstable_by_key(|(value, _)| value.0);
        for (value, tensor) in constants {
            self.word(&format!("constant {} {:?} {:?}", value.0, tensor.dtype(), tensor.shape()));
        }
        self.word(&format!("{:?} {:?}", graph.inputs, graph.outputs));
        for node in &graph.nodes {
            self.word(&format!("{} {} {}", node.domain, node.op, node.version));
            self.edges(&node.inputs);
            self.edges(&node.outputs);
            for (name, attr) in &node.attrs {
                self.word(name);
                match attr {
                    Attr::Tensor(tensor) => self.word(&format!("{:?} {:?}", tensor.dtype(), tensor.shape())),
                    Attr::Graph(body) => self.graph(body),
                    // A forest's lists have millions of elements.
                    Attr::Ints(list) => self.list("ints", list.iter().map(|value| value.to_le_bytes())),
                    Attr::Floats(list) => self.list("floats", list.iter().map(|value| value.to_le_bytes())),
                    Attr::Strs(list) => {
                        self.0.update(b"texts");
                        self.0.update(&(list.len() as u64).to_le_bytes());
                        list.iter().for_each(|text| self.word(text));
                    }
                    plain => self.word(&format!("{plain:?}")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::GraphBuilder;
    use kiln_model::ir::Dim;
    use kiln_tensor::{DType, Tensor};

    use super::*;

    fn network(op: &str, columns: usize, weight: f32) -> Graph {
        let mut builder = GraphBuilder::new("any name", 17);
        let x = builder.input("x", DType::F32, [Dim::Any, Dim::Fixed(4)]);
        let w = builder.constant(Tensor::from_slice([4, columns], &vec![weight; 4 * columns]).unwrap());
        let mut y = builder.op(op, &[x, w], &[]);
        // Enough constants for another iteration order in every map.
        for length in 1..9 {
            let more = builder.constant(Tensor::from_slice([length, 1, 1], &vec![weight; length]).unwrap());
            y = builder.op("Add", &[y, more], &[]);
        }
        builder.output("y", y);
        builder.finish()
    }

    #[test]
    fn structure_is_operators_and_shapes_and_not_weights() {
        let digits = |op, columns, weight| super::digest(&network(op, columns, weight)).digits();
        assert_eq!(digits("MatMul", 3, 1.0), digits("MatMul", 3, 2.0));
        assert_ne!(digits("MatMul", 3, 1.0), digits("MatMul", 4, 1.0));
        assert_ne!(digits("MatMul", 4, 1.0), digits("Add", 4, 1.0));
        assert_eq!(digits("Add", 4, 1.0).len(), 16);
    }

    #[test]
    fn lists_differ_by_each_element_and_by_where_they_end() {
        let long = |last: i64| Attr::Ints((0..5000).chain([last]).collect());
        let texts = |texts: &[&str]| Attr::Strs(texts.iter().map(|&text| text.to_owned()).collect());
        let attributes = [
            long(0),
            long(1),
            Attr::Ints(vec![0]),
            Attr::Ints(vec![]),
            Attr::Floats(vec![0.0, 0.0]),
            Attr::Floats(vec![0.0, -0.0]),
            Attr::Floats(vec![]),
            texts(&[]),
            texts(&["ab"]),
            texts(&["a", "b"]),
            texts(&["b", "a"]),
        ];
        let digest = |attribute: &Attr| {
            let mut builder = GraphBuilder::new("any name", 17);
            let x = builder.input("x", DType::F32, [Dim::Any]);
            let y = builder.op("Add", &[x, x], &[("list", attribute.clone())]);
            builder.output("y", y);
            super::digest(&builder.finish()).number()
        };
        let all: std::collections::HashSet<u64> = attributes.iter().map(digest).collect();
        assert_eq!(all.len(), attributes.len());
    }
}
