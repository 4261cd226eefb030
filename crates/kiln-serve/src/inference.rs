//! A lane's work on inference requests: inputs are read, the model runs requests alone or as one group, and each is
//! answered by itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::answer::{self, Answer, Answering};
use crate::head::Head;
use crate::model::{Load, Request, Tensor};
use crate::queue::{Joining, Work};
use crate::refusal::Refusal;
use crate::registry::Loaded;
use crate::ticket::Ticket;

/// Makes the answer of a request's outputs, in the form that the request came in.
pub(crate) type Form = fn(&Answering<'_>, &Head, &[Tensor]) -> Result<Answer, Refusal>;

/// An inference request that has been read.
pub(crate) struct Asked {
    pub(crate) body: Bytes,
    pub(crate) head: Head,
    /// The client's time limit, beside the one in the request's head.
    pub(crate) limit: Option<Duration>,
    pub(crate) form: Form,
}

/// A job that waits for a lane.
pub(crate) enum Job {
    Inference(Box<Inference>),
    /// Any other job. It sends its own answer.
    Other(Box<dyn FnOnce() + Send>),
}

/// An inference request that waits for a lane, and the destination of its answer.
pub(crate) struct Inference {
    loaded: Loaded,
    asked: Asked,
    ticket: Arc<Ticket>,
    queued: Instant,
    joining: Option<Joining>,
    answer: oneshot::Sender<Result<Answer, Refusal>>,
}

impl Inference {
    pub(crate) fn new(
        loaded: Loaded,
        asked: Asked,
        ticket: Arc<Ticket>,
        arrived: Instant,
        answer: oneshot::Sender<Result<Answer, Refusal>>,
    ) -> Inference {
        let shapes = asked.head.inputs.iter().map(|input| (input.name.as_str(), input.shape.as_slice()));
        let rows = loaded.model.rows(&shapes.collect::<Vec<_>>());
        let joining =
            rows.map(|rows| Joining { rows, most: loaded.model.most_rows(), arrived, deadline: ticket.deadline() });
        Inference { loaded, asked, ticket, queued: Instant::now(), joining, answer }
    }

    /// The inputs, unless the request is over.
    fn inputs(&self) -> Result<Vec<Tensor>, Refusal> {
        self.ticket.check()?;
        let begun = Instant::now();
        let inputs = answer::inputs(&self.asked.head, &self.asked.body)?;
        self.loaded.tally.input.add(begun.elapsed());
        Ok(inputs)
    }

    /// Runs it alone.
    fn outputs(&self, inputs: Vec<Tensor>, load: Load) -> Result<Vec<Tensor>, Refusal> {
        self.ticket.check()?;
        let begun = Instant::now();
        let outputs = self.loaded.model.run(inputs, &self.ticket, load);
        let time = begun.elapsed();
        self.note_run(begun, time, 1);
        let outputs = outputs?;
        self.loaded.tally.infer.add(time);
        Ok(outputs)
    }

    /// Notes the request's run, which may be a group's.
    fn note_run(&self, begun: Instant, time: Duration, together: usize) {
        self.ticket.stages(|stages| {
            stages.ran = Some((begun, time));
            stages.together = together;
        });
    }

    fn written(&self, outputs: &[Tensor]) -> Result<Answer, Refusal> {
        let begun = Instant::now();
        let model = Answering { name: &self.loaded.name, version: self.loaded.version };
        let answer = (self.asked.form)(&model, &self.asked.head, outputs)?;
        self.loaded.tally.output.add(begun.elapsed());
        Ok(answer)
    }

    fn reply(self, answer: Result<Answer, Refusal>) {
        // The receiver is gone if the client has gone, or the time is over.
        let _ = self.answer.send(answer);
    }
}

/// The result of `work`. A panic becomes a fault of the server.
fn made<T>(work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Refusal::own_fault()))
}

/// Runs requests of one model, and answers each.
fn run(requests: Vec<Inference>, load: Load) {
    let mut read = Vec::with_capacity(requests.len());
    for inference in requests {
        let time = inference.queued.elapsed();
        inference.loaded.tally.queue.add(time);
        inference.ticket.stages(|stages| stages.queued = Some((inference.queued, time)));
        match made(|| inference.inputs()) {
            Ok(inputs) => read.push((inference, inputs)),
            Err(refusal) => inference.reply(Err(refusal)),
        }
    }
    match together(&read, load) {
        Some(all) => {
            for ((inference, inputs), outputs) in read.into_iter().zip(all) {
                // A request that has left the group is over; running it alone reports that.
                let answer = made(|| match outputs {
                    Some(outputs) => inference.written(&outputs),
                    None => inference.written(&inference.outputs(inputs, load)?),
                });
                inference.reply(answer);
            }
        }
        None => {
            for (inference, inputs) in read {
                let answer = made(|| inference.written(&inference.outputs(inputs, load)?));
                inference.reply(answer);
            }
        }
    }
}

/// The outputs of requests that run as one group, `None` for requests that have left it. `None` for a single request,
/// and where the group falls apart.
fn together(requests: &[(Inference, Vec<Tensor>)], load: Load) -> Option<Vec<Option<Vec<Tensor>>>> {
    let [(Inference { loaded, .. }, _), _, ..] = requests else { return None };
    let group: Vec<Request<'_>> =
        requests.iter().map(|(inference, inputs)| Request { inputs, ticket: &inference.ticket }).collect();
    let begun = Instant::now();
    let run = || loaded.model.run_group(&group, load);
    // The request that causes a fault meets it again when it runs alone.
    let outputs = catch_unwind(AssertUnwindSafe(run)).ok()??;
    if outputs.len() != requests.len() {
        return None;
    }
    let time = begun.elapsed();
    requests.iter().for_each(|(inference, _)| inference.note_run(begun, time, requests.len()));
    loaded.tally.infer.add(time);
    loaded.tally.count_joined(requests.len());
    Some(outputs)
}

impl Work for Job {
    fn joining(&self) -> Option<&Joining> {
        match self {
            Job::Inference(inference) => inference.joining.as_ref(),
            Job::Other(_) => None,
        }
    }

    fn joins(&self, other: &Job) -> bool {
        let (Job::Inference(one), Job::Inference(other)) = (self, other) else { return false };
        Arc::ptr_eq(&one.loaded.model, &other.loaded.model)
    }

    fn is_over(&self) -> bool {
        match self {
            Job::Inference(inference) => inference.ticket.check().is_err(),
            Job::Other(_) => false,
        }
    }

    fn run(group: Vec<Job>, load: Load) {
        let mut inferences = Vec::with_capacity(group.len());
        for job in group {
            match job {
                Job::Inference(inference) => inferences.push(*inference),
                Job::Other(work) => work(),
            }
        }
        run(inferences, load);
    }
}
