//! The emulated device against sums written as in their definitions, and its memory and script against their contracts.

use super::*;
use crate::cpu::chain::UnaryOp;
use crate::gpu::{Arena, ConvProblem, Engine, Epilogue, MatMulProblem, Notes, Operands};

fn device() -> (Arc<Emulated>, Arc<Arena>) {
    let device = Emulated::open(Script::default());
    (device.clone(), Arena::new(device, 256 << 20))
}

fn values(count: u64, seed: u32) -> Vec<f32> {
    (0..count as u32).map(|index| ((index * 37 + seed) % 19) as f32 / 8.0 - 1.0).collect()
}

fn put(device: &dyn Device, arena: &Arc<Arena>, values: &[f32]) -> Region {
    let region = arena.take(values.len() as u64 * 4).unwrap();
    device.upload(bytemuck::cast_slice(values), &region).unwrap();
    region
}

/// The device's result, and the operands that it was given.
fn solve(problem: &Problem) -> (Vec<f32>, [Vec<f32>; 4]) {
    let (device, arena) = device();
    let [left, right, output] = problem.extents().unwrap();
    let host = [values(left, 1), values(right, 5), values(problem.columns(), 3), values(output, 11)];
    let [left, right, bias, residual] = [0, 1, 2, 3].map(|operand| put(&*device, &arena, &host[operand]));
    let result = arena.take(output * 4).unwrap();
    let epilogue = problem.epilogue();
    let operands = Operands {
        left: &left,
        right: &right,
        bias: epilogue.bias.then_some(&bias),
        residual: epilogue.residual.then_some(&residual),
        output: &result,
    };
    let algorithm = &device.heuristics(problem, &Policy::default(), Heuristic::Fallback).unwrap()[0];
    device.solver(problem, algorithm).unwrap().run(&operands, None).unwrap();
    let mut computed = vec![0f32; output as usize];
    device.download(&result, bytemuck::cast_slice_mut(&mut computed)).unwrap();
    (computed, host)
}

fn close(computed: &[f32], expected: &[f64]) {
    assert_eq!(computed.len(), expected.len());
    for (place, (&one, &other)) in computed.iter().zip(expected).enumerate() {
        assert!((f64::from(one) - other).abs() <= 1e-4 * other.abs().max(1.0), "at {place}: {one}, expected {other}");
    }
}

fn finished(sum: f64, epilogue: &Epilogue, bias: f32, residual: f32) -> f64 {
    let mut sum = sum;
    sum += if epilogue.bias { f64::from(bias) } else { 0.0 };
    sum += if epilogue.residual { f64::from(residual) } else { 0.0 };
    if epilogue.activation.is_some() { sum.max(0.0) } else { sum }
}

/// The definition: every pair of positions that a tap joins, in plain order.
fn convolved(conv: &ConvProblem, host: &[Vec<f32>; 4]) -> Vec<f64> {
    let count = |sizes: [u32; 3]| sizes.iter().map(|&size| size as usize).product::<usize>();
    let split = |index: usize, sizes: [u32; 3]| {
        let [_, h, w] = sizes.map(|size| size as usize);
        [index / (h * w), index / w % h, index % w].map(|place| place as i64)
    };
    let [channels, filters, groups] = [conv.channels, conv.filters, conv.groups].map(|count| count as usize);
    let (group_in, group_out) = (channels / groups, filters / groups);
    let mut sums = vec![0f64; conv.batch as usize * filters * count(conv.output)];
    for image in 0..conv.batch as usize {
        for filter in 0..filters {
            for channel in (0..channels).filter(|channel| channel / group_in == filter / group_out) {
                for tap in 0..count(conv.kernel) {
                    for from in 0..count(conv.input) {
                        for to in 0..count(conv.output) {
                            let (near, far) = if conv.transposed { (from, to) } else { (to, from) };
                            let (dense, strided) = match conv.transposed {
                                true => (split(near, conv.input), split(far, conv.output)),
                                false => (split(near, conv.output), split(far, conv.input)),
                            };
                            let at = split(tap, conv.kernel);
                            let joined = (0..3).all(|axis| {
                                dense[axis] * i64::from(conv.strides[axis]) + at[axis] * i64::from(conv.dilations[axis])
                                    == strided[axis] + i64::from(conv.pads[axis])
                            });
                            if joined {
                                let weight = match conv.transposed {
                                    false => filter * group_in + channel % group_in,
                                    true => channel * group_out + filter % group_out,
                                };
                                sums[(image * filters + filter) * count(conv.output) + to] +=
                                    f64::from(host[0][(image * channels + channel) * count(conv.input) + from])
                                        * f64::from(host[1][weight * count(conv.kernel) + tap]);
                            }
                        }
                    }
                }
            }
        }
    }
    let plane = count(conv.output);
    let finish =
        |(place, sum): (usize, f64)| finished(sum, &conv.epilogue, host[2][place / plane % filters], host[3][place]);
    sums.into_iter().enumerate().map(finish).collect()
}

const PLAIN: ConvProblem = ConvProblem {
    batch: 2,
    channels: 4,
    filters: 6,
    groups: 1,
    input: [1, 7, 9],
    kernel: [1, 3, 3],
    strides: [1, 1, 1],
    dilations: [1, 1, 1],
    pads: [0, 1, 1],
    output: [1, 7, 9],
    transposed: false,
    epilogue: Epilogue::NONE,
};

const ALL: Epilogue = Epilogue { bias: true, residual: true, activation: Some(UnaryOp::Relu) };

#[test]
fn convolutions_are_what_their_definition_says() {
    let cases = [
        PLAIN,
        ConvProblem { epilogue: ALL, ..PLAIN },
        ConvProblem { groups: 2, strides: [1, 2, 3], output: [1, 4, 3], ..PLAIN },
        ConvProblem { channels: 6, groups: 6, dilations: [1, 2, 2], output: [1, 5, 7], epilogue: ALL, ..PLAIN },
        ConvProblem { input: [4, 5, 6], kernel: [2, 3, 1], pads: [1, 1, 0], output: [5, 5, 6], ..PLAIN },
        // An output that differs from the window's reads nothing beyond its operands.
        ConvProblem { output: [1, 12, 20], ..PLAIN },
        ConvProblem { kernel: [1, 5, 5], input: [1, 2, 2], pads: [0, 4, 4], output: [1, 6, 6], ..PLAIN },
        ConvProblem { transposed: true, ..PLAIN },
        ConvProblem {
            transposed: true,
            groups: 2,
            strides: [1, 2, 3],
            dilations: [1, 2, 1],
            output: [1, 15, 25],
            epilogue: ALL,
            ..PLAIN
        },
    ];
    for conv in cases {
        let (computed, host) = solve(&Problem::Conv(conv));
        close(&computed, &convolved(&conv, &host));
    }
}

#[test]
fn products_are_what_their_definition_says_on_any_number_of_threads() {
    let plain = MatMulProblem {
        batch: 3,
        m: 5,
        n: 7,
        k: 4,
        trans_left: false,
        trans_right: false,
        one_left: false,
        one_right: false,
        scale: 0.5f32.to_bits(),
        epilogue: Epilogue::NONE,
    };
    let cases = [
        plain,
        MatMulProblem { trans_left: true, one_right: true, epilogue: ALL, ..plain },
        MatMulProblem { trans_right: true, one_left: true, ..plain },
        MatMulProblem { batch: 2, m: 150, n: 131, k: 120, epilogue: ALL, ..plain },
    ];
    for product in cases {
        let (computed, host) = solve(&Problem::MatMul(product));
        let [batch, m, n, k] = [product.batch, product.m, product.n, product.k].map(|size| size as usize);
        let mut expected = Vec::new();
        for (place, (row, column)) in (0..batch * m).flat_map(|row| (0..n).map(move |column| (row, column))).enumerate()
        {
            let (image, row) = (row / m, row % m);
            let sum: f64 = (0..k)
                .map(|term| {
                    let left = if product.trans_left { term * m + row } else { row * k + term };
                    let right = if product.trans_right { column * k + term } else { term * n + column };
                    let left = host[0][left + if product.one_left { 0 } else { image * m * k }];
                    let right = host[1][right + if product.one_right { 0 } else { image * k * n }];
                    f64::from(left) * f64::from(right)
                })
                .sum();
            expected.push(finished(sum * 0.5, &product.epilogue, host[2][column], host[3][place]));
        }
        close(&computed, &expected);
    }
}

#[test]
fn memory_is_zero_aligned_bounded_and_the_devices_own() {
    let script = Script { facts: DeviceFacts { memory_bytes: 1 << 20, ..DeviceFacts::default() }, ..Script::default() };
    let (device, other) = (Emulated::open(script), device());
    let arena = Arena::new(device.clone(), 1 << 30);
    assert!(matches!(arena.take(2 << 20), Err(KernelError::DeviceMemory { .. })));
    let region = arena.take(1 << 20).unwrap();
    assert_eq!((region.address() % 256, device.free_bytes().unwrap()), (0, 0));
    let mut bytes = [1; 1000];
    device.download(&region, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 1000]);
    device.upload(&[7; 10], &region).unwrap();
    device.download(&region, &mut bytes).unwrap();
    assert_eq!((bytes[9], bytes[10]), (7, 0));
    assert!(matches!(device.upload(&vec![0; (1 << 20) + 1], &region), Err(KernelError::Bounds { .. })));
    assert!(matches!(other.0.upload(&[1], &region), Err(KernelError::Device { .. })), "another device's memory");
    drop((region, arena));
    assert_eq!(device.free_bytes().unwrap(), 1 << 20);
}

#[test]
fn the_script_says_what_there_is_how_long_it_takes_and_what_fails() {
    let engine = |number| Engine::Lt { data: [number, 0, 0, 0, 0, 0, 0, 0] };
    let products = vec![
        Proposal::new(engine(1), 1 << 20, 300),
        Proposal { since: 10, ..Proposal::new(engine(2), 0, 200) },
        Proposal { failure: Some(Failure::Solver), ..Proposal::new(engine(3), 0, 200) },
        Proposal { failure: Some(Failure::Run), until: 10, ..Proposal::new(engine(4), 0, 200) },
        Proposal { listed: Listed::Thorough, notes: Notes::FFT, ..Proposal::new(engine(5), 0, 200) },
    ];
    let open = |cublaslt| {
        let facts = DeviceFacts { cublaslt, memory_bytes: 1 << 26, ..DeviceFacts::default() };
        Emulated::open(Script { facts, products: products.clone(), ..Script::default() })
    };
    let product = MatMulProblem {
        batch: 1,
        m: 2,
        n: 2,
        k: 2,
        trans_left: false,
        trans_right: false,
        one_left: false,
        one_right: false,
        scale: 1f32.to_bits(),
        epilogue: Epilogue::NONE,
    };
    let problem = Problem::MatMul(product);
    let fused = Problem::MatMul(MatMulProblem { epilogue: ALL, ..product });
    let names = |device: &Emulated, problem: &Problem, heuristic| -> Vec<u64> {
        let list = device.heuristics(problem, &Policy::default(), heuristic).unwrap();
        let number = |one: Algorithm| if let Engine::Lt { data } = one.engine { data[0] } else { 0 };
        list.into_iter().map(number).collect()
    };
    let (old, new) = (open(9), open(10));
    assert_eq!(names(&old, &problem, Heuristic::Quick), [1, 3, 4]);
    assert_eq!(names(&new, &problem, Heuristic::Thorough), [1, 2, 3, 5]);
    assert_eq!(names(&new, &fused, Heuristic::Thorough), []);
    assert_eq!((new.counts().heuristics, new.counts().thorough), (2, 2));
    let solver = |device: &Emulated, number: usize| device.solver(&problem, &products[number - 1].algorithm());
    assert!(matches!(solver(&old, 2), Err(KernelError::Unsupported { .. })), "there is none in this version");
    assert!(matches!(solver(&new, 3), Err(KernelError::Unsupported { .. })));
    let arena = Arena::new(new.clone(), 1 << 26);
    let [left, right, output] = [0, 1, 2].map(|_| arena.take(16).unwrap());
    let operands = Operands { left: &left, right: &right, bias: None, residual: None, output: &output };
    let first = solver(&new, 1).unwrap();
    assert!(matches!(first.run(&operands, None), Err(KernelError::Bounds { operand: "workspace", .. })));
    let workspace = arena.take(first.workspace()).unwrap();
    let second = solver(&new, 2).unwrap();
    let time = new.time(&mut || {
        first.run(&operands, Some(&workspace))?;
        second.run(&operands, None)
    });
    assert_eq!(time.unwrap(), 500);
    assert_eq!((new.counts().times, new.counts().runs, new.counts().solvers), (1, 3, 3));
    let failing = solver(&old, 4).unwrap();
    let there = Arena::new(old, 1 << 26);
    let elsewhere = there.take(16).unwrap();
    let operands = Operands { left: &elsewhere, right: &elsewhere, output: &elsewhere, ..operands };
    assert!(matches!(failing.run(&operands, None), Err(KernelError::Device { .. })));
    assert!(second.run(&operands, None).is_err(), "operands of another device");
}
