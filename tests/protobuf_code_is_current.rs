//! The checked-in Rust code of messages is what the generator makes today from the descriptions of ONNX and of the
//! server.
//!
//! After a change of a description, `KILN_REGENERATE=1 cargo test --test protobuf_code_is_current` rewrites the code.

use std::path::Path;

/// A description and the code that is generated from it.
struct Generated {
    /// Where both are.
    folder: &'static str,
    description: &'static str,
    /// The generator's name for its file: the package of the description.
    package: &'static str,
    /// The first lines of the code.
    header: &'static str,
    /// Fields of bytes that share the memory of the message.
    shared: &'static [&'static str],
}

const ONNX: Generated = Generated {
    folder: "crates/kiln-model/src/onnx",
    description: "onnx.proto",
    package: "onnx",
    header: "\
//! ONNX's messages, generated from `onnx.proto` by the test `protobuf_code_is_current`: not to be edited.
//! Must never be seen outside the folder `onnx`. What the fields mean is told in `onnx.proto`.
",
    // The one kind of field that shares the memory of the model, or stays in its file.
    shared: &[".onnx.TensorProto.raw_data", ".onnx.TensorProto.float_data", ".onnx.TensorProto.double_data"],
};

const SERVER: Generated = Generated {
    folder: "crates/kiln-serve/src/grpc",
    description: "open_inference.proto",
    package: "inference",
    header: "\
//! The server's messages, generated from `open_inference.proto` by the test `protobuf_code_is_current`: not to be edited.
",
    shared: &[],
};

/// Compares the code, or writes it where the environment asks for it.
#[track_caller]
fn is_current(generated: &Generated) {
    let Generated { folder, description, package, header, shared } = generated;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let parsed = protox::compile([description], [&folder]).expect("the description parses");
    let out = tempfile::tempdir().expect("a folder to generate into");
    prost_build::Config::new()
        .bytes(shared.iter())
        .disable_comments(["."])
        .out_dir(out.path())
        .compile_fds(parsed)
        .expect("code is generated");
    let code = std::fs::read_to_string(out.path().join(format!("{package}.rs"))).expect("code was generated");
    let code = format!("{header}\n{code}");
    let place = folder.join("proto.rs");
    #[allow(clippy::disallowed_methods, reason = "a switch of this test, not a knob of the runtime")]
    let regenerate = std::env::var_os("KILN_REGENERATE").is_some();
    if regenerate {
        std::fs::write(&place, &code).expect("the code is written");
    }
    let present = std::fs::read_to_string(&place).unwrap_or_default();
    let place = place.display();
    assert!(present == code, "{place} is not what {description} says; see this test's first lines");
}

#[test]
fn protobuf_code_is_current() {
    is_current(&ONNX);
}

#[test]
fn protobuf_code_of_the_server_is_current() {
    is_current(&SERVER);
}
