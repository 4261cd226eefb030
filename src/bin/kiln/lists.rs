//! `kiln ops`: what there is, one line each.

use std::io::Write;

use crate::failure::Outcome;

/// Operators, by domain and name.
pub(crate) fn ops(screen: &mut dyn Write) -> Outcome {
    let mut operators: Vec<(&str, &str)> = kiln::ops::all().collect();
    operators.sort_unstable();
    operators.dedup();
    for (domain, op) in operators {
        let domain = if domain.is_empty() { "ai.onnx" } else { domain };
        writeln!(screen, "{domain}.{op}")?;
    }
    Ok(())
}
