//! Attention, MultiHeadAttention, QAttention and DecoderMaskedMultiHeadAttention: products of weights, masks and heads
//! around ONNX's own Attention.
//!
//! A mask tells which keys are shown: by a number for each key, a number for each query and key, or the length of each
//! sequence, depending on its rank. The operator `AttentionMask` turns it into a term that is added to scores.

mod buffer;

use super::given::Given;
use super::{Expanded, MICROSOFT};
use crate::onnx::ModelError;
use crate::onnx::cross::KEYS_ARE_BIASED;
use crate::onnx::draft::{Draft, float, int};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded {
        domain: MICROSOFT,
        name: "Attention",
        inputs: [2, 7],
        outputs: 2,
        attributes: &[
            "num_heads",
            "unidirectional",
            "qkv_hidden_sizes",
            "past_present_share_buffer",
            "do_rotary",
            "rotary_embedding_dim",
            "mask_filter_value",
            "scale",
        ],
        expand: attention,
    },
    Expanded {
        domain: MICROSOFT,
        name: "QAttention",
        inputs: [5, 9],
        outputs: 2,
        attributes: &[
            "num_heads",
            "unidirectional",
            "past_present_share_buffer",
            "do_rotary",
            "mask_filter_value",
            "scale",
        ],
        expand: quantized_attention,
    },
    Expanded {
        domain: MICROSOFT,
        name: "MultiHeadAttention",
        inputs: [1, 10],
        outputs: 4,
        attributes: &["num_heads", "unidirectional", "mask_filter_value", "scale", KEYS_ARE_BIASED],
        expand: multi_head,
    },
    Expanded {
        domain: MICROSOFT,
        name: "DecoderMaskedMultiHeadAttention",
        inputs: [1, 11],
        outputs: 4,
        attributes: &["num_heads", "mask_filter_value", "scale", "past_present_share_buffer", "output_qk"],
        expand: one_step,
    },
];

/// Operands of ONNX's Attention, as names of values.
struct Operands {
    query: String,
    key: String,
    value: String,
    /// Which keys are shown.
    shown: Option<String>,
    /// The term that is added to scores.
    bias: Option<String>,
    /// Keys and values of earlier positions.
    past: Option<[String; 2]>,
    /// The output for scores after masks and biases are added, where it is wanted.
    scores: Option<String>,
}

/// Adds the attention of these operands. `present` are the names of all keys and all values, where they are wanted.
fn attend(
    given: &Given<'_>,
    draft: &mut Draft,
    operands: &Operands,
    present: [Option<String>; 2],
) -> Result<(), ModelError> {
    let Operands { query, key, value, shown, bias, past, scores } = operands;
    let mut mask = bias.clone();
    if let Some(shown) = shown {
        let fill = float("fill", given.float("mask_filter_value", -10000.0)?);
        let of = [shown.as_str(), query, key, past.as_ref().map_or("", |past| past[0].as_str())];
        let made = draft.named("mask");
        draft.node("kiln", "AttentionMask", &of, made.clone(), vec![fill]);
        mask = Some(match bias {
            None => made,
            Some(bias) => draft.op("Add", &[&made, bias], "mask/biased", Vec::new()),
        });
    }
    let heads = given.heads("num_heads")?;
    let mut attributes = vec![int("q_num_heads", heads), int("kv_num_heads", heads)];
    attributes.push(int("is_causal", i64::from(given.int("unidirectional", 0)? != 0)));
    // A scale of 0 is none.
    let scale = given.float("scale", 0.0)?;
    attributes.extend((scale != 0.0).then(|| float("scale", scale)));
    let [past_keys, past_values] = past.as_ref().map_or(["", ""], |past| [past[0].as_str(), past[1].as_str()]);
    let inputs = [query, key, value, mask.as_deref().unwrap_or_default(), past_keys, past_values];
    let [keys, values] = &present;
    attributes.extend(scores.is_some().then(|| int("qk_matmul_output_mode", 2)));
    let [keys, values, scores] = [keys, values, scores].map(|name| name.as_deref().unwrap_or_default());
    let outputs = [given.result(), keys, values, scores];
    draft.many("Attention", &inputs, &outputs, attributes);
    Ok(())
}

/// Attention with one tensor for the past keys and values, and one for the present ones.
fn attend_stacked(
    given: &Given<'_>,
    draft: &mut Draft,
    mut operands: Operands,
    past: Option<&str>,
) -> Result<(), ModelError> {
    let axis = draft.list(&[0], "cache/axis");
    if let Some(past) = past {
        let halves = [draft.named("past/key/one"), draft.named("past/value/one")];
        let (axes, count) = (int("axis", 0), int("num_outputs", 2));
        draft.many("Split", &[past], &[&halves[0], &halves[1]], vec![axes, count]);
        operands.past = Some([
            draft.op("Squeeze", &[&halves[0], &axis], "past/key", Vec::new()),
            draft.op("Squeeze", &[&halves[1], &axis], "past/value", Vec::new()),
        ]);
    }
    let Some(present) = given.output(1) else { return attend(given, draft, &operands, [None, None]) };
    let (keys, values) = (draft.named("present/key"), draft.named("present/value"));
    attend(given, draft, &operands, [Some(keys.clone()), Some(values.clone())])?;
    let keys = draft.op("Unsqueeze", &[&keys, &axis], "present/key/one", Vec::new());
    let values = draft.op("Unsqueeze", &[&values, &axis], "present/value/one", Vec::new());
    draft.node("", "Concat", &[&keys, &values], present.to_owned(), vec![int("axis", 0)]);
    Ok(())
}

/// Splits a tensor into three parts along the last axis, of these sizes or of equal ones.
fn in_three(draft: &mut Draft, of: &str, sizes: Option<&str>, name: &str) -> [String; 3] {
    let parts = ["query", "key", "value"].map(|part| draft.named(&format!("{name}/{part}")));
    let outputs: Vec<&str> = parts.iter().map(String::as_str).collect();
    match sizes {
        Some(sizes) => draft.many("Split", &[of, sizes], &outputs, vec![int("axis", -1)]),
        None => draft.many("Split", &[of], &outputs, vec![int("axis", -1), int("num_outputs", 3)]),
    }
    parts
}

/// The projections are stored as one product. Its weights are split when the model is loaded.
fn attention(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    given.only("past_present_share_buffer", 0)?;
    given.only("do_rotary", 0)?;
    given.without_inputs(&[(6, "past_sequence_length")])?;
    let (x, weights) = (given.required(0)?, given.required(1)?);
    let sizes = match given.ints("qkv_hidden_sizes")? {
        None | Some([]) => None,
        Some(&[query, key, value]) => Some(draft.list(&[query, key, value], "sizes")),
        Some(other) => return Err(given.malformed(format!("qkv_hidden_sizes = {other:?}"))),
    };
    let weights = in_three(draft, weights, sizes.as_deref(), "weights");
    let biases = given.input(2).map(|bias| in_three(draft, bias, sizes.as_deref(), "bias"));
    let [query, key, value] = std::array::from_fn(|part| {
        let product = draft.op("MatMul", &[x, &weights[part]], &format!("{part}/product"), Vec::new());
        match &biases {
            None => product,
            Some(biases) => draft.op("Add", &[&product, &biases[part]], &format!("{part}/biased"), Vec::new()),
        }
    });
    let bias = given.input(5).map(str::to_owned);
    let shown = given.input(3).map(str::to_owned);
    attend_stacked(given, draft, Operands { query, key, value, shown, bias, past: None, scores: None }, given.input(4))
}

/// Attention whose projections are one product of bytes.
fn quantized_attention(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    given.only("past_present_share_buffer", 0)?;
    given.only("do_rotary", 0)?;
    let (x, weights, bias) = (given.required(0)?, given.required(1)?, given.required(2)?);
    let sums =
        draft.op("MatMulInteger", &[x, weights, given.optional(6), given.optional(7)], "product/int", Vec::new());
    let sums = draft.op("Cast", &[&sums], "product/float", vec![int("to", 1)]);
    let scale = draft.op("Mul", &[given.required(3)?, given.required(4)?], "scale", Vec::new());
    let product = draft.op("Mul", &[&sums, &scale], "product", Vec::new());
    let biased = draft.op("Add", &[&product, bias], "biased", Vec::new());
    let [query, key, value] = in_three(draft, &biased, None, "projected");
    let shown = given.input(5).map(str::to_owned);
    attend_stacked(
        given,
        draft,
        Operands { query, key, value, shown, bias: None, past: None, scores: None },
        given.input(8),
    )
}

/// Splits heads of several operands in one tensor [batch, positions, heads, count, size] into tensors [batch,
/// positions, hidden].
fn unpacked(draft: &mut Draft, of: &str, names: &[&str]) -> Vec<String> {
    let parts: Vec<String> = names.iter().map(|name| draft.named(&format!("{name}/one"))).collect();
    let outputs: Vec<&str> = parts.iter().map(String::as_str).collect();
    draft.many("Split", &[of], &outputs, vec![int("axis", 3), int("num_outputs", names.len() as i64)]);
    let shape = draft.list(&[0, 0, -1], "unpacked/shape");
    let joined = parts.iter().zip(names).map(|(part, name)| draft.op("Reshape", &[part, &shape], name, Vec::new()));
    joined.collect()
}

/// Adds a bias to the operands; it holds the biases of all operands one after the other.
fn biased(draft: &mut Draft, operands: &[String], bias: &str) -> Vec<String> {
    let sizes = ["query", "key", "value"].iter().zip(operands);
    let sizes: Vec<String> = sizes.map(|(name, of)| draft.sizes(of, 2, 3, &format!("{name}/size"))).collect();
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    let sizes = draft.op("Concat", &sizes, "sizes", vec![int("axis", 0)]);
    let biases = in_three(draft, bias, Some(&sizes), "bias");
    let pairs = operands.iter().zip(&biases).enumerate();
    pairs.map(|(part, (of, bias))| draft.op("Add", &[of, bias], &format!("{part}/biased"), Vec::new())).collect()
}

/// Adds the queries' part of a bias, which is its first.
fn with_own_bias(draft: &mut Draft, query: &str, bias: &str) -> String {
    let (start, end) = (draft.list(&[0], "bias/start"), draft.sizes(query, 2, 3, "bias/end"));
    let bias = draft.op("Slice", &[bias, &start, &end], "bias/query", Vec::new());
    draft.op("Add", &[query, &bias], "query/biased", Vec::new())
}

/// Keys and values of earlier positions, from these two inputs: both or none.
fn past_of(given: &Given<'_>, inputs: [usize; 2]) -> Result<Option<[String; 2]>, ModelError> {
    match inputs.map(|index| given.input(index)) {
        [Some(keys), Some(values)] => Ok(Some([keys.to_owned(), values.to_owned()])),
        [None, None] => Ok(None),
        _ => Err(given.malformed("earlier keys without values, or values without keys".to_owned())),
    }
}

fn multi_head(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    given.without_inputs(&[(8, "past_sequence_length"), (9, "cache_indirection")])?;
    given.without_outputs(&[(3, "qk")])?;
    let first = given.required(0)?;
    let mut operands = match (given.input(1), given.input(2)) {
        (Some(key), Some(value)) => vec![first.to_owned(), key.to_owned(), value.to_owned()],
        (Some(packed), None) => {
            let mut all = vec![first.to_owned()];
            all.extend(unpacked(draft, packed, &["key", "value"]));
            all
        }
        (None, None) => unpacked(draft, first, &["query", "key", "value"]),
        (None, Some(_)) => return Err(given.malformed("values without keys".to_owned())),
    };
    if let Some(bias) = given.input(3) {
        match given.int(KEYS_ARE_BIASED, 0)? {
            0 => operands = biased(draft, &operands, bias),
            _ => operands[0] = with_own_bias(draft, first, bias),
        }
    }
    let past = past_of(given, [6, 7])?;
    let [query, key, value] = [0, 1, 2].map(|part| operands[part].clone());
    let shown = given.input(4).map(str::to_owned);
    let bias = given.input(5).map(str::to_owned);
    let present = [1, 2].map(|index| given.output(index).map(str::to_owned));
    attend(given, draft, &Operands { query, key, value, shown, bias, past, scores: None }, present)
}

/// Attention of one new position, over a cache that grows, over a buffer that has room for it, or over keys and values
/// [batch, heads, positions, size] of another sequence.
fn one_step(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let scores = given.output(3).map(str::to_owned);
    match given.int("output_qk", 0)? {
        0 if scores.is_none() => {}
        1 if scores.is_some() => {}
        0 => return Err(given.malformed("output 3 (qk), where output_qk = 0".to_owned())),
        1 => return Err(given.malformed("output_qk = 1 without output 3 (qk)".to_owned())),
        other => return Err(given.malformed(format!("output_qk = {other}"))),
    }
    let first = given.required(0)?;
    let past = past_of(given, [5, 6])?;
    let mut operands = match (given.input(1), given.input(2)) {
        (Some(key), Some(value)) => vec![first.to_owned(), key.to_owned(), value.to_owned()],
        (None, None) => in_three(draft, first, None, "packed").to_vec(),
        _ => return Err(given.malformed("keys without values, or values without keys".to_owned())),
    };
    if let Some(bias) = given.input(10) {
        if past.is_none() && given.input(1).is_some() {
            // Keys and values of another sequence have been biased before.
            operands[0] = with_own_bias(draft, first, bias);
        } else {
            operands = biased(draft, &operands, bias);
        }
    }
    let [query, key, value] = [0, 1, 2].map(|part| operands[part].clone());
    let (shown, bias) = (given.input(3).map(str::to_owned), given.input(4).map(str::to_owned));
    let present = [1, 2].map(|index| given.output(index).map(str::to_owned));
    let operands = Operands { query, key, value, shown, bias, past, scores };
    let shares_buffer = given.int("past_present_share_buffer", 0)? != 0;
    match &operands.past {
        Some(past) if shares_buffer => buffer::attend(given, draft, &operands, past, present),
        Some(_) => {
            // Without a shared buffer, all of the past is earlier positions, and no beam reads another beam's rows.
            given.without_inputs(&[(7, "past_sequence_length"), (8, "beam_width"), (9, "cache_indirection")])?;
            attend(given, draft, &operands, present)
        }
        None => attend(given, draft, &operands, present),
    }
}
