//! The emulated device with kernels that do more than those of the families, and with wrong kernels.

use super::*;
use crate::gpu::source::PRELUDE;

fn source(parameters: &[&str], list: &str, body: &str) -> Source {
    let text = format!("{PRELUDE}typedef u32 Index;\nKILN_KERNEL void test({list})\n{{\n{body}\n}}\n");
    Source { entry: "test".to_owned(), text, parameters: parameters.iter().map(|&kind| kind.to_owned()).collect() }
}

/// Runs a body that sees `out`, an array of `outputs` floats, and returns the array.
fn run(body: &str, outputs: usize, grid: [u32; 3], block: [u32; 3]) -> Result<Vec<f32>> {
    let module = compile(&source(&["long long"], "i64 address", &format!("float* out = (float*)address;\n{body}")))?;
    let cells: Vec<std::cell::UnsafeCell<f32>> = (0..outputs).map(|_| 0.0.into()).collect();
    let args = [Arg::I64(cells.as_ptr() as i64)];
    module.launch(&Launch { grid, block, args: &args })?;
    Ok(cells.into_iter().map(std::cell::UnsafeCell::into_inner).collect())
}

#[test]
fn every_thread_of_every_block_runs_once() {
    let body = "u32 at = (KILN_BLOCK_X * KILN_THREADS_X + KILN_THREAD_X) * 3 + KILN_THREAD_Y; out[at] += at;";
    let given = run(body, 5 * 7 * 3, [5, 1, 1], [7, 3, 1]).unwrap();
    assert_eq!(given, (0..105).map(|at| at as f32).collect::<Vec<f32>>());
}

#[test]
fn barriers_hold_all_threads_of_a_block() {
    // Each thread reads what its neighbour wrote, round after round.
    let body = "KILN_SHARED float shared[64];
        shared[KILN_THREAD_X] = KILN_THREAD_X;
        for (int round = 0; round < 10; ++round) {
            KILN_SYNC();
            float next = shared[(KILN_THREAD_X + 1) % 64];
            KILN_SYNC();
            shared[KILN_THREAD_X] = next;
        }
        out[KILN_BLOCK_X * 64 + KILN_THREAD_X] = shared[KILN_THREAD_X];";
    let given = run(body, 128, [2, 1, 1], [64, 1, 1]).unwrap();
    assert_eq!(given, (0..128).map(|at| ((at + 10) % 64) as f32).collect::<Vec<f32>>());
}

#[test]
fn shuffles_exchange_within_a_warp_however_far_others_are() {
    // The second warp takes part in more exchanges than the first, before both meet at a barrier.
    let body = "float value = KILN_THREAD_X;
        int rounds = KILN_THREAD_X < 32 ? 1 : 5;
        for (int round = 0; round < rounds; ++round)
            for (int lane = 16; lane > 0; lane /= 2) value += KILN_SHUFFLE_XOR(value, lane);
        KILN_SYNC();
        out[KILN_THREAD_X] = value;";
    let given = run(body, 64, [1, 1, 1], [64, 1, 1]).unwrap();
    let first = (0..32).sum::<u32>() as f32;
    let second = (32..64).sum::<u32>() as f32 * 32f32.powi(4);
    assert!(given[..32].iter().all(|&value| value == first), "{given:?}");
    assert!(given[32..].iter().all(|&value| (value / second - 1.0).abs() < 1e-6), "{given:?}");
}

#[test]
fn what_a_device_leaves_undefined_is_an_error() {
    let barrier = "if (KILN_THREAD_X < 40) KILN_SYNC();";
    let shuffle = "if (KILN_THREAD_X < 40) out[0] = KILN_SHUFFLE_XOR(out[0], 1);";
    for (body, threads, reason) in [(barrier, 64, "barrier"), (shuffle, 64, "shuffle"), (barrier, 33, "warps")] {
        let error = run(body, 1, [1, 1, 1], [threads, 1, 1]).unwrap_err();
        assert!(matches!(error, KernelError::Device { .. }) && error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn arguments_must_be_those_of_the_source() {
    let parameters = ["const float*", "int", "long long", "float", "Pair"];
    let list = "const float* a, int b, i64 c, float d, Pair e";
    let mut source = source(&parameters, list, "");
    source.text = source.text.replace("typedef u32 Index;", "typedef struct { u32 a, b, c; } Pair;");
    let module = compile(&source).unwrap();
    let bytes = [0; 13];
    let launch = |args: &[Arg<'_>]| module.launch(&Launch { grid: [1; 3], block: [1; 3], args });
    let right = [Arg::Memory(None), Arg::I32(-1), Arg::I64(2), Arg::F32(0.5), Arg::Bytes(&bytes[..12])];
    launch(&right).unwrap();
    assert!(launch(&right[..4]).is_err());
    for (place, wrong) in
        [(0, Arg::I64(0)), (1, Arg::I64(0)), (2, Arg::I32(0)), (3, Arg::I32(0)), (4, Arg::Bytes(&bytes))]
    {
        let mut args = right;
        args[place] = wrong;
        assert!(matches!(launch(&args), Err(KernelError::Unsupported { .. })), "{wrong:?} at {place}");
    }
    for (grid, block) in [([0, 1, 1], [1; 3]), ([1, 70_000, 1], [1; 3]), ([1; 3], [2048, 1, 1]), ([1; 3], [0, 1, 1])] {
        assert!(module.launch(&Launch { grid, block, args: &right }).is_err(), "{grid:?} {block:?}");
    }
}

#[test]
fn a_text_that_is_no_c_is_refused_with_what_the_compiler_said() {
    let error = compile(&source(&[], "void", "this is no C;")).unwrap_err();
    assert!(error.to_string().contains("error"), "{error}");
}

#[test]
fn equal_texts_are_compiled_once() {
    let source = source(&["float"], "float unused_by_others", "");
    let start = std::time::Instant::now();
    compile(&source).unwrap();
    let first = start.elapsed();
    let again = std::time::Instant::now();
    (0..10).for_each(|_| drop(compile(&source).unwrap()));
    assert!(again.elapsed() < first, "ten times {:?}, once {first:?}", again.elapsed());
}
