//! A caller's memory, in which one output of a request is made. Knows neither graphs nor requests.

use std::sync::Arc;

use super::buffer::{Buffer, Loan, Parts};
use super::pool::BufferPool;
use super::{Data, Tensor, TensorError, TensorSpec};

/// The memory of a tensor, to be filled anew: lent to one tensor at a time, whose last owner gives it back.
#[derive(Debug)]
pub struct Destination {
    spec: TensorSpec,
    /// The first element's byte in the memory.
    start: usize,
    /// Bytes that the tensor's buffer was asked for.
    asked: usize,
    /// The pool to which the memory finally returns, if it came from one.
    pool: Option<Arc<BufferPool>>,
    memory: Arc<Loan>,
}

impl Destination {
    /// The memory of `tensor`.
    ///
    /// # Errors
    ///
    /// Where the memory has other owners, or may not be written, or there are no bytes (strings).
    pub fn of(tensor: Tensor) -> Result<Arc<Destination>, TensorError> {
        let Tensor { spec, data } = tensor;
        let Data::Bytes(buffer, start) = data else { return Err(TensorError::NotWritable(spec.shape)) };
        let parts = Arc::into_inner(buffer).and_then(Buffer::into_writable);
        let Some(Parts { memory, asked, pool }) = parts else { return Err(TensorError::NotWritable(spec.shape)) };
        Ok(Arc::new(Destination { spec, start, asked, pool, memory: Loan::of(memory) }))
    }

    /// The type and shape that it is for.
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// A tensor over the memory, with arbitrary contents; `None` for other types and shapes, and while the memory is
    /// lent.
    pub fn lend(&self, spec: &TensorSpec) -> Option<Tensor> {
        let buffer = if *spec == self.spec { Buffer::on_loan(&self.memory, self.asked) } else { None };
        buffer.map(|buffer| self.over(buffer))
    }

    /// Whether a tensor of this spec may be lent: one of the destination's type and with as many elements.
    pub fn takes(&self, spec: &TensorSpec) -> bool {
        spec.dtype == self.spec.dtype && spec.elements().is_ok_and(|elements| self.spec.elements() == Ok(elements))
    }

    /// As [`Destination::lend`], for a value that a view gives the destination's shape.
    pub fn lend_as(&self, spec: &TensorSpec) -> Option<Tensor> {
        if !self.takes(spec) {
            return None;
        }
        let whole = self.lend(&self.spec)?;
        Some(Tensor { spec: spec.clone(), data: whole.data })
    }

    /// Whether any element of `tensor` lies in this memory.
    pub fn holds(&self, tensor: &Tensor) -> bool {
        matches!(&tensor.data, Data::Bytes(buffer, _) if buffer.is_on(&self.memory))
    }

    /// The tensor as it was given, with the elements that are in its memory now; `None` while the memory is lent.
    pub fn reclaim(&self) -> Option<Tensor> {
        self.memory.take().map(|memory| self.over(Buffer::of(memory, self.asked, self.pool.clone())))
    }

    fn over(&self, buffer: Buffer) -> Tensor {
        Tensor { spec: self.spec.clone(), data: Data::Bytes(Arc::new(buffer), self.start) }
    }
}

impl Drop for Destination {
    /// Gives a pool's memory back after a failed request.
    fn drop(&mut self) {
        drop(self.reclaim());
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::extent::Foreign;

    use super::*;
    use crate::DType;

    #[test]
    fn memory_is_lent_to_one_tensor_at_a_time_and_comes_back() {
        let tensor = Tensor::zeros(TensorSpec::new(DType::F32, [2, 3])).unwrap();
        let address = tensor.bytes().as_ptr();
        let destination = Destination::of(tensor).unwrap();
        assert!(destination.lend(&TensorSpec::new(DType::F32, [3, 2])).is_none(), "another shape");
        let mut lent = destination.lend(destination.spec()).unwrap();
        assert!(destination.lend(destination.spec()).is_none() && destination.reclaim().is_none());
        lent.as_mut_slice::<f32>().unwrap().fill(7.0);
        let view = lent.reshaped([6]).unwrap();
        drop(lent);
        assert!(destination.holds(&view) && destination.reclaim().is_none(), "a view has it still");
        drop(view);
        let back = destination.reclaim().unwrap();
        assert_eq!((back.bytes().as_ptr(), back.as_slice::<f32>().unwrap()), (address, &[7.0; 6][..]));
        assert!(!destination.holds(&back), "it is the caller's again");
    }

    #[test]
    fn memory_that_others_have_or_that_may_not_be_written_is_refused() {
        let shared = Tensor::scalar(1.0f32);
        let read_only = Tensor::from_foreign(TensorSpec::new(DType::U8, [3]), Foreign::of([1u8, 2, 3]));
        let texts = Tensor::from_strings([1], vec![String::new()]);
        for tensor in [shared.clone(), read_only.unwrap(), texts.unwrap()] {
            assert!(matches!(Destination::of(tensor), Err(TensorError::NotWritable(_))));
        }
        assert!(Destination::of(shared).is_ok(), "it is the only owner now");
    }

    #[test]
    fn memory_of_a_pool_goes_back_to_it() {
        let pool = BufferPool::bounded(1 << 20, 1 << 20);
        let room = pool.room();
        let destination = Destination::of(Tensor::from_pool(&pool, TensorSpec::new(DType::F32, [100])).unwrap());
        assert!(pool.room() < room);
        drop(destination);
        assert_eq!(pool.room(), room);
    }
}
