//! Einsum: any sum of products of elements that an equation over axis names describes.
//!
//! Every name becomes a loop, those of the output outermost, and each operand a stride along every loop; a name that
//! stands twice in one operand adds its strides, which reads a diagonal. The innermost loop runs over whole rows.
//! Equations of two operands that are matrix products run on kernels instead ([`product`]).

mod product;

use std::sync::Arc;

use kiln_kernels::memory;
use kiln_model::operators::einsum::{Equation, Name};
use kiln_run::node::PrepareCx;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Shape, Tensor, TensorError, TensorSpec, element_count};

use self::product::Product;
use super::convert::narrow_through_f32;
use super::generic::{Arithmetic, Binary, compute};
use super::wide::{Width, narrow, widened};
use super::{LoadCx, OpError, Operator, Run, refused, strides};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Einsum", |cx| narrow_through_f32(cx, make))];

struct Einsum {
    equation: Equation,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let text = cx.node.attributes().word("equation");
    let text = text.ok_or_else(|| OpError::invalid(cx.node, "no equation"))?;
    let equation = Equation::parse(text).ok_or_else(|| OpError::invalid(cx.node, format!("equation = {text:?}")))?;
    if equation.operands() != cx.node.inputs.len() {
        return Err(OpError::invalid(cx.node, format!("equation = {text:?} for {} inputs", cx.node.inputs.len())));
    }
    Ok(Box::new(Einsum { equation }))
}

/// The node as prepared for one set of shapes.
struct Ready {
    plan: Plan,
    /// The matrix product that runs in place of the plan's loops.
    product: Option<Product>,
}

/// The loops of one set of shapes.
#[derive(Debug)]
struct Plan {
    /// Iterations of each loop: first those of the output's axes, then those that are summed over.
    sizes: Vec<usize>,
    output: Shape,
    /// For each operand, elements from one iteration to the next of each loop.
    strides: Vec<Vec<usize>>,
}

impl Plan {
    /// Innermost steps: every operand is read at every place of all loops.
    fn steps(&self) -> u64 {
        self.sizes.iter().fold(self.strides.len() as u64, |steps, &size| steps.saturating_mul(size as u64))
    }
}

impl Einsum {
    fn plan(&self, inputs: &[Option<&Tensor>]) -> Result<Plan, NodeError> {
        let operands: Vec<&Tensor> =
            inputs.iter().copied().collect::<Option<_>>().ok_or_else(|| refused("an input is missing"))?;
        let error = || {
            refused(format!(
                "shapes {:?} do not fit the equation",
                operands.iter().map(|t| t.shape()).collect::<Vec<_>>()
            ))
        };
        let ranks: Vec<usize> = operands.iter().map(|tensor| tensor.shape().len()).collect();
        let named = self.equation.names(&ranks).ok_or_else(error)?;
        let (names, mut loops) = (named.operands, named.output);
        let kept = loops.len();
        let mut all: Vec<Name> = names.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        loops.extend(all.into_iter().filter(|name| !loops[..kept].contains(name)).collect::<Vec<_>>());
        let mut plan = Plan { sizes: memory::filled(1, loops.len()), output: Shape::new(), strides: Vec::new() };
        for (tensor, names) in operands.iter().zip(&names) {
            let mut own = memory::zeroed(loops.len());
            for ((name, &size), stride) in names.iter().zip(tensor.shape()).zip(strides(tensor.shape())) {
                let at = loops.iter().position(|other| other == name).ok_or_else(error)?;
                match (plan.sizes[at], size) {
                    (_, 1) => {}
                    (1, _) => plan.sizes[at] = size,
                    (have, size) if have == size => {}
                    _ => return Err(error()),
                }
                own[at] += if size == 1 { 0 } else { stride };
            }
            plan.strides.push(own);
        }
        plan.output = plan.sizes[..kept].iter().copied().collect();
        element_count(&plan.sizes, 1)?;
        Ok(plan)
    }
}

fn sum<W: Arithmetic>(plan: &Plan, io: &Io<'_>, cx: &RunCx<'_>) -> Result<Tensor, NodeError> {
    let to = io.alloc(0)?;
    let operands = io.inputs().into_iter().flatten().map(widened::<W>).collect::<Result<Vec<_>, _>>()?;
    let mut output = memory::zeroed(to.len());
    let kept = plan.output.len();
    let (outer, inner) = plan.sizes.split_at(plan.sizes.len().saturating_sub(1));
    let length = inner.first().copied().unwrap_or(1);
    // Whether the rows are summed up, or are rows of the output.
    let summed = kept < plan.sizes.len() || plan.sizes.is_empty();
    let output_strides = strides(&plan.output);
    let mut index = memory::zeroed(outer.len());
    let (mut row, mut other) = (memory::zeroed(length), memory::zeroed(length));
    if plan.sizes.contains(&0) {
        return narrow(&output, to);
    }
    loop {
        cx.check_stop()?;
        for (number, (values, strides)) in operands.iter().zip(&plan.strides).enumerate() {
            let start = index.iter().zip(strides).map(|(at, stride)| at * stride).sum();
            let run = Run { start, count: length, stride: strides.last().copied().unwrap_or(0) as isize };
            if number == 0 {
                run.read(values, &mut row);
            } else {
                run.read(values, &mut other);
                W::long_binary(Binary::Mul, &mut row, &other)?;
            }
        }
        let place: usize = index.iter().zip(&output_strides).map(|(at, stride)| at * stride).sum();
        if summed {
            let total = [W::fold(Binary::Add, &mut row)?.unwrap_or_default()];
            W::binary(Binary::Add, &mut output[place..=place], &total)?;
        } else {
            W::long_binary(Binary::Add, &mut output[place..place + length], &row)?;
        }
        let Some(moving) = (0..outer.len()).rev().find(|&at| index[at] + 1 < outer[at]) else {
            return narrow(&output, to);
        };
        index[moving] += 1;
        index[moving + 1..].fill(0);
    }
}

impl Node for Einsum {
    fn family(&self) -> &'static str {
        "Einsum"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let mut types = inputs.iter().flatten().map(|tensor| tensor.dtype());
        let expected = types.next().ok_or_else(|| refused("an input is missing"))?;
        if let Some(found) = types.find(|&dtype| dtype != expected) {
            return Err(TensorError::Type { expected, found }.into());
        }
        Width::of(expected).map(drop)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let plan = self.plan(inputs)?;
        let strides = plan.strides.iter().map(|strides| size_of::<Vec<usize>>() + size_of_val(&strides[..]));
        let held = strides.sum::<usize>() + size_of_val(&plan.sizes[..]);
        let product = match *inputs {
            [Some(first), Some(second)] => Product::prepare(cx, &plan, [first, second])?,
            _ => None,
        };
        Ok(Prepared::holding(Arc::new(Ready { plan, product }), held))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Ready { plan, product } = prepared.get()?;
        let output = match product {
            Some(product) => product.run([io.input(0)?, io.input(1)?], io.alloc(0)?, cx)?,
            None => {
                cx.check_steps(plan.steps())?;
                compute!(io.spec(0).dtype, sum(plan, io, cx))?
            }
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    fn einsum(equation: &str) -> Trial {
        Trial::new("Einsum").text("equation", equation)
    }

    #[test]
    fn equations_say_what_is_multiplied_and_summed() {
        let square = [1f32, 2.0, 3.0, 4.0];
        einsum("ij->ji").input(&[2, 2], &square).gives(&[2, 2], &[1f32, 3.0, 2.0, 4.0]);
        einsum("ij->i").input(&[2, 2], &square).gives(&[2], &[3f32, 7.0]);
        einsum("ii->i").input(&[2, 2], &square).gives(&[2], &[1f32, 4.0]);
        einsum("ii").input(&[2, 2], &square).gives(&[], &[5f32]);
        einsum("ij, jk -> ik").input(&[2, 2], &square).input(&[2, 1], &[1f32, 2.0]).gives(&[2, 1], &[5f32, 11.0]);
        einsum("i,i").input(&[2], &[1i32, 2]).input(&[2], &[3i32, 4]).gives(&[], &[11i32]);
        einsum("i,j").input(&[2], &[1i64, 2]).input(&[2], &[3i64, 4]).gives(&[2, 2], &[3i64, 4, 6, 8]);
        einsum(",").input(&[], &[3f64]).input(&[], &[4f64]).gives(&[], &[12f64]);
        einsum("ij->").input::<f32>(&[0, 2], &[]).gives(&[], &[0f32]);
    }

    /// Matrix products run on kernels in `f32` and in loops in `f64`; sums of small integers are exact in both.
    #[test]
    fn products_of_matrices_in_any_order_of_axes_are_what_loops_give() {
        let sizes = [("b", 2), ("c", 3), ("h", 4), ("i", 5), ("j", 6), ("k", 8), ("m", 1), ("n", 7)];
        let shape = |names: &str| -> Vec<usize> {
            names.chars().map(|name| sizes.iter().find(|(n, _)| n.starts_with(name)).unwrap().1).collect()
        };
        for (left, right, output) in [
            ("ik", "kj", "ij"),
            ("ik", "kj", "ji"),
            ("ki", "jk", "ij"),
            ("bhik", "bhjk", "bhij"),
            ("bhij", "bhjk", "bihk"),
            ("bihk", "bjhk", "bhij"),
            ("bhik", "hjk", "bhij"),
            ("bikh", "hjk", "bhij"),
            ("ik", "bkj", "bij"),
            ("bcij", "ijk", "bck"),
            ("bij", "ck", "bickj"),
            ("bimk", "mkj", "bijm"),
            ("bk", "bk", "b"),
            ("bik", "bk", "ib"),
            ("bcnk", "bhk", "nchb"),
            ("ij", "ij", "ij"),
            ("bik", "bjc", "bij"),
            ("iik", "kj", "ij"),
            ("bhijk", "chbjk", "ihc"),
        ] {
            let [left_shape, right_shape] = [shape(left), shape(right)];
            let values = |shape: &[usize], step: usize| -> Vec<f64> {
                (0..shape.iter().product()).map(|at: usize| ((at * step) % 13) as f64 - 6.0).collect()
            };
            let (a, b) = (values(&left_shape, 7), values(&right_shape, 5));
            let equation = format!("{left},{right}->{output}");
            let want = einsum(&equation).input(&left_shape, &a).input(&right_shape, &b).run().unwrap().remove(0);
            let want: Vec<f32> = want.as_slice::<f64>().unwrap().iter().map(|&value| value as f32).collect();
            let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<_>>();
            let row = einsum(&equation).input(&left_shape, &narrow(&a)).input(&right_shape, &narrow(&b));
            row.threads(2).gives(&shape(output), &want);
        }
    }

    #[test]
    fn ellipses_stand_for_axes_that_broadcast() {
        let stack: Vec<f32> = (0..8).map(|v| v as f32).collect();
        let row = einsum("...ij,...jk->...ik").input(&[2, 2, 2], &stack).input(&[2, 1], &[1f32, 1.0]);
        row.gives(&[2, 2, 1], &[1f32, 5.0, 9.0, 13.0]);
        einsum("...ii->...i").input(&[2, 2, 2], &stack).gives(&[2, 2], &[0f32, 3.0, 4.0, 7.0]);
        einsum("b...->...b").input(&[2, 3], &stack[..6]).gives(&[3, 2], &[0f32, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn a_few_elements_cannot_ask_for_any_number_of_steps() {
        let many = |letters: &str| {
            let trial = einsum(&format!("{letters}->"));
            letters.split(',').fold(trial, |trial, _| trial.input(&[8], &[1f32; 8]))
        };
        many("a,b,c,d,e").gives(&[], &[32768f32]);
        many("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t").is_refused("steps of one operator");
    }

    #[test]
    fn broken_equations_are_refused() {
        einsum("i1->i").input(&[2], &[0f32; 2]).is_refused("equation");
        einsum("i,j->ij").input(&[2], &[0f32; 2]).is_refused("for 1 inputs");
        einsum("ij->i").input(&[2], &[0f32; 2]).is_refused("do not fit");
        einsum("i->ii").input(&[2], &[0f32; 2]).is_refused("do not fit");
        einsum("i->j").input(&[2], &[0f32; 2]).is_refused("do not fit");
        einsum("i,i->i").input(&[2], &[0f32; 2]).input(&[3], &[0f32; 3]).is_refused("do not fit");
        einsum("i,i->i").input(&[1], &[0f32]).input(&[1], &[0f64]).is_refused("float64");
    }
}
