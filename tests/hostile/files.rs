//! Whole files that are damaged, and files that point to others.

use std::os::unix::fs::symlink;
use std::path::Path;

use kiln::session::{Session, SessionError};
use kiln_model::GraphBuilder;
use kiln_model::onnx;
use kiln_tensor::{DType, Tensor};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::wire::{Message, elsewhere, graph, model, node};
use crate::{ALONE, options};

/// A model of about 4 KiB with most kinds of content: weights, a body, attributes, text.
fn sample() -> Vec<u8> {
    let mut build = GraphBuilder::new("sample", 17);
    let x = build.input("x", DType::F32, ["n".into(), 16.into()]);
    let weights = Tensor::from_vec([16, 32], (0..512).map(|i| (i % 7) as f32 - 3.0).collect()).unwrap();
    let w = build.constant(weights);
    let product = build.op("MatMul", &[x, w], &[]);
    let made = build.op("Softmax", &[product], &[("axis", 1.into())]);
    let axes = build.constant(Tensor::from_slice([1], &[1i64]).unwrap());
    let sum = build.op("ReduceSum", &[made, axes], &[("keepdims", 0.into())]);
    let transposed = build.op("Transpose", &[made], &[("perm", kiln_model::ir::Attr::Ints(vec![1, 0]))]);
    build.output("y", transposed);
    build.output("z", sum);
    let bytes = onnx::write(&build.finish()).unwrap();
    // Padded to 4 KiB by the text that a file may carry.
    let text = "about ".repeat((4096 - bytes.len() - 3) / 6);
    Message(bytes).text(6, &text).0
}

fn load(bytes: Vec<u8>) -> Option<Session> {
    Session::load_bytes(bytes, &options(None)).ok()
}

/// A run on small inputs. Whatever it returns, it ends.
fn run(session: &Session) {
    let x = Tensor::from_vec([2, 16], vec![0.5f32; 32]).unwrap();
    let _ = session.run(&[("x", x)]);
}

#[test]
fn models_cut_at_every_byte_end_in_an_error_or_a_result() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let whole = sample();
    assert!((3500..4200).contains(&whole.len()), "{} bytes", whole.len());
    let loaded = (0..=whole.len()).filter(|&end| load(whole[..end].to_vec()).inspect(run).is_some()).count();
    // The whole file, and cuts between the fields at its end, which no reader can tell from a whole file.
    assert!((1..5).contains(&loaded), "{loaded} cuts were loaded");
}

#[test]
fn models_with_any_bit_flipped_end_in_an_error_or_a_result() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let whole = sample();
    let mut loaded = 0usize;
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        loaded += usize::from(load(bytes).inspect(run).is_some());
    }
    // Weights and text may hold anything.
    assert!(loaded > whole.len(), "{loaded} of {} flips were loaded", whole.len() * 8);
}

#[test]
fn names_and_numbers_of_odd_forms_are_errors_or_harmless() {
    let weights = |name: &str| {
        let raw: Vec<u8> = [1f32; 4].iter().flat_map(|value| value.to_le_bytes()).collect();
        Message::default().varint(1, 4).varint(2, 1).text(8, name).bytes(9, &raw)
    };
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("a name with a NUL", model(&graph(&weights("w\0")))),
        ("an overlong number", [model(&graph(&weights("w"))), [0x08].into_iter().chain([0xff; 11]).collect()].concat()),
        ("a field of the future", Message(model(&graph(&weights("w")))).text(2000, "later").0),
        ("a group, which protobuf has given up", [model(&graph(&weights("w"))), vec![0x0b, 0x0c]].concat()),
        ("two graphs", Message(model(&graph(&weights("w")))).message(7, &graph(&weights("w"))).0),
        ("a node of 20,000 inputs", {
            let inputs = vec!["x"; 20_000];
            model(
                &Message::default()
                    .message(1, &node("Sum", &inputs, "y"))
                    .message(11, &Message::default().text(1, "x")),
            )
        }),
        ("a dimension of 2^63", model(&graph(&Message::default().varint(1, 1 << 63).varint(2, 1).text(8, "w")))),
        ("nothing but tags", vec![0x0a; 4096]),
        ("zeros", vec![0; 4096]),
        ("ones", vec![0xff; 4096]),
    ];
    for (name, bytes) in rows {
        let result = Session::load_bytes(bytes, &options(None));
        if let Err(error) = &result {
            assert!(!matches!(error, SessionError::Run(_)), "{name}: {error}");
        }
        result.iter().for_each(run);
    }
}

/// A folder with a model in `model/`, weights beside it, and a file outside.
fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("model");
    std::fs::create_dir_all(inside.join("below")).unwrap();
    let bytes: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    for file in ["model/w", "model/below/w", "model/linked", "secret"] {
        std::fs::write(root.path().join(file), &bytes).unwrap();
    }
    symlink(root.path().join("secret"), inside.join("link")).unwrap();
    symlink(root.path(), inside.join("up")).unwrap();
    std::fs::hard_link(inside.join("linked"), inside.join("hard")).unwrap();
    mknodat(CWD, inside.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    root
}

fn load_in(root: &Path, entries: &[(&str, &str)]) -> Result<Session, SessionError> {
    let file = root.join("model/model.onnx");
    std::fs::write(&file, model(&graph(&elsewhere(entries)))).unwrap();
    Session::load(&file, &options(None))
}

#[test]
fn weights_come_from_below_the_models_folder_or_not_at_all() {
    let root = folder();
    let secret = root.path().join("secret").display().to_string();
    let outside: &[&str] = &["../secret", "below/../../secret", &secret, "link", "up/secret", "hard", "pipe", "below"];
    let long = "w".repeat(1 << 16);
    let missing: &[&str] = &["", ".", "..", "absent", "w\0", "/dev/zero", "/proc/self/mem", &long];
    for location in outside.iter().chain(missing) {
        let result = load_in(root.path(), &[("location", location)]);
        assert!(matches!(result, Err(SessionError::Model(_))), "{location}");
    }
    for place in [
        [("offset", "-1"), ("length", "16")],
        [("offset", "16"), ("length", "16")],
        [("offset", "1152921504606846976"), ("length", "16")],
        [("offset", "18446744073709551615"), ("length", "16")],
        [("offset", "0"), ("length", "1152921504606846976")],
        [("offset", "0"), ("length", "15")],
        [("offset", "0x0"), ("length", "16")],
        [("offset", ""), ("length", "")],
    ] {
        let entries: Vec<(&str, &str)> = [("location", "w")].into_iter().chain(place).collect();
        let result = load_in(root.path(), &entries);
        assert!(matches!(result, Err(SessionError::Model(_))), "{place:?}");
    }
    let session = load_in(root.path(), &[("location", "below/w"), ("unheard", "of")]).unwrap();
    let outputs = session.run(&[("x", Tensor::from_slice([4], &[1f32; 4]).unwrap())]).unwrap();
    assert_eq!(outputs[0].1.as_slice::<f32>().unwrap(), [2.0, 3.0, 4.0, 5.0]);
    // A model from memory has no folder, and so no other file.
    let bytes = model(&graph(&elsewhere(&[("location", "w")])));
    assert!(matches!(Session::load_bytes(bytes, &options(None)), Err(SessionError::Model(_))));
}

#[test]
fn everything_that_is_missing_is_said_at_once() {
    let mut build = GraphBuilder::new("g", 17);
    let x = build.input("x", DType::F32, [2.into()]);
    let a = build.op("Nonsense", &[x], &[]);
    let b = build.op_of("com.example", "Other", &[Some(a)], &[]);
    let c = build.op("MaxPool", &[b], &[("kernel_shape", kiln_model::ir::Attr::Ints(vec![1]))]);
    let d = build.op("Cast", &[c], &[("to", 14.into())]);
    build.output("y", d);
    let error = Session::load_bytes(onnx::write(&build.finish()).unwrap(), &options(None)).err().unwrap();
    let SessionError::Unsupported(missing) = &error else { panic!("{error}") };
    for part in ["ai.onnx.Nonsense (version 17)", "com.example.Other (version 1)", "element type number 14"] {
        assert!(missing.iter().any(|what| what.contains(part)), "{part} in {missing:?}");
    }
}
