//! Reads of memory that lies in L1, in L2, in L3, or in no cache.
//!
//! Each thread reads one of three kinds of memory over and over: a part of its own that L1 or L2 holds; one part for
//! all threads, which only L3 holds, each thread starting at another place; or a part whose lines were flushed before,
//! which is read from memory however large L3 is.

use std::time::{Duration, Instant};

use super::Caches;
use crate::cpu::peak::least_seconds;
use crate::error::Result;
use crate::extent::Extent;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Code, Extents, Given, Gpr, Mem, Vreg, arg, counted_down};
use crate::parallel::{Parallel, for_each_chunk};

const FAMILY: &str = "read";

/// Vectors of a chunk, which an iteration loads.
const VECTORS: usize = 16;

/// All parts are multiples of this: four chunks of the widest vectors.
const UNIT: usize = 4096;

/// Least bytes that a thread reads in a run: this takes long beside starting and joining threads.
const RUN: usize = 8 << 20;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes that a thread flushes and reads from memory.
const FLUSHED: usize = 1 << 20;

/// A loop with only loads.
struct ReadLoop {
    code: Code,
    /// Bytes of an iteration.
    chunk: usize,
}

/// The arguments of a run.
#[repr(C)]
struct ReadArgs {
    from: *const u8,
    /// Iterations from that address on, at least 1.
    chunks: usize,
    /// How often these iterations are repeated, at least once.
    rounds: usize,
}

impl Arguments for ReadArgs {
    const FAMILY: &'static str = FAMILY;
    /// Bytes of a chunk.
    type Kernel = usize;

    fn extents(&self, &chunk: &usize, extents: &mut Extents<'_>) {
        extents.read("memory", self.from).over(counted_down(self.chunks), chunk).bytes(chunk);
    }
}

impl ReadLoop {
    fn new(isa: Isa) -> Result<ReadLoop> {
        let (rounds, chunks, from) = (Gpr::RAX, Gpr::RCX, Gpr::RSI);
        let vector = isa.lanes() * 4;
        let mut asm = Asm::new(isa)?;
        asm.prologue();
        asm.load(rounds, arg!(ReadArgs.rounds));
        asm.repeat(rounds, |asm| {
            asm.load(from, arg!(ReadArgs.from));
            asm.load(chunks, arg!(ReadArgs.chunks));
            asm.repeat(chunks, |asm| {
                (0..VECTORS).for_each(|index| asm.vload(Vreg(index as u8), Mem::at(from, (index * vector) as i32)));
                asm.add_imm(from, (VECTORS * vector) as i32);
            });
        });
        asm.epilogue();
        let code = Code::seal(isa, FAMILY, &asm.finish(FAMILY)?)?;
        Ok(ReadLoop { code, chunk: VECTORS * vector })
    }

    /// Reads all whole chunks of `part`, `rounds` times.
    fn run(&self, part: &[u8], rounds: usize) {
        let (from, chunks) = (part.as_ptr(), part.len() / self.chunk);
        if chunks > 0 && rounds > 0 {
            let given = Given::new().read("memory", part);
            // SAFETY: this many chunks are inside of the slice, and the code writes nothing.
            unsafe { self.code.call(&ReadArgs { from, chunks, rounds }, &self.chunk, &given) };
        }
    }
}

/// The loop, the memory that it reads, and the threads that read.
pub(super) struct Reads<'a> {
    read: ReadLoop,
    parallel: &'a dyn Parallel,
    /// The parts of all threads. A part is as long as the largest memory that one thread has to itself, or else the
    /// part that all threads read together.
    memory: Extent,
    /// Bytes of a thread's part.
    part: usize,
    /// Bytes of the parts with which L1, L2 and L3 are read.
    of_levels: [usize; 3],
}

impl<'a> Reads<'a> {
    /// Prepares memory, at most `most` bytes. `None` where there is no memory or no code.
    pub(super) fn new(isa: Isa, parallel: &'a dyn Parallel, caches: &Caches, most: usize) -> Option<Reads<'a>> {
        let read = ReadLoop::new(isa).ok()?;
        let whole = |bytes: usize| bytes.next_multiple_of(UNIT);
        let l1 = whole(caches.l1 / 2);
        // Larger than the level before, so that all its lines are replaced before they are read again.
        let l2 = whole((caches.l2 / 4).max(2 * caches.l1));
        let l3 = if caches.l3 == 0 { 0 } else { whole((caches.l3 / 2).min(4 * caches.l2)) };
        let (threads, part) = (parallel.threads(), l1.max(l2).max(FLUSHED));
        let bytes = threads.checked_mul(part)?.max(l3);
        if bytes > most {
            return None;
        }
        let mut memory = Extent::reserve(bytes).ok()?;
        // Write to all pages: pages without a write would all be one page of zeros.
        for_each_chunk(parallel, &mut memory.bytes_mut()[..bytes], part, &|_, chunk| chunk.fill(1));
        Some(Reads { read, parallel, memory, part, of_levels: [l1, l2, l3] })
    }

    /// Bytes a second from L1.
    pub(super) fn of_l1(&self, budget: Duration) -> f64 {
        self.of_own(self.of_levels[0], budget)
    }

    /// Bytes a second from L2.
    pub(super) fn of_l2(&self, budget: Duration) -> f64 {
        self.of_own(self.of_levels[1], budget)
    }

    /// Bytes a second from L3; 0 where there is none.
    pub(super) fn of_l3(&self, budget: Duration) -> f64 {
        let (threads, bytes) = (self.parallel.threads(), self.of_levels[2]);
        if bytes == 0 {
            return 0.0;
        }
        let all = &self.memory.bytes()[..bytes];
        self.rate(bytes, budget, &|thread| {
            let (before, after) = all.split_at(bytes / UNIT * thread / threads * UNIT);
            self.read.run(after, 1);
            self.read.run(before, 1);
        })
    }

    /// Bytes a second from memory.
    pub(super) fn of_memory(&self, budget: Duration) -> f64 {
        let own = |thread: usize| self.own(thread, FLUSHED);
        let threads = self.parallel.threads();
        let seconds = least_seconds(budget, || {
            self.parallel.run(threads, &|thread| flush(own(thread)));
            self.time(&|thread| self.read.run(own(thread), 1))
        });
        (threads * FLUSHED) as f64 / seconds
    }

    fn of_own(&self, bytes: usize, budget: Duration) -> f64 {
        let rounds = (RUN / bytes).max(1);
        self.rate(bytes * rounds, budget, &|thread| self.read.run(self.own(thread, bytes), rounds))
    }

    /// Bytes a second of all threads, where each thread reads `bytes` bytes in a run.
    fn rate(&self, bytes: usize, budget: Duration, run: &(dyn Fn(usize) + Sync)) -> f64 {
        (self.parallel.threads() * bytes) as f64 / least_seconds(budget, || self.time(run))
    }

    fn time(&self, run: &(dyn Fn(usize) + Sync)) -> Duration {
        let begin = Instant::now();
        self.parallel.run(self.parallel.threads(), run);
        begin.elapsed()
    }

    /// The first bytes of a thread's part.
    fn own(&self, thread: usize, bytes: usize) -> &[u8] {
        &self.memory.bytes()[thread * self.part..][..bytes]
    }
}

/// Flushes these lines from all caches.
pub(super) fn flush(part: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in part.chunks(LINE) {
        // SAFETY: the line is in the slice, and a flush does not change it.
        unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = part;
}
