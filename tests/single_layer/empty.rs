//! Every operator on tensors without elements: each dimension that may be 0 is 0 in turn, and then all are.
//!
//! The expected shapes follow from the same operator at other sizes: output sizes are linear in input sizes, so two of
//! them give the third. Elements of results that are not empty (the sum of nothing) are compared with plain Rust
//! without passes, node by node; the operators' own tests say what they must be.

use kiln::session::{Session, SessionOptions};
use kiln_kernels::Isa;
use kiln_model::ir::{Attr, Dim};
use kiln_model::onnx::{Limits, load_bytes, write};
use kiln_model::passes::PassOptions;
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_run::record::CacheMode;
use kiln_tensor::{BoolByte, DType, Tensor, TensorSpec};

use crate::harness::MICROSOFT;

/// The value of all sizes that are not 0: even, and as large as windows are wide.
const BASE: usize = 4;

/// An input of a case.
#[derive(Clone)]
enum Given {
    /// With those dimensions. Letters are sizes that vary.
    Varies(DType, &'static str),
    Constant(Tensor),
    Absent,
}

/// An operator with inputs of changing sizes.
#[derive(Clone)]
struct Case {
    domain: &'static str,
    op: &'static str,
    version: i64,
    attrs: Vec<(&'static str, Attr)>,
    inputs: Vec<Given>,
    outputs: usize,
    /// The sizes that may be 0.
    empty: &'static str,
}

fn case(op: &'static str, empty: &'static str) -> Case {
    Case { domain: "", op, version: 22, attrs: vec![], inputs: vec![], outputs: 1, empty }
}

impl Case {
    fn of(mut self, dims: &'static str) -> Case {
        self.inputs.push(Given::Varies(DType::F32, dims));
        self
    }

    fn typed(mut self, dtype: DType, dims: &'static str) -> Case {
        self.inputs.push(Given::Varies(dtype, dims));
        self
    }

    /// Small numbers, different from each other where they are few.
    fn weights(mut self, shape: &[usize]) -> Case {
        self.inputs.push(Given::Constant(ramp(DType::F32, shape)));
        self
    }

    fn tensor(mut self, tensor: Tensor) -> Case {
        self.inputs.push(Given::Constant(tensor));
        self
    }

    fn list(self, values: &[i64]) -> Case {
        self.tensor(Tensor::from_vec([values.len()], values.to_vec()).unwrap())
    }

    fn floats(self, values: &[f32]) -> Case {
        self.tensor(Tensor::from_vec([values.len()], values.to_vec()).unwrap())
    }

    fn absent(mut self) -> Case {
        self.inputs.push(Given::Absent);
        self
    }

    fn int(mut self, name: &'static str, value: i64) -> Case {
        self.attrs.push((name, Attr::Int(value)));
        self
    }

    fn ints(mut self, name: &'static str, values: &[i64]) -> Case {
        self.attrs.push((name, Attr::Ints(values.to_vec())));
        self
    }

    fn text(mut self, name: &'static str, value: &str) -> Case {
        self.attrs.push((name, Attr::Str(value.to_owned())));
        self
    }

    fn version(mut self, version: i64) -> Case {
        self.version = version;
        self
    }

    fn domain(mut self, domain: &'static str) -> Case {
        self.domain = domain;
        self
    }

    fn outputs(mut self, outputs: usize) -> Case {
        self.outputs = outputs;
        self
    }

    /// The letters of all dimensions, each once.
    fn letters(&self) -> Vec<char> {
        let mut letters: Vec<char> = Vec::new();
        for given in &self.inputs {
            let Given::Varies(_, dims) = given else { continue };
            letters.extend(dims.chars().filter(|letter| letter.is_alphabetic()));
        }
        letters.sort_unstable();
        letters.dedup();
        letters
    }

    /// The graph with a name for every size, and with none where `named` is false.
    fn graph(&self, named: bool) -> Graph {
        let mut build = GraphBuilder::new("empty", self.version);
        let mut inputs: Vec<Option<ValueId>> = Vec::new();
        for (number, given) in self.inputs.iter().enumerate() {
            inputs.push(match given {
                Given::Absent => None,
                Given::Constant(tensor) => Some(build.constant(tensor.clone())),
                Given::Varies(dtype, dims) => {
                    let dims = dims.split_whitespace().map(|dim| match dim.parse::<usize>() {
                        Ok(size) => Dim::Fixed(size),
                        Err(_) if named => Dim::Named(dim.to_owned()),
                        Err(_) => Dim::Any,
                    });
                    Some(build.input(&format!("x{number}"), *dtype, dims))
                }
            });
        }
        let made = match (self.domain, self.outputs) {
            ("", count) => build.op_many(self.op, &inputs, count, &self.attrs),
            (domain, _) => vec![build.op_of(domain, self.op, &inputs, &self.attrs)],
        };
        for (number, output) in made.into_iter().enumerate() {
            build.output(&format!("y{number}"), output);
        }
        let graph = build.finish();
        if self.domain != MICROSOFT {
            return graph;
        }
        // Many operators of this domain are expanded when a file is read.
        load_bytes(write(&graph).unwrap().into(), None, &Limits::default()).unwrap()
    }

    /// The request of those sizes.
    fn request(&self, size: &dyn Fn(char) -> usize) -> Vec<(String, Tensor)> {
        let varies = self.inputs.iter().enumerate().filter_map(|(number, given)| match given {
            Given::Varies(dtype, dims) => Some((number, *dtype, *dims)),
            _ => None,
        });
        let tensor = |(number, dtype, dims): (usize, DType, &str)| {
            let one = |dim: &str| dim.parse().unwrap_or_else(|_| size(dim.chars().next().unwrap()));
            let shape: Vec<usize> = dims.split_whitespace().map(one).collect();
            (format!("x{number}"), ramp(dtype, &shape))
        };
        varies.map(tensor).collect()
    }
}

fn ramp(dtype: DType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let shape = shape.iter().copied();
    match dtype {
        DType::F32 => Tensor::from_vec(shape, (0..count).map(|at| (at % 7) as f32 / 8.0 + 0.125).collect()),
        // Numbers of places and lengths: one value suits all.
        DType::I64 => Tensor::from_vec(shape, vec![1i64; count]),
        DType::I32 => Tensor::from_vec(shape, vec![1i32; count]),
        DType::U8 => Tensor::from_vec(shape, (0..count).map(|at| (at % 200) as u8).collect()),
        DType::I8 => Tensor::from_vec(shape, (0..count).map(|at| (at % 100) as i8).collect()),
        DType::Bool => Tensor::from_vec(shape, vec![BoolByte::from(true); count]),
        other => Tensor::zeros(TensorSpec::new(other, shape)),
    }
    .unwrap()
}

fn session(graph: Graph, passes: PassOptions, isa: Isa) -> Result<Session, String> {
    let options = SessionOptions {
        threads: 1,
        cache_mode: CacheMode::Memory,
        rehearse: false,
        max_isa: Some(isa),
        passes,
        ..SessionOptions::default()
    };
    Session::from_graph(graph, &options).map_err(|error| format!("load: {error}"))
}

fn run(session: &Session, request: &[(String, Tensor)]) -> Result<Vec<Tensor>, String> {
    let inputs: Vec<(&str, Tensor)> = request.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
    Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
}

/// The shapes of the outputs where `letter` is 0, from those where it is not.
fn extrapolated(plain: &Session, case: &Case, zeros: &[char], letter: char) -> Result<Vec<Vec<i64>>, String> {
    let at = |own: usize| {
        let size = |other: char| match other {
            _ if other == letter => own,
            _ if zeros.contains(&other) => 0,
            _ => BASE,
        };
        let outputs = run(plain, &case.request(&size)).map_err(|error| format!("with {letter} = {own}: {error}"))?;
        Ok::<_, String>(outputs.iter().map(|tensor| tensor.shape().to_vec()).collect::<Vec<_>>())
    };
    let (first, second) = (at(BASE)?, at(2 * BASE)?);
    let line = |(a, b): (&usize, &usize)| 2 * *a as i64 - *b as i64;
    Ok(first.iter().zip(&second).map(|(a, b)| a.iter().zip(b).map(line).collect()).collect())
}

/// The problem of one case, if there is one.
fn problem(case: &Case) -> Option<String> {
    let plain = match session(case.graph(true), PassOptions::none(), Isa::Portable) {
        Ok(session) => session,
        Err(error) => return Some(error),
    };
    let letters = case.letters();
    if let Some(stray) = case.empty.chars().find(|letter| !letters.contains(letter)) {
        return Some(format!("no size is called {stray}"));
    }
    // Each size alone, then all together: there the last size's shapes follow from those with the other sizes at 0.
    let mut rounds: Vec<Vec<char>> = case.empty.chars().map(|letter| vec![letter]).collect();
    if rounds.len() > 1 {
        rounds.push(case.empty.chars().collect());
    }
    for zeros in rounds {
        let (&last, before) = zeros.split_last().expect("one at least");
        let shapes = match extrapolated(&plain, case, before, last) {
            Ok(shapes) => shapes,
            Err(error) => return Some(error),
        };
        let request = case.request(&|letter| if zeros.contains(&letter) { 0 } else { BASE });
        let expected = match run(&plain, &request) {
            Ok(expected) => expected,
            Err(error) => return Some(format!("{zeros:?} of 0: {error}")),
        };
        let found: Vec<Vec<i64>> =
            expected.iter().map(|tensor| tensor.shape().iter().map(|&dim| dim as i64).collect()).collect();
        if found != shapes {
            return Some(format!("{zeros:?} of 0: shapes {found:?}, not {shapes:?}"));
        }
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::detect()) {
            for named in [true, false] {
                let made = session(case.graph(named), PassOptions::default(), isa);
                // Once before and once after a request that is not empty.
                let full = case.request(&|_| BASE);
                let found = made.and_then(|session| {
                    let first = run(&session, &request)?;
                    run(&session, &full)?;
                    Ok([first, run(&session, &request)?])
                });
                let found = match found {
                    Ok(found) => found,
                    Err(error) => return Some(format!("{zeros:?} of 0 at {isa}: {error}")),
                };
                let same = |found: &Vec<Tensor>| found.iter().zip(&expected).all(|(a, b)| alike(a, b));
                if !found.iter().all(same) {
                    return Some(format!("{zeros:?} of 0 at {isa}: {found:?}, not {expected:?}"));
                }
            }
        }
    }
    None
}

/// Whether two tensors are the same up to the order of sums.
fn alike(a: &Tensor, b: &Tensor) -> bool {
    let close = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    a.spec() == b.spec()
        && match (a.as_slice::<f32>(), b.as_slice::<f32>()) {
            (Ok(a), Ok(b)) => a.iter().zip(b).all(close),
            _ => a.same(b),
        }
}

#[track_caller]
fn check(cases: Vec<Case>) {
    let problems: Vec<String> = cases
        .iter()
        .filter_map(|case| problem(case).map(|problem| format!("{} {:?}: {problem}", case.op, case.attrs)))
        .collect();
    assert!(problems.is_empty(), "{} cases are not right:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn element_by_element() {
    let one = "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish \
               Identity IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh \
               Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Dropout Clip";
    let two = "Add Sub Mul Div Pow Max Min Mean Sum PRelu Equal Less LessOrEqual Greater GreaterOrEqual";
    let mut cases: Vec<Case> = one.split_whitespace().map(|op| case(op, "nm").of("n 3 m")).collect();
    for op in two.split_whitespace() {
        cases.push(case(op, "nm").of("n m").of("n m"));
        cases.push(case(op, "nm").of("n m").of("1 m"));
        cases.push(case(op, "nm").of("n 3 m").weights(&[3, 1]));
        cases.push(case(op, "m").of("2 m").weights(&[1]));
    }
    cases.extend(["And", "Or", "Xor"].map(|op| case(op, "nm").typed(DType::Bool, "n m").typed(DType::Bool, "1 m")));
    cases.extend(
        ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "Add", "Mod", "Max"]
            .map(|op| case(op, "nm").typed(DType::I64, "n m").typed(DType::I64, "n m")),
    );
    cases.extend([
        case("Not", "n").typed(DType::Bool, "n 2"),
        case("BitwiseNot", "n").typed(DType::U8, "n 2"),
        case("BitShift", "n").typed(DType::U8, "n 2").typed(DType::U8, "n 2").text("direction", "LEFT"),
        case("Mod", "n").of("n 2").of("n 2").int("fmod", 1),
        case("Where", "nm").typed(DType::Bool, "n 1").of("n m").of("1 m"),
        case("Swish", "n").of("n 2").version(24),
        case("Cast", "n").of("n 2").int("to", 7),
        case("CastLike", "n").of("n 2").typed(DType::I64, "1"),
        case("Bernoulli", "n").of("n 2"),
        case("Multinomial", "n").of("n 2").int("sample_size", 3),
        case("RandomNormalLike", "n").of("n 2"),
        case("RandomUniformLike", "n").of("n 2"),
        case("QuantizeLinear", "n").of("n 2").floats(&[0.5]).version(13),
        case("QuantizeLinear", "n").of("n 2").floats(&[0.5, 1.0]).int("axis", 1),
        case("DequantizeLinear", "n").typed(DType::U8, "n 2").floats(&[0.5]).version(13),
    ]);
    check(cases);
}

#[test]
fn moved_joined_and_picked() {
    check(vec![
        case("Concat", "nkm").of("n m").of("k m").int("axis", 0),
        case("Split", "m").of("4 m").outputs(2).int("axis", 0).int("num_outputs", 2),
        case("Split", "n").of("n m").outputs(2).int("axis", 0).int("num_outputs", 2),
        case("Slice", "nm").of("n 4 m").list(&[1]).list(&[3]).list(&[1]),
        case("Slice", "n").of("n 4").list(&[0]).list(&[i64::MAX]).list(&[0]),
        case("Pad", "nm").of("n 4 m").list(&[0, 1, 0, 0, 2, 0]),
        case("Pad", "nm").of("n 4 m").list(&[0, 1, 0, 0, 2, 0]).text("mode", "reflect"),
        case("Pad", "nm").of("n m").list(&[1, 0, 0, 2]),
        case("Tile", "nm").of("n m").list(&[2, 3]),
        case("Expand", "nm").of("n 1 m").list(&[1, 5, 1]),
        case("Gather", "nm").of("n 4 m").list(&[3, 0]).int("axis", 1),
        case("Gather", "k").of("4 3").typed(DType::I64, "k 2").int("axis", 1),
        case("GatherElements", "m").of("4 m").typed(DType::I64, "2 m"),
        case("GatherND", "km").of("4 m").typed(DType::I64, "k 1"),
        case("Scatter", "m").of("4 m").typed(DType::I64, "2 m").of("2 m").version(9),
        case("ScatterElements", "km").of("4 m").typed(DType::I64, "k m").of("k m"),
        case("ScatterND", "km").of("4 m").typed(DType::I64, "k 1").of("k m"),
        case("Transpose", "nm").of("n 3 m").ints("perm", &[2, 0, 1]),
        case("Transpose", "nm").of("n 3 m").ints("perm", &[0, 2, 1]),
        case("Transpose", "nm").of("n m 1").ints("perm", &[0, 2, 1]),
        case("Transpose", "nm").of("n m"),
        case("Transpose", "nhw").of("n 3 h w").ints("perm", &[0, 2, 3, 1]),
        case("Transpose", "nh").typed(DType::U8, "n h 1 5").ints("perm", &[0, 2, 1, 3]),
        case("Reshape", "n").of("n 3 4").list(&[0, -1]),
        case("Reshape", "n").of("n 3 4").list(&[-1, 6]),
        case("Reshape", "n").of("n 3 4").list(&[0, 2, -1]),
        case("Flatten", "nm").of("n 3 m"),
        case("Flatten", "nm").of("n 3 m").int("axis", 2),
        case("Squeeze", "n").of("n 1 2").list(&[1]),
        case("Unsqueeze", "n").of("n 2").list(&[0, 2]),
        case("DepthToSpace", "nhw").of("n 8 h w").int("blocksize", 2),
        case("SpaceToDepth", "nhw").of("n 2 h w").int("blocksize", 2),
        case("Trilu", "nm").of("2 n m"),
        case("ReverseSequence", "n").of("3 n 2").typed(DType::I64, "n"),
        case("Compress", "m").of("4 m").tensor(ramp(DType::Bool, &[2])).int("axis", 0),
        case("EyeLike", "nm").of("n m"),
        case("OneHot", "k").typed(DType::I64, "k 2").list(&[5]).floats(&[0.0, 1.0]),
        case("Shape", "nm").of("n m 3"),
        case("Size", "nm").of("n m 3"),
        case("CenterCropPad", "n").of("n 4").list(&[3]).ints("axes", &[1]),
        case("NonZero", "n").typed(DType::Bool, "n"),
        case("TopK", "nm").of("n 4 m").list(&[2]).int("axis", 1).outputs(2),
        case("TopK", "n").of("4 n").list(&[0]).int("axis", 0).outputs(2),
        case("TensorScatter", "n").of("n 1 4 2").of("n 1 1 2").version(24),
    ]);
}

#[test]
fn reduced_and_normalised() {
    let reduce = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp \
                  ReduceSumSquare";
    let mut cases = Vec::new();
    for op in reduce.split_whitespace() {
        cases.push(case(op, "nm").of("n 3 m").list(&[1]));
        cases.push(case(op, "nm").of("n 3 m").list(&[-1]).int("keepdims", 0));
        cases.push(case(op, "nm").of("n 3 m").list(&[0]));
        cases.push(case(op, "nm").of("n 3 m").list(&[0, 2]));
        cases.push(case(op, "n").of("n 3").int("keepdims", 0));
    }
    for op in ["Softmax", "LogSoftmax", "Hardmax", "LpNormalization"] {
        cases.push(case(op, "nm").of("n 3 m").int("axis", 1));
        cases.push(case(op, "nm").of("n 3 m").int("axis", 2));
        cases.push(case(op, "nm").of("n 3 m").int("axis", 0));
    }
    cases.extend([
        case("Softmax", "nm").of("n 3 m").int("axis", 1).version(11),
        case("ArgMax", "nm").of("n 3 m").int("axis", 1),
        case("ArgMin", "nm").of("n 3 m").int("axis", 1).int("keepdims", 0),
        case("CumSum", "nm").of("n m").tensor(Tensor::scalar(1i64)),
        case("BatchNormalization", "nh").of("n 3 h").weights(&[3]).weights(&[3]).weights(&[3]).weights(&[3]),
        case("BatchNormalization", "n").of("n 3").weights(&[3]).weights(&[3]).weights(&[3]).weights(&[3]),
        case("InstanceNormalization", "nh").of("n 3 h").weights(&[3]).weights(&[3]),
        case("GroupNormalization", "nh").of("n 4 h").weights(&[4]).weights(&[4]).int("num_groups", 2),
        case("LayerNormalization", "nm").of("n m 3").weights(&[3]).weights(&[3]),
        case("LayerNormalization", "n").of("n 3 2").weights(&[3, 2]).int("axis", 1).outputs(3),
        case("RMSNormalization", "nm").of("n m 3").weights(&[3]).version(23),
        case("MeanVarianceNormalization", "nh").of("n 3 h 2"),
        case("LRN", "nh").of("n 3 h 2").int("size", 3),
    ]);
    check(cases);
}

#[test]
fn products() {
    check(vec![
        case("MatMul", "nm").of("n 3").of("3 m"),
        case("MatMul", "nk").of("n k").of("k 5"),
        case("MatMul", "bnm").of("b n 3").of("b 3 m"),
        case("MatMul", "n").of("n 3").weights(&[3, 5]),
        case("MatMul", "bn").of("b n 3").weights(&[3, 40]),
        case("MatMul", "n").of("n 3").weights(&[3]),
        case("MatMul", "k").of("k").of("k 5"),
        case("MatMul", "b").of("b 1 3").weights(&[3, 400]),
        case("Gemm", "nm").of("n 3").of("3 m"),
        case("Gemm", "nk").of("n k").of("k 5").weights(&[5]),
        case("Gemm", "n").of("n 3").weights(&[5, 3]).weights(&[5]).int("transB", 1),
        case("Gemm", "n").of("3 n").weights(&[3, 5]).int("transA", 1),
        case("Einsum", "bnm").of("b n 3").of("b 3 m").text("equation", "bij,bjk->bik"),
        case("Einsum", "nk").of("n k").of("k").text("equation", "ij,j->i"),
        case("MatMulInteger", "nm").typed(DType::U8, "n 3").typed(DType::I8, "3 m"),
        case("MatMulInteger", "nk").typed(DType::U8, "n k").typed(DType::U8, "k 5"),
        case("MatMulInteger", "n").typed(DType::U8, "n 3").tensor(ramp(DType::I8, &[3, 5])),
        case("QLinearMatMul", "n")
            .typed(DType::U8, "n 3")
            .floats(&[0.5])
            .tensor(Tensor::scalar(3u8))
            .tensor(ramp(DType::I8, &[3, 5]))
            .floats(&[0.5])
            .tensor(Tensor::scalar(0i8))
            .floats(&[4.0])
            .tensor(Tensor::scalar(9u8)),
        case("Det", "n").of("n 2 2"),
        case("Attention", "bqk").of("b 2 q 4").of("b 2 k 4").of("b 2 k 4").version(23),
        case("MoE", "n")
            .domain(MICROSOFT)
            .version(1)
            .of("n 4")
            .of("n 3")
            .weights(&[3, 5, 4])
            .absent()
            .weights(&[3, 4, 5]),
        case("MoE", "nhi").domain(MICROSOFT).version(1).of("n h").of("n 3").of("3 i h").absent().of("3 h i"),
        case("QMoE", "n")
            .domain(MICROSOFT)
            .version(1)
            .of("n 4")
            .of("n 3")
            .tensor(ramp(DType::U8, &[3, 6, 2]))
            .weights(&[3, 6])
            .absent()
            .tensor(ramp(DType::U8, &[3, 4, 3]))
            .weights(&[3, 4]),
        case("RotaryEmbedding", "bs").of("b 2 s 4").of("b s 2").of("b s 2").version(23),
    ]);
}

#[test]
fn windows() {
    let conv = |shape: &[usize]| case("Conv", "n").of("n 4 h w").weights(shape);
    check(vec![
        conv(&[6, 4, 3, 3]),
        conv(&[6, 4, 3, 3]).ints("pads", &[1, 1, 1, 1]),
        conv(&[6, 4, 1, 1]),
        conv(&[4, 1, 3, 3]).int("group", 4).ints("pads", &[1, 1, 1, 1]),
        conv(&[6, 2, 3, 3]).int("group", 2),
        case("Conv", "nh").of("n 4 h w").weights(&[6, 4, 1, 1]),
        case("Conv", "nh").of("n 4 h").weights(&[6, 4, 3]).ints("pads", &[1, 1]),
        case("Conv", "n").of("n 2 h h h").weights(&[3, 2, 2, 2, 2]),
        case("Conv", "nk").of("n 4 h w").of("k 4 3 3"),
        case("ConvTranspose", "nh").of("n 4 h w").weights(&[4, 5, 2, 2]).ints("strides", &[2, 2]),
        case("ConvTranspose", "n").of("n 4 h w").weights(&[4, 3, 3, 3]).int("group", 2).weights(&[6]),
        case("ConvInteger", "nh").typed(DType::U8, "n 4 h").tensor(ramp(DType::U8, &[5, 4, 1])),
        case("ConvInteger", "n").typed(DType::U8, "n 4 h w").tensor(ramp(DType::U8, &[5, 4, 3, 3])),
        case("QLinearConv", "n")
            .typed(DType::U8, "n 4 h w")
            .floats(&[0.5])
            .tensor(Tensor::scalar(3u8))
            .tensor(ramp(DType::I8, &[5, 4, 3, 3]))
            .floats(&[0.5])
            .tensor(Tensor::scalar(0i8))
            .floats(&[4.0])
            .tensor(Tensor::scalar(9u8)),
        case("DeformConv", "n").of("n 2 h w").weights(&[3, 2, 1, 1]).of("n 2 h w"),
        case("MaxPool", "nc").of("n c h w").ints("kernel_shape", &[2, 2]),
        case("MaxPool", "n").of("n 3 h w").ints("kernel_shape", &[2, 2]).outputs(2),
        case("MaxPool", "n").typed(DType::U8, "n 3 h w").ints("kernel_shape", &[2, 2]),
        case("MaxPool", "nh").of("n 3 h w").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]),
        case("AveragePool", "nc").of("n c h w").ints("kernel_shape", &[2, 2]).ints("pads", &[1, 0, 1, 0]),
        case("AveragePool", "nh")
            .of("n 3 h w")
            .ints("kernel_shape", &[2, 2])
            .ints("strides", &[2, 2])
            .int("ceil_mode", 1),
        case("LpPool", "nc").of("n c h").ints("kernel_shape", &[3]),
        case("GlobalAveragePool", "nc").of("n c h w"),
        case("GlobalMaxPool", "nc").of("n c h"),
        case("GlobalLpPool", "nc").of("n c h w"),
        case("Resize", "nc").of("n c h w").absent().floats(&[1.0, 1.0, 2.0, 2.0]),
        case("Resize", "nc").of("n c h w").absent().floats(&[1.0, 1.0, 2.0, 1.5]).text("mode", "linear"),
        case("Resize", "nc").of("n c h w").absent().floats(&[1.0, 1.0, 2.0, 2.0]).text("mode", "cubic"),
        case("Resize", "nh").of("n 3 h w").absent().floats(&[1.0, 1.0, 2.0, 2.0]).text("mode", "linear"),
        case("Resize", "nc").of("n c h w").absent().absent().list(&[6, 5]).ints("axes", &[2, 3]),
        case("Resize", "n").typed(DType::U8, "n 3 h w").absent().floats(&[1.0, 1.0, 0.5, 2.0]).text("mode", "linear"),
        case("Upsample", "n").of("n 3 h w").floats(&[1.0, 1.0, 2.0, 2.0]).version(9),
        case("GridSample", "nij").of("n 3 h w").of("n i j 2"),
        case("RoiAlign", "k").of("2 3 h w").of("k 4").typed(DType::I64, "k").int("output_height", 2),
        case("MaxRoiPool", "k").of("2 3 h w").of("k 5").ints("pooled_shape", &[2, 2]),
        case("Col2Im", "n").of("n 12 9").list(&[4, 4]).list(&[2, 2]),
        case("MaxUnpool", "n").of("n 1 2 2").typed(DType::I64, "n 1 2 2").ints("kernel_shape", &[2, 2]),
        case("STFT", "n").of("n 16 1").tensor(Tensor::scalar(4i64)).absent().tensor(Tensor::scalar(8i64)),
        case("DFT", "n").of("n 8 1").version(20),
    ]);
}

#[test]
fn what_is_expanded_when_a_model_is_read() {
    let own = |op, empty| case(op, empty).domain(MICROSOFT).version(1);
    let group = |op, empty| own(op, empty).int("groups", 2).int("activation", 1);
    let channels = |case: Case| case.weights(&[4]).weights(&[4]);
    check(vec![
        own("BiasSoftmax", "nm").of("n 3 m").of("1 3 m").int("axis", 1).int("is_inner_broadcast", 0),
        own("BiasSoftmax", "nm").of("n m 3").of("n 1 3").int("axis", 2).int("is_inner_broadcast", 1),
        channels(group("GroupNorm", "nhw").of("n h w 4")),
        channels(group("GroupNorm", "nhw").of("n 4 h w").int("channels_last", 0)),
        channels(group("SkipGroupNorm", "nhw").of("n h w 4")).of("n h w 4").weights(&[4]),
        channels(group("SkipGroupNorm", "nhw").of("n h w 4")).of("n 4"),
        channels(group("SkipGroupNorm", "nhw").of("n 4 h w").int("channels_last", 0)).of("n 4").weights(&[4]),
        own("NhwcConv", "nh").of("n h w 4").weights(&[6, 4, 1, 1]).weights(&[6]),
        own("NhwcFusedConv", "nh")
            .of("n h w 4")
            .weights(&[6, 4, 1, 1])
            .absent()
            .of("n h w 6")
            .text("activation", "Relu"),
        own("RelativePositionBias", "h").of("8 h").list(&[3]).list(&[5]).int("max_distance", 16),
        own("GatedRelativePositionBias", "bs")
            .of("b s 8")
            .weights(&[8])
            .of("1 2 s s")
            .weights(&[4, 6])
            .weights(&[6])
            .weights(&[1, 2, 1, 1])
            .int("num_heads", 2),
        own("CDist", "mk").of("m 3").of("k 3"),
        own("CDist", "mk").of("m 3").of("k 3").text("metric", "euclidean"),
        own("ComplexMul", "nm").of("n m 2").of("n m 2"),
        own("ComplexMulConj", "nm").of("n m 2").of("n m 2"),
        own("Rfft", "nm").of("n m 6").int("signal_ndim", 1),
        own("Irfft", "nm").of("n m 4 2").int("signal_ndim", 1),
        own("Inverse", "n").of("n 2 2"),
        own("UnfoldTensor", "nm").of("n m 6").int("size", 2),
        own("UnfoldTensor", "nm").of("n 6 m").int("dim", 1).int("size", 2),
        own("MurmurHash3", "nm").typed(DType::I64, "n m"),
        own("NGramRepeatBlock", "nt").typed(DType::I64, "n t").of("n 4").int("ngram_size", 2),
        own("CropAndResize", "nhw")
            .of("2 3 h w")
            .of("n 4")
            .typed(DType::I32, "n")
            .tensor(Tensor::from_slice([2], &[2i32, 3]).unwrap()),
        own("WordConvEmbedding", "n").typed(DType::I32, "n 6").weights(&[4, 1, 2, 3]).weights(&[4]).weights(&[5, 3]),
        own("GridSample", "nij").of("n 3 h w").of("n i j 2"),
        own("ScaledSiLU", "nm").of("n m"),
        own("GatedAdd", "nm").of("n m").of("n m").of("n 1"),
        own("GatedRMSNorm", "nm").of("n m 6").weights(&[3]).of("n m 6"),
        own("LinearAttentionGate", "nm").of("n m 6").weights(&[6]).weights(&[6]),
        own("ConvTransposeWithDynamicPads", "n").of("n 4 h").weights(&[4, 5, 3]).list(&[1, 1]).weights(&[5]),
    ]);
}

#[test]
fn streams_of_decoders() {
    let own = |op, empty| case(op, empty).domain(MICROSOFT).version(1);
    check(vec![
        own("MRotaryEmbedding", "bs")
            .of("b s 8")
            .typed(DType::I64, "3 b s")
            .weights(&[4, 2])
            .weights(&[4, 2])
            .ints("mrope_section", &[1, 1, 0])
            .int("num_heads", 2),
        own("BranchwiseRMSNorm", "bs").of("b s 2 4").weights(&[4]),
        own("BranchwiseRMSNorm", "bsh").of("b s h").int("num_branches", 2),
        own("HyperConnectionPreMix", "bsh").of("b s 2 h").of("b s 2"),
        own("HyperConnectionPreMix", "bsh").of("b s h").of("b s h").int("num_branches", 2),
        own("HyperConnectionPostMix", "bsh").of("b s 2 h").of("b s h").of("b s 2 1").of("b s 2 2"),
        own("EngramGate", "bs").of("b s 2 4").of("b s 2 4").of("b s 4").weights(&[2, 4]).weights(&[2, 4]),
        own("MoEGroupRouter", "bs").of("b s 6").weights(&[6]).int("top_k", 2).int("n_group", 3),
        own("GatedDeltaNet", "bsv")
            .of("b s 2 4")
            .of("b s 2 4")
            .of("b s 2 v")
            .absent()
            .absent()
            .absent()
            .of("b 2 v 4")
            .text("update_rule", "linear"),
    ]);
}

#[test]
fn sequences_and_losses() {
    let layer = |op, gates: usize| {
        case(op, "nt").of("t n 3").weights(&[1, gates * 2, 3]).weights(&[1, gates * 2, 2]).outputs(2)
    };
    check(vec![
        layer("RNN", 1),
        layer("GRU", 3),
        layer("LSTM", 4).outputs(3),
        Case { empty: "n", ..layer("LSTM", 4).weights(&[1, 16]).typed(DType::I32, "n") },
        case("NegativeLogLikelihoodLoss", "n").of("n 3 h").typed(DType::I64, "n h").text("reduction", "none"),
        case("NegativeLogLikelihoodLoss", "n").of("n 3").typed(DType::I64, "n").text("reduction", "sum"),
        case("SoftmaxCrossEntropyLoss", "n").of("n 3").typed(DType::I64, "n").text("reduction", "none"),
        case("Binarizer", "n").of("n 3").domain("ai.onnx.ml"),
    ]);
}
