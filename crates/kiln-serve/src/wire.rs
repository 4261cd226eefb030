//! Fields of a protobuf message, read in place: nothing is stored, so that a message takes no more memory than its
//! bytes. Knows no message.

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A field's value, by how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    pub(crate) value: Value<'a>,
}

/// The fields of a message in their order; the first malformed field ends them.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Fields<'a> {
        Fields(message)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(&mut self.0).ok_or(Malformed);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let key = varint(rest)?;
    let value = match key & 7 {
        0 => Value::Varint(varint(rest)?),
        1 => Value::Fixed64(fixed(rest)?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (bytes, tail) = rest.split_at_checked(length)?;
            *rest = tail;
            Value::Bytes(bytes)
        }
        5 => Value::Fixed32(fixed(rest)?),
        // Groups are older than proto3.
        _ => return None,
    };
    // A key is a number of 32 bits, and 0 is not a field.
    let number = key >> 3;
    ((1..1 << 29).contains(&number)).then_some(Field { number, value })
}

/// Takes a number of 1 to 10 bytes off the front.
pub(crate) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
        if byte < 0x80 {
            // The tenth byte holds one bit.
            return (place < 9 || byte <= 1).then_some(number);
        }
    }
    None
}

/// Takes `N` bytes off the front.
pub(crate) fn fixed<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_their_order() {
        let message = b"\x08\x96\x01\x12\x02ab\x1d\x01\x02\x03\x04\x21\x01\x02\x03\x04\x05\x06\x07\x08";
        let fields: Vec<Field<'_>> = Fields::of(message).map(Result::unwrap).collect();
        let expected = [
            (1, Value::Varint(150)),
            (2, Value::Bytes(b"ab")),
            (3, Value::Fixed32([1, 2, 3, 4])),
            (4, Value::Fixed64([1, 2, 3, 4, 5, 6, 7, 8])),
        ];
        assert_eq!(fields, expected.map(|(number, value)| Field { number, value }));
        let most = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Fields::of(&most).next().unwrap().unwrap().value, Value::Varint(u64::MAX));
    }

    #[test]
    fn what_is_cut_or_too_long_is_malformed_and_ends_the_message() {
        for message in [
            &b"\x08"[..],
            b"\x12\x03ab",
            b"\x1d\x01",
            b"\x0b\x0c",
            b"\x00\x00",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            let mut fields = Fields::of(message);
            assert_eq!(fields.next(), Some(Err(Malformed)), "{message:?}");
            assert_eq!(fields.next(), None);
        }
    }
}
