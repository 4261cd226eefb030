//! Tile and Expand: the same elements again and again, read through a [`View`] that does not move along some axes.

use kiln_run::DeviceCx;
use kiln_run::device::Operand;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::Shape;
use kiln_tensor::{Tensor, TensorSpec};

use crate::required;
use crate::{LoadCx, OpError, View, Viewed, rearrange};

/// Which of the two.
enum Repeat {
    Tile,
    Expand,
}

pub(super) fn make_tile(_: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Repeat::Tile))
}

pub(super) fn make_expand(_: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Repeat::Expand))
}

impl Repeat {
    fn view(&self, from: &[usize], to: &[usize]) -> Result<View, NodeError> {
        match self {
            Repeat::Expand => View::broadcast(from, to),
            // Each axis becomes two: how often, and what.
            Repeat::Tile => {
                let single: Shape = from.iter().flat_map(|&dim| [1, dim]).collect();
                let times = from.iter().zip(to).flat_map(|(&dim, &all)| [all / dim.max(1), dim]);
                View::broadcast(&single, &times.collect::<Shape>())
            }
        }
    }
}

impl Node for Repeat {
    fn family(&self) -> &'static str {
        match self {
            Repeat::Tile => "tile",
            Repeat::Expand => "expand",
        }
    }

    fn value_inputs(&self) -> u64 {
        1 << 1
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        let to = &outputs[0].shape;
        if input.len() == to.iter().product::<usize>() {
            cx.view(0, 0);
            return Ok(());
        }
        let view = self.view(input.shape(), to)?;
        cx.kernel(view.copying(input.dtype().size())?, &[Some(Operand::Input(0))], Operand::Output(0))
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let to = io.spec(0).shape.clone();
        if io.input(0)?.len() == to.iter().product::<usize>() {
            // Nothing is repeated: the same bytes, perhaps under a longer shape.
            let output = io.take(0)?.reshaped(to)?;
            io.push(output);
            return Ok(());
        }
        let input = io.input(0)?;
        let view = self.view(input.shape(), &to)?;
        let output = rearrange(&Viewed { view: &view, parallel: cx.parallel }, &[input], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}
