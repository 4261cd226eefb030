//! Pairs of texts (`OrtKeyValuePairs`), sorted by their keys.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::PoisonError;

use kiln_fork::Mutex;

use crate::seam::c_text;
use crate::seam::handle::kind;
use crate::seam::{Handle, List, Out, Text, entry};

/// A map whose keys and values callers read in place.
#[derive(Default)]
pub(crate) struct Pairs(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    pairs: BTreeMap<CString, CString>,
    /// Pointers to the keys and to the values, in order. A change makes new lists, so that earlier lists are no longer
    /// valid, as the header says.
    keys: Vec<Text>,
    values: Vec<Text>,
}

kind!(Pairs = "OrtKeyValuePairs");

impl Pairs {
    /// Adds a pair, or replaces the value of its key. An empty key is ignored.
    pub(crate) fn add(&self, key: &str, value: &str) {
        if key.is_empty() {
            return;
        }
        self.change(|pairs| {
            pairs.insert(c_text(key), c_text(value));
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<CString, CString>)) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = &mut *inside;
        change(&mut inside.pairs);
        inside.keys = inside.pairs.keys().map(|key| Text::within(key)).collect();
        inside.values = inside.pairs.values().map(|value| Text::within(value)).collect();
    }
}

entry! {
    fn CreateKeyValuePairs(out: Out<Handle<Pairs>>) -> (), else () => {
        out.put_if_wanted(Handle::new(Pairs::default()).unwrap_or(Handle::NULL));
    }

    fn AddKeyValuePair(pairs: Handle<Pairs>, key: Text, value: Text) -> (), else () => {
        if let Some(pairs) = pairs.live()
            && !key.is_null()
        {
            pairs.add(&key.lossy(), &value.lossy());
        }
    }

    fn GetKeyValue(pairs: Handle<Pairs>, key: Text) -> Text, else Text::NULL => {
        let Some(pairs) = pairs.live() else { return Text::NULL };
        let inside = pairs.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.pairs.get(&c_text(&key.lossy())).map_or(Text::NULL, |value| Text::within(value))
    }

    fn GetKeyValuePairs(pairs: Handle<Pairs>, keys: Out<List<Text>>, values: Out<List<Text>>, count: Out<usize>)
        -> (), else () =>
    {
        let Some(pairs) = pairs.live() else { return count.put_if_wanted(0) };
        let inside = pairs.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.put_if_wanted(List::within(&inside.keys));
        values.put_if_wanted(List::within(&inside.values));
        count.put_if_wanted(inside.keys.len());
    }

    fn RemoveKeyValuePair(pairs: Handle<Pairs>, key: Text) -> (), else () => {
        if let Some(pairs) = pairs.live() {
            pairs.change(|map| {
                map.remove(&c_text(&key.lossy()));
            });
        }
    }

    fn ReleaseKeyValuePairs(pairs: Handle<Pairs>) -> (), else () => {
        drop(pairs.release());
    }
}
