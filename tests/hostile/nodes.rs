//! One node that asks for too much or breaks its rules, in two forms: the excess is known when the model is loaded, or
//! all of it comes with the request, so that no check at load can help.

use kiln_model::ir::{Attr, Dim, Graph};
use kiln_model::{GraphBuilder, ValueId};
use kiln_tensor::Tensor;

use crate::Case;

const HUGE: i64 = 1 << 40;
const MAX: i64 = i64::MAX;
const MIN: i64 = i64::MIN;

/// An input of a node in the table.
#[derive(Clone)]
enum In {
    /// Small floats of that shape.
    X(Vec<usize>),
    /// One row of integers.
    I(Vec<i64>),
    /// One integer without a shape.
    N(i64),
    /// One row of floats.
    F(Vec<f32>),
    /// A float without a shape.
    S(f32),
    /// Text.
    T(Vec<String>),
    /// Integers of a narrower type.
    J(Vec<i32>),
    /// Left out.
    No,
}

use In::{F, I, J, N, No, S, T, X};

impl In {
    fn tensor(&self) -> Option<Tensor> {
        let made = match self {
            X(shape) => {
                let count: usize = shape.iter().product();
                Tensor::from_vec(shape.iter().copied(), (0..count).map(|i| i as f32 / 8.0 - 1.0).collect())
            }
            I(values) => Tensor::from_slice([values.len()], values),
            N(value) => Ok(Tensor::scalar(*value)),
            F(values) => Tensor::from_slice([values.len()], values),
            S(value) => Ok(Tensor::scalar(*value)),
            T(values) => Tensor::from_strings([values.len()], values.clone()),
            J(values) => Tensor::from_slice([values.len()], values),
            No => return None,
        };
        Some(made.unwrap())
    }
}

type Attrs = Vec<(&'static str, Attr)>;

/// Operator, number of outputs, inputs, attributes; the operator set, where it is not 17.
type Row = (&'static str, usize, Vec<In>, Attrs);

fn x(shape: &[usize]) -> In {
    X(shape.to_vec())
}

fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

/// A graph that does no harm.
pub(crate) fn harmless() -> Graph {
    let mut graph = GraphBuilder::new("g", 17);
    let one = graph.constant(Tensor::scalar(1f32));
    let made = graph.op("Neg", &[one], &[]);
    graph.output("y", made);
    graph.finish()
}

fn case(row: &Row, version: i64, late: bool) -> Case {
    let (op, outputs, inputs, attrs) = row;
    let mut graph = GraphBuilder::new("g", version);
    let mut given = Vec::new();
    let ids: Vec<Option<ValueId>> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| {
            let tensor = input.tensor()?;
            // The first input comes with the request in any case: a graph of constants alone would be folded.
            if index > 0 && !late {
                return Some(graph.constant(tensor));
            }
            let name = format!("x{index}");
            let dims = (0..tensor.shape().len()).map(|axis| Dim::from(format!("{name}_{axis}").as_str()));
            let id = graph.input(&name, tensor.dtype(), dims.collect::<Vec<_>>());
            given.push((name, tensor));
            Some(id)
        })
        .collect();
    let (domain, op) = op.split_once("|").unwrap_or(("", op));
    let made = match domain {
        "" => graph.op_many(op, &ids, *outputs, attrs),
        _ => vec![graph.op_of(domain, op, &ids, attrs)],
    };
    for (index, made) in made.into_iter().enumerate() {
        graph.output(&format!("y{index}"), made);
    }
    let attrs = format!("{attrs:?}").chars().take(40).collect::<String>();
    let name = format!("{op} {} {attrs}", if late { "late" } else { "known" });
    Case { name, graph: graph.finish(), inputs: given }
}

fn shapes() -> Vec<Row> {
    let one = || x(&[1]);
    vec![
        ("Reshape", 1, vec![x(&[2, 3]), I(vec![-1, -1])], vec![]),
        ("Reshape", 1, vec![x(&[2, 3]), I(vec![1 << 62, 4])], vec![]),
        ("Reshape", 1, vec![x(&[2, 3]), I(vec![MIN])], vec![]),
        ("Reshape", 1, vec![x(&[0]), I(vec![0, -1])], vec![("allowzero", 1.into())]),
        ("Reshape", 1, vec![x(&[1]), I(vec![1; 1000])], vec![]),
        ("Expand", 1, vec![one(), I(vec![HUGE])], vec![]),
        ("Expand", 1, vec![one(), I(vec![1 << 62, 1 << 62])], vec![]),
        ("Expand", 1, vec![one(), I(vec![-1])], vec![]),
        ("Expand", 1, vec![one(), I(vec![1 << 23])], vec![]),
        ("Tile", 1, vec![one(), I(vec![HUGE])], vec![]),
        ("Tile", 1, vec![one(), I(vec![MAX])], vec![]),
        ("Tile", 1, vec![one(), I(vec![MIN])], vec![]),
        ("Tile", 1, vec![x(&[0]), I(vec![MAX])], vec![]),
        ("Tile", 1, vec![T(vec!["a".repeat(30_000)]), I(vec![1 << 16])], vec![]),
        ("Expand", 1, vec![T(vec!["a".repeat(30_000)]), I(vec![HUGE])], vec![]),
        ("ConstantOfShape", 1, vec![I(vec![HUGE])], vec![]),
        ("ConstantOfShape", 1, vec![I(vec![1 << 31, 1 << 31])], vec![]),
        ("ConstantOfShape", 1, vec![I(vec![MAX, 0])], vec![]),
        ("ConstantOfShape", 1, vec![I(vec![-1])], vec![]),
        ("ConstantOfShape", 1, vec![I(vec![1; 5000])], vec![]),
        ("Range", 1, vec![N(0), N(MAX), N(1)], vec![]),
        ("Range", 1, vec![N(MIN), N(MAX), N(1)], vec![]),
        ("Range", 1, vec![N(0), N(1), N(0)], vec![]),
        ("Range", 1, vec![N(0), N(MIN), N(MIN)], vec![]),
        ("Range", 1, vec![S(0.0), S(1e30), S(1e-30)], vec![]),
        ("Range", 1, vec![S(0.0), S(f32::NAN), S(1.0)], vec![]),
        ("EyeLike", 1, vec![x(&[2, 2])], vec![("k", MIN.into())]),
        ("OneHot", 1, vec![I(vec![1]), N(HUGE), F(vec![0.0, 1.0])], vec![]),
        ("OneHot", 1, vec![I(vec![1]), N(-1), F(vec![0.0, 1.0])], vec![]),
        ("Squeeze", 1, vec![x(&[2]), I(vec![MIN])], vec![]),
        ("Unsqueeze", 1, vec![x(&[2]), I(vec![0, 0])], vec![]),
        ("Unsqueeze", 1, vec![x(&[2]), I((0..2000).collect())], vec![]),
        ("Flatten", 1, vec![x(&[2])], vec![("axis", MIN.into())]),
        ("Transpose", 1, vec![x(&[2, 3])], vec![("perm", ints(&[0, 0]))]),
        ("Transpose", 1, vec![x(&[2, 3])], vec![("perm", ints(&[-1, MAX]))]),
        ("Shape", 1, vec![x(&[2, 3])], vec![("start", MIN.into()), ("end", MAX.into())]),
    ]
}

fn places() -> Vec<Row> {
    let row = || x(&[4]);
    vec![
        ("Slice", 1, vec![row(), I(vec![MIN]), I(vec![MAX]), I(vec![0]), I(vec![1])], vec![]),
        ("Slice", 1, vec![row(), I(vec![MAX]), I(vec![MIN]), I(vec![0]), I(vec![MIN])], vec![]),
        ("Slice", 1, vec![row(), I(vec![0]), I(vec![1]), I(vec![0]), I(vec![0])], vec![]),
        ("Slice", 1, vec![row(), I(vec![0]), I(vec![1]), I(vec![MAX])], vec![]),
        ("Gather", 1, vec![row(), I(vec![MAX])], vec![]),
        ("Gather", 1, vec![row(), I(vec![MIN])], vec![]),
        ("Gather", 1, vec![row(), I(vec![0])], vec![("axis", MIN.into())]),
        ("GatherElements", 1, vec![row(), I(vec![MIN])], vec![]),
        ("GatherND", 1, vec![row(), I(vec![MIN])], vec![("batch_dims", MAX.into())]),
        ("ScatterElements", 1, vec![row(), I(vec![9]), F(vec![1.0])], vec![]),
        ("ScatterND", 1, vec![row(), I(vec![MIN]), S(1.0)], vec![]),
        ("Concat", 1, vec![row(), row()], vec![("axis", MIN.into())]),
        ("Concat", 1, vec![row(), x(&[2, 2])], vec![("axis", 0.into())]),
        ("Split", 2, vec![row(), I(vec![MAX, MAX])], vec![]),
        ("Split", 2, vec![row(), I(vec![-1, 5])], vec![]),
        ("Split", 2, vec![row()], vec![("axis", 7.into())]),
        ("Pad", 1, vec![row(), I(vec![HUGE, 0])], vec![]),
        ("Pad", 1, vec![row(), I(vec![MIN, MAX])], vec![]),
        ("Pad", 1, vec![row(), I(vec![-9, 2])], vec![]),
        ("Pad", 1, vec![row(), I(vec![99, 99])], vec![("mode", "reflect".into())]),
        ("Pad", 1, vec![x(&[0]), I(vec![1, 1])], vec![("mode", "edge".into())]),
        ("TopK", 2, vec![row(), I(vec![MAX])], vec![]),
        ("TopK", 2, vec![row(), I(vec![-1])], vec![]),
        ("Unique", 4, vec![row()], vec![("axis", MAX.into())]),
        ("Compress", 1, vec![row(), I(vec![1, 1])], vec![]),
        ("CumSum", 1, vec![row(), N(MIN)], vec![]),
        ("ReverseSequence", 1, vec![x(&[2, 2]), I(vec![MIN, 9])], vec![]),
        ("ArgMax", 1, vec![x(&[0])], vec![]),
        ("ReduceSum", 1, vec![row(), I(vec![MIN, MAX])], vec![]),
        ("ReduceMean", 1, vec![row(), I(vec![5])], vec![]),
        ("Softmax", 1, vec![row()], vec![("axis", MIN.into())]),
        ("DepthToSpace", 1, vec![x(&[1, 4, 1, 1])], vec![("blocksize", (1i64 << 32).into())]),
        ("SpaceToDepth", 1, vec![x(&[1, 1, 4, 4])], vec![("blocksize", 0.into())]),
        ("CenterCropPad", 1, vec![row(), I(vec![HUGE])], vec![]),
        ("Col2Im", 1, vec![x(&[1, 4, 1]), I(vec![MAX, MAX]), I(vec![2, 2])], vec![]),
    ]
}

fn windows() -> Vec<Row> {
    let image = || x(&[1, 2, 5, 5]);
    let weights = || x(&[2, 2, 3, 3]);
    let conv = |name: &'static str, value: Attr| ("Conv", 1, vec![image(), weights()], vec![(name, value)]);
    let pool = |attrs: Attrs| ("MaxPool", 1, vec![image()], attrs);
    vec![
        conv("strides", ints(&[0, 0])),
        conv("strides", ints(&[MIN, 1])),
        conv("strides", ints(&[1])),
        conv("strides", ints(&[MAX, MAX])),
        conv("group", 0.into()),
        conv("group", 3.into()),
        conv("group", MAX.into()),
        conv("dilations", ints(&[HUGE, HUGE])),
        conv("dilations", ints(&[0, 1])),
        conv("pads", ints(&[-9, -9, -9, -9])),
        conv("pads", ints(&[1 << 62, 1 << 62, 1 << 62, 1 << 62])),
        conv("pads", ints(&[HUGE, 0, 0, 0])),
        conv("kernel_shape", ints(&[9, 9])),
        conv("auto_pad", "SAME_BUT_DIFFERENT".into()),
        ("ConvTranspose", 1, vec![image(), weights()], vec![("output_padding", ints(&[HUGE, HUGE]))]),
        ("ConvTranspose", 1, vec![image(), weights()], vec![("output_shape", ints(&[MAX, MAX]))]),
        ("ConvTranspose", 1, vec![image(), weights()], vec![("strides", ints(&[HUGE, HUGE]))]),
        pool(vec![("kernel_shape", ints(&[0, 0]))]),
        pool(vec![("kernel_shape", ints(&[HUGE, HUGE]))]),
        pool(vec![("kernel_shape", ints(&[2, 2])), ("pads", ints(&[HUGE, HUGE, HUGE, HUGE]))]),
        pool(vec![("kernel_shape", ints(&[2, 2])), ("strides", ints(&[-1, -1]))]),
        pool(vec![("kernel_shape", ints(&[2, 2])), ("dilations", ints(&[MAX, MAX]))]),
        pool(vec![("kernel_shape", ints(&[MAX, MAX])), ("ceil_mode", 1.into())]),
        ("AveragePool", 1, vec![image()], vec![("kernel_shape", ints(&[2, 2])), ("pads", ints(&[9, 9, 9, 9]))]),
        ("LpPool", 1, vec![image()], vec![("kernel_shape", ints(&[2, 2])), ("p", 0.into())]),
        ("LRN", 1, vec![image()], vec![("size", MAX.into())]),
        ("MaxUnpool", 1, vec![image(), image()], vec![("kernel_shape", ints(&[2, 2]))]),
        ("Resize", 1, vec![image(), No, F(vec![1.0, 1.0, 1e30, 1e30])], vec![]),
        ("Resize", 1, vec![image(), No, F(vec![1.0, 1.0, f32::NAN, 0.0])], vec![]),
        ("Resize", 1, vec![image(), No, No, I(vec![1, 2, HUGE, HUGE])], vec![]),
        ("Resize", 1, vec![image(), No, No, I(vec![1, 2, 3, 3])], vec![("cubic_coeff_a", Attr::Float(f32::NAN))]),
        ("GridSample", 1, vec![image(), X(vec![1, 2, 2, 2])], vec![("mode", "nearest".into())]),
        (
            "RoiAlign",
            1,
            vec![image(), X(vec![1, 4]), I(vec![MAX])],
            vec![("output_height", HUGE.into()), ("output_width", HUGE.into())],
        ),
        (
            "RoiAlign",
            1,
            vec![image(), X(vec![1, 4]), I(vec![0])],
            vec![("output_height", 1.into()), ("sampling_ratio", HUGE.into())],
        ),
        ("NonMaxSuppression", 1, vec![X(vec![1, 2, 4]), X(vec![1, 1, 2]), N(MAX)], vec![]),
    ]
}

fn numbers() -> Vec<Row> {
    let row = || x(&[4]);
    let words = |words: &[&str]| T(words.iter().map(|&word| word.to_owned()).collect());
    vec![
        ("Div", 1, vec![I(vec![MIN, 1]), I(vec![-1, 0])], vec![]),
        ("Mod", 1, vec![I(vec![MIN, 1]), I(vec![-1, 0])], vec![]),
        ("Mod", 1, vec![J(vec![i32::MIN]), J(vec![-1])], vec![]),
        ("Pow", 1, vec![I(vec![MIN, 0]), I(vec![MAX, -1])], vec![]),
        ("Abs", 1, vec![I(vec![MIN])], vec![]),
        ("Neg", 1, vec![J(vec![i32::MIN])], vec![]),
        ("Add", 1, vec![I(vec![MAX]), I(vec![1])], vec![]),
        ("ReduceProd", 1, vec![I(vec![MAX, MAX])], vec![]),
        ("Cast", 1, vec![row()], vec![("to", 999.into())]),
        ("Cast", 1, vec![words(&["1e999", "many"])], vec![("to", 7.into())]),
        ("MatMul", 1, vec![x(&[2, 3]), x(&[2, 3])], vec![]),
        ("MatMul", 1, vec![x(&[0, 3]), x(&[3, 0])], vec![]),
        ("Gemm", 1, vec![row(), row()], vec![]),
        ("Einsum", 1, vec![row()], vec![("equation", "ii...->".into())]),
        ("Einsum", 1, vec![row()], vec![("equation", "i,j->".into())]),
        ("Einsum", 1, vec![row(), row()], vec![("equation", "a".repeat(20_000).into())]),
        ("Einsum", 1, vec![x(&[64]); 6], vec![("equation", "a,b,c,d,e,f->abcdef".into())]),
        ("Einsum", 1, vec![x(&[8]); 6], vec![("equation", "a,b,c,d,e,f->".into())]),
        ("Einsum", 1, vec![x(&[64]); 5], vec![("equation", "a,b,c,d,e->".into())]),
        ("Einsum", 1, vec![x(&[8]); 20], vec![("equation", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t->".into())]),
        ("DFT", 1, vec![x(&[1, 4, 1]), N(HUGE)], vec![]),
        ("DFT", 1, vec![x(&[1, 4, 1]), N(1_048_573)], vec![]),
        ("DFT", 1, vec![x(&[1, 4, 1]), N(65_537)], vec![]),
        ("STFT", 1, vec![x(&[1, 4, 1]), N(0), No, N(2)], vec![]),
        ("STFT", 1, vec![x(&[1, 4, 1]), N(1), No, N(MAX)], vec![]),
        ("HannWindow", 1, vec![N(HUGE)], vec![]),
        ("HannWindow", 1, vec![N(-1)], vec![]),
        ("MelWeightMatrix", 1, vec![N(HUGE), N(HUGE), N(8000), S(0.0), S(4000.0)], vec![]),
        ("RandomUniformLike", 1, vec![row()], vec![("dtype", 8.into())]),
        ("Bernoulli", 1, vec![words(&["a"])], vec![]),
        ("Multinomial", 1, vec![x(&[1, 2])], vec![("sample_size", HUGE.into())]),
        ("Multinomial", 1, vec![words(&["a"])], vec![]),
        ("Dropout", 2, vec![row(), S(f32::INFINITY)], vec![]),
        ("LSTM", 1, vec![x(&[1, 1, 2]), x(&[1, 8, 2]), x(&[1, 8, 2])], vec![("hidden_size", HUGE.into())]),
        ("GRU", 1, vec![x(&[1, 1, 2]), x(&[1, 6, 2]), x(&[1, 6, 2])], vec![("hidden_size", 0.into())]),
        ("BitShift", 1, vec![I(vec![1]), I(vec![MIN])], vec![("direction", "LEFT".into())]),
        ("QuantizeLinear", 1, vec![row(), S(0.0)], vec![("axis", MIN.into())]),
        ("DequantizeLinear", 1, vec![J(vec![i32::MIN]), S(f32::INFINITY)], vec![("axis", 9.into())]),
        ("LayerNormalization", 1, vec![row(), row()], vec![("axis", MIN.into())]),
        ("GroupNormalization", 1, vec![x(&[1, 4, 2]), row(), row()], vec![("num_groups", 3.into())]),
        ("BatchNormalization", 1, vec![x(&[1, 4, 2]), row(), row(), row(), x(&[3])], vec![]),
        ("StringNormalizer", 1, vec![words(&["a"])], vec![("case_change_action", "SHOUT".into())]),
        ("TfIdfVectorizer", 1, vec![I(vec![1])], vec![("max_gram_length", MAX.into()), ("mode", "TF".into())]),
        ("Where", 1, vec![row(), row(), row()], vec![]),
        ("NegativeLogLikelihoodLoss", 1, vec![x(&[2, 2]), I(vec![MIN, 5])], vec![]),
        ("SplitToSequence", 1, vec![row(), N(0)], vec![]),
        ("Nonsense", 1, vec![row()], vec![]),
        ("kiln|Chain", 1, vec![row()], vec![]),
        ("kiln|FusedAttention", 1, vec![row(), row(), row()], vec![]),
        ("kiln|ChannelPRelu", 1, vec![row()], vec![]),
        ("kiln|Widen", 1, vec![row()], vec![]),
    ]
}

/// Newer operators.
fn newer() -> Vec<Row> {
    let heads = |heads: usize| x(&[1, heads, 2, 2]);
    let words = || T(vec!["a".repeat(2000)]);
    let token = |token: &str| {
        let attrs =
            [("mark", 1.into()), ("mincharnum", 1.into()), ("pad_value", "#".into()), ("tokenexp", token.into())];
        attrs.to_vec()
    };
    vec![
        ("Attention", 1, vec![heads(2), heads(0), heads(0)], vec![]),
        ("Attention", 1, vec![heads(2), heads(3), heads(3)], vec![]),
        ("Attention", 1, vec![heads(2), heads(2), heads(2)], vec![("left_window_size", MAX.into())]),
        ("Attention", 1, vec![heads(2), heads(2), heads(2)], vec![("scale", Attr::Float(f32::NAN))]),
        ("ai.onnx.preview|FlexAttention", 1, vec![heads(2), heads(0), heads(0)], vec![]),
        ("ai.onnx.preview|FlexAttention", 1, vec![heads(2), heads(2)], vec![]),
        ("RegexFullMatch", 1, vec![words()], vec![("pattern", "(a*)*b".into())]),
        ("RegexFullMatch", 1, vec![words()], vec![("pattern", "(((a{99}){99}){99}){99}".into())]),
        ("RegexFullMatch", 1, vec![words()], vec![("pattern", "(".repeat(30_000).into())]),
        ("StringSplit", 2, vec![words()], vec![("delimiter", "a".into())]),
        ("com.microsoft|Tokenizer", 1, vec![words()], token("(((a{99}){99}){99}){99}")),
        ("com.microsoft|Tokenizer", 1, vec![words()], token("a|a.*b")),
        ("com.microsoft|Tokenizer", 1, vec![words()], token(&"[".repeat(30_000))),
        ("com.microsoft|UnfoldTensor", 1, vec![x(&[4])], vec![("size", HUGE.into())]),
        ("com.microsoft|UnfoldTensor", 1, vec![x(&[4])], vec![("size", 0.into()), ("step", 0.into())]),
        ("com.microsoft|NGramRepeatBlock", 1, vec![I(vec![MIN, MAX]), x(&[1, 4])], vec![("ngram_size", MAX.into())]),
        ("com.microsoft|CropAndResize", 1, vec![heads(1), x(&[1, 4]), J(vec![0]), J(vec![i32::MAX; 2])], vec![]),
        ("com.microsoft|CropAndResize", 1, vec![heads(1), x(&[1, 4]), J(vec![i32::MIN]), J(vec![1; 2])], vec![]),
        ("com.microsoft|MurmurHash3", 1, vec![words()], vec![("seed", MIN.into())]),
        ("RotaryEmbedding", 1, vec![heads(2), heads(2), heads(2)], vec![]),
        ("RMSNormalization", 1, vec![heads(1), x(&[7])], vec![]),
        ("Upsample", 1, vec![heads(1), F(vec![1e30; 4])], vec![]),
        ("GroupNormalization", 1, vec![heads(4), x(&[4]), x(&[4])], vec![("num_groups", 0.into())]),
        ("AffineGrid", 1, vec![X(vec![1, 2, 3]), I(vec![1, 1, HUGE, HUGE])], vec![]),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    let both = |rows: Vec<Row>, version: i64| {
        rows.into_iter().flat_map(move |row| [false, true].map(|late| case(&row, version, late))).collect::<Vec<_>>()
    };
    let older = [shapes(), places(), windows(), numbers()].into_iter().flat_map(|rows| both(rows, 18));
    older.chain(both(newer(), 26)).collect()
}
