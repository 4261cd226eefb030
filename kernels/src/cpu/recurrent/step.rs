//! The gates of one step of one sequence: emitted code, or the same in Rust. Layers of this family call them behind
//! their own products; [`LstmStep`] serves layers whose products are computed elsewhere, such as products of bytes.

use std::sync::Arc;

use super::emit::{GateArgs, GateCode, Gates};
use super::plain;
use crate::cpu::chain::{Bits, UnaryOp};
use crate::cpu::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::problem::recurrent::Activation;

/// The gates of a step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Code(Gates, Arc<Code>),
    Plain(GateCode),
}

impl Step {
    /// The gates at an instruction-set level, whose code comes from `source`.
    pub(super) fn new(isa: Isa, gates: Gates, clip: Option<Bits>, source: &dyn CodeSource) -> Result<Step> {
        let code = GateCode { isa, gates, clip };
        Ok(match isa.is_jit() && gates.emits() {
            true => Step::Code(gates, source.code(&CodeKey::Gates(code))?),
            false => Step::Plain(code),
        })
    }

    /// Computes one step of one sequence.
    ///
    /// # Safety
    ///
    /// Every pointer that the form uses leads to all rows of `hidden` elements that the form reads or writes there, and
    /// nothing else reads or writes the rows that it writes.
    pub(super) unsafe fn run(&self, args: &GateArgs, given: &Given) {
        // SAFETY: the caller vouches for the rows, and the code takes `GateArgs`.
        unsafe {
            match self {
                Step::Code(gates, code) => code.call(args, gates, given),
                Step::Plain(code) => {
                    given.check(args, &code.gates);
                    plain::step(code, args);
                }
            }
        }
    }
}

/// The gates of an LSTM whose functions are the usual ones (sigmoid, tanh, tanh), for one step of one sequence.
#[derive(Clone, Debug)]
pub struct LstmStep {
    step: Step,
    hidden: usize,
    peepholes: bool,
}

/// What determines an [`LstmStep`] beside the instruction-set level.
#[derive(Clone, Copy, Debug)]
pub struct LstmForm {
    /// Units.
    pub hidden: usize,
    /// Whether the forget gate is one minus the input gate.
    pub input_forget: bool,
    /// Whether gates i, o and f also see the state.
    pub peepholes: bool,
    /// Bound of the gates' sums; the state on its way to the output is not bounded.
    pub clip: Option<f32>,
}

/// The operands of a step. Gates are in the order i, o, f, c.
#[derive(Clone, Copy, Debug)]
pub struct LstmSums<'a> {
    /// The input's product with the bias, `[gates, hidden]`.
    pub input: &'a [f32],
    /// The state's product, `[gates, hidden]`.
    pub state: &'a [f32],
    /// Weights of the state for gates i, o and f, `[3, hidden]`; empty without peepholes.
    pub peepholes: &'a [f32],
}

impl LstmStep {
    /// The gates at an instruction-set level, whose code comes from `source`.
    ///
    /// # Errors
    ///
    /// For a clip that is no bound, and where code cannot be emitted.
    pub fn new(isa: Isa, form: LstmForm, source: &dyn CodeSource) -> Result<LstmStep> {
        let LstmForm { hidden, input_forget, peepholes, clip } = form;
        if clip.is_some_and(|clip| clip.is_nan() || clip < 0.0) || hidden.checked_mul(16).is_none() {
            return Err(KernelError::Unsupported { family: "recurrent", reason: format!("{form:?}") });
        }
        let activations = [UnaryOp::Sigmoid, UnaryOp::Tanh, UnaryOp::Tanh].map(Activation::Unary);
        let gates = Gates::Lstm { activations, input_forget, peepholes, clip_state: false };
        Ok(LstmStep { step: Step::new(isa, gates, clip.map(Bits::from), source)?, hidden, peepholes })
    }

    /// Computes one step of one sequence: updates the state `c` and writes the new output to `h` and to `y`, each of
    /// `hidden` elements.
    ///
    /// # Errors
    ///
    /// Where an operand is shorter than the form says.
    pub fn run(&self, sums: &LstmSums<'_>, c: &mut [f32], h: &mut [f32], y: &mut [f32]) -> Result<()> {
        let hidden = self.hidden;
        let sizes = [
            ("the product of the input", sums.input.len(), 4 * hidden),
            ("the product of the state", sums.state.len(), 4 * hidden),
            ("peepholes", sums.peepholes.len(), if self.peepholes { 3 * hidden } else { 0 }),
            ("the state", c.len(), hidden),
            ("the new output", h.len(), hidden),
            ("y", y.len(), hidden),
        ];
        if let Some((operand, have, need)) = sizes.into_iter().find(|&(_, have, need)| have < need) {
            return Err(KernelError::Bounds { family: "recurrent", operand, have, need });
        }
        let given = Given::new().read("the product of the input", sums.input);
        let given = given.read("the product of the state", sums.state).read("peepholes", sums.peepholes);
        let given = given.write("the state", c).write("the new output", h).write("y", y);
        let args = GateArgs {
            x: sums.input.as_ptr(),
            r: sums.state.as_ptr(),
            bias: std::ptr::null(),
            peepholes: sums.peepholes.as_ptr(),
            before: std::ptr::null(),
            c: c.as_mut_ptr(),
            z: std::ptr::null_mut(),
            out: h.as_mut_ptr(),
            y: y.as_mut_ptr(),
            hidden,
        };
        // SAFETY: the rows that an LSTM reads and writes were checked above, and written rows are borrowed exclusively.
        unsafe { self.step.run(&args, &given) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::EmitEach;
    use crate::cpu::canaries::levels;

    /// The equations in f64.
    fn expected(form: &LstmForm, sums: &LstmSums<'_>, c: &[f32]) -> [Vec<f32>; 2] {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let clipped = |x: f64| form.clip.map_or(x, |clip| x.clamp(-f64::from(clip), f64::from(clip)));
        let mut made = [Vec::new(), Vec::new()];
        for (unit, &before) in c.iter().enumerate() {
            let hole = |gate: usize, state: f64| match form.peepholes {
                true => f64::from(sums.peepholes[gate * form.hidden + unit]) * state,
                false => 0.0,
            };
            let sum = |gate: usize| {
                let place = gate * form.hidden + unit;
                f64::from(sums.input[place]) + f64::from(sums.state[place])
            };
            let before = f64::from(before);
            let input = sigmoid(clipped(sum(0) + hole(0, before)));
            let forget = if form.input_forget { 1.0 - input } else { sigmoid(clipped(sum(2) + hole(2, before))) };
            let state = forget * before + input * clipped(sum(3)).tanh();
            made[0].push(state as f32);
            made[1].push((sigmoid(clipped(sum(1) + hole(1, state))) * state.tanh()) as f32);
        }
        made
    }

    #[test]
    fn a_step_over_given_sums_follows_the_equations_at_every_level() {
        let numbers = |count: usize, seed: usize| -> Vec<f32> {
            (0..count).map(|at| ((at * 37 + seed * 11) % 61) as f32 / 10.0 - 3.0).collect()
        };
        for isa in levels() {
            for hidden in [1, 7, 16, 33, 70] {
                for (input_forget, peepholes, clip) in
                    [(false, false, None), (true, false, Some(0.75)), (false, true, None), (true, true, Some(2.0))]
                {
                    let form = LstmForm { hidden, input_forget, peepholes, clip };
                    let step = LstmStep::new(isa, form, &EmitEach).unwrap();
                    let (input, state, holes) =
                        (numbers(4 * hidden, 1), numbers(4 * hidden, 2), numbers(3 * hidden, 3));
                    let sums = LstmSums { input: &input, state: &state, peepholes: &holes };
                    let (mut c, mut h, mut y) = (numbers(hidden, 4), vec![0.0; hidden], vec![0.0; hidden]);
                    let [next, output] = expected(&form, &sums, &c);
                    step.run(&sums, &mut c, &mut h, &mut y).unwrap();
                    for (found, expected) in c.iter().chain(&h).zip(next.iter().chain(&output)) {
                        assert!((found - expected).abs() < 2e-6, "{isa:?} {form:?}: {found} for {expected}");
                    }
                    assert_eq!(h, y);
                }
            }
        }
    }

    #[test]
    fn what_is_too_short_is_named() {
        let form = LstmForm { hidden: 4, input_forget: false, peepholes: false, clip: None };
        let step = LstmStep::new(Isa::Portable, form, &EmitEach).unwrap();
        let (long, mut c, mut h, mut y) = ([0.0; 16], [0.0; 4], [0.0; 4], [0.0; 3]);
        let sums = LstmSums { input: &long, state: &long, peepholes: &[] };
        let error = step.run(&sums, &mut c, &mut h, &mut y).unwrap_err();
        assert!(matches!(error, KernelError::Bounds { operand: "y", have: 3, need: 4, .. }), "{error}");
        assert!(LstmStep::new(Isa::Portable, LstmForm { clip: Some(-1.0), ..form }, &EmitEach).is_err());
    }
}
