//! What the steps of a multiplication fetch meanwhile: left-hand rows and panels that follow, and the lines that sums are
//! written to. The unit is busy for so long in each step that a core has time for a few dozen instructions beside it, and
//! memory would be idle while it multiplies what is near.
//!
//! A *stream* is lines at equal distances. Each step serves one of a call's streams, in turn, where there are enough steps; else
//! each serves all. Everything goes into the second cache: there a line that nobody else has is this core's own, to be written too.

use std::cell::Cell;
use std::mem::offset_of;

use super::multiply::{ARGS, COUNT, MultiplyArgs, STREAM, T0};
use crate::jit::{Asm, Cond, Mem};

/// Most streams of a call.
const STREAMS: usize = 3;

/// Bytes of a line.
pub(crate) const LINE: usize = 64;

/// The streams of a call. Nothing is read through their addresses.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Fetches {
    /// The stream whose turn it is, in bytes from the arguments; 0 for none.
    turn: Cell<usize>,
    streams: [Stream; STREAMS],
    /// What they were made for: steps, and for each how many lines, how far apart, and how far panels are.
    steps: usize,
    shapes: [[usize; 3]; STREAMS],
}

/// A stream, as the code reads it. Distances are in bytes.
#[derive(Clone, Debug)]
#[repr(C)]
struct Stream {
    /// The next line.
    at: Cell<*const u8>,
    /// Lines that are left for this panel.
    left: Cell<isize>,
    /// Lines of each panel, and how far the next panel's are from where one's end.
    panel_lines: isize,
    panel_step: isize,
    /// Lines of a turn, at least one.
    lines: usize,
    /// Distance of a line and the next.
    line_step: usize,
    /// How far the stream is whose turn is next.
    next: isize,
    /// Not 0 where that is in the same step.
    chained: usize,
}

/// Lines that a call fetches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    /// The first.
    pub(crate) at: *const u8,
    /// Lines of each panel of the call, and their distance.
    pub(crate) count: usize,
    pub(crate) step: usize,
    /// Distance of a panel's first line and the next panel's.
    pub(crate) panel_step: usize,
}

impl Lines {
    /// All bytes from `at` on, `bytes` for each panel.
    pub(crate) fn all(at: *const u8, bytes: usize) -> Lines {
        Lines { at, count: bytes.div_ceil(LINE), step: LINE, panel_step: bytes }
    }
}

impl Stream {
    const fn nothing() -> Stream {
        Stream {
            at: Cell::new(std::ptr::null()),
            left: Cell::new(0),
            panel_lines: 0,
            panel_step: 0,
            lines: 1,
            line_step: 0,
            next: 0,
            chained: 0,
        }
    }
}

impl Fetches {
    /// Nothing is fetched.
    pub(crate) const fn nothing() -> Fetches {
        let streams = [const { Stream::nothing() }; STREAMS];
        Fetches { turn: Cell::new(0), streams, steps: 0, shapes: [[0; 3]; STREAMS] }
    }

    /// What follows `at`, in as many calls as there are, that many bytes a step.
    pub(crate) fn onwards(at: *const u8, step: usize) -> Fetches {
        let mut fetches = Fetches::nothing();
        let endless = isize::MAX;
        fetches.streams[0] = Stream {
            at: Cell::new(at),
            left: Cell::new(endless),
            panel_lines: endless,
            lines: step.div_ceil(LINE).max(1),
            line_step: LINE,
            ..Stream::nothing()
        };
        fetches.link(1, true);
        fetches
    }

    /// Fetches those lines in a call of that many steps for each panel. Calls of one shape follow each other: then only
    /// addresses are new.
    pub(crate) fn set(&mut self, wanted: &[Option<Lines>; STREAMS], steps: usize) {
        let shapes = wanted.map(|lines| lines.map_or([0; 3], |lines| [lines.count, lines.step, lines.panel_step]));
        if (self.steps, self.shapes) != (steps, shapes) {
            (self.steps, self.shapes) = (steps, shapes);
            self.lay_out(steps);
        }
        let present = wanted.iter().flatten().filter(|lines| lines.count > 0);
        let mut count = 0;
        for (stream, lines) in self.streams.iter().zip(present) {
            stream.at.set(lines.at);
            stream.left.set(stream.panel_lines);
            count += 1;
        }
        self.turn.set(if count > 0 { FIRST } else { 0 });
    }

    /// Fetches nothing more.
    pub(crate) fn stop(&self) {
        self.turn.set(0);
    }

    /// Streams of the shapes that are set.
    fn lay_out(&mut self, steps: usize) {
        let shapes = self.shapes;
        let wanted = || shapes.iter().filter(|[lines, ..]| *lines > 0);
        let count = wanted().count();
        // In turn, where each has several turns.
        let chained = steps < 4 * count;
        let turns = if chained { steps } else { steps / count.max(1) };
        for (stream, &[lines, step, panel_step]) in self.streams.iter_mut().zip(wanted()) {
            let each = lines.div_ceil(turns.max(1));
            let total = lines.next_multiple_of(each) as isize;
            *stream = Stream {
                panel_lines: total,
                panel_step: panel_step as isize - total * step as isize,
                lines: each,
                line_step: step,
                ..Stream::nothing()
            };
        }
        self.link(count, chained);
    }

    /// With the first `count` streams in a circle.
    fn link(&mut self, count: usize, chained: bool) {
        for (index, stream) in self.streams[..count].iter_mut().enumerate() {
            let last = index + 1 == count;
            stream.next = if last { 1 - count as isize } else { 1 } * size_of::<Stream>() as isize;
            stream.chained = usize::from(chained && !last);
        }
        self.turn.set(if count > 0 { FIRST } else { 0 });
    }
}

/// Where the first stream is in the arguments.
const FIRST: usize = offset_of!(MultiplyArgs, fetches) + offset_of!(Fetches, streams);

/// Where it is kept whose turn it is.
const TURN: Mem = Mem::at(ARGS, (offset_of!(MultiplyArgs, fetches) + offset_of!(Fetches, turn)) as i32);

/// A field of the stream at hand.
macro_rules! field {
    ($field:ident) => {
        Mem::at(STREAM, offset_of!(Stream, $field) as i32)
    };
}

/// Emits what a step fetches.
pub(super) fn emit_step(asm: &mut Asm) {
    let (stream, line, served, none) = (asm.label(), asm.label(), asm.label(), asm.label());
    asm.load(STREAM, TURN);
    asm.test(STREAM);
    asm.jump_if(Cond::Equal, none);
    asm.add(STREAM, ARGS);
    asm.bind(stream);
    asm.load(T0, field!(left));
    asm.cmp_imm(T0, 0);
    asm.jump_if(Cond::LessEqual, served);
    asm.load(COUNT, field!(lines));
    asm.sub(T0, COUNT);
    asm.store(field!(left), T0);
    asm.load(T0, field!(at));
    asm.bind(line);
    asm.prefetch_second(Mem::at(T0, 0));
    asm.add_mem(T0, field!(line_step));
    asm.sub_imm(COUNT, 1);
    asm.test(COUNT);
    asm.jump_if(Cond::NotEqual, line);
    asm.store(field!(at), T0);
    asm.bind(served);
    asm.load(T0, field!(chained));
    asm.add_mem(STREAM, field!(next));
    asm.test(T0);
    asm.jump_if(Cond::NotEqual, stream);
    asm.sub(STREAM, ARGS);
    asm.store(TURN, STREAM);
    asm.bind(none);
}

/// Emits what follows a panel.
pub(super) fn emit_panel(asm: &mut Asm) {
    let none = asm.label();
    asm.load(T0, TURN);
    asm.test(T0);
    asm.jump_if(Cond::Equal, none);
    asm.lea(STREAM, Mem::at(ARGS, FIRST as i32));
    for index in 0..STREAMS {
        asm.load(T0, field!(at));
        asm.add_mem(T0, field!(panel_step));
        asm.store(field!(at), T0);
        asm.load(T0, field!(panel_lines));
        asm.store(field!(left), T0);
        if index + 1 < STREAMS {
            asm.add_imm(STREAM, size_of::<Stream>() as i32);
        }
    }
    asm.bind(none);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a call of some steps for each panel fetches of each stream, as the code does it.
    fn fetched(fetches: &Fetches, count: usize, steps: usize, panels: usize) -> Vec<Vec<usize>> {
        let mut seen = vec![Vec::new(); count];
        let mut turn = 0;
        for _ in 0..panels {
            for _ in 0..steps {
                loop {
                    let stream = &fetches.streams[turn];
                    if stream.left.get() > 0 {
                        stream.left.set(stream.left.get() - stream.lines as isize);
                        for _ in 0..stream.lines {
                            seen[turn].push(stream.at.get().addr());
                            stream.at.set(stream.at.get().wrapping_add(stream.line_step));
                        }
                    }
                    turn = turn.wrapping_add_signed(stream.next / size_of::<Stream>() as isize);
                    if stream.chained == 0 {
                        break;
                    }
                }
            }
            for stream in &fetches.streams {
                stream.at.set(stream.at.get().wrapping_offset(stream.panel_step));
                stream.left.set(stream.panel_lines);
            }
        }
        seen
    }

    #[test]
    fn every_line_of_every_panel_has_its_turn() {
        let start = std::ptr::null::<u8>();
        let all = Lines::all(start.wrapping_add(1 << 20), 640);
        let rows = Lines { at: start.wrapping_add(1 << 30), count: 32, step: 1000, panel_step: 64 };
        let mut fetches = Fetches::nothing();
        for wanted in [[Some(all), None, Some(rows)], [None, None, Some(rows)], [Some(all), Some(all), Some(rows)]] {
            for steps in [1, 2, 3, 7, 12, 40, 500] {
                fetches.set(&wanted, steps);
                let present: Vec<&Lines> = wanted.iter().flatten().collect();
                for (lines, seen) in present.iter().zip(fetched(&fetches, present.len(), steps, 3)) {
                    for (panel, line) in (0..3).flat_map(|panel| (0..lines.count).map(move |line| (panel, line))) {
                        let address = lines.at.addr() + panel * lines.panel_step + line * lines.step;
                        assert!(seen.contains(&address), "{steps} steps: panel {panel}, line {line} of {lines:?}");
                    }
                    assert!(seen.len() < 3 * 2 * lines.count.max(steps), "{steps} steps: {} lines", seen.len());
                }
            }
        }
        fetches.set(&[None; STREAMS], 4);
        assert_eq!(fetches.turn.get(), 0, "nothing is fetched");
    }
}
