//! Servers that are down, silent or lying, on a socket of this process.
//!
//! They speak enough Redis and HTTP to be believed until the lie.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kiln_run::record::{Credentials, RemoteError, connect};

use crate::allocations::peak;
use crate::servers::{bench, free_port};

/// The most that a client may ask for.
const MOST: usize = 24 << 20;
/// The bytes that the worst liar sends.
const HUGE: usize = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// Takes connections and says nothing.
    Silence,
    /// Says something that no protocol knows.
    Garbage,
    /// Begins well and hangs up in the middle.
    Half,
    /// Sends far more than it announced.
    Huge,
    /// Gives a text in place of a record file.
    Text,
}

/// A server that gives each client that wrong answer, for as long as the process lives.
fn liar(lie: Lie) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || drop(talk(stream, lie)));
        }
    });
    port
}

fn talk(mut stream: TcpStream, lie: Lie) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let read = stream.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&bytes[..read]).into_owned();
        match lie {
            Lie::Silence => continue,
            Lie::Garbage => stream.write_all(&[0x89, 0, 255, 13, 7, 10, 42, 36, 58].repeat(500))?,
            _ if said.starts_with("HEAD ") => {
                let length = if lie == Lie::Text { 13 } else { 5000 };
                stream.write_all(http(length).as_bytes())?;
            }
            _ if said.starts_with("GET ") || said.starts_with("PUT ") => match lie {
                Lie::Text => stream.write_all(format!("{}404 not found", http(13)).as_bytes())?,
                Lie::Half => return stream.write_all(format!("{}but", http(5000)).as_bytes()),
                _ => {
                    stream.write_all(http(HUGE).as_bytes())?;
                    flood(&mut stream)?;
                }
            },
            _ => {
                // A client says several things at once, each on lines of its own.
                for word in said.split("\r\n").map(str::to_ascii_uppercase) {
                    match (&*word, lie) {
                        ("CLIENT" | "SELECT" | "AUTH" | "SET", _) => stream.write_all(b"+OK\r\n")?,
                        ("PING", _) => stream.write_all(b"+PONG\r\n")?,
                        ("EXISTS", _) => stream.write_all(b":1\r\n")?,
                        ("STRLEN", Lie::Text) => stream.write_all(b":13\r\n")?,
                        ("STRLEN", _) => stream.write_all(b":5000\r\n")?,
                        ("GET", Lie::Text) => stream.write_all(b"$13\r\n404 not found\r\n")?,
                        ("GET", Lie::Half) => return stream.write_all(b"$5000\r\nbut"),
                        ("GET", _) => {
                            stream.write_all(format!("${HUGE}\r\n").as_bytes())?;
                            flood(&mut stream)?;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

fn http(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: {length}\r\n\r\n")
}

fn flood(stream: &mut TcpStream) -> std::io::Result<()> {
    let part = vec![b'x'; 1 << 20];
    (0..HUGE).step_by(part.len()).try_for_each(|_| stream.write_all(&part))
}

/// The URLs of both kinds for a server at that port.
fn urls(port: u16) -> [String; 2] {
    let s3 = format!("s3://records/fleet?endpoint=http://127.0.0.1:{port}&region=us-east-1");
    [format!("redis://127.0.0.1:{port}/fleet"), s3]
}

#[test]
fn whatever_a_server_sends_time_and_memory_are_bounded() {
    for lie in [Lie::Garbage, Lie::Half, Lie::Huge, Lie::Silence] {
        // S3 wants keys, which a process has from its environment: the next test but one is about it.
        let [url, _] = urls(liar(lie));
        let remote = connect(&url, &Credentials::default()).unwrap();
        let started = Instant::now();
        // The client works on its caller's thread, so its memory is counted.
        let (got, held) = peak(|| remote.get("file", MOST));
        println!("{lie:?} {url}: {:?} after {:?}, {held} bytes held", got.as_ref().map(|_| ()), started.elapsed());
        assert!(got.is_err(), "{lie:?} {url}");
        assert!(started.elapsed() < Duration::from_secs(20), "{lie:?} {url}");
        assert!(held < 3 * MOST, "{lie:?} {url}: {held} bytes");
    }
}

#[test]
fn a_server_that_is_down_is_an_error_at_once() {
    let [redis, s3] = urls(free_port());
    for url in [redis, s3] {
        let remote = connect(&url, &Credentials::default()).unwrap();
        let started = Instant::now();
        let error = remote.get("file", MOST).unwrap_err();
        println!("{url}: {error} after {:?}", started.elapsed());
        assert!(matches!(error, RemoteError::Failed(_) | RemoteError::TimedOut(_)), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}

/// A process serves every request whatever the store does, learns nothing from it, and says so.
#[test]
fn inference_goes_on_whatever_the_store_does() {
    let settings = [("AWS_ACCESS_KEY_ID", "anybody"), ("AWS_SECRET_ACCESS_KEY", "anything")];
    let ports =
        [Lie::Silence, Lie::Garbage, Lie::Half, Lie::Huge, Lie::Text].map(|lie| (format!("{lie:?}"), liar(lie)));
    for (what, port) in ports.into_iter().chain([("down".to_owned(), free_port())]) {
        for url in urls(port) {
            let folder = tempfile::tempdir().unwrap();
            let started = Instant::now();
            let report = bench(folder.path(), &url, &settings, &[]);
            let took = started.elapsed();
            println!("{what} {url}: {took:?}, {} MB at most, {}", report["peak_mb"], report["records"]);
            assert!(report["peak_mb"].as_f64().unwrap() < 90.0, "{what} {url}: {report}");
            assert!(took < Duration::from_secs(60), "{what} {url}: {took:?}");
            assert_eq!(report["records"]["remote_taken"], 0, "{what} {url}");
            assert!(report["records"]["records"].as_u64().unwrap() > 0, "{what} {url}");
            let local = kiln_run::record::inspect_folder(folder.path()).unwrap();
            assert!(!local.is_empty(), "{what} {url}: the local file is written");
        }
    }
}
