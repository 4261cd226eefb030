//! Turns decoded instructions into operations that are quick to interpret.
//!
//! Differences between VEX and EVEX forms of one mnemonic become fields (lanes, masks, broadcast), so an operation is
//! the same for both.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// The number of a register that always holds zero, so that an address without base or index needs no branch.
pub(super) const ZERO: u8 = 16;

/// The kind of an operation. Vector kinds are named after their instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(super) enum Kind {
    // Control.
    Nop, Return, Jump, JumpIf, Push, Pop, ZeroUpper,
    // General-purpose registers.
    Move, Store, Lea, Add, Sub, Multiply, And, Xor, ShiftLeft, ShiftRight, Compare, Test, SetBit,
    // Lane by lane on f32.
    Vadd, Vsub, Vmul, Vdiv, Vmax, Vmin, Vsqrt, Vround, Vscale, Vfma231, Vfma213, Vfnma231,
    // On pairs of bf16.
    VdotBf16, VroundBf16,
    // Lane by lane on bits and integers.
    Vand, Vandn, Vor, Vxor, Viadd, Visub, Vimin, Vimax, Vshl, Vshr, Vsar, VtoI32, VtoF32, VisGreater, VmulPairs,
    VmulBytes, VdotBytes,
    // Masks.
    Vcompare, VcompareMask, Vselect, VselectMask, MaskFromGpr, MaskTest, Vtest,
    // Moves.
    Vmove, Vstore, VloadMasked, VstoreMasked, Vbroadcast, VloadOne, VstoreOne, VloadTwo, VloadGroup, VinsertGroup, VstoreGroup, VfromGpr, VwidenU8,
    VwidenI8, VwidenU16, VwidenF16, VstoreBytes, VstoreWords,
    // Between lanes.
    VunpackLo32, VunpackHi32, VunpackLo64, VunpackHi64, Vpermute, Vpermute2, VpermuteWords, VpermuteBytes, VpermuteLanes,
    Vshuffle4, VpackWords, VpackBytes, VpackSigned, VaddWords, VaddSaturated, VaddBytes, VshuffleBytes, VmaxBytes, VmaxSigned,
    // Tiles.
    TileConfig, TileRelease, TileZero, TileLoad, TileStore, TileDotBf16, TileDotBytes, TileDotSigned,
}

/// Where the last source of an operation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Register,
    Memory,
    /// One lane in memory, for every lane.
    Broadcast,
    Immediate,
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) source: Source,
    pub(super) dst: u8,
    /// The first source, or the mask of a VEX blend or masked move.
    pub(super) a: u8,
    /// The last source where it is a register.
    pub(super) b: u8,
    /// Lanes of a vector operation; bytes of an integer one.
    pub(super) width: u8,
    /// A mask register, 0 for none.
    pub(super) mask: u8,
    pub(super) zeroing: bool,
    pub(super) base: u8,
    pub(super) index: u8,
    pub(super) shift: u8,
    pub(super) disp: i64,
    /// The immediate, the predicate of a jump, or the index of its target operation.
    pub(super) imm: i64,
    /// A second immediate: the condition of a jump.
    pub(super) condition: Condition,
}

/// When a conditional jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Lowers a whole kernel.
///
/// # Panics
///
/// On an instruction that the emulator does not have.
pub(super) fn lower(instructions: &[Instruction]) -> Vec<Operation> {
    instructions
        .iter()
        .map(|instruction| {
            let mut operation = operands(instruction);
            operation.kind = kind(instruction, &mut operation);
            if matches!(operation.kind, Kind::Jump | Kind::JumpIf) {
                let target = instruction.near_branch_target();
                let found = instructions.binary_search_by_key(&target, Instruction::ip);
                operation.imm =
                    found.unwrap_or_else(|_| panic!("emulator: a branch into nowhere: {instruction}")) as i64;
            }
            operation
        })
        .collect()
}

/// The operands by position: the first is the destination, the last the source, one between them the first source.
fn operands(instruction: &Instruction) -> Operation {
    let mut operation = Operation {
        kind: Kind::Nop,
        source: Source::Register,
        dst: 0,
        a: 0,
        b: 0,
        width: 0,
        mask: 0,
        zeroing: instruction.zeroing_masking(),
        base: ZERO,
        index: ZERO,
        shift: 0,
        disp: 0,
        imm: 0,
        condition: Condition::Equal,
    };
    if instruction.op_mask() != Register::None {
        operation.mask = instruction.op_mask().number() as u8;
    }
    let immediate = |kind| {
        matches!(
            kind,
            OpKind::Immediate8
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32
                | OpKind::Immediate32to64
                | OpKind::Immediate64
        )
    };
    let mut count = instruction.op_count();
    if count > 0 && immediate(instruction.op_kind(count - 1)) {
        operation.imm = instruction.immediate(count - 1) as i64;
        count -= 1;
        // The immediate of an integer instruction is its source.
        if count == 1 {
            operation.source = Source::Immediate;
        }
    }
    for position in 0..count {
        let last = position + 1 == count;
        match instruction.op_kind(position) {
            OpKind::Register => {
                let register = instruction.op_register(position);
                let number = register.number() as u8;
                match (position, last) {
                    (0, _) => operation.dst = number,
                    (1, false) => operation.a = number,
                    _ => operation.b = number,
                }
                // The fourth operand of a blend is its mask, so the registers move up by one.
                if position == 3 {
                    (operation.b, operation.a) =
                        (instruction.op_register(2).number() as u8, instruction.op_register(1).number() as u8);
                    operation.imm = i64::from(number);
                }
                if position == 0 || operation.width == 0 {
                    operation.width =
                        if register.is_vector_register() { (register.size() / 4) as u8 } else { register.size() as u8 };
                }
            }
            OpKind::Memory => {
                operation.source = if instruction.is_broadcast() { Source::Broadcast } else { Source::Memory };
                address(instruction, &mut operation);
            }
            OpKind::NearBranch64 => {}
            other => panic!("emulator: operand {other:?} of {instruction}"),
        }
    }
    operation
}

fn address(instruction: &Instruction, operation: &mut Operation) {
    operation.disp = instruction.memory_displacement64() as i64;
    let number = |register: Register| {
        if register == Register::None || register == Register::RIP { ZERO } else { register.number() as u8 }
    };
    // iced-x86 has already added rip to the displacement.
    operation.base = number(instruction.memory_base());
    operation.index = number(instruction.memory_index());
    operation.shift = instruction.memory_index_scale().trailing_zeros() as u8;
}

/// The kind of an instruction, with the fields that it needs besides the operands.
#[rustfmt::skip]
fn kind(instruction: &Instruction, operation: &mut Operation) -> Kind {
    use Mnemonic as M;
    let to_memory = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Memory;
    let mut jump = |condition| { operation.condition = condition; Kind::JumpIf };
    match instruction.mnemonic() {
        M::Nop | M::Prefetcht0 | M::Prefetcht1 => Kind::Nop,
        M::Ret => Kind::Return,
        M::Vzeroupper => Kind::ZeroUpper,
        M::Jmp => Kind::Jump,
        M::Je => jump(Condition::Equal),
        M::Jne => jump(Condition::NotEqual),
        M::Jl => jump(Condition::Less),
        M::Jle => jump(Condition::LessEqual),
        M::Jg => jump(Condition::Greater),
        M::Jge => jump(Condition::GreaterEqual),
        M::Push => Kind::Push,
        M::Pop => Kind::Pop,
        M::Mov if to_memory => Kind::Store,
        M::Mov => Kind::Move,
        M::Lea => Kind::Lea,
        M::Add => Kind::Add,
        M::Sub => Kind::Sub,
        M::Imul => Kind::Multiply,
        M::And => Kind::And,
        M::Xor => Kind::Xor,
        M::Shl => Kind::ShiftLeft,
        M::Shr => Kind::ShiftRight,
        M::Cmp => Kind::Compare,
        M::Test => Kind::Test,
        M::Bts => Kind::SetBit,
        M::Vaddps => Kind::Vadd,
        M::Vsubps => Kind::Vsub,
        M::Vmulps => Kind::Vmul,
        M::Vdivps => Kind::Vdiv,
        M::Vmaxps => Kind::Vmax,
        M::Vminps => Kind::Vmin,
        M::Vsqrtps => Kind::Vsqrt,
        M::Vroundps | M::Vrndscaleps => Kind::Vround,
        M::Vscalefps => Kind::Vscale,
        M::Vfmadd231ps => Kind::Vfma231,
        M::Vfmadd213ps => Kind::Vfma213,
        M::Vfnmadd231ps => Kind::Vfnma231,
        M::Vdpbf16ps => Kind::VdotBf16,
        M::Vcvtne2ps2bf16 => Kind::VroundBf16,
        M::Vandps => Kind::Vand,
        M::Vandnps => Kind::Vandn,
        M::Vorps => Kind::Vor,
        M::Vxorps | M::Vpxord => Kind::Vxor,
        M::Vpaddd => Kind::Viadd,
        M::Vpsubd => Kind::Visub,
        M::Vpminsd => Kind::Vimin,
        M::Vpmaxsd => Kind::Vimax,
        M::Vpslld => Kind::Vshl,
        M::Vpsrld => Kind::Vshr,
        M::Vpsrad => Kind::Vsar,
        M::Vcvtps2dq => Kind::VtoI32,
        M::Vcvtdq2ps => Kind::VtoF32,
        M::Vpcmpgtd => Kind::VisGreater,
        M::Vcmpps if instruction.op0_register().is_k() => { operation.width = 16; Kind::VcompareMask }
        M::Vcmpps => Kind::Vcompare,
        M::Vblendvps => Kind::Vselect,
        M::Vblendmps => Kind::VselectMask,
        M::Kmovw => Kind::MaskFromGpr,
        M::Kortestw => Kind::MaskTest,
        M::Vtestps => Kind::Vtest,
        M::Vmovups | M::Vmovaps if to_memory => { operation.dst = operation.b; Kind::Vstore }
        M::Vmovntps => { operation.dst = operation.b; Kind::Vstore }
        M::Vmovups if operation.mask != 0 && operation.source == Source::Memory => Kind::VloadMasked,
        M::Vmovups | M::Vmovaps => Kind::Vmove,
        M::Vmaskmovps if to_memory => { operation.dst = operation.b; Kind::VstoreMasked }
        M::Vmaskmovps => Kind::VloadMasked,
        M::Vbroadcastss | M::Vpbroadcastd => Kind::Vbroadcast,
        M::Vmovss if to_memory => Kind::VstoreOne,
        M::Vmovss if operation.source == Source::Memory => Kind::VloadOne,
        M::Vmovq if instruction.code() == Code::VEX_Vmovq_xmm_xmmm64 && operation.source == Source::Memory => Kind::VloadTwo,
        M::Vmovd if instruction.code() == Code::VEX_Vmovd_xmm_rm32 => Kind::VfromGpr,
        M::Vbroadcastf128 | M::Vbroadcastf32x4 => Kind::VloadGroup,
        M::Vinsertf32x4 => Kind::VinsertGroup,
        M::Vextractf32x4 => Kind::VstoreGroup,
        M::Vpmovzxbd => Kind::VwidenU8,
        M::Vpmaddwd => Kind::VmulPairs,
        M::Vpmaddubsw => Kind::VmulBytes,
        M::Vpdpbusd => Kind::VdotBytes,
        M::Vpmovsxbw => Kind::VwidenI8,
        M::Vpmovzxwd => Kind::VwidenU16,
        M::Vcvtph2ps => Kind::VwidenF16,
        M::Vpmovdw => { operation.dst = operation.b; Kind::VstoreWords }
        M::Vpmovdb => { operation.dst = operation.b; Kind::VstoreBytes }
        M::Vpackssdw => Kind::VpackWords,
        M::Vpackuswb => Kind::VpackBytes,
        M::Vpacksswb => Kind::VpackSigned,
        M::Vpaddw => Kind::VaddWords,
        M::Vpaddsw => Kind::VaddSaturated,
        M::Vpaddsb => Kind::VaddBytes,
        M::Vpshufb => Kind::VshuffleBytes,
        M::Vpmaxub => Kind::VmaxBytes,
        M::Vpmaxsb => Kind::VmaxSigned,
        M::Vunpcklps => Kind::VunpackLo32,
        M::Vunpckhps => Kind::VunpackHi32,
        M::Vunpcklpd => Kind::VunpackLo64,
        M::Vunpckhpd => Kind::VunpackHi64,
        M::Vpermilps => Kind::Vpermute,
        M::Vperm2f128 => Kind::Vpermute2,
        M::Vpermw => Kind::VpermuteWords,
        M::Vpermi2b => Kind::VpermuteBytes,
        M::Vpermps => Kind::VpermuteLanes,
        M::Vshuff32x4 => Kind::Vshuffle4,
        M::Ldtilecfg => Kind::TileConfig,
        M::Tilerelease => Kind::TileRelease,
        M::Tilezero => Kind::TileZero,
        M::Tileloadd => Kind::TileLoad,
        M::Tilestored => { operation.dst = operation.b; Kind::TileStore }
        M::Tdpbf16ps => Kind::TileDotBf16,
        M::Tdpbusd => Kind::TileDotBytes,
        M::Tdpbssd => Kind::TileDotSigned,
        _ => panic!("emulator: unknown instruction {instruction} ({:?})", instruction.code()),
    }
}
