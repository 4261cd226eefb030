//! Finds defaults of attributes that are written where the attributes are read.

use crate::source::Token;

/// The methods that read an attribute that a node may leave out.
const READS: &[&str] = &["integer", "number", "word", "ints", "floats", "dtype"];

/// The methods that put a value in the place of one that is left out.
const FALLBACKS: &[&str] = &["unwrap_or", "map_or"];

/// The lines that read an attribute by its name and put a literal or a constant in the place of one left out.
pub(crate) fn stated_defaults(tokens: &[Token]) -> Vec<usize> {
    let read = |at: usize| -> Option<usize> {
        let is = |offset: usize, texts: &[&str]| texts.iter().any(|text| tokens[at + offset].is(text));
        let named = is(0, &["."]) && is(1, READS) && is(2, &["("]) && is(3, &["\"\""]) && is(4, &[")"]);
        (named && is(5, &["."]) && is(6, FALLBACKS) && is(7, &["("])).then_some(())?;
        let (first, second) = (&tokens[at + 8], &tokens[at + 9]);
        let number = first.text.starts_with(|c: char| c.is_ascii_digit());
        let literal = number || ["\"\"", "-", "true", "false"].iter().any(|text| first.is(text));
        (literal || second.is("::")).then_some(tokens[at + 1].line)
    };
    (0..tokens.len().saturating_sub(9)).filter_map(read).collect()
}

#[test]
fn literals_behind_reads_are_found() {
    let found = |source: &str| stated_defaults(&crate::source::tokens(source)).len();
    assert_eq!(found(r#"let a = node.attributes().integer("axis").unwrap_or(-1); f(a)"#), 1);
    assert_eq!(found(r#"let a = view.attributes.word("mode").map_or("linear", |mode| mode); f(a)"#), 1);
    assert_eq!(found(r#"let a = cx.node.attributes().number("high").unwrap_or(f32::INFINITY); f(a)"#), 1);
    assert_eq!(
        found(r#"let a = node.attributes().integer("end").unwrap_or(rank); let b = list.ints().unwrap_or(1);"#),
        0
    );
}
