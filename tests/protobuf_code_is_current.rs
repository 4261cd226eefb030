//! The checked-in Rust code of ONNX's messages is what the generator makes of `src/onnx/onnx.proto` today.
//!
//! After a change of the description, `KILN_REGENERATE=1 cargo test --test protobuf_code_is_current` writes the code anew.

use std::path::Path;

const HEADER: &str = "\
//! ONNX's messages, generated from `onnx.proto` by the test `protobuf_code_is_current`: not to be edited.
//! Must never be seen outside the folder `onnx`. What the fields mean is told in `onnx.proto`.
";

#[test]
fn protobuf_code_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("src/onnx");
    let description = protox::compile(["onnx.proto"], [&folder]).expect("the description parses");
    let out = tempfile::tempdir().expect("a folder to generate into");
    prost_build::Config::new()
        // The one kind of field that shares the memory of the model, or stays in its file.
        .bytes([".onnx.TensorProto.raw_data"])
        .disable_comments(["."])
        .out_dir(out.path())
        .compile_fds(description)
        .expect("code is generated");
    let code = std::fs::read_to_string(out.path().join("onnx.rs")).expect("code was generated");
    let code = format!("{HEADER}\n{code}");
    let place = folder.join("proto.rs");
    #[allow(clippy::disallowed_methods, reason = "a switch of this test, not a knob of the runtime")]
    let regenerate = std::env::var_os("KILN_REGENERATE").is_some();
    if regenerate {
        std::fs::write(&place, &code).expect("the code is written");
    }
    let present = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(present == code, "src/onnx/proto.rs is not what onnx.proto says; see this test's first lines");
}
