//! The crate `ort` on Kiln: the two lines to switch, and what programs do with it.

use std::sync::OnceLock;

use kiln::{Dim, GraphBuilder};
use ort::environment::Environment;
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{Adapter, RunOptions, Session};
use ort::value::{Sequence, Tensor, TensorElementType, TensorRef, ValueType};

/// The environment, after the lines that a program changes to run on Kiln.
fn switch() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        assert!(ort::set_api(kiln_ort::api()));
        ort::init().build().unwrap()
    })
}

/// `y = x + x` over `[rows, 2]`, with metadata.
fn twice() -> Vec<u8> {
    let mut build = GraphBuilder::new("twice", 17);
    let x = build.input("x", kiln::DType::F32, [Dim::from("rows"), Dim::from(2)]);
    let y = build.op("Add", &[x, x], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    let mut about = (*graph.metadata).clone();
    about.producer_name = "kiln's tests".to_owned();
    about.description = "adds".to_owned();
    about.version = 7;
    about.properties = vec![("language".to_owned(), "none".to_owned())];
    graph.metadata = about.into();
    kiln_model::onnx::write(&graph).unwrap()
}

fn session(model: &[u8]) -> Session {
    Session::builder(switch()).unwrap().with_intra_threads(1).unwrap().commit_from_memory(model).unwrap()
}

#[test]
fn a_session_runs_at_changing_shapes_and_describes_itself() {
    let mut session = session(&twice());
    assert_eq!(session.inputs().len(), 1);
    assert_eq!(session.inputs()[0].name(), "x");
    let ValueType::Tensor { ty, shape, dimension_symbols } = session.inputs()[0].dtype() else { panic!() };
    assert_eq!((*ty, &shape[..]), (TensorElementType::Float32, &[-1, 2][..]));
    assert_eq!((dimension_symbols[0].as_str(), dimension_symbols[1].as_str()), ("rows", ""));
    for rows in [1usize, 3, 1, 5] {
        let x: Vec<f32> = (0..rows * 2).map(|at| at as f32).collect();
        let input = Tensor::from_array(([rows, 2], x.clone())).unwrap();
        let outputs = session.run(ort::inputs!["x" => input]).unwrap();
        let (shape, y) = outputs["y"].try_extract_tensor::<f32>().unwrap();
        assert_eq!(&shape[..], [rows as i64, 2]);
        assert!(y.iter().zip(&x).all(|(y, x)| *y == x + x));
    }
    let about = session.metadata().unwrap();
    assert_eq!(about.producer().unwrap(), "kiln's tests");
    assert_eq!(about.description().unwrap(), "adds");
    assert_eq!(about.version().unwrap(), 7);
    assert_eq!(about.custom("language").as_deref(), Some("none"));
    assert_eq!(about.custom("absent"), None);
    assert_eq!(about.custom_keys().unwrap(), ["language"]);
}

#[test]
fn inputs_are_read_where_the_program_has_them_and_outputs_stay_writable() {
    let mut session = session(&twice());
    let mut x = [1f32; 4];
    for round in 0..3 {
        x.fill(round as f32);
        let input = TensorRef::from_array_view(([2usize, 2], &x[..])).unwrap();
        let mut outputs = session.run(ort::inputs![input]).unwrap();
        let (_, y) = outputs[0].try_extract_tensor_mut::<f32>().unwrap();
        assert_eq!(y, [2.0 * round as f32; 4]);
        y[0] = 9.0;
        assert_eq!(outputs[0].try_extract_tensor::<f32>().unwrap().1[0], 9.0);
    }
}

#[test]
fn a_binding_keeps_the_place_of_its_outputs() {
    let mut session = session(&twice());
    let mut binding = session.create_binding().unwrap();
    let input = Tensor::from_array(([2usize, 2], vec![1f32, 2.0, 3.0, 4.0])).unwrap();
    binding.bind_input("x", &input).unwrap();
    let cpu = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Device, MemoryType::CPUOutput).unwrap();
    binding.bind_output_to_device("y", &cpu).unwrap();
    let place = |outputs: &ort::session::SessionOutputs<'_>| {
        let (_, y) = outputs["y"].try_extract_tensor::<f32>().unwrap();
        assert_eq!(y, [2.0, 4.0, 6.0, 8.0]);
        y.as_ptr()
    };
    let first = place(&session.run_binding(&binding).unwrap());
    assert_eq!(place(&session.run_binding(&binding).unwrap()), first);
    let output = Tensor::<f32>::new(&Allocator::default(), [2usize, 2]).unwrap();
    let given = output.extract_tensor().1.as_ptr();
    binding.bind_output("y", output).unwrap();
    assert_eq!(place(&session.run_binding(&binding).unwrap()), given, "it is written where it is wanted");
}

#[test]
fn texts_and_sequences_come_back_as_they_were_given() {
    switch();
    let texts = Tensor::from_string_array(([2usize, 2], &["one", "", "drei", "\u{2713}"][..])).unwrap();
    let (shape, read) = texts.try_extract_strings().unwrap();
    assert_eq!(
        (&shape[..], read),
        (&[2, 2][..], vec!["one".to_owned(), String::new(), "drei".into(), "\u{2713}".into()])
    );
    let one = Tensor::from_array(([2usize], vec![1i64, 2])).unwrap();
    let two = Tensor::from_array(([1usize], vec![3i64])).unwrap();
    let sequence = Sequence::new([one, two]).unwrap();
    let read = sequence.extract_sequence();
    assert_eq!(read.len(), 2);
    assert_eq!(read[1].extract_tensor().1, [3]);
}

#[test]
fn what_is_wrong_is_said_in_the_words_that_programs_know() {
    let mut session = session(&twice());
    let text = |error: ort::Error| error.to_string();
    let wrong = Tensor::from_array(([1usize, 2], vec![1i64, 2])).unwrap();
    let error = text(session.run(ort::inputs!["x" => wrong]).map(drop).unwrap_err());
    assert!(
        error.contains("Unexpected input data type. Actual: (tensor(int64)) , expected: (tensor(float))"),
        "{error}"
    );
    let wrong = Tensor::from_array(([2usize], vec![1f32, 2.0])).unwrap();
    let error = text(session.run(ort::inputs!["x" => wrong]).map(drop).unwrap_err());
    assert!(error.contains("Invalid rank for input: x Got: 1 Expected: 2"), "{error}");
    let wrong = Tensor::from_array(([1usize, 3], vec![1f32, 2.0, 3.0])).unwrap();
    let error = text(session.run(ort::inputs!["x" => wrong]).map(drop).unwrap_err());
    assert!(error.contains("index: 1 Got: 3 Expected: 2"), "{error}");
    let input = Tensor::from_array(([1usize, 2], vec![1f32, 2.0])).unwrap();
    let error = text(session.run(ort::inputs!["z" => input]).map(drop).unwrap_err());
    assert!(error.contains("Invalid input name: z"), "{error}");
    let error = text(Session::builder(switch()).unwrap().commit_from_memory(b"no model").map(drop).unwrap_err());
    assert!(error.contains("protobuf parsing failed"), "{error}");
}

#[test]
fn a_run_ends_when_its_options_say_so_and_runs_again_when_they_take_it_back() {
    let mut session = session(&twice());
    let options = RunOptions::new().unwrap();
    let input = || Tensor::from_array(([1usize, 2], vec![1f32, 2.0])).unwrap();
    options.terminate().unwrap();
    let error = session.run_with_options(ort::inputs![input()], &options).map(drop).unwrap_err().to_string();
    assert!(error.contains("Exiting due to terminate flag being set to true."), "{error}");
    options.unterminate().unwrap();
    assert!(session.run_with_options(ort::inputs![input()], &options).is_ok());
}

#[test]
fn memory_of_an_allocator_belongs_to_its_tensor() {
    let session = session(&twice());
    let info = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Arena, MemoryType::Default).unwrap();
    let allocator = Allocator::new(&session, info).unwrap();
    let mut tensor = Tensor::<f32>::new(&allocator, [3usize, 5]).unwrap();
    let (shape, data) = tensor.extract_tensor_mut();
    assert_eq!((&shape[..], data.len()), (&[3, 5][..], 15));
    data.fill(2.0);
    assert!(tensor.extract_tensor().1.iter().all(|value| *value == 2.0));
    assert_eq!(tensor.extract_tensor().1.as_ptr().addr() % 64, 0);
}

#[test]
fn tensors_are_copied_and_cloned() {
    switch();
    let numbers = Tensor::from_array(([2usize, 3], vec![1i16, 2, 3, 4, 5, 6])).unwrap();
    let mut copy = numbers.clone();
    copy.extract_tensor_mut().1[0] = 9;
    assert_eq!(numbers.extract_tensor().1, [1, 2, 3, 4, 5, 6]);
    assert_eq!(copy.extract_tensor().1, [9, 2, 3, 4, 5, 6]);
    let moved = numbers.to(AllocationDevice::CPU, 0).unwrap();
    assert_eq!(moved.extract_tensor().1, [1, 2, 3, 4, 5, 6]);
    let mut target = Tensor::<i16>::new(&Allocator::default(), [2usize, 3]).unwrap();
    numbers.copy_into(&mut target).unwrap();
    assert_eq!(target.extract_tensor().1, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn tensors_of_an_adapter_take_the_place_of_inputs_in_runs_that_name_it() {
    // y = x + w, where w has a default.
    let mut build = GraphBuilder::new("adaptable", 17);
    let [x, w] = ["x", "w"].map(|name| build.input(name, kiln::DType::F32, [Dim::from(2)]));
    let y = build.op("Add", &[x, w], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    graph.set_constant(w, kiln::Tensor::from_slice([2], &[10f32, 10.0]).unwrap());
    let mut session = session(&kiln_model::onnx::write(&graph).unwrap());
    let adapter = |name: &str, value: f32| {
        let tensor = kiln::Tensor::from_slice([2], &[value; 2]).unwrap();
        let adapter = kiln::Adapter { parameters: vec![(name.to_owned(), tensor)], ..kiln::Adapter::default() };
        Adapter::from_memory(&adapter.to_bytes().unwrap(), None).unwrap()
    };
    let mut run = |adapters: &[Adapter]| {
        let mut options = RunOptions::new().unwrap();
        for adapter in adapters {
            options.add_adapter(adapter).unwrap();
        }
        let x = Tensor::from_array(([2], vec![1f32, 2.0])).unwrap();
        let outputs = session.run_with_options(ort::inputs!["x" => x], &options).map_err(|error| error.to_string())?;
        Ok(outputs["y"].try_extract_tensor::<f32>().unwrap().1.to_vec())
    };
    assert_eq!(run(&[]), Ok(vec![11.0, 12.0]));
    assert_eq!(run(&[adapter("w", 20.0)]), Ok(vec![21.0, 22.0]));
    assert_eq!(run(&[adapter("w", 20.0), adapter("w", 30.0)]), Ok(vec![31.0, 32.0]));
    assert_eq!(run(&[adapter("w", 20.0), adapter("x", 5.0)]), Ok(vec![25.0, 25.0]));
    assert_eq!(run(&[adapter("z", 1.0)]), Err::<Vec<f32>, String>("Invalid input name: z".to_owned()));
    assert_eq!(run(&[]), Ok(vec![11.0, 12.0]));
    assert!(Adapter::from_memory(b"no adapter", None).is_err());
    assert!(Adapter::from_file("no/such.onnx_adapter", None).is_err());
}
