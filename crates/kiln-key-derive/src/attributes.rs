//! What `#[key(...)]` on a type says.

use quote::ToTokens;
use syn::{DeriveInput, LitStr, Path, Result, Type, parse_quote};

/// What was said, or the default.
pub(crate) struct Attributes {
    /// Where `kiln-key` is.
    pub(crate) home: Path,
    pub(crate) family: Option<LitStr>,
    pub(crate) value: Option<Type>,
    /// The function that the test calls.
    pub(crate) laws: Option<Path>,
    pub(crate) has_laws: bool,
}

/// Reads all `#[key(...)]` of a type.
pub(crate) fn read(input: &DeriveInput) -> Result<Attributes> {
    let mut read = Attributes { home: parse_quote!(::kiln_key), family: None, value: None, laws: None, has_laws: true };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("key")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("no_laws") {
                read.has_laws = false;
                return Ok(());
            }
            let name = meta.path.to_token_stream().to_string();
            let value = meta.value();
            match name.as_str() {
                "family" => read.family = Some(value?.parse()?),
                "value" => read.value = Some(value?.parse()?),
                "laws" => read.laws = Some(value?.call(Path::parse_mod_style)?),
                "crate" => read.home = value?.call(Path::parse_mod_style)?,
                _ => return Err(meta.error("expected `family`, `value`, `laws`, `no_laws` or `crate`")),
            }
            Ok(())
        })?;
    }
    Ok(read)
}

/// The error of a key for which something that has no default was not said.
pub(crate) fn missing(input: &DeriveInput, what: &str) -> syn::Error {
    let message = format!("a key needs `#[key(family = \"NAME\", value = TYPE)]`; `{what}` is not given");
    syn::Error::new_spanned(&input.ident, message)
}
