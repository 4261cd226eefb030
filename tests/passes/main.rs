//! Every pass keeps results: graphs drawn at random give the same with all passes, with none, with each one alone and
//! with each one left out, and again when a shape comes back after another one.

mod apart;
mod bf16;
mod branches;
mod compact;
mod doubles;
mod draw;
mod gather;
mod integers;
mod pairs;
mod parts;
mod quantized;
mod taps;
mod vectors;
mod widen;

use draw::Drawn;
use kiln::session::{Session, SessionOptions};
use kiln_model::Graph;
use kiln_model::passes::{self, PassOptions};
use kiln_run::record::CacheMode;
use kiln_tensor::Tensor;
use proptest::prelude::*;

/// Outputs of a session over that graph for each request.
fn outputs(
    graph: &Graph,
    options: PassOptions,
    requests: &[Vec<(String, Tensor)>],
) -> Result<Vec<Vec<Tensor>>, String> {
    let options =
        SessionOptions { threads: 1, cache_mode: CacheMode::Memory, passes: options, ..SessionOptions::default() };
    let session = Session::from_graph(graph.clone(), &options).map_err(|error| error.to_string())?;
    let run = |inputs: &Vec<(String, Tensor)>| {
        let inputs: Vec<(&str, Tensor)> = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
        Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
    };
    requests.iter().map(run).collect()
}

/// How far `found` is from `expected`, relative to the largest expected element; an error if the shapes differ.
fn distance(expected: &Tensor, found: &Tensor) -> Result<f32, String> {
    if expected.spec() != found.spec() {
        return Err(format!("expected {:?}, found {:?}", expected.spec(), found.spec()));
    }
    let (Ok(a), Ok(b)) = (expected.as_slice::<f32>(), found.as_slice::<f32>()) else {
        return Ok(if expected.same(found) { 0.0 } else { f32::INFINITY });
    };
    let scale = a.iter().fold(1e-3f32, |scale, value| scale.max(value.abs()));
    // A NaN makes the distance infinite, unless both have it in the same place.
    let far = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).map(|(a, b)| {
        let distance = if a.is_nan() && b.is_nan() { 0.0 } else { (a - b).abs() / scale };
        if distance.is_nan() { f32::INFINITY } else { distance }
    });
    Ok(far.fold(0.0, f32::max))
}

/// Rounding differs where weights are scaled beforehand or sums are taken in another order. Nothing else may differ.
const TOLERANCE: f32 = 1e-3;

fn compare(drawn: &Drawn, name: &str, options: PassOptions, expected: &[Vec<Tensor>]) -> Result<(), TestCaseError> {
    let found = outputs(&drawn.graph, options, &drawn.requests)
        .map_err(|error| TestCaseError::fail(format!("{name}: {error}\n{}", drawn.told())))?;
    for (request, (expected, found)) in expected.iter().zip(&found).enumerate() {
        prop_assert_eq!(expected.len(), found.len(), "{}", name);
        for (output, (expected, found)) in expected.iter().zip(found).enumerate() {
            let distance = distance(expected, found);
            prop_assert!(
                matches!(distance, Ok(distance) if distance <= TOLERANCE),
                "{}: request {}, output {}: {:?}\n{}",
                name,
                request,
                output,
                distance,
                drawn.told()
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn passes_keep_results(choices in prop::collection::vec(any::<u16>(), 8..160)) {
        let drawn = draw::draw(&choices, draw::Form::default());
        let expected = outputs(&drawn.graph, PassOptions::none(), &drawn.requests);
        let expected = expected.map_err(|error| TestCaseError::fail(format!("no pass: {error}\n{}", drawn.told())))?;
        compare(&drawn, "all passes", PassOptions::default(), &expected)?;
        // One pass in each direction for each case: over all cases every pass has its turns, and a case stays short.
        let names = passes::names();
        let name = names[usize::from(choices[0]) % names.len()];
        compare(&drawn, &format!("only {name}"), PassOptions::none().with(name), &expected)?;
        compare(&drawn, &format!("all but {name}"), PassOptions::default().without(name), &expected)?;
    }
}
