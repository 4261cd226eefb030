//! The last line of a crash of the command: the signal or panic, and the model, node and key.

use kiln_kernels::crash;

/// From now on every crash of this process ends with such a line. Other output and the exit status do not change.
pub(crate) fn prepare() {
    // Without handlers there is no such line.
    let _ = crash::watch();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        if let Some(line) = of_panic() {
            eprintln!("{line}");
        }
    }));
}

/// The line of a panic, which may be caught: a candidate of the tuner may fail. `None` without marks.
fn of_panic() -> Option<String> {
    let doing = crash::trail();
    (!doing.is_empty()).then(|| format!("kiln: panicked, {doing}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_of_with_what_was_going_on() {
        assert_eq!(of_panic(), None);
        let told = crash::within(&"model m", || crash::within(&"node 'n' (Conv)", of_panic));
        assert_eq!(told.as_deref(), Some("kiln: panicked, model m, node 'n' (Conv)"));
    }
}
