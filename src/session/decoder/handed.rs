//! Outputs that the next step takes as inputs, by their names.

use kiln_model::ir::{Graph, ValueId};

use super::DecoderError;

/// Outputs and the inputs of the next step that take them, by default.
const NAMES: [&str; 3] =
    ["present.* -> past_key_values.*", "present_key_values.* -> past_key_values.*", "present.* -> past.*"];

/// An output and the input of the next step that takes it.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) past: ValueId,
    pub(super) present: ValueId,
}

/// The pairs of outputs and inputs that the patterns name, and those with the usual names.
///
/// # Errors
///
/// For a pattern that is none or names nothing.
pub(super) fn pairs(graph: &Graph, alias: &[String]) -> Result<Vec<Pair>, DecoderError> {
    let mut pairs: Vec<Pair> = Vec::new();
    for (pattern, is_given) in
        alias.iter().map(|pattern| (pattern.as_str(), true)).chain(NAMES.map(|name| (name, false)))
    {
        let halves = pattern.split_once("->").map(|(output, input)| (output.trim(), input.trim()));
        let split = |half: &'_ str| half.split_once('*').map(|(a, b)| (a.to_owned(), b.to_owned()));
        let sides = halves.and_then(|(output, input)| Some((split(output)?, split(input)?)));
        let fits = sides.filter(|(output, input)| ![&output.1, &input.1].iter().any(|rest| rest.contains('*')));
        let Some((output, input)) = fits else {
            return Err(DecoderError::Model(format!("alias '{pattern}' is not OUTPUT -> INPUT with a * in each")));
        };
        let before = pairs.len();
        for &present in &graph.outputs {
            let name = &graph.value(present).name;
            let star = name.strip_prefix(output.0.as_str()).and_then(|rest| rest.strip_suffix(output.1.as_str()));
            let Some(star) = star else { continue };
            let past = format!("{}{star}{}", input.0, input.1);
            let past = graph.inputs.iter().copied().find(|&value| graph.value(value).name == past);
            let is_new = |past: &ValueId| pairs.iter().all(|pair| pair.past != *past && pair.present != present);
            pairs.extend(past.filter(is_new).map(|past| Pair { past, present }));
        }
        if is_given && pairs.len() == before {
            return Err(DecoderError::Model(format!("alias '{pattern}' names no output with such an input")));
        }
    }
    Ok(pairs)
}
