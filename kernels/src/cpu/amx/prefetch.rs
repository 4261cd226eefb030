//! Software prefetch during an AMX micro-kernel: the left-hand rows and panels that are read next, and the lines of the
//! result that are written next. A step keeps AMX busy for long enough that the core has time for a few dozen other
//! instructions; without them, memory would be idle while AMX multiplies data in L2.
//!
//! A *stream* is cache lines at a constant stride. A call has up to three streams. With enough steps, each step serves
//! one stream, in turn; otherwise each step serves all streams. All lines go into L2: a line that no other core holds
//! arrives there in the exclusive state, so that it can be written too.

use std::cell::Cell;
use std::mem::offset_of;

use super::registers::{COUNT, STREAM, T0};
use crate::jit::{ARGS, Asm, Cond, Mem, arg};

/// Most streams of a call.
pub(super) const STREAMS: usize = 3;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// The prefetch streams of a call, a field of its argument struct: `at` is that field's byte offset. Their addresses
/// are never dereferenced.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Prefetches {
    /// Byte offset from the arguments to the stream whose turn it is; 0 for none.
    turn: Cell<usize>,
    streams: [Stream; STREAMS],
    /// What the streams were laid out for: steps, and lines, stride and panel stride of each stream.
    steps: usize,
    shapes: [[usize; 3]; STREAMS],
}

/// A stream, as the emitted code reads it. Strides are in bytes.
#[derive(Clone, Debug)]
#[repr(C)]
struct Stream {
    /// Address of the next line.
    at: Cell<*const u8>,
    /// Lines left for the current panel.
    left: Cell<isize>,
    /// Lines of each panel, and the offset from the end of one panel's lines to the start of the next panel's.
    panel_lines: isize,
    panel_step: isize,
    /// Lines prefetched in one turn, at least one.
    lines: usize,
    /// From one line to the next.
    line_stride: usize,
    /// Byte offset from this stream to the one whose turn is next.
    next: isize,
    /// Not 0 if the next stream's turn is in the same step, 0 if it is in the following step.
    chained: usize,
}

/// Cache lines that a call prefetches. Strides are in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchLines {
    /// The first line.
    pub(crate) at: *const u8,
    /// Lines for each panel of the call, and their stride.
    pub(crate) count: usize,
    pub(crate) step: usize,
    /// From a panel's first line to the next panel's.
    pub(crate) panel_step: usize,
}

impl PrefetchLines {
    /// The lines of contiguous memory from `at` on, `bytes` for each panel.
    pub(crate) fn all(at: *const u8, bytes: usize) -> PrefetchLines {
        PrefetchLines { at, count: bytes.div_ceil(LINE), step: LINE, panel_step: bytes }
    }
}

/// The share that one call has in a prefetch which several calls split evenly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Calls that have their share before this one.
    pub(crate) before: usize,
    /// Calls, at least one.
    pub(crate) of: usize,
}

impl Share {
    /// All of it.
    pub(crate) const ALL: Share = Share { before: 0, of: 1 };
}

impl Stream {
    const fn nothing() -> Stream {
        Stream {
            at: Cell::new(std::ptr::null()),
            left: Cell::new(0),
            panel_lines: 0,
            panel_step: 0,
            lines: 1,
            line_stride: 0,
            next: 0,
            chained: 0,
        }
    }
}

impl Prefetches {
    /// No streams.
    pub(super) const fn nothing() -> Prefetches {
        let streams = [const { Stream::nothing() }; STREAMS];
        Prefetches { turn: Cell::new(0), streams, steps: 0, shapes: [[0; 3]; STREAMS] }
    }

    /// One stream of contiguous memory from `line` on that goes on from call to call, `step` bytes in each step.
    pub(super) fn onwards(at: usize, line: *const u8, step: usize) -> Prefetches {
        let mut prefetches = Prefetches::nothing();
        let endless = isize::MAX;
        prefetches.streams[0] = Stream {
            at: Cell::new(line),
            left: Cell::new(endless),
            panel_lines: endless,
            lines: step.div_ceil(LINE).max(1),
            line_stride: LINE,
            ..Stream::nothing()
        };
        prefetches.link(at, 1, true);
        prefetches
    }

    /// Prefetches `wanted` in a call with `steps` steps for each panel. Where streams have the shape of the call
    /// before, only their addresses are set.
    pub(super) fn set(&mut self, at: usize, wanted: &[Option<PrefetchLines>; STREAMS], steps: usize) {
        let shapes = wanted.map(|lines| lines.map_or([0; 3], |lines| [lines.count, lines.step, lines.panel_step]));
        if (self.steps, self.shapes) != (steps, shapes) {
            (self.steps, self.shapes) = (steps, shapes);
            self.lay_out(at, steps);
        }
        let present = wanted.iter().flatten().filter(|lines| lines.count > 0);
        let mut count = 0;
        for (stream, lines) in self.streams.iter().zip(present) {
            stream.at.set(lines.at);
            stream.left.set(stream.panel_lines);
            count += 1;
        }
        self.turn.set(if count > 0 { at + FIRST } else { 0 });
    }

    /// Ends all prefetching.
    pub(super) fn stop(&self) {
        self.turn.set(0);
    }

    /// Lays out streams of the shapes that are set.
    fn lay_out(&mut self, at: usize, steps: usize) {
        let shapes = self.shapes;
        let wanted = || shapes.iter().filter(|[lines, ..]| *lines > 0);
        let count = wanted().count();
        // With fewer than four turns for each stream, every step serves all streams.
        let chained = steps < 4 * count;
        let turns = if chained { steps } else { steps / count.max(1) };
        for (stream, &[lines, step, panel_step]) in self.streams.iter_mut().zip(wanted()) {
            let each = lines.div_ceil(turns.max(1));
            let total = lines.next_multiple_of(each) as isize;
            *stream = Stream {
                panel_lines: total,
                panel_step: panel_step as isize - total * step as isize,
                lines: each,
                line_stride: step,
                ..Stream::nothing()
            };
        }
        self.link(at, count, chained);
    }

    /// Links the first `count` streams in a circle.
    fn link(&mut self, at: usize, count: usize, chained: bool) {
        for (index, stream) in self.streams[..count].iter_mut().enumerate() {
            let last = index + 1 == count;
            stream.next = if last { 1 - count as isize } else { 1 } * size_of::<Stream>() as isize;
            stream.chained = usize::from(chained && !last);
        }
        self.turn.set(if count > 0 { at + FIRST } else { 0 });
    }

    /// Emits the prefetches of a step.
    pub(super) fn emit_step(asm: &mut Asm, at: usize) {
        let turn = turn(at);
        let (stream, served) = (asm.label(), asm.label());
        asm.load(STREAM, turn);
        asm.unless_zero(STREAM, |asm| {
            asm.add(STREAM, ARGS);
            asm.bind(stream);
            asm.load(T0, arg!(STREAM, Stream.left));
            asm.cmp_imm(T0, 0);
            asm.jump_if(Cond::LessEqual, served);
            asm.load(COUNT, arg!(STREAM, Stream.lines));
            asm.sub(T0, COUNT);
            asm.store(arg!(STREAM, Stream.left), T0);
            asm.load(T0, arg!(STREAM, Stream.at));
            asm.repeat(COUNT, |asm| {
                asm.prefetch_l2(Mem::at(T0, 0));
                asm.add_mem(T0, arg!(STREAM, Stream.line_stride));
            });
            asm.store(arg!(STREAM, Stream.at), T0);
            asm.bind(served);
            asm.load(T0, arg!(STREAM, Stream.chained));
            asm.add_mem(STREAM, arg!(STREAM, Stream.next));
            asm.test(T0);
            asm.jump_if(Cond::NotEqual, stream);
            asm.sub(STREAM, ARGS);
            asm.store(turn, STREAM);
        });
    }

    /// Emits, after a panel, the move of all streams to the next panel.
    pub(super) fn emit_panel(asm: &mut Asm, at: usize) {
        asm.load(T0, turn(at));
        asm.unless_zero(T0, |asm| {
            asm.lea(STREAM, Mem::at(ARGS, (at + FIRST) as i32));
            for index in 0..STREAMS {
                asm.load(T0, arg!(STREAM, Stream.at));
                asm.add_mem(T0, arg!(STREAM, Stream.panel_step));
                asm.store(arg!(STREAM, Stream.at), T0);
                asm.load(T0, arg!(STREAM, Stream.panel_lines));
                asm.store(arg!(STREAM, Stream.left), T0);
                if index + 1 < STREAMS {
                    asm.add_imm(STREAM, size_of::<Stream>() as i32);
                }
            }
        });
    }
}

/// Byte offset of the first stream.
const FIRST: usize = offset_of!(Prefetches, streams);

/// The field that holds the stream whose turn it is.
fn turn(at: usize) -> Mem {
    arg!(Prefetches.turn).plus(at as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the streams are in an argument struct.
    const AT: usize = 200;

    /// The addresses that a call prefetches from each stream, computed as the emitted code does.
    fn fetched(prefetches: &Prefetches, count: usize, steps: usize, panels: usize) -> Vec<Vec<usize>> {
        let mut seen = vec![Vec::new(); count];
        let mut turn = 0;
        for _ in 0..panels {
            for _ in 0..steps {
                loop {
                    let stream = &prefetches.streams[turn];
                    if stream.left.get() > 0 {
                        stream.left.set(stream.left.get() - stream.lines as isize);
                        for _ in 0..stream.lines {
                            seen[turn].push(stream.at.get().addr());
                            stream.at.set(stream.at.get().wrapping_add(stream.line_stride));
                        }
                    }
                    turn = turn.wrapping_add_signed(stream.next / size_of::<Stream>() as isize);
                    if stream.chained == 0 {
                        break;
                    }
                }
            }
            for stream in &prefetches.streams {
                stream.at.set(stream.at.get().wrapping_offset(stream.panel_step));
                stream.left.set(stream.panel_lines);
            }
        }
        seen
    }

    #[test]
    fn every_line_of_every_panel_has_its_turn() {
        let start = std::ptr::null::<u8>();
        let all = PrefetchLines::all(start.wrapping_add(1 << 20), 640);
        let rows = PrefetchLines { at: start.wrapping_add(1 << 30), count: 32, step: 1000, panel_step: 64 };
        let mut prefetches = Prefetches::nothing();
        for wanted in [[Some(all), None, Some(rows)], [None, None, Some(rows)], [Some(all), Some(all), Some(rows)]] {
            for steps in [1, 2, 3, 7, 12, 40, 500] {
                prefetches.set(AT, &wanted, steps);
                let present: Vec<&PrefetchLines> = wanted.iter().flatten().collect();
                for (lines, seen) in present.iter().zip(fetched(&prefetches, present.len(), steps, 3)) {
                    for (panel, line) in (0..3).flat_map(|panel| (0..lines.count).map(move |line| (panel, line))) {
                        let address = lines.at.addr() + panel * lines.panel_step + line * lines.step;
                        assert!(seen.contains(&address), "{steps} steps: panel {panel}, line {line} of {lines:?}");
                    }
                    assert!(seen.len() < 3 * 2 * lines.count.max(steps), "{steps} steps: {} lines", seen.len());
                }
            }
        }
        prefetches.set(AT, &[None; STREAMS], 4);
        assert_eq!(prefetches.turn.get(), 0, "nothing is fetched");
    }
}
