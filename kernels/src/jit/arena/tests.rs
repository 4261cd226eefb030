//! The arena's guarantees: no address is writable and executable, memory is given back, neighbours are untouched.

use super::*;

const DUAL: Schemes = Schemes { dual: true, flip: false };
const FLIP: Schemes = Schemes { dual: false, flip: true };

fn bytes_of(block: &Block, len: usize) -> &[u8] {
    // SAFETY: the tests place at least `len` bytes in the block.
    unsafe { std::slice::from_raw_parts(block.address().as_ptr(), len) }
}

/// Protections of the mappings that hold `address`, from the system's own list.
fn protection(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let parse = |text| usize::from_str_radix(text, 16).unwrap();
            (parse(start)..parse(end)).contains(&address).then(|| rest[..4].to_owned())
        })
        .unwrap()
}

#[test]
fn no_mapping_is_writable_and_executable() {
    for schemes in [DUAL, FLIP] {
        let arena = Arena::new(schemes);
        let blocks: Vec<_> = (1..100).map(|len| arena.place(&vec![0x90; len * 37]).unwrap()).collect();
        for block in &blocks {
            let protection = protection(block.address().as_ptr() as usize);
            assert!(protection.starts_with("r-x"), "{schemes:?}: {protection}");
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let protections = maps.lines().filter_map(|line| line.split(' ').nth(1));
        assert!(protections.into_iter().all(|protection| !protection.contains("wx")), "{maps}");
    }
}

#[test]
fn the_first_kernel_of_an_arena_that_is_ready_maps_nothing() {
    for schemes in [DUAL, FLIP] {
        let arena = Arena::new(schemes);
        (0..2).for_each(|_| arena.make_ready());
        assert_eq!(arena.usage(), CodeMemory { used: 0, mapped: CHUNK_BYTES });
        let _block = arena.place(&[0x90; 100]).unwrap();
        assert_eq!(arena.usage().mapped, CHUNK_BYTES);
    }
    let none = Arena::new(Schemes { dual: false, flip: false });
    none.make_ready();
    assert!(none.place(&[0x90]).is_err());
}

#[test]
fn blocks_are_aligned_disjoint_and_keep_their_bytes_while_others_come_and_go() {
    for schemes in [DUAL, FLIP] {
        let arena = Arena::new(schemes);
        let mut live: Vec<(Block, Vec<u8>)> = Vec::new();
        // A fixed sequence of sizes from a linear congruential generator; every third step drops a block.
        let mut random = 1u32;
        for step in 0..600usize {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if step % 3 == 2 {
                live.swap_remove(random as usize % live.len());
                continue;
            }
            let bytes = vec![step as u8; 1 + random as usize % 6000];
            live.push((arena.place(&bytes).unwrap(), bytes));
        }
        for (block, bytes) in &live {
            assert_eq!(block.address().as_ptr() as usize % 64, 0);
            assert_eq!(bytes_of(block, bytes.len()), &bytes[..]);
        }
        let mut ranges: Vec<_> = live.iter().map(|(b, _)| (b.address().as_ptr() as usize, b.size())).collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        assert_eq!(arena.usage().used, live.iter().map(|(block, _)| block.size()).sum::<usize>());
    }
}

#[test]
fn memory_returns_to_the_baseline() {
    for schemes in [DUAL, FLIP] {
        let arena = Arena::new(schemes);
        for _ in 0..3 {
            let blocks: Vec<_> = (0..500).map(|_| arena.place(&[0x90; 2000]).unwrap()).collect();
            assert!(arena.usage().mapped >= 500 * 2000);
            drop(blocks);
            assert_eq!(arena.usage(), CodeMemory { used: 0, mapped: CHUNK_BYTES });
        }
    }
}

#[test]
fn freed_ranges_are_reused_before_anything_is_mapped() {
    let arena = Arena::new(DUAL);
    let first = arena.place(&[0x90; 1000]).unwrap();
    let address = first.address();
    let _second = arena.place(&[0x90; 1000]).unwrap();
    drop(first);
    let third = arena.place(&[0xC3; 1000]).unwrap();
    assert_eq!(third.address(), address);
    assert_eq!(bytes_of(&third, 1000), &[0xC3; 1000]);
}

#[test]
fn a_kernel_larger_than_a_chunk_gets_a_chunk_of_its_own() {
    let arena = Arena::new(Schemes::ALL);
    let bytes: Vec<u8> = (0..CHUNK_BYTES + 1).map(|at| at as u8).collect();
    let block = arena.place(&bytes).unwrap();
    assert_eq!(bytes_of(&block, bytes.len()), &bytes[..]);
}

#[test]
fn no_scheme_is_an_error_not_a_panic() {
    let arena = Arena::new(Schemes { dual: false, flip: false });
    assert_eq!(arena.place(&[0xC3]).unwrap_err().kind(), io::ErrorKind::Unsupported);
    assert_eq!(arena.usage(), CodeMemory::default());
}

#[test]
fn a_block_outlives_the_handle_of_its_arena() {
    let arena = Arena::new(Schemes::ALL);
    let block = arena.place(&[0xC3; 10]).unwrap();
    drop(arena);
    assert_eq!(bytes_of(&block, 10), &[0xC3; 10]);
}

#[test]
fn threads_place_and_drop_at_the_same_time() {
    let arena = Arena::new(Schemes::ALL);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let arena = &arena;
            scope.spawn(move || {
                for round in 0..300usize {
                    let bytes = vec![thread; 100 + round * 7];
                    let block = arena.place(&bytes).unwrap();
                    assert_eq!(bytes_of(&block, bytes.len()), &bytes[..]);
                }
            });
        }
    });
    assert_eq!(arena.usage().used, 0);
}
