//! Many records in little memory: their bytes one behind the other, in pieces of at most 64 KiB.
//!
//! An allocation for each record would cost more than a tiny record is long, and a file is bounded in bytes: the memory
//! that a hostile file makes us hold must be bounded by its length.

use super::entry::{Kept, LONGEST, State};

/// Bytes of a piece; the first pieces are smaller.
const PIECE: usize = 1 << 16;
/// Bytes of the first piece: at least one record of any length.
const FIRST: usize = 1 << 13;
/// Bytes before a record's own: the record's length and its name's, two bytes each, and the state.
const HEAD: usize = 5;

const _: () = assert!(HEAD + LONGEST <= FIRST);

/// Where a record is: the piece in the upper half, the offset in the piece in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location(u32);

impl Location {
    fn piece(self) -> usize {
        (self.0 >> 16) as usize
    }

    fn at(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }
}

/// Records in the order in which they came.
#[derive(Default)]
pub(super) struct Arena {
    pieces: Vec<Vec<u8>>,
    /// Bytes of all records, and bytes of the forgotten ones among them.
    held: usize,
    dead: usize,
}

impl Arena {
    /// Keeps a copy. `None` if there is no room: 4 GiB is the most.
    pub(super) fn push(&mut self, record: Kept<&[u8]>) -> Option<Location> {
        let length = HEAD + record.bytes().len();
        if self.pieces.last().is_none_or(|piece| piece.capacity() - piece.len() < length) {
            let room = self.held.clamp(FIRST, PIECE);
            // Records are no longer than the first piece, because no file has longer ones.
            if length > room || self.pieces.len() > usize::from(u16::MAX) {
                return None;
            }
            self.pieces.push(Vec::with_capacity(room));
        }
        let last = self.pieces.len() - 1;
        let piece = self.pieces.last_mut()?;
        let at = u16::try_from(piece.len()).ok()?;
        let [low, high] = u16::try_from(record.bytes().len()).ok()?.to_le_bytes();
        let [name_low, name_high] = record.name_len().to_le_bytes();
        piece.extend_from_slice(&[low, high, name_low, name_high, record.state as u8]);
        piece.extend_from_slice(record.bytes());
        self.held += length;
        Some(Location((last as u32) << 16 | u32::from(at)))
    }

    /// The record that was put there.
    pub(super) fn get(&self, location: Location) -> Kept<&[u8]> {
        self.pieces.get(location.piece()).and_then(|piece| read(piece.get(location.at()..)?)).unwrap_or_default()
    }

    /// All records, forgotten ones too.
    pub(super) fn iter(&self) -> impl Iterator<Item = Kept<&[u8]>> {
        self.pieces.iter().flat_map(|piece| {
            let mut rest = &piece[..];
            std::iter::from_fn(move || {
                let record = read(rest)?;
                rest = &rest[HEAD + record.bytes().len()..];
                Some(record)
            })
        })
    }

    /// Sets the state of a record.
    pub(super) fn set_state(&mut self, location: Location, state: State) {
        if let Some(byte) =
            self.pieces.get_mut(location.piece()).and_then(|piece| piece.get_mut(location.at() + HEAD - 1))
        {
            *byte = state as u8;
        }
    }

    /// Marks a record as no longer needed.
    pub(super) fn forget(&mut self, location: Location) {
        self.dead += HEAD + self.get(location).bytes().len();
    }

    /// Whether the forgotten bytes are more than half of the needed ones, so that the rest should move to a new arena.
    pub(super) fn is_wasteful(&self) -> bool {
        self.dead > PIECE + (self.held - self.dead) / 2
    }

    /// Bytes of all records, forgotten ones too.
    pub(super) fn held(&self) -> usize {
        self.held
    }
}

/// The record that begins at the start of `bytes`.
fn read(bytes: &[u8]) -> Option<Kept<&[u8]>> {
    let (&[low, high, name_low, name_high, state], rest) = bytes.split_first_chunk()?;
    let bytes = rest.get(..usize::from(u16::from_le_bytes([low, high])))?;
    Some(Kept::of_arena(bytes, u16::from_le_bytes([name_low, name_high]), State::of_byte(state)))
}

#[cfg(test)]
mod tests {
    use super::super::{Evidence, EvidenceKind, Record};
    use super::*;

    fn record(number: u32, length: usize) -> Record {
        let evidence =
            Evidence { kind: EvidenceKind::Measured, nanos: u64::from(number), samples: 3, created: 5, against: 0 };
        let key = number.to_le_bytes().to_vec();
        Record { family: "x".to_owned(), revision: number, key, choice: vec![7; length], evidence }
    }

    fn kept(number: u32, length: usize, state: State) -> Kept {
        Kept::of_record(&record(number, length), state).unwrap()
    }

    #[test]
    fn records_of_any_length_come_back_as_they_went_in() {
        let mut arena = Arena::default();
        let lengths = [0, 1, 100, 4000, 3, 4000, 4000, 17].iter().cycle().take(400);
        let states = [State::Saved, State::New, State::Writing];
        let all: Vec<_> =
            (0..).zip(lengths).map(|(number, &length)| (number, length, states[number as usize % 3])).collect();
        let locations: Vec<_> =
            all.iter().map(|&(n, length, state)| arena.push(kept(n, length, state).view()).unwrap()).collect();
        for (location, &(number, length, state)) in locations.iter().zip(&all) {
            let back = arena.get(*location);
            assert_eq!((back.to_record(), back.state), (Some(record(number, length)), state));
        }
        let in_order: Vec<_> = arena.iter().map(|kept| kept.to_record().unwrap().revision).collect();
        assert_eq!(in_order, (0..400).collect::<Vec<_>>());
        arena.set_state(locations[1], State::Saved);
        assert_eq!((arena.get(locations[1]).state, arena.get(locations[2]).state), (State::Saved, State::Writing));
    }

    #[test]
    fn what_is_forgotten_makes_it_wasteful() {
        let mut arena = Arena::default();
        let locations: Vec<_> =
            (0..200).map(|number| arena.push(kept(number, 1000, State::New).view()).unwrap()).collect();
        let most = locations.iter().position(|location| {
            arena.forget(*location);
            arena.is_wasteful()
        });
        // The dead bytes exceed half of the live bytes and a piece: (200 - n) / 2 + 60 < n.
        assert!(most.is_some_and(|most| (100..120).contains(&most)), "{most:?}");
    }
}
