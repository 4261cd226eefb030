//! Compares tensors: numpy's `allclose` for floats, equality for all other types. Type and shape have to be equal too.
//! Depends on no model and no file.

use std::fmt;

use kiln::session::Precision;
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec, minifloat};
use serde::{Deserialize, Serialize};

use crate::shape;

/// How far an element may be off: `|actual - expected| <= atol + rtol * |expected|`, as in numpy's `assert_allclose`,
/// which ONNX's own test runner calls.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Tolerance {
    /// Relative to the element.
    pub(crate) rtol: f64,
    /// Absolute.
    pub(crate) atol: f64,
    /// Most that an integer may be off.
    pub(crate) units: u64,
}

/// ONNX's own test runner uses these.
impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { rtol: 1e-3, atol: 1e-7, units: 0 }
    }
}

impl Tolerance {
    /// The tolerance for that type: ONNX's own test runner allows `bf16` two units in the last place, whatever a case
    /// says, because one unit is more than the usual tolerance.
    pub(crate) fn of(self, dtype: DType) -> Tolerance {
        const TWO_UNITS: f64 = 1.0 / 64.0;
        match dtype {
            DType::BF16 => Tolerance { rtol: self.rtol.max(TWO_UNITS), ..self },
            _ => self,
        }
    }

    /// The tolerance for weights of that precision. Weights in `bf16` are off by up to 2^-9 of themselves, and integers
    /// by up to 2^-8 or 2^-4 of the largest weight of their block. So is each term of a sum, however small the sum is.
    /// So an element may be off by a share of the largest element: a few such errors, for networks of several layers.
    pub(crate) fn lowered(self, expected: &Tensor, precision: Precision) -> Tolerance {
        let share = match precision {
            Precision::F32 => return self,
            Precision::Bf16 => 1e-2,
            Precision::Int8 => 2e-2,
            Precision::Int4 => 0.25,
        };
        Tolerance { rtol: self.rtol.max(share), ..self.scaled(expected, share) }
    }

    /// The tolerance for results of sums: their rounding errors are relative to the terms, however small the sum is. So
    /// an element may be off by that share of the largest element of its tensor.
    pub(crate) fn scaled(self, expected: &Tensor, share: f64) -> Tolerance {
        Tolerance { atol: self.atol.max(share * largest(expected)), ..self }
    }
}

/// The largest finite magnitude in a tensor of floats; 0 for other types.
fn largest(tensor: &Tensor) -> f64 {
    let values = floats(tensor).into_iter().flatten();
    values.filter(|value| value.is_finite()).fold(0.0f64, |most, value| most.max(value.abs()))
}

/// The elements of a tensor of floats.
fn floats(tensor: &Tensor) -> Option<Box<dyn Iterator<Item = f64> + '_>> {
    fn wide<T: kiln_tensor::Element + Into<f64>>(tensor: &Tensor) -> Option<Box<dyn Iterator<Item = f64> + '_>> {
        Some(Box::new(tensor.as_slice::<T>().ok()?.iter().map(|value| (*value).into())))
    }
    match tensor.dtype() {
        DType::F32 => wide::<f32>(tensor),
        DType::F64 => wide::<f64>(tensor),
        DType::F16 => wide::<half::f16>(tensor),
        DType::BF16 => wide::<half::bf16>(tensor),
        _ => None,
    }
}

/// How far a tensor of floats is from another one of its shape, over elements that are finite in both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Distance {
    /// The largest difference, as a share of the largest magnitude expected.
    pub(crate) largest: f64,
    /// The root of the mean square of differences, as a share of that of the expected elements.
    pub(crate) mean: f64,
}

impl Distance {
    /// `None` for tensors of other types or of different shapes, and where all expected elements are zeros.
    pub(crate) fn of(expected: &Tensor, actual: &Tensor) -> Option<Distance> {
        (expected.shape() == actual.shape()).then_some(())?;
        let (mut most, mut squares, mut size) = (0.0f64, 0.0, 0.0);
        for (expected, actual) in floats(expected)?.zip(floats(actual)?) {
            if expected.is_finite() && actual.is_finite() {
                most = most.max((expected - actual).abs());
                squares += (expected - actual).powi(2);
                size += expected.powi(2);
            }
        }
        let largest = largest(expected);
        (largest > 0.0).then(|| Distance { largest: most / largest, mean: (squares / size).sqrt() })
    }
}

/// How far tensors of floats are from expected ones, over all tensors that were added, and over elements that are
/// expected to be finite. An element that is then not finite is infinitely far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    /// The sum of squared differences.
    squares: f64,
    /// The sum of squares of expected elements.
    size: f64,
}

impl Spread {
    /// Adds a tensor; returns whether both are tensors of floats of one shape.
    #[must_use]
    pub(crate) fn add(&mut self, expected: &Tensor, actual: &Tensor) -> bool {
        let (Some(wanted), Some(found)) = (floats(expected), floats(actual)) else { return false };
        if expected.shape() != actual.shape() {
            return false;
        }
        for (wanted, found) in wanted.zip(found).filter(|(wanted, _)| wanted.is_finite()) {
            self.squares += if found.is_finite() { (wanted - found).powi(2) } else { f64::INFINITY };
            self.size += wanted.powi(2);
        }
        true
    }

    /// The root of the mean square of differences, as a share of that of the expected elements.
    pub(crate) fn share(self) -> f64 {
        if self.squares == 0.0 { 0.0 } else { (self.squares / self.size).sqrt() }
    }
}

/// One element that is out of tolerance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Element {
    /// Its index, outermost dimension first.
    pub(crate) index: Vec<usize>,
    /// The expected value.
    pub(crate) expected: String,
    /// The actual value.
    pub(crate) actual: String,
    /// The number of steps between representable numbers, if both are finite floats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ulps: Option<u64>,
}

/// How two tensors differ.
#[derive(Debug)]
pub(crate) enum Difference {
    /// In type or shape.
    Spec {
        /// The expected one.
        expected: TensorSpec,
        /// The actual one.
        actual: TensorSpec,
    },
    /// In elements.
    Elements {
        /// The first element that differs, in row-major order.
        first: Element,
        /// The element with the largest error.
        worst: Element,
        /// How many differ.
        wrong: usize,
        /// The number of all elements.
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
            Difference::Elements { worst: Element { index, expected, actual, .. }, wrong, count, .. } => {
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
            let size = expected.dtype().size();
            let bits = |tensor: &Tensor, i: usize| little_endian(&tensor.bytes()[i * size..][..size]);
            let numbers = |i: usize| !$to(e[i]).is_nan() && !$to(a[i]).is_nan();
            differing(
                expected.shape(),
                e.len(),
                |i| excess($to(e[i]), $to(a[i]), tolerance),
                |i| Texts {
                    expected: format!("{:?}", e[i]),
                    actual: format!("{:?}", a[i]),
                    ulps: numbers(i).then(|| ulps(bits(expected, i), bits(actual, i), size)),
                },
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
            differing(
                expected.shape(),
                e.len(),
                |i| exact(e[i] == a[i]),
                |i| Texts::of(format!("{:?}", e[i]), format!("{:?}", a[i])),
            )
        }
        small if small.is_minifloat() => {
            let (e, a) = (expected.bytes(), actual.bytes());
            let value = |bytes: &[u8], i: usize| f64::from(minifloat::decode(small, bytes[i]));
            differing(
                expected.shape(),
                e.len(),
                |i| excess(value(e, i), value(a, i), tolerance),
                |i| Texts::of(value(e, i), value(a, i)),
            )
        }
        dtype => {
            let (e, a, size) = (expected.bytes(), actual.bytes(), dtype.size());
            let at = |bytes: &[u8], i: usize| integer(dtype, &bytes[i * size..][..size]);
            let units = if dtype == DType::Bool { 0 } else { i128::from(tolerance.units) };
            differing(
                expected.shape(),
                expected.len(),
                |i| {
                    let off = (at(e, i) - at(a, i)).abs();
                    (off > units).then_some(off as f64)
                },
                |i| Texts::of(at(e, i), at(a, i)),
            )
        }
    })
}

/// The amount by which an element is out of tolerance, if it is; larger is worse. NaN equals NaN.
fn excess(expected: f64, actual: f64, tolerance: Tolerance) -> Option<f64> {
    if expected == actual || (expected.is_nan() && actual.is_nan()) {
        return None;
    }
    let excess = (expected - actual).abs() - (tolerance.atol + tolerance.rtol * expected.abs());
    // A NaN or an infinity on one side only is worse than any finite error. (An infinite `expected` would allow an
    // infinite error, which numpy does not allow either.)
    if !expected.is_finite() || !actual.is_finite() { Some(f64::INFINITY) } else { Some(excess).filter(|&e| e > 0.0) }
}

fn exact(equal: bool) -> Option<f64> {
    if equal { None } else { Some(f64::INFINITY) }
}

/// The little-endian integer or boolean in these bytes.
fn integer(dtype: DType, bytes: &[u8]) -> i128 {
    let unsigned = little_endian(bytes);
    let unused = 64 - 8 * bytes.len() as u32;
    match dtype {
        DType::Bool => i128::from(unsigned != 0),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::I4 | DType::I2 => {
            i128::from((unsigned << unused) as i64 >> unused)
        }
        _ => i128::from(unsigned),
    }
}

/// At most eight bytes as an integer.
fn little_endian(bytes: &[u8]) -> u64 {
    let mut wide = [0u8; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// The distance of two floats of that many bytes in units in the last place: the steps from one representable number to
/// the next. Both zeros are one number.
fn ulps(expected: u64, actual: u64, size: usize) -> u64 {
    let sign = 1u64 << (8 * size - 1);
    let place = |bits: u64| {
        let magnitude = i128::from(bits & (sign - 1));
        if bits & sign == 0 { magnitude } else { -magnitude }
    };
    u64::try_from((place(expected) - place(actual)).abs()).unwrap_or(u64::MAX)
}

/// An element of both tensors as text.
struct Texts {
    expected: String,
    actual: String,
    ulps: Option<u64>,
}

impl Texts {
    fn of(expected: impl ToString, actual: impl ToString) -> Texts {
        Texts { expected: expected.to_string(), actual: actual.to_string(), ulps: None }
    }
}

/// The first and the worst of `count` elements whose `excess` is not `None`.
fn differing(
    shape: &[usize],
    count: usize,
    excess: impl Fn(usize) -> Option<f64>,
    texts: impl Fn(usize) -> Texts,
) -> Option<Difference> {
    let (mut wrong, mut first, mut worst) = (0, None, None::<(usize, f64)>);
    for index in 0..count {
        let Some(by) = excess(index) else { continue };
        wrong += 1;
        first.get_or_insert(index);
        if worst.is_none_or(|(_, most)| by > most) {
            worst = Some((index, by));
        }
    }
    let element = |flat: usize| {
        let Texts { expected, actual, ulps } = texts(flat);
        Element { index: unravel(flat, shape), expected, actual, ulps }
    };
    Some(Difference::Elements { first: element(first?), worst: element(worst?.0), wrong, count })
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
    fn distances_are_shares_of_what_is_expected() {
        let tensor = |values: &[f32]| Tensor::from_slice([values.len()], values).unwrap();
        let expected = tensor(&[3.0, -4.0, f32::INFINITY]);
        let found = Distance::of(&expected, &tensor(&[3.0, -3.0, f32::INFINITY]));
        assert_eq!(found, Some(Distance { largest: 0.25, mean: 0.2 }));
        assert_eq!(Distance::of(&expected, &tensor(&[3.0])), None, "another shape");
        assert_eq!(Distance::of(&tensor(&[0.0]), &tensor(&[1.0])), None, "nothing to be a share of");
        let integers = Tensor::from_slice([1], &[1i32]).unwrap();
        assert_eq!(Distance::of(&integers, &integers), None);
    }

    #[test]
    fn lower_precision_is_held_against_the_largest_element() {
        let expected = Tensor::from_vec([3], vec![-8.0f32, 0.0, f32::INFINITY]).unwrap();
        let lowered = |tolerance: Tolerance, precision| tolerance.lowered(&expected, precision);
        for (precision, share) in [(Precision::Bf16, 1e-2), (Precision::Int8, 2e-2), (Precision::Int4, 0.25)] {
            let wanted = Tolerance { rtol: share, atol: 8.0 * share, units: 0 };
            assert_eq!(lowered(Tolerance::default(), precision), wanted);
        }
        assert_eq!(lowered(STRICT, Precision::F32), STRICT);
        let loose = Tolerance { rtol: 0.5, atol: 1.0, units: 2 };
        assert_eq!(lowered(loose, Precision::Bf16), loose);
    }

    const STRICT: Tolerance = Tolerance { rtol: 1e-3, atol: 1e-7, units: 0 };

    fn differs<T: kiln_tensor::Element>(expected: &[T], actual: &[T]) -> Option<String> {
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
            // The tolerance is relative to the expected value: 1e-2 and 1e-7 at 10, a little more at 10.01001.
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
    fn the_first_and_the_worst_element_are_told_with_their_distance() {
        let tensor = |values: &[f32]| Tensor::from_slice([values.len()], values).unwrap();
        let next = f32::from_bits(1.5f32.to_bits() + 3);
        let exact = Tolerance { rtol: 0.0, atol: 0.0, units: 0 };
        let difference = compare(&tensor(&[1.0, 1.5, -0.0, 2.0]), &tensor(&[1.0, next, 0.0, f32::NAN]), exact);
        let Some(Difference::Elements { first, worst, wrong: 2, count: 4 }) = difference.unwrap() else { panic!() };
        assert_eq!((first.index, first.ulps), (vec![1], Some(3)));
        assert_eq!((worst.index, worst.actual.as_str(), worst.ulps), (vec![3], "NaN", None));
        assert_eq!(ulps(0x8000_0001, 1, 4), 2, "the zeros are one number");
        assert_eq!(ulps(0x3c00, 0x3c01, 2), 1);
        assert_eq!(ulps(f64::MAX.to_bits(), f64::MIN.to_bits(), 8), 2 * f64::MAX.to_bits());
    }

    #[test]
    fn rounding_of_sums_is_relative_to_the_largest_element_and_that_of_integers_is_counted() {
        let expected = Tensor::from_vec([2], vec![100.0f32, 0.0]).unwrap();
        let tolerance = Tolerance::default().scaled(&expected, 1e-5);
        let off = |by: f32| {
            let actual = Tensor::from_vec([2], vec![100.0f32, by]).unwrap();
            compare(&expected, &actual, tolerance).unwrap().is_some()
        };
        assert!(!off(9e-4) && off(2e-3));
        let bytes = |value: i8| Tensor::from_vec([1], vec![value]).unwrap();
        let one = Tolerance { units: 1, ..STRICT };
        assert!(compare(&bytes(-3), &bytes(-4), one).unwrap().is_none());
        assert!(compare(&bytes(-3), &bytes(-5), one).unwrap().is_some());
    }

    #[test]
    fn integers_and_booleans_are_exact_and_keep_their_sign() {
        assert_eq!(differs(&[1i64, -5], &[1, -5]), None);
        let line = differs(&[1i8, -5], &[1, 5]).unwrap();
        assert_eq!(line, "element [1]: expected -5, got 5 (1 of 2 elements differ)");
        let line = differs(&[u64::MAX], &[0]).unwrap();
        assert!(line.contains("expected 18446744073709551615, got 0"), "{line}");
        // Any byte but 0 is true.
        assert_eq!(differs(&[kiln_tensor::BoolByte(1)], &[kiln_tensor::BoolByte(255)]), None);
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
        assert_eq!(read("{}"), Tolerance { rtol: 1e-3, atol: 1e-7, units: 0 });
        assert_eq!(read(r#"{"rtol": 0.5}"#), Tolerance { rtol: 0.5, atol: 1e-7, units: 0 });
    }
}
