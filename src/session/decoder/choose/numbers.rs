//! Functions of logits that are the same on every machine: sums and products alone.

/// The token with the largest logit, the first of equals; `None` where none is possible.
pub(in crate::session) fn likeliest(logits: &[f32]) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (token, &logit) in logits.iter().enumerate() {
        if logit > best.map_or(f32::NEG_INFINITY, |(_, largest)| largest) {
            best = Some((token, logit));
        }
    }
    best.map(|(token, _)| token)
}

/// The exponential function, for numbers up to 0. Its relative error is below 1e-15.
pub(in crate::session) fn exp(x: f64) -> f64 {
    // Too small to matter in a sum of weights.
    if x < -700.0 {
        return 0.0;
    }
    let powers = (x * std::f64::consts::LOG2_E).round();
    // The logarithm of 2 in two parts. The first part has few bits, so its product with a whole number is exact.
    let rest = (x - powers * 0.693_147_180_369_123_8) - powers * 1.908_214_929_270_587_7e-10;
    // At most 0.347 in size: the term after the last one is below 1e-17.
    let series = (1..=14).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((1023 + powers as i64) as u64) << 52)
}

/// The natural logarithm, for numbers from 1 on. Its absolute error is below 1e-15 of the larger of 1 and the result.
pub(in crate::session) fn ln(x: f64) -> f64 {
    // From the logarithm of the power of two: Halley's method; a step leaves the third power of the error.
    let mut y = (x.to_bits() >> 52) as f64 - 1022.5;
    y *= std::f64::consts::LN_2;
    for _ in 0..4 {
        let power = x * exp(-y);
        y += 2.0 * (power - 1.0) / (power + 1.0);
    }
    y
}

/// The sum of exp(logit - largest), with a relative error below 1e-6, in loops that compilers make vectors of.
pub(in crate::session) fn sum_of_exps(logits: &[f32], largest: f32) -> f64 {
    /// Adding it rounds a number to a whole one, which the lowest bits of the sum then hold.
    const WHOLE: f32 = 1.5 * (1 << 23) as f32;
    let term = |logit: f32| {
        // Smaller terms do not matter in a sum of at least 1.
        let power = ((logit - largest) * std::f32::consts::LOG2_E).max(-60.0);
        let whole = power + WHOLE;
        let rest = (power - (whole - WHOLE)) * std::f32::consts::LN_2;
        let series = (1..=7).rev().fold(1.0f32, |sum, term| 1.0 + sum * rest * (1.0 / term as f32));
        f32::from_bits(series.to_bits().wrapping_add(whole.to_bits() << 23))
    };
    let part = |part: &[f32]| {
        let mut sums = [0f32; 16];
        for chunk in part.chunks(16) {
            chunk.iter().zip(&mut sums).for_each(|(&logit, sum)| *sum += term(logit));
        }
        sums.iter().copied().map(f64::from).sum::<f64>()
    };
    logits.chunks(1024).map(part).sum()
}
