//! Every computing operator over changing shapes, at every instruction-set level: the checklist's step 7.
//!
//! One table an operator. Read [`harness`] for what each table asserts.

mod attention;
mod convolution;
mod elementwise;
mod empty;
mod harness;
mod matrix;
mod quantized;
mod recurrent;
mod reference;
mod rows;
mod spatial;

use harness::Layer;

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
