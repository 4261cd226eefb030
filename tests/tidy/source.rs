//! Rust source as the rules read it: tokens without comments, literals and lifetimes, and without code that only tests
//! compile.

/// An identifier, a punctuation mark (`::` and `->` are one), or `""` for any literal but a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// The line of the file, from 1.
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(crate) fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }
}

/// All tokens of a file.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = string_length(rest) {
            found.push(Token { text: "\"\"".to_owned(), line });
            length
        } else if rest.starts_with('\'') {
            let (length, is_char) = quote_length(rest);
            if is_char {
                found.push(Token { text: "\"\"".to_owned(), line });
            }
            length
        } else {
            let first = rest.chars().next().unwrap();
            let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let length = match word {
                0 if rest.starts_with("::") || rest.starts_with("->") || rest.starts_with("=>") => 2,
                0 => first.len_utf8(),
                word => word,
            };
            if !first.is_whitespace() {
                found.push(Token { text: rest[..length].to_owned(), line });
            }
            length
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    found
}

/// The length in bytes of the string that `rest` begins with: `"..."`, `b"..."`, `r"..."`, `br#"..."#`.
fn string_length(rest: &str) -> Option<usize> {
    if !rest.starts_with(['"', 'b', 'c', 'r']) {
        return None;
    }
    let prefix = ["br", "b", "r", "c", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(*prefix).map(|after| after.trim_start_matches('#'));
        after.is_some_and(|after| after.starts_with('"'))
    })?;
    let after = &rest[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let raw = prefix.contains('r');
    if hashes > 0 && !raw {
        return None;
    }
    let begin = prefix.len() + hashes + 1;
    if raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len()));
    }
    let mut escaped = false;
    for (at, c) in rest[begin..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(begin + at + 1),
            _ => {}
        }
    }
    Some(rest.len())
}

/// The length in bytes of a character or of a lifetime, and whether it is a character.
fn quote_length(rest: &str) -> (usize, bool) {
    if let Some(escape) = rest.strip_prefix("'\\") {
        let end = escape.char_indices().skip(1).find(|(_, c)| *c == '\'');
        return (end.map_or(rest.len(), |(at, _)| at + 3), true);
    }
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some(_), Some((at, '\''))) => (at + 1, true),
        _ => (rest[1..].find(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(rest.len(), |end| end + 1), false),
    }
}

/// `tokens` without the items, fields and statements under `#[cfg(test)]` and `#[cfg(all(test, ..))]`.
pub(crate) fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if is_test_attribute(&tokens[at..]) {
            at = end_of_item(tokens, at);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

fn is_test_attribute(tokens: &[Token]) -> bool {
    let begins =
        |words: &[&str]| words.iter().zip(tokens).filter(|(word, token)| token.is(word)).count() == words.len();
    begins(&["#", "[", "cfg", "(", "test", ")"]) || begins(&["#", "[", "cfg", "(", "all", "(", "test", ","])
}

/// The end of the item whose attributes begin at `at`.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    while at + 1 < tokens.len() && tokens[at].is("#") {
        at = end_of_group(tokens, at + 1);
    }
    let items = [
        "pub",
        "fn",
        "mod",
        "impl",
        "struct",
        "enum",
        "const",
        "static",
        "type",
        "unsafe",
        "extern",
        "trait",
        "macro_rules",
        "async",
        "use",
    ];
    let is_item = at < tokens.len() && items.contains(&tokens[at].text.as_str());
    let is_use = tokens[at..].iter().take(5).any(|token| token.is("use"));
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "}" | ")" | "]" => return at,
            "{" => {
                at = end_of_group(tokens, at);
                if !is_use {
                    return at;
                }
            }
            "(" | "[" => at = end_of_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// The place after the bracket that closes the one at `open`.
pub(crate) fn end_of_group(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

#[test]
fn tokens_have_no_comments_strings_or_lifetimes() {
    let source =
        "fn f<'a>(x: &'a str) { // (a, b)\n let c = '\"'; let d = '\\''; \"fn g((a, b): C)\" /* ( */ r#\"\"(\"# }";
    let words: Vec<String> = tokens(source).into_iter().map(|token| token.text).collect();
    let expected = "fn f < > ( x : & str ) { let c = \"\" ; let d = \"\" ; \"\" \"\" }";
    assert_eq!(words.join(" "), expected);
    assert_eq!(tokens("a\n\"\n\"\nb").last().unwrap().line, 4);
}

#[test]
fn what_only_tests_compile_is_left_out() {
    let source = "#[cfg(test)] use a::{b, c}; #[cfg(test)] #[x(y)] mod tests; fn f() { #[cfg(test)] g([1; 2]); h() } \
                  struct S { #[cfg(test)] a: [u8; 3], b: u8 } #[cfg(all(test, unix))] fn i(a: [u8; 2]) { j() } k!();";
    let words: Vec<String> = without_tests(&tokens(source)).into_iter().map(|token| token.text).collect();
    assert_eq!(words.join(" "), "fn f ( ) { h ( ) } struct S { b : u8 } k ! ( ) ;");
}
