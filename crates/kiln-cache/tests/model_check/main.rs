//! The cache under a model checker: its own files, compiled with the threads and locks of `shuttle`, run under many
//! orders of events.
//!
//! `cache` lists the files; the only difference is the replacement of `src/shim.rs`. Half of the orders are random. The
//! others change at three points (PCT), which finds bugs that need few switches at the wrong moments. A deadlock fails
//! too. A failure prints its schedule, which `shuttle::replay` repeats.
//!
//! `SCHEDULES=1000000 cargo test --release -p kiln-cache --test model_check` runs that many orders of each scenario
//! instead of the usual number.

mod cache;
mod scenarios;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Orders of each kind and scenario in a usual run.
const USUAL: usize = 10_000;

#[allow(clippy::disallowed_methods, reason = "how long a test looks is no knob of the program")]
fn schedules() -> usize {
    std::env::var("SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL)
}

fn check(scenario: fn()) {
    let mut config = Config::new();
    // Debug formatting of a failed assertion alone needs more than shuttle's 32 KiB.
    config.stack_size = 256 << 10;
    Runner::new(RandomScheduler::new(schedules()), config.clone()).run(scenario);
    Runner::new(PctScheduler::new(3, schedules()), config).run(scenario);
}

#[test]
fn eight_threads_build_each_key_once() {
    check(scenarios::each_key_is_built_once);
}

#[test]
fn eight_threads_around_a_bound_of_two() {
    check(scenarios::the_bound_holds_and_values_go);
}

#[test]
fn eight_threads_whose_builds_fail_and_need_each_other() {
    check(scenarios::failures_and_circles_end);
}

#[test]
fn two_caches_of_one_account() {
    check(scenarios::what_one_cache_keeps_of_another_is_charged);
}

#[test]
fn hits_while_values_are_replaced_and_cleared() {
    check(scenarios::what_is_remembered_is_never_stale);
}

#[test]
fn values_held_on_lanes_while_entries_go() {
    check(scenarios::what_is_held_stays_and_nothing_else);
}
