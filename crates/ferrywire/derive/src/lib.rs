//! `#[derive(Plain)]`: implements `ferrywire::Plain` for a struct, after checking at compile time that its bytes can
//! be sent as they are.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, parse_macro_input};

/// Implements `ferrywire::Plain` for a struct.
///
/// The struct must be `repr(C)` or `repr(transparent)`, so that all ranks agree on where its fields are; every field
/// must be `Plain`; and there must be no padding between or after them, because uninitialised bytes cannot be sent. A
/// struct that breaks one of these rules does not compile.
#[proc_macro_derive(Plain)]
pub fn derive_plain(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn expand(input: &DeriveInput) -> Result<Tokens, Error> {
    let name = &input.ident;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            name,
            "only a struct is plain: not every bit pattern is a variant of an enum",
        ));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "a generic struct cannot be checked for padding: derive Plain for a concrete one",
        ));
    }
    if !has_fixed_layout(input)? {
        return Err(Error::new_spanned(
            name,
            "add #[repr(C)]: without it the order of the fields is not fixed",
        ));
    }
    let fields = match &data.fields {
        Fields::Unit => Vec::new(),
        Fields::Named(fields) => fields.named.iter().map(|field| &field.ty).collect(),
        Fields::Unnamed(fields) => fields.unnamed.iter().map(|field| &field.ty).collect(),
    };
    Ok(quote! {
        const _: () = {
            fn is_plain<T: ::ferrywire::Plain>() {}
            fn fields_are_plain() {
                #(is_plain::<#fields>();)*
            }
            ::core::assert!(
                ::core::mem::size_of::<#name>() == 0 #(+ ::core::mem::size_of::<#fields>())*,
                "a struct with padding is not plain: order its fields by size, or name the gaps",
            );
            // SAFETY: the fields are plain, laid out in order, and there is no padding between them.
            unsafe impl ::ferrywire::Plain for #name {}
        };
    })
}

/// Whether `repr(C)` or `repr(transparent)` is among the attributes.
fn has_fixed_layout(input: &DeriveInput) -> Result<bool, Error> {
    let mut fixed = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            fixed |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            // Skips the arguments of `align(16)` and `packed(2)`.
            if meta.input.peek(syn::token::Paren) {
                let inside;
                syn::parenthesized!(inside in meta.input);
                inside.parse::<Tokens>()?;
            }
            Ok(())
        })?;
    }
    Ok(fixed)
}
