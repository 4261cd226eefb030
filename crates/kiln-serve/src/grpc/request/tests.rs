//! Requests as gRPC clients write them, and refused ones.

use super::*;

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    field.extend_from_slice(bytes);
    field
}

/// An input of type FP32 with further fields.
fn input(name: &str, shape: &[u8], more: &[u8]) -> Vec<u8> {
    field(5, &[&field(1, name.as_bytes()), &field(2, b"FP32"), &field(3, shape), more].concat())
}

fn parameter(number: u8, key: &str, value: &[u8]) -> Vec<u8> {
    field(number, &[field(1, key.as_bytes()), field(2, value)].concat())
}

const TWO_FLOATS: &[u8] = b"\x32\x08\0\0\0\0\0\0\0\0";

#[test]
fn raw_contents_belong_to_the_inputs_in_their_order() {
    let message = [
        field(7, b"01234567"),
        field(3, b"id"),
        input("a", &[1, 2], b""),
        input("b", &[1], b""),
        field(7, b"0123"),
        field(6, &field(1, b"y")),
        parameter(4, "timeout", &[0x10, 50]),
    ]
    .concat();
    let head = head(&message).unwrap();
    let places: Vec<&Place> = head.inputs.iter().map(|input| &input.place).collect();
    let [Place::Binary(a), Place::Binary(b)] = places[..] else { panic!("{places:?}") };
    assert_eq!((&message[a.clone()], &message[b.clone()]), (&b"01234567"[..], &b"0123"[..]));
    assert_eq!(head.inputs[0].shape, [1, 2]);
    assert_eq!((head.id.as_deref(), head.timeout), (Some("id"), Some(Duration::from_micros(50))));
    assert_eq!(head.outputs.unwrap()[0].name, "y");
}

#[test]
fn contents_stay_where_they_are() {
    let message = input("a", &[2], &field(5, TWO_FLOATS));
    let Place::Contents(place) = head(&message).unwrap().inputs.remove(0).place else { panic!() };
    assert_eq!(&message[place], TWO_FLOATS);
    // An input without elements has nothing to give.
    assert_eq!(head(&input("a", &[0], b"")).unwrap().inputs[0].place, Place::Nowhere);
}

#[test]
fn what_does_not_fit_together_is_named() {
    let negative = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let region = parameter(4, "shared_memory_region", &field(3, b"r"));
    for (message, part) in [
        (vec![input("a", &[2], b"")], "input 'a' has neither contents nor raw_input_contents"),
        (
            vec![input("a", &[2], &field(5, TWO_FLOATS)), input("b", &[1], b""), field(7, b"0123")],
            "input 'a' has contents, which no input may have beside raw_input_contents",
        ),
        (vec![input("a", &[2], b""), field(7, b""), field(7, b"")], "2 raw_input_contents are given for 1 inputs"),
        (vec![input("a", &negative, b"")], "a dimension of its shape is -1"),
        (vec![input("a", &[1; 33], b"")], "more than 32 sizes"),
        (vec![input("a", &[2], &region)], "input 'a': the parameter 'shared_memory_region' is not offered here"),
        (vec![field(5, &field(2, b"FP99"))], "no datatype FP99"),
        (vec![field(5, b"\x08")], "no message of protobuf"),
        (vec![parameter(4, "sequence_id", &[0x10, 7])], "'sequence_id'"),
        (vec![parameter(4, "timeout", &field(3, b"soon"))], "'timeout' is not a whole number"),
        (vec![field(3, b"\xff")], "'id' is not UTF-8"),
        (vec![field(5, &field(1, &[b'a'; 5000]))], "takes 5000 bytes, 4096 are allowed"),
        (vec![field(7, b""); 1025], "more than 1024 raw_input_contents"),
        (vec![field(4, b""); 1 << 17], "more than 65536 fields"),
    ] {
        let error = head(&message.concat()).unwrap_err().message;
        assert!(error.contains(part), "{part}: {error}");
    }
}
