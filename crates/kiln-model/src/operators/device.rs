//! An operator's form on a device, as far as it is known before a node is made and before shapes are known.

use crate::ir::NodeDesc;

/// When a node goes to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Always: it computes so much that its inputs are worth sending.
    Always,
    /// Where one of its inputs is there already.
    Follows,
    /// Where one of its inputs is there already, or its first input is a large constant.
    Table,
}

/// The form of an operator on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// When it goes there.
    pub pull: Pull,
    /// Inputs that the processor reads, by bit: shapes, axes, indices.
    pub host_inputs: u64,
    /// Whether it moves elements of any type; otherwise all are `f32`, or booleans of chains.
    pub moves: bool,
}

impl Form {
    /// Computes on `f32`, where one of its inputs is there already.
    pub(super) const FOLLOWS: Form = Form { pull: Pull::Follows, host_inputs: 0, moves: false };
    /// Computes so much that it goes there always.
    pub(super) const ALWAYS: Form = Form { pull: Pull::Always, host_inputs: 0, moves: false };

    /// Moves elements of any type, by inputs that the processor reads.
    pub(super) const fn moves(host_inputs: u64) -> Form {
        Form { pull: Pull::Follows, host_inputs, moves: true }
    }
}

/// Whether an operator has a form on a device.
#[derive(Clone, Copy)]
pub enum Device {
    /// It has none.
    None,
    /// This one, however it is used.
    Form(Form),
    /// One that depends on the node.
    By(fn(&NodeDesc) -> Option<Form>),
}

impl Device {
    /// The form of that node.
    pub fn form(self, node: &NodeDesc) -> Option<Form> {
        match self {
            Device::None => None,
            Device::Form(form) => Some(form),
            Device::By(form) => form(node),
        }
    }
}
