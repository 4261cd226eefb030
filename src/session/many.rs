//! Many requests of any shapes at a time, each with the bits that its own run gives.
//!
//! With enough requests, threads do the most if each runs requests of its own: no thread waits for another. If there
//! are few requests, or one is much longer than the others, threads would be idle at the end; such requests run first,
//! one after another, on all threads.
//!
//! Requests are not padded. Requests of few rows spend much of their time on reading weights, so several requests run
//! as a group, whose rows are [joined](super::joined) where the model computes row by row. Each thread then runs a
//! group.

use kiln_kernels::parallel::for_each_chunk;
use kiln_kernels::{Parallel, Serial};
use kiln_model::{Stop, Value};
use kiln_tensor::Tensor;

use super::joined::{JoinReport, Joined, MOST, shape};
use super::{Join, Observer, Port, RunOptions, Session, SessionError, Terms, Watch, Width};

/// The part of its threads' time that a wide request uses: on two threads it takes two thirds of its time on one
/// thread. This is between small networks, which lose time to forks, and large ones, which gain more.
const WIDE_SHARE: f64 = 0.75;

/// Most rows of a request that runs in a group. On two threads of a Zen 5, groups of minilm are 3.1 times as fast as
/// requests side by side at 4 rows, 1.25 times at 16 and 1.11 times at 32 and at 40.
const SHORT: usize = 64;

/// Most rows of a group. Weights are read once for each group: minilm and bert_base took 4 to 9 % longer in groups of
/// 128.
const GROUP: usize = 256;

// Requests are shared out evenly, and a group may have one more than fits.
const _: () = assert!(GROUP + SHORT <= MOST);

/// The outputs of a request, by name.
type Answer<V> = Result<Vec<(String, V)>, SessionError>;

/// Requests that run together, or one alone.
#[derive(Debug, PartialEq, Eq)]
struct Job {
    /// Their places in the caller's list.
    requests: Vec<usize>,
    rows: usize,
}

/// A job and the results of its requests.
struct Slot<T> {
    job: Job,
    made: Vec<T>,
}

impl Session {
    /// Runs requests side by side, of any shapes, and gives their results in the requests' order. As many run at a time
    /// as the session has threads, longest first, each on one thread; a request that would keep others waiting at the
    /// end runs before them on all threads. No more threads compute than the session has. Short requests run in groups
    /// that read weights once, unless `options` say [`Join::Never`]. Where records are kept, the first request of each
    /// shape runs alone, so that its executors are recorded.
    ///
    /// The outputs of a request have the bits that [`Session::run`] gives. A request that fails does so alone. The time
    /// limit and the [`Cancel`](super::Cancel) of `options` apply to all requests together: at the end, unfinished
    /// requests fail as in [`Session::run_with`]. The session's own time limit applies to each request. With
    /// [`Width::Narrow`] all requests run on the caller's thread, one after another.
    ///
    /// ```
    /// use kiln::{DType, Dim, GraphBuilder, RunOptions, Session, SessionOptions, Tensor};
    ///
    /// let mut build = GraphBuilder::new("twice", 17);
    /// let x = build.input("x", DType::F32, [Dim::Any]);
    /// let y = build.op("Add", &[x, x], &[]);
    /// build.output("y", y);
    /// let session = Session::from_graph(build.finish(), &SessionOptions::default())?;
    ///
    /// let sizes = [3, 1, 2];
    /// let request = |size: usize| Ok(vec![("x", Tensor::from_vec([size], vec![1f32; size])?)]);
    /// let requests = sizes.into_iter().map(request).collect::<Result<Vec<_>, kiln::TensorError>>()?;
    /// for (size, outputs) in sizes.into_iter().zip(session.run_many(&requests, &RunOptions::default())) {
    ///     assert_eq!(outputs?[0].1.as_slice::<f32>()?, vec![2.0; size]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "requests fail one by one"]
    pub fn run_many(
        &self,
        requests: &[Vec<(&str, Tensor)>],
        options: &RunOptions,
    ) -> Vec<Result<Vec<(String, Tensor)>, SessionError>> {
        let bytes = |tensor: &Tensor| u64::try_from(tensor.byte_len()).unwrap_or(u64::MAX);
        let alone = |inputs: &[(&str, Tensor)], terms: &Terms| self.run_on(inputs, terms);
        self.each_or_joined(requests, options, &bytes, &alone, |value| value.into_tensor().ok())
    }

    /// As [`Session::run_many`], for requests whose inputs or outputs are sequences, maps or optional values.
    #[must_use = "requests fail one by one"]
    pub fn run_many_values(
        &self,
        requests: &[Vec<(&str, Value)>],
        options: &RunOptions,
    ) -> Vec<Result<Vec<(String, Value)>, SessionError>> {
        let alone = |inputs: &[(&str, Value)], terms: &Terms| self.run_values_on(inputs, terms);
        self.each_or_joined(requests, options, &Value::bytes, &alone, Some)
    }

    /// The part of the graph that short requests compute together; `None` where there is none, because no product
    /// treats rows one by one or its bits could depend on other rows.
    #[must_use]
    pub fn join_report(&self) -> Option<JoinReport> {
        self.joined().map(|joined| JoinReport { rows: joined.counts(SHORT), group: GROUP, ..joined.report() })
    }

    /// The number of rows of a request whose named inputs have these shapes, where it may run
    /// [together](Session::run_together) with others; `None` where it may not, or is too long to gain by it. Where
    /// records are kept, it is `None` for the first request of each shape, which runs alone so that its executors are
    /// recorded. A program with a queue of requests can form groups of at most [`JoinReport::group`] rows by this
    /// number.
    #[must_use]
    pub fn rows_to_join(&self, shapes: &[(&str, &[usize])]) -> Option<usize> {
        let joined = self.joinable()?;
        let place = |name: &str| self.inputs.iter().position(|port| port.name == name);
        let joins = |name: &str| place(name).is_some_and(|place| !self.inputs[place].has_default);
        if !shapes.iter().all(|(name, _)| joins(name)) {
            return None;
        }
        let of =
            |place: usize| shapes.iter().find(|(name, _)| *name == self.inputs[place].name).map(|(_, shape)| *shape);
        joined.rows_of(&of).filter(|&rows| rows <= SHORT && !joined.note_first(&of))
    }

    /// Runs requests as one group and gives the outputs of each, with the bits that it has alone. The time limit and
    /// the cancel of `options` apply to the group. If `leaves` is true for the place of a request, because its caller
    /// has gone, the request leaves the group after the current stage and has no outputs; its rows are computed no
    /// further. `None` where the requests cannot be [joined](Session::rows_to_join), all have left, or anything fails:
    /// each request then has to run alone, and the faulty one reports its error.
    #[must_use = "without outputs each request runs alone"]
    pub fn run_together(
        &self,
        requests: &[Vec<(&str, Value)>],
        options: &RunOptions,
        leaves: &dyn Fn(usize) -> bool,
    ) -> Option<Vec<Option<Vec<(String, Value)>>>> {
        let joined = self.joinable().filter(|_| requests.len() > 1 && options.join == Join::Auto)?;
        let has_rows = |inputs: &Vec<(&str, Value)>| {
            self.bind(inputs).is_ok_and(|bound| joined.rows_of(&|place| shape(&bound, place)).is_some())
        };
        if !requests.iter().all(has_rows) {
            return None;
        }
        self.run_group(joined, requests.iter().map(Vec::as_slice), leaves, &self.terms(options), Some)
    }

    /// Runs each request by `alone`, or several as a group, whose outputs `of` converts.
    fn each_or_joined<V: Clone + Into<Value> + Send + Sync>(
        &self,
        requests: &[Vec<(&str, V)>],
        options: &RunOptions,
        bytes: &dyn Fn(&V) -> u64,
        alone: &(dyn Fn(&[(&str, V)], &Terms) -> Answer<V> + Sync),
        of: fn(Value) -> Option<V>,
    ) -> Vec<Answer<V>> {
        let costs: Vec<f64> =
            requests.iter().map(|inputs| cost(inputs.iter().map(|(_, value)| bytes(value)))).collect();
        let joined = self.joins(requests.len(), options);
        let jobs = match joined {
            None => singles(requests.len()),
            Some(joined) => {
                let rows = requests.iter().map(|inputs| {
                    let bound = self.bind(inputs).ok()?;
                    let shape = |place| shape(&bound, place);
                    joined.rows_of(&shape).filter(|&rows| rows <= SHORT && !joined.note_first(&shape))
                });
                let threads = if options.width == Width::Narrow { 1 } else { self.threads.threads() };
                jobs(&rows.collect::<Vec<_>>(), threads)
            }
        };
        self.side_by_side(jobs, &costs, options, &|job, terms| {
            let own = || job.requests.iter().map(|&request| requests[request].as_slice());
            let group = joined.filter(|_| job.requests.len() > 1);
            let outputs = group.and_then(|joined| self.run_group(joined, own(), &|_| false, terms, of));
            match outputs.and_then(|outputs| outputs.into_iter().collect::<Option<Vec<_>>>()) {
                Some(outputs) => outputs.into_iter().map(Ok).collect(),
                None => own().map(|inputs| alone(inputs, terms)).collect(),
            }
        })
    }

    /// The stages of the graph over rows, where requests like these may be joined. They may not if the session has a
    /// time limit, which applies to each request.
    fn joins(&self, requests: usize, options: &RunOptions) -> Option<&Joined> {
        let may = options.join == Join::Auto && requests > 1 && self.time_limit.is_none();
        if may { self.joinable() } else { None }
    }

    /// The stages of the graph over rows, where this session may join requests. It may not if an observer has to see
    /// each request's own nodes, or if records are taken as complete, which have no executors for the rows of a group.
    fn joinable(&self) -> Option<&Joined> {
        if self.is_watched() || !self.build.records.may_choose() { None } else { self.joined() }
    }

    /// The outputs of each request of a group, `None` for those that have left it; `None` overall where the requests
    /// have to run alone.
    fn run_group<'r, V: Clone + Into<Value> + 'r>(
        &self,
        joined: &Joined,
        requests: impl Iterator<Item = &'r [(&'r str, V)]>,
        leaves: &dyn Fn(usize) -> bool,
        terms: &Terms,
        of: fn(Value) -> Option<V>,
    ) -> Option<Vec<Option<Vec<(String, V)>>>> {
        let bound = requests.map(|inputs| self.bind(inputs).ok()).collect::<Option<Vec<_>>>()?;
        let replaces = |(port, value): (&Port, &Option<Value>)| port.has_default && value.is_some();
        let is_plain = |inputs: &Vec<Option<Value>>| {
            self.names.disagreement_of(inputs).is_none() && !self.inputs.iter().zip(inputs).any(replaces)
        };
        if !bound.iter().all(is_plain) {
            return None;
        }
        let outputs = self.run_joined(joined, bound, leaves, terms).ok()?;
        let named = |values: Vec<Value>| {
            let values = values.into_iter().map(of).collect::<Option<Vec<V>>>()?;
            Some(self.outputs.iter().map(|port| port.name.clone()).zip(values).collect())
        };
        // Requests that have left have no outputs to name; outputs that cannot be named fail the whole group.
        outputs.into_iter().map(|values| values.map_or(Some(None), |values| named(values).map(Some))).collect()
    }

    fn run_values_on(&self, inputs: &[(&str, Value)], terms: &Terms) -> Result<Vec<(String, Value)>, SessionError> {
        let watch = Watch { session: self };
        let observer = self.is_watched().then_some(&watch as &dyn Observer);
        let shapes = inputs.iter().filter_map(|(name, value)| Some((*name, value.as_tensor()?.shape())));
        let _request = self.trace.as_ref().map(|trace| trace.request(shapes));
        let values = self.serve(self.bind(inputs)?, &[], terms, observer)?;
        Ok(self.outputs.iter().map(|port| port.name.clone()).zip(values).collect())
    }

    /// Has `run` run the jobs of requests with these costs, and returns its results in the requests' order.
    fn side_by_side<T: Send>(
        &self,
        mut jobs: Vec<Job>,
        costs: &[f64],
        options: &RunOptions,
        run: &(dyn Fn(&Job, &Terms) -> Vec<T> + Sync),
    ) -> Vec<T> {
        let all = Stop::after(options.time_limit, options.cancel.clone());
        let terms = |width: Width| {
            let own = || Stop::after(self.time_limit, options.cancel.clone());
            Terms { stop: if options.time_limit.is_some() { all.clone() } else { own() }, width }
        };
        let cost = |job: &Job| job.requests.iter().map(|&request| costs[request]).sum::<f64>();
        jobs.sort_by(|one, other| cost(other).total_cmp(&cost(one)));
        let sorted: Vec<f64> = jobs.iter().map(cost).collect();
        let mut slots: Vec<Slot<T>> = jobs.into_iter().map(|job| Slot { job, made: Vec::new() }).collect();

        let (wide, lanes): (usize, &dyn Parallel) = match options.width {
            Width::Wide => (wide_first(&sorted, self.threads.threads()), &self.threads),
            Width::Narrow => (0, &Serial),
        };
        let (wide, narrow) = slots.split_at_mut(wide);
        for Slot { job, made } in wide {
            *made = run(job, &terms(Width::Wide));
        }
        // A thread that has finished a job takes the longest remaining one. The pool is in use until all are done, so
        // that no other work forks on it meanwhile.
        for_each_chunk(lanes, narrow, 1, &|_, slots| {
            for Slot { job, made } in slots {
                *made = run(job, &terms(Width::Narrow));
            }
        });
        let mut answers: Vec<(usize, T)> =
            slots.into_iter().flat_map(|Slot { job, made }| job.requests.into_iter().zip(made)).collect();
        answers.sort_unstable_by_key(|(request, _)| *request);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

/// Each request alone.
fn singles(requests: usize) -> Vec<Job> {
    (0..requests).map(|request| Job { requests: vec![request], rows: 0 }).collect()
}

/// Groups of the short requests, and the others alone; `rows` are the rows of each request, `None` for one that cannot
/// be joined. There are as many groups as threads, or more where they would be longer than [`GROUP`] rows.
fn jobs(rows: &[Option<usize>], threads: usize) -> Vec<Job> {
    let is_short = |request: usize| rows[request].filter(|rows| (1..=SHORT).contains(rows));
    let mut short: Vec<(usize, usize)> =
        (0..rows.len()).filter_map(|request| Some((request, is_short(request)?))).collect();
    let mut jobs: Vec<Job> =
        singles(rows.len()).into_iter().filter(|job| is_short(job.requests[0]).is_none()).collect();
    // The longest first, each into the shortest group.
    short.sort_by_key(|&(_, rows)| std::cmp::Reverse(rows));
    let total: usize = short.iter().map(|(_, rows)| rows).sum();
    let count = total.div_ceil(GROUP).next_multiple_of(threads.max(1)).min(short.len());
    let mut groups: Vec<Job> = (0..count).map(|_| Job { requests: Vec::new(), rows: 0 }).collect();
    for (request, rows) in short {
        if let Some(group) = groups.iter_mut().min_by_key(|group| group.rows) {
            group.requests.push(request);
            group.rows += rows;
        }
    }
    jobs.extend(groups);
    jobs
}

/// The cost of a request relative to others of its model: proportional to its inputs, and a little without any.
fn cost(bytes: impl Iterator<Item = u64>) -> f64 {
    bytes.fold(1, u64::saturating_add) as f64
}

/// The number of first requests that should run on all threads before the others run side by side; `costs` are in
/// descending order.
fn wide_first(costs: &[f64], threads: usize) -> usize {
    if threads < 2 {
        return 0;
    }
    let lanes = threads as f64;
    let mut left: f64 = costs.iter().sum();
    let (mut wide, mut first, mut least) = (0.0, 0, f64::INFINITY);
    for count in 0..=costs.len().min(threads) {
        let took = wide / (lanes * WIDE_SHARE) + side_by_side(&costs[count..], left, threads);
        if took < least {
            (first, least) = (count, took);
        }
        if let Some(cost) = costs.get(count) {
            (wide, left) = (wide + cost, left - cost);
        }
    }
    first
}

/// A lower bound of the time of requests side by side; costs are in descending order. It is the largest of three: the
/// total over the threads, the longest request, and for each `k` the cost of request `k * threads` times `k + 1`,
/// because one thread then has at least `k + 1` requests that are no shorter.
fn side_by_side(costs: &[f64], total: f64, threads: usize) -> f64 {
    let rounds = costs.iter().step_by(threads).zip(1..).map(|(cost, rounds)| cost * f64::from(rounds));
    rounds.fold(total / threads as f64, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_alone_is_wide_and_enough_of_them_are_narrow() {
        for threads in [2, 3, 8, 64] {
            assert_eq!(wide_first(&[5.0], threads), 1, "{threads} threads");
            for count in [threads, 2 * threads, 100 * threads] {
                assert_eq!(wide_first(&vec![5.0; count], threads), 0, "{count} on {threads} threads");
            }
        }
    }

    #[test]
    fn what_would_leave_threads_idle_is_wide() {
        // One of three equal requests would run while the other thread waits.
        assert_eq!(wide_first(&[1.0; 3], 2), 1);
        // A wide request uses the time of more than two of eight threads, and of fewer than seven.
        assert_eq!((wide_first(&[1.0; 2], 8), wide_first(&[1.0; 7], 8)), (2, 0));
        // The others take a tenth of the first one's time, and hide none of it. One of them runs wide too: four are
        // left for four threads.
        assert_eq!(wide_first(&[100.0, 2.0, 2.0, 2.0, 2.0, 2.0], 4), 2);
        // The others take as long as the first, and hide it.
        assert_eq!(wide_first(&[100.0, 40.0, 40.0, 20.0], 2), 0);
    }

    #[test]
    fn short_requests_are_grouped_evenly_and_long_ones_run_alone() {
        let told = |rows: &[Option<usize>], threads: usize| -> Vec<(Vec<usize>, usize)> {
            jobs(rows, threads).into_iter().map(|job| (job.requests, job.rows)).collect()
        };
        assert_eq!(
            told(&[Some(4), Some(SHORT + 1), None, Some(8), Some(0), Some(3)], 2),
            [(vec![1], 0), (vec![2], 0), (vec![4], 0), (vec![3], 8), (vec![0, 5], 7)]
        );
        let many = jobs(&[Some(SHORT); 40], 3);
        assert_eq!(many.len(), 12, "more groups than threads, and as many for each thread");
        assert!(many.iter().all(|job| job.rows <= GROUP), "{many:?}");
        for rows in 1..=SHORT {
            assert!(jobs(&vec![Some(rows); 64], 2).iter().all(|job| job.rows <= GROUP + SHORT), "{rows} rows each");
        }
        assert_eq!(told(&[Some(5)], 8), [(vec![0], 5)]);
        assert_eq!(told(&[], 8), []);
    }

    #[test]
    fn one_thread_has_no_other_to_share_with() {
        assert_eq!((wide_first(&[3.0, 1.0], 1), wide_first(&[], 4)), (0, 0));
    }
}
