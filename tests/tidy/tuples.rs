//! Finds parameters of functions that are tuples.

use crate::source::{Token, end_of_group};

/// The functions with a parameter whose pattern or type is a tuple or a reference to one, and their lines.
pub(crate) fn tuple_parameters(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        if !(pair[0].is("fn") && pair[1].is_name()) {
            continue;
        }
        let Some(open) = parameters(tokens, at + 2) else { continue };
        let inside = &tokens[open + 1..end_of_group(tokens, open) - 1];
        for parameter in split(inside) {
            if is_tuple_parameter(parameter) {
                found.push((pair[1].line, pair[1].text.clone()));
            }
        }
    }
    found
}

/// The place where the list of parameters opens, after a name and any `<>`.
fn parameters(tokens: &[Token], mut at: usize) -> Option<usize> {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            "(" if depth == 0 => return Some(at),
            "(" | "[" | "{" => {
                at = end_of_group(tokens, at);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Parts between commas that are not inside brackets.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&tokens[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[begin..]);
    parts
}

fn is_tuple_parameter(mut parameter: &[Token]) -> bool {
    while parameter.first().is_some_and(|token| token.is("#")) {
        parameter = &parameter[end_of_group(parameter, 1)..];
    }
    let mut depth = 0;
    for (at, token) in parameter.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ":" if depth == 0 => return is_tuple(&parameter[..at]) || is_tuple(&parameter[at + 1..]),
            _ => {}
        }
    }
    false
}

/// Whether these tokens are brackets with a comma inside, perhaps after `&` and `mut`.
fn is_tuple(mut tokens: &[Token]) -> bool {
    while tokens.first().is_some_and(|token| ["&", "mut", "ref"].contains(&token.text.as_str())) {
        tokens = &tokens[1..];
    }
    tokens.first().is_some_and(|token| token.is("("))
        && end_of_group(tokens, 0) == tokens.len()
        && split(&tokens[1..tokens.len() - 1]).len() > 1
}

#[test]
fn patterns_and_types_that_are_tuples_are_found() {
    let found = |source: &str| tuple_parameters(&crate::source::tokens(source)).len();
    assert_eq!(found("fn f((a, b): Pair)"), 1);
    assert_eq!(found("fn f<T: Into<(u8, u8)>>(a: u8, b: &mut (u8, &'a [u8]), c: (T, T)) {}"), 2);
    assert_eq!(found("fn f(a: &[(u8, u8)], b: &(dyn Fn(u8, u8) + Sync), c: (), d: fn((u8, u8)), e: Vec<(A, B)>)"), 0);
    assert_eq!(found("fn f(&self) { g(|(a, b)| a + b, (1, 2)); let x: (u8, u8) = y; }"), 0);
}
