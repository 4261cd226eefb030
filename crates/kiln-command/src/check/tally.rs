//! Results by operator, as a table in Markdown: docs/operators.md is the result of the backend suite, and CI compares
//! it with a new run, so that no operator, version or element type is lost unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kiln_model::operators::Work;

use crate::check::case::Verdict;
use crate::check::uses::Uses;

/// The results of one operator.
#[derive(Debug, Default)]
struct Row {
    passed: usize,
    cases: usize,
    versions: BTreeSet<i64>,
    types: BTreeSet<String>,
    /// Whether a case with only this operator passed and looked up an executor.
    kernels: bool,
    known: bool,
    /// Whether it is expanded to other operators when a model is read.
    expanded: bool,
}

/// The results so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows: BTreeMap<(String, String), Row>,
}

impl Tally {
    /// Every operator that Kiln has, without a case.
    pub(super) fn new() -> Tally {
        let mut tally = Tally::default();
        for (domain, op) in kiln_ops::all().filter(|(domain, _)| *domain != "kiln") {
            tally.rows.entry((domain.to_owned(), op.to_owned())).or_default().known = true;
        }
        for (domain, op) in kiln_model::onnx::expanded() {
            tally.rows.entry((domain.to_owned(), op.to_owned())).or_default().expanded = true;
        }
        tally
    }

    /// Counts a case; `lookups` are its look-ups in the executor cache.
    pub(super) fn add(&mut self, uses: &Uses, verdict: &Verdict, lookups: u64) {
        let passed = verdict.column() == 0;
        let is_alone = uses.operators.values().map(BTreeMap::len).sum::<usize>() == 1;
        let operators =
            uses.operators.iter().flat_map(|(domain, own)| own.iter().map(move |(op, used)| (domain, op, used)));
        for (domain, op, used) in operators {
            let row = self.rows.entry((domain.clone(), op.clone())).or_default();
            row.cases += 1;
            if passed {
                row.passed += 1;
                row.versions.extend(&used.versions);
                row.types.extend(used.types.iter().cloned());
                row.kernels |= lookups > 0 && is_alone;
            }
        }
    }

    /// The document.
    pub(super) fn markdown(&self) -> String {
        let mut text = HEADER.to_owned();
        // Fused operators are in Kiln's own domain; models do not have them.
        for ((domain, op), row) in self.rows.iter().filter(|((domain, _), _)| domain != "kiln") {
            let domain = if domain.is_empty() { "ai.onnx" } else { domain };
            let list = |parts: Vec<String>| if parts.is_empty() { "-".to_owned() } else { parts.join(", ") };
            let versions = match (row.versions.first(), row.versions.last()) {
                (Some(first), Some(last)) if first < last => format!("{first} - {last}"),
                (Some(only), _) => only.to_string(),
                _ => "-".to_owned(),
            };
            let types = list(row.types.iter().cloned().collect());
            let runs = match (row.known, row.kernels) {
                _ if row.expanded => "expanded",
                (false, _) => "not supported",
                (true, true) => "kernels",
                // Without a case it is unknown how it runs.
                (true, false) if row.cases == 0 => "-",
                (true, false) => "plain Rust",
            };
            let work = kiln_model::operators::find(domain, op).map(|row| row.work);
            let work = match work {
                Some(Work::Key) => "key",
                Some(Work::Moves) => "moves data",
                Some(Work::Plain(reason)) => reason,
                None => "-",
            };
            let (passed, cases) = (row.passed, row.cases);
            // Writing into a string cannot fail.
            let _ =
                writeln!(text, "| {domain} | {op} | {runs} | {work} | {passed} of {cases} | {versions} | {types} |");
        }
        text
    }
}

const HEADER: &str = "\
# Operators

Written by `kiln check CASES --quiet --operators docs/operators.md` over the ONNX backend suite (ONNX 1.23). CI compares
it with a new run. The columns:

- *runs as*: *kernels* are cached executors, for the types that are worth it: emitted instructions, or, for LRN, Resize
  and Upsample, plain Rust loops over the executor's data. *plain Rust* is everything else, including control flow and
  sequences. A `-` means that the suite has no case of the operator.
- *work*, from the table of operators. *key*: every node that computes prepares an executor, which is cached by its key;
  each such operator has a table in `tests/single_layer`. *moves data*: the operator computes nothing. Any other text is
  the reason why it computes in plain Rust.
- *versions*: the operator-set versions of the cases that passed. Other versions from 7 on run the same code.
- *element types*: those of the values that nodes of the operator read or make in these cases, as far as the models
  declare them.

An output must match within the suite's own tolerance: 1e-3 of the expected value and another 1e-7, or the case's own
tolerance, and 1/64 for `bf16`, as in ONNX's own test runner. For Bernoulli and the other random operators, only type
and shape are compared: the standard leaves their values to the runtime, even with a seed. With a seed, Kiln gives the
numbers of the reference implementation for draws from a uniform or normal distribution.

Not supported, and not planned: decoding images, and training: its optimisers and Gradient (Dropout can train).
FlexAttention and the operators that are *expanded* become ordinary operators when a model is loaded, and count as
those. `tests/contrib/run` compares the operators of com.microsoft and ai.onnx.ml with onnxruntime. Searches in one node
(BeamSearch, GreedySearch, Sampling, WhisperBeamSearch) are refused: [`kiln generate`](decoders.md) and `Decoder` run
the decoder itself. Inverse refuses a matrix that has no inverse; ONNX Runtime returns numbers that are not finite. The
table of RelativePositionBias has the shape [buckets, heads], but its elements lie by heads, as ONNX Runtime reads them.

A node is refused if its operator is newer than the model's operator set, as by ONNX's checker and onnxruntime. One of
94 models from outside has such nodes: onnxruntime defines LayerNormalization in ONNX's domain from version 1 on, and
saved an optimised model of version 11 with it. Kiln therefore takes LayerNormalization from version 1 on, too.

Where ONNX leaves a result open, Kiln gives that of ONNX Runtime 1.32's CPU kernels:

- *ArgMax, ArgMin, Hardmax*: elements are compared in order, and the first of several equal ones wins (with
  `select_last_index` the last). A NaN wins if it is the first element, and never replaces a number.
- *TopK*: NaN ranks above every number.
- *NonMaxSuppression*: a score that is NaN passes no threshold and comes after all numbers, in order of the boxes. ONNX
  Runtime leaves several such scores in the order of its heap.
- *Cast* of NaN, and of floats outside of the integer type's range: the low bits of the result of x86 processors, which
  is the least integer of 32 bits (64 for `int64` and `uint64`). Integers wrap. ONNX Runtime converts the last elements
  of a row of `float32` to `uint32` by way of 64 bits; Kiln does not.
- *GridSample* by cubic convolution with the padding `border`: elements beyond the border repeat it, and the sampled
  place is not moved. ONNX's reference implementation moves the place to the border first.
- *MaxRoiPool*: edges of regions are rounded to elements, halves away from zero, and both edges belong to the region. A
  bin outside of the image is zero. NaN is ignored in a bin that has numbers.
- *Resize, Upsample* of nearest elements by scales: places are divided by scales in single precision, as in ONNX Runtime
  and PyTorch. With sizes, the ratio has double precision, so that 18 / (24 / 20) is 15, where ONNX Runtime has 14.
- *HannWindow, HammingWindow, BlackmanWindow*: a symmetric window of one element is NaN, as by ONNX's function body.
- Pools and reductions: ONNX Runtime's result depends on the position of NaN in its vectors. In Kiln, ReduceMax and
  ReduceMin are NaN if any element is, and MaxPool takes the numbers if there are any.

| domain | operator | runs as | work | cases passed | versions | element types |
|---|---|---|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use kiln_model::GraphBuilder;
    use kiln_tensor::DType;

    use super::*;

    #[test]
    fn a_case_counts_for_each_operator_in_it_once() {
        let mut build = GraphBuilder::new("g", 17);
        let x = build.input("x", DType::F32, [2.into()]);
        let y = build.op("Neg", &[x], &[]);
        let y = build.op("Neg", &[y], &[]);
        let y = build.op("NoSuchThing", &[y], &[]);
        build.output("y", y);
        let uses = Uses::of(&build.finish());
        let mut tally = Tally::new();
        tally.add(&uses, &Verdict::Passed, 3);
        tally.add(&uses, &Verdict::Crashed(String::new()), 3);
        let text = tally.markdown();
        assert!(text.contains("| ai.onnx | Neg | plain Rust | key | 1 of 2 | 17 | float32 |\n"), "{text}");
        assert!(text.contains("| ai.onnx | NoSuchThing | not supported | - | 1 of 2 |"), "{text}");
        assert!(text.contains("| ai.onnx | Loop | - | runs the nodes of its body | 0 of 0 | - | - |\n"), "{text}");
    }
}
