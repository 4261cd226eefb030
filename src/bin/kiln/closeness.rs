//! Whether a tensor is what it should be: numpy's `allclose` for fractions, equality for everything else. The type and
//! the shape are a part of the value. Knows no model and no file.

use std::fmt;

use kiln::tensor::{DType, Tensor, TensorError, TensorSpec, minifloat};
use serde::Deserialize;

use crate::shape;

/// How far an element may be off: `|actual - expected| <= atol + rtol * |expected|`, as numpy's `assert_allclose` has it
/// and ONNX's own test runner calls it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Tolerance {
    /// Relative to the element.
    pub(crate) rtol: f64,
    /// Absolute.
    pub(crate) atol: f64,
}

/// ONNX's own test runner uses these.
impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { rtol: 1e-3, atol: 1e-7 }
    }
}

impl Tolerance {
    /// As it is for that type: ONNX's own test runner grants `bf16` two units in the last place, whatever a case says,
    /// because one of them is more than the usual tolerance.
    fn of(self, dtype: DType) -> Tolerance {
        const TWO_UNITS: f64 = 1.0 / 64.0;
        match dtype {
            DType::BF16 => Tolerance { rtol: self.rtol.max(TWO_UNITS), ..self },
            _ => self,
        }
    }

    /// As it is where weights are in `bf16`: they are off by up to 2^-9, and so is each term of a sum, whatever is left
    /// of the sum. So an element may be off by as much of the largest one; three roundings' worth pass, for networks of
    /// several layers.
    pub(crate) fn lowered(self, expected: &Tensor) -> Tolerance {
        const LOWERED: f64 = 1e-2;
        let largest = expected.as_slice::<f32>().map_or(0.0, |values| {
            values.iter().filter(|value| value.is_finite()).fold(0.0f64, |most, value| most.max(f64::from(value.abs())))
        });
        Tolerance { rtol: self.rtol.max(LOWERED), atol: self.atol.max(LOWERED * largest) }
    }
}

/// How two tensors differ.
#[derive(Debug)]
pub(crate) enum Difference {
    /// In type or shape.
    Spec {
        /// As it should be.
        expected: TensorSpec,
        /// As it is.
        actual: TensorSpec,
    },
    /// In elements.
    Elements {
        /// Where they differ most, outermost first.
        index: Vec<usize>,
        /// The element there, as it should be.
        expected: String,
        /// The element there, as it is.
        actual: String,
        /// How many differ.
        wrong: usize,
        /// Of how many.
        count: usize,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Spec { expected, actual } => {
                let text = |spec: &TensorSpec| format!("{} {}", spec.dtype, shape::text(&spec.shape));
                write!(f, "expected {}, got {}", text(expected), text(actual))
            }
            Difference::Elements { index, expected, actual, wrong, count } => {
                write!(f, "element {}: expected {expected}, got {actual} ", shape::text(index))?;
                write!(f, "({wrong} of {count} elements differ)")
            }
        }
    }
}

/// The difference between two tensors, if there is one.
pub(crate) fn compare(
    expected: &Tensor,
    actual: &Tensor,
    tolerance: Tolerance,
) -> Result<Option<Difference>, TensorError> {
    if expected.spec() != actual.spec() {
        return Ok(Some(Difference::Spec { expected: expected.spec().clone(), actual: actual.spec().clone() }));
    }
    let tolerance = tolerance.of(expected.dtype());
    macro_rules! fractions {
        ($element:ty, $to:expr) => {{
            let (e, a) = (expected.as_slice::<$element>()?, actual.as_slice::<$element>()?);
            worst(
                expected.shape(),
                e.len(),
                |i| excess($to(e[i]), $to(a[i]), tolerance),
                |i| (format!("{:?}", e[i]), format!("{:?}", a[i])),
            )
        }};
    }
    Ok(match expected.dtype() {
        DType::F32 => fractions!(f32, f64::from),
        DType::F64 => fractions!(f64, |v: f64| v),
        DType::F16 => fractions!(half::f16, f64::from),
        DType::BF16 => fractions!(half::bf16, f64::from),
        DType::String => {
            let (e, a) = (expected.as_strings()?, actual.as_strings()?);
            worst(
                expected.shape(),
                e.len(),
                |i| exact(e[i] == a[i]),
                |i| (format!("{:?}", e[i]), format!("{:?}", a[i])),
            )
        }
        small if small.is_minifloat() => {
            let (e, a) = (expected.bytes(), actual.bytes());
            let value = |bytes: &[u8], i: usize| f64::from(minifloat::decode(small, bytes[i]));
            worst(
                expected.shape(),
                e.len(),
                |i| excess(value(e, i), value(a, i), tolerance),
                |i| (value(e, i).to_string(), value(a, i).to_string()),
            )
        }
        dtype => {
            let (e, a, size) = (expected.bytes(), actual.bytes(), dtype.size());
            let at = |bytes: &[u8], i: usize| integer(dtype, &bytes[i * size..][..size]);
            worst(
                expected.shape(),
                expected.len(),
                |i| exact(at(e, i) == at(a, i)),
                |i| (at(e, i).to_string(), at(a, i).to_string()),
            )
        }
    })
}

/// By how much an element is out of tolerance, if it is: the larger, the worse. NaN equals NaN.
fn excess(expected: f64, actual: f64, tolerance: Tolerance) -> Option<f64> {
    if expected == actual || (expected.is_nan() && actual.is_nan()) {
        return None;
    }
    let excess = (expected - actual).abs() - (tolerance.atol + tolerance.rtol * expected.abs());
    // A NaN or an infinity on one side only is worse than any number. (An infinite `expected` allows an infinite
    // error, which numpy does not grant either.)
    if !expected.is_finite() || !actual.is_finite() { Some(f64::INFINITY) } else { Some(excess).filter(|&e| e > 0.0) }
}

fn exact(equal: bool) -> Option<f64> {
    if equal { None } else { Some(f64::INFINITY) }
}

/// The little-endian integer or boolean in these bytes.
fn integer(dtype: DType, bytes: &[u8]) -> i128 {
    let mut wide = [0u8; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    let unused = 64 - 8 * bytes.len() as u32;
    match dtype {
        DType::Bool => i128::from(unsigned != 0),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::I4 | DType::I2 => {
            i128::from((unsigned << unused) as i64 >> unused)
        }
        _ => i128::from(unsigned),
    }
}

fn worst(
    shape: &[usize],
    count: usize,
    excess: impl Fn(usize) -> Option<f64>,
    texts: impl Fn(usize) -> (String, String),
) -> Option<Difference> {
    let (mut wrong, mut worst) = (0, None::<(usize, f64)>);
    for index in 0..count {
        let Some(by) = excess(index) else { continue };
        wrong += 1;
        if worst.is_none_or(|(_, most)| by > most) {
            worst = Some((index, by));
        }
    }
    let (flat, _) = worst?;
    let (expected, actual) = texts(flat);
    Some(Difference::Elements { index: unravel(flat, shape), expected, actual, wrong, count })
}

fn unravel(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (place, &dim) in index.iter_mut().zip(shape).rev() {
        *place = flat % dim.max(1);
        flat /= dim.max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_precision_is_held_against_the_largest_element() {
        let expected = Tensor::from_vec([3], vec![-8.0f32, 0.0, f32::INFINITY]).unwrap();
        assert_eq!(Tolerance::default().lowered(&expected), Tolerance { rtol: 1e-2, atol: 8e-2 });
        let loose = Tolerance { rtol: 0.5, atol: 1.0 };
        assert_eq!(loose.lowered(&expected), loose);
    }

    const STRICT: Tolerance = Tolerance { rtol: 1e-3, atol: 1e-7 };

    fn differs<T: kiln::tensor::Element>(expected: &[T], actual: &[T]) -> Option<String> {
        let tensor = |values: &[T]| Tensor::from_slice([values.len()], values).unwrap();
        compare(&tensor(expected), &tensor(actual), STRICT).unwrap().map(|difference| difference.to_string())
    }

    #[test]
    fn fractions_are_close_as_numpy_has_it() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        // expected, actual, whether numpy.testing.assert_allclose(actual, expected, 1e-3, 1e-7) passes
        let cases = [
            (1.0, 1.0009, true),
            (1.0, 1.0011, false),
            // The allowance is relative to the first: 1e-2 and 1e-7 at 10, a little more at 10.01001.
            (10.0, 10.01001, false),
            (10.01001, 10.0, true),
            (1.0011, 1.0, false),
            (0.0, 9e-8, true),
            (0.0, 2e-7, false),
            (nan, nan, true),
            (nan, 1.0, false),
            (1.0, nan, false),
            (inf, inf, true),
            (inf, -inf, false),
            (1.0, inf, false),
            (inf, 1.0, false),
            (0.0, -0.0, true),
        ];
        for (expected, actual, close) in cases {
            assert_eq!(differs(&[expected], &[actual]).is_none(), close, "{expected} {actual}");
        }
    }

    #[test]
    fn two_units_of_bf16_pass_and_three_do_not() {
        let from = |bits: u16| half::bf16::from_bits(0x3f80 + bits);
        assert_eq!(differs(&[from(0)], &[from(2)]), None);
        assert!(differs(&[from(0)], &[from(3)]).is_some());
    }

    #[test]
    fn the_worst_element_is_named_by_its_index() {
        let expected = Tensor::from_slice([2, 3], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let actual = Tensor::from_slice([2, 3], &[0f32, 1.1, 2.0, 3.0, 9.0, 5.0]).unwrap();
        let difference = compare(&expected, &actual, STRICT).unwrap().unwrap();
        assert_eq!(difference.to_string(), "element [1,1]: expected 4.0, got 9.0 (2 of 6 elements differ)");
    }

    #[test]
    fn integers_and_booleans_are_exact_and_keep_their_sign() {
        assert_eq!(differs(&[1i64, -5], &[1, -5]), None);
        let line = differs(&[1i8, -5], &[1, 5]).unwrap();
        assert_eq!(line, "element [1]: expected -5, got 5 (1 of 2 elements differ)");
        let line = differs(&[u64::MAX], &[0]).unwrap();
        assert!(line.contains("expected 18446744073709551615, got 0"), "{line}");
        // Any byte but 0 is true.
        assert_eq!(differs(&[kiln::tensor::BoolByte(1)], &[kiln::tensor::BoolByte(255)]), None);
    }

    #[test]
    fn floats_of_a_byte_are_compared_by_value() {
        let spec = TensorSpec::new(DType::F8E4M3, [1]);
        let tensor =
            |value: f32| Tensor::from_bytes(spec.clone(), &[minifloat::encode(DType::F8E4M3, value, true)]).unwrap();
        assert!(compare(&tensor(1.5), &tensor(1.5), STRICT).unwrap().is_none());
        assert!(compare(&tensor(0.0), &tensor(-0.0), STRICT).unwrap().is_none());
        let line = compare(&tensor(1.5), &tensor(2.0), STRICT).unwrap().unwrap().to_string();
        assert!(line.contains("expected 1.5, got 2"), "{line}");
    }

    #[test]
    fn type_and_shape_are_a_part_of_the_value() {
        let expected = Tensor::from_slice([1, 2], &[1f32, 2.0]).unwrap();
        for (actual, text) in [
            (Tensor::from_slice([2], &[1f32, 2.0]).unwrap(), "expected float32 [1,2], got float32 [2]"),
            (Tensor::from_slice([1, 2], &[1f64, 2.0]).unwrap(), "expected float32 [1,2], got float64 [1,2]"),
        ] {
            assert_eq!(compare(&expected, &actual, STRICT).unwrap().unwrap().to_string(), text);
        }
    }

    #[test]
    fn strings_are_compared_as_they_are() {
        let tensor = |text: &str| Tensor::from_strings([1], vec![text.to_owned()]).unwrap();
        assert!(compare(&tensor("a"), &tensor("a"), STRICT).unwrap().is_none());
        let line = compare(&tensor("a"), &tensor("b"), STRICT).unwrap().unwrap().to_string();
        assert_eq!(line, "element [0]: expected \"a\", got \"b\" (1 of 1 elements differ)");
    }

    #[test]
    fn a_tolerance_file_may_leave_a_number_out() {
        let read = |text| serde_json::from_str::<Tolerance>(text).unwrap();
        assert_eq!(read("{}"), Tolerance { rtol: 1e-3, atol: 1e-7 });
        assert_eq!(read(r#"{"rtol": 0.5}"#), Tolerance { rtol: 0.5, atol: 1e-7 });
    }
}
