//! Mixtures of experts: MoE and QMoE of ONNX Runtime.
//!
//! A router gives each row a few of many small networks. Rows are grouped by expert, and the rows of an expert go
//! through its products together; an expert that no row chose costs nothing. The number of an expert's rows differs in
//! each request, so products are made for a few counts of rows ([`batches`]), however the rows are distributed.
//!
//! - [`routing`]: which rows go to which expert, and with what weight.
//! - [`products`]: an expert's products, of numbers ([`make_experts`]) or of [`quantised`] weights.
//! - [`activation`]: the step between them.

mod activation;
mod batches;
mod products;
mod quantised;
mod routing;
mod sizes;

use std::sync::Arc;

use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use self::activation::Activation;
use self::products::{Executor, Product};
use self::routing::{Route, Rule};
use self::sizes::Sizes;
use super::convert::narrow_through_f32;
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("com.microsoft", "MoE", |cx| narrow_through_f32(cx, make_experts)),
    ("com.microsoft", "QMoE", |cx| narrow_through_f32(cx, make_quantised)),
];

/// Rows that go through some experts each.
struct Experts {
    /// Experts that a row goes through.
    chosen: usize,
    rule: Rule,
    activation: Activation,
    /// The first product.
    up: Product,
    /// The product beside the first, whose result multiplies the activated one.
    beside: Option<Product>,
    /// The last product.
    down: Product,
}

/// The executors for a number of rows: one for each count of rows that an expert may be given, the fewest first.
struct Ready {
    up: Vec<Executor>,
    beside: Vec<Executor>,
    down: Vec<Executor>,
}

fn make_experts(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let normalised = cx.node.attributes().flag("normalize_routing_weights");
    let beside = cx.node.input(6).map(|_| Product::of_numbers(cx, 6, 7)).transpose()?;
    let (up, down) = (Product::of_numbers(cx, 2, 3)?, Product::of_numbers(cx, 4, 5)?);
    finish(cx, Rule::OfAll { normalised }, [up, down], beside)
}

fn make_quantised(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let normalised = cx.node.attributes().flag("normalize_routing_weights");
    let rule = if cx.node.input(14).is_some() { Rule::Given { normalised } } else { Rule::OfChosen };
    let kind = cx.node.attributes().text("quant_type");
    if kind != "int" {
        return Err(OpError::unsupported(cx.node, format!("attribute quant_type = {kind}")));
    }
    let prepacked = cx.node.attributes().int("weights_prepacked");
    if ![-1, 0].contains(&prepacked) {
        return Err(OpError::unsupported(cx.node, format!("attribute weights_prepacked = {prepacked}")));
    }
    if let Some(index) = (15..cx.node.inputs.len()).find(|&index| cx.node.input(index).is_some()) {
        return Err(OpError::unsupported(cx.node, format!("input {index}, a scale of floats of few bits")));
    }
    let product = |weights, zeros, bits| Product::of_codes(cx, weights, zeros, bits);
    let beside = cx.node.input(8).map(|_| product(8, 13, "fc3_expert_weight_bits")).transpose()?;
    let (up, down) = (product(2, 11, "fc1_expert_weight_bits")?, product(5, 12, "fc2_expert_weight_bits")?);
    finish(cx, rule, [up, down], beside)
}

fn finish(
    cx: &LoadCx<'_>,
    rule: Rule,
    [up, down]: [Product; 2],
    beside: Option<Product>,
) -> Result<Box<dyn Node>, OpError> {
    for name in ["use_sparse_mixer", "swiglu_limit_after_activation"] {
        let found = cx.node.attributes().int(name);
        if found != 0 {
            return Err(OpError::unsupported(cx.node, format!("attribute {name} = {found}")));
        }
    }
    let (chosen, activation) = (size_attribute(cx.node, "k", 1)?, Activation::of(cx.node, beside.is_some())?);
    Ok(Box::new(Experts { chosen, rule, activation, up, beside, down }))
}

/// Sizes of a request.
#[derive(Clone, Copy)]
struct Extent {
    rows: usize,
    /// Elements of a row.
    hidden: usize,
    /// Elements between the products.
    inner: usize,
    experts: usize,
}

impl Experts {
    fn extent(&self, inputs: &[Option<&Tensor>]) -> Result<Extent, NodeError> {
        let (input, router) = (required(inputs, 0)?.shape(), required(inputs, 1)?.shape());
        let (rows, hidden) = match *input {
            [batch, rows, hidden] => (batch.saturating_mul(rows), hidden),
            [rows, hidden] => (rows, hidden),
            _ => return Err(refused(format!("input 0 has shape {input:?}, not of rank 2 or 3"))),
        };
        let (up, down) = (self.up.sizes(inputs)?, self.down.sizes(inputs)?);
        let (experts, inner) = (up.experts, down.k);
        if router != [rows, experts] {
            return Err(refused(format!("input 1 has shape {router:?} where {:?} is needed", [rows, experts])));
        }
        if self.chosen > experts {
            return Err(refused(format!("k = {} of {experts} experts", self.chosen)));
        }
        let width = inner.checked_mul(self.activation.width());
        let beside = self.beside.as_ref().map(|beside| beside.sizes(inputs)).transpose()?;
        let fits = width == Some(up.n)
            && up.k == hidden
            && down == Sizes { experts, n: hidden, k: inner }
            && beside.is_none_or(|beside| beside == Sizes { experts, n: inner, k: hidden });
        if !fits {
            let beside = beside.map_or_else(String::new, |beside| format!(" and {beside}"));
            return Err(refused(format!("experts of {up}{beside}, then {down}, for rows of {hidden} elements")));
        }
        Ok(Extent { rows, hidden, inner, experts })
    }

    fn products(&self) -> impl Iterator<Item = &Product> {
        [Some(&self.up), self.beside.as_ref(), Some(&self.down)].into_iter().flatten()
    }
}

impl Node for Experts {
    fn family(&self) -> &'static str {
        "experts"
    }

    fn kept_inputs(&self) -> u64 {
        self.products().fold(0, |kept, product| kept | product.kept())
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let extent = self.extent(inputs)?;
        for index in [0, 1, 14] {
            match optional(inputs, index) {
                Some(tensor) if tensor.dtype() != DType::F32 => {
                    return Err(NodeError::Unsupported(format!("input {index} of {}", tensor.dtype())));
                }
                Some(tensor) if index == 14 && tensor.shape() != [extent.rows, extent.experts] => {
                    let needed = [extent.rows, extent.experts];
                    return Err(refused(format!("input 14 has shape {:?} where {needed:?} is needed", tensor.shape())));
                }
                _ => {}
            }
        }
        self.products().try_for_each(|product| product.check(inputs))
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let Extent { rows, hidden, .. } = self.extent(inputs)?;
        // No row has an expert twice.
        let sizes = || batches::sizes(if hidden == 0 { 0 } else { rows });
        let made = |product: &Product| sizes().map(|rows| product.executor(cx, inputs, rows)).collect::<Result<_, _>>();
        let beside = self.beside.as_ref().map(made).transpose()?.unwrap_or_default();
        Ok(Prepared::new(Arc::new(Ready { up: made(&self.up)?, beside, down: made(&self.down)? })))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = self.run(prepared.get()?, &io.inputs(), io.alloc(0)?, cx)?;
        io.push(output);
        Ok(())
    }
}

impl Experts {
    fn run(
        &self,
        ready: &Ready,
        inputs: &[Option<&Tensor>],
        mut output: Tensor,
        cx: &RunCx<'_>,
    ) -> Result<Tensor, NodeError> {
        let extent = self.extent(inputs)?;
        let sums = output.as_mut_slice::<f32>()?;
        sums.fill(0.0);
        if ready.up.is_empty() {
            return Ok(output);
        }
        let router = required(inputs, 1)?.as_slice::<f32>()?;
        let weights = optional(inputs, 14).map(Tensor::as_slice::<f32>).transpose()?.unwrap_or(router);
        let routes = self.rule.routes(self.chosen, extent.experts, router, weights);
        let (given, most) = (required(inputs, 0)?.as_slice::<f32>()?, batches::largest(routes.most()));
        let memory = |elements: usize| cx.scratch::<f32>(most.saturating_mul(elements));
        let (mut rows, mut results) = (memory(extent.hidden)?, memory(extent.hidden)?);
        let mut between = Between {
            up: memory(extent.inner * self.activation.width())?,
            beside: memory(if self.beside.is_some() { extent.inner } else { 0 })?,
            inner: memory(extent.inner)?,
        };
        for expert in 0..extent.experts {
            let mut left = routes.of(expert);
            while !left.is_empty() {
                cx.check_stop()?;
                let batch = batches::next(left.len());
                let (now, later) = left.split_at(batch.rows);
                let call = Call { ready, inputs, expert, batch: batch.index, cx };
                let size = batch.size() * extent.hidden;
                gather(now, given, extent.hidden, &mut rows.as_mut_slice()?[..size]);
                let results = &mut results.as_mut_slice()?[..size];
                self.run_expert(&call, extent, &rows.as_slice()?[..size], &mut between, results)?;
                add(now, results, extent.hidden, sums);
                left = later;
            }
        }
        Ok(output)
    }

    /// One expert's products of some rows.
    fn run_expert(
        &self,
        call: &Call<'_>,
        extent: Extent,
        rows: &[f32],
        between: &mut Between,
        results: &mut [f32],
    ) -> Result<(), NodeError> {
        let count = rows.len() / extent.hidden;
        let wide = extent.inner * self.activation.width();
        let up = &mut between.up.as_mut_slice::<f32>()?[..count * wide];
        self.up.run(call, &call.ready.up, rows, up)?;
        let beside = match &self.beside {
            Some(product) => {
                let beside = &mut between.beside.as_mut_slice::<f32>()?[..count * extent.inner];
                product.run(call, &call.ready.beside, rows, beside)?;
                Some(&*beside)
            }
            None => None,
        };
        let inner = &mut between.inner.as_mut_slice::<f32>()?[..count * extent.inner];
        self.activation.run(up, beside, inner, extent.inner, call.cx.parallel);
        self.down.run(call, &call.ready.down, inner, results)
    }
}

/// The operands that an expert's products share in one call.
struct Call<'a> {
    ready: &'a Ready,
    inputs: &'a [Option<&'a Tensor>],
    expert: usize,
    /// The number of the executor.
    batch: usize,
    cx: &'a RunCx<'a>,
}

/// Memory between an expert's products.
struct Between {
    up: Tensor,
    beside: Tensor,
    inner: Tensor,
}

/// Copies the routed rows, and fills the rest with zeros.
fn gather(routes: &[Route], given: &[f32], hidden: usize, rows: &mut [f32]) {
    let (filled, rest) = rows.split_at_mut(routes.len() * hidden);
    for (route, row) in routes.iter().zip(filled.chunks_exact_mut(hidden)) {
        row.copy_from_slice(&given[route.row * hidden..][..hidden]);
    }
    rest.fill(0.0);
}

/// Adds each result, times its weight, to the sum of its row.
fn add(routes: &[Route], results: &[f32], hidden: usize, sums: &mut [f32]) {
    for (route, result) in routes.iter().zip(results.chunks_exact(hidden)) {
        let sum = &mut sums[route.row * hidden..][..hidden];
        sum.iter_mut().zip(result).for_each(|(sum, result)| *sum += route.weight * result);
    }
}

#[cfg(test)]
mod tests;
