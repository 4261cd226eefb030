//! Strings: StringSplit cuts them at a delimiter, StringNormalizer drops stop words and changes case.

use std::collections::HashSet;
use std::sync::Arc;

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_model::Attr;
use kiln_run::node::InferByValue;
use kiln_run::node::{PrepareCx, Specs};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::{LoadCx, OpError, Operator, counted, one, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "StringSplit", make_split), ("", "StringNormalizer", make_normalizer)];

struct Split {
    /// Without one, any run of white space separates.
    delimiter: Option<String>,
    /// Most cuts of one string.
    most: Option<usize>,
}

fn make_split(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    let delimiter = attributes.word("delimiter").filter(|delimiter| !delimiter.is_empty());
    Ok(Box::new(Split {
        delimiter: delimiter.map(str::to_owned),
        // A negative number means no limit, as in Python.
        most: attributes.integer("maxsplit").and_then(|most| usize::try_from(most).ok()),
    }))
}

impl Split {
    fn parts<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let most = self.most.unwrap_or(usize::MAX);
        if let Some(delimiter) = &self.delimiter {
            return text.splitn(most.saturating_add(1), delimiter.as_str()).collected();
        }
        let (mut parts, mut rest) = (Vec::new(), text.trim_start());
        while !rest.is_empty() {
            let end = rest.find(char::is_whitespace).filter(|_| parts.len() < most);
            let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
            memory::reserve(&mut parts, 1);
            parts.push(part);
            rest = after.trim_start();
        }
        parts
    }
}

impl InferByValue for Split {
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let input = required(inputs, 0)?;
        let most = input.as_strings()?.iter().map(|text| self.parts(text).len()).max().unwrap_or(0);
        let shape = || input.shape().iter().copied();
        let mut specs = one(DType::String, shape().chain([most]))?;
        // One long text next to many short ones would be padded a great deal.
        if specs[0].elements()? > 1 << 26 {
            return Err(refused(format!("{most} parts of each of {} strings", input.len())));
        }
        specs.push(counted(DType::I64, shape())?);
        Ok(specs)
    }
}

impl Node for Split {
    fn family(&self) -> &'static str {
        "StringSplit"
    }

    fn value_inputs(&self) -> u64 {
        1
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        Some(self)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let spec = io.spec(0).clone();
        let most = spec.shape.last().copied().unwrap_or(0);
        let (mut parts, mut counts) = (Vec::new(), io.alloc(1)?);
        let mut pace = Pace::default();
        for (text, count) in io.input(0)?.as_strings()?.iter().zip(counts.as_mut_slice::<i64>()?) {
            let own = self.parts(text);
            *count = own.len() as i64;
            pace.step(8 + text.len() / 8 + most);
            let padded = own.iter().copied().chain(std::iter::repeat("")).take(most);
            padded.map(str::to_owned).collected_into(&mut parts);
        }
        io.push(Tensor::from_strings(spec.shape, parts)?);
        io.push(counts);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Keep,
    Lower,
    Upper,
}

impl Case {
    fn apply(self, text: &str) -> String {
        match self {
            Case::Keep => text.to_owned(),
            Case::Lower => text.to_lowercase(),
            Case::Upper => text.to_uppercase(),
        }
    }
}

struct Normalizer {
    case: Case,
    case_sensitive: bool,
    /// In lower case, where case makes no difference.
    stopwords: HashSet<String>,
}

fn make_normalizer(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let case = match cx.node.attributes().text("case_change_action") {
        "NONE" => Case::Keep,
        "LOWER" => Case::Lower,
        "UPPER" => Case::Upper,
        other => return Err(OpError::invalid(cx.node, format!("case_change_action = {other}"))),
    };
    let case_sensitive = cx.node.attributes().int("is_case_sensitive") != 0;
    let stopwords = match cx.node.attrs.get("stopwords") {
        Some(Attr::Strs(words)) if case_sensitive => words.iter().cloned().collect(),
        Some(Attr::Strs(words)) => words.iter().map(|word| word.to_lowercase()).collect(),
        _ => HashSet::new(),
    };
    Ok(Box::new(Normalizer { case, case_sensitive, stopwords }))
}

impl Normalizer {
    fn is_stopword(&self, text: &str) -> bool {
        if self.case_sensitive { self.stopwords.contains(text) } else { self.stopwords.contains(&text.to_lowercase()) }
    }

    /// The strings that are left; one empty string where none is.
    fn normalized(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<String>, NodeError> {
        let input = required(inputs, 0)?;
        if !matches!(input.shape(), [_] | [1, _]) {
            return Err(refused(format!("a list of strings is needed, found shape {:?}", input.shape())));
        }
        let kept = input.as_strings()?.iter().filter(|text| !self.is_stopword(text));
        let mut kept: Vec<String> = kept.map(|text| self.case.apply(text)).collected();
        if kept.is_empty() {
            kept.push(String::new());
        }
        Ok(kept)
    }
}

impl InferByValue for Normalizer {
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let count = self.normalized(inputs)?.len();
        let outer = (required(inputs, 0)?.shape().len() == 2).then_some(1);
        one(DType::String, outer.into_iter().chain([count]))
    }
}

impl Node for Normalizer {
    fn family(&self) -> &'static str {
        "StringNormalizer"
    }

    fn value_inputs(&self) -> u64 {
        1
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        Some(self)
    }

    fn prepare_params(
        &self,
        _: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let shape = outputs.iter().flat_map(|spec| spec.shape.iter().copied());
        let texts = self.normalized(inputs)?;
        let held = texts.iter().map(|text| size_of::<String>() + text.len()).sum();
        Ok(Prepared::holding(Arc::new(Tensor::from_strings(shape, texts)?), held))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        io.push(prepared.get::<Tensor>()?.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, strings};

    #[test]
    fn strings_are_cut_and_padded_to_the_longest() {
        let split = |texts: &[&str]| Trial::new("StringSplit").outputs(2).tensor(strings(&[texts.len()], texts));
        split(&["a,b", ",c"]).text("delimiter", ",").gives_strings(&[2, 2], &["a", "b", "", "c"]);
        split(&["a b  c ", " "]).gives_strings(&[2, 3], &["a", "b", "c", "", "", ""]);
        split(&["a  b c "]).int("maxsplit", 1).gives_strings(&[1, 2], &["a", "b c "]);
        split(&["a.b.c"]).text("delimiter", ".").int("maxsplit", 1).gives_strings(&[1, 2], &["a", "b.c"]);
        split(&[]).gives_strings(&[0, 0], &[]);
        let counts = split(&["a,b", "c"]).text("delimiter", ",").run().unwrap();
        assert_eq!(counts[1].as_slice::<i64>().unwrap(), [2, 1]);
    }

    #[test]
    fn stop_words_go_and_case_changes() {
        let row = |texts: &[&str]| {
            let trial = Trial::new("StringNormalizer").tensor(strings(&[texts.len()], texts));
            trial.attr("stopwords", Attr::Strs(vec!["Monday".to_owned()]))
        };
        row(&["monday", "Tuesday"]).text("case_change_action", "UPPER").gives_strings(&[1], &["TUESDAY"]);
        row(&["monday", "Monday"]).int("is_case_sensitive", 1).gives_strings(&[1], &["monday"]);
        row(&["monday"]).gives_strings(&[1], &[""]);
        row(&[]).text("case_change_action", "TITLE").is_refused("TITLE");
        let matrix = Trial::new("StringNormalizer").tensor(strings(&[1, 2], &["a", "b"]));
        matrix.gives_strings(&[1, 2], &["a", "b"]);
        Trial::new("StringNormalizer").tensor(strings(&[2, 1], &["a", "b"])).is_refused("a list");
    }
}
