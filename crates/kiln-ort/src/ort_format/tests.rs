//! Models in onnxruntime's own format, written by the test.

use super::*;

/// The content of a field.
enum Part {
    Byte(u8),
    Int(i32),
    Long(i64),
    Text(&'static str),
    Bytes(Vec<u8>),
    Longs(Vec<i64>),
    Texts(Vec<&'static str>),
    Table(Fields),
    Tables(Vec<Fields>),
}

/// The fields of a table, by number.
type Fields = Vec<(usize, Part)>;

use Part::*;

/// Writes a table, and behind it the objects that its fields point to; returns the table's offset.
fn write(to: &mut Vec<u8>, fields: Fields) -> usize {
    to.resize(to.len().next_multiple_of(8), 0);
    let count = fields.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
    // Each field has eight bytes of its own, behind eight bytes that begin with the offset back to the list of fields.
    let names = to.len();
    let mut list = vec![0u16; count];
    fields.iter().enumerate().for_each(|(place, (number, _))| list[*number] = 8 + 8 * place as u16);
    let sizes = [4 + 2 * count as u16, 8 + 8 * fields.len() as u16];
    sizes.iter().chain(&list).for_each(|number| to.extend(number.to_le_bytes()));
    to.resize(to.len().next_multiple_of(8), 0);
    let at = to.len();
    to.extend((at as i32 - names as i32).to_le_bytes());
    to.resize(at + 8 + 8 * fields.len(), 0);
    for (place, (_, part)) in fields.into_iter().enumerate() {
        let slot = at + 8 + 8 * place;
        match part {
            Byte(byte) => to[slot] = byte,
            Int(int) => to[slot..slot + 4].copy_from_slice(&int.to_le_bytes()),
            Long(long) => to[slot..slot + 8].copy_from_slice(&long.to_le_bytes()),
            part => {
                let child = write_behind(to, part);
                to[slot..slot + 4].copy_from_slice(&((child - slot) as u32).to_le_bytes());
            }
        }
    }
    at
}

/// Writes the object that an offset points to.
fn write_behind(to: &mut Vec<u8>, part: Part) -> usize {
    let list = |to: &mut Vec<u8>, count: usize| {
        to.resize(to.len().next_multiple_of(8) + 4, 0);
        let at = to.len();
        to.extend((count as u32).to_le_bytes());
        at
    };
    let offsets = |to: &mut Vec<u8>, parts: Vec<Part>| {
        let at = list(to, parts.len());
        to.resize(at + 4 + 4 * parts.len(), 0);
        for (place, part) in parts.into_iter().enumerate() {
            let slot = at + 4 + 4 * place;
            let child = write_behind(to, part);
            to[slot..slot + 4].copy_from_slice(&((child - slot) as u32).to_le_bytes());
        }
        at
    };
    match part {
        Text(text) => {
            let at = list(to, text.len());
            to.extend(text.as_bytes());
            at
        }
        Bytes(bytes) => {
            let at = list(to, bytes.len());
            to.extend(bytes);
            at
        }
        Longs(longs) => {
            let at = list(to, longs.len());
            longs.iter().for_each(|long| to.extend(long.to_le_bytes()));
            at
        }
        Texts(texts) => offsets(to, texts.into_iter().map(Text).collect()),
        Tables(tables) => offsets(to, tables.into_iter().map(Table).collect()),
        Table(fields) => write(to, fields),
        Byte(_) | Int(_) | Long(_) => unreachable!("numbers lie in their table"),
    }
}

/// `y = Softmax(x + w)` along axis 1, with `x` of [rows, 2].
fn model() -> Vec<u8> {
    let dim = |kind, size| match kind {
        1 => vec![(0, Table(vec![(0, Byte(1)), (1, Long(size))]))],
        _ => vec![(0, Table(vec![(0, Byte(2)), (2, Text("rows"))]))],
    };
    let tensor = vec![(0, Int(1)), (1, Table(vec![(0, Tables(vec![dim(2, 0), dim(1, 2)]))]))];
    let x = vec![(0, Text("x")), (2, Table(vec![(1, Byte(1)), (2, Table(tensor))]))];
    let floats = [1.0f32, -1.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let weight = vec![(0, Text("w")), (2, Longs(vec![2])), (3, Int(1)), (4, Bytes(floats))];
    let add = vec![(5, Text("Add")), (8, Texts(vec!["x", "w"])), (9, Texts(vec!["sum"]))];
    let axis = vec![(0, Text("axis")), (2, Int(2)), (4, Long(1))];
    let softmax = vec![(5, Text("Softmax")), (8, Texts(vec!["sum"])), (9, Texts(vec!["y"])), (10, Tables(vec![axis]))];
    let graph = vec![
        (0, Tables(vec![weight])),
        (1, Tables(vec![x])),
        (2, Tables(vec![add, softmax])),
        (5, Texts(vec!["x"])),
        (6, Texts(vec!["y"])),
    ];
    let opset = vec![(0, Text("")), (1, Long(13))];
    let mut bytes = b"\0\0\0\0ORTM".to_vec();
    let root = write(&mut bytes, vec![(1, Table(vec![(1, Tables(vec![opset])), (7, Table(graph))]))]);
    bytes[..4].copy_from_slice(&(root as u32).to_le_bytes());
    bytes
}

#[test]
fn a_graph_with_weights_and_attributes_is_read() {
    let bytes = model();
    assert!(is_ort(&bytes));
    let graph = read(&bytes).unwrap();
    assert_eq!(
        graph.nodes.iter().map(|node| (node.op.as_str(), node.version)).collect::<Vec<_>>(),
        [("Add", 13), ("Softmax", 13)]
    );
    assert!(matches!(graph.nodes[1].attrs["axis"], Attr::Int(1)));
    let x = graph.value(graph.inputs[0]);
    assert_eq!((x.name.as_str(), x.dtype), ("x", Some(DType::F32)));
    assert_eq!(x.dims.as_deref(), Some(&[Dim::from("rows"), Dim::Fixed(2)][..]));
    let session = kiln::Session::from_graph(graph, &kiln::SessionOptions::default()).unwrap();
    let input = Tensor::from_vec([1, 2], vec![0.0f32, 0.0]).unwrap();
    let outputs = session.run(&[("x", input)]).unwrap();
    let y = outputs[0].1.as_slice::<f32>().unwrap();
    // The softmax of [1, -1] is 1 / (1 + exp(-2)).
    assert!((y[0] - 0.880_797).abs() < 1e-5 && (y[0] + y[1] - 1.0).abs() < 1e-6, "{y:?}");
}

#[test]
fn what_is_not_read_says_so() {
    let text = |bytes: &[u8]| read(bytes).err().unwrap().message;
    let mut elsewhere = b"\0\0\0\0ORTM".to_vec();
    let weight = vec![(0, Text("w")), (2, Longs(vec![2])), (3, Int(1)), (6, Long(4096))];
    let graph = vec![(0, Tables(vec![weight]))];
    let root = write(&mut elsewhere, vec![(1, Table(vec![(7, Table(graph))]))]);
    elsewhere[..4].copy_from_slice(&(root as u32).to_le_bytes());
    assert!(text(&elsewhere).contains("weights in other files are not implemented"));
    let body = vec![(5, Text("If")), (10, Tables(vec![vec![(0, Text("then_branch")), (2, Int(5))]]))];
    let mut with_body = b"\0\0\0\0ORTM".to_vec();
    let root = write(&mut with_body, vec![(1, Table(vec![(7, Table(vec![(2, Tables(vec![body]))]))]))]);
    with_body[..4].copy_from_slice(&(root as u32).to_le_bytes());
    assert!(text(&with_body).contains("bodies (If, Loop, Scan) are not implemented"));
}

#[test]
fn damaged_bytes_are_an_error_or_another_graph_and_nothing_worse() {
    let bytes = model();
    for length in 8..bytes.len() {
        let _ = read(&bytes[..length]);
    }
    for place in 0..bytes.len() {
        for value in [0, 1, 127, 128, 255, bytes[place] ^ 4] {
            let mut damaged = bytes.clone();
            damaged[place] = value;
            let _ = read(&damaged);
        }
    }
    for length in 0..64 {
        for fill in [0u8, 1, 8, 127, 255] {
            let mut bytes = vec![fill; length];
            if let Some(mark) = bytes.get_mut(MARK) {
                mark.copy_from_slice(b"ORTM");
            }
            assert!(read(&bytes).is_err());
        }
    }
}
