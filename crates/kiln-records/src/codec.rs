//! How values become bytes: the only file that knows the codec.
//!
//! The bytes are those of bincode's first default configuration: little-endian, integers at their full width, lengths
//! as `u64`, an enum's variant as `u32`. Several crates write the same bytes, so the codec can be replaced without
//! touching a file that exists. Decoding is bounded by [`LIMIT`] whatever a length inside claims, takes all of its
//! input or fails, and never panics.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The codec's number in the header of a file.
pub(super) const ID: u8 = 1;

/// The longest value: keys and choices are a few hundred bytes, and bytes must not make a reader allocate more.
pub(super) const LIMIT: usize = 4096;

/// Why a value has no bytes, or bytes have no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The value takes more bytes than a record may have.
    #[error("{0} bytes are too many: a record holds 4096, an index 256 MiB")]
    TooLong(usize),
    /// The value cannot be encoded.
    #[error("cannot be encoded: {0}")]
    Encode(String),
    /// The bytes are not those of such a value.
    #[error("cannot be decoded: {0}")]
    Decode(String),
    /// This many bytes were left over.
    #[error("{0} bytes left over")]
    Trailing(usize),
}

fn config() -> impl bincode::config::Config {
    bincode::config::legacy().with_limit::<LIMIT>()
}

/// The bytes of a value: the same for equal values, on every machine.
///
/// # Errors
///
/// [`CodecError::TooLong`] beyond 4096 bytes, [`CodecError::Encode`] for what the codec cannot hold.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
    let bytes =
        bincode::serde::encode_to_vec(value, config()).map_err(|error| CodecError::Encode(error.to_string()))?;
    if bytes.len() > LIMIT { Err(CodecError::TooLong(bytes.len())) } else { Ok(bytes) }
}

/// The value of those bytes; all bytes must belong to it.
///
/// # Errors
///
/// Any bytes are safe to pass; those that [`encode`] does not make are errors.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    whole(bytes, bincode::serde::decode_from_slice(bytes, config()))
}

/// The bytes of a value of any length, for files that are not of records.
///
/// # Errors
///
/// [`CodecError::Encode`] for what the codec cannot hold.
pub fn encode_long<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(value, bincode::config::legacy())
        .map_err(|error| CodecError::Encode(error.to_string()))
}

/// The value of those bytes, up to 256 MiB; all bytes must belong to it. A length inside takes no more memory than 16 MiB,
/// or four times the bytes where they are more than 16 MiB, whatever it claims.
///
/// # Errors
///
/// Any bytes are safe to pass; those that [`encode_long`] does not make are errors, and longer ones are
/// [`CodecError::TooLong`].
pub fn decode_long<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    fn within<T: DeserializeOwned, const MOST: usize>(bytes: &[u8]) -> Result<T, CodecError> {
        whole(bytes, bincode::serde::decode_from_slice(bytes, bincode::config::legacy().with_limit::<MOST>()))
    }
    // The codec takes its limit as a constant, so each limit is compiled for each type.
    match bytes.len() {
        0..=0x100_0000 => within::<T, 0x100_0000>(bytes),
        0x100_0001..=0x400_0000 => within::<T, 0x400_0000>(bytes),
        0x400_0001..=0x1000_0000 => within::<T, 0x1000_0000>(bytes),
        more => Err(CodecError::TooLong(more)),
    }
}

/// As [`decode`], for values that borrow from the bytes.
pub(super) fn decode_borrowed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    whole(bytes, bincode::serde::borrow_decode_from_slice(bytes, config()))
}

fn whole<T>(bytes: &[u8], decoded: Result<(T, usize), bincode::error::DecodeError>) -> Result<T, CodecError> {
    let (value, used) = decoded.map_err(|error| CodecError::Decode(error.to_string()))?;
    if used == bytes.len() { Ok(value) } else { Err(CodecError::Trailing(bytes.len() - used)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_takes_no_memory_for_what_it_claims() {
        for length in [0, 100, 5_000, 70_000, 1 << 20, 5 << 20] {
            let value = (vec![7_u8; length], "end".to_owned());
            let bytes = encode_long(&value).unwrap();
            assert_eq!(decode_long(&bytes), Ok(value), "{length}");
            let mut claim = bytes.clone();
            claim[..8].copy_from_slice(&(1_u64 << 46).to_le_bytes());
            assert!(decode_long::<(String, String)>(&claim).is_err(), "{length}");
            assert!(decode_long::<(Vec<u8>, String)>(&claim).is_err(), "{length}");
            assert!(decode_long::<(Vec<u8>, String)>(&bytes[..bytes.len() - 1]).is_err(), "{length}");
        }
    }

    #[test]
    fn the_bytes_of_each_kind_of_field_are_fixed() {
        type Everything = (u8, u32, bool, Option<u16>, Vec<u32>, String);
        let value: Everything = (7, 0x0102_0304, true, Some(9), vec![5], "ab".to_owned());
        let expected = [
            &[7][..],
            &[4, 3, 2, 1],
            &[1],
            &[1, 9, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b'],
        ]
        .concat();
        assert_eq!(encode(&value).unwrap(), expected);
        assert_eq!(decode::<Everything>(&expected).unwrap(), value);
    }

    #[test]
    fn what_is_too_long_left_over_or_cut_off_is_an_error() {
        assert_eq!(encode(&vec![0_u8; 4096]), Err(CodecError::TooLong(4104)));
        assert_eq!(decode::<u8>(&[1, 2, 3]), Err(CodecError::Trailing(2)));
        assert!(matches!(decode::<u32>(&[1, 2]), Err(CodecError::Decode(_))));
        assert!(matches!(decode::<bool>(&[2]), Err(CodecError::Decode(_))));
    }

    #[test]
    fn hostile_lengths_are_refused_without_allocating_for_them() {
        for length in [1, 4096, 4097, 1 << 31, u64::from(u32::MAX), 1 << 63, u64::MAX] {
            let mut bytes = length.to_le_bytes().to_vec();
            assert!(decode::<Vec<u64>>(&bytes).is_err(), "{length} elements of 8 bytes and no bytes");
            bytes.extend([0; 7]);
            assert!(decode::<Vec<u64>>(&bytes).is_err(), "{length} elements of 8 bytes and 7 bytes");
            assert!(decode::<String>(&length.to_le_bytes()).is_err());
        }
    }
}
