//! Building programs: step by step, and by substituting one into another. Depends on no simplification
//! ([`super::simplify`]).

use smallvec::SmallVec;

use crate::problem::chain::{BinaryOp, Bits, MAX_INPUTS, MAX_STEPS, Program, Step, Storage, UnaryOp};

/// Builds a program step by step; every call returns the number of the value that it adds.
#[derive(Clone, Debug)]
pub struct Builder {
    inputs: SmallVec<[Storage; 4]>,
    steps: Vec<Step>,
}

impl Builder {
    /// A program over operands of those storages, whose numbers are `0..inputs.len()`.
    #[must_use]
    pub fn new(inputs: &[Storage]) -> Builder {
        Builder { inputs: SmallVec::from_slice(inputs), steps: Vec::new() }
    }

    /// Adds any step.
    pub fn push(&mut self, step: Step) -> u8 {
        self.steps.push(step);
        // A number that does not fit is beyond every limit, so the whole program is refused.
        u8::try_from(self.inputs.len() + self.steps.len() - 1).unwrap_or(u8::MAX)
    }

    /// A constant.
    pub fn constant(&mut self, value: f32) -> u8 {
        self.push(Step::Const(value.into()))
    }

    /// A function of one value.
    pub fn unary(&mut self, op: UnaryOp, a: u8) -> u8 {
        self.push(Step::Unary(op, a))
    }

    /// A function of two values.
    pub fn binary(&mut self, op: BinaryOp, a: u8, b: u8) -> u8 {
        self.push(Step::Binary(op, a, b))
    }

    /// condition != 0 ? on : off
    pub fn select(&mut self, condition: u8, on: u8, off: u8) -> u8 {
        self.push(Step::Select { condition, on, off })
    }

    /// The program whose result is the last step's, or `None` where it breaks a limit or has no step.
    #[must_use]
    pub fn finish(self, output: Storage) -> Option<Program> {
        let program = Program { inputs: self.inputs, steps: self.steps, output };
        program.is_valid().then_some(program)
    }
}

impl Program {
    /// A chain of one function over one operand.
    #[must_use]
    pub fn unary(op: UnaryOp) -> Program {
        Program { inputs: SmallVec::from_slice(&[Storage::F32]), steps: vec![Step::Unary(op, 0)], output: Storage::F32 }
    }

    /// The function, if the program is exactly that function of one `f32` operand: products and convolutions can apply
    /// it before they store.
    #[must_use]
    pub fn as_unary(&self) -> Option<UnaryOp> {
        match (self.inputs.as_slice(), self.steps.as_slice(), self.output) {
            ([Storage::F32], &[Step::Unary(op, 0)], Storage::F32) => Some(op),
            _ => None,
        }
    }

    /// Puts `inner` into `outer` wherever `outer` reads the operand called `at`, and simplifies the whole.
    ///
    /// Operands have the caller's names of values; equal names become one operand. Returns the program and the names of
    /// its operands, or `None` where the result would break a limit or a name has two storages.
    #[must_use]
    pub fn compose<T: Copy + Eq>(
        outer: &Program,
        outer_args: &[T],
        at: T,
        inner: &Program,
        inner_args: &[T],
    ) -> Option<(Program, Vec<T>)> {
        let fits = |program: &Program, args: &[T]| program.is_valid() && program.inputs.len() == args.len();
        if !fits(outer, outer_args) || !fits(inner, inner_args) {
            return None;
        }
        let mut names: Vec<T> = Vec::new();
        let mut storages: SmallVec<[Storage; 4]> = SmallVec::new();
        let operands = inner_args.iter().zip(&inner.inputs);
        for (&name, &storage) in operands.chain(outer_args.iter().zip(&outer.inputs).filter(|(name, _)| **name != at)) {
            match names.iter().position(|&known| known == name) {
                Some(place) if storages[place] != storage => return None,
                Some(_) => {}
                None => {
                    names.push(name);
                    storages.push(storage);
                }
            }
        }
        // Longer than a program may be: simplification makes it shorter.
        if names.len() > MAX_INPUTS || inner.steps.len() + outer.steps.len() > 2 * MAX_STEPS {
            return None;
        }
        let number = |name: T| names.iter().position(|&known| known == name).map(|place| place as u8);
        let mut steps = Vec::with_capacity(inner.steps.len() + outer.steps.len());
        let arguments: Vec<u8> = inner_args.iter().map(|&name| number(name)).collect::<Option<_>>()?;
        let result = append(&mut steps, names.len(), inner, &arguments)?;
        let arguments: Vec<u8> = outer_args
            .iter()
            .map(|&name| if name == at { Some(result) } else { number(name) })
            .collect::<Option<_>>()?;
        append(&mut steps, names.len(), outer, &arguments)?;
        let whole = Program { inputs: storages, steps, output: outer.output }.simplified();
        whole.is_valid().then_some((whole, names))
    }

    /// The same program with all operands and the result as `f32`, which is what the emitter sees: booleans are
    /// converted before and after it.
    #[must_use]
    pub fn erased(&self) -> Program {
        Program {
            inputs: self.inputs.iter().map(|_| Storage::F32).collect(),
            steps: self.steps.clone(),
            output: Storage::F32,
        }
    }

    /// A constant step's value by number, if that value is one.
    #[must_use]
    pub fn constant_of(&self, value: u8) -> Option<f32> {
        match self.steps.get(usize::from(value).checked_sub(self.inputs.len())?)? {
            Step::Const(bits) => Some(Bits::get(*bits)),
            _ => None,
        }
    }
}

/// Appends `program`'s steps to `steps`, which follow `inputs` operands, with `arguments` for its operands. Returns the
/// number of its result.
fn append(steps: &mut Vec<Step>, inputs: usize, program: &Program, arguments: &[u8]) -> Option<u8> {
    let mut numbers: Vec<u8> = arguments.to_vec();
    for step in &program.steps {
        steps.push(step.renumbered(|value| numbers[usize::from(value)]));
        numbers.push(u8::try_from(inputs + steps.len() - 1).ok()?);
    }
    numbers.last().copied()
}
