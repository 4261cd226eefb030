//! MaxUnpool: maxima put back at the places that they came from.

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_model::NodeDesc;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Shape, Tensor, TensorSpec};

use super::{
    LoadCx, Movement, OpError, Operator, dimensions, index_of, integers, optional, rearrange, refused, required,
    strides,
};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "MaxUnpool", make)];

struct MaxUnpool {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    pads: Vec<usize>,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node: &NodeDesc = cx.node;
    let list = |name: &str| {
        let values = node.ints(name).unwrap_or_default();
        let checked = values.iter().map(|&value| usize::try_from(value).ok()).collect::<Option<Vec<usize>>>();
        checked.ok_or_else(|| OpError::invalid(node, format!("{name} = {values:?}")))
    };
    Ok(Box::new(MaxUnpool { kernel: list("kernel_shape")?, strides: list("strides")?, pads: list("pads")? }))
}

impl MaxUnpool {
    /// The shape that was pooled, in which the indices count, and the output's shape, which may be given larger.
    fn shapes(&self, inputs: &[Option<&Tensor>]) -> Result<[Shape; 2], NodeError> {
        let pooled = required(inputs, 0)?.shape();
        let error = || refused(format!("no window of {:?} over {pooled:?}", self.kernel));
        let rank = self.kernel.len();
        let lists = [(self.strides.len(), rank), (self.pads.len(), 2 * rank)];
        if pooled.len() != rank + 2 || lists.iter().any(|(have, need)| *have != 0 && have != need) {
            return Err(error());
        }
        let mut whole = Shape::from_slice(&pooled[..2]);
        for dim in 0..rank {
            let (stride, pad) =
                (self.strides.get(dim).copied().unwrap_or(1), |at: usize| self.pads.get(at).copied().unwrap_or(0));
            let spread = pooled[dim + 2].checked_sub(1).and_then(|steps| steps.checked_mul(stride));
            let size = spread.and_then(|size| size.checked_add(self.kernel[dim]));
            let size = size.and_then(|size| size.checked_sub(pad(dim))?.checked_sub(pad(dim + rank)));
            whole.push(size.ok_or_else(error)?);
        }
        TensorSpec::new(kiln_tensor::DType::U8, whole.iter().copied()).elements()?;
        let output = match optional(inputs, 2) {
            Some(given) => dimensions(&integers(given)?)?,
            None => whole.clone(),
        };
        if output.len() != whole.len() || output.iter().zip(&whole).any(|(output, whole)| output < whole) {
            return Err(refused(format!("an output of shape {output:?} for {whole:?}")));
        }
        Ok([whole, output])
    }
}

/// Elements to single places.
struct Place(Vec<usize>);

impl Movement for Place {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let mut pace = Pace::default();
        for (&place, value) in self.0.iter().zip(from[0]) {
            pace.step(1);
            to[place] = value.clone();
        }
        Ok(())
    }
}

impl Node for MaxUnpool {
    fn family(&self) -> &'static str {
        "MaxUnpool"
    }

    fn value_inputs(&self) -> u64 {
        1 << 2
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.shapes(inputs)?;
        let (pooled, indices) = (required(inputs, 0)?.shape(), required(inputs, 1)?.shape());
        match pooled == indices {
            true => Ok(()),
            false => Err(refused(format!("indices of {indices:?} for {pooled:?}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let [whole, output] = self.shapes(&io.inputs())?;
        let count: usize = whole.iter().product();
        let steps = strides(&output);
        let place = |index: i64| {
            let mut rest = index_of(index, count)?;
            // The same coordinates in the output, which may be larger.
            let along = whole.iter().zip(&steps).rev().map(|(size, step)| {
                let at = rest % size;
                rest /= size;
                at * step
            });
            Ok::<_, NodeError>(along.sum())
        };
        let places = io.input(1)?.to_i64_vec()?.into_iter().map(place).try_collected()?;
        let mut output = io.alloc(0)?;
        memory::fill(output.bytes_mut(), &0);
        let output = rearrange(&Place(places), &[io.input(0)?], output)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    fn unpool(indices: &[i64]) -> Trial {
        let trial = Trial::new("MaxUnpool").ints("kernel_shape", &[2]).ints("strides", &[2]);
        trial.input(&[1, 1, 2], &[7f32, 8.0]).input(&[1, 1, 2], indices)
    }

    #[test]
    fn maxima_return_to_their_places() {
        unpool(&[1, 2]).gives(&[1, 1, 4], &[0f32, 7.0, 8.0, 0.0]);
        unpool(&[1, 2]).input(&[3], &[1i64, 1, 5]).gives(&[1, 1, 5], &[0f32, 7.0, 8.0, 0.0, 0.0]);
        unpool(&[1, 4]).is_refused("outside of 0..4");
        unpool(&[1, 2]).input(&[3], &[1i64, 1, 3]).is_refused("an output");
        unpool(&[1, 2]).ints("pads", &[9, 9]).is_refused("no window");
    }
}
