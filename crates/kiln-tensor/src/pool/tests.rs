//! Memory that a pool lends, keeps and gives back.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::{Buffer, DType, Tensor, TensorSpec};

fn lent(pool: &Arc<BufferPool>, bytes: usize) -> Buffer {
    Buffer::lent(pool, bytes).unwrap()
}

fn lent_to_keep(pool: &Arc<BufferPool>, bytes: usize) -> Buffer {
    Buffer::lent_to_keep(pool, bytes).unwrap()
}

fn address(buffer: &Buffer) -> usize {
    buffer.bytes().as_ptr().addr()
}

#[test]
fn classes_are_monotone_and_at_most_an_eighth_larger() {
    let mut last = 0;
    for lines in 1..100_000 {
        let size = rounded(lines);
        assert!(size >= lines && size <= lines + lines / 8 + 1, "{lines} became {size}");
        assert_eq!(rounded(size), size, "a class size is its own class");
        assert!(size >= last, "{lines}");
        last = size;
    }
}

#[test]
fn freed_memory_is_lent_again() {
    let pool = BufferPool::new(1 << 20);
    let first = lent(&pool, 1000);
    let place = address(&first);
    drop(first);
    assert_eq!(pool.free_bytes(), 1024);
    assert_eq!(address(&lent(&pool, 1010)), place);
    assert_eq!(pool.free_bytes(), 1024);
}

#[test]
fn large_memory_is_divided_anew_for_other_sizes() {
    let pool = BufferPool::new(1 << 26);
    let buffers = [3 << 20, 2 << 20, 3 << 20].map(|bytes| lent(&pool, bytes));
    let places: Vec<usize> = buffers.iter().map(address).collect();
    drop(buffers);
    assert_eq!(pool.free_bytes(), 8 << 20);
    let whole = lent(&pool, 8 << 20);
    assert_eq!((address(&whole), pool.free_bytes()), (places[0], 0), "three neighbours became one");
    drop(whole);
    let parts: Vec<Buffer> = (0..8).map(|_| lent(&pool, 1 << 20)).collect();
    assert_eq!(pool.free_bytes(), 0, "and one became eight");
    drop(parts);
    assert_eq!(pool.free_bytes(), 8 << 20);
}

#[test]
fn kept_buffers_lie_close_whatever_is_asked_for_at_once() {
    let pool = BufferPool::new(8 << 20);
    let bytes = (2 << 20) + (1 << 18);
    let buffers: Vec<Buffer> = std::thread::scope(|scope| {
        let ask = || (0..16).map(|_| lent_to_keep(&pool, bytes)).collect::<Vec<_>>();
        let threads = [scope.spawn(ask), scope.spawn(ask)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let places: Vec<usize> = buffers.iter().map(address).collect();
    let span = places.iter().max().unwrap() + bytes - places.iter().min().unwrap();
    assert_eq!(span, 32 * bytes, "nothing lies between them");
    assert!(pool.most_present() <= 32 * bytes + HUGE_PAGE);
    assert_eq!(lent_to_keep(&pool, 100).bytes().len(), 128);
    assert!(lent_to_keep(&pool, 0).is_empty());
    drop(buffers);
    assert!(pool.free_bytes() <= 8 << 20);
}

#[test]
fn memory_is_prepared_for_as_long_as_it_is_wanted() {
    let pool = BufferPool::new(1 << 30);
    let asked = AtomicUsize::new(0);
    pool.prepare(10 * PIECE, &kiln_kernels::Serial, &|| asked.fetch_add(1, Ordering::Relaxed) < 3);
    assert_eq!(pool.free_bytes(), 3 * PIECE);
    pool.prepare(10 * PIECE, &kiln_kernels::Serial, &|| false);
    assert_eq!(pool.free_bytes(), 3 * PIECE, "what is present stays so");
    let all = lent(&pool, 10 * PIECE);
    drop(all);
    assert_eq!(pool.free_bytes(), 10 * PIECE);
}

#[test]
fn a_larger_size_adds_only_the_pages_that_are_missing() {
    let pool = BufferPool::new(1 << 26);
    let first = lent(&pool, 6 << 20);
    let place = address(&first);
    drop(first);
    let larger = lent(&pool, 10 << 20);
    assert_eq!((address(&larger), pool.free_bytes()), (place, 0));
}

#[test]
fn prepared_memory_is_what_is_lent_and_no_more_than_the_pool_keeps() {
    let pool = BufferPool::new(8 << 20);
    pool.prepare(6 << 20, &kiln_kernels::Serial, &|| true);
    assert_eq!((pool.free_bytes(), pool.most_present()), (6 << 20, 6 << 20));
    drop([lent(&pool, 4 << 20), lent(&pool, 2 << 20)]);
    pool.prepare(5 << 20, &kiln_kernels::Serial, &|| true);
    assert_eq!(pool.most_present(), 6 << 20, "nothing had to be added");
    let more = lent(&pool, 7 << 20);
    assert_eq!(pool.most_present(), 8 << 20, "what is missing comes in whole huge pages");
    drop(more);
    pool.prepare(100 << 20, &kiln_kernels::Serial, &|| true);
    assert!(pool.free_bytes() <= 8 << 20);
}

#[test]
fn buffers_in_use_lie_apart_whatever_was_freed_between_them() {
    let pool = BufferPool::new(1 << 24);
    let mut seed = 3u32;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    let mut held: Vec<(Buffer, u8)> = Vec::new();
    for round in 0..2000 {
        if held.len() > 12 || (!held.is_empty() && next(2) == 0) {
            let (buffer, mark) = held.swap_remove(next(held.len()));
            assert!(buffer.bytes().iter().step_by(4096).all(|&byte| byte == mark));
            assert_eq!(buffer.bytes().last(), Some(&mark));
        } else {
            let mark = (round % 251) as u8;
            let mut buffer = lent(&pool, 1 + next(4 << 20));
            buffer.bytes_mut().fill(mark);
            held.push((buffer, mark));
        }
        assert!(pool.free_bytes() <= 1 << 24);
    }
    drop(held);
    assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
}

#[test]
fn a_trimmed_pool_has_nothing_free_and_keeps_what_comes_back() {
    let pool = BufferPool::new(1 << 26);
    let held = lent(&pool, 3 << 20);
    drop([lent(&pool, 1000), lent(&pool, 5 << 20)]);
    assert!(pool.free_bytes() > 0);
    pool.trim();
    assert_eq!(pool.free_bytes(), 0);
    drop(held);
    assert!(pool.free_bytes() >= 3 << 20);
}

#[test]
fn a_pool_is_trimmed_to_what_is_wanted_for_as_long_as_that_goes_on() {
    let pool = BufferPool::new(1 << 30);
    let held = lent(&pool, 3 << 20);
    drop([lent(&pool, 1000), lent(&pool, 5 << 20), lent(&pool, 200 << 20)]);
    let Usage { peak, free, .. } = pool.usage();
    assert_eq!(peak, (208 << 20) + 1024);
    assert!(free >= 205 << 20);
    assert_eq!(pool.usage().peak, 3 << 20, "since the look before");
    pool.trim_to(0, &|| false);
    assert_eq!(pool.free_bytes(), free);
    let asked = AtomicUsize::new(0);
    pool.trim_to(0, &|| asked.fetch_add(1, Ordering::Relaxed) < 2);
    assert_eq!(pool.free_bytes(), free - 2 * leaving::PIECE, "a piece at a time");
    pool.trim_to(7 << 20, &|| true);
    assert_eq!(pool.free_bytes(), 7 << 20);
    pool.trim_to(0, &|| true);
    assert_eq!((pool.free_bytes(), pool.lent_bytes()), (0, 3 << 20));
    drop(held);
    assert!(pool.free_bytes() >= 3 << 20);
}

#[test]
fn a_full_pool_lets_the_oldest_go() {
    let pool = BufferPool::new(512);
    drop(lent(&pool, 1000));
    assert_eq!(pool.free_bytes(), 0, "more than the pool may hold");
    let buffers = [64, 128, 256, 192].map(|bytes| lent(&pool, bytes));
    drop(buffers);
    assert_eq!(pool.free_bytes(), 256 + 192, "the first two went first");
}

#[test]
fn large_memory_beyond_the_limit_goes_back_to_the_system() {
    let pool = BufferPool::new(3 << 20);
    drop([lent(&pool, 2 << 20), lent(&pool, 2 << 20)]);
    assert_eq!(pool.free_bytes(), 3 << 20);
    drop([lent(&pool, 4 << 20), lent(&pool, 2 << 20)]);
    assert_eq!(pool.free_bytes(), 3 << 20);
    pool.retire();
    assert_eq!(pool.free_bytes(), 0);
    drop(lent(&pool, 2 << 20));
    assert_eq!(pool.free_bytes(), 0, "nothing is kept any more");
}

/// Work for the thread that gives memory back, which lasts until the test ends it.
struct Gate(mpsc::Receiver<()>);

impl Leaving for Gate {
    fn give_piece(&mut self) -> bool {
        self.0.recv().is_ok()
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Keeps the thread from giving memory back until the sender is dropped.
fn closed() -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel();
    leaving::leave(Box::new(Gate(gate)));
    open
}

/// Waits until the pool has `bytes` bytes of free memory and none on its way back.
fn await_free(pool: &BufferPool, bytes: usize) {
    let begun = Instant::now();
    while pool.free_bytes() > bytes || leaving_bytes(pool) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} bytes stay", pool.free_bytes());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(pool.free_bytes(), bytes);
}

fn leaving_bytes(pool: &BufferPool) -> usize {
    pool.leaving.load(Ordering::Relaxed)
}

#[test]
fn much_memory_beyond_the_limit_is_on_its_way_when_it_has_been_given_back() {
    let pool = BufferPool::new(3 << 20);
    let buffer = lent(&pool, 256 << 20);
    let place = address(&buffer);
    let open = closed();
    drop(buffer);
    assert_eq!((pool.free_bytes(), leaving_bytes(&pool)), (256 << 20, 253 << 20), "it is on its way");
    let again = lent(&pool, 200 << 20);
    assert_eq!((address(&again), pool.free_bytes()), (place, 56 << 20), "and is lent before it is gone");
    drop(again);
    assert_eq!((pool.free_bytes(), pool.most_present()), (256 << 20, 256 << 20));
    drop(open);
    await_free(&pool, 3 << 20);
    assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
}

#[test]
fn memory_on_its_way_is_given_back_at_once_by_who_trims_and_by_who_needs_the_room() {
    let pool = BufferPool::bounded(0, 300 << 20);
    let open = closed();
    for _ in 0..3 {
        drop(lent(&pool, 200 << 20));
        drop(lent(&pool, 280 << 20));
        drop(lent_to_keep(&pool, 290 << 20));
    }
    assert!(pool.most_present() <= 300 << 20, "memory on its way counts: {}", pool.most_present());
    drop([lent(&pool, 100 << 20), lent(&pool, 100 << 20)]);
    assert!(pool.free_bytes() >= 200 << 20);
    pool.trim();
    assert_eq!(pool.free_bytes(), 0);
    drop(open);
    await_free(&pool, 0);
}

#[test]
fn work_that_is_over_leaves_what_it_had_got_and_returns() {
    let pool = BufferPool::bounded(0, 2 << 30);
    let asked = AtomicUsize::new(0);
    let after = move || asked.fetch_add(1, Ordering::Relaxed) >= 200;
    let is_over: kiln_kernels::memory::IsOver = Arc::new(after);
    let open = closed();
    let ended = kiln_kernels::memory::until(Some(&is_over), || pool.lend(1 << 30, 1).map(drop));
    assert_eq!(ended, Err(Refused::Over { bytes: 1 << 30 }));
    let left = pool.free_bytes();
    assert!((100 << 20..512 << 20).contains(&left), "{left} bytes were present, and are on their way");
    assert_eq!((pool.lent.load(Ordering::Relaxed), leaving_bytes(&pool)), (0, left));
    // Nor does work that was ended give back memory to make room for itself.
    let tight = BufferPool::bounded(0, 300 << 20);
    drop(lent(&tight, 200 << 20));
    let ended = kiln_kernels::memory::until(Some(&is_over), || tight.lend(280 << 20, 1).map(drop));
    assert_eq!((ended, tight.free_bytes()), (Err(Refused::Over { bytes: 280 << 20 }), 200 << 20));
    drop(open);
    await_free(&pool, 0);
    await_free(&tight, 0);
}

#[test]
fn eight_callers_have_no_more_at_a_time_than_the_pool_may_lend() {
    let (each, callers) = (72 << 20, 8);
    let pool = BufferPool::bounded(0, callers * each);
    std::thread::scope(|scope| {
        for caller in 0..callers {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..20 {
                    let mut buffer = lent(pool, each - (((caller + round) % 3) << 20));
                    buffer.bytes_mut()[..100].fill(caller as u8);
                    std::thread::yield_now();
                    assert!(buffer.bytes()[..100].iter().all(|&byte| byte == caller as u8));
                }
            });
        }
    });
    // Each may be a huge page larger, and concurrent callers may each find the same room.
    assert!(pool.most_present() <= 2 * callers * each, "{}", pool.most_present());
    await_free(&pool, 0);
    assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
}

#[test]
fn tensors_whose_bytes_others_have_get_memory_of_the_pool() {
    let pool = BufferPool::new(1 << 20);
    let spec = TensorSpec::new(DType::F32, [1000]);
    let mut made = Tensor::from_pool(&pool, spec.clone()).unwrap();
    made.as_mut_slice::<f32>().unwrap().fill(2.0);
    let lent = || pool.lent.load(Ordering::Relaxed);
    let (one, at) = (lent(), made.bytes().as_ptr());
    // Its own memory stays.
    let mut made = made.owned_in(&pool).unwrap();
    assert_eq!((lent(), made.bytes_mut().as_ptr()), (one, at));
    // Memory that another tensor has is copied, as is a caller's.
    let shared = made.clone();
    let mut own = shared.owned_in(&pool).unwrap();
    assert_eq!(lent(), 2 * one);
    own.as_mut_slice::<f32>().unwrap().fill(3.0);
    assert_eq!(made.as_slice::<f32>().unwrap(), [2.0; 1000]);
    drop(own);
    let bytes = made.bytes().to_vec();
    let foreign = kiln_kernels::extent::Foreign::of(bytes);
    let mut own = Tensor::from_foreign(spec, foreign).unwrap().owned_in(&pool).unwrap();
    assert_eq!(lent(), 2 * one);
    own.as_mut_slice::<f32>().unwrap()[0] = 4.0;
    assert_eq!(own.as_slice::<f32>().unwrap()[..2], [4.0, 2.0]);
}
