//! Optional values, and Identity, which passes on any value.
//!
//! An optional value that has its element is that element (see [`Value`]), so that making one and taking its element
//! out hand the value on.

use kiln_model::Value;
use kiln_run::{Flow, FlowCx, NodeError};
use kiln_tensor::{BoolByte, Tensor};

use super::{FlowOperator, OpError, refused};

/// The operators of this file.
pub(super) const OPERATORS: &[FlowOperator] = &[
    ("", "Identity", |_| simple(Form::Identity)),
    ("", "Optional", |_| simple(Form::Make)),
    ("", "OptionalHasElement", |_| simple(Form::HasElement)),
    ("", "OptionalGetElement", |_| simple(Form::GetElement)),
];

enum Form {
    Identity,
    Make,
    HasElement,
    GetElement,
}

fn simple(form: Form) -> Result<Box<dyn Flow>, OpError> {
    Ok(Box::new(form))
}

impl Flow for Form {
    fn family(&self) -> &'static str {
        match self {
            Form::Identity => "Identity",
            Form::Make => "Optional",
            Form::HasElement => "OptionalHasElement",
            Form::GetElement => "OptionalGetElement",
        }
    }

    fn run(&self, inputs: Vec<Option<Value>>, _: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let given = inputs.into_iter().next().flatten();
        let made = match (self, given) {
            (Form::Identity, Some(value)) => value,
            (Form::Make, value) => value.unwrap_or(Value::Nothing),
            (Form::HasElement, value) => {
                let has = value.is_some_and(|value| !matches!(value, Value::Nothing));
                Tensor::scalar(BoolByte::from(has)).into()
            }
            (Form::GetElement, Some(value)) if !matches!(value, Value::Nothing) => value,
            (Form::GetElement, _) => return Err(refused("the optional value has no element")),
            (Form::Identity, None) => return Err(refused("input 0 is missing")),
        };
        Ok(vec![made])
    }
}
