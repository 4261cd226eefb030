//! The answer to an inference request: its raw outputs, not copied, behind the message that describes them; alone, or
//! as a message of a stream.

use bytes::Bytes;
use prost::Message;

use super::frame;
use super::proto::model_infer_response::InferOutputTensor;
use super::proto::{ModelInferResponse, ModelStreamInferResponse};
use crate::answer::{self, Answer, Answering};
use crate::coding::Coding;
use crate::head::Head;
use crate::model::Tensor;
use crate::refusal::Refusal;

/// The key of `raw_output_contents`: field 6, of bytes.
const RAW: u8 = 6 << 3 | 2;

/// The parameter `triton_final_response` with the value true, as field 4 of an answer: the last answer to its request.
const LAST: &[u8] = b"\x22\x1b\x0a\x15triton_final_response\x12\x02\x08\x01";

/// The same with the value false.
const NOT_LAST: &[u8] = b"\x22\x1b\x0a\x15triton_final_response\x12\x02\x08\x00";

/// The key of `infer_response`: field 2, a message.
const INFER_RESPONSE: u8 = 2 << 3 | 2;

/// Outputs of up to this many bytes are copied into one part, because each part is written separately.
const SHORT: usize = 4 << 10;

/// The answer to a request, with outputs in the requested order.
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

/// The answer as a message of a stream, marked as the last one of its request or not.
pub(super) fn in_stream(mut answer: Answer, is_last: bool) -> Result<Answer, Refusal> {
    answer.parts.push(Bytes::from_static(if is_last { LAST } else { NOT_LAST }));
    let length = answer.parts.iter().map(Bytes::len).sum();
    let mut prefix = vec![INFER_RESPONSE];
    prost::encode_length_delimiter(length, &mut prefix).map_err(|_| Refusal::own_fault())?;
    answer.parts.insert(0, prefix.into());
    Ok(answer)
}

/// The answer to a wrong request of a stream: its sentence, and its id, so that the client knows which request it was.
/// No further answer follows.
pub(super) fn refused(refusal: &Refusal, id: Option<String>) -> frame::Message {
    let message = ModelStreamInferResponse { error_message: refusal.message.clone(), infer_response: None };
    let mut parts = vec![Bytes::from(message.encode_to_vec())];
    if let Some(id) = id {
        let response = ModelInferResponse { id, ..ModelInferResponse::default() }.encode_to_vec();
        let answer = in_stream(Answer { json: None, parts: vec![response.into()] }, true);
        // This fails only for a length that cannot be written.
        parts.extend(answer.into_iter().flat_map(|answer| answer.parts));
    }
    frame::Message { parts, coding: Coding::Identity }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Field, Fields, Value};

    #[test]
    fn a_parameter_says_which_answer_is_the_last() {
        for (field, value) in [(LAST, b"\x08\x01"), (NOT_LAST, b"\x08\x00")] {
            let entry = match Fields::of(field).next().unwrap().unwrap() {
                Field { number: 4, value: Value::Bytes(entry) } => entry,
                other => panic!("{other:?}"),
            };
            let fields: Vec<Field<'_>> = Fields::of(entry).map(Result::unwrap).collect();
            let expected = [(1, Value::Bytes(b"triton_final_response")), (2, Value::Bytes(value))];
            assert_eq!(fields, expected.map(|(number, value)| Field { number, value }));
            assert_eq!(Fields::of(field).count(), 1);
        }
    }

    #[test]
    fn a_refusal_has_its_sentence_and_the_id_of_its_request() {
        let refusal = Refusal::bad("no");
        for id in [None, Some("seven".to_owned())] {
            let bytes = refused(&refusal, id.clone()).parts.concat();
            let message = ModelStreamInferResponse::decode(bytes.as_slice()).unwrap();
            assert_eq!((message.error_message.as_str(), message.infer_response.map(|answer| answer.id)), ("no", id));
        }
    }
}
