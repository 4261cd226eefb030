//! The layout of packed weights, as a blob: for callers that keep packed weights themselves and must know, before they
//! hand them to an executor, that it reads that layout.

use kiln_kernels::Isa;
use kiln_kernels::cpu::conv::{Conv, WeightLayout, Weights};
use serde::{Deserialize, Serialize};

use super::matmul::{MatMulKey, MatMulProblem, Stored};
use super::weights::MatMulWeights;
use crate::record::{decode, encode};

/// The layout of a tensor of packed weights: equal layouts are equal bytes for equal weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorLayout {
    /// The kind of weights.
    pub what: String,
    /// How they are arranged, in words.
    pub form: String,
    /// Elements of a vector, in which panels are counted.
    pub lanes: u32,
    /// Sizes of the weights as the model has them.
    pub sizes: Vec<u64>,
}

/// Why a layout is not the one that an executor reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The bytes are no layout's.
    #[error("this is no layout's blob")]
    Unreadable,
    /// The executor reads another.
    #[error("the weights' {what} is {found}, and the executor reads {expected}")]
    Differs {
        /// Kind, form, vectors or sizes.
        what: &'static str,
        /// The blob's.
        found: String,
        /// The executor's.
        expected: String,
    },
}

fn wide(sizes: impl IntoIterator<Item = usize>) -> Vec<u64> {
    sizes.into_iter().map(|size| size as u64).collect()
}

impl TensorLayout {
    /// The layout of a packed right-hand side.
    #[must_use]
    pub fn of_matmul(isa: Isa, weights: &MatMulWeights) -> TensorLayout {
        let form = format!("panels of {} vectors of {:?}", weights.vectors, weights.elements);
        TensorLayout::new("matmul", form, isa, wide([weights.k, weights.n]))
    }

    /// The layout of the right-hand side that products of that key read; `None` where it is not packed.
    #[must_use]
    pub fn expected_by_matmul(key: &MatMulKey) -> Option<TensorLayout> {
        let MatMulProblem { k, n, right, elements, .. } = key.problem;
        let Stored::Packed(vectors) = right else { return None };
        let form = format!("panels of {vectors} vectors of {elements:?}");
        Some(TensorLayout::new("matmul", form, key.target.isa, vec![k, n]))
    }

    /// The layout of packed weights of a convolution.
    #[must_use]
    pub fn of_conv(isa: Isa, weights: &Weights, layout: WeightLayout) -> TensorLayout {
        let Weights { channels, filters, groups, kernel, transposed } = weights;
        let mut sizes = wide([*channels, *filters, *groups].into_iter().chain(*kernel));
        sizes.extend(transposed.iter().flatten().flatten().map(|size| *size as u64));
        TensorLayout::new("conv", format!("{layout:?}"), isa, sizes)
    }

    /// The layout in which a convolution reads weights of those sizes.
    #[must_use]
    pub fn expected_by_conv(isa: Isa, weights: &Weights, executor: &Conv) -> TensorLayout {
        TensorLayout::of_conv(isa, weights, executor.layout())
    }

    fn new(what: &str, form: String, isa: Isa, sizes: Vec<u64>) -> TensorLayout {
        TensorLayout { what: what.to_owned(), form, lanes: u32::try_from(isa.lanes()).unwrap_or(0), sizes }
    }

    /// Its bytes; `None` where they would be more than a blob may have.
    #[must_use]
    pub fn blob(&self) -> Option<Vec<u8>> {
        encode(self).ok()
    }

    /// The layout of those bytes. Any are safe to pass.
    ///
    /// # Errors
    ///
    /// [`LayoutError::Unreadable`].
    pub fn from_blob(blob: &[u8]) -> Result<TensorLayout, LayoutError> {
        decode(blob).map_err(|_| LayoutError::Unreadable)
    }

    /// Checks that this is what an executor expects.
    ///
    /// # Errors
    ///
    /// [`LayoutError::Differs`] with the first difference.
    pub fn verify(&self, expected: &TensorLayout) -> Result<(), LayoutError> {
        let differs = |what, found: String, expected: String| Err(LayoutError::Differs { what, found, expected });
        if self.what != expected.what {
            return differs("kind", self.what.clone(), expected.what.clone());
        }
        if self.sizes != expected.sizes {
            return differs("sizes", format!("{:?}", self.sizes), format!("{:?}", expected.sizes));
        }
        if self.lanes != expected.lanes {
            return differs("vectors", self.lanes.to_string(), expected.lanes.to_string());
        }
        if self.form != expected.form {
            return differs("form", self.form.clone(), expected.form.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::cpu::Elements;
    use kiln_key::F32Bits;
    use smallvec::SmallVec;

    use super::*;
    use crate::exec::{Target, weights};

    fn product(isa: Isa, n: u64, right: Stored) -> MatMulKey {
        let problem = MatMulProblem {
            m: 3,
            n,
            k: 9,
            batch: SmallVec::new(),
            left: Stored::Rows,
            right,
            elements: Elements::F32,
            scale: F32Bits::new(1.0),
            bias: false,
            activation: None,
            stored: Default::default(),
        };
        MatMulKey::new(Target::new(isa, 1), problem)
    }

    #[test]
    fn packed_weights_are_what_their_product_expects_and_nothing_else_is() {
        let isa = Isa::Portable;
        let packed = weights::matmul(&isa.into(), Elements::F32, &[1.0; 9 * 20][..], [1, 9, 20], false, 1.0).unwrap();
        let layout = TensorLayout::from_blob(&TensorLayout::of_matmul(isa, &packed).blob().unwrap()).unwrap();
        let vectors = packed.vectors as u8;
        let expected = |isa, n, vectors| TensorLayout::expected_by_matmul(&product(isa, n, Stored::Packed(vectors)));
        assert_eq!(layout.verify(&expected(isa, 20, vectors).unwrap()), Ok(()));
        for (other, what) in [
            (expected(isa, 21, vectors), "sizes"),
            (expected(Isa::Avx512, 20, vectors), "vectors"),
            (expected(isa, 20, vectors + 1), "form"),
        ] {
            let error = layout.verify(&other.unwrap()).unwrap_err();
            assert!(matches!(error, LayoutError::Differs { what: found, .. } if found == what), "{error}");
        }
        assert_eq!(TensorLayout::expected_by_matmul(&product(isa, 20, Stored::Rows)), None);
        assert_eq!(TensorLayout::from_blob(b"no layout"), Err(LayoutError::Unreadable));
        let sizes = Weights { channels: 9, filters: 20, groups: 1, kernel: [1; 3], transposed: None };
        let conv = TensorLayout::of_conv(isa, &sizes, WeightLayout::Rows);
        assert!(matches!(layout.verify(&conv), Err(LayoutError::Differs { what: "kind", .. })));
    }
}
