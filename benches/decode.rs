//! A language model a token at a time: `cargo bench --bench decode -- MODEL.onnx [--threads N] [--context N]
//! [--prompt T,T,...] [--chunk N] [--steps N] [--sequences N] [--alias "OUTPUT -> INPUT"]`.
//!
//! Loads the model as a [`Decoder`], appends a prompt, by default in steps of up to 256 tokens as a
//! [`Generator`](kiln::Generator) does, and then one token after the other, the likeliest each time. Prints the time to
//! the first token, the median time of the others, the time of the step behind the prompt over that of the last step,
//! the plans and executors that were made after the first step, and the tokens. A second prompt with the same number of
//! other tokens gives the times of a warm process. The first process of a cache folder (`KILN_CACHE_DIR`) also measures
//! the machine, by which later ones choose. The model is one of `onnxruntime-genai`'s builder; without one
//! nothing is measured.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use half::f16;
use kiln::{Decoder, DecoderCache, RunOptions, SessionOptions, Tensor};
use kiln_tensor::DType;

struct Arguments {
    model: PathBuf,
    threads: usize,
    prompt: Vec<i64>,
    chunk: usize,
    steps: usize,
    sequences: usize,
    alias: Vec<String>,
}

fn arguments() -> Result<Option<Arguments>, Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut model, mut threads, mut prompt, mut steps, mut sequences) = (None, 2, numbered(16, 0), 32, 1);
    let (mut alias, mut chunk) = (Vec::new(), 256);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--threads" => threads = value()?.parse()?,
            "--context" => prompt = numbered(value()?.parse()?, 0),
            "--prompt" => prompt = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--chunk" => chunk = value()?.parse::<usize>()?.max(1),
            "--steps" => steps = value()?.parse()?,
            "--alias" => alias.push(value()?),
            "--sequences" => sequences = value()?.parse()?,
            _ => model = Some(PathBuf::from(argument)),
        }
    }
    Ok(model.map(|model| Arguments { model, threads, prompt, chunk, steps, sequences, alias }))
}

/// `count` tokens that look random.
fn numbered(count: usize, seed: usize) -> Vec<i64> {
    (0..count).map(|at| ((at + seed) * 7919 % 31_000 + 5) as i64).collect()
}

/// The likeliest token of each sequence.
fn likeliest(logits: &Tensor) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
    let words = logits.shape()[1];
    let best =
        |row: &[f32]| row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))).map(|it| it.0);
    let numbers = match logits.dtype() {
        DType::F16 => logits.as_slice::<f16>()?.iter().map(|number| number.to_f32()).collect(),
        _ => logits.as_slice::<f32>()?.to_vec(),
    };
    Ok(numbers.chunks_exact(words).filter_map(best).map(|token| token as i64).collect())
}

/// Appends the same tokens to every sequence.
fn append(decoder: &Decoder, cache: &mut DecoderCache, tokens: &[i64]) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
    let tokens = vec![tokens; cache.lengths().len()];
    likeliest(&decoder.step(cache, &tokens, &RunOptions::default())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(Arguments { model, threads, prompt, chunk, steps, sequences, alias }) = arguments()? else {
        println!("no model is named: nothing is measured");
        return Ok(());
    };
    let options = SessionOptions { threads, alias, ..SessionOptions::from_env()? };
    let start = Instant::now();
    let decoder = Decoder::load(&model, &options)?;
    println!("load {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    let room = prompt.len() + steps + 1;
    for (name, prompt) in [("cold", numbered(prompt.len(), 1)), ("warm", prompt)] {
        let mut cache = decoder.cache(sequences, room, room)?;
        let start = Instant::now();
        let mut next = Vec::new();
        for part in prompt.chunks(chunk) {
            next = append(&decoder, &mut cache, part)?;
        }
        let first = start.elapsed().as_secs_f64() * 1e3;
        let (mut times, mut tokens, mut made) =
            (Vec::new(), next.first().copied().into_iter().collect::<Vec<i64>>(), None);
        for _ in 0..steps {
            let start = Instant::now();
            let each: Vec<&[i64]> = next.iter().map(std::slice::from_ref).collect();
            next = likeliest(&decoder.step(&mut cache, &each, &RunOptions::default())?)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            tokens.push(next[0]);
            let stats = (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses);
            made.get_or_insert(stats);
        }
        let stats = (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses);
        let (plans, executors) = made.map_or((0, 0), |made| (stats.0 - made.0, stats.1 - made.1));
        let (begin, end) = (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0));
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or(0.0);
        println!(
            "{name}, context {}, {sequences} sequences, {threads} threads: first token {first:.1} ms, then {median:.2} ms \
             ({:.1} a second), first step {begin:.2}, last {end:.2}; made after the first step: {plans} plans, \
             {executors} executors; cache {:.1} MB",
            prompt.len(),
            sequences as f64 * 1e3 / median,
            cache.bytes() as f64 / 1e6,
        );
        println!("tokens {tokens:?}");
    }
    // So that the next process has the figures of the machine.
    decoder.session().settle(Duration::from_secs(2));
    Ok(())
}
