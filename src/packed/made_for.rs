//! What a packed model is made for: all facts that determine its graph and its panels.

use kiln_kernels::cpu::{Numerics, Precision};
use kiln_kernels::{EMITTER_REVISION, Extension, Extensions, Isa};
use kiln_run::record::BUILD;

/// A digest of the sources of packed models.
const SOURCES: &str = env!("KILN_SOURCES");

/// Facts by name, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFor(pub Vec<(String, String)>);

impl MadeFor {
    /// The facts of models packed here for that level and these passes, to be used by `user`.
    #[must_use]
    pub fn here(isa: Isa, precision: Precision, numerics: Numerics, passes: &str, user: &str) -> MadeFor {
        let mut facts = vec![("use", user.to_owned())];
        facts.extend(BUILD.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let beside = Extensions::beside(isa);
        let extensions = Extension::ALL.into_iter().filter(|extension| beside.contains(*extension));
        facts.push(("models", kiln_model::SOURCES.to_owned()));
        facts.push(("run", kiln_run::SOURCES.to_owned()));
        facts.push(("operators", kiln_ops::SOURCES.to_owned()));
        facts.push(("packed", SOURCES.to_owned()));
        facts.push(("emitter", EMITTER_REVISION.to_string()));
        facts.push(("isa", isa.name().to_owned()));
        facts.push(("extensions", extensions.map(Extension::name).collect::<Vec<_>>().join(",")));
        facts.push(("elements", format!("{:?}", precision.elements(isa))));
        facts.push(("precision", format!("{precision:?}")));
        facts.push(("numerics", format!("{numerics:?}")));
        facts.push(("passes", passes.to_owned()));
        MadeFor(facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The first fact in which two differ, with the values of both.
    #[must_use]
    pub fn difference<'a>(&'a self, other: &'a MadeFor) -> Option<(&'a str, &'a str, &'a str)> {
        let value = |facts: &'a MadeFor, name: &str| {
            facts.0.iter().find(|(known, _)| known == name).map_or("not said", |(_, value)| value.as_str())
        };
        let names = self.0.iter().chain(&other.0).map(|(name, _)| name.as_str());
        names.map(|name| (name, value(self, name), value(other, name))).find(|(_, own, theirs)| own != theirs)
    }
}
