//! The example runs to its end: fastembed finds texts of animals nearer to each other than to texts of weather.

use std::process::Command;

#[test]
fn fastembed_runs_on_kiln() {
    let done = Command::new(env!("CARGO_BIN_EXE_on-ort")).output().unwrap();
    let (out, problems) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{problems}");
    let first: Vec<f32> = out.lines().next().unwrap()["the cat sleeps".len()..]
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    assert!(first[1] > first[2] && first[3] > first[2], "{out}");
}
