//! What a fork and a join cost, hot and after a pause, beside rayon's.
//!
//! `cargo bench --bench fork_join`. Times are medians in nanoseconds; tasks do nothing.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::time::{Duration, Instant};

use kiln_kernels::{Parallel, Pool};

fn main() {
    println!("{:24} {:>9} {:>9}", "", "kiln", "rayon");
    for threads in [2, 4] {
        let pool = Pool::new(threads, "bench").expect("threads");
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(threads - 1).build().expect("threads");
        for pause in [0, 20, 1000] {
            let pause = Duration::from_micros(pause);
            let ours = median(pause, || pool.run(threads, &|_| ()));
            let theirs = median(pause, || {
                rayon.in_place_scope(|scope| (1..threads).for_each(|_| scope.spawn(|_| ())));
            });
            println!("{:24} {ours:>9.0} {theirs:>9.0}", format!("{threads} threads, after {pause:?}"));
        }
    }
}

/// The median time of one call, in nanoseconds, each after spinning for `pause`.
fn median(pause: Duration, mut call: impl FnMut()) -> f64 {
    let calls = if pause.is_zero() { 20_000 } else { 300 };
    let mut times: Vec<u128> = (0..calls)
        .map(|_| {
            let wait = Instant::now();
            while wait.elapsed() < pause {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            call();
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    times[calls / 2] as f64
}
