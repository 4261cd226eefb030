//! Every computing operator over changing shapes, at every instruction-set level: the checklist's step 7.
//!
//! One table an operator. Read [`harness`] for what each table asserts.

mod attention;
mod contrib;
mod convolution;
mod elementwise;
mod empty;
mod experts;
mod harness;
mod matrix;
mod one_step;
mod quantized;
mod recurrent;
mod reference;
mod rows;
mod spatial;

use harness::Layer;
use kiln_model::operators::{self, Work};

#[test]
fn tables_that_would_not_exercise_the_cache_are_refused() {
    let layer = Layer::new("Relu", 14).dynamic(&[-1, 5]);
    let refused = |steps: &[harness::Step<'_>], why: &str| {
        let refusal = layer.refusal(steps).unwrap_or_else(|| panic!("not refused, though {why}"));
        assert!(refusal.contains(why), "{refusal}");
    };
    refused(&[&[&[2, 5]], &[&[3, 5]], &[&[2, 5]]], "no step repeats the one before it");
    refused(&[&[&[2, 5]], &[&[2, 5]], &[&[3, 5]]], "not the one before it");
    refused(&[&[&[2, 4]], &[&[2, 5]]], "does not fit");
    refused(&[&[]], "does not fit");
    assert!(layer.refusal(&[&[&[2, 5]], &[&[3, 5]], &[&[3, 5]], &[&[2, 5]]]).is_none());
    let fixed = Layer::new("Relu", 14).dynamic(&[2, 5]);
    assert!(fixed.refusal(&[&[&[2, 5]], &[&[2, 5]]]).unwrap().contains("dynamic"));
}

#[test]
fn every_operator_with_a_key_has_a_table() {
    let tables = [
        include_str!("attention.rs"),
        include_str!("convolution.rs"),
        include_str!("elementwise.rs"),
        include_str!("experts.rs"),
        include_str!("matrix.rs"),
        include_str!("quantized.rs"),
        include_str!("recurrent.rs"),
        include_str!("rows.rs"),
        include_str!("spatial.rs"),
    ];
    // The operators that passes make are run beside these in tests/passes.
    let keyed = operators::all().filter(|row| row.domain.is_empty() && row.work == Work::Key);
    let has_table = |name: &str| tables.iter().any(|table| table.contains(&format!("\"{name}\"")));
    let without: Vec<&str> = keyed.map(|row| row.name).filter(|name| !has_table(name)).collect();
    assert!(without.is_empty(), "operators with a key and no table: {without:?}");
}
