//! Codings of bodies and messages: gzip, and deflate in zlib's framing, as HTTP defines it. Decompressed bytes are
//! checked against their limit while they are decompressed. Knows bytes and headers, no body.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{GzEncoder, MultiGzDecoder, ZlibEncoder};
use flate2::{Compression, Decompress, FlushDecompress, Status};
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderName};

use crate::refusal::{Kind, Refusal};

/// Fewer bytes than these are sent uncompressed: compression hardly shortens them.
const SHORT: usize = 1 << 10;

/// Bytes that are decompressed before they are counted.
const PIECE: usize = 32 << 10;

/// Codings in the order in which they are offered.
pub(crate) const OFFERED: &str = "gzip, deflate";

/// How bytes are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Uncompressed.
    #[default]
    Identity,
    Gzip,
    Deflate,
}

impl Coding {
    /// The coding of that name, in any case.
    fn of(name: &str) -> Option<Coding> {
        let all = [Coding::Identity, Coding::Gzip, Coding::Deflate];
        all.into_iter().find(|coding| name.trim().eq_ignore_ascii_case(coding.name()))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }

    /// The coding that a header names; without the header, none.
    pub(crate) fn given(headers: &HeaderMap, header: &HeaderName) -> Result<Coding, Refusal> {
        let mut values = headers.get_all(header).iter();
        let Some(value) = values.next() else { return Ok(Coding::Identity) };
        let known = value.to_str().ok().and_then(Coding::of).filter(|_| values.next().is_none());
        known.ok_or_else(|| {
            let message = format!("the coding {value:?} is not taken: {OFFERED} and identity are, one at a time");
            Refusal::new(Kind::Coding, message)
        })
    }

    /// The coding of a body of HTTP.
    pub(crate) fn of_body(headers: &HeaderMap) -> Result<Coding, Refusal> {
        Coding::given(headers, &CONTENT_ENCODING)
    }

    /// The coding that a client of HTTP asks for, if it names only one. Many libraries list all codings that they know
    /// without being told to. Such a client gets an answer sooner uncompressed.
    pub(crate) fn asked(headers: &HeaderMap) -> Coding {
        let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let wanted = values.flat_map(|value| value.split(',')).filter_map(|item| {
            let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
            let weight = parameters.trim().strip_prefix("q=").map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            let name = name.trim();
            (weight > 0.0 && !name.is_empty() && !name.eq_ignore_ascii_case("identity")).then_some(name)
        });
        let mut wanted = wanted.fuse();
        let first = wanted.next().and_then(Coding::of).unwrap_or_default();
        if wanted.next().is_some() { Coding::Identity } else { first }
    }
}

/// Most bytes that are sent for a body of at most `most` bytes: incompressible bytes get a little longer.
pub(crate) fn most_sent(is_compressed: bool, most: usize) -> usize {
    if is_compressed { most.saturating_add(most / 256).saturating_add(1 << 10) } else { most }
}

/// Bytes that grow as they arrive, up to a limit.
#[derive(Debug)]
struct Grown {
    bytes: Vec<u8>,
    /// Most bytes.
    most: usize,
    /// Their name, for refusals.
    what: &'static str,
    /// Why the last bytes were refused.
    refusal: Option<Refusal>,
}

impl Grown {
    fn new(most: usize, what: &'static str) -> Grown {
        Grown { bytes: Vec::new(), most, what, refusal: None }
    }

    fn too_large(&self) -> Refusal {
        Refusal::new(Kind::TooLarge, format!("the {} has more than {} bytes", self.what, self.most))
    }

    /// Refuses a body that has too many bytes so far, `arrived`: compressed bytes may go on for ever and give nothing.
    fn check(&self, arrived: usize) -> Result<(), Refusal> {
        if arrived > most_sent(true, self.most) { Err(self.too_large()) } else { Ok(()) }
    }

    fn add(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let size = self.bytes.len().saturating_add(data.len());
        if size > self.most {
            return Err(self.too_large());
        }
        if size > self.bytes.capacity() {
            // Grows by half, but never beyond the expected length.
            let grown = size.saturating_add(size / 2).min(self.most);
            let more = grown - self.bytes.len();
            self.bytes.try_reserve_exact(more).map_err(|_| Refusal::no_memory(grown, &format!("the {}", self.what)))?;
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Why writing failed: the noted refusal, or else the coding's error.
    fn failed(&mut self, coding: Coding, error: &io::Error) -> Refusal {
        let broken = || Refusal::bad(format!("the {} is no {}: {error}", self.what, coding.name()));
        self.refusal.take().unwrap_or_else(broken)
    }
}

impl Write for Grown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(refusal) = self.add(bytes) {
            self.refusal = Some(refusal);
            return Err(io::Error::other("refused"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The arriving bytes, decompressed.
pub(crate) struct Unpacked {
    way: Way,
    /// Bytes that have arrived.
    arrived: usize,
}

enum Way {
    Plain(Grown),
    Gzip(Box<MultiGzDecoder<Grown>>),
    Deflate(Box<Zlib>),
}

struct Zlib {
    grown: Grown,
    state: Decompress,
    piece: [u8; PIECE],
    has_ended: bool,
}

impl Unpacked {
    /// An empty body that may have `most` bytes once it is decompressed. Refusals call it `what`.
    pub(crate) fn new(coding: Coding, most: usize, what: &'static str) -> Unpacked {
        let grown = Grown::new(most, what);
        let way = match coding {
            Coding::Identity => Way::Plain(grown),
            Coding::Gzip => Way::Gzip(Box::new(MultiGzDecoder::new(grown))),
            Coding::Deflate => {
                let state = Decompress::new(true);
                Way::Deflate(Box::new(Zlib { grown, state, piece: [0; PIECE], has_ended: false }))
            }
        };
        Unpacked { way, arrived: 0 }
    }

    /// Takes the next bytes.
    pub(crate) fn add(&mut self, data: &[u8]) -> Result<(), Refusal> {
        self.arrived = self.arrived.saturating_add(data.len());
        match &mut self.way {
            Way::Plain(grown) => grown.add(data),
            Way::Gzip(decoder) => {
                decoder.get_ref().check(self.arrived)?;
                decoder.write_all(data).map_err(|error| decoder.get_mut().failed(Coding::Gzip, &error))
            }
            Way::Deflate(zlib) => {
                zlib.grown.check(self.arrived)?;
                zlib.add(data)
            }
        }
    }

    /// How many bytes have arrived.
    pub(crate) fn arrived(&self) -> usize {
        self.arrived
    }

    /// All bytes, once no more come.
    pub(crate) fn whole(self) -> Result<Bytes, Refusal> {
        match self.way {
            Way::Plain(grown) => Ok(grown.bytes.into()),
            Way::Gzip(mut decoder) => {
                decoder.try_finish().map_err(|error| decoder.get_mut().failed(Coding::Gzip, &error))?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes).into())
            }
            Way::Deflate(zlib) if zlib.has_ended => Ok(zlib.grown.bytes.into()),
            Way::Deflate(zlib) => {
                Err(Refusal::bad(format!("the {} is no deflate: it ends in the middle", zlib.grown.what)))
            }
        }
    }
}

impl Zlib {
    fn add(&mut self, mut data: &[u8]) -> Result<(), Refusal> {
        let what = self.grown.what;
        loop {
            if self.has_ended {
                let trailing = || Refusal::bad(format!("the {what} is no deflate: something follows its end"));
                return if data.is_empty() { Ok(()) } else { Err(trailing()) };
            }
            let before = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(data, &mut self.piece, FlushDecompress::None);
            let status = status.map_err(|error| Refusal::bad(format!("the {what} is no deflate: {error}")))?;
            // Both are at most as long as the input.
            let taken = (self.state.total_in() - before.0) as usize;
            let made = (self.state.total_out() - before.1) as usize;
            self.grown.add(&self.piece[..made])?;
            data = &data[taken..];
            self.has_ended = status == Status::StreamEnd;
            if !self.has_ended && data.is_empty() && made < PIECE {
                return Ok(());
            }
            if !self.has_ended && taken == 0 && made == 0 {
                return Err(Refusal::bad(format!("the {what} is no deflate: it cannot go on")));
            }
        }
    }
}

/// Whether parts are long enough to be compressed.
pub(crate) fn is_long(parts: &[Bytes]) -> bool {
    parts.iter().fold(0, |size: usize, part| size.saturating_add(part.len())) >= SHORT
}

/// Parts in that coding, compressed fast rather than small.
pub(crate) fn pack(coding: Coding, parts: &[Bytes]) -> Result<Bytes, Refusal> {
    let grown = Grown::new(usize::MAX, "compressed answer");
    let level = Compression::fast();
    let failed = |grown: &mut Grown, error: &io::Error| grown.failed(coding, error);
    Ok(match coding {
        Coding::Identity => {
            let mut grown = grown;
            parts.iter().try_for_each(|part| grown.add(part))?;
            grown.bytes
        }
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(grown, level);
            let written = parts.iter().try_for_each(|part| encoder.write_all(part)).and_then(|()| encoder.try_finish());
            written.map_err(|error| failed(encoder.get_mut(), &error))?;
            std::mem::take(&mut encoder.get_mut().bytes)
        }
        Coding::Deflate => {
            let mut encoder = ZlibEncoder::new(grown, level);
            let written = parts.iter().try_for_each(|part| encoder.write_all(part)).and_then(|()| encoder.try_finish());
            written.map_err(|error| failed(encoder.get_mut(), &error))?;
            std::mem::take(&mut encoder.get_mut().bytes)
        }
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Coding; 2] = [Coding::Gzip, Coding::Deflate];

    fn packed(coding: Coding, bytes: &[u8]) -> Bytes {
        pack(coding, &[Bytes::copy_from_slice(bytes)]).unwrap()
    }

    fn unpacked(coding: Coding, bytes: &[u8], most: usize, step: usize) -> Result<Bytes, Refusal> {
        let mut unpacked = Unpacked::new(coding, most, "body");
        bytes.chunks(step).try_for_each(|chunk| unpacked.add(chunk))?;
        unpacked.whole()
    }

    #[test]
    fn what_is_packed_comes_back_however_it_arrives() {
        let long: Vec<u8> =
            (0..300_000u32).flat_map(|place| (place.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
        for bytes in [&b""[..], b"a", &[7; 100_000], &long] {
            for coding in BOTH {
                for step in [1, 7, 4096, usize::MAX] {
                    let back = unpacked(coding, &packed(coding, bytes), 2 << 20, step).unwrap();
                    assert!(back == bytes, "{coding:?} of {} bytes by {step}", bytes.len());
                }
            }
        }
        // A second gzip member continues the first.
        let two = [packed(Coding::Gzip, b"ab"), packed(Coding::Gzip, b"c")].concat();
        assert_eq!(unpacked(Coding::Gzip, &two, 10, 3).unwrap(), "abc");
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let most = 1 << 20;
        for coding in BOTH {
            let bomb = packed(coding, &vec![0; 64 << 20]);
            assert!(bomb.len() < most, "{}", bomb.len());
            let mut unpacked = Unpacked::new(coding, most, "body");
            let refusal = bomb.chunks(4096).find_map(|chunk| unpacked.add(chunk).err()).unwrap();
            assert_eq!(refusal.kind, Kind::TooLarge, "{refusal:?}");
            assert!(refusal.message.contains("more than 1048576 bytes"), "{refusal:?}");
            let held = match &unpacked.way {
                Way::Gzip(decoder) => decoder.get_ref().bytes.capacity(),
                Way::Deflate(zlib) => zlib.grown.bytes.capacity(),
                Way::Plain(_) => usize::MAX,
            };
            assert!(held <= most, "{held}");
            assert_eq!(Unpacked::new(coding, 9, "body").add(&[0x1f; 1100]).unwrap_err().kind, Kind::TooLarge);
        }
    }

    #[test]
    fn what_is_broken_is_refused() {
        for coding in BOTH {
            let good = packed(coding, &[7; 1000]);
            let mut flipped = good.to_vec();
            // Its checksum.
            let place = if coding == Coding::Gzip { good.len() - 8 } else { good.len() - 1 };
            flipped[place] ^= 1;
            let followed = [&good[..], b"more"].concat();
            for bytes in [&b""[..], b"{}", &good[..1], &good[..good.len() - 1], &good[1..], &flipped, &followed] {
                for step in [1, usize::MAX] {
                    let refusal = unpacked(coding, bytes, 10_000, step).unwrap_err();
                    assert_eq!(refusal.kind, Kind::Bad, "{coding:?} {bytes:?}");
                    assert!(refusal.message.contains(&format!("is no {}", coding.name())), "{refusal:?}");
                }
            }
        }
    }

    #[test]
    fn a_coding_is_asked_for_by_its_name_alone() {
        for (text, expected) in [
            ("gzip", Coding::Gzip),
            ("GZIP;q=0.5", Coding::Gzip),
            ("deflate, identity;q=0.1", Coding::Deflate),
            ("gzip, deflate;q=0", Coding::Gzip),
            ("gzip, deflate", Coding::Identity),
            ("gzip, br", Coding::Identity),
            ("br", Coding::Identity),
            ("gzip;q=0", Coding::Identity),
            ("*", Coding::Identity),
            ("", Coding::Identity),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, text.parse().unwrap())]);
            assert_eq!(Coding::asked(&headers), expected, "{text}");
        }
        assert_eq!(Coding::asked(&HeaderMap::new()), Coding::Identity);
    }

    #[test]
    fn memory_grows_with_what_arrives() {
        let mut grown = Grown::new(1 << 30, "body");
        grown.add(&[0; 100]).unwrap();
        assert!(grown.bytes.capacity() < 1000, "{}", grown.bytes.capacity());
        grown.most = 210;
        grown.add(&[0; 100]).unwrap();
        assert!(grown.bytes.capacity() <= 210, "{}", grown.bytes.capacity());
    }
}
