//! A record file in memory as it was read, of the newest schema, and the shards beside it if they are long. No record
//! is decoded before it is looked up: a file that many models share costs each of them little more than reading it.
//!
//! Where the records are in order of their names, as every build writes them, binary search finds a record, and also
//! the records of a family whose keys begin alike. Where they are in no order, a table of hashes has the place of each,
//! and keys that begin alike are found by one pass over all names.
//!
//! Each file begins with the checksum of the whole file. Where that is wrong, each record is checked against its own
//! checksum, and damaged records are skipped. Files of older schemas are read by `older`.

use std::cmp::Ordering;
use std::io::{self, Read};
use std::ops::Range;

use super::entry::{Kept, State, name_at};
use super::frame::{self, Frames, Header};
use super::packing;
use super::pages::Pages;
use super::places::Places;

/// The records of a file and of shards beside it.
#[derive(Debug, Default)]
pub(super) struct Image {
    /// The files, one behind the other.
    bytes: Pages,
    /// The end of the last file.
    end: usize,
    /// The start of each record's frame.
    frames: Vec<u32>,
    /// Whether the names of some neighbours are out of order.
    disordered: bool,
    /// Places by names, where the records are not in order of names.
    places: Option<Places>,
    /// Records that were refused or have a better one elsewhere, by bit; as long as necessary.
    gone: Vec<u64>,
    left: usize,
    /// The index after the last one looked up: merging another file looks up in this order.
    next: usize,
}

/// Frames of a file.
struct Walked {
    frames: Vec<u32>,
    /// Whether their names ascend.
    in_order: bool,
    damaged: u64,
    /// The end of the frames.
    end: usize,
}

/// Fills `room` from the source; returns whether the source has exactly that many bytes.
pub(super) fn fill(mut source: impl Read, room: &mut [u8]) -> io::Result<bool> {
    let mut at = 0;
    while at < room.len() {
        match source.read(&mut room[at..])? {
            0 => return Ok(false),
            read => at += read,
        }
    }
    // A file that has grown counts as another file.
    Ok(source.read(&mut [0])? == 0)
}

impl Image {
    /// Bytes of the files and of the list of their records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.frames.len() * size_of::<u32>()
    }

    /// Room for files of `length` bytes in all.
    pub(super) fn with_room(length: usize) -> Image {
        Image { bytes: Pages::zeros(length), ..Image::default() }
    }

    /// Reads a file of that length, for that fingerprint, behind the files already here. `None`, and nothing is read,
    /// where its header differs from the one that this build writes, the length is wrong, or there is no room.
    pub(super) fn add(
        &mut self,
        source: impl Read,
        length: usize,
        fingerprint: [u8; 32],
    ) -> io::Result<Option<Frames>> {
        let from = self.end;
        let Some(room) = self.bytes.get_mut(from..).and_then(|room| room.get_mut(..length)) else { return Ok(None) };
        if !fill(source, room)? {
            return Ok(None);
        }
        let file = &self.bytes[from..from + length];
        let Some(mut walked) = walked(file, fingerprint) else { return Ok(None) };
        if self.frames.len() + walked.frames.len() > frame::MOST_RECORDS {
            return Ok(None);
        }
        let frames = Frames { sound: walked.frames.len() as u64, damaged: walked.damaged };
        self.disordered |= !walked.in_order;
        if from > 0 {
            walked.frames.iter_mut().for_each(|at| *at += from as u32);
        }
        let first = self.frames.len();
        if first == 0 {
            self.frames = walked.frames;
        } else {
            self.frames.append(&mut walked.frames);
            self.disordered |= first < self.frames.len() && self.name(first - 1) >= self.name(first);
        }
        self.end = from + length;
        Ok(Some(frames))
    }

    /// Builds the look-up of records, once all files are read. Returns whether they were in order.
    pub(super) fn complete(&mut self) -> bool {
        self.left = self.frames.len();
        if self.disordered {
            self.find_places();
        }
        !self.disordered
    }

    /// Builds the table of places. Of records with the same name the best counts, and of equally good ones the first.
    fn find_places(&mut self) {
        let mut gone = Vec::new();
        let places = Places::of_names(
            self.frames.len(),
            |place| self.name(place),
            |known, place| {
                let is_better = match (self.get(place), self.get(known)) {
                    (Some(record), Some(known)) => record.beats(&known),
                    (record, known) => record.is_some() && known.is_none(),
                };
                mark(&mut gone, if is_better { known } else { place });
                is_better
            },
        );
        self.left -= gone.iter().map(|word: &u64| word.count_ones() as usize).sum::<usize>();
        self.gone = gone;
        self.places = Some(places);
    }

    /// The number of records left.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    #[inline]
    fn name(&self, place: usize) -> &[u8] {
        self.payload(place).and_then(name_at).unwrap_or_default()
    }

    /// The file from the payload at a place on.
    fn frame(&self, place: usize) -> Option<&[u8]> {
        self.bytes.get(*self.frames.get(place)? as usize + frame::FRAME..)
    }

    fn payload(&self, place: usize) -> Option<&[u8]> {
        frame::payload_at(&self.bytes, *self.frames.get(place)? as usize)
    }

    fn is_gone(&self, place: usize) -> bool {
        self.gone.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// The place of the record with that name, if it is left.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        let place = match &self.places {
            Some(places) => places.find(name, |place| self.name(place))?,
            None => self.first_not_below(name),
        };
        (place < self.frames.len() && self.name(place) == name && !self.is_gone(place)).then_some(place)
    }

    /// As [`find`](Image::find), but quicker for callers that ask for one name after another in the file's order.
    pub(super) fn find_next(&mut self, name: &[u8]) -> Option<usize> {
        let next = self.next;
        let is_next = next < self.frames.len() && self.name(next) == name && !self.is_gone(next);
        let place = if is_next { Some(next) } else { self.find(name) };
        self.next = place.map_or(next, |place| place + 1);
        place
    }

    fn first_not_below(&self, name: &[u8]) -> usize {
        self.first_not(|known| known < name)
    }

    /// The first place whose name does not satisfy `so`. All names before it satisfy `so`, and none after it.
    fn first_not(&self, so: impl Fn(&[u8]) -> bool) -> usize {
        self.first_not_in(0..self.frames.len(), so)
    }

    fn first_not_in(&self, Range { start: mut from, end: mut to }: Range<usize>, so: impl Fn(&[u8]) -> bool) -> usize {
        while from < to {
            let middle = from + (to - from) / 2;
            if so(self.name(middle)) { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// As [`first_not`](Image::first_not) from that place on, quick if it is near.
    fn first_not_from(&self, from: usize, so: impl Fn(&[u8]) -> bool) -> usize {
        let (mut known, mut step) = (from, 1);
        while known + step <= self.frames.len() && so(self.name(known + step - 1)) {
            known += step;
            step *= 2;
        }
        self.first_not_in(known..self.frames.len().min(known + step), so)
    }

    /// The record at an index, if it is a record: the checksum only says that the bytes are as written.
    pub(super) fn get(&self, place: usize) -> Option<Kept<&[u8]>> {
        Kept::of_payload(self.payload(place)?, State::Saved)
    }

    /// Removes the record at a place.
    pub(super) fn forget(&mut self, place: usize) {
        if place < self.frames.len() && !self.is_gone(place) {
            mark(&mut self.gone, place);
            self.left -= 1;
        }
    }

    /// The records that are left, in the file's order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Kept<&[u8]>> {
        (0..self.frames.len()).filter(|&place| !self.is_gone(place)).filter_map(|place| self.get(place))
    }

    /// The remaining records of a family whose keys may begin with those bytes, in the file's order. No other records
    /// are decoded.
    pub(super) fn of_family<'a>(&'a self, family: &str, key: &[u8]) -> impl Iterator<Item = Kept<&'a [u8]>> + use<'a> {
        let family = family_prefix(family);
        let packed = packing::prefix_of_all(key);
        let (ranges, scanned) = match self.places {
            None => (self.ranges(&family, &packed), 0),
            Some(_) => (Vec::new(), self.frames.len()),
        };
        let wanted = move |&place: &usize| {
            // The key stands behind its length.
            let key = self.frame(place).and_then(|frame| frame.strip_prefix(&family[..])?.get(2..));
            key.is_some_and(|key| key.starts_with(&packed))
        };
        let places = ranges.into_iter().flatten().chain((0..scanned).filter(wanted));
        places.filter(|&place| !self.is_gone(place)).filter_map(|place| self.get(place))
    }

    /// The places of the names of a family whose packed keys begin with those bytes, for records in order. A name is
    /// the family, the packed key's length and the packed key, so each length is searched separately; a file of 64 MiB
    /// has room for some 4,000 lengths.
    fn ranges(&self, family: &[u8], packed: &[u8]) -> Vec<Range<usize>> {
        let (mut ranges, mut at) = (Vec::new(), self.first_not_below(family));
        while at < self.frames.len()
            && let name = self.name(at)
            && name.starts_with(family)
            && let Some(group) = name.get(..family.len() + 2)
        {
            let wanted = [group, packed].concat();
            let from = self.first_not_from(at, |known| known < &wanted[..]);
            let to = self.first_not_from(from, |known| known.starts_with(&wanted));
            if from < to {
                ranges.push(from..to);
            }
            at = self.first_not_from(to, |known| known.starts_with(group));
        }
        ranges
    }
}

/// Sets a bit, and adds words for it if necessary.
fn mark(words: &mut Vec<u64>, bit: usize) {
    let word = bit / 64;
    words.resize(words.len().max(word + 1), 0);
    words[word] |= 1 << (bit % 64);
}

/// The first bytes of the names of a family.
pub(super) fn family_prefix(family: &str) -> Vec<u8> {
    [&[family.len() as u8], family.as_bytes()].concat()
}

/// The frames of a file with exactly these bytes, if its header is the one that this build writes.
fn walked(bytes: &[u8], fingerprint: [u8; 32]) -> Option<Walked> {
    Header::read(bytes).ok().filter(|header| *header == Header::new(fingerprint))?;
    let whole = frame::count_of_whole(bytes).and_then(|count| {
        let walked = walk(bytes, count, |_, _| true);
        let ends = walked.end + frame::FOOTER == bytes.len();
        (ends && walked.damaged == 0 && walked.frames.len() == count).then_some(walked)
    });
    Some(whole.unwrap_or_else(|| {
        let sound =
            |at: usize, payload: &[u8]| frame::is_sound(bytes, at) && Kept::of_payload(payload, State::Saved).is_some();
        let walked = walk(bytes, 0, sound);
        // If nothing else is damaged, the footer is.
        Walked { damaged: walked.damaged.max(1), ..walked }
    }))
}

/// Goes from frame to frame as far as possible, and takes the frames for which `sound`, given their place and payload,
/// is true.
fn walk(bytes: &[u8], count: usize, sound: impl Fn(usize, &[u8]) -> bool) -> Walked {
    let mut walked = Walked { frames: Vec::with_capacity(count), in_order: true, damaged: 0, end: frame::HEADER };
    let mut before: Option<&[u8]> = None;
    while walked.frames.len() < frame::MOST_RECORDS
        && let Some(payload) = frame::payload_at(bytes, walked.end)
    {
        match name_at(payload).filter(|_| sound(walked.end, payload)) {
            Some(name) => {
                walked.in_order = walked.in_order && before.is_none_or(|before| before.cmp(name) == Ordering::Less);
                walked.frames.push(walked.end as u32);
                before = Some(name);
            }
            None => walked.damaged += 1,
        }
        walked.end += frame::FRAME + payload.len();
    }
    walked
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

    /// The image of those files, and the number of damaged parts.
    fn joined(files: &[&[u8]]) -> Option<(Image, u64)> {
        let mut image = Image::with_room(files.iter().map(|file| file.len()).sum());
        let added = files.iter().map(|file| image.add(*file, file.len(), FINGERPRINT).unwrap());
        let damaged = added.map(|frames| frames.map(|frames| frames.damaged)).sum::<Option<u64>>()?;
        image.complete();
        Some((image, damaged))
    }

    fn image(bytes: &[u8]) -> Option<Image> {
        joined(&[bytes]).map(|(image, _)| image)
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
        assert_eq!(image.iter().count(), 200);
        let products = image.of_family("matmul", &[]).map(|kept| kept.to_record().unwrap().key[1]);
        assert!(products.eq((1..200).step_by(2)), "those of a family lie together");
    }

    #[test]
    fn what_is_forgotten_is_found_no_more() {
        let mut image = image(&file(&[0, 2, 4, 1, 3])).unwrap();
        let name = Kept::of_record(&record(4, 3), State::Saved).unwrap();
        let place = image.find(name.name()).unwrap();
        (0..2).for_each(|_| image.forget(place));
        assert_eq!((image.len(), image.find(name.name()), image.find_next(name.name())), (4, None, None));
        assert_eq!(image.iter().count(), 4);
    }

    #[test]
    fn records_in_any_order_are_found_and_the_first_of_a_name_counts() {
        let shuffled: Vec<u16> = (0..200).map(|number| number * 77 % 200).collect();
        let twice = [&shuffled[..], &shuffled[..50]].concat();
        for (numbers, read) in [(&shuffled, 200), (&twice, 250)] {
            let mut image = image(&file(numbers)).unwrap();
            assert_eq!((image.frames.len(), image.len(), image.iter().count()), (read, 200, 200));
            for number in 0..210 {
                let kept = Kept::of_record(&record(number, 3), State::Saved).unwrap();
                let place = shuffled.iter().position(|known| *known == number);
                assert_eq!((image.find(kept.name()), image.find_next(kept.name())), (place, place));
            }
            assert_eq!(image.of_family("matmul", &[]).count(), 100);
            let name = Kept::of_record(&record(shuffled[7], 3), State::Saved).unwrap();
            image.forget(7);
            assert_eq!((image.len(), image.find(name.name()), image.find_next(name.name())), (199, None, None));
        }
    }

    #[test]
    fn files_are_one_behind_the_other_and_the_best_record_of_a_name_counts() {
        let of = |numbers: &[u16], samples: u32| {
            let record = |number: &u16| Kept::of_record(&record(*number, samples), State::Saved).unwrap();
            let kept: Vec<Kept> = numbers.iter().map(record).collect();
            frame::write(Header::new(FINGERPRINT), kept.iter().map(Kept::bytes), 0)
        };
        let samples = |image: &Image, number: u16| {
            let name = Kept::of_record(&record(number, 3), State::Saved).unwrap();
            image.find(name.name()).and_then(|place| Some(image.get(place)?.claim()?.evidence.samples))
        };
        let (image, _) = joined(&[&of(&[0, 2, 1], 3), &of(&[2, 4, 1], 5), &of(&[0, 4], 2), &of(&[], 1)]).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|number| samples(&image, number)), [Some(3), Some(5), Some(5), None, Some(5)]);
        assert_eq!((image.len(), image.iter().count(), image.frames.len()), (4, 4, 8));
        let (image, _) = joined(&[&of(&[], 1), &of(&[0, 2], 3), &of(&[4], 5), &of(&[1], 2)]).unwrap();
        assert!(image.places.is_none(), "they follow each other");
        assert_eq!([0, 1, 2, 3, 4].map(|number| samples(&image, number)), [Some(3), Some(2), Some(3), None, Some(5)]);
    }

    /// Records of one family with keys like the requests of a few models: some equal bytes, then some more.
    #[test]
    fn those_whose_keys_begin_alike_are_found_among_all_others() {
        let mut all = Vec::new();
        for model in 0..20_u8 {
            for rest in 0..30_u8 {
                let key = [&[model, 7, 0, model % 3, 1, 0, 0, 0][..], &vec![rest; usize::from(rest)]].concat();
                for family in ["request", "requests"] {
                    let family = family.to_owned();
                    all.push(Record { family, revision: 1, key: key.clone(), choice: Vec::new(), ..record(0, 3) });
                }
            }
        }
        let mut kept: Vec<Kept> = all.iter().map(|record| Kept::of_record(record, State::Saved).unwrap()).collect();
        kept.sort_by(|one, other| one.name().cmp(other.name()));
        let ordered = frame::write(Header::new(FINGERPRINT), kept.iter().map(Kept::bytes), 0);
        let shuffled = frame::write(Header::new(FINGERPRINT), kept.iter().rev().map(Kept::bytes), 0);
        let images = [image(&ordered).unwrap(), image(&shuffled).unwrap()];
        assert!(images[0].places.is_none() && images[1].places.is_some());
        for image in &images {
            for model in 0..22 {
                for length in 0..=8 {
                    let key = &[model, 7, 0, model % 3, 1, 0, 0, 0][..length];
                    let wanted = all.iter().filter(|record| record.family == "request" && record.key.starts_with(key));
                    let given = || image.of_family("request", key);
                    let found = given().filter(|kept| kept.key_begins(key)).count();
                    assert_eq!(found, wanted.count(), "{key:?}");
                    assert!(
                        length < 7 || given().count() == found,
                        "none but these are decoded, where two zeros end the prefix: {key:?}"
                    );
                }
            }
            assert_eq!(image.of_family("reques", &[]).count() + image.of_family("", &[]).count(), 0);
        }
    }

    #[test]
    fn a_file_that_is_not_as_it_should_be_gives_what_is_sound_in_it() {
        let sound = file(&[0, 2, 1]);
        let all: Vec<_> = image(&sound).unwrap().iter().map(|kept| kept.to_record().unwrap()).collect();
        assert!(joined(&[&sound]).is_some_and(|(image, damaged)| damaged == 0 && image.len() == 3));
        assert!(joined(&[&file(&[])]).is_some_and(|(_, damaged)| damaged == 0));
        let is_read = |length: usize, room: usize, fingerprint: [u8; 32]| {
            Image::with_room(room).add(&sound[..], length, fingerprint).unwrap().is_some()
        };
        let all_of_it = sound.len();
        assert!(is_read(all_of_it, all_of_it, FINGERPRINT) && !is_read(all_of_it, all_of_it - 1, FINGERPRINT));
        assert!(!is_read(all_of_it, all_of_it, [8; 32]), "another machine");
        assert!(!is_read(all_of_it - 1, all_of_it, FINGERPRINT), "it has grown");
        assert!(!is_read(all_of_it + 1, all_of_it + 1, FINGERPRINT), "it has shrunk");
        for bit in 0..sound.len() * 8 {
            let mut flipped = sound.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let Some((image, damaged)) = joined(&[&flipped]) else { continue };
            assert!(damaged > 0 && bit / 8 >= frame::HEADER, "bit {bit}");
            assert!(image.iter().all(|kept| kept.to_record().is_some_and(|record| all.contains(&record))), "bit {bit}");
        }
        for length in 0..sound.len() {
            let Some((image, damaged)) = joined(&[&sound[..length]]) else { continue };
            assert!(damaged == 1 && image.iter().all(|kept| all.contains(&kept.to_record().unwrap())));
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
                for kept in image.iter() {
                    let whole = kept.to_record().unwrap_or_else(|| panic!("byte {at} is {value}"));
                    assert!(Kept::of_record(&whole, State::Saved).is_ok());
                }
            }
        }
    }
}
