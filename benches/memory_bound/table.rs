//! One row of the table: the time of the fastest repeat, and the time of a copy of the same number of bytes. Knows
//! nothing of the measured kernels.

use std::hint::black_box;
use std::time::{Duration, Instant};

use kiln_kernels::{Isa, Parallel, Result};
use kiln_tensor::threads::Threads;

/// How long one row may take.
const BUDGET: Duration = Duration::from_millis(60);
/// A repeat has enough calls to take about this long, so that reading the clock does not count.
const REPEAT: Duration = Duration::from_micros(20);

/// Elements of half a page.
const HALF_PAGE: usize = 512;

/// Where rows are printed, and the resources of all rows.
pub(crate) struct Table<'a> {
    pub(crate) threads: &'a Threads,
    words: &'a [String],
    quick: bool,
}

/// Numbers of both signs, without special values.
pub(crate) fn values(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at * 37 % 101) as f32 / 16.0 - 3.0).collect()
}

/// Calls that fill a repeat.
fn calls(work: &mut dyn FnMut() -> Result<()>) -> Result<u32> {
    let started = Instant::now();
    work()?;
    let once = started.elapsed().max(Duration::from_nanos(50));
    Ok(((REPEAT.as_nanos() / once.as_nanos()) as u32).max(1))
}

/// Seconds of one call, over one repeat.
fn once(work: &mut dyn FnMut() -> Result<()>, calls: u32) -> Result<f64> {
    let started = Instant::now();
    for _ in 0..calls {
        work()?;
    }
    Ok(started.elapsed().as_secs_f64() / f64::from(calls))
}

impl<'a> Table<'a> {
    pub(crate) fn new(threads: &'a Threads, words: &'a [String], quick: bool) -> Table<'a> {
        println!("{} threads, {}", threads.threads(), Isa::detect());
        println!("  {:<44}{:>11}{:>9}{:>9}{:>8}", "", "us", "GB/s", "copy", "share");
        Table { threads, words, quick }
    }

    /// Whether a row of that name is wanted.
    fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    /// Measures and prints one row that moves `elements` elements of 4 bytes; `make` prepares it, where it is wanted.
    pub(crate) fn row<W: FnMut() -> Result<()>>(
        &self,
        name: &str,
        elements: usize,
        make: impl FnOnce() -> Result<W>,
    ) -> Result<()> {
        if !self.wants(name) {
            return Ok(());
        }
        let mut work = make()?;
        // Half a page apart: where source and destination lie at nearly the same place of a page, the C library's copy
        // falls to a tenth of its speed on Zen 3 (`rep movsb`), which would be no measure of memory.
        let (from, mut to) = (values(elements / 2), vec![0.0f32; elements / 2 + 2 * HALF_PAGE]);
        let apart = (to.as_ptr() as usize / 4).wrapping_sub(from.as_ptr() as usize / 4) % (2 * HALF_PAGE);
        let to = &mut to[(3 * HALF_PAGE - apart) % (2 * HALF_PAGE)..][..from.len()];
        let part = from.len().div_ceil(self.threads.threads()).max(1);
        let mut copy = || {
            kiln_kernels::parallel::for_each_chunk(self.threads, to, part, &|index, chunk| {
                chunk.copy_from_slice(&from[index * part..index * part + chunk.len()]);
            });
            black_box(&mut *to);
            Ok(())
        };
        let (work_calls, copy_calls) = (calls(&mut work)?, calls(&mut copy)?);
        let (mut best, mut copied) = (f64::MAX, f64::MAX);
        let started = Instant::now();
        // A few repeats of each in turn: caches then hold the kernel's own operands, not those that the other one left.
        while started.elapsed() < BUDGET {
            for _ in 0..4 {
                best = best.min(once(&mut work, work_calls)?);
            }
            for _ in 0..4 {
                copied = copied.min(once(&mut copy, copy_calls)?);
            }
            if self.quick {
                break;
            }
        }
        let speed = |seconds: f64| (elements * 4) as f64 / seconds / 1e9;
        let (moved, copied) = (speed(best), speed(copied));
        let share = moved / copied * 100.0;
        println!("  {name:<44}{:>11.2}{moved:>9.1}{copied:>9.1}{share:>7.0} %", best * 1e6);
        Ok(())
    }

    /// Large shapes are left out of a quick look.
    pub(crate) fn shapes<'s, S>(&self, shapes: &'s [S]) -> &'s [S] {
        if self.quick { &shapes[..shapes.len().min(1)] } else { shapes }
    }
}
