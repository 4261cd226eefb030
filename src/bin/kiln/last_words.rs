//! What the command says when it crashes: of which signal or panic, and which model, node and key was at work.

use kiln_kernels::crash;

/// From now on every crash of this process ends with such a line. What else it prints, and what it dies of, stay as they are.
pub(crate) fn prepare() {
    // Without handlers a crash is as silent as any other program's.
    let _ = crash::watch();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        if let Some(line) = of_panic() {
            eprintln!("{line}");
        }
    }));
}

/// The line of a panic, which some callers survive: a candidate of the tuner may fail. None where nothing is marked.
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
