//! Loop: iterations of a body, each over the results of the one before, until a count or a condition ends it.

use kiln_model::Value;
use kiln_run::{Body, Flow, FlowCx, NodeError};
use kiln_tensor::{BoolByte, Shape, Tensor};

use super::{FlowLoad, Gathered, truth};
use crate::{OpError, integer, refused};

/// Inputs of the body, and of the node, before the values that are carried: the iteration's number (the node: how many
/// iterations) and the condition.
const LEADING: usize = 2;

/// Iterations after which carried sequences are checked against the limit again: summing them up every time would make
/// a loop that collects a sequence quadratic.
const SEQUENCES_CHECKED: i64 = 64;

struct Loop {
    body: Body,
    /// The shape of the iteration's number, which the body declares as a scalar or as one element.
    number: Shape,
    /// The shape of the first condition, likewise.
    condition: Shape,
    /// Values carried from an iteration to the next.
    carried: usize,
    /// For each output that is gathered from all iterations, whether it is wanted.
    gathered: Vec<bool>,
}

pub(super) fn make(mut load: FlowLoad<'_>) -> Result<Box<dyn Flow>, OpError> {
    let body = load.body("body")?;
    let captures = load.node.captures();
    let (given, taken) = (load.node.inputs.len(), body.inputs.len());
    load.demand(given == taken && taken >= LEADING && captures <= taken - LEADING, || {
        format!("the body takes {taken} values, {captures} of them from around the node, which has {given} inputs")
    })?;
    let carried = taken - LEADING - captures;
    let (made, wanted) = (body.outputs.len(), load.node.outputs.len());
    load.demand(made > carried && made > wanted, || {
        format!("the body makes {made} values for {carried} that are carried, and the node has {wanted} outputs")
    })?;
    let gathered = (carried..made - 1).map(|output| load.node.output(output).is_some()).collect();
    let (number, condition) = (single(&body, 0), single(&body, 1));
    Ok(Box::new(Loop { body, number, condition, carried, gathered }))
}

/// The shape in which a body wants the single element of its input `index`: one dimension if it declares that, none
/// otherwise.
fn single(body: &Body, index: usize) -> Shape {
    let declared = body.inputs[index].dims.as_ref().map_or(0, Vec::len);
    std::iter::repeat_n(1, usize::from(declared == 1)).collect()
}

impl Flow for Loop {
    fn family(&self) -> &'static str {
        "Loop"
    }

    fn run(&self, inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let mut inputs = inputs.into_iter();
        let mut next = || inputs.next().flatten();
        let iterations = next().map(|count| integer(&count.into_tensor()?)).transpose()?;
        // Where no condition is given, the body's own condition still ends the loop, as in other runtimes.
        let given = next().map(|condition| truth(&condition)).transpose()?;
        let shape = self.condition.iter().copied();
        let mut condition = Value::Tensor(Tensor::from_slice(shape, &[BoolByte::from(given.unwrap_or(true))])?);
        let mut carried: Vec<Value> = Vec::with_capacity(self.carried);
        for index in 0..self.carried {
            carried.push(next().ok_or_else(|| refused(format!("carried value {index} is missing")))?);
        }
        let captured: Vec<Option<Value>> = inputs.collect();
        let mut gathered: Vec<Gathered> = self.gathered.iter().map(|_| Gathered::default()).collect();
        let mut iteration = 0i64;
        while iterations.is_none_or(|iterations| iteration < iterations) && truth(&condition)? {
            cx.begin_iteration()?;
            let mut given: Vec<Option<Value>> = Vec::with_capacity(LEADING + self.carried + captured.len());
            given.push(Some(Tensor::from_slice(self.number.iter().copied(), &[iteration])?.into()));
            given.push(Some(condition));
            given.extend(carried.drain(..).map(Some));
            given.extend(captured.iter().cloned());
            let mut made = cx.run(0, &self.body, given)?.into_iter();
            condition = made.next().ok_or_else(|| refused("the body made no condition"))?;
            carried.extend(made.by_ref().take(self.carried));
            let counts = |value: &&Value| matches!(value, Value::Tensor(_)) || iteration % SEQUENCES_CHECKED == 0;
            cx.budget().carry(carried.iter().filter(counts).map(Value::bytes).sum())?;
            for ((gathered, made), wanted) in gathered.iter_mut().zip(made).zip(&self.gathered) {
                if *wanted {
                    gathered.push(made, cx)?;
                }
            }
            iteration += 1;
        }
        for (index, (gathered, wanted)) in gathered.into_iter().zip(&self.gathered).enumerate() {
            let none = |least| self.body.none_of(1 + self.carried + index, least);
            carried.push(if *wanted { gathered.stack(0, false, none, cx)?.into() } else { Value::Nothing });
        }
        Ok(carried)
    }
}
