//! `kiln knobs` and `kiln ops`: lists of knobs and of operators.

use std::io::Write;

use crate::failure::Outcome;

/// Environment variables with their meaning.
pub(crate) fn knobs(screen: &mut dyn Write) -> Outcome {
    writeln!(screen, "A flag wins over its variable; an empty variable counts as unset.\n")?;
    for knob in kiln_knobs::KNOBS {
        let default = if knob.default.is_empty() { String::new() } else { format!("; default {}", knob.default) };
        writeln!(screen, "{} ({}{default})\n   {}", knob.variable, knob.allowed, knob.about)?;
    }
    Ok(())
}

/// Operators, by domain and name.
pub(crate) fn ops(screen: &mut dyn Write) -> Outcome {
    let mut operators: Vec<(&str, &str)> = kiln_ops::all().chain(kiln_model::onnx::expanded()).collect();
    operators.sort_unstable();
    operators.dedup();
    for (domain, op) in operators {
        let domain = if domain.is_empty() { "ai.onnx" } else { domain };
        writeln!(screen, "{domain}.{op}")?;
    }
    Ok(())
}
