//! Many requests of any shapes at a time, each as it would run alone.
//!
//! A thread that has a request to itself waits for no other and shares none of its work, which is the most that threads
//! can do where there are enough requests. Where there are few, or one is much longer than the others, threads would be
//! idle at the end; such requests run first, one after another, on all threads. Nothing is padded, and nothing is joined:
//! each answer has the bits that the request's own run gives.

use kiln_kernels::parallel::for_each_chunk;
use kiln_kernels::{Parallel, Serial};

use super::{Observer, RunOptions, Session, SessionError, Terms, Watch, Width};
use crate::graph::{Stop, Value};
use crate::tensor::Tensor;

/// How much of its threads a wide request makes use of: on two threads it takes two thirds of the time that it takes on
/// one. Between what small networks lose to forks and what large ones gain.
const WIDE_SHARE: f64 = 0.75;

/// A request and what came of it.
struct Slot<T> {
    /// Its place in the caller's list.
    request: usize,
    made: Option<T>,
}

impl Session {
    /// Runs requests side by side, of any shapes, and gives their results in the requests' order. As many run at a time
    /// as the session has threads, longest first, each on one thread; a request that would keep others waiting at the
    /// end runs before them on all threads. Never do more threads compute than the session has.
    ///
    /// The outputs of a request have the bits that [`Session::run`] gives. A request that fails does so alone. The time
    /// limit and the [`Cancel`](super::Cancel) of `options` are those of all requests together: where they end, what has
    /// not finished fails as in [`Session::run_with`]. The session's own time limit is that of each request. With
    /// [`Width::Narrow`] all of it is done on the caller's thread, one request after another.
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
        let costs = requests.iter().map(|inputs| cost(inputs.iter().map(|(_, tensor)| bytes(tensor))));
        self.side_by_side(costs.collect(), options, &|request, terms| self.run_on(&requests[request], terms))
    }

    /// As [`Session::run_many`], for requests whose inputs or outputs are sequences, maps or optional values.
    #[must_use = "requests fail one by one"]
    pub fn run_many_values(
        &self,
        requests: &[Vec<(&str, Value)>],
        options: &RunOptions,
    ) -> Vec<Result<Vec<(String, Value)>, SessionError>> {
        let costs = requests.iter().map(|inputs| cost(inputs.iter().map(|(_, value)| value.bytes())));
        self.side_by_side(costs.collect(), options, &|request, terms| self.run_values_on(&requests[request], terms))
    }

    fn run_values_on(&self, inputs: &[(&str, Value)], terms: &Terms) -> Result<Vec<(String, Value)>, SessionError> {
        let watch = Watch { session: self };
        let observer = self.is_watched().then_some(&watch as &dyn Observer);
        let shapes = inputs.iter().filter_map(|(name, value)| Some((*name, value.as_tensor()?.shape())));
        let _request = self.trace.as_ref().map(|trace| trace.request(shapes));
        let values = self.serve(self.bind(inputs)?, &[], terms, observer)?;
        Ok(self.outputs.iter().map(|port| port.name.clone()).zip(values).collect())
    }

    /// Has `run` run each of the requests, whose costs these are, and gives what it makes of them in their order.
    fn side_by_side<T: Send>(
        &self,
        costs: Vec<f64>,
        options: &RunOptions,
        run: &(dyn Fn(usize, &Terms) -> T + Sync),
    ) -> Vec<T> {
        let all = Stop::after(options.time_limit, options.cancel.clone());
        let terms = |width: Width| {
            let own = || Stop::after(self.time_limit, options.cancel.clone());
            Terms { stop: if options.time_limit.is_some() { all.clone() } else { own() }, width }
        };
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by(|&one, &other| costs[other].total_cmp(&costs[one]));
        let sorted: Vec<f64> = order.iter().map(|&request| costs[request]).collect();
        let mut slots: Vec<Slot<T>> = order.into_iter().map(|request| Slot { request, made: None }).collect();

        let (wide, lanes): (usize, &dyn Parallel) = match options.width {
            Width::Wide => (wide_first(&sorted, self.threads.threads()), &self.threads),
            Width::Narrow => (0, &Serial),
        };
        let (wide, narrow) = slots.split_at_mut(wide);
        for Slot { request, made } in wide {
            *made = Some(run(*request, &terms(Width::Wide)));
        }
        // A thread that is done with a request takes the longest that is left. The pool is in use until all are done, so
        // that nothing else forks on it meanwhile.
        for_each_chunk(lanes, narrow, 1, &|_, slots| {
            for Slot { request, made } in slots {
                *made = Some(run(*request, &terms(Width::Narrow)));
            }
        });
        slots.sort_unstable_by_key(|slot| slot.request);
        slots.into_iter().filter_map(|slot| slot.made).collect()
    }
}

/// What a request costs beside others of its model: in proportion to its inputs, and a little without any.
fn cost(bytes: impl Iterator<Item = u64>) -> f64 {
    bytes.fold(1, u64::saturating_add) as f64
}

/// How many of the first requests are best run on all threads before the others run side by side, where `costs` falls.
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

/// A lower bound of the time that requests take side by side; costs come in descending order. It is the largest of three:
/// the total over the threads, the longest request, and for each `k` the cost of request `k * threads` times `k + 1`,
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
        // One of three equal ones would run while the other thread waits.
        assert_eq!(wide_first(&[1.0; 3], 2), 1);
        // Two of eight threads are fewer than what a wide request makes use of, and seven are more.
        assert_eq!((wide_first(&[1.0; 2], 8), wide_first(&[1.0; 7], 8)), (2, 0));
        // The others take a tenth of the time of the first, and hide none of it. Without one more, four are left for four.
        assert_eq!(wide_first(&[100.0, 2.0, 2.0, 2.0, 2.0, 2.0], 4), 2);
        // The others take as long, and hide it.
        assert_eq!(wide_first(&[100.0, 40.0, 40.0, 20.0], 2), 0);
    }

    #[test]
    fn one_thread_has_no_other_to_share_with() {
        assert_eq!((wide_first(&[3.0, 1.0], 1), wide_first(&[], 4)), (0, 0));
    }
}
