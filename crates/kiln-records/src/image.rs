//! A whole and sound record file in memory as it was read. Its records are in order of their names, so that one is
//! found by binary search and none has to be decoded before it is looked up: a file that many models share costs each
//! of them little more than reading it.
//!
//! It begins with the checksum of the whole file. Where that is not right, or anything else is not as this build writes
//! it (an older schema, no order), there is no image, and the file is read frame by frame for what is sound in it.

use std::cmp::Ordering;
use std::io::{self, Read};

use super::entry::{Kept, State, name_at};
use super::frame::{self, Header};

/// The records of a file.
#[derive(Debug, Default)]
pub(super) struct Image {
    bytes: Vec<u8>,
    /// Where each record's frame begins, in order of their names.
    frames: Vec<u32>,
    /// Records that something better stands for, or that were refused, by bit; as long as it has to be.
    gone: Vec<u64>,
    left: usize,
    /// The index after the one that was looked up last: merging another file looks up in this order.
    next: usize,
}

/// As many bytes as that, if the source has just as many.
fn read_whole(mut source: impl Read, length: usize) -> io::Result<Option<Vec<u8>>> {
    let (mut bytes, mut at) = (vec![0; length], 0);
    while at < length {
        match source.read(&mut bytes[at..])? {
            0 => return Ok(None),
            read => at += read,
        }
    }
    // A file that has grown is another file.
    Ok((source.read(&mut [0])? == 0).then_some(bytes))
}

impl Image {
    /// The image of a file of that length, for that fingerprint; none where it is anything but whole, sound, of the
    /// newest schema and in order.
    pub(super) fn read(source: impl Read, length: usize, fingerprint: [u8; 32]) -> io::Result<Option<Image>> {
        if length < frame::FRAMELESS {
            return Ok(None);
        }
        Ok(read_whole(source, length)?.and_then(|bytes| Image::of(bytes, fingerprint)))
    }

    fn of(bytes: Vec<u8>, fingerprint: [u8; 32]) -> Option<Image> {
        let header = Header::read(&bytes).ok().filter(|header| *header == Header::new(fingerprint))?;
        let count = frame::count_of_whole(&header, &bytes)?;
        let mut frames = Vec::with_capacity(count);
        let (mut at, mut before): (usize, &[u8]) = (frame::HEADER, &[]);
        for _ in 0..count {
            let payload = frame::payload_at(&bytes, at)?;
            let name = name_at(payload)?;
            if before.cmp(name) != Ordering::Less {
                return None;
            }
            frames.push(at as u32);
            (at, before) = (at + frame::FRAME + payload.len(), name);
        }
        let ends = at + frame::FOOTER == bytes.len();
        ends.then_some(Image { bytes, left: frames.len(), frames, gone: Vec::new(), next: 0 })
    }

    /// Records that are left.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    fn name(&self, place: usize) -> &[u8] {
        self.payload(place).and_then(name_at).unwrap_or_default()
    }

    fn payload(&self, place: usize) -> Option<&[u8]> {
        frame::payload_at(&self.bytes, *self.frames.get(place)? as usize)
    }

    fn is_gone(&self, place: usize) -> bool {
        self.gone.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// The place of the record of that name, if it is left.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        let place = self.first_not_below(name);
        (place < self.frames.len() && self.name(place) == name && !self.is_gone(place)).then_some(place)
    }

    /// As [`find`](Image::find), quicker for who asks for one name after the other in order.
    pub(super) fn find_next(&mut self, name: &[u8]) -> Option<usize> {
        let next = self.next;
        let place = match next < self.frames.len() && self.name(next) == name {
            true => next,
            false => self.first_not_below(name),
        };
        self.next = place + 1;
        (place < self.frames.len() && self.name(place) == name && !self.is_gone(place)).then_some(place)
    }

    fn first_not_below(&self, name: &[u8]) -> usize {
        self.first_not(|known| known < name)
    }

    /// The first place whose name is not so, as are all names before it and none after it.
    fn first_not(&self, so: impl Fn(&[u8]) -> bool) -> usize {
        let (mut from, mut to) = (0, self.frames.len());
        while from < to {
            let middle = from + (to - from) / 2;
            if so(self.name(middle)) { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// The record at an index, if it is one: the checksum says that the bytes are as written, and no more.
    pub(super) fn get(&self, place: usize) -> Option<Kept<&[u8]>> {
        Kept::of_payload(self.payload(place)?, State::Saved)
    }

    /// Says that the record at a place is none any more.
    pub(super) fn forget(&mut self, place: usize) {
        if place < self.frames.len() && !self.is_gone(place) {
            let word = place / 64;
            self.gone.resize(self.gone.len().max(word + 1), 0);
            self.gone[word] |= 1 << (place % 64);
            self.left -= 1;
        }
    }

    /// The records that are left, in order, of which the names begin so.
    pub(super) fn iter<'a>(&'a self, prefix: &[u8]) -> impl Iterator<Item = Kept<&'a [u8]>> + use<'a> {
        let end = self.first_not(|known| known < prefix || known.starts_with(prefix));
        (self.first_not_below(prefix)..end).filter(|&place| !self.is_gone(place)).filter_map(|place| self.get(place))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Evidence, Record};
    use super::*;

    const FINGERPRINT: [u8; 32] = [7; 32];

    fn record(number: u16, samples: u32) -> Record {
        let evidence = Evidence { created: 5, ..Evidence::measured(9, samples) };
        let family = ["conv", "matmul"][usize::from(number % 2)].to_owned();
        Record {
            family,
            revision: 1,
            key: number.to_be_bytes().to_vec(),
            choice: vec![1; usize::from(number)],
            evidence,
        }
    }

    fn file(numbers: &[u16]) -> Vec<u8> {
        let kept: Vec<Kept> = numbers.iter().map(|&n| Kept::of_record(&record(n, 3), State::Saved).unwrap()).collect();
        frame::write(Header::new(FINGERPRINT), kept.iter().map(Kept::bytes), 0)
    }

    fn image(bytes: &[u8]) -> Option<Image> {
        Image::read(bytes, bytes.len(), FINGERPRINT).unwrap()
    }

    #[test]
    fn each_record_is_found_by_its_name_and_no_other() {
        let numbers: Vec<u16> = (0..200).step_by(2).chain((1..200).step_by(2)).collect();
        let mut image = image(&file(&numbers)).unwrap();
        assert_eq!(image.len(), 200);
        for number in 0..210 {
            let kept = Kept::of_record(&record(number, 3), State::Saved).unwrap();
            let place = image.find(kept.name());
            assert_eq!(image.find_next(kept.name()), place);
            assert_eq!(
                place.and_then(|place| image.get(place)?.to_record()),
                (number < 200).then(|| record(number, 3))
            );
        }
        assert_eq!(image.iter(b"").count(), 200);
        let products = image.iter(b"\x06matmul").map(|kept| kept.to_record().unwrap().key[1]);
        assert!(products.eq((1..200).step_by(2)), "those of a family lie together");
    }

    #[test]
    fn what_is_forgotten_is_found_no_more() {
        let mut image = image(&file(&[0, 2, 4, 1, 3])).unwrap();
        let name = Kept::of_record(&record(4, 3), State::Saved).unwrap();
        let place = image.find(name.name()).unwrap();
        (0..2).for_each(|_| image.forget(place));
        assert_eq!((image.len(), image.find(name.name()), image.find_next(name.name())), (4, None, None));
        assert_eq!(image.iter(b"").count(), 4);
    }

    #[test]
    fn a_file_that_is_not_as_it_should_be_has_no_image() {
        let sound = file(&[0, 2, 1]);
        assert!(image(&sound).is_some() && image(&file(&[])).is_some());
        assert!(image(&file(&[2, 0, 1])).is_none(), "no order");
        assert!(image(&file(&[0, 0, 1])).is_none(), "one twice");
        assert!(Image::read(&sound[..], sound.len(), [8; 32]).unwrap().is_none(), "another machine");
        assert!(Image::read(&sound[..], sound.len() - 1, FINGERPRINT).unwrap().is_none(), "it has grown");
        assert!(Image::read(&sound[..], sound.len() + 1, FINGERPRINT).unwrap().is_none(), "it has shrunk");
        for bit in 0..sound.len() * 8 {
            let mut flipped = sound.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(image(&flipped).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn right_checksums_around_any_lengths_give_no_record_that_is_none() {
        let sound = file(&[0, 2, 1]);
        for at in frame::HEADER..sound.len() - 4 {
            for value in [0, 1, 127, 255] {
                let mut hostile = sound.clone();
                hostile[at] = value;
                let end = hostile.len() - 4;
                let checksum = crc32fast::hash(&hostile[..end]);
                hostile[end..].copy_from_slice(&checksum.to_le_bytes());
                let Some(image) = image(&hostile) else { continue };
                for kept in image.iter(b"") {
                    let whole = kept.to_record().unwrap_or_else(|| panic!("byte {at} is {value}"));
                    assert!(Kept::of_record(&whole, State::Saved).is_ok());
                }
            }
        }
    }
}
