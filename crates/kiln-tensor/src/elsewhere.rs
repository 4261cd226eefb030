//! Memory of tensors that the processor cannot read; only its maker knows its type. Depends on no device.

use std::any::Any;

/// Memory of any type, which frees itself on drop.
pub struct Elsewhere(Box<dyn Any + Send + Sync>);

impl Elsewhere {
    /// Wraps memory.
    pub fn new<T: Any + Send + Sync>(memory: T) -> Elsewhere {
        Elsewhere(Box::new(memory))
    }

    /// The memory, if it is a `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl std::fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Elsewhere")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{DType, Tensor, TensorError, TensorSpec};

    #[test]
    fn a_tensor_elsewhere_has_a_shape_and_an_identity_and_no_bytes_here() {
        let spec = || TensorSpec::new(DType::F32, [2, 3]);
        let tensor = Tensor::elsewhere(spec(), Arc::new(Elsewhere::new(7u64)));
        assert_eq!((tensor.shape(), tensor.len(), tensor.byte_len()), (&[2, 3][..], 6, 0));
        assert!(tensor.bytes().is_empty() && tensor.is_elsewhere());
        assert!(matches!(tensor.as_slice::<f32>(), Err(TensorError::Elsewhere(_))));
        assert_eq!(tensor.away::<u64>(), Some(&7));
        assert_eq!(tensor.away::<u32>(), None);
        assert!(tensor.is_sole());
        let view = tensor.reshaped([6]).unwrap();
        assert!(view.shares_bytes(&tensor) && !tensor.is_sole());
        assert_eq!(view.place(), tensor.place());
        assert!(!tensor.same(&Tensor::zeros(spec()).unwrap()));
        assert!(!tensor.same(&Tensor::elsewhere(spec(), Arc::new(Elsewhere::new(7u64)))));
    }
}
