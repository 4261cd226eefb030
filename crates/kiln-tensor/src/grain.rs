//! Which elements of a tensor share a factor, such as a scale or a zero point.

use std::ops::Range;

use kiln_kernels::reference::transpose::transpose;
use serde::{Deserialize, Serialize};

/// The elements that share one factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grain {
    /// The whole tensor.
    Whole,
    /// One index of an axis.
    Axis {
        /// The axis' size.
        size: usize,
        /// Elements from one of its indices to the next.
        inner: usize,
    },
    /// Neighbouring indices of an axis, and one index of every other axis.
    Blocks {
        /// The axis' size.
        size: usize,
        /// Elements from one of its indices to the next.
        inner: usize,
        /// Factors along the axis.
        blocks: usize,
        /// Indices that share a factor.
        block: usize,
    },
}

/// Factors after their tensor's axes were permuted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permuted {
    /// The new grain.
    pub grain: Grain,
    /// The old place of each factor; `None` where all keep their places.
    pub order: Option<Vec<usize>>,
}

/// The factors of neighbouring elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All share the factor at this place.
    Shared(usize),
    /// Each has its own factor, from this place on.
    Own(usize),
}

impl Grain {
    /// The grain of factors of shape `factors` for a tensor of `shape` along `axis`, in blocks of `block` indices if it
    /// is not zero; `None` if they do not fit.
    #[must_use]
    pub fn of(shape: &[usize], factors: &[usize], axis: usize, block: usize) -> Option<Grain> {
        if factors.iter().product::<usize>() == 1 && (block == 0 || factors.is_empty()) {
            return Some(Grain::Whole);
        }
        let (&size, inner) = (shape.get(axis)?, shape[axis + 1..].iter().product());
        if block == 0 {
            return (factors == [size]).then_some(Grain::Axis { size, inner });
        }
        let blocks = size.div_ceil(block);
        let mut pairs = factors.iter().zip(shape).enumerate();
        let fits = factors.len() == shape.len()
            && pairs.all(|(at, (have, dim))| have == if at == axis { &blocks } else { dim });
        fits.then_some(Grain::Blocks { size, inner, blocks, block })
    }

    /// The grain of factors of shape `factors` for a tensor of `shape` by numpy's rules for broadcasting; `None` where
    /// they would stretch the tensor, or vary along axes that are not neighbours.
    #[must_use]
    pub fn broadcast(shape: &[usize], factors: &[usize]) -> Option<Grain> {
        let lead = shape.len().checked_sub(factors.len())?;
        let fits = factors.iter().zip(&shape[lead..]).all(|(&have, &dim)| have == dim || have == 1);
        fits.then_some(())?;
        let Some(first) = factors.iter().position(|&have| have != 1) else { return Some(Grain::Whole) };
        let last = factors.iter().rposition(|&have| have != 1)?;
        let own = factors[first..=last].iter().zip(&shape[lead + first..]).all(|(have, dim)| have == dim);
        own.then(|| Grain::Axis {
            size: factors[first..=last].iter().product(),
            inner: shape[lead + last + 1..].iter().product(),
        })
    }

    /// The same factors for the tensor of `shape` with its axes in the order `perm`, and the old place of each factor
    /// in the new order. `None` if the factors would vary along axes that are not neighbours.
    #[must_use]
    pub fn permuted(self, shape: &[usize], perm: &[usize]) -> Option<Permuted> {
        let moved = |of: &[usize]| perm.iter().map(|&axis| of[axis]).collect::<Vec<usize>>();
        let inner_of = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        let along =
            |size: usize, inner: usize| (0..shape.len()).find(|&axis| shape[axis] == size && inner_of(axis) == inner);
        match self {
            Grain::Whole => Some(Permuted { grain: self, order: None }),
            Grain::Axis { size, inner } => {
                let to = perm.iter().position(|&from| Some(from) == along(size, inner))?;
                let inner = moved(shape)[to + 1..].iter().product();
                Some(Permuted { grain: Grain::Axis { size, inner }, order: None })
            }
            Grain::Blocks { size, inner, blocks, block } => {
                let axis = along(size, inner)?;
                let mut factors = shape.to_vec();
                factors[axis] = blocks;
                let to = perm.iter().position(|&from| from == axis)?;
                let grain = Grain::of(&moved(shape), &moved(&factors), to, block)?;
                let places: Vec<usize> = (0..factors.iter().product()).collect();
                let mut order = vec![0; places.len()];
                transpose(&places, &factors, perm, &mut order);
                Some(Permuted { grain, order: Some(order) })
            }
        }
    }

    /// The factor's place for element `index`.
    #[must_use]
    pub fn place(self, index: usize) -> usize {
        match self {
            Grain::Whole => 0,
            Grain::Axis { size, inner } => index / inner % size,
            Grain::Blocks { size, inner, blocks, block } => {
                let (line, within) = (index / inner, index % inner);
                (line / size * blocks + line % size / block) * inner + within
            }
        }
    }

    /// Calls `run` for consecutive parts of the elements of `range`. The elements of a part share one factor, or have
    /// successive ones.
    pub fn runs(self, range: Range<usize>, mut run: impl FnMut(Range<usize>, Place)) {
        let mut start = range.start;
        while start < range.end {
            let place = self.place(start);
            let (length, place) = match self {
                Grain::Whole => (range.len(), Place::Shared(0)),
                Grain::Axis { size, inner: 1 } => (size - place, Place::Own(place)),
                Grain::Blocks { size, inner: 1, block, .. } => {
                    let at = start % size;
                    (block.min(size - at / block * block) - at % block, Place::Shared(place))
                }
                Grain::Axis { inner, .. } => (inner - start % inner, Place::Shared(place)),
                Grain::Blocks { inner, .. } => (inner - start % inner, Place::Own(place)),
            };
            let end = range.end.min(start.saturating_add(length));
            run(start..end, place);
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_a_range_with_the_places_of_its_elements() {
        let shape = [3usize, 5, 4];
        let mut grains = vec![Grain::Whole];
        for (axis, &size) in shape.iter().enumerate() {
            grains.push(Grain::of(&shape, &[size], axis, 0).unwrap());
            for block in [1, 2, 3, 7] {
                let mut factors = shape;
                factors[axis] = size.div_ceil(block);
                grains.push(Grain::of(&shape, &factors, axis, block).unwrap());
            }
        }
        for grain in grains {
            for range in [0..60, 0..1, 7..33, 59..60, 20..20] {
                let mut next = range.start;
                grain.runs(range.clone(), |run, place| {
                    assert_eq!(run.start, next);
                    next = run.end;
                    for (at, index) in run.enumerate() {
                        let expected = match place {
                            Place::Shared(place) => place,
                            Place::Own(place) => place + at,
                        };
                        assert_eq!(grain.place(index), expected, "{grain:?} {index}");
                    }
                });
                assert_eq!(next, range.end);
            }
        }
    }

    #[test]
    fn factors_follow_their_elements_when_axes_are_permuted() {
        let shape = [3usize, 5, 4];
        let count = shape.iter().product();
        let elements: Vec<usize> = (0..count).collect();
        let mut grains = vec![Grain::Whole];
        for (axis, &size) in shape.iter().enumerate() {
            grains.push(Grain::of(&shape, &[size], axis, 0).unwrap());
            let mut factors = shape;
            factors[axis] = size.div_ceil(2);
            grains.push(Grain::of(&shape, &factors, axis, 2).unwrap());
        }
        for perm in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut moved = vec![0; count];
            transpose(&elements, &shape, &perm, &mut moved);
            for &grain in &grains {
                let Permuted { grain: after, order } = grain.permuted(&shape, &perm).unwrap();
                for (to, &from) in moved.iter().enumerate() {
                    let place = after.place(to);
                    let place = order.as_ref().map_or(place, |order| order[place]);
                    assert_eq!(place, grain.place(from), "{grain:?} {perm:?}");
                }
            }
        }
        let two_axes = Grain::broadcast(&shape, &[5, 4]).unwrap();
        assert_eq!(two_axes.permuted(&shape, &[1, 0, 2]), None);
    }

    #[test]
    fn factors_that_do_not_fit_are_refused() {
        assert_eq!(Grain::of(&[2, 3], &[], 9, 4), Some(Grain::Whole));
        assert_eq!(Grain::of(&[2, 3], &[1, 1], 0, 0), Some(Grain::Whole));
        assert_eq!(Grain::of(&[2, 3], &[2], 1, 0), None);
        assert_eq!(Grain::of(&[2, 3], &[2, 3], 0, 2), None);
        assert_eq!(Grain::of(&[2, 3], &[3], 2, 0), None);
        assert_eq!(Grain::of(&[2, 3], &[2], 1, 2), None);
    }

    #[test]
    fn what_broadcasts_to_a_tensor_serves_neighbouring_axes() {
        let axis = |size, inner| Some(Grain::Axis { size, inner });
        assert_eq!(Grain::broadcast(&[4, 6], &[]), Some(Grain::Whole));
        assert_eq!(Grain::broadcast(&[4, 6], &[1, 1]), Some(Grain::Whole));
        assert_eq!(Grain::broadcast(&[4, 6], &[6]), axis(6, 1));
        assert_eq!(Grain::broadcast(&[4, 6], &[4, 1]), axis(4, 6));
        assert_eq!(Grain::broadcast(&[4, 3, 2], &[4, 3, 1]), axis(12, 2));
        assert_eq!(Grain::broadcast(&[4, 3, 2], &[4, 1, 2]), None, "not neighbours");
        assert_eq!(Grain::broadcast(&[4, 6], &[5, 1]), None);
        assert_eq!(Grain::broadcast(&[4, 1], &[4, 6]), None, "it would be stretched");
        assert_eq!(Grain::broadcast(&[6], &[1, 6]), None, "it would get another axis");
    }
}
