//! Programs in their simplest form: constants folded, equal steps shared, dead ones dropped, and the long forms in
//! which exporters write activations replaced by the activation. A program is rewritten step by step into a [`Draft`],
//! which holds no step twice. What a single step may become is in [`rules`]; activations that spread over several steps
//! are recognised in [`gates`]. Both see value numbers of the draft only. The result computes the same up to rounding;
//! infinities and NaN are kept except where a rule says otherwise.

mod gates;
mod rules;
#[cfg(test)]
mod tests;

use crate::problem::chain::{BinaryOp, Bits, Program, Step, UnaryOp};

/// Rewriting adds steps before it drops dead ones. A program whose draft gets longer than this is left as it is.
const MOST_DRAFT_STEPS: usize = 220;

/// Most passes over a program; each may enable rules for the next.
const MOST_PASSES: usize = 6;

impl Program {
    /// The program in its simplest form. Its operands stay the same ones in the same order, read or not.
    #[must_use]
    pub fn simplified(&self) -> Program {
        let mut program = self.clone();
        for _ in 0..MOST_PASSES {
            match pass(&program) {
                Some(next) if next != program => program = next,
                _ => break,
            }
        }
        program
    }
}

/// Steps under construction. A value number below `inputs` is an operand, as in a program.
struct Draft {
    inputs: usize,
    steps: Vec<Step>,
}

impl Draft {
    /// The step that makes a value; `None` for operands.
    fn step(&self, value: u8) -> Option<Step> {
        self.steps.get(usize::from(value).checked_sub(self.inputs)?).copied()
    }

    /// The number, if that value is a known constant.
    fn constant(&self, value: u8) -> Option<f32> {
        match self.step(value) {
            Some(Step::Const(bits)) => Some(Bits::get(bits)),
            _ => None,
        }
    }

    /// The argument, if that value is this function of something.
    fn argument(&self, value: u8, op: UnaryOp) -> Option<u8> {
        match self.step(value) {
            Some(Step::Unary(found, argument)) if found == op => Some(argument),
            _ => None,
        }
    }

    /// The other side, if that value is `op` of something and a constant.
    fn with_constant(&self, value: u8, op: BinaryOp) -> Option<(u8, f32)> {
        match self.step(value) {
            Some(Step::Binary(found, a, b)) if found == op => Some((a, self.constant(b)?)),
            _ => None,
        }
    }

    /// The value of that step: an old one where there is an equal step.
    fn intern(&mut self, step: Step) -> u8 {
        let place = self.steps.iter().position(|known| *known == step).unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        });
        (self.inputs + place) as u8
    }

    fn number(&mut self, value: f32) -> u8 {
        self.intern(Step::Const(value.into()))
    }
}

fn pass(program: &Program) -> Option<Program> {
    let inputs = program.inputs.len();
    let mut draft = Draft { inputs, steps: Vec::with_capacity(program.steps.len()) };
    let mut numbers: Vec<u8> = (0..inputs as u8).collect();
    for step in &program.steps {
        let step = step.renumbered(|value| numbers[usize::from(value)]);
        let value = draft.rewrite(step);
        if draft.steps.len() > MOST_DRAFT_STEPS {
            return None;
        }
        numbers.push(value);
    }
    let mut result = *numbers.last()?;
    if usize::from(result) < inputs {
        // A program ends in a step, so handing an operand through is written as a product with one.
        let one = draft.number(1.0);
        result = draft.intern(Step::Binary(BinaryOp::Mul, result, one));
    }
    Some(Program { inputs: program.inputs.clone(), steps: live(&draft, result), output: program.output })
}

/// The steps that `result` needs, in order, renumbered.
fn live(draft: &Draft, result: u8) -> Vec<Step> {
    let inputs = draft.inputs;
    let last = usize::from(result) - inputs;
    let mut needed = vec![false; last + 1];
    needed[last] = true;
    for place in (0..=last).rev() {
        if needed[place] {
            for read in draft.steps[place].reads() {
                if let Some(place) = usize::from(read).checked_sub(inputs) {
                    needed[place] = true;
                }
            }
        }
    }
    let mut numbers: Vec<u8> = (0..inputs as u8).collect();
    let mut steps = Vec::new();
    for (step, needed) in draft.steps[..=last].iter().zip(needed) {
        if needed {
            steps.push(step.renumbered(|value| numbers[usize::from(value)]));
        }
        // For a dead step the number is never read.
        numbers.push((inputs + steps.len()).saturating_sub(1) as u8);
    }
    steps
}
