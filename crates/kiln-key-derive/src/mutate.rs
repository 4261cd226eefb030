//! `impl Mutate`: a sample, and every place changed.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Generics, Ident, Path, Result, parse_quote};

use crate::attributes::Attributes;

/// `impl Mutate` for a struct or an enum.
pub(crate) fn write(input: &DeriveInput, attributes: &Attributes) -> Result<TokenStream> {
    let (name, home) = (&input.ident, &attributes.home);
    let (sample, mutants) = match &input.data {
        Data::Struct(data) => of_struct(&data.fields, home),
        Data::Enum(data) => {
            let variants: Vec<(&Ident, &Fields)> = data.variants.iter().map(|one| (&one.ident, &one.fields)).collect();
            if variants.is_empty() {
                return Err(Error::new_spanned(name, "an enum without variants has no values to mutate"));
            }
            of_enum(&variants, home)
        }
        Data::Union(data) => return Err(Error::new_spanned(data.union_token, "what a union holds cannot be told")),
    };
    let bounded = with_bounds(&input.generics, home);
    let (generics, _, bounds) = bounded.split_for_impl();
    let (_, arguments, _) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics #home::Mutate for #name #arguments #bounds {
            fn sample() -> Self {
                #sample
            }

            fn mutants(&self) -> ::std::vec::Vec<(::std::string::String, Self)> {
                let mut out = ::std::vec::Vec::new();
                #mutants
                out
            }
        }
    })
}

/// The parameters, each with the bound that a field of its type needs.
fn with_bounds(generics: &Generics, home: &Path) -> Generics {
    let mut generics = generics.clone();
    let parameters: Vec<Ident> = generics.type_params().map(|parameter| parameter.ident.clone()).collect();
    if !parameters.is_empty() {
        let clause = generics.make_where_clause();
        for parameter in parameters {
            clause.predicates.push(parse_quote!(#parameter: #home::Mutate));
        }
    }
    generics
}

/// The value of a struct or a variant whose fields are samples.
fn sample(of: &TokenStream, fields: &Fields, home: &Path) -> TokenStream {
    let names = fields.members();
    quote! { #of { #(#names: #home::Mutate::sample()),* } }
}

/// A local name for each field.
fn bindings(fields: &Fields) -> Vec<Ident> {
    (0..fields.len()).map(|index| format_ident!("field_{index}")).collect()
}

/// What stands for each field in paths: its name or its number, and nothing for the only one of those without names.
fn labels(fields: &Fields) -> Vec<String> {
    match fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => vec![String::new()],
        fields => fields
            .members()
            .map(|member| match member {
                syn::Member::Named(name) => name.to_string().trim_start_matches("r#").to_owned(),
                syn::Member::Unnamed(index) => index.index.to_string(),
            })
            .collect(),
    }
}

/// Pushes the mutants of each field, which `bindings` name, as values of `of`; `before` begins their paths.
fn inside(of: &TokenStream, fields: &Fields, before: &str, home: &Path) -> TokenStream {
    let (own, members) = (bindings(fields), fields.members().collect::<Vec<_>>());
    let places = own.iter().zip(labels(fields)).enumerate().map(|(place, (binding, label))| {
        let values = own.iter().enumerate().map(|(index, binding)| match index == place {
            true => quote!(value),
            false => quote!(::std::clone::Clone::clone(#binding)),
        });
        quote! {
            for (path, value) in #home::Mutate::mutants(#binding) {
                let path = #home::join_path(#before, &#home::join_path(#label, &path));
                out.push((path, #of { #(#members: #values),* }));
            }
        }
    });
    quote! { #(#places)* }
}

fn of_struct(fields: &Fields, home: &Path) -> (TokenStream, TokenStream) {
    let of = quote!(Self);
    let (members, own) = (fields.members(), bindings(fields));
    let places = inside(&of, fields, "", home);
    let mutants = quote! {
        let Self { #(#members: #own),* } = self;
        #places
    };
    (sample(&of, fields, home), mutants)
}

fn of_enum(variants: &[(&Ident, &Fields)], home: &Path) -> (TokenStream, TokenStream) {
    let samples: Vec<TokenStream> =
        variants.iter().map(|(name, fields)| sample(&quote!(Self::#name), fields, home)).collect();
    let arms = variants.iter().map(|(name, fields)| {
        let (members, own) = (fields.members(), bindings(fields));
        let places = inside(&quote!(Self::#name), fields, &name.to_string(), home);
        quote! { Self::#name { #(#members: #own),* } => { #places } }
    });
    let mutants = quote! {
        match self {
            #(#arms)*
        }
        for other in [#(#samples),*] {
            if ::std::mem::discriminant(&other) != ::std::mem::discriminant(self) {
                out.push((::std::string::String::new(), other));
            }
        }
    };
    (samples[0].clone(), mutants)
}
