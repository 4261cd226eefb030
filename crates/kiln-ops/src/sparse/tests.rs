//! Attention against a mask of all positions, and refusals.

use kiln_model::Attr;
use kiln_tensor::Tensor;

use crate::trial::{Trial, numbers};

const HEADS: usize = 4;
const KV: usize = 2;
const SIZE: usize = 6;
const ROOM: usize = 48;
/// Two tables of three blocks of 16 positions: which blocks of keys each block of queries sees.
const SEEN: [[&[usize]; 3]; 2] = [[&[0], &[1], &[0, 2]], [&[0], &[0, 1], &[1, 2]]];

fn trial(positions: usize, longest: i32, totals: &[i32]) -> Trial {
    let batch = totals.len();
    let trial = Trial::new("SparseAttention").of_domain("com.microsoft").version(1).outputs(3);
    let trial = trial.int("num_heads", HEADS as i64).int("kv_num_heads", KV as i64).int("sparse_block_size", 16);
    let part = |heads: usize, by: f32| {
        let shape = [batch, positions, heads * SIZE];
        Tensor::from_vec(shape, numbers(shape.iter().product(), by)).unwrap()
    };
    let trial = trial.tensor(part(HEADS, 0.7)).tensor(part(KV, 0.3)).tensor(part(KV, 0.9));
    let cache = [batch, KV, ROOM, SIZE];
    let count = cache.iter().product();
    let trial = trial.input(&cache, &numbers(count, 0.11)).input(&cache, &numbers(count, 0.13));
    let trial = trial.input(&[2, 4], &[0i32, 1, 2, 4, 0, 1, 3, 5]);
    let trial = trial.input(&[2, 5], &[0i32, 1, 0, 2, -1, 0, 0, 1, 1, 2]);
    trial.input(&[1], &[longest]).input(&[batch], totals)
}

/// The result for each position, head and element, from all scores with those that are not seen left out.
fn expected(positions: usize, firsts: &[usize]) -> Vec<f32> {
    let batch = firsts.len();
    let (query, key, value) = (
        numbers(batch * positions * HEADS * SIZE, 0.7),
        numbers(batch * positions * KV * SIZE, 0.3),
        numbers(batch * positions * KV * SIZE, 0.9),
    );
    let cached = [numbers(batch * KV * ROOM * SIZE, 0.11), numbers(batch * KV * ROOM * SIZE, 0.13)];
    let mut results = Vec::new();
    for (sequence, &first) in firsts.iter().enumerate() {
        let at = |new: &[f32], old: &[f32], head: usize, place: usize, element: usize| -> f64 {
            f64::from(match place.checked_sub(first) {
                Some(step) => new[((sequence * positions + step) * KV + head) * SIZE + element],
                None => old[((sequence * KV + head) * ROOM + place) * SIZE + element],
            })
        };
        for step in 0..positions {
            for head in 0..HEADS {
                let position = first + step;
                let seen = |place: usize| SEEN[head % 2][position / 16].contains(&(place / 16));
                let weights: Vec<f64> = (0..=position)
                    .map(|place| {
                        let products = (0..SIZE).map(|element| {
                            let own = query[((sequence * positions + step) * HEADS + head) * SIZE + element];
                            f64::from(own) * at(&key, &cached[0], head / 2, place, element)
                        });
                        if seen(place) { (products.sum::<f64>() / (SIZE as f64).sqrt()).exp() } else { 0.0 }
                    })
                    .collect();
                let total: f64 = weights.iter().sum();
                for element in 0..SIZE {
                    let sum = |place: usize| weights[place] * at(&value, &cached[1], head / 2, place, element);
                    results.push(((0..=position).map(sum).sum::<f64>() / total) as f32);
                }
            }
        }
    }
    results
}

#[test]
fn queries_see_the_blocks_of_their_table() {
    trial(40, 40, &[40, 40]).threads(2).gives_about(&[2, 40, HEADS * SIZE], &expected(40, &[0, 0]));
    // Steps behind caches of different lengths.
    trial(1, 40, &[36, 12]).gives_about(&[2, 1, HEADS * SIZE], &expected(1, &[35, 11]));
    trial(3, 35, &[35]).gives_about(&[1, 3, HEADS * SIZE], &expected(3, &[32]));
}

#[test]
fn new_positions_are_written_into_the_cache() {
    let outputs = trial(1, 40, &[36, 12]).run().unwrap();
    let (past, new) = (numbers(2 * KV * ROOM * SIZE, 0.11), numbers(2 * KV * SIZE, 0.3));
    for (place, &found) in outputs[1].as_slice::<f32>().unwrap().iter().enumerate() {
        let (line, position, element) = (place / (ROOM * SIZE), place / SIZE % ROOM, place % SIZE);
        let own = position == [35, 11][line / KV];
        let expected = if own { new[(line / KV * KV + line % KV) * SIZE + element] } else { past[place] };
        assert_eq!(found, expected, "{place}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    trial(1, 40, &[49]).is_refused("sequences of [49]");
    trial(1, 40, &[0]).is_refused("sequences of [0]");
    trial(1, 40, &[41]).is_refused("sequences of [41]");
    trial(49, 49, &[49]).is_refused("of at most 49 and 48");
    trial(1, 40, &[4]).int("sparse_block_size", 17).is_refused("sparse_block_size = 17");
    trial(1, 40, &[4]).int("kv_num_heads", 3).is_refused("3 of keys");
    trial(1, 40, &[4]).int("do_rotary", 1).is_refused("without cosines");
    trial(1, 40, &[4])
        .int("do_rotary", 1)
        .input(&[40, 4], &[0f32; 160])
        .input(&[40, 4], &[0f32; 160])
        .is_refused("input 9");
    let short = trial(1, 40, &[4]).int("do_rotary", 1).input(&[3, 3], &[0f32; 9]).input(&[3, 3], &[0f32; 9]);
    short.is_refused("no cosines of position 3");
    let scaled = trial(1, 40, &[4]).attr("scale", Attr::Float(1.0 / (SIZE as f32).sqrt()));
    scaled.gives_about(&[1, 1, HEADS * SIZE], &expected(1, &[3]));
}
