//! Nodes that move elements, join and cut tensors, and change nothing but shapes.

use super::{Draw, MOST_ELEMENTS, Size, Value, elements};

impl Draw<'_> {
    pub(super) fn transpose(&mut self, x: Value) {
        let mut perm: Vec<usize> = (0..x.shape.len()).collect();
        for place in (self.form.kept + 1..perm.len()).rev() {
            let other = self.axis(place + 1);
            perm.swap(place, other);
        }
        let shape = perm.iter().map(|&axis| x.shape[axis]).collect();
        let perm: Vec<i64> = perm.into_iter().map(|axis| axis as i64).collect();
        self.op("Transpose", &[x.id], &[("perm", perm.into())], shape);
    }

    /// Two neighbouring axes joined, or one taken apart, sizes computed at run time or written down.
    pub(super) fn reshape(&mut self, x: Value) {
        let rank = x.shape.len();
        let axis = self.axis(rank);
        let mut shape = x.shape.clone();
        if self.below(2) == 0 && axis + 1 < rank {
            let inner = shape.remove(axis + 1);
            shape[axis] = [shape[axis][0] * inner[0], shape[axis][1] * inner[1]];
        } else if shape[axis].iter().all(|size| size.is_multiple_of(2)) && rank < 5 {
            shape[axis] = shape[axis].map(|size| size / 2);
            shape.insert(axis + 1, [2, 2]);
        }
        let mut rest = false;
        let target: Vec<i64> = shape
            .iter()
            .enumerate()
            .map(|(place, size)| match size {
                [a, b] if a == b => *a as i64,
                size if x.shape.get(place) == Some(size) => 0,
                _ if !std::mem::replace(&mut rest, true) => -1,
                _ => -2,
            })
            .collect();
        if target.contains(&-2) {
            return self.function(x);
        }
        let target = self.ints(&target);
        self.op("Reshape", &[x.id, target], &[], shape);
    }

    pub(super) fn concat(&mut self, x: Value) {
        let y = self.any();
        let axis = self.axis(x.shape.len());
        let others_agree = |(place, (x, y)): (usize, (&Size, &Size))| place == axis || x == y;
        let fits = x.shape.len() == y.shape.len() && x.shape.iter().zip(&y.shape).enumerate().all(others_agree);
        let y = if fits { y } else { x.clone() };
        let mut shape = x.shape.clone();
        shape[axis] = [shape[axis][0] + y.shape[axis][0], shape[axis][1] + y.shape[axis][1]];
        if elements(&shape) > MOST_ELEMENTS {
            return self.function(x);
        }
        self.op("Concat", &[x.id, y.id], &[("axis", (axis as i64).into())], shape);
    }

    pub(super) fn split(&mut self, x: Value) {
        let axis = self.axis(x.shape.len());
        let size = x.shape[axis];
        if size[0] != size[1] || size[0] < 2 {
            return self.function(x);
        }
        let first = 1 + self.below(size[0] - 1);
        let lengths = [first, size[0] - first];
        let split = self.ints(&lengths.map(|length| length as i64));
        let parts = self.build.op_many("Split", &[Some(x.id), Some(split)], 2, &[("axis", (axis as i64).into())]);
        for (part, length) in parts.into_iter().zip(lengths) {
            let mut shape = x.shape.clone();
            shape[axis] = [length, length];
            self.add(part, shape);
        }
    }

    pub(super) fn pad(&mut self, x: Value) {
        let rank = x.shape.len();
        let mut pads: Vec<usize> = (0..2 * rank).map(|_| self.below(3) / 2).collect();
        for axis in 0..self.form.kept {
            (pads[axis], pads[rank + axis]) = (0, 0);
        }
        let sizes = x.shape.iter().enumerate();
        let shape: Vec<Size> =
            sizes.map(|(axis, size)| size.map(|size| size + pads[axis] + pads[rank + axis])).collect();
        if elements(&shape) > MOST_ELEMENTS {
            return self.function(x);
        }
        let pads: Vec<i64> = pads.into_iter().map(|pad| pad as i64).collect();
        let pads = self.ints(&pads);
        self.op("Pad", &[x.id, pads], &[], shape);
    }

    pub(super) fn slice(&mut self, x: Value) {
        let axis = self.axis(x.shape.len());
        let size = x.shape[axis];
        if size.iter().any(|&size| size < 2) {
            return self.function(x);
        }
        let mut shape = x.shape.clone();
        shape[axis] = size.map(|size| size - 1);
        let (start, end) = if self.below(2) == 0 { (1, i64::MAX) } else { (0, -1) };
        let (start, end, axis) = (self.ints(&[start]), self.ints(&[end]), self.ints(&[axis as i64]));
        self.op("Slice", &[x.id, start, end, axis], &[], shape);
    }

    /// Drops an axis of size 1, or adds one.
    pub(super) fn squeeze(&mut self, x: Value) {
        let rank = x.shape.len();
        let mut shape = x.shape.clone();
        if let Some(axis) = shape.iter().position(|size| *size == [1, 1]).filter(|_| rank > 1) {
            shape.remove(axis);
            let axes = self.ints(&[axis as i64]);
            self.op("Squeeze", &[x.id, axes], &[], shape);
        } else if rank < 5 {
            let axis = self.axis(rank + 1);
            shape.insert(axis, [1, 1]);
            let axes = self.ints(&[axis as i64]);
            self.op("Unsqueeze", &[x.id, axes], &[], shape);
        } else {
            self.function(x);
        }
    }

    pub(super) fn no_op(&mut self, x: Value) {
        match self.below(3) {
            0 => self.op("Identity", &[x.id], &[], x.shape),
            1 => self.op("Dropout", &[x.id], &[], x.shape),
            _ => self.op("Cast", &[x.id], &[("to", 1.into())], x.shape),
        }
    }
}
