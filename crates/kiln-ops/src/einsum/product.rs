//! Equations of two operands that are matrix products: they run on the kernels of MatMul.
//!
//! A loop that both operands and the output have is one of the batch. A loop of the output that one operand alone has
//! goes over the rows or the columns of a matrix, and a loop that both operands have and the output lacks is summed
//! over. The last loops of the output are the matrix; all before them are the batch, which an operand may repeat. An
//! operand whose matrices are not dense is rearranged first, and so is the output where a loop of the batch lies within
//! its rows and columns.

use std::sync::Arc;

use kiln_kernels::cpu::Elements;
use kiln_kernels::cpu::PackedWeights;
use kiln_kernels::cpu::gemm::{Extras, Matmul, MatmulStored};
use kiln_kernels::cpu::transpose::Transpose;
use kiln_kernels::memory;
use kiln_run::exec::matmul::{BatchStep, MatMulProblem, Stored};
use kiln_run::exec::transpose::TransposeProblem;
use kiln_run::node::PrepareCx;
use kiln_run::{NodeError, RunCx};
use kiln_tensor::{DType, Shape, Tensor};
use smallvec::SmallVec;

use super::super::{refused, strides};
use super::Plan;

/// Multiplications of a matrix below which loops take no longer; for a single element, which fills one lane of a
/// kernel's many, there are more.
const LEAST: usize = 16;
const LEAST_OF_ONE: usize = 512;

/// A matrix product with what is rearranged around it.
pub(super) struct Product {
    left: Side,
    right: Side,
    matmul: Arc<Matmul>,
    /// Moves the product's axes to the output's order.
    back: Option<Arc<Transpose>>,
}

/// One side of the product.
struct Side {
    /// The operand that it is.
    operand: usize,
    /// Makes its matrices dense.
    moved: Option<Arc<Transpose>>,
}

/// Numbers of loops.
type Loops = SmallVec<[usize; 8]>;

/// Which loops are which.
struct Roles {
    batch: Loops,
    rows: Loops,
    columns: Loops,
    summed: Loops,
}

/// How the matrices of an operand lie.
struct Layout {
    stored: Stored,
    /// Elements from one iteration to the next of each loop.
    steps: Vec<usize>,
    /// The order of loops that the operand is brought into.
    order: Option<Loops>,
}

impl Product {
    /// The product that the plan of two operands is; `None` where it is none, or no kernel rearranges an operand.
    pub(super) fn prepare(
        cx: &PrepareCx<'_>,
        plan: &Plan,
        operands: [&Tensor; 2],
    ) -> Result<Option<Product>, NodeError> {
        if operands.iter().any(|tensor| tensor.dtype() != DType::F32) || plan.sizes.contains(&0) {
            return Ok(None);
        }
        let Some((roles, left)) = plan.roles() else { return Ok(None) };
        let product = |loops: &Loops| loops.iter().map(|&at| plan.sizes[at]).product::<usize>();
        let (m, n, k) = (product(&roles.rows), product(&roles.columns), product(&roles.summed));
        let least = if m.saturating_mul(n) == 1 { LEAST_OF_ONE } else { LEAST };
        if m.saturating_mul(n).saturating_mul(k) < least {
            return Ok(None);
        }
        let (of_left, of_right) = (&plan.strides[left], &plan.strides[1 - left]);
        let left_layout = plan.layout(of_left, &roles.batch, [&roles.rows, &roles.summed], Stored::Rows);
        let right_layout = plan.layout(of_right, &roles.batch, [&roles.columns, &roles.summed], Stored::Columns);
        let batch = plan.batch(&roles.batch, &left_layout.steps, &right_layout.steps);
        let problem = MatMulProblem {
            m: m as u64,
            n: n as u64,
            k: k as u64,
            batch,
            left: left_layout.stored,
            right: right_layout.stored,
            elements: Elements::F32,
            scale: 1.0.into(),
            bias: false,
            activation: None,
            stored: MatmulStored::default(),
        };
        // The product's axes, and their order in the output.
        let axes: Loops = roles.batch.iter().chain(&roles.rows).chain(&roles.columns).copied().collect();
        let shape: Shape = axes.iter().map(|&at| plan.sizes[at]).collect();
        let mut order: Loops = (0..axes.len()).collect();
        order.sort_unstable_by_key(|&axis| axes[axis]);
        let Some(back) = moving(cx, &shape, &order)? else { return Ok(None) };
        let mut sides: SmallVec<[Side; 2]> = SmallVec::new();
        for (operand, layout) in [(left, &left_layout), (1 - left, &right_layout)] {
            let moved = match &layout.order {
                None => None,
                Some(loops) => match plan.moving(cx, &plan.strides[operand], loops)? {
                    None => return Ok(None),
                    Some(moved) => moved,
                },
            };
            sides.push(Side { operand, moved });
        }
        let matmul = cx.executor(&cx.key(problem))?;
        let [left, right] = sides.into_inner().map_err(|_| refused("two sides"))?;
        Ok(Some(Product { left, right, matmul, back }))
    }

    /// Computes it.
    pub(super) fn run(&self, operands: [&Tensor; 2], mut output: Tensor, cx: &RunCx<'_>) -> Result<Tensor, NodeError> {
        let (left, right) = (self.left.dense(operands, cx)?, self.right.dense(operands, cx)?);
        let (left, right) = (
            left.as_ref().unwrap_or(operands[self.left.operand]).as_slice::<f32>()?,
            right.as_ref().unwrap_or(operands[self.right.operand]).as_slice::<f32>()?,
        );
        let mut scratch = cx.scratch::<f32>(self.matmul.scratch_len())?;
        let mut multiply = |to: &mut [f32]| -> Result<(), NodeError> {
            let scratch = scratch.as_mut_slice()?;
            Ok(self.matmul.run(left, PackedWeights::F32(right), to, Extras::default(), scratch, cx.parallel)?)
        };
        match &self.back {
            None => multiply(output.as_mut_slice()?)?,
            Some(back) => {
                let mut product = cx.scratch::<f32>(output.len())?;
                multiply(product.as_mut_slice()?)?;
                back.run(product.bytes(), output.bytes_mut(), cx.parallel)?;
            }
        }
        Ok(output)
    }
}

impl Side {
    /// The operand with dense matrices, where it has none.
    fn dense(&self, operands: [&Tensor; 2], cx: &RunCx<'_>) -> Result<Option<Tensor>, NodeError> {
        let Some(moved) = &self.moved else { return Ok(None) };
        let from = operands[self.operand];
        let mut to = cx.scratch::<f32>(from.len())?;
        moved.run(from.bytes(), to.bytes_mut(), cx.parallel)?;
        Ok(Some(to))
    }
}

/// The kernel that moves axes: `Some(None)` where the order is the axes' own, `None` where there is no kernel.
fn moving(cx: &PrepareCx<'_>, shape: &[usize], order: &[usize]) -> Result<Option<Option<Arc<Transpose>>>, NodeError> {
    if order.is_sorted() {
        return Ok(Some(None));
    }
    let problem = TransposeProblem::new(shape, order, size_of::<f32>());
    if !problem.has_kernel() {
        return Ok(None);
    }
    Ok(Some(Some(cx.executor(&cx.key(problem))?)))
}

impl Plan {
    /// The loops' roles, and the operand that has the rows. `None` where a loop is summed over in one operand alone,
    /// or an operand is read along a diagonal.
    fn roles(&self) -> Option<(Roles, usize)> {
        let [first, second] = &self.strides[..] else { return None };
        let kept = self.output.len();
        let moves = |at: usize| [first[at] > 0, second[at] > 0];
        let loops = || (0..self.sizes.len()).filter(|&at| self.sizes[at] > 1);
        let is_sound = loops().all(|at| moves(at) == [true, true] || (at < kept && moves(at) != [false, false]));
        if !is_sound || !self.strides.iter().all(|strides| self.is_dense(strides)) {
            return None;
        }
        let kept_loops: Loops = loops().filter(|&at| at < kept).collect();
        let own = |at: usize| moves(at) != [true, true];
        // The operand of the last loop has the columns.
        let last = kept_loops.iter().rev().copied().find(|&at| own(at));
        let left = usize::from(last.is_some_and(|at| moves(at)[0]));
        let is_row = |at: usize| own(at) && moves(at)[left];
        let is_column = |at: usize| own(at) && moves(at)[1 - left];
        let mut summed: Loops = loops().filter(|&at| at >= kept).collect();
        let steps = &self.strides[left];
        summed.sort_unstable_by_key(|&at| std::cmp::Reverse(steps[at]));
        // The longest end of the output that is rows, then columns.
        let columns_from = kept_loops.iter().rposition(|&at| !is_column(at)).map_or(0, |at| at + 1);
        let rows_from = kept_loops[..columns_from].iter().rposition(|&at| !is_row(at)).map_or(0, |at| at + 1);
        let (batch, rows) = (&kept_loops[..rows_from], &kept_loops[rows_from..columns_from]);
        let roles = if rows.is_empty() && batch.iter().any(|&at| is_row(at)) {
            // Rows are further out: the product has other axes' order than the output.
            Roles {
                batch: kept_loops.iter().copied().filter(|&at| !own(at)).collect(),
                rows: kept_loops.iter().copied().filter(|&at| is_row(at)).collect(),
                columns: kept_loops.iter().copied().filter(|&at| is_column(at)).collect(),
                summed,
            }
        } else {
            let columns = Loops::from_slice(&kept_loops[columns_from..]);
            Roles { batch: Loops::from_slice(batch), rows: Loops::from_slice(rows), columns, summed }
        };
        Some((roles, left))
    }

    /// Whether an operand has a loop for each of its axes, so that no loop reads a diagonal.
    fn is_dense(&self, strides: &[usize]) -> bool {
        let mut steps: SmallVec<[[usize; 2]; 8]> = strides
            .iter()
            .zip(&self.sizes)
            .filter(|&(&stride, _)| stride > 0)
            .map(|(&stride, &n)| [stride, n])
            .collect();
        steps.sort_unstable();
        let mut next = 1;
        steps.iter().all(|&[stride, size]| {
            let fits = stride == next;
            next = stride * size;
            fits
        })
    }

    /// The order of an operand's loops in memory, outermost first.
    fn storage(&self, strides: &[usize]) -> Loops {
        let mut loops: Loops = (0..strides.len()).filter(|&at| strides[at] > 0).collect();
        loops.sort_unstable_by_key(|&at| std::cmp::Reverse(strides[at]));
        loops
    }

    /// Whether these loops, outermost first, are a dense matrix.
    fn is_matrix(&self, strides: &[usize], loops: impl DoubleEndedIterator<Item = usize>) -> bool {
        let mut next = 1;
        loops.rev().all(|at| {
            let fits = strides[at] == next;
            next *= self.sizes[at];
            fits
        })
    }

    /// How an operand's matrices lie, or are brought to lie. `own` are its loops over rows or columns, and those that
    /// are summed over. `first` is the form in which the own loops are the outer ones.
    fn layout(&self, from: &[usize], batch: &Loops, own: [&Loops; 2], first: Stored) -> Layout {
        let other = if first == Stored::Rows { Stored::Columns } else { Stored::Rows };
        for (stored, [outer, inner]) in [(first, own), (other, [own[1], own[0]])] {
            if self.is_matrix(from, outer.iter().chain(inner).copied()) {
                return Layout { stored, steps: from.to_vec(), order: None };
            }
        }
        let order: Loops = batch
            .iter()
            .copied()
            .filter(|&at| from[at] > 0)
            .chain(own[0].iter().copied())
            .chain(own[1].iter().copied())
            .collect();
        let shape: Shape = order.iter().map(|&at| self.sizes[at]).collect();
        let mut steps = memory::zeroed(from.len());
        for (&at, stride) in order.iter().zip(strides(&shape)) {
            steps[at] = stride;
        }
        Layout { stored: first, steps, order: Some(order) }
    }

    /// The batch as executors take it; loops that both sides run on through are one.
    fn batch(&self, loops: &Loops, left: &[usize], right: &[usize]) -> SmallVec<[BatchStep; 3]> {
        let mut steps: SmallVec<[BatchStep; 3]> = SmallVec::new();
        for &at in loops {
            let next = BatchStep { size: self.sizes[at] as u64, left: left[at] as u64, right: right[at] as u64 };
            match steps.last_mut() {
                Some(last) if last.left == next.left * next.size && last.right == next.right * next.size => {
                    *last = BatchStep { size: last.size * next.size, ..next };
                }
                _ => steps.push(next),
            }
        }
        steps
    }

    /// The kernel that brings an operand's loops into an order; see [`moving`].
    fn moving(
        &self,
        cx: &PrepareCx<'_>,
        strides: &[usize],
        loops: &Loops,
    ) -> Result<Option<Option<Arc<Transpose>>>, NodeError> {
        let storage = self.storage(strides);
        let shape: Shape = storage.iter().map(|&at| self.sizes[at]).collect();
        let order: Option<Loops> = loops.iter().map(|at| storage.iter().position(|own| own == at)).collect();
        order.map_or(Ok(None), |order| moving(cx, &shape, &order))
    }
}
