//! The message of an inference request, as protocol files have it. The server reads it by itself and has no struct for
//! it.

use std::collections::HashMap;

/// One of the values of a parameter.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferParameter {
    #[prost(bool, optional, tag = "1")]
    pub(crate) bool_param: Option<bool>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) int64_param: Option<i64>,
    #[prost(string, optional, tag = "3")]
    pub(crate) string_param: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferTensorContents {
    #[prost(bool, repeated, tag = "1")]
    pub(crate) bool_contents: Vec<bool>,
    #[prost(int32, repeated, tag = "2")]
    pub(crate) int_contents: Vec<i32>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) int64_contents: Vec<i64>,
    #[prost(uint32, repeated, tag = "4")]
    pub(crate) uint_contents: Vec<u32>,
    #[prost(uint64, repeated, tag = "5")]
    pub(crate) uint64_contents: Vec<u64>,
    #[prost(float, repeated, tag = "6")]
    pub(crate) fp32_contents: Vec<f32>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) fp64_contents: Vec<f64>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) bytes_contents: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferInputTensor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, InferParameter>,
    #[prost(message, optional, tag = "5")]
    pub(crate) contents: Option<InferTensorContents>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferRequestedOutputTensor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(map = "string, message", tag = "2")]
    pub(crate) parameters: HashMap<String, InferParameter>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModelInferRequest {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(string, tag = "3")]
    pub(crate) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, InferParameter>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) inputs: Vec<InferInputTensor>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) outputs: Vec<InferRequestedOutputTensor>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub(crate) raw_input_contents: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferOutputTensor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) contents: Option<InferTensorContents>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModelInferResponse {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(string, tag = "3")]
    pub(crate) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, InferParameter>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<InferOutputTensor>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(crate) raw_output_contents: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModelStreamInferResponse {
    #[prost(string, tag = "1")]
    pub(crate) error_message: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) infer_response: Option<ModelInferResponse>,
}

/// A request of one input and without its elements.
pub(crate) fn one_input(model: &str, name: &str, datatype: &str, shape: &[i64]) -> ModelInferRequest {
    let (name, datatype) = (name.to_owned(), datatype.to_owned());
    let input = InferInputTensor { name, datatype, shape: shape.to_vec(), ..InferInputTensor::default() };
    ModelInferRequest { model_name: model.to_owned(), inputs: vec![input], ..ModelInferRequest::default() }
}
