//! Element-wise executors: the problem is the program in simplest form and the strides of its operands over as few
//! dimensions as do, so that equal work on different shapes (a bias on four dimensions or on two) is one executor.
//!
//! The table of operators in `kiln_model` states the programs of ONNX's element-wise operators. The graph is not known
//! here; the computing is done by [`kiln_kernels::cpu::chain`].

use kiln_kernels::cpu::chain::{BinaryOp, Chain, ChainPlan, Geometry, MAX_UNROLL, Program, Step};
use kiln_kernels::cpu::machine::Speeds;
use kiln_kernels::cpu::vecmath::instructions;
use kiln_kernels::{CodeSource, Isa, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines an element-wise executor.
pub type ChainKey = ExecutorKey<ChainProblem>;

/// An element-wise program on operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ChainProblem {
    /// The program that computes an element.
    pub program: Program,
    /// Which elements of the operands meet.
    pub geometry: Geometry,
}

/// What a builder of chains decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainChoice {
    /// Vectors in flight; 0 where the program has to be interpreted.
    pub unroll: u8,
    /// Tasks that the work is split into.
    pub tasks: u32,
}

/// Programs of more instructions than this, with their copies, leave the cache of decoded instructions.
const LONGEST_SIDE_BY_SIDE: u32 = 200;

impl ChainProblem {
    /// `program` over operands of that geometry.
    #[must_use]
    pub fn new(program: &Program, geometry: Geometry) -> ChainProblem {
        ChainProblem { program: program.clone(), geometry }
    }

    /// The most vectors in flight that pay: short programs wait for loads, and functions are chains of dependent
    /// instructions that the processor overlaps better side by side than one after the other.
    fn wanted_unroll(&self) -> u8 {
        if program_instructions(&self.program) <= LONGEST_SIDE_BY_SIDE { MAX_UNROLL } else { 1 }
    }

    /// About how long one thread takes: the larger of computing, at two instructions a nanosecond, and moving memory
    /// that comes from beyond its own caches.
    fn nanoseconds(&self, isa: Isa) -> u64 {
        let elements = self.geometry.elements() as u64;
        let vectors = elements.div_ceil(isa.lanes() as u64);
        let operands = (0..self.geometry.operands()).map(|operand| self.geometry.extent(operand) as u64);
        let bytes = operands.fold(elements, u64::saturating_add).saturating_mul(4);
        let instructions = u64::from(program_instructions(&self.program)) + self.geometry.operands() as u64 + 2;
        (vectors.saturating_mul(instructions) / 2).max(bytes.saturating_mul(1000) / Speeds::of_process(isa).moved)
    }
}

/// About how many instructions one vector of the program takes besides loads and the store.
fn program_instructions(program: &Program) -> u32 {
    let cost = |step: &Step| match *step {
        Step::Const(_) => 0,
        Step::Unary(op, _) => instructions(op),
        Step::Binary(BinaryOp::Div, ..) => 4,
        Step::Binary(BinaryOp::Pow, ..) => 110,
        Step::Binary(BinaryOp::Fmod, ..) => 800,
        Step::Binary(..) => 1,
        Step::Select { .. } => 2,
    };
    program.steps.iter().map(cost).sum()
}

impl Problem for ChainProblem {
    const FAMILY: &'static str = "chain";
    const REVISION: u32 = 4;
    type Value = Chain;
    type Choice = ChainChoice;

    /// As many vectors in flight as pay and fit the registers, and a task for every ten microseconds of work, which is
    /// some ten times what waking a thread costs.
    fn choose(&self, target: &Target) -> ChainChoice {
        const TASK_NANOSECONDS: u64 = 10_000;
        let tasks = (self.nanoseconds(target.isa) / TASK_NANOSECONDS).clamp(1, u64::from(target.threads.max(1)));
        ChainChoice {
            unroll: Chain::unroll_for(target.isa, &self.program, &self.geometry, self.wanted_unroll()),
            tasks: u32::try_from(tasks).unwrap_or(1),
        }
    }

    fn accepts(&self, choice: &ChainChoice, target: &Target) -> bool {
        // Interpreting is accepted exactly where nothing else is possible.
        target.has_tasks(choice.tasks)
            && choice.unroll <= MAX_UNROLL
            && choice.unroll == Chain::unroll_for(target.isa, &self.program, &self.geometry, choice.unroll.max(1))
    }

    fn build(&self, choice: &ChainChoice, target: &Target, source: &dyn CodeSource) -> KernelResult<Chain> {
        let plan = ChainPlan { unroll: choice.unroll, tasks: choice.tasks as usize };
        Chain::new(target.isa, &self.program, &self.geometry, plan, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        let sound = self.program.is_valid() && self.geometry.is_valid();
        (sound && self.geometry.operands() == self.program.inputs.len()).then_some(0)
    }

    fn weigh(value: &Chain) -> usize {
        value.size()
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::cpu::chain::UnaryOp;

    use super::*;

    fn key(program: &Program, output: &[usize], operands: &[&[usize]]) -> ChainProblem {
        ChainProblem::new(program, Geometry::new(output, operands).expect("a row is well formed"))
    }

    #[test]
    fn shapes_with_the_same_walk_share_a_key() {
        let relu = Program::unary(UnaryOp::Relu);
        let one = key(&relu, &[2, 3, 4], &[&[2, 3, 4]]);
        assert_eq!(one, key(&relu, &[24], &[&[24]]));
        assert_ne!(one, key(&relu, &[25], &[&[25]]));
        assert_ne!(one, key(&Program::unary(UnaryOp::Tanh), &[24], &[&[24]]));
    }

    #[test]
    fn work_is_split_only_where_that_pays() {
        let tasks = |op, elements: usize| {
            let key = key(&Program::unary(op), &[elements], &[&[elements]]);
            key.nanoseconds(Isa::Avx2) / 10_000
        };
        assert_eq!(tasks(UnaryOp::Relu, 10_000), 0, "a small map stays on one thread");
        assert!(tasks(UnaryOp::Relu, 1 << 20) >= 4);
        assert!(tasks(UnaryOp::Gelu, 60_000) >= 1, "a long program is worth it sooner");
    }
}
