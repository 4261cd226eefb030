//! `--log-json`: a line of JSON on standard error for each request that has ended, and for each event of the server.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use jiff::Timestamp;
use kiln_serve::{Ended, Event, Journal, Stage};
use serde::Serialize;

/// The most lines that wait for the reader of the log. Further lines are counted and left out, because requests do not
/// wait for the log.
const WAITING: usize = 4096;

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    /// The time by RFC 3339 in UTC; for a request, when its headers were complete.
    time: String,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum What<'a> {
    Request {
        model: &'a str,
        version: u64,
        outcome: &'static str,
        seconds: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        queue_seconds: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        run_seconds: Option<f64>,
        /// The number of requests that shared the run, if more than one.
        #[serde(skip_serializing_if = "Option::is_none")]
        together: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        trace: Option<String>,
    },
    Ready {
        models: &'a [String],
    },
    Refreshed {
        loaded: &'a [String],
        failed: &'a [String],
        removed: &'a [String],
    },
    Draining,
    Ended,
    /// Lines that were left out before this one.
    LeftOut {
        lines: u64,
    },
}

/// The log of a server, written by a thread.
pub(super) struct Log {
    lines: Mutex<Option<SyncSender<String>>>,
    left_out: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Begins a log.
    pub(super) fn begin(to: impl Write + Send + 'static) -> std::io::Result<Log> {
        let (sender, lines) = sync_channel(WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let missing = Arc::clone(&left_out);
        let thread = std::thread::Builder::new().name("kiln-log".to_owned());
        let writer = thread.spawn(move || write(&lines, &missing, to))?;
        Ok(Log { lines: Mutex::new(Some(sender)), left_out, writer: Mutex::new(Some(writer)) })
    }

    /// Logs an event of the server.
    pub(super) fn note(&self, event: &Event) {
        self.add(
            SystemTime::now(),
            match event {
                Event::Ready(models) => What::Ready { models },
                Event::Refreshed { loaded, failed, removed } => What::Refreshed { loaded, failed, removed },
                Event::Draining => What::Draining,
            },
        );
    }

    /// Logs that the server has ended, and waits until all lines are written.
    pub(super) fn end(&self) {
        self.add(SystemTime::now(), What::Ended);
        drop(self.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A writer that has panicked has nothing more to write.
        let _ = writer.map(JoinHandle::join);
    }

    fn add(&self, time: SystemTime, what: What<'_>) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lines) = lines.as_ref() else { return };
        let Some(line) = line(time, what) else { return };
        if matches!(lines.try_send(line), Err(TrySendError::Full(_))) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Journal for Log {
    fn ended(&self, request: &Ended<'_>) {
        let seconds = |stage: Stage| stage.time.as_secs_f64();
        self.add(
            request.began,
            What::Request {
                model: request.model,
                version: request.version,
                outcome: request.outcome,
                seconds: request.took.as_secs_f64(),
                queue_seconds: request.queued.map(seconds),
                run_seconds: request.ran.map(seconds),
                together: Some(request.together).filter(|&together| together > 1),
                error: request.error,
                trace: request.caller.map(|caller| caller.to_string()),
            },
        );
    }
}

fn line(time: SystemTime, what: What<'_>) -> Option<String> {
    let time = Timestamp::try_from(time).ok()?;
    let mut line = serde_json::to_string(&Line { time: format!("{time:.6}"), what }).ok()?;
    line.push('\n');
    Some(line)
}

/// Writes lines as they come. If the reader is gone, only the log ends.
fn write(lines: &Receiver<String>, left_out: &AtomicU64, mut to: impl Write) {
    for text in lines {
        let missing = left_out.swap(0, Ordering::Relaxed);
        let note = if missing > 0 { line(SystemTime::now(), What::LeftOut { lines: missing }) } else { None };
        for text in note.iter().chain([&text]) {
            let _ = to.write_all(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A writer whose writes wait until the test lets them go on.
    struct Gate(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stands_still_holds_nothing_up_and_is_told_what_it_missed() {
        let (go, gate) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = Log::begin(Gate(gate, Arc::clone(&written))).unwrap();
        for _ in 0..WAITING + 100 {
            log.note(&Event::Draining);
        }
        drop(go);
        log.end();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count() as u64;
        let missing: u64 = lines.iter().filter_map(|line| line["lines"].as_u64()).sum();
        assert!(missing >= 99, "{missing}");
        assert_eq!(count("draining") + count("ended") + missing, WAITING as u64 + 101);
        let time: Timestamp = lines[0]["time"].as_str().unwrap().parse().unwrap();
        assert!(Timestamp::now().duration_since(time).as_secs() < 3600, "{}", lines[0]);
    }
}
