//! RegexFullMatch: which strings a regular expression matches from end to end.
//!
//! The expressions are those of the `regex` crate, whose time is linear in the text for every expression. Its syntax is
//! that of RE2, which the standard asks for, except for classes such as `\w`, which are Unicode's, as in the reference.

use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{BoolByte, DType, Tensor, TensorError, TensorSpec};
use regex::{Regex, RegexBuilder};

use super::{LoadCx, OpError, Operator, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "RegexFullMatch", make)];

/// Most bytes of a compiled expression, and of the memory of matching: a model's author chooses the expression. Classes
/// of Unicode characters take some hundred KiB each. Compiling that much takes some 40 ms, without a check whether
/// loading is over.
pub(super) const MOST_BYTES: usize = 4 << 20;

/// Most groups within groups of an expression: the crate's own limit. The crate checks it after it has read the whole
/// expression, which takes 100 ms for 30,000 parentheses.
pub(super) const MOST_GROUPS: usize = 250;

struct FullMatch(Regex);

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let pattern = cx.node.attributes().text("pattern");
    if depth(pattern) > MOST_GROUPS {
        return Err(OpError::invalid(cx.node, format!("the pattern has more than {MOST_GROUPS} groups within groups")));
    }
    let compile = |pattern: &str| {
        let compiled = RegexBuilder::new(pattern).size_limit(MOST_BYTES).dfa_size_limit(MOST_BYTES).build();
        compiled.map_err(|error| {
            // The crate's message repeats the whole expression; its last line says what is wrong.
            let told = error.to_string();
            let reason = told.lines().last().unwrap_or_default();
            OpError::invalid(cx.node, format!("pattern {:?}: {reason}", pattern.chars().take(60).collect::<String>()))
        })
    };
    // Alone first, so that a parenthesis too many cannot pair with the ones around it.
    compile(pattern)?;
    Ok(Box::new(FullMatch(compile(&format!("\\A(?:{pattern})\\z"))?)))
}

/// How deep the groups of an expression lie within each other, but for parentheses that are escaped or in a class.
pub(super) fn depth(pattern: &str) -> usize {
    let (mut open, mut deepest, mut classes) = (0usize, 0, 0usize);
    let mut characters = pattern.bytes();
    while let Some(character) = characters.next() {
        match character {
            b'\\' => drop(characters.next()),
            b'[' => classes += 1,
            b']' => classes = classes.saturating_sub(1),
            b'(' if classes == 0 => open += 1,
            b')' if classes == 0 => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

impl Node for FullMatch {
    fn family(&self) -> &'static str {
        "RegexFullMatch"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            DType::String => Ok(()),
            found => Err(TensorError::Type { expected: DType::String, found }.into()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut output = io.alloc(0)?;
        let matched = io.input(0)?.as_strings()?.iter().map(|text| BoolByte::from(self.0.is_match(text)));
        output.as_mut_slice::<BoolByte>()?.iter_mut().zip(matched).for_each(|(to, matched)| *to = matched);
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::{Trial, bools, strings};

    #[test]
    fn the_whole_text_has_to_match() {
        let row = |pattern: &str, texts: &[&str]| {
            Trial::new("RegexFullMatch").text("pattern", pattern).tensor(strings(&[texts.len()], texts))
        };
        row("a|ab", &["a", "ab", "b", "a\n", ""]).gives(&[5], &bools([true, true, false, false, false]));
        row("", &["", "a"]).gives(&[2], &bools([true, false]));
        row("a)(b", &["ab"]).is_refused("pattern");
        row(&"(".repeat(300), &["a"]).is_refused("groups within groups");
        row(&format!("{}[{}]", "(a)?".repeat(300), "(".repeat(300)), &["a("]).gives(&[1], &bools([true]));
        row(&"\\(".repeat(300), &[&"(".repeat(300)]).gives(&[1], &bools([true]));
        row("((a{1000}){1000}){1000}", &["a"]).is_refused("pattern");
        Trial::new("RegexFullMatch").text("pattern", "a").input(&[1], &[1f32]).is_refused("string");
    }
}
