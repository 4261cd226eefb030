//! WordConvEmbedding: words as numbers, by a convolution over the embeddings of their characters.

use super::Expanded;
use super::given::Given;
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, int};

pub(super) const OPERATORS: &[Expanded] = &[Expanded::microsoft(
    "WordConvEmbedding",
    [4, 4],
    &["char_embedding_size", "conv_window_size", "embedding_size"],
    words,
)];

/// The value of a window that reaches beyond its word, before the greatest is taken.
const LEAST: f32 = -1e12;

/// For each word of `Sequence` [words, characters] and each filter, the greatest hyperbolic tangent over all windows.
/// The filters are [filters, 1, window, size], the embeddings [characters, size]. Characters are numbers from 1 on.
/// Windows lie within the word; a word that is shorter than a window has one, from its first character on. A word that
/// begins with no character gives zeros, which ONNX Runtime leaves undefined.
fn words(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (characters, table) = (given.required(0)?, given.required(3)?);
    let zero = draft.number(0.0, characters, "zero");
    let is_there = draft.op("Greater", &[characters, &zero], "characters/are", Vec::new());
    let ones = draft.op("Cast", &[&is_there], "characters/ones", vec![int("to", 7)]);
    let (first, second) = (draft.list(&[0], "first"), draft.list(&[1], "second"));
    let counts = draft.op("ReduceSum", &[&ones, &second], "counts", Vec::new());
    let has_any = draft.op("Slice", &[&is_there, &first, &second, &second], "words/are", Vec::new());
    // Sizes that no attribute states are kept.
    let mut stated = [0; 4];
    for (place, name) in [(0, "embedding_size"), (2, "conv_window_size"), (3, "char_embedding_size")] {
        stated[place] = Some(given.int(name, -1)?).filter(|&size| size > 0).unwrap_or(0);
    }
    let stated = draft.list(&stated, "filters/shape");
    let filters = draft.op("Reshape", &[given.required(1)?, &stated], "filters", Vec::new());
    let window = draft.sizes(&filters, 2, 3, "window");
    let one = draft.whole(1, "one");
    let least = draft.op("Max", &[&counts, &window], "lengths", Vec::new());
    let rest = draft.op("Sub", &[&least, &window], "lengths/rest", Vec::new());
    let windows = draft.op("Add", &[&rest, &one], "windows", Vec::new());
    // One channel of [characters, size] for each word.
    let embedded = draft.op("Gather", &[table, characters], "embedded", Vec::new());
    let image = draft.op("Unsqueeze", &[&embedded, &second], "image", Vec::new());
    let sums = draft.op("Conv", &[&image, &filters, given.required(2)?], "sums", Vec::new());
    let last = draft.list(&[3], "last");
    let sums = draft.op("Squeeze", &[&sums, &last], "sums/rows", Vec::new());
    let values = draft.op("Tanh", &[&sums], "values", Vec::new());
    let length = draft.sizes(&values, 2, 3, "positions/length");
    let length = draft.op("Squeeze", &[&length], "positions/number", Vec::new());
    let start = draft.whole(0, "start");
    let positions = draft.op("Range", &[&start, &length, &one], "positions", Vec::new());
    let shown = draft.op("Less", &[&positions, &windows], "shown/rows", Vec::new());
    let shown = draft.op("Unsqueeze", &[&shown, &second], "shown", Vec::new());
    let hidden = draft.number(LEAST, &values, "hidden");
    let masked = draft.op("Where", &[&shown, &values, &hidden], "masked", Vec::new());
    let axis = draft.list(&[2], "axis");
    let greatest = draft.op("ReduceMax", &[&masked, &axis], "greatest", vec![int("keepdims", 0)]);
    let none = draft.number(0.0, &greatest, "none");
    draft.node("", "Where", &[&has_any, &greatest, &none], given.result().to_owned(), Vec::new());
    Ok(())
}
