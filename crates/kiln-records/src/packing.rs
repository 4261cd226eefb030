//! Short forms of bytes that are mostly zeros, such as the codec's integers of full width.
//!
//! A packed text is a row of control bytes, each followed by literal bytes: the upper four bits count zeros, the lower
//! four count the literals that follow them. A single zero between literals is a literal. Measured on the records of
//! seven networks, keys and choices shrink to between a quarter and a half.
//!
//! Packing is a function of the bytes alone, so packed keys can be compared without unpacking. Unpacking takes any
//! bytes.

/// Most zeros, and most literals, of one control byte.
const RUN: usize = 15;

/// Appends the short form of those bytes.
pub(super) fn pack_into(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let zeros = rest.iter().take(RUN).take_while(|byte| **byte == 0).count();
        rest = &rest[zeros..];
        let ends = |at: &usize| rest[*at] == 0 && rest.get(at + 1).is_none_or(|next| *next == 0);
        let most = rest.len().min(RUN);
        let literals = (0..most).find(ends).unwrap_or(most);
        // Both counts are at most 15.
        out.push((zeros << 4 | literals) as u8);
        out.extend_from_slice(&rest[..literals]);
        rest = &rest[literals..];
    }
}

/// The number of bytes that a short form stands for; `None` if it is not whole.
pub(super) fn unpacked_len(mut packed: &[u8]) -> Option<usize> {
    let mut len = 0;
    while let Some((control, rest)) = packed.split_first() {
        let literals = usize::from(control & 15);
        packed = rest.get(literals..)?;
        len += usize::from(control >> 4) + literals;
    }
    Some(len)
}

/// The common prefix of the short forms of all texts that begin with those bytes: the row up to the first control byte
/// that depends on later bytes. That control byte counts most literals if no zero follows, and fewest or most zeros if
/// only zeros do.
pub(super) fn prefix_of_all(bytes: &[u8]) -> Vec<u8> {
    let [mut short, zeros] = [1, 0].map(|next| {
        let mut out = Vec::with_capacity(bytes.len() + 2 * RUN);
        pack_into(&[bytes, &[next; RUN + 2]].concat(), &mut out);
        out
    });
    let same = short.iter().zip(&zeros).take_while(|(one, other)| one == other).count();
    short.truncate(same);
    short
}

/// Whether the bytes that a short form stands for begin with `prefix`.
pub(super) fn begins(mut packed: &[u8], mut prefix: &[u8]) -> bool {
    while !prefix.is_empty() {
        let Some((control, rest)) = packed.split_first() else { return false };
        let zeros = usize::from(control >> 4).min(prefix.len());
        let (zero, after) = prefix.split_at(zeros);
        let Some((literals, rest)) = rest.split_at_checked(usize::from(control & 15)) else { return false };
        let same = literals.len().min(after.len());
        if zero.iter().any(|byte| *byte != 0) || literals[..same] != after[..same] {
            return false;
        }
        (packed, prefix) = (rest, &after[same..]);
    }
    true
}

/// The bytes of a short form, if they are exactly `N`.
pub(super) fn unpack_exact<const N: usize>(mut packed: &[u8]) -> Option<[u8; N]> {
    let (mut out, mut at) = ([0; N], 0);
    while let Some((control, rest)) = packed.split_first() {
        let (literals, rest) = rest.split_at_checked(usize::from(control & 15))?;
        let from = at + usize::from(control >> 4);
        at = from + literals.len();
        out.get_mut(from..at)?.copy_from_slice(literals);
        packed = rest;
    }
    (at == N).then_some(out)
}

/// The bytes of a short form, if they are at most `most`.
pub(super) fn unpack(mut packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let len = unpacked_len(packed).filter(|len| *len <= most)?;
    let mut out = Vec::with_capacity(len);
    while let Some((control, rest)) = packed.split_first() {
        let literals = usize::from(control & 15);
        out.resize(out.len() + usize::from(control >> 4), 0);
        out.extend_from_slice(rest.get(..literals)?);
        packed = &rest[literals..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        pack_into(bytes, &mut out);
        out
    }

    #[test]
    fn zeros_are_counted_and_single_ones_are_literals() {
        let table: [(&[u8], &[u8]); 7] = [
            (&[], &[]),
            (&[0], &[0x10]),
            (&[7], &[0x01, 7]),
            (&[1, 0, 2], &[0x03, 1, 0, 2]),
            (&[1, 0, 0, 2], &[0x01, 1, 0x21, 2]),
            (&[3, 0, 0, 0, 0, 0, 0, 0], &[0x01, 3, 0x70]),
            (&[0; 16], &[0xF0, 0x10]),
        ];
        for (bytes, packed) in table {
            assert_eq!(pack(bytes), packed, "{bytes:?}");
            assert_eq!(unpack(packed, 16).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn keys_of_a_model_begin_alike_when_packed() {
        // A digest and a number of threads, as in the keys of requests: the common prefix has all bytes but the last
        // zeros.
        let key = [&[9, 8, 7, 6, 5, 4, 3, 2][..], &[16, 0, 0, 0]].concat();
        assert_eq!(prefix_of_all(&key), [0x09, 9, 8, 7, 6, 5, 4, 3, 2, 16]);
        assert_eq!(prefix_of_all(&[]), [0u8; 0]);
        assert_eq!(prefix_of_all(&[0; 15]), [0u8; 0]);
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_nothing() {
        assert_eq!(unpack(&[0x02, 1], 100), None);
        assert_eq!(unpack(&[0xF0; 300], 4096), None);
        assert_eq!(unpacked_len(&[0xF0; 300]), Some(4500));
    }

    proptest! {
        #[test]
        fn packing_is_undone_by_unpacking(bytes in proptest::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..300)) {
            let packed = pack(&bytes);
            prop_assert_eq!(unpacked_len(&packed), Some(bytes.len()));
            prop_assert!(packed.len() <= bytes.len() + bytes.len() / RUN + 1);
            for len in 0..=bytes.len() {
                prop_assert!(begins(&packed, &bytes[..len]));
                let mut other = bytes[..len].to_vec();
                if let Some(last) = other.last_mut() {
                    *last ^= 1;
                }
                prop_assert_eq!(begins(&packed, &other), other.is_empty());
            }
            prop_assert!(!begins(&packed, &[&bytes[..], &[0]].concat()));
            for len in 0..=bytes.len() {
                prop_assert!(packed.starts_with(&prefix_of_all(&bytes[..len])), "the first {len} bytes");
            }
            prop_assert_eq!(unpack_exact::<36>(&packed).map(|bytes| bytes.to_vec()), unpack(&packed, 36).filter(|bytes| bytes.len() == 36));
            prop_assert_eq!(unpack(&packed, 300), Some(bytes));
        }

        #[test]
        fn any_bytes_unpack_or_do_not(packed in proptest::collection::vec(any::<u8>(), 0..100)) {
            let len = unpacked_len(&packed);
            begins(&packed, &[0; 40]);
            prop_assert_eq!(unpack(&packed, 4096).map(|bytes| bytes.len()), len);
            prop_assert_eq!(unpack_exact::<7>(&packed).map(|bytes| bytes.to_vec()), unpack(&packed, 7).filter(|bytes| bytes.len() == 7));
        }
    }
}
