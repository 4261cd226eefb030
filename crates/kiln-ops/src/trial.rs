//! A trial of one operator in the unit tests of this floor: a node made from a table row, run once on given inputs.
//!
//! [`Trial`] goes the way that a graph goes: make, infer, prepare, execute. It knows no model and no file.

use std::sync::Arc;

use kiln_kernels::parallel::Pool;
use kiln_kernels::{Isa, Parallel, Serial};
use kiln_model::{Attr, Graph, NodeDesc, operators};
use kiln_run::exec::BuildCx;
use kiln_run::inference::Inference;
use kiln_run::node::PrepareCx;
use kiln_run::{Io, RunCx};
use kiln_tensor::{BufferPool, DType, Element, Tensor};

use super::{LoadCx, lookup};

/// One operator with attributes and inputs.
pub(crate) struct Trial {
    node: NodeDesc,
    inputs: Vec<Option<Tensor>>,
    make: Option<super::MakeNode>,
    threads: usize,
}

impl Trial {
    /// The newest version of an operator of any domain, with one output.
    pub(crate) fn new(op: &str) -> Trial {
        // A name that is in more than one domain is ONNX's own.
        let domain = operators::all().filter(|row| row.name == op).map(|row| row.domain).min().unwrap_or_default();
        let (domain, op) = (domain.to_owned(), op.to_owned());
        let first = operators::find(&domain, &op).and_then(|row| row.since.first().copied());
        let version = first.map_or(26, |first| i64::from(first).max(26));
        let node = NodeDesc { domain, op, version, ..NodeDesc::default() };
        Trial { node, inputs: Vec::new(), make: None, threads: 1 }.outputs(1)
    }

    /// The operator of that name of another domain.
    pub(crate) fn of_domain(mut self, domain: &str) -> Trial {
        domain.clone_into(&mut self.node.domain);
        self
    }

    /// The operator of an older operator set.
    pub(crate) fn version(mut self, version: i64) -> Trial {
        self.node.version = version;
        self
    }

    /// With that maker instead of the tables' one.
    pub(crate) fn made_by(mut self, make: super::MakeNode) -> Trial {
        self.make = Some(make);
        self
    }

    /// On that many threads.
    pub(crate) fn threads(mut self, threads: usize) -> Trial {
        self.threads = threads;
        self
    }

    /// With an attribute.
    pub(crate) fn attr(mut self, name: &str, value: Attr) -> Trial {
        self.node.attrs.insert(name.to_owned(), value);
        self
    }

    /// With an integer attribute.
    pub(crate) fn int(self, name: &str, value: i64) -> Trial {
        self.attr(name, Attr::Int(value))
    }

    /// With a list of integers as an attribute.
    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Trial {
        self.attr(name, Attr::Ints(values.to_vec()))
    }

    /// With a string attribute.
    pub(crate) fn text(self, name: &str, value: &str) -> Trial {
        self.attr(name, Attr::Str(value.to_owned()))
    }

    /// With a number of outputs.
    pub(crate) fn outputs(mut self, count: u32) -> Trial {
        self.node.outputs = (0..count).map(|i| Some(kiln_model::ValueId(1000 + i))).collect();
        self
    }

    /// With these outputs; `None` is one that is not wanted.
    pub(crate) fn outputs_at(mut self, outputs: &[Option<kiln_model::ValueId>]) -> Trial {
        self.node.outputs = outputs.to_vec();
        self
    }

    /// With a tensor as the next input.
    pub(crate) fn tensor(mut self, tensor: Tensor) -> Trial {
        self.inputs.push(Some(tensor));
        self
    }

    /// With elements as the next input.
    pub(crate) fn input<T: Element>(self, shape: &[usize], values: &[T]) -> Trial {
        self.tensor(Tensor::from_slice(shape.iter().copied(), values).expect("a table row is well formed"))
    }

    /// With other elements of an input that is there.
    pub(crate) fn replaced<T: Element>(mut self, index: usize, values: &[T]) -> Trial {
        let shape = self.inputs[index].as_ref().map(|input| input.shape().to_vec()).expect("an input to replace");
        self.inputs[index] = Some(Tensor::from_slice(shape, values).expect("as many elements"));
        self
    }

    /// With the next input left out.
    pub(crate) fn absent(mut self) -> Trial {
        self.inputs.push(None);
        self
    }

    /// Makes the node and runs it; returns a refusal of any step as text.
    pub(crate) fn run(&self) -> Result<Vec<Tensor>, String> {
        let mut graph = Graph::default();
        let mut node = self.node.clone();
        node.inputs = Vec::new();
        for input in &self.inputs {
            node.inputs.push(input.as_ref().map(|tensor| graph.add_constant("input", tensor.clone())));
        }
        for output in node.outputs.iter_mut().flatten() {
            *output = graph.fresh("output");
        }
        let pool = Pool::new(self.threads, "trial").map_err(|error| error.to_string())?;
        run_node_on(&pool, &graph, &node, &self.inputs, self.make).map(|ran| ran.outputs)
    }

    /// Runs and compares the first output.
    #[track_caller]
    pub(crate) fn gives<T: Element>(&self, shape: &[usize], values: &[T]) {
        let outputs = self.run().expect("the row is valid");
        assert_eq!(outputs[0].shape(), shape, "shape");
        assert_eq!(outputs[0].as_slice::<T>().expect("type"), values);
    }

    /// Runs and compares the first output within a relative and absolute tolerance.
    #[track_caller]
    pub(crate) fn gives_about(&self, shape: &[usize], values: &[f32]) {
        let outputs = self.run().expect("the row is valid");
        assert_eq!(outputs[0].shape(), shape, "shape");
        for (index, (&found, &expected)) in outputs[0].as_slice::<f32>().expect("type").iter().zip(values).enumerate() {
            let close = (found - expected).abs() <= 1e-5 + 1e-5 * expected.abs();
            assert!(
                close || found == expected || found.is_nan() && expected.is_nan(),
                "{index}: {found} for {expected}"
            );
        }
    }

    /// Runs and compares the first output, of strings.
    #[track_caller]
    pub(crate) fn gives_strings(&self, shape: &[usize], values: &[&str]) {
        let outputs = self.run().expect("the row is valid");
        assert_eq!(outputs[0].shape(), shape, "shape");
        assert_eq!(outputs[0].as_strings().expect("type"), values);
    }

    /// Expects a refusal whose message contains `part`.
    #[track_caller]
    pub(crate) fn is_refused(&self, part: &str) {
        match self.run() {
            Ok(outputs) => panic!("expected a refusal about {part:?}, found {outputs:?}"),
            Err(reason) => assert!(reason.contains(part), "expected a refusal about {part:?}, found {reason:?}"),
        }
    }
}

/// Makes a node of that graph and runs it on those inputs; returns a refusal of any step as text.
pub(crate) fn run_node(
    graph: &Graph,
    node: &NodeDesc,
    inputs: &[Option<Tensor>],
    make: Option<super::MakeNode>,
) -> Result<Vec<Tensor>, String> {
    run_node_on(&Serial, graph, node, inputs, make).map(|ran| ran.outputs)
}

/// The results of running a node.
pub(crate) struct Ran {
    pub(crate) outputs: Vec<Tensor>,
    /// How often it asked the cache of executors.
    pub(crate) lookups: u64,
}

/// As [`run_node`] on those threads.
pub(crate) fn run_node_on(
    parallel: &dyn Parallel,
    graph: &Graph,
    node: &NodeDesc,
    inputs: &[Option<Tensor>],
    make: Option<super::MakeNode>,
) -> Result<Ran, String> {
    let build = build_cx();
    let make = make.or_else(|| lookup(&node.domain, &node.op)).ok_or("no such operator")?;
    let running =
        make(&LoadCx { node, graph, build: &build, packing: &build.isa.into() }).map_err(|error| error.to_string())?;
    // Importing refuses such nodes first; here a maker's own refusal comes first.
    if let Some(refusal) = operators::of(node).and_then(|row| row.refusal(node)) {
        return Err(format!("{refusal:?}"));
    }
    let given: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
    let specs = Inference::of(node).specs(running.as_ref(), &given).map_err(|error| error.to_string())?;
    let prepared =
        running.prepare_params(&PrepareCx::new(&build), &given, &specs).map_err(|error| format!("prepare: {error}"))?;
    let buffers = BufferPool::new(1 << 20);
    let mut io = Io::new(inputs.iter().cloned().collect(), &specs, &buffers);
    let run = RunCx { parallel, buffers: &buffers, steps: 1 << 20, stop: None };
    running.execute(&prepared, &mut io, &run).map_err(|error| format!("execute: {error}"))?;
    let outputs = io.into_outputs();
    assert_eq!(outputs.len(), specs.len(), "one output for each spec");
    for (output, spec) in outputs.iter().zip(&specs) {
        assert_eq!(output.spec(), spec, "what was made is what was announced");
    }
    Ok(Ran { outputs: outputs.into_vec(), lookups: build.cache.stats().lookups })
}

/// Numbers from -1 to 1 that rise by `by` and start again, with the same bits each time. A sine's bits may differ
/// between compile time and run time.
pub(crate) fn numbers(count: usize, by: f32) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * by + 0.3).fract() * 2.0 - 1.0).collect()
}

/// Strings as a tensor.
pub(crate) fn strings(shape: &[usize], values: &[&str]) -> Tensor {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    Tensor::from_strings(shape.iter().copied(), values).expect("a table row is well formed")
}

/// Booleans as tensors hold them.
pub(crate) fn bools<const N: usize>(values: [bool; N]) -> [kiln_tensor::BoolByte; N] {
    values.map(Into::into)
}

/// ONNX's number of an element type.
pub(crate) fn onnx_code(dtype: DType) -> i64 {
    kiln_tensor::ONNX_NUMBERS.iter().find(|(_, known)| *known == dtype).map_or(0, |&(code, _)| code)
}

/// The context that nodes are made with: plain Rust, one thread, a cache of its own.
pub(crate) fn build_cx() -> BuildCx {
    BuildCx {
        isa: Isa::Portable,
        threads: 1,
        numerics: Default::default(),
        precision: Default::default(),
        cache: Arc::new(kiln_cache::Cache::new(kiln_cache::Limits { entries: 64, bytes: 1 << 20 })),
        records: Arc::new(kiln_run::record::Store::in_memory()),
        check: false,
        gpu: None,
    }
}
