//! Permutations of axes, and permuted constants. A permutation has for each output axis the input axis.

use kiln_tensor::{DType, Tensor, TensorSpec};
use smallvec::SmallVec;

use crate::ir::NodeDesc;

/// Input axes by output axis.
pub(super) type Perm = SmallVec<[usize; 6]>;

/// The permutation of a Transpose node over `rank` axes, if it is one.
pub(super) fn perm_of(node: &NodeDesc, rank: usize) -> Option<Perm> {
    let perm: Perm = match node.ints("perm") {
        None => (0..rank).rev().collect(),
        Some(perm) => perm.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?,
    };
    let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, rank);
    for &axis in &perm {
        if std::mem::replace(seen.get_mut(axis)?, true) {
            return None;
        }
    }
    (perm.len() == rank).then_some(perm)
}

/// First `inner`, then `outer`.
pub(super) fn compose(inner: &[usize], outer: &[usize]) -> Perm {
    outer.iter().map(|&axis| inner[axis]).collect()
}

/// ONNX's order to channels-last: [0, 2.., 1].
pub(super) fn to_last(rank: usize) -> Perm {
    (0..rank)
        .map(|axis| {
            if axis == 0 {
                0
            } else if axis == rank - 1 {
                1
            } else {
                axis + 1
            }
        })
        .collect()
}

/// Channels-last to ONNX's order: [0, rank - 1, 1..].
pub(super) fn to_first(rank: usize) -> Perm {
    (0..rank)
        .map(|axis| {
            if axis == 0 {
                0
            } else if axis == 1 {
                rank - 1
            } else {
                axis - 1
            }
        })
        .collect()
}

/// As an attribute.
pub(super) fn as_ints(perm: &[usize]) -> Vec<i64> {
    perm.iter().map(|&axis| axis as i64).collect()
}

/// A tensor with its axes permuted; `None` for strings.
pub(super) fn permuted(tensor: &Tensor, perm: &[usize]) -> Option<Tensor> {
    let from = tensor.shape();
    let size = tensor.dtype().size();
    if tensor.dtype() == DType::String || perm.len() != from.len() {
        return None;
    }
    let shape: Vec<usize> = perm.iter().map(|&axis| from[axis]).collect();
    let mut strides = vec![size; from.len()];
    for axis in (0..from.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * from[axis + 1];
    }
    let steps: Vec<usize> = perm.iter().map(|&axis| strides[axis]).collect();
    let mut out = Tensor::zeros(TensorSpec::new(tensor.dtype(), shape.iter().copied())).ok()?;
    let bytes = tensor.bytes();
    let (mut place, mut at) = (vec![0; shape.len()], 0);
    for element in out.bytes_mut().chunks_exact_mut(size) {
        element.copy_from_slice(&bytes[at..at + size]);
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            at += steps[axis];
            if place[axis] < shape[axis] {
                break;
            }
            at -= steps[axis] * shape[axis];
            place[axis] = 0;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_orders_undo_each_other() {
        for rank in 3..7 {
            let there_and_back = compose(&to_last(rank), &to_first(rank));
            assert!(there_and_back.iter().enumerate().all(|(place, &axis)| place == axis), "rank {rank}");
        }
        assert_eq!(to_last(4).as_slice(), [0, 2, 3, 1]);
        assert_eq!(to_first(4).as_slice(), [0, 3, 1, 2]);
    }

    #[test]
    fn elements_go_where_their_axes_go() {
        let tensor = Tensor::from_vec([1, 2, 3], vec![0u8, 1, 2, 10, 11, 12]).unwrap();
        let transposed = permuted(&tensor, &[2, 0, 1]).unwrap();
        assert_eq!(transposed.shape(), [3, 1, 2]);
        assert_eq!(transposed.as_slice::<u8>().unwrap(), [0, 10, 1, 11, 2, 12]);
        assert!(permuted(&Tensor::scalar(1.0f32), &[]).unwrap().same(&Tensor::scalar(1.0f32)));
    }
}
