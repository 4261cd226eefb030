//! What the command says when it crashes: of which signal or panic, and which model, node and key was at work.

use kiln_kernels::crash;

/// From now on every crash of this process ends with such a line. What else it prints, and what it dies of, stay as they are.
pub(crate) fn prepare() {
    // Without handlers a crash is as silent as any other program's.
    let _ = crash::watch();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        let doing = crash::trail();
        if !doing.is_empty() {
            eprintln!("kiln: crashed: panic, {doing}");
        }
    }));
}
