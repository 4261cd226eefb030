//! `impl Key`, and the test of its laws.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Result, parse_quote};

use crate::attributes::{Attributes, missing};

/// `impl Key`, and where the type has no parameters the test.
pub(crate) fn write(input: &DeriveInput, attributes: &Attributes) -> Result<TokenStream> {
    let family = attributes.family.as_ref().ok_or_else(|| missing(input, "family"))?;
    let value = attributes.value.as_ref().ok_or_else(|| missing(input, "value"))?;
    let (name, home) = (&input.ident, &attributes.home);
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let test = (attributes.has_laws && input.generics.params.is_empty()).then(|| {
        let test = format_ident!("{}_obeys_the_laws_of_keys", snake_case(&name.to_string()));
        let laws = attributes.laws.clone().unwrap_or_else(|| parse_quote!(#home::laws::check));
        quote! {
            #[cfg(test)]
            #[test]
            fn #test() {
                #laws::<#name>();
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #generics #home::Key for #name #arguments #bounds {
            type Value = #value;
            const FAMILY: &'static str = #family;
        }

        #test
    })
}

/// `MatMulKey` as `mat_mul_key`.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (index, letter) in name.trim_start_matches("r#").char_indices() {
        if letter.is_uppercase() && index > 0 {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;
    use crate::attributes::read;

    fn written(input: DeriveInput) -> Result<String> {
        write(&input, &read(&input)?).map(|tokens| tokens.into_token_stream().to_string())
    }

    #[test]
    fn names_of_tests_are_those_of_functions() {
        assert_eq!(snake_case("MatMulKey"), "mat_mul_key");
        assert_eq!(snake_case("r#Type"), "type");
    }

    #[test]
    fn a_key_has_a_test_unless_it_asks_for_none_or_has_parameters() {
        let text = written(parse_quote! { #[key(family = "a", value = u8)] struct A; }).unwrap();
        assert!(text.contains("a_obeys_the_laws_of_keys") && text.contains(":: kiln_key :: laws :: check"), "{text}");
        let text = written(parse_quote! { #[key(family = "a", value = u8, laws = b::c)] struct A; }).unwrap();
        assert!(text.contains("b :: c :: < A > ()"), "{text}");
        for without in [
            parse_quote! { #[key(family = "a", value = u8, no_laws)] struct A; },
            parse_quote! { #[key(family = "a", value = u8)] struct A<T>(T); },
        ] {
            assert!(!written(without).unwrap().contains("obeys"));
        }
    }

    #[test]
    fn what_is_missing_or_unknown_is_said() {
        let error = |input| written(input).unwrap_err().to_string();
        assert!(error(parse_quote! { #[key(value = u8)] struct A; }).contains("`family` is not given"));
        assert!(error(parse_quote! { #[key(family = "a")] struct A; }).contains("`value` is not given"));
        assert!(error(parse_quote! { #[key(families = "a")] struct A; }).contains("expected `family`"));
    }
}
