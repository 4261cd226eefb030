//! Expressions in RE2's syntax. The longest match at the first place counts.
//!
//! The `regex` crate reads nearly the same syntax. Differences are rewritten: classes such as `\w` and the border `\b`
//! are those of ASCII, `\Q..\E` quotes, and constructs of the crate alone (a class within a class, `&&`, `\<`, a brace
//! that repeats nothing) stand for themselves. The crate finds where the first match begins, in time that is linear in
//! the text. An automaton that goes on as long as anything can match finds where the longest match from there ends.

use std::fmt::Write;
use std::ops::Range;

use kiln_model::NodeDesc;
use regex::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};

use crate::OpError;
use crate::regex::{MOST_BYTES, MOST_GROUPS, depth};

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Expression {
    first: Regex,
    longest: DFA,
}

/// An expression, and its automaton's cache for the texts of one request.
pub(super) struct Finder<'e> {
    expression: &'e Expression,
    cache: Cache,
}

impl Expression {
    /// Compiles the value of that attribute.
    ///
    /// # Errors
    ///
    /// For a text that is no expression, or one that needs too much memory; names the attribute and the value's
    /// beginning.
    pub(super) fn new(node: &NodeDesc, attribute: &str, pattern: &str) -> Result<Expression, OpError> {
        let refused = |reason: &str| {
            let shown = pattern.chars().take(60).collect::<String>();
            OpError::invalid(node, format!("{attribute} {shown:?}: {reason}"))
        };
        let written = written(pattern);
        if depth(&written) > MOST_GROUPS {
            return Err(refused(&format!("more than {MOST_GROUPS} groups within groups")));
        }
        let first = RegexBuilder::new(&written).size_limit(MOST_BYTES).dfa_size_limit(MOST_BYTES).build();
        // The crate's message repeats the whole expression, and its last line says what is wrong.
        let first = first.map_err(|error| refused(error.to_string().lines().last().unwrap_or_default()))?;
        let longest = DFA::builder()
            .configure(
                Config::new().match_kind(MatchKind::All).cache_capacity(MOST_BYTES).skip_cache_capacity_check(true),
            )
            .thompson(thompson::Config::new().nfa_size_limit(Some(MOST_BYTES)))
            .build(&written);
        let longest = longest.map_err(|error| refused(&error.to_string()))?;
        Ok(Expression { first, longest })
    }

    /// The finder for the texts of a request.
    pub(super) fn finder(&self) -> Finder<'_> {
        Finder { expression: self, cache: self.longest.create_cache() }
    }
}

impl Finder<'_> {
    /// The longest match at the first place from `start` on; the text before `start` counts for `^` and `\b`.
    pub(super) fn find(&mut self, text: &str, start: usize) -> Option<Range<usize>> {
        if start > text.len() {
            return None;
        }
        let first = self.expression.first.find_at(text, start)?;
        let from = Input::new(text).range(first.start()..).anchored(Anchored::Yes);
        // The automaton gives up only under settings that are not made here; the first match would then be used.
        let longest = self.expression.longest.try_search_fwd(&mut self.cache, &from);
        let end = longest.ok().flatten().map_or(first.end(), |longest| longest.offset());
        Some(first.start()..end)
    }
}

/// The class of ASCII that a letter behind a backslash stands for.
fn class_of(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => "[\\t\\n\\x0C\\r ]",
        'S' => "[^\\t\\n\\x0C\\r ]",
        _ => return None,
    })
}

/// Writes a character that stands for itself.
fn push_literal(to: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        // Writing to a string does not fail.
        let _ = write!(to, "\\x{:02X}", u32::from(character));
    } else {
        to.push(character);
    }
}

/// Whether the text behind a brace goes on with a number of repetitions.
fn is_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}

/// The same expression in the syntax of the `regex` crate.
fn written(pattern: &str) -> String {
    let (mut to, mut rest) = (String::with_capacity(pattern.len()), pattern);
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '\\' => rest = push_escaped(&mut to, rest, false),
            '[' => rest = push_class(&mut to, rest),
            '{' if !is_repetition(rest) => push_literal(&mut to, character),
            _ => to.push(character),
        }
    }
    to
}

/// Writes a class, where `rest` is the text behind its opening bracket. Returns the text behind the closing one.
fn push_class<'p>(to: &mut String, mut rest: &'p str) -> &'p str {
    to.push('[');
    if let Some(behind) = rest.strip_prefix('^') {
        to.push('^');
        rest = behind;
    }
    // A bracket or a hyphen at the start stands for itself.
    if let Some(behind) = rest.strip_prefix([']', '-']) {
        rest[..1].chars().for_each(|own| push_literal(to, own));
        rest = behind;
    }
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            ']' => {
                to.push(']');
                return rest;
            }
            '\\' => rest = push_escaped(to, rest, true),
            '[' if rest.starts_with(':') && rest.contains(":]") => {
                to.push('[');
                rest = push_until(to, rest, ":]");
            }
            '-' => {
                to.push('-');
                if let Some(behind) = rest.strip_prefix('-') {
                    push_literal(to, '-');
                    rest = behind;
                }
            }
            _ => push_literal(to, character),
        }
    }
    rest
}

/// Writes a text up to the first `end`, and that too. Returns the text behind it.
fn push_until<'p>(to: &mut String, rest: &'p str, end: &str) -> &'p str {
    let (own, behind) = rest.split_at(rest.find(end).map_or(rest.len(), |place| place + end.len()));
    to.push_str(own);
    behind
}

/// Writes an escape, where `rest` is the text behind its backslash. Returns the text behind the escape.
fn push_escaped<'p>(to: &mut String, rest: &'p str, in_class: bool) -> &'p str {
    let Some(character) = rest.chars().next() else {
        to.push('\\');
        return rest;
    };
    let behind = &rest[character.len_utf8()..];
    match character {
        'b' | 'B' if !in_class => {
            // Writing to a string does not fail.
            let _ = write!(to, "(?-u:\\{character})");
        }
        'Q' if !in_class => {
            let (quoted, behind) = behind.split_once("\\E").unwrap_or((behind, ""));
            quoted.chars().for_each(|own| push_literal(to, own));
            return behind;
        }
        'p' | 'P' | 'x' => {
            to.extend(['\\', character]);
            if behind.starts_with('{') {
                return push_until(to, behind, "}");
            }
        }
        _ => match class_of(character) {
            Some(class) => to.push_str(class),
            None if character.is_ascii_punctuation() => push_literal(to, character),
            None => to.extend(['\\', character]),
        },
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the first match is, and its length.
    fn first(pattern: &str, text: &str) -> Option<Range<usize>> {
        let expression = Expression::new(&NodeDesc::default(), "tokenexp", pattern).expect("an expression");
        expression.finder().find(text, 0)
    }

    #[test]
    fn the_longest_match_at_the_first_place_counts() {
        assert_eq!(first("a|ab|abc", "xabcd"), Some(1..4));
        assert_eq!(first("a+?", "baaa"), Some(1..4));
        assert_eq!(first("(a|ab)(c|bcd)?", "abcd"), Some(0..4));
        assert_eq!(first("x*", "axx"), Some(0..0));
        assert_eq!(first("y", "axx"), None);
    }

    #[test]
    fn classes_and_borders_are_those_of_ascii() {
        assert_eq!(first(r"\w+", "\u{e9}ab_1\u{e9}"), Some(2..6));
        assert_eq!(first(r"[\d.]+", "x\u{661}1.5"), Some(3..6));
        assert_eq!(first("\\b\u{e9}", "a\u{e9}"), Some(1..3));
        assert_eq!(first("\\B\u{e9}", "a\u{e9}\u{e9}"), Some(3..5));
        assert_eq!(first(r"\S+", " \u{b}"), Some(1..2));
        assert_eq!(first("(?i)\u{c9}+", "\u{e9}\u{c9}"), Some(0..4));
        assert_eq!(first(r"\p{Greek}\x{3b2}\pL", "\u{3b1}\u{3b2}\u{3b3}"), Some(0..6));
    }

    #[test]
    fn what_only_the_crate_gives_a_meaning_stands_for_itself() {
        assert_eq!(first("[[a&&b]+", "x[&a"), Some(1..4));
        assert_eq!(first("[]a-]+", "x]-a"), Some(1..4));
        assert_eq!(first("[+--]+", "x,+-."), Some(1..4));
        assert_eq!(first("[[:digit:]~~]+", "a1~"), Some(1..3));
        assert_eq!(first(r"\<a\>", "a<a>"), Some(1..4));
        assert_eq!(first(r"\Qa.b[\E+", "axb a.b[["), Some(4..9));
        assert_eq!(first("a{,2}{2}", "a{,2}}"), Some(0..6));
        assert_eq!(first("a{2,}", "aaa"), Some(0..3));
    }

    #[test]
    fn what_is_no_expression_is_refused_with_its_attribute() {
        let refused = |pattern: &str, part: &str| {
            let error = Expression::new(&NodeDesc::default(), "separators", pattern).unwrap_err().to_string();
            assert!(error.contains("separators") && error.contains(part), "{error}");
        };
        refused("(", "unclosed group");
        refused("[", "unclosed character class");
        refused("a\\", "incomplete escape");
        refused(r"\1", "backreferences");
        refused("((a{1000}){1000}){1000}", "size limit");
        refused(&"(".repeat(300), "groups within groups");
    }
}
