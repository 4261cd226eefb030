//! Runs that return at once: threads of this crate run them and call the caller back.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result, failed};
use crate::run::{Arrays, Call, put};
use crate::run_options::RunSettings;
use crate::seam::callback::{Ending, Opaque};
use crate::seam::entry::fault;
use crate::seam::{AsyncFn, Failure, Handle, List, Memory, Out, Status, Text, entry};
use crate::session::Model;
use crate::value::Value;

/// A run that waits for a thread.
struct Waiting {
    model: Arc<Model>,
    /// The call, or the reason why it cannot be made.
    call: Result<Call>,
    slots: Vec<Handle<Value>>,
    outputs: Out<Handle<Value>>,
    ending: Ending,
}

/// Runs that wait, and the threads that take them.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    threads: usize,
    idle: usize,
    /// The process of the threads: a forked child has none of these threads.
    process: u32,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: VecDeque::new(), threads: 0, idle: 0, process: 0 });
static MORE: Condvar = Condvar::new();

/// How long a thread waits for another run before it ends.
const PATIENCE: Duration = Duration::from_secs(2);

impl Waiting {
    /// Runs it and tells the caller, once.
    fn run(mut self) {
        let work = std::panic::AssertUnwindSafe(|| {
            let values = self.call.as_ref().map_err(Error::clone)?.run(&self.model)?;
            put(&values, &mut self.slots)?;
            self.outputs.fill(self.slots.len(), &self.slots, "output")
        });
        let result = std::panic::catch_unwind(work).unwrap_or_else(|panic| Err(fault("RunAsync", &*panic)));
        let (count, status) = match result {
            Ok(()) => (self.slots.len(), Status::NULL),
            Err(error) => (0, Failure::status(error)),
        };
        let outputs = if count == 0 { std::ptr::null_mut() } else { self.outputs.raw() };
        // The callback may release the session, so everything that the run held of it goes first.
        let Waiting { model, call, ending, .. } = self;
        drop((model, call));
        ending.call(outputs, count, status);
    }
}

/// Gives a run to a thread, starting one if all are busy and there are fewer than the machine has processors.
fn submit(waiting: Waiting) -> Result<()> {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if queue.process != process {
        *queue = Queue { process, ..Queue::default() };
    }
    let most = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if queue.idle <= queue.waiting.len() && queue.threads < most {
        let started = std::thread::Builder::new().name("kiln-async".to_owned()).spawn(serve);
        match started {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => return Err(failed!("no thread could be started: {error}")),
            Err(_) => {}
        }
    }
    queue.waiting.push_back(waiting);
    drop(queue);
    MORE.notify_one();
    Ok(())
}

fn serve() {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(waiting) = queue.waiting.pop_front() {
            drop(queue);
            waiting.run();
            queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        queue.idle += 1;
        let (again, outcome) = MORE.wait_timeout(queue, PATIENCE).unwrap_or_else(PoisonError::into_inner);
        queue = again;
        queue.idle -= 1;
        if outcome.timed_out() && queue.waiting.is_empty() {
            queue.threads -= 1;
            return;
        }
    }
}

entry! {
    fn RunAsync(
        session: Handle<Model>,
        options: Handle<RunSettings>,
        input_names: List<Text>,
        inputs: List<Handle<Value>>,
        input_count: usize,
        output_names: List<Text>,
        output_count: usize,
        outputs: Out<Handle<Value>>,
        ending: AsyncFn,
        data: Memory,
    ) {
        let model = session.get("session")?;
        let ending = Ending::of(ending, Opaque(data.raw())).ok_or_else(|| Error::null("run_async_callback"))?;
        let slots = outputs.read(output_count, "output")?;
        let arrays = Arrays { input_names, inputs, input_count, output_names, slots: &slots };
        let call = Call::read(&model, options, &arrays);
        submit(Waiting { model, call, slots, outputs, ending })
    }
}
