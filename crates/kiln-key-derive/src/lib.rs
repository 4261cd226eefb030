//! The derive macros of `kiln-key`, which re-exports them: use them from there.
//!
//! `Mutate` writes `kiln_key::Mutate` for a struct or an enum: a sample of it, and the values that differ from a given
//! one in a single place. `Key` writes `kiln_key::Key` beside it, and a test of the laws of keys. Both take the type
//! apart by its declaration, so a field that is added later is covered without a line more.
//!
//! `attributes` reads `#[key(...)]`, `mutate` writes the one impl and `key` the other.

#![deny(unsafe_code)]

mod attributes;
mod key;
mod mutate;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Writes `kiln_key::Mutate` for a struct or an enum of types that have it: see the trait for what that is.
///
/// The sample of a struct is made of the samples of its fields, that of an enum is its first variant. A field's name
/// begins the path of what is mutated in it; the single field of a tuple struct adds nothing to the path.
///
/// `#[key(crate = path)]` on the type says where `kiln-key` is, if that is not `::kiln_key`.
#[proc_macro_derive(Mutate, attributes(key))]
pub fn derive_mutate(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    attributes::read(&input)
        .and_then(|attributes| mutate::write(&input, &attributes))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Writes `kiln_key::Key` and `kiln_key::Mutate` for a struct or an enum, and a test that it obeys the laws of keys.
///
/// On the type stands `#[key(family = "NAME", value = TYPE)]`: what values of the kind are called, and their type.
/// Besides:
///
/// - `laws = path`: the function, of the key's type alone, that the test calls in place of `kiln_key::laws::check`;
/// - `no_laws`: no test, for types that tests cannot name. Types with parameters have none either: a test is of one
///   type;
/// - `crate = path`: where `kiln-key` is, if that is not `::kiln_key`.
///
/// The test is called `NAME_OF_THE_TYPE_obeys_the_laws_of_keys` in snake case and stands beside the type.
#[proc_macro_derive(Key, attributes(key))]
pub fn derive_key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    attributes::read(&input)
        .and_then(|attributes| {
            let mut tokens = key::write(&input, &attributes)?;
            tokens.extend(mutate::write(&input, &attributes)?);
            Ok(tokens)
        })
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
