//! Serving one request, with any destinations of its outputs and any observer: its executable, its state, its early
//! end, and the notes after it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use kiln_fork::Mutex;
use kiln_kernels::Parallel;
use kiln_kernels::crash::within;
use kiln_kernels::memory::ceiling::check;
use kiln_kernels::memory::{self, Refused};
use kiln_model::{Stop, Value};
use kiln_run::exec::tune::{Gauge, Tuner};
use kiln_run::{LoopBudget, Observer, Resources, RunError, RunState, StepEvent};
use kiln_tensor::destination::Destination;
use kiln_tensor::threads::Narrow;

use super::idle::Idle;
use super::options::{RunOptions, Width};
use super::{Session, SessionError, ceiling};

/// The conditions of one request.
pub(super) struct Terms {
    /// What may end it early.
    pub(super) stop: Option<Stop>,
    pub(super) width: Width,
}

/// The session's own observer: profile, trace and verbose lines.
pub(super) struct Watch<'a> {
    pub(super) session: &'a Session,
}

impl Observer for Watch<'_> {
    fn step(&self, event: &StepEvent<'_>) {
        if let Some(profile) = &self.session.profile {
            profile.lock().unwrap_or_else(PoisonError::into_inner).add(event);
        }
        if let Some(trace) = &self.session.trace {
            trace.step(event);
        }
        self.session.verbose.step(event, self.session.build.isa);
    }
}

impl Session {
    /// The terms of a request that begins now.
    pub(super) fn terms(&self, options: &RunOptions) -> Terms {
        let stop = Stop::after(options.time_limit.or(self.time_limit), options.cancel.clone());
        Terms { stop, width: options.width }
    }

    /// Whether the session's own observer has anything to note.
    pub(super) fn is_watched(&self) -> bool {
        self.profile.is_some() || self.verbose.any() || self.trace.is_some()
    }

    /// The threads that compute a request: the session's, or its caller's alone.
    fn width<'a>(&'a self, terms: &Terms, narrow: &'a Narrow) -> &'a dyn Parallel {
        match terms.width {
            Width::Wide => &self.threads,
            Width::Narrow => narrow,
        }
    }

    /// Runs one request with bound inputs, into destinations in the order of the outputs; empty if there are none.
    pub(super) fn serve(
        &self,
        mut ordered: Vec<Option<Value>>,
        destinations: &[Option<Arc<Destination>>],
        terms: &Terms,
        observer: Option<&dyn Observer>,
    ) -> Result<Vec<Value>, SessionError> {
        let narrow = self.threads.narrow();
        let parallel = self.width(terms, &narrow);
        let disagreement = self.names.disagreement_of(&ordered);
        let variant = match (&self.overrides, disagreement) {
            (Some(overrides), disagreement) => {
                let make = || overrides.variant(&mut ordered, disagreement.is_none(), &self.build, parallel);
                Refused::catch(make).unwrap_or_else(|refused| Err(SessionError::of_refused(refused, "", None)))?
            }
            (None, Some(disagreement)) => return Err(disagreement.error(&self.inputs)),
            (None, None) => {
                self.expect_defaults(&ordered)?;
                None
            }
        };
        let (executable, idle) = variant
            .as_deref()
            .map_or((&self.executable, &self.kept.idle), |variant| (&variant.executable, &variant.idle));
        let asks = self.requests.is_some() && variant.is_none();
        self.in_state(idle, terms, observer, asks, |state, resources| {
            executable.run_into(ordered, destinations, state, resources)
        })
    }

    /// Has `run` compute one request, or several at once, in a state. If `asks`, the request is noted in the records of
    /// requests.
    pub(super) fn in_state<T>(
        &self,
        idle: &Mutex<Idle>,
        terms: &Terms,
        observer: Option<&dyn Observer>,
        asks: bool,
        run: impl FnOnce(&mut RunState, &Resources<'_>) -> Result<T, RunError>,
    ) -> Result<T, SessionError> {
        let stop = terms.stop.as_ref();
        let narrow = self.threads.narrow();
        let parallel = self.width(terms, &narrow);
        let heard = || self.gauge.as_ref().and_then(Gauge::request);
        let _request = self.tuner.as_ref().map(Tuner::request).or_else(heard);
        let mut state = self.kept.begin(idle);
        if asks {
            state.ask();
        }
        let watched = stop.map(|stop| stop.watch(parallel));
        let resources = Resources {
            build: &self.build,
            parallel: watched.as_ref().map_or(parallel, |watched| watched),
            buffers: &self.kept.buffers,
            plans: self.kept.plans.as_ref(),
            tuner: self.tuner.as_ref(),
            share: Some(&self.share),
            loops: &LoopBudget::new(self.loops),
            stop,
            observer,
        };
        let question = stop.map(Stop::question);
        let run = || {
            // Memory that could not be refused in other sessions may have exceeded the ceiling.
            check(0).unwrap_or_else(|refused| refused.raise());
            run(&mut state, &resources)
        };
        let run = AssertUnwindSafe(|| match &question {
            Some(question) => memory::until(Some(question), run),
            None => run(),
        });
        let result = within(&format_args!("model {}", self.name), || {
            catch_unwind(run).unwrap_or_else(|panic| Err(RunError::outside_nodes(&*panic)))
        });
        if result.as_ref().is_err_and(RunError::is_fault) {
            state = RunState::default();
        }
        let served = state.served().filter(|_| result.is_ok());
        if let Some((requests, served)) = self.requests.as_ref().zip(served) {
            requests.note(&served, &self.build.records);
        }
        let usage = self.kept.end(idle, state);
        if result.is_ok() {
            self.footprint.note(usage.most_present, &self.build.records);
        }
        if self.heap.trim(&self.share) {
            ceiling::count_records(&self.build.records);
        }
        result.map_err(|error| self.refused(error))
    }
}
