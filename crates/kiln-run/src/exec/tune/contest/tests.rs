//! Contests on a scripted clock: every rule without any time passing.

use super::*;

const RULES: Rules =
    Rules { warm_ups: 1, least: 3, enough: 0, candidate: 1_000_000, key: (1_000_000, 50), final_samples: 2 };

/// A clock that reads a script, and notes which candidate was run.
struct Script<F> {
    time: F,
    runs: Vec<usize>,
}

impl<F: FnMut(usize, usize) -> Sample> Runner for Script<F> {
    fn sample(&mut self, candidate: usize) -> Sample {
        let run = self.runs.iter().filter(|&&one| one == candidate).count();
        self.runs.push(candidate);
        (self.time)(candidate, run)
    }
}

fn contest(
    margins: &[f64],
    rules: &Rules,
    time: impl FnMut(usize, usize) -> Sample,
) -> (Result<Verdict, NoVerdict>, Vec<usize>) {
    let mut script = Script { time, runs: Vec::new() };
    (hold(margins, rules, &mut script), script.runs)
}

fn runs_of(runs: &[usize], candidate: usize) -> usize {
    runs.iter().filter(|&&one| one == candidate).count()
}

#[test]
fn the_fastest_wins_and_what_it_was_measured_against_is_told() {
    let times = [1000, 900, 500, 1200];
    let (verdict, runs) = contest(&[0.03; 4], &RULES, |one, _| Sample::Nanos(times[one]));
    let expected = Verdict { winner: 2, nanos: 500, samples: 3 + 4, incumbent: 1000, against: 900 };
    assert_eq!(verdict, Ok(expected));
    assert_eq!(runs_of(&runs, 1), 4, "a warm-up and three samples, and none in the last rounds");
}

#[test]
fn warm_ups_do_not_count_and_the_least_sample_does() {
    let samples = [1, 700, 600, 800];
    let (verdict, _) = contest(&[0.0], &RULES, |_, run| Sample::Nanos(samples[run]));
    assert_eq!(verdict, Ok(Verdict { winner: 0, nanos: 600, samples: 3, incumbent: 600, against: 0 }));
}

#[test]
fn the_incumbent_stays_unless_it_is_beaten_by_the_margin() {
    for (challenger, winner) in [(980, 0), (971, 0), (969, 1)] {
        let (verdict, _) = contest(&[0.0, 0.03], &RULES, |one, _| Sample::Nanos([1000, challenger][one]));
        assert_eq!(verdict.unwrap().winner, winner, "{challenger}");
    }
    let (verdict, _) = contest(&[0.0, 0.08], &RULES, |one, _| Sample::Nanos([1000, 950][one]));
    assert_eq!(verdict.unwrap().winner, 0, "a candidate may have to save more");
}

#[test]
fn a_challenger_must_win_twice_in_a_row() {
    // Its warm-up, its three samples and its first round are fast, its second round is not.
    let slow_from = |from: usize| {
        move |one: usize, run: usize| match one {
            1 if run < from => Sample::Nanos(500),
            _ => Sample::Nanos(1000),
        }
    };
    let (verdict, _) = contest(&[0.0, 0.03], &RULES, slow_from(4 + 2));
    let verdict = verdict.unwrap();
    assert_eq!((verdict.winner, verdict.incumbent), (0, 1000));
    let (verdict, _) = contest(&[0.0, 0.03], &RULES, slow_from(4 + 4));
    assert_eq!(verdict.unwrap().winner, 1);
}

#[test]
fn a_candidate_that_is_hopeless_is_given_up_after_two_samples() {
    let times = [1000, 1301, 1299];
    let (_, runs) = contest(&[0.03; 3], &RULES, |one, _| Sample::Nanos(times[one]));
    assert_eq!((runs_of(&runs, 1), runs_of(&runs, 2)), (1 + 2, 1 + 3));
}

#[test]
fn a_sample_during_which_something_else_ran_is_taken_again_after_a_warm_up() {
    // The incumbent's second run is disturbed: the third warms up and does not count, though it is the fastest.
    let script = [Sample::Nanos(50), Sample::Void, Sample::Nanos(10), Sample::Nanos(90)];
    let (verdict, runs) = contest(&[0.0], &RULES, |_, run| script.get(run).copied().unwrap_or(Sample::Nanos(80)));
    let verdict = verdict.unwrap();
    assert_eq!((verdict.nanos, verdict.samples, runs.len()), (80, 3, 6));
    let (verdict, _) = contest(&[0.0], &RULES, |_, _| Sample::Void);
    assert_eq!(verdict, Err(NoVerdict::Stopped), "a machine that is never idle is left alone in the end");
}

#[test]
fn candidates_that_fail_drop_out_and_a_failing_incumbent_ends_it() {
    let fails = |which: usize| {
        move |one: usize, _| if one == which { Sample::Failed } else { Sample::Nanos(1000 - one as u64 * 200) }
    };
    let (verdict, _) = contest(&[0.0; 3], &RULES, fails(2));
    assert_eq!(verdict.unwrap().winner, 1);
    let (verdict, _) = contest(&[0.0; 3], &RULES, fails(0));
    assert_eq!(verdict, Err(NoVerdict::Failed));
    let (verdict, runs) =
        contest(&[0.0; 3], &RULES, |one, _| if one == 1 { Sample::Stopped } else { Sample::Nanos(5) });
    assert_eq!((verdict, runs.last()), (Err(NoVerdict::Stopped), Some(&1)));
}

#[test]
fn time_is_bounded_by_candidate_and_by_key() {
    // Ten million nanoseconds a run: two samples each, and none for a challenger after fifty runs of
    // the incumbent.
    let (_, runs) = contest(&[0.0; 40], &RULES, |_, _| Sample::Nanos(10_000_000));
    assert_eq!(runs_of(&runs, 0), 3);
    assert!(runs.len() <= 50 + 3, "{} runs", runs.len());
    // Fast candidates are sampled until their time is enough.
    let rules = Rules { enough: 5_000, ..RULES };
    let (_, runs) = contest(&[0.0], &rules, |_, _| Sample::Nanos(100));
    assert_eq!(runs.len(), 1 + 50);
}
