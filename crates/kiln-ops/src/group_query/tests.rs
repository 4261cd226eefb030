//! GroupQueryAttention against its definition, one query at a time.

use half::f16;
use kiln_kernels::cpu::attention::PAGE;
use kiln_model::Attr;
use kiln_tensor::{DType, Tensor, TensorSpec};

use crate::rows::samples::Random;
use crate::trial::Trial;

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const SIZE: usize = 6;

/// A request whose sequences have these lengths, the new positions included.
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

#[derive(Clone)]
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
fn a_bias_of_one_row_is_that_of_all_new_positions() {
    for (batches, heads) in [(1, HEADS), (2, 1), (2, HEADS)] {
        let given = Given { new: 4, past: 5, filled: &[9, 6], bias: true, ..PLAIN };
        let drawn = given.draw();
        let row = Random::new("bias").floats(&[batches, heads, 1, given.total()]);
        let repeated = elements(&row).chunks(given.total()).flat_map(|row| row.repeat(given.new)).collect();
        let rows = Tensor::from_vec([batches, heads, given.new, given.total()], repeated).unwrap();
        let [one, all] = [row, rows].map(|bias| given.trial(&Drawn { bias, ..drawn.clone() }).run().expect("valid"));
        assert_eq!(elements(&one[0]), elements(&all[0]), "{batches} sequences, {heads} heads");
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

/// A step of new positions after the cached ones; `filled` are the lengths of the sequences after it.
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
        // Prompts that fit the cache and prompts that do not, then steps of one position and of several.
        for new in [if room == 9 { 20 } else { 3 }, 1, 1, 1, 5, 1, 2, 1, 1, 1, 1, 13, 1] {
            // The second sequence is rewound by one position, which a cache that has dropped nothing allows.
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
fn new_rows_are_rounded_into_a_cache_of_f16_and_attention_reads_its_numbers() {
    let halves = |tensor: &Tensor| {
        let halves: Vec<f16> = elements(tensor).iter().map(|&number| f16::from_f32(number)).collect();
        Tensor::from_vec(tensor.shape().to_vec(), halves).expect("as many")
    };
    let numbers = |tensor: &Tensor| {
        let numbers = tensor.as_slice::<f16>().expect("halves").iter().map(|half| half.to_f32()).collect();
        Tensor::from_vec(tensor.shape().to_vec(), numbers).expect("as many")
    };
    let slides = Given { past: 7, filled: &[6, 3], window: Some(4), ..PLAIN };
    let prompt = Given { new: 5, past: 9, filled: &[5, 5], ..PLAIN };
    let step = Given { past: 600, filled: &[400, 601], sink: true, ..PLAIN };
    for given in [slides, prompt, step, Given { new: 3, past: 7, filled: &[10], bias: true, cap: 0.5, ..PLAIN }] {
        let mut drawn = given.draw();
        let caches = drawn.cache.each_ref().map(halves);
        let outputs = given.trial(&Drawn { cache: caches.clone(), ..given.draw() }).run().expect("the cache is taken");
        // As before, over the stored numbers.
        drawn.cache = caches.each_ref().map(numbers);
        (1..3).for_each(|part| drawn.heads[part] = numbers(&halves(&drawn.heads[part])));
        let expected = given.expected(&drawn);
        for (found, expected) in elements(&outputs[0]).iter().zip(&expected[0]) {
            assert!((found - expected).abs() < 1e-5, "{:?}: {found} for {expected}", given.filled);
        }
        for (found, expected) in outputs.iter().zip(&expected).skip(1) {
            assert_eq!((found.dtype(), elements(&numbers(found))), (DType::F16, &expected[..]), "{:?}", given.filled);
        }
    }
}

#[test]
fn a_cache_of_which_keys_alone_are_f16_is_refused() {
    let given = Given { past: 3, filled: &[4], ..PLAIN };
    let drawn = given.draw();
    let keys =
        Tensor::from_vec(drawn.cache[0].shape().to_vec(), vec![f16::ONE; drawn.cache[0].len()]).expect("as many");
    let cache = [keys, drawn.cache[1].clone()];
    given.trial(&Drawn { cache, ..given.draw() }).is_refused("input 4 of type float32, not float16");
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    let given = Given { past: 3, filled: &[4], ..PLAIN };
    let trial = || given.trial(&given.draw());
    trial().text("k_quant_type", "PER_TENSOR").is_refused("k_quant_type = \"PER_TENSOR\" and v_quant_type = \"NONE\"");
    let quantized = |kind: &str| trial().text("k_quant_type", kind).text("v_quant_type", kind);
    quantized("PER_ROW").is_refused("k_quant_type = \"PER_ROW\"");
    quantized("PER_TENSOR").is_refused("kv_cache_bit_width = 0 of a quantised cache");
    quantized("PER_TENSOR").int("kv_cache_bit_width", 8).is_refused("a quantised cache without input 12");
    trial().int("kv_cache_bit_width", 8).is_refused("kv_cache_bit_width = 8, where k_quant_type is NONE");
    trial().int("qk_output", 1).is_refused("attribute qk_output without output 3");
    trial().int("qk_output", 3).is_refused("attribute qk_output = 3");
    trial().outputs(4).is_refused("qk_output = 0, and output 3");
    trial().int("sliding_window_cache", 1).is_refused("without local_window_size");
    let slides = |given: Given<'_>| given.trial(&given.draw()).int("sliding_window_cache", 1);
    slides(Given { window: Some(4), ..given }).is_refused("a cache of 3 positions that slides over a window of 4");
    slides(Given { window: Some(2), ..given }).int("qk_output", 1).outputs(4).is_refused("and qk_output");
    trial().int("local_window_size", 0).is_refused("local_window_size = 0");
    trial().int("num_heads", 3).is_refused("3 heads of queries for 2 of keys");
    // A prompt of 2 may state any length up to its cache's, and sees nothing beyond itself.
    let prompt = Given { new: 2, past: 5, filled: &[2], ..PLAIN };
    let stated = |last: i32| prompt.trial(&prompt.draw()).replaced(5, &[last]).run();
    assert_eq!(stated(4).unwrap()[0].bytes(), stated(1).unwrap()[0].bytes());
    assert!(stated(5).unwrap_err().contains("position 5"));
    let long = Given { past: 3, filled: &[6], ..PLAIN };
    long.trial(&long.draw()).is_refused("position 5");
    Given { rotary: true, ..PLAIN }.trial(&PLAIN.draw()).int("kv_num_heads", 1).is_refused("does not fit");
}

/// A quantised cache: its codes, and the scales of keys and values.
struct Codes {
    caches: [Tensor; 2],
    scales: [Tensor; 2],
    nibbles: bool,
}

impl Codes {
    fn draw(given: &Given<'_>, nibbles: bool, per_channel: bool) -> Codes {
        let mut random = Random::new("codes");
        let shape = [given.filled.len(), KV_HEADS, given.past, if nibbles { SIZE / 2 } else { SIZE }];
        let count = shape.iter().product();
        let mut cache = || {
            let numbers = random.floats(&[count]);
            let bytes: Vec<u8> = elements(&numbers).iter().map(|number| (number.to_bits() >> 3) as u8).collect();
            match nibbles {
                true => Tensor::from_vec(shape.to_vec(), bytes).expect("as many"),
                false => {
                    let codes = bytes.iter().map(|&byte| byte as i8).collect();
                    Tensor::from_vec(shape.to_vec(), codes).expect("as many")
                }
            }
        };
        let caches = [cache(), cache()];
        let scales = [(); 2].map(|()| {
            let count = if per_channel { KV_HEADS * SIZE } else { 1 };
            let largest = if nibbles { 7.0 } else { 127.0 };
            let numbers = random.floats(&[count]);
            let scales = elements(&numbers).iter().map(|number| (0.5 + number.abs()) / largest).collect();
            Tensor::from_vec([count], scales).expect("as many")
        });
        Codes { caches, scales, nibbles }
    }

    /// The scale of an element of a row of all heads.
    fn scale(&self, which: usize, at: usize) -> f32 {
        let scales = elements(&self.scales[which]);
        scales[at % (KV_HEADS * SIZE) % scales.len()]
    }

    /// The code of a number.
    fn code(&self, which: usize, at: usize, number: f32) -> i32 {
        let [least, most] = if self.nibbles { [-8.0, 7.0] } else { [-128.0, 127.0] };
        (number * (1.0 / self.scale(which, at))).round_ties_even().clamp(least, most) as i32
    }

    /// The codes of a cache, one after the other.
    fn apart(&self, cache: &Tensor) -> Vec<i32> {
        match self.nibbles {
            true => {
                cache.bytes().iter().flat_map(|byte| [byte & 15, byte >> 4].map(|code| i32::from(code) - 8)).collect()
            }
            false => cache.bytes().iter().map(|&byte| i32::from(byte as i8)).collect(),
        }
    }

    /// The numbers of a cache [batch, heads, room, size].
    fn numbers(&self, which: usize, cache: &Tensor, room: usize) -> Vec<f32> {
        let codes = self.apart(cache).into_iter().enumerate();
        let place = |at: usize| at / (room * SIZE) % KV_HEADS * SIZE + at % SIZE;
        codes.map(|(at, code)| code as f32 * self.scale(which, place(at))).collect()
    }
}

#[test]
fn new_rows_are_rounded_into_a_quantised_cache_and_attention_reads_its_numbers() {
    let slides = Given { past: 7, filled: &[6, 3], window: Some(4), ..PLAIN };
    let prompt = Given { new: 5, past: 9, filled: &[5, 5], ..PLAIN };
    let all = [slides, prompt, Given { new: 3, past: 7, filled: &[10], sink: true, bias: true, cap: 0.5, ..PLAIN }];
    for (given, nibbles, per_channel) in all.into_iter().flat_map(|given| {
        [false, true].into_iter().flat_map(move |bits| [false, true].into_iter().map(move |each| (given, bits, each)))
    }) {
        let codes = Codes::draw(&given, nibbles, per_channel);
        let mut drawn = given.draw();
        let quantized = {
            let drawn = Drawn { cache: codes.caches.clone(), ..given.draw() };
            let trial = given.trial(&drawn);
            let [keys, values] = codes.scales.clone();
            let kind = if per_channel { "PER_CHANNEL" } else { "PER_TENSOR" };
            let trial = trial.tensor(keys).tensor(values).text("k_quant_type", kind).text("v_quant_type", kind);
            trial.int("kv_cache_bit_width", if nibbles { 4 } else { 8 }).run().expect("the request is valid")
        };
        // As above, over the numbers that the codes stand for.
        for which in 0..2 {
            let past = codes.numbers(which, &codes.caches[which], given.past);
            drawn.cache[which] = Tensor::from_vec(drawn.cache[which].shape().to_vec(), past).expect("as many");
            let part = &drawn.heads[1 + which];
            let rounded = elements(part).iter().enumerate();
            let rounded = rounded.map(|(at, &number)| codes.code(which, at, number) as f32 * codes.scale(which, at));
            drawn.heads[1 + which] = Tensor::from_vec(part.shape().to_vec(), rounded.collect()).expect("as many");
        }
        let expected = given.expected(&drawn);
        let what = format!("{nibbles} {per_channel} {:?}", given.filled);
        for (found, expected) in elements(&quantized[0]).iter().zip(&expected[0]) {
            assert!((found - expected).abs() < 1e-5, "{what}: {found} for {expected}");
        }
        let room = given.past.max(given.total());
        for which in 0..2 {
            let (found, before) = (&quantized[1 + which], &codes.caches[which]);
            assert_eq!(found.dtype(), before.dtype());
            let numbers = codes.numbers(which, found, room);
            for (line, (found, expected)) in
                numbers.chunks(room * SIZE).zip(expected[1 + which].chunks(room * SIZE)).enumerate()
            {
                let filled = given.filled[line / KV_HEADS] * SIZE;
                for (found, expected) in found[..filled].iter().zip(&expected[..filled]) {
                    assert!((found - expected).abs() < 1e-5, "{what}, cache {which}: {found} for {expected}");
                }
            }
        }
    }
}

#[test]
fn caches_and_scales_of_another_type_or_size_are_refused() {
    let given = Given { past: 3, filled: &[4], ..PLAIN };
    let codes = Codes::draw(&given, false, false);
    let run = |caches: [Tensor; 2], kind: &str, bits: i64| {
        let trial = given.trial(&Drawn { cache: caches, ..given.draw() });
        let trial = trial.tensor(codes.scales[0].clone()).tensor(codes.scales[1].clone());
        trial.text("k_quant_type", kind).text("v_quant_type", kind).int("kv_cache_bit_width", bits)
    };
    run(codes.caches.clone(), "PER_TENSOR", 8).run().expect("it fits");
    run(codes.caches.clone(), "PER_CHANNEL", 8).is_refused("input 12 of 1 scales, where 12 are needed");
    run(codes.caches.clone(), "PER_TENSOR", 4).is_refused("input 3 of shape [1, 2, 3, 6] does not fit");
    run(given.draw().cache, "PER_TENSOR", 8).is_refused("input 3 of type");
    run(codes.caches.clone(), "PER_TENSOR", 5).is_refused("kv_cache_bit_width = 5");
    run(codes.caches.clone(), "NONE", 0).is_refused("input 3 of type");
}

/// A request whose sequences have `valid` valid new positions.
fn padded(given: &Given<'_>, drawn: &Drawn, valid: &[i32]) -> Trial {
    given.trial(drawn).absent().absent().absent().absent().input(&[valid.len()], valid)
}

#[test]
fn chunks_with_padding_give_what_each_sequence_gives_alone() {
    let filled = [9, 7, 5];
    for window in [None, Some(3)] {
        let given = Given { new: 4, past: 16, filled: &filled, window, rotary: true, ..PLAIN };
        let drawn = given.draw();
        let valid = [4, 2, 0];
        let found = padded(&given, &drawn, &valid).run().expect("the chunk is valid");
        for (sequence, (&filled, &valid)) in filled.iter().zip(&valid).enumerate() {
            let (new, own) = (valid as usize, KV_HEADS * 16 * SIZE);
            let rows = |tensor: &Tensor, count: usize| {
                let each = tensor.len() / 3;
                let data = elements(tensor)[sequence * each..][..each / 4 * count].to_vec();
                Tensor::from_vec([1, count, tensor.shape()[2]], data).expect("as many")
            };
            let cache = drawn.cache.each_ref().map(|cache| {
                let data = elements(cache)[sequence * own..][..own].to_vec();
                Tensor::from_vec([1, KV_HEADS, 16, SIZE], data).expect("as many")
            });
            let caches = [1, 2].map(|at| elements(&found[at])[sequence * own..][..own].to_vec());
            let kept = |all: &[f32], count: usize| -> Vec<f32> {
                all.chunks(16 * SIZE).flat_map(|head| head[..count * SIZE].to_vec()).collect()
            };
            if new == 0 {
                // An idle sequence keeps its cache.
                for (found, cache) in caches.iter().zip(&cache) {
                    assert_eq!(kept(found, filled), kept(elements(cache), filled));
                }
                continue;
            }
            let (heads, own_length) = (drawn.heads.each_ref().map(|part| rows(part, new)), [filled]);
            let alone = Given { new, past: 16, filled: &own_length, ..given };
            let alone = alone.trial(&Drawn { heads, cache, ..given.draw() }).run().expect("alone");
            let count = new * HEADS * SIZE;
            for (found, expected) in
                elements(&found[0])[sequence * 4 * HEADS * SIZE..][..count].iter().zip(elements(&alone[0]))
            {
                assert!((found - expected).abs() < 1e-5, "{window:?}, {sequence}: {found} for {expected}");
            }
            for (found, alone) in caches.iter().zip(&alone[1..]) {
                assert_eq!(kept(found, filled), kept(elements(alone), filled));
            }
        }
    }
}

#[test]
fn valid_positions_out_of_range_are_refused() {
    let given = Given { new: 4, past: 16, filled: &[9, 2], ..PLAIN };
    let refused = |valid: [i32; 2], what: &str| padded(&given, &given.draw(), &valid).is_refused(what);
    refused([5, 1], "query_seqlens): 5 of sequence 0, where 4 are the most");
    refused([4, 3], "query_seqlens): 3 of sequence 1, where 2 are the most");
    refused([-1, 1], "query_seqlens): -1 of sequence 0");
    padded(&given, &given.draw(), &[1]).is_refused("input 16 of shape [1] does not fit");
    padded(&given, &given.draw(), &[1, 1]).int("causal", 0).is_refused("without causality");
    let full = Given { past: 9, ..given };
    padded(&full, &full.draw(), &[1, 1]).is_refused("a chunk of 4 positions behind 8 of sequence 0");
}

#[test]
fn scores_are_an_output_before_and_after_the_softmax() {
    let given = Given { new: 3, past: 4, filled: &[7], window: Some(4), sink: true, bias: true, cap: 0.5, ..PLAIN };
    let drawn = given.draw();
    let made = [1, 2].map(|kind| given.trial(&drawn).int("qk_output", kind).outputs(4).run().expect("it is valid"));
    let [before, after] = made.each_ref().map(|outputs| outputs[3].clone());
    assert_eq!(before.shape(), [1, HEADS, 3, 7]);
    let keys = elements(&made[0][1]);
    for (line, (before, after)) in elements(&before).chunks(7).zip(elements(&after).chunks(7)).enumerate() {
        let (head, new) = (line / 3, line % 3);
        let query = &elements(&drawn.heads[0])[(new * HEADS + head) * SIZE..][..SIZE];
        let score = |at: usize| {
            let key = &keys[(head / 2 * 7 + at) * SIZE..][..SIZE];
            let product: f32 = query.iter().zip(key).map(|(query, key)| query * key).sum();
            let capped = 0.5 * (product / (SIZE as f32).sqrt() / 0.5).tanh();
            capped + elements(&drawn.bias)[line * 7 + at]
        };
        let seen = new + 1..new + 5;
        let sum: f32 = seen.clone().map(|at| score(at).exp()).sum::<f32>() + elements(&drawn.sink)[head].exp();
        for at in 0..7 {
            let expected = if seen.contains(&at) { [score(at), score(at).exp() / sum] } else { [0.0; 2] };
            let near = |found: f32, expected: f32| (found - expected).abs() < 1e-5;
            assert!(near(before[at], expected[0]) && near(after[at], expected[1]), "{line} {at}");
        }
    }
}

/// A request over a cache, or over a cache in pages with these pages of each sequence.
fn over(heads: &[Tensor; 3], cache: &[Tensor; 2], last: &[i32], pages: Option<&[i32]>) -> Trial {
    let domain = if pages.is_some() { "kiln" } else { "com.microsoft" };
    let mut trial = Trial::new("GroupQueryAttention").of_domain(domain).outputs(3);
    trial = trial.int("num_heads", HEADS as i64).int("kv_num_heads", KV_HEADS as i64);
    for tensor in heads.iter().chain(cache) {
        trial = trial.tensor(tensor.clone());
    }
    trial = trial.input(&[last.len()], last);
    let Some(pages) = pages else { return trial.input(&[], &[cache[0].shape()[2] as i32]) };
    for _ in 6..17 {
        trial = trial.absent();
    }
    trial.input(&[last.len(), pages.len() / last.len()], pages)
}

/// The rows of three pages for each sequence of a cache, sequence by sequence. Pages that the cache does not have are
/// its last one.
fn flat(pages: &[[usize; 3]], cache: &Tensor) -> Tensor {
    let mut rows = Vec::new();
    for (pages, head) in pages.iter().flat_map(|pages| (0..KV_HEADS).map(move |head| (pages, head))) {
        for page in pages {
            let first = (page.min(&(cache.shape()[0] - 1)) * KV_HEADS + head) * PAGE * SIZE;
            rows.extend_from_slice(&elements(cache)[first..][..PAGE * SIZE]);
        }
    }
    Tensor::from_vec([pages.len(), KV_HEADS, 3 * PAGE, SIZE], rows).expect("as many")
}

#[test]
fn sequences_that_begin_alike_share_pages() {
    let mut random = Random::new("pages");
    let pages = [[3, 1, 0], [3, 4, 5], [2, 9, 9]];
    let last = [PAGE as i32 + 7, 2 * PAGE as i32 + 1, 5];
    let heads = [HEADS, KV_HEADS, KV_HEADS].map(|heads| random.floats(&[3, 3, heads * SIZE]));
    let cache = [(); 2].map(|()| random.floats(&[6, KV_HEADS, PAGE, SIZE]));
    let table: Vec<i32> = pages.iter().flatten().map(|&page| page as i32).collect();
    let found = over(&heads, &cache, &last, Some(&table)).run().expect("the request is valid");
    let apart = [flat(&pages, &cache[0]), flat(&pages, &cache[1])];
    let expected = over(&heads, &apart, &last, None).run().expect("the request is valid");
    assert_eq!(elements(&found[0]), elements(&expected[0]));
    for which in 1..3 {
        assert_eq!(found[which].shape(), cache[0].shape());
        let after = flat(&pages, &found[which]);
        let [found, expected] = [&after, &expected[which]].map(|lines| elements(lines).chunks_exact(3 * PAGE * SIZE));
        for (line, (found, expected)) in found.zip(expected).enumerate() {
            let filled = (last[line / KV_HEADS] as usize + 1) * SIZE;
            assert_eq!(found[..filled], expected[..filled], "line {line}");
        }
    }
    let refused = over(&heads, &cache, &last, Some(&[3, 1, 0, 3, 4, 6, 2, 9, 9])).run().expect_err("no such page");
    assert!(refused.contains("page 2 of sequence 1 is number 6 of a cache of 6"), "{refused}");
    let refused = over(&heads, &cache, &[200, 3 * PAGE as i32, 5], Some(&table)).run().expect_err("beyond its pages");
    assert!(refused.contains("position 576 of 576"), "{refused}");
    let small = [(); 2].map(|()| random.floats(&[6, KV_HEADS, 100, SIZE]));
    let refused = over(&heads, &small, &[150, 2, 5], Some(&table)).run().expect_err("blocks are in two pages");
    assert!(refused.contains("attention"), "{refused}");
}

#[test]
fn a_request_names_pages_of_the_cache_and_one_several_times() {
    let mut random = Random::new("places");
    let heads = [HEADS, KV_HEADS, KV_HEADS].map(|heads| random.floats(&[4, 1, heads * SIZE]));
    let cache = [(); 2].map(|()| random.floats(&[3, KV_HEADS, 9, SIZE]));
    // Three positions of the last sequence after its four, and one of the first sequence after its two.
    let found = over(&heads, &cache, &[4, 2, 5, 6], Some(&[2, 0, 2, 2])).run().expect("the request is valid");
    for (place, rows, last) in [(2, &[0, 2, 3][..], 6), (0, &[1][..], 2)] {
        let own = |tensor: &Tensor| {
            let width = tensor.shape()[2];
            let rows: Vec<f32> =
                rows.iter().flat_map(|row| elements(tensor)[row * width..][..width].to_vec()).collect();
            Tensor::from_vec([1, rows.len() / width, width], rows).expect("as many")
        };
        let line = KV_HEADS * 9 * SIZE;
        let alone = |tensor: &Tensor| {
            let rows = elements(tensor)[place * line..][..line].to_vec();
            Tensor::from_vec([1, KV_HEADS, 9, SIZE], rows).expect("as many")
        };
        let alone = [alone(&cache[0]), alone(&cache[1])];
        let expected = over(&[own(&heads[0]), own(&heads[1]), own(&heads[2])], &alone, &[last], None);
        let expected = expected.run().expect("the request is valid");
        for (at, row) in rows.iter().enumerate() {
            let width = HEADS * SIZE;
            let pairs = elements(&found[0])[row * width..][..width].iter().zip(&elements(&expected[0])[at * width..]);
            for (found, expected) in pairs {
                assert!((found - expected).abs() < 1e-5, "row {row}: {found} for {expected}");
            }
        }
        let filled = (last as usize + 1) * SIZE;
        for which in 0..2 {
            for head in 0..KV_HEADS {
                let found = &elements(&found[1 + which])[place * line + head * 9 * SIZE..][..9 * SIZE];
                assert_eq!(found[..filled], elements(&expected[1 + which])[head * 9 * SIZE..][..filled], "{place}");
                let before = &elements(&cache[which])[place * line + head * 9 * SIZE..][..9 * SIZE];
                assert_eq!(found[filled..], before[filled..], "what lies behind is not touched");
            }
        }
    }
    for which in 0..2 {
        let line = KV_HEADS * 9 * SIZE;
        let middle = line..2 * line;
        assert_eq!(
            elements(&found[1 + which])[middle.clone()],
            elements(&cache[which])[middle],
            "a sequence not named"
        );
    }
    for (places, reason) in [
        (&[2, 0, 3, 2][..], "page 0 of sequence 2 is number 3 of a cache of 3"),
        (&[2, 0, -1, 2], "sequence 2 is number -1"),
    ] {
        let refused = over(&heads, &cache, &[4, 2, 5, 6], Some(places)).run().expect_err("there is no such page");
        assert!(refused.contains(reason), "{refused}");
    }
    let refused = over(&heads, &cache, &[4, 2, 5, 6], Some(&[])).run().expect_err("no pages");
    assert!(refused.contains("input 17"), "{refused}");
    let refused = over(&heads, &cache, &[4, 2, 5, 9], Some(&[2, 0, 1, 2])).run().expect_err("beyond the room");
    assert!(refused.contains("position 9 of 9"), "{refused}");
}
