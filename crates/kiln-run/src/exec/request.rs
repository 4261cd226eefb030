//! Requests that a model got: types and shapes of their inputs, remembered so that the next process has their plans
//! made before its first request.
//!
//! The key says all of it, and there is nothing to choose; a record adds how long such a request took. Knows no graph:
//! the session says whether its model takes such inputs.

use kiln_kernels::Result as KernelResult;
use kiln_key::{Key, Mutate};
use kiln_tensor::{DType, TensorSpec};
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::Family;
use crate::record::{Evidence, Recorded, Store};

/// Most requests of a model that are remembered, and that are read from records.
pub const MOST_REQUESTS: usize = 256;

/// Most numbers in a request's inputs: a record has no room for more.
const MOST_NUMBERS: usize = 448;

/// A request of a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "request", value = (), laws = crate::record::laws::check)]
pub struct RequestKey {
    /// Digest of the model's structure.
    pub model: u64,
    /// Threads of a request: its executors are made for a number of threads.
    pub threads: u32,
    /// In the model's order; `None` where a request left an input out.
    pub inputs: Vec<Option<InputShape>>,
}

/// Type and shape of an input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct InputShape {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub dims: Vec<u64>,
}

impl Recorded for RequestKey {
    const REVISION: u32 = 1;
    type Choice = ();
}

impl Family for RequestKey {
    fn choose(&self, _: &BuildCx) {}

    fn accepts(&self, (): &(), _: &BuildCx) -> bool {
        true
    }

    fn build(&self, (): &(), _: &BuildCx) -> KernelResult<()> {
        Ok(())
    }

    /// Never: only the session of that model asks for it.
    fn fits(&self, _: &BuildCx) -> bool {
        false
    }

    fn table_bytes(&self) -> Option<u64> {
        Some(0)
    }
}

impl RequestKey {
    /// The key of a request with such inputs; `None` where a record has no room for it.
    #[must_use]
    pub fn new(model: u64, threads: u32, inputs: &[Option<TensorSpec>]) -> Option<RequestKey> {
        let numbers = inputs.iter().map(|input| 1 + input.as_ref().map_or(0, |spec| 1 + spec.shape.len()));
        if numbers.sum::<usize>() > MOST_NUMBERS {
            return None;
        }
        let shape = |spec: &TensorSpec| InputShape {
            dtype: spec.dtype,
            dims: spec.shape.iter().map(|&dim| dim as u64).collect(),
        };
        Some(RequestKey { model, threads, inputs: inputs.iter().map(|input| input.as_ref().map(shape)).collect() })
    }

    /// Types and shapes of the inputs. `None` where an input is of strings, has no elements, or has more than can be
    /// counted: only requests that computed something are remembered.
    #[must_use]
    pub fn specs(&self) -> Option<Vec<Option<TensorSpec>>> {
        let spec = |input: &InputShape| {
            let dims = input.dims.iter().map(|&dim| usize::try_from(dim).ok());
            let spec = TensorSpec { dtype: input.dtype, shape: dims.collect::<Option<_>>()? };
            let computes = spec.dtype != DType::String && spec.elements().is_ok_and(|elements| elements > 0);
            computes.then_some(spec)
        };
        self.inputs.iter().map(|input| input.as_ref().map_or(Some(None), |input| spec(input).map(Some))).collect()
    }

    /// The remembered requests of a model, the last first, and how many nanoseconds they took.
    #[must_use]
    pub fn recall(model: u64, threads: u32, records: &Store) -> Vec<(RequestKey, u64)> {
        // Only this model's requests are read, and at most `MOST_REQUESTS`, however many the records hold.
        let known = records.newest::<RequestKey>(&(model, threads), MOST_REQUESTS);
        known.into_iter().map(|(key, evidence)| (key, evidence.nanos)).collect()
    }

    /// Remembers that the last of `runs` runs of such a request took `nanos` nanoseconds.
    pub fn note(&self, nanos: u64, runs: u32, records: &Store) {
        records.insert(self, &(), Evidence::measured(nanos, runs));
    }
}

#[cfg(test)]
mod tests {
    use kiln_key::Mutate;

    use super::*;

    fn spec(dims: &[usize]) -> Option<TensorSpec> {
        Some(TensorSpec::new(DType::F32, dims.iter().copied()))
    }

    #[test]
    fn requests_come_back_as_they_were() {
        let records = Store::in_memory();
        let requests = [vec![spec(&[1, 3]), None], vec![spec(&[]), spec(&[7])]];
        for inputs in &requests {
            RequestKey::new(7, 2, inputs).unwrap().note(50, 1, &records);
        }
        RequestKey::new(8, 2, &requests[0]).unwrap().note(50, 1, &records);
        RequestKey::new(7, 1, &requests[0]).unwrap().note(50, 1, &records);
        let known = RequestKey::recall(7, 1, &records);
        known[0].0.note(30, 2, &records);
        assert_eq!(RequestKey::recall(7, 1, &records)[0].1, 30, "a repeat says more than a first run");
        let known = RequestKey::recall(7, 2, &records);
        assert_eq!(known.len(), 2);
        for inputs in requests {
            assert!(known.iter().any(|(key, nanos)| key.specs().as_ref() == Some(&inputs) && *nanos == 50));
        }
    }

    #[test]
    fn what_no_request_can_have_been_is_none() {
        for dims in [vec![0], vec![0, u64::MAX], vec![1 << 40, 1 << 40], vec![u64::MAX]] {
            let input = InputShape { dims, ..InputShape::sample() };
            let key = RequestKey { inputs: vec![Some(input)], ..RequestKey::sample() };
            assert_eq!(key.specs(), None);
        }
        let texts = TensorSpec::new(DType::String, [3]);
        assert_eq!(RequestKey::new(1, 1, &[Some(texts)]).unwrap().specs(), None);
    }

    #[test]
    fn a_request_that_no_record_holds_is_not_kept() {
        let many = vec![spec(&[1, 2, 3, 4]); 80];
        assert_eq!(RequestKey::new(1, 1, &many), None);
        let records = Store::in_memory();
        RequestKey::new(1, 1, &many[..74]).unwrap().note(1, 1, &records);
        assert_eq!((RequestKey::recall(1, 1, &records).len(), records.stats().rejected_length), (1, 0));
    }
}
