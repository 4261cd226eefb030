//! Complex numbers, and transforms of signals: ComplexMul, ComplexMulConj, Rfft, Irfft.

use super::Expanded;
use super::given::Given;
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, int};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::microsoft("ComplexMul", [2, 2], &[], |g, d| complex_product(g, d, false)),
    Expanded::microsoft("ComplexMulConj", [2, 2], &[], |g, d| complex_product(g, d, true)),
    Expanded::microsoft("Rfft", [1, 1], &["normalized", "onesided", "signal_ndim"], |g, d| transform(g, d, false)),
    Expanded::microsoft("Irfft", [1, 1], &["normalized", "onesided", "signal_ndim"], |g, d| transform(g, d, true)),
];

/// Real and imaginary parts, which are the last axis.
fn parts(draft: &mut Draft, of: &str, name: &str) -> [String; 2] {
    let parts = ["real", "imaginary"].map(|part| draft.named(&format!("{name}/{part}")));
    draft.many("Split", &[of], &[&parts[0], &parts[1]], vec![int("axis", -1), int("num_outputs", 2)]);
    parts
}

/// A times B, or times the conjugate of B.
fn complex_product(given: &Given<'_>, draft: &mut Draft, is_conjugate: bool) -> Result<(), ModelError> {
    let [a, b] = parts(draft, given.required(0)?, "a");
    let [c, d] = parts(draft, given.required(1)?, "b");
    let mut product = |x: &str, y: &str, name: &str| draft.op("Mul", &[x, y], name, Vec::new());
    let (ac, bd, ad, bc) = (product(&a, &c, "ac"), product(&b, &d, "bd"), product(&a, &d, "ad"), product(&b, &c, "bc"));
    let [of_real, of_imaginary] = if is_conjugate { ["Add", "Sub"] } else { ["Sub", "Add"] };
    let real = draft.op(of_real, &[&ac, &bd], "real", Vec::new());
    let imaginary = draft.op(of_imaginary, &[&bc, &ad], "imaginary", Vec::new());
    draft.node("", "Concat", &[&real, &imaginary], given.result().to_owned(), vec![int("axis", -1)]);
    Ok(())
}

/// Transforms the last `signal_ndim` axes. The last axis of the spectrum has only the half that is not redundant; the
/// inverse gives an even number of elements there. The operators define only transforms that are `onesided` and not
/// `normalized`.
fn transform(given: &Given<'_>, draft: &mut Draft, is_back: bool) -> Result<(), ModelError> {
    given.only("normalized", 0)?;
    given.only("onesided", 1)?;
    let axes = match given.int("signal_ndim", 1)? {
        axes @ 1..=3 => axes,
        other => return Err(given.unsupported(format!("attribute \"signal_ndim\" = {other}"))),
    };
    let last = draft.list(&[-1], "last");
    let mut x = given.required(0)?.to_owned();
    if !is_back {
        x = draft.op("Unsqueeze", &[&x, &last], "x", Vec::new());
    }
    // The axis after the signal's axes is that of real and imaginary parts.
    let along = |draft: &mut Draft, x: &str, axis: i64, one_sided: bool| {
        let length = if is_back && one_sided {
            let half = draft.sizes(x, axis, axis + 1, "half");
            let (one, two) = (draft.whole(1, "one"), draft.whole(2, "two"));
            let half = draft.op("Sub", &[&half, &one], "half/less", Vec::new());
            draft.op("Mul", &[&half, &two], "length", Vec::new())
        } else {
            draft.sizes(x, axis, axis + 1, &format!("{axis}/length"))
        };
        let length = draft.op("Squeeze", &[&length], &format!("{axis}/number"), Vec::new());
        let place = draft.whole(axis, &format!("{axis}/axis"));
        let attributes = vec![int("inverse", i64::from(is_back)), int("onesided", i64::from(one_sided))];
        draft.op("DFT", &[x, &length, &place], &format!("{axis}/made"), attributes)
    };
    if !is_back {
        x = along(draft, &x, -2, true);
    }
    for axis in -1 - axes..-2 {
        x = along(draft, &x, axis, false);
    }
    if !is_back {
        draft.node("", "Identity", &[&x], given.result().to_owned(), Vec::new());
        return Ok(());
    }
    x = along(draft, &x, -2, true);
    draft.node("", "Squeeze", &[&x, &last], given.result().to_owned(), Vec::new());
    Ok(())
}
