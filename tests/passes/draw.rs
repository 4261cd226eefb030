//! Graphs drawn from a list of choices: the parts of real networks, put together at random. The same choices draw the
//! same graph, and fewer choices draw a smaller one, so a failure shrinks to few nodes.
//!
//! Only continuous functions are drawn: a comparison of computed values turns rounding differences into other results.

#[path = "draw/moves.rs"]
mod moves;

use kiln_model::ir::{Attr, Dim};
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};

/// A graph with requests for it: two shapes, and the first one again at the end.
pub(crate) struct Drawn {
    /// The graph.
    pub(crate) graph: Graph,
    /// Inputs by name, for each request.
    pub(crate) requests: Vec<Vec<(String, Tensor)>>,
}

impl Drawn {
    /// The graph as text.
    pub(crate) fn told(&self) -> String {
        let name = |id: &Option<ValueId>| match id {
            None => "-".to_owned(),
            Some(id) => match self.graph.constant(*id) {
                Some(tensor) if tensor.dtype() == DType::I64 => {
                    format!("{:?}", tensor.to_i64_vec().unwrap_or_default())
                }
                Some(tensor) => format!("{:?}", tensor.spec().shape),
                None => self.graph.value(*id).name.clone(),
            },
        };
        let list = |ids: &[Option<ValueId>]| ids.iter().map(name).collect::<Vec<_>>().join(", ");
        let nodes = self.graph.nodes.iter();
        let nodes = nodes.map(|n| format!("{} = {}({}) {:?}", list(&n.outputs), n.op, list(&n.inputs), n.attrs));
        let inputs = self.graph.inputs.iter().map(|&id| format!("{:?}", self.graph.value(id)));
        inputs.chain(nodes).collect::<Vec<_>>().join("\n")
    }
}

/// The kind of graphs to draw: by default any.
#[derive(Clone, Copy, Default)]
pub(crate) struct Form {
    /// Axes at the front that no node mixes, moves or cuts: with 1, an item of a batch never sees the others.
    pub(crate) kept: usize,
    /// Factors that layers may be wider by.
    pub(crate) wider: &'static [usize],
}

/// A size: its number in the first request and in the second.
type Size = [usize; 2];

#[derive(Clone)]
struct Value {
    id: ValueId,
    shape: Vec<Size>,
}

struct Draw<'a> {
    choices: std::slice::Iter<'a, u16>,
    build: GraphBuilder,
    values: Vec<Value>,
    seed: u32,
    form: Form,
}

/// More elements than this are not drawn: the cases are many and small.
const MOST_ELEMENTS: usize = 6000;

/// Draws a graph. Without choices it is the smallest one.
pub(crate) fn draw(choices: &[u16], form: Form) -> Drawn {
    let build = GraphBuilder::new("drawn", 17);
    let mut draw = Draw { choices: choices.iter(), build, values: Vec::new(), seed: 1, form };
    let inputs = draw.inputs();
    while draw.choices.len() > 0 && draw.values.len() < 40 {
        draw.node();
    }
    // The last value and some other one: an output must not be fused away.
    let last = draw.values[draw.values.len() - 1].clone();
    let other = draw.any();
    if inputs.iter().all(|input| input.id != last.id) {
        draw.build.output("last", last.id);
    } else {
        let copy = draw.build.op("Relu", &[last.id], &[]);
        draw.build.output("last", copy);
    }
    if other.id != last.id && inputs.iter().all(|input| input.id != other.id) {
        draw.build.output("other", other.id);
    }
    let requests = [0, 1, 0].map(|request| {
        inputs.iter().enumerate().map(|(n, input)| (format!("x{n}"), draw.floats(&of(&input.shape, request)))).collect()
    });
    Drawn { graph: draw.build.finish(), requests: requests.into() }
}

fn of(shape: &[Size], request: usize) -> Vec<usize> {
    shape.iter().map(|size| size[request]).collect()
}

fn elements(shape: &[Size]) -> usize {
    (0..2).map(|request| of(shape, request).iter().product()).max().unwrap_or(0)
}

impl Draw<'_> {
    /// A number below `count`; 0 when there are no choices left.
    fn below(&mut self, count: usize) -> usize {
        usize::from(self.choices.next().copied().unwrap_or(0)) % count.max(1)
    }

    /// An axis that a node may work along.
    fn axis(&mut self, rank: usize) -> usize {
        self.form.kept + self.below(rank - self.form.kept)
    }

    /// The width of a layer, at least `least`.
    fn width(&mut self, least: usize) -> usize {
        match self.form.wider {
            [] => least,
            factors => least * factors[self.below(factors.len())],
        }
    }

    fn any(&mut self) -> Value {
        // Newer values are likelier, so that graphs are deep.
        let (a, b) = (self.below(self.values.len()), self.below(self.values.len()));
        self.values[a.max(b)].clone()
    }

    /// Numbers between -1 and 1, and no 0, where functions have corners.
    fn floats(&mut self, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let next = |seed: &mut u32| {
            *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (*seed >> 8) as f32 / (1 << 23) as f32 - 1.0 + 1e-4
        };
        let values = (0..count).map(|_| next(&mut self.seed)).collect();
        Tensor::from_vec(shape.iter().copied(), values).expect("the count is the shape's")
    }

    fn weights(&mut self, shape: &[usize]) -> ValueId {
        let tensor = self.floats(shape);
        self.build.constant(tensor)
    }

    fn ints(&mut self, values: &[i64]) -> ValueId {
        self.build.constant(Tensor::from_vec([values.len()], values.to_vec()).expect("a vector"))
    }

    fn number(&mut self) -> ValueId {
        let value = [0.5f32, 2.0, -1.5, 1.0, 3.0][self.below(5)];
        self.build.constant(Tensor::scalar(value))
    }

    fn inputs(&mut self) -> Vec<Value> {
        // No images in the second request, or always one, now and then.
        let n = [[1, 2], [1, 2], [2, 0], [1, 1]][self.below(4)];
        let n = if self.form.kept > 0 { [1, 2] } else { n };
        let (h, w) = ([6, 5], [7, 8]);
        let shapes: [Vec<Size>; 3] = [vec![n, [4, 4], h, w], vec![n, [4, 4], h, w], vec![n, h, [8, 8]]];
        for (number, shape) in shapes.into_iter().enumerate() {
            let anonymous = self.below(8) == 1;
            let dims = shape.iter().map(|size| match *size {
                [a, b] if a == b => Dim::Fixed(a),
                _ if anonymous => Dim::Any,
                [a, b] => Dim::Named(format!("d{a}_{b}")),
            });
            let id = self.build.input(&format!("x{number}"), DType::F32, dims);
            self.values.push(Value { id, shape });
        }
        self.values.clone()
    }

    fn add(&mut self, id: ValueId, shape: Vec<Size>) {
        self.values.push(Value { id, shape });
    }

    fn op(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)], shape: Vec<Size>) {
        let id = self.build.op(op, inputs, attrs);
        self.add(id, shape);
    }

    fn node(&mut self) {
        let x = self.any();
        match self.below(27) {
            _ if x.shape.len() <= self.form.kept => self.function(x),
            0 | 1 => self.convolution(x),
            2 => self.pool(x),
            3 => self.normalisation(x),
            4 | 5 => self.function(x),
            6 => self.gate(x),
            7 | 8 => self.with_constant(x),
            9..=11 => self.sum(x),
            12 => self.matmul(x),
            13 => self.transpose(x),
            14 => self.reshape(x),
            15 => self.concat(x),
            16 => self.split(x),
            17 => self.reduce(x),
            18 => self.softmax(x),
            19 => self.pad(x),
            20 => self.slice(x),
            21 => self.squeeze(x),
            22 => self.no_op(x),
            23 => self.attention(x),
            24 => self.enlarged(x),
            25 => self.transposed_convolution(x),
            _ => self.gemm(x),
        }
    }

    fn convolution(&mut self, x: Value) {
        if x.shape.len() != 4 || x.shape[1][0] != x.shape[1][1] {
            return self.function(x);
        }
        let channels = x.shape[1][0];
        let (kernel, stride) = ([1, 3][self.below(2)], 1 + self.below(4) / 3);
        let groups = match self.below(5) {
            3 if channels.is_multiple_of(2) => 2,
            4 => channels.max(1),
            _ => 1,
        };
        let outputs = if self.below(2) == 0 || groups > 2 { channels } else { self.width(4) * groups };
        let pad = kernel / 2;
        let places = |size: usize| (size + 2 * pad).checked_sub(kernel).map(|free| free / stride + 1);
        let mut shape = x.shape.clone();
        shape[1] = [outputs, outputs];
        for size in &mut shape[2..] {
            let (Some(a), Some(b)) = (places(size[0]), places(size[1])) else { return self.function(x) };
            *size = [a, b];
        }
        if elements(&shape) > MOST_ELEMENTS || outputs % groups != 0 {
            return self.function(x);
        }
        let mut inputs = vec![x.id, self.weights(&[outputs, channels / groups, kernel, kernel])];
        if self.below(2) == 0 {
            inputs.push(self.weights(&[outputs]));
        }
        let mut attrs: Vec<(&str, Attr)> =
            vec![("strides", [stride as i64; 2].into()), ("group", (groups as i64).into())];
        if pad > 0 && self.below(3) == 2 {
            let pads = self.ints(&[0, 0, pad as i64, pad as i64, 0, 0, pad as i64, pad as i64]);
            inputs[0] = self.build.op("Pad", &[x.id, pads], &[]);
        } else {
            attrs.push(("pads", [pad as i64; 4].into()));
        }
        self.op("Conv", &inputs, &attrs, shape);
    }

    /// Doubles the rows and columns by learned windows.
    fn transposed_convolution(&mut self, x: Value) {
        let mut shape = x.shape.clone();
        if shape.len() != 4 || shape[1][0] != shape[1][1] || elements(&shape) * 8 > MOST_ELEMENTS {
            return self.function(x);
        }
        let channels = shape[1][0];
        shape[1] = [3, 3];
        shape[2..].iter_mut().for_each(|size| *size = size.map(|size| 2 * size));
        let w = self.weights(&[channels, 3, 2, 2]);
        self.op("ConvTranspose", &[x.id, w], &[("strides", [2, 2].into())], shape);
    }

    /// Doubles the rows and columns by picking or mixing.
    fn enlarged(&mut self, x: Value) {
        let mut shape = x.shape.clone();
        if shape.len() != 4 || elements(&shape) * 4 > MOST_ELEMENTS {
            return self.function(x);
        }
        shape[2..].iter_mut().for_each(|size| *size = size.map(|size| 2 * size));
        let scales = Tensor::from_vec([4], vec![1f32, 1.0, 2.0, 2.0]).expect("a vector");
        let scales = self.build.constant(scales);
        let mode = ["nearest", "linear"][self.below(2)];
        let id = self.build.op_of("", "Resize", &[Some(x.id), None, Some(scales)], &[("mode", mode.into())]);
        self.add(id, shape);
    }

    fn pool(&mut self, x: Value) {
        if x.shape.len() != 4 || x.shape[2..].iter().any(|size| size[0] < 2 || size[1] < 2) {
            return self.function(x);
        }
        let mut shape = x.shape.clone();
        match self.below(3) {
            0 => {
                shape[2..].fill([1, 1]);
                self.op("GlobalAveragePool", &[x.id], &[], shape);
            }
            kind => {
                for size in &mut shape[2..] {
                    *size = size.map(|size| size / 2);
                }
                let attrs = [("kernel_shape", [2, 2].into()), ("strides", [2, 2].into())];
                self.op(["MaxPool", "AveragePool"][kind - 1], &[x.id], &attrs, shape);
            }
        }
    }

    fn normalisation(&mut self, x: Value) {
        let last = x.shape[x.shape.len() - 1];
        if x.shape.len() >= 2 && x.shape[1][0] == x.shape[1][1] && self.below(2) == 0 {
            let channels = x.shape[1][0];
            let (gamma, beta, mean) = (self.weights(&[channels]), self.weights(&[channels]), self.weights(&[channels]));
            let var =
                Tensor::from_vec([channels], (0..channels).map(|c| 0.5 + c as f32 * 0.1).collect()).expect("a vector");
            let var = self.build.constant(var);
            self.op("BatchNormalization", &[x.id, gamma, beta, mean, var], &[], x.shape);
        } else if last[0] == last[1] && last[0] > 1 {
            let (scale, bias) = (self.weights(&[last[0]]), self.weights(&[last[0]]));
            self.op("LayerNormalization", &[x.id, scale, bias], &[("epsilon", 0.01.into())], x.shape);
        } else {
            self.function(x);
        }
    }

    fn function(&mut self, x: Value) {
        // With and without code, with one instruction and with forty; no function that grows faster than its input.
        const FUNCTIONS: [&str; 18] = [
            "Relu",
            "Sigmoid",
            "Tanh",
            "Abs",
            "Neg",
            "Softplus",
            "Erf",
            "HardSwish",
            "LeakyRelu",
            "Atan",
            "Asinh",
            "Softsign",
            "Elu",
            "Selu",
            "Celu",
            "Mish",
            "HardSigmoid",
            "Identity",
        ];
        let op = FUNCTIONS[self.below(FUNCTIONS.len())];
        self.op(op, &[x.id], &[], x.shape);
    }

    /// The long forms of SiLU, GELU and hard swish.
    fn gate(&mut self, x: Value) {
        let kind = self.below(3);
        let number = |draw: &mut Self, value: f32| draw.build.constant(Tensor::scalar(value));
        let gate = match kind {
            0 => self.build.op("Sigmoid", &[x.id], &[]),
            1 => {
                let (root, one) = (number(self, std::f32::consts::SQRT_2), number(self, 1.0));
                let scaled = self.build.op("Div", &[x.id, root], &[]);
                let erf = self.build.op("Erf", &[scaled], &[]);
                self.build.op("Add", &[erf, one], &[])
            }
            _ => {
                let (three, zero, six) = (number(self, 3.0), number(self, 0.0), number(self, 6.0));
                let sum = self.build.op("Add", &[x.id, three], &[]);
                self.build.op("Clip", &[sum, zero, six], &[])
            }
        };
        let product = self.build.op("Mul", &[x.id, gate], &[]);
        self.add(product, x.shape.clone());
        if kind > 0 {
            let share = number(self, [0.5, 1.0 / 6.0][kind - 1]);
            self.op("Mul", &[product, share], &[], x.shape);
        }
    }

    /// Scores of a value with itself or one like it, perhaps masked, over values. Heads are used as they are, or split
    /// off.
    fn attention(&mut self, x: Value) {
        let y = self.any();
        let y = if y.shape == x.shape { y } else { x.clone() };
        let rank = x.shape.len();
        let last = x.shape.last().copied().unwrap_or([0, 0]);
        let split = rank == 3 && last[0] == last[1] && last[0] % 2 == 0 && self.below(2) == 0;
        if !(3..=4).contains(&rank) || x.shape.iter().any(|size| size[0] == 0 || size[1] == 0) {
            return self.function(x);
        }
        let half = last[0] / 2;
        let target = self.ints(&[0, 0, 2, half as i64]);
        let heads = |draw: &mut Self, id: ValueId, perm: [i64; 4]| match split {
            false => id,
            true => {
                let apart = draw.build.op("Reshape", &[id, target], &[]);
                draw.build.op("Transpose", &[apart], &[("perm", perm.into())])
            }
        };
        let rows = heads(self, x.id, [0, 2, 1, 3]);
        let values = heads(self, y.id, [0, 2, 1, 3]);
        let transposed = match split {
            true => heads(self, y.id, [0, 2, 3, 1]),
            false => {
                let mut perm: Vec<i64> = (0..rank as i64).collect();
                perm.swap(rank - 1, rank - 2);
                self.build.op("Transpose", &[y.id], &[("perm", perm.into())])
            }
        };
        let number = self.number();
        let mut scores = self.build.op("MatMul", &[rows, transposed], &[]);
        let positions = if split { x.shape[1] } else { x.shape[rank - 2] };
        if elements(&x.shape) / last[0].max(1) * positions[0].max(positions[1]) > MOST_ELEMENTS {
            return self.function(x);
        }
        if self.below(2) == 0 {
            scores = self.build.op("Div", &[scores, number], &[]);
        }
        if self.below(2) == 0 && positions[0] == positions[1] {
            let mask = self.weights(&[positions[0]; 2]);
            scores = self.build.op("Add", &[mask, scores], &[]);
        } else if self.below(2) == 0 {
            scores = self.build.op("Add", &[scores, number], &[]);
        }
        let weights = self.build.op("Softmax", &[scores], &[("axis", (-1).into())]);
        let context = self.build.op("MatMul", &[weights, values], &[]);
        if !split {
            return self.add(context, x.shape);
        }
        let behind = self.build.op("Transpose", &[context], &[("perm", [0, 2, 1, 3].into())]);
        let joined = self.ints(&[0, 0, last[0] as i64]);
        let together = self.build.op("Reshape", &[behind, joined], &[]);
        self.add(together, x.shape);
    }

    /// Arithmetic with a number, or with one for each place along an axis.
    fn with_constant(&mut self, x: Value) {
        let axis = self.axis(x.shape.len() + 1);
        let constant = match x.shape.get(axis) {
            Some(size) if size[0] == size[1] => {
                let rest = x.shape.len() - axis - 1;
                let lead = self.below(2) * axis;
                let shape: Vec<usize> = [vec![1; lead], vec![size[0]], vec![1; rest]].concat();
                self.weights(&shape)
            }
            _ => self.number(),
        };
        let op = ["Add", "Mul", "Sub", "Add", "Mul", "Max"][self.below(6)];
        let inputs = if self.below(3) == 2 { [constant, x.id] } else { [x.id, constant] };
        self.op(op, &inputs, &[], x.shape);
    }

    /// The sum with a value of the same or of a broadcasting shape.
    fn sum(&mut self, x: Value) {
        let y = self.any();
        let fits = x.shape.len() == y.shape.len()
            && x.shape.iter().zip(&y.shape).all(|(x, y)| x == y || *x == [1, 1] || *y == [1, 1]);
        if !fits {
            return self.function(x);
        }
        let shape = x.shape.iter().zip(&y.shape).map(|(x, y)| if *x == [1, 1] { *y } else { *x }).collect();
        let op = ["Add", "Add", "Mul", "Sum"][self.below(4)];
        self.op(op, &[x.id, y.id], &[], shape);
    }

    fn matmul(&mut self, x: Value) {
        let rank = x.shape.len();
        let last = x.shape[rank - 1];
        if rank < 2 {
            return self.function(x);
        }
        let mut shape = x.shape.clone();
        if self.below(3) == 0 && rank >= 3 {
            // With itself, transposed, as in attention.
            let mut perm: Vec<i64> = (0..rank as i64).collect();
            perm.swap(rank - 1, rank - 2);
            let transposed = self.build.op("Transpose", &[x.id], &[("perm", perm.into())]);
            shape[rank - 1] = shape[rank - 2];
            if elements(&shape) <= MOST_ELEMENTS {
                let product = self.build.op("MatMul", &[x.id, transposed], &[]);
                let scale = self.number();
                return self.op("Mul", &[product, scale], &[], shape);
            }
        }
        if last[0] != last[1] {
            return self.function(x);
        }
        let width = self.width(8);
        shape[rank - 1] = [width; 2];
        if elements(&shape) > MOST_ELEMENTS {
            return self.function(x);
        }
        let w = self.weights(&[last[0], width]);
        self.op("MatMul", &[x.id, w], &[], shape.clone());
        if self.below(2) == 0 {
            let (product, bias) = (self.values[self.values.len() - 1].id, self.weights(&[width]));
            self.op("Add", &[product, bias], &[], shape);
        }
    }

    /// A linear layer as exporters flatten it.
    fn gemm(&mut self, x: Value) {
        let rank = x.shape.len();
        let last = x.shape[rank - 1];
        if rank < 2 || last[0] != last[1] {
            return self.function(x);
        }
        let mut shape = x.shape.clone();
        shape[rank - 1] = [8, 8];
        let target = self.ints(&[-1, last[0] as i64]);
        let rows = self.build.op("Reshape", &[x.id, target], &[]);
        let (w, c) = (self.weights(&[8, last[0]]), self.weights(&[8]));
        let product = self.build.op("Gemm", &[rows, w, c], &[("transB", 1.into()), ("alpha", 0.5.into())]);
        let sizes = self.build.op("Shape", &[x.id], &[]);
        let (zero, end, eight) = (self.ints(&[0]), self.ints(&[-1]), self.ints(&[8]));
        let lead = self.build.op("Slice", &[sizes, zero, end], &[]);
        let target = self.build.op("Concat", &[lead, eight], &[("axis", 0.into())]);
        // A size of 0 is meant as 0, not as the size at that place in the product.
        self.op("Reshape", &[product, target], &[("allowzero", 1.into())], shape);
    }

    fn reduce(&mut self, x: Value) {
        let rank = x.shape.len();
        let keep = self.below(2);
        let mut axes: Vec<usize> = (self.form.kept..rank).filter(|_| self.below(2) == 1).collect();
        if axes.is_empty() || (keep == 0 && axes.len() == rank) {
            axes = vec![rank - 1];
        }
        if keep == 0 && rank == 1 {
            return self.function(x);
        }
        let shape = x.shape.iter().enumerate();
        let shape: Vec<Size> = if keep == 1 {
            shape.map(|(axis, &size)| if axes.contains(&axis) { [1, 1] } else { size }).collect()
        } else {
            shape.filter(|(axis, _)| !axes.contains(axis)).map(|(_, &size)| size).collect()
        };
        // The mean of nothing is no number, and the largest of nothing is infinite: what follows would compare little.
        let nothing = axes.iter().any(|&axis| x.shape[axis].contains(&0));
        let op = ["ReduceMean", "ReduceMax"][self.below(2)];
        let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
        if nothing {
            let axes = self.ints(&axes);
            return self.op("ReduceSum", &[x.id, axes], &[("keepdims", (keep as i64).into())], shape);
        }
        self.op(op, &[x.id], &[("axes", axes.into()), ("keepdims", (keep as i64).into())], shape);
    }

    fn softmax(&mut self, x: Value) {
        let axis = self.axis(x.shape.len()) as i64 - self.below(2) as i64 * x.shape.len() as i64;
        self.op("Softmax", &[x.id], &[("axis", axis.into())], x.shape);
    }
}
