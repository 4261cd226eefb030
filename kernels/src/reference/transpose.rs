//! The plain form of a transposition: any rank, any element, one element at a time.
//!
//! The oracle of the tests of transposition, and the implementation for elements that are
//! not plain bytes.

/// Writes `input`, of dimensions `shape`, to `output` with its axes in the order `perm`: axis `i` of the output is axis
/// `perm[i]` of the input. `perm` is a permutation, and both slices hold the product of `shape`.
pub fn transpose<T: Clone>(input: &[T], shape: &[usize], perm: &[usize], output: &mut [T]) {
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let mut index = vec![0usize; perm.len()];
    let mut source = 0;
    for value in output.iter_mut() {
        *value = input[source].clone();
        for axis in (0..perm.len()).rev() {
            let stride = strides[perm[axis]];
            index[axis] += 1;
            source += stride;
            if index[axis] < shape[perm[axis]] {
                break;
            }
            source -= index[axis] * stride;
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_transposed() {
        let mut output = [0; 6];
        transpose(&[1, 2, 3, 4, 5, 6], &[2, 3], &[1, 0], &mut output);
        assert_eq!(output, [1, 4, 2, 5, 3, 6]);
    }

    #[test]
    fn three_axes_are_permuted() {
        let shape = [2, 3, 4];
        let input: Vec<usize> = (0..24).collect();
        let mut output = vec![0; 24];
        transpose(&input, &shape, &[2, 0, 1], &mut output);
        for a in 0..2 {
            for b in 0..3 {
                for c in 0..4 {
                    assert_eq!(output[(c * 2 + a) * 3 + b], input[(a * 3 + b) * 4 + c]);
                }
            }
        }
    }
}
