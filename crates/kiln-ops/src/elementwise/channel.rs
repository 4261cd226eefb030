//! PRelu before version 7: a slope for each channel, which is axis 1, however many axes follow. Loading calls it
//! `ChannelPRelu`, because to everything that knows operators by name PRelu broadcasts as numpy does.

use kiln_model::NodeDesc;
use kiln_run::node::PrepareCx;
use kiln_run::{Io, Node, Prepared, RunCx};
use kiln_tensor::{Shape, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::{LoadCx, NodeError, OpError, make};
use crate::required;

struct ChannelPRelu {
    /// PRelu as it is since.
    stretching: Box<dyn Node>,
}

pub(super) fn make_channel_prelu(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = NodeDesc { domain: String::new(), op: "PRelu".to_owned(), version: 7, ..cx.node.clone() };
    Ok(Box::new(ChannelPRelu { stretching: make(&LoadCx { node: &node, ..*cx })? }))
}

/// The slope with a dimension of one for each axis of `x` behind the channels. A single slope stands for all.
fn along_channels(x: &Tensor, slope: &Tensor) -> Result<Tensor, NodeError> {
    let behind = x.shape().len().saturating_sub(2);
    if slope.len() == 1 || slope.shape().len() != 1 {
        return Ok(slope.clone());
    }
    let shape: Shape = slope.shape().iter().copied().chain(std::iter::repeat_n(1, behind)).collect();
    Ok(slope.reshaped(shape)?)
}

impl Node for ChannelPRelu {
    fn family(&self) -> &'static str {
        self.stretching.family()
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let x = required(inputs, 0)?;
        self.stretching.check(&[Some(x), Some(&along_channels(x, required(inputs, 1)?)?)], outputs)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let x = required(inputs, 0)?;
        self.stretching.prepare_params(cx, &[Some(x), Some(&along_channels(x, required(inputs, 1)?)?)], outputs)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (x, slope) = (io.take(0)?, io.take(1)?);
        let slope = along_channels(&x, &slope)?;
        let mut inner = Io::new(SmallVec::from_iter([Some(x), Some(slope)]), io.specs(), cx.buffers);
        self.stretching.execute(prepared, &mut inner, cx)?;
        inner.into_outputs().into_iter().for_each(|output| io.push(output));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn slopes_go_along_the_channels() {
        let x = [-1.0f32; 8];
        let trial = |slope: &[f32]| {
            Trial::new("PRelu").made_by(super::make_channel_prelu).input(&[1, 2, 2, 2], &x).input(&[slope.len()], slope)
        };
        trial(&[0.5, 2.0]).gives(&[1, 2, 2, 2], &[-0.5f32, -0.5, -0.5, -0.5, -2.0, -2.0, -2.0, -2.0]);
        trial(&[3.0]).gives(&[1, 2, 2, 2], &[-3.0f32; 8]);
        trial(&[1.0, 2.0, 3.0]).is_refused("broadcast");
    }
}
