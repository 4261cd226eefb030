//! The oracles of the tables: the ONNX definitions in plain loops and `f64`, NCHW. They share nothing with the code
//! under test.

use kiln_tensor::Tensor;

/// A row-major array of `f64`.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f64>,
}

impl Array {
    pub(crate) fn zeros(shape: &[usize]) -> Array {
        Array { shape: shape.to_vec(), data: vec![0.0; shape.iter().product()] }
    }

    pub(crate) fn of(tensor: &Tensor) -> Array {
        let data = tensor.as_slice::<f32>().unwrap().iter().map(|&v| f64::from(v)).collect();
        Array { shape: tensor.shape().to_vec(), data }
    }

    pub(crate) fn tensor(&self) -> Tensor {
        let data: Vec<f32> = self.data.iter().map(|&v| v as f32).collect();
        Tensor::from_vec(self.shape.iter().copied(), data).unwrap()
    }

    pub(crate) fn index(&self, at: &[usize]) -> usize {
        at.iter().zip(&self.shape).fold(0, |flat, (i, size)| flat * size + i)
    }

    pub(crate) fn get(&self, at: &[usize]) -> f64 {
        self.data[self.index(at)]
    }

    /// The element at `at`, an index into a shape that this array broadcasts to.
    pub(crate) fn broadcast(&self, at: &[usize]) -> f64 {
        let skip = at.len() - self.shape.len();
        let own: Vec<usize> =
            at[skip..].iter().zip(&self.shape).map(|(&i, &size)| if size == 1 { 0 } else { i }).collect();
        self.get(&own)
    }
}

/// Every index of a shape, last dimension fastest.
pub(crate) fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let shape = shape.to_vec();
    let count: usize = shape.iter().product();
    (0..count).map(move |mut flat| {
        let mut at = vec![0; shape.len()];
        for (i, size) in shape.iter().enumerate().rev() {
            at[i] = flat % size;
            flat /= size;
        }
        at
    })
}

/// An array computed element by element.
pub(crate) fn build(shape: &[usize], element: impl Fn(&[usize]) -> f64) -> Array {
    Array { shape: shape.to_vec(), data: indices(shape).map(|at| element(&at)).collect() }
}

pub(crate) fn broadcast_shape(shapes: &[&[usize]]) -> Vec<usize> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap();
    (0..rank)
        .map(|axis| {
            let sizes = shapes.iter().filter_map(|shape| (axis + shape.len()).checked_sub(rank).map(|i| shape[i]));
            sizes.fold(1, |a, b| if a == 1 { b } else { a })
        })
        .collect()
}

pub(crate) fn map(x: &Tensor, f: impl Fn(f64) -> f64) -> Tensor {
    let x = Array::of(x);
    build(&x.shape, |at| f(x.get(at))).tensor()
}

pub(crate) fn zip(a: &Tensor, b: &Tensor, f: impl Fn(f64, f64) -> f64) -> Tensor {
    let (a, b) = (Array::of(a), Array::of(b));
    build(&broadcast_shape(&[&a.shape, &b.shape]), |at| f(a.broadcast(at), b.broadcast(at))).tensor()
}

/// numpy's matmul for operands of rank 2 and more.
pub(crate) fn matmul(a: &Array, b: &Array) -> Array {
    let (ra, rb) = (a.shape.len(), b.shape.len());
    let (m, k, n) = (a.shape[ra - 2], a.shape[ra - 1], b.shape[rb - 1]);
    let mut shape = broadcast_shape(&[&a.shape[..ra - 2], &b.shape[..rb - 2]][..]);
    shape.extend([m, n]);
    build(&shape, |at| {
        let (batch, i, j) = (&at[..at.len() - 2], at[at.len() - 2], at[at.len() - 1]);
        (0..k).map(|p| a.broadcast(&[batch, &[i, p]].concat()) * b.broadcast(&[batch, &[p, j]].concat())).sum()
    })
}

pub(crate) fn transpose(x: &Array, perm: &[usize]) -> Array {
    let shape: Vec<usize> = perm.iter().map(|&axis| x.shape[axis]).collect();
    build(&shape, |at| {
        let mut from = vec![0; at.len()];
        perm.iter().zip(at).for_each(|(&axis, &i)| from[axis] = i);
        x.get(&from)
    })
}

/// Attributes of a 2-D window: begin and end pads are equal.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) pads: [usize; 2],
    pub(crate) dilations: [usize; 2],
}

impl Window {
    pub(crate) fn new(kernel: [usize; 2], strides: [usize; 2], pads: [usize; 2], dilations: [usize; 2]) -> Window {
        Window { kernel, strides, pads, dilations }
    }

    fn out(&self, axis: usize, size: usize) -> usize {
        (size + 2 * self.pads[axis] - self.dilations[axis] * (self.kernel[axis] - 1) - 1) / self.strides[axis] + 1
    }

    /// The input positions under the window at output `oh, ow`: kernel place and input place.
    fn taps(&self, at: [usize; 2], size: [usize; 2]) -> Vec<([usize; 2], [usize; 2])> {
        let place = |axis: usize, k: usize| {
            (at[axis] * self.strides[axis] + k * self.dilations[axis])
                .checked_sub(self.pads[axis])
                .filter(|&i| i < size[axis])
        };
        let mut taps = Vec::new();
        for kh in 0..self.kernel[0] {
            for kw in 0..self.kernel[1] {
                if let (Some(h), Some(w)) = (place(0, kh), place(1, kw)) {
                    taps.push(([kh, kw], [h, w]));
                }
            }
        }
        taps
    }
}

pub(crate) fn conv(x: &Array, w: &Array, bias: Option<&Array>, window: Window, group: usize) -> Array {
    let (height, width) = (x.shape[2], x.shape[3]);
    let (out, per_group) = (w.shape[0], w.shape[1]);
    let shape = [x.shape[0], out, window.out(0, height), window.out(1, width)];
    build(&shape, |at| {
        let first = at[1] / (out / group) * per_group;
        let mut sum = bias.map_or(0.0, |bias| bias.data[at[1]]);
        for ([kh, kw], [h, v]) in window.taps([at[2], at[3]], [height, width]) {
            for c in 0..per_group {
                sum += x.get(&[at[0], first + c, h, v]) * w.get(&[at[1], c, kh, kw]);
            }
        }
        sum
    })
}

/// Transposed convolution: each input element adds its weighted kernel to the output.
pub(crate) fn conv_transpose(x: &Array, w: &Array, bias: Option<&Array>, window: Window, group: usize) -> Array {
    let per_group = w.shape[1];
    let size = |axis: usize, input: usize| {
        (input - 1) * window.strides[axis] + window.dilations[axis] * (window.kernel[axis] - 1) + 1
            - 2 * window.pads[axis]
    };
    let shape = [x.shape[0], per_group * group, size(0, x.shape[2]), size(1, x.shape[3])];
    let mut y = build(&shape, |at| bias.map_or(0.0, |bias| bias.data[at[1]]));
    let inputs_per_group = x.shape[1] / group;
    for at in indices(&x.shape) {
        for k in indices(&w.shape[1..]) {
            let place = |axis: usize| {
                (at[axis + 2] * window.strides[axis] + k[axis + 1] * window.dilations[axis])
                    .checked_sub(window.pads[axis])
                    .filter(|&i| i < shape[axis + 2])
            };
            if let (Some(h), Some(v)) = (place(0), place(1)) {
                let channel = at[1] / inputs_per_group * per_group + k[0];
                let to = y.index(&[at[0], channel, h, v]);
                y.data[to] += x.get(&at) * w.get(&[at[1], k[0], k[1], k[2]]);
            }
        }
    }
    y
}

/// Pooling: `fold` gets the elements under the window.
pub(crate) fn pool(x: &Array, window: Window, fold: impl Fn(&[f64]) -> f64) -> Array {
    let (height, width) = (x.shape[2], x.shape[3]);
    build(&[x.shape[0], x.shape[1], window.out(0, height), window.out(1, width)], |at| {
        let taps = window.taps([at[2], at[3]], [height, width]);
        let values: Vec<f64> = taps.iter().map(|(_, [h, w])| x.get(&[at[0], at[1], *h, *w])).collect();
        fold(&values)
    })
}

/// Reduction over `axes`, kept as dimensions of one. `fold` gets the reduced elements.
pub(crate) fn reduce(x: &Array, axes: &[usize], fold: impl Fn(&[f64]) -> f64) -> Array {
    let keep = |axis: usize| if axes.contains(&axis) { 1 } else { x.shape[axis] };
    let shape: Vec<usize> = (0..x.shape.len()).map(keep).collect();
    let inner: Vec<usize> = (0..x.shape.len()).map(|axis| x.shape[axis] / shape[axis]).collect();
    build(&shape, |at| {
        let values: Vec<f64> = indices(&inner)
            .map(|offset| x.get(&at.iter().zip(&offset).map(|(a, b)| a + b).collect::<Vec<_>>()))
            .collect();
        fold(&values)
    })
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// (x - mean) / sqrt(variance + epsilon), both over `axes`.
pub(crate) fn normalise(x: &Array, axes: &[usize], epsilon: f64) -> Array {
    let (m, v) = (reduce(x, axes, mean), reduce(x, axes, variance));
    build(&x.shape, |at| (x.get(at) - m.broadcast(at)) / (v.broadcast(at) + epsilon).sqrt())
}

pub(crate) fn softmax(x: &Array, axis: usize) -> Array {
    let max = reduce(x, &[axis], |values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    let exp = build(&x.shape, |at| (x.get(at) - max.broadcast(at)).exp());
    let sum = reduce(&exp, &[axis], |values| values.iter().sum());
    build(&x.shape, |at| exp.get(at) / sum.broadcast(at))
}

/// The error function by its series and continued fraction: 1e-14 over the range of the tables.
pub(crate) fn erf(x: f64) -> f64 {
    let z = x.abs();
    let value = if z < 2.5 {
        let (mut term, mut sum) = (z, z);
        for n in 1..200 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..=80).rev().fold(0.0, |tail, k| f64::from(k) / 2.0 / (z + tail));
        1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / (z + fraction)
    };
    value.copysign(x)
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Heads `[batch, heads, positions, size]` whose first pairs are rotated by angles. `angle` gives the place in the
/// tables of a pair's angle.
pub(crate) fn rotated(
    x: &Array,
    [cosines, sines]: [&Array; 2],
    pairs: usize,
    is_neighbours: bool,
    angle: impl Fn(&[usize], usize) -> usize,
) -> Array {
    build(&x.shape, |at| {
        let place = at[3];
        if place >= 2 * pairs {
            return x.get(at);
        }
        let [pair, second] = if is_neighbours { [place / 2, place % 2] } else { [place % pairs, place / pairs] };
        let places = if is_neighbours { [2 * pair, 2 * pair + 1] } else { [pair, pair + pairs] };
        let [first, other] = places.map(|place| x.get(&[at[0], at[1], at[2], place]));
        let [cosine, sine] = [cosines, sines].map(|table| table.data[angle(at, pair)]);
        if second == 0 { cosine * first - sine * other } else { sine * first + cosine * other }
    })
}
