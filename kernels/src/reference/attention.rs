//! The plain form of attention: one query at a time, with all its scores, sums in `f64`.

use kiln_key::F32Bits;

use crate::problem::attention::{AttentionShape, Operands, Strides};

/// Writes attention of that shape to `output`. Elements between its rows stay as they are.
pub fn attention(shape: &AttentionShape, operands: &Operands<'_>, output: &mut [f32]) {
    for batch in 0..shape.batch() {
        for head in 0..shape.heads() {
            let at = |steps: Strides, head: usize| batch * steps.batch() + head * steps.head();
            let kv_head = head / shape.shared();
            for query in 0..shape.queries() {
                let row = at(shape.query, head) + query * shape.query.row();
                let key = |key: usize, feature: usize| {
                    let (row, column) = if shape.key_columns { (feature, key) } else { (key, feature) };
                    operands.key[at(shape.key, kv_head) + row * shape.key.row() + column]
                };
                let score = |column: usize| {
                    if shape.causal().is_some_and(|before| column > query + before) {
                        return f32::NEG_INFINITY;
                    }
                    let product =
                        |feature: usize| f64::from(operands.query[row + feature]) * f64::from(key(column, feature));
                    let mut score = ((0..shape.size()).map(product).sum::<f64>() * f64::from(shape.scale.get())) as f32;
                    if let Some(cap) = shape.cap.map(F32Bits::get) {
                        score = cap * (score / cap).tanh();
                    }
                    let mask_at = |steps: Strides| at(steps, head) + query * steps.row() + column;
                    if let (Some(steps), Some(keep)) = (shape.keep, operands.keep)
                        && (keep[mask_at(steps)] == 0) != shape.inverted
                    {
                        score = shape.fill.get();
                    }
                    match (shape.mask, operands.mask) {
                        (Some(steps), Some(mask)) => score + mask[mask_at(steps)],
                        _ => score,
                    }
                };
                let scores: Vec<f64> = (0..shape.keys()).map(|key| f64::from(score(key))).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let sum: f64 = weights.iter().sum();
                let all_masked = shape.blind_is_zero && largest == f64::NEG_INFINITY;
                let start = at(shape.output, head) + query * shape.output.row();
                for feature in 0..shape.value_size() {
                    let value = |key: usize| {
                        f64::from(operands.value[at(shape.value, kv_head) + key * shape.value.row() + feature])
                    };
                    let total: f64 = weights.iter().enumerate().map(|(key, weight)| weight / sum * value(key)).sum();
                    output[start + feature] = if all_masked { 0.0 } else { total as f32 };
                }
            }
        }
    }
}
