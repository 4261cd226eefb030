//! The gates in Rust, by the same arguments as their code: for levels without JIT and for activations without code.

use super::emit::{GateArgs, GateCode, Gates};
use crate::problem::recurrent::Activation;
use crate::reference::recurrent::activate;

/// Does the work of the code of `code`.
///
/// # Safety
///
/// As for calling that code: every pointer that the form uses leads to all rows of `hidden` elements that the form
/// reads or writes there.
pub(super) unsafe fn step(code: &GateCode, args: &GateArgs) {
    let hidden = args.hidden;
    let clip = code.clip.map(|clip| clip.get());
    for unit in 0..hidden {
        let read = |from: *const f32, row: usize| {
            // SAFETY: the caller vouches for the rows that the form reads.
            unsafe { from.wrapping_add(row * hidden + unit).read() }
        };
        let write = |to: *mut f32, value: f32| {
            // SAFETY: the caller vouches for the rows that the form writes.
            unsafe { to.wrapping_add(unit).write(value) }
        };
        let act = |activation: Activation, value: f32| activate(activation, clip, value);
        let put = |value: f32| {
            write(args.out, value);
            write(args.y, value);
        };
        let mix = |z: f32, fresh: f32| put((1.0 - z) * fresh + z * read(args.before, 0));
        let sum = |gate: usize| read(args.x, gate) + read(args.r, gate);
        match code.gates {
            Gates::Lstm { activations: [f, g, h], input_forget, peepholes, clip_state } => {
                let gate = |gate: usize, state: f32| {
                    let hole = if peepholes { read(args.peepholes, gate) * state } else { 0.0 };
                    act(f, sum(gate) + hole)
                };
                let c = read(args.c, 0);
                let input = gate(0, c);
                let forget = if input_forget { 1.0 - input } else { gate(2, c) };
                let c = forget * c + input * act(g, sum(3));
                write(args.c, c);
                put(gate(1, c) * activate(h, clip.filter(|_| clip_state), c));
            }
            Gates::GruLinear { activations: [f, g] } => {
                let (z, reset) = (act(f, sum(0)), act(f, sum(1)));
                let past = read(args.r, 2) + read(args.bias, 0);
                mix(z, act(g, read(args.x, 2) + reset * past));
            }
            Gates::GruReset { activation } => {
                write(args.z, act(activation, sum(0)));
                write(args.out, act(activation, sum(1)) * read(args.before, 0));
            }
            Gates::GruUpdate { activation } => {
                mix(read(args.z, 0), act(activation, read(args.x, 2) + read(args.r, 0)));
            }
            Gates::Rnn { activation } => put(act(activation, sum(0))),
        }
    }
}
