//! The multiply-add limit of one core, as benches compare with it. It knows nothing of what is measured.

use std::time::{Duration, Instant};

use kiln_kernels::Isa;
use kiln_kernels::jit::{Asm, Code, Cond, Gpr, Mem, Vreg};

/// Multiply-adds a second of that many threads, in GFLOP/s: each while the others do the same, because cores that share
/// power or are shared themselves are slower together than one is alone.
pub(crate) fn multiply_adds(isa: Isa, threads: usize, budget: Duration) -> f64 {
    std::thread::scope(|scope| {
        let each: Vec<_> = (0..threads).map(|_| scope.spawn(|| of_one(isa, budget))).collect();
        each.into_iter().map(|thread| thread.join().expect("a loop in registers")).sum()
    })
}

/// Multiply-adds a second of one core, in GFLOP/s, with everything in registers.
fn of_one(isa: Isa, budget: Duration) -> f64 {
    const LOOPS: usize = 10_000;
    const SUMS: u8 = 12;
    let mut asm = Asm::new(isa).expect("a level that code is emitted for");
    let next = asm.label();
    asm.prologue();
    asm.load(Gpr::RAX, Mem::at(Gpr::RDI, 0));
    for sum in 0..SUMS + 2 {
        asm.vzero(Vreg(sum));
    }
    asm.bind(next);
    for sum in 0..SUMS {
        asm.vfma231(Vreg(sum), Vreg(SUMS), Vreg(SUMS + 1));
    }
    asm.sub_imm(Gpr::RAX, 1);
    asm.cmp_imm(Gpr::RAX, 0);
    asm.jump_if(Cond::Greater, next);
    asm.epilogue();
    let bytes = asm.finish("peak").expect("a sound kernel");
    let code = Code::seal(isa, "peak", &bytes).expect("executable memory");
    let (start, mut seconds) = (Instant::now(), f64::INFINITY);
    while start.elapsed() < budget {
        let begin = Instant::now();
        // SAFETY: the kernel reads the one number that it is given.
        unsafe { code.call_undescribed(&LOOPS) };
        seconds = seconds.min(begin.elapsed().as_secs_f64());
    }
    (2 * LOOPS * usize::from(SUMS) * isa.lanes()) as f64 / seconds / 1e9
}
