//! Texts that are cut, against what onnxruntime 1.32 gives.

use kiln_model::Graph;

use super::*;
use crate::trial::strings;

/// A node with these attributes beside `mark`, `mincharnum` and `pad_value`.
fn made(attrs: &[(&str, Attr)]) -> Result<Tokenizer, OpError> {
    let mut node = NodeDesc { domain: "com.microsoft".to_owned(), op: "Tokenizer".to_owned(), ..NodeDesc::default() };
    let all = [("mark", Attr::Int(0)), ("mincharnum", Attr::Int(1)), ("pad_value", "#".into())];
    node.version = 1;
    node.attrs.extend(all.into_iter().chain(attrs.iter().cloned()).map(|(name, value)| (name.to_owned(), value)));
    tokenizer(FlowLoad { node: &node, graph: &Graph::default(), bodies: Default::default() })
}

fn separators(all: &[&str]) -> (&'static str, Attr) {
    ("separators", Attr::Strs(all.iter().map(|&one| one.to_owned()).collect()))
}

/// Checks the tokens of a list of texts.
#[track_caller]
fn gives(attrs: &[(&str, Attr)], texts: &[&str], rows: &[&[&str]]) {
    let found = made(attrs).expect("attributes").run(&strings(&[texts.len()], texts)).expect("it runs");
    assert_eq!(found.shape(), [texts.len(), rows[0].len()]);
    assert_eq!(found.as_strings().expect("texts"), rows.concat());
}

#[test]
fn characters_are_tokens() {
    let marked = [separators(&[""]), ("mark", Attr::Int(1))];
    gives(&marked, &["a\u{e9}", "b"], &[&["\u{2}", "a", "\u{e9}", "\u{3}"], &["\u{2}", "b", "\u{3}", "#"]]);
    gives(&[("tokenexp", ".".into())], &["a\n"], &[&["a", "\n"]]);
    gives(&marked, &["", ""], &[&[], &[]]);
}

#[test]
fn each_separator_cuts_what_the_ones_before_have_left() {
    gives(&[separators(&[",", "[;:]"])], &["ab,cd;ef", ":g:"], &[&["ab", "cd", "ef"], &["g", "#", "#"]]);
    gives(&[separators(&["a|ab"])], &["ab ad", "ab"], &[&[" ", "d"], &["#", "#"]]);
    gives(&[separators(&[" "]), ("mincharnum", Attr::Int(2))], &["a b\u{e9} c"], &[&["b\u{e9}"]]);
    gives(&[separators(&[" "]), ("mark", Attr::Int(1))], &["  ", " "], &[&[], &[]]);
    // Separators come before an expression of tokens.
    gives(&[separators(&["b"]), ("tokenexp", "a".into())], &["abc"], &[&["a", "c"]]);
}

#[test]
fn a_character_at_which_a_separator_takes_nothing_is_dropped() {
    gives(&[separators(&["b*"])], &["ab\u{e9} b"], &[&[]]);
    gives(&[separators(&["^"])], &["ab\u{e9} b"], &[&["b\u{e9} b"]]);
    gives(&[separators(&[r"\b"])], &["ab\u{e9} b"], &[&["b", " "]]);
}

#[test]
fn what_an_expression_matches_is_a_token_where_it_is_long_enough() {
    gives(&[("tokenexp", "[a-z]+".into()), ("mincharnum", Attr::Int(3))], &["ab cdef g"], &[&["cdef"]]);
    gives(&[("tokenexp", r"\w+".into())], &["a\u{e9}b \u{e9}", ""], &[&["a", "b"], &["#", "#"]]);
    gives(&[("tokenexp", "b*".into())], &["ab\u{e9} b"], &[&["b", "b"]]);
    gives(&[("tokenexp", "^a.".into())], &["abc abd"], &[&["ab"]]);
}

#[test]
fn texts_are_a_list_or_a_table() {
    let made = made(&[separators(&[" "])]).expect("attributes");
    let table = made.run(&strings(&[2, 1], &["a b", "c"])).expect("it runs");
    assert_eq!((table.shape(), table.as_strings()), (&[2, 1, 2][..], Ok(&["a", "b", "c", "#"].map(str::to_owned)[..])));
    let shape_of = |shape: &[usize]| made.run(&strings(shape, &[])).map(|found| found.shape().to_vec());
    assert_eq!((shape_of(&[0]).unwrap(), shape_of(&[3, 0]).unwrap()), (vec![0], vec![3, 0]));
    assert!(shape_of(&[1, 0, 1]).unwrap_err().to_string().contains("texts of shape [1, 0, 1]"));
    assert!(made.run(&Tensor::scalar(1f32)).is_err());
    assert!(made.run(&Tensor::from_slice([1], &[1f32]).unwrap()).unwrap_err().to_string().contains("string"));
}

#[test]
fn attributes_that_say_nothing_are_refused() {
    let refused = |attrs: &[(&str, Attr)], part: &str| {
        let error = made(attrs).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(&[], "neither separators nor tokenexp");
    refused(&[("tokenexp", "".into())], "neither separators nor tokenexp");
    refused(&[("tokenexp", "a".into()), ("mincharnum", Attr::Int(0))], "mincharnum");
    refused(&[separators(&[""]), ("mincharnum", Attr::Int(2))], "single characters");
    refused(&[separators(&["a", "("])], "separators \"(\"");
}
