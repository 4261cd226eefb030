//! DynamicTimeWarping: the cheapest way through a matrix of costs, from its first to its last element.
//!
//! A step goes down, to the right, or both. How many there are is known when the way is found, so this is a [`Flow`].

use kiln_kernels::memory;
use kiln_model::Value;
use kiln_run::{Flow, FlowCx, NodeError};
use kiln_tensor::Tensor;

use super::{FlowOperator, refused};

/// The operator of this file.
pub(super) const OPERATORS: &[FlowOperator] = &[("com.microsoft", "DynamicTimeWarping", |_| Ok(Box::new(Warping)))];

struct Warping;

/// How an element is reached.
const DIAGONALLY: u8 = 0;
const FROM_ABOVE: u8 = 1;
const FROM_LEFT: u8 = 2;

/// Elements between two checks whether the request goes on.
const UNSEEN: usize = 1 << 16;

/// The way through `rows` by `columns` costs, as places in the order of steps; `check` is called meanwhile and says
/// whether to go on. Of ways that cost the same, one that comes from the left is taken.
fn way(costs: &[f32], columns: usize, check: impl Fn() -> Result<(), NodeError>) -> Result<[Vec<i32>; 2], NodeError> {
    let mut steps: Vec<u8> = memory::zeroed(costs.len());
    // The costs of ways to the row above and to the elements of this one, behind the border.
    let mut above = memory::filled(f32::INFINITY, columns + 1);
    let mut own = memory::copied(&above);
    above[0] = 0.0;
    let mut unseen = 0;
    for (costs, steps) in costs.chunks_exact(columns.max(1)).zip(steps.chunks_exact_mut(columns.max(1))) {
        own[0] = f32::INFINITY;
        for (column, (cost, step)) in costs.iter().zip(steps).enumerate() {
            let (both, down, right) = (above[column], above[column + 1], own[column]);
            let (before, from) = match () {
                () if both < down && both < right => (both, DIAGONALLY),
                () if down < both && down < right => (down, FROM_ABOVE),
                () => (right, FROM_LEFT),
            };
            (own[column + 1], *step) = (before + cost, from);
        }
        std::mem::swap(&mut above, &mut own);
        unseen += columns;
        if unseen >= UNSEEN {
            unseen = 0;
            check()?;
        }
    }
    let (mut row, mut column) = (costs.len().checked_div(columns).unwrap_or(0), columns);
    let mut way = [Vec::new(), Vec::new()];
    while row > 0 && column > 0 {
        for (way, place) in way.iter_mut().zip([row, column]) {
            memory::reserve(way, 1);
            way.push((place - 1) as i32);
        }
        let step = steps[(row - 1) * columns + column - 1];
        row -= usize::from(step != FROM_LEFT);
        column -= usize::from(step != FROM_ABOVE);
    }
    way.iter_mut().for_each(|way| way.reverse());
    Ok(way)
}

impl Flow for Warping {
    fn family(&self) -> &'static str {
        "DynamicTimeWarping"
    }

    fn run(&self, inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let input = inputs.into_iter().next().flatten().ok_or_else(|| refused("input 0 is missing"))?.into_tensor()?;
        let (&[rows, columns] | &[1, rows, columns]) = input.shape() else {
            return Err(refused(format!("costs of shape {:?}, where a matrix is needed", input.shape())));
        };
        if i32::try_from(rows.max(columns)).is_err() {
            return Err(refused(format!("costs of shape {:?}, whose places are no int32", input.shape())));
        }
        let [mut way, columns] = way(input.as_slice()?, columns, || cx.check_stop())?;
        let steps = way.len();
        memory::reserve(&mut way, steps);
        way.extend(columns);
        Ok(vec![Tensor::from_vec([2, steps], way)?.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(costs: &[f32], columns: usize) -> [Vec<i32>; 2] {
        way(costs, columns, || Ok(())).unwrap()
    }

    #[test]
    fn the_cheapest_way_is_taken() {
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0, 0.0, 1.0], 2), [[0, 1, 2, 2], [0, 0, 0, 1]]);
        assert_eq!(of(&[0.0, 9.0, 9.0, 9.0, 0.0, 9.0, 9.0, 9.0, 0.0], 3), [[0, 1, 2], [0, 1, 2]]);
        assert_eq!(of(&[5.0, 5.0, 5.0], 3), [[0, 0, 0], [0, 1, 2]]);
        assert_eq!(of(&[f32::NAN, 2.0, 3.0, 4.0], 2), [[1, 1], [0, 1]]);
        let none: [Vec<i32>; 2] = Default::default();
        assert_eq!([of(&[], 0), of(&[], 3)], [none.clone(), none]);
    }
}
