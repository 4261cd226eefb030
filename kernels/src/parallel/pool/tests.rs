//! The guarantees to callers: every task runs once, whatever the other tasks do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread::ThreadId;

use super::*;

fn pool(threads: usize) -> Pool {
    Pool::new(threads, "test").unwrap()
}

#[test]
fn every_task_runs_exactly_once_on_any_number_of_threads() {
    for count in [0, 1, 2, 3, 8] {
        let pool = pool(count);
        assert_eq!(pool.threads(), count.max(1));
        for tasks in [0, 1, 2, 7, 1000] {
            let ran: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(tasks, &|index| {
                ran[index].fetch_add(1, Ordering::Relaxed);
            });
            assert!(ran.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{count} threads, {tasks} tasks");
        }
    }
}

#[test]
fn forks_in_quick_succession_never_mix_their_tasks() {
    let pool = pool(4);
    for round in 0..20_000usize {
        let sum = AtomicUsize::new(0);
        let tasks = round % 5 + 2;
        pool.run(tasks, &|index| {
            sum.fetch_add(round * 10 + index, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), round * 10 * tasks + tasks * (tasks - 1) / 2);
    }
}

#[test]
fn each_thread_is_called_with_its_own_number() {
    let pool = pool(3);
    let known: Mutex<[Option<ThreadId>; 3]> = Mutex::default();
    for turn in 0..50 {
        // All three must be inside at once to get past the barrier.
        let barrier = Barrier::new(3);
        pool.each_thread(&|thread| {
            let here = std::thread::current().id();
            assert_eq!(*known.lock().unwrap()[thread].get_or_insert(here), here, "thread {thread} in turn {turn}");
            barrier.wait();
        });
    }
    assert_eq!(known.lock().unwrap()[0], Some(std::thread::current().id()), "the caller is number 0");
    let alone = AtomicUsize::new(0);
    pool.run(2, &|_| {
        pool.each_thread(&|thread| {
            alone.fetch_add(1 + 10 * thread, Ordering::Relaxed);
        });
    });
    assert_eq!(alone.into_inner(), 2, "within a fork, the caller alone");
}

#[test]
fn sleeping_threads_are_woken() {
    let pool = pool(3);
    for _ in 0..5 {
        std::thread::sleep(SPIN * 20);
        // All three must be inside at once to get past the barrier.
        let barrier = Barrier::new(3);
        pool.run(3, &|_| {
            barrier.wait();
        });
    }
}

#[test]
fn a_fork_within_a_fork_and_a_second_caller_run_alone() {
    let pool = pool(2);
    let threads: Mutex<Vec<(usize, ThreadId)>> = Mutex::default();
    pool.run(2, &|outer| {
        pool.run(3, &|_| threads.lock().unwrap().push((outer, std::thread::current().id())));
    });
    let threads = threads.into_inner().unwrap();
    assert_eq!(threads.len(), 6);
    for outer in 0..2 {
        let mut of = threads.iter().filter(|(index, _)| *index == outer).map(|(_, thread)| thread);
        let first = of.next().unwrap();
        assert!(of.all(|thread| thread == first), "a nested fork left its thread");
    }
    let total = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    pool.run(4, &|_| {
                        total.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 4 * 500 * 4);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let pool = pool(3);
    for bad in [0, 5, 9] {
        let ran = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(10, &|index| {
                assert!(index != bad, "task {index} fails");
                ran.fetch_add(1, Ordering::Relaxed);
            });
        }));
        let message = result.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, format!("task {bad} fails"));
        assert!(ran.into_inner() < 10);
        let ran = AtomicUsize::new(0);
        pool.run(10, &|_| {
            ran.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(ran.into_inner(), 10, "after a panic of task {bad}");
    }
}

#[test]
fn more_threads_than_can_be_counted_are_refused() {
    assert_eq!(Pool::new(usize::MAX, "test").unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}
