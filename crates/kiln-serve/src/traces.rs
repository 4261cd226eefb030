//! Spans of requests, sent to a collector of OpenTelemetry by OTLP over gRPC.
//!
//! A request is a span of the kind `server` from its headers to its answer. It is a child of its client's span if it
//! has a `traceparent`, and is kept if its client's is. Its times in the queue and in the model's run are child spans.
//! A thread of their own sends spans in batches. A slow or missing collector loses spans and delays no request: at most
//! 2,048 spans wait (`OTEL_BSP_MAX_QUEUE_SIZE`).

use std::time::Duration;

use opentelemetry::trace::{
    Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use crate::journal::{Caller, Ended, Journal, Stage};

/// The longest wait for the last spans.
const GOODBYE: Duration = Duration::from_secs(5);

/// Why no traces can be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracesError {
    /// The collector's URL is not valid.
    #[error("traces cannot be sent to '{url}': {error}")]
    Url {
        /// The URL.
        url: String,
        /// Why.
        error: ExporterBuildError,
    },
    /// There is no thread for it.
    #[error("cannot start the thread of traces: {0}")]
    Thread(std::io::Error),
}

/// Sends a span for each request that has ended.
pub struct Traces {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    /// Drives the connection to the collector.
    _runtime: tokio::runtime::Runtime,
}

impl Traces {
    /// Sends spans to the collector at that URL (`http://localhost:4317`). It connects when there are spans.
    ///
    /// # Errors
    ///
    /// If the URL is not valid, or no thread can be started.
    pub fn to(url: &str) -> Result<Traces, TracesError> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("kiln-traces").enable_all();
        let runtime = runtime.build().map_err(TracesError::Thread)?;
        let exporter = {
            let _connects_there = runtime.enter();
            SpanExporter::builder().with_tonic().with_endpoint(url).build()
        };
        let exporter = exporter.map_err(|error| TracesError::Url { url: url.to_owned(), error })?;
        // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first.
        let found = Resource::builder().build();
        let name = found.get(&Key::from_static_str("service.name"));
        let is_named = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
        let resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let resource = if is_named { resource } else { resource.with_service_name("kiln") };
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        Ok(Traces { tracer: provider.tracer("kiln-serve"), provider, _runtime: runtime })
    }

    /// Sends the remaining spans, for at most five seconds; spans left after that are lost.
    pub fn end(&self) {
        // The exporter's own log reports a collector that cannot be reached.
        let _ = self.provider.shutdown_with_timeout(GOODBYE);
    }
}

impl Journal for Traces {
    fn ended(&self, request: &Ended<'_>) {
        let parent = request.caller.map_or_else(Context::new, within);
        let attributes = vec![
            KeyValue::new("kiln.model", request.model.to_owned()),
            KeyValue::new("kiln.version", i64::try_from(request.version).unwrap_or(i64::MAX)),
            KeyValue::new("kiln.outcome", request.outcome),
            KeyValue::new("kiln.together", i64::try_from(request.together).unwrap_or(i64::MAX)),
        ];
        let span = self.tracer.span_builder(format!("infer {}", request.model));
        let span = span.with_kind(SpanKind::Server).with_start_time(request.began).with_attributes(attributes);
        let mut span = self.tracer.build_with_context(span, &parent);
        if let Some(error) = request.error {
            span.set_status(Status::error(error.to_owned()));
        }
        let own = parent.with_remote_span_context(span.span_context().clone());
        for (name, stage) in [("queue", request.queued), ("run", request.ran)] {
            if let Some(Stage { after, time }) = stage {
                let begun = request.began + after;
                let span = self.tracer.span_builder(name).with_start_time(begun);
                self.tracer.build_with_context(span, &own).end_with_timestamp(begun + time);
            }
        }
        span.end_with_timestamp(request.began + request.took);
    }
}

/// The context of a client's span.
fn within(caller: Caller) -> Context {
    let flags = if caller.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (TraceId::from(caller.trace), SpanId::from(caller.span));
    Context::new().with_remote_span_context(SpanContext::new(trace, span, flags, true, TraceState::default()))
}
