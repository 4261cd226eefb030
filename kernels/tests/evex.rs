//! The EVEX encoder is byte-identical to iced-x86's over every form, register, mask and displacement in use.
//!
//! Registers are walked one operand at a time with the others fixed, and all operands together on a diagonal: fields
//! of an instruction do not interact, except base, index and displacement, which are walked as a product.

use dynasmrt::SimpleAssembler;
use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};
use kiln_kernels::jit::evex::{self, FORMS, Form, Layout, Operands, Rm};
use kiln_kernels::jit::{Gpr, Mem};

/// The masking that a form may have besides its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Masking {
    None,
    Merge,
    MergeOrZero,
}

/// How iced-x86 names a form.
struct Twin {
    code: Code,
    immediate: bool,
    masking: Masking,
    /// Whether the destination is a mask register.
    to_mask: bool,
    /// The first register of each length that names the vector operands: for the destination, and for a register
    /// source.
    vectors: (Register, Register),
    /// Whether the rm operand may be a register, and whether it may be memory.
    rm: (bool, bool),
}

fn twin(name: &str) -> Twin {
    use Code::*;
    let plain = |code| Twin {
        code,
        immediate: false,
        masking: Masking::MergeOrZero,
        to_mask: false,
        vectors: (Register::ZMM0, Register::ZMM0),
        rm: (true, true),
    };
    let with_imm = |code| Twin { immediate: true, ..plain(code) };
    match name {
        "VADDPS" => plain(EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er),
        "VMULPS" => plain(EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er),
        "VSUBPS" => plain(EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er),
        "VMINPS" => plain(EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae),
        "VDIVPS" => plain(EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er),
        "VMAXPS" => plain(EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae),
        "VSQRTPS" => plain(EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er),
        "VFMADD213PS" => plain(EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er),
        "VFMADD231PS" => plain(EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er),
        "VFNMADD231PS" => plain(EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er),
        "VSCALEFPS" => plain(EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er),
        "VRNDSCALEPS" => with_imm(EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae),
        "VANDPS" => plain(EVEX_Vandps_zmm_k1z_zmm_zmmm512b32),
        "VANDNPS" => plain(EVEX_Vandnps_zmm_k1z_zmm_zmmm512b32),
        "VORPS" => plain(EVEX_Vorps_zmm_k1z_zmm_zmmm512b32),
        "VXORPS" => plain(EVEX_Vxorps_zmm_k1z_zmm_zmmm512b32),
        "VPXORD" => plain(EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32),
        "VPADDD" => plain(EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32),
        "VPSUBD" => plain(EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32),
        "VPMINSD" => plain(EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32),
        "VPMAXSD" => plain(EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32),
        "VPSRLD" => with_imm(EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8),
        "VPSRAD" => with_imm(EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8),
        "VPSLLD" => with_imm(EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8),
        "VCVTPS2DQ" => plain(EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er),
        "VCVTDQ2PS" => plain(EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er),
        "VCMPPS" => {
            Twin { masking: Masking::Merge, to_mask: true, ..with_imm(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae) }
        }
        "VBLENDMPS" => plain(EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32),
        "VMOVUPS_LOAD" => plain(EVEX_Vmovups_zmm_k1z_zmmm512),
        "VMOVUPS_STORE" => Twin { masking: Masking::Merge, rm: (false, true), ..plain(EVEX_Vmovups_zmmm512_k1z_zmm) },
        "VMOVUPS_STORE_HALF" => Twin {
            masking: Masking::Merge,
            vectors: (Register::YMM0, Register::YMM0),
            rm: (false, true),
            ..plain(EVEX_Vmovups_ymmm256_k1z_ymm)
        },
        "VMOVNTPS" => Twin { masking: Masking::None, rm: (false, true), ..plain(EVEX_Vmovntps_m512_zmm) },
        "VMOVSS_LOAD" => {
            Twin { vectors: (Register::XMM0, Register::XMM0), rm: (false, true), ..plain(EVEX_Vmovss_xmm_k1z_m32) }
        }
        "VMOVSS_STORE" => Twin {
            masking: Masking::Merge,
            vectors: (Register::XMM0, Register::XMM0),
            rm: (false, true),
            ..plain(EVEX_Vmovss_m32_k1_xmm)
        },
        "VBROADCASTSS" => Twin { vectors: (Register::ZMM0, Register::XMM0), ..plain(EVEX_Vbroadcastss_zmm_k1z_xmmm32) },
        "VPBROADCASTD" => Twin { vectors: (Register::ZMM0, Register::XMM0), ..plain(EVEX_Vpbroadcastd_zmm_k1z_xmmm32) },
        "VPMOVZXBD" => Twin { vectors: (Register::ZMM0, Register::XMM0), ..plain(EVEX_Vpmovzxbd_zmm_k1z_xmmm128) },
        "VUNPCKLPS" => plain(EVEX_Vunpcklps_zmm_k1z_zmm_zmmm512b32),
        "VUNPCKHPS" => plain(EVEX_Vunpckhps_zmm_k1z_zmm_zmmm512b32),
        "VUNPCKLPD" => plain(EVEX_Vunpcklpd_zmm_k1z_zmm_zmmm512b64),
        "VUNPCKHPD" => plain(EVEX_Vunpckhpd_zmm_k1z_zmm_zmmm512b64),
        "VPERMILPS" => with_imm(EVEX_Vpermilps_zmm_k1z_zmmm512b32_imm8),
        "VDPBF16PS" => plain(EVEX_Vdpbf16ps_zmm_k1z_zmm_zmmm512b32),
        "VCVTNE2PS2BF16" => plain(EVEX_Vcvtne2ps2bf16_zmm_k1z_zmm_zmmm512b32),
        "VSHUFF32X4" => with_imm(EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8),
        "VPERMW" => plain(EVEX_Vpermw_zmm_k1z_zmm_zmmm512),
        "VPERMI2B" => plain(EVEX_Vpermi2b_zmm_k1z_zmm_zmmm512),
        "VPSHUFB" => plain(EVEX_Vpshufb_zmm_k1z_zmm_zmmm512),
        "VPADDSB" => plain(EVEX_Vpaddsb_zmm_k1z_zmm_zmmm512),
        "VBROADCASTF32X4" => Twin { rm: (false, true), ..plain(EVEX_Vbroadcastf32x4_zmm_k1z_m128) },
        "VINSERTF32X4" => Twin { rm: (false, true), ..with_imm(EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8) },
        "VEXTRACTF32X4" => {
            Twin { masking: Masking::Merge, rm: (false, true), ..with_imm(EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8) }
        }
        "VPERMPS" => plain(EVEX_Vpermps_zmm_k1z_zmm_zmmm512b32),
        "VPMADDWD" => plain(EVEX_Vpmaddwd_zmm_k1z_zmm_zmmm512),
        "VPMADDUBSW" => plain(EVEX_Vpmaddubsw_zmm_k1z_zmm_zmmm512),
        "VPDPBUSD" => plain(EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32),
        "VPMOVSXBW" => Twin { rm: (false, true), ..plain(EVEX_Vpmovsxbw_zmm_k1z_ymmm256) },
        "VPACKSSDW" => plain(EVEX_Vpackssdw_zmm_k1z_zmm_zmmm512b32),
        "VPACKUSWB" => plain(EVEX_Vpackuswb_zmm_k1z_zmm_zmmm512),
        "VPACKSSWB" => plain(EVEX_Vpacksswb_zmm_k1z_zmm_zmmm512),
        "VPADDSW" => plain(EVEX_Vpaddsw_zmm_k1z_zmm_zmmm512),
        "VPADDW" => plain(EVEX_Vpaddw_zmm_k1z_zmm_zmmm512),
        "VPMAXUB" => plain(EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512),
        "VPMAXSB" => plain(EVEX_Vpmaxsb_zmm_k1z_zmm_zmmm512),
        "VPMOVDB" => Twin { masking: Masking::Merge, rm: (false, true), ..plain(EVEX_Vpmovdb_xmmm128_k1z_zmm) },
        "VPMOVZXWD" => Twin { vectors: (Register::ZMM0, Register::YMM0), ..plain(EVEX_Vpmovzxwd_zmm_k1z_ymmm256) },
        "VPMOVDW" => Twin { masking: Masking::Merge, rm: (false, true), ..plain(EVEX_Vpmovdw_ymmm256_k1z_zmm) },
        "VCVTPH2PS" => Twin { vectors: (Register::ZMM0, Register::YMM0), ..plain(EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae) },
        other => panic!("{other} has no twin: name its iced-x86 code here"),
    }
}

fn encoded(form: &Form, operands: Operands, rm: Rm, imm: Option<u8>) -> Vec<u8> {
    let (word, len) = match imm {
        None => evex::encode(form, operands, rm),
        Some(imm) => evex::encode_immediate(form, operands, rm, imm),
    };
    word.to_le_bytes()[..len].to_vec()
}

fn vector(first: Register, number: u8) -> Register {
    first + u32::from(number)
}

fn gpr(number: u8) -> Register {
    Register::RAX + u32::from(number)
}

/// One instruction in both languages.
struct Case {
    reg: u8,
    vvvv: u8,
    rm: Rm,
    mask: u8,
    zeroing: bool,
    imm: u8,
}

impl Default for Case {
    fn default() -> Case {
        Case { reg: 1, vvvv: 2, rm: Rm::Reg(3), mask: 0, zeroing: false, imm: 0x5A }
    }
}

struct Harness {
    encoder: Encoder,
    cases: usize,
}

impl Harness {
    fn check(&mut self, form: &Form, case: Case) {
        let twin = twin(form.name);
        let reg = if matches!(form.layout, Layout::Vm(_)) { 0 } else { case.reg };
        let mut operands = Operands::of(reg, case.vvvv);
        if case.mask != 0 {
            operands = if case.zeroing { operands.zeroing(case.mask) } else { operands.merging(case.mask) };
        }
        let ours = encoded(form, operands, case.rm, twin.immediate.then_some(case.imm));

        let mut theirs = Instruction::default();
        theirs.set_code(twin.code);
        let destination =
            if twin.to_mask { Register::K0 + u32::from(case.reg) } else { vector(twin.vectors.0, case.reg) };
        let mut at = 0;
        let mut put = |instruction: &mut Instruction, operand: Operand| {
            match operand {
                Operand::Register(register) => instruction.try_set_op_register(at, register).unwrap(),
                Operand::Memory(memory) => {
                    instruction.try_set_op_kind(at, iced_x86::OpKind::Memory).unwrap();
                    instruction.set_memory_base(memory.base);
                    instruction.set_memory_index(memory.index);
                    instruction.set_memory_index_scale(memory.scale);
                    instruction.set_memory_displacement64(memory.displacement as u64);
                    instruction.set_memory_displ_size(memory.displ_size);
                    instruction.set_is_broadcast(memory.is_broadcast);
                }
            }
            at += 1;
        };
        let rm = match case.rm {
            Rm::Reg(number) => Operand::Register(vector(twin.vectors.1, number)),
            Rm::Mem(mem) => Operand::Memory(memory(mem, false)),
            Rm::Broadcast(mem) => Operand::Memory(memory(mem, true)),
            Rm::Constant => unreachable!("constants have a test of their own"),
        };
        match form.layout {
            Layout::Rvm => {
                put(&mut theirs, Operand::Register(destination));
                put(&mut theirs, Operand::Register(vector(Register::ZMM0, case.vvvv)));
                put(&mut theirs, rm);
            }
            Layout::Rm => {
                put(&mut theirs, Operand::Register(destination));
                put(&mut theirs, rm);
            }
            Layout::Mr => {
                put(&mut theirs, rm);
                put(&mut theirs, Operand::Register(destination));
            }
            Layout::Vm(_) => {
                put(&mut theirs, Operand::Register(vector(Register::ZMM0, case.vvvv)));
                put(&mut theirs, rm);
            }
        }
        if twin.immediate {
            let last = theirs.op_count() - 1;
            theirs.try_set_op_kind(last, iced_x86::OpKind::Immediate8).unwrap();
            theirs.set_immediate8(case.imm);
        }
        if case.mask != 0 {
            theirs.set_op_mask(Register::K0 + u32::from(case.mask));
            theirs.set_zeroing_masking(case.zeroing);
        }
        self.encoder.encode(&theirs, 0).unwrap_or_else(|error| panic!("{}: {error}", form.name));
        let expected = self.encoder.take_buffer();
        assert_eq!(&ours[..], &expected[..], "{} as {theirs}", form.name);
        self.cases += 1;
    }
}

enum Operand {
    Register(Register),
    Memory(MemoryOperand),
}

fn memory(mem: Mem, broadcast: bool) -> MemoryOperand {
    let (index, scale) = mem.index.map_or((Register::None, 1), |(index, scale)| (gpr(index.0), u32::from(scale)));
    // The smallest size that means a displacement; the encoder finds the shortest form itself.
    let size = u32::from(mem.disp != 0);
    MemoryOperand::new(gpr(mem.base.0), index, scale, i64::from(mem.disp), size, broadcast, Register::None)
}

/// 0, the neighbours of 0, the borders of a compressed displacement on both sides, and the largest ones.
fn displacements(unit: i32) -> Vec<i32> {
    let mut all = vec![0, 1, -1, i32::MAX, i32::MIN, 1 << 20];
    for factor in [1, 2, 63, 126, 127, 128, 129] {
        for offset in [-1, 0, 1] {
            all.extend([factor * unit + offset, -factor * unit + offset]);
        }
    }
    all
}

#[test]
fn every_form_is_encoded_as_iced_does() {
    let mut harness = Harness { encoder: Encoder::new(64), cases: 0 };
    for form in FORMS {
        let twin = twin(form.name);
        let registers = if twin.to_mask { 8 } else { 32 };
        let has_vvvv = matches!(form.layout, Layout::Rvm | Layout::Vm(_));
        // Forms without a second source leave its field empty.
        let vvvv = if has_vvvv { 2 } else { 0 };
        let mut rms = Vec::new();
        if twin.rm.0 {
            rms.push(Rm::Reg(3));
        }
        if twin.rm.1 {
            rms.push(Rm::Mem(Mem::at(Gpr::RDI, 64)));
        }
        if form.broadcast {
            rms.push(Rm::Broadcast(Mem::indexed(Gpr::R9, Gpr::R12, 4, 64)));
        }
        for &rm in &rms {
            let base = || Case { vvvv, rm, ..Case::default() };
            for reg in 0..registers {
                harness.check(form, Case { reg, ..base() });
            }
            for vvvv in 0..if has_vvvv { 32 } else { 0 } {
                harness.check(form, Case { vvvv, ..base() });
            }
            if twin.immediate {
                for imm in 0..=255 {
                    harness.check(form, Case { imm, ..base() });
                }
            }
            for mask in 1..8 {
                if twin.masking != Masking::None {
                    harness.check(form, Case { mask, ..base() });
                }
                // A store to memory never zeroes.
                if twin.masking == Masking::MergeOrZero {
                    harness.check(form, Case { mask, zeroing: true, ..base() });
                }
            }
        }
        if twin.rm.0 {
            for number in 0..32 {
                harness.check(form, Case { vvvv, rm: Rm::Reg(number), ..Case::default() });
                // The diagonal: every register field changes at once.
                harness.check(
                    form,
                    Case {
                        reg: number % registers,
                        vvvv: if has_vvvv { (number * 7 + 5) % 32 } else { 0 },
                        rm: Rm::Reg((number * 3 + 1) % 32),
                        ..Case::default()
                    },
                );
            }
        }
        if twin.rm.1 {
            every_address(&mut harness, form, vvvv, Rm::Mem, i32::from(form.memory));
        }
        if form.broadcast {
            every_address(&mut harness, form, vvvv, Rm::Broadcast, 4);
        }
    }
    assert!(harness.cases > 300_000, "only {} cases", harness.cases);
}

fn every_address(harness: &mut Harness, form: &Form, vvvv: u8, wrap: fn(Mem) -> Rm, unit: i32) {
    for disp in displacements(unit) {
        for base in 0..16 {
            let base = Gpr(base);
            harness.check(form, Case { vvvv, rm: wrap(Mem::at(base, disp)), ..Case::default() });
        }
    }
    for disp in [0, 1, unit, -128 * unit, 128 * unit] {
        for base in 0..16 {
            for index in (0..16).filter(|index| *index != 4) {
                for scale in [1, 2, 4, 8] {
                    let mem = Mem::indexed(Gpr(base), Gpr(index), scale, disp);
                    harness.check(form, Case { vvvv, rm: wrap(mem), ..Case::default() });
                }
            }
        }
    }
}

#[test]
fn kmovw_is_encoded_as_iced_does() {
    let mut encoder = Encoder::new(64);
    for k in 0..8 {
        for src in 0..16 {
            let theirs =
                Instruction::with2(Code::VEX_Kmovw_kr_r32, Register::K0 + u32::from(k), Register::EAX + u32::from(src))
                    .unwrap();
            encoder.encode(&theirs, 0).unwrap();
            let mut ours = SimpleAssembler::new();
            evex::kmovw(&mut ours, k, src);
            assert_eq!(&ours.finalize()[..], &encoder.take_buffer()[..]);
        }
    }
}

#[test]
fn kortestw_is_encoded_as_iced_does() {
    let mut encoder = Encoder::new(64);
    for k in 0..8 {
        let k: Register = Register::K0 + k;
        let theirs = Instruction::with2(Code::VEX_Kortestw_kr_kr, k, k).unwrap();
        encoder.encode(&theirs, 0).unwrap();
        let mut ours = SimpleAssembler::new();
        evex::kortestw(&mut ours, k.number() as u8);
        assert_eq!(&ours.finalize()[..], &encoder.take_buffer()[..]);
    }
}

#[test]
fn a_constant_is_read_rip_relative_and_broadcast_where_the_form_can() {
    let mut encoder = Encoder::new(64);
    for form in FORMS.iter().filter(|form| form.broadcast || form.name == "VBROADCASTSS") {
        let twin = twin(form.name);
        let rip = MemoryOperand::with_base_displ(Register::RIP, 0);
        let rip = MemoryOperand { is_broadcast: form.broadcast, ..rip };
        let mut theirs = match form.layout {
            Layout::Rvm if twin.to_mask => {
                Instruction::with4(twin.code, Register::K1, Register::ZMM2, rip, 0x5Au32).unwrap()
            }
            Layout::Rvm if twin.immediate => {
                Instruction::with4(twin.code, Register::ZMM1, Register::ZMM2, rip, 0x5Au32).unwrap()
            }
            Layout::Rvm => Instruction::with3(twin.code, Register::ZMM1, Register::ZMM2, rip).unwrap(),
            Layout::Rm if twin.immediate => Instruction::with3(twin.code, Register::ZMM1, rip, 0x5Au32).unwrap(),
            Layout::Rm => Instruction::with2(twin.code, Register::ZMM1, rip).unwrap(),
            Layout::Vm(_) => Instruction::with3(twin.code, Register::ZMM2, rip, 0x5Au32).unwrap(),
            Layout::Mr => unreachable!("constants are never written"),
        };
        let operands = match form.layout {
            Layout::Rm => Operands::of(1, 0),
            Layout::Vm(_) => Operands::of(0, 2),
            Layout::Rvm | Layout::Mr => Operands::of(1, 2),
        };
        let ours = encoded(form, operands, Rm::Constant, twin.immediate.then_some(0x5A));
        // The displacement is zero from the end of the instruction.
        theirs.set_memory_displacement64(ours.len() as u64);
        encoder.encode(&theirs, 0).unwrap();
        assert_eq!(&ours[..], &encoder.take_buffer()[..], "{}", form.name);
    }
}
