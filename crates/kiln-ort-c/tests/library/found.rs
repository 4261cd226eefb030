//! Faults that AddressSanitizer and calls drawn at random have found, each with the calls that led to it.

use std::ffi::CStr;

use crate::api::{Api, call};
use crate::models;

#[test]
fn a_tensor_may_be_copied_to_itself_and_over_a_part_of_itself() {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    let environment = api.environment();
    let counted = || (0..1025).map(|at| at as f32).collect::<Vec<f32>>();
    let copy = |from: usize, to: usize| {
        api.ok(call!(api, CopyTensors, environment, &[from][..], &[to][..], 0usize, 1usize));
        call!(api, ReleaseValue, from);
        call!(api, ReleaseValue, to);
    };
    let mut data = counted();
    // The same memory, as two values and as one.
    copy(api.tensor(&mut data, &[1025], 1), api.tensor(&mut data, &[1025], 1));
    let whole = api.tensor(&mut data, &[1025], 1);
    copy(whole, whole);
    assert_eq!(data, counted());
    // All but the last element one place further, then all but the first back.
    copy(api.tensor(&mut data[..1024], &[1024], 1), api.tensor(&mut data[1..], &[1024], 1));
    let mut expected = counted();
    expected.copy_within(..1024, 1);
    assert_eq!(data, expected);
    copy(api.tensor(&mut data[1..], &[1024], 1), api.tensor(&mut data[..1024], &[1024], 1));
    expected.copy_within(1.., 0);
    assert_eq!(data, expected);
    call!(api, ReleaseEnv, environment);
}

#[test]
fn a_binding_of_another_session_gives_its_inputs_by_their_names() {
    let _alone = crate::alone();
    let api = Api::open(&crate::kiln());
    let environment = api.environment();
    let [pair, weighted] = [models::pair(), models::weighted()].map(|model| api.session(environment, &model));
    let overridable = api.session(environment, &models::overridable());
    let (mut data, mut info) = ([1f32, 2.0], 0usize);
    api.ok(call!(api, CreateCpuMemoryInfo, 0, 0, &mut info));
    let bound = |session: usize, name: &CStr, value: usize| {
        let mut binding = 0usize;
        api.ok(call!(api, CreateIoBinding, session, &mut binding));
        api.ok(call!(api, BindInput, binding, name, value));
        api.ok(call!(api, BindOutputToDevice, binding, c"y", info));
        binding
    };
    // `b` is the second of two inputs. The other sessions have one input, and two of other names.
    let row = api.tensor(&mut data, &[1, 2], 1);
    let of_pair = bound(pair, c"b", row);
    for session in [weighted, overridable] {
        let said = api.says(call!(api, RunWithBinding, session, 0usize, of_pair), "Invalid input name: b");
        assert_eq!(said, "2 says 'Invalid input name: b'");
    }
    // A name that both sessions have.
    let x = api.tensor(&mut data, &[2], 1);
    let of_overridable = bound(overridable, c"x", x);
    api.ok(call!(api, RunWithBinding, weighted, 0usize, of_overridable));
    let (mut values, mut count) = (0usize, 0usize);
    api.ok(call!(api, GetBoundOutputValues, of_overridable, api.allocator(), &mut values, &mut count));
    let made = crate::api::list(values, count);
    assert_eq!(made.iter().map(|value| api.floats(*value)).collect::<Vec<_>>(), [[3.0, 4.0]]);
    api.ok(call!(api, AllocatorFree, api.allocator(), values));
    for value in made.into_iter().chain([row, x]) {
        call!(api, ReleaseValue, value);
    }
    for binding in [of_pair, of_overridable] {
        call!(api, ReleaseIoBinding, binding);
    }
    for session in [pair, weighted, overridable] {
        call!(api, ReleaseSession, session);
    }
    call!(api, ReleaseMemoryInfo, info);
    call!(api, ReleaseEnv, environment);
}
