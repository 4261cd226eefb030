//! Messages besides inference: the server's description, its models, their counters. REST has the same in `pages`.

use super::proto::health_check_response::ServingStatus;
use super::proto::model_config::{OutputPort, Port as InputPort, TransactionPolicy};
use super::proto::model_metadata_response::TensorMetadata;
use super::proto::repository_index_response::ModelIndex;
use super::proto::{
    HealthCheckResponse, InferStatistics, ModelConfig, ModelConfigResponse, ModelMetadataResponse, ModelStatistics,
    ModelStatisticsResponse, RepositoryIndexResponse, ServerMetadataResponse, StatisticDuration,
};
use crate::datatype::Datatype;
use crate::histogram::Span;
use crate::model::Port;
use crate::pages;
use crate::ports;
use crate::refusal::Refusal;
use crate::registry::{Loaded, Registry};

pub(super) fn server() -> ServerMetadataResponse {
    ServerMetadataResponse {
        name: pages::NAME.to_owned(),
        version: pages::VERSION.to_owned(),
        extensions: pages::EXTENSIONS.map(str::to_owned).to_vec(),
    }
}

/// The answer to Kubernetes' probe, for the server as a whole or for its service.
pub(super) fn health(service: &str, is_ready: bool) -> Result<HealthCheckResponse, Refusal> {
    if !matches!(service, "" | "inference.GRPCInferenceService") {
        return Err(Refusal::unknown(format!("there is no service '{service}'")));
    }
    let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    Ok(HealthCheckResponse { status: status.into() })
}

/// The shape, with -1 where a dimension is open, as in REST.
fn shape(port: &Port) -> Vec<i64> {
    let size = |dim: &Option<usize>| dim.map_or(-1, |dim| i64::try_from(dim).unwrap_or(i64::MAX));
    port.shape.as_ref().map_or_else(|| vec![-1], |dims| dims.iter().map(size).collect())
}

pub(super) fn metadata(registry: &Registry, loaded: &Loaded) -> ModelMetadataResponse {
    let port = |port: &Port| TensorMetadata {
        name: port.name.clone(),
        datatype: pages::type_name(port).to_owned(),
        shape: shape(port),
    };
    ModelMetadataResponse {
        name: loaded.name.clone(),
        versions: registry.versions(&loaded.name).iter().map(u64::to_string).collect(),
        platform: pages::PLATFORM.to_owned(),
        inputs: ports::inputs(loaded).iter().map(port).collect(),
        outputs: ports::outputs(loaded).iter().map(port).collect(),
    }
}

/// Triton's number of a type; 0 where the protocol has no name for it.
fn data_type(port: &Port) -> i32 {
    match port.datatype {
        None => 0,
        Some(Datatype::Bool) => 1,
        Some(Datatype::Uint8) => 2,
        Some(Datatype::Uint16) => 3,
        Some(Datatype::Uint32) => 4,
        Some(Datatype::Uint64) => 5,
        Some(Datatype::Int8) => 6,
        Some(Datatype::Int16) => 7,
        Some(Datatype::Int32) => 8,
        Some(Datatype::Int64) => 9,
        Some(Datatype::Fp16) => 10,
        Some(Datatype::Fp32) => 11,
        Some(Datatype::Fp64) => 12,
        Some(Datatype::Bytes) => 13,
        Some(Datatype::Bf16) => 14,
    }
}

pub(super) fn config(loaded: &Loaded) -> ModelConfigResponse {
    let input = |port: &Port| InputPort {
        name: port.name.clone(),
        data_type: data_type(port),
        dims: shape(port),
        optional: port.is_optional,
    };
    let output = |port: &Port| OutputPort { name: port.name.clone(), data_type: data_type(port), dims: shape(port) };
    let config = ModelConfig {
        name: loaded.name.clone(),
        platform: pages::CONFIG_PLATFORM.to_owned(),
        max_batch_size: 0,
        input: ports::inputs(loaded).iter().map(input).collect(),
        output: ports::outputs(loaded).iter().map(output).collect(),
        backend: pages::NAME.to_owned(),
        // A language model answers in pieces.
        model_transaction_policy: Some(TransactionPolicy { decoupled: loaded.model.language().is_some() }),
    };
    ModelConfigResponse { config: Some(config) }
}

pub(super) fn statistics(models: &[Loaded]) -> ModelStatisticsResponse {
    let span = |span: &Span| Some(StatisticDuration { count: span.count(), ns: span.nanos() });
    let one = |loaded: &Loaded| ModelStatistics {
        name: loaded.name.clone(),
        version: loaded.version.to_string(),
        last_inference: loaded.tally.last(),
        inference_count: loaded.tally.success.count(),
        execution_count: loaded.tally.infer.count(),
        inference_stats: Some(InferStatistics {
            success: span(&loaded.tally.success),
            fail: span(&loaded.tally.fail),
            queue: span(&loaded.tally.queue.span),
            compute_input: span(&loaded.tally.input),
            compute_infer: span(&loaded.tally.infer),
            compute_output: span(&loaded.tally.output),
        }),
    };
    ModelStatisticsResponse { model_stats: models.iter().map(one).collect() }
}

pub(super) fn index(registry: &Registry, only_ready: bool) -> RepositoryIndexResponse {
    let entries = registry.index().into_iter().filter(|entry| !only_ready || entry.state == "READY");
    let models = entries.map(|entry| ModelIndex {
        name: entry.name,
        version: entry.version.to_string(),
        state: entry.state.to_owned(),
        reason: entry.reason,
    });
    RepositoryIndexResponse { models: models.collect() }
}
