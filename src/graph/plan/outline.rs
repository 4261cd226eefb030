//! What one run of a stretch has shown of its memory and what holds for other shapes too, so that they need no watching.
//!
//! Which outputs lie in memory of their own, which take over an input's, when each is read for the last time and what
//! leaves the graph follows from the steps. Only sizes follow from shapes, and those are known once the steps are prepared.
//!
//! A step may take memory over at some shapes and not at others (it adds tensors of one shape in place, and broadcasts elsewhere). Where
//! the outline has it take over what is not of its size, the outline does not hold, and the run is watched again. Where a
//! step takes over though the outline has a place for it, the place stays unused: places are wishes.

use super::super::node::Specs;
use super::layout::Storage;
use crate::tensor::TensorSpec;

/// Where an output lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tenancy {
    /// In no storage of the stretch.
    Elsewhere,
    /// In that storage, as the first.
    First(u32),
    /// In that storage, after others.
    TakenOver(u32),
    /// In a part of that storage, beside others.
    Within(u32),
}

/// The storages of a stretch.
#[derive(Clone)]
pub(in super::super) struct Outline {
    /// In the order of their first steps; their sizes are those of some shapes.
    pub(super) storages: Vec<Storage>,
    /// Of each output of each step.
    pub(super) outputs: Vec<Tenancy>,
}

/// Bytes of a tensor's elements, as far as they lie side by side.
pub(super) fn bytes_of(spec: &TensorSpec) -> usize {
    spec.elements().map_or(usize::MAX, |elements| elements.saturating_mul(spec.dtype.size()))
}

impl Outline {
    /// The outline of steps with such outputs; none where this one does not hold for them.
    pub(in super::super) fn sized<'a>(&self, steps: impl IntoIterator<Item = &'a Specs>) -> Option<Outline> {
        let mut sized = self.clone();
        let mut outputs = self.outputs.iter();
        for spec in steps.into_iter().flatten() {
            match *outputs.next()? {
                Tenancy::Elsewhere => {}
                Tenancy::First(storage) => sized.storages.get_mut(storage as usize)?.bytes = bytes_of(spec),
                Tenancy::TakenOver(storage) if sized.storages.get(storage as usize)?.bytes == bytes_of(spec) => {}
                Tenancy::Within(storage) if sized.storages.get(storage as usize)?.bytes >= bytes_of(spec) => {}
                Tenancy::TakenOver(_) | Tenancy::Within(_) => return None,
            }
        }
        outputs.next().is_none().then_some(sized)
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::tensor::DType;

    fn floats(elements: usize) -> Specs {
        smallvec![TensorSpec::new(DType::F32, [elements])]
    }

    #[test]
    fn an_outline_holds_where_what_is_taken_over_is_of_one_size() {
        let storage = |first, last| Storage { bytes: 1, first, last, leaves: false };
        let outputs = vec![Tenancy::First(0), Tenancy::TakenOver(0), Tenancy::First(1), Tenancy::Elsewhere];
        let outline = Outline { storages: vec![storage(0, 2), storage(2, 3)], outputs };
        let sized = |elements: [usize; 4]| {
            let sized = outline.sized(&elements.map(floats))?;
            Some(sized.storages.iter().map(|storage| storage.bytes).collect::<Vec<_>>())
        };
        assert_eq!(sized([5, 5, 7, 9]), Some(vec![20, 28]));
        assert_eq!(sized([6, 5, 7, 9]), None);
        let parts =
            Outline { outputs: vec![Tenancy::First(0), Tenancy::Within(0), Tenancy::Within(0)], ..outline.clone() };
        assert!(parts.sized(&[5, 2, 3].map(floats)).is_some());
        assert!(parts.sized(&[5, 2, 6].map(floats)).is_none(), "a part is no larger than the whole");
        assert!(outline.sized(&[floats(5), floats(5)]).is_none(), "steps are missing");
        assert!(outline.sized(&[5, 5, 7, 9, 1].map(floats)).is_none(), "there are more");
    }
}
