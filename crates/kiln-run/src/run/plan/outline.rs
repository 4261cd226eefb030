//! The outline of a stretch's memory, from one run under the recorder; it holds for other shapes too, which then need
//! no such run.
//!
//! The steps determine which outputs have their own memory, which take over an input's, when each is last read and what
//! leaves the graph. Only sizes depend on shapes, and they are known once the steps are prepared.
//!
//! A step may take memory over at some shapes only (it adds tensors of one shape in place, but not with broadcasting).
//! If the outline has a step take over memory of another size than its output's, it does not hold, and the run is
//! recorded again. If a step takes memory over although the outline has a place for its output, the place stays unused.

use kiln_tensor::TensorSpec;

use super::layout::Storage;
use crate::node::Specs;

/// The storage of an output.
#[derive(Clone, Copy, Debug)]
pub(super) enum OutputStorage {
    /// Outside the storages of the stretch.
    Elsewhere,
    /// This storage, as its first output.
    First(u32),
    /// This storage, after other outputs.
    TakenOver(u32),
    /// A part of this storage, beside other outputs.
    Within(u32),
}

/// The storages of a stretch.
#[derive(Clone)]
pub(in super::super) struct Outline {
    /// In the order of their first steps; sizes are those of the recorded run.
    pub(super) storages: Vec<Storage>,
    /// For each output of each step.
    pub(super) outputs: Vec<OutputStorage>,
}

/// Bytes of a tensor's elements if they are contiguous.
pub(super) fn bytes_of(spec: &TensorSpec) -> usize {
    spec.elements().map_or(usize::MAX, |elements| elements.saturating_mul(spec.dtype.size()))
}

impl Outline {
    /// The outline for steps with these output specs; `None` if this one does not hold for them.
    pub(in super::super) fn sized<'a>(&self, steps: impl IntoIterator<Item = &'a Specs>) -> Option<Outline> {
        let mut sized = self.clone();
        let mut outputs = self.outputs.iter();
        for spec in steps.into_iter().flatten() {
            match *outputs.next()? {
                OutputStorage::Elsewhere => {}
                OutputStorage::First(storage) => sized.storages.get_mut(storage as usize)?.bytes = bytes_of(spec),
                OutputStorage::TakenOver(storage) if sized.storages.get(storage as usize)?.bytes == bytes_of(spec) => {}
                OutputStorage::Within(storage) if sized.storages.get(storage as usize)?.bytes >= bytes_of(spec) => {}
                OutputStorage::TakenOver(_) | OutputStorage::Within(_) => return None,
            }
        }
        outputs.next().is_none().then_some(sized)
    }
}

#[cfg(test)]
mod tests {
    use kiln_tensor::DType;
    use smallvec::smallvec;

    use super::*;

    fn floats(elements: usize) -> Specs {
        smallvec![TensorSpec::new(DType::F32, [elements])]
    }

    #[test]
    fn an_outline_holds_where_what_is_taken_over_is_of_one_size() {
        let storage = |first, last| Storage { bytes: 1, first, last, leaves: false };
        let outputs = vec![
            OutputStorage::First(0),
            OutputStorage::TakenOver(0),
            OutputStorage::First(1),
            OutputStorage::Elsewhere,
        ];
        let outline = Outline { storages: vec![storage(0, 2), storage(2, 3)], outputs };
        let sized = |elements: [usize; 4]| {
            let sized = outline.sized(&elements.map(floats))?;
            Some(sized.storages.iter().map(|storage| storage.bytes).collect::<Vec<_>>())
        };
        assert_eq!(sized([5, 5, 7, 9]), Some(vec![20, 28]));
        assert_eq!(sized([6, 5, 7, 9]), None);
        let parts = Outline {
            outputs: vec![OutputStorage::First(0), OutputStorage::Within(0), OutputStorage::Within(0)],
            ..outline.clone()
        };
        assert!(parts.sized(&[5, 2, 3].map(floats)).is_some());
        assert!(parts.sized(&[5, 2, 6].map(floats)).is_none(), "a part is no larger than the whole");
        assert!(outline.sized(&[floats(5), floats(5)]).is_none(), "steps are missing");
        assert!(outline.sized(&[5, 5, 7, 9, 1].map(floats)).is_none(), "there are more");
    }
}
