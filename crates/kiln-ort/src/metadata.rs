//! A model's metadata.

use kiln::Metadata;

use crate::error::Result;
use crate::seam::handle::kind;
use crate::seam::{Allocator, Chars, Handle, Out, Text, entry};
use crate::session::Model;

/// `OrtModelMetadata`.
pub(crate) struct About(Metadata);

kind!(About = "OrtModelMetadata");

fn give(about: Handle<About>, allocator: Allocator, out: Out<Chars>, what: impl Fn(&Metadata) -> &str) -> Result<()> {
    let out = out.place("value")?;
    out.put(allocator.text(what(&about.get("model_metadata")?.0).as_bytes(), "allocator")?);
    Ok(())
}

entry! {
    fn SessionGetModelMetadata(session: Handle<Model>, out: Out<Handle<About>>) {
        let out = out.place("out")?;
        out.put(Handle::new(About(session.get("session")?.session.metadata().clone()))?);
        Ok(())
    }

    fn ModelMetadataGetProducerName(about: Handle<About>, allocator: Allocator, out: Out<Chars>) {
        give(about, allocator, out, |about| &about.producer_name)
    }

    fn ModelMetadataGetGraphName(about: Handle<About>, allocator: Allocator, out: Out<Chars>) {
        give(about, allocator, out, |about| &about.graph_name)
    }

    fn ModelMetadataGetDomain(about: Handle<About>, allocator: Allocator, out: Out<Chars>) {
        give(about, allocator, out, |about| &about.domain)
    }

    fn ModelMetadataGetDescription(about: Handle<About>, allocator: Allocator, out: Out<Chars>) {
        give(about, allocator, out, |about| &about.description)
    }

    fn ModelMetadataGetGraphDescription(about: Handle<About>, allocator: Allocator, out: Out<Chars>) {
        give(about, allocator, out, |about| &about.graph_description)
    }

    fn ModelMetadataGetVersion(about: Handle<About>, out: Out<i64>) {
        let out = out.place("value")?;
        out.put(about.get("model_metadata")?.0.version);
        Ok(())
    }

    fn ModelMetadataLookupCustomMetadataMap(
        about: Handle<About>,
        allocator: Allocator,
        key: Text,
        out: Out<Chars>,
    ) {
        let out = out.place("value")?;
        let about = about.get("model_metadata")?;
        let key = key.read("key")?;
        // Of equal keys the last one counts.
        let value = about.0.properties.iter().rev().find(|(known, _)| *known == key);
        out.put(match value {
            Some((_, value)) => allocator.text(value.as_bytes(), "allocator")?,
            None => std::ptr::null_mut(),
        });
        Ok(())
    }

    fn ModelMetadataGetCustomMetadataMapKeys(
        about: Handle<About>,
        allocator: Allocator,
        keys: Out<Out<Chars>>,
        count: Out<i64>,
    ) {
        let (keys, count) = (keys.place("keys")?, count.place("num_keys")?);
        let about = about.get("model_metadata")?;
        let mut texts: Vec<&str> = about.0.properties.iter().map(|(key, _)| key.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        keys.put(Out::from_raw(allocator.texts(&texts, "allocator")?));
        count.put(texts.len() as i64);
        Ok(())
    }

    fn ReleaseModelMetadata(about: Handle<About>) -> (), else () => {
        drop(about.release());
    }
}
