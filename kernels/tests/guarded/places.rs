//! Families that touch each element by itself: chains of element-wise functions, and transposition.

use kiln_kernels::cpu::chain::{BinaryOp, Builder, Chain, ChainPlan, Geometry, MAX_UNROLL, Operand, Target, UnaryOp};
use kiln_kernels::cpu::transpose::{Collapsed, Method, Transpose};
use kiln_kernels::problem::chain::{MAX_INPUTS, Program, Step, Storage};
use kiln_kernels::{EmitEach, Isa, KernelError, reference};

use super::draw::Draw;
use super::page::Guarded;
use super::{InTurn, close};

/// Functions that stay finite and continuous on the values that small programs reach, so that results can be compared.
const UNARY: [UnaryOp; 12] = [
    UnaryOp::Abs,
    UnaryOp::Neg,
    UnaryOp::Tanh,
    UnaryOp::Sigmoid,
    UnaryOp::Relu,
    UnaryOp::Erf,
    UnaryOp::HardSwish,
    UnaryOp::Softsign,
    UnaryOp::Silu,
    UnaryOp::Gelu,
    UnaryOp::Sin,
    UnaryOp::Softplus,
];
const BINARY: [BinaryOp; 6] =
    [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min, BinaryOp::PRelu];

fn program(draw: &mut Draw<'_>) -> Option<Program> {
    let storage = [Storage::F32, Storage::F32, Storage::F32, Storage::Bool];
    let inputs: Vec<Storage> = (0..draw.size(MAX_INPUTS.min(4))).map(|_| draw.of(&storage)).collect();
    let mut builder = Builder::new(&inputs);
    for step in 0..draw.size(8) {
        let count = inputs.len() + step;
        let kind = draw.below(8);
        let mut value = || draw.below(count) as u8;
        let (a, b, c) = (value(), value(), value());
        builder.push(match kind {
            0 => Step::Const((f32::from(a) / 2.0 - 1.0).into()),
            1 => Step::Select { condition: a, on: b, off: c },
            2..5 => Step::Unary(draw.of(&UNARY), a),
            _ => Step::Binary(draw.of(&BINARY), a, b),
        });
    }
    builder.finish(Storage::F32)
}

/// One element by the definitions, step after step.
fn evaluate(program: &Program, operands: &[f32]) -> f32 {
    use reference::chain::{binary, unary};
    let mut values = operands.to_vec();
    for step in &program.steps {
        let at = |value: u8| values[usize::from(value)];
        values.push(match *step {
            Step::Const(bits) => bits.get(),
            Step::Unary(op, a) => unary(op, at(a)),
            Step::Binary(op, a, b) => binary(op, at(a), at(b)),
            Step::Select { condition, on, off } => at(if at(condition) != 0.0 { on } else { off }),
        });
    }
    values[values.len() - 1]
}

/// The operand's element for one place of the output, by numpy's rules.
fn element(output: &[usize], shape: &[usize], place: usize) -> usize {
    let (mut rest, mut index, mut step) = (place, 0, 1);
    for axis in (0..output.len()).rev() {
        let at = rest % output[axis];
        rest /= output[axis];
        let Some(own) = (axis + shape.len()).checked_sub(output.len()) else { continue };
        index += if shape[own] != 1 { at * step } else { 0 };
        step *= shape[own];
    }
    index
}

/// The buffer of a chain's operand.
enum Held {
    F32(Guarded<f32>),
    Bool(Guarded<u8>),
}

pub(crate) fn chain(draw: &mut Draw<'_>, isa: Isa) {
    let Some(program) = program(draw) else { return };
    let rank = draw.below(4);
    let output: Vec<usize> = (0..rank).map(|_| draw.of(&[1, 2, 3, 7, 8, 9, 16, 33, 40, 300, 2100])).collect();
    let elements: usize = output.iter().product();
    if elements > draw.room() {
        return;
    }
    let (wanted, tasks, at_end) = (draw.of(&[1, 2, MAX_UNROLL]), draw.of(&[1, 2, 3, 4, 64]), draw.flag());
    let mut shapes = vec![];
    for _ in &program.inputs {
        let ones = draw.byte();
        let full = output.iter().enumerate().map(|(axis, &size)| if ones >> axis & 1 == 1 { 1 } else { size });
        shapes.push(full.skip(usize::from(ones >> 6).min(rank)).collect::<Vec<usize>>());
    }
    let (mut values, mut held) = (vec![], vec![]);
    for (shape, storage) in shapes.iter().zip(&program.inputs) {
        let drawn = draw.floats(shape.iter().product());
        let flags: Vec<u8> = drawn.iter().map(|&x| u8::from(x > 0.0)).collect();
        let (own, kept) = match storage {
            Storage::F32 => (drawn.clone(), Held::F32(Guarded::of(&drawn, at_end))),
            Storage::Bool => {
                (flags.iter().map(|&flag| f32::from(flag)).collect(), Held::Bool(Guarded::of(&flags, at_end)))
            }
        };
        values.push(own);
        held.push(kept);
    }
    let want: Vec<f32> = (0..elements)
        .map(|place| {
            let at = |(values, shape): (&Vec<f32>, &Vec<usize>)| values[element(&output, shape, place)];
            evaluate(&program, &values.iter().zip(&shapes).map(at).collect::<Vec<f32>>())
        })
        .collect();
    let borrowed: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let geometry = Geometry::new(&output, &borrowed).unwrap();
    let unroll = Chain::unroll_for(isa, &program, &geometry, wanted);
    let chain = Chain::new(isa, &program, &geometry, ChainPlan { unroll, tasks }, &EmitEach).unwrap();
    let operands: Vec<Operand<'_>> = held
        .iter()
        .map(|held| match held {
            Held::F32(values) => Operand::F32(values),
            Held::Bool(flags) => Operand::Bool(flags),
        })
        .collect();
    let mut result = Guarded::blank(elements, at_end);
    chain.run(&operands, &mut Target::F32(&mut result), &InTurn(tasks)).unwrap();
    // Steps multiply the errors of earlier steps.
    let place = || format!("{program:?} of {shapes:?} to {output:?}, {unroll} in flight, {isa}");
    close(result.open(), &want, |want| 2e-4 * want.abs().max(1.0), &place);
}

pub(crate) fn transpose(draw: &mut Draw<'_>, isa: Isa) {
    let rank = draw.size(5);
    let shape: Vec<usize> = (0..rank).map(|_| draw.of(&[1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 64, 130, 1000])).collect();
    let (element, tasks, at_end) = (draw.of(&[4, 4, 1, 2, 8]), draw.size(5), draw.flag());
    let mut left: Vec<usize> = (0..rank).collect();
    let perm: Vec<usize> = (0..rank).map(|_| left.swap_remove(draw.below(left.len()))).collect();
    let count: usize = shape.iter().product();
    if count > draw.room() {
        return;
    }
    let input = draw.raw(count * element);
    let pieces: Vec<&[u8]> = input.chunks_exact(element).collect();
    let mut want = vec![&[][..]; count];
    reference::transpose::transpose(&pieces, &shape, &perm, &mut want);
    let want = want.concat();
    let collapsed = Collapsed::new(&shape, &perm);
    let input = Guarded::of(&input, at_end);
    for method in [Method::Tiles, Method::Narrow, Method::Copy, Method::Runs, Method::Blocks] {
        if !method.fits(&collapsed, element, isa) {
            continue;
        }
        let transpose = match Transpose::new(collapsed.clone(), element, isa, method, tasks, &EmitEach) {
            Err(KernelError::IsaMissing(_)) => return,
            other => other.unwrap(),
        };
        let mut output = Guarded::blank(count * element, at_end);
        transpose.run(&input, &mut output, &InTurn(tasks)).unwrap();
        assert!(output.open() == want, "{shape:?} by {perm:?}, {element} bytes, {isa}, {method:?}");
    }
}
