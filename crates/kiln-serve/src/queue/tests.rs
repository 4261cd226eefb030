//! The groups that lanes take, and when lanes wait.

use std::sync::mpsc::{self, Receiver, Sender};

use super::*;

const LONG: Duration = Duration::from_secs(3600);

/// Reports the group that it runs with, and waits where it has a gate.
struct Task {
    name: &'static str,
    joining: Option<Joining>,
    is_over: bool,
    told: Sender<(Vec<&'static str>, Load)>,
    gate: Option<Receiver<()>>,
}

impl Work for Task {
    fn joining(&self) -> Option<&Joining> {
        self.joining.as_ref()
    }

    /// The first letter identifies the model.
    fn joins(&self, other: &Task) -> bool {
        self.name.as_bytes()[0] == other.name.as_bytes()[0]
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn run(group: Vec<Task>, load: Load) {
        let names: Vec<&str> = group.iter().map(|task| task.name).collect();
        let _ = group[0].told.send((names, load));
        match group[0].name {
            "panics" => std::panic::resume_unwind(Box::new(())),
            _ => group[0].gate.iter().for_each(|gate| gate.recv().unwrap()),
        }
    }
}

/// A queue, and the reports of its tasks.
struct Bench {
    queue: Queue<Task>,
    told: Sender<(Vec<&'static str>, Load)>,
    ran: Receiver<(Vec<&'static str>, Load)>,
}

impl Bench {
    fn new(lanes: usize, most: usize, window: Duration) -> Bench {
        let (told, ran) = mpsc::channel();
        Bench { queue: Queue::new(lanes, most, window).unwrap(), told, ran }
    }

    /// A task that runs alone.
    fn task(&self, name: &'static str) -> Task {
        Task { name, joining: None, is_over: false, told: self.told.clone(), gate: None }
    }

    /// A task that may run with others, in groups of at most 10 rows.
    fn short(&self, name: &'static str, rows: usize) -> Task {
        let joining = Joining { rows, most: 10, arrived: Instant::now(), deadline: None };
        Task { joining: Some(joining), ..self.task(name) }
    }

    fn push(&self, task: Task) {
        self.queue.push(task).unwrap();
    }

    /// Keeps a lane until the sender is used.
    fn hold(&self) -> Sender<()> {
        let (go, gate) = mpsc::channel();
        self.push(Task { gate: Some(gate), ..self.task("held") });
        assert_eq!(self.names(), ["held"]);
        go
    }

    /// The next group to run, within a minute.
    #[track_caller]
    fn next(&self) -> (Vec<&'static str>, Load) {
        self.ran.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    #[track_caller]
    fn names(&self) -> Vec<&'static str> {
        self.next().0
    }

    /// Waits until `count` tasks wait.
    fn until_waiting(&self, count: usize) {
        let begun = Instant::now();
        while self.queue.waiting() != count {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} wait", self.queue.waiting());
            std::thread::yield_now();
        }
    }

    fn is_quiet(&self) -> bool {
        self.ran.recv_timeout(Duration::from_millis(50)).is_err()
    }
}

#[test]
fn what_does_not_fit_is_refused_and_the_rest_runs() {
    let bench = Bench::new(1, 2, Duration::ZERO);
    let go = bench.hold();
    bench.push(bench.task("one"));
    bench.push(bench.task("two"));
    assert_eq!(bench.queue.push(bench.task("three")).unwrap_err().waiting, 2);
    assert_eq!((bench.queue.waiting(), bench.queue.running()), (2, 1));
    go.send(()).unwrap();
    bench.queue.close();
    assert_eq!(bench.ran.try_iter().count(), 2);
}

#[test]
fn the_load_is_full_once_there_is_a_request_for_each_lane() {
    let bench = Bench::new(3, 2, Duration::ZERO);
    let held = [Load::Light, Load::Light, Load::Full].map(|load| {
        let (go, gate) = mpsc::channel();
        bench.push(Task { gate: Some(gate), ..bench.task("held") });
        // It runs before the next one comes.
        assert_eq!(bench.next().1, load);
        go
    });
    held.iter().for_each(|go| go.send(()).unwrap());
    bench.queue.close();
}

#[test]
fn a_panic_takes_no_lane_with_it() {
    let bench = Bench::new(1, 8, Duration::ZERO);
    bench.push(bench.task("panics"));
    bench.push(bench.task("one"));
    assert_eq!([bench.names(), bench.names()], [["panics"], ["one"]]);
}

#[test]
fn a_lane_takes_what_joins_the_first_and_leaves_the_rest_in_their_order() {
    let bench = Bench::new(1, 8, Duration::ZERO);
    let go = bench.hold();
    bench.push(bench.short("a1", 2));
    bench.push(bench.short("b1", 2));
    bench.push(bench.task("alone"));
    bench.push(bench.short("a2", 3));
    bench.push(bench.task("another"));
    bench.push(bench.short("b2", 3));
    go.send(()).unwrap();
    let ran = [(); 4].map(|()| bench.names());
    assert_eq!(ran, [vec!["a1", "a2"], vec!["b1", "b2"], vec!["alone"], vec!["another"]]);
}

#[test]
fn a_group_has_no_more_rows_than_it_may() {
    let bench = Bench::new(1, 8, Duration::ZERO);
    let go = bench.hold();
    for (name, rows) in [("a1", 4), ("a2", 5), ("a3", 2), ("a4", 1), ("a5", 9)] {
        bench.push(bench.short(name, rows));
    }
    go.send(()).unwrap();
    assert_eq!([(); 3].map(|()| bench.names()), [vec!["a1", "a2", "a4"], vec!["a3"], vec!["a5"]]);
}

#[test]
fn a_lane_takes_its_share_and_leaves_theirs_to_others() {
    let bench = Bench::new(2, 8, Duration::ZERO);
    let held = [bench.hold(), bench.hold()];
    for name in ["a1", "a2", "a3", "a4", "a5"] {
        bench.push(bench.short(name, 1));
    }
    held[0].send(()).unwrap();
    // Out of groups of five, of two, and of one.
    assert_eq!([(); 3].map(|()| bench.names()), [vec!["a1", "a2", "a3"], vec!["a4"], vec!["a5"]]);
    held[1].send(()).unwrap();
}

#[test]
fn what_is_over_has_no_room_and_is_answered() {
    let bench = Bench::new(1, 8, Duration::ZERO);
    let go = bench.hold();
    bench.push(bench.short("a1", 4));
    bench.push(Task { is_over: true, ..bench.short("a2", 9) });
    bench.push(bench.short("a3", 6));
    go.send(()).unwrap();
    assert_eq!(bench.names(), ["a1", "a2", "a3"]);
}

#[test]
fn nothing_waits_for_company_without_a_window() {
    let bench = Bench::new(1, 8, Duration::ZERO);
    for name in ["a1", "a2"] {
        bench.push(bench.short(name, 1));
        assert_eq!(bench.names(), [name]);
    }
}

#[test]
fn a_lane_waits_for_others_within_the_window() {
    let bench = Bench::new(1, 8, Duration::from_millis(400));
    let begun = Instant::now();
    bench.push(bench.short("a1", 1));
    bench.push(bench.short("a2", 1));
    bench.push(bench.short("a3", 1));
    assert_eq!(bench.names(), ["a1", "a2", "a3"]);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(400), "{took:?}");
}

#[test]
fn a_full_group_begins_before_the_window_ends() {
    let bench = Bench::new(1, 8, LONG);
    bench.push(bench.short("a1", 4));
    bench.until_waiting(1);
    assert!(bench.is_quiet());
    bench.push(bench.short("a2", 6));
    assert_eq!(bench.names(), ["a1", "a2"]);
}

#[test]
fn what_does_not_join_ends_the_window() {
    let bench = Bench::new(1, 8, LONG);
    bench.push(bench.short("a1", 4));
    bench.until_waiting(1);
    assert!(bench.is_quiet());
    bench.push(bench.task("alone"));
    assert_eq!([bench.names(), bench.names()], [["a1"], ["alone"]]);
}

#[test]
fn half_of_the_time_that_a_request_has_left_is_the_models() {
    let bench = Bench::new(1, 8, LONG);
    let begun = Instant::now();
    bench.push(bench.short("a1", 1));
    let mut hurried = bench.short("a2", 1);
    let deadline = Instant::now() + Duration::from_secs(2);
    hurried.joining.as_mut().unwrap().deadline = Some(deadline);
    bench.push(hurried);
    assert_eq!(bench.names(), ["a1", "a2"]);
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    assert!(Instant::now() < deadline, "there is time left");
}

#[test]
fn a_lane_waits_only_while_no_other_is_idle() {
    let bench = Bench::new(2, 8, LONG);
    bench.push(bench.short("a1", 1));
    assert_eq!(bench.next(), (vec!["a1"], Load::Light), "the other lane is idle");
    let go = bench.hold();
    bench.push(bench.short("a2", 1));
    bench.until_waiting(1);
    assert!(bench.is_quiet());
    // The other lane is idle now.
    go.send(()).unwrap();
    assert_eq!(bench.names(), ["a2"]);
}

#[test]
fn the_end_waits_for_no_window() {
    let bench = Bench::new(1, 8, LONG);
    bench.push(bench.short("a1", 1));
    bench.until_waiting(1);
    bench.queue.close();
    assert_eq!(bench.names(), ["a1"]);
}
