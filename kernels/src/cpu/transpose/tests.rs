//! Every permutation against the reference, at every level, with canaries around the output.

use super::*;
use crate::cpu::EmitEach;
use crate::parallel::Serial;
use crate::reference;

/// Runs one case at one level and compares; `None` where the level cannot run here.
fn check(shape: &[usize], perm: &[usize], element: usize, isa: Isa, tasks: usize) -> Option<Method> {
    check_at(shape, perm, element, isa, tasks, STREAM, 0)
}

/// As [`check`], where outputs of at least `least` bytes are streamed, and the output begins `behind` bytes after the
/// start of a cache line.
fn check_at(
    shape: &[usize],
    perm: &[usize],
    element: usize,
    isa: Isa,
    tasks: usize,
    least: usize,
    behind: usize,
) -> Option<Method> {
    let collapsed = Collapsed::new(shape, perm);
    let method = Method::pick(&collapsed, element, isa);
    let transpose = match Transpose::streaming(collapsed, element, isa, method, tasks, &EmitEach, least) {
        Err(KernelError::IsaMissing(_)) => return None,
        other => other.unwrap(),
    };
    let count: usize = shape.iter().product();
    let words: Vec<u64> = (0..count as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let input: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()[..element].to_vec()).collect();
    let pieces: Vec<&[u8]> = input.chunks_exact(element).collect();
    let mut want = vec![&[][..]; count];
    reference::transpose::transpose(&pieces, shape, perm, &mut want);

    const CANARY: usize = 128;
    let mut output = vec![0xa5u8; count * element + 2 * CANARY];
    let start = output.as_ptr().align_offset(64) + behind;
    // The driver is given a longer output than it needs and must not touch the rest.
    transpose.run(&input, &mut output[start..], &Serial).unwrap();
    let (before, output) = output.split_at(start);
    let (output, after) = output.split_at(count * element);
    assert!(output == want.concat(), "{shape:?} by {perm:?}, {element} bytes, {isa}, {method:?}");
    assert!([before, after].concat().iter().all(|&byte| byte == 0xa5), "{shape:?} by {perm:?} wrote past its end");
    Some(method)
}

#[test]
fn matrices_around_every_tile_border_turn() {
    let sides = [2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 47, 63, 64, 65, 80, 130];
    for isa in Isa::ALL {
        for &rows in &sides {
            for &columns in &sides {
                for element in [1, 2, 4] {
                    check(&[rows, columns], &[1, 0], element, isa, 1 + (rows + columns) % 3);
                }
            }
        }
    }
}

#[test]
fn every_permutation_of_four_axes_agrees_with_the_reference() {
    let mut perms = vec![];
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| *c != a && *c != b) {
                perms.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    assert_eq!(perms.len(), 24);
    for isa in Isa::ALL {
        for shape in [[2, 3, 4, 5], [3, 17, 8, 19], [1, 33, 2, 20], [9, 1, 16, 3]] {
            for perm in &perms {
                for tasks in [1, 5] {
                    check(&shape, perm, 4, isa, tasks);
                }
            }
        }
    }
}

#[test]
fn every_element_size_moves() {
    for isa in Isa::ALL {
        for element in [1, 2, 4, 8] {
            for shape in [[5, 18, 33], [2, 40, 3], [1, 3, 70]] {
                for perm in [[0, 2, 1], [2, 1, 0], [1, 0, 2], [0, 1, 2], [1, 2, 0]] {
                    check(&shape, &perm, element, isa, 3);
                }
            }
        }
    }
}

#[test]
fn long_rows_of_the_output_are_written_a_line_at_a_time() {
    for isa in Isa::ALL {
        // Around the length from which on rows of the output count as far apart, and around the ends of blocks of
        // columns.
        for (shape, element) in [
            ([255, 257], 4),
            ([257, 265], 4),
            ([533, 265], 4),
            ([255, 9], 8),
            ([259, 263], 8),
            ([1027, 265], 1),
            ([520, 271], 2),
        ] {
            check(&shape, &[1, 0], element, isa, 1);
            check(&shape, &[1, 0], element, isa, 3);
        }
    }
}

#[test]
fn lines_that_begin_anywhere_are_written_whole_and_streamed() {
    for isa in Isa::ALL {
        // Rows that are whole cache lines, rows with heads and tails, and rows shorter than a tile after the head.
        for (shape, element) in [
            ([272, 259], 4),
            ([288, 256], 4),
            ([263, 272], 4),
            ([144, 260], 8),
            ([136, 256], 8),
            ([133, 256], 8),
            ([16, 300], 4),
            ([1024, 260], 1),
            ([576, 256], 2),
        ] {
            for behind in [0, element, 16, 40] {
                for tasks in [1, 2] {
                    check_at(&shape, &[1, 0], element, isa, tasks, 0, behind);
                }
            }
        }
        check_at(&[2, 272, 257], &[0, 2, 1], 4, isa, 3, 0, 16);
    }
}

#[test]
fn eight_axes_move() {
    for isa in Isa::ALL {
        check(&[2, 3, 2, 2, 3, 2, 2, 3], &[7, 5, 3, 1, 0, 2, 4, 6], 4, isa, 2);
        check(&[2, 3, 2, 2, 3, 2, 2, 3], &[1, 0, 3, 2, 5, 4, 7, 6], 2, isa, 2);
    }
}

#[test]
fn layout_changes_take_the_form_made_for_them() {
    let cases: &[(&[usize], &[usize], Method)] = &[
        (&[1, 64, 28, 28], &[0, 2, 3, 1], Method::Tiles),
        (&[1, 28, 28, 64], &[0, 3, 1, 2], Method::Tiles),
        (&[2, 3, 20, 20], &[0, 2, 3, 1], Method::Narrow),
        (&[2, 20, 20, 3], &[0, 3, 1, 2], Method::Narrow),
        (&[2, 12, 37, 64], &[0, 2, 1, 3], Method::Runs),
        (&[1, 37, 64], &[1, 0, 2], Method::Copy),
        (&[5, 37], &[1, 0], Method::Narrow),
        (&[37, 7], &[1, 0], Method::Narrow),
        (&[5, 37, 3], &[1, 0, 2], Method::Runs),
        (&[5, 2, 37], &[2, 1, 0], Method::Blocks),
        (&[12, 37], &[1, 0], Method::Tiles),
    ];
    for isa in [Isa::Avx2, Isa::Avx512] {
        for &(shape, perm, want) in cases {
            if let Some(method) = check(shape, perm, 4, isa, 1) {
                assert_eq!(method, want, "{shape:?} by {perm:?} at {isa}");
            }
        }
    }
}

#[test]
fn buffers_that_are_too_small_and_ways_that_do_not_fit_are_refused() {
    let collapsed = Collapsed::new(&[20, 20], &[1, 0]);
    let transpose = Transpose::new(collapsed.clone(), 4, Isa::Portable, Method::Blocks, 1, &EmitEach).unwrap();
    let (short, mut long) = (vec![0; 1599], vec![0; 1600]);
    assert!(matches!(transpose.run(&short, &mut long, &Serial), Err(KernelError::Bounds { .. })));
    for (method, element, isa) in
        [(Method::Tiles, 4, Isa::Portable), (Method::Runs, 4, Isa::Avx2), (Method::Tiles, 2, Isa::Avx2)]
    {
        let refused = Transpose::new(collapsed.clone(), element, isa, method, 1, &EmitEach);
        assert!(matches!(refused, Err(KernelError::Unsupported { .. })), "{method:?} of {element} at {isa}");
    }
    let refused = Transpose::new(collapsed, 3, Isa::Portable, Method::Blocks, 1, &EmitEach);
    assert!(matches!(refused, Err(KernelError::Unsupported { .. })));
}
