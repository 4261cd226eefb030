//! From tokens to text while they come: whole characters only, and no part of a text that ends the output. Knows no
//! tokenizer: the caller passes the decoder of tokens.

/// Tokens of one text whose characters come piece by piece.
///
/// The text of a token depends on the tokens before it (a space in front of a word, bytes of a character), so a piece
/// is the difference between the texts of the last tokens with and without the new one.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The tokens shown last, and those not shown yet.
    tokens: Vec<u32>,
    /// The number of shown tokens among them.
    shown: usize,
}

/// A character has at most four bytes, and each token of a part of one has at least a byte: after this many tokens, an
/// unfinished character will never become one.
const UNFINISHED: usize = 4;

impl Pieces {
    /// The text that the token completes; empty within a character.
    pub(crate) fn push<E>(&mut self, token: u32, decode: impl Fn(&[u32]) -> Result<String, E>) -> Result<String, E> {
        self.tokens.push(token);
        let waits = self.tokens.len() - self.shown < UNFINISHED;
        self.take(decode, waits)
    }

    /// The rest of the text after the last token.
    pub(crate) fn finish<E>(&mut self, decode: impl Fn(&[u32]) -> Result<String, E>) -> Result<String, E> {
        self.take(decode, false)
    }

    fn take<E>(&mut self, decode: impl Fn(&[u32]) -> Result<String, E>, waits: bool) -> Result<String, E> {
        let (before, all) = (decode(&self.tokens[..self.shown])?, decode(&self.tokens)?);
        if waits && all.ends_with(char::REPLACEMENT_CHARACTER) {
            return Ok(String::new());
        }
        let piece = match all.strip_prefix(before.as_str()) {
            Some(piece) => piece.to_owned(),
            // Some decoders give no character of a run of bytes if the last one is unfinished. The shown text is kept,
            // and the new tokens are decoded by themselves.
            None => decode(&self.tokens[self.shown..])?,
        };
        self.tokens.drain(..self.shown);
        self.shown = self.tokens.len();
        Ok(piece)
    }
}

/// Texts that end the output when they occur.
#[derive(Debug)]
pub(crate) struct Stops {
    stops: Vec<String>,
    /// The end of the text so far, which may be the beginning of a stop.
    held: String,
    found: bool,
}

impl Stops {
    /// Stops for these texts, which are not empty.
    pub(crate) fn new(stops: Vec<String>) -> Stops {
        Stops { stops, held: String::new(), found: false }
    }

    /// Whether a stop has occurred.
    pub(crate) fn found(&self) -> bool {
        self.found
    }

    /// The text that may be shown after that piece.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.found {
            return String::new();
        }
        self.held.push_str(piece);
        if let Some(at) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.found = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let begins = |&(at, _): &(usize, char)| self.stops.iter().any(|stop| stop.starts_with(&self.held[at..]));
        let keep = self.held.char_indices().find(begins).map_or(self.held.len(), |(at, _)| at);
        let rest = self.held.split_off(keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// The held text, after the last piece.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens below 256 are bytes; 256 is a word with a space that is left out at the beginning.
    fn decode(tokens: &[u32]) -> Result<String, std::convert::Infallible> {
        let bytes: Vec<u8> = tokens
            .iter()
            .enumerate()
            .flat_map(|(at, &token)| match u8::try_from(token) {
                Ok(byte) => vec![byte],
                Err(_) if at == 0 => b"word".to_vec(),
                Err(_) => b" word".to_vec(),
            })
            .collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn pieces(tokens: &[u32]) -> Vec<String> {
        let mut pieces = Pieces::default();
        let mut said: Vec<String> = tokens.iter().map(|&token| pieces.push(token, decode).unwrap()).collect();
        said.push(pieces.finish(decode).unwrap());
        said
    }

    fn bytes(text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    #[test]
    fn characters_come_whole_and_words_with_their_spaces() {
        assert_eq!(pieces(&bytes("a\u{e4}b")), ["a", "", "\u{e4}", "b", ""]);
        assert_eq!(pieces(&bytes("\u{1f600}!")), ["", "", "", "\u{1f600}", "!", ""]);
        assert_eq!(pieces(&[256, 256, 33, 256]), ["word", " word", "!", " word", ""]);
        for text in ["", "plain", "\u{4f60}\u{597d} \u{1f1e9}\u{1f1ea}", "\u{fffd}", "x\u{fffd}\u{fffd}y"] {
            assert_eq!(pieces(&bytes(text)).concat(), text);
        }
    }

    #[test]
    fn bytes_that_are_no_character_are_not_waited_for() {
        assert_eq!(pieces(&[0xf0, 0x9f, 98]), ["", "", "\u{fffd}b", ""]);
        assert_eq!(pieces(&[98, 0xf0, 0x9f]), ["b", "", "", "\u{fffd}"]);
        let many = pieces(&[0xff; 40]);
        assert!(many.iter().filter(|piece| !piece.is_empty()).count() >= 10, "{many:?}");
        assert_eq!(many.concat(), "\u{fffd}".repeat(40));
    }

    #[test]
    fn what_was_shown_is_not_shown_again_where_a_run_of_bytes_is_no_text() {
        // As the decoder ByteFallback does it.
        let strict = |tokens: &[u32]| -> Result<String, std::convert::Infallible> {
            let bytes = tokens.iter().map(|&token| token as u8).collect();
            Ok(String::from_utf8(bytes).unwrap_or_else(|_| "\u{fffd}".repeat(tokens.len())))
        };
        let mut pieces = Pieces::default();
        let mut said: Vec<String> =
            bytes("z\u{1f600}\u{1f601}").iter().map(|&token| pieces.push(token, strict).unwrap()).collect();
        assert_eq!(said.concat(), "z\u{1f600}\u{1f601}");
        said.push(pieces.push(0xc3, strict).unwrap());
        said.push(pieces.finish(strict).unwrap());
        assert_eq!(said.concat(), "z\u{1f600}\u{1f601}\u{fffd}");
    }

    fn shown(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let stops: Vec<String> = stops.iter().map(|&stop| stop.to_owned()).collect();
        let mut watch = Stops::new(stops);
        let mut said: Vec<String> = pieces.iter().map(|piece| watch.push(piece)).collect();
        if !watch.found() {
            said.push(watch.finish());
        }
        (said, watch.found())
    }

    #[test]
    fn nothing_of_a_stop_is_shown_however_it_is_cut() {
        assert_eq!(shown(&["END"], &["a E", "N", "D b", "c"]), (["a ", "", "", ""].map(str::to_owned).into(), true));
        assert_eq!(shown(&["END"], &["a E", "N", "X"]), (["a ", "", "ENX", ""].map(str::to_owned).into(), false));
        assert_eq!(shown(&["END"], &["EE", "ND"]), (["E", ""].map(str::to_owned).into(), true));
        assert_eq!(shown(&["END"], &["xE"]), (["x", "E"].map(str::to_owned).into(), false));
        assert_eq!(shown(&["b", "ab"], &["xab"]), (vec!["x".to_owned()], true), "the one that begins first");
        assert_eq!(shown(&["\u{e4}\u{f6}"], &["\u{e4}", "\u{e4}\u{f6}"]).0.concat(), "\u{e4}");
        let text = "one two END three";
        for cut in 0..text.len() {
            let (said, found) = shown(&["two END"], &[&text[..cut], &text[cut..]]);
            assert_eq!((said.concat().as_str(), found), ("one ", true), "{cut}");
        }
        assert_eq!(shown(&[], &["all", " of it"]).0.concat(), "all of it");
    }
}
