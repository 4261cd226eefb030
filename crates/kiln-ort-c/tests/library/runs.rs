//! Runs: names, types, shapes, existing outputs, early ends, bindings, threads.

use std::ffi::{CStr, c_void};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::api::{Api, call, list};
use crate::models;
use crate::notes::Notes;

pub(crate) fn note(api: Api, notes: &mut Notes) {
    let environment = api.environment();
    let session = api.session(environment, &models::pair());
    let (mut a, mut b) = ([1f32, 2.0, 3.0, 4.0], [5f32, 6.0, 7.0, 8.0]);
    let inputs = [a.as_mut_slice(), b.as_mut_slice()].map(|data| api.tensor(data, &[2, 2], 1));
    plain(api, session, inputs, notes);
    wrong(api, session, inputs, notes);
    preallocated(api, session, inputs, notes);
    ended(api, session, inputs, notes);
    asynchronous(api, session, inputs, notes);
    bound(api, session, inputs, notes);
    threads(api, session, inputs, notes);
    for value in inputs {
        call!(api, ReleaseValue, value);
    }
    call!(api, ReleaseSession, session);
    call!(api, ReleaseEnv, environment);
}

/// Runs a session; returns the outcome with the floats of the outputs, which it releases.
fn outcome(api: Api, session: usize, inputs: &[(&CStr, usize)], names: &[&CStr], words: &str) -> String {
    let mut outputs = vec![0usize; names.len()];
    let said = api.says(api.run(session, 0, inputs, names, &mut outputs), words);
    let data: Vec<Vec<f32>> = outputs.iter().filter(|value| **value != 0).map(|value| api.floats(*value)).collect();
    for value in outputs {
        call!(api, ReleaseValue, value);
    }
    format!("{said} {data:?}")
}

fn plain(api: Api, session: usize, [a, b]: [usize; 2], notes: &mut Notes) {
    let both = [(c"a", a), (c"b", b)];
    notes.note("both outputs", outcome(api, session, &both, &[c"sum", c"product"], ""));
    notes.note("in another order", outcome(api, session, &[(c"b", b), (c"a", a)], &[c"product", c"sum"], ""));
    notes.note("one output", outcome(api, session, &both, &[c"product"], ""));
    notes.note("one output twice", outcome(api, session, &both, &[c"sum", c"sum"], ""));
    notes.note("one input twice", outcome(api, session, &[(c"a", a), (c"b", b), (c"a", a)], &[c"sum"], ""));
    notes.note("one value for both", outcome(api, session, &[(c"a", a), (c"b", a)], &[c"sum"], ""));
}

fn wrong(api: Api, session: usize, [a, b]: [usize; 2], notes: &mut Notes) {
    let both = [(c"a", a), (c"b", b)];
    let (mut integers, mut floats) = ([1i64, 2], [1f32; 6]);
    let typed = api.tensor(&mut integers, &[1, 2], 7);
    let ranked = api.tensor(&mut floats, &[6], 1);
    let sized = api.tensor(&mut floats, &[2, 3], 1);
    let unequal = api.tensor(&mut floats, &[3, 2], 1);
    notes.note("no outputs", outcome(api, session, &both, &[], "At least one output should be requested."));
    notes.note("an input's name", outcome(api, session, &[(c"q", a)], &[c"sum"], "Invalid input name: q"));
    notes.note("an output's name", outcome(api, session, &both, &[c"q"], "Invalid output name: q"));
    notes.note("an empty name", outcome(api, session, &[(c"", a)], &[c"sum"], "input name cannot be empty"));
    notes.note("an empty output name", outcome(api, session, &both, &[c""], "output name cannot be empty"));
    notes
        .note("no value", outcome(api, session, &[(c"a", 0), (c"b", b)], &[c"sum"], "NULL input supplied for input a"));
    notes.note("a missing input", outcome(api, session, &[(c"a", a)], &[c"sum"], "Missing Input: b"));
    let words = "Unexpected input data type. Actual: (tensor(int64)) , expected: (tensor(float))";
    notes.note("an input's type", outcome(api, session, &[(c"a", typed), (c"b", b)], &[c"sum"], words));
    let words = "Invalid rank for input: a Got: 1 Expected: 2";
    notes.note("an input's rank", outcome(api, session, &[(c"a", ranked), (c"b", b)], &[c"sum"], words));
    let words = "index: 1 Got: 3 Expected: 2";
    notes.note("an input's size", outcome(api, session, &[(c"a", sized), (c"b", b)], &[c"sum"], words));
    notes.note("sizes that do not fit", {
        let said = outcome(api, session, &[(c"a", unequal), (c"b", b)], &[c"sum"], "");
        said.split(' ').next().unwrap().to_owned()
    });
    notes.note("both names are wrong", outcome(api, session, &[(c"q", a)], &[c"q"], "Invalid input name: q"));
    for value in [typed, ranked, sized, unequal] {
        call!(api, ReleaseValue, value);
    }
}

fn preallocated(api: Api, session: usize, [a, b]: [usize; 2], notes: &mut Notes) {
    let both = [(c"a", a), (c"b", b)];
    let (mut room, mut short, mut integers) = ([0f32; 4], [0f32; 2], [0i64; 4]);
    let into = api.tensor(&mut room, &[2, 2], 1);
    let mut outputs = [into, 0];
    let said = api.says(api.run(session, 0, &both, &[c"sum", c"product"], &mut outputs), "");
    notes.note("an output that is there", format!("{said} {} {:?}", outputs[0] == into, std::hint::black_box(&room)));
    call!(api, ReleaseValue, outputs[1]);
    for (what, value) in [
        ("an output of another shape", api.tensor(&mut short, &[1, 2], 1)),
        ("an output of another rank", api.tensor(&mut room, &[4], 1)),
        ("an output of another type", api.tensor(&mut integers, &[2, 2], 7)),
    ] {
        let mut outputs = [value, 0];
        let status = api.run(session, 0, &both, &[c"sum", c"product"], &mut outputs);
        let code = api.taken(status).map_or(0, |(code, _)| code);
        notes.note(what, format!("{code} {} {}", outputs[0] == value, outputs[1] == 0));
        call!(api, ReleaseValue, value);
    }
    let mut outputs = [a];
    let said = api.says(api.run(session, 0, &both, &[c"sum"], &mut outputs), "");
    notes.note("an output over an input", format!("{said} {:?}", api.floats(a)));
    // The first input gets its old elements.
    api.ok(call!(api, GetTensorMutableData, a, &mut outputs[0]));
    // SAFETY: the tensor has four floats there.
    unsafe { std::ptr::with_exposed_provenance_mut::<[f32; 4]>(outputs[0]).write([1.0, 2.0, 3.0, 4.0]) };
    call!(api, ReleaseValue, into);
}

fn ended(api: Api, session: usize, [a, b]: [usize; 2], notes: &mut Notes) {
    let both = [(c"a", a), (c"b", b)];
    let (mut options, mut outputs) = (0usize, [0usize]);
    api.ok(call!(api, CreateRunOptions, &mut options));
    api.ok(call!(api, RunOptionsSetTerminate, options));
    for what in ["a run that is ended before", "and once more"] {
        let status = api.run(session, options, &both, &[c"sum"], &mut outputs);
        notes.note(
            what,
            format!("{} {}", api.says(status, "Exiting due to terminate flag being set to true."), outputs[0]),
        );
    }
    api.ok(call!(api, RunOptionsUnsetTerminate, options));
    let status = api.run(session, options, &both, &[c"sum"], &mut outputs);
    notes.note("a run after it was taken back", api.says(status, ""));
    call!(api, ReleaseValue, outputs[0]);
    call!(api, ReleaseRunOptions, options);
}

/// A chain of asynchronous runs: each starts the next from its callback.
struct Chain {
    api: Api,
    session: usize,
    /// Names and values stay where they are until the last callback.
    names: [usize; 2],
    values: [usize; 2],
    asked: [usize; 1],
    outputs: [usize; 1],
    left: usize,
    said: Vec<String>,
}

static ENDED: Mutex<bool> = Mutex::new(false);
static END: Condvar = Condvar::new();

impl Chain {
    fn start(&mut self) -> usize {
        let (session, names, values) = (self.session, self.names.as_ptr(), self.values.as_ptr());
        let (asked, outputs, api) = (self.asked.as_ptr(), self.outputs.as_mut_ptr(), self.api);
        let (ending, own) = (next as *const c_void, &raw mut *self);
        call!(api, RunAsync, session, 0usize, names, values, 2usize, asked, 1usize, outputs, ending, own)
    }
}

unsafe extern "C" fn next(chain: *mut c_void, outputs: *mut usize, count: usize, status: usize) {
    // SAFETY: the chain lives until it reports its end, and one callback runs at a time.
    let chain = unsafe { &mut *chain.cast::<Chain>() };
    let mut said = chain.api.says(status, "");
    if count > 0 {
        // SAFETY: there are as many values.
        let value = unsafe { *outputs };
        said += &format!(" {count} {:?}", chain.api.floats(value));
        call!(chain.api, ReleaseValue, value);
        chain.outputs = [0];
    }
    chain.said.push(said);
    chain.left -= 1;
    if chain.left > 0 {
        chain.start();
        return;
    }
    *ENDED.lock().unwrap() = true;
    END.notify_all();
}

fn wait() -> bool {
    let ended = ENDED.lock().unwrap();
    let (mut ended, outcome) = END.wait_timeout_while(ended, Duration::from_secs(30), |ended| !*ended).unwrap();
    *ended = false;
    !outcome.timed_out()
}

fn asynchronous(api: Api, _session: usize, values: [usize; 2], notes: &mut Notes) {
    // onnxruntime wants two threads for it.
    let (environment, options, model) = (api.environment(), api.options(), models::pair());
    api.ok(call!(api, SetIntraOpNumThreads, options, 2));
    let mut session = 0usize;
    api.ok(call!(api, CreateSessionFromArray, environment, &model[..], model.len(), options, &mut session));
    call!(api, ReleaseSessionOptions, options);
    let names = [c"a", c"b"].map(|name| name.as_ptr().expose_provenance());
    let asked = [c"sum".as_ptr().expose_provenance()];
    let chain = Chain { api, session, names, values, asked, outputs: [0], left: 3, said: Vec::new() };
    let mut chain = Box::new(chain);
    notes.note("a chain of runs begins", api.says(chain.start(), ""));
    notes.note("and ends", wait());
    notes.note("its callbacks", format!("{:?}", chain.said));
    chain.asked = [c"q".as_ptr().expose_provenance()];
    (chain.left, chain.said) = (1, Vec::new());
    let code = api.taken(chain.start()).map_or(0, |(code, _)| code);
    notes.note("a chain with a wrong name begins", code);
    let came = code == 0 && wait();
    let begin = chain.said.first().map_or("nothing", |said| &said[..1]);
    notes.note("its callback", format!("{came} {begin}"));
    call!(api, ReleaseSession, session);
    call!(api, ReleaseEnv, environment);
}

fn bound(api: Api, session: usize, [a, b]: [usize; 2], notes: &mut Notes) {
    let (mut binding, mut info) = (0usize, 0usize);
    api.ok(call!(api, CreateIoBinding, session, &mut binding));
    api.ok(call!(api, CreateCpuMemoryInfo, 0, 0, &mut info));
    let allocator = api.allocator();
    let (mut names, mut lengths, mut count) = (9usize, 9usize, 9usize);
    api.ok(call!(api, GetBoundOutputNames, binding, allocator, &mut names, &mut lengths, &mut count));
    notes.note("names of what is not bound", format!("{names} {lengths} {count}"));
    let mut values = 9usize;
    api.ok(call!(api, GetBoundOutputValues, binding, allocator, &mut values, &mut count));
    notes.note("values of what is not bound", format!("{values} {count}"));
    // In onnxruntime a binding that has refused a name refuses all that follow.
    let mut other = 0usize;
    api.ok(call!(api, CreateIoBinding, session, &mut other));
    notes.note("an unknown input is bound", api.says(call!(api, BindInput, other, c"q", a), "q"));
    call!(api, ReleaseIoBinding, other);
    for (name, value) in [(c"a", a), (c"b", a), (c"b", b)] {
        api.ok(call!(api, BindInput, binding, name, value));
    }
    notes.note(
        "a run without outputs",
        api.taken(call!(api, RunWithBinding, session, 0usize, binding)).map_or(0, |(code, _)| code),
    );
    for name in [c"sum", c"product"] {
        api.ok(call!(api, BindOutputToDevice, binding, name, info));
    }
    notes.note("inputs are ready", api.says(call!(api, SynchronizeBoundInputs, binding), ""));
    notes.note("a bound run", api.says(call!(api, RunWithBinding, session, 0usize, binding), ""));
    notes.note("outputs are ready", api.says(call!(api, SynchronizeBoundOutputs, binding), ""));
    api.ok(call!(api, GetBoundOutputNames, binding, allocator, &mut names, &mut lengths, &mut count));
    let sizes = list(lengths, count);
    // SAFETY: the buffer has the names back to back.
    let bytes =
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(names), sizes.iter().sum()) };
    notes.note("names of what is bound", format!("{} {sizes:?}", String::from_utf8_lossy(bytes)));
    api.ok(call!(api, AllocatorFree, allocator, names));
    api.ok(call!(api, AllocatorFree, allocator, lengths));
    let read = |what: &str, notes: &mut Notes| {
        let (mut values, mut count) = (0usize, 0usize);
        api.ok(call!(api, GetBoundOutputValues, binding, allocator, &mut values, &mut count));
        let handles = list(values, count);
        notes.note(what, format!("{:?}", handles.iter().map(|value| api.floats(*value)).collect::<Vec<_>>()));
        for value in handles {
            call!(api, ReleaseValue, value);
        }
        api.ok(call!(api, AllocatorFree, allocator, values));
    };
    read("values of what is bound", notes);
    let mut longer = [1f32; 6];
    let longer = api.tensor(&mut longer, &[3, 2], 1);
    api.ok(call!(api, BindInput, binding, c"a", longer));
    api.ok(call!(api, BindInput, binding, c"b", longer));
    let status = call!(api, RunWithBinding, session, 0usize, binding);
    notes.note("another shape with the same outputs", api.taken(status).map_or(0, |(code, _)| code));
    for name in [c"sum", c"product"] {
        api.ok(call!(api, BindOutputToDevice, binding, name, info));
    }
    notes.note("another shape, bound anew", api.says(call!(api, RunWithBinding, session, 0usize, binding), ""));
    read("its values", notes);
    let mut room = [0f32; 6];
    let into = api.tensor(&mut room, &[3, 2], 1);
    api.ok(call!(api, BindOutput, binding, c"sum", into));
    call!(api, ReleaseValue, into);
    call!(api, ReleaseValue, longer);
    notes.note("values that were released are run", api.says(call!(api, RunWithBinding, session, 0usize, binding), ""));
    notes.note("into the program's memory", format!("{:?}", std::hint::black_box(&room)));
    api.ok(call!(api, BindOutputToDevice, binding, c"q", info));
    notes.note(
        "an unknown output is run",
        api.says(call!(api, RunWithBinding, session, 0usize, binding), "Invalid output name: q"),
    );
    call!(api, ClearBoundInputs, binding);
    call!(api, ClearBoundOutputs, binding);
    call!(api, ReleaseIoBinding, binding);
    call!(api, ReleaseMemoryInfo, info);
}

fn threads(api: Api, session: usize, [a, b]: [usize; 2], notes: &mut Notes) {
    let expected = [6f32, 8.0, 10.0, 12.0];
    let work = || {
        for _ in 0..200 {
            let mut outputs = [0usize];
            api.ok(api.run(session, 0, &[(c"a", a), (c"b", b)], &[c"sum"], &mut outputs));
            assert_eq!(api.floats(outputs[0]), expected);
            call!(api, ReleaseValue, outputs[0]);
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
    notes.note("eight threads on one session", "ok");
}
