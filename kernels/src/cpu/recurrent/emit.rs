//! Instructions of a cell's gates: all parts of a step except its products, one vector of units at a time.
//!
//! One call computes one step of one sequence. The input's products and the recurrent products are stored gate after
//! gate; the code adds them, applies the activations and writes the new output twice: as the state of the next step and
//! as the layer's output. The reset of a GRU whose recurrent product reads the reset state is a kernel of its own.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::chain::{Bits, UnaryOp};
use crate::cpu::vecmath;
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Vreg, arg};
use crate::problem::recurrent::Activation;

/// The part of a cell's step that a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Gates {
    /// A whole step of an LSTM: gates i, o, f, c.
    Lstm {
        /// ONNX's f, g and h.
        activations: [Activation; 3],
        /// Whether the forget gate is one minus the input gate.
        input_forget: bool,
        /// Whether gates i, o and f also see the state.
        peepholes: bool,
        /// Whether the clip also bounds the new state on its way to h, as the standard says.
        clip_state: bool,
    },
    /// A whole step of a GRU whose reset gate acts on the recurrent product: gates z, r, h.
    GruLinear {
        /// ONNX's f and g.
        activations: [Activation; 2],
    },
    /// Gates z and r of a GRU: writes z, and the output multiplied by r.
    GruReset {
        /// ONNX's f.
        activation: Activation,
    },
    /// Gate h of a GRU, after the product with that output.
    GruUpdate {
        /// ONNX's g.
        activation: Activation,
    },
    /// The one gate of a simple cell.
    Rnn {
        /// ONNX's f.
        activation: Activation,
    },
}

/// What determines the instructions of gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct GateCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// The part of the cell's step.
    pub gates: Gates,
    /// Bound of the arguments of activations.
    pub clip: Option<Bits>,
}

/// Arguments; a kernel reads those that its gates need.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GateArgs {
    /// The input's product: one row of units for each gate.
    pub x: *const f32,
    /// The recurrent product: one row of units for each gate that it computes.
    pub r: *const f32,
    /// Added to the product of gate h before the reset (`GruLinear`).
    pub bias: *const f32,
    /// Weights of the state for gates i, o and f (`Lstm` with peepholes).
    pub peepholes: *const f32,
    /// The output before this step (GRU).
    pub before: *const f32,
    /// The state, read and written (`Lstm`).
    pub c: *mut f32,
    /// The update gate: written by `GruReset`, read by `GruUpdate`.
    pub z: *mut f32,
    /// The new output; for `GruReset`, the output multiplied by r.
    pub out: *mut f32,
    /// A copy of the new output (not `GruReset`).
    pub y: *mut f32,
    /// Units.
    pub hidden: usize,
}

impl Arguments for GateArgs {
    const FAMILY: &'static str = "recurrent";
    type Kernel = Gates;

    fn extents(&self, gates: &Gates, extents: &mut Extents<'_>) {
        let units = self.hidden.saturating_mul(4);
        let rows = |count: usize| units.saturating_mul(count);
        // The first gate of the input's product that is read, the number of gates read, and the number of gates of the
        // recurrent product.
        let (first, input, product) = match gates {
            Gates::Lstm { .. } => (0, 4, 4),
            Gates::GruLinear { .. } => (0, 3, 3),
            Gates::GruReset { .. } => (0, 2, 2),
            Gates::GruUpdate { .. } => (2, 1, 1),
            Gates::Rnn { .. } => (0, 1, 1),
        };
        extents.read("the product of the input", self.x).from(rows(first) as isize).bytes(rows(input));
        extents.read("the product of the state", self.r).bytes(rows(product));
        extents.write("the new output", self.out).bytes(units);
        if !matches!(gates, Gates::GruReset { .. }) {
            extents.write("y", self.y).bytes(units);
        }
        match gates {
            Gates::Lstm { peepholes, .. } => {
                extents.write("the state", self.c).bytes(units);
                if *peepholes {
                    extents.read("peepholes", self.peepholes).bytes(rows(3));
                }
            }
            Gates::GruLinear { .. } => extents.read("bias", self.bias).bytes(units),
            Gates::GruReset { .. } => extents.write("the update gate", self.z).bytes(units),
            Gates::GruUpdate { .. } => extents.read("the update gate", self.z).bytes(units),
            Gates::Rnn { .. } => {}
        }
        if matches!(gates, Gates::GruLinear { .. } | Gates::GruReset { .. } | Gates::GruUpdate { .. }) {
            extents.read("the output before", self.before).bytes(units);
        }
    }
}

const X: Gpr = Gpr::RSI;
const R: Gpr = Gpr::RDX;
const PEEPHOLES: Gpr = Gpr::RCX;
const GATE: Gpr = Gpr::R8;
const GATE3: Gpr = Gpr::R9;
const C: Gpr = Gpr::R10;
const OUT: Gpr = Gpr::R11;
const Y: Gpr = Gpr::RAX;
const BEFORE: Gpr = Gpr::RBX;
const Z: Gpr = Gpr::R12;
const BIAS: Gpr = Gpr::R13;
const LEFT: Gpr = Gpr::R14;
const SCRATCH: Gpr = Gpr::R15;

/// Temporaries of activations, and on AVX2 the register of the mask.
const TEMPS: [Vreg; 5] = [Vreg(8), Vreg(9), Vreg(10), Vreg(11), Vreg(12)];
const MASK: Vreg = Vreg(15);

impl Gates {
    fn activations(&self) -> &[Activation] {
        match self {
            Gates::Lstm { activations, .. } => activations,
            Gates::GruLinear { activations } => activations,
            Gates::GruReset { activation } | Gates::GruUpdate { activation } | Gates::Rnn { activation } => {
                std::slice::from_ref(activation)
            }
        }
    }

    /// Whether all of its activations have code.
    #[must_use]
    pub fn emits(&self) -> bool {
        self.activations().iter().all(|activation| match activation {
            Activation::Unary(op) => vecmath::emits(*op) && vecmath::temps(*op) <= TEMPS.len(),
            Activation::Affine { .. } | Activation::ScaledTanh { .. } => true,
        })
    }
}

/// Emits the code of that key.
pub fn emit(code: &GateCode, asm: &mut Asm) -> Result<()> {
    if !code.gates.emits() {
        let reason = format!("no code for all of {:?}", code.gates.activations());
        return Err(KernelError::Unsupported { family: "recurrent", reason });
    }
    let lanes = asm.lanes() as i32;
    asm.prologue();
    for (register, place) in [
        (X, arg!(GateArgs.x)),
        (R, arg!(GateArgs.r)),
        (PEEPHOLES, arg!(GateArgs.peepholes)),
        (C, arg!(GateArgs.c)),
        (OUT, arg!(GateArgs.out)),
        (Y, arg!(GateArgs.y)),
        (BEFORE, arg!(GateArgs.before)),
        (Z, arg!(GateArgs.z)),
        (BIAS, arg!(GateArgs.bias)),
        (LEFT, arg!(GateArgs.hidden)),
    ] {
        asm.load(register, place);
    }
    asm.lea(GATE, Mem::indexed(LEFT, LEFT, 1, 0));
    asm.shl_imm(GATE, 1);
    asm.lea(GATE3, Mem::indexed(GATE, GATE, 2, 0));
    asm.align(16);
    asm.while_at_least(LEFT, lanes, |asm| {
        step(code, &mut Units { asm, mask: None });
        for register in [X, R, PEEPHOLES, C, OUT, Y, BEFORE, Z, BIAS] {
            asm.add_imm(register, lanes * 4);
        }
    });
    asm.unless_zero(LEFT, |asm| {
        let mask = asm.mask(0, MASK);
        asm.mask_first(mask, LEFT, SCRATCH);
        step(code, &mut Units { asm, mask: Some(mask) });
    });
    asm.epilogue();
    Ok(())
}

/// The units of one vector: all lanes, or those of a mask.
struct Units<'a> {
    asm: &'a mut Asm,
    mask: Option<Mask>,
}

impl Units<'_> {
    fn load(&mut self, to: Vreg, from: Mem) {
        self.asm.vload_lanes(to, self.mask, from);
    }

    fn store(&mut self, to: Mem, from: Vreg) {
        self.asm.vstore_lanes(to, self.mask, from);
    }

    /// `to` = the input's product for gate `gate` + row `row` of the recurrent product.
    fn sum(&mut self, to: Vreg, gate: u8, row: u8) {
        self.load(to, gate_of(X, gate));
        self.load(TEMPS[0], gate_of(R, row));
        self.asm.vadd(to, to, TEMPS[0]);
    }

    /// Adds the state times the peephole weights of `gate`.
    fn peep(&mut self, to: Vreg, gate: u8, state: Vreg) {
        self.load(TEMPS[0], gate_of(PEEPHOLES, gate));
        self.asm.vfma231(to, TEMPS[0], state);
    }

    fn activate(&mut self, activation: Activation, clip: Option<Bits>, value: Vreg) {
        let asm = &mut *self.asm;
        if let Some(clip) = clip {
            asm.vmin(value, value, clip.get());
            asm.vmax(value, value, -clip.get());
        }
        match activation {
            Activation::Unary(op) => vecmath::emit_unary(asm, op, value, &TEMPS),
            Activation::Affine { alpha, beta } => {
                asm.vmul(value, value, alpha.get());
                asm.vadd(value, value, beta.get());
            }
            Activation::ScaledTanh { alpha, beta } => {
                asm.vmul(value, value, beta.get());
                vecmath::emit_unary(asm, UnaryOp::Tanh, value, &TEMPS);
                asm.vmul(value, value, alpha.get());
            }
        }
    }

    /// `to = 1 - from`
    fn complement(&mut self, to: Vreg, from: Vreg) {
        self.asm.vload(TEMPS[0], 1.0);
        self.asm.vsub(to, TEMPS[0], from);
    }

    /// The output `z * before + (1 - z) * fresh`, stored as state and as output.
    fn mix(&mut self, z: Vreg, fresh: Vreg) {
        let (before, rest) = (Vreg(5), Vreg(6));
        self.load(before, Mem::at(BEFORE, 0));
        self.complement(rest, z);
        self.asm.vmul(rest, rest, fresh);
        self.asm.vfma231(rest, z, before);
        self.put(rest);
    }

    fn put(&mut self, output: Vreg) {
        self.store(Mem::at(OUT, 0), output);
        self.store(Mem::at(Y, 0), output);
    }
}

/// The address of the row of a gate among rows that follow each other.
fn gate_of(base: Gpr, gate: u8) -> Mem {
    match gate {
        0 => Mem::at(base, 0),
        1 => Mem::indexed(base, GATE, 1, 0),
        2 => Mem::indexed(base, GATE, 2, 0),
        _ => Mem::indexed(base, GATE3, 1, 0),
    }
}

fn step(code: &GateCode, units: &mut Units<'_>) {
    let clip = code.clip;
    match code.gates {
        Gates::Lstm { activations: [f, g, h], input_forget, peepholes, clip_state } => {
            let (input, output, forget, fresh, c) = (Vreg(0), Vreg(1), Vreg(2), Vreg(3), Vreg(4));
            units.load(c, Mem::at(C, 0));
            let gate = |units: &mut Units<'_>, to, gate| {
                units.sum(to, gate, gate);
                if peepholes {
                    units.peep(to, gate, c);
                }
                units.activate(f, clip, to);
            };
            gate(units, input, 0);
            if input_forget {
                units.complement(forget, input);
            } else {
                gate(units, forget, 2);
            }
            units.sum(fresh, 3, 3);
            units.activate(g, clip, fresh);
            units.asm.vmul(c, c, forget);
            units.asm.vfma231(c, input, fresh);
            units.store(Mem::at(C, 0), c);
            gate(units, output, 1);
            units.activate(h, clip.filter(|_| clip_state), c);
            units.asm.vmul(c, c, output);
            units.put(c);
        }
        Gates::GruLinear { activations: [f, g] } => {
            let (z, reset, fresh, past) = (Vreg(0), Vreg(1), Vreg(2), Vreg(3));
            units.sum(z, 0, 0);
            units.activate(f, clip, z);
            units.sum(reset, 1, 1);
            units.activate(f, clip, reset);
            units.load(past, gate_of(R, 2));
            units.load(TEMPS[0], Mem::at(BIAS, 0));
            units.asm.vadd(past, past, TEMPS[0]);
            units.load(fresh, gate_of(X, 2));
            units.asm.vfma231(fresh, reset, past);
            units.activate(g, clip, fresh);
            units.mix(z, fresh);
        }
        Gates::GruReset { activation } => {
            let (z, reset, before) = (Vreg(0), Vreg(1), Vreg(2));
            units.sum(z, 0, 0);
            units.activate(activation, clip, z);
            units.store(Mem::at(Z, 0), z);
            units.sum(reset, 1, 1);
            units.activate(activation, clip, reset);
            units.load(before, Mem::at(BEFORE, 0));
            units.asm.vmul(reset, reset, before);
            units.store(Mem::at(OUT, 0), reset);
        }
        Gates::GruUpdate { activation } => {
            let (z, fresh) = (Vreg(0), Vreg(1));
            units.sum(fresh, 2, 0);
            units.activate(activation, clip, fresh);
            units.load(z, Mem::at(Z, 0));
            units.mix(z, fresh);
        }
        Gates::Rnn { activation } => {
            units.sum(Vreg(0), 0, 0);
            units.activate(activation, clip, Vreg(0));
            units.put(Vreg(0));
        }
    }
}
