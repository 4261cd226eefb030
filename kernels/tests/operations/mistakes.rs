//! Mistakes of emitters are errors that say what is wrong, at every level, and never a panic.

use kiln_kernels::jit::{Asm, Code, Cond, Gpr, Mask, Mem, Vreg};
use kiln_kernels::{Isa, KernelError};

use super::harness::LEVELS;

type Mistake = fn(&mut Asm);

#[rustfmt::skip]
const MISTAKES: &[(&str, Mistake)] = &[
    ("vector register", |asm| asm.vadd(Vreg(asm.registers()), Vreg(0), Vreg(0))),
    ("vector register", |asm| asm.vadd(Vreg(0), Vreg(255), Vreg(0))),
    ("vector register", |asm| asm.vadd(Vreg(0), Vreg(0), Vreg(64))),
    ("vector register", |asm| asm.vstore(Mem::at(Gpr::RAX, 0), Vreg(40))),
    ("general-purpose register", |asm| asm.mov(Gpr(16), Gpr(0))),
    ("general-purpose register", |asm| asm.add(Gpr(0), Gpr(99))),
    ("base is no register", |asm| asm.load(Gpr(0), Mem::at(Gpr(16), 0))),
    ("base is no register", |asm| asm.vload(Vreg(0), Mem::at(Gpr(200), 0))),
    ("spill slot", |asm| asm.vload(Vreg(0), asm.slot(0))),
    ("index is no register or is rsp", |asm| asm.load(Gpr(0), Mem::indexed(Gpr(0), Gpr(4), 1, 0))),
    ("index is no register or is rsp", |asm| asm.vload(Vreg(0), Mem::indexed(Gpr(0), Gpr(17), 1, 0))),
    ("scale is not", |asm| asm.vload(Vreg(0), Mem::indexed(Gpr(0), Gpr(1), 3, 0))),
    ("scale is not", |asm| asm.lea(Gpr(0), Mem::indexed(Gpr(0), Gpr(1), 0, 0))),
    ("alignment", |asm| asm.align(48)),
    ("alignment", |asm| asm.align(128)),
    ("alignment", |asm| asm.align(0)),
    ("shift", |asm| asm.shl_imm(Gpr(0), 64)),
    ("scratch register of a reduction", |asm| asm.vreduce_add(Vreg(0), Vreg(1), Vreg(1))),
    ("its own scratch", |asm| { let mask = asm.mask(0, Vreg(1)); asm.mask_first(mask, Gpr(0), Gpr(0)); }),
    ("spill slots", |asm| { asm.spill(1); asm.spill(1); }),
    ("spill slots", |asm| asm.unspill()),
    ("spill slots", |asm| asm.spill(0)),
    ("spill slots", |asm| { asm.spill(1); asm.epilogue(); }),
    ("label", |asm| { let label = asm.label(); asm.jump(label); }),
    ("label", |asm| { let label = asm.label(); asm.jump_if(Cond::Less, label); }),
    ("abel", |asm| { let label = asm.label(); asm.bind(label); asm.bind(label); }),
];

#[test]
fn mistakes_are_errors() {
    for isa in LEVELS {
        for (index, (reason, mistake)) in MISTAKES.iter().enumerate() {
            let mut asm = Asm::new(isa).unwrap();
            mistake(&mut asm);
            // Later instructions do not change the error.
            asm.vadd(Vreg(0), Vreg(1), 2.0);
            match asm.finish("family") {
                Err(KernelError::Assembly { family: "family", reason: said }) => {
                    assert!(said.contains(reason), "mistake {index}: {said}");
                }
                other => panic!("{isa}: mistake {index} ({reason}) gave {other:?}"),
            }
        }
    }
}

#[test]
fn masks_of_the_other_level_are_errors() {
    let cases = [(Isa::Avx2, Mask::Opmask(1)), (Isa::Avx512, Mask::Vector(Vreg(1))), (Isa::Avx512, Mask::Opmask(0))];
    for (isa, mask) in cases {
        let mut asm = Asm::new(isa).unwrap();
        asm.select(Vreg(0), mask, Vreg(1), Vreg(2));
        assert!(matches!(asm.finish("family"), Err(KernelError::Assembly { .. })), "{isa} {mask:?}");
    }
    let mut asm = Asm::new(Isa::Avx512).unwrap();
    let eighth = asm.mask(7, Vreg(0));
    asm.mask_to_f32(Vreg(0), eighth);
    assert!(matches!(asm.finish("family"), Err(KernelError::Assembly { .. })));
}

#[test]
fn the_portable_level_has_no_code() {
    assert!(matches!(Asm::new(Isa::Portable), Err(KernelError::IsaMissing(Isa::Portable))));
    assert!(matches!(Code::seal(Isa::Portable, "family", &[0xC3]), Err(KernelError::IsaMissing(Isa::Portable))));
    assert!(matches!(Code::seal(Isa::Avx2, "family", &[]), Err(KernelError::Assembly { .. })));
}
