//! The inputs and outputs of a model, for metadata and for checking requests. A language model has the ports of
//! Triton's vLLM backend, whatever runs it.

use std::sync::LazyLock;

use crate::datatype::Datatype;
use crate::model::Port;
use crate::registry::Loaded;

/// The prompt.
pub(crate) const TEXT: &str = "text_input";

/// Whether answers come piece by piece.
pub(crate) const STREAM: &str = "stream";

/// How a text is continued: an object in JSON.
pub(crate) const SAMPLING: &str = "sampling_parameters";

/// Whether answers contain only the new text.
pub(crate) const EXCLUDES: &str = "exclude_input_in_output";

/// The generated text.
pub(crate) const SAID: &str = "text_output";

static INPUTS: LazyLock<[Port; 4]> = LazyLock::new(|| {
    [
        one(TEXT, Datatype::Bytes, false),
        one(STREAM, Datatype::Bool, true),
        one(SAMPLING, Datatype::Bytes, true),
        one(EXCLUDES, Datatype::Bool, true),
    ]
});

static OUTPUTS: LazyLock<[Port; 1]> = LazyLock::new(|| [one(SAID, Datatype::Bytes, false)]);

/// A port of one element.
fn one(name: &str, datatype: Datatype, is_optional: bool) -> Port {
    Port {
        name: name.to_owned(),
        datatype: Some(datatype),
        declared: datatype.name().to_owned(),
        shape: Some(vec![Some(1)]),
        is_optional,
    }
}

/// Its inputs.
pub(crate) fn inputs(loaded: &Loaded) -> &[Port] {
    if loaded.model.language().is_some() { &*INPUTS } else { loaded.model.inputs() }
}

/// Its outputs.
pub(crate) fn outputs(loaded: &Loaded) -> &[Port] {
    if loaded.model.language().is_some() { &*OUTPUTS } else { loaded.model.outputs() }
}
