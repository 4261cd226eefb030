//! The answer of an inference request: its outputs raw and as they are, behind the message that describes them.

use bytes::Bytes;
use prost::Message;

use super::proto::ModelInferResponse;
use super::proto::model_infer_response::InferOutputTensor;
use crate::answer::{self, Answer, Answering};
use crate::head::Head;
use crate::model::Tensor;
use crate::refusal::Refusal;

/// The key of `raw_output_contents`: field 6, of bytes.
const RAW: u8 = 6 << 3 | 2;

/// Outputs of so many bytes are copied into one part: a part for each is written for itself.
const SHORT: usize = 4 << 10;

/// The answer to a request, in the order in which it asked for outputs.
pub(super) fn answer(model: &Answering<'_>, head: &Head, outputs: &[Tensor]) -> Result<Answer, Refusal> {
    let chosen = answer::chosen(head, outputs)?;
    let describe = |&(output, _): &(&Tensor, bool)| InferOutputTensor {
        name: output.name.clone(),
        datatype: output.datatype.name().to_owned(),
        shape: output.shape.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect(),
    };
    let message = ModelInferResponse {
        model_name: model.name.to_owned(),
        model_version: model.version.to_string(),
        id: head.id.clone().unwrap_or_default(),
        outputs: chosen.iter().map(describe).collect(),
    };
    let (mut parts, mut text) = (Vec::new(), message.encode_to_vec());
    for (output, _) in chosen {
        let bytes = answer::binary(output)?;
        text.push(RAW);
        prost::encode_length_delimiter(bytes.len(), &mut text)
            .map_err(|_| Refusal::no_memory(bytes.len(), &format!("output '{}'", output.name)))?;
        if bytes.len() <= SHORT {
            text.extend_from_slice(&bytes);
        } else {
            parts.push(Bytes::from(std::mem::take(&mut text)));
            parts.push(bytes);
        }
    }
    parts.push(text.into());
    Ok(Answer { json: None, parts })
}
