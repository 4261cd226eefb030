//! Problems that differ in their images' sizes: when one takes the ranking of another, and when the library is asked.

use super::*;

/// The plain convolution on images of another size.
fn sized(size: u32) -> ConvProblem {
    ConvProblem { input: [1, size, size], output: [1, size, size], ..CONV }
}

/// Keeps a ranking of a solved convolution for its kin.
fn keep(process: &Process, conv: ConvProblem, ranking: &Ranking) {
    let (gpu, problem) = (process.gpu(), Problem::Conv(conv));
    gpu.kin.keep(&problem, gpu.scope_of(&problem), &gpu.policy, ranking);
}

/// How often a process asks after it has solved the plain convolution.
fn asks(process: &Process, problem: &Problem) -> u64 {
    process.solve(&conv());
    let before = process.device.counts().heuristics;
    process.solve(problem);
    process.device.counts().heuristics - before
}

#[test]
fn a_new_size_takes_the_algorithm_of_its_kin_and_leaves_a_record_of_its_own() {
    let process = Process::plain();
    process.solve(&conv());
    let (solution, outcome) = process.solve(&Problem::Conv(sized(9)));
    assert_eq!((outcome, solution.origin), (Outcome::Miss, Origin::Kin));
    assert_eq!(solution.algorithm.as_ref().unwrap().engine, ordinary());
    assert_eq!(process.device.counts().heuristics, 1);
    let own = CudnnConvKey { problem: sized(9), ..process.key() };
    assert_eq!(engines(&process.ranking(&own).0), engines(&process.known().0));
    let next = process.next(Script::default(), Policy::default());
    let (solution, outcome) = next.solve(&Problem::Conv(sized(9)));
    assert_eq!((outcome, solution.origin), (Outcome::RecordHit, Origin::RunnerUp(2)));
    // A record that is replayed serves the kin of its problem as well.
    assert_eq!(next.solve(&Problem::Conv(sized(10))).0.origin, Origin::Kin);
    assert_eq!(next.device.counts().heuristics, 0);
}

#[test]
fn what_differs_in_more_than_the_size_or_much_in_that_is_asked_for() {
    let two = ConvProblem { batch: 2, input: [1, 8, 4], output: [1, 8, 4], ..CONV };
    assert_eq!(asks(&Process::plain(), &Problem::Conv(two)), 0, "two images of half the size");
    assert_eq!(asks(&Process::plain(), &Problem::Conv(sized(11))), 0, "121 positions");
    assert_eq!(asks(&Process::plain(), &Problem::Conv(sized(12))), 1, "144 positions");
    assert_eq!(asks(&Process::plain(), &Problem::Conv(sized(7))), 1, "49 positions");
    let strange = [
        ConvProblem { filters: 5, ..sized(9) },
        ConvProblem { channels: 4, ..sized(9) },
        ConvProblem { dilations: [1, 2, 2], pads: [0, 2, 2], ..sized(9) },
        ConvProblem { epilogue: fused(UnaryOp::Relu).epilogue, ..sized(9) },
    ];
    for conv in strange {
        assert!(asks(&Process::plain(), &Problem::Conv(conv)) > 0, "{conv:?}");
    }
    let process = Process::plain();
    process.solve(&Problem::MatMul(PRODUCT));
    assert_eq!(asks(&process, &Problem::MatMul(MatMulProblem { m: 9, ..PRODUCT })), 1, "a product");
}

#[test]
fn the_order_of_requests_decides_nothing_where_runs_must_give_the_same_bits() {
    let policy = Policy { deterministic: true, ..Policy::default() };
    let process = Process::new(Script::default(), policy, Store::in_memory());
    assert_eq!(asks(&process, &Problem::Conv(sized(9))), 1);
}

#[test]
fn a_kins_algorithm_that_does_not_work_is_noted_and_the_library_asked() {
    let process = Process::plain();
    let gone = graph(99, &[]);
    let ranking = Ranking { candidates: vec![candidate(gone.clone())], ..Ranking::default() };
    keep(&process, CONV, &ranking);
    let (solution, _) = process.solve(&Problem::Conv(sized(9)));
    assert_eq!(solution.origin, Origin::Heuristic);
    assert_eq!(solution.algorithm.as_ref().unwrap().engine, ordinary());
    let own = process.ranking(&CudnnConvKey { problem: sized(9), ..process.key() }).0;
    assert!(own.refuses(&gone) && !engines(&own).contains(&gone));
}

#[test]
fn what_the_library_cannot_fuse_at_one_size_is_not_asked_for_at_the_next() {
    let process = Process::plain();
    let gelu = |size| Problem::Conv(ConvProblem { epilogue: fused(UnaryOp::Gelu).epilogue, ..sized(size) });
    assert!(process.solve(&gelu(8)).0.solver.is_none());
    let asked = process.device.counts().heuristics;
    assert!(process.solve(&gelu(9)).0.solver.is_none());
    assert_eq!(process.device.counts().heuristics, asked);
}

#[test]
fn a_measured_order_takes_the_place_of_a_proposed_one() {
    let process = Process::plain();
    process.solve(&conv());
    let measured = Ranking {
        candidates: vec![Candidate { nanos: 5, ..candidate(split()) }],
        measured_under: Some(Policy::default()),
        ..Ranking::default()
    };
    keep(&process, sized(9), &measured);
    assert_eq!(process.engine(&Problem::Conv(sized(10))), Some(split()));
    let own = process.ranking(&CudnnConvKey { problem: sized(10), ..process.key() }).0;
    assert_eq!((own.measured_under, own.candidates[0].nanos), (None, 0), "nothing was measured at this size");
}
