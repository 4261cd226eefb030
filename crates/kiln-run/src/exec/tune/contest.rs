//! The contest: which of a few candidates is fastest, decided from samples that its caller takes.
//!
//! Times are noisy upwards only, so the least of a few counts. The incumbent, candidate 0, is measured first; a
//! challenger that is 1.3 times slower than the best so far is given up at once; and the best challenger replaces the
//! incumbent only if it is faster by its margin in two rounds in which both take turns, so that a machine that changes
//! its speed changes it for both. A contest knows neither what runs nor a clock: tests script both.

/// What a run of a candidate gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// It took that many nanoseconds.
    Nanos(u64),
    /// Something else ran meanwhile: the time means nothing.
    Void,
    /// The candidate cannot be run.
    Failed,
    /// The tuner is stopping.
    Stopped,
}

/// Runs candidates.
pub(super) trait Runner {
    /// Runs that candidate once.
    fn sample(&mut self, candidate: usize) -> Sample;
}

/// How long a contest may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    /// Runs of a candidate that are not counted.
    pub(super) warm_ups: u32,
    /// Samples of a candidate at least, if its time allows.
    pub(super) least: u32,
    /// Nanoseconds of samples that are enough, once there are `least` samples.
    pub(super) enough: u64,
    /// Most nanoseconds of a candidate's samples; two samples are always taken.
    pub(super) candidate: u64,
    /// The limit of the whole contest, in nanoseconds and in runs of the incumbent: the larger one counts. A run counts
    /// as long as its candidate's fastest. Challengers that do not get a turn in time are left out.
    pub(super) key: (u64, u64),
    /// Samples that each side gets in each of the two last rounds.
    pub(super) final_samples: u32,
}

/// A candidate that takes this many times as long as the best is given up.
const GIVE_UP_RATIO: f64 = 1.3;

/// Voided samples in a row after which a contest is put off.
const MOST_VOIDED: u32 = 1000;

/// How a contest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The candidate to use.
    pub(super) winner: usize,
    /// Its least time.
    pub(super) nanos: u64,
    /// How often it was timed.
    pub(super) samples: u32,
    /// The least time of the incumbent.
    pub(super) incumbent: u64,
    /// The least time of the best candidate except the winner; 0 if there is no other.
    pub(super) against: u64,
}

/// Why a contest gave no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoVerdict {
    /// The tuner is stopping, or requests have made every sample void.
    Stopped,
    /// The incumbent cannot be run.
    Failed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Score {
    least: u64,
    samples: u32,
    failed: bool,
}

impl Score {
    fn add(&mut self, nanos: u64) {
        self.least = if self.samples == 0 { nanos } else { self.least.min(nanos) };
        self.samples += 1;
    }

    fn counts(&self) -> bool {
        self.samples > 0 && !self.failed
    }
}

/// Holds a contest of as many candidates as there are margins; each margin is the share of the incumbent's time that
/// its candidate must save.
pub(super) fn hold(margins: &[f64], rules: &Rules, runner: &mut dyn Runner) -> Result<Verdict, NoVerdict> {
    let mut scores = vec![Score::default(); margins.len()];
    let mut contest = Contest { rules, runner, spent: 0 };
    contest.measure(0, &mut scores[0], u64::MAX)?;
    if !scores[0].counts() {
        return Err(NoVerdict::Failed);
    }
    let most = rules.key.0.max(rules.key.1.saturating_mul(scores[0].least));
    for candidate in 1..margins.len() {
        // On a busy machine a run takes much longer than its own time; counted so, one slow run keeps no candidate out.
        let own = |score: &Score| score.least.saturating_mul(u64::from(score.samples + rules.warm_ups));
        if scores.iter().map(own).sum::<u64>() >= most {
            break;
        }
        let best = scores.iter().filter(|score| score.counts()).map(|score| score.least).min().unwrap_or(u64::MAX);
        contest.measure(candidate, &mut scores[candidate], best)?;
    }
    let mut winner = 0;
    let challenger = (1..margins.len()).filter(|&one| scores[one].counts()).min_by_key(|&one| scores[one].least);
    if let Some(challenger) = challenger.filter(|&one| saves(scores[one].least, scores[0].least, margins[one]))
        && contest.challenge(challenger, &mut scores, margins[challenger])?
    {
        winner = challenger;
    }
    let others = (0..scores.len()).filter(|&one| one != winner && scores[one].counts());
    Ok(Verdict {
        winner,
        nanos: scores[winner].least,
        samples: scores[winner].samples,
        incumbent: scores[0].least,
        against: others.map(|one| scores[one].least).min().unwrap_or(0),
    })
}

fn saves(challenger: u64, incumbent: u64, margin: f64) -> bool {
    (challenger as f64) < incumbent as f64 * (1.0 - margin)
}

struct Contest<'a> {
    rules: &'a Rules,
    runner: &'a mut dyn Runner,
    /// Nanoseconds of all runs.
    spent: u64,
}

impl Contest<'_> {
    /// The time of one run, taken again where something else ran meanwhile; `None` where the candidate cannot be run.
    fn time(&mut self, candidate: usize) -> Result<Option<u64>, NoVerdict> {
        let mut warm = true;
        for _ in 0..MOST_VOIDED {
            match self.runner.sample(candidate) {
                // Whatever ran meanwhile has also taken the caches.
                Sample::Void => warm = false,
                Sample::Nanos(nanos) => {
                    self.spent = self.spent.saturating_add(nanos);
                    if warm {
                        return Ok(Some(nanos));
                    }
                    warm = true;
                }
                Sample::Failed => return Ok(None),
                Sample::Stopped => return Err(NoVerdict::Stopped),
            }
        }
        Err(NoVerdict::Stopped)
    }

    /// Takes the samples of a candidate while it has a chance against the best time so far.
    fn measure(&mut self, candidate: usize, score: &mut Score, best: u64) -> Result<(), NoVerdict> {
        let hopeless = |score: &Score| best < u64::MAX && score.least as f64 > best as f64 * GIVE_UP_RATIO;
        for _ in 0..self.rules.warm_ups {
            if self.time(candidate)?.is_none() {
                score.failed = true;
                return Ok(());
            }
        }
        let start = self.spent;
        loop {
            let Some(nanos) = self.time(candidate)? else {
                score.failed = true;
                return Ok(());
            };
            score.add(nanos);
            let time = self.spent - start;
            let enough = score.samples >= self.rules.least && time >= self.rules.enough;
            // A single sample may be an accident.
            if score.samples >= 2 && (enough || time >= self.rules.candidate || hopeless(score)) {
                return Ok(());
            }
        }
    }

    /// Two rounds between the incumbent and a challenger; returns whether the challenger has won both.
    fn challenge(&mut self, challenger: usize, scores: &mut [Score], margin: f64) -> Result<bool, NoVerdict> {
        for _ in 0..2 {
            let mut least = [u64::MAX; 2];
            for _ in 0..self.rules.final_samples.max(1) {
                for (side, candidate) in [0, challenger].into_iter().enumerate() {
                    // The other side has just used the caches, as other nodes do in a network, unlike in a side's
                    // earlier samples.
                    let Some(nanos) = self.time(candidate)? else { return Ok(false) };
                    scores[candidate].add(nanos);
                    least[side] = least[side].min(nanos);
                }
            }
            if !saves(least[1], least[0], margin) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
