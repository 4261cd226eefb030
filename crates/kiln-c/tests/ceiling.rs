//! The limit over a process, in a process of its own.

use std::ffi::CStr;
use std::ptr::null_mut;

use kiln::{DType, Dim, GraphBuilder, Tensor};
use kiln_c::*;

#[test]
fn what_would_pass_the_limit_of_the_process_is_refused_and_the_limit_goes_with_its_session() {
    let mut build = GraphBuilder::new("product", 17);
    let x = build.input("x", DType::F32, [Dim::from("rows"), 64.into()]);
    let weights = build.constant(Tensor::from_vec([64, 64], vec![1.0f32; 64 * 64]).unwrap());
    let y = build.op("MatMul", &[x, weights], &[]);
    build.output("y", y);
    let model = kiln_model::onnx::write(&build.finish()).unwrap();
    let load = |limit: &CStr| {
        let (mut options, mut session) = (null_mut(), null_mut());
        // SAFETY: there is room for both handles, and texts and bytes live during the calls.
        unsafe {
            assert!(kiln_options_new(&raw mut options).is_null());
            assert!(kiln_options_set(options, c"optimize".as_ptr(), c"0".as_ptr()).is_null());
            assert!(kiln_options_set(options, c"process_bytes".as_ptr(), limit.as_ptr()).is_null());
            let status = kiln_session_load_bytes(model.as_ptr().cast(), model.len(), options, &raw mut session);
            kiln_options_release(options);
            let code = kiln_status_code(status);
            kiln_status_release(status);
            (code, session)
        }
    };
    let limit = || {
        let mut memory = KilnMemory::default();
        // SAFETY: there is room for a struct of that size.
        assert!(unsafe { kiln_process_memory(&raw mut memory, size_of::<KilnMemory>()) }.is_null());
        memory.limit
    };
    assert_eq!(load(c"4KiB"), (KilnCode::NoMemory, null_mut()));
    assert_eq!(limit(), u64::MAX);
    let (code, session) = load(c"64MiB");
    assert_eq!((code, limit()), (KilnCode::Ok, 64 << 20));
    // SAFETY: releasing is allowed for any handle.
    unsafe { kiln_session_release(session) };
    assert_eq!(limit(), u64::MAX);
}
