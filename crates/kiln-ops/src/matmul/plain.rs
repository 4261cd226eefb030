//! Matrix products of elements that no kernel is emitted for: `f64` and integers, which wrap around as in C.

use kiln_kernels::cpu::double::{WIDTH, add_rows, multiply_rows, pack_panel};
use kiln_kernels::{Isa, memory};
use kiln_run::exec::matmul::Stored;
use kiln_run::{NodeError, RunCx};
use kiln_tensor::{DType, Element, Tensor};

use super::dims::Problem;
use crate::{share, try_each_chunk};

/// Rows of the right-hand side that a row is multiplied with between two checks whether the request shall go on.
const BETWEEN_CHECKS: usize = 64;

/// Gemm's factors.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) alpha: f32,
    pub(super) beta: f32,
}

/// Arithmetic of one element type.
trait Arithmetic: Element {
    const ZERO: Self;
    /// A product and its summand, each times its factor of Gemm; an integer is cut off towards zero once.
    fn weighted(self, third: Self, factors: Factors) -> Self;
    /// One matrix of a problem by another, as it stores them, in `c`, whose elements are zeros.
    fn multiply(problem: &Problem, a: &[Self], b: &[Self], c: &mut [Self], cx: &RunCx<'_>) -> Result<(), NodeError>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Arithmetic for $type {
            const ZERO: $type = 0;
            fn weighted(self, third: $type, Factors { alpha, beta }: Factors) -> $type {
                match [alpha, beta] {
                    [1.0, 1.0] => self.wrapping_add(third),
                    _ => (self as f64 * f64::from(alpha) + third as f64 * f64::from(beta)) as $type,
                }
            }
            fn multiply(
                problem: &Problem,
                a: &[$type],
                b: &[$type],
                c: &mut [$type],
                cx: &RunCx<'_>,
            ) -> Result<(), NodeError> {
                multiply_by_rows(problem, a, b, c, cx, |sum, a, b| sum.wrapping_add(a.wrapping_mul(b)))
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Arithmetic for f64 {
    const ZERO: f64 = 0.0;
    fn weighted(self, third: f64, Factors { alpha, beta }: Factors) -> f64 {
        self * f64::from(alpha) + third * f64::from(beta)
    }
    fn multiply(problem: &Problem, a: &[f64], b: &[f64], c: &mut [f64], cx: &RunCx<'_>) -> Result<(), NodeError> {
        match problem.m < MANY_ROWS && problem.right == Stored::Rows {
            true => multiply_few_rows(problem, a, b, c, cx),
            false => multiply_by_panels(problem, a, b, c, cx),
        }
    }
}

/// Rows for which a right-hand side is packed.
const MANY_ROWS: usize = 4;

/// Rows that are multiplied with a panel between two checks whether the request shall go on.
const ROWS_BETWEEN_CHECKS: usize = 64;

/// Multiply-adds of `f64` that take as long as moving a byte.
const WORK: usize = 4;

/// Row by row, without a packed right-hand side. Terms are added in the order of [`multiply_by_panels`].
fn multiply_few_rows(problem: &Problem, a: &[f64], b: &[f64], c: &mut [f64], cx: &RunCx<'_>) -> Result<(), NodeError> {
    let Problem { m, n, k, .. } = *problem;
    for (row, c) in c.chunks_exact_mut(n).enumerate() {
        for (block, right) in b.chunks(BETWEEN_CHECKS * n).enumerate() {
            cx.check_stop()?;
            let mut factors = [0.0; BETWEEN_CHECKS];
            let factors = &mut factors[..right.len() / n];
            for (at, factor) in factors.iter_mut().enumerate() {
                let at = block * BETWEEN_CHECKS + at;
                *factor = if problem.left == Stored::Columns { a[at * m + row] } else { a[row * k + at] };
            }
            add_rows(Isa::detect(), factors, right, c);
        }
    }
    Ok(())
}

/// By panels of the right-hand side, on all threads.
fn multiply_by_panels(problem: &Problem, a: &[f64], b: &[f64], c: &mut [f64], cx: &RunCx<'_>) -> Result<(), NodeError> {
    let Problem { m, n, k, .. } = *problem;
    let mut rows = Vec::new();
    if problem.left == Stored::Columns {
        rows = memory::zeroed(m * k);
        for (row, to) in rows.chunks_exact_mut(k.max(1)).enumerate() {
            to.iter_mut().enumerate().for_each(|(at, to)| *to = a[at * m + row]);
        }
    }
    let a = if problem.left == Stored::Columns { &rows } else { a };
    let mut panels = memory::zeroed(n.div_ceil(WIDTH) * WIDTH * k);
    for (panel, to) in panels.chunks_exact_mut((WIDTH * k).max(1)).enumerate() {
        cx.check_stop()?;
        let is_turned = problem.right == Stored::Columns;
        pack_panel(to, panel * WIDTH, n, |at, column| if is_turned { b[column * k + at] } else { b[at * n + column] });
    }
    // Whole rows.
    let each = share(m, n.saturating_mul(k) / WORK, cx.parallel).min(m);
    try_each_chunk(cx.parallel, c, each * n, &|index, c| {
        for (block, c) in c.chunks_mut(ROWS_BETWEEN_CHECKS * n).enumerate() {
            let left = &a[(index * each + block * ROWS_BETWEEN_CHECKS) * k..][..c.len() / n * k];
            for (panel, right) in panels.chunks_exact((WIDTH * k).max(1)).enumerate() {
                cx.check_stop()?;
                multiply_rows(Isa::detect(), left, k, right, c, n, panel * WIDTH);
            }
        }
        Ok(())
    })
}

/// Calls a generic function with the type of `dtype`'s elements, or gives the last expression for others.
macro_rules! with_type {
    ($dtype:expr, $name:ident => $body:expr, else $other:expr) => {
        match $dtype {
            DType::F64 => {
                type $name = f64;
                $body
            }
            DType::I8 => {
                type $name = i8;
                $body
            }
            DType::I16 => {
                type $name = i16;
                $body
            }
            DType::I32 => {
                type $name = i32;
                $body
            }
            DType::I64 => {
                type $name = i64;
                $body
            }
            DType::U8 => {
                type $name = u8;
                $body
            }
            DType::U16 => {
                type $name = u16;
                $body
            }
            DType::U32 => {
                type $name = u32;
                $body
            }
            DType::U64 => {
                type $name = u64;
                $body
            }
            _ => $other,
        }
    };
}

/// Whether [`product`] multiplies elements of that type.
pub(super) fn multiplies(dtype: DType) -> bool {
    with_type!(dtype, T => { let _: Option<T> = None; true }, else false)
}

/// The product, plus the third input where there is one.
pub(super) fn product(
    problem: &Problem,
    [left, right]: [&Tensor; 2],
    third: Option<&Tensor>,
    factors: Factors,
    mut output: Tensor,
    cx: &RunCx<'_>,
) -> Result<Tensor, NodeError> {
    with_type!(left.dtype(), T => {
        let c = output.as_mut_slice::<T>()?;
        multiply(problem, left.as_slice::<T>()?, right.as_slice::<T>()?, c, cx)?;
        match third.filter(|_| factors.beta != 0.0) {
            Some(third) => {
                let mut whole = memory::filled(T::ZERO, c.len());
                spread_by(third.as_slice::<T>()?, third.shape(), &problem.output, &mut whole, |value| value);
                c.iter_mut().zip(whole).for_each(|(value, other)| *value = value.weighted(other, factors));
            }
            None if factors.alpha != 1.0 => c.iter_mut().for_each(|value| *value = value.weighted(T::ZERO, factors)),
            None => {}
        }
        Ok(output)
    }, else Err(NodeError::Unsupported(format!("a matrix product of {} elements", left.dtype()))))
}

fn multiply<T: Arithmetic>(
    problem: &Problem,
    left: &[T],
    right: &[T],
    c: &mut [T],
    cx: &RunCx<'_>,
) -> Result<(), NodeError> {
    let Problem { m, n, k, .. } = *problem;
    c.fill(T::ZERO);
    if c.is_empty() {
        return Ok(());
    }
    for (index, c) in c.chunks_exact_mut(m * n).enumerate() {
        let (at_left, at_right) = problem.matrices(index);
        let (a, b) = (&left[at_left * m * k..][..m * k], &right[at_right * k * n..][..k * n]);
        T::multiply(problem, a, b, c, cx)?;
    }
    debug_assert_eq!(c.len(), problem.batches() * m * n);
    Ok(())
}

/// Row by row, each element's terms in their order.
fn multiply_by_rows<T: Copy>(
    problem: &Problem,
    a: &[T],
    b: &[T],
    c: &mut [T],
    cx: &RunCx<'_>,
    multiply_add: impl Fn(T, T, T) -> T,
) -> Result<(), NodeError> {
    let Problem { m, n, k, .. } = *problem;
    for (row, c) in c.chunks_exact_mut(n).enumerate() {
        for at in 0..k {
            if at % BETWEEN_CHECKS == 0 {
                cx.check_stop()?;
            }
            let a = if problem.left == Stored::Columns { a[at * m + row] } else { a[row * k + at] };
            for (column, sum) in c.iter_mut().enumerate() {
                let b = if problem.right == Stored::Columns { b[column * k + at] } else { b[at * n + column] };
                *sum = multiply_add(*sum, a, b);
            }
        }
    }
    Ok(())
}

/// `factor` times a tensor, repeated to a whole shape that it broadcasts to.
pub(super) fn spread(from: &[f32], shape: &[usize], factor: f32, whole: &[usize], to: &mut [f32]) {
    spread_by(from, shape, whole, to, |value| factor * value);
}

fn spread_by<T: Copy>(from: &[T], shape: &[usize], whole: &[usize], to: &mut [T], change: impl Fn(T) -> T) {
    let offset = whole.len() - shape.len();
    for (index, value) in to.iter_mut().enumerate() {
        let (mut rest, mut at, mut stride) = (index, 0, 1);
        for (dim, &size) in whole.iter().enumerate().rev() {
            if dim >= offset && shape[dim - offset] != 1 {
                at += rest % size * stride;
                stride *= size;
            }
            rest /= size;
        }
        *value = change(from[at]);
    }
}
