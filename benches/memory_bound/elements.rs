//! Element-wise chains: functions, sums, and operands that are broadcast.

use std::hint::black_box;

use kiln_kernels::cpu::chain::{
    BinaryOp, Builder, Chain, ChainPlan, Geometry, MAX_UNROLL, Operand, Program, Storage, Target, UnaryOp,
};
use kiln_kernels::{EmitEach, Isa, Parallel, Result};

use crate::table::{Table, values};

const FUNCTIONS: [(&str, UnaryOp); 8] = [
    ("relu", UnaryOp::Relu),
    ("gelu_erf", UnaryOp::Gelu),
    ("gelu_tanh", UnaryOp::GeluTanh),
    ("tanh", UnaryOp::Tanh),
    ("exp", UnaryOp::Exp),
    ("sigmoid", UnaryOp::Sigmoid),
    ("silu", UnaryOp::Silu),
    ("erf", UnaryOp::Erf),
];

fn sum() -> Option<Program> {
    let mut builder = Builder::new(&[Storage::F32, Storage::F32]);
    builder.binary(BinaryOp::Add, 0, 1);
    builder.finish(Storage::F32)
}

/// A chain over rows x columns; a second operand has the shape `second`.
fn chain(
    table: &Table<'_>,
    name: &str,
    program: &Program,
    [rows, columns]: [usize; 2],
    second: &[usize],
) -> Result<()> {
    let whole = [rows, columns];
    let shapes: Vec<&[usize]> = [&whole[..], second].into_iter().take(program.inputs.len()).collect();
    let others = if shapes.len() > 1 { second.iter().product() } else { 0 };
    let moved = 2 * rows * columns + others;
    table.row(&format!("{name} {rows}x{columns}"), moved, || {
        let geometry = Geometry::new(&whole, &shapes)?;
        let isa = Isa::detect();
        let unroll = Chain::unroll_for(isa, program, &geometry, MAX_UNROLL);
        let plan = ChainPlan { unroll, tasks: table.threads.threads() };
        let chain = Chain::new(isa, program, &geometry, plan, &EmitEach)?;
        let (first, second, mut output) = (values(rows * columns), values(others), vec![0.0f32; rows * columns]);
        Ok(move || {
            let operands = [Operand::F32(&first), Operand::F32(&second)];
            let operands = &operands[..if others == 0 { 1 } else { 2 }];
            let done = chain.run(operands, &mut Target::F32(&mut output), table.threads);
            black_box(&mut output);
            done
        })
    })
}

/// All rows of these families.
pub(crate) fn measure(table: &Table<'_>) -> Result<()> {
    for &shape in table.shapes(&[[128, 768], [512, 3072], [16384, 2048]]) {
        for (name, op) in FUNCTIONS {
            chain(table, name, &Program::unary(op), shape, &[])?;
        }
        if let Some(sum) = sum() {
            chain(table, "add", &sum, shape, &shape)?;
            chain(table, "add a row", &sum, shape, &shape[1..])?;
        }
    }
    Ok(())
}
