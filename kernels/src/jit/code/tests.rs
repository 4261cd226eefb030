//! Sealed code runs the same from every kind of executable memory, and from memory that dropped code occupied before.

use super::super::arena::Schemes;
use super::*;
use crate::jit::{Asm, Gpr, Mem};

const SCHEMES: [Schemes; 2] = [Schemes { dual: true, flip: false }, Schemes { dual: false, flip: true }];

/// A kernel that writes `number` through its argument, preceded by `padding` instructions.
fn writes(number: i64, padding: usize) -> Vec<u8> {
    let mut asm = Asm::new(Isa::Avx2).unwrap();
    asm.prologue();
    (0..padding).for_each(|_| asm.mov_imm(Gpr::RAX, -1));
    asm.mov_imm(Gpr::RAX, number);
    asm.load(Gpr::RCX, Mem::at(Gpr::RDI, 0));
    asm.store(Mem::at(Gpr::RCX, 0), Gpr::RAX);
    asm.epilogue();
    asm.finish("test").unwrap()
}

fn answer(code: &Code) -> i64 {
    let mut out = 0i64;
    let args = [&raw mut out];
    // SAFETY: the kernel writes one word through its argument.
    unsafe { code.call_undescribed(&args) };
    out
}

#[test]
fn code_runs_from_every_kind_of_memory() {
    for schemes in SCHEMES {
        let arena = Arena::new(schemes);
        let codes: Vec<_> =
            (0..200).map(|n| Code::seal_in(&arena, Isa::Avx2, "test", &writes(n, n as usize)).unwrap()).collect();
        for (n, code) in codes.iter().enumerate() {
            assert_eq!(answer(code), n as i64, "{schemes:?}");
        }
    }
}

#[test]
fn code_survives_the_drop_of_its_neighbours_and_reuses_their_memory() {
    for schemes in SCHEMES {
        let arena = Arena::new(schemes);
        let seal = |n: i64| Code::seal_in(&arena, Isa::Avx2, "test", &writes(n, 0)).unwrap();
        let mut codes: Vec<_> = (0..100).map(|n| (n, seal(n))).collect();
        codes.retain(|(n, _)| n % 3 == 0);
        let mapped = arena.usage().mapped;
        codes.extend((1000..1060).map(|n| (n, seal(n))));
        assert_eq!(arena.usage().mapped, mapped);
        for (n, code) in &codes {
            assert_eq!(answer(code), *n, "{schemes:?}");
        }
        drop(codes);
        assert_eq!(arena.usage().used, 0);
    }
}

#[test]
fn threads_never_run_the_bytes_that_stood_there_before() {
    for schemes in SCHEMES {
        let arena = Arena::new(schemes);
        std::thread::scope(|scope| {
            for thread in 0..4i64 {
                let arena = &arena;
                scope.spawn(move || {
                    for round in 0..500 {
                        let n = thread << 32 | round;
                        let code = Code::seal_in(arena, Isa::Avx2, "test", &writes(n, 0)).unwrap();
                        assert_eq!(answer(&code), n);
                    }
                });
            }
        });
    }
}

#[test]
fn refused_memory_is_an_error() {
    let arena = Arena::new(Schemes { dual: false, flip: false });
    let error = Code::seal_in(&arena, Isa::Avx2, "test", &writes(0, 0)).unwrap_err();
    assert!(matches!(error, KernelError::CodeMemory(_)), "{error}");
}

#[test]
#[should_panic(expected = "unknown instruction cpuid")]
fn the_emulator_names_what_it_does_not_know() {
    let code = Code::seal(Isa::Avx2, "test", &[0x0F, 0xA2, 0xC3]).unwrap();
    // SAFETY: the kernel is never entered.
    unsafe { code.emulate(&0u64) };
}
