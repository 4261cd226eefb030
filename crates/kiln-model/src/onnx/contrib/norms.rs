//! Layer normalisations fused with the operation before them: a residual, a bias, a sum of embeddings.

use super::given::Given;
use super::{Expanded, MICROSOFT};
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, float, int};

/// The epsilon of operators that state none.
const EPSILON: f32 = 1e-12;

pub(super) const OPERATORS: &[Expanded] = &[
    simplified(""),
    simplified(MICROSOFT),
    Expanded {
        domain: MICROSOFT,
        name: "SkipLayerNormalization",
        inputs: [3, 5],
        outputs: 4,
        attributes: &["epsilon"],
        expand: skip_layer_norm,
    },
    Expanded {
        domain: MICROSOFT,
        name: "SkipSimplifiedLayerNormalization",
        inputs: [3, 4],
        outputs: 4,
        attributes: &["epsilon"],
        expand: skip_rms_norm,
    },
    Expanded {
        domain: MICROSOFT,
        name: "EmbedLayerNormalization",
        inputs: [7, 9],
        outputs: 3,
        attributes: &["epsilon", "mask_index_type"],
        expand: embed,
    },
    Expanded {
        domain: MICROSOFT,
        name: "QEmbedLayerNormalization",
        inputs: [18, 18],
        outputs: 2,
        attributes: &["epsilon", "mask_index_type"],
        expand: quantized_embed,
    },
];

/// SimplifiedLayerNormalization. ONNX Runtime's optimiser writes it into ONNX's own domain.
const fn simplified(domain: &'static str) -> Expanded {
    Expanded {
        domain,
        name: "SimplifiedLayerNormalization",
        inputs: [2, 2],
        outputs: 2,
        attributes: &["axis", "epsilon", "stash_type"],
        expand: rms_norm,
    }
}

/// RMSNormalization, whose result is of the scale's type.
fn rms_norm(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    given.without_outputs(&[(1, "inv_std_var")])?;
    let (x, scale) = (given.required(0)?, given.required(1)?);
    let attributes = given.copied(&["axis", "epsilon", "stash_type"]);
    let like = draft.op("CastLike", &[scale, x], "scale", Vec::new());
    let made = draft.op("RMSNormalization", &[x, &like], "normalised", attributes);
    draft.node("", "CastLike", &[&made, scale], given.result().to_owned(), Vec::new());
    Ok(())
}

/// input + skip + bias, under the name of output 3 where that is wanted.
fn summed(given: &Given<'_>, draft: &mut Draft, bias: Option<&str>) -> Result<String, ModelError> {
    let total = given.output(3).map_or_else(|| draft.named("sum"), str::to_owned);
    let operands = [given.required(0)?, given.required(1)?];
    match bias {
        None => draft.node("", "Add", &operands, total.clone(), Vec::new()),
        Some(bias) => {
            let sum = draft.op("Add", &operands, "skipped", Vec::new());
            draft.node("", "Add", &[&sum, bias], total.clone(), Vec::new());
        }
    }
    Ok(total)
}

fn skip_layer_norm(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let sum = summed(given, draft, given.input(4))?;
    let gamma = given.required(2)?;
    let inputs = [sum.as_str(), gamma, given.optional(3)];
    let attributes = vec![int("axis", -1), float("epsilon", given.float("epsilon", EPSILON)?)];
    let moments = [1, 2].map(|index| given.output(index).unwrap_or_default());
    let outputs = [given.result(), moments[0], moments[1]];
    draft.many("LayerNormalization", &inputs, &outputs, attributes);
    Ok(())
}

fn skip_rms_norm(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    given.without_outputs(&[(1, "mean"), (2, "inv_std_var")])?;
    let sum = summed(given, draft, given.input(3))?;
    let attributes = vec![int("axis", -1), float("epsilon", given.float("epsilon", EPSILON)?)];
    draft.node("", "RMSNormalization", &[&sum, given.required(2)?], given.result().to_owned(), attributes);
    Ok(())
}

/// The tables of embeddings and the parameters of the normalisation after their sum, as numbers.
struct Embeddings {
    word: String,
    position: String,
    segment: Option<String>,
    gamma: String,
    beta: String,
}

fn embed(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let ids = given.required(0)?;
    let word = draft.op("Gather", &[given.required(2)?, ids], "word", Vec::new());
    let table = given.required(3)?;
    let position = match given.input(8) {
        Some(positions) => draft.op("Gather", &[table, positions], "position", Vec::new()),
        None => {
            let (start, end) = (draft.list(&[0], "start"), draft.sizes(ids, 1, 2, "length"));
            let axis = draft.list(&[0], "axis");
            draft.op("Slice", &[table, &start, &end, &axis], "position", Vec::new())
        }
    };
    let segment = match (given.input(1), given.input(4)) {
        (Some(ids), Some(table)) => Some(draft.op("Gather", &[table, ids], "segment", Vec::new())),
        (None, _) => None,
        (Some(_), None) => return Err(given.malformed("segment ids without a table of segments".to_owned())),
    };
    let (gamma, beta) = (given.required(5)?.to_owned(), given.required(6)?.to_owned());
    finish(given, draft, Embeddings { word, position, segment, gamma, beta })
}

/// The same over quantised tables. Their scales and zero points are the inputs after the mask.
fn quantized_embed(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let ids = given.required(0)?;
    let number = |draft: &mut Draft, bytes: &str, table: usize, name: &str| -> Result<String, ModelError> {
        let (scale, zero) = (given.required(8 + table)?, given.required(13 + table)?);
        Ok(draft.op("DequantizeLinear", &[bytes, scale, zero], name, Vec::new()))
    };
    let rows = draft.op("Gather", &[given.required(2)?, ids], "word/bytes", Vec::new());
    let word = number(draft, &rows, 0, "word")?;
    let (start, end) = (draft.list(&[0], "start"), draft.sizes(ids, 1, 2, "length"));
    let axis = draft.list(&[0], "axis");
    let rows = draft.op("Slice", &[given.required(3)?, &start, &end, &axis], "position/bytes", Vec::new());
    let position = number(draft, &rows, 1, "position")?;
    let segment = match given.input(1) {
        Some(ids) => {
            let rows = draft.op("Gather", &[given.required(4)?, ids], "segment/bytes", Vec::new());
            Some(number(draft, &rows, 2, "segment")?)
        }
        None => None,
    };
    let gamma = number(draft, given.required(5)?, 3, "gamma")?;
    let beta = number(draft, given.required(6)?, 4, "beta")?;
    finish(given, draft, Embeddings { word, position, segment, gamma, beta })
}

fn finish(given: &Given<'_>, draft: &mut Draft, made: Embeddings) -> Result<(), ModelError> {
    let sum_name = given.output(2).map_or_else(|| draft.named("sum"), str::to_owned);
    match made.segment {
        None => draft.node("", "Add", &[&made.word, &made.position], sum_name.clone(), Vec::new()),
        Some(segment) => {
            let sum = draft.op("Add", &[&made.word, &made.position], "placed", Vec::new());
            draft.node("", "Add", &[&sum, &segment], sum_name.clone(), Vec::new());
        }
    }
    let attributes = vec![int("axis", -1), float("epsilon", given.float("epsilon", EPSILON)?)];
    let inputs = [sum_name.as_str(), &made.gamma, &made.beta];
    draft.node("", "LayerNormalization", &inputs, given.result().to_owned(), attributes);
    if let Some(lengths) = given.output(1) {
        mask_index(given, draft, lengths)?;
    }
    Ok(())
}

/// How many positions of each sequence the mask shows; 0 without a mask.
fn mask_index(given: &Given<'_>, draft: &mut Draft, output: &str) -> Result<(), ModelError> {
    let Some(mask) = given.input(7) else {
        let batch = draft.sizes(given.required(0)?, 0, 1, "batch");
        let zeros = draft.op("ConstantOfShape", &[&batch], "none", Vec::new());
        draft.node("", "Cast", &[&zeros], output.to_owned(), vec![int("to", 6)]);
        return Ok(());
    };
    let one = draft.number(1.0, mask, "one");
    let shown = draft.op("Equal", &[mask, &one], "shown", Vec::new());
    let shown = draft.op("Cast", &[&shown], "shown/int", vec![int("to", 6)]);
    let axis = draft.list(&[1], "mask/axis");
    draft.node("", "ReduceSum", &[&shown, &axis], output.to_owned(), vec![int("keepdims", 0)]);
    Ok(())
}
