//! Models that are compiled with the crate `ort`: Kiln's packed models.

use std::path::Path;
use std::sync::OnceLock;

use kiln::{DType, Dim, GraphBuilder};
use ort::compiler::ModelCompiler;
use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use ort::value::Tensor;

/// The environment, on Kiln.
fn switch() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        assert!(ort::set_api(kiln_ort::api()));
        ort::init().build().unwrap()
    })
}

fn builder() -> SessionBuilder {
    Session::builder(switch()).unwrap().with_intra_threads(1).unwrap()
}

/// `y = x w` over `[rows, 8]`, where every element of a row of `y` is the sum of that row of `x`.
fn model() -> Vec<u8> {
    let mut build = GraphBuilder::new("sums", 17);
    let x = build.input("x", DType::F32, [Dim::from("rows"), Dim::from(8)]);
    let w = build.constant(kiln::Tensor::from_slice([8, 8], &[1f32; 64]).unwrap());
    let y = build.op("MatMul", &[x, w], &[]);
    build.output("y", y);
    kiln_model::onnx::write(&build.finish()).unwrap()
}

fn check(mut session: Session) {
    for rows in [1usize, 3, 1] {
        let input = Tensor::from_array(([rows, 8], vec![0.5f32; rows * 8])).unwrap();
        let outputs = session.run(ort::inputs!["x" => input]).unwrap();
        let (shape, y) = outputs["y"].try_extract_tensor::<f32>().unwrap();
        assert_eq!(&shape[..], [rows as i64, 8]);
        assert!(y.iter().all(|sum| *sum == 4.0));
    }
}

fn compiler(folder: &Path) -> ModelCompiler<'static> {
    let path = folder.join("model.onnx");
    std::fs::write(&path, model()).unwrap();
    ModelCompiler::new(builder()).unwrap().with_model_from_file(path).unwrap()
}

#[test]
fn a_model_is_compiled_to_a_file_and_runs_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("compiled");
    compiler(folder.path()).compile_to_file(&to).unwrap();
    assert!(kiln::packed::is_packed(&to));
    check(builder().commit_from_file(&to).unwrap());
}

#[test]
fn a_model_in_memory_is_compiled_to_memory_and_runs_from_it() {
    let model = model();
    let compiler = ModelCompiler::new(builder()).unwrap().with_model_from_memory(&model).unwrap();
    // Settings of execution providers have no effect.
    let compiler = compiler.with_embed_ep_context().unwrap().with_external_initializers(0, "weights.bin").unwrap();
    let compiled = compiler.compile_to_buffer().unwrap();
    assert!(compiled.starts_with(&kiln::packed::MAGIC));
    let session = builder().commit_from_memory(&compiled).unwrap();
    drop(compiled);
    check(session);
}

#[test]
fn a_session_writes_the_model_where_its_options_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("model.onnx"), model()).unwrap();
    let to = |name: &str| builder().with_optimized_model_path(path(name)).unwrap();
    check(to("first").commit_from_file(path("model.onnx")).unwrap());
    assert!(kiln::packed::is_packed(&path("first")));
    check(builder().commit_from_file(path("first")).unwrap());
    check(to("second").commit_from_memory(&model()).unwrap());
    check(builder().commit_from_file(path("second")).unwrap());
    // A packed model is copied, from a path or from memory.
    let packed = std::fs::read(path("first")).unwrap();
    check(to("third").commit_from_file(path("first")).unwrap());
    check(to("fourth").commit_from_memory(&packed).unwrap());
    assert!(["third", "fourth"].iter().all(|name| std::fs::read(path(name)).unwrap() == packed));
    // A session goes on that has mapped the file that another one writes.
    let mapped = builder().commit_from_file(path("third")).unwrap();
    check(to("third").commit_from_memory(&packed).unwrap());
    check(mapped);
    // Neither takes the place of what it is made of.
    check(to("first").commit_from_file(path("first")).unwrap());
    assert_eq!(std::fs::read(path("first")).unwrap(), packed);
    let error = to("model.onnx").commit_from_file(path("model.onnx")).unwrap_err().to_string();
    assert!(error.contains("is the model itself") && std::fs::read(path("model.onnx")).unwrap() == model(), "{error}");
    let error = to("missing/model").commit_from_memory(&model()).unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
    let error = to("missing/model").commit_from_memory(&packed).unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
}

#[test]
fn what_cannot_be_compiled_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("compiled");
    let refused = |compiler: ModelCompiler<'_>| {
        let error = compiler.compile_to_file(&to).unwrap_err().to_string();
        assert!(!to.exists());
        error
    };
    let error = refused(ModelCompiler::new(builder()).unwrap());
    assert!(error.contains("Input model path or buffer must be set"), "{error}");
    let absent = folder.path().join("absent.onnx");
    let error = refused(ModelCompiler::new(builder()).unwrap().with_model_from_file(&absent).unwrap());
    assert!(error.contains("absent.onnx failed. File doesn't exist"), "{error}");
    let error = refused(ModelCompiler::new(builder()).unwrap().with_model_from_memory(b"no model").unwrap());
    assert!(error.contains("protobuf parsing failed"), "{error}");
    let compiled = compiler(folder.path()).compile_to_buffer().unwrap();
    let error = refused(ModelCompiler::new(builder()).unwrap().with_model_from_memory(&compiled).unwrap());
    assert!(error.contains("the input model is compiled already"), "{error}");
}

#[test]
fn a_damaged_compiled_model_in_memory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = compiler(folder.path()).compile_to_buffer().unwrap();
    for length in [8, 100, compiled.len() - 1] {
        let error = builder().commit_from_memory(&compiled[..length]).map(drop).unwrap_err().to_string();
        assert!(error.contains("is no packed model that can be used"), "{error}");
    }
}
