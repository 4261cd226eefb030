//! If: one of two bodies, both over the same values.

use kiln_model::Value;
use kiln_run::{Body, Flow, FlowCx, NodeError};

use super::super::OpError;
use super::{FlowLoad, truth};
use crate::refused;

struct If {
    /// The body where the condition does not hold, and the one where it does.
    bodies: [Body; 2],
}

pub(super) fn make(mut load: FlowLoad<'_>) -> Result<Box<dyn Flow>, OpError> {
    let bodies = [load.body("else_branch")?, load.body("then_branch")?];
    let (given, wanted) = (load.node.inputs.len(), load.node.outputs.len());
    for body in &bodies {
        load.demand(body.inputs.len() + 1 == given, || {
            format!("a branch takes {} values and gets {}", body.inputs.len(), given.saturating_sub(1))
        })?;
        load.demand(body.outputs.len() >= wanted, || {
            format!("a branch makes {} values, and the node has {wanted} outputs", body.outputs.len())
        })?;
    }
    Ok(Box::new(If { bodies }))
}

impl Flow for If {
    fn family(&self) -> &'static str {
        "If"
    }

    fn run(&self, mut inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let condition = inputs.remove(0).ok_or_else(|| refused("the condition is missing"))?;
        let which = usize::from(truth(&condition)?);
        cx.run(which, &self.bodies[which], inputs)
    }
}
