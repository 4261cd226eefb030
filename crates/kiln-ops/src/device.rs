//! Which operators have a form on a device, and which of their inputs stay with the processor.
//!
//! The forms themselves are with their operators ([`Node::prepare_device`](kiln_run::Node::prepare_device)). This file
//! has, from the table of operators, what placement must know before a node is made and before any shape is known: it
//! asks [`form`].

use kiln_model::NodeDesc;
use kiln_model::operators;
use kiln_tensor::DType;

pub use kiln_model::operators::device::{Form, Pull};

/// The form of a node's operator; `None` where it has none, or none for this use of it.
#[must_use]
pub fn form(node: &NodeDesc) -> Option<Form> {
    operators::of(node)?.form(node)
}

/// The element types that such a node may read and make on a device.
#[must_use]
pub fn carried(form: &Form) -> fn(DType) -> bool {
    if form.moves {
        |dtype| dtype.size() > 0 && dtype.packed_bits() == 8 * dtype.size()
    } else {
        |dtype| matches!(dtype, DType::F32 | DType::Bool)
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::{Attr, ValueId};

    use super::*;

    fn node(op: &str, attrs: &[(&str, Attr)]) -> NodeDesc {
        let attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        NodeDesc { op: op.to_owned(), attrs, outputs: vec![Some(ValueId(0))], ..NodeDesc::default() }
    }

    #[test]
    fn what_a_device_cannot_do_stays_with_the_processor() {
        assert!(form(&node("ConvTranspose", &[("pads", [1, 1, 1, 1].into())])).is_some());
        for attrs in [
            ("pads", Attr::from([0, 1, 1, 1])),
            ("auto_pad", Attr::from("SAME_UPPER")),
            ("output_shape", Attr::from([8, 8])),
            ("output_padding", Attr::from([1, 1])),
        ] {
            assert_eq!(form(&node("ConvTranspose", std::slice::from_ref(&attrs))), None, "{attrs:?}");
        }
        let mut places = node("MaxPool", &[]);
        assert!(form(&places).is_some());
        places.outputs.push(Some(ValueId(1)));
        assert_eq!(form(&places), None);
        assert_eq!(form(&node("LSTM", &[])), None);
    }

    #[test]
    fn computing_is_on_floats_and_moving_on_anything_with_bytes() {
        let (conv, slice) = (form(&node("Conv", &[])).unwrap(), form(&node("Slice", &[])).unwrap());
        let (computed, moved) = (carried(&conv), carried(&slice));
        assert!(computed(DType::F32) && !computed(DType::F16));
        assert!(moved(DType::I64) && !moved(DType::String));
    }
}
