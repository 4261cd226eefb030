//! Element-wise work without arithmetic: Where on any type, and comparing and joining strings.

use kiln_kernels::memory::{self, Pace};
use kiln_run::NodeError;
use kiln_tensor::{BoolByte, Tensor};

use crate::{Movement, View, in_step, refused};

/// Which elements of the first source win over those of the second.
pub(super) struct Where<'a> {
    pub(super) condition: &'a Tensor,
    pub(super) shape: &'a [usize],
    /// Shapes of the two sources.
    pub(super) sources: [&'a [usize]; 2],
}

impl Movement for Where<'_> {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        View::broadcast(self.sources[1], self.shape)?.copy(from[1], to);
        let conditions = self.condition.as_slice::<BoolByte>()?;
        let views =
            [View::broadcast(self.condition.shape(), self.shape)?, View::broadcast(self.sources[0], self.shape)?];
        in_step([&views[0], &views[1]], |at, [condition, source]| {
            for index in 0..condition.count {
                if conditions[condition.at(index)].get() {
                    to[at + index] = from[0][source.at(index)].clone();
                }
            }
        });
        Ok(())
    }
}

/// An operation on two strings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Text {
    Equal,
    Concat,
}

impl Text {
    /// The results for every pair of elements, in order.
    pub(super) fn run(self, left: &Tensor, right: &Tensor, mut to: Tensor) -> Result<Tensor, NodeError> {
        let shape = to.shape().to_vec();
        let views = [View::broadcast(left.shape(), &shape)?, View::broadcast(right.shape(), &shape)?];
        let (left, right) = (left.as_strings()?, right.as_strings()?);
        match self {
            Text::Equal => {
                let found = to.as_mut_slice::<BoolByte>()?;
                in_step([&views[0], &views[1]], |at, [a, b]| {
                    (0..a.count).for_each(|i| found[at + i] = (left[a.at(i)] == right[b.at(i)]).into());
                });
                Ok(to)
            }
            Text::Concat => {
                let mut joined = memory::with_capacity(to.len());
                let length = |values: &[String]| values.iter().map(String::len).max().unwrap_or(0);
                // Bounded, because broadcasting two long strings against many would multiply them.
                if to.len().saturating_mul(length(left).saturating_add(length(right))) > 1 << 30 {
                    return Err(refused("the joined strings would exceed a gibibyte"));
                }
                memory::hold(to.len() * (length(left) + length(right)));
                let mut pace = Pace::default();
                in_step([&views[0], &views[1]], |_, [a, b]| {
                    joined.extend((0..a.count).map(|i| {
                        let text = [left[a.at(i)].as_str(), &right[b.at(i)]].concat();
                        pace.step(8 + text.len() / 64);
                        text
                    }));
                });
                Ok(Tensor::from_strings(shape, joined)?)
            }
        }
    }
}
