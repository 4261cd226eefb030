//! Handles that are released in any order or twice, or used after their release.

use std::ffi::CStr;

use crate::api::{Api, call};
use crate::models;

/// The value of `y = x + [2, 2]`.
fn runs(api: Api, session: usize, x: usize) -> Vec<f32> {
    let mut outputs = [0usize];
    api.ok(api.run(session, 0, &[(c"x", x)], &[c"y"], &mut outputs));
    let floats = api.floats(outputs[0]);
    call!(api, ReleaseValue, outputs[0]);
    floats
}

#[test]
fn what_a_release_leaves_in_use_stays() {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    // Options, the environment and the model's bytes go right after the session is made.
    let environment = api.environment();
    let (options, mut session, mut model) = (api.options(), 0usize, models::weighted());
    let count = model.len();
    api.ok(call!(api, CreateSessionFromArray, environment, model.as_mut_ptr(), count, options, &mut session));
    model.fill(0xa5);
    drop(model);
    call!(api, ReleaseSessionOptions, options);
    call!(api, ReleaseEnv, environment);
    // The memory info goes before its tensor (`tensor` releases it).
    let mut data = [1f32, 2.0];
    let x = api.tensor(&mut data, &[2], 1);
    let mut info = 0usize;
    api.ok(call!(api, GetTensorMemoryInfo, x, &mut info));
    let mut name = 0usize;
    api.ok(call!(api, MemoryInfoGetName, info, &mut name));
    assert_eq!(crate::api::text(name), "Cpu");
    assert_eq!(runs(api, session, x), [3.0, 4.0]);
    // Values go before the binding's run, and the session before the binding and its values.
    let (mut binding, mut place, mut values, mut bound) = (0usize, 0usize, 0usize, 0usize);
    api.ok(call!(api, CreateIoBinding, session, &mut binding));
    api.ok(call!(api, BindInput, binding, c"x", x));
    api.ok(call!(api, CreateCpuMemoryInfo, 0, 0, &mut place));
    api.ok(call!(api, BindOutputToDevice, binding, c"y", place));
    call!(api, ReleaseMemoryInfo, place);
    call!(api, ReleaseValue, x);
    api.ok(call!(api, RunWithBinding, session, 0usize, binding));
    call!(api, ReleaseSession, session);
    api.ok(call!(api, GetBoundOutputValues, binding, api.allocator(), &mut values, &mut bound));
    call!(api, ReleaseIoBinding, binding);
    let values_of = crate::api::list(values, bound);
    assert_eq!(api.floats(values_of[0]), [3.0, 4.0]);
    call!(api, ReleaseValue, values_of[0]);
    api.ok(call!(api, AllocatorFree, api.allocator(), values));
}

#[test]
fn parts_outlive_what_they_are_of() {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    let mut data = [1f32, 2.0];
    let part = api.tensor(&mut data, &[2], 1);
    let (mut sequence, mut again, mut info, mut element) = (0usize, 0usize, 0usize, 0usize);
    api.ok(call!(api, CreateValue, &[part, part][..], 2usize, 2, &mut sequence));
    call!(api, ReleaseValue, part);
    api.ok(call!(api, GetValue, sequence, 1, api.allocator(), &mut again));
    api.ok(call!(api, GetTypeInfo, sequence, &mut info));
    call!(api, ReleaseValue, sequence);
    assert_eq!(api.floats(again), [1.0, 2.0]);
    call!(api, ReleaseValue, again);
    let mut inner = 0usize;
    api.ok(call!(api, CastTypeInfoToSequenceTypeInfo, info, &mut inner));
    api.ok(call!(api, GetSequenceElementType, inner, &mut element));
    call!(api, ReleaseTypeInfo, info);
    let mut kind = 0i32;
    api.ok(call!(api, GetOnnxTypeFromTypeInfo, element, &mut kind));
    assert_eq!(kind, 1);
    // A part borrowed from the released type is gone, and reports that.
    let said = api.says(call!(api, GetSequenceElementType, inner, &mut info), "is not a live");
    assert!(said.starts_with("2 says"), "{said}");
    call!(api, ReleaseTypeInfo, element);
}

#[test]
fn a_handle_that_was_released_is_refused_and_released_again_for_nothing() {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    let environment = api.environment();
    let session = api.session(environment, &models::weighted());
    let mut data = [1f32, 2.0];
    let value = api.tensor(&mut data, &[2], 1);
    let (mut number, mut handle) = (0usize, 0usize);
    // Makes a handle, releases it twice, and uses it.
    macro_rules! dead {
        ($handle:expr, $release:ident, $use:ident($($before:expr),*; $($after:expr),*)) => {{
            let dead: usize = $handle;
            assert_ne!(dead, 0);
            call!(api, $release, dead);
            call!(api, $release, dead);
            let said = api.says(call!(api, $use $(, $before)*, dead $(, $after)*), "is not a live Ort");
            assert!(said.starts_with("2 says 'is not a live Ort'"), "{}: {said}", stringify!($use));
        }};
    }
    macro_rules! made {
        ($create:ident($($argument:expr),*)) => {{
            api.ok(call!(api, $create, $($argument,)* &mut handle));
            handle
        }};
    }
    dead!(made!(CreateSessionOptions()), ReleaseSessionOptions, SetIntraOpNumThreads(; 1));
    dead!(made!(CreateRunOptions()), ReleaseRunOptions, RunOptionsSetTerminate(;));
    dead!(made!(CreateCpuMemoryInfo(0, 0)), ReleaseMemoryInfo, MemoryInfoGetId(; &mut number));
    dead!(made!(CreateTensorTypeAndShapeInfo()), ReleaseTensorTypeAndShapeInfo, GetDimensionsCount(; &mut number));
    dead!(made!(CreateThreadingOptions()), ReleaseThreadingOptions, SetGlobalSpinControl(; 1));
    dead!(made!(CreateIoBinding(session)), ReleaseIoBinding, BindInput(; c"x", value));
    dead!(made!(SessionGetModelMetadata(session)), ReleaseModelMetadata, ModelMetadataGetVersion(; &mut number));
    dead!(made!(SessionGetInputTypeInfo(session, 0usize)), ReleaseTypeInfo, GetOnnxTypeFromTypeInfo(; &mut number));
    let mut info = 0usize;
    api.ok(call!(api, CreateCpuMemoryInfo, 1, 0, &mut info));
    dead!(
        made!(CreateArenaCfg(0usize, -1, -1, -1)), ReleaseArenaCfg,
        CreateAndRegisterAllocator(environment, info;)
    );
    call!(api, ReleaseMemoryInfo, info);
    let model = models::weighted();
    dead!(
        made!(CreatePrepackedWeightsContainer()), ReleasePrepackedWeightsContainer,
        CreateSessionFromArrayWithPrepackedWeightsContainer(environment, &model[..], model.len(), 0usize; &mut number)
    );
    dead!(api.session(environment, &model), ReleaseSession, SessionGetInputCount(; &mut number));
    dead!(value, ReleaseValue, GetValueType(; &mut number));
    let status = call!(api, CreateStatus, 9, c"said");
    call!(api, ReleaseStatus, status);
    call!(api, ReleaseStatus, status);
    assert_eq!(call!(api, GetErrorCode, status) as i32, 2);
    assert!(crate::api::text(call!(api, GetErrorMessage, status)).contains("not a live"));
    let mut own = 0usize;
    api.ok(call!(api, CreateCpuMemoryInfo, 0, 0, &mut info));
    api.ok(call!(api, CreateAllocator, session, info, &mut own));
    call!(api, ReleaseAllocator, own);
    call!(api, ReleaseAllocator, own);
    let said = api.says(call!(api, AllocatorAlloc, own, 8usize, &mut number), "");
    assert!(said.starts_with("6 says"), "{said}");
    let mut pairs = 0usize;
    call!(api, CreateKeyValuePairs, &mut pairs);
    call!(api, ReleaseKeyValuePairs, pairs);
    call!(api, ReleaseKeyValuePairs, pairs);
    call!(api, AddKeyValuePair, pairs, c"a", c"b");
    assert_eq!(call!(api, GetKeyValue, pairs, c"a"), 0);
    call!(api, ReleaseMemoryInfo, info);
    call!(api, ReleaseSession, session);
    call!(api, ReleaseEnv, environment);
    dead!(environment, ReleaseEnv, DisableTelemetryEvents(;));
}

#[test]
fn handles_end_in_every_order() {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    let mut data = [1f32, 2.0];
    // All orders of five: the digits of a number in the factorial system choose from the rest.
    for order in 0..120usize {
        let environment = api.environment();
        let session = api.session(environment, &models::weighted());
        let x = api.tensor(&mut data, &[2], 1);
        let (mut binding, mut outputs) = (0usize, [0usize]);
        api.ok(call!(api, CreateIoBinding, session, &mut binding));
        api.ok(call!(api, BindInput, binding, c"x", x));
        api.ok(api.run(session, 0, &[(c"x", x)], &[c"y"], &mut outputs));
        let (mut left, mut rest) = (vec![0, 1, 2, 3, 4], order);
        while !left.is_empty() {
            let choice = rest % left.len();
            rest /= left.len();
            match left.remove(choice) {
                0 => call!(api, ReleaseEnv, environment),
                1 => call!(api, ReleaseSession, session),
                2 => call!(api, ReleaseValue, x),
                3 => call!(api, ReleaseIoBinding, binding),
                _ => call!(api, ReleaseValue, outputs[0]),
            };
        }
    }
    let none: &CStr = c"none";
    let mut session = 0usize;
    let said = api.says(call!(api, CreateSession, 0usize, none, 0usize, &mut session), "env is null");
    assert_eq!(said, "2 says 'env is null'");
}
