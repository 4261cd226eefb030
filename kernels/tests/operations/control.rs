//! The ABI, alignment, and equal bytes from equal calls.

use kiln_kernels::Isa;
use kiln_kernels::jit::{Asm, Code, Gpr, Mem, Src, Vreg, code_memory};

use super::harness::{LEVELS, WORDS, kernel, run};

/// Destroys every register that the caller relies on, and has a stack frame.
fn destructive(asm: &mut Asm) {
    asm.spill(3);
    asm.vload(Vreg(0), 1.0);
    asm.vstore(asm.slot(2), Vreg(0));
    asm.unspill();
    for register in [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
        asm.mov_imm(Gpr(register), 0x0BAD_0BAD);
    }
    (0..asm.registers()).for_each(|v| asm.vload(Vreg(v), Src::Const(u32::MAX)));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn callers_keep_their_registers() {
    if Isa::detect() < Isa::Avx2 {
        return;
    }
    for isa in LEVELS.into_iter().filter(|isa| *isa <= Isa::detect()) {
        let code = kernel(isa, destructive);
        let args = [0u64; 3];
        let mut saved = [0u64; 8];
        // SAFETY: calls a kernel of one argument on an aligned stack, and keeps for itself what it overwrites.
        unsafe {
            std::arch::asm!(
                "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
                // Room for the pointer, and the stack aligned to 16 bytes whatever it was.
                "mov r15, rsp",
                "sub rsp, 32",
                "and rsp, -16",
                "mov [rsp], r15",
                "mov [rsp + 8], rsi",
                "mov rbx, 0x1111", "mov rbp, 0x2222", "mov r12, 0x3333",
                "mov r13, 0x4444", "mov r14, 0x5555", "mov r15, 0x6666",
                "call rax",
                "mov rsi, [rsp + 8]",
                "mov [rsi], rbx", "mov [rsi + 8], rbp", "mov [rsi + 16], r12",
                "mov [rsi + 24], r13", "mov [rsi + 32], r14", "mov [rsi + 40], r15",
                "mov rsp, [rsp]",
                "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
                inout("rax") code.bytes().as_ptr() => _,
                inout("rdi") &args => _,
                inout("rsi") saved.as_mut_ptr() => _,
                clobber_abi("sysv64"),
            );
        }
        assert_eq!(saved[..6], [0x1111, 0x2222, 0x3333, 0x4444, 0x5555, 0x6666]);
    }
}

#[test]
fn emulated_callers_keep_theirs() {
    for isa in LEVELS {
        let code = kernel(isa, destructive);
        // SAFETY: the kernel reads the three pointers of the harness and follows none.
        let executed = unsafe { code.emulate(&[0u64; 3]) };
        assert!(executed > 40);
    }
}

#[test]
#[should_panic(expected = "destroys register 12")]
fn the_emulator_notices_a_broken_abi() {
    let mut asm = Asm::new(Isa::Avx2).unwrap();
    asm.mov_imm(Gpr::RAX, 0);
    asm.prologue();
    asm.mov_imm(Gpr::R12, 1);
    // Pops the registers that the prologue pushed, in the wrong order: a frame that forgot one register.
    asm.epilogue();
    let mut bytes = asm.finish("test").unwrap();
    // push r12 (41 54) becomes push rbx twice over: two one-byte pushes and nops keep the length.
    let at = bytes.windows(2).position(|pair| pair == [0x41, 0x54]).unwrap();
    bytes[at..at + 2].copy_from_slice(&[0x53, 0x90]);
    let code = Code::seal(Isa::Avx2, "test", &bytes).unwrap();
    // SAFETY: the kernel touches its stack only.
    unsafe { code.emulate(&0u64) };
}

#[test]
fn alignment_counts_from_the_start_of_the_kernel() {
    for isa in LEVELS {
        for before in 0..70 {
            for alignment in [1, 2, 4, 8, 16, 32, 64] {
                let mut asm = Asm::new(isa).unwrap();
                (0..before).for_each(|_| asm.test(Gpr::RAX));
                asm.align(alignment);
                assert_eq!(asm.len() % alignment, 0);
                assert!(asm.len() < 3 * before + alignment);
            }
        }
    }
}

#[test]
fn equal_calls_give_equal_bytes() {
    for isa in LEVELS {
        let assemble = || {
            let mut asm = Asm::new(isa).unwrap();
            asm.prologue();
            let label = asm.label();
            asm.bind(label);
            for value in [1.0, 2.0, 1.0, 3.0, 2.0] {
                asm.vadd(Vreg(1), Vreg(2), value);
                asm.vload(Vreg(3), value);
            }
            asm.jump(label);
            asm.finish("test").unwrap()
        };
        assert_eq!(assemble(), assemble());
        // Three different constants, each once.
        let entry = if isa == Isa::Avx512 { 4 } else { 32 };
        assert_eq!(assemble().len() % 64, 3 * entry % 64);
    }
}

#[test]
fn sealed_code_keeps_its_bytes_and_its_size_is_charged() {
    let mut asm = Asm::new(Isa::Avx2).unwrap();
    asm.load(Gpr::RAX, Mem::at(Gpr::RDI, 0));
    asm.epilogue();
    let bytes = asm.finish("test").unwrap();
    let code = Code::seal(Isa::Avx2, "test", &bytes).unwrap();
    assert_eq!(code.bytes(), &bytes[..]);
    assert_eq!(code.isa(), Isa::Avx2);
    assert!(code.size() >= bytes.len() && code.size().is_multiple_of(64));
    assert!(code_memory().used >= code.size() && code_memory().mapped >= code_memory().used);
}

/// The words that a kernel leaves when the first word is its count.
fn counted(isa: Isa, words: [u64; 3], emit: impl FnOnce(&mut Asm)) -> Vec<u64> {
    run(isa, &[], 0, &words, |asm| {
        asm.load(Gpr::RAX, Mem::at(WORDS, 0));
        asm.mov_imm(Gpr::RCX, 0);
        emit(asm);
        asm.store(Mem::at(WORDS, 8), Gpr::RCX);
    })
    .words
}

#[test]
fn loops_run_as_often_as_they_count() {
    for isa in LEVELS {
        for count in 1..6 {
            let once = |asm: &mut Asm| asm.add_imm(Gpr::RCX, 1);
            let found = counted(isa, [count, 0, 7], |asm| asm.repeat(Gpr::RAX, once));
            assert_eq!(found, [count, count, 7]);
            let found = counted(isa, [count, 0, 7], |asm| asm.repeat_in_memory(Mem::at(WORDS, 0), Gpr::RDX, once));
            assert_eq!(found, [0, count, 7], "the count in memory is used up");
        }
        for count in 0..9 {
            let once = |asm: &mut Asm| asm.add_imm(Gpr::RCX, 1);
            let found = counted(isa, [count, 0, 0], |asm| asm.for_each(Gpr::RAX, 16, once));
            assert_eq!(found, [count, count, 0]);
            let found = counted(isa, [count, 0, 0], |asm| {
                asm.while_at_least(Gpr::RAX, 4, once);
                asm.store(Mem::at(WORDS, 16), Gpr::RAX);
            });
            assert_eq!(found, [count, count / 4, count % 4]);
            let found = counted(isa, [count, 0, 0], |asm| {
                asm.for_each_group(Gpr::RAX, 4, 16, |asm| asm.add_imm(Gpr::RCX, 1));
                asm.add_imm(Gpr::RAX, 4);
                asm.store(Mem::at(WORDS, 16), Gpr::RAX);
            });
            assert_eq!(found, [count, count / 4, count % 4]);
            let thrice = |asm: &mut Asm| asm.add_imm(Gpr::RCX, 3);
            let [at, end] = [Gpr::RCX, Gpr::RAX];
            for less in [
                counted(isa, [count, 0, 0], |asm| asm.while_less(at, end, 1, thrice)),
                counted(isa, [count, 0, 0], |asm| asm.while_less_compact(at, end, thrice)),
            ] {
                assert_eq!(less, [count, count.next_multiple_of(3), 0]);
            }
            let found = counted(isa, [count, 0, 0], |asm| asm.while_at_most(at, end, 16, thrice));
            assert_eq!(found, [count, (count + 1).next_multiple_of(3), 0], "once more where the end is met");
            let found = counted(isa, [count, 0, 0], |asm| asm.repeat_while_less(at, end, thrice));
            assert_eq!(found, [count, count.next_multiple_of(3).max(3), 0], "once at least");
        }
    }
}

#[test]
fn conditions_choose_one_of_their_bodies() {
    for isa in LEVELS {
        for value in [0, 1, 1 << 40] {
            let set = |number: i32| move |asm: &mut Asm| asm.add_imm(Gpr::RCX, number);
            let zero = value == 0;
            let found = counted(isa, [value, 0, 0], |asm| asm.unless_zero(Gpr::RAX, set(1)));
            assert_eq!(found[1], u64::from(!zero));
            let found = counted(isa, [value, 0, 0], |asm| asm.unless_zero_else(Gpr::RAX, set(1), set(2)));
            assert_eq!(found[1], if zero { 2 } else { 1 });
            let found = counted(isa, [value, 0, 0], |asm| asm.if_zero_else(Gpr::RAX, set(1), set(2)));
            assert_eq!(found[1], if zero { 1 } else { 2 });
            let found = counted(isa, [value, 0, 0], |asm| asm.if_at_least(Gpr::RAX, 1, set(1)));
            assert_eq!(found[1], u64::from(!zero));
            let found = counted(isa, [value, 0, 0], |asm| asm.if_at_least_else(Gpr::RAX, 1, set(1), set(2)));
            assert_eq!(found[1], if zero { 2 } else { 1 });
            let found = counted(isa, [value, 0, 0], |asm| asm.unless_equal(Gpr::RAX, Gpr::RCX, set(1)));
            assert_eq!(found[1], u64::from(!zero), "the other register holds zero");
            let found = counted(isa, [value, 0, 0], |asm| {
                asm.mov_imm(Gpr::RCX, 5);
                asm.min(Gpr::RCX, Gpr::RAX);
            });
            assert_eq!(found[1], value.min(5));
        }
    }
}
