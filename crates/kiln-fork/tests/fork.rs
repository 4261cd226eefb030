//! Locks in children of forks. In a process of their own: a fork changes for good how code memory is used.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_fork::{Mutex, Origin, stay};

/// Forks; whether what the child did has ended within ten seconds and was good.
fn forked(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child touches what it was given and ends without running anything else.
    let process = unsafe { libc::fork() };
    if process == 0 {
        let good = child();
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let begun = Instant::now();
    let mut status = 0;
    // SAFETY: waits for the child made above.
    while unsafe { libc::waitpid(process, &mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > Duration::from_secs(10) {
            // SAFETY: the child is this function's own.
            unsafe { libc::kill(process, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    status == 0
}

#[test]
fn a_child_finds_no_lock_held_and_nothing_half_done() {
    let pair = Mutex::new((0u64, 0u64));
    let stop = AtomicBool::new(false);
    let origin = Origin::here();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut pair = pair.lock().unwrap();
                    pair.0 += 1;
                    // Within another lock, and long enough to be met by a fork.
                    std::thread::yield_now();
                    let _within = stay();
                    pair.1 += 1;
                }
            });
        }
        for _ in 0..50 {
            let whole = || pair.lock().is_ok_and(|pair| pair.0 == pair.1) && !origin.is_here();
            assert!(forked(whole));
        }
        assert!(origin.is_here());
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn whoever_forks_while_holding_a_lock_holds_it_on_both_sides() {
    let lock = Mutex::new(1);
    let mut held = lock.lock().unwrap();
    assert!(forked(|| {
        *held += 1;
        drop(held);
        lock.lock().is_ok_and(|held| *held == 2)
    }));
}
