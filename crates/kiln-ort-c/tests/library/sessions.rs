//! Sessions: how they are made, and their information about models.

use std::os::unix::ffi::OsStrExt;

use kiln::{DType, Dim};

use crate::api::{Api, call, list, text};
use crate::models;
use crate::notes::Notes;

pub(crate) fn note(api: Api, notes: &mut Notes) {
    let environment = api.environment();
    sources(api, environment, notes);
    ports(api, environment, notes);
    overridable(api, environment, notes);
    metadata(api, environment, notes);
    call!(api, ReleaseEnv, environment);
}

fn sources(api: Api, environment: usize, notes: &mut Notes) {
    let (mut session, options) = (0usize, api.options());
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| std::ffi::CString::new(folder.path().join(name).as_os_str().as_bytes()).unwrap();
    std::fs::write(folder.path().join("pair.onnx"), models::pair()).unwrap();
    std::fs::write(folder.path().join("empty.onnx"), b"").unwrap();
    let status = call!(api, CreateSession, environment, &path("pair.onnx"), options, &mut session);
    notes.note("a session by path", api.says(status, ""));
    call!(api, ReleaseSession, session);
    let status = call!(api, CreateSession, environment, &path("none.onnx"), options, &mut session);
    notes.note("a path that is not there", api.says(status, "File doesn't exist"));
    let status = call!(api, CreateSession, environment, &path("empty.onnx"), options, &mut session);
    notes.note("a file without bytes", api.says(status, "o graph was found in the protobuf"));
    let from = |bytes: &[u8]| {
        let mut session = 0usize;
        let status = call!(api, CreateSessionFromArray, environment, bytes, bytes.len(), 0usize, &mut session);
        (session, status)
    };
    let (session, status) = from(&models::pair());
    notes.note("a session by bytes, without options", api.says(status, ""));
    call!(api, ReleaseSession, session);
    notes.note("no bytes", api.says(from(&[]).1, "No graph was found in the protobuf"));
    notes.note(
        "bytes of no model",
        api.says(from(b"this is no model").1, "Failed to load model because protobuf parsing failed."),
    );
    notes.note("an operator that there is not", api.says(from(&models::unknown_operator()).1, "NoSuchOperator"));
    let (mut container, weighted) = (0usize, models::weighted());
    api.ok(call!(api, CreatePrepackedWeightsContainer, &mut container));
    let mut sessions = [0usize; 2];
    for session in &mut sessions {
        let (bytes, count) = (&weighted[..], weighted.len());
        let status = call!(
            api,
            CreateSessionFromArrayWithPrepackedWeightsContainer,
            environment,
            bytes,
            count,
            options,
            container,
            session
        );
        notes.note("a session with prepacked weights", api.says(status, ""));
    }
    for session in sessions {
        let (mut x, mut outputs) = ([1f32, 5.0], [0usize]);
        let x = api.tensor(&mut x, &[2], 1);
        api.ok(api.run(session, 0, &[(c"x", x)], &[c"y"], &mut outputs));
        notes.note("which runs", format!("{:?}", api.floats(outputs[0])));
        call!(api, ReleaseValue, x);
        call!(api, ReleaseValue, outputs[0]);
        call!(api, ReleaseSession, session);
    }
    call!(api, ReleasePrepackedWeightsContainer, container);
    call!(api, ReleaseSessionOptions, options);
}

/// A type in words.
pub(crate) fn described(api: Api, info: usize) -> String {
    let (mut kind, mut inner) = (9i32, 0usize);
    api.ok(call!(api, GetOnnxTypeFromTypeInfo, info, &mut kind));
    let of = |inner: usize| {
        let said = described(api, inner);
        call!(api, ReleaseTypeInfo, inner);
        said
    };
    match kind {
        1 => {
            let mut tensor = 0usize;
            api.ok(call!(api, CastTypeInfoToTensorInfo, info, &mut tensor));
            let (mut element, mut rank, mut count) = (99i32, 99usize, 77usize);
            api.ok(call!(api, GetTensorElementType, tensor, &mut element));
            api.ok(call!(api, GetDimensionsCount, tensor, &mut rank));
            let (mut dims, mut names) = (vec![0i64; rank], vec![0usize; rank]);
            api.ok(call!(api, GetDimensions, tensor, dims.as_mut_ptr(), rank));
            api.ok(call!(api, GetSymbolicDimensions, tensor, names.as_mut_ptr(), rank));
            let names: Vec<String> = names.into_iter().map(text).collect();
            let shaped = call!(api, TensorTypeAndShape_HasShape, tensor) as u8;
            let status = call!(api, GetTensorShapeElementCount, tensor, &mut count);
            let count = api.taken(status).map_or_else(|| count.to_string(), |(code, _)| format!("{code}, {count}"));
            format!("tensor of {element} {dims:?} {names:?} shape {shaped} count {count}")
        }
        2 => {
            let mut sequence = 0usize;
            api.ok(call!(api, CastTypeInfoToSequenceTypeInfo, info, &mut sequence));
            api.ok(call!(api, GetSequenceElementType, sequence, &mut inner));
            format!("sequence of {}", of(inner))
        }
        3 => {
            let (mut map, mut key) = (0usize, 9i32);
            api.ok(call!(api, CastTypeInfoToMapTypeInfo, info, &mut map));
            api.ok(call!(api, GetMapKeyType, map, &mut key));
            api.ok(call!(api, GetMapValueType, map, &mut inner));
            format!("map from {key} to {}", of(inner))
        }
        6 => {
            let mut optional = 0usize;
            api.ok(call!(api, CastTypeInfoToOptionalTypeInfo, info, &mut optional));
            api.ok(call!(api, GetOptionalContainedTypeInfo, optional, &mut inner));
            format!("optional {}", of(inner))
        }
        kind => format!("kind {kind}"),
    }
}

fn ports(api: Api, environment: usize, notes: &mut Notes) {
    let dynamic = models::identity(DType::F32, &[Dim::from("batch"), Dim::Any, Dim::from(3)]);
    let scalar = models::identity(DType::I64, &[]);
    for (what, model) in [
        ("dynamic", dynamic),
        ("scalar", scalar),
        ("rankless", models::rankless()),
        ("sequence", models::sequence()),
        ("optional", models::optional()),
        ("maps", models::maps()),
    ] {
        let session = api.session(environment, &model);
        let (mut input, mut output, mut name) = (0usize, 0usize, 0usize);
        api.ok(call!(api, SessionGetInputTypeInfo, session, 0usize, &mut input));
        api.ok(call!(api, SessionGetOutputTypeInfo, session, 0usize, &mut output));
        api.ok(call!(api, SessionGetOutputName, session, 0usize, api.allocator(), &mut name));
        notes.note(&format!("{what} input"), described(api, input));
        notes.note(&format!("{what} output"), format!("{} {}", api.owned_text(name), described(api, output)));
        let (mut other, mut denotation, mut length) = (9usize, 0usize, 9usize);
        notes.note(&format!("{what} input as a map"), {
            let status = call!(api, CastTypeInfoToMapTypeInfo, input, &mut other);
            format!("{} {other}", api.says(status, ""))
        });
        api.ok(call!(api, GetDenotationFromTypeInfo, input, &mut denotation, &mut length));
        notes.note(&format!("{what} denotation"), format!("'{}' {length}", text(denotation)));
        call!(api, ReleaseTypeInfo, input);
        call!(api, ReleaseTypeInfo, output);
        call!(api, ReleaseSession, session);
    }
    let session = api.session(environment, &models::pair());
    let mut info = 0usize;
    let status = call!(api, SessionGetInputTypeInfo, session, 2usize, &mut info);
    notes.note("an input beyond the last", api.says(status, "out of index"));
    let status = call!(api, SessionGetInputName, session, 9usize, api.allocator(), &mut info);
    notes.note("a name beyond the last", api.says(status, "out of range"));
    let mut infos = [0usize; 3];
    let status = call!(api, SessionGetMemoryInfoForInputs, session, infos.as_mut_ptr(), 2usize);
    notes.note("memory of inputs", format!("{} {}", api.says(status, ""), infos[0] != 0 && infos[1] != 0));
    let status = call!(api, SessionGetMemoryInfoForInputs, session, infos.as_mut_ptr(), 3usize);
    notes.note("memory of too many inputs", api.says(status, ""));
    call!(api, ReleaseSession, session);
}

fn overridable(api: Api, environment: usize, notes: &mut Notes) {
    let session = api.session(environment, &models::overridable());
    let (mut inputs, mut others, mut name) = (9usize, 9usize, 0usize);
    api.ok(call!(api, SessionGetInputCount, session, &mut inputs));
    api.ok(call!(api, SessionGetOverridableInitializerCount, session, &mut others));
    notes.note("inputs and those with a default", format!("{inputs} {others}"));
    api.ok(call!(api, SessionGetOverridableInitializerName, session, 0usize, api.allocator(), &mut name));
    notes.note("the one with a default", api.owned_text(name));
    let (mut x, mut w) = ([1f32, 2.0], [10f32, 20.0]);
    let (x, w) = (api.tensor(&mut x, &[2], 1), api.tensor(&mut w, &[2], 1));
    for inputs in [&[(c"x", x)][..], &[(c"x", x), (c"w", w)]] {
        let mut outputs = [0usize];
        api.ok(api.run(session, 0, inputs, &[c"y"], &mut outputs));
        notes.note(&format!("a run with {} of them", inputs.len()), format!("{:?}", api.floats(outputs[0])));
        call!(api, ReleaseValue, outputs[0]);
    }
    call!(api, ReleaseSession, session);
    let mut weighted = 0usize;
    let (model, options) = (models::weighted(), api.options());
    notes.note("an initialiser of the program's", api.says(call!(api, AddInitializer, options, c"w", w), ""));
    let status = call!(api, CreateSessionFromArray, environment, &model[..], model.len(), options, &mut weighted);
    notes.note("a session with it", api.says(status, ""));
    if weighted != 0 {
        let mut outputs = [0usize];
        api.ok(api.run(weighted, 0, &[(c"x", x)], &[c"y"], &mut outputs));
        notes.note("a run with it", format!("{:?}", api.floats(outputs[0])));
        call!(api, ReleaseValue, outputs[0]);
    }
    call!(api, ReleaseSession, weighted);
    call!(api, ReleaseSessionOptions, options);
    call!(api, ReleaseValue, x);
    call!(api, ReleaseValue, w);
}

fn metadata(api: Api, environment: usize, notes: &mut Notes) {
    let session = api.session(environment, &models::pair());
    let (mut about, mut read, mut version) = (0usize, 0usize, 0i64);
    api.ok(call!(api, SessionGetModelMetadata, session, &mut about));
    let allocator = api.allocator();
    api.ok(call!(api, ModelMetadataGetProducerName, about, allocator, &mut read));
    notes.note("producer", api.owned_text(read));
    api.ok(call!(api, ModelMetadataGetGraphName, about, allocator, &mut read));
    notes.note("graph", api.owned_text(read));
    api.ok(call!(api, ModelMetadataGetDomain, about, allocator, &mut read));
    notes.note("domain", api.owned_text(read));
    api.ok(call!(api, ModelMetadataGetDescription, about, allocator, &mut read));
    notes.note("description", api.owned_text(read));
    api.ok(call!(api, ModelMetadataGetGraphDescription, about, allocator, &mut read));
    notes.note("graph's description", api.owned_text(read));
    api.ok(call!(api, ModelMetadataGetVersion, about, &mut version));
    notes.note("model's version", version);
    api.ok(call!(api, ModelMetadataLookupCustomMetadataMap, about, allocator, c"language", &mut read));
    notes.note("a property", api.owned_text(read));
    api.ok(call!(api, ModelMetadataLookupCustomMetadataMap, about, allocator, c"none", &mut read));
    notes.note("an absent property", api.owned_text(read));
    let (mut keys, mut count) = (0usize, 9i64);
    api.ok(call!(api, ModelMetadataGetCustomMetadataMapKeys, about, allocator, &mut keys, &mut count));
    let names: Vec<String> = list(keys, count as usize).into_iter().map(|key| api.owned_text(key)).collect();
    notes.note("properties", format!("{names:?}"));
    api.ok(call!(api, AllocatorFree, allocator, keys));
    call!(api, ReleaseModelMetadata, about);
    call!(api, ReleaseSession, session);
    let session = api.session(environment, &models::weighted());
    api.ok(call!(api, SessionGetModelMetadata, session, &mut about));
    api.ok(call!(api, ModelMetadataGetCustomMetadataMapKeys, about, allocator, &mut keys, &mut count));
    notes.note("no properties", format!("{keys} {count}"));
    call!(api, ReleaseModelMetadata, about);
    let mut path = 0usize;
    api.ok(call!(api, SessionEndProfiling, session, allocator, &mut path));
    notes.note("a profile that was not asked for", format!("'{}'", api.owned_text(path)));
    call!(api, ReleaseSession, session);
}
