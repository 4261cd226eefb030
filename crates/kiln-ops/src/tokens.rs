//! Tokenizer: cuts texts into characters, at separators, or into the matches of an expression.
//!
//! Texts are [C] or [N, C], the result is [C, tokens] or [N, C, tokens], where the number of tokens is the largest of
//! all texts. It is known only when the texts have been cut, and texts differ in each request. So this is a [`Flow`],
//! as NonMaxSuppression is. Expressions are RE2's, whose longest match counts ([`expression`]).

mod expression;

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_model::{Attr, NodeDesc, Value};
use kiln_run::{Flow, FlowCx, NodeError};
use kiln_tensor::Tensor;

use self::expression::{Expression, Finder};
use super::{FlowLoad, FlowOperator, OpError, refused, size_attribute};

/// The operator of this file.
pub(super) const OPERATORS: &[FlowOperator] = &[("com.microsoft", "Tokenizer", |load| Ok(Box::new(tokenizer(load)?)))];

/// The marks before the first token of a text and behind the last one.
const MARKS: [&str; 2] = ["\u{2}", "\u{3}"];

/// Most texts of the result: a long text next to many short ones is padded a great deal.
const MOST_TEXTS: usize = 1 << 26;

/// Where texts are cut.
#[derive(Debug)]
enum Cut {
    /// Between all characters.
    Characters,
    /// At the matches of these, each applied to the parts that the ones before have left.
    Separators(Vec<Expression>),
    /// Into the matches of this.
    Tokens(Box<Expression>),
}

#[derive(Debug)]
struct Tokenizer {
    cut: Cut,
    /// Whether tokens of a text stand between [`MARKS`].
    mark: bool,
    /// Fills up the tokens of texts that have fewer than others.
    pad: String,
    /// Fewest characters of a token.
    least: usize,
}

fn tokenizer(load: FlowLoad<'_>) -> Result<Tokenizer, OpError> {
    let node = load.node;
    let least = size_attribute(node, "mincharnum", 1)?;
    let cut = cut_of(node)?;
    if matches!(cut, Cut::Characters) && least > 1 {
        return Err(OpError::invalid(node, format!("mincharnum = {least}, where tokens are single characters")));
    }
    let attributes = node.attributes();
    let mark = attributes.integer("mark").is_some_and(|mark| mark != 0);
    Ok(Tokenizer { cut, mark, pad: attributes.word("pad_value").unwrap_or_default().to_owned(), least })
}

/// Separators come before an expression of tokens, if there are both.
fn cut_of(node: &NodeDesc) -> Result<Cut, OpError> {
    let separators = match node.attrs.get("separators") {
        Some(Attr::Strs(separators)) => separators.as_slice(),
        _ => &[],
    };
    match (separators, node.attributes().word("tokenexp")) {
        ([only], _) if only.is_empty() => Ok(Cut::Characters),
        ([], Some(".")) => Ok(Cut::Characters),
        ([], None | Some("")) => Err(OpError::invalid(node, "neither separators nor tokenexp")),
        ([], Some(token)) => Ok(Cut::Tokens(Box::new(Expression::new(node, "tokenexp", token)?))),
        (all, _) => {
            let compiled = all.iter().map(|separator| Expression::new(node, "separators", separator));
            Ok(Cut::Separators(compiled.collect::<Result<_, _>>()?))
        }
    }
}

/// The place behind the character at `place`, and past the end of the text behind its last one.
fn behind(text: &str, place: usize) -> usize {
    place + text[place..].chars().next().map_or(1, char::len_utf8)
}

impl Tokenizer {
    /// Whether a token is long enough to stay.
    fn is_long(&self, token: &str) -> bool {
        token.chars().take(self.least).count() == self.least
    }

    /// Appends the parts of a text around separators. A character at which the match is empty is dropped, as in ONNX
    /// Runtime.
    fn separate<'t>(&self, text: &'t str, separator: &mut Finder<'_>, tokens: &mut Vec<&'t str>) {
        let mut push = |token: &'t str| {
            if self.is_long(token) {
                memory::reserve(tokens, 1);
                tokens.push(token);
            }
        };
        let mut start = 0;
        while start <= text.len() {
            let Some(found) = separator.find(text, start) else { return push(&text[start..]) };
            push(&text[start..found.start]);
            start = if found.is_empty() { behind(text, found.start) } else { found.end };
        }
    }

    /// The matches of the expression. Where a match is too short, the search goes on at the next character.
    fn matches<'t>(&self, text: &'t str, token: &mut Finder<'_>) -> Vec<&'t str> {
        let (mut tokens, mut start) = (Vec::new(), 0);
        while let Some(found) = token.find(text, start) {
            if self.is_long(&text[found.clone()]) {
                memory::reserve(&mut tokens, 1);
                start = found.end;
                tokens.push(&text[found]);
            } else {
                start = behind(text, found.start);
            }
        }
        tokens
    }

    /// The tokens of each text.
    fn cut<'t>(&self, texts: &'t [String]) -> Vec<Vec<&'t str>> {
        let mut pace = Pace::default();
        let mut step = |text: &str| pace.step(1 + text.len());
        match &self.cut {
            Cut::Characters => {
                let characters = |text: &'t String| {
                    step(text);
                    let ends = text.char_indices().map(|(start, character)| start..start + character.len_utf8());
                    ends.map(|place| &text[place]).collected()
                };
                texts.iter().map(characters).collected()
            }
            Cut::Separators(separators) => {
                let mut separators: Vec<Finder<'_>> = separators.iter().map(Expression::finder).collect();
                let separated = |text: &'t String| {
                    let mut tokens = vec![text.as_str()];
                    for separator in &mut separators {
                        step(text);
                        let mut parts = Vec::new();
                        tokens.iter().for_each(|token| self.separate(token, separator, &mut parts));
                        tokens = parts;
                    }
                    tokens
                };
                texts.iter().map(separated).collected()
            }
            Cut::Tokens(token) => {
                let mut token = token.finder();
                let matched = |text: &'t String| {
                    step(text);
                    self.matches(text, &mut token)
                };
                texts.iter().map(matched).collected()
            }
        }
    }

    /// The tokens of texts [C] or [N, C], with marks and padding.
    fn run(&self, input: &Tensor) -> Result<Tensor, NodeError> {
        let shape = input.shape();
        if !matches!(shape, [_] | [_, _]) {
            return Err(refused(format!("texts of shape {shape:?}, where [C] or [N, C] is needed")));
        }
        if input.is_empty() {
            // The axis of texts becomes that of tokens.
            let rows = shape.len() - 1;
            return Ok(Tensor::from_strings(shape[..rows].iter().copied().chain([0]), Vec::new())?);
        }
        let texts = self.cut(input.as_strings()?);
        let most = texts.iter().map(Vec::len).max().unwrap_or(0);
        // Where no text has tokens, there are no marks either.
        let width = if most == 0 { 0 } else { most + 2 * usize::from(self.mark) };
        let total = width.checked_mul(texts.len()).filter(|&total| total <= MOST_TEXTS);
        let total = total.ok_or_else(|| refused(format!("{width} tokens of each of {} texts", texts.len())))?;
        let padding = texts.iter().map(|tokens| most - tokens.len()).sum::<usize>();
        memory::hold(padding.saturating_mul(self.pad.len()));
        let (mut all, mut pace) = (memory::with_capacity(total), Pace::default());
        let [first, last] = MARKS.map(|mark| Some(mark).filter(|_| self.mark && most > 0));
        for tokens in texts {
            let pads = std::iter::repeat_n(self.pad.as_str(), most - tokens.len());
            for token in first.into_iter().chain(tokens).chain(last).chain(pads) {
                pace.step(8 + token.len() / 8);
                all.push(token.to_owned());
            }
        }
        Ok(Tensor::from_strings(shape.iter().copied().chain([width]), all)?)
    }
}

impl Flow for Tokenizer {
    fn family(&self) -> &'static str {
        "Tokenizer"
    }

    fn run(&self, inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        cx.check_stop()?;
        let input = inputs.into_iter().next().flatten().ok_or_else(|| refused("input 0 is missing"))?.into_tensor()?;
        Ok(vec![self.run(&input)?.into()])
    }
}

#[cfg(test)]
mod tests;
