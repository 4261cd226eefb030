//! The greatest and least along an axis: ArgMax, ArgMin, TopK, Hardmax.
//!
//! NaN ranks above every number, so that orders are total and results do not depend on where it stands.

use std::cmp::Ordering;

use super::wide::{Wide, Width, dispatch, narrow};
use super::{LoadCx, OpError, Operator, Run, axis_of, integer, lines, refused, required};
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "ArgMax", |cx| make_arg(cx, Ordering::Greater)),
    ("", "ArgMin", |cx| make_arg(cx, Ordering::Less)),
    ("", "TopK", make_top),
    ("", "Hardmax", |cx| {
        let since_13 = cx.node.version >= 13;
        Ok(Box::new(Hardmax { axis: cx.node.attributes().int("axis"), flat: !since_13 }))
    }),
];

/// A total order.
pub(crate) fn rank<W: Wide>(a: W, b: W) -> Ordering {
    let is_nan = |value: W| value.partial_cmp(&value).is_none();
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

/// The first, or last, place of the element that is `wanted` than all others.
fn place<W: Wide>(line: &[W], wanted: Ordering, last: bool) -> usize {
    let mut best = 0;
    for (index, &value) in line.iter().enumerate().skip(1) {
        let order = rank(value, line[best]);
        if order == wanted || last && order == Ordering::Equal {
            best = index;
        }
    }
    best
}

/// Calls `visit` with each line along an axis, widened.
fn for_lines<W: Wide>(input: &Tensor, axis: usize, mut visit: impl FnMut(Run, &[W])) -> Result<(), NodeError> {
    let mut line = vec![W::default(); input.shape()[axis]];
    for run in lines(input.shape(), axis) {
        W::load(input.dtype(), input.bytes(), run, &mut line)?;
        visit(run, &line);
    }
    Ok(())
}

struct Arg {
    wanted: Ordering,
    axis: i64,
    last: bool,
}

fn make_arg(cx: &LoadCx<'_>, wanted: Ordering) -> Result<Box<dyn Node>, OpError> {
    let last = cx.node.attributes().int("select_last_index") != 0;
    Ok(Box::new(Arg { wanted, axis: cx.node.attributes().int("axis"), last }))
}

impl Arg {
    fn compute<W: Wide>(&self, input: &Tensor) -> Result<Vec<i64>, NodeError> {
        let mut found = Vec::new();
        let axis = axis_of(self.axis, input.shape().len())?;
        for_lines::<W>(input, axis, |_, line| found.push(place(line, self.wanted, self.last) as i64))?;
        Ok(found)
    }
}

fn arg<W: Wide>(node: &Arg, input: &Tensor) -> Result<Vec<i64>, NodeError> {
    node.compute::<W>(input)
}

impl Node for Arg {
    fn family(&self) -> &'static str {
        if self.wanted == Ordering::Greater { "ArgMax" } else { "ArgMin" }
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        Width::of(input.dtype())?;
        if input.is_empty() && !outputs[0].shape.contains(&0) {
            return Err(refused(format!("axis {} of shape {:?} has no elements", self.axis, input.shape())));
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let found = dispatch!(Width::of(input.dtype())?, arg(self, input))?;
        let output = narrow(&found, io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

struct TopK {
    /// The attribute of operator set 9 and before; without it the number is input 1.
    count: Option<i64>,
    axis: i64,
    largest: bool,
}

fn make_top(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let count = cx.node.attributes().integer("k");
    // Sorted results satisfy a node that does not ask for an order as well.
    Ok(Box::new(TopK {
        count,
        axis: cx.node.attributes().int("axis"),
        largest: cx.node.attributes().int("largest") != 0,
    }))
}

impl TopK {
    fn count(&self, inputs: &[Option<&Tensor>]) -> Result<(usize, usize), NodeError> {
        let shape = required(inputs, 0)?.shape();
        let axis = axis_of(self.axis, shape.len())?;
        let count = match self.count {
            Some(count) => count,
            None => integer(required(inputs, 1)?)?,
        };
        let fits = usize::try_from(count).ok().filter(|&count| count <= shape[axis]);
        Ok((axis, fits.ok_or_else(|| refused(format!("{count} of the {} elements of axis {axis}", shape[axis])))?))
    }
}

/// Values and indices of the first `count` of each line.
fn top<W: Wide>(io: &Io<'_>, axis: usize, count: usize, largest: bool) -> Result<[Tensor; 2], NodeError> {
    let (input, specs) = (io.input(0)?, [io.alloc(0)?, io.alloc(1)?]);
    let mut values = vec![W::default(); specs[0].len()];
    let mut indices = vec![0i64; specs[0].len()];
    let mut places = lines(specs[0].shape(), axis);
    let mut order: Vec<usize> = Vec::new();
    for_lines::<W>(input, axis, |_, line| {
        let Some(to) = places.next() else { return };
        order.clear();
        order.extend(0..line.len());
        // Of equals the first wins, which also makes the order total and the selection deterministic.
        let before = |&a: &usize, &b: &usize| {
            let order = rank(line[a], line[b]);
            if largest { order.reverse() } else { order }.then(a.cmp(&b))
        };
        if count < line.len() {
            order.select_nth_unstable_by(count, before);
        }
        order[..count].sort_unstable_by(before);
        for (number, &from) in order[..count].iter().enumerate() {
            values[to.at(number)] = line[from];
            indices[to.at(number)] = from as i64;
        }
    })?;
    let [value_tensor, index_tensor] = specs;
    Ok([narrow(&values, value_tensor)?, narrow(&indices, index_tensor)?])
}

impl Node for TopK {
    fn family(&self) -> &'static str {
        "TopK"
    }

    fn value_inputs(&self) -> u64 {
        u64::from(self.count.is_none()) << 1
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(required(inputs, 0)?.dtype()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (axis, count) = self.count(&io.inputs())?;
        let [values, indices] = dispatch!(Width::of(io.spec(0).dtype)?, top(io, axis, count, self.largest))?;
        io.push(values);
        io.push(indices);
        Ok(())
    }
}

/// One where the greatest element of a line stands, zero elsewhere.
struct Hardmax {
    axis: i64,
    /// Before operator set 13 the line was everything from the axis on.
    flat: bool,
}

fn hard<W: Wide>(node: &Hardmax, input: &Tensor) -> Result<Vec<i64>, NodeError> {
    let axis = axis_of(node.axis, input.shape().len())?;
    let whole = [input.shape()[..axis].iter().product(), input.shape()[axis..].iter().product()];
    let (shape, axis) = if node.flat { (&whole[..], 1) } else { (input.shape(), axis) };
    let mut output = vec![0; input.len()];
    for_lines::<W>(&input.reshaped(shape.iter().copied())?, axis, |run, line| {
        output[run.at(place(line, Ordering::Greater, false))] = 1;
    })?;
    Ok(output)
}

impl Node for Hardmax {
    fn family(&self) -> &'static str {
        "Hardmax"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        axis_of(self.axis, input.shape().len())?;
        match input.dtype() {
            dtype if dtype.is_float() => Ok(()),
            dtype => Err(NodeError::Unsupported(format!("elements of type {dtype}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let ones = dispatch!(Width::of(input.dtype())?, hard(self, input))?;
        let output = narrow(&ones, io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use crate::ops::trial::Trial;

    #[test]
    fn extremes_are_found_at_their_first_or_last_place() {
        let arg = |op: &str| Trial::new(op).int("keepdims", 0).int("axis", 1).input(&[2, 3], &[2i32, 5, 5, 1, 1, 3]);
        arg("ArgMax").gives(&[2], &[1i64, 2]);
        arg("ArgMax").int("select_last_index", 1).gives(&[2], &[2i64, 2]);
        arg("ArgMin").gives(&[2], &[0i64, 0]);
        arg("ArgMin").int("select_last_index", 1).gives(&[2], &[0i64, 1]);
        arg("ArgMax").int("axis", -2).int("keepdims", 1).gives(&[1, 3], &[0i64, 0, 0]);
        Trial::new("ArgMax").input(&[3], &[1f32, f32::NAN, 2.0]).gives(&[1], &[1i64]);
        Trial::new("ArgMax").input::<f32>(&[0, 2], &[]).is_refused("no elements");
        Trial::new("ArgMax").int("axis", 1).input::<f32>(&[0, 2], &[]).gives::<i64>(&[0, 1], &[]);
        Trial::new("ArgMax").int("axis", 2).input::<f32>(&[0, 2], &[]).is_refused("axis 2");
    }

    #[test]
    fn the_first_few_come_in_order_and_equals_by_place() {
        let top = |values: &[f32], count: i64| {
            Trial::new("TopK").outputs(2).input(&[values.len()], values).input(&[1], &[count])
        };
        let both = |trial: Trial| {
            let outputs = trial.run().unwrap();
            (outputs[0].as_slice::<f32>().unwrap().to_vec(), outputs[1].as_slice::<i64>().unwrap().to_vec())
        };
        assert_eq!(both(top(&[1.0, 3.0, 3.0, 2.0], 3)), (vec![3.0, 3.0, 2.0], vec![1, 2, 3]));
        assert_eq!(both(top(&[1.0, 3.0, 1.0, 2.0], 3).int("largest", 0)), (vec![1.0, 1.0, 2.0], vec![0, 2, 3]));
        assert_eq!(both(top(&[1.0], 0)), (vec![], vec![]));
        top(&[1.0], 2).is_refused("2 of the 1");
        top(&[1.0], -1).is_refused("-1 of the 1");
        let columns = Trial::new("TopK").outputs(2).int("axis", 0).input(&[2, 2], &[1u8, 9, 7, 2]).input(&[1], &[1i64]);
        columns.gives(&[1, 2], &[7u8, 9]);
        Trial::new("TopK").version(9).outputs(2).int("k", 1).input(&[2], &[f16::ONE, f16::NAN]).run().unwrap();
    }

    #[test]
    fn hardmax_marks_the_first_greatest_of_each_line() {
        let row = || Trial::new("Hardmax").input(&[2, 2, 2], &[1f32, 1.0, 0.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
        row().gives(&[2, 2, 2], &[1f32, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
        row().version(11).gives(&[2, 2, 2], &[0f32, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        row().int("axis", 0).gives(&[2, 2, 2], &[0f32, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    }
}
