//! Operator sets: which version of a domain's operators a model or a function is written for.

use std::collections::HashMap;
use std::rc::Rc;

use super::proto::{NodeProto, OperatorSetIdProto};
use super::{ModelError, NEWEST_OPSET, shown};

/// Operator-set versions by domain; "" is ONNX's own.
pub(super) type Opsets = HashMap<String, i64>;

/// A node and its operator sets: those of the model, or those of the function that it comes from.
pub(super) type Versioned = (NodeProto, Rc<Opsets>);

/// The operator sets that a model or function imports.
pub(super) fn opsets(imports: &[OperatorSetIdProto]) -> Result<Opsets, ModelError> {
    let mut opsets = Opsets::new();
    for import in imports {
        let (domain, version) = (normal(import.domain()), import.version());
        if version < 1 || (domain.is_empty() && version > NEWEST_OPSET) {
            return Err(ModelError::Opset { domain: domain.to_owned(), version, newest: NEWEST_OPSET });
        }
        if opsets.insert(domain.to_owned(), version).is_some_and(|other| other != version) {
            return Err(ModelError::Duplicate { what: "the operator set of domain", name: shown(domain) });
        }
    }
    Ok(opsets)
}

/// The domain's canonical name: ONNX's own has two.
pub(super) fn normal(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}
