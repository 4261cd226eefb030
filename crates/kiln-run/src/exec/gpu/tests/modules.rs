//! Kernels of Kiln's own: compiled once, again ahead of need, and only by the recorded compiler.

use kiln_kernels::gpu::source::{FillKernel, Kernel, KernelCode, SoftmaxCode};

use super::*;
use crate::exec::gpu::module::NvrtcKey;
use crate::record::{decode, encode};

#[test]
fn a_kernel_is_compiled_once_and_ahead_of_need_by_the_next_process() {
    let first = Process::plain();
    let (module, outcome) = first.cx.module(&KernelCode::Fill).unwrap();
    assert_eq!(outcome, Outcome::Miss);
    assert!(Arc::ptr_eq(&module, &first.cx.module(&KernelCode::Fill).unwrap().0));
    assert_eq!(first.device.counts().compiles, 1);
    let next = first.next(Script::default(), Policy::default());
    assert_eq!(next.ready(), 1);
    assert_eq!((next.cx.module(&KernelCode::Fill).unwrap().1, next.device.counts().compiles), (Outcome::Hit, 1));
    assert_eq!(next.cx.cache.stats().record_hits, 1);
    // It runs in the arena's memory.
    let region = next.gpu().arena.take(4000).unwrap();
    let kernel = FillKernel::new(&1.5f32.to_ne_bytes(), 1000).unwrap();
    assert!(kernel.launch(&*module.module, &[], &region).is_err(), "another device's memory");
    let module = next.cx.module(&kernel.code()).unwrap().0;
    kernel.launch(&*module.module, &[], &region).unwrap();
    let mut values = vec![0f32; 1000];
    next.device.download(&region, bytemuck::cast_slice_mut(&mut values)).unwrap();
    assert_eq!(values, [1.5; 1000]);
}

#[test]
fn another_compiler_and_other_kernels_are_other_records() {
    let first = Process::plain();
    first.cx.module(&KernelCode::Fill).unwrap();
    first.solve(&conv());
    let mut script = Script::default();
    script.facts.nvrtc += 10;
    let next = first.next(script, Policy::default());
    assert_eq!(next.ready(), 1, "the convolution alone");
    assert_eq!(next.device.counts().compiles, 0);
    let softmax = KernelCode::Softmax(SoftmaxCode { team: None, logarithm: false, wide: false });
    for code in [KernelCode::Fill, softmax] {
        assert_eq!(next.cx.module(&code).unwrap().1, Outcome::Miss);
    }
    assert_eq!(next.cx.records.keys::<NvrtcKey>().len(), 3);
    let lines = next.cx.records.list();
    let words: Vec<String> = lines.iter().filter_map(exec::describe).map(|(key, _)| key).collect();
    assert!(words.iter().any(|key| key.starts_with("Softmax(")) && words.len() == 4, "{words:?}");
}

#[test]
fn keys_of_kernels_come_back_from_their_bytes_and_no_two_are_one() {
    let softmax = |logarithm, wide| KernelCode::Softmax(SoftmaxCode { team: None, logarithm, wide });
    let codes = [KernelCode::Fill, softmax(false, false), softmax(true, false), softmax(false, true)];
    let keys: Vec<NvrtcKey> =
        codes.iter().flat_map(|code| [1, 2].map(|scope| NvrtcKey { code: code.clone(), scope })).collect();
    let bytes: Vec<Vec<u8>> = keys.iter().map(|key| encode(key).unwrap()).collect();
    for (place, (key, own)) in keys.iter().zip(&bytes).enumerate() {
        assert_eq!(decode::<NvrtcKey>(own).as_ref(), Ok(key));
        assert_eq!(bytes.iter().position(|other| other == own), Some(place));
    }
}

#[test]
fn kernels_must_be_recorded_where_everything_must_be() {
    let complete = Process::plain().strict();
    assert!(matches!(complete.cx.module(&KernelCode::Fill), Err(BuildError::NotRecorded { family: "nvrtc-kernel" })));
    assert_eq!(complete.device.counts().compiles, 0);
}
