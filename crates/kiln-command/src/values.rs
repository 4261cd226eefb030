//! Generated values: the deterministic fills of traces, and random ones by seed. Depends on no model and no file.
//!
//! A trace states how its inputs are made, so that several programs can run the same requests and compare outputs; so
//! these rules are exact to the bit. Element `i` of input number `k` comes from
//!
//! ```text
//! h = (i * 2654435761 + (k + 1) * 40503) mod 2^32;  h ^= h >> 16;
//! h = (h * 73244475) mod 2^32;                      h ^= h >> 16
//! unit:   h / 2^31 - 1, in double, then converted      ids:V:  h mod V      ones:  1
//! ```

use std::str::FromStr;

use kiln_tensor::{BoolByte, DType, Element, Tensor, TensorError, TensorSpec};
use serde::Deserialize;

/// How the elements of a tensor are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Fill {
    /// From -1 to 1.
    Unit,
    /// From 0 up to, not including, this many.
    Ids(u32),
    /// One.
    Ones,
    /// Random by that seed: floats from -1 to 1; integers and booleans 0 or 1, which every table can be indexed with.
    Random(u64),
}

/// A text that names no fill.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no fill: unit, ones or ids:N with N of 1 or more")]
pub(crate) struct FillError(String);

impl FromStr for Fill {
    type Err = FillError;

    fn from_str(text: &str) -> Result<Fill, FillError> {
        let ids = text.strip_prefix("ids:").and_then(|count| count.parse().ok()).filter(|&count| count > 0);
        match (text, ids) {
            ("unit", _) => Ok(Fill::Unit),
            ("ones", _) => Ok(Fill::Ones),
            (_, Some(count)) => Ok(Fill::Ids(count)),
            _ => Err(FillError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Fill {
    type Error = FillError;

    fn try_from(text: String) -> Result<Fill, FillError> {
        text.parse()
    }
}

/// Everything that determines one made tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// The input that it is for.
    pub(crate) name: String,
    /// Type and shape.
    pub(crate) spec: TensorSpec,
    /// The rule.
    pub(crate) fill: Fill,
    /// The input's place among the inputs, from 0: equal shapes at different places get different values.
    pub(crate) place: u32,
}

/// Why a tensor cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecipeError {
    /// Larger than any intended shape.
    #[error("input '{name}': shape {shape:?} needs {gib:.0} GiB, more than the {MOST_GIB} GiB that are made at once")]
    TooLarge {
        /// The input.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Its size.
        gib: f64,
    },
    /// A type that no rule makes.
    #[error("input '{name}': values of type {dtype} cannot be made up, give a file")]
    Type {
        /// The input.
        name: String,
        /// Its type.
        dtype: DType,
    },
    /// The tensor itself was refused.
    #[error("input '{name}': {source}")]
    Tensor {
        /// The input.
        name: String,
        /// Why.
        source: TensorError,
    },
}

/// A bound, so that a mistyped shape is an error and does not exhaust the machine's memory.
const MOST_GIB: usize = 16;

impl Recipe {
    /// Makes the tensor.
    pub(crate) fn make(&self) -> Result<Tensor, RecipeError> {
        let failed = |source| RecipeError::Tensor { name: self.name.clone(), source };
        let count = self.spec.elements().map_err(failed)?;
        let bytes = count.saturating_mul(self.spec.dtype.size());
        if bytes > MOST_GIB << 30 {
            let gib = bytes as f64 / f64::from(1u32 << 30);
            return Err(RecipeError::TooLarge { name: self.name.clone(), shape: self.spec.shape.to_vec(), gib });
        }
        match self.spec.dtype {
            DType::F32 => self.collect(count, |v| v as f32),
            DType::F64 => self.collect(count, |v| v),
            DType::F16 => self.collect(count, half::f16::from_f64),
            DType::BF16 => self.collect(count, half::bf16::from_f64),
            DType::I8 => self.collect(count, |v| v as i8),
            DType::I16 => self.collect(count, |v| v as i16),
            DType::I32 => self.collect(count, |v| v as i32),
            DType::I64 => self.collect(count, |v| v as i64),
            DType::U8 => self.collect(count, |v| v as u8),
            DType::U16 => self.collect(count, |v| v as u16),
            DType::U32 => self.collect(count, |v| v as u32),
            DType::U64 => self.collect(count, |v| v as u64),
            DType::Bool => self.collect(count, |v| BoolByte::from(v != 0.0)),
            dtype => return Err(RecipeError::Type { name: self.name.clone(), dtype }),
        }
        .map_err(failed)
    }

    /// Every number that a rule makes is exact in `f64`, so one conversion at the end gives the same as numpy's
    /// `astype`.
    fn collect<T: Element>(&self, count: usize, convert: impl Fn(f64) -> T) -> Result<Tensor, TensorError> {
        let hashed = |index: usize| hash(index as u32, self.place);
        let values: Vec<T> = match self.fill {
            Fill::Ones => vec![convert(1.0); count],
            Fill::Unit => (0..count).map(|i| convert(f64::from(hashed(i)) / 2f64.powi(31) - 1.0)).collect(),
            Fill::Ids(ids) => (0..count).map(|i| convert(f64::from(hashed(i) % ids))).collect(),
            Fill::Random(seed) => {
                let mut stream = Stream::new(seed, u64::from(self.place));
                let fraction = self.spec.dtype.is_float();
                let draw = |v: u64| if fraction { (v >> 11) as f64 / 2f64.powi(52) - 1.0 } else { (v >> 63) as f64 };
                (0..count).map(|_| convert(draw(stream.next()))).collect()
            }
        };
        Tensor::from_vec(self.spec.shape.iter().copied(), values)
    }
}

fn hash(index: u32, place: u32) -> u32 {
    let mut h = index.wrapping_mul(2_654_435_761).wrapping_add(place.wrapping_add(1).wrapping_mul(40_503));
    h ^= h >> 16;
    h = h.wrapping_mul(73_244_475);
    h ^ (h >> 16)
}

/// The splitmix64 generator: 64 good bits from a counter, the same on every machine.
struct Stream(u64);

impl Stream {
    fn new(seed: u64, place: u64) -> Stream {
        // Two rounds from the plain seed, so that neighbouring inputs do not share a stream.
        let mut start = Stream(seed ^ place.wrapping_mul(0xD134_2543_DE82_EF95));
        Stream(start.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(dtype: DType, shape: &[usize], fill: Fill, place: u32) -> Recipe {
        Recipe { name: "x".to_owned(), spec: TensorSpec::new(dtype, shape.iter().copied()), fill, place }
    }

    // The expected values below were computed with numpy by the rule's own program.

    #[test]
    fn unit_values_are_numpys_to_the_bit() {
        let cases: [(u32, [u32; 6]); 2] = [
            (0, [0x3ee1_8c9f, 0x3f4a_5e30, 0xbeab_652e, 0x3e39_401e, 0x3d6e_121f, 0x3ee9_adfb]),
            (3, [0x3f54_92af, 0xbe06_e24d, 0x3ede_c492, 0x3f79_bca5, 0xbea6_d98a, 0xbf39_efb2]),
        ];
        for (place, expected) in cases {
            let tensor = recipe(DType::F32, &[2, 3], Fill::Unit, place).make().unwrap();
            let bits: Vec<u32> = tensor.as_slice::<f32>().unwrap().iter().map(|v| v.to_bits()).collect();
            assert_eq!(bits, expected, "input {place}");
        }
    }

    #[test]
    fn ids_are_numpys() {
        let tensor = recipe(DType::I64, &[8], Fill::Ids(30522), 0).make().unwrap();
        assert_eq!(tensor.as_slice::<i64>().unwrap(), &[9732, 29295, 17746, 593, 29969, 17644, 10065, 19323]);
        let tensor = recipe(DType::I32, &[5], Fill::Ids(32000), 1).make().unwrap();
        assert_eq!(tensor.as_slice::<i32>().unwrap(), &[25521, 8689, 24516, 11560, 30516]);
    }

    #[test]
    fn far_elements_wrap_as_32_bit_integers_do() {
        let tensor = recipe(DType::F64, &[1_000_000], Fill::Unit, 13).make().unwrap();
        assert_eq!(tensor.as_slice::<f64>().unwrap()[999_999], -0.262_276_094_406_843_2);
    }

    #[test]
    fn ones_are_ones_of_every_type() {
        for dtype in [DType::F32, DType::F16, DType::I64, DType::U8, DType::Bool] {
            let tensor = recipe(dtype, &[2], Fill::Ones, 0).make().unwrap();
            assert_eq!(tensor.dtype(), dtype);
            assert!(tensor.bytes().iter().any(|&b| b != 0), "{dtype}");
        }
    }

    #[test]
    fn random_values_depend_on_seed_and_place_alone_and_stay_in_range() {
        let make = |seed, place| recipe(DType::F32, &[1000], Fill::Random(seed), place).make().unwrap();
        assert!(make(1, 0).same(&make(1, 0)));
        assert!(!make(1, 0).same(&make(2, 0)));
        assert!(!make(1, 0).same(&make(1, 1)));
        let values = make(7, 0);
        let values = values.as_slice::<f32>().unwrap();
        assert!(values.iter().all(|v| (-1.0..=1.0).contains(v)));
        let mean = values.iter().sum::<f32>() / 1000.0;
        assert!(mean.abs() < 0.1, "mean {mean}");
        let ids = recipe(DType::I64, &[100], Fill::Random(7), 0).make().unwrap();
        assert!(ids.as_slice::<i64>().unwrap().iter().all(|v| [0, 1].contains(v)));
    }

    #[test]
    fn what_cannot_be_made_is_said_with_the_inputs_name() {
        let cases = [
            (recipe(DType::String, &[1], Fill::Ones, 0), "input 'x': values of type string"),
            (
                recipe(DType::F32, &[1 << 20, 1 << 20], Fill::Ones, 0),
                "input 'x': shape [1048576, 1048576] needs 4096 GiB",
            ),
            (recipe(DType::F32, &[usize::MAX, 2], Fill::Ones, 0), "input 'x': shape"),
        ];
        for (recipe, start) in cases {
            let error = recipe.make().unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn fills_are_read_from_their_names() {
        let cases = [("unit", Ok(Fill::Unit)), ("ones", Ok(Fill::Ones)), ("ids:30522", Ok(Fill::Ids(30522)))];
        for (text, expected) in cases {
            assert_eq!(text.parse(), expected);
        }
        for text in ["", "ids", "ids:", "ids:0", "ids:-1", "random"] {
            assert_eq!(text.parse::<Fill>(), Err(FillError(text.to_owned())));
        }
    }
}
