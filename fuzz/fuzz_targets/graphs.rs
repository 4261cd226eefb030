//! Graphs drawn from bytes give equal results with all passes on emitted instructions and node by node in plain Rust,
//! at two shapes and at the first one again. The generator is that of the tests of the passes.

#![no_main]

#[path = "../../tests/passes/draw.rs"]
mod draw;

use kiln::session::{Session, SessionOptions};
use kiln_kernels::Isa;
use kiln_model::passes::PassOptions;
use kiln_tensor::Tensor;
use libfuzzer_sys::fuzz_target;

/// Rounding differs with the order of sums; nothing else may.
const TOLERANCE: f32 = 1e-3;

fn outputs(drawn: &draw::Drawn, options: &SessionOptions) -> Vec<Vec<Tensor>> {
    let session = Session::from_graph(drawn.graph.clone(), options).expect("drawn graphs are valid");
    let run = |inputs: &Vec<(String, Tensor)>| {
        let inputs: Vec<(&str, Tensor)> = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let outputs = session.run(&inputs).expect("drawn requests are valid");
        outputs.into_iter().map(|(_, tensor)| tensor).collect()
    };
    drawn.requests.iter().map(run).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let choices: Vec<u16> =
        bytes.chunks_exact(2).take(160).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let drawn = draw::draw(&choices, draw::Form::default());
    let fast = SessionOptions { threads: 1, ..SessionOptions::default() };
    let plain = SessionOptions { passes: PassOptions::none(), max_isa: Some(Isa::Portable), ..fast.clone() };
    for (expected, found) in outputs(&drawn, &plain).iter().flatten().zip(outputs(&drawn, &fast).iter().flatten()) {
        assert_eq!(expected.spec(), found.spec(), "{}", drawn.told());
        let (Ok(expected), Ok(found)) = (expected.as_slice::<f32>(), found.as_slice::<f32>()) else {
            assert!(expected.same(found), "{}", drawn.told());
            continue;
        };
        let scale = expected.iter().fold(1e-3f32, |scale, value| scale.max(value.abs()));
        for (a, b) in expected.iter().zip(found).filter(|(a, b)| a.to_bits() != b.to_bits()) {
            let same = (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * scale;
            assert!(same, "{a} and {b} of up to {scale}\n{}", drawn.told());
        }
    }
});
