//! Each rule against its definition, computed in another way, and the results of seeds on every machine.

use super::*;

/// How often each token is drawn in `drawings` drawings.
fn drawn(sampling: Sampling, logits: &[f32], text: &[i64], drawings: usize) -> Vec<usize> {
    let mut chooser = Chooser::new(sampling).unwrap();
    let mut counts = vec![0; logits.len()];
    for _ in 0..drawings {
        counts[chooser.choose(logits, text).unwrap() as usize] += 1;
    }
    counts
}

fn kept(sampling: Sampling, logits: &[f32]) -> Vec<usize> {
    let counts = drawn(Sampling { seed: 7, ..sampling }, logits, &[], 4000);
    counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(token, _)| token).collect()
}

fn greedy(logits: &[f32], penalty: f32, text: &[i64]) -> i64 {
    let sampling = Sampling { repetition_penalty: penalty, ..Sampling::default() };
    Chooser::new(sampling).unwrap().choose(logits, text).unwrap()
}

const WARM: Sampling =
    Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, seed: 0 };

#[test]
fn the_likeliest_is_the_first_of_the_largest() {
    assert_eq!(greedy(&[0.5, 2.0, -1.0, 2.0], 1.0, &[]), 1);
    assert_eq!(greedy(&[f32::NEG_INFINITY, -3e38], 1.0, &[]), 1);
    assert_eq!(greedy(&[-0.0, 0.0], 1.0, &[]), 0, "both zeros are equal");
}

#[test]
fn the_penalty_takes_from_each_token_of_the_text_once() {
    // 3 / 2 is less than 2; -1 * 2 is less than -1.5; a token that occurs thrice counts like one that occurs once.
    assert_eq!(greedy(&[3.0, 2.0], 2.0, &[0]), 1);
    assert_eq!(greedy(&[3.0, 1.4], 2.0, &[0, 0, 0]), 0);
    assert_eq!(greedy(&[-1.0, -1.5], 2.0, &[0]), 1);
    assert_eq!(greedy(&[-1.0, -2.5], 2.0, &[0, 0]), 0);
    assert_eq!(greedy(&[3.0, 2.0], 2.0, &[-1, 2, i64::MAX]), 0, "tokens that have no logit");
    let mut chooser = Chooser::new(Sampling { repetition_penalty: 2.0, ..Sampling::default() }).unwrap();
    assert_eq!(chooser.choose(&[3.0, 2.0], &[0]).unwrap(), 1);
    assert_eq!(chooser.choose(&[3.0, 2.0], &[]).unwrap(), 0, "a text does not count for the next one");
    assert_eq!(greedy(&[f32::MAX, 1.0], 1e-30, &[0]), 0, "a number that would be infinite");
}

#[test]
fn top_k_keeps_the_largest_and_their_equals() {
    let logits = [1.0, 3.0, 2.0, 0.5, 2.0];
    assert_eq!(kept(Sampling { top_k: 1, ..WARM }, &logits), [1]);
    assert_eq!(kept(Sampling { top_k: 2, ..WARM }, &logits), [1, 2, 4]);
    assert_eq!(kept(Sampling { top_k: 3, ..WARM }, &logits), [1, 2, 4]);
    assert_eq!(kept(Sampling { top_k: 4, ..WARM }, &logits), [0, 1, 2, 4]);
    for all in [0, 5, 99] {
        assert_eq!(kept(Sampling { top_k: all, ..WARM }, &logits), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn top_p_keeps_the_smallest_set_that_has_the_mass() {
    // Probabilities 0.1, 0.4, 0.3, 0.2.
    let logits = [0.1f32, 0.4, 0.3, 0.2].map(f32::ln);
    for (top_p, tokens) in
        [(0.01, vec![1]), (0.39, vec![1]), (0.5, vec![1, 2]), (0.69, vec![1, 2]), (0.75, vec![1, 2, 3])]
    {
        assert_eq!(kept(Sampling { top_p, ..WARM }, &logits), tokens, "{top_p}");
    }
    assert_eq!(kept(Sampling { top_p: 0.95, ..WARM }, &logits), [0, 1, 2, 3]);
    // The mass is that of the largest two: 0.4 of 0.7 is more than half.
    assert_eq!(kept(Sampling { top_p: 0.5, top_k: 2, ..WARM }, &logits), [1]);
    // The temperature comes first: at 0.25 probabilities are taken to the power of four, 0.0256 of 0.0354.
    assert_eq!(kept(Sampling { top_p: 0.7, temperature: 0.25, ..WARM }, &logits), [1]);
    assert_eq!(kept(Sampling { top_p: 0.75, temperature: 0.25, ..WARM }, &logits), [1, 2]);
}

#[test]
fn top_p_of_many_tokens_is_that_of_all_of_them_sorted() {
    let mut random = Random(5);
    for (count, spread) in [(255, 1.0), (256, 1.0), (257, 0.01), (5000, 0.01), (5000, 20.0)] {
        let candidates: Vec<Candidate> = (0..count)
            .map(|token| {
                let score = ((random.unit() * 64.0).floor() / 64.0 * spread) as f32;
                Candidate { token, score, weight: exp(f64::from(score) - spread) }
            })
            .collect();
        for part in [0.001, 0.3, 0.9, 0.999] {
            let mut found = candidates.clone();
            keep_mass(&mut found, part);
            let mut sorted = candidates.clone();
            sorted.sort_by(Candidate::likelier);
            let all: f64 = sorted.iter().map(|candidate| candidate.weight).sum();
            let before = |at: usize| sorted[..at].iter().map(|candidate| candidate.weight).sum::<f64>();
            let expected = (0..count).take_while(|&at| before(at) < part * all).count();
            // Sums in another order differ in their last bits.
            assert!(found.len().abs_diff(expected) <= 1, "{count}, {spread}, {part}: {} {expected}", found.len());
            for (found, expected) in found.iter().zip(&sorted) {
                assert_eq!(found.token, expected.token);
            }
        }
    }
}

#[test]
fn min_p_is_a_part_of_the_likeliest_one() {
    let logits = [0.1f32, 0.4, 0.3, 0.2].map(f32::ln);
    assert_eq!(kept(Sampling { min_p: 1.0, ..WARM }, &logits), [1]);
    assert_eq!(kept(Sampling { min_p: 0.7, ..WARM }, &logits), [1, 2]);
    assert_eq!(kept(Sampling { min_p: 0.45, ..WARM }, &logits), [1, 2, 3]);
    assert_eq!(kept(Sampling { min_p: 0.2, ..WARM }, &logits), [0, 1, 2, 3]);
    // A temperature of 2 takes the roots: 0.707 of the likeliest instead of 0.5.
    assert_eq!(kept(Sampling { min_p: 0.7, temperature: 2.0, ..WARM }, &logits), [1, 2, 3]);
}

#[test]
fn drawings_have_the_probabilities_of_the_temperature() {
    let logits = [0.1f32, 0.4, 0.3, f32::NEG_INFINITY, 0.2].map(|p| if p > 0.0 { p.ln() } else { p });
    let draws = 200_000;
    for temperature in [0.5, 1.0, 3.0] {
        let counts = drawn(Sampling { temperature, seed: 3, ..WARM }, &logits, &[], draws);
        let powers = [0.1f64, 0.4, 0.3, 0.0, 0.2].map(|p| p.powf(1.0 / f64::from(temperature)));
        let all: f64 = powers.iter().sum();
        for (count, power) in counts.iter().zip(powers) {
            // Five standard deviations of the count.
            let p = power / all;
            let bound = 5.0 * (p * (1.0 - p) / draws as f64).sqrt();
            assert!((*count as f64 / draws as f64 - p).abs() <= bound, "{temperature}: {count}, {p}");
        }
    }
}

#[test]
fn the_penalty_comes_before_all_else() {
    // Without the penalty token 0 is the only largest one; with it, it is the least of three.
    let logits = [3.0, 2.0, 2.0];
    let counts = drawn(Sampling { top_k: 1, repetition_penalty: 3.0, seed: 1, ..WARM }, &logits, &[0], 200);
    assert_eq!(counts[0], 0);
    assert!(counts[1] > 0 && counts[2] > 0, "{counts:?}");
}

#[test]
fn seeds_give_the_same_tokens_everywhere() {
    let mut random = Random(1_234_567);
    let numbers = [(); 3].map(|()| random.next());
    assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    let logits: Vec<f32> = (0..50).map(|token| (token * 37 % 50) as f32 / 10.0).collect();
    let sampling = Sampling { temperature: 0.8, top_k: 20, top_p: 0.9, min_p: 0.02, seed: 42, ..WARM };
    let tokens = |seed: u64| -> Vec<i64> {
        let mut chooser = Chooser::new(Sampling { seed, ..sampling }).unwrap();
        (0..12).map(|_| chooser.choose(&logits, &[]).unwrap()).collect()
    };
    assert_eq!(tokens(42), SEED_42);
    assert_ne!(tokens(43), SEED_42);
}

/// The tokens that a Python program draws by the same definition.
const SEED_42: [i64; 12] = [31, 8, 12, 16, 4, 39, 8, 35, 16, 28, 8, 27];

#[test]
fn powers_are_exact_to_the_last_digits() {
    for step in 0..7000 {
        let x = -f64::from(step) / 10.0;
        let (found, expected) = (exp(x), x.exp());
        assert!((found - expected).abs() <= 1e-15 * expected, "{x}: {found} {expected}");
    }
    assert_eq!(exp(0.0).to_bits(), 1f64.to_bits());
    // Bits that do not depend on a library.
    assert_eq!(exp(-1.0).to_bits(), 0x3fd7_8b56_362c_ef38);
    assert_eq!(exp(f64::MIN), 0.0);
}

#[test]
fn logits_and_settings_that_cannot_be_are_refused() {
    let mut chooser = Chooser::new(Sampling { seed: 9, ..WARM }).unwrap();
    for (logits, token) in [(&[0.0, f32::NAN][..], 1), (&[f32::INFINITY, 1.0][..], 0)] {
        let refused = chooser.choose(logits, &[]);
        assert!(matches!(refused, Err(ChoiceError::Logit { token: at, .. }) if at == token), "{refused:?}");
    }
    assert_eq!(chooser.choose(&[], &[]), Err(ChoiceError::Nothing(0)));
    assert_eq!(chooser.choose(&[f32::NEG_INFINITY; 3], &[]), Err(ChoiceError::Nothing(3)));
    let mut other = Chooser::new(Sampling { seed: 9, ..WARM }).unwrap();
    let logits = [0.0; 64];
    assert_eq!(chooser.choose(&logits, &[]), other.choose(&logits, &[]), "no number was used up");
    for (sampling, field) in [
        (Sampling { temperature: -0.5, ..WARM }, "temperature"),
        (Sampling { temperature: f32::INFINITY, ..WARM }, "temperature"),
        (Sampling { top_p: 0.0, ..WARM }, "top_p"),
        (Sampling { top_p: f32::NAN, ..WARM }, "top_p"),
        (Sampling { min_p: 1.5, ..WARM }, "min_p"),
        (Sampling { repetition_penalty: 0.0, ..WARM }, "repetition_penalty"),
    ] {
        let refused = Chooser::new(sampling).map(|_| ());
        assert!(matches!(refused, Err(ChoiceError::Setting { name, .. }) if name == field), "{field}: {refused:?}");
    }
}

#[test]
fn a_tiny_temperature_is_the_likeliest() {
    let logits = [0.5, 2.0, 1.999_999, -4.0];
    assert_eq!(kept(Sampling { temperature: 1e-30, ..WARM }, &logits), [1]);
    assert_eq!(kept(Sampling { temperature: f32::MIN_POSITIVE, ..WARM }, &[1e30, -1e30]), [0]);
}

#[test]
fn logarithms_of_probabilities_are_those_of_the_definition() {
    let mut chooser = Chooser::new(Sampling::default()).unwrap();
    for count in [1, 2, 16, 17, 1024, 5000] {
        let spread = |at: usize| (at * 7919 % 1009) as f32 / 1009.0 * 90.0 - 70.0;
        let mut logits: Vec<f32> = (0..count).map(spread).collect();
        logits[count / 2] = f32::NEG_INFINITY;
        logits[0] = 3.5;
        let mut found = Vec::new();
        chooser.log_probabilities(&logits, &[], &Rules::default(), &mut found).unwrap();
        let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - 3.5).exp()).sum();
        for (&found, &logit) in found.iter().zip(&logits) {
            let expected = f64::from(logit) - 3.5 - sum.ln();
            assert!(f64::from(found) == expected || (f64::from(found) - expected).abs() < 2e-5, "{found}, {expected}");
        }
    }
}

#[test]
fn penalties_and_lists_come_behind_the_logarithms() {
    let penalty = Sampling { repetition_penalty: 2.0, ..Sampling::default() };
    let mut chooser = Chooser::new(penalty).unwrap();
    let mut found = Vec::new();
    let half = 0.5f32.ln();
    let unknown = Rules { never: &[&[-4, 3]], timed: None };
    chooser.log_probabilities(&[0.0, 0.0, f32::NEG_INFINITY], &[1, 1, 9], &unknown, &mut found).unwrap();
    assert_eq!(found, [half, 2.0 * half, f32::NEG_INFINITY]);
    let first = Rules { never: &[&[0]], timed: None };
    chooser.log_probabilities(&[1e30, 1e30], &[], &first, &mut found).unwrap();
    assert_eq!(found, [f32::NEG_INFINITY, half]);
    let mut refused =
        |logits: &[f32]| chooser.log_probabilities(logits, &[], &Rules::default(), &mut found).unwrap_err();
    assert_eq!(refused(&[f32::NEG_INFINITY]), ChoiceError::Nothing(1));
    assert_eq!(refused(&[]), ChoiceError::Nothing(0));
    assert!(matches!(refused(&[0.0, f32::NAN]), ChoiceError::Logit { token: 1, .. }));
}

#[test]
fn the_logarithm_is_the_librarys_to_the_last_bits() {
    for x in [1.0, 1.0 + 1e-12, 1.5, 2.0, std::f64::consts::E, 10.0, 4096.0, 1e9, 3e17] {
        assert!((ln(x) - x.ln()).abs() <= 1e-15 * x.ln().max(1.0), "{x}: {} for {}", ln(x), x.ln());
    }
}
