//! The loaded models, by name and version. A changed model is loaded beside the one that serves, and replaces it when
//! it is ready: no request is refused for it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{Loader, Model};
use crate::refusal::{Kind, Refusal};
use crate::repository::{self, Found, Signature, Source};
use crate::tally::Tally;

/// The state of a version.
enum State {
    Loading,
    Ready(Arc<dyn Model>),
    Unavailable,
    /// Unloaded by a client: it stays so until a client loads it.
    Unloaded,
}

struct Slot {
    state: State,
    /// Why it differs from its files.
    reason: String,
    signature: Signature,
    tally: Arc<Tally>,
}

/// A version of a model that is ready.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tally: Arc<Tally>,
}

/// A line of the index.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) state: &'static str,
    pub(crate) reason: String,
}

/// The changes that a search through the folders has made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Models that were loaded, as `NAME version V`.
    pub(crate) loaded: Vec<String>,
    /// Models that were not loaded, with the reason.
    pub(crate) failed: Vec<String>,
    /// Models that are gone.
    pub(crate) removed: Vec<String>,
}

type Slots = BTreeMap<String, BTreeMap<u64, Slot>>;

/// All models of a server.
pub(crate) struct Registry {
    sources: Vec<Source>,
    loader: Arc<dyn Loader>,
    slots: Mutex<Slots>,
    /// Held while models are loaded: one load at a time.
    loading: Mutex<()>,
}

impl Registry {
    pub(crate) fn new(sources: Vec<Source>, loader: Arc<dyn Loader>) -> Registry {
        Registry { sources, loader, slots: Mutex::default(), loading: Mutex::default() }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version with that number, or the highest ready version.
    pub(crate) fn get(&self, name: &str, version: Option<&str>) -> Result<Loaded, Refusal> {
        let slots = self.slots();
        let versions = slots.get(name).ok_or_else(|| Refusal::unknown(format!("there is no model '{name}'")))?;
        let ready = |(number, slot): (&u64, &Slot)| match &slot.state {
            State::Ready(model) => Some(Loaded {
                name: name.to_owned(),
                version: *number,
                model: Arc::clone(model),
                tally: Arc::clone(&slot.tally),
            }),
            _ => None,
        };
        let unknown = |version: &str| Refusal::unknown(format!("model '{name}' has no version {version}"));
        let (found, slot) = match version {
            None => (versions.iter().rev().find_map(ready), versions.values().next_back()),
            Some(text) => {
                let number: u64 = text.parse().map_err(|_| unknown(text))?;
                let slot = versions.get_key_value(&number).ok_or_else(|| unknown(text))?;
                (ready(slot), Some(slot.1))
            }
        };
        found.ok_or_else(|| match slot.map(|slot| (&slot.state, &slot.reason)) {
            Some((State::Loading, _)) => Refusal::new(Kind::Unavailable, format!("model '{name}' is being loaded")),
            Some((_, reason)) => Refusal::unknown(format!("model '{name}' is not loaded: {reason}")),
            None => Refusal::unknown(format!("model '{name}' is not loaded")),
        })
    }

    /// The ready versions of a model.
    pub(crate) fn versions(&self, name: &str) -> Vec<u64> {
        let slots = self.slots();
        let versions = slots.get(name).into_iter().flatten();
        versions.filter(|(_, slot)| matches!(slot.state, State::Ready(_))).map(|(version, _)| *version).collect()
    }

    /// All ready models.
    pub(crate) fn ready(&self) -> Vec<Loaded> {
        let mut all = Vec::new();
        for (name, versions) in &*self.slots() {
            for (version, slot) in versions {
                if let State::Ready(model) = &slot.state {
                    let (model, tally) = (Arc::clone(model), Arc::clone(&slot.tally));
                    all.push(Loaded { name: name.clone(), version: *version, model, tally });
                }
            }
        }
        all
    }

    /// All models, with their states.
    pub(crate) fn index(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (name, versions) in &*self.slots() {
            for (version, slot) in versions {
                let state = match slot.state {
                    State::Loading => "LOADING",
                    State::Ready(_) => "READY",
                    State::Unavailable | State::Unloaded => "UNAVAILABLE",
                };
                entries.push(Entry { name: name.clone(), version: *version, state, reason: slot.reason.clone() });
            }
        }
        entries
    }

    /// Searches the folders: loads models that are new or have changed, and drops models that are gone. A model that
    /// cannot be loaded leaves its earlier version in place.
    pub(crate) fn refresh(&self) -> io::Result<Changes> {
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let found = repository::find(&self.sources)?;
        let mut changes = Changes::default();
        for (name, found) in &found {
            if self.wants(name, found) {
                self.replace(name, found, &mut changes);
            }
        }
        let mut gone = Vec::new();
        self.slots().retain(|name, versions| {
            let is_there = found.contains_key(name);
            if !is_there {
                changes.removed.push(name.clone());
                gone.append(&mut std::mem::take(versions).into_values().collect());
            }
            is_there
        });
        // Dropping a model takes a while: not under the lock.
        drop(gone);
        Ok(changes)
    }

    fn wants(&self, name: &str, found: &Found) -> bool {
        let slots = self.slots();
        let Some(versions) = slots.get(name) else { return true };
        if versions.values().any(|slot| matches!(slot.state, State::Unloaded)) {
            return false;
        }
        versions.get(&found.version).is_none_or(|slot| slot.signature != found.signature)
    }

    /// Loads a model in place of its other versions.
    fn replace(&self, name: &str, found: &Found, changes: &mut Changes) -> bool {
        let fresh = |state, reason| Slot { state, reason, signature: found.signature.clone(), tally: Arc::default() };
        {
            let mut slots = self.slots();
            let versions = slots.entry(name.to_owned()).or_default();
            let slot = versions.entry(found.version).or_insert_with(|| fresh(State::Loading, String::new()));
            if !matches!(slot.state, State::Ready(_)) {
                slot.state = State::Loading;
            }
        }
        let loaded = self.loader.load(&found.file);
        let mut slots = self.slots();
        let versions = slots.entry(name.to_owned()).or_default();
        let slot = versions.entry(found.version).or_insert_with(|| fresh(State::Loading, String::new()));
        slot.signature = found.signature.clone();
        match loaded {
            Ok(model) => {
                slot.reason.clear();
                let before = std::mem::replace(&mut slot.state, State::Ready(model));
                let others: Vec<u64> = versions.keys().copied().filter(|&version| version != found.version).collect();
                let others: Vec<Option<Slot>> = others.iter().map(|version| versions.remove(version)).collect();
                drop(slots);
                drop((before, others));
                changes.loaded.push(format!("{name} version {}", found.version));
                true
            }
            Err(reason) => {
                changes.failed.push(format!("{name} version {}: {reason}", found.version));
                slot.reason = reason;
                if matches!(slot.state, State::Loading) {
                    slot.state = State::Unavailable;
                }
                false
            }
        }
    }

    /// Loads a model by its name, even if it was unloaded, and reloads a loaded one.
    pub(crate) fn load(&self, name: &str) -> Result<(), Refusal> {
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let found = repository::find(&self.sources)
            .map_err(|error| Refusal::new(Kind::Fault, format!("the folders: {}", error.kind())))?;
        let found = found.get(name).ok_or_else(|| Refusal::unknown(format!("there is no model '{name}'")))?;
        let mut changes = Changes::default();
        if self.replace(name, found, &mut changes) {
            return Ok(());
        }
        Err(Refusal::bad(format!("model '{name}' was not loaded: {}", changes.failed.join("; "))))
    }

    /// Unloads a model. Requests that have begun are answered.
    pub(crate) fn unload(&self, name: &str) -> Result<(), Refusal> {
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slots = self.slots();
        let versions = slots.get_mut(name).ok_or_else(|| Refusal::unknown(format!("there is no model '{name}'")))?;
        let mut before = Vec::new();
        for slot in versions.values_mut() {
            "unloaded".clone_into(&mut slot.reason);
            before.push(std::mem::replace(&mut slot.state, State::Unloaded));
        }
        drop(slots);
        drop(before);
        Ok(())
    }
}
