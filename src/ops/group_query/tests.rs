//! GroupQueryAttention against its definition, one query at a time.

use half::f16;

use crate::graph::Attr;
use crate::ops::rows::samples::Random;
use crate::ops::trial::Trial;
use crate::tensor::{DType, Tensor, TensorSpec};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const SIZE: usize = 6;

/// A request of sequences that are filled to these lengths, their new positions among them.
#[derive(Clone, Copy)]
struct Given<'a> {
    new: usize,
    past: usize,
    filled: &'a [usize],
    packed: bool,
    window: Option<usize>,
    cap: f32,
    rotary: bool,
    sink: bool,
    bias: bool,
    norm: bool,
}

const PLAIN: Given<'_> = Given {
    new: 1,
    past: 0,
    filled: &[1],
    packed: false,
    window: None,
    cap: 0.0,
    rotary: false,
    sink: false,
    bias: false,
    norm: false,
};

struct Drawn {
    heads: [Tensor; 3],
    cache: [Tensor; 2],
    cosines: Tensor,
    sines: Tensor,
    bias: Tensor,
    sink: Tensor,
    norms: [Tensor; 2],
}

fn elements(tensor: &Tensor) -> &[f32] {
    tensor.as_slice().expect("numbers")
}

impl Given<'_> {
    fn total(&self) -> usize {
        self.filled.iter().copied().max().unwrap_or(0)
    }

    fn draw(&self) -> Drawn {
        let (mut random, batch, new) = (Random::new("GroupQueryAttention"), self.filled.len(), self.new);
        let mut floats = |shape: &[usize]| random.floats(shape);
        let rows = |heads: usize| [batch, new, heads * SIZE];
        Drawn {
            heads: [HEADS, KV_HEADS, KV_HEADS].map(|heads| floats(&rows(heads))),
            cache: [(); 2].map(|()| floats(&[batch, KV_HEADS, self.past, SIZE])),
            cosines: floats(&[32, 2]),
            sines: floats(&[32, 2]),
            bias: floats(&[1, HEADS, new, self.total()]),
            sink: floats(&[HEADS]),
            norms: [(); 2].map(|()| floats(&[SIZE])),
        }
    }

    fn trial(&self, drawn: &Drawn) -> Trial {
        let mut trial = Trial::new("GroupQueryAttention").outputs(3);
        trial = trial.int("num_heads", HEADS as i64).int("kv_num_heads", KV_HEADS as i64);
        trial = trial.int("do_rotary", i64::from(self.rotary)).attr("softcap", Attr::Float(self.cap));
        if let Some(window) = self.window {
            trial = trial.int("local_window_size", window as i64);
        }
        let [query, key, value] = &drawn.heads;
        trial = match self.packed {
            false => trial.tensor(query.clone()).tensor(key.clone()).tensor(value.clone()),
            true => {
                let (mut all, lines) = (Vec::new(), self.filled.len() * self.new);
                for line in 0..lines {
                    for part in &drawn.heads {
                        let width = part.len() / lines;
                        all.extend_from_slice(&elements(part)[line * width..][..width]);
                    }
                }
                let shape = [self.filled.len(), self.new, all.len() / lines];
                trial.input(&shape, &all).absent().absent()
            }
        };
        let [keys, values] = &drawn.cache;
        let last: Vec<i32> = self.filled.iter().map(|&filled| filled as i32 - 1).collect();
        trial = trial.tensor(keys.clone()).tensor(values.clone());
        trial = trial.input(&[last.len()], &last).input(&[], &[self.total() as i32]);
        trial = match self.rotary {
            true => trial.tensor(drawn.cosines.clone()).tensor(drawn.sines.clone()),
            false => trial.absent().absent(),
        };
        trial = trial.absent();
        trial = if self.bias { trial.tensor(drawn.bias.clone()) } else { trial.absent() };
        trial = if self.sink { trial.tensor(drawn.sink.clone()) } else { trial.absent() };
        match &drawn.norms {
            [queries, keys] if self.norm => trial.absent().absent().tensor(queries.clone()).tensor(keys.clone()),
            _ => trial,
        }
    }

    /// The elements of a head, rotated by the angles of its position.
    fn head(&self, drawn: &Drawn, part: usize, line: usize, head: usize, position: usize) -> Vec<f32> {
        let width = drawn.heads[part].shape()[2];
        let mut head = elements(&drawn.heads[part])[line * width + head * SIZE..][..SIZE].to_vec();
        if self.norm && part < 2 {
            let squares: f32 = head.iter().map(|value| value * value).sum();
            let root = (squares / SIZE as f32 + 1e-6).sqrt();
            head.iter_mut().zip(elements(&drawn.norms[part])).for_each(|(value, weight)| *value *= weight / root);
        }
        if self.rotary && part < 2 {
            for pair in 0..2 {
                let at = position * 2 + pair;
                let (cosine, sine) = (elements(&drawn.cosines)[at], elements(&drawn.sines)[at]);
                let (x, y) = (head[pair], head[pair + 2]);
                (head[pair], head[pair + 2]) = (cosine * x - sine * y, sine * x + cosine * y);
            }
        }
        head
    }

    /// The outputs by their definition.
    fn expected(&self, drawn: &Drawn) -> [Vec<f32>; 3] {
        let (batch, total) = (self.filled.len(), self.total());
        let room = self.past.max(total);
        let mut caches = [0, 1].map(|_| vec![0f32; batch * KV_HEADS * room * SIZE]);
        let mut output = Vec::new();
        for (sequence, &filled) in self.filled.iter().enumerate() {
            let before = if self.new == total { 0 } else { filled - self.new };
            for (which, cache) in caches.iter_mut().enumerate() {
                for head in 0..KV_HEADS {
                    let own = sequence * KV_HEADS + head;
                    let to = &mut cache[own * room * SIZE..][..room * SIZE];
                    let past = &elements(&drawn.cache[which])[own * self.past * SIZE..][..before * SIZE];
                    to[..before * SIZE].copy_from_slice(past);
                    for new in 0..self.new {
                        let row = self.head(drawn, 1 + which, sequence * self.new + new, head, before + new);
                        to[(before + new) * SIZE..][..SIZE].copy_from_slice(&row);
                    }
                }
            }
            for new in 0..self.new {
                let own = before + new;
                for head in 0..HEADS {
                    let query = self.head(drawn, 0, sequence * self.new + new, head, own);
                    let at = (sequence * KV_HEADS + head / (HEADS / KV_HEADS)) * room * SIZE;
                    let seen = self.window.map_or(0, |window| (own + 1).saturating_sub(window))..own + 1;
                    let weights: Vec<f64> = seen
                        .clone()
                        .map(|key| {
                            let row = &caches[0][at + key * SIZE..][..SIZE];
                            let product: f32 = query.iter().zip(row).map(|(a, b)| a * b).sum();
                            let mut score = product / (SIZE as f32).sqrt();
                            if self.cap > 0.0 {
                                score = self.cap * (score / self.cap).tanh();
                            }
                            if self.bias {
                                score += elements(&drawn.bias)[(head * self.new + new) * total + key];
                            }
                            f64::from(score).exp()
                        })
                        .collect();
                    let sink = if self.sink { f64::from(elements(&drawn.sink)[head]).exp() } else { 0.0 };
                    let sum = weights.iter().sum::<f64>() + sink;
                    output.extend((0..SIZE).map(|feature| {
                        let value = |key: usize| f64::from(caches[1][at + key * SIZE + feature]);
                        seen.clone().zip(&weights).map(|(key, weight)| weight / sum * value(key)).sum::<f64>() as f32
                    }));
                }
            }
        }
        let [keys, values] = caches;
        [output, keys, values]
    }

    #[track_caller]
    fn holds(&self) {
        let drawn = self.draw();
        let outputs = self.trial(&drawn).run().expect("the request is valid");
        for (index, (found, expected)) in outputs.iter().zip(self.expected(&drawn)).enumerate() {
            for (place, (found, expected)) in elements(found).iter().zip(&expected).enumerate() {
                assert!((found - expected).abs() < 1e-5, "output {index} at {place}: {found} for {expected}");
            }
            assert_eq!(found.len(), expected.len());
        }
    }
}

#[test]
fn prompts_and_steps_are_what_the_definition_says() {
    for packed in [false, true] {
        for rotary in [false, true] {
            Given { new: 5, filled: &[5, 5], packed, rotary, ..PLAIN }.holds();
            Given { past: 7, filled: &[8], packed, rotary, ..PLAIN }.holds();
            Given { new: 3, past: 7, filled: &[10], packed, rotary, ..PLAIN }.holds();
        }
    }
}

#[test]
fn sequences_of_a_batch_have_lengths_of_their_own() {
    Given { past: 7, filled: &[8, 3, 1], rotary: true, ..PLAIN }.holds();
    Given { past: 12, filled: &[8, 3], packed: true, ..PLAIN }.holds();
    Given { new: 2, past: 7, filled: &[4, 9], window: Some(3), ..PLAIN }.holds();
}

#[test]
fn windows_caps_biases_and_sinks_change_what_is_weighed() {
    let whole = Given { new: 4, filled: &[4, 4], ..PLAIN };
    let step = Given { past: 6, filled: &[7, 5], ..PLAIN };
    for given in [whole, step] {
        Given { window: Some(2), ..given }.holds();
        Given { cap: 0.5, ..given }.holds();
        Given { bias: true, ..given }.holds();
        Given { sink: true, ..given }.holds();
        Given { norm: true, ..given }.holds();
        Given { norm: true, rotary: true, packed: true, ..given }.holds();
        Given { window: Some(2), cap: 2.0, bias: true, sink: true, rotary: true, ..given }.holds();
    }
}

/// A step of new positions behind those that caches hold; sequences have these lengths then.
fn step(heads: &[Tensor; 3], caches: [Tensor; 2], filled: [usize; 2], window: i64, slides: bool) -> Vec<Tensor> {
    let mut trial = Trial::new("GroupQueryAttention").outputs(3);
    trial = trial.int("num_heads", HEADS as i64).int("kv_num_heads", KV_HEADS as i64).int("local_window_size", window);
    trial = trial.int("sliding_window_cache", i64::from(slides));
    for tensor in heads.iter().chain(&caches) {
        trial = trial.tensor(tensor.clone());
    }
    let last = filled.map(|filled| filled as i32 - 1);
    let total = *filled.iter().max().expect("two") as i32;
    trial.input(&[2], &last).input(&[], &[total]).run().expect("the step is valid")
}

#[test]
fn a_cache_that_slides_gives_what_the_whole_cache_gives() {
    let mut random = Random::new("GroupQueryAttention");
    let mut dropped = 0;
    for (room, window) in [(4, 4), (6, 4), (9, 3), (5, 1)] {
        let empty =
            |room: usize| [(); 2].map(|()| Tensor::zeros(TensorSpec::new(DType::F32, [2, KV_HEADS, room, SIZE])));
        let (mut whole, mut slid) = (empty(64).map(Result::unwrap), empty(room).map(Result::unwrap));
        let mut filled = [0; 2];
        // Prompts that the cache has room for and has not, steps of one position and of several.
        for new in [if room == 9 { 20 } else { 3 }, 1, 1, 1, 5, 1, 2, 1, 1, 1, 1, 13, 1] {
            // The second sequence was rewound behind its prompt, which a cache that dropped nothing allows.
            if filled == [3, 3] && room > 4 {
                filled[1] = 2;
            }
            filled = filled.map(|filled| filled + new);
            let heads = [HEADS, KV_HEADS, KV_HEADS].map(|heads| random.floats(&[2, new, heads * SIZE]));
            let of_whole = step(&heads, whole, filled, window as i64, false);
            let of_slid = step(&heads, slid, filled, window as i64, true);
            for (found, expected) in elements(&of_slid[0]).iter().zip(elements(&of_whole[0])) {
                assert!((found - expected).abs() < 1e-5, "{room}, {window}, {filled:?}: {found} for {expected}");
            }
            let kept = filled.map(|mut filled| {
                while filled > room {
                    filled -= room - window + 1;
                }
                filled
            });
            for (part, line) in (1..3).flat_map(|part| (0..2 * KV_HEADS).map(move |line| (part, line))) {
                let (sequence, kept) = (line / KV_HEADS, kept[line / KV_HEADS]);
                let first = line * 64 + filled[sequence] - kept;
                let rows = &elements(&of_whole[part])[first * SIZE..][..kept * SIZE];
                assert_eq!(&elements(&of_slid[part])[line * room * SIZE..][..kept * SIZE], rows, "{room}, {window}");
                dropped += usize::from(kept < filled[sequence]);
            }
            (whole, slid) = ([1, 2].map(|at| of_whole[at].clone()), [1, 2].map(|at| of_slid[at].clone()));
        }
    }
    assert!(dropped > 100, "{dropped}");
}

#[test]
fn padding_behind_a_prompt_drops_nothing_of_a_cache_that_slides() {
    let mut random = Random::new("GroupQueryAttention");
    for (room, filled) in [(4, [6, 3]), (5, [6, 2]), (8, [6, 1])] {
        let empty =
            |room| [(); 2].map(|()| Tensor::zeros(TensorSpec::new(DType::F32, [2, KV_HEADS, room, SIZE])).unwrap());
        let heads = [HEADS, KV_HEADS, KV_HEADS].map(|heads| random.floats(&[2, 6, heads * SIZE]));
        let whole = step(&heads, empty(16), filled, 4, false);
        let slid = step(&heads, empty(room), filled, 4, true);
        for (sequence, &filled) in filled.iter().enumerate() {
            let own = sequence * 6 * HEADS * SIZE..(sequence * 6 + filled) * HEADS * SIZE;
            for (found, expected) in elements(&slid[0])[own.clone()].iter().zip(&elements(&whole[0])[own]) {
                assert!((found - expected).abs() < 1e-5, "{room}, {filled}: {found} for {expected}");
            }
            let kept = if filled > room { filled - (room - 3) * (filled - room).div_ceil(room - 3) } else { filled };
            for line in sequence * KV_HEADS..(sequence + 1) * KV_HEADS {
                let rows = &elements(&whole[1])[(line * 16 + filled - kept) * SIZE..][..kept * SIZE];
                assert_eq!(&elements(&slid[1])[line * room * SIZE..][..kept * SIZE], rows, "{room}, {filled}");
            }
        }
    }
}

#[test]
fn half_precision_is_computed_in_whole_and_rounded() {
    let given = Given { past: 3, filled: &[4, 2], ..PLAIN };
    let drawn = given.draw();
    let narrow = |tensor: &Tensor| {
        let values: Vec<f16> = elements(tensor).iter().map(|&value| f16::from_f32(value)).collect();
        Tensor::from_slice(tensor.shape().iter().copied(), &values).expect("as many")
    };
    let halves = |drawn: &Drawn| Drawn {
        heads: drawn.heads.each_ref().map(narrow),
        cache: drawn.cache.each_ref().map(narrow),
        ..given.draw()
    };
    let outputs = given.trial(&halves(&drawn)).run().expect("halves are taken");
    for (found, expected) in outputs.iter().zip(given.expected(&drawn)) {
        assert_eq!(found.dtype(), DType::F16);
        let found = found.as_slice::<f16>().expect("halves");
        assert!(found.iter().zip(&expected).all(|(found, expected)| (found.to_f32() - expected).abs() < 4e-3));
    }
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    let given = Given { past: 3, filled: &[4], ..PLAIN };
    let trial = || given.trial(&given.draw());
    trial().text("k_quant_type", "PER_TENSOR").is_refused("attribute k_quant_type = \"PER_TENSOR\"");
    trial().int("qk_output", 1).is_refused("attribute qk_output = 1");
    trial().int("sliding_window_cache", 1).is_refused("without local_window_size");
    let slides = |given: Given<'_>| given.trial(&given.draw()).int("sliding_window_cache", 1);
    slides(Given { window: Some(4), ..given }).is_refused("a cache of 3 positions that slides over a window of 4");
    slides(Given { window: Some(2), sink: true, ..given }).is_refused("input 11 over a cache that slides");
    slides(Given { window: Some(2), bias: true, ..given }).is_refused("input 10 over a cache that slides");
    slides(Given { window: Some(2), ..given }).int("smooth_softmax", 1).is_refused("smooth_softmax");
    trial().int("local_window_size", 0).is_refused("local_window_size = 0");
    trial().int("num_heads", 3).is_refused("3 heads of queries for 2 of keys");
    let long = Given { past: 3, filled: &[6], ..PLAIN };
    long.trial(&long.draw()).is_refused("position 5");
    Given { rotary: true, ..PLAIN }.trial(&PLAIN.draw()).int("kv_num_heads", 1).is_refused("does not fit");
}
